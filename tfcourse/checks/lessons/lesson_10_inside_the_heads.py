"""Lesson 10: what trained heads look at, what they are good for, what the stream says."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tfcourse import inside
from tfcourse.checks.exercise import Case, Domain, Exercise, Finding, Variant, randn, unequal
from tfcourse.checks.judging import same
from tfcourse.checks.quiz import Item, Option

LESSON = "10_inside_the_heads"


def _maps(seed, batch, heads, queries, kind):
    """Maps of this kind, (batch, heads, queries, queries); causal ones, if it does not say."""
    [scores] = randn(seed, (batch, heads, queries, queries))
    hidden = torch.ones(queries, queries, dtype=torch.bool).triu(1)
    maps = torch.softmax((2 * scores).masked_fill(hidden, -math.inf), -1)
    if kind == "a head that is all there":
        maps[:, 0] = torch.eye(queries).roll(-1, 1) if queries > 1 else 1.0
        maps[:, 0, 0] = torch.eye(queries)[0]
        maps[:, 0, 1:] = torch.eye(queries)[:-1]
    if kind == "maps that look ahead too":
        maps = torch.softmax(2 * scores, -1)
    if kind == "maps with zeros":
        chosen = torch.Generator().manual_seed(seed)
        gone = (torch.rand(maps.shape, generator=chosen) < 0.4) & (maps < maps.amax(-1, True))
        maps = maps.masked_fill(gone, 0.0)
        maps = maps / maps.sum(-1, keepdim=True)
    if kind == "even maps":
        maps = (~hidden).float() / (~hidden).sum(-1, keepdim=True)
        maps = maps.expand(batch, heads, queries, queries).clone()
    return maps


MAPS = (
    "ordinary maps",
    "a head that is all there",
    "even maps",
    "maps that look ahead too",
    "maps with zeros",
)
SIZES = ("unequal sizes", "a batch of one", "one head", "as many heads as tokens")


def _sizes(kind, seed, low=3, high=7):
    batch, heads, tokens = unequal(seed, 3, low, high)
    batch = 1 if kind["sizes"] == "a batch of one" else batch
    heads = {"one head": 1, "as many heads as tokens": tokens}.get(kind["sizes"], heads)
    return batch, heads, tokens


# --- previous_token_score -------------------------------------------------------------------


def _make_previous(kind, seed):
    batch, heads, tokens = _sizes(kind, seed)
    tokens = {"two tokens": 2, "twelve tokens": 12}.get(kind["length"], tokens)
    return Case((_maps(seed, batch, heads, tokens, kind["maps"]),), gradients=False)


def previous_token_score(weights):
    """The mean weight on the token before, over the batch and all tokens that have one."""
    return weights.diagonal(-1, -2, -1).mean(dim=(0, 2))


def _diagonal(offset, count=None):
    """The mean of another diagonal; `count` divides by something else."""

    def answer(weights):
        along = weights.diagonal(offset, -2, -1)
        if count is None:
            return along.mean(dim=(0, 2))
        return along.sum(dim=(0, 2)) / weights.shape[0] / count(weights)

    return answer


PREVIOUS = Exercise(
    name="previous_token_score",
    lesson=LESSON,
    title="who looks at the token before?",
    domain=Domain(
        kinds={
            "maps": MAPS,
            "sizes": SIZES,
            "length": ("some tokens", "two tokens", "twelve tokens"),
        },
        make=_make_previous,
    ),
    witness=previous_token_score,
    reference=previous_token_score,
    axes=("heads",),
    hints=(
        "A row is a query, a column a key. Where in the square does the weight of token 3 on token "
        "2 stand, and that of token 4 on token 3?",
        "They stand below the main diagonal. `weights.diagonal(offset, dim1, dim2)` takes one out; "
        "which offset is it, and which two axes?",
        "`weights.diagonal(-1, -2, -1)` is (batch, heads, tokens − 1). The mean over the batch and "
        "over the tokens leaves (heads,).",
    ),
    variants={
        "itself": Variant(
            "You take the main diagonal: how much a token looks at itself.", _diagonal(0)
        ),
        "future": Variant(
            "You take the diagonal above the main one: the token behind. Causal maps hold zeros "
            "there. Rows are queries: the token before stands one column to the left.",
            _diagonal(1),
        ),
        "two-back": Variant(
            "You look two tokens back. The one before is one column to the left of the main "
            "diagonal.",
            lambda weights: (
                weights[:, :, 2:, :-2].diagonal(0, -2, -1).mean(dim=(0, 2))
                if weights.shape[-1] > 2
                else weights.new_zeros(weights.shape[1])
            ),
        ),
        "first-token": Variant(
            "You take the first column: how much the tokens look at the first one.",
            lambda weights: weights[:, :, 1:, 0].mean(dim=(0, 2)),
        ),
        "divided-by-all": Variant(
            "You divide by the number of all tokens. The first one has none before it and does not "
            "count: there is one less.",
            _diagonal(-1, lambda weights: weights.shape[-1]),
        ),
        "wraps-around": Variant(
            "The first token is in your mean, with index −1: that is the *last* key. It has no "
            "token before it and does not count.",
            lambda weights: (
                (weights.diagonal(-1, -2, -1).sum(dim=(0, 2)) + weights[:, :, 0, -1].sum(0))
                / weights.shape[0]
                / weights.shape[-1]
            ),
        ),
        "summed": Variant(
            "You give the sum over the tokens; it is their mean.",
            _diagonal(-1, lambda weights: 1),
        ),
        "not-over-the-batch": Variant(
            "You give a score for each text. Take the mean over the batch too: (heads,).",
            lambda weights: weights.diagonal(-1, -2, -1).mean(-1),
        ),
        "over-the-heads": Variant(
            "You take the mean over the heads. They are what we want to tell apart.",
            lambda weights: weights.diagonal(-1, -2, -1).mean(dim=(1, 2)),
        ),
        "largest": Variant(
            "You take the largest weight. It is the mean over all tokens that have one before.",
            lambda weights: weights.diagonal(-1, -2, -1).amax(dim=(0, 2)),
        ),
        "how-often": Variant(
            "You count how often the token before gets the *most*. It is how much it gets.",
            lambda weights: (
                (weights[:, :, 1:].argmax(-1) == torch.arange(weights.shape[-1] - 1))
                .to(weights.dtype)
                .mean(dim=(0, 2))
            ),
        ),
        "batch-and-heads": Variant(
            "Your diagonal runs through the batch and the heads. Queries and keys are the last two "
            "axes.",
            lambda weights: weights.diagonal(-1).mean((0, 1)),
        ),
    },
)


# --- induction_score ------------------------------------------------------------------------


def _make_induction(kind, seed):
    batch, heads, _ = _sizes(kind, seed)
    length = {"halves of 3": 3, "halves of 9": 9}.get(kind["length"], 4 + seed % 4)
    maps = _maps(seed, batch, heads, 2 * length, kind["maps"])
    if kind["maps"] == "a head that is all there":
        maps[:, 0] = 0
        for i in range(2 * length):
            maps[:, 0, i, i - length + 1 if i >= length else 0] = 1.0
        maps[:, 0, -1] = torch.eye(2 * length)[0]  # the last row does not count
    return Case((maps, length), gradients=False)


def induction_score(weights, length):
    """The mean weight of a repeated token on the one that followed it the first time."""
    return inside.induction_scores(weights, length)


def _along(offset, first=0, last=0):
    """The mean of a diagonal `offset(length)` below the main one, from `first` on."""

    def answer(weights, length):
        along = weights.diagonal(-offset(length), -2, -1)
        rows = torch.arange(weights.shape[-1])[weights.shape[-1] - along.shape[-1] :]
        keep = (rows >= length + first) & (rows < 2 * length - 1 + last)
        return along[..., keep].mean(dim=(0, 2))

    return answer


INDUCTION = Exercise(
    name="induction_score",
    lesson=LESSON,
    title="who looks at what came next the first time?",
    domain=Domain(
        kinds={
            "maps": MAPS,
            "sizes": SIZES,
            "length": ("some halves", "halves of 3", "halves of 9"),
        },
        make=_make_induction,
    ),
    witness=induction_score,
    reference=induction_score,
    axes=("heads",),
    hints=(
        "Write down a text: a b c a b c. The second b stands at 4, the first one at 1. What "
        "followed the first b, and where does it stand?",
        "From position length + i one looks at position i + 1. That is length − 1 columns to the "
        "left of the main diagonal, in every row.",
        "`weights.diagonal(1 - length, -2, -1)` begins in row length − 1, which still belongs to "
        "the first half, and ends in the last row, which does not count: leave both ends out.",
    ),
    variants={
        "the-same-token": Variant(
            "You look at the place where the same token stood before. An induction head looks one "
            "place further on: at what followed it.",
            _along(lambda length: length),
        ),
        "the-token-before": Variant(
            "You look at what stood *before* the token the first time. An induction head looks at "
            "what followed it.",
            _along(lambda length: length + 1, first=1),
        ),
        "first-half-too": Variant(
            "Your diagonal begins in the last row of the first half. Nothing has been repeated "
            "there yet: leave that row out.",
            _along(lambda length: length - 1, first=-1),
        ),
        "last-row-too": Variant(
            "The last row is in your mean. What followed its token the first time is the beginning "
            "of the second half: leave that row out.",
            _along(lambda length: length - 1, last=1),
        ),
        "first-repeat-missing": Variant(
            "You leave out the first token of the second half. It repeats the very first token of "
            "the text, so it counts.",
            _along(lambda length: length - 1, first=1),
        ),
        "divided-by-all": Variant(
            "You divide by the number of all tokens. Only those that are repeated count.",
            lambda weights, length: (
                induction_score(weights, length) * (length - 1) / weights.shape[-1]
            ),
        ),
        "summed": Variant(
            "You give the sum over the tokens; it is their mean.",
            lambda weights, length: induction_score(weights, length) * (length - 1),
        ),
        "not-over-the-batch": Variant(
            "You give a score for each text. Take the mean over the batch too: (heads,).",
            lambda weights, length: weights.diagonal(1 - length, -2, -1)[..., 1:-1].mean(-1),
        ),
        "over-the-heads": Variant(
            "You take the mean over the heads. They are what we want to tell apart.",
            lambda weights, length: weights.diagonal(1 - length, -2, -1)[..., 1:-1].mean((1, 2)),
        ),
        "future": Variant(
            "Your diagonal lies above the main one: keys that come later, and causal maps hold "
            "zeros there. Rows are queries.",
            lambda weights, length: weights.diagonal(length - 1, -2, -1).mean((0, 2)),
        ),
        "previous": Variant(
            "This is the weight on the token before. An induction head looks back by length − 1.",
            _along(lambda length: 1),
        ),
    },
)


# --- mean_ablate ----------------------------------------------------------------------------


def _make_ablate(kind, seed):
    batch, heads, tokens, d_head = unequal(seed, 4)
    batch = 1 if kind["sizes"] == "a batch of one" else batch
    heads = 1 if kind["sizes"] == "one head" else heads
    tokens = 1 if kind["sizes"] == "one token" else tokens
    [given] = randn(seed, (batch, heads, tokens, d_head))
    off = {
        "one head off": [seed % heads],
        "several heads off": sorted({seed % heads, (seed + 1) % heads}),
        "every other head off": list(range(seed % 2, heads, 2)) or [0],
        "the last and the first off": list(dict.fromkeys((heads - 1, 0))),
        "no head off": [],
        "all heads off": list(range(heads)),
    }[kind["off"]]
    return Case((given + 0.5, off), gradients=False)


def mean_ablate(heads, off):
    """Heads that are off give, at every place, what they give there on average."""
    mean = heads.mean(dim=0, keepdim=True).expand_as(heads)
    chosen = torch.zeros(heads.shape[1], dtype=torch.bool)
    chosen[off] = True
    return torch.where(chosen[:, None, None], mean, heads)


def _ablated(instead, off=lambda off, heads: off):
    def answer(heads, off_heads):
        chosen = torch.zeros(heads.shape[1], dtype=torch.bool)
        chosen[off(off_heads, heads)] = True
        return torch.where(chosen[:, None, None], instead(heads).expand_as(heads), heads)

    return answer


def _first_alone(off, heads):
    return off[:1]


ABLATE = Exercise(
    name="mean_ablate",
    lesson=LESSON,
    title="switch heads off",
    domain=Domain(
        kinds={
            "off": (
                "one head off",
                "several heads off",
                "every other head off",
                "the last and the first off",
                "no head off",
                "all heads off",
            ),
            "sizes": ("unequal sizes", "a batch of one", "one head", "one token"),
        },
        make=_make_ablate,
    ),
    witness=mean_ablate,
    reference=mean_ablate,
    axes=("batch", "heads", "tokens", "d_head"),
    hints=(
        "The mean over the texts is over the first axis. What shape has it, and does it fit into "
        "the place of a head?",
        "Make a copy first, with `clone()`: then what you put into the copy changes nothing that "
        "came in.",
        "`heads[:, head].mean(dim=0)` is (tokens, d_head), and is broadcast over the batch when it "
        "is put into `[:, head]` of the copy.",
    ),
    variants={
        "zeros": Variant(
            "You put zeros there. A head that gives something on average leaves a hole then: the "
            "layers behind have got used to it. Put its mean there.",
            _ablated(torch.zeros_like),
        ),
        "mean-over-tokens": Variant(
            "You take the mean over the tokens. It is over the texts of the batch: what the head "
            "gives at this *place*, whatever the text is.",
            _ablated(lambda heads: heads.mean(2, keepdim=True)),
        ),
        "mean-over-all": Variant(
            "You take the mean over texts and tokens. It is over the texts alone: every place "
            "keeps its own mean.",
            _ablated(lambda heads: heads.mean((0, 2), keepdim=True)),
        ),
        "mean-over-heads": Variant(
            "You put the mean of all heads there. It is the head's own mean over the texts.",
            _ablated(lambda heads: heads.mean(1, keepdim=True)),
        ),
        "one-number": Variant(
            "You put one single number there. The mean over the texts is a vector for every token.",
            _ablated(lambda heads: heads.mean((0, 2, 3), keepdim=True)),
        ),
        "the-others": Variant(
            "You switch off the others: the heads in `off` are the ones to be replaced.",
            _ablated(
                lambda heads: heads.mean(0, keepdim=True),
                lambda off, heads: [h for h in range(heads.shape[1]) if h not in off],
            ),
        ),
        "all": Variant(
            "All heads are replaced with you. Only those in `off` are.",
            _ablated(
                lambda heads: heads.mean(0, keepdim=True),
                lambda off, heads: list(range(heads.shape[1])),
            ),
        ),
        "first-alone": Variant(
            "Only the first of the heads in `off` is switched off. A `return` inside the loop?",
            _ablated(lambda heads: heads.mean(0, keepdim=True), _first_alone),
        ),
        "batch-for-head": Variant(
            "You index the first axis with the head's number. That is the batch: heads are the "
            "second axis.",
            lambda heads, off: _texts_replaced(heads, off),
        ),
        "mean-taken-away": Variant(
            "You take the mean away from the head, and what is special stays. It is the other way "
            "round: only the mean stays.",
            _ablated(lambda heads: heads - heads.mean(0, keepdim=True)),
        ),
    },
)


def _texts_replaced(heads, off):
    new = heads.clone()
    for head in off:
        new[head] = heads[head].mean(0)
    return new


# --- restored (find the bugs) ---------------------------------------------------------------


LOST = {  # what the corrupted run loses at a place: from, to
    "much is lost": (2.0, 4.0),
    "little is lost": (0.02, 0.1),
    "not lost everywhere": (-0.6, 1.4),
}


def _make_restored(kind, seed):
    batch, length = unequal(seed, 2, 3, 7)
    batch = 1 if kind["sizes"] == "one text" else batch
    length = 2 if kind["sizes"] == "halves of 2" else length
    chosen = torch.Generator().manual_seed(seed)
    shape, (least, most) = (batch, 2 * length - 1), LOST[kind["lost"]]
    low, high = 0.1 + 0.5 * torch.rand(shape, generator=chosen), torch.zeros(shape)
    while (high - low)[:, length:].mean() < abs(least) / 2:
        high = low + least + (most - least) * torch.rand(shape, generator=chosen)
    high[:, : length - 1], low[:, : length - 1] = 3.5, 3.2  # the first half cannot be known
    share = {
        "some of it": 0.3 + 0.1 * (seed % 5),
        "nothing": 0.0,
        "all of it": 1.0,
        "it gets worse": -0.4,
        "it gets much worse": -2.0,
        "better than the clean one": 1.4,
    }[kind["effect"]]
    each = share * torch.ones_like(low)
    if share not in (0.0, 1.0):
        each *= 0.5 + torch.rand(low.shape, generator=chosen)  # a share of its own at each place
    patched = high - each * (high - low)
    return Case((low, high, patched, length), gradients=False)


def restored(clean, corrupted, patched, length):
    """The share of the lost nats that the patch brings back, on the second half."""
    clean, corrupted, patched = (
        losses[:, length:].mean() for losses in (clean, corrupted, patched)
    )
    return (corrupted - patched) / (corrupted - clean)


def _restored(share, part=lambda losses, length: losses[:, length:].mean()):
    return lambda clean, corrupted, patched, length: share(
        *(part(losses, length) for losses in (clean, corrupted, patched))
    )


def _right_share(clean, corrupted, patched):
    return (corrupted - patched) / (corrupted - clean)


RESTORED = Exercise(
    name="restored",
    lesson=LESSON,
    title="find the bugs: what a patch brings back",
    domain=Domain(
        kinds={
            "effect": (
                "some of it",
                "nothing",
                "all of it",
                "it gets worse",
                "it gets much worse",
                "better than the clean one",
            ),
            "lost": tuple(LOST),
            "sizes": ("unequal sizes", "one text", "halves of 2"),
        },
        make=_make_restored,
    ),
    witness=restored,
    reference=restored,
    axes=(),
    smallest=0.1,
    hints=(
        "Put in two extreme cases. A patch that changes nothing: patched = corrupted. What should "
        "come out, and what does? A patch that repairs everything: patched = clean.",
        "Which places can be known at all? Row of losses: its entry i is the loss of token i + 1. "
        "The second half begins with token `length`, which nobody can know.",
        "Means over `losses[:, length:]`, then what came back over what was lost: "
        "(corrupted − patched) / (corrupted − clean).",
    ),
    variants={
        "as-given": Variant(
            "Both bugs are still there. The first half is in the means, though nobody can know it. "
            "And a patch that changes nothing gets another share than 0.",
            _restored(
                lambda clean, corrupted, patched: patched / corrupted,
                lambda losses, length: losses.mean(),
            ),
            to_do=True,
        ),
        "whole-text": Variant(
            "The share is right, but the means are over the whole text. Nobody can know the first "
            "half: only losses from `length` on count.",
            _restored(_right_share, lambda losses, length: losses.mean()),
        ),
        "one-place-too-early": Variant(
            "Your second half begins one place too early. Entry i is the loss of token i + 1, and "
            "that the text begins again nobody can know: losses from `length` on count.",
            _restored(_right_share, lambda losses, length: losses[:, length - 1 :].mean()),
        ),
        "one-place-too-late": Variant(
            "Your second half begins one place too late: losses from `length` on count.",
            _restored(
                _right_share,
                lambda losses, length: (
                    (losses[:, length + 1 :]).sum() / max(1, losses[:, length + 1 :].numel())
                ),
            ),
        ),
        "first-half": Variant(
            "You take the first half, which nobody can know.",
            _restored(_right_share, lambda losses, length: losses[:, : length - 1].mean()),
        ),
        "ratio": Variant(
            "The right places, but the ratio of two losses says nothing: a patch that changes "
            "nothing should get 0, one that repairs all should get 1.",
            _restored(lambda clean, corrupted, patched: patched / corrupted),
        ),
        "what-is-missing": Variant(
            "You give what is still missing. A patch that repairs all should get 1, and one that "
            "changes nothing 0.",
            _restored(lambda clean, corrupted, patched: (patched - clean) / (corrupted - clean)),
        ),
        "sign": Variant(
            "The sign is the wrong way round: a patch that helps makes the loss smaller, and gets "
            "a share above 0.",
            _restored(
                lambda clean, corrupted, patched: (patched - corrupted) / (corrupted - clean)
            ),
        ),
        "upside-down": Variant(
            "Your fraction stands on its head: what came back belongs on top, what was lost below.",
            _restored(
                lambda clean, corrupted, patched: (corrupted - clean) / (corrupted - patched)
            ),
        ),
        "by-corrupted": Variant(
            "You divide by the whole loss of the corrupted run. What could come back at all is "
            "corrupted − clean.",
            _restored(lambda clean, corrupted, patched: (corrupted - patched) / corrupted),
        ),
        "not-divided": Variant(
            "You give nats. Divide by what was lost, corrupted − clean: it is a share.",
            _restored(lambda clean, corrupted, patched: corrupted - patched),
        ),
        "cut-off": Variant(
            "You cut the share off at 0 or 1. A patch may do harm, and then it is below 0.",
            _restored(
                lambda clean, corrupted, patched: _right_share(clean, corrupted, patched).clamp(
                    0, 1
                )
            ),
        ),
        "mean-of-shares": Variant(
            "You take a share at every place, and then the mean of those. A place where hardly "
            "anything was lost then counts as much as the others: take the means first.",
            lambda clean, corrupted, patched, length: _right_share(clean, corrupted, patched)[
                :, length:
            ].mean(),
        ),
    },
)


# --- without_key ----------------------------------------------------------------------------


def _make_without(kind, seed):
    batch, heads, keys = _sizes(kind, seed)
    queries = {"one query": 1, "more queries than keys": keys + 2}.get(kind["queries"], keys)
    if kind["queries"] == "fewer queries than keys":
        queries = keys - 1
    [scores] = randn(seed, (batch, heads, queries, keys))
    weights = torch.softmax(1.5 * scores, -1)
    key = {"the first key": 0, "the last key": keys - 1}.get(kind["key"], 1 + seed % (keys - 2))
    if kind["numbers"] == "a weight of 0 there":
        weights[..., key] = 0
        weights = weights / weights.sum(-1, keepdim=True)
    if kind["numbers"] == "nearly all of the weight there":
        scores[..., key] += 5 + 7 * torch.rand(
            scores.shape[:-1], generator=torch.Generator().manual_seed(seed)
        )
        weights = torch.softmax(1.5 * scores, -1)
    if kind["numbers"] == "all of the weight there":
        weights[:, :, -1] = 0
        weights[:, :, -1, key] = 1
    return Case((weights, key), gradients=False)


def without_key(weights, key):
    """The weights if the key had been masked; zeros where nothing else was attended to."""
    kept = weights.clone()
    kept[..., key] = 0
    total = kept.sum(-1, keepdim=True)
    return torch.where(total > 0, kept / total.where(total > 0, 1.0), 0.0)


def _zeroed(weights, key):
    kept = weights.clone()
    kept[..., key] = 0
    return kept


WITHOUT = Exercise(
    name="without_key",
    lesson=LESSON,
    title="as if a token were not there",
    domain=Domain(
        kinds={
            "numbers": (
                "ordinary weights",
                "nearly all of the weight there",
                "a weight of 0 there",
                "all of the weight there",
            ),
            "key": ("a key in the middle", "the first key", "the last key"),
            "queries": (
                "as many queries as keys",
                "one query",
                "fewer queries than keys",
                "more queries than keys",
            ),
            "sizes": SIZES,
        },
        make=_make_without,
        edges=("all of the weight there",),
    ),
    witness=without_key,
    reference=without_key,
    axes=("batch", "heads", "queries", "keys"),
    hints=(
        "Mask before the softmax: that key's e^score falls out of the sum. What happens to the "
        "proportions of the others?",
        "They stay. So put 0 there, and divide each row by what is left of it.",
        "A row whose whole weight was there has nothing left: its sum is 0, and it must come out "
        "as zeros, not as NaN.",
    ),
    variants={
        "not-divided": Variant(
            "The key is gone, but the rows no longer sum to one. Masked before the softmax, the "
            "others would have shared its weight out.",
            _zeroed,
        ),
        "shared-evenly": Variant(
            "You share the free weight out evenly. The softmax shares it in proportion: what had "
            "more gets more.",
            lambda weights, key: _shared_evenly(weights, key),
        ),
        "softmax-again": Variant(
            "You take the softmax of weights. They have been through it: the rows come out far too "
            "even. Divide by the sum instead.",
            lambda weights, key: torch.softmax(
                weights.masked_fill(torch.arange(weights.shape[-1]) == key, -math.inf), -1
            ),
        ),
        "query": Variant(
            "You take out the *query*, a row. Keys are the last axis.",
            lambda weights, key: _row_zeroed(weights, key),
        ),
        "divided-by-the-weight": Variant(
            "You divide by the weight that was taken out. What is left of the row is one minus it.",
            lambda weights, key: _zeroed(weights, key) / weights[..., key, None],
        ),
        "the-key-alone": Variant(
            "You keep that key alone. It is the one to go.",
            lambda weights, key: (
                weights
                * (torch.arange(weights.shape[-1]) == key)
                / weights[..., key, None].where(weights[..., key, None] > 0, 1.0)
            ),
        ),
        "down-the-columns": Variant(
            "You divide by the sums of the columns. Each *row* has to sum to one.",
            lambda weights, key: (
                _zeroed(weights, key) / _zeroed(weights, key).sum(-2, keepdim=True).clamp(min=1e-30)
            ),
        ),
        "key-removed": Variant(
            "You cut the column out, so the others move up. It stays, with zeros in it.",
            lambda weights, key: (
                (kept := torch.cat([weights[..., :key], weights[..., key + 1 :]], -1))
                / kept.sum(-1, keepdim=True)
            ),
        ),
        "unchanged": Variant(
            "Nothing has changed: the key still has its weight.", lambda weights, key: weights
        ),
        "nan": Variant(
            "Right, but where all of the weight was on that key, you divide 0 by 0.",
            lambda weights, key: (
                _zeroed(weights, key) / _zeroed(weights, key).sum(-1, keepdim=True)
            ),
        ),
        "nudged": Variant(
            "You add a small number below against a division by 0. That changes all the other rows "
            "too.",
            lambda weights, key: (
                _zeroed(weights, key) / (_zeroed(weights, key).sum(-1, keepdim=True) + 1e-3)
            ),
        ),
    },
)


def _shared_evenly(weights, key):
    kept = weights + weights[..., key, None] / max(1, weights.shape[-1] - 1)
    return _zeroed(kept, key)


def _row_zeroed(weights, key):
    kept = weights.clone()
    if key < weights.shape[-2]:
        kept[..., key, :] = 0
    return kept


# --- logit_shares (graded) ------------------------------------------------------------------

EPS = 1e-5


def _make_shares(kind, seed):
    count, batch, tokens, d_model = unequal(seed, 4, 2, 7)
    d_model += 3
    count = {"one part": 1, "nine parts": 9}.get(kind["parts"], count)
    batch = 1 if kind["sizes"] == "one text" else batch
    tokens = {"one token": 1, "as many tokens as d_model": d_model}.get(kind["sizes"], tokens)
    parts, w, u = randn(seed, (count, batch, tokens, d_model), (d_model,), (d_model,))
    parts = {
        "ordinary numbers": parts,
        "parts about 5": parts + 5,
        "small numbers": 0.02 * parts,
        "a part of zeros": parts * (torch.arange(count) > 0)[:, None, None, None]
        if count > 1
        else parts,
    }[kind["numbers"]]
    w = 1 + 0.5 * w if kind["weight"] == "a weight of its own" else torch.ones(d_model)
    return Case((parts, w, u), gradients=False)


def shares_by_slope(parts, w, u):
    """The logit times the size of the stream is linear in the parts: shares are slopes."""
    given, (parts, w, u) = parts.dtype, (t.double() for t in (parts, w, u))
    with torch.enable_grad():
        amounts = torch.ones(parts.shape[:-1], dtype=torch.double, requires_grad=True)
        stream = (amounts[..., None] * parts).sum(0)
        size = (stream.var(-1, correction=0) + EPS).sqrt()
        linear = F.layer_norm(stream, [len(w)], w, eps=EPS) @ u * size
        [slopes] = torch.autograd.grad(linear.sum(), amounts)
    return (slopes / size.detach()).to(given)


def _shares_of(case):
    return case.args


def _by_its_own_std(case, right):
    parts, w, u = case.args
    centred = parts - parts.mean(-1, keepdim=True)
    std = (parts.var(-1, correction=0, keepdim=True) + EPS).sqrt()
    return (centred / std * w) @ u


def _not_centred(case, right):
    parts, w, u = case.args
    std = (parts.sum(0).var(-1, correction=0) + EPS).sqrt()
    return (parts * w) @ u / std


def _without_weight(case, right):
    parts, _, u = case.args
    std = (parts.sum(0).var(-1, correction=0) + EPS).sqrt()
    return (parts - parts.mean(-1, keepdim=True)) @ u / std


def _no_norm(case, right):
    parts, _, u = case.args
    return parts @ u


def _by_the_rms(case, right):
    parts, w, u = case.args
    return (parts * w) @ u / (parts.sum(0).square().mean(-1) + EPS).sqrt()


def _streams_mean(case, right):
    """The mean of the stream, shared by nobody: taken away from each part."""
    parts, w, u = case.args
    stream = parts.sum(0)
    std = (stream.var(-1, correction=0) + EPS).sqrt()
    return ((parts - stream.mean(-1, keepdim=True)) * w) @ u / std


def _unbiased(case, right):
    parts, w, u = case.args
    std = (parts.sum(0).var(-1) + EPS).sqrt()
    return ((parts - parts.mean(-1, keepdim=True)) * w) @ u / std


def _std_undivided(case, right):
    parts, w, u = case.args
    return ((parts - parts.mean(-1, keepdim=True)) * w) @ u


def _sums_wrong(cases, values, expected):
    """In proportion to the right shares, but with another sum."""
    if any(v.shape != e.shape for v, e in zip(values, expected, strict=True)):
        return None
    alike = []
    for v, e in zip(values, expected, strict=True):
        size = e.abs().amax(0, keepdim=True)
        scale = v.abs().amax(0, keepdim=True) / size.clamp(min=1e-9)
        alike.append(same(v, e * scale, 1e-4))
    if all(alike) and not all(same(v, e, 1e-4) for v, e in zip(values, expected, strict=True)):
        return Finding(
            "do-not-sum",
            "The proportions are right, but your shares do not sum to the logit. Try it: "
            "`shares.sum(0)` beside the norm of the whole stream, times `u`.",
        )
    return None


SHARES = Exercise(
    name="logit_shares",
    lesson=LESSON,
    title="who made this logit?",
    domain=Domain(
        kinds={
            "numbers": ("ordinary numbers", "parts about 5", "small numbers", "a part of zeros"),
            "parts": ("some parts", "one part", "nine parts"),
            "weight": ("a weight of its own", "a weight of ones"),
            "sizes": ("unequal sizes", "one text", "one token", "as many tokens as d_model"),
        },
        make=_make_shares,
    ),
    witness=shares_by_slope,
    axes=("parts", "batch", "tokens"),
    tolerance=5e-5,
    smallest=0.1,
    properties=(_sums_wrong,),
    hints=(
        "The stream is the sum of the parts. Write the norm of a sum down. Which of its steps can "
        "be done for each part alone, so that the results add up?",
        "Taking the mean away can: the mean of a sum is the sum of the means. Multiplying by w "
        "and the dot product with u can, too. Dividing by the standard deviation: by whose?",
        "By that of the whole stream, the same for all parts: `parts.sum(0)` has it.",
    ),
    variants={
        "own-std": Variant(
            "Each part is divided by its own standard deviation, as if it were normed alone. Then "
            "they do not sum to the logit: divide all by that of the whole stream.",
            spoil=_by_its_own_std,
        ),
        "not-centred": Variant(
            "The mean is not taken away. LayerNorm does that first, and it can be done part by "
            "part.",
            spoil=_not_centred,
        ),
        "streams-mean": Variant(
            "You take the mean of the whole stream away from *each* part: it is taken away as many "
            "times as there are parts. Take each part's own mean.",
            spoil=_streams_mean,
        ),
        "no-weight": Variant("The norm's weight w is not used.", spoil=_without_weight),
        "no-norm": Variant(
            "You leave the norm out: the head reads the stream *behind* its last norm.",
            spoil=_no_norm,
        ),
        "not-divided": Variant(
            "The standard deviation of the stream is missing.", spoil=_std_undivided
        ),
        "rms": Variant(
            "This is RMSNorm. The model here has a LayerNorm: it takes the mean away first.",
            spoil=_by_the_rms,
        ),
        "unbiased": Variant(
            "Your variance divides by d_model − 1. LayerNorm divides by d_model.",
            spoil=_unbiased,
        ),
        "whole-logit": Variant(
            "You give the logit itself. Give what each part adds to it.",
            spoil=lambda case, right: right.sum(0),
        ),
        "running-sum": Variant(
            "Each of your shares holds those before it: that is the logit lens. Give what each "
            "part adds.",
            spoil=lambda case, right: right.cumsum(0),
        ),
        "sizes": Variant(
            "You give sizes without a sign. A part may lower the logit.",
            spoil=lambda case, right: right.abs(),
        ),
    },
)


EXERCISES = [PREVIOUS, INDUCTION, ABLATE, RESTORED, SHARES, WITHOUT]
QUESTIONS = [
    Item(
        "10-halves",
        LESSON,
        "Random letters, and then the same ones again. Where can a model know what comes next?",
        (
            Option("nowhere: they are random", "The second time they are not: they stood there."),
            Option(
                "in the second half, if it looks back",
                "Yes: find where this letter stood before, and say what followed it.",
                right=True,
            ),
            Option(
                "everywhere, after enough training",
                "Every text has other letters. Nothing that is learned tells the first half.",
            ),
        ),
    ),
    Item(
        "10-one-layer",
        LESSON,
        "Can a model with one layer of attention do it?",
        (
            Option(
                "yes: the query looks for the same letter",
                "It finds the place where its letter stood. What it needs is the one behind it, "
                "and that key knows only itself.",
            ),
            Option(
                "no: a key would have to know which letter stands before it",
                "Yes. That has to be written there first, by a layer below.",
                right=True,
            ),
            Option(
                "no: one layer has too few parameters",
                "A wider one has more than the two layers, and did not learn it either.",
            ),
        ),
    ),
    Item(
        "10-ablate",
        LESSON,
        "You switch off the head of layer 0 that looks at the token before. What happens to the "
        "second half?",
        (
            Option(
                "little: layer 1 does the work",
                "Layer 1 looks for what layer 0 has written. Look at the loss.",
            ),
            Option(
                "it can no longer be known",
                "Yes: without “who stands before me” layer 1 copies from wrong places.",
                right=True,
            ),
            Option("it gets better", "Then training would have switched it off."),
        ),
    ),
    Item(
        "10-weight",
        LESSON,
        "A head puts 90% of its weight on one token. You take this token away from it. What does "
        "the model say then?",
        (
            Option(
                "something quite different",
                "Sometimes. Look at how often, below.",
            ),
            Option(
                "it depends: on what the token hands over, and on who else knows",
                "Yes. A weight says where is read, not what is found there.",
                right=True,
            ),
            Option(
                "nothing changes, attention explains nothing",
                "Where a head reads something that nobody else has, it does change.",
            ),
        ),
    ),
    Item(
        "10-quiz-circuit",
        LESSON,
        "You swap the two layers of the trained model, with all their weights. Does it still know "
        "the second half?",
        (
            Option(
                "yes: the same heads are still there",
                "They are, but in the other order, and each reads what stands in the stream so "
                "far.",
            ),
            Option(
                "no: the head that compares comes before the one that it needs",
                "Yes: it looks for “the one before me is …”, and nobody has written that yet.",
                right=True,
            ),
            Option(
                "yes, but with half of the score",
                "Half a circuit is none: what is not written cannot be looked for.",
            ),
        ),
    ),
    Item(
        "10-quiz-zero",
        LESSON,
        "Why replace a head by its mean, and not by zero?",
        (
            Option(
                "zeros raise an error",
                "They do not. Something else goes wrong.",
            ),
            Option(
                "layers behind count on what it gives on average",
                "Yes. With zeros one also measures how surprised they are by the hole.",
                right=True,
            ),
            Option(
                "the mean keeps what the head knows about this text",
                "It must not: that is what is to be taken away.",
            ),
        ),
    ),
    Item(
        "10-quiz-lens",
        LESSON,
        "Three blocks, 0 to 2. The logit lens after block 1 says “e”, and so does the model in the "
        "end. So?",
        (
            Option(
                "block 2 does nothing",
                "It may do a lot at other places, and it may raise the probability here.",
            ),
            Option(
                "at this place the stream could have been read out earlier",
                "Yes, with the last norm and the head. No more than that has been measured.",
                right=True,
            ),
            Option(
                "block 1 alone has found the answer",
                "Embedding and block 0 have written into the same stream.",
            ),
        ),
    ),
]
