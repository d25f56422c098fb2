"""What pays in the race: the plain entry, each change by itself, and the mixture (race).

The race is run by the clock; this is its form that can be repeated. Every arm has the budget of
`steps` reference steps, half a race. What a step of the arm costs, and what it takes to begin, was
measured once, in reference steps (`costs` in the settings), by

    python -c "from tfcourse.experiments.race import costs; print(costs())"

and the number of its steps follows from that.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    Claim,
    Judged,
    alike,
    lower,
    paired,
)
from tfcourse.experiments import main
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.race import judge, parts
from tfcourse.race.clock import StepClock, processor_seconds, reference_seconds
from tfcourse.tasks import CharacterText

ARMS = {
    "plain": {},
    "128 from the start": {"tokens": (128,)},
    "short first": {"tokens": (32, 64, 128)},
    "two blocks": {"config": {"layers": 2}},
    "ReLU squared": {"squared": True},
    "hold, then fall": {"schedule": parts.hold_then_fall},
    "Muon": {"muon": True},
    "RMSNorm, no biases": {"config": {"norm": "rms", "bias": False}},
    "hashed contexts": {"hashed": True},
    "trigram counts": {"counts": 2},
    "the mixture": {
        "tokens": (32, 64, 128),
        "config": {"layers": 2, "gated": True, "activation": "silu"},
        "schedule": parts.hold_then_fall,
        "counts": 6,
        "average": 0.97,
    },
}
MUON = 20 / 3  # its rate is so many times AdamW's: 0.02 where that is 0.003
SETTINGS = {
    "arms": list(ARMS),
    "steps": 200,
    "costs": {  # arm: to begin, a step
        "plain": [0.1, 1.007],
        "128 from the start": [0.1, 1.178],
        "short first": [0.1, 1.02],
        "two blocks": [0.1, 0.756],
        "ReLU squared": [0.1, 1.182],
        "hold, then fall": [0.1, 1.004],
        "Muon": [0.1, 1.42],
        "RMSNorm, no biases": [0.1, 1.011],
        "hashed contexts": [0.3, 1.409],
        "trigram counts": [2.7, 1.118],
        "the mixture": [13.0, 0.997],
    },
    "rates": [1e-3, 3e-3, 1e-2],
    "pilot_seeds": [100],
    "seeds": [0, 1, 2, 3, 4],
}


def training_text() -> CharacterText:
    """The training part of the manual, all of it for training: nothing is tuned on its end."""
    whole = judge.manual()
    return CharacterText(whole.decode(whole.ids()), held_out=0.0, vocabulary=whole.vocabulary)


def one(arm, *, rate, seed, steps, costs=SETTINGS["costs"], watch=None) -> dict:
    """Train once; the held-out loss in nats, and in bits per byte as the race's judge has it."""
    text, whole = training_text(), judge.manual()
    torch.manual_seed(seed)
    model, fit = build(text, ARMS[arm], rate=rate, seed=seed)
    allowed = steps_of(arm, steps, costs)
    curve = fit(StepClock(allowed), watch)
    bits = judge.judge(model, whole)
    return {
        "loss": round(bits / whole.bits_per_byte(1.0), 5),
        "bits": round(bits, 5),
        "steps": allowed,
        "curve": thinned(curve),
    }


def steps_of(arm: str, budget: int, costs: dict) -> int:
    """How many steps of an arm the budget allows."""
    begin, step = costs[arm]
    return max(1, round((budget - begin) / step))


