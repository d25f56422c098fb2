"""How large a model is, before it is built: parameters, operations, memory (lesson 12).

Counts are exact for the models of `models.py`. A multiply and an add are two operations; only those
of matrix products are counted, as is usual. Kaplan et al., *Scaling Laws*, 2020; Hoffmann et al.,
*Training Compute-Optimal Large Language Models*, 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from tfcourse.arguments import check_count, check_flag
from tfcourse.attention import check_heads
from tfcourse.feed_forward import FeedForward
from tfcourse.models import TransformerConfig, check_config

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
        TypeError, ValueError: config is none, or no model can have its sizes.
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
    """What it takes to learn from `tokens` in texts of `length`: backward costs twice as much.

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
        activations: what the backward pass needs of the forward pass.
        loss: what comes on top at the fullest moment: the gradients at the logits.
        cache: keys and values of the texts that are being written.
    """

    weights: int
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    loss: int = 0
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
    shards: int = 1,
) -> Memory:
    """What it takes on each device to write `batch` texts of so many tokens.

    Args:
        shards: devices over which weights and cache are spread, by layers or by heads.

    Raises:
        TypeError, ValueError: as `cache_bytes`; shards is no count.
    """
    check_count("shards", shards)
    weights = int(parameters(config).total * _size(precision))
    cache = cache_bytes(config, tokens, batch=batch, precision=cache_precision)
    return Memory(weights // shards, cache=cache // shards)


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
    count, size = parameters(config).total, int(_size(precision))
    if precision not in ("float32", "bfloat16", "float16"):
        raise ValueError(f"precision must be float32, bfloat16 or float16. Got {precision!r}.")
    master = 4 if size < 4 else 0
    kept, loss = _activations(config, tokens, checkpointing, size)
    return Memory(
        weights=count * size // shards,
        gradients=count * size // shards,
        optimizer=count * (8 + master) // shards,
        activations=batch * kept,
        loss=batch * loss,
    )


def _activations(
    config: TransformerConfig, tokens: int, checkpointing: bool, size: int
) -> tuple[int, int]:
    """Bytes that a `LanguageModel` and its cross-entropy keep of one text; and the loss's own.

    Each tensor once: what enters a product, a norm, an activation, a gate; q, k, v and what
    attention makes of them; the log-softmax of the logits. Checkpointing keeps what enters each
    block, and all of the one block that is computed again.

    Not counted is what d_model does not make larger: the tokens, statistics of the norms and of
    the softmax, the angles of rotary positions (once for a whole batch). All that is kept was
    measured to be 1.00 to 1.02 times this (on a CPU, d_model from 64 to 256), of a single text
    with rotary positions up to 1.06 times.

    The second number is for the moment when the backward pass begins. The gradients at the
    log-softmax and at the logits are then there beside it, each as large. Of checkpointing's one
    block nothing is there yet. The most that a step held at once was measured to be 1.00 to 1.01
    times both numbers together, with small and large vocabularies; with checkpointing, of models
    of 6 layers, 0.86 to 1.12 times.
    """
    check_count("tokens", tokens)
    d, kv, rotary = config.d_model, _kv_width(config), config.positions == "rotary"
    alibi, dropped = config.positions == "alibi", d if config.dropout else 0
    norm = d * size if config.norm == "layer" else 2 * d * max(size, 4)  # no kernel: two steps
    attention = d + (d + 2 * kv) + d  # what enters, q k v in one tensor, the result
    if rotary:
        attention += d + kv  # turned q and k; v still holds the tensor of all three
    if alibi or (rotary and config.rotary_layout == "interleaved"):
        attention += d  # the result once more, with the heads of each token side by side
    if alibi:
        attention += config.n_heads * tokens  # added to the scores
    # A plain activation and a gate need what enters them; relu can do with what it gave.
    hidden = ((4 if config.gated else 2) - (config.activation == "relu")) * d_ff(config)
    block = 2 * norm + (attention + d + hidden + 2 * dropped) * size
    blocks = config.layers * d * size + block if checkpointing else config.layers * block
    ends = norm * (config.norm_first + config.embedding_norm)
    kept = blocks + ends + (dropped + d + config.vocabulary) * size
    loss = max(0, 2 * config.vocabulary * size - (block if checkpointing else 0))
    return tokens * kept, tokens * loss


MOST_DEVICES = 65_536


def fewest_devices(memory: Callable[[int], Memory], room: int) -> int | None:
    """On how many devices, at least, there is room for a model.

    Args:
        memory: what each of so many devices has to hold:
            `lambda devices: training_memory(config, 2048, shards=devices)`.
        room: bytes of a device.

    Returns:
        None where even 65 536 would not do: activations are not spread.

    Raises:
        TypeError, ValueError: room is no count of bytes.
    """
    check_count("room", room)
    few, many = 1, MOST_DEVICES
    if memory(many).total > room:
        return None
    while few < many:
        middle = (few + many) // 2
        few, many = (few, middle) if memory(middle).total <= room else (middle + 1, many)
    return few


def _size(precision: str) -> float:
    if precision not in BYTES:
        raise ValueError(f"precision must be one of {', '.join(BYTES)}. Got {precision!r}.")
    return BYTES[precision]


def _check(config) -> None:
    """Sizes that no model can have would give numbers that look like any other."""
    check_config(config)
    kv_heads = config.n_heads if config.n_kv_heads is None else config.n_kv_heads
    check_heads(config.d_model, config.n_heads, kv_heads, config.dropout)
    check_count("d_ff", d_ff(config))
