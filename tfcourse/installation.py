"""`doctor()` looks the installation over; each problem comes with what mends it."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

MEND = "run `make -B lab`, or: pip install -c requirements.lock -e ."
MEMORY = 2e9  # bytes; a lesson takes 0.6, JupyterLab 0.1, a browser wants some too


def doctor() -> bool:
    """Print what was looked at, one line each; True where nothing is wrong."""
    well = True
    for good, said in _findings():
        print("✓" if good else "✗", said)
        well &= good
    return well


def _findings() -> Iterator[tuple[bool, str]]:
    good = sys.version_info >= (3, 11)
    mend = "" if good else ". The course needs 3.11 or newer"
    yield good, f"Python {platform.python_version()}{mend}"
    yield from _packages()
    yield from _lock()
    yield _device()
    yield _memory()
    yield _front_end()
    yield _kernel()
    yield _progress()
    yield from _class()


def _packages() -> Iterator[tuple[bool, str]]:
    """Is all that a learner needs installed?"""
    missing = []
    for line in metadata.requires("tfcourse") or []:
        name = re.match(r"[\w.-]+", line)[0]
        if "extra ==" not in line and _version(name) is None:
            missing.append(name)
    if missing:
        yield False, f"missing packages: {', '.join(missing)}. To mend it, {MEND}"
    else:
        yield True, f"tfcourse {_version('tfcourse')}, torch {_version('torch')}"


def _lock() -> Iterator[tuple[bool, str]]:
    """Do the installed versions agree with requirements.lock? Others may work; say which."""
    path = Path(__file__).parents[1] / "requirements.lock"
    if not path.is_file():
        yield True, "no requirements.lock beside the package: versions were not compared"
        return
    from packaging.requirements import Requirement

    differ = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pin = Requirement(line)
        installed = _version(pin.name)
        here = pin.marker is None or pin.marker.evaluate()
        if here and installed is not None and not pin.specifier.contains(installed):
            differ.append(f"{pin.name} {installed} (lock: {pin.specifier})")
    if differ:
        yield False, f"not as in requirements.lock: {', '.join(differ)}. To mend it, {MEND}"
    else:
        yield True, "versions are those of requirements.lock"


def _device() -> tuple[bool, str]:
    from tfcourse.device import describe_device

    try:
        return True, f"computes on {describe_device()}"
    except ValueError as error:
        return False, str(error)


def _memory() -> tuple[bool, str]:
    try:
        least = min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), _allowed())
    except (AttributeError, OSError, ValueError):  # Windows does not tell this way
        return True, "memory: not measured on this system"
    if least < MEMORY:
        return False, (
            f"only {least / 1e9:.1f} GB of memory, and lessons want {MEMORY / 1e9:.0f}: have one "
            "notebook open at a time (Kernel → Shut Down Kernel ends another)"
        )
    return True, "memory: enough"


def _allowed() -> float:
    """What a container may use, in bytes."""
    try:
        return float(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no container, or "max"
        return float("inf")


def _front_end() -> tuple[bool, str]:
    """Is the part of the widgets there that runs in JupyterLab's page?"""
    folder = Path(sys.prefix, "share", "jupyter", "labextensions")
    missing = [
        name
        for name in ("@jupyter-widgets/jupyterlab-manager", "anywidget")
        if not (folder / name / "package.json").is_file()
    ]
    if missing:
        return False, f"widgets cannot show, missing: {', '.join(missing)}. To mend it, {MEND}"
    return True, "widgets: the front end is there"


def _kernel() -> tuple[bool, str]:
    """Does the kernel that a notebook starts run this Python?"""
    spec = Path(sys.prefix, "share", "jupyter", "kernels", "python3", "kernel.json")
    try:
        command = json.loads(spec.read_text())["argv"][0]
    except (OSError, ValueError, KeyError, IndexError):
        return (
            False,
            "there is no Jupyter kernel here. To mend it: python -m ipykernel install --sys-prefix",
        )
    if command != "python" and Path(command).resolve() != Path(sys.executable).resolve():
        return False, f"notebooks would run {command}, not {sys.executable}. Remove {spec.parent}"
    return True, "Jupyter kernel: this Python"


def _progress() -> tuple[bool, str]:
    from tfcourse.checks.store import home

    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return False, f"progress cannot be saved ({error}). Set TFCOURSE_HOME to a folder of yours"
    return True, "progress can be saved"


def _class() -> Iterator[tuple[bool, str]]:
    """For a teacher, who has the solutions: can a class be graded here? No learner needs it."""
    if (Path(__file__).parents[1] / "solutions").is_dir():
        from tfcourse.classroom import sandbox

        try:
            sandbox.check()
            yield True, "to grade a class: the sandbox works"
        except RuntimeError as error:
            yield True, f"to grade a class, which only a teacher needs: not ready. {error}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
