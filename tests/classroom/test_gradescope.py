"""The autograder.zip as Gradescope's harness unpacks, sets up and runs it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat
import pytest

from tests.conftest import ROOT
from tfcourse.authoring.lesson import Lesson
from tfcourse.classroom import gradescope, sandbox
from tfcourse.classroom.gradescope import NoAutograder, run, write_autograder
from tfcourse.classroom.records import Graded, Mark

LESSON = "00_start_here"
GRADED = "cosine_similarities"
# What their documentation names; `score` may be left out, and is not.
WHOLE = {"score", "output", "output_format", "visibility", "stdout_visibility", "tests"}
LINE = {"name", "score", "max_score", "status", "output", "output_format", "visibility"}
bash = pytest.mark.skipif(sys.platform == "win32", reason="Gradescope's machines run Linux")


def submission(solved=()):
    """The learner's notebook with some exercises solved."""
    lesson = Lesson(ROOT / "solutions" / f"{LESSON}.py")
    notebook, whole = lesson.learners(), {c.id: c for c in lesson.solved().cells}
    for cell in notebook.cells:
        if cell.metadata.get("exercise") in solved:
            cell.source = whole[cell.id].source
    return notebook


def made(**marks):
    return Graded("", LESSON, f"{LESSON}.ipynb", tuple(Mark(*mark) for mark in marks.values()))


@pytest.fixture(scope="module")
def zipped(tmp_path_factory):
    to = tmp_path_factory.mktemp("zip") / "autograder.zip"
    said = write_autograder(ROOT, "00", to)
    assert str(to) in said[0]
    return to


@pytest.fixture
def harness(zipped, tmp_path):
    """Their folders, with a Python in venv/ that has what setup.sh installs."""
    root = tmp_path / "autograder"
    with zipfile.ZipFile(zipped) as given:
        for about in given.infolist():
            path = Path(given.extract(about, root / "source"))
            path.chmod(about.external_attr >> 16)
    shutil.copy2(root / "source" / "run_autograder", root / "run_autograder")
    (root / "submission").mkdir()
    (root / "results").mkdir()
    python(root, f'PYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"')
    return root


def python(root, does):
    path = root / "venv" / "bin" / "python"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{does}\n")
    path.chmod(0o755)


def hand_in(root, notebook, name=f"{LESSON}.ipynb"):
    (root / "submission" / name).parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, root / "submission" / name)


