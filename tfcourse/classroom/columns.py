"""The tables of a class: the roster that comes in, the grades that go out."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfcourse.classroom.records import Results, Student, Title, put

LONGEST_KEY = 60
_ROLES = {  # what a column says, by its title
    "name": ("name", "full name", "student", "student name"),
    "first": ("first name", "firstname", "given name"),
    "last": ("last name", "lastname", "surname", "family name"),
    "email": ("email", "e mail", "email address", "e mail address"),
    "id": ("id", "student id", "id number", "sid", "sis user id", "identifier", "student number"),
    "login": ("username", "login", "login id", "sis login id", "github username"),
    "group": ("section", "group", "groups"),
}
_ROLE = {title: role for role, titles in _ROLES.items() for title in titles}
_RESERVED = {"con", "prn", "aux", "nul"} | {f"{x}{n}" for x in ("com", "lpt") for n in range(10)}
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe"})


# ------------------------------------------------------------------------------- names and keys


def plain(name: str) -> str:
    """A name as it is compared: "López, Ana", "Ana_López" and "ana  lópez" are one."""
    name = unicodedata.normalize("NFC", name).casefold().replace("_", " ")
    last, comma, first = name.partition(",")
    if comma and first.strip() and "," not in first:
        name = f"{first} {last}"
    return " ".join(name.split())


def folded(text: str) -> str:
    """Without accents and capitals."""
    found = unicodedata.normalize("NFKD", plain(text))
    return "".join(c for c in found if not unicodedata.combining(c)).translate(_LETTERS)


def _words(name: str) -> list[str]:
    """The words of a name; a number beside them is no part of it."""
    words = re.findall(r"[^\W_]+", folded(name))
    return [word for word in words if not re.search("[0-9]{3}", word)] or words


@dataclass(frozen=True)
class Who:
    """What is known of somebody who is to be found again.

    Attributes:
        id: theirs alone and lasting, as it is to be read in their key; or "".
        marks: pairs such as ("id", "123") and ("email", "a@b"), as `mark` makes them.
    """

    name: str
    id: str = ""
    marks: frozenset[tuple[str, str]] = frozenset()


def mark(kind: str, text: str) -> tuple[str, str]:
    """An id, email or login, ready to be compared; a spreadsheet drops an id's first zeros."""
    text = unicodedata.normalize("NFC", text).strip().casefold()
    return kind, text.lstrip("0") or "0" if text.isdigit() else text


def keys(people: Sequence[Who], taken: Collection[str] = ()) -> list[str]:
    """A key for each: ASCII, at most 60 characters, fit to be a file's name on every system.

    It is made from the name and the id, so that it is the same in every run. Where that does not
    tell them apart, or has lost letters, a few digits of a hash do.
    """
    first = [_key(who) for who in people]
    count = Counter(first) + Counter(taken)
    used, found = set(taken), []
    for who, key in zip(people, first, strict=True):
        base = key = key if count[key] == 1 else _hashed(key, who)
        turn = 1
        while key in used:  # two rows that say the same
            turn += 1
            key = f"{base[: LONGEST_KEY - 6]}-{turn}"
        used.add(key)
        found.append(key)
    return found


def _key(who: Who) -> str:
    said = [folded(who.name), folded(who.id)]
    key = "-".join(filter(None, (re.sub(r"[^a-z0-9]+", "-", text).strip("-") for text in said)))
    lost = any(c.isalnum() and not c.isascii() for text in said for c in text)
    if lost or not key or key in _RESERVED or len(key) > LONGEST_KEY:
        return _hashed(key or "student", who)
    return key


def _hashed(key: str, who: Who) -> str:
    said = "\0".join([plain(who.name), who.id, *(":".join(pair) for pair in sorted(who.marks))])
    digest = hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{key[: LONGEST_KEY - 15]}-{digest}"


# ------------------------------------------------------------------------------------- a roster


