"""Every notebook from top to bottom, as a learner gets it; `browser/` runs the solved ones."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import nbformat
import pytest

from tests import answers
from tests.conftest import ROOT
from tfcourse.authoring.build import OFFLINE, find_lessons
from tfcourse.authoring.predictions import COMPARED, restored

# A kernel runs this first: models learn for a few steps. In `browser/` the same cells learn to the
# end, and so they do here where later cells look for what was learned.
LEARNED = ("05_feed_forward",)
A_FEW_STEPS = """
from tfcourse import training

def step(run, loss, step=training._Run.step):
    if len(run.losses) < 8:
        step(run, loss)
    else:
        run.losses.append(run.losses[-1])

training._Run.step = step
"""
SOURCES = find_lessons(ROOT)
LESSONS = [lesson.name for lesson in SOURCES]


def nbval(path, note, **environment):
    """Run a notebook under nbval, offline: cells tagged `nbval-check-output` are compared."""
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env"]
    command += ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, str(path)]
    started = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT / "notebooks",
        env=os.environ
        | OFFLINE
        | {"TFCOURSE_DEVICE": "cpu", "TFCOURSE_HOME": tempfile.mkdtemp()}  # nobody's answers
        | environment,
    )  # fmt: skip
    note("seconds", round(time.monotonic() - started))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return int(re.search(r"(\d+) passed", done.stdout)[1])


@pytest.mark.parametrize("name", LESSONS)
def test_unattempted(name, tmp_path, record_property):
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "steps.py").write_text("" if name in LEARNED else A_FEW_STEPS)
    whole = restored(nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4))
    nbformat.write(whole, tmp_path / f"{name}.ipynb")
    code = [c for c in whole.cells if c.cell_type == "code" and c.source]
    # as most will see lesson 11; `browser/` runs it with the published weights
    environment = {"TFCOURSE_WITHOUT_WEIGHTS": "1", "IPYTHONDIR": str(tmp_path)}
    assert nbval(tmp_path / f"{name}.ipynb", record_property, **environment) == len(code)
    assert any(COMPARED in c.metadata.get("tags", []) for c in code)


@pytest.mark.parametrize("lesson", SOURCES, ids=lambda lesson: lesson.name)
def test_every_right_answer_has_its_turn(lesson):
    turns = answers.rounds(lesson, one=False)
    for name in lesson.exercises():
        assert {turn[name] for turn in turns} == set(range(len(answers.rights(name))))


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_what_every_lesson_has(name):
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    assert re.search(r"^\*About \d+ minutes\. You need: ", prose, re.MULTILINE)
    assert "### Find the bug" in prose
    assert "## Further reading" in prose
    assert "Claims(" in code
    assert len(re.findall(r'^quiz\("', code, re.MULTILINE)) >= 3
    assert any(c["metadata"].get("graded") for c in cells)
    assert sum("exercise" in c["metadata"] for c in cells) >= 3
    claims = ["".join(c["source"]) for c in cells if "claims.add(" in "".join(c["source"])]
    assert claims
    assert max(len(source.splitlines()) for source in claims) <= 10  # bookkeeping is no lesson


def test_the_readme_tells_the_minutes_of_the_lessons():
    readme = (ROOT / "README.md").read_text()
    for name in LESSONS:
        minutes = re.search(r"\*About (\d+) minutes", (ROOT / f"solutions/{name}.py").read_text())[
            1
        ]
        assert re.search(rf"notebooks/{name}\.ipynb\).*\| {minutes} \|$", readme, re.MULTILINE), (
            name
        )
