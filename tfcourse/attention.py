"""Attention: scaled dot products, masks, several heads (lessons 01 and 02).

Shapes are `(batch, heads, tokens, d_head)`; queries and keys may differ in number. A mask is
boolean, **True = may attend**, and broadcasts to `(batch, heads, queries, keys)`. A query that may
attend to nothing gets zeros, never NaN.

`attention_scores`, `attention_weights` and `scaled_dot_product_attention` spell the formula out.
`MultiHeadAttention` runs PyTorch's fused kernel and takes the explicit path when asked for its
weights; both give the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcourse.arguments import (
    check_count,
    check_flag,
    check_floats,
    check_number,
    check_tensor,
)

CONVENTIONS = ("may_attend", "may_not_attend", "additive", "zero_is_masked")


# --- masks ----------------------------------------------------------------------------------


def causal_mask(
    queries: int, keys: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "queries keys"]:
    """Which keys each query may see if it may not look ahead.

    The last query stands at the last key: with fewer queries than keys (a cache holds the rest)
    the triangle is aligned bottom-right.

    Args:
        queries: how many queries, at least 1.
        keys: how many keys, at least `queries`; default: as many as queries.
        device: where the mask shall be.

    Returns:
        boolean, True = may attend.

    Raises:
        TypeError: a count is not an int.
        ValueError: a count is below 1, or there are fewer keys than queries.
    """
    keys = queries if keys is None else keys
    check_count("queries", queries)
    check_count("keys", keys)
    if keys < queries:
        raise ValueError(
            f"keys must be at least queries={queries}, since every query is itself a key. "
            f"Got {keys}."
        )
    query_position = torch.arange(keys - queries, keys, device=device)
    return torch.arange(keys, device=device) <= query_position[:, None]


def padding_mask(lengths: Int[Tensor, " batch"], tokens: int) -> Bool[Tensor, "batch 1 1 tokens"]:
    """Which keys are real tokens, in a batch whose short sequences are filled up at the end.

    Args:
        lengths: number of real tokens of each sequence, integers from 0 to `tokens`.
        tokens: the width of the batch.

    Returns:
        boolean, True = may attend; it stretches over all heads and all queries.

    Raises:
        TypeError: `lengths` is no tensor of integers, or `tokens` no int.
        ValueError: `lengths` has not one axis, or a length does not fit.
    """
    check_count("tokens", tokens)
    check_tensor("lengths", lengths, "(batch,)", axes=1)
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must hold integers. Got {lengths.dtype}.")
    if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= tokens:
        raise ValueError(
            f"lengths must be between 0 and tokens={tokens}. Got {int(lengths.min())} to "
            f"{int(lengths.max())}."
        )
    real = torch.arange(tokens, device=lengths.device) < lengths[:, None]  # (batch, tokens)
    return real[:, None, None, :]


def convert_mask(mask: Tensor, source: str, target: str) -> Tensor:
    """Translate a mask between the four conventions in use.

    | convention | may attend | may not | where |
    |---|---|---|---|
    | `may_attend` | True | False | this course, `F.scaled_dot_product_attention` |
    | `may_not_attend` | False | True | `nn.MultiheadAttention` |
    | `additive` | 0.0 | -inf | added to the scores |
    | `zero_is_masked` | 1 | 0 | `scores.masked_fill(mask == 0, ...)` |

    Args:
        mask: any shape; boolean, float 0/-inf or integer 1/0 as `source` says.
        source, target: names of the conventions.

    Returns:
        the mask in the convention `target`: boolean, float32 or int64.

    Raises:
        TypeError: `mask` is not of the type that `source` has.
        ValueError: no such convention, or a value that `source` does not have.
    """
    for name, convention in (("source", source), ("target", target)):
        if convention not in CONVENTIONS:
            raise ValueError(f"{name} must be one of {', '.join(CONVENTIONS)}. Got {convention!r}.")
    may_attend = _read_mask(mask, source)
    if target == "may_attend":
        return may_attend
    if target == "may_not_attend":
        return ~may_attend
    if target == "zero_is_masked":
        return may_attend.long()
    return torch.zeros(may_attend.shape, device=mask.device).masked_fill(~may_attend, -math.inf)


def _read_mask(mask: Tensor, source: str) -> Bool[Tensor, "..."]:
    """A mask of any convention as True = may attend."""
    check_tensor("mask", mask, "a mask")
    if source in ("may_attend", "may_not_attend"):
        if mask.dtype != torch.bool:
            raise TypeError(f"mask in the convention {source} must be boolean. Got {mask.dtype}.")
        return mask if source == "may_attend" else ~mask
    if source == "additive":
        if not mask.is_floating_point():
            raise TypeError(f"mask in the convention additive must be float. Got {mask.dtype}.")
        if not ((mask == 0) | (mask == -math.inf)).all():
            raise ValueError("mask in the convention additive must hold 0 and -inf only.")
        return mask == 0
    if mask.is_complex() or not ((mask == 0) | (mask == 1)).all():
        raise ValueError("mask in the convention zero_is_masked must hold 0 and 1 only.")
    return mask != 0


# --- attention, spelt out -------------------------------------------------------------------


def attention_scores(
    q: Float[Tensor, "*batch queries d_head"], k: Float[Tensor, "*batch keys d_head"]
) -> Float[Tensor, "*batch queries keys"]:
    """Scaled scores q·k / sqrt(d_head) of every query with every key.

    The division keeps the scores' spread at one, whatever d_head is (Vaswani et al., *Attention Is
    All You Need*, 2017, section 3.2.1).

    Raises:
        TypeError: q or k is no float tensor, or their types differ.
        ValueError: their shapes do not fit.
    """
    _check_qkv(q, k)
    d_head = q.shape[-1]
    return q @ k.mT / math.sqrt(d_head)  # (batch, heads, queries, keys)


def attention_weights(
    q: Float[Tensor, "*batch queries d_head"],
    k: Float[Tensor, "*batch keys d_head"],
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch queries keys"]:
    """softmax(q k^T / sqrt(d_head) + bias) over the keys that the mask allows.

    Args:
        q, k: queries and keys.
        mask: boolean, True = may attend, broadcastable to the scores.
        bias: added to the scores before the softmax (ALiBi, say), broadcastable to them.

    Returns:
        rows that sum to one; a row with nothing to attend is zero, and so is its gradient.

    Raises:
        TypeError: a type is wrong (a float mask: see `convert_mask`).
        ValueError: shapes do not fit.
    """
    scores = attention_scores(q, k)
    if bias is not None:
        scores = scores + _check_bias(bias, scores)
    if mask is None:
        return torch.softmax(scores, dim=-1)
    _check_mask(mask, scores.shape)
    # A row without any key must not take part in the softmax: 0/0 would spoil its gradient too.
    empty = ~mask.any(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~mask & ~empty, -math.inf), dim=-1)
    return weights.masked_fill(empty, 0.0)


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch queries d_head"],
    k: Float[Tensor, "*batch keys d_head"],
    v: Float[Tensor, "*batch keys d_value"],
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch queries d_value"]:
    """softmax(q k^T / sqrt(d_head)) v, the explicit form: for each query a mixture of the values.

    Raises:
        TypeError, ValueError: as `attention_weights`; `v` must have as many tokens as `k`.
    """
    _check_qkv(q, k, v)
    return attention_weights(q, k, mask, bias) @ v


def attention_vjp(
    q: Float[Tensor, "*batch queries d_head"],
    k: Float[Tensor, "*batch keys d_head"],
    v: Float[Tensor, "*batch keys d_value"],
    g: Float[Tensor, "*batch queries d_value"],
    mask: Bool[Tensor, "..."] | None = None,
) -> tuple[
    Float[Tensor, "*batch queries d_head"],
    Float[Tensor, "*batch keys d_head"],
    Float[Tensor, "*batch keys d_value"],
]:
    """The gradients at q, k and v from the gradient g at attention's output, without autograd.

    A fused kernel has to write this backward pass out (Dao et al., *FlashAttention*, 2022,
    appendix B.2).

    Args:
        q, k, v: queries, keys and values.
        g: the gradient at `scaled_dot_product_attention(q, k, v, mask)`.
        mask: boolean, True = may attend, broadcastable to the scores.

    Returns:
        the gradients at q, k and v; a query with nothing to attend adds nothing to any of them.

    Raises:
        TypeError, ValueError: as `scaled_dot_product_attention`; `g` must be as its output.
    """
    _check_qkv(q, k, v)
    check_floats("g", g, "(..., queries, d_value)")
    wanted = (*q.shape[:-1], v.shape[-1])
    if g.shape != wanted or g.dtype != q.dtype:
        raise ValueError(
            f"g must be like the output, {q.dtype} {wanted}. Got {g.dtype} {tuple(g.shape)}."
        )
    weights = attention_weights(q, k, mask)
    at_weights = g @ v.mT  # (batch, heads, queries, keys)
    # A row's weights always sum to one: what all of them have in common moves nothing.
    common = (weights * at_weights).sum(dim=-1, keepdim=True)
    at_scores = weights * (at_weights - common) / math.sqrt(q.shape[-1])
    return at_scores @ k, at_scores.mT @ q, weights.mT @ g


def attention_in_tiles(
    q: Float[Tensor, "*batch queries d_head"],
    tiles: Sequence[
        tuple[Float[Tensor, "*batch keys d_head"], Float[Tensor, "*batch keys d_value"]]
    ],
) -> tuple[Float[Tensor, "*batch queries d_value"], Float[Tensor, "*batch queries"]]:
    """Attention over keys and values that come tile by tile: no scores are wider than one tile.

    Every tile is read twice: for the greatest score of each query, then for the two sums of the
    softmax. FlashAttention (Dao et al., 2022) reads it once, by the online softmax of Milakov and
    Gimelshein (2018).

    Args:
        q: queries.
        tiles: pairs (k, v) of keys and their values, at least one; the tiles' lengths may differ.

    Returns:
        the output, and lse: for each query the logarithm of its softmax's denominator.

    Raises:
        TypeError: q, a k or a v is no float tensor, or their types differ; no pairs.
        ValueError: there is no tile, a tile has no key, or shapes do not fit.
    """
    _check_tiles(q, tiles)
    with torch.no_grad():  # it cancels out, and so would its gradient
        top = attention_scores(q, tiles[0][0]).amax(-1, keepdim=True)
        for k, _ in tiles[1:]:
            top = torch.maximum(top, attention_scores(q, k).amax(-1, keepdim=True))
    above = below = 0
    for k, v in tiles:
        raised = (attention_scores(q, k) - top).exp()  # (batch, heads, queries, keys of the tile)
        above, below = above + raised @ v, below + raised.sum(-1, keepdim=True)
    return above / below, (top + below.log()).squeeze(-1)


def leaks(
    attend: Callable[[Tensor], Tensor], x: Float[Tensor, "tokens d_model"]
) -> Bool[Tensor, "tokens tokens"]:
    """Which token moves which output: put other numbers in place of each token, and compare.

    The one test of a mask that does not trust it. For causal attention the result is the causal
    mask; what is True above the diagonal has seen the future.

    Args:
        attend: takes (tokens, d_model) and gives (tokens, d_out).
        x: the tokens; they stay as they are.

    Returns:
        True at [i, j] where output i changes, by more than rounding (1e-6), with token j.

    Raises:
        TypeError: attend cannot be called, or x is no float tensor.
        ValueError: x has not two axes, or attend does not give an output for each token.
    """
    if not callable(attend):
        raise TypeError(f"attend must be a function of x. Got {type(attend).__name__}.")
    check_tensor("x", x, "(tokens, d_model)", axes=2)
    check_floats("x", x)
    others = x + 1 + torch.rand(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
    moved = torch.zeros(len(x), len(x), dtype=torch.bool, device=x.device)
    with torch.no_grad():
        before = attend(x.clone())
        if not isinstance(before, Tensor) or before.dim() != 2 or len(before) != len(x):
            got = tuple(before.shape) if isinstance(before, Tensor) else type(before).__name__
            raise ValueError(f"attend must give (tokens={len(x)}, d_out). Got {got}.")
        for j in range(len(x)):
            change = torch.arange(len(x), device=x.device) == j
            after = attend(torch.where(change[:, None], others, x))
            moved[:, j] = ((after - before).abs() > 1e-6).any(dim=-1)
    return moved


# --- several heads --------------------------------------------------------------------------


def split_heads(
    x: Float[Tensor, "batch tokens d_model"], n_heads: int
) -> Float[Tensor, "batch n_heads tokens d_head"]:
    """Cut d_model into n_heads pieces of neighbouring numbers, heads before tokens.

    Raises:
        TypeError: x is no tensor or n_heads no int.
        ValueError: x has not three axes, or n_heads does not divide d_model.
    """
    check_tensor("x", x, "(batch, tokens, d_model)", axes=3)
    check_count("n_heads", n_heads)
    if x.shape[-1] % n_heads:
        raise ValueError(f"n_heads must divide d_model={x.shape[-1]}. Got {n_heads}.")
    x = x.unflatten(-1, (n_heads, x.shape[-1] // n_heads))  # (batch, tokens, heads, d_head)
    return x.transpose(1, 2)  # (batch, heads, tokens, d_head)


def merge_heads(
    x: Float[Tensor, "batch heads tokens d_head"],
) -> Float[Tensor, "batch tokens d_model"]:
    """Put the heads side by side again: the way back from `split_heads`.

    Raises:
        TypeError: x is no tensor.
        ValueError: x has not four axes.
    """
    check_tensor("x", x, "(batch, heads, tokens, d_head)", axes=4)
    return x.transpose(1, 2).flatten(-2)  # (batch, tokens, heads * d_head)


class KVCache:
    """Keys and values of the tokens seen so far, of one attention layer.

    `append` takes the new ones, `(batch, n_kv_heads, tokens, d_head)`, and gives all.
    """

    def __init__(self):
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values behind those held; returns all of them.

        Raises:
            TypeError: k or v is no tensor.
            ValueError: their shapes fit neither each other nor what is held.
        """
        shape = "(batch, n_kv_heads, tokens, d_head)"
        check_tensor("k", k, shape, axes=4)
        check_tensor("v", v, shape, axes=4)
        if k.shape[:3] != v.shape[:3]:
            raise ValueError(f"v must fit k {tuple(k.shape)}. Got {tuple(v.shape)}.")
        if self.k is not None:
            for name, new, held in (("k", k, self.k), ("v", v, self.v)):
                if (new.shape[:2], new.shape[3]) != (held.shape[:2], held.shape[3]):
                    raise ValueError(
                        f"{name} must fit what the cache holds, {tuple(held.shape)}, but for the "
                        f"tokens. Got {tuple(new.shape)}."
                    )
            k, v = torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2)
        self.k, self.v = k, v
        return k, v

    @property
    def length(self) -> int:
        """Tokens held."""
        return 0 if self.k is None else self.k.shape[2]

    @property
    def bytes(self) -> int:
        """Memory held, in bytes."""
        return 0 if self.k is None else self.k.nbytes + self.v.nbytes


