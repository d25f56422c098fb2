"""Lesson 04: what keeps the numbers in hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tfcourse import norms
from tfcourse.checks import forbidden
from tfcourse.checks.exercise import Case, Domain, Exercise, Finding, Twin, Variant, randn, unequal
from tfcourse.checks.judging import HALF, alike_for, same
from tfcourse.checks.quiz import Item, Option

LESSON = "04_norms"

EPS = {"eps given": 1e-5, "eps left out": None, "eps 1e-6": 1e-6, "eps 0.5": 0.5}
FAR = "a mean of 30"
PADDED = "every other token all zero"
SINGLE = "tokens of a single number"
TOLERANCE = 4e-5  # with a mean of 30: right answers are off by 1e-5, E[x²] − E[x]² by 1e-4


def _eps(kind: str) -> dict:
    """The keyword argument; left out, the answer's own default counts."""
    return {} if EPS[kind] is None else {"eps": EPS[kind]}


def _kinds_of_numbers(equal: str) -> tuple[str, ...]:
    """Sizes of x's numbers; `equal` says in words which of them are all equal."""
    sizes = ("ordinary numbers", FAR, "numbers in the hundreds", "tiny numbers")
    return (*sizes, equal, "all zero")


def _numbers(kind: str, x: torch.Tensor, over: tuple[int, ...] = (-1,)) -> torch.Tensor:
    """x with its numbers as the kind says; `over` are the axes that a mean is taken over."""
    if kind == FAR:  # a spread of 1/2, whatever the seed: right answers keep their digits
        centred = x - x.mean(over, keepdim=True)
        return 30 + centred / (2 * centred.square().mean(over, keepdim=True).sqrt())
    scale = {"numbers in the hundreds": 300.0, "tiny numbers": 1e-4, "all zero": 0.0}.get(kind, 1.0)
    x = (2 * x + 1) * scale
    if kind in EQUAL.values():
        gone = {axis % x.dim() for axis in over}
        # Small, so that a mean that is off by a rounding stays small beside the root of eps.
        x[tuple(slice(None) if axis in gone else 0 for axis in range(x.dim()))] = 0.25
    if kind == PADDED:
        x.flatten(0, -2)[1::2] = 0.0
    return x


EQUAL = {
    "layer": "the numbers of one token all equal",
    "batch": "number 0 the same in every token",
}


def _layer_shape(kind, seed) -> tuple[int, ...] | None:
    """The shape of x, or None where axes and sizes cannot meet."""
    # Few numbers: an answer may take them one by one. But a token of 2 has no shape of its own.
    batch, heads, tokens = unequal(seed, 3, 2, 4)
    [d] = unequal(seed, 1, 5, 7)
    axes, sizes = kind["axes"], kind["sizes"]
    if axes in ("four axes", "five axes"):
        batch, heads, tokens = unequal(seed, 3, 1, 3)
    batch = 1 if sizes == "a batch of one" else batch
    tokens = 1 if sizes == "one token" else tokens
    d = {"d_model 24": 24, SINGLE: 1}.get(sizes, d)
    shape = {
        "three axes": (batch, tokens, d),
        "one axis": (d,),
        "two axes": (tokens, d),
        "four axes": (batch, heads, tokens, d),
        "five axes": (2, batch, heads, tokens, d),
    }[axes]
    least = {"a batch of one": 3, "one token": 2}.get(sizes, 1)
    # One number alone is its own mean, whatever it is: other kinds must be met in other cases.
    if len(shape) < least or (d == 1 and kind["numbers"] != "ordinary numbers"):
        return None
    return shape


LAYER_KINDS = {
    "axes": ("three axes", "one axis", "two axes", "four axes", "five axes"),
    "sizes": ("unequal sizes", "a batch of one", "one token", "d_model 24", SINGLE),
    "numbers": _kinds_of_numbers(EQUAL["layer"]),
    "eps": tuple(EPS),
}
LAYER_EDGES = (SINGLE, EQUAL["layer"], "all zero", "eps left out")


def _norm(
    dim=-1,
    centre=True,
    spread=lambda x, centred, dim: centred.square().mean(dim, keepdim=True),
    divide=lambda y, variance, eps: y / (variance + eps).sqrt(),
    affine=lambda y, weight, bias: y * weight + bias,
    before=lambda x, weight, bias: x,
    default=1e-5,
):
    """A LayerNorm with one part of it replaced."""

    def answer(x, weight, bias, eps=default):
        x = before(x, weight, bias)
        centred = x - x.mean(dim, keepdim=True)
        variance = spread(x, centred, dim)
        return affine(divide(centred if centre else x, variance, eps), weight, bias)

    return answer


def _unbiased(x, centred, dim):
    square = centred.square()
    mean = square.mean(dim, keepdim=True)
    n = square.numel() / mean.numel()
    return mean * n / torch.tensor(n - 1)  # one number alone: 0/0, as torch's var gives


def _outside(y, variance, eps):
    return y / (variance.sqrt() + eps)


def _root_of_eps(y, variance, eps):
    return y / (variance.sqrt() + eps**0.5)


def _root_of_std(y, variance, eps):
    return y / (variance.sqrt() + eps).sqrt()


ROOT_OF_EPS = (
    "You take one root without eps and one of eps, and add the two. The root of a sum is "
    "something else: add first, then take one root."
)
EPS_SHRUNK = (
    "Your eps is added to the sum of the squares, so it counts only 1/d of what it should. In the "
    "formula it is added to their mean."
)


def _off(cases, values, expected, tolerance=TOLERANCE) -> list[Case]:
    """The cases that are not right."""
    triples = zip(cases, values, expected, strict=True)
    return [case for case, v, e in triples if not same(v, e, tolerance)]


DEFAULT = (
    "All is right when eps is given. When it is left out, your default is not the 1e-5 of the "
    "first line that you were given."
)


def another_default(cases, values, expected, tolerance=TOLERANCE) -> Finding | None:
    """Whatever the default is: all is right where eps is given."""
    off = _off(cases, values, expected, tolerance)
    if off and not any(case.kwargs for case in off):
        return Finding("eps-default", DEFAULT)
    return None


