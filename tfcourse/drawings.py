"""Drawings of structure, and the map of the Transformer: SVG text, the same in every run.

Each is a card with its own background, light or dark as the page asks for it. Text never stands on
the page itself, so a drawing can be read even where the two disagree. `tfcourse build` writes them
to notebooks/drawings/; a lesson shows one by the line `![](drawings/NAME.svg)`, and the words for
those who cannot see it come from here (see `expand`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

# What a colour means: (fill, line) on a light card, (fill, line) on a dark one. Blue, orange, green
# and purple are Okabe and Ito's, the lines darker and the fills paler, so that text stands on them.
COLOURS = {
    "card": ("#fafbfc", "#d5dae1", "#171b21", "#3b434e"),
    "pale": ("#fafbfc", "#a9b2bd", "#171b21", "#5d6875"),
    "plain": ("#ffffff", "#6f7986", "#252b33", "#929dab"),
    "grey": ("#dfe3e8", "#6f7986", "#3a424d", "#929dab"),
    "blue": ("#cfe5f5", "#0072b2", "#12405f", "#56b4e9"),
    "orange": ("#fbe6b8", "#a87400", "#55400a", "#e69f00"),
    "green": ("#c9ebdf", "#00805d", "#0b4a39", "#17ab80"),
    "purple": ("#f3dbe8", "#b0568a", "#512f43", "#cc79a7"),
    "tile-blue": ("#4a9fd4", "#0072b2", "#2b86c0", "#7cc4ee"),
    "tile-orange": ("#f0b93a", "#a87400", "#d39200", "#f5c451"),
    "tile-green": ("#3fb794", "#00805d", "#17956f", "#5bd3b0"),
    "tile-purple": ("#dc9cc0", "#b0568a", "#b9618f", "#e2a8c8"),
    "tile-plain": ("#ffffff", "#6f7986", "#252b33", "#929dab"),
    "here": ("#fbdcc7", "#c04f00", "#5c2b0c", "#f08a4b"),
    "pin": ("#b34a00", "#b34a00", "#f59a62", "#f59a62"),
}
INKS = {  # the colour of text
    "ink": ("#1c2128", "#eceff3"),
    "soft": ("#4f5864", "#b4bdc8"),
    "on-pin": ("#ffffff", "#1c2128"),
}
LINE = ("#5d6773", "#98a3b0")  # of arrows
HEADS = ("blue", "orange", "green", "purple")

# A page says by its colour scheme that it is dark. The colours of a light one are attributes of
# each element: they hold where a style is stripped.
DARK = {
    **{name: f"fill:{dark};stroke:{line}" for name, (_, _, dark, line) in COLOURS.items()},
    **{name: f"fill:{dark}" for name, (_, dark) in INKS.items()},
    "line": f"stroke:{LINE[1]}",
    "tip": f"fill:{LINE[1]}",
}

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SIZE, SMALL = 16, 14  # of text, in a drawing 720 wide
TILE, GAP = 18, 3  # one number

Point = tuple[float, float]


class Drawing:
    """A card to draw on. Coordinates are pixels from the upper left; x and y of a box its corner.

    Args:
        width, height: of the card.
        title: its name, a few words.
        alt: the structure in words, for those who cannot see it.
    """

    def __init__(self, width: int, height: int, title: str, alt: str):
        self.width, self.height, self.title, self.alt = width, height, title, " ".join(alt.split())
        self.parts: list[str] = []
        self.rect(0.5, 0.5, width - 1, height - 1, "card", radius=10, weight=1)

    def svg(self) -> str:
        """The whole file, one element a line."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img" font-family="{SANS}" '
            f'stroke-linejoin="round" fill="none">'
        )
        said = [f"<title>{escape(self.title)}</title>", f"<desc>{escape(self.alt)}</desc>"]
        used = {part.split('"')[1] for part in self.parts}  # the class comes first
        rules = [f".{name}{{{look}}}" for name, look in DARK.items() if name in used]
        style = ["<style>", "@media (prefers-color-scheme:dark){", *rules, "}", "</style>"]
        return "\n".join([head, *said, *style, *self.parts, "</svg>", ""])

    # --- what a drawing is made of ------------------------------------------------------------

    def rect(self, x, y, width, height, colour, *, radius=6, weight=1.5, dashed=False):
        fill, line = COLOURS[colour][:2]
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect class="{colour}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'rx="{radius}" fill="{fill}" stroke="{line}" stroke-width="{weight:g}"{dash}/>'
        )

    def text(self, x, y, words, *, size=SIZE, at="middle", ink="ink", bold=False, code=False):
        """Words whose middle line is at y; `at` says which end of them is at x."""
        more = ' font-weight="600"' if bold else ""
        more += f' font-family="{MONO}"' if code else ""
        self.parts.append(
            f'<text class="{ink}" x="{x:g}" y="{y + 0.35 * size:g}" font-size="{size}" '
            f'text-anchor="{at}" fill="{INKS[ink][0]}"{more}>{escape(words)}</text>'
        )

    def box(self, x, y, width, height, words, colour="plain", *, size=SIZE, **more):
        """A box with a line of text in its middle."""
        self.rect(x, y, width, height, colour, **more)
        self.text(x + width / 2, y + height / 2, words, size=size)

    def tiles(self, x, y, rows, colours: Sequence[str], *, size=TILE):
        """Rows of numbers: a small square each, one colour a column."""
        for colour in dict.fromkeys(colours):
            fill, line = COLOURS[f"tile-{colour}"][:2]
            side = size - GAP
            squares = " ".join(
                f"M{x + column * size:g} {y + row * size:g}h{side}v{side}h-{side}z"
                for row in range(rows)
                for column, its in enumerate(colours)
                if its == colour
            )
            self.parts.append(
                f'<path class="tile-{colour}" d="{squares}" fill="{fill}" stroke="{line}"/>'
            )

    def line(self, *points: Point, weight=1.75, tip=False, dashed=False):
        """A line through the points, its corners rounded; with a tip it is an arrow."""
        (x1, y1), (x, y) = points[-2:]
        length = ((x - x1) ** 2 + (y - y1) ** 2) ** 0.5
        dx, dy = (x - x1) / length, (y - y1) / length
        ends = (*points[:-1], (x - 7 * dx, y - 7 * dy)) if tip else points
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path class="line" d="{_rounded(ends)}" stroke="{LINE[0]}" '
            f'stroke-width="{weight:g}"{dash}/>'
        )
        if tip:
            back, side = (x - 9 * dx, y - 9 * dy), (-4.5 * dy, 4.5 * dx)
            corners = [(x, y)] + [(back[0] + s * side[0], back[1] + s * side[1]) for s in (1, -1)]
            d = "M" + "L".join(f"{a:.4g} {b:.4g}" for a, b in corners) + "z"
            self.parts.append(f'<path class="tip" d="{d}" fill="{LINE[0]}"/>')

    def arrow(self, *points: Point, **more):
        self.line(*points, tip=True, **more)

    def node(self, x, y, sign="+"):
        """A small circle with a plus or a times in it, its middle at (x, y)."""
        fill, line = COLOURS["plain"][:2]
        self.parts.append(
            f'<circle class="plain" cx="{x:g}" cy="{y:g}" r="11" fill="{fill}" '
            f'stroke="{line}" stroke-width="1.5"/>'
        )
        a, b = (6, 0) if sign == "+" else (4.2, 4.2)
        self.parts.append(
            f'<path class="line" d="M{x - a:g} {y - b:g}L{x + a:g} {y + b:g}'
            f'M{x - b:g} {y + a:g}L{x + b:g} {y - a:g}" stroke="{LINE[0]}" stroke-width="2"/>'
        )


