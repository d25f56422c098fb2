"""What learners write in lesson 11."""

import re
from collections import Counter, defaultdict
from itertools import chain, pairwise

import torch
import torch.nn.functional as F

from tests.wrong_answers import right, wrong
from tfcourse.checks.lessons.lesson_11_a_real_llm import merge_pair

# --- most_frequent_pair ---------------------------------------------------------------------


@right("most_frequent_pair")
def with_a_counter(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in pairwise(piece):
            count[pair] += times
    most = max(count.values())
    return min(pair for pair, times in count.items() if times == most)


@right("most_frequent_pair")
def with_indices(pieces, how_often):
    count = {}
    for i in range(len(pieces)):
        for j in range(len(pieces[i]) - 1):
            pair = (pieces[i][j], pieces[i][j + 1])
            count[pair] = count.get(pair, 0) + how_often[i]
    best = None
    for pair in count:
        if best is None or count[pair] > count[best]:
            best = pair
        elif count[pair] == count[best] and pair < best:
            best = pair
    return best


@right("most_frequent_pair")
def sorted_by_two_keys(pieces, how_often):
    count = defaultdict(int)
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in zip(piece, piece[1:], strict=False):
            count[pair] += times
    return sorted(count.items(), key=lambda item: (-item[1], item[0]))[0][0]


@right("most_frequent_pair")
def all_pairs_written_down(pieces, how_often):
    written = chain.from_iterable(
        times * list(pairwise(piece)) for piece, times in zip(pieces, how_often, strict=True)
    )
    count = Counter(sorted(written))
    return count.most_common(1)[0][0]  # of equals, the one that was met first: sorted


def counted(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in pairwise(piece):
            count[pair] += times
    return count


@wrong("most_frequent_pair", "unweighted")
def forgets_how_often(pieces, how_often):
    return with_a_counter(pieces, [1] * len(pieces))


@wrong("most_frequent_pair", "first-found")
def most_common(pieces, how_often):
    return counted(pieces, how_often).most_common(1)[0][0]


@wrong("most_frequent_pair", "first-found")
def max_by_get(pieces, how_often):
    count = counted(pieces, how_often)
    return max(count, key=count.get)


@wrong("most_frequent_pair", "last-in-the-alphabet")
def max_of_both(pieces, how_often):
    return max((times, pair) for pair, times in counted(pieces, how_often).items())[1]


@wrong("most_frequent_pair", "order-of-joined-text")
def joined_order(pieces, how_often):
    count = counted(pieces, how_often)
    most = max(count.values())
    return min((pair for pair in count if count[pair] == most), key="".join)


@wrong("most_frequent_pair", "once-a-piece")
def a_set_of_pairs(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in {*pairwise(piece)}:
            count[pair] += times
    return min(count, key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "no-overlap")
def jumps_over_what_it_found(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        i = 0
        while i < len(piece) - 1:
            pair = (piece[i], piece[i + 1])
            count[pair] += times
            again = piece[i] == piece[i + 1] and i + 2 < len(piece) and piece[i + 2] == piece[i]
            i += 2 if again else 1
    return min(count, key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "every-second-pair")
def cut_into_twos(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for i in range(0, len(piece) - 1, 2):
            count[piece[i], piece[i + 1]] += times
    most = max(count.values())
    return min(pair for pair in count if count[pair] == most)


@wrong("most_frequent_pair", "across-pieces")
def one_long_text(pieces, how_often):
    text = []
    for piece, times in zip(pieces, how_often, strict=True):
        text += piece * times
    count = Counter(pairwise(text))
    return min(count, key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "either-order")
def sorted_pairs(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for left, right_one in pairwise(piece):
            count[min(left, right_one), max(left, right_one)] += times
    return min(count, key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "by-joined-text")
def keys_are_texts(pieces, how_often):
    count, pair_of = Counter(), {}
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in pairwise(piece):
            text = "".join(pair)
            count[text] += times
            pair_of.setdefault(text, pair)
    most = max(count.values())
    return min(pair_of[text] for text in count if count[text] == most)


@wrong("most_frequent_pair", "last-pair-lost")
def stops_too_early(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for i in range(len(piece) - 2):
            count[piece[i], piece[i + 1]] += times
    most = max(count.values())
    return min(pair for pair in count if count[pair] == most)


@wrong("most_frequent_pair", "rarest")
def smallest_count(pieces, how_often):
    count = counted(pieces, how_often)
    return min(count, key=lambda pair: (count[pair], pair))


@wrong("most_frequent_pair", "letters")
def pairs_of_letters(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in pairwise("".join(piece)):
            count[pair] += times
    return min(count, key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "joined")
def one_string(pieces, how_often):
    left, right_one = with_a_counter(pieces, how_often)
    return left + right_one


@wrong("most_frequent_pair", "a-list")
def in_a_list(pieces, how_often):
    return [*with_a_counter(pieces, how_often)]


@wrong("most_frequent_pair", "with-its-count")
def pair_and_count(pieces, how_often):
    count = counted(pieces, how_often)
    best = with_a_counter(pieces, how_often)
    return best, count[best]


@wrong("most_frequent_pair", "returned-none")
def forgets_the_return(pieces, how_often):
    with_a_counter(pieces, how_often)


@wrong("most_frequent_pair", "type")
def the_count_alone(pieces, how_often):
    return max(counted(pieces, how_often).values())


@wrong("most_frequent_pair", "type")
def all_that_are_equal(pieces, how_often):
    count = counted(pieces, how_often)
    return [pair for pair in count if count[pair] == max(count.values())]


@wrong("most_frequent_pair", "differs")
def ties_without_capitals(pieces, how_often):
    count = counted(pieces, how_often)
    return min(count, key=lambda pair: (-count[pair], [token.lower() for token in pair]))


@wrong("most_frequent_pair", "differs")
def ties_by_the_right_one(pieces, how_often):
    count = counted(pieces, how_often)
    return min(count, key=lambda pair: (-count[pair], pair[::-1]))


@wrong("most_frequent_pair", "differs")
def the_shortest_of_equals(pieces, how_often):
    count = counted(pieces, how_often)
    return min(count, key=lambda pair: (-count[pair], len("".join(pair)), pair))


@wrong("most_frequent_pair", "differs")
def the_pairs_of_the_commonest_piece(pieces, how_often):
    long = [(times, piece) for piece, times in zip(pieces, how_often, strict=True) if piece[1:]]
    return with_a_counter([max(long)[1]], [1])


@wrong("most_frequent_pair", "differs")
def the_commonest_left_first(pieces, how_often):
    count = counted(pieces, how_often)
    lefts = Counter()
    for (left, _), times in count.items():
        lefts[left] += times
    best = min(lefts, key=lambda token: (-lefts[token], token))
    return min((p for p in count if p[0] == best), key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "differs")
def a_later_piece_overwrites(pieces, how_often):
    count = {}
    for piece, times in zip(pieces, how_often, strict=True):
        count.update({pair: n * times for pair, n in Counter(pairwise(piece)).items()})
    return min(count, key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "differs")
def not_more_than_once_each(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in pairwise(piece):
            count[pair] = max(count[pair], times)
    return min(count, key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "changes-input")
def pops_the_tokens(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        while len(piece) > 1:
            left = piece.pop(0)
            count[left, piece[0]] += times
    return min(count, key=lambda pair: (-count[pair], pair))


@wrong("most_frequent_pair", "raised")
def looks_beyond_the_end(pieces, how_often):
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for i in range(len(piece)):
            count[piece[i], piece[i + 1]] += times
    return min(count, key=lambda pair: (-count[pair], pair))


# --- merge_pair -----------------------------------------------------------------------------


@right("merge_pair")
def by_an_index(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        if i + 1 < len(tokens) and (tokens[i], tokens[i + 1]) == pair:
            merged.append(tokens[i] + tokens[i + 1])
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged


@right("merge_pair")
def looks_back(tokens, pair):
    merged = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token
        else:
            merged.append(token)
    return merged


@right("merge_pair")
def with_an_iterator(tokens, pair):
    left, right_one = pair
    merged, rest = [], list(reversed(tokens))
    while rest:
        token = rest.pop()
        if token == left and rest and rest[-1] == right_one:
            token += rest.pop()
        merged.append(token)
    return merged


@right("merge_pair")
def recursively(tokens, pair):
    if len(tokens) < 2:
        return tokens[:]
    if tuple(tokens[:2]) == pair:
        return ["".join(pair), *recursively(tokens[2:], pair)]
    return [tokens[0], *recursively(tokens[1:], pair)]


@right("merge_pair")
def with_a_flag(tokens, pair):
    merged, skip = [], False
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):
        if skip:
            skip = False
        elif (token, following) == pair:
            merged.append(token + following)
            skip = True
        else:
            merged.append(token)
    return merged


@right("merge_pair")
def shortens_a_copy(tokens, pair):
    new = tokens.copy()
    i = 0
    while i < len(new) - 1:
        if (new[i], new[i + 1]) == pair:
            new[i : i + 2] = [new[i] + new[i + 1]]
        i += 1
    return new


@wrong("merge_pair", "nothing-merged")
def compares_a_slice(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        here = tokens[i : i + 2] == pair
        merged.append("".join(pair) if here else tokens[i])
        i += 2 if here else 1
    return merged


@wrong("merge_pair", "nothing-merged")
def asks_whether_it_is_in(tokens, pair):
    return ["".join(pair)] if pair in tokens else [*tokens]


@wrong("merge_pair", "first-place-alone")
def stops_after_one(tokens, pair):
    for i in range(len(tokens) - 1):
        if (tokens[i], tokens[i + 1]) == pair:
            return tokens[:i] + [pair[0] + pair[1]] + tokens[i + 2 :]
    return tokens[:]


@wrong("merge_pair", "used-twice")
def never_skips(tokens, pair):
    merged = []
    for i in range(len(tokens)):
        if i + 1 < len(tokens) and (tokens[i], tokens[i + 1]) == pair:
            merged.append(tokens[i] + tokens[i + 1])
        elif i > 0 and (tokens[i - 1], tokens[i]) == pair:
            continue
        else:
            merged.append(tokens[i])
    return merged


@wrong("merge_pair", "from-the-right")
def backwards(tokens, pair):
    new = list(tokens)
    for i in range(len(new) - 2, -1, -1):
        if i + 1 < len(new) and (new[i], new[i + 1]) == pair:
            new[i : i + 2] = ["".join(pair)]
    return new


@wrong("merge_pair", "right-token-stays")
def forgets_to_skip(tokens, pair):
    merged = []
    for i, token in enumerate(tokens):
        here = i + 1 < len(tokens) and (token, tokens[i + 1]) == pair
        merged.append(token + tokens[i + 1] if here else token)
    return merged


@wrong("merge_pair", "last-token-lost")
def ends_too_early(tokens, pair):
    merged, i = [], 0
    while i < len(tokens) - 1:
        if (tokens[i], tokens[i + 1]) == pair:
            merged.append(tokens[i] + tokens[i + 1])
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged


@wrong("merge_pair", "neighbour-by-neighbour")
def one_for_each_neighbour(tokens, pair):
    merged = []
    for left, right_one in pairwise(tokens):
        merged.append(left + right_one if (left, right_one) == pair else left)
    return merged


@wrong("merge_pair", "by-text")
def replaced_in_the_text(tokens, pair):
    return " ".join(tokens).replace(" ".join(pair), "".join(pair)).split(" ")


@wrong("merge_pair", "by-joined-text")
def reads_alike(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        here = i + 1 < len(tokens) and tokens[i] + tokens[i + 1] == pair[0] + pair[1]
        merged.append("".join(pair) if here else tokens[i])
        i += 2 if here else 1
    return merged


@wrong("merge_pair", "either-order")
def as_a_set(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        here = sorted(tokens[i : i + 2]) == sorted(pair)
        merged.append("".join(tokens[i : i + 2]) if here else tokens[i])
        i += 2 if here else 1
    return merged


@wrong("merge_pair", "left-alone")
def only_looks_at_the_left(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        here = tokens[i] == pair[0] and i + 1 < len(tokens)
        merged.append(tokens[i] + tokens[i + 1] if here else tokens[i])
        i += 2 if here else 1
    return merged


@wrong("merge_pair", "with-a-space")
def joined_by_a_space(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        here = tuple(tokens[i : i + 2]) == pair
        merged.append(" ".join(pair) if here else tokens[i])
        i += 2 if here else 1
    return merged


@wrong("merge_pair", "pair-for-token")
def appends_the_pair(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        here = tuple(tokens[i : i + 2]) == pair
        merged.append(pair if here else tokens[i])
        i += 2 if here else 1
    return merged


@wrong("merge_pair", "joined")
def all_in_one(tokens, pair):
    return "".join(by_an_index(tokens, pair))


@wrong("merge_pair", "a-tuple")
def in_a_tuple(tokens, pair):
    return tuple(by_an_index(tokens, pair))


@wrong("merge_pair", "changes-input")
def in_the_list_itself(tokens, pair):
    i = 0
    while i < len(tokens) - 1:
        if (tokens[i], tokens[i + 1]) == pair:
            tokens[i : i + 2] = ["".join(pair)]
        i += 1
    return tokens


@wrong("merge_pair", "changes-input")
def pops_from_the_front(tokens, pair):
    merged = []
    while tokens:
        token = tokens.pop(0)
        if tokens and (token, tokens[0]) == pair:
            token += tokens.pop(0)
        merged.append(token)
    return merged


@wrong("merge_pair", "returned-none")
def changes_it_and_returns_nothing(tokens, pair):
    tokens[:] = by_an_index(tokens, pair)


@wrong("merge_pair", "raised")
def looks_one_too_far(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        here = tokens[i] == pair[0] and tokens[i + 1] == pair[1]
        merged.append("".join(pair) if here else tokens[i])
        i += 2 if here else 1
    return merged


@wrong("merge_pair", "differs")
def deletes_while_it_counts(tokens, pair):
    new = list(tokens)
    for i in range(len(tokens)):
        if tuple(tokens[i : i + 2]) == pair:
            new[i : i + 2] = ["".join(pair)]
    return new


@wrong("merge_pair", "differs")
def with_a_pattern(tokens, pair):
    text = re.sub(" ".join(map(re.escape, pair)), "".join(pair), " ".join(tokens))
    return text.split()


@wrong("merge_pair", "differs")
def a_pair_stands_for_both(tokens, pair):
    merged = []
    for token in tokens:
        if merged and merged[-1].endswith(pair[0]) and token == pair[1]:
            merged[-1] += token
        else:
            merged.append(token)
    return merged


@wrong("merge_pair", "differs")
def skips_after_any_left(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        if tokens[i] == pair[0] and i + 1 < len(tokens):
            both = tokens[i + 1] == pair[1]
            merged += ["".join(pair)] if both else tokens[i : i + 2]
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged


@wrong("merge_pair", "differs")
def puts_them_at_the_end(tokens, pair):
    merged, there = [], 0
    for token in by_an_index(tokens, pair):
        if token == "".join(pair):
            there += 1
        else:
            merged.append(token)
    return merged + there * ["".join(pair)]


@wrong("merge_pair", "differs")
def strips_the_spaces(tokens, pair):
    return [token.strip() for token in by_an_index(tokens, pair)]


# --- encode_piece ---------------------------------------------------------------------------


@right("encode_piece")
def min_by_place(piece, merges):
    tokens = list(piece)
    found = [pair for pair in pairwise(tokens) if pair in merges]
    while found:
        tokens = merge_pair(tokens, min(found, key=merges.index))
        found = [pair for pair in pairwise(tokens) if pair in merges]
    return tokens


@right("encode_piece")
def merge_after_merge(piece, merges):
    """Once through all merges: what training merged later is made of what it merged before."""
    tokens = list(piece)
    for pair in merges:
        tokens = merge_pair(tokens, pair)
    return tokens


@right("encode_piece")
def one_place_at_a_time(piece, merges):
    rank = {pair: i for i, pair in enumerate(merges)}
    tokens = [*piece]
    while True:
        places = [(rank[p], i) for i, p in enumerate(pairwise(tokens)) if p in rank]
        if not places:
            return tokens
        i = min(places)[1]
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]


@right("encode_piece")
def again_from_the_first(piece, merges):
    tokens = list(piece)
    changed = True
    while changed:
        changed = False
        for pair in merges:
            if pair in set(pairwise(tokens)):
                tokens = merge_pair(tokens, pair)
                changed = True
                break
    return tokens


def standing(tokens, merges):
    return [pair for pair in pairwise(tokens) if pair in merges]


@wrong("encode_piece", "leftmost")
def as_it_was_given(piece, merges):
    tokens = list(piece)
    found = [pair for pair in pairwise(tokens) if pair in merges]
    while found:
        first = found[0]
        tokens = merge_pair(tokens, first)
        found = [pair for pair in pairwise(tokens) if pair in merges]
    return tokens


@wrong("encode_piece", "leftmost")
def the_first_of_a_copy(piece, merges):
    tokens = list(piece)
    while found := standing(tokens, merges):
        tokens = merge_pair(tokens, next(iter(dict.fromkeys(found))))
    return tokens


@wrong("encode_piece", "rightmost")
def the_last_of_them(piece, merges):
    tokens = list(piece)
    while found := standing(tokens, merges):
        tokens = merge_pair(tokens, found[-1])
    return tokens


@wrong("encode_piece", "found-last")
def max_by_place(piece, merges):
    tokens = list(piece)
    while found := standing(tokens, merges):
        tokens = merge_pair(tokens, max(found, key=merges.index))
    return tokens


@wrong("encode_piece", "alphabetical")
def min_without_a_key(piece, merges):
    tokens = list(piece)
    while found := standing(tokens, merges):
        tokens = merge_pair(tokens, min(found))
    return tokens


@wrong("encode_piece", "most-often-here")
def commonest_here(piece, merges):
    tokens = list(piece)
    while found := standing(tokens, merges):
        tokens = merge_pair(tokens, Counter(found).most_common(1)[0][0])
    return tokens


@wrong("encode_piece", "longest-token")
def longest_first(piece, merges):
    tokens = list(piece)
    while found := standing(tokens, merges):
        tokens = merge_pair(tokens, max(found, key=lambda pair: len(pair[0]) + len(pair[1])))
    return tokens


@wrong("encode_piece", "one-merge")
def if_for_while(piece, merges):
    tokens = list(piece)
    found = standing(tokens, merges)
    if found:
        tokens = merge_pair(tokens, min(found, key=merges.index))
    return tokens


@wrong("encode_piece", "never-looks-again")
def sorted_once(piece, merges):
    tokens = list(piece)
    for pair in sorted(standing(tokens, merges), key=merges.index):
        tokens = merge_pair(tokens, pair)
    return tokens


@wrong("encode_piece", "longest-match")
def as_word_piece(piece, merges):
    known = {left + right_one for left, right_one in merges} | set(piece)
    tokens = []
    while piece:
        longest = max((piece[:n] for n in range(1, len(piece) + 1) if piece[:n] in known), key=len)
        tokens.append(longest)
        piece = piece[len(longest) :]
    return tokens


@wrong("encode_piece", "backwards")
def from_the_last_merge(piece, merges):
    tokens = list(piece)
    for pair in merges[::-1]:
        tokens = merge_pair(tokens, pair)
    return tokens


@wrong("encode_piece", "letters")
def forgets_the_result(piece, merges):
    tokens = list(piece)
    for pair in merges:
        merge_pair(tokens, pair)
    return tokens


@wrong("encode_piece", "joined")
def gives_the_text(piece, merges):
    return "".join(min_by_place(piece, merges))


@wrong("encode_piece", "a-tuple")
def gives_a_tuple(piece, merges):
    return tuple(min_by_place(piece, merges))


@wrong("encode_piece", "changes-input")
def uses_up_the_merges(piece, merges):
    tokens = list(piece)
    while merges:
        tokens = merge_pair(tokens, merges.pop(0))
    return tokens


@wrong("encode_piece", "differs")
def second_smallest(piece, merges):
    tokens = list(piece)
    while found := sorted(set(standing(tokens, merges)), key=merges.index):
        tokens = merge_pair(tokens, found[1] if len(found) > 1 else found[0])
    return tokens


@wrong("encode_piece", "differs")
def leaves_out_unknown_letters(piece, merges):
    known = {token for pair in merges for token in pair}
    return [token for token in min_by_place(piece, merges) if token in known or len(token) > 1]


@wrong("encode_piece", "differs")
def only_so_many_merges(piece, merges):
    tokens = list(piece)
    for _ in range(4):
        found = standing(tokens, merges)
        if found:
            tokens = merge_pair(tokens, min(found, key=merges.index))
    return tokens


@wrong("encode_piece", "differs")
def without_spaces(piece, merges):
    return min_by_place(piece.replace(" ", ""), merges)


@wrong("encode_piece", "differs")
def as_bytes(piece, merges):
    return min_by_place("".join(map(chr, piece.encode())), merges)


# --- unpack_four_bits (graded) --------------------------------------------------------------


@right("unpack_four_bits")
def with_bit_operations(packed, scale, least):
    numbers = torch.cat([packed & 0x0F, packed >> 4], dim=1).float()
    return numbers * scale.float().unsqueeze(-1) + least.float().unsqueeze(-1)


@right("unpack_four_bits")
def with_division(packed, scale, least):
    lower, upper = packed % 16, packed // 16
    numbers = torch.hstack([lower, upper])
    return torch.addcmul(least.float()[:, None], numbers.float(), scale.float()[:, None])


@right("unpack_four_bits")
def number_by_number(packed, scale, least):
    weights = torch.empty(len(packed), 32)
    for i in range(len(packed)):
        d, m = float(scale[i]), float(least[i])
        for j in range(16):
            byte = int(packed[i, j])
            weights[i, j] = (byte & 15) * d + m
            weights[i, j + 16] = (byte >> 4) * d + m
    return weights


@right("unpack_four_bits")
def with_numpy(packed, scale, least):
    import numpy as np

    q = packed.numpy()
    q = np.concatenate([q & 15, q >> 4], axis=1)
    d, m = (x.numpy().astype(np.float32)[:, None] for x in (scale, least))
    return torch.from_numpy(q.astype(np.float32) * d + m)


@right("unpack_four_bits")
def shifted_by_both(packed, scale, least):
    q = packed[:, None, :] >> torch.tensor([0, 4])[:, None] & 15
    return torch.einsum("bhj,b->bhj", q.float(), scale.float()).flatten(1) + least[:, None]


@right("unpack_four_bits")
def by_a_table(packed, scale, least):
    table = torch.tensor([[byte % 16, byte // 16] for byte in range(256)], dtype=torch.float32)
    q = table[packed.long()].movedim(-1, 1).reshape(-1, 32)
    return q * scale.to(torch.float32).view(-1, 1) + least.to(torch.float32).view(-1, 1)


def numbers_of(packed):
    return torch.cat([packed & 15, packed >> 4], dim=-1)


def weights_of(numbers, scale, least):
    return numbers.float() * scale.float()[:, None] + least.float()[:, None]


@wrong("unpack_four_bits", "interleaved")
def stacked_side_by_side(packed, scale, least):
    return weights_of(torch.stack([packed & 15, packed >> 4], -1).flatten(1), scale, least)


@wrong("unpack_four_bits", "halves-swapped")
def upper_first(packed, scale, least):
    return weights_of(torch.cat([packed >> 4, packed & 15], -1), scale, least)


@wrong("unpack_four_bits", "interleaved-upper-first")
def as_the_digits_are_written(packed, scale, least):
    return weights_of(torch.stack([packed >> 4, packed & 15], -1).flatten(1), scale, least)


@wrong("unpack_four_bits", "in-half")
def float_at_the_end(packed, scale, least):
    return (numbers_of(packed) * scale[:, None] + least[:, None]).float()


@wrong("unpack_four_bits", "in-half")
def least_to_float_alone(packed, scale, least):
    product = numbers_of(packed).half() * scale[:, None]
    return (product + least[:, None]).to(torch.float32)


@wrong("unpack_four_bits", "product-in-half")
def product_then_float(packed, scale, least):
    return (numbers_of(packed) * scale[:, None]).float() + least.float()[:, None]


@wrong("unpack_four_bits", "stays-half")
def never_to_float(packed, scale, least):
    return numbers_of(packed) * scale[:, None] + least[:, None]


@wrong("unpack_four_bits", "upper-not-shifted")
def masks_both(packed, scale, least):
    return weights_of(torch.cat([packed & 15, packed & 240], -1), scale, least)


@wrong("unpack_four_bits", "upper-with-a-rest")
def divides_with_a_slash(packed, scale, least):
    return weights_of(torch.cat([(packed % 16).float(), packed / 16], -1), scale, least)


@wrong("unpack_four_bits", "lower-is-the-byte")
def mask_forgotten(packed, scale, least):
    return weights_of(torch.cat([packed, packed >> 4], -1), scale, least)


@wrong("unpack_four_bits", "lower-twice")
def copied_line(packed, scale, least):
    return weights_of(torch.cat([packed & 15, packed & 15], -1), scale, least)


@wrong("unpack_four_bits", "lower-twice")
def shifted_and_back(packed, scale, least):
    return weights_of(torch.cat([packed & 15, (packed << 4) >> 4], -1), scale, least)


@wrong("unpack_four_bits", "upper-twice")
def shifted_twice(packed, scale, least):
    return weights_of(torch.cat([packed >> 4, packed >> 4], -1), scale, least)


@wrong("unpack_four_bits", "by-fifteen")
def by_the_largest(packed, scale, least):
    return weights_of(torch.cat([packed % 15, packed // 15], -1), scale, least)


@wrong("unpack_four_bits", "three-bits")
def mask_too_small(packed, scale, least):
    return weights_of(numbers_of(packed) & 7, scale, least)


@wrong("unpack_four_bits", "signed")
def twos_complement(packed, scale, least):
    q = numbers_of(packed).to(torch.int8)
    return weights_of(torch.where(q > 7, q - 16, q), scale, least)


@wrong("unpack_four_bits", "upper-signed")
def as_int8(packed, scale, least):
    packed = packed.view(torch.int8)
    return weights_of(torch.cat([packed & 15, packed >> 4], -1), scale, least)


@wrong("unpack_four_bits", "minus-8")
def from_minus_8_to_7(packed, scale, least):
    return weights_of(numbers_of(packed).float() - 8, scale, least)


@wrong("unpack_four_bits", "minus-8-in-bytes")
def minus_8_below_0(packed, scale, least):
    return weights_of(numbers_of(packed) - 8, scale, least)


@wrong("unpack_four_bits", "minus-8-alone")
def as_q4_0(packed, scale, least):
    return (numbers_of(packed).float() - 8) * scale.float()[:, None]


@wrong("unpack_four_bits", "no-least")
def least_forgotten(packed, scale, least):
    return numbers_of(packed) * scale.float()[:, None]


@wrong("unpack_four_bits", "least-taken-away")
def minus_least(packed, scale, least):
    return weights_of(numbers_of(packed), scale, -least)


@wrong("unpack_four_bits", "least-times-scale")
def brackets(packed, scale, least):
    return (numbers_of(packed) + least.float()[:, None]) * scale.float()[:, None]


@wrong("unpack_four_bits", "scale-for-least")
def changed_places(packed, scale, least):
    return weights_of(numbers_of(packed), least, scale)


@wrong("unpack_four_bits", "divided")
def divided_by_scale(packed, scale, least):
    return numbers_of(packed) / scale.float()[:, None] + least.float()[:, None]


@wrong("unpack_four_bits", "numbers-alone")
def only_unpacked(packed, scale, least):
    return numbers_of(packed).float()


@wrong("unpack_four_bits", "flat")
def one_long_row(packed, scale, least):
    return weights_of(numbers_of(packed), scale, least).reshape(-1)


@wrong("unpack_four_bits", "scales-along-the-numbers")
def no_axis_behind(packed, scale, least):
    return numbers_of(packed) * scale.float() + least.float()


@wrong("unpack_four_bits", "scales-along-the-numbers")
def axis_in_front(packed, scale, least):
    return numbers_of(packed) * scale.float()[None] + least.float()[None]


@wrong("unpack_four_bits", "scales-along-the-bytes")
def half_by_half(packed, scale, least):
    d, m = scale.float(), least.float()
    return torch.cat([(packed & 15) * d + m, (packed >> 4) * d + m], dim=1)


@wrong("unpack_four_bits", "shape")
def blocks_below_each_other(packed, scale, least):
    numbers = torch.cat([packed & 15, packed >> 4]).float()
    return numbers * scale.float().repeat(2)[:, None] + least.float().repeat(2)[:, None]


@wrong("unpack_four_bits", "differs")
def one_scale_for_all(packed, scale, least):
    return numbers_of(packed) * scale.float().mean() + least.float().mean()


@wrong("unpack_four_bits", "differs")
def rounded_numbers(packed, scale, least):
    upper = (packed / 16).round()
    return weights_of(torch.cat([(packed & 15).float(), upper], -1), scale, least)


@wrong("unpack_four_bits", "differs")
def the_reverse_in_each_half(packed, scale, least):
    return weights_of(numbers_of(packed.flip(-1)), scale, least)


@wrong("unpack_four_bits", "differs")
def bfloat_on_the_way(packed, scale, least):
    d, m = (x.to(torch.bfloat16).float()[:, None] for x in (scale, least))
    return numbers_of(packed) * d + m


@wrong("unpack_four_bits", "differs")
def product_in_bytes(packed, scale, least):
    steps = (numbers_of(packed) * 17).float() / 16  # 16 · 17 is more than 255
    return weights_of(steps, scale, least)


@wrong("unpack_four_bits", "differs")
def sorted_numbers(packed, scale, least):
    return weights_of(numbers_of(packed).sort(-1).values, scale, least)


# --- rows_for_neighbours --------------------------------------------------------------------


@right("rows_for_neighbours")
def cut_and_swapped(rows, n_heads):
    halves = rows.unflatten(0, (n_heads, 2, -1))
    return halves.transpose(1, 2).flatten(0, 2)


@right("rows_for_neighbours")
def row_by_row(rows, n_heads):
    d_head = rows.shape[0] // n_heads
    new = torch.empty_like(rows)
    for head in range(n_heads):
        for i in range(d_head // 2):
            new[head * d_head + 2 * i] = rows[head * d_head + i]
            new[head * d_head + 2 * i + 1] = rows[head * d_head + i + d_head // 2]
    return new


@right("rows_for_neighbours")
def stacked_halves(rows, n_heads):
    heads = []
    for head in rows.chunk(n_heads):
        first, second = head.chunk(2)
        heads.append(torch.stack([first, second], dim=1).flatten(0, 1))
    return torch.cat(heads)


@right("rows_for_neighbours")
def by_slices(rows, n_heads):
    heads = rows.reshape(n_heads, -1, rows.shape[-1])
    half = heads.shape[1] // 2
    new = torch.zeros_like(heads)
    new[:, 0::2], new[:, 1::2] = heads[:, :half], heads[:, half:]
    return new.reshape(rows.shape)


@right("rows_for_neighbours")
def by_an_order_of_places(rows, n_heads):
    places = torch.arange(len(rows)).reshape(n_heads, 2, -1)
    return rows[places.permute(0, 2, 1).reshape(-1)]


@wrong("rows_for_neighbours", "unchanged")
def cut_and_put_together(rows, n_heads):
    return rows.unflatten(0, (n_heads, 2, -1)).flatten(0, 2)


@wrong("rows_for_neighbours", "the-way-back")
def taken_apart(rows, n_heads):
    return rows.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2)


@wrong("rows_for_neighbours", "the-way-back")
def indices_the_wrong_way_round(rows, n_heads):
    d_head = len(rows) // n_heads
    new = torch.empty_like(rows)
    for head in range(n_heads):
        for i in range(d_head // 2):
            new[head * d_head + i] = rows[head * d_head + 2 * i]
            new[head * d_head + i + d_head // 2] = rows[head * d_head + 2 * i + 1]
    return new


@wrong("rows_for_neighbours", "one-large-head")
def heads_forgotten(rows, n_heads):
    return rows.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)


@wrong("rows_for_neighbours", "second-half-first")
def wrong_one_first(rows, n_heads):
    heads = rows.unflatten(0, (n_heads, -1))
    half = heads.shape[1] // 2
    return torch.stack([heads[:, half:], heads[:, :half]], dim=2).flatten(0, 2)


@wrong("rows_for_neighbours", "heads-spread")
def all_axes_turned(rows, n_heads):
    return rows.unflatten(0, (n_heads, 2, -1)).permute(2, 0, 1, 3).flatten(0, 2)


@wrong("rows_for_neighbours", "heads-inside")
def heads_last(rows, n_heads):
    parts = rows.unflatten(0, (2, -1, n_heads))
    return parts.permute(2, 1, 0, 3).flatten(0, 2)


@wrong("rows_for_neighbours", "one-large-head")
def halves_before_heads(rows, n_heads):
    return rows.unflatten(0, (2, n_heads, -1)).permute(1, 2, 0, 3).flatten(0, 2)


@wrong("rows_for_neighbours", "even-and-odd")
def evens_then_odds(rows, n_heads):
    return torch.cat([rows[0::2], rows[1::2]], dim=0)


@wrong("rows_for_neighbours", "columns")
def last_axis_as_in_the_package(rows, n_heads):
    return rows.unflatten(-1, (n_heads, 2, -1)).transpose(-1, -2).flatten(-3)


@wrong("rows_for_neighbours", "reversed")
def from_both_ends(rows, n_heads):
    first, second = rows.unflatten(0, (n_heads, 2, -1)).unbind(1)
    return torch.stack([first, second.flip(1)], dim=2).flatten(0, 2)


@wrong("rows_for_neighbours", "halves-swapped")
def rotated_halves(rows, n_heads):
    first, second = rows.unflatten(0, (n_heads, 2, -1)).unbind(1)
    return torch.cat([second, first], dim=1).flatten(0, 1)


@wrong("rows_for_neighbours", "transposed")
def numbers_in_columns(rows, n_heads):
    return cut_and_swapped(rows, n_heads).T


@wrong("rows_for_neighbours", "by-head")
def heads_left_apart(rows, n_heads):
    return cut_and_swapped(rows, n_heads).reshape(n_heads, -1, rows.shape[-1])


@wrong("rows_for_neighbours", "shape")
def halves_left_apart(rows, n_heads):
    return rows.unflatten(0, (n_heads, 2, -1)).transpose(1, 2)


@wrong("rows_for_neighbours", "signs")
def rotates_too(rows, n_heads):
    new = cut_and_swapped(rows, n_heads).clone()
    new[0::2] *= -1
    return new


@wrong("rows_for_neighbours", "differs")
def first_head_alone(rows, n_heads):
    d_head = len(rows) // n_heads
    return torch.cat([cut_and_swapped(rows[:d_head], 1), rows[d_head:]])


@wrong("rows_for_neighbours", "differs")
def d_head_of_four(rows, n_heads):
    return cut_and_swapped(rows, max(1, len(rows) // 4)) if len(rows) % 4 == 0 else rows.clone()


@wrong("rows_for_neighbours", "differs")
def applied_twice(rows, n_heads):
    return cut_and_swapped(cut_and_swapped(rows, n_heads), n_heads)


@wrong("rows_for_neighbours", "changes-input")
def written_into_it(rows, n_heads):
    rows.copy_(cut_and_swapped(rows, n_heads).clone())
    return rows.clone()


@wrong("rows_for_neighbours", "differs")
def written_over_while_reading(rows, n_heads):
    new = rows.clone()
    d_head = len(rows) // n_heads
    for head in range(n_heads):
        start = head * d_head
        for i in range(d_head // 2):
            new[start + 2 * i] = new[start + i]
            new[start + 2 * i + 1] = new[start + i + d_head // 2]
    return new


@wrong("rows_for_neighbours", "differs")
def heads_for_d_head(rows, n_heads):
    return rows.view(-1, 2, n_heads // 2, rows.shape[-1]).transpose(1, 2).flatten(0, 2)


@wrong("rows_for_neighbours", "library-call")
def asks_the_package(rows, n_heads):
    from tfcourse.positions import convert_rotary

    heads = rows.unflatten(0, (n_heads, -1)).mT
    return convert_rotary(heads, "split-half", "interleaved").mT.flatten(0, 1)


# --- sentence_vectors -----------------------------------------------------------------------


@right("sentence_vectors")
def sum_then_normalize(vectors, real):
    return F.normalize((vectors * real[..., None]).sum(dim=1), dim=-1)


@right("sentence_vectors")
def as_sentence_transformers(vectors, real):
    mask = real.unsqueeze(-1).expand(vectors.size()).to(vectors.dtype)
    mean = torch.sum(vectors * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
    return F.normalize(mean, p=2, dim=1)


@right("sentence_vectors")
def sentence_by_sentence(vectors, real):
    found = []
    for sentence, counts in zip(vectors, real, strict=True):
        if not counts.any():
            found.append(torch.zeros_like(sentence[0]))
            continue
        mean = sentence[counts].mean(dim=0)
        found.append(mean / mean.norm())
    return torch.stack(found)


@right("sentence_vectors")
def with_einsum(vectors, real):
    total = torch.einsum("btd,bt->bd", vectors, real.to(vectors.dtype))
    return total / total.norm(dim=-1, keepdim=True).clamp(min=1e-12)


@right("sentence_vectors")
def as_a_product(vectors, real):
    total = (real.to(vectors.dtype)[:, None] @ vectors).squeeze(1)
    square = total.square().sum(-1, keepdim=True)
    return total * torch.where(square > 0, square, 1.0).rsqrt()


def mean_of(vectors, real):
    count = real.sum(1, keepdim=True).clamp(min=1)
    return (vectors * real[..., None]).sum(1) / count


def unit(x, dim=-1):
    return F.normalize(x, dim=dim)


@wrong("sentence_vectors", "padding-counts")
def mean_of_all(vectors, real):
    return unit(vectors.mean(dim=1))


@wrong("sentence_vectors", "not-scaled")
def mean_alone(vectors, real):
    return mean_of(vectors, real)


@wrong("sentence_vectors", "sum-not-scaled")
def sum_alone(vectors, real):
    return (vectors * real[..., None]).sum(1)


@wrong("sentence_vectors", "mean-not-scaled-over-all")
def plain_mean(vectors, real):
    return vectors.mean(1)


@wrong("sentence_vectors", "tokens-scaled-first")
def each_token_alike(vectors, real):
    return unit(mean_of(unit(vectors), real))


@wrong("sentence_vectors", "tokens-scaled-alone")
def tokens_of_length_1(vectors, real):
    return mean_of(unit(vectors), real)


@wrong("sentence_vectors", "first-place")
def the_cls_token(vectors, real):
    return unit(vectors[:, 0])


@wrong("sentence_vectors", "first-real-token")
def first_of_the_real(vectors, real):
    at = real.int().argmax(1)
    chosen = vectors[torch.arange(len(vectors)), at]
    return unit(chosen * real.any(1, keepdim=True))


@wrong("sentence_vectors", "last-place")
def the_last_one(vectors, real):
    return unit(vectors[:, -1])


@wrong("sentence_vectors", "last-real-token")
def last_of_the_real(vectors, real):
    at = real.shape[1] - 1 - real.flip(1).int().argmax(1)
    chosen = vectors[torch.arange(len(vectors)), at]
    return unit(chosen * real.any(1, keepdim=True))


@wrong("sentence_vectors", "largest")
def max_pooling(vectors, real):
    hidden = vectors.masked_fill(~real[..., None], -1e9).max(dim=1).values
    return unit(torch.where(real.any(1, keepdim=True), hidden, 0.0))


@wrong("sentence_vectors", "padding-alone")
def mask_the_wrong_way_round(vectors, real):
    return unit(mean_of(vectors, ~real))


@wrong("sentence_vectors", "padding-alone")
def hides_what_is_real(vectors, real):
    return unit(vectors.masked_fill(real[..., None], 0).sum(1))


@wrong("sentence_vectors", "scaled-over-the-batch")
def normalized_over_sentences(vectors, real):
    return unit(mean_of(vectors, real), dim=0)


@wrong("sentence_vectors", "one-length-for-all")
def norm_of_everything(vectors, real):
    mean = mean_of(vectors, real)
    return mean / mean.norm().clamp(min=1e-12)


@wrong("sentence_vectors", "by-the-square")
def root_forgotten(vectors, real):
    mean = mean_of(vectors, real)
    return mean / (mean**2).sum(-1, keepdim=True).clamp(min=1e-12)


@wrong("sentence_vectors", "by-the-sizes")
def sum_of_sizes(vectors, real):
    mean = mean_of(vectors, real)
    return mean / mean.abs().sum(-1, keepdim=True).clamp(min=1e-12)


@wrong("sentence_vectors", "by-the-largest")
def largest_is_1(vectors, real):
    mean = mean_of(vectors, real)
    return mean / mean.abs().amax(-1, keepdim=True).clamp(min=1e-12)


@wrong("sentence_vectors", "by-the-root-of-d")
def as_rms_norm(vectors, real):
    mean = mean_of(vectors, real)
    return mean / mean.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-12)


@wrong("sentence_vectors", "from-the-first-place")
def as_many_from_the_front(vectors, real):
    found = [v[:n].sum(0) for v, n in zip(vectors, real.sum(1).tolist(), strict=True)]
    return unit(torch.stack(found))


@wrong("sentence_vectors", "at-least-1")
def clamped_at_1(vectors, real):
    mean = mean_of(vectors, real)
    return mean / mean.norm(dim=-1, keepdim=True).clamp(min=1)


@wrong("sentence_vectors", "nudged")
def against_zero(vectors, real):
    mean = mean_of(vectors, real)
    return mean / (mean.norm(dim=-1, keepdim=True) + 1e-3)


@wrong("sentence_vectors", "differs")
def nudged_a_sum(vectors, real):
    total = (vectors * real[..., None]).sum(1)
    return total / (total.norm(dim=-1, keepdim=True) + 1e-4)


@wrong("sentence_vectors", "nothing-real")
def count_of_nothing(vectors, real):
    mean = (vectors * real[..., None]).sum(1) / real.sum(1, keepdim=True)
    return unit(mean)


@wrong("sentence_vectors", "nothing-real")
def length_of_nothing(vectors, real):
    total = (vectors * real[..., None]).sum(1)
    return total / total.norm(dim=-1, keepdim=True)


@wrong("sentence_vectors", "gradient-nan")
def hides_the_division(vectors, real):
    total = (vectors * real[..., None]).sum(1)
    length = total.norm(dim=-1, keepdim=True)
    return torch.where(length > 0, total / length, 0.0)


@wrong("sentence_vectors", "no-gradient")
def by_way_of_lists(vectors, real):
    return torch.tensor(sum_then_normalize(vectors, real).tolist(), dtype=vectors.dtype)


@wrong("sentence_vectors", "gradient")
def length_is_a_number(vectors, real):
    total = (vectors * real[..., None]).sum(1)
    return total / total.detach().norm(dim=-1, keepdim=True).clamp(min=1e-12)


@wrong("sentence_vectors", "differs")
def stretched_to_the_centre(vectors, real):
    mean = mean_of(vectors, real)
    return unit(mean - mean.mean(-1, keepdim=True))


@wrong("sentence_vectors", "differs")
def squares_the_counts(vectors, real):
    weights = real.cumsum(1) * real
    return unit((vectors * weights[..., None]).sum(1))


@wrong("sentence_vectors", "shape")
def an_axis_too_many(vectors, real):
    return unit((vectors * real[..., None]).sum(1, keepdim=True))


@wrong("sentence_vectors", "changes-input")
def zeroes_the_padding(vectors, real):
    vectors[~real] = 0
    return unit(vectors.sum(1))


@wrong("sentence_vectors", "differs")
def all_sentences_padded_alike(vectors, real):
    kept = vectors[:, real.all(0)] if real.all(0).any() else vectors[:, :1]
    return unit(kept.sum(1)) * real.any(1, keepdim=True)


@wrong("sentence_vectors", "differs")
def one_of_many_is_real(vectors, real):
    return unit(vectors[:, real.any(0)].sum(1)) * real.any(1, keepdim=True)


# --- lora -----------------------------------------------------------------------------------


@right("lora")
def detached(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / len(a) * F.linear(F.linear(x, a), b)


@right("lora")
def with_products(x, weight, a, b, alpha):
    scale = alpha / a.shape[0]
    return x @ weight.detach().T + (x @ a.T) @ b.T * scale


@right("lora")
def with_einsums(x, weight, a, b, alpha):
    low = torch.einsum("bti,ri->btr", x, a)
    high = torch.einsum("btr,or->bto", low, b)
    return torch.einsum("bti,oi->bto", x, weight.data) + high * alpha / b.shape[1]


@right("lora")
def scaled_in_between(x, weight, a, b, alpha):
    rank, _ = a.shape
    low = x.matmul(a.t()) * (alpha / rank)
    return torch.matmul(x, weight.detach().transpose(0, 1)).add(low.matmul(b.t()))


@right("lora")
def sentence_by_itself(x, weight, a, b, alpha):
    frozen = weight.detach()
    return torch.stack(
        [each @ frozen.mT + ((each @ a.mT) * (alpha / a.size(0))) @ b.mT for each in x]
    )


def small(x, a, b):
    return F.linear(F.linear(x, a), b)


@wrong("lora", "not-scaled")
def factor_forgotten(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + small(x, a, b)


@wrong("lora", "not-divided")
def alpha_alone(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha * small(x, a, b)


@wrong("lora", "alpha-missing")
def rank_alone(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + small(x, a, b) / len(a)


@wrong("lora", "upside-down")
def rank_by_alpha(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + len(a) / alpha * small(x, a, b)


@wrong("lora", "by-d_out")
def rows_of_b(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / b.shape[0] * small(x, a, b)


@wrong("lora", "by-d_in")
def columns_of_a(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / a.shape[-1] * small(x, a, b)


@wrong("lora", "by-the-root")
def rank_stabilized(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / len(a) ** 0.5 * small(x, a, b)


@wrong("lora", "whole-numbers")
def floor_division(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha // len(a) * small(x, a, b)


@wrong("lora", "all-scaled")
def brackets_too_wide(x, weight, a, b, alpha):
    return (alpha / len(a)) * (F.linear(x, weight.detach()) + small(x, a, b))


@wrong("lora", "published-scaled")
def scales_the_large_one(x, weight, a, b, alpha):
    return F.linear(x, alpha / len(a) * weight.detach()) + small(x, a, b)


@wrong("lora", "published-missing")
def small_alone(x, weight, a, b, alpha):
    return alpha / len(a) * small(x, a, b)


@wrong("lora", "small-ones-missing")
def large_alone(x, weight, a, b, alpha):
    return F.linear(x, weight.detach())


@wrong("lora", "taken-away")
def minus(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) - alpha / len(a) * small(x, a, b)


@wrong("lora", "b-first")
def order_of_the_formula(x, weight, a, b, alpha):
    return x @ weight.detach().T + alpha / len(a) * (x @ b @ a)


@wrong("lora", "not-transposed")
def as_it_is_stored(x, weight, a, b, alpha):
    return x @ weight.detach() + alpha / len(a) * small(x, a, b)


@wrong("lora", "one-after-the-other")
def reads_the_output(x, weight, a, b, alpha):
    y = F.linear(x, weight.detach())
    return y + alpha / len(a) * small(y, a, b)


@wrong("lora", "not-frozen")
def nothing_frozen(x, weight, a, b, alpha):
    return F.linear(x, weight) + alpha / len(a) * small(x, a, b)


@wrong("lora", "not-frozen")
def half_frozen(x, weight, a, b, alpha):
    both = (F.linear(x, weight.detach()) + F.linear(x, weight)) / 2
    return both + alpha / len(a) * small(x, a, b)


@wrong("lora", "gradient")
def no_grad_around_it(x, weight, a, b, alpha):
    with torch.no_grad():
        published = F.linear(x, weight)
    return published + alpha / len(a) * small(x, a, b)


@wrong("lora", "gradient")
def detaches_the_product(x, weight, a, b, alpha):
    return F.linear(x, weight).detach() + alpha / len(a) * small(x, a, b)


@wrong("lora", "no-gradient")
def no_grad_around_all(x, weight, a, b, alpha):
    with torch.no_grad():
        return F.linear(x, weight) + alpha / len(a) * small(x, a, b)


@wrong("lora", "no-gradient")
def freezes_a_too(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / len(a) * small(x, a.detach(), b)


@wrong("lora", "no-gradient")
def freezes_b_too(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / len(a) * small(x, a, b.data)


@wrong("lora", "gradient")
def x_frozen_on_the_way_down(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / len(a) * small(x.detach(), a, b)


@wrong("lora", "holds-too-much")
def merged_into_one(x, weight, a, b, alpha):
    return F.linear(x, weight.detach() + alpha / len(a) * b @ a)


@wrong("lora", "holds-too-much")
def builds_the_update(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / len(a) * F.linear(x, b @ a)


@wrong("lora", "holds-too-much")
def the_other_association(x, weight, a, b, alpha):
    return x @ weight.detach().T + alpha / len(a) * (x @ (a.T @ b.T))


@wrong("lora", "differs")
def written_into_the_weight(x, weight, a, b, alpha):
    kept = F.linear(x, weight.detach())
    with torch.no_grad():
        weight += b @ a
    return kept + (1 + alpha) / len(a) * small(x, a, b)


@wrong("lora", "changes-input")
def merged_for_good(x, weight, a, b, alpha):
    update = alpha / len(a) * small(x, a, b)
    out = F.linear(x, weight.detach().clone()) + update
    with torch.no_grad():
        weight += 1.0
    return out


@wrong("lora", "differs")
def rank_from_the_batch(x, weight, a, b, alpha):
    return F.linear(x, weight.detach()) + alpha / len(x) * small(x, a, b)


@wrong("lora", "differs")
def scaled_twice(x, weight, a, b, alpha):
    scale = alpha / len(a)
    return F.linear(x, weight.detach()) + scale * F.linear(scale * F.linear(x, a), b)


@wrong("lora", "differs")
def with_an_activation(x, weight, a, b, alpha):
    low = F.relu(F.linear(x, a))
    return F.linear(x, weight.detach()) + alpha / len(a) * F.linear(low, b)


@wrong("lora", "raised")
def asks_for_no_gradient(x, weight, a, b, alpha):
    weight.requires_grad_(False)
    return F.linear(x, weight) + alpha / len(a) * small(x, a, b)


@wrong("lora", "shape")
def last_token_alone(x, weight, a, b, alpha):
    return detached(x, weight, a, b, alpha)[:, -1]
