"""Lesson 07: where the norm stands, how weights begin, what very deep stacks do."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from tfcourse import attention
from tfcourse.checks import forbidden
from tfcourse.checks.exercise import Case, Domain, Exercise, Finding, Variant, randn, unequal
from tfcourse.checks.judging import same
from tfcourse.checks.lessons.lesson_04_norms import another_default
from tfcourse.checks.quiz import Item, Option

LESSON = "07_going_deep"

# --- how_it_ended ---------------------------------------------------------------------------

RUNS = (
    "a run that learns",
    "a stall",
    "a stall that dipped",
    "a late start",
    "a bad last batch",
    "a lucky last batch",
    "0.05 below the level",
    "0.15 below the level",
    "one very bad batch",
    "a last batch that decides",
    "two early losses of a million",
)
NOT_FINITE = (
    "NaN at the end",
    "infinity on the way",
    "NaN before a good end",
    "minus infinity on the way",
)


def how_it_ended(losses, level):
    """Diverged, stalled or learns: the rule of the lesson."""
    if not losses.isfinite().all():
        return "diverged"
    return "stalled" if losses[-20:].mean() > level - 0.1 else "learns"


def _make_ended(kind, seed):
    length = {"60 steps": 60, "100 steps": 100, "20 steps": 20, "7 steps": 7}[kind["length"]]
    level = {"level 3.2": 3.2, "level 1.0": 1.0, "level 4.6": 4.6}[kind["level"]]
    run = kind["run"]
    if length < 30 and run in ("a stall that dipped", "a late start", RUNS[-1]):
        return None
    if length < 20 and run == "one very bad batch":
        return None
    losses = level + 0.02 * randn(seed, (length,))[0]
    if length > 30:
        losses += 1.5 * torch.exp(-torch.arange(length) / 5)
    if run in ("a run that learns", "NaN before a good end", "a bad last batch", RUNS[-1]):
        losses -= 0.7
    if run == "a bad last batch":
        losses[-1] += 1.5
    if run == "a lucky last batch":
        losses[-1] -= 0.4
    if run == "0.05 below the level":
        losses = losses[-20:].mean().neg() + losses + level - 0.05
    if run == "0.15 below the level":
        losses = losses[-20:].mean().neg() + losses + level - 0.15
    if run == "one very bad batch":  # the twentieth from the end: it counts
        losses -= 0.7
        losses[-20] += 30
    if run == "a stall that dipped":  # low once, and back again
        losses[length // 2] -= 2.0
    if run == "a late start":  # the last twenty alone are low enough
        losses[-20:] -= 0.6
        losses[-21] += 30
    if run == "a last batch that decides":  # without it the mean would be low enough
        losses -= 0.3
        losses[-1] += 10
    if run == RUNS[-1]:  # large, but finite
        losses[1:3] = 1e6
    if run == "NaN at the end":
        losses[-1] = math.nan
    if run == "infinity on the way":
        losses[length // 2] = math.inf
    if run == "minus infinity on the way":
        losses[length // 2] = -math.inf
    if run == "NaN before a good end":
        losses[1] = math.nan
    return Case((losses, level), gradients=False)


def _ended(rule):
    """A wrong rule for finite losses; those that are not finite are told."""

    def answer(losses, level):
        if not losses.isfinite().all():
            return "diverged"
        return "stalled" if rule(losses, level) else "learns"

    return answer


def _from_the_end(losses, level):
    return losses[len(losses) - 20 :].mean() > level - 0.1


def _nan_only(losses, level):
    if losses.isnan().any():
        return "diverged"
    return "stalled" if losses[-20:].mean() > level - 0.1 else "learns"


def _at_the_end_only(losses, level):
    if not losses[-1].isfinite():
        return "diverged"
    return "stalled" if losses[losses.isfinite()][-20:].mean() > level - 0.1 else "learns"


def _never_diverged(losses, level):
    return "learns" if losses[-20:].mean() <= level - 0.1 else "stalled"


HOW_IT_ENDED = Exercise(
    name="how_it_ended",
    lesson=LESSON,
    title="a rule before the run",
    domain=Domain(
        kinds={
            "run": RUNS + NOT_FINITE,
            "length": ("60 steps", "100 steps", "20 steps", "7 steps"),
            "level": ("level 3.2", "level 1.0", "level 4.6"),
        },
        make=_make_ended,
    ),
    special=lambda: [
        Case(
            (torch.zeros(40), 0.1),
            gradients=False,
            note="exactly level − 0.1, not above it",
            edge=True,
        ),
        Case(
            (torch.linspace(4.6, 2.0, 15), 3.25),
            gradients=False,
            note="15 losses that fall all the way",
        ),
    ],
    witness=how_it_ended,
    reference=how_it_ended,
    hints=(
        "Ask about divergence first: a run with a single loss that is NaN or infinite has "
        "diverged, whatever came after it.",
        "`losses.isfinite()` is False for NaN and for both infinities; `.all()` says whether it is "
        "True everywhere.",
        "`losses[-20:]` are the last twenty, or all of them where there are fewer. Compare their "
        "mean with the level minus 0.1.",
    ),
    variants={
        "negative-start": Variant(
            "Where there are fewer than 20 losses, your slice begins at a negative place. Python "
            "counts that from the end, so some of the losses are left out.",
            _ended(_from_the_end),
        ),
        "nan-only": Variant(
            "You look for NaN only. A loss can also be infinite: that run has diverged too.",
            _nan_only,
        ),
        "end-only": Variant(
            "You ask only the last loss whether it is finite. One that was not, anywhere, counts.",
            _at_the_end_only,
        ),
        "nothing-diverges": Variant(
            'No run is ever called "diverged". A comparison with NaN is always False: ask '
            "`math.isfinite` first.",
            _never_diverged,
        ),
        "last-loss": Variant(
            "You judge by the last loss alone. One batch is noisy: the rule takes the mean of the "
            "last twenty.",
            _ended(lambda losses, level: losses[-1] > level - 0.1),
        ),
        "best-loss": Variant(
            "You judge by the lowest loss. A run that was low once and came back has stalled too.",
            _ended(lambda losses, level: losses.min() > level - 0.1),
        ),
        "all-losses": Variant(
            "You take the mean of all losses. A run that starts late would count as stalled: only "
            "the last twenty matter.",
            _ended(lambda losses, level: losses.mean() > level - 0.1),
        ),
        "no-margin": Variant(
            "The margin is missing: a run has to be 0.1 nats below the level, not merely below it.",
            _ended(lambda losses, level: losses[-20:].mean() > level),
        ),
        "margin-above": Variant(
            "The margin is on the wrong side: a run that is a little below the level has stalled "
            "too.",
            _ended(lambda losses, level: losses[-20:].mean() > level + 0.1),
        ),
        "turned-round": Variant(
            '"stalled" and "learns" are the wrong way round: a low loss is the good one.',
            _ended(lambda losses, level: losses[-20:].mean() < level - 0.1),
        ),
    },
)


# --- stream_growth --------------------------------------------------------------------------


def _norm(x):
    return F.layer_norm(x, x.shape[-1:])


def _grown(pre, post, measure=lambda x: x.square().mean().sqrt(), first=True):
    """The sizes along a stack, from what one block does with the norm in either place."""

    def answer(x, matrices, norm_first):
        sizes = [measure(x)] if first else []
        for matrix in matrices:
            x = (pre if norm_first else post)(x, matrix)
            sizes.append(measure(x))
        return torch.stack(sizes) if sizes else torch.zeros(0)

    return answer


def _pre(x, matrix):
    return x + _norm(x) @ matrix


def _post(x, matrix):
    return _norm(x + x @ matrix)


def _from_the_start(x, matrices, norm_first):
    """Each block adds to the x of the beginning."""
    start, sizes = x, [x.square().mean().sqrt()]
    for matrix in matrices:
        x = start + _norm(x) @ matrix if norm_first else _norm(start + x @ matrix)
        sizes.append(x.square().mean().sqrt())
    return torch.stack(sizes)


def _noted_too_early(x, matrices, norm_first):
    """The size of the sum, before post-norm's norm."""
    sizes = [x.square().mean().sqrt()]
    for matrix in matrices:
        x = x + (_norm(x) if norm_first else x) @ matrix
        sizes.append(x.square().mean().sqrt())
        x = x if norm_first else _norm(x)
    return torch.stack(sizes)


def _what_is_added(x, matrices, norm_first):
    """By how much each block changes x."""
    sizes = [x.square().mean().sqrt()]
    for matrix in matrices:
        after = (_pre if norm_first else _post)(x, matrix)
        sizes.append((after - x).square().mean().sqrt())
        x = after
    return torch.stack(sizes)


def stream_growth(x, matrices, norm_first):
    """The size of the stream before the first block and after each."""
    return _grown(_pre, _post)(x, matrices, norm_first)


def _make_growth(kind, seed):
    batch, tokens, n = unequal(seed, 3)
    d = 8 + seed % 5
    n = {"some blocks": n, "no block": 0, "one block": 1, "twelve blocks": 12}[kind["blocks"]]
    batch = 1 if kind["sizes"] == "a batch of one" else batch
    tokens = 1 if kind["sizes"] == "one token" else tokens
    x, matrices = randn(seed, (batch, tokens, d), (n, d, d))
    x = {
        "ordinary numbers": x + 0.3,
        "large numbers": 100 * x,
        "small numbers": 0.002 * x,
        "far from zero": x + 10,
    }[kind["numbers"]]
    return Case((x, matrices / d**0.5, kind["place"] == "pre-norm"))