def _cancels(cases, values, expected) -> Finding | None:
    """Only where the mean is large beside the spread do the numbers lose their digits."""
    off = _off(cases, values, expected)
    if off and all(FAR in case.note for case in off):
        return Finding(
            "cancellation",
            "Right as long as the numbers lie around 0. With a mean of 30 your variance loses its "
            "digits: somewhere a large number is subtracted from another large one that is nearly "
            "equal (the mean of the squares minus the square of the mean does so). Where in the "
            "formula is the mean subtracted: before squaring, or after it?",
        )
    return None


def _equal_numbers(cases, values, expected) -> Finding | None:
    """Only where there is nothing to divide by is it something else."""
    off = _off(cases, values, expected)
    flat = (SINGLE, EQUAL["layer"], "all zero")
    if off and all(any(kind in case.note for kind in flat) for case in off):
        return Finding(
            "equal-numbers",
            "Right, but for a token whose numbers are all equal. It has variance 0 and does not "
            "differ from its mean anywhere: what does the formula leave of it?",
        )
    return None


# --- layer_norm -----------------------------------------------------------------------------


def _layer_case(kind, seed) -> Case | None:
    shape = _layer_shape(kind, seed)
    if shape is None:
        return None
    x, weight, bias = randn(seed, shape, shape[-1:], shape[-1:])
    return Case((_numbers(kind["numbers"], x), weight, bias), _eps(kind["eps"]))


def _layer_twins() -> list[Case]:
    x, weight, bias = randn(0, (2, 5, 4), (4,), (4,))
    base = Case((2 * x + 1, weight, bias))
    far = Case(
        (2 * x + 11, weight, bias),
        note="the input before with 10 added everywhere",
        twin=Twin(
            0,
            lambda base, this: (base, this),
            "shift",
            "Adding one number to all of a token's numbers changes your output. The mean is to be "
            "subtracted from x above, and from x before it is squared below.",
        ),
    )
    alone = Case(
        (2 * x[:1, :1] + 1, weight, bias),
        note="its first token alone",
        twin=Twin(
            0,
            lambda base, this: (base[:1, :1], this),
            "tokens-mix",
            "A token's output depends on its neighbours: alone, the first one gives something "
            "else than in company. Mean and variance are the token's own.",
        ),
    )
    tiny = Case((1e-3 * x, weight, bias), note="tiny numbers, eps left out", edge=True)
    return [base, far, alone, tiny]


