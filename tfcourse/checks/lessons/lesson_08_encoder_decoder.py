"""Lesson 08: one stack reads, another one writes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse.attention import padding_mask
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
from tfcourse.checks.lessons.lesson_06_transformer_block import built, spoiled
from tfcourse.checks.quiz import Item, Option

LESSON = "08_encoder_decoder"


# --- teacher_forcing ------------------------------------------------------------------------


def _rows(seed, batch, length, kind, padding):
    """Rows from start (1) to stop (2), with other tokens between and padding behind."""
    chosen = torch.Generator().manual_seed(seed)
    ends = torch.randint(2, length + 1, (batch,), generator=chosen)
    ends[seed % batch] = length
    if kind == "all of one length":
        ends[:] = length
    if kind == "some with nothing between start and stop":
        ends[:] = torch.where(torch.arange(batch) % 2 == seed % 2, 2, ends)
    tokens = torch.randint(3, 9, (batch, length), generator=chosen)
    place = torch.arange(length)
    tokens[:, 0] = 1
    tokens = torch.where(place == ends[:, None] - 1, 2, tokens)
    return torch.where(place >= ends[:, None], padding, tokens)


def _make_forcing(kind, seed):
    batch, length = unequal(seed, 2, 3, 8)
    if kind["sizes"] == "one row":
        batch = 1
    if kind["sizes"] == "as many rows as tokens":
        batch = length
    padding = {"padding is 0": 0, "padding is 9": 9}[kind["padding"]]
    return Case((_rows(seed, batch, length, kind["rows"], padding), padding))


def teacher_forcing(target, padding):
    """What the decoder reads, what it has to say, and where that counts."""
    inputs, labels = target[:, :-1], target[:, 1:]
    return inputs, labels, labels != padding


def _forced(make):
    return lambda target, padding: make(target, target != padding)


FORCING = Exercise(
    name="teacher_forcing",
    lesson=LESSON,
    title="what the decoder reads, and what it says",
    domain=Domain(
        kinds={
            "rows": (
                "rows of different lengths",
                "all of one length",
                "some with nothing between start and stop",
            ),
            "padding": ("padding is 0", "padding is 9"),
            "sizes": ("unequal sizes", "one row", "as many rows as tokens"),
        },
        make=_make_forcing,
    ),
    witness=teacher_forcing,
    reference=teacher_forcing,
    axes=("batch", "tokens"),
    hints=(
        "Write one row down: start 2 0 2 1 stop. When the decoder has read `start` and 2, what "
        "should it say?",
        "Both results are one token shorter than the row. From one of them the last token is "
        "missing, from the other the first.",
        "What counts is what has to be said. So ask the labels where they are padding.",
    ),
    variants={
        "not-shifted": Variant(
            "The decoder should say the very token that it reads. It can copy, and learns nothing: "
            "the label stands one place to the left of where it is read.",
            _forced(lambda t, real: (t[:, :-1], t[:, :-1], real[:, :-1])),
        ),
        "not-shifted-from-one": Variant(
            "The decoder should say the very token that it reads. It can copy, and learns nothing: "
            "the label stands one place to the left of where it is read.",
            _forced(lambda t, real: (t[:, 1:], t[:, 1:], real[:, 1:])),
        ),
        "swapped": Variant(
            "Inputs and labels have changed places: the decoder would read what comes next, and "
            "say what came before.",
            _forced(lambda t, real: (t[:, 1:], t[:, :-1], real[:, :-1])),
        ),
        "real-of-the-inputs": Variant(
            "You count where the *inputs* are real. Behind the stop token there is nothing to say, "
            "though the stop token itself is read there.",
            _forced(lambda t, real: (t[:, :-1], t[:, 1:], real[:, :-1])),
        ),
        "inverted": Variant(
            "`real` is the wrong way round: True is where a label counts.",
            _forced(lambda t, real: (t[:, :-1], t[:, 1:], ~real[:, 1:])),
        ),
        "rolled": Variant(
            "Your labels are the row turned round: behind the last token stands the first again. "
            "There is nothing to say after the last token, so both results are one shorter.",
            _forced(lambda t, real: (t, t.roll(-1, 1), real.roll(-1, 1))),
        ),
        "whole": Variant(
            "The decoder reads the whole row, the last token too. After that token there is "
            "nothing left to say.",
            _forced(lambda t, real: (t, t[:, 1:], real[:, 1:])),
        ),
        "stop-does-not-count": Variant(
            "The stop token does not count with you. Then nobody learns to stop.",
            _forced(lambda t, real: (t[:, :-1], t[:, 1:], real[:, 1:] & (t[:, 1:] != 2))),
        ),
        "all-count": Variant(
            "Padding counts with you as well: the decoder would spend its effort on it.",
            _forced(lambda t, real: (t[:, :-1], t[:, 1:], torch.ones_like(real[:, 1:]))),
        ),
        "padding-is-zero": Variant(
            "You take 0 for padding, whatever `padding` is.",
            _forced(lambda t, real: (t[:, :-1], t[:, 1:], t[:, 1:] != 0)),
        ),
    },
)


# --- Translator -----------------------------------------------------------------------------


class Translator(nn.Module):
    """An encoder and a decoder of the package's blocks, wired by hand."""

    def __init__(self, vocabulary, d_model, n_heads, layers, max_tokens):
        super().__init__()
        self.source_tokens = nn.Embedding(vocabulary, d_model)
        self.source_positions = nn.Embedding(max_tokens, d_model)
        self.encoder = nn.ModuleList(Block(d_model, n_heads) for _ in range(layers))
        self.encoder_norm = nn.LayerNorm(d_model)
        self.target_tokens = nn.Embedding(vocabulary, d_model)
        self.target_positions = nn.Embedding(max_tokens, d_model)
        self.decoder = nn.ModuleList(Block(d_model, n_heads, cross=True) for _ in range(layers))
        self.decoder_norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocabulary, bias=False)

    def forward(self, source, lengths, target):
        """(batch, source), (batch,), (batch, target) -> (batch, target, vocabulary)."""
        return _translated(self, source, lengths, target)


