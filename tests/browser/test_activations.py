"""Activations in Chromium: values and slopes against torch's autograd, by every way to move."""

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import settled
from tfcourse.feed_forward import ACTIVATIONS
from tfcourse.widgets import Activations
from tfcourse.widgets.activations import curves

NAMES = ["ReLU", "GELU", "GELU (tanh)", "SiLU"]  # in the order of feed_forward.ACTIVATIONS
POINTS = [-4, -3.97, -3.5, -3, -2.51, -2, -1.28, -0.75, -0.31, -0.01, 0.01, 0.5, 1.41, 2.7, 4]


def number(text):
    return float(text.replace("−", "-"))


def table(page, columns=2):
    """{name: the first numbers of its row}."""
    settled(page)
    return {
        row.locator("th").inner_text().strip(): [
            number(text) for text in row.locator("td").all_inner_texts()[:columns]
        ]
        for row in page.locator("tbody tr").all()
    }


def expected(x, u=None):
    """The same numbers by torch: value and slope, or what the gate makes of g = x and u."""
    found = {}
    for name, activation in zip(NAMES, ACTIVATIONS.values(), strict=True):
        g = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        v = torch.tensor(1.0 if u is None else u, dtype=torch.float64, requires_grad=True)
        (activation(g) * v).backward()
        value = activation(g).item()
        plain, gated = [value, g.grad.item()], [value, value * v.item(), g.grad.item()]
        found[name] = plain if u is None else [*gated, v.grad.item()]
    return found


def check(got, want):
    assert list(got) == NAMES
    for name in NAMES:
        # half a unit of the third digit, and float64's own noise where a slope crosses zero
        assert got[name] == pytest.approx(want[name], rel=0.00501, abs=1e-9), name


def to(page, x, name="x"):
    page.get_by_label(name, exact=True).fill(str(x))


def press(page, name):
    page.get_by_role("button", name=name).click()


@pytest.mark.parametrize("host", ["html", "module"])
def test_values_and_slopes(show, host):
    page = show(Activations(), host=host)
    check(table(page), expected(1.0))
    for x in POINTS:
        to(page, x)
        check(table(page), expected(x))


def test_the_corner(show):
    """At 0 ReLU has no one slope: the page says so, and gives the others' one half."""
    page = show(Activations(0))
    got = table(page)
    assert [got[name][1] for name in NAMES] == [0, 0.5, 0.5, 0.5]
    expect(page.locator("tbody td.words").first).to_have_text(re.compile("a corner: 0 to the left"))
    expect(page.locator(".says")).to_contain_text("torch.relu takes 0")


def test_does_gradient_flow(show):
    page = show(Activations(-0.5))
    says, words = page.locator(".says"), page.locator("tbody td.words")
    expect(says).to_contain_text("ReLU says 0 and its slope is 0: no gradient flows")
    expect(says).to_contain_text("GELU, GELU (tanh) and SiLU still let gradient through.")
    assert words.all_inner_texts() == ["none", "a little", "a little", "a little"]
    to(page, -2)
    expect(says).to_contain_text("GELU, GELU (tanh) and SiLU let a little through with the sign")
    assert words.all_inner_texts()[1:] == ["a little, reversed"] * 3
    to(page, -4)
    expect(says).to_contain_text("GELU and GELU (tanh) let next to nothing through")
    press(page, "ReLU")
    expect(says).not_to_contain_text("ReLU")


def test_difference(show):
    """Exact minus tanh to three digits, out to where both are tiny; and the greatest there is."""
    page = show(Activations())
    expect(page.locator(".gap")).to_be_hidden()
    press(page, "GELU − its tanh form")
    gelu, gelu_tanh = ACTIVATIONS["gelu"], ACTIVATIONS["gelu_tanh"]
    for x in (-4, -2.7, -1.2, 0.4, 1, 3.6):
        to(page, x)
        settled(page)
        at = torch.tensor(x, dtype=torch.float64)
        got = number(page.locator(".gap b").inner_text())
        assert got == pytest.approx((gelu(at) - gelu_tanh(at)).item(), rel=0.00501, abs=1e-12)
    x = torch.linspace(-4, 4, 8001, dtype=torch.float64)
    greatest = (gelu(x) - gelu_tanh(x)).abs().max().item()
    said = page.locator(".gap").inner_text()
    assert number(re.search("nowhere more than ([^ ]+)", said)[1]) == pytest.approx(greatest, 0.005)
    assert re.search(r"Drawn about \d+ times taller", said)


def test_gate(show):
    page = show(Activations(2))
    press(page, "gated")
    for g, u in ((2.5, 3), (-0.7, 2), (1.3, -2.25), (0.4, 0.5), (-4, -3)):
        to(page, g, "g")
        to(page, u, "u")
        check(table(page, 4), expected(g, u))
    says = page.locator(".says")
    expect(says).to_contain_text("The gate is shut for ReLU, GELU and GELU (tanh)")
    to(page, 2.5, "g")
    to(page, 3, "u")
    expect(says).to_contain_text("The product is larger than either of its factors for ReLU")
    expect(says).to_contain_text("The slope in u is activation(g)")
    press(page, "gated")
    expect(page.get_by_label("u", exact=True)).to_be_hidden()
    check(table(page), expected(2.5))


