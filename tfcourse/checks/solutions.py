"""Finds the solution of an exercise in the lessons' sources, where those are there."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

from tfcourse.checks.exercise import Exercise

_CELL = re.compile(r"^# %%(.*)$", re.MULTILINE)


def find_solution(exercise: Exercise) -> str | None:
    """The solved cell of the exercise without the markers, or None where there is no source."""
    for folder in _places():
        source = folder / f"{exercise.lesson}.py"
        if source.is_file():
            return solved_cell(source.read_text(encoding="utf-8"), exercise.name)
    return None


def solved_cell(source: str, name: str) -> str | None:
    """The cell of a percent file whose metadata says exercise="name", solved."""
    heads = list(_CELL.finditer(source))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        if f'exercise="{name}"' in head.group(1):
            cell = source[head.end() : following.start() if following else len(source)]
            cell = re.sub(r"(?ms)^ *### BEGIN (GIVEN|HIDDEN TESTS).*?### END \1\n?", "", cell)
            lines = [x for x in cell.splitlines() if not x.strip().startswith("### ")]
            return textwrap.dedent("\n".join(lines)).strip()
    return None


def _places() -> list[Path]:
    """Where solutions/ may be: beside the notebook's folder, beside the package."""
    here = Path.cwd()
    places = [here / "solutions", here.parent / "solutions"]
    places.append(Path(__file__).resolve().parents[2] / "solutions")
    if os.environ.get("TFCOURSE_SOLUTIONS"):
        places.insert(0, Path(os.environ["TFCOURSE_SOLUTIONS"]))
    return places
