"""One chosen right answer an exercise, put into the lesson: it carries it to its end."""

import pytest

from tests import answers
from tests.conftest import ROOT
from tfcourse.authoring.build import find_lessons

LESSONS = find_lessons(ROOT)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_right_answer_carries_its_lesson(lesson):
    [chosen] = answers.rounds(lesson, one=True)
    assert answers.run(lesson, chosen) == []


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_every_right_answer_has_its_turn(lesson):
    turns = answers.rounds(lesson, one=False)
    for name in lesson.exercises():
        assert {turn[name] for turn in turns} == set(range(len(answers.rights(name))))
