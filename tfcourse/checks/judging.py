"""From outputs to a verdict that names the mistake.

What is wrong is looked for in the order in which it helps most: the answer raised; it calls what it
should be; it is a known wrong one; a type; a shape; NaN; a property; then the first index that
differs. A known wrong answer has to match in every case that is not at the edge of the domain, so
it comes before what it breaks: "the softmax goes over the queries" says more than "the rows do not
sum to one".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from tfcourse.checks.exercise import Case, Exercise, Finding, Output, Variant
from tfcourse.checks.running import IN_PLACE, collect

HALF = (torch.float16, torch.bfloat16)  # here the type itself is judged, and rounding is coarse


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


@dataclass(frozen=True)
class Compared:
    """The cases in which the answer gave something, beside what is right there."""

    exercise: Exercise
    cases: list[Case]
    values: list
    expected: list
    equal: list[bool]
    variants: Callable[[str], list]  # the id of a known wrong answer -> what it gives here

    @property
    def worst(self) -> int:
        """The first case that is not right, one that is not at the edge if there is any."""
        wrong = [i for i, equal in enumerate(self.equal) if not equal]
        return next((i for i in wrong if not self.cases[i].edge), wrong[0])

    def contrast(self) -> str:
        """A sentence on a case that is right, where there is one to learn from.

        If hardly any case is right, those that are will be so by chance, or because any answer
        would be: what they have in common would lead astray.
        """
        plain = [i for i, case in enumerate(self.cases) if not (case.edge or case.random)]
        right = [self.cases[i] for i in plain if self.equal[i]]
        if not right or len(right) < len(plain) / 4:
            return ""
        return f" Right for {self.exercise.describe(right[0])}: what is the difference?"


def judge(exercise: Exercise, outputs: Sequence[Output], cases: list[Case] | None = None):
    """The verdict on the outputs of an answer, one for each case, in the order of the cases.

    Raises:
        ValueError: there are not as many outputs as cases.
    """
    cases = exercise.cases() if cases is None else cases
    if len(outputs) != len(cases):
        raise ValueError(
            f"outputs: expected one for each of {len(cases)} cases, got {len(outputs)}"
        )
    early = _before_any_value(exercise, cases, outputs)
    if early:
        return early
    rights = right_outputs(exercise, cases)
    ran = [i for i, output in enumerate(outputs) if not output.error]
    compared = Compared(
        exercise,
        cases if len(ran) == len(cases) else [cases[i] for i in ran],
        [outputs[i].value for i in ran],
        [rights[i].value for i in ran],
        [cases[i].random or alike_for(exercise, outputs[i].value, rights[i].value) for i in ran],
        lambda name: [variant_values(exercise, name, cases)[i] for i in ran],
    )
    # An error in a late case must not hide a mistake in an early one.
    if not all(compared.equal) and 0 in ran:
        verdict = _of_wrong_values(compared)
        changed = next((o.changed for o in outputs if o.changed), ())
        if changed and verdict.state == "wrong":
            name = _name_of_changed(exercise, changed)
            said = f"{verdict.message} (And your code changes `{name}` itself: is that it?)"
            return replace(verdict, message=said)
        return verdict
    if len(ran) < len(outputs):
        known = _of_a_known_error(exercise, cases, outputs)
        return known or _of_an_error(exercise, cases, outputs)
    finding = _of_random_cases(compared) or _beyond_values(exercise, cases, outputs, rights)
    if finding:
        return Verdict(exercise, "wrong", finding.diagnosis, finding.message)
    return Verdict(exercise, "right", "right", _praise(exercise, cases))


def _of_wrong_values(compared: Compared) -> Verdict:
    """Something is not right. What is it?"""
    exercise, cases = compared.exercise, compared.cases
    for case, value in zip(cases, compared.values, strict=True):
        repeats = case.twin and case.twin.diagnosis == "random"
        if repeats and not alike_for(exercise, compared.values[0], value):
            return _wrong(compared, Finding("random", case.twin.message))
    form = None
    known = _known(compared)
    if not known:
        form = _form(compared)
        known = _known_besides_nan(compared) if form and form.diagnosis == "nan" else None
    if known:
        name, variant = known
        i = compared.worst
        state = "to do" if variant.to_do else "wrong"
        return Verdict(
            exercise, state, name, variant.says, compared.values[i], compared.expected[i]
        )
    if form:
        return Verdict(exercise, "wrong", form.diagnosis, form.message)
    for finding in _properties(compared):
        return _wrong(compared, finding)
    return _wrong(compared, Finding("differs", _first_difference(compared)))


def _wrong(compared: Compared, finding: Finding) -> Verdict:
    i = compared.worst
    return Verdict(
        compared.exercise,
        "wrong",
        finding.diagnosis,
        finding.message,
        compared.values[i],
        compared.expected[i],
    )


def _known(compared: Compared) -> tuple[str, Variant] | None:
    """The known wrong answer that gives the same wherever it must; the one that is alike most.

    NaN counts as 0 here: known wrong answers are told even where they divide nothing by nothing.
    """
    exercise, cases = compared.exercise, compared.cases
    found: dict[str, int] = {}
    for name in exercise.variants:
        given = compared.variants(name)
        triples = list(zip(cases, compared.values, given, compared.expected, strict=True))

        def alike(value, other):  # loosely: two wrong ones may round differently
            return same(_without_nan(value), _without_nan(other), exercise.tolerance)

        plain = [t for t in triples if not t[0].edge and not t[0].random]
        shows = any(not alike_for(exercise, g, e) for _, _, g, e in plain)
        where = plain if shows else [t for t in triples if not t[0].random]
        if all(alike(value, other) for _, value, other, _ in where):
            exact = [alike_for(exercise, v, g) for c, v, g, _ in triples if not c.random]
            found[name] = sum(exact)
    if not found:
        return None
    best = max(found, key=found.get)
    return best, exercise.variants[best]


def _known_besides_nan(compared: Compared) -> tuple[str, Variant] | None:
    """The known wrong answer in the cases without NaN, where some of those are wrong as well."""
    pairs = zip(compared.values, compared.expected, strict=True)
    kept = [i for i, (v, r) in enumerate(pairs) if not _has_nan(v, r)]
    if len(kept) == len(compared.cases) or all(compared.equal[i] for i in kept):
        return None
    lists = (compared.cases, compared.values, compared.expected, compared.equal)
    rest = Compared(
        compared.exercise,
        *([row[i] for i in kept] for row in lists),
        lambda name: [compared.variants(name)[i] for i in kept],
    )
    return _known(rest) if not all(case.edge for case in rest.cases) else None


def _form(compared: Compared) -> Finding | None:
    """Type, shape, NaN: what is wrong whatever the numbers are."""
    exercise = compared.exercise
    triples = list(zip(compared.cases, compared.values, compared.expected, strict=True))
    for case, value, right in triples:
        finding = _type_finding(value, right) or _shape_finding(exercise, value, right)
        if finding:
            said = f"{finding.message} That was for {exercise.describe(case)}."
            return Finding(finding.diagnosis, said)
    bad = [(case, value, right) for case, value, right in triples if _has_nan(value, right)]
    if not bad:
        return None
    only_nan = all(
        case.random or alike_for(exercise, _nan_replaced(value, right), right)
        for case, value, right in triples
    )
    named = next((case.nan for case, _, _ in bad if case.nan), None)
    if only_nan and named:
        return Finding(*named)
    case, value, right = min(bad, key=lambda triple: triple[0].edge)
    return Finding("nan", f"{_nan_said(value, right)} That was for {exercise.describe(case)}.")


def _of_random_cases(compared: Compared) -> Finding | None:
    """The rest is right. Are the random ones of the right form, and do the properties hold?"""
    if not any(case.random for case in compared.cases):
        return None
    return _form(compared) or next(_properties(compared), None)


def right_outputs(exercise: Exercise, cases: list[Case]) -> list[Output]:
    """What is right: the case's own `expected`, else what the witness gives."""
    if cases is exercise.cases():
        return _rights_of_all(exercise)
    return _rights(exercise, cases)


