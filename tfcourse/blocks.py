"""The Transformer block: pre- or post-norm, with or without cross-attention (lesson 06)."""

from __future__ import annotations

import math
from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_flag, check_number
from tfcourse.attention import KVCache, MultiHeadAttention
from tfcourse.feed_forward import FeedForward
from tfcourse.norms import LayerNorm, RMSNorm

NORMS = {"layer": LayerNorm, "rms": RMSNorm}


class Block(nn.Module):
    """Attention, cross-attention where there is a context, feed-forward; each added to x.

    Pre-norm, x + f(norm(x)), keeps a path on which x is never changed (He et al., 2016; Xiong et
    al., *On Layer Normalization in the Transformer Architecture*, 2020). Post-norm, norm(x + f(x)),
    is the block of Vaswani et al., 2017. A stack of pre-norm blocks needs one last norm.

    Args:
        d_model, n_heads, n_kv_heads, rotary, score_bias: as `MultiHeadAttention` has them.
        d_ff, activation, gated: as `FeedForward` has them.
        norm: "layer" or "rms".
        norm_first: pre-norm, else post-norm.
        cross: whether it also attends to a context: a decoder's block, with three sub-layers.
        bias: whether the projections have one.
        dropout: share of every sub-layer's output put to zero in training.
        eps: of the norms.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        d_ff: int | None = None,
        *,
        norm: str = "layer",
        norm_first: bool = True,
        activation: str = "gelu",
        gated: bool = False,
        cross: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        eps: float = 1e-5,
        rotary: Callable | None = None,
        score_bias: Callable | None = None,
    ):
        super().__init__()
        check_flag("norm_first", norm_first)
        check_flag("cross", cross)
        if not isinstance(norm, str) or norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}. Got {norm!r}.")
        places = {"rotary": rotary, "score_bias": score_bias}
        self.attention = MultiHeadAttention(d_model, n_heads, n_kv_heads, bias=bias, **places)
        self.attention_norm = NORMS[norm](d_model, eps)
        self.cross_attention = self.cross_norm = None
        if cross:
            self.cross_attention = MultiHeadAttention(d_model, n_heads, n_kv_heads, bias=bias)
            self.cross_norm = NORMS[norm](d_model, eps)
        self.feed_forward = FeedForward(
            d_model, d_ff, activation=activation, gated=gated, bias=bias, dropout=dropout
        )
        self.feed_forward_norm = NORMS[norm](d_model, eps)
        self.dropout, self.norm_first = nn.Dropout(dropout), norm_first

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        context: Float[Tensor, "batch keys d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        context_mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "batch tokens d_model"]:
        """One step of the residual stream.

        Args:
            x: (batch, tokens, d_model).
            context: what a block with `cross=True` also attends to.
            mask, context_mask: boolean, True = may attend; for x and for the context.
            causal, cache: as `MultiHeadAttention` has them.

        Raises:
            TypeError, ValueError: an argument does not fit, or a context does not go with `cross`.
        """
        cross = self.cross_attention is not None
        if cross != (context is not None):
            needed = "given" if cross else "None"
            raise ValueError(f"context must be {needed} for a block with cross={cross}.")

        def attend(x):
            return self.dropout(self.attention(x, mask=mask, causal=causal, cache=cache))

        def attend_to_context(x):
            return self.dropout(self.cross_attention(x, context, mask=context_mask))

        x = self._add(x, attend, self.attention_norm)
        if cross:
            x = self._add(x, attend_to_context, self.cross_norm)
        return self._add(x, self.feed_forward, self.feed_forward_norm)

    def _add(self, x: Tensor, sublayer: Callable, norm: nn.Module) -> Tensor:
        """x and what the sub-layer makes of it, normed before or after."""
        return x + sublayer(norm(x)) if self.norm_first else norm(x + sublayer(x))


def initialise(module: nn.Module, *, layers: int, std: float = 0.02) -> None:
    """Normal weights, biases zero; projections onto the residual stream smaller by 1/√(2 · layers).

    Every layer adds to the stream twice; so the sum keeps its size, however many there are (Radford
    et al., GPT-2, 2019).

    Args:
        module: a block or a stack of them.
        layers: how many blocks the whole stack has.
        std: of the other weights.

    Raises:
        TypeError, ValueError: layers or std is of the wrong type, or not above zero.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be an nn.Module. Got {type(module).__name__}.")
    check_count("layers", layers)
    check_number("std", std, 0.0, math.inf)
    for name, part in module.named_modules():
        if isinstance(part, nn.Linear):
            onto_the_stream = name.rsplit(".", 1)[-1] in ("out", "down")
            scale = 1 / math.sqrt(2 * layers) if onto_the_stream else 1.0
            nn.init.normal_(part.weight, std=std * scale)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=std)
