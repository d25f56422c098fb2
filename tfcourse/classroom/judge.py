"""A notebook's marks: its answers run in a sandbox, what comes back is judged here.

First on the cases that the learner has too. A graded answer that is right there runs once more on
hidden ones, which come to the sandbox only then: so no process whose errors a learner reads has
ever held those. What is expected never leaves this process.
"""

from __future__ import annotations

import inspect
import io
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import torch

from tfcourse.checks.exercise import Exercise, Output
from tfcourse.checks.judging import Verdict, judge
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import crashed
from tfcourse.checks.telling import verdict_picture
from tfcourse.classroom import hidden, nest, sandbox, wire, worker
from tfcourse.classroom.answers import Answer, answers
from tfcourse.classroom.cells import Code
from tfcourse.classroom.records import Mark
from tfcourse.classroom.sandbox import Box, Limits, Walled

SECONDS = 20.0  # for an exercise; a right answer takes less than one
# What can hide a library's call from the check, and what an answer hardly needs.
_EVADES = ("setprofile", "settrace", "threading", "ctypes", "DisableTorchFunction", "_getframe")
_MOST = 512 * 2**20  # bytes that all answers of a notebook may give back
_START = 60.0  # seconds for torch to be there, on a machine that has much else to do
_ROOT = Path(__file__).resolve().parents[2]  # what holds the package
_JUDGING = threading.Lock()  # the judge compares in this process's only random state
Inputs = list[tuple[str, list[dict]]]


@dataclass(frozen=True)
class Lesson:
    """A lesson as it is graded.

    Attributes:
        exercises: in the order of the notebook.
        points: of each graded exercise.
        hidden: each graded exercise once more, with its hidden cases.
    """

    exercises: Sequence[Exercise]
    points: Mapping[str, float]
    hidden: Mapping[str, Exercise]

    @cached_property
    def inputs(self) -> Inputs:
        """For every exercise: what its answer is run on, of what the learner has too."""
        return [(e.name, [case.inputs() for case in e.cases()]) for e in self.exercises]

    def prepare(self) -> None:
        """Make what all notebooks share, before several threads ask for it at once."""
        _ = self.inputs, self.hidden_inputs, tested()

    @cached_property
    def hidden_inputs(self) -> Inputs:
        return [(e.name, [case.inputs() for case in e.cases()]) for e in self.hidden.values()]


@cache
def tested() -> dict[str, str]:
    """For every exercise for practice: text that defines the tested implementation of it.

    Where that stands beside what the judge knows, the text is cut out of there.
    """
    found, inside = {}, {}  # what stands beside the judge: by its module, the names there
    for exercise in exercises().values():
        if exercise.graded:
            continue
        module = inspect.getmodule(exercise.reference)
        name = next(k for k, v in vars(module).items() if v is exercise.reference)
        found[exercise.name] = f"from {module.__name__} import {name}"
        if module.__name__.startswith("tfcourse.checks"):
            inside.setdefault(module, {})[exercise.name] = name
        elif name != exercise.name:
            found[exercise.name] += f" as {exercise.name}"
    for module, names in inside.items():
        texts = answers([Code(inspect.getsource(module))], [*names.values()])
        for own, name in names.items():
            found[own] = texts[name].source + ("" if name == own else f"\n{own} = {name}")
    return found


def open_lesson(name: str, solutions: Path) -> Lesson:
    """A lesson with its order, its points and its hidden cases, from solutions/.

    Raises:
        NoHiddenCases: there are none.
    """
    source = (solutions / f"{name}.py").read_text(encoding="utf-8")
    found = re.findall(r'^# %% .*?exercise="(\w+)".*?\bpoints=([\d.]+)', source, re.MULTILINE)
    points = {exercise: float(number) for exercise, number in found}
    order = re.findall(r'^# %% .*?exercise="(\w+)"', source, re.MULTILINE)
    return Lesson([exercises()[x] for x in order], points, hidden.load(solutions, name))


