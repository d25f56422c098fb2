"""AttentionSteps in Chromium: every number against torch; pointing, dragging, painting, keyboard."""

import re

import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import settled
from tfcourse import attention
from tfcourse.widgets import AttentionSteps

TOKENS = ["a", "<b onclick=alert(1)>", "c", "d"]
VALUES = ["furry", "alive"]


@pytest.fixture(scope="module")
def qkv():
    torch.manual_seed(0)
    return torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 2)


@pytest.fixture
def page(show, qkv):
    return show(AttentionSteps(*qkv, TOKENS, value_names=VALUES), width=1000)


def number(text):
    return float(text.replace("−∞", "-inf").replace("−", "-"))


def matrix(page, name):
    rows = page.locator(f".{name} .line").all()
    return torch.tensor([[number(t) for t in r.locator(".cell").all_inner_texts()] for r in rows])


def step(page, name):
    page.locator(".steps").get_by_role("button", name=re.compile(re.escape(name))).click()


def at(page, name, row, column):
    return page.locator(f".{name} .line").nth(row).locator(".cell").nth(column)


def work(page):
    return page.locator(".work").inner_text()


def mask_to(page, kind):
    page.get_by_role("group", name="mask").get_by_text(kind, exact=True).click()


def close(a, b, places=2):
    return torch.allclose(a, b.float(), atol=0.51 * 10**-places)


def test_all_six_matrices_against_torch(page, qkv):
    q, k, v = qkv
    weights = attention.attention_weights(q, k)
    expected = {"q": q, "k": k.T, "scores": attention.attention_scores(q, k), "weights": weights}
    expected |= {"v": v, "output": weights @ v}
    for name, values in expected.items():
        assert close(matrix(page, name), values), name
    step(page, "QKᵀ")
    assert close(matrix(page, "scores"), q @ k.T)
    step(page, "÷ √d_k")
    assert close(matrix(page, "scores"), attention.attention_scores(q, k))


def test_they_stand_in_the_geometry_of_the_two_products(page):
    """Kᵀ above the scores and V above the output, cell over cell; a query is one row."""
    box = lambda name, i, j: at(page, name, i, j).bounding_box()  # noqa: E731
    for above, below in (("k", "scores"), ("v", "output")):
        for column in (0, 1):
            assert box(above, 0, column)["x"] == pytest.approx(box(below, 0, column)["x"], abs=0.5)
        assert box(above, 2, 0)["y"] < box(below, 0, 0)["y"]
    for row in range(4):
        tops = [box(name, row, 0)["y"] for name in ("q", "scores", "weights", "output")]
        assert max(tops) - min(tops) < 0.5
    lefts = [box(name, 0, 0)["x"] for name in ("q", "scores", "weights", "output")]
    assert lefts == sorted(lefts)


def bands(page, kind="lit"):
    """Which cells lie under each lit band: {(matrix, first row, first column, rows, columns)}."""
    return {
        tuple(found)
        for found in page.evaluate(
            """(kind) => {
              const root = document.querySelector('.tfcourse-view div').shadowRoot;
              return [...root.querySelectorAll(`.band.${kind}`)].map((band) => {
                const area = band.getBoundingClientRect();
                const inside = [...band.parentNode.querySelectorAll('.cell')].filter((cell) => {
                  const box = cell.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
                  return x > area.x && x < area.right && y > area.y && y < area.bottom;
                }).map((cell) => cell.at);
                const span = (axis) => new Set(inside.map((place) => place[axis])).size;
                return [...inside[0], span(1), span(2)];
              });
            }""",
            kind,
        )
    }


def test_a_cell_lights_what_it_is_made_of(page):
    at(page, "scores", 1, 2).hover()
    assert bands(page) == {("q", 1, 0, 1, 3), ("k", 0, 2, 3, 1)}
    at(page, "weights", 2, 0).hover()
    assert bands(page) == {("scores", 2, 0, 1, 4)}
    at(page, "output", 3, 1).hover()
    assert bands(page) == {("weights", 3, 0, 1, 4), ("v", 0, 1, 4, 1)}
    at(page, "v", 1, 0).hover()
    assert bands(page) == {("weights", 0, 1, 4, 1), ("output", 0, 0, 4, 1)}
    assert bands(page, "chosen") == {("v", 1, 0, 1, 1)}
    lit = page.locator(".names .lit").all_inner_texts()
    assert "<b onclick=alert(1)>" in lit
    assert "furry" in lit


