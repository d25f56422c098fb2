"""A3: what 1/√d_k does for a head that is trained, at several widths and rates (lesson 01)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    Claim,
    Difference,
    Judged,
    paired,
)
from tfcourse.experiments import main
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses, study
from tfcourse.training import fit

LETTERS, DIGITS, CARDS, D_MODEL = 12, 10, 6, 32
LEARNED = 0.1  # nats, held out
GUESSING = math.log(DIGITS)  # nats
DIVIDED, UNDIVIDED, SMALL = "divided by √d_k", "undivided", "undivided, smaller first weights"
WIDEST = 256
ARMS = {
    f"{kind}, d_k = {d_k}": (kind, d_k) for d_k in (16, 64, WIDEST) for kind in (DIVIDED, UNDIVIDED)
} | {f"{SMALL}, d_k = {WIDEST}": (SMALL, WIDEST)}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [1e-3, 3e-3, 1e-2, 3e-2, 1e-1],
    "pilot_seeds": [100, 101],
    "seeds": [0, 1, 2, 3, 4, 5],
    "steps": 200,
}


def deal(games: int, generator: torch.Generator | None = None) -> tuple[Tensor, ...]:
    """Six cards a game, each with a letter and a digit, and its letters asked for in another order.

    Returns:
        letters on the cards, digits on them, letters asked for, right digits: (games, 6) each.
    """
    letters = torch.rand(games, LETTERS, generator=generator).argsort(1)[:, :CARDS]
    digits = torch.randint(DIGITS, (games, CARDS), generator=generator)
    order = torch.rand(games, CARDS, generator=generator).argsort(1)
    return letters, digits, letters.gather(1, order), digits.gather(1, order)


class OneHead(nn.Module):
    """One head that looks up cards: no residual path, no feed-forward network.

    Its queries and keys begin with variance 1 in each of their d_k numbers, as in the footnote of
    Vaswani et al. (2017), section 3.2.1; or with variance 1/√d_k, so that the undivided scores
    begin where the divided ones do.
    """

    def __init__(self, kind: str, d_k: int):
        super().__init__()
        self.scale = d_k**-0.5 if kind == DIVIDED else 1.0
        self.letter, self.digit = nn.Embedding(LETTERS, D_MODEL), nn.Embedding(DIGITS, D_MODEL)
        self.w_q, self.w_k = (nn.Linear(D_MODEL, d_k, bias=False) for _ in range(2))
        gain = d_k**-0.25 if kind == SMALL else 1.0
        for projection in (self.w_q, self.w_k):
            nn.init.normal_(projection.weight, std=gain * D_MODEL**-0.5)
        self.w_v, self.read = nn.Linear(D_MODEL, D_MODEL), nn.Linear(D_MODEL, DIGITS)

    def forward(self, letters: Tensor, digits: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the digits (games, questions, 10), and the weights (games, questions, 6)."""
        q, k = self.w_q(self.letter(asked)), self.w_k(self.letter(letters))
        weights = torch.softmax(q @ k.mT * self.scale, dim=-1)
        return self.read(weights @ self.w_v(self.digit(digits))), weights


def one(arm: str, *, rate: float, seed: int, steps: int, watch=None) -> dict:
    """Train a head once.

    Returns:
        "loss": held out, the mean over the whole run, so that a low one means: learned soon, and
        kept; "end": held out, at the end; "steps": until the held-out loss is first below `LEARNED`
        (`steps` where it never was); "learned": whether it was; "largest": the mean of each row's
        largest weight at the start; "found": for each letter the share of the attention that goes
        to the card that shows it, held out, at the end; "curve": of the training losses.
    """
    torch.manual_seed(seed)
    model = OneHead(*ARMS[arm])
    deals = torch.Generator().manual_seed(seed)
    held_out = deal(64, torch.Generator().manual_seed(10_000 + seed))
    measured: list[float] = []  # before every second step

    def nats(games):
        *given, right = games
        return F.cross_entropy(model(*given)[0].flatten(0, 1), right.flatten())

    def measure():
        with torch.no_grad():
            measured.append(nats(held_out).item())

    def looked(losses):
        if len(losses) % 2 == 0:
            measure()
        if watch is not None:
            watch(losses)

    with torch.no_grad():
        largest = model(*held_out[:3])[1].amax(-1).mean().item()
    measure()
    curve = fit(model, lambda: nats(deal(32, deals)), steps=steps, learning_rate=rate, watch=looked)
    with torch.no_grad():
        weights = model(*held_out[:3])[1]
    letters, _, asked, _ = held_out
    shares = (weights * (asked[:, :, None] == letters[:, None, :])).sum(-1)
    reached = [2 * i for i, loss in enumerate(measured) if loss < LEARNED]
    return {
        "loss": sum(measured) / len(measured),
        "end": measured[-1],
        "steps": reached[0] if reached else steps,
        "learned": bool(reached),
        "largest": largest,
        "found": [round(shares[asked == i].mean().item(), 3) for i in range(LETTERS)],
        "curve": thinned(curve),
    }


def run(
    *,
    arms,
    rates,
    pilot_seeds,
    seeds,
    steps,
    chosen=None,
    say=lambda words: None,
    watch=None,
) -> dict:
    """Every arm at the rate chosen for it ("runs"), and at all other rates of the grid ("grid")."""
    options = {"seeds": seeds, "steps": steps, "say": say, "watch": watch}
    found = study(one, arms, rates=rates, pilot_seeds=pilot_seeds, chosen=chosen, **options)
    found["grid"] = []
    for arm in arms:
        others = [rate for rate in rates if rate != found["chosen"][arm]]
        found["grid"] += [
            {k: v for k, v in run.items() if k != "curve"}
            for run in study(one, [arm], rates=others, **options)["runs"]
        ]
    return found


