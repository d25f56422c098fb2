"""Entries: where they are, how a new one begins, and how one is run and judged."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from tfcourse.checks import store
from tfcourse.race import clock, entries

LIMIT = 1800.0  # seconds on the wall for one seed: on a starved machine 600 ended a fair one
KEPT = 4_000  # characters of what an entry prints: the last ones


class RaceError(Exception):
    """What cannot be done, and what to do instead, in a sentence."""


def folder() -> Path:
    """Where the learner's entries and results are."""
    return store.home() / "race"


def find(name: str) -> tuple[Path, str]:
    """The file of an entry and whose it is, "course" or "yours".

    Raises:
        RaceError: there is none of this name.
    """
    if name in entries.NAMES:
        return entries.source(name), "course"
    file = folder() / f"{_sound(name)}.py"
    if not file.is_file():
        yours = sorted(path.stem for path in folder().glob("*.py"))
        raise RaceError(
            f"NAME must be one of the course's entries ({', '.join(entries.NAMES)}) or of yours "
            f"({', '.join(yours) or 'none yet'}). Got {name!r}. `tfcourse race new {name}` begins "
            "one."
        )
    return file, "yours"


def new(name: str) -> Path:
    """Write an entry to begin with, the course's plain one; what is there is never overwritten.

    Raises:
        RaceError: the name is no name, or taken; or it cannot be written.
    """
    if _sound(name) in entries.NAMES:
        raise RaceError(f"NAME must not be one of the course's entries. Got {name!r}.")
    file = folder() / f"{name}.py"
    code = entries.source("plain").read_text(encoding="utf-8")
    words = f'"""{name}: so far, the course\'s plain entry (write here, in a line, what you try)"""'
    code = words + code[code.index('"""', 3) + 3 :]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "x", encoding="utf-8") as target:
            target.write(code)
    except FileExistsError:
        raise RaceError(
            f"{file} is there already, and is left as it is. Choose another NAME, or go on with "
            f"it: `tfcourse race run {name}`."
        ) from None
    except OSError as error:
        raise RaceError(f"{file} could not be written ({error}).") from None
    return file


def tries(file: Path) -> str:
    """What an entry tries: the first line of its docstring, read without running it."""
    try:
        words = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    except (OSError, ValueError, SyntaxError):
        words = ""
    return words.strip().split("\n")[0] or "(no docstring)"


def run(
    name: str,
    seeds: Sequence[int],
    *,
    steps: int = clock.STEPS,
    limit: float = LIMIT,
    say: Callable[[str], None] = lambda words: None,
) -> dict:
    """Run an entry once a seed, each in a process of its own; the line for the board.

    The first seed that is out of the race ends it.

    Raises:
        RaceError: there is no such entry.
    """
    file, whose = find(name)
    line = {"name": name, "whose": whose, "tries": tries(file), "steps": steps, "out": ""}
    line["when"] = datetime.now().astimezone().isoformat(timespec="minutes")
    found = []
    for seed in seeds:
        say(f"{name}, seed {seed} …")
        result = one(file, seed, steps, limit)
        if "out" in result:
            line["out"] = result["out"]
            break
        found.append(result)
        say(f"{name}, seed {seed}: {result['bits']:.4f} bits per byte, {told(result, steps)}")
    line["bits"] = [round(result["bits"], 5) for result in found]
    line["shares"] = [round(share(result, steps), 3) for result in found]
    line["paces"] = [round(pace(result), 3) for result in found]
    return line


def share(result: dict, steps: int) -> float:
    """The share of the budget that was used, by the mean of both measures of the machine."""
    return result["used"] / (steps * sum(result["references"]) / 2)


def pace(result: dict) -> float:
    """How far the two measures of the machine lie apart, as a share of their mean."""
    before, after = result["references"]
    return abs(after - before) / ((before + after) / 2)


def told(result: dict, steps: int) -> str:
    """A run's budget and the machine's pace, in words."""
    before, after = (f"{1000 * seconds:.0f}" for seconds in result["references"])
    said = f"{share(result, steps):.0%} of the budget (a step took {before} ms before, {after} ms "
    said += "after)"
    if pace(result) > 0.15:
        said += ". The machine changed its pace: run it again when it is quieter"
    return said


def one(file: Path, seed: int, steps: int, limit: float) -> dict:
    """One run in a process of its own, which ends with this call whatever it does."""
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.json"
        task = {"entry": str(file), "seed": seed, "steps": steps, "result": str(result)}
        child = subprocess.Popen(
            [sys.executable, "-m", "tfcourse.race.child", json.dumps(task)],
            # One thread, and no GPU: the clock sees the processor alone.
            env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that what it started ends with it
        )
        printed: list[bytes] = []
        reader = threading.Thread(target=_drain, args=(child.stdout, printed), daemon=True)
        reader.start()
        try:
            child.wait(limit)
        except subprocess.TimeoutExpired:
            return {"out": f"It was not done after {limit:.0f} seconds on the wall: does it wait?"}
        finally:
            _end(child)
            reader.join(1)
        try:
            return json.loads(result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            last = b"".join(printed).decode(errors="replace").strip().split("\n")[-1][:200]
            return {
                "out": f"Its process ended with {child.returncode} and without a result"
                + (f": {last}" if last else ".")
            }


def _sound(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", name):
        raise RaceError(
            "NAME must be a letter, then letters, digits and _, at most 40 in all. "
            f"Got {name[:60]!r}."
        )
    return name


def _drain(pipe, kept: list[bytes]) -> None:
    """Read what a child prints, so that it never waits; keep the end of it."""
    while piece := pipe.read1(65_536):
        kept[:] = [(b"".join(kept) + piece)[-KEPT:]]


def _end(child: subprocess.Popen) -> None:
    """End a child and all that it started."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    except (ProcessLookupError, PermissionError):
        pass
    child.wait()
