"""Lesson 11: a published model: its tokens, its weights, what is read out of it and trained."""

from __future__ import annotations

import math
import random
from collections import Counter
from functools import lru_cache
from itertools import pairwise

import torch
import torch.nn.functional as F

from tfcourse.checks.exercise import Case, Domain, Exercise, Variant, randn, unequal
from tfcourse.checks.quiz import Item, Option
from tfcourse.positions import convert_rotary

LESSON = "11_a_real_llm"

TOKENS = {
    "letters": ["a", "b", "c", "d"],
    "longer tokens": ["a", "b", "xa", "bx", "the", "th"],
    "tokens that read alike together": ["a", "b", "c", "ab", "bc", "abc"],  # ab·c and a·bc
    "letters outside ASCII": ["ä", "ß", "Ж", "日", "🙂"],
    "upper and lower case": ["A", "a", "B", "b", "Z"],
    "tokens with spaces": [" ", "a", " a", "b", "  "],
}


# --- most_frequent_pair ---------------------------------------------------------------------


def _make_frequent(kind, seed):
    if kind["pieces"] == "one piece" and kind["counts"] == "rare pieces full of other pairs":
        return None
    for attempt in range(3000):
        chosen = random.Random(f"{seed} {attempt}")
        pieces = _pieces(kind["pieces"], TOKENS[kind["tokens"]], chosen)
        how_often = [chosen.choice(OFTEN[kind["counts"]]) for _ in pieces]
        count = _counted(pieces, how_often)
        if count and _fits(kind, pieces, how_often, count):
            return Case((pieces, how_often), gradients=False)
    return None


OFTEN = {
    "pieces of unequal frequency": (1, 2, 3, 4),
    "each piece once": (1,),
    "thousands of times": (1000, 2000, 3000),
    "rare pieces full of other pairs": (1, 1, 1, 9),
}
WINNERS = {"one is the commonest": 1, "two are equally frequent": 2, "three are": 3}


def _pieces(kind, tokens, chosen):
    lengths = [chosen.randint(2, 6) for _ in range(chosen.randint(4, 6))]
    if kind == "one piece":
        lengths = [12]
    if kind == "pieces of one token among them":
        lengths = [1, *lengths[1:], 1]
    pieces = [chosen.choices(tokens, k=length) for length in lengths]
    if kind == "a token again and again":
        pieces[-1] = [chosen.choice(tokens)] * chosen.randint(4, 7)
    return pieces


def _counted(pieces, how_often, pairs_of=pairwise):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in pairs_of(piece):
            count[pair] += times
    return count


def _first_of(count):
    """The commonest, the first in alphabetical order."""
    return min(count, key=lambda pair: (-count[pair], pair))


def _fits(kind, pieces, how_often, count):
    """Whether a mistake would show: in ties, in counts, in what overlaps."""
    most = [pair for pair, times in count.items() if times == max(count.values())]
    if len(set(map(tuple, pieces))) < len(pieces) or len(most) != WINNERS[kind["winner"]]:
        return False
    if len(most) > 1:  # neither the first that is met nor, of three, the last
        return min(most) not in (most[0], *most[2:])
    once = [1] * len(pieces)
    if kind["counts"] == "rare pieces full of other pairs":
        return _first_of(_counted(pieces, once)) not in most
    if kind["pieces"] == "a token again and again":
        return most != [_first_of(_counted(pieces, how_often, _apart))]
    return True


def _frequent_by_hand() -> list[Case]:
    cases = {
        "as one text the other tie comes first": ([["a", "z"], ["ab", "a"]], [3, 3]),
        "the right one decides the tie": ([["a", "c"], ["a", "b"]], [5, 5]),
        "capitals come first": ([["a", "b"], ["Z", "b"]], [2, 2]),
        "a pair as often as two that read alike": (
            [["ab", "c"], ["a", "bc"], ["x", "y"]],
            [3, 3, 4],
        ),
        "a run of four": ([["b", "b", "b", "b"], ["a", "c"]], [1, 2]),
        "the last of three": ([["c", "d"], ["b", "c"], ["a", "b"]], [2, 2, 2]),
        "the fourth of five": ([[*"ef", *"de", *"cd", *"ab", *"bd"]], [3]),
        "both orders": ([["a", "b"], ["b", "a", "c"], ["c", "d"]], [2, 2, 3]),
        "the frequent piece is one token": ([["the"], ["a", "b"], ["b", "a"]], [900, 1, 2]),
        "only one pair": ([["b", "a"]], [1]),
    }
    return [Case(given, gradients=False, note=note) for note, given in cases.items()]


def most_frequent_pair(pieces, how_often):
    """The pair of neighbours that stands in the text most often."""
    return _first_of(_counted(pieces, how_often))


def _apart(piece):
    """Pairs that share no token with one like them."""
    found, last = [], None
    for i, pair in enumerate(pairwise(piece)):
        if pair == last:
            last = None
            continue
        found.append(pair)
        last = pair if piece[i] == piece[i + 1] else None
    return found


def _commonest(pairs_of=pairwise, pick=_first_of, weigh=lambda times: times):
    def answer(pieces, how_often):
        return pick(_counted(pieces, [weigh(times) for times in how_often], pairs_of))

    return answer


def _across(pieces, how_often):
    """The pieces written one behind the other, as often as they stand in the text."""
    text = [t for piece, times in zip(pieces, how_often, strict=True) for t in times * piece]
    return _first_of(Counter(pairwise(text)))


def _by_joined_text(pieces, how_often):
    count, names = Counter(), {}
    for piece, times in zip(pieces, how_often, strict=True):
        for left, right in pairwise(piece):
            count[left + right] += times
            names.setdefault(left + right, (left, right))
    return min(names[text] for text in count if count[text] == max(count.values()))


FREQUENT = Exercise(
    name="most_frequent_pair",
    lesson=LESSON,
    title="the commonest pair",
    domain=Domain(
        kinds={
            "winner": tuple(WINNERS),
            "counts": tuple(OFTEN),
            "tokens": tuple(TOKENS),
            "pieces": (
                "some pieces",
                "one piece",
                "pieces of one token among them",
                "a token again and again",
            ),
        },
        make=_make_frequent,
    ),
    special=_frequent_by_hand,
    forbids=("train",),
    witness=most_frequent_pair,
    reference=most_frequent_pair,
    hints=(
        "Two steps: count every pair in a dictionary (a `Counter` begins at 0), then choose. By "
        "how much does the count of a pair grow if its piece stands in the text 7 times?",
        "`pairwise(piece)` from itertools gives the neighbours of one piece. For the choice: what "
        "is the highest count, and which pairs have it?",
        "Of the pairs that reach the highest count take the smallest. Tuples of strings are "
        "compared in alphabetical order, first by the left one, then by the right one.",
    ),
    variants={
        "unweighted": Variant(
            "You count each piece once. A piece that stands in the text 7 times brings each of its "
            "pairs 7 times.",
            _commonest(weigh=lambda times: 1),
        ),
        "first-found": Variant(
            "Where two pairs are equally frequent, you give the one that you met first. The first "
            "in alphabetical order is asked for, so that training gives the same whatever the "
            "order of the pieces is.",
            _commonest(pick=lambda count: max(count, key=count.get)),
        ),
        "last-in-the-alphabet": Variant(
            "Where two pairs are equally frequent, you give the one that is last in alphabetical "
            "order. It is the first.",
            _commonest(pick=lambda count: max(count, key=lambda pair: (count[pair], pair))),
        ),
        "order-of-joined-text": Variant(
            "Where two pairs are equally frequent, you compare their joined texts. Compare the "
            "pairs themselves, the left token first: (a, z) comes before (ab, a).",
            _commonest(
                pick=lambda count: min(count, key=lambda pair: (-count[pair], pair[0] + pair[1]))
            ),
        ),
        "once-a-piece": Variant(
            "A pair that stands in a piece twice is counted once with you. It counts at each "
            "place.",
            _commonest(pairs_of=lambda piece: set(pairwise(piece))),
        ),
        "no-overlap": Variant(
            "In `a a a` you find (a, a) once. It counts at each place where it stands, and there "
            "are two: pairs may overlap.",
            _commonest(pairs_of=_apart),
        ),
        "every-second-pair": Variant(
            "You cut a piece into pairs. Neighbours are wanted: `a b c` holds (a, b) and also "
            "(b, c).",
            lambda pieces, how_often: _pick_or_none(
                _counted(pieces, how_often, lambda p: zip(p[::2], p[1::2], strict=False))
            ),
        ),
        "across-pieces": Variant(
            "Some of your pairs reach from one piece into the next. A piece ends, and nothing "
            "merges beyond its end.",
            _across,
        ),
        "either-order": Variant(
            "(a, b) and (b, a) are one pair with you. The order counts: they become other tokens.",
            _commonest(pairs_of=lambda piece: [tuple(sorted(pair)) for pair in pairwise(piece)]),
        ),
        "by-joined-text": Variant(
            "You count by the joined text. (ab, c) and (a, bc) read alike, and are two pairs.",
            _by_joined_text,
        ),
        "last-pair-lost": Variant(
            "The last pair of each piece is missing: your loop ends one place too early.",
            lambda pieces, how_often: _pick_or_none(
                _counted(pieces, how_often, lambda piece: pairwise(piece[:-1]))
            ),
        ),
        "rarest": Variant(
            "You give the rarest pair. The commonest is wanted.",
            _commonest(pick=lambda count: min(count, key=lambda pair: (count[pair], pair))),
        ),
        "letters": Variant(
            "You join the tokens of a piece and count pairs of letters. A token may have more than "
            "one letter, and stays whole.",
            _commonest(pairs_of=lambda piece: pairwise("".join(piece))),
        ),
        "joined": Variant(
            "You give one string. The pair is wanted, (left, right): from the joined text nobody "
            "can tell where it was joined.",
            lambda pieces, how_often: "".join(most_frequent_pair(pieces, how_often)),
        ),
        "a-list": Variant(
            "The right two tokens, but in a list. Give a tuple, (left, right): only a tuple can be "
            "compared with the other pairs, and be a key in a dictionary.",
            lambda pieces, how_often: list(most_frequent_pair(pieces, how_often)),
        ),
        "with-its-count": Variant(
            "You give the pair and how often it stands there. The pair alone is wanted.",
            lambda pieces, how_often: (
                most_frequent_pair(pieces, how_often),
                max(_counted(pieces, how_often).values()),
            ),
        ),
    },
)


