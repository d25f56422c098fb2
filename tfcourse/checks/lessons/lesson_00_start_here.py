"""Lesson 00: a dot product, checked by unequal sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tfcourse.checks.exercise import Case, Exercise, Variant, randn
from tfcourse.checks.quiz import Item, Option

LESSON = "00_start_here"


def _similarities_cases() -> list[Case]:
    cases = []
    for seed, keys, d in ((0, 3, 5), (1, 7, 2), (2, 1, 4)):
        q, k = randn(seed, (d,), (keys, d))
        cases.append(Case((q, k)))
    return cases


def similarities(q: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Dot product of one query with every key: (d,), (keys, d) -> (keys,)."""
    return keys @ q


SIMILARITIES = Exercise(
    name="similarities",
    lesson=LESSON,
    title="similarities",
    cases=_similarities_cases,
    witness=similarities,
    reference=similarities,
    axes=("keys",),
    hints=(
        "Start with one key: how did the cell above get one number from two vectors?",
        "Multiply number by number, then add up. Which axis of `keys` belongs to the numbers of "
        "one vector, which one counts the vectors?",
        "`q` has shape (d,) and `keys` (keys, d). A product of the two broadcasts q to every row; "
        "what is left is to get rid of the axis d.",
    ),
    variants={
        "no-sum": Variant(
            "You multiply number by number and stop there. A dot product adds these products up: "
            "one number for each key.",
            lambda q, keys: q * keys,
        ),
        "summed-over-keys": Variant(
            "You add up over the keys: the result has one number for each dimension. Add up over "
            "the dimensions, so that each key keeps a number of its own.",
            lambda q, keys: (q * keys).sum(0),
        ),
        "summed-over-all": Variant(
            "You add up everything: one number for all keys together. Each key needs its own.",
            lambda q, keys: (q * keys).sum(),
        ),
        "mean": Variant(
            "This is the mean of the products. A dot product is their sum: the mean is smaller by "
            "the factor d, another one for each length of the vectors.",
            lambda q, keys: (q * keys).mean(-1),
        ),
        "cosine": Variant(
            "This is the cosine: you divide by the lengths of the vectors. The plain dot product "
            "does not; a longer key counts for more.",
            lambda q, keys: F.cosine_similarity(q[None], keys, dim=-1),
        ),
        "distance": Variant(
            "This is a distance: small where the vectors are alike. A dot product is large there.",
            lambda q, keys: (q - keys).norm(dim=-1),
        ),
        "softmax": Variant(
            "These are already weights that sum to one (a softmax). Here the plain dot products "
            "are asked for; the softmax comes in lesson 01.",
            lambda q, keys: torch.softmax(keys @ q, dim=-1),
        ),
        "absolute": Variant(
            "The signs are lost. A negative dot product says: these two point in opposite ways.",
            lambda q, keys: (keys @ q).abs(),
        ),
    },
)


def _cosine_cases() -> list[Case]:
    cases = []
    for seed, n_queries, n_keys, d in ((0, 2, 5, 3), (1, 6, 4, 7)):
        q, k = randn(seed, (n_queries, d), (n_keys, d))
        cases.append(Case((q, k), gradients=True))
    q, k = randn(2, (3, 4), (2, 4))
    cases.append(Case((q * 1000, k / 1000), note="long queries, short keys"))
    cases.append(Case((q / 10000, k / 10000), note="both very short"))
    k = torch.cat([k, torch.zeros(1, 4)])
    cases.append(Case((q, k), note="the last key is all zeros", nan=_ZERO_KEY))
    return cases


def _cosines(queries, keys):
    return F.cosine_similarity(queries[:, None], keys[None], dim=-1)


def _lengths(case) -> tuple[torch.Tensor, torch.Tensor]:
    """Lengths of the queries, as a column, and of the keys, as a row."""
    queries, keys = case.args
    return queries.norm(dim=-1)[:, None], keys.norm(dim=-1)[None]


def _times_lengths(power_q, power_k):
    """The right cosines with some of the division by lengths undone (or done again)."""

    def spoil(case, right):
        a, b = _lengths(case)
        return right * a**power_q * b.clamp(min=1e-8) ** power_k

    return spoil