def arm_of(kind: str, d_k: int = WIDEST) -> str:
    """The name of an arm."""
    return f"{kind}, d_k = {d_k}"


def rates_that_work(results: dict, arm: str) -> list[int]:
    """At how many rates of the grid the head has learned, for each seed."""
    everywhere = [run for run in results["runs"] + results["grid"] if run["arm"] == arm]
    grid = {run["rate"] for run in results["grid"]}
    seeds = sorted({run["seed"] for run in everywhere})
    return [
        sum(r["learned"] for r in everywhere if r["seed"] == seed and r["rate"] in grid)
        for seed in seeds
    ]


def ends(results: dict, arm: str) -> dict[float, float]:
    """Rate of the grid -> held-out loss at the end, the mean over the seeds."""
    runs = [run for run in results["runs"] + results["grid"] if run["arm"] == arm]
    found = {}
    for rate in sorted({run["rate"] for run in results["grid"]}):
        of_rate = [run["end"] for run in runs if run["rate"] == rate]
        found[rate] = sum(of_rate) / len(of_rate)
    return found


def times_the_steps(results: dict, kind: str, d_k: int = WIDEST) -> Difference:
    """How many times the steps of the divided head a kind needs: log₂ of it, paired over seeds."""
    those, these = (
        [math.log2(steps) for steps in losses(results, arm_of(k, d_k), key="steps")]
        for k in (kind, DIVIDED)
    )
    return paired(those, these)


def in_times(difference: Difference) -> str:
    """A difference of logarithms to base 2 as a factor with its interval."""
    mean, low, high = (2**x for x in (difference.mean, difference.low, difference.high))
    return f"× {mean:.1f} [{low:.1f}, {high:.1f}]"


def _slower(results) -> Judged:
    found = times_the_steps(results, UNDIVIDED)
    verdict = HOLDS if found.low > 0 else NOT_HERE if found.high <= 0 else CANNOT_TELL
    return Judged(f"{in_times(found)} the steps, over {found.pairs} seeds", verdict)


def _nothing(results) -> Judged:
    ends = losses(results, arm_of(UNDIVIDED), key="end")
    found = paired(ends, [GUESSING] * len(ends))
    verdict = CANNOT_TELL
    if found.high < -GUESSING / 2:
        verdict = NOT_HERE
    elif found.low > -GUESSING / 10:
        verdict = HOLDS
    mean = sum(ends) / len(ends)
    return Judged(f"{mean:.2f} nats at the end; guessing: {GUESSING:.2f}", verdict)


def _first_weights(results) -> Judged:
    found = times_the_steps(results, SMALL)
    within = math.log2(1.25)
    verdict = CANNOT_TELL
    if found.low > within:
        verdict = NOT_HERE
    elif found.high < within:
        verdict = HOLDS
    return Judged(f"{in_times(found)} the steps, over {found.pairs} seeds", verdict)


def _fewer_rates(results) -> Judged:
    counts = [rates_that_work(results, arm_of(kind)) for kind in (UNDIVIDED, DIVIDED)]
    found = paired(*counts)
    verdict = HOLDS if found.high < 0 else NOT_HERE if found.low >= 0 else CANNOT_TELL
    grid = len({run["rate"] for run in results["grid"]})
    means = [sum(c) / len(c) for c in counts]
    said = f"{means[0]:.1f} of {grid} rates work, divided {means[1]:.1f}; difference {found}"
    return Judged(said, verdict)


_STEPS = (
    "Steps until the held-out loss is below 0.1 nats (all steps, where it never is), each kind at "
    "the rate that was best for it on other seeds; paired over seeds, as a ratio with its 95% "
    "interval. "
)
CLAIMS = (
    Claim(
        id="undivided-learns-nothing",
        quote=f"Without the division by √d_k, nothing can be learned (d_k = {WIDEST}).",
        rule="Held-out loss at the end, at its best rate, with its interval over the seeds. Holds "
        "if it lies within a tenth of guessing, does not if it lies below half of guessing.",
        judge=_nothing,
    ),
    Claim(
        id="undivided-learns-more-slowly",
        quote=f"Without the division by √d_k, a head learns more slowly (d_k = {WIDEST}).",
        rule=_STEPS + "Holds if the interval lies above × 1, does not if it lies below.",
        judge=_slower,
    ),
    Claim(
        id="smaller-first-weights-do-as-well",
        quote="Smaller first weights do as well as the division: only the start matters "
        f"(d_k = {WIDEST}).",
        rule=_STEPS + "Holds if the interval ends below × 1.25, does not if it begins above it.",
        judge=_first_weights,
    ),
    Claim(
        id="undivided-fewer-rates",
        quote=f"Without the division by √d_k, fewer learning rates work (d_k = {WIDEST}).",
        rule="At how many rates of the grid a head gets below 0.1 nats, paired over seeds. Holds "
        "if the interval of the difference lies below 0, does not if it does not reach below 0.",
        judge=_fewer_rates,
    ),
)

if __name__ == "__main__":
    main("scaling", run, SETTINGS, CLAIMS)
