"""What `tfcourse class` says where it cannot do what was asked: what is wrong, and what to do."""

import shutil

import pytest

from tfcourse.__main__ import main
from tfcourse.authoring.build import find_root

ROOT = find_root()


def said(capsys, *words):
    """The exit status and what was said, of a command that ends early."""
    try:
        status = main(["class", *map(str, words)])
    except SystemExit as end:  # argparse
        status = end.code
    printed = capsys.readouterr()
    return status, printed.out + printed.err


@pytest.mark.parametrize(
    ("lesson", "says"),
    [
        ("01_atention", "'01_atention' is none of the lessons. Did you mean 01_attention?"),
        ("99", "There are: 00_start_here, 01_attention"),
        ("", "There are: "),
    ],
)
def test_a_lesson_that_is_none(capsys, tmp_path, lesson, says):
    status, printed = said(capsys, "release", lesson, "--to", tmp_path / "to")
    assert (status, says in printed) == (1, True)
    assert not (tmp_path / "to").exists()


def test_an_option_that_is_none(capsys, tmp_path):
    status, printed = said(capsys, "grade", tmp_path, "--rooster", "class.csv")
    assert (status, "--rooster is not known. Did you mean --roster?" in printed) == (2, True)
    assert said(capsys, "grade", tmp_path, "--xyz")[1].strip().endswith("--xyz is not known.")


def test_the_course_itself_is_nothing_to_grade(capsys, monkeypatch, tmp_path):
    for folder in (ROOT, "."):
        monkeypatch.chdir(ROOT)
        status, printed = said(capsys, "grade", folder, "--to", tmp_path / "to")
        assert (status, "is the course itself" in printed) == (1, True)


@pytest.mark.usefixtures("bubblewrap")
def test_where_nothing_is_graded_no_folder_stays(capsys, tmp_path):
    (tmp_path / "in" / "Ana").mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "01_attention.ipynb", tmp_path / "in" / "Ana")
    (tmp_path / "class.csv").write_text("name\nZoe\n")
    worksheet = tmp_path / "worksheet.csv"
    worksheet.write_text("Identifier,Full name,Grade\nParticipant 1,Ana,\n")
    to = ("--to", tmp_path / "to")
    for options, says in (
        (("--lesson", "02"), "There is no notebook 02_multi_head_attention"),
        (("--roster", tmp_path / "class.csv"), "is it this class's list?"),
        (("--roster", worksheet, "--column", "Mark"), "no column “Mark”"),
        (("--roster", tmp_path / "none.csv"), "none.csv cannot be read"),
    ):
        status, printed = said(capsys, "grade", tmp_path / "in", *to, *options)
        assert (status, says in printed) == (1, True), printed
        assert not (tmp_path / "to").exists()


def test_a_notebook_that_cannot_be_read_is_named(capsys, tmp_path):
    (tmp_path / "x.ipynb").write_text("{")
    status, printed = said(capsys, "check", tmp_path / "x.ipynb", tmp_path / "none.ipynb")
    assert status == 1
    assert printed == (
        f"{tmp_path / 'x.ipynb'}: It is not a notebook: no JSON can be read from it.\n"
        f"{tmp_path / 'none.ipynb'}: No such file or directory\n"
    )
