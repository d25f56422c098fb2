"""A lesson's source, and the two notebooks that it makes: the learner's and the solved one.

The glossary is made in the same way, but is no lesson: Markdown, a cell for each of its headings.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from tfcourse import drawings

SCREEN = 45  # lines; no cell is longer
STUB = "raise NotImplementedError  # your code here"
GLOSSARY = "glossary"  # solutions/glossary.md

_BLOCKS = re.compile(
    r"(?P<indent>[ ]*)\#\#\#[ ]BEGIN[ ]SOLUTION\n (?P<solution>.*?) ^[ ]*\#\#\#[ ]END[ ]SOLUTION$"
    r"(?: \n[ ]*\#\#\#[ ]BEGIN[ ]GIVEN\n (?P<given>.*?) ^[ ]*\#\#\#[ ]END[ ]GIVEN$ )?",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_HIDDEN = re.compile(
    r"^[ ]*### BEGIN HIDDEN TESTS\n.*?^[ ]*### END HIDDEN TESTS\n?", re.MULTILINE | re.DOTALL
)
MARKER = re.compile(r"###\s*(BEGIN|END) (SOLUTION|GIVEN|HIDDEN TESTS)")


class LessonError(ValueError):
    """Something in a source or a notebook is not as it must be; says where and what to do."""


def names_in(folder: Path) -> list[str]:
    """The names of the lessons whose sources are there."""
    return sorted(path.stem for path in folder.glob("[0-9][0-9]_*.py"))


def anchor(heading: str) -> str:
    """What a link to a heading has behind its #, as JupyterLab makes it; the pages do the same."""
    return heading.replace(" ", "-")


@dataclass(frozen=True)
class Lesson:
    """A percent file of solutions/, or the glossary, by its path."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def source(self) -> NotebookNode:
        """The source as a notebook, markers and all."""
        if self.path.suffix == ".md":
            return jupytext.reads(self.text, fmt={"extension": ".md", "split_at_heading": True})
        return jupytext.reads(self.text, fmt="py:percent")

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def exercises(self) -> dict[str, NotebookNode]:
        """The cells that hold an exercise, by its name."""
        return {c.metadata["exercise"]: c for c in self.source.cells if "exercise" in c.metadata}

    def solutions(self) -> dict[str, str]:
        """The solutions of the graded exercises: what may stand nowhere else."""
        return {
            name: "\n".join(m["solution"] for m in _BLOCKS.finditer(cell.source))
            for name, cell in self.exercises().items()
            if cell.metadata.get("graded")
        }

    def learners(self) -> NotebookNode:
        """The learner's notebook, not yet run."""
        shown = [c for c in self.source.cells if "solution-only" not in c.metadata.get("tags", [])]
        return self._notebook(shown, _for_learner)

    def solved(self) -> NotebookNode:
        """The solved notebook, not yet run."""
        return self._notebook(self.source.cells, _for_teacher)

    def _notebook(self, sources: list[NotebookNode], rewrite) -> NotebookNode:
        cells, ids = [], set()
        for cell in sources:
            new = nbformat.from_dict(cell)
            if cell.cell_type == "code":
                new.source = rewrite(cell.source)
                new.outputs, new.execution_count = [], None
            elif cell.cell_type == "markdown":
                new.source = self._with_drawings(cell.source)
            new.metadata = NotebookNode(cell.metadata)
            new.id = _heading_id(cell) if self.name == GLOSSARY else _stable_id(cell, ids)
            cells.append(new)
        _label_headings(cells)
        notebook = nbformat.v4.new_notebook(cells=cells)
        notebook.metadata = NotebookNode(
            kernelspec=NotebookNode(
                display_name="Python 3 (ipykernel)", language="python", name="python3"
            ),
            language_info=NotebookNode(name="python"),
        )
        return notebook

    def _with_drawings(self, text: str) -> str:
        try:
            return drawings.expand(text, self.name, names_in(self.path.parent))
        except ValueError as error:
            raise LessonError(f"{self.path.name}: {error}") from None

    def validate(self, find_exercise) -> None:
        """Raise LessonError where the source breaks a rule of the house.

        Args:
            find_exercise: gives the exercise of a name, or raises ValueError.
        """
        written: dict[str, NotebookNode] = {}
        checked = set()
        for cell in self.source.cells:
            where = f"{self.path.name}: cell {cell.source.splitlines()[:1]}"
            if cell.cell_type == "code" and len(cell.source.splitlines()) > SCREEN:
                raise LessonError(f"{where}: longer than a screen ({SCREEN} lines). Cut it in two.")
            if MARKER.search(_for_learner(cell.source)):
                raise LessonError(f"{where}: a ### BEGIN without its ### END, or out of order.")
            name = cell.metadata.get("exercise")
            if name in written:
                raise LessonError(f'{where}: there are two cells with exercise="{name}".')
            if name is not None:
                written[name] = cell
            name = cell.metadata.get("check")
            if name is not None and name not in written:
                raise LessonError(f'{where}: there is no cell with exercise="{name}" before it.')
            checked.add(name)
        for name, cell in written.items():
            where = f"{self.path.name}: exercise {name}"
            if name not in checked:
                raise LessonError(f'{where}: no cell with check="{name}" follows it.')
            if not {"difficulty", "minutes"} <= set(cell.metadata):
                raise LessonError(f"{where}: add difficulty=1…3 and minutes=… to its # %% line.")
            if cell.metadata.get("graded") and "points" not in cell.metadata:
                raise LessonError(f"{where}: it is graded, add points=… to its # %% line.")
            if not _BLOCKS.search(cell.source):
                raise LessonError(f"{where}: no ### BEGIN SOLUTION … ### END SOLUTION in it.")
            try:
                exercise = find_exercise(name)
            except ValueError as error:
                raise LessonError(f"{where}: {error}") from None
            if exercise.lesson != self.name or exercise.graded != bool(cell.metadata.get("graded")):
                raise LessonError(
                    f"{where}: its cases say lesson {exercise.lesson}, graded={exercise.graded}."
                )


