"""Pictures: the same bytes every time, alt text, readable in both themes, nothing left open."""

import io
import re
import time
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest

from tfcourse import figures

WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 4))


def lines():
    return figures.lines(
        [1, 2, 4], {"a": [1, 2, 3], "b": [3, 2, 1]}, title="Up?", x_label="x", y_label="y",
        alt="One rises, one falls.", log_x=True, level=(2, "two"),
    )  # fmt: skip


def curve(losses, steps=50):
    return figures.LiveCurve("Does it learn?", steps).picture(losses)


def held_out_curve():
    watch = figures.LiveCurve("Does it learn?", 3)
    watch.found = [(1, 3.1), (3, 2.4)]
    return watch.picture([3.0, 2.5, 2.2])


FIGURES = {
    "live curve": lambda: curve([3.0, 2.5, 2.2]),
    "live curve with a held-out loss": held_out_curve,
    "live curve that diverged": lambda: curve([3.0, 80.0, float("nan")]),
    "lines with spread and edge": lambda: figures.lines(
        [1, 2, 3],
        {"a": [1, 2, 3]},
        title="Up?",
        x_label="x",
        y_label="y",
        alt="It rises steadily.",
        spread={"a": [0.1, 0.2, 0.3]},
        edge=(2, "here"),
    ),
    "heatmaps": lambda: figures.attention_heatmaps(WEIGHTS, ["$a", "b$", "--><i>", "\n"]),
    "five heads": lambda: figures.attention_heatmaps(WEIGHTS[[0, 1, 2, 0, 1]], list("abcd")),
    "lines": lines,
    "bars": lambda: figures.bars(
        ["a", "b"], [1.0, -0.5], "How much?", x_label="x", y_label="y", alt="a: up, b: down."
    ),
    "grid": lambda: figures.grid(
        WEIGHTS[0],
        "Where?",
        x_label="x",
        y_label="y",
        colour_label="weight",
        alt="A matrix of some weights.",
    ),
    "difference": lambda: figures.tensor_difference(WEIGHTS[0], WEIGHTS[1]),
    "difference with NaN": lambda: figures.tensor_difference(WEIGHTS[0] / 0, WEIGHTS[1]),
    "large difference": lambda: figures.tensor_difference(np.eye(40), np.zeros((40, 40))),
}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_pictures(name):
    picture, again = FIGURES[name](), FIGURES[name]()
    assert picture.png() == again.png()
    assert picture.svg() == again.svg()
    ElementTree.fromstring(picture.svg())  # well-formed, whatever a token holds
    pixels = matplotlib.image.imread(io.BytesIO(picture.png()))
    assert pixels[0, 0, 3] == 0, "a PNG has no ground of its own"
    assert pixels[..., 3].max() == 1
    data, metadata = picture._repr_mimebundle_()
    assert 'alt="' in data["text/html"]
    assert data["text/plain"] == repr(picture)
    assert metadata["image/png"]["width"] > 200
    assert len(picture.alt) > 10


def luminance(colour):
    channels = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["ink", "label", "soft"])
def test_text_can_be_read_in_every_theme(name):
    light, dark, either = figures.NEUTRAL[name]
    assert contrast(light, figures.NEUTRAL["card"][0]) >= 4.5
    assert contrast(dark, figures.NEUTRAL["card"][1]) >= 4.5
    for page in ("#ffffff", "#111111", "#0d1117"):  # JupyterLab's, and GitHub's
        assert contrast(either, page) >= 4.2


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_all_that_is_no_data_has_a_colour_for_a_dark_page(name):
    svg = FIGURES[name]().svg()
    style, drawn = re.search(r"<style>(.*?)</style>(.*)", svg, re.DOTALL).groups()
    groups = re.findall(r'<g id="text_\d+">.*?style="fill: (#\w{6})', drawn, re.DOTALL)
    assert groups
    on_cells = {figures.ON_CELL, "#ffffff", "#a8afb8"}
    assert {c for c in groups if f"fill: {c}" not in style} <= on_cells
    assert f'"fill: {figures.NEUTRAL["card"][0]}"' in style
    assert "DATE" not in svg.upper().replace("UPDATE", "")


def test_neutral_colours_are_told_apart_by_their_light_form():
    lights = [light for light, _, _ in figures.NEUTRAL.values()]
    assert len({*lights, *figures.OKABE_ITO.values(), figures.ON_CELL}) == (
        len(lights) + len(figures.OKABE_ITO) + 1
    )


def test_nothing_stays_open_in_pyplot():
    import matplotlib.pyplot as plt

    for make in (lines, FIGURES["heatmaps"]):
        make().png()
    assert plt.get_fignums() == []


