"""Questions: a prediction before the reveal, a quiz at the end; feedback for every option."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase


@dataclass(frozen=True)
class Option:
    """One answer to choose, and what is said to someone who chose it."""

    text: str
    feedback: str
    right: bool = False


@dataclass(frozen=True)
class Item:
    """A question with its options; `lesson` is for the progress board."""

    name: str
    lesson: str
    prompt: str
    options: tuple[Option, ...]

    def __post_init__(self):
        if not 2 <= len(self.options) <= 6 or not any(o.right for o in self.options):
            raise ValueError(f"{self.name}: a question has 2 to 6 options, one of them right")

    def option(self, letter: str) -> Option:
        """The option of a letter, as a learner types it: "b", " B "."""
        letters = ascii_lowercase[: len(self.options)]
        given = letter.strip().lower() if isinstance(letter, str) else letter
        if not isinstance(given, str) or len(given) != 1 or given not in letters:
            raise ValueError(f'answer: expected one of "{", ".join(letters)}", got {letter!r}')
        return self.options[letters.index(given)]