def _rounded(points: Sequence[Point], radius=8) -> str:
    """The path through the points; a corner turns within `radius` of it."""

    def toward(a, b):
        length = abs(b[0] - a[0]) + abs(b[1] - a[1])
        share = min(radius / length, 0.5)
        return f"{a[0] + share * (b[0] - a[0]):.5g} {a[1] + share * (b[1] - a[1]):.5g}"

    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        path += f"L{toward(corner, before)}Q{corner[0]:g} {corner[1]:g} {toward(corner, after)}"
    return path + f"L{points[-1][0]:.5g} {points[-1][1]:.5g}"


# --- drawings that stand before the code ------------------------------------------------------

DRAWINGS: dict[str, Callable[[], Drawing]] = {}


def _drawing(make: Callable[[], Drawing]) -> Callable[[], Drawing]:
    DRAWINGS[make.__name__] = make
    return make


@_drawing
def heads() -> Drawing:
    d = Drawing(
        720,
        412,
        "Heads: split, attend, merge",
        """Left, a table of numbers with a row for each of 3 tokens and d_model = 8 columns,
        coloured in four pairs of columns. split_heads cuts it into four tables, one for each head,
        of 3 tokens by d_head = 2 columns. Each head does its own attention. merge_heads puts the
        four results side by side again: 3 tokens by d_model columns.""",
    )
    colours = [colour for colour in HEADS for _ in range(2)]
    for i, word in enumerate(("the", "cat", "sat")):
        d.text(52, 181 + TILE * i, word, at="end", size=SMALL)
    d.tiles(62, 174, 3, colours)
    d.text(132, 152, "q; k and v likewise", size=SMALL, ink="soft")
    for i, colour in enumerate(HEADS):
        y = 60 + 78 * i
        middle = y + 26
        d.arrow((210, 199), (258, middle))
        d.tiles(266, y, 3, [colour] * 2)
        d.arrow((304, middle), (322, middle))
        d.box(322, middle - 17, 92, 34, "attention", colour)
        d.text(368, middle - 28, f"head {i}", size=SMALL, ink="soft")
        d.arrow((414, middle), (434, middle))
        d.tiles(440, y, 3, [colour] * 2)
        d.line((480, middle), (520, 199))
    d.arrow((519, 199), (540, 199))
    d.tiles(548, 174, 3, colours)
    for x, words in ((132, "d_model = 8"), (618, "d_model = 8")):
        d.text(x, 238, words, size=SMALL, ink="soft")
    d.text(368, 362, "d_head = 2", size=SMALL, ink="soft")
    for x, words in ((232, "split_heads"), (504, "merge_heads")):
        d.text(x, 34, words, size=SMALL, bold=True, code=True)
    shapes = ("(tokens, d_model)", "(heads, tokens, d_head)", "(tokens, d_model)")
    for x, words in zip((118, 368, 618), shapes, strict=True):
        d.text(x, 388, words, size=SMALL, code=True)
    return d