@cache
def _rights_of_all(exercise: Exercise) -> list[Output]:
    return _rights(exercise, exercise.cases())


def _rights(exercise, cases):
    given = collect(exercise.witness, [c.inputs() for c in cases])
    outputs = []
    for case, output in zip(cases, given, strict=True):
        if case.expected is not None:
            output = Output(value=case.expected)
        elif output.error:
            raise AssertionError(
                f"{exercise.name}: the witness raised {output.error} for {exercise.describe(case)}"
            )
        outputs.append(output)
    return outputs


def variant_values(exercise: Exercise, name: str, cases: list[Case]) -> list:
    """What a known wrong answer gives for every case; worked out once for the exercise's own."""
    if cases is exercise.cases():
        return _variant_on_all(exercise, name)
    return _variant(exercise, name, cases)


@cache
def _variant_on_all(exercise: Exercise, name: str) -> list:
    return _variant(exercise, name, exercise.cases())


def _variant(exercise, name, cases) -> list:
    variant = exercise.variants[name]
    if variant.spoil:
        rights = right_outputs(exercise, cases)
        return [variant.spoil(c, r.value) for c, r in zip(cases, rights, strict=True)]
    inputs = [c.inputs() | {"gradients": False} for c in cases]
    return [o.value for o in collect(variant.answer, inputs)]


