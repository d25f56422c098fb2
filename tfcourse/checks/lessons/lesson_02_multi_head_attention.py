"""Lesson 02: several heads, other sequences, shared keys."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tfcourse import attention
from tfcourse.checks.exercise import Case, Exercise, Twin, Variant, randn
from tfcourse.checks.quiz import Item, Option

LESSON = "02_multi_head_attention"


# --- split_heads, merge_heads ---------------------------------------------------------------


def _split_cases() -> list[Case]:
    cases = []
    for seed, batch, tokens, heads, d_head in ((0, 2, 5, 3, 4), (1, 3, 4, 2, 7), (2, 1, 6, 1, 5)):
        (x,) = randn(seed, (batch, tokens, heads * d_head))
        cases.append(Case((x, heads), gradients=seed == 0))
    return cases


def _four(x, n_heads):
    return x.reshape(*x.shape[:2], n_heads, -1)


SPLIT = Exercise(
    name="split_heads",
    lesson=LESSON,
    title="split heads",
    cases=_split_cases,
    witness=attention.split_heads,
    reference=attention.split_heads,
    axes=("batch", "heads", "tokens", "d_head"),
    hints=(
        "One token of d_model = 12 numbers, three heads: which four numbers belong to head 0?",
        "Cutting the last axis in two, d_model into (heads, d_head), moves no number. It gives "
        "(batch, tokens, heads, d_head).",
        "Two axes now stand in the wrong order. Changing their order is `transpose`; `view` and "
        "`reshape` never change the order of the numbers.",
    ),
    variants={
        "reshaped": Variant(
            "The shape is right, the content is not: you went to (batch, heads, tokens, d_head) "
            "by reshape alone, so that a head holds pieces of several tokens. Reshape never "
            "changes the order of the numbers.",
            lambda x, n: x.reshape(x.shape[0], n, x.shape[1], -1),
        ),
        "interleaved": Variant(
            "Your heads take every n-th number (0, 3, 6, …). Head 0 is the first d_head numbers, "
            "then comes head 1: the heads' axis stands before d_head when the last axis is cut.",
            lambda x, n: x.reshape(*x.shape[:2], -1, n).permute(0, 3, 1, 2),
        ),
        "not-transposed": Variant(
            "The cut is right, the order of the axes is (batch, tokens, heads, d_head). Attention "
            "works on the last two axes, so the heads must stand before the tokens.",
            _four,
        ),
        "head-first": Variant(
            "Your heads stand in front of the batch. They belong behind it.",
            lambda x, n: _four(x, n).permute(2, 0, 1, 3),
        ),
        "transposed-too-far": Variant(
            "Your last two axes are (d_head, tokens): swap tokens and heads only.",
            lambda x, n: _four(x, n).permute(0, 2, 3, 1),
        ),
        "list": Variant(
            "These are the right pieces as a list. Stacked into one tensor, all heads are "
            "attended in one go.",
            lambda x, n: list(_four(x, n).transpose(1, 2).unbind(1)),
        ),
        "stacked-last": Variant(
            "The pieces are right, the heads' axis stands last.",
            lambda x, n: _four(x, n).permute(0, 1, 3, 2),
        ),
        "reversed": Variant(
            "The heads come out in the reverse order.",
            lambda x, n: _four(x, n).transpose(1, 2).flip(1),
        ),
    },
)


def _merge_cases() -> list[Case]:
    cases = []
    for seed, shape in ((0, (2, 3, 5, 4)), (1, (3, 2, 4, 7)), (2, (1, 1, 6, 5))):
        (x,) = randn(seed, shape)
        cases.append(Case((x,), gradients=seed == 0))
    return cases


MERGE = Exercise(
    name="merge_heads",
    lesson=LESSON,
    title="merge heads",
    cases=_merge_cases,
    witness=attention.merge_heads,
    reference=attention.merge_heads,
    axes=("batch", "tokens", "d_model"),
    hints=(
        "It is the way back: split_heads did two things. In which order must they be undone?",
        "First the tokens stand before the heads again, then (heads, d_head) becomes one axis.",
        "After a transpose the numbers lie in another order in memory, and `view` refuses. "
        "`reshape` copies where it has to.",
    ),
    variants={
        "reshaped": Variant(
            "The shape is right, the content is not: you reshaped without putting the tokens back "
            "in front of the heads, so that one row holds the pieces of several tokens.",
            lambda x: x.reshape(x.shape[0], x.shape[2], -1),
        ),
        "interleaved": Variant(
            "Each row alternates between the heads: the axes became (tokens, d_head, heads). The "
            "numbers of a head stay together.",
            lambda x: x.permute(0, 2, 3, 1).reshape(x.shape[0], x.shape[2], -1),
        ),
        "averaged": Variant(
            "You take the mean over the heads. They are put side by side: what each of them found "
            "stays apart until the output projection mixes it.",
            lambda x: x.mean(1),
        ),
        "summed": Variant(
            "You add the heads up. They are put side by side; the output projection mixes them.",
            lambda x: x.sum(1),
        ),
        "tokens-and-heads": Variant(
            "You merged the wrong axes: one row for each token of each head. The heads join "
            "d_head, not the tokens.",
            lambda x: x.reshape(x.shape[0], -1, x.shape[-1]),
        ),
        "not-merged": Variant(
            "The order (batch, tokens, heads, d_head) is right; the last two axes are still to be "
            "joined.",
            lambda x: x.transpose(1, 2),
        ),
        "reversed": Variant(
            "The heads come out in the reverse order.",
            lambda x: x.flip(1).transpose(1, 2).reshape(x.shape[0], x.shape[2], -1),
        ),
        "first-head": Variant(
            "Only the first head is there, the others are gone.",
            lambda x: x[:, 0],
        ),
    },
)


# --- MultiHeadAttention ---------------------------------------------------------------------


def _module_cases() -> list[Case]:
    cases = []
    for seed, batch, tokens, heads, d_head in ((0, 2, 5, 3, 4), (1, 3, 4, 2, 5)):
        d = heads * d_head
        x, qkv, qkv_bias, out, out_bias = randn(
            seed, (batch, tokens, d), (3 * d, d), (3 * d,), (d, d), (d,)
        )
        weights = {
            "qkv.weight": qkv / math.sqrt(d) * 2,
            "qkv.bias": qkv_bias / 4,
            "out.weight": out / math.sqrt(d),
            "out.bias": out_bias / 4,
        }
        common = {"build": {"d_model": d, "n_heads": heads}, "weights": weights}
        cases.append(Case((x,), **common, gradients=True, note="no mask"))
        mask = attention.causal_mask(tokens)
        masked = {"kwargs": {"mask": mask}, **common}
        cases.append(Case((x,), **masked, gradients=True, note="causal mask"))
        changed = x.clone()
        changed[:, -1] += 3
        cases.append(
            Case(
                (changed,),
                **masked,
                note="causal mask, last token changed",
                twin=Twin(
                    len(cases) - 1,
                    lambda base, this: (base[:, :-1], this[:, :-1]),
                    "future-leaks",
                    "The future leaks: when the last token changes, the outputs before it change "
                    "too, although the causal mask forbids it. Is the mask passed on?",
                ),
            )
        )
        cases.append(
            Case(
                (x[:1],),
                **common,
                note="the first sequence alone",
                twin=Twin(
                    len(cases) - 3,
                    lambda base, this: (base[:1], this),
                    "batch-mixes",
                    "The sequences of a batch see each other: alone, the first one gives another "
                    "output than in company. Is the batch's axis first everywhere?",
                ),
            )
        )
    padding = attention.padding_mask(torch.tensor([4, 2, 3]), tokens)
    with_padding = {"kwargs": {"mask": padding}, **common}
    cases.append(Case((x,), **with_padding, note="padding mask"))
    return cases


class _Parts(attention.MultiHeadAttention):
    """Multi-head attention written out, each step a method that a wrong variant replaces."""

    def forward(self, x, mask=None):
        q, k, v = (self.split(t) for t in self.parts(x))
        return self.project(self.merge(self.attend(q, k, v, mask)))

    def parts(self, x):
        return self.qkv(x).chunk(3, dim=-1)

    def split(self, x):
        return attention.split_heads(x, self.n_heads)

    def attend(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def merge(self, x):
        return attention.merge_heads(x)

    def project(self, x):
        return self.out(x)


def _with(**methods):
    return type("MultiHeadAttention", (_Parts,), methods)


def _weighted(scale, dim=-1):
    def attend(self, q, k, v, mask):
        scores = q @ k.mT * scale(self, q)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return torch.softmax(scores, dim).nan_to_num(0.0) @ v

    return attend


MODULE = Exercise(
    name="MultiHeadAttention",
    lesson=LESSON,
    title="multi-head attention",
    cases=_module_cases,
    witness=attention.MultiHeadAttention,
    reference=attention.MultiHeadAttention,
    axes=("batch", "tokens", "d_model"),
    hints=(
        "Four steps: project to q, k and v; split each into heads; attend; merge and project. You "
        "have a function for each of them.",
        "`self.qkv(x)` holds q, k and v side by side, each d_model wide: `chunk(3, dim=-1)` cuts "
        "it. `split_heads` needs the number of heads: keep it in __init__.",
        "The attention works on (batch, heads, tokens, d_head) and takes the mask. Last comes "
        "`self.out`, on what `merge_heads` gives.",
    ),
    variants={
        "split-by-reshape": Variant(
            "Your heads are cut by reshape alone: each holds pieces of several tokens.",
            _with(split=lambda self, x: x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)),
        ),
        "merged-without-transpose": Variant(
            "Your heads are merged without putting the tokens back in front: the output has the "
            "right shape and scrambled rows.",
            _with(merge=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        "no-output-projection": Variant(
            "The output projection is missing: the heads stand side by side and are never mixed.",
            _with(project=lambda self, x: x),
        ),
        "no-scale": Variant(
            "The scores are not divided by √d_head.",
            _with(attend=_weighted(lambda self, q: 1.0)),
        ),
        "scale-by-d-model": Variant(
            "You divide by √d_model. Each head works on d_head numbers: √d_head.",
            _with(attend=_weighted(lambda self, q: (self.n_heads * q.shape[-1]) ** -0.5)),
        ),
        "softmax-over-queries": Variant(
            "The softmax goes over the queries instead of the keys.",
            _with(attend=_weighted(lambda self, q: q.shape[-1] ** -0.5, dim=-2)),
        ),
        "mask-ignored": Variant(
            "The mask changes nothing: it is not passed on to the attention.",
            _with(attend=lambda self, q, k, v, m: F.scaled_dot_product_attention(q, k, v)),
        ),
        "always-causal": Variant(
            "Your attention is causal even when no mask is given. Who wants that passes the mask.",
            _with(
                attend=lambda self, q, k, v, m: F.scaled_dot_product_attention(
                    q, k, v, is_causal=m is None, attn_mask=m
                )
            ),
        ),
        "q-k-swapped": Variant(
            "Queries and keys are swapped: the first third of qkv is q, the second k.",
            _with(attend=lambda self, q, k, v, m: _Parts.attend(self, k, q, v, m)),
        ),
        "order-of-qkv": Variant(
            "The thirds of qkv are taken in the wrong order: q, k, v it is.",
            _with(parts=lambda self, x: tuple(self.qkv(x).chunk(3, dim=-1))[::-1]),
        ),
        "one-head": Variant(
            "There is one head over all of d_model: the split into heads is missing.",
            _with(
                split=lambda self, x: x[:, None],
                merge=lambda self, x: x[:, 0],
            ),
        ),
    },
)


# --- cross_attention ------------------------------------------------------------------------


def _cross_cases() -> list[Case]:
    cases = []
    for seed, batch, queries, keys, heads, d_head, d_context in (
        (0, 2, 4, 6, 3, 4, 5),
        (1, 3, 5, 2, 2, 5, 7),
    ):
        d = heads * d_head
        x, context, w_q, w_k, w_v, w_o = randn(
            seed,
            (batch, queries, d),
            (batch, keys, d_context),
            *((d, d), (d_context, d), (d_context, d), (d, d)),
        )
        w = (w_q / d**0.5, w_k / d_context**0.5, w_v / d_context**0.5, w_o / d**0.5)
        cases.append(Case((x, context, *w, heads), gradients=True, note="no mask"))
        lengths = torch.arange(1, batch + 1).clamp(max=keys)
        mask = attention.padding_mask(lengths, keys)
        cases.append(Case((x, context, *w, heads, mask), note="padding mask of the context"))
    return cases


def cross_attention(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    """Queries from x, keys and values from context; x (batch, queries, d_model)."""
    q = attention.split_heads(x @ w_q, n_heads)
    k = attention.split_heads(context @ w_k, n_heads)
    v = attention.split_heads(context @ w_v, n_heads)
    return attention.merge_heads(attention.scaled_dot_product_attention(q, k, v, mask)) @ w_o


def _cross(attend=attention.scaled_dot_product_attention, project=True, merge=None, heads=None):
    def answer(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
        n = heads or n_heads
        q, k, v = (attention.split_heads(t, n) for t in (x @ w_q, context @ w_k, context @ w_v))
        out = (merge or attention.merge_heads)(attend(q, k, v, mask))
        return out @ w_o if project else out

    return answer


def _scaled_by(scale):
    def attend(q, k, v, mask=None):
        scores = q @ k.mT * scale(q)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return torch.softmax(scores, -1) @ v

    return attend


CROSS = Exercise(
    name="cross_attention",
    lesson=LESSON,
    title="cross-attention",
    cases=_cross_cases,
    witness=cross_attention,
    reference=cross_attention,
    axes=("batch", "queries", "d_model"),
    hints=(
        "Who asks? Who offers keys and values? Only one line differs from self-attention in what "
        "it is given.",
        "x and context have different lengths and different widths: w_q fits one of them, w_k and "
        "w_v fit the other.",
        "Split all three into heads, attend with the mask (it is about the keys, so about the "
        "context), merge, and multiply with w_o.",
    ),
    variants={
        "no-output-projection": Variant(
            "The output projection w_o is missing.", _cross(project=False)
        ),
        "mask-ignored": Variant(
            "The mask changes nothing: the padding of the context is attended.",
            _cross(attend=lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v)),
        ),
        "mask-inverted": Variant(
            "You read the mask the wrong way round: True = may attend.",
            _cross(
                attend=lambda q, k, v, m: F.scaled_dot_product_attention(
                    q, k, v, attn_mask=None if m is None else ~m
                )
            ),
        ),
        "no-scale": Variant("The scores are not scaled.", _cross(attend=_scaled_by(lambda q: 1.0))),
        "scale-by-d-model": Variant(
            "You divide by √d_model instead of √d_head.",
            _cross(attend=_scaled_by(lambda q: (q.shape[1] * q.shape[-1]) ** -0.5)),
        ),
        "one-head": Variant(
            "There is one head over all of d_model: the split into heads is missing.",
            _cross(heads=1),
        ),
        "causal": Variant(
            "Your cross-attention is causal. Position 2 of x and position 2 of the context have "
            "nothing to do with each other: all of the context is there from the start.",
            _cross(
                attend=lambda q, k, v, m: F.scaled_dot_product_attention(
                    *(q, k, v),
                    attn_mask=torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
                    & (True if m is None else m),
                )
            ),
        ),
        "merged-without-transpose": Variant(
            "Your heads are merged without putting the tokens back in front.",
            _cross(merge=lambda x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        "values-from-keys": Variant(
            "Your values are the keys: w_v is not used.",
            _cross(attend=lambda q, k, v, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m)),
        ),
    },
)


# --- grouped_query_attention ----------------------------------------------------------------


def _grouped_cases() -> list[Case]:
    cases = []
    for seed, batch, heads, kv_heads, queries, keys, d in (
        (0, 2, 6, 2, 4, 5, 7),
        (1, 3, 4, 1, 5, 3, 6),
        (2, 1, 6, 3, 2, 4, 5),
        (3, 2, 3, 3, 4, 6, 5),
    ):
        q, k, v = randn(
            seed, (batch, heads, queries, d), (batch, kv_heads, keys, d), (batch, kv_heads, keys, d)
        )
        mask = torch.arange(keys) <= torch.arange(queries)[:, None] + 1
        note = f"{heads} query heads, {kv_heads} of keys and values"
        cases.append(Case((q, k, v), gradients=True, note=note))
        cases.append(Case((q, k, v, mask), note=note + ", with a mask"))
    return cases


def grouped_query_attention(q, k, v, mask=None):
    """Attention in which several query heads share one head of keys and values."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def _grouped(spread, attend=None):
    def answer(q, k, v, mask=None):
        group = q.shape[1] // k.shape[1]
        k, v = spread(k, group), spread(v, group)
        if attend:
            return attend(q, k, v, mask)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return answer


