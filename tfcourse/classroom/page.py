"""What all pages share: how text becomes HTML, and the page around what is on it.

A page is one file that runs no script and asks no host for anything: it says so to the browser too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from tfcourse.classroom.records import Results, Title
from tfcourse.inline import inline_code

STATES = {  # a sign and a word each, so that no colour says anything alone
    "right": ("✓", "right"),
    "wrong": ("✗", "not right yet"),
    "to do": ("○", "to do"),
    "not judged": ("–", "not judged"),
}
UNSAFE = (
    "Graded without a sandbox. The answers ran with all that the grader's account may do: one of "
    "them could have read, changed or forged any file, so these points are less certain than they "
    "look."
)
OURS = '<meta name="generator" content="tfcourse class">'
_UNSEEN = {  # control characters, and those that turn the direction of what follows
    **dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)]),
    **dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)]),
    **dict.fromkeys(range(0xD800, 0xE000), "�"),  # of file names that are no text
}


def clean(given: str) -> str:
    """Text without characters that are not seen, or turn the direction of others."""
    return given.translate(_UNSEEN)


def text(given: str) -> str:
    """Text as HTML."""
    return escape(clean(given))


def named(given: str) -> str:
    """Text that somebody chose, whose direction stays its own."""
    return f"<bdi>{text(given)}</bdi>"


def told(given: str) -> str:
    """Escaped text in which `this` becomes code."""
    return inline_code(clean(given))


def number(value: float) -> str:
    """With two decimals at most."""
    return f"{round(value, 2):g}"


def many(count: int, what: str) -> str:
    """ "1 file" or "2 files"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def time(when: str) -> str:
    """A time as people write it; what is no ISO 8601 stays as it is."""
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return text(when)
    zone = f" <small>{text(moment.tzname())}</small>" if moment.tzinfo else ""
    return f'<time datetime="{text(when)}">{moment:%Y-%m-%d %H:%M}{zone}</time>'


def sign(state: str) -> str:
    """A state's sign; its word has to stand beside it."""
    return f'<span class="sign {css(state)}" aria-hidden="true">{STATES[state][0]}</span>'


def css(state: str) -> str:
    """A state as a class of the style."""
    return state.replace(" ", "-")


def called(title: Title) -> str:
    """An exercise's title and the name that it has in the notebook."""
    code = f"<code>{text(title.name)}</code>"
    return code if title.title == title.name else f"{text(title.title)} {code}"


def facts(rows: Iterable[tuple[str, str, str]]) -> str:
    """A list of a word, what it is, and a note."""
    items = "".join(
        f"<div><dt>{word}</dt><dd>{value}{f'<small>{note}</small>' if note else ''}</dd></div>"
        for word, value, note in rows
    )
    return f'<dl class="facts">{items}</dl>'


def whole(
    results: Results,
    title: str,
    heading: str,
    about: str,
    links: Sequence[tuple[str, str]],
    main: str,
    *,
    wide: bool = False,
) -> str:
    """A whole page. `title` is text, and `heading`, `about` and `main` are HTML.

    Args:
        links: to places in it: an id, and what is there.
    """
    skip = nav = banner = ""
    if links:
        items = "".join(f'<li><a href="#{text(id)}">{text(word)}</a></li>' for id, word in links)
        skip = '<a class="skip" href="#main">To the content</a>'
        nav = f'<nav aria-label="On this page"><ul>{items}</ul></nav>'
    if results.unsafe:
        banner = f'<p class="banner" role="note"><span aria-hidden="true">⚠</span> {UNSAFE}</p>'
    graded = f"; graded {time(results.when)}" if results.when else ""
    head = f'<h1>{heading}</h1><p class="faint">{about}{graded}</p>'
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n{OURS}\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body{' class=wide' * wide}>\n{skip}<header>{head}{nav}{banner}</header>\n"
        f'<main id="main">{main}</main>\n</body>\n</html>\n'
    )


