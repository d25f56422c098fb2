"""Lesson 06: the parts put together, and stacked."""

from __future__ import annotations

import itertools
import math

import torch

from tfcourse.attention import causal_mask, padding_mask
from tfcourse.blocks import Block
from tfcourse.checks.exercise import Case, Exercise, Finding, Twin, Variant, randn
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


# --- TransformerBlock -----------------------------------------------------------------------


class TransformerBlock(Block):
    """The package's block, built as the exercise builds it."""

    def __init__(self, d_model, n_heads, d_ff, norm_first):
        super().__init__(d_model, n_heads, d_ff=d_ff, norm_first=norm_first)

    def forward(self, x, mask=None):
        """(batch, tokens, d_model), mask True = may attend."""
        return super().forward(x, mask=mask)


def _block_cases() -> list[Case]:
    cases = []
    for seed, batch, tokens, heads, d_head, d_ff, first in (
        (0, 2, 5, 3, 4, 20, True),
        (1, 3, 4, 2, 5, 7, False),
    ):
        build = {"d_model": heads * d_head, "n_heads": heads, "d_ff": d_ff, "norm_first": first}
        common = {"build": build, "weights": _weights(seed, TransformerBlock(**build))}
        (x,) = randn(seed + 10, (batch, tokens, heads * d_head))
        x = 2 * x + 0.5
        cases.append(Case((x,), **common, gradients=True, note="no mask"))
        mask = causal_mask(tokens)
        cases.append(Case((x,), {"mask": mask}, **common, gradients=True, note="causal mask"))
        changed = x.clone()
        changed[:, -1] += 3
        cases.append(
            Case(
                (changed,),
                {"mask": mask},
                **common,
                note="causal mask, last token changed",
                twin=Twin(
                    len(cases) - 1,
                    lambda base, this: (base[:, :-1], this[:, :-1]),
                    "future-leaks",
                    "The future leaks: when the last token changes, the outputs before it change "
                    "too. Is the mask handed to attention?",
                ),
            )
        )
        padding = padding_mask(torch.tensor([tokens, 2, tokens - 1][:batch]), tokens)
        cases.append(Case((x,), {"mask": padding}, **common, note="padding mask"))
        cases.append(Case((x[:1, :1],), **common, note="one token alone"))
    return cases


def _block(forward):
    """The block with another forward."""
    return type("TransformerBlock", (TransformerBlock,), {"forward": forward})


def _wired(pre, post):
    """A block from what it does when the norm stands first, and when it stands last."""

    def forward(self, x, mask=None):
        attend = lambda t: self.attention(t, mask=mask)  # noqa: E731
        parts = (attend, self.feed_forward, self.attention_norm, self.feed_forward_norm)
        return (pre if self.norm_first else post)(x, *parts)

    return _block(forward)


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


def _old_stream(x, a, f, na, nf):
    return x + f(nf(x + a(na(x))))


def _old_stream_post(x, a, f, na, nf):
    return nf(x + f(na(x + a(x))))


