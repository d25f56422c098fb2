"""Lesson 05: where a token thinks by itself."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

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
FAR = "numbers of ±10 000"
NUMBERS = (
    "from -4 to 4",
    "tiny numbers",
    "zero among them",
    "positive only",
    "negative only",
    "numbers up to ±100",
    FAR,
)


def _curve_case(kind, seed):
    [x] = randn(seed, [1, *unequal(seed, AXES[kind["axes"]])])
    x = (1.7 * x[0]).clamp(-4, 4)
    if kind["numbers"] == "zero among them":
        x = x * (torch.arange(x.numel()).view(x.shape) % 3 > 0)
    change = {
        "tiny numbers": lambda: 1e-3 * x,
        "positive only": lambda: x.abs(),
        "negative only": lambda: -x.abs(),
        "numbers up to ±100": lambda: 25 * x,
        FAR: lambda: 1e4 * x.sign(),
    }
    return Case((change.get(kind["numbers"], lambda: x)(),))


CURVE = Domain(kinds={"axes": tuple(AXES), "numbers": NUMBERS}, make=_curve_case, edges=(FAR,))


def _one_number_alone() -> list[Case]:
    """The same numbers, and then one row of them alone."""
    [x] = randn(7, (3, 5))
    alone = Twin(
        0,
        lambda base, this: (base[1:2], this),
        "numbers-mix",
        "What comes out for a number depends on the other numbers of x: alone, the second row "
        "gives something else than among the others. The function looks at each number by itself.",
    )
    return [Case((1.7 * x,)), Case((1.7 * x[1:2],), note="the second row alone", twin=alone)]


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


def gelu(x):
    """PyTorch's own."""
    return F.gelu(x)


GELU = Exercise(
    name="gelu",
    lesson=LESSON,
    title="GELU",
    domain=CURVE,
    special=_one_number_alone,
    forbids=("gelu", "gelu_"),
    witness=gelu,
    reference=gelu,
    properties=(_bent,),
    axes=(),
    tolerance=1e-6,
    smallest=1,
    hints=(
        "x times a number between 0 and 1: the share of a normal distribution that lies below x. "
        "What is it at x = 0, and far out on both sides?",
        "`torch.erf` runs from -1 to 1, so it has to be moved and halved to run from 0 to 1.",
        "erf measures in another unit than the normal distribution: its argument is x / √2.",
    ),
    variants={
        "tanh": Variant(
            "That is the approximation by a tanh, which is off by up to 0.0005. It comes next; "
            "here the exact one is meant.",
            lambda x: F.gelu(x, approximate="tanh"),
        ),
        "sigmoid": Variant(
            "That is x · sigmoid(1.702 x), a coarser approximation, off by up to 0.02.",
            lambda x: x * torch.sigmoid(1.702 * x),
        ),
        "silu": Variant("That is the SiLU, x · sigmoid(x).", F.silu),
        "relu": Variant("That is the ReLU.", torch.relu),
        "share-only": Variant(
            "You give the share Φ(x) itself. GELU is x times it.",
            lambda x: torch.special.ndtr(x),
        ),
        "density": Variant(
            "You took the bell curve itself; meant is the share of it that lies below x.",
            lambda x: x * torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi),
        ),
        "no-root-two": Variant(
            "The argument of erf should be x / √2; yours is x.",
            lambda x: 0.5 * x * (1 + torch.erf(x)),
        ),
        "half-not-root": Variant(
            "The argument of erf is x divided by the root of 2, not by 2.",
            lambda x: 0.5 * x * (1 + torch.erf(x / 2)),
        ),
        "two-for-root": Variant(
            "The argument of erf is x divided by √2; yours is x times √2.",
            lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(2))),
        ),
        "root-outside": Variant(
            "You divide erf(x) by √2. In the formula it is x that is divided, before erf is taken.",
            lambda x: 0.5 * x * (1 + torch.erf(x) / math.sqrt(2)),
        ),
        "share-above": Variant(
            "You multiply x by the share that lies above x, 1 − Φ(x). Meant is the share below.",
            lambda x: x * torch.special.ndtr(-x),
        ),
        "bracket": Variant(
            "erf is added to x / 2 instead of to the 1: a bracket is missing. x multiplies all of "
            "(1 + erf).",
            lambda x: 0.5 * x + torch.erf(x / math.sqrt(2)),
        ),
        "negative-dropped": Variant(
            "Negative numbers all become 0 in yours, as with the ReLU. GELU lets a little of them "
            "through: that is what gives such units a slope.",
            lambda x: F.gelu(x.clamp(min=0)),
        ),
        "not-halved": Variant(
            "1 + erf runs from 0 to 2. Halve it.",
            lambda x: x * (1 + torch.erf(x / math.sqrt(2))),
        ),
        "no-one": Variant(
            "The 1 is missing: your share runs from −1/2 to 1/2, and negative sums come out "
            "positive.",
            lambda x: 0.5 * x * torch.erf(x / math.sqrt(2)),
        ),
    },
)


