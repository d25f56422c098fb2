"""Pages of a class's results: one for each student, one for the teacher, and a summary as text.

A student's page holds that student's own work alone, and nothing that is for the teacher.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tfcourse.classroom.class_page import class_page
from tfcourse.classroom.counted import Counted, whys
from tfcourse.classroom.page import (
    OURS,
    STATES,
    UNSAFE,
    called,
    clean,
    css,
    facts,
    many,
    named,
    number,
    sign,
    text,
    time,
    told,
    whole,
)
from tfcourse.classroom.records import Graded, Mark, Results, Student, Trouble, put


def write(results: Results, folder: Path) -> None:
    """Write `feedback/KEY.html` for each student with a submission or a trouble; `class.html`.

    A page of an earlier time, of a student who is not among these now, is taken away.

    Raises:
        ValueError: a student's key is no name of a file.
        OSError: a page cannot be written.
    """
    found = Counted(results)
    pages = {f"{student.key}.html": _students_page(found, student) for student in found.with_page}
    for name in pages:
        if Path(name).name != name or "\\" in name:
            raise ValueError(f"A student's key must be fit to be a file's name. Got {name[:-5]!r}.")
    feedback = folder / "feedback"
    feedback.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        put(page.encode(), feedback / name)
    for path in feedback.glob("*.html"):
        if path.name not in pages and OURS in path.read_text(encoding="utf-8", errors="replace"):
            path.unlink()
    put(class_page(found).encode(), folder / "class.html")


def summary(results: Results) -> str:
    """As text for a terminal: how many, the points, and each file and submission to look at."""
    found = Counted(results)
    late = sum(graded.late for graded in found.counting)
    lines = [
        f"{len(found.handed_in)} of {many(len(results.students), 'student')} handed in; "
        f"{many(len(results.graded), 'submission')} graded"
        + (f"; {late} of those that count came late." if late else ".")
    ]
    for lesson in results.lessons:
        points = found.points(lesson)
        if found.of(lesson) and points:
            lines.append(
                f"  {lesson}: of {number(found.of(lesson))} points, mean "
                f"{number(statistics.mean(points))}, median {number(statistics.median(points))}"
            )
    if results.unsafe:
        lines += ["", UNSAFE]
    groups = _to_look_at(found)
    for title, items in groups:
        lines += ["", f"{title}:", *(f"  {' '.join(clean(item).split())}" for item in items)]
    if not groups:
        lines.append("Nothing needs a look.")
    return "\n".join(map(clean, lines)) + "\n"


def _to_look_at(found: Counted) -> list[tuple[str, list[str]]]:
    """The groups that are not empty: a title, and a line for each file and submission."""
    files = []
    for trouble in found.results.troubles:
        whose = f"{found.name(trouble.student)}: " if trouble.student else ""
        files.append(f"{whose}{trouble.shown}: {trouble.says}")
    submissions = []
    for graded, marks in found.flagged:
        head = f"{found.name(graded.student)}, {graded.lesson}, {graded.shown}"
        head += "" if found.does_count(graded) else f", try {graded.turn}, which does not count"
        said = "; ".join(f"{', '.join(names)}: {why}" for why, names in whys(marks).items())
        submissions.append(f"{head}: {said}")
    same = []
    for group in found.same:
        names = "; ".join(found.name(graded.student) for graded in group)
        same.append(f"{group[0].lesson}: {names}")
    untouched = [f"{found.name(g.student)}, {g.lesson}" for g in found.untouched]
    nobody = []
    for lesson, students in found.missing.items():
        names = "; ".join(found.name(s.key) + found.though(s.key) for s in students)
        nobody.append(f"{lesson or 'any lesson'} ({len(students)}): {names}")
    groups = {
        f"Files that could not be taken ({len(files)})": files,
        f"Submissions to look at ({len(submissions)})": submissions,
        "Handed in as it was given out, nothing begun": untouched,
        "The same file, to the byte (ask them: all keep their points)": same,
        "Nothing handed in for": nobody,
    }
    return [(title, items) for title, items in groups.items() if items]


# --- a student's page -----------------------------------------------------------------------------


def _students_page(found: Counted, student: Student) -> str:
    results = found.results
    lessons = [lesson for lesson in results.lessons if (student.key, lesson) in found.tries]
    troubles = [trouble for trouble in results.troubles if trouble.student == student.key]
    titles = ", ".join(found.title(lesson) for lesson in lessons)
    links = [(lesson, found.title(lesson)) for lesson in lessons] if len(lessons) > 1 else []
    main = _of_troubles(troubles) if troubles else ""
    main += "".join(_of_lesson(found, found.tries[student.key, lesson]) for lesson in lessons)
    title = f"Feedback for {student.name}" + (f": {titles}" if titles else "")
    about = "Feedback" + (f" on {text(titles)}" if titles else "")
    return whole(results, title, named(student.name), about, links, main)


def _of_troubles(troubles: Sequence[Trouble]) -> str:
    items = ""
    for trouble in troubles:
        file = re.split(r"[/\\]", trouble.shown)[-1]  # where it was found is for the teacher
        items += f"<li>{named(file)}: {told(trouble.says)}</li>"
    what = "A file" if len(troubles) == 1 else f"{len(troubles)} files"
    return (
        '<section class="trouble" aria-labelledby="troubles">'
        f'<h2 id="troubles">{sign("wrong")} {what} of yours could not be taken</h2>'
        f"<ul>{items}</ul>"
        "<p>Hand in the notebook itself, the file that ends in <code>.ipynb</code>, saved by "
        "Jupyter. If it is too late for that, tell your teacher.</p></section>"
    )


def _of_lesson(found: Counted, tries: Sequence[Graded]) -> str:
    graded = tries[-1]
    lesson = text(graded.lesson)
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
        f'<h2 id="{lesson}">{text(found.title(graded.lesson))}</h2>'
        f'<p class="opening">{_opening(graded.marks)}</p>{facts(_handed_in(graded, len(tries)))}'
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
    often = words[count] if count < len(words) else str(count)
    return f"{often} {'is' if count == 1 else 'are'} {what}." if count else ""


def _handed_in(graded: Graded, tries: int) -> list[tuple[str, str, str]]:
    points = _of(graded.points, graded.of) if graded.of else "none"
    note = "" if graded.of else "this lesson is for practice"
    late = '<b class="wrong">late</b>' if graded.late else ""
    rows = [("Points", points, note), ("Handed in", time(graded.when) or "time not known", late)]
    if tries > 1:
        rows.append(("Try", f"{tries} of {tries}", "the last one counts"))
    return rows


def _of_mark(found: Counted, graded: Graded, mark: Mark) -> str:
    title = found.exercise(graded.lesson, mark.exercise)
    kind = " counts" if mark.of else ""
    html = (
        f'<li class="mark {css(mark.state)}{kind}"><div class="line">'
        f"<h3>{sign(mark.state)} {called(title)}</h3><p>{_state(mark)}</p></div>"
    )
    if mark.says and mark.state != "right":
        html += f'<p class="says">{told(mark.says)}</p>'
    if mark.picture and mark.state != "right":
        html += (
            f"<figure>{mark.picture}<figcaption>Yours, what is right, and the difference"
            "</figcaption></figure>"
        )
    return html + "</li>"


def _state(mark: Mark) -> str:
    word = f'<b class="{css(mark.state)}">{STATES[mark.state][1]}</b>'
    if mark.hidden:
        word += ' <span class="tag">right in every case that you can run</span>'
    if mark.of:
        return f'{word} <span class="tag">counts: {_of(mark.points, mark.of)} points</span>'
    return f'{word} <span class="faint">for practice</span>'


def _earlier(found: Counted, tries: Sequence[Graded]) -> str:
    """The tries that do not count, the latest first, a line for each exercise; folded."""
    if not tries:
        return ""
    html = ""
    for graded in reversed(tries):
        head = f"Try {graded.turn}"
        head += f": {_of(graded.points, graded.of)} points" if graded.of else ""
        head += f", handed in {time(graded.when)}" if graded.when else ""
        items = ""
        for mark in graded.marks:
            title = called(found.exercise(graded.lesson, mark.exercise))
            says = f"<br>{told(mark.says)}" if mark.says and mark.state != "right" else ""
            items += f"<li>{sign(mark.state)} {title}: {_state(mark)}{says}</li>"
        html += f"<p><b>{head}{', late' if graded.late else ''}</b></p><ul>{items}</ul>"
    what = "Your earlier try, which does" if len(tries) == 1 else "Your earlier tries, which do"
    return f'<details class="earlier"><summary>{what} not count</summary>{html}</details>'


def _of(points: float, of: float) -> str:
    return f"{number(points)} of {number(of)}"
