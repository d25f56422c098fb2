"""Lesson 01: scaled dot-product attention and its masks."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tfcourse import attention
from tfcourse.checks.exercise import Case, Exercise, Finding, Twin, Variant, randn
from tfcourse.checks.quiz import Item, Option

LESSON = "01_attention"
SIZES = ((0, 2, 3, 4, 5, 7), (1, 3, 2, 6, 4, 5))  # seed, batch, heads, queries, keys, d_head
SINGLE = (2, 1, 1, 1, 3, 4)  # one of everything: what a stray squeeze() would swallow


def _q_k(seed, batch, heads, queries, keys, d_head):
    return randn(seed, (batch, heads, queries, d_head), (batch, heads, keys, d_head))


# --- attention_scores -----------------------------------------------------------------------


def _scores_cases() -> list[Case]:
    return [Case(tuple(_q_k(*sizes)), gradients=True) for sizes in (*SIZES, SINGLE)]


def _dots(q, k):
    return q @ k.mT


SCORES = Exercise(
    name="attention_scores",
    lesson=LESSON,
    title="scores",
    cases=_scores_cases,
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


def _causal_cases() -> list[Case]:
    return [Case((tokens,)) for tokens in (5, 3, 8, 1)]


def _triangle(tokens, diagonal=0):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril(diagonal)


CAUSAL = Exercise(
    name="causal_mask",
    lesson=LESSON,
    title="causal mask",
    cases=_causal_cases,
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


def _padding_cases() -> list[Case]:
    return [
        Case((torch.tensor(lengths), tokens))
        for lengths, tokens in (([3, 5, 1], 5), ([2, 4], 7), ([0, 6, 2, 3], 6))
    ]


def _within(lengths, tokens):
    return torch.arange(tokens) < lengths[:, None]


PADDING = Exercise(
    name="padding_mask",
    lesson=LESSON,
    title="padding mask",
    cases=_padding_cases,
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


def _future_changed(base, this, upto):
    return base[..., :upto, :], this[..., :upto, :]


def _weights_cases() -> list[Case]:
    cases = []
    for sizes in (*SIZES, SINGLE):
        q, k = _q_k(*sizes)
        cases.append(Case((q, k), gradients=True, note="no mask"))
    seed, batch, heads, _, keys, d = SIZES[0]
    q, k = _q_k(seed, batch, heads, keys, keys, d)
    causal = attention.causal_mask(keys)
    cases.append(Case((q, k, causal), gradients=True, note="causal mask"))
    changed = k.clone()
    changed[:, :, 3:] = 5 * changed[:, :, 3:]
    cases.append(
        Case(
            (q, changed, causal),
            note="causal mask, keys 3 and 4 changed",
            twin=Twin(
                len(cases) - 1,
                lambda base, this: _future_changed(base, this, 3),
                "future-leaks",
                "The future leaks: when keys 3 and 4 change, the weights of queries 0 to 2 change "
                "too, although the causal mask forbids them to look there.",
            ),
        )
    )
    padding = attention.padding_mask(torch.tensor([3, 5]), keys)
    cases.append(Case((q, k, padding), note="padding mask"))
    cases.append(Case((q, k, causal & padding), note="causal and padding mask together"))
    nothing = causal.clone()
    nothing[2] = False
    cases.append(Case((q, k, nothing), note="query 2 may attend to nothing"))
    # whole numbers, √d_head = 2: the scores 200, 190 and 0 are exact, however they are worked out
    q = torch.tensor([[[[20.0, 0, 0, 0]]]])
    k = torch.tensor([20.0, 19.0, 0.0])[:, None] * torch.tensor([1.0, 0, 0, 0])
    cases.append(Case((q, k[None, None]), note="scores up to 200", nan=_OVERFLOW))
    return cases


_OVERFLOW = (
    "overflow",
    "There is NaN for scores of 200 and 190: exp(200) is too large for a float, and ∞/∞ is not a "
    "number. Take the row's greatest score off first; the shares stay the same. (`torch.softmax` "
    "does so.)",
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


def _nan_rows(q, k, mask=None):
    scores = _scaled(q, k)
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), -1)


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
    "mask-ignored": Variant(
        "The mask changes nothing: forbidden keys keep their weights.",
        lambda q, k, mask=None: _right_weights(q, k),
    ),
    "nan-rows": Variant(
        "Right, but for the query that may attend to nothing: its row is 0/0, NaN, and one NaN "
        "spreads through the whole network. Such a row gives zeros.",
        _nan_rows,
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
    cases=_weights_cases,
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


def _attention_cases() -> list[Case]:
    cases = []
    for case in _weights_cases():
        q, k, *mask = case.args
        (v,) = randn(9, (*k.shape[:-1], 6 if q.shape[-1] != 6 else 8))
        twin = case.twin
        cases.append(
            Case(
                (q, k, v, *mask),
                gradients=case.gradients,
                note=case.note,
                twin=twin,
                nan=case.nan,
            )
        )
    return cases


def _times_values(weights_variant):
    return lambda q, k, v, mask=None: weights_variant(q, k, mask) @ v


ATTENTION = Exercise(
    name="scaled_dot_product_attention",
    lesson=LESSON,
    title="attention",
    cases=_attention_cases,
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


def _convert_cases() -> list[Case]:
    padding = attention.padding_mask(torch.tensor([2, 3, 0]), 3)
    masks = {(a, b): attention.causal_mask(4) for a in CONVENTIONS for b in CONVENTIONS}
    masks["may_attend", "additive"] = padding
    return [
        Case((_written(mask, a), a, b), note=f"from {a} to {b}", nan=_ZERO_TIMES_INFINITY)
        for (a, b), mask in masks.items()
    ]


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


CONVERT = Exercise(
    name="convert_mask",
    lesson=LESSON,
    title="four conventions",
    cases=_convert_cases,
    witness=attention.convert_mask,
    reference=attention.convert_mask,
    axes=("queries", "keys"),
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


def _piece(q, k, v, mask=None):
    """Attention over some of the keys, and the log of each row's sum of exponentials."""
    scores = _scaled(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return _softmax_weights(scores) @ v, torch.logsumexp(scores, -1)


_OVERFLOW = (
    "overflow",
    "Right, until the scores reach some hundreds: exp of that overflows to ∞ (or, far below zero, "
    "to 0), and ∞/∞ and 0/0 are NaN. Take something away from both lse before the exp; the "
    "fraction will not notice.",
)
_EMPTY = (
    "nan-rows",
    "Right, but for the query that may attend to nothing in either piece: −∞ − (−∞) is NaN, and so "
    "is 0/0. Such a row gives zeros, and its lse stays −∞.",
)


def _merge_cases() -> list[Case]:
    cases = []
    for seed, batch, heads, queries, keys, d in SIZES:
        q, k, v = randn(seed, *[(batch, heads, n, d) for n in (queries, keys + 4, keys + 4)])
        cut = 3 + seed
        parts = _piece(q, k[:, :, :cut], v[:, :, :cut]), _piece(q, k[:, :, cut:], v[:, :, cut:])
        whole = F.scaled_dot_product_attention(q, k, v), _piece(q, k, v)[1]
        note = f"{cut} and {keys + 4 - cut} keys"
        cases.append(Case((*parts[0], *parts[1]), expected=whole, note=note))
    q, k, v = randn(5, (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 5))
    q = 60 * q
    parts = _piece(q, k[:, :, :2], v[:, :, :2]), _piece(q, k[:, :, 2:], v[:, :, 2:])
    whole = F.scaled_dot_product_attention(q, k, v), _piece(q, k, v)[1]
    note = "scores of some hundreds"
    cases.append(Case((*parts[0], *parts[1]), expected=whole, note=note, nan=_OVERFLOW))
    q, k, v = randn(6, (2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4))
    mask = attention.causal_mask(5)
    parts = [_piece(q, k[:, :, s], v[:, :, s], mask[:, s]) for s in (slice(0, 2), slice(2, 5))]
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True), _piece(q, k, v, mask)[1]
    note = "causal: the first queries may attend to nothing in the second piece"
    cases.append(Case((*parts[0], *parts[1]), expected=whole, note=note))
    mask = mask.clone()
    mask[3] = False
    parts = [_piece(q, k[:, :, s], v[:, :, s], mask[:, s]) for s in (slice(0, 2), slice(2, 5))]
    note = "query 3 may attend to nothing in either piece"
    whole = _piece(q, k, v, mask)
    cases.append(Case((*parts[0], *parts[1]), expected=whole, note=note, nan=_EMPTY))
    return cases


