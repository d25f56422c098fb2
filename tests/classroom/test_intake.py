"""What a class hands in, in every form: whose, of which lesson, when, which try."""

import io
import json
import os
import stat
import struct
import subprocess
import sys
import unicodedata
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcourse.classroom import cells, handed_in
from tfcourse.classroom.columns import LONGEST_KEY, Who, keys, plain
from tfcourse.classroom.intake import read_roster, take

LESSONS = {
    "01_attention": ["scores", "mix"],
    "02_multi_head_attention": ["split", "merge", "heads"],
    "04_norms": ["layer_norm"],
}


def nb(*sources, words="", metadata=()):
    """The bytes of a notebook with these cells; `words` makes it differ from others."""
    made = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    made += [{"cell_type": "code", "metadata": {"exercise": x}, "source": ""} for x in metadata]
    made.append({"cell_type": "markdown", "metadata": {}, "source": words})
    return json.dumps({"cells": made, "nbformat": 4, "nbformat_minor": 5}).encode()


ONE = nb("def scores(q, k):\n    return 1", words="one")
TWO = nb("def split(x):\n    return x", "def heads(x):\n    pass", words="two")
NONE = nb("x = 1", words="none")


def put(folder, files, when=None):
    """Write files into a folder; text is written as it is, a time is set where one is given."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if when:
            os.utime(path, (when.timestamp(), when.timestamp()))
    return folder


def zipped(files, when=(2026, 11, 1, 10, 0, 0), packed=zipfile.ZIP_DEFLATED):
    """The bytes of a zip; a name may be a ZipInfo, a content (content, time)."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            content, time = content if isinstance(content, tuple) else (content, when)
            info = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name, time)
            archive.writestr(info, content, packed)
    return target.getvalue()


@pytest.fixture
def taken(tmp_path):
    """Take a folder of these files, or a zip of them as bytes."""
    made = iter(range(100))

    def run(files, *, name="class", lessons=LESSONS, **more):
        into = tmp_path / f"into{next(made)}"
        into.mkdir()
        if isinstance(files, Path):
            place = files
        elif isinstance(files, bytes):
            place = put(tmp_path, {f"{name}.zip": files}) / f"{name}.zip"
        else:
            place = put(tmp_path / f"given{next(made)}" / name, files)
        before = {path for path in tmp_path.rglob("*") if into not in path.parents}
        found = take(place, into, lessons, **more)
        after = {path for path in tmp_path.rglob("*") if into not in path.parents}
        assert before == after  # nothing is written anywhere else
        for one in found.submissions:
            assert one.path.is_file()
            assert not one.path.is_symlink()
        sound = [student.key for student in found.students]
        assert len(set(sound)) == len(sound)
        return found

    return run


def told(found):
    """(name, lesson, turn) of each submission."""
    names = {student.key: student.name for student in found.students}
    return [(names[s.student], s.lesson, s.turn) for s in found.submissions]


def names(found):
    return [student.name for student in found.students]


# ------------------------------------------------------------------------------------ the forms


MOODLE = {
    "Ana López_1234567_assignsubmission_file/01_attention.ipynb": ONE,
    "Bo Li_1234568_assignsubmission_file_/work.ipynb": TWO,
    "Bo Li_1234568_assignsubmission_onlinetext/onlinetext.html": b"<p>hello</p>",
}
MOODLE_FLAT = {
    "Ana López_1234567_assignsubmission_file_my_work.ipynb": ONE,
    "Bo Li_1234568_assignsubmission_file_02.ipynb": TWO,
    "Bo Li_1234568_assignsubmission_onlinetext_onlinetext.html": b"<p>hello</p>",
}
FOLDERS = {"Ana López/01_attention.ipynb": ONE, "Bo Li/notebooks/02.ipynb": TWO}
FILES = {"Ana López.ipynb": ONE, "bo_li_02_multi_head_attention.ipynb": TWO}


@pytest.mark.parametrize("files", [MOODLE, MOODLE_FLAT, FOLDERS, FILES])
@pytest.mark.parametrize("form", ["folder", "zip", "wrapped folder", "wrapped zip"])
def test_every_form_of_two_students(taken, files, form):
    if "wrapped" in form:
        files = {f"exported/{name}": content for name, content in files.items()}
    found = taken(zipped(files) if "zip" in form else files)
    assert [(name.title(), *rest) for name, *rest in told(found)] == [
        ("Ana López", "01_attention", 1),
        ("Bo Li", "02_multi_head_attention", 1),
    ]
    assert found.troubles == ()
    assert all(s.when for s in found.submissions)


def test_results_of_an_earlier_run_are_nobodys(taken):
    results = {"results/graded/.lock": b"", "results/class.html": b"", "results/x.ipynb": ONE}
    found = taken(FOLDERS | results)
    assert names(found) == ["Ana López", "Bo Li"]
    assert found.troubles == ()


def test_moodle_keeps_two_of_one_name_apart_and_hides_nobody(taken):
    files = {
        "Ana López_11_assignsubmission_file/a.ipynb": ONE,
        "Ana López_12_assignsubmission_file/a.ipynb": TWO,
        "Participant_13_assignsubmission_file/a.ipynb": ONE,
        "Participant_14_assignsubmission_file_b.ipynb": ONE,
    }
    found = taken(files)
    assert names(found) == ["Ana López", "Ana López", "Participant 13", "Participant 14"]
    assert len(found.submissions) == 4
    assert found.students[0].known == {"Identifier": "Participant 11"}