def _pick_or_none(count):
    """Raises where nothing was counted, as `max` of nothing does."""
    most = max(count.values())
    return min(pair for pair in count if count[pair] == most)


# --- merge_pair -----------------------------------------------------------------------------

LENGTHS = {
    "nine tokens": 9,
    "thirty tokens": 30,
    "two tokens": 2,
    "one token": 1,
    "no token": 0,
}


def _make_merge(kind, seed):
    tokens_of, length = TOKENS[kind["tokens"]], LENGTHS[kind["length"]]
    for attempt in range(3000):
        chosen = random.Random(f"{seed} {attempt}")
        left, right = chosen.sample(tokens_of, 2)
        if kind["pair"] == "the same token twice":
            right = left
        # Often one of the pair: then it stands there, and runs of it do.
        likely = [*tokens_of, left, left, left, right, right, right]
        tokens = chosen.choices(likely, k=length)
        if _worth_merging(kind["pair"], tokens, (left, right)):
            return Case((tokens, (left, right)), gradients=False)
    return None


def _worth_merging(kind, tokens, pair):
    there = [both == pair for both in pairwise(tokens)]
    turned = pair[::-1] in [*pairwise(tokens)]
    if kind == "a pair that is not there":
        return not any(there) and (len(tokens) < 2 or turned)
    if len(tokens) < 2:
        return True
    if len(tokens) == 2:
        return all(there)
    if kind == "the same token twice":
        runs = "".join("x" if token == pair[0] else " " for token in tokens).split()
        return any(len(run) > 2 and len(run) % 2 for run in runs) and sum(there) < len(there)
    alone = [t for t, *pair_there in zip(tokens[1:], there, strict=True) if not any(pair_there)]
    return sum(there) > 1 and turned and pair[1] in alone


def merge_pair(tokens, pair):
    """The tokens with this pair as one wherever it stands, from the left."""
    merged, i = [], 0
    while i < len(tokens):
        here = tuple(tokens[i : i + 2]) == pair
        merged.append("".join(pair) if here else tokens[i])
        i += 2 if here else 1
    return merged


def _merged_twice(tokens, pair):
    """Each pair becomes a token, also where two of them share one."""
    merged = []
    for i, token in enumerate(tokens):
        if tuple(tokens[i : i + 2]) == pair:
            merged.append("".join(pair))
        elif i == 0 or (tokens[i - 1], token) != pair:
            merged.append(token)
    return merged


def _merge_where(same_pair):
    """Merges the neighbours of which same_pair(left, right, pair) says so."""

    def answer(tokens, pair):
        merged, i = [], 0
        while i < len(tokens):
            here = i + 1 < len(tokens) and same_pair(tokens[i], tokens[i + 1], pair)
            merged.append(tokens[i] + tokens[i + 1] if here else tokens[i])
            i += 2 if here else 1
        return merged

    return answer


def _first_place_alone(tokens, pair):
    for i, both in enumerate(pairwise(tokens)):
        if both == pair:
            return [*tokens[:i], "".join(pair), *tokens[i + 2 :]]
    return list(tokens)


def _right_stays(tokens, pair):
    return [
        "".join(pair) if tuple(tokens[i : i + 2]) == pair else token
        for i, token in enumerate(tokens)
    ]


def _last_lost(tokens, pair):
    """The loop goes over neighbours, so a last token that is in no pair is never reached."""
    merged, i = [], 0
    while i < len(tokens) - 1:
        here = (tokens[i], tokens[i + 1]) == pair
        merged.append("".join(pair) if here else tokens[i])
        i += 2 if here else 1
    return merged


def _from_the_right(tokens, pair):
    merged, i = [], len(tokens) - 1
    while i >= 0:
        here = i > 0 and (tokens[i - 1], tokens[i]) == pair
        merged.append("".join(pair) if here else tokens[i])
        i -= 2 if here else 1
    return merged[::-1]


def _by_text(tokens, pair):
    return " ".join(tokens).replace(" ".join(pair), "".join(pair)).split(" ")


