"""Cells that answer a prediction: nothing of it is stored, and yet the tests compare it."""

import json

import nbformat
import pytest

from tests.conftest import ROOT
from tests.test_build import built, course, rewrite  # noqa: F401  (fixtures)
from tests.test_notebooks import nbval
from tfcourse.authoring import build as building
from tfcourse.authoring.predictions import COMPARED, INSTEAD, TAG, restored, withhold

SECRET = "forty-two"


def notebook_with(*tags):
    new = nbformat.v4.new_output
    outputs = [
        new("stream", name="stdout", text=f"{SECRET}\n"),
        new("display_data", {"text/html": f"<b>{SECRET}</b>", "image/png": "QUJD"}),
    ]
    cell = nbformat.v4.new_code_cell("print(x)", outputs=outputs, execution_count=7)
    cell.metadata.tags = list(tags)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("Predict."), cell])


@pytest.mark.parametrize("tags", [(TAG,), (COMPARED, TAG)])
def test_neither_text_nor_html_nor_picture_stays(tags):
    notebook = notebook_with(*tags)
    before = nbformat.from_dict(notebook.cells[1].outputs)
    withhold(notebook)
    nbformat.validate(notebook)
    stored = nbformat.writes(notebook)
    assert SECRET not in stored
    assert "QUJD" not in stored
    cell = notebook.cells[1]
    assert [o.data for o in cell.outputs] == [{"text/plain": INSTEAD}]
    assert COMPARED not in cell.metadata.tags  # nbval would compare the line above
    again = restored(nbformat.reads(stored, as_version=4)).cells[1]
    if COMPARED in tags:
        assert again.outputs == before
        assert set(again.metadata.tags) == set(tags)
        assert "withheld" not in again.metadata
    else:
        assert again.outputs == cell.outputs


def test_other_cells_are_left_alone():
    notebook = notebook_with(COMPARED)
    before = nbformat.writes(notebook)
    withhold(notebook)
    assert nbformat.writes(restored(notebook)) == before


def test_build_withholds_and_nbval_still_compares(course, built, record_property):  # noqa: F811
    source, target = course / "solutions/01_tiny.py", course / "notebooks/01_tiny.ipynb"
    rewrite(source, "# %%\nx = 3", f'# %% tags=["{COMPARED}", "{TAG}"]\nx = 3\nprint("{SECRET}")')
    assert any("its source has changed" in line for line in building.check(course))
    building.build(course, say=lambda *a, **k: None)
    assert building.check(course) == []
    stored = json.loads(target.read_text())
    shown = json.dumps([c.get("outputs") for c in stored["cells"]])
    assert INSTEAD in shown
    assert SECRET not in shown
    before = target.read_text()
    building.build(course, say=lambda *a, **k: None)
    assert target.read_text() == before

    assert nbval(target, record_property) == 5  # as it is stored, nothing fails
    whole = nbformat.writes(restored(nbformat.read(target, as_version=4)))
    target.write_text(whole)
    assert nbval(target, record_property) == 5
    target.write_text(whole.replace(f'"{SECRET}\\n"', '"something else\\n"'))
    with pytest.raises(AssertionError, match="something else"):
        nbval(target, record_property)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_the_notebooks_withhold_what_their_sources_say(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if TAG in cell.metadata.get("tags", []):
            assert [o.data for o in cell.outputs] == [{"text/plain": INSTEAD}]


# Their feedback is the answer: no cell measures it.
ANSWERED_IN_WORDS = {
    'quiz("00-square")',
    'quiz("01-other-scale")',
    'quiz("01-zero-after")',
    'quiz("08-teacher")',
}


@pytest.mark.parametrize("lesson", building.find_lessons(ROOT), ids=lambda lesson: lesson.name)
def test_every_prediction_is_answered_by_a_cell_that_is_not_stored(lesson):
    cells = lesson.source.cells
    [end] = [i for i, c in enumerate(cells) if "## Ask yourself" in c.source]
    asked = 0
    for i, cell in enumerate(cells[:end]):
        text = cell.source
        if cell.cell_type == "markdown":
            asks = "**Predict" in text
        else:
            asks = text.startswith("quiz(") and text not in ANSWERED_IN_WORDS
        if asks:
            asked += 1
            after = [c for c in cells[i + 1 : end] if c.cell_type == "code"][:6]
            assert any(TAG in c.metadata.get("tags", []) for c in after), text[-200:]
    assert asked >= 3
