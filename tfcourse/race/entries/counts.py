"""The plain model beside a table of counts: what followed the last four characters"""

import torch
import torch.nn.functional as F

from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.race.parts import Folds, WithCounts, adamw, fit_to_clock


def train(text, clock, seed):
    """The table knows in a tenth of a second what the model would need most of the budget for.

    The model's logits are added to the table's log probabilities: it learns only what the table
    does not know. It trains on a fifth of the text at a time, beside a table of the other four:
    beside a table of all, it would learn to trust it too much.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    config = TransformerConfig(len(text.vocabulary), d_model=128, n_heads=4, layers=3, tied=True)
    folds = Folds(text.ids(), len(text.vocabulary), longest=4)
    model = WithCounts(LanguageModel(config).small_embeddings(), folds.all)

    def loss(share):
        inputs, targets = folds.batch(model, 16, 64, generator)
        return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    fit_to_clock(model, [adamw(model.parameters(), 3e-3)], loss, clock)
    model.counts = folds.all
    return model
