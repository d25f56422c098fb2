"""F5: four MLPs and their gated forms at equal parameters (lesson 05)."""

from __future__ import annotations

import functools

import torch

from tfcourse.blocks import Block
from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    ONLY_IF,
    Claim,
    Judged,
    lower,
    paired,
)
from tfcourse.experiments import main
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.experiments.study import losses, study
from tfcourse.feed_forward import FeedForward
from tfcourse.models import LanguageModel

D_MODEL, TOKENS, BATCH = 48, 48, 16
PLAIN = {"d_ff": 192, "gated": False}  # 2 · 48 · 192 = 3 · 48 · 128 numbers in each
GATED = {"d_ff": 128, "gated": True}
ARMS = {
    "no activation": PLAIN | {"activation": None},
    "bilinear": GATED | {"activation": None},
    "ReLU": PLAIN | {"activation": "relu"},
    "ReGLU": GATED | {"activation": "relu"},
    "GELU": PLAIN | {"activation": "gelu"},
    "GeGLU": GATED | {"activation": "gelu"},
    "SiLU": PLAIN | {"activation": "silu"},
    "SwiGLU": GATED | {"activation": "silu"},
    # A control: what a gated MLP adds to the stream is smaller at the start. Does that do it?
    "GELU, small start": PLAIN | {"activation": "gelu", "start_like": "GeGLU"},
}
PAIRS = {"ReLU": "ReGLU", "GELU": "GeGLU", "SiLU": "SwiGLU"}  # plain and gated, one activation
SETTINGS = {
    "arms": list(ARMS),
    "rates": [3e-3, 1e-2, 3e-2],
    "pilot_seeds": [100, 101],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 300,
}


class WithoutActivation(FeedForward):
    """The same matrices with nothing between them; gated, the bilinear layer."""

    def forward(self, x):
        """down(up(x)), or down(gate(x) · up(x))."""
        return self.down(self.up(x) if self.gate is None else self.gate(x) * self.up(x))


def feed_forward(arm: str) -> FeedForward:
    """A fresh MLP of the arm."""
    options = ARMS[arm]
    sizes = {"gated": options["gated"], "bias": False}
    if options["activation"] is None:
        return WithoutActivation(D_MODEL, options["d_ff"], **sizes)
    made = FeedForward(D_MODEL, options["d_ff"], activation=options["activation"], **sizes)
    if "start_like" in options:
        with torch.no_grad():
            made.down.weight *= size_at_start(options["start_like"]) / size_at_start("GELU")
    return made


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

    def block(*sizes, **options):
        made = Block(*sizes, **options)
        made.feed_forward = feed_forward(arm)
        return made

    model = LanguageModel(len(text.vocabulary), D_MODEL, 4, 2, block=block, bias=False)
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


def _lower(arm, other):
    def judge(results):
        gap = difference(results, arm, other)
        return Judged(f"{arm} − {other}: {gap} nats", lower(gap))

    return judge


def _the_gate(results):
    gaps = {plain: difference(results, gated, plain) for plain, gated in PAIRS.items()}
    said = "; ".join(f"{PAIRS[plain]} − {plain}: {gap}" for plain, gap in gaps.items()) + " nats"
    better = [plain for plain, gap in gaps.items() if lower(gap) == HOLDS]
    if len(better) == len(gaps):
        return Judged(said, HOLDS)
    if better:
        return Judged(said, ONLY_IF, f"the activation is {' or '.join(better)}")
    none = all(lower(gap) == NOT_HERE for gap in gaps.values())
    return Judged(said, NOT_HERE if none else CANNOT_TELL)


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


def _best_two(results):
    pairs = zip(losses(results, "GeGLU"), losses(results, "SwiGLU"), strict=True)
    two = [(a + b) / 2 for a, b in pairs]
    others = ("ReLU", "GELU", "SiLU", "bilinear", "ReGLU")
    gaps = {arm: paired(two, losses(results, arm)) for arm in others}
    closest = max(gaps, key=lambda arm: gaps[arm].mean)
    said = f"their mean − {closest}, the next best: {gaps[closest]} nats"
    verdicts = [lower(gap) for gap in gaps.values()]
    if all(verdict == HOLDS for verdict in verdicts):
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if NOT_HERE in verdicts else CANNOT_TELL)


_GLU = {
    "source": "Shazeer, GLU Variants Improve Transformer, 2020",
    "link": "https://arxiv.org/abs/2002.05202",
}
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
        **_GLU,
    ),
    Claim(
        "geglu-and-swiglu-best",
        "The GEGLU and SwiGLU variants produce the best perplexities.",
        f"The mean of the two against each other MLP with an activation, and against bilinear: "
        f"holds if every time {_PAIRED} lies below 0, does not hold if it lies at or above 0 once.",
        _best_two,
        **_GLU,
    ),
    Claim(
        "swiglu-beats-gelu",
        "At equal parameters SwiGLU is better than GELU.",
        f"Holds if {_PAIRED} lies below 0, does not hold if it lies at or above 0.",
        _lower("SwiGLU", "GELU"),
    ),
    Claim(
        "the-gate-helps",
        "It is the gate that helps: with the same activation, gated is better than plain.",
        f"Holds if {_PAIRED}, gated − plain, lies below 0 for ReLU, for GELU and for SiLU; only "
        "for some: holds only if; does not hold if it lies at or above 0 for all three.",
        _the_gate,
    ),
    Claim(
        "not-the-smaller-start",
        "The gain is not due to the smaller output that a gated MLP has before training.",
        "GeGLU against GELU whose last matrix starts smaller, so that both outputs start equally "
        f"large: holds if {_PAIRED} lies below 0, does not hold if it lies at or above 0.",
        _lower("GeGLU", "GELU, small start"),
    ),
    Claim(
        "a-product-is-enough",
        "A product does the work of an activation function: bilinear is better than ReLU.",
        f"Holds if {_PAIRED} lies below 0, does not hold if it lies at or above 0.",
        _lower("bilinear", "ReLU"),
    ),
    Claim(
        "gelu-improves-on-relu",
        "We perform an empirical evaluation of the GELU nonlinearity against the ReLU and ELU "
        "activations and find performance improvements across all considered computer vision, "
        "natural language processing, and speech tasks.",
        f"On our one task, GELU against ReLU: holds if {_PAIRED} lies below 0, does not hold if it "
        "lies at or above 0.",
        _lower("GELU", "ReLU"),
        source="Hendrycks and Gimpel, Gaussian Error Linear Units, 2016",
        link="https://arxiv.org/abs/1606.08415",
    ),
    Claim(
        "geglu-beats-swiglu",
        "GeGLU is better than SwiGLU: in the first edition of this lesson it was, for 5 of 5 "
        "seeds, at one learning rate for all.",
        f"Holds if {_PAIRED} lies below 0, does not hold if it lies at or above 0.",
        _lower("GeGLU", "SwiGLU"),
    ),
)

if __name__ == "__main__":
    main("feed_forwards", run, SETTINGS, CLAIMS)
