"""The pages of a class: sound HTML, every number right, and nothing on them that is not theirs."""

import os
import random
import re
import statistics
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote, unquote_to_bytes

import pytest

from tfcourse.classroom import pages, records
from tfcourse.classroom.records import Graded, Mark, Results, Student, Title, Trouble

LESSONS = {
    "01_attention": (
        Title("scores", "scores"),
        Title("causal_mask", "masks & more"),
        Title("merge_attention", "merge two parts", 4.0),
        Title("tiles", "attention in tiles"),
    ),
    "02_heads": (Title("split_heads", "split"), Title("contributions", "what a head adds", 3.0)),
}
TITLES = {"01_attention": "Attention", "02_heads": "Many heads"}
PICTURE = '<img alt="Three heatmaps" width="9" height="9" src="data:image/svg+xml;base64,AAAA">'
VOID = {"meta", "img", "br"}


def a_class(size: int, seed: int = 0, **changes) -> Results:
    """A made class: some hand in nothing, some late, some twice; every state, some pictures."""
    chance = random.Random(seed)
    students = tuple(Student(f"key{i:03}", f"Student {i} <i>") for i in range(size))
    graded = []
    for student in students:
        for lesson, titles in LESSONS.items():
            if chance.random() < 0.15:
                continue
            tries = chance.choice([1, 1, 1, 2, 3])
            for turn in range(1, tries + 1):
                marks = tuple(_mark(title, chance) for title in titles)
                where = f"class.zip/{student.key}/{turn}/{lesson}.ipynb"
                when = f"2026-11-2{turn}T10:00:00+01:00"
                late = chance.random() < 0.2
                digest = f"d1g357 {student.key} {turn}"
                graded.append(Graded(student.key, lesson, where, marks, when, late, turn, digest))
    chance.shuffle(graded)
    troubles = (
        Trouble("class.zip/notes.docx", "It is no notebook."),
        *(Trouble(f"class.zip/x/{s.key}.ipynb", "No JSON.", s.key) for s in students[:2]),
    )
    return replace(
        Results(students, LESSONS, tuple(graded), troubles, "2026-11-22T12:05:00+01:00", False),
        **{"titles": TITLES} | changes,
    )


def _mark(title: Title, chance: random.Random) -> Mark:
    name, of = title.name, title.points
    kind = chance.random()
    if kind < 0.4:
        return Mark(name, "right", "right", "Right, in 24 cases.", of, of)
    if kind < 0.8:
        which = chance.choice(["no-scale", "no-scale", "no-scale", "axis", "axis", "shape"])
        says = f"It is `{which}`, in words. Look at case {chance.choice([1, 1, 2])}."
        hidden = bool(of) and chance.random() < 0.5
        return Mark(name, "wrong", which, says, of / 4, of, hidden, "" if hidden else PICTURE)
    if kind < 0.95:
        return Mark(name, "to do", "to-do", "Nothing is there yet.", 0.0, of)
    return Mark(name, "not judged", "fell", "It could not be judged.", 0.0, of, look="It fell.")


