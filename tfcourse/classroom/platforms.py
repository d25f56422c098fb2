"""What Moodle, Canvas and Gradescope call the files: whose they are, and how they go back."""

from __future__ import annotations

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from tfcourse.classroom.columns import Who, mark, plain
from tfcourse.classroom.handed_in import METADATA, Folder, clean
from tfcourse.classroom.records import Results, put

_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<id>[0-9]+)_assignsubmission_[a-z]+(?:_(?P<file>.*))?", re.DOTALL
)
_CANVAS = re.compile(
    r"(?P<name>(?:[^\W\d_].*?)?)_(?P<late>LATE_)?(?P<id>[0-9]{2,})_"
    r"(?:[0-9]{3,}_(?P<file>.+)|(?:text|link)\.html)",
    re.DOTALL,
)
_NAMELESS = re.compile(
    r"(?P<late>LATE_)?(?P<name>anon_(?P<id>[A-Za-z0-9]+))_[0-9]{3,}_(?P<file>.+)"
)


def named(name: str) -> re.Match | None:
    """The name of a folder or file, with its parts, if Moodle or Canvas has given it.

    `file` is the student's own name of it, or nothing.
    """
    return _MOODLE.fullmatch(name) or _CANVAS.fullmatch(name) or _NAMELESS.fullmatch(name)


def filled(folder: Folder) -> bool:
    """Whether a platform has filled a folder, or the only one in it."""
    names = folder.names
    if METADATA in names or any(map(named, names)):
        return True
    return len(names) == len(folder.folders) == 1 and all(map(filled, folder.folders.values()))


def numbers(names: Iterable[str]) -> dict[str, set[str]]:
    """A person's name -> the numbers that Moodle gives to those who have it."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in filter(None, map(_MOODLE.fullmatch, names)):
        found[plain(one["name"])].add(one["id"])
    return found


def owner(found: re.Match, beside: dict[str, set[str]]) -> tuple[Who, tuple[str, ...], dict]:
    """Whose it is by its name: who, an identity and what is known, as a Hand has them.

    Args:
        found: as `named` gives it.
        beside: the `numbers` of all names at this place.
    """
    name, number = found["name"].replace("_", " ").strip(), found["id"]
    marks = frozenset([mark("id", number)])
    if found.re is _NAMELESS:
        return Who(name, number), ("canvas", number), {}
    if found.re is _CANVAS:
        return Who(name or number, number, marks), ("canvas", number), {"ID": number}
    # Moodle's number is another one in each task, so the name says more, if it is one's alone.
    known = {"Identifier": f"Participant {number}"}
    if plain(name) == "participant":
        return Who(known["Identifier"], number, marks), ("moodle", number), known
    if len(beside[plain(name)]) > 1:
        return Who(name, number, marks), ("moodle", number), known
    return Who(name, "", marks), ("name", plain(name)), known


def number(known: dict[str, str]) -> str:
    """Of what is known of somebody, Moodle's number, another one in each assignment; or ""."""
    found = re.fullmatch(r"\D*([0-9]+)", known.get("Identifier", "").strip())
    return found[1] if found else ""


def zip_feedback(results: Results, feedback: Path, to: Path) -> bool:
    """Write the pages as Moodle takes them back, all at once; False where nobody has its number.

    Its "Upload multiple feedback files in a zip" finds by the number whose each file is.
    """
    theirs = {student.key: student for student in results.students if number(student.known)}
    found = [path for path in sorted(feedback.glob("*.html")) if path.stem in theirs]
    if found:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in found:
                student = theirs[path.stem]
                name = re.sub(r"[_/\\:]+", " ", clean(student.name))
                whose = f"{name}_{number(student.known)}_assignfeedback_file"
                archive.write(path, f"{whose}_feedback.html")
        put(packed.getvalue(), to)
    return bool(found)


def submitters(path: Path) -> dict[str, tuple[list[dict[str, str]], datetime | None]]:
    """Gradescope's metadata: the folder -> those who handed it in, and when.

    Each of them is a record, as `columns.describe` takes it, with Name, SID and Email.
    """
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
                    found[now][0][-1][title] = clean(_scalar(value))
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
    """A time such as "2026-11-01 10:00:00.5 +0100"; without a zone it is local."""
    found = re.match(r"(\d{4}-\d\d-\d\d)[T ]+(\d\d:\d\d:\d\d)(?:\.\d+)?\s*(.*)", text)
    if not found:
        return None
    zone = {"": "", "Z": "+00:00", "UTC": "+00:00"}.get(found[3], found[3])
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}").astimezone()
    except (ValueError, OSError, OverflowError):
        return None
