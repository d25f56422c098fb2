"""The teacher's page: who handed in what, what needs a look, what the class misunderstood."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from tfcourse.classroom.counted import Counted, Misunderstood, whys
from tfcourse.classroom.page import (
    STATES,
    called,
    css,
    facts,
    many,
    named,
    number,
    sign,
    text,
    told,
    whole,
)
from tfcourse.classroom.records import Graded, Mark, Student

FIRST = 5  # diagnoses of an exercise that are seen at once; the others unfold


def class_page(found: Counted) -> str:
    """The whole page."""
    results = found.results
    lessons = ", ".join(found.title(lesson) for lesson in results.lessons)
    links = [("look", "Needs a look")]
    if results.lessons:
        links.append(("misunderstood", "What the class misunderstood"))
    if len(results.lessons) > 1:
        links += [(f"of-{lesson}", found.title(lesson)) for lesson in results.lessons]
    links.append(("points", "Points"))
    main = _numbers(found) + _looks(found)
    if results.lessons:
        main += _misunderstandings(found)
    main += _points(found)  # last: of a large class it is long
    about = text(lessons) or "No submissions"
    return whole(results, "The class", "The class", about, links, main, wide=True)


def _numbers(found: Counted) -> str:
    several = len(found.results.lessons) > 1
    files, flagged = len(found.results.troubles), len(found.flagged)
    others = len(found.same) + len(found.untouched)
    both = f"{many(files, 'file')}, {many(flagged + others, 'submission')}"
    rows = [
        ("Students", str(len(found.results.students)), ""),
        ("Handed in", str(len(found.handed_in)), "at least one lesson" if several else ""),
        ("Late", str(sum(graded.late for graded in found.counting)), "of those that count"),
        ("To look at", str(files + flagged + others), both),
    ]
    return f'<section aria-label="In numbers">{facts(rows)}</section>'


def _points(found: Counted) -> str:
    results = found.results
    html = '<section aria-labelledby="points"><h2 id="points">Points</h2>'
    if not results.students:
        return html + "<p>Nobody is on the roster, and nobody handed in.</p></section>"
    lessons = list(results.lessons)
    heads = [f"{text(found.title(x))} {_out_of(found.of(x))}" for x in lessons]
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
    return f"<small>of {number(points)}</small>" if points else "<small>for practice</small>"


def _row(found: Counted, student: Student, lessons: Sequence[str]) -> str:
    head = named(found.name(student.key))
    if student.key in found.in_trouble:
        head += f' <a class="tag" href="{_address(student.key)}">{sign("wrong")} file not taken</a>'
    cells, points = [], 0.0
    for lesson in lessons:
        graded = found.count(student.key, lesson)
        points += graded.points if graded else 0.0
        cells.append(_cell(found, graded) if graded else '<span class="faint">nothing</span>')
    if len(lessons) > 1:
        cells.append(number(points))
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{head}</th>{row}</tr>'


def _cell(found: Counted, graded: Graded) -> str:
    shown = number(graded.points) if graded.of else "handed in"
    spoken = f'<span class="spoken"> feedback for {text(found.name(graded.student))}</span>'
    html = f'<a href="{_address(graded.student)}#{text(graded.lesson)}">{shown}{spoken}</a>'
    if graded.late:
        html += ' <span class="tag wrong">late</span>'
    if graded.turn > 1:
        html += f' <span class="tag">try {graded.turn}</span>'
    return html


def _address(key: str) -> str:
    return escape(f"feedback/{quote(os.fsencode(key))}.html")


def _foot(found: Counted, lessons: Sequence[str]) -> str:
    """The mean and the median of those that handed in."""
    rows = ""
    for word, middle in (("Mean", statistics.mean), ("Median", statistics.median)):
        cells = ""
        for lesson in lessons:
            points = found.points(lesson) if found.of(lesson) else []
            cells += f"<td>{number(middle(points)) if points else ''}</td>"
        cells += "<td></td>" if len(lessons) > 1 else ""
        rows += f'<tr><th scope="row">{word} of those handed in</th>{cells}</tr>'
    return f"<tfoot>{rows}</tfoot>" if any(map(found.points, lessons)) else ""


def _looks(found: Counted) -> str:
    troubles, html = found.results.troubles, ""
    if troubles:
        items = ""
        for trouble in troubles:
            whose = f"<b>{named(found.name(trouble.student))}</b>: " if trouble.student else ""
            items += f"<li>{whose}{named(trouble.shown)}: {told(trouble.says)}</li>"
        html += f"<h3>Files that could not be taken ({len(troubles)})</h3><ul>{items}</ul>"
    if found.flagged:
        items = "".join(_flagged(found, graded, marks) for graded, marks in found.flagged)
        html += f"<h3>Submissions to look at ({len(found.flagged)})</h3><ul>{items}</ul>"
    if found.same:
        items = ""
        for group in found.same:
            names = "; ".join(named(found.name(graded.student)) for graded in group)
            items += f"<li>{text(found.title(group[0].lesson))}: {names}</li>"
        html += (
            f"<h3>The same file, to the byte ({len(found.same)})</h3><p>They may have worked "
            "together, or one has copied: ask them. All keep their points.</p>"
            f"<ul>{items}</ul>"
        )
    if found.untouched:
        items = "".join(
            f"<li>{named(found.name(graded.student))}, {text(found.title(graded.lesson))}</li>"
            for graded in found.untouched
        )
        html += f"<h3>Nothing begun ({len(found.untouched)})</h3><ul>{items}</ul>"
    for lesson, students in found.missing.items():
        what = f" for {text(found.title(lesson))}" if lesson else ""
        names = "".join(
            f"<li>{named(found.name(student.key))}{found.though(student.key)}</li>"
            for student in students
        )
        html += f'<h3>Nothing handed in{what} ({len(students)})</h3><ul class="names">{names}</ul>'
    return (
        '<section aria-labelledby="look"><h2 id="look">Needs a look</h2>'
        f"{html or '<p>Nothing does: every file was read, and everybody handed in.</p>'}</section>"
    )


def _flagged(found: Counted, graded: Graded, marks: Sequence[Mark]) -> str:
    whose = f'<a href="{_address(graded.student)}">{named(found.name(graded.student))}</a>'
    which = f"{text(found.title(graded.lesson))}, {named(graded.shown)}"
    if not found.does_count(graded):
        which += f", try {graded.turn}, which does not count"
    items = ""
    for why, names in whys(marks).items():
        codes = ", ".join(f"<code>{text(name)}</code>" for name in names)
        items += f"<li>{codes}: {told(why)}</li>"
    return f"<li><b>{whose}</b>, {which}<ul>{items}</ul></li>"


def _misunderstandings(found: Counted) -> str:
    html = (
        '<section aria-labelledby="misunderstood">'
        '<h2 id="misunderstood">What the class misunderstood</h2>'
    )
    shared = [row for row in found.misunderstood if len(row.whose) > 1]
    most = shared[:3]
    others = sum(len(x.whose) == len(most[-1].whose) for x in shared[3:])
    items = ""
    for row in most:
        title = found.exercise(row.lesson, row.exercise)
        where = f'<a href="#{_place(row)}">{called(title)}</a>, {text(found.title(row.lesson))}'
        total = len(found.submissions(row.lesson))
        items += f"<li><b>{len(row.whose)} of {total}</b>, {where}: {told(row.says)}</li>"
    if len(most) > 1:
        html += f"<p>The most frequent of all exercises:</p><ol>{items}</ol>"
        verb = "is" if others == 1 else "are"
        html += f"<p>{others} more {verb} as frequent as the last.</p>" if others else ""
    elif most:
        html += f"<p>One is shared by several:</p><ul>{items}</ul>"
    elif found.misunderstood:
        html += f"<p>No mistake is shared by two. {_hardest(found)}</p>"
    else:
        html += "<p>Nothing that a submission shows: no answer is wrong.</p>"
    return html + "".join(_lesson(found, lesson) for lesson in found.results.lessons) + "</section>"


def _hardest(found: Counted) -> str:
    """The exercise that is wrong most often; the first where several are."""
    wrong = {
        (lesson, exercise): count["wrong"]
        for lesson in found.results.lessons
        for exercise, count in found.states(lesson).items()
    }
    lesson, exercise = max(wrong, key=wrong.__getitem__)
    where = f"{called(found.exercise(lesson, exercise))}, {text(found.title(lesson))}"
    total = len(found.submissions(lesson))
    return f"Most often wrong is {where}: <b>{wrong[lesson, exercise]} of {total}</b>."


def _place(row: Misunderstood) -> str:
    return text(f"of-{row.lesson}-{row.exercise}")


def _lesson(found: Counted, lesson: str) -> str:
    total = len(found.submissions(lesson))
    html = f'<h3 id="of-{text(lesson)}">{text(found.title(lesson))}</h3>{_chart(found, lesson)}'
    for exercise in found.states(lesson):
        rows = [x for x in found.misunderstood if (x.lesson, x.exercise) == (lesson, exercise)]
        if not rows:
            continue
        wrong = sum(len(row.whose) for row in rows)
        items = [_diagnosed(found, row, total) for row in rows]
        title = called(found.exercise(lesson, exercise))
        html += f'<section aria-labelledby="{_place(rows[0])}"><h4 id="{_place(rows[0])}">'
        html += f"{title}: what is wrong in {wrong} of {many(total, 'answer')}?</h4>"
        html += f'<ol class="told">{"".join(items[:FIRST])}</ol>'
        if more := items[FIRST:]:
            html += f'<details><summary>{len(more)} more</summary><ol class="told" '
            html += f'start="{FIRST + 1}">{"".join(more)}</ol></details>'
        html += "</section>"
    return html


def _chart(found: Counted, lesson: str) -> str:
    """A row for each exercise: a bar and its numbers."""
    rows = found.states(lesson)
    shown = [x for x in STATES if x != "not judged" or any(count[x] for count in rows.values())]
    words = {state: STATES[state][1] for state in STATES} | {"wrong": "wrong"}
    heads = "".join(f'<th scope="col">{sign(state)} {words[state]}</th>' for state in shown)
    total = len(found.submissions(lesson))
    body = ""
    for name, count in rows.items():
        title = found.exercise(lesson, name)
        tag = f' <span class="tag">{number(title.points)} points</span>' if title.points else ""
        bar = _bar([(state, count[state]) for state in shown], total)
        cells = "".join(f"<td>{count[state]}</td>" for state in shown)
        body += f'<tr><th scope="row">{called(title)}{tag}{bar}</th>{cells}</tr>'
    return (
        '<table class="chart"><caption>Which exercises are right? '
        f"<small>{many(total, 'submission')}, of each student the last one</small></caption>"
        f'<thead><tr><th scope="col">Exercise</th>{heads}</tr></thead><tbody>{body}</tbody></table>'
    )


def _bar(parts: Sequence[tuple[str, int]], total: int) -> str:
    """A bar as wide as the total; the numbers that it shows stand beside it as text."""
    parts = [*parts, ("rest", total - sum(count for _, count in parts))]
    spans = "".join(
        f'<span class="{css(kind)}" style="flex:{count}"></span>' for kind, count in parts if count
    )
    return f'<span class="bar" aria-hidden="true">{spans}</span>'


def _diagnosed(found: Counted, row: Misunderstood, total: int) -> str:
    count = len(row.whose)
    names = ", ".join(
        f'<a href="{_address(key)}#{text(row.lesson)}">{named(found.name(key))}</a>'
        for key in row.whose
    )
    hidden = f", {row.hidden} by hidden cases alone" if row.hidden else ""
    return (
        f"<li>{_bar([('wrong', count)], total)}<p><b>{count}</b> {told(row.says)} "
        f'<span class="faint">(<code>{text(row.diagnosis)}</code>{hidden})</span></p>'
        f"<details><summary>{many(count, 'student')}</summary><p>{names}</p></details></li>"
    )
