"""Norms: LayerNorm and RMSNorm, equal to PyTorch's (lesson 04).

`layer_norm` and `rms_norm` spell the formulas out. The modules run whatever gives the same numbers
sooner: for LayerNorm PyTorch's kernel, which reads the numbers once; for RMSNorm, of which a
processor has no such kernel, the formula itself in training, else PyTorch's steps without Python.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_flag, check_floats, check_last_axis, check_number


def layer_norm(
    x: Float[Tensor, "... d_model"],
    weight: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "... d_model"]:
    """Each token by itself: minus its mean, divided by its standard deviation, then scaled.

    y = weight · (x - mean) / √(variance + eps) + bias, where mean and (biased) variance are taken
    over the token's d_model numbers (Ba et al., *Layer Normalization*, 2016).

    Raises:
        TypeError: x, weight or bias is no float tensor, or eps no number.
        ValueError: their sizes differ, or eps is below zero.
    """
    _check(x, weight, eps)
    if bias is not None:
        check_floats("bias", bias, "(d_model,)")
        if bias.shape != weight.shape:
            raise ValueError(
                f"bias must be {tuple(weight.shape)} as weight is. Got {tuple(bias.shape)}."
            )
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)  # biased: divided by d_model
    y = weight * (centred / (variance + eps).sqrt())
    return y if bias is None else y + bias


def rms_norm(
    x: Float[Tensor, "... d_model"], weight: Float[Tensor, " d_model"], eps: float = 1e-5
) -> Float[Tensor, "... d_model"]:
    """LayerNorm without mean and bias: y = weight · x / √(mean of x² + eps).

    Zhang and Sennrich, *Root Mean Square Layer Normalization*, 2019. Half precision is worked out
    in float32: in float16 the square of 300 is infinite. The result is of x's type, as PyTorch's.

    Raises:
        TypeError: x or weight is no float tensor, or eps no number.
        ValueError: their sizes differ, or eps is below zero.
    """
    _check(x, weight, eps)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # no copy, unless x is in half
    # A sum, divided: its gradient costs a pass less than that of `x.square().mean()`.
    mean_square = (wide * wide).sum(dim=-1, keepdim=True) / x.shape[-1]
    return (weight * (wide * (mean_square + eps).rsqrt())).to(x.dtype)


class LayerNorm(nn.Module):
    """`layer_norm` with weight and bias of its own, by PyTorch's kernel; equal to `nn.LayerNorm`.

    Args:
        d_model: numbers of a token.
        eps: keeps the root from zero; it stands inside the root.
        bias: whether there is one.
    """

    def __init__(self, d_model: int, eps: float = 1e-5, *, bias: bool = True):
        super().__init__()
        check_count("d_model", d_model)
        check_number("eps", eps, 0.0, math.inf)
        check_flag("bias", bias)
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Normalise the last axis of x.

        Raises:
            TypeError: x is no tensor of the weights' type.
            ValueError: its last axis is not d_model long.
        """
        check_last_axis("x", x, self.d_model, "d_model")
        if x.dtype != self.weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"x must be {self.weight.dtype} as the weights. Got {x.dtype}.")
        return F.layer_norm(x, (self.d_model,), self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """`rms_norm` with a weight of its own; equal to `nn.RMSNorm`.

    Args:
        d_model: numbers of a token.
        eps: keeps the root from zero; it stands inside the root.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        check_count("d_model", d_model)
        check_number("eps", eps, 0.0, math.inf)
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Normalise the last axis of x.

        Raises:
            TypeError: x is no float tensor.
            ValueError: its last axis is not d_model long.
        """
        check_last_axis("x", x, self.d_model, "d_model")
        weight = self.weight
        if torch.is_grad_enabled() or x.dtype != weight.dtype:
            return rms_norm(x, weight, self.eps)
        return F.rms_norm(x, (self.d_model,), weight, self.eps)


def _check(x, weight, eps) -> None:
    check_floats("weight", weight, "(d_model,)")
    if weight.dim() != 1:
        raise ValueError(f"weight must have one axis, (d_model,). Got {tuple(weight.shape)}.")
    check_last_axis("x", x, len(weight), "d_model")
    check_number("eps", eps, 0.0, math.inf)
