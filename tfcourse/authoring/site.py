"""`make site`: the whole course as static pages in build/site/, alive without a kernel.

The lessons are run as `tfcourse build` runs them, but here the views stay alive. What answers a
prediction waits behind a click, and so do the three hints of each exercise. docs/site/ says how
Sphinx makes pages of it. No page asks another host for anything.
"""

from __future__ import annotations

import argparse
import copy
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from string import Template

import nbformat
from nbformat import NotebookNode

from tfcourse import drawings
from tfcourse.authoring import build as building
from tfcourse.authoring.leaks import find_leaks
from tfcourse.authoring.lesson import GLOSSARY, Lesson, LessonError
from tfcourse.authoring.predictions import TAG
from tfcourse.checks import find_exercise
from tfcourse.widgets.question import inline_code

LARGEST = 2_000_000  # bytes of a page
SHOWN = ("text/html", "image/png", "text/plain")  # of an output, the first that it has
NOTE = (
    "*Reading along? Pictures and questions on this page are alive, and what came out of a cell is "
    "shown below it. To run the cells and to write the exercises, "
    "[take the course to your machine](index.md#Work-through-it).*"
)


def build(root: Path, names: Sequence[str] = (), say=print) -> Path:
    """Run the lessons and make pages of them; the folder with the pages.

    Raises:
        LessonError: a cell raised, a link leads nowhere, or a page is not fit to be published.
    """
    if not all(find_spec(package) for package in ("furo", "latex2mathml", "myst_nb", "ziamath")):
        raise LessonError("What makes the pages is missing: pip install -e '.[site]'")
    lessons = building.find_lessons(root, names)
    there = [lesson.name for lesson in lessons]
    pages, site = root / "build" / "pages", root / "build" / "site"
    for folder in (pages, site):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "docs" / "site", pages)
    (pages / "index.md").write_text(front_page(root, there), encoding="utf-8")
    (pages / "static" / "drawings.css").write_text(dark_drawings(), encoding="utf-8")
    private = {str(root), str(Path.home()), tempfile.gettempdir()} - {"/"}
    for lesson in [*lessons, *building.find_glossary(root)]:
        say(f"{lesson.name} …", end=" ", flush=True)
        notebook = lesson.learners()
        seconds = building.run(notebook, root / "notebooks", lesson.name)
        building.clean(copy.deepcopy(notebook), lesson.name, private)  # may all of it be shown?
        nbformat.write(page(notebook, there), pages / f"{lesson.name}.ipynb")
        say(f"ran in {seconds:.0f} s")
    _sphinx(pages, site, root / "build" / "doctrees")
    write_math_font(site)
    said = problems(site, lessons)
    if said:
        raise LessonError("\n".join(said))
    return site


def _sphinx(source: Path, target: Path, cache: Path) -> None:
    shutil.rmtree(cache, ignore_errors=True)
    options = ["-b", "html", "-q", "-W", "--keep-going", "-d", cache]
    ran = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, source, target],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise LessonError(f"Sphinx did not make the pages. It says:\n{ran.stdout}{ran.stderr}")


def write_math_font(site: Path) -> None:
    """Write the part of STIX Two Math that the formulas of the pages need, about 50 kB of 1.5 MB.

    Without a font made for mathematics a browser draws sums and roots too small.
    """
    from fontTools import subset

    texts = [path.read_text(encoding="utf-8") for path in site.glob("*.html")]
    formulas = re.findall(r"<math.*?</math>", "".join(texts), re.DOTALL)
    used = set(html.unescape(re.sub(r"<[^>]+>", "", "".join(formulas))))
    # A browser takes the italic forms of letters, Latin and Greek, from a block of their own.
    codes = {*map(ord, used), 0x210E, *range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C)}
    options = subset.Options(flavor="woff", hinting=False, layout_features=["ssty", "dtls"])
    options.name_IDs = [0, 1, 2, 13, 14]  # who made it, and its licence
    [whole] = Path(find_spec("ziamath").submodule_search_locations[0], "fonts").glob("STIXTwo*.ttf")
    font = subset.load_font(str(whole), options)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=codes)
    cut.subset(font)
    subset.save_font(font, str(site / "_static" / "math.woff"), options)