BLOCK = Exercise(
    name="TransformerBlock",
    lesson=LESSON,
    title="the block, pre-norm and post-norm",
    cases=_block_cases,
    witness=TransformerBlock,
    reference=TransformerBlock,
    axes=("batch", "tokens", "d_model"),
    tolerance=3e-5,
    hints=(
        "Two sub-layers, and each of them is done in the same way. Write the one line for "
        "attention first; the other has the same form.",
        "Pre-norm: what a sub-layer reads is normed, what it gives is added to the x that was "
        "not normed. Post-norm: the sum is normed.",
        "The second sub-layer works on the x that the first one has changed. Each sub-layer has "
        "a norm of its own.",
    ),
    variants={
        "swapped": Variant(
            "Pre- and post-norm are the wrong way round: with `norm_first=True` the norm stands "
            "before the sub-layer.",
            _wired(_post, _pre),
        ),
        "always-pre": Variant(
            "Pre-norm is right. With `norm_first=False` the norm should stand after the addition.",
            _wired(_pre, _pre),
        ),
        "always-post": Variant(
            "Post-norm is right. With `norm_first=True` the norm stands before the sub-layer.",
            _wired(_post, _post),
        ),
        "no-residual": Variant(
            "The additions are missing: a sub-layer's result replaces x instead of being added.",
            _wired(
                lambda x, a, f, na, nf: f(nf(a(na(x)))), lambda x, a, f, na, nf: nf(f(na(a(x))))
            ),
        ),
        "normed-stream": Variant(
            "You add to the normed x: x = norm(x), then x + f(x). So the stream itself is "
            "normed at each step, and the straight path is lost. Norm only what the sub-layer "
            "reads.",
            _wired(_normed_stream, _post),
        ),
        "old-stream": Variant(
            "The second addition uses the x of the beginning: what attention has found is lost to "
            "the stream.",
            _wired(_old_stream, _old_stream_post),
        ),
        "one-norm": Variant(
            "Both sub-layers use attention's norm. Each has weights of its own.",
            _wired(
                lambda x, a, f, na, nf: _pre(x, a, f, na, na),
                lambda x, a, f, na, nf: _post(x, a, f, na, na),
            ),
        ),
        "parallel": Variant(
            "Attention and network both read the same x, side by side. (GPT-J does so.) Here the "
            "network reads what attention has already changed.",
            _wired(
                lambda x, a, f, na, nf: x + a(na(x)) + f(nf(x)),
                lambda x, a, f, na, nf: nf(na(x + a(x)) + f(x)),
            ),
        ),
        "network-first": Variant(
            "The network stands before attention; it is the other way round.",
            _wired(
                lambda x, a, f, na, nf: _pre(x, f, a, nf, na),
                lambda x, a, f, na, nf: _post(x, f, a, nf, na),
            ),
        ),
        "norm-on-the-way-out": Variant(
            "The norm is applied to what the sub-layer gives, x + norm(f(x)); in neither form "
            "does it stand there.",
            _wired(_normed_on_the_way_out, _normed_on_the_way_out),
        ),
        "mask-inverted": Variant(
            "You turn the mask round before you hand it on. Our attention takes True = may "
            "attend, as it comes; it is PyTorch's that wants the other.",
            _block(
                lambda self, x, mask=None: TransformerBlock.forward(
                    self, x, None if mask is None else ~mask
                )
            ),
        ),
        "mask-ignored": Variant(
            "The mask is not handed to attention.",
            _block(lambda self, x, mask=None: TransformerBlock.forward(self, x)),
        ),
        "no-network": Variant(
            "The feed-forward network is never used.",
            _wired(
                lambda x, a, f, na, nf: x + a(na(x)),
                lambda x, a, f, na, nf: na(x + a(x)),
            ),
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


def _decoder_cases() -> list[Case]:
    cases = []
    for seed, batch, tokens, keys, heads, d_head, d_ff in (
        (0, 2, 5, 7, 3, 4, 20),
        (1, 3, 4, 3, 2, 5, 7),
    ):
        build = {"d_model": heads * d_head, "n_heads": heads, "d_ff": d_ff}
        common = {"build": build, "weights": _weights(seed, DecoderBlock(**build))}
        d = heads * d_head
        x, context = randn(seed + 10, (batch, tokens, d), (batch, keys, d))
        cases.append(Case((2 * x, context), **common, gradients=True, note="no masks"))
        masks = {
            "mask": causal_mask(tokens),
            "context_mask": padding_mask(torch.tensor([keys, 2, keys - 1][:batch]), keys),
        }
        cases.append(Case((2 * x, context), masks, **common, note="both masks"))
        for name, mask in masks.items():
            cases.append(Case((2 * x, context), {name: mask}, **common, note=f"{name} alone"))
        same = torch.flip(x, (1,))
        padding = {"mask": padding_mask(torch.tensor([2, tokens, 3][:batch]), tokens)}
        cases.append(Case((x, same), padding, **common, note="as many keys as tokens, padding"))
        cases.append(Case((x[:1, :1], context[:1]), **common, note="one token alone"))
    return cases


def _decoder(wire):
    def forward(self, x, context, mask=None, context_mask=None):
        see = lambda t: self.attention(t, mask=mask)  # noqa: E731
        ask = lambda t: self.cross_attention(t, context, mask=context_mask)  # noqa: E731
        return wire(self, x, context, see, ask, mask, context_mask)

    return type("DecoderBlock", (DecoderBlock,), {"forward": forward})


def _see(s, x, see):
    return x + see(s.attention_norm(x))


def _think(s, x):
    return x + s.feed_forward(s.feed_forward_norm(x))


def _three(s, x, see, ask):
    x = _see(s, x, see)
    return _think(s, x + ask(s.cross_norm(x)))


def _cross_first(s, x, c, see, ask, m, cm):
    x = x + ask(s.cross_norm(x))
    return _think(s, _see(s, x, see))


def _norm_shared(s, x, c, see, ask, m, cm):
    x = _see(s, x, see)
    return _think(s, x + ask(s.attention_norm(x)))


def _not_normed(s, x, c, see, ask, m, cm):
    x = _see(s, x, see)
    return _think(s, x + ask(x))


def _post_norm(s, x, c, see, ask, m, cm):
    x = s.attention_norm(x + see(x))
    x = s.cross_norm(x + ask(x))
    return s.feed_forward_norm(x + s.feed_forward(x))


DECODER = Exercise(
    name="DecoderBlock",
    lesson=LESSON,
    title="the decoder's block",
    cases=_decoder_cases,
    witness=DecoderBlock,
    reference=DecoderBlock,
    axes=("batch", "tokens", "d_model"),
    tolerance=3e-5,
    hints=(
        "It is your pre-norm block with one more sub-layer in the middle, of the same form.",
        "In the middle the queries come from x, normed, and keys and values from the context, as "
        "it is: the encoder has normed it already.",
        "Two masks: `mask` says what x may see of itself, `context_mask` what it may see of the "
        "context.",
    ),
    variants={
        "cross-first": Variant(
            "Cross-attention stands before self-attention. First a word hears its own sentence, "
            "then it asks the other.",
            _decoder(_cross_first),
        ),
        "no-cross": Variant(
            "The context is never read: there are three sub-layers.",
            _decoder(lambda s, x, c, see, ask, m, cm: _three(s, x, see, lambda t: 0 * t)),
        ),
        "cross-reads-x": Variant(
            "Cross-attention reads x instead of the context.",
            _decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, t, mask=m)
                )
            ),
        ),
        "context-normed": Variant(
            "You norm the context as well. It comes out of the encoder's last norm; only x is "
            "normed here.",
            _decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, s.cross_norm(c), mask=cm)
                )
            ),
        ),
        "one-attention": Variant(
            "You ask the context with the self-attention's weights: the block has a "
            "`cross_attention` of its own.",
            _decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.attention(t, c, mask=cm)
                )
            ),
        ),
        "no-residual": Variant(
            "After cross-attention nothing is added: what the context gives replaces x.",
            _decoder(
                lambda s, x, c, see, ask, m, cm: _think(s, ask(s.cross_norm(_see(s, x, see))))
            ),
        ),
        "norm-shared": Variant(
            "Cross-attention uses the self-attention's norm; it has a `cross_norm` of its own.",
            _decoder(_norm_shared),
        ),
        "not-normed": Variant(
            "What cross-attention reads is not normed.",
            _decoder(_not_normed),
        ),
        "context-mask-ignored": Variant(
            "The context's mask is not handed on: padding in the context is read.",
            _decoder(
                lambda s, x, c, see, ask, m, cm: _three(
                    s, x, see, lambda t: s.cross_attention(t, c)
                )
            ),
        ),
        "mask-ignored": Variant(
            "The mask for x is not handed on: each word sees those after it.",
            _decoder(lambda s, x, c, see, ask, m, cm: _three(s, x, s.attention, ask)),
        ),
        "post-norm": Variant(
            "This is the post-norm decoder block. Asked for is pre-norm.",
            _decoder(_post_norm),
        ),
    },
)


