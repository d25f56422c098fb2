"""The board and what a right answer says of it: the states, the order, the next step, its links."""

import json
import re
from html.parser import HTMLParser

import pytest
import torch

from tests.conftest import ROOT
from tfcourse import check, progress, quiz
from tfcourse.checks import progress as show_board
from tfcourse.checks import store
from tfcourse.checks.board import Board
from tfcourse.checks.outline import outline
from tfcourse.checks.registry import exercises, questions


@pytest.fixture(autouse=True)
def in_the_notebooks(home, monkeypatch):
    """As a learner's kernel: it runs in the folder of the notebooks."""
    monkeypatch.chdir(ROOT / "notebooks")


def causal_mask(tokens):
    return torch.ones(tokens, tokens).tril().bool()


def do(*names):
    for name in names:
        if name in exercises():
            store.record_exercise(name, "right", "right")
        else:
            store.record_question(name, "a", True)


def everything(lesson):
    return [part.name for row in Board.now().rows for part in row.parts if row.number == lesson]


def html():
    return Board.now()._repr_mimebundle_()["text/html"]


class Reader(HTMLParser):
    """The text, the links and the labels of HTML; and whether its elements are closed."""

    def __init__(self, source):
        super().__init__()
        self.open, self.links, self.labels, self.said = [], [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        attrs = dict(attrs)
        self.links += [attrs["href"]] if tag == "a" else []
        self.labels += [attrs["aria-label"]] if "aria-label" in attrs else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.said.append(data)


def test_the_board_in_a_terminal(capsys):
    check(causal_mask)
    check(lambda lengths, tokens: None, "padding_mask")
    quiz("01-trap", "b")
    quiz("01-spread", "a")  # wrong or right, it was tried
    capsys.readouterr()
    progress()
    said = capsys.readouterr().out
    [line] = [x for x in said.splitlines() if x.startswith("01 Attention")]
    dots = dict.fromkeys(everything("01"), "")
    entries = store.read()
    for name in dots:
        tried = name in entries["exercises"] or name in entries["questions"]
        right = "right" in entries["exercises" if name in exercises() else "questions"].get(
            name, {}
        )
        dots[name] = ("●◆" if right else "◐◈" if tried else "○◇")[name in questions()]
    assert "".join(d for n, d in dots.items() if n in exercises()) in line
    assert "".join(d for n, d in dots.items() if n in questions()) in line
    assert line.count("●") == line.count("◐") == 1
    assert re.search(r"\d+ min", line)
    assert said.splitlines()[-1].startswith("Next: scores in 01 Attention, about ")
    assert show_board is progress


def test_columns_stand_below_each_other():
    lines = repr(Board.now()).splitlines()[1:-1]
    assert len({re.search(r"[●◐○]", line).start() for line in lines}) == 1
    assert len({re.search(r"[◆◈◇]", line).start() for line in lines}) == 1
    assert max(map(len, lines)) <= 80


def test_the_order_is_that_of_the_notebook():
    notebook = json.loads((ROOT / "notebooks/01_attention.ipynb").read_text())
    code = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    asked = [x for source in code for x in re.findall(r'^quiz\("([\w-]+)"\)', source)]
    found = [name for name in everything("01") if name in questions()]
    assert found == asked
    known = {**exercises(), **questions()}
    assert set(everything("01")) == {n for n, x in known.items() if x.lesson == "01_attention"}


def test_words_for_those_who_cannot_see_it():
    do("causal_mask", "01-trap")
    store.record_exercise("padding_mask", "wrong", "inverted")
    read = Reader(html())
    assert read.open == []
    count = len([x for x in exercises().values() if x.lesson == "01_attention"])
    assert f"{count} exercises: 1 right, 1 tried, {count - 2} open" in read.labels
    assert any(re.fullmatch(r"\d+ questions: 1 right, \d+ open", x) for x in read.labels)
    text = "".join(read.said)
    assert re.search(r"causal mask right · \d+ min", text)
    assert re.search(r"padding mask tried · \d+ min", text)


def test_every_link_leads_to_a_cell_that_is_there():
    ids = {}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        ids[path.name] = {c["id"] for c in json.loads(path.read_text())["cells"]}
    links = Reader(html()).links
    assert len(links) > len(exercises()) + len(questions())
    for link in links:
        name, _, place = link.partition("#")
        assert name in ids
        assert not place or place.removeprefix("cell-id=") in ids[name], link


def test_an_exercise_is_linked_by_its_heading():
    notebook = json.loads((ROOT / "notebooks/01_attention.ipynb").read_text())
    cells = {c["id"]: "".join(c["source"]) for c in notebook["cells"]}
    [stop] = [s for s in outline("01_attention").stops if s.name == "causal_mask"]
    assert "### Exercise · causal mask" in cells[stop.href.split("cell-id=")[1]]
    assert stop.minutes == 5


def test_what_is_kept_is_marked():
    board = Board(exercises(), questions(), store.read(), {"causal_mask"})
    said = "".join(Reader(board._repr_mimebundle_()["text/html"]).said)
    assert said.count("your answer is kept") == 1
    [line] = [x for x in repr(board).splitlines() if "kept" in x]
    assert line.startswith("01 Attention")


def test_where_it_begins_and_where_it_ends():
    assert str(Board.now().next_step()) == "Next: 00 Start here, about 45 minutes."
    do(*everything("00"))
    assert str(Board.now().next_step()).startswith("Next: 01 Attention, about")
    do("02-cache")  # somebody who goes on without looking back
    assert "in 02 Multi-head attention" in str(Board.now().next_step())
    do(*exercises(), *questions())
    assert str(Board.now().next_step()) == "All is right. There is nothing left to do."
    assert Reader(html()).open == []


def test_a_right_answer_says_what_is_left(capsys):
    left = {name: len([n for n in everything("01") if n in known]) for name, known in
            {"exercises": exercises(), "questions": questions()}.items()}  # fmt: skip
    check(causal_mask)
    said = capsys.readouterr().out
    assert f"Left in this lesson: {left['exercises'] - 1} exercises" in said
    assert f"and {left['questions']} questions. Next: padding mask, about 8 minutes." in said


def test_it_goes_on_from_the_answer_and_then_from_the_top():
    after = [n for n in everything("01") if n in exercises()]
    do(after[-1])
    assert exercises()[after[0]].title in str(Board.now().after(after[-1]))
    do(*after)
    step = str(Board.now().after(after[0]))
    assert re.search(r"Left in this lesson: \d+ questions\. Next: the question 01-", step)


def test_the_last_answer_of_a_lesson_leads_to_the_next_lesson():
    do(*everything("01"))
    step = Board.now().after("causal_mask")
    assert str(step).startswith("That was the last open part of 01 Attention: the lesson is done.")
    assert step.href == "02_multi_head_attention.ipynb"
    do(*exercises(), *questions())
    assert str(Board.now().after("causal_mask")).endswith("So is the whole course.")


def test_the_answer_itself_is_not_what_comes_next(home):
    """Where nothing can be saved the record does not know of it."""
    home.write_text("a file where the folder should be")
    assert "causal mask" not in str(Board.now().after("causal_mask"))


def test_notebooks_out_of_reach_give_minutes_but_no_links(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # as in a class, where one notebook is handed out alone
    read = Reader(html())
    assert read.links == []
    assert re.search(r"causal mask open · \d+ min", "".join(read.said))


@pytest.mark.parametrize("spoil", ["gone", "damaged", "no cells"])
def test_without_notebooks_there_are_names(tmp_path, monkeypatch, spoil):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tfcourse.checks.outline._places", lambda: [tmp_path])
    if spoil != "gone":
        text = "{" if spoil == "damaged" else "{}"
        (tmp_path / "01_attention.ipynb").write_text(text)
    board = Board.now()
    assert "01 Attention" in repr(board)
    read = Reader(html())
    assert read.links == []
    assert "causal mask" in "".join(read.said)
    assert "Next: padding mask." in str(board.after("causal_mask"))


def test_names_are_escaped():
    from dataclasses import replace

    evil = "<script>alert(1)</script>"
    known = {"causal_mask": replace(exercises()["causal_mask"], title=evil)}
    shown = Board(known, {}, store.read())._repr_mimebundle_()["text/html"]
    assert evil not in shown
    assert evil in "".join(Reader(shown).said)