def grade(
    code: Sequence[Code],
    lesson: Lesson,
    *,
    seconds: float = SECONDS,
    walls: str = sandbox.BUBBLEWRAP,
    private: Sequence[Path] = (),
) -> tuple[Mark, ...]:
    """The marks of every exercise of a notebook, in the order of the lesson.

    Args:
        code: the notebook's code cells.
        seconds: for each exercise.
        walls: as in `sandbox.Box`.
        private: folders that no answer may see, wherever they lie.
    """

    with Bench(code, seconds, walls, private) as bench:
        return _grade(bench.collect, lesson)


def _grade(run: Callable[..., Collected], lesson: Lesson) -> tuple[Mark, ...]:
    names = [e.name for e in lesson.exercises]
    seen = run(lesson.inputs, names)
    if seen.trouble:
        return tuple(_unread(e, lesson, seen) for e in lesson.exercises)
    marks = {e.name: _mark(e, lesson, seen) for e in lesson.exercises}
    # What is built on a mistake in an earlier exercise is no mistake: once more, with ours there.
    amiss = [name for name in names if marks[name].state != "right"]
    ours = {name: tested()[name] for name in amiss if name in tested()}
    built_on = {name for name in amiss if set(seen.answers[name].uses) & ours.keys()}
    mended = set()
    if built_on:
        better = run(lesson.inputs, [n for n in names if n in built_on], ours)
        for exercise in lesson.exercises:
            if exercise.name in built_on and not better.trouble:
                found = _mark(exercise, lesson, better)
                if found.state == "right":
                    marks[exercise.name] = found
                    mended.add(exercise.name)
    for exercise in lesson.hidden.values():
        if marks[exercise.name].state == "right":
            brought = ours if exercise.name in mended else {}
            unseen = run(lesson.hidden_inputs, [exercise.name], brought)
            marks[exercise.name] = _hidden_mark(exercise, marks[exercise.name], unseen)
    return tuple(marks.values())


@dataclass(frozen=True)
class Collected:
    """What came back for a notebook: answers and outputs by exercise, or why there is none."""

    answers: Mapping[str, Answer]
    outputs: Mapping[str, list[Output]]
    trouble: str = ""
    errors: str = ""  # what the sandbox said last, where there is trouble: for the teacher