def alike_for(exercise: Exercise, a, b, times: float = 1) -> bool:
    """The same, as exactly as the exercise asks, or a number of times as loosely."""
    if not same(a, b, times * exercise.tolerance, exercise.smallest):
        return False
    return not exercise.exact_zeros or not (isinstance(b, torch.Tensor) and a[b == 0].any())


def same(a, b, tolerance: float, smallest: float = 1.0) -> bool:
    """Equal in structure, shape and (within tolerance) in every number; NaN equals NaN.

    The tolerance is relative to the greatest number of `b`, or to `smallest` where all are smaller.
    Half precision has to come back as such; there two units in the last place are allowed at least,
    four roundings: one more or less is no mistake.
    """
    if isinstance(b, torch.Tensor):
        if not isinstance(a, torch.Tensor) or a.shape != b.shape:
            return False
        if b.dtype == torch.bool or a.dtype == torch.bool:
            return a.dtype == b.dtype and torch.equal(a, b)
        if a.is_complex() != b.is_complex() or _half(a) != _half(b):
            return False
        if b.dtype in HALF:
            tolerance = max(tolerance, 2 * torch.finfo(b.dtype).eps)
        wide = torch.complex128 if b.is_complex() else torch.float64
        a, b = a.to(wide), b.to(wide)
        most = tolerance * _size(b, smallest)
        furthest = (a - b).abs().max().item() if b.numel() else 0.0
        if not math.isnan(furthest):
            return furthest <= most
        return torch.allclose(a, b, rtol=0, atol=most, equal_nan=True)  # ∞ - ∞ and NaN are NaN
    if isinstance(b, (tuple, list)):
        return (
            isinstance(a, type(b) if _of_strings(b) else (tuple, list))
            and len(a) == len(b)
            and all(same(x, y, tolerance, smallest) for x, y in zip(a, b, strict=True))
        )
    if isinstance(b, dict):
        return (
            isinstance(a, dict)
            and a.keys() == b.keys()
            and all(same(a[k], b[k], tolerance, smallest) for k in b)
        )
    if isinstance(b, float):
        return isinstance(a, (int, float)) and abs(a - b) <= tolerance * max(smallest, abs(b))
    return type(a) is type(b) and a == b


def _of_strings(value) -> bool:
    """A list or tuple of strings: a pair of them is looked up among pairs, so its type counts."""
    return isinstance(value, (tuple, list)) and all(isinstance(part, str) for part in value)


def _half(tensor: torch.Tensor) -> torch.dtype | None:
    """Its type, where that is one of 16 bits."""
    return tensor.dtype if tensor.dtype in HALF else None


def _size(right: torch.Tensor, smallest: float) -> float:
    """How large the numbers are that a difference is measured by."""
    largest = right.abs().max().item() if right.numel() else 0.0
    if not math.isfinite(largest):
        finite = right[right.isfinite()]
        largest = finite.abs().max().item() if finite.numel() else 0.0
    return max(smallest, largest)


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
    used = next((o.used for o in outputs if o.used), ())
    if used:
        names = " and ".join(f"`{name}`" for name in used)
        return Verdict(
            exercise,
            "wrong",
            "library-call",
            f"Your code calls a ready-made {names}, which does what you are asked to write. Here "
            "the writing is the learning: build it out of smaller steps.",
        )
    if any(o.kept for o in outputs):
        return Verdict(
            exercise,
            "wrong",
            "keeps-state",
            f"Your {exercise.name} gives one result when it is new, and another after it was "
            "called with other inputs, or after a second one was built. It keeps something from "
            "then: on the class, in a global name, or in an attribute that is set once. What "
            "belongs to one module stands on `self`; what belongs to one call is made in the call.",
        )
    errors = [o.error for o in outputs if o.error]
    if any(error["type"] == "NotImplementedError" for error in errors):
        return Verdict(exercise, "to do", "to do", "To do: your code is still missing.")
    if len(errors) == len(outputs):
        return _of_an_error(exercise, cases, outputs)
    return None


