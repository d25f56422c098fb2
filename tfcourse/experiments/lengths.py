"""P5: trained on 64 tokens, what is each kind of position worth there and beyond? (lesson 03)

Two things differ between the positions of 2017 and those of GPT-2: the kind, waves or learned
vectors, and the scale of the stream that the first block reads. So the two are crossed: each kind
runs with a small stream and with a stream √d_model times as large. At either scale a position
starts as long as the waves are, √½ of a word. All other kinds read the small stream.

The four crossed arms run twice: at one learning rate for all, and each at its own.
"""

from __future__ import annotations

import math

import torch

from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    ONLY_IF,
    Claim,
    Difference,
    Judged,
    alike,
    lower,
    paired,
)
from tfcourse.experiments import main
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel, TransformerConfig

D_MODEL, TOKENS, BATCH = 64, 64, 16
LARGE = math.sqrt(D_MODEL)
CROSSED = {
    "learned, small": {"positions": "learned"},
    "sinusoidal, small": {"positions": "sinusoidal", "scale": 1.0},
    "learned, × √d": {"positions": "learned", "scale": LARGE},
    "sinusoidal, × √d": {"positions": "sinusoidal", "scale": LARGE},
}
ARMS = CROSSED | {name: {"positions": name} for name in ("rotary", "alibi", "none")}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [0.005, 0.01, 0.02],
    "one_rate": 0.005,
    "pilot_seeds": [100, 101],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 500,
}
MARGIN = 0.05  # nats; the reason stands in the rule of "nearly-identical"


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once on 64 characters at a time; held-out loss in nats, on windows of 128.

    "loss": the mean over positions 1 to 64; "1.5" and "2": over 65 to 96 and 65 to 128; "end": over
    the last eight; "by_position": each of them.
    """
    text = manual()
    torch.manual_seed(seed)
    config = TransformerConfig(
        len(text.vocabulary), D_MODEL, 4, 2, max_tokens=2 * TOKENS, **ARMS[arm]
    )
    model = LanguageModel(config).small_embeddings()
    if model.embed.positions is not None:
        model.embed.positions.table.weight.data *= math.sqrt(0.5)  # as long as the waves
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=BATCH, steps=steps,
        learning_rate=rate, warm_up=steps // 10, decay=True, clip=1.0, watch=watch,
    )  # fmt: skip
    # What comes after a position does not reach it: windows of 128 hold those of 64 and of 96.
    by_position = text.losses(model, 2 * TOKENS, windows=256).mean(0)
    return {
        "loss": by_position[:TOKENS].mean().item(),
        "1.5": by_position[TOKENS : 3 * TOKENS // 2].mean().item(),
        "2": by_position[TOKENS:].mean().item(),
        "end": by_position[-8:].mean().item(),
        "by_position": [round(x, 3) for x in by_position.tolist()],
        "curve": thinned(curve),
    }


def run(*, arms, one_rate, seeds, steps, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own rate, on the same seeds (see `study`); "one_rate": the crossed four."""
    common = {"seeds": seeds, "steps": steps, "say": say, "watch": watch}
    results = study(one, arms, **common, **settings)
    crossed = [arm for arm in arms if arm in CROSSED]
    results["one_rate"] = study(one, crossed, rates=[one_rate], **common)
    return results


def gap(results: dict, a: str, b: str, part: str = "loss") -> Difference:
    """Arm a − arm b, pair by pair."""
    return paired(losses(results, a, key=part), losses(results, b, key=part))


def effects(results: dict, part: str = "loss") -> dict[str, Difference]:
    """What the kind makes and what the scale makes; the two means add up to the naive gap.

    "kind": sinusoidal − learned, the mean over both scales. "scale": × √d − small, the mean over
    both kinds. Added: sinusoidal × √d − learned small.
    """
    found = {arm: losses(results, arm, key=part) for arm in CROSSED}
    learned, waves, learned_large, waves_large = (_half(found[arm]) for arm in CROSSED)
    return {
        "kind": paired(_sum(waves, waves_large), _sum(learned, learned_large)),
        "scale": paired(_sum(learned_large, waves_large), _sum(learned, waves)),
    }


def _half(values):
    return [value / 2 for value in values]


def _sum(a, b):
    return [x + y for x, y in zip(a, b, strict=True)]


def _nearly_identical(results) -> Judged:
    gaps = {
        "both small": gap(results, "sinusoidal, small", "learned, small"),
        "both × √d": gap(results, "sinusoidal, × √d", "learned, × √d"),
    }
    found = {name: alike(difference, MARGIN) for name, difference in gaps.items()}
    measured = "sinusoidal − learned in nats, " + "; ".join(f"{n} {g}" for n, g in gaps.items())
    return _both(measured, found)