STREAM_GROWTH = Exercise(
    name="stream_growth",
    lesson=LESSON,
    title="how large the stream grows",
    domain=Domain(
        kinds={
            "place": ("pre-norm", "post-norm"),
            "blocks": ("some blocks", "one block", "twelve blocks", "no block"),
            "sizes": ("unequal sizes", "a batch of one", "one token"),
            "numbers": ("ordinary numbers", "large numbers", "small numbers", "far from zero"),
        },
        make=_make_growth,
        edges=("no block", "far from zero"),
    ),
    witness=stream_growth,
    reference=stream_growth,
    axes=("blocks + 1",),
    tolerance=3e-5,
    hints=(
        "Begin with a list that holds the size of x as it comes in, and append one more after each "
        "matrix.",
        "Pre-norm: what is multiplied is normalized, what it is added to is not. Post-norm: the "
        "sum is normalized.",
        "The size is the root of the mean of the squares: `x.square().mean()`, then `.sqrt()`. "
        "`torch.stack` makes one tensor of a list of numbers.",
    ),
    variants={
        "start-missing": Variant(
            "The first number is missing: the size before any block. n blocks give n + 1 sizes.",
            _grown(_pre, _post, first=False),
        ),
        "always-pre": Variant(
            "Pre-norm is right. With `norm_first=False` the sum should be normalized.",
            _grown(_pre, _pre),
        ),
        "always-post": Variant(
            "Post-norm is right. With `norm_first=True` only what the matrix reads is normalized.",
            _grown(_post, _post),
        ),
        "swapped": Variant(
            "Pre- and post-norm are the wrong way round.",
            _grown(_post, _pre),
        ),
        "normed-stream": Variant(
            "With `norm_first=True` you add to the normalized x, so the stream itself is "
            "normalized at every block. Keep the x that came in, and add to that.",
            _grown(lambda x, m: _norm(x) + _norm(x) @ m, _post),
        ),
        "no-plus": Variant(
            "The addition is missing: what the matrix makes of x replaces x.",
            _grown(lambda x, m: _norm(x) @ m, lambda x, m: _norm(x @ m)),
        ),
        "no-norm": Variant(
            "With `norm_first=True` the matrix reads x as it is. It should read the normalized x.",
            _grown(lambda x, m: x + x @ m, _post),
        ),
        "spread": Variant(
            "You measure the spread around the mean (`std`). Asked is the root of the mean of the "
            "squares, which an offset counts in.",
            _grown(_pre, _post, lambda x: x.std(correction=0)),
        ),
        "spread-corrected": Variant(
            "You measure the spread around the mean (`std`, which divides by one less besides). "
            "Asked is the root of the mean of the squares, which an offset counts in.",
            _grown(_pre, _post, lambda x: x.std()),
        ),
        "token-by-token": Variant(
            "You take the root for each token and the mean of these sizes. Asked is one root, of "
            "the mean of all squares.",
            _grown(_pre, _post, lambda x: x.square().mean(-1).sqrt().mean()),
        ),
        "norm-on-the-way-out": Variant(
            "With `norm_first=False` you normalize what the matrix gives, before it is added. It "
            "is the sum that is normalized.",
            _grown(_pre, lambda x, m: x + _norm(x @ m)),
        ),
        "noted-too-early": Variant(
            "With `norm_first=False` you note the size of the sum, before its norm. A block ends "
            "with the norm: note what it gives.",
            _noted_too_early,
        ),
        "what-is-added": Variant(
            "You give the size of the change that each block makes. Asked is the size of x after "
            "the block.",
            _what_is_added,
        ),
        "from-the-start": Variant(
            "Each block adds to the x of the beginning. It adds to the x that the block before it "
            "has left.",
            _from_the_start,
        ),
        "not-rooted": Variant(
            "The root is missing: you give the mean of the squares.",
            _grown(_pre, _post, lambda x: x.square().mean()),
        ),
        "summed": Variant(
            "You sum the squares; take their mean. Otherwise a larger tensor would count as "
            "larger numbers.",
            _grown(_pre, _post, lambda x: x.norm()),
        ),
    },
)


# --- norm_vjp -------------------------------------------------------------------------------


def norm_vjp(x, g, eps=1e-5):
    """The gradient at x from the gradient g at the output, by PyTorch's own rules."""
    x = x if x.requires_grad else x.detach().requires_grad_()
    y = F.layer_norm(x, x.shape[-1:], eps=eps)
    [gradient] = torch.autograd.grad(y, x, g, create_graph=True)
    return gradient


def _make_vjp(kind, seed):
    batch, tokens, d = unequal(seed, 3, low=3, high=9)
    shape = {
        "(tokens, d)": (tokens, d),
        "(batch, tokens, d)": (batch, tokens, d),
        "(d,)": (d,),
        "four axes": (2, batch, tokens, d),
        "d = 1": (tokens, 1),
        "d = 40": (tokens, 40),
    }[kind["sizes"]]
    one = (*shape[:-1], 1)
    x, g, middle, spread = randn(seed, shape, shape, one, one)
    if shape[-1] > 1:  # where numbers lie close together by chance, only their rounding shows
        x = F.layer_norm(x, x.shape[-1:]) * (1 + spread.abs()) + 0.5 * middle
    x = {
        "ordinary numbers": 1.7 * x + 0.4,
        "numbers in the hundreds": 200 * x,
        "small numbers": 0.01 * x,
        "far from zero": x + 20,
        "a token of equal numbers": x.clone(),
    }[kind["numbers"]]
    if kind["numbers"] == "a token of equal numbers":
        x.view(-1, shape[-1])[0] = 2.0
    g = {
        "an ordinary gradient": g,
        # small where the division by √eps makes the rounding of a mean three hundred times larger
        "a gradient that is the same everywhere": torch.full_like(
            g, 0.07 if kind["numbers"] == "a token of equal numbers" else 0.7
        ),
        "a gradient along the output": 3 * F.layer_norm(x, x.shape[-1:]),
        "a gradient of zero": torch.zeros_like(g),
    }[kind["gradient"]]
    eps = {"eps left out": {}, "the usual eps": {"eps": 1e-5}, "another eps": {"eps": 0.3}}
    return Case((x, g), eps[kind["eps"]], gradients=False)  # it is one itself


