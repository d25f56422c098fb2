"""Looking into a model while it runs, and changing it (lessons 08 and 10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from tfcourse.attention import MultiHeadAttention


@contextmanager
def attention_maps(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """The weights of every attention in the calls made inside the `with`.

    >>> with attention_maps(model) as maps:
    ...     model(tokens)
    >>> maps["blocks.0.attention"]  # (batch, heads, queries, keys)

    Gives:
        a dict by the attention's name in the model; of several calls it holds the last one's.
    """
    maps: dict[str, Tensor] = {}

    def ask(module, args, kwargs):
        return args, kwargs | {"return_weights": True}

    def keep(name):
        def hook(module, args, kwargs, output):
            out, maps[name] = output
            return out

        return hook

    handles = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            handles.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            handles.append(module.register_forward_hook(keep(name), with_kwargs=True))
    if not handles:
        raise ValueError("model must hold a MultiHeadAttention of the course. Got none in it.")
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()
