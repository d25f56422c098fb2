"""Matplotlib figures of the course, each a pure function of its data.

Every function returns a :class:`Picture` with alt text, the same bytes in every run: an SVG card,
light or dark as the page is, and a PNG for where no SVG is shown, of colours that can be read on
both. Colours of data are safe for colour-blind readers: viridis for amounts, `DIVERGING` for
differences, Okabe-Ito for lines.
"""

import base64
import functools
import html
import io
import math
import time
import warnings
from contextlib import contextmanager
from contextvars import ContextVar

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tfcourse.drawings import COLOURS, INKS

# Okabe & Ito, "Color Universal Design", 2008
OKABE_ITO = {
    "black": "#000000",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "green": "#009e73",
    "yellow": "#f0e442",
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "purple": "#cc79a7",
}
LINES = [OKABE_ITO[name] for name in ("blue", "vermilion", "green", "purple", "orange", "sky")]
DIVERGING_STOPS = ["#00385c", "#0072b2", "#7ab5d8", "#f4f4f2", "#f0a878", "#d55e00", "#6e2c00"]
DIVERGING = LinearSegmentedColormap.from_list("tfcourse_diverging", DIVERGING_STOPS)
MASKED = "#d9dce1"  # a cell that may not be attended; not a colour of any scale

# What is no data: its colour on a light page, on a dark one, and where the page may be either.
NEUTRAL = {
    "card": (*COLOURS["card"][::2], "none"),
    "ink": (*INKS["ink"], "#767a80"),
    "label": ("#3b424c", "#cdd4dc", "#767a81"),
    "soft": (*INKS["soft"], "#767a82"),
    "line": ("#8a919c", "#7f8995", "#8a919c"),
    "faint": ("#c3c8cf", "#4d5662", "#8a919c80"),
    "grid": ("#e6e8eb", "#2c333c", "#8a919c40"),
    "plane": ("#eef6f3", "#1d3a31", "#009e7320"),
    "rim": ("#b5d5cb", "#3d7463", "#009e7380"),
}
LIGHT, DARK, EITHER = range(3)
ON_CELL = "#1b2027"  # of numbers that stand on a cell's own colour, in every theme

DPI = 144  # drawn at one and a half times the size at which it is shown: sharp on fine screens

_theme = ContextVar("theme", default=None)  # of the drawing that is under way


def neutral(name):
    """The colour of what is no data, in the theme that is being drawn."""
    return NEUTRAL[name][_theme.get() or LIGHT]


def _style():
    return {
        "figure.facecolor": neutral("card"),
        "figure.constrained_layout.use": True,
        "axes.facecolor": neutral("card"),
        "axes.edgecolor": neutral("line"),
        "axes.labelcolor": neutral("label"),
        "axes.titlecolor": neutral("ink"),
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 10,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": matplotlib.cycler(color=LINES),
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "grid.color": neutral("grid"),
        "grid.linewidth": 0.8,
        "image.cmap": "viridis",
        "legend.frameon": False,
        "lines.linewidth": 2,
        "svg.hashsalt": "tfcourse",
        "text.color": neutral("ink"),
        "text.usetex": False,
        "xtick.color": neutral("soft"),
        "ytick.color": neutral("soft"),
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
    }


def _dark_rules():
    """CSS that gives what is no data the colours of a dark page; a light one needs none."""
    rules = [
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark, _ in NEUTRAL.values()
        for what in ("fill", "stroke")
    ]
    return f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"


