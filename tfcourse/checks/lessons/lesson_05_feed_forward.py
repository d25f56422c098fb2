"""Lesson 05: where a token thinks by itself."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tfcourse.checks.exercise import Case, Exercise, Finding, Twin, Variant, randn
from tfcourse.checks.quiz import Item, Option
from tfcourse.feed_forward import ACTIVATIONS

LESSON = "05_feed_forward"


# --- position_wise --------------------------------------------------------------------------


def _plain_cases() -> list[Case]:
    cases = []
    for seed, batch, tokens, d, d_ff in ((0, 2, 5, 4, 9), (1, 3, 4, 6, 7), (2, 1, 3, 5, 5)):
        x, w1, b1, w2, b2 = randn(seed, (batch, tokens, d), (d, d_ff), (d_ff,), (d_ff, d), (d,))
        cases.append(Case((x, w1, b1, w2, b2), gradients=seed == 0))
    x, *weights = cases[0].args
    cases.append(Case((20 * x, *weights), note="large numbers"))
    alone = Case(
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
    return [*cases, alone]


def _plain(first=lambda x, w, b: x @ w + b, between=torch.relu, last=lambda h, w, b: h @ w + b):
    return lambda x, w1, b1, w2, b2: last(between(first(x, w1, b1)), w2, b2)


def position_wise(x, w1, b1, w2, b2):
    """relu(x w1 + b1) w2 + b2."""
    return F.linear(F.relu(F.linear(x, w1.T, b1)), w2.T, b2)


PLAIN = Exercise(
    name="position_wise",
    lesson=LESSON,
    title="the feed-forward network",
    cases=_plain_cases,
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
        "residual": Variant(
            "You added x itself. That is the block's business (lesson 06); here it is only the "
            "network.",
            lambda x, *weights: x + position_wise(x, *weights),
        ),
        "softmax": Variant(
            "There is a softmax between. It would let the units compete; each unit fires by "
            "itself.",
            _plain(between=lambda h: torch.softmax(h, -1)),
        ),
    },
)


# --- gelu -----------------------------------------------------------------------------------


def _curve_cases() -> list[Case]:
    (x,) = randn(0, (3, 7))
    return [
        Case((torch.linspace(-4, 4, 33),), gradients=True, note="from -4 to 4"),
        Case((2 * x,)),
        Case((torch.tensor(0.5),), note="one number, 0.5"),
        Case((torch.tensor([[[-100.0, -30, -10], [10, 30, 100]]]),), note="far out"),
    ]


def gelu(x):
    """PyTorch's own."""
    return F.gelu(x)


GELU = Exercise(
    name="gelu",
    lesson=LESSON,
    title="GELU",
    cases=_curve_cases,
    witness=gelu,
    reference=gelu,
    axes=(),
    tolerance=1e-6,
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
        "bracket": Variant(
            "erf is added to x / 2 instead of to the 1: a bracket is missing. x multiplies all of "
            "(1 + erf).",
            lambda x: 0.5 * x + torch.erf(x / math.sqrt(2)),
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


def _gated_cases() -> list[Case]:
    cases = []
    for seed, batch, tokens, d, d_ff, name in (
        (0, 2, 5, 4, 9, "silu"),
        (1, 3, 4, 6, 7, "gelu"),
        (2, 1, 3, 5, 5, "silu"),
    ):
        x, gate, up, down = randn(seed, (batch, tokens, d), (d, d_ff), (d, d_ff), (d_ff, d))
        cases.append(Case((x, gate, up, down, name), gradients=True))
    x, *weights, name = cases[0].args
    return [*cases, Case((100 * x, *weights, name), note="large numbers")]


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
    cases=_gated_cases,
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
        "sigmoid": Variant(
            "Your gate is a sigmoid, the GLU of 2016. Use the activation that is asked for.",
            _gated(lambda act, g, u: act(g) * u, torch.sigmoid),
        ),
        "added": Variant(
            "You add the two. A gate multiplies: where it is 0, nothing passes.",
            _gated(lambda act, g, u: act(g) + u),
        ),
        "no-activation": Variant(
            "There is no activation: the two are only multiplied.",
            _gated(lambda act, g, u: g * u),
        ),
        "no-up": Variant(
            "`w_up` is never used: that is the plain network with the gate's matrix.",
            _gated(lambda act, g, u: act(g)),
        ),
        "no-gate": Variant(
            "`w_gate` is never used: that is the plain network.",
            _gated(lambda act, g, u: act(u)),
        ),
    },
)


# --- edit_one_value (graded) ----------------------------------------------------------------


