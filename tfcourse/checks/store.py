"""What the learner has done: one JSON file, written so that it is never half there.

Beside it, in `answers/`, one file for each answer that passed. What is written over is kept in
`answers/earlier/`, what cannot be used any more in `answers/aside/`.

It stands in the user's data folder (`TFCOURSE_HOME` overrides), not in the checkout: a fresh
clone or `git clean` must not cost anybody their progress.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

VERSION = 1
EARLIER = 20  # answers that are kept beside the latest one of an exercise


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
    except (FileNotFoundError, NotADirectoryError):
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


def change(edit: Callable[[dict], None]) -> bool:
    """Apply `edit` to the records and write them. Two kernels may do so at the same time.

    Where nothing can be written (a full disk, a folder of someone else's) the learner is told and
    the lesson goes on; then it returns False.
    """
    try:
        with _locked():
            records = read()
            edit(records)
            _write(records, path())
    except OSError as error:
        _say(f"Your progress could not be saved in {path()} ({error}). The course goes on.")
        return False
    return True


def record_exercise(name: str, state: str, diagnosis: str) -> bool:
    """Note an attempt. What was right once stays right: a later try takes nothing away."""

    def edit(records):
        entry = records["exercises"].setdefault(name, {"attempts": 0})
        entry["attempts"] = entry.get("attempts", 0) + 1
        entry["last"] = diagnosis
        if state == "right":
            entry.setdefault("right", _now())

    return change(edit)


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


# --- answers that passed ------------------------------------------------------------------------


def answer_path(name: str) -> Path:
    return home() / "answers" / f"{name}.json"


def kept_answers() -> dict[str, datetime]:
    """Since when an answer is kept, by the exercise's name: nothing is run, nothing is changed."""
    kept = {}
    try:
        names = sorted(file.stem for file in answer_path("").parent.glob("*.json"))
    except OSError:
        return kept
    for name in names:
        if record := _record_of(name):
            kept[name] = datetime.fromisoformat(record["kept"])
    return kept


def read_answer(name: str) -> bytes | None:
    """The file of an answer as it is, or None where there is none that can be read."""
    try:
        return answer_path(name).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _say(f"Your `{name}` could not be read ({error}). The course goes on without it.")
        return None


def sound_answer(content: bytes | None) -> dict:
    """What the file holds: "source", "kept" (when), "passed" (a stamp, or ""), "seconds" (it took).

    Raises:
        ValueError: it is damaged, or of another version of the course; says which.
    """
    try:
        record = json.loads(content or b"")
        version = record["version"]
        if version == VERSION:
            datetime.fromisoformat(record["kept"])
            kinds = {"source": str, "passed": str, "seconds": (int, float)}
            if all(isinstance(record[part], kind) for part, kind in kinds.items()):
                return record
    except (ValueError, RecursionError, LookupError, TypeError):
        version = None
    what = "is damaged" if version in (None, VERSION) else f"has another version ({version!r})"
    raise ValueError(f"is in a file that {what}")


def is_kept(name: str, source: str, passed: str) -> bool:
    """Whether just this is kept already."""
    record = _record_of(name)
    return (record.get("source"), record.get("passed")) == (source, passed)


def keep_answer(name: str, source: str, passed: str, seconds: float) -> None:
    """Keep the source of an answer; the one before it goes to `earlier/`."""
    target = answer_path(name)
    record = {"version": VERSION, "kept": _now(), "source": source, "passed": passed}
    record["seconds"] = round(seconds, 2)
    try:
        with _locked():
            target.parent.mkdir(exist_ok=True)
            if target.exists():
                before = _record_of(name)
                if before.get("source") == source:
                    record["kept"] = before["kept"]
                else:
                    _copy_to_earlier(name)
            _write(record, target)
    except OSError as error:
        _say(f"Your `{name}` could not be kept in {target.parent} ({error}). The course goes on.")


def stamp_answer(name: str, content: bytes, passed: str) -> None:
    """Note that what was read as `content` passed, if that is still what is kept."""
    with suppress(OSError), _locked():  # it is checked again where this cannot be written
        if read_answer(name) == content:
            _write(sound_answer(content) | {"passed": passed}, answer_path(name))


def set_answer_aside(name: str, content: bytes) -> Path | None:
    """Move what was read as `content` to `aside/`; None where it cannot be, or is another now."""
    aside = answer_path("").parent / "aside" / f"{name}-{_moment()}.json"
    try:
        with _locked():
            if read_answer(name) != content:
                return None
            aside.parent.mkdir(exist_ok=True)
            os.replace(answer_path(name), aside)
    except OSError:
        return None
    return aside


def _record_of(name: str) -> dict:
    """What is kept, or nothing where that is damaged."""
    try:
        return sound_answer(read_answer(name))
    except ValueError:
        return {}


def _copy_to_earlier(name: str) -> None:
    folder = answer_path("").parent / "earlier"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(answer_path(name), folder / f"{name}-{_moment()}.json")
    for old in sorted(folder.glob(f"{name}-*.json"))[:-EARLIER]:
        old.unlink(missing_ok=True)


# --- files --------------------------------------------------------------------------------------


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


def _write(records: dict, target: Path) -> None:
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


def _moment() -> str:
    return f"{datetime.now():%Y%m%d-%H%M%S-%f}"


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)
