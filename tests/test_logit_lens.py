"""LogitLens: what it reads out of the logits, its picture, words and errors."""

import json

import numpy as np
import pytest
import torch

from tfcourse.inside import logit_lens
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.widgets import LogitLens

VOCABULARY = ["a", "b", "c", " the", "\n", "<b>", "$x$"]
TEXT = ["a", "b", " the", "\n", "a"]


def logits(layers=3, size=7):
    return 2 * torch.randn(layers, 5, size, generator=torch.Generator().manual_seed(0))


def test_it_takes_what_the_lens_of_a_model_gives():
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(7, 12, 3, 3)).eval()
    ids = torch.tensor([[0, 1, 3, 4, 0]])
    lens = logit_lens(model, ids)
    view = LogitLens(lens, VOCABULARY, TEXT)
    assert view.chances.shape == (4, 5, 5)
    with torch.no_grad():
        odds = model(ids)[0].double().softmax(-1)
    assert view.chances[-1, :, 0] == pytest.approx(odds.max(-1).values.numpy(), rel=1e-5)
    assert view.actual[-1, 1] == pytest.approx(odds[1, 3].item(), rel=1e-5)


def test_what_is_read_out_is_torch_s():
    lens = logits()
    view = LogitLens(lens, VOCABULARY, TEXT)
    odds = lens.double().softmax(-1)
    top = odds.topk(5, dim=-1)
    assert np.array_equal(view.top, top.indices)
    assert np.allclose(view.chances, top.values)
    assert np.allclose(view.entropy, torch.special.entr(odds).sum(-1))
    for i, following in enumerate([1, 3, 4, 0]):
        own = odds[:, i, following]
        assert np.allclose(view.actual[:, i], own)
        assert view.rank[:, i].tolist() == (odds[:, i] > own[:, None]).sum(-1).add(1).tolist()
    assert view.rank[:, -1].tolist() == [0, 0, 0]


def test_of_equal_ones_the_first_is_named_and_only_it_has_rank_1():
    view = LogitLens(torch.zeros(1, 3, 3), ["a", "b", "c"], ["a", "b", "a"])
    assert view.top[0, :, 0].tolist() == [0, 0, 0]
    assert view.rank.tolist() == [[2, 1, 0]]
    assert view.right == [1]
    lens = torch.zeros(1, 2, 500)
    lens[..., ::2] = 1
    many = LogitLens(lens, [str(i) for i in range(500)], [9, 400])
    assert many.top[0, 0].tolist() == [0, 2, 4, 6, 8]
    assert many.rank[0, 0] == 201


def test_the_words_count_what_each_layer_knows():
    lens = torch.zeros(3, 4, 3)
    for layer, place, token in ((0, 0, 0), (1, 0, 1), (2, 0, 1), (1, 1, 0), (2, 1, 2), (2, 2, 0)):
        lens[layer, place, token] = 5.0
    view = LogitLens(lens, ["a", "b", " c"], ["a", "b", " c", "a"])
    assert view.alt == (
        "Grid of 4 tokens and 3 layers. Of the 3 places whose next token is known, the likeliest "
        "token is the right one: with the embedding alone in 1, after 1 block in 2, after 2 blocks "
        "(the output) in 3. Found last:  c after b, after 2 blocks (the output)."
    )


def test_words_where_nothing_is_known():
    lens = torch.zeros(2, 2, 3)
    lens[..., 2] = 5
    alt = LogitLens(lens, ["a", "b", "c"], ["a", "b"]).alt
    assert alt.endswith("with the embedding alone in 0, after 1 block (the output) in 0.")


def test_only_what_is_shown_is_sent():
    size = 4000
    lens = torch.randn(7, 64, size, generator=torch.Generator().manual_seed(1))
    view = LogitLens(lens, [f"token {i}" for i in range(size)], list(range(64)))
    assert len(json.dumps(view.state)) + len(view._deflated) < 60_000
    assert len(view.html()) - len(view.fallback()) < 120_000


