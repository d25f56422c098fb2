"""Each wrong answer is rejected with the diagnosis meant for it; each right one is accepted."""

from collections import Counter

import pytest

from tests.wrong_answers import attempts
from tfcourse.checks.judging import judge, right_outputs, same, variant_values
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect
from tfcourse.checks.solutions import find_solution

EXERCISES = list(exercises().values())


def verdict_of(attempt):
    exercise = exercises()[attempt.exercise]
    return judge(exercise, collect(attempt.answer, [c.inputs() for c in exercise.cases()]))


@pytest.mark.parametrize("attempt", attempts(), ids=str)
def test_diagnosis(attempt):
    verdict = verdict_of(attempt)
    assert verdict.diagnosis == attempt.diagnosis, verdict.message
    assert verdict.right == (attempt.diagnosis == "right")


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_at_least_eight_wrong_and_three_right(exercise):
    counts = Counter(a.diagnosis == "right" for a in attempts() if a.exercise == exercise.name)
    assert counts[False] >= 8
    assert counts[True] >= 3


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_variants_differ_from_what_is_right_and_from_each_other(exercise):
    cases = exercise.cases()
    expected = [o.value for o in right_outputs(exercise, cases)]
    seen = {"right": expected}
    for name in exercise.variants:
        values = variant_values(exercise, name, cases)
        for other, theirs in seen.items():
            alike = all(same(v, t, 1e-4) for v, t in zip(values, theirs, strict=True))
            assert not alike, f"{name} gives the same as {other} in every case"
        seen[name] = values


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_every_variant_is_met_by_a_wrong_answer(exercise):
    met = {a.diagnosis for a in attempts() if a.exercise == exercise.name}
    assert set(exercise.variants) <= met


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_nothing_said_gives_the_solution_away(exercise):
    solution = find_solution(exercise)
    lines = [x.split("#")[0].strip() for x in solution.splitlines()]
    telling = [x for x in lines if len(x) > 18 and not x.startswith(('"""', "def ", "class "))]
    said = " ".join([*exercise.hints, *(v.says for v in exercise.variants.values())])
    assert not [x for x in telling if x in said]
    assert len(exercise.hints) == 3
