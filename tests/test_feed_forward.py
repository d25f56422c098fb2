"""tfcourse.feed_forward against PyTorch's and Hugging Face's: values, gradients, counts."""

import pytest
import torch
import torch.nn.functional as F

from tfcourse import feed_forward
from tfcourse.feed_forward import ACTIVATIONS, FeedForward

THEIRS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def values_and_slopes(activation, x):
    y = activation(x)
    return y, torch.autograd.grad(y.sum(), x)[0]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_formula_and_kernel_are_equal(name):
    x = torch.cat([torch.linspace(-6, 6, 101), torch.tensor([-60.0, -0.0, 60.0])]).requires_grad_()
    formula, slope = values_and_slopes(getattr(feed_forward, name), x)
    for kernel in (ACTIVATIONS[name], THEIRS[name]):
        y, its_slope = values_and_slopes(kernel, x)
        assert (formula - y).abs().max() < 1e-6
        assert (slope - its_slope).abs().max() < 2e-6


def test_the_trace_by_hand():
    network = FeedForward(3, 4, activation="relu", bias=False)
    with torch.no_grad():
        network.up.weight.copy_(torch.tensor([[1, 0, -1, 0.5], [0, 1, 0, -1], [0.5, -0.5, 1, 0]]).T)
    hidden = ACTIVATIONS["relu"](network.up(torch.tensor([0.5, -1, 0.8])))
    assert [round(v, 4) for v in hidden.tolist()] == [0.9, 0.0, 0.3, 1.25]


def test_against_hugging_faces_llama():
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    torch.manual_seed(0)
    theirs = LlamaMLP(LlamaConfig(hidden_size=6, intermediate_size=10, num_attention_heads=2))
    ours = FeedForward(6, 10, activation="silu", gated=True, bias=False)
    ours.load_state_dict(
        {f"{n}.weight": getattr(theirs, f"{n}_proj").weight for n in ("up", "gate", "down")}
    )
    x = torch.randn(2, 3, 6, requires_grad=True)
    a, b = ours(x), theirs(x)
    assert (a - b).abs().max() < 1e-6
    mine, yours = (torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0] for y in (a, b))
    assert (mine - yours).abs().max() < 1e-5


def test_against_hugging_faces_gpt2():
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP

    torch.manual_seed(0)
    theirs = GPT2MLP(20, GPT2Config(n_embd=6, resid_pdrop=0)).eval()
    ours = FeedForward(6, 20, activation="gelu_tanh")
    with torch.no_grad():
        for linear, conv in ((ours.up, theirs.c_fc), (ours.down, theirs.c_proj)):
            linear.weight.copy_(conv.weight.T)
            linear.bias.copy_(conv.bias)
    x = torch.randn(2, 3, 6)
    assert (ours(x) - theirs(x)).abs().max() < 1e-6


def count(**options):
    with torch.device("meta"):
        network = FeedForward(4096, bias=False, **options)
    return sum(p.numel() for p in network.parameters())


def test_parameter_counts():
    assert count() == 2 * 4096 * 16384
    assert count(d_ff=11008) == 90_177_536
    assert count(d_ff=11008, gated=True) == 135_266_304
    assert count(gated=True) / count() == pytest.approx(1, rel=1e-3)


def test_every_token_by_itself_and_dropout_in_training_only():
    network = FeedForward(6, dropout=0.5)
    x = torch.randn(2, 3, 6)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.allclose(network(x)[1, 2], network(x[1, 2]), atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: FeedForward(0), ValueError, "d_model must be at least 1"),
        (lambda: FeedForward(4, 0), ValueError, "d_ff must be at least 1"),
        (lambda: FeedForward(4, activation="swish"), ValueError, "activation must be one of relu"),
        (lambda: FeedForward(4, dropout=1), ValueError, "dropout must be at least 0 and below 1"),
        (lambda: FeedForward(4)(torch.ones(2, 5)), ValueError, r"d_model=4 as its last axis"),
        (lambda: FeedForward(4)(None), TypeError, "x must be a tensor"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, said):
    with pytest.raises(error, match=said):
        call()
