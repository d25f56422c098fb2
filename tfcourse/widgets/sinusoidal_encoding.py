"""SinusoidalEncoding: the barcode of positions, two of them compared, one pair as a clock."""

import numpy as np

from tfcourse import figures
from tfcourse.widgets.view import View, check_number, check_whole


class SinusoidalEncoding(View):
    """Positions as vectors of sines and cosines, worked out in the browser.

    Shows the table positions x dimensions, the dot product of two positions that the reader picks,
    its curve against their offset, and one pair of dimensions as a clock with two hands.

    Args:
        tokens: how many positions, 8 to 256.
        d_model: numbers in each, even, 4 to 128.
        base: 10 to 100 000; the slowest pair turns once in about 2π · base positions.

    Raises:
        TypeError: a size is no int, or base no number.
        ValueError: d_model is odd, or a value is out of range.
    """

    module = "sinusoidal_encoding"

    def __init__(self, tokens=64, d_model=32, base=10000.0):
        for name, value, low, high in (("tokens", tokens, 8, 256), ("d_model", d_model, 4, 128)):
            check_whole(name, value, low, high)
        if d_model % 2:
            raise ValueError(f"d_model must be even (sines and cosines in pairs), got {d_model}")
        check_number("base", base)
        if not 10 <= base <= 100_000:
            raise ValueError(f"base must be between 10 and 100000, got {base}")
        self.tokens, self.d_model, self.base = tokens, d_model, float(base)
        super().__init__(
            {"tokens": tokens, "d_model": d_model, "base": self.base},
            title="How does a position become a vector?",
            alt=(
                f"{tokens} positions across, {d_model} dimensions down, base {base:g}: sines and "
                "cosines in stripes, fine in the first dimensions and broad in the last, like a "
                "barcode. The dot product of two positions is greatest at offset 0, falls off on "
                "both sides alike, and depends on their offset only."
            ),
        )

    @figures.styled
    def draw(self):
        """The table as a heatmap; below it, the dot product against the offset."""
        frequencies = self.base ** (-np.arange(0, self.d_model, 2) / self.d_model)
        angles = np.arange(self.tokens)[:, None] * frequencies  # (tokens, pairs)
        table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(self.tokens, -1)
        offsets = np.arange(1 - self.tokens, self.tokens)

        figure, (top, bottom) = figures.card(
            2, size=(6.4, 4.8), gridspec_kw={"height_ratios": [3, 2]}
        )
        image = top.imshow(
            table.T, cmap="viridis", vmin=-1, vmax=1, interpolation="nearest", aspect="auto"
        )
        top.grid(False)
        top.set(title=self.title, xlabel="position", ylabel="dimension")
        figure.colorbar(image, ax=top, ticks=[-1, 0, 1], pad=0.015).outline.set_visible(False)
        bottom.plot(offsets, np.cos(offsets[:, None] * frequencies).sum(-1))
        bottom.set(xlabel="offset of two positions", ylabel="dot product")
        return figures.Picture(figure, self.title, self.alt)
