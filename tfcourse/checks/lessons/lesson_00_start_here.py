"""Lesson 00: a dot product, checked by unequal sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tfcourse.checks.exercise import Case, Domain, Exercise, Variant, randn, unequal
from tfcourse.checks.quiz import Item, Option

LESSON = "00_start_here"


def _make_similarities(kind, seed) -> Case:
    keys, d = unequal(seed, 2)
    if kind["sizes"] == "one key":
        keys = 1
    elif kind["sizes"] == "vectors of one number":
        d = 1
    elif kind["sizes"] == "as many keys as numbers":
        keys = d
    elif kind["sizes"] == "more than eight of each":
        keys, d = 9 + seed % 4, 14 + seed % 3
    q, k = randn(seed, (d,), (keys, d))
    if kind["numbers"] == "all zeros in q":
        q = torch.zeros(d)
    elif kind["numbers"] == "all keys alike":
        k = k[:1].repeat(keys, 1)
    elif kind["numbers"] == "keys along q and against it":
        k = q * torch.where(torch.arange(keys) % 2 == 0, 2.0, -3.0)[:, None]
    elif kind["numbers"] == "large numbers":
        q, k = 300 * q, 300 * k
    return Case((q, k), gradients=False)  # lesson 00 does not train: numbers are enough


def similarities(q: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Dot product of one query with every key: (d,), (keys, d) -> (keys,)."""
    return keys @ q


