"""The block against PyTorch's layers and Hugging Face's, with the same weights."""

import pytest
import torch
from torch import nn

from tests.peers.copying import (
    copy_bert_layer,
    copy_gpt2_block,
    copy_llama_layer,
    copy_torch_layer,
)
from tfcourse.attention import causal_mask, padding_mask
from tfcourse.blocks import Block
from tfcourse.positions import Rotary

BATCH, TOKENS, KEYS, D_MODEL, HEADS, D_FF = 2, 5, 7, 24, 3, 40


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
    copy_torch_layer(ours, theirs)
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
    copy_torch_layer(ours, theirs)
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
    copy_llama_layer(ours, theirs)
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
    copy_gpt2_block(ours, theirs)
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
    copy_bert_layer(ours, theirs)
    mask = padding_mask(torch.tensor([3, 5]), TOKENS)
    additive = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    out = theirs(x, attention_mask=additive)
    agree(ours(x, mask=mask), out[0] if isinstance(out, tuple) else out, x)
