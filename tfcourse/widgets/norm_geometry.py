"""NormGeometry: where LayerNorm and RMSNorm send the points of a cloud in three dimensions."""

import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from tfcourse import figures
from tfcourse.widgets.view import View, check_whole

EPS = 1e-5  # as torch.nn.LayerNorm has it
RADIUS = 3**0.5  # a normed point of three numbers is that long
LIMITS = {"points": (2, 300), "seed": (0, 2**32 - 1)}

# The cloud: long one way, flat another, and off the origin towards (1, 1, 1).
MIDDLE = np.array([1.5, 0.9, 0.6])
SPREAD = np.array([[1.0, -0.5, 0.1], [0.4, 0.6, 0.3], [-0.7, 0.1, 0.6]])
LEAST_VARIANCE = 0.05  # of a token's three numbers


class NormGeometry(View):
    """Tokens of three numbers as a cloud to be turned, and what a norm makes of it.

    LayerNorm sends each point to the circle of radius √3 in the plane x₁ + x₂ + x₃ = 0, RMSNorm to
    the sphere of radius √3 (no weight, no bias, eps 1e-5). One point is picked out with its
    numbers, and two sliders make it longer or add a constant to it: which norm notices?

    Args:
        points: how many points, 2 to 300.
        seed: of the random numbers.

    Raises:
        TypeError: an argument is no int.
        ValueError: it is out of range.
    """

    module = "norm_geometry"

    def __init__(self, points=60, *, seed=0):
        for name, value in {"points": points, "seed": seed}.items():
            check_whole(name, value, *LIMITS[name])
        drawn = np.random.default_rng(seed).standard_normal((4 * points, 3)) @ SPREAD.T + MIDDLE
        # a token of nearly equal numbers would show eps, not the norm: it stays off the circle
        drawn = drawn[(drawn.var(-1) > LEAST_VARIANCE) & (np.abs(drawn).max(-1) < 7.9)]
        # hundredths: what is read on the page is the whole number, and the way there keeps them
        self.points = drawn[:points].round(2)
        super().__init__(
            {},
            {"points": self.points},
            title="Where does a norm send a token?",
            alt=(
                f"{points} tokens of three numbers each, a long cloud beside the origin. LayerNorm "
                "takes away each token's mean, which drops it onto the plane of sum zero, and "
                "scales it to the circle of radius √3 there. RMSNorm only scales: each token "
                "slides along its ray to the sphere of radius √3, so that the cloud's common "
                "direction stays."
            ),
        )

    def draw(self):
        """The cloud before and after each norm, side by side; there 60 points are enough."""
        return _panels(self.points[:60], self.title, self.alt)


def layer_norm(x):
    """LayerNorm of the rows of x, without weight and bias."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)


def rms_norm(x):
    """RMSNorm of the rows of x, without weight."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS)


@figures.styled
def _panels(points, title, alt):
    """Three turned boxes with the sphere, the plane, its circle, and the points on top."""
    length = np.linalg.norm(points, axis=1)
    panels = {
        "as they are": (points, max(2.2, 0.9 * float(length.max()))),
        "LayerNorm: a circle": (layer_norm(points), 2.2),
        "RMSNorm: a sphere": (rms_norm(points), 2.2),
    }
    figure, axes = figures.card(1, 3, (6.0, 2.3), subplot_kw={"projection": "3d"})
    turn = np.linspace(0, 2 * np.pi, 61)
    for axis, (name, (shown, reach)) in zip(axes, panels.items(), strict=True):
        axis.computed_zorder = False  # the order below, in every panel
        half = 0.85 * min(reach, 3)
        corners = [_in_plane(half * a, half * b) for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
        axis.add_collection3d(
            Poly3DCollection(
                [corners], facecolor=figures.neutral("plane"), edgecolor=figures.neutral("rim")
            )
        )
        for tilt in np.linspace(0, np.pi, 3, endpoint=False):  # meridians, then the equator
            x, y, z = np.cos(turn) * np.cos(tilt), np.cos(turn) * np.sin(tilt), np.sin(turn)
            axis.plot(RADIUS * x, RADIUS * y, RADIUS * z, color=figures.neutral("faint"), lw=0.6)
        axis.plot(
            RADIUS * np.cos(turn),
            RADIUS * np.sin(turn),
            0 * turn,
            color=figures.neutral("faint"),
            lw=0.6,
        )
        for i, end in enumerate(np.eye(3) * reach):
            axis.plot(*np.stack([0 * end, end]).T, color=figures.neutral("soft"), lw=1)
            axis.text(*(1.12 * end), f"x{'₁₂₃'[i]}", ha="center", va="center", fontsize=7)
        axis.plot(*_in_plane(RADIUS * np.cos(turn), RADIUS * np.sin(turn)).T, color="#00795a", lw=1)
        axis.scatter(*shown.T, c=length, cmap="viridis", s=10, depthshade=False, lw=0)
        side = 0.68 * reach  # the box is smaller than what stands in it: no empty rim
        axis.set(xlim=(-side, side), ylim=(-side, side), zlim=(-side, side))
        axis.set_axis_off()
        axis.set_box_aspect((1, 1, 1))
        axis.view_init(elev=22, azim=17)
        axis.set_title(name, fontsize=9, fontweight="normal", loc="center")
    figure.suptitle(title, fontweight="bold", fontsize=11)
    return figures.Picture(figure, title, alt)


def _in_plane(across, along):
    """Points of the plane of sum zero, from their coordinates there."""
    first, second = np.array([1, -1, 0]) / 2**0.5, np.array([1, 1, -2]) / 6**0.5
    return np.multiply.outer(across, first) + np.multiply.outer(along, second)
