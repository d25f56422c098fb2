"""Drawings and figures in a real Chromium, on pages of all widths, and in a real JupyterLab."""

import base64
import io

import nbformat
import pytest
from PIL import Image

from tests.browser.jupyterlab import serve
from tests.conftest import ROOT
from tfcourse import drawings, figures
from tfcourse.authoring.lesson import names_in

pytest.importorskip("playwright.sync_api")

DRAWN = drawings.every([part.lesson for part in drawings.PARTS])
THERE = names_in(ROOT / "solutions")

FITS = """(root) => {
    const shapes = [...root.querySelectorAll("[class]")];
    const edge = (element) => {
        const { x, y, width, height } = element.getBBox();
        return { left: x, top: y, right: x + width, bottom: y + height };
    };
    const holds = (box, x, y) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
    const texts = shapes.filter((s) => s.localName === "text");
    const wrong = [];
    texts.forEach((text, i) => {
        const box = edge(text), words = text.textContent;
        const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
        const home = shapes.slice(0, shapes.indexOf(text))
            .filter((s) => s.localName === "rect" && holds(edge(s), x, y)).at(-1);
        const room = edge(home), margin = home.classList.contains("card") ? 8 : 2;
        if (box.left < room.left + margin || box.right > room.right - margin
            || box.top < room.top - 1 || box.bottom > room.bottom + 1)
            wrong.push(`"${words}" does not fit`);
        for (const other of texts.slice(i + 1)) {
            const its = edge(other);
            if (its.left < box.right && box.left < its.right
                && its.top + 2 < box.bottom && box.top < its.bottom - 2)
                wrong.push(`"${words}" and "${other.textContent}" overlap`);
        }
        for (const line of shapes.slice(shapes.indexOf(home))) {
            if (line.localName !== "path") continue;
            const length = line.getTotalLength();
            for (let at = 0; at <= length; at += 2) {
                const point = line.getPointAtLength(at);
                if (holds({ ...box, top: box.top + 3, bottom: box.bottom - 3 }, point.x, point.y)) {
                    wrong.push(`a line runs through "${words}"`);
                    break;
                }
            }
        }
    });
    return wrong;
}"""


@pytest.mark.parametrize("font", ["Liberation Sans", "DejaVu Sans", "sans-serif"])
def test_text_keeps_its_place_in_any_font(open_page, font):
    """A narrow font, a wide one, this machine's own: what fits in these fits in a learner's."""
    style = f"<style>text:not([font-family]) {{ font-family: '{font}', sans-serif }}</style>"
    page = open_page(style + "".join(drawing.svg() for drawing in DRAWN.values()), width=900)
    found = page.locator("svg").evaluate_all(f"(all) => all.map({FITS})")
    assert {n: wrong for n, wrong in zip(DRAWN, found, strict=True) if wrong} == {}


def test_the_measure_finds_what_does_not_fit(open_page):
    d = drawings.Drawing(300, 120, "Wrong", "Wrong.")
    d.box(10, 10, 40, 30, "far too long")
    d.text(150, 90, "crossed")
    d.line((100, 90), (200, 90))
    d.text(240, 60, "one")
    d.text(244, 60, "two")
    found = open_page(d.svg()).locator("svg").evaluate(FITS)
    assert '"far too long" does not fit' in found
    assert 'a line runs through "crossed"' in found
    assert '"one" and "two" overlap' in found


def as_image(drawing, scheme=""):
    data = base64.b64encode(drawing.svg().encode()).decode()
    style = f"color-scheme:{scheme}" if scheme else ""
    return (
        f'<div style="{style}"><img style="max-width:100%" src="data:image/svg+xml;base64,{data}">'
    )


def colour_at(locator, x, y):
    image = Image.open(io.BytesIO(locator.screenshot())).convert("RGB")
    return "#{:02x}{:02x}{:02x}".format(*image.getpixel((x, y)))


