"""A teacher's cases: many distances at once, far back and far ahead, and other bases."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 359


def score_at_distances() -> list[Case]:
    q, k = randn(SEED, (16,), (16,))
    cases = []
    for distances, base in (
        (torch.arange(-40, 41), {}),
        (torch.tensor([3, 3, 3, -3, 0]), {"base": 777.0}),
        (torch.tensor([120, 0, -120, 64]), {"base": 20}),
    ):
        cases.append(Case((q, k, distances), base, gradients=False))
    return cases
