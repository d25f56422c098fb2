"""The domains of the exercises: every pair of kinds meets, and right answers are right all over."""

from collections.abc import Callable
from functools import cache
from itertools import combinations
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.answers import rights
from tests.conftest import ROOT
from tests.equal_mutants import EQUAL
from tests.mutants import answer_of, mutants_of, passes, verdict_of
from tfcourse.authoring.build import find_lessons
from tfcourse.checks import judging
from tfcourse.checks.covering import all_kinds, cover, make_case
from tfcourse.checks.judging import judge
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect
from tfcourse.checks.solutions import solved_cell

EXERCISES = list(exercises().values())
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)


def lesson_of(exercise):
    [lesson] = find_lessons(ROOT, [exercise.lesson])
    return lesson


@each
def test_every_pair_of_kinds_that_can_meet_does(exercise):
    rows = cover(exercise.domain)
    met = {frozenset(pair) for row in rows for pair in combinations(row.items(), 2)}
    kinds = all_kinds(exercise.domain)
    assert all(len(options) == len(set(options)) for options in kinds.values())
    ordinary = {name: options[0] for name, options in kinds.items()}
    for a, b in combinations(kinds, 2):
        for x in kinds[a]:
            for y in kinds[b]:
                alone = make_case(exercise.domain, ordinary | {a: x, b: y}, 0)
                assert alone is None or frozenset([(a, x), (b, y)]) in met, (x, y)
    assert len(exercise.cases()) <= 90


@each
def test_edges_are_kinds(exercise):
    known = {kind for options in exercise.domain.kinds.values() for kind in options}
    assert set(exercise.domain.edges) <= known
    assert set(exercise.domain.without) <= {"layout", "precision", "repeat"}
    assert all(len(reason) > 15 for reason in exercise.domain.without.values())


@each
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_accepted_is_right_all_over_the_domain(exercise, data):
    """Fuzzing: any kinds together, any seed; every accepted answer beside the witness."""
    kinds = {
        name: data.draw(st.sampled_from(options), label=name)
        for name, options in all_kinds(exercise.domain).items()
    }
    case = make_case(exercise.domain, kinds, data.draw(st.integers(0, 2**31 - 1), label="seed"))
    assume(case is not None)
    right = judging.right_outputs(exercise, [case])
    with patch.object(judging, "right_outputs", lambda *_: right):  # once for all of them
        for name, answer in _accepted(exercise).items():
            verdict = judge(exercise, collect(answer, [case.inputs()]), [case])
            assert verdict.right, f"{name}: {verdict.message}"


@cache
def _accepted(exercise) -> dict[str, Callable]:
    """Right answers in several styles, and the mutants that are as right."""
    lesson, listed = lesson_of(exercise), EQUAL.get(exercise.name, {})
    mutants = mutants_of(exercise, lesson) if listed else []
    equal = {m.change: m.source for m in mutants if m.change in listed}
    assert equal.keys() == listed.keys(), "listed as equal, but no mutant"
    answers = {change: answer_of(source, exercise, lesson) for change, source in equal.items()}
    return {a.answer.__name__: a.answer for a in rights(exercise.name)} | answers


@each
def test_mutants_are_rejected(exercise):
    """Every ninth mutant, and what is not changed; `python -m tests.mutants` tries all of them."""
    lesson = lesson_of(exercise)
    solution = answer_of(solved_cell(lesson.text, exercise.name), exercise, lesson)
    assert verdict_of(exercise, solution).right
    tried = [
        m
        for i, m in enumerate(mutants_of(exercise, lesson))
        if i % 9 == 4 and m.change not in EQUAL.get(exercise.name, {})
    ]
    assert [m.change for m in tried if passes(m, lesson)] == []
