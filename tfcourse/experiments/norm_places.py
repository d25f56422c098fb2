"""B5: the norm before or after, at several learning rates and depths, without warm-up (lesson 07).

All rates are reported: which of them a stack bears is the question, so none is chosen. Two arms run
longer and answer whether a warm-up over a tenth of the steps helps post-norm.
"""

from __future__ import annotations

import math

import torch

from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, ONLY_IF, Claim, Judged, paired
from tfcourse.experiments import main
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel

PRE, POST = "pre-norm", "post-norm"
LONG, LONG_WARM = "post-norm, 12 layers, long", "post-norm, 12 layers, long, warm-up"
FEWER = {"rates": (3e-4, 1e-3), "seeds": 3}  # deeper stacks are expensive
ARMS = {
    "pre-norm, 6 layers": {"layers": 6, "norm_first": True},
    "post-norm, 6 layers": {"layers": 6, "norm_first": False},
    "pre-norm, 12 layers": {"layers": 12, "norm_first": True, **FEWER},
    "post-norm, 12 layers": {"layers": 12, "norm_first": False, **FEWER},
    "pre-norm, 18 layers": {"layers": 18, "norm_first": True, "rates": (3e-4,), "seeds": 3},
    "post-norm, 18 layers": {"layers": 18, "norm_first": False, "rates": (3e-4,), "seeds": 3},
    LONG: {"layers": 12, "norm_first": False, "rates": (1e-3,), "steps": 240},
    LONG_WARM: {"layers": 12, "norm_first": False, "rates": (1e-3,), "steps": 240, "warm_up": 24},
}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [1e-3, 3e-3, 1e-2],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 100,
}
D_MODEL, HEADS, D_FF, TOKENS, BATCH = 256, 4, 1024, 32, 4


def make(layers: int, norm_first: bool) -> LanguageModel:
    """A model as one would write it without a second thought: PyTorch's own first weights."""
    return LanguageModel(
        len(manual().vocabulary), D_MODEL, HEADS, layers, d_ff=D_FF, positions="sinusoidal",
        norm_first=norm_first,
    ).small_embeddings()  # fmt: skip


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once, with AdamW, without weight decay or clipping; the rate stays where it is.

    An arm that says how many steps it needs gets those.
    """
    options = ARMS[arm]
    torch.manual_seed(seed)
    model = make(options["layers"], options["norm_first"])
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=BATCH, steps=options.get("steps", steps),
        learning_rate=rate, warm_up=options.get("warm_up", 0), watch=watch,
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


# --- the claims: the rules stood here before the run ------------------------------------------

STALL = 0.1  # nats that a run must have won over the frequencies; five times what seeds differ by


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
    often, cells, pre_failed = [], [], False
    for layers in (6, 12, 18):
        before = failures(results, layers, PRE)
        for rate, (bad, all_) in failures(results, layers, POST).items():
            pre_failed |= before[rate][0] > 0
            cells.append((layers, rate, bad, all_))
            if bad > all_ / 2:
                often.append((layers, rate))
    words = "; ".join(f"{n} layers at {rate:g}: {bad} of {all_}" for n, rate, bad, all_ in cells)
    words = f"post-norm failed, {words}; pre-norm {'sometimes' if pre_failed else 'never'}"
    if pre_failed:  # then it is not the place of the norm alone
        return Judged(words, CANNOT_TELL)
    if not any(bad for _, _, bad, _ in cells):
        return Judged(words, NOT_HERE)
    if len(often) == len(cells):
        return Judged(words, HOLDS)
    if not often:
        return Judged(words, CANNOT_TELL)
    lowest = {n: min(rate for m, rate in often if m == n) for n in dict(often)}
    when = " or ".join(f"at least {rate:g} with {n} layers" for n, rate in lowest.items())
    return Judged(words, ONLY_IF, f"the learning rate is {when}, and a stall counts")


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
    gap = paired(losses(results, LONG_WARM), losses(results, LONG))
    words = f"with − without {gap} nats, 12 layers, rate 0.001"
    if gap.high < 0:
        return Judged(words, HOLDS)
    return Judged(words, NOT_HERE if gap.low > -0.02 else CANNOT_TELL)


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
        "are. Typically: more than half of the runs. Holds if so at every depth and rate that was "
        "run; holds only if … at some; cannot tell if a pre-norm run fails too.",
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
        "12 layers, 240 steps, the first 24 of them warm-up, beside none. Holds if the paired 95% "
        "interval lies below 0; does not hold if a gain of 0.02 nats is ruled out.",
        _warm_up_helps,
        source="Xiong et al., On Layer Normalization in the Transformer Architecture, 2020",
        link="https://arxiv.org/abs/2002.04745",
    ),
)

if __name__ == "__main__":
    main("norm_places", run, SETTINGS, CLAIMS)
