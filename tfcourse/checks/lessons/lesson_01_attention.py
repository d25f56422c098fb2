"""Lesson 01: scaled dot-product attention and its masks."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from tfcourse import attention
from tfcourse.checks.exercise import (
    Case,
    Domain,
    Exercise,
    Finding,
    Twin,
    Variant,
    randn,
    unequal,
)
from tfcourse.checks.judging import same
from tfcourse.checks.mixers import MIXERS, stand_in, text_known_by_heart
from tfcourse.checks.quiz import Item, Option

LESSON = "01_attention"

SIZES = (
    "unequal sizes",
    "a batch of one",
    "one head",
    "one query",
    "one key",
    "d_head 1",
    "more than eight tokens",
    "as many queries as keys and as sequences",
)


def _sizes(kind: str, seed: int) -> list[int]:
    """batch, heads, queries, keys, d_head: all different but for what `kind` says."""
    sizes = unequal(seed, 5, high=6)
    if kind == "more than eight tokens":
        return [2, 1, 9 + seed % 2, 11 + seed % 2, 3]
    if kind == "as many queries as keys and as sequences":
        sizes[2] = sizes[3] = sizes[0]
    ones = {"a batch of one": 0, "one head": 1, "one query": 2, "one key": 3, "d_head 1": 4}
    if kind in ones:
        sizes[ones[kind]] = 1
    return sizes


def _graded(queries: int, keys: int, d_head: int, size: float) -> tuple[torch.Tensor, torch.Tensor]:
    """q and k whose scaled scores are whole multiples of `size`, growing from key to key.

    The multiples are so far apart that the greatest score takes all, however it is rounded.
    """
    q = torch.full((queries, d_head), d_head**-0.25)
    k = size * torch.arange(1, keys + 1)[:, None] * torch.full((keys, d_head), d_head**-0.25)
    return q, k[torch.randperm(keys, generator=torch.Generator().manual_seed(keys))]


# --- attention_scores -----------------------------------------------------------------------


def _make_scores(kind, seed) -> Case:
    batch, heads, queries, keys, d_head = _sizes(kind["sizes"], seed)
    q, k = randn(seed, (batch, heads, queries, d_head), (batch, heads, keys, d_head))
    if kind["numbers"] == "scores in the hundreds":
        q, k = 20 * q, 20 * k
    elif kind["numbers"] == "tiny numbers":
        q, k = 0.1 * q, 0.1 * k
    elif kind["numbers"] == "a query of zeros":
        q[..., 0, :] = 0
    elif kind["numbers"] == "all keys alike":
        k = k[:, :, :1].repeat(1, 1, keys, 1)
    return Case((q, k))


def _dots(q, k):
    return q @ k.mT


def _shifted(scores):
    return scores - scores.amax(-1, keepdim=True)


SCORES = Exercise(
    name="attention_scores",
    lesson=LESSON,
    title="scores",
    domain=Domain(
        kinds={
            "sizes": SIZES,
            "numbers": (
                "ordinary numbers",
                "scores in the hundreds",
                "tiny numbers",
                "a query of zeros",
                "all keys alike",
            ),
        },
        make=_make_scores,
        edges=("d_head 1", "one query", "one key"),
    ),
    witness=attention.attention_scores,
    reference=attention.attention_scores,
    axes=("batch", "heads", "queries", "keys"),
    hints=(
        "A score is the dot product of one query with one key. The five lines above made all of "
        "them with one matrix product.",
        "The last axis of both, d_head, must disappear. In `q @ something` the last axis of q "
        "meets the last but one of the other.",
        "Only the last two axes of k change places (`k.mT`, or `transpose`). Then the divisor: "
        "which size do you have to take the root of, and of which tensor's which axis?",
    ),
    variants={
        "no-scale": Variant(
            "These are attention's scores without the division by √d_head. Their spread grows "
            "with d_head, and the softmax saturates.",
            _dots,
        ),
        "scale-by-d": Variant(
            "You divide by d_head. It is the standard deviation of q·k that grows, and that one "
            "grows with the root.",
            lambda q, k: _dots(q, k) / q.shape[-1],
        ),
        "scale-by-heads": Variant(
            "You divide by the root of the number of heads: `q.shape[1]` is not d_head. Which axis "
            "holds the numbers that are multiplied and added?",
            lambda q, k: _dots(q, k) / math.sqrt(q.shape[1]),
        ),
        "scale-by-tokens": Variant(
            "You divide by the root of the number of keys. The spread of q·k comes from the "
            "number of products in each sum, d_head, not from how many keys there are.",
            lambda q, k: _dots(q, k) / math.sqrt(k.shape[-2]),
        ),
        "scale-by-queries": Variant(
            "You divide by the root of the number of queries: `q.shape[-2]` is not d_head.",
            lambda q, k: _dots(q, k) / math.sqrt(q.shape[-2]),
        ),
        "scale-by-d-model": Variant(
            "You divide by √(heads · d_head), that is √d_model. Each head's dot product adds up "
            "d_head products only.",
            lambda q, k: _dots(q, k) / math.sqrt(q.shape[1] * q.shape[-1]),
        ),
        "multiplied": Variant(
            "You multiply by √d_head: the scores spread more, not less.",
            lambda q, k: _dots(q, k) * math.sqrt(q.shape[-1]),
        ),
        "rounded-root": Variant(
            "You divide by a whole number: the root of d_head, with its fraction cut off. `int` "
            "and `//` cut; the root of 3 is 1.73.",
            lambda q, k: _dots(q, k) / math.isqrt(q.shape[-1]),
        ),
        "greatest-taken-off": Variant(
            "From each row you take off its greatest score. A softmax would not notice, but the "
            "scores themselves are asked for here.",
            lambda q, k: _shifted(_dots(q, k) / math.sqrt(q.shape[-1])),
        ),
        "keys-reshaped": Variant(
            "You reshape the keys to (…, d_head, keys). That gives the right shape and scrambles "
            "the keys: `reshape` never swaps two axes, it only cuts the same row of numbers anew.",
            lambda q, k: q @ k.reshape(*k.shape[:2], *k.mT.shape[2:]) / math.sqrt(q.shape[-1]),
        ),
        "softmaxed": Variant(
            "These are weights already: the softmax comes in the next exercise but one.",
            lambda q, k: torch.softmax(_dots(q, k) / math.sqrt(q.shape[-1]), -1),
        ),
        "transposed": Variant(
            "Your scores are transposed: a row for each query, a column for each key.",
            lambda q, k: (k @ q.mT) / math.sqrt(q.shape[-1]),
        ),
    },
)


# --- masks ----------------------------------------------------------------------------------


def _make_causal(kind, seed) -> Case:
    tokens = {
        "some tokens": 3 + seed % 5,
        "one token": 1,
        "two tokens": 2,
        "more than eight tokens": 9 + seed % 8,
        "more than 256 tokens": 259 + seed % 5,
    }[kind["sizes"]]
    return Case((tokens,))


def _triangle(tokens, diagonal=0):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril(diagonal)


CAUSAL = Exercise(
    name="causal_mask",
    lesson=LESSON,
    title="causal mask",
    domain=Domain(
        kinds={
            "sizes": (
                "some tokens",
                "one token",
                "two tokens",
                "more than eight tokens",
                "more than 256 tokens",
            ),
        },
        make=_make_causal,
        edges=("one token",),
    ),
    special=lambda: [Case((tokens,)) for tokens in (3, 4, 5, 8)],
    witness=lambda tokens: attention.causal_mask(tokens),
    reference=attention.causal_mask,
    axes=("queries", "keys"),
    hints=(
        "Row i belongs to query i. Which keys may it see, if it may not look ahead? Write down "
        "the four rows for four tokens.",
        "Compare two rows of numbers: the positions of the queries, as a column, with those of "
        "the keys, as a row. `torch.arange` makes them.",
        "Or cut a triangle out of a matrix of ones: `torch.tril` and `torch.triu` do, and their "
        "`diagonal` says where to cut. Mind: boolean, and a token may see itself.",
    ),
    variants={
        "inverted": Variant(
            "Your mask is True where a token may NOT attend. In this course True = may attend; "
            "the opposite convention exists, and mixing the two up is the commonest mask bug.",
            lambda tokens: ~_triangle(tokens),
        ),
        "without-itself": Variant(
            "Your tokens may not see themselves: the diagonal is missing, and the first token is "
            "left with nothing to attend.",
            lambda tokens: _triangle(tokens, -1),
        ),
        "looks-ahead": Variant(
            "Your mask lets a token see itself and what comes after it: the triangle is the wrong "
            "one. Rows are queries, columns are keys.",
            lambda tokens: _triangle(tokens).T,
        ),
        "one-ahead": Variant(
            "Each token may still see one token of the future, the next one: exactly the one that "
            "it will have to predict.",
            lambda tokens: _triangle(tokens, 1),
        ),
        "all-true": Variant(
            "Everything may attend to everything: nothing is masked.",
            lambda tokens: torch.ones(tokens, tokens, dtype=torch.bool),
        ),
        "diagonal": Variant(
            "Each token may see itself only: no token can ask another one anything.",
            lambda tokens: torch.eye(tokens, dtype=torch.bool),
        ),
        "additive": Variant(
            "This is the additive form (0 and −∞, to be added to the scores). Here the boolean "
            "form is asked for: True = may attend.",
            lambda tokens: torch.zeros(tokens, tokens).masked_fill(~_triangle(tokens), -math.inf),
        ),
        "ones-and-zeros": Variant(
            "The triangle is right, its numbers are 1 and 0. A mask is boolean: `.bool()`, or a "
            "comparison.",
            lambda tokens: _triangle(tokens).float(),
        ),
    },
)


def _make_padding(kind, seed) -> Case:
    batch, tokens = unequal(seed, 2)
    if kind["sizes"] == "one sequence":
        batch = 1
    elif kind["sizes"] == "one token wide":
        tokens = 1
    elif kind["sizes"] == "as many sequences as tokens":
        tokens = batch
    elif kind["sizes"] == "more than eight tokens":
        batch, tokens = 3, 9 + seed % 9
    elif kind["sizes"] == "more than 256 tokens":
        batch, tokens = 2, 259 + seed % 9
    chosen = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, tokens + 1, (batch,), generator=chosen)
    if kind["lengths"] == "a full sequence":
        lengths[-1] = tokens
    elif kind["lengths"] == "an empty sequence":
        lengths[0] = 0
    elif kind["lengths"] == "all of one length":
        lengths[:] = max(1, tokens // 2)
    elif kind["lengths"] == "all full":
        lengths[:] = tokens
    elif kind["lengths"] == "all empty":
        lengths[:] = 0
    return Case((lengths, tokens))


def _within(lengths, tokens):
    return torch.arange(tokens) < lengths[:, None]


PADDING = Exercise(
    name="padding_mask",
    lesson=LESSON,
    title="padding mask",
    domain=Domain(
        kinds={
            "sizes": (
                "unequal sizes",
                "one sequence",
                "one token wide",
                "as many sequences as tokens",
                "more than eight tokens",
                "more than 256 tokens",
            ),
            "lengths": (
                "mixed lengths",
                "a full sequence",
                "an empty sequence",
                "all of one length",
                "all full",
                "all empty",
            ),
        },
        make=_make_padding,
        edges=("one token wide", "all full", "all empty"),
    ),
    witness=attention.padding_mask,
    reference=attention.padding_mask,
    axes=("batch", "heads (1)", "queries (1)", "keys"),
    hints=(
        "For one sequence of length 3 in a batch that is 5 wide: which of the keys 0, 1, 2, 3, 4 "
        "are real?",
        "Compare `torch.arange(tokens)` with the lengths. For all sequences at once the lengths "
        "must stand as a column, so that broadcasting makes a table (batch, tokens).",
        "The scores have the shape (batch, heads, queries, keys). Your table says something about "
        "batch and keys: give it an axis of length 1 in the two places between.",
    ),
    variants={
        "inverted": Variant(
            "Your mask is True at the padding. In this course True = may attend: True at the real "
            "tokens. (nn.MultiheadAttention's key_padding_mask is the other way round.)",
            lambda n, t: ~_within(n, t)[:, None, None],
        ),
        "one-too-many": Variant(
            "One padding token too many is let in: positions count from 0, so a sequence of "
            "length 3 has the positions 0, 1, 2.",
            lambda n, t: (torch.arange(t) <= n[:, None])[:, None, None],
        ),
        "one-too-few": Variant(
            "The last real token is masked too.",
            lambda n, t: (torch.arange(t) < n[:, None] - 1)[:, None, None],
        ),
        "two-axes": Variant(
            "The table (batch, tokens) is right, but against scores of shape (batch, heads, "
            "queries, keys) broadcasting would line its batch axis up with the queries. Give it "
            "the shape (batch, 1, 1, tokens).",
            _within,
        ),
        "queries-masked": Variant(
            "Your mask covers queries: its tokens stand on the axis of the queries. A padded "
            "query does no harm, its output is never read; a padded key does.",
            lambda n, t: _within(n, t)[:, None, :, None],
        ),
        "three-axes": Variant(
            "One axis is missing: with (batch, 1, tokens) broadcasting lines your batch axis up "
            "with the heads.",
            lambda n, t: _within(n, t)[:, None],
        ),
        "left-padded": Variant(
            "You mask the beginning of the sequences. In this course the padding stands at the "
            "end.",
            lambda n, t: (torch.arange(t) >= t - n[:, None])[:, None, None],
        ),
        "ones-and-zeros": Variant(
            "The numbers 1 and 0 are in the right places. A mask is boolean: keep the comparison "
            "as it is.",
            lambda n, t: _within(n, t)[:, None, None].float(),
        ),
    },
)


# --- attention_weights ----------------------------------------------------------------------


MASKS = (
    "no mask",
    "causal mask",
    "padding mask",
    "padding in front, causal",
    "a mask per head",
    "a mask for every query of every head",
    "a query with nothing to attend",
    "a sequence with nothing to attend",
)
NUMBERS = (
    "ordinary numbers",
    "scores in the thousands",
    "scores in the tens of thousands, below zero",
    "scores in the thousands, of either sign from row to row",
    "tiny numbers",
    "all scores alike",
    "a query of zeros",
)
NOTHING = (
    "padding in front, causal",
    "a query with nothing to attend",
    "a sequence with nothing to attend",
)
LARGE = tuple(kind for kind in NUMBERS if "thousands" in kind)


def _mask(kind: str, seed: int, batch: int, heads: int, queries: int, keys: int):
    """A mask of a kind; None where there is none."""
    chosen = torch.Generator().manual_seed(seed)
    causal = torch.ones(queries, keys, dtype=torch.bool).tril(max(0, keys - queries))
    lengths = torch.randint(1, keys + 1, (batch,), generator=chosen)
    padding = attention.padding_mask(lengths, keys)  # (batch, 1, 1, keys)
    if kind == "no mask":
        return None
    if kind == "causal mask":
        return causal
    if kind == "padding mask":
        return padding
    if kind == "padding in front, causal":
        return causal & padding.flip(-1)  # (batch, 1, queries, keys)
    if kind == "a query with nothing to attend":
        causal[seed % queries] = False
        return causal
    if kind == "a sequence with nothing to attend":
        padding = padding.clone()
        padding[seed % batch] = False
        return padding
    shape = (heads, queries, keys) if kind == "a mask per head" else (batch, heads, queries, keys)
    drawn = torch.rand(shape, generator=chosen)
    return (drawn < 0.5) | (drawn == drawn.amax(-1, keepdim=True))  # one key at least for each


def _make_weights(kind, seed) -> Case:
    batch, heads, queries, keys, d_head = _sizes(kind["sizes"], seed)
    q, k = randn(seed, (batch, heads, queries, d_head), (batch, heads, keys, d_head))
    if kind["numbers"] in LARGE:
        size = -12000.0 if kind["numbers"] == LARGE[1] else 800.0
        large_q, large_k = _graded(queries, keys, d_head, size)
        if kind["numbers"] == LARGE[2]:
            large_q[1::2] *= -1
        q, k = torch.zeros_like(q) + large_q, torch.zeros_like(k) + large_k
    elif kind["numbers"] == "tiny numbers":
        q, k = 0.01 * q, 0.01 * k
    elif kind["numbers"] == "all scores alike":
        k = k[:, :, :1].repeat(1, 1, keys, 1)
    elif kind["numbers"] == "a query of zeros":
        q[..., 0, :] = 0
    mask = _mask(kind["mask"], seed, batch, heads, queries, keys)
    nan = None
    if kind["mask"] in NOTHING and kind["numbers"] not in LARGE:
        nan = _EMPTY_ROW
    elif kind["numbers"] in LARGE and kind["mask"] not in NOTHING:
        nan = _OVERFLOW
    alive = mask is None or bool(mask.any())  # where nobody may attend, no gradient need flow
    return Case((q, k) if mask is None else (q, k, mask), nan=nan, gradients=alive)


def _weights_domain(make) -> Domain:
    return Domain(
        kinds={"mask": MASKS, "sizes": SIZES, "numbers": NUMBERS},
        make=make,
        edges=(*NOTHING, *LARGE, "one key"),
    )


def _future_changed(base, this, upto):
    return base[..., :upto, :], this[..., :upto, :]


def _weights_twins() -> list[Case]:
    """A causal mask, and the same once more with keys of the future changed."""
    q, k = randn(0, (2, 3, 5, 4), (2, 3, 5, 4))
    causal = attention.causal_mask(5)
    changed = k.clone()
    changed[:, :, 3:] = 5 * changed[:, :, 3:]
    leak = Twin(
        0,
        lambda base, this: _future_changed(base, this, 3),
        "future-leaks",
        "The future leaks: when keys 3 and 4 change, the weights of queries 0 to 2 change too, "
        "although the causal mask forbids them to look there.",
    )
    return [
        Case((q, k, causal), note="causal mask"),
        Case((q, changed, causal), note="causal mask, keys 3 and 4 changed", twin=leak),
        *_weights_of_other_masks(),
    ]


def _weights_of_other_masks() -> list[Case]:
    """Shapes that broadcast to the scores' too, but that few think of."""
    q, k, long_q, long_k = randn(7, (2, 3, 4, 5), (2, 3, 6, 5), (2, 1, 12, 3), (2, 1, 12, 3))
    of_keys = torch.arange(6) != 2
    of_queries = (torch.arange(4) != 1)[:, None].expand(2, 1, 4, 1).clone()
    of_queries[1, 0, 0] = False
    words = "a mask of one axis, (keys,)", "a mask of one column, (batch, 1, queries, 1)"
    return [
        Case((q, k, of_keys), note=words[0]),
        Case((q, k, of_queries), note=words[1], nan=_EMPTY_ROW, edge=True),
        Case((long_q, long_k), note="as many queries as keys, and no mask"),
    ]