@_drawing
def groups() -> Drawing:
    d = Drawing(
        720,
        262,
        "Heads that share keys and values",
        """Three panels, each with four query heads below and the heads of keys and values that they
        read above. Multi-head: four, one for each query head. Grouped-query: two, each read by two
        query heads. Multi-query: one, read by all four. The cache shrinks to one half and to one
        quarter.""",
    )
    panels = (("Multi-head", 4, "1"), ("Grouped-query", 2, "1/2"), ("Multi-query", 1, "1/4"))
    for n, (name, n_kv_heads, share) in enumerate(panels):
        left, shared = 20 + 236 * n, 4 // n_kv_heads
        d.text(left + 104, 30, name, bold=True)
        for group in range(n_kv_heads):
            colour = HEADS[group]
            middle = left + 26 + 52 * (group * shared + (shared - 1) / 2)
            for i in range(group * shared, (group + 1) * shared):
                at = left + 26 + 52 * i
                d.line((middle, 90), (at, 146))
                d.box(at - 20, 146, 40, 32, f"q{i}", colour)
            d.box(middle - 20, 58, 40, 32, "k v", colour)
        d.text(left + 104, 208, f"n_kv_heads = {n_kv_heads}", size=SMALL, code=True)
        d.text(left + 104, 234, f"size of the cache: {share}", size=SMALL, ink="soft")
    return d


@_drawing
def cache() -> Drawing:
    d = Drawing(
        720,
        322,
        "The KV cache",
        """One step of writing. For the four tokens that are there, the cat sat on, the keys k and
        values v stand in a frame, the cache: computed in earlier steps and kept. For the new token,
        the, one q, one k and one v are computed. Its k and v are appended to the cache. Its q
        attends to all five keys and mixes all five values: one output, from which the next token is
        chosen.""",
    )
    d.rect(78, 74, 306, 104, "grey", dashed=True)
    for row, name in ((88, "k"), (132, "v")):
        d.text(58, row + 16, name, bold=True, code=True)
        for i in range(4):
            d.box(92 + 72 * i, row, 62, 32, name)
        d.box(470, row, 62, 32, name, "orange")
        d.arrow((470, row + 16), (386, row + 16))
    for x, word in zip((123, 195, 267, 339, 501), ("the", "cat", "sat", "on", "the"), strict=True):
        d.text(x, 34, word)
    d.text(231, 58, "cache: kept from earlier steps", size=SMALL, ink="soft")
    d.text(501, 58, "new", size=SMALL, ink="soft")
    d.text(428, 126, "append", size=SMALL, ink="soft")
    d.box(470, 176, 62, 32, "q", "blue")
    d.box(78, 236, 454, 40, "attention: 1 query, 5 keys, 5 values", "blue")
    d.arrow((231, 178), (231, 236))
    d.arrow((501, 208), (501, 236))
    d.arrow((532, 256), (586, 256))
    d.text(594, 256, "one output", at="start")
    d.line((540, 90), (548, 90), (548, 206), (540, 206))
    d.text(562, 138, "computed", at="start", size=SMALL, ink="soft")
    d.text(562, 156, "in this step", at="start", size=SMALL, ink="soft")
    d.text(305, 300, "cache: (batch, n_kv_heads, tokens, d_head)", size=SMALL, code=True)
    return d


@_drawing
def cross_attention() -> Drawing:
    d = Drawing(
        720,
        384,
        "Cross-attention",
        """Two sequences. Above, x: 3 tokens, the one that is being written; it gives the queries q.
        Below, the context: 5 tokens, the one that was read; it gives the keys k and the values v.
        q and k make a table of weights, 3 queries by 5 keys. The weights mix the 5 values, and
        w_o makes of the mixture an output for each of the 3 queries.""",
    )
    d.text(62, 32, "x", bold=True, code=True)
    d.tiles(28, 58, 3, ["blue"] * 4)
    d.text(62, 192, "context", bold=True, code=True)
    d.tiles(28, 214, 5, ["green"] * 4)
    for name, source, middle, rows, colour in (
        ("w_q", 84, 84, 3, "blue"),
        ("w_k", 258, 198, 5, "green"),
        ("w_v", 258, 318, 5, "green"),
    ):
        turn = ((118, source), (118, middle)) if source != middle else ()
        d.arrow((106, source), *turn, (138, middle))
        d.box(138, middle - 17, 56, 34, name)
        d.arrow((194, middle), (216, middle))
        d.tiles(224, middle - rows * TILE / 2 + 1, rows, [colour] * 3)
        d.text(250, middle - rows * TILE / 2 - 15, name[-1], bold=True, code=True)
    d.arrow((284, 84), (346, 84))
    d.line((284, 198), (300, 198), (300, 84))
    for row, peak in enumerate((0, 2, 3)):
        shades = ["orange" if column == peak else "plain" for column in range(5)]
        d.tiles(354, 58 + TILE * row, 1, shades)
    d.text(398, 32, "weights", bold=True)
    d.text(398, 134, "(queries, keys)", size=SMALL, code=True)
    d.arrow((450, 84), (526, 84))
    d.line((284, 318), (488, 318), (488, 84))
    d.box(526, 67, 56, 34, "w_o")
    d.arrow((582, 84), (604, 84))
    d.text(646, 32, "output", bold=True)
    d.tiles(612, 58, 3, ["green"] * 4)
    d.text(700, 134, "one row per query", size=SMALL, ink="soft", at="end")
    return d