class Roster:
    """The students of a class, and how to tell which of them somebody is."""

    def __init__(self, people: Sequence[tuple[Student, Who]]):
        self.students = tuple(student for student, _ in people)
        self._marks: dict[tuple[str, str], list[Student]] = defaultdict(list)
        self._names: dict[str | tuple[str, ...], list[Student]] = defaultdict(list)
        for student, who in people:
            for kind, text in who.marks:
                self._marks[kind, text].append(student)
                if kind == "email":
                    self._marks[mark("login", text.split("@")[0])].append(student)
            for form in _forms(who.name):
                self._names[form].append(student)

    def find(self, who: Who) -> tuple[Student, ...]:
        """Who it is: by id, email and login, else by name; several where that cannot be told."""
        named, marked = self._named(who.name), self.marked(who)
        if not marked:
            return named
        both = tuple(student for student in marked if student in named)
        if len(named) == 1 and not both:
            return marked + named  # the name says another than the number
        return both if len(both) == 1 else marked

    def marked(self, who: Who) -> tuple[Student, ...]:
        """Those who have an id, else an email, else a login in common with somebody."""
        for kind in ("id", "email", "login"):
            found = [s for pair in sorted(who.marks) if pair[0] == kind for s in self._get(pair)]
            if found:
                return _once(found)
        return ()

    def _get(self, pair: tuple[str, str]) -> list[Student]:
        return self._marks.get(pair, [])

    def _named(self, name: str) -> tuple[Student, ...]:
        words = _words(name)
        forms = [plain(name), tuple(sorted(words))]
        if len(words) == 1:
            forms.append((words[0],))  # "lopezana", as Canvas writes it
        return next((_once(self._names[form]) for form in forms if form in self._names), ())


def _forms(name: str) -> Iterator[str | tuple[str, ...]]:
    """The ways in which a name may be written: as it is, in any order, as one word."""
    words = _words(name)
    yield plain(name)
    if words:
        yield tuple(sorted(words))
        for i in range(len(words)):
            yield ("".join(words[i:] + words[:i]),)


def _once(students: Sequence[Student]) -> tuple[Student, ...]:
    return tuple({student.key: student for student in students}.values())


def describe(record: dict[str, str]) -> Who:
    """Who a row is about, from its cells by the titles of their columns."""
    said: dict[str, list[str]] = defaultdict(list)
    marks, lasting = set(), ""
    for title, cell in record.items():
        role, cell = _ROLE.get(_title(title), ""), cell.strip()
        if not role or not cell:
            continue
        said[role].append(cell)
        if role in ("id", "email", "login"):
            marks.add(mark(role, cell))
        if _title(title) == "identifier":  # Moodle's "Participant 123", another one in each task
            marks |= {mark("id", number) for number in re.findall(r"[0-9]+$", cell)}
        elif role == "id":
            lasting = lasting or cell
    name = next(iter(said["name"]), "") or " ".join(said["first"][:1] + said["last"][:1])
    name = name or next((said[role][0] for role in ("email", "login", "id") if said[role]), "")
    return Who(name, lasting, frozenset(marks))


def read_roster(path: Path) -> Roster:
    """The students that a CSV names; a gradebook of Canvas or a worksheet of Moodle will do.

    Raises:
        ValueError: it cannot be read, or no column says who somebody is.
    """
    sheet = Sheet.read(path)
    roles = {_ROLE.get(_title(title)) for title in sheet.titles}
    if not roles & {"name", "first", "last", "email", "id", "login"}:
        raise ValueError(
            f"{path.name} does not say who the students are. One of its columns must be called "
            f"name, email or id. It has: {_listed(sheet.titles)}."
        )
    return Roster([(student, who) for _, student, who in _people(sheet)])


