"""The block side by side with its peers, forward and backward, causal: `make bench`.

Each figure is the median ratio to the package's pre-norm block of GPT-2's kind, over rounds in
which all run in turn, with the middle half of the ratios behind it.
"""

import torch
from torch import nn
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from benchmarks.side_by_side import compare
from tfcourse.blocks import Block
from tfcourse.positions import Rotary


def first(out):
    """The hidden states, whether they come alone or in a tuple."""
    return out[0] if isinstance(out, tuple) else out


def peers(d_model, heads, tokens, device):
    """Name -> a function of x; all causal, none with dropout."""
    d_ff = 4 * d_model
    gated = 8 * d_model // 3
    ours = Block(d_model, heads).to(device)
    ours_llama = Block(
        d_model, heads, d_ff=gated, norm="rms", gated=True, activation="silu", bias=False,
        rotary=Rotary(d_model // heads, layout="split-half"),
    ).to(device)  # fmt: skip
    theirs = nn.TransformerEncoderLayer(
        d_model, heads, d_ff, dropout=0, activation="gelu", batch_first=True, norm_first=True
    ).to(device)
    may_not = torch.ones(tokens, tokens, dtype=torch.bool, device=device).triu(1)
    options = {"attn_implementation": "sdpa"}
    config = GPT2Config(
        n_embd=d_model, n_head=heads, n_inner=d_ff, attn_pdrop=0, resid_pdrop=0, **options
    )
    gpt2 = GPT2Block(config, layer_idx=0).to(device)
    config = LlamaConfig(
        hidden_size=d_model, num_attention_heads=heads, num_key_value_heads=heads,
        intermediate_size=gated, **options,
    )  # fmt: skip
    llama = LlamaDecoderLayer(config, layer_idx=0).to(device)
    angles = LlamaRotaryEmbedding(config).to(device)
    positions = torch.arange(tokens, device=device)[None]
    return {
        "tfcourse Block (LayerNorm, GELU)": lambda x: ours(x, causal=True),
        "nn.TransformerEncoderLayer": lambda x: theirs(x, src_mask=may_not, is_causal=True),
        "Hugging Face GPT-2 (sdpa)": lambda x: first(gpt2(x)),
        "tfcourse Block (RMSNorm, SwiGLU, rotary)": lambda x: ours_llama(x, causal=True),
        "Hugging Face Llama (sdpa)": lambda x: first(
            llama(x, position_embeddings=angles(x, positions))
        ),
    }


if __name__ == "__main__":
    compare(peers)