@_drawing
def gate() -> Drawing:
    d = Drawing(
        720,
        412,
        "The MLP, plain and gated",
        """Two panels, both for one token of d_model = 6 numbers. Plain: the matrix up makes
        d_ff = 24 numbers of them, the activation bends each, the matrix down makes 6 again. Gated:
        two matrices, gate and up, make d_ff = 16 numbers each; the activation bends those of gate,
        the two are multiplied number by number, and down makes 6 again. Both have 288 weights.""",
    )

    def row(middle, y, count, colour):
        d.tiles(middle - 5 * count + 1.5, y, 1, [colour] * count, size=10)

    def step(middle, y, words, colour="plain"):
        d.arrow((middle, y - 20), (middle, y))
        d.box(middle - 48, y, 96, 30, words, colour)
        d.arrow((middle, y + 30), (middle, y + 50))

    for middle, name in ((168, "Plain"), (532, "Gated")):
        d.text(middle, 30, name, bold=True)
        row(middle, 58, 6, "purple")
        d.text(middle - 44, 61, "x", at="end", bold=True, code=True)
        step(middle, 296, "down")
        row(middle, 352, 6, "purple")
    step(168, 92, "up")
    row(168, 148, 24, "green")
    step(168, 184, "activation", "green")
    row(168, 240, 24, "green")
    d.line((168, 254), (168, 280))
    for middle, name, colour in ((442, "gate", "orange"), (622, "up", "green")):
        d.arrow((532, 70), (532, 81), (middle, 81), (middle, 98))
        d.box(middle - 48, 98, 96, 30, name)
        d.arrow((middle, 128), (middle, 146))
        row(middle, 152, 16, colour)
    step(442, 186, "activation", "orange")
    row(442, 242, 16, "orange")
    d.line((442, 256), (442, 268), (521, 268))
    d.line((622, 166), (622, 268), (543, 268))
    d.node(532, 268, "×")
    d.text(168, 392, "d_ff = 24,  2 · 6 · 24 = 288 weights", size=SMALL, ink="soft")
    d.text(532, 392, "d_ff = 16,  3 · 6 · 16 = 288 weights", size=SMALL, ink="soft")
    return d


@_drawing
def stream() -> Drawing:
    d = Drawing(
        720,
        392,
        "The residual stream, pre-norm and post-norm",
        """Two blocks. Pre-norm: a thick line, the residual stream, runs from x to the end without
        anything on it but two plus signs. Before the first, a branch goes through norm and
        attention; before the second, through norm and MLP; each comes back at its plus. After the
        last block stands one last norm. Post-norm: the branches go through attention and MLP alone,
        and after each plus a norm stands on the stream itself.""",
    )

    def branch(start, end, y, parts):
        """Down from the stream at x=start, through the parts, and up to the plus at x=end."""
        low = y + 62
        at = [(start, y), (start, low)]
        for x, width, words, colour in parts:
            d.arrow(*at, (x, low))
            d.box(x, low - 18, width, 36, words, colour)
            at = [(x + width, low)]
        d.arrow(*at, (end, low), (end, y + 11))
        d.node(end, y)

    for y, name, code, width in (
        (86, "Pre-norm", "x = x + f(norm(x))", 500),
        (274, "Post-norm", "x = norm(x + f(x))", 580),
    ):
        d.text(24, y - 58, name, at="start", bold=True)
        d.text(134, y - 58, code, at="start", size=SMALL, code=True)
        d.rect(60, y - 34, width, 130, "plain")
        d.text(48 + width, y + 82, "× N", at="end", ink="soft")
        d.text(30, y, "x", bold=True, code=True)
        d.arrow((44, y), (698, y), weight=4)
    branch(82, 300, 86, ((104, 62, "norm", "purple"), (186, 94, "attention", "blue")))
    branch(326, 522, 86, ((348, 62, "norm", "purple"), (430, 70, "MLP", "green")))
    d.box(596, 68, 62, 36, "norm", "purple")
    d.text(627, 126, "after the", size=SMALL, ink="soft")
    d.text(627, 144, "last block", size=SMALL, ink="soft")
    branch(82, 252, 274, ((116, 94, "attention", "blue"),))
    d.box(282, 256, 62, 36, "norm", "purple")
    branch(368, 516, 274, ((402, 70, "MLP", "green"),))
    d.box(546, 256, 62, 36, "norm", "purple")
    return d


