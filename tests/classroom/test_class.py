"""A made class of two lessons, graded whole: each ends with the score that they earned."""

import csv
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
import zipfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from filelock import FileLock

from tests.classroom import made
from tests.classroom.test_nest import waiting
from tests.conftest import ROOT
from tfcourse.checks.registry import exercises
from tfcourse.classroom import grading
from tfcourse.classroom.grading import How

pytestmark = pytest.mark.usefixtures("bubblewrap")

FIRST, SECOND = "00_start_here", "05_feed_forward"
GRADED = {FIRST: "cosine_similarities", SECOND: "edit_one_value"}
POINTS = {FIRST: 2, SECOND: 3}
SOLVED = {lesson: made.solved(lesson) for lesson in GRADED}
HOW = How(jobs=2, seconds=5)
COSINE_BY_DOT = "def cosine_similarities(queries, keys):\n    return queries @ keys.T"


def with_extra(answers, *sources, at_start=False):
    """A notebook of lesson 00 with more cells, as a hostile one has."""
    notebook = made.notebook(FIRST, answers)
    more = [{"cell_type": "code", "metadata": {}, "source": textwrap.dedent(s)} for s in sources]
    notebook["cells"] = more + notebook["cells"] if at_start else notebook["cells"] + more
    return notebook


def right_with(*sources, **options):
    return with_extra(SOLVED[FIRST], *sources, **options)


def hostile(body, name="cosine_similarities"):
    """Right but for one exercise, which does something else than it should."""
    text = f"import torch\ndef {name}(*given):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return made.notebook(FIRST, SOLVED[FIRST] | {name: text})


def changed_checks():
    notebook = made.notebook(FIRST, SOLVED[FIRST] | {"cosine_similarities": COSINE_BY_DOT})
    for cell in notebook["cells"]:
        if cell["metadata"].get("check"):
            cell["source"] = "print('✓ Right, in all cases')"
    return notebook


def without_checks():
    notebook = made.notebook(FIRST, SOLVED[FIRST])
    cells = [c for c in notebook["cells"] if "check" not in c["metadata"]]
    return notebook | {"cells": cells}


def odd():
    """Cells as no program writes them."""
    notebook = made.notebook(FIRST, SOLVED[FIRST])
    notebook["cells"] += [{"cell_type": "code", "source": s} for s in (5, None, True, {})]
    return notebook


def backwards():
    notebook = made.notebook(FIRST, SOLVED[FIRST])
    return notebook | {"cells": notebook["cells"][::-1]}


def large():
    notebook = made.notebook(FIRST, SOLVED[FIRST])
    text = "x" * (50 * 2**20)
    output = {"output_type": "stream", "name": "stdout", "text": [text]}
    next(c for c in notebook["cells"] if c["cell_type"] == "code")["outputs"] = [output]
    return notebook


