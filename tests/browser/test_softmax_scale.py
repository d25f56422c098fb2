"""SoftmaxScale in Chromium: its numbers against torch, at several d_k, with and without scale."""

import re

import pytest
import torch
from playwright.sync_api import expect

from tfcourse.widgets import SoftmaxScale


def facts(page):
    """What is read out: std of the scores, largest weight, entropy, norm of the Jacobian."""
    spread, shares, slope = page.locator(".facts").all()
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
        for scaled in (True, False):
            got, want = facts(page), expected(view, d_k, scaled)
            assert got == pytest.approx(want, rel=0.02, abs=0.006), (d_k, scaled)
            page.get_by_text("divide by √d_k").click()


def test_std_is_eight_at_64():
    """What the lesson says; within the error of 512 scores that are not all independent."""
    assert expected(SoftmaxScale(), 64, scaled=False)[0] == pytest.approx(8, rel=0.05)


def test_keyboard_and_words(show):
    page = show(SoftmaxScale(d_k=16))
    page.get_by_label("d_k", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".spoken")).to_have_text(re.compile("^d_k 19, unscaled: scores spread "))
    assert page.get_by_label("d_k", exact=True).get_attribute("aria-valuetext") == "19"


def test_another_query(show):
    view = SoftmaxScale()
    page = show(view)
    page.get_by_text("another query").click()
    scores = torch.tensor(view.q[1, :64] @ view.k[:, :64].T) / 8
    assert facts(page)[1] == pytest.approx(scores.softmax(-1).max().item(), abs=0.006)


@pytest.mark.parametrize("width", [420, 760])
def test_dark_and_narrow(show, width):
    page = show(SoftmaxScale(), dark=True, width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_bad_input():
    with pytest.raises(ValueError, match="d_k must be between 1 and 1024, got 0"):
        SoftmaxScale(0)
    with pytest.raises(TypeError, match="keys must be an int, got 2.5"):
        SoftmaxScale(keys=2.5)
