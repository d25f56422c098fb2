"""AttentionMap in Chromium: values read out, pixels, keyboard, themes, hostile tokens."""

import math
import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import page_of, settled
from tfcourse import attention
from tfcourse.widgets import AttentionMap

EVIL = "<img src=x onerror=document.title='pwned'>"
WORDS = ["the", "cat", "sat", EVIL, "the", "mat", "</script>"]


@pytest.fixture(scope="module")
def weights():
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 7, 8)
    return attention.attention_weights(2 * q, k, attention.causal_mask(7))


@pytest.fixture
def heads(weights):
    return AttentionMap(weights, WORDS, mask=attention.causal_mask(7), title="Who looks at whom?")


def keys(page, *names):
    for name in names:
        page.keyboard.press(name)


def exact(page):
    return page.locator(".exact").inner_text()


def number(text):
    return float(text.rsplit(" ", 1)[1].replace("−", "-"))


@pytest.mark.parametrize("host", ["html", "module"])
def test_every_value_is_read_out_to_three_digits(show, weights, host):
    page = show(AttentionMap(weights, list("abcdefg")), host=host)
    page.locator(".map").focus()
    keys(page, "ArrowUp", "ArrowUp", "Home")
    for row in range(7):
        for column in range(7):
            settled(page)
            shown, true = number(exact(page)), weights[0, row, column].item()
            assert shown == pytest.approx(true, rel=6e-3, abs=1e-9), (row, column)
            keys(page, "ArrowRight")
        keys(page, "ArrowDown", "Home")


def test_a_hovered_cell_and_its_row(show, heads, weights):
    page = show(heads)
    canvas = page.locator(".map canvas")
    canvas.hover(position={"x": 5, "y": 5})  # the corner between the labels: nothing is there
    page.locator(".map").focus()
    keys(page, "ArrowDown", "ArrowDown")
    box = page.locator("i.cell").bounding_box()
    keys(page, "Escape")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    settled(page)
    assert number(exact(page)) == pytest.approx(weights[0, 3, 0].item(), rel=6e-3)
    share = weights[0, 3].max().item()
    assert f"attends {round(100 * share)}% to" in page.locator(".says").inner_text()
    bars = page.locator(".bars .number").all_inner_texts()
    assert [float(b) for b in bars] == pytest.approx(
        sorted(weights[0, 3, :4].tolist(), reverse=True), rel=6e-3
    )


def test_a_head_is_switched_and_sorted(show, heads, weights):
    page = show(heads)
    page.locator(".head").nth(2).click()
    assert page.locator(".head[aria-pressed=true]").inner_text().startswith("head 2")
    page.locator(".map").focus()
    keys(page, "End", "Home")
    settled(page)
    assert number(exact(page)) == pytest.approx(weights[2, 1, 0].item(), rel=6e-3)
    page.get_by_label("sort heads by").select_option("first token")
    shown = [t.split("\n")[0] for t in page.locator(".head").all_inner_texts()]
    first = weights[:, :, 0].mean(-1)
    assert shown == [f"head {h}" for h in first.argsort(descending=True).tolist()]
    stated = float(page.locator(".head .faint").first.inner_text().split()[-1])
    assert stated == pytest.approx(first.max().item(), abs=6e-4)


def test_keyboard_alone(show, heads, weights):
    page = show(heads)
    for _ in range(6):  # selects and the button stand before the map
        keys(page, "Tab")
        if page.evaluate("document.activeElement.shadowRoot.activeElement.className") == "map":
            break
    keys(page, "ArrowDown", "ArrowRight", "]", "Enter")
    expect(page.locator(".spoken")).to_have_text(re.compile("^sat attends .* held$"))
    assert number(exact(page)) == pytest.approx(weights[1, 2, 1].item(), rel=6e-3)
    page.locator(".map canvas").hover(position={"x": 200, "y": 100})
    assert exact(page).startswith("held · sat → cat")
    keys(page, "Escape")
    page.locator(".map canvas").hover(position={"x": 210, "y": 120})
    settled(page)
    assert not exact(page).startswith("held")


