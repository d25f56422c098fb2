"""Cases that no learner sees: each graded exercise has its own, in `solutions/hidden/` alone.

A file there is named after its lesson. It holds `SEED`, with which the exercise's domain makes
other sizes and numbers than the ones in the package, and for each graded exercise a function of its
name that returns cases made by hand.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from tfcourse.checks.exercise import Exercise
from tfcourse.checks.registry import exercises

FOLDER = "hidden"


class NoHiddenCases(ValueError):
    """A graded exercise without hidden cases, or none to be found; says where they should be."""


def load(solutions: Path, lesson: str) -> dict[str, Exercise]:
    """The graded exercises of a lesson once more, with their hidden cases in place of the others.

    Raises:
        NoHiddenCases: the file is missing, or does not hold what it should.
    """
    path = solutions / FOLDER / f"{lesson}.py"
    graded = [e for e in exercises().values() if e.lesson == lesson and e.graded]
    if not path.is_file():
        raise NoHiddenCases(
            f"The hidden cases of {lesson} should be in {path}, and are not. They come with the "
            "project itself, not with what students get: grade from there."
        )
    spec = spec_from_file_location(f"hidden_{lesson}", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {e.name: _hidden(e, module, path) for e in graded}


def _hidden(exercise: Exercise, module, path: Path) -> Exercise:
    try:
        seed, special = module.SEED, getattr(module, exercise.name)
    except AttributeError as error:
        raise NoHiddenCases(f"{path} should hold SEED and {exercise.name}: {error}.") from None
    make = exercise.domain.make
    other = replace(exercise.domain, make=lambda kinds, number: make(kinds, seed + number))
    return replace(exercise, domain=other, special=special)
