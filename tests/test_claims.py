"""The table of claims: its verdict comes from a comparison."""

import pytest

from tfcourse import Claims


def test_verdicts():
    claims = Claims("01_attention")
    claims.add("a", "1", "1.0", True)
    claims.add("b", "2", "3", False)
    claims.add("c", "<b>", "5", True, only_if="it rains")
    claims.add("d", "6", "7", False, only_if="it snows")
    assert [row.verdict for row in claims.rows] == [
        "holds",
        "does not hold here",
        "holds only if it rains",
        "does not hold here (it would if it snows)",
    ]
    data = claims._repr_mimebundle_()
    assert "&lt;b&gt;" in data["text/html"]
    assert data["text/html"].count("<tr>") == 5
    assert data["text/plain"].splitlines()[1] == (
        "01_attention: b: in print 2, measured 3: does not hold here"
    )


def test_a_verdict_is_the_bool_of_a_comparison():
    claims = Claims("x")
    with pytest.raises(TypeError, match="holds: expected the bool of a comparison, got 1"):
        claims.add("a", "1", "1", 1)
    with pytest.raises(TypeError, match="measured: expected a string, got 2"):
        claims.add("a", "1", 2, True)
