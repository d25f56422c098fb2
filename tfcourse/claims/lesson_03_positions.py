"""The claims that lesson 03 measures in its own cells."""

from __future__ import annotations

from collections.abc import Sequence

from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    ONLY_IF,
    Claim,
    Judged,
    alike,
    lower,
    paired,
    small_gap,
)

VASWANI = "https://arxiv.org/abs/1706.03762"
SU = "https://arxiv.org/abs/2104.09864"


def _linear(step_error: float, matrix_gap: float) -> Judged:
    holds = step_error < 1e-4 and matrix_gap < 1e-3
    measured = f"error of one matrix for all {step_error:.0e}, early and late ones {matrix_gap:.0e}"
    return Judged(measured + " apart", HOLDS if holds else NOT_HERE)


def _times_root(lengths: dict[str, float], place: float) -> Judged:
    measured = ", ".join(f"{name} {length:.1f}" for name, length in lengths.items())
    fits = {name: 0.5 < length / place < 2 for name, length in lengths.items()}
    measured = f"word × √d_model, by how it starts: {measured}; position {place:.1f}"
    if all(fits.values()):
        return Judged(measured, HOLDS)
    if not any(fits.values()):
        return Judged(measured, NOT_HERE)
    return Judged(measured, ONLY_IF, f"it starts with {next(n for n in fits if fits[n])}")


def _decays(alike_pairs: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Judged:
    """Each: the mean score of every query with near keys, and with far ones."""
    same, other = (paired(far, near) for near, far in (alike_pairs, others))
    measured = f"far − near: key like the query {same}, any other key {other}"
    tenth = abs(same.mean) / 10
    found = lower(same), lower(other, tenth)
    if found == (HOLDS, HOLDS):
        return Judged(measured, HOLDS)
    if found[0] == HOLDS and alike(other, tenth) == HOLDS:
        return Judged(measured, ONLY_IF, "key and query are alike before they are turned")
    return Judged(measured, CANNOT_TELL if CANNOT_TELL in found else NOT_HERE)


CLAIMS = (
    Claim(
        "order-unseen",
        "Without positions a word's output does not depend on the order of the words.",
        "For every word, the outputs for two orders differ by less than 1e-6.",
        lambda gap: small_gap(gap, 1e-6),
        computed=True,
    ),
    Claim(
        "shift-is-linear",
        "We chose this function because we hypothesized it would allow the model to easily learn "
        "to attend by relative positions, since for any fixed offset k, PE_pos+k can be "
        "represented as a linear function of PE_pos.",
        "Of this sentence, the part after “since”: one matrix fits all positions to 1e-4, and "
        "the ones fitted to early and to late positions agree to 1e-3. That it is easily learned "
        "is not tested.",
        _linear,
        "Vaswani et al., 2017, section 3.5",
        VASWANI,
        computed=True,
    ),
    Claim(
        "offset-alone",
        "The dot product of two sinusoidal encodings depends on their offset alone.",
        "Over all pairs with the same offset the products differ by less than 1e-3.",
        lambda spread: small_gap(spread, 1e-3, "same offset: within"),
        computed=True,
    ),
    Claim(
        "root-d-for-embeddings",
        "Multiplied by √d_model, the embedding of a word is about as long as its position.",
        "About: longer than half and shorter than twice as long. Asked of embeddings that start "
        "with a variance of 1/d_model, and with a variance of 1 as in PyTorch.",
        _times_root,
    ),
    Claim(
        "rotary-distance-alone",
        "Turned by rotary positions, query and key have a score that depends on their distance "
        "alone.",
        "20 pairs of positions with the same distance: their scores differ by less than 1e-3.",
        lambda spread: small_gap(spread, 1e-3, "same distance: within"),
        computed=True,
    ),
    Claim(
        "rotary-decays",
        "One can prove that this setting provides a long-term decay property (refer to Section "
        "(3.4.3) for more details), which means the inner-product will decay when the relative "
        "position increase.",
        "Over 500 queries: the mean score at distances 257 to 512 minus that at 1 to 16 has its "
        "whole interval below 0. Asked of keys like their query, and of keys drawn apart from it; "
        "there a change within a tenth of the first one counts as none.",
        _decays,
        "Su et al., 2021, section 3.3",
        SU,
    ),
    Claim(
        "layouts-permuted",
        "The two layouts of rotary positions give the same numbers in another order.",
        "Put into the other layout, turned there and put back, they differ by less than 1e-6.",
        lambda gap: small_gap(gap, 1e-6),
        computed=True,
    ),
)
