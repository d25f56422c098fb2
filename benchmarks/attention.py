"""Multi-head attention side by side with its peers, forward and backward, causal: `make bench`.

All have the same sizes. Hugging Face's Llama has no biases and turns queries and keys (rotary),
which ours here does not; its cosines and sines are outside the clock.
"""

import torch
from torch import nn
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from benchmarks.side_by_side import compare, describe
from tfcourse.attention import MultiHeadAttention


def peers(d_model, heads, tokens, device):
    """Name -> (module, call), ours first; all causal, none with dropout."""
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
    angles = angles(torch.ones((), device=device), torch.arange(tokens, device=device)[None])
    return {
        "ours": (ours, lambda x: ours(x, causal=True)),
        "ours, with weights (explicit)": (
            ours,
            lambda x: ours(x, causal=True, return_weights=True)[0],
        ),
        "nn.MultiheadAttention": (
            theirs,
            lambda x: theirs(x, x, x, attn_mask=may_not, is_causal=True, need_weights=False)[0],
        ),
        "Hugging Face GPT-2 (sdpa)": (gpt2, lambda x: gpt2(x)[0]),
        "Hugging Face Llama (sdpa, rotary)": (llama, lambda x: llama(x, angles, None)[0]),
    }


if __name__ == "__main__":
    print(f"\n{describe()}")
    compare(peers)
