"""What an exercise is: data.

A *domain* states what may come in; `tfcourse.checks.covering` makes *cases* of it in which every
pair of kinds meets. A *witness* (PyTorch, or the tested implementation) says what is right;
*variants* are known wrong answers, each with the sentence that names the mistake. Nothing here
looks into the learner's code, so the same exercise serves in the learner's own kernel and apart
from it, in a class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from tfcourse.checks.mixers import is_stand_in


@dataclass(frozen=True)
class Twin:
    """A case that repeats an earlier one with one thing changed, and what must not follow.

    `same(base, this)` picks the two parts of the outputs that have to be equal.
    """

    of: int
    same: Callable[[Any, Any], tuple[Any, Any]]
    diagnosis: str
    message: str


@dataclass(frozen=True)
class Case:
    """One set of inputs. For a class: what to build it with and the weights to load."""

    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    build: dict | None = None
    weights: dict | None = None
    note: str = ""  # in words, where the sizes alone do not say what is special
    gradients: bool = True  # also judge the gradient, with respect to float arguments and weights
    expected: Any = None  # what is right, where the inputs alone do not tell the witness
    nan: tuple[str, str] | None = None  # diagnosis and sentence, if only the NaN here is wrong
    random: bool = False  # many values are right: the exercise's properties judge them
    edge: bool = False  # at the edge of the domain: degenerate, empty, huge
    twin: Twin | None = None
    seed: int = 0  # of torch's own randomness while the answer runs
    watched: tuple[str, ...] = ()  # library functions that the answer may not call
    largest: int | None = None  # numbers that the answer's tensors may hold at any one time
    twice: bool = False  # called twice with the very same objects, and the second output counts
    training: bool = False  # a module in training mode

    def inputs(self) -> dict:
        """What the learner's process may see: the inputs, and nothing of what is expected."""
        names = ("args", "kwargs", "build", "weights", "gradients", "seed", "watched")
        names += ("largest", "twice", "training")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Domain:
    """What may come in, kind by kind.

    The engine makes cases in which every pair of kinds meets, and adds kinds of its own to every
    domain: tensors transposed in memory ("layout"), float64 ("precision"), other seeds of torch's
    randomness, and the first case once more with another seed ("repeat").

    Args:
        kinds: what varies -> its kinds, in words for the learner, the ordinary one first.
        make: a choice of kinds and a seed -> a case; None where these kinds cannot meet. It must
            make another case for every seed: `fuzzing` draws any.
        edges: the kinds at the edge (nothing to attend, huge numbers, all zeros). A known wrong
            answer is recognised by the other cases; gradients need only be finite here.
        without: a kind of the engine's that does not apply -> why.
    """

    kinds: Mapping[str, tuple[str, ...]]
    make: Callable[[dict[str, str], int], Case | None]
    edges: Sequence[str] = ()
    without: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """What came back for one case: plain data, so that it can travel between processes."""

    value: Any = None
    gradients: list | str | None = None  # or IN_PLACE, where none could be had
    error: dict | None = None  # type, message, line, code
    changed: tuple = ()  # arguments that were changed in place: their positions, or names
    used: tuple = ()  # the watched functions that were called
    largest: int = 0  # numbers that its tensors held at one time, where a case sets a limit
    kind: str = "answer"  # "own", "library" or "crash": facts about the answer itself
    kept: bool = False  # a module made for this case alone gives something else


@dataclass(frozen=True)
class Variant:
    """A known wrong answer and the sentence that names it.

    Either `answer`, written as a learner would (it may raise where theirs raises), or
    `spoil(case, right)`, which makes the wrong output from the right one: a graded exercise's
    variants must not stand one line away from its solution. `to_do` marks the code as it was given.
    """

    says: str
    answer: Callable | None = None
    to_do: bool = False
    spoil: Callable[[Case, Any], Any] | None = None


@dataclass(frozen=True)
class Finding:
    """A property that does not hold."""

    diagnosis: str
    message: str


@dataclass(frozen=True, eq=False)
class Exercise:
    """An exercise, whole.

    Args:
        name: what the learner's function or class is called.
        lesson: for example "01_attention".
        title: a few words for the progress board.
        domain: what may come in; the engine makes the cases.
        special: makes cases by hand that come after those: twins, exact values.
        forbids: names of library functions that would do the exercise: not to be called.
        witness: gives the right output for a case.
        axes: names of the output's axes, for telling which one differs.
        variants: id -> a known wrong answer.
        properties: each gets (cases, values, expected) and returns a Finding or None.
        hints: three, the last not yet the answer.
        reference: what the lesson goes on with; None for a graded exercise.
        tolerance: the greatest difference that counts as equal, relative to the values' size.
        smallest: where all values are smaller, this counts as their size: what is left of larger
            numbers that cancel is rounding. 1 where small results come of numbers around 1.
        exact_zeros: what should be 0 has to be 0, whatever the tolerance.
        frozen: names of arguments that no gradient may reach.
    """

    name: str
    lesson: str
    title: str
    witness: Callable
    hints: tuple[str, str, str]
    domain: Domain
    special: Callable[[], list[Case]] = list
    forbids: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    variants: dict[str, Variant] = field(default_factory=dict)
    properties: tuple[Callable[[list, list, list], Finding | None], ...] = ()
    reference: Callable | None = None
    tolerance: float = 1e-5
    smallest: float = 0.01
    exact_zeros: bool = False
    frozen: tuple[str, ...] = ()

    def cases(self) -> list[Case]:
        """All cases, the same ones each time: they are made once."""
        from tfcourse.checks.covering import all_cases

        return all_cases(self)

    @property
    def graded(self) -> bool:
        return self.reference is None

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Names of the positional arguments, as the witness declares them."""
        target = self.witness.forward if inspect.isclass(self.witness) else self.witness
        names = tuple(inspect.signature(target).parameters)
        return names[1:] if inspect.isclass(self.witness) else names

    def describe(self, case: Case) -> str:
        """The case in words: sizes of every argument, and what is special about it."""
        given = dict(zip(self.arguments, case.args, strict=False)) | case.kwargs
        parts = [f"{name} {_short(value)}" for name, value in given.items() if value is not None]
        if case.build:
            built = [f"{name}={_built(value)}" for name, value in case.build.items()]
            parts = built + parts
        return ", ".join(parts) + (f" ({case.note})" if case.note else "")


def _built(value) -> str:
    return value["mixer"] if is_stand_in(value) else str(value)


def _short(value) -> str:
    if isinstance(value, torch.Tensor):
        return str(tuple(value.shape))
    if is_stand_in(value):
        return f"= {value['mixer']}"
    if _holds_tensors(value):
        shown = [_short(part) for part in value[:4]]
        shown += [f"… {len(value)} in all"] * (len(value) > 4)
        return ("[{}]" if isinstance(value, list) else "({})").format(", ".join(shown))
    return f"= {value!r}"


def _holds_tensors(value) -> bool:
    """Whether it is a list or tuple with a tensor somewhere in it."""
    return isinstance(value, (list, tuple)) and any(
        isinstance(part, torch.Tensor) or _holds_tensors(part) for part in value
    )


def randn(seed: int, *shapes: Sequence[int]) -> list[torch.Tensor]:
    """Normally distributed tensors of the given shapes, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


def unequal(seed: int, count: int, low: int = 2, high: int = 7) -> list[int]:
    """`count` different sizes from low to high: no two axes can be mistaken for each other."""
    generator = torch.Generator().manual_seed(seed)
    return [low + i for i in torch.randperm(high - low + 1, generator=generator)[:count].tolist()]
