"""The workflows run what `make test` runs, on the Pythons that the project says it supports."""

import re
import tomllib

import pytest
import yaml


@pytest.fixture(scope="module")
def workflows(root):
    """Name -> jobs; YAML reads the key `on` as True."""
    files = sorted((root / ".github/workflows").glob("*.yml"))
    return {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in files}


@pytest.fixture(scope="module")
def pythons(root):
    """The oldest Python of pyproject.toml, and the newest that environment.yml allows."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = re.fullmatch(r">=(3\.\d+)", project["requires-python"])[1]
    listed = yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    beyond = re.search(r"<3\.(\d+)", next(x for x in listed if str(x).startswith("python")))[1]
    return [oldest, f"3.{int(beyond) - 1}"]


def commands(job):
    return [
        line.strip() for step in job["steps"] for line in step.get("run", "").splitlines() if line
    ]


def recipe(root, target):
    """The lines below a target of the Makefile, without the folder that commands lie in."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    below = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    return [line.strip().replace("$(BIN)/", "") for line in below.splitlines()]


def test_all_are_there_and_start_by_themselves(workflows):
    assert set(workflows) == {"tests", "weekly", "pages"}
    assert workflows["pages"][True]["push"] == {"branches": ["main"]}
    assert {"push", "pull_request"} <= set(workflows["tests"][True])
    assert len(workflows["weekly"][True]["schedule"]) == 1


def test_the_three_systems_with_the_oldest_and_the_newest_python(workflows, pythons):
    by_make, by_conda = workflows["tests"]["jobs"]["make"], workflows["tests"]["jobs"]["conda"]
    assert by_make["strategy"]["matrix"]["os"] == ["ubuntu-latest", "macos-latest"]
    assert by_conda["runs-on"] == "windows-latest"
    for job in (by_make, by_conda):
        assert job["strategy"]["matrix"]["python"] == pythons
    newest = workflows["weekly"]["jobs"]["newest"]["steps"][1]["with"]["python-version"]
    assert newest == pythons[-1]


def test_they_run_what_make_test_runs(workflows, root):
    jobs = workflows["tests"]["jobs"] | workflows["weekly"]["jobs"]
    for name in ("make", "newest"):
        assert "make test" in commands(jobs[name])
    steps = recipe(root, "check") + recipe(root, "test")
    assert len(steps) == 6
    ran = commands(jobs["conda"])
    assert [step for step in ran if step in steps] == steps


def test_weekly_takes_no_lock_and_asks_for_the_verdicts(workflows):
    jobs = workflows["weekly"]["jobs"]
    ran = "\n".join(commands(jobs["newest"]))
    assert "--upgrade-strategy eager" in ran
    assert "requirements.lock" not in ran
    assert "python -m tfcourse verdicts" in ran
    assert "GITHUB_STEP_SUMMARY" in ran
    assert any("lychee" in step.get("uses", "") for step in jobs["links"]["steps"])


def test_pages_publishes_what_was_made_and_looked_at(workflows, pythons):
    jobs = workflows["pages"]["jobs"]
    ran = commands(jobs["make"])
    look = "TFCOURSE_SITE=build/site .venv/bin/python -m pytest tests/browser/test_site.py"
    assert ran.index("make site") < ran.index(look)
    assert jobs["make"]["steps"][1]["with"]["python-version"] == pythons[-1]
    [upload] = [s for s in jobs["make"]["steps"] if "upload-pages" in s.get("uses", "")]
    assert upload["with"] == {"path": "build/site"}
    assert jobs["publish"]["needs"] == "make"


def test_they_may_read_and_nothing_else_but_publish_the_pages(workflows):
    for workflow in workflows.values():
        assert workflow["permissions"] == {"contents": "read"}
    jobs = {name: job for workflow in workflows.values() for name, job in workflow["jobs"].items()}
    more = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert more == {"publish": {"pages": "write", "id-token": "write"}}