def _of_a_known_error(exercise, cases, outputs) -> Verdict | None:
    """A known wrong answer that raises in the same cases, and gives the same in all others."""
    plain = [i for i, case in enumerate(cases) if not case.edge and not case.random]
    raised = [i for i in plain if outputs[i].error]
    if not raised:
        return None
    for name, variant in exercise.variants.items():
        given = variant_values(exercise, name, cases)  # None where it raises
        if [i for i in plain if given[i] is None] == raised and all(
            same(outputs[i].value, given[i], exercise.tolerance) for i in plain if i not in raised
        ):
            error = outputs[raised[0]].error
            where = f"line {error['line']}, `{error['code']}`: " if error["code"] else ""
            what = f"{error['type']}: {error['message'].strip()}".rstrip(": .")
            said = f"{variant.says} (The error: {where}{what}.)"
            return Verdict(exercise, "wrong", name, said)
    return None


def _of_an_error(exercise, cases, outputs) -> Verdict:
    """The answer raised. Where, what, for which case, and for which one did it not?"""
    raised = [i for i, output in enumerate(outputs) if output.error]
    i = next((i for i in raised if not cases[i].edge), raised[0])
    error = outputs[i].error
    if error["type"] == "Crash":
        name = "endless" if error["message"].startswith("did not end") else "crashed"
        return Verdict(exercise, "wrong", name, f"Your code {error['message']}.")
    where = f"Line {error['line']}, `{error['code']}`: " if error["code"] else ""
    what = f"{error['type']}: {error['message'].strip()}".rstrip(": ")
    what += "" if what.endswith((".", "!", "?")) else "."
    if "Boolean value of Tensor" in what:
        what += (
            " An `if` needs one True or False, and a tensor holds many. To ask whether there is a "
            "tensor at all, write `is not None`."
        )
    some = ""
    if len(raised) < len(cases):
        worked = [c for c, o in zip(cases, outputs, strict=True) if not o.error]
        # the plainest of them: a list of all that it also is would hide what matters
        worked.sort(key=lambda case: (case.edge, len(exercise.describe(case))))
        some = f" It did run for {exercise.describe(worked[0])}: what is the difference?"
    said = f"Your code raised an error. {where}{what} That was for {exercise.describe(cases[i])}."
    return Verdict(exercise, "wrong", "raised", said + some)


def _type_finding(value, right) -> Finding | None:
    if value is None and right is not None:
        return Finding("returned-none", "Your code gave None. Does every path end in a return?")
    if isinstance(value, dict) and "not plain" in value:
        return Finding(
            "type", f"Your code gave a {value['not plain']}; a {_kind(right)} is expected."
        )
    if isinstance(right, torch.Tensor) and isinstance(value, torch.Tensor):
        kinds = [(t.dtype == torch.bool, t.is_complex(), _half(t)) for t in (right, value)]
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
    if _of_strings(right) and type(value) is type(right):
        return _odd_one_finding(value, right)
    number = isinstance(right, (int, float)) and isinstance(value, (int, float))
    sequence = isinstance(right, (tuple, list)) and isinstance(value, (tuple, list))
    sequence = sequence and not _of_strings(right)
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


def _odd_one_finding(value, right) -> Finding | None:
    """In a list or tuple that should hold strings: something else; in a tuple, too many."""
    odd = [part for part in value if not isinstance(part, str)]
    if odd:
        return Finding(
            "type",
            f"Your {_kind(value)} holds a {_kind(odd[0])}, {odd[0]!r}; strings are expected.",
        )
    if isinstance(right, tuple) and len(value) != len(right):
        return Finding("type", f"Your code gave a {_kind(value)}; a {_kind(right)} is expected.")
    return None


def _kind(value) -> str:
    if isinstance(value, tuple):
        return f"tuple of {len(value)}"
    words = {torch.Tensor: "tensor", type(None): "None", int: "whole number", float: "number"}
    words |= {str: "string"}
    return words.get(type(value), type(value).__name__)


