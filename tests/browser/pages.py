"""A real Chromium, and pages with a view on them: as an output holds it, or as a widget does."""

import base64
import json
import shutil
from pathlib import Path

import pytest

from tfcourse.widgets.view import module_source

FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync""".split()

# A model as anywidget gives it: data as bytes, at an odd place in a larger buffer.
SHIM = """
const source = $SOURCE;
const packed = Uint8Array.from(atob($DATA), (c) => c.charCodeAt(0));
const larger = new Uint8Array(packed.length + 3);
larger.set(packed, 3);
const values = { state: $STATE, data: new DataView(larger.buffer, 3, packed.length) };
const model = {
  get: (name) => values[name], set: (name, value) => { values[name] = value; },
  save_changes() { window.saved = { ...values, data: undefined, state: undefined }; }, on() {}, off() {},
};
const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
import(url).then(({ default: view }) => view.render({ model, el: document.getElementById("here") }));
"""


def find_chromium():
    """The path of a Chromium or Chrome on this machine, the lightest first, or None."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    names += ("google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def chromium(playwright):
    """Launch it."""
    return playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)


class NotDrawn:
    """In place of a view's picture where the live view takes its place at once."""

    def image(self, *, svg):
        return '<img alt="">'


def page_of(views, *, host="html", dark=False, script=True):
    """HTML of a page with the views on it.

    host "html" is the self-contained output, as nbconvert would write it, but for the picture,
    which takes longest to make; "module" the module with a model as anywidget's. `script=False`
    leaves scripts out, as an untrusted notebook does; then the picture is there.
    """
    if host == "html":
        with pytest.MonkeyPatch.context() as patch:
            for view in views if script else ():
                patch.setitem(vars(view), "picture", NotDrawn())
            body = "\n".join(f"<div>{view.html()}</div>" for view in views)
        if not script:
            body = body.replace("<script>", "<template>").replace("</script>", "</template>")
    else:
        [view] = views
        filled = SHIM
        for name, value in (
            ("$SOURCE", module_source(view.module)),
            ("$DATA", base64.b64encode(view.data).decode()),
            ("$STATE", view.state),
        ):
            filled = filled.replace(name, json.dumps(value).replace("<", "\\u003c"), 1)
        body = f'<div id="here"></div><script>{filled}</script>'
    colour = "#111111" if dark else "#ffffff"
    return (
        '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f'<body style="margin:8px;background:{colour}">{body}</body>'
    )


def settled(page):
    """Wait until what was asked for has been drawn: views draw once in a frame."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def write_page(folder, html):
    """Write the page and give its address on this machine."""
    path = Path(folder) / "page.html"
    path.write_text(html, encoding="utf-8")
    return path.as_uri()
