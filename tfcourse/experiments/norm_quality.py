"""N5, quality: the same small model with LayerNorm, with RMSNorm, and two controls (lesson 04).

Two blocks, d_model 64, on 48 characters of Python's manual. The controls: no norm at all; and
LayerNorm with half as many steps, a change that surely costs something, so that "no difference"
can be said in units of it.
"""

from __future__ import annotations

import torch
from torch import nn

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
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel, TransformerConfig

ARMS = {
    "LayerNorm": {"norm": "layer"},
    "RMSNorm": {"norm": "rms"},
    "no norm": {"norm": None},
    "half the steps": {"norm": "layer", "share": 0.5},
}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [3e-3, 1e-2, 3e-2],
    "pilot_seeds": [100, 101],
    "seeds": list(range(12)),
    "steps": 300,
}
TOKENS = 48


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once: held-out loss in nats, and the same once the last norm is taken away."""
    text, norm = manual(), ARMS[arm]["norm"]
    steps = round(steps * ARMS[arm].get("share", 1.0))
    torch.manual_seed(seed)
    config = TransformerConfig(len(text.vocabulary), 64, 4, 2, norm=norm or "layer")
    model = LanguageModel(config).small_embeddings()
    if norm is None:
        _take_norms_out(model)
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=16, steps=steps, learning_rate=rate,
        warm_up=steps // 10, decay=True, clip=1.0, watch=watch,
    )  # fmt: skip
    loss = _held_out(model)
    model.norm = nn.Identity()
    return {"loss": loss, "without the last norm": _held_out(model), "curve": thinned(curve)}


def run(*, arms, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm on every seed, each at its own learning rate; and what blind guessing loses."""
    found = study(one, arms, say=say, watch=watch, **settings)
    return found | {"only the frequencies": manual().unigram_entropy()}


def _held_out(model: LanguageModel) -> float:
    return round(manual().losses(model, TOKENS, windows=512).mean().item(), 4)


def _take_norms_out(model: LanguageModel) -> None:
    for block in model.blocks:
        block.attention_norm, block.feed_forward_norm = nn.Identity(), nn.Identity()
    model.norm = nn.Identity()


def _margin(results: dict) -> tuple[float, str]:
    """A tenth of what halving the steps costs, and that in words; 0 where it costs nothing."""
    cost = paired(losses(results, "half the steps"), losses(results, "LayerNorm"))
    said = f"half the steps cost {cost}, a tenth of that is {cost.mean / 10:.3f}"
    return (cost.mean / 10, said) if cost.low > 0 else (0.0, said)


def _same_quality(results: dict) -> Judged:
    gap = paired(losses(results, "RMSNorm"), losses(results, "LayerNorm"))
    margin, yardstick = _margin(results)
    said = f"quality: RMSNorm minus LayerNorm: {gap} nats; {yardstick}"
    return Judged(said, alike(gap, margin) if margin else CANNOT_TELL)


def _worse_without(results: dict) -> Judged:
    gap = paired(losses(results, "LayerNorm"), losses(results, "no norm"))
    margin, yardstick = _margin(results)
    said = f"LayerNorm minus no norm: {gap} nats; {yardstick}"
    return Judged(said, lower(gap, margin) if margin else CANNOT_TELL)


def _mostly_lost(results: dict) -> Judged:
    kept = losses(results, "LayerNorm")
    forgotten = losses(results, "LayerNorm", key="without the last norm")
    blind = results["only the frequencies"]
    lost = [(f - k) / (blind - k) for f, k in zip(forgotten, kept, strict=True)]
    share = paired(lost, [0.0] * len(lost))
    said = (
        f"{sum(forgotten) / len(lost):.2f} nats in place of {sum(kept) / len(lost):.2f}, the "
        f"frequencies alone give {blind:.2f}: a share of {share} is lost"
    )
    if share.low > 0.5:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if share.high < 0.5 else CANNOT_TELL)


PRINT = {
    "quote": "RMSNorm achieves comparable performance against LayerNorm but reduces the running "
    "time by 7%∼64% on different models.",
    "source": "Zhang and Sennrich, 2019",
    "link": "https://arxiv.org/abs/1910.07467",
}
CLAIMS = (
    Claim(
        id="rms-norm-quality",
        **PRINT,
        rule="“Comparable”: over paired seeds, the 95% interval of RMSNorm minus LayerNorm "
        "(held-out loss) lies within ± a tenth of what halving the steps costs. A tenth of a "
        "halving is 7% of the steps: the least time that the paper says RMSNorm saves. Does not "
        "hold: the interval lies outside. Cannot tell: it does neither, or half the steps cost "
        "nothing that can be seen.",
        judge=_same_quality,
    ),
    Claim(
        id="no-norm-learns-worse",
        quote="Without any norm, the same two blocks learn noticeably worse than with LayerNorm, "
        "each at its own best learning rate.",
        rule="Noticeably: by more than the same tenth of a halving. Over paired seeds, the 95% "
        "interval of LayerNorm minus no norm (held-out loss) lies below minus that. Does not "
        "hold: it lies above. Cannot tell: minus that is inside.",
        judge=_worse_without,
    ),
    Claim(
        id="last-norm-forgotten",
        quote="Load trained weights into the same model without its last norm: every shape is "
        "right, and most of what the model has learned is lost.",
        rule="What it has learned: how far its held-out loss lies below that of somebody who knows "
        "nothing but how often each character occurs. Most: over seeds, the 95% interval of the "
        "share that is lost lies above a half. Does not hold: below. Cannot tell: a half is "
        "inside.",
        judge=_mostly_lost,
    ),
)

if __name__ == "__main__":
    main("norm_quality", run, SETTINGS, CLAIMS)
