"""The claims that lesson 01 measures in its own cells."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    ONLY_IF,
    Claim,
    Judged,
    small,
    small_gap,
)

VASWANI = "https://arxiv.org/abs/1706.03762"
QUADRATIC = (
    "Transformers are slow and memory-hungry on long sequences, since the time and memory "
    "complexity of self-attention are quadratic in sequence length."
)


def _looks(shares: Sequence[float]) -> Judged:
    found = sum(share > 0.9 for share in shares)
    verdict = HOLDS if found == len(shares) else NOT_HERE if found == 0 else CANNOT_TELL
    said = ", ".join(f"{share:.1%}" for share in shares)
    return Judged(f"share of the right card in {len(shares)} runs: {said}", verdict)


def _variance(widths: Sequence[int], variances: Sequence[float]) -> Judged:
    ratios = [v / d_k for v, d_k in zip(variances, widths, strict=True)]
    off = max(abs(ratio - 1) for ratio in ratios)
    said = f"variance / d_k between {min(ratios):.2f} and {max(ratios):.2f}"
    return Judged(said, small(off, 0.1, 0.3))


def _small_gradients(received: dict[str, Sequence[float]]) -> Judged:
    ratios = {
        kind: received[f"undivided, {kind}"][-1] / received[f"divided by √d_k, {kind}"][-1]
        for kind in ("mean", "median")
    }
    said = ", ".join(f"{kind} × {ratio:.2g}" for kind, ratio in ratios.items())
    said = f"undivided beside divided, widest: {said}"
    if all(0.1 <= ratio <= 1 for ratio in ratios.values()):
        return Judged(said, CANNOT_TELL)
    small = {kind: ratio < 0.1 for kind, ratio in ratios.items()}
    if all(small.values()):
        return Judged(said, HOLDS)
    if small["median"]:
        return Judged(said, ONLY_IF, "it speaks of most queries: on average a query receives more")
    return Judged(said, NOT_HERE)


def _within(beyond: int) -> Judged:
    return Judged(f"{beyond} beyond them, in 10,000 directions", HOLDS if not beyond else NOT_HERE)


def _middle_half(values: Sequence[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _time(growth: dict[str, Sequence[float]]) -> Judged:
    (low, high), (least, most) = (_middle_half(growth[way]) for way in ("explicit", "fused"))
    said = f"explicit × {low:.1f} to {high:.1f}, fused × {least:.1f} to {most:.1f}"
    if low >= 3.5 and high <= 4.5:
        return Judged(said, HOLDS)
    if high < 3.5:
        return Judged(said, NOT_HERE)
    if low > 4.5 and least >= 3.5 and most <= 4.5:
        return Judged(said, ONLY_IF, "no T × T matrix has to be carried to memory and back")
    return Judged(said, CANNOT_TELL)


def _about(value: float, wanted: float) -> Judged:
    """Within an eighth holds; farther off than a quarter does not."""
    return Judged(f"× {value:.2f}", small(abs(value / wanted - 1), 1 / 8, 1 / 4))


CLAIMS = (
    Claim(
        id="learned-to-look",
        quote="A head that is trained on right answers alone learns to look at the card that was "
        "asked for.",
        rule="Share of the attention that goes to that card, over 1,000 new games. Holds if it is "
        "above 90% in all five runs, does not if in none.",
        judge=_looks,
    ),
    Claim(
        id="agrees-with-pytorch",
        quote="softmax(QKᵀ/√d_k)V with a mask gives what PyTorch's fused kernel gives.",
        rule="Holds if no number differs by 1e-6, does not if one differs by more than 1e-4.",
        judge=lambda gap: small_gap(gap, 1e-6),
    ),
    Claim(
        id="variance-of-a-score",
        quote="To illustrate why the dot products get large, assume that the components of q and k "
        "are independent random variables with mean 0 and variance 1. Then their dot product, q·k "
        "= Σ qᵢkᵢ, has mean 0 and variance d_k.",
        rule="Variance over d_k at every width from 1 to 1024, 10,000 pairs each. Holds if within "
        "10% of 1 (three standard errors at d_k = 1, where they are widest), does not beyond 30%.",
        judge=_variance,
        source="Vaswani et al., 2017, section 3.2.1, footnote",
        link=VASWANI,
    ),
    Claim(
        id="extremely-small-gradients",
        quote="We suspect that for large values of d_k, the dot products grow large in magnitude, "
        "pushing the softmax function into regions where it has extremely small gradients.",
        rule="Norm of ∂p/∂q at the largest d_k, undivided beside divided. Small means: below a "
        "tenth. Holds if mean and median are small, holds only for most queries if the median "
        "alone is, does not if neither is (cannot tell if both lie between a tenth and one).",
        judge=_small_gradients,
        source="Vaswani et al., 2017, section 3.2.1",
        link=VASWANI,
    ),
    Claim(
        id="permutation-equivariant",
        quote="When the tokens are shuffled, the outputs are shuffled along and nothing else.",
        rule="Holds if no number differs by 1e-6, does not if one differs by more than 1e-4.",
        judge=lambda gap: small_gap(gap, 1e-6),
        computed=True,
    ),
    Claim(
        id="within-the-values",
        quote="An output of attention never lies outside the values.",
        rule="Holds if along none of 10,000 directions an output reaches beyond the values.",
        judge=_within,
        computed=True,
    ),
    Claim(
        id="time-times-four",
        quote=QUADRATIC,
        rule="Time of the explicit form when T doubles, middle half of nine rounds. Holds if it "
        "lies within × 3.5 to × 4.5. Above that, it holds only without the trips to memory if the "
        "fused kernel, which saves them, lies within. Below, it does not; else nobody can tell.",
        judge=_time,
        timed=True,
        source="Dao et al., FlashAttention, 2022, abstract",
        link="https://arxiv.org/abs/2205.14135",
    ),
    Claim(
        id="memory-times-four",
        quote=QUADRATIC,
        rule="Peak memory of the explicit form when T doubles. Holds within an eighth of × 4, does "
        "not beyond a quarter.",
        judge=lambda growth: _about(growth, 4),
        source="Dao et al., FlashAttention, 2022, abstract",
        link="https://arxiv.org/abs/2205.14135",
    ),
    Claim(
        id="fused-memory-times-two",
        quote="The fused kernel computes the same with memory that grows as T, not as T².",
        rule="Its peak memory when T doubles. Holds within an eighth of × 2, does not beyond a "
        "quarter.",
        judge=lambda growth: _about(growth, 2),
    ),
)
