"""Where a lesson computes, and what it costs there: device, memory, time."""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from tfcourse.arguments import check_count

KINDS = ("cuda", "mps", "cpu")


def pick_device() -> torch.device:
    """The device to compute on: CUDA, else MPS, else the CPU.

    `TFCOURSE_DEVICE` (cuda, cuda:1, mps, cpu) overrides.

    Raises:
        ValueError: `TFCOURSE_DEVICE` names no device, or one that is not here.
    """
    wanted = os.environ.get("TFCOURSE_DEVICE", "").strip()
    if not wanted:
        return torch.device(next(kind for kind in KINDS if _count(kind)))
    return _present("TFCOURSE_DEVICE", wanted)


def _present(name: str, wanted: torch.device | str) -> torch.device:
    """The device that `wanted` names, if it is one and is here."""
    try:
        device = torch.device(wanted)
    except RuntimeError:
        device = None
    if device is None or device.type not in KINDS:
        raise ValueError(f"{name} must be one of {', '.join(KINDS)}. Got {str(wanted)!r}.")
    if (device.index or 0) >= _count(device.type):
        here = ", ".join(kind for kind in KINDS if _count(kind))
        raise ValueError(
            f"{name} must be a device of this machine, which has: {here}. Got {str(wanted)!r}."
        )
    return device


def _count(kind: str) -> int:
    """How many devices of a kind there are."""
    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "mps":
        return int(torch.backends.mps.is_available())
    return 1


def describe_device(device: torch.device | str | None = None) -> str:
    """One line on the device: its name, and threads or memory.

    Raises:
        TypeError: `device` is neither a device nor a name.
        ValueError: there is no such device here.
    """
    if device is not None and not isinstance(device, (torch.device, str)):
        raise TypeError(f"device must be a torch.device or its name. Got {device!r}.")
    device = pick_device() if device is None else _present("device", device)
    if device.type == "cuda":
        gib = torch.cuda.get_device_properties(device).total_memory / 2**30
        return f"{device} ({torch.cuda.get_device_name(device)}, {gib:.0f} GiB)"
    if device.type == "mps":
        return "mps (Apple's GPU, memory shared with the processor)"
    threads = torch.get_num_threads()
    return f"cpu ({threads} thread{'s' if threads > 1 else ''})"


@contextmanager
def explain_out_of_memory(name: str, size: int) -> Iterator[None]:
    """Turn the device's out-of-memory into a sentence with the size to try next.

    Args:
        name: of the size that makes the work large, "batch" say.
        size: what it was.

    Raises:
        MemoryError: in place of the device's own error.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string. Got {name!r}.")
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"size must be an int. Got {size!r}.")
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        advice = f"Try {name}={size // 2}." if size > 1 else "Try a smaller model."
        raise MemoryError(f"Not enough memory with {name}={size}. {advice}") from error


def _is_out_of_memory(error: Exception) -> bool:
    said = str(error).lower()
    return (
        isinstance(error, (torch.OutOfMemoryError, MemoryError))
        or "out of memory" in said
        or "can't allocate memory" in said
    )


def measure_seconds(work: Callable[[], object], repeats: int = 7) -> tuple[float, float]:
    """Median seconds of `work()` and their spread (the middle half's width), once warmed up.

    Raises:
        TypeError: `work` cannot be called, or `repeats` is no int.
        ValueError: `repeats` is below 1.
    """
    _check_work(work)
    if not isinstance(repeats, int) or isinstance(repeats, bool):
        raise TypeError(f"repeats must be an int. Got {repeats!r}.")
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1. Got {repeats}.")
    work()
    times = []
    for _ in range(repeats):
        _wait()
        started = time.perf_counter()
        work()
        _wait()
        times.append(time.perf_counter() - started)
    if repeats == 1:
        return times[0], 0.0
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return middle, high - low


def measure_side_by_side(
    works: Mapping[str, Callable[[], object]],
    rounds: int = 21,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of every work in every round: all of them in turn, in another order every time.

    Whatever else the machine does falls on all works of a round, so compare them round by round:
    `median_interval` of the ratios says how much can be told. The order is shuffled (the same way
    in every call), since what ran just before leaves its traces in the caches and the clock.

    Args:
        works: name -> what is measured.
        rounds: how many, at least 6; fewer give no interval.
        clock: gives seconds; by default the wall's.

    Raises:
        TypeError: a work cannot be called, or `rounds` is no int.
        ValueError: `rounds` is below 6.
    """
    for work in works.values():
        _check_work(work)
        work()
    check_count("rounds", rounds, least=6)
    times: dict[str, list[float]] = {name: [] for name in works}
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(works), len(works)):
            _wait()
            started = clock()
            works[name]()
            _wait()
            times[name].append(clock() - started)
    return times


@dataclass(frozen=True)
class Median:
    """The median of what was measured, and a 95% interval for it that assumes no distribution."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} [{self.low:.2f}, {self.high:.2f}]"


def median_interval(values: Iterable[float]) -> Median:
    """Median and the interval of at least 95% that the order of the values gives.

    Half of all values lie below the true median, so how many of n do is a toss of n coins.

    Raises:
        ValueError: there are fewer than six values.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n < 6:
        raise ValueError(f"values must be at least six. Got {n}.")
    left_out = 0  # at either end; the true median is beyond the next value with 2.5% at most
    share = 1 / 2**n
    while share + math.comb(n, left_out + 1) / 2**n <= 0.025:
        left_out += 1
        share += math.comb(n, left_out) / 2**n
    return Median(statistics.median(ordered), ordered[left_out], ordered[-1 - left_out])


def measure_peak_memory(work: Callable[[], object]) -> int:
    """The most memory that `work()` held at once beyond what was held before, in bytes.

    On the device where its tensors lie, whatever `pick_device` would take: on CUDA by the
    allocator's counters, elsewhere by the profiler's record of every allocation, those inside fused
    kernels included. Of work on both, what the fuller one held.

    Raises:
        TypeError: `work` cannot be called.
    """
    _check_work(work)
    work()  # what is allocated once and kept is not the work's
    on_cuda = torch.cuda.is_available()
    if on_cuda:
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    # The profiler announces its stages on stderr unless told otherwise before it first runs.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        work()
    most = 0
    if on_cuda:
        torch.cuda.synchronize()
        most = torch.cuda.max_memory_allocated() - before
    held = 0
    for _, size in sorted(_allocations(profile)):
        held += size
        most = max(most, held)
    return most


def _allocations(profile) -> Iterator[tuple[int, int]]:
    """Every allocation (time, bytes) but those on CUDA; a release has negative bytes."""
    waiting = list(profile.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        if event.tag != torch._C._profiler._EventType.Allocation:
            continue
        if event.extra_fields.device.type != "cuda":
            yield event.start_time_ns, event.extra_fields.alloc_size


def _wait() -> None:
    """Wait until the device has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


def _check_work(work) -> None:
    if not callable(work):
        raise TypeError(f"work must be a function without arguments. Got {type(work).__name__}.")
