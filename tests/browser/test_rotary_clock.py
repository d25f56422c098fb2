"""RotaryClock in Chromium: hands, shares and scores against the layer that lessons use."""

import math
import re

import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import settled
from tfcourse.positions import Rotary
from tfcourse.widgets import RotaryClock


def turned(view, m, n):
    """The view's query at m and key at n, by the course's own layer, in pairs."""
    rotary = Rotary(len(view.q), view.base)
    q = rotary(torch.tensor(view.q)[None], torch.tensor([m]))
    k = rotary(torch.tensor(view.k)[None], torch.tensor([n]))
    return q.view(-1, 2), k.view(-1, 2)


def number(text):
    return float(text.replace("−", "-"))


def shown(page):
    """Every pair's share, then the score."""
    return [number(text) for text in page.locator(".part, [data-of=score]").all_inner_texts()]


def expected(view, m, n):
    q, k = turned(view, m, n)
    parts = (q * k).sum(-1)
    return [parts.sum().item(), *parts.tolist()]


def fill(page, m, n):
    page.get_by_label("query at").fill(str(m))
    page.get_by_label("key at").fill(str(n))


def at(page):
    return [int(page.get_by_label(name).input_value()) for name in ("query at", "key at")]


@pytest.mark.parametrize("host", ["html", "module"])
@pytest.mark.parametrize(
    ("d_head", "base", "seed"), [(8, 10000.0, 0), (2, 10000.0, 1), (16, 500_000, 2), (6, 1.5, 3)]
)
def test_numbers(show, host, d_head, base, seed):
    view = RotaryClock(d_head, base=base, seed=seed)
    page = show(view, host=host)
    assert page.locator(".clock").count() == d_head // 2
    for m, n in ((12, 5), (0, 0), (64, 0), (3, 61)):
        fill(page, m, n)
        assert shown(page) == pytest.approx(expected(view, m, n), abs=8e-4), (m, n)
        assert number(page.locator("[data-of=distance]").inner_text()) == m - n
        assert view.score(m - n) == pytest.approx(expected(view, m, n)[0], abs=1e-5)


def test_hands_point_where_the_layer_turns_them(show):
    view = RotaryClock()
    page = show(view)
    fill(page, 30, 11)
    longest = max(torch.tensor(x).view(-1, 2).norm(dim=-1).max().item() for x in (view.q, view.k))
    for which, pairs in zip("qk", turned(view, 30, 11), strict=True):
        for i, pair in enumerate(pairs):
            hand = page.locator(".clock").nth(i).locator(f".{which} .hand")
            x, y = (50 * pair / longest).tolist()
            if math.hypot(x, y) <= 2:
                continue  # too short to draw at its length
            end = [float(hand.get_attribute(name)) for name in ("x2", "y2")]
            assert end == pytest.approx([x, -y], abs=0.02)


def test_moving_both_changes_hands_and_no_score(show):
    page = show(RotaryClock())
    before, hand = shown(page), page.locator(".q .hand").first.get_attribute("x2")
    page.get_by_label("move both").fill("40")
    assert at(page) == [47, 40]
    assert shown(page) == before
    assert page.locator(".q .hand").first.get_attribute("x2") != hand
    expect(page.locator(".spoken")).to_have_text(
        re.compile(r"^query 47, key 40, distance 7: score still −?[\d.]+, of the pairs ")
    )
    page.get_by_label("move both").press("End")
    assert at(page) == [64, 57]


def test_dragging_a_hand_turns_it(show):
    """A quarter turn of pair 1 (0.1 a position) is 16 positions; the other hand stays."""
    view = RotaryClock()
    page = show(view)
    settled(page)
    box = page.locator(".clock").nth(1).bounding_box()
    unit = box["width"] / 136
    start = math.atan2(*turned(view, 12, 5)[0][1].flip(0).tolist())

    def point(angle):
        x, y = 40 * math.cos(angle), -40 * math.sin(angle)
        return box["x"] + (58 + x) * unit, box["y"] + (56 + y) * unit

    page.mouse.move(*point(start))
    page.mouse.down()
    for part in range(1, 9):
        page.mouse.move(*point(start + part * math.pi / 16))
    page.mouse.up()
    assert at(page) == [12 + 16, 5]


def test_dragging_the_curve_sets_the_distance(show):
    page = show(RotaryClock())
    settled(page)
    box = page.locator(".chart").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 60, steps=5)
    page.mouse.up()
    assert at(page) == [64, 0]


def test_keyboard_and_words(show):
    page = show(RotaryClock())
    page.get_by_label("query at").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert at(page) == [13, 4]
    expect(page.locator(".spoken")).to_have_text(re.compile(r"^query 13, key 4, distance 9: score"))
    assert page.get_by_label("move both").get_attribute("aria-valuetext") == "13, 4"


@pytest.mark.parametrize("d_head", [2, 8, 16])
@pytest.mark.parametrize("width", [420, 760])
def test_dark_and_narrow(show, width, d_head):
    page = show(RotaryClock(d_head), dark=True, width=width)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_size_and_sameness():
    assert RotaryClock(seed=5).html() == RotaryClock(seed=5).html()
    assert len(RotaryClock(16).html()) < 200_000


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"d_head": 7}, ValueError, "d_head must be even .*, got 7"),
        ({"d_head": 18}, ValueError, "d_head must be between 2 and 16, got 18"),
        ({"d_head": 8.0}, TypeError, "d_head must be an int, got 8.0"),
        ({"base": 1}, ValueError, "base must be greater than 1, got 1"),
        ({"base": math.inf}, ValueError, "base must be greater than 1, got inf"),
        ({"base": None}, TypeError, "base must be a number, got None"),
        ({"seed": -1}, ValueError, "seed must be between 0 and 4294967295, got -1"),
        ({"seed": "0"}, TypeError, "seed must be an int, got '0'"),
    ],
)
def test_bad_input(arguments, error, said):
    with pytest.raises(error, match=said):
        RotaryClock(**arguments)
