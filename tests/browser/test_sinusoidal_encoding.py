"""SinusoidalEncoding in Chromium: stripes, dot products and clock against the layer's formula."""

import math
import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import settled
from tfcourse.positions import sinusoidal_encoding
from tfcourse.widgets import SinusoidalEncoding

PIXELS = """canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return [canvas.height, canvas.width, ...data];
}"""
VIRIDIS = """440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73
5ec962 84d44b addc30 d8e219 fde725""".split()


def number(page, name):
    return float(page.locator(f"[data-of={name}]").inner_text().replace("−", "-"))


def fill(page, **values):
    for label, value in values.items():
        label = label.replace("position_", "position ")
        page.get_by_label(label, exact=True).fill(str(value))


def positions(page):
    return [int(page.get_by_label(f"position {x}", exact=True).input_value()) for x in "ab"]


@pytest.mark.parametrize("host", ["html", "module"])
@pytest.mark.parametrize(("d_model", "base"), [(32, 10000), (128, 100000), (4, 10), (50, 500)])
def test_numbers(show, host, d_model, base):
    page = show(SinusoidalEncoding(128, d_model, base), host=host)
    table = sinusoidal_encoding(128, d_model, base).double()
    for a, b, pair in ((3, 90, 0), (90, 3, d_model // 2 - 1), (64, 64, 1), (127, 126, 1)):
        fill(page, position_a=a, position_b=b, pair=pair)
        two = table[:, 2 * pair : 2 * pair + 2]
        assert number(page, "dot") == pytest.approx(float(table[a] @ table[b]), rel=6e-3, abs=2e-3)
        assert number(page, "share") == pytest.approx(float(two[a] @ two[b]), rel=6e-3, abs=2e-3)
        period = 2 * math.pi * base ** (2 * pair / d_model)
        assert number(page, "period") == pytest.approx(period, rel=6e-3)
        cells = [
            float(x.replace("−", "-")) for x in page.locator(".facts td").all_inner_texts()[1:]
        ]
        assert cells == pytest.approx(torch.cat([two[a], two[b]]).tolist(), rel=6e-3, abs=2e-3)


def test_every_pixel_of_the_barcode(show):
    page = show(SinusoidalEncoding())
    fill(page, d_model=64, base=1, length=100)  # the second of the bases: 100
    high, wide, *bytes_ = page.locator("canvas").evaluate(PIXELS)
    assert (high, wide) == (64, 100)
    stops = np.array([[int(stop[i : i + 2], 16) for i in (0, 2, 4)] for stop in VIRIDIS])
    place = (sinusoidal_encoding(100, 64, 100.0).T.numpy() + 1) / 2 * (len(stops) - 1)
    wanted = np.stack([np.interp(place, range(len(stops)), stops[:, i]) for i in range(3)], -1)
    got = np.array(bytes_).reshape(64, 100, 4)[..., :3]
    assert np.abs(got - wanted).max() < 2.5


def test_moving_both_changes_no_dot_product(show):
    page = show(SinusoidalEncoding())
    fill(page, position_a=10, position_b=17)
    before, dot = number(page, "dot"), page.locator("svg .dot").get_attribute("cx")
    hand = page.locator(".clock .a line").get_attribute("x2")
    fill(page, **{"move both": 40})
    assert positions(page) == [40, 47]
    assert number(page, "dot") == before
    assert page.locator("svg .dot").get_attribute("cx") == dot
    assert page.locator(".clock .a line").get_attribute("x2") != hand
    expect(page.locator(".spoken")).to_have_text(
        re.compile(r"^a 40, b 47, offset 7: dot product still ")
    )
    page.get_by_label("move both").press("End")
    assert positions(page) == [56, 63]


def test_pointer(show):
    """Drag a column, its flag, the offset below, a pair at the left, the curve."""
    page = show(SinusoidalEncoding())
    settled(page)
    fill(page, position_a=10, position_b=40)
    box = page.locator("canvas").bounding_box()

    def at(position, y=100):
        return box["x"] + (position + 0.5) * box["width"] / 64, box["y"] + y

    def drag(start, end):
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(*end, steps=4)
        page.mouse.up()

    drag(at(38), at(50))
    assert positions(page) == [10, 50]
    drag(at(12), at(20))
    assert positions(page) == [20, 50]
    drag(at(35, 256 + 17), at(40, 256 + 17))
    assert positions(page) == [25, 55]
    drag(at(35, 256 + 17), at(200, 256 + 17))
    assert positions(page) == [33, 63]
    flag = page.locator("g.flag, .b.grab").bounding_box()
    middle = flag["x"] + flag["width"] / 2, flag["y"] + 8
    drag(middle, (middle[0] - 3 * box["width"] / 64, middle[1]))
    assert positions(page) == [33, 60]
    drag((box["x"] - 25, box["y"] + 3), (box["x"] - 25, box["y"] + 256 * 5.5 / 16))
    assert page.get_by_label("pair", exact=True).input_value() == "5"
    curve = page.locator("svg.grab").bounding_box()
    drag((curve["x"] + 50, curve["y"] + 50), (curve["x"] + curve["width"] - 9, curve["y"] + 50))
    assert positions(page) == [0, 63]


def test_keyboard_and_words(show):
    page = show(SinusoidalEncoding())
    plot = page.get_by_role("application")
    plot.press("ArrowRight")
    assert positions(page) == [19, 26]
    plot.press("Shift+ArrowLeft")
    assert positions(page) == [18, 25]
    plot.press("ArrowDown")
    expect(page.locator(".spoken")).to_have_text(
        re.compile(r"^a 18, b 25, offset 7: dot product [\d.]+ of 16\. Pair 4 turns once in 62\.8 ")
    )
    page.get_by_label("base", exact=True).press("ArrowRight")
    valued = page.get_by_label("base", exact=True).get_attribute("aria-valuetext")
    assert valued == "100\u202f000"


def test_a_shorter_length_keeps_the_offset(show):
    page = show(SinusoidalEncoding())
    fill(page, position_a=40, position_b=46, length=20, d_model=4)
    assert positions(page) == [13, 19]
    assert page.get_by_label("pair", exact=True).input_value() == "1"


@pytest.mark.parametrize("width", [420, 760])
def test_dark_and_narrow(show, width):
    page = show(SinusoidalEncoding(256, 128, 100000.0), dark=True, width=width)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_size_and_sameness():
    first, second = (SinusoidalEncoding(256, 128) for _ in range(2))
    assert first.html() == second.html()
    assert len(first.html()) < 200_000


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"tokens": 7}, ValueError, "tokens must be between 8 and 256, got 7"),
        ({"tokens": 64.0}, TypeError, "tokens must be an int, got 64.0"),
        ({"d_model": 33}, ValueError, "d_model must be even .*, got 33"),
        ({"d_model": True}, TypeError, "d_model must be an int, got True"),
        ({"base": "10"}, TypeError, "base must be a number, got '10'"),
        ({"base": 1}, ValueError, "base must be between 10 and 100000, got 1"),
        ({"base": math.nan}, ValueError, "base must be between 10 and 100000, got nan"),
    ],
)
def test_bad_input(arguments, error, said):
    with pytest.raises(error, match=said):
        SinusoidalEncoding(**arguments)
