"""Lesson 05: where a token thinks by itself."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from tfcourse.checks import forbidden
from tfcourse.checks.exercise import (
    Case,
    Domain,
    Exercise,
    Finding,
    Twin,
    Variant,
    randn,
    unequal,
)
from tfcourse.checks.judging import alike_for
from tfcourse.checks.quiz import Item, Option
from tfcourse.feed_forward import ACTIVATIONS

LESSON = "05_feed_forward"


# --- position_wise --------------------------------------------------------------------------


SIZES = (
    "unequal sizes",
    "a batch of one",
    "one token",
    "d_ff smaller than d_model",
    "d_ff equal to d_model",
    "a single unit",
    "sizes above 8",
)


def _sizes(kind: str, seed: int) -> tuple[int, int, int, int]:
    """batch, tokens, d_model, d_ff"""
    batch, tokens, small, large = unequal(seed, 4)
    if kind == "sizes above 8":
        above = unequal(seed, 3, 9, 12)
        # Many sequences or many tokens, in turn: an answer may take them one by one.
        batch, tokens = (above[0], tokens) if seed % 2 else (batch, above[0])
        small, large = above[1:]
    d, d_ff = sorted((small, large))
    if kind == "d_ff smaller than d_model":
        d, d_ff = d_ff, d
    d_ff = {"d_ff equal to d_model": d, "a single unit": 1}.get(kind, d_ff)
    batch = 1 if kind == "a batch of one" else batch
    return batch, 1 if kind == "one token" else tokens, d, d_ff


def _tokens(kind: str, x: torch.Tensor) -> torch.Tensor:
    if kind == "large numbers":
        return 30 * x
    if kind == "tiny numbers":
        return 1e-3 * x
    if kind == "a token of zeros":
        return torch.cat([0 * x[:, :1], x[:, 1:]], 1)
    return x[:, :1].expand_as(x).clone() if kind == "all tokens alike" else x


BARE = "a token of zeros and no biases"


def _plain_case(kind, seed):
    batch, tokens, d, d_ff = _sizes(kind["sizes"], seed)
    x, w1, b1, w2, b2 = randn(seed, (batch, tokens, d), (d, d_ff), (d_ff,), (d_ff, d), (d,))
    if kind["sizes"] == "a single unit":
        b1 = b1.abs()  # so that it fires somewhere
    if kind["numbers"] == "no unit fires":
        b1 = b1 - 1000
    if kind["numbers"] == BARE:
        x, b1, b2 = torch.cat([0 * x[:, :1], x[:, 1:]], 1), 0 * b1, 0 * b2
    x = _tokens(kind["numbers"], x)
    # Where no unit fires, whoever goes through the units that do has no gradient but b2's.
    return Case((x, w1, b1, w2, b2), gradients=bool((x @ w1 + b1 > 0).any()))


def _company() -> list[Case]:
    """The same sequences, and then one token of them alone, and one sequence alone."""
    x, *weights = randn(3, (2, 5, 4), (4, 9), (9,), (9, 4), (4,))
    token = Case(
        (x[:, 2:3], *weights),
        note="the third token alone",
        twin=Twin(
            0,
            lambda base, this: (base[:, 2:3], this),
            "tokens-mix",
            "A token's output depends on the others: alone, the third one gives something else "
            "than in company. Position-wise means that nobody looks at the neighbour.",
        ),
    )
    sequence = Case(
        (x[1:], *weights),
        note="the second sequence alone",
        twin=Twin(
            0,
            lambda base, this: (base[1:], this),
            "batch-mixes",
            "A sequence's output depends on the other sequences of the batch: alone, the second "
            "one gives something else.",
        ),
    )
    square = Case(tuple(randn(5, (4, 4, 4), (4, 4), (4,), (4, 4), (4,))), note="all sizes equal")
    return [Case((x, *weights)), token, sequence, square]


def _plain(first=lambda x, w, b: x @ w + b, between=torch.relu, last=lambda h, w, b: h @ w + b):
    return lambda x, w1, b1, w2, b2: last(between(first(x, w1, b1)), w2, b2)


def position_wise(x, w1, b1, w2, b2):
    """relu(x w1 + b1) w2 + b2."""
    return F.linear(F.relu(F.linear(x, w1.T, b1)), w2.T, b2)


PLAIN = Exercise(
    name="position_wise",
    lesson=LESSON,
    title="the feed-forward network",
    domain=Domain(
        kinds={
            "sizes": SIZES,
            "numbers": (
                "ordinary numbers",
                "large numbers",
                "tiny numbers",
                "a token of zeros",
                "all tokens alike",
                "no unit fires",
                BARE,
            ),
        },
        make=_plain_case,
        edges=(BARE, "no unit fires"),
    ),
    special=_company,
    witness=position_wise,
    reference=position_wise,
    axes=("batch", "tokens", "d_model"),
    tolerance=2e-5,
    hints=(
        "Three steps: out to d_ff, the activation, back to d_model. What shape has the middle?",
        "`@` works on the last axis and leaves batch and tokens alone, so no loop is needed.",
        "`torch.relu` stands between the two products, after the first bias has been added.",
    ),
    variants={
        "no-activation": Variant(
            "There is no activation between the two matrices. Two matrices in a row are one "
            "matrix: all the width was for nothing.",
            _plain(between=lambda h: h),
        ),
        "activation-last": Variant(
            "The ReLU stands at the end instead of between: the two matrices in a row are one "
            "matrix, and the output can only be positive.",
            lambda x, w1, b1, w2, b2: torch.relu((x @ w1 + b1) @ w2 + b2),
        ),
        "activation-twice": Variant(
            "There is a second ReLU at the end. The output will be added to the token's vector, "
            "and must be free to subtract.",
            lambda x, w1, b1, w2, b2: torch.relu(position_wise(x, w1, b1, w2, b2)),
        ),
        "activation-before-b2": Variant(
            "There is a second ReLU behind the second matrix, before b2 is added. The output will "
            "be added to the token's vector, and must be free to subtract.",
            _plain(last=lambda h, w, b: torch.relu(h @ w) + b),
        ),
        "activation-first": Variant(
            "Your ReLU works on x, before the first matrix.",
            _plain(first=lambda x, w, b: torch.relu(x) @ w + b, between=lambda h: h),
        ),
        "bias-after": Variant(
            "The first bias is added after the ReLU. It belongs before: it sets how easily a unit "
            "fires.",
            lambda x, w1, b1, w2, b2: (torch.relu(x @ w1) + b1) @ w2 + b2,
        ),
        "no-first-bias": Variant("The first bias is missing.", _plain(first=lambda x, w, b: x @ w)),
        "no-second-bias": Variant(
            "The second bias is missing.", _plain(last=lambda h, w, b: h @ w)
        ),
        "gelu": Variant(
            "You took the GELU. Here it is the ReLU, as in 2017; the others come next.",
            _plain(between=F.gelu),
        ),
        "sigmoid": Variant(
            "There is a sigmoid between. The ReLU leaves positive numbers as they are.",
            _plain(between=torch.sigmoid),
        ),
        "size": Variant(
            "What is below 0 comes out as large and positive. A unit with a negative sum does not "
            "fire: it gives 0.",
            _plain(between=torch.abs),
        ),
        "residual": Variant(
            "You added x itself. That is done by the block (lesson 06); here it is only the MLP.",
            lambda x, *weights: x + position_wise(x, *weights),
        ),
        "bias-in-the-matrix": Variant(
            "The second bias is added to the matrix `w2`, so every unit that fires adds it once "
            "more. It is added once, to the product.",
            lambda x, w1, b1, w2, b2: torch.relu(x @ w1 + b1) @ (w2 + b2),
        ),
        "whole-tokens": Variant(
            "You ask whether a token's units are positive all together, and keep or drop all of "
            "them. The ReLU looks at each unit by itself.",
            _plain(between=lambda h: torch.where(h.sum(-1, keepdim=True) > 0, h, 0.0)),
        ),
        "normalized": Variant(
            "You normalize x first. That is done by the block (lesson 06); here x comes in as it "
            "is.",
            lambda x, *weights: position_wise(F.layer_norm(x, x.shape[-1:]), *weights),
        ),
        "softmax": Variant(
            "There is a softmax between. It would let the units compete; each unit fires by "
            "itself.",
            _plain(between=lambda h: torch.softmax(h, -1)),
        ),
    },
)


# --- gelu -----------------------------------------------------------------------------------


AXES = {"two axes": 2, "one number": 0, "one axis": 1, "three axes": 3, "four axes": 4}
LARGE = "numbers up to ±100"
FAR = "numbers of ±10 000"
NUMBERS = (
    "from -4 to 4",
    "tiny numbers",
    "zero among them",
    "positive only",
    "negative only",
    LARGE,
    FAR,
)


def _curve_case(kind, seed):
    far = kind["numbers"] in (FAR, LARGE)
    if far and kind["axes"] == "one number":
        return None  # far out it matters on which side: both are there, in turn
    # With many axes fewer numbers: an answer may take them one by one.
    low, high = {3: (2, 4), 4: (1, 4)}.get(AXES[kind["axes"]], (2, 7))
    [x] = randn(seed, [1, *unequal(seed, AXES[kind["axes"]], low, high)])
    x = (1.7 * x[0]).clamp(-4, 4)
    if far:
        x = (x.abs() + 1) * (1 - 2 * (torch.arange(x.numel()).view(x.shape) % 2))
    if kind["numbers"] == "zero among them":
        x = x * (torch.arange(x.numel()).view(x.shape) % 3 > 0)
    change = {
        "tiny numbers": lambda: 1e-3 * x,
        "positive only": lambda: x.abs(),
        "negative only": lambda: -x.abs(),
        LARGE: lambda: 20 * x,
        FAR: lambda: 1e4 * x.sign(),
    }
    return Case((change.get(kind["numbers"], lambda: x)(),), FORMS[kind.get("form", LEFT_OUT)])


LEFT_OUT = "approximate left out"
FORMS = {
    "the exact one": {"approximate": "none"},
    "by a tanh": {"approximate": "tanh"},
    LEFT_OUT: {},
}
CURVE = {"axes": tuple(AXES), "numbers": NUMBERS}


def _one_number_alone() -> list[Case]:
    """The same numbers, and then one row of them alone; and numbers by themselves beyond 4."""
    [x] = randn(7, (3, 5))
    alone = Twin(
        0,
        lambda base, this: (base[1:2], this),
        "numbers-mix",
        "What comes out for a number depends on the other numbers of x: alone, the second row "
        "gives something else than among the others. The function looks at each number by itself.",
    )
    beyond = torch.tensor([4.1, 4.3, 4.6, 5.0])  # those below 0 give tiny numbers only
    return [
        Case((1.7 * x,)),
        Case((1.7 * x[1:2],), note="the second row alone", twin=alone),
        Case((-beyond,), note="numbers from -5 to -4"),
        Case((beyond,), note="numbers from 4 to 5"),
    ]


def _with_a_tanh() -> list[Case]:
    cases = _one_number_alone()
    return [*cases, *(replace(case, kwargs={"approximate": "tanh"}) for case in cases[2:])]


def _bent(cases, values, expected):
    """It is no curve of pieces: far out it comes near to x or to 0, and never is either."""
    wrong, found = [], []
    for case, value, right in zip(cases, values, expected, strict=True):
        x = case.args[0]
        off = (value - right).abs() > 1e-6 * right.abs().clamp(min=1)
        wrong.append(x[off].abs())
        found.append(((value == 0) | (value == x))[off])
    wrong, found = torch.cat(wrong), torch.cat(found)
    if len(wrong) and found.all() and wrong.min() > 1:
        return Finding(
            "flat-outside",
            f"Right near 0, but from about {wrong.min():.1f} on you give exactly x, or exactly 0. "
            "The curve comes ever nearer to them, and that is all: there is no place where it is "
            "cut off.",
        )
    return None


def gelu(x, approximate="none"):
    """PyTorch's own."""
    return F.gelu(x, approximate=approximate)


