"""What stands in a lesson's notebook, in its order: exercises, questions, minutes.

Read from the notebook itself, so that a link leads to where the thing stands in the learner's own
copy. Where there is no notebook the board has names alone.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

_QUESTION = re.compile(r'^quiz\("([\w-]+)"\)', re.MULTILINE)


@dataclass(frozen=True)
class Stop:
    """An exercise or a question; `href` leads to it, `minutes` is 0 where nobody says them."""

    name: str
    href: str
    minutes: int = 0


@dataclass(frozen=True)
class Outline:
    """A lesson's title, minutes and stops; `href` leads to its notebook, "" where there is none."""

    title: str
    minutes: int = 0
    stops: tuple[Stop, ...] = ()
    href: str = ""


def outline(lesson: str) -> Outline:
    """The outline of a lesson such as "01_attention"."""
    for folder in _places():
        path = folder / f"{lesson}.ipynb"
        if path.is_file():
            try:
                return _read(path, path.stat().st_mtime_ns, _address(path))
            except (OSError, ValueError, LookupError, TypeError):  # damaged, or half written
                break
    return Outline(title=lesson.split("_", 1)[-1].replace("_", " ").capitalize())


@cache
def _read(path: Path, changed: int, href: str) -> Outline:
    title, minutes, heading, stops = "", 0, "", []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        # JupyterLab scrolls to a cell by its id, and nbconvert writes these ids into its pages.
        source, place = "".join(cell["source"]), href and f"{href}#cell-id={quote(cell['id'])}"
        if cell["cell_type"] == "markdown":
            headings = re.findall(r"^#+ (.+?)\s*$", source, re.MULTILINE)
            heading = place if headings else heading
            title = title or (headings[0].split(" · ", 1)[-1] if headings else "")
            said = re.search(r"^\*About (\d+) minutes", source, re.MULTILINE)
            minutes = minutes or (int(said[1]) if said else 0)
        elif name := cell["metadata"].get("exercise"):
            stops.append(Stop(name, heading or place, int(cell["metadata"].get("minutes", 0))))
        else:
            stops += [Stop(name, place) for name in _QUESTION.findall(source)]
    return Outline(title or path.stem, minutes, tuple(stops), href)


def _address(path: Path) -> str:
    """A relative link; "" where the notebook lies out of JupyterLab's reach."""
    here = Path.cwd()
    return quote(Path(os.path.relpath(path)).as_posix()) if here.parent in path.parents else ""


def _places() -> list[Path]:
    """Where notebooks may be: in the notebook's own folder, beside it, beside the package."""
    here = Path.cwd()
    beside = Path(__file__).resolve().parents[2] / "notebooks"
    return [here, here / "notebooks", here.parent / "notebooks", beside]
