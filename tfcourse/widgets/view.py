"""What every interactive view is: one small ES module, shown by one of two hosts.

A view's module stands beside its Python class and keeps anywidget's contract,
`export default { render({ model, el }) }`. By default it is shown in one self-contained HTML
output that needs no kernel and no network; `.widget()` gives the same module as an anywidget.
"""

import base64
import functools
import html
import json
import zlib
from importlib.resources import files
from pathlib import Path

import numpy as np

from tfcourse.figures import EITHER, drawn_once, in_words

LIMIT = 200_000  # bytes of deflated data: more than that is not stored in a notebook


class View:
    """An interactive view with its static picture and its words.

    A subclass names its `module`, draws the picture in `draw()`, and hands over the data.

    Args:
        state: what the module reads as `model.get("state")`; anything that JSON can hold.
        arrays: what it reads by `await unpack(model)`: a dict of arrays, floats or booleans.
        title: the question that the view answers.
        alt: the view in words, for those who cannot see it and for readers of the raw notebook.
    """

    module = ""  # "attention_map" for attention_map.js beside this file
    limit = LIMIT

    def __init__(self, state, arrays=None, *, title, alt):
        check_text("title", title)
        check_text("alt", alt)
        self.title, self.alt = title, alt
        blocks, self.data = pack(arrays or {})
        self.state = {**state, "title": title, "alt": alt, "blocks": blocks}
        self._deflated = zlib.compress(self.data, 9) if self.data else b""
        self._widget = None

    def draw(self):
        """The static picture, a `tfcourse.figures.Picture`."""
        raise NotImplementedError

    @functools.cached_property
    def picture(self):
        """The static picture: what is shown wherever the module cannot run."""
        return drawn_once(self.draw, EITHER)

    @property
    def text(self):
        """The view in words, the same in every run."""
        return in_words(self.title, self.alt)

    def __repr__(self):
        return self.text

    def html(self):
        """A self-contained fragment: the picture, and the script that brings it to life."""
        source = json.dumps(module_source(self.module))
        values = {"state": self.state, "data": base64.b64encode(self._deflated).decode()}
        script = LOADER.replace("$SOURCE", escape_script(source))
        script = script.replace("$VALUES", escape_script(json.dumps(values)))
        return (
            '<figure class="tfcourse-view" style="margin:0">'
            f"{self.fallback()}<script>{script}</script></figure>"
        )

    def fallback(self):
        """One element of HTML that stands where the module cannot run: the picture."""
        return self.picture.image(svg=False)

    def widget(self):
        """The same view as an anywidget; its `chosen` trait holds what the learner picked."""
        if self._widget is None:
            self._widget = widget_class(self.module)(self.text, self.state, self.data)
        return self._widget

    def save(self, path):
        """Write the picture to `path`, or the live view when `path` ends in `.html`."""
        path = Path(path)
        if path.suffix == ".html":
            page = f"{PAGE.replace('$TITLE', html.escape(self.title))}{self.html()}\n"
            path.write_text(page, encoding="utf-8")
        elif path.suffix == ".png":
            self.picture.save(path)
        else:
            raise ValueError(f"path must end in .png or .html, got {path.name!r}")

    def _repr_mimebundle_(self, include=None, exclude=None):
        data, metadata = self.picture.png_bundle()
        data["text/plain"] = self.text
        if len(self._deflated) <= self.limit:
            data["text/html"] = self.html()
        else:
            shown = self.widget()._repr_mimebundle_()
            shown = shown[0] if isinstance(shown, tuple) else shown
            data[WIDGET_VIEW] = shown[WIDGET_VIEW]
        return data, metadata


WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>$TITLE</title>
"""

# Runs where the output is put: finds its own figure, and puts the live view in place of the
# picture. Should anything fail, the picture stays.
LOADER = """(async () => {
  const script = document.currentScript;
  const figure = script?.closest("figure")
    ?? document.querySelector("figure.tfcourse-view:not([data-alive])");
  if (!figure || figure.dataset.alive) return;
  figure.dataset.alive = "yes";
  const values = { ...$VALUES, figure };
  const model = {
    get: (name) => values[name],
    set: (name, value) => { values[name] = value; },
    save_changes() {}, on() {}, off() {},
  };
  const url = URL.createObjectURL(new Blob([$SOURCE], { type: "text/javascript" }));
  const el = document.createElement("div");
  try {
    const { default: view } = await import(url);
    await view.render({ model, el });
    figure.firstElementChild.replaceWith(el);
  } catch (error) {
    console.error(error);
  } finally {
    URL.revokeObjectURL(url);
  }
})()"""


def escape_script(text):
    """JSON that cannot end the script it stands in, nor open a comment there."""
    return text.replace("<", "\\u003c")


@functools.cache
def module_source(name):
    """The ES module of a view: the shared helpers, then its own text."""
    here = files("tfcourse.widgets")
    return "\n".join(
        here.joinpath(f"{part}.js").read_text(encoding="utf-8") for part in ("shared", name)
    )


@functools.cache
def widget_class(module):
    """The anywidget class of a module; anywidget is imported only here."""
    import anywidget
    import traitlets

    class ViewWidget(anywidget.AnyWidget):
        _esm = module_source(module)
        state = traitlets.Dict().tag(sync=True)
        data = traitlets.Bytes().tag(sync=True)
        chosen = traitlets.Dict().tag(sync=True)

        def __init__(self, text, state, data):
            self._text = text
            super().__init__(state=state, data=data)

        def __repr__(self):  # ipywidgets' own prints the widget's address
            return self._text

    ViewWidget.__name__ = f"View_{module}"  # anywidget tells classes apart by it
    return ViewWidget


def pack(arrays):
    """Lay arrays end to end: `(descriptions, bytes)` for `unpack` in shared.js.

    Booleans go as bytes, float32 and half floats as they are, other numbers as half floats times a
    power of two (see `halves`). Every block starts at a multiple of four.
    """
    blocks, parts, offset = {}, [], 0
    for name, array in arrays.items():
        if array.dtype == bool:
            values, scale, kind = array.astype(np.uint8), 1.0, "bool"
        elif array.dtype == np.float32:  # where two that are nearly equal must not become equal
            values, scale, kind = array, 1.0, "single"
        elif array.dtype == np.float16:
            values, scale, kind = array, 1.0, "half"
        else:
            (values, scale), kind = halves(array), "half"
        part = values.tobytes()
        blocks[name] = {"kind": kind, "shape": list(array.shape), "scale": scale, "offset": offset}
        part += bytes(-len(part) % 4)
        parts.append(part)
        offset += len(part)
    return blocks, b"".join(parts)


def halves(array):
    """Half floats of `array / scale` that read the same to three significant digits.

    The nearest half float may fall on the other side of where the third digit is rounded; there
    the neighbour is taken. `scale`, a power of two, brings the greatest number to 2^14, so that
    small numbers keep their digits as well (down to 10^-8 of the greatest).
    """
    array = np.asarray(array, dtype=np.float64)
    greatest = np.abs(array[np.isfinite(array)]).max(initial=0)
    scale = 2.0 ** (np.floor(np.log2(greatest)) - 14) if greatest else 1.0
    half = (array / scale).astype(np.float16)
    wrong = three_digits(half * np.float64(scale)) != three_digits(array)
    if wrong.any():
        toward = np.where(array[wrong] > half[wrong] * scale, np.inf, -np.inf).astype(np.float16)
        half[wrong] = np.nextafter(half[wrong], toward)
    return half, float(scale)


def three_digits(array):
    """`array` rounded to three significant digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(array))) - 2)
        rounded = np.rint(array / unit) * unit
    return np.where(np.isfinite(rounded), rounded, array)


def numbers(name, value):
    """`value`, a tensor or anything numpy reads, as a float64 array; wrong input is named."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.double().numpy() if value.dtype.is_floating_point else value.numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a regular array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold real numbers, got {array.dtype} ({type(value).__name__})"
        )
    return array.astype(np.float64)


def booleans(name, value):
    """`value` as a boolean array; 0/1 and additive masks are refused, not guessed at."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy() if "bool" in str(value.dtype) else value
    array = np.asarray(value)
    if array.dtype != bool:
        raise TypeError(f"{name} must be boolean (True = may attend), got {array.dtype}")
    return array


def check_whole(name, value, low, high):
    """Raise unless `value` is an int from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be between {low} and {high}, got {value}")


def check_number(name, value):
    """Raise unless `value` is a number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")


def check_text(name, value):
    """Raise unless `value` is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")


def check_tokens(name, tokens):
    """`tokens` as a list of strings; one string is refused, for it would fall into letters."""
    if isinstance(tokens, str):
        raise TypeError(f"{name} must be a sequence of strings, got one string; split it first")
    try:
        tokens = list(tokens)
    except TypeError:
        raise TypeError(
            f"{name} must be a sequence of strings, got {type(tokens).__name__}"
        ) from None
    for i, token in enumerate(tokens):
        if not isinstance(token, str):
            raise TypeError(f"{name}[{i}] must be a string, got {type(token).__name__}")
    if not tokens:
        raise ValueError(f"{name} must hold at least one token, got none")
    return tokens
