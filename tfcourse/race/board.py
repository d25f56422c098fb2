"""The board: results that are never lost, ranked, and printed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tfcourse.experiments import mean_and_spread
from tfcourse.race import entries, running
from tfcourse.race.clock import STEPS
from tfcourse.race.judge import TOKENS

RULES = f"""\
The race: the fewest bits per byte on a text that the model has not seen, the last tenth of
Python's manual, within a budget of compute: the work of {STEPS} steps of a small model on this
machine, half a minute of one core, no GPU. A fast machine gets less time, a busy one loses none.
An entry is a file with a function train(text, clock, seed) that returns a model. The judge scores
it in windows of {TOKENS} characters. A model that looks ahead is out; so is an overrun of 5%.
The manual stands in every Python, so nobody can keep you from training on the answers: you race
against yourself and your class, and there is nothing to win but what you learn."""


def path() -> Path:
    """The file of the learner's results."""
    return running.folder() / "results.json"


def read(say: Callable[[str], None] = print) -> list[dict]:
    """The learner's results. A damaged file is set aside and reported, never overwritten."""
    try:
        text = path().read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        kept = json.loads(text)
        if kept["version"] == 1 and all(_is_line(line) for line in kept["lines"]):
            return kept["lines"]
    except (ValueError, RecursionError, LookupError, TypeError):
        pass
    aside = path().with_name(f"results.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}.json")
    os.replace(path(), aside)
    say(f"{path()} could not be read as results. It is kept as {aside.name}; a new one begins.")
    return []


def add(line: dict, say: Callable[[str], None] = print) -> None:
    """Write a result beside the ones that are there; two races may end at the same time."""
    from filelock import FileLock

    path().parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path().with_suffix(".lock"), timeout=10):
        content = json.dumps({"version": 1, "lines": [*read(say), line]}, indent=1)
        draft = path().with_name(f"{path().name}.{os.getpid()}.tmp")
        try:
            with open(draft, "w", encoding="utf-8") as file:
                file.write(content + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path())
        finally:
            draft.unlink(missing_ok=True)


def ranked(lines: list[dict], latest: dict | None = None) -> list[dict]:
    """The best line of every entry, the fewest bits first; the latest too, where it is not that.

    What is out of the race comes last, and only where it is the latest.
    """
    best: dict[tuple[str, str], dict] = {}
    for line in lines:
        key = (line["name"], line["whose"])
        if not line["out"] and (key not in best or mean(line) < mean(best[key])):
            best[key] = line
    shown = list(best.values())
    if latest is not None and not any(line is latest for line in shown):
        shown.append(latest)
    return sorted(shown, key=lambda line: math.inf if line["out"] else mean(line))


def table(lines: list[dict], latest: dict | None = None) -> str:
    """The board as text; `latest` is marked."""
    rows = [("", "", "entry", "whose", "bits per byte", "budget", "when", "what it tries")]
    for rank, line in enumerate(ranked(lines, latest), start=1):
        mark = "→" if line is latest else ""
        if line["out"]:
            bits, budget, rank = "out", "", "–"
        else:
            bits, budget = f"{mean(line):.4f}{_spread(line)}", f"{max(line['shares']):.0%}"
        words = line["tries"] if len(line["tries"]) <= 60 else line["tries"][:59] + "…"
        rows.append(
            (mark, str(rank), line["name"], line["whose"], bits, budget, line["when"][:10], words)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def show(latest: dict | None = None, say: Callable[[str], None] = print) -> None:
    """Print the board: the course's lines and the learner's."""
    kept = read(say)
    if latest is not None and latest in kept:
        latest = next(line for line in reversed(kept) if line == latest)
    say(table([*entries.RESULTS, *kept], latest))
    if latest is not None and latest["out"]:
        say(f"\n{latest['name']} is out of the race. {latest['out']}")


def mean(line: dict) -> float:
    """Bits per byte, the mean over the seeds."""
    return mean_and_spread(line["bits"])[0]


def _spread(line: dict) -> str:
    """The spread over the seeds; with one seed nobody knows it."""
    n = len(line["bits"])
    if n == 1:
        return " (1 seed)"
    return f" ± {mean_and_spread(line['bits'])[1]:.4f} ({n})"


def _is_line(line) -> bool:
    words = all(isinstance(line[key], str) for key in ("name", "whose", "tries", "when", "out"))
    numbers = [*line["bits"], *line["shares"]]
    sound = all(isinstance(x, (int, float)) and math.isfinite(x) for x in numbers)
    return words and sound and (line["out"] or bool(line["bits"] and line["shares"]))
