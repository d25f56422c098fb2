"""A teacher's cases: a larger vocabulary, long rows beside one of a single token, no smoothing."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 733


def smoothed_loss() -> list[Case]:
    [logits] = randn(SEED, (5, 30, 50))
    chosen = torch.Generator().manual_seed(SEED)
    labels = torch.randint(50, (5, 30), generator=chosen)
    real = torch.arange(30) < torch.tensor([30, 1, 17, 8, 29])[:, None]
    cases = [(2 * logits, 0.1), (logits - 40, 0.25), (4 * logits, 0.0)]
    return [Case((given, labels, real, smoothing)) for given, smoothing in cases]
