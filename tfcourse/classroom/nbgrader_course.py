"""nbgrader: lessons as its assignments, and points into its gradebook.

Graded exercises are autograded tests there, and practice is none of its business. nbgrader runs a
check in the learner's own process, so its own scores can be forged; the ones that `write_scores`
brings from `tfcourse class grade` cannot.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tfcourse.classroom import TOOLS
from tfcourse.classroom.records import Graded, Mark, Results, Student, Title

_CONFIG = '''\
"""The course as nbgrader sees it: graded exercises are its tests."""

c = get_config()  # noqa: F821

# What stands in the place of a solution, as in the course itself.
c.ClearSolutions.code_stub = {"python": "@stub@"}
# Seconds for one cell: some of them train a network.
c.Execute.timeout = 600
'''


class NoNbgrader(RuntimeError):
    """nbgrader is not installed here, or does not do what it should; says what to do."""


# --- notebooks ------------------------------------------------------------------------------


def mark_cells(notebook) -> None:
    """Give the cells of the graded exercises what makes them nbgrader's: an answer and its test."""
    points = {}
    for cell in notebook.cells:
        about = cell.metadata
        if about.get("graded"):
            name = about["exercise"]
            points[name] = about["points"]
            about["nbgrader"] = _about(f"exercise-{name}", solution=True)
            about["deletable"] = False
        elif about.get("check") in points:
            name = about["check"]
            about["nbgrader"] = _about(f"check-{name}", grade=True, points=points.pop(name))
            about["deletable"] = about["editable"] = False


def _about(grade_id: str, *, solution=False, grade=False, **more) -> dict:
    kinds = {"solution": solution, "grade": grade, "locked": grade, "task": False}
    return {"grade_id": grade_id, "schema_version": 3, **kinds, **more}


def write_course(root: Path, lessons: Sequence[str], to: Path) -> list[str]:
    """Write the lessons as assignments of an nbgrader course; what is there is left as it is.

    The notebooks hold the solutions of the graded exercises, between nbgrader's marks: students get
    what `nbgrader generate_assignment` makes of them.

    Args:
        root: the folder of the project, with solutions/.
        lessons: "01" or "01_attention".
        to: nbgrader's course folder.
    Returns:
        sentences on what was written, what was left, and what to do next.
    Raises:
        LessonError: there is no such lesson.
    """
    from tfcourse.authoring.build import find_lessons  # needs jupytext, which scores do not

    said = []
    for lesson in find_lessons(root, lessons):
        target = to / "source" / lesson.name / f"{lesson.name}.ipynb"
        text = _source(lesson)
        if target.is_file() and target.read_text(encoding="utf-8") != text:
            said.append(f"{target} is there and differs, so it is left. Move it away to get ours.")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        _copy_drawings(root, text, target.parent)
        said.append(
            f"{target} is written. Now, in {to}: nbgrader generate_assignment {lesson.name}"
        )
    return [*said, _configure(to / "nbgrader_config.py")]


def _source(lesson) -> str:
    """The learner's notebook, but in the graded cells what the source has: solution and marks."""
    import nbformat

    notebook = lesson.learners()
    written = {c.metadata["exercise"]: c.source for c in lesson.exercises().values()}
    for cell in notebook.cells:
        if cell.metadata.get("graded"):
            cell.source = written[cell.metadata["exercise"]]
    mark_cells(notebook)
    return nbformat.writes(notebook) + "\n"


def _copy_drawings(root: Path, text: str, folder: Path) -> None:
    for drawing in sorted((root / "notebooks" / "drawings").glob("*.svg")):
        if f"drawings/{drawing.name}" in text:
            (folder / "drawings").mkdir(exist_ok=True)
            (folder / "drawings" / drawing.name).write_bytes(drawing.read_bytes())


def _configure(path: Path) -> str:
    from tfcourse.authoring.lesson import STUB

    config = _CONFIG.replace("@stub@", STUB)
    try:
        with open(path, "x", encoding="utf-8") as target:
            target.write(config)
    except FileExistsError:
        if path.read_text(encoding="utf-8") == config:
            return f"{path} is as it should be."
        lines = "\n".join(line for line in config.splitlines() if line.startswith("c."))
        return f"{path} is there, and is left as it is. See that it has these lines too:\n{lines}"
    return f"{path} is written."


