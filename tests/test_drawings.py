"""The drawings: can they be read in both themes, do they say what they show, are they fresh."""

import re
import shutil
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from tests.conftest import ROOT
from tfcourse import drawings
from tfcourse.authoring import build as building
from tfcourse.authoring.lesson import Lesson, LessonError, names_in

SVG = "{http://www.w3.org/2000/svg}"
ALL = [part.lesson for part in drawings.PARTS]
THERE = names_in(ROOT / "solutions")
# A map of today and, for each part, one of the finished course.
DRAWN = drawings.every(ALL) | {f"today {n}": d for n, d in drawings.every(THERE).items()}
EACH = pytest.mark.parametrize("name", DRAWN)


def elements(drawing):
    """The elements of the file, as a reader of XML finds them."""
    return list(ET.fromstring(drawing.svg().encode()))


def texts(drawing):
    return [e.text for e in elements(drawing) if e.tag == SVG + "text"]


def number(element, name):
    return float(element.get(name))


def tiles(drawing):
    """How many small squares of each colour there are."""
    found = Counter()
    for element in elements(drawing):
        if element.get("class", "").startswith("tile-"):
            found[element.get("class")[5:]] += element.get("d").count("M")
    return found


# --- a file that any reader shows ---------------------------------------------------------------


@EACH
def test_the_file_holds_shapes_and_text_alone(name):
    """Nothing that GitHub or JupyterLab strips, and nothing that is fetched."""
    root = ET.fromstring(DRAWN[name].svg().encode())
    assert {e.tag.removeprefix(SVG) for e in root.iter()} == {
        *("svg", "title", "desc", "style", "rect", "text"),
        *(kind for kind in ("path", "circle") if f"<{kind}" in DRAWN[name].svg()),
    }
    assert not re.search(r"href|url\(|@import|@font-face|\bon\w+=|<!", DRAWN[name].svg())
    width, height = DRAWN[name].width, DRAWN[name].height
    assert (root.get("width"), root.get("height")) == (f"{width}", f"{height}")
    assert root.get("viewBox") == f"0 0 {width} {height}"


@EACH
def test_it_is_text_that_git_can_compare(name):
    again = (drawings.every(THERE) if "today" in name else drawings.every(ALL))[name.split()[-1]]
    svg = DRAWN[name].svg()
    assert again.svg() == svg
    assert svg.endswith("</svg>\n")
    assert len(svg.splitlines()) >= len(elements(DRAWN[name]))  # one element a line
    assert len(svg) < 15_000


@EACH
def test_text_is_large_enough_where_a_page_is_800_wide(name):
    shrunk = min(1, 800 / DRAWN[name].width)
    sizes = [number(e, "font-size") for e in elements(DRAWN[name]) if e.tag == SVG + "text"]
    assert shrunk * min(sizes) >= 11


# --- both themes: what is seen is computed from the file itself -----------------------------------


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def painted(drawing, theme):
    """The elements with their colours in this theme, and the fill that lies behind each."""
    svg = drawing.svg()
    dark = {
        name: dict(rule.split(":") for rule in rules.split(";"))
        for name, rules in re.findall(r"^\.([\w-]+)\{(.*)\}$", svg, re.MULTILINE)
    }
    below = []  # (left, top, right, bottom, fill)
    for element in elements(drawing):
        if element.get("class") is None:
            continue
        look = {k: element.get(k) for k in ("fill", "stroke") if element.get(k)}
        if theme == "dark":
            assert look.keys() == dark[element.get("class")].keys()
            look = dark[element.get("class")]
        kind = element.tag.removeprefix(SVG)
        x, y = middle(element, kind)
        behind = [fill for x1, y1, x2, y2, fill in below if x1 <= x <= x2 and y1 <= y <= y2]
        yield element, kind, look, behind[-1] if behind else None
        if kind == "rect":
            right, bottom = x + number(element, "width"), y + number(element, "height")
            below.append((x, y, right, bottom, look["fill"]))
        elif kind == "circle":
            r = number(element, "r")
            below.append((x - r, y - r, x + r, y + r, look["fill"]))


