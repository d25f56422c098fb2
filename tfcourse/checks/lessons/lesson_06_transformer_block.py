"""Lesson 06: the parts put together, and stacked."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F

from tfcourse.attention import causal_mask, padding_mask
from tfcourse.blocks import Block
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
from tfcourse.checks.quiz import Item, Option

LESSON = "06_transformer_block"


def _weights(seed, module) -> dict:
    """Random weights for a module: matrices of a size that keeps numbers near 1."""
    generator = torch.Generator().manual_seed(seed)
    size = lambda p: math.sqrt(p.shape[-1]) if p.dim() > 1 else 2.0  # noqa: E731
    return {
        name: torch.randn(p.shape, generator=generator) / size(p)
        for name, p in module.named_parameters()
    }


def _mask(kind, seed, batch, heads, queries, keys):
    """A mask of this kind, True = may attend; None for "no mask"."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, keys + 1, (batch,), generator=generator)
    lengths[-1] = max(1, keys - 1)
    padding = padding_mask(lengths, keys)

    def some(*shape):
        """At random, but every query may attend to something."""
        chosen = torch.rand(*shape, queries, keys, generator=generator) < 0.5
        first = torch.arange(queries)[:, None] % keys == torch.arange(keys)
        return chosen | first

    if kind == "no mask":
        return None
    if kind == "causal mask":
        return causal_mask(queries)
    if kind == "padding mask":
        return padding
    if kind == "padding in front":
        return padding.flip(-1)
    if kind == "causal and padding":
        return causal_mask(queries) & padding
    if kind == "a mask per query":
        return some()
    if kind == "a mask per sequence":
        return some(batch, 1)
    if kind == "a mask per head":
        return some(1, heads)
    if kind == "a query with nothing to attend":
        mask = some(batch, 1)
        mask[0, 0, -1] = False
        return mask
    lengths[0] = 0  # a sequence with nothing to attend
    return padding_mask(lengths, keys)


NOTHING = ("a query with nothing to attend", "a sequence with nothing to attend")
MASKS = (
    "no mask",
    "causal mask",
    "padding mask",
    "padding in front",
    "causal and padding",
    "a mask per query",
    "a mask per sequence",
    "a mask per head",
    *NOTHING,
)
NUMBERS = ("ordinary numbers", "numbers about 30", "small numbers", "a token of zeros")


def _numbers(kind, x):
    """Tokens of this kind, made of normal ones."""
    if kind == "numbers about 30":
        return x + 30
    if kind == "small numbers":
        return 0.01 * x
    x = 2 * x + 0.5
    if kind == "a token of zeros":
        x[0, 0] = 0
    return x


class _Kept:
    """What was computed for a case, once: there are dozens of known wrong wirings."""

    def __init__(self, compute):
        self.compute, self.known = compute, {}

    def __call__(self, case, *right):
        if id(case) not in self.known:
            if len(self.known) > 100:
                self.known.clear()
            self.known[id(case)] = (self.compute(case), case)  # the case is kept: so is its id
        return self.known[id(case)][0]


def built(module):
    """case -> the module with the case's weights."""

    def build(case):
        made = module(**case.build).to(next(iter(case.weights.values())).dtype)
        made.load_state_dict(case.weights)
        return made

    return _Kept(build)


def spoiled(built, wire) -> _Kept:
    """For `Variant.spoil`: what the built module gives with another wiring."""

    @torch.no_grad()
    def run(case):
        try:
            return wire(built(case), *case.args, **case.kwargs)
        except (ValueError, RuntimeError):  # these masks do not fit there
            return None

    return _Kept(run)


def _bare_norm(x):
    """A LayerNorm without weights."""
    return F.layer_norm(x, x.shape[-1:])


def _wrong_tokens(value, right):
    """(batch, tokens): which of them are not what they should be."""
    size = max(0.01, right.abs().max().item())
    return ((value - right).abs() > 3e-5 * size).any(-1)


def _tokens_erased(cases, values, expected):
    """All that is wrong: some tokens have become zeros."""
    wrong = [_wrong_tokens(v, e) for v, e in zip(values, expected, strict=True)]
    zeros = [(v == 0).all(-1) for v in values]
    if all((z | ~w).all() for z, w in zip(zeros, wrong, strict=True)):
        at = next(i for i, w in enumerate(wrong) if w.any())
        batch, token = wrong[at].nonzero()[0].tolist()
        return Finding(
            "token-erased",
            f"Some tokens come out as zeros, for example token {token} of sequence {batch}. It may "
            "get nothing from attention, or be hidden from the others: its own x stays in the "
            f"stream all the same, and the MLP works on it. That was for {cases[at].note}.",
        )
    return None


def _nothing_to_attend(cases, values, expected):
    """All that is wrong: tokens to which a mask leaves nothing."""
    for case, value, right in zip(cases, values, expected, strict=True):
        wrong = _wrong_tokens(value, right)
        for mask in case.kwargs.values():
            none = ~mask.any(-1)
            shape = torch.broadcast_shapes(none.shape, (len(wrong), 1, wrong.shape[1]))
            wrong = wrong & ~none.expand(shape).any(1)
        if wrong.any():
            return None
    return Finding(
        "nothing-to-attend",
        "Right but for tokens that may attend to nothing. Attention gives zeros for them; that is "
        "taken care of there. Hand the mask on as it is, and go on with such a token as with all "
        "others.",
    )


# --- TransformerBlock -----------------------------------------------------------------------


class TransformerBlock(Block):
    """The package's block, built as the exercise builds it."""

    def __init__(self, d_model, n_heads, d_ff, norm_first):
        super().__init__(d_model, n_heads, d_ff=d_ff, norm_first=norm_first)

    def forward(self, x, mask=None):
        """(batch, tokens, d_model), mask True = may attend."""
        return super().forward(x, mask=mask)


_BLOCKS = built(TransformerBlock)


def _make_block(kind, seed):
    batch, tokens, heads, d_head, d_ff = unequal(seed, 5)
    sizes = kind["sizes"]
    batch = 1 if sizes == "a batch of one" else batch
    tokens = {"one token": 1, "eleven tokens": 11}.get(sizes, tokens)
    heads = 1 if sizes == "one head" else heads
    if kind["mask"] == "a mask per head" and heads == 1:
        return None
    build = {
        "d_model": heads * d_head,
        "n_heads": heads,
        "d_ff": d_ff,
        "norm_first": kind["form"] == "pre-norm",
    }
    (x,) = randn(seed + 10, (batch, tokens, heads * d_head))
    mask = _mask(kind["mask"], seed + 20, batch, heads, tokens, tokens)
    return Case(
        (_numbers(kind["numbers"], x),),
        {} if mask is None else {"mask": mask},
        build=build,
        weights=_weights(seed + 30, TransformerBlock(**build)),
    )


def _block_twins() -> list[Case]:
    """For each form: the future must not leak through a causal mask."""
    kinds = {"mask": "causal mask", "sizes": "unequal sizes", "numbers": "ordinary numbers"}
    cases = []
    for form in ("pre-norm", "post-norm"):
        base = _make_block(kinds | {"form": form}, 3)
        changed = base.args[0].clone()
        changed[:, -1] += torch.arange(changed.shape[-1])
        common = {"kwargs": base.kwargs, "build": base.build, "weights": base.weights}
        leak = Twin(
            len(cases),
            lambda base, this: (base[:, :-1], this[:, :-1]),
            "future-leaks",
            "The future leaks: when the last token changes, the outputs before it change too, "
            "although the mask is causal. Does a mask of every form reach attention? Does anything "
            "else in your code mix tokens?",
        )
        cases.append(Case(base.args, **common, note="causal mask"))
        cases.append(Case((changed,), **common, note="the last token changed", twin=leak))
    return cases


# What is wired wrongly, as (pre-norm, post-norm); a is attention, f the MLP, na and nf their norms.


def _pre(x, a, f, na, nf):
    x = x + a(na(x))
    return x + f(nf(x))


def _post(x, a, f, na, nf):
    x = na(x + a(x))
    return nf(x + f(x))


def _normed_stream(x, a, f, na, nf):
    x = na(x)
    x = nf(x + a(x))
    return x + f(x)


def _normed_on_the_way_out(x, a, f, na, nf):
    x = x + na(a(x))
    return x + nf(f(x))


def _input_again(x, a, f, na, nf):
    return x + _pre(x, a, f, na, nf)


