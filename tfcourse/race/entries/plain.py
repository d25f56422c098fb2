"""The model and the recipe of the lessons: three blocks, AdamW, a cosine"""

import math

import torch
import torch.nn.functional as F

from tfcourse.models import LanguageModel, TransformerConfig

TOKENS, BATCH = 64, 16  # what a step reads
RATE = 3e-3  # the greatest learning rate
WARM_UP = 0.1  # the share of the budget in which the rate rises


def train(text, clock, seed):
    """A model of `text`, trained as long as the clock runs.

    text: a CharacterText, the training part of Python's manual. text.batch(size, tokens, generator)
        gives inputs and targets; part="held out" is for you, to see how well you do.
    clock: clock.running, clock.share (of the budget that is used, 0 to 1), clock.left (seconds).
    seed: of all that is left to chance.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)

    # What it returns is called with (batch, tokens) numbers of characters, at most 128 tokens, and
    # gives (batch, tokens, vocabulary) logits of the next one.
    config = TransformerConfig(len(text.vocabulary), d_model=128, n_heads=4, layers=3, tied=True)
    model = LanguageModel(config).small_embeddings()

    # Weight decay is for matrices; biases and norms go without.
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, RATE)

    while clock.running:
        for group in optimizer.param_groups:
            group["lr"] = RATE * schedule(clock.share)
        inputs, targets = text.batch(BATCH, TOKENS, generator)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


def schedule(share):
    """The learning rate's share of its greatest: a straight rise, then a cosine down to 0.

    It follows the clock and not a number of steps: nobody knows how many there will be.
    """
    if share < WARM_UP:
        return (share + 0.01) / (WARM_UP + 0.01)
    return 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))
