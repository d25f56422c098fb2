"""A teacher's cases: as many parts as a model of some blocks has, of very different size."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 389


def logit_shares() -> list[Case]:
    parts, w, u = randn(SEED, (25, 2, 13, 32), (32,), (32,))
    sizes = 10.0 ** (torch.arange(25) % 3 - 1)[:, None, None, None]
    cases = [(parts, w, u), (sizes * parts, 1 + 0.3 * w, u), (parts + 2, w.abs(), 5 * u)]
    return [Case(case, gradients=False) for case in cases]
