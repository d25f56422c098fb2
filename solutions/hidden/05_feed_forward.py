"""A teacher's cases: many units, of which hardly one fires, and which fire against one another."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 529


def edit_one_value() -> list[Case]:
    w, delta = randn(SEED, (24, 96), (24,))
    ranks = torch.randperm(96, generator=torch.Generator().manual_seed(SEED))
    hidden = 0.05 * (ranks + 1.0)
    some = hidden * (ranks > 80)
    cases = [(w, hidden, delta), (w, some, -2 * delta), (w[:3], some, delta[:3])]
    return [Case(case, gradients=False) for case in cases]
