"""B12: remove one component and see (lesson 07).

A small language model of characters, whole and with one component taken out. Every arm has its own
learning rate, chosen on other seeds. Two arms give the parameters back that a removal took, so that
size alone cannot be the reason.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse.blocks import Block
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
from tfcourse.models import LanguageModel

WHOLE = "whole"
ARMS = {
    WHOLE: {},
    "no attention": {"without": ("attention",)},
    "no attention, wider MLP": {"without": ("attention",), "d_ff": 384},
    "no MLP": {"without": ("MLP",)},
    "no MLP, more layers": {"without": ("MLP",), "layers": 9},
    "no plus": {"without": ("plus",)},
    "no norms": {"without": ("norms", "last norm")},
    "no last norm": {"without": ("last norm",)},
    "no positions": {"positions": "none"},
    "no mask": {"without": ("mask",)},
}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [1e-3, 3.16e-3, 1e-2],
    "pilot_seeds": [100, 101],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 150,
}
D_MODEL, HEADS, LAYERS, TOKENS, BATCH = 64, 4, 3, 48, 16


class Reduced(Block):
    """A block without some of its components: attention, MLP, plus, norms or mask."""

    def __init__(self, *sizes, without=(), **options):
        super().__init__(*sizes, **options)
        self.without = without
        if "attention" in without:
            self.attention = self.attention_norm = None
        if "MLP" in without:
            self.feed_forward = self.feed_forward_norm = None
        if "norms" in without:
            self.attention_norm = self.feed_forward_norm = nn.Identity()

    def forward(self, x, *, causal=True):
        """One step of the stream, with what is left."""
        if self.attention is not None:
            causal = causal and "mask" not in self.without
            x = self._add(x, lambda y: self.attention(y, causal=causal), self.attention_norm)
        if self.feed_forward is not None:
            x = self._add(x, self.feed_forward, self.feed_forward_norm)
        return x

    def _add(self, x, sublayer, norm):
        update = sublayer(norm(x))
        return update if "plus" in self.without else x + update


def make(arm: str, *, d_model: int = D_MODEL) -> LanguageModel:
    """The model of an arm, with PyTorch's own first weights."""
    options = {"layers": LAYERS, "positions": "rotary", "without": (), **ARMS[arm]}
    layers, without = options.pop("layers"), options.pop("without")
    model = LanguageModel(
        len(manual().vocabulary), d_model, HEADS, layers,
        block=Reduced, without=without, **options,
    )  # fmt: skip
    if "last norm" in without:
        model.norm = nn.Identity()
    return model


def parameters(arm: str) -> int:
    """How many numbers the model of an arm learns."""
    return sum(p.numel() for p in make(arm).parameters())


@torch.no_grad()
def held_out(model: nn.Module, *, windows: int = 128) -> tuple[float, float]:
    """The held-out loss with whole windows fed, as in training; and the honest one.

    For the honest one every prefix is fed by itself and only its last position is asked, so that
    nothing can be copied from the future. With a causal mask the two are the same number.
    """
    generator = torch.Generator().manual_seed(0)
    device = next(model.parameters()).device
    inputs, targets = (
        ids.to(device) for ids in manual().batch(windows, TOKENS, generator, "held out")
    )
    model.eval()
    as_trained = F.cross_entropy(model(inputs).mT, targets).item()
    honest = [
        F.cross_entropy(model(inputs[:, : n + 1])[:, -1], targets[:, n]).item()
        for n in range(TOKENS)
    ]
    return as_trained, sum(honest) / TOKENS


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train one arm once: warm-up over a tenth of the steps, then a cosine; gradients clipped.

    "loss" is the honest one; "as trained" is the held-out loss when whole windows are fed, which is
    another only where there is no mask.
    """
    torch.manual_seed(seed)
    model = make(arm)
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=BATCH, steps=steps, learning_rate=rate,
        warm_up=max(1, steps // 10), decay=True, clip=1.0, watch=watch,
    )  # fmt: skip
    as_trained, honest = held_out(model)
    return {"loss": honest, "as trained": as_trained, "curve": thinned(curve)}


def run(*, arms, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own learning rate, with the constants that help to read the losses."""
    found = study(one, arms, say=say, watch=watch, **settings)
    return found | {
        "parameters": {arm: parameters(arm) for arm in arms},
        "only the frequencies": manual().unigram_entropy(),
    }


# --- the claims: the rules stood here before the run ------------------------------------------