# --- block_parameters -----------------------------------------------------------------------


def _count_cases() -> list[Case]:
    sizes = (
        (64, 4, 4, 256, False),
        (96, 6, 2, 200, True),
        (4096, 32, 8, 14336, True),
        (128, 8, 1, 512, False),
        (90, 6, 6, 50, True),
        (9, 3, 1, 7, False),
        (16, 1, 1, 8, True),
    )
    return [Case(size) for size in sizes]


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


COUNT = Exercise(
    name="block_parameters",
    lesson=LESSON,
    title="count a block's parameters",
    cases=_count_cases,
    witness=block_parameters,
    reference=block_parameters,
    hints=(
        "List the matrices with their shapes: four in attention, two or three in the network. "
        "Then the norms.",
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
        "values-full": Variant(
            "Only the keys are shared in yours; the values have as few heads.",
            _counted(lambda d, h, kv: 3 * d * d + d * (d // h) * kv),
        ),
        "out-narrow": Variant(
            "The output projection is d_model × d_model: there are still all the query heads.",
            _counted(lambda d, h, kv: d * d + 3 * d * (d // h) * kv),
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
            "Right without a gate; a gated network has three matrices.", _counted(matrices=2)
        ),
        "three-matrices": Variant(
            "Right with a gate; a plain network has two matrices.", _counted(matrices=3)
        ),
        "no-norms": Variant(
            "The norms are missing: few numbers, but some.", _counted(norms=lambda d: 0)
        ),
        "one-norm": Variant("A block has two norms.", _counted(norms=lambda d: d)),
        "layer-norms": Variant(
            "You counted a bias in each norm. An RMSNorm has none.", _counted(norms=lambda d: 4 * d)
        ),
    },
)


# --- by_path_length (graded) ----------------------------------------------------------------


def _path_cases() -> list[Case]:
    cases = []
    for seed, d, many in ((0, 4, 4), (1, 5, 2), (2, 3, 8), (3, 6, 1), (4, 1, 2)):
        x, stack = randn(seed, (d,), (many, d, d))
        cases.append(Case((x, stack / d**0.5)))
    return cases


def _paths(x, sublayers, *, order=1):
    """Every subset of the sub-layers, one after another; those of equal length summed."""
    rows = [torch.zeros_like(x) for _ in range(len(sublayers) + 1)]
    for taken in itertools.product((False, True), repeat=len(sublayers)):
        y = x
        for use, matrix in list(zip(taken, sublayers, strict=True))[::order]:
            y = y @ matrix if use else y
        rows[sum(taken)] = rows[sum(taken)] + y
    return torch.stack(rows)


def _neighbours_only(x, sublayers):
    """Only paths whose sub-layers follow each other without a gap."""
    rows = [x] + [torch.zeros_like(x) for _ in sublayers]
    for start in range(len(sublayers)):
        y = x
        for stop in range(start, len(sublayers)):
            y = y @ sublayers[stop]
            rows[stop - start + 1] = rows[stop - start + 1] + y
    return torch.stack(rows)


PATHS = Exercise(
    name="by_path_length",
    lesson=LESSON,
    title="the paths through a net (graded)",
    cases=_path_cases,
    witness=_paths,
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
            spoil=lambda case, right: (
                right
                / torch.tensor([math.comb(len(right) - 1, m) for m in range(len(right))])[:, None]
            ),
        ),
        "neighbours-only": Variant(
            "Only paths without a gap are counted. A path may take the first and the third "
            "sub-layer and skip the second.",
            _neighbours_only,
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
            "A sub-layer is taken twice on some paths: when you go through the rows, row m must "
            "be made of row m − 1 as it was before this sub-layer.",
            lambda x, sublayers: _upward(x, sublayers),
        ),
        "columns": Variant(
            "You multiply from the left, matrix @ x. Here x is a row: `x @ matrix`.",
            lambda x, sublayers: _paths(x, sublayers.mT),
        ),
    },
)


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


# --- find the bug ---------------------------------------------------------------------------


def _drop_cases() -> list[Case]:
    cases = []
    for seed, shape, p, training, note in (
        (0, (2, 3, 5), 0.5, False, "in use: nothing may be dropped"),
        (1, (1, 4, 6), 0.0, True, "in training, p = 0"),
        (2, (2, 2, 7), 1 - 1e-6, True, "in training, p so near 1 that all of the update is gone"),
        (3, (1, 1, 3), 0.9, False, "in use, p = 0.9"),
    ):
        x, update = randn(seed, shape, shape)
        cases.append(
            Case((x, update, p, training), gradients=seed < 2, note=note)
        )  # fmt: skip
    x, update = randn(4, (4, 30, 20), (4, 30, 20))
    update = update + update.sign()  # nothing near zero: what was dropped can be seen
    return cases + [
        Case((x, update, p, True), random=True, gradients=True, note=f"in training, p = {p}")
        for p in (0.5, 0.2)
    ]


def _dropped_fairly(cases, values, expected):
    """Half is gone, number by number, and what is left is twice as large."""
    for case, value in zip(cases, values, strict=True):
        if not case.random:
            continue
        x, update, p, _ = case.args
        left = value.to(x.dtype) - x
        kept = left.abs() > 1e-4
        some = kept.any() and not kept.all()
        if some and (kept.all(-1) | ~kept.any(-1)).all():
            return Finding(
                "whole-tokens",
                "You drop whole tokens (or whole sequences). Each number is dropped by itself.",
            )
        if some and ((kept == kept[:1]).all() or (kept == kept[:, :1]).all()):
            return Finding(
                "one-mask",
                "All tokens lose the same numbers in yours. Each number of each token is dropped "
                "by itself.",
            )
        if abs(kept.float().mean().item() - (1 - p)) > 0.06:
            return Finding(
                "share", f"In training with p = {p} a share of {kept.float().mean():.0%} is kept."
            )
        if not torch.allclose(left[kept], (update / (1 - p))[kept], atol=1e-4):
            return Finding(
                "not-rescaled",
                "What is kept is not divided by 1 − p, so that in use, with nothing dropped, the "
                "updates would suddenly be larger on average than in training.",
            )
    return None


def add_with_dropout(x, update, p, training):
    """x + dropout(update), dropping in training alone."""
    return x + torch.nn.functional.dropout(update, p, training)


def _dropped(what, on=lambda training: training):
    return lambda x, update, p, training: what(
        x, update, lambda t: torch.nn.functional.dropout(t, p, on(training))
    )


BUG = Exercise(
    name="add_with_dropout",
    lesson=LESSON,
    title="find the bugs: a dropout that never rests",
    cases=_drop_cases,
    witness=add_with_dropout,
    reference=add_with_dropout,
    properties=(_dropped_fairly,),
    axes=("batch", "tokens", "d_model"),
    hints=(
        "Call it twice with training=False. Should the two be equal? Then with training=True and "
        "p near 1: what should be left?",
        "F.dropout has a third argument, and its default is not what one needs in use.",
        "What is dropped: the update, or the sum with x? If a number of x itself is dropped, the "
        "straight path has a hole.",
    ),
    variants={
        "as given": Variant(
            "The bugs are still in: two calls in use give two results.",
            _dropped(lambda x, u, drop: drop(x + u), lambda training: True),
            to_do=True,
        ),
        "stream-dropped": Variant(
            "In use nothing is dropped now. In training the sum is, x included: the straight path "
            "gets holes, in every layer others. Drop the update alone.",
            _dropped(lambda x, u, drop: drop(x + u)),
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
        "06-depth",
        LESSON,
        "A stack without the additions, 32 blocks deep, each with its norms. What will it have "
        "learnt after 150 steps?",
        (
            Option(
                "the same, a little later",
                "The norms keep the numbers in hand, but not what they mean. Look below.",
            ),
            Option(
                "how frequent each character is, and nothing else",
                "Yes: that needs no signal from below, only the head's own weights.",
                right=True,
            ),
            Option("more: it is deeper", "Depth that no gradient reaches is no use."),
        ),
    ),
    Item(
        "06-post",
        LESSON,
        "Post-norm without warm-up, learning rate 0.001, six layers. Books say that it "
        '"typically diverges within 50 to 200 steps". Will this one?',
        (
            Option("yes, to infinity", "A norm at the end of each block keeps it from that."),
            Option(
                "no, it learns, though it may be worse than pre-norm",
                "So it was here. Look at the figure for the rate at which it does stall.",
                right=True,
            ),
            Option("it learns faster than pre-norm", "Not in these runs: see the figure."),
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
        "06-quiz-gradient",
        LESSON,
        "Why does x + f(x) help the gradient?",
        (
            Option(
                "its derivative is 1 + f′: the 1 passes the gradient on whole, whatever f is",
                "Yes. And what is 1 + f′ multiplied over a hundred layers contains the path on "
                "which every factor is 1.",
                right=True,
            ),
            Option("f becomes smaller", "f is what it is. It has a companion now."),
            Option(
                "the gradient is doubled",
                "It is not about size: halved gradients would be mended by the learning rate.",
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
        "06-quiz-init",
        LESSON,
        "GPT-2 makes the weights of which matrices smaller by 1/√(2L) when a model of L blocks is "
        "made?",
        (
            Option(
                "all of them",
                "Then each sub-layer would also read and decide more weakly. It is only the sum "
                "that must not grow.",
            ),
            Option(
                "those that write into the stream: attention's output and the network's second",
                "Yes: 2L additions, each with a variance of 1/(2L), make one.",
                right=True,
            ),
            Option("the embeddings", "They are written once, not once for each layer."),
        ),
    ),
]