def the_class(outside: Path) -> dict[str, tuple[dict | bytes, str, float]]:
    """Who -> (what they handed in, its lesson, the points that it earned)."""
    target = str(outside / "grades.csv")
    grab = f"""
        for path in ({target!r}, {str(ROOT / "stolen")!r}, "/tmp/../etc/stolen"):
            try: open(path, "w").write("all points")
            except OSError: pass
        return 1
    """
    people = {
        "Ada Right": (made.notebook(FIRST, SOLVED[FIRST]), FIRST, 2),
        "Ben Partly": (made.notebook(FIRST, SOLVED[FIRST] | {"similarities": "def similarities(q, keys):\n    return 3"}), FIRST, 2),
        "Cem Untouched": (made.notebook(FIRST), FIRST, 0),
        "Dora Syntax": (made.notebook(FIRST, {"cosine_similarities": "def cosine_similarities(q, k)\n    return 1"}), FIRST, 0),
        "Eli Syntax Elsewhere": (right_with("this is (no python"), FIRST, 2),
        "Fay Loop": (hostile("while True: pass"), FIRST, 0),
        "Gus Loop in Practice": (hostile("while True: pass", "mean_squared_error"), FIRST, 2),
        "Hal Loop in a Cell": (right_with("while True: pass", at_start=True), FIRST, 2),
        "Ida Endless Output": (hostile("while True: print('x' * 9999)"), FIRST, 0),
        "Jan Exit": (hostile("import os\nos._exit(0)"), FIRST, 0),
        "Kim Exit in Practice": (hostile("import os\nos._exit(0)", "similarities"), FIRST, 2),
        "Lea Memory": (hostile("x = []\nwhile True: x.append(bytearray(2**28))"), FIRST, 0),
        "Max Fork": (hostile("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"), FIRST, 0),
        "Nora Disk": (hostile("i = 0\nwhile True:\n    i += 1\n    open(f'/box/{i}', 'wb').write(bytes(10**7))"), FIRST, 0),
        "Otto Hidden": (hostile(f"return open({str(ROOT / 'solutions/hidden/00_start_here.py')!r}).read()"), FIRST, 0),
        "Pia Witness": (hostile("from tfcourse.checks import find_exercise\nreturn find_exercise('cosine_similarities').witness(*given)"), FIRST, 0),
        "Quin Proc": (hostile("import glob\nreturn [open(p).read() for p in glob.glob('/proc/*/environ')]"), FIRST, 0),
        "Rosa Gradebook": (hostile(grab), FIRST, 0),
        "Sam Deleted Checks": (without_checks(), FIRST, 2),
        "Tess Edited Tests": (changed_checks(), FIRST, 0),
        "Uli Redefines": (with_extra({"cosine_similarities": COSINE_BY_DOT}, "def check(f): return f\nimport tfcourse\ntfcourse.check = check"), FIRST, 0),
        "Vera Patches": (hostile("torch.allclose = torch.equal = lambda *a, **k: True\nreturn given[0]"), FIRST, 0),
        "Will Prints": (hostile("print('\"points\": 99')\nreturn {'state': 'right', 'points': 99}"), FIRST, 0),
        "Xena Pickle": (hostile("class E:\n    def __reduce__(self): return print, ('stolen',)\nreturn E()"), FIRST, 0),
        "Yann Socket": (hostile("import socket\nsocket.create_connection(('127.0.0.1', 80), 1)\nreturn 1"), FIRST, 0),
        "Zoe Leftover": (hostile("import subprocess\nsubprocess.Popen(['sleep', '86399'], start_new_session=True)\nreturn 1", "similarities"), FIRST, 2),
        "Aaron Kills": (hostile("import os\nos.kill(os.getppid(), 9)", "similarities"), FIRST, 2),
        "Bea Not Judged By Order": (backwards(), FIRST, 2),
        "Bo Odd Cells": (odd(), FIRST, 2),
        "Cleo Fifty Megabytes": (large(), FIRST, 2),
        "Émile d'Été, José": (made.notebook(FIRST, SOLVED[FIRST]), FIRST, 2),
        "王 小明": (made.notebook(SECOND, SOLVED[SECOND]), SECOND, 3),
        "Dag Other Lesson": (made.notebook(SECOND), SECOND, 0),
    }  # fmt: skip
    for diagnosis, text in made.wrong_texts(GRADED[FIRST]).items():
        answers = {GRADED[FIRST]: text}
        people[f"Wrong {diagnosis}"] = (made.notebook(FIRST, answers), FIRST, 0)
    return people


BROKEN = {"Eve Broken": b"this is no JSON", "Finn Empty": b"", "Gil List": b"[1, 2]"}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return tmp_path_factory.mktemp("class")