class Picture:
    """A finished figure with its title and its alt text; made in a function that is `styled`.

    Args:
        figure: a `matplotlib.figure.Figure` made outside pyplot (see `card`).
        title: the question that the figure answers.
        alt: what a reader who cannot see it should know.
    """

    def __init__(self, figure, title, alt):
        self.figure, self.title, self.alt = figure, title, alt
        self.on_either = figure  # the same, drawn for a page whose theme nobody knows

    def _saved(self, figure, theme, **how):
        buffer = io.BytesIO()
        with _drawing(theme), warnings.catch_warnings():
            # a token may be in a script that the font lacks; a box in its place is enough
            warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing")
            figure.savefig(buffer, **how)
        return buffer.getvalue()

    @functools.cached_property
    def _png(self):
        smallest = {"pil_kwargs": {"compress_level": 6}, "metadata": {"Software": None}}
        return self._saved(self.on_either, EITHER, dpi=DPI, **smallest)

    @functools.cached_property
    def _svg(self):
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        text = self._saved(self.figure, LIGHT, format="svg", metadata=nothing).decode()
        text = text[text.index("<svg") :]
        start = text.index(">") + 1
        return f"{text[:start]}{_dark_rules()}{text[start:]}"

    def png(self):
        """The picture as PNG on no ground, the same bytes in every run."""
        return self._png

    def svg(self):
        """The picture as SVG on a card, light or dark as the page is; the same in every run."""
        return self._svg

    @property
    def size(self):
        """Width and height in CSS pixels, at which the picture is to be shown."""
        return tuple(round(inches * 96) for inches in self.figure.get_size_inches())

    def image(self, *, svg=True):
        """The picture as one `<img>` with its alt text and nothing to load."""
        width, height = self.size
        data, form = (self.svg().encode(), "svg+xml") if svg else (self.png(), "png")
        return (
            f'<img alt="{html.escape(self.alt)}" width="{width}" height="{height}" '
            'style="max-width:100%;height:auto;border-radius:8px" '
            f'src="data:image/{form};base64,{base64.b64encode(data).decode()}">'
        )

    def save(self, path):
        """Write the picture to `path`, as SVG where its name ends so, else as PNG."""
        data = self.svg().encode() if str(path).endswith(".svg") else self.png()
        with open(path, "wb") as file:
            file.write(data)

    def __repr__(self):
        return in_words(self.title, self.alt)

    def png_bundle(self):
        """The PNG and the size at which it is to be shown, as Jupyter takes them."""
        width, height = self.size
        data = {"image/png": base64.b64encode(self.png()).decode()}
        return data, {"image/png": {"width": width, "height": height}}

    def html_bundle(self):
        """The SVG as HTML, and the words, as Jupyter takes them."""
        shown = f'<figure style="margin:0">{self.image()}</figure>'
        return {"text/html": shown, "text/plain": repr(self)}

    def _repr_mimebundle_(self, include=None, exclude=None):
        data, metadata = self.png_bundle()
        return data | self.html_bundle(), metadata


def in_words(title, alt):
    """Title and alt text as one text: a full stop between them, unless the title ends itself."""
    return f"{title}{'' if title.endswith(('.', '?', '!')) else '.'} {alt}"


@contextmanager
def _drawing(theme):
    token = _theme.set(theme)
    try:
        with matplotlib.rc_context(_style()):
            yield
    finally:
        _theme.reset(token)


def styled(draw):
    """Decorator: run a figure function under the course's style, once for each kind of page."""

    @functools.wraps(draw)
    def wrapper(*args, **kwargs):
        if _theme.get() is not None:  # called by another one
            return draw(*args, **kwargs)
        with _drawing(LIGHT):
            picture = draw(*args, **kwargs)
        with _drawing(EITHER):
            picture.on_either = draw(*args, **kwargs).figure
        return picture

    return wrapper


def drawn_once(draw, theme):
    """The picture of `draw()` for one kind of page alone: half the work of both.

    `EITHER`, a page whose theme nobody knows, is for what is shown as PNG alone, as views are;
    `LIGHT` for what is shown as SVG alone, which changes its colours itself.
    """
    with _drawing(theme):
        return draw()


