"""The progress file: never half written, never lost, never fatal."""

import json
import multiprocessing
import os
import stat

import pytest

from tfcourse.checks import store


def test_it_begins_empty(home):
    assert store.read() == {"version": 1, "exercises": {}, "questions": {}}
    assert not home.exists()  # looking leaves no trace


def test_what_was_right_stays_right(home):
    store.record_exercise("a", "wrong", "inverted")
    store.record_exercise("a", "right", "right")
    first = store.read()["exercises"]["a"]["right"]
    store.record_exercise("a", "wrong", "raised")
    assert store.read()["exercises"]["a"] == {"attempts": 3, "last": "raised", "right": first}


def test_the_first_answer_to_a_question_is_kept(home):
    store.record_question("q", "b", False)
    store.record_question("q", "c", True)
    store.record_question("q", "a", False)
    entry = store.read()["questions"]["q"]
    assert (entry["first"], entry["latest"]) == ("b", "a")
    assert "right" in entry


@pytest.mark.parametrize(
    "damaged",
    ["", "{", "[]", "null", '{"version": 1}', '{"version": 99, "exercises": {}, "questions": {}}',
     '{"version": 1, "exercises": [], "questions": {}}',
     '{"version": 1, "exercises": {"a": 3}, "questions": {}}', "[" * 100_000, "\x00\x01"],
)  # fmt: skip
def test_a_damaged_file_is_set_aside_and_reported(home, capsys, damaged):
    home.mkdir()
    (home / "progress.json").write_text(damaged)
    store.record_exercise("a", "right", "right")
    assert "right" in store.read()["exercises"]["a"]
    [aside] = home.glob("progress.damaged-*.json")
    assert aside.read_text() == damaged
    assert f"It is kept as {aside.name}" in capsys.readouterr().err


def test_a_file_that_is_no_text(home, capsys):
    home.mkdir()
    (home / "progress.json").write_bytes(b"\xff\xfe\x00")
    assert store.read()["exercises"] == {}
    assert "It is kept as" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TFCOURSE_HOME", str(tmp_path / "file" / "below"))
    store.record_exercise("a", "right", "right")
    assert "could not be saved" in capsys.readouterr().err


def test_a_write_that_fails_leaves_the_old_file(home, monkeypatch, capsys):
    store.record_exercise("a", "right", "right")
    before = (home / "progress.json").read_bytes()

    def full_disk(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    store.record_exercise("b", "right", "right")
    assert (home / "progress.json").read_bytes() == before
    assert sorted(p.name for p in home.iterdir()) == ["progress.json", "progress.lock"]
    assert "No space left" in capsys.readouterr().err


def write_many(home, worker):
    os.environ["TFCOURSE_HOME"] = str(home)
    for i in range(15):
        store.record_exercise(f"{worker}-{i}", "right", "right")


def test_four_kernels_at_once_lose_nothing(home):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write_many, args=(home, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(store.read()["exercises"]) == 60
    json.loads((home / "progress.json").read_text())


def test_it_is_the_users_alone_to_read(home):
    store.record_exercise("a", "right", "right")
    assert stat.S_ISREG((home / "progress.json").stat().st_mode)


def test_without_the_variable_it_stands_in_the_users_folder(monkeypatch):
    monkeypatch.delenv("TFCOURSE_HOME")
    assert store.path().name == "progress.json"
    assert store.home().name == "tfcourse"
