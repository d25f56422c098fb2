"""reveal: after the third hint, or for those who insist; in the colours of the theme."""

import re

import pytest

from tfcourse import hint, reveal
from tfcourse.checks import store
from tfcourse.checks.telling import Message

pytestmark = pytest.mark.usefixtures("home")
SOLUTION = "scores = scores.masked_fill(~mask"


def told(capsys, *args, **named):
    capsys.readouterr()
    reveal(*args, **named)
    return capsys.readouterr().out


def test_before_the_third_hint_it_says_how_many_are_left(capsys):
    for left in ("3 hints are left", "2 hints are left", "One hint is left"):
        said = told(capsys, "masked_heads")
        assert left in said
        assert 'hint("masked_heads")' in said
        assert 'reveal("masked_heads", anyway=True)' in said
        assert SOLUTION not in said
        assert "revealed" not in store.read()["exercises"].get("masked_heads", {})
        hint("masked_heads")
    said = told(capsys, "masked_heads")
    assert SOLUTION in said
    assert "###" not in said
    assert "unsqueeze" not in said  # the code as given is not the solution
    assert "revealed" in store.read()["exercises"]["masked_heads"]


def test_for_those_who_insist(capsys):
    assert SOLUTION in told(capsys, "masked_heads", anyway=True)
    assert "revealed" in store.read()["exercises"]["masked_heads"]


def test_who_was_right_may_compare(capsys):
    store.record_exercise("masked_heads", "right", "right")
    assert SOLUTION in told(capsys, "masked_heads")


def test_where_the_sources_are_not(capsys, monkeypatch):
    monkeypatch.setattr("tfcourse.checks.solutions._places", list)
    for anyway in (False, True):
        said = told(capsys, "masked_heads", anyway=anyway)
        assert "Solutions are not part of this copy of the course" in said
    assert store.read()["exercises"] == {}


def test_the_code_has_the_colours_of_the_theme():
    code = 'def f(a):\n    # <b>why</b>\n    return "s" + a\n'
    html = Message("note", "f", "One way:", code=code)._repr_mimebundle_()["text/html"]
    for kind, text in (
        ("keyword", "def"),
        ("comment", "# &lt;b&gt;why&lt;/b&gt;"),
        ("keyword", "return"),
    ):
        assert re.search(
            rf"var\(--jp-mirror-editor-{kind}-color\)[^>]*>{re.escape(text)}</span>", html
        )
    assert "<b>why" not in html
    assert repr(Message("note", "f", "One way:", code=code)).endswith(code)