_OVERFLOW = (
    "overflow",
    "Right, until the scores get large: exp(1000) is too large for any float, exp(−1000) is 0, and "
    "∞/∞ and 0/0 are not numbers. Take each row's greatest score off first; the shares stay the "
    "same. (`torch.softmax` does so.)",
)
_EMPTY_ROW = (
    "nan-rows",
    "Right, but for the query that may attend to nothing: its row is 0/0, NaN, and one NaN "
    "spreads through the whole model. Such a row gives zeros.",
)


def _rows_sum_to_one(cases, values, expected):
    for case, value, right in zip(cases, values, expected, strict=True):
        full = (right.sum(-1) - 1).abs() < 1e-4
        if ((value.sum(-1) - 1).abs()[full] > 1e-3).any():
            where = f" ({case.note})" if case.note else ""
            return Finding(
                "rows-do-not-sum-to-one",
                "The rows do not sum to one: each query has to share out all of its attention "
                f"among the keys{where}.",
            )
        if (value < 0).any():
            return Finding("negative", "There are negative weights: no share can be below zero.")
    return None


def _masked_keys_get_nothing(cases, values, expected):
    for case, value, right in zip(cases, values, expected, strict=True):
        mask = (*case.args, None, None)[2 if len(case.args) < 4 else 3]
        if mask is not None and (value.abs() > 1e-4)[~mask.expand(right.shape)].any():
            return Finding(
                "masked-key-attended",
                f"A key that the mask forbids still gets attention ({case.note}).",
            )
    return None


def _scaled(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def _softmax_weights(scores, mask=None, fill=-math.inf, dim=-1):
    """Softmax of masked scores; NaN, where a row has nothing to attend, becomes zero."""
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    return torch.softmax(scores, dim=dim).nan_to_num(0.0)


def _right_weights(q, k, mask=None):
    return _softmax_weights(_scaled(q, k), mask)


def _mask_after(q, k, mask=None):
    weights = torch.softmax(_scaled(q, k), -1)
    return weights if mask is None else weights * mask


def _mask_multiplied(q, k, mask=None):
    scores = _scaled(q, k)
    return torch.softmax(scores if mask is None else scores * mask, -1)


def _mask_added(q, k, mask=None):
    scores = _scaled(q, k)
    return torch.softmax(scores if mask is None else scores + mask, -1)


def _mask_times_infinity(q, k, mask=None):
    scores = _scaled(q, k)
    return torch.softmax(scores if mask is None else scores + ~mask * -math.inf, -1)


def _nan_rows(q, k, mask=None):
    scores = _scaled(q, k)
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), -1)


