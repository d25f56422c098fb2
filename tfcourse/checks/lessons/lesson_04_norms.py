"""Lesson 04: what keeps the numbers in hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tfcourse.checks.exercise import Case, Exercise, Finding, Twin, Variant, randn
from tfcourse.checks.quiz import Item, Option

LESSON = "04_norms"


def _norm(
    dim=-1,
    centre=True,
    spread=lambda x, centred, dim: centred.square().mean(dim, keepdim=True),
    divide=lambda y, variance, eps: y / (variance + eps).sqrt(),
    affine=lambda y, weight, bias: y * weight + bias,
    before=lambda x, weight, bias: x,
):
    """A LayerNorm with one part of it replaced."""

    def answer(x, weight, bias, eps=1e-5):
        x = before(x, weight, bias)
        centred = x - x.mean(dim, keepdim=True)
        variance = spread(x, centred, dim)
        return affine(divide(centred if centre else x, variance, eps), weight, bias)

    return answer


def _unbiased(x, centred, dim):
    return x.var(dim, keepdim=True)


def _outside(y, variance, eps):
    return y / (variance.sqrt() + eps)


# --- layer_norm -----------------------------------------------------------------------------


def _layer_cases() -> list[Case]:
    cases = []
    for seed, shape in ((0, (2, 5, 4)), (1, (3, 4, 7)), (2, (6, 3))):
        d = shape[-1]
        x, weight, bias = randn(seed, shape, (d,), (d,))
        cases.append(Case((2 * x + 1, weight, bias), gradients=seed == 0))
    x, weight, bias = randn(3, (2, 3, 5), (5,), (5,))
    cases.append(Case((x, weight, bias), {"eps": 0.5}, note="a large eps"))
    x, weight, bias = randn(4, (2, 3, 2, 4), (4,), (4,))
    cases.append(Case((100 * x, weight, bias), note="four axes, large numbers"))
    cases.append(Case((x[0] / 1000, weight, bias), note="small numbers"))
    x, weight, bias = cases[0].args
    far = Case(
        (x + 10, weight, bias),
        note="the first input with 10 added everywhere",
        twin=Twin(
            0,
            lambda base, this: (base, this),
            "shift",
            "Adding one number to all of a token's numbers changes your output. The mean is to be "
            "subtracted from x above, and from x before it is squared below.",
        ),
    )
    alone = Case(
        (x[:1, :1], weight, bias),
        note="the first token alone",
        twin=Twin(
            0,
            lambda base, this: (base[:1, :1], this),
            "tokens-mix",
            "A token's output depends on its neighbours: alone, the first one gives something "
            "else than in company. Mean and variance are the token's own.",
        ),
    )
    flat = Case(
        (torch.full((1, 2, 4), 3.0), weight, bias),
        note="all numbers equal",
        nan=(
            "no-eps",
            "A token whose numbers are all equal gives NaN in yours: 0 divided by 0. That is what "
            "eps is for.",
        ),
    )
    return [*cases, far, alone, flat]


def layer_norm(x, weight, bias, eps=1e-5):
    """PyTorch's own, as a function of the same arguments."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


LAYER = Exercise(
    name="layer_norm",
    lesson=LESSON,
    title="LayerNorm",
    cases=_layer_cases,
    witness=layer_norm,
    reference=layer_norm,
    axes=("batch", "tokens", "d_model"),
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
            "The argument eps changes nothing in yours: right as long as it is tiny.",
            _norm(divide=lambda y, v, eps: y / (v + 1e-5).sqrt()),
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
            "The weight is missing: normalise, multiply by it, then add the bias.",
            _norm(affine=lambda y, w, b: y + b),
        ),
        "sum-of-squares": Variant(
            "You divide by the root of the sum of squares. The variance is their mean, else the "
            "numbers shrink as d_model grows.",
            _norm(spread=lambda x, c, dim: c.square().sum(dim, keepdim=True)),
        ),
        "no-affine": Variant(
            "Weight and bias are missing: normalise, then multiply and add.",
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
    },
)


# --- batch_norm -----------------------------------------------------------------------------