def _pieces(case):
    """What spoils need: g, the normalized x and the size it was divided by."""
    x, g = case.args
    eps = case.kwargs.get("eps", 1e-5)
    y = F.layer_norm(x, x.shape[-1:], eps=eps)
    size = (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt()
    return g, y, size


def _spoiled_vjp(change):
    def spoil(case, right):
        return change(right, *_pieces(case))

    return spoil


def _without_eps(case, right):
    """y from the variance alone, the division with eps."""
    g, y, size = _pieces(case)
    y = y * size / _spread(size, case)
    return (g - g.mean(-1, keepdim=True) - y * _along(g, y)) / size


def _with_another_y(scale):
    """Along x itself, or the centred x, where along y is meant."""

    def spoil(case, right):
        x, _ = case.args
        g, y, size = _pieces(case)
        y = scale(x)
        return (g - g.mean(-1, keepdim=True) - y * _along(g, y)) / size

    return spoil


def _unit_length(case, right):
    """y has a length of 1, instead of numbers of size 1."""
    g, y, size = _pieces(case)
    y = y * size / _spread(size, case) / y.shape[-1] ** 0.5
    return (g - g.mean(-1, keepdim=True) - y * _along(g, y)) / size


def _spread(size, case):
    return (size.square() - case.kwargs.get("eps", 1e-5)).clamp(min=1e-20).sqrt()


def _unbiased(case, right):
    g, y, size = _pieces(case)
    d, eps = y.shape[-1], case.kwargs.get("eps", 1e-5)
    root = ((size.square() - eps) * d / max(1, d - 1) + eps).sqrt()
    y = y * size / root
    return (g - g.mean(-1, keepdim=True) - y * _along(g, y)) / root


def _of_an_rms_norm(case, right):
    x, g = case.args
    size = (x.square().mean(-1, keepdim=True) + case.kwargs.get("eps", 1e-5)).sqrt()
    return (g - x / size * _along(g, x / size)) / size


def _along(a, b):
    return (a * b).mean(-1, keepdim=True)


def _vjp_with(size):
    """The formula with another way to get s, from the centred x and eps."""

    def answer(x, g, eps=1e-5):
        offset = x - x.mean(-1, keepdim=True)
        s = size(offset.square().mean(-1, keepdim=True), eps)
        y = offset / s
        return (g - g.mean(-1, keepdim=True) - y * _along(g, y)) / s

    return answer


def _another_default(cases, values, expected):
    return another_default(cases, values, expected, NORM_VJP.tolerance)


NORM_VJP = Exercise(
    name="norm_vjp",
    lesson=LESSON,
    title="the gradient through a norm",
    domain=Domain(
        kinds={
            "sizes": (
                "(tokens, d)",
                "(batch, tokens, d)",
                "(d,)",
                "four axes",
                "d = 40",
                "d = 1",
            ),
            "numbers": (
                "ordinary numbers",
                "numbers in the hundreds",
                "small numbers",
                "far from zero",
                "a token of equal numbers",
            ),
            "gradient": (
                "an ordinary gradient",
                "a gradient that is the same everywhere",
                "a gradient along the output",
                "a gradient of zero",
            ),
            "eps": ("eps left out", "the usual eps", "another eps"),
        },
        make=_make_vjp,
        edges=(
            "d = 1",
            "a token of equal numbers",
            "a gradient that is the same everywhere",
            "a gradient along the output",
            "a gradient of zero",
            "small numbers",
        ),
    ),
    forbids=(*forbidden.NORMS, *forbidden.DERIVATIVES),
    witness=norm_vjp,
    properties=(_another_default,),
    axes=(),
    tolerance=5e-5,
    smallest=1,
    hints=(
        "Go forward first, each step with `keepdim=True` over the last axis: the size that x is "
        "divided by, and the normalized y. Then take two parts away from g: what is the same in "
        "all numbers of a token, and what points along y.",
        "The part along y: u = y / √d has a length of 1. Write (g · u) u with y in place of u. "
        "What do the two roots make together, and what is a sum of d products divided by d?",
        "What is left of g is divided by the same size that x was divided by, the root of variance "
        "+ eps. The variance is the mean of the squares: divided by d, not by d − 1.",
    ),
    variants={
        "only-divided": Variant(
            "You only divide g by the size. The norm also takes the mean away and fixes the "
            "length: two parts of g come to nothing on the way back.",
            spoil=_spoiled_vjp(lambda right, g, y, size: g / size),
        ),
        "mean-kept": Variant(
            "The part of g that is the same in all numbers of a token is still in. Adding a "
            "constant to x changes nothing, so it must go.",
            spoil=_spoiled_vjp(lambda right, g, y, size: right + g.mean(-1, keepdim=True) / size),
        ),
        "length-kept": Variant(
            "The part of g along y is still in. Making x larger changes nothing, so it must go. "
            "(If you do take something away: is it the mean of the products g · y, or the product "
            "of two means? y has a mean of 0.)",
            spoil=_spoiled_vjp(lambda right, g, y, size: right + y * _along(g, y) / size),
        ),
        "y-is-x": Variant(
            "Your y is x as it came in. y is the normalized x: its mean taken away, and divided by "
            "the size.",
            spoil=_with_another_y(lambda x: x),
        ),
        "only-centred": Variant(
            "Your y has a mean of 0, but it is not divided by the size yet. y is the normalized x.",
            spoil=_with_another_y(lambda x: x - x.mean(-1, keepdim=True)),
        ),
        "not-divided": Variant(
            "The division is missing: the gradient has to be divided by the size that x was "
            "divided by. That is the point of it.",
            spoil=_spoiled_vjp(lambda right, g, y, size: right * size),
        ),
        "divided-twice": Variant(
            "You divide by the variance instead of by its root.",
            spoil=_spoiled_vjp(lambda right, g, y, size: right / size),
        ),
        "multiplied": Variant(
            "You multiply by the size instead of dividing: large numbers make a small gradient.",
            spoil=_spoiled_vjp(lambda right, g, y, size: right * size * size),
        ),
        "summed": Variant(
            "Along y you take the sum of g · y; it has to be its mean, as y · y has a mean of 1, "
            "not a sum of 1.",
            spoil=_spoiled_vjp(
                lambda right, g, y, size: right - (y.shape[-1] - 1) * y * _along(g, y) / size
            ),
        ),
        "one-root": Variant(
            "Along y you divide by √d only once. In (g · u) u the vector u stands twice.",
            spoil=_spoiled_vjp(
                lambda right, g, y, size: right - (y.shape[-1] ** 0.5 - 1) * y * _along(g, y) / size
            ),
        ),
        "sign": Variant(
            "The part of g along y is added; it has to be taken away.",
            spoil=_spoiled_vjp(lambda right, g, y, size: right + 2 * y * _along(g, y) / size),
        ),
        "fixed-eps": Variant(
            "Your eps does not change: 1e-5 is only what it is when nobody says otherwise. Use the "
            "`eps` that is given.",
            _vjp_with(lambda variance, eps: (variance + 1e-5).sqrt()),
        ),
        "eps-outside": Variant(
            "You add eps to the root. It belongs to the variance, before the root is taken.",
            _vjp_with(lambda variance, eps: variance.sqrt() + eps),
        ),
        "y-without-eps": Variant(
            "You take the part along y away as if eps were 0. Is your y divided by the root of the "
            "variance, without eps? y is what the norm gives: it is divided by s, which has eps in "
            "it. Or do you divide by y · y? Take the length of y to be √d.",
            spoil=_without_eps,
        ),
        "unit-length": Variant(
            "Your y has a length of 1. What the norm gives has numbers of size 1: their squares "
            "have a mean of 1, not a sum of 1.",
            spoil=_unit_length,
        ),
        "unbiased": Variant(
            "Your variance is divided by d − 1. A norm's is the mean of the squares, divided by d.",
            spoil=_unbiased,
        ),
        "rms-norm": Variant(
            "That is the gradient through an RMSNorm, which takes no mean away. LayerNorm does.",
            spoil=_of_an_rms_norm,
        ),
        "times-y": Variant(
            "You multiply g by what the norm gives. That would be the way back through a product.",
            spoil=_spoiled_vjp(lambda right, g, y, size: g * y),
        ),
        "forward": Variant(
            "You give the normalized x. Asked is the gradient at x, from the gradient g at the "
            "output.",
            spoil=_spoiled_vjp(lambda right, g, y, size: y),
        ),
    },
)


# --- attention_vjp --------------------------------------------------------------------------

SATURATED = (
    "scores in the hundreds, so that every other query takes one key alone",
    "scores of minus some hundreds, so that every other query takes one key alone",
)
UNATTENDED = ("a query with nothing to attend", "a sequence with nothing to attend")


def attention_vjp(q, k, v, g, mask=None):
    """The gradients at q, k and v from the gradient g at the output, by PyTorch's own rules."""
    with torch.enable_grad():
        given = [t.detach().requires_grad_() for t in (q, k, v)]
        out = attention.scaled_dot_product_attention(*given, mask)
        return torch.autograd.grad(out, given, g)


BATCH_AND_HEADS = {"a batch of one": (1, 2), "one head": (2, 1), "one key": (1, 3)}


def _attention_sizes(kind, wide, seed):
    """batch, heads, queries, keys, d_head, d_value: few, since some go number by number."""
    batch, heads = BATCH_AND_HEADS.get(kind, (2, 3))
    queries, keys = unequal(seed, 2, 3, 5)
    d_head, d_value = unequal(seed, 2, 5, 8)
    if kind == "one query":
        queries = 1
    if kind == "one key":
        keys = 1
    if kind == "as many queries as keys and as sequences":
        queries = keys = batch
    d_head = 1 if wide == "d_head 1" else d_head
    d_value = {"d_value 1": 1, "d_value as d_head": d_head}.get(wide, d_value)
    return batch, heads, queries, keys, d_head, d_value


def _attention_mask(kind, seed, batch, heads, queries, keys):
    chosen = torch.Generator().manual_seed(seed)
    causal = torch.ones(queries, keys, dtype=torch.bool).tril(max(0, keys - queries))
    padding = attention.padding_mask(
        torch.randint(1, keys + 1, (batch,), generator=chosen), keys
    ).clone()
    if kind == UNATTENDED[0]:
        causal[seed % queries] = False
    if kind == UNATTENDED[1]:
        padding[seed % batch] = False
    drawn = torch.rand((batch, heads, queries, keys), generator=chosen)
    drawn = (drawn < 0.5) | (drawn == drawn.amax(-1, keepdim=True))  # one key at least for each
    return {
        "no mask": None,
        "causal mask": causal,
        "padding mask": padding,
        "a mask per head": drawn[0],
        "a mask for every query of every head": drawn,
        UNATTENDED[0]: causal,
        UNATTENDED[1]: padding,
    }[kind]


def _make_attention_vjp(kind, seed):
    sizes = _attention_sizes(kind["sizes"], kind["width"], seed)
    batch, heads, queries, keys, d_head, d_value = sizes
    saturated = kind["numbers"] in SATURATED
    if saturated and kind["width"] in ("d_head 1", "d_value as d_head"):
        return None
    # Large scores are whole multiples of 1/128, divided by 2: exact, however one gets them.
    d_head = 4 if saturated else d_head
    at_q, at_k = (batch, heads, queries), (batch, heads, keys)
    q, k, v, g = randn(seed, (*at_q, d_head), (*at_k, d_head), (*at_k, d_value), (*at_q, d_value))
    if saturated:  # scores 40 apart where the query says so, and from 600 on
        q, k = (8 * q).round() / 8, (8 * k).round() / 8
        q[..., 0] = 40 * (torch.arange(queries) % 2 == 0)
        k[..., 0] = 30 + 2 * torch.randperm(keys, generator=torch.Generator().manual_seed(seed))
        k[..., 0] *= 1 if kind["numbers"] == SATURATED[0] else -1
    if kind["numbers"] == "tiny numbers":
        q, k = 0.01 * q, 0.01 * k
    if kind["values"] == "values far from zero":
        v = v + 3
    if kind["values"] == "all values alike":
        v = v[:, :, :1].repeat(1, 1, keys, 1)
    if kind["gradient"] == "a gradient at one query alone":
        g = g * (torch.arange(queries) == seed % queries)[:, None]
    if kind["gradient"] == "a gradient of zero":
        g = 0 * g
    mask = _attention_mask(kind["mask"], seed, batch, heads, queries, keys)
    nan = None
    if kind["mask"] in UNATTENDED and not saturated:
        nan = _UNATTENDED_ROW
    elif saturated and kind["mask"] not in UNATTENDED:
        nan = _TOO_LARGE
    args = (q, k, v, g) if mask is None else (q, k, v, g, mask)
    return Case(args, gradients=False, nan=nan)  # nobody goes back through the way back


_UNATTENDED_ROW = (
    "nan-rows",
    "Right, but for the query that may attend to nothing: its weights are 0/0, NaN, and from there "
    "NaN gets into the gradient of every key and value. Such a query has weights of zero.",
)
_TOO_LARGE = (
    "overflow",
    "Right, until the scores get large: exp(120) is too large for a float32, exp(−120) is 0, and "
    "∞/∞ and 0/0 are not numbers. `torch.softmax` can handle them.",
)


def _of_other_masks():
    """Large scores alone, self-attention, masks that broadcast in ways that few think of."""
    q, k, v, g = randn(7, (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7), (2, 3, 4, 7))
    of_queries = (torch.arange(4) != 1)[:, None].expand(2, 1, 4, 1).clone()
    words = "a mask of one row, (1, keys)", "a mask of one column, (batch, 1, queries, 1)"
    alike = tuple(randn(8, *[(1, 2, 3, 4)] * 4))
    plain = {name: kinds[0] for name, kinds in ATTENTION_VJP.domain.kinds.items()}
    large = [
        replace(
            _make_attention_vjp(plain | {"sizes": "a batch of one", "numbers": numbers}, 9),
            note=numbers,
            edge=True,
        )
        for numbers in SATURATED
    ]
    return [
        *large,
        Case(alike, gradients=False, note="q, k and v of one shape"),
        Case((q, k, v, g, (torch.arange(6) != 2)[None]), gradients=False, note=words[0]),
        Case((q, k, v, g, torch.arange(6) != 2), gradients=False, note="a mask of (keys,)"),
        Case(
            (q, k, v, g, of_queries),
            gradients=False,
            note=words[1],
            nan=_UNATTENDED_ROW,
            edge=True,
        ),
    ]


def _shares(q, k, mask=None, scale=None, dim=-1, fill=-math.inf):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    return torch.softmax(scores, dim).nan_to_num(0.0)


def _common(p, dp):
    return (p * dp).sum(-1, keepdim=True)


def _moved(p, dp):
    return p * (dp - _common(p, dp))


def _given_back(q, k, v, g, p, ds):
    return ds @ k, ds.mT @ q, p.mT @ g


def _attention_back(shares=_shares, moved=_moved, given=_given_back, scale=None):
    """Attention's backward pass with one of its steps done in another way."""

    def answer(q, k, v, g, mask=None):
        p = shares(q, k, mask)
        by = q.shape[-1] ** -0.5 if scale is None else scale(q, v)
        return given(q, k, v, g, p, by * moved(p, g @ v.mT))

    return answer


def _times_at(q_times, k_times, v_times=lambda root: 1.0):
    """Each of the three multiplied by something, made of √d_head."""

    def given(q, k, v, g, p, ds):
        root = q.shape[-1] ** 0.5
        dq, dk, dv = _given_back(q, k, v, g, p, ds)
        return q_times(root) * dq, k_times(root) * dk, v_times(root) * dv

    return _attention_back(given=given)


def _as_it_is(root):
    return 1.0


def _root(root):
    return root


def _one_over(root):
    return 1 / root


def _unscaled(q, k, mask=None):
    return _shares(q, k, mask, 1.0)


def _mask_too_late(q, k, v, g, mask=None):
    """The mask is applied to the gradient at the scores alone."""
    p = _shares(q, k)
    ds = _moved(p, g @ v.mT) * q.shape[-1] ** -0.5
    return _given_back(q, k, v, g, p, ds if mask is None else ds.masked_fill(~mask, 0.0))


def _in_another_order(a, b, c):
    """The three gradients, returned in an order that nobody asked for."""

    def given(*pieces):
        three = _given_back(*pieces)
        return three[a], three[b], three[c]

    return _attention_back(given=given)


def _forbidden_keys_get_nothing(cases, values, expected):
    triples = list(zip(cases, values, expected, strict=True))
    if not all(same(v, e, 2e-4) for c, v, e in triples if len(c.args) < 5):
        return None  # something else is wrong
    for case, (_, dk, dv), _ in triples:
        if len(case.args) < 5:
            continue
        q, k, _, _, mask = case.args
        seen = mask.expand(*q.shape[:-1], k.shape[-2]).any(dim=-2)  # (batch, heads, keys)
        if (dk.abs().amax(-1) > 1e-3)[~seen].any() or (dv.abs().amax(-1) > 1e-3)[~seen].any():
            return Finding(
                "forbidden-key",
                "A key that no query may attend to still gets a gradient, or its value does "
                f"({case.note}). Whatever they are, the output is the same.",
            )
    return None


def _some_are_right(cases, values, expected):
    """Which of the three gradients are right in all cases, where only some are."""
    good = [
        all(same(v[i], e[i], 2e-4) for v, e in zip(values, expected, strict=True)) for i in range(3)
    ]
    if good == [False, False, True]:
        return Finding(
            "only-v",
            "The gradient at v is right, so your weights are. Those at q and k are not yet: the "
            "mistake is on the way back from the weights to the scores, or from there to q and k.",
        )
    if good == [True, False, True] or good == [False, True, True]:
        right, other = ("q", "k") if good[0] else ("k", "q")
        return Finding(
            f"all-but-{other}",
            f"The gradients at {right} and v are right, so you have the one at the scores. Only "
            f"the last step is wrong, from the scores to {other}.",
        )
    if good == [True, True, False]:
        return Finding(
            "all-but-v",
            "The gradients at q and k are right. The one at v is not: how does a value get into "
            "the outputs, and into which of them? (If it is only where scores are in the hundreds "
            "and there is a mask: what you fill in for a forbidden score must lie below all of "
            "them.)",
        )
    return None


_LARGE_SCORES = (
    "Right, until the scores get large: exp(100) is too large for a float32, and exp(−120) is 0. A "
    "softmax stays the same if each query's own largest score is taken off first; `torch.softmax` "
    "does that."
)


def _exponentials_over_their_sum(q, k, mask=None):
    raised = (q @ k.mT * q.shape[-1] ** -0.5).exp() * (1 if mask is None else mask)
    return raised / (raised.sum(-1, keepdim=True) + 1e-9)


def _mask_again_at_the_scores(q, k, v, g, mask=None):
    """Forbidden scores are very negative, and their gradients zero: all but an empty row's p."""
    p = _shares(q, k, mask, fill=-1e9)
    ds = _moved(p, g @ v.mT) * q.shape[-1] ** -0.5
    return _given_back(q, k, v, g, p, ds if mask is None else ds * mask)


def _always_causal(last=lambda queries, keys: 0, unasked=False):
    def shares(q, k, mask=None):
        if mask is None and not unasked:
            return _shares(q, k)
        queries, keys = q.shape[-2], k.shape[-2]
        causal = torch.ones(queries, keys, dtype=torch.bool).tril(last(queries, keys))
        return _shares(q, k, causal)

    return _attention_back(shares)


def _right_until_scores_are_large(cases, values, expected):
    """Wrong only where scores are in the hundreds, and not for the mask's sake alone."""
    large = []
    for case, value, right in zip(cases, values, expected, strict=True):
        if not same(value, right, 2e-4):
            large.append(any(kind in case.note for kind in SATURATED) and len(case.args))
    if large and all(large) and 4 in large:  # without a mask, too
        return Finding("overflow", _LARGE_SCORES)
    return None


def _right_where_all_share_a_mask(cases, values, expected):
    """Wrong only where sequences or heads have masks of their own."""
    wrong = [
        case
        for case, value, right in zip(cases, values, expected, strict=True)
        if not same(value, right, 2e-4)
    ]
    if all(any(kind in case.note for kind in SATURATED) for case in wrong):
        return None
    for case in wrong:
        if len(case.args) < 5:
            return None
        q, k, _, _, mask = case.args
        each = mask.expand(*q.shape[:-1], k.shape[-2])
        if (each == each[:1, :1]).all():
            return None
    if not wrong:
        return None
    return Finding(
        "one-mask-for-all",
        "Right wherever all sequences and heads share a mask. Where they have masks of their own, "
        f"it goes wrong: one mask is used for all sequences and heads ({wrong[0].note}).",
    )


ATTENTION_VJP = Exercise(
    name="attention_vjp",
    lesson=LESSON,
    title="the gradient through attention",
    domain=Domain(
        kinds={
            "mask": (
                "no mask",
                "causal mask",
                "padding mask",
                "a mask per head",
                "a mask for every query of every head",
                *UNATTENDED,
            ),
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one head",
                "one query",
                "one key",
                "as many queries as keys and as sequences",
            ),
            "width": ("unequal widths", "d_head 1", "d_value 1", "d_value as d_head"),
            "numbers": ("ordinary numbers", "tiny numbers", *SATURATED),
            "values": ("ordinary values", "values far from zero", "all values alike"),
            "gradient": (
                "an ordinary gradient",
                "a gradient at one query alone",
                "a gradient of zero",
            ),
        },
        make=_make_attention_vjp,
        edges=(
            *UNATTENDED,
            *SATURATED,
            "one key",
            "all values alike",
            "a gradient of zero",
        ),
    ),
    special=_of_other_masks,
    forbids=("attention_vjp", *forbidden.DERIVATIVES),
    witness=attention_vjp,
    reference=attention.attention_vjp,
    axes=("batch", "heads", "tokens", "d"),
    properties=(
        _right_where_all_share_a_mask,
        _forbidden_keys_get_nothing,
        _right_until_scores_are_large,
        _some_are_right,
    ),
    tolerance=2e-4,
    smallest=1,
    hints=(
        "Go back step by step, and write down the shape of each thing: the weights p, the gradient "
        "at them, the gradient at the scores. All three are (batch, heads, queries, keys).",
        "Which keys' weights would make the loss grow more than the query's weights do on average? "
        "The average is one number for each query, so it keeps its axis, and the weights count in "
        "it: `keepdim=True`.",
        "A score is a product of a query and a key, divided by √d_head. What a key gets comes from "
        "all queries, so the axis of the queries has to disappear: which of the two is transposed?",
    ),
    variants={
        "scale-missing": Variant(
            "You give q and k the gradient as if the scores were their plain products. On the way "
            "forward these were divided by something.",
            _times_at(_root, _root),
        ),
        "scale-missing-at-q": Variant(
            "At k all is right. At q something is missing: the scores were divided, and that "
            "concerns both.",
            _times_at(_root, _as_it_is),
        ),
        "scale-missing-at-k": Variant(
            "At q all is right. At k something is missing: the scores were divided, and that "
            "concerns both.",
            _times_at(_as_it_is, _root),
        ),
        "scaled-twice": Variant(
            "At q and k you divide by d_head, which is √d_head twice. The scores were divided by "
            "the root, once.",
            _times_at(_one_over, _one_over),
        ),
        "scaled-at-v": Variant(
            "The gradient at v is divided by √d_head too. That division is one of the scores; the "
            "values have no part in them.",
            _times_at(_as_it_is, _as_it_is, _one_over),
        ),
        "multiplied-by-the-root": Variant(
            "You multiply by √d_head on the way back. Something that was made smaller on the way "
            "forward has less effect, so its gradient is smaller too.",
            _attention_back(scale=lambda q, v: q.shape[-1] ** 0.5),
        ),
        "weights-unscaled": Variant(
            "Your weights come from undivided scores, though on the way back you divide. Divide "
            "before the softmax, too.",
            _attention_back(_unscaled),
        ),
        "never-scaled": Variant(
            "√d_head is nowhere in it: neither in the weights nor on the way back.",
            _attention_back(_unscaled, scale=lambda q, v: 1.0),
        ),
        "scale-of-d-value": Variant(
            "You divide by √d_value. The scores are products of queries and keys.",
            _attention_back(scale=lambda q, v: v.shape[-1] ** -0.5),
        ),
        "nothing-taken-off": Variant(
            "You multiply by the weights, but nothing is taken off first. The weights of a query "
            "always sum to 1: what all its keys have in common can have no effect.",
            _attention_back(moved=lambda p, dp: p * dp),
        ),
        "plain-mean": Variant(
            "You take off the plain mean over the keys. A key with a large weight should count for "
            "more in it: the mean is one with the query's own weights.",
            _attention_back(moved=lambda p, dp: p * (dp - dp.mean(-1, keepdim=True))),
        ),
        "plain-sum": Variant(
            "You take off the sum over the keys without their weights.",
            _attention_back(moved=lambda p, dp: p * (dp - dp.sum(-1, keepdim=True))),
        ),
        "mean-of-the-products": Variant(
            "You take the mean of p · dp. The weights sum to 1 already, so a weighted mean is "
            "their sum; you divide by the number of keys once more.",
            _attention_back(moved=lambda p, dp: p * (dp - (p * dp).mean(-1, keepdim=True))),
        ),
        "over-queries": Variant(
            "What you take off is summed over the queries. Each query shares out its own weight "
            "among its keys: sum over the keys.",
            _attention_back(moved=lambda p, dp: p * (dp - (p * dp).sum(-2, keepdim=True))),
        ),
        "over-everything": Variant(
            "What you take off is summed over queries and keys together. Each query has its own.",
            _attention_back(moved=lambda p, dp: p * (dp - (p * dp).sum((-2, -1), keepdim=True))),
        ),
        "softmax-over-queries": Variant(
            "Your weights sum to 1 over the queries. Each query shares out its weight among the "
            "keys.",
            _attention_back(lambda q, k, mask=None: _shares(q, k, mask, dim=-2)),
        ),
        "not-weighted": Variant(
            "The weighted mean is taken off, but what is left is not multiplied by the weights. A "
            "key with a weight of nearly 0 has nearly no slope.",
            _attention_back(moved=lambda p, dp: dp - _common(p, dp)),
        ),
        "weighted-too-early": Variant(
            "You take the mean off what is multiplied by the weights already. It should come off "
            "first.",
            _attention_back(moved=lambda p, dp: p * dp - _common(p, dp)),
        ),
        "log-softmax": Variant(
            "That is the way back through a log-softmax. Here the values are mixed by the weights "
            "themselves, not by their logarithms.",
            _attention_back(moved=lambda p, dp: dp - p * dp.sum(-1, keepdim=True)),
        ),
        "no-softmax": Variant(
            "You go back as if there were no softmax between the scores and the weights.",
            _attention_back(moved=lambda p, dp: dp),
        ),
        "times-one-minus": Variant(
            "p · (1 − p) is the slope of a weight with respect to its own score. But a score moves "
            "the weights of all other keys as well.",
            _attention_back(moved=lambda p, dp: p * (1 - p) * dp),
        ),
        "sign": Variant(
            "The gradients at q and k have the wrong sign. The score of a key that is better than "
            "the query's average should count as good.",
            _attention_back(moved=lambda p, dp: -_moved(p, dp)),
        ),
        "swapped": Variant(
            "The gradients at q and k have changed places.",
            _in_another_order(1, 0, 2),
        ),
        "k-and-v-swapped": Variant(
            "The gradients at k and v have changed places. Give them in the order q, k, v.",
            _in_another_order(0, 2, 1),
        ),
        "turned-round": Variant(
            "The order is turned round: give the gradient at q first, then k, then v.",
            _in_another_order(2, 1, 0),
        ),
        "values-for-keys": Variant(
            "From the gradient at the scores you go to q by the values. A score is made of a query "
            "and a key.",
            _attention_back(
                given=lambda q, k, v, g, p, ds: (ds @ v, *_given_back(q, k, v, g, p, ds)[1:])
            ),
        ),
        "v-alone": Variant(
            "The gradient at v is right, those at q and k are zero. The weights depend on q and k.",
            _attention_back(moved=lambda p, dp: 0 * dp),
        ),
        "mask-ignored": Variant(
            "The mask is not used: without one all is right. A forbidden key has no weight.",
            _attention_back(lambda q, k, mask=None: _shares(q, k)),
        ),
        "mask-inverted": Variant(
            "The mask is read the wrong way round: here True means may attend.",
            _attention_back(lambda q, k, mask=None: _shares(q, k, None if mask is None else ~mask)),
        ),
        "mask-after": Variant(
            "You remove forbidden keys after the softmax: then the weights of the others no longer "
            "sum to 1.",
            _attention_back(lambda q, k, mask=None: _shares(q, k) * (1 if mask is None else mask)),
        ),
        "mask-on-the-way-back": Variant(
            "The mask comes in on the way back only. On the way forward, forbidden keys have taken "
            "weight from the others.",
            _mask_too_late,
        ),
        "nothing-becomes-everything": Variant(
            "A query that may attend to nothing attends to all keys in yours. It should give zeros "
            "everywhere.",
            _attention_back(lambda q, k, mask=None: _shares(q, k, mask, fill=-1e9)),
        ),
        "nothing-gives-to-the-values": Variant(
            "A query that may attend to nothing still gives its g to the values. At q and k all is "
            "right; but its weights, too, should be zeros.",
            _mask_again_at_the_scores,
        ),
        "always-causal": Variant(
            "You use a causal mask whatever is asked for. Which keys a query may attend to is said "
            "by `mask`; without one, it may attend to all.",
            _always_causal(unasked=True),
        ),
        "causal-for-any-mask": Variant(
            "Where there is a mask, you use a causal one in its place. The one mask is used for "
            "all sequences and heads, though `mask` may say something else for each.",
            _always_causal(),
        ),
        "causal-at-the-end-for-any-mask": Variant(
            "Where there is a mask, you use a causal one in its place. The one mask is used for "
            "all sequences and heads, though `mask` may say something else for each.",
            _always_causal(lambda queries, keys: keys - queries),
        ),
        "overflow": Variant(
            _LARGE_SCORES,
            _attention_back(_exponentials_over_their_sum),
        ),
    },
)