def build(text: CharacterText, changes: dict, *, rate: float, seed: int):
    """A model of the arm, and the function that fits it to a clock."""
    generator, vocabulary = torch.Generator().manual_seed(seed), len(text.vocabulary)
    config = {"layers": 3, "tied": True} | changes.get("config", {})
    config = TransformerConfig(vocabulary, d_model=128, n_heads=4, **config)
    model = language_model = LanguageModel(config).small_embeddings()
    if changes.get("squared"):
        parts.use_squared_relu(language_model)
    if changes.get("hashed"):
        language_model.embed = parts.HashedContexts(language_model.embed)
    if longest := changes.get("counts"):
        folds = parts.Folds(text.ids(), vocabulary, longest)
        model = parts.WithCounts(model, folds.all)
    inside = [p for p in language_model.blocks.parameters() if p.dim() == 2]
    if changes.get("muon"):
        held = {id(p) for p in inside}
        others = [p for p in model.parameters() if id(p) not in held]
        optimizers = [parts.Muon(inside, MUON * rate), parts.adamw(others, rate)]
    else:
        optimizers = [parts.adamw(model.parameters(), rate)]

    def loss(share):
        tokens = parts.short_first(share, changes.get("tokens", (64,)))
        size = changes.get("batch", 1024) // tokens
        if longest:
            inputs, targets = folds.batch(model, size, tokens, generator)
        else:
            inputs, targets = text.batch(size, tokens, generator)
        logits = model(inputs)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def fit(clock, watch=None):
        average = parts.Average(model, changes.get("average", 0.0))
        losses = parts.fit_to_clock(
            model, optimizers, loss, clock,
            schedule=changes.get("schedule", parts.schedule), after=average.add, watch=watch,
        )  # fmt: skip
        average.use()
        if longest:
            model.counts = folds.all
        return losses

    return model, fit


def costs(steps: int = 30) -> dict[str, list[float]]:
    """What each arm takes to begin, and for a step, in reference steps: to be put into SETTINGS."""
    torch.set_num_threads(1)
    text, found = training_text(), {}
    for arm, changes in ARMS.items():
        references, start = [reference_seconds()], processor_seconds()
        _, fit = build(text, changes, rate=3e-3, seed=0)
        built = processor_seconds() - start
        fit(StepClock(steps))
        fitted = processor_seconds() - start - built
        references.append(reference_seconds())
        unit = sum(references) / 2
        found[arm] = [round(built / unit, 1), round(fitted / steps / unit, 3)]
    return found


