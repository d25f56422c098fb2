"""What a class handed in, however it comes: whose it is, of which lesson, when, which try.

Nothing is run here, and nothing is written but plain files with our own names, straight into one
folder. Whose a notebook is, is read from what the platform or the teacher named; a student's own
names, further in, have no say in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, pairwise
from pathlib import Path

from tfcourse.classroom import cells
from tfcourse.classroom.columns import (
    Roster,
    Who,
    describe,
    folded,
    is_exported,
    keys,
    mark,
    plain,
    read_roster,
)
from tfcourse.classroom.records import Student, Submission, Trouble

__all__ = ["Roster", "Taken", "is_exported", "read_roster", "take"]

ENTRY = 200 * 2**20  # bytes of a file in a zip, unpacked
TOTAL = 4 * 2**30  # of all files of all zips
SHARE = 400 * 2**20  # of all files of a zip within a zip: one student cannot use up the room of all
ENTRIES = 20_000  # of all zips; those that are passed over do not count
DIRECTORY = 32 * 2**20  # bytes of a zip's list of contents, which is read before all else
DEEPEST = 30  # folders within folders
ZIPS = 2  # a zip, and in it one for each student

_METADATA = "submission_metadata.yml"
_OURS = {"glossary", "00_start_here"}  # notebooks of the course, which are nobody's name
_NOTEBOOKS = {"notebooks", "notebook"}
_USUAL = _NOTEBOOKS | {"submissions", "submission", "submitted", "lessons"}
_HANDED = {".py", ".pdf", ".doc", ".docx", ".odt", ".rar", ".7z"}
_PASSED = {"__macosx", "thumbs.db", "desktop.ini", "__pycache__"}
_SPOILT = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError),
    *(ValueError, OverflowError, MemoryError, IndexError, KeyError, struct.error),
)


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
        ValueError: there is no such folder or file, or it is of another kind.
    """
    given = Path(given)
    reader = _Reader(Path(into))
    people = _People(lessons, roster)
    if given.suffix.lower() == ".ipynb" and given.is_file():
        file = _on_disk(given, _clean(given.name))
        place = _Folder(_clean(given.resolve().parent.name), "", files=[file])
        named = _platform(file.name)
        handed = [*people.within(place)] if named else [people.by_file(file, place)]
    elif given.is_dir() or (given.is_file() and _is_zip(given.name)):
        place = reader.read(given)
        handed = list(people.within(place, top=True))
    else:
        what = "is no folder, no zip and no notebook" if given.exists() else "is not there"
        says = f"{given} {what}. Give the folder or the zip with what the class handed in."
        raise ValueError(says)
    troubles = reader.troubles + people.strays(place, handed)
    if not handed and not troubles:
        troubles.append(Trouble(_clean(given.name), "Nothing that was handed in was found here."))
    every = _Gathered(handed, roster)
    sorter = _Sorter(lessons, deadline, lesson)
    submissions: list[Submission] = []
    for student in every.students:
        found, said = sorter.sort(student.key, every.hands.get(student.key, []))
        submissions += found
        troubles += said
    return Taken(every.students, tuple(submissions), (*every.troubles, *troubles))


# ----------------------------------------------------------------------------- folders and zips


@dataclass(frozen=True)
class _File:
    """A file that was found; `says` is why it cannot be read, if so."""

    name: str
    shown: str
    path: Path | None = None
    when: datetime | None = None
    says: str = ""

    @property
    def notebook(self) -> bool:
        return self.name.lower().endswith(".ipynb")

    @property
    def stem(self) -> str:
        return os.path.splitext(self.name)[0]


@dataclass
class _Folder:
    """A folder, or a zip, with what is in it."""

    name: str
    shown: str
    folders: dict[str, _Folder] = field(default_factory=dict)
    files: list[_File] = field(default_factory=list)
    repository: bool = False

    @property
    def label(self) -> str:
        return self.name[:-4] if _is_zip(self.name) else self.name

    def every(self) -> Iterator[_File]:
        yield from self.files
        for folder in self.folders.values():
            yield from folder.every()

    def has_notebooks(self) -> bool:
        return any(file.notebook for file in self.every())

    def add(self, folder: _Folder) -> None:
        """A zip that was opened, beside another of the same name if there is one."""
        while folder.name in self.folders:
            folder.name = f"{folder.label} (2).zip"
        self.folders[folder.name] = folder

    def down(self, parts: Sequence[str]) -> _Folder:
        """The folder at the end of a path within it, made where it is missing."""
        at = self
        for part in parts:
            if part not in at.folders:
                at.folders[part] = _Folder(part, _join(at.shown, part))
            at = at.folders[part]
        return at