# --- rate_at --------------------------------------------------------------------------------


def _schedule(rise, fall):
    """A schedule from its two parts; each gets (step, steps, warm_up) and gives a share."""

    def answer(step, steps, peak, warm_up):
        part = rise if step < warm_up else fall
        return peak * part(step, steps, warm_up)

    return answer


def _rise(step, steps, warm_up):
    return (step + 1) / warm_up


def _fall(step, steps, warm_up):
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))


rate_at = _schedule(_rise, _fall)


def _make_rate(kind, seed):
    steps, peak = 40 + 10 * (seed % 7), (1e-2, 3e-3, 0.5)[seed % 3]
    warm_up = {
        "some warm-up": 4 + seed % 5,
        "no warm-up": 0,
        "one step of warm-up": 1,
        "a long warm-up": steps // 2 + 1,
        "a fall of one step": steps - 1,
        "nothing but warm-up": steps,
    }[kind["warm-up"]]
    step = {
        "in the middle of the fall": (steps + warm_up) // 2 + 1,
        "in the middle of the warm-up": warm_up // 2,
        "the first step": 0,
        "the last step of the warm-up": warm_up - 1,
        "the first step after the warm-up": warm_up,
        "the last step": steps - 1,
    }[kind["step"]]
    if step < 0 or step >= steps or ("of the warm-up" in kind["step"] and step >= warm_up):
        return None
    peak = {"a peak": peak, "a peak of 1": 1.0, "a peak of 2e-5": 2e-5}[kind["peak"]]
    return Case((step, steps, peak, warm_up))


