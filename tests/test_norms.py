"""tfcourse.norms against PyTorch's: values, gradients, and the wrong ones that are in the wild."""

import pytest
import torch
from torch import nn

from tfcourse.norms import LayerNorm, RMSNorm, layer_norm, rms_norm

PAIRS = {
    "LayerNorm": (LayerNorm(6), nn.LayerNorm(6)),
    "LayerNorm without bias": (LayerNorm(6, bias=False), nn.LayerNorm(6, bias=False)),
    "LayerNorm, large eps": (LayerNorm(6, eps=0.3), nn.LayerNorm(6, eps=0.3)),
    "RMSNorm": (RMSNorm(6), nn.RMSNorm(6, eps=1e-5)),
    "RMSNorm, large eps": (RMSNorm(6, eps=0.3), nn.RMSNorm(6, eps=0.3)),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 3, 5, 6)])
def test_equal_to_pytorchs(name, shape):
    ours, theirs = PAIRS[name]
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict())
    x = (3 * torch.randn(shape) + 2).requires_grad_()
    probe = torch.randn(shape)
    a, b = ours(x), theirs(x)
    assert (a - b).abs().max() < 1e-5
    mine = torch.autograd.grad((a * probe).sum(), [x, *ours.parameters()])
    yours = torch.autograd.grad((b * probe).sum(), [x, *theirs.parameters()])
    for one, other in zip(mine, yours, strict=True):
        assert (one - other).abs().max() < 1e-4


@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 3, 5, 6)])
@pytest.mark.parametrize("bias", [True, False])
def test_formula_and_module_are_equal(shape, bias):
    torch.manual_seed(0)
    layer, rms = LayerNorm(6, eps=0.01, bias=bias), RMSNorm(6, eps=0.01)
    for parameter in (*layer.parameters(), *rms.parameters()):
        nn.init.normal_(parameter)
    x, probe = torch.randn(shape, requires_grad=True), torch.randn(shape)
    pairs = [
        (layer, layer_norm(x, layer.weight, layer.bias, 0.01)),
        (rms, rms_norm(x, rms.weight, 0.01)),
    ]
    for module, formula in pairs:
        y = module(x)
        assert (y - formula).abs().max() < 1e-6
        leaves = [x, *module.parameters()]
        mine, spelt = (torch.autograd.grad((z * probe).sum(), leaves) for z in (y, formula))
        for one, other in zip(mine, spelt, strict=True):
            assert torch.allclose(one, other, rtol=1e-6, atol=3e-6)


def test_autocast_mixes_types():
    x = torch.randn(3, 16).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        for norm in (LayerNorm(16), RMSNorm(16)):
            assert norm(x).isfinite().all()


def test_the_example_by_hand():
    y = LayerNorm(4)(torch.tensor([1.0, 2, 3, 4]))
    assert [round(v, 3) for v in y.tolist()] == [-1.342, -0.447, 0.447, 1.342]


def test_layer_norm_lands_on_a_sphere_in_the_plane_of_zero_sum():
    y = LayerNorm(8)(100 * torch.randn(20, 8) + 7)
    assert y.sum(-1).abs().max() < 1e-4
    assert (y.norm(dim=-1) - 8**0.5).abs().max() < 1e-3


def test_a_token_does_not_see_the_others():
    x = torch.randn(2, 3, 6)
    for norm in (LayerNorm(6), RMSNorm(6)):
        assert torch.allclose(norm(x)[1, 2], norm(x[1, 2]), atol=1e-6)


def test_zeros_give_zeros():
    for norm in (LayerNorm(4), RMSNorm(4)):
        assert torch.equal(norm(torch.zeros(2, 4)), torch.zeros(2, 4))


def test_bfloat16():
    x = torch.randn(3, 16).bfloat16()
    for norm in (LayerNorm(16), RMSNorm(16)):
        assert norm.bfloat16()(x).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_out_in_float32(dtype):
    torch.manual_seed(0)
    x = (300 * torch.randn(4, 16)).to(dtype)  # in float16 the squares are infinite
    ours, theirs = RMSNorm(16).to(dtype), nn.RMSNorm(16, eps=1e-5).to(dtype)
    nn.init.normal_(theirs.weight)
    ours.load_state_dict(theirs.state_dict())
    y, exact = ours(x), rms_norm(x.double(), ours.weight.double())
    assert y.dtype == dtype
    rounding = 2 * torch.finfo(dtype).eps * exact.abs().max()
    for other in (theirs(x), exact):
        assert (y.double() - other.double()).abs().max() < rounding
    assert rms_norm(x, ours.weight.float()).dtype == dtype  # of x's type, whatever the weight's is


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: LayerNorm(0), ValueError, "d_model must be at least 1. Got 0."),
        (lambda: RMSNorm(4.0), TypeError, "d_model must be an int. Got 4.0."),
        (lambda: RMSNorm(4, eps=-1), ValueError, "eps must be at least 0.0"),
        (lambda: LayerNorm(4, eps="x"), TypeError, "eps must be a number"),
        (
            lambda: LayerNorm(4)(torch.ones(2, 3)),
            ValueError,
            r"d_model=4 as its last axis. Got \(2, 3",
        ),
        (
            lambda: RMSNorm(4)(torch.ones(2, 3)),
            ValueError,
            "x must have d_model=4 as its last axis",
        ),
        (lambda: RMSNorm(4)(torch.ones(2, 4).long()), TypeError, "x must hold floats"),
        (lambda: RMSNorm(4)([1, 2, 3, 4]), TypeError, "x must be a tensor"),
        (lambda: LayerNorm(4)(torch.ones(2, 4).double()), TypeError, "x must be torch.float32 as"),
        (
            lambda: layer_norm(torch.ones(2, 4), torch.ones(4), torch.ones(3)),
            ValueError,
            r"bias must be \(4,\) as weight is. Got \(3,\)",
        ),
        (
            lambda: rms_norm(torch.ones(2, 4), torch.ones(2, 4)),
            ValueError,
            r"weight must have one axis, \(d_model,\). Got \(2, 4\)",
        ),
        (lambda: rms_norm(torch.ones(2, 4), [1.0]), TypeError, "weight must be a tensor"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, said):
    with pytest.raises(error, match=said):
        call()
