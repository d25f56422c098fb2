"""A teacher's cases: a vocabulary of a hundred tokens, one token that is nearly sure, and ties."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 151


def top_p() -> list[Case]:
    # Steps of a quarter: no two sums come close to p by rounding.
    order = torch.stack([torch.randperm(100, generator=_chosen(i)) for i in range(4)])
    ladder = -0.25 * order.float()
    sure = ladder.clone()
    sure[:, 7] = 9.0
    pairs = -0.25 * (order // 2).float()
    cases = [(ladder, 0.83, {}), (sure, 0.6, {}), (pairs, 0.31, {"temperature": 1.5})]
    return [Case((logits, p), given, gradients=False) for logits, p, given in cases]


def _chosen(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(SEED + number)
