"""tfcourse.tasks: text as numbers, windows of it, and what a model's loss on it is."""

import math

import pytest
import torch
from torch import nn

from tfcourse.tasks import CharacterText, python_manual

TEXT = "abcab" * 40


@pytest.fixture
def text():
    return CharacterText(TEXT, held_out=0.25)


class Uniform(nn.Module):
    """Gives every character the same score."""

    def __init__(self, vocabulary):
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens):
        self.was_training = self.training
        return self.scores.expand(*tokens.shape, -1)


def test_the_manual_is_a_long_text():
    manual = python_manual()
    assert len(manual) > 300_000
    assert "for_stmt" in manual


def test_windows_are_shifted_by_one_and_come_back_as_text(text):
    inputs, targets = text.batch(8, 5, torch.Generator().manual_seed(0))
    assert inputs.shape == targets.shape == (8, 5)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert all(text.decode(row) in TEXT for row in inputs)


def test_the_same_seed_gives_the_same_batch(text):
    first, again = (text.batch(4, 6, torch.Generator().manual_seed(7))[0] for _ in range(2))
    assert torch.equal(first, again)


def test_nothing_held_out_is_trained_on():
    text = CharacterText("a" * 90 + "b" * 10, held_out=0.1)
    inputs, targets = text.batch(200, 3, torch.Generator().manual_seed(0))
    assert set(text.decode(torch.cat([inputs, targets]).flatten())) == {"a"}
    held_out, _ = text.batch(20, 3, torch.Generator().manual_seed(0), part="held out")
    assert set(text.decode(held_out.flatten())) == {"b"}


def test_losses_of_one_who_knows_nothing(text):
    model = Uniform(3).train()
    losses = text.losses(model, 10, windows=7)
    assert losses.shape == (7, 10)
    assert losses.mean().item() == pytest.approx(math.log(3))
    assert not model.was_training
    assert model.training


def test_unigram_entropy():
    assert CharacterText("ab" * 50).unigram_entropy() == pytest.approx(math.log(2))
    assert CharacterText("aaaa" * 9).unigram_entropy() == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda text: text.batch(2, 5, torch.Generator(), "test"), "part must be one of train"),
        (lambda text: text.losses(Uniform(3), 50), "tokens must be below the 50 characters"),
    ],
)
def test_errors_say_what_is_expected(text, call, said):
    with pytest.raises(ValueError, match=said):
        call(text)


def test_text_must_be_text():
    with pytest.raises(TypeError, match="text must be a string. Got bytes"):
        CharacterText(b"abc")
