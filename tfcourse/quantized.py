"""Weights in eight bits: each row as whole multiples of a scale of its own (lesson 12)."""

from __future__ import annotations

from functools import cache, lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8, UInt8
from torch import Tensor, nn

from tfcourse.arguments import check_floats, check_last_axis, check_tensor
from tfcourse.models import LanguageModel

MOST = 127  # of -128 to 127 the lowest is left out, so that both signs reach as far
ZERO = 128  # the unsigned byte that stands for 0
WIDE = 96  # outputs that the kernel sums at once
FEW = 32  # tokens up to which the kernel takes less time than floats do


@torch.no_grad()
def quantize_rows(
    weight: Float[Tensor, "d_out d_in"],
) -> tuple[Int8[Tensor, "d_out d_in"], Float[Tensor, "d_out 1"]]:
    """Each row's numbers as the nearest whole multiples of its scale, its largest divided by 127.

    A scale for each row, since one large number would make all others coarse: then only those of
    its own row (Dettmers et al., *LLM.int8()*, 2022, section 2.1).

    Args:
        weight: (d_out, d_in).

    Returns:
        numbers, (d_out, d_in) in int8, from -127 to 127, and scale, (d_out, 1) in float32, such
        that numbers · scale is nowhere farther from weight than half a scale. A row of zeros gives
        zeros.

    Raises:
        TypeError: weight is no float tensor.
        ValueError: it has not two axes, no numbers, or one that is not finite.
    """
    check_tensor("weight", weight, "(d_out, d_in)", axes=2)
    check_floats("weight", weight, "(d_out, d_in)")
    if weight.numel() == 0 or not weight.isfinite().all():
        got = tuple(weight.shape) if weight.numel() == 0 else "infinite numbers or NaN"
        raise ValueError(f"weight must hold finite numbers, at least one. Got {got}.")
    weight = weight.float()
    scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / MOST
    return (weight / scale).round().to(torch.int8), scale


class Int8Linear(nn.Module):
    """An `nn.Linear` whose weights are held in int8, with a scale for each output.

    y = (x · numbersᵀ) · scale + bias. A single token waits for the weights to be read, and here
    each is one byte, not four. Only the weights are rounded: Dettmers et al., *LLM.int8()*, 2022,
    round the inputs too, all but those few dimensions in which some inputs are large.

    For a few tokens it runs PyTorch's embedding bag for tables of bytes, where that is here: a
    weighted sum of a table's rows, which is what a matrix makes of a vector. Else the numbers
    become floats again first. It learns nothing: gradients reach x alone.

    Args:
        linear: (d_out, d_in); it stays as it is.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"linear must be an nn.Linear. Got {type(linear).__name__}.")
        numbers, scale = quantize_rows(linear.weight)
        self.d_out, self.d_in = numbers.shape
        self.register_buffer("table", _as_table(numbers))
        self.register_buffer("scale", scale[:, 0])
        bias = linear.bias
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    @property
    def numbers(self) -> Int8[Tensor, "d_out d_in"]:
        """The weights, each divided by its row's scale."""
        rows = self._pieces().transpose(1, 2).flatten(0, 1)[: self.d_out]
        return (rows.to(torch.int16) - ZERO).to(torch.int8)

    def _pieces(self) -> UInt8[Tensor, "pieces d_in WIDE"]:
        return self.table[:, :WIDE].unflatten(0, (-1, self.d_in))

    def forward(self, x: Float[Tensor, "... d_in"]) -> Float[Tensor, "... d_out"]:
        """As the linear layer, but for what the rounding changes.

        Raises:
            TypeError: x is no float tensor.
            ValueError: its last axis is not d_in long.
        """
        check_last_axis("x", x, self.d_in, "d_in")
        rows = x.reshape(-1, self.d_in)
        learns = x.requires_grad and torch.is_grad_enabled()
        if len(rows) <= FEW and not learns and _has_kernel(x.device.type, x.dtype):
            y = _sum_rows(self.table, rows.float()).to(x.dtype)
        else:
            y = rows @ (self._pieces().to(x.dtype) - ZERO)  # (pieces, rows, WIDE)
            y = y.transpose(0, 1).flatten(1)
        y = y[:, : self.d_out] * self.scale.to(x.dtype)
        y = y.view(*x.shape[:-1], self.d_out)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return f"d_in={self.d_in}, d_out={self.d_out}, bias={self.bias is not None}"


@torch.no_grad()
def to_int8(model: LanguageModel) -> int:
    """Put `Int8Linear` in place of every linear layer of the blocks and of the head, in the model.

    Norms and embedding stay as they are. A head that was tied to the embedding gets its own
    numbers; the embedding keeps its table. To keep the model, give a `copy.deepcopy` of it.

    Returns:
        how many bytes less the model holds.

    Raises:
        TypeError: model is no `LanguageModel`.
        ValueError: it is in int8 already.
    """
    if not isinstance(model, LanguageModel):
        raise TypeError(f"model must be a LanguageModel. Got {type(model).__name__}.")
    if isinstance(model.head, Int8Linear):
        raise ValueError("model must have its weights in floats. Got one that is in int8 already.")
    before = _bytes(model)
    for parent in [model, *model.blocks.modules()]:
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                setattr(parent, name, Int8Linear(child))
    return before - _bytes(model)


def _bytes(model: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


# --- int8 in the layout that PyTorch's kernel reads ------------------------------------------


def _as_table(numbers: Int8[Tensor, "d_out d_in"]) -> UInt8[Tensor, "rows bytes"]:
    """Pieces of `WIDE` outputs; of each a row for every input, and behind it what it stands for.

    A byte b stands for scale · b + bias. Our scales come later, so here it is 1, and the bias -128.
    """
    d_out = len(numbers)
    filled = F.pad(numbers.to(torch.int16) + ZERO, (0, 0, 0, -d_out % WIDE)).to(torch.uint8)
    rows = filled.unflatten(0, (-1, WIDE)).transpose(1, 2).flatten(0, 1)  # (pieces · d_in, WIDE)
    meaning = torch.tensor([1.0, -ZERO], device=numbers.device).view(torch.uint8)
    return torch.cat([rows, meaning.expand(len(rows), -1)], dim=1)


def _sum_rows(table: UInt8[Tensor, "rows bytes"], x: Float[Tensor, "n d_in"]) -> Tensor:
    """(n, pieces · WIDE): for each x and piece, the sum of the piece's rows, each times its x."""
    n, d_in = x.shape
    pieces = len(table) // d_in
    row, begin = _up_to(len(table), 1), _up_to(n * len(table), d_in)
    if n > 1:
        row = row.repeat(n)
    factor = x[:, None].expand(n, pieces, d_in).reshape(-1)
    bag = torch.ops.quantized.embedding_bag_byte_rowwise_offsets
    return bag(table, row, begin, False, 0, False, factor).view(n, pieces * WIDE)


@lru_cache(maxsize=32)
def _up_to(end: int, step: int) -> Tensor:
    """0, step, … below end: made once, since a single token waits for every call."""
    return torch.arange(0, end, step, dtype=torch.int32)


@cache
def _has_kernel(device: str, dtype: torch.dtype) -> bool:
    """Whether the kernel is here and right; it adds up in float32, so float64 is not for it."""
    if device != "cpu" or dtype == torch.float64:
        return False
    numbers, x = torch.tensor([[3, -127], [0, 5]], dtype=torch.int8), torch.tensor([[0.5, 2.0]])
    try:
        found = _sum_rows(_as_table(numbers), x)[:, :2]
    except (AttributeError, RuntimeError):  # built without it
        return False
    return torch.allclose(found, x @ numbers.float().T)
