"""Every view's numbers as a table: a button, a key, a real table, and true in every state."""

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import settled
from tfcourse import attention, positions
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.widgets import (
    Activations,
    AttentionMap,
    AttentionSteps,
    BlockShapes,
    LogitLens,
    NextToken,
    NormGeometry,
    Playground,
    RotaryClock,
    SinusoidalEncoding,
    SizeBudget,
    SoftmaxScale,
)
from tfcourse.widgets.activations import curves
from tfcourse.widgets.block_shapes import amount, block_steps, times
from tfcourse.widgets.norm_geometry import layer_norm, rms_norm

EVIL = "<img src=x onerror=document.title='pwned'>"


def weights(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape).mul(2).softmax(-1)


VIEWS = {
    "map": lambda: AttentionMap(weights(2, 4, 4), ["a", EVIL, "c", "d"]),
    "large map": lambda: AttentionMap(weights(1, 40, 40), [f"t{i}" for i in range(40)]),
    "steps": lambda: AttentionSteps(*torch.randn(3, 4, 3), ["a", EVIL, "c", "d"]),
    "softmax scale": SoftmaxScale,
    "sinusoidal": SinusoidalEncoding,
    "rotary": RotaryClock,
    "norms": NormGeometry,
    "activations": Activations,
    "block": BlockShapes,
    "size budget": SizeBudget,
    "logit lens": lambda: LogitLens(torch.randn(3, 2, 4), ["a", EVIL, "c", "d"], [EVIL, "c"]),
    "next token": lambda: NextToken(torch.randn(2, 4), ["a", EVIL, "c", "d"], [EVIL, ""]),
    "playground": lambda: Playground(
        LanguageModel(TransformerConfig(4, 8, 2, 2)), ["a", EVIL, "c", "d"], f"ac{EVIL}"
    ),
}


def open_table(page):
    page.get_by_role("button", name="Show as table").click()
    settled(page)


def read(page, table=0):
    """(caption, column names, {row's name: its cells})."""
    shown = page.locator(".data table").nth(table)
    cells = page.evaluate(
        """(table) => [...document.querySelector('.tfcourse-view div').shadowRoot
          .querySelectorAll('.data table')[table].tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))""",
        table,
    )
    columns = shown.locator("thead th").all_inner_texts()
    return shown.locator("caption").inner_text(), columns, {name: row for name, *row in cells}


def number(text):
    return float(text.replace("−∞", "-inf").replace("−", "-"))


def close(texts, values):
    """Three digits: half a unit of the third, and a little where half floats brought the numbers."""
    got = [number(text) for text in texts]
    assert got == pytest.approx([float(value) for value in values], rel=6e-3, abs=1e-6)