def _repeated(t, group):
    return t.repeat_interleave(group, dim=1)


GROUPED = Exercise(
    name="grouped_query_attention",
    lesson=LESSON,
    title="grouped-query attention",
    cases=_grouped_cases,
    witness=grouped_query_attention,
    reference=grouped_query_attention,
    axes=("batch", "heads", "queries", "d_head"),
    hints=(
        "Six query heads, two heads of keys: heads 0, 1, 2 share the first, heads 3, 4, 5 the "
        "second. How many share one, in general?",
        "Make k and v as many heads as q has, then it is the attention that you know. Two ways of "
        "repeating differ in the order: A A A B B B or A B A B A B.",
        "Look up `repeat` and `repeat_interleave` (or `expand` on a new axis, then `flatten`). "
        "Which of them puts the copies of one head side by side?",
    ),
    variants={
        "wrong-order": Variant(
            "Your heads are repeated as A B A B; neighbours must share: A A B B. (With a single "
            "head of keys nobody would notice.)",
            _grouped(lambda t, group: t.repeat(1, group, 1, 1)),
        ),
        "first-head": Variant(
            "All query heads use the first head of keys and values; the others are never read.",
            _grouped(lambda t, group: t[:, :1].expand(-1, group * t.shape[1], -1, -1)),
        ),
        "heads-averaged": Variant(
            "You average the heads of keys and values over all groups: what the groups could tell "
            "apart is gone.",
            _grouped(
                lambda t, group: t.mean(1, keepdim=True).expand(-1, group * t.shape[1], -1, -1)
            ),
        ),
        "queries-averaged": Variant(
            "You average the queries of a group: the heads that share keys must still ask "
            "different questions.",
            lambda q, k, v, mask=None: F.scaled_dot_product_attention(
                q.reshape(q.shape[0], k.shape[1], -1, *q.shape[2:]).mean(2), k, v, attn_mask=mask
            ),
        ),
        "mask-ignored": Variant(
            "The mask changes nothing: it is not passed on.",
            _grouped(_repeated, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v)),
        ),
        "mask-inverted": Variant(
            "You read the mask the wrong way round: True = may attend.",
            _grouped(
                _repeated,
                lambda q, k, v, m: F.scaled_dot_product_attention(
                    q, k, v, attn_mask=None if m is None else ~m
                ),
            ),
        ),
        "no-scale": Variant(
            "The scores are not divided by √d_head.",
            _grouped(_repeated, _scaled_by(lambda q: 1.0)),
        ),
        "keys-only": Variant(
            "The keys are shared as they should be, but the values are repeated in another order: "
            "a head must use the values that belong to its keys.",
            lambda q, k, v, mask=None: F.scaled_dot_product_attention(
                q,
                _repeated(k, q.shape[1] // k.shape[1]),
                v.repeat(1, q.shape[1] // k.shape[1], 1, 1),
                attn_mask=mask,
            ),
        ),
    },
)


# --- head_contributions (graded) ------------------------------------------------------------


def _contribution_cases() -> list[Case]:
    cases = []
    for seed, batch, heads, tokens, d_head, d_out in ((0, 2, 3, 5, 4, 7), (1, 3, 2, 4, 6, 12)):
        x, w = randn(seed, (batch, heads, tokens, d_head), (d_out, heads * d_head))
        cases.append(Case((x, w / (heads * d_head) ** 0.5), gradients=True))
    return cases


def _alone(heads, w_o):
    """Projects with all heads but one put to zero, once for each head."""
    each = []
    for i in range(heads.shape[1]):
        only = torch.zeros_like(heads)
        only = only.index_copy(1, torch.tensor([i]), heads[:, i : i + 1])
        each.append(F.linear(attention.merge_heads(only), w_o))
    return torch.stack(each, dim=1)


CONTRIBUTIONS = Exercise(
    name="head_contributions",
    lesson=LESSON,
    title="what each head adds (graded)",
    cases=_contribution_cases,
    witness=_alone,
    axes=("batch", "heads", "tokens", "d_model"),
    hints=(
        "Merging puts the heads side by side, then one matrix multiplies the long row. Which of "
        "the matrix's columns does head 0 meet?",
        "nn.Linear's weight has shape (d_out, d_in): its columns belong to the inputs. Cut the "
        "columns into as many pieces as there are heads.",
        "Head by head: (tokens, d_head) times its piece's transpose. A loop and torch.stack will "
        "do; one einsum does it for all heads.",
    ),
    variants={
        "summed": Variant(
            "You give the sum over the heads: that is the output itself. Keep the heads apart.",
            spoil=lambda case, right: right.sum(1),
        ),
        "divided": Variant(
            "You divide by the number of heads. The output is the sum of what the heads add, not "
            "their mean.",
            spoil=lambda case, right: right / right.shape[1],
        ),
        "same-piece": Variant(
            "Every head uses the first piece of the weight. Head 1 meets the columns d_head to "
            "2·d_head.",
            lambda heads, w: _alone(heads, w.chunk(heads.shape[1], 1)[0].repeat(1, heads.shape[1])),
        ),
        "interleaved": Variant(
            "Your heads take every n-th column. Merging keeps the numbers of a head together, so "
            "its columns stand together too.",
            lambda heads, w: _alone(heads, w.unflatten(1, (-1, heads.shape[1])).mT.flatten(1)),
        ),
        "reversed": Variant(
            "The heads meet the pieces of the weight in the reverse order.",
            lambda heads, w: _alone(heads, torch.cat(w.chunk(heads.shape[1], 1)[::-1], 1)),
        ),
        "heads-last": Variant(
            "The numbers are right, the axes are (batch, tokens, heads, d_model): the heads come "
            "second, as everywhere.",
            spoil=lambda case, right: right.transpose(1, 2),
        ),
        "left-out": Variant(
            "This is the output without the head, the rest of the sum. Asked for is what the head "
            "itself adds.",
            spoil=lambda case, right: right.sum(1, keepdim=True) - right,
        ),
        "batch-and-heads-swapped": Variant(
            "The numbers are right, the heads stand in front of the batch.",
            spoil=lambda case, right: right.transpose(0, 1),
        ),
    },
)


# --- find the bug ---------------------------------------------------------------------------


def _bug_cases() -> list[Case]:
    cases = []
    for seed, batch, tokens, heads, d_head in ((0, 2, 5, 3, 4), (1, 3, 4, 2, 6), (2, 1, 3, 2, 5)):
        q, k, v = randn(seed, *[(batch, heads, tokens, d_head)] * 3)
        mask = attention.causal_mask(tokens)[None, None]
        cases.append(Case((q, k, v, mask), gradients=True, note="causal mask (1, 1, T, T)"))
    q, k, v, mask = cases[0].args
    cases.append(
        Case(
            (q[:1], k[:1], v[:1], mask),
            note="the first sequence alone",
            twin=Twin(
                0,
                lambda base, this: (base[:1], this),
                "batch-mixes",
                "The sequences of a batch see each other: alone, the first one gives another "
                "output than in company.",
            ),
        )
    )
    return cases


def masked_heads(q, k, v, mask):
    """All heads, merged: (batch, heads, tokens, d_head) -> (batch, tokens, d_model)."""
    return attention.merge_heads(attention.scaled_dot_product_attention(q, k, v, mask))


def _masked_heads(mask_of=lambda m: m, merge=attention.merge_heads, fill=-math.inf, scale=True):
    def answer(q, k, v, mask):
        scores = q @ k.mT / (math.sqrt(q.shape[-1]) if scale else 1.0)
        weights = torch.softmax(scores.masked_fill(~mask_of(mask), fill), -1)
        return merge(weights @ v)

    return answer


def _merge_any(x):
    """Transpose and reshape as the given code does, whatever the number of axes."""
    batch, tokens = x.shape[-4], x.shape[-2]
    return x.transpose(1, 2).reshape(batch, tokens, -1)


BUG = Exercise(
    name="masked_heads",
    lesson=LESSON,
    title="find the bug: scrambled heads",
    cases=_bug_cases,
    witness=masked_heads,
    reference=masked_heads,
    axes=("batch", "tokens", "d_model"),
    hints=(
        "The output's shape is right, so look at the shapes before it: print that of `scores` "
        "after the mask has been applied.",
        "Five axes where four should be. Who brought the fifth one in?",
        "The mask comes as (1, 1, tokens, tokens), which already fits scores of four axes: it "
        "needs no further axis.",
    ),
    variants={
        "as given": Variant(
            "The bug is still in: attention done head by head gives other numbers than this.",
            _masked_heads(lambda m: m.unsqueeze(1), _merge_any),
            to_do=True,
        ),
        "mask-ignored": Variant(
            "Without the mask the scrambling is gone, but now every token sees the future.",
            _masked_heads(lambda m: torch.ones_like(m)),
        ),
        "mask-inverted": Variant(
            "The mask is the wrong way round now: True = may attend.",
            _masked_heads(lambda m: ~m, fill=-1e9),
        ),
        "merged-by-reshape": Variant(
            "The mask is right now, but the heads are merged without putting the tokens in front.",
            _masked_heads(merge=lambda x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        "no-scale": Variant(
            "The mask is right now, but the division by √d_head is gone.",
            _masked_heads(scale=False),
        ),
        "masked-with-zero": Variant(
            "Forbidden scores are 0 now: exp(0) = 1 keeps its share.",
            _masked_heads(fill=0.0),
        ),
        "mask-transposed": Variant(
            "Your mask is transposed: each token sees itself and the future.",
            _masked_heads(lambda m: m.mT),
        ),
        "not-merged": Variant(
            "The heads are right; they are not merged into (batch, tokens, d_model).",
            _masked_heads(merge=lambda x: x),
        ),
    },
)

EXERCISES = [SPLIT, MERGE, MODULE, CROSS, GROUPED, CONTRIBUTIONS, BUG]
QUESTIONS = [
    Item(
        "02-compromise",
        LESSON,
        "One head, one query: how much can token 5 receive of the facts in token 2 and token 8?",
        (
            Option(
                "all of both: it asks for both",
                "The shares of one softmax sum to one. All of both would be two.",
            ),
            Option(
                "at most half of each, if it wants both alike",
                "Yes. What goes to the one is lost to the other.",
                right=True,
            ),
            Option(
                "90% of each, with a longer query",
                "A longer query makes the rest smaller, but the two still share one whole.",
            ),
        ),
    ),
    Item(
        "02-parameters",
        LESSON,
        "d_model = 512. Going from 1 head to 16, how do the parameters of multi-head attention "
        "change?",
        (
            Option("× 16", "It would be so if each head had d_model numbers. It has d_model / 16."),
            Option(
                "not at all",
                "Yes. The same four matrices are cut finer: 16 pieces of 32 columns are 512 "
                "columns.",
                right=True,
            ),
            Option("÷ 16", "Each head is smaller, but there are 16 of them."),
        ),
    ),
    Item(
        "02-batch-first",
        LESSON,
        "`nn.MultiheadAttention(48, 6)` is given a tensor (batch, tokens, d_model) = (2, 10, 48). "
        "What happens?",
        (
            Option("an error", "Three axes, the last one 48: it sees nothing wrong."),
            Option(
                "it takes it for 2 tokens in a batch of 10",
                "Yes, and lets the two sequences attend to each other, at each position.",
                right=True,
            ),
            Option("it works", "Only with `batch_first=True`. The default is tokens first."),
        ),
    ),
    Item(
        "02-cache",
        LESSON,
        "32 layers, 32 heads of keys and values, d_head 128, 2 bytes, 8192 tokens: how large is "
        "the cache?",
        (
            Option(
                "64 MiB",
                "That is about one layer's keys: 32 · 128 · 8192 · 2 bytes. There are 32 layers, "
                "and values too.",
            ),
            Option(
                "2 GiB",
                "Half of it: both keys and values have to be kept.",
            ),
            Option(
                "4 GiB",
                "Yes: 2 · 32 · 32 · 128 · 8192 · 2 bytes, for a single conversation. The model's "
                "weights are 16 GB.",
                right=True,
            ),
        ),
    ),
    Item(
        "02-quiz-more-heads",
        LESSON,
        "Why not 512 heads for d_model = 512?",
        (
            Option("too many parameters", "The number stays at 4d²."),
            Option(
                "each head would compare tokens by a single number",
                "Yes: d_head = 1. Its scores are products of two numbers; it can hardly tell one "
                "kind of token from another.",
                right=True,
            ),
            Option("too slow", "The sums are the same; they are only cut otherwise."),
        ),
    ),
    Item(
        "02-quiz-cross",
        LESSON,
        "Cross-attention from 3 written words to a text of 7 words. What shape has one head's "
        "weight matrix, and is it masked causally?",
        (
            Option(
                "(3, 7), not causal",
                "Yes. Each written word shares itself out among all 7, which are known from the "
                "start.",
                right=True,
            ),
            Option("(7, 3), not causal", "Rows are queries: the words that are being written."),
            Option(
                "(3, 7), causal",
                "The text that is read is there from the start. Its word 5 is nobody's future.",
            ),
            Option("(10, 10), causal", "Queries and keys are not put into one row here."),
        ),
    ),
    Item(
        "02-quiz-out",
        LESSON,
        "What would be lost without the output projection Wᴼ?",
        (
            Option(
                "nothing, it is only there for the shape",
                "The heads side by side have the right shape already.",
            ),
            Option(
                "what head 0 found could reach only the first d_head numbers",
                "Yes: each head would write into a strip of its own. Wᴼ lets each of them write "
                "anywhere.",
                right=True,
            ),
            Option(
                "the weights would no longer sum to one",
                "That is settled inside each head, before.",
            ),
        ),
    ),
]
