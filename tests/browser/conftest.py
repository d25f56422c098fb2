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


@pytest.fixture(scope="session")
def unused(browser):
    """Pages that no test has now: to visit one again takes half of what a new one takes."""
    return []


@pytest.fixture
def open_page(browser, unused, tmp_path):
    """Open HTML in a page that remembers nothing; at the end nothing may have failed or left it."""
    pages, wrong = [], []

    def note_request(request):
        if not request.url.startswith(("file:", "blob:", "data:")):
            wrong.append(f"a request left the page: {request.url}")

    def note_console(message):
        if message.type == "error":
            wrong.append(f"console: {message.text}")

    def note_error(error):
        wrong.append(f"page error: {error}")

    noted = {"request": note_request, "console": note_console, "pageerror": note_error}

    def open_(html, *, dark=False, width=760):
        page = unused.pop() if unused else browser.new_context().new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        colour = "dark" if dark else "light"
        page.emulate_media(color_scheme=colour, reduced_motion="no-preference")
        page.set_default_timeout(8000)
        for event, note in noted.items():
            page.on(event, note)
        page.goto(write_page(tmp_path, html))
        return page

    yield open_
    for page in pages:
        page.evaluate("() => localStorage.clear()")
        page.mouse.move(0, 0)
        for event, note in noted.items():
            page.remove_listener(event, note)
        page.goto("about:blank")  # nothing on it goes on
    assert not wrong
    unused.extend(pages)


@pytest.fixture
def show(open_page):
    """Show one view or several, alive: `show(view, host="html" or "module", dark=False)`."""

    def show_(*views, host="html", dark=False, width=760):
        page = open_page(page_of(views, host=host, dark=dark), dark=dark, width=width)
        page.locator(".view").nth(len(views) - 1).wait_for()
        return page

    return show_
