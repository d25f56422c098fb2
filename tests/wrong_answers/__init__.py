"""What learners really write: wrong answers with the diagnosis meant for each, and right ones.

    @wrong("attention_scores", "no-scale")
    def forgot_the_root(q, k): ...

    @right("attention_scores")
    def with_einsum(q, k): ...

One module a lesson. `python -m tests.wrong_answers` prints what the course says to each.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module


@dataclass(frozen=True)
class Attempt:
    """An answer to an exercise; `diagnosis` is "right" or the id of what is wrong with it."""

    exercise: str
    answer: Callable
    diagnosis: str

    def __str__(self) -> str:
        return f"{self.exercise}-{self.diagnosis}-{self.answer.__name__}".replace(" ", "-")


_ATTEMPTS: list[Attempt] = []


def wrong(exercise: str, diagnosis: str):
    """Marks a wrong answer, and the diagnosis that the course must give to it."""

    def mark(answer):
        _ATTEMPTS.append(Attempt(exercise, answer, diagnosis))
        return answer

    return mark


def right(exercise: str):
    """Marks a right answer: the course must accept it."""
    return wrong(exercise, "right")


@cache
def attempts() -> tuple[Attempt, ...]:
    """Every attempt of every lesson."""
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("lesson_"):
            import_module(f"{__name__}.{module.name}")
    return tuple(_ATTEMPTS)
