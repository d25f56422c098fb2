"""tfcourse.blocks: its properties, its counts, its initialisation, its errors."""

import math

import pytest
import torch
from torch import nn

from tfcourse.attention import KVCache, causal_mask
from tfcourse.blocks import Block, initialise
from tfcourse.positions import Rotary


def test_cached_equals_uncached():
    torch.manual_seed(0)
    block = Block(24, 3, 1, norm="rms", activation="silu", gated=True, rotary=Rotary(8)).eval()
    x = torch.randn(2, 6, 24)
    cache = KVCache()
    parts = [block(p, causal=True, cache=cache) for p in x.split([2, 1, 3], dim=1)]
    assert (torch.cat(parts, dim=1) - block(x, causal=True)).abs().max() < 1e-5


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_future_does_not_reach_the_past(norm_first):
    block = Block(24, 3, norm_first=norm_first)
    x = torch.randn(2, 6, 24)
    changed = x.clone()
    changed[:, 4] += torch.randn(24)  # adding 1 everywhere, LayerNorm would not notice
    moved = (block(x, causal=True) - block(changed, causal=True)).abs().amax((0, 2))
    assert (moved[:4] < 1e-6).all()
    assert (moved[4:] > 1e-4).all()
    assert torch.allclose(block(x, causal=True), block(x, mask=causal_mask(6)), atol=1e-6)


def test_parameters_are_about_twelve_d_squared():
    d = 64
    block = Block(d, 4)
    bias_free_qkv = sum(p.numel() for p in block.parameters()) - 3 * d  # published: 12d² + 9d + …
    assert bias_free_qkv == 12 * d**2 + 10 * d  # … the d of the output projection's bias


def test_pre_norm_leaves_a_path_on_which_nothing_changes():
    block = Block(24, 3)
    for projection in (block.attention.out, block.feed_forward.down):
        nn.init.zeros_(projection.weight)
        nn.init.zeros_(projection.bias)
    x = torch.randn(2, 5, 24)
    assert torch.equal(block(x), x)


def test_dropout_in_training_only():
    block = Block(24, 3, dropout=0.5)
    x = torch.randn(2, 5, 24)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


def test_initialisation_keeps_the_stream_level():
    torch.manual_seed(0)

    def growth(layers, scaled):
        stack = nn.Sequential(*(Block(64, 4) for _ in range(layers)))
        initialise(stack, layers=layers if scaled else 1, std=0.1)
        x = torch.randn(4, 8, 64)
        return (stack(x).std() / x.std()).item()

    assert growth(24, scaled=True) < 0.5 * growth(24, scaled=False)
    block = Block(256, 4)
    initialise(block, layers=8)
    assert block.attention.qkv.weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert block.feed_forward.down.weight.std().item() == pytest.approx(
        0.02 / math.sqrt(16), rel=0.03
    )
    assert block.attention.out.bias.abs().max() == 0


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: Block(10, 3), ValueError, "n_heads must divide d_model=10. Got 3."),
        (lambda: Block(12, 3, norm="batch"), ValueError, "norm must be one of layer, rms"),
        (lambda: Block(12, 3, norm_first=1), TypeError, "norm_first must be True or False"),
        (lambda: Block(12, 3, activation="swish"), ValueError, "activation must be one of"),
        (lambda: Block(12, 3, dropout=2), ValueError, "dropout must be at least 0"),
        (
            lambda: Block(12, 3)(torch.ones(1, 2, 12), torch.ones(1, 2, 12)),
            ValueError,
            "context must be None for a block with cross=False",
        ),
        (
            lambda: Block(12, 3, cross=True)(torch.ones(1, 2, 12)),
            ValueError,
            "context must be given for a block with cross=True",
        ),
        (lambda: Block(12, 3)(torch.ones(1, 2, 8)), ValueError, "d_model=12"),
        (lambda: initialise(Block(12, 3), layers=0), ValueError, "layers must be at least 1"),
        (lambda: initialise(3, layers=1), TypeError, "module must be an nn.Module"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, said):
    with pytest.raises(error, match=said):
        call()
