"""NextToken in Chromium: its odds against torch's, ties and all; draws, keyboard, themes."""

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import page_of, settled
from tfcourse.generation import next_token_probabilities
from tfcourse.widgets import NextToken

EVIL = "<img src=x onerror=document.title='pwned'>"
WORDS = ["the", " cat", "\n", EVIL, "</script>", " ", *"abcdefghijklmnopqrstuvwxyz"]
TEXTS = ["To be, or not", f"{EVIL} said", ""]


@pytest.fixture(scope="module")
def logits():
    return 2 * torch.randn(3, len(WORDS), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def view(logits):
    return NextToken(logits, WORDS, TEXTS)


def rows(page):
    """[(name, now, before, drawn), …] as they are written."""
    return [
        tuple(line.locator(part).text_content() for part in (".name", ".now", ".plain", ".count"))
        for line in page.locator(".bars li:not(.head)").all()
    ]


def share(text):
    return 0.0 if text == "0" else float(text.rstrip("%")) / 100


def widths(page):
    """How long each bar is, of the axis's length, and where its mark and its dot stand."""
    return page.evaluate(
        """() => [...(document.querySelector('.tfcourse-view div') ?? document.querySelector('#here')).shadowRoot.querySelectorAll('.bars li:not(.head)')].map((line) => {
          const box = (name) => line.querySelector(name).getBoundingClientRect();
          const track = box('.track'), left = track.x + 1, length = track.width - 1;
          const middle = (name) => (box(name).x + box(name).width / 2 - left) / length;
          return [line.querySelector('.bar').style.width === '0px' ? 0 : parseFloat(line.querySelector('.bar').style.width.replace('max(1px, ', '')) / 100, middle('.was'), middle('.drawn')];
        })"""
    )


def set_to(page, label, words):
    """Move a slider, by its keys, until it says so."""
    control = page.get_by_label(label, exact=True)
    control.focus()
    page.keyboard.press("Home")
    for _ in range(200):
        if control.get_attribute("aria-valuetext") == words:
            return
        page.keyboard.press("ArrowRight")
    raise AssertionError(f"{label} never says {words}")


@pytest.mark.parametrize("host", ["html", "module"])
@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0}, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 1.37, "top_k": 7}],
)
def test_numbers(show, logits, host, options):
    page = show(NextToken(logits, WORDS, TEXTS, **options), host=host)
    order = logits[0].argsort(descending=True)
    now = next_token_probabilities(logits[0].double(), **options)[order]
    before = logits[0].double().softmax(-1)[order]
    shown = rows(page)
    assert len(shown) == 15
    names = page.evaluate("(words) => words", WORDS)
    assert shown[0][0].strip() == names[order[0]].strip().replace("\n", "⏎")
    for p, column in ((now, 1), (before, 2)):
        want = [*p[:14].tolist(), p[14:].sum().item()]
        for row, x in zip(shown, want, strict=True):
            if row[column] == "< 0.1%":
                assert 0 < x < 0.001
            else:
                assert share(row[column]) == pytest.approx(x, abs=5.1e-4)
                assert (row[column] == "0") == (x == 0)
    kept = (now > 0).sum().item()
    entropy = torch.special.entr(now).sum().item()
    said = page.locator(".left").inner_text()
    assert said.startswith(f"{kept} of {len(WORDS)} token")
    assert float(re.search(r"Entropy ([\d.]+)", said)[1]) == pytest.approx(entropy, abs=0.006)
    if kept > 1:
        among = float(re.search(r"among ([\d.]+) that", said)[1])
        assert among == pytest.approx(np.exp(entropy), abs=0.06)
    cut = page.locator(".bars li.cut").count()
    assert cut == sum(x == 0 for x in [*now[:14].tolist(), now[14:].sum().item()])


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_is_what_torch_leaves(show, seed):
    """Whole numbers as logits: many are equal, and the last one kept often has its equals."""
    rng = np.random.default_rng(seed)
    size = 15
    found = rng.integers(-3, 4, (4, size)) * rng.choice([0.25, 0.5, 1.0])
    start = {"temperature": [0.05, 0.8, 3.0][seed]}
    page = show(NextToken(found, [f"t{i}" for i in range(size)], **start))
    for context in range(4):
        page.get_by_label("after", exact=True).select_option(str(context))
        for _ in range(7):
            top_k, top_p = int(rng.integers(1, size)), int(rng.integers(1, 100))
            page.get_by_label("top-k", exact=True).fill(str(top_k - 1))
            page.get_by_label("top-p", exact=True).fill(str(top_p - 1))
            settings = {**start, "top_k": top_k, "top_p": top_p / 100}
            want = next_token_probabilities(torch.tensor(found[context]), **settings)
            shown = {name: now for name, now, *_ in rows(page)}
            left = {int(name[1:]) for name, now in shown.items() if now != "0"}
            assert left == set(want.nonzero().flatten().tolist()), settings
            for i in left:
                if shown[f"t{i}"] != "< 0.1%":
                    assert share(shown[f"t{i}"]) == pytest.approx(want[i].item(), abs=5.1e-4)