class _Reader:
    """Lists folders, which it leaves as they are, and unpacks the notebooks of zips."""

    def __init__(self, into: Path):
        self.into = into
        self.troubles: list[Trouble] = []
        self._count, self._entries = 0, ENTRIES
        self._bytes, self._room = TOTAL, TOTAL  # left for all zips, and for the one being read

    def read(self, given: Path) -> _Folder:
        """What is in the folder or zip that the teacher gave."""
        name = _clean(given.resolve().name)
        try:
            if given.is_dir():
                return self._folder(given, _Folder(name, ""), 0)
            return self._zip(given, _Folder(name, ""), TOTAL)
        except _SPOILT as error:
            self.troubles.append(Trouble(name, _why(error)))
            return _Folder(name, "")

    def _folder(self, path: Path, made: _Folder, depth: int) -> _Folder:
        with os.scandir(path) as listing:
            entries = sorted(listing, key=lambda entry: _natural(entry.name))
        zips = sum(entry.name.lower().endswith(".zip") for entry in entries)
        for entry in entries:
            made.repository |= entry.name == ".git"
            name = _clean(entry.name)
            shown = _join(made.shown, name)
            if _passed(entry.name):
                continue
            try:
                self._entry(entry, made, _File(name, shown), depth, zips)
            except _SPOILT as error:
                made.files.append(_File(name, shown, says=_why(error)))
        return made

    def _entry(self, entry: os.DirEntry, made: _Folder, file: _File, depth: int, zips: int) -> None:
        path = Path(entry.path)
        if entry.is_symlink() or getattr(entry, "is_junction", bool)():
            says = "This is a link to another place. Links are not followed: hand in the file."
            made.files.append(replace(file, says=says))
        elif entry.is_dir(follow_symlinks=False):
            if depth >= DEEPEST:
                raise _Refused(f"It lies in more than {DEEPEST} folders.")
            self._folder(path, made.down([file.name]), depth + 1)
        elif not entry.is_file(follow_symlinks=False):
            made.files.append(replace(file, says="This is no file: a pipe, a socket or a device."))
        elif _is_zip(file.name):
            room = max(SHARE, TOTAL // zips)
            made.add(self._zip(path, _Folder(file.name, file.shown), room))
        else:
            made.files.append(_on_disk(path, file.shown))

    def _zip(
        self, path: Path, made: _Folder, room: int, depth: int = 1, when: datetime | None = None
    ) -> _Folder:
        """What is in a zip; `when` is that of the zip around it, which the platform has written."""
        if _directory_size(path) > DIRECTORY:
            raise _Refused("This zip has too many entries.")
        self._room = room
        inner: list[tuple[_Folder, _File]] = []
        with zipfile.ZipFile(path) as archive:
            # The small ones first: who hands in much takes no room from the others.
            for info in sorted(archive.infolist(), key=lambda info: info.file_size):
                found = self._place(info, made)
                if not found or info.is_dir():
                    continue
                folder, file = found
                file = replace(file, when=when or _date(info))
                try:
                    self._entries -= 1
                    if self._entries < 0:
                        raise _Refused(f"There are more than {ENTRIES:,} files in these zips.")
                    if _wanted(file.name):
                        file = replace(file, path=self._unpack(archive, info, file.name))
                    if _is_zip(file.name):
                        inner.append((folder, file))
                    else:
                        folder.files.append(file)
                except _SPOILT as error:
                    folder.files.append(replace(file, says=_why(error)))
        for folder, file in inner:
            self._inner(folder, file, depth + 1)
        return made

    def _inner(self, folder: _Folder, file: _File, depth: int) -> None:
        """A zip within a zip."""
        try:
            if depth > ZIPS:
                raise _Refused("This zip lies in a zip that lies in a zip: it is not opened.")
            made = _Folder(file.name, file.shown)
            folder.add(self._zip(file.path, made, SHARE, depth, file.when))
        except _SPOILT as error:
            folder.files.append(replace(file, path=None, says=_why(error)))
        finally:
            file.path.unlink(missing_ok=True)

    def _place(self, info: zipfile.ZipInfo, made: _Folder) -> tuple[_Folder, _File] | None:
        """Where an entry belongs, or nothing where it is not taken; never a place on the disk."""
        name = _entry_name(info)
        parts = [part for part in name.split("/") if part not in ("", ".")]
        shown = _join(made.shown, _clean(name))
        if name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", name):
            says = "This file of a zip wants to lie outside of it. It is not taken."
            made.files.append(_File("", shown, says=says))  # no name: it makes nobody a student
            return None
        if ".git" in parts and len(parts) <= DEEPEST:
            above = parts[: parts.index(".git")]
            made.down([_clean(_shortened(part)) for part in above]).repository = True
        if not parts or any(map(_passed, parts)):
            return None
        parts = [_clean(_shortened(part)) for part in parts]
        if len(parts) > DEEPEST:
            says = f"It lies in more than {DEEPEST} folders."
            made.down(parts[:2]).files.append(_File("", shown, says=says))
            return None
        folder = made.down(parts if info.is_dir() else parts[:-1])
        file = _File(parts[-1], _join(made.shown, "/".join(parts)))
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            says = "This is a link or a device, no file. It is not taken: hand in the file."
            folder.files.append(replace(file, says=says))
            return None
        return folder, file

    def _unpack(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Path:
        """An entry as a file with a name of ours; stops where there is more than there may be."""
        if info.flag_bits & 1:
            raise _Refused("This file of a zip is locked with a password. Hand it in without one.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _Refused("This zip is packed in an unusual way. Make it with the usual program.")
        too_large = f"Unpacked it is larger than {ENTRY // 2**20} MB."
        if info.file_size > ENTRY:
            raise _Refused(too_large)
        self._count += 1
        target = self.into / f"{self._count:06}{os.path.splitext(name)[1].lower()}"
        size = 0
        try:
            with archive.open(info) as source, open(target, "xb") as file:
                while part := source.read(2**20):
                    size += len(part)
                    self._room -= len(part)
                    self._bytes -= len(part)
                    if size > ENTRY:
                        raise _Refused(too_large)
                    if self._room < 0 or self._bytes < 0:
                        raise _Refused("Unpacked, these zips are too large. This is not taken.")
                    file.write(part)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return target


class _Refused(ValueError):
    """A file that is not taken; says why."""


def _why(error: BaseException) -> str:
    if isinstance(error, _Refused):
        return str(error)
    if isinstance(error, OSError):
        return f"It cannot be read ({error.strerror or type(error).__name__})."
    return "This zip is damaged, or is no zip: it cannot be unpacked."


def _on_disk(path: Path, shown: str) -> _File:
    when = datetime.fromtimestamp(path.stat(follow_symlinks=False).st_mtime).astimezone()
    return _File(_clean(path.name), shown, path, when)


def _wanted(name: str) -> bool:
    return name.lower().endswith((".ipynb", ".zip")) or name == _METADATA


def _is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def _passed(name: str) -> bool:
    return name.startswith(".") or name.casefold() in _PASSED


def _date(info: zipfile.ZipInfo) -> datetime | None:
    """When the entry was written; the first moment of 1980 stands for "unknown"."""
    try:
        when = datetime(*info.date_time)
        return when.astimezone() if when > datetime(1980, 1, 1) else None
    except (ValueError, OSError, OverflowError):
        return None


def _entry_name(info: zipfile.ZipInfo) -> str:
    """Its name with / between folders; old programs say UTF-8 and do not tell so."""
    name = info.filename
    if not info.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return name.replace("\\", "/")


def _directory_size(path: Path) -> int:
    """Bytes of a zip's list of contents, as its end says: zipfile reads all of it at once.

    It looks at the very record that zipfile will use; there may be others, in zips inside this one.
    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, size - 2**16 - 200))
        tail = file.read()
        at = len(tail) - 22
        if not (tail[max(0, at) :].startswith(b"PK\5\6") and tail.endswith(b"\0\0")):
            at = tail.rfind(b"PK\5\6")
        if at < 0:
            return 0  # no zip; zipfile says so
        found = int.from_bytes(tail[at + 12 : at + 16], "little") % 0xFFFFFFFF
        locator = tail[max(0, at - 20) : at]
        if locator.startswith(b"PK\6\7"):  # of the larger kind
            for place in (start + at - 76, int.from_bytes(locator[8:16], "little")):
                file.seek(min(max(0, place), size))
                record = file.read(56)
                if record.startswith(b"PK\6\6"):
                    found = max(found, int.from_bytes(record[40:48], "little"))
    return found


def _join(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name


def _shortened(name: str) -> str:
    """A name as long as a file system has them; a zip may hold much longer ones."""
    if len(name) <= 255:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[:100]}…{digest}…{name[-100:]}"


def _clean(text: str) -> str:
    """As it can be shown: one form of accents, nothing that steers a terminal or turns a line."""
    text = unicodedata.normalize("NFC", text).encode("utf-8", "replace").decode("utf-8")
    bad = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
    return "".join("�" if unicodedata.category(c) == "Cc" or c in bad else c for c in text)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A key to sort names by: x, x-1, x-2, x-10."""
    parts = re.split(r"([0-9]+)", name.casefold())
    return [
        (1, len(part.lstrip("0")), part.lstrip("0")) if i % 2 else (0, 0, part)
        for i, part in enumerate(parts)
    ]


# ------------------------------------------------------------------------------------ whose it is


@dataclass
class _Hand:
    """What one person handed in at one place.

    Attributes:
        identity: the same for the same person.
        place: where its name stands: two numbers there are two people.
        late: the platform says so.
    """

    who: Who
    identity: tuple[str, ...]
    place: int
    shown: str
    files: list[_File]
    known: dict[str, str] = field(default_factory=dict)
    late: bool = False


_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<id>[0-9]+)_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<file>.*))?", re.DOTALL
)
_CANVAS = re.compile(
    r"(?P<name>(?:[^\W\d_].*?)?)_(?P<late>LATE_)?(?P<id>[0-9]{2,})_"
    r"(?:[0-9]{3,}_(?P<file>.+)|(?:text|link)\.html)",
    re.DOTALL,
)
_NAMELESS = re.compile(
    r"(?P<late>LATE_)?(?P<name>anon_(?P<id>[A-Za-z0-9]+))_[0-9]{3,}_(?P<file>.+)"
)
_NUMBER = r"[-_ ]+v?[0-9]{1,2}\s*$"
_COPY = re.compile(rf"(?:\s*\([0-9]+\)|[-_ ]+copy[-_ ]*[0-9]*|{_NUMBER})\s*$", re.IGNORECASE)


