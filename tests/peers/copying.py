"""Weights of PyTorch's and Hugging Face's layers, copied into ours."""

import torch


@torch.no_grad()
def copy(ours, theirs):
    """Weights and biases of a linear layer, a norm or a table."""
    ours.weight.copy_(theirs.weight)
    if getattr(ours, "bias", None) is not None:
        ours.bias.copy_(theirs.bias)


@torch.no_grad()
def copy_attention(ours, theirs):
    """From `nn.MultiheadAttention`."""
    ours.qkv.weight.copy_(theirs.in_proj_weight)
    ours.qkv.bias.copy_(theirs.in_proj_bias)
    copy(ours.out, theirs.out_proj)


def copy_torch_layer(ours, theirs):
    """From `nn.TransformerEncoderLayer` or `nn.TransformerDecoderLayer`."""
    copy_attention(ours.attention, theirs.self_attn)
    copy(ours.attention_norm, theirs.norm1)
    last = theirs.norm2
    if ours.cross_attention is not None:
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        copy(ours.cross_norm, theirs.norm2)
        last = theirs.norm3
    copy(ours.feed_forward.up, theirs.linear1)
    copy(ours.feed_forward.down, theirs.linear2)
    copy(ours.feed_forward_norm, last)


@torch.no_grad()
def copy_llama_layer(ours, theirs):
    """From Hugging Face's `LlamaDecoderLayer`."""
    rows = [getattr(theirs.self_attn, f"{n}_proj").weight for n in "qkv"]
    ours.attention.qkv.weight.copy_(torch.cat(rows))
    copy(ours.attention.out, theirs.self_attn.o_proj)
    for name in ("up", "gate", "down"):
        copy(getattr(ours.feed_forward, name), getattr(theirs.mlp, f"{name}_proj"))
    copy(ours.attention_norm, theirs.input_layernorm)
    copy(ours.feed_forward_norm, theirs.post_attention_layernorm)


@torch.no_grad()
def copy_gpt2_block(ours, theirs):
    """From Hugging Face's `GPT2Block`, which keeps its matrices the other way round."""
    pairs = [
        (ours.attention.qkv, theirs.attn.c_attn),
        (ours.attention.out, theirs.attn.c_proj),
        (ours.feed_forward.up, theirs.mlp.c_fc),
        (ours.feed_forward.down, theirs.mlp.c_proj),
    ]
    for mine, their in pairs:
        mine.weight.copy_(their.weight.T)
        mine.bias.copy_(their.bias)
    copy(ours.attention_norm, theirs.ln_1)
    copy(ours.feed_forward_norm, theirs.ln_2)


@torch.no_grad()
def copy_bert_layer(ours, theirs):
    """From Hugging Face's `BertLayer`."""
    own = theirs.attention.self
    parts = (own.query, own.key, own.value)
    ours.attention.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
    ours.attention.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
    copy(ours.attention.out, theirs.attention.output.dense)
    copy(ours.attention_norm, theirs.attention.output.LayerNorm)
    copy(ours.feed_forward.up, theirs.intermediate.dense)
    copy(ours.feed_forward.down, theirs.output.dense)
    copy(ours.feed_forward_norm, theirs.output.LayerNorm)
