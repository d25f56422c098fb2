"""From a submitted notebook to texts that stand alone."""

import json
import textwrap

import pytest

from tests import answers as bank
from tests.conftest import ROOT
from tfcourse.authoring.build import find_lessons
from tfcourse.classroom import cells
from tfcourse.classroom.answers import Answer
from tfcourse.classroom.answers import answers as answers_in
from tfcourse.classroom.cells import NotANotebook


def notebook(*sources):
    made = []
    for source in sources:
        metadata, code = source if isinstance(source, tuple) else ({}, source)
        made.append({"cell_type": "code", "metadata": metadata, "source": textwrap.dedent(code)})
    return {"cells": [{"cell_type": "markdown", "source": "def f(): pass"}, *made]}


def answers(made, names, ours=None):
    return answers_in(cells.code(made), list(names), ours)


def run(answer, name):
    space = {}
    exec(answer.source, space)
    return space[name]


def test_an_answer_brings_along_what_it_needs_and_nothing_else():
    made = notebook(
        "import math\nimport os",
        "SIZE = 3\nOTHER = 4",
        "def helper(x):\n    return math.sqrt(x) * SIZE",
        "while True: pass",
        "print('never')\nf(3)",
        "%matplotlib inline\n!ls\ndef f(x):\n    return helper(x)\n",
        "f = check(f)",
    )
    found = answers(made, ["f", "g"])
    assert run(found["f"], "f")(4) == 6
    assert "os" not in found["f"].source
    assert "OTHER" not in found["f"].source
    assert "while" not in found["f"].source
    assert found["g"] == Answer()


def test_the_order_and_every_definition_are_kept():
    made = notebook(
        "def f(x):\n    return 1",
        "k = 1\nk += 2",
        "@staticmethod\ndef g(x, k=k):\n    return k",
        "class A:\n    pass\nclass B(A):\n    def f(self):\n        return g.__func__(0)",
        "def f(x):\n    return B().f() + x",
    )
    assert run(answers(made, ["f"])["f"], "f")(10) == 13


def test_a_cell_that_cannot_be_read_costs_its_own_exercise_alone():
    made = notebook(
        ({"exercise": "f"}, "def f(x):\n    return (x"),
        "def g(x)\n    return x",
        "def h(x):\n    return x",
        "this is no python",
    )
    found = answers(made, ["f", "g", "h"])
    assert found["f"].trouble.startswith("Python cannot read this cell: '(' was never closed")
    assert "line 1" in found["g"].trouble
    assert run(found["h"], "h")(2) == 2


def test_what_comes_later_and_reuses_a_name_changes_nothing():
    made = notebook(
        "def helper(x):\n    return x + 1",
        "def f(x):\n    return helper(x) + late(x)",
        "helper = 'something else'",
        "def late(x):\n    return 10",
    )
    assert run(answers(made, ["f"])["f"], "f")(1) == 12


HONEST = {
    "a bracket and a percent sign": "x = (7\n    % 4)\ndef f(a):\n    return a + x",
    "another format": "s = ('%d'\n     % 3)\ndef f(a):\n    return a + int(s)",
    "a separator in a comment": "# one\u2028two\x0c\nx = 3\ndef f(a):\n    return a + x",
    "two in a line": "a = [\n 1]; x = 3\ndef f(a):\n    return a + x",
    "a list that grows": "xs = []\nfor i in range(3):\n    xs.append(1)\ndef f(a):\n    return a + sum(xs)",
    "an item": "h = {}\nh['x'] = 3\ndef f(a):\n    return a + h['x']",
    "an update": "h = {}\nh.update(x=3)\ndef f(a):\n    return a + h['x']",
    "an attribute": "class H:\n    pass\nH.x = 3\ndef f(a):\n    return a + H.x",
    "an attribute of its own": "def f(a):\n    return a + f.x\nf.x = 3",
    "added to a class": (
        "def add(to):\n    return lambda g: setattr(to, g.__name__, g)\nclass U:\n    pass\n"
        "@add(U)\ndef three(self):\n    return 3\ndef f(a):\n    return a + U().three()"
    ),
    "types that come later": (
        "from __future__ import annotations\ndef f(a: Later) -> Tensor:\n    return a + 3"
    ),
    "a name that is used again": "def f(a):\n    return a + 3\nfor f in [1, 2]:\n    print(f)",
    "a mark at the start": "\ufeffdef f(a):\n    return a + 3",
    "help": "f?\ndef f(a):\n    return a + 3",
    "a shell's answer": "x = !ls\ndef f(a):\n    return a + 3",
    "a long command": "!pip install a \\\n    b\nimport math\ndef f(a):\n    return a + math.sqrt(9)",
    "a timed cell": "%%time\ndef f(a):\n    return a + 3",
    "a magic in a loop": "for i in range(2):\n    %time i\ndef f(a):\n    return a + 3",
}


