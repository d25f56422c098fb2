"""AttentionSteps in Chromium: every step's numbers against torch; dragging, painting, keyboard."""

import re

import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import settled
from tfcourse import attention
from tfcourse.widgets import AttentionSteps

TOKENS = ["a", "<b onclick=alert(1)>", "c", "d"]


@pytest.fixture(scope="module")
def qkv():
    torch.manual_seed(0)
    return torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 2)


@pytest.fixture
def page(show, qkv):
    return show(AttentionSteps(*qkv, TOKENS))


def table(page):
    rows = page.locator("table tr").all()[1:]
    read = lambda text: float(text.replace("✎ ", "").replace("−∞", "-inf").replace("−", "-"))  # noqa: E731
    return torch.tensor(
        [[read(t) for t in r.locator("td[role=gridcell]").all_inner_texts()] for r in rows]
    )


def step(page, name):
    page.get_by_role("button", name=re.compile(name)).first.click()


def at(page, row, column):
    return page.locator("table tr").nth(row + 1).locator("td[role=gridcell]").nth(column)


def close(a, b):
    return torch.allclose(a, b.float(), atol=0.0051)


def test_every_step_against_torch(page, qkv):
    q, k, v = qkv
    assert close(table(page), q @ k.T)
    step(page, "÷ √d_k")
    assert close(table(page), attention.attention_scores(q, k))
    step(page, "softmax")
    assert close(table(page), attention.attention_weights(q, k))
    step(page, "times V")
    assert close(table(page), attention.scaled_dot_product_attention(q, k, v))


def test_causal_start(show, qkv):
    q, k, _ = qkv
    page = show(AttentionSteps(*qkv, TOKENS, causal=True))
    step(page, "mask")
    assert torch.equal(table(page) == -torch.inf, ~attention.causal_mask(4))
    step(page, "softmax")
    assert close(table(page), attention.attention_weights(q, k, attention.causal_mask(4)))


def test_the_arithmetic_is_written_out(page, qkv):
    q, k, _ = qkv
    at(page, 1, 2).hover()
    said = page.locator(".work").inner_text()
    assert said.startswith("<b onclick=alert(1)> → c: q·k = ")
    assert said.count("·") == 4  # q·k itself, and three products
    assert float(said.rsplit(" ", 1)[1].replace("−", "-")) == pytest.approx(
        (q[1] @ k[2]).item(), abs=0.01
    )
    step(page, "÷ √d_k")
    at(page, 1, 2).hover()
    assert "/ √3 = " in page.locator(".work").inner_text()


def test_painting_the_mask_by_mouse_and_by_keyboard(page, qkv):
    q, k, _ = qkv
    step(page, "mask")
    at(page, 2, 0).click()
    at(page, 2, 1).focus()
    page.keyboard.press(" ")
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2, :2] = False
    assert torch.equal(table(page) == -torch.inf, ~mask)
    page.keyboard.press("PageDown")
    assert close(table(page), attention.attention_weights(q, k, mask))


def test_a_row_without_any_key_gives_zeros(page):
    step(page, "mask")
    for column in range(4):
        at(page, 1, column).click()
    step(page, "softmax")
    assert (table(page)[1] == 0).all()
    at(page, 1, 0).focus()
    assert "zeros" in page.locator(".work").inner_text()
    assert "nothing to attend, zeros" in page.locator(".follows").inner_text()


def test_zero_after_the_softmax_is_not_the_same(page, qkv):
    q, k, _ = qkv
    step(page, "mask")
    at(page, 0, 1).click()
    page.get_by_text("put 0 after the softmax").click()
    step(page, "softmax")
    expected = attention.attention_weights(q, k)[0].clone()
    expected[1] = 0
    assert close(table(page)[:1], expected[None])
    at(page, 0, 1).focus()
    assert re.search(r"The row sums to 0\.\d+, not 1", page.locator(".work").inner_text())
    assert page.locator(".warn").count() == 1


def test_dragging_a_score(page, qkv):
    before = table(page)
    box = at(page, 2, 1).bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 10, box["y"] - 30, steps=4)
    page.mouse.up()
    after = table(page)
    assert after[2, 1] - before[2, 1] == pytest.approx(5.0, abs=0.02)  # 40 pixels, 8 for each 1
    step(page, "softmax")
    scores = before.clone()
    scores[2, 1] += 5
    assert close(table(page), torch.softmax(scores / 3**0.5, -1))


def test_scores_by_keyboard_and_number_field_and_reset(page, qkv):
    q, k, _ = qkv
    at(page, 0, 0).focus()
    for key in ("ArrowDown", "ArrowRight", "+", "+", "-"):
        page.keyboard.press(key)
    changed = q @ k.T
    changed[1, 1] += 0.5
    assert close(table(page), changed)
    page.get_by_label("score").fill("3.25")
    changed[1, 1] = 3.25
    assert close(table(page), changed)
    page.get_by_text("reset", exact=True).click()
    assert close(table(page), q @ k.T)


def test_temperature(page, qkv):
    q, k, _ = qkv
    step(page, "softmax")
    page.get_by_label("temperature").fill("-20")
    assert close(table(page), torch.softmax(attention.attention_scores(q, k) / 0.1, -1))
    page.get_by_label("temperature").fill("20")
    assert close(table(page), torch.softmax(attention.attention_scores(q, k) / 10, -1))


def test_one_tab_stop_and_spoken_words(page):
    stops = page.locator("td[role=gridcell][tabindex='0']")
    assert stops.count() == 1
    stops.focus()
    page.keyboard.press("ArrowRight")
    assert stops.count() == 1
    expect(page.locator(".spoken")).to_have_text(page.locator(".work").inner_text())


@pytest.mark.parametrize("width", [420, 760])
def test_dark_and_narrow(show, qkv, width):
    page = show(AttentionSteps(*qkv, TOKENS), dark=True, width=width, host="module")
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "document.querySelector('#here').shadowRoot.querySelector('.view').classList.contains('dark')"
    )


def test_bad_input(qkv):
    q, k, v = qkv
    with pytest.raises(ValueError, match="tokens must be at most 10, got 11"):
        AttentionSteps(q, k, v, list("abcdefghijk"))
    with pytest.raises(ValueError, match=r"q must be \(tokens=3, d\), got \(4, 3\)"):
        AttentionSteps(q, k, v, list("abc"))
    with pytest.raises(ValueError, match="k must have the d_k of q, 3, got 2"):
        AttentionSteps(q, v, v, TOKENS)
    with pytest.raises(TypeError, match="causal must be a bool"):
        AttentionSteps(q, k, v, TOKENS, causal=1)
    with pytest.raises(ValueError, match="v must hold finite numbers"):
        AttentionSteps(q, k, v / 0, TOKENS)
