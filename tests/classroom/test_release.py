"""What students get: all that a lesson needs, and nothing that they must not have."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import nbformat
import pytest

from tests.conftest import ROOT
from tfcourse.authoring.build import find_lessons
from tfcourse.authoring.leaks import find_leaks
from tfcourse.authoring.lesson import Lesson, LessonError
from tfcourse.classroom import release as releasing
from tfcourse.classroom import visible
from tfcourse.classroom.cells import NotANotebook
from tfcourse.classroom.release import CannotRelease, hidden_leaks, release, solutions

SMALL = '''# %% [markdown]
# # 01 · Tiny
#
# ### Exercise · double
#
# See the [glossary](glossary.ipynb#KV-cache) and ![a](drawings/one.svg).

# %% exercise="double" graded=true points=2 difficulty=2 minutes=5
def double(value):
    """Twice the value."""
    ### BEGIN SOLUTION
    twice_the_value = value + value
    return twice_the_value
    ### END SOLUTION


# %% check="double"
double = check(double)

# %%
record = recorded("doubled")

# %% [markdown]
# ### Exercise · triple

# %% exercise="triple" difficulty=1 minutes=3
def triple(value):
    ### BEGIN SOLUTION
    return 3 * value
    ### END SOLUTION


# %% check="triple"
triple = check(triple)
'''
HIDDEN = """from tfcourse.checks.exercise import Case, randn

def double() -> list[Case]:
    secret_number = 4_711_004_711  # a comment that says nothing
    return [Case((secret_number,)), Case(("a \\"quoted\\" secret word",))]