RATE_AT = Exercise(
    name="rate_at",
    lesson=LESSON,
    title="warm up, then slow down",
    domain=Domain(
        kinds={
            "step": (
                "in the middle of the fall",
                "in the middle of the warm-up",
                "the first step",
                "the last step of the warm-up",
                "the first step after the warm-up",
                "the last step",
            ),
            "warm-up": (
                "some warm-up",
                "no warm-up",
                "one step of warm-up",
                "a long warm-up",
                "a fall of one step",
                "nothing but warm-up",
            ),
            "peak": ("a peak", "a peak of 1", "a peak of 2e-5"),
        },
        make=_make_rate,
        edges=("a fall of one step", "nothing but warm-up"),
    ),
    witness=rate_at,
    reference=rate_at,
    tolerance=3e-7,  # rates are small numbers
    hints=(
        "Two cases: is the step one of the first `warm_up` ones, or not? Work out a share of the "
        "peak for each, between 0 and 1.",
        "Rising: steps count from 0, but the first should not be lost, so the share of step 0 is "
        "1/warm_up and that of step warm_up − 1 is 1.",
        "Falling: how far is it through what is left after the warm-up, from 0 to 1? Half a cosine "
        "goes from 1 to −1 while its argument goes from 0 to π; half of one plus it goes from 1 "
        "to 0.",
    ),
    variants={
        "from-zero": Variant(
            "The first step has a rate of 0: it is lost, and the peak comes a step late. Steps "
            "count from 0, so step 0 is the first of the warm-up.",
            _schedule(lambda step, steps, warm_up: step / warm_up, _fall),
        ),
        "whole-numbers": Variant(
            "`//` divides whole numbers: the share is 0 until the last step of the warm-up.",
            _schedule(lambda step, steps, warm_up: (step + 1) // warm_up, _fall),
        ),
        "no-warm-up": Variant(
            "There is no rise: the first steps have the whole peak.",
            _schedule(lambda step, steps, warm_up: 1.0, _fall),
        ),
        "never-falls": Variant(
            "After the warm-up the rate stays at its peak. It should fall to 0 along half a "
            "cosine.",
            _schedule(_rise, lambda step, steps, warm_up: 1.0),
        ),
        "straight": Variant(
            "The fall is a straight line; half a cosine is asked for.",
            _schedule(_rise, lambda step, steps, warm_up: 1 - (step - warm_up) / (steps - warm_up)),
        ),
        "counted-from-the-start": Variant(
            "The fall counts from step 0, so the rate jumps down when the warm-up ends. It begins "
            "where the warm-up ends.",
            _schedule(
                _rise,
                lambda step, steps, warm_up: 0.5 * (1 + math.cos(math.pi * step / steps)),
            ),
        ),
        "never-ends": Variant(
            "The fall takes as long as all steps together, so it is not finished at the end. It "
            "has only the steps that the warm-up has left.",
            _schedule(
                _rise,
                lambda step, steps, warm_up: (
                    0.5 * (1 + math.cos(math.pi * (step - warm_up) / steps))
                ),
            ),
        ),
        "below-zero": Variant(
            "A cosine goes down to −1, and so does your rate: training would run backwards. Half "
            "of one plus the cosine stays between 0 and 1.",
            _schedule(
                _rise,
                lambda step, steps, warm_up: math.cos(
                    math.pi * (step - warm_up) / (steps - warm_up)
                ),
            ),
        ),
        "ends-a-step-early": Variant(
            "Your fall reaches 0 at the last step, which is lost then. It would reach 0 at step "
            "`steps`, one after the last.",
            _schedule(
                _rise,
                lambda step, steps, warm_up: (
                    0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - 1 - warm_up)))
                ),
            ),
        ),
        "quarter-cosine": Variant(
            "You take a quarter of a cosine, from 1 to 0. Half of one goes from 1 to −1: it leaves "
            "the peak as gently as it comes to 0.",
            _schedule(
                _rise,
                lambda step, steps, warm_up: math.cos(
                    0.5 * math.pi * (step - warm_up) / (steps - warm_up)
                ),
            ),
        ),
        "share-of-the-peak": Variant(
            "You give a share between 0 and 1. The rate is that share of `peak`.",
            lambda step, steps, peak, warm_up: rate_at(step, steps, 1.0, warm_up),
        ),
        "whole-cosine": Variant(
            "You take a whole cosine: the rate falls to 0 half way and rises again.",
            _schedule(
                _rise,
                lambda step, steps, warm_up: (
                    0.5 * (1 + math.cos(2 * math.pi * (step - warm_up) / (steps - warm_up)))
                ),
            ),
        ),
    },
)


