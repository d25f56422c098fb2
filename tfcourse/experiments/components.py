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
    lower,
    paired,
)
from tfcourse.experiments import main
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel, TransformerConfig

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
    "pilot_seeds": [100],
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
    config = TransformerConfig(len(manual().vocabulary), d_model, HEADS, layers, **options)
    model = LanguageModel(config, block=lambda config: config.block(Reduced, without=without))
    if "last norm" in without:
        model.norm = nn.Identity()
    return model


def parameters(arm: str) -> int:
    """How many numbers the model of an arm learns."""
    return sum(p.numel() for p in make(arm).parameters())


@torch.no_grad()
def held_out(model: nn.Module, *, windows: int = 128) -> float:
    """The held-out loss when whole windows are fed, as in training."""
    inputs, targets = _windows(model, windows)
    return F.cross_entropy(model(inputs).mT, targets).item()


@torch.no_grad()
def honest(model: nn.Module, *, windows: int = 128) -> float:
    """The held-out loss when every prefix is fed by itself and only its last position is asked.

    So nothing can be copied from the future. With a causal mask it is the same number.
    """
    inputs, targets = _windows(model, windows)
    found = [
        F.cross_entropy(model(inputs[:, :n])[:, -1], targets[:, n - 1]).item()
        for n in range(1, TOKENS + 1)
    ]
    return sum(found) / TOKENS


def _windows(model, count):
    """The same held-out windows for every model."""
    generator = torch.Generator().manual_seed(0)
    device = next(model.parameters()).device
    model.eval()
    return [ids.to(device) for ids in manual().batch(count, TOKENS, generator, "held out")]


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train one arm once: warm-up over a tenth of the steps, then a cosine; gradients clipped.

    "loss" is the held-out loss that one would see, and choose a learning rate by: windows are fed
    as in training. "honest" is another number only where there is no mask.
    """
    torch.manual_seed(seed)
    model = make(arm)
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=BATCH, steps=steps, learning_rate=rate,
        warm_up=max(1, steps // 10), decay=True, clip=1.0, watch=watch,
    )  # fmt: skip
    seen = held_out(model)
    unseen = honest(model) if arm == "no mask" else seen  # with a mask the two are the same
    return {"loss": seen, "honest": unseen, "curve": thinned(curve)}


def run(*, arms, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own learning rate, with the constants that help to read the losses."""
    found = study(one, arms, say=say, watch=watch, **settings)
    return found | {
        "parameters": {arm: parameters(arm) for arm in arms},
        "only the frequencies": manual().unigram_entropy(),
    }


# --- the claims; `--again` decides by the same rules, with seeds that none of them has seen -------

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
    gap = paired(losses(results, WHOLE), losses(results, "no attention, wider MLP"))
    paid = paired(losses(results, "no attention, wider MLP"), losses(results, "no attention"))
    words = f"whole − MLP alone, wider {gap} nats; the wider one − the narrower {paid}"
    return Judged(words, lower(gap, NOISE))


def _leak(results):
    whole = losses(results, WHOLE)
    seen = paired(losses(results, "no mask"), whole)
    unseen = paired(losses(results, "no mask", key="honest"), whole)
    worse = paired(whole, losses(results, "no mask", key="honest"))
    verdicts = [lower(seen, 0.1), lower(worse)]
    verdict = next((v for v in (NOT_HERE, CANNOT_TELL) if v in verdicts), HOLDS)
    return Judged(f"as it is trained {seen}, honestly {unseen} nats beside the whole", verdict)


def _norm_free(results):
    gap = cost(results, "no norms")
    return Judged(f"no norms − whole {gap} nats, each at its own rate", lower(gap, -2 * NOISE))


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
        "What attention does cannot be bought with a wider MLP.",
        "Without attention, its parameters given to the MLPs. Holds if the whole is surely better "
        f"by more than {NOISE} nats.",
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
        f"own. Holds here if that costs surely less than {2 * NOISE} nats (95% interval).",
        _norm_free,
        source="Zhang et al., Fixup Initialization, 2019",
        link="https://arxiv.org/abs/1901.09321",
    ),
)

if __name__ == "__main__":
    main("components", run, SETTINGS, CLAIMS)