_ROOT = math.sqrt(2 / math.pi)


def _tanh(inner, outer=lambda x, t: 0.5 * x * (1 + t)):
    return lambda x: outer(x, torch.tanh(inner(x)))


_by_tanh = _tanh(lambda x: _ROOT * (x + 0.044715 * x**3))
_bracket_lost = _tanh(lambda x: _ROOT * x + 0.044715 * x**3)


def _gelu(none=F.gelu, tanh=_by_tanh):
    """A GELU with one of its two forms replaced."""
    return lambda x, approximate="none": (tanh if approximate == "tanh" else none)(x)


def _only_the_default(cases, values, expected):
    """All is right where the form is named."""
    triples = zip(cases, values, expected, strict=True)
    off = [case for case, value, right in triples if not alike_for(GELU, value, right)]
    if off and not any(case.kwargs for case in off):
        return Finding(
            "default",
            "Right wherever `approximate` is given. Where it is left out, the exact GELU is meant, "
            "as the first line that you were given says.",
        )
    return None


def _constant_cubed(cases, values, expected):
    """0.044715 to the third is nearly nothing, but not quite."""
    pairs = zip(cases, values, strict=True)
    some = [(c.args[0], v) for c, v in pairs if c.kwargs.get("approximate") == "tanh"]
    if not some:  # each of them raised
        return None
    x, given = (torch.cat([t[i].flatten().double() for t in some]) for i in (0, 1))
    if torch.allclose(given, _tanh(lambda x: _ROOT * (x + (0.044715 * x) ** 3))(x), atol=1e-6):
        return Finding(
            "cube-of-the-constant-too",
            "The cube is taken of 0.044715 as well. In the formula it belongs to the last x only.",
        )
    return None


