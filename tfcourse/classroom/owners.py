"""Whose it is that was handed in: what belongs to one person, and who of the roster that is.

It is read from what the platform or the teacher named; a student's own names, further in, have no
say in it.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from tfcourse.classroom import platforms
from tfcourse.classroom.columns import Roster, Who, describe, folded, keys, mark, plain
from tfcourse.classroom.handed_in import METADATA, File, Folder, instead, is_zip, natural
from tfcourse.classroom.records import Student, Trouble

_OURS = {"glossary", "00_start_here"}  # notebooks of the course, which are nobody's name
_NOTEBOOKS = {"notebooks", "notebook"}
_USUAL = _NOTEBOOKS | {"submissions", "submission", "submitted", "lessons"}
_HANDED = {".py", ".pdf", ".doc", ".docx", ".odt", ".rar", ".7z"}
_NUMBER = r"[-_ ]+v?[0-9]{1,2}\s*$"
_COPY = re.compile(rf"(?:\s*\([0-9]+\)|[-_ ]+copy[-_ ]*[0-9]*|{_NUMBER})\s*$", re.IGNORECASE)


@dataclass
class Hand:
    """What one person handed in at one place.

    Attributes:
        identity: the same for the same person.
        known: what the platform says of them, by the titles of its columns.
        place: where its name stands: two numbers there are two people.
        late: the platform says so.
    """

    who: Who
    identity: tuple[str, ...]
    known: dict[str, str]
    place: int
    shown: str
    files: list[File]
    late: bool = False


class People:
    """Finds in a tree of folders what belongs to one person."""

    def __init__(self, lessons: dict[str, list[str]], roster: Roster | None):
        self.lessons = sorted(lessons, key=len, reverse=True)
        self.roster = roster
        self.lost: list[Trouble] = []

    def within(self, folder: Folder, top: bool = False) -> Iterator[Hand]:
        """Every person's of a folder that the teacher or the platform has filled."""
        metadata = next((f for f in folder.files if f.name == METADATA and f.path), None)
        if metadata:
            yield from self._gradescope(folder, metadata)
        elif any(map(platforms.named, folder.names)):
            yield from self._named(folder)
        elif self._is_persons(folder, top):
            yield self.by_folder(folder, folder)
        else:
            yield from self._collected(folder)

    def strays(self, folder: Folder, handed: list[Hand]) -> list[Trouble]:
        """Files that cannot be read and are nobody's."""
        theirs = {file.shown for hand in handed for file in hand.files}
        lost = [file for file in folder.every() if file.shown not in theirs]
        return self.lost + [Trouble(file.shown, file.says) for file in lost if file.says]

    def _is_persons(self, folder: Folder, top: bool) -> bool:
        """Whether a folder is one person's: a repository, or its notebooks are called as ours."""
        notebooks = [file for file in folder.files if file.notebook]
        inner = [inner for inner in folder.folders.values() if inner.has_notebooks()]
        usual = [inner for inner in inner if self._usual(inner.name)]
        if folder.repository and not (top and len(inner) - len(usual) > 1):
            return True
        if notebooks:
            alone = len(notebooks) == 1 and not top
            return alone or not any(self._label(file.stem) for file in notebooks)
        return any(self._is_persons(f, f.name.casefold() not in _NOTEBOOKS) for f in usual)

    def _usual(self, name: str) -> bool:
        return name.casefold() in _USUAL or name in self.lessons

    def _collected(self, folder: Folder) -> Iterator[Hand]:
        """A folder for each, a zip for each, a file for each."""
        files = [f for f in folder.files if f.notebook or (f.says and is_zip(f.name))]
        for file in files:
            yield self.by_file(file, folder)
        if files:
            yield from self._others(folder)
        own = []
        for inner in folder.folders.values():
            if self._usual(inner.name):
                yield from self.within(inner, top=True)
            else:
                own.append(inner)
        # A student could call a file as if it were another's: only where all folders here come
        # from a platform are they opened as such.
        wrapped = len(own) == 1 and (own[0].has_notebooks() or platforms.filled(own[0]))
        if not files and (wrapped or all(map(platforms.filled, own))):
            for inner in own:
                yield from self.within(inner)
        else:
            for inner in own:
                yield self.by_folder(inner, folder)

    def _others(self, folder: Folder) -> Iterator[Hand]:
        """Files of another kind beside notebooks that bear their students' names."""
        whose = {self.by_file(file, folder).identity for file in folder.files if file.notebook}
        for file in folder.files:
            if os.path.splitext(file.name)[1].lower() in _HANDED and not file.says:
                hand = self.by_file(file, folder)
                if hand.identity in whose or (self.roster and self.roster.find(hand.who)):
                    yield hand
                else:
                    self.lost.append(Trouble(file.shown, instead([file.name])))

    def by_folder(self, folder: Folder, place: Folder) -> Hand:
        """All in a folder or zip that has a person's name."""
        label = folder.label
        if label != folder.name:
            label = _without_copy(label, {other.label for other in place.folders.values()})
        label = self._login(label, [*place.folders.values()] if folder is not place else [])
        return self._hand(label, place, folder.shown or folder.name, [*folder.every()])

    def by_file(self, file: File, place: Folder) -> Hand:
        """A file that has a person's name."""
        label = self._label(file.stem)
        label = _without_copy(label, {self._label(other.stem) for other in place.files})
        return self._hand(label or file.stem, place, file.shown, [file])

    def _hand(self, label: str, place: Folder, shown: str, files: list[File]) -> Hand:
        who = _called(label)
        return Hand(who, ("name", plain(who.name)), {}, id(place), shown, files)

    def _login(self, label: str, beside: list[Folder]) -> str:
        """Of "task-login", as repositories are called, the login; else all of it."""
        if self.roster and self.roster.find(_called(label)):
            return label
        repositories = [folder.name for folder in beside if folder.repository]
        names = repositories if label in repositories else [folder.name for folder in beside]
        start = (_shared(names) if len(names) > 1 else label).rfind("-") + 1
        if self.roster:
            ends = [label[x.end() :] for x in re.finditer("-", label[:start])]
            return next((x for x in ends if x and self.roster.marked(_called(x))), label)
        return (label[start:] if label in repositories and len(names) > 1 else "") or label

    def _label(self, stem: str) -> str:
        """What a file's name says besides the lesson; "" where it says nothing else."""
        found = stem
        for lesson in (*self.lessons, *_OURS):
            pattern = "[-_ ]*".join(map(re.escape, lesson.split("_")))
            found = re.sub(rf"(?<![^\W_]){pattern}(?![^\W_])", "\0", found, flags=re.IGNORECASE)
        if "\0" not in found:
            return stem
        found = re.sub(r"^copy of\b|\0[-_ ]*\(?[0-9]{1,2}\)?$", "", found, flags=re.IGNORECASE)
        found = found.replace("\0", " ").strip("-_ .")
        return found if _COPY.sub("", f" {found}").strip("-_ .") else ""

    def _named(self, folder: Folder) -> Iterator[Hand]:
        """Moodle's and Canvas's names; what has none is taken by the name that it has."""
        beside = platforms.numbers(folder.names)

        def hand(found: re.Match, shown: str, files: list[File]) -> Hand:
            late = bool(found.groupdict().get("late"))
            return Hand(*platforms.owner(found, beside), id(folder), shown, files, late)

        for inner in folder.folders.values():
            if found := platforms.named(inner.name):
                yield hand(found, inner.shown, [*inner.every()])
            else:
                yield self.by_folder(inner, folder)
        for file in folder.files:
            if found := platforms.named(file.name):
                yield hand(found, file.shown, [replace(file, name=found["file"] or file.name)])
            elif file.notebook:
                yield self.by_file(file, folder)

    def _gradescope(self, folder: Folder, metadata: File) -> Iterator[Hand]:
        said = platforms.submitters(metadata.path)
        for inner in folder.folders.values():
            people, when = said.get(inner.name, ([], None))
            files = [replace(file, when=when or file.when) for file in inner.every()]
            for known in people:
                who = describe(known)
                if not who.name:
                    continue
                known = {title: cell for title, cell in known.items() if title != "Name" and cell}
                identity = next(iter(sorted(who.marks, reverse=True)), ("name", plain(who.name)))
                yield Hand(who, identity, known, id(folder), inner.shown, files)
            if not people:
                yield self.by_folder(inner, folder)