class Page(HTMLParser):
    """A page, read strictly: a tag that does not close, or closes another, is an error."""

    def __init__(self, text: str):
        super().__init__()
        self.source, self.open, self.tags, self.headings, self.words = text, [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join("".join(self.words).split())
        self.ids = [found["id"] for _, found in self.tags if "id" in found]

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"an attribute twice in {tag}"
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag in ("p", "li", "tr", "td", "th", "div", "dt", "dd", "h1", "h2", "h3", "h4", "br"):
            self.words.append(" ")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another"

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    def all(self, tag, name):
        return [found[name] for kind, found in self.tags if kind == tag and name in found]


def read(folder) -> dict[str, Page]:
    """Every page by its name; "class" is the teacher's."""
    assert not list(folder.rglob("*.tmp"))
    return {path.stem: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}


def written(results: Results, folder) -> dict[str, Page]:
    pages.write(results, folder)
    return read(folder)


def one(*marks: Mark, **changes) -> Results:
    """A class of one, who handed in one lesson with these marks."""
    titles = tuple(Title(mark.exercise, mark.exercise, mark.of) for mark in marks)
    graded = Graded("ann", "01_attention", "all.zip/ann/x.ipynb", marks)
    made = Results((Student("ann", "Ann"),), {"01_attention": titles}, (graded,))
    return replace(made, **changes)


# --- sound, closed, readable ----------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 30, 300])
def test_every_page_is_sound(tmp_path, size):
    found = written(a_class(size, unsafe=size == 30), tmp_path)
    places = {name: set(page.ids) for name, page in found.items()}
    for name, page in found.items():
        assert page.source.startswith('<!DOCTYPE html>\n<html lang="en">')
        assert len(page.ids) == len(places[name]), name
        assert page.headings[0] == 1
        assert page.headings.count(1) == 1
        assert all(b <= a + 1 for a, b in zip(page.headings, page.headings[1:], strict=False)), name
        tags = Counter(tag for tag, _ in page.tags)
        assert (tags["main"], tags["header"], tags["title"]) == (1, 1, 1)
        assert tags["nav"] <= 1
        assert all("scope" in of for tag, of in page.tags if tag == "th")
        assert tags["caption"] == tags["table"]
        for _, attributes in page.tags:
            for pointer in ("aria-labelledby", "for"):
                assert attributes.get(pointer, "main") in places[name]
        for link in page.all("a", "href"):
            file, _, place = link.partition("#")
            target = unquote(file)[: -len(".html")].split("/")[-1] if file else name
            assert not place or place in places[target], (name, link)


def test_a_page_runs_nothing_and_asks_nobody(tmp_path):
    for page in written(a_class(30), tmp_path).values():
        assert "script" not in {tag for tag, _ in page.tags}
        assert not {"link", "iframe", "object", "form", "base"} & {tag for tag, _ in page.tags}
        assert not [x for _, found in page.tags for x in found if x.startswith("on")]
        assert all(source.startswith("data:") for source in page.all("img", "src"))
        assert "//" not in page.source
        assert "url(" not in page.source
        assert "@import" not in page.source
        [policy] = [
            x["content"] for tag, x in page.tags if tag == "meta" and "http-equiv" in x
        ]  # so that no browser would, even if one of the above slipped through
        assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(x * weight for x, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def _contrast(one_: str, other: str) -> float:
    low, high = sorted((_luminance(one_), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_read_in_light_and_in_dark(tmp_path):
    style = written(a_class(1), tmp_path)["class"].source
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", x)) for x in _roots(style))
    assert light.keys() == dark.keys()
    for theme in (light, dark):
        for paper in ("paper", "raised"):
            for ink in ("ink", "soft", "link", "right", "wrong"):
                assert _contrast(theme[ink], theme[paper]) >= 4.5, (ink, theme[ink])
            for mark in ("bar-right", "bar-wrong", "bar-open"):
                assert _contrast(theme[mark], theme[paper]) >= 3, (mark, theme[mark])
        assert theme["paper"] != theme["ink"]
    assert _contrast("#1c2128", "#f0e442") >= 4.5  # the banner's own


def _roots(style: str) -> list[str]:
    found = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    assert len(found) == 2
    return found


def test_a_state_is_never_a_colour_alone(tmp_path):
    marks = [Mark(f"e{i}", state, "x", "Why.") for i, state in enumerate(pages.STATES)]
    page = written(one(*marks), tmp_path)["ann"]
    for i, (sign, word) in enumerate(pages.STATES.values()):
        assert re.search(rf"{re.escape(sign)} e{i} {word} for practice", page.text), page.text
    assert [sign for sign, _ in pages.STATES.values()] == ["✓", "✗", "○", "–"]


# --- strings are text -----------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</style></title><h1>x</h1>",
    "&lt;b&gt; `<u>` &",
    "\u202eevil\u202c \u2066x\u2069",
    "a\x00b\x1b[31mc\x7f\x9b",
    "caf\udce9",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_is_written_stays_text(tmp_path, text):
    marks = (Mark(text, "wrong", text, text, 0, 1, look=text), Mark("e", "right", text, text))
    students = (Student("ann", text), Student("ben", text))
    graded = [
        Graded("ann", "01", f"{text}.ipynb", marks, text, True, turn, text) for turn in (1, 2)
    ]
    results = Results(
        students,
        {"01": (Title(text, text, 1), Title("e", text))},
        tuple(graded),
        (Trouble(text, text, "ben"), Trouble(text, text)),
        text,
        True,
        {"01": text},
    )
    plain = one(replace(marks[0], exercise="f", diagnosis="d", says="s", look=""), marks[1])
    known = {tag for name in "ab" for page in written(plain, tmp_path / name).values()
             for tag, _ in page.tags}  # fmt: skip
    found = written(results, tmp_path / "hostile")
    shown = "".join(c for c in text if c.isprintable() or "\ud800" <= c <= "\udfff")
    shown = " ".join(shown.replace("\udce9", "\ufffd").split())
    for name, page in found.items():
        made = {tag for tag, _ in page.tags} - known
        assert made <= {"nav", "ul", "details", "summary", "time", "bdi", "br", "a", "b", "small"}
        assert not [x for _, of in page.tags for x in of if x.startswith("on")]
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f\x7f-\x9f]", page.source)
        assert shown.replace("`", "") in page.text.replace("`", ""), name
    told = pages.summary(results)
    assert all(c.isprintable() for c in told.replace("\n", ""))
    assert shown in told
    told.encode()


def test_what_stands_between_backticks_is_code(tmp_path):
    page = written(one(Mark("e", "wrong", "d", "Use `a < b` here.")), tmp_path)["ann"]
    assert "Use <code>a &lt; b</code> here." in page.source
    page = written(one(Mark("e", "wrong", "d", "One ` alone <")), tmp_path)["ann"]
    assert "One ` alone &lt;" in page.source


# --- a student's page -----------------------------------------------------------------------------


def test_a_page_holds_its_students_own_work_and_nothing_for_the_teacher(tmp_path):
    def marks(own):
        return (
            Mark("f", "wrong", f"id-{own}", f"says-{own}", 0, 4, look=f"look-{own}"),
            Mark("g", "wrong", f"hid-{own}", f"hidden-{own}", hidden=True),
            Mark("h", "right", f"yes-{own}", f"praise-{own}"),
        )

    keys = [f"q{i}z" for i in range(5)]
    graded = [
        Graded(key, "01", f"root-{key}/folder/{key}.ipynb", marks(f"{key}t{turn}"), turn=turn,
               digest=f"digest-{key}")
        for key in keys
        for turn in (1, 2)
    ]  # fmt: skip
    troubles = [Trouble(f"root-{key}/folder/bad-{key}.ipynb", f"why-{key}", key) for key in keys]
    results = Results(
        tuple(Student(key, f"name-{key}", {"Email": f"mail-{key}"}) for key in keys),
        {"01": (Title("f", "f", 4), Title("g", "g"), Title("h", "h"))},
        tuple(graded),
        (*troubles, Trouble("nobodys.txt", "of nobody")),
    )
    found = written(results, tmp_path)
    for key in keys:
        text = found[key].source
        theirs = (f"name-{key}", f"says-{key}t1", f"says-{key}t2", f"hidden-{key}t2",
                  f"bad-{key}.ipynb", f"why-{key}")  # fmt: skip
        for word in theirs:
            assert word in text, word
        assert not [other for other in keys if other != key and other in text]
        for word in ("look-", "id-", "hid-", "yes-", "digest-", "root-", "folder", "mail-",
                     "nobody"):  # fmt: skip
            assert word not in text, word
        assert "class.html" not in text
        assert f"look-{key}t1" in found["class"].text


def test_a_page_for_each_who_handed_in_or_is_in_trouble_and_for_nobody_else(tmp_path):
    made = a_class(12)
    graded = tuple(g for g in made.graded if g.student > "key005")
    found = written(replace(made, graded=graded), tmp_path)  # the first two are in trouble
    assert found.keys() == {g.student for g in graded} | {"key000", "key001", "class"}
    assert {"key002", "key005"} & found.keys() == set()
    assert "key006" in found


def test_a_page_of_an_earlier_time_goes_and_other_files_stay(tmp_path):
    pages.write(a_class(3), tmp_path)
    other = tmp_path / "feedback" / "mine.html"
    other.write_text("<p>the teacher's own</p>")
    pages.write(one(Mark("e", "right", "right", "")), tmp_path)
    left = {path.name for path in (tmp_path / "feedback").iterdir()}
    assert left == {"ann.html", "mine.html"}


@pytest.mark.parametrize("key", ["../ann", "a/b", "a\\b", "/ann"])
def test_a_key_that_is_no_name_of_a_file_is_refused(tmp_path, key):
    results = one(Mark("e", "right", "right", ""))
    graded = replace(results.graded[0], student=key)
    with pytest.raises(ValueError, match="fit to be a file's name"):
        pages.write(replace(results, students=(Student(key, "x"),), graded=(graded,)), tmp_path)
    assert not list(tmp_path.rglob("*.html"))


@pytest.mark.parametrize("key", ["zoë", "Zoë #1 50% & 'x'", "caf\udce9"])
def test_a_link_leads_to_the_page_whatever_the_key_is(tmp_path, key):
    results = one(Mark("e", "right", "right", "", 1, 1))
    graded = replace(results.graded[0], student=key)
    results = replace(results, students=(Student(key, "Zoë"),), graded=(graded,))
    links = [x for x in written(results, tmp_path)["class"].all("a", "href") if x[0] != "#"]
    assert links
    for link in links:
        assert (tmp_path / os.fsdecode(unquote_to_bytes(link.split("#")[0]))).is_file()


def test_names_are_never_names_of_files(tmp_path):
    results = one(Mark("e", "right", "right", ""), students=(Student("ann", "../../etc/x"),))
    pages.write(results, tmp_path / "to")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "ann.html",
        "class.html",
    }


def test_a_page_is_never_half_written(tmp_path, monkeypatch):
    before = written(a_class(3), tmp_path)

    def broken(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="full"):
        pages.write(a_class(3, seed=1), tmp_path)
    after = read(tmp_path)
    assert {name: page.source for name, page in after.items()} == {
        name: page.source for name, page in before.items()
    }


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ("r", "Right."),
        ("rrr", "Right: all 3."),
        ("rrw", "Right: 2 of 3. One is worth another look."),
        ("rwwtt", "Right: 1 of 5. Two are worth another look. Two are still to do."),
        ("tn", "Right: none of 2 so far. One is still to do. One is not judged."),
        ("r" + 11 * "w", "Right: 1 of 12. 11 are worth another look."),
        ("", "There was no exercise to judge."),
    ],
)
def test_the_opening_is_true(tmp_path, states, says):
    words = {"r": "right", "w": "wrong", "t": "to do", "n": "not judged"}
    marks = [Mark(f"e{i}", words[letter], "x", "") for i, letter in enumerate(states)]
    page = written(one(*marks), tmp_path)["ann"]
    assert f'<p class="opening">{says}</p>' in page.source


