"""One run of an entry in a process of its own: `python -m tfcourse.race.child`; not for people.

It reads a task from its first argument (JSON) and writes what came out to the task's file: "bits",
"used" (seconds) and "references" (of a step, before and after), or "out": why it is out of the
race.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import traceback
from pathlib import Path

import torch

from tfcourse.race.clock import Clock, reference_seconds
from tfcourse.race.judge import OutOfRace, judge, manual, training_part

OVERRUN = 1.05  # of the budget: a step that was begun may be ended
IGNORED = 1.5  # of the budget: it will not stop by itself


def main(task: dict) -> None:
    """Run the entry, judge it, write what came out."""
    file = Path(task["entry"])
    torch.set_num_threads(1)
    try:
        found = _race(file, task["seed"], task["steps"], task["result"])
    except OutOfRace as error:
        found = {"out": str(error)}
    except (Exception, SystemExit) as error:  # whatever an entry may raise
        found = {"out": _where(error, file)}
    _write(found, task["result"])


def _race(file: Path, seed: int, steps: int, result: str) -> dict:
    text, before = training_part(manual()), reference_seconds()
    torch.manual_seed(seed)
    clock = Clock(steps * before)
    done = threading.Event()
    threading.Thread(target=_watch, args=(clock, done, result), daemon=True).start()
    try:
        model = _train_of(file)(text, clock, seed)
        used = clock.used
    finally:
        done.set()  # what follows is the judge's time
    if used > OVERRUN * steps * before:
        raise OutOfRace(
            f"It used {used / steps / before:.0%} of the budget, and {OVERRUN:.0%} is allowed. Ask "
            "clock.running (or clock.share, clock.left) more often, between two steps."
        )
    bits = judge(model, manual())
    return {"bits": bits, "used": used, "references": [before, reference_seconds()]}


def _train_of(file: Path):
    """The entry's function; the clock runs while its file is read."""
    spec = importlib.util.spec_from_file_location(f"entry_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its dataclasses work
    spec.loader.exec_module(module)
    if not callable(getattr(module, "train", None)):
        raise OutOfRace(f"{file.name} must have a function train(text, clock, seed).")
    return module.train


def _watch(clock: Clock, done: threading.Event, result: str) -> None:
    """End the process where the entry does not look at the clock."""
    while clock.used < IGNORED * clock.seconds:
        if done.wait(0.2):
            return
    _write(
        {
            "out": f"It was stopped at {IGNORED:.0%} of the budget: train must return once "
            "clock.running is false."
        },
        result,
    )
    os._exit(1)


def _where(error: BaseException, file: Path) -> str:
    """The error in a sentence, with the entry's own last line."""
    places = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in places if frame.filename == str(file)]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines = [error.lineno]
    where = f" (line {lines[-1]} of {file.name})" if lines else ""
    return f"It ended with {type(error).__name__}: {error}"[:500] + where


def _write(found: dict, result: str) -> None:
    draft = Path(f"{result}.{threading.get_ident()}")
    draft.write_text(json.dumps(found), encoding="utf-8")
    os.replace(draft, result)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
