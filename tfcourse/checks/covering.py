"""From a domain to cases: few of them, and every pair of kinds meets in one.

Most mistakes show when two things come together: a mask per head *and* a batch of one. All
combinations would be thousands of cases; all pairs are some dozens (pairwise testing: Cohen et
al., *The AETG System*, 1997).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations

import torch

from tfcourse.checks.exercise import Case, Domain, Exercise, Twin

LAYOUT = ("contiguous", "tensors transposed in memory")
PRECISION = ("float32", "float64")
Kinds = dict[str, str]


@cache
def all_cases(exercise: Exercise) -> list[Case]:
    """The cases of an exercise: those of its domain, the first one again, then the special ones."""
    domain = exercise.domain
    cases = [make_case(domain, kinds, i) for i, kinds in enumerate(cover(domain))]
    if "repeat" not in domain.without and not cases[0].random:
        again = Twin(0, lambda base, this: (base, this), "random", _RANDOM)
        cases.append(replace(cases[0], seed=1000, twin=again, note="the same inputs again"))
    offset = len(cases)
    for case in exercise.special():
        twin = case.twin and replace(case.twin, of=case.twin.of + offset)
        cases.append(replace(case, twin=twin, seed=case.seed or len(cases)))
    return [replace(case, watched=exercise.forbids) for case in cases]


def make_case(domain: Domain, kinds: Kinds, seed: int) -> Case | None:
    """The case of a choice of kinds, the engine's own among them; None where they cannot meet."""
    case = domain.make({name: kinds[name] for name in domain.kinds}, seed)
    if case is None:
        return None
    if kinds.get("precision") == PRECISION[1]:
        case = _each_tensor(case, lambda t: t.double() if t.is_floating_point() else t)
    if kinds.get("layout") == LAYOUT[1]:
        case = _each_tensor(case, _transposed, weights=False)
    ordinary = {options[0] for options in all_kinds(domain).values()}
    words = [case.note, *(kind for kind in kinds.values() if kind not in ordinary)]
    return replace(
        case,
        note=", ".join(word for word in words if word),
        edge=case.edge or bool(set(kinds.values()) & set(domain.edges)),
        seed=seed,
    )


def all_kinds(domain: Domain) -> dict[str, tuple[str, ...]]:
    """The domain's kinds and those that the engine adds where they make a difference."""
    kinds = dict(domain.kinds)
    first = domain.make({name: options[0] for name, options in kinds.items()}, 0)
    tensors = list(_tensors((first.args, first.kwargs, first.weights)))
    if "layout" not in domain.without and any(t.dim() > 1 for t in _tensors(first.args)):
        kinds["layout"] = LAYOUT
    if "precision" not in domain.without and any(t.is_floating_point() for t in tensors):
        kinds["precision"] = PRECISION
    return kinds


def cover(domain: Domain) -> list[Kinds]:
    """Choices of kinds in which every pair that can meet does, the ordinary one first."""
    kinds = all_kinds(domain)
    ordinary = {name: options[0] for name, options in kinds.items()}
    open_pairs = {
        frozenset([(a, x), (b, y)]): None  # a dict keeps the order: the same cases every time
        for a, b in combinations(kinds, 2)
        for x in kinds[a]
        for y in kinds[b]
    }
    if len(kinds) == 1:
        open_pairs = {frozenset([(a, x)]): None for a in kinds for x in kinds[a]}
    chosen: list[Kinds] = []

    def take(row: Kinds) -> None:
        chosen.append(row)
        for two in combinations(row.items(), min(2, len(row))):
            open_pairs.pop(frozenset(two), None)

    def can_meet(row: Kinds) -> bool:
        return domain.make({name: row[name] for name in domain.kinds}, 0) is not None

    take(ordinary)
    while open_pairs:
        pair = next(iter(open_pairs))
        row = next((r for r in _completions(dict(pair), kinds) if can_meet(r)), None)
        if row is None:  # nowhere can these two meet
            del open_pairs[pair]
            continue
        for name in [n for n in kinds if n not in dict(pair)]:

            def gain(kind, name=name, row=row):
                """How many open pairs the row gains where this one is of that kind."""
                others = [item for item in row.items() if item[0] != name]
                return sum(frozenset([(name, kind), other]) in open_pairs for other in others)

            for kind in sorted(kinds[name], key=gain, reverse=True):
                if gain(kind) <= gain(row[name]):
                    break
                if can_meet(row | {name: kind}):
                    row = row | {name: kind}
                    break
        take(row)
    return chosen


def _completions(fixed: Kinds, kinds: dict[str, tuple[str, ...]]) -> Iterator[Kinds]:
    """Choices with `fixed` in them: the rest ordinary, then one of the rest at a time, then two."""
    ordinary = {name: options[0] for name, options in kinds.items()} | fixed
    yield ordinary
    rest = [(name, kind) for name in kinds if name not in fixed for kind in kinds[name][1:]]
    for count in (1, 2):
        for changes in combinations(rest, count):
            if len({name for name, _ in changes}) == count:
                yield ordinary | dict(changes)


def _tensors(value) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)


def _each_tensor(case: Case, change, weights: bool = True) -> Case:
    def changed(value):
        if isinstance(value, torch.Tensor):
            return change(value)
        if isinstance(value, dict):
            return {key: changed(part) for key, part in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(changed(part) for part in value)
        return value

    names = ("args", "kwargs", "weights", "expected") if weights else ("args", "kwargs")
    return replace(case, **{name: changed(getattr(case, name)) for name in names})


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor, stored the other way round, as a transpose leaves it."""
    if tensor.dim() < 2:
        return tensor
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


_RANDOM = (
    "Your code gives something else each time it is called with the same inputs. Is there a "
    "dropout in it that is never switched off, or a random number? Or does it keep something from "
    "an earlier call?"
)