SIMILARITIES = Exercise(
    name="similarities",
    lesson=LESSON,
    title="similarities",
    domain=Domain(
        kinds={
            "sizes": (
                "unequal sizes",
                "one key",
                "vectors of one number",
                "as many keys as numbers",
                "more than eight of each",
            ),
            "numbers": (
                "ordinary numbers",
                "all zeros in q",
                "all keys alike",
                "keys along q and against it",
                "large numbers",
            ),
        },
        make=_make_similarities,
        edges=("all zeros in q", "vectors of one number"),
    ),
    witness=similarities,
    reference=similarities,
    smallest=1.0,  # small sums come of numbers around 1 that cancel
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
        "scaled": Variant(
            "You divide by √d. Attention will do so in lesson 01; here the plain dot product is "
            "asked for.",
            lambda q, keys: keys @ q / len(q) ** 0.5,
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


def _make_cosines(kind, seed) -> Case:
    n_queries, n_keys, d = unequal(seed, 3)
    if kind["sizes"] == "one query":
        n_queries = 1
    elif kind["sizes"] == "one key":
        n_keys = 1
    elif kind["sizes"] == "vectors of one number":
        d = 1
    elif kind["sizes"] == "as many queries as keys":
        n_queries = n_keys
    elif kind["sizes"] == "more than eight of each":
        n_queries, n_keys, d = 9, 10 + seed % 2, 12 + seed % 3
    q, k = randn(seed, (n_queries, d), (n_keys, d))
    if kind["lengths"] == "long queries, short keys":
        q, k = 1000 * q, k / 1000
    elif kind["lengths"] == "all very short":
        q, k = q / 10_000, k / 10_000
    elif kind["lengths"] == "all very long":
        q, k = 10_000 * q, 10_000 * k
    if kind["vectors"] == "a key along a query, one against it":
        k = torch.cat([k[:-1], 3 * q[:1]]) if seed % 2 else torch.cat([-2 * q[-1:], k[1:]])
    elif kind["vectors"] == "all keys alike":
        k = k[:1].repeat(n_keys, 1)
    elif kind["vectors"] == "a query of zeros":
        q[seed % n_queries] = 0
    elif kind["vectors"] == "a key of zeros":
        k[seed % n_keys] = 0
    elif kind["vectors"] == "queries and keys of zeros":
        q[0], k[-1] = 0, 0
    zeros = "zeros" in kind["vectors"]
    # The slope of a cosine where there is no direction is nothing that lesson 00 could speak of.
    return Case((q, k), gradients=not zeros, nan=_ZEROS if zeros else None)


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
        return right * a.clamp(min=1e-8) ** power_q * b.clamp(min=1e-8) ** power_k

    return spoil


_ZEROS = (
    "zero-vector",
    "Right but for the vectors of all zeros: 0/0 is NaN, and one NaN spreads through a whole "
    "model. A vector without direction is similar to nothing, so its cosines are 0. Queries can be "
    "zero as well as keys.",
)


COSINES = Exercise(
    name="cosine_similarities",
    lesson=LESSON,
    title="cosine similarities (graded)",
    domain=Domain(
        kinds={
            "sizes": (
                "unequal sizes",
                "one query",
                "one key",
                "vectors of one number",
                "as many queries as keys",
                "more than eight of each",
            ),
            "lengths": (
                "ordinary lengths",
                "long queries, short keys",
                "all very short",
                "all very long",
            ),
            "vectors": (
                "ordinary vectors",
                "a key along a query, one against it",
                "all keys alike",
                "a query of zeros",
                "a key of zeros",
                "queries and keys of zeros",
            ),
        },
        make=_make_cosines,
        edges=(
            "a query of zeros",
            "a key of zeros",
            "queries and keys of zeros",
            "vectors of one number",
        ),
    ),
    witness=_cosines,
    axes=("queries", "keys"),
    hints=(
        "The cosine does not care how long the vectors are: what could you do to every vector "
        "before the dot product, so that its length no longer matters?",
        "A length is `.norm(dim=…)`. For (queries, d) you need one length a row, in a shape that "
        "divides every row by its own length: look up `keepdim`.",
        "All dot products of all queries with all keys are one matrix product. For a vector of all "
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
        "never-negative": Variant(
            "You have no cosine below 0. Two vectors that point in opposite ways have a cosine of "
            "−1.",
            spoil=lambda case, right: right.clamp(min=0),
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


def _make_error(kind, seed) -> Case:
    [n] = unequal(seed, 1)
    if kind["sizes"] == "one example":
        n = 1
    elif kind["sizes"] == "more than eight examples":
        n = 9 + seed % 5
    prediction, target = randn(seed, (n, 1), (n,))
    if kind["numbers"] == "every target hit":
        prediction = target[:, None].clone()
    elif kind["numbers"] == "every target missed by one":
        prediction = target[:, None] + 1
    elif kind["numbers"] == "far from zero":
        prediction, target = prediction + 30, target + 30
    return Case((prediction, target))


def mean_squared_error(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean of (prediction - target)²: (n, 1), (n,) -> ()."""
    return F.mse_loss(prediction.squeeze(-1), target)


BUG = Exercise(
    name="mean_squared_error",
    lesson=LESSON,
    title="find the bug: an error too large",
    domain=Domain(
        kinds={
            "sizes": ("some examples", "one example", "more than eight examples"),
            "numbers": (
                "ordinary numbers",
                "every target hit",
                "every target missed by one",
                "far from zero",
            ),
        },
        make=_make_error,
        edges=("one example",),
    ),
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
            "The bug is still in: predictions that hit every target have a loss that is not zero. "
            "Have you changed the line already? Then the change made no difference: every "
            "result is as it was.",
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
        "halved": Variant(
            "Yours is half of the mean: some books put a 1/2 before it. Here the mean alone is "
            "asked for.",
            lambda p, t: ((p.squeeze(-1) - t) ** 2).mean() / 2,
        ),
        "one-less": Variant(
            "You divide by n − 1. A mean of n squares divides by n.",
            lambda p, t: ((p.squeeze(-1) - t) ** 2).sum() / max(len(t) - 1, 1),
        ),
        "variance": Variant(
            "This is the variance of the differences: it takes their mean away first. A model that "
            "is always wrong by the same amount would have a loss of 0.",
            lambda p, t: (p.squeeze(-1) - t).var(correction=0),
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
        "Both do the same 640,000 multiplications. How much faster is the one matrix product than "
        "the loop over 10,000 dot products?",
        (
            Option(
                "not at all: it is the same work",
                "The multiplications are the same. But each step of the loop also pays for Python "
                "and for a call into PyTorch, and that costs far more than 64 multiplications.",
            ),
            Option(
                "two to ten times",
                "More. A step of the loop takes some microseconds for Python and the call, and its "
                "64 multiplications only some nanoseconds.",
            ),
            Option(
                "hundreds of times or more",
                "Yes. The loop pays 10,000 times for Python and for a call into PyTorch, some "
                "microseconds each; the product pays once, and does many multiplications at a "
                "time.",
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
                "they point in opposite directions",
                "Opposite ones give a negative number: (1, 0) · (−1, 0) = −1.",
            ),
            Option(
                "they point in different directions, so they have nothing in common",
                "Different is not enough: (1, 0) and (1, 2) point in different directions, about "
                "63° apart, and their dot product is 1. It takes a right angle.",
            ),
            Option(
                "they stand at a right angle, or one of them is all zeros",
                "Yes. The dot product is both lengths times the cosine of the angle: it is 0 when "
                "a length is 0, or the cosine is, and that is at 90°.",
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
