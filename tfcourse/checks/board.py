"""The progress board: what is right, tried, open and kept in each lesson, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape

from tfcourse.checks import store
from tfcourse.checks.exercise import Exercise
from tfcourse.checks.outline import Outline, Stop, outline
from tfcourse.checks.quiz import Item

# The state of an exercise and of a question, by shape as well as by colour.
_DOTS = {"right": "●◆", "tried": "◐◈", "open": "○◇"}


@dataclass(frozen=True)
class Part:
    """An exercise or a question with its state: "right", "tried" or "open"."""

    name: str
    title: str
    state: str
    stop: Stop
    asks: bool = False  # a question
    kept: bool = False

    @property
    def dot(self) -> str:
        return _DOTS[self.state][self.asks]


@dataclass(frozen=True)
class Row:
    """A lesson: its number, its outline, its parts in their order."""

    number: str
    outline: Outline
    parts: tuple[Part, ...]

    def of(self, *, asks: bool) -> list[Part]:
        """Its questions, or its exercises."""
        return [p for p in self.parts if p.asks == asks]

    def left(self, *, asks: bool) -> list[Part]:
        return [p for p in self.of(asks=asks) if p.state != "right"]

    @property
    def is_begun(self) -> bool:
        return any(p.state != "open" for p in self.parts)

    @property
    def is_done(self) -> bool:
        return all(p.state == "right" for p in self.parts)

    def __str__(self) -> str:
        return f"{self.number} {self.outline.title}"


@dataclass(frozen=True)
class Step:
    """What to do next: a sentence in which `label` is a link; it is "" where nothing is left."""

    before: str
    label: str = ""
    after: str = ""
    href: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.label}{self.after}"

    def html(self) -> str:
        return f"{escape(self.before)}{_link(self.label, self.href)}{escape(self.after)}"


class Board:
    """Exercises and questions with their records, as a board and as text.

    Args:
        records: as `store.read()` gives them.
        kept: names of the exercises whose answer is kept.
    """

    def __init__(
        self,
        exercises: dict[str, Exercise],
        questions: dict[str, Item],
        records: dict,
        kept=(),
    ):
        found: dict[str, dict[str, Part]] = {}
        for name, exercise in exercises.items():
            entry = records["exercises"].get(name, {})
            state = "right" if "right" in entry else "tried" if "last" in entry else "open"
            part = Part(name, exercise.title, state, Stop(name, ""), kept=name in kept)
            found.setdefault(exercise.lesson, {})[name] = part
        for name, item in questions.items():
            entry = records["questions"].get(name, {})
            state = "right" if "right" in entry else "tried" if "latest" in entry else "open"
            part = Part(name, item.prompt, state, Stop(name, ""), asks=True)
            found.setdefault(item.lesson, {})[name] = part
        self.rows = [_row(lesson, parts) for lesson, parts in sorted(found.items())]

    @classmethod
    def now(cls) -> Board:
        """The learner's board as it stands."""
        from tfcourse.checks.registry import exercises, questions

        return cls(exercises(), questions(), store.read(), store.kept_answers())

    def next_step(self) -> Step:
        """What to do next: in the last lesson that was begun, else the first one that is open."""
        open_rows = [row for row in self.rows if not row.is_done]
        if not open_rows:
            return Step("All is right. There is nothing left to do.")
        row = next((row for row in reversed(open_rows) if row.is_begun), open_rows[0])
        if not row.is_begun:
            return _begin(row)
        step = _step_in(row)
        return replace(step, after=f" in {row}{step.after}")

    def after(self, name: str) -> Step:
        """What is left of the lesson of an exercise that is right now, and what comes next."""
        at = next(i for i, row in enumerate(self.rows) for p in row.parts if p.name == name)
        row = self.rows[at]  # where nothing can be saved, the record does not know of it
        row = replace(row, parts=tuple(_right(p) if p.name == name else p for p in row.parts))
        left = [_count(row.left(asks=asks), asks) for asks in (False, True)]
        if any(left):
            step = _step_in(row, since=name)
            said = f"Left in this lesson: {' and '.join(filter(None, left))}. "
            return replace(step, before=said + step.before)
        done = f"That was the last open part of {row}: the lesson is done."
        onward = [other for other in self.rows[at + 1 :] + self.rows[:at] if not other.is_done]
        if not onward:
            return Step(f"{done} So is the whole course.")
        step = _begin(onward[0])
        return replace(step, before=f"{done} {step.before}")

    def __repr__(self) -> str:
        lines = [
            "Your progress: exercises ● right ◐ tried ○ open, questions ◆ right ◈ tried ◇ open"
        ]
        rows = [
            (r, *("".join(p.dot for p in r.of(asks=a)) for a in (False, True))) for r in self.rows
        ]
        widths = [max((len(str(row[i])) for row in rows), default=0) for i in range(3)]
        for row, *dots in rows:
            cells = [f"{text!s:{width}}" for text, width in zip((row, *dots), widths, strict=True)]
            minutes = f"{row.outline.minutes:4} min" if row.outline.minutes else ""
            kept = sum(part.kept for part in row.parts)
            lines.append("  ".join([*cells, minutes, f"{kept} kept" if kept else ""]).rstrip())
        return "\n".join([*lines, str(self.next_step())])

    def _repr_mimebundle_(self, include=None, exclude=None):
        here = self.next_step().href.split("#")[0]
        html = (
            f'<div class="tfcourse-board" role="group" aria-label="Your progress">{_STYLE}'
            "<p>Exercises <b>●</b> right <b>◐</b> tried <b>○</b> open "
            "· Questions <b>◆</b> right <b>◈</b> tried <b>◇</b> open</p>"
            + "".join(_details(row, row.outline.href == here) for row in self.rows)
            + f'<p class="next">→ {self.next_step().html()}</p></div>'
        )
        return {"text/plain": repr(self), "text/html": html}


