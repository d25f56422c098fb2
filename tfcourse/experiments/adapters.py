"""LoRA beside full fine-tuning: SmolLM2 learns to write dates as 2021-03-03 (lesson 11).

    python -m tfcourse.experiments.adapters

Both ways begin with the same published weights, and get a few dates, each once. Measured on days
that neither has seen; and, for what was forgotten, on Python's manual, which differs a little from
one version of Python to the next. The control is not trained at all.
"""

from __future__ import annotations

import copy
import functools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from tfcourse.adapters import add_lora, merge
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
from tfcourse.experiments import main, mean_and_spread
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel
from tfcourse.pretrained import INSTALL, SMOLLM2, load_smollm2
from tfcourse.tasks import Dates, python_manual
from tfcourse.tokens import BytePairEncoding
from tfcourse.training import fit

RANK, ALPHA = 8, 16
ARROW, END = " => ", "\n"
BATCH, UNSEEN = 4, 100
WINDOWS, WINDOW = 16, 96  # of the manual, in tokens
LORA, FULL, NONE = "LoRA", "full", "no training"
ARMS = (LORA, FULL, NONE)
SETTINGS = {
    "arms": list(ARMS),
    "rates": {LORA: [1e-3, 3e-3, 1e-2], FULL: [3e-5, 1e-4, 3e-4], NONE: [0.0]},
    "pilot_seeds": [100],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 20,
}
Texts = Sequence[tuple[str, str]]  # a date as people write it, and as it should be written


def missing() -> str:
    """What keeps the experiment from running here, in words; "" where nothing does."""
    path = SMOLLM2.find()
    if path is not None and path.suffix == ".gguf" and find_spec("gguf"):
        return ""
    return f"it begins with the weights in the package {SMOLLM2.package}: {INSTALL}"


@functools.cache
def published() -> tuple[LanguageModel, BytePairEncoding]:
    """SmolLM2, read once: runs train copies of it, some of them whole."""
    return load_smollm2(by_columns=False, say=lambda words: None)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Steps are short: where others use the cores too, threads mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# --- what is learned, what is measured -------------------------------------------------------


def answered(
    model: LanguageModel, tokens: BytePairEncoding, texts: Texts
) -> tuple[list[Tensor], list[Tensor]]:
    """For each date the logits at its answer's places, (answer, vocabulary), and what is right.

    The answer itself is given up to each place: teacher forcing.
    """
    prompts = [tokens.encode(date + ARROW) for date, _ in texts]
    answers = [tokens.encode(answer + END) for _, answer in texts]
    rows = [[*p, *a] for p, a in zip(prompts, answers, strict=True)]
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    asked = torch.zeros(len(rows), ids.shape[1], dtype=torch.bool)
    for i, row in enumerate(rows):  # filled up at the end: no token looks at what comes later
        ids[i, : len(row)] = torch.tensor(row)
        asked[i, len(prompts[i]) - 1 : len(row) - 1] = True
    x = model.embed(ids)
    for block in model.blocks:
        x = block(x, causal=True)
    logits = model.head(model.norm(x[asked]))  # elsewhere nobody asks, and a head is expensive
    return list(logits.split([*map(len, answers)])), [torch.tensor(a) for a in answers]


def loss_of(model: LanguageModel, tokens: BytePairEncoding, texts: Texts) -> Tensor:
    """Cross-entropy in nats a token, of the answers alone: the dates themselves are given."""
    logits, right = answered(model, tokens, texts)
    return F.cross_entropy(torch.cat(logits), torch.cat(right))


@functools.cache
def windows() -> Tensor:
    """Windows of Python's manual, evenly placed: (WINDOWS, WINDOW) tokens."""
    text, (_, tokens) = python_manual(), published()
    starts = torch.linspace(0, len(text) - 10 * WINDOW, WINDOWS).long().tolist()
    return torch.tensor([tokens.encode(text[i : i + 10 * WINDOW])[:WINDOW] for i in starts])


@torch.no_grad()
def forgotten(model: LanguageModel) -> float:
    """Bits per byte of the windows of the manual: the more, the more the model has forgotten."""
    (_, tokens), ids = published(), windows()
    nats = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
    size = sum(len(tokens.bytes(row)) for row in ids[:, 1:].tolist())
    return nats.item() / math.log(2) / size