GELU = Exercise(
    name="gelu",
    lesson=LESSON,
    title="find the bugs: GELU, exact and by a tanh",
    domain=Domain(CURVE | {"form": tuple(FORMS)}, _curve_case, (FAR, LEFT_OUT)),
    special=_with_a_tanh,
    forbids=forbidden.GELU,
    witness=gelu,
    reference=gelu,
    properties=(_bent, _only_the_default, _constant_cubed),
    axes=(),
    tolerance=1e-6,
    smallest=1,
    hints=(
        'There are two. The first: call it with "none" and with "tanh". What comes out, and what '
        "does Python take a text for where it asks for true or false?",
        "The second: near 0 the tanh form agrees with the formula, for larger x it does not. Which "
        "part of the argument grows fastest, and what multiplies it?",
        "In the formula √(2/π) stands before a bracket. And of the two texts, ask for one by name.",
    ),
    variants={
        "as given": Variant(
            "Both bugs are still in. Both forms give the same, and at x = 2 it is neither.",
            lambda x, approximate="none": _bracket_lost(x),
            to_do=True,
        ),
        "always-tanh": Variant(
            "The approximation comes out whatever is asked for. `approximate` always holds a text, "
            "never None, and `if` takes every text for true. Which of the two texts is it?",
            lambda x, approximate="none": _by_tanh(x),
        ),
        "always-exact": Variant(
            "The exact GELU comes out whatever is asked for.",
            lambda x, approximate="none": F.gelu(x),
        ),
        "bracket-still": Variant(
            "Each name gives its own form now. The one by a tanh is still off at x = 2.",
            _gelu(tanh=_bracket_lost),
        ),
        "swapped": Variant(
            'The two have changed places: "tanh" gives the exact one.',
            _gelu(none=_by_tanh, tanh=F.gelu),
        ),
        "swapped-bracket-still": Variant(
            'The two have changed places: "tanh" gives the exact one. And the other is still off '
            "at x = 2.",
            _gelu(none=_bracket_lost, tanh=F.gelu),
        ),
        "not-halved": Variant(
            "The ½ in front is gone, in both forms.",
            _gelu(lambda x: 2 * F.gelu(x), lambda x: 2 * _by_tanh(x)),
        ),
        "no-one": Variant(
            "The 1 in the bracket is gone, in both forms: negative sums come out positive.",
            _gelu(lambda x: F.gelu(x) - x / 2, lambda x: _by_tanh(x) - x / 2),
        ),
        "share-only": Variant(
            "Your exact form gives the share Φ(x) itself. GELU is x times it.",
            _gelu(none=lambda x: torch.special.ndtr(x)),
        ),
        "no-root-two": Variant(
            "In the exact form the argument of erf should be x / √2; yours is x.",
            _gelu(none=lambda x: 0.5 * x * (1 + torch.erf(x))),
        ),
        "half-not-root": Variant(
            "In the exact form the argument of erf is x divided by the root of 2, not by 2.",
            _gelu(none=lambda x: 0.5 * x * (1 + torch.erf(x / 2))),
        ),
        "bracket": Variant(
            "erf is added to x / 2 instead of to the 1: a bracket is missing. x multiplies all of "
            "(1 + erf).",
            _gelu(none=lambda x: 0.5 * x + torch.erf(x / math.sqrt(2))),
        ),
        "not-halved-exact": Variant(
            "In the exact form the ½ is gone: 1 + erf runs from 0 to 2.",
            _gelu(none=lambda x: x * (1 + torch.erf(x / math.sqrt(2)))),
        ),
        "no-one-exact": Variant(
            "In the exact form the 1 is missing: your share runs from −1/2 to 1/2, and negative "
            "sums come out positive.",
            _gelu(none=lambda x: 0.5 * x * torch.erf(x / math.sqrt(2))),
        ),
        "erf-for-the-share": Variant(
            "In the exact form x is multiplied by erf itself, which runs from −1 to 1. It should "
            "be a share, from 0 to 1.",
            _gelu(none=lambda x: x * torch.erf(x / math.sqrt(2))),
        ),
        "squared": Variant(
            "There is a square now where the cube was. A square has no sign: negative x would no "
            "longer mirror positive ones.",
            _gelu(tanh=_tanh(lambda x: _ROOT * (x + 0.044715 * x**2))),
        ),
        "cube-without-sign": Variant(
            "The cube has lost its sign: below 0 it should be negative, like x.",
            _gelu(tanh=_tanh(lambda x: _ROOT * (x + 0.044715 * x.abs() ** 3))),
        ),
        "no-root": Variant(
            "The bracket is right now, but 2/π has lost its root.",
            _gelu(tanh=_tanh(lambda x: 2 / math.pi * (x + 0.044715 * x**3))),
        ),
        "root-of-two-only": Variant(
            "The root is taken of the 2 alone: √2 / π. It belongs to all of 2 / π.",
            _gelu(tanh=_tanh(lambda x: math.sqrt(2) / math.pi * (x + 0.044715 * x**3))),
        ),
        "root-of-pi-only": Variant(
            "The root is taken of π alone: 2 / √π. It belongs to all of 2 / π.",
            _gelu(tanh=_tanh(lambda x: 2 / math.sqrt(math.pi) * (x + 0.044715 * x**3))),
        ),
        "no-one-tanh": Variant(
            "The bracket is right now, but the 1 in front of the tanh is gone.",
            _gelu(tanh=_tanh(lambda x: _ROOT * (x + 0.044715 * x**3), lambda x, t: 0.5 * x * t)),
        ),
        "one-outside": Variant(
            "The tanh is added to x / 2 instead of to the 1: a bracket is missing. x multiplies "
            "all of (1 + tanh).",
            _gelu(tanh=_tanh(lambda x: _ROOT * (x + 0.044715 * x**3), lambda x, t: 0.5 * x + t)),
        ),
        "sigmoid-for-tanh": Variant(
            "There is a sigmoid where the tanh was. (1 + tanh z) / 2 is the sigmoid of 2 z, not "
            "of z.",
            _gelu(tanh=lambda x: x * torch.sigmoid(_ROOT * (x + 0.044715 * x**3))),
        ),
        "minus": Variant(
            "The bracket is right now, but the cube is subtracted.",
            _gelu(tanh=_tanh(lambda x: _ROOT * (x - 0.044715 * x**3))),
        ),
        "factored-x": Variant(
            "There is a fourth power where the cube was. (x · (1 + 0.044715 x³) has one in it, "
            "too.)",
            _gelu(tanh=_tanh(lambda x: _ROOT * x * (1 + 0.044715 * x**3))),
        ),
        "cube-of-the-sum": Variant(
            "The cube is taken of the whole bracket. In the formula it belongs to the last x only.",
            _gelu(tanh=_tanh(lambda x: _ROOT * (x + 0.044715 * x) ** 3)),
        ),
        "cube-of-the-argument": Variant(
            "The cube is taken of all that goes into the tanh. In the formula it belongs to the "
            "last x only.",
            _gelu(tanh=_tanh(lambda x: (_ROOT * (x + 0.044715 * x)) ** 3)),
        ),
        "cube-outside": Variant(
            "The x³ multiplies the whole bracket. In the formula it belongs to 0.044715 only.",
            _gelu(tanh=_tanh(lambda x: _ROOT * (x + 0.044715) * x**3)),
        ),
        "cube-of-the-tanh": Variant(
            "The cube is taken of the tanh. In the formula it stands inside, at the last x.",
            _gelu(tanh=lambda x: 0.5 * x * (1 + torch.tanh(_ROOT * (x + 0.044715 * x)) ** 3)),
        ),
        "cube-dropped": Variant(
            "The cube is gone. tanh(√(2/π) x) alone is a coarser approximation.",
            _gelu(tanh=_tanh(lambda x: _ROOT * x)),
        ),
        "not-halved-tanh": Variant(
            "The bracket is right now, but the 0.5 in front is gone.",
            _gelu(tanh=_tanh(lambda x: _ROOT * (x + 0.044715 * x**3), lambda x, t: x * (1 + t))),
        ),
        "root-on-cube": Variant(
            "Now √(2/π) multiplies the cube alone, and should multiply x too.",
            _gelu(tanh=_tanh(lambda x: x + _ROOT * 0.044715 * x**3)),
        ),
    },
)


# --- gelu_slope -----------------------------------------------------------------------------


def gelu_slope(x):
    """The product rule on x · Φ(x)."""
    return torch.special.ndtr(x) + x * _bell(x)