def _batch_cases() -> list[Case]:
    cases = []
    for seed, shape in ((0, (2, 5, 4)), (1, (3, 4, 7)), (2, (6, 2, 3))):
        (x,) = randn(seed, shape)
        cases.append(Case((2 * x + 1,), gradients=seed == 0))
    (x,) = randn(3, (2, 3, 5))
    flat = x.clone()
    flat[..., 1] = 2.0
    return [
        *cases,
        Case((x[:1],), note="one sequence"),
        Case((x,), {"eps": 0.5}, note="a large eps"),
        Case((flat,), note="number 1 is 2 in every token"),
    ]


def batch_norm(x, eps=1e-5):
    """PyTorch's own in training, each number of the vector over batch and tokens."""
    return F.batch_norm(x.flatten(0, 1), None, None, training=True, eps=eps).view_as(x)


def _batch(dim=(0, 1), **parts):
    inner = _norm(dim, affine=lambda y, w, b: y, **parts)
    return lambda x, eps=1e-5: inner(x, None, None, eps)


BATCH = Exercise(
    name="batch_norm",
    lesson=LESSON,
    title="BatchNorm, for comparison",
    cases=_batch_cases,
    witness=batch_norm,
    reference=batch_norm,
    axes=("batch", "tokens", "d_model"),
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
            "The argument eps changes nothing in yours.",
            _batch(divide=lambda y, v, eps: y / (v + 1e-5).sqrt()),
        ),
        "no-eps": Variant(
            "There is no eps in yours: a number that is the same everywhere would be 0/0.",
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
    },
)


# --- rms_norm -------------------------------------------------------------------------------


def _rms_cases() -> list[Case]:
    cases = []
    for seed, shape in ((0, (2, 5, 4)), (1, (3, 4, 7)), (2, (6, 3))):
        x, weight = randn(seed, shape, shape[-1:])
        cases.append(Case((2 * x + 1, weight), gradients=seed == 0))
    x, weight = randn(3, (2, 3, 5), (5,))
    cases.append(Case((x, weight), {"eps": 0.5}, note="a large eps"))
    x, weight = randn(4, (2, 3, 2, 4), (4,))
    cases.append(Case((100 * x, weight), note="four axes, large numbers"))
    cases.append(Case((x[0] / 1000, weight), note="small numbers"))
    zero = (
        "no-eps",
        "A token of zeros gives NaN in yours: 0 divided by 0. That is what eps is for.",
    )
    cases.append(Case((0 * x[0], weight), note="all numbers zero", nan=zero))
    x, weight = cases[0].args
    cases.append(
        Case(
            (x[:1, :1], weight),
            note="the first token alone",
            twin=Twin(
                0,
                lambda base, this: (base[:1, :1], this),
                "tokens-mix",
                "A token's output depends on its neighbours: alone, the first one gives something "
                "else than in company.",
            ),
        )
    )
    return cases


def rms_norm(x, weight, eps=1e-5):
    """PyTorch's own, as a function of the same arguments."""
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def _rms(size, divide=lambda x, s, eps: x / (s + eps).sqrt(), affine=lambda y, w: y * w):
    return lambda x, weight, eps=1e-5: affine(divide(x, size(x), eps), weight)


def _mean_square(x):
    return x.square().mean(-1, keepdim=True)


