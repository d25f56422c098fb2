"""Whole models against PyTorch's and Hugging Face's, with the same weights: logits to 1e-5."""

import pytest
import torch
from torch import nn

from tests.peers.copying import (
    copy,
    copy_bert_layer,
    copy_gpt2_block,
    copy_llama_layer,
    copy_torch_layer,
)
from tests.peers.test_blocks import shake
from tfcourse.attention import causal_mask, padding_mask
from tfcourse.models import Encoder, LanguageModel, Transformer, TransformerConfig

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 0]])
LENGTHS = torch.tensor([3, 5])


def agree(ours, theirs):
    assert ours.shape == theirs.shape
    assert theirs.std() > 0.1
    assert (ours - theirs).abs().max() < 1e-5


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def small(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.15)


@pytest.mark.parametrize("norm_first", [True, False])
@torch.no_grad()
def test_pytorchs_transformer(norm_first):
    config = TransformerConfig(
        11, 24, 3, 2, d_ff=40, activation="relu", positions="sinusoidal", norm_first=norm_first
    )
    theirs = nn.Transformer(
        24, 3, 2, 2, 40, dropout=0.0, activation="relu", batch_first=True, norm_first=norm_first
    ).eval()
    shake(theirs)
    ours = Transformer(config).eval()
    stacks = [(ours.encoder, theirs.encoder), (ours, theirs.decoder)]
    for mine, their in stacks:
        for block, layer in zip(mine.blocks, their.layers, strict=True):
            copy_torch_layer(block, layer)
        if norm_first:
            copy(mine.norm, their.norm)
        else:
            their.norm = None  # the paper's post-norm stack ends with its last block
    source, target = TOKENS, torch.tensor([[7, 0, 2, 8], [1, 10, 3, 3]])
    read, hide = ours.encoder.embed(source), torch.arange(5) >= LENGTHS[:, None]
    out = theirs(
        read, ours.embed(target), tgt_mask=~causal_mask(4),
        src_key_padding_mask=hide, memory_key_padding_mask=hide,
    )  # fmt: skip
    agree(ours(source, target, padding_mask(LENGTHS, 5)), ours.head(out))


@torch.no_grad()
def test_hugging_faces_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=11, n_positions=8, n_embd=24, n_layer=2, n_head=3)
    ).eval()
    small(theirs)
    config = TransformerConfig(
        11, 24, 3, 2, positions="learned", max_tokens=8, activation="gelu_tanh", tied=True
    )
    ours = LanguageModel(config).eval()
    copy(ours.embed.tokens, theirs.transformer.wte)
    copy(ours.embed.positions.table, theirs.transformer.wpe)
    for block, layer in zip(ours.blocks, theirs.transformer.h, strict=True):
        copy_gpt2_block(block, layer)
    copy(ours.norm, theirs.transformer.ln_f)
    agree(ours(TOKENS), theirs(TOKENS).logits)


@torch.no_grad()
def test_hugging_faces_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=11, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
            num_attention_heads=6, num_key_value_heads=2, rms_norm_eps=1e-5,
        )
    ).eval()  # fmt: skip
    small(theirs)
    config = TransformerConfig(
        11, 24, 6, 2, n_kv_heads=2, d_ff=40, norm="rms", activation="silu", gated=True,
        bias=False, rotary_layout="split-half",
    )  # fmt: skip
    ours = LanguageModel(config).eval()
    copy(ours.embed.tokens, theirs.model.embed_tokens)
    for block, layer in zip(ours.blocks, theirs.model.layers, strict=True):
        copy_llama_layer(block, layer)
    copy(ours.norm, theirs.model.norm)
    copy(ours.head, theirs.lm_head)
    agree(ours(TOKENS), theirs(TOKENS).logits)


@torch.no_grad()
def test_hugging_faces_bert():
    from transformers import BertConfig, BertForMaskedLM

    theirs = BertForMaskedLM(
        BertConfig(
            vocab_size=11, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=40, max_position_embeddings=8, type_vocab_size=2,
        )
    ).eval()  # fmt: skip
    small(theirs)
    config = TransformerConfig(
        11, 24, 3, 2, d_ff=40, positions="learned", max_tokens=8, norm_first=False, eps=1e-12,
        segments=2, embedding_norm=True,
    )  # fmt: skip
    ours, read = Encoder(config).eval(), theirs.bert.embeddings
    copy(ours.embed.tokens, read.word_embeddings)
    copy(ours.embed.positions.table, read.position_embeddings)
    copy(ours.embed.segments, read.token_type_embeddings)
    copy(ours.embed.norm, read.LayerNorm)
    for block, layer in zip(ours.blocks, theirs.bert.encoder.layer, strict=True):
        copy_bert_layer(block, layer)
    segments = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]])
    real = torch.arange(5) < LENGTHS[:, None]
    out = theirs(TOKENS, attention_mask=real.long(), token_type_ids=segments).logits
    mine = theirs.cls(ours(TOKENS, padding_mask(LENGTHS, 5), segments))
    agree(mine[real], out[real])  # what stands at a filler is nobody's affair
