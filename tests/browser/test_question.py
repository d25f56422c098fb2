"""Question in Chromium: answers at once, remembers, forgives, reads as a list without scripts."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.pages import page_of
from tfcourse.widgets import Question

EVIL = "<img src=x onerror=document.title='pwned'>"
OPTIONS = [
    ("`q @ k`", False, "No transpose."),
    (EVIL, False, "Not `this` one."),
    ("right", True, "Because </script>."),
]


@pytest.fixture
def question():
    return Question("t-one", "Which `one`?", OPTIONS)


def feedback(page):
    return page.locator(".feedback:not([hidden])").all_inner_texts()


def kept(page, name="t-one"):
    return json.loads(page.evaluate(f"localStorage.getItem('tfcourse:quiz:{name}')"))


@pytest.mark.parametrize("host", ["html", "module"])
def test_feedback_for_every_option(show, question, host):
    page = show(question, host=host)
    assert feedback(page) == []
    for i, said in enumerate(("✗ Not quite. No transpose.", "✗ Not quite. Not this one.")):
        page.locator(".option").nth(i).click()
        assert feedback(page) == [said]
    page.locator(".option").nth(2).click()
    assert feedback(page) == ["✓ Right. Because </script>."]
    assert page.title() != "pwned"
    assert page.locator(".option").nth(1).inner_text().endswith(EVIL)
    assert page.locator(".option code").first.inner_text() == "q @ k"
    if host == "module":
        assert page.evaluate("window.saved.chosen.chosen") == 2


def test_it_remembers_over_a_reload(show, question):
    page = show(question)
    page.locator(".option").nth(0).click()
    page.locator(".option").nth(2).click()
    assert kept(page) == {"chosen": 2, "right": True, "tries": 2, "first": 0}
    page.reload()
    page.locator(".view").wait_for()
    assert feedback(page) == ["✓ Right. Because </script>."]
    assert page.locator("[aria-checked=true]").count() == 1


def test_two_questions_keep_apart(show, question):
    other = Question("t-two", "And this?", OPTIONS)
    page = show(question, other)
    page.locator(".view").nth(1).locator(".option").nth(2).click()
    assert page.locator(".view").nth(0).locator("[aria-checked=true]").count() == 0
    assert kept(page, "t-two")["right"]


def test_keyboard_alone(show, question):
    page = show(question)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert feedback(page) == []  # looking is not choosing
    page.keyboard.press("Enter")
    assert feedback(page) == ["✗ Not quite. Not this one."]
    page.keyboard.press("c")
    assert feedback(page) == ["✓ Right. Because </script>."]
    expect(page.locator(".spoken")).to_have_text("Right. Because </script>.")
    assert page.locator(".option[tabindex='0']").count() == 1


def test_damaged_or_forbidden_memory_is_forgiven(open_page, question):
    for spoil in (
        "localStorage.setItem('tfcourse:quiz:t-one', '{')",
        "localStorage.setItem('tfcourse:quiz:t-one', '{\"chosen\": 17}')",
        "Storage.prototype.getItem = Storage.prototype.setItem = () => { throw new Error('no'); }",
    ):
        page = open_page(f"<script>{spoil}</script>" + page_of([question]))
        page.locator(".option").nth(2).click()
        assert feedback(page) == ["✓ Right. Because </script>."]


def test_without_scripts_it_can_be_read(open_page, question):
    page = open_page(page_of([question], script=False))
    assert page.locator("li").all_inner_texts() == ["q @ k", EVIL, "right"]
    assert "Because" not in page.locator("body").inner_text()


def test_plain_text(question):
    assert repr(question) == f"Which `one`? (a) `q @ k` (b) {EVIL} (c) right"
    data, _ = question._repr_mimebundle_()
    assert set(data) == {"text/html", "text/plain"}


@pytest.mark.parametrize("dark", [False, True])
def test_narrow(show, question, dark):
    page = show(question, dark=dark, width=360)
    page.locator(".option").nth(1).click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ("abc", TypeError, "options must be a list"),
        (OPTIONS[:1], ValueError, "options must be two to six, got 1"),
        (OPTIONS[:2], ValueError, "options must hold a right one"),
        ([*OPTIONS, ("x", True)], TypeError, r"options\[3\] must be \(text, right, feedback\)"),
        ([*OPTIONS, ("x", 1, "y")], TypeError, r"options\[3\].right must be a bool, got 1"),
        ([*OPTIONS, ("x", True, " ")], ValueError, r"options\[3\].feedback must not be empty"),
    ],
)
def test_bad_input(options, error, said):
    with pytest.raises(error, match=said):
        Question("name", "prompt", options)
    with pytest.raises(ValueError, match="name must not be empty"):
        Question(" ", "prompt", OPTIONS)
