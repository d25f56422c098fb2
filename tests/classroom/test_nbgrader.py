"""Lessons as nbgrader's own assignments, and points in its gradebook.

nbgrader puts its menu into every JupyterLab that it is installed beside, so it has an environment
of its own; these tests run it there.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace

import nbformat
import pytest

from tests.conftest import ROOT
from tfcourse.authoring.lesson import STUB, Lesson
from tfcourse.classroom import nbgrader_course, records
from tfcourse.classroom.nbgrader_course import NoNbgrader, write_course, write_scores
from tfcourse.classroom.records import Graded, Mark, Results, Student, Title

LESSON = "00_start_here"
GRADED = "cosine_similarities"


def find_python():
    """A Python that has nbgrader, and what the course needs."""
    own = ROOT / ".venv" / "classroom"
    places = [os.environ.get("TFCOURSE_NBGRADER"), own / "bin/python", own / "Scripts/python.exe"]
    look = (
        "from importlib.util import find_spec; import sys;"
        "sys.exit(not (find_spec('nbgrader') and find_spec('torch')))"
    )
    for place in [*places, sys.executable]:
        there = place and os.path.exists(place)
        if there and subprocess.run([place, "-c", look], capture_output=True).returncode == 0:
            return str(place)
    return ""


PYTHON = find_python()
needs_nbgrader = pytest.mark.skipif(
    not PYTHON, reason="nbgrader is not here. To run this too: make .venv/classroom/whole"
)


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory):
    """No settings, kernels or progress of the machine."""
    home = str(tmp_path_factory.mktemp("surroundings"))
    names = ["TFCOURSE_HOME", "IPYTHONDIR", "HOME"]
    names += [f"JUPYTER_{kind}_DIR" for kind in ("CONFIG", "DATA", "RUNTIME")]
    more = {"PYTHONPATH": str(ROOT), "JUPYTER_PREFER_ENV_PATH": "1", "OMP_NUM_THREADS": "1"}
    return os.environ | dict.fromkeys(names, home) | more


@pytest.fixture(scope="module")
def nbgrader(surroundings):
    def run(folder, *words):
        programs = os.pathsep.join([os.path.dirname(PYTHON), os.environ["PATH"]])
        done = subprocess.run(
            [PYTHON, "-m", "nbgrader", *map(str, words)],
            cwd=folder,
            env=surroundings | {"PATH": programs},  # it calls `alembic` by its name
            capture_output=True,
            text=True,
            timeout=600,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def course(tmp_path_factory, nbgrader):
    """A course with one assignment, as `generate_assignment` leaves it."""
    to = tmp_path_factory.mktemp("nbgrader") / "course"
    write_course(ROOT, ["00"], to)
    status, said = nbgrader(to, "generate_assignment", LESSON)
    assert status == 0, said
    return to


def read(path):
    return nbformat.read(path, as_version=4)


def released(course):
    return read(course / "release" / LESSON / f"{LESSON}.ipynb")


def with_answers(notebook, **answers):
    """With these answers; of the other code only the imports, so that it runs in a few seconds."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kept = [c for c in code if {"exercise", "check"} & set(c.metadata)]
    for cell in kept:
        cell.source = answers.get(cell.metadata.get("exercise"), cell.source)
    notebook.cells = [code[0], *kept]
    return notebook


def solution(name):
    [cell] = [
        c
        for c in Lesson(ROOT / "solutions" / f"{LESSON}.py").solved().cells
        if c.metadata.get("exercise") == name
    ]
    return cell.source


# --- the course's folder --------------------------------------------------------------------


def test_what_is_written(tmp_path):
    said = write_course(ROOT, ["00", "06"], tmp_path / "course")
    assert len(said) == 3
    assert f"nbgrader generate_assignment {LESSON}" in said[0]
    source = read(tmp_path / "course/source/06_transformer_block/06_transformer_block.ipynb")
    drawings = os.listdir(tmp_path / "course/source/06_transformer_block/drawings")
    text = "\n".join(cell.source for cell in source.cells)
    assert drawings
    assert all(f"drawings/{name}" in text for name in drawings)
    [exercise, check] = [c for c in source.cells if "nbgrader" in c.metadata]
    assert "### BEGIN SOLUTION" in exercise.source
    assert check.metadata["nbgrader"]["points"] == 4
    assert text.count("### BEGIN") == 1
    config = (tmp_path / "course/nbgrader_config.py").read_text(encoding="utf-8")
    assert STUB in config
    compile(config, "nbgrader_config.py", "exec")