# --- scores ---------------------------------------------------------------------------------


def write_scores(
    gradebook: Path, results: Results, ids: Callable[[Student], str] | None = None
) -> str:
    """Write the points of a class into nbgrader's gradebook, with what each exercise was told.

    They go where nbgrader's own go, as automatic scores. A manual score that somebody has given
    still counts instead. What could not be judged is marked for grading by hand.

    Args:
        gradebook: nbgrader's gradebook.db; it is made where there is none.
        ids: a student -> their id there. Default: what the gradebook knows of the student's key and
            of what the roster says of them; for somebody new, the key.
    Returns:
        a sentence on what was written.
    Raises:
        NoNbgrader: nbgrader is not installed, or cannot write this gradebook.
    """
    check()
    from nbgrader.api import Gradebook, MissingEntry
    from sqlalchemy.exc import SQLAlchemyError

    count, by_hand = 0, 0
    try:
        with _programs_beside_python(), Gradebook(f"sqlite:///{gradebook}") as book:
            known = {student.id for student in book.students}
            for lesson, titles in results.lessons.items():
                assignment = _assignment(book, lesson, titles)
                for student in results.students:
                    graded = results.counts(student.key, lesson)
                    if graded is not None:
                        id = ids(student) if ids else _id(student, known)
                        by_hand += _write(book, assignment, id, student.name, graded)
                        count += 1
    except (SQLAlchemyError, MissingEntry, OSError) as error:
        raise NoNbgrader(f"{gradebook} could not be written as a gradebook ({error}).") from None
    said = f"The points of {count} submissions are in {gradebook}. `nbgrader autograde` writes its "
    said += "own in their place: run it before this, if at all."
    if by_hand:
        said += f" {by_hand} scores were given by hand before; those still count."
    return said


def check() -> None:
    """Raise NoNbgrader where nbgrader is not here."""
    try:
        import nbgrader.api  # noqa: F401
    except ModuleNotFoundError as error:
        raise NoNbgrader(
            f"nbgrader's gradebook is written with nbgrader, which is not here ({error}). Install "
            f"the teacher's tools, in the project's folder: {TOOLS}"
        ) from None


@contextmanager
def _programs_beside_python() -> Iterator[None]:
    """nbgrader calls `alembic` by its name, which works in an activated environment alone."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _id(student: Student, known: set[str]) -> str:
    return next((x for x in (student.key, *student.known.values()) if x in known), student.key)


def _assignment(book, lesson: str, titles: Sequence[Title]) -> str:
    """The assignment that has the lesson's notebook; it is made where there is none."""
    having = [a.name for a in book.assignments if lesson in {n.name for n in a.notebooks}]
    assignment = having[0] if having else lesson
    book.update_or_create_assignment(assignment)
    book.update_or_create_notebook(lesson, assignment)
    for title in titles:
        if title.points:
            about = {"max_score": title.points, "cell_type": "code"}
            book.update_or_create_grade_cell(f"check-{title.name}", lesson, assignment, **about)
            book.update_or_create_solution_cell(f"exercise-{title.name}", lesson, assignment)
    return assignment


def _write(book, assignment: str, id: str, name: str, graded: Graded) -> int:
    """Write one submission; how many of its scores somebody has given by hand."""
    from nbgrader.api import MissingEntry

    try:
        book.find_student(id)
    except MissingEntry:
        book.add_student(id, last_name=name)
    when = {"timestamp": graded.when} if graded.when else {}
    book.update_or_create_submission(assignment, id, **when)
    by_hand = 0
    for mark in graded.marks:
        if mark.of:
            by_hand += _write_mark(book, (graded.lesson, assignment, id), mark)
    book.db.commit()
    return by_hand


def _write_mark(book, where: tuple[str, str, str], mark: Mark) -> bool:
    grade = book.find_grade(f"check-{mark.exercise}", *where)
    grade.auto_score = mark.points
    grade.needs_manual_grade = mark.state == "not judged"
    book.find_comment(f"exercise-{mark.exercise}", *where).auto_comment = mark.says
    return grade.manual_score is not None