@torch.no_grad()
def on_dates(model: LanguageModel, tokens: BytePairEncoding, texts: Texts) -> tuple[float, float]:
    """The loss, and the share of dates that come out right to the last digit, and end there.

    Written freely, the likeliest token each time, an answer is right just where the likeliest is
    right at every place with the right ones before it. So nothing has to be written.
    """
    logits, right = answered(model, tokens, texts)
    exact = [torch.equal(row.argmax(-1), a) for row, a in zip(logits, right, strict=True)]
    loss = F.cross_entropy(torch.cat(logits), torch.cat(right)).item()
    return loss, sum(exact) / len(exact)


def measured(model: LanguageModel) -> dict:
    """The loss on unseen days, how many come out without a mistake, and the manual."""
    texts = Dates().texts(UNSEEN, torch.Generator().manual_seed(7), "held out")
    loss, exact = on_dates(model, published()[1], texts)
    bits = forgotten(model)
    return {"loss": round(loss, 5), "exact": exact, "bits per byte": round(bits, 5)}


@functools.cache
def _untrained() -> dict:
    return measured(published()[0])


# --- one run ---------------------------------------------------------------------------------


def train(arm: str, *, rate: float, seed: int, steps: int, watch=None):
    """A copy of SmolLM2, trained once; the loss of every step, and the seconds that each took.

    Seconds are those of the processor: on a machine that does other things too, a clock on the wall
    would count those.
    """
    model, tokens = copy.deepcopy(published()[0]), published()[1]
    torch.manual_seed(seed)
    if arm != FULL:
        add_lora(model, RANK, ALPHA)
    dates, generator = Dates(), torch.Generator().manual_seed(seed)

    def loss():
        return loss_of(model, tokens, dates.texts(BATCH, generator))

    marks = [time.process_time()]

    def note(losses):
        marks.append(time.process_time())
        if watch is not None:
            watch(losses)

    recipe = {"warm_up": steps // 10, "decay": True, "clip": 1.0}
    curve = fit(model, loss, steps=steps, learning_rate=rate, watch=note, **recipe)
    return model, curve, [b - a for a, b in pairwise(marks)]


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once, merge, and measure; the arm without training is measured once for all seeds."""
    with _one_thread():
        if arm == NONE:
            return {**_untrained(), "parameters": 0, "curve": []}
        model, curve, seconds = train(arm, rate=rate, seed=seed, steps=steps, watch=watch)
        learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
        return {
            **measured(model if arm == FULL else merge(model)),
            "parameters": learned,
            "seconds a step": round(statistics.median(seconds), 3),
            "curve": thinned(curve),
        }


def run(*, arms, rates, pilot_seeds=(), chosen=None, say=lambda words: None, **settings) -> dict:
    """Every arm at a learning rate of its own, on the same seeds.

    Returns:
        what `study` gives, and "tried": what the runs that chose the rates have learned and
        forgotten at each.
    """
    tried, found = [], {"chosen": dict(chosen or {}), "pilots": {}, "runs": []}

    def kept(arm, **options):
        made = one(arm, **options)
        if options["seed"] in pilot_seeds:
            of = {key: made[key] for key in ("loss", "exact", "bits per byte")}
            tried.append({"arm": arm, "rate": options["rate"], **of})
        return made

    for arm in arms:
        given = {"rates": rates[arm], "pilot_seeds": pilot_seeds}
        made = study(kept, [arm], chosen=found["chosen"], say=say, **given, **settings)
        found["chosen"] |= made["chosen"]
        found["pilots"] |= made["pilots"]
        found["runs"] += made["runs"]
    return found | {"tried": tried}


# --- what is decided -------------------------------------------------------------------------

POINTS, NATS = 0.05, 0.005


def _both(first: str, second: str, only_if: tuple[str, str]) -> tuple[str, str]:
    """One verdict of two, and the condition where only one of the two holds."""
    if first == second:
        return first, ""
    if {first, second} == {HOLDS, NOT_HERE}:
        return ONLY_IF, only_if[0] if first == HOLDS else only_if[1]
    return CANNOT_TELL, ""


def _on_par(results):
    right = {arm: losses(results, arm, key="exact") for arm in (LORA, FULL, NONE)}
    points = paired(right[FULL], right[LORA])
    nats = paired(losses(results, LORA), losses(results, FULL))
    means = {arm: mean_and_spread(shares)[0] for arm, shares in right.items()}
    said = (
        ", ".join(f"{arm} {mean:.0%}" for arm, mean in means.items())
        + f" exact; full − LoRA {points}; LoRA − full {nats} nats a token"
    )
    if means[FULL] < 0.5:
        return Judged(said, CANNOT_TELL)
    only_if = ("exact answers count, not their nats", "the nats count, not exact answers")
    return Judged(said, *_both(lower(points, -POINTS), lower(nats, -NATS), only_if))


def _throughput(results):
    seconds = {arm: losses(results, arm, key="seconds a step") for arm in (LORA, FULL)}
    means = {arm: mean_and_spread(each)[0] for arm, each in seconds.items()}
    share = losses(results, LORA, key="parameters")[0] / losses(results, FULL, key="parameters")[0]
    gap = paired(seconds[LORA], seconds[FULL])
    said = (
        f"{share:.2%} of the parameters; {means[LORA]:.2f} and {means[FULL]:.2f} seconds a step, "
        f"LoRA − full {gap}"
    )
    return Judged(said, lower(gap) if share < 1 else NOT_HERE)


def _less_and_less(results):
    learned = paired(losses(results, FULL), losses(results, LORA))
    bits = {arm: losses(results, arm, key="bits per byte") for arm in (LORA, FULL, NONE)}
    more = {arm: paired(bits[arm], bits[NONE]) for arm in (LORA, FULL)}
    gap = paired(bits[LORA], bits[FULL])
    said = (
        f"unseen days, full − LoRA {learned} nats; bits per byte of the manual, after − before: "
        f"LoRA {more[LORA]}, full {more[FULL]}; LoRA − full {gap}"
    )
    halves = {lower(learned), lower(gap)}
    if NOT_HERE in halves:
        return Judged(said, NOT_HERE)
    return Judged(said, HOLDS if halves == {HOLDS} else CANNOT_TELL)


_PAPER = {
    "quote": "LoRA performs on-par or better than fine-tuning in model quality on RoBERTa, "
    "DeBERTa, GPT-2, and GPT-3, despite having fewer trainable parameters, a higher training "
    "throughput, and, unlike adapters, no additional inference latency.",
    "source": "Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021",
    "link": "https://arxiv.org/abs/2106.09685",
}
_HERE = (
    f"SmolLM2 learns to write dates, {SETTINGS['steps']} steps, each arm at its own rate, rank "
    f"{RANK} on attention's q, k and v."
)
CLAIMS = (
    Claim(
        id="lora-on-par",
        **_PAPER,
        rule=f"Quality. {_HERE} Full fine-tuning gets at most {POINTS:.0%} more of {UNSEEN} unseen "
        f"days exactly right (so few days are no surer), and is at most {NATS} nats a token better "
        "(an answer of 11 tokens is then 5% likelier). Each holds or does not by the 95% interval "
        "of the paired difference. Both hold: holds. Neither: does not. One holds and the other "
        "does not: holds only if. Where full fine-tuning gets less than half of the days right: "
        "cannot tell.",
        judge=_on_par,
    ),
    Claim(
        id="lora-throughput",
        **_PAPER,
        rule=f"Throughput. {_HERE} Holds if fewer numbers are trained and a step takes the "
        "processor less time, by the 95% interval of the paired difference; does not if it takes "
        "as long or longer. (Merged, it has the parts that it had before: a test. Batches are "
        "small here, so AdamW's own work counts for more than in the paper.)",
        judge=_throughput,
        timed=True,
    ),
    Claim(
        id="lora-learns-and-forgets-less",
        quote="LoRA Learns Less and Forgets Less",
        rule=f"{_HERE} Learns less: its loss on unseen days is higher than that of full "
        f"fine-tuning. Forgets less: {WINDOWS} windows of Python's manual then cost it fewer bits "
        "per byte. By the 95% intervals of the paired differences. Holds if both do; does not if "
        "one surely does not. (An earlier rule judged the halves apart; this one was written when "
        "both sets of seeds were known. The paper's models are 50 times as large and learn "
        "programming and mathematics.)",
        judge=_less_and_less,
        source="Biderman et al., LoRA Learns Less and Forgets Less, 2024",
        link="https://arxiv.org/abs/2405.09673",
    ),
)

if __name__ == "__main__":
    main("adapters", run, SETTINGS, CLAIMS)
