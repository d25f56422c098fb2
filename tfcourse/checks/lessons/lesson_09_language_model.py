"""Lesson 09: a model that writes, and how well it can."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import nn

from tfcourse.attention import causal_mask, scaled_dot_product_attention
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
from tfcourse.checks.judging import same
from tfcourse.checks.lessons.lesson_03_positions import rotate_pairs
from tfcourse.checks.lessons.lesson_06_transformer_block import built, spoiled
from tfcourse.checks.mixers import resolved, stand_in
from tfcourse.checks.quiz import Item, Option
from tfcourse.positions import Rotary

LESSON = "09_language_model"
BIT = math.log(2)  # in nats


# --- kl_divergence --------------------------------------------------------------------------


def _make_divergence(kind, seed):
    rows, places, symbols = unequal(seed, 3, 2, 7)
    shape = {"one distribution": (symbols,), "a batch of rows": (rows, places, symbols)}.get(
        kind["shape"], (rows, symbols)
    )
    if kind["shape"] == "as many rows as symbols":
        shape = (symbols, symbols)
    if kind["shape"] == "a thousand symbols":
        shape = (rows, 1000)
    symbols = shape[-1]
    a, b = randn(seed, shape, shape)
    p, q = torch.softmax(1.5 * a, -1), torch.softmax(1.5 * b, -1)
    last, first = torch.arange(symbols) == symbols - 1, torch.arange(symbols) == 0
    if kind["numbers"] not in ("all possible", "impossible for q alone"):
        p = torch.where(last, 0.0, p)
    if kind["numbers"] in ("impossible for both", "impossible for q alone"):
        q = torch.where(last, 0.0, q)
    if kind["numbers"] == "p is certain":
        p = first.to(p.dtype).expand(shape).clone()
    if kind["numbers"] == "q equals p":
        q = p.clone()
    if kind["numbers"] == "q is even":
        q = torch.ones(shape)
    return Case((p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)), gradients=False)


def kl_divergence(p, q):
    """The sum of p (log p − log q) over the last axis; 0 log 0 is 0."""
    return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1)


def _over_the_symbols(each):
    """each(p, q), summed over the last axis, with 0 log 0 = 0 taken care of."""
    return lambda p, q: each(p, q).sum(-1)


def _mirrored(cases, values, expected):
    """KL(q ‖ p) instead of KL(p ‖ q)."""
    there = [kl_divergence(case.args[1], case.args[0]) for case in cases]
    both = [(v, t) for v, t in zip(values, there, strict=True) if t.isfinite().all()]
    if len(both) > 2 and all(same(v, t, 1e-5) for v, t in both):
        return Finding("mirrored", _MIRRORED)
    return None


_MIRRORED = (
    "This is the divergence the other way round. The text comes from p: its logarithms are "
    "weighted by p."
)

DIVERGENCE = Exercise(
    name="kl_divergence",
    lesson=LESSON,
    title="what a wrong belief costs",
    domain=Domain(
        kinds={
            "numbers": (
                "all possible",
                "impossible for p",
                "impossible for both",
                "impossible for q alone",
                "p is certain",
                "q equals p",
                "q is even",
            ),
            "shape": (
                "unequal sizes",
                "one distribution",
                "a batch of rows",
                "as many rows as symbols",
                "a thousand symbols",
            ),
        },
        make=_make_divergence,
        edges=("impossible for both", "impossible for q alone"),
    ),
    forbids=("kl_div", "kl_divergence", "cross_entropy"),
    witness=kl_divergence,
    reference=kl_divergence,
    axes=("rows", "places"),
    smallest=0.1,
    properties=(_mirrored,),
    hints=(
        "It is cross-entropy minus entropy. Both are sums over the symbols, weighted by p.",
        "Put together: p · (log p − log q), summed over the last axis.",
        "Where p is 0, its logarithm is −∞ and the product is no number. That place adds nothing. "
        "`torch.where(p > 0, …, 0.0)`, or `torch.xlogy(p, q)`, which is p · log q and 0 where p "
        "is 0.",
    ),
    variants={
        "mirrored": Variant(_MIRRORED, lambda p, q: kl_divergence(q, p)),
        "cross-entropy": Variant(
            "This is the cross-entropy, −Σ p log q. The entropy of p, which nobody can avoid, is "
            "still in it.",
            _over_the_symbols(lambda p, q: -torch.xlogy(p, q)),
        ),
        "entropy": Variant(
            "This is the entropy of p alone. What does q cost on top of it?",
            _over_the_symbols(lambda p, q: -torch.xlogy(p, p)),
        ),
        "sign": Variant(
            "The sign is the wrong way round: a wrong belief costs, so the divergence is never "
            "below 0.",
            lambda p, q: -kl_divergence(p, q),
        ),
        "bits": Variant(
            "You give bits, the logarithm to base 2. Here it is in nats: `torch.log`.",
            lambda p, q: kl_divergence(p, q) / math.log(2),
        ),
        "mean": Variant(
            "You take the mean over the symbols. p weights them already: it is a sum.",
            lambda p, q: kl_divergence(p, q) / p.shape[-1],
        ),
        "unweighted": Variant(
            "All symbols count alike with you. Each is weighted by p, by how often it comes.",
            lambda p, q: torch.where(p > 0, p.log() - q.log(), 0.0).sum(-1),
        ),
        "weighted-by-q": Variant(
            "You weight log p − log q by q. The text comes from p.",
            _over_the_symbols(lambda p, q: torch.xlogy(q, p) - torch.xlogy(q, q)),
        ),
        "symmetric": Variant(
            "You take the mean of both directions. The divergence is not symmetric: the text comes "
            "from p.",
            lambda p, q: (kl_divergence(p, q) + kl_divergence(q, p)) / 2,
        ),
        "summed-over-all": Variant(
            "You sum over everything. Each row of p and q is a pair of distributions of its own: "
            "sum over the last axis only.",
            lambda p, q: kl_divergence(p, q).sum(),
        ),
        "first-axis": Variant(
            "You sum over the first axis. The symbols are the last one.",
            lambda p, q: (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(0),
        ),
        "nan": Variant(
            "Right where all is possible. Where p is 0 you get 0 · log 0, which is no number: such "
            "a place adds nothing.",
            _over_the_symbols(lambda p, q: p * (p.log() - q.log())),
        ),
        "nudged": Variant(
            "You add a small number inside the logarithm against log 0. That changes all the "
            "others too. Leave out the places where p is 0 instead.",
            _over_the_symbols(lambda p, q: p * ((p + 1e-3).log() - (q + 1e-3).log())),
        ),
    },
)


# --- LanguageModel --------------------------------------------------------------------------


class LanguageModel(nn.Module):
    """Tokens in, logits of the next token out; the head is the embedding's table."""

    def __init__(self, vocabulary, d_model, n_heads, layers, block=None):
        super().__init__()
        make = block or (lambda: Block(d_model, n_heads, rotary=Rotary(d_model // n_heads)))
        self.tokens = nn.Embedding(vocabulary, d_model)
        self.blocks = nn.ModuleList(make() for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=d_model**-0.5)

    def forward(self, tokens):
        """(batch, tokens) -> (batch, tokens, vocabulary)."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(self.norm(x))


def _built(block=None, **sizes):
    return LanguageModel(**sizes, block=resolved(block))


def _make_model(kind, seed, block=None):
    batch, tokens, half = unequal(seed, 3, 2, 6)
    heads, vocabulary, d_head = 2, 11, 2 * half
    batch = {"a batch of one": 1}.get(kind["sizes"], batch)
    tokens = {"one token": 1, "twelve tokens": 12}.get(kind["sizes"], tokens)
    layers = {"two blocks": 2, "one block": 1, "four blocks": 4, "three blocks": 3}[kind["depth"]]
    build = {"vocabulary": vocabulary, "d_model": heads * d_head, "n_heads": heads}
    build["layers"] = layers
    if block is not None:
        build["block"] = stand_in(block)
    chosen = torch.Generator().manual_seed(seed + 1)
    ids = torch.randint(vocabulary, (batch, tokens), generator=chosen)
    if kind["text"] == "one token again and again":
        ids[:] = ids[:, :1].clone()
    weights = {}
    for name, parameter in _built(**build).named_parameters():
        size = math.sqrt(parameter.shape[-1]) if parameter.dim() > 1 else 2.0
        weights[name] = torch.randn(parameter.shape, generator=chosen) / size
        if name == "tokens.weight":
            weights[name] *= size
    weights["head.weight"] = weights["tokens.weight"].clone()  # one table, by either name
    return Case((ids,), build=build, weights=weights)


def _model_twins() -> list[Case]:
    kinds = {name: options[0] for name, options in MODEL.domain.kinds.items()}
    kinds["depth"] = "three blocks"  # so that no other case has used this model
    first = _make_model(kinds, 4)
    [ids] = first.args
    future = ids.clone()
    future[:, -1] = (future[:, -1] + 5) % 11
    common = {"build": first.build, "weights": first.weights}
    return [
        first,
        Case(
            (future,),
            **common,
            note="another last token",
            twin=Twin(
                0,
                lambda a, b: (a[:, :-1], b[:, :-1]),
                "future-leaks",
                "A later token changes what is said before it. A model that sees the answer has "
                "nothing to learn: no token may look ahead.",
            ),
        ),
        replace(first, training=True, note="a model in training"),
        replace(_make_model(kinds, 5, block="the running mean"), note="other blocks than usual"),
    ]


_MODELS = built(_built)


def _wired(wire):
    return spoiled(_MODELS, wire)


def _through(model, x, causal=True, blocks=None):
    for block in model.blocks if blocks is None else blocks:
        x = block(x, causal=causal)
    return x


def _normed_each_time(m, ids):
    x = m.tokens(ids)
    for block in m.blocks:
        x = m.norm(block(x, causal=True))
    return m.head(x)


def _not_fed_on(m, ids):
    x = m.tokens(ids)
    return m.head(m.norm(sum(block(x, causal=True) for block in m.blocks)))


MODEL = Exercise(
    name="LanguageModel",
    lesson=LESSON,
    title="the language model",
    domain=Domain(
        kinds={
            "sizes": ("unequal sizes", "a batch of one", "one token", "twelve tokens"),
            "depth": ("two blocks", "one block", "four blocks"),
            "text": ("random tokens", "one token again and again"),
        },
        make=_make_model,
    ),
    special=_model_twins,
    witness=LanguageModel,
    reference=LanguageModel,
    axes=("batch", "tokens", "vocabulary"),
    tolerance=5e-5,
    hints=(
        "Four steps, each with a part that `__init__` has made: embed, the blocks one after the "
        "other, the norm, the head.",
        "What a block gives is what the next one reads: `x = block(x, …)`.",
        "No token may look ahead: `block(x, causal=True)`. And the norm stands once, behind the "
        "last block.",
    ),
    variants={
        "not-causal": Variant(
            "Every token sees those behind it. The model would read the answer that it should "
            "guess.",
            spoil=_wired(lambda m, ids: m.head(m.norm(_through(m, m.tokens(ids), causal=False)))),
        ),
        "no-norm": Variant(
            "The last norm is missing. Pre-norm blocks leave a stream that nobody has normalized.",
            spoil=_wired(lambda m, ids: m.head(_through(m, m.tokens(ids)))),
        ),
        "norm-first": Variant(
            "The norm stands in front of the blocks. Each of them has its own; this one belongs "
            "behind the last.",
            spoil=_wired(lambda m, ids: m.head(_through(m, m.norm(m.tokens(ids))))),
        ),
        "normed-each-time": Variant(
            "The norm stands behind every block. It stands once, behind the last one.",
            spoil=_wired(_normed_each_time),
        ),
        "first-block-alone": Variant(
            "Only the first block is used.",
            spoil=_wired(
                lambda m, ids: m.head(m.norm(_through(m, m.tokens(ids), blocks=m.blocks[:1])))
            ),
        ),
        "last-block-alone": Variant(
            "Only the last block counts: each of yours reads the embedding, and not what the block "
            "before it gave.",
            spoil=_wired(
                lambda m, ids: m.head(m.norm(_through(m, m.tokens(ids), blocks=m.blocks[-1:])))
            ),
        ),
        "not-fed-on": Variant(
            "Each block reads the embedding, and you add up what they give. A block reads what the "
            "one before it gave.",
            spoil=_wired(_not_fed_on),
        ),
        "added-again": Variant(
            "You add x to what a block gives. The block has done that already: it returns the "
            "whole stream.",
            spoil=_wired(lambda m, ids: m.head(m.norm(_added_again(m, ids)))),
        ),
        "reversed": Variant(
            "Your blocks run from the last to the first.",
            spoil=_wired(
                lambda m, ids: m.head(m.norm(_through(m, m.tokens(ids), blocks=m.blocks[::-1])))
            ),
        ),
        "no-blocks": Variant(
            "No block is used: a token goes from the embedding straight to the head.",
            spoil=_wired(lambda m, ids: m.head(m.norm(m.tokens(ids)))),
        ),
        "probabilities": Variant(
            "You give probabilities. Logits are wanted: the loss takes the softmax itself.",
            spoil=_wired(lambda m, ids: torch.softmax(m(ids), -1)),
        ),
        "log-probabilities": Variant(
            "You give log-probabilities. Logits are wanted, as they come from the head.",
            spoil=_wired(lambda m, ids: torch.log_softmax(m(ids), -1)),
        ),
        "embedding-scaled": Variant(
            "You multiply the embedding by √d_model, as the model of 2017 does. This one does not.",
            spoil=_wired(
                lambda m, ids: m.head(
                    m.norm(_through(m, m.tokens(ids) * math.sqrt(m.tokens.embedding_dim)))
                )
            ),
        ),
        "no-head": Variant(
            "You give vectors of d_model numbers. The head makes logits of them.",
            spoil=_wired(lambda m, ids: m.norm(_through(m, m.tokens(ids)))),
        ),
        "last-token-alone": Variant(
            "You give the logits behind the last token only. In training all places count: give "
            "those behind every token.",
            spoil=_wired(lambda m, ids: m(ids)[:, -1]),
        ),
    },
)


def _added_again(m, ids):
    x = m.tokens(ids)
    for block in m.blocks:
        x = x + block(x, causal=True)
    return x


# --- bits_per_byte (find the bugs) ----------------------------------------------------------

SCRIPTS = {
    "plain letters": "the cat sat on a mat\nand ate it\nall\n",
    "two bytes": "ééüßøñçåäöдетижку",
    "three bytes": "文字列は三つのバイトで書かれる",
    "four bytes": "🙂🚀🎈🐍🌍🧠",
}


def _make_bits(kind, seed):
    chosen = torch.Generator().manual_seed(seed)
    count = {"two texts": 2, "five texts": 5, "one text": 1}[kind["count"]]
    letters = (
        "".join(SCRIPTS.values()) if kind["script"] == "all mixed" else SCRIPTS[kind["script"]]
    )
    lengths = [3 + 4 * i + int(torch.randint(4, (1,), generator=chosen)) for i in range(count)]
    if kind["lengths"] == "all of one length":
        lengths = [5 + seed % 3] * count
    texts, losses = [], []
    for i, length in enumerate(lengths):
        places = torch.randint(len(letters), (length,), generator=chosen)
        texts.append("".join(letters[place] for place in places.tolist()))
        losses.append((0.3 + i) * torch.rand(length, generator=chosen))
    if kind["losses"] == "all certain":
        losses = [0 * row for row in losses]
    if kind["losses"] == "one loss of 30":
        losses[0][0] = 30.0
    return Case((losses, texts), gradients=False)


def bits_per_byte(losses, texts):
    """All nats of all texts, in bits, over all bytes."""
    nats = torch.cat(list(losses)).sum()
    return nats / math.log(2) / sum(len(text.encode()) for text in texts)


def _bits(size, unit=BIT):
    """Another way to count: size(text) instead of its bytes."""
    return lambda losses, texts: torch.cat(list(losses)).sum() / unit / sum(map(size, texts))


def _by_text(size, unit=BIT):
    """The mean over the texts of each text's own figure."""
    return lambda losses, texts: torch.stack(
        [row.sum() / unit / size(text) for row, text in zip(losses, texts, strict=True)]
    ).mean()


def _bytes(text):
    return len(text.encode())


BITS = Exercise(
    name="bits_per_byte",
    lesson=LESSON,
    title="find the bugs: bits per byte",
    domain=Domain(
        kinds={
            "count": ("two texts", "five texts", "one text"),
            "lengths": ("of different lengths", "all of one length"),
            "script": ("all mixed", *SCRIPTS),
            "losses": ("ordinary losses", "one loss of 30", "all certain"),
        },
        make=_make_bits,
        edges=("all certain",),
    ),
    witness=bits_per_byte,
    reference=bits_per_byte,
    axes=(),
    hints=(
        "Try it with two texts: one of 2 characters, one of 100. How much does a character of the "
        "short one count?",
        "`len(text)` counts characters. How many bytes has “é” in UTF-8, and how many has “🙂”? "
        "`text.encode()` are the bytes.",
        "All nats together, divided by log 2, divided by all bytes together.",
    ),
    variants={
        "as-given": Variant(
            "Both bugs are still there. A character of a short text counts for more than one of a "
            "long text; and it is characters that you count, not bytes.",
            _by_text(len),
            to_do=True,
        ),
        "characters": Variant(
            "All characters count alike now, but they are characters: “é” has two bytes in UTF-8, "
            "“🙂” has four.",
            _bits(len),
        ),
        "mean-of-means": Variant(
            "Bytes it is now, but you still take the mean over the texts: a character of a short "
            "text counts for more than one of a long text.",
            _by_text(_bytes),
        ),
        "nats": Variant(
            "These are nats per byte. A bit is log 2 nats: divide by it.",
            _bits(_bytes, 1.0),
        ),
        "bits-wrong-way": Variant(
            "You multiply by log 2. A bit is less than a nat, so there are more of them: divide.",
            _bits(_bytes, 1 / BIT),
        ),
        "base-ten": Variant(
            "You divide by log 10: those are decimal digits. A bit is log 2 nats.",
            _bits(_bytes, math.log(10)),
        ),
        "eight-bits": Variant(
            "You count the bits of the text, eight in a byte. The text's own size is counted in "
            "bytes here: bits of the *model's* code for each byte of text.",
            _bits(lambda text: 8 * _bytes(text)),
        ),
        "summed": Variant(
            "You give the bits of everything together. They still have to be shared out over the "
            "bytes.",
            lambda losses, texts: torch.cat(list(losses)).sum() / math.log(2),
        ),
        "perplexity": Variant(
            "You give a perplexity, e to the loss. Bits are the loss itself in another unit.",
            lambda losses, texts: torch.cat(list(losses)).mean().exp(),
        ),
        "utf-16": Variant(
            "You count bytes of UTF-16, where a plain letter has two. In UTF-8 it has one: "
            "`text.encode()`.",
            _bits(lambda text: len(text.encode("utf-16-le"))),
        ),
        "last-text": Variant(
            "Only the last text counts with you.",
            lambda losses, texts: losses[-1].sum() / math.log(2) / _bytes(texts[-1]),
        ),
    },
)


# --- cached_attention -----------------------------------------------------------------------


def _make_cached(kind, seed):
    batch, heads, new, past, half = unequal(seed, 5, 2, 7)
    past = {"nothing yet": 0, "one token before": 1, "fifty before": 50}.get(kind["past"], past)
    new = {"one new token": 1, "twelve new tokens": 12}.get(kind["new"], new)
    batch = 1 if kind["sizes"] == "a batch of one" else batch
    heads = 1 if kind["sizes"] == "one head" else heads
    d_head = 2 if kind["sizes"] == "d_head 2" else 2 * half
    wide, back = (batch, heads, new, d_head), (batch, heads, past, d_head)
    q, k, v, past_k, past_v = randn(seed, wide, wide, wide, back, back)
    if kind["numbers"] == "scores in the hundreds":
        q, k, past_k = 12 * q, 12 * k, 12 * past_k
    return Case((q, k, v, past_k, past_v))


def cached_attention(q, k, v, past_k, past_v):
    """Causal attention of new tokens to all so far, and what is kept of all of them."""
    past, new = past_k.shape[2], k.shape[2]
    where = torch.arange(past, past + new)
    q, k = rotate_pairs(q, where), rotate_pairs(k, where)
    k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


def _cached(
    where=lambda past, new: torch.arange(past, past + new),
    turn_q=True,
    turn_k=True,
    keep=None,
    mask=lambda past, new: causal_mask(new, past + new),
    join=lambda old, fresh: torch.cat([old, fresh], dim=2),
    read=lambda old, fresh, all_: all_,
    scale=1.0,
):
    """One of its steps replaced; `keep` gives what is handed back as k and v."""

    def answer(q, k, v, past_k, past_v):
        past, new = past_k.shape[2], k.shape[2]
        plain_k = k
        at = where(past, new)
        q = rotate_pairs(q, at) if turn_q else q
        k = rotate_pairs(k, at) if turn_k else k
        all_k, all_v = join(past_k, k), join(past_v, v)
        keys, values = read(past_k, k, all_k), read(past_v, v, all_v)
        out = scaled_dot_product_attention(scale_by(q, scale), keys, values, mask(past, new))
        kept = (all_k, all_v) if keep is None else keep(past_k, past_v, plain_k, k, v)
        return out, *kept

    return answer


def scale_by(q, scale):
    """q, so that attention's 1/√d_head is undone where scale is None."""
    return q * math.sqrt(q.shape[-1]) if scale is None else q * scale


def _turned_again(q, k, v, past_k, past_v):
    past, new = past_k.shape[2], k.shape[2]
    q = rotate_pairs(q, torch.arange(past, past + new))
    k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    k = rotate_pairs(k, torch.arange(past + new))
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


def _top_left(past, new):
    return torch.ones(new, past + new, dtype=torch.bool).tril()


CACHED = Exercise(
    name="cached_attention",
    lesson=LESSON,
    title="attention that remembers",
    domain=Domain(
        kinds={
            "past": ("some tokens before", "nothing yet", "one token before", "fifty before"),
            "new": ("some new tokens", "one new token", "twelve new tokens"),
            "sizes": ("unequal sizes", "a batch of one", "one head", "d_head 2"),
            "numbers": ("ordinary numbers", "scores in the hundreds"),
        },
        make=_make_cached,
        edges=("scores in the hundreds",),
    ),
    witness=cached_attention,
    reference=cached_attention,
    axes=("batch", "heads", "tokens", "d_head"),
    tolerance=5e-5,
    hints=(
        "Where do the new tokens stand? There are `past_k.shape[2]` tokens before them. Turn new q "
        "and new k for those positions; the old keys have been turned already.",
        "Then put new keys behind the old ones with `torch.cat([…, …], dim=2)`, and the same with "
        "the values. These are what you attend to, and what you give back.",
        "The mask has a row for each new token and a column for each token so far. New token i may "
        "see all old ones, the new ones before it, and itself. `causal_mask(new, past + new)` "
        "is that triangle.",
    ),
    variants={
        "positions-from-zero": Variant(
            "You turn the new tokens as if they stood at the beginning. They stand behind those "
            "that the cache holds.",
            _cached(where=lambda past, new: torch.arange(new)),
        ),
        "one-too-far": Variant(
            "You turn the new tokens one position too far: with 3 tokens before it, a new one "
            "stands at position 3.",
            _cached(where=lambda past, new: torch.arange(past + 1, past + new + 1)),
        ),
        "one-position-for-all": Variant(
            "You turn all new tokens for one and the same position. They stand one behind the "
            "other.",
            _cached(where=lambda past, new: torch.full((new,), past)),
        ),
        "not-turned": Variant(
            "Nothing is turned: without positions, attention sees a bag of tokens.",
            _cached(turn_q=False, turn_k=False),
        ),
        "query-not-turned": Variant(
            "The keys are turned, the queries are not.", _cached(turn_q=False)
        ),
        "key-not-turned": Variant(
            "The queries are turned, the new keys are not.", _cached(turn_k=False)
        ),
        "turned-again": Variant(
            "You turn all keys, the old ones too. They were turned when they were new; now they "
            "stand twice as far away.",
            _turned_again,
        ),
        "kept-unturned": Variant(
            "The output is right, but what you keep are the new keys as they came. Nobody will "
            "turn them later: keep them turned.",
            _cached(
                keep=lambda past_k, past_v, plain, k, v: (
                    torch.cat([past_k, plain], dim=2),
                    torch.cat([past_v, v], dim=2),
                )
            ),
        ),
        "new-ones-alone-kept": Variant(
            "The output is right, but you keep the new tokens only: at the next step the old ones "
            "are forgotten.",
            _cached(keep=lambda past_k, past_v, plain, k, v: (k, v)),
        ),
        "nothing-kept": Variant(
            "The output is right, but you give back the old cache. The new tokens must be in it.",
            _cached(keep=lambda past_k, past_v, plain, k, v: (past_k, past_v)),
        ),
        "new-ones-alone": Variant(
            "The new tokens see each other, but nothing of what was before them.",
            _cached(
                read=lambda old, fresh, all_: fresh, mask=lambda past, new: causal_mask(new, new)
            ),
        ),
        "no-mask": Variant(
            "Right for one new token. Where several come at once, as a prompt does, they see each "
            "other's future.",
            _cached(mask=lambda past, new: None),
        ),
        "top-left": Variant(
            "Your triangle begins at the first key, so the first new token sees only the oldest "
            "one. It stands *behind* all old ones: the triangle belongs at the right edge.",
            _cached(mask=_top_left),
        ),
        "not-itself": Variant(
            "A new token does not see itself with you. It may.",
            _cached(
                mask=lambda past, new: torch.ones(new, past + new, dtype=torch.bool).tril(past - 1)
            ),
        ),
        "one-ahead": Variant(
            "A new token sees the one behind it as well: your triangle is one column too wide.",
            _cached(
                mask=lambda past, new: torch.ones(new, past + new, dtype=torch.bool).tril(past + 1)
            ),
        ),
        "new-ones-first": Variant(
            "You put the new keys and values in front of the old ones. The mask counts on the "
            "order, and so does the next step: new ones go behind.",
            _cached(join=lambda old, fresh: torch.cat([fresh, old], dim=2)),
        ),
        "scale-twice": Variant(
            "You divide by √d_head twice: `scaled_dot_product_attention` does it already.",
            lambda q, *rest: cached_attention(q / math.sqrt(q.shape[-1]), *rest),
        ),
        "no-scale": Variant("The scores are not divided by √d_head.", _cached(scale=None)),
    },
)


# --- top_k ----------------------------------------------------------------------------------

TEMPERATURES = {
    "temperature left out": {},
    "temperature 0.5": {"temperature": 0.5},
    "temperature 2": {"temperature": 2.0},
}
LOGITS = (
    "ordinary logits",
    "ties",
    "nearly ties",
    "all alike",
    "logits in the thousands",
    "logits in the thousands below 0",
)


def _some_logits(kind, seed, shape):
    """Logits far enough apart that rounding cannot change their order."""
    chosen = torch.Generator().manual_seed(seed)
    size = shape[-1]
    rows = math.prod(shape[:-1])
    steps = 0.15 + torch.rand((rows, size), generator=chosen)
    ladder = steps.cumsum(-1)
    ladder = 0.8 * (ladder - ladder.mean(-1, keepdim=True))
    if kind == "ties":  # the second and third, and two more further down
        ladder[:, -3] = ladder[:, -2]
        if size > 5:
            ladder[:, 1] = ladder[:, 2]
    if kind == "nearly ties":
        ladder[:, -3] = ladder[:, -2] - 0.01
        ladder[:, 1] = ladder[:, 2] - 0.02
    if kind == "all alike":
        ladder[:] = 1.5
    order = torch.rand((rows, size), generator=chosen).argsort(-1)
    logits = ladder.gather(-1, order)
    if "thousands" in kind:
        logits = logits + (-2000.0 if "below" in kind else 2000.0)
        logits = (8 * logits).round() / 8  # so that float32 holds them exactly
    return logits.reshape(shape)


def _shape_of(kind, seed):
    batch, places, vocabulary = unequal(seed, 3, 2, 5)
    vocabulary = vocabulary + 5
    return {
        "a batch": (batch, vocabulary),
        "one row": (vocabulary,),
        "batch and places": (batch, places, vocabulary),
        "as many rows as tokens": (vocabulary, vocabulary),
    }[kind]


SHAPES = ("a batch", "one row", "batch and places", "as many rows as tokens")


def _make_top_k(kind, seed):
    shape = _shape_of(kind["shape"], seed)
    k = {"k = 2": 2, "k = 1": 1, "k = 4": 4, "all": shape[-1], "k beyond all": shape[-1] + 3}
    logits = _some_logits(kind["logits"], seed, shape)
    return Case((logits, k[kind["k"]]), TEMPERATURES[kind["temperature"]], gradients=False)


def top_k(logits, k, temperature=1.0):
    """The distribution over the k likeliest tokens, and those as likely as the last of them."""
    least = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return torch.softmax((logits / temperature).masked_fill(logits < least, -math.inf), dim=-1)


def _least(logits, k):
    return logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]


def _ties_broken(logits, k, temperature=1.0):
    chosen = logits.topk(min(k, logits.shape[-1]), dim=-1).indices
    cut = torch.ones_like(logits, dtype=torch.bool).scatter(-1, chosen, False)
    return torch.softmax((logits / temperature).masked_fill(cut, -math.inf), dim=-1)


def _top_k_by(make):
    """make(logits, logits / temperature, cut)."""

    def answer(logits, k, temperature=1.0):
        return make(logits, logits / temperature, logits < _least(logits, k))

    return answer


def _sums_to_one(cases, values, expected):
    """Exact zeros in the right places, but what is left does not sum to one."""
    pairs = list(zip(values, expected, strict=True))
    if any(not same((v > 0).double(), (e > 0).double(), 1e-6) for v, e in pairs):
        return None
    if all(same(v, e, 1e-5) for v, e in pairs):
        return None
    if all(same(v / v.sum(-1, keepdim=True), e, 1e-5) for v, e in pairs):
        return Finding("not-normalized", _NOT_NORMALIZED)
    return None


def _nearly_zero(cases, values, expected):
    """All is right but for tiny numbers where 0 is expected."""
    if all(same(v, e, 1e-3) for v, e in zip(values, expected, strict=True)):
        return Finding("nearly-zero", _NEARLY_ZERO)
    return None


_NEARLY_ZERO = (
    "What is cut keeps a tiny probability. It must be exactly 0: a long text would draw it some "
    "day. A logit of −∞ becomes an exact 0."
)
_ONE_SUM = (
    "You divide by the sum over all rows. Each row is a distribution of its own: sum over the last "
    "axis, and keep it (`dim=-1, keepdim=True`)."
)
_NOT_NORMALIZED = (
    "The right tokens are left, but their probabilities no longer sum to 1: what is cut has to be "
    "shared out among them, in proportion."
)
_SORTED = (
    "Your probabilities come in the order of their size. They belong in the vocabulary's order: "
    "entry i is token i, or the model will write something else."
)
_TIES = (
    "Of tokens that are exactly as likely as each other you keep some and cut others. Which of "
    "them, only the order in the vocabulary decides. Keep all that are as likely as the last one "
    "kept."
)
_BY_TEMPERATURE_TWICE = (
    "You multiply by the temperature. Divide: a temperature below 1 makes the distribution sharper."
)

TOP_K = Exercise(
    name="top_k",
    lesson=LESSON,
    title="the k likeliest",
    domain=Domain(
        kinds={
            "logits": LOGITS,
            "k": ("k = 2", "k = 1", "k = 4", "all", "k beyond all"),
            "temperature": tuple(TEMPERATURES),
            "shape": SHAPES,
        },
        make=_make_top_k,
        edges=("all alike", "k beyond all"),
    ),
    forbids=("next_token_probabilities",),
    witness=top_k,
    reference=top_k,
    axes=("rows", "tokens"),
    properties=(_sums_to_one, _nearly_zero),
    smallest=1.0,
    exact_zeros=True,
    hints=(
        "`logits.topk(k, dim=-1).values` are the k largest of every row, the largest first. Which "
        "of them decides who stays? (And k may be larger than the row.)",
        "A logit that is cut becomes −∞: the softmax makes an exact 0 of it, and shares the rest "
        "out.",
        "`logits.masked_fill(logits < least, -math.inf)` with the k-th largest as `least`, then "
        "divide by the temperature, then the softmax over the last axis.",
    ),
    variants={
        "sorted": Variant(
            _SORTED, lambda *args, **kw: top_k(*args, **kw).sort(-1, descending=True).values
        ),
        "ties-broken": Variant(_TIES, _ties_broken),
        "one-too-few": Variant(
            "One is missing: the k-th likeliest itself is cut with you.",
            _top_k_by(
                lambda logits, z, cut: (
                    torch.softmax(z.masked_fill(cut, -math.inf), -1)
                    * ~_last_kept(logits, cut)
                    / (
                        torch.softmax(z.masked_fill(cut, -math.inf), -1) * ~_last_kept(logits, cut)
                    ).sum(-1, keepdim=True)
                )
            ),
        ),
        "unlikeliest": Variant(
            "You keep the k *least* likely tokens.",
            lambda logits, k, temperature=1.0: torch.softmax(
                (logits / temperature).masked_fill(-logits < _least(-logits, k), -math.inf), -1
            ),
        ),
        "not-normalized": Variant(
            _NOT_NORMALIZED,
            _top_k_by(lambda logits, z, cut: torch.softmax(z, -1).masked_fill(cut, 0.0)),
        ),
        "one-sum": Variant(
            _ONE_SUM,
            _top_k_by(
                lambda logits, z, cut: (
                    (kept := torch.softmax(z, -1).masked_fill(cut, 0.0)) / kept.sum()
                )
            ),
        ),
        "logits": Variant(
            "You give logits, with −∞ for what is cut. Probabilities are wanted: the softmax is "
            "still missing.",
            _top_k_by(lambda logits, z, cut: z.masked_fill(cut, -math.inf)),
        ),
        "cut-to-zero": Variant(
            "You set the *logit* of what is cut to 0. That is no probability of 0: e⁰ is 1, and "
            "such a token may even become the likeliest.",
            _top_k_by(lambda logits, z, cut: torch.softmax(z.masked_fill(cut, 0.0), -1)),
        ),
        "temperature-multiplied": Variant(
            _BY_TEMPERATURE_TWICE,
            lambda logits, k, temperature=1.0: top_k(logits, k, 1 / temperature),
        ),
        "temperature-ignored": Variant(
            "The temperature is not used.", lambda logits, k, temperature=1.0: top_k(logits, k)
        ),
        "temperature-after": Variant(
            "You divide *probabilities* by the temperature. It divides the logits, before the "
            "softmax.",
            lambda logits, k, temperature=1.0: top_k(logits, k) / temperature,
        ),
        "nothing-cut": Variant(
            "Nothing is cut: this is the plain softmax.",
            lambda logits, k, temperature=1.0: torch.softmax(logits / temperature, -1),
        ),
        "evenly": Variant(
            "All tokens that are left are equally likely with you. They keep their proportions.",
            _top_k_by(
                lambda logits, z, cut: (~cut).to(z.dtype) / (~cut).sum(-1, keepdim=True).to(z.dtype)
            ),
        ),
        "over-all-rows": Variant(
            "You look for the k largest in the whole tensor. Each row is a distribution of its "
            "own.",
            lambda logits, k, temperature=1.0: torch.softmax(
                (logits / temperature).masked_fill(
                    logits < logits.flatten().topk(min(k, logits.shape[-1])).values[-1], -math.inf
                ),
                -1,
            ).nan_to_num(),
        ),
        "draws": Variant(
            "You give the token that was drawn. The probabilities are wanted, one for each token "
            "of the vocabulary.",
            lambda logits, k, temperature=1.0: logits.argmax(-1),
        ),
    },
)


def _last_kept(logits, cut):
    """Where the least of the kept ones stands, if others are above it."""
    kept = logits.masked_fill(cut, math.inf)
    last = kept == kept.amin(-1, keepdim=True)
    return last & (logits < logits.amax(-1, keepdim=True))


# --- top_p (graded) -------------------------------------------------------------------------


def _make_top_p(kind, seed):
    p = {"p = 0.5": 0.5, "p = 0.9": 0.9, "p = 0.05": 0.05, "p = 0.75": 0.75, "p = 1": 1.0}
    p, given = p[kind["p"]], TEMPERATURES[kind["temperature"]]
    if kind["logits"] == "all alike" and p not in (0.05, 1.0):
        # all are equally likely, so all are kept, however much is needed
        p = p + 0.013
    shape = _shape_of(kind["shape"], seed)
    if kind["logits"] == "just short of p":
        return _short_of(p, given, shape, seed)
    for attempt in range(1000):
        logits = _some_logits(kind["logits"], seed + 1000 * attempt, shape)
        if _clear(logits / given.get("temperature", 1.0), p):
            return Case((logits, p), given, gradients=False)
    return None


def _short_of(p, given, shape, seed):
    """The likeliest lacks half a thousandth of p, so that one more is needed."""
    if p == 1.0:
        return None
    [others] = randn(seed, shape)
    shares = (1 - p + 5e-4) * torch.softmax(0.3 * others[..., 1:], -1)
    first = torch.full((*shape[:-1], 1), p - 5e-4)
    logits = torch.cat([first, shares], -1).log()
    if shares.max() > p / 2 or not _clear(logits, p, least=2e-4):
        return None
    return Case((logits * given.get("temperature", 1.0), p), given, gradients=False)


def _clear(logits, p, least=2e-3):
    """Whether no sum comes so close to p that rounding would decide."""
    shares = torch.softmax(logits.double(), -1).sort(-1, descending=True).values
    sums = shares.cumsum(-1)
    if p == 1.0:
        return bool((shares > 1e-3).all())
    return bool(((sums - p).abs() > least).all())


def top_p(logits, p, temperature=1.0):
    """Kept is a token if those that are likelier do not reach p together."""
    shares = torch.softmax((logits / temperature).double(), dim=-1)
    likelier = shares[..., None, :] > shares[..., :, None]
    together = (shares[..., None, :] * likelier).sum(-1)
    kept = shares * ((together < p) | (p == 1.0))
    return (kept / kept.sum(dim=-1, keepdim=True)).to(logits.dtype)


def _settings(case):
    return case.args[0], case.args[1], case.kwargs.get("temperature", 1.0)


def _shares(case, keep, temperature=None):
    """keep(shares, ordered, sums, p) says which are left; the others are cut, the rest shared."""
    logits, p, given = _settings(case)
    shares = torch.softmax(logits / (given if temperature is None else temperature), -1)
    ordered = shares.sort(-1, descending=True).values
    kept = torch.where(keep(shares, ordered, ordered.cumsum(-1), p), shares, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def _stops_short(shares, ordered, sums, p):
    """The one that crosses p is left out, but the likeliest always stays."""
    short = (sums <= p) | (torch.arange(sums.shape[-1]) == 0)
    return shares >= ordered.masked_fill(~short, math.inf).amin(-1, keepdim=True)


def _one_too_many(shares, ordered, sums, p):
    count = ((sums - ordered) < p).sum(-1, keepdim=True).clamp(max=sums.shape[-1] - 1)
    return shares >= ordered.gather(-1, count)


def _ties_by_place(case, right):
    logits, p, temperature = _settings(case)
    shares = torch.softmax(logits / temperature, -1)
    ordered, order = shares.sort(dim=-1, descending=True, stable=True)
    keep = torch.zeros_like(shares, dtype=torch.bool)
    keep = keep.scatter(-1, order, (ordered.cumsum(-1) - ordered) < p)
    kept = shares * keep
    return kept / kept.sum(-1, keepdim=True)


def _least_likely(shares, ordered, sums, p):
    climbing = ordered.flip(-1)
    enough = (climbing.cumsum(-1) - climbing) < p
    return shares <= climbing.masked_fill(~enough, 0.0).amax(-1, keepdim=True)


def _uncut(case, right):
    """The probabilities before they are shared out again, 0 for what is cut."""
    return torch.softmax(case.args[0] / _settings(case)[2], -1) * (right > 0)


def _spoil(keep, **how):
    return lambda case, right: _shares(case, keep, **how)


TOP_P = Exercise(
    name="top_p",
    lesson=LESSON,
    title="the likeliest, until it is enough",
    domain=Domain(
        kinds={
            "logits": (*LOGITS, "just short of p"),
            "p": ("p = 0.5", "p = 0.9", "p = 0.05", "p = 0.75", "p = 1"),
            "temperature": tuple(TEMPERATURES),
            "shape": SHAPES,
        },
        make=_make_top_p,
        edges=("all alike",),
    ),
    forbids=("next_token_probabilities",),
    witness=top_p,
    axes=("rows", "tokens"),
    properties=(_sums_to_one, _nearly_zero),
    smallest=1.0,
    exact_zeros=True,
    hints=(
        "First the probabilities, with the temperature. Then sort them, the largest first, and add "
        "them up with `cumsum`.",
        "A token is needed if those *before* it in that order do not reach p yet. Their sum is the "
        "running sum without the token itself.",
        "You need not undo the sorting: find the smallest probability that is needed. Everything "
        "that is at least as large stays where it is, in the vocabulary's order.",
    ),
    variants={
        "stops-short": Variant(
            "You leave out the token that reaches p. Without it, what is left has less than p: it "
            "belongs in.",
            spoil=_spoil(_stops_short),
        ),
        "one-too-many": Variant(
            "You keep one token more than is needed: those before it have reached p already.",
            spoil=_spoil(_one_too_many),
        ),
        "ties-broken": Variant(_TIES, spoil=_ties_by_place),
        "sorted": Variant(
            _SORTED, spoil=lambda case, right: right.sort(-1, descending=True).values
        ),
        "not-normalized": Variant(
            _NOT_NORMALIZED,
            spoil=_uncut,
        ),
        "each-above-p": Variant(
            "You keep the tokens whose own probability is at least p. It is the *sum* of the "
            "likeliest that has to reach p.",
            spoil=_spoil(lambda shares, ordered, sums, p: shares >= p),
        ),
        "each-above-the-rest": Variant(
            "You keep the tokens whose own probability is at least 1 − p. It is the *sum* of the "
            "likeliest that has to reach p.",
            spoil=_spoil(lambda shares, ordered, sums, p: shares >= 1 - p),
        ),
        "share-of-the-likeliest": Variant(
            "You compare each token with p times the likeliest one. That is known as min-p; here "
            "the *sum* of the likeliest has to reach p.",
            spoil=_spoil(lambda shares, ordered, sums, p: shares >= p * ordered[..., :1]),
        ),
        "unlikeliest": Variant(
            "You add up from the least likely end, and keep those.", spoil=_spoil(_least_likely)
        ),
        "share-of-the-vocabulary": Variant(
            "You keep a share p of all tokens, counted. It is their probability that counts.",
            spoil=_spoil(
                lambda shares, ordered, sums, p: (
                    shares >= ordered[..., [math.ceil(p * sums.shape[-1]) - 1]]
                )
            ),
        ),
        "in-the-vocabularys-order": Variant(
            "You add up in the vocabulary's order. It is the likeliest first.",
            spoil=_spoil(lambda shares, ordered, sums, p: (shares.cumsum(-1) - shares) < p),
        ),
        "temperature-ignored": Variant(
            "The temperature is not used.",
            spoil=lambda case, right: top_p(*case.args),
        ),
        "temperature-multiplied": Variant(
            _BY_TEMPERATURE_TWICE,
            spoil=lambda case, right: top_p(*case.args, 1 / _settings(case)[2]),
        ),
        "temperature-last": Variant(
            "You choose the tokens at temperature 1, and use the temperature only then. It comes "
            "first: a flatter distribution needs more tokens to reach p.",
            spoil=lambda case, right: torch.softmax(
                (case.args[0] / _settings(case)[2]).masked_fill(top_p(*case.args) == 0, -math.inf),
                -1,
            ),
        ),
        "nothing-cut": Variant(
            "Nothing is cut: this is the plain softmax.",
            spoil=lambda case, right: torch.softmax(case.args[0] / _settings(case)[2], -1),
        ),
        "one-sum": Variant(
            _ONE_SUM,
            spoil=lambda case, right: (kept := _uncut(case, right)) / kept.sum(),
        ),
        "logits": Variant(
            "You give logits, with −∞ for what is cut. Probabilities are wanted: the softmax is "
            "still missing.",
            spoil=lambda case, right: (case.args[0] / _settings(case)[2]).masked_fill(
                right == 0, -math.inf
            ),
        ),
        "evenly": Variant(
            "All tokens that are left are equally likely with you. They keep their proportions.",
            spoil=lambda case, right: (
                (right > 0).to(right.dtype) / (right > 0).sum(-1, keepdim=True).to(right.dtype)
            ),
        ),
    },
)


EXERCISES = [DIVERGENCE, MODEL, BITS, CACHED, TOP_K, TOP_P]
QUESTIONS = [
    Item(
        "09-coin",
        LESSON,
        "A coin shows heads nine times in ten. How surprising is one throw, on average?",
        (
            Option("1 bit", "That is a fair coin: nobody knows anything about it beforehand."),
            Option(
                "about half a bit",
                "Yes: mostly heads, which hardly surprises; now and then tails, which does.",
                right=True,
            ),
            Option(
                "about 3 bits",
                "So surprising are tails alone, log₂ 10. But they come once in ten throws.",
            ),
        ),
    ),
    Item(
        "09-line",
        LESSON,
        "A model learns from this source. Which held-out loss can it reach, with time and size "
        "enough?",
        (
            Option(
                "0: in the end it knows the source by heart",
                "It can know the source's rules by heart. What the source draws by them stays "
                "chance.",
            ),
            Option(
                "the entropy rate, and not less",
                "Yes. Below it there is nothing left to know.",
                right=True,
            ),
            Option(
                "the entropy of the frequencies",
                "That is what one reaches who knows how often each symbol comes. Two symbols "
                "before it tell more.",
            ),
        ),
    ),
    Item(
        "09-first-words",
        LESSON,
        "300 steps on Python's manual, less than a minute. What will it write?",
        (
            Option(
                "a jumble of letters",
                "So it begins. Letters alone are learned within some fifty steps.",
            ),
            Option(
                "words, lines and indents that look like a manual, without sense",
                "Yes. It has learned how such a text is spelled and laid out.",
                right=True,
            ),
            Option(
                "a manual that one could use",
                "For that it would have to know what the words mean. Read what it writes.",
            ),
        ),
    ),
    Item(
        "09-greedy",
        LESSON,
        "What becomes of a text that always takes the likeliest character?",
        (
            Option(
                "the best text that the model can write",
                "The likeliest next step does not make the likeliest text, and the likeliest text "
                "is not the best one.",
            ),
            Option(
                "the same phrases come again and again",
                "Yes: what was written once makes itself likelier the second time.",
                right=True,
            ),
            Option("nonsense", "At each step it says what it is surest of. Look at the text."),
        ),
    ),
    Item(
        "09-cache",
        LESSON,
        "With a cache, what does the 512th token cost beside the 64th, in a model like Llama-7B?",
        (
            Option(
                "eight times as much",
                "Only the scores and the weighted sum grow with the text. They are the smaller "
                "part.",
            ),
            Option(
                "a little more",
                "Yes: projections and MLP cost the same for each token. Only attention itself has "
                "more keys to look at.",
                right=True,
            ),
            Option("64 times as much", "That would be the whole table of scores, T². It is a row."),
        ),
    ),
    Item(
        "09-quiz-perplexity",
        LESSON,
        "One model has a perplexity of 3 a character, another of 1,000 a word. Which is better?",
        (
            Option(
                "the first",
                "Its choices are smaller, but it makes six or so for a word and the space behind "
                "it: 3⁶ = 729 in all.",
            ),
            Option(
                "the second",
                "Its choices are larger, but it makes one where the other makes six or so.",
            ),
            Option(
                "one cannot tell before both are in bits per byte",
                "Yes: then it does not matter how a text was cut.",
                right=True,
            ),
        ),
    ),
    Item(
        "09-quiz-under",
        LESSON,
        "A training loss lies under the entropy of the source. What has happened?",
        (
            Option(
                "the model is better than the source",
                "Nobody can know more about the next symbol than the one who draws it.",
            ),
            Option(
                "the model has seen these texts before",
                "Yes: it recites them. On new texts it is worse than one that has not.",
                right=True,
            ),
            Option(
                "the entropy was computed wrongly",
                "It might be. But then new texts would lie under it as well.",
            ),
        ),
    ),
    Item(
        "09-quiz-top-p",
        LESSON,
        "One token has a probability of 0.95. How many does top-p with p = 0.9 keep?",
        (
            Option("one", "Yes: it alone reaches p.", right=True),
            Option("none: it is more than p", "The one that reaches p is always among the kept."),
            Option(
                "nine tenths of the vocabulary",
                "p counts probability, not tokens: where the model is sure, few are left.",
            ),
        ),
    ),
    Item(
        "09-quiz-cache",
        LESSON,
        "Why does nobody keep the queries in the cache?",
        (
            Option(
                "they are too large",
                "They are as large as the keys.",
            ),
            Option(
                "a query is asked once, by the token that has it",
                "Yes. Later tokens ask with their own; of the old ones they need keys and values.",
                right=True,
            ),
            Option(
                "they are the same for all tokens",
                "Each token has its own.",
            ),
        ),
    ),
]