@_drawing
def encoder_decoder() -> Drawing:
    d = Drawing(
        720,
        486,
        "Encoder beside decoder",
        """Left the encoder: source tokens, embedding and positions, then N blocks of self-attention
        and MLP, each added to the stream. Right the decoder: target tokens so far, embedding and
        positions, then N blocks of masked self-attention, cross-attention and MLP. A line goes from
        the end of the encoder to the cross-attention of every decoder block: the context, from
        which it takes keys and values. Below the decoder, the head scores the next token. The norms
        are not drawn.""",
    )

    def tower(stream, side, name, tokens, parts, end):
        """A stream going down at x=stream; its parts stand on that side of it."""
        middle = stream + side * 109
        d.text(middle, 28, name, bold=True)
        d.box(middle - 109, 48, 218, 32, tokens, "grey")
        d.box(middle - 109, 98, 218, 32, "embedding + positions", "orange", size=15)
        d.arrow((middle, 80), (middle, 98))
        d.rect(middle - 135, 150, 270, 22 + 76 * len(parts), "plain")
        bottom = 158 + 76 * len(parts)
        d.text(middle + side * 122, bottom, "× N", at="end" if side > 0 else "start", ink="soft")
        d.line((stream, 130), (stream, end), weight=4)
        for i, (words, colour) in enumerate(parts):
            y = 184 + 76 * i
            near, far = stream + side * 36, stream + side * 228
            d.arrow((stream, y), (near, y))
            d.box(min(near, far), y - 17, 192, 34, words, colour)
            d.arrow(
                ((near + far) / 2, y + 17), ((near + far) / 2, y + 36), (stream + side * 11, y + 36)
            )
            d.node(stream, y + 36)

    tower(
        56,
        1,
        "Encoder",
        "3rd of march 2021",
        (("self-attention", "blue"), ("MLP", "green")),
        360,
    )
    tower(
        664,
        -1,
        "Decoder",
        "2021-0",
        (("masked self-attention", "blue"), ("cross-attention", "blue"), ("MLP", "green")),
        420,
    )
    d.arrow((56, 358), (56, 384), (368, 384), (368, 260), (436, 260))
    d.text(212, 402, "context: keys and values", size=SMALL, ink="soft")
    d.text(30, 449, "norms are not drawn", size=SMALL, ink="soft", at="start")
    d.arrow((664, 414), (664, 432), weight=4)
    d.box(446, 432, 244, 34, "head: scores of the next token", "orange", size=SMALL)
    return d


@_drawing
def language_model() -> Drawing:
    d = Drawing(
        720,
        272,
        "A language model",
        """Four tokens, t h e and a space, stand below each other. Each goes through the embedding,
        then through N blocks of causal attention and MLP, then a norm, then the head. Behind each
        token stands what the model should say there: the token that follows it, h, e, space and c.
        A dashed line joins the embedding and the head: they are one table, tied.""",
    )
    names = ("t", "h", "e", "␣", "c")
    top, step = 104, 38
    bottom = top + 3 * step
    for x, y, words in ((64, 78, "it reads"), (634, 78, "it should say")):
        d.text(x, y, words, size=SMALL, ink="soft")
    for i, (read, said) in enumerate(itertools.pairwise(names)):
        y = top + step * i
        d.box(46, y - 14, 36, 28, read, "grey")
        d.box(616, y - 14, 36, 28, said, "grey")
        d.arrow((82, y), (112, y))
        d.arrow((586, y), (616, y))
    height = bottom - top + 46
    d.box(112, top - 23, 118, height, "embedding", "orange")
    d.box(478, top - 23, 108, height, "head", "orange")
    d.rect(258, top - 35, 142, height + 24, "plain")
    d.box(270, top - 16, 118, 60, "attention", "blue")
    d.box(270, bottom - 44, 118, 60, "MLP", "green")
    d.arrow((329, top + 44), (329, bottom - 44))
    d.text(329, bottom + 28, "× N", size=SMALL, ink="soft")
    d.box(415, top - 23, 50, height, "norm", "purple")
    for x, end in ((230, 258), (400, 415), (465, 478)):
        d.arrow((x, (top + bottom) / 2), (end, (top + bottom) / 2))
    d.line((171, top - 23), (171, 40), (532, 40), (532, top - 23), dashed=True)
    d.text(352, 26, "one table: tied", size=SMALL, ink="soft")
    return d


@_drawing
def kv_cache() -> Drawing:
    d = Drawing(
        720,
        292,
        "With a cache, only the last row is new",
        """Two triangles of squares, a row for each query, a column for each key, five tokens. Left,
        without a cache: for the fifth token all fifteen squares are computed, and all keys and
        values. Right, with a cache: the keys and values of the first four tokens are kept from
        before, and only the last row of five squares is computed.""",
    )
    for left, name, kept in ((60, "without a cache", False), (400, "with a cache", True)):
        d.text(left + 130, 28, name, bold=True)
        d.text(left + 150, 60, "keys and values", size=SMALL, ink="soft")
        for i in range(5):
            old = kept and i < 4
            d.box(
                left + 60 + 38 * i, 72, 34, 26, f"k{'₁₂₃₄₅'[i]}",
                "grey" if old else "orange", size=SMALL, dashed=old,
            )  # fmt: skip
            y = 112 + 30 * i
            d.text(left + 46, y + 12, f"q{'₁₂₃₄₅'[i]}", size=SMALL, ink="soft" if old else "ink")
            for j in range(i + 1):
                d.rect(
                    left + 60 + 38 * j, y, 34, 24, "plain" if old else "blue", radius=3, dashed=old
                )
        if kept:
            d.arrow((348, 170), (392, 170))
        words = "grey: kept; dashed: done before" if kept else "all of it again for each token"
        d.text(left + 150, 274, words, size=SMALL, ink="soft")
    return d


