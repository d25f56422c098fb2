"""What `tfcourse class` does, and what it says."""

from __future__ import annotations

import argparse
import difflib
import sys
from datetime import datetime
from pathlib import Path

from tfcourse.classroom import TOOLS

ROOT = Path(__file__).resolve().parents[2]  # the project; what students get has no solutions/


def add_to(commands) -> None:
    """Add `class` and its own commands to those of `tfcourse`."""
    parser = commands.add_parser("class", help="hand out lessons, grade what comes back")
    what = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    for name, says, default in (
        ("release", "what students get: notebooks and the package, without solutions", None),
        ("solutions", "the solved notebooks, for after the deadline", None),
        ("nbgrader", "the lessons as a course of nbgrader", None),
        ("gradescope", "an autograder in Gradescope's format", "autograder.zip"),
    ):
        command = what.add_parser(name, help=says)
        one = name == "gradescope"
        command.add_argument(
            "lessons", nargs=1 if one else "+", metavar="LESSON", help="01 or 01_attention"
        )
        command.add_argument(
            "--to", type=Path, metavar="PATH", default=default, required=default is None,
            help="the file to write" if one else "the folder to write",
        )  # fmt: skip
    _add_grade(what)
    check = what.add_parser("check", help="run the visible checks on a notebook, for CI")
    check.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")


def _add_grade(what) -> None:
    grade = what.add_parser("grade", help="grade a folder or a zip of submissions")
    grade.add_argument("submissions", type=Path, metavar="SUBMISSIONS", help="a folder or a zip")
    grade.add_argument("--to", type=Path, metavar="DIR", default=Path("results"),
                       help="the folder of results; default: results")  # fmt: skip
    grade.add_argument("--lesson", default="", metavar="LESSON",
                       help="this one alone; also what does not say what it is")  # fmt: skip
    grade.add_argument("--roster", type=Path, metavar="FILE.csv",
                       help="the class; a table of Canvas or Moodle gets filled")  # fmt: skip
    grade.add_argument("--column", default="", metavar="NAME", help="that column, where not plain")
    grade.add_argument("--deadline", type=_time, metavar="TIME", help='"2026-11-30 23:59"')
    grade.add_argument("--jobs", type=_count, default=2, metavar="N",
                       help="notebooks at one time; default: 2, best as many as cores")  # fmt: skip
    grade.add_argument("--seconds", type=float, default=20.0, metavar="S",
                       help="for each exercise; default: 20")  # fmt: skip
    grade.add_argument("--again", action="store_true", help="also what has not changed")
    grade.add_argument("--unsafe", action="store_true",
                       help="without a sandbox: answers may do whatever you may")  # fmt: skip
    grade.add_argument("--gradebook", type=Path, metavar="gradebook.db",
                       help="write the points into nbgrader's gradebook too")  # fmt: skip


def run(given) -> int:
    """Do what was asked; the exit status is 0 where all is well."""
    try:
        if given.what == "grade":
            return _grade(given)
        if given.what == "check":
            return _check(given.notebooks)
        return _write(given)
    except KeyboardInterrupt:
        print("\nStopped. What was graded is kept: run it again to go on.", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        print(f"{error}. Install the teacher's tools: {TOOLS}", file=sys.stderr)
    except (ValueError, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
    return 1


def _grade(given) -> int:
    from tfcourse.classroom import grading, nbgrader_course, sandbox

    how = grading.How(
        lesson=_name(given.lesson) if given.lesson else "",
        roster=given.roster,
        column=given.column,
        deadline=given.deadline,
        jobs=given.jobs,
        seconds=given.seconds,
        again=given.again,
        walls=sandbox.NONE if given.unsafe else sandbox.BUBBLEWRAP,
    )
    if given.gradebook:
        nbgrader_course.check()
    results = grading.grade(given.submissions, given.to, _solutions(), how)
    if given.gradebook:
        print(nbgrader_course.write_scores(given.gradebook, results))
    return 0


def _check(notebooks: list[Path]) -> int:
    from tfcourse.classroom import visible

    unread = 0
    for path in notebooks:
        try:
            print(visible.table(path))
        except (ValueError, OSError) as error:
            print(f"{path}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
            unread += 1
    return int(unread > 0)


def _write(given) -> int:
    from tfcourse.classroom import gradescope, nbgrader_course, release

    _solutions()
    does = {
        "release": release.release,
        "solutions": release.solutions,
        "nbgrader": nbgrader_course.write_course,
        "gradescope": lambda root, names, to: gradescope.write_autograder(root, names[0], to),
    }
    names = [_name(lesson) for lesson in given.lessons]
    print("\n".join(does[given.what](ROOT, names, Path(given.to))))
    return 0


def _solutions() -> Path:
    folder = ROOT / "solutions"
    if not folder.is_dir():
        raise ValueError(
            f"The folder solutions/ should be in {ROOT}, and is not: this is what students get. A "
            "teacher works in the project itself, as it comes from its repository."
        )
    return folder


def _name(lesson: str) -> str:
    """The name of a lesson from its number or name."""
    names = sorted(path.stem for path in (ROOT / "solutions").glob("[0-9][0-9]_*.py"))
    called = {name: (name, name[:2], name[:2].lstrip("0") or "0", name[3:]) for name in names}
    found = [name for name in names if lesson in called[name]]
    if not found:
        near = [] if lesson.isdigit() else difflib.get_close_matches(lesson, names, n=1, cutoff=0.5)
        says = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."
        raise ValueError(f"{lesson!r} is none of the lessons. {says}")
    return found[0]


def _time(words: str) -> datetime:
    try:
        return datetime.fromisoformat(words).astimezone()
    except ValueError:
        said = f'a time such as "2026-11-30 23:59" is expected. Got {words!r}.'
        raise argparse.ArgumentTypeError(said) from None


def _count(words: str) -> int:
    if not words.isdigit() or int(words) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on is expected. Got {words!r}.")
    return int(words)
