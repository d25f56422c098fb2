"""What learners write in lesson 12."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.wrong_answers import right, wrong
from tfcourse import quantized, sizing
from tfcourse.models import LanguageModel, TransformerConfig

# --- count_llama ----------------------------------------------------------------------------


@right("count_llama")
def by_formula(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    d_head = d_model // n_heads
    block = 2 * d_model**2 + 2 * d_model * n_kv_heads * d_head + 3 * d_model * d_ff + 2 * d_model
    return layers * block + d_model + (2 - tied) * vocabulary * d_model


@right("count_llama")
def by_shapes(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    kv = n_kv_heads * d_model // n_heads
    shapes = [(vocabulary, d_model), (d_model,)]
    if not tied:
        shapes.append((d_model, vocabulary))
    for _ in range(layers):
        shapes += [(d_model, d_model), (d_model, kv), (d_model, kv), (d_model, d_model)]
        shapes += [(d_model, d_ff), (d_model, d_ff), (d_ff, d_model), (d_model,), (d_model,)]
    return sum(math.prod(shape) for shape in shapes)


@right("count_llama")
def with_numpy(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    heads = np.int64(2 * n_heads + 2 * n_kv_heads) * (d_model // n_heads)
    tables = vocabulary + (0 if tied else vocabulary)
    return d_model * (layers * (heads + 3 * d_ff + 2) + 1 + tables)


@right("count_llama")
def by_making_it(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    config = TransformerConfig(
        vocabulary, d_model, n_heads, layers, positions="none", n_kv_heads=n_kv_heads, d_ff=d_ff,
        norm="rms", activation="silu", gated=True, bias=False, tied=tied,
    )  # fmt: skip
    with torch.device("meta"):
        model = LanguageModel(config)
    return sum(p.numel() for p in model.parameters())


def shared(d_model, n_heads, n_kv_heads):
    return 2 * d_model**2 + 2 * d_model * n_kv_heads * (d_model // n_heads)


def llama(attention, vocabulary, d_model, d_ff, layers, tied, matrices=3, norms=2, last=1):
    block = attention + matrices * d_model * d_ff + norms * d_model
    tables = vocabulary * d_model * (1 if tied else 2)
    return layers * block + last * d_model + tables


@wrong("count_llama", "library-call")
def from_the_package(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    config = TransformerConfig(
        vocabulary, d_model, n_heads, layers, positions="none", n_kv_heads=n_kv_heads, d_ff=d_ff,
        norm="rms", gated=True, bias=False, tied=tied,
    )  # fmt: skip
    return sizing.parameters(config).total


@wrong("count_llama", "sharing-forgotten")
def four_squares(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    return llama(4 * d_model**2, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "counted-once")
def keys_and_values_are_one(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = 2 * d_model**2 + d_model * n_kv_heads * (d_model // n_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "values-full")
def keys_shared_alone(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = 3 * d_model**2 + d_model * n_kv_heads * (d_model // n_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "queries-narrow")
def queries_as_wide_as_keys(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    kv = n_kv_heads * (d_model // n_heads)
    return llama(3 * d_model * kv + d_model**2, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "all-narrow")
def queries_and_output_too(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    kv = n_kv_heads * (d_model // n_heads)
    return llama(4 * d_model * kv, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "one-head-wide")
def multi_query_always(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = 2 * d_model**2 + 2 * d_model * (d_model // n_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "one-column-a-head")
def heads_of_one_column(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = 2 * d_model**2 + 2 * d_model * n_kv_heads
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "wide-heads")
def width_by_shared_heads(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    d_head = d_model // n_kv_heads
    attention = 2 * d_model * d_head * (n_heads + n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "sharing-forgotten")
def width_of_keys_by_shared_heads(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    keys = n_kv_heads * (d_model // n_kv_heads)
    return llama(2 * d_model * (d_model + keys), vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "times-heads")
def every_head_full_size(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = 2 * n_heads * d_model**2 + 2 * n_kv_heads * d_model**2
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "no-output")
def three_matrices_in_attention(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads) - d_model**2
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "two-matrices")
def gate_forgotten(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied, matrices=2)


@wrong("count_llama", "two-thirds")
def two_thirds_for_the_gate(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, 2 * d_ff // 3, layers, tied)


@wrong("count_llama", "own-width")
def four_times_as_wide(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, 4 * d_model, layers, tied)


@wrong("count_llama", "no-mlp")
def attention_is_all(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied, matrices=0)


@wrong("count_llama", "as-for-gpt-2")
def from_the_web(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    tables = vocabulary * d_model * (1 if tied else 2)
    return layers * (4 * d_model**2 + 2 * d_model * d_ff) + tables


@wrong("count_llama", "no-norms")
def matrices_alone(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied, norms=0, last=0)


@wrong("count_llama", "last-norm-alone")
def one_norm_in_all(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied, norms=0)


@wrong("count_llama", "one-norm")
def one_norm_a_block(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied, norms=1)


@wrong("count_llama", "no-last-norm")
def ends_with_the_last_block(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied, last=0)


@wrong("count_llama", "three-norms")
def last_norm_in_each_block(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied, norms=3, last=0)


@wrong("count_llama", "layer-norms")
def norms_with_bias(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied, norms=4, last=2)


@wrong("count_llama", "norms-of-a-head")
def norms_of_d_head(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention, d_head = shared(d_model, n_heads, n_kv_heads), d_model // n_heads
    matrices = llama(attention, vocabulary, d_model, d_ff, layers, tied, norms=0, last=0)
    return matrices + (2 * layers + 1) * d_head


@wrong("count_llama", "norms-of-one-number")
def one_number_a_norm(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    matrices = llama(attention, vocabulary, d_model, d_ff, layers, tied, norms=0, last=0)
    return matrices + 2 * layers + 1


@wrong("count_llama", "biases")
def biases_everywhere(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    kv = n_kv_heads * (d_model // n_heads)
    attention = shared(d_model, n_heads, n_kv_heads) + 2 * d_model + 2 * kv + 2 * d_ff + d_model
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "biases")
def biases_as_in_qwen(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    kv = n_kv_heads * (d_model // n_heads)
    attention = shared(d_model, n_heads, n_kv_heads) + d_model + 2 * kv
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "biases")
def a_bias_in_the_head(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied) + vocabulary


@wrong("count_llama", "one-block")
def layers_forgotten(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    return llama(shared(d_model, n_heads, n_kv_heads), vocabulary, d_model, d_ff, 1, tied)


@wrong("count_llama", "all-times-layers")
def everything_in_each_layer(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    return layers * llama(shared(d_model, n_heads, n_kv_heads), vocabulary, d_model, d_ff, 1, tied)


@wrong("count_llama", "tables-times-layers")
def tables_in_each_layer(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, layers * vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "blocks-alone")
def layers_times_a_block(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, 0, d_model, d_ff, layers, tied, last=0)


@wrong("count_llama", "no-head")
def tied_or_not(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    return llama(shared(d_model, n_heads, n_kv_heads), vocabulary, d_model, d_ff, layers, True)


@wrong("count_llama", "tied-twice")
def two_tables_always(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    return llama(shared(d_model, n_heads, n_kv_heads), vocabulary, d_model, d_ff, layers, False)


@wrong("count_llama", "tied-inverted")
def two_if_tied(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    return llama(shared(d_model, n_heads, n_kv_heads), vocabulary, d_model, d_ff, layers, not tied)


@wrong("count_llama", "one-table-missing")
def head_alone(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    whole = llama(attention, vocabulary, d_model, d_ff, layers, tied)
    return whole - vocabulary * d_model


@wrong("count_llama", "no-tables")
def without_tables(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    return llama(shared(d_model, n_heads, n_kv_heads), 0, d_model, d_ff, layers, tied)


@wrong("count_llama", "type")
def divided_with_a_stroke(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = 2 * d_model**2 + 2 * d_model * n_kv_heads * (d_model / n_heads)
    return llama(attention, vocabulary, d_model, d_ff, layers, tied)


@wrong("count_llama", "differs")
def more_than_float32_holds(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    parts = [attention, 3 * d_model * d_ff, 2 * d_model]
    tables = vocabulary * d_model * (1 if tied else 2)
    return int(layers * torch.tensor(parts, dtype=torch.float32).sum() + d_model + tables)


@wrong("count_llama", "differs")
def tables_without_width(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    attention = shared(d_model, n_heads, n_kv_heads)
    return llama(attention, 0, d_model, d_ff, layers, tied) + vocabulary * (1 if tied else 2)


# --- bytes_per_device -----------------------------------------------------------------------


@right("bytes_per_device")
def three_parts(parameters, devices, stage):
    optimizer, gradients, weights = 12 * parameters, 2 * parameters, 2 * parameters
    if stage >= 1:
        optimizer /= devices
    if stage >= 2:
        gradients /= devices
    if stage >= 3:
        weights /= devices
    return optimizer + gradients + weights


@right("bytes_per_device")
def from_a_table(parameters, devices, stage):
    spread = [0, 12, 14, 16][stage]
    return parameters * ((16 - spread) + spread / devices)


@right("bytes_per_device")
def with_match(parameters, devices, stage):
    match stage:
        case 0:
            return 16.0 * parameters
        case 1:
            return 4.0 * parameters + 12 * parameters / devices
        case 2:
            return 2.0 * parameters + 14 * parameters / devices
    return 16 * parameters / devices


@right("bytes_per_device")
def with_numpy_too(parameters, devices, stage):
    sizes = np.array([4.0, 4, 4, 2, 2])
    spread = np.arange(5) < [0, 3, 4, 5][stage]
    return parameters * np.where(spread, sizes / devices, sizes).sum()


@wrong("bytes_per_device", "one-stage-early")
def counted_from_zero(parameters, devices, stage):
    spread = [12, 14, 16, 16][stage]
    return parameters * (16 - spread + spread / devices)


@wrong("bytes_per_device", "one-stage-late")
def greater_than(parameters, devices, stage):
    optimizer = 12 / (devices if stage > 1 else 1)
    gradient = 2 / (devices if stage > 2 else 1)
    weight = 2 / (devices if stage > 3 else 1)
    return parameters * (optimizer + gradient + weight)


@wrong("bytes_per_device", "that-stage-alone")
def equal_to(parameters, devices, stage):
    optimizer = 12 / (devices if stage == 1 else 1)
    gradient = 2 / (devices if stage == 2 else 1)
    weight = 2 / (devices if stage == 3 else 1)
    return parameters * (optimizer + gradient + weight)


@wrong("bytes_per_device", "all-at-one")
def everything_spread(parameters, devices, stage):
    return 16 * parameters / (devices if stage else 1)


@wrong("bytes_per_device", "never-spread")
def sixteen(parameters, devices, stage):
    return 16.0 * parameters


@wrong("bytes_per_device", "weights-never")
def stops_at_two(parameters, devices, stage):
    optimizer = 12 / (devices if stage >= 1 else 1)
    gradient = 2 / (devices if stage >= 2 else 1)
    return parameters * (optimizer + gradient + 2)


@wrong("bytes_per_device", "gradients-with-the-optimizer")
def two_at_once(parameters, devices, stage):
    rest = 14 / (devices if stage >= 1 else 1)
    return parameters * (rest + 2 / (devices if stage >= 3 else 1))


@wrong("bytes_per_device", "gradients-first")
def gradients_before(parameters, devices, stage):
    gradient = 2 / (devices if stage >= 1 else 1)
    optimizer = 12 / (devices if stage >= 2 else 1)
    weight = 2 / (devices if stage >= 3 else 1)
    return parameters * (optimizer + gradient + weight)


@wrong("bytes_per_device", "weights-first")
def weights_before(parameters, devices, stage):
    weight = 2 / (devices if stage >= 1 else 1)
    gradient = 2 / (devices if stage >= 2 else 1)
    optimizer = 12 / (devices if stage >= 3 else 1)
    return parameters * (optimizer + gradient + weight)


def by_sizes(parameters, devices, stage, optimizer=12, gradient=2, weight=2):
    optimizer = optimizer / (devices if stage >= 1 else 1)
    gradient = gradient / (devices if stage >= 2 else 1)
    weight = weight / (devices if stage >= 3 else 1)
    return parameters * (optimizer + gradient + weight)


@wrong("bytes_per_device", "all-float32")
def full_precision(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, 8, 4, 4)


@wrong("bytes_per_device", "float32-gradients")
def gradients_of_four(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, gradient=4)


@wrong("bytes_per_device", "float32-weights")
def weights_of_four(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, weight=4)


@wrong("bytes_per_device", "no-copy")
def two_moments(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, optimizer=8)


@wrong("bytes_per_device", "copy-with-the-weights")
def copy_is_a_weight(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, optimizer=8, weight=6)


@wrong("bytes_per_device", "half-optimizer")
def moments_of_two(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, optimizer=6)


@wrong("bytes_per_device", "no-optimizer")
def weights_and_gradients(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, optimizer=0)


@wrong("bytes_per_device", "no-gradients")
def gradients_forgotten(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, gradient=0)


@wrong("bytes_per_device", "numbers")
def how_many_numbers(parameters, devices, stage):
    return by_sizes(parameters, devices, stage, 3, 1, 1)


@wrong("bytes_per_device", "bits")
def how_many_bits(parameters, devices, stage):
    return 8 * by_sizes(parameters, devices, stage)


@wrong("bytes_per_device", "gigabytes")
def in_gigabytes(parameters, devices, stage):
    return by_sizes(parameters, devices, stage) / 1e9


@wrong("bytes_per_device", "gibibytes")
def in_gibibytes(parameters, devices, stage):
    return by_sizes(parameters, devices, stage) / 1024**3


@wrong("bytes_per_device", "rounded-down")
def whole_bytes(parameters, devices, stage):
    parts = [12 * parameters, 2 * parameters, 2 * parameters]
    return float(sum(p // devices if i < stage else p for i, p in enumerate(parts)))


@wrong("bytes_per_device", "whole-parameters")
def so_many_parameters_each(parameters, devices, stage):
    share = parameters // devices
    parts = [(12, stage >= 1), (2, stage >= 2), (2, stage >= 3)]
    return float(sum(size * (share if spread else parameters) for size, spread in parts))


@wrong("bytes_per_device", "rounded-up")
def padded(parameters, devices, stage):
    share = math.ceil(parameters / devices)
    parts = [(12, stage >= 1), (2, stage >= 2), (2, stage >= 3)]
    return float(sum(size * (share if spread else parameters) for size, spread in parts))


@wrong("bytes_per_device", "all-devices")
def together(parameters, devices, stage):
    spread = [0, 12, 14, 16][stage]
    return float(parameters * ((16 - spread) * devices + spread))


@wrong("bytes_per_device", "spread-alone")
def only_what_is_spread(parameters, devices, stage):
    return parameters * [0, 12, 14, 16][stage] / devices


@wrong("bytes_per_device", "differs")
def rounded_at_the_end(parameters, devices, stage):
    return round(by_sizes(parameters, devices, stage))


@wrong("bytes_per_device", "type")
def as_a_tensor(parameters, devices, stage):
    return torch.tensor(by_sizes(parameters, devices, stage))


# --- bytes_moved ----------------------------------------------------------------------------


@right("bytes_moved")
def by_two_formulas(tokens, d_head, rows):
    tiles = math.ceil(tokens / rows)
    plain = 2 * (4 * tokens * d_head + 4 * tokens**2)
    return plain, 2 * (2 * tokens * d_head + 2 * tiles * tokens * d_head)


@right("bytes_moved")
def tile_by_tile(tokens, d_head, rows):
    matrix, scores = 2 * tokens * d_head, 2 * tokens * tokens
    plain = 2 * matrix + scores + scores + scores + scores + matrix + matrix
    tiled, left = 0, tokens
    while left > 0:
        tile = min(left, rows)
        tiled += 2 * tile * d_head + 2 * matrix + 2 * tile * d_head
        left -= rows
    return [plain, tiled]


@right("bytes_moved")
def with_real_tensors(tokens, d_head, rows):
    with torch.device("meta"):
        q = torch.empty(tokens, d_head, dtype=torch.float16)
        scores = torch.empty(tokens, tokens, dtype=torch.float16)
    plain = 4 * q.nbytes + 4 * scores.nbytes
    return plain, sum(2 * tile.nbytes + 2 * q.nbytes for tile in q.split(rows))


def plain_of(tokens, d_head):
    return 8 * tokens * (d_head + tokens)


def tiled_of(tokens, d_head, rows):
    return 4 * tokens * d_head * (1 + math.ceil(tokens / rows))


@wrong("bytes_moved", "output-forgotten")
def no_output(tokens, d_head, rows):
    one = 2 * tokens * d_head
    return 3 * one + 8 * tokens**2, one + 2 * one * math.ceil(tokens / rows)


@wrong("bytes_moved", "scores-half")
def scores_as_one(tokens, d_head, rows):
    return 8 * tokens * d_head + 4 * tokens**2, tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "scores-once")
def scores_written(tokens, d_head, rows):
    return 8 * tokens * d_head + 2 * tokens**2, tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "scores-three")
def one_forgotten(tokens, d_head, rows):
    return 8 * tokens * d_head + 6 * tokens**2, tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "no-scores")
def four_matrices(tokens, d_head, rows):
    return 8 * tokens * d_head, tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "half-of-the-scores")
def as_if_causal(tokens, d_head, rows):
    pairs = tokens * (tokens + 1) // 2
    return 8 * tokens * d_head + 8 * pairs, tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "keys-for-each-query")
def keys_read_again_and_again(tokens, d_head, rows):
    plain = plain_of(tokens, d_head) + 4 * (tokens - 1) * tokens * d_head
    return plain, tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "reads-alone")
def what_is_read(tokens, d_head, rows):
    one = 2 * tokens * d_head
    return 3 * one + 4 * tokens**2, one + 2 * one * math.ceil(tokens / rows)


@wrong("bytes_moved", "writes-alone")
def what_is_written(tokens, d_head, rows):
    return 2 * tokens * d_head + 4 * tokens**2, 2 * tokens * d_head


@wrong("bytes_moved", "keys-once")
def everything_once(tokens, d_head, rows):
    return plain_of(tokens, d_head), 8 * tokens * d_head


@wrong("bytes_moved", "values-forgotten")
def keys_of_each_tile(tokens, d_head, rows):
    return plain_of(tokens, d_head), 2 * tokens * d_head * (2 + math.ceil(tokens / rows))


@wrong("bytes_moved", "last-tile-forgotten")
def tiles_rounded_down(tokens, d_head, rows):
    return plain_of(tokens, d_head), 4 * tokens * d_head * (1 + tokens // rows)


@wrong("bytes_moved", "one-tile-too-many")
def always_one_more(tokens, d_head, rows):
    return plain_of(tokens, d_head), 4 * tokens * d_head * (2 + tokens // rows)


@wrong("bytes_moved", "rows-as-tiles")
def so_many_tiles(tokens, d_head, rows):
    return plain_of(tokens, d_head), 4 * tokens * d_head * (1 + rows)


@wrong("bytes_moved", "for-each-query")
def query_by_query(tokens, d_head, rows):
    return plain_of(tokens, d_head), 4 * tokens * d_head * (1 + tokens)


@wrong("bytes_moved", "queries-for-each-tile")
def queries_each_time(tokens, d_head, rows):
    tiles = math.ceil(tokens / rows)
    return plain_of(tokens, d_head), 2 * tokens * d_head * (3 * tiles + 1)


@wrong("bytes_moved", "all-for-each-tile")
def four_for_each_tile(tokens, d_head, rows):
    return plain_of(tokens, d_head), 8 * tokens * d_head * math.ceil(tokens / rows)


@wrong("bytes_moved", "last-tile-full")
def full_tiles(tokens, d_head, rows):
    tiles = math.ceil(tokens / rows)
    return plain_of(tokens, d_head), tiles * 2 * (2 * rows * d_head + 2 * tokens * d_head)


@wrong("bytes_moved", "queries-forgotten")
def keys_and_values_alone(tokens, d_head, rows):
    return plain_of(tokens, d_head), 4 * tokens * d_head * math.ceil(tokens / rows)


@wrong("bytes_moved", "one-tile-alone")
def of_a_tile(tokens, d_head, rows):
    return plain_of(tokens, d_head), 2 * (2 * min(rows, tokens) * d_head + 2 * tokens * d_head)


@wrong("bytes_moved", "scores-in-tiles")
def scores_too(tokens, d_head, rows):
    return plain_of(tokens, d_head), tiled_of(tokens, d_head, rows) + 8 * tokens**2


@wrong("bytes_moved", "not-rounded")
def a_share_of_a_tile(tokens, d_head, rows):
    return plain_of(tokens, d_head), 4 * tokens * d_head * (1 + tokens / rows)


@wrong("bytes_moved", "swapped")
def the_other_way_round(tokens, d_head, rows):
    return tiled_of(tokens, d_head, rows), plain_of(tokens, d_head)


@wrong("bytes_moved", "numbers")
def how_many(tokens, d_head, rows):
    return plain_of(tokens, d_head) // 2, tiled_of(tokens, d_head, rows) // 2


@wrong("bytes_moved", "float32")
def four_bytes(tokens, d_head, rows):
    return 2 * plain_of(tokens, d_head), 2 * tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "bits")
def sixteen_bits(tokens, d_head, rows):
    return 8 * plain_of(tokens, d_head), 8 * tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "each-number")
def two_mistakes(tokens, d_head, rows):
    return 8 * tokens * d_head + 4 * tokens**2, 8 * tokens * d_head


@wrong("bytes_moved", "each-number")
def output_of_the_tiles_alone(tokens, d_head, rows):
    return plain_of(tokens, d_head), tiled_of(tokens, d_head, rows) - 2 * tokens * d_head


@wrong("bytes_moved", "each-number")
def cut_to_a_whole_number(tokens, d_head, rows):
    return plain_of(tokens, d_head), int(4 * tokens * d_head * (1 + tokens / rows))


@wrong("bytes_moved", "type")
def tiled_alone(tokens, d_head, rows):
    return tiled_of(tokens, d_head, rows)


@wrong("bytes_moved", "type")
def as_floats(tokens, d_head, rows):
    return float(plain_of(tokens, d_head)), float(tiled_of(tokens, d_head, rows))


# --- quantize_rows --------------------------------------------------------------------------


@right("quantize_rows")
def with_a_least_scale(weight):
    scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / 127
    return torch.round(weight / scale).clamp(-127, 127).to(torch.int8), scale


@right("quantize_rows")
def row_by_row(weight):
    numbers = torch.zeros(weight.shape, dtype=torch.int8)
    scale = torch.ones(len(weight), 1)
    for i, row in enumerate(weight):
        if row.any():
            scale[i] = row.abs().max() / 127
            numbers[i] = (row / scale[i]).round()
    return numbers, scale


@right("quantize_rows")
def half_up(weight):
    largest = weight.abs().max(dim=-1, keepdim=True).values
    scale = torch.where(largest == 0, 1.0, largest / 127)
    return (weight / scale + 0.5).floor().to(torch.int8), scale


@right("quantize_rows")
def with_numpy_rows(weight):
    given = weight.numpy()
    scale = np.maximum(np.abs(given).max(axis=1, keepdims=True), 1e-10) / np.float32(127)
    numbers = np.rint(given / scale).astype(np.int8)
    return [torch.from_numpy(numbers), torch.from_numpy(scale)]


@right("quantize_rows")
def both_ends(weight):
    largest = torch.maximum(weight.amax(1), -weight.amin(1)).unsqueeze(1)
    scale = largest / 127 + (largest == 0)
    return torch.round(weight * (1 / scale)).char(), scale


def scale_of(weight, levels=127):
    return weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / levels


@wrong("quantize_rows", "library-call")
def rows_from_the_package(weight):
    return quantized.quantize_rows(weight)


@wrong("quantize_rows", "one-scale")
def one_for_all(weight):
    scale = weight.abs().max() / 127
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "one-scale-for-all")
def one_for_all_repeated(weight):
    scale = (weight.abs().max() / 127).repeat(len(weight), 1)
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "per-column")
def one_a_column(weight):
    scale = weight.abs().amax(dim=0, keepdim=True).clamp(min=1e-12) / 127
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "no-keepdim")
def axis_gone(weight):
    scale = weight.abs().amax(dim=1).clamp(min=1e-12) / 127
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "flat-scale")
def scale_without_axis(weight):
    scale = weight.abs().amax(dim=1).clamp(min=1e-12) / 127
    return (weight / scale[:, None]).round().to(torch.int8), scale


@wrong("quantize_rows", "truncated")
def not_rounded(weight):
    scale = scale_of(weight)
    return (weight / scale).to(torch.int8), scale


@wrong("quantize_rows", "rounded-down")
def floored(weight):
    scale = scale_of(weight)
    return (weight / scale).floor().to(torch.int8), scale


@wrong("quantize_rows", "over-128")
def sign_flips(weight):
    scale = scale_of(weight, 128)
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "over-128-clamped")
def cut_off_at_the_top(weight):
    scale = scale_of(weight, 128)
    return (weight / scale).round().clamp(-128, 127).to(torch.int8), scale


@wrong("quantize_rows", "over-255")
def all_the_levels(weight):
    scale = scale_of(weight, 255)
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "over-255-clamped")
def half_cut_off(weight):
    scale = scale_of(weight, 255)
    return (weight / scale).round().clamp(-128, 127).to(torch.int8), scale


@wrong("quantize_rows", "asymmetric")
def with_a_zero_point(weight):
    low = weight.min(dim=1, keepdim=True).values
    scale = (weight.max(dim=1, keepdim=True).values - low) / 255
    return ((weight - low) / scale - 128).round().to(torch.int8), scale


@wrong("quantize_rows", "signed-maximum")
def largest_with_sign(weight):
    scale = weight.amax(dim=1, keepdim=True) / 127
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "minimum")
def smallest(weight):
    scale = weight.abs().amin(dim=1, keepdim=True) / 127
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "sign-lost")
def absolute_numbers(weight):
    scale = scale_of(weight)
    return (weight.abs() / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "multiplied")
def times_the_scale(weight):
    scale = scale_of(weight)
    return (weight * scale).round().to(torch.int8), scale


@wrong("quantize_rows", "not-divided")
def rounded_as_it_is(weight):
    return weight.round().to(torch.int8), scale_of(weight)


@wrong("quantize_rows", "without-127")
def from_minus_one_to_one(weight):
    scale = scale_of(weight, 1)
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "largest-as-scale")
def the_largest_itself(weight):
    largest = scale_of(weight, 1)
    return (weight / largest * 127).round().to(torch.int8), largest


@wrong("quantize_rows", "upside-down")
def as_it_was_multiplied(weight):
    scale = 127 / weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12)
    return (weight * scale).round().to(torch.int8), scale


@wrong("quantize_rows", "dequantized")
def and_back_again(weight):
    scale = scale_of(weight)
    return (weight / scale).round() * scale, scale


@wrong("quantize_rows", "swapped")
def scale_first(weight):
    scale = scale_of(weight)
    return scale, (weight / scale).round().to(torch.int8)


@wrong("quantize_rows", "numbers-alone")
def no_scale(weight):
    return (weight / scale_of(weight)).round().to(torch.int8)


@wrong("quantize_rows", "not-int8")
def left_as_floats(weight):
    scale = scale_of(weight)
    return (weight / scale).round(), scale


@wrong("quantize_rows", "not-int8")
def as_int(weight):
    scale = scale_of(weight)
    return (weight / scale).round().int(), scale


@wrong("quantize_rows", "scale-type")
def scale_in_double(weight):
    scale = scale_of(weight.double())
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "dtype")
def scale_in_half(weight):
    scale = scale_of(weight)
    return (weight / scale).round().to(torch.int8), scale.half()


@wrong("quantize_rows", "zero-row")
def zero_by_zero(weight):
    rows = weight / weight.abs().amax(dim=1, keepdim=True)
    scale = weight.abs().amax(dim=1, keepdim=True) / rows.abs().amax(dim=1, keepdim=True) / 127
    return (rows * 127).round().to(torch.int8), scale


@wrong("quantize_rows", "zero-row")
def infinite_scale(weight):
    inverse = 127 / weight.abs().amax(dim=1, keepdim=True)
    scale = torch.where(inverse.isinf(), inverse, 1 / inverse)
    return (weight * inverse).nan_to_num().round().to(torch.int8), scale


@wrong("quantize_rows", "zero-row")
def lowest_number_for_zeros(weight):
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    return (weight / scale).nan_to_num(nan=-128).round().to(torch.int8), scale


@wrong("quantize_rows", "beside-zeros")
def one_zero_row_changes_all(weight):
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    if (scale == 0).any():
        scale = torch.ones_like(scale)
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "shape")
def one_scale_as_matrix(weight):
    scale = weight.abs().amax(dim=(0, 1), keepdim=True) / 127
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "differs")
def sixteen_levels(weight):
    scale = scale_of(weight, 7)
    return (weight / scale).round().to(torch.int8), scale


@wrong("quantize_rows", "changes-input")
def divided_in_place(weight):
    scale = scale_of(weight)
    return weight.div_(scale).round().to(torch.int8), scale


# --- averaged_gradient ----------------------------------------------------------------------


@right("averaged_gradient")
def weighted_sum(gradients, tokens):
    return (gradients * tokens[:, None]).sum(0) / tokens.sum()


@right("averaged_gradient")
def shares_first(gradients, tokens):
    shares = tokens / tokens.sum()
    return torch.einsum("p,pn->n", shares.to(gradients), gradients)


@right("averaged_gradient")
def process_by_process(gradients, tokens):
    total = torch.zeros_like(gradients[0])
    count = 0
    for gradient, n in zip(gradients, tokens):
        total += gradient * n
        count += int(n)
    return total / count


@right("averaged_gradient")
def mean_of_the_corrected(gradients, tokens):
    factor = tokens * len(tokens) / tokens.sum()
    return (gradients * factor.unsqueeze(1)).mean(dim=0)


@wrong("averaged_gradient", "as-given")
def as_it_was_given(gradients, tokens):
    return gradients.mean(dim=0)


@wrong("averaged_gradient", "summed")
def all_summed(gradients, tokens):
    return gradients.sum(dim=0)


@wrong("averaged_gradient", "not-divided")
def sum_over_tokens(gradients, tokens):
    return (gradients * tokens[:, None]).sum(0)


@wrong("averaged_gradient", "by-the-processes")
def mean_of_sums(gradients, tokens):
    return (gradients * tokens[:, None]).mean(0)


@wrong("averaged_gradient", "by-the-largest")
def largest_counts_one(gradients, tokens):
    return (gradients * (tokens / tokens.max())[:, None]).sum(0)


@wrong("averaged_gradient", "sum-over-tokens")
def as_if_they_were_sums(gradients, tokens):
    return gradients.sum(0) / tokens.sum()


@wrong("averaged_gradient", "by-their-own")
def divided_once_more(gradients, tokens):
    return (gradients / tokens[:, None]).sum(0)


@wrong("averaged_gradient", "mean-by-their-own")
def divided_once_more_and_averaged(gradients, tokens):
    return (gradients / tokens.clamp(min=1)[:, None]).mean(0)


@wrong("averaged_gradient", "softmax")
def softmax_of_counts(gradients, tokens):
    return torch.softmax(tokens.to(gradients.dtype), dim=0) @ gradients


@wrong("averaged_gradient", "those-with-tokens")
def mean_without_the_empty(gradients, tokens):
    return gradients.sum(0) / (tokens > 0).sum()


@wrong("averaged_gradient", "whole-shares")
def shares_without_remainder(gradients, tokens):
    return (gradients * (tokens // tokens.sum())[:, None]).sum(0)


@wrong("averaged_gradient", "whole-shares")
def shares_to_int(gradients, tokens):
    shares = torch.zeros_like(tokens)
    shares[:] = tokens / tokens.sum()
    return (gradients * shares[:, None]).sum(0)


@wrong("averaged_gradient", "divided-twice")
def mean_of_shares(gradients, tokens):
    return (gradients * (tokens / tokens.sum())[:, None]).mean(0)


@wrong("averaged_gradient", "shares-of-the-mean")
def relative_to_the_mean(gradients, tokens):
    return (gradients * (tokens / tokens.to(gradients.dtype).mean())[:, None]).sum(0)


@wrong("averaged_gradient", "largest-alone")
def most_tokens_win(gradients, tokens):
    return gradients[tokens.argmax()]


@wrong("averaged_gradient", "not-summed")
def one_for_each_process(gradients, tokens):
    return gradients * (tokens / tokens.sum())[:, None]


@wrong("averaged_gradient", "over-the-parameters")
def other_axis(gradients, tokens):
    return (gradients * tokens[:, None]).sum(1) / tokens.sum()


@wrong("averaged_gradient", "not-lined-up")
def without_an_axis(gradients, tokens):
    return (gradients * tokens).sum(0) / tokens.sum()


@wrong("averaged_gradient", "differs")
def by_their_root(gradients, tokens):
    roots = tokens.to(gradients.dtype).sqrt()
    return roots @ gradients / roots.sum()


@wrong("averaged_gradient", "shape")
def one_number(gradients, tokens):
    return (gradients * tokens[:, None]).sum() / tokens.sum()


@wrong("averaged_gradient", "changes-input")
def into_the_given(gradients, tokens):
    gradients *= tokens[:, None]
    return gradients.sum(0) / tokens.sum()


# --- partial_outputs ------------------------------------------------------------------------


@right("partial_outputs")
def in_chunks(x, w_up, b_up, w_down, b_down, devices):
    parts = []
    for up, bias, down in zip(
        w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, dim=1)
    ):
        parts.append(F.gelu(x @ up.T + bias) @ down.T)
    parts[0] = parts[0] + b_down
    return torch.stack(parts)


@right("partial_outputs")
def by_slices(x, w_up, b_up, w_down, b_down, devices):
    share = w_up.shape[0] // devices
    out = x.new_zeros(devices, *x.shape)
    for device in range(devices):
        mine = slice(device * share, (device + 1) * share)
        hidden = nn.GELU()(F.linear(x, w_up[mine], b_up[mine]))
        out[device] = F.linear(hidden, w_down[:, mine], b_down if device == 0 else None)
    return out


@right("partial_outputs")
def all_at_once(x, w_up, b_up, w_down, b_down, devices):
    up = w_up.unflatten(0, (devices, -1))
    down = w_down.unflatten(1, (devices, -1))
    hidden = torch.einsum("btm,nsm->nbts", x, up) + b_up.view(devices, 1, 1, -1)
    hidden = 0.5 * hidden * (1 + torch.erf(hidden / 2**0.5))
    parts = torch.einsum("nbts,mns->nbtm", hidden, down)
    return torch.cat([parts[:1] + b_down, parts[1:]])


@right("partial_outputs")
def hidden_first(x, w_up, b_up, w_down, b_down, devices):
    hidden = F.gelu(F.linear(x, w_up, b_up))
    pairs = zip(hidden.chunk(devices, -1), w_down.chunk(devices, 1))
    first, *others = [part @ down.mT for part, down in pairs]
    return torch.stack([first + b_down, *others])


def by_units(x, w_up, b_up, w_down, b_down, groups, activation=F.gelu):
    parts = [F.linear(activation(F.linear(x, w_up[u], b_up[u])), w_down[:, u]) for u in groups]
    return torch.stack([parts[0] + b_down, *parts[1:]])


def neighbours(w_up, devices):
    return torch.arange(len(w_up)).chunk(devices)


def whole(x, w_up, b_up, w_down, b_down):
    return F.linear(F.gelu(F.linear(x, w_up, b_up)), w_down, b_down)


@wrong("partial_outputs", "shared-evenly")
def whole_over_devices(x, w_up, b_up, w_down, b_down, devices):
    return (whole(x, w_up, b_up, w_down, b_down) / devices).repeat(devices, 1, 1, 1)


@wrong("partial_outputs", "after-the-sum")
def whole_on_each(x, w_up, b_up, w_down, b_down, devices):
    return whole(x, w_up, b_up, w_down, b_down).repeat(devices, 1, 1, 1)


@wrong("partial_outputs", "summed")
def already_summed(x, w_up, b_up, w_down, b_down, devices):
    return in_chunks(x, w_up, b_up, w_down, b_down, devices).sum(0)


@wrong("partial_outputs", "running-sum")
def handed_on(x, w_up, b_up, w_down, b_down, devices):
    parts = list(in_chunks(x, w_up, b_up, w_down, b_down, devices))
    for i in range(1, devices):
        parts[i] = parts[i] + parts[i - 1]
    return torch.stack(parts)


@wrong("partial_outputs", "first-alone")
def one_does_it_all(x, w_up, b_up, w_down, b_down, devices):
    out = whole(x, w_up, b_up, w_down, b_down)
    return torch.stack([out] + [torch.zeros_like(out)] * (devices - 1))


@wrong("partial_outputs", "bias-everywhere")
def each_adds_it(x, w_up, b_up, w_down, b_down, devices):
    shares = zip(w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, 1))
    return torch.stack([whole(x, up, bias, down, b_down) for up, bias, down in shares])


@wrong("partial_outputs", "bias-missing")
def nobody_adds_it(x, w_up, b_up, w_down, b_down, devices):
    shares = zip(w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, 1))
    return torch.stack([whole(x, up, bias, down, None) for up, bias, down in shares])


@wrong("partial_outputs", "bias-last")
def last_adds_it(x, w_up, b_up, w_down, b_down, devices):
    shares = zip(w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, 1))
    parts = [whole(x, up, bias, down, None) for up, bias, down in shares]
    parts[-1] = parts[-1] + b_down
    return torch.stack(parts)


@wrong("partial_outputs", "bias-shared")
def each_adds_a_share(x, w_up, b_up, w_down, b_down, devices):
    shares = zip(w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, 1))
    return torch.stack([whole(x, up, bias, down, b_down / devices) for up, bias, down in shares])


@wrong("partial_outputs", "bias-not-first")
def if_device(x, w_up, b_up, w_down, b_down, devices):
    shares = zip(w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, 1))
    return torch.stack(
        [
            whole(x, up, bias, down, b_down if device else None)
            for device, (up, bias, down) in enumerate(shares)
        ]
    )


@wrong("partial_outputs", "dealt-out")
def in_steps(x, w_up, b_up, w_down, b_down, devices):
    units = torch.arange(len(w_up))
    groups = [units[device::devices] for device in range(devices)]
    return by_units(x, w_up, b_up, w_down, b_down, groups)


@wrong("partial_outputs", "reversed")
def from_behind(x, w_up, b_up, w_down, b_down, devices):
    groups = neighbours(w_up, devices)[::-1]
    return by_units(x, w_up, b_up, w_down, b_down, groups)


@wrong("partial_outputs", "w-down-dealt-out")
def columns_in_steps(x, w_up, b_up, w_down, b_down, devices):
    parts = []
    for device, (up, bias) in enumerate(zip(w_up.chunk(devices), b_up.chunk(devices))):
        parts.append(F.gelu(x @ up.T + bias) @ w_down[:, device::devices].T)
    parts[0] = parts[0] + b_down
    return torch.stack(parts)


@wrong("partial_outputs", "w-down-by-memory")
def reshaped(x, w_up, b_up, w_down, b_down, devices):
    pieces = w_down.reshape(devices, w_down.shape[0], -1)
    parts = []
    for up, bias, down in zip(w_up.chunk(devices), b_up.chunk(devices), pieces):
        parts.append(F.gelu(x @ up.T + bias) @ down.T)
    parts[0] = parts[0] + b_down
    return torch.stack(parts)


@wrong("partial_outputs", "does-not-fit")
def columns_of_w_up(x, w_up, b_up, w_down, b_down, devices):
    shares = zip(w_up.chunk(devices, 1), b_up.chunk(devices), w_down.chunk(devices))
    return torch.stack([whole(x, up, bias, down, b_down) for up, bias, down in shares])


@wrong("partial_outputs", "does-not-fit")
def whole_b_up(x, w_up, b_up, w_down, b_down, devices):
    parts = []
    for up, down in zip(w_up.chunk(devices), w_down.chunk(devices, dim=1)):
        parts.append(F.gelu(x @ up.T + b_up) @ down.T)
    parts[0] = parts[0] + b_down
    return torch.stack(parts)


@wrong("partial_outputs", "read-by-columns")
def parts_of_x(x, w_up, b_up, w_down, b_down, devices):
    parts = []
    for part, up in zip(x.chunk(devices, dim=-1), w_up.chunk(devices, dim=1)):
        parts.append(F.gelu(part @ up.T + b_up) @ w_down.T)
    parts[0] = parts[0] + b_down
    return torch.stack(parts)


@wrong("partial_outputs", "no-gelu")
def linear(x, w_up, b_up, w_down, b_down, devices):
    return by_units(x, w_up, b_up, w_down, b_down, neighbours(w_up, devices), lambda h: h)


@wrong("partial_outputs", "gelu-behind")
def gelu_last(x, w_up, b_up, w_down, b_down, devices):
    parts = []
    for up, bias, down in zip(w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, 1)):
        parts.append(F.gelu((x @ up.T + bias) @ down.T))
    parts[0] = parts[0] + b_down
    return torch.stack(parts)


@wrong("partial_outputs", "tanh")
def by_tanh(x, w_up, b_up, w_down, b_down, devices):
    groups = neighbours(w_up, devices)
    return by_units(x, w_up, b_up, w_down, b_down, groups, nn.GELU("tanh"))


@wrong("partial_outputs", "relu")
def with_relu(x, w_up, b_up, w_down, b_down, devices):
    return by_units(x, w_up, b_up, w_down, b_down, neighbours(w_up, devices), torch.relu)


@wrong("partial_outputs", "silu")
def with_silu(x, w_up, b_up, w_down, b_down, devices):
    return by_units(x, w_up, b_up, w_down, b_down, neighbours(w_up, devices), F.silu)


@wrong("partial_outputs", "no-b-up")
def b_up_forgotten(x, w_up, b_up, w_down, b_down, devices):
    return by_units(x, w_up, 0 * b_up, w_down, b_down, neighbours(w_up, devices))


@wrong("partial_outputs", "b-up-first")
def b_up_on_one(x, w_up, b_up, w_down, b_down, devices):
    parts = []
    for i, up in enumerate(w_up.chunk(devices)):
        hidden = F.linear(x, up, b_up.chunk(devices)[0] if i == 0 else None)
        parts.append(F.gelu(hidden) @ w_down.chunk(devices, 1)[i].T)
    parts[0] = parts[0] + b_down
    return torch.stack(parts)


@wrong("partial_outputs", "b-up-shared")
def b_up_divided(x, w_up, b_up, w_down, b_down, devices):
    return by_units(x, w_up, b_up / devices, w_down, b_down, neighbours(w_up, devices))


@wrong("partial_outputs", "a-list")
def not_stacked(x, w_up, b_up, w_down, b_down, devices):
    return list(in_chunks(x, w_up, b_up, w_down, b_down, devices))


@wrong("partial_outputs", "joined")
def concatenated(x, w_up, b_up, w_down, b_down, devices):
    return torch.cat(list(in_chunks(x, w_up, b_up, w_down, b_down, devices)))


@wrong("partial_outputs", "joined-in-width")
def side_by_side(x, w_up, b_up, w_down, b_down, devices):
    return torch.cat(list(in_chunks(x, w_up, b_up, w_down, b_down, devices)), dim=-1)


@wrong("partial_outputs", "devices-behind")
def stacked_behind(x, w_up, b_up, w_down, b_down, devices):
    return torch.stack(list(in_chunks(x, w_up, b_up, w_down, b_down, devices)), dim=-1)


@wrong("partial_outputs", "shape")
def batch_before_devices(x, w_up, b_up, w_down, b_down, devices):
    return torch.stack(list(in_chunks(x, w_up, b_up, w_down, b_down, devices)), dim=1)


@wrong("partial_outputs", "shape")
def hidden_units_alone(x, w_up, b_up, w_down, b_down, devices):
    return torch.stack(F.gelu(F.linear(x, w_up, b_up)).chunk(devices, -1))


@wrong("partial_outputs", "other-parts")
def middle_adds_it(x, w_up, b_up, w_down, b_down, devices):
    parts = list(in_chunks(x, w_up, b_up, w_down, b_down, devices))
    parts[0] = parts[0] - b_down
    parts[devices // 2] = parts[devices // 2] + b_down
    return torch.stack(parts)


@wrong("partial_outputs", "other-parts")
def most_on_the_first(x, w_up, b_up, w_down, b_down, devices):
    few = max(1, len(w_up) // devices - 1)
    cuts = [len(w_up) - few * (devices - 1)] + [few] * (devices - 1)
    groups = torch.arange(len(w_up)).split(cuts)
    return by_units(x, w_up, b_up, w_down, b_down, groups)


@wrong("partial_outputs", "differs")
def halves_of_the_hidden(x, w_up, b_up, w_down, b_down, devices):
    groups = neighbours(w_up, devices)
    return by_units(x, w_up, b_up, w_down, b_down, groups) / devices**0.5


@wrong("partial_outputs", "no-gradient")
def taken_out(x, w_up, b_up, w_down, b_down, devices):
    return in_chunks(x.detach(), w_up, b_up, w_down, b_down, devices)