@_drawing
def byte_pairs() -> Drawing:
    d = Drawing(
        720,
        306,
        "Byte-pair encoding of one word",
        """The word newest, with the space before it, in six rows. First seven single letters. Then
        e and s have become one token, then es and t, then the space and n, then these and e, then
        these and w: two tokens are left, new with its space, and est.""",
    )
    rows = (
        ("letters", "␣ n e w e s t"),
        ("e s", "␣ n e w es t"),
        ("es t", "␣ n e w est"),
        ("␣ n", "␣n e w est"),
        ("␣n e", "␣ne w est"),
        ("␣ne w", "␣new est"),
    )
    d.text(96, 24, "merge", size=SMALL, ink="soft")
    d.text(400, 24, "tokens", size=SMALL, ink="soft")
    before: list[str] = []
    for i, (merge, tokens) in enumerate(rows):
        y, x = 42 + 43 * i, 196.0
        d.text(96, y + 15, merge.replace(" ", " + ") if i else merge, code=bool(i))
        for token in tokens.split():
            width = 58 * len(token) - 8
            new = i and token not in before
            d.box(x, y, width, 30, token, "orange" if new else "plain")
            x += width + 8
        before = tokens.split()
    return d


@_drawing
def lora() -> Drawing:
    d = Drawing(
        720,
        300,
        "LoRA: a small change beside a large matrix",
        """A token x of d_in numbers goes two ways. On the left through the published matrix W,
        which is frozen. On the right through the thin matrix A, which leaves r numbers, and through
        the thin matrix B; then times alpha over r. The two results are added and make y, of d_out
        numbers. Only A and B are trained.""",
    )
    d.tiles(360 - 48, 24, 1, ["purple"] * 8, size=12)
    d.text(300, 29, "x", at="end", bold=True, code=True)
    d.arrow((360, 42), (360, 56), (190, 56), (190, 76))
    d.arrow((360, 42), (360, 56), (510, 56), (510, 76))
    d.rect(110, 76, 160, 128, "grey")
    d.text(190, 132, "W", size=20, bold=True)
    d.text(190, 158, "frozen", size=SMALL, ink="soft")
    d.box(430, 76, 160, 34, "A", "orange")
    d.text(604, 93, "d_in → r", size=SMALL, ink="soft", at="start")
    d.arrow((510, 110), (510, 126))
    d.tiles(510 - 12, 129, 1, ["orange"] * 2, size=12)
    d.arrow((510, 145), (510, 166))
    d.box(430, 170, 160, 34, "B", "orange")
    d.text(604, 187, "r → d_out", size=SMALL, ink="soft", at="start")
    d.line((190, 204), (190, 240), (349, 240))
    d.line((510, 204), (510, 240), (371, 240))
    d.text(524, 224, "· α / r", size=SMALL, at="start", code=True)
    d.node(360, 240, "+")
    d.arrow((360, 251), (360, 268))
    d.tiles(360 - 48, 272, 1, ["purple"] * 8, size=12)
    d.text(300, 277, "y", at="end", bold=True, code=True)
    return d


@_drawing
def sharding() -> Drawing:
    d = Drawing(
        720,
        262,
        "What four devices hold",
        """Four rows: data parallel, and ZeRO's stages 1, 2 and 3. For each of four devices three
        bars: weights and gradients, two bytes a parameter each, and the optimizer's part, twelve
        bytes. Data parallel: all bars are full on all devices. Stage 1: a quarter of the
        optimizer's part on each. Stage 2: of the gradients too. Stage 3, as in FSDP: of the weights
        too.""",
    )
    names = ("data parallel", "stage 1", "stage 2", "stage 3, FSDP")
    kinds = (
        ("weights", 2, "blue", 3),
        ("gradients", 2, "green", 2),
        ("optimizer", 12, "orange", 1),
    )
    x = 176.0
    for kind, size, colour, _ in kinds:
        d.rect(x, 14, 14, 14, colour, radius=2)
        d.text(x + 20, 21, f"{kind}, {size} bytes", size=SMALL, at="start")
        x += 160
    for stage, name in enumerate(names):
        y = 50 + 52 * stage
        d.text(146, y + 17, name, at="end")
        for device in range(4):
            left = 176 + 132 * device
            for _, size, colour, spread_from in kinds:
                whole = 7 * size
                held = whole / 4 if stage >= spread_from else whole
                d.rect(left, y, whole, 34, "pale", radius=2, weight=1)
                part = device * held if stage >= spread_from else 0
                d.rect(left + part, y, held, 34, colour, radius=2, weight=1)
                left += whole + 2
    return d


