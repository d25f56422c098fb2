"""What `tfcourse race` does, and what it says."""

from __future__ import annotations

import sys

from tfcourse.race import board, running


def race(what: str | None, name: str | None, seeds: int) -> int:
    """The board; `new NAME`; `run NAME`. The exit status is 0 where all is well."""
    try:
        if what == "new":
            return _new(name)
        if what == "run":
            return _run(name, seeds)
        print(board.RULES, end="\n\n")
        board.show()
    except running.RaceError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"The board in {board.path()} could not be read ({error}).", file=sys.stderr)
        return 1
    print("\nBegin with `tfcourse race new NAME`. Any entry: `tfcourse race run NAME`.")
    print("What paid, and what did not, is in lesson 09.")
    return 0


def _new(name: str) -> int:
    file = running.new(name)
    print(f"Your entry is {file}\nIt runs as it stands. Open it, change one thing, say in its")
    print(f"first line what you try, then: tfcourse race run {name}")
    return 0


def _run(name: str, seeds: int) -> int:
    if seeds < 1:
        raise running.RaceError(f"--seeds must be 1 or more. Got {seeds}.")
    try:
        line = running.run(name, range(seeds), say=lambda words: print(words, flush=True))
    except KeyboardInterrupt:
        print("\nStopped. Nothing was written; the board is as it was.", file=sys.stderr)
        return 130
    try:
        board.add(line)
    except OSError as error:
        print(f"The result could not be kept in {board.path()} ({error}).", file=sys.stderr)
        print(board.table([line], line))
        return 1
    print()
    board.show(line)
    return 1 if line["out"] else 0
