"""LogitLens in Chromium: every cell against torch, the colors, keyboard, themes, tables."""

import math
import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import page_of, settled
from tests.browser.test_attention_map import contrast
from tfcourse.widgets import LogitLens

EVIL = "<img src=x onerror=document.title='pwned'>"
VOCABULARY = ["the", " cat", " sat", "\n", EVIL, "</script>", " ", "ing"]
TEXT = [0, 1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def lens():
    """Later layers know more: they give the token that comes next a larger logit."""
    found = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0))
    for place, following in enumerate(TEXT[1:]):
        found[:, place, following] += torch.tensor([0.0, 0.5, 2.0, 4.0])
    return found


@pytest.fixture
def view(lens):
    return LogitLens(lens, VOCABULARY, TEXT)


def cell(page, layer, place, layers=4):
    """The rows stand on the page from the output down."""
    return page.locator(".grid tbody tr").nth(layers - 1 - layer).locator(".cell").nth(place)


def shown(token):
    return {"\n": "⏎", " ": "␣"}.get(token, token)


def percent(text):
    return 0.0005 if text == "< 0.1%" else float(text.rstrip("%")) / 100


def viridis(share):
    import matplotlib

    return [255 * x for x in matplotlib.colormaps["viridis"](float(share))[:3]]


def color(node):
    painted = node.evaluate("(node) => getComputedStyle(node).backgroundColor")
    return [float(x) for x in re.findall(r"[\d.]+", painted)[:3]]


@pytest.mark.parametrize("host", ["html", "module"])
def test_every_cell(show, view, lens, host):
    page = show(view, host=host)
    odds = lens.double().softmax(-1)
    for layer in range(4):
        for place in range(6):
            node, p = cell(page, layer, place), odds[layer, place]
            best = p.argmax().item()
            assert node.locator(".token").text_content() == shown(VOCABULARY[best])
            right = place < 5 and best == TEXT[place + 1]
            assert ("right" in node.get_attribute("class").split()) == right
            said = node.get_attribute("aria-label")
            assert f"{100 * p.max().item():.1f}%" in said
            assert said.endswith("right") == right
            if place < 5:
                assert f"; {shown(VOCABULARY[TEXT[place + 1]])} comes next, " in said
            assert np.allclose(color(node), viridis(p.max()), atol=5)
    counts = page.locator(".grid tbody small").all_text_contents()
    assert counts == [f"✓ {n} of 5" for n in reversed(view.right)]
    assert view.right[3] > view.right[0]


def test_what_is_read_stands_below_and_what_comes_next_above(show, view):
    page = show(view)
    head = page.locator(".grid thead th").all_text_contents()
    foot = page.locator(".grid tfoot .token").all_text_contents()
    assert head == ["next is", *(shown(VOCABULARY[i]) for i in TEXT[1:]), "?"]
    assert foot == [shown(VOCABULARY[i]) for i in TEXT]
    rows = page.locator(".grid tbody th").all_text_contents()
    assert [re.match(r"\w+( blocks?)?", row)[0] for row in rows] == [
        "3 blocks",
        "2 blocks",
        "1 block",
        "embedding",
    ]
    top, bottom = (cell(page, layer, 0).bounding_box()["y"] for layer in (3, 0))
    assert top < bottom


def test_the_five_likeliest_and_the_rank_of_the_next(show, view, lens):
    page = show(view)
    odds = lens.double().softmax(-1)
    for layer, place in ((0, 2), (2, 1), (3, 4)):
        cell(page, layer, place).hover()
        settled(page)
        top = odds[layer, place].topk(5)
        got = page.locator(".bars .number").all_text_contents()
        for text, p in zip(got, top.values.tolist(), strict=True):
            assert percent(text) == pytest.approx(p, abs=6e-4)
        names = [
            name.removeprefix("✓ ") for name in page.locator(".bars .token").all_text_contents()
        ]
        assert names == [shown(VOCABULARY[i]) for i in top.indices.tolist()]
        own = odds[layer, place, TEXT[place + 1]]
        rank = (odds[layer, place] > own).sum().item() + 1
        said = page.locator(".readout").inner_text()
        assert ("right, with" if rank == 1 else f"rank {rank} of 8, with") in said
        assert f"{100 * own.item():.1f}%" in said
        entropy = torch.special.entr(odds[layer, place]).sum().item()
        assert f"Entropy {entropy:.2f} nats" in said
    page.mouse.move(0, 0)  # what is focused comes back
    settled(page)
    assert page.locator(".readout .read").first.inner_text() == "the cat"


def test_colors_say_what_is_chosen(show, view, lens):
    page = show(view)
    odds = lens.double().softmax(-1)
    own = odds[2, 1, 2]
    rank = (odds[2, 1] > own).sum().item() + 1
    entropy = torch.special.entr(odds[2, 1]).sum().item()
    want = {
        "actual": own,
        "rank": 1 - math.log(rank) / math.log(8),
        "entropy": 1 - entropy / math.log(8),
        "likeliest": odds[2, 1].max(),
    }
    for mode, along in want.items():
        page.get_by_label("color", exact=True).select_option(mode)
        settled(page)
        assert np.allclose(color(cell(page, 2, 1)), viridis(along), atol=5), mode
        none = "none" in cell(page, 2, 5).get_attribute("class").split()
        assert none == (mode in ("actual", "rank"))