def _witness_merge(out_a, lse_a, out_b, lse_b):
    """Names the arguments; every case carries what is expected."""
    return out_a, lse_a


def _spoilt_output(make):
    """The right lse with an output made from the two pieces."""
    return lambda case, right: (make(*case.args), right[1])


def _spoilt_lse(make):
    """The right output with an lse made from the two pieces' own."""
    return lambda case, right: (right[0], make(case.args[1], case.args[3]))


def _shares_of_lse(out_a, lse_a, out_b, lse_b):
    total = (lse_a + lse_b)[..., None]
    return (lse_a[..., None] * out_a + lse_b[..., None] * out_b) / total


MERGE = Exercise(
    name="merge_attention",
    lesson=LESSON,
    title="attention in pieces (graded)",
    cases=_merge_cases,
    witness=_witness_merge,
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
        "output-only": Variant(
            "The output is right. Give its lse too, or the next piece cannot be merged with it.",
            spoil=lambda case, right: right[0],
        ),
    },
)


# --- find the bug ---------------------------------------------------------------------------


def _real_tokens_cases() -> list[Case]:
    cases = []
    for (seed, batch, heads, queries, keys, d), lengths in zip(
        SIZES, ([3, 5], [4, 1, 2]), strict=True
    ):
        q, k, v = randn(seed, *[(batch, heads, n, d) for n in (queries, keys, keys)])
        is_padding = torch.arange(keys) >= torch.tensor(lengths)[:, None]
        cases.append(Case((q, k, v, is_padding), gradients=True))
    q, k, v, is_padding = cases[0].args
    changed = v.clone()
    changed[0, :, 3:] += 7
    cases.append(
        Case(
            (q, k, changed, is_padding),
            note="values of padding changed",
            twin=Twin(
                0,
                lambda base, this: (base, this),
                "padding-leaks",
                "Padding leaks: when only the values of padding tokens change, the output changes "
                "too.",
            ),
        )
    )
    return cases