def middle(element, kind):
    """A point of the element: a word's or a circle's middle, a box's corner, a line's start."""
    if kind == "text":
        shift = {"middle": 0, "start": 4, "end": -4}[element.get("text-anchor")]
        return number(element, "x") + shift, number(element, "y") - 4
    if kind == "path":
        return tuple(float(n) for n in re.match(r"M([\d.]+) ([\d.]+)", element.get("d")).groups())
    names = ("cx", "cy") if kind == "circle" else ("x", "y")
    return tuple(number(element, n) for n in names)


def too_faint(drawing, theme):
    """Text under 4.5 to 1 on what lies behind it, lines and outlines under 3 to 1."""
    for element, kind, look, behind in painted(drawing, theme):
        role = element.get("class")
        least = {"text": 4.5, "pale": 1.8}.get(kind if kind == "text" else role, 3)
        if role != "card" and contrast(look.get("stroke", look.get("fill")), behind) < least:
            yield element.text or role, look, behind


@EACH
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(name, theme):
    assert list(too_faint(DRAWN[name], theme)) == []


@EACH
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_of_it_stands_on_a_card_of_its_own(name, theme):
    card, *others = painted(DRAWN[name], theme)
    assert card[0].get("class") == "card"
    assert (luminance(card[2]["fill"]) < 0.05) == (theme == "dark")
    assert number(card[0], "width") == DRAWN[name].width - 1
    assert number(card[0], "height") == DRAWN[name].height - 1
    assert None not in [behind for *_, behind in others]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_measure_finds_what_is_too_faint(theme, monkeypatch):
    monkeypatch.setitem(drawings.INKS, "soft", ("#9aa3ae", "#5c6570"))
    monkeypatch.setitem(drawings.DARK, "soft", "fill:#5c6570")
    found = [words for words, *_ in too_faint(drawings.groups(), theme)]
    assert found == [f"size of the cache: {share}" for share in ("1", "1/2", "1/4")]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("prefix", ["", "tile-"])
def test_the_heads_are_told_apart_by_all_eyes(theme, prefix):
    """Also by those who see no red, no green, no blue: the nearest pair, in CIELAB."""
    np = pytest.importorskip("numpy")
    index = 2 if theme == "dark" else 0
    lines = [drawings.COLOURS[prefix + head][index + 1 - bool(prefix)] for head in drawings.HEADS]
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in lines])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    for kind, matrix in COLOUR_BLIND.items():
        lab = cielab(np.clip(linear @ np.array(matrix).T, 0, 1))
        apart = [np.linalg.norm(a - b) for i, a in enumerate(lab) for b in lab[:i]]
        assert min(apart) > 10, (kind, min(apart))


# Machado, Oliveira and Fernandes, 2009, severity 1, on linear RGB
COLOUR_BLIND = {
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "all colours": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
}


def cielab(linear):
    import numpy as np

    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    t = linear @ np.array(to_xyz).T / [0.9505, 1, 1.089]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)


# --- what is drawn is what is said ----------------------------------------------------------------


@EACH
def test_the_words_are_in_the_file_and_fit_a_markdown_image(name):
    drawing = DRAWN[name]
    root = ET.fromstring(drawing.svg().encode())
    assert root.findtext(SVG + "title") == drawing.title
    assert root.findtext(SVG + "desc") == drawing.alt
    assert 60 <= len(drawing.alt) <= 700
    assert not re.search(r"[\[\]\n*`]|  ", drawing.alt)
    assert drawing.alt.endswith(".")


def test_heads():
    drawing = drawings.heads()
    n_heads, d_head, tokens = 4, 2, 3
    # x, its four pieces, what comes out of them, and those merged
    assert tiles(drawing) == dict.fromkeys(drawings.HEADS, 4 * tokens * d_head)
    assert texts(drawing).count("attention") == n_heads
    assert {"d_model = 8", "d_head = 2", "split_heads", "merge_heads"} <= set(texts(drawing))
    for words in ("3 tokens", "d_model = 8", "d_head = 2", "four tables"):
        assert words in drawing.alt


