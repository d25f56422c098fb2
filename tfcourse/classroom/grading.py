"""From a folder of submissions to a folder of results.

Each submission's marks are written as soon as they are there, under a name that says what they
depend on: the notebook's bytes, and all that grades it. So a run that was killed goes on where it
was, and what did not change is not graded again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout
from tqdm import tqdm

from tfcourse.checks.outline import outline
from tfcourse.checks.registry import exercises
from tfcourse.classroom import (
    cells,
    columns,
    hidden,
    intake,
    judge,
    pages,
    platforms,
    records,
    sandbox,
)
from tfcourse.classroom.records import Graded, Mark, Results, Submission, Title, Trouble

KEPT = "graded"  # the folder in the results that holds each submission's marks
FILLED = "filled.list"  # there: which tables were filled


class CannotGrade(ValueError):
    """What is missing or wrong before anything can be graded, and what to do, in a sentence."""


@dataclass(frozen=True)
class How:
    """How to grade: the options of `tfcourse class grade`."""

    lesson: str = ""
    roster: Path | None = None
    column: str = ""
    deadline: datetime | None = None
    jobs: int = 2
    seconds: float = judge.SECONDS
    again: bool = False
    walls: str = sandbox.BUBBLEWRAP


def grade(given: Path, to: Path, solutions: Path, how: How, say: Callable = print) -> Results:
    """Grade all that is in `given`, and write grades.csv, class.html, feedback/ and results.json.

    Args:
        given: a folder or a zip.
        to: the folder of results; it is made, and what is there of an earlier run is used.
        solutions: the project's folder solutions/, for the points and the hidden cases.
        say: gets the sentences for the teacher.
    Raises:
        CannotGrade, NoSandbox, NoHiddenCases: before anything is graded; says what to do.
    """
    if not given.exists():
        raise CannotGrade(f"SUBMISSIONS should be a folder or a zip; there is no {given}.")
    if (given / "tfcourse" / "classroom").is_dir():
        raise CannotGrade(
            f"{given} is the course itself. Give the folder or the zip of what was handed in."
        )
    if to.resolve() == given.resolve() or given.resolve() in to.resolve().parents:
        raise CannotGrade(
            f"The results would go into {to}, among the submissions. Say another folder: --to DIR."
        )
    if how.walls == sandbox.BUBBLEWRAP:
        sandbox.check()
    roster = intake.read_roster(how.roster) if how.roster else None
    if how.roster and how.column:
        columns.check_column(how.roster, how.column)
    fresh = not to.exists()
    (to / KEPT).mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(to / KEPT / ".lock", timeout=0):
            return _grade(given, to, solutions, how, roster, say)
    except Timeout:
        raise CannotGrade(
            f"Another run is writing into {to}. Wait until it has ended, or say another folder: "
            "--to DIR."
        ) from None
    except ValueError:
        if fresh and not any((to / KEPT).glob("*.json")):  # nothing was graded
            shutil.rmtree(to)
        raise


def _grade(given: Path, to: Path, solutions: Path, how: How, roster, say: Callable) -> Results:
    for draft in (to / KEPT).glob("*.tmp"):  # of a run that was killed
        draft.unlink()
    with tempfile.TemporaryDirectory(prefix="tfcourse-class-") as room:
        taken = intake.take(
            given, Path(room), _by_lesson(), roster=roster, deadline=how.deadline, lesson=how.lesson
        )
        _look_at(roster, taken, how)
        wanted = [s for s in taken.submissions if how.lesson in ("", s.lesson)]
        if not wanted and not taken.troubles:
            raise CannotGrade(f"There is no notebook {how.lesson or 'of a lesson'} in {given}.")
        names = sorted({s.lesson for s in wanted})
        lessons = {name: judge.open_lesson(name, solutions) for name in names}
        grader = _Grader(lessons, _tools(solutions), how, to / KEPT, (given, to))
        done = grader.all(wanted)
    results = Results(
        students=taken.students,
        lessons={name: _titles(lesson) for name, lesson in lessons.items()},
        graded=tuple(g for g in done if isinstance(g, Graded)),
        troubles=(*taken.troubles, *(t for t in done if isinstance(t, Trouble))),
        when=records.now(),
        unsafe=how.walls == sandbox.NONE,
        titles={name: outline(name).title for name in names},
    )
    _write(results, to, how, say)
    if how.deadline and given.is_dir() and results.graded and all(g.late for g in results.graded):
        say(
            "All are late by the times of their files. A program that copied or unpacked them may "
            "have set these anew: give the zip itself."
        )
    return results


def _look_at(roster, taken, how: How) -> None:
    """Raise where the list is that of another class."""
    listed = {student.key for student in roster.students} if roster else set()
    came = {submission.student for submission in taken.submissions}
    if listed and came and not listed & came:
        raise CannotGrade(
            f"None of the {len(came)} who handed in is in {how.roster}: is it this class's list?"
        )


def _by_lesson() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for exercise in exercises().values():
        found.setdefault(exercise.lesson, []).append(exercise.name)
    return found


def _titles(lesson: judge.Lesson) -> tuple[Title, ...]:
    return tuple(Title(e.name, e.title, lesson.points.get(e.name, 0.0)) for e in lesson.exercises)


@dataclass(frozen=True)
class _Grader:
    """Grades submissions, and keeps the marks of each as soon as they are there.

    Attributes:
        lessons: by their names.
        tools: a digest of all that grades.
        kept: the folder of marks.
        private: what no answer may see.
    """

    lessons: dict[str, judge.Lesson]
    tools: bytes
    how: How
    kept: Path
    private: tuple[Path, ...]

    def all(self, submissions: Sequence[Submission]) -> list[Graded | Trouble]:
        """Every submission graded, or why it cannot be, in their order."""
        for lesson in self.lessons.values():
            lesson.prepare()
        done: dict[int, Graded | Trouble] = {}
        with ThreadPoolExecutor(max_workers=self.how.jobs) as pool:
            waiting = {pool.submit(self.one, s): i for i, s in enumerate(submissions)}
            bar = tqdm(total=len(waiting), unit="notebook", disable=not sys.stderr.isatty())
            try:
                with bar:
                    for future in as_completed(waiting):
                        done[waiting[future]] = future.result()
                        bar.update()
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                raise
        return [done[i] for i in range(len(submissions))]

    def one(self, submission: Submission) -> Graded | Trouble:
        """A submission's marks, kept ones where nothing has changed."""
        try:
            digest = self._digest(submission)
            marks = self._marks(submission, digest)
        except cells.NotANotebook as error:
            return Trouble(submission.shown, str(error), submission.student)
        except Exception:  # of ours: the others are graded all the same
            traceback.print_exc()
            says = (
                "It could not be graded, by no fault of the notebook's. Your teacher can see why."
            )
            return Trouble(submission.shown, says, submission.student)
        return Graded(
            student=submission.student,
            lesson=submission.lesson,
            shown=submission.shown,
            marks=marks,
            when=submission.when,
            late=submission.late,
            turn=submission.turn,
            digest=digest,
        )

    def _marks(self, submission: Submission, digest: str) -> tuple[Mark, ...]:
        path = self.kept / f"{digest}.json"
        marks = None if self.how.again else _kept(path)
        if marks is None:
            marks = judge.grade(
                cells.code(cells.read(submission.path)),
                self.lessons[submission.lesson],
                seconds=self.how.seconds,
                walls=self.how.walls,
                private=self.private,
            )
            if all(mark.state != "not judged" for mark in marks):
                records.put(json.dumps([asdict(mark) for mark in marks]).encode(), path)
        return marks

    def _digest(self, submission: Submission) -> str:
        """Of all that the marks depend on."""
        with submission.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256")
        found.update(self.tools)
        found.update(f"{submission.lesson} {self.how.seconds} {self.how.walls}".encode())
        return found.hexdigest()


