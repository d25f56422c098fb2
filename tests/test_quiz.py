"""Questions: asked in their lesson, each option answered, what is typed or clicked recorded."""

import json
import re
from types import SimpleNamespace

import pytest

from tests.conftest import ROOT
from tfcourse import quiz
from tfcourse.authoring.build import find_lessons
from tfcourse.checks import clicks
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


# --- clicks -----------------------------------------------------------------------------------


def click(letter, name="01-trap", **more):
    return clicks.count({"name": name, "letter": letter, **more})


def test_a_click_counts_like_a_typed_answer(home):
    asked = sum(item.lesson == "01_attention" for item in questions().values())
    assert click("a") == f"On your progress board: 0 of {asked} questions of this lesson right."
    assert click("b") == f"On your progress board: 1 of {asked} questions of this lesson right."
    clicked = read()["questions"].pop("01-trap")
    quiz("01-trap", "a")
    quiz("01-trap", "b")
    typed = read()["questions"]["01-trap"]
    assert (
        {**clicked, "right": 0}
        == {**typed, "right": 0}
        == {"first": "a", "latest": "b", "right": 0}
    )


def test_what_a_browser_remembers_takes_nothing_away(home):
    click("b", remembered=True)
    assert read()["questions"]["01-trap"]["latest"] == "b"
    said = click("a", remembered=True)
    assert said.startswith("On your progress board: 1 of")
    assert read()["questions"]["01-trap"]["latest"] == "b"


@pytest.mark.parametrize(
    ("letter", "name"), [("e", "01-trap"), ("a", "01-trip"), (None, "01-trap")]
)
def test_a_click_that_cannot_count_is_told(home, letter, name):
    assert click(letter, name).startswith("Not counted on your progress board. ")
    assert read()["questions"] == {}


def test_a_click_that_cannot_be_saved_is_told(home, capsys):
    home.write_text("a file where the folder should be")
    assert "is not on your progress board" in click("b")


def test_the_channel_opens_once_and_answers(home, monkeypatch):
    import IPython

    from tfcourse.widgets.channel import open_channel

    opened = []
    shell = SimpleNamespace(kernel=object())
    with monkeypatch.context() as patch:
        patch.setattr(IPython, "get_ipython", lambda: shell)
        patch.setattr("tfcourse.widgets.channel.open_channel", opened.append)
        clicks.listen()
    assert opened == [clicks.count]
    channel = open_channel(clicks.count)
    assert channel is open_channel(clicks.count)
    sent = []
    monkeypatch.setattr(type(channel), "send", lambda self, content: sent.append(content))
    channel._handle_custom_msg({"name": "01-trap", "letter": "b", "remembered": False}, [])
    [reply] = sent
    assert reply["name"] == "01-trap"
    assert reply["said"].startswith("On your progress board: 1 of")
    assert read()["questions"]["01-trap"]["latest"] == "b"


def test_without_a_page_there_is_no_channel(home, monkeypatch):
    import tfcourse.widgets.channel as channels

    monkeypatch.setattr(channels, "open_channel", lambda answered: pytest.fail("opened"))
    quiz("01-trap")  # no kernel here


# --- what is stored ---------------------------------------------------------------------------


@pytest.mark.parametrize("lesson", sorted({item.lesson for item in questions().values()}))
def test_a_stored_question_does_not_hold_its_answer(lesson):
    cells = json.loads((ROOT / "notebooks" / f"{lesson}.ipynb").read_text())["cells"]
    found = {}
    for cell in cells:
        if asked := re.findall(r'^quiz\("([\w-]+)"\)', "".join(cell["source"]), re.MULTILINE):
            found[asked[0]] = json.dumps(cell["outputs"], ensure_ascii=False)
    for item in (item for item in questions().values() if item.lesson == lesson):
        stored = found[item.name]
        assert "(a)" in stored
        assert "<script" not in stored
        assert not any(
            json.dumps(o.feedback, ensure_ascii=False)[1:-1] in stored for o in item.options
        )
