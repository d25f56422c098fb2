"""F5: plain and gated MLPs at equal parameters (lesson 05)."""

from __future__ import annotations

import functools

import torch

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
from tfcourse.feed_forward import FeedForward
from tfcourse.models import LanguageModel, TransformerConfig

D_MODEL, TOKENS, BATCH = 48, 64, 32
PLAIN = {"d_ff": 192, "gated": False}  # 2 · 48 · 192 = 3 · 48 · 128 numbers in each
GATED = {"d_ff": 128, "gated": True}
ARMS = {
    "ReLU": PLAIN | {"activation": "relu"},
    "GELU": PLAIN | {"activation": "gelu"},
    "SiLU": PLAIN | {"activation": "silu"},
    "bilinear": GATED | {"activation": None},
    "ReGLU": GATED | {"activation": "relu"},
    "GeGLU": GATED | {"activation": "gelu"},
    "SwiGLU": GATED | {"activation": "silu"},
}
PAIRS = {"ReLU": "ReGLU", "GELU": "GeGLU", "SiLU": "SwiGLU"}  # plain and gated, one activation
SETTINGS = {
    "arms": list(ARMS),
    "rates": [3e-3, 1e-2, 3e-2],
    "pilot_seeds": [100],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 300,
}


class Bilinear(FeedForward):
    """A gated MLP with no activation function: down(gate(x) · up(x))."""

    def forward(self, x):
        """The same for every token."""
        return self.down(self.gate(x) * self.up(x))


def feed_forward(arm: str) -> FeedForward:
    """A fresh MLP of the arm."""
    options = ARMS[arm]
    if options["activation"] is None:
        return Bilinear(D_MODEL, options["d_ff"], gated=True, bias=False)
    return FeedForward(D_MODEL, **options, bias=False)


@functools.cache
@torch.no_grad()
def size_at_start(arm: str) -> float:
    """How large the untrained MLP's output is for normalized tokens: its root mean square."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(256, D_MODEL)
        sizes = [feed_forward(arm)(x).square().mean() for _ in range(20)]
    return torch.stack(sizes).mean().sqrt().item()


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train a language model of two blocks with the arm's MLP; its held-out loss in nats."""
    text = manual()
    torch.manual_seed(seed)

    def block(config):
        made = config.block()
        made.feed_forward = feed_forward(arm)
        return made

    config = TransformerConfig(len(text.vocabulary), D_MODEL, 4, 2, bias=False)
    model = LanguageModel(config, block=block)
    model.small_embeddings()
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=BATCH, steps=steps, learning_rate=rate,
        warm_up=steps // 10, decay=True, clip=1.0, watch=watch,
    )  # fmt: skip
    return {
        "loss": text.losses(model, TOKENS, windows=512).mean().item(),
        "curve": thinned(curve),
        "parameters": sum(p.numel() for b in model.blocks for p in b.feed_forward.parameters()),
    }


def run(*, arms, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own learning rate, with the same seeds."""
    results = study(one, arms, say=say, watch=watch, **settings)
    return results | {"size at the start": {arm: size_at_start(arm) for arm in ARMS}}


def difference(results: dict, arm: str, other: str):
    """The paired difference of held-out losses, arm − other."""
    return paired(losses(results, arm), losses(results, other))


def gate_gain(results: dict):
    """Gated − plain, the mean over the three activation functions, paired over the seeds."""
    plain, gated = (
        [sum(seed) / len(PAIRS) for seed in zip(*(losses(results, a) for a in arms), strict=True)]
        for arms in (PAIRS, PAIRS.values())
    )
    return paired(gated, plain)


def _swiglu(results):
    gap = difference(results, "SwiGLU", "GELU")
    return Judged(f"SwiGLU − GELU: {gap} nats", lower(gap))


def _the_gate(results):
    gap = gate_gain(results)
    each = [f"{gated} − {plain} {difference(results, gated, plain).mean:+.3f}"
            for plain, gated in PAIRS.items()]  # fmt: skip
    return Judged(f"gated − plain: {gap} nats ({', '.join(each)})", lower(gap))


def _some_variants(results):
    verdicts = {
        gated: {lower(difference(results, gated, plain)) for plain in ("ReLU", "GELU")}
        for gated in ("bilinear", *PAIRS.values())
    }
    better = [gated for gated, found in verdicts.items() if found == {HOLDS}]
    worse = [gated for gated, found in verdicts.items() if NOT_HERE in found]
    said = f"better than both: {', '.join(better) or 'none'}"
    if len(better) >= 2:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if len(worse) == len(verdicts) else CANNOT_TELL)


def _alike(results):
    gap = difference(results, "GeGLU", "SwiGLU")
    return Judged(f"GeGLU − SwiGLU: {gap} nats", alike(gap, within=0.02))


_PAIRED = "the 95% interval of the paired difference in held-out loss"
CLAIMS = (
    Claim(
        "some-glu-variants-better",
        "We test these variants in the feed-forward sublayers of the Transformer "
        "(arXiv:1706.03762) sequence-to-sequence model, and find that some of them yield quality "
        "improvements over the typically-used ReLU or GELU activations.",
        f"Holds if for two variants or more {_PAIRED} lies below 0, against ReLU and against GELU; "
        "does not hold if it lies at or above 0 for every variant, against one of the two.",
        _some_variants,
        source="Shazeer, GLU Variants Improve Transformer, 2020",
        link="https://arxiv.org/abs/2002.05202",
    ),
    Claim(
        "swiglu-beats-gelu",
        "At equal parameters SwiGLU is better than GELU.",
        f"Holds if {_PAIRED} lies below 0, does not hold if it lies at or above 0.",
        _swiglu,
    ),
    Claim(
        "the-gate-helps",
        "With the same activation function, gated is better than plain, at equal parameters.",
        f"The mean over ReLU, GELU and SiLU: holds if {_PAIRED}, gated − plain, lies below 0, does "
        "not hold if it lies at or above 0.",
        _the_gate,
    ),
    Claim(
        "geglu-and-swiglu-alike",
        "GeGLU and SwiGLU are equally good. (In the first edition of this lesson GeGLU was better "
        "for 5 of 5 seeds, by 0.003 nats, with one learning rate for all.)",
        f"Holds if {_PAIRED} lies within ±0.02, half of what SwiGLU gained on GELU in the first "
        "edition; does not hold if it lies beyond.",
        _alike,
    ),
)

if __name__ == "__main__":
    main("feed_forwards", run, SETTINGS, CLAIMS)
