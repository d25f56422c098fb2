"""The tables of a class: rosters, gradebooks that are filled, grades.csv."""

import csv
import io
import re
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcourse.classroom import platforms
from tfcourse.classroom.columns import (
    Sheet,
    check_column,
    fill,
    is_exported,
    read_roster,
    safe,
    table,
)
from tfcourse.classroom.records import Graded, Mark, Results, Student, Title

CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Lesson 01 (111),Lesson 02 (112),Current Score\r\n"
    ",,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,20.00,5,(read only)\r\n"
    '"López, Ana",12345,U1,al,"S1, morning",,4.00,80\r\n'
    '"Li, Bo",12346,U2,bl,S1,3.00,"1,5",70\r\n'
    '=cmd,12347,U3,eve,S1,"old",,\r\n'
    '"Student, Test",99999,,,S1,7,,\r\n'
)
MOODLE = (
    'Identifier,"Full name","Email address",Status,Grade,"Maximum Grade","Last modified (grade)",'
    '"Feedback comments"\n'
    'Participant 11,"Ana López",ana@uni.edu,"Submitted for grading",,100.00,-,"two\nlines, ""a"""\n'
    'Participant 12,"Bo Li",bo@uni.edu,"No submission",7.00,100.00,-,\n'
)


def graded(student, points, of=4.0, lesson="01_attention", turn=1, state="right", late=False):
    marks = (Mark("scores", state, "", "", points, of), Mark("mix", "wrong", "", ""))
    return Graded(student, lesson, f"{student}.ipynb", marks, late=late, turn=turn)


def results(students, *done, **more):
    lessons = {"01_attention": (Title("scores", "Scores", 4.0), Title("mix", "Mix"))}
    return Results(tuple(students), lessons, done, **more)


def saved(folder, text, encoding="utf-8"):
    path = folder / "roster.csv"
    path.write_bytes(text.encode(encoding))
    return path


def filled(folder, text, made, column="", encoding="utf-8", lesson="01_attention"):
    """What the copy holds, and what was said."""
    said = fill(saved(folder, text, encoding), folder / "out.csv", made, lesson, column)
    return (folder / "out.csv").read_bytes().decode(encoding), said


# ------------------------------------------------------------------------------------ rosters


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_roster_in_every_form(tmp_path, encoding, delimiter, end):
    rows = [["Surname", "First Name", "E-Mail", "Student-ID"], ["López", "Ana", "a@b.c", "007"]]
    text = end.join(delimiter.join(f'"{cell}"' for cell in row) for row in rows) + end + end
    known = read_roster(saved(tmp_path, text, encoding))
    assert known.students == (
        Student("ana-lopez-007", "Ana López", {"E-Mail": "a@b.c", "Student-ID": "007"}),
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("NAME\nAna\n\n , \nBo\n", ["Ana", "Bo"]),
        ("\n\nfull name,points\nAna,3\n", ["Ana"]),
        ("email\na@b.c\n", ["a@b.c"]),
        ("username,sid\nal,1\n", ["al"]),
        ("name,id\nStudent Test,1\nPoints Possible,2\n", ["Student Test", "Points Possible"]),
        (CANVAS, ["López, Ana", "Li, Bo", "=cmd"]),
        (MOODLE, ["Ana López", "Bo Li"]),
        ("Identifier,Status,Grade\nParticipant 5,,\n", ["Participant 5"]),
        ('name,note\n"Ana\nLópez",x\n', ["Ana\nLópez"]),
    ],
)
def test_who_is_a_student(tmp_path, text, names):
    assert [s.name for s in read_roster(saved(tmp_path, text)).students] == names


def test_every_row_of_a_roster_has_a_key_of_its_own(tmp_path):
    known = read_roster(saved(tmp_path, "name\nAna\nAna\nAna\nána\n"))
    assert len({student.key for student in known.students}) == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (b"a\0b,c", "holds no text"),
        (b"\x81\x8d", "holds no text"),
        (b"points,grade\n1,2\n", "must be called name, email or id. It has: “points”, “grade”"),
    ],
)
def test_what_is_no_roster_is_said(tmp_path, content, said):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read_roster(tmp_path / "x.csv")
    with pytest.raises(ValueError, match="cannot be read"):
        read_roster(tmp_path / "nowhere.csv")