def layer_norm(x, weight, bias, eps=1e-5):
    """PyTorch's own, as a function of the same arguments."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _bias_divided(x, weight, bias, eps=1e-5):
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return ((x - mean) * weight + bias) / (variance + eps).sqrt()


MEAN_DISTANCE = (
    "You divide by the mean of the absolute distances from the mean. The standard deviation "
    "squares the distances, takes their mean, then the root."
)

LAYER = Exercise(
    name="layer_norm",
    lesson=LESSON,
    title="LayerNorm",
    domain=Domain(LAYER_KINDS, _layer_case, LAYER_EDGES),
    special=_layer_twins,
    forbids=forbidden.NORMS,
    witness=layer_norm,
    reference=norms.layer_norm,
    axes=("batch", "tokens", "d_model"),
    properties=(another_default, _cancels, _equal_numbers),
    tolerance=TOLERANCE,
    hints=(
        "Do it on [1, 2, 3, 4] with a pencil first. What is subtracted, what is divided by?",
        "`mean(dim=-1, keepdim=True)` keeps the axis, so that it broadcasts against x again. The "
        "variance is the mean of the squared distances from the mean.",
        "eps stands under the root, beside the variance. `x.var(…)` divides by d − 1 unless you "
        "tell it otherwise; look up `correction`.",
    ),
    variants={
        "unbiased": Variant(
            "You divide by d − 1 in the variance, as statistics does for a sample (torch's `var` "
            "and `std` do so by default). LayerNorm divides by d.",
            _norm(spread=_unbiased),
        ),
        "unbiased-and-outside": Variant(
            "Two things at once: the variance is divided by d − 1 (torch's default), and eps is "
            "added to the root, where it belongs under it.",
            _norm(spread=_unbiased, divide=_outside),
        ),
        "eps-outside": Variant(
            "Your eps is added to the root; it belongs under the root, beside the variance.",
            _norm(divide=_outside),
        ),
        "eps-ignored": Variant(
            "The argument eps changes nothing in your code: that is right only as long as nobody "
            "gives another one.",
            _norm(divide=lambda y, v, eps: y / (v + 1e-5).sqrt()),
        ),
        "eps-default": Variant(
            DEFAULT,
            _norm(default=1e-6),
        ),
        "no-eps": Variant(
            "There is no eps in your code. A token whose numbers are all equal gives 0 divided by "
            "0, and a tiny one is blown up. That is what eps is for.",
            _norm(divide=lambda y, v, eps: y / v.sqrt()),
        ),
        "not-centred": Variant(
            "You do not subtract the mean from what you divide.",
            _norm(centre=False),
        ),
        "rms": Variant(
            "This is RMSNorm (with a bias): no mean is subtracted, neither above nor in the "
            "variance. You will write it later in this lesson.",
            _norm(centre=False, spread=lambda x, c, dim: x.square().mean(dim, keepdim=True)),
        ),
        "rms-below": Variant(
            "The mean is subtracted above, but under the root stands the mean of the plain "
            "squares. The variance is the mean of the squared distances from the mean.",
            _norm(spread=lambda x, c, dim: x.square().mean(dim, keepdim=True)),
        ),
        "variance-not-root": Variant(
            "You divide by the variance; the root of it, the standard deviation, is meant.",
            _norm(divide=lambda y, v, eps: y / (v + eps)),
        ),
        "over-everything": Variant(
            "Mean and variance are taken over the whole tensor. Each token has its own.",
            _norm(dim=None, spread=lambda x, c, dim: c.square().mean()),
        ),
        "over-tokens": Variant(
            "You take mean and variance down the tokens, for each number of the vector. They go "
            "along the vector: the last axis.",
            _norm(dim=-2),
        ),
        "affine-first": Variant(
            "Weight and bias are applied before the norm, which takes half of their work away "
            "again. They come after it.",
            _norm(before=lambda x, w, b: x * w + b, affine=lambda y, w, b: y),
        ),
        "no-weight": Variant(
            "The weight is missing: normalize, multiply by it, then add the bias.",
            _norm(affine=lambda y, w, b: y + b),
        ),
        "sum-of-squares": Variant(
            "You divide by the root of the sum of squares. The variance is their mean, else the "
            "numbers shrink as d_model grows.",
            _norm(spread=lambda x, c, dim: c.square().sum(dim, keepdim=True)),
        ),
        "mean-distance": Variant(
            MEAN_DISTANCE,
            _norm(spread=lambda x, c, dim: c.abs().mean(dim, keepdim=True).square()),
        ),
        "mean-distance-and-eps": Variant(
            MEAN_DISTANCE,
            _norm(
                spread=lambda x, c, dim: c.abs().mean(dim, keepdim=True),
                divide=lambda y, v, eps: y / (v + eps),
            ),
        ),
        "root-of-eps": Variant(ROOT_OF_EPS, _norm(divide=_root_of_eps)),
        "eps-shrunk": Variant(
            EPS_SHRUNK, _norm(divide=lambda y, v, eps: y / (v + eps / y.shape[-1]).sqrt())
        ),
        "weight-first": Variant(
            "The weight multiplies x before the norm, and so counts in mean and variance. It "
            "comes after dividing.",
            _norm(before=lambda x, w, b: x * w, affine=lambda y, w, b: y + b),
        ),
        "bias-first": Variant(
            "The bias is added before the norm, and so counts in mean and variance. It comes last.",
            _norm(before=lambda x, w, b: x + b, affine=lambda y, w, b: y * w),
        ),
        "bias-divided": Variant(
            "The bias is divided by the root too. It is added after dividing, last of all.",
            _bias_divided,
        ),
        "bias-subtracted": Variant(
            "The bias is subtracted; it is added.",
            _norm(affine=lambda y, w, b: y * w - b),
        ),
        "no-affine": Variant(
            "Weight and bias are missing: normalize, then multiply and add.",
            _norm(affine=lambda y, w, b: y),
        ),
        "no-bias": Variant(
            "The bias is missing.",
            _norm(affine=lambda y, w, b: y * w),
        ),
        "bias-scaled": Variant(
            "The weight multiplies the bias too: first times weight, then plus bias.",
            _norm(affine=lambda y, w, b: (y + b) * w),
        ),
        "affine-swapped": Variant(
            "Weight and bias have changed places: the weight multiplies, the bias is added.",
            _norm(affine=lambda y, w, b: y * b + w),
        ),
        "one-added": Variant(
            "You multiply by 1 + weight. The weight itself multiplies; it starts as 1, not as 0.",
            _norm(affine=lambda y, w, b: y * (1 + w) + b),
        ),
    },
)


# --- batch_norm -----------------------------------------------------------------------------


def _batch_case(kind, seed) -> Case | None:
    batch, tokens, d = unequal(seed, 3, 3, 9)
    batch, tokens, d = {
        "a batch of one": (1, tokens, d),
        "one token each": (batch, 1, d),
        "one token in all": (1, 1, d),
        "d_model 1": (batch, tokens, 1),
        "sizes above 8": (9, 11, 10),
    }.get(kind["sizes"], (batch, tokens, d))
    (x,) = randn(seed, (batch, tokens, d))
    if batch * tokens == 1 and kind["numbers"] != "ordinary numbers":
        return None  # it is its own mean, whatever it is
    return Case((_numbers(kind["numbers"], x, (0, 1)),), _eps(kind["eps"]))


def _batch_known() -> list[Case]:
    """PyTorch's own, in training."""
    (x,) = randn(7, (3, 4, 5))
    right = F.batch_norm(x.flatten(0, 1), None, None, training=True, eps=1e-3).view_as(x)
    tiny = Case((1e-3 * x,), note="tiny numbers, eps left out", edge=True)
    return [Case((x,), {"eps": 1e-3}, expected=right), tiny]


def batch_norm(x, eps=1e-5):
    """Each number of the vectors over batch and tokens."""
    variance, mean = torch.var_mean(x, (0, 1), correction=0, keepdim=True)
    return (x - mean) / (variance + eps).sqrt()


def _batch(dim=(0, 1), default=1e-5, **parts):
    inner = _norm(dim, affine=lambda y, w, b: y, **parts)
    return lambda x, eps=default: inner(x, None, None, eps)


def _one_after_the_other(x, eps=1e-5):
    for axis in (0, 1):
        variance, mean = torch.var_mean(x, axis, correction=0, keepdim=True)
        x = (x - mean) / (variance + eps).sqrt()
    return x


def _cut_into_rows(x, eps=1e-5):
    rows = x.reshape(x.shape[-1], -1)
    variance, mean = torch.var_mean(rows, 1, correction=0, keepdim=True)
    return ((rows - mean) / (variance + eps).sqrt()).reshape(x.shape)


def _zeros_left_out(x, eps=1e-5):
    counts = (x != 0).any(-1, keepdim=True).to(x)
    n = counts.sum().clamp(min=1)
    mean = (x * counts).sum((0, 1)) / n
    variance = ((x - mean).square() * counts).sum((0, 1)) / n
    return (x - mean) / (variance + eps).sqrt()


def _misplaced(cases, values, expected) -> Finding | None:
    """The same numbers as in the right result, at other places."""
    off = [(v, e) for v, e in zip(values, expected, strict=True) if not same(v, e, TOLERANCE)]
    if off and all(same(v.flatten().msort(), e.flatten().msort(), TOLERANCE) for v, e in off):
        return Finding(
            "misplaced",
            "Your result has all the right numbers, but not where they belong. Did axes change "
            "places on the way? `reshape` and `view` do not bring them back: they only cut the "
            "same row of numbers anew.",
        )
    return None


