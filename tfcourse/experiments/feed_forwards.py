"""F5: ReLU, GELU, GeGLU and SwiGLU at equal parameters (lesson 05)."""

from __future__ import annotations

import torch

from tfcourse.experiments import record
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.models import LanguageModel

SETTINGS = {"seeds": [0, 1, 2, 3, 4], "steps": 500}
D_MODEL = 96
KINDS = {  # 2 · 96 · 384 = 3 · 96 · 256 numbers in each
    "ReLU": {"activation": "relu", "d_ff": 384},
    "GELU": {"activation": "gelu", "d_ff": 384},
    "GeGLU": {"activation": "gelu", "gated": True, "d_ff": 256},
    "SwiGLU": {"activation": "silu", "gated": True, "d_ff": 256},
}


def run(*, seeds, steps, kinds=None, say=lambda words: None, watch=None) -> dict:
    """Held-out loss in nats for each feed-forward and seed."""
    return compare(KINDS, kinds, seeds=seeds, steps=steps, say=say, watch=watch, bias=False)


def compare(options, kinds, *, seeds, steps, say, watch, **common) -> dict:
    """Train the same three-layer model with the options of each kind (None: all), same seeds."""
    text, results = manual(), {}
    for name in kinds or options:
        results[name] = {"losses": [], "curves": []}
        for seed in seeds:
            torch.manual_seed(seed)
            model = LanguageModel(len(text.vocabulary), D_MODEL, 4, 3, **common, **options[name])
            model.small_embeddings()
            curve = train(
                model, seed=seed, tokens=64, batch=32, steps=steps, learning_rate=3e-3,
                warm_up=steps // 10, decay=True, clip=1.0, watch=watch,
            )  # fmt: skip
            results[name]["losses"].append(text.losses(model, 64, windows=512).mean().item())
            results[name]["curves"].append(thinned(curve, 25))
            results[name]["parameters"] = sum(p.numel() for p in model.blocks.parameters())
            say(f"{name} seed {seed}: {results[name]['losses'][-1]:.4f}")
    return results


if __name__ == "__main__":
    record("feed_forwards", run, **SETTINGS)
