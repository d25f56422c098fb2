"""B5: the norm before or after, at several learning rates and depths, without warm-up (lesson 07).

All rates are reported: which of them a stack can take is the question, so none is chosen. Five
arms run longer and answer what a warm-up does for post-norm, at a rate that stays and at one that
falls.
"""

from __future__ import annotations

import math

import torch

from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, ONLY_IF, Claim, Judged, paired
from tfcourse.experiments import main
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel, MakesBlock, TransformerConfig

PRE, POST = "pre-norm", "post-norm"
LONG = "post-norm, 200 steps"
WARMED = {f"{LONG}, warm-up of {steps}": steps for steps in (20, 60)}
FALLING, WARMED_FALLING = f"{LONG}, falling", f"{LONG}, warm-up of 20, falling"
LONGER = {"layers": 6, "norm_first": False, "rates": (2e-3,), "steps": 200}
FEWER = {"rates": (3e-4, 1e-3), "seeds": 3}  # deeper stacks are expensive
ARMS = {
    "pre-norm, 6 layers": {"layers": 6, "norm_first": True},
    "post-norm, 6 layers": {"layers": 6, "norm_first": False},
    "pre-norm, 12 layers": {"layers": 12, "norm_first": True, **FEWER},
    "post-norm, 12 layers": {"layers": 12, "norm_first": False, **FEWER},
    "pre-norm, 18 layers": {"layers": 18, "norm_first": True, "rates": (3e-4,), "seeds": 2},
    "post-norm, 18 layers": {"layers": 18, "norm_first": False, "rates": (3e-4,), "seeds": 2},
    LONG: LONGER,
    **{arm: LONGER | {"warm_up": steps} for arm, steps in WARMED.items()},
    FALLING: LONGER | {"decay": True},
    WARMED_FALLING: LONGER | {"decay": True, "warm_up": 20},
}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [1e-3, 3e-3, 1e-2],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 100,
}
D_MODEL, HEADS, D_FF, TOKENS, BATCH = 256, 4, 1024, 32, 4


def make(
    layers: int, norm_first: bool, block: MakesBlock = TransformerConfig.block
) -> LanguageModel:
    """A model as one would write it without a second thought: PyTorch's own first weights."""
    config = TransformerConfig(
        len(manual().vocabulary), D_MODEL, HEADS, layers, d_ff=D_FF, positions="sinusoidal",
        norm_first=norm_first,
    )  # fmt: skip
    return LanguageModel(config, block=block).small_embeddings()


def one(arm, *, rate, seed, steps, block: MakesBlock = TransformerConfig.block, watch=None) -> dict:
    """Train once, with AdamW, without weight decay or clipping.

    The rate stays where it is, but for the arms that say otherwise. The record is of the package's
    `Block`.
    """
    options = ARMS[arm]
    torch.manual_seed(seed)
    model = make(options["layers"], options["norm_first"], block)
    schedule = {name: options[name] for name in ("warm_up", "decay") if name in options}
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=BATCH, steps=options.get("steps", steps),
        learning_rate=rate, watch=watch, **schedule,
    )  # fmt: skip
    loss = manual().losses(model, TOKENS).mean().item()
    finite = math.isfinite(loss) and all(math.isfinite(value) for value in curve)
    curve = [value for value in curve if math.isfinite(value)]
    return {"loss": loss if finite else 100.0, "finite": finite, "curve": thinned(curve)}


