"""Every topic that a built lesson owes has the heading that is promised for it."""

import json
import re

import pytest

IDS = (
    [f"A{i}" for i in range(1, 16)]
    + [f"P{i}" for i in range(1, 8)]
    + [f"N{i}" for i in range(1, 8)]
    + [f"F{i}" for i in range(1, 8)]
    + [f"B{i}" for i in range(1, 13)]
    + [f"M{i}" for i in range(1, 10)]
    + [f"R{i}" for i in range(1, 10)]
)


@pytest.fixture(scope="module")
def rows(root):
    table = (root / "notebooks" / "TOPICS.md").read_text()
    return re.findall(r"^\| ([A-Z]\d+) \| (\w+) \| (.*?) ?\|$", table, re.MULTILINE)


def headings(path):
    cells = json.loads(path.read_text())["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]


def test_no_topic_is_forgotten(rows):
    assert sorted(row[0] for row in rows) == sorted(IDS)


def test_every_built_lesson_covers_its_topics(root, rows):
    missing = []
    for topic, lesson, heading in rows:
        path = root / "notebooks" / f"{lesson}.ipynb"
        if path.is_file() and not (heading and any(heading in h for h in headings(path))):
            missing.append(f"{topic}: no heading {heading!r} in {path.name}")
    assert not missing


def test_the_table_is_about_lessons_that_exist_or_will(root, rows):
    built = {path.stem for path in (root / "notebooks").glob("[0-9]*.ipynb")} - {"00_start_here"}
    assert built <= {lesson for _, lesson, _ in rows}