def test_what_is_there_is_left(tmp_path):
    write_course(ROOT, ["00"], tmp_path)
    config, path = tmp_path / "nbgrader_config.py", tmp_path / f"source/{LESSON}/{LESSON}.ipynb"
    assert "as it should be" in write_course(ROOT, ["00"], tmp_path)[-1]
    config.write_text("mine")
    path.write_text("{}")
    said = write_course(ROOT, ["00"], tmp_path)
    assert "is there and differs, so it is left" in said[0]
    assert "c.ClearSolutions.code_stub = " in said[1]
    assert "c.Execute.timeout = 600" in said[1]
    assert (config.read_text(), path.read_text()) == ("mine", "{}")


def test_every_graded_exercise_of_every_lesson_has_an_answer_and_a_test():
    for path in sorted((ROOT / "solutions").glob("[0-9]*.py")):
        lesson = Lesson(path)
        notebook = lesson.learners()
        nbgrader_course.mark_cells(notebook)
        marks = [c.metadata["nbgrader"] for c in notebook.cells if "nbgrader" in c.metadata]
        graded = list(lesson.solutions())
        assert graded
        wanted = [f"{kind}-{name}" for name in graded for kind in ("exercise", "check")]
        assert sorted(m["grade_id"] for m in marks) == sorted(wanted)
        assert [m["solution"] for m in marks] == [not m["grade"] for m in marks]
        # nbgrader puts its stub for a solution, and knows nothing of code that is given instead.
        assert all("### BEGIN GIVEN" not in lesson.exercises()[name].source for name in graded)


# --- nbgrader itself ------------------------------------------------------------------------


@needs_nbgrader
def test_generate_assignment_gives_the_learners_notebook(course):
    learners = Lesson(ROOT / "solutions" / f"{LESSON}.py").learners()
    assert [(c.cell_type, c.source) for c in released(course).cells] == [
        (c.cell_type, c.source) for c in learners.cells
    ]
    assert (course / "release" / LESSON / "drawings" / "map_00.svg").is_file()


@needs_nbgrader
def test_validate_complains_of_the_graded_exercise_alone(course, tmp_path, nbgrader):
    path = tmp_path / f"{LESSON}.ipynb"
    nbformat.write(with_answers(released(course)), path)
    _, said = nbgrader(tmp_path, "validate", path)
    assert "VALIDATION FAILED ON 1 CELL(S)" in " ".join(said.split()), said
    assert f"{GRADED} = check({GRADED})" in said
    # Practice that nobody tried is no failure, and stops nothing.
    nbformat.write(with_answers(released(course), **{GRADED: solution(GRADED)}), path)
    _, said = nbgrader(tmp_path, "validate", path)
    assert "Success! Your notebook passes all the tests." in said


@needs_nbgrader
def test_validate_takes_what_class_release_has_written(tmp_path, nbgrader):
    from tfcourse.classroom.release import release

    release(ROOT, ["00"], tmp_path / "to")
    path = tmp_path / "to" / "notebooks" / f"{LESSON}.ipynb"
    nbformat.write(with_answers(read(path)), path)
    _, said = nbgrader(path.parent, "validate", path.name)
    assert "VALIDATION FAILED ON 1 CELL(S)" in " ".join(said.split()), said
    nbformat.write(with_answers(read(path), **{GRADED: solution(GRADED)}), path)
    _, said = nbgrader(path.parent, "validate", path.name)
    assert "Success! Your notebook passes all the tests." in said


BOOK = """
import json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///" + sys.argv[1]) as book:
    found = {}
    for s in book.assignment_submissions(sys.argv[2]):
        [notebook] = s.notebooks
        found[s.student.id] = {
            "score": s.score, "max": s.max_score, "by hand": s.needs_manual_grade,
            "late": s.total_seconds_late, "when": str(s.timestamp), "name": s.student.last_name,
            "said": [c.comment for c in notebook.comments],
        }
    print(json.dumps(found))
"""
WRITE = """
import sys
from pathlib import Path
from tfcourse.classroom import records
from tfcourse.classroom.nbgrader_course import write_scores
ids = (lambda student: student.known["login"]) if sys.argv[3:] else None
print(write_scores(Path(sys.argv[1]), records.read(Path(sys.argv[2])), ids))
"""