def _edit_cases() -> list[Case]:
    cases = []
    for seed, d, d_ff in ((0, 4, 7), (1, 6, 5), (2, 3, 9)):
        w, hidden, delta = randn(seed, (d, d_ff), (d_ff,), (d,))
        hidden = hidden.relu() + 0.1 * (hidden > 1)
        cases.append(Case((w, hidden, delta), expected=_edited(w, hidden, delta)))
    return cases


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
        touched = ((new - w).abs() > 1e-6).any(0).nonzero().flatten().tolist()
        unit = int(hidden.argmax())
        if len(touched) == 1 and touched != [unit]:
            return Finding(
                "other-unit",
                f"You changed the value of unit {touched[0]}, which fires by "
                f"{hidden[touched[0]]:.2f}; unit {unit} fires most, by {hidden[unit]:.2f}.",
            )
        moved = F.linear(hidden, new) - F.linear(hidden, w)
        if not torch.allclose(moved, delta, atol=1e-4):
            return Finding(
                "effect",
                f"With your matrix the output moves by {_list(moved)}; it should move by "
                f"{_list(delta)}.",
            )
        if len(touched) != 1:
            return Finding(
                "columns",
                f"The output moves as it should, but {len(touched)} columns changed. One value "
                "is to be edited, that of the unit that fires most.",
            )
    return None


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
    cases=_edit_cases,
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


# --- find the bug ---------------------------------------------------------------------------


def gelu_tanh(x):
    """PyTorch's own approximation."""
    return F.gelu(x, approximate="tanh")


def _tanh(inner, outer=lambda x, t: 0.5 * x * (1 + t)):
    return lambda x: outer(x, torch.tanh(inner(x)))


_ROOT = math.sqrt(2 / math.pi)

BUG = Exercise(
    name="gelu_tanh",
    lesson=LESSON,
    title="find the bug: a bracket",
    cases=_curve_cases,
    witness=gelu_tanh,
    reference=gelu_tanh,
    axes=(),
    tolerance=1e-6,
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
            "trained with the approximation, and here you are to mend that.",
            F.gelu,
        ),
        "squared": Variant(
            "There is a square now where the cube was. A square has no sign: negative x would no "
            "longer mirror positive ones.",
            _tanh(lambda x: _ROOT * (x + 0.044715 * x**2)),
        ),
        "no-root": Variant(
            "The bracket is right now, but 2/π has lost its root.",
            _tanh(lambda x: 2 / math.pi * (x + 0.044715 * x**3)),
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

EXERCISES = [PLAIN, GELU, GATED, EDIT, BUG]
QUESTIONS = [
    Item(
        "05-alone",
        LESSON,
        "The fifth token changes. Which rows of the feed-forward network's output change?",
        (
            Option("all of them", "That would be attention. Here nobody looks at the neighbour."),
            Option("the fifth and those after it", "There is no order in it, and no neighbours."),
            Option(
                "the fifth alone",
                "Yes: the same small network, once for each token.",
                right=True,
            ),
        ),
    ),
    Item(
        "05-dead",
        LESSON,
        "Trained at a learning rate that is much too high, which network will have more dead "
        "units?",
        (
            Option(
                "the one with ReLU: more than twice as many",
                "That is what one expects. Look at the four lines below before you believe it.",
            ),
            Option(
                "both lose nearly all",
                "So it was here. A GELU's slope is not exactly zero far out, but next to nothing.",
                right=True,
            ),
            Option("neither: the norms prevent it", "There is no norm in this small network."),
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
                "The other way round. Attention has four matrices of d × d; what has the "
                "feed-forward network?",
            ),
            Option(
                "one third",
                "Yes: 4d² of 12d². The network has two matrices of d × 4d, which is 8d².",
                right=True,
            ),
            Option("one half", "4d² against 8d²."),
        ),
    ),
    Item(
        "05-quiz-linear",
        LESSON,
        "You take the activation out of a network with d_ff = 4 · d_model. What is left?",
        (
            Option(
                "a single matrix of d_model × d_model, written in a dear way",
                "Yes: x (W₁W₂). A product of matrices is a matrix, however wide it is between.",
                right=True,
            ),
            Option(
                "a network that trains more slowly",
                "It is not slow, it is poor: no training can make it anything but linear.",
            ),
            Option(
                "the same, since attention has a softmax",
                "The softmax decides who is heard. What a token makes of what it heard stays "
                "linear.",
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
                "They did, in the table: at a learning rate too high, as many as ReLU's.",
            ),
            Option(
                "GELU is cheaper to compute",
                "ReLU is a comparison; GELU needs an erf or a tanh.",
            ),
            Option(
                "it is smooth and gives small negative sums a gradient; a gain was not to be seen",
                "Yes, in this small model: look at the two in the table of losses. It is the gate "
                "that helped.",
                right=True,
            ),
        ),
    ),
    Item(
        "05-quiz-width",
        LESSON,
        "A plain network has d_ff = 6144. How wide is a SwiGLU with as many parameters?",
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
