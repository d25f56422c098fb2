"""Lesson 02: several heads, other sequences, shared keys."""

from __future__ import annotations

import math

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
from tfcourse.checks.quiz import Item, Option

LESSON = "02_multi_head_attention"


# --- split_heads, merge_heads ---------------------------------------------------------------

SIZES = ("unequal sizes", "a batch of one", "one token", "one head", "d_head 1", "sizes above 8")


def _sizes(kind: str, seed: int) -> tuple[int, int, int, int]:
    """Batch, heads, tokens and d_head of a kind of sizes: no two alike, but for the ones asked."""
    batch, heads, tokens, d_head = unequal(seed, 4)
    if kind == "sizes above 8":
        heads, tokens, d_head = heads + 8, tokens + 9, d_head + 8
    return (
        1 if kind == "a batch of one" else batch,
        1 if kind == "one head" else heads,
        1 if kind == "one token" else tokens,
        1 if kind == "d_head 1" else d_head,
    )


def _split_case(kind, seed):
    batch, heads, tokens, d_head = _sizes(kind["sizes"], seed)
    (x,) = randn(seed, (batch, tokens, heads * d_head))
    return Case((x, heads))


def _four(x, n_heads):
    return x.reshape(*x.shape[:2], n_heads, -1)


SPLIT = Exercise(
    name="split_heads",
    lesson=LESSON,
    title="split heads",
    domain=Domain(kinds={"sizes": SIZES}, make=_split_case),
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
            "then comes head 1: the axis of the heads stands before d_head when the last axis is "
            "cut.",
            lambda x, n: x.reshape(*x.shape[:2], -1, n).permute(0, 3, 1, 2),
        ),
        "transposed-first": Variant(
            "You swap tokens and d_model before you reshape: each head holds its own numbers, but "
            "every row mixes several tokens. Cut the last axis first, then swap.",
            lambda x, n: x.mT.reshape(x.shape[0], n, x.shape[1], -1),
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
            "Your last two axes are (d_head, tokens). Swap tokens and heads only.",
            lambda x, n: _four(x, n).permute(0, 2, 3, 1),
        ),
        "list": Variant(
            "These are the right pieces as a list. Stack them into one tensor: then attention "
            "works on all heads in one go.",
            lambda x, n: list(_four(x, n).transpose(1, 2).unbind(1)),
        ),
        "stacked-last": Variant(
            "The pieces are right, but the axis of the heads stands last.",
            lambda x, n: _four(x, n).permute(0, 1, 3, 2),
        ),
        "reversed": Variant(
            "The heads come out in the reverse order.",
            lambda x, n: _four(x, n).transpose(1, 2).flip(1),
        ),
    },
)


def _merge_case(kind, seed):
    batch, heads, tokens, d_head = _sizes(kind["sizes"], seed)
    return Case((*randn(seed, (batch, heads, tokens, d_head)),))