def _embedded(m, source):
    return m.source_tokens(source) + m.source_positions.weight[: source.shape[1]]


def _read(model, source, positions=True, mask=None, causal=False, last_norm=True, layers=None):
    """The encoder; `layers` gathers what every block gives."""
    x = _embedded(model, source) if positions else model.source_tokens(source)
    for block in model.encoder:
        x = block(x, mask=mask, causal=causal)
        if layers is not None:
            layers.append(x)
    return model.encoder_norm(x) if last_norm else x


def _write(model, target, memory, mask=None, positions=True, causal=True, tokens=None):
    """The decoder; `memory` is one for all of its blocks, or a list with one for each."""
    y = (model.target_tokens if tokens is None else tokens)(target)
    if positions:
        y = y + model.target_positions.weight[: target.shape[1]]
    each = memory if isinstance(memory, list) else [memory] * len(model.decoder)
    for block, read in zip(model.decoder, each, strict=True):
        y = block(y, read, causal=causal, context_mask=mask)
    return y


def _translated(model, source, lengths, target):
    mask = padding_mask(lengths, source.shape[1])
    y = _write(model, target, _read(model, source, mask=mask), mask)
    return model.head(model.decoder_norm(y))


def _make_translator(kind, seed):
    batch, source, target, d_head = unequal(seed, 4, 2, 6)
    heads, vocabulary = 2, 11
    batch = {"a batch of one": 1}.get(kind["sizes"], batch)
    target = {"one token written": 1, "as much written as read": source}.get(kind["sizes"], target)
    d_head += d_head % 2
    chosen = torch.Generator().manual_seed(seed + 1)
    lengths = torch.randint(1, source + 1, (batch,), generator=chosen)
    lengths[seed % batch] = source
    if kind["lengths"] == "all full":
        lengths[:] = source
    if kind["lengths"] == "one real token each":
        lengths[:] = 1
    sizes = {"vocabulary": vocabulary, "d_model": heads * d_head, "n_heads": heads}
    build = sizes | {"layers": {"one block each": 1}.get(kind["depth"], 2), "max_tokens": 9}
    tokens = [torch.randint(vocabulary, (batch, n), generator=chosen) for n in (source, target)]
    model = Translator(**build)
    weights = {}
    for name, shape in ((n, p.shape) for n, p in model.named_parameters()):
        size = math.sqrt(shape[-1]) if len(shape) > 1 else 2.0
        weights[name] = torch.randn(shape, generator=chosen) / size
        if "tokens" in name or "positions" in name:
            weights[name] *= size  # vectors of numbers around 1
    return Case((tokens[0], lengths, tokens[1]), build=build, weights=weights)


def _translator_twins() -> list[Case]:
    """A filler changed, the future changed, and a source alone, cut to its own length."""
    kinds = {name: options[0] for name, options in TRANSLATOR.domain.kinds.items()}
    base = _make_translator(kinds, 4)
    source, lengths, target = base.args
    lengths = torch.full_like(lengths, source.shape[1] - 1)
    lengths[0] = source.shape[1]
    common = {"build": base.build, "weights": base.weights}
    first = Case((source, lengths, target), **common)
    filler = source.clone()
    filler[1:, -1] = (filler[1:, -1] + 3) % 11
    future = target.clone()
    future[:, -1] = (future[:, -1] + 5) % 11
    leak = "Padding of the source changes what is written: it must be hidden from every reader."
    return [
        first,
        Case(
            (filler, lengths, target),
            **common,
            note="another filler",
            twin=Twin(0, lambda a, b: (a[1:], b[1:]), "padding-leaks", leak),
        ),
        Case(
            (source, lengths, future),
            **common,
            note="another last token written",
            twin=Twin(
                0,
                lambda a, b: (a[:, :-1], b[:, :-1]),
                "future-leaks",
                "What is written later changes what was written before: in use it is not there "
                "yet. The decoder may not look ahead.",
            ),
        ),
    ]


_TRANSLATORS = built(Translator)


