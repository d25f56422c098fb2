"""Byte-pair encoding: text as tokens, trained here or with published merges (lesson 11).

Text is cut into pieces (a word with the space before it, a digit, some punctuation); each piece is
bytes, and pairs of neighbours become one token, in the order in which training found them. Sennrich
et al., *Neural Machine Translation of Rare Words with Subword Units*, 2016; on bytes: Radford et
al., *Language Models are Unsupervised Multitask Learners*, 2019.
"""

from __future__ import annotations

import codecs
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise

import regex

from tfcourse.arguments import check_count

Pair = tuple[bytes, bytes]
# GPT-2's cut: English endings, then letters, digits or other signs with a space before them.
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BYTES = tuple(bytes([i]) for i in range(256))


class BytePairEncoding:
    """A vocabulary of byte strings, and the merges that lead to it.

    Args:
        tokens: what each id stands for; it must hold what merging can leave.
        merges: the pairs that become one, the first one first.
        special: texts that are one token, which no merging makes, and their ids.
        digits: whether each digit is a piece of its own, as in SmolLM2.

    Raises:
        ValueError: a merge leads to no token.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        merges: Sequence[Pair],
        *,
        special: Mapping[str, int] | None = None,
        digits: bool = False,
    ):
        self.tokens, self.merges, self.digits = tuple(tokens), tuple(merges), digits
        self.special = dict(special or {})
        control = set(self.special.values())
        self._id = {token: i for i, token in enumerate(self.tokens) if i not in control}
        self._rank = {pair: rank for rank, pair in enumerate(self.merges)}
        for left, right in self.merges:
            if left + right not in self._id:
                raise ValueError(f"tokens must hold what merges make. {left + right!r} is missing.")
        longest_first = sorted(self.special, key=len, reverse=True)
        self._special = (
            regex.compile("(" + "|".join(map(regex.escape, longest_first)) + ")")
            if longest_first
            else None
        )
        self._ids_of = lru_cache(maxsize=2**16)(self._merged_ids)

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.tokens)

    @classmethod
    def train(cls, text: str, size: int, *, digits: bool = False) -> BytePairEncoding:
        """The encoding of `size` tokens that a text gives: 256 bytes, then the commonest pairs.

        Of pairs that are equally frequent, the one that comes first in the order of bytes.

        Args:
            text: what to learn from.
            size: how many tokens, at least 256; fewer come out where the text has no more pairs.

        Raises:
            TypeError, ValueError: text is no text; size is no whole number from 256 on.
        """
        check_count("size", size, least=256)
        pieces = Counter(cut(text, digits))
        words = [[*map(BYTES.__getitem__, piece)] for piece in pieces]
        often = [*pieces.values()]
        count, where = Counter(), defaultdict(set)
        for i, word in enumerate(words):
            for pair in pairwise(word):
                count[pair] += often[i]
                where[pair].add(i)
        merges: list[Pair] = []
        while len(merges) < size - 256 and count:
            most = max(count.values())
            best = min(pair for pair, n in count.items() if n == most)
            merges.append(best)
            for i in where.pop(best):
                for pair in pairwise(words[i]):
                    count[pair] -= often[i]
                words[i] = _merge(words[i], best)
                for pair in pairwise(words[i]):
                    count[pair] += often[i]
                    where[pair].add(i)
            count = +count  # without those that are no more
        return cls([*BYTES, *(left + right for left, right in merges)], merges, digits=digits)

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of a text; bytes that are no text have ids too.

        A byte that is no token of a published vocabulary is left out, as its library does.

        Raises:
            TypeError: text is of another type.
        """
        text = _as_text(text)
        parts = self._special.split(text) if self._special else [text]
        ids: list[int] = []
        for part in parts:
            if part in self.special:
                ids.append(self.special[part])
            else:
                for piece in cut(part, self.digits):
                    ids += self._ids_of(piece)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; where they end within a letter, "\N{REPLACEMENT CHARACTER}"."""
        return self.bytes(ids).decode("utf-8", "replace")

    def bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes that some ids stand for.

        Raises:
            ValueError: an id is none.
        """
        found = []
        for i in ids:
            if not 0 <= int(i) < self.size:
                raise ValueError(f"ids must be from 0 to {self.size - 1}. Got {int(i)}.")
            found.append(self.tokens[int(i)])
        return b"".join(found)

    def streamed(self, write: Callable[[str], None] | None = None) -> Callable:
        """A `watch` for `generate`: writes the first text as it grows, a letter when it is whole.

        Args:
            write: gets what is new; default: it is printed, without a line end.
        """
        write = write or (lambda text: print(text, end="", flush=True))
        letters, seen = codecs.getincrementaldecoder("utf-8")("replace"), 0

        def watch(written: Sequence[Sequence[int]]) -> None:
            nonlocal seen
            new, seen = written[0][seen:], len(written[0])
            write(letters.decode(self.bytes(new)))

        return watch

    def pieces(self, text: str | bytes) -> list[str]:
        """The tokens of a text, each as text, to be looked at."""
        return [self.decode([i]) for i in self.encode(text)]

    def steps(self, word: str | bytes) -> list[list[bytes]]:
        """How a piece becomes tokens: its bytes, then what each merge leaves."""
        parts = [*map(BYTES.__getitem__, _as_text(word).encode("utf-8", "surrogateescape"))]
        found = [parts]
        while (pair := self._first(parts)) is not None:
            parts = _merge(parts, pair)
            found.append(parts)
        return found

    def _first(self, parts: Sequence[bytes]) -> Pair | None:
        """The pair of neighbours that training found first."""
        known = [pair for pair in pairwise(parts) if pair in self._rank]
        return min(known, key=self._rank.__getitem__, default=None)

    def _merged_ids(self, piece: bytes) -> tuple[int, ...]:
        parts = [*map(BYTES.__getitem__, piece)]
        while (pair := self._first(parts)) is not None:
            parts = _merge(parts, pair)
        # Some published vocabularies lack a byte that no text of theirs had: it is left out.
        return tuple(self._id[part] for part in parts if part in self._id)


