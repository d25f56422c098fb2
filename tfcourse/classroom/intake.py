"""What a class handed in, however it comes: whose it is, of which lesson, when, which try.

Nothing is run here, and nothing is written but plain files with our own names, straight into one
folder.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tfcourse.classroom import cells, platforms
from tfcourse.classroom.columns import Roster, folded, is_exported, read_roster
from tfcourse.classroom.handed_in import (
    File,
    Folder,
    Reader,
    clean,
    instead,
    is_zip,
    natural,
    on_disk,
    why,
)
from tfcourse.classroom.owners import Gathered, Hand, People
from tfcourse.classroom.records import Student, Submission, Trouble

__all__ = ["Roster", "Taken", "is_exported", "read_roster", "take"]


@dataclass(frozen=True)
class Taken:
    """What was handed in, and what could not be taken.

    Attributes:
        students: the roster's, in its order; then others, by name.
        submissions: by student, lesson and turn.
    """

    students: tuple[Student, ...]
    submissions: tuple[Submission, ...]
    troubles: tuple[Trouble, ...]


def take(
    given: Path,
    into: Path,
    lessons: dict[str, list[str]],
    roster: Roster | None = None,
    deadline: datetime | None = None,
    lesson: str = "",
) -> Taken:
    """All submissions in a folder or a zip, or a single one.

    Args:
        into: an empty folder, for what is in zips; the files of a folder are read where they are.
        lessons: a lesson's name -> the names of its exercises.
        deadline: in local time if it has no zone.
        lesson: what a notebook is where nothing else says it.

    Raises:
        ValueError: there is no such folder or file, or it is of another kind; the roster is the
            worksheet of another assignment of Moodle's.
    """
    handed, troubles = _handed(Path(given), Reader(Path(into)), People(lessons, roster))
    _look_at_numbers(handed, roster)
    every = Gathered(handed, roster)
    sorter = _Sorter(lessons, deadline, lesson)
    submissions: list[Submission] = []
    for student in every.students:
        found, said = sorter.sort(student.key, every.hands.get(student.key, []))
        submissions += found
        troubles += said
    return Taken(every.students, tuple(submissions), (*every.troubles, *troubles))


def _look_at_numbers(handed: list[Hand], roster: Roster | None) -> None:
    """Raise where Moodle's numbers, which are others in each assignment, do not meet."""
    listed = {platforms.number(student.known) for student in roster.students} if roster else set()
    came = {platforms.number(hand.known) for hand in handed}
    listed, came = listed - {""}, came - {""}
    if listed and came and not listed & came:
        raise ValueError(
            f"The worksheet says “Participant {min(listed)}”, the names of the files say "
            f"“{min(came)}”, and no number is in both: the worksheet is that of another "
            "assignment. Download the one of this assignment."
        )


def _handed(given: Path, reader: Reader, people: People) -> tuple[list[Hand], list[Trouble]]:
    """What each person handed in, and what is nobody's and cannot be taken."""
    if given.suffix.lower() == ".ipynb" and given.is_file():
        file = on_disk(given, clean(given.name))
        place = Folder(clean(given.resolve().parent.name), "", files=[file])
        named = platforms.named(file.name)
        handed = [*people.within(place)] if named else [people.by_file(file, place)]
    elif given.is_dir() or (given.is_file() and is_zip(given.name)):
        place = reader.read(given)
        handed = [*people.within(place, top=True)]
    else:
        what = "is no folder, no zip and no notebook" if given.exists() else "is not there"
        says = f"{given} {what}. Give the folder or the zip with what the class handed in."
        raise ValueError(says)
    troubles = reader.troubles + people.strays(place, handed)
    if not handed and not troubles:
        troubles.append(Trouble(clean(given.name), "Nothing that was handed in was found here."))
    return handed, troubles


@dataclass(frozen=True)
class _Found:
    """A notebook that was read: its lesson, if that is known, and what tells tries apart.

    `sure` is one whose cells say the lesson, not its name alone.
    """

    file: File
    lesson: str
    sure: bool
    late: bool
    digest: str


