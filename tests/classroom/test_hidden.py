"""Hidden cases: right answers pass them, wrong ones do not, and nobody has seen them."""

import pytest
import torch

from tests.conftest import ROOT
from tests.wrong_answers import attempts
from tfcourse.checks.judging import judge
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect
from tfcourse.classroom import hidden
from tfcourse.classroom.hidden import NoHiddenCases

SOLUTIONS = ROOT / "solutions"
GRADED = [e for e in exercises().values() if e.graded]
HIDDEN = {e.name: hidden.load(SOLUTIONS, e.lesson)[e.name] for e in GRADED}
OF_GRADED = [a for a in attempts() if a.exercise in HIDDEN]


def verdict_of(answer, exercise):
    return judge(exercise, collect(answer, [case.inputs() for case in exercise.cases()]))


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [t for part in parts for t in tensors(part)] if isinstance(value, (list, tuple, dict)) \
        else []  # fmt: skip


def test_every_lesson_has_a_graded_exercise_and_its_cases():
    lessons = {e.lesson for e in exercises().values()}
    assert {e.lesson for e in GRADED} == lessons
    assert {path.stem for path in (SOLUTIONS / hidden.FOLDER).glob("*.py")} == lessons


@pytest.mark.parametrize("attempt", OF_GRADED, ids=str)
def test_the_hidden_cases_alone_tell_right_from_wrong(attempt):
    verdict = verdict_of(attempt.answer, HIDDEN[attempt.exercise])
    assert verdict.right == (attempt.diagnosis == "right"), verdict.message


@pytest.mark.parametrize("exercise", GRADED, ids=lambda e: e.name)
def test_they_differ_from_all_that_a_learner_has(exercise):
    def seen(cases):
        found = set()
        for case in cases:
            floats = [t for t in tensors((case.args, case.kwargs)) if t.is_floating_point()]
            found |= {tuple(t.flatten().tolist()) for t in floats if t.abs().sum() and t.numel() > 3
                      and t.unique().numel() > 2}  # fmt: skip
        return found

    ours, theirs = seen(HIDDEN[exercise.name].cases()), seen(exercise.cases())
    assert len(ours) > 10
    assert not ours & theirs
    sizes = [{t.shape for case in e.cases() for t in tensors(case.args)}
             for e in (HIDDEN[exercise.name], exercise)]  # fmt: skip
    assert sizes[0] - sizes[1]


def test_an_answer_that_knows_all_visible_cases_by_heart_does_not_pass():
    exercise = next(e for e in GRADED if e.name == "cosine_similarities")
    known = {}
    for case in exercise.cases():
        known[repr([t.tolist() for t in case.args])] = exercise.witness(*case.args)

    def by_heart(queries, keys):
        found = known.get(repr([queries.tolist(), keys.tolist()]))
        return torch.zeros(len(queries), len(keys)) if found is None else found

    visible = [case.inputs() | {"gradients": False} for case in exercise.cases()]
    values = [output.value for output in collect(by_heart, visible)]
    for case, value in zip(exercise.cases(), values, strict=True):
        assert torch.allclose(value, exercise.witness(*case.args))
    assert not verdict_of(by_heart, HIDDEN[exercise.name]).right


def test_where_they_are_missing_it_says_where_they_should_be(tmp_path):
    with pytest.raises(NoHiddenCases, match=r"01_attention.*grade from there"):
        hidden.load(tmp_path, "01_attention")
    (tmp_path / hidden.FOLDER).mkdir()
    (tmp_path / hidden.FOLDER / "01_attention.py").write_text("SEED = 1\n")
    with pytest.raises(NoHiddenCases, match="should hold SEED and merge_attention"):
        hidden.load(tmp_path, "01_attention")
