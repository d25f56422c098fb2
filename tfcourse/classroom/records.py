"""What a class's results are made of: plain data, which goes to `results.json` and comes back."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

FORMAT = 1


@dataclass(frozen=True)
class Student:
    """One of the class.

    Attributes:
        key: theirs alone, and fit to be a file's name.
        name: as the roster has it; without a roster, as the submission has it.
        known: what else the roster says of them, by the names of its columns.
    """

    key: str
    name: str
    known: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Submission:
    """One notebook that was handed in.

    Attributes:
        student: the key of whose it is.
        lesson: for example "01_attention".
        path: where it can be read now; a regular file.
        shown: where it was found, in words for the teacher: within the zip or folder given.
        when: the time of handing in, as ISO 8601; "" where nothing says it.
        late: after the deadline, or marked so by where it came from.
        turn: 1 for their first of this lesson, 2 for the second; the last one counts.
    """

    student: str
    lesson: str
    path: Path
    shown: str
    when: str = ""
    late: bool = False
    turn: int = 1


@dataclass(frozen=True)
class Trouble:
    """A file that cannot be taken: which, a sentence that says why, and whose it is if known."""

    shown: str
    says: str
    student: str = ""


@dataclass(frozen=True)
class Mark:
    """What came of one exercise of a submission.

    Attributes:
        state: "right", "wrong", "to do"; "not judged" where that was not the answer's doing.
        diagnosis: its short id.
        says: to the learner; shows no hidden case and nothing that was expected of one.
        points: of `of`; 0 of 0 for an exercise that is for practice.
        hidden: the cases that the learner can see are right, a hidden one is not.
        picture: HTML of a drawing, theirs beside what is right, of a case that they can see; or "".
        look: to the teacher, why to look at it; or "".
    """

    exercise: str
    state: str
    diagnosis: str
    says: str
    points: float = 0.0
    of: float = 0.0
    hidden: bool = False
    picture: str = ""
    look: str = ""


@dataclass(frozen=True)
class Graded:
    """A submission with its marks, in the order of the lesson.

    `digest` is of the notebook and of all that grades it: where it is the same, so are the marks.
    """

    student: str
    lesson: str
    shown: str
    marks: tuple[Mark, ...]
    when: str = ""
    late: bool = False
    turn: int = 1
    digest: str = ""

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks)

    @property
    def of(self) -> float:
        return sum(mark.of for mark in self.marks)


@dataclass(frozen=True)
class Title:
    """An exercise as it is called on a page; `points` is 0 where it is for practice."""

    name: str
    title: str
    points: float = 0.0


@dataclass(frozen=True)
class Results:
    """All of it, for every page and table.

    Attributes:
        students: of the roster, in its order; then those that only handed in.
        lessons: the lesson's name -> its exercises, for each lesson that somebody handed in.
        graded: every submission that could be read.
        troubles: every file that could not.
        when: of grading, as ISO 8601.
        unsafe: without a sandbox.
        titles: the lesson's name -> its title.
    """

    students: tuple[Student, ...]
    lessons: dict[str, tuple[Title, ...]]
    graded: tuple[Graded, ...]
    troubles: tuple[Trouble, ...] = ()
    when: str = ""
    unsafe: bool = False
    titles: dict[str, str] = field(default_factory=dict)

    @cached_property
    def tries(self) -> dict[tuple[str, str], list[Graded]]:
        """(student, lesson) -> what was handed in, in the order of time; the last one counts."""
        found: dict[tuple[str, str], list[Graded]] = {}
        for graded in sorted(self.graded, key=lambda graded: graded.turn):
            found.setdefault((graded.student, graded.lesson), []).append(graded)
        return found

    def counts(self, student: str, lesson: str) -> Graded | None:
        """The submission that counts, if there is one."""
        return self.tries.get((student, lesson), [None])[-1]


def write(results: Results, path: Path) -> None:
    """As JSON that a program or a person can read; the drawings are on the pages alone."""
    found = {"format": FORMAT} | asdict(results)
    for record, graded in zip(found["graded"], results.graded, strict=True):
        record |= {"points": graded.points, "of": graded.of}
        for mark in record["marks"]:
            del mark["picture"]
    put((json.dumps(found, indent=1) + "\n").encode(), path)


def read(path: Path) -> Results:
    """What `write` has written.

    Raises:
        ValueError: the file holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Results(
            students=_all(Student, found["students"]),
            lessons={name: _all(Title, rows) for name, rows in found["lessons"].items()},
            graded=_all(Graded, found["graded"]),
            troubles=_all(Trouble, found["troubles"]),
            when=found["when"],
            unsafe=found["unsafe"],
            titles=found["titles"],
        )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} does not hold the results of a class ({error}).") from None


def _all(kind: type, rows: Sequence[dict]) -> tuple:
    return tuple(_one(kind, row) for row in rows)


def _one(kind: type, row: dict):
    row = {name: row[name] for name in kind.__dataclass_fields__ if name in row}
    if kind is Graded:
        row["marks"] = _all(Mark, row["marks"])
    return kind(**row)


def put(content: bytes, path: Path) -> None:
    """Write a file whole or not at all: a draft of this thread's own, then its name."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def now() -> str:
    """The time, as ISO 8601 with the zone's offset."""
    return datetime.now().astimezone().isoformat(timespec="seconds")