def _bell(x):
    return torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def _by_differences(cases, values, expected):
    """Nearly right, and the more digits there are, the more nearly."""
    apart = {torch.float32: [torch.zeros(1)], torch.float64: [torch.zeros(1)]}
    for case, value, right in zip(cases, values, expected, strict=True):
        if not case.edge:
            apart[right.dtype].append((value - right).abs().flatten())
    apart = {dtype: torch.cat(parts) for dtype, parts in apart.items()}
    single, double = (parts.max().item() for parts in apart.values())
    rarely = (apart[torch.float32] > 1e-6).float().mean() < 0.3
    if double < min(1e-3, single / 10) and not rarely:
        return Finding(
            "differences",
            f"Nearly right: off by up to {single:.0e} in float32, by {double:.0e} in float64. Do "
            "you divide a small difference by a small step? The digits that are equal are lost in "
            "it. The product rule gives a formula without a step.",
        )
    return None


def _slope_case(kind, seed):
    case = _curve_case(kind, seed)
    return case and replace(case, gradients=False)  # this one is a gradient: none goes through it


def _slope_twins() -> list[Case]:
    """A difference of nearby values has no digits left where the values are large."""
    large = torch.tensor([1e7, -1e7, 3e7, -3e7])
    cases = [
        *_one_number_alone(),
        Case((large,), note=LARGEST, edge=True),
        Case((large.double(),), note=f"{LARGEST}, float64", edge=True),
    ]
    return [replace(case, gradients=False) for case in cases]


LARGEST = f"{FAR} 000"


def _steep_or_flat(cases, values, expected):
    """Cut off far out, or made of differences: only numbers far out tell."""
    triples = zip(cases, values, expected, strict=True)
    off = [(c.args[0], v, (v - r).abs() > 1e-6, c.note) for c, v, r in triples]
    off = [t for t in off if t[2].any()]
    if off and all(FAR in note for *_, note in off):
        return Finding(
            "differences",
            "Right, but not for numbers of ten thousand or of ten million. Do you divide a small "
            "difference by a small step? The digits that are equal are lost in it. The product "
            "rule gives a formula without a step.",
        )
    x = torch.cat([x[wrong].flatten().abs() for x, _, wrong, _ in off]) if off else torch.empty(0)
    if off and x.min() > 1 and all(((v == 0) | (v == 1))[wrong].all() for _, v, wrong, _ in off):
        return Finding(
            "flat-outside",
            f"Right near 0, but from about {x.min():.1f} on you give exactly 1, or exactly 0. The "
            "slope comes ever nearer to them, and that is all: there is no place where it is cut "
            "off.",
        )
    return None


SLOPE = Exercise(
    name="gelu_slope",
    lesson=LESSON,
    title="the slope of GELU",
    domain=Domain(CURVE, _slope_case, (FAR,)),
    special=_slope_twins,
    forbids=(*forbidden.GELU, *forbidden.DERIVATIVES),
    witness=gelu_slope,
    reference=gelu_slope,
    properties=(_steep_or_flat, _by_differences),
    axes=(),
    tolerance=1e-6,
    smallest=1,
    hints=(
        "GELU is a product of two factors, x and Φ(x), and both change with x. What does the "
        "product rule say?",
        "The slope of x is 1, that of Φ is the bell curve. So there are two terms.",
        "At 0 only one of the two terms is left, and it is a half. Far to the right the slope is "
        "1, far to the left 0. In between, near −1.4, it is lowest, about −0.13.",
    ),
    variants={
        "share-only": Variant(
            "That is Φ(x) alone: as if Φ did not change with x.",
            lambda x: torch.special.ndtr(x),
        ),
        "second-term-only": Variant(
            "That is x · φ(x) alone: as if the factor x did not change.",
            lambda x: x * _bell(x),
        ),
        "product-of-slopes": Variant(
            "You multiply the slopes of the two factors. The slope of a product is something else.",
            _bell,
        ),
        "x-missing": Variant(
            "You add the slope of Φ as it is. In the product rule it is multiplied by the other "
            "factor.",
            lambda x: torch.special.ndtr(x) + _bell(x),
        ),
        "x-twice": Variant(
            "Your first term still has the factor x in it. There it is the slope of x that counts.",
            lambda x: x * torch.special.ndtr(x) + x * _bell(x),
        ),
        "minus": Variant(
            "You subtract the second term: that is the rule for a quotient.",
            lambda x: torch.special.ndtr(x) - x * _bell(x),
        ),
        "gelu": Variant("That is the GELU itself, not its slope.", F.gelu),
        "no-root": Variant(
            "The bell curve is not divided by √(2π), so the area under it is not 1.",
            lambda x: torch.special.ndtr(x) + x * torch.exp(-(x**2) / 2),
        ),
        "root-lost": Variant(
            "The bell curve is divided by 2π; it should be the root of that.",
            lambda x: torch.special.ndtr(x) + x * torch.exp(-(x**2) / 2) / (2 * math.pi),
        ),
        "no-half": Variant(
            "In the exponent of the bell curve x² is not halved.",
            lambda x: torch.special.ndtr(x) + x * torch.exp(-(x**2)) / math.sqrt(2 * math.pi),
        ),
        "not-squared": Variant(
            "In the exponent of the bell curve x is not squared.",
            lambda x: torch.special.ndtr(x) + x * torch.exp(-x / 2) / math.sqrt(2 * math.pi),
        ),
        "inner-slope": Variant(
            "Your second term is √2 times too large. If you divide the bell curve by √π: is there "
            "a 2 missing? If you took the slope of erf: what about the √2 inside it?",
            lambda x: torch.special.ndtr(x) + x * torch.exp(-(x**2) / 2) / math.sqrt(math.pi),
        ),
        "no-root-two": Variant(
            "In your Φ the argument of erf is x; it should be x / √2.",
            lambda x: (1 + torch.erf(x)) / 2 + x * _bell(x),
        ),
        "not-halved": Variant(
            "In your Φ, 1 + erf is not halved: it runs from 0 to 2.",
            lambda x: 2 * torch.special.ndtr(x) + x * _bell(x),
        ),
        "no-one": Variant(
            "In your Φ the 1 is missing: it runs from −1/2 to 1/2.",
            lambda x: torch.special.ndtr(x) - 0.5 + x * _bell(x),
        ),
        "half-on-both": Variant(
            "The ½ belongs to Φ alone: here it halves the second term too.",
            lambda x: torch.special.ndtr(x) + x * _bell(x) / 2,
        ),
        "no-fall": Variant(
            "Right where the slope is positive. Where it should be negative, you give 0. Does GELU "
            "never fall?",
            lambda x: gelu_slope(x).clamp(min=0),
        ),
        "size-of-x": Variant(
            "Below 0 your second term has the wrong sign: it has the sign of x.",
            lambda x: torch.special.ndtr(x) + x.abs() * _bell(x),
        ),
        "step": Variant(
            "That is the slope of the ReLU, 0 or 1.",
            lambda x: (x > 0).to(x),
        ),
        "x-squared": Variant(
            "Your second term has a factor x too many.",
            lambda x: torch.special.ndtr(x) + x**2 * _bell(x),
        ),
        "half-not-root": Variant(
            "In your Φ the argument of erf is x divided by 2; it is divided by the root of 2.",
            lambda x: (1 + torch.erf(x / 2)) / 2 + x * _bell(x),
        ),
        "erf-for-the-share": Variant(
            "Your first term is erf itself, from −1 to 1. Φ is a share, from 0 to 1.",
            lambda x: torch.erf(x / math.sqrt(2)) + x * _bell(x),
        ),
        "doubled": Variant(
            "In the exponent of the bell curve x is multiplied by 2 where it should be squared.",
            lambda x: torch.special.ndtr(x) + x * torch.exp(-x) / math.sqrt(2 * math.pi),
        ),
        "half-squared-too": Variant(
            "In the exponent of the bell curve the 2 is squared along with x: that is x² / 4.",
            lambda x: torch.special.ndtr(x) + x * torch.exp(-(x**2) / 4) / math.sqrt(2 * math.pi),
        ),
        "divided-then-multiplied": Variant(
            "The bell curve is divided by 2, then multiplied by √π: a bracket is missing. `/` and "
            "`*` go from left to right.",
            lambda x: torch.special.ndtr(x) + x * torch.exp(-(x**2) / 2) / 2 * math.sqrt(math.pi),
        ),
        "of-the-tanh": Variant(
            "That is the slope of the approximation by a tanh; here it is the exact GELU's.",
            lambda x: _slope_of(_by_tanh, x),
        ),
        "of-the-silu": Variant(
            "That is the slope of the SiLU: its share is a sigmoid, not Φ.",
            lambda x: torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))),
        ),
    },
)