def _for_learner(code: str) -> str:
    def given(match):
        if match["given"] is None:
            return match["indent"] + STUB
        lines = [re.sub(r"^(\s*)# ?", r"\1", line) for line in match["given"].splitlines()]
        return "\n".join(lines)

    return _BLOCKS.sub(given, _HIDDEN.sub("", code)).rstrip("\n")


def _for_teacher(code: str) -> str:
    code = _BLOCKS.sub(lambda match: match["solution"].rstrip("\n"), code)
    return "\n".join(line for line in code.splitlines() if not MARKER.search(line))


def _stable_id(cell: NotebookNode, taken: set[str]) -> str:
    """An id that stays when other cells come and go: the exercise's name, or a hash of the text."""
    name = next(
        (f"{k}-{cell.metadata[k]}" for k in ("exercise", "check") if k in cell.metadata), ""
    )
    base = name or hashlib.sha256(cell.source.encode()).hexdigest()[:12]
    new, count = base, 1
    while new in taken:
        count += 1
        new = f"{base}-{count}"
    taken.add(new)
    return new


def _heading_id(cell: NotebookNode) -> str:
    """An id that a link can be written to: JupyterLab opens a notebook at a cell, not a heading."""
    return anchor(cell.source.splitlines()[0].lstrip("# "))


def _label_headings(cells: list[NotebookNode]) -> None:
    """Write difficulty, minutes and points behind the nearest heading above each exercise."""
    heading = None  # (cell, line)
    for cell in cells:
        if cell.cell_type == "markdown":
            lines = enumerate(cell.source.splitlines())
            found = [n for n, line in lines if re.match(r"#+ ", line)]
            heading = (cell, found[-1]) if found else heading
        if "exercise" not in cell.metadata:
            continue
        marks = cell.metadata
        if heading is None:
            raise LessonError(f"exercise {marks['exercise']}: put a heading above it")
        hard = marks["difficulty"]
        label = f" {'●' * hard}{'○' * (3 - hard)} · {marks['minutes']} min"
        if marks.get("graded"):
            label += f" · graded, {marks['points']} points"
        above, line = heading
        lines = above.source.splitlines()
        lines[line] += label
        above.source = "\n".join(lines)
        heading = None  # a heading is for one exercise
