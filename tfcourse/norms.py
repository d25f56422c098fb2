"""Norms: LayerNorm and RMSNorm, by hand, equal to PyTorch's (lesson 04)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_flag, check_last_axis, check_number


class LayerNorm(nn.Module):
    """Each token by itself: minus its mean, divided by its standard deviation, then scaled.

    y = weight · (x - mean) / √(variance + eps) + bias, where mean and (biased) variance are taken
    over the token's d_model numbers (Ba et al., *Layer Normalization*, 2016). Equal to
    `nn.LayerNorm`.

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
            TypeError: x is no float tensor.
            ValueError: its last axis is not d_model long.
        """
        check_last_axis("x", x, self.d_model, "d_model")
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)  # biased: divided by d_model
        y = self.weight * (centred / (variance + self.eps).sqrt())
        return y if self.bias is None else y + self.bias


class RMSNorm(nn.Module):
    """LayerNorm without mean and bias: y = weight · x / √(mean of x² + eps).

    Zhang and Sennrich, *Root Mean Square Layer Normalization*, 2019. Equal to `nn.RMSNorm`.

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
        mean_square = x.square().mean(dim=-1, keepdim=True)
        return self.weight * (x * (mean_square + self.eps).rsqrt())