BATCH = Exercise(
    name="batch_norm",
    lesson=LESSON,
    title="BatchNorm, for comparison",
    domain=Domain(
        {
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one token each",
                "one token in all",
                "d_model 1",
                "sizes above 8",
            ),
            "numbers": (*_kinds_of_numbers(EQUAL["batch"]), PADDED),
            "eps": tuple(EPS),
        },
        _batch_case,
        ("one token in all", EQUAL["batch"], "all zero", "eps left out"),
    ),
    special=_batch_known,
    forbids=forbidden.NORMS,
    witness=batch_norm,
    reference=batch_norm,
    axes=("batch", "tokens", "d_model"),
    properties=(another_default, _cancels, _misplaced),
    tolerance=TOLERANCE,
    hints=(
        "It is the same sum as before, taken over other axes. One mean for each of the d_model "
        "numbers: over what, then?",
        "`mean` takes several axes at once, as a tuple. What shape should the mean have, with "
        "`keepdim=True`?",
        "(1, 1, d_model): batch and tokens are both gone.",
    ),
    variants={
        "layer-norm": Variant(
            "That is LayerNorm again: each token by itself. BatchNorm goes over batch and tokens, "
            "for each of the d_model numbers.",
            _batch(-1),
        ),
        "over-batch-only": Variant(
            "You take the mean over the batch, for each token's place by itself. All tokens of "
            "all sequences count together.",
            _batch(0),
        ),
        "over-tokens-only": Variant(
            "You take the mean over the tokens of each sequence by itself (that is called "
            "InstanceNorm). BatchNorm goes over the whole batch.",
            _batch(1),
        ),
        "over-everything": Variant(
            "One mean for the whole tensor; each of the d_model numbers should have its own.",
            _batch((0, 1, 2)),
        ),
        "one-a-sequence": Variant(
            "You take one mean for each sequence, over tokens and numbers.",
            _batch((1, 2)),
        ),
        "one-a-place": Variant(
            "You take one mean for each place in the sequence, over the batch and the numbers. "
            "Each of the d_model numbers has its own mean, over batch and tokens.",
            _batch((0, 2)),
        ),
        "unbiased": Variant(
            "The variance is divided by n − 1, torch's default. BatchNorm divides by n here. (It "
            "uses n − 1 only for the running variance that it keeps for later.)",
            _batch(spread=_unbiased),
        ),
        "eps-outside": Variant(
            "Your eps is added to the root; it belongs under it.",
            _batch(divide=_outside),
        ),
        "eps-ignored": Variant(
            "The argument eps changes nothing in your code.",
            _batch(divide=lambda y, v, eps: y / (v + 1e-5).sqrt()),
        ),
        "eps-default": Variant(
            DEFAULT,
            _batch(default=1e-6),
        ),
        "no-eps": Variant(
            "There is no eps in your code: a number that is the same everywhere would be 0/0.",
            _batch(divide=lambda y, v, eps: y / v.sqrt()),
        ),
        "not-centred": Variant(
            "You do not subtract the mean from what you divide.",
            _batch(centre=False),
        ),
        "variance-not-root": Variant(
            "You divide by the variance; the root of it is meant.",
            _batch(divide=lambda y, v, eps: y / (v + eps)),
        ),
        "rms-below": Variant(
            "The mean is subtracted above, but under the root stands the mean of the plain "
            "squares. The variance is the mean of the squared distances from the mean.",
            _batch(spread=lambda x, c, dim: x.square().mean(dim, keepdim=True)),
        ),
        "sum-of-squares": Variant(
            "You divide by the root of the sum of squares. The variance is their mean.",
            _batch(spread=lambda x, c, dim: c.square().sum(dim, keepdim=True)),
        ),
        "divided-by-batch": Variant(
            "In the variance you divide the sum by the number of sequences. There are batch · "
            "tokens squares in it.",
            _batch(spread=lambda x, c, dim: c.square().sum(dim, keepdim=True) / len(x)),
        ),
        "mean-of-variances": Variant(
            "You take the variance of each sequence and then the mean of these. That leaves out "
            "how far the sequences lie apart: the distances are those from the mean of all tokens.",
            _batch(spread=lambda x, c, dim: x.var(1, correction=0, keepdim=True).mean(0)),
        ),
        "one-after-the-other": Variant(
            "You normalize over the batch first, and what comes out over the tokens. It is one "
            "mean and one variance, over both axes at once.",
            _one_after_the_other,
        ),
        "cut-into-rows": Variant(
            "You cut the numbers into d_model rows in the order in which they stand in memory. "
            "There one token comes after the other, so a row holds parts of tokens, not one number "
            "of each.",
            _cut_into_rows,
        ),
        "zeros-left-out": Variant(
            "Tokens of zeros do not count in your mean and variance. You may have thought of "
            "padding, but BatchNorm knows of none: all tokens of all sequences count.",
            _zeros_left_out,
        ),
    },
)


# --- rms_norm -------------------------------------------------------------------------------


STORED = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


def _rms_case(kind, seed) -> Case | None:
    shape = _layer_shape(kind, seed)
    if shape is None:
        return None
    x, weight = randn(seed, shape, shape[-1:])
    given = (_numbers(kind["numbers"], x), weight)
    return Case(tuple(t.to(STORED[kind["stored as"]]) for t in given), _eps(kind["eps"]))