def _twice(in_attention, in_network):
    """x is added once more, at one addition or at both."""

    def pre(x, a, f, na, nf):
        x = (1 + in_attention) * x + a(na(x))
        return (1 + in_network) * x + f(nf(x))

    def post(x, a, f, na, nf):
        x = na((1 + in_attention) * x + a(x))
        return nf((1 + in_network) * x + f(x))

    return pre, post


def _missing(in_attention, in_network):
    """x is not added, at one addition or at both."""

    def pre(x, a, f, na, nf):
        x = (not in_attention) * x + a(na(x))
        return (not in_network) * x + f(nf(x))

    def post(x, a, f, na, nf):
        x = na((not in_attention) * x + a(x))
        return nf((not in_network) * x + f(x))

    return pre, post


_TWICE = (
    "x is added twice: look what the variable holds by then. Each sub-layer's result is added to "
    "x once."
)
_WIRINGS = {
    "no-residual": (
        "The additions are missing: a sub-layer's result replaces x instead of being added.",
        *_missing(True, True),
    ),
    "no-residual-attention": (
        "What attention gives replaces x: its addition is missing.",
        *_missing(True, False),
    ),
    "no-residual-network": (
        "What the MLP gives replaces x: its addition is missing.",
        *_missing(False, True),
    ),
    "twice": (_TWICE, *_twice(True, True)),
    "twice-attention": (f"At attention, {_TWICE}", *_twice(True, False)),
    "twice-network": (f"At the MLP, {_TWICE}", *_twice(False, True)),
    "input-again": (
        "At the end the x of the beginning is added once more. It is in the stream already.",
        _input_again,
        lambda x, a, f, na, nf: nf(x + na(x + a(x)) + f(na(x + a(x)))),
    ),
    "normed-stream": (
        "You add to the normalized x: x = norm(x), then x + f(x). So the stream itself is "
        "normalized at each step, and the direct path is lost. Normalize only what the sub-layer "
        "reads.",
        _normed_stream,
        None,
    ),
    "old-stream": (
        "The second addition uses the x of the beginning: what attention has found is lost to "
        "the stream.",
        lambda x, a, f, na, nf: x + f(nf(x + a(na(x)))),
        lambda x, a, f, na, nf: nf(x + f(na(x + a(x)))),
    ),
    "norms-swapped": (
        "The two norms have changed places. Attention has the `attention_norm`, the MLP the "
        "`feed_forward_norm`.",
        lambda x, a, f, na, nf: _pre(x, a, f, nf, na),
        lambda x, a, f, na, nf: _post(x, a, f, nf, na),
    ),
    "one-norm": (
        "Both sub-layers use attention's norm. Each has weights of its own.",
        lambda x, a, f, na, nf: _pre(x, a, f, na, na),
        lambda x, a, f, na, nf: _post(x, a, f, na, na),
    ),
    "one-norm-network": (
        "Both sub-layers use the MLP's norm. Each has weights of its own.",
        lambda x, a, f, na, nf: _pre(x, a, f, nf, nf),
        lambda x, a, f, na, nf: _post(x, a, f, nf, nf),
    ),
    "no-norms": (
        "No norm is ever used.",
        lambda x, a, f, na, nf: _pre(x, a, f, lambda t: t, lambda t: t),
        lambda x, a, f, na, nf: _post(x, a, f, lambda t: t, lambda t: t),
    ),
    "norms-without-weights": (
        "The norms' own weights are never used. Call the modules that `__init__` has made: "
        "`self.attention_norm` and `self.feed_forward_norm`.",
        lambda x, a, f, na, nf: _pre(x, a, f, _bare_norm, _bare_norm),
        lambda x, a, f, na, nf: _post(x, a, f, _bare_norm, _bare_norm),
    ),
    "no-norm-attention": (
        "Attention's norm is never used.",
        lambda x, a, f, na, nf: _pre(x, a, f, lambda t: t, nf),
        lambda x, a, f, na, nf: _post(x, a, f, lambda t: t, nf),
    ),
    "no-norm-network": (
        "The MLP's norm is never used.",
        lambda x, a, f, na, nf: _pre(x, a, f, na, lambda t: t),
        lambda x, a, f, na, nf: _post(x, a, f, na, lambda t: t),
    ),
    "both-places": (
        "The norm stands before the sub-layer *and* after the addition. It is one or the other.",
        lambda x, a, f, na, nf: _post(x, lambda t: a(na(t)), lambda t: f(nf(t)), na, nf),
        lambda x, a, f, na, nf: _post(x, lambda t: a(na(t)), lambda t: f(nf(t)), na, nf),
    ),
    "parallel": (
        "Attention and MLP both read the same x, side by side. (GPT-J does so.) Here the MLP reads "
        "what attention has already changed.",
        lambda x, a, f, na, nf: x + a(na(x)) + f(nf(x)),
        lambda x, a, f, na, nf: nf(na(x + a(x)) + f(x)),
    ),
    "network-first": (
        "The MLP stands before attention; it is the other way round.",
        lambda x, a, f, na, nf: _pre(x, f, a, nf, na),
        lambda x, a, f, na, nf: _post(x, f, a, nf, na),
    ),
    "norm-on-the-way-out": (
        "The norm is applied to what the sub-layer gives, x + norm(f(x)); in neither form does it "
        "stand there.",
        _normed_on_the_way_out,
        _normed_on_the_way_out,
    ),
    "no-network": (
        "The MLP is never used.",
        lambda x, a, f, na, nf: x + a(na(x)),
        lambda x, a, f, na, nf: na(x + a(x)),
    ),
    "no-attention": (
        "Attention is never used.",
        lambda x, a, f, na, nf: x + f(nf(x)),
        lambda x, a, f, na, nf: nf(x + f(x)),
    ),
}


def _parts(block, mask, attend=None):
    attend = attend or (lambda t: block.attention(t, mask=mask))
    return attend, block.feed_forward, block.attention_norm, block.feed_forward_norm


def _wired(pre, post) -> _Kept:
    """A block from what it does when the norm stands first, and when it stands last."""

    def wire(block, x, mask=None):
        return (pre if block.norm_first else post)(x, *_parts(block, mask))

    return spoiled(_BLOCKS, wire)


def _masked(change) -> _Kept:
    """The right block, with another mask: change(mask, x)."""
    return spoiled(_BLOCKS, lambda block, x, mask=None: block(x, mask=change(mask, x)))


def _always_causal(block, x, mask=None):
    parts = _parts(block, mask, lambda t: block.attention(t, mask=mask, causal=True))
    return (_pre if block.norm_first else _post)(x, *parts)


def _form_variants() -> dict[str, Variant]:
    """Each wrong wiring in both forms, and in one of them with the other right."""
    found = {}
    for name, (says, pre, post) in _WIRINGS.items():
        both = _wired(pre, post or _post)
        found[name] = Variant(says, spoil=both)
        if post is None:
            continue
        for first, form, other in ((True, "pre", "Post-norm"), (False, "post", "Pre-norm")):

            def one(case, right, first=first, both=both):
                return both(case, right) if case.build["norm_first"] == first else right

            where = f"{other} is right. With `norm_first={first}`: {says[0].lower()}{says[1:]}"
            found[f"{name}, {form}"] = Variant(where, spoil=one)
    return found


def _cut(mask, axis):
    """The mask with the first entry of an axis for all of them."""
    return mask if mask is None or mask.dim() < -axis else mask.narrow(axis, 0, 1)


