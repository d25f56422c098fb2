"""The claims that lesson 02 measures in its own cells."""

from __future__ import annotations

from collections.abc import Mapping

from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, ONLY_IF, Claim, Judged, small_gap

VASWANI = "https://arxiv.org/abs/1706.03762"


def _order_lost(found: Mapping[str, int]) -> Judged:
    even, uneven, two = found.values()
    said = f"{even} with one head, half and half; {uneven} with 60% and 40%; {two} with two heads"
    if (even, two) != (78, 144):
        return Judged(said, NOT_HERE)
    if uneven > even:
        return Judged(said, ONLY_IF, "both get the same share")
    return Judged(said, HOLDS)


def _similar_cost(fastest: Mapping[int, float]) -> Judged:
    ratios = {h: fastest[h] / fastest[1] for h in (8, 512)}
    said = ", ".join(f"{h} heads: {ratio:.2g} times one head's" for h, ratio in ratios.items())
    if any(2 <= ratio <= 5 for ratio in ratios.values()):
        return Judged(said, CANNOT_TELL)
    if ratios[8] > 5:
        return Judged(said, NOT_HERE)
    if ratios[512] > 5:
        return Judged(said, ONLY_IF, "the heads are few")
    return Judged(said, HOLDS)


def _four_d_squared(counts: Mapping[int, int], d: int, shared: Mapping[int, int], wide: int):
    said = ", ".join(f"{n / d**2:g}d²" for n in sorted(set(counts.values())))
    said += "; " + ", ".join(
        f"{n / wide**2:g}d² with {kv} heads of keys and values for 32 of queries"
        for kv, n in shared.items()
    )
    if set(counts.values()) != {4 * d**2}:
        return Judged(said, NOT_HERE)
    if any(n != 4 * wide**2 for n in shared.values()):
        return Judged(said, ONLY_IF, "every head has keys and values of its own")
    return Judged(said, HOLDS)


def _quarter(cache: Mapping[int, float]) -> Judged:
    said = f"{cache[32]:.1f} → {cache[8]:.1f} GiB at 8192 tokens"
    return Judged(said, HOLDS if cache[8] == cache[32] / 4 else NOT_HERE)


def _llama(parameters: int) -> Judged:
    said = f"{parameters / 1e6:.1f}M"
    return Judged(said, HOLDS if said == "41.9M" else NOT_HERE)


CLAIMS = (
    Claim(
        "half-and-half-loses-the-order",
        "One head that needs two tokens cannot tell which value came from which of them.",
        "All 144 ordered pairs of 12 letters, each letter with one vector. One head loses the "
        "order if its outputs differ only 78 times (12 · 13 / 2), while those of two heads differ "
        "144 times. Holds only for equal shares if unequal ones tell more pairs apart.",
        _order_lost,
        computed=True,
    ),
    Claim(
        "forms-of-multi-head-attention",
        "A loop over heads, three projections and a single projection give the same numbers.",
        "Holds below 1e-5, which is rounding in float32; does not hold above 1e-3.",
        lambda gap: small_gap(gap, 1e-5),
        computed=True,
    ),
    Claim(
        "heads-cost-the-same",
        "In this work we employ h = 8 parallel attention layers, or heads. For each of these we "
        "use d_k = d_v = d_model/h = 64. Due to the reduced dimension of each head, the total "
        "computational cost is similar to that of single-head attention with full dimensionality.",
        "Time of the explicit form at d_model = 512, T = 256, on one thread, the best of four runs "
        "in turn. Similar is less than twice the time of one head, not similar more than 5 times; "
        "between the two a busy machine could be the reason. Holds if 8 and 512 heads are similar, "
        "holds only for few heads if 8 are and 512 are not.",
        _similar_cost,
        timed=True,
        source="Vaswani et al., 2017, section 3.2.2",
        link=VASWANI,
    ),
    Claim(
        "four-d-squared",
        "Multi-head attention has 4d² parameters, biases aside, whatever the number of heads.",
        "Counted for 1 to 16 heads at d = 512, and at d = 4096 with shared keys and values.",
        _four_d_squared,
        computed=True,
    ),
    Claim(
        "same-as-torch-multi-head",
        "Our module with the weights of nn.MultiheadAttention gives the same output.",
        "Holds below 1e-5, which is rounding in float32; does not hold above 1e-3.",
        lambda gap: small_gap(gap, 1e-5),
    ),
    Claim(
        "a-quarter-of-the-cache",
        "With 8 heads of keys and values instead of 32, the KV cache of Llama-3 8B is a quarter.",
        "By the formula, which the cache of our module confirms.",
        _quarter,
        computed=True,
    ),
    Claim(
        "attention-of-llama-3",
        "The attention of one block of Llama-3 8B has 41.9M parameters.",
        "Counted: d = 4096, 32 heads of queries, 8 of keys and values, no biases.",
        _llama,
        computed=True,
    ),
)
