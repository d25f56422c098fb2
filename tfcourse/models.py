"""Whole models, built of the blocks (lessons 07 to 09; small ones serve the experiments before)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_number, check_tensor
from tfcourse.blocks import NORMS, Block
from tfcourse.positions import ALiBi, LearnedPositions, Rotary, sinusoidal_encoding

POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi")


class LanguageModel(nn.Module):
    """Tokens in, scores of the next token out: embedding, causal blocks, head.

    Args:
        vocabulary: how many different tokens there are.
        d_model, n_heads, layers: as the blocks have them, and how many.
        positions: none, sinusoidal, learned, rotary or alibi.
        max_tokens: length of the learned table; needed there, ignored elsewhere.
        scale: what token and position are multiplied by together, before the first block. By
            default √d_model with sinusoidal positions, as in 2017, and 1 with all others.
        block: makes a block; by default `Block`.
        norm, norm_first, **options: handed to every block. Pre-norm blocks get the one last norm
            that they need.

    Raises:
        TypeError, ValueError: an argument does not fit, named by the part that it goes to.
    """

    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        n_heads: int,
        layers: int,
        *,
        positions: str = "rotary",
        max_tokens: int | None = None,
        scale: float | None = None,
        block: Callable[..., nn.Module] = Block,
        norm: str = "layer",
        norm_first: bool = True,
        **options,
    ):
        super().__init__()
        sizes = {"vocabulary": vocabulary, "d_model": d_model, "n_heads": n_heads, "layers": layers}
        for name, size in sizes.items():
            check_count(name, size)
        if not isinstance(positions, str) or positions not in POSITIONS:
            raise ValueError(f"positions must be one of {', '.join(POSITIONS)}. Got {positions!r}.")
        self.positions, self.d_model = positions, d_model
        if scale is None:
            scale = math.sqrt(d_model) if positions == "sinusoidal" else 1.0
        check_number("scale", scale, 0.0, math.inf)
        self.scale = scale
        if positions == "rotary":
            options["rotary"] = Rotary(d_model // n_heads)
        elif positions == "alibi":
            options["score_bias"] = ALiBi(n_heads)
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.table = LearnedPositions(max_tokens, d_model) if positions == "learned" else None
        self.blocks = nn.ModuleList(
            block(d_model, n_heads, norm=norm, norm_first=norm_first, **options)
            for _ in range(layers)
        )
        self.norm = NORMS[norm](d_model) if norm_first else nn.Identity()
        self.head = nn.Linear(d_model, vocabulary, bias=False)

    def forward(self, tokens: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens vocab"]:
        """Scores (logits) of the token that follows each token.

        Raises:
            TypeError: tokens is no tensor of whole numbers.
            ValueError: it has not two axes, or is longer than the learned table.
        """
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(self.norm(x))

    def embed(self, tokens: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens d_model"]:
        """The tokens' vectors, with their positions where those are added here."""
        check_tensor("tokens", tokens, "(batch, tokens)", axes=2)
        if tokens.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"tokens must hold whole numbers (torch.long). Got {tokens.dtype}.")
        x, length = self.embedding(tokens), tokens.shape[-1]
        if self.table is not None:
            x = x + self.table(length)
        elif self.positions == "sinusoidal":
            # as small as small embeddings are; √d_model brings both to full size (lesson 03)
            waves = sinusoidal_encoding(length, self.d_model).to(x)
            x = x + waves / math.sqrt(self.d_model)
        return x * self.scale if self.scale != 1 else x

    @torch.no_grad()
    def small_embeddings(self) -> LanguageModel:
        """Embeddings with a variance of 1/d_model, tables of positions as small as they."""
        self.embedding.weight.normal_(std=self.d_model**-0.5)
        if self.table is not None:
            self.table.table.weight.normal_(std=self.d_model**-0.5)
        return self
