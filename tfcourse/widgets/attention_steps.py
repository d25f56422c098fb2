"""AttentionSteps: one small attention, its six matrices side by side and every number of them."""

import numpy as np

from tfcourse import figures
from tfcourse.widgets.view import View, booleans, check_text, check_tokens, numbers

MOST = 10  # rows; more would not fit a page with their numbers
WIDEST = 64  # numbers a row; above 16 they are colours


class AttentionSteps(View):
    """Q, K, scores, weights, V and output at once, with the arithmetic of every cell written out.

    Point at a cell, and the row and the column that make it light up. The learner drags scores,
    turns the temperature, switches or paints the mask, and sees what follows: −∞ before the
    softmax against 0 after it, too.

    Args:
        q: `(queries, d_k)`, a tensor or an array, at most ten rows of at most 64 numbers.
        k: `(keys, d_k)`.
        v: `(keys, d_value)`.
        tokens: one string a query; default: their numbers.
        key_tokens: one string a key; default: the queries', for self-attention.
        value_names: what each number of a value means, one string each; default: their numbers.
        feature_names: the same for the numbers of a query and a key.
        mask: boolean, True = may attend, broadcastable to `(queries, keys)`; where to start.
        title: the question that the view answers.

    Raises:
        TypeError: not numbers, not strings, not a boolean mask.
        ValueError: shapes do not fit, or are too large; a number is not finite.
    """

    module = "attention_steps"

    def __init__(
        self,
        q,
        k,
        v,
        tokens=None,
        *,
        key_tokens=None,
        value_names=None,
        feature_names=None,
        mask=None,
        title="What does each step of attention do?",
    ):
        check_text("title", title)
        q, k, v = (matrix(name, value) for name, value in (("q", q), ("k", k), ("v", v)))
        if q.shape[1] != k.shape[1]:
            raise ValueError(
                f"q and k must have as many numbers a row, for they meet number by number: q has "
                f"{q.shape[1]}, k has {k.shape[1]}"
            )
        if len(k) != len(v):
            raise ValueError(f"v must have a row for each key: k has {len(k)} rows, v has {len(v)}")
        if key_tokens is None and len(q) == len(k):
            key_tokens = tokens
        self.tokens = named("tokens", tokens, len(q), "query")
        self.key_tokens = named("key_tokens", key_tokens, len(k), "key")
        self.value_names = named("value_names", value_names, v.shape[1], "number of a value")
        self.feature_names = named("feature_names", feature_names, q.shape[1], "number of a query")
        self.mask = np.ones((len(q), len(k)), dtype=bool)
        if mask is not None:
            mask = booleans("mask", mask)
            try:
                self.mask = np.array(np.broadcast_to(mask, self.mask.shape))
            except ValueError:
                raise ValueError(
                    f"mask must be (queries, keys)={self.mask.shape}, got {mask.shape}"
                ) from None
        self.q, self.k, self.v = q, k, v
        state = {"tokens": self.tokens, "keys": self.key_tokens, "mask": self.mask.tolist()}
        state.update(q=q.tolist(), k=k.tolist(), v=v.tolist())
        state.update(
            value_names=None if value_names is None else self.value_names,
            feature_names=None if feature_names is None else self.feature_names,
        )
        super().__init__(state, title=title, alt=self._describe())

    def results(self):
        """`(scores, weights, output)`: scores divided by √d_k, −inf where masked."""
        scores = np.where(self.mask, self.q @ self.k.T / self.q.shape[1] ** 0.5, -np.inf)
        top = scores.max(-1, keepdims=True)
        raised = np.exp(scores - np.where(np.isfinite(top), top, 0))
        total = raised.sum(-1, keepdims=True)
        # a query with nothing to attend gets zeros, as in the course, not 0/0
        weights = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
        return scores, weights, weights @ self.v

    def _describe(self):
        weights = self.results()[1]
        text = figures.token_text
        strongest = "; ".join(
            f"{text(token)} to {text(self.key_tokens[row.argmax()])} ({row.max():.2g})"
            if row.any()
            else f"{text(token)} to nothing"
            for token, row in zip(self.tokens, weights, strict=True)
        )
        forbidden = int((~self.mask).sum())
        masked = f"{forbidden} of them −∞ by the mask, " if forbidden else ""
        return (
            f"Six matrices side by side: Q {size(self.q)} and K {size(self.k)} make the scores "
            f"QKᵀ/√{self.q.shape[1]}, {masked}their softmax is the weights {size(weights)}, and "
            f"weights times V {size(self.v)} is the output. Largest weights: {strongest}."
        )

    def draw(self):
        """The same six matrices, with their numbers where they are small."""
        scores, weights, output = self.results()
        return figures.attention_matrices(
            self.q,
            self.k,
            scores,
            weights,
            self.v,
            output,
            self.tokens,
            self.key_tokens,
            value_names=self.value_names,
            feature_names=self.feature_names,
            title=self.title,
            alt=self.alt,
        )


def matrix(name, value):
    """`value` as a finite array of two axes, small enough to be read."""
    array = numbers(name, value)
    axes = "(queries, d_k)" if name == "q" else "(keys, d_k)" if name == "k" else "(keys, d_value)"
    if array.ndim != 2:
        pick = f"{name}[{', '.join('0' * (array.ndim - 2))}]"
        more = f"; of several sentences or heads show one: {pick}" if array.ndim > 2 else ""
        raise ValueError(f"{name} must be {axes}, two axes, got shape {array.shape}{more}")
    rows, columns = array.shape
    if not 1 <= rows <= MOST:
        cut = f"; show some of them: {name}[:{MOST}]" if rows else ""
        raise ValueError(f"{name} must have 1 to {MOST} rows, got {rows}{cut}")
    if not 1 <= columns <= WIDEST:
        raise ValueError(f"{name} must have 1 to {WIDEST} numbers a row, got {columns}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only, no inf and no NaN")
    return array


def named(name, names, count, each):
    """`names` as `count` strings; the numbers from 0 on where there are none."""
    if names is None:
        return [str(i) for i in range(count)]
    names = check_tokens(name, names)
    if len(names) != count:
        raise ValueError(f"{name} must hold one string for each {each}, {count}, got {len(names)}")
    return names


def size(array):
    """The shape in words: (5 × 8)."""
    return f"({array.shape[0]} × {array.shape[1]})"