def _raised(q, k, mask=None):
    raised = _scaled(q, k).exp()
    return raised if mask is None else raised.masked_fill(~mask, 0.0)


def _bare_exponential(q, k, mask=None):
    raised = _raised(q, k, mask)
    return raised / raised.sum(-1, keepdim=True)


def _shared_anew(q, k, mask=None):
    weights = _mask_after(q, k, mask)
    return weights / weights.sum(-1, keepdim=True)


def _inverted(q, k, mask=None):
    return _softmax_weights(_scaled(q, k), None if mask is None else ~mask)


_WEIGHTS_VARIANTS = {
    "no-scale": Variant(
        "This is attention without the 1/√d_head. Look at the spread of the scores, and at what "
        "the softmax makes of it.",
        lambda q, k, mask=None: _softmax_weights(q @ k.mT, mask),
    ),
    "scale-by-d": Variant(
        "You divide the scores by d_head instead of its root: the weights come out too even.",
        lambda q, k, mask=None: _softmax_weights(q @ k.mT / q.shape[-1], mask),
    ),
    "softmax-over-queries": Variant(
        "The softmax goes over the queries: your columns sum to one. Each query shares out its "
        "attention, so each row must sum to one.",
        lambda q, k, mask=None: _softmax_weights(_scaled(q, k), mask, dim=-2),
    ),
    "softmax-over-heads": Variant(
        "The softmax goes over the heads: axis 1. Each query of each head shares out its own.",
        lambda q, k, mask=None: _softmax_weights(_scaled(q, k), mask, dim=1),
    ),
    "mask-inverted": Variant(
        "You read the mask the wrong way round: the keys that may be attended are taken out. "
        "True = may attend.",
        _inverted,
    ),
    "mask-after-softmax": Variant(
        "You set the forbidden weights to zero after the softmax. They have already taken part "
        "in its sum: the rows no longer sum to one. Take the keys out before.",
        _mask_after,
    ),
    "mask-multiplied": Variant(
        "You multiply the scores with the mask: a forbidden key gets score 0, and exp(0) = 1, so "
        "it keeps its share. Which score makes exp(score) = 0?",
        _mask_multiplied,
    ),
    "mask-added": Variant(
        "You add the boolean mask to the scores: allowed keys get +1, forbidden ones +0. The "
        "additive form has 0 and −∞ in it; a boolean one has to be translated first.",
        _mask_added,
    ),
    "zero-times-infinity": Variant(
        "You multiply −∞ with the mask. That gives −∞ where a key is forbidden, but 0 · ∞ where it "
        "is allowed, and 0 · ∞ is NaN. Choose between the two instead (`masked_fill`, "
        "`torch.where`).",
        _mask_times_infinity,
    ),
    "mask-ignored": Variant(
        "The mask changes nothing: forbidden keys keep their weights.",
        lambda q, k, mask=None: _right_weights(q, k),
    ),
    "nan-rows": Variant(_EMPTY_ROW[1], _nan_rows),
    "overflow": Variant(_OVERFLOW[1], _bare_exponential),
    "weights-taken-out-late": Variant(
        "Right for ordinary scores. But you take the forbidden keys out after the exponential, and "
        "share out anew. Where a forbidden key has by far the greatest score, all others have "
        "become 0 by then, and nothing is left to share. Take the keys out before.",
        _shared_anew,
    ),
    "softmax-twice": Variant(
        "You take the softmax twice: the second one sees weights between 0 and 1, and makes them "
        "nearly even.",
        lambda q, k, mask=None: torch.softmax(_right_weights(q, k, mask), -1),
    ),
    "not-shared": Variant(
        "These are the exponentials of the scores. They are not shares yet: what has to be divided "
        "by what, so that each row sums to one?",
        lambda q, k, mask=None: _raised(q, k, mask),
    ),
    "large-negative": Variant(
        "Right, but for the query that may attend to nothing. With a large negative number "
        "instead of −∞ all its keys tie, and it attends evenly to what it may not see. Such a "
        "row gives zeros. (In half precision −1e9 would not even fit.)",
        lambda q, k, mask=None: _softmax_weights(_scaled(q, k), mask, fill=-1e9),
    ),
}

WEIGHTS = Exercise(
    name="attention_weights",
    lesson=LESSON,
    title="weights, with a mask",
    domain=_weights_domain(_make_weights),
    special=_weights_twins,
    witness=attention.attention_weights,
    reference=attention.attention_weights,
    axes=("batch", "heads", "queries", "keys"),
    properties=(_masked_keys_get_nothing, _rows_sum_to_one),
    hints=(
        "Without a mask: scores, then a softmax. Over which axis must the sum be one?",
        "A forbidden key must get the weight exp(score) = 0, before the shares are worked out. "
        "`masked_fill` writes a number wherever a mask is True; yours is True where it may attend.",
        "A row that is −∞ everywhere gives 0/0. Afterwards that row can be put to zero: look for "
        "the rows where the mask allows nothing, or for the NaN itself.",
    ),
    variants=_WEIGHTS_VARIANTS,
)


# --- scaled_dot_product_attention -----------------------------------------------------------


def _with_values(case: Case, seed: int) -> Case:
    """The case with values after the keys; d_value is not d_head."""
    q, k, *mask = case.args
    [v] = randn(seed + 500, (*k.shape[:-1], q.shape[-1] + 1 + seed % 3))
    return replace(case, args=(q, k, v, *mask))


def _make_attention(kind, seed) -> Case:
    return _with_values(_make_weights(kind, seed), seed)


def _attention_twins() -> list[Case]:
    return [_with_values(case, 9) for case in _weights_twins()]


def _times_values(weights_variant):
    return lambda q, k, v, mask=None: weights_variant(q, k, mask) @ v


ATTENTION = Exercise(
    name="scaled_dot_product_attention",
    lesson=LESSON,
    title="attention",
    domain=_weights_domain(_make_attention),
    special=_attention_twins,
    forbids=("scaled_dot_product_attention",),
    witness=attention.scaled_dot_product_attention,
    reference=attention.scaled_dot_product_attention,
    axes=("batch", "heads", "queries", "d_value"),
    hints=(
        "You have `attention_weights`. What is still to do with them, in one line?",
        "Each query's output is a mixture of the values, its weights are the shares. A mixture of "
        "the rows of a matrix is a matrix product.",
        "weights (…, queries, keys) and v (…, keys, d_value): the axis of the keys has to "
        "disappear. And pass the mask on.",
    ),
    variants={
        **{
            name: Variant(variant.says, _times_values(variant.answer))
            for name, variant in _WEIGHTS_VARIANTS.items()
        },
        "scale-by-d-value": Variant(
            "You divide by √d_value. The scores are products of queries and keys; the values have "
            "no part in them.",
            lambda q, k, v, mask=None: (
                _softmax_weights(q @ k.mT / math.sqrt(v.shape[-1]), mask) @ v
            ),
        ),
        "values-averaged": Variant(
            "Every query gets the same: the plain mean of the values. The weights are not used.",
            lambda q, k, v, mask=None: v.mean(-2, keepdim=True).expand(*q.shape[:-1], -1),
        ),
        "keys-as-values": Variant(
            "You mix the keys. A key says what a token offers to be found by; its value says what "
            "it gives.",
            lambda q, k, v, mask=None: _right_weights(q, k, mask) @ k,
        ),
        "unweighted-sum": Variant(
            "The values are added up with the raw scores: the softmax is missing.",
            lambda q, k, v, mask=None: _scaled(q, k) @ v,
        ),
    },
)


# --- leaks ----------------------------------------------------------------------------------

CIRCLE, WEAK_STEP = "outputs on a circle", "a step of 3e-6"
IN_LARGE = "a step of 1e-3 in large outputs"
OF_NUMBERS = {"a leak of the first number", "a leak of a number in the middle"}
TURNS, WHOLE_TEXT = "a sign that turns", "the whole text at once"
PROBED_ONCE = {CIRCLE, WEAK_STEP, IN_LARGE, TURNS, WHOLE_TEXT, *OF_NUMBERS}


def _make_leaks(kind, seed) -> Case | None:
    tokens, d_model = unequal(seed, 2)
    if kind["sizes"] == "one token":
        tokens = 1
    elif kind["sizes"] == "one number a token":
        d_model = 1
    elif kind["sizes"] == "as many tokens as numbers in each":
        d_model = tokens
    if d_model == 1 and kind["attend"] in ("a weak leak", "a causal mask after the softmax"):
        return None  # a single number may change by too little to tell it from rounding
    # Not the seed of the answer's own randomness: its first numbers would be those of x again.
    [x] = randn(seed + 7919, (tokens, d_model))
    if kind["tokens"] == "a token of zeros":
        x[seed % tokens] = 0
    elif kind["tokens"] == "all tokens alike":
        x[:] = x[0].clone()
    elif kind["tokens"] == "tokens of ones, of halves, of minus ones":
        x[:] = _STAYING[(torch.arange(tokens) + seed) % 3][:, None]
    return Case((stand_in(kind["attend"]), x), gradients=False)


_STAYING = torch.tensor([1.0, 0.5, -1.0])  # what a constant, or twice and one more, leaves alone


def _leaks_probed_once() -> list[Case]:
    """Where a weak step, a large output, a sum or a number that was left alone shows."""
    [x] = randn(31, (4, 5))
    known = text_known_by_heart(3, 12)
    by_heart = (WEAK_STEP, IN_LARGE, TURNS, WHOLE_TEXT)
    cases = [(name, known if name in by_heart else x) for name in sorted(PROBED_ONCE)]
    some_zeros = torch.where(torch.arange(5) % 2 == 0, 0.0, x)
    cases += [(name, some_zeros) for name in sorted(OF_NUMBERS)]
    again = Case((stand_in("causal attention"), x), note="and once more", gradients=False)
    own = [Case((stand_in(name), x), gradients=False, edge=True) for name, x in cases]
    return [again, replace(again, seed=1000), *own]


def _probed(change, differ, keep=False):
    """A probe of which the change of a token, or the comparison, may be wrong."""

    def answer(attend, x):
        before, now = attend(x), x.clone()
        moved = torch.zeros(len(x), len(x), dtype=torch.bool)
        for j in range(len(x)):
            now = now if keep else x.clone()
            now[j] = change(x[j])
            moved[:, j] = differ(attend(now), before)
        return moved

    return answer


def _shifted_token(token):
    return token + 1.25 + torch.arange(len(token)).to(token) / 8


def _first_number(token):
    return torch.cat([_shifted_token(token)[:1], token[1:]])


def _beyond(limit):
    return lambda after, before: ((after - before).abs() > limit).any(-1)


_leaks = _probed(_shifted_token, _beyond(1e-6))