def test_keys_do_not_reach_jupyterlab(show, heads):
    page = show(heads)
    page.evaluate(
        "window.seen = []; document.addEventListener('keydown', (e) => window.seen.push(e.key))"
    )
    page.locator(".map").focus()
    keys(page, "ArrowDown", "b", "Enter", "Escape", "Shift+Enter", "Control+s")
    assert page.evaluate("window.seen.filter((k) => k !== 'Control' && k !== 'Shift')") == [
        "Escape",
        "Enter",
        "s",
    ]


def test_strings_are_text(show, heads):
    page = show(heads)
    page.locator(".map").focus()
    keys(page, "ArrowDown", "ArrowDown", "Home")
    expect(page.locator(".spoken")).to_contain_text(EVIL)
    assert page.title() != "pwned"
    assert EVIL in page.locator(".says").inner_text()
    assert page.locator(".view img").count() == 0
    keys(page, "ArrowDown", "ArrowDown", "ArrowDown")
    settled(page)
    assert "</script> attends" in page.locator(".says").inner_text()


def test_pixels_follow_the_weights(show):
    """The cell of the greatest weight is the scale's last colour, a masked one is grey."""
    weights = np.array([[1.0, 0.0], [0.25, 0.75]])
    mask = np.array([[True, False], [True, True]])
    page = show(AttentionMap(weights, ["a", "b"], mask=mask))
    page.locator(".map").focus()
    keys(page, "ArrowUp")
    colors = []
    for step in ("Home", "ArrowRight", "ArrowDown"):
        keys(page, step)
        settled(page)
        box = page.locator("i.cell").bounding_box()
        keys(page, "Escape")
        settled(page)
        colors.append(
            page.evaluate(
                """([x, y]) => {
                  const canvas = document.querySelector('.tfcourse-view div').shadowRoot.querySelector('.map canvas');
                  const box = canvas.getBoundingClientRect();
                  const at = [(x - box.x) * canvas.width / box.width, (y - box.y) * canvas.height / box.height];
                  return [...canvas.getContext('2d').getImageData(...at.map(Math.round), 1, 1).data.slice(0, 3)];
                }""",
                [box["x"] + 4, box["y"] + 4],
            )
        )
    yellow, grey, green = colors
    assert np.allclose(yellow, (253, 231, 37), atol=6)
    assert np.allclose(grey, (217, 220, 225), atol=3)
    assert np.allclose(green, (94, 201, 98), atol=8)


def test_modes(show):
    torch.manual_seed(1)
    q, k = torch.randn(2, 2, 4, 8)
    values, w_o = torch.randn(2, 4, 3), torch.randn(5, 6)
    mask = attention.causal_mask(4)
    scores = attention.attention_scores(q, k).masked_fill(~mask, -math.inf)
    weights = attention.attention_weights(q, k, mask)
    view = AttentionMap(
        weights, list("abcd"), scores=scores, mask=mask, values=values, w_o=w_o,
        compare=torch.full_like(weights, 0.25),
    )  # fmt: skip
    page = show(view)
    contribution = torch.stack([values[h] @ w_o[:, 3 * h : 3 * h + 3].T for h in range(2)])
    effect = weights * contribution.norm(dim=-1)[:, None]
    expected = {"difference": weights - 0.25, "scores": scores, "effect": effect}
    expected["weights"] = weights
    page.locator(".map").focus()
    keys(page, "ArrowDown", "ArrowDown", "Home", "ArrowRight")
    for mode, matrix in expected.items():
        page.get_by_label("show", exact=True).select_option(mode)
        settled(page)
        assert number(exact(page)) == pytest.approx(matrix[0, 3, 1].item(), rel=6e-3), mode
    page.get_by_label("show", exact=True).select_option("difference")
    settled(page)
    row, column = divmod((weights[0] - 0.25).abs().argmax().item(), 4)
    outlined = page.locator("i.greatest").bounding_box()
    page.locator(".map").focus()
    keys(page, *["ArrowUp"] * 3, "Home", *["ArrowDown"] * row, *["ArrowRight"] * column)
    settled(page)
    here = page.locator("i.cell").bounding_box()
    assert abs(here["x"] - outlined["x"]) < 4
    assert abs(here["y"] - outlined["y"]) < 4


