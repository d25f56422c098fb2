"""Lesson 08: what its own cells measure and compute."""

from __future__ import annotations

from tfcourse.claims.claim import HOLDS, NOT_HERE, Claim, Judged, small_gap


def _base(count):
    close = abs(count / 65e6 - 1) < 0.05
    return Judged(f"{count / 1e6:.1f}M with a vocabulary of 37,000", HOLDS if close else NOT_HERE)


def _known_outputs(gap):
    return small_gap(gap, 1e-5, "all at once minus step by step: at most")


def _first_step(shares):
    said = f"{min(shares):.4f} to {max(shares):.4f} of the rate, for gradients from 0.001 to 1000"
    return Judged(said, HOLDS if all(abs(x - 1) < 0.01 for x in shares) else NOT_HERE)


CLAIMS = (
    Claim(
        "base-65-million",
        "Transformer (base model): 65 million parameters (table 3).",
        "Holds if our count, with 37,000 tokens, is within 5% of it: the vocabulary is said to be "
        "“about 37000 tokens”.",
        _base,
        source="Vaswani et al., Attention Is All You Need, 2017",
        link="https://arxiv.org/abs/1706.03762",
        computed=True,
    ),
    Claim(
        "only-known-outputs",
        "This masking, combined with fact that the output embeddings are offset by one position, "
        "ensures that the predictions for position i can depend only on the known outputs at "
        "positions less than i.",
        "Holds if one pass over the whole target gives the logits of writing it step by step, to "
        "1e-5.",
        _known_outputs,
        source="Vaswani et al., Attention Is All You Need, 2017",
        link="https://arxiv.org/abs/1706.03762",
    ),
    Claim(
        "first-step-is-the-rate",
        "The first step of AdamW moves every weight by the learning rate, however large its "
        "gradient is.",
        "Holds if gradients from 0.001 to 1000 move a weight of zero by the rate, within 1%.",
        _first_step,
        computed=True,
    ),
)