def _what_is_missed(cases, values, expected):
    """What all that is wrong comes of: the threshold, the change, or the comparison."""
    added, missed, staying = set(), set(), True
    for case, value, right in zip(cases, values, expected, strict=True):
        stand, x = case.args
        name = stand["mixer"]
        added |= {name} if (value & ~right).any() else set()
        gone = right & ~value
        if gone.any() and (not case.edge or name in PROBED_ONCE):
            missed.add(name)
            alike = (x[:, :1] == _STAYING.to(x)).any(-1) & (x == x[:, :1]).all(-1)
            staying = staying and bool(alike[gone.any(0)].all())
    if added == {"rounding alone"} and not missed:
        return Finding(
            "rounding-counted",
            "You count rounding as a change. The last digits of a sum may come out differently "
            "when it is worked out again, and nothing has flowed. From where on is it a change?",
        )
    if added or not missed:
        return None
    if staying:
        return Finding(
            "token-stays",
            "Right, but for some tokens: what you do to them leaves them as they were. A 1 put in "
            "place of a 1 changes nothing, and twice −1 and one more is −1 again.",
        )
    usual = missed - PROBED_ONCE
    if missed & OF_NUMBERS and usual <= {"a leak of the last number"} and CIRCLE not in missed:
        return Finding("numbers-left-alone", _LEFT_ALONE)
    if usual and usual <= {"a leak into the first number", "a leak into the last number"}:
        return Finding("numbers-not-compared", _NOT_COMPARED)
    if CIRCLE in missed and not usual:
        return Finding(
            "ups-and-downs-cancel",
            "You make one number of each output (a sum, a length) and compare those. But some "
            "numbers of an output may rise while others fall, and the sum or the length stays. "
            "Compare number by number.",
        )
    if missed == {TURNS}:
        return Finding(
            "sizes-compared",
            "You compare how large the numbers are. From 1 to −1 is a change too.",
        )
    if missed == {WHOLE_TEXT}:
        return Finding(
            "still-there",
            "A change is still there at the next one: in the tokens, or in the outputs that you "
            "compare with. Change every token alone, and compare with the outputs for x as it was "
            "given.",
        )
    if missed == {IN_LARGE}:
        return Finding(
            "relative-difference",
            "You measure a difference by how large the outputs are, and so miss a leak into large "
            "ones. Each difference above 1e-6 counts, whatever it is a difference of. "
            "(`torch.isclose` and `torch.allclose` add 1e-5 of the numbers themselves, unless you "
            "say `rtol=0`.)",
        )
    if missed == {WEAK_STEP, IN_LARGE, TURNS, WHOLE_TEXT}:
        return Finding(
            "change-too-small",
            "You change a token by too little, or ask for a slope. `attend` may have a step in it: "
            "close to where you stand it is flat, and a clear change goes over the edge.",
        )
    if missed == {WEAK_STEP} or (
        "a weak leak" in missed and "a leak into the first number" not in missed
    ):
        return Finding(
            "weak-leaks-missed",
            "Weak leaks are missed. Each difference above 1e-6, in any one number of an output, "
            "is more than rounding, and training finds it. A higher threshold hides it, and so "
            "does a mean over all numbers.",
        )
    return None


_LEFT_ALONE = (
    "You do not change all the numbers of a token. An output may depend on one that you leave as "
    "it is."
)
_NOT_COMPARED = (
    "You do not look at all the numbers of each output. The others may move while those that you "
    "look at stand still."
)


LEAKS = Exercise(
    name="leaks",
    lesson=LESSON,
    title="which token moves which output?",
    domain=Domain(
        kinds={
            "attend": tuple(name for name in MIXERS if name not in PROBED_ONCE),
            "sizes": (
                "some tokens",
                "one token",
                "one number a token",
                "as many tokens as numbers in each",
            ),
            "tokens": (
                "ordinary tokens",
                "a token of zeros",
                "all tokens alike",
                "tokens of ones, of halves, of minus ones",
            ),
        },
        make=_make_leaks,
        edges=("one token", "all tokens alike"),
        without={"repeat": "A right answer draws random numbers too: no word on those."},
    ),
    special=_leaks_probed_once,
    witness=attention.leaks,
    reference=attention.leaks,
    axes=("outputs", "changed tokens"),
    properties=(_what_is_missed,),
    hints=(
        "One column first: how would you find out, by hand, which outputs move with token 2? You "
        "need `attend` twice, once for x as it is and once for a changed copy.",
        "`x.clone()` makes a copy that may be written into. Into a fresh copy for every token: "
        "what you changed before must not be in it any more.",
        "An output is a row of numbers, and it has moved if any one of them has. `.abs()`, a "
        "comparison, then `any` or `amax` over one axis gives a column. `torch.stack` puts "
        "columns side by side, if you say along which axis.",
    ),
    variants={
        "transposed": Variant(
            "Your matrix is transposed: [i, j] is about output i and token j, a row for each "
            "output, as in a mask.",
            lambda attend, x: _leaks(attend, x).T,
        ),
        "inverted": Variant(
            "Your matrix is True where nothing moves.",
            lambda attend, x: ~_leaks(attend, x),
        ),
        "accumulates": Variant(
            "A change is still there at the next one: when it is the turn of token 2, the tokens 0 "
            "and 1 are changed too, and what they move is put down to token 2. If you meant to put "
            "the old numbers back: `x[j]` is a view. It changes along with x, and does not keep "
            "them.",
            _probed(_shifted_token, _beyond(1e-6), keep=True),
        ),
        "zeros-stay-zeros": Variant(
            "Right, but for a token of zeros: what you do to it leaves it as it was. Twice zero is "
            "zero, and so is zero set to zero.",
            _probed(lambda token: 2.5 * token, _beyond(1e-6)),
        ),
        "numbers-not-compared": Variant(
            _NOT_COMPARED,
            _probed(_shifted_token, lambda a, b: (a - b)[:, 0].abs() > 1e-6),
        ),
        "all-numbers-must-move": Variant(
            "You ask whether all the numbers of an output have moved. One of them is enough.",
            _probed(_shifted_token, lambda a, b: ((a - b).abs() > 1e-6).all(-1)),
        ),
        "numbers-left-alone": Variant(
            _LEFT_ALONE,
            _probed(_first_number, _beyond(1e-6)),
        ),
        "own-always": Variant(
            "Your diagonal is True whatever `attend` does. Not every output depends on its own "
            "token: measure it like the others.",
            lambda attend, x: _leaks(attend, x) | torch.eye(len(x), dtype=torch.bool),
        ),
        "future-only": Variant(
            "You keep what lies above the diagonal only. Asked for is every token that moves an "
            "output, the past and the output's own too.",
            lambda attend, x: _leaks(attend, x).triu(1),
        ),
        "inputs-compared": Variant(
            "This is where the tokens differ, not the outputs: what you compare has not been "
            "through `attend`.",
            lambda attend, x: torch.eye(len(x), dtype=torch.bool),
        ),
        "any-output": Variant(
            "All rows are the same: you ask whether token j moves any output at all. Which one?",
            lambda attend, x: _leaks(attend, x).any(0, keepdim=True).expand(len(x), -1),
        ),
        "a-causal-mask": Variant(
            "This is the causal mask, whatever `attend` does. Do not say what should be: measure "
            "what is.",
            lambda attend, x: torch.ones(len(x), len(x), dtype=torch.bool).tril(),
        ),
    },
)


# --- convert_mask ---------------------------------------------------------------------------

CONVENTIONS = ("may_attend", "may_not_attend", "additive", "zero_is_masked")


def _written(mask, convention):
    """A may-attend mask, written in a convention. Used to make the cases only."""
    return {
        "may_attend": mask,
        "may_not_attend": ~mask,
        "additive": torch.where(mask, 0.0, -math.inf),
        "zero_is_masked": mask.long(),
    }[convention]


_ZERO_TIMES_INFINITY = (
    "zero-times-infinity",
    "There is NaN in your additive mask: 0 · ∞ is not a number. Choose between 0 and −∞ "
    "(`torch.where`, `masked_fill`) instead of multiplying.",
)


def _make_convert(kind, seed) -> Case:
    batch, tokens = unequal(seed, 2)
    chosen = torch.Generator().manual_seed(seed)
    may_attend = {
        "causal mask": lambda: attention.causal_mask(tokens),
        "padding mask": lambda: attention.padding_mask(
            torch.randint(0, tokens + 1, (batch,), generator=chosen), tokens
        ),
        "a mask of one axis": lambda: torch.rand(tokens, generator=chosen) < 0.5,
        "a mask of four axes": lambda: torch.rand(batch, 3, 2, tokens, generator=chosen) < 0.5,
        "all masked": lambda: torch.zeros(batch, tokens, dtype=torch.bool),
        "nothing masked": lambda: torch.ones(batch, tokens, dtype=torch.bool),
    }[kind["mask"]]()
    source, target = kind["source"].split()[1], kind["target"].split()[1]
    return Case((_written(may_attend, source), source, target), nan=_ZERO_TIMES_INFINITY)


def _converter(read=None, write=None):
    """A converter whose reading or writing of some conventions is replaced."""
    reads = {
        "may_attend": lambda m: m,
        "may_not_attend": lambda m: ~m,
        "additive": lambda m: m == 0,
        "zero_is_masked": lambda m: m != 0,
    } | (read or {})
    writes = {name: lambda m, name=name: _written(m, name) for name in CONVENTIONS}
    writes |= write or {}
    return lambda mask, source, target: writes[target](reads[source](mask))


def _ones_and_zeros_are_integers(cases, values, expected):
    for case, value, right in zip(cases, values, expected, strict=True):
        floats = case.args[2] == "zero_is_masked" and value.is_floating_point()
        if floats and torch.equal(value, right.to(value.dtype)):
            return Finding(
                "zero-written-float",
                "Your zero_is_masked holds the right numbers as floats, 1.0 and 0.0. This "
                "convention holds the integers 1 and 0.",
            )
    return None


def _judged_by_the_property() -> list[Case]:
    """1.0 equals 1, so only the property tells them apart; a random case makes it be asked."""
    return [Case((attention.causal_mask(3), "may_attend", "zero_is_masked"), random=True)]