def _row(lesson: str, parts: dict[str, Part]) -> Row:
    """The parts in the order of the notebook, then those that it does not have."""
    plan = outline(lesson)
    stops = {stop.name: stop for stop in plan.stops if stop.name in parts}
    names = [*stops, *(name for name in parts if name not in stops)]
    placed = tuple(replace(parts[n], stop=stops.get(n, parts[n].stop)) for n in names)
    return Row(lesson.split("_")[0], plan, placed)


def _right(part: Part) -> Part:
    return replace(part, state="right")


def _begin(row: Row) -> Step:
    return Step("Next: ", str(row), _about(row.outline.minutes), row.outline.href)


def _step_in(row: Row, since: str = "") -> Step:
    """The next open exercise, from `since` on and then from the top; else the next question."""
    names = [part.name for part in row.parts]
    at = names.index(since) if since else 0
    open_parts = [p for p in row.parts[at:] + row.parts[:at] if p.state != "right"]
    part = min(open_parts, key=lambda p: p.asks)
    title = f"the question {part.name}" if part.asks else part.title
    return Step("Next: ", title, _about(part.stop.minutes), part.stop.href)


def _about(minutes: int) -> str:
    return f", about {minutes} minutes." if minutes else "."


def _count(parts: list[Part], asks: bool) -> str:
    what = "question" if asks else "exercise"
    return f"{len(parts)} {what}{'s' * (len(parts) > 1)}" if parts else ""


# --- HTML -----------------------------------------------------------------------------------

