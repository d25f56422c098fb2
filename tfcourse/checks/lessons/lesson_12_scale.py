"""Lesson 12: what a large model costs, and how it is spread over devices."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import torch
import torch.nn.functional as F

from tfcourse import sizing
from tfcourse.checks.exercise import Case, Domain, Exercise, Finding, Variant, randn, unequal
from tfcourse.checks.judging import same
from tfcourse.checks.quiz import Item, Option
from tfcourse.models import TransformerConfig

LESSON = "12_scale"


# --- count_llama ----------------------------------------------------------------------------


def _make_llama(kind, seed):
    many, shared, d_head, layers = unequal(seed, 4, high=9)
    n_kv = {
        "fewer heads of keys and values": many,
        "one head of keys and values": 1,
        "as many heads of keys and values": many * shared,
    }[kind["sharing"]]
    n_heads = many * shared
    if kind["sizes"] == "one head":
        if kind["sharing"] == "fewer heads of keys and values":
            return None
        n_heads = n_kv = 1
    d_head = 1 if kind["sizes"] == "heads of one number" else d_head
    d_ff, vocabulary = 4 * n_heads * d_head + shared, 9 * n_heads * d_head + many + 1
    if kind["sizes"] == "an MLP narrower than d_model":
        d_ff = shared
    if kind["sizes"] == "a vocabulary smaller than d_model":
        vocabulary = many
    if kind["sizes"] == "as large as Llama's":
        # odd sizes: the result is more than float32 can hold
        n_heads, d_head, d_ff, vocabulary = 33, 125, 14335 + 2 * shared, 128_257
        n_kv = {1: 1, many: 11}.get(n_kv, 33)
    layers = 1 if kind["layers"] == "one block" else layers
    tied = kind["head"] == "the embedding's table once more"
    return Case((vocabulary, n_heads * d_head, n_heads, n_kv, d_ff, layers, tied))


def counted_by_sizing(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    """As the package counts the parameters of any config."""
    config = TransformerConfig(
        vocabulary, d_model, n_heads, layers, positions="none", n_kv_heads=n_kv_heads, d_ff=d_ff,
        norm="rms", activation="silu", gated=True, bias=False, tied=tied,
    )  # fmt: skip
    return sizing.parameters(config).total


def count_llama(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    """Blocks, the last norm, one table or two."""
    keys = n_kv_heads * (d_model // n_heads)
    block = 2 * d_model * (d_model + keys) + 3 * d_model * d_ff + 2 * d_model
    return layers * block + d_model + vocabulary * d_model * (1 if tied else 2)


def _llama(
    attention=lambda d, h, kv: 2 * d * d + 2 * d * kv * (d // h),
    mlp=lambda d, d_ff: 3 * d * d_ff,
    norms=lambda d, h: (2 * d, d),
    tables=lambda tied: 1 if tied else 2,
    whole=lambda layers, block, last, tables: layers * block + last + tables,
):
    """Counted another way: `norms` of a block and behind the last one, how many `tables`."""

    def answer(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
        inside, last = norms(d_model, n_heads)
        block = attention(d_model, n_heads, n_kv_heads) + mlp(d_model, d_ff) + inside
        return whole(layers, block, last, vocabulary * d_model * tables(tied))

    return answer


def _llama_biases(cases, values, expected):
    """What there is too much is what the biases of some matrices would have."""
    of_attention = (
        lambda d, keys: 0,
        lambda d, keys: 2 * d + 2 * keys,  # all four
        lambda d, keys: 4 * d,  # all four, as if nothing were shared
        lambda d, keys: d + 2 * keys,  # queries, keys and values, as Qwen has them
        lambda d, keys: 3 * d,
        lambda d, keys: d,  # the output
    )
    of_mlp = (
        lambda d, d_ff: 0,
        lambda d, d_ff: 2 * d_ff + d,
        lambda d, d_ff: d_ff + d,
        lambda d, d_ff: 2 * d_ff,
        lambda d, d_ff: d_ff,
    )
    of_head = (lambda vocabulary: 0, lambda vocabulary: vocabulary)

    def explains(attention, mlp, head):
        for case, value, right in zip(cases, values, expected, strict=True):
            vocabulary, d, heads, kv, d_ff, layers, _ = case.args
            block = attention(d, kv * d // heads) + mlp(d, d_ff)
            if value - right != layers * block + head(vocabulary):
                return False
        return True

    if any(explains(*way) for way in itertools.product(of_attention, of_mlp, of_head)):
        return Finding("biases", "You counted biases as well. A model of this kind has none.")
    return None


LLAMA = Exercise(
    name="count_llama",
    lesson=LESSON,
    title="count a Llama",
    domain=Domain(
        kinds={
            "head": ("a head of its own", "the embedding's table once more"),
            "sharing": (
                "fewer heads of keys and values",
                "as many heads of keys and values",
                "one head of keys and values",
            ),
            "layers": ("several blocks", "one block"),
            "sizes": (
                "ordinary sizes",
                "an MLP narrower than d_model",
                "a vocabulary smaller than d_model",
                "heads of one number",
                "one head",
                "as large as Llama's",
            ),
        },
        make=_make_llama,
    ),
    forbids=("total",),  # the package's count of any config
    witness=counted_by_sizing,
    reference=count_llama,
    properties=(_llama_biases,),
    hints=(
        "Write a list: the matrices of a block with their shapes, its norms, what stands before "
        "the first block, what stands behind the last one. Which of these are there once, and "
        "which once for each block?",
        "A block has four matrices in attention, two of them narrower if heads of keys and values "
        "are shared, and three in the MLP. Each norm has one number for each of the d_model.",
        "W_k and W_v have n_kv_heads · (d_model // n_heads) columns. A table of the vocabulary has "
        "vocabulary · d_model numbers; if the head is tied, how many such tables are there?",
    ),
    variants={
        "sharing-forgotten": Variant(
            "Right where every head has its own keys and values. With fewer of these heads, W_k "
            "and W_v are narrower: n_kv_heads · d_head columns.",
            _llama(lambda d, h, kv: 4 * d * d),
        ),
        "counted-once": Variant(
            "Keys and values are counted once. They are two matrices, W_k and W_v.",
            _llama(lambda d, h, kv: 2 * d * d + d * kv * (d // h)),
        ),
        "values-full": Variant(
            "Only one of keys and values is shared in yours; both have n_kv_heads heads.",
            _llama(lambda d, h, kv: 3 * d * d + d * kv * (d // h)),
        ),
        "queries-narrow": Variant(
            "Three of attention's matrices are narrow in yours. Only keys and values have fewer "
            "heads; queries and the output have all of them.",
            _llama(lambda d, h, kv: d * d + 3 * d * kv * (d // h)),
        ),
        "all-narrow": Variant(
            "All four matrices of attention are narrow in yours. Only keys and values have fewer "
            "heads; queries and the output have all of them.",
            _llama(lambda d, h, kv: 4 * d * kv * (d // h)),
        ),
        "one-head-wide": Variant(
            "W_k and W_v have the columns of one head in yours. There are n_kv_heads of them.",
            _llama(lambda d, h, kv: 2 * d * d + 2 * d * (d // h)),
        ),
        "one-column-a-head": Variant(
            "W_k and W_v have n_kv_heads columns in yours, one for each head. Each head has "
            "d_model / n_heads of them.",
            _llama(lambda d, h, kv: 2 * d * d + 2 * d * kv),
        ),
        "wide-heads": Variant(
            "Your heads are d_model / n_kv_heads wide. Every head, of queries or of keys and "
            "values, is d_model / n_heads wide.",
            _llama(lambda d, h, kv: 2 * d * h * (d // kv) + 2 * d * d),
        ),
        "times-heads": Variant(
            "You multiplied by the number of heads. They are cut out of the same matrices.",
            _llama(lambda d, h, kv: 2 * d * d * h + 2 * d * d * kv),
        ),
        "no-output": Variant(
            "Attention's output projection is missing, d_model × d_model.",
            _llama(lambda d, h, kv: d * d + 2 * d * kv * (d // h)),
        ),
        "two-matrices": Variant(
            "Your MLP has two matrices. A gated one has three: gate, up and down.",
            _llama(mlp=lambda d, d_ff: 2 * d * d_ff),
        ),
        "two-thirds": Variant(
            "You cut d_ff to two thirds because of the gate. `d_ff` is the width that the MLP has: "
            "whoever chose it has done that already.",
            _llama(mlp=lambda d, d_ff: 3 * d * (2 * d_ff // 3)),
        ),
        "own-width": Variant(
            "Your MLP is 4 · d_model wide, whatever `d_ff` says.",
            _llama(mlp=lambda d, d_ff: 12 * d * d),
        ),
        "no-mlp": Variant("The MLP is not counted.", _llama(mlp=lambda d, d_ff: 0)),
        "as-for-gpt-2": Variant(
            "This is the formula for a model like GPT-2: four full matrices in attention, two in "
            "the MLP, no norms. Here keys and values may be narrower, and the MLP has three.",
            _llama(lambda d, h, kv: 4 * d * d, lambda d, d_ff: 2 * d * d_ff, lambda d, h: (0, 0)),
        ),
        "no-norms": Variant(
            "The norms are missing: few numbers, but some.", _llama(norms=lambda d, h: (0, 0))
        ),
        "last-norm-alone": Variant(
            "You counted the norm behind the last block, and none in the blocks: each has two.",
            _llama(norms=lambda d, h: (0, d)),
        ),
        "one-norm": Variant(
            "A block has two norms: one before attention, one before the MLP.",
            _llama(norms=lambda d, h: (d, d)),
        ),
        "no-last-norm": Variant(
            "One norm is missing: the one behind the last block.",
            _llama(norms=lambda d, h: (2 * d, 0)),
        ),
        "three-norms": Variant(
            "Each block has three norms in yours. The one behind the last block is there once.",
            _llama(norms=lambda d, h: (3 * d, 0)),
        ),
        "layer-norms": Variant(
            "You counted a bias in each norm. An RMSNorm has none.",
            _llama(norms=lambda d, h: (4 * d, 2 * d)),
        ),
        "norms-of-a-head": Variant(
            "Your norms have the numbers of one head. They normalize whole tokens: d_model numbers "
            "each.",
            _llama(norms=lambda d, h: (2 * (d // h), d // h)),
        ),
        "norms-of-one-number": Variant(
            "Each norm has a single number in yours. An RMSNorm has a weight for each of the "
            "d_model numbers of a token.",
            _llama(norms=lambda d, h: (2, 1)),
        ),
        "one-block": Variant(
            "You counted a single block. There are `layers` of them.",
            _llama(whole=lambda layers, block, last, tables: block + last + tables),
        ),
        "all-times-layers": Variant(
            "You multiplied everything by the number of layers. The tables and the norm behind the "
            "last block are there once.",
            _llama(whole=lambda layers, block, last, tables: layers * (block + last + tables)),
        ),
        "tables-times-layers": Variant(
            "You multiplied the tables by the number of layers. They are there once, before the "
            "first block and behind the last one.",
            _llama(whole=lambda layers, block, last, tables: layers * (block + tables) + last),
        ),
        "blocks-alone": Variant(
            "These are the blocks alone. There are also the norm behind the last one and the "
            "tables.",
            _llama(whole=lambda layers, block, last, tables: layers * block),
        ),
        "no-head": Variant(
            "Right if the head is tied. If not, it is a second table, as large as the embedding.",
            _llama(tables=lambda tied: 1),
        ),
        "tied-twice": Variant(
            "Right if the head has a table of its own. If it is tied, head and embedding are one "
            "and the same table: count it once.",
            _llama(tables=lambda tied: 2),
        ),
        "tied-inverted": Variant(
            "Yours is the wrong way round: a tied head shares the embedding's table, so there is "
            "one; without, there are two.",
            _llama(tables=lambda tied: 2 if tied else 1),
        ),
        "one-table-missing": Variant(
            "One table is missing. With a tied head there is still one, and without there are two.",
            _llama(tables=lambda tied: 0 if tied else 1),
        ),
        "no-tables": Variant(
            "The tables of the vocabulary are missing: the embedding, and the head if it is not "
            "tied.",
            _llama(tables=lambda tied: 0),
        ),
    },
)


# --- bytes_per_device -----------------------------------------------------------------------


def _make_bytes(kind, seed):
    devices, times = unequal(seed, 2, 3, 11)
    devices = {"one device": 1, "a thousand devices": 1024}.get(kind["devices"], devices)
    left = 1 + seed % max(1, devices - 1)  # so many more than a multiple: the devices get unequal
    parameters = {
        "some parameters": times * devices + left,
        "a multiple of the devices": times * devices,
        "fewer parameters than devices": left,
        "as many as a real model": 8_030_261_248 + seed % 1000,
    }[kind["parameters"]]
    if devices == 1 and kind["parameters"] == "fewer parameters than devices":
        return None
    return Case((parameters, devices, int(kind["stage"][-1])))


def bytes_per_device(parameters, devices, stage):
    """Three parts; how many of them are spread, the stage says."""
    return parameters * sum(
        size / devices if stage >= first else size for size, first in ((12, 1), (2, 2), (2, 3))
    )


def added_up_exactly(parameters, devices, stage):
    """Number by number, in fractions: weight, gradient, and the optimizer's three."""
    spread = {"weight": stage == 3, "gradient": stage in (2, 3), "optimizer": stage in (1, 2, 3)}
    held = Fraction(0)
    for part, size in (("weight", 2), ("gradient", 2), *[("optimizer", 4)] * 3):
        held += Fraction(parameters * size, devices if spread[part] else 1)
    return float(held)


