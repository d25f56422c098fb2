"""NextToken: its odds are those of `next_token_probabilities`; its picture, words and errors."""

import numpy as np
import pytest
import torch

from tfcourse.generation import next_token_probabilities
from tfcourse.widgets import NextToken
from tfcourse.widgets.view import pack

LETTERS = list("abcdefghijklmnopqrstuvwxyz \n")


def logits(rows=2, size=28):
    return 2 * torch.randn(rows, size, generator=torch.Generator().manual_seed(0))


def test_the_words_name_the_likeliest_and_what_is_left():
    odds = torch.tensor([0.05, 0.6, 0.3, 0.05])
    view = NextToken(odds.log(), ["a", " ", "c", "\n"], "To  be", temperature=1.0, top_p=0.75)
    assert view.alt == (
        "After “To  be”, at temperature 1, top-p 0.75, the likeliest next tokens are ␣ 67%, "
        "c 33%; 2 of 4 tokens are left. Entropy: 0.97 nats with temperature 1 and nothing left "
        "out, 0.64 so."
    )
    assert view.text.startswith("Which token comes next? After")


def test_what_is_equal_to_the_last_kept_one_is_kept():
    odds = torch.tensor([0.25, 0.125, 0.5, 0.125])
    for options, left in (({"top_k": 3}, 4), ({"top_p": 0.76}, 4), ({"top_p": 0.74}, 2)):
        assert np.count_nonzero(NextToken(odds.log(), list("abcd"), **options).probabilities()) == (
            left
        )


def test_greedy_is_the_first_of_equals():
    view = NextToken([1.0, 3.0, 3.0], list("abc"), temperature=0, top_k=2)
    assert view.probabilities().tolist() == [0, 1, 0]
    assert (
        "temperature 0 (greedy), the likeliest next tokens are b 100%; 1 of 3 token is left"
        in view.alt
    )
    assert "0.00 so" in view.alt


def test_the_odds_are_torch_s_of_the_very_logits():
    """Float32 goes to the browser as it is: no two logits become equal on the way."""
    found = logits()
    view = NextToken(found, LETTERS, temperature=0.7, top_k=9, top_p=0.8)
    assert np.array_equal(view.logits, found.numpy())
    sent = np.frombuffer(view.data, dtype=np.float32).reshape(2, -1)
    assert np.array_equal(sent, found.numpy())
    want = next_token_probabilities(found.double(), 0.7, 9, 0.8).numpy()
    assert np.array_equal(view.probabilities(1), want[1])


def test_float32_travels_as_it_is_beside_the_other_kinds():
    arrays = {
        "yes": np.array([True]),
        "single": np.array([1.00000012, 3.0], dtype=np.float32),
        "half": np.array([0.5]),
    }
    blocks, data = pack(arrays)
    assert [blocks[name]["kind"] for name in arrays] == ["bool", "single", "half"]
    start = blocks["single"]["offset"]
    assert start % 4 == 0
    assert np.array_equal(np.frombuffer(data[start : start + 8], np.float32), arrays["single"])


def bars(view):
    """What the picture shows: [(label, length of its bar), …] from the top."""
    axes = view.picture.figure.axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    return list(zip(labels, [bar.get_width() for bar in axes.patches], strict=True))


def test_the_picture_shows_the_first_context_at_its_settings():
    found = logits()
    view = NextToken(found, LETTERS, ["a", "b"], temperature=1.5, top_k=20)
    odds = next_token_probabilities(found[0].double(), 1.5, 20).sort(descending=True)
    shown = bars(view)
    assert len(shown) == 15
    assert [length for _, length in shown[:14]] == pytest.approx(odds.values[:14].tolist())
    assert shown[0][0] == LETTERS[odds.indices[0]]
    assert shown[-1] == ("14 others", pytest.approx(odds.values[14:].sum().item()))
    assert view.picture.png().startswith(b"\x89PNG")


def test_a_single_token_is_no_others():
    found = logits(1, 15)
    assert len(bars(NextToken(found, LETTERS[:15]))) == 15
    assert all("others" not in label for label, _ in bars(NextToken(found, LETTERS[:15])))


def test_hostile_strings_in_picture_and_words():
    evil = ["<img src=x onerror=alert(1)>", "$x$", "</script>"]
    view = NextToken([1.0, 2.0, 0.0], evil, ["</script><b>$y$"])
    assert view.html().count("</script>") == 1
    assert "<b>" not in view.html().split("<script>")[0]
    assert view.picture.png()


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: NextToken([[[1.0, 2]]], ["a", "b"]), ValueError, r"Got \(1, 1, 2\)"),
        (lambda: NextToken([1.0, 2, 3], ["a", "b"]), ValueError, "vocabulary=2, as there are tok"),
        (lambda: NextToken(np.zeros((0, 2)), ["a", "b"]), ValueError, r"Got \(0, 2\)"),
        (lambda: NextToken([1.0], ["a"]), ValueError, "tokens must be at least two"),
        (lambda: NextToken([1.0, 2], "ab"), TypeError, "tokens must be a sequence of strings"),
        (lambda: NextToken(["a", "b"], ["a", "b"]), TypeError, "logits must hold real numbers"),
        (lambda: NextToken([1.0, np.inf], ["a", "b"]), ValueError, "logits must hold finite"),
        (lambda: NextToken([1.0, np.nan], ["a", "b"]), ValueError, "logits must hold finite"),
        (lambda: NextToken([1.0, 1e300], ["a", "b"]), ValueError, "logits must hold finite"),
        (
            lambda: NextToken([[1.0, 2], [3, 4]], ["a", "b"], ["x"]),
            ValueError,
            "one text for each row of logits, 2. Got 1",
        ),
        (
            lambda: NextToken([[1.0, 2], [3, 4]], ["a", "b"], "xy"),
            TypeError,
            "contexts must be a sequence of strings, got one string",
        ),
        (lambda: NextToken([1.0, 2], ["a", "b"], [3]), TypeError, r"contexts\[0\] must be a str"),
        (
            lambda: NextToken([1.0, 2], ["a", "b"], temperature=3.1),
            ValueError,
            "temperature must be between 0 and 3, got 3.1",
        ),
        (
            lambda: NextToken([1.0, 2], ["a", "b"], temperature="hot"),
            TypeError,
            "temperature must be a number, got 'hot'",
        ),
        (
            lambda: NextToken([1.0, 2], ["a", "b"], temperature=float("nan")),
            ValueError,
            "temperature must be between",
        ),
        (lambda: NextToken([1.0, 2], ["a", "b"], top_k=0), ValueError, "between 1 and 2, got 0"),
        (lambda: NextToken([1.0, 2], ["a", "b"], top_k=3), ValueError, "between 1 and 2, got 3"),
        (lambda: NextToken([1.0, 2], ["a", "b"], top_k=1.5), TypeError, "top_k must be an int"),
        (lambda: NextToken([1.0, 2], ["a", "b"], top_p=0), ValueError, "top_p must be above 0"),
        (lambda: NextToken([1.0, 2], ["a", "b"], top_p=True), TypeError, "top_p must be a number"),
        (lambda: NextToken([1.0, 2], ["a", "b"], title=1), TypeError, "title must be a string"),
    ],
)
def test_bad_input(call, error, said):
    with pytest.raises(error, match=said):
        call()