def cut(text: str | bytes, digits: bool = False) -> list[bytes]:
    """A text in pieces, none of which merges with another.

    Args:
        digits: whether each digit is a piece of its own.

    Raises:
        TypeError: text is no text.
    """
    text = _as_text(text)
    parts = [p for p in _digits().split(text) if p] if digits else [text]
    return [
        piece.encode("utf-8", "surrogateescape")
        for part in parts
        for piece in _words().findall(part)
    ]


@cache
def _words() -> regex.Pattern:
    return regex.compile(WORDS)


@cache
def _digits() -> regex.Pattern:
    return regex.compile(r"(\p{N})")


def _as_text(text: str | bytes) -> str:
    """Bytes that are no UTF-8 become signs that are no letters, and bytes again later."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise TypeError(f"text must be a text, or bytes. Got {type(text).__name__}.")
    return text


def _merge(parts: Sequence[bytes], pair: Pair) -> list[bytes]:
    """The same, with each such pair of neighbours as one; from the left."""
    found, i = [], 0
    while i < len(parts):
        both = parts[i] == pair[0] and i + 1 < len(parts) and parts[i + 1] == pair[1]
        found.append(pair[0] + pair[1] if both else parts[i])
        i += 1 + both
    return found


# ------------------------------------------------------------------------- published vocabularies


@cache
def letter_of_byte() -> dict[int, str]:
    """The letter by which published vocabularies write each byte: a space is "Ġ"."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(174, 256)]
    hidden = [i for i in range(256) if i not in seen]
    return {i: chr(i) for i in seen} | {i: chr(256 + n) for n, i in enumerate(hidden)}


def published(
    tokens: Sequence[str],
    merges: Iterable[str | Sequence[str]],
    special: Mapping[str, int],
    *,
    digits: bool,
) -> BytePairEncoding:
    """An encoding from the lists that are published beside weights, written in letters.

    Raises:
        ValueError: they are not such lists.
    """
    byte = {letter: i for i, letter in letter_of_byte().items()}

    def as_bytes(word: str) -> bytes:
        return bytes(map(byte.__getitem__, word))

    control = {i: text for text, i in special.items()}
    try:
        words = [
            control[i].encode() if i in control else as_bytes(word) for i, word in enumerate(tokens)
        ]
        pairs = [
            (as_bytes(left), as_bytes(right))
            for left, right in (m.split(" ") if isinstance(m, str) else m for m in merges)
        ]
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"This is no vocabulary of byte pairs ({error!r}).") from None
    return BytePairEncoding(words, pairs, special=special, digits=digits)
