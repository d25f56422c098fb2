"""A claim in print, the rule that decides about it, and the four verdicts a measurement can give.

Comparisons of trained networks are paired over seeds: the interval of the paired difference
decides, never two means side by side. And what was decided is asked again with seeds that no rule
had seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

HOLDS = "holds"
ONLY_IF = "holds only if"
NOT_HERE = "does not hold here"
CANNOT_TELL = "cannot tell"
VERDICTS = (HOLDS, ONLY_IF, NOT_HERE, CANNOT_TELL)


@dataclass(frozen=True)
class Judged:
    """What was measured, in words, and the verdict on it; `only_if` goes with "holds only if"."""

    measured: str
    verdict: str
    only_if: str = ""

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}. Got {self.verdict!r}.")
        if (self.verdict == ONLY_IF) != bool(self.only_if):
            raise ValueError("only_if goes with the verdict 'holds only if', and only with it.")

    def __str__(self) -> str:
        return f"{self.verdict} {self.only_if}".rstrip()


@dataclass(frozen=True)
class Claim:
    """What is printed somewhere, and how it is decided here.

    Args:
        id: short and unique, for example "post-norm-diverges".
        quote: the print, whole. Where nobody's words are quoted, what this course says itself.
        rule: in words, what decides.
        judge: takes what was measured, gives a `Judged`.
        source: who printed it; empty where the course itself says so.
        link: where to read it.
        computed: arithmetic, not a measurement.
        timed: about times, which are another machine's affair as well.
    """

    id: str
    quote: str
    rule: str
    judge: Callable[..., Judged]
    source: str = ""
    link: str = ""
    computed: bool = False
    timed: bool = False

    def __post_init__(self):
        if bool(self.source) != bool(self.link):
            raise ValueError(f"{self.id}: a source has its link, and a link its source.")


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences a − b with a 95% interval (Student's t over the pairs)."""

    mean: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def paired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The difference a − b over pairs of runs that share a seed.

    Raises:
        ValueError: the two are not of one length, or there are fewer than three pairs.
    """
    if len(a) != len(b) or len(a) < 3:
        raise ValueError(f"a and b must be at least three pairs. Got {len(a)} and {len(b)}.")
    gaps = [x - y for x, y in zip(a, b, strict=True)]
    n = len(gaps)
    mean = sum(gaps) / n
    if not math.isfinite(mean):  # a run that ended in NaN: nothing bounds it
        return Difference(mean, -math.inf, math.inf, n)
    spread = math.sqrt(sum((g - mean) ** 2 for g in gaps) / (n - 1))
    half = _t_quantile(n - 1) * spread / math.sqrt(n)
    return Difference(mean, mean - half, mean + half, n)


def lower(difference: Difference, by: float = 0.0) -> str:
    """Verdict on "a is lower than b by more than `by`", from the interval of a − b."""
    if difference.high < -by:
        return HOLDS
    return NOT_HERE if difference.low >= -by else CANNOT_TELL


def alike(difference: Difference, within: float) -> str:
    """Verdict on "a and b differ by less than `within`", from the interval of a − b."""
    if -within < difference.low and difference.high < within:
        return HOLDS
    apart = difference.low >= within or difference.high <= -within
    return NOT_HERE if apart else CANNOT_TELL


def small(value: float, holds_below: float, not_above: float) -> str:
    """Verdict on "this is small": small holds, large does not, between the two nobody can tell."""
    if value < holds_below:
        return HOLDS
    return NOT_HERE if value > not_above else CANNOT_TELL


def small_gap(gap: float, below: float, thing: str = "greatest difference") -> Judged:
    """Two that should be equal: holds below a limit, does not above a hundred times that."""
    return Judged(f"{thing} {gap:.0e}", small(gap, below, 100 * below))


def _t_quantile(freedom: int, share: float = 0.975) -> float:
    """The quantile of Student's t, by bisection on its integrated density."""
    steps = 2000
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    scale /= math.sqrt(freedom * math.pi)

    def below(x: float) -> float:  # Simpson's rule from 0 to x
        width = x / steps
        total = 0.0
        for i in range(steps + 1):
            weight = 1 if i in (0, steps) else 4 if i % 2 else 2
            total += weight * (1 + (i * width) ** 2 / freedom) ** (-(freedom + 1) / 2)
        return 0.5 + scale * total * width / 3

    low, high = 0.0, 200.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < share else (low, middle)
    return (low + high) / 2