class _Sorter:
    """Tells a student's notebooks by lesson and by turn."""

    def __init__(self, lessons: dict[str, list[str]], deadline: datetime | None, lesson: str):
        self.lessons = lessons
        self.deadline = deadline.astimezone() if deadline else None
        self.lesson = lesson

    def sort(self, key: str, hands: list[Hand]) -> tuple[list[Submission], list[Trouble]]:
        """The submissions of a student, and what of theirs could not be taken."""
        found: list[_Found] = []
        said: list[Trouble] = []
        other: list[str] = []
        for file, late in [(file, hand.late) for hand in hands for file in hand.files]:
            if file.says:
                said.append(Trouble(file.shown, file.says, key))
            elif not (file.notebook and file.path):
                other.append(file.name)
            else:
                one = self._read(file, late)
                if isinstance(one, _Found):
                    found.append(one)
                else:
                    said.append(Trouble(file.shown, one, key))
        if hands and not found and not said:
            said.append(Trouble(hands[0].shown, instead(other), key))
        known = [one for one in found if one.sure] or [one for one in found if one.lesson]
        if not known and not self.lesson:
            says = "No exercise of any lesson was found in this notebook. Say with --lesson of "
            says += "which lesson it is."
            said += [Trouble(one.file.shown, says, key) for one in found]
        known = known or [replace(one, lesson=self.lesson) for one in found if self.lesson]
        taken = []
        for lesson in dict.fromkeys([*self.lessons, self.lesson]):
            taken += self._turns(key, lesson, [one for one in known if one.lesson == lesson])
        return taken, said

    def _turns(self, key: str, lesson: str, found: list[_Found]) -> list[Submission]:
        """One lesson's, by time; the same bytes count once, as late as they were handed in first.

        Who hands in the first one again after a second one means it to count.
        """
        found.sort(key=lambda one: (_instant(one.file.when), one.late, natural(one.file.stem)))
        kept = found[:1] + [b for a, b in pairwise(found) if a.digest != b.digest]
        last = {one.digest: i for i, one in enumerate(kept)}
        kept = [one for i, one in enumerate(kept) if last[one.digest] == i]
        return [
            Submission(
                student=key,
                lesson=lesson,
                path=one.file.path,
                shown=one.file.shown,
                when=one.file.when.isoformat(timespec="seconds") if one.file.when else "",
                late=self._late(one),
                turn=turn,
            )
            for turn, one in enumerate(kept, 1)
        ]

    def _late(self, one: _Found) -> bool:
        end = self.deadline.timestamp() if self.deadline else math.inf
        return one.late or _instant(one.file.when) > end

    def _read(self, file: File, late: bool) -> _Found | str:
        """The notebook; or why it cannot be read."""
        try:
            notebook = cells.read(file.path)
            with open(file.path, "rb") as source:
                digest = hashlib.file_digest(source, "sha256").hexdigest()
            lesson = self._by_cells(notebook, file)
            named = lesson or self._by_name(file, self.lessons)
            return _Found(file, named, bool(lesson), late, digest)
        except cells.NotANotebook as error:
            return str(error)
        except MemoryError:
            return "There is not enough memory to read it. Clear its outputs and hand it in again."
        except OSError as error:
            return why(error)
        except Exception as error:  # nobody thought of it: the others are taken all the same
            return f"It cannot be read ({type(error).__name__})."

    def _by_cells(self, notebook: dict, file: File) -> str:
        """The lesson that its cells say they are of, else whose exercises they define; or ""."""
        said, defined = set(), set()
        for cell in notebook["cells"]:
            metadata = cell.get("metadata")
            exercise = metadata.get("exercise") if isinstance(metadata, dict) else None
            if isinstance(exercise, str):
                said.add(exercise)
            if cell.get("cell_type") == "code":
                text = cells.text_of(cell)
                defined |= set(re.findall(r"^[ \t]*(?:async +)?(?:def|class) +(\w+)", text, re.M))
        for names in (said, defined):
            common = Counter({x: len(names & set(own)) for x, own in self.lessons.items()})
            most = max(common.values(), default=0)
            best = [lesson for lesson, count in common.items() if count == most and most]
            if best:
                return self._by_name(file, best) or best[0]
        return ""

    def _by_name(self, file: File, lessons: Iterable[str]) -> str:
        """The lesson that the name of a file says; or ""."""
        said = f"_{re.sub(r'[^0-9a-z]+', '_', folded(file.stem))}_"
        for lesson in sorted(lessons, key=len, reverse=True):
            topic = lesson.partition("_")[2]
            if f"_{lesson}_" in said or (topic and f"_{topic}_" in said):
                return lesson
        return ""


def _instant(when: datetime | None) -> int:
    return int(when.timestamp()) if when else 0