def _wired(wire):
    """For `Variant.spoil`: wire(model, source, mask of its real tokens, target)."""

    def whole(model, source, lengths, target):
        return wire(model, source, padding_mask(lengths, source.shape[1]), target)

    return spoiled(_TRANSLATORS, whole)


def _out(model, y):
    return model.head(model.decoder_norm(y))


def _layer_by_layer(m, source, mask, target):
    layers = []
    _read(m, source, mask=mask, layers=layers)
    return _out(m, _write(m, target, layers, mask))


def _by_one_block(m, source, mask, target):
    x = m.encoder[0](_embedded(m, source), mask=mask)
    y = m.target_tokens(target) + m.target_positions.weight[: target.shape[1]]
    y = m.decoder[0](y, m.encoder_norm(x), causal=True, context_mask=mask)
    return _out(m, y)


def _normed_each_time(m, source, mask, target):
    x = _embedded(m, source)
    for block in m.encoder:
        x = m.encoder_norm(block(x, mask=mask))
    return _out(m, _write(m, target, x, mask))


TRANSLATOR = Exercise(
    name="Translator",
    lesson=LESSON,
    title="the translator",
    domain=Domain(
        kinds={
            "lengths": ("sources of different lengths", "all full", "one real token each"),
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one token written",
                "as much written as read",
            ),
            "depth": ("two blocks each", "one block each"),
        },
        make=_make_translator,
    ),
    special=_translator_twins,
    witness=Translator,
    reference=Translator,
    axes=("batch", "tokens", "vocabulary"),
    tolerance=5e-5,
    hints=(
        "Two halves, one after the other. The encoder: embed, add positions, its blocks, its norm. "
        "The decoder: the same with its own parts, and each of its blocks is also given what the "
        "encoder has made.",
        "`padding_mask(lengths, source.shape[1])` says which tokens of the source are real. Who "
        "reads the source? The encoder's blocks, and …",
        "`block(y, memory, causal=True, context_mask=…)`: the decoder may not look ahead in what "
        "it writes, but it may read all real tokens of the source.",
    ),
    variants={
        "no-masks": Variant(
            "Nobody hides the padding of the source: both halves read it like real tokens.",
            spoil=_wired(lambda m, s, mask, t: _out(m, _write(m, t, _read(m, s)))),
        ),
        "encoder-unmasked": Variant(
            "The encoder reads the padding like real tokens. The decoder hides it, but by then "
            "it is mixed into the others.",
            spoil=_wired(lambda m, s, mask, t: _out(m, _write(m, t, _read(m, s), mask))),
        ),
        "cross-unmasked": Variant(
            "The encoder hides the padding, but the decoder reads what became of it: "
            "`context_mask` is missing.",
            spoil=_wired(lambda m, s, mask, t: _out(m, _write(m, t, _read(m, s, mask=mask)))),
        ),
        "mask-inverted": Variant(
            "Your mask is the wrong way round: it hides the real tokens and shows the padding. "
            "True = may attend.",
            spoil=_wired(
                lambda m, s, mask, t: _out(m, _write(m, t, _read(m, s, mask=~mask), ~mask))
            ),
        ),
        "not-causal": Variant(
            "The decoder sees what is written later. In training it would copy it; in use it is "
            "not there.",
            spoil=_wired(
                lambda m, s, mask, t: _out(
                    m, _write(m, t, _read(m, s, mask=mask), mask, causal=False)
                )
            ),
        ),
        "encoder-causal": Variant(
            "The encoder may not look ahead with you. The source is there as a whole: each of its "
            "tokens may see all real ones.",
            spoil=_wired(
                lambda m, s, mask, t: _out(
                    m, _write(m, t, _read(m, s, mask=mask, causal=True), mask)
                )
            ),
        ),
        "no-encoder-norm": Variant(
            "The encoder's last norm is missing: pre-norm blocks leave a stream that nobody has "
            "normalized.",
            spoil=_wired(
                lambda m, s, mask, t: _out(
                    m, _write(m, t, _read(m, s, mask=mask, last_norm=False), mask)
                )
            ),
        ),
        "no-decoder-norm": Variant(
            "The decoder's last norm is missing, before the head.",
            spoil=_wired(lambda m, s, mask, t: m.head(_write(m, t, _read(m, s, mask=mask), mask))),
        ),
        "no-source-positions": Variant(
            "The source has no positions: to the encoder it is a bag of tokens.",
            spoil=_wired(
                lambda m, s, mask, t: _out(
                    m, _write(m, t, _read(m, s, positions=False, mask=mask), mask)
                )
            ),
        ),
        "no-target-positions": Variant(
            "What is written has no positions.",
            spoil=_wired(
                lambda m, s, mask, t: _out(
                    m, _write(m, t, _read(m, s, mask=mask), mask, positions=False)
                )
            ),
        ),
        "no-positions": Variant(
            "Neither side has positions: add them to the tokens' vectors.",
            spoil=_wired(
                lambda m, s, mask, t: _out(
                    m,
                    _write(m, t, _read(m, s, positions=False, mask=mask), mask, positions=False),
                )
            ),
        ),
        "one-embedding": Variant(
            "What is written is embedded with the source's table. Here each side has its own.",
            spoil=_wired(
                lambda m, s, mask, t: _out(
                    m, _write(m, t, _read(m, s, mask=mask), mask, tokens=m.source_tokens)
                )
            ),
        ),
        "layer-by-layer": Variant(
            "Each of the decoder's blocks reads the encoder's block of the same number. All of "
            "them read the end of the encoder, normalized.",
            spoil=_wired(_layer_by_layer),
        ),
        "reads-the-embedding": Variant(
            "The decoder reads the source's embedding: what the encoder makes of it goes nowhere.",
            spoil=_wired(
                lambda m, s, mask, t: _out(m, _write(m, t, m.encoder_norm(_embedded(m, s)), mask))
            ),
        ),
        "normed-each-time": Variant(
            "The encoder's norm stands behind every block. It stands once, behind the last one.",
            spoil=_wired(_normed_each_time),
        ),
        "first-blocks-alone": Variant(
            "Only the first block of each stack is used.",
            spoil=_wired(_by_one_block),
        ),
        "no-head": Variant(
            "You give the decoder's vectors. The head makes logits of them.",
            spoil=_wired(
                lambda m, s, mask, t: m.decoder_norm(_write(m, t, _read(m, s, mask=mask), mask))
            ),
        ),
    },
)


