"""The course's own entries, from plain to best, and what came out when they were run."""

from __future__ import annotations

from pathlib import Path

NAMES = ("plain", "counts", "best")

#: what `tfcourse race run` gave on two cores of an x86_64 machine, with torch 2.13 and Python 3.11
RESULTS: list[dict] = []


def source(name: str) -> Path:
    """The file of one of the course's entries."""
    return Path(__file__).with_name(f"{name}.py")
