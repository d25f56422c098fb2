"""SoftmaxScale in Chromium: its numbers against torch, at several d_k, with and without scale."""

import re

import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import settled
from tfcourse.widgets import SoftmaxScale


def facts(page, kind):
    """What is read out: std of the scores, largest weight, entropy, norm of the Jacobian."""
    spread, shares, slope = page.locator(f".facts .{kind}").all()
    largest, entropy = shares.locator("b").all_inner_texts()
    return (
        float(spread.locator("b").inner_text()),
        float(largest.rstrip("%")) / 100,
        float(entropy),
        float(slope.locator("b").inner_text()),
    )


def expected(view, d_k, scaled):
    scores = torch.tensor(view.q[:, :d_k] @ view.k[:, :d_k].T) / (d_k**0.5 if scaled else 1)
    p = scores.softmax(-1)
    jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    return (
        scores.std(correction=0).item(),
        p[0].max().item(),
        torch.special.entr(p[0]).sum().item(),
        jacobian.norm(dim=(1, 2)).mean().item(),
    )


@pytest.mark.parametrize("host", ["html", "module"])
def test_numbers(show, host):
    view = SoftmaxScale()
    page = show(view, host=host)
    for step, d_k in ((24, 64), (0, 1), (16, 16), (40, 1024)):
        page.get_by_label("d_k", exact=True).fill(str(step))
        for kind in ("on", "off"):
            got, want = facts(page, kind), expected(view, d_k, kind == "on")
            assert got == pytest.approx(want, rel=0.02, abs=0.006), (d_k, kind)


def test_std_is_eight_at_64():
    """What the lesson says; within the error of 512 scores that are not all independent."""
    assert expected(SoftmaxScale(), 64, scaled=False)[0] == pytest.approx(8, rel=0.05)


def test_keyboard_and_words(show):
    page = show(SoftmaxScale(d_k=16))
    page.get_by_label("d_k", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".spoken")).to_have_text(
        re.compile("^d_k 19. Scores as they are: .*by √d_k")
    )
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # as they are: off
    expect(page.locator(".spoken")).to_have_text(
        re.compile("^d_k 19. Scores divided by √d_k: they")
    )
    assert page.get_by_label("d_k", exact=True).get_attribute("aria-valuetext") == "19"


def test_another_query(show):
    view = SoftmaxScale()
    page = show(view)
    page.get_by_text("another query").click()
    scores = torch.tensor(view.q[1, :64] @ view.k[:, :64].T) / 8
    assert facts(page, "on")[1] == pytest.approx(scores.softmax(-1).max().item(), abs=0.006)


def extent(page, kind):
    box = page.locator(f"svg .{kind} .area").bounding_box()
    return box["x"] + box["width"] / 2, box["width"]


def test_both_histograms_lie_over_each_other_on_one_axis_with_numbers(show):
    """The scaled one is √d_k times narrower, and no needle where the lesson starts."""
    page = show(SoftmaxScale(), width=1000)
    (middle_off, wide), (middle_on, narrow) = extent(page, "off"), extent(page, "on")
    assert middle_off == pytest.approx(middle_on, abs=0.15 * wide)
    assert narrow > 25
    assert narrow / wide == pytest.approx(1 / 8, rel=0.15)
    numbers = page.locator(".panels figure").first.locator("text").all_text_contents()
    assert numbers[-6:-1] == ["−32", "−16", "0", "16", "32"]
    page.get_by_text("as they are", exact=True).click()
    assert page.locator("svg .off").count() == 0


def test_the_table(show):
    view = SoftmaxScale()
    page = show(view)
    page.get_by_label("d_k", exact=True).fill("16")
    page.get_by_label("d_k", exact=True).press("t")
    settled(page)
    rows = page.locator(".data table").first.locator("tbody tr").all()
    got = [[float(t.replace("−", "-")) for t in r.locator("td").all_inner_texts()] for r in rows]
    scores = torch.tensor(view.q[0, :16] @ view.k[:, :16].T)
    want = torch.stack([scores, scores / 4, scores.softmax(-1), (scores / 4).softmax(-1)], dim=-1)
    # the numbers travel as half floats: a score is a sum of sixteen products of them
    assert torch.allclose(torch.tensor(got, dtype=torch.float64), want, rtol=0.02, atol=0.005)
    assert "16 (here)" in page.locator(".data table").nth(1).inner_text()


@pytest.mark.parametrize("width", [420, 760])
def test_dark_and_narrow(show, width):
    page = show(SoftmaxScale(), dark=True, width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_bad_input():
    with pytest.raises(ValueError, match="d_k must be between 1 and 1024, got 0"):
        SoftmaxScale(0)
    with pytest.raises(TypeError, match="keys must be an int, got 2.5"):
        SoftmaxScale(keys=2.5)
