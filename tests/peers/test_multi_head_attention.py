"""Multi-head attention against PyTorch's and Hugging Face's, forward and gradients."""

import pytest
import torch
from torch import nn

from tfcourse.attention import (
    KVCache,
    MultiHeadAttention,
    causal_mask,
    from_torch,
    padding_mask,
    to_torch,
)

BATCH, TOKENS, D_MODEL, HEADS = 2, 5, 24, 4


def apart(a, b):
    return (a - b).abs().max().item()


def agree(ours, theirs, x, pairs):
    """Outputs are equal, and so are the gradients of x and of the paired parameters."""
    assert apart(ours, theirs) < 2e-6
    probe = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2))
    mine = torch.autograd.grad((ours * probe).sum(), [x, *(p for p, _ in pairs)])
    yours = torch.autograd.grad((theirs * probe).sum(), [x, *(p for _, p in pairs)])
    for a, b in zip(mine, yours, strict=True):
        assert apart(a, b) < 1e-5


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(BATCH, TOKENS, D_MODEL, requires_grad=True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["plain", "causal", "padding", "cross"])
def test_pytorchs_module(x, bias, kind):
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, bias=bias, batch_first=True)
    nn.init.normal_(theirs.in_proj_weight, std=0.3)
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    ours = from_torch(theirs)
    pairs = [(ours.qkv.weight, theirs.in_proj_weight), (ours.out.weight, theirs.out_proj.weight)]
    if bias:
        pairs += [(ours.qkv.bias, theirs.in_proj_bias), (ours.out.bias, theirs.out_proj.bias)]
    if kind == "cross":
        context = torch.randn(BATCH, TOKENS + 2, D_MODEL)
        agree(ours(x, context), theirs(x, context, context)[0], x, pairs)
        return
    lengths = torch.tensor([3, 5])
    mask = {"plain": None, "causal": causal_mask(TOKENS), "padding": padding_mask(lengths, TOKENS)}
    options = {
        "plain": {},
        "causal": {"attn_mask": ~causal_mask(TOKENS)},
        "padding": {"key_padding_mask": torch.arange(TOKENS) >= lengths[:, None]},
    }
    out, weights = theirs(x, x, x, **options[kind], average_attn_weights=False)
    agree(ours(x, mask=mask[kind]), out, x, pairs)
    assert apart(ours(x, mask=mask[kind], return_weights=True)[1], weights) < 1e-6


def test_there_and_back():
    ours = MultiHeadAttention(D_MODEL, HEADS, dropout=0.1).eval()
    again = from_torch(to_torch(ours))
    assert not again.training
    assert again.dropout == 0.1
    for name, value in ours.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)


def test_hugging_faces_gpt2(x):
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

    config = GPT2Config(
        n_embd=D_MODEL, n_head=HEADS, attn_pdrop=0, resid_pdrop=0, attn_implementation="eager"
    )
    theirs = GPT2Attention(config, layer_idx=0).eval()
    nn.init.normal_(theirs.c_attn.weight, std=0.3)
    nn.init.normal_(theirs.c_attn.bias)
    ours = MultiHeadAttention(D_MODEL, HEADS)
    with torch.no_grad():  # GPT-2 keeps its matrices the other way round
        ours.qkv.weight.copy_(theirs.c_attn.weight.T)
        ours.qkv.bias.copy_(theirs.c_attn.bias)
        ours.out.weight.copy_(theirs.c_proj.weight.T)
        ours.out.bias.copy_(theirs.c_proj.bias)
    additive = torch.zeros(TOKENS, TOKENS).masked_fill(~causal_mask(TOKENS), -torch.inf)
    out, weights = theirs(x, attention_mask=additive[None, None])
    pairs = [(ours.qkv.bias, theirs.c_attn.bias), (ours.out.bias, theirs.c_proj.bias)]
    agree(ours(x, causal=True), out, x, pairs)
    assert apart(ours(x, causal=True, return_weights=True)[1], weights) < 1e-6


def llama(n_kv_heads):
    """Hugging Face's Llama attention, ours with its weights, and its cosines and sines."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=n_kv_heads,
        attn_implementation="eager",
    )
    theirs, turn = LlamaAttention(config, layer_idx=0).eval(), LlamaRotaryEmbedding(config)

    def rotary(x, positions):
        cos, sin = turn(x, positions[None])
        first, second = x.chunk(2, dim=-1)  # split-half layout
        return x * cos[:, None] + torch.cat([-second, first], dim=-1) * sin[:, None]

    ours = MultiHeadAttention(D_MODEL, HEADS, n_kv_heads, bias=False, rotary=rotary)
    rows = (theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight)
    for weight in rows:
        nn.init.normal_(weight, std=0.3)
    with torch.no_grad():
        ours.qkv.weight.copy_(torch.cat(rows))
        ours.out.weight.copy_(theirs.o_proj.weight)
    return theirs, ours, turn


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
def test_hugging_faces_llama(x, n_kv_heads):
    theirs, ours, turn = llama(n_kv_heads)
    additive = torch.zeros(TOKENS, TOKENS).masked_fill(~causal_mask(TOKENS), -torch.inf)
    angles = turn(x, torch.arange(TOKENS)[None])
    out, weights = theirs(x, angles, additive[None, None])
    agree(ours(x, causal=True), out, x, [(ours.out.weight, theirs.o_proj.weight)])
    assert apart(ours(x, causal=True, return_weights=True)[1], weights) < 1e-6


def test_one_query_with_many_keys_as_llama_decodes(x):
    """The last token alone, the others in a cache, gives Llama's last output."""
    theirs, ours, turn = llama(2)
    additive = torch.zeros(TOKENS, TOKENS).masked_fill(~causal_mask(TOKENS), -torch.inf)
    whole, _ = theirs(x, turn(x, torch.arange(TOKENS)[None]), additive[None, None])
    cache = KVCache()
    ours(x[:, :-1], causal=True, cache=cache)
    assert apart(ours(x[:, -1:], causal=True, cache=cache), whole[:, -1:]) < 2e-6
