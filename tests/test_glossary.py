"""The glossary: sorted, every entry linked from somewhere, and no link leads nowhere."""

import json
import re
from functools import cache

import pytest

from tests.conftest import ROOT
from tfcourse.authoring.build import find_glossary, find_lessons
from tfcourse.authoring.lesson import anchor

LINK = re.compile(r"\]\((\w+\.ipynb)?#(?:cell-id=)?([^)\s]+)\)")
[GLOSSARY] = find_glossary(ROOT)


def words(notebook):
    """The cells of text."""
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def places(notebook):
    """Where a link can lead: the headings, as JupyterLab names them."""
    lines = "\n".join(words(notebook)).splitlines()
    return {anchor(line.lstrip("# ")) for line in lines if re.match(r"#+ ", line)}


NOTEBOOKS = {f"{lesson.name}.ipynb": lesson for lesson in (*find_lessons(ROOT), GLOSSARY)}
LESSONS = [name for name in NOTEBOOKS if name != "glossary.ipynb"]
ENTRIES = {text.splitlines()[0].removeprefix("## "): text for text in words(GLOSSARY.source)[1:]}


@cache
def notebook(name):
    return NOTEBOOKS[name].learners()


@cache
def places_in(name):
    return places(notebook(name))


def test_entries_are_sorted_and_no_two_are_one():
    assert len(ENTRIES) == len(GLOSSARY.source.cells) - 1
    assert list(ENTRIES) == sorted(ENTRIES, key=str.casefold)
    assert len({name.casefold() for name in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_leads_to_its_lesson_and_says_what_it_is(name):
    _, said, *_, first = ENTRIES[name].split("\n\n")
    assert 30 < len(said) < 600
    assert "<" not in said  # no HTML
    assert re.search(r"\]\(\d\d_\w+\.ipynb#", first)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_link_to_a_place_has_its_heading(name):
    texts = words(notebook(name))
    for target, place in LINK.findall("\n".join(texts)):
        assert place in places_in(target or name), f"{name}: {target}#{place}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_link_to_a_notebook_leads_to_one(name):
    texts = words(notebook(name))
    assert set(re.findall(r"\]\((\w+\.ipynb)", "\n".join(texts))) <= set(NOTEBOOKS)


@pytest.mark.parametrize("name", LESSONS)
def test_lessons_link_terms_in_moderation_and_never_in_a_heading(name):
    text = "\n".join(words(notebook(name)))
    fewest = 1 if name.startswith("00") else 5
    assert fewest <= text.count("](glossary.ipynb#") <= 15
    # JupyterLab finds the heading only in a notebook that is open already, the cell always.
    assert "](glossary.ipynb#" not in text.replace("](glossary.ipynb#cell-id=", "")
    assert not re.search(r"^#.*glossary\.ipynb", text, re.MULTILINE)


def test_every_entry_is_linked():
    texts = [text for name in LESSONS for text in words(notebook(name))]
    linked = {p for target, p in LINK.findall("\n".join(texts)) if target == "glossary.ipynb"}
    for name, text in ENTRIES.items():
        linked |= {p for target, p in LINK.findall(text) if not target and p != anchor(name)}
    assert {anchor(name) for name in ENTRIES} <= linked


def test_the_notebook_is_no_lesson():
    assert GLOSSARY.name not in {lesson.name for lesson in find_lessons(ROOT)}
    notebook = json.loads((ROOT / "notebooks/glossary.ipynb").read_text(encoding="utf-8"))
    assert [cell["id"] for cell in notebook["cells"]] == ["Glossary", *map(anchor, ENTRIES)]
    assert {cell["cell_type"] for cell in notebook["cells"]} == {"markdown"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"  # JupyterLab asks for none