@_drawing
def tensor_parallel() -> Drawing:
    d = Drawing(
        720,
        318,
        "One MLP on two devices",
        """The token x goes to both devices. Device 0 has the upper half of the rows of W_up and the
        matching columns of W_down, device 1 the other halves. Each computes its half of the hidden
        units, applies GELU to them, and multiplies with its columns of W_down: a vector of d_model
        numbers each, incomplete. Their sum, the only thing that is sent, is the output.""",
    )
    d.tiles(360 - 48, 22, 1, ["purple"] * 8, size=12)
    d.text(300, 27, "x", at="end", bold=True, code=True)
    for device, (middle, colour) in enumerate(((180, "blue"), (540, "orange"))):
        d.rect(middle - 130, 58, 260, 196, "pale", radius=10, weight=1)
        d.text(middle - 118, 74, f"device {device}", size=SMALL, at="start", ink="soft")
        d.arrow((360, 40), (360, 49), (middle, 49), (middle, 84))
        d.box(middle - 84, 86, 168, 30, "its rows of W_up", colour)
        d.arrow((middle, 116), (middle, 132))
        d.tiles(middle - 48, 134, 1, [colour] * 8, size=12)
        d.arrow((middle, 148), (middle, 164))
        d.box(middle - 84, 166, 168, 30, "GELU")
        d.arrow((middle, 196), (middle, 212))
        d.box(middle - 100, 214, 200, 30, "its columns of W_down", colour)
    d.line((180, 244), (180, 276), (349, 276))
    d.line((540, 244), (540, 276), (371, 276))
    d.node(360, 276, "+")
    d.text(360, 250, "sent", size=SMALL, ink="soft")
    d.arrow((360, 287), (360, 298))
    d.tiles(360 - 48, 300, 1, ["purple"] * 8, size=12)
    return d


# --- the map ------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A lesson, and the part of the map that stands for it."""

    lesson: str  # the name of its file
    name: str  # short, as on the map
    what: str  # in the words of somebody who points at it

    @property
    def number(self) -> str:
        return self.lesson[:2]


PARTS = [
    Part("00_start_here", "Start here", "before the first part"),
    Part("01_attention", "Attention", "the first half of the block"),
    Part("02_multi_head_attention", "Heads", "several attentions side by side"),
    Part("03_positions", "Positions", "added to the embedding, or turned into q and k"),
    Part("04_norms", "Norm", "before attention, before the MLP, and once at the end"),
    Part("05_feed_forward", "MLP", "the second half of the block"),
    Part("06_transformer_block", "Block", "norm, attention, plus, norm, MLP, plus"),
    Part("07_going_deep", "Going deep", "the block, N times"),
    Part("08_encoder_decoder", "Encoder–decoder", "two stacks, the one reads what the other made"),
    Part("09_language_model", "Language model", "all of it, from tokens to the next token"),
    Part("10_inside_the_heads", "Inside the heads", "what trained heads look at"),
    Part("11_a_real_llm", "A real LLM", "all of it, with published weights"),
    Part("12_scale", "Scale", "all of it, large"),
]


MAP_IN_WORDS = """Map of the Transformer. From left to right: tokens; their embedding, plus
positions (03); then N blocks (06, 07). In a block the residual stream runs straight on. One branch
of it goes through a norm (04) and attention (01) with its heads (02) and is added; the next goes
through a norm (04) and the MLP (05) and is added. After the last block, a norm (04) and the head
give the scores of the next token. All of it is a language model (09). Around it: inside the heads
(10), a real LLM (11), scale (12), encoder–decoder (08)."""