class _People:
    """Finds in a tree of folders what belongs to one person."""

    def __init__(self, lessons: dict[str, list[str]], roster: Roster | None):
        self.lessons = sorted(lessons, key=len, reverse=True)
        self.roster = roster
        self.lost: list[Trouble] = []

    def within(self, folder: _Folder, top: bool = False) -> Iterator[_Hand]:
        """Every person's of a folder that the teacher or the platform has filled."""
        metadata = next((f for f in folder.files if f.name == _METADATA and f.path), None)
        if metadata:
            yield from self._gradescope(folder, metadata)
        elif any(map(_platform, self._names(folder))):
            yield from self._named_by_platform(folder)
        elif self._is_persons(folder, top):
            yield self.by_folder(folder, folder)
        else:
            yield from self._collected(folder)

    def strays(self, folder: _Folder, handed: list[_Hand]) -> list[Trouble]:
        """Files that cannot be read and are nobody's."""
        theirs = {file.shown for hand in handed for file in hand.files}
        lost = [file for file in folder.every() if file.shown not in theirs]
        return self.lost + [Trouble(file.shown, file.says) for file in lost if file.says]

    def _names(self, folder: _Folder) -> list[str]:
        return [*folder.folders, *(file.name for file in folder.files)]

    def _is_persons(self, folder: _Folder, top: bool) -> bool:
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

    def _collected(self, folder: _Folder) -> Iterator[_Hand]:
        """A folder for each, a zip for each, a file for each."""
        files = [f for f in folder.files if f.notebook or (f.says and _is_zip(f.name))]
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
        wrapped = len(own) == 1 and (own[0].has_notebooks() or self._of_platform(own[0]))
        if not files and (wrapped or all(map(self._of_platform, own))):
            for inner in own:
                yield from self.within(inner)
        else:
            for inner in own:
                yield self.by_folder(inner, folder)

    def _others(self, folder: _Folder) -> Iterator[_Hand]:
        """Files of another kind beside notebooks that bear their students' names."""
        whose = {self.by_file(file, folder).identity for file in folder.files if file.notebook}
        for file in folder.files:
            if os.path.splitext(file.name)[1].lower() in _HANDED and not file.says:
                hand = self.by_file(file, folder)
                if hand.identity in whose or (self.roster and self.roster.find(hand.who)):
                    yield hand
                else:
                    self.lost.append(Trouble(file.shown, _instead([file.name])))

    def _of_platform(self, folder: _Folder) -> bool:
        names = self._names(folder)
        if _METADATA in names or any(map(_platform, names)):
            return True
        return len(names) == len(folder.folders) == 1 and all(
            map(self._of_platform, folder.folders.values())
        )

    def by_folder(self, folder: _Folder, place: _Folder) -> _Hand:
        """All in a folder or zip that has a person's name."""
        label = folder.label
        if label != folder.name:
            label = _without_copy(label, {other.label for other in place.folders.values()})
        label = self._login(label, [*place.folders.values()] if folder is not place else [])
        return self._hand(label, place, folder.shown or folder.name, [*folder.every()])

    def by_file(self, file: _File, place: _Folder) -> _Hand:
        """A file that has a person's name."""
        label = self._label(file.stem)
        label = _without_copy(label, {self._label(other.stem) for other in place.files})
        return self._hand(label or file.stem, place, file.shown, [file])

    def _hand(self, label: str, place: _Folder, shown: str, files: list[_File]) -> _Hand:
        who = _called(label)
        return _Hand(who, ("name", plain(who.name)), id(place), shown, files)

    def _login(self, label: str, beside: list[_Folder]) -> str:
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
        found = " ".join(re.split(r"\0", found)).strip("-_ .")
        return "" if not _COPY.sub("", f" {found}").strip("-_ .") else found

    def _named_by_platform(self, folder: _Folder) -> Iterator[_Hand]:
        """Moodle's and Canvas's names; what has none is taken by the name that it has."""
        ids: dict[str, set[str]] = defaultdict(set)
        for found in map(_MOODLE.fullmatch, self._names(folder)):
            if found:
                ids[plain(found["name"])].add(found["id"])
        for inner in folder.folders.values():
            if found := _platform(inner.name):
                yield self._platforms(found, inner.shown, [*inner.every()], folder, ids)
            else:
                yield self.by_folder(inner, folder)
        for file in folder.files:
            if found := _platform(file.name):
                own = replace(file, name=found.groupdict().get("file") or file.name)
                yield self._platforms(found, file.shown, [own], folder, ids)
            elif file.notebook:
                yield self.by_file(file, folder)

    def _platforms(
        self, found: re.Match, shown: str, files: list[_File], place: _Folder, ids: dict
    ) -> _Hand:
        name, number = found["name"].replace("_", " ").strip(), found["id"]
        if found.re is not _MOODLE:
            known = {"ID": number} if found.re is _CANVAS else {}
            who = Who(name or number, number, frozenset([mark("id", number)] if known else []))
            return _Hand(
                who, ("canvas", number), id(place), shown, files, known, bool(found["late"])
            )
        # Moodle's number is another one in each task, so the name says more, if it is one's alone.
        known = {"Identifier": f"Participant {number}"}
        alone = len(ids[plain(found["name"])]) == 1 and plain(name) != "participant"
        name = f"Participant {number}" if plain(name) == "participant" else name
        identity = ("name", plain(name)) if alone else ("moodle", number)
        who = Who(name, "" if alone else number, frozenset([mark("id", number)]))
        return _Hand(who, identity, id(place), shown, files, known)

    def _gradescope(self, folder: _Folder, metadata: _File) -> Iterator[_Hand]:
        said = _submitters(metadata.path)
        for inner in folder.folders.values():
            people, when = said.get(inner.name, ([], None))
            files = [replace(file, when=when or file.when) for file in inner.every()]
            for known in people:
                who = describe(known)
                if not who.name:
                    continue
                known = {title: cell for title, cell in known.items() if title != "Name" and cell}
                identity = next(iter(sorted(who.marks, reverse=True)), ("name", plain(who.name)))
                yield _Hand(who, identity, id(folder), inner.shown, files, known)
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


