"""Pictures: the same bytes every time, alt text, an opaque card, nothing left open."""

import io

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


FIGURES = {
    "live curve": lambda: curve([3.0, 2.5, 2.2]),
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
    "heatmaps": lambda: figures.attention_heatmaps(WEIGHTS, ["$a", "b$", "<i>", "\n"]),
    "five heads": lambda: figures.attention_heatmaps(WEIGHTS[[0, 1, 2, 0, 1]], list("abcd")),
    "lines": lines,
    "difference": lambda: figures.tensor_difference(WEIGHTS[0], WEIGHTS[1]),
    "difference with NaN": lambda: figures.tensor_difference(WEIGHTS[0] / 0, WEIGHTS[1]),
    "large difference": lambda: figures.tensor_difference(np.eye(40), np.zeros((40, 40))),
}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_pictures(name):
    picture = FIGURES[name]()
    assert picture.png() == FIGURES[name]().png()
    pixels = matplotlib.image.imread(io.BytesIO(picture.png()))
    assert (pixels[..., 3] == 1).all() if pixels.shape[-1] == 4 else True
    assert pixels.std() > 0.02
    data, metadata = picture._repr_mimebundle_()
    assert 'alt="' in data["text/html"]
    assert data["text/plain"] == repr(picture)
    assert metadata["image/png"]["width"] > 200
    assert len(picture.alt) > 10


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
    monkeypatch.setattr(watch, "_show", drawn.append)
    losses = []
    for step in range(30):
        losses.append(3 - step / 20)
        watch(losses)
    assert len(drawn) == 2
    assert "step 1 of 30" in drawn[0].alt
    assert "step 30 of 30: loss 1.55" in drawn[1].alt


def test_a_live_curve_ends_with_a_loss_that_is_no_number(monkeypatch):
    drawn = []
    watch = figures.LiveCurve("Does it learn?", 30, every=1000)
    monkeypatch.setattr(watch, "_show", drawn.append)
    watch([3.0])
    watch([3.0, float("inf")])
    assert len(drawn) == 2
    assert "loss inf" in drawn[1].alt


@pytest.mark.parametrize(
    ("title", "words"), [("Why?", "Why? So."), ("It is so.", "It is so. So."), ("It", "It. So.")]
)
def test_a_title_keeps_its_own_mark(title, words):
    assert figures.in_words(title, "So.") == words
