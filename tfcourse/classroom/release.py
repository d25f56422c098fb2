"""`tfcourse class release` and `tfcourse class solutions`: the folders that students get.

A release is written beside its place, looked through for solutions and hidden cases, and moved
there only if it holds none. It lists its own files, so that a later one replaces those and nothing
else: a repository's history or a file of the teacher's stays.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat

from tfcourse.authoring.build import find_lessons
from tfcourse.authoring.leaks import TELLING, find_leaks
from tfcourse.authoring.lesson import GLOSSARY, Lesson
from tfcourse.checks.solutions import solved_cell
from tfcourse.classroom.nbgrader_course import mark_cells

# Each lists the files that were written: what students get never becomes a folder of solutions.
MARKER, SOLVED = ".tfcourse-release", ".tfcourse-solutions"
COPIED = (
    *("LICENSE", "environment.yml", "pyproject.toml", "requirements.lock"),
    "docs/tutor.md",
)
_README = """\
# tfcourse: your notebooks

## Open it

You need Python 3.11 to 3.14 and `make`.

```
make lab     # makes the environment, opens JupyterLab at notebooks/@first@.ipynb
make check   # how far each exercise is
```

On Windows, and wherever conda is at home: `conda env create -f environment.yml`,
`conda activate tfcourse`, then `jupyter lab notebooks/@first@.ipynb`, and
`tfcourse class check notebooks/@first@.ipynb`.

## Hand in

Save the notebook, run `make check`, and hand in this one file for each lesson, as your teacher has
said. Keep its name; do not remove or rename the cells of the exercises.

| file | graded exercise |
|---|---|
@rows@

All other exercises are for practice: do them first, they lead to the graded one. The graded one is
tried with more cases than you can see. An answer that is right by luck in the ones that you see may
not be right in the others.

A link to a lesson that you do not have yet leads nowhere.

## An AI helper

If you let one help you, give it `docs/tutor.md` first: it then asks and hints, and leaves the
answer to you.
"""
_WORKFLOW = """\
# Runs the visible checks on your notebooks. It shows how far each exercise is, and fails only where
# a notebook cannot be read.
name: checks

on:
  push:
  workflow_dispatch:

permissions:
  contents: read

jobs:
  checks:
    runs-on: ubuntu-latest
    timeout-minutes: 45
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v6
        with:
          python-version: "3.13"
          cache: pip
          cache-dependency-path: requirements.lock
      - name: Make the environment
        run: make .venv/learner PYTHON=python
      - name: Try each exercise
        shell: bash  # with pipefail: the exit status is that of the check
        run: mkdir -p build && make --silent check | tee build/checks.txt
      - name: Write it into the summary
        if: ${{ !cancelled() }}
        run: sed 's/^/    /' build/checks.txt >> "$GITHUB_STEP_SUMMARY"
"""
_KEPT_RULES = ("lab", "clean", ".venv/learner")
_NEW_RULES = """\
.PHONY: help lab check clean

help:
	@echo "make lab [PORT=8888] [OPEN=no]   open the course in JupyterLab"
	@echo "make check                       how far each exercise is"
"""
_CHECK_RULE = """\
check: .venv/learner
	@$(BIN)/tfcourse class check notebooks/[0-9]*.ipynb
