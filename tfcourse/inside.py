"""Looking into a model while it runs, and changing it (lessons 08 and 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcourse.arguments import check_tensor
from tfcourse.attention import MultiHeadAttention, merge_heads, split_heads
from tfcourse.models import LanguageModel


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
    for name, module in _attentions(model):
        handles.append(module.register_forward_pre_hook(ask, with_kwargs=True))
        handles.append(module.register_forward_hook(keep(name), with_kwargs=True))
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def head_outputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """What every head gives, before the output projection mixes them, in the calls inside.

    Gives:
        a dict by the attention's name: (batch, heads, tokens, d_head); of several calls the last.
    """
    kept: dict[str, Tensor] = {}

    def keep(name, attention):
        def hook(out, args):
            kept[name] = split_heads(args[0], attention.n_heads)

        return hook

    with _before_the_projection(model, keep):
        yield kept


@contextmanager
def replaced_heads(model: nn.Module, heads: Mapping[tuple[str, int], Tensor | float]):
    """Put something else in place of what some heads give, in the calls inside.

    0.0 switches a head off (an ablation). A tensor that `head_outputs` has kept from another run,
    (batch, tokens, d_head), patches that run's head into this one.

    Args:
        heads: (the attention's name, the head's number) -> what it gives instead.

    Raises:
        ValueError: there is no such attention or head in the model.
    """
    _check_heads(model, heads)

    def put(name, attention):
        chosen = {head: value for (where, head), value in heads.items() if where == name}
        if not chosen:
            return None

        def hook(out, args):
            each = split_heads(args[0], attention.n_heads).clone()
            for head, value in chosen.items():
                each[:, head] = value
            return (merge_heads(each),)

        return hook

    with _before_the_projection(model, put):
        yield


@contextmanager
def replaced_weights(model: nn.Module, heads: Mapping[tuple[str, int], Tensor]):
    """Let some heads fetch with other weights than their own, in the calls inside.

    >>> even = torch.full((tokens, tokens), 1 / tokens)
    >>> with replaced_weights(model, {("blocks.0.attention", 2): even}):
    ...     model(text)

    Nothing is checked but the shape: rows need not sum to 1, and may look ahead. `attention_maps`
    inside gives the weights that the model itself has computed.

    Args:
        heads: (the attention's name, the head's number) -> (queries, keys) or (batch, queries,
            keys); with a cache, keys are those that it held and the new ones.

    Raises:
        ValueError: there is no such attention or head in the model, or the weights do not fit.
    """
    _check_heads(model, heads)
    called: dict[str, tuple] = {}  # what each attention was last called with

    def note(name):
        def hook(attention, args, kwargs):
            called[name] = (*args, kwargs.get("context"))[:2], kwargs.get("cache")

        return hook

    def put(name, attention):
        chosen = {head: weights for (where, head), weights in heads.items() if where == name}
        if not chosen:
            return None

        def hook(out, args):
            each = split_heads(args[0], attention.n_heads).clone()
            given, cache = called[name]
            values = attention._project(*given)[2] if cache is None else cache.v
            group = attention.n_heads // attention.n_kv_heads
            for head, weights in chosen.items():
                wanted = (each.shape[2], values.shape[2])
                if weights.shape[-2:] != wanted or weights.dim() not in (2, 3):
                    raise ValueError(
                        f"heads must give weights (queries, keys) = {wanted}, or a batch of them. "
                        f"Got {tuple(weights.shape)}."
                    )
                each[:, head] = weights @ values[:, head // group]
            return (merge_heads(each),)

        return hook

    handles = [
        attention.register_forward_pre_hook(note(name), with_kwargs=True)
        for name, attention in _attentions(model)
    ]
    try:
        with _before_the_projection(model, put):
            yield
    finally:
        for handle in handles:
            handle.remove()


def head_scores(weights: Float[Tensor, "batch heads tokens tokens"]) -> dict[str, Tensor]:
    """How much every head looks at the token before, at the first one, and at itself.

    The mean weight over the batch and over all tokens from the second on, (heads,) each.
    """
    check_tensor("weights", weights, "(batch, heads, tokens, tokens)", axes=4)
    rows = weights[:, :, 1:]  # the first token has nowhere else to look
    mean = lambda part: part.mean(dim=(0, 2))  # noqa: E731
    return {
        "previous": mean(weights.diagonal(-1, -2, -1)),
        "first": mean(rows[..., 0]),
        "itself": mean(rows.diagonal(1, -2, -1)),
    }


def induction_scores(
    weights: Float[Tensor, "batch heads tokens tokens"], length: int
) -> Float[Tensor, " heads"]:
    """How much every head looks from a repeated token to the one that followed it the first time.

    Args:
        weights: of a text whose second half repeats its first, `length` tokens each
            (`tasks.repeated_sequences`).

    Raises:
        ValueError: the text is not 2 · length long.
    """
    check_tensor("weights", weights, "(batch, heads, tokens, tokens)", axes=4)
    if weights.shape[-1] != 2 * length:
        raise ValueError(f"weights must be of {2 * length} tokens. Got {weights.shape[-1]}.")
    # Token length + i repeats token i, for i from 0 on; what came next stands at i + 1.
    return weights.diagonal(1 - length, -2, -1)[..., 1:length].mean(dim=(0, 2))


@torch.no_grad()
def logit_lens(
    model: LanguageModel, tokens: Int[Tensor, "batch tokens"]
) -> Float[Tensor, "layers batch tokens vocabulary"]:
    """What the model would say if it ended after 0, 1, … blocks: the stream through norm and head.

    nostalgebraist, *interpreting GPT: the logit lens*, 2020.
    """
    x = model.embed(tokens)
    said = [model.head(model.norm(x))]
    for block in model.blocks:
        x = block(x, causal=True)
        said.append(model.head(model.norm(x)))
    return torch.stack(said)


def _attentions(model: nn.Module) -> Iterator[tuple[str, MultiHeadAttention]]:
    found = [(n, m) for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)]
    if not found:
        raise ValueError("model must hold a MultiHeadAttention of the course. Got none in it.")
    yield from found


def _check_heads(model: nn.Module, heads: Mapping[tuple[str, int], object]) -> None:
    there = dict(_attentions(model))
    for name, head in heads:
        if name not in there or not 0 <= head < there[name].n_heads:
            known = ", ".join(f"{n} (0 to {a.n_heads - 1})" for n, a in there.items())
            raise ValueError(f"heads must name heads of the model: {known}. Got {name!r}, {head}.")


@contextmanager
def _before_the_projection(model: nn.Module, make: Callable) -> Iterator[None]:
    """Hooks on the input of every attention's output projection; `make(name, attention)`."""
    hooks = [(attention, make(name, attention)) for name, attention in _attentions(model)]
    handles = [a.out.register_forward_pre_hook(hook) for a, hook in hooks if hook is not None]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
