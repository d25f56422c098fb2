"""Experiments too long for a lesson: each a program that writes its result to data/.

    python -m tfcourse.experiments.lengths

A lesson reads the record, and runs a short piece of the same function beside it.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import torch

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


def record(name: str, run: Callable[..., dict], **settings) -> None:
    """Run an experiment whole and keep what came out, with all that is needed to repeat it."""
    results = run(**settings, say=lambda words: print(words, flush=True))
    kept = {
        "command": f"python -m tfcourse.experiments.{name}",
        "settings": settings,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}, {sys.platform}; "
        f"{torch.get_num_threads()} thread(s)",
        "results": results,
    }
    DATA.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def mean_and_spread(values) -> tuple[float, float]:
    """Mean and standard deviation (with n - 1) of the seeds' results."""
    values = torch.as_tensor(values, dtype=torch.float64)
    return values.mean().item(), values.std().item() if len(values) > 1 else 0.0
