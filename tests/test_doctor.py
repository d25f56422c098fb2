"""The doctor sees what is wrong, says what mends it, and never raises."""

import pytest

from tfcourse import installation
from tfcourse.__main__ import main
from tfcourse.classroom import sandbox


def test_a_sound_installation(capsys):
    assert installation.doctor()
    said = capsys.readouterr().out
    assert "✗" not in said
    assert "torch" in said
    assert "front end" in said
    assert main(["doctor"]) == 0


def test_a_class_can_be_graded_or_what_is_missing_for_it(monkeypatch, capsys):
    """Only a teacher needs it, so nothing is wrong without."""
    for error, says in (
        (None, "✓ to grade a class: the sandbox works\n"),
        (sandbox.NoSandbox("Install it."), "only a teacher needs: not ready. Install it.\n"),
    ):

        def check(error=error):
            if error:
                raise error

        monkeypatch.setattr(sandbox, "check", check)
        assert installation.doctor()
        assert capsys.readouterr().out.endswith(says)


def test_other_versions_than_the_lock(monkeypatch, capsys):
    versions = installation._version
    monkeypatch.setattr(
        installation, "_version", lambda name: "0.0.1" if name == "anywidget" else versions(name)
    )
    assert main(["doctor"]) == 1
    assert "anywidget 0.0.1 (lock: ==" in capsys.readouterr().out


def test_a_missing_package(monkeypatch, capsys):
    versions = installation._version
    monkeypatch.setattr(
        installation, "_version", lambda name: None if name == "jaxtyping" else versions(name)
    )
    assert not installation.doctor()
    assert "missing packages: jaxtyping. To mend it, run `make -B lab`" in capsys.readouterr().out


def test_no_front_end_and_no_kernel(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(installation.sys, "prefix", str(tmp_path))
    assert not installation.doctor()
    said = capsys.readouterr().out
    assert "widgets cannot show, missing: @jupyter-widgets/jupyterlab-manager, anywidget" in said
    assert "python -m ipykernel install --sys-prefix" in said


def test_a_device_that_is_not_here(monkeypatch, capsys):
    monkeypatch.setenv("TFCOURSE_DEVICE", "tpu")
    assert not installation.doctor()
    assert "TFCOURSE_DEVICE must be one of cuda, mps, cpu" in capsys.readouterr().out


def test_little_memory(monkeypatch, capsys):
    monkeypatch.setattr(installation, "_allowed", lambda: 1.5e9)
    assert not installation.doctor()
    assert "only 1.5 GB of memory, and lessons want 2" in capsys.readouterr().out


def test_progress_that_cannot_be_saved(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TFCOURSE_HOME", str(tmp_path / "file" / "below"))
    assert not installation.doctor()
    assert "Set TFCOURSE_HOME" in capsys.readouterr().out


def test_unknown_commands_are_explained(capsys):
    with pytest.raises(SystemExit):
        main(["bild"])
    assert "invalid choice: 'bild'" in capsys.readouterr().err