def test_what_is_right_takes_a_line_and_what_is_wrong_has_room(tmp_path):
    marks = (
        Mark("easy", "right", "right", "praise", 2, 2, picture="<img alt=no>"),
        Mark("hard", "wrong", "d", "Look again.", 1, 4, picture=PICTURE),
        Mark("mean", "wrong", "d", "Think of sizes.", 0, 0, hidden=True),
    )
    page = written(one(*marks), tmp_path)["ann"]
    assert "✓ easy right counts: 2 of 2 points" in page.text
    assert "praise" not in page.text
    assert f"<figure>{PICTURE}<figcaption>Yours, what is right, and the difference" in page.source
    assert page.source.count("<figure>") == 1
    assert "✗ hard not right yet counts: 1 of 4 points Look again." in page.text
    assert (
        "✗ mean not right yet right in every case that you can run for practice Think of sizes."
    ) in page.text
    assert "Points 3 of 6" in page.text
    assert page.text.index("easy") < page.text.index("hard") < page.text.index("mean")


def test_when_and_whether_late(tmp_path):
    results = one(Mark("e", "right", "right", ""))
    graded = replace(results.graded[0], when="2026-11-20T22:10:09+01:00", late=True)
    page = written(replace(results, graded=(graded,)), tmp_path)["ann"]
    assert "Handed in 2026-11-20 22:10 UTC+01:00 late" in page.text.replace("late", " late", 1)
    page = written(results, tmp_path)["ann"]
    assert "late" not in page.text  # where there is no deadline nobody is in time either