_STYLE = """
:root { color-scheme: light dark;
  --paper: #ffffff; --raised: #f4f6f8; --line: #cfd5dc; --ink: #1c2128; --soft: #4f5864;
  --link: #0068a3; --right: #00734f; --wrong: #b34a00;
  --bar-right: #009e73; --bar-wrong: #d55e00; --stripe: #a84a00; --bar-open: #7d8793; }
@media screen and (prefers-color-scheme: dark) { :root {
  --paper: #14181d; --raised: #20262d; --line: #3b434e; --ink: #e8ebef; --soft: #b0b9c4;
  --link: #56b4e9; --right: #2fc496; --wrong: #ff9a52;
  --bar-right: #009e73; --bar-wrong: #e8741a; --stripe: #a84a00; --bar-open: #8a95a3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 48rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: break-word; }
body.wide { max-width: 62rem; }
h1, h2, h3, h4 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.8rem; margin: .2em 0; }
h2 { font-size: 1.35rem; margin: 2em 0 .5em; }
h3 { font-size: 1.1rem; margin: 1.6em 0 .4em; }
h4 { font-size: 1rem; margin: 1.6em 0 .5em; }
p { margin: .4em 0; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 2px; }
code { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; padding: .08em .2em;
  background: var(--raised); border-radius: 4px; overflow-wrap: anywhere; }
h3 code, h4 code, th code { font-weight: 400; }
small { font-size: .875rem; font-weight: 400; color: var(--soft); }
.faint { color: var(--soft); font-size: .9375rem; }
.right { color: var(--right); }
.wrong { color: var(--wrong); }
.to-do, .not-judged { color: var(--soft); }
.sign { display: inline-block; width: 1.1em; font-weight: 700; text-align: center; }
.tag { display: inline-block; padding: 0 .45em; border: 1px solid currentColor; border-radius: 99px;
  font-size: .875rem; font-weight: 600; white-space: nowrap; }
.banner { margin: 1.2em 0; padding: .7em 1em; border: 2px solid #1c2128; border-radius: 8px;
  background: #f0e442; color: #1c2128; }
.spoken, .skip:not(:focus) { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
nav ul { display: flex; flex-wrap: wrap; gap: .3em 1.2em; margin: .8em 0 0; padding: 0;
  list-style: none; }
.facts { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1em 0; }
.facts div { flex: 1 1 9rem; padding: .5em .9em; border-radius: 8px; background: var(--raised); }
.facts dt { color: var(--soft); font-size: .875rem; }
.facts dd { margin: 0; font-size: 1.15rem; font-weight: 600; }
.facts small { display: block; }
.opening { font-size: 1.15rem; }
.trouble { margin-top: 1.2em; padding: .2em 1em .6em; border: 2px solid var(--wrong);
  border-radius: 8px; }
.trouble h2 { margin-top: .5em; }
.trouble ul { padding-left: 1.4em; }
.marks { margin: 1.2em 0; padding: 0; list-style: none; }
.mark { padding: .35em .9em; border-left: 5px solid var(--line); margin: 0 0 .5em; }
.mark.right { border-color: var(--bar-right); }
.mark.wrong { border-color: var(--bar-wrong); }
.mark.counts { background: var(--raised); border-radius: 0 8px 8px 0; }
.mark, .mark.right, .mark.wrong, .mark.to-do { color: var(--ink); }
.mark:not(.right) { padding-bottom: .8em; margin-block: 1em; }
.mark code { background: none; padding: 0; }
.line { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1em; }
.line h3 { flex: 1 1 16rem; margin: .1em 0; font-size: 1.05rem; text-wrap: wrap; }
.line p { margin: .1em 0; }
.says { max-width: 44rem; white-space: pre-line; }
figure { margin: .8em 0 0; }
figure img, figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .875rem; }
summary { cursor: pointer; color: var(--link); width: fit-content; }
.earlier ul { padding-left: .4em; list-style: none; }
.earlier li { margin: .5em 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: start; padding-bottom: .5em; color: var(--soft); }
th, td { padding: .3em .7em; border-bottom: 1px solid var(--line); text-align: start;
  vertical-align: top; }
th:first-child { padding-left: 0; }
thead th, tfoot th { color: var(--soft); font-size: .9375rem; font-weight: 600; }
thead small { display: block; }
tbody th { font-weight: 500; }
.names { columns: 14rem; }
.chart { width: 100%; margin: .6em 0 1.5em; }
.chart caption { color: var(--ink); font-weight: 650; }
.chart caption small { display: block; }
.chart td, .chart thead th:not(:first-child) { text-align: end; padding-inline: .35em;
  white-space: nowrap; }
.chart td { vertical-align: bottom; }
.chart tbody th { width: 100%; }
.bar { display: flex; gap: 1px; height: .8rem; margin: .3rem 0 .2rem; border-radius: 3px;
  overflow: hidden; background: var(--raised); forced-color-adjust: none;
  -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.bar .right { background: var(--bar-right); }
.bar .wrong { background: repeating-linear-gradient(135deg, var(--bar-wrong) 0 6px,
  var(--stripe) 6px 9px); }
.bar .to-do { border: 1.5px solid var(--bar-open); }
.bar .not-judged { border: 1.5px dotted var(--bar-open); }
.told { padding-left: 1.6em; }
.told li { margin: 0 0 1em; }
.told p { margin: .2em 0; }
@media (max-width: 30rem) {
  .chart thead th:not(:first-child) { font-size: .75rem; white-space: normal; }
  .chart td { padding-inline: .1em; }
  .chart code { padding: 0; font-size: .75rem; background: none; }
  .chart .sign { display: block; width: auto; text-align: end; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav, .skip { display: none; }
  a { color: inherit; text-decoration: none; }
  .scroll { overflow: visible; }
  .mark, .told li, tr, .facts { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  details::details-content { display: block; content-visibility: visible; block-size: auto; }
}
"""