@pytest.fixture
def python(surroundings):
    def run(code, *words):
        done = subprocess.run(
            [PYTHON, "-c", code, *map(str, words)], env=surroundings, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def results_of(*students, **points):
    """A class in which each got so many of two points."""
    graded = tuple(
        Graded(key, LESSON, "", (Mark(GRADED, "right" if p else "wrong", "x", "Told.", p, 2.0),
               Mark("similarities", "to do", "to do", "To do.")), when="2026-11-03T12:30:00+02:00")
        for key, p in points.items()
    )  # fmt: skip
    titles = (Title("similarities", "Similarities"), Title(GRADED, "Cosines", 2.0))
    return Results(students, {LESSON: titles}, graded)


@needs_nbgrader
def test_autograde_and_then_the_points_of_the_class(course, nbgrader, python, tmp_path):
    for name, answer in {
        "ann": solution(GRADED),
        "bob": f"def {GRADED}(queries, keys):\n    return queries @ keys.T",
    }.items():
        folder = course / "submitted" / name / LESSON
        folder.mkdir(parents=True)
        nbformat.write(
            with_answers(released(course), **{GRADED: answer}), folder / f"{LESSON}.ipynb"
        )
    status, said = nbgrader(course, "autograde", LESSON)
    assert status == 0, said
    book = course / "gradebook.db"
    found = json.loads(python(BOOK, book, LESSON))
    assert {k: (v["score"], v["max"], v["by hand"]) for k, v in found.items()} == {
        "ann": (2.0, 2.0, False),
        "bob": (0.0, 2.0, False),
    }
    # The class has graded otherwise: ann's was wrong in a hidden case; cy is new.
    students = (
        Student("a-1", "Ann Ü., O'Neil", {"id": "ann"}),
        Student("bob", "Bob"),
        Student("cy", "Cy"),
    )
    results = results_of(*students, **{"a-1": 0.0, "bob": 2.0, "cy": 2.0})
    records.write(results, tmp_path / "results.json")
    said = python(WRITE, book, tmp_path / "results.json")
    assert f"The points of 3 submissions are in {book}." in said
    found = json.loads(python(BOOK, book, LESSON))
    assert {k: (v["score"], v["max"], v["by hand"]) for k, v in found.items()} == {
        "ann": (0.0, 2.0, False),
        "bob": (2.0, 2.0, False),
        "cy": (2.0, 2.0, False),
    }
    assert found["cy"]["name"] == "Cy"
    assert found["ann"]["said"] == ["Told."]
    assert found["ann"]["when"] == "2026-11-03 10:30:00"  # nbgrader counts in UTC
    # nbgrader goes on with it: its own grades of the same submissions, again.
    status, said = nbgrader(course, "autograde", LESSON, "--student", "ann", "--force")
    assert status == 0, said
    assert json.loads(python(BOOK, book, LESSON))["ann"]["score"] == 2.0


@needs_nbgrader
def test_a_new_gradebook_and_one_with_scores_by_hand(python, tmp_path):
    book, path = tmp_path / "new.db", tmp_path / "results.json"
    results = results_of(Student("k-1", "Ann", {"login": "ann"}), **{"k-1": 2.0})
    records.write(results, path)
    python(WRITE, book, path, "by login")
    assert list(json.loads(python(BOOK, book, LESSON))) == ["ann"]
    by_hand = (
        "import sys; from nbgrader.api import Gradebook\n"
        "with Gradebook('sqlite:///' + sys.argv[1]) as book:\n"
        f"    g = book.find_grade('check-{GRADED}', '{LESSON}', '{LESSON}', 'ann')\n"
        "    g.manual_score = 1.5; book.db.commit()"
    )
    python(by_hand, book)
    said = python(WRITE, book, path)
    assert "1 scores were given by hand before; those still count." in said
    assert json.loads(python(BOOK, book, LESSON))["ann"]["score"] == 1.5
    # What could not be judged waits for a person.
    other = results_of(Student("bob", "Bob"), bob=0.0)
    [graded] = other.graded
    marks = (replace(graded.marks[0], state="not judged"),)
    records.write(replace(other, graded=(replace(graded, marks=marks),)), path)
    python(WRITE, book, path)
    assert json.loads(python(BOOK, book, LESSON))["bob"]["by hand"]


@needs_nbgrader
def test_a_file_that_is_no_gradebook_is_said(python, tmp_path):
    (tmp_path / "book.db").write_text("not a database, but longer than its header " * 20)
    records.write(results_of(Student("bob", "Bob"), bob=1.0), tmp_path / "results.json")
    code = WRITE.replace("import write_scores", "import NoNbgrader, write_scores")
    code = code.replace("print(", "try: print(")
    code += "except NoNbgrader as error: print('said:', error)\n"
    assert "said: " in python(code, tmp_path / "book.db", tmp_path / "results.json")


def test_where_nbgrader_is_missing_it_is_said_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "nbgrader", None)
    monkeypatch.setitem(sys.modules, "nbgrader.api", None)
    with pytest.raises(NoNbgrader, match=r"pip install -e '\.\[classroom\]'"):
        write_scores(tmp_path / "book.db", results_of())
    assert not (tmp_path / "book.db").exists()
