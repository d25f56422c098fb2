"""A teacher's cases: wider streams, sub-layers that undo one another, one that changes nothing."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 193


def by_path_length() -> list[Case]:
    x, stack = randn(SEED, (11,), (5, 11, 11))
    stack = stack / 11**0.5
    undone = torch.cat([stack[:3], -stack[2:3], stack[3:4]])
    identity = torch.cat([stack[:2], torch.eye(11)[None]])
    # More than float32 can hold.
    beyond = Case((1e39 * x.double(), stack[:4].double()), gradients=False, edge=True)
    ordinary = [Case((x, given), gradients=False) for given in (stack, undone, identity)]
    return [*ordinary, beyond]