def _shared(names: list[str]) -> str:
    """What all names begin with: of "task-ana" and "task-bo" the task."""
    first, last = min(names), max(names)
    return first[: next((i for i, c in enumerate(first) if last[i : i + 1] != c), len(first))]


def _without_copy(label: str, others: set[str]) -> str:
    """Of "ana (1)" the name; of "ana-1" only where there is an "ana" too: else that is a name."""
    bare = _COPY.sub("", label)
    return bare if bare and (bare in others or not re.search(_NUMBER, label)) else label


def _called(label: str) -> Who:
    """Somebody of whom a folder or file says the name, or the id, the email, the login."""
    kinds = [mark(kind, label) for kind in ("id", "email", "login")]
    parts = [part for part in re.split(r"[\s_,()-]+", label) if re.search(r"[0-9]{3}", part)]
    marks = frozenset([*kinds, *(mark("id", part) for part in parts)])
    name = " ".join(label.replace("_", " ").split())
    return Who(name or "?", "", marks)


class Gathered:
    """All that was handed in by each student, with the roster's students first.

    Attributes:
        hands: by the students' keys.
        troubles: where it cannot be told who of the roster somebody is.
    """

    def __init__(self, handed: list[Hand], roster: Roster | None):
        self.troubles: list[Trouble] = []
        known = roster.students if roster else ()
        theirs, others = self._by_person(handed, roster)
        others.sort(key=lambda hands: (natural(folded(hands[0].who.name)), hands[0].identity))
        named = keys([_all_of(hands) for hands in others], [student.key for student in known])
        own = dict(zip(named, others, strict=True))
        self.students = (
            *known,
            *(Student(key, hands[0].who.name, hands[0].known) for key, hands in own.items()),
        )
        self.hands = {key: [*chain(*groups)] for key, groups in theirs.items()} | own

    def _by_person(
        self, handed: list[Hand], roster: Roster | None
    ) -> tuple[dict[str, list[list[Hand]]], list[list[Hand]]]:
        """All of each person: of the roster's students by their keys, and of others."""
        groups: dict[tuple[str, ...], list[Hand]] = defaultdict(list)
        for hand in handed:
            groups[hand.identity].append(hand)
        if not roster:
            return {}, [*groups.values()]
        theirs: dict[str, list[list[Hand]]] = defaultdict(list)
        others: list[list[Hand]] = []
        for hands in groups.values():
            found = roster.find(_all_of(hands))
            if len(found) == 1:
                theirs[found[0].key].append(hands)
            else:
                others.append(hands)
                if found:
                    self._untold(hands, [student.name for student in found])
        for student in roster.students:
            for hands in _contested(theirs[student.key], student, roster):
                theirs[student.key].remove(hands)
                others.append(hands)
                self._untold(hands, [student.name])
        return theirs, others

    def _untold(self, hands: list[Hand], names: list[str]) -> None:
        says = (
            f"It could not be told whether “{hands[0].who.name}” is "
            f"{' or '.join(f'“{name}”' for name in names)} of the roster, so it is graded as a "
            "student's of its own."
        )
        self.troubles.append(Trouble(hands[0].shown, says))


def _all_of(hands: list[Hand]) -> Who:
    marks = frozenset(pair for hand in hands for pair in hand.who.marks)
    return replace(hands[0].who, marks=marks)


def _contested(groups: list[list[Hand]], student: Student, roster: Roster) -> list[list[Hand]]:
    """Of those who are a student by name: those whose numbers, at one place, say they are not."""
    numbered = [hand for hands in groups for hand in hands if hand.known]
    people = {(hand.place, hand.identity) for hand in numbered}
    crowded = {place for place, n in Counter(place for place, _ in people).items() if n > 1}
    found = [
        hands
        for hands in groups
        if any(hand.known and hand.place in crowded for hand in hands)
        and not roster.marked(_all_of(hands))
    ]
    exact = [hands for hands in found if plain(hands[0].who.name) == plain(student.name)]
    return [hands for hands in found if len(exact) != 1 or hands is not exact[0]]
