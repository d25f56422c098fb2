"""A teacher's cases: large tables, and vectors of very different lengths in one of them."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 483


def cosine_similarities() -> list[Case]:
    q, k = randn(SEED, (33, 64), (17, 64))
    lengths = 10.0 ** torch.arange(-4, 5)[torch.arange(33) % 9]
    mixed = Case((lengths[:, None] * q, k), note="from very short to very long")
    turned = Case((q[:6], -q[:11]), note="keys against the queries")
    return [Case((q, k)), mixed, turned]