class Bench:
    """A sandbox for one notebook's answers; a new one where an answer has ended it.

    Args:
        code: the notebook's code cells.
        seconds: for each exercise.
        walls: as in `sandbox.Box`.
        private: folders that no answer may see.
    """

    def __init__(self, code: Sequence[Code], seconds: float, walls: str, private: Sequence[Path]):
        self._code = [(cell.text, cell.exercise) for cell in code]
        self._seconds, self._walls, self._private = seconds, walls, private
        self._box: Box | None = None
        self.last_errors = ""  # of a sandbox that has ended

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *error) -> None:
        box, self._box = self._box, None
        if box:
            box.__exit__(*error)

    def collect(
        self, inputs: Inputs, wanted: Sequence[str], ours: Mapping[str, str] | None = None
    ) -> Collected:
        """Run the notebook's answers; one that ends its process costs its own exercise alone.

        Args:
            wanted: the exercises to run, in the order of `inputs`.
            ours: an exercise -> the text that takes its place in the answers to the others.
        """
        found: dict[str, Answer] = {}
        outputs: dict[str, list[Output]] = {}
        count = {name: len(cases) for name, cases in inputs}
        left = list(wanted)
        while left:
            frames, why = self._ask(self._task(inputs, left, ours or {}))
            if not frames or not frames[0].startswith(b"+"):
                said = frames[0][1:].decode(errors="replace") if frames else why
                said = f"The code of this notebook cannot be read: it {said}."
                return Collected({}, {}, said, self.last_errors[-500:])
            try:
                found = {name: Answer(**a) for name, a in json.loads(frames.pop(0)[1:]).items()}
                left = [name for name in left if found[name].source]
            except (ValueError, TypeError, KeyError):
                return Collected({}, {}, "The code of this notebook cannot be read.")
            for name, frame in zip(left, frames, strict=False):
                outputs[name] = _outputs(frame, count[name])
            left = left[len(frames) :]
            if left:  # this one has ended the sandbox itself
                outputs[left[0]] = crashed(count[left[0]], why)
                left = left[1:]
        return Collected(found, outputs)

    def _task(self, inputs: Inputs, wanted: Sequence[str], ours: Mapping[str, str]) -> bytes:
        task = {
            "code": self._code,
            "names": [name for name, _ in inputs],
            "exercises": [(name, cases) for name, cases in inputs if name in wanted],
            "ours": dict(ours),
            "tested": tested(),
            "seconds": self._seconds,
            "alone": self._walls != sandbox.NONE,
        }
        given = io.BytesIO()
        torch.save(task, given)
        return worker.HEAD.pack(len(given.getvalue())) + given.getvalue()

    def _ask(self, task: bytes) -> tuple[list[bytes], str]:
        """The frames that come back, in order, and in words how the sandbox ended, if it has."""
        box = self._box = self._box or self._open()
        box.send(task)
        if not box.listen(lambda said: _frames(said)[1]):
            self.__exit__()
            self.last_errors = box.last_errors
        frames = [bytes(box.said[place]) for place in _frames(box.said)[0]]
        box.said.clear()
        return frames, box.stopped or "ended the process that ran it"

    def _open(self) -> Box:
        what = {
            "readable": [_ROOT / "tfcourse"],
            "empty": [*_what_the_judge_knows(), *self._private],
            "limits": Limits(
                seconds=float("inf"),
                start=_START + self._seconds,
                silence=self._seconds + 10,
                output=_MOST,
            ),
        }
        process = None
        if self._walls == sandbox.BUBBLEWRAP:
            process = nest.fork(_python("nest.main(worker.main)"), **what)
        return Box(
            process or Walled(_python("worker.main()"), walls=self._walls, **what), what["limits"]
        )


def _python(call: str) -> list[str]:
    start = f"import sys; sys.path.insert(0, {str(_ROOT)!r})"
    return [sys.executable, "-c", f"{start}; from tfcourse.classroom import nest, worker; {call}"]


@cache
def _what_the_judge_knows() -> list[Path]:
    """What is right, known wrong answers, and hidden cases: in this project, and wherever else."""
    known = Path("tfcourse", "checks", "lessons")
    places = [Path(x) for x in sys.path] + [
        packages
        for prefix in (sys.prefix, sys.base_prefix, "/usr", "/usr/local")
        for packages in Path(prefix).glob("lib*/python3*/*-packages")
    ]
    return [_ROOT / known, _ROOT / "solutions", _ROOT / "tests", *(x / known for x in places)]


def _frames(said: bytearray) -> tuple[list[slice], bool]:
    """Where the frames are, and whether the end of the task is among them."""
    found, at = [], 0
    while len(said) >= at + worker.HEAD.size:
        [length] = worker.HEAD.unpack_from(said, at)
        at += worker.HEAD.size
        if length == 0:
            return found, True
        if len(said) < at + length:
            break
        found.append(slice(at, at + length))
        at += length
    return found, False


def _outputs(frame: bytes, count: int) -> list[Output]:
    if not frame.startswith(b"+"):
        return crashed(count, frame[1:200].decode(errors="replace"))
    try:
        return wire.unpack(frame[1:], count)
    except wire.NotOutputs:
        return crashed(count, "gave back what is no plain data")


def _unread(exercise: Exercise, lesson: Lesson, seen: Collected) -> Mark:
    of, look = lesson.points.get(exercise.name, 0.0), f"{seen.trouble} {seen.errors}".strip()
    return Mark(exercise.name, "not judged", "unread", seen.trouble, 0.0, of, look=look)


