"""SoftmaxScale: what d_k does to scores, weights and gradient, with and without 1/√d_k."""

import numpy as np

from tfcourse import figures
from tfcourse.widgets.view import View, check_whole

WIDTHS = [4**i for i in range(6)]
WIDEST = WIDTHS[-1]


class SoftmaxScale(View):
    """Random queries and keys, cut to their first d_k numbers by a slider from 1 to 1024.

    Shows how the scores q·k spread, how one query's weights look, and how much the weights still
    move when a score moves (the norm of the softmax's Jacobian), scaled and unscaled.

    Args:
        d_k: where the slider starts, 1 to 1024.
        queries, keys: how many of each, 2 to 64.
        seed: of the random numbers.

    Raises:
        TypeError: an argument is no int.
        ValueError: it is out of range.
    """

    module = "softmax_scale"

    def __init__(self, d_k=64, *, queries=32, keys=16, seed=0):
        bounds = {"d_k": (d_k, 1, WIDEST), "queries": (queries, 2, 64), "keys": (keys, 2, 64)}
        bounds["seed"] = (seed, 0, 2**32 - 1)
        for name, (value, low, high) in bounds.items():
            check_whole(name, value, low, high)
        rng = np.random.default_rng(seed)
        self.q = rng.standard_normal((queries, WIDEST))
        self.k = rng.standard_normal((keys, WIDEST))
        self.norms = {"unscaled": [], "divided by √d_k": []}
        for width in WIDTHS:
            scores = self.q[:, :width] @ self.k[:, :width].T
            self.norms["unscaled"].append(jacobian_norm(scores))
            self.norms["divided by √d_k"].append(jacobian_norm(scores / width**0.5))
        slopes = "; ".join(f"{n} {v[0]:.2g} and {v[-1]:.2g}" for n, v in self.norms.items())
        super().__init__(
            {"d_k": d_k},
            {"q": self.q, "k": self.k},
            title="What does √d_k keep in hand?",
            alt=(
                f"{queries} random queries and {keys} keys of d_k numbers. Unscaled, the scores "
                "spread as √d_k and the softmax gives most of its weight to few keys; divided by "
                "√d_k both stay as they are. Norm of the softmax's Jacobian, mean of the queries, "
                f"at d_k = {WIDTHS[0]} and at {WIDTHS[-1]}: {slopes}."
            ),
        )

    def draw(self):
        """Jacobian norms over d_k, scaled and unscaled."""
        return figures.lines(
            WIDTHS,
            self.norms,
            title=self.title,
            x_label="d_k",
            y_label="norm of the softmax's Jacobian",
            log_x=True,
            alt=self.alt,
        )


def jacobian_norm(scores):
    """Mean Frobenius norm of diag(p) - p pᵀ over the rows of scores (rows, keys)."""
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    squares = (p**2).sum(-1)
    return float(np.sqrt(squares - 2 * (p**3).sum(-1) + squares**2).mean())