BLOCK = Exercise(
    name="TransformerBlock",
    lesson=LESSON,
    title="the block, pre-norm and post-norm",
    domain=Domain(
        kinds={
            "form": ("pre-norm", "post-norm"),
            "mask": MASKS,
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one token",
                "eleven tokens",
                "one head",
            ),
            "numbers": NUMBERS,
        },
        make=_make_block,
        edges=NOTHING,
    ),
    special=_block_twins,
    witness=TransformerBlock,
    reference=TransformerBlock,
    properties=(_tokens_erased, _nothing_to_attend),
    axes=("batch", "tokens", "d_model"),
    tolerance=3e-5,
    hints=(
        "Two sub-layers, and each of them is done in the same way. Write the one line for "
        "attention first; the other has the same form.",
        "Pre-norm: what a sub-layer reads is normalized, what it gives is added to the x that was "
        "not normalized. Post-norm: the sum is normalized.",
        "The second sub-layer works on the x that the first one has changed. Each sub-layer has "
        "a norm of its own.",
    ),
    variants={
        "swapped": Variant(
            "Pre- and post-norm are the wrong way round: with `norm_first=True` the norm stands "
            "before the sub-layer.",
            spoil=_wired(_post, _pre),
        ),
        "always-pre": Variant(
            "Pre-norm is right. With `norm_first=False` the norm should stand after the addition.",
            spoil=_wired(_pre, _pre),
        ),
        "always-post": Variant(
            "Post-norm is right. With `norm_first=True` the norm stands before the sub-layer.",
            spoil=_wired(_post, _post),
        ),
        **_form_variants(),
        "mask-inverted": Variant(
            "You turn the mask round before you hand it on. Our attention takes True = may "
            "attend, as it comes; it is PyTorch's that wants the other.",
            spoil=_masked(lambda mask, x: None if mask is None else ~mask),
        ),
        "mask-ignored": Variant(
            "The mask is not handed to attention.", spoil=_masked(lambda mask, x: None)
        ),
        "own-triangle": Variant(
            "Whenever there is a mask you use a causal one of your own. Hand on the one that came.",
            spoil=_masked(lambda mask, x: None if mask is None else causal_mask(x.shape[1])),
        ),
        "always-causal": Variant(
            "Your tokens never look ahead, whether the mask says so or not. The block itself is "
            "not causal: the mask alone decides.",
            spoil=spoiled(_BLOCKS, _always_causal),
        ),
        "mask-first-row": Variant(
            "You use the first query's row of the mask for all queries.",
            spoil=_masked(lambda mask, x: _cut(mask, -2)),
        ),
        "mask-first-head": Variant(
            "You use the first head's mask for all heads.",
            spoil=_masked(lambda mask, x: _cut(mask, -3)),
        ),
        "mask-first-sequence": Variant(
            "You use the first sequence's mask for the whole batch.",
            spoil=_masked(lambda mask, x: _cut(mask, -4)),
        ),
    },
)


# --- DecoderBlock ---------------------------------------------------------------------------