def _rms_twins() -> list[Case]:
    x, weight = randn(0, (2, 5, 4), (4,))
    base = Case((2 * x + 1, weight))
    alone = Case(
        (2 * x[:1, :1] + 1, weight),
        note="its first token alone",
        twin=Twin(
            0,
            lambda base, this: (base[:1, :1], this),
            "tokens-mix",
            "A token's output depends on its neighbours: alone, the first one gives something "
            "else than in company.",
        ),
    )
    tiny = Case((1e-3 * x, weight), note="tiny numbers, eps left out", edge=True)
    heavy = Case(
        (torch.tensor([200.0, -100, 0, 50]).half(), torch.tensor([512.0, 256, 128, 256]).half()),
        note="numbers and weights in the hundreds, float16",
        gradients=False,  # in 16 bits a right answer's may be infinite here
        edge=True,
    )
    weights = torch.full((4,), 512.0)
    light = Case(
        (1e-3 * torch.ones(4).half(), weights.half()),
        note="tiny numbers and weights of 512, float16",
        gradients=False,
        edge=True,
    )
    beyond = Case(
        (torch.tensor([1e5, 2e5, -3e4, 0]).bfloat16(), weights.bfloat16()),
        note="numbers beyond 65504, bfloat16",
        gradients=False,
        edge=True,
    )
    halves = [heavy, light, beyond]
    return [base, alone, tiny, *halves, *map(_roundings_add_up, UNLUCKY)]


# Found by trying: all the roundings of an answer that works in 16 bits go one way.
UNLUCKY = (
    (torch.float16, 0.5, [5.98046875, 3.1171875, 3.083984375], [0.012634, 1.92578125, 0.005039]),
    (torch.bfloat16, 0.5, [4.25, 5.09375, 10.0], [0.0189208984375, 1.9921875, 0.0091552734375]),
)


def _roundings_add_up(unlucky) -> Case:
    dtype, eps, *numbers = unlucky
    x, weight = (torch.tensor(n, dtype=dtype) for n in numbers)
    note = f"where roundings add up, {str(dtype).removeprefix('torch.')}"
    return Case((x, weight), {"eps": eps}, note=note, edge=True)


def rms_norm(x, weight, eps=1e-5):
    """PyTorch's own, as a function of the same arguments; half precision by way of float32."""
    wide, wide_weight = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (x, weight))
    return F.rms_norm(wide, x.shape[-1:], wide_weight, eps).to(x.dtype)


def _rms(
    size,
    divide=lambda x, s, eps: x / (s + eps).sqrt(),
    affine=lambda y, w: y * w,
    default=1e-5,
):
    def answer(x, weight, eps=default):
        wide, wide_weight = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (x, weight))
        return affine(divide(wide, size(wide), eps), wide_weight).to(x.dtype)

    return answer


def _of_wide_numbers(cases, values, expected) -> Finding | None:
    """`another_default`, whatever is wrong in half precision besides."""
    triples = [t for t in zip(cases, values, expected, strict=True) if t[2].dtype not in HALF]
    return another_default(*zip(*triples, strict=True), RMS.tolerance) if triples else None


def _in_half(cases, values, expected) -> Finding | None:
    """Right in float32 and float64: then half precision is not left, or not early enough."""
    triples = zip(cases, values, expected, strict=True)
    off = [t for t in triples if not alike_for(RMS, t[1], t[2])]
    if not off or not all(right.dtype in HALF for _, _, right in off):
        return None
    for case, value, right in off:
        if (value.isinf() & right.isfinite()).any():
            return Finding(
                "overflow",
                "Right in float32 and float64. In float16 something becomes infinite: float16 "
                "ends at 65504. Which of your numbers is larger than that on the way, and in which "
                f"type is it computed? That was for {RMS.describe(case)}.",
            )
        if ((value == 0) & (right != 0)).any():
            return Finding(
                "overflow",
                "Right in float32 and float64. In float16 numbers in the hundreds become 0: "
                "something by which you divide is infinite. float16 ends at 65504. Which of your "
                "numbers is larger than that, and in which type is it computed? That was for "
                f"{RMS.describe(case)}.",
            )
    return Finding(
        "in-half",
        "Right in float32 and float64, not in half precision. Follow the types: which step still "
        "works in 16 bits, and are its numbers too large or too small for them, or have they lost "
        f"digits? That was for {RMS.describe(off[0][0])}.",
    )


def _mean_square(x):
    return x.square().mean(-1, keepdim=True)


MEAN_ABSOLUTE = (
    "You divide by the mean of the absolute values. RMSNorm squares them, takes the mean, then the "
    "root."
)