def run(*, arms, rates, seeds, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at every rate that it is given."""
    runs = []
    for arm in arms:
        own = {"rates": ARMS[arm].get("rates", rates), "seeds": seeds[: ARMS[arm].get("seeds")]}
        runs += study(one, [arm], **own, **settings, say=say, watch=watch)["runs"]
    return {"runs": runs, "only the frequencies": manual().unigram_entropy()}


# --- the claims; `--again` decides by the same rules, with seeds that none of them has seen -------

STALL = 0.1  # nats that a run must have won over the frequencies, 3% of them


def failed(run: dict, level: float) -> bool:
    """Whether a run diverged or stalled: it knows no more than how frequent characters are."""
    return not run["finite"] or run["loss"] > level - STALL


def failures(results: dict, layers: int, place: str) -> dict[float, tuple[int, int]]:
    """Rate -> how many runs failed, and how many there are."""
    level, found = results["only the frequencies"], {}
    for run in results["runs"]:
        if run["arm"] == f"{place}, {layers} layers":
            bad, all_ = found.get(run["rate"], (0, 0))
            found[run["rate"]] = (bad + failed(run, level), all_ + 1)
    return found


def _diverges(results):
    post, pre = [], []  # (layers, rate, failed, runs)
    for layers in (6, 12, 18):
        for found, place in ((post, POST), (pre, PRE)):
            cells = failures(results, layers, place).items()
            found += [(layers, rate, bad, all_) for rate, (bad, all_) in cells]
    told = "; ".join(f"{n} layers at {rate:g}: {bad} of {all_}" for n, rate, bad, all_ in post)
    unstable = [f"{bad} of {all_} with {n} layers at {rate:g}" for n, rate, bad, all_ in pre if bad]
    words = f"post-norm failed, {told}; pre-norm {', '.join(unstable) or 'never'}"
    stable = {(n, rate) for n, rate, bad, _ in pre if not bad}
    post = [cell for cell in post if cell[:2] in stable]  # elsewhere it is not the norm's place
    often = [cell for cell in post if cell[2] > cell[3] / 2]
    if not post:
        return Judged(words, CANNOT_TELL)
    if not often:
        return Judged(words, CANNOT_TELL if any(bad for _, _, bad, _ in post) else NOT_HERE)
    if len(often) == len(post) and not unstable:
        return Judged(words, HOLDS)
    lowest = {n: min(rate for m, rate, _, _ in often if m == n) for n, _, _, _ in often}
    when = ", ".join(f"{rate:g} with {n} layers" for n, rate in lowest.items())
    return Judged(words, ONLY_IF, f"the learning rate is at least {when}; and a stall counts")


def _at_uniform(results):
    uniform = math.log(len(manual().vocabulary))
    level = results["only the frequencies"]
    bad = [run["loss"] for run in results["runs"] if failed(run, level) and run["finite"]]
    if not bad:
        return Judged("no run stalled", CANNOT_TELL)
    near = sum(abs(loss - uniform) < abs(loss - level) for loss in bad)
    words = (
        f"{len(bad)} stalled runs, at {min(bad):.2f} to {max(bad):.2f} nats; frequencies "
        f"{level:.2f}, uniform {uniform:.2f}"
    )
    return Judged(words, HOLDS if near == len(bad) else NOT_HERE if not near else CANNOT_TELL)


def _warm_up_helps(results):
    stays = paired(losses(results, next(iter(WARMED))), losses(results, LONG))
    falls = paired(losses(results, WARMED_FALLING), losses(results, FALLING))
    gaps = {"the rate falls after it": falls, "the rate stays at its peak": stays}
    words = "with − without, in nats, " + "; ".join(f"{when}: {g}" for when, g in gaps.items())
    better = [when for when, gap in gaps.items() if gap.high < 0]
    if len(better) == len(gaps):
        return Judged(words, HOLDS)
    if better:
        return Judged(words, ONLY_IF, better[0])
    ruled_out = all(gap.low > -0.02 for gap in gaps.values())
    return Judged(words, NOT_HERE if ruled_out else CANNOT_TELL)


PRINTED = (
    "Post-LN typically diverges (loss goes to NaN or stalls at uniform) within the first 50 to 200 "
    "steps without warmup, because residual variance grows layer-by-layer and gradients explode. "
    "Pre-LN trains stably."
)
CLAIMS = (
    Claim(
        "post-norm-diverges",
        PRINTED,
        "100 steps without warm-up. A run has failed if a loss is not finite, or if its held-out "
        f"loss is not {STALL} nats below that of one who knows only how frequent the characters "
        "are. Typically: more than half of the runs. Depths and rates at which a pre-norm run "
        "fails say nothing about the norm's place and do not decide. Holds if post-norm typically "
        "fails at all others and pre-norm nowhere; holds only if … where it fails at some.",
        _diverges,
    ),
    Claim(
        "stalls-at-uniform",
        "“stalls at uniform”: a stalled run knows nothing at all.",
        "Holds if every stalled run is nearer to ln(characters) than to the frequencies' entropy; "
        "does not hold if none is.",
        _at_uniform,
    ),
    Claim(
        "warm-up-helps-post-norm",
        "The warm-up stage is practically helpful for avoiding this problem.",
        "6 layers, 200 steps at 0.002, the first 20 of them warm-up, beside none; once with a rate "
        "that stays at its peak, once with one that falls along a cosine. Holds if both paired 95% "
        "intervals lie below 0, holds only if … for one; does not hold if for neither a gain of "
        "0.02 nats is possible.",
        _warm_up_helps,
        source="Xiong et al., On Layer Normalization in the Transformer Architecture, 2020",
        link="https://arxiv.org/abs/2002.04745",
    ),
)

if __name__ == "__main__":
    main("norm_places", run, SETTINGS, CLAIMS)