def transformer_map(lessons: Collection[str], here: str | None = None) -> Drawing:
    """The whole Transformer, each part with the number of its lesson.

    Args:
        lessons: the lessons that are there, by name; the parts of others are pale.
        here: the lesson whose part is lit, by name; None or lesson 00 shows all in colour.
    """
    there = {lesson[:2] for lesson in lessons}
    by_number = {part.number: part for part in PARTS}
    place = by_number[here[:2]] if here else None
    lit = place.number if place else None
    in_colour = lit in (None, "00")
    alt = MAP_IN_WORDS
    if place:
        alt = f"{alt} " if in_colour else "Map of the Transformer, the same as in lesson 00. "
        alt += f"You are here: {place.number} {place.name}, {place.what}."
    d = Drawing(840, 308, "Map of the Transformer", alt)

    def look(number, colour):
        if number == lit:
            return {"colour": "here", "weight": 3}
        if number not in there:
            return {"colour": "pale", "dashed": True}
        return {"colour": colour if in_colour else "plain"}

    def part(number, x, y, width, words="", colour="grey"):
        """A box on the way of the tokens, or, without words of its own, a label."""
        ink = "ink" if number in there else "soft"
        d.rect(x, y, width, 46 if words else 26, **look(number, colour))
        if words:
            d.text(x + width / 2, y + 13, number, size=SMALL, ink=ink, bold=True)
            d.text(x + width / 2, y + 32, words, size=15, ink=ink)
        else:
            label = f"{number} {by_number[number].name}"
            d.text(x + width / 2, y + 13, label, size=SMALL, ink=ink)

    def branch(start, end, *parts):
        """From the stream down through the parts, and back to a plus."""
        at = [(start, 114), (start, 180)]
        for x, width, number, words, colour in parts:
            d.arrow(*at, (x, 180))
            part(number, x, 157, width, words, colour)
            at = [(x + width + (8 if number == "01" else 0), 180)]
        d.arrow(*at, (end, 180), (end, 125))
        d.node(end, 114)

    d.rect(84, 27, 740, 223, **look(lit if lit in ("09", "11", "12") else "09", "plain"))
    for number, x, width in (("09", 100, 156), ("11", 268, 116), ("12", 396, 86)):
        part(number, x, 14, width)
    for back in (2, 1):  # the other blocks
        d.rect(284 + 5 * back, 66 - 5 * back, 398, 174, **look("07", "plain"))
    d.rect(284, 66, 398, 174, **look("06", "plain"))
    part("06", 296, 74, 88)
    part("07", 550, 74, 124)
    d.text(670, 225, "× N", size=SMALL, ink="soft", at="end")

    free = "orange" if in_colour else "plain"
    for i, word in enumerate(("the", "cat", "sat")):
        d.box(14, 73 + 28 * i, 54, 26, word, "grey", size=15)
    d.text(41, 174, "tokens", size=SMALL, ink="soft")
    d.arrow((68, 114), (98, 114))
    d.arrow((198, 114), (762, 114), weight=3)
    d.box(98, 96, 100, 36, "embedding", free, size=15)
    part("03", 180, 157, 92, "positions", "orange")
    d.arrow((226, 157), (226, 125))
    d.node(226, 114)
    for back in (2, 1):  # the other heads
        d.rect(388 + 4 * back, 157 - 4 * back, 94, 46, **look("02", "blue"))
    branch(300, 512, (316, 54, "04", "norm", "purple"), (388, 94, "01", "attention", "blue"))
    branch(534, 668, (546, 54, "04", "norm", "purple"), (612, 46, "05", "MLP", "green"))
    part("02", 394, 209, 84, colour="blue")
    part("04", 698, 91, 52, "norm", "purple")
    d.box(764, 96, 50, 36, "head", free, size=15)
    d.arrow((789, 132), (789, 162))
    d.box(762, 162, 54, 26, "on", "grey", size=15)
    d.text(820, 204, "next token", size=SMALL, ink="soft", at="end")

    part("00", 14, 268, 116)
    d.line((436, 235), (436, 268), dashed=True)
    part("10", 354, 268, 164)
    for x in (598, 634):
        for floor in range(3):
            d.rect(x, 270 + 8 * floor, 18, 6, **look("08", "grey") | {"dashed": False}, radius=1)
    d.arrow((617, 281), (633, 281))
    part("08", 664, 268, 162)
    if place:
        d.rect(510, 14, 314, 26, "pin", radius=13)
        words = f"you are here: {place.number} {place.name}"
        d.text(667, 27, words, size=SMALL, ink="on-pin", bold=True)
    return d


def every(lessons: Iterable[str]) -> dict[str, Drawing]:
    """All drawings by name, and a map for each lesson that is there."""
    there = _known(lessons)
    maps = {f"map_{lesson[:2]}": transformer_map(there, lesson) for lesson in there}
    return {"map": transformer_map(there), **maps} | {n: make() for n, make in DRAWINGS.items()}


def _known(lessons: Iterable[str]) -> list[str]:
    given = set(lessons)
    return [part.lesson for part in PARTS if part.lesson in given]


# --- files, and what stands in a lesson -----------------------------------------------------------


def write(folder: Path, lessons: Iterable[str]) -> None:
    """Write all drawings into the folder, and remove what is none of them."""
    drawings = every(lessons)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.svg"):
        if path.stem not in drawings:
            path.unlink()
    for name, drawing in drawings.items():
        (folder / f"{name}.svg").write_text(drawing.svg(), encoding="utf-8", newline="\n")


def stale(folder: Path, lessons: Iterable[str]) -> list[str]:
    """The names of the files that `write` would write, change or remove."""
    wanted = {f"{name}.svg": drawing.svg() for name, drawing in every(lessons).items()}
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}
    return sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))


def expand(text: str, lesson: str, lessons: Iterable[str]) -> str:
    """The text of a markdown cell with the words of its drawings put in.

    `![](drawings/NAME.svg)` gets the alt text of that drawing. `![](drawings/map.svg)` becomes the
    map with this lesson's part lit, and below it the links: a picture on GitHub has none inside.

    Raises:
        ValueError: there is no such drawing, or this lesson is not on the map.
    """
    there = _known(lessons)

    def shown(found: re.Match) -> str:
        name = found[1]
        if name == "map" and lesson not in there:
            raise ValueError(f"{lesson} is not on the map. Add it to PARTS in drawings.py.")
        if name == "map":
            alt = transformer_map(there, lesson).alt
            return f"![{alt}](drawings/map_{lesson[:2]}.svg)\n\n{_links(lesson, there)}"
        if name not in DRAWINGS:
            known = ", ".join(["map", *DRAWINGS])
            raise ValueError(f"there is no drawing {name!r}. There are: {known}")
        return f"![{DRAWINGS[name]().alt}]({found[2]})"

    return re.sub(r"!\[\]\((?=drawings/(\w+)\.svg\))(.*?)\)", shown, text)


def _links(lesson: str, there: Sequence[str]) -> str:
    """A line with all parts; a lesson that is not there yet is no link."""
    at = there.index(lesson)
    before, after = there[:at][-1:], there[at + 1 :][:1]
    words = []
    for part in PARTS:
        label = f"{part.number} {part.name}"
        if part.lesson == lesson:
            label = f"**you are here: {label}**"
        elif part.lesson in there:
            label = f"[{label}]({part.lesson}.ipynb)"
        words.append("← " * (part.lesson in before) + label + " →" * (part.lesson in after))
    return " · ".join(words)