RMS = Exercise(
    name="rms_norm",
    lesson=LESSON,
    title="RMSNorm",
    domain=Domain(
        LAYER_KINDS | {"stored as": tuple(STORED)},
        _rms_case,
        # A mistake in the formula is recognised in full precision; and in 16 bits a gradient, of
        # terms that cancel, keeps hardly a digit.
        (*LAYER_EDGES, "float16", "bfloat16"),
        without={"precision": "the types are kinds of its own: half precision among them"},
    ),
    special=_rms_twins,
    forbids=forbidden.NORMS,
    witness=rms_norm,
    reference=norms.rms_norm,
    axes=("batch", "tokens", "d_model"),
    properties=(_of_wide_numbers, _in_half),
    hints=(
        "Read its name backwards: the root of the mean of the squares. Beside your LayerNorm, what "
        "is left out?",
        "In float16 the square of 300 is infinite. So the change of type has to come before one of "
        "your steps: which?",
        "The last step gives back the type that came in. If you have given the name x to the wider "
        "tensor, its dtype is not what came in any more.",
    ),
    variants={
        "centred": Variant(
            "The mean is still subtracted: that is LayerNorm without a bias.",
            lambda x, weight, eps=1e-5: F.layer_norm(x, x.shape[-1:], weight, None, eps),
        ),
        "variance": Variant(
            "You divide by the standard deviation. Without subtracting a mean, the mean of the "
            "plain squares is meant.",
            _rms(lambda x: x.var(-1, keepdim=True, correction=0)),
        ),
        "no-root": Variant(
            "You divide by the mean of the squares; its root is meant.",
            _rms(_mean_square, lambda x, s, eps: x / (s + eps)),
        ),
        "sum-of-squares": Variant(
            "You divide by the length of the vector, the root of the sum of squares. Then the "
            "numbers shrink as d_model grows. It is the root of their mean.",
            _rms(lambda x: x.square().sum(-1, keepdim=True)),
        ),
        "square-of-mean": Variant(
            "You take the mean first and square it: that is the size of the mean. The squares "
            "come first, then their mean.",
            _rms(lambda x: x.mean(-1, keepdim=True).square()),
        ),
        "mean-absolute": Variant(
            MEAN_ABSOLUTE,
            _rms(lambda x: x.abs().mean(-1, keepdim=True).square()),
        ),
        "mean-absolute-and-eps": Variant(
            MEAN_ABSOLUTE,
            _rms(lambda x: x.abs().mean(-1, keepdim=True), lambda x, s, eps: x / (s + eps)),
        ),
        "unbiased": Variant(
            "You divide the sum of the squares by d − 1. No mean was taken away, and the formula "
            "divides by d.",
            _rms(lambda x: x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)),
        ),
        "length-over-d": Variant(
            "You divide the length of the vector by d. In the formula 1/d stands under the root: "
            "what does it become outside?",
            _rms(
                lambda x: x.norm(dim=-1, keepdim=True) / x.shape[-1],
                lambda x, s, eps: x / (s + eps),
            ),
        ),
        "root-of-eps": Variant(
            ROOT_OF_EPS, _rms(_mean_square, lambda x, s, eps: x / (s.sqrt() + eps**0.5))
        ),
        "eps-shrunk": Variant(
            EPS_SHRUNK, _rms(_mean_square, lambda x, s, eps: x / (s + eps / x.shape[-1]).sqrt())
        ),
        "multiplied": Variant(
            "You multiply by the root where you should divide by it.",
            _rms(_mean_square, lambda x, s, eps: x * (s + eps).sqrt()),
        ),
        "eps-outside": Variant(
            "Your eps is added to the root; it belongs under it.",
            _rms(_mean_square, lambda x, s, eps: x / (s.sqrt() + eps)),
        ),
        "eps-ignored": Variant(
            "The argument eps changes nothing in your code.",
            _rms(_mean_square, lambda x, s, eps: x / (s + 1e-5).sqrt()),
        ),
        "eps-default": Variant(
            DEFAULT,
            _rms(_mean_square, default=1e-6),
        ),
        "no-eps": Variant(
            "There is no eps in your code. A token of zeros gives 0 divided by 0, and a tiny one "
            "is blown up. That is what eps is for.",
            _rms(_mean_square, lambda x, s, eps: x / s.sqrt()),
        ),
        "one-added": Variant(
            "You multiply by 1 + weight. Some models (Gemma) store it so; here the weight itself "
            "multiplies.",
            _rms(_mean_square, affine=lambda y, w: y * (1 + w)),
        ),
        "centred-above": Variant(
            "You subtract the mean from what you divide. RMSNorm leaves the mean in.",
            lambda x, weight, eps=1e-5: (
                (x - x.mean(-1, keepdim=True)) / (_mean_square(x) + eps).sqrt() * weight
            ),
        ),
        "no-weight": Variant(
            "The weight is missing: normalize, then multiply by it.",
            _rms(_mean_square, affine=lambda y, w: y),
        ),
        "weight-added": Variant(
            "The weight is added; it multiplies.",
            _rms(_mean_square, affine=lambda y, w: y + w),
        ),
        "weight-first": Variant(
            "The weight is applied before the norm, and so counts in the mean of squares.",
            lambda x, weight, eps=1e-5: F.rms_norm(x * weight, x.shape[-1:], None, eps),
        ),
        "over-everything": Variant(
            "The mean of squares is taken over the whole tensor. Each token has its own.",
            _rms(lambda x: x.square().mean()),
        ),
        "over-tokens": Variant(
            "The mean of squares is taken down the tokens; it goes along the vector.",
            _rms(lambda x: x.square().mean(-2, keepdim=True)),
        ),
        "over-axis-1": Variant(
            "The mean of squares is taken over the axis with number 1. The vector is the last "
            "axis, whatever its number is: counted from the end, it is always the same.",
            _rms(lambda x: x.square().mean(1, keepdim=True)),
        ),
        "eps-as-a-bound": Variant(
            "Your eps is the least that stands under the root. In the formula it is added to the "
            "mean of the squares, whatever that is.",
            _rms(_mean_square, lambda x, s, eps: x / s.clamp(min=eps).sqrt()),
        ),
    },
)


# --- fold_norm (graded) ---------------------------------------------------------------------


def _fold_case(kind, seed) -> Case | None:
    d_in, d_out = unequal(seed, 2, 2, 8)
    d_in, d_out = {
        "as many outputs as inputs": (d_in, d_in),
        "one output": (d_in, 1),
        "one input": (1, d_out),
        "sizes above 8": (12, 17),
    }.get(kind["sizes"], (d_in, d_out))
    scale, shift, w, b = randn(seed, (d_in,), (d_in,), (d_out, d_in), (d_out,))
    if kind["scale"] == "a scale of 0":
        scale[0] = 0.0
    elif kind["scale"] == "a scale of all ones":
        scale = torch.ones(d_in)
    elif kind["scale"] == "scales in the hundreds":
        scale = 300 * scale
    elif kind["scale"] == "tiny scales":
        scale = 1e-4 * scale
    elif kind["scale"] == "one scale for all":
        scale = scale[:1].expand(d_in).clone()
    if kind["shift"] == "a shift of zeros":
        shift = torch.zeros(d_in)
    elif kind["shift"] == "b all zeros":
        b = torch.zeros(d_out)
    return Case((scale, shift, w, b), gradients=False)


@torch.no_grad()
def _folded(scale, shift, w, b):
    """The two found by what they do: a linear map is known by its values on a basis."""
    scale, shift, w64, b64 = (t.double() for t in (scale, shift, w, b))
    at = lambda y: F.linear(y * scale + shift, w64, b64)  # noqa: E731
    zero = at(torch.zeros(len(scale), dtype=torch.float64))
    basis = torch.eye(len(scale), dtype=torch.float64)
    return (at(basis) - zero).T.contiguous().to(w), zero.to(b)