class DecoderBlock(Block):
    """The package's block with cross-attention, pre-norm."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff=d_ff, cross=True)

    def forward(self, x, context, mask=None, context_mask=None):
        """x (batch, tokens, d_model), context (batch, keys, d_model)."""
        return super().forward(x, context, mask=mask, context_mask=context_mask)


_DECODERS = built(DecoderBlock)


def _make_decoder(kind, seed):
    tokens, keys, heads, d_head, d_ff = unequal(seed, 5, 3)
    sizes = kind["sizes"]
    batch = 1 if sizes == "a batch of one" else 2  # few: some answers go sequence by sequence
    tokens = {"one token": 1, "nine tokens": 9}.get(sizes, tokens)
    keys = {"one key in the context": 1, "as many keys as tokens": tokens}.get(sizes, keys)
    masks = {
        "mask": _mask(kind["mask"], seed + 20, batch, heads, tokens, tokens),
        "context_mask": _mask(
            kind["context_mask"].replace(" for the context", ""),
            seed + 40, batch, heads, tokens, keys,
        ),
    }  # fmt: skip
    build = {"d_model": heads * d_head, "n_heads": heads, "d_ff": d_ff}
    x, context = randn(seed + 10, *((batch, n, heads * d_head) for n in (tokens, keys)))
    if kind["numbers"] == "a context about 5":
        context = context + 5
    elif kind["numbers"] == "a context of zeros":
        context = 0 * context
    else:
        x = _numbers(kind["numbers"], x)
    return Case(
        (x, context),
        {name: mask for name, mask in masks.items() if mask is not None},
        build=build,
        weights=_weights(seed + 30, DecoderBlock(**build)),
    )


def _decoder(wire):
    """wire(block, x, context, see, ask, mask, context_mask) as a spoiler of what is right."""

    def whole(block, x, context, mask=None, context_mask=None):
        see = lambda t: block.attention(t, mask=mask)  # noqa: E731
        ask = lambda t: block.cross_attention(t, context, mask=context_mask)  # noqa: E731
        return wire(block, x, context, see, ask, mask, context_mask)

    return spoiled(_DECODERS, whole)


def _see(s, x, see):
    return x + see(s.attention_norm(x))


def _think(s, x):
    return x + s.feed_forward(s.feed_forward_norm(x))


def _three(s, x, see, ask):
    x = _see(s, x, see)
    return _think(s, x + ask(s.cross_norm(x)))


def _with_norms(s, x, see, ask, self_norm, cross_norm, network_norm):
    x = x + see(self_norm(x))
    x = x + ask(cross_norm(x))
    return x + s.feed_forward(network_norm(x))


def _normalized_stream(s, x, c, see, ask, m, cm):
    x = s.attention_norm(x)
    x = s.cross_norm(x + see(x))
    x = s.feed_forward_norm(x + ask(x))
    return x + s.feed_forward(x)


def _cross_first(s, x, c, see, ask, m, cm):
    x = x + ask(s.cross_norm(x))
    return _think(s, _see(s, x, see))


def _network_before_cross(s, x, c, see, ask, m, cm):
    x = _think(s, _see(s, x, see))
    return x + ask(s.cross_norm(x))


def _post_norm(s, x, c, see, ask, m, cm):
    x = s.attention_norm(x + see(x))
    x = s.cross_norm(x + ask(x))
    return s.feed_forward_norm(x + s.feed_forward(x))


def _cross_twice(s, x, c, see, ask, m, cm):
    x = _see(s, x, see)
    return _think(s, x + x + ask(s.cross_norm(x)))


def _old_x(s, x, c, see, ask, m, cm):
    return _think(s, x + ask(s.cross_norm(_see(s, x, see))))


def _normed_at_cross(s, x, c, see, ask, m, cm):
    x = s.cross_norm(_see(s, x, see))
    return _think(s, x + ask(x))


def _normed_at_the_network(s, x, c, see, ask, m, cm):
    x = _see(s, x, see)
    x = s.feed_forward_norm(x + ask(s.cross_norm(x)))
    return x + s.feed_forward(x)


def _other_norm_added(s, x, c, see, ask, m, cm):
    x = _see(s, x, see)
    x = x + ask(s.cross_norm(x))
    return s.cross_norm(x) + s.feed_forward(s.feed_forward_norm(x))


def _asks_as_before(s, x, c, see, ask, m, cm):
    normed = s.attention_norm(x)
    return _think(s, x + see(normed) + ask(s.cross_norm(normed)))


def _itself_in_the_context(s, x, c, see, ask, m, cm):
    x = _see(s, x, see)
    normed = s.cross_norm(x)
    mask = None if cm is None else F.pad(cm, (0, x.shape[1]), value=True)
    return _think(s, x + s.cross_attention(normed, torch.cat([c, normed], 1), mask=mask))


def _side_by_side(s, x, c, see, ask, m, cm):
    return _think(s, x + see(s.attention_norm(x)) + ask(s.cross_norm(x)))


def _context_with(norm):
    def wire(s, x, c, see, ask, m, cm):
        normed = getattr(s, norm)(c)
        return _three(s, x, see, lambda t: s.cross_attention(t, normed, mask=cm))

    return _decoder(wire)


_SHARED = (
    ("Cross-attention uses the MLP's norm; it has a `cross_norm`",
     "attention", "feed_forward", "feed_forward"),
    ("Self-attention uses the `cross_norm`; it has an `attention_norm`",
     "cross", "cross", "feed_forward"),
    ("Self-attention uses the MLP's norm; it has an `attention_norm`",
     "feed_forward", "cross", "feed_forward"),
    ("The MLP uses the self-attention's norm; it has a `feed_forward_norm`",
     "attention", "cross", "attention"),
    ("The MLP uses the `cross_norm`; it has a `feed_forward_norm`",
     "attention", "cross", "cross"),
)  # fmt: skip
_SWAPPED = "Two norms have changed places: each sub-layer has the norm of its own name."

DECODER = Exercise(
    name="DecoderBlock",
    lesson=LESSON,
    title="the decoder's block",
    domain=Domain(
        kinds={
            "mask": (
                "no mask",
                "causal mask",
                "padding mask",
                "causal and padding",
                "a mask per head",
                "a query with nothing to attend",
            ),
            "context_mask": tuple(
                f"{kind} for the context"
                for kind in (
                    "no mask",
                    "padding mask",
                    "padding in front",
                    "a mask per query",
                    "a mask per sequence",
                    "a mask per head",
                    *NOTHING,
                )
            ),
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one token",
                "nine tokens",
                "one key in the context",
                "as many keys as tokens",
            ),
            "numbers": (
                "ordinary numbers",
                "numbers about 30",
                "a context about 5",
                "a context of zeros",
            ),
        },
        make=_make_decoder,
        edges=(
            "a query with nothing to attend",
            *(f"{kind} for the context" for kind in NOTHING),
        ),
    ),
    witness=DecoderBlock,
    reference=DecoderBlock,
    properties=(_tokens_erased, _nothing_to_attend),
    axes=("batch", "tokens", "d_model"),
    tolerance=3e-5,
    hints=(
        "It is your pre-norm block with one more sub-layer in the middle, of the same form.",
        "In the middle the queries come from x, normalized, and keys and values from the context, "
        "as it is: the encoder has normalized it already.",
        "Two masks: `mask` says what x may see of itself, `context_mask` what it may see of the "
        "context.",
    ),
    variants={
        "cross-first": Variant(
            "Cross-attention stands before self-attention. First a token looks at its own "
            "sentence, then it asks the other.",
            spoil=_decoder(_cross_first),
        ),
        "network-before-cross": Variant(
            "The MLP stands before cross-attention. It comes last.",
            spoil=_decoder(_network_before_cross),
        ),
        "no-cross": Variant(
            "The context is never read: there are three sub-layers.",
            spoil=_decoder(lambda s, x, c, see, ask, m, cm: _think(s, _see(s, x, see))),
        ),
        "no-network": Variant(
            "The MLP is never used: there are three sub-layers.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: (
                    _see(s, x, see) + ask(s.cross_norm(_see(s, x, see)))
                )
            ),
        ),
        "no-attention": Variant(
            "x never looks at itself: there are three sub-layers.",
            spoil=_decoder(lambda s, x, c, see, ask, m, cm: _think(s, x + ask(s.cross_norm(x)))),
        ),
        "parallel": Variant(
            "Self- and cross-attention both read the same x, side by side. Here cross-attention "
            "reads what self-attention has already changed.",
            spoil=_decoder(_side_by_side),
        ),
        "cross-reads-x": Variant(
            "Cross-attention reads x instead of the context.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, t, mask=m)
                )
            ),
        ),
        "context-normed": Variant(
            "You normalize the context as well. It comes out of the encoder's last norm; only x "
            "is normalized here.",
            spoil=_context_with("cross_norm"),
        ),
        "context-normed-otherwise": Variant(
            "You normalize the context as well, with self-attention's norm. It comes out of the "
            "encoder's last norm; only x is normalized here.",
            spoil=_context_with("attention_norm"),
        ),
        "one-attention": Variant(
            "You ask the context with the self-attention's weights: the block has a "
            "`cross_attention` of its own.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.attention(t, c, mask=cm)
                )
            ),
        ),
        "attentions-swapped": Variant(
            "The two attentions have changed places: x looks at itself with the weights of "
            "`cross_attention`.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s,
                    x,
                    lambda t: s.cross_attention(t, mask=m),
                    lambda t: s.attention(t, c, mask=cm),
                )
            ),
        ),
        "no-residual": Variant(
            "After cross-attention nothing is added: what the context gives replaces x.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _think(s, ask(s.cross_norm(_see(s, x, see))))
            ),
        ),
        "no-residual-attention": Variant(
            "What self-attention gives replaces x: its addition is missing.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, 0 * x, lambda t: see(s.attention_norm(x)), ask
                )
            ),
        ),
        "no-residual-network": Variant(
            "What the MLP gives replaces x: its addition is missing.",
            spoil=_decoder(lambda s, x, c, see, ask, m, cm: _only_thought(s, x, see, ask)),
        ),
        "no-residuals": Variant(
            "The additions are missing: each sub-layer's result replaces x instead of being added.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: s.feed_forward(
                    s.feed_forward_norm(ask(s.cross_norm(see(s.attention_norm(x)))))
                )
            ),
        ),
        "twice": Variant(
            "At cross-attention x is added twice. Each sub-layer's result is added to x once.",
            spoil=_decoder(_cross_twice),
        ),
        "old-stream": Variant(
            "Cross-attention's result is added to the x of the beginning: what self-attention has "
            "found is lost to the stream.",
            spoil=_decoder(_old_x),
        ),
        "normed-stream": Variant(
            "You add to the normalized x, so the stream itself is normalized at each step. "
            "Normalize only what a sub-layer reads.",
            spoil=_decoder(_normalized_stream),
        ),
        "normed-stream-cross": Variant(
            "At cross-attention you add to the normalized x: there the direct path is lost. "
            "Normalize only what a sub-layer reads.",
            spoil=_decoder(_normed_at_cross),
        ),
        "normed-stream-network": Variant(
            "At the MLP you add to the normalized x: there the direct path is lost. Normalize only "
            "what a sub-layer reads.",
            spoil=_decoder(_normed_at_the_network),
        ),
        "other-norm-added": Variant(
            "At the MLP you add to an x that `cross_norm` has normalized. Add to the stream as it "
            "is after cross-attention.",
            spoil=_decoder(_other_norm_added),
        ),
        "asks-as-before": Variant(
            "What asks the context is the token as it was before self-attention. It asks with what "
            "self-attention has made of it.",
            spoil=_decoder(_asks_as_before),
        ),
        "itself-in-the-context": Variant(
            "The tokens of x stand beside the context in cross-attention. It reads the context "
            "alone; x has looked at itself already.",
            spoil=_decoder(_itself_in_the_context),
        ),
        "context-cut": Variant(
            "Of the context you read only as many tokens as x has. It may be longer: all of it is "
            "there to be asked.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s,
                    x,
                    see,
                    lambda t: s.cross_attention(
                        t,
                        c[:, : x.shape[1]],
                        mask=None if cm is None else cm[..., : x.shape[1]],
                    ),
                )
            ),
        ),
        "norm-shared": Variant(
            "Cross-attention uses the self-attention's norm; it has a `cross_norm` of its own.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _with_norms(
                    s, x, see, ask, s.attention_norm, s.attention_norm, s.feed_forward_norm
                )
            ),
        ),
        **{
            f"norm-shared-{i}": Variant(
                f"{who} of its own.",
                spoil=_decoder(
                    lambda s, x, c, see, ask, m, cm, names=names: _with_norms(
                        s, x, see, ask, *(getattr(s, f"{name}_norm") for name in names)
                    )
                ),
            )
            for i, (who, *names) in enumerate(_SHARED)
        },
        "norms-without-weights": Variant(
            "The norms' own weights are never used. Call the modules that `__init__` has made.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _with_norms(
                    s, x, see, ask, _bare_norm, _bare_norm, _bare_norm
                )
            ),
        ),
        "one-norm": Variant(
            "All sub-layers use the self-attention's norm; each has one of its own.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _with_norms(
                    s, x, see, ask, s.attention_norm, s.attention_norm, s.attention_norm
                )
            ),
        ),
        **{
            f"norms-swapped-{i}": Variant(
                _SWAPPED,
                spoil=_decoder(
                    lambda s, x, c, see, ask, m, cm, names=names: _with_norms(
                        s, x, see, ask, *(getattr(s, name) for name in names)
                    )
                ),
            )
            for i, names in enumerate(
                itertools.permutations(("attention_norm", "cross_norm", "feed_forward_norm"))
            )
            if i
        },
        "not-normed": Variant(
            "What cross-attention reads is not normalized.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _with_norms(
                    s, x, see, ask, s.attention_norm, lambda t: t, s.feed_forward_norm
                )
            ),
        ),
        "context-mask-ignored": Variant(
            "The context's mask is not handed on: padding in the context is read.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, c)
                )
            ),
        ),
        "mask-ignored": Variant(
            "The mask for x is not handed on: each token sees those after it.",
            spoil=_decoder(lambda s, x, c, see, ask, m, cm: _three(s, x, s.attention, ask)),
        ),
        "mask-inverted": Variant(
            "You turn the mask for x round. Our attention takes True = may attend, as it comes.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, lambda t: s.attention(t, mask=None if m is None else ~m), ask
                )
            ),
        ),
        "context-mask-inverted": Variant(
            "You turn the context's mask round. Our attention takes True = may attend, as it "
            "comes.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, c, mask=None if cm is None else ~cm)
                )
            ),
        ),
        "causal-unless-told": Variant(
            "Where no mask is given, your tokens of x do not look ahead. None means that all may "
            "attend to all: the block itself is not causal.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, lambda t: s.attention(t, mask=m, causal=m is None), ask
                )
            ),
        ),
        "always-causal": Variant(
            "The tokens of x never look ahead, whether the mask says so or not. The block itself "
            "is not causal: the mask alone decides.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, lambda t: s.attention(t, mask=m, causal=True), ask
                )
            ),
        ),
        "masks-ignored": Variant(
            "Neither mask is handed on.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, s.attention, lambda t: s.cross_attention(t, c)
                )
            ),
        ),
        "masks-swapped": Variant(
            "The two masks have changed places: `mask` is for x, `context_mask` for the context.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s,
                    x,
                    lambda t: s.attention(t, mask=cm),
                    lambda t: s.cross_attention(t, c, mask=m),
                )
            ),
        ),
        "context-mask-first-head": Variant(
            "You use the first head's mask of the context for all heads.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, c, mask=_cut(cm, -3))
                )
            ),
        ),
        "context-mask-first-sequence": Variant(
            "You use the first sequence's mask of the context for the whole batch.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, c, mask=_cut(cm, -4))
                )
            ),
        ),
        "context-mask-first-row": Variant(
            "You use the first query's row of the context's mask for all queries.",
            spoil=_decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, c, mask=_cut(cm, -2))
                )
            ),
        ),
        "post-norm": Variant(
            "This is the post-norm decoder block. Asked for is pre-norm.",
            spoil=_decoder(_post_norm),
        ),
    },
)


def _only_thought(s, x, see, ask):
    x = _see(s, x, see)
    x = x + ask(s.cross_norm(x))
    return s.feed_forward(s.feed_forward_norm(x))


# --- block_parameters -----------------------------------------------------------------------


def _make_count(kind, seed):
    a, b, c, d_ff = unequal(seed, 4, high=9)
    n_kv, d_head = {
        "fewer heads of keys and values": (b, c),
        "one head of keys and values": (1, c),
        "as many heads of keys and values": (b * a, c),
    }[kind["sharing"]]
    n_heads = a * b  # a multiple of n_kv, and above it, but where there are as many
    if kind["sizes"] == "one head":
        if kind["sharing"] == "fewer heads of keys and values":
            return None
        n_heads = n_kv = 1
    if kind["sizes"] == "heads of one number":
        d_head = 1
    if kind["sizes"] == "as large as Llama's":
        n_heads, d_head, d_ff = 32, 128, 14336 + d_ff
        n_kv = {"one head of keys and values": 1, "as many heads of keys and values": 32}.get(
            kind["sharing"], 8
        )
    elif kind["sizes"] != "an MLP narrower than d_model":
        d_ff = d_ff + 4 * n_heads * d_head
    return Case((n_heads * d_head, n_heads, n_kv, d_ff, kind["network"] == "with a gate"))


def block_parameters(d_model, n_heads, n_kv_heads, d_ff, gated):
    """Counted, on a block that takes no memory."""
    with torch.device("meta"):
        block = Block(
            d_model, n_heads, n_kv_heads, d_ff, gated=gated, bias=False, norm="rms",
            activation="silu",
        )  # fmt: skip
    return sum(p.numel() for p in block.parameters())


def _counted(
    attention=lambda d, h, kv: 2 * d * d + 2 * d * (d // h) * kv,
    matrices=None,
    norms=lambda d: 2 * d,
):
    def answer(d_model, n_heads, n_kv_heads, d_ff, gated):
        many = (3 if gated else 2) if matrices is None else matrices
        return attention(d_model, n_heads, n_kv_heads) + many * d_model * d_ff + norms(d_model)

    return answer


def _biases(cases, values, expected):
    """What there is too much is what the biases of some matrices would have."""
    of_attention = {
        "": lambda d, keys: 0,
        "all four": lambda d, keys: 2 * d + 2 * keys,
        "all four, as if nothing were shared": lambda d, keys: 4 * d,
        "queries, keys and values": lambda d, keys: d + 2 * keys,
        "queries, keys and values, as if nothing were shared": lambda d, keys: 3 * d,
        "the output": lambda d, keys: d,
    }
    of_mlp = {
        "": lambda d, d_ff, gated: 0,
        "all": lambda d, d_ff, gated: (1 + gated) * d_ff + d,
        "all, but the gate": lambda d, d_ff, gated: d_ff + d,
        "those to d_ff": lambda d, d_ff, gated: (1 + gated) * d_ff,
        "one to d_ff": lambda d, d_ff, gated: d_ff,
    }

    def explains(attention, mlp):
        for case, value, right in zip(cases, values, expected, strict=True):
            d, heads, kv, d_ff, gated = case.args
            if value - right != attention(d, kv * d // heads) + mlp(d, d_ff, gated):
                return False
        return True

    if any(explains(a, m) for a, m in itertools.product(of_attention.values(), of_mlp.values())):
        return Finding("biases", "You counted biases as well. The block of this exercise has none.")
    return None


COUNT = Exercise(
    name="block_parameters",
    lesson=LESSON,
    title="count a block's parameters",
    domain=Domain(
        kinds={
            "network": ("without a gate", "with a gate"),
            "sharing": (
                "fewer heads of keys and values",
                "as many heads of keys and values",
                "one head of keys and values",
            ),
            "sizes": (
                "ordinary sizes",
                "an MLP narrower than d_model",
                "heads of one number",
                "one head",
                "as large as Llama's",
            ),
        },
        make=_make_count,
    ),
    witness=block_parameters,
    reference=block_parameters,
    properties=(_biases,),
    hints=(
        "List the matrices with their shapes: four in attention, two or three in the MLP. Then "
        "the norms.",
        "Two of attention's matrices are d_model × d_model. The other two are narrower if keys "
        "and values are shared: how many numbers has one head?",
        "An RMSNorm has one number for each of the d_model; a block has two norms.",
    ),
    variants={
        "sharing-forgotten": Variant(
            "Right when every head has its own keys and values. With fewer of these heads, W_k "
            "and W_v are narrower: n_kv_heads · d_head columns, and d_head is d_model / n_heads.",
            _counted(lambda d, h, kv: 4 * d * d),
        ),
        "counted-once": Variant(
            "Keys and values are counted once. They are two matrices, W_k and W_v.",
            _counted(lambda d, h, kv: 2 * d * d + d * (d // h) * kv),
        ),
        "values-full": Variant(
            "Only the keys are shared in yours; the values have as few heads.",
            _counted(lambda d, h, kv: 3 * d * d + d * (d // h) * kv),
        ),
        "out-narrow": Variant(
            "The output projection is d_model × d_model: there are still all the query heads.",
            _counted(lambda d, h, kv: d * d + 3 * d * (d // h) * kv),
        ),
        "all-narrow": Variant(
            "All four matrices of attention are narrow in yours. Only keys and values have fewer "
            "heads; queries and output have all of them.",
            _counted(lambda d, h, kv: 4 * d * (d // h) * kv),
        ),
        "one-head-wide": Variant(
            "W_k and W_v have the columns of one head in yours. There are n_kv_heads of them.",
            _counted(lambda d, h, kv: 2 * d * d + 2 * d * (d // h)),
        ),
        "one-column-a-head": Variant(
            "W_k and W_v have n_kv_heads columns in yours, one for each head. Each head has "
            "d_model / n_heads of them.",
            _counted(lambda d, h, kv: 2 * d * d + 2 * d * kv),
        ),
        "wide-heads": Variant(
            "Your heads are d_model / n_kv_heads wide. Every head, of queries or of keys and "
            "values, is d_model / n_heads wide.",
            _counted(lambda d, h, kv: 2 * d * h * (d // kv) + 2 * d * d),
        ),
        "queries-times-heads": Variant(
            "Queries and output are multiplied by the number of heads. The heads are cut out of "
            "one matrix.",
            _counted(lambda d, h, kv: 2 * d * d * h + 2 * d * (d // h) * kv),
        ),
        "two-thirds": Variant(
            "With a gate you cut d_ff to two thirds. `d_ff` is the width that the MLP has: whoever "
            "chose it has done that already.",
            lambda d, h, kv, d_ff, gated: block_parameters(
                d, h, kv, 2 * d_ff // 3 if gated else d_ff, gated
            ),
        ),
        "gate-of-vectors": Variant(
            "The gate has one number for each unit in yours. It is a matrix as large as `up`, "
            "d_model × d_ff.",
            lambda d, h, kv, d_ff, gated: (
                block_parameters(d, h, kv, d_ff, False) + (d_ff if gated else 0)
            ),
        ),
        "gate-of-units": Variant(
            "The gate is d_ff × d_ff in yours. It reads x, as `up` does: d_model × d_ff.",
            lambda d, h, kv, d_ff, gated: (
                block_parameters(d, h, kv, d_ff, False) + (d_ff**2 if gated else 0)
            ),
        ),
        "own-width": Variant(
            "Your MLP is 4 · d_model wide, whatever `d_ff` says.",
            lambda d, h, kv, d_ff, gated: block_parameters(d, h, kv, 4 * d, gated),
        ),
        "gate-inverted": Variant(
            "Three matrices with a gate, two without: yours is the wrong way round.",
            lambda d, h, kv, d_ff, gated: block_parameters(d, h, kv, d_ff, not gated),
        ),
        "no-out": Variant(
            "Attention's output projection is missing.",
            _counted(lambda d, h, kv: d * d + 2 * d * (d // h) * kv),
        ),
        "times-heads": Variant(
            "You multiplied by the number of heads. They are cut out of the same matrices.",
            _counted(lambda d, h, kv: 2 * d * d * h + 2 * d * d * kv),
        ),
        "two-matrices": Variant(
            "Right without a gate; a gated MLP has three matrices.", _counted(matrices=2)
        ),
        "three-matrices": Variant(
            "Right with a gate; a plain MLP has two matrices.", _counted(matrices=3)
        ),
        "no-network": Variant("The MLP is not counted.", _counted(matrices=0)),
        "no-norms": Variant(
            "The norms are missing: few numbers, but some.", _counted(norms=lambda d: 0)
        ),
        "one-norm": Variant("A block has two norms.", _counted(norms=lambda d: d)),
        "norms-of-a-head": Variant(
            "Your norms have the numbers of one head. They normalize whole tokens: d_model numbers "
            "each.",
            lambda d, h, kv, d_ff, gated: (
                block_parameters(d, h, kv, d_ff, gated) - 2 * d + 2 * (d // h)
            ),
        ),
        "norms-of-one-number": Variant(
            "Each norm has a single number in yours. An RMSNorm has a weight for each of the "
            "d_model numbers of a token.",
            _counted(norms=lambda d: 2),
        ),
        "layer-norms": Variant(
            "You counted a bias in each norm. An RMSNorm has none.", _counted(norms=lambda d: 4 * d)
        ),
    },
)


# --- by_path_length (graded) ----------------------------------------------------------------


def _make_paths(kind, seed):
    d, many = unequal(seed, 2, low=3, high=6)
    many = {
        "no sub-layer": 0,
        "one sub-layer": 1,
        "two sub-layers": 2,
        "six sub-layers": 6,  # more would be slow for those who list every order
    }.get(kind["how many"], many)
    d = {"d = 1": 1, "as many numbers as lengths": many + 1}.get(kind["width"], d)
    x, stack = randn(seed, (d,), (many, d, d))
    stack = stack / d**0.5
    if kind["numbers"] == "x of zeros":
        x = 0 * x
    elif kind["numbers"] == "sub-layers of zeros":
        stack = 0 * stack
    elif kind["numbers"] == "the last sub-layer zero":
        stack[-1:] = 0
    elif kind["numbers"] == "large numbers":
        x = 100 * x
    # Nothing is trained through it, so writing into one table is as good as making new rows.
    return Case((x, stack), gradients=False)


def _paths(x, sublayers, *, order=1):
    """Every subset of the sub-layers, one after another; those of equal length summed."""
    rows = [torch.zeros_like(x) for _ in range(len(sublayers) + 1)]
    for taken in itertools.product((False, True), repeat=len(sublayers)):
        y = x
        for use, matrix in list(zip(taken, sublayers, strict=True))[::order]:
            y = y @ matrix if use else y
        rows[sum(taken)] = rows[sum(taken)] + y
    return torch.stack(rows)


def _in_any_order(x, sublayers):
    """Every order of every choice of sub-layers, gathered by what has been taken."""
    n = len(sublayers)
    sums = {0: x}  # what has been taken, in bits -> the sum of all orders
    for taken in range(1, 2**n):
        last = [i for i in range(n) if taken >> i & 1]
        sums[taken] = sum(sums[taken ^ 1 << i] @ sublayers[i] for i in last)
    rows = [torch.zeros_like(x) for _ in range(n + 1)]
    for taken, value in sums.items():
        rows[taken.bit_count()] = rows[taken.bit_count()] + value
    return torch.stack(rows)


def _powers(x, sublayers, weigh=lambda n, m: 1):
    """The sum of all sub-layers, taken again and again."""
    n, rows = len(sublayers), [x]
    for _ in sublayers:
        rows.append(rows[-1] @ sublayers.sum(0))
    return torch.stack([weigh(n, m) * row for m, row in enumerate(rows)])


def _after_each(x, sublayers):
    rows = [x]
    for matrix in sublayers:
        rows.append(rows[-1] + rows[-1] @ matrix)
    return torch.stack(rows)


def _largest_kept(cases, values, expected):
    """Numbers that only float64 can hold are lost."""
    for case, value in zip(cases, values, strict=True):
        if case.nan == _NOT_KEPT and not value.isfinite().all():
            return Finding(*_NOT_KEPT)
    return None


_NOT_KEPT = (
    "float32",
    "Right for float32. Here the numbers are float64, and so large that float32 cannot hold them: "
    "somewhere yours become float32. Make new tensors of x's type.",
)


def _largest() -> list[Case]:
    x, stack = (t.double() for t in randn(8, (4,), (3, 4, 4)))
    return [
        Case(
            (1e40 * x, stack),
            gradients=False,
            note="numbers that float32 cannot hold",
            nan=_NOT_KEPT,
            edge=True,
        )
    ]


def _neighbours_only(x, sublayers):
    """Only paths whose sub-layers follow each other without a gap."""
    rows = [x] + [torch.zeros_like(x) for _ in sublayers]
    for start in range(len(sublayers)):
        y = x
        for stop in range(start, len(sublayers)):
            y = y @ sublayers[stop]
            rows[stop - start + 1] = rows[stop - start + 1] + y
    return torch.stack(rows)


def _upward(x, sublayers):
    rows = [x] + [torch.zeros_like(x) for _ in sublayers]
    for matrix in sublayers:
        for m in range(1, len(rows)):
            rows[m] = rows[m] + rows[m - 1] @ matrix
    return torch.stack(rows)


def _by_sublayer(x, sublayers):
    rows = [x]
    for matrix in sublayers:
        rows.append(sum(rows) @ matrix)
    return torch.stack(rows)


def _first_only(x, sublayers):
    """One path of each length: the first m sub-layers."""
    rows = [x]
    for matrix in sublayers:
        rows.append(rows[-1] @ matrix)
    return torch.stack(rows)


def _last_only(x, sublayers):
    """One path of each length: the last m sub-layers."""
    rows = [x]
    for matrix in sublayers:
        rows = [x, *(row @ matrix for row in rows)]
    return torch.stack(rows)


def _counts(right):
    """How many paths there are of each length, as a column."""
    n = len(right) - 1
    return torch.tensor([math.comb(n, m) for m in range(n + 1)])[:, None]


PATHS = Exercise(
    name="by_path_length",
    lesson=LESSON,
    title="the paths through a net (graded)",
    domain=Domain(
        kinds={
            "how many": (
                "several sub-layers",
                "no sub-layer",
                "one sub-layer",
                "two sub-layers",
                "six sub-layers",
            ),
            "width": ("several numbers", "d = 1", "as many numbers as lengths"),
            "numbers": (
                "ordinary numbers",
                "large numbers",
                "x of zeros",
                "sub-layers of zeros",
                "the last sub-layer zero",
            ),
        },
        make=_make_paths,
        edges=("no sub-layer", "x of zeros", "sub-layers of zeros", "the last sub-layer zero"),
    ),
    special=_largest,
    witness=_paths,
    properties=(_largest_kept,),
    axes=("path length", "d_model"),
    tolerance=3e-5,
    hints=(
        "With two sub-layers there are four paths: none, the first, the second, both. Which of "
        "them go into which row?",
        "Either list every choice (`itertools.combinations` keeps the order), or go through the "
        "net once and keep the sums apart: what does a sub-layer do to paths of length m?",
        "A sub-layer leaves every path as it is and makes of each a path that is one longer.",
    ),
    variants={
        "reversed": Variant(
            "Your paths meet the sub-layers in the reverse order: x passes the first one first. "
            "(With matrices the order matters.)",
            lambda x, sublayers: _paths(x, sublayers, order=-1),
        ),
        "averaged": Variant(
            "You average the paths of equal length; they are summed.",
            spoil=lambda case, right: right / _counts(right),
        ),
        "neighbours-only": Variant(
            "Only paths without a gap are counted. A path may take the first and the third "
            "sub-layer and skip the second.",
            _neighbours_only,
        ),
        "first-only": Variant(
            "Row m holds one path only, through the first m sub-layers. There are more paths of "
            "that length.",
            _first_only,
        ),
        "last-only": Variant(
            "Row m holds one path only, through the last m sub-layers: at each sub-layer all paths "
            "become one longer. Each of them may also skip it. What becomes of those?",
            spoil=lambda case, right: _last_only(*case.args),
        ),
        "identity-missing": Variant(
            "Row 0 is zero in yours. The path that takes no sub-layer is x itself.",
            spoil=lambda case, right: torch.cat([torch.zeros_like(right[:1]), right[1:]]),
        ),
        "first-row-missing": Variant(
            "The row of the path that takes no sub-layer is missing: there are n + 1 lengths, "
            "0 to n.",
            spoil=lambda case, right: right[1:],
        ),
        "last-row-missing": Variant(
            "The row of the path that takes every sub-layer is missing: there are n + 1 lengths, "
            "0 to n.",
            spoil=lambda case, right: right[:-1],
        ),
        "upside-down": Variant(
            "The rows stand upside down: row 0 is for the path that takes no sub-layer.",
            spoil=lambda case, right: right.flip(0),
        ),
        "cumulative": Variant(
            "Your rows add up: row m holds all paths of length up to m.",
            spoil=lambda case, right: right.cumsum(0),
        ),
        "total": Variant(
            "You give the net's output, the sum of all paths. Keep the lengths apart.",
            spoil=lambda case, right: right.sum(0),
        ),
        "by-sublayer": Variant(
            "Row m is what sub-layer m adds in the running net. That is another way to cut the "
            "sum; asked for are the paths by their length.",
            spoil=lambda case, right: _by_sublayer(*case.args),
        ),
        "taken-twice": Variant(
            "On some paths a sub-layer is taken more than once. Each is taken once or skipped. "
            "(Whoever goes through the rows: row m is made of row m − 1 as it was before this "
            "sub-layer.)",
            lambda x, sublayers: _upward(x, sublayers),
        ),
        "any-order": Variant(
            "Your paths go through the sub-layers in every order. x meets them in one order only, "
            "the first one first.",
            _in_any_order,
        ),
        "powers": Variant(
            "You multiply sums of all sub-layers. So a path may take one twice, and in any order; "
            "each is taken once or skipped, the first one first.",
            _powers,
        ),
        "all-alike": Variant(
            "You count the paths of a length and let all of them take the same average sub-layer. "
            "The sub-layers differ, so each path is worked out by itself.",
            lambda x, sublayers: _powers(
                x, sublayers, lambda n, m: math.comb(n, m) / max(1, n) ** m
            ),
        ),
        "after-each": Variant(
            "Row m is the whole net after m sub-layers. Asked for are the paths by their length.",
            spoil=lambda case, right: _after_each(*case.args),
        ),
        "longest-path-missing": Variant(
            "The last row is zero in yours. There is one path that takes every sub-layer.",
            spoil=lambda case, right: torch.cat([right[:-1], torch.zeros_like(right[:1])]),
        ),
        "columns": Variant(
            "You multiply from the left, matrix @ x. Here x is a row: `x @ matrix`.",
            lambda x, sublayers: _paths(x, sublayers.mT),
        ),
    },
)


# --- find the bug ---------------------------------------------------------------------------


def _tokens(seed, shape):
    """x, and an update with nothing near zero: what was dropped can be seen."""
    x, update = randn(seed, shape, shape)
    return x, update + update.sign()


def _make_drop(kind, seed):
    batch, _ = unequal(seed, 2, low=3)
    shape = {
        "a batch of one": (1, 60, 40),
        "one token": (batch, 1, 700),
        "d_model = 1": (batch, 700, 1),
    }.get(kind["sizes"], (batch, 30, 20))
    training, p = kind["mode"] == "in training", float(kind["p"].removeprefix("p = "))
    return Case(
        (*_tokens(seed, shape), p, training),
        random=training and 0 < p < 1,
        nan=_P_ONE if training and p == 1 else None,
    )


_P_ONE = (
    "p-one",
    "Right but for p = 1: all of the update is dropped then, and your code divides 0 by 0. What "
    "should it give instead?",
)


def _drop_twins() -> list[Case]:
    """The same inputs twice, with another seed of the randomness."""
    inputs = (*_tokens(5, (3, 30, 20)), 0.5, True)
    return [Case(inputs, random=True, seed=seed, note=_AGAIN) for seed in (2001, 2002)]


_AGAIN = "in training, the same inputs with another seed"


def _kept(case, value):
    """Which numbers of the update were kept, and what was added to x."""
    left = value.double() - case.args[0].double()
    return left.abs() > 1e-4, left


def _rests(cases, values, expected):
    """In use nothing is dropped."""
    for case, value in zip(cases, values, strict=True):
        _, update, p, training = case.args
        kept, left = _kept(case, value)
        if not training and p == 1 and not kept.any():
            return Finding(
                "drops-in-use",
                "With `training=False` and p = 1 all of the update is dropped. In use nothing may "
                "be, whatever p is.",
            )
        if not training and not kept.all() and kept.any():
            return Finding(
                "drops-in-use",
                "With `training=False` some of the update is dropped. In use nothing may be.",
            )
        if not training and not torch.allclose(left, update.double(), atol=1e-3) and p:
            if torch.allclose(left * (1 - p), update.double(), atol=1e-3):
                return Finding(
                    "scaled-in-use",
                    "With `training=False` the update is divided by 1 − p. In use it stays as it "
                    "is: the division belongs to what is kept in training.",
                )
            if torch.allclose(left, update.double() * (1 - p), atol=1e-3):
                return Finding(
                    "shrunk-in-use",
                    "With `training=False` the update is multiplied by 1 − p. In use it stays as "
                    "it is: the correction is made in training.",
                )
    return None


def _stream_spared(cases, values, expected):
    """In training x itself loses nothing."""
    for case, value in zip(cases, values, strict=True):
        if not case.random:
            continue
        x, update, p, _ = case.args
        gone = value == 0
        scaled = (x + update) / (1 - p)
        if gone.any() and torch.allclose(value[~gone].to(x), scaled[~gone], rtol=1e-4, atol=1e-4):
            return Finding(
                "stream-dropped",
                "In use nothing is dropped now. In training the sum is, x included: the direct "
                "path gets holes, in every layer others. Drop the update alone.",
            )
        if gone.double().mean() > p * p / 2:
            return Finding(
                "both-dropped",
                "x is dropped as well, apart from the update. Drop the update alone.",
            )
    return None


def _dropped_fairly(cases, values, expected):
    """A share p is gone, number by number, and what is left is divided by 1 − p."""
    drawn = [_kept(c, v)[0] for c, v in zip(cases, values, strict=True) if c.random]
    if all(k.all() or not k.any() for k in drawn):
        if any(k.all() for k in drawn) and not all(k.all() for k in drawn):
            return Finding(
                "whole-update",
                "You drop the whole update, or keep all of it. Each number is dropped by itself.",
            )
        if all(k.all() for k in drawn):
            return Finding(
                "all-kept",
                "In training no number of the update is dropped. Making all of them smaller or "
                "larger is not the same: a share p is to become 0.",
            )
    for case, value in zip(cases, values, strict=True):
        if not case.random:
            continue
        _, update, p, _ = case.args
        kept, left = _kept(case, value)
        some = kept.any() and not kept.all()
        batch, tokens, width = update.shape
        whole = (kept.all(-1) | ~kept.any(-1)).all() and width > 1
        if some and whole:
            return Finding(
                "whole-tokens",
                "You drop whole tokens (or whole sequences). Each number is dropped by itself.",
            )
        alike = (batch > 1 and (kept == kept[:1]).all()) or (
            tokens > 1 and (kept == kept[:, :1]).all()
        )
        if some and alike:
            return Finding(
                "one-mask",
                "All tokens lose the same numbers in yours. Each number of each token is dropped "
                "by itself.",
            )
        share = kept.double().mean().item()
        if abs(share - (1 - p)) > 6 * math.sqrt(p * (1 - p) / kept.numel()):
            return Finding(
                "share",
                f"In training with p = {p} a share of {share:.0%} is kept. p is the share that is "
                f"dropped, so {1 - p:.0%} should be kept.",
            )
        right = update.double() / (1 - p)
        if not torch.allclose(left[kept], right[kept], rtol=1e-4, atol=1e-4):
            times = left[kept] / update[kept].double()
            if times.std() < 1e-3 and abs(times.mean() - 1 / share) < 1e-4:
                return Finding(
                    "divided-by-the-count",
                    "What is kept is divided by the share that happened to be kept. Divide by "
                    "1 − p: what one number becomes must not depend on what befell the others.",
                )
            return Finding(
                "not-rescaled",
                "What is kept is not divided by 1 − p, so that in use, with nothing dropped, the "
                "updates would suddenly be larger on average than in training.",
            )
    return None


def _anew(cases, values, expected):
    """The same inputs with another seed lose other numbers."""
    twins = [
        _kept(case, value)[0]
        for case, value in zip(cases, values, strict=True)
        if case.note == _AGAIN
    ]
    if len(twins) == 2 and torch.equal(*twins):
        return Finding(
            "fixed-mask",
            "Every call drops the same numbers. They must be drawn anew each time: is there a "
            "seed, or a mask that is made only once?",
        )
    return None


def add_with_dropout(x, update, p, training):
    """x + dropout(update), dropping in training alone."""
    return x + F.dropout(update, p, training)


def _dropped(what, on=lambda training: training):
    return lambda x, update, p, training: what(x, update, lambda t: F.dropout(t, p, on(training)))


BUG = Exercise(
    name="add_with_dropout",
    lesson=LESSON,
    title="find the bugs: a dropout that never rests",
    domain=Domain(
        kinds={
            "mode": ("in use", "in training"),
            "p": ("p = 0.5", "p = 0.1", "p = 0.9", "p = 0", "p = 1"),
            "sizes": ("unequal sizes", "a batch of one", "one token", "d_model = 1"),
        },
        make=_make_drop,
        without={"repeat": "in training every call gives something else, and should"},
    ),
    special=_drop_twins,
    witness=add_with_dropout,
    reference=add_with_dropout,
    properties=(_rests, _stream_spared, _dropped_fairly, _anew),
    axes=("batch", "tokens", "d_model"),
    hints=(
        "Call it twice with training=False. Should the two be equal? Then with training=True and "
        "p near 1: what should be left?",
        "F.dropout has a third argument, and its default is not what is needed in use.",
        "What is dropped: the update, or the sum with x? If a number of x itself is dropped, the "
        "direct path has a hole.",
    ),
    variants={
        "as given": Variant(
            "The bugs are still in: two calls in use give two results.",
            _dropped(lambda x, u, drop: drop(x + u), lambda training: True),
            to_do=True,
        ),
        "always-on": Variant(
            "x is spared now. But the update is dropped in use too: `training` changes nothing.",
            _dropped(lambda x, u, drop: x + drop(u), lambda training: True),
        ),
        "inverted": Variant(
            "It drops in use and not in training: the wrong way round.",
            _dropped(lambda x, u, drop: x + drop(u), lambda training: not training),
        ),
        "never": Variant(
            "Nothing is ever dropped now. In training it should be.",
            _dropped(lambda x, u, drop: x + u),
        ),
        "x-dropped": Variant(
            "You drop x and keep the update. It is the update that is dropped.",
            _dropped(lambda x, u, drop: drop(x) + u),
        ),
        "x-lost": Variant(
            "x is gone: what is dropped or not is added to x.",
            _dropped(lambda x, u, drop: drop(u)),
        ),
    },
)

EXERCISES = [BLOCK, DECODER, COUNT, PATHS, BUG]
QUESTIONS = [
    Item(
        "06-vanish",
        LESSON,
        "32 blocks without the plus and without norms, f(f(f(…))). How large is the gradient at "
        "the first block?",
        (
            Option(
                "it vanishes: a product of many slopes goes to zero",
                "With small first weights, yes. A product of slopes above 1 does not.",
            ),
            Option(
                "it explodes: a product of many slopes grows without limit",
                "With large first weights, yes. A product of slopes below 1 does not.",
            ),
            Option(
                "it vanishes or explodes, depending on how large the first weights are",
                "Yes. Look below how narrow the range between the two is, and what takes the "
                "weights' influence away.",
                right=True,
            ),
        ),
    ),
    Item(
        "06-depth",
        LESSON,
        "A stack without the plus, 8 blocks deep, each with its norms. What will it have learnt "
        "after 300 steps?",
        (
            Option(
                "the same as with the plus, a little later",
                "The norms keep the gradient's size, and it does arrive. But what has become of "
                "the tokens? Look at the figure above.",
            ),
            Option(
                "how frequent each character is, and hardly anything else",
                "Yes: for that the output need not know which token stands where.",
                right=True,
            ),
            Option(
                "more: it is deeper",
                "A gradient reaches even the first block, you have measured it. But a block can do "
                "little with tokens that are all the same.",
            ),
        ),
    ),
    Item(
        "06-concat",
        LESSON,
        "Instead of adding, each sub-layer's result is put beside x. d_model = 768, 12 blocks "
        "of two sub-layers, each as wide as what it reads. How wide is the end?",
        (
            Option(
                "768 · 25", "That would be if each one added 768. Each is as wide as its input."
            ),
            Option(
                "768 · 2²⁴, some 13 billion",
                "Yes. And even at 768 more for each, every matrix would have to grow with depth.",
                right=True,
            ),
            Option("1536", "That is after the first sub-layer. There are 24."),
        ),
    ),
    Item(
        "06-dropout",
        LESSON,
        "Dropout with p = 0.5: half of the numbers become zero, the others are divided by 0.5. "
        "What stays as it was?",
        (
            Option(
                "the mean",
                "Yes: half as many numbers, each twice as large.",
                right=True,
            ),
            Option("the variance", "It grows: zeros and doubled numbers lie further apart."),
            Option("both", "The division can keep one of them. Which one?"),
            Option("neither", "The division is there for one of them."),
        ),
    ),
    Item(
        "06-quiz-gradient",
        LESSON,
        "A block has norms *and* a plus. What went wrong without the plus in what we measured?",
        (
            Option(
                "the gradient did not reach the first block",
                "It did, at every gain of the first weights: the norms take care of its size.",
            ),
            Option(
                "attention made the tokens alike, and nothing reminded a token of what it was",
                "Yes. The control with four blocks shows that this is a large part of it: where a "
                "token must look at itself, the stack learns again, without any plus. It is not "
                "all of it.",
                right=True,
            ),
            Option(
                "the numbers grew without limit",
                "Not with norms. Without norms it is the plus that makes them grow.",
            ),
        ),
    ),
    Item(
        "06-quiz-paths",
        LESSON,
        "How many paths lead through N blocks of two sub-layers each, if each may be taken or "
        "skipped?",
        (
            Option("2^N", "Often printed so. But a block has two sub-layers to take or skip."),
            Option("2N", "That is the number of sub-layers."),
            Option(
                "2^(2N)",
                "Yes: 2N choices, each of them taken or skipped. For 12 blocks 16.8 million.",
                right=True,
            ),
        ),
    ),
    Item(
        "06-quiz-encoder",
        LESSON,
        "What turns the block of an encoder such as BERT into that of a language model?",
        (
            Option(
                "a third sub-layer, cross-attention",
                "That is the decoder of a translator. A language model has no second sentence to "
                "ask.",
            ),
            Option(
                "a causal mask",
                "Yes: the same two sub-layers, and no token looks ahead.",
                right=True,
            ),
            Option(
                "the norm before the sub-layer instead of after it",
                "Both places occur in both kinds of model. It is about who may see whom.",
            ),
        ),
    ),
]
