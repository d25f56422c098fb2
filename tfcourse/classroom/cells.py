"""A submitted notebook as data: its code cells, each with the exercise that it is for.

Only JSON is read here, within bounds, so the grader may use it on anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

LARGEST = 100 * 2**20  # bytes of a notebook; outputs make them large, code never
MOST = 5_000_000  # lists, records and what is in them: each takes memory, long texts hardly any


class NotANotebook(ValueError):
    """A file that cannot be read as a notebook; says why."""


@dataclass(frozen=True)
class Code:
    """A code cell: its text, and the exercise that it is for."""

    text: str
    exercise: str = ""


def read(path: Path) -> dict:
    """A notebook's JSON.

    Raises:
        NotANotebook: it is too large, no JSON, or has no cells.
    """
    size = path.stat().st_size
    if size > LARGEST:
        raise NotANotebook(
            f"It has {size / 2**20:.0f} MB; at most {LARGEST / 2**20:.0f} are read. "
            "Clear its outputs and hand it in again."
        )
    data = path.read_bytes()
    if sum(map(data.count, (b"[", b"{", b","))) > MOST:
        raise NotANotebook(
            f"It holds more than {MOST:,} values. Clear its outputs and hand it in again."
        )
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise NotANotebook("It is not a notebook: no JSON can be read from it.") from None
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise NotANotebook("It is not a notebook: it has no list of cells.")
    return found


def code(notebook: dict) -> list[Code]:
    """The code cells of a notebook, in its order."""
    found = []
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            metadata = cell.get("metadata")
            exercise = metadata.get("exercise") if isinstance(metadata, dict) else None
            found.append(Code(text_of(cell), exercise if isinstance(exercise, str) else ""))
    return found


def text_of(cell: dict) -> str:
    """The text of a cell; "" where there is none."""
    source = cell.get("source")
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""
