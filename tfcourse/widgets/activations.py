"""Activations: ReLU, GELU, its tanh approximation and SiLU, their slopes, and the gate."""

import math

import numpy as np

from tfcourse import figures
from tfcourse.widgets.view import View, check_number

REACH = 4  # x goes from −4 to 4
STYLES = {
    "ReLU": (figures.OKABE_ITO["vermilion"], "-"),
    "GELU": (figures.OKABE_ITO["blue"], "-"),
    "GELU (tanh)": (figures.OKABE_ITO["purple"], "-"),  # a broad band: GELU runs along its middle
    "SiLU": (figures.OKABE_ITO["green"], (0, (5, 1.5))),
}


class Activations(View):
    """Four activations and their slopes over x, with x to be dragged.

    Shows value and slope of each, whether a gradient flows back, how far the tanh approximation is
    from GELU, and the gated product activation(g) · u with its slopes in both numbers.

    Args:
        x: where it starts, −4 to 4; rounded to hundredths.

    Raises:
        TypeError: x is no number.
        ValueError: it is out of range.
    """

    module = "activations"

    def __init__(self, x=1.0):
        check_number("x", x)
        if not -REACH <= x <= REACH:
            raise ValueError(f"x must be between −{REACH} and {REACH}, got {x}")
        self.x = round(float(x), 2)
        super().__init__(
            {"x": self.x},
            title="What does a neuron do with a negative sum?",
            alt=(
                "ReLU, GELU and SiLU over x from −4 to 4, and their slopes. For positive x all "
                "come close to x. For negative x ReLU gives 0 with slope 0, so no gradient flows "
                "back; GELU and SiLU dip a little below 0, and their slopes are small, in part "
                "negative, but seldom 0."
            ),
        )

    def draw(self):
        """The four curves, and their slopes, with x marked."""
        return _panels(self.x, self.title, self.alt)


def curves(x):
    """Values and slopes of the four at the points x: {name: (values, slopes)}."""
    bell = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    share = 0.5 * np.array([math.erfc(-point / math.sqrt(2)) for point in x])  # Φ(x)
    inner = math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)  # ½(1 + tanh(a)) is sigmoid(2a)
    bent = 1 / (1 + np.exp(-inner))
    rise = math.sqrt(8 / math.pi) * (1 + 3 * 0.044715 * x**2)
    sigmoid = 1 / (1 + np.exp(-x))
    return {
        "ReLU": (np.maximum(x, 0), (x > 0).astype(float)),
        "GELU": (x * share, share + x * bell),
        "GELU (tanh)": (x * bent, bent + x * bent * (1 - bent) * rise),
        "SiLU": (x * sigmoid, sigmoid + x * sigmoid * (1 - sigmoid)),
    }


@figures.styled
def _panels(x, title, alt):
    figure, axes = figures.card(1, 2, (7.2, 3.2))
    across = np.linspace(-REACH, REACH, 401)
    for name, shown in curves(across).items():
        colour, dashes = STYLES[name]
        at = curves(np.array([x]))[name]
        for axis, line, point in zip(axes, shown, at, strict=True):
            line = np.where((name == "ReLU") & (across == 0) & (axis is axes[1]), np.nan, line)
            broad = {"linewidth": 6, "alpha": 0.45, "zorder": 1.5} if "tanh" in name else {}
            axis.plot(across, line, color=colour, linestyle=dashes, label=name, **broad)
            axis.plot([x], point, "o", color=colour, ms=5, mec="white", mew=0.8)
    for axis, name in zip(axes, ("value", "slope"), strict=True):
        axis.axvline(x, color=figures.neutral("line"), lw=1, ls=(0, (4, 3)), zorder=0.5)
        axis.set_xlabel("x, the sum that a neuron gets")
        axis.set_title(name, fontsize=9, fontweight="normal")
    axes[0].set_ylim(-0.6, 4.1)
    axes[1].set_ylim(-0.25, 1.25)
    axes[0].legend(loc="upper left", fontsize=9)
    figure.suptitle(title, fontweight="bold", fontsize=11)
    return figures.Picture(figure, title, alt)