def _tensors(value, right) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """Pairs of tensors to compare, each with a name for it in a sentence."""
    if isinstance(right, torch.Tensor):
        return [("the result", value, right)]
    if isinstance(right, (tuple, list)) and not _of_strings(right):
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
            axes = "1 axis" if len(mine) == 1 else f"{len(mine)} axes"
            said += f" It has {axes} instead of {len(want)}."
        elif sorted(mine) == sorted(want):
            said += " The sizes are there, in another order: which axis stands where?"
        else:
            i = next(i for i in range(len(want)) if mine[i] != want[i])
            axis = exercise.axes[i] if len(exercise.axes) == len(want) else f"number {i}"
            said += f" The axis '{axis}' is {mine[i]} long and should be {want[i]}."
        return Finding("shape", said)
    return None


def _has_nan(value, right) -> bool:
    return any((y.isnan() & ~e.isnan()).any() for _, y, e in _floats(value, right))


def _floats(value, right):
    return [t for t in _tensors(value, right) if t[1].is_floating_point()]


def _nan_replaced(value, right):
    """The value with what is right where it is NaN."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return torch.where(value.isnan(), right.to(value.dtype), value)
    if isinstance(value, (tuple, list)):
        return type(value)(_nan_replaced(v, r) for v, r in zip(value, right, strict=True))
    return value


def _nan_said(value, right) -> str:
    for what, yours, expected in _floats(value, right):
        bad = yours.isnan() & ~expected.isnan()
        if bad.any():
            at = bad.nonzero()[0].tolist()
            return (
                f"There is NaN in {what}, {int(bad.sum())} times, first at {at}. NaN comes from "
                "0/0, from inf − inf, from 0·inf, and from the root or the logarithm of a negative "
                "number: which of them is it here?"
            )
    raise AssertionError("there is no NaN")


def _properties(compared: Compared):
    """Every property that does not hold, the exercise's own first, then those of twin cases."""
    exercise, cases, values = compared.exercise, compared.cases, compared.values
    for holds in exercise.properties:
        finding = holds(cases, values, compared.expected)
        if finding:
            yield finding
    if len(cases) < len(exercise.cases()):  # some raised: which is whose twin is not known
        return
    for case, value in zip(cases, values, strict=True):
        if case.twin:
            pair = case.twin.same(values[case.twin.of], value)
            if not alike_for(exercise, *pair):
                yield Finding(case.twin.diagnosis, case.twin.message)


