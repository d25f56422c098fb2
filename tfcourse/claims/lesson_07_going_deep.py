"""What lesson 07 claims and its own cells measure, each with the rule that decides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
from tfcourse.experiments.norm_places import PRINTED


def _printed_reason(pre, post) -> Judged:
    """pre, post: for every seed (growth of the stream, gradient at the first over the last)."""
    said = [
        f"{name}: the stream's size × {_middle([g for g, _ in runs]):.2g}, the gradient at the "
        f"first block × {_middle([r for _, r in runs]):.1g} of that at the last"
        for name, runs in (("pre-norm", pre), ("post-norm", post))
    ]
    grows = [growth > 1.5 for growth, _ in post]
    explodes = [ratio > 10 for _, ratio in post]
    found = [a and b for a, b in zip(grows, explodes, strict=True)]
    neither = not any(grows) and not any(explodes)
    verdict = HOLDS if all(found) else NOT_HERE if neither else CANNOT_TELL
    return Judged("; ".join(said), verdict)


def _norms_divide(shares: Sequence[tuple[float, float]]) -> Judged:
    """shares: for every seed (gradient at the first block over the last, the norms' product)."""
    exponents = [math.log(ratio) / math.log(product) for ratio, product in shares]
    ratio, product = (_middle(side) for side in zip(*shares, strict=True))
    words = f"gradient × {ratio:.0e}, the norms' 1/size together {product:.0e}"
    inside = [0.5 < exponent < 1.5 for exponent in exponents]
    if all(inside):
        return Judged(words, HOLDS)
    return Judged(words, CANNOT_TELL if any(inside) else NOT_HERE)


def _large_near_the_end(logs: Mapping[int, Sequence[float]]) -> Judged:
    """logs: layers -> for every seed, ln of post-norm's gradient over pre-norm's, last block."""
    gaps = {layers: paired(found, [0.0] * len(found)) for layers, found in logs.items()}
    words = ", ".join(f"× {math.exp(gap.mean):.2f} with {n} layers" for n, gap in gaps.items())
    words = f"post-norm's gradient at the last block beside pre-norm's: {words}"
    if all(gap.low > 0 for gap in gaps.values()):
        return Judged(words, HOLDS)
    above = [n for n, gap in gaps.items() if gap.low > 0]
    if above:
        return Judged(words, ONLY_IF, f"there are at least {min(above)} layers")
    return Judged(words, NOT_HERE if all(g.high < 0 for g in gaps.values()) else CANNOT_TELL)


def _accounts_for_depth(scaled: Mapping[int, float], plain: Mapping[int, float]) -> Judged:
    """scaled, plain: layers -> how many times the stream grows over the whole stack."""
    words = "; ".join(
        f"{name} " + ", ".join(f"× {growth:.2g} over {n}" for n, growth in found.items())
        for name, found in (("with the factor", scaled), ("without", plain))
    )
    even = max(scaled.values()) / min(scaled.values()) < 1.25
    uneven = max(plain.values()) / min(plain.values()) > 1.5
    return Judged(words, HOLDS if even and uneven else NOT_HERE if not even else CANNOT_TELL)


def _like_the_root(powers: Mapping[str, Sequence[float]]) -> Judged:
    """powers: way to begin -> for every seed, the power of depth that the stream's size follows."""
    found = {way: paired(values, [0.0] * len(values)) for way, values in powers.items()}
    words = "; ".join(f"{way}: depth to the power {power}" for way, power in found.items())
    verdicts = {way: alike(paired(p, [0.5] * len(p)), 0.25) for way, p in powers.items()}
    kinds = set(verdicts.values())
    if len(kinds) == 1:
        return Judged(words, kinds.pop())
    if CANNOT_TELL in kinds:
        return Judged(words, CANNOT_TELL)
    near = [way for way, verdict in verdicts.items() if verdict == HOLDS]
    return Judged(words, ONLY_IF, f"the weights begin with {' or '.join(near)}, untrained")


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


CLAIMS = (
    Claim(
        "post-norm-reason",
        PRINTED,
        "The reason it gives. Six layers after twelve steps at 0.003, three seeds, post-norm. "
        "Holds if in each the stream grows along the layers by more than a half, and the gradient "
        "at the first block is more than ten times that at the last; does not hold if neither is "
        "so in any.",
        _printed_reason,
    ),
    Claim(
        "norms-divide-the-gradient",
        "In post-norm every norm divides the gradient by about the size of the sum that it reads.",
        "The same runs. The product of 1/size over all norms predicts how far the gradient falls. "
        "Holds if the logarithm of the measured fall is 0.5 to 1.5 times the predicted one in "
        "every seed (the sub-layers, which also carry gradient, are left out).",
        _norms_divide,
    ),
    Claim(
        "large-gradients-near-the-output",
        "[…] at initialization, for the original-designed Post-LN Transformer, which places the "
        "layer normalization between the residual blocks, the expected gradients of the parameters "
        "near the output layer are large.",
        "Untrained, 6 and 18 layers, five seeds each, the gradient of the last block's MLP "
        "beside pre-norm's. Holds if it is surely larger at each depth (95% interval of the "
        "logarithm of their ratio above 0).",
        _large_near_the_end,
        source="Xiong et al., On Layer Normalization in the Transformer Architecture, 2020",
        link="https://arxiv.org/abs/2002.04745",
    ),
    Claim(
        "start-accounts-for-depth",
        "A modified initialization which accounts for the accumulation on the residual path with "
        "model depth is used. We scale the weights of residual layers at initialization by a "
        "factor of 1/√N where N is the number of residual layers.",
        "Untrained stacks of 12, 48 and 160 blocks. Holds if with the factor the stream grows by "
        "the same at every depth, within a quarter, while without it the growth differs by more "
        "than a half.",
        _accounts_for_depth,
        source="Radford et al., Language Models are Unsupervised Multitask Learners (GPT-2), 2019",
        link="https://cdn.openai.com/better-language-models/"
        "language_models_are_unsupervised_multitask_learners.pdf",
    ),
    Claim(
        "stream-grows-like-the-root",
        "The stream of a pre-norm stack grows like the square root of the depth.",
        "160 untrained blocks, five seeds; the power of depth from block 40 to 160 is nearer to ½ "
        "than to 0 or 1: the 95% interval of its mean lies within 0.25 and 0.75. Holds if that is "
        "so for both ways to begin, holds only if … for one; does not hold if both lie outside.",
        _like_the_root,
    ),
)
