"""Multi-head attention side by side with its peers, forward and backward, causal: `make bench`.

All run interleaved in one process; each figure is the median ratio to `MultiHeadAttention` over the
rounds, with the middle half of the ratios behind it.
"""

import torch
from torch import nn
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from benchmarks.side_by_side import compare
from tfcourse.attention import MultiHeadAttention


def peers(d_model, heads, tokens, device):
    """Name -> a function of x; all causal, none with dropout."""
    ours = MultiHeadAttention(d_model, heads).to(device)
    theirs = nn.MultiheadAttention(d_model, heads, batch_first=True).to(device)
    may_not = torch.ones(tokens, tokens, dtype=torch.bool, device=device).triu(1)
    options = {"attn_implementation": "sdpa"}
    gpt2 = GPT2Config(n_embd=d_model, n_head=heads, attn_pdrop=0, resid_pdrop=0, **options)
    gpt2 = GPT2Attention(gpt2, layer_idx=0).to(device)
    config = LlamaConfig(
        hidden_size=d_model, num_attention_heads=heads, num_key_value_heads=heads, **options
    )
    llama = LlamaAttention(config, layer_idx=0).to(device)
    angles = LlamaRotaryEmbedding(config).to(device)
    positions = torch.arange(tokens, device=device)[None]
    return {
        "tfcourse MultiHeadAttention": lambda x: ours(x, causal=True),
        "the same, with weights (explicit)": lambda x: ours(x, causal=True, return_weights=True)[0],
        "nn.MultiheadAttention": lambda x: theirs(
            x, x, x, attn_mask=may_not, is_causal=True, need_weights=False
        )[0],
        "Hugging Face GPT-2 (sdpa)": lambda x: gpt2(x)[0],
        "Hugging Face Llama (sdpa, rotary)": lambda x: llama(x, angles(x, positions), None)[0],
    }


if __name__ == "__main__":
    compare(peers)
