"""A whole model: a training step beside Hugging Face's GPT-2, a token with a cache: `make bench`.

The two GPT-2s have the same parameters, number for number, the same batches and the same steps of
AdamW. Both run PyTorch's fused attention.
"""

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.side_by_side import describe
from tfcourse.device import measure_side_by_side, median_interval, pick_device
from tfcourse.models import LanguageModel, TransformerConfig, count_parameters

# d_model, heads, layers, batch, tokens
SIZES = {"d256 h4 L4 B16 T64": (256, 4, 4, 16, 64), "d384 h6 L6 B4 T256": (384, 6, 6, 4, 256)}
VOCABULARY = 103


def pair(d_model, heads, layers, tokens, device):
    """Ours and theirs, of one size; each gives logits of tokens."""
    config = TransformerConfig(
        VOCABULARY, d_model, heads, layers, positions="learned", max_tokens=tokens,
        activation="gelu_tanh", tied=True,
    )  # fmt: skip
    ours = LanguageModel(config).to(device)
    theirs = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY, n_positions=tokens, n_embd=d_model, n_layer=layers,
            n_head=heads, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0, attn_implementation="sdpa",
            bos_token_id=None, eos_token_id=None,
        )
    ).to(device)  # fmt: skip
    assert count_parameters(ours) == count_parameters(theirs)
    return {"ours": (ours, ours), "theirs": (theirs, lambda x: theirs(x, use_cache=False).logits)}


def step(model, logits_of, ids):
    """One step of AdamW on a batch: what `fit` does, without its bookkeeping."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def work():
        loss = F.cross_entropy(logits_of(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return work


def training(device, rounds=21):
    """Tokens a second of ours over theirs, in the same round."""
    print("| size | ours / theirs, tokens a second | ours, tokens a second |\n|---|---|---|")
    for name, (d_model, heads, layers, batch, tokens) in SIZES.items():
        torch.manual_seed(0)
        ids = torch.randint(VOCABULARY, (batch, tokens + 1), device=device)
        models = pair(d_model, heads, layers, tokens, device)
        times = measure_side_by_side(
            {who: step(model, call, ids) for who, (model, call) in models.items()}, rounds
        )
        ratio = median_interval(b / a for a, b in zip(times["ours"], times["theirs"], strict=True))
        speed = batch * tokens / median_interval(times["ours"]).middle
        print(f"| {name} | {ratio} | {speed:,.0f} |")


@torch.no_grad()
def a_token(device, rounds=21):
    """Time of one more token behind 64 and behind 512, with a cache and without."""
    config = TransformerConfig(VOCABULARY, 128, 4, 3)
    model = LanguageModel(config).to(device).eval()
    ids = torch.randint(VOCABULARY, (1, 513), device=device)
    works = {}
    for length in (64, 512):
        caches = model.new_caches()
        model(ids[:, :length], caches=caches)
        held = [(cache.k, cache.v) for cache in caches]

        def cached(caches=caches, held=held, last=ids[:, length : length + 1]):
            for cache, (k, v) in zip(caches, held, strict=True):
                cache.k, cache.v = k, v
            model(last, caches=caches)

        works[f"with a cache, behind {length}"] = cached
        works[f"without, behind {length}"] = lambda text=ids[:, : length + 1]: model(text)
    times = measure_side_by_side(works, rounds)
    print("\n| one more token | ms |\n|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {1000 * median_interval(seconds).middle:.2f} |")
    for way in ("with a cache", "without"):
        pairs = zip(times[f"{way}, behind 512"], times[f"{way}, behind 64"], strict=True)
        print(f"| {way}: behind 512 over behind 64 | {median_interval(a / b for a, b in pairs)} |")


if __name__ == "__main__":
    device = pick_device()
    print(f"\n{describe()}\n\n### A training step\n")
    training(device)
    print("\n### A token")
    a_token(device)