def _held(
    sizes=(12, 2, 2),
    first=(1, 2, 3),
    share=lambda size, parameters, devices: size * parameters / devices,
    whole=1,
):
    """Counted another way: bytes of optimizer, gradient and weight, the stage that spreads each,
    a device's share of a part that is spread; `whole` is what one that is not counts."""

    def answer(parameters, devices, stage):
        parts = zip(sizes, first, strict=True)
        return float(
            sum(
                share(size, parameters, devices) if stage >= at else whole * size * parameters
                for size, at in parts
            )
        )

    return answer


def _that_stage_alone(parameters, devices, stage):
    parts = zip((12, 2, 2), (1, 2, 3), strict=True)
    return float(parameters * sum(size / devices if stage == at else size for size, at in parts))


def _times(factor):
    return lambda *sizes: float(factor * bytes_per_device(*sizes))


BYTES = Exercise(
    name="bytes_per_device",
    lesson=LESSON,
    title="what each device holds",
    domain=Domain(
        kinds={
            "stage": ("stage 0", "stage 1", "stage 2", "stage 3"),
            "devices": ("several devices", "one device", "a thousand devices"),
            "parameters": (
                "some parameters",
                "a multiple of the devices",
                "fewer parameters than devices",
                "as many as a real model",
            ),
        },
        make=_make_bytes,
    ),
    witness=added_up_exactly,
    reference=bytes_per_device,
    tolerance=1e-6,
    hints=(
        "Three parts: the optimizer's, the gradients, the weights. How many bytes has each of them "
        "for one parameter?",
        "For each part: from which stage on is it spread? A part that is spread takes that many "
        "bytes divided by the number of devices, any other all of them.",
        "At stage 0 it is 16 bytes for each parameter, at stage 3 it is 16 / devices. What is it "
        "at stage 1, where 12 of the 16 are spread?",
    ),
    variants={
        "one-stage-early": Variant(
            "Yours is one stage ahead: at stage 0 nothing is spread, at stage 1 the optimizer's "
            "part.",
            _held(first=(0, 1, 2)),
        ),
        "one-stage-late": Variant(
            "Yours is one stage behind: `>` where `>=` is meant? The optimizer's part is spread "
            "from stage 1 on, the gradients from stage 2, the weights from stage 3.",
            _held(first=(2, 3, 4)),
        ),
        "that-stage-alone": Variant(
            "At each stage you spread one part alone. What is spread at a stage stays spread at "
            "the next ones: stage 3 spreads all three.",
            _that_stage_alone,
        ),
        "all-at-one": Variant(
            "You spread everything from stage 1 on. Stage 1 spreads the optimizer's part, stage 2 "
            "the gradients too, stage 3 the weights too.",
            _held(first=(1, 1, 1)),
        ),
        "never-spread": Variant(
            "You count 16 bytes for each parameter, whatever the stage is: nothing is ever spread.",
            _held(first=(9, 9, 9)),
        ),
        "weights-never": Variant(
            "Right up to stage 2. Stage 3 spreads the weights too.", _held(first=(1, 2, 9))
        ),
        "gradients-with-the-optimizer": Variant(
            "You spread the gradients at stage 1 already. They follow at stage 2.",
            _held(first=(1, 1, 3)),
        ),
        "gradients-first": Variant(
            "Gradients and the optimizer's part have changed places. Stage 1 spreads the largest: "
            "what the optimizer keeps.",
            _held(first=(2, 1, 3)),
        ),
        "weights-first": Variant(
            "You spread the weights first and the optimizer's part last. It is the other way "
            "round: weights are needed all the time, so they come last.",
            _held(first=(3, 2, 1)),
        ),
        "all-float32": Variant(
            "4 bytes for the weight, 4 for the gradient, 8 for two moments: that is training in "
            "float32. It has 16 bytes in all as well, but other parts of them are spread.",
            _held((8, 4, 4)),
        ),
        "float32-gradients": Variant(
            "Your gradients have 4 bytes. Here they are in bfloat16: 2.", _held((12, 4, 2))
        ),
        "float32-weights": Variant(
            "Your weights have 4 bytes. The copy in float32 belongs to the optimizer's part; the "
            "weight itself is in bfloat16: 2.",
            _held((12, 2, 4)),
        ),
        "no-copy": Variant(
            "Your optimizer's part has 8 bytes. It holds three numbers in float32: a copy of the "
            "weight, and two moments.",
            _held((8, 2, 2)),
        ),
        "copy-with-the-weights": Variant(
            "You spread the float32 copy of the weights at stage 3. It belongs to the optimizer's "
            "part, which is spread from stage 1 on.",
            _held((8, 2, 6)),
        ),
        "half-optimizer": Variant(
            "Your optimizer's part has 2 bytes a number. Its three numbers are in float32, 4 bytes "
            "each.",
            _held((6, 2, 2)),
        ),
        "no-optimizer": Variant(
            "What the optimizer keeps is missing: 12 bytes for each parameter.", _held((0, 2, 2))
        ),
        "no-gradients": Variant(
            "The gradients are missing: 2 bytes for each parameter.", _held((12, 0, 2))
        ),
        "numbers": Variant(
            "You count numbers. Give bytes: 2 for a number in bfloat16, 4 for one in float32.",
            _held((3, 1, 1)),
        ),
        "bits": Variant("You count bits. Give bytes: 8 bits each.", _times(8)),
        "gigabytes": Variant("You give gigabytes. Give bytes.", _times(1e-9)),
        "gibibytes": Variant("You give gibibytes, 2³⁰ bytes each. Give bytes.", _times(2**-30)),
        "rounded-down": Variant(
            "You round down, with `//` or int(). A share of a byte is fine here: divide with `/`.",
            _held(share=lambda size, parameters, devices: size * parameters // devices),
        ),
        "whole-parameters": Variant(
            "You round the parameters of a device down to a whole number. Divide with `/`: they "
            "need not be divisible.",
            _held(share=lambda size, parameters, devices: size * (parameters // devices)),
        ),
        "rounded-up": Variant(
            "You give each device a whole number of parameters, rounded up. Real implementations "
            "do; here the share is a float: divide with `/`.",
            _held(share=lambda size, parameters, devices: size * -(-parameters // devices)),
        ),
        "all-devices": Variant(
            "These are the bytes on all devices together. Give what one of them holds.",
            lambda parameters, devices, stage: float(
                devices * bytes_per_device(parameters, devices, stage)
            ),
        ),
        "spread-alone": Variant(
            "You count only what is spread. Each device also holds, whole, what is not.",
            _held(whole=0),
        ),
    },
)


# --- bytes_moved ----------------------------------------------------------------------------


def _make_moved(kind, seed):
    rows, tiles, d_head = unequal(seed, 3, 3, 10)
    if kind["length"] == "as long as real texts":
        rows, tiles, d_head = 128, 20 + seed % 20, 64 + d_head
    tokens = rows * tiles
    if kind["tiles"] == "a smaller last tile":
        tokens -= 1 + seed % (rows - 1)
    elif kind["tiles"] == "one tile":
        tokens = rows
    elif kind["tiles"] == "tiles longer than the text":
        tokens = rows - 1 - seed % 2
    elif kind["tiles"] == "tiles of one query":
        rows = 1
    if kind["length"] == "one token":
        if kind["tiles"] in ("a smaller last tile", "tiles that fit"):
            return None
        tokens, rows = 1, rows if kind["tiles"] == "tiles longer than the text" else 1
    d_head = {"d_head of one": 1, "d_head longer than the text": tokens + d_head}.get(
        kind["d_head"], d_head
    )
    return Case((tokens, d_head, rows))


def bytes_moved(tokens, d_head, rows):
    """Matrices that are read or written, by size."""
    narrow, square = 2 * tokens * d_head, 2 * tokens * tokens
    return 4 * (narrow + square), 2 * narrow * (1 + math.ceil(tokens / rows))


def moved_step_by_step(tokens, d_head, rows):
    """Query by query, then tile by tile, as it is read and written."""
    vector, row = 2 * d_head, 2 * tokens
    plain = tiled = 0
    for _ in range(tokens):
        plain += vector + row  # read q, write its scores
        plain += row + row  # read them, write its weights
        plain += row + vector  # read these, write its output
    plain += 2 * tokens * vector  # K before, V after
    for first in range(0, tokens, rows):
        queries = min(first + rows, tokens) - first
        tiled += queries * vector + 2 * tokens * vector + queries * vector
    return plain, tiled


def _plain(narrow=4, square=4):
    return lambda n, d, rows: 2 * (narrow * n * d + square * n * n)


def _tiled(
    queries=lambda n, rows, tiles: 2 * n,
    keys=lambda n, rows, tiles: 2 * n * tiles,
    more=lambda n: 0,
):
    """Vectors of queries and outputs, vectors of keys and values, and what else is moved."""

    def part(n, d, rows):
        tiles = -(-n // rows)
        return 2 * d * (queries(n, rows, tiles) + keys(n, rows, tiles)) + 2 * more(n)

    return part


def _moved(plain=None, tiled=None, times=1):
    plain, tiled = plain or _plain(), tiled or _tiled()
    return lambda tokens, d_head, rows: (
        int(times * plain(tokens, d_head, rows)),
        int(times * tiled(tokens, d_head, rows)),
    )


def _not_rounded(tokens, d_head, rows):
    return _moved()(tokens, d_head, rows)[0], 2 * (
        2 * tokens * d_head + 2 * tokens * d_head * tokens / rows
    )


def _each_number(cases, values, expected):
    """A known mistake in each of the two numbers, not the same one; or in one, and it is new."""
    said = []
    for part, name in enumerate(("plain", "tiled")):
        mine, right = [v[part] for v in values], [e[part] for e in expected]
        if mine == right:
            said.append(f"The {name} form is right.")
            continue
        known = [
            variant.says
            for variant in MOVED.variants.values()
            if mine == [variant.answer(*case.args)[part] for case in cases]
        ]
        said.append(f"The {name} form: {known[0]}" if known else f"The {name} form is not right.")
    return Finding("each-number", " ".join([*said, _example(cases, values)]))


def _example(cases, values):
    tokens, d_head, rows = cases[0].args
    return (
        f"For tokens = {tokens}, d_head = {d_head}, rows = {rows} you give {tuple(values[0])}: "
        "write down, line by line, what is read and written there."
    )


MOVED = Exercise(
    name="bytes_moved",
    lesson=LESSON,
    title="bytes that attention moves",
    domain=Domain(
        kinds={
            "tiles": (
                "a smaller last tile",
                "tiles that fit",
                "one tile",
                "tiles longer than the text",
                "tiles of one query",
            ),
            "length": ("some tokens", "one token", "as long as real texts"),
            "d_head": ("ordinary d_head", "d_head of one", "d_head longer than the text"),
        },
        make=_make_moved,
    ),
    witness=moved_step_by_step,
    reference=bytes_moved,
    properties=(_each_number,),
    hints=(
        "Write the plain form down as a list: read or written, which matrix, its shape. Then the "
        "same for one tile of the other form. How many tiles are there?",
        "Q, K, V and the output are tokens × d_head; scores and weights are tokens × tokens. Each "
        "of these two is written once and read once.",
        "The tiles read all queries once between them, and write all outputs once. K and V are "
        "read once for each tile: tokens / rows of them, rounded up.",
    ),
    variants={
        "output-forgotten": Variant(
            "The output is not counted. It has to be written, tokens × d_head, in both forms.",
            _moved(_plain(3), _tiled(lambda n, rows, tiles: n)),
        ),
        "scores-half": Variant(
            "You count two matrices of tokens × tokens. Scores *and* weights are written, and both "
            "are read again: four.",
            _moved(_plain(square=2)),
        ),
        "scores-once": Variant(
            "You count one matrix of tokens × tokens. Scores and weights are both written, and "
            "both are read again: four.",
            _moved(_plain(square=1)),
        ),
        "scores-three": Variant(
            "You count three matrices of tokens × tokens. Scores and weights are both written, and "
            "both are read again.",
            _moved(_plain(square=3)),
        ),
        "no-scores": Variant(
            "Scores and weights are missing from your plain form. They are written, and read "
            "again: that is what it is slow for.",
            _moved(_plain(square=0)),
        ),
        "half-of-the-scores": Variant(
            "You count half of the scores, as with a causal mask. There is no mask here.",
            _moved(lambda n, d, rows: 2 * (4 * n * d + 2 * n * (n + 1))),
        ),
        "keys-for-each-query": Variant(
            "Your plain form reads K and V once for each query. It reads each of them once.",
            _moved(lambda n, d, rows: 2 * (2 * n * d + 2 * n * d * n + 4 * n * n)),
        ),
        "reads-alone": Variant(
            "You count what is read. What is written is moved as well.",
            _moved(_plain(3, 2), _tiled(lambda n, rows, tiles: n)),
        ),
        "writes-alone": Variant(
            "You count what is written. What is read is moved as well.",
            _moved(_plain(1, 2), _tiled(lambda n, rows, tiles: n, lambda n, rows, tiles: 0)),
        ),
        "keys-once": Variant(
            "K and V are read once in yours. Every tile of queries needs all of them, and the "
            "small memory does not keep them from one tile to the next.",
            _moved(tiled=_tiled(keys=lambda n, rows, tiles: 2 * n)),
        ),
        "values-forgotten": Variant(
            "Each of your tiles reads one of K and V. It needs both.",
            _moved(tiled=_tiled(keys=lambda n, rows, tiles: n * tiles)),
        ),
        "last-tile-forgotten": Variant(
            "You round the number of tiles down: `tokens // rows`. The last tile is smaller, but "
            "it reads K and V as well.",
            _moved(tiled=_tiled(keys=lambda n, rows, tiles: 2 * n * (n // rows))),
        ),
        "one-tile-too-many": Variant(
            "There is one tile too many where `rows` divides `tokens`.",
            _moved(tiled=_tiled(keys=lambda n, rows, tiles: 2 * n * (n // rows + 1))),
        ),
        "rows-as-tiles": Variant(
            "You read K and V `rows` times. `rows` is how many queries a tile has; how many tiles "
            "are there?",
            _moved(tiled=_tiled(keys=lambda n, rows, tiles: 2 * n * rows)),
        ),
        "for-each-query": Variant(
            "You read K and V once for each query. It is once for each tile: its queries share "
            "them.",
            _moved(tiled=_tiled(keys=lambda n, rows, tiles: 2 * n * n)),
        ),
        "queries-for-each-tile": Variant(
            "Every tile moves all queries, or all outputs, in yours. It reads its own queries and "
            "writes its own outputs.",
            _moved(tiled=_tiled(lambda n, rows, tiles: n + n * tiles)),
        ),
        "all-for-each-tile": Variant(
            "Every tile reads all queries and writes all outputs in yours. It reads its own and "
            "writes its own.",
            _moved(tiled=_tiled(lambda n, rows, tiles: 2 * n * tiles)),
        ),
        "last-tile-full": Variant(
            "Your last tile is as large as the others. It holds only the queries that are left.",
            _moved(tiled=_tiled(lambda n, rows, tiles: 2 * rows * tiles)),
        ),
        "queries-forgotten": Variant(
            "Your tiles read K and V alone. They also read their queries and write their outputs.",
            _moved(tiled=_tiled(lambda n, rows, tiles: 0)),
        ),
        "one-tile-alone": Variant(
            "These are the bytes of a single tile. Give those of all.",
            _moved(
                tiled=_tiled(lambda n, rows, tiles: 2 * min(n, rows), lambda n, rows, tiles: 2 * n)
            ),
        ),
        "scores-in-tiles": Variant(
            "Your tiles write scores and weights too. They stay in the small memory: that is what "
            "tiles are for.",
            _moved(tiled=_tiled(more=lambda n: 4 * n * n)),
        ),
        "not-rounded": Variant(
            "You divide tokens by rows and do not round. The last tile may be smaller, but it "
            "reads all of K and V: round up to a whole number of tiles.",
            _not_rounded,
        ),
        "swapped": Variant(
            "The two numbers have changed places: (plain, tiled).",
            lambda tokens, d_head, rows: _moved()(tokens, d_head, rows)[::-1],
        ),
        "numbers": Variant("You count numbers. Each has 2 bytes.", _moved(times=Fraction(1, 2))),
        "float32": Variant("You count 4 bytes a number. Here it is 2.", _moved(times=2)),
        "bits": Variant("You count bits. Give bytes: 8 bits each.", _moved(times=8)),
    },
)


# --- quantize_rows --------------------------------------------------------------------------


def _make_weight(kind, seed):
    d_out, d_in = unequal(seed, 2, 3, 9)
    d_out, d_in = {
        "one row": (1, d_in),
        "one column": (d_out, 1),
        "as many rows as columns": (d_in, d_in),
        "as wide as a small model": (d_out, 192),
    }.get(kind["sizes"], (d_out, d_in))
    [weight] = randn(seed, (d_out, d_in))
    zeros = kind["numbers"] == "a row of zeros"
    if zeros and d_out == 1:
        return None
    if kind["numbers"] == "the largest is negative":
        weight = torch.where(weight.abs() == weight.abs().amax(1, True), -weight.abs(), weight)
    elif kind["numbers"] == "all negative":
        weight = -weight.abs() - 0.05
    elif kind["numbers"] == "all positive":
        weight = weight.abs() + 0.05
    elif kind["numbers"] == "small numbers":
        weight = 1e-3 * weight
    elif kind["numbers"] == "rows of very different size":
        weight = weight * 10.0 ** (torch.arange(d_out) % 3 - 1)[:, None]
    elif zeros:
        weight[seed % d_out] = 0
    elif kind["numbers"] == "all zeros":
        weight = 0 * weight
    free = zeros or kind["numbers"] == "all zeros"  # any scale will do there
    return Case((_off_the_halves(weight),), gradients=False, random=free, nan=_ZERO_ROW)


_ZERO_ROW = (
    "zero-row",
    "Right but for a row of zeros: its largest absolute value is 0, and you divide by it, or by "
    "what is made of it. Its numbers should be zeros, its scale any finite number.",
)


def _off_the_halves(weight):
    """Nothing lies half way between two multiples of its row's scale: both would be nearest."""
    scale = weight.double().abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
    count = weight.double() / scale
    low = count.floor()
    close = (count - low - 0.5).abs() < 0.02
    return torch.where(close, (low + 0.25) * scale, weight.double()).float()


def quantize_rows(weight):
    """As many steps as int8 has on each side, from zero to the largest of a row."""
    largest = weight.abs().amax(dim=1, keepdim=True)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest)) / 127
    return torch.round(weight / scale).to(torch.int8), scale


def nearest_of_all(weight):
    """For each number the whole one whose multiple of the scale comes nearest, of all 255."""
    wide = weight.double()
    scale = torch.stack([row.abs().max() for row in wide])[:, None] / 127
    scale[scale == 0] = 1.0
    whole = torch.arange(-127, 128)
    apart = (whole * scale[:, :, None] - wide[:, :, None]).abs()  # (d_out, d_in, 255)
    return whole[apart.argmin(dim=-1)].to(torch.int8), scale.float()


def _quantized(scale, numbers=lambda weight, scale: (weight / scale).round(), back=None):
    """With another scale, other numbers, or something else given back."""

    def answer(weight):
        step = scale(weight)
        whole = numbers(weight, step).to(torch.int8)
        return back(weight, whole, step) if back else (whole, step)

    return answer


def _of_the_row(levels):
    return lambda weight: weight.abs().amax(1, keepdim=True) / levels


def _asymmetric(weight):
    low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    scale = (high - low) / 255
    return ((weight - low) / scale - 128).round().to(torch.int8), scale


def _exact_types(cases, values, expected):
    """Values alone do not tell int8 from float."""
    for case, (numbers, scale) in zip(cases, values, strict=True):
        if numbers.dtype != torch.int8:
            return Finding(
                "not-int8",
                f"Your `numbers` are {numbers.dtype}. They fit into torch.int8, one byte each: "
                "that is what is saved.",
            )
        if scale.dtype != torch.float32:
            return Finding(
                "scale-type",
                f"Your `scale` is {scale.dtype}; torch.float32 is expected, as `weight` is. That "
                f"was for {QUANTIZE.describe(case)}.",
            )
    return None


def _rows_of_zeros(cases, values, expected):
    """Zeros and a finite scale there; in the other rows what is right everywhere."""
    if not all(
        case.random or same(value, right, QUANTIZE.tolerance, QUANTIZE.smallest)
        for case, value, right in zip(cases, values, expected, strict=True)
    ):
        return None  # wrong without such a row as well
    for case, (numbers, scale), right in zip(cases, values, expected, strict=True):
        if not case.random:
            continue
        zero = (case.args[0] == 0).all(dim=1)
        if numbers[zero].any() or not scale[zero].isfinite().all():
            return Finding(*_ZERO_ROW)
        others = [part[~zero] for part in (numbers, scale)], [part[~zero] for part in right]
        if not same(*others, QUANTIZE.tolerance, QUANTIZE.smallest):
            return Finding(
                "beside-zeros",
                "Right where there is no row of zeros. Where there is one, the other rows are "
                "wrong too: what you do for it should change that row alone.",
            )
    return None


QUANTIZE = Exercise(
    name="quantize_rows",
    lesson=LESSON,
    title="eight bits a weight",
    domain=Domain(
        kinds={
            "numbers": (
                "ordinary numbers",
                "the largest is negative",
                "all negative",
                "all positive",
                "small numbers",
                "rows of very different size",
                "a row of zeros",
                "all zeros",
            ),
            "sizes": (
                "unequal sizes",
                "one row",
                "one column",
                "as many rows as columns",
                "as wide as a small model",
            ),
        },
        make=_make_weight,
        edges=("a row of zeros", "all zeros"),
        without={"precision": "weights are float32 here, and the scales have to be"},
    ),
    forbids=("quantize_rows",),
    witness=nearest_of_all,
    reference=quantize_rows,
    axes=("d_out", "d_in"),
    smallest=1e-6,
    properties=(_exact_types, _rows_of_zeros),
    hints=(
        "Take one row with the largest absolute value 2.54. A scale is 0.02 then. Which whole "
        "number stands for 2.54, which for −1.27, which for 0.011?",
        "`amax` over the axis d_in, of the absolute values. What does `keepdim=True` change, and "
        "why is it needed for the division?",
        "Divide by the scale, round, then convert with `.to(torch.int8)`. Against a row of zeros: "
        "a scale may not become 0; `clamp` gives it a least value.",
    ),
    variants={
        "one-scale": Variant(
            "You have one scale for all rows. Each row has its own: then a large number in one row "
            "costs the others no precision.",
            _quantized(lambda weight: weight.abs().max() / 127),
        ),
        "one-scale-for-all": Variant(
            "All your rows have the same scale. Each has its own: then a large number in one row "
            "costs the others no precision.",
            _quantized(lambda weight: (weight.abs().max() / 127).expand(len(weight), 1)),
        ),
        "per-column": Variant(
            "You have a scale for each column. A row of the weight makes one output: the scale "
            "belongs to the row, so that it can be multiplied in after the sum.",
            _quantized(lambda weight: weight.abs().amax(0, keepdim=True) / 127),
        ),
        "no-keepdim": Variant(
            "Your scales are (d_out,). Against (d_out, d_in) they are lined up with the columns: "
            "the division fails, or with as many rows as columns divides by the wrong scale.",
            _quantized(lambda weight: weight.abs().amax(1) / 127),
        ),
        "flat-scale": Variant(
            "The numbers are right, but `scale` is (d_out,). As (d_out, 1) it can be multiplied "
            "with `numbers` as it is.",
            _quantized(
                _of_the_row(127), back=lambda weight, numbers, scale: (numbers, scale[:, 0])
            ),
        ),
        "truncated": Variant(
            "You cut off what follows the point: `.to(torch.int8)` rounds towards zero. The "
            "nearest whole number is at most half a scale away.",
            _quantized(_of_the_row(127), lambda weight, scale: weight / scale),
        ),
        "rounded-down": Variant(
            "You round down. The nearest whole number is at most half a scale away.",
            _quantized(_of_the_row(127), lambda weight, scale: (weight / scale).floor()),
        ),
        "over-128": Variant(
            "You divide by 128. Then the largest number becomes 128, which int8 does not have: its "
            "sign flips.",
            _quantized(_of_the_row(128)),
        ),
        "over-128-clamped": Variant(
            "You divide by 128. Then int8 has no number for the largest positive weight, and it is "
            "cut off to 127.",
            _quantized(
                _of_the_row(128), lambda weight, scale: (weight / scale).round().clamp(-128, 127)
            ),
        ),
        "over-255": Variant(
            "You divide by 255. int8 has 127 numbers on each side of zero.",
            _quantized(_of_the_row(255)),
        ),
        "over-255-clamped": Variant(
            "You divide by 255. int8 has 127 numbers on each side of zero: half of the weights are "
            "cut off.",
            _quantized(
                _of_the_row(255), lambda weight, scale: (weight / scale).round().clamp(-128, 127)
            ),
        ),
        "asymmetric": Variant(
            "You spread the range from the smallest to the largest over 256 numbers. Then 0 is no "
            "longer 0: here numbers · scale alone has to give the weight.",
            _asymmetric,
        ),
        "signed-maximum": Variant(
            "You take the largest value, with its sign. It is the largest *absolute* value: a "
            "weight of −3 needs room as well.",
            _quantized(lambda weight: weight.amax(1, keepdim=True) / 127),
        ),
        "minimum": Variant(
            "You take the smallest absolute value. The scale has to reach the largest.",
            _quantized(lambda weight: weight.abs().amin(1, keepdim=True) / 127),
        ),
        "sign-lost": Variant(
            "Your numbers have lost their signs. The absolute values are for the scale alone.",
            _quantized(_of_the_row(127), lambda weight, scale: (weight.abs() / scale).round()),
        ),
        "multiplied": Variant(
            "You multiply by the scale. How many scales fit into a weight?",
            _quantized(_of_the_row(127), lambda weight, scale: (weight * scale).round()),
        ),
        "not-divided": Variant(
            "You round the weights as they are. They have to be divided by the scale before.",
            _quantized(_of_the_row(127), lambda weight, scale: weight.round()),
        ),
        "without-127": Variant(
            "You divide by the largest absolute value itself. Then only −1, 0 and 1 are left; "
            "the largest should become 127.",
            _quantized(_of_the_row(1)),
        ),
        "largest-as-scale": Variant(
            "The numbers are right, but `scale` is the largest absolute value itself. Divide it by "
            "127: numbers * scale has to be near weight.",
            _quantized(
                _of_the_row(127), back=lambda weight, numbers, scale: (numbers, 127 * scale)
            ),
        ),
        "upside-down": Variant(
            "The numbers are right, but your `scale` is what the weights were multiplied by. Give "
            "what the numbers have to be multiplied by.",
            _quantized(_of_the_row(127), back=lambda weight, numbers, scale: (numbers, 1 / scale)),
        ),
        "dequantized": Variant(
            "You give numbers · scale, which is near the weight again, and float32. Give the whole "
            "numbers: they are what is stored.",
            _quantized(
                _of_the_row(127), back=lambda weight, numbers, scale: (numbers * scale, scale)
            ),
        ),
        "swapped": Variant(
            "The two have changed places: (numbers, scale).",
            _quantized(_of_the_row(127), back=lambda weight, numbers, scale: (scale, numbers)),
        ),
        "numbers-alone": Variant(
            "You give the numbers alone. Without their scales nobody can use them: give both.",
            _quantized(_of_the_row(127), back=lambda weight, numbers, scale: numbers),
        ),
    },
)


# --- averaged_gradient (find the bug) -------------------------------------------------------


def _make_gradients(kind, seed):
    processes, parameters = unequal(seed, 2, 3, 8)
    processes = 1 if kind["sizes"] == "one process" else processes
    if kind["sizes"] == "one parameter":
        parameters = 1
    elif kind["sizes"] == "as many processes as parameters":
        parameters = processes
    [gradients] = randn(seed, (processes, parameters))
    tokens = torch.tensor(unequal(seed + 1, processes, 1, 30))
    if kind["tokens"] == "as many tokens each":
        tokens = tokens[:1].expand(processes).clone()
    elif kind["tokens"] == "thousands of tokens":
        tokens = 1000 + 61 * tokens
    elif kind["tokens"] == "one process has nearly all":
        tokens[seed % processes] = 400
    elif kind["tokens"] != "unequal texts":  # some have none
        if processes == 1:
            return None
        alone = kind["tokens"] == "one process alone has tokens"
        one = torch.arange(processes) == seed % processes
        tokens = tokens.where(one, 0) if alone else tokens.where(~one, 0)
    gradients = gradients * (tokens > 0)[:, None]
    if kind["numbers"] == "small numbers":
        gradients = 0.01 * gradients
    return Case((gradients, tokens), gradients=False)


def averaged_gradient(gradients, tokens):
    """Each process counts as much as it has tokens."""
    share = tokens.to(gradients.dtype) / tokens.sum()
    return share @ gradients


def token_by_token(gradients, tokens):
    """The gradient of its process stands for each token; then the mean over all tokens."""
    each = gradients.double().repeat_interleave(tokens, dim=0)
    return each.mean(dim=0).to(gradients.dtype)


def _weighted(by):
    """Summed with these weights."""
    return lambda gradients, tokens: (gradients * by(tokens)[:, None]).sum(dim=0)


AVERAGED = Exercise(
    name="averaged_gradient",
    lesson=LESSON,
    title="find the bug: processes with unequal texts",
    domain=Domain(
        kinds={
            "tokens": (
                "unequal texts",
                "as many tokens each",
                "one process without tokens",
                "one process alone has tokens",
                "one process has nearly all",
                "thousands of tokens",
            ),
            "sizes": (
                "unequal sizes",
                "one process",
                "one parameter",
                "as many processes as parameters",
            ),
            "numbers": ("ordinary numbers", "small numbers"),
        },
        make=_make_gradients,
    ),
    witness=token_by_token,
    reference=averaged_gradient,
    axes=("parameters",),
    smallest=1e-4,
    hints=(
        "Two processes, one with 1 token, the other with 9. The mean loss over all ten tokens: how "
        "much does the single token count there, and how much in the given code?",
        "From a process's mean gradient and its number of tokens: what is the *sum* of the "
        "gradients of its tokens? And of all processes together?",
        "`tokens` is (processes,), `gradients` (processes, parameters): `tokens[:, None]` lines "
        "them up. By what is the sum to be divided?",
    ),
    variants={
        "as-given": Variant(
            "The bug is still there: every process counts the same, however many tokens it has. A "
            "token in a short text then counts more than one in a long text.",
            lambda gradients, tokens: gradients.mean(dim=0),
            to_do=True,
        ),
        "summed": Variant(
            "You sum the gradients of the processes. Each is a mean over its own tokens: how much "
            "does it count in the mean over all of them?",
            lambda gradients, tokens: gradients.sum(dim=0),
        ),
        "not-divided": Variant(
            "You give the sum over all tokens. It is the mean: divide by how many there are.",
            _weighted(lambda tokens: tokens),
        ),
        "by-the-processes": Variant(
            "You divide by the number of processes. The mean is over tokens: divide by how many of "
            "them there are in all.",
            _weighted(lambda tokens: tokens / len(tokens)),
        ),
        "by-the-largest": Variant(
            "Your weights are divided by the largest number of tokens, so they do not sum to one. "
            "Divide by the sum.",
            _weighted(lambda tokens: tokens / tokens.max()),
        ),
        "sum-over-tokens": Variant(
            "You sum the gradients and divide by all tokens. Each gradient is a mean over its own "
            "tokens: it has to be multiplied by their number before.",
            lambda gradients, tokens: gradients.sum(dim=0) / tokens.sum(),
        ),
        "by-their-own": Variant(
            "You divide each gradient by its number of tokens. It is a mean: that has been done "
            "already.",
            lambda gradients, tokens: (gradients / tokens.clamp(min=1)[:, None]).sum(dim=0),
        ),
        "mean-by-their-own": Variant(
            "You divide each gradient by its number of tokens, and take the mean. Each is a mean "
            "already; what is missing is how much it counts.",
            lambda gradients, tokens: (gradients / tokens.clamp(min=1)[:, None]).mean(dim=0),
        ),
        "softmax": Variant(
            "You take the softmax of the numbers of tokens: the process with the most gets nearly "
            "everything. A process with twice as many tokens should count twice as much.",
            lambda gradients, tokens: (
                torch.softmax(tokens.to(gradients.dtype), 0)[:, None] * gradients
            ).sum(dim=0),
        ),
        "those-with-tokens": Variant(
            "You leave out the processes without tokens, and let all others count the same. They "
            "have unequally many tokens as well.",
            lambda gradients, tokens: gradients[tokens > 0].mean(dim=0),
        ),
        "whole-shares": Variant(
            "Your shares are rounded to whole numbers, 0 or 1: `//`, or a conversion to int. "
            "Divide with `/`.",
            _weighted(lambda tokens: tokens // tokens.sum()),
        ),
        "divided-twice": Variant(
            "Your shares sum to one already, and then you take the mean over the processes: that "
            "divides once more. Sum instead.",
            _weighted(lambda tokens: tokens / tokens.sum() / len(tokens)),
        ),
        "shares-of-the-mean": Variant(
            "You weigh by tokens over their mean, and sum: these weights sum to the number of "
            "processes, not to one.",
            _weighted(lambda tokens: tokens * len(tokens) / tokens.sum()),
        ),
        "largest-alone": Variant(
            "You take the gradient of the process with the most tokens. The others count too.",
            lambda gradients, tokens: gradients[tokens.argmax()],
        ),
        "not-summed": Variant(
            "The shares are right, but you give a row for each process. Sum over the processes: "
            "(parameters,).",
            lambda gradients, tokens: gradients * tokens[:, None] / tokens.sum(),
        ),
        "over-the-parameters": Variant(
            "You sum over the parameters. Every parameter keeps its own gradient: sum over the "
            "processes, the first axis.",
            lambda gradients, tokens: (gradients * tokens[:, None]).sum(dim=1) / tokens.sum(),
        ),
        "not-lined-up": Variant(
            "`tokens` is lined up with the last axis of `gradients`, the parameters. It belongs to "
            "the first one: `tokens[:, None]`.",
            lambda gradients, tokens: (gradients * tokens).sum(dim=0) / tokens.sum(),
        ),
    },
)


# --- partial_outputs (graded) ---------------------------------------------------------------


def _make_parts(kind, seed):
    batch, tokens, d_model, share = unequal(seed, 4, 2, 7)
    devices = {
        "one device": 1,
        "two devices": 2,
        "as many devices as units on each": share,
        "nine devices": 9,
    }.get(kind["devices"], 3 + seed % 3)
    share = 1 if kind["share"] == "a unit on each device" else share
    if kind["devices"] == "as many devices as units on each" and share == 1:
        return None
    batch = {"a batch of one": 1, "as many texts as devices": devices}.get(kind["sizes"], batch)
    tokens = 1 if kind["sizes"] == "one token" else tokens
    d_ff = devices * share
    d_model = d_ff if kind["sizes"] == "d_ff as wide as d_model" else d_model
    x, w_up, b_up, w_down, b_down = randn(
        seed, (batch, tokens, d_model), (d_ff, d_model), (d_ff,), (d_model, d_ff), (d_model,)
    )
    x = {"x of zeros": 0, "large numbers": 20}.get(kind["numbers"], 1) * x
    w_up, w_down = w_up / d_model**0.5, w_down / d_ff**0.5
    return Case((x, w_up, b_up, w_down, b_down, devices))


def _mlp(x, w_up, b_up, w_down, b_down, activation=F.gelu):
    return F.linear(activation(F.linear(x, w_up, b_up)), w_down, b_down)


def what_would_be_missing(x, w_up, b_up, w_down, b_down, devices, activation=F.gelu):
    """The MLP's output less the one that it has while a device's units are not read."""
    given, share = x.dtype, len(w_up) // devices
    x, w_up, b_up, w_down = (t.double() for t in (x, w_up, b_up, w_down))
    unit = torch.arange(len(w_up))
    whole = _mlp(x, w_up, b_up, w_down, None, activation)
    lost = []
    for device in range(devices):
        others = w_down * (unit.div(share, rounding_mode="floor") != device)
        lost.append(whole - _mlp(x, w_up, b_up, others, None, activation))
    first = (torch.arange(devices) == 0)[:, None, None, None]
    return (torch.stack(lost) + b_down.double() * first).to(given)


def _in_another(order, up=True):
    """With the units in another order, in all that belongs to them or in w_down alone."""

    def spoil(case, right):
        x, w_up, b_up, w_down, b_down, devices = case.args
        units = order(torch.arange(len(w_up)), devices)
        w_up, b_up = (w_up[units], b_up[units]) if up else (w_up, b_up)
        return what_would_be_missing(x, w_up, b_up, w_down[:, units], b_down, devices)

    return spoil


def _dealt_out(units, devices):
    return torch.cat([units[device::devices] for device in range(devices)])


def _activated(activation):
    return lambda case, right: what_would_be_missing(*case.args, activation=activation)


def _b_up(change):
    """With something else in place of b_up."""

    def spoil(case, right):
        x, w_up, b_up, w_down, b_down, devices = case.args
        return what_would_be_missing(x, w_up, change(b_up, devices), w_down, b_down, devices)

    return spoil


def _b_down_once_more(on):
    """b_down on the devices that `on` says, as often as it says, and not on the first."""

    def spoil(case, right):
        b_down, devices = case.args[4:]
        device = torch.arange(devices)
        often = on(device, devices).to(right.dtype) - (device == 0).to(right.dtype)
        return right + often[:, None, None, None] * b_down

    return spoil


def _read_by_columns(case, right):
    """Each device reads a part of x, and the sum of these is taken behind the GELU."""
    x, w_up, b_up, w_down, b_down, devices = case.args
    pairs = zip(x.chunk(devices, -1), w_up.chunk(devices, 1), strict=True)
    parts = [_mlp(part, w, b_up, w_down, None) for part, w in pairs]
    return torch.stack([parts[0] + b_down, *parts[1:]])


def _without_activation(case):
    *given, devices = case.args
    given[4] = torch.zeros_like(given[4])
    return what_would_be_missing(*given, devices, activation=lambda hidden: hidden)


def _gelu_behind(case, right):
    parts = F.gelu(_without_activation(case))
    return torch.cat([parts[:1] + case.args[4], parts[1:]])


def _w_down_cut_by_memory(case, right):
    """w_down as (devices, d_model, d_ff / devices), by the order in memory."""
    x, w_up, b_up, w_down, b_down, devices = case.args
    pieces = w_down.reshape(devices, len(w_down), -1)
    return what_would_be_missing(x, w_up, b_up, torch.cat(list(pieces), 1), b_down, devices)


def _still_sum(cases, values, expected):
    """The sum is right, the parts are not."""
    sums = [(v.sum(0), e.sum(0)) for v, e in zip(values, expected, strict=True)]
    if all(same(*pair, PARTS.tolerance, PARTS.smallest) for pair in sums):
        return Finding(
            "other-parts",
            "Your parts sum to the MLP's output, but they are other ones. Which units does each "
            "device hold, and which device adds b_down?",
        )
    return None


PARTS = Exercise(
    name="partial_outputs",
    lesson=LESSON,
    title="one MLP on several devices",
    domain=Domain(
        kinds={
            "devices": (
                "some devices",
                "one device",
                "two devices",
                "as many devices as units on each",
                "nine devices",
            ),
            "share": ("some units on each", "a unit on each device"),
            "sizes": (
                "unequal sizes",
                "a batch of one",
                "one token",
                "d_ff as wide as d_model",
                "as many texts as devices",
            ),
            "numbers": ("ordinary numbers", "x of zeros", "large numbers"),
        },
        make=_make_parts,
    ),
    witness=what_would_be_missing,
    axes=("devices", "batch", "tokens", "d_model"),
    smallest=0.1,
    properties=(_still_sum,),
    hints=(
        "A hidden unit is a row of w_up, an entry of b_up and a column of w_down. Write the MLP's "
        "output as a sum over the hidden units: what belongs to one of them alone, and what does "
        "not?",
        "GELU acts on each unit by itself. So a device can do its own units from x to their part "
        "of the output, and nothing has to be sent in between.",
        "Try it with one device first, then with two: compare `parts.sum(0)` with the whole MLP. "
        "If the difference is a multiple of b_down, it is added too often or not at all.",
    ),
    variants={
        "shared-evenly": Variant(
            "Every device has the whole output, divided by their number. The sum is right, but no "
            "device could compute that from its own part.",
            spoil=lambda case, right: (right.sum(0) / len(right)).expand_as(right),
        ),
        "after-the-sum": Variant(
            "Every device has the whole output: that is how it is after they were summed. Give "
            "what each has before.",
            spoil=lambda case, right: right.sum(0).expand_as(right),
        ),
        "summed": Variant(
            "You give the sum, the MLP's output. Give the parts, one for each device: (devices, "
            "batch, tokens, d_model).",
            spoil=lambda case, right: right.sum(0),
        ),
        "running-sum": Variant(
            "Each of your parts holds those before it. Give what each device adds.",
            spoil=lambda case, right: right.cumsum(0),
        ),
        "first-alone": Variant(
            "The first device computes everything, the others nothing. Each should do its own "
            "hidden units.",
            spoil=lambda case, right: torch.cat([right.sum(0, keepdim=True), 0 * right[1:]]),
        ),
        "bias-everywhere": Variant(
            "Every device adds b_down, so it is in the sum as often as there are devices. The "
            "first one alone adds it.",
            spoil=_b_down_once_more(lambda device, devices: torch.ones(devices)),
        ),
        "bias-missing": Variant(
            "b_down is missing. The first device adds it.",
            spoil=_b_down_once_more(lambda device, devices: torch.zeros(devices)),
        ),
        "bias-last": Variant(
            "The last device adds b_down in yours. The sum is right, but it is the first one that "
            "adds it.",
            spoil=_b_down_once_more(lambda device, devices: device == devices - 1),
        ),
        "bias-shared": Variant(
            "Every device adds its share of b_down. The sum is right; here the first one adds all "
            "of it.",
            spoil=_b_down_once_more(lambda device, devices: torch.ones(devices) / devices),
        ),
        "bias-not-first": Variant(
            "All devices but the first add b_down. It is the first one, and no other.",
            spoil=_b_down_once_more(lambda device, devices: device > 0),
        ),
        "dealt-out": Variant(
            "Your units are dealt out like cards: device 0 gets units 0, devices, 2 · devices … "
            "Each device holds neighbouring ones.",
            spoil=_in_another(_dealt_out),
        ),
        "reversed": Variant(
            "The last device holds the first units in yours. They are in order: the first device "
            "holds the first ones.",
            spoil=_in_another(lambda units, devices: units.reshape(devices, -1).flip(0).flatten()),
        ),
        "w-down-dealt-out": Variant(
            "A device reads other columns of w_down than the rows of w_up that it holds. Both have "
            "to belong to the same hidden units.",
            spoil=_in_another(_dealt_out, up=False),
        ),
        "w-down-by-memory": Variant(
            "You cut w_down with `reshape` or `view`, which follow the order in memory, row by "
            "row. The hidden units are its columns.",
            spoil=_w_down_cut_by_memory,
        ),
        "does-not-fit": Variant(
            "Right for one device. With several, your parts do not fit together. A device holds "
            "rows of w_up, the same entries of b_up, and the same columns of w_down: which axes "
            "are these?",
            spoil=lambda case, right: right if case.args[5] == 1 else None,
        ),
        "read-by-columns": Variant(
            "Each device reads a part of x's d_model numbers, with columns of w_up. Then a hidden "
            "unit is a sum over devices, and GELU of a sum is not the sum of GELUs. Spread the "
            "hidden units instead: rows of w_up.",
            spoil=_read_by_columns,
        ),
        "no-gelu": Variant(
            "GELU is missing.",
            spoil=_activated(lambda hidden: hidden),
        ),
        "gelu-behind": Variant(
            "GELU comes after w_down in yours. It belongs between the two matrices, on the hidden "
            "units.",
            spoil=_gelu_behind,
        ),
        "tanh": Variant(
            "This is GELU's approximation by tanh. The exact one is asked for.",
            spoil=_activated(lambda hidden: F.gelu(hidden, approximate="tanh")),
        ),
        "relu": Variant("This is ReLU. The MLP here has GELU.", spoil=_activated(F.relu)),
        "silu": Variant("This is SiLU. The MLP here has GELU.", spoil=_activated(F.silu)),
        "no-b-up": Variant(
            "b_up is missing. It is added before GELU, each device its own entries.",
            spoil=_b_up(lambda b_up, devices: 0 * b_up),
        ),
        "b-up-first": Variant(
            "Only the first device adds b_up in yours. That holds for b_down alone: of b_up each "
            "device has the entries of its own units.",
            spoil=_b_up(
                lambda b_up, devices: (
                    b_up * (torch.arange(len(b_up)) < len(b_up) // devices).to(b_up.dtype)
                )
            ),
        ),
        "b-up-shared": Variant(
            "You divide b_up by the number of devices. Each device has the entries of its own "
            "units, whole.",
            spoil=_b_up(lambda b_up, devices: b_up / devices),
        ),
        "a-list": Variant(
            "The parts are right, but they are in a list. Stack them: (devices, batch, tokens, "
            "d_model).",
            spoil=lambda case, right: list(right),
        ),
        "joined": Variant(
            "The parts are right, but they are joined along the batch. Give them an axis of their "
            "own, the first: (devices, batch, tokens, d_model).",
            spoil=lambda case, right: right.flatten(0, 1),
        ),
        "joined-in-width": Variant(
            "The parts are right, but they are joined along d_model, as if each device had other "
            "numbers of the output. Each has all of them, to be summed: an axis of their own.",
            spoil=lambda case, right: torch.cat(list(right), dim=-1),
        ),
        "devices-behind": Variant(
            "The parts are right, but the devices are your last axis. They are the first.",
            spoil=lambda case, right: right.movedim(0, -1),
        ),
    },
)


EXERCISES = [LLAMA, BYTES, QUANTIZE, MOVED, AVERAGED, PARTS]
QUESTIONS = [
    Item(
        "12-fits",
        LESSON,
        "Llama-7B writes on one device of 24 GB. Can the same device train it, with AdamW in "
        "mixed precision?",
        (
            Option(
                "yes: the weights are 13.5 GB, and gradients as much again",
                "That is more than 24 already. And the optimizer has not been counted.",
            ),
            Option(
                "no: it takes 16 bytes a parameter, more than 100 GB",
                "Yes, and that is before any activation.",
                right=True,
            ),
            Option(
                "yes, if the batch is small enough",
                "Weights, gradients and the optimizer's part do not depend on the batch.",
            ),
        ),
    ),
    Item(
        "12-thirty-two",
        LESSON,
        "One matrix times 32 vectors: how much longer does it take than times one vector?",
        (
            Option(
                "32 times as long",
                "The operations are 32 times as many. But what was it waiting for?",
            ),
            Option(
                "clearly less than 32 times as long",
                "Yes: the matrix comes from memory once, for all of them.",
                right=True,
            ),
            Option(
                "more than 32 times as long",
                "The operations are 32 times as many at most, and what comes from memory is used "
                "again.",
            ),
        ),
    ),
    Item(
        "12-sharded",
        LESSON,
        "Two processes train with sharded weights. How many of the parameters does each hold "
        "between two steps, and what are the losses?",
        (
            Option(
                "half of them, and the losses are those of one process, but for rounding",
                "Yes: what is needed is gathered, so every product is the same as before.",
                right=True,
            ),
            Option(
                "half of them, and the losses differ: each trains half a model",
                "Each block is gathered before it is used. Nobody computes with half of it.",
            ),
            Option(
                "all of them: otherwise it could not compute",
                "It borrows them, block by block.",
            ),
        ),
    ),
    Item(
        "12-quiz-batch",
        LESSON,
        "A GPU can do 150 operations while one byte comes from its memory. It writes 16 texts at "
        "once, with weights in bfloat16. Compared with one text, each of them gets its tokens …",
        (
            Option(
                "about as fast, so all together nearly 16 times as many tokens a second",
                "Nearly: the intensity is 16, far left of 150, so the memory decides, and the "
                "weights come once for all 16. (The caches do not: every text has its own.) On "
                "your processor the bend may come much earlier.",
                right=True,
            ),
            Option("16 times more slowly", "Then nothing would be gained. Look at the roofline."),
            Option(
                "faster: larger batches are more efficient",
                "More efficient for all together. A single text does not become faster by company.",
            ),
        ),
    ),
    Item(
        "12-quiz-zero",
        LESSON,
        "Eight devices, ZeRO. Which stage saves most, compared with the one before?",
        (
            Option(
                "stage 1: the optimizer's part",
                "Yes: it is 12 of 16 bytes. Gradients and weights are 2 each.",
                right=True,
            ),
            Option("stage 2: the gradients", "They are 2 of 16 bytes."),
            Option(
                "stage 3: the weights",
                "They are 2 of 16 bytes, and they have to be gathered again.",
            ),
        ),
    ),
    Item(
        "12-quiz-cut",
        LESSON,
        "In tensor parallelism W_up is cut by hidden units, so W_down too. Why not cut x and W_up "
        "along d_model?",
        (
            Option(
                "then each device would have a part of every sum, and GELU needs the whole sum",
                "Yes. One sum would be needed before GELU, and another at the end. Cut by hidden "
                "units, one at the end is enough.",
                right=True,
            ),
            Option("d_model cannot be divided", "It can. Something else is in the way."),
            Option(
                "it would be the same",
                "GELU of a sum is not the sum of GELUs.",
            ),
        ),
    ),
]
