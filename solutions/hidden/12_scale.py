"""A teacher's cases: the width of a small real model, units that fire strongly, and no biases."""

from tfcourse.checks.exercise import Case, randn

SEED = 677


def partial_outputs() -> list[Case]:
    x, w_up, b_up, w_down, b_down = randn(SEED, (3, 11, 32), (96, 32), (96,), (32, 96), (32,))
    w_up, w_down = w_up / 32**0.5, w_down / 96**0.5
    return [
        Case((x, w_up, b_up, w_down, b_down, 6)),
        Case((8 * x, w_up, 3 * b_up, w_down, 5 * b_down, 16)),
        Case((x[:1], w_up, 0 * b_up, w_down, 0 * b_down, 4)),
    ]
