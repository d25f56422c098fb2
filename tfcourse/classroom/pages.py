"""Pages of a class's results: one for each student, one for the teacher, and a summary as text.

A page is one file that runs no script and asks no host for anything: it says so to the browser too.
A student's page holds that student's own work alone, and nothing that is for the teacher.
"""

from __future__ import annotations

import os
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from html import escape
from pathlib import Path
from urllib.parse import quote

from tfcourse.classroom.records import Graded, Mark, Results, Student, Title, Trouble

STATES = {  # a sign and a word each, so that no colour says anything alone
    "right": ("✓", "right"),
    "wrong": ("✗", "not right yet"),
    "to do": ("○", "to do"),
    "not judged": ("–", "not judged"),
}
UNSAFE = (
    "Graded without a sandbox. The answers ran with all that the grader's account may do: one of "
    "them could have read, changed or forged any file, so these points are less certain than they "
    "look."
)
SENTENCES, LONGEST = 3, 400  # of what was told, where it is shortened
FIRST = 5  # diagnoses of an exercise that are seen at once; the others unfold
_OURS = '<meta name="generator" content="tfcourse class">'
_UNSEEN = {  # control characters, and those that turn the direction of what follows
    **dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)]),
    **dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)]),
    **dict.fromkeys(range(0xD800, 0xE000), "�"),  # of file names that are no text
}


def write(results: Results, folder: Path) -> None:
    """Write `feedback/KEY.html` for each student with a submission or a trouble; `class.html`.

    A page of an earlier time, of a student who is not among these now, is taken away.

    Raises:
        ValueError: a student's key is no name of a file.
        OSError: a page cannot be written.
    """
    found = _Counted(results)
    pages = {f"{student.key}.html": _students_page(found, student) for student in found.with_page}
    for name in pages:
        if Path(name).name != name or "\\" in name:
            raise ValueError(f"A student's key must be fit to be a file's name. Got {name[:-5]!r}.")
    feedback = folder / "feedback"
    feedback.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        _put(page, feedback / name)
    for path in feedback.glob("*.html"):
        if path.name not in pages and _OURS in path.read_text(encoding="utf-8", errors="replace"):
            path.unlink()
    _put(_teachers_page(found), folder / "class.html")


def _put(page: str, path: Path) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(page, encoding="utf-8", newline="\n")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def summary(results: Results) -> str:
    """As text for a terminal: how many, the points, and each file and submission to look at."""
    found = _Counted(results)
    late = sum(graded.late for graded in found.counting)
    lines = [
        f"{len(found.handed_in)} of {_many(len(results.students), 'student')} handed in; "
        f"{_many(len(results.graded), 'submission')} graded"
        + (f"; {late} of those that count came late." if late else ".")
    ]
    for lesson in results.lessons:
        points = found.points(lesson)
        if found.of(lesson) and points:
            lines.append(
                f"  {lesson}: of {_number(found.of(lesson))} points, mean "
                f"{_number(statistics.mean(points))}, median {_number(statistics.median(points))}"
            )
    if results.unsafe:
        lines += ["", UNSAFE]
    for title, items in _to_look_at(found):
        lines += ["", f"{title}:", *(f"  {' '.join(_clean(item).split())}" for item in items)]
    if not (results.troubles or found.flagged or found.missing):
        lines.append("Nothing needs a look.")
    return "\n".join(map(_clean, lines)) + "\n"


def _to_look_at(found: _Counted) -> list[tuple[str, list[str]]]:
    """The groups that are not empty: a title, and a line for each file and submission."""
    files = []
    for trouble in found.results.troubles:
        whose = f"{found.name(trouble.student)}: " if trouble.student else ""
        files.append(f"{whose}{trouble.shown}: {trouble.says}")
    submissions = []
    for graded, marks in found.flagged:
        head = f"{found.name(graded.student)}, {graded.lesson}, {graded.shown}"
        head += "" if found.does_count(graded) else f", try {graded.turn}, which does not count"
        said = "; ".join(f"{', '.join(names)}: {why}" for why, names in _whys(marks).items())
        submissions.append(f"{head}: {said}")
    nobody = []
    for lesson, students in found.missing.items():
        names = "; ".join(found.name(student.key) for student in students)
        nobody.append(f"{lesson or 'any lesson'} ({len(students)}): {names}")
    groups = {
        f"Files that could not be taken ({len(files)})": files,
        f"Submissions to look at ({len(submissions)})": submissions,
        "Nothing handed in for": nobody,
    }
    return [(title, items) for title, items in groups.items() if items]


