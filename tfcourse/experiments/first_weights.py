"""B10 and B11: how large should the first weights be, and what do very deep stacks do (lesson 07)?

A deep, narrow, pre-norm language model of characters. Only the matrices inside the blocks begin in
different ways; embedding and head begin the same in every arm. Two sizes of weights, each with and
without the 1/√(2L) on what writes into the stream, tell which of the two it is that helps.
"""

from __future__ import annotations

import math

import torch
from torch import nn

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
from tfcourse.models import LanguageModel, TransformerConfig

PYTORCH, GPT2 = "PyTorch's own", "0.02, and 1/√(2L)"
ARMS = {
    "0.5": {"std": lambda inputs: 0.5},
    "1/√inputs": {"std": lambda inputs: inputs**-0.5},
    "1/√inputs, and 1/√(2L)": {"std": lambda inputs: inputs**-0.5, "scaled": True},
    PYTORCH: {"std": None},
    "0.02": {"std": lambda inputs: 0.02},
    GPT2: {"std": lambda inputs: 0.02, "scaled": True},
}
TWICE = ("0.5", "1/√inputs")
SETTINGS = {
    "arms": list(ARMS),
    "rates": [1e-3, 3.16e-3, 1e-2],
    "pilot_seeds": [100],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 100,
    "deep": {"layers": 112, "arms": ["1/√inputs", GPT2], "rate": 1e-3, "steps": 100},
}
D_MODEL, HEADS, LAYERS, TOKENS, BATCH = 64, 4, 16, 32, 16
DEEP_WIDTH, DEEP_HEADS, DEEP_BATCH = 32, 2, 4


@torch.no_grad()
def begin(blocks: nn.Module, arm: str, layers: int) -> None:
    """Give the matrices of a stack the first weights of an arm; biases 0 but for PyTorch's own."""
    std, scaled = ARMS[arm]["std"], ARMS[arm].get("scaled", False)
    if std is None:
        return
    for name, weights in blocks.named_parameters():
        if name.endswith("bias"):
            weights.zero_()
        elif weights.dim() == 2:
            writes = name.split(".")[-2] in ("out", "down")  # into the stream
            scale = (2 * layers) ** -0.5 if scaled and writes else 1.0
            weights.normal_(std=scale * std(weights.shape[1]))


