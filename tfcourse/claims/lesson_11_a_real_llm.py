"""Lesson 11: what its own cells measure."""

from __future__ import annotations

from tfcourse.claims.claim import Claim, small_gap


def _own_block(gap):
    return small_gap(gap, 1e-5, "logits of a small model of your parts and of ours: apart by")


CLAIMS = (
    Claim(
        "own-block-same-logits",
        "A block of your own functions, its rows reordered, is the course's block.",
        "Holds if the logits of a small random model differ by less than 1e-5.",
        _own_block,
    ),
)
