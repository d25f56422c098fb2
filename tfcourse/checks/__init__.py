"""Exercises that say what was misunderstood, hints, questions and the learner's progress.

>>> attention_weights = check(attention_weights)

`check` finds the exercise by name. Right: it says so, records it and returns the learner's own.
Not attempted, or wrong: it says what is wrong and returns the tested implementation, so that the
lesson goes on. What was right is kept, and `tfcourse.mine` gives it back on another day. Under
`TFCOURSE_STRICT=1` or nbgrader it raises instead.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from tfcourse.checks import keeping, store
from tfcourse.checks.judging import Verdict, judge
from tfcourse.checks.registry import exercises, find_exercise, find_question
from tfcourse.checks.running import collect
from tfcourse.checks.telling import Message, verdict_message

__all__ = ["CheckFailed", "check", "find_exercise", "hint", "progress", "quiz", "reveal"]


_last: dict[str, Verdict] = {}  # of the learner's own answers in this kernel
_AGAIN = {
    "wrong": "This is still your last answer's verdict. Change your cell, run it, then this one.",
    "to do": "Change your cell, run it, then this one.",
}


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
        CheckFailed: the answer is not right, under `TFCOURSE_STRICT=1`; under nbgrader where it is
            graded.
        TypeError: the answer cannot be called: a call's result was given, not the function.
        ValueError: no exercise has that name.
    """
    if not callable(answer):
        raise TypeError(
            "answer: expected your function or class itself, as in check(my_function), "
            f"got {type(answer).__name__}"
        )
    exercise = find_exercise(name or _name_of(answer))
    if _is_second_press(exercise, answer):
        last = _last[exercise.name]
        _show(verdict_message(replace(last, message=f"{last.message} {_AGAIN[last.state]}")))
        return answer
    began = time.monotonic()
    try:
        outputs = collect(answer, [c.inputs() for c in exercise.cases()])
        seconds = time.monotonic() - began
        verdict = judge(exercise, outputs)
    except KeyboardInterrupt:
        said = "You interrupted it. Does a loop in your code never end?"
        verdict = Verdict(exercise, "wrong", "interrupted", said)
    if keeping.raises(exercise) and not verdict.right:
        raise CheckFailed(repr(verdict_message(verdict, with_picture=False)))
    if verdict.diagnosis != "library":
        _last[exercise.name] = verdict
    saved = verdict.state != "to do" and store.record_exercise(
        exercise.name, verdict.state, verdict.diagnosis
    )
    _show(verdict_message(verdict))
    if verdict.right and saved:  # where nothing can be written the learner knows by now
        said = keeping.keep(exercise, answer, seconds)
        if said:
            _show(Message("note", exercise.name, said))
    return answer if verdict.right or exercise.graded else exercise.reference


def hint(name) -> None:
    """Show the hints of an exercise, one more at each call."""
    exercise = find_exercise(name if isinstance(name, str) else _name_of(name))
    seen = _hints_seen(store.read()["exercises"].get(exercise.name, {}))
    seen = min(seen + 1, len(exercise.hints))
    store.record_hint(exercise.name, seen)
    for i, text in enumerate(exercise.hints[:seen], 1):
        _show(Message("note", f"Hint {i} of {len(exercise.hints)}", text))
    if seen == len(exercise.hints):
        _show(Message("note", "Still stuck?", f'`reveal("{exercise.name}")` shows a solution.'))


def reveal(name, *, anyway: bool = False) -> None:
    """Show the solution of an exercise, where the folder solutions/ is there.

    Before the third hint, and before an answer of one's own was right, only `anyway=True` does.
    """
    from tfcourse.checks.solutions import find_solution

    exercise = find_exercise(name if isinstance(name, str) else _name_of(name))
    code = find_solution(exercise)
    if code is None:
        said = "Solutions are not part of this copy of the course. Ask your teacher, or see the "
        said += f'hints: hint("{exercise.name}").'
        _show(Message("note", exercise.name, said))
        return
    entry = store.read()["exercises"].get(exercise.name, {})
    left = len(exercise.hints) - _hints_seen(entry)
    if left > 0 and "right" not in entry and not anyway:
        hints = f"{left} hints are" if left > 1 else "One hint is"
        said = (
            f'{hints} left, and a solution that you find stays with you: `hint("{exercise.name}")`.'
        )
        said += f' To see ours anyway: `reveal("{exercise.name}", anyway=True)`.'
        _show(Message("note", exercise.name, said))
        return
    store.record_revealed(exercise.name)
    _show(Message("note", exercise.name, "One way to write it:", code=code))


def quiz(name: str, answer: str | None = None) -> None:
    """Ask a question; or answer it, quiz("name", "b"). The progress board counts both."""
    item = find_question(name)
    if answer is None:
        from tfcourse.checks.clicks import listen
        from tfcourse.widgets import Question

        listen()
        options = [(o.text, o.right, o.feedback) for o in item.options]
        _show(Question(item.name, item.prompt, options, counts=True))
        return
    option = item.option(answer)
    store.record_question(item.name, answer.strip().lower(), option.right)
    said = f"{option.text} — {option.feedback}"
    _show(Message("right" if option.right else "wrong", answer.strip().lower(), said))


def progress() -> None:
    """Show the progress board: exercises and questions of every lesson, and what comes next."""
    from tfcourse.checks.board import Board

    _show(Board.now())


def _hints_seen(entry: dict) -> int:
    seen = entry.get("hints", 0)
    return seen if isinstance(seen, int) else 0


def _name_of(answer) -> str:
    """The answer's own name, or (a lambda, a partial) what it is called where `check` was."""
    name = getattr(answer, "__name__", "")
    if name in exercises():
        return name
    caller = sys._getframe(2).f_globals
    named = [key for key, value in caller.items() if value is answer and key in exercises()]
    return named[0] if named else name


def _is_second_press(exercise, answer) -> bool:
    """Whether the name still holds what `check` itself gave back instead of the learner's own.

    Then their cell has not run since: it was not run again, or it has a syntax error.
    """
    last = _last.get(exercise.name)
    given_back = last and not last.right and answer is exercise.reference
    return bool(given_back) and not keeping.is_strict()


def _show(thing) -> None:
    """Display in a notebook, print elsewhere."""
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        sys.modules["IPython"].display.display(thing)
    else:
        print(repr(thing))