def test_the_arithmetic_is_written_out(page, qkv):
    q, k, v = qkv
    at(page, "scores", 1, 2).hover()
    dot, divided, kept = work(page).split("\n")
    assert dot.startswith("<b onclick=alert(1)> → c: q·k = ")
    terms = re.findall(r"(\(?−?[\d.]+\)?)·(\(?−?[\d.]+\)?)", dot.split("q·k = ")[1])
    read = lambda text: number(text.strip("()"))  # noqa: E731
    assert [read(a) for a, _ in terms] == pytest.approx(q[1].tolist(), rel=6e-3)
    assert [read(b) for _, b in terms] == pytest.approx(k[2].tolist(), rel=6e-3)
    assert number(dot.rsplit(" ", 1)[1]) == pytest.approx((q[1] @ k[2]).item(), rel=6e-3)
    assert "/ √3 = " in divided
    assert "may attend" in kept
    at(page, "output", 0, 1).hover()
    weights = attention.attention_weights(q, k)
    assert work(page).startswith("output of a, alive: ")
    assert number(work(page).rsplit(" ", 1)[1]) == pytest.approx(
        (weights @ v)[0, 1].item(), rel=6e-3
    )


def test_the_softmax_of_huge_scores_is_still_arithmetic(show):
    page = show(AttentionSteps([[99.0]], [[9.0], [3.0]], [[1.0], [2.0]]))
    page.get_by_label("temperature").fill("-20")
    at(page, "weights", 0, 0).hover()
    assert "not a number" not in work(page)
    assert work(page).endswith("1 / 1 = 1")


def test_names_stand_on_the_value_columns_too(page):
    assert page.locator(".product").nth(1).get_by_text("furry").count() == 1
    assert at(page, "output", 0, 1).get_attribute("aria-label").startswith("output of a, alive")


def test_no_mask_then_causal_then_painted(page, qkv):
    q, k, _ = qkv
    late = page.get_by_text("0 after it")
    expect(late).to_be_disabled()  # it would do nothing: the view says why
    assert page.get_by_text("(no cell is forbidden)").count() == 1
    mask_to(page, "causal")
    causal = attention.causal_mask(4)
    expect(late).to_be_enabled()
    assert torch.equal(matrix(page, "scores") == -torch.inf, ~causal)
    assert close(matrix(page, "weights"), attention.attention_weights(q, k, causal))
    mask_to(page, "painted")  # goes on from what is there
    at(page, "scores", 0, 3).click()
    at(page, "scores", 3, 0).focus()
    page.keyboard.press(" ")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    causal = causal.clone()
    causal[0, 3], causal[3, :2] = True, False
    assert torch.equal(matrix(page, "scores") == -torch.inf, ~causal)
    assert close(matrix(page, "weights"), attention.attention_weights(q, k, causal))
    mask_to(page, "none")
    assert close(matrix(page, "weights"), attention.attention_weights(q, k))


def test_a_mask_to_start_with(show, qkv):
    q, k, _ = qkv
    page = show(AttentionSteps(*qkv, TOKENS, mask=attention.causal_mask(4)))
    assert page.locator("[data-kind=causal]").get_attribute("aria-pressed") == "true"
    assert close(
        matrix(page, "weights"), attention.attention_weights(q, k, attention.causal_mask(4))
    )


def test_minus_infinity_before_is_not_zero_after(page, qkv):
    q, k, _ = qkv
    mask_to(page, "causal")
    forbidden = page.locator(".forbidden")
    assert forbidden.all_inner_texts() == ["−∞"] * 6 + ["0"] * 6
    assert page.locator(".sums .wrong").count() == 0
    page.get_by_text("0 after it").click()
    causal = attention.causal_mask(4)
    expected = attention.attention_weights(q, k) * causal
    assert close(matrix(page, "weights"), expected)
    assert torch.isfinite(matrix(page, "scores")).all()
    # all rows but the last lose some of their unit, and are marked
    sums = page.locator(".sums div").all_inner_texts()
    assert sums[-1] == "1"
    for said, total in zip(sums[:-1], expected.sum(-1)[:-1].tolist(), strict=True):
        assert said.endswith(" ≠ 1")
        assert float(said.split()[0]) == pytest.approx(total, rel=0.05)
    assert bands(page, "short") == {("weights", row, 0, 1, 4) for row in range(3)}
    at(page, "weights", 0, 1).hover()
    assert re.search(r"The row sums to 0\.\d+, not 1|the row sums to 0\.\d+, not 1", work(page))
    assert page.locator(".follows .warn").count() == 1


