"""Question in Chromium: answers at once, remembers, forgives, counts, reads without scripts."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.pages import page_of
from tfcourse.checks.quiz import Option
from tfcourse.checks.registry import questions
from tfcourse.widgets import Question
from tfcourse.widgets.channel import open_channel

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
    return [text for text in page.locator(".feedback:not([hidden])").all_inner_texts() if text]


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
    lines = page.locator("figure").inner_text().strip().splitlines()
    assert lines == ["Which one?", "(a) q @ k", f"(b) {EVIL}", "(c) right"]
    assert page.title() != "pwned"


def test_plain_text(question):
    assert repr(question) == f"Which `one`?\n  (a) `q @ k`\n  (b) {EVIL}\n  (c) right"
    assert repr(asked()).endswith('\nTo answer: quiz("t-one", "a"), or another letter.')
    data, _ = question._repr_mimebundle_()
    assert set(data) == {"text/html", "text/plain"}


# --- the answer is not given away -------------------------------------------------------------


@pytest.mark.parametrize("item", questions().values(), ids=lambda i: i.name)
def test_no_reader_comes_across_the_answer(item):
    """Neither in the text nor in the source of the page, live or as it is stored."""
    options = [(o.text, o.right, o.feedback) for o in item.options]
    view = Question(item.name, item.prompt, options, counts=True)
    for shown in (view.html(), repr(view), json.dumps(view.state)):
        assert not any(piece in shown for o in item.options for piece in pieces(o))
    first, *others = options
    moved = [(first[0], not first[1], first[2]), *((t, not r, f) for t, r, f in others)]
    other = Question(item.name, item.prompt, moved, counts=True)
    assert view.fallback() == other.fallback()
    assert {**view.state, "blocks": 0} == {**other.state, "blocks": 0}


def pieces(option: Option):
    """What of a feedback would tell: each half of it, as it stands and as JSON has it."""
    half = len(option.feedback) // 2
    for piece in (option.feedback[:half], option.feedback[half:]):
        yield from (piece, json.dumps(piece)[1:-1])


def test_every_letter_of_a_feedback_arrives(show):
    said = 'Σ ≠ √d_k, “so” — 日本 \U0001f600 \x7f </script> \\ " `x`.'
    page = show(Question("t-odd", "?", [("a", True, said), ("b", False, "no")]))
    page.locator(".option").nth(0).click()
    assert feedback(page) == [f"✓ Right. {said.replace('`', '')}"]


def test_before_a_choice_the_page_tells_nothing(show, question):
    page = show(question)
    inner = page.locator(".view").inner_html()
    assert "Because" not in inner
    assert "right" not in inner.replace("<span>right</span>", "")
    page.locator(".option").nth(0).click()
    assert "Because" not in page.locator(".view").inner_html()  # of the others still nothing


# --- the progress board -----------------------------------------------------------------------

# A model as anywidget gives it, and a kernel that counts; `silent` is one that is busy or gone.
KERNEL = """<script type="module">
const source = $SOURCE;
const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
const { default: channel } = await import(url);
let hear;
window.sent = [];
window.silent = $SILENT;
const model = {
  on: (event, callback) => { hear = callback; },
  send: (answer) => {
    window.sent.push(answer);
    const reply = () => hear({ name: answer.name, said: `Counted ${answer.letter}.` });
    if (window.silent) window.wake = reply; else setTimeout(reply, 30);
  },
};
setTimeout(() => { window.close_channel = channel.initialize({ model }); }, $LATE);
</script>"""


def kernel(late=0, silent=False):
    source = json.dumps(open_channel(str)._esm).replace("<", "\\u003c")
    filled = KERNEL.replace("$SOURCE", source).replace("$LATE", str(late))
    return filled.replace("$SILENT", json.dumps(silent))


def asked(name="t-one"):
    return Question(name, "Which `one`?", OPTIONS, counts=True)


def test_a_click_is_counted(open_page):
    page = open_page(page_of([asked(), asked("t-two")]) + kernel())
    page.locator(".view").nth(1).locator(".option").nth(1).click()
    expect(page.locator(".counted").nth(1)).to_have_text("Counted b.")
    page.locator(".view").nth(0).locator(".option").nth(2).click()
    expect(page.locator(".counted").nth(0)).to_have_text("Counted c.")
    expect(page.locator(".counted").nth(1)).to_have_text("Counted b.")
    assert page.evaluate("window.sent") == [
        {"name": "t-two", "letter": "b", "remembered": False},
        {"name": "t-one", "letter": "c", "remembered": False},
    ]


def test_a_remembered_answer_is_counted_when_python_comes(open_page):
    remember = "localStorage.setItem('tfcourse:quiz:t-one', '{\"chosen\": 2}')"
    page = open_page(f"<script>{remember}</script>" + page_of([asked()]) + kernel(late=500))
    expect(page.locator(".counted")).to_have_text("Counted c.")
    [sent] = page.evaluate("window.sent")
    assert sent == {"name": "t-one", "letter": "c", "remembered": True}


def test_where_no_python_is_it_says_so_and_what_to_type(show):
    page = show(asked())
    expect(page.locator(".counted")).to_be_hidden()
    page.locator(".option").nth(1).click()
    assert feedback(page) == ["✗ Not quite. Not this one."]  # at once
    said = page.locator(".counted")
    expect(said).to_contain_text("because no Python is running here")
    expect(said.locator("code")).to_have_text('quiz("t-one", "b")')
    page.reload()
    page.locator(".view").wait_for()
    page.wait_for_timeout(2500)
    expect(said).to_be_hidden()  # it was told when it was chosen


def test_a_kernel_that_is_busy_counts_later(open_page):
    page = open_page(page_of([asked()]) + kernel(silent=True))
    page.wait_for_function("window.tfcourseChannels?.size")
    page.locator(".option").nth(0).click()
    expect(page.locator(".counted")).to_contain_text("Python is busy, or has stopped")
    page.evaluate("window.wake()")
    expect(page.locator(".counted")).to_have_text("Counted a.")
    page.locator(".option").nth(2).click()
    expect(page.locator(".counted")).to_be_hidden()  # that was the last answer's
    expect(page.locator(".counted code")).to_have_text('quiz("t-one", "c")')


def test_a_closed_channel_is_gone(open_page):
    page = open_page(page_of([asked()]) + kernel())
    page.wait_for_function("window.tfcourseChannels?.size")
    page.evaluate("window.close_channel()")
    page.locator(".option").nth(0).click()
    expect(page.locator(".counted")).to_contain_text("no Python is running here")
    assert page.evaluate("window.sent") == []


def test_a_question_of_nobodys_lesson_is_not_counted(open_page, question):
    page = open_page(page_of([question]) + kernel())
    page.wait_for_function("window.tfcourseChannels?.size")
    page.locator(".option").nth(2).click()
    page.wait_for_timeout(2500)
    assert page.evaluate("window.sent") == []
    expect(page.locator(".counted")).to_be_hidden()


# --- its form ---------------------------------------------------------------------------------


def test_it_follows_the_theme(show, question):
    """Changed while the question is on the page, as JupyterLab's menu does."""
    page = show(question)
    page.locator(".option").nth(2).click()
    ink = "getComputedStyle(document.querySelector('figure > div').shadowRoot.querySelector('.mark')).color"
    light = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".view")).to_have_class("view dark")
    assert page.evaluate(ink) != light


def test_letters_stand_before_the_options(show, question):
    page = show(question)
    assert page.locator(".letter").all_inner_texts() == ["a", "b", "c"]


@pytest.mark.parametrize("width", [420, 600, 1000])
def test_the_card_is_compact(show, width):
    """As wide as its text can be read, and no higher than its lines."""
    short = Question(
        "t-short", "How many?", [("4", True, "Yes."), ("8", False, "No."), ("16", False, "No.")]
    )
    text = "a sentence that is long enough to need a line of its own in the card"
    long = Question("t-long", "Which?", [(f"{text} {i}", i == 0, "So.") for i in range(3)])
    page = show(short, long, width=width)
    boxes = [page.locator(".view").nth(i).bounding_box() for i in range(2)]
    assert all(box["width"] <= min(width, 600) for box in boxes)
    assert boxes[0]["height"] < 90
    assert boxes[1]["height"] < (150 if width > 420 else 200)
    tops = [
        page.locator(".view").nth(0).locator(".option").nth(i).bounding_box()["y"] for i in range(3)
    ]
    assert len(set(tops)) == 1  # short ones stand side by side


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
