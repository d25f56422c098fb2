"""The lessons and their views in a real JupyterLab: run, touched, read, reopened."""

import os
import re
import shutil
import subprocess
import sys
import time

import nbformat
import pytest

from tests import answers
from tests.browser.jupyterlab import serve
from tests.conftest import ROOT
from tfcourse.authoring.build import OFFLINE, find_lessons

expect = pytest.importorskip("playwright.sync_api").expect

LESSONS = find_lessons(ROOT)
HOSTILE = '<img src=x onerror="window.taken = true">'
TOKENS = ["the", "cat", HOSTILE, "</script>", "mat"]
CELLS = [
    f"""import torch
from tfcourse.widgets import AttentionMap
tokens = {TOKENS}
weights = torch.arange(1.0, 76).reshape(3, 5, 5)
weights /= weights.sum(-1, keepdim=True)""",
    "AttentionMap(weights, tokens, title=tokens[2])",
    "AttentionMap(weights.flip(0), tokens)",
    "AttentionMap(weights, tokens, title='from the kernel').widget()",
]


def weight(head, query, key):
    """What the cells above put into the first view."""
    row = [25 * head + 5 * query + k + 1 for k in range(5)]
    return row[key] / sum(row)


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "notebooks" / "glossary.ipynb", folder)
    shutil.copytree(ROOT / "notebooks" / "drawings", folder / "drawings")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for name, sources in {"touched": CELLS, "reopened": CELLS[:3]}.items():
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        nbformat.write(notebook, folder / f"{name}.ipynb")
    stored = nbformat.v4.new_output("display_data", {"text/html": "<b>not run today</b>"})
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS[:2]]
    cells.append(nbformat.v4.new_code_cell("later", outputs=[stored]))
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "begun.ipynb")
    link = nbformat.v4.new_markdown_cell("[a word](glossary.ipynb#cell-id=logits)")
    notebook = nbformat.v4.new_notebook(cells=[link], metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "linked.ipynb")
    own = tmp_path_factory.mktemp("server")
    subprocess.run(  # as `make lab` does
        [sys.executable, "-m", "jupyter", "trust", *folder.glob("*.ipynb")],
        env=os.environ | {"JUPYTER_DATA_DIR": str(own / "jupyter_data_dir")},
        check=True,
    )
    with serve(folder, own, **OFFLINE, **answers.STRICTLY) as lab:
        yield lab


@pytest.fixture(scope="module")
def open_notebook(browser, lab):
    """Open a notebook in a browser that remembers nothing."""
    contexts = []

    def open_(name):
        contexts.append(browser.new_context(viewport={"width": 1300, "height": 900}))
        return lab.open(contexts[-1], f"{name}.ipynb")

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def done():
    """Notebooks that a test needs no more; to turn to another takes a quarter of a new page."""
    return []


@pytest.fixture(scope="module")
def opened(open_notebook):
    notebook = open_notebook("touched")
    assert notebook.run_all()
    return notebook


@pytest.fixture
def notebook(opened):
    """The views above on a page; whatever a test does to them, nothing may go wrong."""
    opened.theme("JupyterLab Light")
    yield opened
    assert opened.troubles == []


def read(view):
    """The cell that a view reads out: (query, key, value)."""
    text = view.locator(".exact").inner_text().removeprefix("held · ")
    names, value = text.rsplit(": ", 1)
    query, key = (TOKENS.index(name) for name in names.split(" → "))
    return query, key, float(value)


def hover(view, query, key):
    """Move the mouse onto a cell, a walk of whole cells from the one in the middle."""
    view.locator(".map canvas").hover()
    cell = view.locator(".map .cell")
    cell.wait_for()
    from_query, from_key, _ = read(view)
    box = cell.bounding_box()
    x = box["x"] + (key - from_key + 0.5) * box["width"]
    y = box["y"] + (query - from_query + 0.5) * box["height"]
    view.page.mouse.move(x, y)
    expect(view.locator(".exact")).to_contain_text(f"{TOKENS[query]} → {TOKENS[key]}: ")


def choose(view, head):
    button = view.locator(".head", has_text=f"head {head}")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")


# --- the lessons ------------------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_solved_lesson_from_top_to_bottom(lab, open_notebook, done, lesson, record_property):
    """Every solution passes, and a right answer in another style carries the lesson to its end."""
    [chosen] = answers.rounds(lesson, one=True)
    nbformat.write(answers.notebook_with(lesson, chosen), lab.folder / f"{lesson.name}.ipynb")
    notebook = done.pop().turn_to(lesson.name) if done else open_notebook(lesson.name)
    started = time.monotonic()
    assert notebook.run_all()
    record_property("seconds", round(time.monotonic() - started))
    assert answers.other_verdicts(lesson, chosen, notebook.saved()) == []
    outputs = notebook.outputs()
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    shown = [str(o.get("data", {}).get("text/html", "")) for o in outputs]
    alive = sum('class="tfcourse-view"' in html for html in shown)
    assert alive >= 4  # three questions, and a view to touch
    notebook.views(alive)
    beyond = notebook.page.evaluate(
        """() => [...document.querySelectorAll(".jp-OutputArea-output")]
            .filter((box) => box.querySelector("figure.tfcourse-view"))
            .map((box) => [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight])"""
    )
    assert len(beyond) == alive
    assert all(pair == [0, 0] for pair in beyond), "a view has scroll bars"
    assert notebook.troubles == []
    notebook.end_kernel()
    done.append(notebook)


def test_a_word_leads_to_its_entry_in_the_glossary(open_notebook):
    page = open_notebook("linked").page
    page.get_by_role("link", name="a word").click()
    expect(page.locator("h2", has_text=re.compile("^logits"))).to_be_in_viewport(timeout=60_000)
    expect(page.locator("h2", has_text=re.compile("^activation"))).not_to_be_in_viewport()
    page.context.close()


