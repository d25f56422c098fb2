"""The claims that lesson 00 measures in its own cells."""

from __future__ import annotations

from collections.abc import Sequence

from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, Claim, Judged, small_gap


def _faster(speed_ups: Sequence[float]) -> Judged:
    least, most = min(speed_ups), max(speed_ups)
    verdict = HOLDS if least > 100 else NOT_HERE if most < 100 else CANNOT_TELL
    return Judged(f"{least:,.0f} to {most:,.0f} times, in {len(speed_ups)} rounds", verdict)


CLAIMS = (
    Claim(
        id="product-beats-loop",
        quote="One matrix product beats a loop over the dot products by orders of magnitude.",
        rule="Orders of magnitude: two at least, × 100. Holds if every round is above it, does not "
        "if none is.",
        judge=_faster,
    ),
    Claim(
        id="product-equals-loop",
        quote="Both give the same numbers, up to rounding.",
        rule="Float32 keeps about seven digits, and sums of 64 products are some tens large: holds "
        "if no number differs by 1e-4, does not if one differs by more than 1e-2.",
        judge=lambda gap: small_gap(gap, 1e-4),
    ),
    Claim(
        id="cosine-ignores-length",
        quote="The cosine does not change when a vector is made ten times longer.",
        rule="Holds if it changes by less than 1e-6, does not if by more than 1e-4.",
        judge=lambda gap: small_gap(gap, 1e-6, "difference"),
        computed=True,
    ),
)
