"""A teacher's cases: the width of a small real model, and tokens of very different size."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 907


def norm_vjp() -> list[Case]:
    x, g = randn(SEED, (3, 21, 64), (3, 21, 64))
    spread = 10.0 ** (torch.arange(21) % 4)[:, None]
    cases = [(x, g, {}), (x * spread, g, {}), (x + 3, 5 * g, {"eps": 0.05})]
    return [Case((x, g), eps, gradients=False) for x, g, eps in cases]