def test_the_last_try_counts_and_the_others_fold(tmp_path):
    first = Graded("ann", "01", "1", (Mark("e", "wrong", "axis", "First words.", 1, 4),), turn=1)
    second = Graded("ann", "01", "2", (Mark("e", "wrong", "nan", "Next words.", 2, 4),), turn=2)
    third = Graded("ann", "01", "3", (Mark("e", "right", "right", "", 4, 4),), turn=3)
    results = Results(
        (Student("ann", "Ann"),), {"01": (Title("e", "e", 4),)}, (third, first, second)
    )
    found = written(results, tmp_path)
    shown, folded = found["ann"].source.split("<details")
    assert "First words." not in shown
    assert folded.index("Next words.") < folded.index("First words.")
    assert "Points 4 of 4" in found["ann"].text
    assert re.search("Try 3 of 3 ?the last one counts", found["ann"].text)
    assert "words." not in found["class"].text
    assert "Nothing that a submission shows: no answer is wrong." in found["class"].text
    assert "mean 4, median 4" in pages.summary(results)


def test_trouble_stands_on_top_with_what_to_do(tmp_path):
    trouble = Trouble("a/b\\x.ipynb", "It is `no` JSON.", "ann")
    page = written(one(Mark("e", "to do", "to-do", ""), troubles=(trouble,)), tmp_path)["ann"]
    at = page.text.index("A file of yours could not be taken x.ipynb: It is no JSON.")
    assert at < page.text.index("Hand in the notebook itself") < page.text.index("Right: none of 1")