class MultiHeadAttention(nn.Module):
    """Several attentions side by side: self, cross, grouped-query, rotary, ALiBi, cached.

    One projection makes q, k and v; its rows are q's, then k's, then v's. Vaswani et al., 2017,
    section 3.2.2; grouped-query: Ainslie et al., *GQA*, 2023; multi-query: Shazeer, 2019.

    Args:
        d_model: width of a token.
        n_heads: heads of queries; divides d_model.
        n_kv_heads: heads of keys and values, each shared by n_heads / n_kv_heads neighbouring
            query heads; default: n_heads.
        bias: whether the projections have one.
        dropout: share of the weights put to zero in training.
        rotary: `rotary(x, positions)` turns q and k, `(batch, heads, tokens, d_head)`.
        score_bias: `score_bias(query_positions, key_positions)` gives `(heads, queries, keys)`,
            added to the scores.

    Raises:
        TypeError, ValueError: a size that is no int, or does not divide as it must.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: Callable | None = None,
        score_bias: Callable | None = None,
    ):
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        check_heads(d_model, n_heads, n_kv_heads, dropout)
        check_flag("bias", bias)
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_kv_heads
        self.d_head = d_model // n_heads
        self.dropout, self.rotary, self.score_bias = float(dropout), rotary, score_bias
        self.qkv = nn.Linear(d_model, d_model + 2 * n_kv_heads * self.d_head, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        context: Float[Tensor, "batch keys d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ):
        """Attend from x to itself, or to `context`.

        Args:
            x: (batch, queries, d_model).
            context: (batch, keys, d_model), where keys and values come from; default: x.
            mask: boolean, True = may attend, broadcastable to (batch, n_heads, queries, keys).
            causal: also forbid looking ahead; with a cache, x are the last tokens.
            cache: keys and values of earlier tokens; those of x are added to it.
            return_weights: also give the weights (batch, n_heads, queries, keys).

        Returns:
            (batch, queries, d_model), or that and the weights.
        """
        q, k, v = self._project(x, context)  # (batch, heads or n_kv_heads, tokens, d_head)
        past = cache.length if cache is not None else 0
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        if self.rotary is not None and (cache is None or context is not None):
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        elif self.rotary is not None:  # one token costs as much as its calls: one call for both
            both = self.rotary(torch.cat([q, k], dim=1), positions)
            q, k = both.split((self.n_heads, self.n_kv_heads), dim=1)
        if cache is not None:
            k, v = cache.append(k, v)

        bias = None
        if self.score_bias is not None:
            bias = self.score_bias(positions, torch.arange(k.shape[2], device=x.device))
        dropout = self.dropout if self.training else 0.0
        attend = _explicit if return_weights else _fused
        heads, weights = attend(q, k, v, mask, causal, bias, dropout)
        out = self.out(merge_heads(heads))
        return (out, weights) if return_weights else out

    def _project(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q from x, k and v from the context, split into heads."""
        _check_tokens("x", x, self)
        n_kv = self.n_kv_heads * self.d_head
        if context is None:
            q, k, v = self.qkv(x).split((self.d_model, n_kv, n_kv), dim=-1)
        else:
            _check_tokens("context", context, self)
            if context.shape[0] != x.shape[0]:
                raise ValueError(
                    f"context must have the batch of x, {x.shape[0]}. Got {context.shape[0]}."
                )
            weight, bias = self.qkv.weight, self.qkv.bias
            rows = slice(self.d_model), slice(self.d_model, None)  # q's, then those of k and v
            bias_q, bias_kv = (None, None) if bias is None else (bias[rows[0]], bias[rows[1]])
            q = F.linear(x, weight[rows[0]], bias_q)
            k, v = F.linear(context, weight[rows[1]], bias_kv).split(n_kv, dim=-1)
        return (
            split_heads(q, self.n_heads),
            split_heads(k, self.n_kv_heads),
            split_heads(v, self.n_kv_heads),
        )

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}"