MERGE = Exercise(
    name="merge_pair",
    lesson=LESSON,
    title="make it one token",
    domain=Domain(
        kinds={
            "pair": (
                "two different tokens",
                "the same token twice",
                "a pair that is not there",
            ),
            "tokens": tuple(TOKENS),
            "length": tuple(LENGTHS),
        },
        make=_make_merge,
        edges=("no token",),
    ),
    special=lambda: [
        Case((given.split("|"), tuple(pair.split("|"))), gradients=False, note=note)
        for note, given, pair in (
            ("a run of three", "a|a|a", "a|a"),
            ("a run of four", "a|a|a|a", "a|a"),
            ("a run of five in the middle", "b|a|a|a|a|a|c", "a|a"),
            ("the left one stands last", "a|b|c|a", "a|b"),
            ("neighbours that read alike", "a|bc|ab|c", "ab|c"),
            ("a token that ends like the left one", "xa|b|a|bx|a|b", "a|b"),
            ("what it becomes stands there already", "a|b|ab|a|b|b|ab", "a|b"),
        )
    ],
    forbids=("_merge",),
    witness=merge_pair,
    reference=merge_pair,
    hints=(
        "Walk through the tokens with an index i. At each place there are two possibilities. By "
        "how much does i grow in the one, and in the other?",
        "Where `tokens[i]` and `tokens[i + 1]` are the pair, the new list gets one token, and you "
        "go on two places further. What if i is the last place?",
        "A pair is a tuple, and a slice of a list is a list: those two are never equal. Compare "
        "tuple with tuple.",
    ),
    variants={
        "nothing-merged": Variant(
            "Nothing has been merged. Do you compare a list with the tuple `pair`? "
            "`['a', 'b'] == ('a', 'b')` is False.",
            lambda tokens, pair: list(tokens),
        ),
        "first-place-alone": Variant(
            "Only the first place is merged. The pair becomes one token wherever it stands.",
            _first_place_alone,
        ),
        "used-twice": Variant(
            "You use a token twice: `a a a` becomes `aa aa` with you, four letters out of three. "
            "After a merge go on behind both tokens.",
            _merged_twice,
        ),
        "from-the-right": Variant(
            "You go from right to left. `a a a` becomes `aa a`, and with you `a aa`.",
            _from_the_right,
        ),
        "right-token-stays": Variant(
            "The right token of a merged pair is still there: `a b` becomes `ab b` with you. Go on "
            "behind it.",
            _right_stays,
        ),
        "last-token-lost": Variant(
            "The last token is lost where it is in no pair. It has no right neighbour, and still "
            "belongs into the new list.",
            _last_lost,
        ),
        "neighbour-by-neighbour": Variant(
            "You go over all neighbours and write down one token for each of them. So the right "
            "one of a merged pair comes once more, and the last token of all never.",
            lambda tokens, pair: [
                "".join(pair) if both == pair else both[0] for both in pairwise(tokens)
            ],
        ),
        "by-text": Variant(
            "You replace in the joined text. There a token that only *ends* like the left one is "
            "hit too (`xa b` holds the text `a b`), and tokens that hold a space fall apart. "
            "Compare whole tokens.",
            _by_text,
        ),
        "by-joined-text": Variant(
            "You merge whatever reads like the pair when joined. (a, bc) reads like (ab, c), and "
            "is another pair.",
            _merge_where(lambda left, right, pair: left + right == "".join(pair)),
        ),
        "either-order": Variant(
            "You merge (right, left) as well. The order counts.",
            _merge_where(lambda left, right, pair: (left, right) in (pair, pair[::-1])),
        ),
        "left-alone": Variant(
            "You merge the left token with whatever follows. Both have to be there.",
            _merge_where(lambda left, right, pair: left == pair[0]),
        ),
        "with-a-space": Variant(
            "There is a space between the two in your new token. Nothing stands between them.",
            lambda tokens, pair: _renamed(tokens, pair, " ".join(pair)),
        ),
        "pair-for-token": Variant(
            "Your list holds the pair itself, a tuple. The new token is one string: the two "
            "strings put together.",
            lambda tokens, pair: _renamed(tokens, pair, pair),
        ),
        "joined": Variant(
            "You give one string. A list of tokens is wanted.",
            lambda tokens, pair: "".join(tokens),
        ),
        "a-tuple": Variant(
            "The right tokens, but in a tuple. Give a list: what `tokens` is, too.",
            lambda tokens, pair: tuple(merge_pair(tokens, pair)),
        ),
    },
)


def _renamed(tokens, pair, name):
    """Merged, and the new token is called something else."""
    merged, i = [], 0
    while i < len(tokens):
        here = tuple(tokens[i : i + 2]) == pair
        merged.append(name if here else tokens[i])
        i += 2 if here else 1
    return merged


# --- encode_piece (find the bug) ------------------------------------------------------------

LETTERS = {
    "five letters": "abcde",
    "two letters": "ab",
    "letters outside ASCII": "äßЖ日🙂",
    "spaces among the letters": " abc",
}
MERGES = {"twelve merges": 12, "one merge": 1, "no merge": 0, "all merges that there are": 99}


@lru_cache(maxsize=64)
def _trained(letters, count, seed):
    """Words, and the merges that training finds in them: each is made of what is there before."""
    chosen = random.Random(f"words {seed}")
    words = ["".join(chosen.choices(letters, k=chosen.randint(3, 7))) for _ in range(10)]
    pieces = [list(word) for word in words]
    how_often = [chosen.randint(1, 9) for _ in words]
    merges = []
    while len(merges) < count and any(len(piece) > 1 for piece in pieces):
        merges.append(most_frequent_pair(pieces, how_often))
        pieces = [merge_pair(piece, merges[-1]) for piece in pieces]
    return words, merges