def run(*, arms, costs, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own learning rate, with the same seeds; and the tables by themselves."""
    torch.set_num_threads(1)  # as in the race
    train = functools.partial(one, costs=costs)
    found = study(train, arms, say=say, watch=watch, **settings)
    return found | {"tables alone": {str(n): table_alone(n) for n in range(1, 8)}}


def table_alone(longest: int) -> float:
    """Bits per byte of the table of counts with no network."""
    whole = judge.manual()
    counts = parts.Counts(whole.ids(), len(whole.vocabulary), longest)

    class Alone(torch.nn.Module):
        def forward(self, tokens):
            return counts(tokens)[..., -1]

    return round(judge.judge(Alone(), whole), 5)


def gap(results: dict, arm: str, other: str = "plain"):
    """The paired difference in bits per byte, arm − other."""
    return paired(losses(results, arm, key="bits"), losses(results, other, key="bits"))


def _is_lower(arm, other="plain"):
    def judged(results):
        found = gap(results, arm, other)
        return Judged(f"{arm} − {other}: {found} bits per byte", lower(found))

    return judged


def _short_first(results):
    gaps = {other: gap(results, "short first", other) for other in ("plain", "128 from the start")}
    said = ", ".join(f"short first − {other}: {found}" for other, found in gaps.items())
    return Judged(said + " bits per byte", _all(lower(found) for found in gaps.values()))


def _counts(results):
    bits = losses(results, "trigram counts", key="bits")
    table = results["tables alone"]["2"]
    gaps = {
        "plain": gap(results, "trigram counts"),
        f"the table alone ({table:.3f})": paired(bits, [table] * len(bits)),
    }
    said = ", ".join(f"both − {other}: {found}" for other, found in gaps.items())
    return Judged(said + " bits per byte", lower(gaps["plain"], 0.05))


def _mostly_the_table(results):
    best, plain = (losses(results, arm, key="bits") for arm in ("the mixture", "plain"))
    table = min(results["tables alone"].values())
    if any(p <= b for p, b in zip(plain, best, strict=True)):
        return Judged("the mixture gains nothing on the plain entry", NOT_HERE)
    shares = [(p - table) / (p - b) for p, b in zip(plain, best, strict=True)]
    share = paired(shares, [0.0] * len(shares))
    said = (
        f"plain {sum(plain) / len(plain):.3f}, the best table alone {table:.3f}, the mixture "
        f"{sum(best) / len(best):.3f} bits per byte: the table alone has a share of {share}"
    )
    if share.low > 0.5:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if share.high < 0.5 else CANNOT_TELL)


def _norms(results):
    found = gap(results, "RMSNorm, no biases")
    said = f"RMSNorm, no biases − plain: {found} bits per byte"
    return Judged(said, alike(found, within=0.02))


def _all(verdicts):
    """One verdict of several that must all hold."""
    found = set(verdicts)
    if found == {HOLDS}:
        return HOLDS
    return NOT_HERE if NOT_HERE in found else CANNOT_TELL


_LIES = "the 95% interval of the paired difference in held-out bits per byte lies"
_SAME = "Each arm has the same compute, by the measured cost of its step, and a rate of its own."
CLAIMS = (
    Claim(
        "race-muon-beats-adamw",
        "In the same compute, a small model trained with Muon comes further than with AdamW.",
        f"Holds if {_LIES} below 0, Muon − plain; does not hold if at or above 0. {_SAME}",
        _is_lower("Muon"),
    ),
    Claim(
        "race-squared-relu-beats-gelu",
        "In the same compute, max(x, 0)² in the MLP comes further than GELU.",
        f"Holds if {_LIES} below 0, ReLU squared − plain; does not hold if at or above 0. {_SAME}",
        _is_lower("ReLU squared"),
    ),
    Claim(
        "race-two-blocks",
        "In a budget this small, two blocks come further than three: they make more steps.",
        f"Holds if {_LIES} below 0, two blocks − plain; does not hold if at or above 0. {_SAME}",
        _is_lower("two blocks"),
    ),
    Claim(
        "race-hold-then-fall",
        "A rate that is held for half the budget and then falls is better than a cosine.",
        f"Holds if {_LIES} below 0, hold, then fall − plain; does not hold if at or above 0. "
        f"{_SAME}",
        _is_lower("hold, then fall"),
    ),
    Claim(
        "race-short-first",
        "To begin with short windows and end with long ones is better than one length throughout.",
        f"The windows grow from 32 over 64 to 128 tokens. Holds if {_LIES} below 0 against 64 "
        "tokens throughout, and against 128 throughout too: the judge's windows have 128, so that "
        "what is gained on 64 may only be practice at that length. Does not hold if one lies at or "
        f"above 0. {_SAME}",
        _short_first,
    ),
    Claim(
        "race-trigram-counts-help",
        "A table of trigram counts helps a small model.",
        f"Holds if {_LIES} below −0.05 for model and table together, against the plain model; does "
        "not hold if at or above −0.05. The table alone is told beside it, and not decided: a "
        f"first set of seeds and a second one did not agree on it. {_SAME}",
        _counts,
    ),
    Claim(
        "race-mostly-the-table",
        "In so small a budget, counting does more than learning: most of what our mixture "
        "gains on the plain entry, the best table of counts has alone, without a network.",
        "Most: (plain − table) / (plain − the mixture), in bits per byte, has a 95% interval "
        "over the seeds that lies above a half. Does not hold: below, or nothing is gained. Cannot "
        "tell: a half is inside. The best table has the fewest held-out bits of contexts of 1 to "
        "7 characters.",
        _mostly_the_table,
    ),
    Claim(
        "race-rms-norm-alike",
        "RMSNorm, and no biases anywhere, change nothing that counts in a race.",
        f"Holds if {_LIES} within ±0.02, RMSNorm without biases − plain; does not hold if it lies "
        f"beyond. {_SAME}",
        _norms,
    ),
)

if __name__ == "__main__":
    main("race", run, SETTINGS, CLAIMS)