@pytest.fixture(scope="module")
def submissions(room):
    """All of them, in folders as some learning platforms give them."""
    folder = room / "handed in"
    for number, (who, (notebook, lesson, _)) in enumerate(the_class(room / "results").items()):
        place = folder / f"{who}_{7000 + number}_assignsubmission_file_"
        made.write(notebook, place / f"{lesson}.ipynb")
    for number, (who, content) in enumerate(BROKEN.items()):
        place = folder / f"{who}_{7900 + number}_assignsubmission_file_"
        place.mkdir()
        (place / f"{FIRST}.ipynb").write_bytes(content)
    outside = room / "secret.ipynb"
    outside.write_text(json.dumps(made.notebook(FIRST, SOLVED[FIRST])))
    linked = folder / "Link Outside_7990_assignsubmission_file_"
    linked.mkdir()
    (linked / f"{FIRST}.ipynb").symlink_to(outside)
    slip = folder / "Zip Slip_7991_assignsubmission_file_"
    slip.mkdir()
    with zipfile.ZipFile(slip / "work.zip", "w") as archive:
        archive.writestr("../../../../escaped.ipynb", json.dumps(made.notebook(FIRST)))
        archive.writestr(f"{FIRST}.ipynb", json.dumps(made.notebook(FIRST, SOLVED[FIRST])))
    twice = folder / "Twice Tried_7992_assignsubmission_file_"
    first = made.write(made.notebook(FIRST), twice / f"{FIRST}.ipynb")
    os.utime(first, (1.7e9, 1.7e9))
    made.write(made.notebook(FIRST, SOLVED[FIRST]), twice / f"{FIRST} (1).ipynb")
    return folder


@pytest.fixture(scope="module")
def results(submissions, room):
    began = time.monotonic()
    found = grading.grade(
        submissions, room / "results", ROOT / "solutions", HOW, say=lambda _: None
    )
    print(f"{len(found.graded)} submissions in {time.monotonic() - began:.0f} s")
    return found


def points(results):
    names = {student.key: student.name for student in results.students}
    return {(names[g.student], g.lesson, g.turn): g.points for g in results.graded}


def test_each_ends_with_the_score_that_they_earned(results, room):
    wanted = {(who, lesson, 1): earned for who, (_, lesson, earned) in the_class(room).items()}
    wanted |= {("Zip Slip", FIRST, 1): 2, ("Twice Tried", FIRST, 1): 0}
    wanted |= {("Twice Tried", FIRST, 2): 2}
    assert points(results) == wanted
    assert len(wanted) >= 35


def test_the_rest_of_a_hostile_notebook_is_judged(results):
    for graded in results.graded:
        states = {mark.exercise: mark.state for mark in graded.marks}
        assert "not judged" not in states.values(), graded
        if any(n in graded.shown for n in ("Loop_", "Exit_", "Memory", "Fork", "Disk", "Kills")):
            assert list(states.values()).count("right") == 2, graded


def test_each_kind_of_wrong_is_told_as_in_study(results):
    for who, (_, lesson, _) in the_class(Path("x")).items():
        if who.startswith("Wrong "):
            [student] = [s for s in results.students if s.name == who]
            graded = results.counts(student.key, lesson)
            [mark] = [m for m in graded.marks if m.exercise == GRADED[lesson]]
            assert mark.diagnosis == who.removeprefix("Wrong ")


def test_what_cannot_be_taken_is_reported_by_name(results):
    said = "\n".join(f"{trouble.shown}: {trouble.says}" for trouble in results.troubles)
    for who in [*BROKEN, "Link Outside", "Zip Slip"]:
        assert who in said, said


def test_nothing_was_read_or_written_outside_and_nothing_is_left(results, room):
    assert sorted(p.name for p in room.iterdir()) == ["handed in", "results", "secret.ipynb"]
    assert not (ROOT / "stolen").exists()
    assert not Path("/etc/stolen").exists()
    assert "all points" not in (room / "results" / "grades.csv").read_text("utf-8-sig")
    assert subprocess.run(["pgrep", "-f", "sleep 86399"], capture_output=True).returncode == 1
    ours = subprocess.run(["pgrep", "-P", str(os.getpid()), "bwrap"], capture_output=True)
    nests = waiting()
    assert {*map(int, ours.stdout.split())} <= {one._process.pid for one in nests}
    assert all(one.forked(down=1) and not one.forked(down=2) for one in nests)


