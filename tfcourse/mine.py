"""What the learner wrote, given back: theirs where it passed its check, the course's where not.

>>> from tfcourse import mine
>>> mine.attention_weights(q, k, mask)
`attention_weights`: yours, of 12 November.

`check` keeps the source of an answer that passed in the learner's data folder, as text. Nothing of
it is run until its name is asked for. A text that has not been checked as it stands, with this
version of the course, is checked first, in a process that may end badly or not at all. What does
not pass is set aside, never deleted, and the lesson goes on with ours.

Where the course grades (`TFCOURSE_STRICT=1`, nbgrader) everything is ours.
"""

from __future__ import annotations

import dis
import os
import sys
from datetime import datetime
from html import escape

from tfcourse.checks import _show, find_exercise, keeping, store
from tfcourse.checks.exercise import Exercise
from tfcourse.checks.judging import Verdict, judge
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect_apart

SECONDS = 30  # for a check in another process, and four times what it took when it passed

_held: dict[str, tuple[object, object]] = {}  # name -> the state of its file, what was given
_said: dict[str, str] = {}  # name -> the last line about it


def __getattr__(name: str):
    # What Python and IPython ask for is never an answer, and the Tab key must not run one.
    if name.startswith("_") or sys._getframe(1).f_globals.get("__name__", "").startswith("jedi."):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        exercise = find_exercise(name)
    except ValueError as error:
        raise _missing(str(error).removeprefix("name: ")) from None
    state = _state_of_file(name)
    if name not in _held or _held[name][0] != state:
        given, line = _theirs(exercise) if state else (None, _about_ours(exercise))
        now = _state_of_file(name)  # checked, it has a stamp; set aside, it is gone
        # Where another kernel has kept a newer one meanwhile, that is for the next time.
        state = now if now is None or given is not None else state
        _held[name] = state, exercise.reference if given is None else given
        if line and _said.get(name) != line:
            _said[name] = line
            print(line)
    if _held[name][1] is None:
        when = "where the course grades" if keeping.is_off() else "yet"
        raise _missing(
            f"there is no {name} {when}. It is graded, so the course has none of its own; yours "
            f"is there once its check in lesson {exercise.lesson[:2]} has passed."
        )
    return _held[name][1]


def __dir__() -> list[str]:
    return [*exercises(), "report"]


def report() -> None:
    """Show which answers are the learner's own and which the course's, lesson by lesson."""
    _show(Report(exercises(), {} if keeping.is_off() else store.kept_answers()))


class Report:
    """Whose answer `mine` gives for every exercise, as a table and as text.

    Args:
        kept: since when an answer is kept, by the exercise's name: `store.kept_answers()`.
    """

    def __init__(self, exercises: dict[str, Exercise], kept: dict[str, datetime]):
        self.lessons: dict[str, list[tuple[str, str]]] = {}
        for name, exercise in exercises.items():
            whose = "to do" if exercise.graded else "ours"
            whose = f"yours, of {_day(kept[name])}" if name in kept else whose
            self.lessons.setdefault(exercise.lesson, []).append((name, whose))

    def __repr__(self) -> str:
        return "\n".join(
            f"{lesson} · " + ", ".join(f"{name}: {whose}" for name, whose in parts)
            for lesson, parts in self.lessons.items()
        )

    def _repr_mimebundle_(self, include=None, exclude=None):
        rows = "".join(
            f'<tr><td style="text-align:left">{escape(lesson if i == 0 else "")}</td>'
            f'<td style="text-align:left"><code>{escape(name)}</code></td>'
            f'<td style="text-align:left">{escape(whose)}</td></tr>'
            for lesson, parts in self.lessons.items()
            for i, (name, whose) in enumerate(parts)
        )
        html = "<table><caption>What <code>mine</code> gives you</caption>"
        html += f"<tr><th>Lesson</th><th>Name</th><th>Whose</th></tr>{rows}</table>"
        return {"text/plain": repr(self), "text/html": html}


def _state_of_file(name: str) -> object:
    """Changes with every writing of the kept answer; None where there is none to be used."""
    if keeping.is_off():
        return None
    try:
        state = os.stat(store.answer_path(name))
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def _theirs(exercise: Exercise) -> tuple[object, str]:
    """The learner's own and a line that says so; or None and a line that says why not."""
    name = exercise.name
    content = store.read_answer(name)
    if content is None:
        return None, _about_ours(exercise)
    try:
        record = store.sound_answer(content)
    except ValueError as error:
        return None, _set_aside(exercise, content, str(error))
    source, day = record["source"], _day(datetime.fromisoformat(record["kept"]))
    passed = keeping.stamp(exercise, source)
    if record["passed"] != passed:
        seconds = round(SECONDS + 4 * record["seconds"])
        try:
            apart = collect_apart(source, name, exercise.cases(), seconds=seconds)
        except OSError as error:  # no other process can be started here
            return None, f"`{name}`: ours; yours could not be checked ({error})."
        verdict = judge(exercise, apart)
        if not verdict.right:
            return None, _set_aside(exercise, content, _why(verdict, apart[0].error))
        store.stamp_answer(name, content, passed)
    try:
        return keeping.define(name, source), f"`{name}`: yours, of {day}."
    except (Exception, SystemExit) as error:
        return None, _set_aside(exercise, content, f"raises {keeping.named(error)}")


def _why(verdict: Verdict, error: dict | None) -> str:
    """What no longer passes, in words that follow "yours"."""
    if error is None:
        return f"no longer passes its check ({verdict.diagnosis})"
    if error["type"] == "Crash":
        return error["message"]
    return f"raises {error['type']}: {error['message']}".rstrip(": .")


def _set_aside(exercise: Exercise, content: bytes, why: str) -> str:
    aside = store.set_answer_aside(exercise.name, content)
    where = f"is set aside as answers/aside/{aside.name}" if aside else "is left where it is"
    ours = "not there" if exercise.graded else "ours"
    return f"`{exercise.name}`: {ours}; yours {why}, and {where}."


def _about_ours(exercise: Exercise) -> str:
    name = exercise.name
    if exercise.graded:
        return ""
    if keeping.is_off():
        return f"`{name}`: ours, as always where the course grades."
    if "right" in store.read()["exercises"].get(name, {}):
        return f"`{name}`: ours; yours passed, but is not kept here: run its check again."
    return f"`{name}`: ours; yours is kept once its check passes."


def _day(when: datetime) -> str:
    year = "" if when.year == datetime.now().year else f" {when.year}"
    return f"{when.day} {when:%B}{year}"


def _missing(sentence: str) -> Exception:
    """`from tfcourse.mine import x` would replace an AttributeError's words by its own."""
    frame = sys._getframe(2)
    importing = dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"
    return (ImportError if importing else AttributeError)(f"mine: {sentence}")