CONVERT = Exercise(
    name="convert_mask",
    lesson=LESSON,
    title="four conventions",
    domain=Domain(
        kinds={
            "source": tuple(f"from {name}" for name in CONVENTIONS),
            "target": tuple(f"to {name}" for name in CONVENTIONS),
            "mask": (
                "causal mask",
                "padding mask",
                "a mask of one axis",
                "a mask of four axes",
                "all masked",
                "nothing masked",
            ),
        },
        make=_make_convert,
        edges=("all masked", "nothing masked"),
    ),
    witness=attention.convert_mask,
    reference=attention.convert_mask,
    axes=("queries", "keys"),
    properties=(_ones_and_zeros_are_integers,),
    special=_judged_by_the_property,
    hints=(
        "Four conventions make sixteen translations, but you need not write sixteen: which one "
        "convention could every mask pass through?",
        "First translate `source` into True = may attend, then that into `target`: four short "
        "cases each. What does each convention write where a token may attend?",
        "The table above has every convention's two entries. For the additive one: 0 means may, "
        "−∞ means may not; `mask == 0` reads it, `torch.where` writes it.",
    ),
    variants={
        "unchanged": Variant(
            "The mask comes back as it was: nothing is translated.",
            lambda mask, source, target: mask,
        ),
        "additive-read-inverted": Variant(
            "You read the additive mask the wrong way round: 0 is what lets a score pass, −∞ is "
            "what blocks it.",
            _converter(read={"additive": lambda m: m != 0}),
        ),
        "additive-written-inverted": Variant(
            "You write the additive mask the wrong way round: −∞ belongs where a token may NOT "
            "attend.",
            _converter(write={"additive": lambda m: torch.where(m, -math.inf, 0.0)}),
        ),
        "additive-with-ones": Variant(
            "Your additive mask has ones and zeros in it. It is added to the scores: what has to "
            "be added to a score so that exp of it is 0?",
            _converter(write={"additive": lambda m: m.float()}),
        ),
        "additive-large-negative": Variant(
            "Your additive mask has a large negative number in place of −∞. Half precision cannot "
            "hold −1e9, and a row that is masked everywhere becomes even instead of empty.",
            _converter(write={"additive": lambda m: torch.where(m, 0.0, -1e9)}),
        ),
        "may-not-read": Variant(
            "You read may_not_attend as if True meant may: the one inversion that PyTorch itself "
            "asks of its users.",
            _converter(read={"may_not_attend": lambda m: m}),
        ),
        "may-not-written": Variant(
            "You write may_not_attend as if True meant may.",
            _converter(write={"may_not_attend": lambda m: m}),
        ),
        "zero-read-inverted": Variant(
            "You read zero_is_masked the wrong way round: the zeros are what is masked.",
            _converter(read={"zero_is_masked": lambda m: m == 0}),
        ),
        "zero-written-inverted": Variant(
            "You write zero_is_masked the wrong way round: 1 where a token may attend.",
            _converter(write={"zero_is_masked": lambda m: (~m).long()}),
        ),
        "zero-written-boolean": Variant(
            "Your zero_is_masked holds True and False; code of that convention expects the "
            "numbers 1 and 0.",
            _converter(write={"zero_is_masked": lambda m: m}),
        ),
    },
)


# --- merge_attention (graded) ---------------------------------------------------------------


_MERGE_OVERFLOW = (
    "overflow",
    "Right, until the scores get large: exp of them overflows to ∞ (or, far below zero, to 0), and "
    "∞/∞ and 0/0 are NaN. Take something away from both lse before the exp; the fraction will not "
    "notice.",
)
_MERGE_EMPTY = (
    "nan-rows",
    "Right, but for the query that may attend to nothing in either piece: −∞ − (−∞) is NaN, and so "
    "is 0/0. Such a row gives zeros, and its lse stays −∞.",
)
_MERGE_ONE_EMPTY = (
    "nan-empty-piece",
    "Right, but for the query that may attend to nothing in one of the pieces: its lse is −∞ "
    "there, and ∞/∞ or 0·∞ is NaN. The result is then the other piece's.",
)
PIECES = (
    "two pieces",
    "a piece of one key",
    "nothing in the first piece",
    "nothing in the second piece",
    "causal: some queries have nothing in the second piece",
    "a query with nothing in either piece",
    "nothing in either piece",
)
MERGE_SCORES = (
    "ordinary scores",
    "one piece far above the other",
    "scores in the hundreds",
    "scores in the thousands, below zero",
    "scores in the thousands in every other row",
    "all scores alike",
)


def _attended(scores, v):
    """Attention with these scores, and the log of each row's sum of exponentials."""
    return _softmax_weights(scores) @ v, torch.logsumexp(scores, -1)