def test_bars_are_as_long_as_the_odds_and_marks_stay(show, view, logits):
    page = show(view)
    page.get_by_text("wild", exact=True).click()
    settled(page)
    order = logits[0].argsort(descending=True)
    now = next_token_probabilities(logits[0].double(), 1.5)[order]
    before = logits[0].double().softmax(-1)[order]
    most = float(page.locator(".ticks span").last.inner_text().rstrip("%")) / 100
    drawn = widths(page)
    assert [bar * most for bar, *_ in drawn[:14]] == pytest.approx(now[:14].tolist(), abs=1e-3)
    marks = [was * most for _, was, _ in drawn]
    want = [*before[:14].tolist(), before[14:].sum().item()]
    assert marks == pytest.approx(want, abs=0.006)


def test_presets_and_another_context(show, view, logits):
    page = show(view)
    pressed = page.locator(".presets [aria-pressed=true]")
    assert pressed.all_inner_texts() == ["as it is"]
    page.get_by_text("careful").click()
    assert pressed.all_inner_texts() == ["careful"]
    values = [
        page.get_by_label(name, exact=True).get_attribute("aria-valuetext")
        for name in ("temperature", "top-k", "top-p")
    ]
    assert values == ["0.7: sharper", "off", "0.9"]
    page.get_by_label("after", exact=True).select_option("1")
    assert page.locator(".context").inner_text() == f"{EVIL} said?"
    now = next_token_probabilities(logits[1].double(), 0.7, top_p=0.9)
    assert share(rows(page)[0][1]) == pytest.approx(now.max().item(), abs=5.1e-4)
    page.get_by_text("greedy").click()
    assert "no choice" in page.locator(".left").inner_text()
    assert rows(page)[0][1] == "100.0%"


def test_keyboard_and_words(show, view, logits):
    page = show(view)
    set_to(page, "temperature", "0.5: sharper")
    set_to(page, "top-k", "the likeliest 3")
    now = next_token_probabilities(logits[0].double(), 0.5, 3).max().item()
    expect(page.locator(".spoken")).to_contain_text(f"{100 * now:.1f}%")
    expect(page.locator(".spoken")).to_contain_text(f"3 of {len(WORDS)} tokens are left")
    page.get_by_label("top-k", exact=True).press("End")
    assert page.get_by_label("top-k", exact=True).get_attribute("aria-valuetext") == "off"
    page.get_by_text("draw 100").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".spoken")).to_contain_text("100 drawn: ")
    label = page.locator(".bars li").nth(1).get_attribute("aria-label")
    assert re.fullmatch(r".+: [\d.]+%, before [\d.]+%, drawn \d+ times", label)


def counts(page):
    return [int(count) for *_, count in rows(page)]


