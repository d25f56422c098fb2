"""What goes onto a published page, and what keeps a page from being published."""

import tomllib

import nbformat
import pytest
from packaging.requirements import Requirement

from tfcourse import drawings
from tfcourse.authoring import site
from tfcourse.authoring.build import find_lessons
from tfcourse.authoring.lesson import LessonError

THERE = ["00_start_here", "01_attention"]


def made_page(*cells, there=THERE):
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = nbformat.v4.new_notebook(cells=list(cells), metadata={"kernelspec": kernel})
    made = site.page(notebook, there)
    nbformat.validate(made)
    return made.cells


def code(source="pass", outputs=(), **metadata):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs), metadata=metadata)


def test_an_output_is_there_once_and_its_links_lead_to_pages():
    bundle = {
        "text/html": '<a href="01_attention.ipynb#cell-id=a">1</a><a href="12_scale.ipynb">12</a>',
        "image/png": "AAAA",
        "application/vnd.jupyter.widget-view+json": {"model_id": "gone"},
        "text/plain": "words",
    }
    live = nbformat.v4.new_output("display_data", bundle, metadata={"image/png": {"width": 1}})
    bundle = {kind: bundle[kind] for kind in bundle if kind != "text/html"}
    still = nbformat.v4.new_output("display_data", bundle)
    said = nbformat.v4.new_output("stream", text="said")
    [_, cell] = made_page(code(outputs=[live, still, said]))
    assert cell.outputs[0].data == {
        "text/html": '<a href="01_attention.html#cell-id=a">1</a><a >12</a>'
    }
    assert cell.outputs[1].data == {"image/png": "AAAA"}
    assert cell.outputs[2] == said


def test_links_to_lessons_that_are_no_pages_become_words():
    text = (
        "[one](01_attention.ipynb#x), [two](12_scale.ipynb), [three](https://example.org/a.ipynb)"
    )
    [cell, *_] = made_page(nbformat.v4.new_markdown_cell(text))
    assert cell.source == ("[one](01_attention.ipynb#x), two, [three](https://example.org/a.ipynb)")


def test_a_link_into_the_glossary_leads_to_a_heading():
    """In JupyterLab it leads to a cell."""
    text = "[the cache](glossary.ipynb#cell-id=KV-cache), [one](01_attention.ipynb#cell-id=x)"
    [cell] = made_page(nbformat.v4.new_markdown_cell(text))
    assert cell.source == text.replace("cell-id=KV", "KV")


def test_the_output_after_a_prediction_is_hidden():
    cells = made_page(code(tags=["after-prediction"]), code("1", tags=["other"]))
    assert [c.metadata.tags for c in cells if c.cell_type == "code"] == [
        ["after-prediction", "hide-output"],
        ["other"],
    ]


def test_every_check_is_followed_by_its_hints_and_every_cell_can_be_led_to():
    check = code("similarities = check(similarities)", check="similarities")
    cells = made_page(code(), check)
    assert cells[0].source == site.NOTE
    assert cells[2].source == f'<div id="cell-id={check.id}"></div>'
    assert cells[3].id == check.id
    assert cells[4].source.count("<details") == 3


def test_hints_are_text_and_nested():
    said = site.hints(["first `a < b`", "second", "third"])
    assert said.startswith(
        '<details class="hint"><summary>Hint 1 of 3</summary><p>first <code>a &lt; b</code></p>'
        '<details class="hint"><summary>Hint 2 of 3</summary>'
    )
    assert said.endswith("<p>third</p></details></details></details>")
    assert "\n" not in said  # a blank line would end the HTML in Markdown


def test_the_map_has_a_link_for_every_lesson_and_for_no_other(root):
    every = [part.lesson for part in drawings.PARTS]
    for there in (every, THERE):
        shown = site.drawing(drawings.transformer_map(there), there)
        assert {name for name in every if f'href="{name}.html"' in shown} == set(there)
        assert shown.count("<a ") == shown.count("</a>") >= len(there)
    [after] = [part for part in shown.split("<a ") if part.startswith('href="01')]
    assert after.split(">")[0].endswith('aria-label="01, attention"')
    assert after.split("</a>")[0].count("<text") == 2


