"""Questions: each is asked in its lesson, answers every option, and records what is typed."""

import re

import pytest

from tests.conftest import ROOT
from tfcourse import quiz
from tfcourse.authoring.build import find_lessons
from tfcourse.checks.quiz import Item, Option
from tfcourse.checks.registry import find_question, questions
from tfcourse.checks.store import read


def test_each_question_is_asked_once_in_its_lesson():
    asked = {
        (lesson.name, name)
        for lesson in find_lessons(ROOT)
        for name in re.findall(r'^quiz\("([\w-]+)"\)', lesson.text, re.MULTILINE)
    }
    assert asked == {(item.lesson, name) for name, item in questions().items()}


@pytest.mark.parametrize("item", questions().values(), ids=lambda i: i.name)
def test_every_option_has_feedback_of_its_own(item):
    assert sum(o.right for o in item.options) == 1
    said = [o.feedback for o in item.options]
    assert all(len(s) > 15 for s in said)
    assert len(set(said)) == len(said)
    assert len({o.text for o in item.options}) == len(item.options)


def test_the_right_option_does_not_always_stand_in_one_place():
    places = [[o.right for o in item.options].index(True) for item in questions().values()]
    assert max(places.count(p) for p in set(places)) < 0.75 * len(places)


def test_an_answer_is_told_and_recorded(home, capsys):
    quiz("01-trap", "a")
    assert capsys.readouterr().out.startswith("✗ a: it raises an error")
    quiz("01-trap", " B ")
    assert capsys.readouterr().out.startswith("✓ b: each token sees only")
    entry = read()["questions"]["01-trap"]
    assert (entry["first"], entry["latest"]) == ("a", "b")


def test_asking_shows_the_question(home, capsys):
    quiz("01-trap")
    said = capsys.readouterr().out
    assert find_question("01-trap").prompt in said
    assert "(a) it raises an error" in said


@pytest.mark.parametrize("letter", ["d", "", "ab", 1, ["a"]])
def test_other_letters_are_explained(home, letter):
    with pytest.raises(ValueError, match='expected one of "a, b, c"'):
        quiz("01-trap", letter)


def test_unknown_questions_are_explained():
    with pytest.raises(ValueError, match="Did you mean 01-trap"):
        quiz("01-trip")


def test_a_question_needs_a_right_option():
    with pytest.raises(ValueError, match="one of them right"):
        Item("x", "01", "?", (Option("a", "no"), Option("b", "no")))
