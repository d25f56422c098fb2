"""Positions: sinusoidal, learned, rotary, ALiBi (lesson 03).

The first two are added to the tokens' embeddings. Rotary turns queries and keys, ALiBi adds to the
scores: `MultiHeadAttention` has a place for each, `rotary=` and `score_bias=`.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_floats

LAYOUTS = ("interleaved", "split-half")
STRETCHED_BY = ("positions", "base")


def sinusoidal_encoding(
    tokens: int, d_model: int, base: float = 10000.0
) -> Float[Tensor, "tokens d_model"]:
    """Sines and cosines of each position, from fast (first pair) to slow (last pair).

    PE(pos, 2i) = sin(pos / base^(2i / d_model)), PE(pos, 2i + 1) = cos of the same (Vaswani et al.,
    *Attention Is All You Need*, 2017, section 3.5).

    Args:
        tokens: how many positions, at least 1.
        d_model: numbers in each, even.
        base: the slowest pair turns once in about 2π · base positions.

    Raises:
        TypeError: a size is no int, or base no number.
        ValueError: d_model is odd, or a value is out of range.
    """
    check_count("tokens", tokens)
    frequencies = _frequencies("d_model", d_model, base)  # (d_model / 2,)
    angles = torch.arange(tokens)[:, None] * frequencies  # (tokens, d_model / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)  # sin, cos, sin, cos, …


def new_table(rows: int, d_model: int) -> nn.Embedding:
    """A table of vectors with numbers from N(0, 1), as `nn.Embedding` makes it.

    On the device `meta` it draws none: there PyTorch would import for seconds what draws them.

    Raises:
        TypeError, ValueError: rows or d_model is no positive whole number.
    """
    check_count("rows", rows)
    check_count("d_model", d_model)
    table = nn.Embedding.from_pretrained(torch.empty(rows, d_model), freeze=False)
    if not table.weight.is_meta:
        table.reset_parameters()
    return table


class LearnedPositions(nn.Module):
    """A learned vector for each position up to `max_tokens`; GPT-2 and BERT have one.

    Args:
        max_tokens: how many positions there are; a longer sequence cannot be told apart.
        d_model: width of a token.
    """

    def __init__(self, max_tokens: int, d_model: int):
        super().__init__()
        check_count("max_tokens", max_tokens)
        self.table = new_table(max_tokens, d_model)

    def forward(self, tokens: int, start: int = 0) -> Float[Tensor, "tokens d_model"]:
        """The vectors of positions `start` to `start + tokens - 1`.

        Raises:
            TypeError: tokens or start is no int.
            ValueError: the positions end beyond the table.
        """
        check_count("tokens", tokens)
        check_count("start", start, least=0)
        if start + tokens > self.table.num_embeddings:
            raise ValueError(
                f"tokens must end within the learned table of {self.table.num_embeddings} "
                f"positions. Got positions {start} to {start + tokens - 1}: make max_tokens larger "
                "or cut the sequence."
            )
        return self.table.weight[start : start + tokens]


class Rotary(nn.Module):
    """RoPE: turns each pair of numbers of a query or key by an angle that grows with the position.

    The score of a turned query with a turned key depends on the distance of their positions alone
    (Su et al., *RoFormer*, 2021). Checked against Hugging Face's Llama (split-half).

    Args:
        d_head: numbers of a query, even.
        base: 10000 in the paper; larger for long contexts.
        layout: which numbers make a pair: "interleaved" (2i, 2i + 1), as in the paper, or
            "split-half" (i, i + d_head / 2), as in Hugging Face's Llama. The two are equal up to a
            permutation of the numbers: see `convert_rotary`.
    """

    def __init__(self, d_head: int, base: float = 10000.0, layout: str = "interleaved"):
        super().__init__()
        _check_layout("layout", layout)
        self.layout = layout
        self.register_buffer("frequencies", _frequencies("d_head", d_head, base), persistent=False)

    def forward(
        self, x: Float[Tensor, "... tokens d_head"], positions: Int[Tensor, " tokens"]
    ) -> Float[Tensor, "... tokens d_head"]:
        """Turn x, (batch, heads, tokens, d_head), each token by its own position.

        Raises:
            TypeError: x or positions is no tensor, or x holds no floats.
            ValueError: their shapes do not fit.
        """
        d_head = 2 * len(self.frequencies)
        if not isinstance(x, Tensor) or not isinstance(positions, Tensor):
            raise TypeError(
                f"x and positions must be tensors. Got {type(x).__name__} and "
                f"{type(positions).__name__}."
            )
        check_floats("x", x)
        if x.dim() < 2 or x.shape[-1] != d_head or positions.shape != x.shape[-2:-1]:
            raise ValueError(
                f"x must be (…, tokens, d_head={d_head}) and positions (tokens,). Got "
                f"{tuple(x.shape)} and {tuple(positions.shape)}."
            )
        angles = positions[:, None] * self.frequencies  # (tokens, d_head / 2)
        turn = _turn_neighbours if self.layout == "interleaved" else _turn_halves
        return turn(x, angles)


def _turn_neighbours(x: Tensor, angles: Tensor) -> Tensor:
    """Numbers 2i and 2i + 1 as one complex number, times cos + i · sin: one pass over x."""
    wide = torch.promote_types(x.dtype, torch.float32)  # there is no shorter complex number
    turn = torch.polar(torch.ones_like(angles, dtype=wide), angles.to(wide))
    pairs = torch.view_as_complex(x.to(wide).contiguous().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)


def _turn_halves(x: Tensor, angles: Tensor) -> Tensor:
    """Numbers i and i + d_head / 2: (a, b) becomes (a cos - b sin, b cos + a sin)."""
    angles = torch.cat([-angles, angles], dim=-1)  # one cosine for both, sines of either sign
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    swapped = x.roll(x.shape[-1] // 2, dims=-1)  # (b, a)
    return torch.addcmul(x * cos, swapped, sin)


def stretched_angles(
    tokens: int, d_head: int, trained: int, base: float = 10000.0, by: str = "positions"
) -> Float[Tensor, "tokens half"]:
    """The angles of rotary positions, slowed down where a text is longer than those of training.

    With s = tokens / trained: "positions" divides every position by s (Chen et al., *Extending
    Context Window of Large Language Models via Positional Interpolation*, 2023); "base" multiplies
    the base by s^(d_head / (d_head - 2)), so that the slowest pair is s times as slow and the
    fastest keeps its speed (bloc97, *NTK-Aware Scaled RoPE*, 2023). Checked against Hugging Face's
    Llama ("linear" and "dynamic").

    Args:
        tokens: how many positions, at least 1.
        d_head: numbers of a query, even, at least 4.
        trained: tokens of the longest text in training; up to there nothing is changed.
        base: as in `Rotary`.
        by: what is changed, "positions" or "base".

    Returns:
        (tokens, d_head / 2), one angle for each position and pair.

    Raises:
        TypeError: a size is no int, or base no number.
        ValueError: d_head is odd or 2, there is no such way, or a value is out of range.
    """
    check_count("tokens", tokens)
    check_count("trained", trained)
    check_count("d_head", d_head, least=4)
    _frequencies("d_head", d_head, base)  # raises where they do not fit
    if by not in STRETCHED_BY:
        raise ValueError(f"by must be one of {', '.join(STRETCHED_BY)}. Got {by!r}.")
    positions = torch.arange(tokens)
    longer = max(tokens / trained, 1.0)
    if by == "positions":
        positions = positions / longer
    else:
        base = base * longer ** (d_head / (d_head - 2))
    return positions[:, None] * _frequencies("d_head", d_head, base)


def convert_rotary(
    x: Float[Tensor, "... d_head"], source: str, target: str
) -> Float[Tensor, "... d_head"]:
    """Reorder the last axis, one head's numbers, from one layout of pairs to the other.

    To move a model's weights, apply it to the rows of its query and key projections, head by head
    (`weight.unflatten(0, (heads, d_head)).mT`, and back).

    Raises:
        TypeError: x is no tensor.
        ValueError: no such layout, or an odd number of numbers.
    """
    _check_layout("source", source)
    _check_layout("target", target)
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor (…, d_head). Got {type(x).__name__}.")
    if x.dim() < 1 or x.shape[-1] % 2 or x.shape[-1] == 0:
        raise ValueError(f"x must have an even number of numbers last. Got {tuple(x.shape)}.")
    if source == target:
        return x
    pairs = (-1, 2) if source == "interleaved" else (2, -1)
    return x.unflatten(-1, pairs).transpose(-1, -2).flatten(-2)


class ALiBi(nn.Module):
    """A penalty on the score that grows with the distance, faster in some heads than in others.

    The slopes are 2^(-8/n), 2^(-16/n), … for n heads (Press et al., *Train Short, Test Long*,
    2021); where n is no power of two, the paper's own code takes the missing ones from 2n heads.

    Args:
        n_heads: how many heads, at least 1.
    """

    def __init__(self, n_heads: int):
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    def forward(
        self, query_positions: Int[Tensor, " queries"], key_positions: Int[Tensor, " keys"]
    ) -> Float[Tensor, "heads queries keys"]:
        """-slope · distance for every head, query and key.

        Raises:
            TypeError: the positions are no tensors.
            ValueError: they have not one axis.
        """
        given = {"query_positions": query_positions, "key_positions": key_positions}
        for name, positions in given.items():
            if not isinstance(positions, Tensor):
                raise TypeError(f"{name} must be a tensor. Got {type(positions).__name__}.")
            if positions.dim() != 1:
                raise ValueError(f"{name} must have one axis. Got {tuple(positions.shape)}.")
        distance = (query_positions[:, None] - key_positions).abs()  # (queries, keys)
        return -self.slopes[:, None, None] * distance


def alibi_slopes(n_heads: int) -> Float[Tensor, " heads"]:
    """The slope of every head, as `ALiBi` has them.

    Raises:
        TypeError: n_heads is no int.
        ValueError: it is below 1.
    """
    check_count("n_heads", n_heads)
    whole = 2 ** math.floor(math.log2(n_heads))  # the power of two below or at n_heads
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    between = [2 ** (-4 * (i + 1) / whole) for i in range(0, 2 * whole, 2)]
    return torch.tensor(slopes + between[: n_heads - whole])


def _frequencies(name: str, size: int, base: float) -> Float[Tensor, " half"]:
    """1, base^(-2/size), base^(-4/size), …: one for each pair of numbers."""
    check_count(name, size)
    if size % 2:
        raise ValueError(f"{name} must be even: the numbers turn in pairs. Got {size}.")
    if not isinstance(base, (int, float)) or isinstance(base, bool):
        raise TypeError(f"base must be a number. Got {base!r}.")
    if not 1 < base < math.inf:
        raise ValueError(f"base must be greater than 1. Got {base}.")
    # Not counted on `meta` itself: there PyTorch would import for seconds what could.
    powers = -torch.arange(0, size, 2, device="cpu") / size
    return (base**powers).to(torch.get_default_device())


def _check_layout(name: str, layout) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"{name} must be one of {', '.join(LAYOUTS)}. Got {layout!r}.")