# --- smoothed_loss (graded) -----------------------------------------------------------------


def _make_smoothed(kind, seed):
    batch, tokens, vocabulary = unequal(seed, 3, 3, 8)
    if kind["sizes"] == "one row":
        batch = 1
    if kind["sizes"] == "as many tokens as symbols":
        tokens = vocabulary
    if kind["sizes"] == "two symbols":
        vocabulary = 2
    chosen = torch.Generator().manual_seed(seed + 1)
    [logits] = randn(seed, (batch, tokens, vocabulary))
    logits = {
        "ordinary logits": 2 * logits,
        "logits in the hundreds": 300 * logits,
        "logits about 50": 50 + 2 * logits,
        "all logits alike": 0 * logits + 1.5,
    }[kind["logits"]]
    labels = torch.randint(vocabulary, (batch, tokens), generator=chosen)
    lengths = torch.randint(1, tokens + 1, (batch,), generator=chosen)
    lengths[seed % batch] = tokens
    if kind["real"] == "all real":
        lengths[:] = tokens
    real = torch.arange(tokens) < lengths[:, None]
    if kind["real"] == "one token in all":
        real = torch.zeros_like(real)
        real[seed % batch, seed % tokens] = True
    smoothing = {"smoothing 0.1": 0.1, "no smoothing": 0.0, "smoothing 0.4": 0.4}[kind["smoothing"]]
    return Case((logits, labels, real, smoothing))


def smoothed_loss(logits, labels, real, smoothing):
    """PyTorch's own, over the real tokens."""
    return F.cross_entropy(logits[real], labels[real], label_smoothing=smoothing)


def _each(case, dim=-1):
    """-log p of every token: of the label, and the mean over the vocabulary."""
    logits, labels, real, smoothing = case.args
    log_p = torch.log_softmax(logits, dim)
    return -log_p.gather(-1, labels[..., None])[..., 0], -log_p.mean(-1), real, smoothing


def _from_each(make, dim=-1):
    def spoil(case, right):
        return make(*_each(case, dim))

    return spoil


def _over_the_others(case, right):
    label, mean, real, s = _each(case)
    n = case.args[0].shape[-1]
    return ((1 - s) * label + s * (n * mean - label) / (n - 1))[real].mean()


def _bare_exponentials(case, right):
    logits, labels, real, s = case.args
    log_p = (logits.exp() / logits.exp().sum(-1, keepdim=True)).log()
    label = -log_p.gather(-1, labels[..., None])[..., 0]
    return ((1 - s) * label - s * log_p.mean(-1))[real].mean()


def _right_without_smoothing(cases, values, expected):
    """Right wherever nothing is smoothed, wrong elsewhere."""
    triples = zip(cases, values, expected, strict=True)
    wrong = [case.args[3] for case, v, e in triples if not same(v, e, 1e-4)]
    if wrong and all(wrong):
        return Finding(
            "smoothing",
            "Right without smoothing. With it, the wanted distribution has 1 − s on the label, and "
            "s shared evenly by *all* tokens of the vocabulary, the label among them.",
        )
    return None