def graded_by_them(root):
    """What the harness reads after it has run `run_autograder`."""
    done = subprocess.run(
        [root / "run_autograder"],
        cwd=root,
        env=os.environ | {"AUTOGRADER_ROOT": str(root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((root / "results" / "results.json").read_text(encoding="utf-8")), done.stdout


def test_what_is_in_the_zip(zipped):
    with zipfile.ZipFile(zipped) as given:
        files = {x.filename: x for x in given.infolist()}
        texts = {name: given.read(name).decode() for name in files}
    for name in ("setup.sh", "run_autograder"):
        assert files[name].external_attr >> 16 == 0o755
        assert texts[name].startswith("#!/usr/bin/env bash\n")
        assert not re.search(r"https?://|\bindex-url\s*=", texts[name])
    assert {"pyproject.toml", "requirements.lock", "tfcourse/classroom/judge.py"} <= set(files)
    assert "tfcourse/widgets/view.py" in files
    assert [name for name in files if name.startswith("solutions/")] == [
        f"solutions/{LESSON}.py",
        f"solutions/hidden/{LESSON}.py",
    ]
    assert not [name for name in files if "__pycache__" in name or name.startswith("tests/")]
    solution = Lesson(ROOT / "solutions" / f"{LESSON}.py").solutions()[GRADED]
    telling = [line.strip() for line in solution.splitlines() if len(line.strip()) > 24]
    assert telling
    assert not [n for n, text in texts.items() for line in telling if line in text]


def test_the_same_bytes_each_time(zipped, tmp_path):
    again = tmp_path / "there" / "again.zip"
    write_autograder(ROOT, LESSON, again)
    assert again.read_bytes() == zipped.read_bytes()
    write_autograder(ROOT, "01", again)  # the one that is there is replaced
    assert zipfile.ZipFile(again).testzip() is None
    assert again.read_bytes() != zipped.read_bytes()
    assert os.listdir(again.parent) == ["again.zip"]


def test_what_cannot_be_written_is_said(tmp_path):
    root = tmp_path / "root"
    (root / "solutions").mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / f"{LESSON}.py", root / "solutions")
    with pytest.raises(NoAutograder, match=r"hidden cases of 00_start_here should be in .*hidden"):
        write_autograder(root, "00", tmp_path / "a.zip")
    (tmp_path / "file").write_text("")
    with pytest.raises(NoAutograder, match="could not be written"):
        write_autograder(ROOT, "00", tmp_path / "file" / "a.zip")


@bash
@pytest.mark.parametrize("old", [False, True])
def test_setup_installs_the_package_as_it_is_pinned(harness, tmp_path, old):
    """With an apt-get and a python3 that write down how they were called."""
    with_index = tmp_path / "b.zip"
    write_autograder(ROOT, "00", with_index, torch_index="the index's address")
    with zipfile.ZipFile(with_index) as given:
        (harness / "source" / "setup.sh").write_bytes(given.read("setup.sh"))
    stubs, log = tmp_path / "stubs", tmp_path / "log"
    stubs.mkdir()
    note = f'#!/bin/bash\necho "$(basename "$0")" "$@" >> "{log}"\n'
    venv = f'[ "$2" = venv ] && cp "{stubs}/pip" "$3/bin/python"\nexit 0\n'
    asked = f'[ "$1" = -c ] && exit {int(old)}\n'
    stub = {"apt-get": "", "pip": "", "python3": asked + venv, "python3.11": venv}
    for name, does in stub.items():
        (stubs / name).write_text(note + does)
        (stubs / name).chmod(0o755)
    subprocess.run(
        ["bash", harness / "source" / "setup.sh"],
        env={"PATH": f"{stubs}:/usr/bin:/bin", "AUTOGRADER_ROOT": str(harness)},
        check=True,
        capture_output=True,
    )
    said = log.read_text().splitlines()
    assert re.search(r"apt-get install .*bubblewrap .*python3-venv", "\n".join(said))
    assert f"{'python3.11' if old else 'python3'} -m venv {harness}/venv" in said
    assert said[-1].startswith("python -m pip install ")
    assert "--extra-index-url the index's address" in said[-1]
    assert said[-1].endswith(f"-c {harness}/source/requirements.lock {harness}/source")
    hidden = harness / "source" / "solutions" / "hidden" / f"{LESSON}.py"
    assert hidden.stat().st_mode & 0o077 == 0
    assert (harness / "source").stat().st_mode & 0o077 == 0


def test_a_line_an_exercise(tmp_path):
    (tmp_path / "submission").mkdir()
    hand_in(tmp_path, submission())
    seen = []

    def grade(path, lesson):
        seen.append((path.name, lesson))
        return made(
            one=("similarities", "to do", "to do", "To do."),
            two=(GRADED, "right", "right", "Right, in all 9 cases.", 2.0, 2.0),
            three=("other", "wrong", "raised", "<b>Not</b> yet.", 0.0, 3.0),
        )

    found = run(tmp_path, LESSON, grade)
    assert found == json.loads((tmp_path / "results/results.json").read_text(encoding="utf-8"))
    assert seen == [(f"{LESSON}.ipynb", LESSON)]
    assert set(found) == WHOLE
    assert all(set(line) == LINE for line in found["tests"])
    assert found["score"] == 2.0 == sum(line["score"] for line in found["tests"])
    assert found["output"] == "1 of 3 exercises are right."
    shown = [(x["name"], x["score"], x["max_score"], x["status"]) for x in found["tests"]]
    assert shown == [
        ("similarities (practice)", 0.0, 0.0, "failed"),
        (GRADED, 2.0, 2.0, "passed"),
        ("other", 0.0, 3.0, "failed"),
    ]
    assert found["tests"][2]["output"] == "<b>Not</b> yet."
    assert found["tests"][2]["output_format"] == "text"
    assert found["stdout_visibility"] == "hidden"


def test_what_the_teacher_should_look_at_is_not_for_students(tmp_path, capsys):
    (tmp_path / "submission").mkdir()
    hand_in(tmp_path, submission())
    mark = Mark(GRADED, "not judged", "fell", "This could not be judged.", 0, 2, look="A secret.")
    found = run(tmp_path, LESSON, lambda *_: Graded("", LESSON, "", (mark,)))
    assert f"{GRADED}: A secret." in capsys.readouterr().out
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "There is no notebook in what you handed in: 00_start_here.ipynb."),
        (["a.ipynb", "b/c.ipynb"], "There are several: a.ipynb, b/c.ipynb."),
        ([f"{LESSON}.ipynb", f"b/{LESSON} (2).ipynb"], "There are several"),
        (["mine.ipynb", ".ipynb_checkpoints/a.ipynb", "__MACOSX/._mine.ipynb"], ""),
        (["notes.ipynb", f"deep/{LESSON}-copy.ipynb"], ""),
    ],
)
def test_which_notebook_was_handed_in(tmp_path, names, said):
    (tmp_path / "submission").mkdir()
    for name in names:
        hand_in(tmp_path, submission(), name)
    found = run(tmp_path, LESSON, lambda path, _: Graded("", LESSON, path.name, ()))
    assert said in found["output"] if said else found["output"] == "0 of 0 exercises are right."
    assert set(found) == WHOLE