def _mark(exercise: Exercise, lesson: Lesson, collected: Collected) -> Mark:
    name, of = exercise.name, lesson.points.get(exercise.name, 0.0)
    answer, outputs = collected.answers[name], collected.outputs.get(name)
    if answer.trouble:
        return Mark(name, "wrong", "syntax", answer.trouble, 0.0, of)
    if outputs is None:
        said = f"There is no `{name}` in the notebook."
        return Mark(name, "to do", "missing", said, 0.0, of)
    verdict = _judged(exercise, outputs)
    if isinstance(verdict, str):
        return _fallen(exercise, of, verdict)
    state, says = verdict.state, verdict.message
    if state != "wrong":
        points = of if verdict.right else 0.0
        look = _doubts(exercise, answer.source) if verdict.right and of else ""
        return Mark(name, state, verdict.diagnosis, says, points, of, look=look)
    with _JUDGING:
        drawn = verdict_picture(verdict)
    picture = drawn.image() if drawn else ""
    look = "It hands over a library's own function." if verdict.diagnosis == "library" else ""
    return Mark(name, state, verdict.diagnosis, says, 0.0, of, picture=picture, look=look)


def _doubts(exercise: Exercise, source: str) -> str:
    """Why a teacher should read a right answer; a process cannot tell on itself reliably."""
    doubted = {*exercise.forbids, *_EVADES, "tfcourse.checks", "tfcourse.generation"}
    found = [
        x for x in sorted(doubted) if re.search(rf"(?<![\w.]){re.escape(x)}\b|\.{x}\(", source)
    ]
    return f"It is right, and says {', '.join(found)}: read it." if found else ""


def _hidden_mark(exercise: Exercise, seen: Mark, collected: Collected) -> Mark:
    """The mark of an answer that is right in all that the learner can run."""
    outputs = collected.outputs.get(exercise.name)
    verdict = _judged(exercise, outputs) if outputs else collected.trouble
    if isinstance(verdict, str):
        return _fallen(exercise, seen.of, verdict)
    if verdict.right:
        return seen
    says = _without_cases(verdict, exercise)
    return replace(seen, state="wrong", diagnosis=verdict.diagnosis, says=says, points=0.0,
                   hidden=True)  # fmt: skip


def _judged(exercise: Exercise, outputs: list[Output]) -> Verdict | str:
    """The verdict; or, where the judge was not made for what came back, what happened."""
    try:
        with _JUDGING:
            return judge(exercise, outputs)
    except Exception as error:
        return f"The judge fell over what came back ({type(error).__name__}: {error})."


def _fallen(exercise: Exercise, of: float, look: str) -> Mark:
    says = "This could not be judged. Your teacher has been told to look at it."
    return Mark(exercise.name, "not judged", "fell", says, 0.0, of, look=look)


_UNSEEN = "It is right in every case that you can run, and wrong in one that you cannot see. "
_HIDDEN_WORDS = {
    "raised": "There it raises an error.",
    "crashed": "There it ends its process.",
    "endless": "There it does not end, or takes far too long.",
    "type": "There it gives back another type than it should.",
    "shape": "There its result has another shape than it should.",
    "nan": "There its result holds NaN.",
    "changes-input": "There it changes an argument itself. Work on a new tensor.",
    "in-place": "There it writes into a tensor that the gradient still needs.",
    "no-gradient": "There no gradient flows back.",
    "gradient-nan": "There its gradient is NaN or infinite.",
    "gradient": "There its values are right, their gradient is not.",
    "holds-too-much": "There it holds more numbers at one time than it should.",
}


def _without_cases(verdict: Verdict, exercise: Exercise) -> str:
    """A verdict on hidden cases in words that show none: no size, no number, nothing expected."""
    variant = exercise.variants.get(verdict.diagnosis)
    if variant:
        return _UNSEEN + variant.says
    said = _HIDDEN_WORDS.get(verdict.diagnosis, "Does your code hold for all sizes and numbers?")
    return f"{_UNSEEN}{said} Which sizes, numbers or masks have you not tried?"
