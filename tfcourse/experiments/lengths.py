"""P5: trained on 64 tokens, what is each kind of position worth on 96 and 128? (lesson 03)"""

from __future__ import annotations

import torch

from tfcourse.experiments import record
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.models import LanguageModel

SETTINGS = {
    "kinds": ["learned", "sinusoidal", "rotary", "alibi", "none"],
    "seeds": [0, 1, 2],
    "steps": 600,
    "tokens": 64,
}


def run(*, kinds, seeds, steps, tokens, say=lambda words: None, watch=None) -> dict:
    """Held-out loss in nats for each kind and seed.

    "inside": the mean over the trained positions. "1.5" and "2": the mean over the positions
    *beyond* the trained length, in windows 1.5 and 2 times as long. "by_position": every position
    of the longest windows.
    """
    text, results = manual(), {}
    for kind in kinds:
        results[kind] = []
        for seed in seeds:
            torch.manual_seed(seed)
            model = LanguageModel(
                len(text.vocabulary), 64, 4, 2, positions=kind, max_tokens=2 * tokens
            ).small_embeddings()
            curve = train(
                model, seed=seed, tokens=tokens, batch=32, steps=steps, learning_rate=3e-3,
                warm_up=steps // 10, decay=True, clip=1.0, watch=watch,
            )  # fmt: skip
            longest = text.losses(model, 2 * tokens, windows=256).mean(0)
            middle = text.losses(model, 3 * tokens // 2, windows=256).mean(0)
            found = {
                "inside": longest[:tokens].mean().item(),
                "1.5": middle[tokens:].mean().item(),
                "2": longest[tokens:].mean().item(),
                "by_position": [round(x, 3) for x in longest.tolist()],
                "curve": thinned(curve),
            }
            results[kind].append(found)
            say(f"{kind} seed {seed}: " + ", ".join(
                f"{name} {found[name]:.3f}" for name in ("inside", "1.5", "2")))  # fmt: skip
    return results


if __name__ == "__main__":
    record("lengths", run, **SETTINGS)