def _whys(marks: Sequence[Mark]) -> dict[str, list[str]]:
    """Why to look -> at which exercises: what is wrong with a whole notebook is said once."""
    found: dict[str, list[str]] = {}
    for mark in marks:
        found.setdefault(mark.look or f"not judged. {mark.says}".strip(), []).append(mark.exercise)
    return found


# --- what is counted ------------------------------------------------------------------------------


@dataclass
class _Misunderstood:
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


class _Counted:
    """The results, counted; of several tries the last one."""

    def __init__(self, results: Results):
        self.results = results
        self.tries: dict[tuple[str, str], list[Graded]] = {}
        for graded in sorted(results.graded, key=lambda graded: graded.turn):
            self.tries.setdefault((graded.student, graded.lesson), []).append(graded)
        keys = [(s.key, lesson) for s in results.students for lesson in results.lessons]
        self.counting = [self.tries[key][-1] for key in keys if key in self.tries]
        self.handed_in = {graded.student for graded in results.graded}
        self.in_trouble = {trouble.student for trouble in results.troubles}
        self._names = {student.key: student.name for student in results.students}
        self._often = Counter(self._names.values())

    @cached_property
    def with_page(self) -> list[Student]:
        keys = self.handed_in | self.in_trouble
        return [student for student in self.results.students if student.key in keys]

    def name(self, key: str) -> str:
        """A student's name, with the key where two have the same."""
        name = self._names.get(key, key)
        return f"{name} ({key})" if self._often[name] > 1 else name

    def title(self, lesson: str) -> str:
        return self.results.titles.get(lesson, lesson)

    def exercise(self, lesson: str, name: str) -> Title:
        rows = self.results.lessons.get(lesson, ())
        return next((title for title in rows if title.name == name), Title(name, name))

    def of(self, lesson: str) -> float:
        return sum(title.points for title in self.results.lessons[lesson])

    def count(self, student: str, lesson: str) -> Graded | None:
        return self.tries.get((student, lesson), [None])[-1]

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

    def states(self, lesson: str) -> dict[str, Counter[str]]:
        """The exercise -> how many are right, wrong and so on, in the order of the lesson."""
        rows = {title.name: Counter() for title in self.results.lessons[lesson]}
        for graded in self.submissions(lesson):
            for mark in graded.marks:
                rows.setdefault(mark.exercise, Counter())[mark.state] += 1
        return rows

    @cached_property
    def misunderstood(self) -> list[_Misunderstood]:
        """Every diagnosis of a wrong answer: the most frequent first, then as the lessons go."""
        rows: dict[tuple[str, str, str], _Misunderstood] = {}
        for graded in self.counting:
            for mark in graded.marks:
                if mark.state == "wrong":
                    key = (graded.lesson, mark.exercise, mark.diagnosis)
                    row = rows.setdefault(key, _Misunderstood(*key))
                    row.whose.append(graded.student)
                    row.told[mark.says] += 1
                    row.hidden += mark.hidden
        places = [(x, exercise) for x in self.results.lessons for exercise in self.states(x)]

        def rank(row: _Misunderstood) -> tuple[int, int]:
            return -len(row.whose), places.index((row.lesson, row.exercise))

        return sorted(rows.values(), key=rank)


# --- text -----------------------------------------------------------------------------------------


def _clean(text: str) -> str:
    return text.translate(_UNSEEN)


def _text(text: str) -> str:
    return escape(_clean(text))


def _name(text: str) -> str:
    """Text that somebody chose, whose direction stays its own."""
    return f"<bdi>{_text(text)}</bdi>"