def test_the_banner_is_on_every_page_exactly_where_it_was_unsafe(tmp_path):
    for unsafe in (True, False):
        results = a_class(12, unsafe=unsafe)
        for page in written(results, tmp_path / str(unsafe)).values():
            assert (pages.UNSAFE in page.text) == unsafe
        assert (pages.UNSAFE in pages.summary(results)) == unsafe


# --- the teacher's page: every number, counted in another way -------------------------------------


def last_ones(results: Results) -> dict[tuple[str, str], Graded]:
    found = {}
    for graded in results.graded:
        key = (graded.student, graded.lesson)
        if key not in found or found[key].turn < graded.turn:
            found[key] = graded
    return found


def part(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


@pytest.mark.parametrize(("size", "seed"), [(1, 3), (30, 0), (30, 1), (300, 2)])
def test_the_charts_numbers_are_the_counts(tmp_path, size, seed):
    results = a_class(size, seed)
    last, source = last_ones(results), written(results, tmp_path)["class"].source
    for lesson, titles in LESSONS.items():
        every = [g for g in last.values() if g.lesson == lesson]
        chart = part(part(source, f'<h3 id="of-{lesson}">', "</table>"), "<caption>", "~")
        assert "Which exercises are right?" in chart
        assert f"<small>{len(every)} submission{'s' * (len(every) != 1)}," in chart
        rows = part(chart, "<tbody>", "</tbody>").split("</tr>")[:-1]
        assert len(rows) == len(titles)
        judged = Counter((m.exercise, m.state) for g in every for m in g.marks)
        shown = [s for s in pages.STATES if s != "not judged" or any(k[1] == s for k in judged)]
        for row, title in zip(rows, titles, strict=True):
            assert f"<code>{title.name}</code>" in row
            counts = {state: judged[title.name, state] for state in shown}
            assert [int(x) for x in re.findall(r"<td>(\d+)</td>", row)] == list(counts.values())
            bar = re.findall(r'<span class="([\w-]+)" style="flex:(\d+)"', row)
            assert bar == [(s.replace(" ", "-"), str(n)) for s, n in counts.items() if n]


@pytest.mark.parametrize(("size", "seed"), [(1, 3), (30, 0), (300, 2)])
def test_the_diagnoses_are_counted_and_told(tmp_path, size, seed):
    results = a_class(size, seed)
    last, source = last_ones(results), written(results, tmp_path)["class"].source
    below = source.split('<h2 id="misunderstood">', 1)[1]
    wrong: dict[tuple, list[tuple[str, Mark]]] = {}
    for graded in last.values():
        for mark in graded.marks:
            if mark.state == "wrong":
                key = (graded.lesson, mark.exercise, mark.diagnosis)
                wrong.setdefault(key, []).append((graded.student, mark))
    total = Counter(lesson for _, lesson in last)
    for lesson, titles in LESSONS.items():
        for title in titles:
            mine = {key[2]: x for key, x in wrong.items() if key[:2] == (lesson, title.name)}
            head = f'<h4 id="of-{lesson}-{title.name}">'
            assert (head in below) == bool(mine)
            if not mine:
                continue
            html = part(below, head, "</section>")
            heading, n = html.split("</h4>")[0], sum(map(len, mine.values()))
            answers = f"{total[lesson]} answer{'s' * (total[lesson] != 1)}"
            assert heading.endswith(f"what is wrong in {n} of {answers}?")
            items = html.split("<li>")[1:]
            assert len(items) == len(mine)
            sizes = []
            for item in items:
                name = re.search(r"\(<code>([\w-]+)</code>", item)[1]
                sizes.append(len(mine[name]))
                assert f"<b>{sizes[-1]}</b>" in item
                bar = re.findall(r'<span class="(wrong|rest)" style="flex:(\d+)"', item)
                rest = total[lesson] - sizes[-1]
                assert dict(bar) == {"wrong": str(sizes[-1])} | (
                    {"rest": str(rest)} if rest else {}
                )
                who = set(re.findall(r'href="feedback/(\w+)\.html#' + lesson, item))
                assert who == {student for student, _ in mine[name]}
                told = Counter(mark.says for _, mark in mine[name])
                plain = re.sub("</?code>", "`", item)
                assert any(says in plain for says, k in told.items() if k == max(told.values()))
                hidden = sum(mark.hidden for _, mark in mine[name])
                assert (f", {hidden} by hidden cases alone" in item) == bool(hidden)
            assert sizes == sorted(sizes, reverse=True)
    most = re.findall(r"<li><b>(\d+) of (\d+)</b>", below.split("<h3")[0])
    assert [int(k) for k, _ in most] == sorted(map(len, wrong.values()), reverse=True)[:3]
    assert {int(n) for _, n in most} <= set(total.values())


@pytest.mark.parametrize("size", [1, 30, 300])
def test_the_table_the_numbers_and_the_summary(tmp_path, size):
    results = a_class(size)
    last, page = last_ones(results), written(results, tmp_path)["class"]
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd>(\d+)", page.source))
    flagged = [g for g in results.graded if any(m.look for m in g.marks)]
    untouched = [g for g in last.values() if {m.state for m in g.marks} == {"to do"}]
    assert facts == {
        "Students": str(size),
        "Handed in": str(len({student for student, _ in last})),
        "Late": str(sum(graded.late for graded in last.values())),
        "To look at": str(len(results.troubles) + len(flagged) + len(untouched)),
    }
    table = part(page.source, '<h2 id="points">', "</table>")
    rows = part(table, "<tbody>", "</tbody>").split("</tr>")[:-1]
    assert len(rows) == size
    for student, row in zip(results.students, rows, strict=True):
        cells = re.findall("<td>(.*?)</td>", row)
        assert len(cells) == 3
        for lesson, cell in zip(LESSONS, cells, strict=False):
            graded = last.get((student.key, lesson))
            if graded is None:
                assert "nothing" in cell
                assert "href" not in cell
                continue
            points = f"{sum(m.points for m in graded.marks):g}"
            assert f'<a href="feedback/{student.key}.html#{lesson}">{points}<' in cell
            assert (">late<" in cell) == graded.late
            assert (f">try {graded.turn}<" in cell) == (graded.turn > 1)
        own = [g for key, g in last.items() if key[0] == student.key]
        assert cells[2] == f"{sum(g.points for g in own):g}"
    told = pages.summary(results)
    foot = [re.findall("<td>(.*?)</td>", x) for x in part(table, "<tfoot>", "</t" + "foot>")
            .split("</tr>")[:-1]]  # fmt: skip
    for i, lesson in enumerate(LESSONS):
        points = [g.points for g in last.values() if g.lesson == lesson]
        if not points:
            continue
        mean, median = (f"{round(f(points), 2):g}" for f in (statistics.mean, statistics.median))
        assert (foot[0][i], foot[1][i]) == (mean, median)
        of = f"{sum(title.points for title in LESSONS[lesson]):g}"
        assert f"{lesson}: of {of} points, mean {mean}, median {median}\n" in told
    assert told.startswith(f"{facts['Handed in']} of {size} student")
    assert f"{len(results.graded)} submission" in told.splitlines()[0]


def test_everything_to_look_at_is_named(tmp_path):
    results = a_class(30)
    page, told = written(results, tmp_path)["class"], pages.summary(results).splitlines()
    looks = part(page.source, '<h2 id="look">', "</section>")
    for trouble in results.troubles:
        assert re.search(f"{trouble.shown}.{{0,9}}: {re.escape(trouble.says)}<", looks)
        [line] = [x for x in told if trouble.shown in x]
        assert trouble.says in line
    for graded in results.graded:
        flagged = [mark for mark in graded.marks if mark.look]
        lines = [x for x in told if graded.shown in x]
        assert (graded.shown in looks) == bool(flagged) == (len(lines) == 1)
        for mark in flagged:
            assert mark.exercise in lines[0]
            assert mark.look in lines[0]
    last = last_ones(results)
    for lesson, title in TITLES.items():
        missing = [s for s in results.students if (s.key, lesson) not in last]
        assert missing
        html = part(looks, f"Nothing handed in for {title} ({len(missing)})</h3>", "</ul>")
        assert len(re.findall("<li>", html)) == len(missing)
        names = "; ".join(student.name for student in missing)
        assert f"  {lesson} ({len(missing)}): {names}" in told


def test_equal_files_of_two_are_said_to_the_teacher_alone(tmp_path):
    students = tuple(Student(key, key.title()) for key in ("ana", "bo", "cy", "dan", "eve", "flo"))
    right = (Mark("merge_attention", "right", "right", "", 4.0, 4.0),)
    done = [("ana", "one", right), ("bo", "one", right), ("cy", "other", right)]
    done += [("dan", "empty", ()), ("eve", "empty", ())]  # untouched ones are alike
    graded = [
        Graded(key, "01_attention", f"{key}.ipynb", marks, digest=digest)
        for key, digest, marks in done
    ]
    graded.append(replace(graded[2], student="flo"))  # one file that two handed in together
    results = Results(students, LESSONS, tuple(graded), titles=TITLES)
    assert (
        "to the byte (ask them: all keep their points):\n  01_attention: Ana; Bo\n"
        in pages.summary(results)
    )
    found = written(results, tmp_path)
    assert "The same file, to the byte (1)" in found["class"].source
    assert "same file" not in "".join(p.source for name, p in found.items() if name != "class")


@pytest.mark.parametrize(
    ("mistakes", "says"),
    [
        ("abcdeabcde", "2 more are as frequent as the last."),
        ("aabcd", "One is shared by several:"),
        ("abc", "No mistake is shared by two. Most often wrong is "),
    ],
)
def test_what_few_have_is_not_called_frequent(tmp_path, mistakes, says):
    students = tuple(Student(f"k{i}", f"K{i}") for i in range(len(mistakes)))
    graded = tuple(
        Graded(student.key, "01_attention", "x", (Mark("scores", "wrong", kind, f"Says {kind}."),))
        for student, kind in zip(students, mistakes, strict=True)
    )
    found = written(Results(students, LESSONS, graded, titles=TITLES), tmp_path)["class"]
    assert says in found.text
    if mistakes == "abc":
        assert "scores" in found.text
        assert ": 3 of 3." in found.text


def test_what_was_never_begun_is_named(tmp_path):
    students = (Student("ana", "Ana"), Student("bo", "Bo"))
    marks = (Mark("scores", "to do", "to-do", ""), Mark("causal_mask", "to do", "to-do", ""))
    begun = (replace(marks[0], state="wrong"), marks[1])
    graded = (
        Graded("ana", "01_attention", "a", marks), Graded("bo", "01_attention", "b", begun),
    )  # fmt: skip
    results = Results(students, LESSONS, graded, titles=TITLES)
    assert "nothing begun:\n  Ana, 01_attention\n" in pages.summary(results)
    assert "Nothing begun (1) Ana, Attention" in written(results, tmp_path)["class"].text


def test_nothing_in_the_summary_is_cut_and_each_has_a_line(tmp_path):
    long = "word " * 2000 + "end."
    marks = tuple(Mark(f"e{i}", "not judged", "unread", long, 0, 1, look=long) for i in range(9))
    results = one(*marks, troubles=(Trouble("x.zip", f"First\nsecond {long}"),))
    told = pages.summary(results).splitlines()
    [line] = [x for x in told if "Ann, 01_attention" in x]
    assert line.endswith("end.")
    assert line.count("end.") == 1  # what is wrong with the whole notebook is said once
    assert all(f"e{i}" in line for i in range(9))
    [line] = [x for x in told if "x.zip" in x]
    assert "First second" in line
    assert line.endswith("end.")


def test_a_class_of_which_nobody_handed_in(tmp_path):
    students = (Student("ann", "Ann"), Student("ben", "Ben"))
    results = Results(students, {}, ())
    page = written(results, tmp_path)["class"]
    assert "Nothing handed in (2) Ann Ben" in page.text
    assert "0 of 2 students handed in; 0 submissions graded." in pages.summary(results)
    assert "any lesson (2): Ann; Ben" in pages.summary(results)
    empty = written(Results((), {}, ()), tmp_path / "nobody")["class"]
    assert "Nobody is on the roster, and nobody handed in." in empty.text
    assert "Nothing needs a look." in pages.summary(Results((), {}, ()))


def test_two_of_the_same_name_can_be_told_apart(tmp_path):
    results = a_class(3)
    students = tuple(replace(student, name="Kim") for student in results.students)
    page = written(replace(results, students=students), tmp_path)["class"]
    for student in students:
        assert f"Kim ({student.key})" in page.text


def test_a_practice_lesson_has_no_points(tmp_path):
    results = one(Mark("e", "right", "right", ""))
    found = written(results, tmp_path)
    assert re.search("Points none ?this lesson is for practice", found["ann"].text)
    assert ">handed in<" in found["class"].source
    assert "mean" not in pages.summary(results)


def test_what_was_told_is_shortened_for_the_teacher_alone(tmp_path):
    says = "One. Two? Three! Four. Five."
    found = written(one(Mark("e", "wrong", "d", says)), tmp_path)
    assert says in found["ann"].text
    assert "One. Two? Three! …" in found["class"].text
    assert "Four" not in found["class"].text
    found = written(one(Mark("e", "wrong", "d", "x" * 5000)), tmp_path)
    assert "x" * 399 + "…" in found["class"].text
    assert "x" * 400 not in found["class"].text


def test_the_sixth_diagnosis_unfolds(tmp_path):
    made = a_class(8)
    graded = tuple(
        Graded(s.key, "01_attention", s.key, (Mark("scores", "wrong", f"d{i}", f"Says {i}."),))
        for i, s in enumerate(made.students)
    )
    source = written(replace(made, graded=graded), tmp_path)["class"].source
    below = part(source, '<h4 id="of-01_attention-scores">', "</section>")
    assert [f"<code>d{i}</code>" in below for i in range(8)] == [True] * 8
    assert "<summary>3 more</summary>" in below
    assert below.index("d4</code>") < below.index("3 more") < below.index("d5</code>")


def test_the_teachers_page_is_the_same_after_results_went_to_a_file_and_back(tmp_path):
    results = a_class(20, unsafe=True)
    records.write(results, tmp_path / "results.json")
    again = records.read(tmp_path / "results.json")
    made = [written(x, tmp_path / str(i)) for i, x in enumerate((results, again))]
    assert made[0]["class"].source == made[1]["class"].source
    assert made[0].keys() == made[1].keys()
    assert pages.summary(results) == pages.summary(again)
