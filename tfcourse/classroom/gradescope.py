"""An autograder for Gradescope: `autograder.zip`, and what runs in their container.

    python -m tfcourse.classroom.gradescope LESSON ROOT

grades ROOT/submission and writes ROOT/results/results.json, a line an exercise. Whatever happens,
there is a results.json that says it. What is printed is for the teacher; students do not see it.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tfcourse.classroom import cells, sandbox
from tfcourse.classroom.records import Graded, Mark, put

FIRST = (1980, 1, 1, 0, 0, 0)  # the date of every file in the zip: the same bytes each time
RUN_BY_THEM = ("setup.sh", "run_autograder")
FELL = (
    "The autograder could not grade this. That is no fault of yours: your submission is kept, and "
    "your teacher can run the autograder again."
)
_SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as root, when it makes the image.
set -eu
root=${AUTOGRADER_ROOT:-/autograder}
# The machines there have no GPU, and torch for the CPU alone is smaller by gigabytes. To get it,
# write here the address of the index with PyTorch's CPU builds.
TORCH_INDEX=@torch_index@

export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends bubblewrap python3 python3-venv
python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then  # Ubuntu 22.04
    apt-get install -y --no-install-recommends python3.11 python3.11-venv
    python=python3.11
fi
"$python" -m venv "$root/venv"
"$root/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir \\
    ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \\
    -c "$root/source/requirements.lock" "$root/source"
# The hidden cases are root's alone: answers run as another user.
chmod -R go-rwx "$root/source"
"""
_RUN = """\
#!/usr/bin/env bash
# Gradescope runs this, as root, for each submission. Students see what is in results.json.
root=${AUTOGRADER_ROOT:-/autograder}
results=$root/results/results.json
mkdir -p "$root/results"
rm -f "$results"
chmod -R go-rwx "$root/source" "$root/submission" "$root/results"
# What is right, for the judge alone.
chmod -R go-rwx "$root"/venv/lib/python3*/site-packages/tfcourse/checks/lessons 2>/dev/null
cd /
"$root/venv/bin/python" -P -m tfcourse.classroom.gradescope @lesson@ "$root"
status=$?
if [ ! -s "$results" ]; then
    echo "The grader ended with $status and without results."
    cat > "$results" <<'END'
@failed@
END
fi
"""


class NoAutograder(ValueError):
    """An autograder that cannot be written; says what is missing."""


def write_autograder(
    root: Path, lesson: str, to: Path, torch_index: str | None = None
) -> list[str]:
    """Write the zip that a teacher uploads; one that is there is replaced.

    Args:
        root: the folder of the project, with solutions/.
        lesson: "01" or "01_attention".
        torch_index: the index of PyTorch's CPU builds; default: the environment's TORCH_INDEX.
    Returns:
        sentences on what was written, and on what to choose at Gradescope.
    Raises:
        LessonError: there is no such lesson.
        NoAutograder: it has no hidden cases, or the zip cannot be written.
    """
    from tfcourse.authoring.build import find_lessons  # needs jupytext, which graders do not

    [source] = find_lessons(root, [lesson])
    cases = root / "solutions" / "hidden" / f"{source.name}.py"
    if not cases.is_file():
        raise NoAutograder(f"The hidden cases of {source.name} should be in {cases}, and are not.")
    if torch_index is None:
        torch_index = os.environ.get("TORCH_INDEX", "")
    failed = json.dumps(told_failure(FELL), indent=1)
    run = _RUN.replace("@lesson@", source.name).replace("@failed@", failed)
    files = {
        "setup.sh": _SETUP.replace("@torch_index@", shlex.quote(torch_index)).encode(),
        "run_autograder": run.encode(),
        f"solutions/{source.name}.py": _headings(source.text).encode(),
        f"solutions/hidden/{source.name}.py": cases.read_bytes(),
    }
    for path in _package(root):
        files[path.relative_to(root).as_posix()] = path.read_bytes()
    try:
        _zip(files, to)
    except OSError as error:
        raise NoAutograder(f"{to} could not be written ({error}).") from None
    return [
        f"{to} grades {source.name}. Upload it at Gradescope, under Configure Autograder.",
        "Choose Ubuntu, and a container with at least 3 GB of memory: torch needs them.",
        "It holds the hidden cases: give it to nobody but Gradescope.",
    ]


