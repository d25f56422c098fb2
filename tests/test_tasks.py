"""tfcourse.tasks: text as numbers, windows of it, and what a model's loss on it is."""

import datetime
import math

import pytest
import torch
from torch import nn

from tfcourse.tasks import (
    DATE_FORMATS,
    CharacterText,
    Dates,
    MarkovText,
    python_manual,
    repeated_sequences,
)

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


# --- a learner's own text -------------------------------------------------------------------


def test_a_text_file_of_any_language(tmp_path):
    text = "Καλημέρα κόσμε. 早上好。\n" * 200
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    found = CharacterText.from_file(path)
    assert found.decode(found.encode("κόσμε 早")) == "κόσμε 早"
    assert found.vocabulary == sorted(set(text))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "'mine.txt' has 0"),
        (b"too short", "at least 2,000 characters.*'mine.txt' has 9"),
        ("é".encode("latin-1") * 3000, "byte 0 is none of it.*save it as UTF-8"),
        (b"abc\0" * 1000, "holds zero bytes"),
        (b"%PDF-1.7 ..." * 400, "Got a PDF: save it as text"),
        (b"PK\x03\x04" * 900, "Got an office document or an archive"),
    ],
)
def test_a_file_that_is_no_text(tmp_path, content, said):
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        CharacterText.from_file(path)
    assert path.read_bytes() == content


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no 'mine.txt' in"):
        CharacterText.from_file(tmp_path / "mine.txt")
    with pytest.raises(IsADirectoryError, match="Got a folder"):
        CharacterText.from_file(tmp_path)
    with pytest.raises(TypeError, match="path must be the name of a text file. Got 3"):
        CharacterText.from_file(3)


def test_an_unknown_character_in_a_prompt(text):
    assert text.decode(text.encode("cab")) == "cab"
    with pytest.raises(ValueError, match="Not among them: 'ß' 'é'. Leave them out"):
        text.encode("aßéa")
    with pytest.raises(ValueError, match="and 2 more"):
        text.encode("defghij")
    with pytest.raises(TypeError, match="text must be a string. Got int"):
        text.encode(3)


def test_bits_per_byte():
    assert CharacterText("ab" * 50).bits_per_byte(math.log(2)) == pytest.approx(1)
    assert CharacterText("é" * 100).bits_per_byte(math.log(2)) == pytest.approx(0.5)


# --- dates ----------------------------------------------------------------------------------


def test_dates_in_every_format():
    day = datetime.date(2021, 3, 3)
    assert [make(day) for make in DATE_FORMATS.values()] == list(DATE_FORMATS)
    nth = DATE_FORMATS["3rd of march 2021"]
    said = [nth(datetime.date(2000, 1, day)).split()[0] for day in (1, 2, 3, 4, 11, 12, 13, 21, 31)]
    assert said == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "31st"]


def test_a_batch_of_dates():
    dates, generator = Dates(), torch.Generator().manual_seed(0)
    pairs = dates.batch(200, generator)
    texts = dates.texts(200, torch.Generator().manual_seed(0))
    for row, length, target, (source, wanted) in zip(
        pairs.source, pairs.lengths, pairs.target, texts, strict=True
    ):
        assert dates.decode(row) == source
        assert len(source) == length
        assert (row[length:] == dates.PADDING).all()
        assert target[0] == dates.START
        assert target[-1] == dates.STOP
        assert dates.decode(target) == wanted
        datetime.date.fromisoformat(wanted)


def test_days_held_out_are_never_trained_on():
    dates = Dates()
    days = [
        {day for _, day in dates.texts(20_000, torch.Generator().manual_seed(1), part)}
        for part in ("train", "held out")
    ]
    assert not days[0] & days[1]
    assert len(days[1]) > 6000


def test_dates_that_are_none():
    with pytest.raises(ValueError, match="texts must be dates such as .*Got '!'"):
        Dates().encode(["3 mar 2021!"])
    with pytest.raises(ValueError, match="Got an empty one"):
        Dates().encode([""])


# --- repeated sequences, and a source of known entropy --------------------------------------


def test_the_second_half_repeats_the_first():
    tokens = repeated_sequences(5, 7, 32, torch.Generator().manual_seed(0))
    assert tokens.shape == (5, 14)
    assert torch.equal(tokens[:, :7], tokens[:, 7:])
    assert len(tokens.unique()) > 10


def test_the_entropy_rate_of_a_source():
    source = MarkovText(seed=1)
    assert source.next.sum(-1).allclose(torch.ones(8, 8, dtype=torch.float64))
    # Whoever knows the truth loses as much on a long text as the rate says.
    text = source.batch(400, 500, torch.Generator().manual_seed(0))
    truth = source.log_probabilities(text)[:, :-1]
    losses = -truth.gather(-1, text[:, 2:, None])[..., 0]
    spread = losses.mean(1).std().item() / 400**0.5
    assert losses.mean().item() == pytest.approx(source.entropy_rate, abs=4 * spread)
    assert spread < 0.003


def test_the_stationary_pairs_stay():
    source = MarkovText(5, concentration=1.0, seed=2)
    after = torch.einsum("ab,abc->bc", source.pairs, source.next)
    assert torch.allclose(after, source.pairs, atol=1e-12)
    assert source.pairs.sum().item() == pytest.approx(1)


def test_a_source_is_the_same_for_the_same_seed_and_leaves_torchs_randomness():
    state = torch.get_rng_state()
    assert torch.equal(MarkovText(seed=3).next, MarkovText(seed=3).next)
    assert not torch.equal(MarkovText(seed=3).next, MarkovText(seed=4).next)
    assert torch.equal(torch.get_rng_state(), state)
