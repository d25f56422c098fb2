"""`tfcourse build`, tried on a tiny course: what it writes, what it refuses, what it notices."""

import json
import re
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import nbformat
import pytest

from tfcourse.__main__ import main
from tfcourse.authoring import build as building
from tfcourse.authoring.lesson import Lesson, LessonError

SOURCE = '''# %% [markdown]
# # 01 · Tiny
#
# ### Exercise · double

# %%
x = 3

# %% exercise="double" graded=true points=2 difficulty=2 minutes=5
def double(value):
    """Twice the value."""
    ### BEGIN SOLUTION
    twice_the_value = value + value
    return twice_the_value
    ### END SOLUTION


# %% check="double"
print("checked")
### BEGIN HIDDEN TESTS
assert double(21) == 42
### END HIDDEN TESTS

# %% [markdown]
# ### Find the bug · triple

# %% exercise="triple" difficulty=1 minutes=3
def triple(value):
    ### BEGIN SOLUTION
    return 3 * value
    ### END SOLUTION
    ### BEGIN GIVEN
    # if value:
    #     return 2 * value
    ### END GIVEN


# %% check="triple" tags=["nbval-check-output"]
print(triple(x))
'''
TRIPLE = re.search(r"    ### BEGIN SOLUTION\n    return 3.*?### END GIVEN\n", SOURCE, re.DOTALL)[0]


@pytest.fixture
def course(tmp_path, monkeypatch):
    for folder in ("solutions", "notebooks", "tfcourse"):
        (tmp_path / folder).mkdir()
    (tmp_path / "solutions/01_tiny.py").write_text(SOURCE)
    (tmp_path / "tfcourse/other.py").write_text("def other(a):\n    return a\n")
    known = {"double": True, "triple": False}

    def find_exercise(name):
        if name not in known:
            raise ValueError(f"there is no exercise {name!r}")
        return SimpleNamespace(lesson="01_tiny", graded=known[name])

    monkeypatch.setattr(building, "_find_exercise", find_exercise)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def built(course):
    building.build(course, say=lambda *a, **k: None)
    return course


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def cells_of(path):
    return {c["id"]: c for c in json.loads(path.read_text())["cells"]}


def test_the_learners_notebook(built):
    cells = cells_of(built / "notebooks/01_tiny.ipynb")
    double = "".join(cells["exercise-double"]["source"])
    assert double.endswith(
        '"""Twice the value."""\n    raise NotImplementedError  # your code here'
    )
    triple = "".join(cells["exercise-triple"]["source"])
    assert triple == "def triple(value):\n    if value:\n        return 2 * value"
    assert "".join(cells["check-double"]["source"]) == 'print("checked")'
    text = "\n".join("".join(c["source"]) for c in cells.values())
    assert "### Exercise · double ●●○ · 5 min · graded, 2 points" in text
    assert "### Find the bug · triple ●○○ · 3 min" in text
    assert "6\n" in json.dumps(cells).replace("\\n", "\n")  # it was run


def test_the_solved_notebook(built):
    cells = cells_of(built / "build/solved/01_tiny.ipynb")
    text = "\n".join("".join(c["source"]) for c in cells.values())
    assert "return twice_the_value" in text
    assert "assert double(21) == 42" in text
    assert "###" not in re.sub(r"^### (Exercise|Find)", "", text, flags=re.MULTILINE)
    assert "2 * value" not in text.replace("3 * value", "")


def test_building_again_changes_nothing(built):
    first = (built / "notebooks/01_tiny.ipynb").read_text()
    building.build(built, ["01"], say=lambda *a, **k: None)
    assert (built / "notebooks/01_tiny.ipynb").read_text() == first
    assert building.check(built) == []
    assert main(["build", "--check"]) == 0


def test_ids_stay_when_other_cells_come(built):
    before = cells_of(built / "notebooks/01_tiny.ipynb")
    rewrite(built / "solutions/01_tiny.py", "# %%\nx = 3", "# %%\ny = 1\n\n# %%\nx = 3")
    after = [c.id for c in Lesson(built / "solutions/01_tiny.py").learners().cells]
    assert set(before) < set(after)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("solutions/01_tiny.py", "x = 3", "x = 4", "its source has changed"),
        ("solutions/01_tiny.py", "Tiny", "tiny", "its source has changed"),
        ("notebooks/01_tiny.ipynb", "x = 3", "x = 4", "was changed after it was built"),
        ("notebooks/01_tiny.ipynb", "checked\\\\n", "checkeD\\\\n", "was changed after"),
        ("notebooks/01_tiny.ipynb", '"language": "python"', '"language": "Python"', "was changed"),
        ("notebooks/01_tiny.ipynb", ' "cells": [', '  "cells": [', "was changed after"),
        ("notebooks/01_tiny.ipynb", '"cells"', '"cels"', "cannot be read"),
    ],
)
def test_one_changed_character_is_noticed(built, file, old, new, said):
    text = (built / file).read_text()
    old, new = old.replace("\\\\", "\\"), new.replace("\\\\", "\\")
    assert old in text
    (built / file).write_text(text.replace(old, new, 1))
    assert any(said in line for line in building.check(built)), building.check(built)
    assert main(["build", "--check"]) == 1


