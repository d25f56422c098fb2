"""What the course's models are trained on, all of it offline.

Python's manual or a text file of the learner's own; dates to translate; sequences that repeat
themselves; and a source of text whose entropy is known.
"""

from __future__ import annotations

import datetime
import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_number
from tfcourse.models import evaluating

PARTS = ("train", "held out")


def python_manual() -> str:
    """Python's reference manual, some 465,000 characters; it differs a little between versions."""
    from pydoc_data.topics import topics  # in every installation: what help("if") prints

    return "\n".join(topics[name] for name in sorted(topics))


LEAST = 2_000  # characters of a file that something can be learned from


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; any kind of line end.

    Raises:
        FileNotFoundError, IsADirectoryError: there is no such file.
        ValueError: it is not text, or has fewer than `LEAST` characters.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be the name of a text file. Got {path!r}.")
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"path must be a text file. Got a folder: {path}.")
    if not path.is_file():
        raise FileNotFoundError(
            f"path must be a text file. There is no {path.name!r} in {path.absolute().parent}."
        )
    content = path.read_bytes()
    for start, kind in ((b"%PDF", "a PDF"), (b"PK\x03\x04", "an office document or an archive")):
        if content.startswith(start):
            raise ValueError(f"path must be plain text. Got {kind}: save it as text (UTF-8) first.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"path must be plain text in UTF-8. In {path.name!r} byte {error.start} is none of it: "
            "open the file in an editor and save it as UTF-8."
        ) from None
    if "\x00" in text:
        raise ValueError(
            f"path must be plain text. {path.name!r} holds zero bytes, as no text does."
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) < LEAST:
        raise ValueError(
            f"path must be a text of at least {LEAST:,} characters, to learn from and to measure "
            f"with. {path.name!r} has {len(text):,}; from about 100,000 on it is fun."
        )
    return text


class CharacterText:
    """A text as a row of characters' numbers, its end held out from training.

    Args:
        text: any text.
        held_out: the share at its end that is kept for measuring.
        vocabulary: the characters, in the order of their numbers; default: those of the text.

    Raises:
        TypeError: text is no string.
        ValueError: it is empty, or holds a character that is not in the vocabulary.
    """

    def __init__(self, text: str, *, held_out: float = 0.1, vocabulary: list[str] | None = None):
        if not isinstance(text, str):
            raise TypeError(f"text must be a string. Got {type(text).__name__}.")
        if not text:
            raise ValueError("text must have at least one character. Got an empty one.")
        check_number("held_out", held_out, 0.0, 1.0)
        if vocabulary is not None and not (
            isinstance(vocabulary, (list, tuple))
            and all(isinstance(c, str) and len(c) == 1 for c in vocabulary)
            and len(set(vocabulary)) == len(vocabulary)
        ):
            raise ValueError(
                f"vocabulary must be a list of characters, each once. Got {vocabulary!r}."
            )
        self.vocabulary = sorted(set(text)) if vocabulary is None else list(vocabulary)
        self._number = {character: i for i, character in enumerate(self.vocabulary)}
        ids = torch.tensor(self.encode(text))
        cut = len(ids) - int(held_out * len(ids))
        self._parts = {"train": ids[:cut], "held out": ids[cut:]}

    @classmethod
    def from_file(cls, path: str | Path, *, held_out: float = 0.1) -> CharacterText:
        """A plain text file in UTF-8, in any language.

        Raises:
            FileNotFoundError, IsADirectoryError: there is no such file.
            ValueError: it is not text, or has fewer than `LEAST` characters.
        """
        return cls(read_text(path), held_out=held_out)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's characters.

        Raises:
            TypeError: text is no string.
            ValueError: a character of it is not in the vocabulary.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string. Got {type(text).__name__}.")
        unknown = sorted({character for character in text if character not in self._number})
        if unknown:
            shown = " ".join(repr(character) for character in unknown[:5])
            shown += f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            raise ValueError(
                f"text must be written with the {len(self.vocabulary)} characters that the model "
                f"was trained on. Not among them: {shown}. Leave them out, or write them otherwise."
            )
        return [self._number[character] for character in text]

    def decode(self, ids: Int[Tensor, " tokens"] | list[int]) -> str:
        """The characters of a row of numbers."""
        ids = ids.tolist() if isinstance(ids, Tensor) else ids
        return "".join(self.vocabulary[i] for i in ids)

    def ids(self, part: str = "train") -> Int[Tensor, " characters"]:
        """The numbers of a part's characters, in their order: a copy.

        Raises:
            ValueError: there is no such part, or nothing in it.
        """
        return self._part(part, 1).clone()

    def bits_per_byte(self, nats: float, part: str = "held out") -> float:
        """A loss in nats per character as bits per byte of the text in UTF-8.

        So texts with other vocabularies, and other ways to cut a text into tokens, can be compared.
        """
        text = self.decode(self._part(part, 1))
        return nats / math.log(2) * len(text) / len(text.encode())

    def batch(
        self, size: int, tokens: int, generator: torch.Generator, part: str = "train"
    ) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch tokens"]]:
        """`size` windows from random places, and the same ones a character later.

        Raises:
            ValueError: the part has not `tokens` + 1 characters, or there is no such part.
        """
        ids = self._part(part, tokens)
        starts = torch.randint(len(ids) - tokens, (size,), generator=generator)
        windows = ids[starts[:, None] + torch.arange(tokens + 1)]
        return windows[:, :-1], windows[:, 1:]

    @torch.no_grad()
    def losses(
        self, model: nn.Module, tokens: int, *, windows: int = 64, part: str = "held out"
    ) -> Tensor:
        """Cross-entropy at every position in nats, (windows, tokens), over evenly placed windows.

        The model is measured in evaluation mode and left in the mode in which it was.
        """
        check_count("windows", windows)
        ids = self._part(part, tokens)
        device = next(model.parameters()).device
        starts = torch.linspace(0, len(ids) - tokens - 1, windows).long()
        window = ids[starts[:, None] + torch.arange(tokens + 1)].to(device)
        with evaluating(model):
            logits = model(window[:, :-1])
        return F.cross_entropy(logits.mT, window[:, 1:], reduction="none").cpu()

    def unigram_entropy(self) -> float:
        """The loss in nats of one who knows only how frequent each character is."""
        share = self._parts["train"].bincount(minlength=len(self.vocabulary)).double()
        return torch.special.entr(share / share.sum()).sum().item()

    def _part(self, part: str, tokens: int) -> Tensor:
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}. Got {part!r}.")
        check_count("tokens", tokens)
        ids = self._parts[part]
        if len(ids) <= tokens:
            raise ValueError(
                f"tokens must be below the {len(ids)} characters of this part. Got {tokens}."
            )
        return ids


