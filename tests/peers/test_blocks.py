"""The block against PyTorch's layers and Hugging Face's, with the same weights."""

import pytest
import torch
from torch import nn

from tfcourse.attention import causal_mask, padding_mask
from tfcourse.blocks import Block
from tfcourse.positions import Rotary

BATCH, TOKENS, KEYS, D_MODEL, HEADS, D_FF = 2, 5, 7, 24, 3, 40


def copy(ours, theirs):
    """Weights and biases of a linear layer or a norm."""
    with torch.no_grad():
        ours.weight.copy_(theirs.weight)
        if ours.bias is not None:
            ours.bias.copy_(theirs.bias)


def copy_attention(ours, theirs):
    with torch.no_grad():
        ours.qkv.weight.copy_(theirs.in_proj_weight)
        ours.qkv.bias.copy_(theirs.in_proj_bias)
    copy(ours.out, theirs.out_proj)


def agree(ours, theirs, x):
    assert (ours - theirs).abs().max() < 1e-5
    probe = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1))
    mine, yours = (
        torch.autograd.grad((y * probe).sum(), x, retain_graph=True)[0] for y in (ours, theirs)
    )
    assert (mine - yours).abs().max() < 1e-4


def shake(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(BATCH, TOKENS, D_MODEL, requires_grad=True)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("kind", ["plain", "causal", "padding"])
def test_pytorchs_encoder_layer(x, norm_first, kind):
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, dropout=0, activation="gelu", batch_first=True, norm_first=norm_first
    )
    shake(theirs)
    ours = Block(D_MODEL, HEADS, d_ff=D_FF, norm_first=norm_first)
    copy_attention(ours.attention, theirs.self_attn)
    copy(ours.attention_norm, theirs.norm1)
    copy(ours.feed_forward.up, theirs.linear1)
    copy(ours.feed_forward.down, theirs.linear2)
    copy(ours.feed_forward_norm, theirs.norm2)
    lengths = torch.tensor([3, 5])
    given = {
        "plain": {},
        "causal": {"causal": True},
        "padding": {"mask": padding_mask(lengths, TOKENS)},
    }
    options = {
        "plain": {},
        "causal": {"src_mask": ~causal_mask(TOKENS)},
        "padding": {"src_key_padding_mask": torch.arange(TOKENS) >= lengths[:, None]},
    }
    agree(ours(x, **given[kind]), theirs(x, **options[kind]), x)


@pytest.mark.parametrize("norm_first", [True, False])
def test_pytorchs_decoder_layer(x, norm_first):
    theirs = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_FF, dropout=0, activation="relu", batch_first=True, norm_first=norm_first
    )
    shake(theirs)
    ours = Block(D_MODEL, HEADS, d_ff=D_FF, norm_first=norm_first, activation="relu", cross=True)
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy(ours.attention_norm, theirs.norm1)
    copy(ours.cross_norm, theirs.norm2)
    copy(ours.feed_forward.up, theirs.linear1)
    copy(ours.feed_forward.down, theirs.linear2)
    copy(ours.feed_forward_norm, theirs.norm3)
    context, lengths = torch.randn(BATCH, KEYS, D_MODEL), torch.tensor([4, 7])
    out = theirs(
        x, context, tgt_mask=~causal_mask(TOKENS),
        memory_key_padding_mask=torch.arange(KEYS) >= lengths[:, None],
    )  # fmt: skip
    agree(ours(x, context, causal=True, context_mask=padding_mask(lengths, KEYS)), out, x)