def test_every_single_character_of_the_source_counts(built):
    path = built / "solutions/01_tiny.py"
    for i in range(0, len(SOURCE), 37):
        path.write_text(SOURCE[:i] + ("~" if SOURCE[i] != "~" else "-") + SOURCE[i + 1 :])
        assert building.check(built), f"character {i}"
    path.write_text(SOURCE)
    assert building.check(built) == []


def test_every_single_character_of_the_notebook_counts(built):
    path = built / "notebooks/01_tiny.ipynb"
    whole = path.read_text()
    for i in range(0, len(whole), 23):
        path.write_text(whole[:i] + ("~" if whole[i] != "~" else "-") + whole[i + 1 :])
        assert building.check(built), f"character {i}"
    for changed in (whole + "\n", whole.rstrip("\n"), whole[: len(whole) // 2], ""):
        path.write_text(changed)
        assert building.check(built)
    path.write_text(whole)
    assert building.check(built) == []


def test_missing_and_orphaned_notebooks(built):
    (built / "notebooks/01_tiny.ipynb").rename(built / "notebooks/02_gone.ipynb")
    said = building.check(built)
    assert any("01_tiny.ipynb: is missing" in line for line in said)
    assert any("02_gone.ipynb: has no source" in line for line in said)


@pytest.mark.parametrize(
    "leak",
    [
        "def helper(value):\n    twice_the_value = value + value\n    return twice_the_value\n",
        "def f(n):\n    '''Doc.'''\n    m = n + n  # renamed\n    return m\n",
        "def g():\n    def inner(a):\n        b = a + a\n        return b\n    return inner\n",
    ],
)
@pytest.mark.parametrize("where", ["package", "notebook"])
def test_a_graded_solution_that_leaks_is_noticed(built, leak, where):
    if where == "package":
        (built / "tfcourse/other.py").write_text(leak)
    else:
        path = built / "notebooks/01_tiny.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.append(nbformat.v4.new_code_cell(leak))
        nbformat.write(notebook, path)
    assert any(
        "holds the solution of the graded exercise double" in x for x in building.check(built)
    )


def test_a_solution_that_a_cell_printed_is_noticed(built):
    """As `inspect.getsource` shows it; text and HTML, whatever stands before it."""
    solution = "def f(value):\n    twice_the_value = value + value\n    return twice_the_value\n"
    for output in (
        nbformat.v4.new_output("stream", text=f"# the answer\n{solution}"),
        nbformat.v4.new_output("display_data", {"text/html": f"<pre># so\n{solution}</pre>"}),
    ):
        path = built / "notebooks/01_tiny.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells[1].outputs = [output]
        nbformat.write(notebook, path)
        assert any("holds the solution of the graded" in x for x in building.check(built))


def test_a_marker_in_a_notebook_is_noticed(built):
    rewrite(built / "notebooks/01_tiny.ipynb", "x = 3", "### BEGIN SOLUTION")
    assert any("a solution marker" in line for line in building.check(built))


def test_practice_solutions_are_no_leak(built):
    (built / "tfcourse/other.py").write_text("def triple(value):\n    return 3 * value\n")
    assert building.check(built) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("x = 3", "x = 1 / 0", "ZeroDivisionError"),
        ("x = 3", "x = 3; import sys; print('!', file=sys.stderr)", "writes to stderr"),
        ("x = 3", "x = 3; import warnings; warnings.warn('careful')", "writes to stderr"),
        ("x = 3", "x = 3; print(object())", "differs from machine to machine"),
        ("x = 3", "x = 3; import os; print(os.path.abspath('.'))", "differs from machine"),
        ('check="double"', 'check="duoble"', 'no cell with exercise="duoble"'),
        (" difficulty=2 minutes=5", "", "add difficulty="),
        ("graded=true points=2 ", "", "graded=True"),
        ("x = 3", "x = 3" + "\nx += 1" * 50, "longer than a screen"),
        ("### END SOLUTION\n\n\n# %% check", "\n# %% check", "a ### BEGIN without its ### END"),
        ("    ### BEGIN GIVEN\n", "", "a ### BEGIN without its ### END"),
        (TRIPLE, "    return 3 * value\n", "no ### BEGIN SOLUTION"),
        ('exercise="triple"', 'exercise="double"', 'two cells with exercise="double"'),
        ('# %% check="double"', "# %%", 'no cell with check="double"'),
        (" points=2", "", "add points="),
        ("x = 3", "x = 3; import os; os._exit(1)", "the kernel died in a cell.\nx = 3; import os"),
    ],
)
def test_what_build_refuses(course, old, new, said):
    rewrite(course / "solutions/01_tiny.py", old, new)
    with pytest.raises(LessonError, match=re.escape(said)):
        building.build(course, say=lambda *a, **k: None)