def test_a_drawing_on_a_page_keeps_its_parts_and_its_words():
    heads = drawings.DRAWINGS["heads"]()
    [cell, *_] = made_page(nbformat.v4.new_markdown_cell("![words](drawings/heads.svg)\n\nafter"))
    assert cell.source.endswith("</figure>\n\nafter")
    assert "\n\n" not in cell.source.removesuffix("\n\nafter")
    assert all(part in cell.source for part in heads.parts)
    assert 'role="img"' in cell.source
    assert heads.alt.split(".")[0] in cell.source
    assert "prefers-color-scheme" not in cell.source  # the page's theme decides


def test_every_colour_of_a_drawing_has_a_dark_one():
    css = site.dark_drawings()
    for name, look in drawings.DARK.items():
        assert css.count(f".drawing .{name} {{{look}}}") == 2


def test_the_front_page_has_the_map_the_lessons_and_the_way_to_the_course(root, monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    there = [lesson.name for lesson in find_lessons(root)]
    front = site.front_page(root, there)
    for name in there:
        assert f"({name}.ipynb)" in front
        assert f'href="{name}.html"' in front
        assert f"\n{name}\n" in front
    assert "Get its repository, and" in front
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.org")
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/course")
    assert "[its repository](https://example.org/someone/course)" in site.front_page(root, there)


def test_a_readme_without_the_table_is_told(root, tmp_path):
    (tmp_path / "README.md").write_text("## Lessons\n\nNone.\n\n## Else\n\n| a |\n|---|\n")
    with pytest.raises(LessonError, match="no table"):
        site.front_page(tmp_path, THERE)


FRAGMENT = "<p>fine</p>"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (FRAGMENT, None),
        ('<a href="b.html#there">b</a> <a href="https://example.org">out</a>', None),
        ('<a href="c.html">c</a>', "a link leads to c.html, which is no page"),
        ('<a href="b.html#gone">b</a>', "no such place as b.html#gone"),
        ('<a href="#gone">b</a>', "no such place as #gone"),
        ('<script src="https://cdn.example.org/x.js"></script>', "from another host"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "from another host"),
        ('<img src="http://example.org/x.png">', "from another host"),
        ("<p>" + "x" * 2_000_000 + "</p>", "more than 2,000,000"),
    ],
)
def test_what_keeps_a_page_from_being_published(tmp_path, body, told):
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h2 id="there">here</h2>')
    said = site.problems(tmp_path, [])
    assert len(said) == (told is not None)
    assert all(told in sentence and sentence.startswith("a.html") for sentence in said)


def test_a_solution_in_a_page_is_found_between_the_spans_of_its_colours(root, tmp_path):
    lessons = find_lessons(root, ["00"])
    solution = next(iter(lessons[0].solutions().values()))
    coloured = "".join(f"<span>{c}</span>" if c.isalpha() else c for c in solution)
    for name, text in (("code", coloured), ("script", f"<script>{solution}</script>")):
        (tmp_path / f"{name}.html").write_text(f"<pre>{text}</pre>", encoding="utf-8")
    (tmp_path / "clean.html").write_text(FRAGMENT)
    said = site.problems(tmp_path, lessons)
    assert [sentence.split(":")[0] for sentence in said] == ["code.html", "script.html"]


def test_what_makes_pages_is_in_the_lock_and_not_in_the_learners_environment(root):
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lock if line and not line.startswith("#")]
    everyday = {Requirement(text).name for text in project["dependencies"]}
    for wanted in map(Requirement, project["optional-dependencies"]["site"]):
        versions = [str(p.specifier)[2:] for p in pins if p.name == wanted.name]
        assert versions
        assert all(wanted.specifier.contains(version) for version in versions)
        assert wanted.name not in everyday
