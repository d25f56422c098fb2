"""The published pages in a browser: alive without a kernel, and asking no other host for anything.

A small course of two lessons is run and made into pages. `TFCOURSE_SITE=build/site` looks at what
`make site` wrote instead: the workflow does so before it publishes.
"""

import io
import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from tests.browser.pages import settled
from tfcourse.authoring import site as making
from tfcourse.authoring.build import find_lessons

pytest.importorskip("furo", reason="no Furo here: pip install -e '.[site]' enables this test")

SMALL = {
    "00_start_here": """
# %% [markdown]
# # 00 · Start here
#
# ![](drawings/map.svg)

# %% [markdown]
# The dot product of two vectors, which [lesson 01](01_attention.ipynb) needs and
# [lesson 12](12_scale.ipynb) too:
#
# $$q \\cdot k = \\sum_{i=1}^{d} q_i k_i$$
#
# **Predict** which is the largest.

# %%
import torch

from tfcourse import check, quiz
from tfcourse.widgets import AttentionMap

quiz("00-dog")

# %% tags=["after-prediction"]
AttentionMap(torch.eye(3), ["a", "b", "c"], title="Who looks at whom?")

# %% [markdown]
# ## Exercise · similarities

# %% exercise="similarities" difficulty=1 minutes=5
def similarities(q, keys):
    ### BEGIN SOLUTION
    every_key_beside_the_query = keys * q
    return every_key_beside_the_query.sum(dim=1)
    ### END SOLUTION


# %% check="similarities"
similarities = check(similarities)

# %% [markdown]
# ## Exercise · cosine similarities

# %% exercise="cosine_similarities" difficulty=2 minutes=15 graded=true points=4
def cosine_similarities(q, keys):
    ### BEGIN SOLUTION
    length_of_the_query, length_of_each_key = q.norm(), keys.norm(dim=1)
    return keys @ q / (length_of_the_query * length_of_each_key)
    ### END SOLUTION


# %% check="cosine_similarities"
cosine_similarities = check(cosine_similarities)
""",
    "01_attention": """
# %% [markdown]
# # 01 · Attention
#
# ![](drawings/map.svg)
#
# ![](drawings/heads.svg)

# %%
from tfcourse import figures
from tfcourse.widgets import Activations

Activations()

# %%
title = "Does it fall?"
figures.lines([1, 2], {"loss": [2, 1]}, title, x_label="step", y_label="nats", alt="It falls.")
""",
}


@pytest.fixture(scope="module")
def course(root, tmp_path_factory):
    """The folder of the course, and that of its pages."""
    if os.environ.get("TFCOURSE_SITE"):
        return root, root / os.environ["TFCOURSE_SITE"]
    small = tmp_path_factory.mktemp("course")
    for name in ("solutions", "notebooks", "docs"):
        (small / name).mkdir()
    shutil.copytree(root / "docs" / "site", small / "docs" / "site")
    shutil.copy(root / "README.md", small)
    for name, text in SMALL.items():
        (small / "solutions" / f"{name}.py").write_text(text.lstrip(), encoding="utf-8")
    return small, making.build(small, say=lambda *_, **__: None)


@pytest.fixture
def visit(course, browser):
    """Open a page as it is published; at the end nothing may have failed or left the site."""
    handler = partial(Quiet, directory=str(course[1]))
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home, contexts, wrong = f"http://127.0.0.1:{server.server_port}/", [], []

    def visit_(name, *, at=home, dark=False, width=1280):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(40000)
        page.on(
            "request",
            lambda r: None if r.url.startswith((at, "blob:", "data:")) else wrong.append(r.url),
        )
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
        page.goto(at + name)
        return page

    yield visit_
    for context in contexts:
        context.close()
    server.shutdown()
    server.server_close()
    assert not wrong