# --- first_std ------------------------------------------------------------------------------


def _starting(base, writes, scale, vectors=0.0):
    """A rule for first weights: which matrices are smaller, by how much, and what vectors get."""

    def answer(name, shape, layers):
        if len(shape) < 2:
            return vectors if not callable(vectors) else vectors(name)
        return base * (scale(layers) if writes(name) else 1.0)

    return answer


def _onto_the_stream(name):
    return name.endswith(("out.weight", "down.weight"))


def _two_a_block(layers):
    return 1 / math.sqrt(2 * layers)


first_std = _starting(0.02, _onto_the_stream, _two_a_block)


def _own_depth(name, shape, layers):
    """Smaller by the additions up to this block."""
    numbers = [int(part) for part in name.split(".") if part.isdigit()]
    return first_std(name, shape, numbers[0] + 1 if numbers else layers)


def _given_first_std(name, shape, layers):
    if name.endswith("bias"):
        return 0.0
    if "attention" in name or "feed_forward" in name:
        return 0.02 / math.sqrt(layers)
    return 0.02


PARTS = {
    "attention.out.weight": (8, 8),
    "feed_forward.down.weight": (8, 32),
    "attention.qkv.weight": (24, 8),
    "feed_forward.up.weight": (32, 8),
    "attention.out.bias": (8,),
    "feed_forward.down.bias": (8,),
    "feed_forward.up.bias": (32,),
    "attention_norm.weight": (8,),
    "feed_forward_norm.bias": (8,),
}