def test_a_sum_just_below_one_is_never_called_one(show):
    """The lesson's own tensors. A cold softmax leaves a row that lost little, and long sums."""
    words = ["The", "cat", "sat", "on", "the", "mat"]
    names = ["article", "noun", "verb", "preposition", "animal", "thing", "large", "red"]
    has = ["article", "noun animal", "verb", "preposition", "article", "noun thing"]
    wants = ["noun", "article", "animal", "thing", "noun", "preposition"]
    k = torch.tensor([[float(name in line.split()) for name in names] for line in has])
    q = torch.tensor([[6.0 * (name == line) for name in names] for line in wants])
    v = torch.eye(6, 8)
    view = AttentionSteps(q, k, v, words, feature_names=names, value_names=[*"abcdefgh"])
    page = show(view, width=1280)
    mask_to(page, "causal")
    page.get_by_text("0 after it").click()
    causal = attention.causal_mask(6)
    for tenths in ("0", "-10", "-14", "-17", "-20"):
        page.get_by_label("temperature").fill(tenths)
        settled(page)
        scores = (q @ k.T).double() / 8**0.5 / 10 ** (int(tenths) / 20)
        totals = (scores.softmax(-1) * causal).sum(-1)
        for row, total in enumerate(totals.tolist()):
            said = page.locator(".sums div").nth(row).inner_text()
            if abs(total - 1) < 5e-5:
                assert said == "1"
            else:
                number_said = said.removesuffix(" ≠ 1")
                assert said != number_said != "1"
                assert float(number_said) == pytest.approx(total, rel=0.05)
        at(page, "weights", 2, 3).hover()  # of sat, whose sum is just below 1
        assert "sums to 1, not 1" not in work(page)
        assert "sum to 1, not 1" not in page.locator(".follows").inner_text()
        assert page.locator(".stage").evaluate("(node) => node.scrollWidth <= node.clientWidth")


def test_a_row_without_any_key_gives_zeros(page):
    mask_to(page, "painted")
    for column in range(4):
        at(page, "scores", 1, column).click()
    assert (matrix(page, "weights")[1] == 0).all()
    at(page, "weights", 1, 0).focus()
    assert "zeros" in work(page)
    assert "nothing to attend, zeros" in page.locator(".follows").inner_text()
    assert page.locator(".sums div").nth(1).inner_text() == "0 ≠ 1"


def test_dragging_a_score(page, qkv):
    q, k, _ = qkv
    box = at(page, "scores", 2, 1).bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 10, box["y"] - 30, steps=4)
    page.mouse.up()
    scores = q @ k.T
    scores[2, 1] += 5  # 40 pixels, 8 for each 1
    assert close(matrix(page, "weights"), torch.softmax(scores / 3**0.5, -1))
    assert work(page).startswith("c → <b onclick=alert(1)>: you set q·k to ")
    step(page, "QKᵀ")
    assert close(matrix(page, "scores"), scores)


def test_scores_by_keyboard_and_number_field_and_reset(page, qkv):
    q, k, _ = qkv
    step(page, "QKᵀ")
    at(page, "scores", 0, 0).focus()
    for key in ("ArrowDown", "ArrowRight", "+", "+", "-"):
        page.keyboard.press(key)
    changed = q @ k.T
    changed[1, 1] += 0.5
    assert close(matrix(page, "scores"), changed)
    page.get_by_label("q·k of this cell").fill("13.25")
    changed[1, 1] = 13.25
    assert page.locator(".edited").count() == 1
    assert close(matrix(page, "scores"), changed)
    page.get_by_text("reset", exact=True).click()
    assert page.locator(".edited").count() == 0
    assert close(matrix(page, "scores"), q @ k.T)


def test_temperature(page, qkv):
    q, k, _ = qkv
    for tenths, temperature in (("-20", 0.1), ("20", 10)):
        page.get_by_label("temperature").fill(tenths)
        scores = attention.attention_scores(q, k) / temperature
        assert close(matrix(page, "weights"), torch.softmax(scores, -1))


def test_one_tab_stop_arrows_across_the_matrices_and_words(page):
    stops = page.locator(".cell[tabindex='0']")
    assert stops.count() == 1
    at(page, "q", 1, 2).focus()
    chosen = lambda: page.evaluate(  # noqa: E731
        "document.querySelector('.tfcourse-view div').shadowRoot.activeElement.at"
    )
    way = {"ArrowRight": ["scores", 1, 0], "ArrowUp": ["scores", 0, 0]}
    for key, place in way.items():
        page.keyboard.press(key)
        assert chosen() == place
    page.keyboard.press("ArrowUp")
    assert chosen() == ["k", 2, 0]
    page.keyboard.press("PageDown")
    assert chosen() == ["scores", 2, 0]
    assert stops.count() == 1
    expect(page.locator(".spoken")).to_have_text(work(page).replace("\n", " "))


