"""Experiments too long for a lesson: each a program that writes its result to data/.

    python -m tfcourse.experiments.lengths

A lesson reads the record, and runs a short piece of the same function beside it.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from tfcourse.claims.claim import Claim

DATA = Path(__file__).parents[2] / "data"


def recorded(name: str) -> dict:
    """A record: its "results", and the command, settings, versions and machine that made it.

    Raises:
        FileNotFoundError: there is no such record.
    """
    path = DATA / f"{name}.json"
    if not path.is_file():
        there = ", ".join(sorted(p.stem for p in DATA.glob("*.json"))) or "none"
        raise FileNotFoundError(
            f"there is no record {name!r} in the course's folder data/. There are: {there}. "
            "Records come with a clone of the course, not with the package alone."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def main(name: str, run: Callable[..., dict], settings: dict, claims: Sequence[Claim] = ()) -> None:
    """The command of an experiment: make its record; or, `--again`, decide with other seeds.

    `--again` keeps the learning rates that the record has chosen, takes seeds that it has not, and
    writes both verdicts beside the record. It ends with 1 where they differ.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tfcourse.experiments.{name}")
    parser.add_argument("--again", action="store_true", help="the verdicts, with other seeds")
    again = parser.parse_args().again
    say = functools.partial(print, flush=True)
    if not again:
        record(name, run, say=say, **settings)
        for id, verdict in verdicts(claims, recorded(name)["results"]).items():
            say(f"{id}: {verdict}")
        return
    kept = recorded(name)
    other = kept["settings"] | {"seeds": [seed + 50 for seed in kept["settings"]["seeds"]]}
    if kept["results"].get("chosen"):
        other |= {"pilot_seeds": [], "chosen": kept["results"]["chosen"]}
    results = run(**other, say=say)
    first, second = (verdicts(claims, found) for found in (kept["results"], results))
    kept["again"] = {"seeds": other["seeds"], "results": _without_curves(results)}
    _write(name, kept)
    for id in first:
        say(f"{id}: {first[id]}; with other seeds: {second[id]}")
    sys.exit(first != second)


def verdicts(claims: Sequence[Claim], results: dict) -> dict[str, str]:
    """The verdict on every claim, by its id; each judge takes the results whole."""
    return {claim.id: claim.judge(results).verdict for claim in claims}


def record(name: str, run: Callable[..., dict], *, say=print, **settings) -> None:
    """Run an experiment whole and keep what came out, with all that is needed to repeat it."""
    results = run(**settings, say=say)
    kept = {
        "command": f"python -m tfcourse.experiments.{name}",
        "settings": settings,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}, {sys.platform}; "
        f"{torch.get_num_threads()} thread(s)",
        "results": results,
    }
    _write(name, kept)


def _write(name: str, kept: dict) -> None:
    DATA.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    # Rows of numbers on one line each: a record is read, and compared, by people too.
    text = re.sub(r"\[[-\d.,e+\s]+\]", lambda row: re.sub(r"\s+", " ", row[0]), text)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _without_curves(value):
    if isinstance(value, dict):
        return {k: _without_curves(v) for k, v in value.items() if k != "curve"}
    return [_without_curves(v) for v in value] if isinstance(value, list) else value


def mean_and_spread(values) -> tuple[float, float]:
    """Mean and standard deviation (with n - 1) of the seeds' results."""
    values = torch.as_tensor(values, dtype=torch.float64)
    return values.mean().item(), values.std().item() if len(values) > 1 else 0.0
