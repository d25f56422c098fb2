"""B1: deeper and deeper, with and without the residual path (lesson 06)."""

from __future__ import annotations

import torch

from tfcourse.blocks import Block
from tfcourse.experiments import record
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.models import LanguageModel

SETTINGS = {"depths": [1, 2, 4, 8, 16, 32], "seeds": [0, 1, 2], "steps": 150}


class Chained(Block):
    """A block that passes on only what its sub-layers make of x, not x itself."""

    def _add(self, x, sublayer, norm):
        return sublayer(norm(x))


KINDS = {"with the residual": Block, "without": Chained}


def run(*, depths, seeds, steps, say=lambda words: None, watch=None) -> dict:
    """The loss of the last tenth of the steps for each kind and depth, one for each seed."""
    text, results = manual(), {}
    for kind, block in KINDS.items():
        results[kind] = {}
        for depth in depths:
            ends, curves = [], []
            for seed in seeds:
                torch.manual_seed(seed)
                model = LanguageModel(len(text.vocabulary), 64, 4, depth, block=block)
                curve = train(
                    model, seed=seed, tokens=48, batch=16, steps=steps, learning_rate=1e-3,
                    warm_up=steps // 10, clip=1.0, watch=watch,
                )  # fmt: skip
                ends.append(sum(curve[-steps // 10 :]) / len(curve[-steps // 10 :]))
                curves.append(thinned(curve))
            results[kind][str(depth)] = {"losses": ends, "curves": curves}
            say(f"{kind}, {depth} blocks: " + ", ".join(f"{x:.3f}" for x in ends))
    results["only the frequencies"] = text.unigram_entropy()
    return results


if __name__ == "__main__":
    record("depths", run, **SETTINGS)
