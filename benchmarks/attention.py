"""Multi-head attention side by side with its peers, forward and backward, causal: `make bench`.

All run interleaved in one process; each figure is the median ratio to `MultiHeadAttention` over the
rounds, with the middle half of the ratios behind it.
"""

import platform
import statistics
import time

import torch
from torch import nn
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from tfcourse.attention import MultiHeadAttention
from tfcourse.device import describe_device, pick_device

SIZES = [  # d_model, heads, batch, tokens
    (512, 8, 4, 256),
    (256, 4, 16, 64),
    (512, 8, 1, 1024),
]
ROUNDS = 15


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


def seconds(attend, x, device):
    """Seconds of one forward and backward pass."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    attend(x).sum().backward()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main():
    """Measure and print a table."""
    torch.manual_seed(0)
    device = pick_device()
    columns = {}
    for d_model, heads, batch, tokens in SIZES:
        attends = peers(d_model, heads, tokens, device)
        x = torch.randn(batch, tokens, d_model, device=device, requires_grad=True)
        for attend in attends.values():
            seconds(attend, x, device)
        rounds = [{n: seconds(a, x, device) for n, a in attends.items()} for _ in range(ROUNDS)]
        base = next(iter(attends))
        for name in attends:
            ratios = [r[name] / r[base] for r in rounds]
            low, middle, high = statistics.quantiles(ratios, n=4)
            columns.setdefault(name, []).append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
    heads = [f"d{d} h{h} B{b} T{t}" for d, h, b, t in SIZES]
    print(f"\ntorch {torch.__version__}, {describe_device(device)}, {platform.machine()}\n")
    print(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name, cells in columns.items():
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
