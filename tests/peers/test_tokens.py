"""Byte pairs against the library `tokenizers`: the same ids on any text."""

import argparse
import inspect
import pathlib
import statistics
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tfcourse import pretrained
from tfcourse.tasks import python_manual
from tfcourse.tokens import BytePairEncoding, letter_of_byte

ODD = (
    "", " ", "\n", "  \n\t x", "don't we'll I'm", "12 345,678.90", "½ ² Ⅷ 三", "naïve café",
    "🙂👩🏽‍🚀 é", "日本語のテキスト", "نص عربي ١٢٣", "for i in range(10):\n    x[i] += 1\n",
    "a" * 300, " " * 50 + "x", "<|im_start|>user\nHi<|im_end|>", "<|im_start", "\u2028\u00a0\x00",
)  # fmt: skip


def theirs(ours):
    """The same vocabulary and merges in the library."""
    letters = letter_of_byte()

    def spell(token):
        return "".join(map(letters.__getitem__, token))

    special = {i: text for text, i in ours.special.items()}
    words = {special.get(i) or spell(token): i for i, token in enumerate(ours.tokens)}
    pairs = [(spell(left), spell(right)) for left, right in ours.merges]
    made = Tokenizer(models.BPE(words, pairs))
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if ours.digits:
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([*ours.special])
    return made


@cache
def pair(kind):
    if kind == "published":
        if pretrained.SMOLLM2.find() is None:
            pytest.skip("SmolLM2 is not installed")
        ours = pretrained.read_smollm2_tokens()
    else:
        ours = BytePairEncoding.train(python_manual()[:60_000], 700, digits=kind == "digits")
    return ours, theirs(ours)


# What letters and digits are differs between versions of Unicode: what Python here does not know
# yet, the library may.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"], max_codepoint=0x1FFFF), max_size=60)
KINDS = ("trained", "digits", "published")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=300, deadline=None)
@given(text=TEXT | st.text(" \n\tab'tsre01.,<|im_start>", max_size=40))
@example("a \n  b")
def test_the_same_ids_on_any_text(kind, text):
    ours, library = pair(kind)
    assert ours.encode(text) == library.encode(text).ids
    if {bytes([byte]) for byte in text.encode()} <= set(ours.tokens):
        assert ours.decode(ours.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_the_same_ids_on_odd_texts(kind, text):
    ours, library = pair(kind)
    assert ours.encode(text) == library.encode(text).ids


def test_the_same_ids_on_ten_thousand_lines():
    ours, library = pair("published")
    code = "".join(map(inspect.getsource, (argparse, pathlib, statistics)))
    lines = [text.splitlines(keepends=True)[:5_000] for text in (code, python_manual())]
    lines = [line for part in lines for line in part]
    text = "".join(lines)
    assert len(lines) == 10_000
    assert [ours.encode(line) for line in lines] == [
        found.ids for found in library.encode_batch(lines)
    ]
    assert ours.decode(ours.encode(text)) == text