def test_draws_follow_the_odds_and_begin_anew_the_same(show, view, logits):
    page = show(view)
    page.get_by_text("careful").click()
    draw, clear = page.get_by_text("draw 100"), page.get_by_text("clear")
    assert clear.is_disabled()
    draw.click()
    first = counts(page)
    assert sum(first) == 100
    for _ in range(19):
        draw.click()
    many = counts(page)
    assert sum(many) == 2000
    assert "2000 drawn" in page.locator(".draws").inner_text()
    now = next_token_probabilities(logits[0].double(), 0.7, top_p=0.9)
    want = now.sort(descending=True).values[:14]
    error = 4 * (2000 * want * (1 - want)).sqrt() + 1e-9
    assert (torch.tensor(many[:14]) - 2000 * want).abs().le(error).all()
    assert all(count == 0 for count, p in zip(many, want.tolist(), strict=False) if p == 0)
    most = float(page.locator(".ticks span").last.inner_text().rstrip("%")) / 100
    dot = widths(page)[0][2] * most
    assert dot == pytest.approx(many[0] / 2000, abs=0.006)
    clear.click()
    assert page.locator(".count").first.is_hidden()
    draw.click()
    assert counts(page) == first
    page.get_by_text("wild", exact=True).click()  # other odds: the draws are gone
    assert page.locator(".bars.counted").count() == 0


def test_greedy_always_draws_the_same(show, view):
    page = show(view)
    page.get_by_text("greedy").click()
    page.get_by_text("draw 100").click()
    assert counts(page)[0] == 100


def test_strings_are_text(show, view):
    page = show(view)
    for context in "012":
        page.get_by_label("after", exact=True).select_option(context)
    page.get_by_role("button", name="Show as table").click()
    settled(page)
    assert page.title() != "pwned"
    assert page.locator(".view img").count() == 0


def test_the_table(show, view, logits):
    page = show(view)
    page.get_by_text("careful").click()
    page.get_by_text("draw 100").click()
    page.get_by_label("top-p", exact=True).press("t")
    settled(page)
    table = page.locator(".data table")
    assert "temperature 0.7, top-k off, top-p 0.9" in table.locator("caption").inner_text()
    got = [row.locator("td").all_text_contents() for row in table.locator("tbody tr").all()]
    order = logits[0].argsort(descending=True)
    now = next_token_probabilities(logits[0].double(), 0.7, top_p=0.9)[order]
    for i in range(14):
        logit, before, after, count = (float(text.replace("−", "-")) for text in got[i])
        assert logit == pytest.approx(logits[0][order[i]].item(), rel=6e-3)
        assert before == pytest.approx(logits[0].softmax(-1)[order[i]].item(), rel=6e-3)
        assert after == pytest.approx(now[i].item(), rel=6e-3)
        assert count == counts(page)[i]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 420, 900])
def test_themes_and_widths(show, view, dark, width):
    page = show(view, dark=dark, width=width)
    page.get_by_text("careful").click()
    page.get_by_text("draw 100").click()
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".view.dark").count() == dark
    inside = page.locator(".view").bounding_box()
    for part in page.locator(".bars li, .settings .field, .presets button").all():
        box = part.bounding_box()
        assert box["x"] + box["width"] <= inside["x"] + inside["width"]


def test_one_context_alone_and_a_large_vocabulary(show):
    found = torch.randn(3000, generator=torch.Generator().manual_seed(2))
    page = show(NextToken(found, [f"word {i}" for i in range(3000)], top_k=777))
    assert page.locator("select, .context").count() == 0
    assert page.get_by_label("top-k", exact=True).get_attribute("aria-valuetext").endswith("777")
    assert page.locator(".left").inner_text().startswith("777 of 3000")
    assert rows(page)[-1][0] == "2986 others, 763 left"


def test_python_learns_what_is_set(show, view):
    page = show(view, host="module")
    page.get_by_text("careful").click()
    chosen = page.evaluate("window.saved.chosen")
    assert chosen == {"context": 0, "temperature": 0.7, "top_k": None, "top_p": 0.9}


def test_without_scripts_there_is_the_picture(open_page, view):
    page = open_page(page_of([view], script=False))
    assert page.locator("img").get_attribute("alt") == view.alt
    assert page.locator(".view").count() == 0