# --- a view, touched --------------------------------------------------------------------------


def test_the_mouse_reads_a_cell_and_switches_heads(notebook):
    view, *_ = notebook.views(3)
    for head in (2, 0):
        choose(view, head)
        for query, key in ((3, 1), (0, 4)):
            hover(view, query, key)
            assert read(view)[2] == pytest.approx(weight(head, query, key), rel=5e-3)
    expect(view.locator(".says")).to_contain_text("the attends 33% to mat")


def test_the_keyboard_does_the_same(notebook):
    """From the notebook on by keys alone, and JupyterLab takes none of them."""
    page, cells = notebook.page, notebook.count_cells()
    view, *_ = notebook.views(3)
    choose(view, 0)
    page.locator(".jp-InputArea-editor").first.click()
    page.keyboard.press("Escape")
    focused = "() => document.activeElement.shadowRoot?.activeElement?.className ?? ''"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "map":
            break
    assert page.evaluate(focused) == "map"
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(view.locator(".exact")).to_contain_text("</script> → cat: ")
    assert read(view) == (3, 1, pytest.approx(weight(0, 3, 1), rel=5e-3))
    page.keyboard.press("PageDown")
    expect(view.locator(".head", has_text="head 1")).to_have_attribute("aria-pressed", "true")
    assert read(view)[2] == pytest.approx(weight(1, 3, 1), rel=5e-3)
    expect(page.locator(".jp-Notebook .spoken").first).to_have_text("head 1")
    for key in ("b", "a"):  # JupyterLab's own: a cell below, a cell above
        page.keyboard.press(key)
    assert notebook.count_cells() == cells


def test_two_views_keep_apart_and_the_widget_is_the_same_view(notebook):
    first, second, widget = notebook.views(3)
    choose(first, 2)
    choose(second, 0)
    choose(widget, 1)
    hover(widget, 2, 3)
    assert read(widget)[2] == pytest.approx(weight(1, 2, 3), rel=5e-3)
    hover(second, 4, 0)  # its heads stand in the opposite order
    assert read(second)[2] == pytest.approx(weight(2, 4, 0), rel=5e-3)
    hover(first, 1, 1)
    assert read(first)[2] == pytest.approx(weight(2, 1, 1), rel=5e-3)
    assert read(second)[:2] == (4, 0)
    pressed = [v.locator(".head[aria-pressed=true]").inner_text() for v in (first, second, widget)]
    assert [text.split("\n")[0] for text in pressed] == ["head 2", "head 0", "head 1"]


# What the eye gets: colours laid over the paper they stand on.
LUMINANCES = """(root) => {
    const parse = (color) => color.match(/[\\d.]+/g).map(Number);
    const paper = parse(getComputedStyle(root).backgroundColor);
    const luminance = ([r, g, b, alpha = 1]) => {
        const [red, green, blue] = [r, g, b]
            .map((x, i) => (alpha * x + (1 - alpha) * paper[i]) / 255)
            .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ink = (part) => luminance(parse(getComputedStyle(root.querySelector(part)).color));
    const canvas = root.querySelector(".map canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width / 8, canvas.height);
    const pixels = Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 4));
    const thickest = pixels.reduce((a, b) => (b[3] > a[3] ? b : a)); // not a letter's soft edge
    const [r, g, b, opaque] = thickest;
    return {
        paper: luminance(paper), title: ink(".title"), value: ink(".exact"),
        labels: luminance([r, g, b, opaque / 255]),
    };
}"""


def contrast(one, other):
    high, low = max(one, other), min(one, other)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_both_themes_are_readable(notebook, theme):
    view, *_ = notebook.views(3)
    notebook.theme(f"JupyterLab {theme}")
    dark = theme == "Dark"
    expect(view).to_have_class("view dark" if dark else "view")
    notebook.page.wait_for_timeout(300)  # the canvas is drawn again in the next frames
    found = view.evaluate(LUMINANCES)
    assert (found["paper"] < 0.1) == dark
    for part in ("title", "value", "labels"):
        assert contrast(found["paper"], found[part]) >= 4.5, (part, found)


def test_strings_are_text(notebook):
    first, *_ = notebook.views(3)
    page = notebook.page
    expect(first.locator(".title")).to_have_text(HOSTILE)
    hover(first, 2, 3)
    expect(first.locator(".says .token").first).to_have_text(HOSTILE)
    assert first.locator("img").count() == 0
    assert page.locator('img[src="x"]').count() == 0
    assert page.evaluate("() => window.taken") is None


# --- the next day -----------------------------------------------------------------------------


def test_alive_without_a_kernel_and_after_a_restart(open_notebook):
    notebook = open_notebook("reopened")
    assert notebook.run_all()
    notebook.views(2)

    notebook.reload_without_kernel()
    view, _ = notebook.views(2)
    choose(view, 1)
    hover(view, 3, 2)
    assert read(view)[2] == pytest.approx(weight(1, 3, 2), rel=5e-3)

    for _ in range(2):  # a kernel for the first time today, then in place of the one that is there
        notebook.new_kernel()
        assert notebook.run_all()
        view, _ = notebook.views(2)
        hover(view, 3, 2)
        assert read(view)[2] == pytest.approx(weight(0, 3, 2), rel=5e-3)
    assert notebook.troubles == []


def test_what_was_run_is_alive_the_next_day_though_the_rest_was_not(open_notebook):
    notebook = open_notebook("begun")
    notebook.page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 2; }")
    notebook.command("notebook:run-all-above")
    notebook.views(1)
    notebook.reload_without_kernel()
    [view] = notebook.views(1)
    choose(view, 1)
    assert notebook.troubles == []