def table(page, caption):
    found = page.locator(".data table").filter(has=page.get_by_text(re.compile(f"^{caption}")))
    rows = found.locator("tbody tr").all()
    return torch.tensor([[number(t) for t in r.locator("td").all_inner_texts()] for r in rows])


def test_the_table_follows(page, qkv):
    q, k, v = qkv
    page.get_by_role("button", name="Show as table").click()
    settled(page)
    for caption, values in {"Q, a row": q, "K, a row": k, "V, a row": v}.items():
        assert torch.allclose(table(page, caption), values, rtol=6e-3, atol=1e-9)
    mask_to(page, "causal")
    settled(page)
    causal = attention.causal_mask(4)
    scores = attention.attention_scores(q, k).masked_fill(~causal, -torch.inf)
    weights = attention.attention_weights(q, k, causal)
    assert torch.allclose(table(page, "Scores"), scores, rtol=6e-3)
    assert torch.allclose(table(page, "Weights")[:, :4], weights, rtol=6e-3)
    assert torch.allclose(table(page, "Output"), weights @ v, rtol=6e-3)


@pytest.mark.parametrize("width", [420, 760])
@pytest.mark.parametrize("sizes", [(4, 4, 3, 2), (10, 10, 64, 16), (2, 7, 5, 30)])
def test_dark_and_narrow(show, width, sizes):
    queries, keys, d, e = sizes
    torch.manual_seed(1)
    q, k, v = torch.randn(queries, d), torch.randn(keys, d), torch.randn(keys, e)
    view = AttentionSteps(q, k, v)
    page = show(view, dark=True, width=width, host="module")
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "document.querySelector('#here').shadowRoot.querySelector('.view').classList.contains('dark')"
    )


def test_numbers_fit_their_cells(show, qkv):
    for width in (420, 760, 1100):
        page = show(AttentionSteps(*qkv, TOKENS), width=width)
        settled(page)
        cut = page.evaluate(
            """() => [...document.querySelector('.tfcourse-view div').shadowRoot.querySelectorAll('.cell')]
              .filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)"""
        )
        assert cut == []


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda q, k, v: (q[None], k, v), ValueError, r"q must be \(queries, d_k\), two axes, got shape \(1, 4, 3\).* q\[0\]"),
        (lambda q, k, v: (q, k[:, :2], v), ValueError, "q has 3, k has 2"),
        (lambda q, k, v: (q, k, v[:3]), ValueError, "a row for each key: k has 4 rows, v has 3"),
        (lambda q, k, v: (q.repeat(3, 1), k, v), ValueError, r"q must have 1 to 10 rows, got 12.*q\[:10\]"),
        (lambda q, k, v: (q, k, v / 0), ValueError, "v must hold finite numbers"),
        (lambda q, k, v: (q, k, v.repeat(1, 40)), ValueError, "v must have 1 to 64 numbers a row"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit(qkv, change, error, said):
    with pytest.raises(error, match=said):
        AttentionSteps(*change(*qkv))


def test_names_and_masks_that_do_not_fit(qkv):
    with pytest.raises(ValueError, match="tokens must hold one string for each query, 4, got 3"):
        AttentionSteps(*qkv, list("abc"))
    with pytest.raises(ValueError, match="value_names must hold one string for each number of a"):
        AttentionSteps(*qkv, TOKENS, value_names=["furry"])
    with pytest.raises(TypeError, match="mask must be boolean"):
        AttentionSteps(*qkv, TOKENS, mask=torch.ones(4, 4))
    with pytest.raises(ValueError, match=r"mask must be \(queries, keys\)=\(4, 4\), got \(3, 3\)"):
        AttentionSteps(*qkv, TOKENS, mask=attention.causal_mask(3))


def test_the_picture_says_and_holds_the_same_numbers(qkv):
    q, k, v = qkv
    mask = attention.causal_mask(4).clone()
    mask[2] = False
    view = AttentionSteps(*qkv, TOKENS, mask=mask)
    _, weights, output = view.results()
    assert torch.allclose(
        torch.tensor(weights), attention.attention_weights(q, k, mask).double(), atol=1e-6
    )
    assert torch.allclose(
        torch.tensor(output),
        attention.scaled_dot_product_attention(q, k, v, mask).double(),
        atol=1e-6,
    )
    texts = [text.get_text() for text in view.picture.figure.axes[0].texts]
    assert texts.count("−∞") == (~mask).sum()
    assert texts.count("0 ≠ 1") == 1  # the row with nothing to attend
    for values in (q, k, v, torch.tensor(output)[output != 0]):
        for value in values.flatten().tolist():
            assert f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−") in texts
    assert "c to nothing" in view.alt
