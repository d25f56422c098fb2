"""Whole models: language model, encoder, encoder–decoder, of one config (lessons 07 to 10)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_flag, check_number, check_tensor
from tfcourse.attention import KVCache
from tfcourse.blocks import NORMS, Block
from tfcourse.positions import ALiBi, LearnedPositions, Rotary, new_table, sinusoidal_encoding

POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi")


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes and choices that make a model a GPT-2, a Llama, a BERT or the one of 2017.

    Args:
        vocabulary: how many different tokens there are.
        d_model, n_heads, layers: width of a token, heads of a block, blocks (of each stack).
        positions: none, sinusoidal, learned, rotary or alibi.
        max_tokens: length of the learned table; needed there. Elsewhere it is only written down.
        n_kv_heads: heads of keys and values; default: n_heads.
        d_ff: width of the MLP; default: as `FeedForward` has it.
        norm: "layer" or "rms".
        norm_first: pre-norm (then each stack ends with a norm), else post-norm.
        activation, gated, bias, dropout: as `Block` has them; dropout also after the embedding.
        eps: of the norms.
        rotary_base, rotary_layout: as `Rotary` has them.
        tied: whether the output head is the embedding's table (and the translator's two embeddings
            are one).
        scale: what token and position are multiplied by together, before the first block. By
            default √d_model with sinusoidal positions, as in 2017, and 1 with all others.
        segments: how many kinds of segment BERT adds a vector for; 0: none.
        embedding_norm: whether a norm follows the embedding, as in BERT.

    Raises:
        TypeError, ValueError: a value is of the wrong type, out of range, or does not go with
            another.
    """

    vocabulary: int
    d_model: int
    n_heads: int
    layers: int
    _: KW_ONLY
    positions: str = "rotary"
    max_tokens: int | None = None
    n_kv_heads: int | None = None
    d_ff: int | None = None
    norm: str = "layer"
    norm_first: bool = True
    activation: str = "gelu"
    gated: bool = False
    bias: bool = True
    dropout: float = 0.0
    eps: float = 1e-5
    rotary_base: float = 10_000.0
    rotary_layout: str = "interleaved"
    tied: bool = False
    scale: float | None = None
    segments: int = 0
    embedding_norm: bool = False

    def __post_init__(self):
        for name in ("vocabulary", "d_model", "n_heads", "layers"):
            check_count(name, getattr(self, name))
        check_count("segments", self.segments, least=0)
        for name in ("norm_first", "gated", "bias", "tied", "embedding_norm"):
            check_flag(name, getattr(self, name))
        for name, known in (("positions", POSITIONS), ("norm", tuple(NORMS))):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}. Got {value!r}.")
        if self.positions == "learned" or self.max_tokens is not None:
            check_count("max_tokens", self.max_tokens)
        check_number("dropout", self.dropout, 0.0, 1.0)
        if self.scale is not None:
            check_number("scale", self.scale, 0.0, math.inf)

    @property
    def d_head(self) -> int:
        """Width of a head."""
        return self.d_model // self.n_heads

    def block(self, kind: Callable[..., nn.Module] = Block, **options) -> nn.Module:
        """A block of these sizes; `options` go to `kind` beside them (`cross=True`, say)."""
        if self.positions == "rotary":
            options["rotary"] = Rotary(self.d_head, self.rotary_base, self.rotary_layout)
        elif self.positions == "alibi":
            options["score_bias"] = ALiBi(self.n_heads)
        return kind(
            self.d_model, self.n_heads, self.n_kv_heads, self.d_ff,
            norm=self.norm, norm_first=self.norm_first, activation=self.activation,
            gated=self.gated, bias=self.bias, dropout=self.dropout, eps=self.eps, **options,
        )  # fmt: skip

    def last_norm(self) -> nn.Module:
        """What stands behind the last block: a pre-norm stack needs a norm there."""
        return self.new_norm() if self.norm_first else nn.Identity()

    def new_norm(self) -> nn.Module:
        """A norm of these sizes."""
        return NORMS[self.norm](self.d_model, self.eps)


MakesBlock = Callable[[TransformerConfig], nn.Module]