def test_groups():
    """Which query reads which keys and values: counted by the lines' ends."""
    drawing = drawings.groups()
    rects = [e for e in elements(drawing) if e.tag == SVG + "rect" and e.get("class") != "card"]
    boxes = {(number(e, "x") + 20, number(e, "y")): e.get("class") for e in rects}
    readers = Counter()
    for element in elements(drawing):
        if element.get("class") == "line":
            x1, y1, x2, y2 = (float(n) for n in re.findall(r"[\d.]+", element.get("d")))
            assert boxes[x1, y1 - 32] == boxes[x2, y2]  # the group's colour
            readers[x1] += 1
    assert sorted(readers.values()) == [1, 1, 1, 1, 2, 2, 4]
    assert [t for t in texts(drawing) if t[0] == "q"] == ["q0", "q1", "q2", "q3"] * 3
    for n_kv_heads, share in ((4, "1"), (2, "1/2"), (1, "1/4")):
        assert f"n_kv_heads = {n_kv_heads}" in texts(drawing)
        assert f"size of the cache: {share}" in texts(drawing)


def test_cache():
    drawing = drawings.cache()
    said = Counter(texts(drawing))
    keys = sum(e.text == "k" and not e.get("font-weight") for e in elements(drawing))
    assert keys == 5
    assert said["q"] == 1
    assert "attention: 1 query, 5 keys, 5 values" in said
    assert "all five keys" in drawing.alt


def test_cross_attention():
    drawing = drawings.cross_attention()
    queries, keys, d_model, d_head = 3, 5, 4, 3
    assert tiles(drawing) == {
        "blue": queries * (d_model + d_head),
        "green": keys * (d_model + 2 * d_head) + queries * d_model,
        "orange": queries,
        "plain": queries * (keys - 1),
    }
    assert {"w_q", "w_k", "w_v", "w_o", "x", "context"} <= set(texts(drawing))


def test_gate():
    drawing = drawings.gate()
    assert tiles(drawing) == {"purple": 4 * 6, "green": 2 * 24 + 16, "orange": 2 * 16}
    assert 2 * 6 * 24 == 3 * 6 * 16 == 288
    assert Counter(texts(drawing))["up"] == 2
    for text in texts(drawing):
        if text.startswith("d_ff"):
            width, count, d_model, again, product = map(int, re.findall(r"\d+", text))
            assert width == again
            assert count * d_model * width == product


def boxes_of(drawing):
    """(words, x, y) of every box with text in its middle; y of the middle."""
    rects = [e for e in elements(drawing) if e.tag == SVG + "rect"]
    for text in (e for e in elements(drawing) if e.tag == SVG + "text"):
        for rect in rects:
            x = number(rect, "x") + number(rect, "width") / 2
            y = number(rect, "y") + number(rect, "height") / 2
            if (x, round(y, 1)) == (number(text, "x"), round(number(text, "y") - 5.6, 1)):
                yield text.text, x, y


def test_stream():
    """Pre-norm: no box on the stream but the last norm. Post-norm: two, and both are norms."""
    drawing = drawings.stream()
    streams = [e for e in elements(drawing) if e.get("stroke-width") == "4"]
    on_it = []
    for stream in streams:
        y = float(re.match(r"M[\d.]+ ([\d.]+)", stream.get("d"))[1])
        on_it.append([(words, x) for words, x, at in boxes_of(drawing) if at == y])
    plus = [number(e, "cx") for e in elements(drawing) if e.tag == SVG + "circle"]
    (pre, post) = on_it
    assert [words for words, _ in pre] == ["norm"]
    assert pre[0][1] > max(plus[:2])  # after the last plus
    assert [words for words, _ in sorted(post, key=lambda b: b[1])] == ["norm", "norm"]
    assert plus[2] < post[0][1] < plus[3] < post[1][1]
    assert Counter(words for words, *_ in boxes_of(drawing)) == {
        "norm": 5,
        "attention": 2,
        "MLP": 2,
    }


def test_encoder_decoder():
    said = [words for words, *_ in boxes_of(drawings.encoder_decoder())]
    encoder = ["3rd of march 2021", "self-attention", "MLP"]
    decoder = ["2021-0", "masked self-attention", "cross-attention", "MLP"]
    assert [s for s in said if "+" not in s] == encoder + decoder
    plus = [e for e in elements(drawings.encoder_decoder()) if e.tag == SVG + "circle"]
    assert len(plus) == 5


def test_language_model():
    drawing = drawings.language_model()
    at = {x for _, x, _ in boxes_of(drawing)}
    left, right = min(at), max(at)
    read = [words for words, x, _ in boxes_of(drawing) if x == left]
    said = [words for words, x, _ in boxes_of(drawing) if x == right]
    assert read[1:] == said[:-1]  # each is to say what the next one reads
    order = [words for words, x, _ in sorted(boxes_of(drawing), key=lambda b: b[1])]
    assert [w for w in order if len(w) > 1] == ["embedding", "attention", "MLP", "norm", "head"]


