"""`tfcourse class check NOTEBOOK`: the visible checks on a notebook, each in a process of its own.

For students, before they hand in, and for the workflow of their repository. It shows what `check`
shows in the notebook; the class is graded with other cases too, and in a sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfcourse.checks.exercise import Exercise
from tfcourse.checks.judging import judge
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect_apart
from tfcourse.classroom import cells
from tfcourse.classroom.answers import Answer, answers
from tfcourse.classroom.cells import Code, NotANotebook
from tfcourse.classroom.judge import tested

SECONDS = 60  # for an exercise, with the start of its process


def check_notebook(path: Path, *, seconds: float = SECONDS) -> list[tuple[str, str, str]]:
    """(exercise, "right" | "wrong" | "to do", a sentence) for every exercise of its lesson.

    Raises:
        NotANotebook: the file cannot be read, or holds no exercise of the course.
        OSError: there is no such file.
    """
    code = cells.code(cells.read(path))
    found = _exercises(path, code)
    names = [exercise.name for exercise in found]
    rows, amiss = [], {}  # what is not right -> the text that brings ours
    for exercise in found:
        # As in the notebook: the lesson goes on with ours where theirs is not right.
        answer = answers(code, names, amiss)[exercise.name]
        state, said = _judged(exercise, answer, seconds)
        if state != "right" and exercise.name in tested():
            amiss[exercise.name] = tested()[exercise.name]
        rows.append((exercise.name, state, said))
    return rows


def table(path: Path) -> str:
    """What `check_notebook` finds, as text: the file, a line an exercise, how many are right."""
    rows = check_notebook(path)
    wide = max(len(name) for name, _, _ in rows)
    lines = [f"{name:{wide}}  {state:5}  {said}" for name, state, said in rows]
    right = sum(state == "right" for _, state, _ in rows)
    return "\n".join([f"{path}:", *lines, f"{right} of {len(rows)} exercises are right."])


def _judged(exercise: Exercise, answer: Answer, seconds: float) -> tuple[str, str]:
    if answer.trouble:
        return "wrong", answer.trouble
    if not answer.source:
        return "to do", f"There is no `{exercise.name}` in the notebook."
    outputs = collect_apart(answer.source, exercise.name, exercise.cases(), seconds=seconds)
    verdict = judge(exercise, outputs)
    return verdict.state, " ".join(verdict.message.split())


def _exercises(path: Path, code: Sequence[Code]) -> list[Exercise]:
    """Those of the lesson that its cells are for, or that it is called after; in its order."""
    known = exercises()
    written = [cell.exercise for cell in code if cell.exercise in known]
    lessons = [known[name].lesson for name in written]
    lessons += [e.lesson for e in known.values() if path.stem.startswith(e.lesson)]
    if not lessons:
        raise NotANotebook(
            "It holds no exercise of the course. Give a lesson's notebook, for example "
            "notebooks/01_attention.ipynb."
        )
    lesson = max(lessons, key=lessons.count)
    places = {name: place for place, name in enumerate(written)}
    found = [exercise for exercise in known.values() if exercise.lesson == lesson]
    return sorted(found, key=lambda exercise: places.get(exercise.name, len(places)))