class Embedding(nn.Module):
    """Tokens as vectors, with their positions where those are added (lesson 03).

    Args:
        config: of the model.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.tokens = new_table(config.vocabulary, config.d_model)
        self.positions = (
            LearnedPositions(config.max_tokens, config.d_model)
            if config.positions == "learned"
            else None
        )
        self.segments = new_table(config.segments, config.d_model) if config.segments else None
        self.norm = (
            NORMS[config.norm](config.d_model, config.eps) if config.embedding_norm else None
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        tokens: Int[Tensor, "batch tokens"],
        *,
        start: int = 0,
        padding: Int[Tensor, " batch"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
    ) -> Float[Tensor, "batch tokens d_model"]:
        """The tokens' vectors.

        Args:
            tokens: (batch, tokens), from 0 up to, not including, the vocabulary.
            start: the position of the first of them.
            padding: how many fillers stand in front of each text; positions count from behind them.
            segments: which segment each token is of; default: all of the first.

        Raises:
            TypeError: tokens is no tensor of whole numbers.
            ValueError: it has not two axes, holds a number that is no token, or is longer than the
                learned table.
        """
        check_tensor("tokens", tokens, "(batch, tokens)", axes=2)
        if tokens.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"tokens must hold whole numbers (torch.long). Got {tokens.dtype}.")
        if not tokens.is_meta and tokens.numel():
            low, high = tokens.min().item(), tokens.max().item()
            if low < 0 or high >= self.config.vocabulary:
                raise ValueError(
                    "tokens must be from 0 to the last of the vocabulary, "
                    f"{self.config.vocabulary - 1}. Got {low if low < 0 else high}."
                )
        x = self.tokens(tokens)
        added = self._positions(start + tokens.shape[1], x)
        if added is not None:
            places = torch.arange(start, len(added), device=x.device)
            if padding is not None:
                places = (places - padding[:, None]).clamp(min=0)
            x = x + added[places]
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        config = self.config
        scale = config.scale
        if scale is None:
            scale = math.sqrt(config.d_model) if config.positions == "sinusoidal" else 1.0
        x = x * scale if scale != 1 else x
        return self.dropout(x if self.norm is None else self.norm(x))

    def _positions(self, length: int, like: Tensor) -> Tensor | None:
        """What is added at positions 0 to length - 1; None where nothing is."""
        if self.positions is not None:
            return self.positions(length)
        if self.config.positions != "sinusoidal":
            return None
        # as small as small embeddings are; √d_model brings both to full size (lesson 03)
        waves = sinusoidal_encoding(length, self.config.d_model).to(like)
        return waves / math.sqrt(self.config.d_model)

    @torch.no_grad()
    def small(self) -> None:
        """Vectors with a variance of 1/d_model, those of positions as small as those of tokens."""
        tables = [self.tokens, *([] if self.positions is None else [self.positions.table])]
        for table in tables:
            if not table.weight.is_meta:
                table.weight.normal_(std=self.config.d_model**-0.5)


class LanguageModel(nn.Module):
    """Tokens in, logits of the next token out: embedding, causal blocks, last norm, head.

    A decoder-only model: GPT-2 (Radford et al., 2019), Llama (Touvron et al., 2023). Checked
    against Hugging Face's GPT-2 and Llama.

    Args:
        config: its sizes and choices.
        block: makes a block of the config. It is called `block(x, causal=True)`, with `cache=` or
            `mask=` beside it only where `forward` is given caches or padding.

    Raises:
        TypeError: config is no `TransformerConfig`.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        block: MakesBlock = TransformerConfig.block,
    ):
        super().__init__()
        check_config(config)
        self.config = config
        self.embed = Embedding(config)
        self.blocks = nn.ModuleList(block(config) for _ in range(config.layers))
        self.norm = config.last_norm()
        self.head = nn.Linear(config.d_model, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.embed.tokens.weight

    def forward(
        self,
        tokens: Int[Tensor, "batch tokens"],
        *,
        caches: Sequence[KVCache] | None = None,
        padding: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch tokens vocabulary"]:
        """Logits of the token that follows each token.

        Args:
            tokens: (batch, tokens).
            caches: one for each block, as `new_caches` makes them; then `tokens` follow those that
                the caches hold, and are added to them.
            padding: how many fillers stand in front of each text, where a batch holds texts of
                unequal length; nothing attends to them.

        Raises:
            TypeError, ValueError: as `Embedding`; there are not as many caches as blocks.
        """
        if caches is not None and len(caches) != len(self.blocks):
            raise ValueError(f"caches must be {len(self.blocks)}, one a block. Got {len(caches)}.")
        past = caches[0].length if caches else 0
        x = self.embed(tokens, start=past, padding=padding)
        options = {}
        if padding is not None:
            keys = torch.arange(past + tokens.shape[1], device=tokens.device)
            options["mask"] = (keys >= padding[:, None])[:, None, None]  # (batch, 1, 1, keys)
        for i, block in enumerate(self.blocks):
            if caches is not None:
                options["cache"] = caches[i]
            x = block(x, causal=True, **options)
        return self.head(self.norm(x))

    def new_caches(self) -> list[KVCache]:
        """An empty cache for each block."""
        return [KVCache() for _ in self.blocks]

    def small_embeddings(self) -> LanguageModel:
        """Embeddings with a variance of 1/d_model; the model itself comes back."""
        self.embed.small()
        return self


class Encoder(nn.Module):
    """Tokens in, a vector for each out, each of which has seen all: BERT, or half a translator.

    Devlin et al., *BERT*, 2018. Checked against Hugging Face's BERT.

    Args:
        config: its sizes and choices.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        check_config(config)
        self.config = config
        self.embed = Embedding(config)
        self.blocks = nn.ModuleList(config.block() for _ in range(config.layers))
        self.norm = config.last_norm()

    def forward(
        self,
        tokens: Int[Tensor, "batch tokens"],
        mask: Bool[Tensor, "..."] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
    ) -> Float[Tensor, "batch tokens d_model"]:
        """The tokens' vectors behind the last block.

        Args:
            tokens: (batch, tokens).
            mask: boolean, True = may attend, broadcastable to (batch, n_heads, tokens, tokens).
            segments: as `Embedding` has them.

        Raises:
            TypeError, ValueError: as `Embedding` and `Block`.
        """
        x = self.embed(tokens, segments=segments)
        for block in self.blocks:
            x = block(x, mask=mask)
        return self.norm(x)


class Transformer(nn.Module):
    """The model of 2017: an encoder reads, a decoder that attends to it writes.

    Vaswani et al., *Attention Is All You Need*, 2017. Checked against `nn.Transformer`.

    Args:
        config: of both stacks; `tied` makes one table of both embeddings and the head.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.encoder = Encoder(config)
        self.config = config
        self.embed = Embedding(config)
        self.blocks = nn.ModuleList(config.block(cross=True) for _ in range(config.layers))
        self.norm = config.last_norm()
        self.head = nn.Linear(config.d_model, config.vocabulary, bias=False)
        if config.tied:
            self.embed.tokens.weight = self.encoder.embed.tokens.weight
            self.head.weight = self.encoder.embed.tokens.weight

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of the token that follows each token of `target`.

        Args:
            source: what is read, (batch, source).
            target: what has been written so far, (batch, target).
            source_mask: boolean, True = may attend, broadcastable to
                (batch, n_heads, target, source): `padding_mask` of the sources' lengths.

        Raises:
            TypeError, ValueError: as `Embedding` and `Block`.
        """
        return self.write(target, self.encoder(source, source_mask), source_mask)

    def write(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Bool[Tensor, "..."] | None = None,
        *,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """The decoder alone, for a source that has been read: `memory = model.encoder(source)`.

        Raises:
            TypeError, ValueError: as `forward`.
        """
        x = self.embed(target, start=caches[0].length if caches else 0)
        for i, block in enumerate(self.blocks):
            cache = caches[i] if caches is not None else None
            x = block(x, memory, causal=True, context_mask=source_mask, cache=cache)
        return self.head(self.norm(x))

    def new_caches(self) -> list[KVCache]:
        """An empty cache for each of the decoder's blocks."""
        return [KVCache() for _ in self.blocks]


def check_config(config) -> None:
    """Raise unless `config` is a `TransformerConfig`."""
    if not isinstance(config, TransformerConfig):
        raise TypeError(f"config must be a TransformerConfig. Got {type(config).__name__}.")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, and the mode in which the model was behind it."""
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


def count_parameters(model: nn.Module) -> int:
    """How many numbers a model learns; a table that is used twice counts once."""
    return sum(p.numel() for p in model.parameters())


# The sizes in print. Where a model is not built here (its weights are another course's affair),
# `with torch.device("meta"): LanguageModel(PRESETS["gpt2"])` counts it without memory.
_GPT2 = {
    "vocabulary": 50_257, "positions": "learned", "max_tokens": 1024,
    "activation": "gelu_tanh", "tied": True,
}  # fmt: skip
_LLAMA = {
    "norm": "rms", "activation": "silu", "gated": True, "bias": False,
    "rotary_layout": "split-half",
}  # fmt: skip

PRESETS = {
    "transformer-base": TransformerConfig(
        37_000, 512, 8, 6, d_ff=2048, positions="sinusoidal", norm_first=False,
        activation="relu", dropout=0.1, tied=True,
    ),
    "transformer-big": TransformerConfig(
        37_000, 1024, 16, 6, d_ff=4096, positions="sinusoidal", norm_first=False,
        activation="relu", dropout=0.3, tied=True,
    ),
    "bert-base": TransformerConfig(
        30_522, 768, 12, 12, positions="learned", max_tokens=512, norm_first=False,
        dropout=0.1, eps=1e-12, tied=True, segments=2, embedding_norm=True,
    ),
    "gpt2": TransformerConfig(d_model=768, n_heads=12, layers=12, **_GPT2),
    "gpt2-medium": TransformerConfig(d_model=1024, n_heads=16, layers=24, **_GPT2),
    "gpt2-large": TransformerConfig(d_model=1280, n_heads=20, layers=36, **_GPT2),
    "gpt2-xl": TransformerConfig(d_model=1600, n_heads=25, layers=48, **_GPT2),
    "gpt3": TransformerConfig(
        d_model=12_288, n_heads=96, layers=96, **_GPT2 | {"max_tokens": 2048}
    ),
    "llama-7b": TransformerConfig(
        32_000, 4096, 32, 32, d_ff=11_008, eps=1e-6, max_tokens=2048, **_LLAMA
    ),
    "llama-3-8b": TransformerConfig(
        128_256, 4096, 32, 32, n_kv_heads=8, d_ff=14_336, rotary_base=500_000.0,
        max_tokens=8192, **_LLAMA,
    ),
    "phi-3-mini": TransformerConfig(
        32_064, 3072, 32, 32, d_ff=8192, max_tokens=4096, **_LLAMA
    ),
    "smollm2-135m": TransformerConfig(
        49_152, 576, 9, 30, n_kv_heads=3, d_ff=1536, rotary_base=100_000.0,
        max_tokens=8192, tied=True, **_LLAMA,
    ),
}  # fmt: skip