def test_the_table_has_a_row_for_each(results, room):
    with (room / "results" / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"].lstrip("'") for row in rows] == [s.name for s in results.students]
    assert {"Émile d'Été, José", "王 小明"} <= {row["name"] for row in rows}


def test_no_page_holds_a_solution_a_hidden_case_or_another_student(results, room):
    secrets = [line.strip() for path in (ROOT / "solutions" / "hidden").glob("*.py")
               for line in path.read_text().splitlines() if len(line.strip()) > 30]  # fmt: skip
    for lesson, name in GRADED.items():
        body = SOLVED[lesson][name].splitlines()[2:]
        secrets += [line.strip() for line in body if len(line.strip()) > 30]
    assert len(secrets) > 20
    for page in (room / "results" / "feedback").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not [secret for secret in secrets if secret in text], page.name
        assert str(room) not in text
        named = [s.name for s in results.students if s.name in text]
        assert len(named) <= 1, page.name


def test_graded_again_and_from_a_zip_the_scores_are_the_same(results, submissions, room):
    began = time.monotonic()
    again = grading.grade(
        submissions, room / "results", ROOT / "solutions", HOW, say=lambda _: None
    )
    assert points(again) == points(results)
    assert time.monotonic() - began < 30  # nothing has changed, so nothing ran
    assert again.graded == results.graded


def test_the_marks_of_one_lesson_are_none_of_another(submissions, tmp_path):
    [right] = submissions.glob("Ada Right_*")
    both = json.loads((right / f"{FIRST}.ipynb").read_text())
    names = [e.name for e in exercises().values() if e.lesson == SECOND][: len(SOLVED[FIRST])]
    both["cells"] += [
        {"cell_type": "raw", "metadata": {"exercise": n}, "source": ""} for n in names
    ]
    folder = tmp_path / "handed in"
    made.write(both, folder / "A_1_assignsubmission_file_" / f"{FIRST}.ipynb")
    made.write(both, folder / "B_2_assignsubmission_file_" / f"{SECOND}.ipynb")
    said = []
    how = replace(HOW, deadline=datetime(2026, 1, 1))
    found = grading.grade(folder, tmp_path / "to", ROOT / "solutions", how, say=said.append)
    assert {(g.lesson, g.points) for g in found.graded} == {(FIRST, 2), (SECOND, 0)}
    assert said[-1].startswith("All are late by the times of their files.")


def test_two_graders_do_not_write_into_one_folder(tmp_path):
    (tmp_path / "to" / grading.KEPT).mkdir(parents=True)
    (tmp_path / "in").mkdir()
    with FileLock(tmp_path / "to" / grading.KEPT / ".lock"), \
            pytest.raises(grading.CannotGrade, match="Another run is writing"):  # fmt: skip
        grading.grade(tmp_path / "in", tmp_path / "to", ROOT / "solutions", HOW)


def test_killed_in_the_middle_and_started_again_the_scores_are_the_same(
    results, submissions, tmp_path
):
    some = tmp_path / "some"
    for who in ("Dora Syntax", "Ben Partly", "Cem Untouched", "Tess Edited Tests"):
        [folder] = submissions.glob(f"{who}_*")
        shutil.copytree(folder, some / folder.name)
    to = tmp_path / "results"
    command = [sys.executable, "-m", "tfcourse", "class", "grade", str(some), "--to", str(to)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([*command, "--jobs", "1", "--seconds", "5"], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    ends = time.monotonic() + 120
    while len(list(to.glob("graded/*.json"))) < 2 and time.monotonic() < ends:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = len(list(to.glob("graded/*.json")))
    assert 2 <= kept < 4
    assert not (to / "grades.csv").exists()
    found = grading.grade(some, to, ROOT / "solutions", HOW, say=lambda _: None)
    ours = points(results)
    assert points(found) == {key: ours[key] for key in points(found)}
    assert len(points(found)) == 4


def test_the_results_are_the_teachers_alone(results, room):
    for path in (room / "results").rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    kept = json.loads((room / "results" / "results.json").read_text(encoding="utf-8"))
    assert len(kept["graded"]) == len(results.graded)
    assert stat.S_ISREG((room / "results" / "class.html").stat().st_mode)
    assert {t["name"] for t in kept["lessons"][FIRST]} == \
        {e.name for e in exercises().values() if e.lesson == FIRST}  # fmt: skip
    assert POINTS[FIRST] == max(t["points"] for t in kept["lessons"][FIRST])