def test_who_exported_it(tmp_path):
    assert is_exported(saved(tmp_path, CANVAS))
    assert is_exported(saved(tmp_path, MOODLE))
    assert not is_exported(saved(tmp_path, "name,id,grade\nAna,1,\n"))


# ------------------------------------------------------------------------------ gradebooks filled


def test_canvas_gets_its_column_and_keeps_the_rest_to_the_letter(tmp_path):
    students = read_roster(saved(tmp_path, CANVAS)).students
    made = results(students, graded(students[0].key, 3.0), graded(students[2].key, 1.0))
    for column in ("Lesson 01", "Lesson 01 (111)", "lesson 01", ""):
        text, said = filled(tmp_path, CANVAS, made, column)
        expected = CANVAS.replace('morning",,4.00', 'morning",15,4.00').replace('"old"', '"5"')
        assert text == expected
        assert said == "2 of 3 rows of out.csv were filled in the column “Lesson 01 (111)”."
    text, _ = filled(tmp_path, CANVAS, made, "Lesson 02")
    assert text == CANVAS.replace("4.00,80", "3.75,80").replace('"old",,', '"old",1.25,')


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_moodle_gets_its_grade(tmp_path, encoding):
    students = read_roster(saved(tmp_path, MOODLE, encoding)).students
    made = results(
        students, graded(students[0].key, 1.0, of=3.0), graded(students[0].key, 2.0, 3.0, turn=2)
    )
    text, said = filled(tmp_path, MOODLE, made, encoding=encoding)
    assert text == MOODLE.replace('grading",,100', 'grading",66.67,100')
    assert "1 of 2 rows" in said
    mark = (tmp_path / "out.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    assert mark == (encoding == "utf-8-sig")


def test_a_decimal_comma_is_kept(tmp_path):
    text = "Identifier;Full name;Grade;Maximum Grade\nParticipant 1;Ana;;10,00\n"
    student = read_roster(saved(tmp_path, text)).students[0]
    assert (
        "Ana;2,5;10,00" in filled(tmp_path, text, results([student], graded(student.key, 1.0)))[0]
    )
    text = 'Student,ID,Section,Task\n Points Possible,,,"10,0"\nAna,1,,\n'
    made = results([Student("ana", "Ana", {"ID": "1"})], graded("ana", 1.0))
    assert filled(tmp_path, text, made, "Task")[0].endswith('Ana,1,,"2,5"\n')


def test_students_of_results_are_found_by_number_email_and_name(tmp_path):
    students = [
        Student("a", "anita", {"ID": "12345"}),
        Student("b", "Bo Li"),
        Student("c", "Cy <b>"),
        Student("d", "Dan, who did nothing"),
    ]
    made = results(students, *(graded(key, 4.0) for key in "abc"))
    text, said = filled(tmp_path, CANVAS, made, "Lesson 01")
    assert said.startswith("2 of 3 rows")
    assert said.endswith("Not found in it, or not for certain: Cy <b>.")
    assert 'morning",20,' in text
    assert "bl,S1,20," in text
    made = results([Student("a", "A.", {"Email": "BO@uni.edu"})], graded("a", 4.0))
    assert 'No submission",100,100' in filled(tmp_path, MOODLE, made)[0]


def test_two_of_one_name_are_not_confused(tmp_path):
    text = "Student,ID,Section,Task (1)\n,,,\nAna,1,,\nAna,2,,9\n"
    students = read_roster(saved(tmp_path, text)).students
    made = results(students, graded(students[1].key, 2.0))
    assert filled(tmp_path, text, made, "Task")[0] == text.replace("2,,9", "2,,2")
    made = results([Student("x", "Ana")], graded("x", 2.0))
    out, said = filled(tmp_path, text, made, "Task")
    assert out == text
    assert "Not found in it, or not for certain: Ana" in said


def test_what_was_not_judged_is_not_filled(tmp_path):
    students = read_roster(saved(tmp_path, CANVAS)).students
    made = results(students, graded(students[0].key, 0.0, state="not judged"))
    text, said = filled(tmp_path, CANVAS, made)
    assert text == CANVAS
    assert "not judged: López, Ana" in said


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        (CANVAS, "Lesson 03", "no column “Lesson 03”.*“Lesson 01 .111.”, “Lesson 02 .112.”"),
        (CANVAS, "Lesson", "More than one column.*“Lesson”.*Give the whole title"),
        (CANVAS, "Current Score", "does not read the column “Current Score”"),
        (CANVAS, "Student", "no column “Student”"),
        (MOODLE, "Points", "no column “Points”.*can be filled: “Grade”. Name"),
        (MOODLE, "Status", "no column “Status”"),
        (CANVAS.replace("Lesson", "Task"), "", "no column “01_attention”.*--column"),
    ],
)
def test_a_column_that_is_not_there_is_said(tmp_path, text, column, said):
    with pytest.raises(ValueError, match=said):
        filled(tmp_path, text, results([]), column)
    assert not (tmp_path / "out.csv").exists()
    if column:
        with pytest.raises(ValueError, match=said):
            check_column(saved(tmp_path, text), column)