def _joined(mask, causal: bool, q: Tensor, k: Tensor) -> Tensor | None:
    """The given mask and the causal one, as one."""
    shape = (*q.shape[:-1], k.shape[-2])
    if mask is not None:
        _check_mask(mask, shape)
    if not causal:
        return mask
    if k.shape[-2] < q.shape[-2]:
        raise ValueError(
            f"causal must be False where context is shorter than x: {k.shape[-2]} tokens hold no "
            f"place for {q.shape[-2]} queries."
        )
    triangle = causal_mask(q.shape[-2], k.shape[-2], device=q.device)
    return triangle if mask is None else triangle & mask


def _explicit(q, k, v, mask, causal, bias, dropout):
    """Attention spelt out: the heads' outputs and the weights."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, dim=1) if group > 1 else t for t in (k, v))
    weights = attention_weights(q, k, _joined(mask, causal, q, k), bias)
    return F.dropout(weights, dropout) @ v, weights


def _fused(q, k, v, mask, causal, bias, dropout):
    """The same by the fused kernel, which never holds the weights: outputs and None."""
    options = {"dropout_p": dropout, "enable_gqa": q.shape[1] != k.shape[1]}
    if causal and mask is None and bias is None and q.shape[-2] == k.shape[-2]:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, **options), None
    mask = _joined(mask, causal and q.shape[-2] > 1, q, k)  # one last query sees everything
    empty = None
    if mask is not None:
        # Kernels differ in what they make of a row without any key: let it see all, then drop it.
        empty = ~mask.any(dim=-1, keepdim=True)
        mask = mask | empty
    if bias is not None:
        _check_bias(bias, q.new_empty(()).expand(*q.shape[:-1], k.shape[-2]))
        bias = bias.expand(*q.shape[:-1], k.shape[-2])
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)
    return (out if empty is None else out.masked_fill(empty, 0.0)), None


# --- to and from PyTorch's module ------------------------------------------------------------


def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """Our module with a copy of the weights of PyTorch's.

    Raises:
        TypeError: `module` is no `nn.MultiheadAttention`.
        ValueError: it has options that ours has not (kdim, vdim, bias_kv, zero_attn).
    """
    if not isinstance(module, nn.MultiheadAttention):
        raise TypeError(f"module must be an nn.MultiheadAttention. Got {type(module).__name__}.")
    if module.in_proj_weight is None or module.bias_k is not None or module.add_zero_attn:
        raise ValueError("module must not use kdim, vdim, add_bias_kv or add_zero_attn.")
    bias = module.in_proj_bias is not None
    ours = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias, dropout=module.dropout)
    ours.to(module.in_proj_weight).train(module.training)
    with torch.no_grad():
        ours.qkv.weight.copy_(module.in_proj_weight)
        ours.out.weight.copy_(module.out_proj.weight)
        if bias:
            ours.qkv.bias.copy_(module.in_proj_bias)
            ours.out.bias.copy_(module.out_proj.bias)
    return ours


def to_torch(module: MultiHeadAttention) -> nn.MultiheadAttention:
    """PyTorch's module (`batch_first=True`) with a copy of the weights of ours.

    Raises:
        TypeError: `module` is no `MultiHeadAttention`.
        ValueError: there are fewer heads of keys and values, a rotary or a score bias.
    """
    if not isinstance(module, MultiHeadAttention):
        raise TypeError(f"module must be a MultiHeadAttention. Got {type(module).__name__}.")
    extras = (module.rotary, module.score_bias)
    if module.n_kv_heads != module.n_heads or any(e is not None for e in extras):
        raise ValueError(
            "nn.MultiheadAttention has neither shared heads of keys and values nor rotary or "
            f"score_bias. Got n_heads={module.n_heads}, n_kv_heads={module.n_kv_heads}, "
            f"rotary={module.rotary!r}, score_bias={module.score_bias!r}."
        )
    bias = module.qkv.bias is not None
    theirs = nn.MultiheadAttention(
        module.d_model, module.n_heads, dropout=module.dropout, bias=bias, batch_first=True
    )
    theirs.to(module.qkv.weight).train(module.training)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(module.qkv.weight)
        theirs.out_proj.weight.copy_(module.out.weight)
        if bias:
            theirs.in_proj_bias.copy_(module.qkv.bias)
            theirs.out_proj.bias.copy_(module.out.bias)
    return theirs


# --- what was given, what was expected -------------------------------------------------------


def check_heads(d_model, n_heads, n_kv_heads, dropout) -> None:
    """Raise unless the sizes of an attention go with each other."""
    sizes = {"d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads}
    for name, value in sizes.items():
        check_count(name, value)
    if d_model % n_heads:
        raise ValueError(f"n_heads must divide d_model={d_model}. Got {n_heads}.")
    if n_heads % n_kv_heads:
        raise ValueError(f"n_kv_heads must divide n_heads={n_heads}. Got {n_kv_heads}.")
    check_number("dropout", dropout, 0, 1)


def _check_tokens(name: str, x, module: MultiHeadAttention) -> None:
    d_model, weight = module.d_model, getattr(module.qkv, "weight", None)
    check_tensor(name, x, f"(batch, tokens, d_model={d_model})", axes=3)
    if x.shape[-1] != d_model:
        raise ValueError(
            f"{name} must have d_model={d_model} as its last axis. Got {tuple(x.shape)}."
        )
    if weight is None or x.dtype == weight.dtype:  # weights in int8 take any floats
        return
    if not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"{name} must be {weight.dtype} as the weights. Got {x.dtype}.")


def _check_qkv(*given) -> None:
    """Of q and k, or of q, k and v."""
    q, k, *values = given
    for name, tensor in zip("qkv", given, strict=False):
        check_floats(name, tensor, "(..., tokens, d_head)")
        if tensor.dtype != q.dtype:
            raise TypeError(f"{name} must be {q.dtype} as q is. Got {tensor.dtype}.")
        if tensor.dim() < 2 or tensor.shape[:-2] != q.shape[:-2]:
            raise ValueError(
                f"{name} must have the axes (..., tokens, d_head) with those in front as in q "
                f"{tuple(q.shape)}. Got {tuple(tensor.shape)}."
            )
    if q.shape[-1] != k.shape[-1] or q.shape[-1] == 0:
        raise ValueError(
            f"k must have the d_head of q, {q.shape[-1]}, at least 1. Got {k.shape[-1]}."
        )
    for v in values:
        if v.shape[-2] != k.shape[-2]:
            raise ValueError(
                f"v must have a token for each of k's {k.shape[-2]}. Got {v.shape[-2]}."
            )


def _check_tiles(q, tiles) -> None:
    pairs = isinstance(tiles, (list, tuple)) and all(
        isinstance(tile, (list, tuple)) and len(tile) == 2 for tile in tiles
    )
    if not pairs:
        raise TypeError(f"tiles must be a list of pairs (k, v). Got {type(tiles).__name__}.")
    if not tiles:
        raise ValueError("tiles must hold at least one pair (k, v). Got none.")
    for k, v in tiles:
        _check_qkv(q, k, v)
        if k.shape[-2] == 0:
            raise ValueError("k must have at least one token in each of the tiles. Got 0.")
        if v.shape[-1] != tiles[0][1].shape[-1]:
            raise ValueError(
                f"v must have the d_value of the first of the tiles, {tiles[0][1].shape[-1]}. "
                f"Got {v.shape[-1]}."
            )


def _check_mask(mask, shape) -> None:
    axes = ("batch", "heads", "queries", "keys")[-len(shape) :]
    wanted = f"broadcast to ({', '.join(axes)})={tuple(shape)}, True = may attend"
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a boolean tensor and {wanted}. Got {type(mask).__name__}.")
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask must be boolean and {wanted}. Got {mask.dtype} {tuple(mask.shape)}: "
            "convert_mask translates other conventions."
        )
    if not _broadcasts(mask.shape, shape):
        raise ValueError(f"mask must {wanted}. Got {tuple(mask.shape)}.")


def _check_bias(bias, scores: Tensor) -> Tensor:
    if not isinstance(bias, Tensor) or not bias.is_floating_point():
        got = bias.dtype if isinstance(bias, Tensor) else type(bias).__name__
        raise TypeError(f"bias must be a float tensor, added to the scores. Got {got}.")
    if not _broadcasts(bias.shape, scores.shape):
        raise ValueError(
            f"bias must broadcast to the scores {tuple(scores.shape)}. Got {tuple(bias.shape)}."
        )
    return bias.to(scores.dtype)


def _broadcasts(shape, target) -> bool:
    """Whether `shape` stretches to `target` without changing it."""
    if len(shape) > len(target):
        return False
    ends = zip(reversed(shape), reversed(target), strict=False)
    return all(size in (1, wanted) for size, wanted in ends)