def test_cross_attention_and_layers(show):
    torch.manual_seed(2)
    weights = torch.rand(2, 3, 4, 6).softmax(-1)
    page = show(AttentionMap(weights, list("abcd"), list("uvwxyz")))
    page.get_by_label("layer").select_option("1")
    page.locator(".map").focus()
    keys(page, "End")
    settled(page)
    assert exact(page).startswith("b → z")
    assert number(exact(page)) == pytest.approx(weights[1, 0, 1, 5].item(), rel=6e-3)
    options = page.get_by_label("sort heads by").locator("option").all_inner_texts()
    assert options == ["as they are", "entropy"]  # distances mean nothing between two texts


def test_arcs(show, heads, weights):
    page = show(heads)
    page.get_by_label("as", exact=True).select_option("arcs")
    page.locator(".arcs text").nth(2).hover()
    settled(page)
    drawn = page.locator(".arcs path").count()
    strong = (weights[0, 2] / weights[0].max() >= 0.03).sum().item()
    assert drawn == strong
    assert page.locator(".says").inner_text().startswith("sat attends")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [420, 760])
def test_themes_and_widths(show, heads, dark, width):
    page = show(heads, dark=dark, width=width)
    settled(page)
    ink, paper = page.evaluate(
        """() => { const s = getComputedStyle(document.querySelector('.tfcourse-view div').shadowRoot
          .querySelector('.view')); return [s.color, s.backgroundColor]; }"""
    )
    assert contrast(ink, paper) > 7
    assert (luminance(paper) < 0.1) == dark
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def luminance(colour):
    parts = [float(x) / 255 for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_two_views_do_not_disturb_each_other(show, heads, weights):
    other = AttentionMap(weights[1], WORDS, title="The other")
    page = show(heads, other)
    maps = page.locator(".map")
    maps.nth(1).focus()
    keys(page, "ArrowDown", "Home")
    settled(page)
    shown = page.locator(".exact").all_inner_texts()
    assert number(shown[1]) == pytest.approx(weights[1, 2, 0].item(), rel=6e-3)
    assert number(shown[0]) == pytest.approx(weights[0, 1, 0].item(), rel=6e-3)


def test_without_scripts_there_is_the_picture(open_page, heads):
    page = open_page(page_of([heads], script=False))
    image = page.locator("img")
    assert image.get_attribute("alt") == heads.alt
    assert page.evaluate("document.images[0].naturalWidth") > 300
    assert page.locator(".view").count() == 0


def test_the_png_is_handed_over(show, heads):
    page = show(heads)
    with page.expect_download() as download:
        page.get_by_text("save as PNG").click()
    assert download.value.suggested_filename == "who-looks-at-whom.png"
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_512_tokens(show):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(512, 0.05), size=(2, 512))
    page = show(AttentionMap(weights, [f"t{i}" for i in range(512)]), host="module")
    page.locator(".map").focus()
    keys(page, "ArrowDown", "End")
    settled(page)
    assert exact(page).startswith("t2 → t511")
    assert number(exact(page)) == pytest.approx(weights[0, 2, 511], rel=6e-3, abs=1e-9)


def test_a_thin_line_is_not_lost_where_pixels_are_fewer_than_cells(show):
    """A perfect previous-token head of 512 tokens shows in its thumbnail and on the map."""
    previous = np.eye(512, k=-1)
    previous[0, 0] = 1
    view = AttentionMap(np.stack([previous, np.eye(512)]), [f"t{i}" for i in range(512)])
    page = show(view, host="module")
    page.wait_for_timeout(300)  # thumbnails are drawn after the map, one in a turn
    bright = page.evaluate(
        """() => [...document.querySelector('#here').shadowRoot.querySelectorAll('.head canvas, .map canvas')].map((canvas) => {
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          let count = 0;
          for (let i = 0; i < data.length; i += 4) if (data[i] > 230 && data[i + 1] > 210 && data[i + 2] < 90) count++;
          return [count, canvas.height];
        })"""
    )
    (on_map, height), (previous_thumb, side), (own_thumb, _) = bright
    assert side == 64
    assert previous_thumb >= 64
    assert own_thumb >= 64
    assert on_map > 0.6 * height


