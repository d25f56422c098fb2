"""How large a model is, before it is built: parameters, operations, memory (lesson 12).

Counts are exact for the models of `models.py`. A multiply and an add are two operations; only those
of matrix products are counted, as is usual. Kaplan et al., *Scaling Laws*, 2020; Hoffmann et al.,
*Training Compute-Optimal Large Language Models*, 2022.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from tfcourse.arguments import check_count, check_flag
from tfcourse.feed_forward import FeedForward
from tfcourse.models import TransformerConfig

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "int4": 0.5}


@dataclass(frozen=True)
class Parameters:
    """How many numbers a language model learns, by where they stand.

    Attributes:
        embedding: the tokens' table, and the positions', segments' and norm beside it.
        attention: q, k, v and output of all blocks.
        feed_forward: the MLPs of all blocks.
        norms: of all blocks, and the last one.
        head: 0 where it is the embedding's table.
    """

    embedding: int
    attention: int
    feed_forward: int
    norms: int
    head: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def matrices(self) -> int:
        """Those that each token is multiplied by: without the tables that it is looked up in."""
        return self.attention + self.feed_forward


def parameters(config: TransformerConfig) -> Parameters:
    """The parameters of the `LanguageModel` of a config.

    Raises:
        TypeError: config is none.
    """
    _check(config)
    d, layers, bias = config.d_model, config.layers, int(config.bias)
    norm = 2 * d if config.norm == "layer" else d  # a gain, and a shift in a layer norm
    wide = d + 2 * _kv_width(config)
    up = (2 if config.gated else 1) * d_ff(config)
    tables = config.vocabulary + config.segments
    tables += config.max_tokens if config.positions == "learned" else 0
    return Parameters(
        embedding=tables * d + (norm if config.embedding_norm else 0),
        attention=layers * ((d * wide + bias * wide) + (d * d + bias * d)),
        feed_forward=layers * ((d * up + bias * up) + (d_ff(config) * d + bias * d)),
        norms=layers * 2 * norm + (norm if config.norm_first else 0),
        head=0 if config.tied else config.vocabulary * d,
    )


def d_ff(config: TransformerConfig) -> int:
    """Width of the MLP, as `FeedForward` chooses it where the config does not say."""
    if config.d_ff is not None:
        return config.d_ff
    return FeedForward.usual_width(config.d_model, config.gated)


def _kv_width(config: TransformerConfig) -> int:
    return (config.n_kv_heads or config.n_heads) * config.d_head


# --- operations -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Operations:
    """Operations of a forward pass over one text.

    Attributes:
        matrices: products with weights, also those of the head.
        scores: q · k and weights · v, which grow with the square of the length.
    """

    matrices: int
    scores: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.matrices + self.scores


def forward_operations(config: TransformerConfig, tokens: int, past: int = 0) -> Operations:
    """What it takes to read `tokens` more of a text of which `past` stand in the cache.

    Scores are counted where a token may attend, as a fused causal kernel computes them.

    Raises:
        TypeError, ValueError: a count is none.
    """
    _check(config)
    check_count("tokens", tokens)
    check_count("past", past, least=0)
    plain = parameters(replace(config, bias=False))
    products = plain.matrices + config.vocabulary * config.d_model
    pairs = tokens * past + tokens * (tokens + 1) // 2
    return Operations(2 * products * tokens, 4 * config.layers * config.d_model * pairs)


def training_operations(config: TransformerConfig, tokens: int, length: int) -> int:
    """What it takes to learn from `tokens` in texts of `length`: back costs twice as much as forth.

    Raises:
        TypeError, ValueError: a count is none.
    """
    check_count("tokens", tokens)
    return 3 * forward_operations(config, length).total * tokens // length


# --- memory ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """Bytes, by what they are for.

    Attributes:
        weights: the parameters.
        gradients: as many numbers again.
        optimizer: AdamW's two moments in float32, and a float32 copy of weights in half precision.
        activations: what the way back needs of the way forth.
        cache: keys and values of the texts that are being written.
    """

    weights: int
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    cache: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))


def cache_bytes(
    config: TransformerConfig, tokens: int, *, batch: int = 1, precision: str = "bfloat16"
) -> int:
    """Keys and values of `batch` texts of so many tokens: 2 · layers · n_kv_heads · d_head each.

    Raises:
        TypeError, ValueError: a count or precision is none.
    """
    _check(config)
    check_count("tokens", tokens, least=0)
    check_count("batch", batch)
    return int(2 * config.layers * _kv_width(config) * tokens * batch * _size(precision))


def inference_memory(
    config: TransformerConfig,
    tokens: int,
    *,
    batch: int = 1,
    precision: str = "bfloat16",
    cache_precision: str = "bfloat16",
) -> Memory:
    """What it takes to write texts of so many tokens.

    Raises:
        TypeError, ValueError: as `cache_bytes`.
    """
    weights = int(parameters(config).total * _size(precision))
    return Memory(
        weights, cache=cache_bytes(config, tokens, batch=batch, precision=cache_precision)
    )


def training_memory(
    config: TransformerConfig,
    tokens: int,
    *,
    batch: int = 1,
    precision: str = "bfloat16",
    checkpointing: bool = False,
    shards: int = 1,
) -> Memory:
    """What it takes on each device to train with AdamW on `batch` texts of so many tokens.

    Args:
        precision: of weights, gradients and activations.
        checkpointing: keep only what enters each block, and compute the rest a second time.
        shards: devices over which weights, gradients and moments are spread (FSDP, ZeRO 3).

    Raises:
        TypeError, ValueError: an argument does not fit.
    """
    check_count("shards", shards)
    check_count("batch", batch)
    check_flag("checkpointing", checkpointing)
    count, size = parameters(config).total, _size(precision)
    if precision not in ("float32", "bfloat16", "float16"):
        raise ValueError(f"precision must be float32, bfloat16 or float16. Got {precision!r}.")
    master = 4 if size < 4 else 0
    kept = _activations(config, tokens, checkpointing) * batch
    return Memory(
        weights=int(count * size) // shards,
        gradients=int(count * size) // shards,
        optimizer=count * (8 + master) // shards,
        activations=int(kept * size),
    )


def _activations(config: TransformerConfig, tokens: int, checkpointing: bool) -> int:
    """Numbers that a fused block keeps for the way back, of one text, and the logits.

    Each product keeps what entered it; each norm what entered it; the fused attention q, k, v and
    its result; the activation what entered it, a gate both of its factors.
    """
    check_count("tokens", tokens)
    d, wide = config.d_model, d_ff(config)
    inside = 2 * d  # what entered the two norms
    inside += 2 * d  # what left them: what entered the projections
    inside += d + 2 * _kv_width(config) + d  # q, k, v, and what attention made of them
    inside += (4 if config.gated else 2) * wide
    per_token = config.layers * (d if checkpointing else inside)
    if checkpointing:
        per_token += inside  # of the one block that is computed again
    return tokens * (per_token + 2 * d + 2 * config.vocabulary)


def _size(precision: str) -> float:
    if precision not in BYTES:
        raise ValueError(f"precision must be one of {', '.join(BYTES)}. Got {precision!r}.")
    return BYTES[precision]


def _check(config) -> None:
    if not isinstance(config, TransformerConfig):
        raise TypeError(f"config must be a TransformerConfig. Got {type(config).__name__}.")
