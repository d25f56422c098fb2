"""tfcourse.quantized: int8 is as near as its scale allows, by the kernel as without it."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import quantized
from tfcourse.generation import generate
from tfcourse.inside import attention_maps, head_outputs
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.quantized import Int8Linear, quantize_rows, to_int8


def test_no_number_is_farther_than_half_a_scale():
    torch.manual_seed(0)
    weight = torch.randn(7, 33) * torch.logspace(-6, 6, 7)[:, None]
    numbers, scale = quantize_rows(weight)
    assert numbers.dtype == torch.int8
    assert (numbers.shape, scale.shape, scale.dtype) == ((7, 33), (7, 1), torch.float32)
    assert ((numbers * scale - weight).abs() <= scale * 0.5001).all()
    assert torch.equal(numbers.long().abs().amax(1), torch.full((7,), 127))
    assert torch.equal(quantize_rows(-weight)[0], -numbers)


def test_a_row_of_zeros_is_zeros_and_leaves_the_others_alone():
    weight = torch.tensor([[0.0, 0.0], [1.0, -0.5]])
    numbers, scale = quantize_rows(weight)
    assert numbers.tolist() == [[0, 0], [127, -64]]
    assert scale.isfinite().all()
    assert torch.equal(numbers[1:], quantize_rows(weight[1:])[0])


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("d_in", "d_out"), [(3, 5), (64, 96), (33, 200), (1, 1)])
def test_a_layer_is_its_numbers_times_its_scales(monkeypatch, fast, bias, d_in, d_out):
    """For any count of axes, few tokens or many; with PyTorch's kernel and without."""
    if not fast:
        monkeypatch.setattr(quantized, "_has_kernel", lambda device, dtype: False)
    torch.manual_seed(0)
    linear = nn.Linear(d_in, d_out, bias=bias)
    layer = Int8Linear(linear)
    numbers, scale = quantize_rows(linear.weight)
    assert torch.equal(layer.numbers, numbers)
    for shape in ((), (1,), (2, 3), (quantized.FEW + 1,), (0,)):
        x = torch.randn(*shape, d_in)
        wanted = F.linear(x, numbers * scale, linear.bias)
        assert layer(x).shape == wanted.shape
        assert torch.allclose(layer(x), wanted, atol=1e-5)


def test_the_kernel_runs_where_it_is_and_only_there(monkeypatch):
    layer, ran, real = Int8Linear(nn.Linear(8, 4)), [], quantized._sum_rows
    if not quantized._has_kernel("cpu", torch.float32):
        pytest.skip("this build of PyTorch has not the kernel")
    monkeypatch.setattr(
        quantized, "_sum_rows", lambda table, x: ran.append(len(x)) or real(table, x)
    )
    layer(torch.ones(2, 8))
    layer(torch.ones(quantized.FEW + 1, 8))
    layer(torch.ones(3, 8, requires_grad=True))
    assert ran == [2]
    quantized._has_kernel.cache_clear()
    monkeypatch.setattr(quantized, "_sum_rows", lambda table, x: torch.zeros(len(x), 96))
    assert not quantized._has_kernel("cpu", torch.float32)  # there, but not right
    quantized._has_kernel.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_floats_stay_what_they_are(dtype):
    torch.manual_seed(0)
    linear = nn.Linear(16, 8).to(dtype)
    x = torch.randn(3, 16).to(dtype)
    found = Int8Linear(linear)(x)
    assert found.dtype == dtype
    assert torch.allclose(found, linear(x), atol=0.05)


def test_gradients_reach_the_input():
    torch.manual_seed(0)
    layer, x = Int8Linear(nn.Linear(6, 5)), torch.randn(2, 6, requires_grad=True)
    layer(x).sum().backward()
    numbers = layer.numbers * layer.scale[:, None]
    assert torch.allclose(x.grad, numbers.sum(0).expand(2, -1), atol=1e-6)
    assert not list(layer.parameters())


# --- a whole model ----------------------------------------------------------------------------


def model_of(**options):
    torch.manual_seed(0)
    config = TransformerConfig(
        300, 48, 6, 2, n_kv_heads=2, norm="rms", activation="silu", gated=True, bias=False,
        **options,
    )  # fmt: skip
    return LanguageModel(config).small_embeddings().eval()


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_a_model_in_int8_is_nearly_the_same_model(tied):
    model = model_of(tied=tied)
    smaller = copy.deepcopy(model)
    saved = to_int8(smaller)
    left = [name for name, part in smaller.named_modules() if isinstance(part, nn.Linear)]
    assert not left
    assert smaller.head.table.dtype == torch.uint8
    tokens = torch.randint(300, (2, 40))
    whole, found = model(tokens), smaller(tokens)
    assert (found - whole).abs().max() < 0.05 * whole.std()
    assert not torch.equal(found, whole)

    def held(model):
        return sum(t.nbytes for t in (*model.parameters(), *model.buffers()))

    assert saved == held(model) - held(smaller)
    matrices = sum(p.nbytes for p in model.blocks.parameters() if p.dim() == 2)
    assert saved > 0.5 * matrices - (model.head.weight.nbytes if tied else 0)


@torch.no_grad()
def test_it_writes_with_a_cache_as_without_and_can_be_looked_into():
    model = model_of()
    to_int8(model)
    prompts = [[3, 1, 4], [1, 5, 9, 2, 6]]
    written = generate(model, prompts, 12, temperature=0)
    assert written == generate(model, prompts, 12, temperature=0, cache=False)
    with attention_maps(model) as maps, head_outputs(model) as heads:
        model(torch.tensor([[1, 2, 3]]))
    assert maps["blocks.1.attention"].shape == (1, 6, 3, 3)
    assert heads["blocks.1.attention"].shape == (1, 6, 3, 8)


@torch.no_grad()
def test_it_is_kept_and_read_again():
    model, tokens = model_of(), torch.tensor([[3, 1, 4]])
    other = model_of()
    nn.init.normal_(other.blocks[0].attention.qkv.weight)
    to_int8(model)
    to_int8(other)
    assert not torch.allclose(model(tokens), other(tokens))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(tokens), other(tokens))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: quantize_rows([1.0]), TypeError, "weight must be a tensor"),
        (lambda: quantize_rows(torch.ones(3)), ValueError, "weight must have 2 axes"),
        (lambda: quantize_rows(torch.ones(2, 2).long()), TypeError, "weight must hold floats"),
        (lambda: quantize_rows(torch.ones(2, 0)), ValueError, r"at least one. Got \(2, 0\)"),
        (lambda: quantize_rows(torch.full((1, 2), torch.nan)), ValueError, "Got infinite numbers"),
        (lambda: Int8Linear(nn.Bilinear(2, 2, 2)), TypeError, "linear must be an nn.Linear"),
        (lambda: Int8Linear(nn.Linear(3, 2))(torch.ones(2)), ValueError, "x must have d_in=3"),
        (lambda: to_int8(nn.Linear(2, 2)), TypeError, "model must be a LanguageModel. Got Linear"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_twice_is_once_too_often():
    model = model_of()
    to_int8(model)
    with pytest.raises(ValueError, match="in int8 already"):
        to_int8(model)
