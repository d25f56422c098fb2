"""How long the check of a right answer takes: every right answer of the bank, process time.

python -m benchmarks.checks [--above 0.3]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from tests.wrong_answers import attempts
from tfcourse.checks.judging import judge
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect


def seconds(exercise, answer, times: int = 3) -> float:
    """The median process time of some checks, its cases already made as they are in a lesson."""
    inputs = [case.inputs() for case in exercise.cases()]
    found = []
    for _ in range(times):
        start = time.process_time()
        verdict = judge(exercise, collect(answer, inputs))
        found.append(time.process_time() - start)
        if verdict.state != "right":
            raise SystemExit(f"{exercise.name}: {answer.__name__} was not held to be right.")
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--above", type=float, default=0.3, help="print those that take longer")
    above = parser.parse_args().above
    torch.set_num_threads(1)
    found = sorted(
        (
            (seconds(exercises()[a.exercise], a.answer), str(a))
            for a in attempts()
            if a.diagnosis == "right"
        ),
        reverse=True,
    )
    for time_taken, name in found:
        if time_taken > above:
            print(f"{time_taken:.2f} s  {name}")
    times = [t for t, _ in found]
    middle = statistics.median(times)
    print(f"{len(times)} right answers: median {middle:.2f} s, most {times[0]:.2f} s")


if __name__ == "__main__":
    main()