MERGE = Exercise(
    name="merge_heads",
    lesson=LESSON,
    title="merge heads",
    domain=Domain(kinds={"sizes": SIZES}, make=_merge_case),
    witness=attention.merge_heads,
    reference=attention.merge_heads,
    axes=("batch", "tokens", "d_model"),
    hints=(
        "It is the way back. `split_heads` did two things: in which order must they be undone?",
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
            "You merged the wrong axes: there is one row for each token of each head. The heads "
            "join d_head, not the tokens.",
            lambda x: x.reshape(x.shape[0], -1, x.shape[-1]),
        ),
        "not-merged": Variant(
            "The order (batch, tokens, heads, d_head) is right. The last two axes still have to "
            "become one.",
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


# --- masks, and what goes wrong inside attention ---------------------------------------------

NOTHING = (
    "a query with nothing to attend",
    "a sequence with nothing to attend",
    "a query with nothing to attend in one head",
)
MASKS = (
    "no mask",
    "a causal mask",
    "a padding mask",
    "a padding mask in front",
    "a causal mask with padding",
    "a mask per head",
    *NOTHING,
)


def _mask(kind: str, seed: int, batch: int, heads: int, queries: int, keys: int):
    """A mask of that kind; but for those of NOTHING every query may attend to some key."""
    generator = torch.Generator().manual_seed(seed)
    causal = torch.arange(keys) <= torch.arange(queries)[:, None]
    lengths = torch.randint(1, keys + 1, (batch,), generator=generator)
    lengths[-1] = (keys + 1) // 2  # one is surely shorter where there is more than one key
    padding = attention.padding_mask(lengths, keys)
    holes = torch.rand(batch, heads, queries, keys, generator=generator) < 0.6
    holes[..., seed % keys] = True
    if kind == "a causal mask":
        return causal
    if kind == "a padding mask":
        return padding
    if kind == "a padding mask in front":
        return padding.flip(-1)
    if kind == "a causal mask with padding":
        return causal & padding
    if kind == "a mask per head":
        return holes[:1]
    if kind == NOTHING[0]:
        return holes[:, :1].index_fill(2, torch.tensor([seed % queries]), False)
    if kind == NOTHING[1]:
        return padding.index_fill(0, torch.tensor([seed % batch]), False)
    if kind == NOTHING[2]:
        holes[:, seed % heads, seed % queries] = False
        return holes
    return None


OTHER_MASKS = (
    "a mask (heads, queries, keys)",
    "a mask of one column, (batch, 1, queries, 1)",
)


def _other_masks(batch: int, heads: int, queries: int, keys: int) -> list[torch.Tensor]:
    """Shapes that broadcast too, but that few think of; in the second some have nothing."""
    holes = torch.rand(heads, queries, keys, generator=torch.Generator().manual_seed(9)) < 0.6
    holes[..., 0] = True
    column = (torch.arange(queries) != 1)[:, None].expand(batch, 1, queries, 1).clone()
    column[0, 0, 0] = False
    return [holes, column]


def _nothing(kind: str, gives: str) -> tuple[str, str] | None:
    """What is said where only a query with nothing to attend comes out as NaN."""
    if kind not in (*NOTHING, OTHER_MASKS[1]):
        return None
    return (
        "nothing-nan",
        "All is right except for a query that may attend to nothing: there your code gives NaN. "
        f"{gives} A softmax by hand divides 0 by 0 here; lesson 01 shows how to avoid it.",
    )


def _attend(scale=lambda d: d**-0.5, dim=-1, mask_of=None, fill=-math.inf, after=None):
    """Attention written out, with a place for each mistake."""

    def attend(q, k, v, mask=None):
        scores = q @ k.mT * scale(q.shape[-1])
        if mask_of is not None:
            mask = mask_of(mask, scores)
        if mask is not None:
            scores = scores.masked_fill(~mask, fill)
        weights = torch.softmax(scores, dim)
        if dim == -1:  # over anything else a mask can leave whole columns without a number
            weights = weights.nan_to_num(0.0)
        return (weights if after is None else after(weights, mask)) @ v

    return attend


_PLAIN = _attend()  # no mistake


def _cut(cut):
    """Keeps a part of a mask with four axes."""
    return lambda mask, scores: cut(mask) if mask is not None and mask.dim() == 4 else mask


def _triangle(scores):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril()


def _added(q, k, v, mask=None):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return torch.softmax(scores if mask is None else scores + mask, -1) @ v


def _spoilt_after(q, k, v, mask=None):
    weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
    return (weights if mask is None else weights * mask) @ v


def _all_heads_or_none(weights, mask):
    if mask is None:
        return weights
    some = mask.any(-1, keepdim=True).expand(*weights.shape[:-1], 1)
    return weights * some.all(1, keepdim=True)


# Mistakes that every form of attention shares: what is said, and the attention that makes it.
MISTAKES = {
    "no-scale": ("The scores are not divided by √d_head.", _attend(lambda d: 1.0)),
    "scaled-twice": (
        "The scores are divided twice: by √d_head in your code, and once more in the attention "
        "that you call.",
        _attend(lambda d: 1 / d),
    ),
    "softmax-over-queries": (
        "The softmax goes over the queries instead of the keys.",
        _attend(dim=-2),
    ),
    "softmax-over-heads": (
        "The softmax goes over the heads: they compete with each other for each key. Each head "
        "shares out its own attention over the keys.",
        _attend(dim=1),
    ),
    "softmax-twice": (
        "The softmax is applied twice. The second one makes the weights almost equal, and gives "
        "what was masked a share again.",
        _attend(after=lambda weights, mask: torch.softmax(weights, -1)),
    ),
    "mask-ignored": (
        "The mask changes nothing: it is not passed on to the attention.",
        _attend(mask_of=lambda mask, scores: None),
    ),
    "mask-inverted": (
        "You read the mask the wrong way round: True = may attend.",
        _attend(mask_of=lambda mask, scores: None if mask is None else ~mask),
    ),
    "mask-first-head": (
        "Only the first head's part of the mask is used. A mask may be another one for each head.",
        _attend(mask_of=_cut(lambda mask: mask[:, :1])),
    ),
    "mask-first-row": (
        "Only the mask's first row is used. A mask may be another one for each query.",
        _attend(mask_of=lambda mask, scores: None if mask is None else mask[..., :1, :]),
    ),
    "mask-first-sequence": (
        "The first sequence's mask is used for the whole batch. A mask may be another one for "
        "each sequence.",
        _attend(mask_of=_cut(lambda mask: mask[:1])),
    ),
    "own-triangle": (
        "Wherever a mask is given, your attention is causal. What is allowed stands in the mask: "
        "it may be padding, or anything else.",
        _attend(mask_of=lambda mask, scores: None if mask is None else _triangle(scores)),
    ),
    "always-causal": (
        "Your attention is causal even when no mask is given. Somebody who wants a causal mask "
        "passes one.",
        _attend(mask_of=lambda mask, scores: _triangle(scores) if mask is None else mask),
    ),
    "causal-whatever": (
        "Your attention is causal whatever the mask says. What is allowed stands in the mask "
        "alone.",
        _attend(mask_of=lambda mask, scores: _triangle(scores)),
    ),
    "masked-with-zero": (
        "Forbidden scores become 0, and exp(0) = 1 keeps its share. A score that loses all of its "
        "weight is −∞.",
        _attend(fill=0.0),
    ),
    "mask-added": (
        "The mask is added to the scores as 0 and 1: what is forbidden only loses a little. A "
        "boolean mask is not a number to add.",
        _added,
    ),
    "masked-after-softmax": (
        "You mask after the softmax: the rows no longer sum to one. Mask the scores.",
        _spoilt_after,
    ),
    "nothing-averaged": (
        "All is right except for a query that may attend to nothing: its weights come out evenly "
        "spread over all keys, the forbidden ones too. It should give zeros.",
        _attend(fill=-1e9),
    ),
    "nothing-in-all-heads": (
        "Where a query may attend to nothing in one head, all of its heads give zeros in your "
        "code. The mask may be another one for each head: the other heads still attend.",
        _attend(after=_all_heads_or_none),
    ),
    "k-v-swapped": (
        "Keys and values are swapped: the scores come from the keys, the output from the values.",
        lambda q, k, v, mask=None: _PLAIN(q, v, k, mask),
    ),
}


# --- MultiHeadAttention ---------------------------------------------------------------------

_GIVES = "Its heads should give zeros."


def _weights(seed: int, d: int) -> dict:
    qkv, qkv_bias, out, out_bias = randn(seed + 5000, (3 * d, d), (3 * d,), (d, d), (d,))
    return {
        "qkv.weight": qkv / math.sqrt(d) * 2,
        "qkv.bias": qkv_bias / 4,
        "out.weight": out / math.sqrt(d),
        "out.bias": out_bias / 4,
    }


def _numbers(kind: str, x):
    """Tokens (batch, tokens, d) of a kind of numbers."""
    if kind == "scores in the thousands":
        return 40 * x.double()  # in float32 right answers would differ by rounding here
    if kind == "all tokens alike":
        return x[:, :1].expand_as(x).clone()
    if kind == "a sequence of zeros":
        return x.index_fill(0, torch.tensor([0]), 0.0)
    return x


def _module_case(kind, seed):
    batch, heads, tokens, d_head = _sizes(kind["sizes"], seed)
    d = heads * d_head
    (x,) = randn(seed, (batch, tokens, d))
    x = _numbers(kind["numbers"], x)
    mask = _mask(kind["mask"], seed, batch, heads, tokens, tokens)
    return Case(
        (x,),
        {} if mask is None else {"mask": mask},
        build={"d_model": d, "n_heads": heads},
        weights={name: weight.to(x.dtype) for name, weight in _weights(seed, d).items()},
        nan=_nothing(kind["mask"], _GIVES),
    )


def _module_twins() -> list[Case]:
    batch, heads, tokens, d_head = 2, 3, 5, 4
    d = heads * d_head
    (x,) = randn(900, (batch, tokens, d))
    common = {"build": {"d_model": d, "n_heads": heads}, "weights": _weights(900, d)}
    masked = {"kwargs": {"mask": attention.causal_mask(tokens)}, **common}
    changed = x.clone()
    changed[:, -1] += 3
    return [
        Case((x,), **masked, note="a causal mask"),
        Case(
            (changed,),
            **masked,
            note="a causal mask, the last token changed",
            twin=Twin(
                0,
                lambda base, this: (base[:, :-1], this[:, :-1]),
                "future-leaks",
                "The future leaks: when the last token changes, the outputs before it change too, "
                "although the causal mask forbids it.",
            ),
        ),
        Case((x,), **common),
        Case(
            (x[:1],),
            **common,
            note="the first sequence alone",
            twin=Twin(
                2,
                lambda base, this: (base[:1], this),
                "batch-mixes",
                "The sequences of a batch see each other: alone, the first one gives another "
                "output than in company. Is the axis of the batch first everywhere?",
            ),
        ),
        *(
            Case((x,), {"mask": mask}, **common, note=kind, nan=_nothing(kind, _GIVES), edge=True)
            for kind, mask in zip(
                OTHER_MASKS, _other_masks(batch, heads, tokens, tokens), strict=True
            )
        ),
    ]


class _Parts(attention.MultiHeadAttention):
    """Multi-head attention written out, each step a method that a wrong variant replaces."""

    def forward(self, x, mask=None):
        q, k, v = self.heads(x)
        return self.project(self.merge(self.attend(q, k, v, mask)))

    def heads(self, x):
        return (self.split(t) for t in self.parts(x))

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


def _in_order(first, second, third):
    """Takes the thirds of qkv for q, k, v in another order."""
    return _with(
        parts=lambda self, x: [self.qkv(x).chunk(3, -1)[i] for i in (first, second, third)]
    )


def _own_strips(self, x):
    """Each head projects only its own strip of x."""
    d = self.d_head
    strips, bias = attention.split_heads(x, self.n_heads), self.qkv.bias
    thirds = self.qkv.weight.unflatten(0, (3, self.n_heads, d)).unflatten(-1, (self.n_heads, d))
    own = thirds.diagonal(dim1=1, dim2=3)  # (3, d_out, d_in, heads)
    bias = bias.view(3, 1, self.n_heads, 1, d)
    return torch.einsum("bhtd,cedh->cbhte", strips, own) + bias


def _nothing_after_projection(self, x, mask=None):
    """Puts the output to zero where no head of a query has anything to attend."""
    out = _Parts.forward(self, x, mask)
    if mask is None:
        return out
    batch, tokens, _ = x.shape
    some = mask.any(-1).expand(batch, self.n_heads, tokens).any(1)
    return torch.where(some[..., None], out, 0.0)


_ORDER = "The thirds of qkv are taken in the wrong order: the first is q, the second k, the last v."

MODULE = Exercise(
    name="MultiHeadAttention",
    lesson=LESSON,
    title="multi-head attention",
    domain=Domain(
        kinds={
            "mask": MASKS,
            "sizes": SIZES,
            "numbers": (
                "ordinary numbers",
                "scores in the thousands",
                "all tokens alike",
                "a sequence of zeros",
            ),
        },
        make=_module_case,
        edges=(*NOTHING, "scores in the thousands", "all tokens alike", "a sequence of zeros"),
    ),
    special=_module_twins,
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
        "interleaved": Variant(
            "Your heads take every n-th number. Head 0 is the first d_head numbers, then comes "
            "head 1.",
            _with(
                split=lambda self, x: x.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2),
            ),
        ),
        "cut-after-split": Variant(
            "You split qkv into heads first, then cut each head into q, k and v. All of q comes "
            "first in qkv, for all heads: cut it into three before you split.",
            _with(heads=lambda self, x: _Parts.split(self, self.qkv(x)).chunk(3, dim=-1)),
        ),
        "split-before-projection": Variant(
            "You split x into heads before the projection: each head sees only its own strip of "
            "x. Every head projects the whole token; split what comes out.",
            _with(heads=_own_strips),
        ),
        "merged-without-transpose": Variant(
            "Your heads are merged without putting the tokens back in front: the output has the "
            "right shape and scrambled rows.",
            _with(merge=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        "merged-interleaved": Variant(
            "The merged rows alternate between the heads: the axes became (tokens, d_head, heads). "
            "The numbers of a head stay together.",
            _with(merge=lambda self, x: x.permute(0, 2, 3, 1).flatten(-2)),
        ),
        "no-output-projection": Variant(
            "The output projection is missing: the heads stand side by side and are never mixed.",
            _with(project=lambda self, x: x),
        ),
        "out-transposed": Variant(
            "The output projection's matrix is transposed. nn.Linear holds (d_out, d_in) and "
            "transposes it itself.",
            _with(project=lambda self, x: x @ self.out.weight + self.out.bias),
        ),
        "out-bias-lost": Variant(
            "The bias of the output projection is missing. nn.Linear adds it when the layer is "
            "called.",
            _with(project=lambda self, x: x @ self.out.weight.T),
        ),
        "nothing-after-projection": Variant(
            "Where a query may attend to nothing, you put the output to zero. It is the heads that "
            "give zeros; what comes out of the output projection is then its bias.",
            _with(forward=_nothing_after_projection),
        ),
        "qkv-bias-lost": Variant(
            "The bias of the projection to q, k and v is missing. nn.Linear adds it when the layer "
            "is called.",
            _with(parts=lambda self, x: (x @ self.qkv.weight.T).chunk(3, dim=-1)),
        ),
        "residual-added": Variant(
            "You add x to the output. That plus belongs to the block around attention (lesson "
            "06), not to attention itself.",
            type(
                "MultiHeadAttention",
                (_Parts,),
                {"forward": lambda self, x, mask=None: x + _Parts.forward(self, x, mask)},
            ),
        ),
        "scale-by-d-model": Variant(
            "You divide by √d_model. Each head works on d_head numbers: √d_head.",
            _with(
                attend=lambda self, q, k, v, m: _attend(lambda d: (self.n_heads * d) ** -0.5)(
                    q, k, v, m
                )
            ),
        ),
        "q-k-swapped": Variant(
            "Queries and keys are swapped: the first third of qkv is q, the second k.",
            _in_order(1, 0, 2),
        ),
        "order-of-qkv": Variant(_ORDER, _in_order(2, 1, 0)),
        "order-kvq": Variant(_ORDER, _in_order(2, 0, 1)),
        "order-vqk": Variant(_ORDER, _in_order(1, 2, 0)),
        "one-head": Variant(
            "There is one head over all of d_model: the split into heads is missing.",
            _with(
                split=lambda self, x: x[:, None],
                merge=lambda self, x: x[:, 0],
                attend=lambda self, q, k, v, m: F.scaled_dot_product_attention(
                    *(q, k, v), m[:, :1] if m is not None and m.dim() == 4 else m
                ),
            ),
        ),
        **{
            name: Variant(
                says, _with(attend=lambda self, q, k, v, m, attend=attend: attend(q, k, v, m))
            )
            for name, (says, attend) in MISTAKES.items()
        },
    },
)


# --- cross_attention ------------------------------------------------------------------------


def _cross_case(kind, seed):
    batch, heads, queries, d_head, keys = unequal(seed, 5)
    if kind["sizes"] == "sizes above 8":
        heads, queries, keys = heads + 8, queries + 9, keys + 8
    batch = 1 if kind["sizes"] == "a batch of one" else batch
    queries = 1 if kind["sizes"] == "one query" else queries
    keys = 1 if kind["sizes"] == "one key" else keys
    heads = 1 if kind["sizes"] == "one head" else heads
    d_head = 1 if kind["sizes"] == "d_head 1" else d_head
    if kind["context"] in ("a context as long as x", "a context shaped like x"):
        if kind["sizes"] == "one key":
            return None
        keys = queries
    d = heads * d_head
    d_context = (
        d if kind["context"] in ("a context as wide as x", "a context shaped like x") else d + 3
    )
    x, context, w_q, w_k, w_v, w_o = randn(
        seed,
        (batch, queries, d),
        (batch, keys, d_context),
        *((d, d), (d_context, d), (d_context, d), (d, d)),
    )
    if kind["numbers"] == "scores in the thousands":
        x, context = 40 * x.double(), 40 * context.double()
    elif kind["numbers"] == "all tokens of the context alike":
        context = context[:, :1].expand_as(context).clone()
    elif kind["numbers"] == "a query of zeros":
        x = x.index_fill(1, torch.tensor([0]), 0.0)
    w = (w_q / d**0.5, w_k / d_context**0.5, w_v / d_context**0.5, w_o / d**0.5)
    w = tuple(matrix.to(x.dtype) for matrix in w)
    mask = _mask(kind["mask"], seed, batch, heads, queries, keys)
    nan = _nothing(kind["mask"], _GIVES)
    return Case((x, context, *w, heads, *(() if mask is None else (mask,))), nan=nan)


def _cross_of_other_masks() -> list[Case]:
    batch, heads, queries, keys, d = 2, 3, 4, 5, 6
    x, context = randn(901, (batch, queries, d), (batch, keys, d + 1))
    w = [m / d**0.5 for m in randn(902, (d, d), (d + 1, d), (d + 1, d), (d, d))]
    masks = zip(OTHER_MASKS, _other_masks(batch, heads, queries, keys), strict=True)
    return [
        Case((x, context, *w, heads, mask), note=kind, nan=_nothing(kind, _GIVES), edge=True)
        for kind, mask in masks
    ]


def cross_attention(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    """Queries from x, keys and values from context; x (batch, queries, d_model)."""
    q = attention.split_heads(x @ w_q, n_heads)
    k = attention.split_heads(context @ w_k, n_heads)
    v = attention.split_heads(context @ w_v, n_heads)
    return attention.merge_heads(attention.scaled_dot_product_attention(q, k, v, mask)) @ w_o


def _cross(
    attend=attention.scaled_dot_product_attention,
    split=attention.split_heads,
    merge=attention.merge_heads,
    project=lambda out, w_o: out @ w_o,
    plus=lambda x: 0.0,
):
    def answer(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
        q, k, v = (split(t, n_heads) for t in (x @ w_q, context @ w_k, context @ w_v))
        return project(merge(attend(q, k, v, mask)), w_o) + plus(x)

    return answer


def _from(asks, keys, values):
    """The queries, keys and values come from the first ("x") or the second ("context")."""

    def answer(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
        given = {"x": x, "context": context}
        parts = (given[asks] @ w_q, given[keys] @ w_k, given[values] @ w_v)
        q, k, v = (attention.split_heads(t, n_heads) for t in parts)
        found = attention.scaled_dot_product_attention(q, k, v, mask)
        return attention.merge_heads(found) @ w_o

    return answer


def _undivided(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    """One head over all of d_model."""
    mask = mask[:, :1] if mask is not None and mask.dim() == 4 else mask
    return cross_attention(x, context, w_q, w_k, w_v, w_o, 1, mask)


def _by_width(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return cross_attention(x, context, w_q / n_heads**0.5, w_k, w_v, w_o, n_heads, mask)


CROSS = Exercise(
    name="cross_attention",
    lesson=LESSON,
    title="cross-attention",
    domain=Domain(
        kinds={
            "mask": MASKS,
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one query",
                "one key",
                "one head",
                "d_head 1",
                "sizes above 8",
            ),
            "numbers": (
                "ordinary numbers",
                "scores in the thousands",
                "all tokens of the context alike",
                "a query of zeros",
            ),
            "context": (
                "a context of other length and width",
                "a context as wide as x",
                "a context as long as x",
                "a context shaped like x",
            ),
        },
        make=_cross_case,
        edges=(
            *NOTHING,
            "scores in the thousands",
            "all tokens of the context alike",
            "a query of zeros",
        ),
    ),
    special=_cross_of_other_masks,
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
        "swapped": Variant(
            "You took the queries from the context, and the keys and values from x. x is the one "
            "that asks: queries come from x, keys and values from the context.",
            _from("context", "x", "x"),
        ),
        "context-unused": Variant(
            "Queries, keys and values all come from x in yours: that is self-attention, and the "
            "context is never read. Keys and values come from the context.",
            _from("x", "x", "x"),
        ),
        "queries-from-context": Variant(
            "Your queries come from the context, as keys and values do, and x is never read. x is "
            "the one that asks.",
            _from("context", "context", "context"),
        ),
        "values-from-x": Variant(
            "Your values come from x. What can be found stands in the context: keys and values "
            "both come from there.",
            _from("x", "context", "x"),
        ),
        "no-output-projection": Variant(
            "The output projection w_o is missing.", _cross(project=lambda out, w_o: out)
        ),
        "out-transposed": Variant(
            "w_o is transposed. Here it is multiplied from the right as it is, like the other "
            "three.",
            _cross(project=lambda out, w_o: out @ w_o.T),
        ),
        "weights-transposed": Variant(
            "w_q and w_o are transposed, as `F.linear` would have them. Here all four are "
            "multiplied from the right as they are: `x @ w_q`.",
            lambda x, context, w_q, w_k, w_v, w_o, *rest: cross_attention(
                x, context, w_q.T, w_k, w_v, w_o.T, *rest
            ),
        ),
        "q-transposed": Variant(
            "w_q is transposed. Here it is multiplied from the right as it is, like the other "
            "three.",
            lambda x, context, w_q, *rest: cross_attention(x, context, w_q.T, *rest),
        ),
        "residual-added": Variant(
            "You add x to the output. That plus belongs to the block around attention (lesson "
            "06), not to attention itself.",
            _cross(plus=lambda x: x),
        ),
        "scale-by-d-model": Variant("You divide by √d_model instead of √d_head.", _by_width),
        "one-head": Variant(
            "There is one head over all of d_model: the split into heads is missing.", _undivided
        ),
        "split-by-reshape": Variant(
            "Your heads are cut by reshape alone: each holds pieces of several tokens.",
            _cross(split=lambda x, n: x.reshape(x.shape[0], n, x.shape[1], -1)),
        ),
        "interleaved": Variant(
            "Your heads take every n-th number. Head 0 is the first d_head numbers, then comes "
            "head 1.",
            _cross(split=lambda x, n: x.unflatten(-1, (-1, n)).permute(0, 3, 1, 2)),
        ),
        "merged-without-transpose": Variant(
            "Your heads are merged without putting the tokens back in front.",
            _cross(merge=lambda x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        "merged-interleaved": Variant(
            "The merged rows alternate between the heads: the axes became (tokens, d_head, heads). "
            "The numbers of a head stay together.",
            _cross(merge=lambda x: x.permute(0, 2, 3, 1).flatten(-2)),
        ),
        "values-from-keys": Variant(
            "Your values are the keys: w_v is not used.",
            _cross(lambda q, k, v, mask=None: _PLAIN(q, k, k, mask)),
        ),
        **{
            name: Variant(says, _cross(attend))
            for name, (says, attend) in MISTAKES.items()
            if name != "nothing-in-all-heads"  # without a bias, NaN in one head looks the same
        },
        "always-causal": Variant(
            "Your cross-attention is causal even without a mask. Position 2 of x and position 2 "
            "of the context have nothing to do with each other: all of the context is there from "
            "the start.",
            _cross(MISTAKES["always-causal"][1]),
        ),
        "causal": Variant(
            "Your cross-attention is causal on top of the mask. Position 2 of x and position 2 of "
            "the context have nothing to do with each other: all of the context is there from the "
            "start.",
            _cross(
                _attend(
                    mask_of=lambda mask, scores: (
                        _triangle(scores) & (True if mask is None else mask)
                    )
                )
            ),
        ),
    },
)


# --- grouped_query_attention ----------------------------------------------------------------


def _grouped_case(kind, seed):
    batch, kv_heads, group, queries, keys, d = unequal(seed, 6)
    size = kind["sizes"]
    if size == "sizes above 8":
        queries, keys, d = queries + 9, keys + 8, d + 8
    batch = 1 if size == "a batch of one" else batch
    queries = 1 if size == "one query" else queries
    keys = 1 if size == "one key" else keys
    d = 1 if size == "d_head 1" else d
    kv_heads = 1 if kind["heads"] == "one head of keys and values" else kv_heads
    group = 1 if kind["heads"] == "as many heads of keys and values as of queries" else group
    heads = kv_heads * group
    shape = (batch, kv_heads, keys, d)
    q, k, v = randn(seed, (batch, heads, queries, d), shape, shape)
    if kind["numbers"] == "scores in the thousands":
        q, k, v = 40 * q.double(), 40 * k.double(), v.double()
    elif kind["numbers"] == "all keys alike":
        k = k[:, :, :1].expand_as(k).clone()
    elif kind["numbers"] == "a query of zeros":
        q = q.index_fill(2, torch.tensor([0]), 0.0)
    mask = _mask(kind["mask"], seed, batch, heads, queries, keys)
    return Case(
        (q, k, v) if mask is None else (q, k, v, mask),
        note=f"{heads} heads of queries, {kv_heads} of keys and values",
        nan=_nothing(kind["mask"], "It should give zeros."),
    )


def _grouped_of_other_masks() -> list[Case]:
    q, k, v = randn(903, (2, 6, 4, 5), (2, 3, 7, 5), (2, 3, 7, 5))
    return [
        Case((q, k, v, mask), note=kind, nan=_nothing(kind, "It should give zeros."), edge=True)
        for kind, mask in zip(OTHER_MASKS, _other_masks(2, 6, 4, 7), strict=True)
    ]


def grouped_query_attention(q, k, v, mask=None):
    """Attention in which several query heads share one head of keys and values."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
    return attention.scaled_dot_product_attention(q, k, v, mask)


def _repeated(t, group):
    return t.repeat_interleave(group, dim=1)


def _grouped(attend=_PLAIN, keys=_repeated, values=None):
    def answer(q, k, v, mask=None):
        group = q.shape[1] // k.shape[1]
        return attend(q, keys(k, group), (values or keys)(v, group), mask)

    return answer


def _one_query_a_group(q, k, v, mask=None):
    if mask is not None and mask.dim() == 4:
        mask = mask[:, :1]
    return _PLAIN(q.unflatten(1, (k.shape[1], -1)).mean(2), k, v, mask)


def _masked_by_group(q, k, v, mask=None):
    group = q.shape[1] // k.shape[1]
    if mask is not None and mask.dim() == 4 and mask.shape[1] > 1:
        mask = _repeated(mask[:, ::group], group)
    return grouped_query_attention(q, k, v, mask)


GROUPED = Exercise(
    name="grouped_query_attention",
    lesson=LESSON,
    title="grouped-query attention",
    domain=Domain(
        kinds={
            "mask": MASKS,
            "heads": (
                "several heads a group",
                "one head of keys and values",
                "as many heads of keys and values as of queries",
            ),
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one query",
                "one key",
                "d_head 1",
                "sizes above 8",
            ),
            "numbers": (
                "ordinary numbers",
                "scores in the thousands",
                "all keys alike",
                "a query of zeros",
            ),
        },
        make=_grouped_case,
        edges=(*NOTHING, "scores in the thousands", "all keys alike", "a query of zeros"),
    ),
    special=_grouped_of_other_masks,
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
            _grouped(keys=lambda t, group: t.repeat(1, group, 1, 1)),
        ),
        "first-head": Variant(
            "All query heads use the first head of keys and values; the others are never read.",
            _grouped(keys=lambda t, group: t[:, :1].expand(-1, group * t.shape[1], -1, -1)),
        ),
        "heads-averaged": Variant(
            "You average the heads of keys and values over all groups: what the groups could tell "
            "apart is gone.",
            _grouped(
                keys=lambda t, group: t.mean(1, keepdim=True).expand(-1, group * t.shape[1], -1, -1)
            ),
        ),
        "queries-averaged": Variant(
            "You average the queries of a group: the heads that share keys must still ask "
            "different questions.",
            _one_query_a_group,
        ),
        "one-query-for-a-group": Variant(
            "Within a group all heads give the same: you average their queries. The heads that "
            "share keys must still ask different questions.",
            lambda q, k, v, mask=None: grouped_query_attention(
                _repeated(q.unflatten(1, (k.shape[1], -1)).mean(2), q.shape[1] // k.shape[1]),
                *(k, v, mask),
            ),
        ),
        "keys-only": Variant(
            "The keys are shared as they should be, but the values are repeated in another order: "
            "a head must use the values that belong to its keys.",
            _grouped(values=lambda t, group: t.repeat(1, group, 1, 1)),
        ),
        "values-only": Variant(
            "The values are shared as they should be, but the keys are repeated in another order: "
            "a head must use the keys that belong to its values.",
            _grouped(keys=lambda t, group: t.repeat(1, group, 1, 1), values=_repeated),
        ),
        "mask-per-group": Variant(
            "The mask of the first head of a group is used for all of the group. Keys and values "
            "are shared; the mask still holds for each query head.",
            _masked_by_group,
        ),
        **{name: Variant(says, _grouped(attend)) for name, (says, attend) in MISTAKES.items()},
    },
)


# --- head_contributions (graded) ------------------------------------------------------------


def _contribution_case(kind, seed):
    batch, heads, tokens, d_head = _sizes(kind["sizes"], seed)
    d = heads * d_head
    d_out = {"d_out = d_model": d, "d_out 1": 1}.get(kind["output"], d + 1 + seed % 3)
    x, w = randn(seed, (batch, heads, tokens, d_head), (d_out, d))
    if kind["numbers"] == "a head of zeros":
        x = x.index_fill(1, torch.tensor([seed % heads]), 0.0)
    elif kind["numbers"] == "large numbers":
        x = 1000 * x
    return Case((x, w / d**0.5))


def _alone(heads, w_o):
    """Projects with all heads but one put to zero, once for each head."""
    each = []
    for i in range(heads.shape[1]):
        only = torch.zeros_like(heads)
        only = only.index_copy(1, torch.tensor([i]), heads[:, i : i + 1])
        each.append(F.linear(attention.merge_heads(only), w_o))
    return torch.stack(each, dim=1)


def _rows_cut(heads, w):
    """The weight's numbers poured into (heads, d_head, d_out) in the order in which they lie."""
    poured = w.reshape(heads.shape[1], heads.shape[3], -1)
    return _alone(heads, poured.permute(2, 0, 1).flatten(1))


def _single_head_only(heads, w):
    """Fits where there is one head, and nowhere else."""
    if heads.shape[1] > 1:
        raise ValueError("the sizes do not fit")
    return _alone(heads, w)


CONTRIBUTIONS = Exercise(
    name="head_contributions",
    lesson=LESSON,
    title="what each head adds (graded)",
    domain=Domain(
        kinds={
            "sizes": SIZES,
            "output": ("d_out of its own", "d_out = d_model", "d_out 1"),
            "numbers": ("ordinary numbers", "a head of zeros", "large numbers"),
        },
        make=_contribution_case,
        edges=("a head of zeros", "large numbers"),
    ),
    witness=_alone,
    axes=("batch", "heads", "tokens", "d_model"),
    hints=(
        "Merging puts the heads side by side, then one matrix multiplies the long row. Which of "
        "the matrix's columns does head 0 meet?",
        "nn.Linear's weight has shape (d_out, d_in): its columns belong to the inputs. Cut the "
        "columns into as many pieces as there are heads.",
        "Head by head: (tokens, d_head) times its piece's transpose. A loop over the heads and "
        "`torch.stack` will do.",
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
        "shared-equally": Variant(
            "You share the output out equally: every head gets the same part. Each head adds what "
            "its own numbers make of its own piece of the weight.",
            spoil=lambda case, right: right.mean(1, keepdim=True).expand_as(right),
        ),
        "running-sum": Variant(
            "Each of your parts holds those of the heads before it too. Give each head's own part.",
            spoil=lambda case, right: right.cumsum(1),
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
        "rows": Variant(
            "You cut the rows of w_o, (d_out, heads · d_head). Its rows belong to the numbers that "
            "come out. A head meets columns.",
            lambda heads, w: _alone(heads, w[: w.shape[1]].T),
        ),
        "one-head-only": Variant(
            "Your code runs only where there is a single head. A head has d_head numbers, so it "
            "meets only d_head of the columns of w_o, (d_out, heads · d_head). Did you cut the "
            "rows, axis 0, or leave w_o whole?",
            _single_head_only,
        ),
        "poured": Variant(
            "You reshape w_o to (heads, d_head, d_out) as it lies in memory. Its first axis is "
            "d_out: reshape may cut an axis, but never moves one.",
            _rows_cut,
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
        "turned": Variant(
            "The numbers are right, the last two axes are (d_out, tokens).",
            spoil=lambda case, right: right.mT,
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


# --- torch_weights --------------------------------------------------------------------------


WIDTHS = ("some d_model", "d_model 1", "d_model 2", "d_model 24")
TIMES = (1.0, 3.0, 0.5, 2.0)  # no matrix is as large as another


def _copy_case(kind, seed):
    [d] = unequal(seed, 1, 4, 9)
    d = {"d_model 1": 1, "d_model 2": 2, "d_model 24": 24}.get(kind["d_model"], d)
    *w, biases = randn(seed, *[(d, d)] * 4, (4, d))
    w = [m * TIMES[(seed + i) % 4] for i, m in enumerate(w)]
    times = {"numbers in the thousands": 3000.0, "tiny numbers": 1e-6}.get(kind["numbers"], 1.0)
    w, biases = [m * times for m in w], biases * times
    if kind["numbers"] == "a matrix of zeros":
        w[seed % 4] = torch.zeros(d, d)
    if kind["biases"] == "biases of zeros":
        biases = torch.zeros(4, d)
    given = () if kind["biases"] == "no biases" else (biases,)
    return Case((*w, *given), gradients=False)  # what a module loads has no history


def torch_weights(w_q, w_k, w_v, w_o, biases=None):
    """What `nn.MultiheadAttention` loads for matrices that are multiplied as in x @ w_q."""
    given = {"in_proj_weight": torch.cat([w_q.T, w_k.T, w_v.T]), "out_proj.weight": w_o.T}
    if biases is not None:
        given |= {"in_proj_bias": biases[:3].reshape(-1), "out_proj.bias": biases[3]}
    return given


def _copied(
    rows=lambda w: torch.cat([m.T for m in w]),
    out=lambda w: w.T,
    flat=lambda b: b.reshape(-1),
    order=(0, 1, 2),
    invented=False,
    kept=True,
):
    """The copy with one part of it replaced; `order`: which of q, k, v stands in each third."""

    def answer(w_q, w_k, w_v, w_o, biases=None):
        w = [(w_q, w_k, w_v)[i] for i in order]
        given = {"in_proj_weight": rows(w), "out_proj.weight": out(w_o)}
        if biases is None and invented:
            biases = torch.zeros(4, len(w_o))
        if biases is not None and kept:
            given |= {"in_proj_bias": flat(biases[list(order)]), "out_proj.bias": biases[3]}
        return given

    return answer


def _as_torch_names_them(cases, values, expected):
    """Which name is missing, or unknown to torch's module."""
    for case, value, right in zip(cases, values, expected, strict=True):
        missing = ", ".join(f"`{name}`" for name in right if name not in value)
        extra = ", ".join(f"`{name}`" for name in value if name not in right)
        if not missing and not extra:
            continue
        with_biases = "with biases" if len(case.args) > 4 else "without biases"
        said = f"For a module {with_biases}, "
        if missing:
            said += f"{missing} {'is' if missing.count('`') == 2 else 'are'} missing in your dict"
        if missing and extra:
            said += ", and "
        if extra:
            said += f"your dict holds {extra}, which that module does not know"
        said += ". Compare your names with those that `state_dict()` prints."
        if any(name.startswith(("q_proj", "k_proj", "v_proj")) for name in value):
            said += (
                " (torch has separate matrices only where keys and values come from vectors of "
                "another width.)"
            )
        kind = "names" if missing and extra else "missing-name" if missing else "unknown-name"
        return Finding(kind, said)
    return None


def _named(value) -> str:
    """The type of what an answer gave; what is not plain data has come here as its name."""
    foreign = value.get("not plain") if isinstance(value, dict) else None
    return foreign or type(value).__name__


def _entry_by_entry(cases, values, expected):
    """Which entry of the dict is not what it should be, and which part of it."""
    for case, value, right in zip(cases, values, expected, strict=True):
        for name, tensor in right.items():
            yours = value.get(name)
            if not isinstance(yours, torch.Tensor):
                what = "None" if yours is None else f"a {_named(yours)}"
                return Finding("entry-type", f"`{name}` is {what}; a tensor is expected.")
            if yours.shape != tensor.shape:
                return Finding(
                    "entry-shape",
                    f"With d_model = {len(case.args[0])} your `{name}` has the shape "
                    f"{tuple(yours.shape)}; torch's module keeps {tuple(tensor.shape)}.",
                )
    for case, value, right in zip(cases, values, expected, strict=True):
        for name, tensor in right.items():
            if not same(value[name], tensor, 1e-6, 1e-9):
                return Finding("entry-differs", _where_it_differs(case, name, value[name], tensor))
    return None


def _where_it_differs(case, name, yours, right):
    if not name.startswith("in_proj"):
        return f"The names and shapes are right, but `{name}` holds other numbers than it should."
    is_weight = name.endswith("weight")
    sources = [m.T for m in case.args[:3]] if is_weight else list(case.args[4][:3])
    thirds = zip("qkv", yours.chunk(3), right.chunk(3), strict=True)
    i, letter, mine = next(
        (i, letter, mine)
        for i, (letter, mine, want) in enumerate(thirds)
        if not same(mine, want, 1e-6, 1e-9)
    )
    said = (
        f"The names and shapes are right. But the {('first', 'second', 'last')[i]} third of "
        f"`{name}`, {letter}'s, holds other numbers than it should."
    )
    for other, source in zip("qkv", sources, strict=True):
        if same(mine, source, 1e-6, 1e-9):
            return f"{said} They are {other}'s."
    if is_weight and same(mine, sources[i].T, 1e-6, 1e-9):
        return f"{said} It is w_{letter} as it came, not turned."
    return said


_THIRDS = (
    "The three parts of your `in_proj_weight` are in the wrong order: first the rows of q, then "
    "those of k, then those of v. All three have the same shape, so torch cannot notice."
)

COPY = Exercise(
    name="torch_weights",
    lesson=LESSON,
    title="copy the weights into PyTorch's module",
    domain=Domain(
        kinds={
            "d_model": WIDTHS,
            "biases": ("no biases", "biases", "biases of zeros"),
            "numbers": (
                "ordinary numbers",
                "numbers in the thousands",
                "tiny numbers",
                "a matrix of zeros",
            ),
        },
        make=_copy_case,
    ),
    properties=(_as_torch_names_them, _entry_by_entry),
    witness=torch_weights,
    reference=torch_weights,
    tolerance=1e-6,
    smallest=1e-9,
    hints=(
        "Take the names and shapes that the cell above prints, one by one. Which of your four "
        "matrices does each of them need, and where do the 3 · d_model rows come from?",
        "You compute `x @ w_q`, torch computes `x @ weight.T`. What must `weight` be so that both "
        "are the same? With d_model = 2 you can try it on paper.",
        "`torch.cat` puts matrices on top of each other along axis 0. The biases go the same way, "
        "the first three of them in one long row, and only where there are any.",
    ),
    variants={
        "nothing-turned": Variant(
            "Your four matrices stand in the dict as the lesson multiplies them, in `x @ w`. "
            "PyTorch keeps a matrix the other way round, one row for each number that comes out. "
            "They are square, so no shape shows it.",
            _copied(rows=torch.cat, out=lambda w: w),
        ),
        "in-proj-not-turned": Variant(
            "`out_proj.weight` is right, but in `in_proj_weight` the matrices of q, k and v stand "
            "as they came. PyTorch keeps these three the other way round too.",
            _copied(rows=torch.cat),
        ),
        "out-not-turned": Variant(
            "`in_proj_weight` is right, but `out_proj.weight` is w_o as it came. PyTorch keeps "
            "this matrix the other way round too.",
            _copied(out=lambda w: w),
        ),
        "poured": Variant(
            "You put the three matrices side by side and reshape to (3 · d_model, d_model). The "
            "shape is right, but reshape moves no number: each of your rows mixes q, k and v.",
            _copied(rows=lambda w: torch.cat(w, 1).reshape(-1, len(w[0]))),
        ),
        "turned-and-poured": Variant(
            "In your `in_proj_weight` the rows of q, k and v take turns. First come all rows of "
            "q's, then all of k's, then all of v's.",
            _copied(rows=lambda w: torch.cat(w).T.reshape(-1, len(w[0]))),
        ),
        "rows-in-turn": Variant(
            "The rows of q, k and v take turns in your `in_proj_weight`: a row of q, one of k, one "
            "of v, and so on. All rows of q come first, for all heads, then all of k, then all of "
            "v.",
            _copied(
                rows=lambda w: torch.stack([m.T for m in w], 1).flatten(0, 1),
                flat=lambda b: b.T.reshape(-1),
            ),
        ),
        "q-k-swapped": Variant(
            "Queries and keys are swapped: the first third of `in_proj_weight` is q's, the second "
            "k's. Both have the same shape, so torch cannot notice.",
            _copied(order=(1, 0, 2)),
        ),
        "k-v-swapped": Variant(
            "Keys and values are swapped: the second third of `in_proj_weight` is k's, the last "
            "v's. Both have the same shape, so torch cannot notice.",
            _copied(order=(0, 2, 1)),
        ),
        "order-vkq": Variant(_THIRDS, _copied(order=(2, 1, 0))),
        "order-kvq": Variant(_THIRDS, _copied(order=(1, 2, 0))),
        "order-vqk": Variant(_THIRDS, _copied(order=(2, 0, 1))),
        "biases-left-out": Variant(
            "The matrices are right. But where biases are given, they are not in your dict, and "
            "torch's module waits for them.",
            _copied(kept=False),
        ),
        "biases-invented": Variant(
            "Where no biases are given, your dict holds biases of zeros. A module that was made "
            "with `bias=False` has no such names, and refuses them.",
            _copied(invented=True),
        ),
        "biases-in-turn": Variant(
            "The matrices are right, but in `in_proj_bias` the numbers of q, k and v take turns. "
            "First come all of q's, then all of k's, then all of v's.",
            _copied(flat=lambda b: b.T.reshape(-1)),
        ),
    },
)


# --- find the bug ---------------------------------------------------------------------------


def _bug_case(kind, seed):
    batch, heads, tokens, d_head = _sizes(kind["sizes"], seed)
    q, k, v = randn(seed, *[(batch, heads, tokens, d_head)] * 3)
    if kind["numbers"] == "scores in the thousands":
        q, k, v = 40 * q.double(), 40 * k.double(), v.double()
    elif kind["numbers"] == "all tokens alike":
        q, k = (t[:, :, :1].expand_as(t).clone() for t in (q, k))
    apart = torch.arange(tokens)[:, None] - torch.arange(tokens)
    generator = torch.Generator().manual_seed(seed)
    mask = {
        "a causal mask": apart >= 0,
        "a mask that allows everything": torch.ones(tokens, tokens, dtype=torch.bool),
        "a window of three tokens": (apart >= 0) & (apart < 3),
        "a mask with holes": (apart == 0) | (torch.rand(tokens, tokens, generator=generator) < 0.5),
        "each token to itself alone": apart == 0,
    }[kind["mask"]]
    return Case((q, k, v, mask[None, None]))


def _bug_twins() -> list[Case]:
    q, k, v = randn(900, *[(2, 3, 5, 4)] * 3)
    mask = attention.causal_mask(5)[None, None]
    alone = Twin(
        0,
        lambda base, this: (base[:1], this),
        "batch-mixes",
        "The sequences of a batch see each other: alone, the first one gives another output than "
        "in company.",
    )
    return [
        Case((q, k, v, mask)),
        Case((q[:1], k[:1], v[:1], mask), note="the first sequence alone", twin=alone),
    ]


def masked_heads(q, k, v, mask):
    """All heads, merged: (batch, heads, tokens, d_head) -> (batch, tokens, d_model)."""
    return attention.merge_heads(attention.scaled_dot_product_attention(q, k, v, mask))


def _masked_heads(attend=_PLAIN, merge=attention.merge_heads, mask_of=lambda mask: mask):
    return lambda q, k, v, mask: merge(attend(q, k, v, mask_of(mask)))


def _merge_any(x):
    """Transpose and reshape as the given code does, whatever the number of axes."""
    batch, tokens = x.shape[-4], x.shape[-2]
    return x.transpose(1, 2).reshape(batch, tokens, -1)


BUG = Exercise(
    name="masked_heads",
    lesson=LESSON,
    title="find the bug: scrambled heads",
    domain=Domain(
        kinds={
            "mask": (
                "a causal mask",
                "a mask that allows everything",
                "a window of three tokens",
                "a mask with holes",
                "each token to itself alone",
            ),
            "sizes": SIZES,
            "numbers": ("ordinary numbers", "scores in the thousands", "all tokens alike"),
        },
        make=_bug_case,
        edges=("scores in the thousands", "all tokens alike"),
    ),
    special=_bug_twins,
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
            _masked_heads(merge=_merge_any, mask_of=lambda mask: mask.unsqueeze(1)),
            to_do=True,
        ),
        "merged-by-reshape": Variant(
            "The mask is right now, but the heads are merged without putting the tokens in front.",
            _masked_heads(merge=lambda x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        "mask-transposed": Variant(
            "Your mask is transposed: rows are queries, columns are keys.",
            _masked_heads(mask_of=lambda mask: mask.mT),
        ),
        "not-merged": Variant(
            "The heads are right; they are not merged into (batch, tokens, d_model).",
            _masked_heads(merge=lambda x: x),
        ),
        "heads-averaged": Variant(
            "You take the mean over the heads. They are put side by side.",
            _masked_heads(merge=lambda x: x.mean(1)),
        ),
        "mask-ignored": Variant(
            "Without the mask the scrambling is gone, but now every token sees the future.",
            _masked_heads(MISTAKES["mask-ignored"][1]),
        ),
        **{
            name: Variant(MISTAKES[name][0], _masked_heads(MISTAKES[name][1]))
            for name in (
                "no-scale",
                "scaled-twice",
                "softmax-over-queries",
                "softmax-twice",
                "mask-inverted",
                "mask-first-row",
                "own-triangle",
                "masked-with-zero",
                "mask-added",
                "masked-after-softmax",
            )
        },
    },
)

EXERCISES = [SPLIT, MERGE, MODULE, COPY, CROSS, GROUPED, CONTRIBUTIONS, BUG]
QUESTIONS = [
    Item(
        "02-compromise",
        LESSON,
        "One head gives half of its attention to token 2 and half to token 8. What can token 5 "
        "know from what it receives?",
        (
            Option(
                "both letters, and which of them stands where",
                "Twice the mean is the sum, and the sum does hold both letters. But D + K is the "
                "same vector as K + D.",
            ),
            Option(
                "the two letters, but not which of them stands where",
                "Yes. D + K is the same vector as K + D: the order is lost.",
                right=True,
            ),
            Option(
                "neither letter: the mean of two letters is no letter",
                "The mean is no letter, but only one pair of letters has this mean. So the pair "
                "can be found.",
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
                "That is half of it: both keys and values have to be kept.",
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
        "Why does nobody take 512 heads for d_model = 512?",
        (
            Option(
                "there would be 64 times as many parameters as with 8 heads",
                "The number stays at 4d². The same matrices are cut finer.",
            ),
            Option(
                "q·k alone would take 64 times as many multiplications",
                "It takes T²·d_head in each head, and h · d_head = d. So all heads together take "
                "T²·d, however many they are.",
            ),
            Option(
                "each head compares tokens by a single number, and there are 64 times as many "
                "weights to work out and to hold",
                "Yes, both. With d_head = 1 a score is a product of two numbers, so it can hardly "
                "tell one kind of token from another. And it is slow: each head has T² weights, "
                "which go through a softmax and through memory.",
                right=True,
            ),
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
                "Yes. Each written word spreads its attention over all 7, which are known from "
                "the start.",
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
                "The softmax inside each head has made sure of that before.",
            ),
        ),
    ),
]
