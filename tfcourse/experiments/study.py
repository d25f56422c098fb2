"""One form for every study: arms, a learning rate for each chosen on other seeds, paired seeds.

An experiment gives `one(arm, *, rate, seed, steps, watch)`, which trains once and returns a dict
with "loss" (held out, in nats) and "curve". Every arm meets the same seeds, so that differences can
be taken pair by pair (`tfcourse.claims.claim.paired`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

WIDER = 10**0.5  # the step of a grid of rates, and of its widening


def study(
    one: Callable[..., dict],
    arms: Sequence[str],
    *,
    seeds: Sequence[int],
    steps: int,
    rates: Sequence[float] = (),
    pilot_seeds: Sequence[int] = (),
    chosen: Mapping[str, float] | None = None,
    say: Callable[[str], None] = lambda words: None,
    watch=None,
) -> dict:
    """Run every arm on every seed, each at the rate that was best for it on the pilot seeds.

    A rate at the edge of the grid is no choice: the grid is widened until the best one lies inside
    (at most three times on either side).

    Args:
        one: trains an arm once.
        rates: the grid to choose from, lowest first. One rate alone is taken as it is. Where there
            are several and no pilot seeds, none is chosen: all are run, with all seeds.
        pilot_seeds: seeds on which the rate is chosen; none of them is reported.
        chosen: arm -> rate, where it was chosen before.

    Returns:
        "chosen" (arm -> rate), "pilots" (arm -> rate -> mean loss) and "runs": a list of dicts with
        arm, rate, seed and what `one` gave.

    Raises:
        ValueError: a seed is a pilot's and reported too.
    """
    if set(seeds) & set(pilot_seeds):
        raise ValueError("seeds: a seed that chooses a rate must not be reported as well.")
    chosen = dict(chosen or {})
    pilots: dict[str, dict[str, float]] = {}
    runs = []
    for arm in arms:
        if arm in chosen:
            taken = [chosen[arm]]
        elif pilot_seeds and len(rates) > 1:
            chosen[arm], pilots[arm] = _best_rate(one, arm, rates, pilot_seeds, steps, say)
            taken = [chosen[arm]]
        else:
            taken = list(rates)
        for rate in taken:
            for seed in seeds:
                found = one(arm, rate=rate, seed=seed, steps=steps, watch=watch)
                runs.append({"arm": arm, "rate": rate, "seed": seed, **found})
                say(f"{arm}, rate {rate:g}, seed {seed}: {found['loss']:.4f}")
    return {"chosen": chosen, "pilots": pilots, "runs": runs}


def losses(results: dict, arm: str, rate: float | None = None, key: str = "loss") -> list[float]:
    """What the runs of an arm gave, in the order of the seeds.

    Raises:
        ValueError: there are no such runs.
    """
    found = [
        run[key]
        for run in results["runs"]
        if run["arm"] == arm and (rate is None or run["rate"] == rate)
    ]
    if not found:
        there = ", ".join(sorted({run["arm"] for run in results["runs"]}))
        raise ValueError(f"arm: there are no runs of {arm!r} at rate {rate}. There are: {there}.")
    return found


def _best_rate(one, arm, rates, seeds, steps, say):
    """The rate with the least mean loss, and every rate's mean loss."""
    tried: dict[float, float] = {}

    def attempt(rate):
        found = [one(arm, rate=rate, seed=seed, steps=steps)["loss"] for seed in seeds]
        mean = sum(found) / len(found)
        tried[rate] = mean if math.isfinite(mean) else math.inf
        say(f"{arm}, pilot, rate {rate:.3g}: {mean:.4f}")

    for rate in rates:
        attempt(rate)
    for _ in range(3):
        best = min(tried, key=tried.get)
        if best == max(tried):
            attempt(round(best * WIDER, 12))
        elif best == min(tried):
            attempt(round(best / WIDER, 12))
        else:
            break
    best = min(tried, key=tried.get)
    return best, {f"{rate:.4g}": round(loss, 4) for rate, loss in sorted(tried.items())}
