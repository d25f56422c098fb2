"""The block side by side with its peers, forward and backward, causal: `make bench`.

Two tables, of the two kinds of block that are in use. All of one table have the same sizes and do
the same arithmetic, with the kernel that PyTorch's attention chooses. x-transformers has fewer
biases in the first kind (none in its attention and norms) and more in the second (in its gate); the
others have as many parameters as ours, number for number. Hugging Face's Llama computes its
cosines and sines once for all of its layers: here they are outside the clock.
"""

from functools import partial

import torch
from torch import nn
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from x_transformers import Decoder

from benchmarks.side_by_side import compare, describe
from tfcourse.blocks import Block
from tfcourse.positions import Rotary


def plain(d_model, heads, tokens, device):
    """LayerNorm, GELU: name -> (module, call); all causal, none with dropout."""
    d_ff = 4 * d_model
    ours = Block(d_model, heads).to(device)
    torchs = nn.TransformerEncoderLayer(
        d_model, heads, d_ff, dropout=0, activation="gelu", batch_first=True, norm_first=True
    ).to(device)
    may_not = torch.ones(tokens, tokens, dtype=torch.bool, device=device).triu(1)
    config = GPT2Config(
        n_embd=d_model, n_head=heads, n_inner=d_ff, attn_pdrop=0, resid_pdrop=0,
        activation_function="gelu", attn_implementation="sdpa",
    )  # fmt: skip
    gpt2 = GPT2Block(config, layer_idx=0).to(device)
    same_size(ours, torchs, gpt2)
    x_transformers = decoder(d_model, heads).to(device)
    return {
        "ours": (ours, partial(ours, causal=True)),
        "nn.TransformerEncoderLayer": (torchs, partial(torchs, src_mask=may_not, is_causal=True)),
        "Hugging Face GPT-2 (sdpa)": (gpt2, lambda x: first(gpt2(x))),
        "x-transformers (flash)": (x_transformers, x_transformers),
    }


def gated(d_model, heads, tokens, device):
    """RMSNorm, SwiGLU, rotary: name -> (module, call)."""
    d_ff, d_head = 8 * d_model // 3, d_model // heads
    ours = Block(
        d_model, heads, d_ff=d_ff, norm="rms", gated=True, activation="silu", bias=False,
        rotary=Rotary(d_head),
    ).to(device)  # fmt: skip
    config = LlamaConfig(
        hidden_size=d_model, num_attention_heads=heads, num_key_value_heads=heads,
        intermediate_size=d_ff, attn_implementation="sdpa",
    )  # fmt: skip
    llama = LlamaDecoderLayer(config, layer_idx=0).to(device)
    same_size(ours, llama)
    angles = LlamaRotaryEmbedding(config).to(device)
    angles = angles(torch.ones((), device=device), torch.arange(tokens, device=device)[None])
    x_transformers = decoder(
        d_model, heads, use_rmsnorm=True, ff_glu=True, ff_swish=True, ff_no_bias=True,
        ff_mult=d_ff / d_model, rotary_pos_emb=True, rotary_emb_dim=d_head,
    ).to(device)  # fmt: skip
    return {
        "ours": (ours, partial(ours, causal=True)),
        "Hugging Face Llama (sdpa)": (llama, lambda x: first(llama(x, position_embeddings=angles))),
        "x-transformers (flash)": (x_transformers, x_transformers),
    }


def decoder(d_model, heads, **options):
    """One block of x-transformers, without the norm that ends a stack."""
    return Decoder(
        dim=d_model, depth=1, heads=heads, attn_dim_head=d_model // heads, attn_flash=True,
        pre_norm_has_final_norm=False, verbose=False, **options,
    )  # fmt: skip


def same_size(*modules):
    """Make sure that these have as many parameters as each other."""
    sizes = {sum(p.numel() for p in module.parameters()) for module in modules}
    assert len(sizes) == 1, sizes


def first(out):
    """The hidden states, whether they come alone or in a tuple."""
    return out[0] if isinstance(out, tuple) else out


if __name__ == "__main__":
    print(f"\n{describe()}")
    for kind in (plain, gated):
        print(f"\n{kind.__doc__.split(':')[0]}")
        compare(kind)
