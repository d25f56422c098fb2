"""The files that were handed in: folders are listed as they are, the notebooks of zips unpacked.

Nothing is written but plain files with our own names, straight into one folder.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from tfcourse.classroom.records import Trouble

ENTRY = 200 * 2**20  # bytes of a file in a zip, unpacked
TOTAL = 4 * 2**30  # of all files of all zips
SHARE = 400 * 2**20  # of all files of a zip within a zip: one student cannot use up the room of all
ENTRIES = 20_000  # of all zips; those that are passed over do not count
DIRECTORY = 32 * 2**20  # bytes of a zip's list of contents, which is read before all else
DEEPEST = 30  # folders within folders
ZIPS = 2  # a zip, and in it one for each student
RESULTS = "graded/.lock"  # in a folder of results
METADATA = "submission_metadata.yml"  # of Gradescope's, who handed in which folder
_PASSED = {"__macosx", "thumbs.db", "desktop.ini", "__pycache__"}
_SPOILT = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError),
    *(ValueError, OverflowError, MemoryError, IndexError, KeyError, struct.error),
)


@dataclass(frozen=True)
class File:
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
class Folder:
    """A folder, or a zip, with what is in it."""

    name: str
    shown: str
    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[File] = field(default_factory=list)
    repository: bool = False

    @property
    def label(self) -> str:
        return self.name[:-4] if is_zip(self.name) else self.name

    @property
    def names(self) -> list[str]:
        return [*self.folders, *(file.name for file in self.files)]

    def every(self) -> Iterator[File]:
        yield from self.files
        for folder in self.folders.values():
            yield from folder.every()

    def has_notebooks(self) -> bool:
        return any(file.notebook for file in self.every())

    def add(self, folder: Folder) -> None:
        """A zip that was opened, beside another of the same name if there is one."""
        while folder.name in self.folders:
            folder.name = f"{folder.label} (2).zip"
        self.folders[folder.name] = folder

    def down(self, parts: Sequence[str]) -> Folder:
        """The folder at the end of a path within it, made where it is missing."""
        at = self
        for part in parts:
            if part not in at.folders:
                at.folders[part] = Folder(part, _join(at.shown, part))
            at = at.folders[part]
        return at


class Reader:
    """Lists folders, which it leaves as they are, and unpacks the notebooks of zips."""

    def __init__(self, into: Path):
        self.into = into
        self.troubles: list[Trouble] = []
        self._count, self._entries = 0, ENTRIES
        self._bytes, self._room = TOTAL, TOTAL  # left for all zips, and for the one being read

    def read(self, given: Path) -> Folder:
        """What is in the folder or zip that the teacher gave."""
        made = Folder(clean(given.resolve().name), "")
        try:
            return self._folder(given, made, 0) if given.is_dir() else self._zip(given, made, TOTAL)
        except _SPOILT as error:
            self.troubles.append(Trouble(made.name, why(error)))
            return Folder(made.name, "")

    def _folder(self, path: Path, made: Folder, depth: int) -> Folder:
        with os.scandir(path) as listing:
            entries = sorted(listing, key=lambda entry: natural(entry.name))
        zips = sum(entry.name.lower().endswith(".zip") for entry in entries)
        for entry in entries:
            made.repository |= entry.name == ".git"
            if _passed(entry.name):
                continue
            name = clean(entry.name)
            file = File(name, _join(made.shown, name))
            try:
                self._entry(entry, made, file, depth, zips)
            except _SPOILT as error:
                made.files.append(replace(file, says=why(error)))
        return made

    def _entry(self, entry: os.DirEntry, made: Folder, file: File, depth: int, zips: int) -> None:
        path = Path(entry.path)
        if entry.is_symlink() or getattr(entry, "is_junction", bool)():
            says = "This is a link to another place. Links are not followed: hand in the file."
            made.files.append(replace(file, says=says))
        elif entry.is_dir(follow_symlinks=False):
            if depth >= DEEPEST:
                raise _Refused(f"It lies in more than {DEEPEST} folders.")
            if not (path / RESULTS).is_file():  # what an earlier run has written
                self._folder(path, made.down([file.name]), depth + 1)
        elif not entry.is_file(follow_symlinks=False):
            made.files.append(replace(file, says="This is no file: a pipe, a socket or a device."))
        elif is_zip(file.name):
            room = max(SHARE, TOTAL // zips)
            made.add(self._zip(path, Folder(file.name, file.shown), room))
        else:
            made.files.append(on_disk(path, file.shown))

    def _zip(
        self, path: Path, made: Folder, room: int, depth: int = 1, when: datetime | None = None
    ) -> Folder:
        """What is in a zip; `when` is that of the zip around it, which the platform has written."""
        if _directory_size(path) > DIRECTORY:
            raise _Refused("This zip has too many entries.")
        self._room = room
        inner: list[tuple[Folder, File]] = []
        with zipfile.ZipFile(path) as archive:
            # The small ones first: who hands in much takes no room from the others.
            for info in sorted(archive.infolist(), key=lambda info: info.file_size):
                found = _placed(info, made)
                if not found or info.is_dir():
                    continue
                folder, file = found
                file = self._unpacked(archive, info, replace(file, when=when or _date(info)))
                if is_zip(file.name) and not file.says:
                    inner.append((folder, file))
                else:
                    folder.files.append(file)
        for folder, file in inner:
            self._inner(folder, file, depth + 1)
        return made

    def _inner(self, folder: Folder, file: File, depth: int) -> None:
        """A zip within a zip."""
        try:
            if depth > ZIPS:
                raise _Refused("This zip lies in a zip that lies in a zip: it is not opened.")
            made = Folder(file.name, file.shown)
            folder.add(self._zip(file.path, made, SHARE, depth, file.when))
        except _SPOILT as error:
            folder.files.append(replace(file, path=None, says=why(error)))
        finally:
            file.path.unlink(missing_ok=True)

    def _unpacked(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: File) -> File:
        """The file with where it lies now, or why it does not; what nobody reads stays packed."""
        try:
            self._entries -= 1
            if self._entries < 0:
                raise _Refused(f"There are more than {ENTRIES:,} files in these zips.")
            if file.notebook or is_zip(file.name) or file.name == METADATA:
                return replace(file, path=self._unpack(archive, info, file.name))
            return file
        except _SPOILT as error:
            return replace(file, says=why(error))

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


def _placed(info: zipfile.ZipInfo, made: Folder) -> tuple[Folder, File] | None:
    """Where an entry belongs, or nothing where it is not taken; never a place on the disk."""
    name = _entry_name(info)
    parts = [part for part in name.split("/") if part not in ("", ".")]
    shown = _join(made.shown, clean(name))
    if name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", name):
        says = "This file of a zip wants to lie outside of it. It is not taken."
        made.files.append(File("", shown, says=says))  # no name: it makes nobody a student
        return None
    if ".git" in parts and len(parts) <= DEEPEST:
        above = parts[: parts.index(".git")]
        made.down([clean(_shortened(part)) for part in above]).repository = True
    if not parts or any(map(_passed, parts)):
        return None
    parts = [clean(_shortened(part)) for part in parts]
    if len(parts) > DEEPEST:
        says = f"It lies in more than {DEEPEST} folders."
        made.down(parts[:2]).files.append(File("", shown, says=says))
        return None
    folder = made.down(parts if info.is_dir() else parts[:-1])
    file = File(parts[-1], _join(made.shown, "/".join(parts)))
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        says = "This is a link or a device, no file. It is not taken: hand in the file."
        folder.files.append(replace(file, says=says))
        return None
    return folder, file


class _Refused(ValueError):
    """Why a file is not taken."""


def why(error: BaseException) -> str:
    """In a sentence, why a file could not be read or unpacked."""
    if isinstance(error, _Refused):
        return str(error)
    if isinstance(error, OSError):
        return f"It cannot be read ({error.strerror or type(error).__name__})."
    return "This zip is damaged, or is no zip: it cannot be unpacked."


def instead(names: list[str]) -> str:
    """In a sentence, what was handed in where there is no notebook."""
    if not names:
        return "Nothing is in it: a notebook was expected."
    some = ", ".join(sorted(set(names), key=natural)[:5]) + (", …" if len(set(names)) > 5 else "")
    return f"No notebook was handed in, but {some}. A notebook's name ends in .ipynb."


def on_disk(path: Path, shown: str) -> File:
    """A file that is read where it is.

    Raises:
        OSError: it cannot be found.
    """
    when = datetime.fromtimestamp(path.stat(follow_symlinks=False).st_mtime).astimezone()
    return File(clean(path.name), shown, path, when)


def is_zip(name: str) -> bool:
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


def clean(text: str) -> str:
    """As it can be shown: one form of accents, nothing that steers a terminal or turns a line."""
    text = unicodedata.normalize("NFC", text).encode("utf-8", "replace").decode("utf-8")
    bad = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
    return "".join("�" if unicodedata.category(c) == "Cc" or c in bad else c for c in text)


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key to sort names by: x, x-1, x-2, x-10."""
    parts = re.split(r"([0-9]+)", name.casefold())
    return [
        (1, len(part.lstrip("0")), part.lstrip("0")) if i % 2 else (0, 0, part)
        for i, part in enumerate(parts)
    ]