def _platform(name: str) -> re.Match | None:
    """The name of a folder or file that Moodle or Canvas has given to it."""
    return _MOODLE.fullmatch(name) or _CANVAS.fullmatch(name) or _NAMELESS.fullmatch(name)


def _called(label: str) -> Who:
    """Somebody of whom a folder or file says the name, or the id, the email, the login."""
    kinds = [mark(kind, label) for kind in ("id", "email", "login")]
    parts = [part for part in re.split(r"[\s_,()-]+", label) if re.search(r"[0-9]{3}", part)]
    marks = frozenset([*kinds, *(mark("id", part) for part in parts)])
    name = " ".join(label.replace("_", " ").split())
    return Who(name or "?", "", marks)


def _submitters(path: Path) -> dict[str, tuple[list[dict[str, str]], datetime | None]]:
    """Gradescope's metadata: the folder -> those who handed it in, and when."""
    found: dict[str, tuple[list[dict[str, str]], datetime | None]] = {}
    now, inside, level = "", False, 0
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            text = line.strip()
            deep = len(line) - len(line.lstrip(" "))
            if not text or text.startswith("#"):
                continue
            if deep == 0 and not text.startswith("-"):
                now, inside, level = _scalar(text.removesuffix(":")), False, 0
                found[now] = ([], None)
                continue
            if not now:
                continue
            level = level or deep
            key, _, value = text.removeprefix("- ").lstrip().lstrip(":").partition(":")
            if deep == level and not text.startswith("-"):
                inside = key == "submitters"
                if key == "created_at":
                    found[now] = (found[now][0], _moment(_scalar(value)))
            elif inside:
                if text.startswith("-"):
                    found[now][0].append({})
                title = {"name": "Name", "sid": "SID", "email": "Email"}.get(key)
                if title and found[now][0]:
                    found[now][0][-1][title] = _clean(_scalar(value))
    return found


