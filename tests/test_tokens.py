"""Byte pairs: what training finds, what a text becomes, and back; `peers/` has the library's."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcourse.tasks import python_manual
from tfcourse.tokens import BytePairEncoding, cut, letter_of_byte, published


@pytest.fixture(scope="module")
def trained():
    return BytePairEncoding.train(python_manual()[:100_000], 600)


def test_training_takes_the_commonest_pair_first():
    found = BytePairEncoding.train("low low low lower newest newest widest", 260)
    # "lo" and "ow" stand there four times each: the first in the order of bytes comes first.
    assert found.merges[:2] == ((b"l", b"o"), (b"lo", b"w"))
    assert found.tokens[256:258] == (b"lo", b"low")
    assert found.size == 260


def test_training_ends_where_there_are_no_more_pairs():
    assert BytePairEncoding.train("ab ab", 999).tokens[256:] == (b"ab", b" ab")
    assert BytePairEncoding.train("", 300).size == 256


def test_equal_letters_in_a_row_are_counted_as_they_merge():
    found = BytePairEncoding.train("aaaaa", 258)
    assert found.merges == ((b"a", b"a"), (b"aa", b"a"))  # "aa" + "aa" would come second
    assert found.encode("aaaaa") == [256, 257]


@given(st.binary(max_size=80))
def test_any_bytes_come_back(trained, data):
    ids = trained.encode(data)
    assert trained.bytes(ids) == data
    assert all(0 <= i < trained.size for i in ids)


@given(st.text(max_size=60))
def test_any_text_comes_back(trained, text):
    assert trained.decode(trained.encode(text)) == text
    assert "".join(piece.decode() for piece in cut(text)) == text
    assert "".join(piece.decode() for piece in cut(text, digits=True)) == text


def test_fewer_tokens_than_characters(trained):
    text = python_manual()[100_000:120_000]
    assert len(trained.encode(text)) < 0.6 * len(text)


def test_the_steps_end_with_the_tokens(trained):
    steps = trained.steps(" statement")
    assert steps[0] == [bytes([byte]) for byte in b" statement"]
    assert [b"".join(step) for step in steps] == [b" statement"] * len(steps)
    assert all(len(a) > len(b) for a, b in itertools.pairwise(steps))
    assert [trained.tokens[i] for i in trained.encode(" statement")] == steps[-1]


def test_a_special_token_is_one_and_no_merge_makes_it():
    tokens = [*(bytes([i]) for i in range(256)), b"<end>", b"<<"]
    found = BytePairEncoding(tokens, [(b"<", b"<")], special={"<end>": 256})
    assert found.encode("a<end><<end") == [97, 256, 257, *b"end"]
    assert found.decode([97, 256]) == "a<end>"


def test_published_lists_are_read():
    letters = [*letter_of_byte().values()]
    assert len(set(letters)) == 256
    found = published([*letters, "Ġt", "<end>"], ["Ġ t"], {"<end>": 257}, digits=False)
    assert found.tokens[256:] == (b" t", b"<end>")
    assert found.encode("a t<end>")[1:] == [256, 257]
    with pytest.raises(ValueError, match="no vocabulary of byte pairs"):
        published([*letters, "日"], [], {}, digits=False)
    with pytest.raises(ValueError, match="no vocabulary of byte pairs"):
        published(letters, ["a b c"], {}, digits=False)
    with pytest.raises(ValueError, match=r"b'ab' is missing"):
        published(letters, ["a b"], {}, digits=False)


@pytest.mark.parametrize(
    ("does", "error", "says"),
    [
        (lambda t: t.encode(3), TypeError, "text must be a text, or bytes. Got int"),
        (lambda t: t.decode([t.size]), ValueError, "ids must be from 0 to 599. Got 600"),
        (lambda t: t.decode([-1]), ValueError, "Got -1"),
        (lambda t: t.train("a", 255), ValueError, "size must be"),
        (lambda t: t.train("a", 300.0), TypeError, "size must be"),
    ],
)
def test_bad_input(trained, does, error, says):
    with pytest.raises(error, match=says):
        does(trained)


def test_streamed_text_shows_a_letter_when_it_is_whole():
    encoding = BytePairEncoding.train("a", 256)
    written, said = [[]], []
    watch = encoding.streamed(said.append)
    for i in encoding.encode("aß🙂"):
        written[0].append(i)
        watch(written)
    assert said == ["a", "", "ß", "", "", "", "🙂"]


def test_streamed_text_is_printed_without_line_ends(capsys):
    encoding = BytePairEncoding.train("a", 256)
    watch = encoding.streamed()
    watch([[104]])
    watch([[104, 105]])
    assert capsys.readouterr().out == "hi"