def _headings(text: str) -> str:
    """Of a lesson's source only the lines that say which exercise has how many points."""
    lines = [x for x in text.splitlines() if x.startswith("# %%") and "exercise=" in x]
    return "\n".join(lines) + "\n"


def _package(root: Path) -> Iterator[Path]:
    for name in ("LICENSE", "README.md", "pyproject.toml", "requirements.lock"):
        yield root / name
    for pattern in ("*.py", "*.js"):
        yield from (root / "tfcourse").rglob(pattern)


def _zip(files: dict[str, bytes], to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    draft = to.with_name(f".{to.name}.{os.getpid()}.draft")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as target:
            for name, content in sorted(files.items()):
                about = zipfile.ZipInfo(name, FIRST)
                about.compress_type = zipfile.ZIP_DEFLATED
                about.create_system = 3  # Unix, which knows what may be run
                about.external_attr = (0o755 if name in RUN_BY_THEM else 0o644) << 16
                target.writestr(about, content)
        draft.replace(to)
    finally:
        draft.unlink(missing_ok=True)


# --- in the container -----------------------------------------------------------------------


def run(root: Path, lesson: str, grade: Callable[[Path, str], Graded] | None = None) -> dict:
    """Grade ROOT/submission and write ROOT/results/results.json; what was written.

    Args:
        grade: a notebook and the lesson's name -> its marks. Default: as the class is graded, with
            ROOT/source/solutions.
    """
    try:
        grade = grade or _grade_with(root / "source" / "solutions")
        graded = grade(find_notebook(root / "submission", lesson), lesson)
        for mark in graded.marks:
            if mark.look:
                print(f"{mark.exercise}: {mark.look}")
        found = told(graded)
    except cells.NotANotebook as error:
        found = told_failure(str(error))
    except Exception:
        traceback.print_exc(file=sys.stdout)
        found = told_failure(FELL)
    target = root / "results" / "results.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    put((json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode(), target)
    return found


def told(graded: Graded) -> dict:
    """Marks as Gradescope reads them."""
    right = sum(mark.state == "right" for mark in graded.marks)
    return _about(f"{right} of {len(graded.marks)} exercises are right.") | {
        "score": graded.points,
        "tests": [_line(mark) for mark in graded.marks],
    }


def told_failure(says: str) -> dict:
    """What Gradescope reads where nothing could be graded."""
    return _about(says) | {"score": 0.0, "tests": []}


def _about(says: str) -> dict:
    return {
        "output": says,
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
    }


def _line(mark: Mark) -> dict:
    return {
        "name": mark.exercise if mark.of else f"{mark.exercise} (practice)",
        "score": mark.points,
        "max_score": mark.of,
        "status": "passed" if mark.state == "right" else "failed",
        "output": mark.says,
        "output_format": "text",
        "visibility": "visible",
    }


def find_notebook(folder: Path, lesson: str) -> Path:
    """The notebook that was handed in: the one that is called after the lesson, or the only one.

    Raises:
        NotANotebook: there is none, or nobody can say which.
    """
    found = [
        path
        for path in sorted(folder.rglob("*.ipynb"))
        if path.is_file()
        and not path.is_symlink()
        and not any(part.startswith((".", "__MACOSX")) for part in path.relative_to(folder).parts)
    ]
    named = [path for path in found if path.stem.startswith(lesson)]
    for some in (named, found):
        if len(some) == 1:
            return some[0]
    if not found:
        raise cells.NotANotebook(f"There is no notebook in what you handed in: {lesson}.ipynb.")
    names = ", ".join(path.relative_to(folder).as_posix() for path in named or found)
    raise cells.NotANotebook(f"Hand in one notebook, {lesson}.ipynb. There are several: {names}.")


def _grade_with(solutions: Path) -> Callable[[Path, str], Graded]:
    from tfcourse.classroom import judge  # torch: where it fails, that too is told

    walls = _walls()

    def grade(path: Path, name: str) -> Graded:
        code = cells.code(cells.read(path))
        marks = judge.grade(code, judge.open_lesson(name, solutions), walls=walls)
        return Graded("", name, path.name, marks)

    return grade


def _walls() -> str:
    """bubblewrap; in a container that does not let it work, another user, whom root can become."""
    try:
        sandbox.check()
    except sandbox.NoSandbox as error:
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            raise
        print(f"Answers run as another user, without a sandbox. {error}")
        return sandbox.ANOTHER_USER
    return sandbox.BUBBLEWRAP


if __name__ == "__main__":
    run(Path(sys.argv[2]), sys.argv[1])