def _both(measured: str, found: dict[str, str]) -> Judged:
    """One verdict on what was asked under two conditions."""
    if len(set(found.values())) == 1:
        return Judged(measured, *set(found.values()))
    if CANNOT_TELL in found.values():
        return Judged(measured, CANNOT_TELL)
    return Judged(measured, ONLY_IF, next(name for name in found if found[name] == HOLDS))


def _all(verdicts) -> str:
    """Holds where all do, does not where one does not."""
    found = set(verdicts)
    return HOLDS if found == {HOLDS} else NOT_HERE if NOT_HERE in found else CANNOT_TELL


def _scale_not_kind(results) -> Judged:
    found = results["one_rate"]
    naive = gap(found, "learned, small", "sinusoidal, × √d")
    parts = effects(found)
    measured = (
        f"learned, small − sinusoidal, × √d: {naive} nats. The scale adds {parts['scale']} to the "
        f"loss, the kind {parts['kind']}"
    )
    # scale − kind is, when written out, learned × √d − sinusoidal small
    more = gap(found, "sinusoidal, small", "learned, × √d")
    return Judged(measured, _all([lower(naive), lower(more)]))


def _may_extrapolate(results) -> Judged:
    found = gap(results, "sinusoidal, small", "none", "2")
    return Judged(f"sinusoidal − none, positions 65 to 128: {found} nats", lower(found))


def _alibi(results) -> Judged:
    rises = {}
    for arm in ("alibi", "sinusoidal, small"):
        rises[arm] = paired(losses(results, arm, key="2"), losses(results, arm))
    measured = "beyond − inside in nats: " + "; ".join(f"{arm} {d}" for arm, d in rises.items())
    keeps = {arm: lower(rise, -MARGIN) for arm, rise in rises.items()}
    if keeps["alibi"] == HOLDS and keeps["sinusoidal, small"] == NOT_HERE:
        return Judged(measured, HOLDS)
    told = CANNOT_TELL not in keeps.values()
    return Judged(measured, NOT_HERE if told else CANNOT_TELL)


def _rotary(results) -> Judged:
    gaps = {
        other: gap(results, "rotary", other)
        for other in ("learned, small", "sinusoidal, small", "alibi")
    }
    measured = "rotary minus " + "; minus ".join(f"{name} {d}" for name, d in gaps.items())
    return Judged(measured, _all(lower(difference) for difference in gaps.values()))


CLAIMS = (
    Claim(
        "learned-nearly-identical",
        "We also experimented with using learned positional embeddings [9] instead, and found that "
        "the two versions produced nearly identical results (see Table 3 row (E)).",
        "At equal scale and each at its own rate, the whole interval of the paired difference on "
        "positions 1 to 64 lies within ±0.05 nats. The paper itself calls that much a loss of "
        "quality: with keys of 16 numbers instead of 64 its perplexity rises from 4.92 to 5.16, "
        "and ln(5.16 / 4.92) = 0.048. Asked at both scales.",
        _nearly_identical,
        "Vaswani et al., 2017, section 3.5",
        "https://arxiv.org/abs/1706.03762",
    ),
    Claim(
        "scale-not-kind",
        "At one learning rate for all, small learned positions read better than sinusoidal ones "
        "× √d. More of that is due to the scale than to the kind.",
        "The interval of the difference lies on one side of 0. The four crossed arms split it in "
        "two parts, and the part of the scale minus that of the kind has its whole interval above "
        "0.",
        _scale_not_kind,
    ),
    Claim(
        "waves-may-extrapolate",
        "We chose the sinusoidal version because it may allow the model to extrapolate to sequence "
        "lengths longer than the ones encountered during training.",
        "Positions that still help beyond the trained length read better there than no positions "
        "at all: on 65 to 128, sinusoidal − none has its whole interval below 0 (both streams "
        "small). Where it is wholly above 0, they mislead.",
        _may_extrapolate,
        "Vaswani et al., 2017, section 3.5",
        "https://arxiv.org/abs/1706.03762",
    ),
    Claim(
        "train-short-test-long",
        "We first show that extrapolation can be enabled by simply changing the position "
        "representation method, though we find that current methods do not allow for efficient "
        "extrapolation.",
        "To extrapolate: the loss on positions 65 to 128 minus that on 1 to 64 has its whole "
        "interval below +0.05 nats. Their method, ALiBi, does so, and the sinusoidal one, with "
        "nothing else changed, has its whole interval above.",
        _alibi,
        "Press et al., 2021, abstract",
        "https://arxiv.org/abs/2108.12409",
    ),
    Claim(
        "rotary-best-inside",
        "On the trained length, rotary reads better than positions added to the words, and better "
        "than ALiBi.",
        "Rotary's loss on positions 1 to 64 minus each of the others' (all streams small, each at "
        "its own rate) has its whole interval below 0.",
        _rotary,
    ),
)

if __name__ == "__main__":
    main("lengths", run, SETTINGS, CLAIMS)