_ZERO_KEY = (
    "zero-key",
    "Right but for the key of all zeros: 0/0 is NaN, and one NaN spreads through a whole network. "
    "A vector without direction is similar to nothing: 0.",
)


COSINES = Exercise(
    name="cosine_similarities",
    lesson=LESSON,
    title="cosine similarities (graded)",
    cases=_cosine_cases,
    witness=_cosines,
    axes=("queries", "keys"),
    hints=(
        "The cosine does not care how long the vectors are: what could you do to every vector "
        "before the dot product, so that its length no longer matters?",
        "A length is `.norm(dim=…)`. For (queries, d) you need one length a row, in a shape that "
        "divides every row by its own length: look up `keepdim`.",
        "All dot products of all queries with all keys are one matrix product. For the key of all "
        "zeros: dividing by its length is 0/0, so keep the divisor above a tiny number.",
    ),
    variants={
        "no-norm": Variant(
            "These are plain dot products: a vector of twice the length gets twice the number. "
            "The cosine must not change when a vector is made longer.",
            lambda q, k: q @ k.T,
        ),
        "queries-only": Variant(
            "You divide by the length of the queries only; the keys' lengths still count.",
            spoil=_times_lengths(0, 1),
        ),
        "keys-only": Variant(
            "You divide by the length of the keys only; the queries' lengths still count.",
            spoil=_times_lengths(1, 0),
        ),
        "whole-matrix": Variant(
            "You divide by the length of the whole matrix. Each row is a vector with a length of "
            "its own.",
            lambda q, k: q @ k.T / (q.norm() * k.norm()),
        ),
        "wrong-axis": Variant(
            "You take the length along the wrong axis: over the vectors, not over the numbers of "
            "one vector.",
            lambda q, k: (q / q.norm(dim=0)) @ (k / k.norm(dim=0)).T,
        ),
        "squared-lengths": Variant(
            "You divide by the squared lengths: the root is missing.",
            spoil=_times_lengths(-1, -1),
        ),
        "sums-of-absolutes": Variant(
            "You divide by the sum of the absolute numbers. The length of a vector is the root of "
            "the sum of their squares.",
            lambda q, k: q @ k.T / (q.abs().sum(1)[:, None] * k.abs().sum(1).clamp(min=1e-9)),
        ),
        "transposed": Variant(
            "Your result is transposed: one row a query, one column a key, please.",
            spoil=lambda case, right: right.T,
        ),
    },
)


def _error_cases() -> list[Case]:
    cases = []
    for seed, n in ((0, 5), (1, 8), (2, 1)):
        prediction, target = randn(seed, (n, 1), (n,))
        cases.append(Case((prediction, target), gradients=seed == 0))
    return cases


