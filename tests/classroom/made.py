"""A made class: notebooks as learners hand them in, and worse."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.conftest import ROOT
from tests.wrong_answers import attempts
from tfcourse.authoring.lesson import Lesson
from tfcourse.checks.registry import exercises
from tfcourse.checks.solutions import find_solution
from tfcourse.classroom.answers import answers
from tfcourse.classroom.cells import Code


@cache
def released(lesson: str) -> str:
    return (ROOT / "notebooks" / f"{lesson}.ipynb").read_text(encoding="utf-8")


def notebook(lesson: str, answers: dict[str, str] | None = None) -> dict:
    """The learner's notebook, with these texts in the cells of these exercises."""
    made = json.loads(released(lesson))
    for cell in made["cells"]:
        name = cell["metadata"].get("exercise")
        if name in (answers or {}):
            cell["source"] = textwrap.dedent(answers[name]).strip("\n")
    return made


def solved(lesson: str) -> dict[str, str]:
    """Our own answer to every exercise of a lesson."""
    names = [e.name for e in exercises().values() if e.lesson == lesson]
    return {name: find_solution(exercises()[name]) for name in names}


def solved_notebook(lesson: str) -> dict:
    return json.loads(json.dumps(Lesson(ROOT / "solutions" / f"{lesson}.py").solved()))


def text_of(answer: Callable, name: str) -> str:
    """An answer of the bank as a learner would have it in a cell: under the exercise's name."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(answer)))
    for node in tree.body:
        if getattr(node, "decorator_list", []):
            node.decorator_list = []
    own = answer.__name__
    [found] = answers([Code(ast.unparse(tree))], [own]).values()
    return f"{found.source}\n{name} = {own}"


def wrong_texts(name: str) -> dict[str, str]:
    """A wrong answer of the bank for each diagnosis."""
    found = {}
    for attempt in attempts():
        if attempt.exercise == name and attempt.diagnosis != "right":
            found.setdefault(attempt.diagnosis, text_of(attempt.answer, name))
    return found


def write(made: dict, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made), encoding="utf-8")
    return path
