"""What the learner has done: one JSON file, written so that it is never half there.

It stands in the user's data folder (`TFCOURSE_HOME` overrides), not in the checkout: a fresh
clone or `git clean` must not cost anybody their progress.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

VERSION = 1


def home() -> Path:
    """The folder of the progress file."""
    if os.environ.get("TFCOURSE_HOME"):
        return Path(os.environ["TFCOURSE_HOME"]).expanduser()
    from platformdirs import user_data_path

    return user_data_path("tfcourse", appauthor=False)


def path() -> Path:
    return home() / "progress.json"


def read() -> dict:
    """All records. A file that cannot be read as progress is set aside, never overwritten."""
    try:
        text = path().read_bytes()
    except FileNotFoundError:
        return _empty()
    except OSError as error:
        _say(f"Your progress could not be read ({error}). The course goes on without it.")
        return _empty()
    try:
        records = json.loads(text)
        if _is_sound(records):
            return records
    except (ValueError, RecursionError):
        pass
    _set_aside()
    return _empty()


def change(edit: Callable[[dict], None]) -> None:
    """Apply `edit` to the records and write them. Two kernels may do so at the same time.

    Where nothing can be written (a full disk, a folder of someone else's) the learner is told and
    the lesson goes on.
    """
    try:
        with _locked():
            records = read()
            edit(records)
            _write(records)
    except OSError as error:
        _say(f"Your progress could not be saved in {path()} ({error}). The course goes on.")


def record_exercise(name: str, state: str, diagnosis: str) -> None:
    """Note an attempt. What was right once stays right: a later try takes nothing away."""

    def edit(records):
        entry = records["exercises"].setdefault(name, {"attempts": 0})
        entry["attempts"] = entry.get("attempts", 0) + 1
        entry["last"] = diagnosis
        if state == "right":
            entry.setdefault("right", _now())

    change(edit)


def record_hint(name: str, seen: int) -> None:
    change(lambda records: records["exercises"].setdefault(name, {}).update(hints=seen))


def record_revealed(name: str) -> None:
    change(lambda records: records["exercises"].setdefault(name, {}).update(revealed=_now()))


def record_question(name: str, option: str, right: bool) -> None:
    """Note an answer to a question; the first one is kept beside the latest."""

    def edit(records):
        entry = records["questions"].setdefault(name, {"first": option})
        entry.update(latest=option)
        if right:
            entry.setdefault("right", _now())

    change(edit)


def _empty() -> dict:
    return {"version": VERSION, "exercises": {}, "questions": {}}


def _is_sound(records) -> bool:
    return (
        isinstance(records, dict)
        and records.get("version") == VERSION
        and all(
            isinstance(records.get(part), dict)
            and all(isinstance(entry, dict) for entry in records[part].values())
            for part in ("exercises", "questions")
        )
    )


def _write(records: dict) -> None:
    target = path()
    # A name of its own for each process: two writers never share a half-written file.
    draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1, sort_keys=True, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _set_aside() -> None:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    aside = path().with_name(f"progress.damaged-{stamp}-{os.getpid()}.json")
    try:
        os.replace(path(), aside)
    except OSError as error:
        _say(f"{path()} cannot be read as progress, nor moved away ({error}).")
        return
    _say(f"{path()} could not be read as progress. It is kept as {aside.name}; a new one begins.")


@contextmanager
def _locked():
    from filelock import FileLock, Timeout

    home().mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(home() / "progress.lock", timeout=10):
            yield
    except Timeout:
        raise OSError("another program holds the progress file") from None


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)