def mean_squared_error(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean of (prediction - target)²: (n, 1), (n,) -> ()."""
    return F.mse_loss(prediction.squeeze(-1), target)


BUG = Exercise(
    name="mean_squared_error",
    lesson=LESSON,
    title="find the bug: an error too large",
    cases=_error_cases,
    witness=mean_squared_error,
    reference=mean_squared_error,
    hints=(
        "Print `(prediction - target).shape`. What did you expect?",
        "A (5, 1) minus a (5,): broadcasting lines the axes up from the right, and stretches both. "
        "Who is compared with whom?",
        "Give both the same shape before you subtract: take the axis of length 1 away from one of "
        "them, or give the other one an axis.",
    ),
    variants={
        "as given": Variant(
            "The bug is still in: predictions that hit every target have a loss that is not zero.",
            lambda p, t: ((p - t) ** 2).mean(),
            to_do=True,
        ),
        "sum": Variant(
            "This is the sum of the squares: it grows with the number of examples. The mean does "
            "not.",
            lambda p, t: ((p.squeeze(-1) - t) ** 2).sum(),
        ),
        "sum-over-all-pairs": Variant(
            "Every prediction is still compared with every target, and the squares are summed.",
            lambda p, t: ((p - t) ** 2).sum(),
        ),
        "not-squared": Variant(
            "The square is missing: differences of opposite signs cancel each other.",
            lambda p, t: (p.squeeze(-1) - t).mean(),
        ),
        "absolute": Variant(
            "This is the mean absolute difference. The square is asked for.",
            lambda p, t: (p.squeeze(-1) - t).abs().mean(),
        ),
        "root": Variant(
            "You take the root at the end: that is the root-mean-square error.",
            lambda p, t: ((p.squeeze(-1) - t) ** 2).mean().sqrt(),
        ),
        "not-averaged": Variant(
            "The squares are right, but there is still one for each example: take their mean.",
            lambda p, t: (p.squeeze(-1) - t) ** 2,
        ),
        "mean-before-square": Variant(
            "You take the mean before the square: differences of opposite signs cancel.",
            lambda p, t: (p.squeeze(-1) - t).mean() ** 2,
        ),
    },
)

EXERCISES = [SIMILARITIES, COSINES, BUG]
QUESTIONS = [
    Item(
        "00-dog",
        LESSON,
        "Which dot product with the dog (1, 0, 1, 0) is the largest?",
        (
            Option("the cat's", "They share one feature, fur: 1 · 1 = 1. Somebody shares more."),
            Option(
                "the puppy's",
                "0.5 for barking and 2 for fur make 2.5. More than the dog with itself, 2: a dot "
                "product rewards size as well as likeness. That will come back.",
                right=True,
            ),
            Option(
                "the dog's with itself",
                "One would think so. It gives 2, the puppy gives 2.5: a dot product rewards size "
                "as well as likeness.",
            ),
        ),
    ),
    Item(
        "00-faster",
        LESSON,
        "How much faster is the one matrix product than the loop over 10,000 dot products?",
        (
            Option("about twice", "Much more. Each step of the loop pays for Python and a call."),
            Option("ten times", "More still. Each step of the loop pays for Python and a call."),
            Option(
                "a hundred times or more",
                "Yes. The loop pays 10,000 times for Python and for a call into PyTorch; the "
                "product pays once, and its sums run side by side in the processor.",
                right=True,
            ),
        ),
    ),
    Item(
        "00-square",
        LESSON,
        "Each row of [[1, 1], [5, 5]] equals its own mean, so zeros should come out. They did not. "
        "Why?",
        (
            Option(
                "`mean(dim=1)` averages the columns",
                "It does average each row: it gives (1, 5). It is where these two numbers are laid "
                "that goes wrong.",
            ),
            Option(
                "the means (1, 5) are laid along each row, not down the column",
                "Yes. A (2,) against a (2, 2) lines up with the last axis: the first column loses "
                "1, the second 5.",
                right=True,
            ),
            Option(
                "rounding",
                "Rounding errors are tiny, about one part in ten million. These are off by 4.",
            ),
        ),
    ),
    Item(
        "00-quiz-zero",
        LESSON,
        "The dot product of two vectors is 0. What do you know of them?",
        (
            Option("one of them is all zeros", "That would do it, but (1, 0) · (0, 1) is 0 too."),
            Option(
                "they are opposite",
                "Opposite ones give a negative number: (1, 0) · (−1, 0) = −1.",
            ),
            Option(
                "neither points along the other, or one is all zeros",
                "Yes: they stand at a right angle, and so have nothing to do with each other, as "
                "far as this measure goes.",
                right=True,
            ),
        ),
    ),
    Item(
        "00-quiz-shapes",
        LESSON,
        "`a` has shape (4, 1), `b` has shape (3,). What is the shape of `a + b`?",
        (
            Option("an error", "Lined up from the right: 1 meets 3, 4 meets nothing. Both fit."),
            Option(
                "(4, 3)",
                "Yes: the axis of length 1 stretches to 3, the missing one to 4. Every number of a "
                "meets every number of b.",
                right=True,
            ),
            Option("(4, 1)", "The axis of length 1 meets a 3 and is stretched."),
            Option("(12,)", "Broadcasting stretches axes, it never joins them."),
        ),
    ),
    Item(
        "00-quiz-test",
        LESSON,
        "You want to trust a function of two matrices. Which test tells you the most?",
        (
            Option(
                "two square matrices of the same size",
                "Every mixed-up axis still fits there: most bugs pass.",
            ),
            Option(
                "sizes that all differ",
                "Yes. Then an axis in the wrong place shows, as an error or as a wrong shape.",
                right=True,
            ),
            Option(
                "matrices of ones",
                "Sums come out, but order and pairing do not show: everything is alike.",
            ),
        ),
    ),
]
