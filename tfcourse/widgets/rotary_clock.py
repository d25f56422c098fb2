"""RotaryClock: a query and a key turned by their positions, pair by pair, and their score."""

import math

import numpy as np

from tfcourse import figures
from tfcourse.widgets.view import View, check_number, check_whole

REACH = 64  # the last position
POSITIONS = 12, 5  # of the query and the key, to begin with


class RotaryClock(View):
    """A random query and key; each pair of their numbers is a clock with two hands.

    The hands turn by position · base^(-2i/d_head). Shows what each pair adds to the score, and the
    score against the distance: moving both positions together turns hands and changes no score.

    Args:
        d_head: numbers of the query, even, 2 to 16.
        base: above 1; larger, the later pairs turn slower.
        seed: of the random numbers.

    Raises:
        TypeError: d_head or seed is no int, or base no number.
        ValueError: d_head is odd, or a value is out of range.
    """

    module = "rotary_clock"

    def __init__(self, d_head=8, *, base=10000.0, seed=0):
        for name, value, low, high in (("d_head", d_head, 2, 16), ("seed", seed, 0, 2**32 - 1)):
            check_whole(name, value, low, high)
        if d_head % 2:
            raise ValueError(f"d_head must be even (numbers turn in pairs), got {d_head}")
        check_number("base", base)
        if not 1 < base < math.inf:
            raise ValueError(f"base must be greater than 1, got {base}")
        rng = np.random.default_rng(seed)
        # two decimals: few enough to work with by hand, and to survive the way as half floats
        self.q, self.k = rng.standard_normal((2, d_head)).round(2)
        self.base = float(base)
        self.frequencies = self.base ** (-np.arange(0, d_head, 2) / d_head)
        m, n = POSITIONS
        super().__init__(
            {"base": self.base, "reach": REACH, "query": m, "key": n},
            {"q": self.q, "k": self.k},
            title="What does a turned query still know?",
            alt=(
                f"A query at position {m} and a key at {n}, {d_head} numbers each. Every pair of "
                "numbers is a clock: the first is fast, later ones are slower. "
                f"Their score is {self.score(m - n):.3g}. Moved both by as much, the hands turn "
                "together and the score stays: it depends on the distance only."
            ),
        )

    def score(self, distance):
        """The score of the query with a key `distance` positions before it."""
        q, k = (x[::2] + 1j * x[1::2] for x in (self.q, self.k))  # a pair as one complex number
        turned = q * k.conj() * np.exp(1j * np.multiply.outer(distance, self.frequencies))
        return turned.real.sum(-1)

    @figures.styled
    def draw(self):
        """The clocks at the first positions; below them, the score against the distance."""
        figure, (top, bottom) = figures.card(
            2, size=(6.4, 4.4), gridspec_kw={"height_ratios": [2, 3]}
        )
        longest = max(np.hypot(x[::2], x[1::2]).max() for x in (self.q, self.k)) or 1.0
        circle = np.exp(1j * np.linspace(0, 2 * np.pi, 100))
        for i, frequency in enumerate(self.frequencies):
            top.plot(
                2.6 * i + circle.real, circle.imag, color=figures.neutral("faint"), linewidth=1
            )
            hands = (("query", self.q, "o-"), ("key", self.k, "s-"))
            for (name, x, style), position in zip(hands, POSITIONS, strict=True):
                hand = complex(*x[2 * i : 2 * i + 2]) * np.exp(1j * position * frequency) / longest
                top.plot(
                    [2.6 * i, 2.6 * i + hand.real],
                    [0, hand.imag],
                    style,
                    color=figures.LINES[name == "key"],
                    markevery=[1],
                    ms=5,
                    label=None if i else f"{name} at {position}",
                )
            top.text(2.6 * i, -1.25, f"pair {i}", ha="center", va="top", fontsize=9)
        top.set_aspect("equal")
        room = 2.6 * max(4, len(self.frequencies))
        top.set(title=self.title, xlim=(-1.3, room - 1.3), ylim=(-1.9, 1.1))
        top.axis("off")
        top.legend(
            loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, borderaxespad=0, fontsize=9
        )

        distances = np.arange(-REACH, REACH + 0.25, 0.25)
        m, n = POSITIONS
        bottom.plot(distances, self.score(distances))
        bottom.plot(m - n, self.score(m - n), "o", color=figures.neutral("ink"))
        bottom.set(xlabel="distance: query's position − key's position", ylabel="score q·k")
        return figures.Picture(figure, self.title, self.alt)
