"""What lesson 06 measures in its own cells, and the rules that decide."""

from __future__ import annotations

import math
from itertools import pairwise

from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, ONLY_IF, Claim, Judged, small_gap

LOST, INFINITE = 1e-6, 3.4e38  # a hundred times AdamW's ε; the largest number of float32
FLOOR = 1e-12  # below it float64's own rounding is what is left


def _norms_address(gradients, gains) -> Judged:
    """gradients: way -> the first block's gradient for each gain."""
    healthy = {
        way: [value > LOST and value < INFINITE for value in values]  # NaN is neither
        for way, values in gradients.items()
    }
    counted = ", ".join(f"{way} {sum(found)}" for way, found in healthy.items())
    said = f"gains from {min(gains)} to {max(gains)} at which it stays in range, of {len(gains)}: "
    said += counted
    needed = not all(healthy["f(x)"]) and not all(healthy["x + f(x)"])
    norms = all(healthy["f(norm(x))"]) and all(healthy["x + f(norm(x))"])
    return Judged(said, (HOLDS if norms else NOT_HERE) if needed else CANNOT_TELL)


def _doubly(left: list[float]) -> bool | None:
    """Whether each step shrinks at least twice as strongly (in powers of ten) as the one before."""
    logs = [math.log10(share) for share in left if share > FLOOR]
    steps = [before - after for before, after in pairwise(logs)]
    if len(steps) < 2:
        return None
    return all(late >= 2 * early for early, late in pairwise(steps))


def _loses_rank(pure) -> Judged:
    """pure: "gain 1, no mask" -> what is left of the tokens' difference after each layer."""
    found = {name: _doubly(left) for name, left in pure.items()}
    shown = "; ".join(
        f"{name} " + ", ".join(f"{share:.0e}" for share in left[:5]) for name, left in pure.items()
    )
    if None in found.values():
        return Judged(shown, CANNOT_TELL)
    if all(found.values()):
        return Judged(shown, HOLDS)
    if not found["gain 1, no mask"]:
        return Judged(shown, NOT_HERE)
    where = " and ".join(
        what
        for name, what in (("gain 1, causal", "there is no causal mask"),
                           ("gain 2, no mask", "the weights are not large"))
        if not found[name]
    )  # fmt: skip
    return Judged(shown, ONLY_IF, where)


def _paths(n_paths, n_blocks) -> Judged:
    said = f"{n_blocks} blocks: {n_paths} paths"
    if n_paths == 2**n_blocks:
        return Judged(said, HOLDS)
    if n_paths == 2 ** (2 * n_blocks):
        return Judged(
            said, ONLY_IF, "a block is one sub-layer; with two it makes four times as many"
        )
    return Judged(said, NOT_HERE)


def _dropout(kept_scaled, same_in_use) -> Judged:
    said = f"p = 0.5: what is kept is doubled: {kept_scaled}; in use unchanged: {same_in_use}"
    return Judged(said, HOLDS if kept_scaled and same_in_use else NOT_HERE)


def _gpt3(parameters) -> Judged:
    verdict = HOLDS if abs(parameters / 175e9 - 1) < 0.01 else NOT_HERE
    return Judged(f"12 · 96 · 12288² = {parameters / 1e9:.1f} billion, of 175", verdict)


def _small_parts(counted) -> Judged:
    """counted: d -> parameters of the block."""
    rest = {d: (parameters - 12 * d**2) / d for d, parameters in counted.items()}
    said = ", ".join(f"d = {d}: 12d² + {more:g}d" for d, more in rest.items())
    return Judged(said, HOLDS if all(more == 12 for more in rest.values()) else NOT_HERE)


CLAIMS = (
    Claim(
        "norms-address-vanishing",
        "An obstacle to answering this question was the notorious problem of vanishing/exploding "
        "gradients, which hamper convergence from the beginning. This problem, however, has been "
        "largely addressed by normalized initialization and intermediate normalization layers, "
        "which enable networks with tens of layers to start converging for stochastic gradient "
        "descent (SGD) with backpropagation.",
        "32 untrained blocks, six gains of the first weights. Without norms some gain takes the "
        "first block's gradient out of range (below 1e-6, a hundred times AdamW's ε, or beyond "
        "float32); with norms none does, with the plus and without.",
        _norms_address,
        "He et al., Deep Residual Learning, 2015",
        "https://arxiv.org/abs/1512.03385",
    ),
    Claim(
        "pure-attention-loses-rank",
        "without skip connections or multi-layer perceptrons (MLPs), the output converges doubly "
        "exponentially to a rank-1 matrix",
        "What is left of the tokens' difference falls, in powers of ten, at least twice as fast "
        "with each further layer of attention, down to float64's rounding; "
        "for gain 1, for gain 2, and with a causal mask.",
        _loses_rank,
        "Dong et al., Attention is not all you need, 2021",
        "https://arxiv.org/abs/2103.03404",
    ),
    Claim(
        "block-equals-pytorch",
        "Our block and PyTorch's nn.TransformerEncoderLayer give the same numbers in both forms.",
        "With the same weights the greatest difference is below 1e-5 (float32).",
        lambda gap: small_gap(gap, 1e-5),
    ),
    Claim(
        "adding-a-block-doubles-the-paths",
        "it is apparent that residual networks have O(2^n) implicit paths connecting input and "
        "output and that adding a block doubles the number of paths",
        "N blocks of the Transformer have 2^N paths, listed one by one.",
        _paths,
        "Veit et al., Residual Networks Behave Like Ensembles, 2016",
        "https://arxiv.org/abs/1605.06431",
        computed=True,
    ),
    Claim(
        "dropout-scales-and-rests",
        "the outputs are scaled by a factor of 1/(1−p) during training. This means that during "
        "evaluation the module simply computes an identity function.",
        "In training with p = 0.5 every kept number is doubled; in use all are as they were.",
        _dropout,
        "PyTorch, nn.Dropout",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html",
    ),
    Claim(
        "twelve-d-d-a-block",
        "P = 12 n_layers d_model²",
        "It gives GPT-3's 175 billion to 1%.",
        _gpt3,
        "kipply, Transformer Parameter Counting, 2021",
        "https://kipp.ly/transformer-param-count/",
        computed=True,
    ),
    Claim(
        "twelve-d-for-the-small-parts",
        "A block with bias-free projections, an MLP with biases and two LayerNorms has exactly "
        "12d² + 12d parameters.",
        "The parameters of such a block, counted for two sizes.",
        _small_parts,
        computed=True,
    ),
)
