"""M2: an encoder and a decoder learn to write dates as 2021-03-03 (lesson 08).

    python -m tfcourse.experiments.dates

The control learns from the same sources and the same targets, paired at random: whatever it gets
right it owes to the form of a date alone.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F

from tfcourse.attention import padding_mask
from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, Claim, Judged, lower, paired
from tfcourse.experiments import main, mean_and_spread
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses, study
from tfcourse.generation import translate
from tfcourse.inside import attention_maps
from tfcourse.models import Transformer, TransformerConfig
from tfcourse.tasks import MONTHS, Dates, Pairs
from tfcourse.training import fit

BATCH, HELD_OUT, LENGTH = 64, 2000, 10
PARTS = ("year", "month", "day")
WHOLE, SHUFFLED, NO_POSITIONS = "whole", "shuffled pairs", "no positions"
ARMS = {
    WHOLE: {},
    NO_POSITIONS: {"positions": "none"},
    SHUFFLED: {},
}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [1e-3, 3e-3, 1e-2],
    "pilot_seeds": [100],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 500,
}


def make(arm: str = WHOLE) -> Transformer:
    """Two blocks that read and two that write, d_model = 64, four heads."""
    options = {"positions": "learned", "max_tokens": 40, **ARMS[arm]}
    return Transformer(TransformerConfig(len(Dates().vocabulary), 64, 4, 2, **options))


def loss_of(model: Transformer, pairs: Pairs) -> torch.Tensor:
    """Cross-entropy in nats of each next token, the ones before it given: teacher forcing."""
    mask = padding_mask(pairs.lengths, pairs.source.shape[1])
    logits = model(pairs.source, pairs.target[:, :-1], mask)
    return F.cross_entropy(logits.mT, pairs.target[:, 1:])


def train(arm: str, *, rate: float, seed: int, steps: int, watch=None, **options):
    """A model trained once, and the loss of every step; `options` go to `fit`."""
    torch.manual_seed(seed)
    model, dates = make(arm), Dates()
    generator = torch.Generator().manual_seed(seed)

    def loss():
        pairs = dates.batch(BATCH, generator)
        if arm == SHUFFLED:
            other = torch.randperm(BATCH, generator=generator)
            pairs = Pairs(pairs.source, pairs.lengths, pairs.target[other])
        return loss_of(model, pairs)

    recipe = {"warm_up": steps // 10, "decay": True, "clip": 1.0} | options
    return model, fit(model, loss, steps=steps, learning_rate=rate, watch=watch, **recipe)


@torch.no_grad()
def exact(model: Transformer, *, count: int = HELD_OUT, part: str = "held out") -> float:
    """The share of dates that come out right to the last digit, written freely, one by one."""
    dates = Dates()
    pairs = dates.batch(count, torch.Generator().manual_seed(7), part)
    mask = padding_mask(pairs.lengths, pairs.source.shape[1])
    written = translate(
        model, pairs.source, mask, start=dates.START, stop=dates.STOP, new_tokens=LENGTH + 2
    )
    wanted = [row[1:-1] for row in pairs.target.tolist()]
    return sum(row == right for row, right in zip(written, wanted, strict=True)) / count


@torch.no_grad()
def held_out(model: Transformer) -> float:
    """The held-out loss, with teacher forcing."""
    generator = torch.Generator().manual_seed(8)
    return loss_of(model, Dates().batch(HELD_OUT, generator, "held out")).item()


def spelled(count: int, seed: int = 9) -> tuple[Pairs, list[tuple[str, str]]]:
    """Held-out dates whose month is a word: there it is plain where each digit comes from."""
    dates, kept = Dates(), []
    for pair in dates.texts(2 * count, torch.Generator().manual_seed(seed), "held out"):
        if any(month[:3] in pair[0] for month in MONTHS):
            kept.append(pair)
    kept = kept[:count]
    source, lengths = dates.encode([text for text, _ in kept])
    target, _ = dates.encode([text for _, text in kept])
    start = torch.full((len(kept), 1), dates.START)
    return Pairs(source, lengths, torch.cat([start, target], dim=1)), kept


def sources_of(text: str, iso: str) -> dict[str, list[list[int]]]:
    """For each digit of year, month and day in `iso`, the places in `text` that it comes from."""
    year, day = text.index(iso[:4]), str(int(iso[8:]))
    word = next(m for m in (MONTHS[int(iso[5:7]) - 1], MONTHS[int(iso[5:7]) - 1][:3]) if m in text)
    letters = list(range(text.index(word), text.index(word) + len(word)))
    digits = [i for i, c in enumerate(text) if c.isdigit() and not year <= i < year + 4]
    tens = [digits[0]] if len(day) == 2 else digits
    return {
        "year": [[year + i] for i in range(4)],
        "month": [letters, letters],
        "day": [tens, [digits[-1]]],
    }


@torch.no_grad()
def alignment(model: Transformer, *, count: int = 200) -> dict[str, list[float]]:
    """How much of the cross-attention goes where the digit comes from, by part and block.

    The mean over heads, digits and dates, asked at the position that has to write the digit.
    "evenly" is what even attention over the source would give.
    """
    pairs, texts = spelled(count)
    model.eval()
    with attention_maps(model) as maps:
        model(pairs.source, pairs.target, padding_mask(pairs.lengths, pairs.source.shape[1]))
    layers = [maps[f"blocks.{i}.cross_attention"].mean(1) for i in range(len(model.blocks))]
    first = {"year": 0, "month": 5, "day": 8}  # in 2021-03-03; the query before writes it
    found = {}
    for part, start in first.items():
        by_layer, even = [[] for _ in layers], []
        for row, (text, iso) in enumerate(texts):
            for i, places in enumerate(sources_of(text, iso)[part]):
                even.append(len(places) / len(text))
                for shares, weights in zip(by_layer, layers, strict=True):
                    shares.append(weights[row, start + i, places].sum().item())
        found[part] = [round(sum(s) / len(s), 4) for s in by_layer]
        found[f"{part}, evenly"] = [round(sum(even) / len(even), 4)]
    return found


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once: exact matches on unseen days, the loss, the alignment before and after."""
    torch.manual_seed(seed)
    before = alignment(make(arm))
    began = time.monotonic()
    model, curve = train(arm, rate=rate, seed=seed, steps=steps, watch=watch)
    seconds = time.monotonic() - began
    return {
        "loss": round(held_out(model), 5),
        "exact": exact(model),
        "alignment": alignment(model),
        "alignment before": before,
        "seconds": round(seconds, 1),
        "curve": thinned(curve),
    }