def test_two_exports_of_moodle_in_one_folder_are_one_class(taken):
    """The number of a student is another one in each task."""
    found = taken(
        {
            "one.zip": zipped({"Ana_11_assignsubmission_file/a.ipynb": ONE}),
            "two.zip": zipped({"Ana_99_assignsubmission_file/a.ipynb": TWO}),
        }
    )
    assert told(found) == [("Ana", "01_attention", 1), ("Ana", "02_multi_head_attention", 1)]


def test_canvas(taken):
    files = {
        "lopezana_12345_67890_01_attention.ipynb": (nb("def mix(): 1"), (2026, 11, 1, 9, 0, 0)),
        "lopezana_LATE_12345_67899_01_attention-1.ipynb": (ONE, (2026, 11, 2, 9, 0, 0)),
        "ōmiya_12346_67891_work_12_345_x.ipynb": TWO,
        "_12347_67892_work.ipynb": TWO,
        "anon_aB3x_67893_work.ipynb": ONE,
        "wordsonly_12348_text.html": b"<p>my answer</p>",
        "smithbob_12349_67894_all.zip": zipped({"notebooks/x.ipynb": ONE, "glossary.ipynb": NONE}),
    }
    found = taken(zipped(files))
    assert sorted(told(found)) == [
        ("12347", "02_multi_head_attention", 1),
        ("anon aB3x", "01_attention", 1),
        ("lopezana", "01_attention", 1),
        ("lopezana", "01_attention", 2),
        ("smithbob", "01_attention", 1),
        ("ōmiya", "02_multi_head_attention", 1),
    ]
    by_key = {s.student: s for s in found.submissions if s.student.startswith("lopezana")}
    assert by_key["lopezana-12345"].late  # the second one
    assert [s.late for s in found.submissions if s.student == "lopezana-12345"] == [False, True]
    assert [t.says for t in found.troubles] == [
        "No notebook was handed in, but wordsonly_12348_text.html. A notebook's name ends in "
        ".ipynb."
    ]
    assert {"ID": "12345"} in [student.known for student in found.students]


def test_canvas_marks_a_second_try_of_the_same_moment(taken):
    files = {
        f"lopezana_12345_6789{i}_01{mark}.ipynb": nb("def mix(): 1", words=mark)
        for i, mark in enumerate(["-10", "-2", "", "-1"])
    }
    found = taken(zipped(files))
    ends = [s.shown.removesuffix(".ipynb").rsplit("_", 1)[1] for s in found.submissions]
    assert ends == ["01", "01-1", "01-2", "01-10"]
    assert [s.turn for s in found.submissions] == [1, 2, 3, 4]


GRADESCOPE = """---
submission_1:
  :submitters:
  - :name: Ada Lovelace
    :sid: '0123'
    :email: ada@uni.edu
  :created_at: 2026-11-01 10:00:00.123456789 Z
  :score: 1.0
  :results:
    :output: |-
      :created_at: 2020-01-01 00:00:00 Z
      submission_2:
        :submitters:
        - :name: Mallory
  :history:
  - :id: 7
    :created_at: 2019-01-01 00:00:00 Z
submission_2:
  :submitters:
  - :name: "Jos\\xE9 \\u0141 \\U0001F600"
    :sid:
    :email: jose@uni.edu
  - :name: 'O''Brien, Pat'
    :sid: 77
    :email:
  :created_at: 2026-11-03 10:00:00 +02:00
"""


def test_gradescope(taken):
    files = {
        "assignment_1_export/submission_metadata.yml": GRADESCOPE.encode(),
        "assignment_1_export/submission_1/01_attention.ipynb": ONE,
        "assignment_1_export/submission_2/sub/x.ipynb": TWO,
        "assignment_1_export/submission_3/x.ipynb": TWO,
    }
    for given_files in (files, zipped(files)):
        found = taken(given_files, deadline=datetime(2026, 11, 2, tzinfo=UTC))
        assert told(found) == [
            ("Ada Lovelace", "01_attention", 1),
            ("José Ł 😀", "02_multi_head_attention", 1),
            ("O'Brien, Pat", "02_multi_head_attention", 1),
            ("submission 3", "02_multi_head_attention", 1),
        ]
        assert found.students[0].known == {"SID": "0123", "Email": "ada@uni.edu"}
        assert found.students[0].key == "ada-lovelace-0123"
        when = [datetime.fromisoformat(s.when) for s in found.submissions[:3]]
        assert when[0] == datetime(2026, 11, 1, 10, tzinfo=UTC)
        assert when[1] == when[2] == datetime(2026, 11, 3, 8, tzinfo=UTC)
        assert [s.late for s in found.submissions[:3]] == [False, True, True]
        assert found.troubles == ()


@pytest.mark.parametrize(
    "metadata", ["", "{}", "- a\n- b", "\0\xff", "submission_1:\n  :submitters"]
)
def test_gradescope_without_sound_metadata_loses_nobody(taken, metadata):
    found = taken({"submission_metadata.yml": metadata, "submission_1/x.ipynb": ONE})
    assert told(found) == [("submission 1", "01_attention", 1)]


