"""The feed-forward network, plain and gated, and its activations (lesson 05).

`relu`, `gelu`, `gelu_tanh` and `silu` spell the formulas out. `ACTIVATIONS` names PyTorch's kernels
for the same numbers: the network runs these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfcourse.arguments import (
    check_count,
    check_flag,
    check_floats,
    check_last_axis,
    check_number,
)


def relu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """max(x, 0), with slope 0 at 0 as `torch.relu` has it."""
    check_floats("x", x)
    return x.masked_fill(x <= 0, 0.0)


def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x · Φ(x), Φ the normal distribution's cumulative one (Hendrycks and Gimpel, 2016)."""
    check_floats("x", x)
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """GELU with Φ approximated by a tanh, as GPT-2 has it."""
    check_floats("x", x)
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x · sigmoid(x), also called swish (Ramachandran et al., 2017)."""
    check_floats("x", x)
    return x * torch.sigmoid(x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Two matrices with an activation between them, for each token by itself; or three, gated.

    Plain: down(activation(up(x))). Gated: down(activation(gate(x)) · up(x)); with silu that is
    SwiGLU, with gelu GeGLU (Shazeer, *GLU Variants Improve Transformer*, 2020).

    Args:
        d_model: width of a token.
        d_ff: width between; default 4 · d_model, gated 2/3 of that (three matrices, equal count).
        activation: relu, gelu, gelu_tanh or silu.
        gated: whether there is a gate.
        bias: whether the matrices have one.
        dropout: share of the output put to zero in training.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        *,
        activation: str = "gelu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_count("d_model", d_model)
        check_flag("gated", gated)
        check_flag("bias", bias)
        d_ff = self.usual_width(d_model, gated) if d_ff is None else d_ff
        check_count("d_ff", d_ff)
        check_number("dropout", dropout, 0, 1)
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)}. Got {activation!r}."
            )
        self.d_model, self.activation = d_model, activation
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if gated else None
        self.down = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def usual_width(d_model: int, gated: bool) -> int:
        """d_ff where nobody says it: 4 · d_model, gated 2/3 of that."""
        return 8 * d_model // 3 if gated else 4 * d_model

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """The same network for every token.

        Raises:
            TypeError: x is no float tensor.
            ValueError: its last axis is not d_model long.
        """
        check_last_axis("x", x, self.d_model, "d_model")
        activate = ACTIVATIONS[self.activation]
        hidden = activate(self.up(x)) if self.gate is None else activate(self.gate(x)) * self.up(x)
        return self.dropout(self.down(hidden))  # (…, d_ff) -> (…, d_model)

    def extra_repr(self) -> str:
        return f"activation={self.activation}"
