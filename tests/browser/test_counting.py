"""In a real JupyterLab: a click counts on the board, links lead to exercises, nothing gets lost."""

import json

import nbformat
import pytest

from tests.browser.jupyterlab import serve

expect = pytest.importorskip("playwright.sync_api").expect

LESSON = "01_attention.ipynb"  # a short one: what it asks is the course's
ANSWER = """import torch
from tfcourse import check, progress, quiz
def causal_mask(tokens):
    return torch.ones(tokens, tokens).tril().bool()"""
CELLS = [ANSWER, 'quiz("01-trap")', "causal_mask = check(causal_mask)", "progress()"]
SECRET = "nothing complains"  # what is said to an option of that question


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    folder, own = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("server")
    new_text, new_code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [new_text("# 01 · Short\n\n*About 7 minutes.*"), *map(new_code, CELLS)]
    cells[1].metadata = {"exercise": "causal_mask", "minutes": 2}
    cells += [new_text("\n\n".join(["a long way"] * 80)), new_text("### Exercise · padding mask")]
    cells += [new_code("...", metadata={"exercise": "padding_mask", "minutes": 3})]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / LESSON)
    with serve(folder, own) as lab:
        yield lab, own / "tfcourse_home" / "progress.json"


@pytest.fixture(scope="module")
def opened(browser, server):
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    notebook = server[0].open(context, LESSON)
    assert notebook.run_all()
    yield notebook
    context.close()


def counted(notebook):
    return notebook.page.locator(".jp-Notebook .counted")


def choose(notebook, letter):
    [view] = notebook.views(1)
    view.locator(".option").nth("abc".index(letter)).click()


def latest(server):
    return json.loads(server[1].read_text())["questions"]["01-trap"]["latest"]


def test_a_click_counts(opened, server):
    for letter in "ab":
        choose(opened, letter)
        expect(counted(opened)).to_contain_text(
            "On your progress board: 0 of" if letter == "a" else "On your progress board: 1 of"
        )
        assert latest(server) == letter
    assert opened.troubles == []


def test_a_right_answer_leads_to_the_next_exercise(opened):
    page = opened.page
    heading = page.locator(".jp-Notebook h3", has_text="Exercise · padding mask")
    expect(heading).not_to_be_in_viewport()
    said = page.locator(".jp-Notebook [role=status]", has_text="Left in this lesson")
    expect(said).to_contain_text("Next: padding mask, about 3 minutes.")
    said.locator("a").click()
    expect(heading).to_be_in_viewport()
    expect(page.locator(".tfcourse-board [open] summary")).to_contain_text("01 Short")
    assert opened.troubles == []


def test_the_next_day(opened, server):
    """Without a kernel it is alive and says what to type; with one it counts again."""
    opened.command("docmanager:save")
    opened.reload_without_kernel()
    stored = (server[0].folder / LESSON).read_text()
    assert "01-trap" in stored
    assert SECRET not in stored
    choose(opened, "c")
    expect(counted(opened)).to_contain_text("because no Python is running here")
    expect(counted(opened).locator("code")).to_have_text('quiz("01-trap", "c")')
    assert latest(server) == "b"

    opened.new_kernel()
    assert opened.run_all()
    expect(counted(opened)).to_contain_text("On your progress board: 1 of")
    assert latest(server) == "b"  # what is only remembered takes nothing away
    choose(opened, "a")
    expect(counted(opened)).to_contain_text("On your progress board: 1 of")
    assert latest(server) == "a"
    assert opened.troubles == []