# --- what goes onto a page ------------------------------------------------------------------------


def page(notebook: NotebookNode, there: Collection[str]) -> NotebookNode:
    """A notebook that was run, as a page shows it.

    Args:
        there: the names of the lessons that are pages too: links to others become text.
    """
    cells = []
    for cell in notebook.cells:
        if cells:  # the progress board leads to cells, as JupyterLab knows them
            cells.append(_markdown(f'<div id="cell-id={cell.id}"></div>'))
        if cell.cell_type == "markdown":
            cell.source = _linked(_drawn(cell.source, there), there)
        else:
            cell.outputs = [_shown(output, there) for output in cell.get("outputs", [])]
            if TAG in cell.metadata.get("tags", []):
                cell.metadata.tags.append("hide-output")
        cells.append(cell)
        if name := cell.metadata.get("check"):
            cells.append(_markdown(hints(find_exercise(name).hints)))
    first = next((i for i, cell in enumerate(cells) if cell.cell_type == "code"), None)
    if first is not None:
        cells.insert(first, _markdown(NOTE))
    return nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": notebook.metadata.kernelspec}
    )


def _markdown(text: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(text)


def _shown(output: NotebookNode, there: Collection[str]) -> NotebookNode:
    """The output in one form, its links to lessons turned into links to their pages."""
    if "data" not in output:
        return output
    kind = next(kind for kind in SHOWN if kind in output.data)
    shown = output.data[kind]
    if kind == "text/html":

        def link(found):
            return f'href="{found[1]}.html{found[2]}"' if found[1] in there else ""

        shown = re.sub(r'href="(\d\d_\w+)\.ipynb([^"]*)"', link, shown)
    return nbformat.v4.new_output(output.output_type, {kind: shown})


def _linked(text: str, there: Collection[str]) -> str:
    """Markdown in which a link to a lesson that is no page is only its words.

    A link into the glossary leads to a cell, for JupyterLab; on a page it leads to its heading.
    """

    def link(found):
        return found[0] if found[2] in there else found[1]

    text = text.replace(f"{GLOSSARY}.ipynb#cell-id=", f"{GLOSSARY}.ipynb#")
    return re.sub(r"\[([^\]]*)\]\((\d\d_\w+)\.ipynb[^)]*\)", link, text)


def hints(texts: Sequence[str]) -> str:
    """Hints, each behind a click, the next within the one before."""
    inner = ""
    for i, text in reversed(list(enumerate(texts, 1))):
        inner = (
            f'<details class="hint"><summary>Hint {i} of {len(texts)}</summary>'
            f"<p>{' '.join(inline_code(text).split())}</p>{inner}</details>"
        )
    return inner


# --- drawings: in the text of a page they follow its theme, and can have links --------------------


def front_page(root: Path, there: Sequence[str]) -> str:
    """docs/site/index.md with the map, the README's table of lessons, and where to get the course.

    Raises:
        LessonError: the README has no table below its heading "Lessons".
    """
    readme = (root / "README.md").read_text(encoding="utf-8")
    table = re.search(r"^## Lessons\n(?:(?!## ).*\n)*?((?:\|.*\n)+)", readme, re.MULTILINE)
    if not table:
        raise LessonError('README.md: no table stands below the heading "## Lessons".')
    host, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return Template((root / "docs" / "site" / "index.md").read_text(encoding="utf-8")).substitute(
        map=drawing(drawings.transformer_map(there), there),
        lessons=_linked(table[1].replace("](notebooks/", "]("), there),
        names="\n".join([*there, *(page.name for page in building.find_glossary(root))]),
        repository=f"[its repository]({host}/{name})" if name else "its repository",
    )


def _drawn(text: str, there: Collection[str]) -> str:
    """Markdown with its drawings in place of the links to their files."""
    known = drawings.every(there)

    def drawn(found):
        return drawing(known[found[1]], there) if found[1] in known else found[0]

    return re.sub(r"!\[[^\]]*\]\(drawings/(\w+)\.svg\)", drawn, text)


def drawing(drawn: drawings.Drawing, there: Collection[str]) -> str:
    """A drawing as HTML; where it is the map, each part leads to its lesson."""
    pages, parts = {name[:2]: name for name in there}, iter(drawn.parts)
    svg = []
    for part in parts:
        box = [part]
        if part.startswith("<rect"):
            box += [label for label in [next(parts, None)] if label]
        said = re.fullmatch(r"<text.*>(\d\d)(?: [^<]*)?</text>", box[-1])
        if said and said[1] in pages:
            if box[-1].endswith(f">{said[1]}</text>"):  # the number stands above the words
                box.append(next(parts))
            words = ", ".join(re.findall(r">([^<]+)</text>", "".join(box)))
            svg += [f'<a href="{pages[said[1]]}.html" aria-label="{words}">', *box, "</a>"]
        else:
            svg += box
    role = "group" if any(x.startswith("<a ") for x in svg) else "img"
    return (
        f'<figure class="drawing"><svg viewBox="0 0 {drawn.width} {drawn.height}" role="{role}" '
        f'aria-label="{html.escape(drawn.alt)}" width="{drawn.width}" fill="none" '
        f'stroke-linejoin="round" font-family="{drawings.SANS}">\n'
        + "\n".join(svg)
        + "\n</svg></figure>"
    )


def dark_drawings() -> str:
    """The colours of drawings on a dark page, as CSS; figures are images, and hear of a scheme."""

    def rules(page):
        return "\n".join(f"{page} .drawing .{name} {{{x}}}" for name, x in drawings.DARK.items())

    chosen, preferred = 'body[data-theme="dark"]', 'body:not([data-theme="light"])'
    themes = ("light", "dark")
    schemes = "\n".join(f'body[data-theme="{x}"] {{ color-scheme: {x}; }}' for x in themes)
    return (
        f"{schemes}\n{rules(chosen)}\n"
        f"@media (prefers-color-scheme: dark) {{\n{rules(preferred)}\n}}\n"
    )


# --- is it fit to be published? -------------------------------------------------------------------


class _Page(HTMLParser):
    """Of a page: its text, scripts and all; the ids in it, its links, and what it loads."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.links, self.loads, self.parts = set(), [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = "".join(self.parts)

    def handle_data(self, data):
        self.parts.append(data)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a":
            self.links += filter(None, [found.get("href")])
        else:
            self.loads += [found[x] for x in ("src", "href", "srcset", "data") if found.get(x)]


def problems(site: Path, lessons: Sequence[Lesson]) -> list[str]:
    """Sentences on all that forbids publishing: size, another host, a dead link, a solution."""
    paths = {path.name: path for path in sorted(site.glob("*.html"))}
    pages = {name: _Page(path) for name, path in paths.items()}
    said = []
    for name, page_ in pages.items():
        size = paths[name].stat().st_size
        if size > LARGEST:
            said.append(f"{name}: {size:,} bytes, more than {LARGEST:,}.")
        for address in page_.loads:
            if re.match(r"(https?:)?//", address):
                said.append(f"{name}: loads {address} from another host.")
        for link in page_.links:
            target, _, place = link.partition("#")
            if re.match(r"\w+:", target):
                continue
            if target and target not in pages:
                said.append(f"{name}: a link leads to {target}, which is no page.")
            elif place and place not in pages[target or name].ids:
                said.append(f"{name}: no such place as {link}. Is notebooks/ fresh? tfcourse build")
    return said + _leaks({name: page_.text for name, page_ in pages.items()}, lessons)


def _leaks(texts: dict[str, str], lessons: Sequence[Lesson]) -> list[str]:
    """The pages that hold a graded solution, found as in the notebooks."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "notebooks").mkdir()
        for name, text in texts.items():
            path = Path(folder) / "notebooks" / f"{name}.ipynb"
            path.write_text(json.dumps({"cells": [{"source": text}]}), encoding="utf-8")
        return [
            x.replace("notebooks/", "").replace(".ipynb", "")
            for x in find_leaks(list(lessons), Path(folder))
        ]


def main(arguments: list[str] | None = None) -> int:
    """Make the pages of all lessons, or of those named."""
    parser = argparse.ArgumentParser(prog="python -m tfcourse.authoring.site")
    parser.add_argument("names", nargs="*", metavar="NAME", help="01 or 01_attention; default: all")
    try:
        site = build(building.find_root(), parser.parse_args(arguments).names)
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The pages are in {site}. Open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