def test_drag_on_the_plots(show):
    page = show(Activations())
    plots = page.locator("svg.plot")

    def drag(plot, *shares):
        """Along a plot's axis, whose ends stand at 30 and 332 of 340."""
        box = plots.nth(plot).bounding_box()
        at = [box["x"] + box["width"] * (30 + 302 * share) / 340 for share in shares]
        page.mouse.move(at[0], box["y"] + 40)
        page.mouse.down()
        page.mouse.move(at[1], box["y"] + 60, steps=3)
        page.mouse.up()
        settled(page)

    x = page.get_by_label("x", exact=True)
    drag(0, 0.6, 0.25)
    assert float(x.input_value()) == pytest.approx(-2, abs=0.03)
    check(table(page), expected(float(x.input_value())))
    drag(1, 0.25, 0.9)
    assert float(x.input_value()) == pytest.approx(3.2, abs=0.03)
    drag(0, 0.5, -0.5)  # off its end
    assert float(x.input_value()) == -4
    press(page, "gated")
    drag(1, 0.6, 0.25)  # the second plot is over u now
    u = float(page.get_by_label("u", exact=True).input_value())
    assert u == pytest.approx(-1.5, abs=0.03)
    check(table(page, 4), expected(-4.0, u))


def test_switches(show):
    page = show(Activations())
    settled(page)
    first = page.locator("svg.plot").first
    assert first.locator(".curve").count() == 4
    press(page, "SiLU")
    press(page, "GELU (tanh)")
    settled(page)
    assert first.locator(".curve").count() == 2
    assert page.get_by_role("button", name="SiLU").get_attribute("aria-pressed") == "false"
    for name in ("ReLU", "GELU"):
        page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator(".says")).to_have_text("No curve is on: switch one on in the table.")
    press(page, "SiLU")
    settled(page)
    assert first.locator(".curve").count() == 1


def test_keyboard_and_words(show):
    page = show(Activations())
    plot, spoken = page.locator("svg.plot").first, page.locator(".spoken")
    plot.focus()
    for key in ("ArrowLeft", "ArrowLeft", "Shift+ArrowRight", "PageDown"):
        page.keyboard.press(key)
    expect(spoken).to_have_text(re.compile(r"^x −0\.19\. ReLU 0, slope 0; GELU −0\.0807, slope "))
    assert plot.get_attribute("aria-valuetext") == "−0.19"
    page.keyboard.press("Home")
    expect(spoken).to_have_text(re.compile(r"^x −4\.00\. .*no gradient flows"))
    page.get_by_label("x", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(spoken).to_have_text(re.compile(r"^x −3\.99\. "))
    button = page.get_by_role("button", name="SiLU")
    button.focus()
    page.keyboard.press("Enter")
    expect(spoken).not_to_have_text(re.compile("SiLU"))
    expect(button).to_be_focused()
    press(page, "gated")
    expect(spoken).to_have_text(re.compile(r"^g −3\.99, u 2\.00\. ReLU 0, times u 0; "))


@pytest.mark.parametrize("width", [420, 760])
def test_dark_and_narrow(show, width):
    page = show(Activations(-1), dark=True, width=width)
    press(page, "GELU − its tanh form")
    for _ in range(2):
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        view, rows = page.locator(".view").bounding_box(), page.locator("table").bounding_box()
        assert rows["x"] + rows["width"] <= view["x"] + view["width"]
        press(page, "gated")


def test_the_picture_draws_the_same_curves():
    for x in POINTS:
        want = expected(x)
        for name, (value, slope) in curves(np.array([x])).items():
            assert [value[0], slope[0]] == pytest.approx(want[name], rel=1e-9, abs=1e-12)


def test_the_output_is_small_and_the_same_every_time():
    assert Activations(-1).html() == Activations(-1).html()
    assert len(Activations().html()) < 200_000


@pytest.mark.parametrize(
    ("x", "error", "said"),
    [
        (5, ValueError, "x must be between −4 and 4, got 5"),
        (float("nan"), ValueError, "x must be between −4 and 4, got nan"),
        ("1", TypeError, "x must be a number, got '1'"),
        (True, TypeError, "x must be a number, got True"),
    ],
)
def test_bad_input(x, error, said):
    with pytest.raises(error, match=said):
        Activations(x)


@pytest.mark.parametrize("width", [420, 760, 1100])
def test_letters_keep_their_size_and_ticks_their_place(show, width):
    page = show(Activations(0.9), width=width)
    settled(page)
    plot = page.locator("svg.plot").first
    units = float(plot.get_attribute("viewBox").split()[2])
    assert plot.bounding_box()["width"] == pytest.approx(units, abs=2)  # so 11 px are 11 px
    ticks = "svg => [...svg.querySelectorAll('text:not(.at)')].map((t) => [t.textContent, t.getAttribute('x')])"
    before = plot.evaluate(ticks)
    assert [name for name, _ in before][-9:] == ["−4", "−3", "−2", "−1", "0", "1", "2", "3", "4"]
    to(page, 3.1)
    settled(page)
    assert plot.evaluate(ticks) == before


def test_gelu_is_seen_upon_its_tanh_form(show):
    """The two are one line to the eye: a thin one is drawn upon a broad one."""
    page = show(Activations())
    settled(page)
    drawn = page.locator("svg.plot").first.evaluate(
        "svg => [...svg.querySelectorAll('.curve')].map((c) => [c.classList[1], parseFloat(getComputedStyle(c).strokeWidth)])"
    )
    names, widths = zip(*drawn, strict=True)
    assert names.index("gelu_tanh") < names.index("gelu")
    assert widths[names.index("gelu_tanh")] > 3 * widths[names.index("gelu")]