def test_kv_cache():
    rects = [e for e in elements(drawings.kv_cache()) if e.tag == SVG + "rect"]
    squares = [e for e in rects if e.get("height") == "24"]
    new = [e for e in squares if not e.get("stroke-dasharray")]
    assert (len(squares), len(new)) == (15 + 15, 15 + 5)


# --- the map --------------------------------------------------------------------------------------


def marked(drawing, colour):
    """The labels of boxes of that colour, from the inside out: the text drawn right after it."""
    found, box = [], None
    for element in elements(drawing):
        if element.tag == SVG + "rect":
            box = element.get("class")
        elif element.tag == SVG + "text" and box == colour:
            found.append(element.text)
            box = None
    return [text for text in found if re.match(r"\d\d\b", text)]


def test_the_map_has_a_part_for_every_lesson():
    assert set(THERE) <= set(ALL)
    rows = re.findall(r"^\| \w\d+ \| (\w+) \|", (ROOT / "notebooks/TOPICS.md").read_text(), re.M)
    assert set(rows) | {"00_start_here"} == set(ALL)
    assert [part.number for part in drawings.PARTS] == [f"{i:02}" for i in range(len(ALL))]


@pytest.mark.parametrize("part", drawings.PARTS, ids=lambda part: part.lesson)
def test_every_part_is_named_drawn_and_lit(part):
    whole, lit = drawings.transformer_map(ALL), drawings.transformer_map(ALL, part.lesson)
    assert any(text.startswith(part.number) for text in texts(whole))
    assert part.number in whole.alt or part.number == "00"
    assert marked(whole, "here") == marked(whole, "pale") == []
    found = marked(lit, "here")
    assert found
    assert {text[:2] for text in found} == {part.number}
    assert f"you are here: {part.number} {part.name}" in texts(lit)
    assert f"You are here: {part.number} {part.name}, " in lit.alt


def test_what_is_not_there_yet_is_pale():
    some = ["00_start_here", "01_attention", "04_norms"]
    pale = {text[:2] for text in marked(drawings.transformer_map(some, "04_norms"), "pale")}
    assert pale == {part.number for part in drawings.PARTS} - {"00", "01", "04"}
    assert len(marked(drawings.transformer_map(some, "04_norms"), "here")) == 3  # three norms


# --- files ----------------------------------------------------------------------------------------


def test_the_stored_drawings_are_fresh():
    assert drawings.stale(ROOT / "notebooks" / "drawings", THERE) == []


