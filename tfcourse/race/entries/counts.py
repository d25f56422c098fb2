"""The plain model beside a table of counts: what followed the last four characters"""

import torch
import torch.nn.functional as F

from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.race.parts import Counts, WithCounts, adamw, fit_to_clock


def train(text, clock, seed):
    """The table knows in a tenth of a second what the model would need most of the budget for.

    The model's logits are added to the table's log probabilities: it learns only what the table
    does not know. Each place is left out of the counts while the model trains on it, or the table
    would seem to know everything.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    config = TransformerConfig(len(text.vocabulary), d_model=128, n_heads=4, layers=3, tied=True)
    counts = Counts(text.ids(), len(text.vocabulary), longest=4)
    model = WithCounts(LanguageModel(config).small_embeddings(), counts)

    def loss(share):
        inputs, targets = text.batch(16, 64, generator)
        return F.cross_entropy(model(inputs, targets).flatten(0, 1), targets.flatten())

    fit_to_clock(model, [adamw(model.parameters(), 3e-3)], loss, clock)
    return model
