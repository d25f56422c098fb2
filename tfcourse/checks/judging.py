"""From outputs to a verdict that names the mistake.

What is wrong is looked for in the order in which it helps most: the answer raised; it is a known
wrong one; a type; a shape; NaN; a property; then the first index that differs. A known wrong answer
has to match in every case, so it comes before what it breaks: "the softmax goes over the queries"
says more than "the rows do not sum to one".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tfcourse.checks.exercise import Case, Exercise, Finding, Output, Variant
from tfcourse.checks.running import IN_PLACE, collect


@dataclass(frozen=True)
class Verdict:
    """What the judge says. `yours` and `expected` are there when a picture would help."""

    exercise: Exercise
    state: str  # "right", "wrong" or "to do"
    diagnosis: str  # a short id, for the tests and the progress store
    message: str
    yours: Any = None
    expected: Any = None

    @property
    def right(self) -> bool:
        return self.state == "right"


def judge(exercise: Exercise, outputs: Sequence[Output]) -> Verdict:
    """Judge the outputs of an answer to `exercise`, one a case, in the order of its cases."""
    cases = exercise.cases()
    if len(outputs) != len(cases):
        raise ValueError(
            f"outputs: expected one for each of {len(cases)} cases, got {len(outputs)}"
        )

    def wrong(diagnosis, message, yours=None, expected=None):
        return Verdict(exercise, "wrong", diagnosis, message, yours, expected)

    early = _before_any_value(exercise, cases, outputs)
    if early:
        return early

    expected_outputs = right_outputs(exercise, cases)
    expected = [o.value for o in expected_outputs]
    values = [o.value for o in outputs]

    equal = [
        case.random or same(v, e, exercise.tolerance)
        for case, v, e in zip(cases, values, expected, strict=True)
    ]
    if all(equal):
        finding = _of_random_cases(exercise, cases, values, expected) or _beyond_values(
            exercise, cases, outputs, expected_outputs
        )
        if finding:
            return wrong(finding.diagnosis, finding.message)
        return Verdict(exercise, "right", "right", _praise(exercise, cases))

    known = [
        (name, variant, variant_values(variant, cases, expected))
        for name, variant in exercise.variants.items()
    ]
    for view in (lambda v: v, _without_nan):
        for name, variant, given in known:
            triples = zip(cases, values, given, strict=True)
            if all(c.random or same(view(v), view(g), exercise.tolerance) for c, v, g in triples):
                i = equal.index(False)
                state = "to do" if variant.to_do else "wrong"
                return Verdict(exercise, state, name, variant.says, values[i], expected[i])

    for case, value, right in zip(cases, values, expected, strict=True):
        finding = _form_finding(exercise, case, value, right)
        if finding:
            return wrong(finding.diagnosis, finding.message)

    for finding in _properties(exercise, cases, values, expected):
        i = equal.index(False)
        return wrong(finding.diagnosis, finding.message, values[i], expected[i])

    i = equal.index(False)
    said = _first_difference(exercise, cases, values, expected, equal)
    return wrong("differs", said, values[i], expected[i])


def _form_finding(exercise, case, value, right) -> Finding | None:
    """Type, shape, NaN: what is wrong whatever the numbers are."""
    finding = (
        _type_finding(value, right)
        or _shape_finding(exercise, value, right)
        or _nan_finding(case, value, right)
    )
    if finding is None:
        return None
    said = f"{finding.message} That was for {exercise.describe(case)}."
    return Finding(finding.diagnosis, said)


def _of_random_cases(exercise, cases, values, expected) -> Finding | None:
    """The rest is right. Are the random ones of the right form, and do the properties hold?"""
    if not any(case.random for case in cases):
        return None
    for case, value, right in zip(cases, values, expected, strict=True):
        finding = _form_finding(exercise, case, value, right)
        if finding:
            return finding
    return next(_properties(exercise, cases, values, expected), None)


def right_outputs(exercise: Exercise, cases: list[Case]) -> list[Output]:
    """What is right: the case's own `expected`, else what the witness gives."""
    given = collect(exercise.witness, [c.inputs() for c in cases])
    outputs = []
    for case, output in zip(cases, given, strict=True):
        if case.expected is not None:
            output = Output(value=case.expected)
        elif output.error:
            raise AssertionError(f"{exercise.name}: the witness raised {output.error}")
        outputs.append(output)
    return outputs


def variant_values(variant: Variant, cases: list[Case], expected: list) -> list:
    """What a known wrong answer gives for every case."""
    if variant.spoil:
        return [variant.spoil(c, e) for c, e in zip(cases, expected, strict=True)]
    return [o.value for o in collect(variant.answer, [c.inputs() for c in cases])]