def test_each_drawing_or_map_that_is_shown_is_there_and_has_its_words():
    drawn = drawings.every(THERE)
    shown = [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.ipynb"))]
    for path in shown:
        for alt, name in re.findall(r"!\[([^]]*)\]\([\w/]*drawings/(\w+)\.svg\)", path.read_text()):
            assert name in drawn, path.name
            assert " ".join(alt.split()) == drawn[name].alt, path.name


@pytest.fixture
def folder(tmp_path):
    drawings.write(tmp_path / "drawings", THERE)
    return tmp_path / "drawings"


@pytest.mark.parametrize("name", ["map.svg", "map_03.svg", "gate.svg"])
def test_one_changed_character_is_noticed(folder, name):
    assert drawings.stale(folder, THERE) == []
    text = (folder / name).read_text(encoding="utf-8")
    for changed in (text.replace("rx", "ry", 1), text + "\n", text[:-1]):
        (folder / name).write_text(changed, encoding="utf-8")
        assert drawings.stale(folder, THERE) == [name]
    (folder / name).unlink()
    assert drawings.stale(folder, THERE) == [name]


def test_a_lesson_that_comes_or_goes_changes_the_maps(folder):
    (folder / "old.svg").write_text("<svg/>")
    (folder / "notes.txt").write_text("kept")
    assert drawings.stale(folder, THERE) == ["old.svg"]
    fewer = [name for name in THERE if name != "07_going_deep"]
    maps = [f"map_{name[:2]}.svg" for name in THERE]
    assert drawings.stale(folder, fewer) == ["map.svg", *maps, "old.svg"]
    drawings.write(folder, fewer)
    assert drawings.stale(folder, fewer) == []
    assert not (folder / "map_07.svg").exists()
    assert (folder / "notes.txt").read_text() == "kept"


def test_build_writes_them_and_check_says_what_is_stale(tmp_path):
    for name in ("solutions", "notebooks", "tfcourse"):
        (tmp_path / name).mkdir()
    said = building.check(tmp_path)
    assert "notebooks/drawings/map.svg: is not what is drawn today. Run: tfcourse build" in said
    building.build(tmp_path, say=lambda *a, **k: None)
    assert building.check(tmp_path) == []
    building.write_solved(tmp_path)
    assert drawings.stale(tmp_path / "build/solved/drawings", []) == []


# --- in a lesson ----------------------------------------------------------------------------------

TITLE = "# %% [markdown]\n# # 03 · Positions\n#\n# ![](drawings/{})\n#\n# How does a word know?\n"


@pytest.fixture
def lesson(tmp_path):
    """The lesson 03 that shows a drawing, among the sources that are there."""
    for name in THERE:
        shutil.copy(ROOT / "solutions" / f"{name}.py", tmp_path)

    def lesson_(name):
        (tmp_path / "03_positions.py").write_text(TITLE.format(name), encoding="utf-8")
        return Lesson(tmp_path / "03_positions.py")

    return lesson_


def test_a_line_in_the_source_becomes_the_map_with_links(lesson):
    for notebook in (lesson("map.svg").learners(), lesson("map.svg").solved()):
        title, picture, links, question = notebook.cells[0].source.split("\n\n")
        assert title == "# 03 · Positions"
        assert question == "How does a word know?"
        alt = drawings.transformer_map(THERE, "03_positions").alt
        assert picture == f"![{alt}](drawings/map_03.svg)"
        assert (
            " · ← [02 Heads](02_multi_head_attention.ipynb) · **you are here: 03 Positions** · "
            "[04 Norm](04_norms.ipynb) → · " in links
        )
        linked = re.findall(r"\[(\d\d)[^]]+\]\((\w+)\.ipynb\)", links)
        assert linked == [(name[:2], name) for name in THERE if name != "03_positions"]
        for part in drawings.PARTS:
            assert f"{part.number} {part.name}" in links


def test_the_first_and_the_last_lesson_have_one_neighbour():
    first = drawings.expand("![](drawings/map.svg)", THERE[0], THERE)
    last = drawings.expand("![](drawings/map.svg)", THERE[-1], THERE)
    assert first.count("←") == last.count("→") == 0
    assert first.count("→") == last.count("←") == 1


def test_a_drawing_gets_its_words_and_the_cell_keeps_its_id(lesson):
    with_gate, with_heads = lesson("gate.svg").learners(), lesson("heads.svg").learners()
    assert f"![{drawings.gate().alt}](drawings/gate.svg)" in with_gate.cells[0].source
    assert f"![{drawings.heads().alt}](drawings/heads.svg)" in with_heads.cells[0].source
    before = with_gate.cells[0].id
    assert lesson("gate.svg").learners().cells[0].id == before  # of the source, not of the words


def test_other_pictures_are_left_alone():
    text = "![a cat](drawings/cat.svg) ![](cat.png) `![]` [link](drawings/gate.svg)"
    assert drawings.expand(text, "03_positions", THERE) == text


def test_what_cannot_be_shown_is_explained(lesson):
    with pytest.raises(LessonError, match=r"03_positions\.py: there is no drawing 'gates'.*gate"):
        lesson("gates.svg").learners()
    with pytest.raises(ValueError, match="13_more is not on the map. Add it to PARTS"):
        drawings.expand("![](drawings/map.svg)", "13_more", THERE)


def test_a_page_made_of_the_notebook_keeps_picture_words_and_links():
    from nbconvert.filters import markdown2html

    text = drawings.expand("![](drawings/map.svg)\n\n![](drawings/heads.svg)", THERE[1], THERE)
    page = ET.fromstring(f"<p>{markdown2html(text)}</p>")
    here = drawings.transformer_map(THERE, THERE[1])
    assert [(image.get("src"), image.get("alt")) for image in page.iter("img")] == [
        ("drawings/map_01.svg", here.alt),
        ("drawings/heads.svg", drawings.heads().alt),
    ]
    linked = [link.get("href") for link in page.iter("a")]
    assert linked == [f"{name}.ipynb" for name in THERE if name != THERE[1]]
