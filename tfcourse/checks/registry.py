"""Finds an exercise or a question by its name, in the modules named after the lessons."""

from __future__ import annotations

import difflib
import pkgutil
from functools import cache
from importlib import import_module

import tfcourse.checks.lessons
from tfcourse.checks.exercise import Exercise
from tfcourse.checks.quiz import Item


@cache
def exercises() -> dict[str, Exercise]:
    """Every exercise by name, in the order of the lessons."""
    return _gather("EXERCISES")


@cache
def questions() -> dict[str, Item]:
    """Every question by name, in the order of the lessons."""
    return _gather("QUESTIONS")


def find_exercise(name: str) -> Exercise:
    """The exercise called `name`; ValueError with the nearest names where there is none."""
    return _find("exercise", name, exercises())


def find_question(name: str) -> Item:
    """The question called `name`; ValueError with the nearest names where there is none."""
    return _find("question", name, questions())


def _gather(what: str) -> dict:
    found = {}
    folder = tfcourse.checks.lessons
    for module in sorted(m.name for m in pkgutil.iter_modules(folder.__path__)):
        for item in getattr(import_module(f"{folder.__name__}.{module}"), what):
            if item.name in found:
                raise ValueError(f"two {what.lower()} are called {item.name!r}")
            found[item.name] = item
    return found


def _find(kind: str, name: str, known: dict):
    if not isinstance(name, str):
        raise TypeError(f"name: expected the name of the {kind}, a string, got {name!r}")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or list(known)
        raise ValueError(f"name: there is no {kind} {name!r}. Did you mean {', '.join(near)}?")
    return known[name]