def test_a_link_out_of_the_submission_is_not_followed(tmp_path):
    (tmp_path / "submission").mkdir()
    hand_in(tmp_path, submission(), "../outside.ipynb")
    try:
        (tmp_path / "submission" / f"{LESSON}.ipynb").symlink_to(tmp_path / "outside.ipynb")
    except OSError:
        pytest.skip("this system makes no links for this user")
    assert "There is no notebook" in run(tmp_path, LESSON, lambda *_: made())["output"]


def test_any_failure_is_told_and_shows_nothing(tmp_path, capsys):
    (tmp_path / "submission").mkdir()
    hand_in(tmp_path, submission())

    def fall(path, lesson):
        raise KeyError("a hidden case")

    found = run(tmp_path, LESSON, fall)
    assert (found["score"], found["tests"], found["output"]) == (0.0, [], gradescope.FELL)
    assert "KeyError: 'a hidden case'" in capsys.readouterr().out


def test_answers_run_as_another_user_where_there_are_no_walls(monkeypatch, capsys):
    def no_walls():
        raise sandbox.NoSandbox("no namespaces here.")

    monkeypatch.setattr(sandbox, "check", no_walls)
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    assert gradescope._walls() == sandbox.ANOTHER_USER
    assert "without a sandbox. no namespaces here." in capsys.readouterr().out
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    with pytest.raises(sandbox.NoSandbox):
        gradescope._walls()


@pytest.mark.usefixtures("bubblewrap")
def test_their_harness_from_the_zip_to_the_results(harness):
    hand_in(harness, submission([GRADED, "similarities"]))
    found, printed = graded_by_them(harness)
    lines = {line["name"]: line for line in found["tests"]}
    assert found["score"] == 2.0
    assert lines[GRADED]["score"] == lines[GRADED]["max_score"] == 2.0, printed
    assert lines["similarities (practice)"]["status"] == "passed"
    assert lines["mean_squared_error (practice)"]["status"] == "failed"
    assert len(lines) == 3
    # Another student, in the same image.
    (harness / "submission" / f"{LESSON}.ipynb").write_text("{")
    found, _ = graded_by_them(harness)
    assert (found["score"], found["tests"]) == (0.0, [])
    assert "no JSON can be read" in found["output"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
def test_without_bubblewrap_an_answer_cannot_read_the_grader(harness):
    with tempfile.TemporaryDirectory() as folder:  # unlike pytest's, one that others may enter
        root = shutil.move(harness, Path(folder) / "autograder")
        for path in (Path(folder), root):
            path.chmod(0o755)
        (root / "none").mkdir()
        python(root, f'PATH="{root}/none" PYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"')
        hidden, seen = f"{root}/source/solutions/hidden", f"{root}/run_autograder"
        notebook = submission([GRADED])
        [cell] = [c for c in notebook.cells if c.metadata.get("exercise") == "similarities"]
        cell.source = (
            "import os\ndef similarities(query, keys):\n"
            f"    tried = [{seen!r}, {hidden!r}, '{root}/submission', '{root}/results']\n"
            "    raise ValueError([os.getuid() > 0, *(os.access(x, os.R_OK) for x in tried)])"
        )
        hand_in(root, notebook)
        found, printed = graded_by_them(root)
    assert "run as another user" in printed
    assert found["score"] == 2.0
    assert "[True, True, False, False, False]" in found["tests"][0]["output"]


@bash
@pytest.mark.parametrize("does", ["exit 3", "kill -9 $$", "echo '{' > /dev/null; exit 0"])
def test_a_grader_that_dies_leaves_results_all_the_same(harness, does):
    python(harness, does)
    (harness / "results" / "results.json").write_text('{"score": 99}')  # of another run
    found, printed = graded_by_them(harness)
    assert set(found) == WHOLE
    assert (found["score"], found["output"]) == (0.0, gradescope.FELL)
    assert "without results" in printed