"""


@pytest.fixture
def course(tmp_path):
    """A tiny course, with everything that a project has."""
    root = tmp_path / "course"
    for name in (
        "solutions/hidden",
        "notebooks/drawings",
        "tfcourse/__pycache__",
        "data",
        "tests",
        "docs",
    ):
        (root / name).mkdir(parents=True)
    write = {
        "solutions/01_tiny.py": SMALL,
        "solutions/hidden/01_tiny.py": HIDDEN,
        "tests/test_it.py": "assert True",
        "tfcourse/__init__.py": "from tfcourse.checks.exercise import Case, randn\n",
        "tfcourse/__pycache__/old.pyc": "x",
        "notebooks/drawings/one.svg": "<svg/>",
        "notebooks/drawings/two.svg": "<svg/>",
        "data/doubled.json": "{}",
        "data/other.json": "{}",
    }
    for name, text in write.items():
        (root / name).write_text(text, encoding="utf-8")
    for name in (*releasing.COPIED, "Makefile"):
        shutil.copy(ROOT / name, root / name)
    notebook = Lesson(root / "solutions/01_tiny.py").learners()
    output = nbformat.v4.new_output("stream", text="as it ran")
    notebook.cells[1].outputs = [output]
    nbformat.write(notebook, root / "notebooks/01_tiny.ipynb")
    glossary = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Glossary")])
    nbformat.write(glossary, root / "notebooks/glossary.ipynb")
    return root


def files_of(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_what_is_in_a_release(course, tmp_path):
    said = release(course, ["01"], tmp_path / "students")
    assert files_of(tmp_path / "students") == [
        ".github/workflows/checks.yml",
        ".gitignore",
        ".tfcourse-release",
        "LICENSE",
        "Makefile",
        "README.md",
        "data/doubled.json",
        "docs/tutor.md",
        "environment.yml",
        "notebooks/01_tiny.ipynb",
        "notebooks/drawings/one.svg",
        "notebooks/glossary.ipynb",
        "pyproject.toml",
        "requirements.lock",
        "tfcourse/__init__.py",
    ]
    assert "01_tiny" in said[0]
    readme = (tmp_path / "students/README.md").read_text(encoding="utf-8")
    assert "| `notebooks/01_tiny.ipynb` | `double`, 2 points |" in readme
    assert "make lab" in readme
    assert "@" not in readme
    assert sorted(os.listdir(tmp_path)) == ["course", "students"]  # no draft stays


def test_the_cells_are_nbgraders_and_outputs_stay(course, tmp_path):
    release(course, ["01"], tmp_path / "to")
    cells = nbformat.read(tmp_path / "to/notebooks/01_tiny.ipynb", as_version=4).cells
    assert cells[1].outputs[0].text == "as it ran"
    assert cells[1].source.endswith("raise NotImplementedError  # your code here")
    kinds = {"schema_version": 3, "task": False}
    assert [c.metadata["nbgrader"] for c in cells if "nbgrader" in c.metadata] == [
        {"grade_id": "exercise-double", "solution": True, "grade": False, "locked": False, **kinds},
        {"grade_id": "check-double", "solution": False, "grade": True, "locked": True, "points": 2}
        | kinds,
    ]


def test_an_earlier_release_is_replaced_and_what_else_is_there_stays(course, tmp_path):
    to = tmp_path / "to"
    release(course, ["01"], to)
    (to / ".git").mkdir()
    (to / ".git/HEAD").write_text("main")
    (to / "dates.md").write_text("Mondays")
    (to / "README.md").write_text("changed")
    path = course / "notebooks/01_tiny.ipynb"
    path.write_text(path.read_text().replace("drawings/one.svg", "drawings/two.svg"))
    release(course, [], to)
    assert "make lab" in (to / "README.md").read_text()
    assert (to / ".git/HEAD").read_text() == "main"
    assert (to / "dates.md").read_text() == "Mondays"
    assert os.listdir(to / "notebooks/drawings") == ["two.svg"]
    listed = json.loads((to / releasing.MARKER).read_text())
    assert set(files_of(to)) - set(listed) == {".git/HEAD", "dates.md", releasing.MARKER}


def test_a_lesson_that_goes_is_named(course, tmp_path):
    to = tmp_path / "to"
    release(course, ["01"], to)
    for kind in ("solutions", "notebooks"):
        [path] = (course / kind).glob("01_tiny.*")
        path.rename(path.with_stem("02_other"))
    assert release(course, ["02"], to)[0] == (
        "No longer in it: 01_tiny. A release holds the lessons that you name."
    )
    assert not (to / "notebooks" / "01_tiny.ipynb").exists()
    assert "No longer" not in "".join(release(course, ["02"], to))


def test_a_list_that_leads_out_of_the_folder_deletes_nothing(course, tmp_path):
    to, other = tmp_path / "to", tmp_path / "mine.txt"
    other.write_text("kept")
    to.mkdir()
    (to / releasing.MARKER).write_text(json.dumps(["../mine.txt", str(other)]))
    release(course, ["01"], to)
    assert other.read_text() == "kept"


@pytest.mark.parametrize("what", ["full", "file", "taken", "marker"])
def test_a_folder_that_is_no_release_is_left_as_it_is(course, tmp_path, what):
    to = tmp_path / "to"
    if what == "file":
        to.write_text("mine")
    else:
        to.mkdir()
        (to / "README.md").write_text("mine")
        if what != "full":
            (to / releasing.MARKER).write_text("[]" if what == "taken" else "{")
    before = files_of(tmp_path)
    with pytest.raises(CannotRelease, match="not empty|is a file|is there, and no|cannot be read"):
        release(course, ["01"], to)
    assert files_of(tmp_path) == before
    assert (to if what == "file" else to / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("where", "text", "said"),
    [
        ("tfcourse/a.py", "def f(n):\n    m = n + n\n    return m\n", "solution of the graded"),
        ("tfcourse/a.py", "secret_number = 4_711_004_711\n", "a line of solutions/hidden/01_tiny"),
        ("tfcourse/a.md", 'Case(("a \\"quoted\\" secret word",))]\n return [Case((secret_number,)),'
         ' Case(("a \\"quoted\\" secret word",))]', "tfcourse/a.md: holds a line of"),
        ("cell", "return [Case((secret_number,)), Case((\"a \\\"quoted\\\" secret word\",))]",
         "notebooks/01_tiny.ipynb: holds a line of"),
        ("cell", "### BEGIN SOLUTION\nx", "a solution marker stands in it"),
        ("output", "  twice_the_value = value + value\n  return twice_the_value", "the solution"),
        ("output", "secret_number = 4_711_004_711", "holds a line of solutions/hidden"),
    ],
)  # fmt: skip
def test_a_leak_stops_the_release(course, tmp_path, where, text, said):
    if where.startswith("tfcourse"):
        (course / where).write_text(text)
    else:
        path = course / "notebooks/01_tiny.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.append(nbformat.v4.new_code_cell(text if where == "cell" else "1"))
        if where == "output":
            notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text=text)]
        nbformat.write(notebook, path)
    with pytest.raises(CannotRelease, match=re.escape(said)):
        release(course, ["01"], tmp_path / "to")
    assert sorted(os.listdir(tmp_path)) == ["course"]


def test_what_is_missing_is_said(course, tmp_path):
    with pytest.raises(LessonError, match="there is no lesson '07'"):
        release(course, ["07"], tmp_path / "to")
    (course / "notebooks/01_tiny.ipynb").write_text("{")
    with pytest.raises(CannotRelease, match=r"01_tiny.ipynb cannot be read"):
        release(course, ["01"], tmp_path / "to")
    (course / "notebooks/01_tiny.ipynb").unlink()
    with pytest.raises(CannotRelease, match="01_tiny.ipynb is missing. Run: tfcourse build 01"):
        release(course, ["01"], tmp_path / "to")
    assert sorted(os.listdir(tmp_path)) == ["course"]


def test_what_students_get_never_becomes_a_folder_of_solutions(course, tmp_path):
    release(course, ["01"], tmp_path / "students")
    before = files_of(tmp_path / "students")
    with pytest.raises(CannotRelease, match="no earlier one of its kind"):
        solutions(course, ["01"], tmp_path / "students")
    assert files_of(tmp_path / "students") == before


def test_solutions_for_after_the_deadline(course, tmp_path):
    said = solutions(course, ["01"], tmp_path / "to")
    assert files_of(tmp_path / "to") == [
        ".tfcourse-solutions",
        "01_tiny.ipynb",
        "drawings/one.svg",
        "graded.md",
    ]
    assert "01_tiny" in said[0]
    notebook = nbformat.read(tmp_path / "to/01_tiny.ipynb", as_version=4)
    assert "return twice_the_value" in "\n".join(c.source for c in notebook.cells)
    graded = (tmp_path / "to/graded.md").read_text(encoding="utf-8")
    assert "## 01_tiny: double" in graded
    assert "    return twice_the_value\n```" in graded
    assert "3 * value" not in graded
    solutions(course, ["01"], tmp_path / "to")  # and again


# --- the course itself ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    to = tmp_path_factory.mktemp("class") / "students"
    release(ROOT, ["00", "10"], to)
    return to


def test_the_release_of_the_course_holds_all_that_its_notebooks_name(students):
    there = set(files_of(students))
    assert {"notebooks/00_start_here.ipynb", "notebooks/10_inside_the_heads.ipynb"} <= there
    for name in ("data/induction.json", "data/explanation.json", "data/manual.safetensors"):
        assert name in there
    assert "data/lengths.json" not in there
    read = re.findall(r'recorded\("(\w+)"', (ROOT / "solutions/10_inside_the_heads.py").read_text())
    assert {f"data/{name}.json" for name in read} <= there
    text = "".join(p.read_text(encoding="utf-8") for p in students.glob("notebooks/*.ipynb"))
    shown = set(re.findall(r"drawings/[\w.]+", text))
    assert shown
    assert {f"notebooks/{x}" for x in shown} <= there
    for name in ("solutions", "tests", "benchmarks", "docs/classroom.md"):
        assert not (students / name).exists()
    assert not [name for name in there if "__pycache__" in name or "hidden/" in name]
    assert hidden_leaks(ROOT, students) == []
    assert len(releasing._telling((ROOT / "solutions/hidden/00_start_here.py").read_text())) > 2


def test_the_released_package_checks_an_exercise(students):
    """From the folder of the notebooks, with nothing of this project in sight."""
    code = (
        "import tfcourse; from tfcourse.checks import check\n"
        "def similarities(query, keys):\n    return keys @ query\n"
        "print(tfcourse.__file__); check(similarities)\n"
        "from tfcourse.experiments import recorded; print(len(recorded('induction')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=students / "notebooks",
        env=os.environ | {"PYTHONPATH": str(students)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(students) in done.stdout
    assert "✓ similarities: Right, in all" in done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_its_makefile(students):
    def dry(target):
        words = ["make", "--dry-run", "-o", ".venv/learner", target]
        return subprocess.run(words, cwd=students, capture_output=True, text=True)

    assert "default_url=/lab/tree/notebooks/00_start_here.ipynb" in dry("lab").stdout
    assert ".venv/bin/tfcourse class check" in dry("check").stdout
    whole = subprocess.run(
        ["make", "--dry-run", ".venv/learner"], cwd=students, capture_output=True, text=True
    )
    assert "--editable ." in whole.stdout
    for gone in ("test", "build", "site"):
        assert "No rule to make target" in dry(gone).stderr


def test_its_workflow_is_one(students):
    path = students / ".github/workflows/checks.yml"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = subprocess.run(
        [*command, "vendor.github-workflows", path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    makefile = (students / "Makefile").read_text()
    for target in re.findall(r"make (?:--silent )?([\w./]+)", path.read_text()):
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE)


def test_no_host_of_a_registry_and_no_folder_of_a_machine(students):
    for name in ("README.md", "Makefile", ".github/workflows/checks.yml"):
        assert not re.search(r"https?://|/(?:home|root|tmp)/", (students / name).read_text())


# --- the visible checks ---------------------------------------------------------------------


def handed_in(tmp_path, **answers):
    notebook = Lesson(ROOT / "solutions/00_start_here.py").learners()
    for cell in notebook.cells:
        name = cell.metadata.get("exercise")
        cell.source = answers.get(name, cell.source)
    nbformat.write(notebook, tmp_path / "mine.ipynb")
    return tmp_path / "mine.ipynb"


def test_each_exercise_is_judged_by_itself(tmp_path):
    path = handed_in(
        tmp_path,
        similarities="import os\ndef similarities(query, keys):\n    os._exit(1)",
        cosine_similarities="def cosine_similarities(queries, keys)\n    pass",
    )
    rows = visible.check_notebook(path)
    assert [(name, state) for name, state, _ in rows] == [
        ("similarities", "wrong"),
        ("mean_squared_error", "to do"),
        ("cosine_similarities", "wrong"),
    ]
    assert "ended the process (exit 1)" in rows[0][2]
    assert "Python cannot read this cell" in rows[2][2]


def test_the_table(tmp_path):
    path = handed_in(
        tmp_path, similarities="def similarities(query, keys):\n    return keys @ query"
    )
    lines = visible.table(path).splitlines()
    assert lines[0] == f"{path}:"
    assert lines[1].startswith("similarities         right  Right, in all ")
    assert lines[2].startswith("mean_squared_error   to do  ")
    assert lines[-1] == "1 of 3 exercises are right."


def test_what_is_built_on_an_unsolved_exercise_goes_on_with_ours(tmp_path):
    """As in the notebook, where `check` gives the tested implementation back."""
    lesson = Lesson(ROOT / "solutions/03_positions.py")
    notebook, whole = lesson.learners(), {c.id: c for c in lesson.solved().cells}
    for cell in notebook.cells:
        if cell.metadata.get("exercise") == "score_at_distances":
            cell.source = whole[cell.id].source
    assert "rotate_pairs" in whole["exercise-score_at_distances"].source
    nbformat.write(notebook, tmp_path / "a.ipynb")
    states = {name: state for name, state, _ in visible.check_notebook(tmp_path / "a.ipynb")}
    assert states["rotate_pairs"] == "to do"
    assert states["score_at_distances"] == "right"


def test_a_file_that_is_no_lesson_is_said(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text("{")
    with pytest.raises(NotANotebook, match="no JSON"):
        visible.check_notebook(path)
    nbformat.write(nbformat.v4.new_notebook(), path)
    with pytest.raises(NotANotebook, match="holds no exercise of the course"):
        visible.check_notebook(path)
    by_name = path.rename(tmp_path / "00_start_here (2).ipynb")
    rows = visible.check_notebook(by_name)
    assert {(state, said.startswith("There is no `")) for _, state, said in rows} == {
        ("to do", True)
    }


def test_a_wheel_holds_no_solution_and_no_hidden_case(tmp_path):
    made = tmp_path / "project"
    shutil.copytree(ROOT / "tfcourse", made / "tfcourse", ignore=shutil.ignore_patterns("__py*"))
    shutil.copytree(ROOT / "solutions", made / "solutions")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, made / name)
    build = "import setuptools.build_meta as b, sys; b.build_wheel(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=made,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "wheel")
    assert "tfcourse/classroom/judge.py" in names
    assert not [n for n in names if not n.startswith(("tfcourse/", "tfcourse-"))]
    held = tmp_path / "wheel"
    assert find_leaks(find_lessons(ROOT), held) + hidden_leaks(ROOT, held) == []