NOISE = 0.02  # nats: about what two seeds of one and the same model differ by


def cost(results, arm) -> object:
    """What a removal costs: the paired difference of the losses, arm − whole."""
    return paired(losses(results, arm), losses(results, WHOLE))


def _each_is_needed(results):
    costs = {arm: cost(results, arm) for arm in results["chosen"] if arm in SINGLE}
    spared = {arm: gap for arm, gap in costs.items() if gap.high < NOISE}
    if spared:
        words = "; ".join(f"{arm} {gap} nats" for arm, gap in spared.items())
        return Judged(words, NOT_HERE)
    least = min(costs, key=lambda arm: costs[arm].low)
    sure = costs[least].low > 0
    return Judged(f"the cheapest: {least} {costs[least]} nats", HOLDS if sure else CANNOT_TELL)


def _the_two_pillars(results):
    others = ("no MLP", "no norms", "no last norm", "no positions")
    found = {
        (other, pillar): paired(losses(results, other), losses(results, pillar))
        for other in others
        for pillar in ("no attention", "no plus")
    }
    verdicts = [lower(gap) for gap in found.values()]
    verdict = next((v for v in (NOT_HERE, CANNOT_TELL) if v in verdicts), HOLDS)
    words = ", ".join(f"{arm} {cost(results, arm).mean:+.2f}" for arm in SINGLE)
    return Judged(words, verdict)


def _beyond_size(results):
    gap = paired(losses(results, WHOLE), losses(results, "no MLP, more layers"))
    wider = paired(losses(results, WHOLE), losses(results, "no attention, wider MLP"))
    verdicts = [lower(gap), lower(wider)]
    verdict = next((v for v in (NOT_HERE, CANNOT_TELL) if v in verdicts), HOLDS)
    return Judged(f"whole − attention alone {gap}; whole − MLP alone {wider} nats", verdict)


def _leak(results):
    seen = paired(losses(results, "no mask", key="as trained"), losses(results, WHOLE))
    honest = cost(results, "no mask")
    verdicts = [lower(seen, 0.1), lower(paired(losses(results, WHOLE), losses(results, "no mask")))]
    verdict = next((v for v in (NOT_HERE, CANNOT_TELL) if v in verdicts), HOLDS)
    return Judged(f"fed as in training {seen}, honestly {honest} nats beside the whole", verdict)


def _norm_free(results):
    gap = cost(results, "no norms")
    return Judged(f"no norms − whole {gap} nats, each at its own rate", alike(gap, 2 * NOISE))


SINGLE = ("no attention", "no MLP", "no plus", "no norms", "no last norm", "no positions")
CLAIMS = (
    Claim(
        "each-component-needed",
        "Take any one component out of a Transformer, and it gets worse.",
        "Six removals (all but the mask), each at its best learning rate. Holds if every paired "
        f"95% interval of the cost lies above 0; does not hold if one lies below {NOISE} nats, "
        "which is about what two seeds of the same model differ by.",
        _each_is_needed,
    ),
    Claim(
        "attention-and-plus",
        "Attention and the plus are the two that cost most.",
        "Holds if each of the other four removals is surely better than each of these two (paired "
        "95% interval of the difference below 0).",
        _the_two_pillars,
    ),
    Claim(
        "more-than-parameters",
        "What attention does, and what the MLP does, cannot be bought with parameters elsewhere.",
        "The removed parameters are given back, as more layers of attention or as a wider MLP. "
        "Holds if the whole is surely better than both.",
        _beyond_size,
    ),
    Claim(
        "leak-looks-good",
        "Without the causal mask the loss in training looks good, and the model is worse.",
        "Holds if the loss is surely lower than the whole's by more than 0.1 nats where windows "
        "are fed as in training, and surely higher where each prefix is fed by itself.",
        _leak,
    ),
    Claim(
        "norm-free",
        "[…] we challenge the commonly-held beliefs by showing that none of the perceived benefits "
        "is unique to normalization.",
        "Three layers without any norm, but with warm-up, clipping and a learning rate of their "
        f"own. Holds here if the loss is the whole's within {2 * NOISE} nats (paired 95% interval "
        "inside).",
        _norm_free,
        source="Zhang et al., Fixup Initialization, 2019",
        link="https://arxiv.org/abs/1901.09321",
    ),
)

if __name__ == "__main__":
    main("components", run, SETTINGS, CLAIMS)