def test_repositories(taken):
    git = {".git/HEAD": b"ref", ".git/hooks/x.ipynb": ONE}
    files = {"README.md": b"", "tests/t.py": b"", "notebooks/01_attention.ipynb": ONE}
    files |= {"notebooks/glossary.ipynb": NONE, "notebooks/00_start_here.ipynb": NONE, **git}
    whole = {f"week-1-{who}/{name}": x for who in ("ana-l", "bo") for name, x in files.items()}
    for form in (whole, zipped(whole), {f"all/{name}": x for name, x in whole.items()}):
        found = taken(form)
        assert told(found) == [("ana-l", "01_attention", 1), ("bo", "01_attention", 1)]
        assert found.troubles == ()


def test_one_student_alone(taken, tmp_path):
    found = taken({"01_attention.ipynb": ONE, "02_multi_head_attention.ipynb": TWO}, name="ana_l")
    assert told(found) == [("ana l", "01_attention", 1), ("ana l", "02_multi_head_attention", 1)]
    found = taken({"notebooks/work.ipynb": ONE, "notes.txt": b""}, name="ana_l")
    assert told(found) == [("ana l", "01_attention", 1)]
    found = taken(zipped({"01_attention.ipynb": ONE}), name="Ana L")
    assert told(found) == [("Ana L", "01_attention", 1)]
    for name, who in (("ana_l.ipynb", "ana l"), ("bo_12_assignsubmission_file_x.ipynb", "bo")):
        found = taken(put(tmp_path, {name: ONE}) / name)
        assert told(found) == [(who, "01_attention", 1)]


def test_a_zip_for_each_student(taken):
    whole = {
        "ana.zip": zipped({"work/notebooks/x.ipynb": ONE}),
        "ana (1).zip": zipped({"x.ipynb": nb("def mix(): 2")}),
        "Bo Li.zip": zipped({"x.ipynb": TWO}),
        "cy/y.ipynb": ONE,
    }
    for form in (whole, zipped(whole)):
        found = taken(form)
        assert told(found) == [
            ("ana", "01_attention", 1),
            ("ana", "01_attention", 2),
            ("Bo Li", "02_multi_head_attention", 1),
            ("cy", "01_attention", 1),
        ]


def test_a_third_zip_inside_is_not_opened(taken):
    deep = zipped({"ana.zip": zipped({"more.zip": zipped({"x.ipynb": ONE})})})
    found = taken(deep)
    assert found.submissions == ()
    assert "is not opened" in found.troubles[0].says
    assert "more.zip" in found.troubles[0].shown


def test_a_folder_for_each_lesson(taken):
    found = taken({"01_attention/ana.ipynb": ONE, "02_multi_head_attention/ana.ipynb": TWO})
    assert told(found) == [("ana", "01_attention", 1), ("ana", "02_multi_head_attention", 1)]
    found = taken({"ana/01_attention/01_attention.ipynb": ONE, "bo/01_attention/x.ipynb": ONE})
    assert told(found) == [("ana", "01_attention", 1), ("bo", "01_attention", 1)]


def test_what_is_passed_over(taken):
    found = taken(
        {
            "ana/x.ipynb": ONE,
            "ana/.ipynb_checkpoints/x-checkpoint.ipynb": TWO,
            "ana/.hidden.ipynb": TWO,
            "ana/notes.pdf": b"%PDF",
            "__MACOSX/ana/._x.ipynb": b"\0",
            "bo/x.ipynb": ONE,
            "README.md": b"",
        }
    )
    assert told(found) == [("ana", "01_attention", 1), ("bo", "01_attention", 1)]
    assert found.troubles == ()


def test_other_files_and_nothing_are_named(taken):
    found = taken(
        {"ana/answer.py": b"", "ana/notes.pdf": b"", "bo/x.ipynb": ONE, "cy/.keep": b""},
    )
    assert names(found) == ["ana", "bo", "cy"]
    assert [(t.student, t.says) for t in found.troubles] == [
        ("ana", "No notebook was handed in, but answer.py, notes.pdf. A notebook's name ends in "
         ".ipynb."),
        ("cy", "Nothing is in it: a notebook was expected."),
    ]  # fmt: skip
    found = taken({"ana.ipynb": ONE, "bo.docx": b"", "notes.txt": b""})
    assert [t.shown for t in found.troubles] == ["bo.docx"]
    assert [t.shown for t in taken({"ana/x.pdf": b""}).troubles] == ["ana"]
    assert "Nothing" in taken({"x.txt": b""}).troubles[0].says


def test_what_is_no_folder_and_no_zip_is_said(tmp_path):
    put(tmp_path, {"x.rar": b""})
    for name in ("x.rar", "nowhere"):
        with pytest.raises(ValueError, match="Give the folder or the zip"):
            take(tmp_path / name, tmp_path, LESSONS)


# ---------------------------------------------------------------------------- which lesson, when


@pytest.mark.parametrize(
    ("name", "content", "lesson"),
    [
        ("x", nb("def heads(): 1\ndef scores(): 1", metadata=["scores"]), "01_attention"),
        ("x", nb("def heads(): 1", metadata=["unknown"]), "02_multi_head_attention"),
        ("x", nb("def scores(): 1", "def heads(): 1\ndef merge(): 1"), "02_multi_head_attention"),
        ("04_norms", nb("def scores(): 1\nclass layer_norm: pass"), "04_norms"),
        ("Copy of 04_norms (2)", NONE, "04_norms"),
        ("my multi-head attention", NONE, "02_multi_head_attention"),
        ("x", nb(["def sco", "res(q):\n"]), "01_attention"),
        ("x", nb("  async def mix(): 1"), "01_attention"),
    ],
)
def test_a_lesson_is_recognised(taken, name, content, lesson):
    found = taken({f"ana/{name}.ipynb": content, "bo/x.txt": b""})
    assert [s.lesson for s in found.submissions] == [lesson]


