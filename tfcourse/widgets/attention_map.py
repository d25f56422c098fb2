"""AttentionMap: who attends to whom, in every head of every layer."""

import numpy as np

from tfcourse import figures
from tfcourse.widgets.view import View, booleans, check_text, check_tokens, numbers


class AttentionMap(View):
    """Attention weights as a map that can be walked through, heads as thumbnails beside it.

    Besides the weights it shows, where they are given: the scores, the mask, the effect of each
    key (its weight times the length of its value after the output projection: a large weight need
    not mean a large effect), and the difference to another map.

    Args:
        weights: `(queries, keys)`, `(heads, queries, keys)` or `(layers, heads, queries, keys)`.
        tokens: one string a query.
        key_tokens: one string a key; default: the queries', for self-attention.
        scores: as `weights`, before the softmax; −inf where masked.
        mask: boolean, True = may attend, broadcastable to `weights`.
        values: as `weights` but `(…, keys, d_head)`: each key's value.
        w_o: weight of the output projection, `(d_out, heads · d_head)`, one for each layer where
            there are several; without it the values' own lengths count.
        compare: another map of the shape of `weights`, shown as `weights − compare`.
        names: one name a head; default "head 0" and so on.
        title: the question that the map answers.
        alt: the map in words; by default where its first heads look most.

    Raises:
        TypeError, ValueError: an argument is of the wrong type, or does not fit the others.
    """

    module = "attention_map"

    def __init__(
        self,
        weights,
        tokens,
        key_tokens=None,
        *,
        scores=None,
        mask=None,
        values=None,
        w_o=None,
        compare=None,
        names=None,
        title="Who attends to whom?",
        alt=None,
    ):
        self.tokens = check_tokens("tokens", tokens)
        self.key_tokens = (
            self.tokens if key_tokens is None else check_tokens("key_tokens", key_tokens)
        )
        self.weights = self._layers("weights", weights)
        self.names = self._head_names(names)
        check_text("title", title)
        arrays = {"weights": self.weights}
        if scores is not None:
            arrays["scores"] = self._layers("scores", scores, finite=False)
        if compare is not None:
            arrays["difference"] = self.weights - self._layers("compare", compare)
        self.mask = None if mask is None else self._mask(mask)
        if self.mask is not None:
            arrays["mask"] = self.mask
        if values is not None:
            arrays["effect"] = self.weights * self._lengths(values, w_o)[:, :, None, :]
        elif w_o is not None:
            raise ValueError("w_o needs values: give both, or neither")
        state = {
            "tokens": self.tokens,
            "keys": self.key_tokens,
            "names": self.names,
            "cross": key_tokens is not None,
            "ranges": {n: _ranges(a) for n, a in arrays.items() if n != "mask"},
            "statistics": statistics(self.weights, cross=key_tokens is not None),
        }
        if "difference" in arrays:
            state["greatest"] = _greatest(arrays["difference"])
        super().__init__(state, arrays, title=title, alt=self._describe() if alt is None else alt)

    def _layers(self, name, value, finite=True):
        """The argument as (layers, heads, queries, keys)."""
        array = numbers(name, value)
        wanted = (len(self.tokens), len(self.key_tokens))
        if not 2 <= array.ndim <= 4 or array.shape[-2:] != wanted or 0 in array.shape:
            raise ValueError(
                f"{name} must be (queries, keys), (heads, …) or (layers, heads, …) with "
                f"(queries, keys)={wanted}, as the tokens say. Got {array.shape}"
            )
        array = array.reshape((1,) * (4 - array.ndim) + array.shape)
        if name != "weights" and array.shape != self.weights.shape:
            raise ValueError(
                f"{name} must have the shape of weights, {self.weights.shape}, got {array.shape}"
            )
        if np.isnan(array).any() or (finite and not np.isfinite(array).all()):
            raise ValueError(f"{name} must hold {'finite numbers' if finite else 'no NaN'}")
        return array

    def _mask(self, mask):
        array = booleans("mask", mask)
        try:
            return np.ascontiguousarray(np.broadcast_to(array, self.weights.shape))
        except ValueError:
            raise ValueError(
                f"mask must broadcast to weights {self.weights.shape}, got {array.shape}"
            ) from None

    def _lengths(self, values, w_o):
        """Length of each key's value, after its head's part of the output projection."""
        layers, heads, _, keys = self.weights.shape
        values = numbers("values", values)
        values = values.reshape((1,) * max(0, 4 - values.ndim) + values.shape)
        if values.shape[:3] != (layers, heads, keys) or values.ndim != 4:
            raise ValueError(
                f"values must be (layers, heads, keys, d_head)={(layers, heads, keys, '…')}, "
                f"leading ones left out. Got {values.shape}"
            )
        if w_o is None:
            return np.linalg.norm(values, axis=-1)
        w_o = numbers("w_o", w_o)
        w_o = w_o[None] if w_o.ndim == 2 else w_o
        if w_o.ndim != 3 or w_o.shape[::2] != (layers, heads * values.shape[-1]):
            raise ValueError(
                f"w_o must be (d_out, heads · d_head={heads * values.shape[-1]}), one a layer. "
                f"Got {w_o.shape}"
            )
        parts = w_o.reshape(layers, w_o.shape[1], heads, values.shape[-1])
        return np.linalg.norm(np.einsum("lhkd,lohd->lhko", values, parts), axis=-1)

    def _head_names(self, names):
        heads = self.weights.shape[1]
        if names is None:
            return [f"head {h}" for h in range(heads)] if heads > 1 else [""]
        names = check_tokens("names", names)
        if len(names) != heads:
            raise ValueError(f"names must be one a head, {heads}, got {len(names)}")
        return names

    def _describe(self):
        layers = len(self.weights)
        said = figures.describe(self.weights[0], self.tokens, self.key_tokens, self.names)
        return f"{layers} layers; the first: {said}" if layers > 1 else said

    def draw(self):
        """The heads of the first layer as heatmaps, at most eight."""
        return figures.attention_heatmaps(
            self.weights[0][:8],
            self.tokens,
            self.key_tokens,
            self.title,
            mask=None if self.mask is None else self.mask[0][:8],
            names=self.names[:8],
            alt=self.alt,
        )