@pytest.mark.parametrize("name", VIEWS)
def test_a_button_and_a_key_and_a_real_table(show, name):
    page = show(VIEWS[name]())
    button = page.get_by_role("button", name="Show as table")
    tables = page.locator(".data table")
    assert (button.get_attribute("aria-expanded"), tables.count()) == ("false", 0)
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    expect(page.get_by_role("region", name="as a table")).to_be_visible()
    settled(page)
    assert tables.count() >= 1
    for table in tables.all():
        assert len(table.locator("caption").inner_text()) > 8
        assert table.locator("thead th:not([scope=col]), tbody th:not([scope=row])").count() == 0
        widths = {row.locator("th, td").count() for row in table.locator("tbody tr").all()[:3]}
        assert widths == {table.locator("thead th").count()}
        assert table.locator("tbody tr").count() >= 2
    words = page.locator(".data").inner_text()
    assert not re.search(r"undefined|NaN|null|not a number|\[object", words)
    button.click()
    expect(page.locator(".data")).to_be_hidden()
    # the key goes there and comes back
    assert page.get_by_text("or press T").count() == 1
    page.keyboard.press("t")
    expect(page.locator(".data")).to_be_focused()
    page.keyboard.press("T")
    expect(page.locator(".data")).to_be_hidden()
    expect(button).to_be_focused()
    assert page.title() != "pwned"


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("width", [420, 760])
def test_no_table_is_wider_than_the_page(show, name, width):
    page = show(VIEWS[name](), dark=True, width=width)
    open_table(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_typing_a_t_into_a_field_is_only_typing(show):
    page = show(BlockShapes())
    page.get_by_label("tokens", exact=True).press("t")
    expect(page.locator(".data")).to_be_hidden()
    page.get_by_label("block", exact=True).press("t")
    expect(page.locator(".data")).to_be_hidden()


def test_who_reads_the_table_keeps_their_place(show):
    """It is built anew only where a number has changed."""
    page = show(Activations(1))
    open_table(page)
    page.evaluate(
        "document.querySelector('.tfcourse-view div').shadowRoot.querySelector('.data table').kept = true"
    )
    kept = "() => document.querySelector('.tfcourse-view div').shadowRoot.querySelector('.data table').kept ?? false"
    page.get_by_label("x", exact=True).fill("1")
    settled(page)
    assert page.evaluate(kept)
    page.get_by_label("x", exact=True).fill("1.2")
    settled(page)
    assert not page.evaluate(kept)


def test_a_map_shows_its_head_layer_and_mode(show):
    shown = weights(2, 2, 3, 3)
    mask = attention.causal_mask(3)
    shown = (shown * mask) / (shown * mask).sum(-1, keepdim=True)
    scores = torch.randn(2, 2, 3, 3)
    page = show(AttentionMap(shown, ["it", "is", "it"], mask=mask, scores=scores))
    open_table(page)
    caption, columns, rows = read(page)
    assert caption == "Weights of head 0, layer 0: queries down, keys across"
    assert columns == ["query", "it₀", "is", "it₂"]  # a token that stands there twice has its place
    assert rows["it₀"][1:] == ["masked"] * 2
    close(rows["it₂"], shown[0, 0, 2])
    page.locator(".head").nth(1).click()
    page.get_by_label("layer").select_option("1")
    page.get_by_label("show", exact=True).select_option("scores")
    settled(page)
    caption, _, rows = read(page)
    assert caption == "Scores of head 1, layer 1: queries down, keys across"
    close(rows["it₂"], scores[1, 1, 2])
    page.get_by_label("show", exact=True).select_option("mask")
    settled(page)
    assert read(page)[2]["is"] == ["may", "may", "may not"]


def test_a_large_map_gives_its_largest_and_the_held_row(show):
    shown = weights(1, 40, 40)
    page = show(AttentionMap(shown, [f"t{i}" for i in range(40)]))
    open_table(page)
    caption, _, rows = read(page)
    assert caption.startswith("Weights: the 5 largest of the 40 keys of each query")
    assert len(rows) == 40
    values, keys = shown[0, 7].topk(5)
    assert rows["t7"][::2] == [f"t{k}" for k in keys.tolist()]
    close(rows["t7"][1::2], values)
    page.locator(".map").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    settled(page)
    caption, _, rows = read(page)
    assert "the held row, query t3; its 40 largest of 40 keys" in caption
    close([row[0] for row in rows.values()], shown[0, 3].sort(descending=True).values)
    page.keyboard.press("Escape")
    settled(page)
    assert "5 largest" in read(page)[0]


def test_sinusoidal(show):
    page = show(SinusoidalEncoding(tokens=20, d_model=6, base=100.0))
    open_table(page)
    page.get_by_label("position a", exact=True).fill("3")
    page.get_by_label("position b", exact=True).fill("11")
    settled(page)
    encoding = positions.sinusoidal_encoding(20, 6, 100.0).double()
    caption, _, rows = read(page)
    assert "a = 3 and b = 11" in caption
    for pair, cells in enumerate(rows.values()):
        two = encoding[:, 2 * pair : 2 * pair + 2]
        close(cells[2:], [*two[3], *two[11], two[3] @ two[11]])
    _, _, rows = read(page, 1)
    assert list(rows) == [f"{i}{' (here)' if i == 8 else ''}" for i in range(20)]
    close([row[0] for row in rows.values()], encoding @ encoding[0])


def test_rotary(show):
    view = RotaryClock(d_head=4)
    page = show(view)
    open_table(page)
    page.get_by_label("query at", exact=True).fill("20")
    settled(page)
    caption, _, rows = read(page)
    assert "Query at 20, key at 5" in caption
    assert sum(number(row[-1]) for row in rows.values()) == pytest.approx(view.score(15), abs=0.01)
    close([row[1] for row in rows.values()], np.hypot(view.q[::2], view.q[1::2]))
    scores = read(page, 1)[2]
    close([row[0] for row in scores.values()], view.score(np.arange(-64, 65)))
    assert "15 (here)" in scores


def test_norms(show):
    view = NormGeometry(points=7)
    page = show(view)
    open_table(page)
    page.get_by_role("button", name="next point").click()
    page.get_by_label("add to all three").fill("2")
    settled(page)
    points = view.points.copy()
    points[1] += 2
    for table, placed in enumerate((points, layer_norm(points), rms_norm(points))):
        _, columns, rows = read(page, table)
        assert columns == ["point", "x₁", "x₂", "x₃", "mean", "length"]
        assert "2 (chosen)" in rows
        for p, cells in zip(placed, rows.values(), strict=True):
            close(cells, [*p, p.mean(), np.linalg.norm(p)])
    fits = "(box) => box.scrollWidth <= box.clientWidth"
    assert page.locator(".data").evaluate(fits)


def test_activations(show):
    page = show(Activations(-1.37))
    open_table(page)
    page.get_by_role("button", name="SiLU").click()
    settled(page)
    caption, columns, rows = read(page)
    assert columns == ["x", "ReLU", "GELU", "GELU (tanh)"]
    assert "−1.37 (here)" in rows
    at = np.array([number(name.split()[0]) for name in rows])
    for table, part in ((0, 0), (1, 1)):
        cells = list(read(page, table)[2].values())
        for column, name in enumerate(columns[1:]):
            wanted, got = curves(at)[name][part], [row[column] for row in cells]
            away = at != 0 if part else at == at  # ReLU has no slope at 0
            close(np.array(got)[away], wanted[away])
    page.get_by_role("button", name="gated").click()
    page.get_by_label("u", exact=True).fill("-2")
    settled(page)
    caption, _, rows = read(page)
    assert "u = −2.00" in caption
    close([row[1] for row in rows.values()], -2 * curves(at)["GELU"][0])


def test_block(show):
    page = show(BlockShapes())
    open_table(page)
    page.get_by_label("block", exact=True).select_option(label="GPT-2 small")
    page.get_by_role("button", name="Next").click()
    settled(page)
    steps = block_steps(32, 2048, 768, 12, 12, 3072, gated=False, bias=True)
    caption, _, rows = read(page)
    assert "d_model 768" in caption
    assert len(rows) == len(steps)
    assert "1 LayerNorm (here)" in rows
    for step, (_, _, shape, axes, parameters, flops, size) in zip(
        steps, rows.values(), strict=True
    ):
        assert (shape, axes) == (times(step.shape), ", ".join(step.axes))
        for said, value, none, unit in (
            (parameters, step.parameters, "none", ""),
            (flops, step.flops, "none", ""),
            (size, step.bytes, "a view", "B"),
        ):
            assert said == (f"{amount(value)}{unit}".strip() if value else none)