def test_nothing_heavy_is_imported():
    code = "import sys, tfcourse.classroom.intake; print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.strip() == "False", ended.stderr


def test_odd_cells_do_no_harm(taken):
    odd = {"cells": [{"cell_type": "code"}, {"metadata": [], "source": 3}, {"source": [1, None]}]}
    odd["cells"] += [{"metadata": {"exercise": ["scores"]}, "cell_type": "code", "source": None}]
    odd["cells"] += [{"cell_type": "code", "source": "def mix(): 1"}]
    found = taken({"ana/x.ipynb": json.dumps(odd), "bo/x.ipynb": ONE})
    assert len(found.submissions) == 2


def test_a_notebook_that_says_no_lesson(taken):
    files = {"ana/x.ipynb": NONE, "bo/x.ipynb": ONE, "bo/glossary.ipynb": NONE}
    files |= {"bo/01_attention_notes.ipynb": NONE}
    found = taken(files)
    assert told(found) == [("bo", "01_attention", 1)]
    assert [(t.student, t.shown) for t in found.troubles] == [("ana", "ana/x.ipynb")]
    assert "--lesson" in found.troubles[0].says
    found = taken(files, lesson="04_norms")
    assert told(found) == [("ana", "04_norms", 1), ("bo", "01_attention", 1)]
    assert found.troubles == ()


def test_turns_are_in_the_order_of_time(taken, tmp_path):
    day = datetime(2026, 11, 1, 12)
    place = tmp_path / "class"
    for i, name in enumerate(["b", "c", "a"]):
        put(place, {f"ana/{name}.ipynb": nb("def mix(): 1", words=name)}, day + timedelta(days=i))
    put(place, {"bo/x.ipynb": TWO}, day)
    found = taken(place, deadline=day + timedelta(hours=30))
    ana = [s for s in found.submissions if s.student == "ana"]
    assert [(s.path.name, s.turn, s.late) for s in ana] == [
        ("b.ipynb", 1, False),
        ("c.ipynb", 2, False),
        ("a.ipynb", 3, True),
    ]
    assert datetime.fromisoformat(ana[0].when) == day.astimezone()


def test_tries_of_one_moment_are_in_the_order_of_their_names(taken):
    marks = [" (10)", "", " (2)", "-Copy1"]
    files = {f"ana{mark}.ipynb": nb("def mix(): 1", words=mark) for mark in marks}
    found = taken(zipped(files | {"bo.ipynb": ONE}))
    assert [s.shown for s in found.submissions if s.student == "ana"] == [
        "ana.ipynb",
        "ana (2).ipynb",
        "ana (10).ipynb",
        "ana-Copy1.ipynb",
    ]


def test_the_same_bytes_twice_are_one(taken):
    other = nb("def mix(): 2")
    times = [(2026, 11, day, 9, 0, 0) for day in range(1, 5)]
    found = taken(
        zipped({"ana/a.ipynb": (ONE, times[0]), "ana/b.ipynb": (ONE, times[3]), "bo/x.ipynb": ONE}),
        deadline=datetime(2026, 11, 2),
    )
    assert [(s.student, s.turn, s.late) for s in found.submissions] == [
        ("ana", 1, False),
        ("bo", 1, False),
    ]
    three = {f"ana/{i}.ipynb": (x, times[i]) for i, x in enumerate([ONE, other, ONE])}
    found = taken(zipped(three | {"bo/x.ipynb": ONE}))
    shown = [s.shown for s in found.submissions if s.student == "ana"]
    assert shown == ["ana/1.ipynb", "ana/2.ipynb"]  # the first one, again


def test_a_zip_within_a_zip_counts_from_when_it_was_handed_in(taken):
    inner = zipped({"x.ipynb": ONE}, when=(2020, 1, 1, 0, 0, 0))
    found = taken(zipped({"ana.zip": inner, "bo/x.ipynb": (TWO, (1980, 1, 1, 0, 0, 0))}))
    ana, bo = found.submissions
    assert ana.when.startswith("2026-11-01T10:00:00")
    assert bo.when == ""
    assert not bo.late


# ------------------------------------------------------------------------------------- security