def _scalar(text: str) -> str:
    """A text of YAML, without its quotes."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        code = r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))"
        return re.sub(code, _unescaped, text[1:-1])
    return "" if text in ("~", "null") else text


def _unescaped(found: re.Match) -> str:
    digits = found[1] or found[2] or found[3]
    if digits:
        return chr(int(digits, 16)) if int(digits, 16) < 0x110000 else "�"
    return {"n": "\n", "t": "\t", "r": "\r", "0": "", "e": ""}.get(found[4], found[4])


def _moment(text: str) -> datetime | None:
    found = re.match(r"(\d{4}-\d\d-\d\d)[T ]+(\d\d:\d\d:\d\d)(?:\.\d+)?\s*(.*)", text)
    if not found:
        return None
    zone = {"": "", "Z": "+00:00", "UTC": "+00:00"}.get(found[3], found[3])
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}").astimezone()
    except (ValueError, OSError, OverflowError):
        return None


class _Gathered:
    """All that was handed in by each student, with the roster's students first.

    Attributes:
        hands: by the students' keys.
        troubles: where it cannot be told who of the roster somebody is.
    """

    def __init__(self, handed: list[_Hand], roster: Roster | None):
        self.troubles: list[Trouble] = []
        groups: dict[tuple[str, ...], list[_Hand]] = defaultdict(list)
        for hand in handed:
            groups[hand.identity].append(hand)
        on_roster: dict[str, list[list[_Hand]]] = defaultdict(list)
        others: list[list[_Hand]] = []
        for hands in groups.values():
            found = roster.find(_all_of(hands)) if roster else ()
            if len(found) == 1:
                on_roster[found[0].key].append(hands)
            else:
                others.append(hands)
                if found:
                    self._untold(hands, [student.name for student in found])
        for student in roster.students if roster else ():
            for hands in _contested(on_roster[student.key], student, roster):
                on_roster[student.key].remove(hands)
                others.append(hands)
                self._untold(hands, [student.name])
        others.sort(key=lambda hands: (_natural(folded(hands[0].who.name)), hands[0].identity))
        known = roster.students if roster else ()
        named = keys([_all_of(hands) for hands in others], [student.key for student in known])
        own = [
            Student(key, hands[0].who.name, dict(hands[0].known))
            for key, hands in zip(named, others, strict=True)
        ]
        self.students = (*known, *own)
        self.hands = {
            key: [*chain.from_iterable(found)] for key, found in on_roster.items() if found
        }
        self.hands |= dict(zip(named, others, strict=True))

    def _untold(self, hands: list[_Hand], names: list[str]) -> None:
        says = (
            f"It could not be told whether “{hands[0].who.name}” is "
            f"{' or '.join(f'“{name}”' for name in names)} of the roster, so it is graded as a "
            "student's of its own."
        )
        self.troubles.append(Trouble(hands[0].shown, says))


def _all_of(hands: list[_Hand]) -> Who:
    marks = frozenset(pair for hand in hands for pair in hand.who.marks)
    return replace(hands[0].who, marks=marks)


def _contested(groups: list[list[_Hand]], student: Student, roster: Roster) -> list[list[_Hand]]:
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


# ------------------------------------------------------------------------- which lesson, which try


@dataclass(frozen=True)
class _Found:
    """A notebook that was read: its lesson, if that is known, and what tells tries apart.

    `sure` is one whose cells say the lesson, not its name alone.
    """

    file: _File
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

    def sort(self, key: str, hands: list[_Hand]) -> tuple[list[Submission], list[Trouble]]:
        """The submissions of a student, and what of theirs could not be taken."""
        found: list[_Found] = []
        said: list[Trouble] = []
        other: list[str] = []
        for hand in hands:
            for file in hand.files:
                if file.says:
                    said.append(Trouble(file.shown, file.says, key))
                elif not (file.notebook and file.path):
                    other.append(file.name)
                else:
                    try:
                        found.append(self._read(file, hand.late))
                    except cells.NotANotebook as error:
                        says = str(error).replace(file.path.name, file.name, 1)
                        said.append(Trouble(file.shown, says, key))
                    except (OSError, MemoryError) as error:
                        said.append(Trouble(file.shown, _why_not(error), key))
        if hands and not found and not said:
            said.append(Trouble(hands[0].shown, _instead(other), key))
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
        found.sort(key=lambda one: (_instant(one.file.when), one.late, _natural(one.file.stem)))
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
                late=one.late or bool(self.deadline and _instant(one.file.when) > self._end()),
                turn=turn,
            )
            for turn, one in enumerate(kept, 1)
        ]

    def _end(self) -> float:
        return self.deadline.timestamp()

    def _read(self, file: _File, late: bool) -> _Found:
        notebook = cells.read(file.path)
        with open(file.path, "rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        lesson = self._by_cells(notebook, file)
        named = lesson or self._by_name(file, list(self.lessons))
        return _Found(file, named, bool(lesson), late, digest)

    def _by_cells(self, notebook: dict, file: _File) -> str:
        """The lesson that its cells say they are of, else whose exercises they define; or ""."""
        said, defined = set(), set()
        for cell in notebook["cells"]:
            metadata, source = cell.get("metadata"), cell.get("source", "")
            exercise = metadata.get("exercise") if isinstance(metadata, dict) else None
            if isinstance(exercise, str):
                said.add(exercise)
            if cell.get("cell_type") == "code":
                source = source if isinstance(source, str) else "".join(map(str, source or ()))
                defined |= set(re.findall(r"^[ \t]*(?:async +)?(?:def|class) +(\w+)", source, re.M))
        for names in (said, defined):
            common = Counter({x: len(names & set(own)) for x, own in self.lessons.items()})
            most = max(common.values(), default=0)
            best = [lesson for lesson, count in common.items() if count == most and most]
            if best:
                return self._by_name(file, best) or best[0]
        return ""

    def _by_name(self, file: _File, lessons: Iterable[str]) -> str:
        """The lesson that the name of a file says; or ""."""
        said = f"_{re.sub(r'[^0-9a-z]+', '_', folded(file.stem))}_"
        for lesson in sorted(lessons, key=len, reverse=True):
            topic = lesson.partition("_")[2]
            if f"_{lesson}_" in said or (topic and f"_{topic}_" in said):
                return lesson
        return ""


def _instant(when: datetime | None) -> float:
    return int(when.timestamp()) if when else 0.0


def _why_not(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "There is not enough memory to read it. Clear its outputs and hand it in again."
    return _why(error)


def _instead(names: list[str]) -> str:
    if not names:
        return "Nothing is in it: a notebook was expected."
    some = ", ".join(sorted(set(names), key=_natural)[:5]) + (", …" if len(set(names)) > 5 else "")
    return f"No notebook was handed in, but {some}. A notebook's name ends in .ipynb."
