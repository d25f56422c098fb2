"""A teacher's cases: the sizes of a small real model, and fewer outputs than heads."""

from tfcourse.checks.exercise import Case, randn

SEED = 271


def head_contributions() -> list[Case]:
    heads, w_o, narrow = randn(SEED, (2, 12, 19, 16), (192, 192), (5, 192))
    return [Case((heads, w_o / 14)), Case((heads[:1], narrow / 14)), Case((heads, 0 * w_o))]
