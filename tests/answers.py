"""Runs the solved lessons, each exercise going on with a right answer of the bank.

    python -m tests.answers [LESSON …]        all of them in turn: `make answers`
    python -m tests.answers --one             one chosen answer an exercise

The solution must pass its check, strictly; then the other right answer takes its place, and must
carry the lesson to its end, with the verdicts that the learner's notebook holds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import nbformat
from nbformat import NotebookNode

from tests.conftest import ROOT
from tests.wrong_answers import Attempt, attempts
from tfcourse.authoring import build
from tfcourse.authoring.lesson import Lesson, LessonError
from tfcourse.authoring.verdicts import changes, verdicts_of


def rights(exercise: str) -> list[Attempt]:
    """The right answers to an exercise, in the order of the bank."""
    return [a for a in attempts() if a.exercise == exercise and a.diagnosis == "right"]


def answer(exercise: str, number: int):
    """One of them; what the lesson's cell calls."""
    return rights(exercise)[number].answer


def rounds(lesson: Lesson, *, one: bool) -> list[dict[str, int]]:
    """Which answer each exercise gets in which run: every answer has its turn."""
    counts = {name: len(rights(name)) for name in lesson.exercises()}
    turns = 1 if one else max(counts.values())
    # The last ones first: they are the least like the solution.
    return [{n: (count - 1 - turn) % count for n, count in counts.items()} for turn in range(turns)]


STRICTLY = {"TFCOURSE_STRICT": "1", "PYTHONPATH": str(ROOT)}


def notebook_with(lesson: Lesson, chosen: dict[str, int]) -> NotebookNode:
    """The solved lesson, not run, in which these answers take the places of ours."""
    notebook = lesson.solved()
    for cell in notebook.cells:
        name = cell.metadata.get("check")
        if name in chosen:
            cell.source += (
                f"\n\nfrom tests.answers import answer\n{name} = answer({name!r}, {chosen[name]})"
            )
    return notebook


def run(lesson: Lesson, chosen: dict[str, int]) -> list[str]:
    """Run the lesson with these answers; sentences on what went wrong."""
    notebook = notebook_with(lesson, chosen)
    try:
        build.run(notebook, ROOT / "notebooks", lesson.name, **STRICTLY)
    except LessonError as error:
        return [f"with {_named(chosen)}: {error}"]
    return other_verdicts(lesson, chosen, notebook)


def other_verdicts(lesson: Lesson, chosen: dict[str, int], notebook: NotebookNode) -> list[str]:
    """Sentences on the claims that came out otherwise than in the learner's notebook."""
    stored = nbformat.read(ROOT / "notebooks" / f"{lesson.name}.ipynb", as_version=4)
    said = changes(verdicts_of(stored), verdicts_of(notebook))
    return [f"with {_named(chosen)}: {sentence}" for sentence in said]


def _named(chosen: dict[str, int]) -> str:
    return ", ".join(rights(name)[i].answer.__name__ for name, i in chosen.items())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.answers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="LESSON")
    parser.add_argument("--one", action="store_true", help="one chosen answer an exercise")
    given = parser.parse_args(arguments)
    missed = 0
    for lesson in build.find_lessons(ROOT, given.names):
        for chosen in rounds(lesson, one=given.one):
            said = run(lesson, chosen)
            missed += bool(said)
            print("✗" if said else "✓", lesson.name, _named(chosen), *said, sep="\n  ", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