@pytest.mark.parametrize("width", [420, 800, 1440])
def test_an_image_at_every_width(open_page, width):
    html = '<!doctype html><body style="margin:8px">' + "".join(map(as_image, DRAWN.values()))
    page = open_page(html, width=width)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    shown = page.evaluate(
        "() => [...document.images].map((i) => [i.naturalWidth, i.naturalHeight, i.width, i.height])"
    )
    assert len(shown) == len(DRAWN)
    for (natural, high, wide, tall), drawing in zip(shown, DRAWN.values(), strict=True):
        assert (natural, high) == (drawing.width, drawing.height)
        assert wide == min(natural, width - 16)
        assert tall == pytest.approx(wide * high / natural, abs=1)


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("page_is", ["", "light", "dark"])
def test_the_card_is_light_or_dark_as_the_page_says(open_page, system, page_is):
    """As GitHub does it, whose theme may differ from the system's. Whichever wins, it reads."""
    body = f'<!doctype html><body style="margin:0">{as_image(drawings.gate(), page_is)}'
    page = open_page(body, dark=system == "dark")
    light, _, dark, _ = drawings.COLOURS["card"]
    found = colour_at(page.locator("img"), 30, 200)
    assert found == (dark if (page_is or system) == "dark" else light)


# --- JupyterLab -----------------------------------------------------------------------------------


def figure():
    values = {"loss": [3, 2, 1.5]}
    return figures.lines(
        [1, 2, 3], values, "Does it fall?", x_label="step", y_label="nats", alt="It falls."
    )


@pytest.fixture(scope="module")
def notebook(browser, tmp_path_factory):
    """Lesson 03 with its map, a drawing and a stored figure, beside lesson 04; nothing is run."""
    folder = tmp_path_factory.mktemp("course")
    drawings.write(folder / "drawings", THERE)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for name in ("03_positions", "04_norms"):
        text = drawings.expand(f"# {name}\n\n![](drawings/map.svg)", name, THERE)
        more = drawings.expand("![](drawings/heads.svg)", name, THERE)
        cells = [nbformat.v4.new_markdown_cell(t) for t in (text, more)]
        data, metadata = figure()._repr_mimebundle_()
        output = nbformat.v4.new_output("display_data", data, metadata=metadata)
        cells.append(nbformat.v4.new_code_cell("figure", outputs=[output]))
        nbformat.write(
            nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}),
            folder / f"{name}.ipynb",
        )
    with serve(folder, tmp_path_factory.mktemp("server")) as lab:
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        yield lab.open(context, "03_positions.ipynb")
        context.close()


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_lesson_shows_its_map_without_a_kernel(notebook, theme):
    notebook.theme(f"JupyterLab {theme}")
    shown = notebook.page.locator(".jp-RenderedMarkdown img")
    shown.nth(1).wait_for()
    notebook.page.wait_for_function(
        "() => [...document.querySelectorAll('.jp-RenderedMarkdown img')].every((i) => i.complete)"
    )
    found = shown.evaluate_all("(all) => all.map((i) => [i.alt, i.naturalWidth, i.width > 400])")
    here = drawings.transformer_map(THERE, "03_positions")
    assert found == [[here.alt, here.width, True], [drawings.heads().alt, 720, True]]
    # as the theme, not as the system: that is light
    assert settled(notebook.page, shown.first, (8, 150), theme) == card_in(theme)
    assert notebook.troubles == []


def card_in(theme):
    light, _, dark, _ = drawings.COLOURS["card"]
    return dark if theme == "Dark" else light


def settled(page, locator, place, theme):
    """The colour there; JupyterLab fades from one theme to the other."""
    for _ in range(50):
        found = colour_at(locator, *place)
        if found == card_in(theme):
            break
        page.wait_for_timeout(100)
    return found


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_stored_figure_follows_the_theme(notebook, theme):
    """Also in a notebook that JupyterLab does not trust, for nothing in it was run."""
    notebook.theme(f"JupyterLab {theme}")
    shown = notebook.page.locator(".jp-OutputArea img[alt='It falls.']")
    shown.wait_for()
    assert settled(notebook.page, shown, (300, 3), theme) == card_in(theme)


def test_a_link_leads_to_the_neighbour(notebook):
    notebook.page.locator(".jp-RenderedMarkdown a", has_text="04 Norm").first.click()
    notebook.page.wait_for_function(
        "() => jupyterapp.shell.currentWidget?.context?.path === '04_norms.ipynb'"
    )
    assert notebook.troubles == []
