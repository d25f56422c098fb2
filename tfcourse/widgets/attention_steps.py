"""AttentionSteps: one small attention, taken apart into its five lines."""

import numpy as np

from tfcourse import figures
from tfcourse.widgets.view import View, check_text, check_tokens, numbers

MOST = 10  # tokens; more would not fit a page with their numbers


class AttentionSteps(View):
    """QKᵀ → /√d_k → mask → softmax → ·V, with the arithmetic of every cell written out.

    The reader drags scores, turns the temperature, paints the mask, and sees what follows.

    Args:
        q, k: `(tokens, d_k)`, tensors or arrays.
        v: `(tokens, d_value)`.
        tokens: one string a row, at most ten.
        causal: start with the causal mask instead of none.
        title: the question that the view answers.

    Raises:
        TypeError: not numbers, not strings, not a bool.
        ValueError: shapes do not fit, a number is not finite, or there are too many tokens.
    """

    module = "attention_steps"

    def __init__(self, q, k, v, tokens, causal=False, title="What does each step do?"):
        tokens = check_tokens("tokens", tokens)
        check_text("title", title)
        if not isinstance(causal, bool):
            raise TypeError(f"causal must be a bool, got {causal!r}")
        if len(tokens) > MOST:
            raise ValueError(f"tokens must be at most {MOST}, got {len(tokens)}")
        q, k, v = (matrix(n, t, len(tokens)) for n, t in (("q", q), ("k", k), ("v", v)))
        if q.shape[1] != k.shape[1]:
            raise ValueError(f"k must have the d_k of q, {q.shape[1]}, got {k.shape[1]}")
        self.q, self.k, self.tokens, self.causal = q, k, tokens, causal
        state = {"tokens": tokens, "causal": causal}
        state.update(q=q.tolist(), k=k.tolist(), v=v.tolist())
        super().__init__(
            state,
            title=title,
            alt=(
                f"{len(tokens)} tokens, d_k = {q.shape[1]}: scores QKᵀ, divided by √d_k, "
                f"{'causally masked' if causal else 'not masked'}, softmax, times V."
            ),
        )

    def draw(self):
        """The weights, the last step before the values."""
        scores = self.q @ self.k.T / self.q.shape[1] ** 0.5
        mask = np.tri(len(self.tokens), dtype=bool) if self.causal else np.ones_like(scores, bool)
        weights = np.exp(np.where(mask, scores - scores.max(-1, keepdims=True), -np.inf))
        weights /= weights.sum(-1, keepdims=True)
        picture = figures.attention_heatmaps(weights, self.tokens, title=self.title, mask=mask)
        picture.alt = self.alt
        return picture


def matrix(name, value, rows):
    """`value` as a finite array of shape (rows, at least one)."""
    array = numbers(name, value)
    if array.ndim != 2 or array.shape[0] != rows or array.shape[1] == 0:
        raise ValueError(f"{name} must be (tokens={rows}, d), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only")
    return array
