"""Claims: the verdict comes from a rule, the rule from an interval."""

import random

import nbformat
import pytest

from tests.conftest import ROOT
from tfcourse import Claims
from tfcourse.authoring.verdicts import verdicts_of
from tfcourse.claims import MIME, claim, known_claims
from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    ONLY_IF,
    Claim,
    Difference,
    Judged,
    alike,
    lower,
    paired,
)


def test_every_claim_is_whole():
    shown = {}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        shown |= verdicts_of(nbformat.read(path, as_version=4))
    assert shown.keys() == known_claims().keys()
    for id, one in known_claims().items():
        assert len(one.rule) > 10, id
        assert not one.link or one.link.startswith("https://"), id


def test_a_number_is_not_broken_over_two_lines():
    claims = Claims("01_attention")
    claims.add("agrees-with-pytorch", 8e-06)
    html = claims._repr_mimebundle_()["text/html"]
    assert 'difference <span style="white-space:nowrap">8e-06</span> <small>' in html


def test_a_table(monkeypatch):
    made = (
        Claim("a", "<b> is 1", "equal to 1e-6", lambda x: Judged(f"{x}", HOLDS), computed=True),
        Claim(
            "c", "it grows", "by more than its interval", lambda x: Judged("no", NOT_HERE),
            source="Someone, 2017", link="https://arxiv.org/abs/1",
        ),
        Claim("d", "e", "f and only then", lambda **_: Judged("2", ONLY_IF, "it rains")),
        Claim("u", "v", "the interval says", lambda: Judged("±", CANNOT_TELL)),
    )  # fmt: skip
    monkeypatch.setattr("tfcourse.claims.known_claims", lambda: {c.id: c for c in made})
    claims = Claims("01_attention")
    claims.add("a", 7)
    claims.add("c", 2)
    claims.add("a", 1.5)  # its cell is run once more: not a second row
    claims.add("d", other=3)
    claims.add("u")
    data = claims._repr_mimebundle_()
    assert "&lt;b&gt;" in data["text/html"]
    assert '<a href="https://arxiv.org/abs/1">Someone, 2017</a>' in data["text/html"]
    assert data["text/html"].count("<tr>") == 5
    assert data["text/plain"].splitlines() == [
        "✓ a: <b> is 1 | computed: 1.5 | holds",
        "✗ c: “it grows” (Someone, 2017) | measured: no | does not hold here",
        "✓ d: e | measured: 2 | holds only if it rains",
        "? u: v | measured: ± | cannot tell",
    ]
    assert data[MIME] == {"a": HOLDS, "c": NOT_HERE, "d": ONLY_IF, "u": CANNOT_TELL}
    with pytest.raises(ValueError, match="there is no claim 'grows'. Did you mean"):
        claims.add("grows", 1)


def test_a_claim_and_a_verdict_are_checked():
    with pytest.raises(ValueError, match="verdict must be one of"):
        Judged("1", "true")
    with pytest.raises(ValueError, match="only_if goes with"):
        Judged("1", ONLY_IF)
    with pytest.raises(ValueError, match="only_if goes with"):
        Judged("1", HOLDS, "it rains")
    with pytest.raises(ValueError, match="a source has its link"):
        Claim("a", "b", "c", lambda: None, source="someone")


def test_the_interval_is_that_of_students_t():
    gap = paired([1.0, 2.0, 3.0, 4.0], [1.1, 2.2, 3.1, 4.3])
    assert (gap.mean, gap.pairs) == (pytest.approx(-0.175), 4)
    assert (gap.low, gap.high) == pytest.approx((-0.3273, -0.0227), abs=1e-4)
    assert claim._t_quantile(4) == pytest.approx(2.7764, abs=1e-4)
    with pytest.raises(ValueError, match="at least three pairs. Got 2 and 2"):
        paired([1, 2], [3, 4])
    broken = paired([1.0, 2.0, float("nan")], [1.0, 1.0, 1.0])
    assert lower(broken) == CANNOT_TELL


def test_the_interval_covers_what_it_should():
    """Of 95% intervals over four pairs about 95 in 100 hold the true difference."""
    dice = random.Random(0)
    held = 0
    for _ in range(400):
        base = [dice.gauss(0, 5) for _ in range(4)]
        gap = paired([b + dice.gauss(1, 0.3) for b in base], [b + dice.gauss(0, 0.3) for b in base])
        held += gap.low < 1 < gap.high
    assert 365 <= held <= 394


def test_three_outcomes():
    below, across, above = (Difference(m, m - 0.1, m + 0.1, 5) for m in (-0.2, 0.0, 0.2))
    assert [lower(d) for d in (below, across, above)] == [HOLDS, CANNOT_TELL, NOT_HERE]
    assert lower(below, by=0.15) == CANNOT_TELL
    assert lower(below, by=0.5) == NOT_HERE
    assert [alike(d, 0.15) for d in (below, across, above)] == [CANNOT_TELL, HOLDS, CANNOT_TELL]
    assert [alike(d, 0.05) for d in (below, across, above)] == [NOT_HERE, CANNOT_TELL, NOT_HERE]