def card(rows=1, columns=1, size=(6.4, 3.6), **options):
    """A figure outside pyplot, and its axes as `Figure.subplots` gives them."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def token_text(token):
    """`token` with what cannot be seen made visible; matches `tokenText` in shared.js."""
    visible = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
    text = "".join(
        visible.get(c, c if c.isprintable() else "\N{SYMBOL FOR SUBSTITUTE}") for c in token
    )
    if not text.strip(" "):
        return "␣" * len(text) or "∅"
    return text


def label_ticks(axis, tokens, room):
    """Write tokens along `axis`, thinned to `room` labels; a `$` in a token is only a dollar."""
    step = max(1, math.ceil(len(tokens) / room))
    shown = range(0, len(tokens), step)
    texts = [token_text(tokens[i]) for i in shown]
    axis.set_ticks(list(shown), [t if len(t) <= 12 else t[:11] + "…" for t in texts])
    for label in axis.get_ticklabels():
        label.set_parse_math(False)


@styled
def attention_heatmaps(
    weights,
    query_tokens,
    key_tokens=None,
    title="Who attends to whom?",
    *,
    mask=None,
    names=None,
    difference=False,
    alt=None,
):
    """Attention weights as heatmaps, one for each head.

    Args:
        weights: `(queries, keys)` or `(heads, queries, keys)`, array or CPU tensor.
        query_tokens, key_tokens: the tokens down and across; `key_tokens` defaults to the queries'.
        title: the question that the figure answers.
        mask: boolean, True = may attend, broadcastable to `weights`; other cells are grey.
        names: one name for each head, default `head 0`, `head 1`, ….
        difference: `weights` are differences: a diverging scale about zero.
        alt: alt text; by default it names the heads, the tokens and each head's greatest weight.

    Returns:
        Picture
    """
    weights = np.asarray(weights, dtype=float)
    if weights.ndim == 2:
        weights = weights[None]
    key_tokens = query_tokens if key_tokens is None else key_tokens
    heads, queries, keys = weights.shape
    if (queries, keys) != (len(query_tokens), len(key_tokens)):
        raise ValueError(
            f"weights must be (heads, queries={len(query_tokens)}, keys={len(key_tokens)}) "
            f"to fit the tokens, got {weights.shape}"
        )
    names = [f"head {h}" for h in range(heads)] if names is None else names
    may_attend = np.broadcast_to(True if mask is None else np.asarray(mask, bool), weights.shape)

    columns = min(heads, 4)
    rows = math.ceil(heads / columns)
    side = 3.9 if heads == 1 else 2.6 if heads <= 2 else 1.95
    room = max(4, int(side * 5.5))
    figure, axes = card(
        rows,
        columns,
        (side * columns + 1.1, side * rows * min(1.4, max(0.5, queries / keys)) + 0.9),
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    scale = np.abs(weights[np.isfinite(weights) & may_attend]).max(initial=0) or 1.0
    colours = (DIVERGING if difference else matplotlib.colormaps["viridis"]).with_extremes(
        bad=MASKED
    )
    for head, axis in enumerate(axes.flat):
        if head >= heads:
            axis.remove()
            continue
        shown = np.ma.masked_where(~may_attend[head] | ~np.isfinite(weights[head]), weights[head])
        image = axis.imshow(
            shown,
            cmap=colours,
            vmin=-scale if difference else 0,
            vmax=scale,
            interpolation="nearest",
            aspect="equal" if 0.5 <= queries / keys <= 2 else "auto",
        )
        axis.grid(False)
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0)
        axis.tick_params(axis="x", rotation=60 if keys > 4 else 0)
        label_ticks(axis.xaxis, key_tokens, room)
        label_ticks(axis.yaxis, query_tokens, room)
        if heads > 1:
            axis.set_title(names[head], fontsize=9, fontweight="normal", loc="left")
        if heads == 1 and max(queries, keys) <= 10:
            write_numbers(axis, shown, scale, difference)
    shown_axes = list(axes.flat)[:heads]
    figure.colorbar(image, ax=shown_axes, shrink=0.7, aspect=30, pad=0.015).outline.set_visible(
        False
    )
    figure.supylabel("query: attends", fontsize=9, color=neutral("soft"))
    figure.supxlabel("key: attended to", fontsize=9, color=neutral("soft"))
    # two dollars in a title would otherwise start mathematics
    figure.suptitle(title, fontweight="bold", fontsize=11).set_parse_math(False)
    if alt is None:
        alt = describe(weights, query_tokens, key_tokens, names)
    return Picture(figure, title, alt)


def write_numbers(axis, shown, scale, difference):
    """Two digits in each cell, light on dark and dark on light."""
    for (row, column), value in np.ndenumerate(shown.filled(np.nan)):
        if not np.isnan(value):
            dark = abs(value) > 0.6 * scale if difference else value < 0.55 * scale
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8,
                      color="white" if dark else ON_CELL)  # fmt: skip


# Signed amounts about the card's white, shares from white to green: Okabe-Ito, as in the live view.
SIGNED = LinearSegmentedColormap.from_list("tfcourse_signed", ["#d55e00", "#ffffff", "#0072b2"])
SHARES = LinearSegmentedColormap.from_list("tfcourse_shares", ["#ffffff", "#009e73"])


@styled
def attention_matrices(
    q,
    k,
    scores,
    weights,
    v,
    output,
    query_tokens,
    key_tokens,
    *,
    value_names,
    feature_names,
    title,
    alt,
):
    """One attention as its two products: Kᵀ above the scores, V above the output.

    So a row and a column meet in the cell that they make, and a query is one row through all four
    matrices below. Numbers are written where a matrix has at most ten columns.

    Args:
        q, k, v: `(queries, d_k)`, `(keys, d_k)`, `(keys, d_value)`, arrays.
        scores: `(queries, keys)`, −inf where masked.
        weights, output: `(queries, keys)`, `(queries, d_value)`.
        query_tokens, key_tokens, value_names, feature_names: one string a row or a column.
        title: the question that the figure answers.
        alt: what a reader who cannot see it should know.

    Returns:
        Picture
    """
    (queries, d_k), (keys, d_value) = q.shape, v.shape
    wide_q, wide_v = (1.0 if columns <= 10 else 10 / columns for columns in (d_k, d_value))
    names = [token_text(token)[:12] for token in query_tokens]
    room = 0.28 * max(map(len, names)) + 0.4
    upright = [max(map(len, texts)) > 4 for texts in (feature_names, key_tokens, value_names)]
    longest = max(len(n) for n in (*feature_names, *key_tokens, *value_names))
    strip = 0.26 * min(longest, 12) + 0.4 if any(upright) else 0.9
    left = {"q": room}  # in units of one cell
    left["scores"] = left["q"] + d_k * wide_q + 0.7
    left["weights"] = left["scores"] + keys + room + 0.5
    left["output"] = left["weights"] + keys + 2.4
    width = left["output"] + d_value * wide_v + 0.3
    tall = 1.0 if d_k <= 10 else 10 / d_k  # of a row of Kᵀ
    above = max(d_k * tall, keys)
    height = above + strip + queries + 3.0

    scale = min(1.0, 36 / width)
    figure, axes = card(size=(0.34 * scale * width, 0.25 * scale * height + 0.35))
    axes.set(xlim=(0, width), ylim=(queries + 1.2, -(above + strip + 1.2)))
    axes.axis("off")
    reach = np.abs(np.concatenate([v.ravel(), output.ravel()])).max() or 1.0
    finite = np.abs(scores[np.isfinite(scores)]).max(initial=0) or 1.0

    def plot(values, x, y, most, wide=1.0, row=1.0, share=False, forbidden=None):
        rows, columns = values.shape
        shown = np.ma.masked_invalid(values)
        colours = SHARES if share else SIGNED
        low = 0 if share else -1.25 * most
        edges = x + wide * np.arange(columns + 1), y + row * np.arange(rows + 1)
        axes.pcolormesh(*edges, shown, cmap=colours, vmin=low, vmax=1.25 * most,
                        edgecolor="#dfe3e8", linewidth=0.6)  # fmt: skip
        whole = (values == np.rint(values)).all() and np.isfinite(values).all()
        for (i, j), value in np.ndenumerate(values):
            corner = x + wide * j, y + row * i
            if forbidden is not None and forbidden[i, j]:
                axes.add_patch(Rectangle(corner, wide, row, facecolor="#f1f3f5", hatch="//////",
                                         edgecolor="#b9c0c8", linewidth=0))  # fmt: skip
            if columns <= 10 and rows <= 10:
                text = "−∞" if value == -np.inf else f"{value:.0f}" if whole else f"{value:.2f}"
                text = "0" if value == 0 else text.replace("-0.00", "0.00").replace("-", "−")
                ink = "#a8afb8" if value == 0 and not share else ON_CELL
                if np.isfinite(value) and abs(value) > 0.7 * most and not share:
                    ink = "white"
                axes.text(corner[0] + wide / 2, corner[1] + row / 2, text,
                          ha="center", va="center", fontsize=7 * scale, color=ink)  # fmt: skip

    forbidden = ~np.isfinite(scores)
    plot(q, left["q"], 0, np.abs(q).max() or 1.0, wide_q)
    top = -strip - d_k * tall
    plot(k.T, left["scores"], top, np.abs(k).max() or 1.0, row=tall)
    plot(scores, left["scores"], 0, finite, forbidden=forbidden)
    plot(weights, left["weights"], 0, 1.0, share=True, forbidden=forbidden)
    plot(v, left["output"], -strip - keys, reach, wide_v)
    plot(output, left["output"], 0, reach, wide_v)

    def write(x, y, text, **how):
        how = {
            "fontsize": 8 * scale,
            "color": neutral("soft"),
            "va": "center",
            "parse_math": False,
            **how,
        }
        axes.text(x, y, text, **how)

    def across(x, texts, wide, turned):
        for j, text in enumerate(texts):
            text, place = token_text(text), x + (j + 0.5) * wide
            text = text if len(text) <= 12 else text[:11] + "…"
            write(place, -0.2, text, ha="center", va="bottom", rotation=90 if turned else 0)

    if d_k <= 10:
        across(left["q"], feature_names, wide_q, upright[0])
        for f, text in enumerate(feature_names):
            write(left["scores"] - 0.2, top + (f + 0.5) * tall, token_text(text)[:12], ha="right")
    for x in (left["scores"], left["weights"]):
        across(x, key_tokens, 1, upright[1])
    if d_value <= 10:
        across(left["output"], value_names, wide_v, upright[2])
    for j, text in enumerate(key_tokens):
        where = left["output"] - 0.2, -strip - keys + j + 0.5
        write(*where, token_text(text)[:12], ha="right")
    write(left["weights"] + keys + 0.3, -0.2, "sum", va="bottom")
    for i, (text, total) in enumerate(zip(names, weights.sum(-1), strict=True)):
        for x in (left["q"], left["weights"]):
            write(x - 0.2, i + 0.5, text, ha="right", color=neutral("ink"))
        one = abs(total - 1) < 5e-5
        said = f"{total:.2g}" if f"{total:.2g}" != "1" else f"{total:.4f}"
        write(left["weights"] + keys + 0.3, i + 0.5, "1" if one else f"{said} ≠ 1",
              color=neutral("soft") if one else OKABE_ITO["vermilion"])  # fmt: skip
    bold = {"fontsize": 9, "color": neutral("ink"), "fontweight": "bold"}
    write(left["scores"], top - 0.6, "Kᵀ", **bold)
    write(left["output"], -strip - keys - 0.6, "V", **bold)
    below = {
        "q": "Q",
        "scores": f"scores, ÷ √{d_k}",
        "weights": "weights: softmax",
        "output": "output",
    }
    for name, text in below.items():
        write(left[name], queries + 0.65, text, **bold)
    # two dollars in a title would otherwise start mathematics
    figure.suptitle(title, fontweight="bold", fontsize=11).set_parse_math(False)
    return Picture(figure, title, alt)


def describe(weights, query_tokens, key_tokens, names):
    """Alt text of heatmaps: their size, and where each of the first heads is strongest."""
    heads = len(weights)
    size = f"{len(query_tokens)} queries and {len(key_tokens)} keys"
    strongest = []
    for name, matrix in list(zip(names, weights, strict=True))[:4]:
        q, k = np.unravel_index(np.argmax(np.where(np.isfinite(matrix), matrix, -np.inf)),
                                matrix.shape)  # fmt: skip
        strongest.append(
            f"{name if heads > 1 else 'it'} is strongest from {token_text(query_tokens[q])} to "
            f"{token_text(key_tokens[k])} ({matrix[q, k]:.3g})"
        )
    more = f", and {heads - 4} heads more" if heads > 4 else ""
    return f"{'Heatmap' if heads == 1 else f'{heads} heatmaps'} of attention, {size}: " + (
        f"{'; '.join(strongest)}{more}."
    )


@styled
def lines(
    x,
    series,
    title,
    *,
    x_label,
    y_label,
    alt,
    log_x=False,
    log_y=False,
    level=None,
    markers=True,
    until=None,
    spread=None,
    edge=None,
    from_zero=True,
):
    """Lines over a common axis.

    Args:
        x: the values across.
        series: label -> the values up, one for each of `x`.
        title: the question that the figure answers.
        x_label, y_label: what is measured, with its unit.
        alt: what a reader who cannot see it should know.
        log_x, log_y: logarithmic axes (base 2 across, 10 up).
        level: (value, label) of a horizontal line to compare with.
        markers: whether each value is marked.
        until: where the axis across ends, when that is beyond the last value.
        edge: (x, label) of a vertical line.
        from_zero: whether the axis up starts at 0, where no value is below.
        spread: label -> how far the values of the seeds lie from the line, drawn as a band.

    Returns:
        Picture
    """
    figure, axes = card(size=(6.4, 3.6))
    # told apart without colour too
    dashed = ("-", "--", ":", "-.", (0, (7, 1)), (0, (3, 1, 1, 1, 1, 1)))
    for i, (label, values) in enumerate(series.items()):
        marker, dashes = "os^DvP"[i % 6], dashed[i % 6]
        [line] = axes.plot(
            x, values, linestyle=dashes, marker=marker if markers else None, label=label, ms=5
        )
        if spread and label in spread:
            low, high = (np.asarray(values) + sign * np.asarray(spread[label]) for sign in (-1, 1))
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0)
    if level:
        axes.axhline(level[0], color=neutral("line"), linewidth=1.2, linestyle=(0, (6, 3)))
        # at the end where the lines are farther away
        left, right = (min(abs(v[i] - level[0]) for v in series.values()) for i in (0, -1))
        place, align = (0.01, "left") if left > right else (1, "right")
        *ground, opaque = axes.get_facecolor()  # the label covers the lines, if there is one
        axes.annotate(
            level[1], (place, level[0]), xycoords=("axes fraction", "data"), ha=align,
            va="bottom", xytext=(0, 2), textcoords="offset points", fontsize=9,
            color=neutral("soft"),
            bbox={"facecolor": (*ground, 0.8 * opaque), "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    if edge:
        axes.axvline(edge[0], color=neutral("line"), linewidth=1.2, linestyle=(0, (6, 3)))
        axes.annotate(
            edge[1], (edge[0], 1), xycoords=("data", "axes fraction"), ha="right", va="top",
            xytext=(-4, 0), textcoords="offset points", fontsize=9, color=neutral("soft"),
        )  # fmt: skip
    if log_x:
        axes.set_xscale("log", base=2)
        axes.set_xticks(x, [f"{value:g}" for value in x], minor=False)
    elif np.issubdtype(np.asarray(x).dtype, np.integer):  # there is no step 2.5
        axes.locator_params(axis="x", integer=True)
    if log_y:
        axes.set_yscale("log")
    elif from_zero and min(np.nanmin(values) for values in series.values()) >= 0:
        axes.set_ylim(bottom=0)
    if until:
        axes.set_xlim(0, until)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title)
    if len(series) > 4:  # beside the axes, for there is no corner left inside
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif len(series) > 1:
        axes.legend()
    return Picture(figure, title, alt)


@styled
def bars(names, values, title, *, x_label, y_label, alt):
    """A bar for each name, up or down from zero.

    Args:
        names: what the bars are of.
        values: their heights.
        title: the question that the figure answers.
        x_label, y_label: what the names are, and what is measured, with its unit.
        alt: what a reader who cannot see it should know.

    Returns:
        Picture
    """
    figure, axes = card(size=(6.4, 3.2))
    shown = axes.bar(range(len(names)), values, width=0.7)
    axes.bar_label(shown, [f"{value:+.2f}" for value in values], padding=2, fontsize=8)
    axes.axhline(0, color=neutral("soft"), lw=1)
    axes.margins(y=0.15)
    axes.set_xticks(range(len(names)), names)
    axes.grid(visible=False, axis="x")
    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    return Picture(figure, title, alt)


@styled
def grid(values, title, *, x_label, y_label, colour_label, alt):
    """A colored cell for each number of a matrix.

    Args:
        values: (rows, columns), drawn from the top.
        title: the question that the figure answers.
        x_label, y_label: what columns and rows are.
        colour_label: what is measured, with its unit.
        alt: what a reader who cannot see it should know.

    Returns:
        Picture
    """
    values = np.asarray(values)
    rows, columns = values.shape
    figure, axes = card(size=(6.4, min(1.2 + 4.6 * rows / columns, 4.6)))
    shown = axes.imshow(values, aspect="auto", interpolation="nearest", vmin=min(values.min(), 0))
    axes.grid(visible=False)
    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    bar = figure.colorbar(shown, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label(colour_label, color=neutral("label"), fontsize=9)
    bar.outline.set_visible(False)
    return Picture(figure, title, alt)


@styled
def tensor_difference(yours, expected, title="Where do the two differ?"):
    """Two matrices of the same shape side by side, and their difference.

    Args:
        yours, expected: (rows, columns), CPU tensors or arrays; of large ones the corner that holds
            the greatest difference is shown. NaN and infinities stay visible as grey cells.

    Returns:
        Picture
    """
    yours, expected = (np.asarray(t, dtype=float) for t in (yours, expected))
    if yours.shape != expected.shape or yours.ndim != 2:
        raise ValueError(
            f"yours and expected must be two matrices of one shape, got {yours.shape} and "
            f"{expected.shape}"
        )
    with np.errstate(invalid="ignore"):
        apart = np.where(yours == expected, 0.0, yours - expected)
    row, column = np.unravel_index(np.nan_to_num(np.abs(apart), nan=np.inf).argmax(), apart.shape)
    top, left = max(0, row - 6), max(0, column - 6)
    cut = np.s_[top : top + 12, left : left + 12]
    yours, expected, apart = yours[cut], expected[cut], apart[cut]

    rows, columns = apart.shape
    figure, axes = card(1, 3, (7.2, 0.9 + min(3.0, max(1.1, 2.2 * rows / columns))))
    finite = np.concatenate([yours.ravel(), expected.ravel()])
    finite = finite[np.isfinite(finite)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    gap = np.abs(apart[np.isfinite(apart)]).max(initial=0.0) or 1.0
    panels = {
        "yours": (yours, matplotlib.colormaps["viridis"], low, high),
        "expected": (expected, matplotlib.colormaps["viridis"], low, high),
        "yours − expected": (apart, DIVERGING, -gap, gap),
    }
    for axis, (name, (values, colours, least, most)) in zip(axes, panels.items(), strict=True):
        shown = np.ma.masked_invalid(values)
        axis.imshow(
            shown,
            cmap=colours.with_extremes(bad=MASKED),
            vmin=least,
            vmax=most if most > least else least + 1,
            interpolation="nearest",
            aspect="auto",
        )
        axis.grid(False)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_title(name, fontsize=9, fontweight="normal", loc="left")
        if max(rows, columns) <= 8:
            for (i, j), value in np.ndenumerate(values):
                axis.text(
                    j, i, f"{value:.2g}", ha="center", va="center", fontsize=8, color=ON_CELL,
                    bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1},
                )  # fmt: skip
    figure.suptitle(title, fontweight="bold", fontsize=11)
    most_apart = np.abs(apart[np.isfinite(apart)]).max(initial=0.0)
    alt = (
        f"Three heatmaps, {rows} by {columns}: yours, expected, and their difference, at most "
        f"{most_apart:.3g}; the greatest is at row {row}, column {column}."
    )
    return Picture(figure, title, alt)


class LiveCurve:
    """A loss curve that grows while a model is trained: `fit(…, watch=LiveCurve("…", steps))`.

    Args:
        title: the question that the curve answers.
        steps: how many there will be.
        every: seconds between two drawings.
        held_out: gives the held-out loss; asked at the first step and `times` times more.
        sample: gives a text that shows what the model can do by then; asked together with it.
        times: how often, evenly over the run.
    """

    def __init__(self, title, steps, *, every=1.0, held_out=None, sample=None, times=8):
        self.title, self.steps, self.every = title, steps, every
        self.held_out, self.sample = held_out, sample
        asks = held_out is not None or sample is not None
        self._marks = {1, *(round(steps * (i + 1) / times) for i in range(times))} if asks else ()
        self.found: list[tuple[int, float]] = []  # step, held-out loss
        self.texts: list[tuple[int, str]] = []  # step, sample
        self._drawn, self._handles = 0.0, {}

    def __call__(self, losses):
        """Draw the losses so far, if it is time to; always at the last step."""
        done = len(losses) >= self.steps or not math.isfinite(losses[-1])
        if len(losses) in self._marks and math.isfinite(losses[-1]):
            self._ask(len(losses))
        elif not done and time.monotonic() - self._drawn < self.every:
            return
        began = time.monotonic()
        if done:
            self._put("curve", self.picture(losses))
        else:  # the next one takes its place: SVG is enough
            self._put("curve", drawn_once(lambda: self.picture(losses), LIGHT).html_bundle())
        ended = time.monotonic()  # drawing takes a tenth of the time at most
        self._drawn = ended + max(0.0, 9 * (ended - began) - self.every)

    def _ask(self, step):
        if self.held_out is not None:
            self.found.append((step, float(self.held_out())))
        if self.sample is not None:
            self.texts.append((step, self.sample()))
            lines_ = [f"step {n:>{len(str(self.steps))}}: {text!r}" for n, text in self.texts]
            self._put("texts", {"text/plain": "\n".join(lines_)})

    def picture(self, losses):
        """The curve as it stands: every step, and the mean of the last twentieth of the run."""
        recent = losses[-max(1, self.steps // 20) :]
        said = f"step {len(losses)} of {self.steps}: loss {sum(recent) / len(recent):.2f}"
        shown = [x for x in losses if math.isfinite(x)] or [0.0]
        steps = range(1, len(shown) + 1)
        series = {"loss": shown}
        if self.found:
            said += f", held out {self.found[-1][1]:.2f}"
            measured = np.array(self.found)
            beyond = {"left": math.nan, "right": math.nan}
            series["held-out loss"] = np.interp(steps, *measured.T, **beyond)
        return lines(
            steps,
            series,
            title=self.title,
            x_label=said,
            y_label="loss in nats",
            alt=f"Loss by step, from {shown[0]:.2f} to {shown[-1]:.2f}; {said}.",
            markers=False,
            until=self.steps,
        )

    def _put(self, place, shown):
        """Show it, or show it in place of what was there."""
        from IPython.display import display

        raw = isinstance(shown, dict)
        if place not in self._handles:
            self._handles[place] = display(shown, display_id=True, raw=raw)
        else:
            self._handles[place].update(shown, raw=raw)