def _people(sheet: Sheet) -> list[tuple[int, Student, Who]]:
    """The row, the student and all that is known of them, for each row that is a student."""
    rows = [(row, record) for row, record in sheet.records() if sheet.is_student(record)]
    whos = [describe(record) for _, record in rows]
    found = []
    for (row, record), who, key in zip(rows, whos, keys(whos), strict=True):
        known = {
            title: cell.strip()
            for title, cell in record.items()
            if _ROLE.get(_title(title)) in ("id", "email", "login", "group") and cell.strip()
        }
        found.append((row, Student(key, who.name, known), who))
    return found


def _title(title: str) -> str:
    return " ".join(re.split(r"[\W_]+", title.casefold())).strip()


def _listed(titles: Sequence[str]) -> str:
    return ", ".join(f"“{title}”" for title in titles if title) or "none"


# --------------------------------------------------------------------------------------- a sheet


@dataclass
class Sheet:
    """A CSV, cell by cell as it was written, so that what nobody changes stays as it is."""

    encoding: str
    mark: str  # the byte order mark, where there is one
    delimiter: str
    cells: list[list[str]]  # with their quotes
    ends: list[str]  # of each row
    titles: list[str] = field(default_factory=list)
    first: int = 0  # the row after the titles

    @classmethod
    def read(cls, path: Path) -> Sheet:
        """A sheet from a file.

        Raises:
            ValueError: it cannot be opened, is no text, or is empty.
        """
        try:
            text, encoding = _decoded(path.read_bytes())
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror or error}).") from None
        except UnicodeError:
            raise ValueError(f"{path} is no CSV: it holds no text. Export it as CSV.") from None
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        text = text[len(mark) :]
        bare = re.sub(r'"[^"]*"', "title", text)
        line = next((x for x in re.split(r"[\r\n]", bare) if x.strip(",;\t ")), "")
        delimiter = max(",;\t", key=line.count)
        sheet = cls(encoding, mark, delimiter, *_split(text, delimiter))
        first = next((i for i, row in enumerate(sheet.cells) if "".join(row).strip()), None)
        if "\0" in text or first is None:
            what = "is no CSV: it holds no text" if "\0" in text else "is empty"
            raise ValueError(f"{path} {what}. A table as CSV was expected, with a row of titles.")
        sheet.first = first + 1
        sheet.titles = [_bare(cell).strip() for cell in sheet.cells[first]]
        return sheet

    def write(self, path: Path) -> None:
        rows = zip(self.cells, self.ends, strict=True)
        text = self.mark + "".join(self.delimiter.join(row) + end for row, end in rows)
        put(text.encode(self.encoding), path)

    @property
    def exported_by(self) -> str:
        """ "Canvas", "Moodle", or "" for another sheet."""
        titles = {_title(title) for title in self.titles}
        if {"student", "id"} <= titles and titles & {"section", "sis login id", "sis user id"}:
            return "Canvas"
        return "Moodle" if {"identifier", "grade"} <= titles else ""

    def records(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Each row below the titles: its number, and its cells by their titles."""
        for i in range(self.first, len(self.cells)):
            yield i, dict(reversed([*zip(self.titles, map(_bare, self.cells[i]), strict=False)]))

    def is_student(self, record: dict[str, str]) -> bool:
        """Whether a row is one: not empty, nor one of Canvas's own."""
        said = {_title(title): cell.strip() for title, cell in record.items()}
        if self.exported_by == "Canvas":
            name = plain(said.get("student", ""))
            return bool(said.get("id") and name) and name not in ("points possible", "test student")
        return bool(describe(record).name)

    def get(self, row: int, column: int) -> str:
        cells = self.cells[row]
        return _bare(cells[column]).strip() if column < len(cells) else ""

    def put(self, row: int, column: int, text: str) -> None:
        cells = self.cells[row]
        cells += [""] * (column + 1 - len(cells))
        quoted = cells[column].startswith('"') or self.delimiter in text
        cells[column] = f'"{text}"' if quoted else text


def _decoded(content: bytes) -> tuple[str, str]:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16-le" if content[:1] == b"\xff" else "utf-16-be"
        return content.decode(encoding), encoding
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return content.decode("cp1252"), "cp1252"


def _split(text: str, delimiter: str) -> tuple[list[list[str]], list[str]]:
    """Rows of cells with their quotes, and what ends each row."""
    other = rf"[^{delimiter}\r\n]*"
    cell = re.compile(rf'("[^"]*(?:""[^"]*)*"{other}|{other})({delimiter}|\r\n|\r|\n|\Z)')
    rows, ends, row, at = [], [], [], 0
    while at < len(text) or row:
        found = cell.match(text, at)
        row.append(found[1])
        at = found.end()
        if found[2] != delimiter:
            rows.append(row)
            ends.append(found[2])
            row = []
    return rows, ends


def _bare(cell: str) -> str:
    """What a cell says, without its quotes."""
    if not (len(cell) > 1 and cell.startswith('"') and '"' in cell[1:]):
        return cell
    inner, end = cell[1:].rsplit('"', 1)
    return inner.replace('""', '"') + end


# -------------------------------------------------------------------------------- grades go out


def is_exported(path: Path) -> bool:
    """Whether a CSV is one that Canvas or Moodle exported, and so has a column to be filled.

    Raises:
        ValueError: it cannot be read.
    """
    return bool(Sheet.read(path).exported_by)


def fill(roster_csv: Path, to: Path, results: Results, lesson: str, column: str = "") -> str:
    """Copy a CSV of Canvas or Moodle with the points of a lesson in its column.

    All else stays as it is, to the letter. Points are scaled where the sheet has another maximum.
    A student without a submission, or whose answer could not be judged, keeps what is there.

    Args:
        column: its title, or how that begins; "" takes Moodle's Grade, or Canvas's column that is
            called as the lesson is.

    Returns:
        what was done, in words.

    Raises:
        ValueError: there is no such column, or the file cannot be read.
    """
    sheet = Sheet.read(roster_csv)
    title = results.titles.get(lesson, lesson)
    wanted = [column] if column else _called(sheet, lesson, title)
    where = _column(sheet, wanted, roster_csv.name)
    people = _people(sheet)
    roster = Roster([(student, who) for _, student, who in people])
    row_of = {student.key: row for row, student, _ in people}
    filled, lost, unjudged = set(), [], []
    for student in results.students:
        graded = results.counts(student.key, lesson)
        if graded is None:
            continue
        found = roster.find(describe({"name": student.name} | student.known))
        row = row_of[found[0].key] if len(found) == 1 else None
        if row is None or row in filled:
            lost.append(student.name)
        elif any(m.of and m.state == "not judged" for m in graded.marks):
            unjudged.append(student.name)
        else:
            sheet.put(row, where, _points(sheet, row, where, graded.points, graded.of))
            filled.add(row)
    sheet.write(to)
    said = f"{len(filled)} of {len(people)} rows of {to.name} were filled in the column "
    said += f"“{sheet.titles[where]}”."
    if lost:
        said += f" Not found in it, or not for certain: {'; '.join(lost)}."
    if unjudged:
        said += f" Left as they were, since an answer was not judged: {'; '.join(unjudged)}."
    return said


def check_column(roster_csv: Path, column: str) -> None:
    """Raise ValueError where a CSV of Canvas or Moodle has no such column to be filled."""
    sheet = Sheet.read(roster_csv)
    if sheet.exported_by:
        _column(sheet, [column], roster_csv.name)


def _called(sheet: Sheet, lesson: str, title: str) -> list[str]:
    """What the column of a lesson may be called."""
    if sheet.exported_by == "Moodle":
        return ["Grade"]
    number = lesson.split("_")[0]
    short = [f"Lesson {int(number)}"] if number.isdecimal() else []
    return [lesson, title, f"Lesson {number}", *short]


def _column(sheet: Sheet, wanted: Sequence[str], name: str) -> int:
    free = {i: title for i, title in enumerate(sheet.titles) if title and not _role(title)}
    if sheet.exported_by == "Moodle":  # all else is its own, or words
        free = {i: title for i, title in free.items() if _title(title) == "grade"}
    for text in map(_title, wanted):
        for fits in (text.__eq__, re.compile(rf"{text} [0-9]+").fullmatch, _begins(text)):
            found = [i for i, title in free.items() if text and fits(_title(title))]
            if len(found) == 1:
                if _maximum(sheet, None, found[0]).startswith("("):
                    raise ValueError(f"Canvas does not read the column “{free[found[0]]}” again.")
                return found[0]
            if found:
                raise ValueError(
                    f"More than one column of {name} fits “{wanted[0]}”: "
                    f"{_listed([free[i] for i in found])}. Give the whole title."
                )
    open_ = [title for i, title in free.items() if not _maximum(sheet, None, i).startswith("(")]
    raise ValueError(
        f"{name} has no column “{wanted[0]}”. Columns that can be filled: {_listed(open_)}. Name "
        "one with --column."
    )


def _role(title: str) -> str:
    return _ROLE.get(_title(title), "")


def _begins(text: str):
    """Whether a title begins so; "Lesson 1" is no beginning of "Lesson 10"."""
    return re.compile(rf"{text}(?![0-9]).*" if text[-1:].isdigit() else rf"{text}.+").fullmatch


def _points(sheet: Sheet, row: int, column: int, points: float, of: float) -> str:
    """What to write: as many points of the sheet's own maximum, with its decimal sign."""
    written = _maximum(sheet, row, column)
    maximum = _number(written)
    if maximum and of:
        points = points * maximum / of
    text = f"{points:.2f}".rstrip("0").rstrip(".")
    return text.replace(".", ",") if maximum is not None and "," in written else text


def _maximum(sheet: Sheet, row: int | None, column: int) -> str:
    """The most points, as the sheet says it: Moodle in the row, Canvas in a row of its own."""
    titles = [_title(title) for title in sheet.titles]
    if sheet.exported_by == "Moodle" and row is not None and "maximum grade" in titles:
        return sheet.get(row, titles.index("maximum grade"))
    if sheet.exported_by == "Canvas":
        for i, record in sheet.records():
            said = sheet.get(i, column)
            nobody = not record.get(sheet.titles[titles.index("id")], "").strip()
            if nobody and (_number(said) is not None or said.startswith("(")):
                return said
    return ""


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def table(results: Results) -> str:
    """`grades.csv`: a row for each student, also for those who handed in nothing."""
    titles = ["name", "key", "id", "email"]
    for lesson, exercises in results.lessons.items():
        titles += [f"{lesson} {word}" for word in ("points", "of", "late", "tries")]
        titles += [f"{lesson} {exercise.name}" for exercise in exercises]
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(map(safe, titles))
    for student in results.students:
        row = [student.name, student.key, _said(student, "id"), _said(student, "email")]
        for lesson, exercises in results.lessons.items():
            row += _outcome(results, student.key, lesson, exercises)
        writer.writerow(map(safe, row))
    return target.getvalue()


def _said(student: Student, role: str) -> str:
    return next((cell for title, cell in student.known.items() if _role(title) == role), "")


def _outcome(results: Results, key: str, lesson: str, exercises: Sequence[Title]) -> list[str]:
    graded = results.counts(key, lesson)
    if graded is None:
        return [""] * (4 + len(exercises))
    states = {mark.exercise: mark.state for mark in graded.marks}
    row = [f"{graded.points:g}", f"{graded.of:g}", "late" if graded.late else ""]
    row.append(str(len(results.tries[key, lesson])))
    return row + [states.get(exercise.name, "") for exercise in exercises]


def safe(text: str) -> str:
    """A text in one line that no spreadsheet takes for a formula."""
    text = re.sub(r"[\r\n\t]+", " ", text)
    return f"'{text}" if text.lstrip().startswith(tuple("=+-@＝＋－＠")) else text