def test_arcs_by_keyboard(show, heads):
    page = show(heads)
    page.get_by_label("as", exact=True).select_option("arcs")
    page.locator(".arcs").focus()
    keys(page, "ArrowDown", "ArrowRight", "Enter")
    expect(page.locator(".exact")).to_contain_text("held · sat → cat")
    with page.expect_download() as download:
        page.get_by_text("save as PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_differences_of_all_heads_stand_on_one_scale(show):
    one, other = np.full((2, 2), 0.5), np.eye(2)
    view = AttentionMap(np.stack([one, one]), ["a", "b"], compare=np.stack([other, one * 0.98]))
    page = show(view)
    scales = []
    for head in (0, 1):
        page.locator(".head").nth(head).click()
        settled(page)
        scales.append(page.locator(".scale").inner_text())
    assert scales[0] == scales[1]
    assert "0.500" in scales[0]


def test_python_learns_what_is_held(show, weights):
    page = show(AttentionMap(weights, WORDS), host="module")
    page.locator(".head").nth(1).click()
    page.locator(".map").focus()
    keys(page, "ArrowDown", "Enter")
    chosen = page.evaluate("window.saved.chosen")
    assert chosen == {"layer": 0, "head": 1, "query": 2, "key": 0, "held": True}


def test_a_view_that_comes_onto_the_page_late_knows_the_theme(open_page, heads):
    page = open_page(page_of([heads], dark=True), dark=True)
    page.locator(".view").wait_for()
    page.evaluate(
        """() => { const el = document.querySelector('.tfcourse-view'), parent = el.parentNode;
          el.remove(); setTimeout(() => parent.append(el), 400); }"""
    )
    page.locator(".view.dark").wait_for()


def test_the_axes_say_which_is_the_query_and_which_the_key(show, heads):
    page = show(heads)
    page.evaluate(
        """() => { window.written = []; const write = CanvasRenderingContext2D.prototype.fillText;
          CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { window.written.push(text); write.call(this, text, ...rest); }; }"""
    )
    page.locator(".head").nth(1).click()
    settled(page)
    written = page.evaluate("window.written")
    assert "query: attends" in written
    assert "key: attended to" in written


def test_masked_cells_are_dim_in_the_dark(show, heads):
    """The lightest of them is darker than the lightest cell that may be attended."""
    page = show(heads, dark=True)
    page.locator(".map").focus()
    keys(page, "ArrowUp", "End")  # the first query, the last key: masked
    box = page.locator("i.cell").bounding_box()
    keys(page, "Escape")
    settled(page)
    pixels = page.evaluate(
        """([x, y]) => {
          const root = document.querySelector('.tfcourse-view div').shadowRoot;
          const at = (canvas, x, y) => [...canvas.getContext('2d').getImageData(x, y, 1, 1).data.slice(0, 3)];
          const map = root.querySelector('.map canvas'), area = map.getBoundingClientRect();
          const thumb = root.querySelector('.head canvas');
          return [at(map, Math.round((x - area.x) * map.width / area.width), Math.round((y - area.y) * map.height / area.height)), at(thumb, thumb.width - 1, 0)];
        }""",
        [box["x"] + 6, box["y"] + 6],
    )
    for pixel in pixels:
        assert np.allclose(pixel, (58, 66, 76), atol=2)
        assert luminance(f"rgb({', '.join(map(str, pixel))})") < 0.06


def test_a_score_of_zero_has_its_bar_and_a_negative_one_goes_the_other_way(show):
    scores = torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    page = show(AttentionMap(scores.softmax(-1), list("abc"), scores=scores))
    page.get_by_label("show", exact=True).select_option("scores")
    page.locator(".map").focus()
    keys(page, "ArrowUp")
    settled(page)
    assert page.locator(".bars .number").all_inner_texts() == ["2.00", "0", "−1.00"]
    two, zero, less = (bar.bounding_box() for bar in page.locator(".track b").all())
    assert zero["width"] >= 2
    assert two["width"] == pytest.approx(2 * less["width"], rel=0.05)
    assert less["x"] + less["width"] == pytest.approx(two["x"], abs=1)
    assert zero["x"] == pytest.approx(two["x"], abs=1)
    keys(page, "ArrowDown")
    settled(page)
    assert page.locator(".bars .number").all_inner_texts() == ["0", "0", "0"]


def arcs_of(page):
    """[(stroke, does it rise above the words), …]."""
    return page.evaluate(
        """() => { const root = document.querySelector('.tfcourse-view div').shadowRoot;
          const words = root.querySelector('.arcs text').getBoundingClientRect();
          return [...root.querySelectorAll('.arcs path')].map((path) => { const box = path.getBoundingClientRect();
            return [path.getAttribute('stroke'), (box.y + box.bottom) / 2 < words.y + words.height / 2, box.width, box.height]; }); }"""
    )


def test_arcs_rise_over_the_words_and_heads_have_colours(show):
    back = torch.eye(5).roll(-1, 1)  # every token looks at the one before, the first at the last
    page = show(AttentionMap(torch.stack([back, back.T]), list("abcde")))
    page.get_by_label("as", exact=True).select_option("arcs")
    settled(page)
    arcs = arcs_of(page)
    assert len(arcs) == 5
    assert sum(above for _, above, *_ in arcs) == 4  # what looks ahead hangs under the words
    assert max(height for *_, height in arcs) > 100
    assert max(width for _, _, width, _ in arcs) > 250
    first = {stroke for stroke, *_ in arcs}
    page.locator(".head").nth(1).click()
    settled(page)
    second = {stroke for stroke, *_ in arcs_of(page)}
    assert len(first) == len(second) == 1
    assert first != second
    page.get_by_text("all heads").click()
    settled(page)
    arcs = arcs_of(page)
    assert len(arcs) == 10
    assert {stroke for stroke, *_ in arcs} == first | second


def test_arcs_between_two_texts(show):
    weights = torch.tensor([[1.0, 0, 0], [0, 0, 1.0]])
    page = show(AttentionMap(weights, ["a?", "c?"], ["a", "b", "c"]))
    page.get_by_label("as", exact=True).select_option("arcs")
    settled(page)
    assert page.locator(".arcs text").all_text_contents() == [
        "a?",
        "c?",
        "a",
        "b",
        "c",
        "key",
        "query",
    ]
    assert len(arcs_of(page)) == 2


def shares(page):
    """How strongly each word is coloured, in hundredths."""
    return page.evaluate(
        """() => [...document.querySelector('.tfcourse-view div').shadowRoot.querySelectorAll('.word')]
          .map((word) => Number(word.style.background.match(/(\\d+)%/)?.[1] ?? 0))"""
    )


def test_the_sentence(show, heads, weights):
    page = show(heads)
    page.get_by_label("as", exact=True).select_option("sentence")
    expect(page.get_by_text("save as PNG")).to_be_hidden()
    words = page.locator(".word")
    assert words.all_inner_texts() == WORDS
    words.nth(4).hover()
    settled(page)
    assert page.locator(".says").inner_text().startswith("the₄ attends")
    row = weights[0, 4] / weights[0, 4].max()
    expected = [round(15 + 60 * share) if share > 0.004 else 0 for share in row.tolist()]
    assert shares(page) == pytest.approx(expected, abs=1)
    assert page.locator(".word.masked").count() == 2
    page.locator(".sentence").focus()
    keys(page, "ArrowUp", "Enter")
    settled(page)
    assert page.locator(".word.asks").inner_text() == EVIL
    words.nth(0).hover()
    settled(page)
    assert page.locator(".says").inner_text().startswith(EVIL)  # it is held


@pytest.mark.parametrize("kind", ["arcs", "sentence"])
@pytest.mark.parametrize("width", [420, 760])
def test_arcs_and_sentence_keep_to_the_page(show, heads, kind, width):
    page = show(heads, dark=True, width=width)
    page.get_by_label("as", exact=True).select_option(kind)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_map_and_readout_stand_beside_each_other(show, heads):
    page = show(heads, width=1100)
    settled(page)
    picture, said = (page.locator(name).bounding_box() for name in (".map", ".readout"))
    assert picture["x"] + picture["width"] < said["x"] < picture["x"] + picture["width"] + 40
    assert said["width"] <= 400
