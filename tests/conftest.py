"""What all tests share: nobody's progress is touched, and torch keeps to one core a worker."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# CI tries the same examples each time; on a developer's machine new ones are found.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory):
    """Progress of the tests goes into a folder of theirs, in child processes too."""
    os.environ["TFCOURSE_HOME"] = str(tmp_path_factory.mktemp("home"))
    for name in ("TFCOURSE_STRICT", "NBGRADER_EXECUTION", "TFCOURSE_DEVICE"):
        os.environ.pop(name, None)


# They take longest, so they begin first: the last file of all should be a short one, since a worker
# that has no other leaves its processor idle.
LONGEST = (
    "tests/browser/test_jupyterlab.py",
    "tests/classroom/test_class.py",
    "tests/classroom/test_judge.py",
    "tests/test_notebooks.py",
    "tests/wrong_answers/test_diagnoses.py",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_terminal_summary(terminalreporter):
    """Say how long each notebook took, kernel start and all."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "seconds":
                terminalreporter.write_line(f"{value:4} s  {report.nodeid.split('::')[1]}")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A fresh folder of progress."""
    monkeypatch.setenv("TFCOURSE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session")
def root():
    """The folder of the course."""
    return ROOT