SMOOTHED = Exercise(
    name="smoothed_loss",
    lesson=LESSON,
    title="the loss, with its labels smoothed",
    domain=Domain(
        kinds={
            "logits": (
                "ordinary logits",
                "logits in the hundreds",
                "logits about 50",
                "all logits alike",
            ),
            "real": ("rows of different lengths", "all real", "one token in all"),
            "smoothing": ("smoothing 0.1", "no smoothing", "smoothing 0.4"),
            "sizes": ("unequal sizes", "one row", "as many tokens as symbols", "two symbols"),
        },
        make=_make_smoothed,
        edges=("logits in the hundreds", "all logits alike"),
    ),
    forbids=("cross_entropy", "cross_entropy_loss", "nll_loss", "kl_div"),
    witness=smoothed_loss,
    axes=(),
    properties=(_right_without_smoothing,),
    tolerance=2e-5,
    smallest=0.1,
    hints=(
        "`torch.log_softmax(logits, dim=-1)` gives log p of every token of the vocabulary. Of "
        "which of them do you need which share?",
        "`log_p.gather(-1, labels[..., None])` takes the label's log p at every place, (batch, "
        "tokens, 1).",
        "At every place: a part 1 − s from the label, a part s from the mean over the vocabulary. "
        "Then the mean over the places that are real, all rows together.",
    ),
    variants={
        "no-smoothing": Variant(
            "Nothing is smoothed: this is the plain cross-entropy, whatever `smoothing` is.",
            spoil=_from_each(lambda label, mean, real, s: label[real].mean()),
        ),
        "fillers-count": Variant(
            "Your mean is over all places, those of padding too.",
            spoil=_from_each(lambda label, mean, real, s: ((1 - s) * label + s * mean).mean()),
        ),
        "divided-by-all": Variant(
            "You take the sum over the real places, but divide by the number of all places.",
            spoil=_from_each(
                lambda label, mean, real, s: (((1 - s) * label + s * mean) * real).mean()
            ),
        ),
        "mean-of-means": Variant(
            "You take the mean of every row, and then the mean of those: a token of a short row "
            "counts for more. All real tokens count alike.",
            spoil=_from_each(
                lambda label, mean, real, s: (
                    (((1 - s) * label + s * mean) * real).sum(1) / real.sum(1)
                ).nanmean()
            ),
        ),
        "summed": Variant(
            "You give the sum over the real tokens; it is their mean.",
            spoil=_from_each(lambda label, mean, real, s: ((1 - s) * label + s * mean)[real].sum()),
        ),
        "sign": Variant(
            "The sign is the wrong way round: a loss is −log p, and never below 0.",
            spoil=_from_each(
                lambda label, mean, real, s: -((1 - s) * label + s * mean)[real].mean()
            ),
        ),
        "over-the-others": Variant(
            "You share s among the *other* tokens of the vocabulary. It is shared among all of "
            "them: the label gets its part too.",
            spoil=_over_the_others,
        ),
        "label-whole": Variant(
            "The label keeps its whole weight of 1, and s comes on top: the shares sum to 1 + s.",
            spoil=_from_each(lambda label, mean, real, s: (label + s * mean)[real].mean()),
        ),
        "sum-over-the-vocabulary": Variant(
            "You take the *sum* over the vocabulary where its mean is meant: each token of it gets "
            "s / vocabulary.",
            spoil=lambda case, right: _from_each(
                lambda label, mean, real, s: ((1 - s) * label + s * mean * case.args[0].shape[-1])[
                    real
                ].mean()
            )(case, right),
        ),
        "shares-swapped": Variant(
            "The shares have changed places: the label should get 1 − s.",
            spoil=_from_each(
                lambda label, mean, real, s: (s * label + (1 - s) * mean)[real].mean()
            ),
        ),
        "over-tokens": Variant(
            "Your softmax goes over the tokens of a row. It goes over the vocabulary, the last "
            "axis.",
            spoil=_from_each(
                lambda label, mean, real, s: ((1 - s) * label + s * mean)[real].mean(), dim=1
            ),
        ),
        "bits": Variant(
            "You give bits: the logarithm to base 2. Losses are in nats here.",
            spoil=_from_each(
                lambda label, mean, real, s: ((1 - s) * label + s * mean)[real].mean() / math.log(2)
            ),
        ),
        "overflow": Variant(
            "Right, until the logits get large: exp(100) is too large for a float32, and the "
            "logarithm of 0 is −∞. `torch.log_softmax` can handle them.",
            spoil=_bare_exponentials,
        ),
    },
)


# --- adamw_step -----------------------------------------------------------------------------

ADAMW = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.01}
OTHER = {"rate": 0.3, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "decay": 0.5}
AT_STEP = {"the first step": 1, "the seventh step": 7, "step 20 000": 20_000}


def _make_adamw(kind, seed):
    rows, columns = unequal(seed, 2)
    shape = {"a matrix": (rows, columns), "a vector": (columns,), "one number": ()}[kind["shape"]]
    w, g, m, v = randn(seed, *[shape or (1,)] * 4)
    size = {
        "ordinary gradients": 1.0,
        "tiny gradients": 1e-4,
        "large gradients": 1e3,
        "no gradient": 0.0,
    }[kind["gradients"]]
    t = AT_STEP[kind["step"]]
    g, m, v = size * g, 0.5 * size * m, size**2 * (v.square() + 0.1)
    if t == 1:
        m, v = 0 * m, 0 * v
    given = [x.reshape(shape) for x in (0.2 * w, g, m, v)]
    settings = {
        "settings left out": {},
        "other settings": OTHER,
        "a large rate": {"rate": 0.5},
        "no decay": {"rate": 0.3, "decay": 0.0},
    }[kind["settings"]]
    return Case((*given, t), settings, gradients=False)