def _does_the_same(cases, values, expected) -> Finding | None:
    """Which of the two is not right, and for what; what they do together is then something else."""
    off, fine = [], []
    for case, value, right in zip(cases, values, expected, strict=True):
        parts = [same(v, r, FOLD.tolerance) for v, r in zip(value, right, strict=True)]
        (fine if all(parts) else off).append((case, parts))
    if not off:
        return None
    case, (matrix, bias) = min(off, key=lambda found: found[0].edge)
    which = (
        "The bias is right, the matrix is not."
        if bias
        else "The matrix is right, the bias is not."
        if matrix
        else "Neither the matrix nor the bias is right."
    )
    said = (
        "Put to use, your two do something else: `F.linear(y, w_new, b_new)` differs from "
        f"`F.linear(y * scale + shift, w, b)`. {which} That was for {FOLD.describe(case)}."
    )
    if fine:
        other, _ = min(fine, key=lambda found: found[0].edge)
        said += f" Right for {FOLD.describe(other)}: what is the difference?"
    return Finding("not-the-same", said)


FOLD = Exercise(
    name="fold_norm",
    lesson=LESSON,
    title="fold the norm into the next layer (graded)",
    domain=Domain(
        {
            "sizes": (
                "unequal sizes",
                "as many outputs as inputs",
                "one output",
                "one input",
                "sizes above 8",
            ),
            "scale": (
                "any scale",
                "a scale of 0",
                "a scale of all ones",
                "one scale for all",
                "scales in the hundreds",
                "tiny scales",
            ),
            "shift": ("any shift", "a shift of zeros", "b all zeros"),
        },
        _fold_case,
        ("a scale of 0",),
    ),
    witness=lambda scale, shift, w, b: _folded(scale, shift, w, b),
    properties=(_does_the_same,),
    hints=(
        "Write out one output number: the sum over j of w[i, j] · (scale[j] · y[j] + shift[j]), "
        "plus b[i]. Multiply out.",
        "One part hangs on y, the other does not. The first is a new matrix, the second a new "
        "bias.",
        "scale[j] goes with the column j of w. And the shift passes through the old w.",
    ),
    variants={
        "weight-only": Variant(
            "The matrix is right; the shift is lost. It passes through w too.",
            spoil=lambda case, right: (right[0], case.args[3]),
        ),
        "bias-only": Variant(
            "The bias is right; the matrix has not taken the scale in.",
            spoil=lambda case, right: (case.args[2], right[1]),
        ),
        "unchanged": Variant(
            "You give w and b as they were.",
            spoil=lambda case, right: (case.args[2], case.args[3]),
        ),
        "weight-twice": Variant(
            "The shift passes through your new matrix, so that the scale counts twice. The shift "
            "is added after scaling: it meets the old w.",
            spoil=lambda case, right: (right[0], right[0] @ case.args[1] + case.args[3]),
        ),
        "old-b-lost": Variant(
            "The bias is only what the shift becomes; the layer's own b is lost.",
            spoil=lambda case, right: (right[0], right[1] - case.args[3]),
        ),
        "shift-bare": Variant(
            "The matrix is right. The shift is added to b as it is; it has to pass through w, as "
            "everything that the layer reads.",
            spoil=lambda case, right: (right[0], case.args[3] + case.args[1].sum()),
        ),
        "divided": Variant(
            "You divide w by the scale; it should be multiplied: the layer now sees numbers that "
            "nobody has scaled before.",
            spoil=lambda case, right: (case.args[2] / case.args[0], right[1]),
        ),
        "subtracted": Variant(
            "The sign of the shift is wrong: what was added before must be added after.",
            spoil=lambda case, right: (right[0], 2 * case.args[3] - right[1]),
        ),
        "transposed": Variant(
            "The matrix is right but transposed: nn.Linear stores (d_out, d_in).",
            spoil=lambda case, right: (right[0].T, right[1]),
        ),
        "swapped": Variant(
            "Both are right, in the other order: first the matrix, then the bias.",
            spoil=lambda case, right: (right[1], right[0]),
        ),
    },
)


# --- find the bug ---------------------------------------------------------------------------


def wild_layer_norm(x, weight, bias, eps=1e-5):
    """LayerNorm, after both defects have been found."""
    return norms.layer_norm(x, weight, bias, eps)


# Not d_model 1: there torch warns about the std of the code as it is given.
WILD_KINDS = LAYER_KINDS | {"sizes": LAYER_KINDS["sizes"][:-1]}

