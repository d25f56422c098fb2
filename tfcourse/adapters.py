"""LoRA: a published model learns something new through small matrices beside its own (lesson 11).

Hu et al., *LoRA: Low-Rank Adaptation of Large Language Models*, 2021. A frozen matrix W of
(d_out, d_in) gets a product B A of rank r beside it: r · (d_in + d_out) numbers learn in place of
d_in · d_out. Merged into W, it costs nothing when the model is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_floats, check_last_axis, check_number


def lora(
    x: Float[Tensor, "... d_in"],
    weight: Float[Tensor, "d_out d_in"],
    a: Float[Tensor, "rank d_in"],
    b: Float[Tensor, "d_out rank"],
    alpha: float,
) -> Float[Tensor, "... d_out"]:
    """x Wᵀ + (alpha / rank) · x Aᵀ Bᵀ. No gradient reaches W, and B A is never built.

    Args:
        x: (batch, tokens, d_in), or any axes in front of d_in.
        weight: W, as `nn.Linear` stores it.
        a, b: the small matrices, (rank, d_in) and (d_out, rank).
        alpha: how much they count, whatever the rank.

    Raises:
        TypeError: a tensor holds no floats, or alpha is no number.
        ValueError: shapes do not fit.
    """
    check_number("alpha", alpha, 0.0, math.inf)
    _check_matrices(weight, a, b)
    check_last_axis("x", x, weight.shape[1], "d_in")
    small = F.linear(F.linear(x, a), b)  # (batch, tokens, rank) -> (batch, tokens, d_out)
    return F.linear(x, weight.detach()) + alpha / len(a) * small


class LoRALinear(nn.Module):
    """An `nn.Linear` that is frozen, with the two small matrices that learn in its place.

    B begins at zero, so that nothing changes at first. `weight` and `bias` are the frozen ones.

    Args:
        linear: frozen where it is; its weights are not copied.
        rank: of the product B A.
        alpha: what the product is multiplied by is alpha / rank.

    Raises:
        TypeError, ValueError: linear is no `nn.Linear`; rank or alpha is of the wrong type or out
            of range.
    """

    def __init__(self, linear: nn.Linear, rank: int = 8, alpha: float = 16):
        super().__init__()
        _check_linear(linear, rank, alpha)
        d_out, d_in = linear.weight.shape
        self.linear, self.alpha = linear.requires_grad_(False), float(alpha)
        # x Aᵀ is about as large as x; with B at zero nothing is added yet.
        self.a = nn.Parameter(torch.randn(rank, d_in).to(linear.weight) / math.sqrt(d_in))
        self.b = nn.Parameter(linear.weight.new_zeros(d_out, rank))

    @property
    def weight(self) -> Tensor:
        """The frozen matrix, (d_out, d_in)."""
        return self.linear.weight

    @property
    def bias(self) -> Tensor | None:
        """The frozen bias, (d_out,), where there is one."""
        return self.linear.bias

    def forward(self, x: Float[Tensor, "... d_in"]) -> Float[Tensor, "... d_out"]:
        """As `lora`, with linear's bias."""
        out = lora(x, self.weight, self.a, self.b, self.alpha)
        return out if self.bias is None else out + self.bias

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A plain linear with W + (alpha / rank) · B A; the two here stay as they are."""
        d_out, d_in = self.weight.shape
        bias = self.bias is not None
        plain = nn.utils.skip_init(
            nn.Linear, d_in, d_out, bias, device=self.weight.device, dtype=self.weight.dtype
        )
        plain.weight.copy_(self.weight + self.alpha / len(self.a) * self.b @ self.a)
        if bias:
            plain.bias.copy_(self.bias)
        return plain

    def extra_repr(self) -> str:
        return f"rank={len(self.a)}, alpha={self.alpha:g}"


def add_lora(
    model: nn.Module,
    rank: int = 8,
    alpha: float = 16,
    names: Sequence[str] = ("attention.qkv",),
) -> nn.Module:
    """Freeze a model and put a `LoRALinear` around the linears of these names in every block.

    >>> add_lora(model, rank=4, names=("attention.qkv", "feed_forward.up"))

    Args:
        model: a language model of the course, or another with `blocks`; it is changed.
        rank, alpha: as `LoRALinear` has them.
        names: of linears within a block.

    Returns:
        the model itself.

    Raises:
        TypeError, ValueError: as `LoRALinear`; a name leads to no linear of a block, or the model
            has small matrices already. Nothing is changed then.
    """
    blocks = _blocks(model)
    fits = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    if not fits or not names:
        raise TypeError(f"names must be a list of linears' names in a block. Got {names!r}.")
    if any(isinstance(part, LoRALinear) for part in model.modules()):
        raise ValueError("model must have no small matrices yet: merge(model) first. Got some.")
    chosen = [(block, name, _linear(block, name)) for block in blocks for name in names]
    for _, _, linear in chosen:
        _check_linear(linear, rank, alpha)
    model.requires_grad_(False)
    for block, name, linear in chosen:
        block.set_submodule(name, LoRALinear(linear, rank, alpha))
    return model


def merge(model: nn.Module) -> nn.Module:
    """Put plain linears back, what was learned added to their weights. Nothing is frozen then.

    Returns:
        the model itself.

    Raises:
        TypeError, ValueError: it is no model with `blocks`, or `add_lora` has not been there.
    """
    found = list(_found(model))
    if not found:
        raise ValueError("model must have small matrices: add_lora(model) first. Got none in it.")
    for name, linear in found:
        model.set_submodule(name, linear.merged())
    return model.requires_grad_()


def small_matrices(model: nn.Module) -> dict[str, Tensor]:
    """All that has to be kept of what was learned: A and B of every `LoRALinear`, by name.

    Put back with `model.load_state_dict(kept, strict=False)`, after `add_lora`.

    Raises:
        TypeError, ValueError: as `merge`.
    """
    kept = {
        f"{name}.{part}": getattr(linear, part) for name, linear in _found(model) for part in "ab"
    }
    if not kept:
        raise ValueError("model must have small matrices: add_lora(model) first. Got none in it.")
    return {name: tensor.detach() for name, tensor in kept.items()}


def _found(model: nn.Module) -> Iterator[tuple[str, LoRALinear]]:
    _blocks(model)
    return ((n, part) for n, part in model.named_modules() if isinstance(part, LoRALinear))


def _blocks(model: nn.Module) -> nn.ModuleList:
    blocks = getattr(model, "blocks", None)
    if not isinstance(model, nn.Module) or not isinstance(blocks, nn.ModuleList):
        raise TypeError(f"model must be a model with blocks. Got {type(model).__name__}.")
    return blocks


def _linear(block: nn.Module, name: str) -> nn.Linear:
    linears = {n: part for n, part in block.named_modules() if isinstance(part, nn.Linear)}
    # It reads q's rows and those of k and v out of the matrix: nothing beside it would be seen.
    linears.pop("cross_attention.qkv", None)
    if name not in linears:
        raise ValueError(f"names must be of {', '.join(linears)} in each block. Got {name!r}.")
    return linears[name]


def _check_linear(linear, rank, alpha) -> None:
    check_count("rank", rank)
    check_number("alpha", alpha, 0.0, math.inf)
    if not isinstance(linear, nn.Linear):
        raise TypeError(f"linear must be an nn.Linear. Got {type(linear).__name__}.")
    if rank > min(linear.weight.shape):
        raise ValueError(
            f"rank must be at most {min(linear.weight.shape)}, the smaller side of the matrix "
            f"{tuple(linear.weight.shape)}. Got {rank}."
        )


def _check_matrices(weight, a, b) -> None:
    shapes = {"weight": "(d_out, d_in)", "a": "(rank, d_in)", "b": "(d_out, rank)"}
    for name, value in (("weight", weight), ("a", a), ("b", b)):
        check_floats(name, value, shapes[name])
        if value.dim() != 2:
            raise ValueError(f"{name} must be {shapes[name]}. Got {tuple(value.shape)}.")
    if a.shape[1] != weight.shape[1] or len(a) == 0:
        raise ValueError(
            f"a must be (rank, d_in={weight.shape[1]}), rank at least 1. Got {tuple(a.shape)}."
        )
    if b.shape != (len(weight), len(a)):
        raise ValueError(f"b must be (d_out={len(weight)}, rank={len(a)}). Got {tuple(b.shape)}.")