def _beyond_values(exercise, cases, outputs, expected_outputs) -> Finding | None:
    """The values are right. Are the inputs untouched, and does the gradient flow?"""
    for case, output, right in zip(cases, outputs, expected_outputs, strict=True):
        if output.changed:
            name = _name_of_changed(exercise, output.changed)
            key = output.changed[0]
            given = case.args[key] if isinstance(key, int) else case.kwargs[key]
            instead = "work on a new tensor (no `_` methods, no writing into it)"
            if not _float_names(name, given):  # a list of words, say
                instead = "make a new one, or work on a copy"
            return Finding(
                "changes-input",
                f"The values are right, but your code changes `{name}` itself. Whoever called "
                f"it still needs it: {instead}.",
            )
        if case.largest is not None and output.largest > case.largest:
            return Finding(
                "holds-too-much",
                f"The values are right, but your tensors hold {output.largest} numbers at one "
                f"time. That was for {exercise.describe(case)}, where {case.largest} are more than "
                "enough. What is so large, or grows with the whole input: a tensor, or a list of "
                "them?",
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
        gradients = output.gradients or [None] * len(right.gradients)
        if any(
            g is None and r is not None and r.any()
            for g, r in zip(gradients, right.gradients, strict=True)
        ):
            return Finding(
                "no-gradient",
                f"The values are right, but no gradient flows back to "
                f"{_without_gradient(exercise, case, output, right)}, so it could not be trained. "
                "Somewhere the numbers are taken out of their tensor, and torch can no longer "
                "follow them: .detach(), .item(), .tolist(), torch.tensor(…), numpy or no_grad.",
            )
        reached = _frozen_reached(exercise, case, gradients)
        if reached:
            return Finding(
                "not-frozen",
                f"The values are right, but a gradient reaches `{reached}`, which is frozen: "
                "training would change it. Its numbers are needed, the way back to it is not.",
            )
        if case.random:
            continue  # there is one, and it is as random as the value
        smallest = max(exercise.smallest, _rounding(right) / (10 * exercise.tolerance))
        names = _names_of_gradients(exercise, case, gradients)
        for i, (g, r) in enumerate(zip(gradients, right.gradients, strict=True)):
            if r is None or g is None:  # none at all is as good as one of zeros
                continue
            at = f"That was for {exercise.describe(case)}."
            if not g.isfinite().all() and r.isfinite().all():
                return Finding(
                    "gradient-nan",
                    "The values are right, but the gradient is NaN or infinite: a network that "
                    f"meets such an input once is lost. {at}",
                )
            if not case.edge and not same(g, r, 10 * exercise.tolerance, smallest):
                which = f"the gradient of `{names[i]}`" if names else "their gradient"
                return Finding("gradient", f"The values are right, {which} is not. {at}")
    return None


def _name_of_changed(exercise, changed) -> str:
    return exercise.arguments[changed[0]] if isinstance(changed[0], int) else changed[0]


def _rounding(right: Output) -> float:
    """What may be left of large numbers that cancel: a millionth of the greatest."""
    parts = right.value if isinstance(right.value, (tuple, list)) else [right.value]
    tensors = [t for t in (*parts, *right.gradients) if isinstance(t, torch.Tensor) and t.numel()]
    sizes = [t[t.isfinite()].abs() for t in tensors if t.is_floating_point()]
    return 1e-6 * max((size.max().item() for size in sizes if size.numel()), default=0.0)


def _without_gradient(exercise, case, output, right) -> str:
    """The inputs that get none and should, by their names; or all of them."""
    names = output.gradients and _names_of_gradients(exercise, case, output.gradients)
    if not names:
        return "the inputs"
    pairs = zip(names, output.gradients, right.gradients, strict=True)
    none = [name for name, g, r in pairs if g is None and r is not None and r.any()]
    if len(none) == len(names):
        return "the inputs"
    return " and ".join([f"`{none[0]}`", *([f"{len(none) - 1} more"] if none[1:] else [])])


def _names_of_gradients(exercise, case, gradients) -> list[str]:
    """What each gradient belongs to, arguments and weights; none where that is not clear."""
    names = [
        name
        for argument, value in zip(exercise.arguments, case.args, strict=False)
        for name in _float_names(argument, value)
    ]
    names += [n for name, value in case.kwargs.items() for n in _float_names(name, value)]
    names += case.weights or {}
    return names if len(names) == len(gradients) else []


def _frozen_reached(exercise, case, gradients) -> str | None:
    """An argument that no gradient may reach, and one does."""
    if not exercise.frozen:
        return None
    names = _names_of_gradients(exercise, case, gradients)
    pairs = zip(names, gradients, strict=False)
    return next((n for n, g in pairs if n in exercise.frozen and g is not None and g.any()), None)


def _float_names(name: str, value) -> list[str]:
    """As in code: `tiles[0][1]`."""
    if isinstance(value, (tuple, list)):
        return [n for i, part in enumerate(value) for n in _float_names(f"{name}[{i}]", part)]
    return [name] if isinstance(value, torch.Tensor) and value.is_floating_point() else []


def _first_difference(compared: Compared) -> str:
    exercise, i = compared.exercise, compared.worst
    value, expected, some = compared.values[i], compared.expected[i], compared.contrast()
    said = f"Not yet. For {exercise.describe(compared.cases[i])}: "
    for what, yours, right in _tensors(value, expected):
        if alike_for(exercise, yours, right):
            continue
        a, b = yours.double(), right.double()
        apart = torch.where(a == b, 0.0, (a - b).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)
        differs = apart > exercise.tolerance * _size(b, exercise.smallest)
        if exercise.exact_zeros:
            differs |= (b == 0) & (a != 0)
        at = differs.nonzero()[0].tolist()
        mine, want = _numbers(yours[tuple(at)].item(), right[tuple(at)].item())
        return said + (
            f"{what} first differs at {at}: yours {mine}, expected {want}. "
            f"{int(differs.sum())} of {differs.numel()} numbers differ, by at most "
            f"{apart.max().item():.3g}.{some}"
        )
    mine, want = _numbers(value, expected)
    return said + f"yours {mine}, expected {want}.{some}"


def _numbers(mine, want) -> tuple[str, str]:
    """Both in words, with as many digits as it takes to tell them apart."""
    if not (isinstance(mine, float) and isinstance(want, float)):
        return repr(mine), repr(want)
    for digits in range(4, 17):
        said = f"{mine:.{digits}g}", f"{want:.{digits}g}"
        if said[0] != said[1]:
            break
    return said


def _praise(exercise, cases) -> str:
    slopes = any(o.gradients is not None for o in right_outputs(exercise, cases))
    gradients = ", and so are the gradients" if slopes else ""
    return f"Right, in all {len(cases)} cases{gradients}."