def _told(text: str) -> str:
    """Escaped text in which `this` becomes code."""
    parts = _text(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is only a backtick
        return _text(text)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _shortened(text: str) -> str:
    sentences = re.split(r"(?<=[.!?])\s+", text.strip())
    short = " ".join(sentences[:SENTENCES])
    if len(short) > LONGEST:
        return short[: LONGEST - 1] + "…"
    return short + (" …" if len(sentences) > SENTENCES else "")


def _number(value: float) -> str:
    return f"{round(value, 2):g}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _of(points: float, of: float) -> str:
    return f"{_number(points)} of {_number(of)}"


def _time(when: str) -> str:
    """A time as people write it; what is no ISO 8601 stays as it is."""
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return _text(when)
    zone = f" <small>{_text(moment.tzname())}</small>" if moment.tzinfo else ""
    return f'<time datetime="{_text(when)}">{moment:%Y-%m-%d %H:%M}{zone}</time>'


def _sign(state: str) -> str:
    return f'<span class="sign {_css(state)}" aria-hidden="true">{STATES[state][0]}</span>'


def _css(state: str) -> str:
    return state.replace(" ", "-")


def _called(title: Title) -> str:
    """An exercise's title and the name that it has in the notebook."""
    code = f"<code>{_text(title.name)}</code>"
    return code if title.title == title.name else f"{_text(title.title)} {code}"


def _facts(rows: Iterable[tuple[str, str, str]]) -> str:
    """A list of a word, what it is, and a note."""
    items = "".join(
        f"<div><dt>{word}</dt><dd>{value}{f'<small>{note}</small>' if note else ''}</dd></div>"
        for word, value, note in rows
    )
    return f'<dl class="facts">{items}</dl>'


# --- a student's page -----------------------------------------------------------------------------


def _students_page(found: _Counted, student: Student) -> str:
    results = found.results
    lessons = [lesson for lesson in results.lessons if (student.key, lesson) in found.tries]
    troubles = [trouble for trouble in results.troubles if trouble.student == student.key]
    titles = ", ".join(found.title(lesson) for lesson in lessons)
    body = f"<h1>{_name(student.name)}</h1>"
    body += f'<p class="faint">Feedback{f" on {_text(titles)}" if titles else ""}'
    body += f"; graded {_time(results.when)}</p>" if results.when else "</p>"
    links = [(lesson, found.title(lesson)) for lesson in lessons] if len(lessons) > 1 else []
    main = _of_troubles(troubles) if troubles else ""
    main += "".join(_of_lesson(found, found.tries[student.key, lesson]) for lesson in lessons)
    head = f"Feedback for {student.name}" + (f": {titles}" if titles else "")
    return _page(head, body, links, main, unsafe=results.unsafe)


def _of_troubles(troubles: Sequence[Trouble]) -> str:
    items = ""
    for trouble in troubles:
        file = re.split(r"[/\\]", trouble.shown)[-1]  # where it was found is for the teacher
        items += f"<li>{_name(file)}: {_told(trouble.says)}</li>"
    what = "A file" if len(troubles) == 1 else f"{len(troubles)} files"
    return (
        '<section class="trouble" aria-labelledby="troubles">'
        f'<h2 id="troubles">{_sign("wrong")} {what} of yours could not be taken</h2>'
        f"<ul>{items}</ul>"
        "<p>Hand in the notebook itself, the file that ends in <code>.ipynb</code>, saved by "
        "Jupyter. If it is too late for that, tell your teacher.</p></section>"
    )


def _of_lesson(found: _Counted, tries: Sequence[Graded]) -> str:
    graded = tries[-1]
    lesson = _text(graded.lesson)
    marks = "".join(_of_mark(found, graded, mark) for mark in graded.marks)
    helps = ""
    if any(mark.state in ("wrong", "to do") for mark in graded.marks):
        helps = (
            '<p class="faint">To go on: in the notebook, <code>hint("…")</code> with the '
            "exercise's name helps without giving it away, and the cell that checks your answer "
            "judges a new one at once.</p>"
        )
    return (
        f'<section aria-labelledby="{lesson}">'
        f'<h2 id="{lesson}">{_text(found.title(graded.lesson))}</h2>'
        f'<p class="opening">{_opening(graded.marks)}</p>{_facts(_handed_in(graded, len(tries)))}'
        f'<ol class="marks">{marks}</ol>{helps}{_earlier(found, tries[:-1])}</section>'
    )


def _opening(marks: Sequence[Mark]) -> str:
    """How it went, in sentences that are true."""
    count = Counter(mark.state for mark in marks)
    right, all_ = count["right"], len(marks)
    if not marks:
        return "There was no exercise to judge."
    if right == all_:
        return f"Right: all {all_}." if all_ > 1 else "Right."
    said = [f"Right: {right} of {all_}." if right else f"Right: none of {all_} so far."]
    said.append(_are(count["wrong"], "worth another look"))
    said.append(_are(count["to do"], "still to do"))
    said.append(_are(count["not judged"], "not judged"))
    return " ".join(filter(None, said))


def _are(count: int, what: str) -> str:
    words = ["", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"]
    number = words[count] if count < len(words) else str(count)
    return f"{number} {'is' if count == 1 else 'are'} {what}." if count else ""


def _handed_in(graded: Graded, tries: int) -> list[tuple[str, str, str]]:
    points = _of(graded.points, graded.of) if graded.of else "none"
    note = "" if graded.of else "this lesson is for practice"
    late = '<b class="wrong">late</b>' if graded.late else "not late"
    rows = [("Points", points, note), ("Handed in", _time(graded.when) or "time not known", late)]
    if tries > 1:
        rows.append(("Try", f"{tries} of {tries}", "the last one counts"))
    return rows


def _of_mark(found: _Counted, graded: Graded, mark: Mark) -> str:
    title = found.exercise(graded.lesson, mark.exercise)
    kind = " counts" if mark.of else ""
    html = (
        f'<li class="mark {_css(mark.state)}{kind}"><div class="line">'
        f"<h3>{_sign(mark.state)} {_called(title)}</h3><p>{_state(mark)}</p></div>"
    )
    if mark.state == "right":
        return html + "</li>"
    if mark.says:
        html += f'<p class="says">{_told(mark.says)}</p>'
    if mark.picture:
        html += (
            f"<figure>{mark.picture}<figcaption>Yours, what is right, and the difference"
            "</figcaption></figure>"
        )
    return html + "</li>"


def _state(mark: Mark) -> str:
    word = f'<b class="{_css(mark.state)}">{STATES[mark.state][1]}</b>'
    if mark.hidden:
        word += ' <span class="tag">right in every case that you can run</span>'
    if mark.of:
        return f'{word} <span class="tag">counts: {_of(mark.points, mark.of)} points</span>'
    return f'{word} <span class="faint">for practice</span>'


def _earlier(found: _Counted, tries: Sequence[Graded]) -> str:
    """The tries that do not count, the latest first, a line for each exercise; folded."""
    if not tries:
        return ""
    html = ""
    for graded in reversed(tries):
        facts = f"Try {graded.turn}"
        facts += f": {_of(graded.points, graded.of)} points" if graded.of else ""
        facts += f", handed in {_time(graded.when)}" if graded.when else ""
        items = ""
        for mark in graded.marks:
            called = _called(found.exercise(graded.lesson, mark.exercise))
            says = f"<br>{_told(mark.says)}" if mark.says and mark.state != "right" else ""
            items += f"<li>{_sign(mark.state)} {called}: {_state(mark)}{says}</li>"
        html += f"<p><b>{facts}{', late' if graded.late else ''}</b></p><ul>{items}</ul>"
    what = "Your earlier try, which does" if len(tries) == 1 else "Your earlier tries, which do"
    return f'<details class="earlier"><summary>{what} not count</summary>{html}</details>'


# --- the teacher's page ---------------------------------------------------------------------------


def _teachers_page(found: _Counted) -> str:
    results = found.results
    lessons = ", ".join(found.title(lesson) for lesson in results.lessons)
    body = "<h1>The class</h1>"
    body += f'<p class="faint">{_text(lessons) or "No submissions"}'
    body += f"; graded {_time(results.when)}</p>" if results.when else "</p>"
    links = [("points", "Points"), ("look", "Needs a look")]
    if results.lessons:
        links.append(("misunderstood", "What the class misunderstood"))
    if len(results.lessons) > 1:
        links += [(f"of-{lesson}", found.title(lesson)) for lesson in results.lessons]
    main = _numbers(found) + _points(found) + _looks(found)
    if results.lessons:
        main += _misunderstandings(found)
    return _page("The class", body, links, main, unsafe=results.unsafe, wide=True)


def _numbers(found: _Counted) -> str:
    several = len(found.results.lessons) > 1
    files, flagged = len(found.results.troubles), len(found.flagged)
    rows = [
        ("Students", str(len(found.results.students)), ""),
        ("Handed in", str(len(found.handed_in)), "at least one lesson" if several else ""),
        ("Late", str(sum(graded.late for graded in found.counting)), "of those that count"),
        (
            "To look at",
            str(files + flagged),
            f"{_many(files, 'file')}, {_many(flagged, 'submission')}",
        ),
    ]
    return f'<section aria-label="In numbers">{_facts(rows)}</section>'


def _points(found: _Counted) -> str:
    results = found.results
    html = '<section aria-labelledby="points"><h2 id="points">Points</h2>'
    if not results.students:
        return html + "<p>Nobody is on the roster, and nobody handed in.</p></section>"
    lessons = list(results.lessons)
    heads = [f"{_text(found.title(x))} {_out_of(found.of(x))}" for x in lessons]
    if len(lessons) > 1:
        heads.append(f"All {_out_of(sum(map(found.of, lessons)))}")
    cells = "".join(f'<th scope="col">{head}</th>' for head in heads)
    rows = "".join(_row(found, student, lessons) for student in results.students)
    return (
        f'{html}<div class="scroll" role="region" tabindex="0" aria-labelledby="points">'
        "<table><caption>Of each student's last try</caption>"
        f'<thead><tr><th scope="col">Student</th>{cells}</tr></thead>'
        f"<tbody>{rows}</tbody>{_foot(found, lessons)}</table></div></section>"
    )


def _out_of(points: float) -> str:
    return f"<small>of {_number(points)}</small>" if points else "<small>for practice</small>"


def _row(found: _Counted, student: Student, lessons: Sequence[str]) -> str:
    head = _name(found.name(student.key))
    if student.key in found.in_trouble:
        head += (
            f' <a class="tag" href="{_address(student.key)}">{_sign("wrong")} file not taken</a>'
        )
    cells, points = [], 0.0
    for lesson in lessons:
        graded = found.count(student.key, lesson)
        points += graded.points if graded else 0.0
        cells.append(_cell(found, graded) if graded else '<span class="faint">nothing</span>')
    if len(lessons) > 1:
        cells.append(_number(points))
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{head}</th>{row}</tr>'


def _cell(found: _Counted, graded: Graded) -> str:
    shown = _number(graded.points) if graded.of else "handed in"
    spoken = f'<span class="spoken"> feedback for {_text(found.name(graded.student))}</span>'
    html = f'<a href="{_address(graded.student)}#{_text(graded.lesson)}">{shown}{spoken}</a>'
    if graded.late:
        html += ' <span class="tag wrong">late</span>'
    if graded.turn > 1:
        html += f' <span class="tag">try {graded.turn}</span>'
    return html


def _address(key: str) -> str:
    return escape(f"feedback/{quote(os.fsencode(key))}.html")


def _foot(found: _Counted, lessons: Sequence[str]) -> str:
    """The mean and the median of those that handed in."""
    rows = ""
    for word, middle in (("Mean", statistics.mean), ("Median", statistics.median)):
        cells = ""
        for lesson in lessons:
            points = found.points(lesson) if found.of(lesson) else []
            cells += f"<td>{_number(middle(points)) if points else ''}</td>"
        cells += "<td></td>" if len(lessons) > 1 else ""
        rows += f'<tr><th scope="row">{word} of those handed in</th>{cells}</tr>'
    return f"<tfoot>{rows}</tfoot>" if any(map(found.points, lessons)) else ""


def _looks(found: _Counted) -> str:
    troubles, html = found.results.troubles, ""
    if troubles:
        items = ""
        for trouble in troubles:
            whose = f"<b>{_name(found.name(trouble.student))}</b>: " if trouble.student else ""
            items += f"<li>{whose}{_name(trouble.shown)}: {_told(trouble.says)}</li>"
        html += f"<h3>Files that could not be taken ({len(troubles)})</h3><ul>{items}</ul>"
    if found.flagged:
        items = "".join(_flagged(found, graded, marks) for graded, marks in found.flagged)
        html += f"<h3>Submissions to look at ({len(found.flagged)})</h3><ul>{items}</ul>"
    for lesson, students in found.missing.items():
        what = f" for {_text(found.title(lesson))}" if lesson else ""
        names = "".join(
            f"<li>{_name(found.name(student.key))}"
            + (" (a file could not be taken)" if student.key in found.in_trouble else "")
            + "</li>"
            for student in students
        )
        html += f'<h3>Nothing handed in{what} ({len(students)})</h3><ul class="names">{names}</ul>'
    return (
        '<section aria-labelledby="look"><h2 id="look">Needs a look</h2>'
        f"{html or '<p>Nothing does: every file was read, and everybody handed in.</p>'}</section>"
    )


def _flagged(found: _Counted, graded: Graded, marks: Sequence[Mark]) -> str:
    whose = f'<a href="{_address(graded.student)}">{_name(found.name(graded.student))}</a>'
    which = f"{_text(found.title(graded.lesson))}, {_name(graded.shown)}"
    if not found.does_count(graded):
        which += f", try {graded.turn}, which does not count"
    whys = ""
    for why, names in _whys(marks).items():
        codes = ", ".join(f"<code>{_text(name)}</code>" for name in names)
        whys += f"<li>{codes}: {_told(why)}</li>"
    return f"<li><b>{whose}</b>, {which}<ul>{whys}</ul></li>"


def _misunderstandings(found: _Counted) -> str:
    html = (
        '<section aria-labelledby="misunderstood">'
        '<h2 id="misunderstood">What the class misunderstood</h2>'
    )
    most = found.misunderstood[:3]
    items = ""
    for row in most:
        title = found.exercise(row.lesson, row.exercise)
        where = f'<a href="#{_place(row)}">{_called(title)}</a>, {_text(found.title(row.lesson))}'
        of = len(found.submissions(row.lesson))
        items += f"<li><b>{len(row.whose)} of {of}</b>, {where}: {_told(row.says)}</li>"
    if len(most) > 1:
        html += f"<p>The most frequent of all exercises:</p><ol>{items}</ol>"
    elif most:
        html += f"<p>There is one:</p><ul>{items}</ul>"
    else:
        html += "<p>Nothing that a submission shows: no answer is wrong.</p>"
    return html + "".join(_lesson(found, lesson) for lesson in found.results.lessons) + "</section>"


def _place(row: _Misunderstood) -> str:
    return _text(f"of-{row.lesson}-{row.exercise}")


def _lesson(found: _Counted, lesson: str) -> str:
    total = len(found.submissions(lesson))
    html = f'<h3 id="of-{_text(lesson)}">{_text(found.title(lesson))}</h3>{_chart(found, lesson)}'
    for exercise in found.states(lesson):
        rows = [x for x in found.misunderstood if (x.lesson, x.exercise) == (lesson, exercise)]
        if not rows:
            continue
        wrong = sum(len(row.whose) for row in rows)
        items = [_diagnosed(found, row, total) for row in rows]
        title = _called(found.exercise(lesson, exercise))
        html += f'<section aria-labelledby="{_place(rows[0])}"><h4 id="{_place(rows[0])}">'
        html += f"{title}: what is wrong in {wrong} of {_many(total, 'answer')}?</h4>"
        html += f'<ol class="told">{"".join(items[:FIRST])}</ol>'
        if more := items[FIRST:]:
            html += f'<details><summary>{len(more)} more</summary><ol class="told" '
            html += f'start="{FIRST + 1}">{"".join(more)}</ol></details>'
        html += "</section>"
    return html


def _chart(found: _Counted, lesson: str) -> str:
    """A row for each exercise: a bar and its numbers."""
    rows = found.states(lesson)
    shown = [x for x in STATES if x != "not judged" or any(count[x] for count in rows.values())]
    words = {state: STATES[state][1] for state in STATES} | {"wrong": "wrong"}
    heads = "".join(f'<th scope="col">{_sign(state)} {words[state]}</th>' for state in shown)
    total = len(found.submissions(lesson))
    body = ""
    for name, count in rows.items():
        title = found.exercise(lesson, name)
        tag = f' <span class="tag">{_number(title.points)} points</span>' if title.points else ""
        bar = _bar([(state, count[state]) for state in shown], total)
        cells = "".join(f"<td>{count[state]}</td>" for state in shown)
        body += f'<tr><th scope="row">{_called(title)}{tag}{bar}</th>{cells}</tr>'
    return (
        '<table class="chart"><caption>Which exercises are right? '
        f"<small>{_many(total, 'submission')}, of each student the last one</small></caption>"
        f'<thead><tr><th scope="col">Exercise</th>{heads}</tr></thead><tbody>{body}</tbody></table>'
    )


def _bar(parts: Sequence[tuple[str, int]], total: int) -> str:
    """A bar as wide as the total; the numbers that it shows stand beside it as text."""
    parts = [*parts, ("rest", total - sum(count for _, count in parts))]
    spans = "".join(
        f'<span class="{_css(kind)}" style="flex:{count}"></span>' for kind, count in parts if count
    )
    return f'<span class="bar" aria-hidden="true">{spans}</span>'


def _diagnosed(found: _Counted, row: _Misunderstood, total: int) -> str:
    count = len(row.whose)
    names = ", ".join(
        f'<a href="{_address(key)}#{_text(row.lesson)}">{_name(found.name(key))}</a>'
        for key in row.whose
    )
    hidden = f", {row.hidden} by hidden cases alone" if row.hidden else ""
    return (
        f"<li>{_bar([('wrong', count)], total)}<p><b>{count}</b> {_told(row.says)} "
        f'<span class="faint">(<code>{_text(row.diagnosis)}</code>{hidden})</span></p>'
        f"<details><summary>{_many(count, 'student')}</summary><p>{names}</p></details></li>"
    )


# --- what all pages share -------------------------------------------------------------------------


def _page(
    title: str,
    head: str,
    links: Sequence[tuple[str, str]],
    main: str,
    *,
    unsafe: bool,
    wide: bool = False,
) -> str:
    """A whole page; `links` are to places in it."""
    skip = nav = banner = ""
    if links:
        items = "".join(f'<li><a href="#{_text(id)}">{_text(word)}</a></li>' for id, word in links)
        skip = '<a class="skip" href="#main">To the content</a>'
        nav = f'<nav aria-label="On this page"><ul>{items}</ul></nav>'
    if unsafe:
        banner = f'<p class="banner" role="note"><span aria-hidden="true">⚠</span> {UNSAFE}</p>'
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n{_OURS}\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body{' class=wide' * wide}>\n{skip}<header>{head}{nav}{banner}</header>\n"
        f'<main id="main">{main}</main>\n</body>\n</html>\n'
    )


_STYLE = """
:root { color-scheme: light dark;
  --paper: #ffffff; --raised: #f4f6f8; --line: #cfd5dc; --ink: #1c2128; --soft: #4f5864;
  --link: #0068a3; --right: #00734f; --wrong: #b34a00;
  --bar-right: #009e73; --bar-wrong: #d55e00; --stripe: #a84a00; --bar-open: #7d8793; }
@media screen and (prefers-color-scheme: dark) { :root {
  --paper: #14181d; --raised: #20262d; --line: #3b434e; --ink: #e8ebef; --soft: #b0b9c4;
  --link: #56b4e9; --right: #2fc496; --wrong: #ff9a52;
  --bar-right: #009e73; --bar-wrong: #e8741a; --stripe: #a84a00; --bar-open: #8a95a3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 48rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: break-word; }
body.wide { max-width: 62rem; }
h1, h2, h3, h4 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.8rem; margin: .2em 0; }
h2 { font-size: 1.35rem; margin: 2em 0 .5em; }
h3 { font-size: 1.1rem; margin: 1.6em 0 .4em; }
h4 { font-size: 1rem; margin: 1.6em 0 .5em; }
p { margin: .4em 0; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 2px; }
code { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; padding: .08em .2em;
  background: var(--raised); border-radius: 4px; overflow-wrap: anywhere; }
h3 code, h4 code, th code { font-weight: 400; }
small { font-size: .875rem; font-weight: 400; color: var(--soft); }
.faint { color: var(--soft); font-size: .9375rem; }
.right { color: var(--right); }
.wrong { color: var(--wrong); }
.to-do, .not-judged { color: var(--soft); }
.sign { display: inline-block; width: 1.1em; font-weight: 700; text-align: center; }
.tag { display: inline-block; padding: 0 .45em; border: 1px solid currentColor; border-radius: 99px;
  font-size: .875rem; font-weight: 600; white-space: nowrap; }
.banner { margin: 1.2em 0; padding: .7em 1em; border: 2px solid #1c2128; border-radius: 8px;
  background: #f0e442; color: #1c2128; }
.spoken, .skip:not(:focus) { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
nav ul { display: flex; flex-wrap: wrap; gap: .3em 1.2em; margin: .8em 0 0; padding: 0;
  list-style: none; }
.facts { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1em 0; }
.facts div { flex: 1 1 9rem; padding: .5em .9em; border-radius: 8px; background: var(--raised); }
.facts dt { color: var(--soft); font-size: .875rem; }
.facts dd { margin: 0; font-size: 1.15rem; font-weight: 600; }
.facts small { display: block; }
.opening { font-size: 1.15rem; }
.trouble { margin-top: 1.2em; padding: .2em 1em .6em; border: 2px solid var(--wrong);
  border-radius: 8px; }
.trouble h2 { margin-top: .5em; }
.trouble ul { padding-left: 1.4em; }
.marks { margin: 1.2em 0; padding: 0; list-style: none; }
.mark { padding: .35em .9em; border-left: 5px solid var(--line); margin: 0 0 .5em; }
.mark.right { border-color: var(--bar-right); }
.mark.wrong { border-color: var(--bar-wrong); }
.mark.counts { background: var(--raised); border-radius: 0 8px 8px 0; }
.mark, .mark.right, .mark.wrong, .mark.to-do { color: var(--ink); }
.mark:not(.right) { padding-bottom: .8em; margin-block: 1em; }
.mark code { background: none; padding: 0; }
.line { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1em; }
.line h3 { flex: 1 1 16rem; margin: .1em 0; font-size: 1.05rem; text-wrap: wrap; }
.line p { margin: .1em 0; }
.says { max-width: 44rem; white-space: pre-line; }
figure { margin: .8em 0 0; }
figure img, figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .875rem; }
summary { cursor: pointer; color: var(--link); width: fit-content; }
.earlier ul { padding-left: .4em; list-style: none; }
.earlier li { margin: .5em 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: start; padding-bottom: .5em; color: var(--soft); }
th, td { padding: .3em .7em; border-bottom: 1px solid var(--line); text-align: start;
  vertical-align: top; }
th:first-child { padding-left: 0; }
thead th, tfoot th { color: var(--soft); font-size: .9375rem; font-weight: 600; }
thead small { display: block; }
tbody th { font-weight: 500; }
.names { columns: 14rem; }
.chart { width: 100%; margin: .6em 0 1.5em; }
.chart caption { color: var(--ink); font-weight: 650; }
.chart caption small { display: block; }
.chart td, .chart thead th:not(:first-child) { text-align: end; padding-inline: .35em;
  white-space: nowrap; }
.chart td { vertical-align: bottom; }
.chart tbody th { width: 100%; }
.bar { display: flex; gap: 1px; height: .8rem; margin: .3rem 0 .2rem; border-radius: 3px;
  overflow: hidden; background: var(--raised); forced-color-adjust: none;
  -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.bar .right { background: var(--bar-right); }
.bar .wrong { background: repeating-linear-gradient(135deg, var(--bar-wrong) 0 6px,
  var(--stripe) 6px 9px); }
.bar .to-do { border: 1.5px solid var(--bar-open); }
.bar .not-judged { border: 1.5px dotted var(--bar-open); }
.told { padding-left: 1.6em; }
.told li { margin: 0 0 1em; }
.told p { margin: .2em 0; }
@media (max-width: 30rem) {
  .chart thead th:not(:first-child) { font-size: .75rem; white-space: normal; }
  .chart td { padding-inline: .1em; }
  .chart code { padding: 0; font-size: .75rem; background: none; }
  .chart .sign { display: block; width: auto; text-align: end; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav, .skip { display: none; }
  a { color: inherit; text-decoration: none; }
  .scroll { overflow: visible; }
  .mark, .told li, tr, .facts { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  details::details-content { display: block; content-visibility: visible; block-size: auto; }
}
"""