def attend_to_real_tokens(q, k, v, is_padding):
    """Attention that leaves padding out; is_padding (batch, keys) is True at padding."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~is_padding[:, None, None, :])


def _padded(mask_of, before=lambda q: q):
    return lambda q, k, v, p: F.scaled_dot_product_attention(
        before(q), k, v, attn_mask=mask_of(p[:, None, None, :])
    )


BUG = Exercise(
    name="attend_to_real_tokens",
    lesson=LESSON,
    title="find the bug: padding that speaks",
    cases=_real_tokens_cases,
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
        "scaled-twice": Variant(
            "The mask is right, but now you scale twice: F.scaled_dot_product_attention divides "
            "by √d_head itself.",
            _padded(lambda p: ~p, before=lambda q: q / math.sqrt(q.shape[-1])),
        ),
    },
)

EXERCISES = [SCORES, CAUSAL, PADDING, WEIGHTS, ATTENTION, CONVERT, MERGE, BUG]
QUESTIONS = [
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
                "one sixth, like everybody",
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
        "Somebody divides by d_k instead of √d_k. With d_k = 1024, what do the weights look like?",
        (
            Option(
                "nearly even: everybody gets about the same",
                "Yes. The scores' spread is 32 / 1024, next to nothing, and exp of next to nothing "
                "is 1 for all. It looks everywhere and so nowhere.",
                right=True,
            ),
            Option(
                "saturated: one key gets all",
                "That is too little division. This is too much: the spread is 32 / 1024.",
            ),
            Option(
                "the same, training makes up for it",
                "Training could in time grow q and k, but it starts from a far worse place.",
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
                "four times, four times",
                "Yes: (2T)² = 4T² scores to compute, and to keep.",
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
                "Right: an output is a mixture with positive shares that sum to one. It lies among "
                "the values.",
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