def adamw_step(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    """One step of AdamW: the new weight and the two running means."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - rate * (m_hat / (v_hat.sqrt() + eps) + decay * w), m, v


def _adamw(update=None, means=None, after=None):
    """A step with another update, other running means, or another way to shrink the weight."""

    def answer(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
        if means is None:
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        else:
            m, v = means(w, g, m, v, beta1, beta2, decay)
        if update is None:
            change = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps)
        else:
            change = update(m, v, t, beta1, beta2, eps, g)
        if after is None:
            return w - rate * (change + decay * w), m, v
        return after(w, change, rate, decay), m, v

    return answer


def _corrected(m, v, t, beta1, beta2):
    return m / (1 - beta1**t), v / (1 - beta2**t)


STEP = Exercise(
    name="adamw_step",
    lesson=LESSON,
    title="one step of AdamW",
    domain=Domain(
        kinds={
            "step": tuple(AT_STEP),
            "settings": ("other settings", "settings left out", "a large rate", "no decay"),
            "gradients": (
                "ordinary gradients",
                "tiny gradients",
                "large gradients",
                "no gradient",
            ),
            "shape": ("a matrix", "a vector", "one number"),
        },
        make=_make_adamw,
        edges=("no gradient",),
    ),
    witness=adamw_step,
    reference=adamw_step,
    axes=("rows", "columns"),
    tolerance=1e-5,
    smallest=1e-3,
    hints=(
        "The two running means first: of g, and of g². Both are returned as they are, without the "
        "correction.",
        "At step 1 the running mean of g is (1 − β₁) g, though the mean of one number is g itself. "
        "By what do you have to divide? And at step t?",
        "The weight goes down by rate · (corrected m / (root of the corrected v + eps)), and "
        "besides by rate · decay of itself, as it was before the step.",
    ),
    variants={
        "no-correction": Variant(
            "The running means begin at 0 and are not corrected: the first steps are too small or "
            "too large. By what must they be divided after t steps?",
            _adamw(lambda m, v, t, b1, b2, eps, g: m / (v.sqrt() + eps)),
        ),
        "m-uncorrected": Variant(
            "v is corrected for its beginning at 0, m is not.",
            _adamw(lambda m, v, t, b1, b2, eps, g: m / ((v / (1 - b2**t)).sqrt() + eps)),
        ),
        "v-uncorrected": Variant(
            "m is corrected for its beginning at 0, v is not.",
            _adamw(lambda m, v, t, b1, b2, eps, g: m / (1 - b1**t) / (v.sqrt() + eps)),
        ),
        "corrected-once": Variant(
            "Your correction is that of the first step, whatever t is: 1 − β, without its power.",
            _adamw(lambda m, v, t, b1, b2, eps, g: m / (1 - b1) / ((v / (1 - b2)).sqrt() + eps)),
        ),
        "eps-inside": Variant(
            "Your eps stands under the root. Here it is added to the root.",
            _adamw(
                lambda m, v, t, b1, b2, eps, g: m / (1 - b1**t) / (v / (1 - b2**t) + eps).sqrt()
            ),
        ),
        "no-root": Variant(
            "You divide by the mean of the squares. It is its root: so a step does not depend on "
            "how large the gradients are.",
            _adamw(lambda m, v, t, b1, b2, eps, g: m / (1 - b1**t) / (v / (1 - b2**t) + eps)),
        ),
        "gradient-alone": Variant(
            "Your step follows the newest gradient. It follows the running mean of them.",
            _adamw(lambda m, v, t, b1, b2, eps, g: g / ((v / (1 - b2**t)).sqrt() + eps)),
        ),
        "no-decay": Variant(
            "The weight decay is missing.",
            _adamw(after=lambda w, change, rate, decay: w - rate * change),
        ),
        "decay-not-by-rate": Variant(
            "The weight shrinks by decay, whatever the learning rate is. It is rate · decay.",
            _adamw(after=lambda w, change, rate, decay: w - rate * change - decay * w),
        ),
        "decay-after": Variant(
            "The weight decay shrinks the weight *after* the step. It is a share of the weight as "
            "it was before.",
            _adamw(after=lambda w, change, rate, decay: (w - rate * change) * (1 - rate * decay)),
        ),
        "adam-with-l2": Variant(
            "You add decay · w to the gradient. That is Adam with an L2 penalty: the decay is then "
            "divided by the root of v as well. In AdamW (the W!) it is *decoupled* from that.",
            _adamw(
                means=lambda w, g, m, v, b1, b2, decay: (
                    b1 * m + (1 - b1) * (g + decay * w),
                    b2 * v + (1 - b2) * (g + decay * w) ** 2,
                ),
                after=lambda w, change, rate, decay: w - rate * change,
            ),
        ),
        "sign": Variant(
            "You go uphill: the step has to be subtracted.",
            _adamw(after=lambda w, change, rate, decay: w + rate * (change - decay * w)),
        ),
        "betas-swapped": Variant(
            "β₁ and β₂ have changed places: β₁ is for the gradients, β₂ for their squares.",
            lambda w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01: (
                adamw_step(w, g, m, v, t, rate, beta2, beta1, eps, decay)
            ),
        ),
        "shares-swapped": Variant(
            "In your running means the new gradient gets the share β, and the old mean 1 − β. They "
            "should move slowly.",
            _adamw(
                means=lambda w, g, m, v, b1, b2, decay: (
                    (1 - b1) * m + b1 * g,
                    (1 - b2) * v + b2 * g * g,
                )
            ),
        ),
        "no-square": Variant(
            "v is to be the running mean of the *squares* of the gradients.",
            _adamw(
                means=lambda w, g, m, v, b1, b2, decay: (
                    b1 * m + (1 - b1) * g,
                    b2 * v + (1 - b2) * g.abs(),
                )
            ),
        ),
        "corrected-means-kept": Variant(
            "The new weight is right, but you give back the corrected means. They are corrected "
            "for this step alone; the next one goes on with the plain ones.",
            lambda w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01: (
                lambda new: (new[0], *_corrected(new[1], new[2], t, beta1, beta2))
            )(adamw_step(w, g, m, v, t, rate, beta1, beta2, eps, decay)),
        ),
    },
)


# --- exact_matches (find the bugs) ----------------------------------------------------------


def _make_matches(kind, seed):
    count, length = unequal(seed, 2, 4, 9)
    if kind["sizes"] == "one text":
        count = 1
    stop = {"stop is 2": 2, "stop is 7": 7}[kind["stop"]]
    chosen = torch.Generator().manual_seed(seed)
    others = torch.tensor([i for i in range(10) if i != stop])
    wanted = others[torch.randint(9, (count, length), generator=chosen)]
    ends = torch.randint(1, length, (count,), generator=chosen)
    place = torch.arange(length)
    wanted = torch.where(place == ends[:, None], stop, wanted)
    written = wanted.clone()
    behind = place > ends[:, None]
    noise = others[torch.randint(9, (count, length), generator=chosen)]
    if kind["behind"] != "the same behind the stop":
        written = torch.where(behind, noise, written)
    wrong = torch.arange(count) % 2 == seed % 2
    if kind["texts"] == "all right":
        wrong[:] = False
    if kind["texts"] == "all wrong":
        wrong[:] = True
    if kind["texts"] == "some do not stop":  # longer than they should be, and right so far
        at = wrong[:, None] & (place == ends[:, None])
    else:
        at = wrong[:, None] & (place == ends[:, None] // 2)
    other = others[(written + 3) % 9]
    if kind["texts"] == "some stop too early":
        at, other = at & (ends[:, None] > 0), torch.full_like(written, stop)
    return Case((torch.where(at, other, written), wanted, stop))


def exact_matches(written, wanted, stop):
    """The share of texts that are right to the last token, the stop included."""
    ended = (wanted == stop).long().cumsum(1)
    counts = (ended - (wanted == stop).long()) == 0  # up to the stop, and it
    return ((written == wanted) | ~counts).all(1).float().mean()


def _matches(good):
    """good(same, counts, before): `counts` up to and with the stop, `before` without it."""

    def answer(written, wanted, stop):
        is_stop = (wanted == stop).long()
        ended = is_stop.cumsum(1)
        return good(written == wanted, ended - is_stop == 0, ended == 0)

    return answer


MATCHES = Exercise(
    name="exact_matches",
    lesson=LESSON,
    title="find the bugs: a score that flatters",
    domain=Domain(
        kinds={
            "texts": (
                "some right, some wrong",
                "all right",
                "all wrong",
                "some do not stop",
                "some stop too early",
            ),
            "behind": ("other tokens behind the stop", "the same behind the stop"),
            "stop": ("stop is 2", "stop is 7"),
            "sizes": ("unequal sizes", "one text"),
        },
        make=_make_matches,
    ),
    witness=exact_matches,
    reference=exact_matches,
    axes=(),
    hints=(
        "Ten digits, nine of them right: is the date right? What does the code give for it?",
        "A text ends with its stop token. What a model writes behind it is thrown away: may it "
        "count?",
        "`(wanted == stop).cumsum(1)` is 0 before the stop and 1 from there on. The stop itself "
        "counts: a text that goes on where it should end is wrong.",
    ),
    variants={
        "tokens-counted": Variant(
            "There are two bugs, and both are still there. You count tokens: nine right digits of "
            "ten make a wrong date. And what stands behind the stop counts too.",
            lambda written, wanted, stop: (written == wanted).float().mean(),
            to_do=True,
        ),
        "behind-the-stop": Variant(
            "Whole texts are compared now, but what stands behind the stop counts too. It is "
            "thrown away.",
            lambda written, wanted, stop: (written == wanted).all(1).float().mean(),
        ),
        "tokens-to-the-stop": Variant(
            "What stands behind the stop does not count any more, but you still count tokens. Nine "
            "right digits of ten make a wrong date.",
            _matches(lambda same, counts, before: same[counts].float().mean()),
        ),
        "without-the-stop": Variant(
            "A text that goes on where it should end counts as right with you. The stop token has "
            "to be there too.",
            _matches(lambda same, counts, before: (same | ~before).all(1).float().mean()),
        ),
        "its-own-stop": Variant(
            "You compare up to where the *written* text stops. One that stops too early then gets "
            "away with it.",
            lambda written, wanted, stop: (
                ((written == wanted) | ((written == stop).cumsum(1) > 0)).all(1).float().mean()
            ),
        ),
        "any-token": Variant(
            "One right token is enough with you. All of them up to the stop must be right.",
            _matches(lambda same, counts, before: (same & counts).any(1).float().mean()),
        ),
        "counted": Variant(
            "You give how many texts are right; it is their share.",
            _matches(lambda same, counts, before: (same | ~counts).all(1).float().sum()),
        ),
        "share-of-wrong": Variant(
            "You give the share of wrong texts.",
            _matches(lambda same, counts, before: 1 - (same | ~counts).all(1).float().mean()),
        ),
        "all-or-nothing": Variant(
            "You ask whether all texts are right. It is the share of those that are.",
            _matches(lambda same, counts, before: (same | ~counts).all().float()),
        ),
    },
)


EXERCISES = [FORCING, TRANSLATOR, SMOOTHED, STEP, MATCHES]
QUESTIONS = [
    Item(
        "08-largest",
        LESSON,
        "The base model of 2017: 6 + 6 blocks, d_model = 512, d_ff = 2048, some 37,000 tokens. "
        "Which part has most parameters?",
        (
            Option("the encoder", "Its blocks have two sub-layers; the decoder's have one more."),
            Option(
                "the decoder",
                "Yes: cross-attention is a third sub-layer, another 4d² in every block.",
                right=True,
            ),
            Option(
                "the table of the embedding",
                "As large as the encoder, and it serves three times. Count the decoder.",
            ),
        ),
    ),
    Item(
        "08-teacher",
        LESSON,
        "In training, the decoder makes a mistake at the first digit. What does it read next?",
        (
            Option(
                "its own wrong digit",
                "So it would be in use. In training all positions are worked out at once, long "
                "before anybody knows what the decoder would have said.",
            ),
            Option(
                "the right digit",
                "Yes: the whole target stands there from the beginning, hidden by the causal mask.",
                right=True,
            ),
            Option(
                "nothing, the text ends there",
                "Every position has its label and its loss, whatever came out at others.",
            ),
        ),
    ),
    Item(
        "08-exact",
        LESSON,
        "Held-out loss 0.02 nats for each token, eleven tokens a date. Each token is drawn from "
        "what the model says. Roughly how many dates come out right to the last digit?",
        (
            Option(
                "about 98%",
                "e^(−0.02) is the share for one token, roughly. A date needs all eleven.",
            ),
            Option(
                "about 80%",
                "Yes: the eleven losses add up to −log p of the whole date, and e^(−0.22) is 80%. "
                "Always taking the likeliest token mostly does better.",
                right=True,
            ),
            Option("about 2%", "That would be a loss of 4 nats for the whole date."),
        ),
    ),
    Item(
        "08-align",
        LESSON,
        "The decoder is about to write the day of “3rd of march 2021”. Where does its "
        "cross-attention look?",
        (
            Option(
                "at the 3 at the beginning",
                "Mostly, yes. Look at how much of it, and in which block.",
                right=True,
            ),
            Option(
                "at the place that the day has in 2021-03-03, the tenth",
                "Where the day stands differs from format to format. What a place holds tells "
                "more.",
            ),
            Option(
                "evenly over all characters",
                "So it is before training. Then nothing could be picked.",
            ),
        ),
    ),
    Item(
        "08-quiz-masks",
        LESSON,
        "Which masks does a translator need?",
        (
            Option(
                "a causal one in the encoder, one for the padding in the decoder",
                "The source is there as a whole: why should its tokens not see each other?",
            ),
            Option(
                "one for the padding wherever the source is read, a causal one where the decoder "
                "reads itself",
                "Yes: the padding in the encoder's attention and in cross-attention, the triangle "
                "in the decoder's own.",
                right=True,
            ),
            Option(
                "causal ones everywhere",
                "Cross-attention would hide the end of the source from the beginning of the "
                "translation.",
            ),
        ),
    ),
    Item(
        "08-quiz-shuffled",
        LESSON,
        "The control was trained on dates paired at random. What did it learn?",
        (
            Option(
                "nothing: its loss stays where it began",
                "Its loss fell a good way: look at the record.",
            ),
            Option(
                "what dates look like, but not which one is meant",
                "Yes. Four digits, a dash, months from 01 to 12: all that needs no source.",
                right=True,
            ),
            Option(
                "to read, but not to write",
                "What it writes are well-formed dates. They are only not the right ones.",
            ),
        ),
    ),
    Item(
        "08-quiz-parallel",
        LESSON,
        "Why is a translator trained in one pass and used token by token?",
        (
            Option(
                "because a cache only works in use",
                "The cache makes writing cheaper. It is not the reason for writing step by step.",
            ),
            Option(
                "because in training the target is known, and a causal mask hides what comes later",
                "Yes. In use nothing is known before it is written.",
                right=True,
            ),
            Option(
                "because the encoder is slow",
                "It runs once in either case: the source is known from the beginning.",
            ),
        ),
    ),
]