def test_the_text_may_be_numbers():
    lens = logits()
    by_name = LogitLens(lens, VOCABULARY, TEXT)
    for ids in ([0, 1, 3, 4, 0], torch.tensor([0, 1, 3, 4, 0]), np.array([0, 1, 3, 4, 0])):
        assert LogitLens(lens[:, None], VOCABULARY, ids).state == by_name.state


def test_the_picture():
    view = LogitLens(logits(), VOCABULARY, TEXT)
    axes = view.picture.figure.axes[0]
    written = [text.get_text() for text in axes.texts]
    cells = ["⏎" if VOCABULARY[i] == "\n" else VOCABULARY[i] for i in view.top[..., 0].ravel()]
    assert written[:15] == cells
    assert written[15:] == ["b", " the", "⏎", "a", "next is"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "embedding",
        "1 block",
        "2 blocks",
    ]
    assert len(axes.patches) == sum(view.right)
    assert np.allclose(axes.images[0].get_array(), view.chances[..., 0])
    assert view.picture.png().startswith(b"\x89PNG")


def test_of_a_long_text_the_picture_shows_the_beginning():
    lens = torch.randn(2, 40, 3)
    axes = LogitLens(lens, ["a", "b", "c"], ["a", "b"] * 20).picture.figure.axes[0]
    assert axes.images[0].get_array().shape == (2, 8)
    assert "the first 8 of 40 tokens" in axes.get_xlabel()


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: LogitLens(x[:, :4], VOCABULARY, TEXT), ValueError, r"\(5, 7\).*Got \(3, 4, 7\)"),
        (lambda x: LogitLens(x[0], VOCABULARY, TEXT), ValueError, r"Got \(5, 7\)"),
        (
            lambda x: LogitLens(torch.stack([x, x], 1), VOCABULARY, TEXT),
            ValueError,
            r"of one text alone, .* Got \(3, 2, 5, 7\)",
        ),
        (lambda x: LogitLens(x, VOCABULARY[:6], TEXT), ValueError, r"Got \(3, 5, 7\)"),
        (lambda x: LogitLens(x[:0], VOCABULARY, TEXT), ValueError, r"Got \(0, 5, 7\)"),
        (lambda x: LogitLens(x / 0, VOCABULARY, TEXT), ValueError, "lens must hold finite numbers"),
        (lambda x: LogitLens("x", VOCABULARY, TEXT), TypeError, "lens must hold real numbers"),
        (lambda x: LogitLens(x, "abc", TEXT), TypeError, "tokens must be a sequence"),
        (lambda x: LogitLens(x, VOCABULARY, "ab"), TypeError, "got one string; split it first"),
        (lambda x: LogitLens(x, VOCABULARY, 3), TypeError, "text must be a sequence of tokens"),
        (lambda x: LogitLens(x, VOCABULARY, ["a"]), ValueError, "at least two tokens, got 1"),
        (
            lambda x: LogitLens(x, VOCABULARY, ["a", "q"]),
            ValueError,
            r"text\[1\] must be a token of the vocabulary, got 'q'",
        ),
        (
            lambda x: LogitLens(x, [*VOCABULARY[:6], "a"], TEXT),
            ValueError,
            r"text\[0\], 'a', stands 2 times in the vocabulary: give the text as numbers",
        ),
        (
            lambda x: LogitLens(x, VOCABULARY, [0, 7]),
            ValueError,
            r"text\[1\] must be between 0 and",
        ),
        (lambda x: LogitLens(x, VOCABULARY, [0, 0.5]), TypeError, r"text\[1\] must be a string or"),
        (lambda x: LogitLens(x, VOCABULARY, TEXT, title=3), TypeError, "title must be a string"),
    ],
)
def test_bad_input(call, error, said):
    with pytest.raises(error, match=said):
        call(logits())