# --- gated_feed_forward ---------------------------------------------------------------------


def _gated_case(kind, seed):
    batch, tokens, d, d_ff = _sizes(kind["sizes"], seed)
    x, gate, up, down = randn(seed, (batch, tokens, d), (d, d_ff), (d, d_ff), (d_ff, d))
    if kind["numbers"] == "all gates closed":
        x, gate = 30 * x.abs() + 10, -gate.abs() - 1
    return Case((_tokens(kind["numbers"], x), gate, up, down, kind["activation"]))


def gated_feed_forward(x, w_gate, w_up, w_down, activation):
    """(activation(x w_gate) · (x w_up)) w_down."""
    return (ACTIVATIONS[activation](x @ w_gate) * (x @ w_up)) @ w_down


def _gated(join, activate=None):
    def answer(x, w_gate, w_up, w_down, activation):
        act = activate or ACTIVATIONS[activation]
        return join(act, x @ w_gate, x @ w_up) @ w_down

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
    witness=gated_feed_forward,
    reference=gated_feed_forward,
    axes=("batch", "tokens", "d_model"),
    tolerance=2e-5,
    hints=(
        "Two products of x side by side, both d_ff wide. One of the two goes through the "
        "activation: which, by its name?",
        "The two meet number by number, with `*`. Then back to d_model.",
        "The gate is what is activated; what it lets through, `up`, stays as it is.",
    ),
    variants={
        "wrong-branch": Variant(
            "You activate `up` and leave the gate bare. From scratch nobody would notice; loaded "
            "weights would be wrong.",
            _gated(lambda act, g, u: g * act(u)),
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
            lambda x, w_gate, w_up, w_down, activation: gated_feed_forward(
                x, w_gate, w_up, w_down, activation.removesuffix("_tanh")
            ),
        ),
        "down-too-early": Variant(
            "You multiply after `w_down`, in d_model numbers. The gate and `up` meet while they "
            "are d_ff wide; then `w_down` takes them back.",
            lambda x, w_gate, w_up, w_down, activation: (
                (ACTIVATIONS[activation](x @ w_gate) @ w_down) * (x @ w_up @ w_down)
            ),
        ),
        "sigmoid": Variant(
            "Your gate is a sigmoid, the GLU of 2016. Use the activation that is asked for.",
            _gated(lambda act, g, u: act(g) * u, torch.sigmoid),
        ),
        "activation-last": Variant(
            "The activation stands at the end, after `w_down`. It belongs to the gate.",
            lambda x, w_gate, w_up, w_down, activation: ACTIVATIONS[activation](
                ((x @ w_gate) * (x @ w_up)) @ w_down
            ),
        ),
        "activation-first": Variant(
            "You activate x itself, before `w_gate`. What goes through the activation is x w_gate.",
            lambda x, w_gate, w_up, w_down, activation: (
                ((ACTIVATIONS[activation](x) @ w_gate) * (x @ w_up)) @ w_down
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
            "`w_up` is never used: that is the plain MLP with the gate's matrix.",
            _gated(lambda act, g, u: act(g)),
        ),
        "no-gate": Variant(
            "`w_gate` is never used: that is the plain MLP.",
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


# --- find the bug ---------------------------------------------------------------------------


def gelu_tanh(x):
    """PyTorch's own approximation."""
    return F.gelu(x, approximate="tanh")


def _tanh(inner, outer=lambda x, t: 0.5 * x * (1 + t)):
    return lambda x: outer(x, torch.tanh(inner(x)))


_ROOT = math.sqrt(2 / math.pi)


def _constant_cubed(cases, values, expected):
    """0.044715 to the third is nearly nothing, but not quite."""
    x = torch.cat([case.args[0].flatten() for case in cases])
    given = torch.cat([value.flatten() for value in values]).to(x)
    if torch.allclose(given, _tanh(lambda x: _ROOT * (x + (0.044715 * x) ** 3))(x), atol=1e-6):
        return Finding(
            "cube-of-the-constant-too",
            "The cube is taken of 0.044715 as well. In the formula it belongs to the last x only.",
        )
    return None


BUG = Exercise(
    name="gelu_tanh",
    lesson=LESSON,
    title="find the bug: a bracket",
    domain=CURVE,
    forbids=("gelu", "gelu_"),
    special=_one_number_alone,
    witness=gelu_tanh,
    reference=gelu_tanh,
    properties=(_constant_cubed,),
    axes=(),
    tolerance=1e-6,
    smallest=1,
    hints=(
        "Near 0 it agrees with the formula, for larger x it does not. Which part of the argument "
        "grows fastest?",
        "Compare what √(2/π) multiplies in the formula and in the code.",
        "In the formula it stands before a bracket.",
    ),
    variants={
        "as given": Variant(
            "The bug is still in. Near zero it agrees with the formula; at x = 2 it does not.",
            _tanh(lambda x: _ROOT * x + 0.044715 * x**3),
            to_do=True,
        ),
        "exact": Variant(
            "That is the exact GELU, by erf. It is right to prefer it, but GPT-2's weights were "
            "trained with the approximation, and here you are asked to fix that.",
            F.gelu,
        ),
        "squared": Variant(
            "There is a square now where the cube was. A square has no sign: negative x would no "
            "longer mirror positive ones.",
            _tanh(lambda x: _ROOT * (x + 0.044715 * x**2)),
        ),
        "cube-without-sign": Variant(
            "The cube has lost its sign: below 0 it should be negative, like x.",
            _tanh(lambda x: _ROOT * (x + 0.044715 * x.abs() ** 3)),
        ),
        "no-root": Variant(
            "The bracket is right now, but 2/π has lost its root.",
            _tanh(lambda x: 2 / math.pi * (x + 0.044715 * x**3)),
        ),
        "root-of-two-only": Variant(
            "The root is taken of the 2 alone: √2 / π. It belongs to all of 2 / π.",
            _tanh(lambda x: math.sqrt(2) / math.pi * (x + 0.044715 * x**3)),
        ),
        "root-of-pi-only": Variant(
            "The root is taken of π alone: 2 / √π. It belongs to all of 2 / π.",
            _tanh(lambda x: 2 / math.sqrt(math.pi) * (x + 0.044715 * x**3)),
        ),
        "no-one": Variant(
            "The bracket is right now, but the 1 in front of the tanh is gone.",
            _tanh(lambda x: _ROOT * (x + 0.044715 * x**3), lambda x, t: 0.5 * x * t),
        ),
        "one-outside": Variant(
            "The tanh is added to x / 2 instead of to the 1: a bracket is missing. x multiplies "
            "all of (1 + tanh).",
            _tanh(lambda x: _ROOT * (x + 0.044715 * x**3), lambda x, t: 0.5 * x + t),
        ),
        "sigmoid-for-tanh": Variant(
            "There is a sigmoid where the tanh was. (1 + tanh z) / 2 is the sigmoid of 2 z, not "
            "of z.",
            lambda x: x * torch.sigmoid(_ROOT * (x + 0.044715 * x**3)),
        ),
        "minus": Variant(
            "The bracket is right now, but the cube is subtracted.",
            _tanh(lambda x: _ROOT * (x - 0.044715 * x**3)),
        ),
        "factored-x": Variant(
            "x times (1 + 0.044715 x³) has a fourth power in it; x · (1 + 0.044715 x²) would be "
            "the cube.",
            _tanh(lambda x: _ROOT * x * (1 + 0.044715 * x**3)),
        ),
        "cube-of-the-sum": Variant(
            "The cube is taken of the whole bracket. In the formula it belongs to the last x only.",
            _tanh(lambda x: _ROOT * (x + 0.044715 * x) ** 3),
        ),
        "cube-of-the-argument": Variant(
            "The cube is taken of all that goes into the tanh. In the formula it belongs to the "
            "last x only.",
            _tanh(lambda x: (_ROOT * (x + 0.044715 * x)) ** 3),
        ),
        "cube-outside": Variant(
            "The x³ multiplies the whole bracket. In the formula it belongs to 0.044715 only.",
            _tanh(lambda x: _ROOT * (x + 0.044715) * x**3),
        ),
        "cube-of-the-tanh": Variant(
            "The cube is taken of the tanh. In the formula it stands inside, at the last x.",
            lambda x: 0.5 * x * (1 + torch.tanh(_ROOT * (x + 0.044715 * x)) ** 3),
        ),
        "cube-dropped": Variant(
            "The cube is gone. tanh(√(2/π) x) alone is a coarser approximation.",
            _tanh(lambda x: _ROOT * x),
        ),
        "not-halved": Variant(
            "The bracket is right now, but the 0.5 in front is gone.",
            _tanh(lambda x: _ROOT * (x + 0.044715 * x**3), lambda x, t: x * (1 + t)),
        ),
        "root-on-cube": Variant(
            "Now √(2/π) multiplies the cube alone, and should multiply x too.",
            _tanh(lambda x: x + _ROOT * 0.044715 * x**3),
        ),
    },
)

EXERCISES = [PLAIN, GELU, GATED, EDIT, WITHOUT, BUG]
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
                "an MLP that trains more slowly",
                "It is not slow, it is poor: no training can make it anything but linear.",
            ),
            Option(
                "the same, since attention has a softmax",
                "The softmax decides which tokens are heard. What a token makes of what it heard "
                "stays linear.",
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