def statistics(weights, cross):
    """What tells heads apart, each a number a head: {name: (layers, heads) as lists}.

    Entropy in nats, mean over the rows; where queries and keys are the same tokens also the mean
    distance between a query and what it attends to, and the shares that go to the previous token,
    to the first and to the token itself.
    """
    positive = np.where(weights > 0, weights, 1.0)
    found = {"entropy": -(weights * np.log(positive)).sum(-1).mean(-1)}
    if not cross:
        queries, keys = weights.shape[-2:]
        apart = np.abs(np.arange(queries)[:, None] - np.arange(keys))
        found["distance"] = (weights * apart).sum(-1).mean(-1)
        found["previous token"] = _diagonal_mean(weights, -1)
        found["first token"] = weights[..., 0].mean(-1)
        found["itself"] = _diagonal_mean(weights, 0)
    return {name: np.round(values, 4).tolist() for name, values in found.items()}


def _diagonal_mean(weights, offset):
    diagonal = np.diagonal(weights, offset, -2, -1)
    return diagonal.mean(-1) if diagonal.shape[-1] else np.zeros(weights.shape[:2])


def _ranges(array):
    """Least and greatest finite number of every head: [[[low, high] a head] a layer]."""
    finite = np.isfinite(array)
    low = np.where(finite, array, np.inf).min((-2, -1))
    high = np.where(finite, array, -np.inf).max((-2, -1))
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    return np.stack([low, high], axis=-1).tolist()


def _greatest(array):
    """[query, key] of the greatest difference of every head."""
    flat = np.abs(array).reshape(*array.shape[:2], -1).argmax(-1)
    return np.stack(np.divmod(flat, array.shape[-1]), axis=-1).tolist()