def test_letters_can_be_read_on_every_color(show, lens):
    sure = torch.zeros(11, 2, 8)
    sure[:, :, 0] = torch.linspace(0, 8, 11)[:, None]
    page = show(LogitLens(sure, VOCABULARY, [0, 1]))
    for node in page.locator(".cell").all():
        ink, ground = node.evaluate(
            "(node) => { const s = getComputedStyle(node); return [s.color, s.backgroundColor]; }"
        )
        assert contrast(ink, ground) >= 4.5


def focused(page):
    return page.evaluate(
        "document.activeElement.shadowRoot.activeElement?.getAttribute('aria-label')"
    )


def test_keyboard_alone(show, view, lens):
    page = show(view)
    for _ in range(3):
        page.keyboard.press("Tab")
        if (focused(page) or "").startswith(" cat"):
            break
    assert focused(page).startswith(" cat, after 3 blocks, the output: ")
    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert focused(page).startswith(" sat, after 2 blocks: ")
    second = lens[2, 2].double().softmax(-1).topk(2).values[1].item()
    expect(page.locator(".spoken")).to_contain_text(f"{100 * second:.1f}%")
    for key in ("End", "PageDown", "ArrowDown", "ArrowRight"):  # the edges hold
        page.keyboard.press(key)
    assert focused(page).startswith("</script>, with the embedding alone: ")
    assert "the text ends here" in focused(page)
    for key in ("Home", "PageUp"):
        page.keyboard.press(key)
    assert focused(page).startswith("the, after 3 blocks, the output: ")
    assert page.locator(".cell[tabindex='0']").count() == 1
    page.keyboard.press("Tab")  # one stop for the whole grid
    assert page.evaluate("document.activeElement.shadowRoot.activeElement.tagName") == "BUTTON"


def test_strings_are_text(show, view):
    page = show(view)
    for place in range(5):
        cell(page, 3, place).click()
    page.keyboard.press("t")
    settled(page)
    assert page.title() != "pwned"
    assert page.locator(".view img").count() == 0
    assert page.locator(".read").first.inner_text().endswith(f"⏎{EVIL}")


def test_the_tables(show, view, lens):
    page = show(view)
    cell(page, 1, 1).click()
    page.get_by_label("color", exact=True).select_option("rank")
    page.get_by_role("button", name="Show as table").click()
    settled(page)
    odds = lens.double().softmax(-1)
    tables = page.locator(".data table")
    row = tables.first.locator("tbody tr").nth(1).locator("th, td").all_text_contents()
    assert row[:2] == [" cat", " sat"]
    for layer, text in enumerate(row[2:]):
        best, own = odds[layer, 1].argmax().item(), odds[layer, 1, 2]
        rank = (odds[layer, 1] > own).sum().item() + 1
        assert text == f"{shown(VOCABULARY[best])} {rank}{' ✓' if rank == 1 else ''}"
    last = tables.first.locator("tbody tr").nth(5).locator("td").all_text_contents()
    assert last[0] == "?"
    assert all(text.endswith(" –") for text in last[1:])
    for layer, line in enumerate(tables.nth(1).locator("tbody tr").all()):
        right, own, entropy = (float(x) for x in line.locator("td").all_text_contents())
        assert right == view.right[layer]
        p = torch.stack([odds[layer, i, TEXT[i + 1]] for i in range(5)]).mean().item()
        assert own == pytest.approx(p, rel=6e-3)
        want = torch.special.entr(odds[layer]).sum(-1).mean().item()
        assert entropy == pytest.approx(want, rel=6e-3)
    assert tables.nth(2).locator("caption").inner_text() == "The likeliest after cat, after 1 block"
    got = [float(x) for x in tables.nth(2).locator("td").all_text_contents()]
    assert got == pytest.approx(odds[1, 1].topk(5).values.tolist(), rel=6e-3)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 420, 900])
def test_a_long_text_scrolls_in_its_own_box(show, dark, width):
    lens = torch.randn(7, 64, 8, generator=torch.Generator().manual_seed(1))
    page = show(LogitLens(lens, VOCABULARY, [0, 1, 2, 3] * 16), dark=dark, width=width)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".view.dark").count() == dark
    cell(page, 6, 1, 7).click()
    page.keyboard.press("End")
    settled(page)
    name, last = page.locator(".grid tbody th").first, cell(page, 6, 63, 7)
    box, edge = last.bounding_box(), page.locator(".view").bounding_box()
    assert box["x"] + box["width"] <= edge["x"] + edge["width"]
    assert name.bounding_box()["x"] == pytest.approx(
        page.locator(".box").bounding_box()["x"], abs=3
    )
    for place in range(62, 44, -1):  # and back: never under the names of the layers
        page.keyboard.press("ArrowLeft")
        names = name.bounding_box()
        left = cell(page, 6, place, 7).bounding_box()["x"]
        assert left >= names["x"] + names["width"] - 1


def test_one_layer_and_a_small_vocabulary(show):
    page = show(LogitLens(torch.zeros(1, 2, 2), ["a", "b"], ["a", "b"]))
    assert page.locator(".cell").count() == 2
    assert page.locator(".bars .number").all_text_contents() == ["50.0%", "50.0%"]


def test_python_learns_which_cell(show, view):
    page = show(view, host="module")
    cell(page, 1, 3).click()
    assert page.evaluate("window.saved.chosen") == {"layer": 1, "token": 3}


def test_without_scripts_there_is_the_picture(open_page, view):
    page = open_page(page_of([view], script=False))
    assert page.locator("img").get_attribute("alt") == view.alt
    assert page.locator(".view").count() == 0