def same(a, b, tolerance: float) -> bool:
    """Equal in structure, shape and (within tolerance) in every number; NaN equals NaN."""
    if isinstance(b, torch.Tensor):
        if not isinstance(a, torch.Tensor) or a.shape != b.shape:
            return False
        if b.dtype == torch.bool or a.dtype == torch.bool:
            return a.dtype == b.dtype and torch.equal(a, b)
        if a.is_complex() != b.is_complex():
            return False
        a, b = a.double(), b.double()
        return torch.allclose(a, b, rtol=0, atol=tolerance * _size(b), equal_nan=True)
    if isinstance(b, (tuple, list)):
        return (
            isinstance(a, (tuple, list))
            and len(a) == len(b)
            and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
        )
    if isinstance(b, dict):
        return (
            isinstance(a, dict)
            and a.keys() == b.keys()
            and all(same(a[k], b[k], tolerance) for k in b)
        )
    if isinstance(b, float):
        return isinstance(a, (int, float)) and abs(a - b) <= tolerance * max(1.0, abs(b))
    return type(a) is type(b) and a == b


def _size(right: torch.Tensor) -> float:
    """How large the numbers are that a difference is measured by; at least 1."""
    finite = right[right.isfinite()]
    return max(1.0, finite.abs().max().item() if finite.numel() else 0.0)


def _without_nan(value):
    """NaN as 0: known wrong answers are told even where they divide nothing by nothing."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return torch.where(value.isnan(), torch.zeros_like(value), value)
    if isinstance(value, (tuple, list)):
        return type(value)(_without_nan(v) for v in value)
    return value


def _before_any_value(exercise, cases, outputs) -> Verdict | None:
    """Verdicts that need no value: it is not theirs, it is not written yet, it raised."""
    if outputs[0].kind == "library":
        return Verdict(
            exercise,
            "to do",
            "library",
            f"This {exercise.name} belongs to a library, it is not the one you wrote. If you "
            "have just changed your cell, run it, then this one. If you took a ready-made one: "
            "here the writing is the learning.",
        )
    raised = [(c, o) for c, o in zip(cases, outputs, strict=True) if o.error]
    if not raised:
        return None
    case, output = raised[0]
    error = output.error
    if error["type"] == "NotImplementedError":
        return Verdict(exercise, "to do", "to do", "To do: your code is still missing.")
    if error["type"] == "Crash":
        return Verdict(exercise, "wrong", "crashed", f"Your code {error['message']}.")
    where = f"Line {error['line']}, `{error['code']}`: " if error["code"] else ""
    some = ""
    if len(raised) < len(cases) and output is not outputs[0]:
        worked = exercise.describe(cases[0])
        some = f" It did run for {worked}: what in your code holds for that case only?"
    said = (
        f"Your code raised an error. {where}{error['type']}: {error['message'].strip()} "
        f"That was for {exercise.describe(case)}.{some}"
    )
    return Verdict(exercise, "wrong", "raised", said)


def _type_finding(value, right) -> Finding | None:
    if value is None and right is not None:
        return Finding("returned-none", "Your code gave None. Does every path end in a return?")
    if isinstance(value, dict) and "not plain" in value:
        return Finding(
            "type", f"Your code gave a {value['not plain']}; a {_kind(right)} is expected."
        )
    if isinstance(right, torch.Tensor) and isinstance(value, torch.Tensor):
        kinds = [(t.dtype == torch.bool, t.is_complex()) for t in (right, value)]
        if kinds[0] != kinds[1]:
            return Finding(
                "dtype", f"Your code gave a tensor of {value.dtype}; {right.dtype} is expected."
            )
        return None
    if type(right) is int and type(value) is float:
        return Finding(
            "type",
            f"Your code gave {value!r}; a whole number is expected. `//` divides whole numbers "
            "without leaving them.",
        )
    number = isinstance(right, (int, float)) and isinstance(value, (int, float))
    sequence = isinstance(right, (tuple, list)) and isinstance(value, (tuple, list))
    if sequence and len(right) != len(value):
        return Finding("type", f"Your code gave {len(value)} things; {len(right)} are expected.")
    if sequence:
        for v, r in zip(value, right, strict=True):
            finding = _type_finding(v, r)
            if finding:
                return finding
        return None
    if number or type(value) is type(right):
        return None
    return Finding("type", f"Your code gave a {_kind(value)}; a {_kind(right)} is expected.")


def _kind(value) -> str:
    if isinstance(value, tuple):
        return f"tuple of {len(value)}"
    words = {torch.Tensor: "tensor", type(None): "None", int: "whole number", float: "number"}
    return words.get(type(value), type(value).__name__)


def _tensors(value, right) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """Pairs of tensors to compare, each with a name for it in a sentence."""
    if isinstance(right, torch.Tensor):
        return [("the result", value, right)]
    if isinstance(right, (tuple, list)):
        pairs = []
        for i, (v, r) in enumerate(zip(value, right, strict=True)):
            found = _tensors(v, r)
            pairs += [(f"part {i + 1} of the result", a, b) for _, a, b in found]
        return pairs
    return []


def _shape_finding(exercise, value, right) -> Finding | None:
    for what, yours, expected in _tensors(value, right):
        if yours.shape == expected.shape:
            continue
        mine, want = tuple(yours.shape), tuple(expected.shape)
        said = f"The shape of {what} is {mine}; {want} is expected."
        if len(mine) != len(want):
            said += f" It has {len(mine)} axes instead of {len(want)}."
        elif sorted(mine) == sorted(want):
            said += " The sizes are there, in another order: which axis stands where?"
        else:
            i = next(i for i in range(len(want)) if mine[i] != want[i])
            axis = exercise.axes[i] if len(exercise.axes) == len(want) else f"number {i}"
            said += f" The axis '{axis}' is {mine[i]} long and should be {want[i]}."
        return Finding("shape", said)
    return None


def _nan_finding(case, value, right) -> Finding | None:
    for what, yours, expected in _tensors(value, right):
        if not yours.is_floating_point():
            continue
        bad = yours.isnan() & ~expected.isnan()
        if bad.any() and case.nan:
            return Finding(*case.nan)
        if bad.any():
            at = tuple(bad.nonzero()[0].tolist())
            return Finding(
                "nan",
                f"There is NaN in {what}, {int(bad.sum())} times, first at {list(at)}. NaN comes "
                "from 0/0, from inf − inf, from 0·inf, and from the root or the logarithm of a "
                "negative number: which of them is it here?",
            )
    return None


def _properties(exercise, cases, values, expected):
    """Every property that does not hold, the exercise's own first, then those of twin cases."""
    for holds in exercise.properties:
        finding = holds(cases, values, expected)
        if finding:
            yield finding
    for case, value in zip(cases, values, strict=True):
        if case.twin:
            pair = case.twin.same(values[case.twin.of], value)
            if not same(*pair, exercise.tolerance):
                yield Finding(case.twin.diagnosis, case.twin.message)


