"""What the experiments on text share: a small character model of Python's manual."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from tfcourse.models import LanguageModel
from tfcourse.tasks import CharacterText, python_manual
from tfcourse.training import fit


@functools.cache
def manual() -> CharacterText:
    """Python's manual, its last tenth held out."""
    return CharacterText(python_manual())


def train(model: LanguageModel, *, seed: int, tokens: int, batch: int, steps: int, **options):
    """Fit a model to the manual; the loss of every step. `options` go to `fit`."""
    text, generator = manual(), torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device

    def loss():
        inputs, targets = (ids.to(device) for ids in text.batch(batch, tokens, generator))
        return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    return fit(model, loss, steps=steps, **options)


def thinned(losses: list[float], every: int = 10) -> list[float]:
    """Means over each `every` steps, to four digits: a curve that is read and compared."""
    pieces = [losses[i : i + every] for i in range(0, len(losses), every)]
    return [round(sum(piece) / len(piece), 4) for piece in pieces]