"""


class CannotRelease(ValueError):
    """What must not be given out, or cannot be written; says what to do."""


def release(root: Path, lessons: Sequence[str], to: Path) -> list[str]:
    """Write what students get for these lessons.

    Args:
        root: the folder of the project, with solutions/.
        lessons: "01" or "01_attention"; none for all.
        to: a folder that is not there, empty, or an earlier release, which is replaced.
    Returns:
        sentences on what was written.
    Raises:
        LessonError: there is no such lesson.
        CannotRelease: `to` holds something else, a notebook is missing, or a solution or hidden
            case would be given out. Nothing is written then.
    """
    chosen = find_lessons(root, lessons)

    def fill(draft: Path) -> None:
        shutil.copytree(
            root / "tfcourse",
            draft / "tfcourse",
            ignore=shutil.ignore_patterns("__pycache__", ".*", "*.pyc"),
        )
        for name in COPIED:
            _copy(root / name, draft / name)
        texts = [_notebook(root, lesson.name, draft) for lesson in chosen]
        if any(f"{GLOSSARY}.ipynb" in text for text in texts):
            texts.append(_notebook(root, GLOSSARY, draft))
        _copy_what_they_name(root, texts, draft)
        _write(draft / "README.md", _readme(chosen))
        _write(draft / "Makefile", _makefile(root, chosen[0].name))
        _write(draft / ".github" / "workflows" / "checks.yml", _WORKFLOW)
        _write(draft / ".gitignore", ".venv/\nbuild/\n*.egg-info/\n__pycache__/\n")
        leaks = find_leaks(find_lessons(root), draft) + hidden_leaks(root, draft)
        if leaks:
            raise CannotRelease("Nothing is released: " + "\n".join(leaks))

    gone = [Path(name) for name in _replace(to, fill, MARKER)]
    names = ", ".join(lesson.name for lesson in chosen)
    lost = ", ".join(path.stem for path in gone if path.suffix == ".ipynb")
    return [
        *([f"No longer in it: {lost}. A release holds the lessons that you name."] if lost else []),
        f"{to} holds {names} for your students, without solutions.",
        f"Give out the whole folder. They open it with `make lab`; {to / 'README.md'} says how, "
        "and what to hand in.",
    ]


def solutions(root: Path, lessons: Sequence[str], to: Path) -> list[str]:
    """Write the solved notebooks, not run, and the graded solutions alone: for after the deadline.

    Args and errors are those of `release`; an earlier folder of solutions is replaced.
    """
    chosen = find_lessons(root, lessons)

    def fill(draft: Path) -> None:
        texts = []
        for lesson in chosen:
            texts.append(nbformat.writes(lesson.solved()) + "\n")
            _write(draft / f"{lesson.name}.ipynb", texts[-1])
        _copy_what_they_name(root, texts, draft, data=False, notebooks="")
        _write(draft / "graded.md", _graded(chosen))

    _replace(to, fill, SOLVED)
    names = ", ".join(lesson.name for lesson in chosen)
    return [
        f"{to} holds the solved notebooks of {names}, and graded.md the graded solutions alone.",
        "Put the notebooks beside the ones that students have, in notebooks/, to run them.",
    ]


# --- what is in it --------------------------------------------------------------------------


def _notebook(root: Path, name: str, draft: Path) -> str:
    """A built notebook, outputs kept, with nbgrader's marks; what was written."""
    source = root / "notebooks" / f"{name}.ipynb"
    try:
        notebook = nbformat.read(source, as_version=4)
    except FileNotFoundError:
        raise CannotRelease(f"{source} is missing. Run: tfcourse build {name}") from None
    except Exception as error:  # any broken JSON or notebook
        raise CannotRelease(f"{source} cannot be read ({error}). Build it again.") from None
    mark_cells(notebook)
    notebook.metadata.pop("tfcourse", None)  # the seal of the one that was built
    text = nbformat.writes(notebook) + "\n"
    _write(draft / "notebooks" / source.name, text)
    return text


def _copy_what_they_name(
    root: Path, texts: Sequence[str], draft: Path, *, data=True, notebooks="notebooks"
) -> None:
    """The drawings that notebooks show, and the files of data/ that they read."""
    whole = "\n".join(texts)
    for path in sorted((root / "notebooks" / "drawings").iterdir()):
        if f"drawings/{path.name}" in whole:
            _copy(path, draft / notebooks / "drawings" / path.name)
    for path in sorted((root / "data").iterdir()) if data else []:
        # By its name, or by the module that reads it: `from tfcourse.experiments import manual`.
        if re.search(rf'recorded\(\\?"{path.stem}\\?"|experiments\b.*\b{path.stem}\b', whole):
            _copy(path, draft / "data" / path.name)


def _readme(chosen: Sequence[Lesson]) -> str:
    rows = []
    for lesson in chosen:
        graded = [
            f"`{name}`, {cell.metadata['points']} points"
            for name, cell in lesson.exercises().items()
            if cell.metadata.get("graded")
        ]
        rows.append(f"| `notebooks/{lesson.name}.ipynb` | {'; '.join(graded) or '(none)'} |")
    text = _README.replace("@first@", chosen[0].name)
    return text.replace("@rows@", "\n".join(rows))