# --- dates ----------------------------------------------------------------------------------

FIRST_DAY, LAST_DAY = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def _nth(day: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th") if day not in (11, 12, 13) else "th"
    return f"{day}{ending}"


DATE_FORMATS = {
    "3rd of march 2021": lambda d: f"{_nth(d.day)} of {MONTHS[d.month - 1]} {d.year}",
    "march 3, 2021": lambda d: f"{MONTHS[d.month - 1]} {d.day}, {d.year}",
    "3 mar 2021": lambda d: f"{d.day} {MONTHS[d.month - 1][:3]} {d.year}",
    "wednesday 3 march 2021": lambda d: (
        f"{WEEKDAYS[d.weekday()]} {d.day} {MONTHS[d.month - 1]} {d.year}"
    ),
    "03.03.2021": lambda d: f"{d.day:02}.{d.month:02}.{d.year}",
    "2021/3/3": lambda d: f"{d.year}/{d.month}/{d.day}",
}


@dataclass(frozen=True)
class Pairs:
    """Sources and their translations, as tokens.

    source is (batch, longest), short ones filled up at the end; lengths are the real ones; target
    is (batch, length), from the start token to the stop token.
    """

    source: Int[Tensor, "batch source"]
    lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target"]

    def to(self, device) -> Pairs:
        """The same on a device."""
        return Pairs(self.source.to(device), self.lengths.to(device), self.target.to(device))


class Dates:
    """Dates as people write them, to be written as 2021-03-03: translation in small.

    All days from 1900 to 2099 in six formats. A tenth of the days is held out, whatever the format.

    Args:
        seed: of the choice of the days that are held out.
    """

    PADDING, START, STOP = 0, 1, 2

    def __init__(self, *, seed: int = 0):
        count = (LAST_DAY - FIRST_DAY).days + 1
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        cut = count - count // 10
        self._days = {"train": order[:cut], "held out": order[cut:]}
        letters = sorted(set("".join([*MONTHS, *WEEKDAYS, "0123456789 ,./-stndrhof"])))
        self.vocabulary = ["<padding>", "<start>", "<stop>", *letters]
        self._number = {token: i for i, token in enumerate(self.vocabulary)}

    def encode(self, texts: list[str]) -> tuple[Int[Tensor, "batch source"], Int[Tensor, " batch"]]:
        """Texts as tokens, filled up at the end, and their lengths.

        Raises:
            ValueError: a text is empty, or holds a character that no date has.
        """
        for text in texts:
            unknown = sorted({c for c in text.lower() if c not in self._number})
            if unknown or not text:
                what = f"{unknown[0]!r}, which no date here has" if unknown else "an empty one"
                raise ValueError(
                    f"texts must be dates such as {next(iter(DATE_FORMATS))!r}. Got {what}."
                )
        lengths = torch.tensor([len(text) for text in texts])
        source = torch.full((len(texts), int(lengths.max())), self.PADDING)
        for row, text in zip(source, texts, strict=True):
            row[: len(text)] = torch.tensor([self._number[c] for c in text.lower()])
        return source, lengths

    def decode(self, tokens: Int[Tensor, " tokens"] | list[int]) -> str:
        """The characters of a row of tokens, without padding, start and stop."""
        tokens = tokens.tolist() if isinstance(tokens, Tensor) else tokens
        return "".join(self.vocabulary[i] for i in tokens if i > self.STOP)

    def texts(
        self, size: int, generator: torch.Generator, part: str = "train"
    ) -> list[tuple[str, str]]:
        """Pairs of a date as people write it and as it should be written."""
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}. Got {part!r}.")
        check_count("size", size)
        days = self._days[part]
        chosen = days[torch.randint(len(days), (size,), generator=generator)].tolist()
        kinds = torch.randint(len(DATE_FORMATS), (size,), generator=generator).tolist()
        formats = list(DATE_FORMATS.values())
        dates = [FIRST_DAY + datetime.timedelta(days=day) for day in chosen]
        return [(formats[k](d), d.isoformat()) for d, k in zip(dates, kinds, strict=True)]

    def batch(self, size: int, generator: torch.Generator, part: str = "train") -> Pairs:
        """Random days in random formats."""
        sources, targets = zip(*self.texts(size, generator, part), strict=True)
        source, lengths = self.encode(list(sources))
        target, _ = self.encode(list(targets))
        ends = [torch.full((size, 1), token) for token in (self.START, self.STOP)]
        return Pairs(source, lengths, torch.cat([ends[0], target, ends[1]], dim=1))


