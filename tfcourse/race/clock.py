"""The clock of the race: one thread's time, counted in steps of a small reference model.

What is counted is the processor time of the entry's process, of all its threads and of the child
processes that it waited for, not the time on the wall. On a machine with two cores, the reference
step was measured while other programs kept one core busy, and again with two more of them:

    threads  clock      one core busy   both cores busy
    1        wall       84 - 91 ms      218 - 273 ms
    1        processor  81 - 88 ms      75 - 92 ms
    2        wall       215 - 680 ms    1,093 - 1,658 ms
    2        processor  210 - 664 ms    541 - 825 ms

On the wall, a busy machine takes two thirds of an entry's budget away. With two threads the
processor's time is no better: PyTorch's threads wait for each other by counting in a circle, and
that is counted too. One thread's processor time changes by about a tenth, whatever else is running.
So the race is run with one thread. An entry may start more, and pays for each.
"""

from __future__ import annotations

import os
import statistics
import time

import torch
import torch.nn.functional as F

from tfcourse.models import LanguageModel, TransformerConfig

STEPS = 400  # of the reference make the budget: half a minute of one core of a laptop


class Clock:
    """How much of the budget is used; it runs from the moment it is made.

    Args:
        seconds: the budget, in seconds of processor time.
    """

    def __init__(self, seconds: float):
        self.seconds, self._start = seconds, processor_seconds()

    @property
    def used(self) -> float:
        """Seconds of processor time since the start."""
        return processor_seconds() - self._start

    @property
    def share(self) -> float:
        """The share of the budget that is used: 0 at the start, 1 at the end, never more."""
        return min(1.0, self.used / self.seconds)

    @property
    def left(self) -> float:
        """Seconds of processor time that are left; 0 when the budget is used up."""
        return max(0.0, self.seconds - self.used)

    @property
    def running(self) -> bool:
        """Whether there is budget left: `while clock.running:` is the loop of most entries."""
        return self.used < self.seconds


class StepClock:
    """A clock that counts looks at `running` instead of seconds: a run that can be repeated.

    Experiments and tests use it, since no two runs by time have the same number of steps.

    Args:
        steps: how often `running` is true.
    """

    def __init__(self, steps: int):
        self.steps, self._done = steps, -1

    @property
    def running(self) -> bool:
        """True `steps` times."""
        self._done = min(self._done + 1, self.steps)
        return self._done < self.steps

    @property
    def share(self) -> float:
        """The share of the steps that are done."""
        return max(0, self._done) / self.steps

    @property
    def left(self) -> float:
        """How many steps are left."""
        return float(self.steps - max(0, self._done))


def processor_seconds() -> float:
    """What this process has used so far, and its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def reference_seconds(steps: int = 20, warm_up: int = 5) -> float:
    """Processor time of one reference step, the median of `steps`.

    The model is the plain entry's: d_model 128, 4 heads, 3 layers, rotary positions, tied, with 100
    symbols; 16 texts of 64 tokens; forward, backward, AdamW.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = LanguageModel(TransformerConfig(100, 128, 4, 3, tied=True)).small_embeddings()
            text = torch.randint(100, (16, 65))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        taken = []
        for _ in range(warm_up + steps):
            before = processor_seconds()
            optimizer.zero_grad(set_to_none=True)
            logits = model(text[:, :-1])
            F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
            optimizer.step()
            taken.append(processor_seconds() - before)
    finally:
        torch.set_num_threads(threads)
    return statistics.median(taken[warm_up:])