def _make_merge(kind, seed) -> Case:
    batch, heads, queries, keys, d_value = _sizes(
        "more than eight tokens" if kind["sizes"] == "more than eight tokens" else "", seed
    )
    ones = {"a batch of one": "batch", "one head": "heads", "one query": "queries", "d_value 1": 0}
    one = ones.get(kind["sizes"])
    batch, heads, queries = (
        1 if one == name else size
        for name, size in (("batch", batch), ("heads", heads), ("queries", queries))
    )
    d_value = 1 if one == 0 else d_value
    cut = 1 if kind["pieces"] == "a piece of one key" else keys
    keys = cut + keys + 1
    scores, v = randn(seed, (batch, heads, queries, keys), (batch, heads, keys, d_value))
    scores, v = 2 * scores.double(), v.double()
    if kind["scores"] == "all scores alike":
        scores = torch.zeros_like(scores)
    first = torch.arange(keys) < cut
    row = (torch.arange(queries) == seed % queries)[:, None]
    empty = {
        "nothing in the first piece": first,
        "nothing in the second piece": ~first,
        "causal: some queries have nothing in the second piece": torch.arange(keys)
        > cut - 1 + torch.arange(-(queries // 2), queries - queries // 2)[:, None].clamp(min=0),
        "a query with nothing in either piece": row,
        "nothing in either piece": torch.ones(1, dtype=torch.bool),
    }.get(kind["pieces"])
    if empty is not None:
        scores = scores.masked_fill(empty, -math.inf)
    # A number added to all of a piece's scores changes its lse alone. So lse can be made a number
    # that float32 holds exactly, hundreds away too, and what is expected is exact.
    far = {"scores in the hundreds": (256, 256), "one piece far above the other": (256, 0)}
    far |= {"scores in the thousands, below zero": (-1024, -1024)}
    if seed % 2:
        far["one piece far above the other"] = (0, 256)
    every_other = 1024.0 * (torch.arange(queries) % 2)[:, None]
    far |= {"scores in the thousands in every other row": (every_other, every_other)}
    pieces = []
    for part, add in zip((first, ~first), far.get(kind["scores"], (0, 0)), strict=True):
        own = scores[..., part]
        lse = torch.logsumexp(own, -1, keepdim=True).masked_fill(
            (own == -math.inf).all(-1)[..., None], 0
        )
        pieces.append(own + (lse * 1024).round() / 1024 - lse + add)
    parts = [
        _attended(own, v[:, :, part]) for own, part in zip(pieces, (first, ~first), strict=True)
    ]
    whole = _attended(torch.cat(pieces, -1), torch.cat([v[:, :, first], v[:, :, ~first]], 2))
    out_a, lse_a, out_b, lse_b = (t.float() for part in parts for t in part)
    nan = None  # where two things come together, neither is named
    if kind["scores"] in far:
        nan = _MERGE_OVERFLOW if "nothing" not in kind["pieces"] else None
    elif "either" in kind["pieces"]:
        nan = _MERGE_EMPTY
    elif "nothing" in kind["pieces"]:
        nan = _MERGE_ONE_EMPTY
    return Case(
        (out_a, lse_a, out_b, lse_b),
        expected=tuple(t.float() for t in whole),
        nan=nan,
        gradients=False,  # what is expected is given, not computed from the inputs
    )


def _merge_gradients() -> list[Case]:
    """Cases without `expected`: the witness gives what is right, and its gradient."""
    out_a, out_b, lse_a, lse_b = randn(3, *[(2, 3, 4, 5)] * 2, *[(2, 3, 4)] * 2)
    silent = out_a.index_fill(2, torch.tensor([1]), 0.0)
    none_a, none_b = (torch.arange(4) == i for i in (0, 3))
    some_empty = (
        *(out_a.masked_fill(none_a[:, None], 0.0), lse_a.masked_fill(none_a, -math.inf)),
        *(out_b.masked_fill(none_b[:, None], 0.0), lse_b.masked_fill(none_b, -math.inf)),
    )
    words = (
        "some outputs of the first piece are all zeros, though their lse is not −∞",
        "one query has nothing in the first piece, another nothing in the second",
    )
    return [
        Case((out_a, lse_a, out_b, lse_b)),
        Case((silent, lse_a, out_b, lse_b), note=words[0]),
        Case(some_empty, note=words[1], nan=_MERGE_ONE_EMPTY, edge=True),
    ]


def _witness_merge(out_a, lse_a, out_b, lse_b):
    """Each piece counts as one key; asked only where a case does not carry what is expected."""
    scores, values = torch.stack([lse_a, lse_b], -1), torch.stack([out_a, out_b], -2)
    out, lse = _attended(scores[..., None, :], values)
    return out[..., 0, :], lse[..., 0]


def _spoilt_output(make):
    """The right lse with an output made from the two pieces."""
    return lambda case, right: (make(*case.args), right[1])


def _spoilt_lse(make):
    """The right output with an lse made from the two pieces' own."""
    return lambda case, right: (right[0], make(case.args[1], case.args[3]))


def _bare_exponentials(case, right, dtype=None):
    """exp of each lse, added up and divided: ∞/∞ and 0/0 where the exp leaves the type."""
    (out, lse), (_, lse_a, _, lse_b) = right, case.args
    greatest = torch.maximum(lse_a, lse_b)
    limit = math.log(torch.finfo(dtype or lse.dtype).max)
    lost = (greatest.abs() > limit) & (greatest > -math.inf)
    gone = torch.where(greatest > 0, math.inf, -math.inf)
    return out.masked_fill(lost[..., None], math.nan), torch.where(lost, gone.to(lse), lse)


def _shares_of_lse(out_a, lse_a, out_b, lse_b):
    total = (lse_a + lse_b)[..., None]
    return (lse_a[..., None] * out_a + lse_b[..., None] * out_b) / total


MERGE = Exercise(
    name="merge_attention",
    lesson=LESSON,
    title="attention in pieces (graded)",
    domain=Domain(
        kinds={
            "pieces": PIECES,
            "scores": MERGE_SCORES,
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one head",
                "one query",
                "d_value 1",
                "more than eight tokens",
            ),
        },
        make=_make_merge,
        edges=(
            *(p for p in PIECES if "nothing" in p),
            *(s for s in MERGE_SCORES if "far" in s or "hundreds" in s or "thousands" in s),
        ),
    ),
    special=_merge_gradients,
    witness=_witness_merge,
    tolerance=1e-4,  # an lse of 256 is held to 1e-5 only
    axes=("batch", "heads", "queries", "d_value"),
    hints=(
        "Write the attention over all keys as a fraction: above, a sum over keys of exp(score)·v, "
        "below, a sum of exp(score). How do both sums split when the keys are split?",
        "The lower sum of a piece is exp(lse). The upper sum is its output times the lower sum. "
        "Add the upper ones, add the lower ones, divide.",
        "exp of some hundreds overflows, and a fraction does not change when above and below are "
        "divided by the same number: which one keeps every exp at most 1? Last, think of a row "
        "for which both lse are −∞.",
    ),
    variants={
        "averaged": Variant(
            "You take the plain mean of the two outputs. A piece whose keys fit the query better "
            "must count for more.",
            spoil=_spoilt_output(lambda out_a, lse_a, out_b, lse_b: (out_a + out_b) / 2),
        ),
        "added": Variant(
            "You add the two outputs: each of them is already a full mixture, whose shares sum to "
            "one. Together they may sum to one as well, not to two.",
            spoil=_spoilt_output(lambda out_a, lse_a, out_b, lse_b: out_a + out_b),
        ),
        "swapped": Variant(
            "The shares are swapped: each piece gets the share that belongs to the other.",
            spoil=lambda case, right: (case.args[0] + case.args[2] - right[0], right[1]),
        ),
        "shares-of-lse": Variant(
            "Your shares are proportional to lse itself. It is a logarithm (it may be negative): "
            "what is proportional to the sum of exponentials?",
            spoil=_spoilt_output(_shares_of_lse),
        ),
        "lse-added": Variant(
            "The output is right, the returned lse is not: you add two logarithms, which "
            "multiplies the sums. It is the sums that have to be added.",
            spoil=_spoilt_lse(lambda a, b: a + b),
        ),
        "lse-max": Variant(
            "The output is right, the returned lse is not: the larger of the two is only the "
            "greater part of the sum.",
            spoil=_spoilt_lse(torch.maximum),
        ),
        "lse-mean": Variant(
            "The output is right, the returned lse is not: it is the mean of the two.",
            spoil=_spoilt_lse(lambda a, b: (a + b) / 2),
        ),
        "overflow": Variant(_MERGE_OVERFLOW[1], spoil=_bare_exponentials),
        "overflow-in-float64": Variant(
            "Right, until the scores get into the thousands. float64 only moves the limit: exp of "
            "710 is infinite there, exp of −746 is 0. Take something away from both lse before the "
            "exp, and float32 is enough.",
            spoil=lambda case, right: _bare_exponentials(case, right, torch.float64),
        ),
        "output-only": Variant(
            "The output is right. Give its lse too, or the next piece cannot be merged with it.",
            spoil=lambda case, right: right[0],
        ),
    },
)


# --- attention_in_tiles ---------------------------------------------------------------------


TILES = (
    "three tiles of unequal lengths",
    "two tiles",
    "one tile",
    "tiles of one key",
    "more than eight tiles",
)
TILE_SCORES = (
    "ordinary scores",
    "scores that rise from tile to tile",
    "scores that fall from tile to tile",
    "all scores alike",
    "one tile far above the others",
    "scores below minus a hundred",
    "scores above a hundred, or far below zero, from row to row",
    "scores in the thousands, of either sign from row to row",
)
_TILES_OVERFLOW = (
    "overflow",
    "Right, until the scores get large: exp(100) is too large for a float, exp(−110) is 0, and "
    "∞/∞, 0/0 and log 0 spoil the rest. What you wrote in the exercise before can bear any scores, "
    "and so can `torch.softmax` and `torch.logsumexp`.",
)


def _tile_lengths(kind: str, seed: int) -> list[int]:
    lengths = unequal(seed, 3, high=5)
    return {
        "two tiles": lengths[:2],
        "one tile": lengths[:1],
        "tiles of one key": [1, 1, 1, 1],
        "more than eight tiles": [*lengths, 1, *lengths, 2, 1],
    }.get(kind, lengths)


def _make_tiles(kind, seed) -> Case:
    batch, heads, queries, _, d_head = _sizes(kind["sizes"], seed)
    d_value = {"as many queries as keys and as sequences": d_head, "d_value 1": 1}.get(
        kind["sizes"], d_head + 1 + seed % 3
    )
    lengths = _tile_lengths(kind["tiles"], seed)
    if kind["sizes"] == "as many queries as keys and as sequences":
        lengths = [queries] * len(lengths)
    keys = sum(lengths)
    q, k, v = randn(
        seed, (batch, heads, queries, d_head), (batch, heads, keys, d_head),
        (batch, heads, keys, d_value),
    )  # fmt: skip
    number = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))  # of a key
    one = number == seed % len(lengths)
    sign = 1.0 - 2 * (torch.arange(queries) % 2)
    scores = kind["scores"]
    add = {  # to every score of a key
        "scores that rise from tile to tile": 2.0 * number / (1 + len(lengths) // 4),
        "scores that fall from tile to tile": -2.0 * number / (1 + len(lengths) // 4),
        "one tile far above the others": 128.0 * one,
        "scores below minus a hundred": torch.full((keys,), -128.0),
        "scores above a hundred, or far below zero, from row to row": torch.full((keys,), 128.0),
    }.get(scores)
    if add is not None:  # the first number of every query is 1, that of a key says how much
        q[..., 0] = sign if "row to row" in scores else 1.0
        k[..., 0] = k[..., 0] / 4 + add * math.sqrt(d_head)
    elif "in the thousands" in scores:
        large_q, large_k = _graded(queries, keys, d_head, 2000.0)
        q, k = torch.zeros_like(q) + large_q * sign[:, None], torch.zeros_like(k) + large_k
    elif scores == "all scores alike":
        k = k[:, :, :1].repeat(1, 1, keys, 1)
    tiles = list(zip(k.split(lengths, -2), v.split(lengths, -2), strict=True))
    tiles = [(k.contiguous(), v.contiguous()) for k, v in tiles]
    return Case((q, tiles), nan=_TILES_OVERFLOW if scores in TILE_SCORES[4:] else None)


def _tiles_twins() -> list[Case]:
    """Tiles in another order, the very same again, and so many that what grows shows."""
    q, k, v = randn(5, (2, 3, 4, 5), (2, 3, 9, 5), (2, 3, 9, 6))
    tiles = list(zip(k.split([4, 2, 3], -2), v.split([4, 2, 3], -2), strict=True))
    order = Twin(
        0,
        lambda base, this: (base, this),
        "order-of-tiles",
        "The result depends on the order in which the tiles come. It must not: all of them "
        "together are one softmax, and a sum has no order.",
    )
    again = Twin(
        0,
        lambda base, this: (base, this),
        "keeps-state",
        "Called a second time with the very same q and tiles, your code gives something else. It "
        "keeps something of the first call in a name outside.",
    )
    q_few, k_many, v_many = randn(6, (1, 2, 3, 2), (1, 2, 96, 2), (1, 2, 96, 2))
    lengths = [1, 2, 3] * 16
    many = list(zip(k_many.split(lengths, -2), v_many.split(lengths, -2), strict=True))
    return [
        Case((q, tiles)),
        Case((q, tiles[::-1]), note="the same tiles in another order", twin=order),
        Case((q, tiles), note="the very same q and tiles a second time", twice=True, twin=again),
        # Right answers hold 50 to 210 at one time, with all outputs or all scores it is over 600.
        Case((q_few, many), note="many small tiles", largest=320, gradients=False),
    ]


def _joined(tiles) -> tuple[torch.Tensor, torch.Tensor]:
    k, v = (torch.cat(parts, -2) for parts in zip(*tiles, strict=True))
    return k, v


def _attend_joined(q, tiles):
    """All tiles put together again, and plain attention."""
    k, v = (t.double() for t in _joined(tiles))
    out, lse = _attended(_scaled(q.double(), k), v)
    return out.to(q.dtype), lse.to(q.dtype)


def _apart(q, tiles, scores_of=_scaled) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Output and lse of every tile by itself."""
    return [_attended(scores_of(q, k), v) for k, v in tiles]


def _mean_of_outputs(q, tiles):
    outs = torch.stack([out for out, _ in _apart(q, tiles)])
    return outs.mean(0), _attend_joined(q, tiles)[1]


def _by_length(q, tiles):
    parts = [out * k.shape[-2] for (out, _), (k, _) in zip(_apart(q, tiles), tiles, strict=True)]
    return sum(parts) / sum(k.shape[-2] for k, _ in tiles), _attend_joined(q, tiles)[1]


def _half_each(q, tiles):
    (out, _), *rest = _apart(q, tiles)
    for other, _ in rest:
        out = (out + other) / 2
    return out, _attend_joined(q, tiles)[1]


def _carried(keep_lse):
    """Merges tile by tile; `keep_lse` says which lse goes on: of before, of the tile, merged."""

    def answer(q, tiles):
        (out, lse), *rest = _apart(q, tiles)
        for other, its_lse in rest:
            out, both = _witness_merge(out, lse, other, its_lse)
            lse = keep_lse(lse, its_lse, both)
        return out, lse

    return answer


def _tile_by_tile(of_one):
    """Merges what `of_one` gives for the scores and the values of each tile."""

    def answer(q, tiles):
        (out, lse), *rest = [of_one(_scaled(q, k), v) for k, v in tiles]
        for other, its_lse in rest:
            out, lse = _witness_merge(out, lse, other, its_lse)
        return out, lse

    return answer


def _lse_without_the_greatest(q, tiles):
    out, lse = _attend_joined(q, tiles)
    return out, lse - _scaled(q, _joined(tiles)[0]).amax(-1)


def _with_a_silent_key(q, tiles):
    k, v = tiles[0]
    silent = torch.zeros_like(k[..., :1, :]), torch.zeros_like(v[..., :1, :])
    return _attend_joined(q, [silent, *tiles])


def _shares_unscaled(q, tiles):
    (out, _), *rest = _apart(q, tiles)
    lse, *others = [lse for _, lse in _apart(q, tiles, _dots)]
    for (other, _), its_lse in zip(rest, others, strict=True):
        out, lse = _witness_merge(out, lse, other, its_lse)
    return out, lse


def _sum_for_its_log(q, tiles):
    (out, lse), *rest = [(out, lse.exp()) for out, lse in _apart(q, tiles)]
    for other, its_lse in rest:
        out, lse = _witness_merge(out, lse, other, its_lse)
    return out, lse


def _bare_sums(q, tiles):
    k, v = _joined(tiles)
    raised = _scaled(q, k).exp()
    total = raised.sum(-1)
    return raised @ v / total[..., None], total.log()


def _never_corrected(q, tiles):
    """The greatest score so far is taken off, and nothing else is done about it."""
    scores, tops = [_scaled(q, k) for k, _ in tiles], []
    for own in scores:
        tops.append(torch.cat([*tops[-1:], own], -1).amax(-1, keepdim=True))
    raised = [(own - top).exp() for own, top in zip(scores, tops, strict=True)]
    above = sum(own @ v for own, (_, v) in zip(raised, tiles, strict=True))
    below = sum(own.sum(-1, keepdim=True) for own in raised)
    return above / below, (tops[-1] + below.log())[..., 0]


def _cut_to_the_first(q, tiles):
    keys = tiles[0][0].shape[-2]
    return _attend_joined(q, [(k[..., :keys, :], v[..., :keys, :]) for k, v in tiles])


def _some_tiles(cases, values, expected):
    """Whether each wrong value is the attention over some of the tiles."""

    def is_of_some(case, value) -> bool:
        q, tiles = case.args
        count = len(tiles)
        chosen = [range(i) for i in range(1, count)] + [range(i, count) for i in range(1, count)]
        if count < 6:
            chosen = [[i for i in range(count) if s >> i & 1] for s in range(1, 2**count - 1)]
        return any(
            same(value, _attend_joined(q, [tiles[i] for i in some]), 1e-4) for some in chosen
        )

    wrong = [
        (case, value)
        for case, value, right in zip(cases, values, expected, strict=True)
        if not case.edge and not same(value, right, 1e-4, 0.01)
    ]
    if wrong and all(is_of_some(*pair) for pair in wrong):
        return Finding("tiles-missing", "Some of the tiles have no part in it. Which ones?")
    return None


IN_TILES = Exercise(
    name="attention_in_tiles",
    lesson=LESSON,
    title="attention in tiles",
    domain=Domain(
        kinds={
            "tiles": TILES,
            "scores": TILE_SCORES,
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one head",
                "one query",
                "d_head 1",
                "d_value 1",
                "as many queries as keys and as sequences",
            ),
        },
        make=_make_tiles,
        edges=("one tile", *TILE_SCORES[4:]),
    ),
    special=_tiles_twins,
    witness=_attend_joined,
    reference=attention.attention_in_tiles,
    properties=(_some_tiles,),
    tolerance=1e-4,  # a score of 128 is rounded to 1e-5
    axes=("batch", "heads", "queries", "d_value"),
    hints=(
        "Forget the other tiles for a moment. What are the output and the lse of one tile alone? "
        "Everything for it stands further up: scores, a softmax, a mixture of the values.",
        "You carry two tensors through the loop: the output and the lse of all the tiles so far. "
        "Each new tile makes two more. Which exercise makes two out of those four?",
        "And before the first tile? Either begin with its own two tensors, and loop over the rest; "
        "or begin with those of a query that has seen no key yet. Which lse has an empty sum?",
    ),
    variants={
        "last-tile-alone": Variant(
            "This is the attention over the last tile alone: what the tiles before it gave is "
            "overwritten.",
            lambda q, tiles: _attend_joined(q, tiles[-1:]),
        ),
        "first-tile-alone": Variant(
            "This is the attention over the first tile alone. Does your code return inside the "
            "loop?",
            lambda q, tiles: _attend_joined(q, tiles[:1]),
        ),
        "last-tile-missing": Variant(
            "The last tile has no part in it.",
            lambda q, tiles: _attend_joined(q, tiles[:-1] or tiles),
        ),
        "first-tile-missing": Variant(
            "The first tile has no part in it.",
            lambda q, tiles: _attend_joined(q, tiles[1:] or tiles),
        ),
        "cut-to-the-first": Variant(
            "The tiles may differ in length. You take of each only as many keys as the first tile "
            "has: those beyond are lost.",
            _cut_to_the_first,
        ),
        "first-tile-twice": Variant(
            "The first tile counts twice: you begin with it, and then your loop meets it again.",
            lambda q, tiles: _attend_joined(q, [tiles[0], *tiles]),
        ),
        "starts-with-zeros": Variant(
            "You begin with an lse of 0. That is no empty beginning: exp(0) = 1, so it counts like "
            "a key with the score 0 and a value of zeros. Which lse has a sum without any key?",
            _with_a_silent_key,
        ),
        "outputs-averaged": Variant(
            "You take the plain mean of the tiles' outputs. A tile whose keys fit the query better "
            "must count for more.",
            _mean_of_outputs,
        ),
        "outputs-by-length": Variant(
            "You weight each tile by how many keys it has. It is how well they fit the query that "
            "counts: the sum of their exponentials.",
            _by_length,
        ),
        "half-each": Variant(
            "You take the mean of what you have and the new tile, again and again: the last tile "
            "gets half of everything, whatever its scores are.",
            _half_each,
        ),
        "outputs-added": Variant(
            "You add the tiles' outputs: each of them is already a full mixture, whose shares sum "
            "to one.",
            lambda q, tiles: (
                sum(out for out, _ in _apart(q, tiles)),
                _attend_joined(q, tiles)[1],
            ),
        ),
        "lse-stays": Variant(
            "The lse of the first tile goes through your whole loop: the merged outputs are "
            "carried on, their lse is not. So what has been gathered counts for too little.",
            _carried(lambda before, tile, both: before),
        ),
        "lse-of-the-tile": Variant(
            "What you carry on is the lse of the newest tile, not that of all tiles so far: at the "
            "next merge, what has been gathered counts like one tile.",
            _carried(lambda before, tile, both: tile),
        ),
        "lse-added": Variant(
            "You add the lse of the new tile to that of those before. These are logarithms: it is "
            "the sums themselves that add up. `merge_attention` gives the lse of both, too.",
            _carried(lambda before, tile, both: before + tile),
        ),
        "greatest-for-lse": Variant(
            "You give each tile's greatest score for its lse. That is one key's part of the sum: "
            "those of the others are missing.",
            _tile_by_tile(lambda scores, v: (scores.softmax(-1) @ v, scores.amax(-1))),
        ),
        "over-queries": Variant(
            "Your softmax goes over the queries. Each query shares out its attention over the "
            "keys: the last axis of the scores.",
            _tile_by_tile(lambda scores, v: (scores.softmax(-2) @ v, scores.logsumexp(-1))),
        ),
        "lse-without-the-greatest": Variant(
            "The output is right. In your lse the greatest score is missing, which you took off "
            "before the exponential: it has to be added to the logarithm again.",
            _lse_without_the_greatest,
        ),
        "scale-by-d-value": Variant(
            "You divide the scores by √d_value. It is d_head that counts: over its numbers the "
            "dot product goes.",
            lambda q, tiles: _attend_joined(
                q * math.sqrt(q.shape[-1] / tiles[0][1].shape[-1]), tiles
            ),
        ),
        "no-scale": Variant(
            "These are undivided scores: the 1/√d_head is missing.",
            lambda q, tiles: _attend_joined(q * math.sqrt(q.shape[-1]), tiles),
        ),
        "lse-unscaled": Variant(
            "Each tile's output is right, its lse is not: that one is made of undivided scores. "
            "Both belong to the same softmax, so both need the same scores.",
            _shares_unscaled,
        ),
        "sum-for-its-log": Variant(
            "Each tile's output is right. But where `merge_attention` takes the logarithm of the "
            "sum of exponentials, you give it the sum itself.",
            _sum_for_its_log,
        ),
        "overflow": Variant(_TILES_OVERFLOW[1], _bare_sums),
        "greatest-not-corrected": Variant(
            "You take off the greatest score that you have met so far. When a later tile brings a "
            "greater one, the sums gathered before are still measured by the old one: they and the "
            "new ones do not fit together.",
            _never_corrected,
        ),
        "output-only": Variant(
            "The output is right. Give the lse of all tiles too: then this result could be merged "
            "with that of another machine, which holds other tiles.",
            lambda q, tiles: _attend_joined(q, tiles)[0],
        ),
    },
)


# --- find the bug ---------------------------------------------------------------------------


PADDINGS = (
    "padding at the end",
    "padding in front",
    "padding anywhere",
    "no padding",
    "one real token each",
    "a sequence of padding alone",
)


def _make_real_tokens(kind, seed) -> Case:
    batch, heads, queries, keys, d_head = _sizes(kind["sizes"], seed)
    [d_value] = unequal(seed + 1, 1)
    q, k, v = randn(
        seed, (batch, heads, queries, d_head), (batch, heads, keys, d_head),
        (batch, heads, keys, d_value),
    )  # fmt: skip
    if kind["numbers"] == "values in the thousands":
        v = 1000 * v
    chosen = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, keys + 1, (batch,), generator=chosen)
    lengths[0] = max(1, keys - 1)
    drawn = torch.rand(batch, keys, generator=chosen)
    is_padding = {
        "padding at the end": lambda: torch.arange(keys) >= lengths[:, None],
        "padding in front": lambda: torch.arange(keys) < keys - lengths[:, None],
        "padding anywhere": lambda: (drawn > 0.4) & (drawn > drawn.amin(-1, keepdim=True)),
        "no padding": lambda: torch.zeros(batch, keys, dtype=torch.bool),
        "one real token each": lambda: drawn > drawn.amin(-1, keepdim=True),
        "a sequence of padding alone": lambda: (
            torch.arange(keys) >= lengths.index_fill(0, torch.tensor([seed % batch]), 0)[:, None]
        ),
    }[kind["padding"]]()
    nan = _PADDING_ALONE if kind["padding"] == "a sequence of padding alone" else None
    alive = not is_padding.all()  # where there is no real token at all, no gradient need flow
    return Case((q, k, v, is_padding), nan=nan, gradients=alive)


_PADDING_ALONE = (
    "nan-rows",
    "Right, but for the sequence that is all padding: its softmax is 0/0, NaN, and one NaN spreads "
    "through the whole model. Such a sequence gives zeros.",
)


def _real_tokens_twins() -> list[Case]:
    """Padding at the end, and the same once more with the values of padding changed."""
    q, k, v = randn(0, (2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 6))
    is_padding = torch.arange(5) >= torch.tensor([3, 5])[:, None]
    changed = v.clone()
    changed[0, :, 3:] += 7
    leak = Twin(
        0,
        lambda base, this: (base, this),
        "padding-leaks",
        "Padding leaks: when only the values of padding tokens change, the output changes too.",
    )
    return [
        Case((q, k, v, is_padding)),
        Case((q, k, changed, is_padding), note="values of padding changed", twin=leak),
    ]


def attend_to_real_tokens(q, k, v, is_padding):
    """Attention that leaves padding out; is_padding (batch, keys) is True at padding."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~is_padding[:, None, None, :])


def _padded(mask_of, before=lambda q: q):
    def answer(q, k, v, is_padding):
        mask = mask_of(is_padding[:, None, None, :])
        mask = mask.to(q.dtype) if mask.is_floating_point() else mask
        return F.scaled_dot_product_attention(before(q), k, v, attn_mask=mask)

    return answer


BUG = Exercise(
    name="attend_to_real_tokens",
    lesson=LESSON,
    title="find the bug: padding that speaks",
    domain=Domain(
        kinds={
            "padding": PADDINGS,
            "sizes": SIZES,
            "numbers": ("ordinary numbers", "values in the thousands"),
        },
        make=_make_real_tokens,
        edges=("no padding", "a sequence of padding alone", "one key"),
    ),
    special=_real_tokens_twins,
    witness=attend_to_real_tokens,
    reference=attend_to_real_tokens,
    axes=("batch", "heads", "queries", "d_value"),
    hints=(
        "Make one sequence with a single padding token, and give that token's value a huge "
        "number. Does it show in the output? Should it?",
        "Which of the four conventions is `is_padding` in? Which one does "
        "`F.scaled_dot_product_attention` read?",
        "The two disagree on what True means. One sign between the one and the other is all.",
    ),
    variants={
        "as given": Variant(
            "The bug is still in: the output depends on the padding, and on nothing else.",
            _padded(lambda p: p),
            to_do=True,
        ),
        "mask-ignored": Variant(
            "Now nothing is masked: real tokens and padding are mixed.",
            lambda q, k, v, p: F.scaled_dot_product_attention(q, k, v),
        ),
        "mask-added": Variant(
            "You pass the mask as numbers, and it is added: padding gets +1, it counts for more.",
            _padded(lambda p: p.float()),
        ),
        "mask-added-inverted": Variant(
            "You pass the inverted mask as numbers, and it is added: real tokens get +1 only. "
            "Padding still takes part.",
            _padded(lambda p: (~p).float()),
        ),
        "values-zeroed": Variant(
            "You set the padding's values to zero, but padding still takes its share of the "
            "attention: the rest sums to less than one.",
            lambda q, k, v, p: F.scaled_dot_product_attention(
                q, k, v.masked_fill(p[:, None, :, None], 0)
            ),
        ),
        "keys-zeroed": Variant(
            "You set the padding's keys to zero: their score is 0 then, and exp(0) = 1 is still a "
            "share.",
            lambda q, k, v, p: F.scaled_dot_product_attention(
                q, k.masked_fill(p[:, None, :, None], 0), v
            ),
        ),
        "keys-and-values-zeroed": Variant(
            "You set the padding's keys and values to zero. Its score is 0 then, exp(0) = 1 is "
            "still a share, and the real tokens' shares sum to less than one.",
            lambda q, k, v, p: F.scaled_dot_product_attention(
                q, *(x.masked_fill(p[:, None, :, None], 0) for x in (k, v))
            ),
        ),
        "scaled-twice": Variant(
            "The mask is right, but now you scale twice: F.scaled_dot_product_attention divides "
            "by √d_head itself.",
            _padded(lambda p: ~p, before=lambda q: q / math.sqrt(q.shape[-1])),
        ),
        "large-negative": Variant(
            "Right, but for the sequence that is all padding: with a large negative number in "
            "place of −∞ all its keys tie, and it gets the mean of the padding. Such a sequence "
            "gives zeros.",
            lambda q, k, v, p: _softmax_weights(_scaled(q, k), ~p[:, None, None], fill=-1e9) @ v,
        ),
    },
)

EXERCISES = [SCORES, CAUSAL, PADDING, WEIGHTS, ATTENTION, LEAKS, CONVERT, MERGE, IN_TILES, BUG]
QUESTIONS = [
    Item(
        "01-learned",
        LESSON,
        "The model is told the right digits, never where to look. After training, where will the "
        "question F look?",
        (
            Option(
                "at all six cards alike",
                "Then it would get the same mixture of all six digits whatever it asks, and could "
                "only guess. That is how it looks before training.",
            ),
            Option(
                "always at the same place on the table",
                "The cards lie elsewhere in every game. A fixed place would be right one time in "
                "six.",
            ),
            Option(
                "at the card that shows F, wherever it lies",
                "Yes. It is the only way to get that digit out of the mixture, so the loss pushes "
                "the weights there. Run it and see.",
                right=True,
            ),
        ),
    ),
    Item(
        "01-received",
        LESSON,
        "Undivided scores, and d_k grows from 1 to 1024. What happens to ∂p/∂q, which a query "
        "receives?",
        (
            Option(
                "it falls for all queries alike",
                "∂p/∂s falls, but it is multiplied by the keys, and they get longer. And not all "
                "queries fare alike.",
            ),
            Option(
                "it grows for all queries alike",
                "It does grow on average. But an average can come from a few large ones.",
            ),
            Option(
                "a few queries receive a lot, most of them next to nothing",
                "Yes. Where two keys nearly tie, the weights still move, and long keys make it a "
                "lot. Where one key has won, they do not move at all. On average it even grows.",
                right=True,
            ),
        ),
    ),
    Item(
        "01-first-share",
        LESSON,
        "The word sat scores 6 with cat and 0 with the other five words. Divided by √8 that is "
        "2.12, and exp(2.12) is about 8.34, while exp(0) = 1. Which share does cat get?",
        (
            Option(
                "all of it: it is the only one that fits",
                "A score of 0 is not a share of 0: exp(0) = 1, so each of the other five gets a "
                "little. Only −∞ gets nothing.",
            ),
            Option(
                "about 63%",
                "8.34 / (8.34 + 5 · 1) = 0.63. The other five share the rest: a score of 0 is not "
                "a share of 0.",
                right=True,
            ),
            Option(
                "one sixth, like all the others",
                "That is what equal scores give. The softmax works on exp of the scores: 8.34 "
                "against 1.",
            ),
        ),
    ),
    Item(
        "01-spread",
        LESSON,
        "q and k have 64 random numbers each, mean 0, variance 1. How far from 0 is a typical q·k?",
        (
            Option("about 1", "Each single product is about that large, but 64 of them add up."),
            Option(
                "about 8",
                "Yes: variances add, 64 · 1 = 64, and the spread is the root of the variance.",
                right=True,
            ),
            Option(
                "about 64",
                "That is the variance. Products of both signs partly cancel, so the typical size "
                "grows with the root.",
            ),
        ),
    ),
    Item(
        "01-other-scale",
        LESSON,
        "Somebody divides by d_k instead of √d_k. What do the weights look like at the start, with "
        "d_k = 1024?",
        (
            Option(
                "nearly even: all keys get about the same",
                "Yes. The scores' spread is 32 / 1024, next to nothing, and exp of next to nothing "
                "is about 1 for all. It looks everywhere, and so nowhere.",
                right=True,
            ),
            Option(
                "saturated: one key gets all",
                "That is too little division. This is too much: the spread is 32 / 1024.",
            ),
            Option(
                "the same, training makes up for it",
                "Training can make q and k larger, and often does. But at the start the spread is "
                "32 / 1024, and the question is about now.",
            ),
        ),
    ),
    Item(
        "01-zero-after",
        LESSON,
        "Forbidden weights are put to 0 after the softmax. What is wrong with it?",
        (
            Option(
                "nothing, it is the same",
                "The forbidden keys have already taken part in the sum that all were divided by.",
            ),
            Option(
                "the rows no longer sum to one",
                "Yes: what the forbidden keys had taken is gone. And since that depends on their "
                "scores, the future still speaks through the sum.",
                right=True,
            ),
            Option("it is slower", "Hardly. It is wrong, which is worse."),
        ),
    ),
    Item(
        "01-trap",
        LESSON,
        "A causal mask in the convention True = may NOT attend is given to "
        "`F.scaled_dot_product_attention`. What happens?",
        (
            Option("it raises an error", "Both masks are boolean (T, T): it cannot tell."),
            Option(
                "each token sees only what comes after it",
                "Yes, and nothing complains. The last token, which has no future, sees nothing.",
                right=True,
            ),
            Option(
                "the mask is ignored",
                "It is obeyed, the wrong way round.",
            ),
        ),
    ),
    Item(
        "01-shuffle",
        LESSON,
        "The tokens are shuffled, with their queries, keys and values. What happens to the "
        "outputs?",
        (
            Option("they all change", "Each output is a sum over keys, and a sum has no order."),
            Option("nothing at all changes", "The rows do change places."),
            Option(
                "they are shuffled in the same way",
                "Yes: each token still finds the same others, wherever they stand.",
                right=True,
            ),
        ),
    ),
    Item(
        "01-cost",
        LESSON,
        "Twice the tokens, explicit form: how much more time and memory?",
        (
            Option("twice, twice", "There are T² scores: T queries, each with T keys."),
            Option(
                "about four times, four times",
                "Yes: (2T)² = 4T² scores to compute, and to keep. (The time may come out "
                "differently: the weights must also be carried to memory and back.)",
                right=True,
            ),
            Option(
                "four times the time, twice the memory",
                "The T × T weights are kept, all of them. But hold on to that thought: it can be "
                "done.",
            ),
        ),
    ),
    Item(
        "01-quiz-values",
        LESSON,
        "All values are between −1 and 1. Can an output of attention be 3?",
        (
            Option(
                "yes, if the scores are large enough",
                "Large scores move the shares about. The shares still sum to one.",
            ),
            Option(
                "no, never",
                "Right: an output is a weighted average of the values. It lies among them.",
                right=True,
            ),
            Option(
                "only without the scale",
                "The scale changes the shares, not the fact that they sum to one.",
            ),
        ),
    ),
    Item(
        "01-quiz-axis",
        LESSON,
        "Scores have shape (batch, heads, queries, keys). Over which axis goes the softmax?",
        (
            Option(
                "queries",
                "Then each key would share itself out among the queries: your columns sum to one.",
            ),
            Option(
                "keys",
                "Yes: each query shares out its attention among the keys, each row sums to one.",
                right=True,
            ),
            Option("heads", "Heads work side by side, and know nothing of each other."),
        ),
    ),
    Item(
        "01-quiz-empty-row",
        LESSON,
        "A query may attend to no key at all, and −1e9 is used in place of −∞. What does it get?",
        (
            Option(
                "zeros",
                "That is what this course gives. With −1e9 all scores are equal again, and equal "
                "scores share evenly.",
            ),
            Option("NaN", "That is what −∞ gives, if nothing is done about it."),
            Option(
                "the mean of all values, forbidden ones too",
                "Yes: all scores are nearly the same, so the shares are even. No error, no NaN, "
                "and wrong.",
                right=True,
            ),
        ),
    ),
    Item(
        "01-quiz-t-squared",
        LESSON,
        "An interviewer asks where the T² of attention comes from, and whether the fused kernel "
        "gets rid of it. You say:",
        (
            Option(
                "from T queries meeting T keys; the kernel keeps the time T², not the memory",
                "Yes, and you have measured both.",
                right=True,
            ),
            Option(
                "from the softmax; the kernel leaves it out",
                "The softmax is there, computed in pieces. Every query still meets every key.",
            ),
            Option(
                "from the projections; the kernel fuses them",
                "Projections work token by token: they cost T · d².",
            ),
        ),
    ),
]
