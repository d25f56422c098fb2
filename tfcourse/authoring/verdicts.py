"""`tfcourse verdicts`: run the lessons anew and say which claims come out otherwise than stored.

What is stored is what the notebooks in the repository show. A claim about times on this machine may
differ for good reasons; it is named, and does not count.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tfcourse.authoring import build
from tfcourse.claims import MIME, known_claims


def verdicts_of(notebook: NotebookNode) -> dict[str, str]:
    """The verdict on every claim that a run notebook shows, by the claim's id."""
    found: dict[str, str] = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            found |= output.get("data", {}).get(MIME, {})
    return found


def changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Sentences on what differs; claims about times are left out."""
    said = []
    for id in sorted(before.keys() | after.keys()):
        timed = id in known_claims() and known_claims()[id].timed
        one, two = before.get(id, "is missing"), after.get(id, "is missing")
        if one != two and not timed:
            said.append(f"{id}: was “{one}”, is “{two}”")
    return said


def compare(root: Path, names: Sequence[str] = (), *, experiments: bool = False, say=print) -> int:
    """Run the learner's notebooks, and the experiments too if asked; how many claims changed."""
    changed: list[str] = []
    for lesson in build.find_lessons(root, names):
        stored = nbformat.read(root / "notebooks" / f"{lesson.name}.ipynb", as_version=4)
        notebook = lesson.learners()
        build.run(notebook, root / "notebooks", lesson.name)
        found = verdicts_of(notebook)
        said = changes(verdicts_of(stored), found)
        say(f"{lesson.name}: {len(found)} claims, {len(said)} changed", *said, sep="\n  ")
        changed += said
    if experiments:
        for path in sorted((root / "data").glob("*.json")):
            module = f"tfcourse.experiments.{path.stem}"
            done = subprocess.run(
                [sys.executable, "-m", module, "--again"], capture_output=True, text=True, cwd=root
            )
            lines = [x for x in done.stdout.splitlines() if "; with other seeds: " in x]
            say(f"{path.stem}, with other seeds:", *lines, sep="\n  ")
            if done.returncode:
                changed.append(path.stem)
    return len(changed)