def test_a_column_that_is_there_or_that_nobody_fills_is_no_matter(tmp_path):
    check_column(saved(tmp_path, CANVAS), "Lesson 02")
    check_column(saved(tmp_path, MOODLE), "Grade")
    check_column(saved(tmp_path, "name,email\nAna,a@b.c\n"), "Points")


def test_what_is_no_table_is_said(tmp_path):
    (tmp_path / "roster.csv").write_bytes(b"PK\3\4\x81\0\0\xff\xfe")
    with pytest.raises(ValueError, match="roster.csv is no CSV: it holds no text"):
        read_roster(tmp_path / "roster.csv")
    with pytest.raises(ValueError, match=r"none.csv cannot be read .No such file"):
        read_roster(tmp_path / "none.csv")


def test_pages_go_back_to_moodle_in_one_zip(tmp_path):
    """Moodle splits a name at "_": the person, the number, the plugin in two words, the file."""
    text = MOODLE.replace("Bo Li", "Bo_Li/x").replace("Participant 12", "Teilnehmer 12")
    students = read_roster(saved(tmp_path, text)).students
    pages = tmp_path / "feedback"
    pages.mkdir()
    for student in (*students, Student("zoe", "Zoë")):
        (pages / f"{student.key}.html").write_text(student.name)
    made = results([*students, Student("zoe", "Zoë")])
    assert platforms.zip_feedback(made, pages, tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        held = {name.split("_", 4)[1]: (name, archive.read(name)) for name in archive.namelist()}
    assert held == {
        "11": ("Ana López_11_assignfeedback_file_feedback.html", "Ana López".encode()),
        "12": ("Bo Li x_12_assignfeedback_file_feedback.html", b"Bo_Li/x"),
    }
    assert not platforms.zip_feedback(results([Student("zoe", "Zoë")]), pages, tmp_path / "no.zip")
    assert not (tmp_path / "no.zip").exists()


def test_a_title_is_not_confused_with_a_longer_one(tmp_path):
    text = "Student,ID,Section,Lesson 1 (7),Lesson 10 (8),Lesson 1 bonus (9)\nAna,1,,,,\n"
    made = results([Student("a", "Ana")], graded("a", 4.0))
    assert filled(tmp_path, text, made, "Lesson 1")[0].endswith("Ana,1,,4,,\n")
    assert filled(tmp_path, text, made)[0].endswith("Ana,1,,4,,\n")
    assert filled(tmp_path, text, made, "Lesson 1 b")[0].endswith("Ana,1,,,,4\n")
    titled = results(
        [Student("a", "Ana")], graded("a", 4.0), titles={"01_attention": "Dot products"}
    )
    assert filled(tmp_path, text.replace("Lesson 10", "Dot products"), titled)[0].endswith("4,\n")


def test_a_short_row_is_made_long_enough(tmp_path):
    text = "Student,ID,Section,Task\nAna,1"
    made = results([Student("a", "Ana")], graded("a", 4.0))
    assert filled(tmp_path, text, made, "Task")[0] == "Student,ID,Section,Task\nAna,1,,4"


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff\r"), max_size=8)


@settings(deadline=None)
@given(
    st.lists(st.tuples(CELL, CELL, CELL), max_size=6),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_only_the_column_changes(tmp_path_factory, rows, delimiter, end, quoting, encoding):
    folder = tmp_path_factory.mktemp("sheet")
    target = io.StringIO()
    writer = csv.writer(target, delimiter=delimiter, lineterminator=end, quoting=quoting)
    titles = ["Identifier", "Full name", "note", "Grade", "more"]
    whole = [
        [f"Participant {i}", name, note, "", more] for i, (name, note, more) in enumerate(rows)
    ]
    writer.writerows([titles, *whole])
    path = saved(folder, target.getvalue(), encoding)
    students = read_roster(path).students
    assert len(students) == len(rows)
    fill(path, folder / "same.csv", results(students), "01_attention")
    assert (folder / "same.csv").read_bytes() == path.read_bytes()
    done = [graded(student.key, i) for i, student in enumerate(students)]
    fill(path, folder / "out.csv", results(students, *done), "01_attention")
    text = (folder / "out.csv").read_bytes().decode(encoding)
    found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    assert found == [titles, *([*row[:3], str(i), row[4]] for i, row in enumerate(whole))]


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=60) | st.text("\",;\t\r\na'", max_size=40))
def test_any_text_is_read_and_written_as_it_is(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("sheet")
    path = saved(folder, text)
    try:
        sheet = Sheet.read(path)
    except ValueError:
        assert "\0" in text or not re.search(r"[^\s,;\x1c-\x1f\ufeff]", text)
        return
    sheet.write(folder / "out.csv")
    assert (folder / "out.csv").read_bytes() == path.read_bytes()


# ------------------------------------------------------------------------------------ grades.csv


def test_the_table_has_one_row_for_each(tmp_path):
    students = [
        Student("ana", "López, Ana", {"SIS User ID": "7", "Email address": "a@b.c"}),
        Student("bo", "Bo <b>"),
        Student("eve", "=HYPERLINK(1)", {"id": "+49", "email": "@x"}),
    ]
    made = results(
        students, graded("ana", 1.0), graded("ana", 2.5, turn=2, late=True), graded("eve", 4.0)
    )
    rows = list(csv.reader(io.StringIO(table(made))))
    lesson = "01_attention"
    assert rows[0][:4] == ["name", "key", "id", "email"]
    assert rows[0][4:8] == [f"{lesson} points", f"{lesson} of", f"{lesson} late", f"{lesson} tries"]
    assert rows[0][8:] == [f"{lesson} scores", f"{lesson} mix"]
    assert rows[1:] == [
        ["López, Ana", "ana", "7", "a@b.c", "2.5", "4", "late", "2", "right", "wrong"],
        ["Bo <b>", "bo", "", "", "", "", "", "", "", ""],
        ["'=HYPERLINK(1)", "eve", "'+49", "'@x", "4", "4", "", "1", "right", "wrong"],
    ]


@settings(deadline=None)
@given(st.text())
def test_no_cell_is_a_formula(text):
    made = table(results([Student("k", text, {"id": text})]))
    row = list(csv.reader(io.StringIO(made)))[1]
    assert row[0] == row[2] == safe(text)
    assert not row[0].lstrip().startswith(("=", "+", "-", "@"))
    assert row[0].endswith(" ".join(re.split(r"[\r\n\t]+", text)))