def _make_first_std(kind, seed):
    layers = {"some layers": 3 + seed % 7, "one layer": 1, "96 layers": 96}[kind["depth"]]
    part = kind["parameter"]
    if part == "the embedding":
        return Case(("embedding.weight", (103, 8 + seed % 5), layers))
    if part == "an embedding of few characters":
        return Case(("embedding.weight", (5, 8 + seed % 5), layers))
    if part == "the head":
        return Case(("head.weight", (103, 8 + seed % 5), layers))
    if part == "the last norm":
        return Case(("norm.weight", (8 + seed % 5,), layers))
    d = 8 + seed % 5
    block = seed % layers if layers < 96 else 95 - seed % 80  # two digits where there are many
    if part == "a narrow MLP's first matrix":
        return Case((f"blocks.{block}.feed_forward.up.weight", (4, d), layers))
    if part == "a narrow MLP's second matrix":
        return Case((f"blocks.{block}.feed_forward.down.weight", (d, 4), layers))
    shape = tuple(size // 8 * d for size in PARTS[part])
    return Case((f"blocks.{block}.{part}", shape, layers))


FIRST_STD = Exercise(
    name="first_std",
    lesson=LESSON,
    title="find the bugs: first weights",
    domain=Domain(
        kinds={
            "parameter": (
                *PARTS,
                "the embedding",
                "the last norm",
                "the head",
                "an embedding of few characters",
                "a narrow MLP's first matrix",
                "a narrow MLP's second matrix",
            ),
            "depth": ("some layers", "one layer", "96 layers"),
        },
        make=_make_first_std,
    ),
    witness=first_std,
    reference=first_std,
    tolerance=1e-7,  # a few thousandths, to some digits
    hints=(
        "Print what the code gives for every parameter of a block. Which of them write into the "
        "stream, and which only read from it?",
        "How many additions does a stack of L blocks have? Each block adds twice.",
        "A norm's weight is no matrix: it begins at 1 everywhere, so its standard deviation is 0. "
        "The shape tells a matrix from a vector.",
    ),
    variants={
        "as given": Variant(
            "This is the code as it was given. Three things in it are wrong. Print what it gives "
            "for every parameter of a block, and hold that beside what GPT-2's paper says.",
            _given_first_std,
            to_do=True,
        ),
        "one-a-block": Variant(
            "You count one addition a block. There are two, attention's and the MLP's.",
            _starting(0.02, _onto_the_stream, lambda layers: 1 / math.sqrt(layers)),
        ),
        "not-rooted": Variant(
            "You divide by the number of additions. It is the variance that should become 2L times "
            "smaller; the standard deviation by its root.",
            _starting(0.02, _onto_the_stream, lambda layers: 1 / (2 * layers)),
        ),
        "all-matrices": Variant(
            "All matrices of a block are smaller. Only those that write into the stream should be: "
            "queries, keys, values and the MLP's first matrix read a normalized stream.",
            _starting(
                0.02, lambda name: "attention." in name or "feed_forward." in name, _two_a_block
            ),
        ),
        "reading-ones": Variant(
            "The wrong matrices are smaller: those that read from the stream. It is those that "
            "write into it.",
            _starting(0.02, lambda name: name.endswith(("qkv.weight", "up.weight")), _two_a_block),
        ),
        "attention-only": Variant(
            "Attention's output is smaller, the MLP's is not. Both write into the stream.",
            _starting(0.02, lambda name: name.endswith("out.weight"), _two_a_block),
        ),
        "mlp-only": Variant(
            "The MLP's output is smaller, attention's is not. Both write into the stream.",
            _starting(0.02, lambda name: name.endswith("down.weight"), _two_a_block),
        ),
        "random-norms": Variant(
            "A norm's weight would begin at random. It begins at 1 everywhere: its standard "
            "deviation is 0.",
            _starting(
                0.02,
                _onto_the_stream,
                _two_a_block,
                lambda name: 0.0 if name.endswith("bias") else 0.02,
            ),
        ),
        "norms-at-one": Variant(
            "You give the number that a norm's weights begin with. Asked is how much they differ "
            "from each other: all are 1, so not at all.",
            _starting(
                0.02,
                _onto_the_stream,
                _two_a_block,
                lambda name: 0.0 if name.endswith("bias") else 1.0,
            ),
        ),
        "own-depth": Variant(
            "Each block has a factor of its own in yours, by its number. All blocks of a stack "
            "have the same: it comes from `layers`, the number of all of them.",
            _own_depth,
        ),
        "random-biases": Variant(
            "Biases would begin at random. GPT-2's begin at 0.",
            _starting(
                0.02,
                _onto_the_stream,
                _two_a_block,
                lambda name: 0.02 if name.endswith("bias") else 0.0,
            ),
        ),
        "never-smaller": Variant(
            "No matrix is smaller. Those that write into the stream should be, by the root of the "
            "number of additions.",
            _starting(0.02, lambda name: False, _two_a_block),
        ),
    },
)


# --- clip_by_norm ---------------------------------------------------------------------------


def _clipped(scale):
    """Clipping by one factor, from both gradients and the greatest length."""

    def answer(first, second, most):
        factor = scale(first, second, most)
        return first * factor, second * factor

    return answer


def _length(*gradients):
    return sum(g.square().sum() for g in gradients).sqrt().item()


def _at_most_one(length):
    """The factor of clipping, from a way to measure how long the gradients are."""
    return lambda first, second, most: min(1.0, most / max(length(first, second), 1e-12))


clip_by_norm = _clipped(_at_most_one(_length))


TINY = "tiny, and too long"


def _short_of_the_limit(cases, values, expected):
    """Right but for tiny gradients, which come out a little too short."""
    for case, value, right in zip(cases, values, expected, strict=True):
        if TINY not in case.note and not all(
            torch.allclose(v, e, rtol=1e-4, atol=1e-6) for v, e in zip(value, right, strict=True)
        ):
            return None
    for case, value in zip(cases, values, strict=True):
        length, most = _length(*value), case.args[2]
        if TINY in case.note and 0.5 * most < length < most:
            return Finding(
                "short-of-the-limit",
                f"Right for gradients of an ordinary size. Here their length is "
                f"{_length(*case.args[:2]):.3g}, and what you give is shorter than the limit by "
                f"{1 - length / most:.2%}. Is something small added to what you divide by? "
                "(PyTorch's own adds 1e-6. It divides always; you need not.)",
            )
    return None


def _made_one(first, second, most):
    """Where it is above the limit, the length becomes 1."""
    length = _length(first, second)
    return 1 / length if length > most else 1.0


def _one_after_the_other(first, second, most):
    """The length is measured again when the first is shorter already."""
    length = _length(first, second)
    shorter = first * min(1.0, most / max(length, 1e-12))
    if length <= most:
        return first, second
    return shorter, second * most / _length(shorter, second)


def _make_clip(kind, seed):
    a, b, c = unequal(seed, 3)
    shapes = {
        "a matrix and a vector": ((a, b), (c,)),
        "two matrices": ((a, b), (c, a)),
        "three axes and a matrix": ((a, b, c), (b, a)),
        "a single number": ((1,), (b, c)),
        "a number without an axis": ((1,), (b, c)),
    }[kind["tensors"]]
    first, second = randn(seed, *shapes)
    first = 2 * first
    if kind["tensors"] == "a number without an axis":
        first = first[0]
    whole, longest = _length(first, second), max(_length(first), _length(second))
    most = {
        "too long": 0.3 * whole,
        "short enough": 1.5 * whole,
        "a thousand times too long": whole / 1000,
        "each short enough, together too long": (whole + longest) / 2,
        "one is all zero": 0.4 * whole,
        "all zero": 1.0,
        "shorter than 1, but too long": 0.2,
        "shorter than 1, and short enough": 0.75,
        TINY: 2e-4,
    }[kind["length"]]
    if kind["length"] == TINY:
        first, second = 1e-3 * first / whole, 1e-3 * second / whole
    if kind["length"].startswith("shorter than 1"):
        first, second = 0.5 * first / whole, 0.5 * second / whole
    if kind["length"] in ("one is all zero", "all zero"):
        second = 0 * second
    if kind["length"] == "all zero":
        first = 0 * first
    return Case((first, second, most), gradients=False)


CLIP_BY_NORM = Exercise(
    name="clip_by_norm",
    lesson=LESSON,
    title="one length for all gradients",
    domain=Domain(
        kinds={
            "length": (
                "too long",
                "short enough",
                "a thousand times too long",
                "each short enough, together too long",
                "one is all zero",
                "all zero",
                "shorter than 1, but too long",
                "shorter than 1, and short enough",
                TINY,
            ),
            "tensors": (
                "a matrix and a vector",
                "two matrices",
                "three axes and a matrix",
                "a single number",
                "a number without an axis",
            ),
        },
        make=_make_clip,
        edges=("all zero", "one is all zero", TINY),
    ),
    forbids=("clip_grad_norm_", "clip_grads_with_norm_", "get_total_norm"),
    witness=clip_by_norm,
    reference=clip_by_norm,
    properties=(_short_of_the_limit,),
    tolerance=3e-5,
    smallest=1e-5,
    hints=(
        "Think of both gradients as one long row of numbers. Its length is the root of the sum of "
        "all squares, of both.",
        "One factor for both: where the length is below the limit it is 1, above it the limit "
        "divided by the length.",
        "Gradients that are all 0 have a length of 0: nothing must be divided by it. Give new "
        "tensors; those that came in stay as they are.",
    ),
    variants={
        "each-alone": Variant(
            "You clip each gradient by itself. Then the direction changes: one is shortened and "
            "the other is not. One factor for both keeps it.",
            lambda first, second, most: tuple(
                g * min(1.0, most / max(_length(g), 1e-12)) for g in (first, second)
            ),
        ),
        "each-number": Variant(
            "You clip every number by itself. That changes the direction; the length of all "
            "together is what is limited.",
            lambda first, second, most: (first.clamp(-most, most), second.clamp(-most, most)),
        ),
        "always-scaled": Variant(
            "You scale short gradients up to the limit, too. What is short enough stays as it is.",
            _clipped(lambda first, second, most: most / max(_length(first, second), 1e-12)),
        ),
        "never-scaled": Variant(
            "Nothing is clipped, though the length of both together is above the limit.",
            _clipped(lambda first, second, most: 1.0),
        ),
        "sum-of-lengths": Variant(
            "You add up the two lengths. Lengths do not add: it is the squares that do, and the "
            "root is taken once, at the end.",
            _clipped(_at_most_one(lambda first, second: _length(first) + _length(second))),
        ),
        "not-rooted": Variant(
            "The root is missing: you compare the sum of the squares with the limit.",
            _clipped(_at_most_one(lambda first, second: _length(first, second) ** 2)),
        ),
        "square-compared": Variant(
            "The factor is right where one is needed, but you compare the square of the length "
            "with the limit. Compare the length itself.",
            _clipped(
                lambda first, second, most: (
                    most / _length(first, second) if _length(first, second) ** 2 > most else 1.0
                )
            ),
        ),
        "greatest": Variant(
            "You take the length of the longer one. Asked is the length of both together.",
            _clipped(_at_most_one(lambda first, second: max(_length(first), _length(second)))),
        ),
        "mean-square": Variant(
            "You take the root of the *mean* of the squares. The length is the root of their sum.",
            _clipped(
                _at_most_one(
                    lambda first, second: (
                        _length(first, second) / (first.numel() + second.numel()) ** 0.5
                    )
                )
            ),
        ),
        "length-one": Variant(
            "What is too long comes out with a length of 1. It should have the length `most`.",
            _clipped(_made_one),
        ),
        "one-after-the-other": Variant(
            "The second factor is worked out when the first gradient has been shortened already. "
            "Measure once, then take the same factor for both.",
            _one_after_the_other,
        ),
        "turned-round": Variant(
            "The factor is upside down: long gradients become longer.",
            _clipped(lambda first, second, most: max(1.0, _length(first, second) / most)),
        ),
    },
)

EXERCISES = [
    HOW_IT_ENDED,
    STREAM_GROWTH,
    NORM_VJP,
    ATTENTION_VJP,
    RATE_AT,
    FIRST_STD,
    CLIP_BY_NORM,
]
QUESTIONS = [
    Item(
        "07-post",
        LESSON,
        "Six post-norm blocks, no warm-up, learning rate 0.003. There are 103 characters: one who "
        "knows nothing has a loss of ln 103 = 4.63 nats, one who knows only how frequent each "
        "character is has 3.25. What will the loss do?",
        (
            Option(
                "go to NaN",
                "So it is often said. But a norm stands at the end of every block: how large can "
                "the numbers become?",
            ),
            Option(
                "stay near 4.63",
                "The head alone can learn how frequent the characters are, whatever the blocks do.",
            ),
            Option(
                "fall to about 3.25 and stay there",
                "Yes. The record below counts how often that happens, and at which rates.",
                right=True,
            ),
            Option(
                "fall as pre-norm's does",
                "At 0.001 it does, with six blocks. Look what happens at 0.003.",
            ),
        ),
    ),
    Item(
        "07-grows",
        LESSON,
        "After a dozen steps at that rate: in which of the two stacks has the stream become much "
        "larger at the last block than at the first?",
        (
            Option("post-norm", "There a norm brings it back to size 1 at the end of each block."),
            Option(
                "pre-norm",
                "Yes: nothing ever makes the stream smaller there. Each block adds to it.",
                right=True,
            ),
            Option("both", "In one of them a norm stands at the end of each block."),
        ),
    ),
    Item(
        "07-gradient",
        LESSON,
        "And the gradient? Compare, in the post-norm stack, what arrives at the first block with "
        "what arrives at the last.",
        (
            Option("it is some ten times larger: it explodes", "Look at the figure below."),
            Option("they are about the same", "So it is before training. Not any more."),
            Option(
                "it is a million times smaller: it vanishes",
                "Yes. What the norms do to it is the subject of this section.",
                right=True,
            ),
        ),
    ),
    Item(
        "07-common",
        LESSON,
        "One query, three keys. The gradient at its three weights is (5, 5, 5): if any one of them "
        "could grow alone by a little, the loss would grow 5 times as much. What is the gradient "
        "at the three scores?",
        (
            Option(
                "(5, 5, 5)",
                "If one score grows, do all the weights grow?",
            ),
            Option(
                "5 times the weights",
                "That would say that the loss changes when all scores grow together. What does the "
                "softmax make of that?",
            ),
            Option(
                "(0, 0, 0)",
                "Yes: the weights sum to 1, so what one gains the others lose, and here they all "
                "count the same.",
                right=True,
            ),
        ),
    ),
    Item(
        "07-row",
        LESSON,
        "FlashAttention needs the number Σ pⱼ dpⱼ for each query, but never holds a whole row of "
        "weights. dpⱼ is g · vⱼ. Which of these is the same number?",
        (
            Option("g · g, the gradient with itself", "There is no value in it, and no weight."),
            Option(
                "g · o, the gradient with the output",
                "Yes: the weights may go inside, Σ pⱼ (g · vⱼ) = g · Σ pⱼ vⱼ, and that sum is the "
                "output.",
                right=True,
            ),
            Option(
                "g · the mean of the values",
                "The values count by their weights. What do you get if you mix them so?",
            ),
        ),
    ),
    Item(
        "07-start",
        LESSON,
        "A pre-norm stack of L blocks starts with random weights. We make the matrices that write "
        "into the stream smaller by 1/√(2L). What does that keep the same, however deep the stack?",
        (
            Option(
                "what each block adds to the stream",
                "Each block adds less, the more blocks there are.",
            ),
            Option(
                "the size of the stream at the end",
                "Yes: 2L additions, each with a variance 2L times smaller, add up to the same.",
                right=True,
            ),
            Option(
                "the size of the gradient at each weight",
                "The gradient at a weight depends on more than the size of that weight.",
            ),
        ),
    ),
    Item(
        "07-late",
        LESSON,
        "A pre-norm stack of 160 untrained blocks, weights of 1/√inputs. By how much does the "
        "last block change the stream that it finds?",
        (
            Option(
                "by more than a half, like the first", "The stream it finds is not the first one's."
            ),
            Option(
                "by a tenth or less",
                "Yes. What it adds is as large as what the others add; what it adds to has grown.",
                right=True,
            ),
            Option("not at all", "It adds as much as the block before it."),
        ),
    ),
    Item(
        "07-order",
        LESSON,
        "Take one component out of a small language model, and train what is left at its own best "
        "learning rate. Which loss is the greatest cost?",
        (
            Option("attention", "It costs much. But one removal costs more: see below."),
            Option("the MLP", "It holds more parameters than attention, and costs less."),
            Option(
                "the plus",
                "Yes, by far, though there are only three blocks.",
                right=True,
            ),
            Option("the norms", "With a learning rate of its own, this one is a surprise."),
            Option("positions", "A causal mask tells something about the place by itself."),
        ),
    ),
    Item(
        "07-bigram",
        LESSON,
        "Without attention, each token sees only itself. What is the most that such a model can "
        "know about the next character?",
        (
            Option("nothing", "It still sees the present character."),
            Option(
                "what usually follows the present character",
                "Yes: a table of pairs, a bigram model. A wider MLP cannot see more.",
                right=True,
            ),
            Option(
                "what usually follows the last few characters",
                "They never reach it: only attention moves anything between places.",
            ),
        ),
    ),
    Item(
        "07-quiz-path",
        LESSON,
        "In a post-norm stack, twelve norms stand one after another on the path of the gradient. "
        "Each reads a sum of size 3. By how much is the gradient divided on that path, about?",
        (
            Option("3", "That is one norm's share."),
            Option("36", "The factors multiply, they do not add up."),
            Option("3¹², half a million", "Yes: one factor of 3 for each norm.", right=True),
            Option("not at all", "Each norm divides what it reads, and the gradient as well."),
        ),
    ),
    Item(
        "07-quiz-init",
        LESSON,
        "GPT-2 makes the weights of which matrices smaller by 1/√(2L) at the start?",
        (
            Option(
                "all of them",
                "Then each sub-layer would also read more weakly. Only the sum should not grow.",
            ),
            Option(
                "those that write into the stream: attention's output and the MLP's second",
                "Yes: 2L additions, each with a variance of 1/(2L), make one.",
                right=True,
            ),
            Option("the embeddings", "They are written once, not once for each layer."),
        ),
    ),
    Item(
        "07-quiz-fair",
        LESSON,
        "You compare two architectures at one learning rate, 0.003, over ten seeds. One is surely "
        "better. What have you shown?",
        (
            Option(
                "that it is the better architecture",
                "The other one may want another rate. Post-norm at 0.001 looks quite different.",
            ),
            Option(
                "that it is better at 0.003",
                "Yes, and no more. Give each its own rate, chosen on seeds that you do not report.",
                right=True,
            ),
            Option(
                "nothing, ten seeds are too few",
                "If the interval of the paired differences excludes 0, the difference is there. It "
                "is the question that was too narrow.",
            ),
        ),
    ),
    Item(
        "07-quiz-leak",
        LESSON,
        "After only 200 steps of training, a colleague's language model reaches 0.05 nats per "
        "character on held-out text, far below all others. What do you check first?",
        (
            Option(
                "whether the held-out text was in the training data",
                "Worth a look, as always. But 200 steps are too few to learn a text by heart.",
            ),
            Option(
                "whether an output moves when a later token changes",
                "Yes: change one token and see which outputs move. Or feed every prefix by itself.",
                right=True,
            ),
            Option("the learning rate", "No learning rate makes text that predictable."),
        ),
    ),
]