@pytest.mark.parametrize("n_kv_heads", [3, 1])
def test_hugging_faces_llama_layer(x, n_kv_heads):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=D_MODEL, intermediate_size=D_FF, num_attention_heads=HEADS,
        num_key_value_heads=n_kv_heads, attn_implementation="eager", rms_norm_eps=1e-5,
    )  # fmt: skip
    theirs = LlamaDecoderLayer(config, layer_idx=0).eval()
    shake(theirs)
    ours = Block(
        D_MODEL, HEADS, n_kv_heads, D_FF, norm="rms", activation="silu", gated=True, bias=False,
        rotary=Rotary(D_MODEL // HEADS, layout="split-half"),
    )  # fmt: skip
    rows = [getattr(theirs.self_attn, f"{n}_proj").weight for n in "qkv"]
    with torch.no_grad():
        ours.attention.qkv.weight.copy_(torch.cat(rows))
        ours.attention.out.weight.copy_(theirs.self_attn.o_proj.weight)
        for name in ("up", "gate", "down"):
            getattr(ours.feed_forward, name).weight.copy_(
                getattr(theirs.mlp, f"{name}_proj").weight
            )
        ours.attention_norm.weight.copy_(theirs.input_layernorm.weight)
        ours.feed_forward_norm.weight.copy_(theirs.post_attention_layernorm.weight)
    angles = LlamaRotaryEmbedding(config)(x, torch.arange(TOKENS)[None])
    additive = torch.zeros(TOKENS, TOKENS).masked_fill(~causal_mask(TOKENS), -torch.inf)
    out = theirs(x, attention_mask=additive[None, None], position_embeddings=angles)
    agree(ours(x, causal=True), out[0] if isinstance(out, tuple) else out, x)


def test_hugging_faces_gpt2_block(x):
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    config = GPT2Config(
        n_embd=D_MODEL, n_head=HEADS, n_inner=D_FF, attn_pdrop=0, resid_pdrop=0,
        attn_implementation="eager",
    )  # fmt: skip
    theirs = GPT2Block(config, layer_idx=0).eval()
    shake(theirs)
    ours = Block(D_MODEL, HEADS, d_ff=D_FF, activation="gelu_tanh")
    pairs = [
        (ours.attention.qkv, theirs.attn.c_attn),
        (ours.attention.out, theirs.attn.c_proj),
        (ours.feed_forward.up, theirs.mlp.c_fc),
        (ours.feed_forward.down, theirs.mlp.c_proj),
    ]
    with torch.no_grad():  # GPT-2 keeps its matrices the other way round
        for mine, their in pairs:
            mine.weight.copy_(their.weight.T)
            mine.bias.copy_(their.bias)
    copy(ours.attention_norm, theirs.ln_1)
    copy(ours.feed_forward_norm, theirs.ln_2)
    additive = torch.zeros(TOKENS, TOKENS).masked_fill(~causal_mask(TOKENS), -torch.inf)
    out = theirs(x, attention_mask=additive[None, None])
    agree(ours(x, causal=True), out[0] if isinstance(out, tuple) else out, x)


def test_hugging_faces_bert_layer(x):
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    config = BertConfig(
        hidden_size=D_MODEL, num_attention_heads=HEADS, intermediate_size=D_FF,
        attention_probs_dropout_prob=0, hidden_dropout_prob=0, hidden_act="gelu",
        attn_implementation="eager", layer_norm_eps=1e-5,
    )  # fmt: skip
    theirs = BertLayer(config).eval()
    shake(theirs)
    ours = Block(D_MODEL, HEADS, d_ff=D_FF, norm_first=False)
    own = theirs.attention.self
    with torch.no_grad():
        parts = (own.query, own.key, own.value)
        ours.attention.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
        ours.attention.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
    copy(ours.attention.out, theirs.attention.output.dense)
    copy(ours.attention_norm, theirs.attention.output.LayerNorm)
    copy(ours.feed_forward.up, theirs.intermediate.dense)
    copy(ours.feed_forward.down, theirs.output.dense)
    copy(ours.feed_forward_norm, theirs.output.LayerNorm)
    mask = padding_mask(torch.tensor([3, 5]), TOKENS)
    additive = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    out = theirs(x, attention_mask=additive)
    agree(ours(x, mask=mask), out[0] if isinstance(out, tuple) else out, x)