def test_the_difference_shows_where_it_is_greatest():
    a, b = np.zeros((30, 20)), np.zeros((30, 20))
    a[25, 3] = 7
    assert "at most 7; the greatest is at row 25, column 3" in figures.tensor_difference(a, b).alt


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="weights must be"):
        figures.attention_heatmaps(WEIGHTS, ["a"])
    with pytest.raises(ValueError, match="two matrices of one shape"):
        figures.tensor_difference(np.ones((2, 3)), np.ones((3, 2)))


def test_a_live_curve_draws_now_and_then_and_at_the_end(monkeypatch):
    drawn = []
    watch = figures.LiveCurve("Does it learn?", 30, every=1000)
    monkeypatch.setattr(watch, "_put", lambda place, what: drawn.append(what))
    losses = []
    for step in range(30):
        losses.append(3 - step / 20)
        watch(losses)
    assert len(drawn) == 2
    assert drawn[0].keys() == {"text/html", "text/plain"}  # half the work: the next one replaces it
    assert "step 1 of 30" in drawn[0]["text/plain"]
    assert "step 30 of 30: loss 1.55" in drawn[1].alt


def test_a_live_curve_takes_a_tenth_of_the_time_at_most(monkeypatch):
    now, drawn = [0.0], []

    def draw(place, what):
        drawn.append(now[0])
        now[0] += 3.0

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = figures.LiveCurve("Does it learn?", 200)
    monkeypatch.setattr(watch, "_put", draw)
    losses = []
    for _ in range(200):
        now[0] += 0.5
        losses.append(3.0)
        watch(losses)
    assert len(drawn) == 5  # 100 seconds of training
    assert min(b - a for a, b in pairwise(drawn[:-1])) >= 30


@pytest.mark.parametrize(("across", "whole"), [(range(1, 9), True), (np.linspace(0, 2, 8), False)])
def test_what_is_counted_has_whole_numbers_on_its_axis(across, whole):
    words = {"x_label": "x", "y_label": "y", "alt": "It rises."}
    picture = figures.lines(across, {"a": list(across)}, "Up?", **words)
    ticks = picture.figure.axes[0].get_xticks()
    assert all(tick == round(tick) for tick in ticks) == whole


def test_no_box_lies_on_a_picture_without_a_ground():
    picture = lines()  # it has a level with a label
    [note] = [text for text in picture.on_either.axes[0].texts if text.get_text() == "two"]
    assert note.get_bbox_patch().get_facecolor()[3] == 0
    [note] = [text for text in picture.figure.axes[0].texts if text.get_text() == "two"]
    assert note.get_bbox_patch().get_facecolor()[3] == pytest.approx(0.8)


def test_what_is_shown_while_it_learns_is_what_is_shown_at_the_end():
    watch = figures.LiveCurve("Does it learn?", 9)
    once = figures.drawn_once(lambda: watch.picture([3.0, 2.0]), figures.LIGHT)
    whole, _ = watch.picture([3.0, 2.0])._repr_mimebundle_()
    assert {name: whole[name] for name in ("text/html", "text/plain")} == once.html_bundle()


def test_a_live_curve_ends_with_a_loss_that_is_no_number(monkeypatch):
    drawn = []
    watch = figures.LiveCurve("Does it learn?", 30, every=1000)
    monkeypatch.setattr(watch, "_put", lambda place, what: drawn.append(what))
    watch([3.0])
    watch([3.0, float("inf")])
    assert len(drawn) == 2
    assert "loss inf" in drawn[1].alt


def test_a_live_curve_asks_for_held_out_loss_and_samples(monkeypatch):
    shown = {}
    values = iter([4.0, 3.0, 2.5])
    watch = figures.LiveCurve(
        "Does it learn?", 20, times=2, held_out=lambda: next(values), sample=lambda: "a\n<b>"
    )
    monkeypatch.setattr(watch, "_put", lambda place, what: shown.update({place: what}))
    losses = []
    for step in range(20):
        losses.append(4 - step / 20)
        watch(losses)
    assert watch.found == [(1, 4.0), (10, 3.0), (20, 2.5)]
    assert "held out 2.50" in shown["curve"].alt
    assert shown["texts"] == {
        "text/plain": "step  1: 'a\\n<b>'\nstep 10: 'a\\n<b>'\nstep 20: 'a\\n<b>'"
    }


@pytest.mark.parametrize(
    ("title", "words"), [("Why?", "Why? So."), ("It is so.", "It is so. So."), ("It", "It. So.")]
)
def test_a_title_keeps_its_own_mark(title, words):
    assert figures.in_words(title, "So.") == words
