"""NormGeometry in Chromium: its numbers and the places of its points against torch's norms."""

import math
import re

import pytest
import torch
from playwright.sync_api import expect
from torch.nn.functional import layer_norm, rms_norm

from tests.browser.pages import settled
from tfcourse.widgets import NormGeometry

EPS = 1e-5
NORMS = {
    "as it is": lambda x: x,
    "LayerNorm": lambda x: layer_norm(x, (3,), eps=EPS),
    "RMSNorm": lambda x: rms_norm(x, (3,), eps=EPS),
}


def table(page):
    """What the table says: {row: [x1, x2, x3, mean, length]}."""
    return {
        row.locator("th").inner_text(): [
            float(text.replace("−", "-")) for text in row.locator("td").all_inner_texts()
        ]
        for row in page.locator("tbody tr").all()
    }


def expected(x):
    x = torch.as_tensor(x, dtype=torch.float64)
    return {
        name: [*norm(x).tolist(), norm(x).mean().item(), norm(x).norm().item()]
        for name, norm in NORMS.items()
    }


def check(page, x):
    got, want = table(page), expected(x)
    assert got.keys() == want.keys()
    for name, numbers in want.items():
        assert got[name] == pytest.approx(numbers, rel=0.0051, abs=1e-6), name


def place(page):
    """Where the picked point is drawn, from the middle of the picture, y upwards."""
    settled(page)
    canvas = page.locator("canvas")
    x, y = map(float, canvas.get_attribute("data-at").split())
    box = canvas.bounding_box()
    return x - box["width"] / 2, box["height"] / 2 - y


def still(page):
    """The next moves are there at once, as for readers who want no motion."""
    page.emulate_media(reduced_motion="reduce")


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


@pytest.mark.parametrize("host", ["html", "module"])
def test_numbers(show, host):
    view = NormGeometry(12, seed=3)
    page = show(view, host=host)
    for x in view.points:
        check(page, x)
        press(page, "next point")
    expect(page.locator(".pick b")).to_have_text("point 1 of 12")


def test_longer_and_added(show):
    """LayerNorm notices neither a longer point nor an added constant; RMSNorm only the latter."""
    view = NormGeometry()
    page = show(view)
    x, verdict = torch.tensor(view.points[0]), page.locator(".verdict")
    page.get_by_label("make it longer").fill("20")
    check(page, 10 * x)
    expect(verdict).to_have_text("LayerNorm does not noticeRMSNorm does not notice")
    page.get_by_label("make it longer").fill("0")
    page.get_by_label("add to all three").fill("-2.5")
    check(page, x - 2.5)
    far = (NORMS["RMSNorm"](x - 2.5) - NORMS["RMSNorm"](x)).norm().item()
    said = re.fullmatch("LayerNorm does not noticeRMSNorm moves by (.+)", verdict.text_content())
    assert float(said[1]) == pytest.approx(far, rel=0.0051)
    marked = page.locator("tbody tr").nth(1).locator(".moved").count()
    assert (marked, page.locator("tbody tr").nth(2).locator(".moved").count() > 0) == (0, True)
    press(page, "next point")  # another point starts as it is
    check(page, view.points[1])
    assert page.get_by_label("add to all three").input_value() == "0"


def test_every_point_can_be_halved_unnoticed():
    """So that "does not notice" holds over the whole slider: eps stays out of sight."""
    for seed in range(20):
        x = torch.tensor(NormGeometry(300, seed=seed).points)
        for norm in NORMS.values():
            if norm is not NORMS["as it is"]:
                assert (norm(x) - norm(x * 10 ** (-6 / 20))).norm(dim=-1).max() < 0.005


def test_circle_and_line(show):
    """From above every LayerNorm point is on the circle, from the side all are on one line."""
    view = NormGeometry(9, seed=1)
    page = show(view)
    still(page)
    press(page, "LayerNorm")
    box = page.locator("canvas").bounding_box()
    by = min(box["width"], box["height"]) / 2 / 2.3
    y = NORMS["LayerNorm"](torch.tensor(view.points))
    for i in range(9):
        press(page, "from above")
        across, up = place(page)
        assert math.hypot(across, up) / by == pytest.approx(3**0.5, abs=0.01)
        # looking along (1, 1, 1): to the right (−1, 1, 0), upwards (−1, −1, 2)
        right = (y[i, 1] - y[i, 0]).item() / 2**0.5
        assert (across / by, up / by) == pytest.approx((right, y[i, 2].item() * 1.5**0.5), abs=0.01)
        press(page, "from the side")
        across, up = place(page)
        assert across == pytest.approx(-up / 2**0.5, abs=0.6)
        press(page, "next point")