def run(*, arms, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own learning rate, on the same seeds."""
    return study(one, arms, say=say, watch=watch, **settings)


# --- what is decided -------------------------------------------------------------------------


def _learned(results):
    shares = losses(results, WHOLE, key="exact")
    mean, spread = mean_and_spread(shares)
    said = f"{mean:.2%} ± {spread:.2%} of unseen days, the worst run {min(shares):.2%}"
    if min(shares) >= 0.99:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if mean < 0.99 else CANNOT_TELL)


def _reads(results):
    mean, _ = mean_and_spread(losses(results, SHUFFLED, key="exact"))
    gap = paired(losses(results, WHOLE), losses(results, SHUFFLED))
    said = f"paired at random {mean:.2%} exact; whole − paired at random {gap} nats"
    verdict = lower(gap, 0.1)
    return Judged(said, verdict if mean < 0.01 else NOT_HERE)


def _aligned(results):
    """In every run, year, month and day: at least twice the even share; in the controls never."""
    trained, others = [], []
    for arm, key, into in (
        (WHOLE, "alignment", trained),
        (WHOLE, "alignment before", others),
        (SHUFFLED, "alignment", others),
    ):
        for run in losses(results, arm, key=key):
            into += [max(run[part]) / run[f"{part}, evenly"][0] for part in PARTS]
    said = (
        f"at least {min(trained):.1f} times the even share in trained models; in the untrained and "
        f"those of random pairs at most {max(others):.1f} times"
    )
    if min(trained) >= 2 > max(others):
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if min(trained) < 2 else CANNOT_TELL)


def _positions(results):
    gap = paired(losses(results, WHOLE), losses(results, NO_POSITIONS))
    exact, _ = mean_and_spread(losses(results, NO_POSITIONS, key="exact"))
    return Judged(f"with − without {gap} nats; without them {exact:.1%} exact", lower(gap, 0.05))


CLAIMS = (
    Claim(
        "dates-are-learned",
        "Two blocks that read and two that write learn dates to 99%, on days that they have never "
        "seen, in 500 steps.",
        "Holds if the worst of the runs writes at least 99% of 2000 unseen days without a mistake; "
        "does not if their mean is below.",
        _learned,
    ),
    Claim(
        "it-reads-the-source",
        "What it writes it has read in the source: the form of a date alone is not enough.",
        "Holds if the same model, trained on sources and targets paired at random, gets less than "
        "1% right and loses at least 0.1 nats more, by the interval of the paired difference.",
        _reads,
    ),
    Claim(
        "looks-where-it-comes-from",
        "The cross-attention of a trained translator looks at the characters that a digit comes "
        "from.",
        "Holds if in every run, for year, month and day, the better of the two blocks puts twice "
        "the even share there or more, and no untrained model and none of random pairs does.",
        _aligned,
    ),
    Claim(
        "positions-for-dates",
        "To read dates, a translator needs positions.",
        "Holds if without any positions it loses at least 0.05 nats more, by the interval of the "
        "paired difference.",
        _positions,
    ),
)

if __name__ == "__main__":
    main("dates", run, SETTINGS, CLAIMS)