def test_an_exercise_without_cases(course):
    path = course / "solutions/01_tiny.py"
    path.write_text(path.read_text().replace('="triple"', '="tripel"'))
    with pytest.raises(LessonError, match=r"exercise tripel: there is no exercise 'tripel'"):
        building.build(course, say=lambda *a, **k: None)


def test_a_cell_that_never_ends(course, monkeypatch):
    monkeypatch.setattr(building, "SECONDS", 2)
    rewrite(course / "solutions/01_tiny.py", "x = 3", "x = 3\nwhile x:\n    pass")
    with pytest.raises(LessonError, match=r"over 2 s\.\nx = 3\nwhile x:"):
        building.build(course, say=lambda *a, **k: None)


def test_a_lesson_runs_offline(course):
    """Even a server that does answer, here on this machine, is not reached."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        fetch = (
            f"from urllib.request import urlopen; urlopen('http://127.0.0.1:{server.server_port}')"
        )
        rewrite(course / "solutions/01_tiny.py", "x = 3", f"x = 3; {fetch}")
        with pytest.raises(LessonError, match="Connection refused"):
            building.build(course, say=lambda *a, **k: None)
        server.shutdown()


def test_one_lesson_is_built_and_the_others_are_left_alone(built, monkeypatch):
    other = SOURCE.replace("double", "quadruple").replace("triple", "quintuple")
    (built / "solutions/02_more.py").write_text(other)
    found = {"quadruple": True, "quintuple": False}
    monkeypatch.setattr(
        building, "_find_exercise", lambda n: SimpleNamespace(lesson="02_more", graded=found[n])
    )
    before = {p: (p.read_text(), p.stat().st_mtime_ns) for p in built.glob("*/**/01_tiny.*")}
    building.build(built, ["02"], say=lambda *a, **k: None)
    assert (built / "notebooks/02_more.ipynb").is_file()
    assert {p: (p.read_text(), p.stat().st_mtime_ns) for p in before} == before


def test_cells_for_the_solved_notebook_alone(course):
    path = course / "solutions/01_tiny.py"
    rewrite(path, "# %%\nx = 3", '# %% tags=["solution-only"]\nx = 3')
    lesson = Lesson(path)
    assert "x = 3" in [c.source for c in lesson.solved().cells]
    assert "x = 3" not in [c.source for c in lesson.learners().cells]


def test_a_glossary_is_built_beside_the_lessons_and_is_none(built):
    source, target = built / "solutions/glossary.md", built / "notebooks/glossary.ipynb"
    source.write_text("# Glossary\n\n## KV cache\n\nKeys.\n\n## MLP\n\nTwo matrices.\n")
    assert any("glossary.ipynb: is missing" in line for line in building.check(built))
    building.build(built, ["glossary"], say=lambda *a, **k: None)
    assert building.check(built) == []
    assert list(cells_of(target)) == ["Glossary", "KV-cache", "MLP"]
    assert [lesson.name for lesson in building.find_lessons(built)] == ["01_tiny"]
    first = target.read_text()
    building.build(built, say=lambda *a, **k: None)
    assert target.read_text() == first
    rewrite(source, "Two matrices", "Three matrices")
    assert any("Run: tfcourse build glossary" in line for line in building.check(built))


def test_unknown_names_are_explained(course, capsys):
    assert main(["build", "07"]) == 1
    assert "there is no lesson '07' in solutions/. There are: 01_tiny" in capsys.readouterr().err


def test_live_html_goes_where_there_is_a_picture():
    data = {"text/html": "<script>", "image/png": "…", "text/plain": "A map."}
    output = nbformat.v4.new_output("display_data", data)
    only_html = nbformat.v4.new_output("display_data", {"text/html": "<p>", "text/plain": "p"})
    parts = [nbformat.v4.new_output("stream", name="stdout", text=t) for t in ("a\n", "b\n")]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("x", outputs=[output, only_html, *parts])]
    )
    building.clean(notebook, "x", [])
    shown, html, stream = notebook.cells[0].outputs
    assert set(shown.data) == {"image/png", "text/plain"}
    assert set(html.data) == {"text/html", "text/plain"}
    assert stream.text == "a\nb\n"