def _make_encode(kind, seed):
    letters = LETTERS[kind["letters"]]
    for attempt in range(3000):
        words, merges = _trained(letters, MERGES[kind["merges"]], seed + 7919 * (attempt // 50))
        chosen = random.Random(f"piece {seed} {attempt}")
        new = "".join(chosen.choices(letters, k=9))
        piece = {
            "a new piece": new,
            "a piece of the training text": chosen.choice(words),
            "letters that training never saw": f"{new[:4]}x{new[4:]}y",
            "a long piece": "".join(chosen.choices(letters, k=24)),
            "a letter again and again": 7 * chosen.choice(letters),
            "one letter": chosen.choice(letters),
            "an empty piece": "",
        }[kind["piece"]]
        if _tells(piece, merges):
            return Case((piece, list(merges)), gradients=False)
    return None


def _tells(piece, merges):
    """Whether the order of merges matters here, as far as it can."""
    right = encode_piece(piece, merges)
    if len(piece) < 2 or not merges:
        return True
    if len(piece) < 8 or len(merges) < 12:
        return len(right) < len(piece)
    rules = (_leftmost, _rightmost, _commonest_here, _longest)
    others = [_encoded(rule)(piece, merges) for rule in rules]
    return right not in others and len(set(map(tuple, others))) >= min(3, len(piece) // 9)


def _standing(tokens, merges):
    """The pairs of neighbours that were ever merged, from left to right."""
    return [pair for pair in pairwise(tokens) if pair in merges]


def encode_piece(piece, merges):
    """The tokens of a piece: of all pairs that stand in it, the one found first in training."""
    rank = {pair: i for i, pair in enumerate(merges)}
    tokens = list(piece)
    while found := _standing(tokens, rank):
        tokens = merge_pair(tokens, sorted(found, key=rank.get)[0])
    return tokens


def _encoded(choose):
    """Merges the pair that choose(found, merges) takes, and looks again."""

    def answer(piece, merges):
        tokens = list(piece)
        while found := _standing(tokens, merges):
            tokens = merge_pair(tokens, choose(found, merges))
        return tokens

    return answer


def _leftmost(found, merges):
    return found[0]


def _rightmost(found, merges):
    return found[-1]


def _commonest_here(found, merges):
    return max(found, key=found.count)


def _longest(found, merges):
    return max(found, key=lambda pair: len("".join(pair)))


def _one_merge(piece, merges):
    tokens = list(piece)
    found = _standing(tokens, merges)
    return merge_pair(tokens, min(found, key=merges.index)) if found else tokens


def _never_looks_again(piece, merges):
    tokens = list(piece)
    for pair in sorted(set(_standing(tokens, merges)), key=merges.index):
        tokens = merge_pair(tokens, pair)
    return tokens


def _longest_match(piece, merges):
    """The longest token of the vocabulary that fits, then on behind it: WordPiece."""
    known, tokens, i = {left + right for left, right in merges}, [], 0
    while i < len(piece):
        end = next(e for e in range(len(piece), i, -1) if e == i + 1 or piece[i:e] in known)
        tokens.append(piece[i:end])
        i = end
    return tokens


def _backwards(piece, merges):
    tokens = list(piece)
    for pair in reversed(merges):
        tokens = merge_pair(tokens, pair)
    return tokens


ENCODE = Exercise(
    name="encode_piece",
    lesson=LESSON,
    title="find the bug: the order of merges",
    domain=Domain(
        kinds={
            "piece": (
                "a new piece",
                "a piece of the training text",
                "letters that training never saw",
                "a long piece",
                "a letter again and again",
                "one letter",
                "an empty piece",
            ),
            "merges": tuple(MERGES),
            "letters": tuple(LETTERS),
        },
        make=_make_encode,
        edges=("an empty piece",),
    ),
    special=lambda: [
        Case((piece, merges), gradients=False, note=note)
        for note, piece, merges in (
            ("the right one of two that overlap", "abc", [("b", "c"), ("a", "b")]),
            ("the left one of two that overlap", "abc", [("a", "b"), ("b", "c")]),
            (
                "a merge that comes about only after another",
                "abcd",
                [("c", "d"), ("b", "cd"), ("a", "b")],
            ),
            ("a run", "aaaaaaa", [("a", "a"), ("aa", "aa"), ("aa", "a")]),
            ("a pair that stands there twice", "cabab", [("c", "a"), ("a", "b")]),
            ("a pair that makes a longer token", "cabab", [("a", "b"), ("c", "ab"), ("ab", "ab")]),
        )
    ],
    forbids=("steps", "_first", "_merged_ids"),
    witness=encode_piece,
    reference=encode_piece,
    hints=(
        "Take merges = [(b, c), (a, b)] and the piece `abc`. Training merged b and c before it "
        "ever looked at a and b. What should come out, and what does?",
        "`found` is in the order of the piece, from left to right. `merges` is in the order of "
        "training. Which of the two orders should decide?",
        "`merges.index(pair)` says when a pair was found. Of the pairs in `found`, which one has "
        "the smallest index?",
    ),
    variants={
        "leftmost": Variant(
            "The bug is still in: of all pairs that stand in the piece you merge the *leftmost*. "
            "It should be the one that training found first, wherever in the piece it stands.",
            _encoded(_leftmost),
            to_do=True,
        ),
        "rightmost": Variant(
            "You merge the rightmost pair. It is the one that training found first, wherever in "
            "the piece it stands.",
            _encoded(_rightmost),
        ),
        "found-last": Variant(
            "You merge the pair that training found *last*. The first one in `merges` comes first.",
            _encoded(lambda found, merges: max(found, key=merges.index)),
        ),
        "alphabetical": Variant(
            "You take the pair that is first in alphabetical order. What counts is its place in "
            "`merges`.",
            _encoded(lambda found, merges: min(found)),
        ),
        "most-often-here": Variant(
            "You take the pair that stands in this piece most often. That was the rule for "
            "training. Now the order is fixed: what counts is the place in `merges`.",
            _encoded(_commonest_here),
        ),
        "longest-token": Variant(
            "You take the pair that makes the longest token. What counts is its place in `merges`.",
            _encoded(_longest),
        ),
        "one-merge": Variant(
            "Only one pair is merged. Look again after each merge, until no pair is left that was "
            "ever merged.",
            _one_merge,
        ),
        "never-looks-again": Variant(
            "You merge the pairs that stand in the piece in the beginning. A merge makes new "
            "pairs: look again after each.",
            _never_looks_again,
        ),
        "longest-match": Variant(
            "You cut off the longest known token from the left. That is how WordPiece works; byte "
            "pairs are merged in the order of training.",
            _longest_match,
        ),
        "backwards": Variant(
            "You go through `merges` from the end. The first one was found first.", _backwards
        ),
        "letters": Variant(
            "Nothing is merged: these are the letters.", lambda piece, merges: list(piece)
        ),
        "joined": Variant(
            "You give one string. A list of tokens is wanted.", lambda piece, merges: piece
        ),
        "a-tuple": Variant(
            "The right tokens, but in a tuple. A list is wanted.",
            lambda piece, merges: tuple(encode_piece(piece, merges)),
        ),
    },
)


# --- unpack_four_bits (graded) --------------------------------------------------------------


def _make_packed(kind, seed):
    chosen = torch.Generator().manual_seed(seed)
    [blocks] = unequal(seed, 1, 5, 11)
    blocks = {"one block": 1, "16 blocks": 16, "32 blocks": 32}.get(kind["blocks"], blocks)
    packed = torch.randint(256, (blocks, 16), generator=chosen, dtype=torch.uint8)
    if kind["bytes"] == "every number at every place":
        if blocks % 16:
            return None
        turn = torch.arange(blocks)[:, None] + torch.randint(16, (16,), generator=chosen)
        other = turn * 7 + torch.randint(16, (16,), generator=chosen)
        packed = (turn % 16 + 16 * (other % 16)).to(torch.uint8)
    if kind["bytes"] == "the same in both halves of a byte":
        packed = packed // 16 * 17
    if kind["bytes"] == "small numbers":
        packed = packed & 0b00110011
    noise = torch.rand((2, blocks), generator=chosen) + 0.05
    scale, place = SCALES[kind["scale"]] * noise[0], noise[1] - 0.1
    least = {
        "a negative least value": -8 * scale * (0.5 + place),
        "a positive least value": 6 * scale * (0.5 + place),
        "a least value of 0": torch.zeros(blocks),
    }[kind["least"]]
    if kind["scale"] == "some blocks of equal weights":  # where a block has one weight 32 times
        scale = torch.where(torch.arange(blocks) % 3 == 1, 0.0, scale)
    return Case((packed, scale.half(), least.half()), gradients=False)


SCALES = {
    "ordinary scales": 0.02,
    "some blocks of equal weights": 0.02,
    "scales of 1": 1.0,
    "large scales": 7000.0,  # 15 of them are beyond half precision
    "tiny scales": 2e-5,
}


def unpack_four_bits(packed, scale, least):
    """By the digits: a byte has two in base 16, and each is one number."""
    rows = []
    for block, d, m in zip(packed.tolist(), scale.tolist(), least.tolist(), strict=True):
        digits = [int(digit, 16) for digit in bytes(block).hex()]
        rows.append([digit * d + m for digit in digits[1::2] + digits[::2]])
    return torch.tensor(rows)


def _given(case):
    """The numbers from 0 to 15, and scale and least as columns in float32."""
    packed, scale, least = case.args
    ones = torch.ones(len(packed))
    numbers = unpack_four_bits(packed, ones, 0 * ones)
    return numbers, scale.float()[:, None], least.float()[:, None]


def _weights_of(change):
    """A wrong answer made of numbers, scale and least."""
    return lambda case, right: change(*_given(case))


def _numbers_changed(change):
    """A wrong answer in which the numbers are other ones: change(numbers, bytes)."""

    def spoil(case, right):
        numbers, d, m = _given(case)
        return change(numbers, torch.cat(2 * [case.args[0]], -1).float()) * d + m

    return spoil


def _halves(case):
    numbers, d, m = _given(case)
    return numbers.half(), d.half(), m.half()


def _in_half(case, right):
    numbers, d, m = _halves(case)
    return (numbers * d + m).float()


def _product_in_half(case, right):
    numbers, d, m = _halves(case)
    return (numbers * d).float() + m.float()


def _stays_half(case, right):
    numbers, d, m = _halves(case)
    return numbers * d + m


def _along(width):
    """Scales along the numbers: it runs where there are as many of them as blocks, or one."""

    def spoil(case, right):
        numbers, d, m = _given(case)
        if len(numbers) == 1:
            return right
        if len(numbers) != width:
            return None
        halves = numbers.unflatten(1, (-1, width))
        return (halves * d.T + m.T).flatten(1)

    return spoil


def _is_upper(numbers):
    return torch.arange(numbers.shape[-1]) >= 16


_MINUS_EIGHT = (
    "You take 8 away from q. That belongs to another format, Q4_0, which has no least value. Here "
    "q goes from 0 to 15, and `least` says where 0 lies."
)
_ALONG = (
    "Your scales run along the numbers of a block. There is one scale for each *block*: give it "
    "an axis behind, and it is broadcast over the 32 numbers."
)
_IN_HALF = (
    "Nearly right: something is rounded to half precision on the way. Take scale and least to "
    "float32 before you multiply, and not only the result."
)

PACKED = Exercise(
    name="unpack_four_bits",
    lesson=LESSON,
    title="four bits a number",
    domain=Domain(
        kinds={
            "bytes": (
                "random bytes",
                "every number at every place",
                "the same in both halves of a byte",
                "small numbers",
            ),
            "blocks": ("some blocks", "one block", "16 blocks", "32 blocks"),
            "scale": tuple(SCALES),
            "least": ("a negative least value", "a positive least value", "a least value of 0"),
        },
        make=_make_packed,
        without={"precision": "the file holds scale and least in half precision, and so do we"},
    ),
    forbids=("dequantize", "dequantize_blocks"),
    witness=unpack_four_bits,
    axes=("blocks", "numbers"),
    smallest=1e-4,
    hints=(
        "A byte is 16 · upper + lower, and both are from 0 to 15. Which two operations on whole "
        "numbers give you the one and the other?",
        "All lower numbers of a block come first, then all upper ones: the places 0 to 15 and 16 "
        "to 31. Which function puts two tensors one behind the other?",
        "The product of bytes and half precision is in half precision. And (blocks,) does not fit "
        "(blocks, 32): it needs an axis of length 1 at the end.",
    ),
    variants={
        "interleaved": Variant(
            "The two numbers of a byte stand side by side with you, at the places 2j and 2j + 1. "
            "They belong to the places j and j + 16.",
            spoil=lambda case, right: right.unflatten(1, (2, 16)).mT.flatten(1),
        ),
        "halves-swapped": Variant(
            "Your two halves are swapped: the *lower* four bits hold the places 0 to 15.",
            spoil=lambda case, right: right.roll(16, 1),
        ),
        "interleaved-upper-first": Variant(
            "The two numbers of a byte stand side by side with you, the upper one first. The lower "
            "one belongs to place j, the upper one to place j + 16.",
            spoil=lambda case, right: right.roll(16, 1).unflatten(1, (2, 16)).mT.flatten(1),
        ),
        "in-half": Variant(_IN_HALF, spoil=_in_half),
        "product-in-half": Variant(
            "Nearly right: q · d is rounded to half precision before you add. The product of bytes "
            "and half precision is in half precision: take the scale to float32 first.",
            spoil=_product_in_half,
        ),
        "stays-half": Variant(
            "You give half precision. The weights should be in float32, and nothing should be "
            "rounded on the way there.",
            spoil=_stays_half,
        ),
        "upper-not-shifted": Variant(
            "Your upper numbers are 16 times too large: you keep the upper four bits, and do not "
            "move them down.",
            spoil=_numbers_changed(
                lambda numbers, both: torch.where(_is_upper(numbers), 16 * numbers, numbers)
            ),
        ),
        "upper-with-a-rest": Variant(
            "You divide the byte by 16, and the lower four bits are left as a fraction. Divide "
            "without the rest.",
            spoil=_numbers_changed(
                lambda numbers, both: torch.where(_is_upper(numbers), both / 16, numbers)
            ),
        ),
        "lower-is-the-byte": Variant(
            "Your lower numbers are the whole bytes: the upper four bits are still in them.",
            spoil=_numbers_changed(
                lambda numbers, both: torch.where(_is_upper(numbers), numbers, both)
            ),
        ),
        "lower-twice": Variant(
            "Both halves hold the lower four bits with you.",
            spoil=lambda case, right: torch.cat(2 * [right[:, :16]], 1),
        ),
        "upper-twice": Variant(
            "Both halves hold the upper four bits with you.",
            spoil=lambda case, right: torch.cat(2 * [right[:, 16:]], 1),
        ),
        "by-fifteen": Variant(
            "You divide by 15, the largest number of four bits. How many numbers are there, the 0 "
            "among them?",
            spoil=_numbers_changed(
                lambda numbers, both: torch.where(_is_upper(numbers), both // 15, both % 15)
            ),
        ),
        "three-bits": Variant(
            "You keep three bits. A number of four bits goes up to 15.",
            spoil=_numbers_changed(lambda numbers, both: numbers % 8),
        ),
        "signed": Variant(
            "With you the numbers from 8 to 15 are negative, as if the first bit were a sign. q "
            "has none: it goes from 0 to 15.",
            spoil=_numbers_changed(
                lambda numbers, both: torch.where(numbers > 7, numbers - 16, numbers)
            ),
        ),
        "upper-signed": Variant(
            "Your upper numbers from 8 to 15 are negative: an int8 has a sign, and `>>` keeps it. "
            "Bytes go from 0 to 255: stay in uint8.",
            spoil=_numbers_changed(
                lambda numbers, both: torch.where(
                    _is_upper(numbers) & (numbers > 7), numbers - 16, numbers
                )
            ),
        ),
        "minus-8": Variant(_MINUS_EIGHT, spoil=_numbers_changed(lambda numbers, both: numbers - 8)),
        "minus-8-in-bytes": Variant(
            _MINUS_EIGHT + " (And in uint8, 3 − 8 is 251.)",
            spoil=_numbers_changed(lambda numbers, both: (numbers - 8) % 256),
        ),
        "minus-8-alone": Variant(
            _MINUS_EIGHT, spoil=_weights_of(lambda numbers, d, m: (numbers - 8) * d)
        ),
        "no-least": Variant(
            "The least value is not used: w = q · d + m.",
            spoil=_weights_of(lambda numbers, d, m: numbers * d),
        ),
        "least-taken-away": Variant(
            "You take the least value away. It is added: q = 0 means m.",
            spoil=_weights_of(lambda numbers, d, m: numbers * d - m),
        ),
        "least-times-scale": Variant(
            "You multiply the least value by the scale as well. It is a weight already: only q is "
            "multiplied.",
            spoil=_weights_of(lambda numbers, d, m: (numbers + m) * d),
        ),
        "scale-for-least": Variant(
            "Scale and least have changed places: w = q · d + m.",
            spoil=_weights_of(lambda numbers, d, m: numbers * m + d),
        ),
        "divided": Variant(
            "You divide by the scale. A weight is q *times* d, plus m.",
            spoil=_weights_of(lambda numbers, d, m: numbers / d + m),
        ),
        "numbers-alone": Variant(
            "These are the numbers from 0 to 15. The weights are w = q · d + m.",
            spoil=lambda case, right: _given(case)[0],
        ),
        "flat": Variant(
            "You give one long row. Keep the blocks apart: (blocks, 32).",
            spoil=lambda case, right: right.flatten(),
        ),
        "scales-along-the-numbers": Variant(_ALONG, spoil=_along(32)),
        "scales-along-the-bytes": Variant(_ALONG, spoil=_along(16)),
    },
)


# --- rows_for_neighbours --------------------------------------------------------------------


def _make_rows(kind, seed):
    half, heads, d_model = unequal(seed, 3, 3, 6)
    half = {"d_head 2": 1, "d_head 4": 2, "d_head 16": 8}.get(kind["d_head"], half)
    heads = {"one head": 1, "two heads": 2, "as many heads as d_head": 2 * half}.get(
        kind["heads"], heads
    )
    d_model = {"d_model = n_heads · d_head": 2 * half * heads, "one column": 1}.get(
        kind["columns"], 2 * d_model + 1
    )
    return Case((*randn(seed, (2 * half * heads, d_model)), heads), gradients=False)


def rows_for_neighbours(rows, n_heads):
    """Row 2i of a head is what was its row i, row 2i + 1 what was its row i + d_head/2."""
    d_head = len(rows) // n_heads
    order = [
        head * d_head + i + part * d_head // 2
        for head in range(n_heads)
        for i in range(d_head // 2)
        for part in (0, 1)
    ]
    return rows[order]


def _by_the_package(rows, n_heads):
    """The same by the package: it knows both layouts of the last axis."""
    numbers_last = rows.unflatten(0, (n_heads, -1)).mT
    return convert_rotary(numbers_last, "split-half", "interleaved").mT.flatten(0, 1)


def _columns_in_order(rows, n_heads):
    """The columns instead; None where they do not make up halves of heads."""
    if rows.shape[1] % (2 * n_heads):
        return None
    return rows.unflatten(1, (n_heads, 2, -1)).transpose(2, 3).flatten(1)


ROWS = Exercise(
    name="rows_for_neighbours",
    lesson=LESSON,
    title="rows for neighbours",
    domain=Domain(
        kinds={
            "d_head": ("d_head 6 to 12", "d_head 2", "d_head 4", "d_head 16"),
            "heads": ("some heads", "one head", "two heads", "as many heads as d_head"),
            "columns": ("another d_model", "d_model = n_heads · d_head", "one column"),
        },
        make=_make_rows,
    ),
    forbids=("convert_rotary",),
    witness=_by_the_package,
    reference=rows_for_neighbours,
    axes=("rows", "d_model"),
    tolerance=1e-7,
    hints=(
        "Write the numbers 0 to 11 into the rows: two heads of six. In which order should they "
        "stand afterwards? 0, 3, 1, and then?",
        "`unflatten(0, (n_heads, 2, -1))` cuts the rows into heads and each head into its two "
        "halves: (n_heads, 2, d_head/2, d_model). Which axis should run fastest now?",
        "Swap the axis of the two halves with that of the places in a half. Then make one axis of "
        "the first three again.",
    ),
    variants={
        "unchanged": Variant("Nothing has changed place.", lambda rows, n_heads: rows.clone()),
        "the-way-back": Variant(
            "This is the way back: it takes neighbours apart into halves. Row 2i of a head should "
            "be what was its row i.",
            lambda rows, n_heads: rows.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2),
        ),
        "one-large-head": Variant(
            "You cut the whole matrix into two halves, as if it were one head. Each head has two "
            "halves of its own.",
            lambda rows, n_heads: rows.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1),
        ),
        "second-half-first": Variant(
            "Of each two neighbours the wrong one comes first: row 2i is what was row i, and row "
            "2i + 1 what was row i + d_head/2.",
            lambda rows, n_heads: (
                rows.unflatten(0, (n_heads, 2, -1)).flip(1).transpose(1, 2).flatten(0, 2)
            ),
        ),
        "heads-spread": Variant(
            "The numbers of a head no longer stand together. Rows are head after head, before and "
            "after: the heads are the *first* axis when you cut.",
            lambda rows, n_heads: (
                rows.unflatten(0, (n_heads, 2, -1)).permute(2, 0, 1, 3).flatten(0, 2)
            ),
        ),
        "heads-inside": Variant(
            "You cut the rows as if the heads ran fastest. They are stored head after head: the "
            "heads are the *first* axis when you cut.",
            lambda rows, n_heads: (
                rows.unflatten(0, (2, -1, n_heads)).permute(2, 1, 0, 3).flatten(0, 2)
            ),
        ),
        "even-and-odd": Variant(
            "You take the rows with an even number, then those with an odd one, of the whole "
            "matrix. That makes halves of neighbours; it should be the other way round, in each "
            "head.",
            lambda rows, n_heads: torch.cat([rows[::2], rows[1::2]]),
        ),
        "columns": Variant(
            "You reorder the columns. A column belongs to a number of x; the numbers of q and k "
            "are the *rows*.",
            _columns_in_order,
        ),
        "reversed": Variant(
            "The second half of each head comes in from its end. Its rows keep their order: row "
            "i + d_head/2 goes to 2i + 1.",
            lambda rows, n_heads: _second_half_reversed(rows, n_heads),
        ),
        "halves-swapped": Variant(
            "You swap the two halves of each head. They should be put into each other, one row of "
            "the one, one row of the other.",
            lambda rows, n_heads: rows.unflatten(0, (n_heads, 2, -1)).flip(1).flatten(0, 2),
        ),
        "transposed": Variant(
            "Your result has the numbers of the heads in its columns. Give them back as rows, as "
            "nn.Linear stores them.",
            lambda rows, n_heads: rows_for_neighbours(rows, n_heads).T,
        ),
        "by-head": Variant(
            "The axes of the heads are still apart. Put them together: the shape is as it was, "
            "(n_heads · d_head, d_model).",
            lambda rows, n_heads: rows_for_neighbours(rows, n_heads).unflatten(0, (n_heads, -1)),
        ),
        "signs": Variant(
            "You change signs. That belongs to the rotation; here the rows only change places.",
            lambda rows, n_heads: _signs_changed(rows_for_neighbours(rows, n_heads)),
        ),
    },
)


def _second_half_reversed(rows, n_heads):
    first, second = rows.unflatten(0, (n_heads, 2, -1)).unbind(1)
    return torch.stack([first, second.flip(1)], 2).flatten(0, 2)


def _signs_changed(rows):
    signs = torch.ones(len(rows), 1, dtype=rows.dtype)
    signs[::2] = -1
    return signs * rows


# --- sentence_vectors -----------------------------------------------------------------------


def _make_sentences(kind, seed):
    batch, tokens, d_model = unequal(seed, 3, 3, 7)
    batch = 1 if kind["sizes"] == "one sentence" else batch
    tokens = d_model if kind["sizes"] == "as many tokens as d_model" else tokens
    batch = d_model if kind["sizes"] == "as many sentences as d_model" else batch
    counts = 1 + (torch.arange(batch) + seed) % tokens  # from 1 to all
    if kind["real"] == "one real token each":
        counts[:] = 1
    if kind["real"] == "all real":
        counts[:] = tokens
    if kind["real"] == "a sentence without a real token":
        counts[seed % batch] = 0
    place = torch.arange(tokens)
    real = place < counts[:, None]
    left = place >= tokens - counts[:, None]
    if kind["side"] == "padding on the left":
        real = left
    if kind["side"] == "padding on either side":
        real = torch.where((torch.arange(batch) + seed)[:, None] % 2 == 0, left, real)
    vectors = _vectors(seed, batch, tokens, d_model, real)
    if kind["numbers"] == "short vectors":
        vectors = 0.02 * vectors
    padding = {"huge numbers at padding": 1e6, "zeros at padding": 0.0}.get(kind["numbers"], 1.0)
    vectors = torch.where(real[..., None], vectors, padding * vectors)
    return Case((vectors, real), nan=_NOTHING_REAL)


def _vectors(seed, batch, tokens, d_model, real):
    """Numbers of which no sentence's sum is close to zero: that has no direction to speak of."""
    for attempt in range(1000):
        vectors, common = randn(
            seed + 7919 * attempt, (batch, tokens, d_model), (batch, 1, d_model)
        )
        vectors = vectors + common
        means = (vectors * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        lengths = torch.where(real.any(1), means.norm(dim=-1), 1.0)
        if lengths.min() > 0.4:
            return vectors
    raise AssertionError("no such vectors")


_NOTHING_REAL = (
    "nothing-real",
    "Right but for a sentence without any real token: there you divide 0 by 0. Its vector should "
    "be all zeros.",
)


def sentence_vectors(vectors, real):
    """The mean over the real tokens, of length 1."""
    count = real.sum(1, keepdim=True).clamp(min=1)
    mean = torch.where(real[..., None], vectors, 0.0).sum(1) / count
    return F.normalize(mean, dim=-1)


def _one_by_one(vectors, real):
    """Sentence by sentence: only the real tokens are ever looked at."""
    found = []
    for sentence, counts in zip(vectors, real, strict=True):
        mean = sentence[counts].sum(0)
        square = mean.square().sum()
        found.append(mean * (square.rsqrt() if square > 0 else 0.0))
    return torch.stack(found)


def _masked(vectors, real):
    return torch.where(real[..., None], vectors, 0.0)


def _mean(vectors, real):
    return _masked(vectors, real).sum(1) / real.sum(1, keepdim=True).clamp(min=1)


def _unit(mean, dim=-1):
    return F.normalize(mean, dim=dim)


def _real_one(vectors, real, last):
    """The first real token of each sentence, or the last one; zeros where there is none."""
    place = torch.arange(real.shape[1]).expand_as(real)
    at = (place * real).amax(1) if last else place.masked_fill(~real, 10**6).amin(1)
    at = at.clamp(max=real.shape[1] - 1)
    return torch.where(real.any(1)[:, None], vectors[torch.arange(len(vectors)), at], 0.0)


def _from_the_first_place(vectors, real):
    """As if the real tokens stood first: as many as there are real ones."""
    there = torch.arange(real.shape[1]) < real.sum(1, keepdim=True)
    return _unit(_mean(vectors, there))


SENTENCES = Exercise(
    name="sentence_vectors",
    lesson=LESSON,
    title="one vector for a sentence",
    domain=Domain(
        kinds={
            "side": ("padding on the right", "padding on the left", "padding on either side"),
            "real": (
                "sentences of unequal length",
                "one real token each",
                "all real",
                "a sentence without a real token",
            ),
            "numbers": (
                "ordinary numbers",
                "huge numbers at padding",
                "zeros at padding",
                "short vectors",
            ),
            "sizes": (
                "unequal sizes",
                "one sentence",
                "as many tokens as d_model",
                "as many sentences as d_model",
            ),
        },
        make=_make_sentences,
        edges=("a sentence without a real token",),
    ),
    witness=_one_by_one,
    reference=sentence_vectors,
    axes=("batch", "d_model"),
    smallest=1.0,
    hints=(
        "Padding must not be in the mean. What can you multiply a token's vector by so that it "
        "counts, or does not?",
        "`real` is (batch, tokens), `vectors` have one axis more. With `real[..., None]` the two "
        "can be multiplied. Then sum over the tokens.",
        "Length 1 means divided by the root of the sum of squares, each sentence by its own. "
        "`F.normalize` does that, and zeros stay zeros there.",
    ),
    variants={
        "padding-counts": Variant(
            "Padding is in your mean. Only tokens where `real` is True count.",
            lambda vectors, real: _unit(vectors.mean(1)),
        ),
        "not-scaled": Variant(
            "The right mean, but not scaled to length 1.",
            _mean,
        ),
        "sum-not-scaled": Variant(
            "You give the sum over the real tokens. It points the right way, and should be scaled "
            "to length 1.",
            lambda vectors, real: _masked(vectors, real).sum(1),
        ),
        "mean-not-scaled-over-all": Variant(
            "You give the mean over all tokens, padding too, and do not scale it to length 1.",
            lambda vectors, real: vectors.mean(1),
        ),
        "tokens-scaled-first": Variant(
            "You scale each token's vector to length 1 before the mean. So a long one counts no "
            "more than a short one. First the mean, then the scaling.",
            lambda vectors, real: _unit(_mean(_unit(vectors), real)),
        ),
        "tokens-scaled-alone": Variant(
            "You scale each token's vector to length 1, and not their mean, which is shorter.",
            lambda vectors, real: _mean(_unit(vectors), real),
        ),
        "first-place": Variant(
            "You take the vector at the first place, as BERT's [CLS] is used. Here it is the mean "
            "over all real tokens.",
            lambda vectors, real: _unit(vectors[:, 0]),
        ),
        "first-real-token": Variant(
            "You take the first real token. It is the mean over all real ones.",
            lambda vectors, real: _unit(_real_one(vectors, real, last=False)),
        ),
        "last-place": Variant(
            "You take the vector at the last place, which may be padding. It is the mean over all "
            "real tokens.",
            lambda vectors, real: _unit(vectors[:, -1]),
        ),
        "last-real-token": Variant(
            "You take the last real token. It is the mean over all real ones.",
            lambda vectors, real: _unit(_real_one(vectors, real, last=True)),
        ),
        "largest": Variant(
            "You take the largest of each number over the tokens. It is their mean.",
            lambda vectors, real: _unit(
                torch.where(
                    real.any(1, keepdim=True),
                    vectors.masked_fill(~real[..., None], -math.inf).amax(1),
                    0.0,
                )
            ),
        ),
        "padding-alone": Variant(
            "You take the mean over the *padding*. True stands where a token is real.",
            lambda vectors, real: _unit(_mean(vectors, ~real)),
        ),
        "scaled-over-the-batch": Variant(
            "You scale over the batch. Each *sentence* gets length 1: the sum of squares goes over "
            "d_model.",
            lambda vectors, real: _unit(_mean(vectors, real), dim=0),
        ),
        "one-length-for-all": Variant(
            "You divide all sentences by one length. Each has its own.",
            lambda vectors, real: (
                (mean := _mean(vectors, real)) / mean.square().sum().sqrt().clamp(min=1e-12)
            ),
        ),
        "by-the-square": Variant(
            "You divide by the square of the length. The root is missing.",
            lambda vectors, real: (
                (mean := _mean(vectors, real))
                / mean.square().sum(-1, keepdim=True).clamp(min=1e-12)
            ),
        ),
        "by-the-sizes": Variant(
            "You divide by the sum of the sizes. Length means the root of the sum of squares.",
            lambda vectors, real: F.normalize(_mean(vectors, real), p=1, dim=-1),
        ),
        "by-the-largest": Variant(
            "You divide by the largest number. Length means the root of the sum of squares.",
            lambda vectors, real: F.normalize(_mean(vectors, real), p=math.inf, dim=-1),
        ),
        "by-the-root-of-d": Variant(
            "Your vectors have the length √d_model: you divide by the root of the *mean* of the "
            "squares. It is their sum.",
            lambda vectors, real: _unit(_mean(vectors, real)) * vectors.shape[-1] ** 0.5,
        ),
        "from-the-first-place": Variant(
            "You count the real tokens and take as many from the first place on. Padding may stand "
            "on the left too: `real` says which.",
            _from_the_first_place,
        ),
        "at-least-1": Variant(
            "You divide by the length only where it is more than 1. Short vectors have to become "
            "longer.",
            lambda vectors, real: (
                (mean := _mean(vectors, real)) / mean.norm(dim=-1, keepdim=True).clamp(min=1)
            ),
        ),
        "nudged": Variant(
            "You add a small number to the length, against a division by 0. So all vectors become "
            "a little too short, and those that are short become much too short.",
            lambda vectors, real: (
                (mean := _mean(vectors, real)) / (mean.norm(dim=-1, keepdim=True) + 1e-3)
            ),
        ),
    },
)


# --- lora -----------------------------------------------------------------------------------


def _make_lora(kind, seed):
    batch, tokens, d_in, d_out = unequal(seed, 4, 3, 8)
    batch = 1 if kind["sizes"] == "a batch of one" else batch
    tokens = 1 if kind["sizes"] == "one token" else tokens
    d_in, d_out = d_in + 4, d_out + 4
    d_out = d_in if kind["sizes"] == "d_in = d_out" else d_out
    if kind["sizes"] == "large matrices":
        d_in, d_out, batch, tokens = 60, 64, 2, 3
    rank = {"rank 2": 2, "rank 1": 1, "rank 4": 4, "rank 5": 5}[kind["rank"]]
    alpha = {"alpha 16": 16, "alpha 1": 1, "alpha equal to the rank": rank, "alpha 0.5": 0.5}[
        kind["alpha"]
    ]
    x, weight, a, b = randn(seed, (batch, tokens, d_in), (d_out, d_in), (rank, d_in), (d_out, rank))
    if kind["start"] == "b of zeros, as it begins":
        b = torch.zeros_like(b)
    # Output, its parts and what goes through the rank hold less than half of this; b @ a more.
    largest = 3000 if kind["sizes"] == "large matrices" else None
    return Case((x, weight / d_in**0.5, a / d_in**0.5, b, alpha), largest=largest)


def lora(x, weight, a, b, alpha):
    """x Wᵀ with W frozen, and the way through the rank beside it."""
    return F.linear(x, weight.detach()) + alpha / len(a) * F.linear(F.linear(x, a), b)


def _column_by_column(x, weight, a, b, alpha):
    """A sum over the rank: each adds an outer product's worth."""
    out = torch.einsum("bti,oi->bto", x, weight.detach())
    for row, column in zip(a, b.T, strict=True):
        out = out + (x * row).sum(-1, keepdim=True) * column * (alpha / a.shape[0])
    return out


def _lora(scale, base=1.0):
    """base · x Wᵀ + scale(alpha, a, b) · x Aᵀ Bᵀ."""

    def answer(x, weight, a, b, alpha):
        return base * (x @ weight.T) + scale(alpha, a, b) * (x @ a.T @ b.T)

    return answer


LORA = Exercise(
    name="lora",
    lesson=LESSON,
    title="a small matrix beside a large one",
    domain=Domain(
        kinds={
            "rank": ("rank 2", "rank 1", "rank 4", "rank 5"),
            "alpha": ("alpha 16", "alpha 1", "alpha equal to the rank", "alpha 0.5"),
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one token",
                "d_in = d_out",
                "large matrices",
            ),
            "start": ("b of some size", "b of zeros, as it begins"),
        },
        make=_make_lora,
    ),
    forbids=("lora",),
    frozen=("weight",),
    witness=_column_by_column,
    reference=lora,
    axes=("batch", "tokens", "d_out"),
    hints=(
        "Two ways from x to the output, added up. The one goes through `weight`. The other goes "
        "down to the rank and up again: what shape has it in between?",
        "`F.linear(x, m)` is x Mᵀ. x Aᵀ Bᵀ is two of those. The rank is how many rows `a` has.",
        "`weight.detach()` has the same numbers and memory, but no gradient flows back through it. "
        "x, a and b stay as they are.",
    ),
    variants={
        "not-scaled": Variant(
            "The factor alpha / rank is missing.", _lora(lambda alpha, a, b: 1.0)
        ),
        "not-divided": Variant(
            "You multiply by alpha alone. It is alpha / rank.", _lora(lambda alpha, a, b: alpha)
        ),
        "alpha-missing": Variant(
            "You divide by the rank, and alpha is not used. It is alpha / rank.",
            _lora(lambda alpha, a, b: 1 / len(a)),
        ),
        "upside-down": Variant(
            "Your factor stands on its head: it is alpha / rank.",
            _lora(lambda alpha, a, b: len(a) / alpha),
        ),
        "by-d_out": Variant(
            "You divide by d_out. The rank is how many rows `a` has, and how many columns `b`.",
            _lora(lambda alpha, a, b: alpha / len(b)),
        ),
        "by-d_in": Variant(
            "You divide by d_in. The rank is how many rows `a` has, and how many columns `b`.",
            _lora(lambda alpha, a, b: alpha / a.shape[1]),
        ),
        "by-the-root": Variant(
            "You divide by the root of the rank. That has been proposed since (rsLoRA); here it is "
            "alpha / rank.",
            _lora(lambda alpha, a, b: alpha / len(a) ** 0.5),
        ),
        "whole-numbers": Variant(
            "You drop what is left behind the whole number: 1 // 4 is 0. alpha / rank need not be "
            "a whole number.",
            _lora(lambda alpha, a, b: alpha // len(a)),
        ),
        "all-scaled": Variant(
            "You multiply both parts by alpha / rank. Only the small matrices are scaled.",
            lambda x, weight, a, b, alpha: alpha / len(a) * (x @ weight.T + x @ a.T @ b.T),
        ),
        "published-scaled": Variant(
            "You multiply x Wᵀ by alpha / rank. It belongs to the small matrices.",
            lambda x, weight, a, b, alpha: alpha / len(a) * (x @ weight.T) + x @ a.T @ b.T,
        ),
        "published-missing": Variant(
            "x Wᵀ is missing: the published matrix is still there, and the small ones beside it.",
            _lora(lambda alpha, a, b: alpha / len(a), base=0.0),
        ),
        "small-ones-missing": Variant(
            "x Aᵀ Bᵀ is missing: this is the published matrix alone.",
            _lora(lambda alpha, a, b: 0.0),
        ),
        "taken-away": Variant(
            "You take the small part away. It is added.",
            _lora(lambda alpha, a, b: -alpha / len(a)),
        ),
        "b-first": Variant(
            "x meets B first with you. A comes first, (rank, d_in): it takes x down to the rank.",
            lambda x, weight, a, b, alpha: x @ weight.T + alpha / len(a) * (x @ b @ a),
        ),
        "not-transposed": Variant(
            "You multiply by W, not by its transpose: nn.Linear stores (d_out, d_in).",
            lambda x, weight, a, b, alpha: x @ weight + alpha / len(a) * (x @ a.T @ b.T),
        ),
        "one-after-the-other": Variant(
            "The small matrices read what the published one gives. They stand *beside* it: both "
            "read x.",
            lambda x, weight, a, b, alpha: (y := x @ weight.T) + alpha / len(a) * (y @ a.T @ b.T),
        ),
    },
)


EXERCISES = [FREQUENT, MERGE, ENCODE, PACKED, ROWS, SENTENCES, LORA]
QUESTIONS = [
    Item(
        "11-first-merge",
        LESSON,
        "` low` 5 times, ` lower` 2, ` newest` 6, ` widest` 3. Which pair is merged first?",
        (
            Option(
                "l and o",
                "It stands in ` low` and ` lower`: 7 times. Is there one that is more frequent?",
            ),
            Option(
                "e and s",
                "Yes, 9 times: in ` newest` and ` widest`. s and t is as frequent, and comes "
                "later in the alphabet.",
                right=True,
            ),
            Option(
                "n and e",
                "It stands in ` newest` alone: 6 times.",
            ),
        ),
    ),
    Item(
        "11-how-much-shorter",
        LESSON,
        "An encoding of 2,048 tokens, found in the first 100,000 characters of the manual. How "
        "many bytes has a token, on average, in a part that it has not seen?",
        (
            Option(
                "about one and a half",
                "Then it would hardly be worth while. Look at the output.",
            ),
            Option(
                "about three",
                "Yes: many words of a manual come again and again, and are one or two tokens then.",
                right=True,
            ),
            Option(
                "about eight, a whole word and more",
                "A token never reaches over the border of a piece, and words here are shorter.",
            ),
        ),
    ),
    Item(
        "11-letters",
        LESSON,
        "Why is it hard for such a model to say how many r are in “strawberry”?",
        (
            Option(
                "it cannot count that far",
                "Three is not far. But what would it count?",
            ),
            Option(
                "it gets one number for the word, and its letters are not in it",
                "Yes. What it knows of the letters, it must have learned from texts about "
                "spelling.",
                right=True,
            ),
            Option(
                "attention mixes the letters of a word",
                "No letter has come in that could be mixed.",
            ),
        ),
    ),
    Item(
        "11-sink",
        LESSON,
        "Many heads give most of their weight to the first token. What may that be good for?",
        (
            Option(
                "the first word of a text is the most important one",
                "They do so too with another word in front: the cells below try it.",
            ),
            Option(
                "a head that finds nothing needs a place for its weight, since rows sum to 1",
                "Yes, that is what is thought. Look at what the first token has to give.",
                right=True,
            ),
            Option(
                "nothing: it is a mistake in the code",
                "Then the logits would not be those of Hugging Face's code.",
            ),
        ),
    ),
    Item(
        "11-window",
        LESSON,
        "Every token sees only the last 64, in texts of 256. What does that cost?",
        (
            Option(
                "little: what matters is mostly near",
                "That is true of the words. But what about the place where idle heads leave their "
                "weight?",
            ),
            Option(
                "much, and most of it comes back with the first four tokens",
                "Yes. Four other tokens do not bring it back.",
                right=True,
            ),
            Option(
                "much, and any four other tokens bring it back",
                "Look at the last line: the four others that we tried do not help.",
            ),
        ),
    ),
    Item(
        "11-which-part",
        LESSON,
        "One of sixty sub-layers is taken out. Which one costs most?",
        (
            Option(
                "the last MLP: it writes the answer",
                "What it writes is one part of a sum. Look at the figure.",
            ),
            Option(
                "the first MLP: all later blocks read a stream with its output in it",
                "Yes, and by far. Without it they read something that they have never met.",
                right=True,
            ),
            Option(
                "one in the middle, where most of the work is done",
                "The stream goes on past it, with all that the others write.",
            ),
            Option("each is missed alike", "They differ more than a hundredfold. See the axis."),
        ),
    ),
    Item(
        "11-forget",
        LESSON,
        "After a few steps on dates: how well does it still predict Python's manual?",
        (
            Option("as well as before", "The texts have nothing in common. But the weights have."),
            Option(
                "worse, after LoRA too",
                "Yes. W itself is frozen, but what is added to it changes every text.",
                right=True,
            ),
            Option(
                "worse after full fine-tuning; LoRA forgets nothing, since W is frozen",
                "W is, but B A is added to it, in every text. Look at the bits per byte.",
            ),
            Option("better", "It was trained on dates alone. Look at the bits per byte."),
        ),
    ),
    Item(
        "11-quiz-layout",
        LESSON,
        "You forget to reorder the rows of q and k. What happens?",
        (
            Option(
                "an error: the shapes do not fit",
                "They fit: the rows only stand in another order.",
            ),
            Option(
                "no error, and it writes nonsense",
                "Yes. At position 0 nothing is turned; further on each number turns with the "
                "wrong partner.",
                right=True,
            ),
            Option(
                "nothing: q and k are permuted alike, so q · k stays the same",
                "Without rotary positions that would be so. But the rotation turns other pairs.",
            ),
        ),
    ),
    Item(
        "11-quiz-strict",
        LESSON,
        "A checkpoint calls a tensor `ln_1.weight`, your model `attention_norm.weight`. You load "
        "with `strict=False`. What do you get?",
        (
            Option(
                "the tensor finds its place by its shape",
                "Names decide. All norms have the same shape.",
            ),
            Option(
                "no error; the norm keeps the weights with which it was made",
                "Yes. It speaks, only worse, and nobody is told. So a loader should insist on "
                "every name.",
                right=True,
            ),
            Option("an error that names the tensor", "That is what `strict=True` does."),
        ),
    ),
    Item(
        "11-quiz-lora",
        LESSON,
        "Why does LoRA begin with B = 0 and a random A, and not with both zero?",
        (
            Option(
                "with both zero, the output would change at once",
                "It would not: B A would be zero as well.",
            ),
            Option(
                "with both zero, neither would ever get a gradient",
                "Yes: A's gradient is multiplied by B, and B's by A. One of them must not be zero.",
                right=True,
            ),
            Option(
                "random numbers make the rank larger",
                "The rank is at most r, however it begins.",
            ),
        ),
    ),
]
