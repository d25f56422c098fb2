"""P5: trained on 64 tokens, what is each kind of position worth there and beyond? (lesson 03)

Two things differ between the positions of 2017 and those of GPT-2: the kind, waves or learned
vectors, and the scale of the stream that the first block reads. So the two are crossed: each kind
runs with a small stream and with a stream √d_model times as large. At either scale a position is
as long as the waves are, √½ of a word. Everything else reads the small stream.
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
from tfcourse.models import LanguageModel

D_MODEL, TOKENS, BATCH = 64, 64, 16
LARGE = math.sqrt(D_MODEL)
ARMS = {
    "learned, small": {"positions": "learned"},
    "sinusoidal, small": {"positions": "sinusoidal", "scale": 1.0},
    "learned, × √d": {"positions": "learned", "scale": LARGE},
    "sinusoidal, × √d": {"positions": "sinusoidal", "scale": LARGE},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "none": {"positions": "none"},
    "sinusoidal, small, on 128": {"positions": "sinusoidal", "scale": 1.0, "tokens": 2 * TOKENS},
}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [0.003, 0.01, 0.03],
    "pilot_seeds": [100, 101],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 500,
}
MARGIN = 0.05  # nats; the reason stands in the rule of "nearly-identical"


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once; held-out loss in nats, on windows of 128 characters.

    "loss": the mean over the positions that it was trained on; "1.5" and "2": positions 65 to 96
    and 65 to 128; "end": the last eight; "whole": all 128; "by_position": each of them.
    """
    options = dict(ARMS[arm])
    tokens = options.pop("tokens", TOKENS)
    text = manual()
    torch.manual_seed(seed)
    model = LanguageModel(
        len(text.vocabulary), D_MODEL, 4, 2, max_tokens=2 * TOKENS, **options
    ).small_embeddings()
    if model.table is not None:
        model.table.table.weight.data *= math.sqrt(0.5)  # as long as the waves
    curve = train(
        model, seed=seed, tokens=tokens, batch=BATCH * TOKENS // tokens, steps=steps,
        learning_rate=rate, warm_up=steps // 10, decay=True, clip=1.0, watch=watch,
    )  # fmt: skip
    # What comes after a position does not reach it: the longest windows hold the shorter ones.
    by_position = text.losses(model, 2 * TOKENS, windows=256).mean(0)
    return {
        "loss": by_position[:tokens].mean().item(),
        "1.5": by_position[TOKENS : 3 * TOKENS // 2].mean().item(),
        "2": by_position[TOKENS:].mean().item(),
        "end": by_position[-8:].mean().item(),
        "whole": by_position.mean().item(),
        "by_position": [round(x, 3) for x in by_position.tolist()],
        "curve": thinned(curve),
    }


def run(*, arms, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own rate, on the same seeds (see `study`)."""
    return study(one, arms, say=say, watch=watch, **settings)


def gap(results: dict, a: str, b: str, part: str = "loss") -> Difference:
    """Arm a − arm b, pair by pair."""
    return paired(losses(results, a, key=part), losses(results, b, key=part))


def effects(results: dict) -> dict[str, list[float]]:
    """What the kind makes and what the scale makes, for every seed; their sum is the naive gap.

    "kind": sinusoidal − learned, the mean over both scales. "scale": × √d − small, the mean over
    both kinds. Together: sinusoidal × √d − learned small.
    """
    cells = {
        arm: torch.tensor(losses(results, arm), dtype=torch.float64)
        for arm in ("learned, small", "sinusoidal, small", "learned, × √d", "sinusoidal, × √d")
    }
    learned, waves, learned_large, waves_large = cells.values()
    return {
        "kind": ((waves - learned + waves_large - learned_large) / 2).tolist(),
        "scale": ((learned_large - learned + waves_large - waves) / 2).tolist(),
    }


def _nearly_identical(results) -> Judged:
    gaps = {
        "both small": gap(results, "sinusoidal, small", "learned, small"),
        "both × √d": gap(results, "sinusoidal, × √d", "learned, × √d"),
        "sinusoidal × √d, learned small": gap(results, "sinusoidal, × √d", "learned, small"),
    }
    *equal, naive = (alike(found, MARGIN) for found in gaps.values())
    measured = "sinusoidal − learned in nats: " + "; ".join(f"{n} {g}" for n, g in gaps.items())
    if set(equal) == {HOLDS}:
        if naive == NOT_HERE:
            return Judged(measured, ONLY_IF, "both read a stream of the same scale")
        return Judged(measured, naive)
    return Judged(measured, NOT_HERE if NOT_HERE in equal else CANNOT_TELL)


def _scale_not_kind(results) -> Judged:
    found = effects(results)
    kind, scale = (paired(found[name], [0.0] * len(found[name])) for name in ("kind", "scale"))
    verdict = lower(paired(found["kind"], found["scale"]))
    return Judged(f"the scale makes {scale} nats, the kind {kind}", verdict)


def _may_extrapolate(results) -> Judged:
    found = gap(results, "sinusoidal, small", "none", "2")
    return Judged(f"sinusoidal − none, positions 65 to 128: {found} nats", lower(found))


def _alibi(results) -> Judged:
    found = gap(results, "alibi", "sinusoidal, small, on 128", "whole")
    measured = f"ALiBi on 64 − sinusoidal on 128, read on 128: {found} nats"
    return Judged(measured, lower(found, -MARGIN))  # the same or better: not higher by the margin


def _rotary(results) -> Judged:
    others = ("learned, small", "sinusoidal, small", "alibi")
    gaps = {other: gap(results, "rotary", other) for other in others}
    found = [lower(g) for g in gaps.values()]
    measured = "rotary − " + "; − ".join(f"{name} {g}" for name, g in gaps.items()) + " nats"
    if set(found) == {HOLDS}:
        return Judged(measured, HOLDS)
    return Judged(measured, NOT_HERE if NOT_HERE in found else CANNOT_TELL)


CLAIMS = (
    Claim(
        "nearly-identical",
        "We also experimented with using learned positional embeddings [9] instead, and found that "
        "the two versions produced nearly identical results (see Table 3 row (E)).",
        "Nearly identical: the whole interval of the paired difference, on positions 1 to 64, lies "
        "within ±0.05 nats. The paper's own table calls that much a loss of quality: with keys of "
        "16 numbers for 64 its perplexity rose from 4.92 to 5.16, and ln(5.16 / 4.92) = 0.048. "
        "Both must be alike at either scale; where they are, and differ when only one of the two "
        "is multiplied by √d, it holds only at equal scale.",
        _nearly_identical,
        "Vaswani et al., 2017, section 3.5",
        "https://arxiv.org/abs/1706.03762",
    ),
    Claim(
        "scale-not-kind",
        "Where sinusoidal positions × √d and small learned ones differ, the scale makes more of "
        "the difference than the kind.",
        "The four arms split the difference in two parts. The part of the kind is lower than the "
        "part of the scale: the whole interval of their paired difference is below 0.",
        _scale_not_kind,
    ),
    Claim(
        "may-extrapolate",
        "We chose the sinusoidal version because it may allow the model to extrapolate to sequence "
        "lengths longer than the ones encountered during training.",
        "Positions that still tell something beyond the trained length serve better there than no "
        "positions: on 65 to 128, sinusoidal − none has its whole interval below 0 (both streams "
        "small). Wholly above 0, they mislead.",
        _may_extrapolate,
        "Vaswani et al., 2017, section 3.5",
        "https://arxiv.org/abs/1706.03762",
    ),
    Claim(
        "train-short-test-long",
        "We show that this method trains a 1.3 billion parameter model on input sequences of "
        "length 1024 that extrapolates to input sequences of length 2048, achieving the same "
        "perplexity as a sinusoidal position embedding model trained on inputs of length 2048 but "
        "training 11% faster and using 11% less memory.",
        "Ours: lengths 64 and 128. The same perplexity, or a lower one: the whole interval of "
        "ALiBi's loss minus the other's, over all 128 positions, is below +0.05 nats. Time and "
        "memory are not compared.",
        _alibi,
        "Press et al., 2021, abstract",
        "https://arxiv.org/abs/2108.12409",
    ),
    Claim(
        "rotary-inside",
        "On the trained length, rotary positions read better than positions added to the words, "
        "and better than ALiBi.",
        "Rotary's loss on positions 1 to 64 minus each of the others' (all streams small) has its "
        "whole interval below 0.",
        _rotary,
    ),
)

if __name__ == "__main__":
    main("lengths", run, SETTINGS, CLAIMS)