# --- sequences that repeat themselves -------------------------------------------------------


def repeated_sequences(
    size: int, length: int, vocabulary: int, generator: torch.Generator
) -> Int[Tensor, "size twice"]:
    """Random tokens, and then the same ones again: (size, 2 · length).

    What the second half holds can only be known by looking back at the first (Olsson et al.,
    *In-context Learning and Induction Heads*, 2022).

    Raises:
        TypeError, ValueError: a count is no int, or below 1.
    """
    for name, value in (("size", size), ("length", length), ("vocabulary", vocabulary)):
        check_count(name, value)
    half = torch.randint(vocabulary, (size, length), generator=generator)
    return torch.cat([half, half], dim=1)


# --- a source of known entropy --------------------------------------------------------------


class MarkovText:
    """A source of text whose entropy rate is known: each symbol depends on the two before it.

    Every pair of symbols has a distribution of the next one, drawn from a Dirichlet distribution.

    Args:
        symbols: how many there are.
        concentration: of the Dirichlet; the smaller, the more predictable the text.
        seed: of the distributions.
    """

    def __init__(self, symbols: int = 8, *, concentration: float = 0.3, seed: int = 0):
        check_count("symbols", symbols, least=2)
        check_number("concentration", concentration, 1e-3, math.inf)
        check_count("seed", seed, least=0)
        self.symbols = symbols
        generator = torch.Generator().manual_seed(seed)
        # Dirichlet = Gamma variables, divided by their sum; torch draws them without a generator.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
            alpha = torch.full((symbols, symbols, symbols), concentration, dtype=torch.float64)
            drawn = torch._standard_gamma(alpha).clamp(min=1e-9)
        #: next[a, b] is the distribution of the symbol that follows a, b
        self.next = drawn / drawn.sum(dim=-1, keepdim=True)
        self.pairs = self._stationary()

    def _stationary(self) -> Tensor:
        """How often each pair of neighbours occurs in a long text, (symbols, symbols)."""
        pairs = torch.full((self.symbols, self.symbols), self.symbols**-2.0, dtype=torch.float64)
        for _ in range(10_000):
            after = torch.einsum("ab,abc->bc", pairs, self.next)
            if (after - pairs).abs().max() < 1e-15:
                break
            pairs = after
        return pairs

    @property
    def entropy_rate(self) -> float:
        """The least loss in nats that any model can reach on average: H(next | the two before)."""
        each = torch.special.entr(self.next).sum(dim=-1)  # (symbols, symbols)
        return (self.pairs * each).sum().item()

    def batch(
        self, size: int, tokens: int, generator: torch.Generator
    ) -> Int[Tensor, "size tokens"]:
        """Texts of the source, each begun by a pair as frequent as in a long text."""
        check_count("size", size)
        check_count("tokens", tokens, least=2)
        first = torch.multinomial(self.pairs.flatten(), size, replacement=True, generator=generator)
        text = [first // self.symbols, first % self.symbols]
        while len(text) < tokens:
            rows = self.next[text[-2], text[-1]]  # (size, symbols)
            text.append(torch.multinomial(rows, 1, generator=generator)[:, 0])
        return torch.stack(text, dim=1)

    def log_probabilities(self, text: Int[Tensor, "size tokens"]) -> Tensor:
        """log p of the truth for what follows the second, third, … token.

        (size, tokens - 1, symbols): the last row is of the token behind the text.
        """
        return self.next[text[:, :-1], text[:, 1:]].log()
