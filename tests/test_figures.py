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


FIGURES = {
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