def _makefile(root: Path, first: str) -> str:
    """The project's Makefile with the rules that students need, and one that checks."""
    text = (root / "Makefile").read_text(encoding="utf-8")
    head, *blocks = re.split(r"\n\n+", text.strip())
    kept = [b for b in blocks if any(re.search(rf"^{re.escape(r)}:", b, re.M) for r in _KEPT_RULES)]
    parts = [head, _NEW_RULES.strip(), *kept, _CHECK_RULE.strip()]
    return "\n\n".join(parts).replace("00_start_here", first) + "\n"


def _graded(chosen: Sequence[Lesson]) -> str:
    parts = ["# The graded exercises, solved"]
    for lesson in chosen:
        for name in lesson.solutions():
            code = solved_cell(lesson.text, name)
            parts.append(f"## {lesson.name}: {name}\n\n```python\n{code}\n```")
    return "\n\n".join(parts) + "\n"


# --- leaks ----------------------------------------------------------------------------------


def hidden_leaks(root: Path, folder: Path) -> list[str]:
    """Sentences on every file of a folder that holds a line of a hidden case.

    Imports and the heads of functions and classes say nothing of a case, and may stand anywhere.
    """
    hidden = {
        line: path
        for path in sorted((root / "solutions" / "hidden").glob("**/*.py"))
        for line in _telling(path.read_text(encoding="utf-8"))
    }
    said = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        text = _bare(path.read_text(encoding="utf-8", errors="ignore"))
        found = next((source for line, source in hidden.items() if line in text), None)
        if found:
            where, source = path.relative_to(folder).as_posix(), found.relative_to(root).as_posix()
            said.append(f"{where}: holds a line of {source}, which may stand in solutions/ alone.")
    return said


def _telling(code: str) -> list[str]:
    lines = [re.sub(r"#.*", "", line).strip() for line in code.splitlines()]
    bare = [_bare(x) for x in lines if not re.match(r"(from|import|def|class|@)\b", x)]
    return [line for line in bare if len(line) >= TELLING]


def _bare(text: str) -> str:
    r"""Without spaces, and without the backslashes that JSON writes before quotes."""
    return re.sub(r"[\s\\]", "", text)


# --- writing --------------------------------------------------------------------------------


def _replace(to: Path, fill, marker: str) -> list[str]:
    """Write a folder beside its place, then put it there instead of an earlier one of its kind.

    Returns: the files of the earlier one that are no longer there.
    """
    old = _written_before(to, marker)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tfcourse-", dir=to.parent) as room:
            draft = Path(room, "draft")
            draft.mkdir()
            fill(draft)
            new = sorted(p.relative_to(draft).as_posix() for p in draft.rglob("*") if p.is_file())
            taken = [name for name in new if name not in old and (to / name).exists()]
            if taken:
                raise CannotRelease(
                    f"{to / taken[0]} is there, and no part of the earlier release. Move it away."
                )
            to.mkdir(exist_ok=True)
            _write(to / marker, json.dumps(sorted({*old, *new}), indent=1) + "\n")
            for name in old:
                (to / name).unlink(missing_ok=True)
            for name in new:
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                (draft / name).replace(to / name)
            _write(to / marker, json.dumps(new, indent=1) + "\n")
            return sorted({*old} - {*new})
    except OSError as error:
        raise CannotRelease(f"{to} could not be written ({error}).") from None


def _written_before(to: Path, marker: str) -> list[str]:
    """The files of an earlier one of its kind at this place; none where there is nothing."""
    if not to.exists():
        return []
    if not to.is_dir():
        raise CannotRelease(f"{to} should be a folder, and is a file.")
    try:
        names = json.loads((to / marker).read_text(encoding="utf-8"))
        inside = to.resolve()
        return [n for n in names if (to / n).resolve().is_relative_to(inside)]
    except FileNotFoundError:
        if any(to.iterdir()):
            raise CannotRelease(
                f"{to} is not empty, and no earlier one of its kind: nothing is written. Give "
                "another folder: --to DIR."
            ) from None
        return []
    except (OSError, ValueError, TypeError):
        raise CannotRelease(f"{to / marker} cannot be read. Give another folder.") from None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)
