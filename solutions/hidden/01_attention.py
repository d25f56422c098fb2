"""A teacher's cases: longer texts, and pieces that themselves were merged."""

import math

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 617


def merge_attention() -> list[Case]:
    shapes = [(3, 5, 23, 7)] * 2, [(3, 5, 23)] * 2
    out_a, out_b, lse_a, lse_b = randn(SEED, *shapes[0], *shapes[1])
    ordinary = Case((out_a, 3 * lse_a, out_b, 3 * lse_b))
    # As in a causal text: the first queries have nothing in the second piece.
    early = torch.arange(23) < 9
    causal = Case(
        (
            *(out_a, lse_a),
            *(out_b.masked_fill(early[:, None], 0.0), lse_b.masked_fill(early, -math.inf)),
        ),
        edge=True,
    )
    far = torch.where(torch.arange(23) % 3 == 0, 700.0, -700.0)
    apart = Case((out_a, lse_a + far, out_b, lse_b - far), edge=True)
    # Values that cancel out are not nothing: their lse says so.
    silent = Case((out_a.masked_fill(early[:, None], 0.0), lse_a, out_b, lse_b))
    return [ordinary, causal, apart, silent]