RMS = Exercise(
    name="rms_norm",
    lesson=LESSON,
    title="RMSNorm",
    cases=_rms_cases,
    witness=rms_norm,
    reference=rms_norm,
    axes=("batch", "tokens", "d_model"),
    hints=(
        "Read its name backwards: the root of the mean of the squares.",
        "It is your LayerNorm with two things taken out. Which two?",
        "The mean is gone, above and under the root, and so is the bias. eps stays under the root.",
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
        "multiplied": Variant(
            "You multiply by the root where you should divide by it.",
            _rms(_mean_square, lambda x, s, eps: x * (s + eps).sqrt()),
        ),
        "eps-outside": Variant(
            "Your eps is added to the root; it belongs under it.",
            _rms(_mean_square, lambda x, s, eps: x / (s.sqrt() + eps)),
        ),
        "eps-ignored": Variant(
            "The argument eps changes nothing in yours.",
            _rms(_mean_square, lambda x, s, eps: x / (s + 1e-5).sqrt()),
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
            "The weight is missing: normalise, then multiply by it.",
            _rms(_mean_square, affine=lambda y, w: y),
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
    },
)


# --- fold_norm (graded) ---------------------------------------------------------------------


def _fold_cases() -> list[Case]:
    cases = []
    for seed, d_in, d_out in ((0, 4, 7), (1, 6, 3), (2, 5, 5)):
        weight, bias, w, b = randn(seed, (d_in,), (d_in,), (d_out, d_in), (d_out,))
        cases.append(Case((weight, bias, w, b), expected=_folded(weight, bias, w, b)))
    given = randn(3, (12,), (12,), (1, 12), (1,))
    given[0][3] = 0.0
    return [*cases, Case(tuple(given), expected=_folded(*given), note="one output, a scale of 0")]


def _folded(weight, bias, w, b):
    """The two found by what they do: a linear map is known by its values on a basis."""
    with torch.no_grad():
        at = lambda y: F.linear(y * weight + bias, w, b)  # noqa: E731
        zero = at(torch.zeros(len(weight)))
        return (at(torch.eye(len(weight))) - zero).T.contiguous(), zero


def _does_the_same(cases, values, expected):
    """Whatever the two are: norm, then the folded map, must equal norm with weight and bias."""
    for case, value in zip(cases, values, strict=True):
        weight, bias, w, b = case.args
        (normed,) = randn(9, (3, len(weight)))
        before = F.linear(normed * weight + bias, w, b)
        try:
            after = F.linear(normed, *value)
        except (RuntimeError, TypeError):
            continue
        if after.shape == before.shape and not torch.allclose(after, before, atol=1e-4):
            return Finding(
                "not-the-same",
                "Put to use, your two do something else: `F.linear(y, w_new, b_new)` differs from "
                "`F.linear(y * scale + shift, w, b)`.",
            )
    return None


FOLD = Exercise(
    name="fold_norm",
    lesson=LESSON,
    title="fold the norm into the next layer (graded)",
    cases=_fold_cases,
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
    return layer_norm(x, weight, bias, eps)


BUG = Exercise(
    name="wild_layer_norm",
    lesson=LESSON,
    title="find the bugs: a LayerNorm from the wild",
    cases=_layer_cases,
    witness=wild_layer_norm,
    reference=wild_layer_norm,
    axes=("batch", "tokens", "d_model"),
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
                spread=lambda x, c, dim: x.var(dim, keepdim=True) * x.shape[-1] / (x.shape[-1] - 1)
            ),
        ),
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
        "Each of 50 layers makes the numbers 20% larger. By how much have they grown at the end?",
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
        "The second sequence of a batch is replaced by another. What happens to the first one's "
        "output?",
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
        "RMSNorm needs one pass less over the numbers than LayerNorm. How much faster will "
        "PyTorch's built-in RMSNorm be on your machine?",
        (
            Option(
                "10 to 15 percent",
                "That is what is often printed. Now look at the measurement, and at the spread.",
            ),
            Option("about twice", "Half of the arithmetic, at most, is saved. Look below."),
            Option(
                "I cannot know before I measure",
                "Yes. It depends on the kernel somebody wrote, far more than on the formula.",
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
                "Yes: mean and deviation grow tenfold too. Only the direction of a centred token "
                "counts.",
                right=True,
            ),
            Option("10 times as much", "The standard deviation is 10 times as large as well."),
            Option("√10 times as much", "The variance is 100 times as large, its root 10 times."),
        ),
    ),
    Item(
        "04-quiz-batchnorm",
        LESSON,
        "Why is BatchNorm a poor choice for a model that writes text, one token at a time?",
        (
            Option(
                "it has too many parameters",
                "As many as LayerNorm: a weight and a bias for each number.",
            ),
            Option(
                "with one sequence and one token there is no batch to take a mean of",
                "Yes. It has to fall back on means stored in training, and behaves otherwise than "
                "it did there.",
                right=True,
            ),
            Option(
                "it is not differentiable",
                "It is, in training through the batch's mean and variance too.",
            ),
        ),
    ),
    Item(
        "04-quiz-last",
        LESSON,
        "Why does a stack of pre-norm blocks need one more norm at its end?",
        (
            Option(
                "for symmetry",
                "There is a better reason: look at what the head would be given.",
            ),
            Option(
                "the residual stream has grown with depth, and nobody has normed the sum",
                "Yes. Each block norms what it reads; what they all have added up reaches the "
                "head as it is.",
                right=True,
            ),
            Option(
                "without it the gradient would vanish",
                "In pre-norm the gradient has its straight path. It is the scale that is wrong.",
            ),
        ),
    ),
]