def link(name, to=b"/etc/passwd"):
    info = zipfile.ZipInfo(name, (2026, 11, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return {info: to}


@pytest.mark.parametrize(
    "name",
    [
        "../evil.ipynb",
        "ana/../../evil.ipynb",
        "/evil.ipynb",
        "C:\\evil.ipynb",
        "C:evil.ipynb",
        "..\\..\\evil.ipynb",
        "\\\\server\\share\\evil.ipynb",
        "ana\\..\\..\\evil.ipynb",
    ],
)
def test_a_zip_that_wants_out_stays_inside(taken, tmp_path, name):
    found = taken(zipped({name: ONE, "bo/x.ipynb": TWO, "cy/x.ipynb": ONE}))
    assert [s.student for s in found.submissions] == ["bo", "cy"]
    assert len(found.troubles) == 1
    assert "wants to lie outside" in found.troubles[0].says
    assert "evil.ipynb" in found.troubles[0].shown
    assert not [*tmp_path.parent.rglob("evil.ipynb")]
    inside = sorted(path.name for path in tmp_path.glob("into*/**/*"))
    assert inside == ["000001.ipynb", "000002.ipynb"]


def test_a_students_zip_that_wants_out_is_told_to_be_theirs(taken, tmp_path):
    inner = zipped({"../../evil.ipynb": ONE, "x.ipynb": TWO, "/evil.ipynb": ONE})
    for name in ("mal.zip", "mal_1_assignsubmission_file_/work.zip"):
        for form in ({name: inner, "bo/x.ipynb": ONE}, zipped({name: inner, "bo/x.ipynb": ONE})):
            found = taken(form)
            assert names(found) == ["bo", "mal"]
            assert [t.student for t in found.troubles] == ["mal", "mal"]
            assert len(found.submissions) == 2
    assert not [*tmp_path.parent.rglob("evil.ipynb")]


def test_a_backslash_that_means_no_harm_is_a_folder(taken):
    found = taken(zipped({"ana\\x.ipynb": ONE, "bo\\x.ipynb": TWO}))
    assert [s.student for s in found.submissions] == ["ana", "bo"]


def test_a_link_in_a_zip_is_not_taken(taken):
    device = zipfile.ZipInfo("dan/x.ipynb", (2026, 11, 1, 0, 0, 0))
    device.create_system, device.external_attr = 3, (stat.S_IFCHR | 0o666) << 16
    files = link("ana/x.ipynb") | {"ana/y.ipynb": ONE, "bo/x.ipynb": TWO}
    found = taken(zipped(files | link("cy.ipynb") | {device: b""}))
    assert [s.shown for s in found.submissions] == ["ana/y.ipynb", "bo/x.ipynb"]
    assert {t.shown for t in found.troubles} == {"ana/x.ipynb", "cy.ipynb", "dan/x.ipynb"}
    assert all("link or a device" in t.says for t in found.troubles)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_links_and_pipes_in_a_folder_are_not_followed(taken, tmp_path):
    secret = put(tmp_path / "secret", {"x.ipynb": ONE, "deep/y.ipynb": TWO})
    place = put(tmp_path / "class", {"ana/x.ipynb": ONE, "bo/y.ipynb": TWO})
    (place / "ana/link.ipynb").symlink_to(secret / "x.ipynb")
    (place / "bo/folder").symlink_to(secret, target_is_directory=True)
    (place / "cy").symlink_to(secret, target_is_directory=True)
    (place / "bo/loop").symlink_to(place)
    (place / "bo/data.zip").symlink_to(secret)
    os.mkfifo(place / "bo/pipe.ipynb")
    found = taken(place)
    assert [s.shown for s in found.submissions] == ["ana/x.ipynb", "bo/y.ipynb"]
    assert {(t.student, t.shown) for t in found.troubles} == {
        ("ana", "ana/link.ipynb"),
        ("bo", "bo/folder"),
        ("bo", "bo/loop"),
        ("bo", "bo/data.zip"),
        ("bo", "bo/pipe.ipynb"),
        ("", "cy"),
    }


def test_a_zip_bomb_costs_its_own_student_alone(taken, monkeypatch, tmp_path):
    monkeypatch.setattr(handed_in, "ENTRY", 10_000)
    monkeypatch.setattr(handed_in, "SHARE", 25_000)
    spaces = {f"{i}.ipynb": ONE + b" " * (9_000 + i) for i in range(5)}
    bomb = zipped({"huge.ipynb": b" " * 10_001, **spaces})
    found = taken(zipped({"ana.zip": bomb, "bo.zip": zipped({"x.ipynb": ONE}), "cy/x.ipynb": TWO}))
    assert {s.student for s in found.submissions} == {"ana", "bo", "cy"}
    assert [t.says for t in found.troubles if t.shown.endswith("huge.ipynb")] == [
        "Unpacked it is larger than 0 MB."
    ]
    assert sum("too large" in t.says for t in found.troubles) == 3
    assert sum(path.stat().st_size for path in tmp_path.glob("into*/*")) < 30_000


def test_a_size_that_lies_is_found_out(taken, tmp_path, monkeypatch):
    monkeypatch.setattr(handed_in, "ENTRY", 10_000)
    whole = zipped({"ana/x.ipynb": b" " * 50_000, "bo/x.ipynb": ONE, "cy/x.ipynb": TWO})
    assert whole.count(struct.pack("<I", 50_000)) == 2
    found = taken(whole.replace(struct.pack("<I", 50_000), struct.pack("<I", 500)))
    assert [s.student for s in found.submissions] == ["bo", "cy"]
    assert [t.student for t in found.troubles] == ["ana"]
    assert sum(path.stat().st_size for path in tmp_path.glob("into*/*")) < 10_000


def test_too_many_entries(taken, monkeypatch):
    monkeypatch.setattr(handed_in, "ENTRIES", 3)
    found = taken(zipped({f"s{i}/x.ipynb": nb("def mix(): 1", words="a" * i) for i in range(5)}))
    assert len(found.submissions) == 3
    assert [t.says for t in found.troubles] == ["There are more than 3 files in these zips."] * 2
    passed = {f"s{i}/.git/{j}": b"" for i in (1, 2) for j in range(9)}
    found = taken(zipped(passed | {"s1/x.ipynb": ONE, "s2/x.ipynb": ONE}))
    assert len(found.submissions) == 2
    assert found.troubles == ()


def test_a_list_of_contents_that_is_too_long_is_not_read(taken, monkeypatch):
    monkeypatch.setattr(handed_in, "DIRECTORY", 300)
    many = zipped({f"{i}.ipynb": ONE for i in range(9)})
    both = {"bo.zip": zipped({"x.ipynb": TWO}), "ana.zip": many}
    found = taken(zipped(both, packed=zipfile.ZIP_STORED))
    assert [s.student for s in found.submissions] == ["bo"]
    assert [(t.student, t.says) for t in found.troubles] == [
        ("ana", "This zip has too many entries.")
    ]


def test_a_long_list_of_contents_of_the_larger_kind(taken, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    many = zipped({f"{i}.ipynb": ONE for i in range(9)})
    assert b"PK\6\6" in many
    files = {"ana.zip": many, "bo.zip": zipped({"x.ipynb": TWO})}
    assert len(taken(files).students) == 2
    assert taken(files).troubles == ()
    monkeypatch.setattr(handed_in, "DIRECTORY", 300)
    assert [t.student for t in taken(files).troubles] == ["ana"]


def test_locked_damaged_and_odd_zips_are_named(taken):
    locked = bytearray(zipped({"x.ipynb": ONE}))
    at = locked.index(b"PK\1\2")
    locked[6] |= 1
    locked[at + 8] |= 1
    odd = io.BytesIO()
    with zipfile.ZipFile(odd, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.ipynb", ONE)
    broken = bytearray(zipped({"x.ipynb": ONE, "y.ipynb": TWO}))
    broken[70] ^= 0xFF
    files = {
        "locked.zip": bytes(locked),
        "odd.zip": odd.getvalue(),
        "short.zip": zipped({"x.ipynb": ONE})[:-30],
        "none.zip": b"this is no zip",
        "broken.zip": bytes(broken),
        "fine.zip": zipped({"x.ipynb": ONE}),
    }
    for form in (files, zipped(files)):
        found = taken(form)
        assert [s.student for s in found.submissions] == ["broken", "fine"]
        said = {t.student: t.says for t in found.troubles}
        assert set(said) == {"locked", "odd", "short", "none", "broken"}
        assert "password" in said["locked"]
        assert "unusual" in said["odd"]
        assert "damaged" in said["short"]
        assert "damaged" in said["none"]
        assert "damaged" in said["broken"]
    found = taken(b"no zip at all")
    assert "damaged" in found.troubles[0].says
    assert found.troubles[0].shown == "class.zip"


def test_a_broken_notebook_is_named_and_the_rest_is_taken(taken, monkeypatch):
    monkeypatch.setattr(cells, "LARGEST", 20_000)
    files = {
        "ana/x.ipynb": b"{",
        "bo/y.ipynb": ONE + b" " * 20_000,
        "cy/z.ipynb": b"[]",
        "dan/x.ipynb": ONE,
        "dan/y.ipynb": b"",
    }
    for form in (files, zipped(files)):
        found = taken(form)
        assert told(found) == [("dan", "01_attention", 1)]
        said = {t.shown: t.says for t in found.troubles}
        assert said["ana/x.ipynb"].startswith("It is not a notebook: no JSON")
        assert said["bo/y.ipynb"].startswith("It has ")
        assert said["cy/z.ipynb"] == "It is not a notebook: it has no list of cells."
        assert [t.student for t in found.troubles] == ["ana", "bo", "cy", "dan"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_a_file_that_may_not_be_read_is_named(taken, tmp_path):
    place = put(tmp_path / "class", {"ana/x.ipynb": ONE, "bo/x.ipynb": TWO})
    (place / "ana/x.ipynb").chmod(0)
    found = taken(place)
    assert [t.shown for t in found.troubles] == ["ana/x.ipynb"]


def test_names_too_long_too_deep_and_of_old_programs(taken):
    old = zipfile.ZipInfo("Jürgen/x.ipynb", (2026, 11, 1, 0, 0, 0))
    whole = zipped(
        {
            f"ana/{'x' * 3000}.ipynb": ONE,
            "bo/" + "d/" * 40 + "x.ipynb": TWO,
            "cy/" + "9" * 5000 + ".ipynb": TWO,
            old: ONE,
            "Iñaki/x.ipynb": ONE,
        }
    )
    # The same bytes without the flag that says UTF-8: so do old programs.
    plain_zip = bytearray(whole)
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = plain_zip.find(signature)
        while at >= 0:
            plain_zip[at + flags + 1] &= ~0x08
            at = plain_zip.find(signature, at + 4)
    found = taken(bytes(plain_zip))
    assert {name for name, *_ in told(found)} == {"ana", "cy", "Jürgen", "Iñaki"}
    assert [("30 folders" in t.says, t.student) for t in found.troubles] == [(True, "bo")]
    cp437 = zipped({"J.rgen/x.ipynb": ONE, "bo/x.ipynb": ONE}).replace(b"J.rgen", b"J\x81rgen")
    assert "Jürgen" in names(taken(cp437))


def test_a_folder_too_deep_is_named(taken):
    found = taken({"ana/" + "d/" * 35 + "x.ipynb": ONE, "bo/x.ipynb": TWO})
    assert [s.student for s in found.submissions] == ["bo"]
    assert ["30 folders" in t.says for t in found.troubles] == [True]


def test_nobody_can_hand_in_as_another(taken):
    """Names that a student chose, within what is theirs, say nothing of whose it is."""
    forged = "Bo Li_12_assignsubmission_file_01_attention.ipynb"
    metadata = "submission_9:\n  :submitters:\n  - :name: Bo Li\n"
    files = {
        f"mallory/{forged}": TWO,
        f"mallory/{forged[:-6]}/x.ipynb": ONE,
        "mallory/submission_metadata.yml": metadata.encode(),
        "mallory/submission_9/x.ipynb": TWO,
        "Bo Li/x.ipynb": ONE,
    }
    for form in (files, zipped(files)):
        found = taken(form)
        assert [s.shown for s in found.submissions if s.student == "bo-li"] == ["Bo Li/x.ipynb"]
    found = taken({f"Mal_11_assignsubmission_file_{forged}": ONE, forged: TWO})
    assert told(found) == [("Bo Li", "02_multi_head_attention", 1), ("Mal", "01_attention", 1)]


# ---------------------------------------------------------------------------------------- names


def test_a_name_is_one_in_both_forms_of_its_accents_and_with_a_comma(taken):
    files = {
        unicodedata.normalize("NFC", "José Ñúñez/a.ipynb"): ONE,
        unicodedata.normalize("NFD", "José Ñúñez/b.ipynb"): nb("def mix(): 1"),
        "Ñúñez, José/c.ipynb": TWO,
    }
    for form in (files, zipped(files)):
        found = taken(form)
        assert len(found.students) == 1
        assert len(found.submissions) == 3
        assert found.students[0].key == "jose-nunez"


@pytest.mark.parametrize(
    "name",
    ["<b>Ana<b> &amp; <script>", "Ana 😀", "😀", "李雷", "محمد علي", "=cmd|'C calc'!A0", "con",
     "a" * 200, "  Ana  ", "O'Brien", "-rf", "Ana.", "\x1b[31mred"],
)  # fmt: skip
def test_odd_names(taken, name):
    found = taken(zipped({f"{name}/x.ipynb": ONE, "bo/x.ipynb": ONE, "Ana/x.ipynb": TWO}))
    assert len(found.submissions) == 3
    shown = " ".join(name.replace("\x1b", "�").split())
    assert shown in names(found) or name.strip() == "Ana"


def test_two_names_that_look_alike_do_not_collide(taken):
    found = taken({f"{name}/x.ipynb": ONE for name in ("Ana Lopez", "Ana López", "Ana-López")})
    assert len(found.students) == 3
    assert all(student.key.startswith("ana-lopez-") for student in found.students)
    again = taken({f"{name}/x.ipynb": ONE for name in ("Ana-López", "Ana López", "Ana Lopez")})
    assert {s.name: s.key for s in found.students} == {s.name: s.key for s in again.students}


TEXT = st.text(max_size=80) | st.text("aáA -._,con1", max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), max_size=8), st.booleans())
def test_keys_are_unique_and_safe_and_stable(people, again):
    whos = [Who(name, number) for name, number in people]
    before = keys(whos) if again else []
    made = keys(whos, before)
    assert made == keys(whos, before)
    assert len({*made, *before}) == len(made) + len(before)
    for key in made:
        assert 0 < len(key) <= LONGEST_KEY
        assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert key not in {"con", "nul", "aux", "prn", "com1", "lpt9"}


@settings(deadline=None)
@given(st.lists(TEXT, max_size=6, unique_by=plain), st.randoms())
def test_a_key_does_not_hang_on_the_order(people, chance):
    whos = [Who(name) for name in people]
    made = dict(zip(whos, keys(whos), strict=True))
    chance.shuffle(whos)
    assert dict(zip(whos, keys(whos), strict=True)) == made


# --------------------------------------------------------------------------------- with a roster


@pytest.fixture
def roster(tmp_path):
    def run(text, encoding="utf-8"):
        path = tmp_path / "roster.csv"
        path.write_bytes(text.encode(encoding))
        return read_roster(path)

    return run


CLASS = """name,student id,email,login
Zoë Ångström,0041,zoe@uni.edu,zoe-a
"López García, Ana",42,ana@uni.edu,al
Bo Li,43,bo@uni.edu,bli
Li Bo Wu,44,wu@uni.edu,wu
"""


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Zoe Angstrom", "Zoë Ångström"),
        ("ångström_zoë", "Zoë Ångström"),
        ("Angstrom, Zoe", "Zoë Ångström"),
        ("41", "Zoë Ångström"),
        ("0041", "Zoë Ångström"),
        ("homework 0041", "Zoë Ångström"),
        ("Zoë Ångström 99999", "Zoë Ångström"),  # a number of something else
        ("zoe@uni.edu", "Zoë Ångström"),
        ("ZOE-A", "Zoë Ångström"),
        ("lopezgarciaana", "López García, Ana"),
        ("Ana López García", "López García, Ana"),
        ("ana", "López García, Ana"),  # her email's name
        ("Cy Twombly", "Cy Twombly"),
    ],
)
def test_a_label_is_matched_to_the_roster(taken, roster, label, name):
    found = taken({f"{label}/x.ipynb": ONE, "Bo Li/x.ipynb": TWO}, roster=roster(CLASS))
    assert names(found)[:4] == ["Zoë Ångström", "López García, Ana", "Bo Li", "Li Bo Wu"]
    assert (name, "01_attention", 1) in told(found)
    assert found.troubles == ()


def test_those_of_the_roster_come_first_and_keep_their_key(taken, roster):
    known = roster(CLASS)
    found = taken({"bo li/x.ipynb": ONE, "Amy/x.ipynb": ONE, "Bo Li 2/x.ipynb": TWO}, roster=known)
    assert found.students[:4] == known.students
    assert names(found)[4:] == ["Amy", "Bo Li 2"]
    assert known.students[2].key == "bo-li-43"
    assert known.students[0].known == {
        "student id": "0041",
        "email": "zoe@uni.edu",
        "login": "zoe-a",
    }


def test_canvas_and_moodle_and_gradescope_match_by_number(taken, roster):
    known = roster(
        "Student,ID,SIS User ID,SIS Login ID,Section,Lesson 01 (9)\n"
        "    Points Possible,,,,,10\n"
        '"López, Ana",12345,U1,al,S1,\n"Li, Bo",12346,U2,bl,S1,\n"Student, Test",999,,,S1,\n'
    )
    assert [student.name for student in known.students] == ["López, Ana", "Li, Bo"]
    files = {"anita_12345_600_x.ipynb": ONE, "libo_99999_601_x.ipynb": TWO}
    found = taken(files, roster=known)
    assert [name for name, *_ in told(found)] == ["López, Ana", "Li, Bo"]
    known = roster(
        'Identifier,"Full name","Email address",Status,Grade,"Maximum Grade"\n'
        "Participant 11,Ana López,ana@uni.edu,,,100.00\nParticipant 12,Ana López,b@uni.edu,,,100\n"
    )
    files = {f"Ana López_{i}_assignsubmission_file/x.ipynb": ONE for i in (11, 12)}
    found = taken(files, roster=known)
    assert sorted(s.student for s in found.submissions) == sorted(s.key for s in known.students)
    metadata = "s1:\n  :submitters:\n  - :name: B.\n    :email: B@UNI.EDU\n"
    found = taken({"submission_metadata.yml": metadata, "s1/x.ipynb": ONE}, roster=known)
    assert [s.student for s in found.submissions] == [known.students[1].key]


def test_a_worksheet_of_another_assignment_is_refused(taken, roster):
    head = "Identifier,Full name,Grade\n"
    other = roster(f"{head}Participant 21,Ana López,\nParticipant 22,Bo Li,\n")
    with pytest.raises(ValueError, match="“Participant 21”.*“1234567”.*another assignment"):
        taken(MOODLE, roster=other)
    both = roster(f"{head}Participant 21,Ana López,\nParticipant 1234568,Bo Li,\n")
    assert len(taken(MOODLE, roster=both).submissions) == 2  # two exports in one folder
    assert len(taken(FOLDERS, roster=other).submissions) == 2


def test_who_cannot_be_told_stays_apart_and_is_said(taken, roster):
    twins = roster("name,id\nAna López,1001\nLopez Ana,1002\nBo Li,1003\nCy,1004\n")
    found = taken(
        {"ana lopez/x.ipynb": ONE, "Bo Li/x.ipynb": ONE, "Cy_1003/x.ipynb": TWO}, roster=twins
    )
    assert names(found)[4:] == ["ana lopez", "Cy 1003"]
    assert found.submissions[0].student == "bo-li-1003"
    said = {t.shown: t.says for t in found.troubles}
    assert "“Ana López” or “Lopez Ana”" in said["ana lopez"]
    assert "“Bo Li” or “Cy”" in said["Cy_1003"]


def test_a_number_that_speaks_against_the_name_is_said(taken, roster):
    known = roster("name,id\nAna López,12345\nBo Li,12346\n")
    found = taken({"lopezana_12346_900_x.ipynb": ONE, "libo_777_901_x.ipynb": TWO}, roster=known)
    assert told(found) == [("Bo Li", "02_multi_head_attention", 1), ("lopezana", "01_attention", 1)]
    assert "could not be told whether “lopezana” is “Bo Li” or “Ana" in found.troubles[0].says
    assert len(found.submissions) == 2


def test_two_of_one_name_in_moodle_and_one_on_the_roster(taken, roster):
    known = roster("name,email\nAna López,a@b.c\n")
    files = {f"Ana López_{i}_assignsubmission_file/x.ipynb": ONE for i in (11, 12)}
    found = taken(files, roster=known)
    assert len(found.students) == 3
    assert len(found.troubles) == 2
    files = {f"{n}_assignsubmission_file/x.ipynb": ONE for n in ("Ana López_11", "Ana Lopez_12")}
    found = taken(files, roster=known)
    assert found.submissions[0].student == known.students[0].key
    assert len(found.troubles) == 1


def test_repositories_match_by_login(taken, roster):
    known = roster("name,login\nAna,al-x\nBo,al-y\nCy,x\n")
    files = {f"week-1-{who}/notebooks/01_attention.ipynb": ONE for who in ("al-x", "al-y")}
    found = taken(
        files | {"week-1-al-x/.git/HEAD": b"", "week-1-al-y/.git/HEAD": b""}, roster=known
    )
    assert [name for name, *_ in told(found)] == ["Ana", "Bo"]
    found = taken(files, roster=known)
    assert [name for name, *_ in told(found)] == ["Ana", "Bo"]


def test_a_file_of_another_kind_is_its_students(taken, roster):
    known = roster("name\nAna\nBo\n")
    found = taken({"Ana.ipynb": ONE, "Bo.docx": b"", "x.pdf": b""}, roster=known)
    assert {(t.student, t.shown) for t in found.troubles} == {("bo", "Bo.docx"), ("", "x.pdf")}
