"""B5: norm before or after, at several learning rates, with no warm-up (lesson 06)."""

from __future__ import annotations

import torch

from tfcourse.experiments import record
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.models import LanguageModel

SETTINGS = {
    "learning_rates": [3e-4, 1e-3, 3e-3, 1e-2],
    "seeds": [0, 1, 2],
    "steps": 200,
    "warm_ups": [0, 100],
}
PLACES = {"pre-norm": True, "post-norm": False}


def run(
    *, learning_rates, seeds, steps, warm_ups=(0,), places=None, say=lambda words: None, watch=None
) -> dict:
    """The loss of the last 20 steps, and the curve, for each place, warm-up, rate and seed.

    6 layers, d_model 256, 4 heads, d_ff 1024, 48 characters, batch 8, AdamW without weight decay
    or clipping, PyTorch's own initialisation: as one would write it without a second thought.
    """
    text, results = manual(), []
    for warm_up in warm_ups:
        for place in places or PLACES:
            for rate in learning_rates:
                for seed in seeds:
                    torch.manual_seed(seed)
                    model = LanguageModel(
                        len(text.vocabulary), 256, 4, 6, d_ff=1024, positions="sinusoidal",
                        norm_first=PLACES[place],
                    ).small_embeddings()  # fmt: skip
                    curve = train(
                        model, seed=seed, tokens=48, batch=8, steps=steps,
                        learning_rate=rate, warm_up=warm_up, watch=watch,
                    )  # fmt: skip
                    end = sum(curve[-20:]) / len(curve[-20:])
                    results.append(
                        {
                            "place": place,
                            "warm_up": warm_up,
                            "learning_rate": rate,
                            "seed": seed,
                            "loss": end,
                            "curve": thinned(curve),
                        }
                    )
                    say(f"{place}, warm-up {warm_up}, rate {rate:g}, seed {seed}: {end:.3f}")
    return {"runs": results, "only the frequencies": text.unigram_entropy()}


if __name__ == "__main__":
    record("norm_places", run, **SETTINGS)