class Server(ThreadingHTTPServer):
    request_queue_size = (
        64  # a browser asks for many files at once; those refused come seconds late
    )


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def alive(page):
    """Wait until every view of the page stands in place of its picture; how many there are."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('figure.tfcourse-view')].every((f) => f.firstElementChild.shadowRoot)"
    )
    return page.locator("figure.tfcourse-view").count()


def names(course):
    return [lesson.name for lesson in find_lessons(course[0])]


def test_every_view_of_every_page_is_alive_served_or_from_disk(course, visit):
    views = 0
    for name in names(course):
        views += alive(visit(f"{name}.html"))
        alive(visit(f"{name}.html", at=f"{course[1].as_uri()}/"))
    assert views >= 3


def test_a_page_is_small_and_fits_a_telephone(course, visit):
    for name in ("index", *names(course)):
        assert (course[1] / f"{name}.html").stat().st_size <= 2_000_000
        page = visit(f"{name}.html", width=420)
        alive(page)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_question_answers_and_remembers_without_a_kernel(visit):
    page = visit("00_start_here.html")
    question = page.locator(".view[aria-label=Question]").first
    feedback = question.locator(".feedback")
    assert not feedback.is_visible()
    question.get_by_role("radio").nth(0).click()
    assert feedback.inner_text().startswith("✗ Not quite.")
    question.get_by_role("radio").nth(1).click()
    assert feedback.inner_text().startswith("✓ Right.")
    page.reload()
    page.locator(".view[aria-label=Question]").first.locator(".feedback").wait_for()


def test_what_answers_a_prediction_waits_behind_a_click(course, visit):
    tagged = [
        n
        for n in names(course)
        if "after-prediction" in (course[0] / f"solutions/{n}.py").read_text("utf-8")
    ]
    assert tagged
    page = visit(f"{tagged[0]}.html")
    alive(page)
    hidden = page.locator("details.hide").first
    output = hidden.locator(".output, figure").first
    assert not output.is_visible()
    summary = hidden.locator("summary")
    assert "prediction" in summary.inner_text()
    summary.click()
    assert output.is_visible()
    for canvas in hidden.locator("canvas").all():  # drawn although there was no room at first
        assert canvas.bounding_box()["width"] > 50


def test_hints_come_one_after_another(visit):
    page = visit("00_start_here.html")
    hints = page.locator("details.hint")
    outermost = page.locator("details.hint:not(details.hint details.hint)")
    assert hints.count() == 3 * outermost.count() > 0
    for i in range(3):
        hint = hints.nth(i)
        text = hint.locator("> p")
        assert not text.is_visible()
        hint.locator("> summary").click()
        assert text.is_visible()


def test_no_page_holds_a_solution(course, visit):
    lessons = find_lessons(course[0])
    assert making.problems(course[1], lessons) == []
    text = visit("00_start_here.html").locator("body").text_content()  # hidden text, too
    assert "cosine_similarities(" in text
    for told in ("every_key_beside_the_query", "length_of_each_key", "BEGIN SOLUTION"):
        assert told not in text
    assert not list(course[1].rglob("*.ipynb*"))  # nor do Sphinx's copies of its sources


def test_the_search_finds_a_lesson(visit):
    page = visit("index.html")
    page.get_by_placeholder("Search").first.fill("attention")
    page.keyboard.press("Enter")
    found = page.locator("ul.search a[href^='01_attention.html']").first
    found.wait_for()
    found.click()
    page.wait_for_url("**/01_attention.html*")


def test_page_views_and_drawings_share_one_theme(visit):
    grounds = """() => [
      document.body,
      document.querySelector("figure.tfcourse-view > div").shadowRoot.querySelector(".view"),
    ].map((x) => getComputedStyle(x).backgroundColor)"""
    card = "() => getComputedStyle(document.querySelector('.drawing .card')).fill"

    def figure(page):
        shown = page.locator("figure > img[src^='data:image/svg']:visible").first
        shown.scroll_into_view_if_needed()
        image = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
        return "rgb({}, {}, {})".format(*image.getpixel((image.width // 2, 3)))

    for prefers_dark in (False, True):
        page = visit("01_attention.html", dark=prefers_dark)
        alive(page)
        settled(page)
        fill = page.evaluate(card)
        seen = {}
        for theme in ("preferred", "light", "dark"):
            if theme != "preferred":
                page.evaluate("(theme) => { document.body.dataset.theme = theme; }", theme)
                settled(page)
            [body, view] = page.evaluate(grounds)
            assert body == view
            seen[theme] = (body, page.evaluate(card))
            assert figure(page) == seen[theme][1]
        assert seen["preferred"] == seen["dark" if prefers_dark else "light"]
        assert seen["light"][0] != seen["dark"][0]
        assert seen["light"][1] != seen["dark"][1]
        assert fill == seen["preferred"][1]


def test_a_view_hears_of_the_theme(visit):
    page = visit("00_start_here.html")
    alive(page)
    view = page.locator(".view[aria-label=Question]").first
    page.locator(".theme-toggle:visible").first.click()  # from the preference, light, to dark
    page.wait_for_function("(view) => view.classList.contains('dark')", arg=view.element_handle())


def test_the_map_leads_to_the_lessons_and_back(course, visit):
    page = visit("index.html")
    for name in names(course):
        assert page.locator(f'.drawing a[href="{name}.html"]').count() >= 1
    page.locator('.drawing a[href="01_attention.html"]').first.click()
    page.wait_for_url("**/01_attention.html")
    page.locator('.drawing a[href="00_start_here.html"]').first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/00_start_here.html")
    assert page.get_by_role("link", name="take the course to your machine").count() == 1


def test_formulas_are_drawn_without_a_script_in_a_font_that_came_along(course, visit):
    assert 10_000 < (course[1] / "_static" / "math.woff").stat().st_size < 150_000
    page = visit("00_start_here.html")
    formula = page.locator(".formula math").first
    formula.scroll_into_view_if_needed()
    page.wait_for_function(
        "[...document.fonts].some((f) => /STIX/.test(f.family) && f.status === 'loaded')"
    )
    settled(page)
    assert formula.bounding_box()["height"] > 40  # the limits stand above and below a large sum
    assert page.locator("mjx-container, .katex").count() == 0
