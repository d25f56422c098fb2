"""Exercises that say what was misunderstood, hints, questions and the learner's progress.

>>> attention_weights = check(attention_weights)

`check` finds the exercise by name. Right: it says so, records it and returns the learner's own.
Not attempted, or wrong: it says what is wrong and returns the tested implementation, so that the
lesson goes on. Under `TFCOURSE_STRICT=1` or nbgrader it raises instead.
"""

from __future__ import annotations

import os
import sys

from tfcourse.checks import store
from tfcourse.checks.judging import Verdict, judge
from tfcourse.checks.registry import exercises, find_exercise, find_question, questions
from tfcourse.checks.running import collect
from tfcourse.checks.telling import Message, verdict_message

__all__ = ["CheckFailed", "check", "find_exercise", "hint", "progress", "quiz", "reveal"]


class CheckFailed(AssertionError):
    """An answer that is wrong or missing, where the course grades instead of teaching."""


def check(answer, name: str | None = None):
    """Check an answer and return what the lesson goes on with.

    Args:
        answer: the learner's function or class.
        name: of the exercise, where it is not the answer's own name.
    Returns:
        the answer where it is right or the exercise is graded, else the tested implementation.
    Raises:
        CheckFailed: the answer is not right, under `TFCOURSE_STRICT=1` or nbgrader.
        TypeError: the answer cannot be called: a call's result was given, not the function.
        ValueError: no exercise has that name.
    """
    if not callable(answer):
        raise TypeError(
            "answer: expected your function or class itself, as in check(my_function), "
            f"got {type(answer).__name__}"
        )
    exercise = find_exercise(name or _name_of(answer))
    try:
        verdict = judge(exercise, collect(answer, [c.inputs() for c in exercise.cases()]))
    except KeyboardInterrupt:
        said = "You interrupted it. Does a loop in your code never end?"
        verdict = Verdict(exercise, "wrong", "interrupted", said)
    if _strict() and not verdict.right:
        raise CheckFailed(repr(verdict_message(verdict, with_picture=False)))
    if verdict.state != "to do":
        store.record_exercise(exercise.name, verdict.state, verdict.diagnosis)
    _show(verdict_message(verdict))
    return answer if verdict.right or exercise.graded else exercise.reference


def hint(name) -> None:
    """Show the hints of an exercise, one more at each call."""
    exercise = find_exercise(name if isinstance(name, str) else _name_of(name))
    seen = store.read()["exercises"].get(exercise.name, {}).get("hints", 0)
    seen = min(seen + 1 if isinstance(seen, int) else 1, len(exercise.hints))
    store.record_hint(exercise.name, seen)
    for i, text in enumerate(exercise.hints[:seen], 1):
        _show(Message("note", f"Hint {i} of {len(exercise.hints)}", text))
    if seen == len(exercise.hints):
        _show(Message("note", "Still stuck?", f'`reveal("{exercise.name}")` shows a solution.'))


def reveal(name) -> None:
    """Show the solution of an exercise, where the folder solutions/ is there."""
    from tfcourse.checks.solutions import find_solution

    exercise = find_exercise(name if isinstance(name, str) else _name_of(name))
    code = find_solution(exercise)
    if code is None:
        said = "Solutions are not part of this copy of the course. Ask your teacher, or see the "
        said += f'hints: hint("{exercise.name}").'
        _show(Message("note", exercise.name, said))
        return
    store.record_revealed(exercise.name)
    _show(Message("note", exercise.name, "One way to write it:", code=code))


def quiz(name: str, answer: str | None = None) -> None:
    """Ask a question; or answer it, quiz("name", "b"), which the progress board remembers."""
    item = find_question(name)
    if answer is None:
        from tfcourse.widgets import Question

        options = [(o.text, o.right, o.feedback) for o in item.options]
        _show(Question(item.name, item.prompt, options))
        return
    option = item.option(answer)
    store.record_question(item.name, answer.strip().lower(), option.right)
    said = f"{option.text} — {option.feedback}"
    _show(Message("right" if option.right else "wrong", answer.strip().lower(), said))


def progress() -> None:
    """Show the progress board: every exercise and question of every lesson."""
    from tfcourse.checks.board import Board

    _show(Board(exercises(), questions(), store.read()))


def _name_of(answer) -> str:
    """The answer's own name, or (a lambda, a partial) what it is called where `check` was."""
    name = getattr(answer, "__name__", "")
    if name in exercises():
        return name
    caller = sys._getframe(2).f_globals
    named = [key for key, value in caller.items() if value is answer and key in exercises()]
    return named[0] if named else name


def _strict() -> bool:
    return os.environ.get("TFCOURSE_STRICT") == "1" or "NBGRADER_EXECUTION" in os.environ


def _show(thing) -> None:
    """Display in a notebook, print elsewhere."""
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        sys.modules["IPython"].display.display(thing)
    else:
        print(repr(thing))