def _beyond_values(exercise, cases, outputs, expected_outputs) -> Finding | None:
    """The values are right. Are the inputs untouched, and does the gradient flow?"""
    for case, output, right in zip(cases, outputs, expected_outputs, strict=True):
        if output.changed:
            first = output.changed[0]
            name = exercise.arguments[first] if isinstance(first, int) else first
            return Finding(
                "changes-input",
                f"The values are right, but your code changes `{name}` itself. Whoever called "
                "it still needs it: work on a new tensor (no `_` methods, no writing into it).",
            )
        if right.gradients is None:
            continue
        if output.gradients == IN_PLACE:
            return Finding(
                "in-place",
                "The values are right, but something is written into a tensor that the gradient "
                "still needs (`+=`, `[…] =`, a method that ends in `_`). Make a new tensor "
                "instead, or it cannot be trained.",
            )
        if output.gradients is None or any(
            g is None and r is not None
            for g, r in zip(output.gradients, right.gradients, strict=True)
        ):
            return Finding(
                "no-gradient",
                "The values are right, but no gradient flows back to the inputs, so it could not "
                "be trained. Somewhere a tensor leaves the graph: .detach(), .item(), .tolist(), "
                "torch.tensor(…), numpy or no_grad.",
            )
        if case.random:
            continue  # there is one, and it is as random as the value
        for g, r in zip(output.gradients, right.gradients, strict=True):
            if r is not None and not same(g, r, 10 * exercise.tolerance):
                at = exercise.describe(case)
                return Finding(
                    "gradient", f"The values are right, their gradient is not. That was for {at}."
                )
    return None


def _first_difference(exercise, cases, values, expected, equal) -> str:
    i = equal.index(False)
    some = ""
    if any(equal):
        good = exercise.describe(cases[equal.index(True)])
        some = f" Right for {good}: what is special about that case?"
    said = f"Not yet. For {exercise.describe(cases[i])}: "
    for what, yours, right in _tensors(values[i], expected[i]):
        if same(yours, right, exercise.tolerance):
            continue
        a, b = yours.double(), right.double()
        apart = torch.where(a == b, 0.0, (a - b).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)
        differs = apart > exercise.tolerance * _size(b)
        at = differs.nonzero()[0].tolist()
        return said + (
            f"{what} first differs at {at}: yours {_number(yours[tuple(at)])}, expected "
            f"{_number(right[tuple(at)])}. {int(differs.sum())} of {differs.numel()} numbers "
            f"differ, by at most {apart.max().item():.3g}.{some}"
        )
    return said + f"yours {values[i]!r}, expected {expected[i]!r}.{some}"


def _number(value: torch.Tensor) -> str:
    value = value.item()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _praise(exercise, cases) -> str:
    gradients = ", and so are the gradients" if any(c.gradients for c in cases) else ""
    return f"Right, in all {len(cases)} cases{gradients}."