def make(arm: str, *, d_model=D_MODEL, heads=HEADS, layers=LAYERS) -> LanguageModel:
    """A pre-norm model whose blocks begin as the arm says, embedding and head with 0.02."""
    model = LanguageModel(TransformerConfig(len(manual().vocabulary), d_model, heads, layers))
    for part in (model.embed.tokens, model.head):
        nn.init.normal_(part.weight, std=0.02)
    begin(model.blocks, arm, layers)
    return model


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once: warm-up over a tenth of the steps, then a cosine; no clipping."""
    torch.manual_seed(seed)
    model = make(arm)
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=BATCH, steps=steps, learning_rate=rate,
        warm_up=max(1, steps // 10), decay=True, watch=watch,
    )  # fmt: skip
    return {"loss": held_out(model), "curve": thinned(curve)}


def held_out(model) -> float:
    """The held-out loss; a run that ended in NaN counts as one of 100 nats."""
    loss = manual().losses(model, TOKENS, windows=64).mean().item()
    return min(loss, 100.0) if math.isfinite(loss) else 100.0


@torch.no_grad()
def stream(model) -> dict:
    """What every block does to the stream on held-out text: its size, its change in percent."""
    generator = torch.Generator().manual_seed(0)
    x = model.embed(manual().batch(16, TOKENS, generator, "held out")[0])
    sizes, changes = [x.std().item()], []
    for block in model.blocks:
        after = block(x, causal=True)
        changes.append(round(100 * ((after - x).norm() / x.norm()).item(), 2))
        sizes.append(round(after.std().item(), 5))
        x = after
    return {"sizes": sizes, "changes": changes}


def without_eighths(model) -> list[float]:
    """The held-out loss when one eighth of the blocks is skipped: the first, … the last."""
    blocks, width = model.blocks, len(model.blocks) // 8
    found = []
    for i in range(8):
        model.blocks = nn.ModuleList([*blocks[: i * width], *blocks[(i + 1) * width :]])
        found.append(held_out(model))
    model.blocks = blocks
    return found


def deeply(arm, *, rate, seed, steps, layers) -> dict:
    """Train a stack of more than a hundred blocks; what its blocks do, before and after."""
    torch.manual_seed(seed)
    model = make(arm, d_model=DEEP_WIDTH, heads=DEEP_HEADS, layers=layers)
    before = stream(model)
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=DEEP_BATCH, steps=steps, learning_rate=rate,
        warm_up=max(1, steps // 10), decay=True,
    )  # fmt: skip
    return {
        "arm": arm,
        "seed": seed,
        "loss": held_out(model),
        "curve": thinned(curve),
        "before": before,
        "after": stream(model),
        "without an eighth": without_eighths(model),
    }


def run(*, arms, seeds, deep=None, say=lambda words: None, watch=None, **settings) -> dict:
    """Every way to begin at its own learning rate; and the deep stacks, three seeds each.

    The arms of `TWICE` get as many seeds again: five were too few to tell the two apart.
    """
    found = study(one, arms, seeds=seeds, say=say, watch=watch, **settings)
    more = {"seeds": [seed + 10 for seed in seeds], "steps": settings["steps"], "say": say}
    twice = [arm for arm in TWICE if arm in arms]
    found["runs"] += study(one, twice, chosen=found["chosen"], **more)["runs"]
    found["deep"] = []
    for arm in deep["arms"] if deep else ():
        for seed in seeds[:3]:
            sizes = {"layers": deep["layers"], "steps": deep["steps"], "rate": deep["rate"]}
            found["deep"].append(deeply(arm, seed=seed, **sizes))
            say(f"{deep['layers']} blocks, {arm}, seed {seed}: {found['deep'][-1]['loss']:.3f}")
    return found | {"only the frequencies": manual().unigram_entropy()}


# --- the claims; `--again` decides by the same rules, with seeds that none of them has seen -------

MARGIN = 0.02  # nats, less than a hundredth of the loss: a smaller effect would matter to nobody


def gain_of_the_factor(results, base) -> Difference:
    """The paired difference that 1/√(2L) makes, over the seeds that both arms have."""
    scaled = losses(results, f"{base}, and 1/√(2L)")
    return paired(scaled, losses(results, base)[: len(scaled)])


def _scaled_is_better(results):
    gaps = {base: gain_of_the_factor(results, base) for base in ("1/√inputs", "0.02")}
    words = "; ".join(f"{base}: {gap} nats" for base, gap in gaps.items())
    better = [base for base, gap in gaps.items() if gap.high < 0]
    if len(better) == 2:
        return Judged(words, HOLDS)
    if better:
        return Judged(words, ONLY_IF, f"the other weights begin with {better[0]}")
    none = all(gap.low > -MARGIN for gap in gaps.values())
    return Judged(words, NOT_HERE if none else CANNOT_TELL)


def _too_large(results):
    gap = paired(losses(results, "1/√inputs"), losses(results, "0.5"))
    return Judged(f"1/√inputs − 0.5: {gap} nats, each at its own rate", lower(gap, MARGIN))


def late_and_early(run, when="after") -> tuple[float, float]:
    """The mean change by the last eighth of a deep stack's blocks, and by its second eighth."""
    changes = run[when]["changes"]
    width = len(changes) // 8
    return sum(changes[-width:]) / width, sum(changes[width : 2 * width]) / width


def _late_blocks_whisper(results):
    quiet, words = {}, []
    for arm in dict.fromkeys(run["arm"] for run in results["deep"]):
        pairs = [late_and_early(run) for run in results["deep"] if run["arm"] == arm]
        quiet[arm] = [late < early / 2 for late, early in pairs]
        late, early = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        words.append(f"{arm}: {early:.1f}% early, {late:.1f}% late")
    words = "; ".join(words)
    whole = [arm for arm, found in quiet.items() if all(found)]
    if len(whole) == len(quiet):
        return Judged(words, HOLDS)
    if not any(any(found) for found in quiet.values()):
        return Judged(words, NOT_HERE)
    if whole and not any(any(found) for arm, found in quiet.items() if arm not in whole):
        return Judged(words, ONLY_IF, f"the weights begin with {whole[0]}")
    return Judged(words, CANNOT_TELL)


CLAIMS = (
    Claim(
        "scaled-start-trains-better",
        "A deep pre-norm stack trains better if the matrices that write into the stream begin "
        "smaller by 1/√(2L).",
        "Two sizes of weights, each with and without the factor, each at its own learning rate. "
        "Holds if the paired 95% interval of the difference lies below 0 for both sizes, holds "
        f"only if … for one; does not hold if for neither a gain of {MARGIN} nats is possible.",
        _scaled_is_better,
    ),
    Claim(
        "large-start-trains-worse",
        "First weights that are far too large spoil the training.",
        "A standard deviation of 0.5 beside 1/√inputs, each at its own learning rate, ten seeds. "
        "Holds if "
        f"0.5 is surely worse by more than {MARGIN} nats.",
        _too_large,
    ),
    Claim(
        "late-blocks-whisper",
        "In a pre-norm stack of more than a hundred blocks, late blocks change the stream much "
        "less than early ones, after training too.",
        "After a short training, the mean change by the last eighth of the blocks beside the "
        "second eighth's. Holds if it is less than half in every seed, for both ways to begin; "
        "holds only if … for one of them.",
        _late_blocks_whisper,
    ),
)

if __name__ == "__main__":
    main("first_weights", run, SETTINGS, CLAIMS)
