"""Pages for the browser tests; each fails on a request to anywhere and on any error."""

import pytest

from tests.browser.pages import chromium, find_chromium, page_of, write_page

ENABLE = "no Chromium here: apt-get install chromium (or install Chrome) enables this test"


@pytest.fixture(scope="session")
def browser():
    if find_chromium() is None:
        pytest.skip(ENABLE)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = chromium(playwright)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open HTML in a fresh context; at the end nothing may have failed or left the page."""
    contexts, wrong = [], []

    def note_request(request):
        if not request.url.startswith(("file:", "blob:", "data:")):
            wrong.append(f"a request left the page: {request.url}")

    def note_console(message):
        if message.type == "error":
            wrong.append(f"console: {message.text}")

    def open_(html, *, dark=False, width=760):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("request", note_request)
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on("console", note_console)
        page.goto(write_page(tmp_path, html))
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture
def show(open_page):
    """Show one view or several, alive: `show(view, host="html" or "module", dark=False)`."""

    def show_(*views, host="html", dark=False, width=760):
        page = open_page(page_of(views, host=host, dark=dark), dark=dark, width=width)
        page.locator(".view").nth(len(views) - 1).wait_for()
        return page

    return show_