@pytest.mark.parametrize("code", HONEST.values(), ids=HONEST)
def test_what_people_write_is_understood(code):
    found = answers(notebook(code), ["f"])["f"]
    assert not found.trouble
    assert run(found, "f")(1) == 4


def test_a_broken_copy_or_another_language_does_not_cost_the_answer():
    right = "def f(a):\n    return a + 3"
    broken = ({"exercise": "f"}, "def f(a:\n    return")
    for made in (
        notebook(({"exercise": "f"}, right), broken),
        notebook(broken, ({"exercise": "f"}, right)),
        notebook(right, "%%writefile old.py\ndef f(a):\n    return 0"),
        notebook(right, "%%bash\nf=3"),
    ):
        assert run(answers(made, ["f"])["f"], "f")(1) == 4


def test_odd_cells_are_cells_without_a_text():
    made = {"cells": [{"cell_type": "code", "source": s} for s in (5, None, True, ["a", 3], {})]}
    assert [cell.text for cell in cells.code(made)] == ["", "", "", "a", ""]


def test_it_says_which_other_answers_it_uses_and_takes_ours_in_their_place():
    made = notebook(
        "def g(x):\n    return x + 1",
        "g = check(g)",
        "def f(x):\n    return g(x) * 2",
        "f = check(f)",
    )
    found = answers(made, ["f", "g"])
    assert (found["f"].uses, found["g"].uses) == (("g",), ())
    ours = {"g": "from operator import neg as g", "f": "from operator import pos as f"}
    assert run(answers(made, ["f", "g"], ours)["f"], "f")(3) == -6
    assert run(answers(made, ["f", "g"], ours)["g"], "g")(3) == 4


def test_an_answer_under_another_name_counts():
    made = notebook(
        "def f(x):\n    raise NotImplementedError",
        "def my_own(x):\n    return x + 1",
        "f = check(my_own, 'f')",
        "g = check(lambda x: f(x) * 2)",
    )
    found = answers(made, ["f", "g"])
    assert run(found["f"], "f")(1) == 2
    assert run(found["g"], "g")(1) == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a notebook: no JSON"),
        (b"\xff\xfe\x00", "is not a notebook: no JSON"),
        (b"[1, 2]", "no list of cells"),
        (b'{"cells": 3}', "no list of cells"),
        (b'{"cells": [3]}', "no list of cells"),
        (b"[" * 100_000, "is not a notebook"),
    ],
)
def test_what_is_no_notebook_is_said(tmp_path, content, said):
    (tmp_path / "x.ipynb").write_bytes(content)
    with pytest.raises(NotANotebook, match=said):
        cells.read(tmp_path / "x.ipynb")


def test_one_that_holds_more_than_memory_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "MOST", 1000)
    (tmp_path / "x.ipynb").write_text('{"cells": [], "x": [' + "[[]]," * 999 + "0]}")
    with pytest.raises(NotANotebook, match="more than 1,000 values"):
        cells.read(tmp_path / "x.ipynb")


def test_one_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "LARGEST", 10)
    (tmp_path / "x.ipynb").write_text(json.dumps(notebook("x = 1")))
    with pytest.raises(NotANotebook, match="Clear its outputs"):
        cells.read(tmp_path / "x.ipynb")


@pytest.mark.parametrize("lesson", find_lessons(ROOT), ids=lambda lesson: lesson.name)
def test_every_solution_of_every_lesson_stands_alone(lesson):
    """All names that a solution needs are there once its text has been run."""
    solved = json.loads(json.dumps(lesson.solved()))
    found = answers(solved, lesson.exercises())
    for name, answer in found.items():
        assert not answer.trouble
        assert callable(run(answer, name)), name
    assert bank.rights(name)
