"""A class's results, counted: what a page or a summary says of more than one submission."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tfcourse.classroom.records import Graded, Mark, Results, Student, Title

SENTENCES, LONGEST = 3, 400  # of what was told, where it is shortened


@dataclass
class Misunderstood:
    """One diagnosis of one exercise: who has it, what they were told."""

    lesson: str
    exercise: str
    diagnosis: str
    whose: list[str] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    hidden: int = 0

    @property
    def says(self) -> str:
        """What most of them were told, a few sentences of it."""
        return _shortened(self.told.most_common(1)[0][0])


class Counted:
    """The results, counted; of several tries the last one."""

    def __init__(self, results: Results):
        self.results = results
        self.tries = results.tries
        keys = [(s.key, lesson) for s in results.students for lesson in results.lessons]
        self.counting = [self.tries[key][-1] for key in keys if key in self.tries]
        self.handed_in = {graded.student for graded in results.graded}
        self.in_trouble = {trouble.student for trouble in results.troubles}
        self._names = {student.key: student.name for student in results.students}
        self._often = Counter(self._names.values())

    @property
    def with_page(self) -> list[Student]:
        """Those who handed in something, also if it could not be taken."""
        keys = self.handed_in | self.in_trouble
        return [student for student in self.results.students if student.key in keys]

    def name(self, key: str) -> str:
        """A student's name, with the key where two have the same."""
        name = self._names.get(key, key)
        return f"{name} ({key})" if self._often[name] > 1 else name

    def though(self, key: str) -> str:
        """Beside the name of who handed in nothing, where there is a file all the same."""
        return " (a file could not be taken)" if key in self.in_trouble else ""

    def title(self, lesson: str) -> str:
        return self.results.titles.get(lesson, lesson)

    def exercise(self, lesson: str, name: str) -> Title:
        rows = self.results.lessons.get(lesson, ())
        return next((title for title in rows if title.name == name), Title(name, name))

    def of(self, lesson: str) -> float:
        """The points that there are for a lesson."""
        return sum(title.points for title in self.results.lessons[lesson])

    def count(self, student: str, lesson: str) -> Graded | None:
        """Their submission that counts, if there is one."""
        return self.results.counts(student, lesson)

    def does_count(self, graded: Graded) -> bool:
        return self.count(graded.student, graded.lesson) is graded

    def submissions(self, lesson: str) -> list[Graded]:
        """Those of a lesson that count."""
        return [graded for graded in self.counting if graded.lesson == lesson]

    def points(self, lesson: str) -> list[float]:
        return [graded.points for graded in self.submissions(lesson)]

    @cached_property
    def flagged(self) -> list[tuple[Graded, list[Mark]]]:
        """The submissions, also those that do not count, with marks that a teacher is to see."""
        found = []
        for graded in self.results.graded:
            marks = [mark for mark in graded.marks if mark.look or mark.state == "not judged"]
            if marks:
                found.append((graded, marks))
        return found

    @cached_property
    def missing(self) -> dict[str, list[Student]]:
        """The lesson -> who handed in nothing for it; "" where nobody handed in anything."""
        rows = {
            lesson: [s for s in self.results.students if (s.key, lesson) not in self.tries]
            for lesson in self.results.lessons or [""]
        }
        return {lesson: students for lesson, students in rows.items() if students}

    @cached_property
    def untouched(self) -> list[Graded]:
        """Those that count in which nothing was begun."""
        return [g for g in self.counting if g.marks and all(m.state == "to do" for m in g.marks)]

    @cached_property
    def same(self) -> list[list[Graded]]:
        """Files that are equal to the byte, have points, and are of several students."""
        found: dict[tuple[str, str], list[Graded]] = {}
        for graded in self.counting:
            found.setdefault((graded.lesson, graded.digest), []).append(graded)
        return [
            group
            for (_, digest), group in found.items()
            if digest and group[0].points and len({graded.shown for graded in group}) > 1
        ]

    def states(self, lesson: str) -> dict[str, Counter[str]]:
        """The exercise -> how many are right, wrong and so on, in the order of the lesson."""
        rows = {title.name: Counter() for title in self.results.lessons[lesson]}
        for graded in self.submissions(lesson):
            for mark in graded.marks:
                rows.setdefault(mark.exercise, Counter())[mark.state] += 1
        return rows

    @cached_property
    def misunderstood(self) -> list[Misunderstood]:
        """Every diagnosis of a wrong answer: the most frequent first, then as the lessons go."""
        rows: dict[tuple[str, str, str], Misunderstood] = {}
        for graded in self.counting:
            for mark in graded.marks:
                if mark.state == "wrong":
                    key = (graded.lesson, mark.exercise, mark.diagnosis)
                    row = rows.setdefault(key, Misunderstood(*key))
                    row.whose.append(graded.student)
                    row.told[mark.says] += 1
                    row.hidden += mark.hidden
        places = [(x, exercise) for x in self.results.lessons for exercise in self.states(x)]

        def rank(row: Misunderstood) -> tuple[int, int]:
            return -len(row.whose), places.index((row.lesson, row.exercise))

        return sorted(rows.values(), key=rank)


def _shortened(text: str) -> str:
    sentences = re.split(r"(?<=[.!?])\s+", text.strip())
    short = " ".join(sentences[:SENTENCES])
    if len(short) > LONGEST:
        return short[: LONGEST - 1] + "…"
    return short + (" …" if len(sentences) > SENTENCES else "")


def whys(marks: Sequence[Mark]) -> dict[str, list[str]]:
    """Why to look -> at which exercises: what is wrong with a whole notebook is said once."""
    found: dict[str, list[str]] = {}
    for mark in marks:
        found.setdefault(mark.look or f"not judged. {mark.says}".strip(), []).append(mark.exercise)
    return found
