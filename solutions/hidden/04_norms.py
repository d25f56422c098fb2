"""A teacher's cases: the sizes of a small real model, and scales of both signs."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 841


def fold_norm() -> list[Case]:
    scale, shift, w, b = randn(SEED, (48,), (48,), (96, 48), (96,))
    one_way = Case((scale.abs() + 0.1, shift, w, b))
    return [Case((scale, shift, w, b)), one_way, Case((-torch.ones(48), 10 * shift, w, 0 * b))]
