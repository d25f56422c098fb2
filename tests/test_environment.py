"""The three lists of packages agree, and name no host and no folder of anybody's machine."""

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def pins(root):
    lines = (root / "requirements.lock").read_text().splitlines()
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            pin = Requirement(line)
            found.setdefault(pin.name.lower(), []).append(pin)
    return found


def test_environment_yml_equals_pyproject(root, project):
    listed = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    by_pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    how = ["--constraint requirements.lock", "--editable ."]
    assert sorted(by_pip) == sorted([*project["dependencies"], *how])
    assert any(str(x).startswith(f"python{project['requires-python']}") for x in listed)


def test_the_lock_holds_every_dependency_within_its_range(project, pins):
    for text in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
        wanted = Requirement(text)
        assert wanted.name.lower() in pins, f"{wanted.name} is not in the lock: make lock"
        for pin in pins[wanted.name.lower()]:
            version = str(pin.specifier).removeprefix("==")
            assert wanted.specifier.contains(version), f"{pin} is outside {wanted}: make lock"


def test_the_lock_pins_exactly(pins):
    assert str(pins["torch"][0].specifier) == "==2.13.0"
    assert all(re.fullmatch(r"==[^=,*]+", str(p.specifier)) for ps in pins.values() for p in ps)


def test_reading_a_notebook_builds_no_grammars(pins):
    """With it, 2.5 s at each start of JupyterLab, nbconvert, nbgrader and our own commands."""
    assert "rfc3987-syntax" not in pins


def test_no_host_and_no_folder_of_a_machine(root):
    for name in ("requirements.lock", "environment.yml", "pyproject.toml", "Makefile", ".ci/run"):
        text = (root / name).read_text()
        assert not re.search(r"https?://|file://|/(?:home|root)/|index-url\s*=", text), name


def test_nbgrader_stays_out_of_the_learners_environment(project):
    everyday = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    assert not [text for text in everyday if "nbgrader" in text]