# Outside JupyterLab the colours are the page's own; green and orange read on light and on dark.
_STYLE = """<style>
.tfcourse-board { max-width: 46em; line-height: 1.5; container-type: inline-size; }
.tfcourse-board p { margin: .3em 0 .5em; }
.tfcourse-board p:not(.next), .tfcourse-board .faint { opacity: .75; }
.tfcourse-board details { border-top: 1px solid var(--jp-border-color2, #8886); }
.tfcourse-board details:last-of-type { border-bottom: 1px solid var(--jp-border-color2, #8886); }
.tfcourse-board summary { display: grid; align-items: baseline; gap: 0 .8em; padding: .25em .2em;
  grid-template-columns: 1em minmax(9em, 1fr) 8em 11.5em 4.5em; cursor: pointer; list-style: none; }
.tfcourse-board summary::-webkit-details-marker { display: none; }
.tfcourse-board summary::before { content: "▸"; }
.tfcourse-board [open] > summary::before { content: "▾"; }
.tfcourse-board .minutes { text-align: end; white-space: nowrap; }
.tfcourse-board .dots { letter-spacing: .1em; overflow-wrap: anywhere; }
.tfcourse-board .dots a { text-decoration: none; }
.tfcourse-board .right, .tfcourse-board a.right { color: #009e73; }
.tfcourse-board .tried, .tfcourse-board a.tried { color: #d55e00; }
.tfcourse-board .open, .tfcourse-board a.open { color: var(--jp-content-font-color2, inherit); }
.tfcourse-board ul { margin: 0 0 .5em 1.6em; padding: 0; list-style: none; }
.tfcourse-board li { margin: 0; }
@container (max-width: 38em) {
  .tfcourse-board summary { display: flex; flex-wrap: wrap; }
  .tfcourse-board summary span:first-child { flex: 1 1 calc(100% - 8em); }
  .tfcourse-board summary .dots { order: 1; }
  .tfcourse-board summary .dots:nth-child(2) { padding-inline-start: 1.8em; }
}
</style>"""


def _details(row: Row, is_open: bool) -> str:
    """A lesson as one line that opens: then every exercise by name, every question as a link."""
    minutes = f"{row.outline.minutes} min" if row.outline.minutes else ""
    items = "".join(_item(part) for part in row.of(asks=False))
    asked = " ".join(_asked(part, i) for i, part in enumerate(row.of(asks=True), 1))
    return (
        f"<details{' open' * is_open}><summary><span>{_link(str(row), row.outline.href)}</span>"
        f"{_dots(row.of(asks=False), 'exercises')}{_dots(row.of(asks=True), 'questions')}"
        f'<span class="minutes faint">{minutes}</span></summary>'
        f'<ul>{items}<li>Questions <span class="dots">{asked}</span></li></ul></details>'
    )


def _dots(parts: list[Part], what: str) -> str:
    counts = {s: sum(p.state == s for p in parts) for s in _DOTS}
    counts["kept"] = sum(p.kept for p in parts)
    said = f"{len(parts)} {what}: " + ", ".join(f"{n} {s}" for s, n in counts.items() if n)
    dots = "".join(
        f'<span class="{p.state}" title="{escape(p.title)}: {p.state}">{p.dot}</span>'
        for p in parts
    )
    return f'<span class="dots" role="img" aria-label="{said}">{dots}</span>'


def _asked(part: Part, number: int) -> str:
    label = f'title="{escape(part.title)}" aria-label="question {number}, {part.state}"'
    if part.stop.href:
        return f'<a href="{escape(part.stop.href)}" class="{part.state}" {label}>{part.dot}</a>'
    return f'<span role="img" class="{part.state}" {label}>{part.dot}</span>'


def _item(part: Part) -> str:
    more = [part.state, f"{part.stop.minutes} min" if part.stop.minutes else ""]
    more.append("your answer is kept" if part.kept else "")
    return (
        f'<li><span class="{part.state}" aria-hidden="true">{part.dot}</span> '
        f"{_link(part.title, part.stop.href)} "
        f'<span class="faint">{" · ".join(filter(None, more))}</span></li>'
    )


def _link(text: str, href: str) -> str:
    return f'<a href="{escape(href)}">{escape(text)}</a>' if href else escape(text)