def _slope_of(function, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


# --- gated_feed_forward ---------------------------------------------------------------------


def _gated_case(kind, seed):
    batch, tokens, d, d_ff = _sizes(kind["sizes"], seed)
    x, gate, up, down = randn(seed, (batch, tokens, d), (d, d_ff), (d, d_ff), (d_ff, d))
    if kind["numbers"] == "all gates closed":
        x, gate = x.abs() + 1, -gate.abs() - 1
    x = _tokens(kind["numbers"], x)
    if kind["numbers"] in ("large numbers", "all gates closed"):
        # Not beyond 60: there the lesson's own formula of the SiLU has no gradient in float32.
        x = x * 60 / (x @ gate).abs().max()
    stored = torch.cat([gate, up], 1).T.contiguous(), down.T.contiguous()
    return Case((x, *stored, kind["activation"]))


def gated_feed_forward(x, w_gate_up, w_down, activation):
    """(activation(x w_gate) · (x w_up)) w_down, with the matrices as Phi-3 stores them."""
    d_ff = w_down.shape[1]
    gate, up = F.linear(x, w_gate_up[:d_ff]), F.linear(x, w_gate_up[d_ff:])
    return F.linear(ACTIVATIONS[activation](gate) * up, w_down)


def _wide_open() -> list[Case]:
    """Gates beyond where exp ends, 89 in float32: SiLU is the number itself there."""
    x, gate, up, down = randn(3, (2, 3, 4), (4, 5), (4, 5), (5, 4))
    x, gate = x.abs() + 1, gate.abs() + 1
    x = x * 95 / (x @ gate).min()
    stored = torch.cat([gate, up], 1).T.contiguous(), down.T.contiguous()
    return [Case((x, *stored, "silu"), note="all gates wide open", edge=True)]


def _gated(join, activate=None, parts=lambda both: both.chunk(2, dim=-1)):
    def answer(x, w_gate_up, w_down, activation):
        act = activate or ACTIVATIONS[activation]
        return join(act, *parts(x @ w_gate_up.T)) @ w_down.T

    return answer


GATED = Exercise(
    name="gated_feed_forward",
    lesson=LESSON,
    title="the gated feed-forward network",
    domain=Domain(
        kinds={
            "activation": ("silu", "gelu", "relu", "gelu_tanh"),
            "sizes": SIZES,
            "numbers": (
                "ordinary numbers",
                "large numbers",
                "tiny numbers",
                "a token of zeros",
                "all tokens alike",
                "all gates closed",
            ),
        },
        make=_gated_case,
        edges=("all gates closed", "tiny numbers"),
    ),
    special=_wide_open,
    witness=gated_feed_forward,
    reference=gated_feed_forward,
    axes=("batch", "tokens", "d_model"),
    tolerance=2e-5,
    hints=(
        "One product with `w_gate_up` gives 2 · d_ff numbers for each token. Which of them belong "
        "to the gate, and on which axis do they stand?",
        "One of the two halves goes through the activation: which, by its name? Then they meet "
        "number by number, with `*`, and `w_down` takes them back to d_model.",
        "The gate is what is activated; what it lets through, `up`, stays as it is. And both "
        "matrices are stored turned, as in `nn.Linear`.",
    ),
    variants={
        "wrong-branch": Variant(
            "You activate `up` and leave the gate bare, or you take the second half for the gate. "
            "From scratch nobody would notice; loaded weights would be wrong.",
            _gated(lambda act, g, u: g * act(u)),
        ),
        "interleaved": Variant(
            "You take every other unit for the gate. The gate's units stand together, before "
            "those of `up`.",
            _gated(
                lambda act, g, u: act(g) * u,
                parts=lambda both: (both[..., ::2], both[..., 1::2]),
            ),
        ),
        "gate-twice": Variant(
            "The gate multiplies itself; `up` is not used.",
            _gated(lambda act, g, u: act(g) * g),
        ),
        "reversed": Variant(
            "The units of the two halves meet in the wrong order: unit j of the gate belongs to "
            "unit j of `up`.",
            _gated(lambda act, g, u: act(g) * u.flip(-1)),
        ),
        "of-the-product": Variant(
            "You activate the product. The gate alone is activated, then it multiplies.",
            _gated(lambda act, g, u: act(g * u)),
        ),
        "both": Variant(
            "You activate both. What passes through the gate stays as it is, else nothing large "
            "and negative could pass.",
            _gated(lambda act, g, u: act(g) * act(u)),
        ),
        "always-silu": Variant(
            "Right for SiLU only: the argument `activation` is not used.",
            _gated(lambda act, g, u: act(g) * u, F.silu),
        ),
        "always-gelu": Variant(
            "Right for GELU only: the argument `activation` is not used.",
            _gated(lambda act, g, u: act(g) * u, F.gelu),
        ),
        "always-relu": Variant(
            "Right for ReLU only: the argument `activation` is not used.",
            _gated(lambda act, g, u: act(g) * u, torch.relu),
        ),
        "one-gelu": Variant(
            'You take the exact GELU for "gelu_tanh" too. That name means the approximation.',
            lambda x, w_gate_up, w_down, activation: gated_feed_forward(
                x, w_gate_up, w_down, activation.removesuffix("_tanh")
            ),
        ),
        "down-too-early": Variant(
            "You multiply after `w_down`, in d_model numbers. The gate and `up` meet while they "
            "are d_ff wide; then `w_down` takes them back.",
            lambda x, w_gate_up, w_down, activation: (
                (ACTIVATIONS[activation](x @ w_gate_up.T.chunk(2, 1)[0]) @ w_down.T)
                * (x @ w_gate_up.T.chunk(2, 1)[1] @ w_down.T)
            ),
        ),
        "sigmoid": Variant(
            "Your gate is a sigmoid, the GLU of 2016. Use the activation that is asked for.",
            _gated(lambda act, g, u: act(g) * u, torch.sigmoid),
        ),
        "silu-without-x": Variant(
            "Right but for SiLU: there you take the sigmoid alone. SiLU is x times it.",
            lambda x, w_gate_up, w_down, activation: _gated(
                lambda act, g, u: act(g) * u, torch.sigmoid if activation == "silu" else None
            )(x, w_gate_up, w_down, activation),
        ),
        "glu": Variant(
            "That is a sigmoid of the second half, times the first (torch's `glu` does so). Here "
            "the gate is the first half, and the activation is the one that is asked for.",
            _gated(lambda act, g, u: g * torch.sigmoid(u)),
        ),
        "one-tanh": Variant(
            'You take the approximation by a tanh for "gelu" too. That name means the exact one.',
            lambda x, w_gate_up, w_down, activation: gated_feed_forward(
                x, w_gate_up, w_down, "gelu_tanh" if activation == "gelu" else activation
            ),
        ),
        "up-twice": Variant(
            "`up` multiplies itself, activated; the gate is not used.",
            _gated(lambda act, g, u: act(u) * u),
        ),
        "down-reshaped": Variant(
            "The halves are right. `w_down` has been given the other shape, but it is not turned: "
            "`reshape` reads the numbers in the order in which they stand, and a row of the one "
            "is no column of the other.",
            lambda x, w_gate_up, w_down, activation: _gated(lambda act, g, u: act(g) * u)(
                x, w_gate_up, w_down.reshape(w_down.shape[::-1]).T, activation
            ),
        ),
        "activation-last": Variant(
            "The activation stands at the end, after `w_down`. It belongs to the gate.",
            lambda x, w_gate_up, w_down, activation: ACTIVATIONS[activation](
                _gated(lambda act, g, u: g * u)(x, w_gate_up, w_down, activation)
            ),
        ),
        "activation-first": Variant(
            "You activate x itself, before the gate's matrix. What goes through the activation is "
            "what comes out of that.",
            lambda x, w_gate_up, w_down, activation: (
                (ACTIVATIONS[activation](x) @ w_gate_up.T.chunk(2, 1)[0])
                * (x @ w_gate_up.T.chunk(2, 1)[1])
                @ w_down.T
            ),
        ),
        "added": Variant(
            "You add the two. A gate multiplies: where it is 0, nothing passes.",
            _gated(lambda act, g, u: act(g) + u),
        ),
        "no-activation": Variant(
            "There is no activation: the two are only multiplied.",
            _gated(lambda act, g, u: g * u),
        ),
        "residual": Variant(
            "You added x itself. That is done by the block (lesson 06); here it is only the MLP.",
            lambda x, *weights: x + gated_feed_forward(x, *weights),
        ),
        "no-up": Variant(
            "The half of `up` is never used: that is the plain MLP with the gate's matrix.",
            _gated(lambda act, g, u: act(g)),
        ),
        "no-gate": Variant(
            "The gate's half is never used: that is the plain MLP.",
            _gated(lambda act, g, u: act(u)),
        ),
    },
)


# --- edit_one_value (graded) ----------------------------------------------------------------


def _edit_case(kind, seed):
    d, d_ff = unequal(seed, 2, 3, 7)
    sizes = {
        "a single unit": (d, 1),
        "d_model 1": (1, d_ff),
        "d_ff equal to d_model": (d, d),
        "sizes above 8": unequal(seed, 2, 9, 14),
    }
    d, d_ff = sizes.get(kind["sizes"], (d, d_ff))
    w, delta = randn(seed, (d, d_ff), (d,))
    ranks = torch.randperm(d_ff, generator=torch.Generator().manual_seed(seed))
    hidden, firing = 0.4 * (ranks + 1.0), kind["hidden"]  # no two alike
    top = int(hidden.argmax())
    if firing == "a few units fire":
        hidden = hidden * (ranks >= d_ff // 2)
    elif firing == "one unit fires":
        hidden = hidden * (ranks == d_ff - 1)
    elif firing == "two fire equally strongly":
        if d_ff == 1:
            return None
        hidden[(ranks == d_ff - 2)] = hidden[top]
    elif firing == "two fire almost equally":
        if d_ff == 1:
            return None
        hidden = hidden.roll(d_ff - 1 - top)  # the largest last, and before it nearly as large
        hidden[0] = hidden[-1] * (1 - 4e-6)
    elif firing in ("the first fires most", "the last fires most"):
        hidden = hidden.roll(-top if firing.startswith("the first") else d_ff - 1 - top)
    elif firing == "all fire weakly":
        hidden = 1e-5 * hidden
    elif firing == "all fire strongly":
        hidden = 100 * hidden
    change = {"delta is zero": 0.0, "a large delta": 1000.0}
    return Case((w, hidden, change.get(kind["delta"], 1.0) * delta), gradients=False)


def _edited(w, hidden, delta):
    """Found by trying: a step along one column, its size by what it does."""
    unit = max(range(len(hidden)), key=lambda j: hidden[j].item())
    effect = F.linear(hidden, F.one_hot(torch.tensor(unit), len(hidden)).to(w)[None]).item()
    columns = list(w.unbind(1))
    columns[unit] = columns[unit] + delta / effect
    return torch.stack(columns, 1)


def _effect(cases, values, expected):
    """Whatever was edited: does the output move by delta, and does one column alone change?"""
    for case, new in zip(cases, values, strict=True):
        w, hidden, delta = case.args
        new = new.to(w.dtype)
        touched = _columns(new - w, 1e-5 * max(1.0, delta.abs().max() / hidden.max()))
        unit = int(hidden.argmax())
        if len(touched) == 1 and touched != [unit]:
            return Finding(
                "other-unit",
                f"You changed the value of unit {touched[0]}, which fires by "
                f"{hidden[touched[0]]:.7g}; the unit to be edited is number {unit}, which fires "
                f"by {hidden[unit]:.7g}. Where several fire equally strongly, the first is meant.",
            )
        if len(touched) > 1 and (hidden[touched] == hidden[unit]).all():
            return Finding(
                "all-the-strongest",
                f"{len(touched)} units fire equally strongly here, and you changed the values of "
                "all of them. Only the first of them is meant.",
            )
        moved = F.linear(hidden, new) - F.linear(hidden, w)
        size = max(1.0, delta.abs().max().item(), F.linear(hidden, w).abs().max().item())
        if not torch.allclose(moved, delta, rtol=0, atol=3e-5 * size):
            along = moved @ delta / delta.square().sum() * delta
            if hidden[unit] < 1e-3 and torch.allclose(moved, along, rtol=0, atol=1e-3 * size):
                return Finding(
                    "weak-unit",
                    f"Here even the strongest unit fires by {hidden[unit]:.1e} only, and the "
                    f"output moves by {moved.norm() / delta.norm():.2%} of delta, not by delta. "
                    "Is something small added to what you divide by, or is it kept from being "
                    f"small? That was for {EDIT.describe(case)}.",
                )
            return Finding(
                "effect",
                f"With your matrix the output moves by {_list(moved)}; it should move by "
                f"{_list(delta)}. That was for {EDIT.describe(case)}.",
            )
        if len(touched) > 1:
            return Finding(
                "columns",
                f"The output moves as it should, but {len(touched)} columns changed. One value "
                "is to be edited, that of the unit that fires most.",
            )
    return None


def _columns(change, least):
    return (change.abs() > least).any(0).nonzero().flatten().tolist()


def _list(values):
    return "[" + ", ".join(f"{v:.2f}" for v in values.tolist()) + "]"


def _at(case, index, change):
    w, hidden, delta = case.args
    new = w.clone()
    new[:, index(hidden)] = change(w[:, index(hidden)], hidden[index(hidden)], delta)
    return new


EDIT = Exercise(
    name="edit_one_value",
    lesson=LESSON,
    title="edit one value (graded)",
    domain=Domain(
        kinds={
            "hidden": (
                "a few units fire",
                "every unit fires",
                "one unit fires",
                "two fire equally strongly",
                "two fire almost equally",
                "the first fires most",
                "the last fires most",
                "all fire weakly",
                "all fire strongly",
            ),
            "sizes": (
                "unequal sizes",
                "a single unit",
                "d_model 1",
                "d_ff equal to d_model",
                "sizes above 8",
            ),
            "delta": ("ordinary delta", "delta is zero", "a large delta"),
        },
        make=_edit_case,
        edges=("delta is zero",),
    ),
    witness=lambda w_down, hidden, delta: _edited(w_down, hidden, delta),
    properties=(_effect,),
    axes=("d_model", "d_ff"),
    hints=(
        "The output is a sum: each unit's activation times its value. If one value changes by e, "
        "by how much does the output change?",
        "By its activation times e. So how large must e be for the output to change by delta?",
        "`hidden.argmax()` finds the unit; its value is a column of `w_down`. Change a copy: "
        "`w_down.clone()`.",
    ),
    variants={
        "not-divided": Variant(
            "You add delta itself. The unit's activation multiplies the value, so the output "
            "would move by activation · delta.",
            spoil=lambda case, right: _at(case, torch.argmax, lambda v, h, d: v + d),
        ),
        "multiplied": Variant(
            "You add activation · delta; the activation will multiply it once more. Which way "
            "round must it be?",
            spoil=lambda case, right: _at(case, torch.argmax, lambda v, h, d: v + h * d),
        ),
        "overwritten": Variant(
            "You put the change in place of the value. What the unit did before is lost: the "
            "output should move by delta.",
            spoil=lambda case, right: _at(case, torch.argmax, lambda v, h, d: d / h),
        ),
        "subtracted": Variant(
            "Yours moves the output by −delta.",
            spoil=lambda case, right: 2 * case.args[0] - right,
        ),
        "weakest": Variant(
            "You edit the unit that fires least. The one that fires most is meant.",
            spoil=lambda case, right: _at(
                case,
                lambda hidden: torch.where(hidden > 0, hidden, torch.inf).argmin(),
                lambda v, h, d: v + d / h,
            ),
        ),
        "second": Variant(
            "You edit the unit that fires second most. The one that fires most is meant.",
            spoil=lambda case, right: _at(
                case,
                lambda hidden: hidden.argsort(stable=True)[-min(2, len(hidden))],
                lambda v, h, d: v + d / h,
            ),
        ),
        "spread": Variant(
            "You share the change out among all units that fire. The output is right, for this "
            "input; but the values of many other facts have been touched. One value only.",
            spoil=lambda case, right: (
                case.args[0] + torch.outer(case.args[2], case.args[1]) / case.args[1].square().sum()
            ),
        ),
        "all-columns": Variant(
            "You add the same to every unit's value. One value only, that of the unit that fires "
            "most.",
            spoil=lambda case, right: case.args[0] + case.args[2][:, None] / case.args[1].sum(),
        ),
        "set-to-delta": Variant(
            "Your output is delta for this input. It should move by delta, from where it was.",
            spoil=lambda case, right: _at(
                case,
                torch.argmax,
                lambda v, h, d: v + (d - F.linear(case.args[1], case.args[0])) / h,
            ),
        ),
        "unchanged": Variant(
            "Nothing has changed: you give back the matrix as it was.",
            spoil=lambda case, right: case.args[0],
        ),
    },
)


# --- without_unit ---------------------------------------------------------------------------


def _without_case(kind, seed):
    questions, words, d, d_ff = unequal(seed, 4, 3, 8)
    sizes = {
        "one question": (1, words, d, d_ff),
        "a single unit": (questions, words, d, 1),
        "all sizes equal": (d, d, d, d),
        "sizes above 8": unequal(seed, 4, 9, 12),
    }
    questions, words, d, d_ff = sizes.get(kind["sizes"], (questions, words, d, d_ff))
    logits, hidden, w, table = randn(
        seed, (questions, words), (questions, d_ff), (d, d_ff), (words, d)
    )
    unit = {"the first unit": 0, "the last unit": d_ff - 1}.get(kind["unit"], d_ff // 2)
    firing = kind["hidden"]
    if firing != "some fire negatively (GELU)":
        hidden = hidden.abs() * (hidden > -0.5)
    hidden[0, unit] = 0.7  # else there would be nothing to take out
    if firing == "the unit never fires":
        hidden[:, unit] = 0.0
    elif firing == "the unit is negative for every question (GELU)":
        hidden[:, unit] = -0.17 * torch.sigmoid(hidden[:, unit])
    elif firing == "the unit fires strongly":
        hidden[:, unit] = 50 * hidden[:, unit]
    return Case((10 * logits, hidden, w, table, unit))


def without_unit(logits, hidden, w_down, table, unit):
    """The logits less what one unit adds to them."""
    only = torch.zeros_like(hidden).index_copy(
        1, torch.tensor([unit], device=hidden.device), hidden[:, unit : unit + 1]
    )
    return logits - F.linear(F.linear(only, w_down), table)


def _without(said):
    return lambda logits, hidden, w_down, table, unit: logits - said(hidden, w_down, table, unit)


def _spoken(w_down, table, unit):
    return table @ w_down[:, unit]


def _something_removed(cases, values, expected):
    """Right elsewhere, but here the logits come back as they were."""
    for case, value, right in zip(cases, values, expected, strict=True):
        logits = case.args[0]
        if torch.equal(value.to(logits), logits) and not torch.allclose(right, logits, atol=1e-3):
            return Finding(
                "nothing-removed",
                "Here the logits come back as they were, although the unit does add something. "
                f"That was for {WITHOUT.describe(case)}.",
            )
    return None


WITHOUT = Exercise(
    name="without_unit",
    lesson=LESSON,
    title="remove one unit",
    domain=Domain(
        kinds={
            "hidden": (
                "some units fire",
                "some fire negatively (GELU)",
                "the unit is negative for every question (GELU)",
                "the unit never fires",
                "the unit fires strongly",
            ),
            "unit": ("a unit in the middle", "the first unit", "the last unit"),
            "sizes": (
                "unequal sizes",
                "one question",
                "a single unit",
                "all sizes equal",
                "sizes above 8",
            ),
        },
        make=_without_case,
        edges=("the unit never fires",),
    ),
    witness=without_unit,
    reference=without_unit,
    properties=(_something_removed,),
    axes=("questions", "words"),
    tolerance=2e-5,
    hints=(
        "What does the unit add to the stream, for one question? How strongly it fires, times its "
        "value. And what does a vector in the stream add to the logit of a word?",
        "The unit's value, read by every word's vector, gives one number a word. Each question "
        "gets these numbers as often as the unit fires there.",
        "Two shapes have to meet: (questions,) for how strongly it fires and (words,) for what it "
        "says: one product for each question and word.",
    ),
    variants={
        "added": Variant(
            "You add the unit's part once more. It is in the logits already: take it out.",
            lambda logits, hidden, w, table, unit: (
                logits + hidden[:, unit, None] * _spoken(w, table, unit)
            ),
        ),
        "not-weighted": Variant(
            "You take out the unit's value as if it fired by 1 for every question. Where it does "
            "not fire, it has added nothing.",
            _without(
                lambda hidden, w, table, unit: _spoken(w, table, unit).expand(len(hidden), -1)
            ),
        ),
        "fires-or-not": Variant(
            "You take out the value wherever the unit fires, but not as strongly as it fires.",
            _without(
                lambda hidden, w, table, unit: (
                    (hidden[:, unit, None] > 0).to(w) * _spoken(w, table, unit)
                )
            ),
        ),
        "negative-ignored": Variant(
            "You take out what the unit adds where it fires positively. After a GELU it can be "
            "negative, and then it has added something too.",
            _without(
                lambda hidden, w, table, unit: (
                    hidden[:, unit, None].clamp(min=0) * _spoken(w, table, unit)
                )
            ),
        ),
        "sign-ignored": Variant(
            "You take out the unit's part as if it never fired negatively. After a GELU it can, "
            "and then its part has the other sign.",
            _without(
                lambda hidden, w, table, unit: hidden[:, unit, None].abs() * _spoken(w, table, unit)
            ),
        ),
        "unit-before": Variant(
            "You remove the unit before the one that is asked for. The units are counted from 0.",
            _without(
                lambda hidden, w, table, unit: (
                    hidden[:, unit - 1, None] * _spoken(w, table, unit - 1)
                )
            ),
        ),
        "mlp-alone": Variant(
            "You build the logits from the other units alone. The words' own vectors speak in "
            "`logits` too, and they are to stay.",
            lambda logits, hidden, w, table, unit: (
                hidden @ w.T @ table.T - hidden[:, unit, None] * _spoken(w, table, unit)
            ),
        ),
        "first-question": Variant(
            "You take out the same for every question: what the unit adds for the first one.",
            _without(lambda hidden, w, table, unit: hidden[0, unit] * _spoken(w, table, unit)),
        ),
        "mean-of-the-questions": Variant(
            "You take out the same for every question: how strongly the unit fires on average. "
            "Each question has a number of its own.",
            _without(
                lambda hidden, w, table, unit: hidden[:, unit].mean() * _spoken(w, table, unit)
            ),
        ),
        "log-probabilities": Variant(
            "You give the logarithms of probabilities. Asked for are the logits, as they are.",
            lambda logits, hidden, w, table, unit: without_unit(
                logits, hidden, w, table, unit
            ).log_softmax(-1),
        ),
        "all-units": Variant(
            "That removes all the units at once: the whole MLP but its bias.",
            _without(lambda hidden, w, table, unit: hidden @ w.T @ table.T),
        ),
        "the-unit-alone": Variant(
            "That is what the unit adds. Asked for are the logits that are left without it.",
            lambda logits, hidden, w, table, unit: hidden[:, unit, None] * _spoken(w, table, unit),
        ),
        "all-others": Variant(
            "You remove all the other units and leave this one.",
            _without(
                lambda hidden, w, table, unit: (
                    hidden @ w.T @ table.T - hidden[:, unit, None] * _spoken(w, table, unit)
                )
            ),
        ),
        "first-unit": Variant(
            "You always remove unit 0: the argument `unit` is not used.",
            _without(lambda hidden, w, table, unit: hidden[:, :1] * _spoken(w, table, 0)),
        ),
        "hidden-only": Variant(
            "You subtract how strongly the unit fires. What it adds to a word's logit also "
            "depends on its value, and on that word's vector.",
            _without(lambda hidden, w, table, unit: hidden[:, unit, None]),
        ),
        "unchanged": Variant(
            "Nothing has changed: you give back the logits as they were.",
            lambda logits, hidden, w, table, unit: logits.clone(),
        ),
    },
)


EXERCISES = [PLAIN, GELU, SLOPE, GATED, EDIT, WITHOUT]
QUESTIONS = [
    Item(
        "05-alone",
        LESSON,
        "The fifth token changes. Which rows of the MLP's output change?",
        (
            Option("all of them", "That would be attention. Here nobody looks at the neighbour."),
            Option("the fifth and those after it", "There is no order in it, and no neighbours."),
            Option(
                "only the fifth",
                "Yes: the same small network, once for each token.",
                right=True,
            ),
        ),
    ),
    Item(
        "05-dead",
        LESSON,
        "A ReLU unit is dead: no question makes it fire, so no gradient reaches its weights. The "
        "vectors of the words are still being trained. Can the unit fire again?",
        (
            Option(
                "no, never: its slope is 0",
                "Its own weights have no gradient. But is that all that its sum is made of?",
            ),
            Option(
                "yes: its own weights stand still, but what comes in moves",
                "Yes. The other units' gradients move the words' vectors, and a question can move "
                "to where the unit fires. The measurement below says how often.",
                right=True,
            ),
            Option(
                "yes: its own gradient is small, but not 0",
                "That holds for a GELU. A ReLU's slope below 0 is exactly 0.",
            ),
        ),
    ),
    Item(
        "05-knock-out",
        LESSON,
        "In the network above (its words are learned, and firing costs little) a unit fires for "
        "one question only, and its value points to the right answer. You switch the unit off. "
        "What happens to that answer?",
        (
            Option(
                "it is lost, in most cases",
                "So one would think: it looks like the place where the fact is kept. Look at the "
                "measurement below.",
            ),
            Option(
                "it stays right, in nearly all cases",
                "So it comes out here. The unit speaks for the answer, but it is not the only one "
                "that does. In another design, below, it is the other way round.",
                right=True,
            ),
            Option(
                "all answers change",
                "The unit is silent for the other nineteen questions: they cannot notice.",
            ),
        ),
    ),
    Item(
        "05-share",
        LESSON,
        "A block with d_model = 4096 and d_ff = 4 · d_model. What share of its parameters does "
        "attention have?",
        (
            Option(
                "two thirds",
                "The other way round. Attention has four matrices of d × d; what has the MLP?",
            ),
            Option(
                "one third",
                "Yes: 4d² of 12d². The MLP has two matrices of d × 4d, which is 8d².",
                right=True,
            ),
            Option("one half", "4d² against 8d²."),
        ),
    ),
    Item(
        "05-quiz-linear",
        LESSON,
        "You take the activation out of an MLP with d_ff = 4 · d_model. What is left?",
        (
            Option(
                "a single matrix of d_model × d_model, at eight times its cost",
                "Yes: x (W₁W₂). A product of matrices is a matrix, however wide it is between.",
                right=True,
            ),
            Option(
                "a linear layer with more room than one matrix: 8 · d_model² numbers can be "
                "learned",
                "They are there, and they are trained. But what comes out is x times one matrix "
                "of d_model × d_model, and d_model² numbers are enough to write that down.",
            ),
            Option(
                "a matrix of d_model × 4 · d_model, since the width in the middle stays",
                "The second matrix brings it back to d_model. The product of the two no longer "
                "knows how wide it was in between.",
            ),
        ),
    ),
    Item(
        "05-quiz-gelu",
        LESSON,
        "Why GELU and not ReLU? What did this lesson's measurements support?",
        (
            Option(
                "GELU units cannot die",
                "They did, at a learning rate that was too high: nearly as many as ReLU's.",
            ),
            Option(
                "GELU is cheaper to compute",
                "ReLU is a comparison; GELU needs an erf or a tanh.",
            ),
            Option(
                "it is smooth and gives small negative sums a gradient; whether it also lowers the "
                "loss, the lesson cannot tell",
                "Yes, in this small model. The gate gained more than the step from ReLU to GELU.",
                right=True,
            ),
        ),
    ),
    Item(
        "05-quiz-edit",
        LESSON,
        "You change the value of one unit, and exactly one answer changes. What have you shown?",
        (
            Option(
                "that the fact was kept in this unit",
                "The same edit worked in a unit that never fired: there nothing was kept.",
            ),
            Option(
                "that this answer can be changed from there",
                "Yes. Whether the fact was kept there, only taking the unit away can tell.",
                right=True,
            ),
            Option(
                "that the other answers do not use this unit's neighbours",
                "The edit says nothing about other units.",
            ),
        ),
    ),
    Item(
        "05-quiz-width",
        LESSON,
        "A plain MLP has d_ff = 6144. How wide is a SwiGLU with as many parameters?",
        (
            Option(
                "4096",
                "Yes: three matrices instead of two, so two thirds of the width.",
                right=True,
            ),
            Option("9216", "Wider would be more. There is a third matrix to pay for."),
            Option("3072", "Half would do for four matrices; there are three."),
        ),
    ),
]
