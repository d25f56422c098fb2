"""The claims that lesson 04 measures in its own cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    ONLY_IF,
    Claim,
    Judged,
    alike,
    paired,
)
from tfcourse.device import Median
from tfcourse.experiments.norm_quality import PRINT

BY_HAND = [-1.342, -0.447, 0.447, 1.342]


def _by_hand(numbers: Sequence[float]) -> Judged:
    found = [round(number, 3) for number in numbers]
    return Judged(str(found), HOLDS if found == BY_HAND else NOT_HERE)


def _built_in(gaps: Mapping[str, float]) -> Judged:
    said = ", ".join(f"{name} {gap:.0e}" for name, gap in gaps.items())
    if max(gaps.values()) < 1e-5:
        return Judged(f"largest difference: {said}", HOLDS)
    verdict = NOT_HERE if max(gaps.values()) > 1e-3 else CANNOT_TELL
    return Judged(f"largest difference: {said}", verdict)


def _unbiased(right: float, wrong: float) -> Judged:
    found = (round(wrong, 2), round(right, 2))
    return Judged(f"{wrong:.2f} for {right:.2f}", HOLDS if found == (1.5, 1.73) else NOT_HERE)


def _eps_outside(off: Mapping[float, float]) -> Judged:
    said = ", ".join(f"{share:.1%} at {spread:g}" for spread, share in off.items())
    fine = [spread for spread, share in off.items() if share < 0.01]
    if len(fine) == len(off):
        return Judged(said, HOLDS)
    if not fine:
        return Judged(said, NOT_HERE)
    only = f"a token's standard deviation is {min(fine):g} or more (of those tried)"
    return Judged(said, ONLY_IF, only)


def _neighbours(moved: Mapping[str, Mapping[str, float]]) -> Judged:
    batch, layer = (moved[name]["neighbour"] for name in ("BatchNorm", "LayerNorm"))
    said = f"BatchNorm's moves by {batch:.2f}, LayerNorm's by {layer:.2f}"
    if layer > 1e-5 or batch < 1e-5:
        return Judged(said, NOT_HERE)
    return Judged(said, HOLDS if batch > 0.1 else CANNOT_TELL)


def _memory(ratio: Median, copies: float) -> Judged:
    said = f"the formula takes {ratio} times as long as the kernel, which takes {copies:.1f} copies"
    return Judged(said, _beside(ratio, 3.0))


def _beside(found: Median, limit: float) -> str:
    """Is it above the limit? The interval decides."""
    if found.low > limit:
        return HOLDS
    return NOT_HERE if found.high < limit else CANNOT_TELL


def _saves(which: str, ratio: Median, saved: Median) -> Judged:
    said = (
        f"{which}: RMSNorm takes {ratio} times LayerNorm's time; that is {saved.middle:.1%} "
        f"[{saved.low:.1%}, {saved.high:.1%}] of a block's"
    )
    return Judged(said, _beside(saved, 0.07))


def _ten_percent(formula: Median, built_in: Median) -> Judged:
    said = f"RMSNorm beside LayerNorm: by formula {formula}, built in {built_in}"
    inside = [r.low >= 0.85 and r.high <= 0.90 for r in (formula, built_in)]
    outside = [r.high < 0.85 or r.low > 0.90 for r in (formula, built_in)]
    verdict = HOLDS if all(inside) else NOT_HERE if all(outside) else CANNOT_TELL
    return Judged(said, verdict)


def _grows(powers: Sequence[float]) -> Judged:
    found = paired(powers, [0.0] * len(powers))
    said = f"from block 8 to 32 like depth to the power {found}, {len(powers)} seeds"
    return Judged(said, alike(paired(powers, [0.5] * len(powers)), 0.25))


IN_A_MODEL = (
    "The paper speaks of whole models. Of a block (its attention, its MLP, its two norms, forward "
    "and backward), RMSNorm must save 7% or more. Round by round: twice the difference of the two "
    "norms, over the time of the block. Holds: the 95% interval of the median lies above 7%. Does "
    "not hold: below. Cannot tell: 7% is inside."
)

CLAIMS = (
    Claim(
        id="layer-norm-by-hand",
        quote="LayerNorm turns [1, 2, 3, 4] into [−1.342, −0.447, 0.447, 1.342].",
        rule="Equal to three decimals.",
        judge=_by_hand,
        computed=True,
    ),
    Claim(
        id="norms-equal-the-built-in",
        quote="The two formulas of this lesson give the numbers of nn.LayerNorm and nn.RMSNorm.",
        rule="Holds if no number differs by 1e-5 (rounding), does not if one differs by more than "
        "1e-3, cannot tell between.",
        judge=_built_in,
    ),
    Claim(
        id="unbiased-spike",
        quote="With d − 1 in the variance, the first number of [1, 0, 0, 0] becomes 1.50 in place "
        "of 1.73.",
        rule="Equal to two decimals.",
        judge=_unbiased,
        computed=True,
    ),
    Claim(
        id="eps-outside-harmless",
        quote="It makes no difference whether ε stands under the root or beside it.",
        rule="No difference: less than 1% on [1, 0, 0, 0], shrunk to several standard deviations. "
        "Holds if so for all of them, does not if for none, else only for those where it is so.",
        judge=_eps_outside,
        computed=True,
    ),
    Claim(
        id="batch-norm-sees-neighbours",
        quote="With BatchNorm in training, the output for a sentence depends on the other "
        "sentences of its batch. With LayerNorm it does not.",
        rule="The neighbour is replaced. Holds if BatchNorm's output moves by more than 0.1 (its "
        "numbers are about 1 large) and LayerNorm's by no more than rounding, 1e-5. Does not hold "
        "if LayerNorm's moves or BatchNorm's does not. Else cannot tell.",
        judge=_neighbours,
    ),
    Claim(
        id="norm-memory",
        quote="What costs time in a norm is to write and read tensors as large as x, not the "
        "arithmetic.",
        rule="The kernel does the same arithmetic as the formula and writes one large tensor, the "
        "formula five. If arithmetic cost the time, the formula would take 1 times as long, if "
        "memory, 5 times. Holds: the 95% interval of the median ratio lies above 3, half way. Does "
        "not hold: below. Cannot tell: 3 is inside.",
        judge=_memory,
        timed=True,
    ),
    Claim(
        id="rms-norm-time-formula",
        **PRINT,
        rule=f"By formula. {IN_A_MODEL}",
        judge=partial(_saves, "time of the formulas"),
        timed=True,
    ),
    Claim(
        id="rms-norm-time-kernel",
        **PRINT,
        rule=f"Built in. {IN_A_MODEL}",
        judge=partial(_saves, "time of the built-in norms"),
        timed=True,
    ),
    Claim(
        id="rms-norm-ten-percent",
        quote="RMSNorm is 10 to 15 percent faster than LayerNorm (you will often read this).",
        rule="The norm alone, forward and backward: the 95% interval of the median ratio lies "
        "within 0.85 and 0.90, for the formulas and for the built-in kernels. Does not hold: both "
        "lie outside. Else cannot tell.",
        judge=_ten_percent,
        timed=True,
    ),
    Claim(
        id="stream-grows-like-a-root",
        quote="At the start of training, the residual stream of pre-norm blocks grows like the "
        "square root of the depth.",
        rule="Blocks with first weights that keep the size of what they read, several seeds. The "
        "power is nearer to ½ than to 0 (no growth) or 1 (growth like depth): the 95% interval of "
        "its mean lies within 0.25 and 0.75. Does not hold: it lies outside. Else cannot tell.",
        judge=_grows,
    ),
)