BUG = Exercise(
    name="wild_layer_norm",
    lesson=LESSON,
    title="find the bugs: a LayerNorm from the wild",
    domain=Domain(WILD_KINDS, _layer_case, LAYER_EDGES[1:]),
    special=_layer_twins,
    forbids=forbidden.NORMS,
    witness=layer_norm,
    reference=wild_layer_norm,
    axes=("batch", "tokens", "d_model"),
    properties=(another_default, _cancels, _equal_numbers),
    tolerance=TOLERANCE,
    hints=(
        "There are two of them, both in how the spread is measured. Try [1, 0, 0, 0] with the "
        "built-in one beside it.",
        "By what does `std` divide, d or d − 1? And where does the formula have eps?",
        "`x.var(dim=-1, keepdim=True, correction=0)` is the variance of the formula. Add eps to "
        "that, then take the root.",
    ),
    variants={
        "as given": Variant(
            "Both bugs are still in.", _norm(spread=_unbiased, divide=_outside), to_do=True
        ),
        "still-unbiased": Variant(
            "eps stands under the root now. The variance is still divided by d − 1.",
            _norm(spread=_unbiased),
        ),
        "still-outside": Variant(
            "The variance is right now. eps is still added to the root, not under it.",
            _norm(divide=_outside),
        ),
        "no-eps": Variant(
            "The variance is right; eps is gone altogether. A token of equal numbers would be 0/0.",
            _norm(divide=lambda y, v, eps: y / v.sqrt()),
        ),
        "eps-ignored": Variant(
            "The variance is right and something small stands under the root, but it is not the "
            "argument eps: that changes nothing in your code.",
            _norm(divide=lambda y, v, eps: y / (v + 1e-5).sqrt()),
        ),
        "eps-squared": Variant(
            "eps² stands under the root now. The formula has eps itself there.",
            _norm(divide=lambda y, v, eps: y / (v + eps**2).sqrt()),
        ),
        "no-root": Variant(
            "The variance is right and eps in its place; the root is lost.",
            _norm(divide=lambda y, v, eps: y / (v + eps)),
        ),
        "wrong-correction": Variant(
            "You correct in the wrong direction: the std with d − 1 is too large.",
            _norm(
                spread=lambda x, c, dim: (
                    _unbiased(x, c, dim) * x.shape[-1] / torch.tensor(x.shape[-1] - 1)
                )
            ),
        ),
        "correction-minus-one": Variant(
            "You divide by d + 1 now. That is as far off as d − 1 was; the formula divides by d.",
            _norm(
                spread=lambda x, c, dim: (
                    c.square().sum(dim, keepdim=True) / torch.tensor(x.shape[-1] + 1)
                )
            ),
        ),
        "factor-not-rooted": Variant(
            "You have corrected the std by (d − 1)/d. That is by how much the variance is too "
            "large; of the std it is the root of this.",
            _norm(
                spread=lambda x, c, dim: (
                    _unbiased(x, c, dim) * (1 - 1 / torch.tensor(x.shape[-1])) ** 2
                )
            ),
        ),
        "root-of-std": Variant(
            "There is a root too many now: the std is itself a root, and you take the root of it "
            "once more. The formula has one root, over the variance and eps.",
            _norm(divide=_root_of_std),
        ),
        "root-of-unbiased-std": Variant(
            "There is a root too many now: the std is itself a root, and you take the root of it "
            "once more. The formula has one root, over the variance and eps. And d − 1 is still "
            "there.",
            _norm(spread=_unbiased, divide=_root_of_std),
        ),
        "root-of-eps": Variant(ROOT_OF_EPS, _norm(divide=_root_of_eps)),
        "not-centred": Variant(
            "The spread is right now, but the mean is no longer subtracted above.",
            _norm(centre=False),
        ),
        "bias-scaled": Variant(
            "The norm is right now, but the weight multiplies the bias too.",
            _norm(affine=lambda y, w, b: (y + b) * w),
        ),
    },
)

EXERCISES = [LAYER, BATCH, RMS, FOLD, BUG]
QUESTIONS = [
    Item(
        "04-growth",
        LESSON,
        "Each of 50 layers makes the numbers 20% larger. How much larger are they at the end?",
        (
            Option("11 times", "That would be 50 · 20% added. Layers multiply: 1.2 · 1.2 · …"),
            Option("about 60 times", "1.2²³ is already 66, and there are 50 layers."),
            Option(
                "about 9000 times",
                "Yes: 1.2⁵⁰ ≈ 9100. And with 20% less at each layer, 0.8⁵⁰ ≈ 0.00001 is left.",
                right=True,
            ),
        ),
    ),
    Item(
        "04-batch",
        LESSON,
        "In training, the second sequence of a batch is replaced by another. What happens to the "
        "first one's output?",
        (
            Option(
                "with LayerNorm it changes",
                "LayerNorm looks at one token's numbers alone.",
            ),
            Option(
                "with BatchNorm it changes",
                "Yes: its mean and variance come from the whole batch.",
                right=True,
            ),
            Option("it never changes", "With BatchNorm in training it does: look below."),
        ),
    ),
    Item(
        "04-speed",
        LESSON,
        "RMSNorm needs fewer steps than LayerNorm. How much faster will PyTorch's built-in "
        "RMSNorm be than its built-in LayerNorm, on your machine?",
        (
            Option(
                "10 to 15 percent",
                "That is what you will often read. Now look at the measurement, and at the "
                "interval.",
            ),
            Option(
                "about twice as fast",
                "That is near for the two formulas. The built-in ones are other programs: look "
                "below.",
            ),
            Option(
                "I cannot know before I measure",
                "Yes. It depends on the program that somebody wrote for your device, far more "
                "than on the formula.",
                right=True,
            ),
        ),
    ),
    Item(
        "04-quiz-scale",
        LESSON,
        "All numbers of a token are multiplied by 10, then LayerNorm is applied. What comes out "
        "(eps aside)?",
        (
            Option(
                "the same as before",
                "Yes: mean and standard deviation are ten times as large too. Only the direction "
                "of the centred token counts.",
                right=True,
            ),
            Option("10 times as much", "The standard deviation is 10 times as large as well."),
            Option("√10 times as much", "The variance is 100 times as large, its root 10 times."),
        ),
    ),
    Item(
        "04-quiz-batchnorm",
        LESSON,
        "A language model is trained with BatchNorm over batch and tokens. Its training loss "
        "looks good. Then it writes a text, token by token, with the means and variances that "
        "were stored in training. Why can it be much worse than its training loss said?",
        (
            Option(
                "it has too many parameters",
                "BatchNorm has as many as LayerNorm: a weight and a bias for each number.",
            ),
            Option(
                "in training the mean and variance at every token came from later tokens too",
                "Yes. You measured it: a change of the last token moved all the others. In "
                "training the model could use what was to come; when it writes, that is not there.",
                right=True,
            ),
            Option(
                "with one sequence and one token BatchNorm cannot be computed at all",
                "It can: that is what the stored means and variances are for. Networks that look "
                "at images are used like this, and it works well.",
            ),
            Option(
                "it is not differentiable",
                "It is, also through the mean and the variance of the batch.",
            ),
        ),
    ),
    Item(
        "04-quiz-last",
        LESSON,
        "Somebody loads a pre-norm model from a checkpoint and forgets the last norm in the code. "
        "What does the head receive?",
        (
            Option(
                "an error: the shapes do not fit",
                "A norm does not change the shape. Nothing complains, and that is the danger.",
            ),
            Option(
                "the sum of all that the blocks have added, in a size that it was not trained for",
                "Yes. Each block normalizes what it reads, nobody normalizes the sum. In training "
                "the head has seen normalized numbers only.",
                right=True,
            ),
            Option(
                "the same as before: each block has its own norms",
                "Those stand before attention and MLP, inside the blocks. What the last block "
                "adds passes none of them.",
            ),
        ),
    ),
]