def test_the_move_is_animated(show):
    page = show(NormGeometry())
    before = place(page)
    press(page, "RMSNorm")
    press(page, "LayerNorm")
    press(page, "as they are")
    page.wait_for_timeout(2200)
    assert place(page) == pytest.approx(before, abs=0.02)
    press(page, "LayerNorm")
    page.wait_for_timeout(2200)
    after = place(page)
    still(page)
    press(page, "as they are")
    press(page, "LayerNorm")
    assert place(page) == pytest.approx(after, abs=0.02)
    assert math.dist(before, after) > 20


def test_drag_click_and_toggles(show):
    view = NormGeometry(12)
    page = show(view)
    still(page)
    for _ in range(4):
        press(page, "next point")
    x, y = place(page)
    box = page.locator("canvas").bounding_box()
    press(page, "previous point")
    page.mouse.click(box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 - y)
    expect(page.locator(".pick b")).to_have_text("point 5 of 12")
    before = place(page)
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 90, steps=4)
    page.mouse.up()
    assert math.dist(before, place(page)) > 5
    expect(page.locator(".pick b")).to_have_text("point 5 of 12")
    press(page, "as at first")
    assert place(page) == pytest.approx(before, abs=0.02)
    for name in ("plane", "sphere"):
        picture = page.locator("canvas").evaluate("(c) => c.toDataURL()")
        press(page, name)
        settled(page)
        assert page.locator("canvas").evaluate("(c) => c.toDataURL()") != picture
        pressed = page.get_by_role("button", name=name, exact=True).get_attribute("aria-pressed")
        assert pressed == "false"


def test_keyboard_and_words(show):
    view = NormGeometry()
    page = show(view)
    still(page)
    canvas, spoken = page.locator("canvas"), page.locator(".spoken")
    expect(spoken).to_have_text(re.compile(r"^as they are\. Point 1 of 60: .*, length "))
    canvas.focus()
    before = place(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    expect(spoken).to_have_text(re.compile(r"^seen from \d+ degrees round, \d+ (above|below)$"))
    assert math.dist(before, place(page)) > 0.5
    page.keyboard.press("PageDown")
    expect(spoken).to_have_text(re.compile(r"Point 2 of 60: "))
    page.get_by_role("button", name="next point").focus()
    page.keyboard.press("ArrowRight")
    expect(spoken).to_have_text(re.compile(r"Point 3 of 60: "))
    press(page, "LayerNorm")
    expect(spoken).to_have_text(re.compile(r"^LayerNorm\. .*after LayerNorm .*mean 0, length 1.73"))
    page.get_by_label("make it longer").focus()
    page.keyboard.press("ArrowRight")
    said = r"LayerNorm does not notice, RMSNorm does not notice$"
    expect(spoken).to_have_text(re.compile(said))
    assert page.get_by_label("make it longer").get_attribute("aria-valuetext") == "×1.12"


@pytest.mark.parametrize("width", [420, 760])
def test_dark_and_narrow(show, width):
    page = show(NormGeometry(), dark=True, width=width)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    canvas, view = page.locator("canvas").bounding_box(), page.locator(".view").bounding_box()
    assert canvas["width"] > 280
    assert canvas["x"] + canvas["width"] <= view["x"] + view["width"]


def test_the_output_is_small_and_the_same_every_time():
    first, second = NormGeometry(300), NormGeometry(300)
    assert first.html() == second.html()
    assert len(first.html()) < 200_000
    assert first.points.shape == (300, 3)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: NormGeometry(1), ValueError, "points must be between 2 and 300, got 1"),
        (lambda: NormGeometry(2.5), TypeError, "points must be an int, got 2.5"),
        (lambda: NormGeometry(True), TypeError, "points must be an int, got True"),
        (lambda: NormGeometry(seed=-1), ValueError, "seed must be between 0 and 4294967295, got"),
        (lambda: NormGeometry(seed="0"), TypeError, "seed must be an int, got '0'"),
    ],
)
def test_bad_input(call, error, said):
    with pytest.raises(error, match=said):
        call()