def _tools(solutions: Path) -> bytes:
    """A digest of all that grades: the package, the points and the hidden cases."""
    package = Path(__file__).resolve().parents[1]
    files = [*package.rglob("*.py"), *solutions.glob("*.py"), *solutions.glob(f"{hidden.FOLDER}/*")]
    found = hashlib.sha256()
    for path in sorted(path for path in files if path.is_file()):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.digest()


def _kept(path: Path) -> tuple[Mark, ...] | None:
    try:
        return tuple(Mark(**record) for record in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # not there, or of another version
        return None


def _write(results: Results, to: Path, how: How, say: Callable) -> None:
    records.write(results, to / "results.json")
    records.put(columns.table(results).encode("utf-8-sig", "replace"), to / "grades.csv")
    pages.write(results, to)
    for old in _filled(to):  # of an earlier run: its points may no longer be true
        old.unlink(missing_ok=True)
    filled, said = [], []
    if how.roster and intake.is_exported(how.roster):
        for lesson in results.lessons:
            path = to / f"{how.roster.stem}-{lesson}.csv"
            try:
                said.append(columns.fill(how.roster, path, results, lesson, how.column))
                filled.append(path)
            except ValueError as error:
                said.append(str(error))
        path = to / f"{how.roster.stem}-feedback.zip"
        if platforms.zip_feedback(results, to / "feedback", path):
            filled.append(path)
    records.put(json.dumps([path.name for path in filled]).encode(), to / KEPT / FILLED)
    say(pages.summary(results))
    say(f"For you: {to / 'class.html'}. For each of them: {to / 'feedback'}. Marks: "
        f"{to / 'grades.csv'}.")  # fmt: skip
    for line in (*said, *(f"To upload: {path}" for path in filled)):
        say(line)


def _filled(to: Path) -> list[Path]:
    try:
        names = json.loads((to / KEPT / FILLED).read_text(encoding="utf-8"))
        return [to / Path(name).name for name in names]
    except (OSError, ValueError, TypeError):
        return []
