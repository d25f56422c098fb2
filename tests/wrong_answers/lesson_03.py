"""What learners write in lesson 03."""

import math

import numpy as np
import torch

from tests.wrong_answers import right, wrong
from tfcourse import positions

# --- sinusoidal_encoding --------------------------------------------------------------------


def table(tokens, d_model, base):
    return torch.arange(tokens)[:, None] / base ** (torch.arange(0, d_model, 2) / d_model)


@wrong("sinusoidal_encoding", "halves")
def sines_then_cosines(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, base)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@wrong("sinusoidal_encoding", "cosine-first")
def even_columns_get_the_cosine(tokens, d_model, base=10000.0):
    pe = torch.zeros(tokens, d_model)
    angles = table(tokens, d_model, base)
    pe[:, 0::2], pe[:, 1::2] = angles.cos(), angles.sin()
    return pe


@wrong("sinusoidal_encoding", "exponent-i")
def two_forgotten(tokens, d_model, base=10000.0):
    pe = torch.zeros(tokens, d_model)
    for pos in range(tokens):
        for i in range(d_model // 2):
            pe[pos, 2 * i] = math.sin(pos / base ** (i / d_model))
            pe[pos, 2 * i + 1] = math.cos(pos / base ** (i / d_model))
    return pe


@wrong("sinusoidal_encoding", "each-its-own")
def column_number_in_the_exponent(tokens, d_model, base=10000.0):
    pe = torch.zeros(tokens, d_model)
    for j in range(d_model):
        f = math.sin if j % 2 == 0 else math.cos
        for pos in range(tokens):
            pe[pos, j] = f(pos / base ** (j / d_model))
    return pe


@wrong("sinusoidal_encoding", "sines-only")
def cosine_forgotten(tokens, d_model, base=10000.0):
    return table(tokens, d_model, base).sin().repeat_interleave(2, dim=1)


@wrong("sinusoidal_encoding", "all-sines")
def sine_in_every_column(tokens, d_model, base=10000.0):
    j = torch.arange(d_model)
    return torch.sin(torch.arange(tokens)[:, None] / base ** (j / d_model))


@wrong("sinusoidal_encoding", "all-sines")
def odd_columns_left_empty(tokens, d_model, base=10000.0):
    pe = torch.zeros(tokens, d_model)
    pe[:, 0::2] = table(tokens, d_model, base).sin()
    return pe


@wrong("sinusoidal_encoding", "all-cosines")
def cosine_in_every_column(tokens, d_model, base=10000.0):
    return table(tokens, d_model, base).cos().repeat_interleave(2, dim=1)


@wrong("sinusoidal_encoding", "multiplied")
def minus_in_the_exponent_forgotten(tokens, d_model, base=10000.0):
    inv = torch.exp(torch.arange(0, d_model, 2).double() * (math.log(base) / d_model))
    angles = torch.arange(tokens)[:, None] * inv
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()


@wrong("sinusoidal_encoding", "from-one")
def counts_like_people(tokens, d_model, base=10000.0):
    angles = table(tokens + 1, d_model, base)[1:]
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@wrong("sinusoidal_encoding", "reversed")
def slow_ones_first(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, base).flip(1)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@wrong("sinusoidal_encoding", "base-fixed")
def ten_thousand_written_in(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, 10000.0)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@wrong("sinusoidal_encoding", "transposed")
def lying_on_its_side(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, base)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).T


@wrong("sinusoidal_encoding", "shape")
def pairs_not_joined(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, base)
    return torch.stack([angles.sin(), angles.cos()], -1)


@wrong("sinusoidal_encoding", "type")
def numpy_array(tokens, d_model, base=10000.0):
    return positions.sinusoidal_encoding(tokens, d_model, base).numpy()


@wrong("sinusoidal_encoding", "raised")
def made_for_sixteen(tokens, d_model, base=10000.0):
    pe = torch.zeros(tokens, d_model)
    angles = table(tokens, 16, base)
    pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
    return pe


@wrong("sinusoidal_encoding", "to-the-base")
def as_in_the_first_code(tokens, d_model, base=10000.0):
    half = d_model // 2
    step = math.log(base) / max(half - 1, 1)
    angles = torch.arange(tokens)[:, None] * torch.exp(-step * torch.arange(half))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@wrong("sinusoidal_encoding", "multiplied")
def multiplied_in_float32(tokens, d_model, base=10000.0):
    angles = torch.arange(tokens)[:, None] * base ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@wrong("sinusoidal_encoding", "differs")
def table_ends_at_1024(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, base)
    angles = angles[torch.arange(tokens).clamp(max=1023)]
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@wrong("sinusoidal_encoding", "floored")
def whole_division(tokens, d_model, base=10000.0):
    angles = torch.arange(tokens)[:, None] // base ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@wrong("sinusoidal_encoding", "differs")
def half_precision(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, base).half()
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()


@wrong("sinusoidal_encoding", "shape")
def axis_of_one_dropped(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, base)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).squeeze()


@right("sinusoidal_encoding")
def stacked(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, base)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@right("sinusoidal_encoding")
def two_loops(tokens, d_model, base=10000.0):
    pe = torch.zeros(tokens, d_model)
    for pos in range(tokens):
        for i in range(d_model // 2):
            angle = pos / base ** (2 * i / d_model)
            pe[pos, 2 * i], pe[pos, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return pe


@right("sinusoidal_encoding")
def annotated_style(tokens, d_model, base=10000.0):
    pe = torch.zeros(tokens, d_model)
    position = torch.arange(0, tokens).unsqueeze(1).float()
    div = torch.exp(torch.arange(0, d_model, 2).float() * -(math.log(base) / d_model))
    pe[:, 0::2] = torch.sin(position * div)
    pe[:, 1::2] = torch.cos(position * div)
    return pe


@right("sinusoidal_encoding")
def with_numpy(tokens, d_model, base=10000.0):
    angles = np.arange(tokens)[:, None] / base ** (np.arange(0, d_model, 2) / d_model)
    pe = np.empty((tokens, d_model))
    pe[:, ::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return torch.from_numpy(pe).float()


@wrong("sinusoidal_encoding", "doubled")
def two_twice(tokens, d_model, base=10000.0):
    pe = torch.zeros(tokens, d_model)
    i = torch.arange(0, d_model, 2)
    angles = torch.arange(tokens)[:, None] / base ** (2 * i / d_model)
    pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
    return pe


# --- rotate_pairs ---------------------------------------------------------------------------


def turn(x, pos, base, i_to_exponent=lambda i, d: -2 * i / d):
    d = x.shape[-1]
    angles = pos[:, None] * base ** i_to_exponent(torch.arange(d // 2), d)
    return angles.cos(), angles.sin()


@wrong("rotate_pairs", "split-half")
def as_llama_does(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


@wrong("rotate_pairs", "clockwise")
def minus_on_the_other_line(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    out = torch.empty_like(x)
    out[..., ::2] = x[..., ::2] * cos + x[..., 1::2] * sin
    out[..., 1::2] = -x[..., ::2] * sin + x[..., 1::2] * cos
    return out


@wrong("rotate_pairs", "positions-ignored")
def counts_itself(x, positions, base=10000.0):
    cos, sin = turn(x, torch.arange(x.shape[-2]), base)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@wrong("rotate_pairs", "one-angle")
def same_speed_for_all(x, positions, base=10000.0):
    cos, sin = positions.float().cos()[:, None], positions.float().sin()[:, None]
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@wrong("rotate_pairs", "exponent-i")
def exponent_without_the_two(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base, lambda i, d: -i / d)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@wrong("rotate_pairs", "base-fixed")
def base_written_in(x, positions, base=10000.0):
    cos, sin = turn(x, positions, 1e4)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@wrong("rotate_pairs", "multiplied")
def sign_of_the_exponent(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base, lambda i, d: 2 * i / d)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@wrong("rotate_pairs", "overwritten")
def written_then_read(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    out = x.clone()
    out[..., ::2] = out[..., ::2] * cos - out[..., 1::2] * sin
    out[..., 1::2] = out[..., ::2] * sin + out[..., 1::2] * cos
    return out


@wrong("rotate_pairs", "differs")
def table_of_128(x, positions, base=10000.0):
    cos, sin = turn(x, positions.clamp(max=127), base)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@wrong("rotate_pairs", "added")
def encoding_added(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    return x + torch.stack([sin, cos], -1).flatten(-2)


@wrong("rotate_pairs", "no-minus")
def plus_twice(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos + b * sin, a * sin + b * cos], -1).flatten(-2)


@wrong("rotate_pairs", "stretched")
def only_the_cosine(x, positions, base=10000.0):
    cos, _ = turn(x, positions, base)
    return x * cos.repeat_interleave(2, dim=-1)


@wrong("rotate_pairs", "not-interleaved")
def concatenated_at_the_end(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


@wrong("rotate_pairs", "in-place")
def twice_over_the_same_tensor(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    length = x.square()
    root = length.sqrt()  # the gradient of the root needs what it gave
    a, b = x[..., ::2], x[..., 1::2]
    out = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2) + 0 * root
    root += 1
    return out


@wrong("rotate_pairs", "changes-input")
def written_into_x(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    a, b = x[..., ::2].clone(), x[..., 1::2].clone()
    x[..., ::2], x[..., 1::2] = a * cos - b * sin, a * sin + b * cos
    return x


@wrong("rotate_pairs", "no-gradient")
def by_numpy(x, positions, base=10000.0):
    cos, sin = (t.numpy() for t in turn(x, positions, base))
    z = x.detach().numpy()
    a, b = z[..., ::2], z[..., 1::2]
    return torch.tensor(np.stack([a * cos - b * sin, a * sin + b * cos], -1)).flatten(-2)


@wrong("rotate_pairs", "differs")
def one_token_needs_no_turn(x, positions, base=10000.0):
    return x if len(positions) == 1 else even_and_odd(x, positions, base)


@wrong("rotate_pairs", "counted-on")
def from_the_first_on(x, positions, base=10000.0):
    return even_and_odd(x, positions[0] + torch.arange(len(positions)), base)


@wrong("rotate_pairs", "negative")
def looked_up_in_a_table(x, positions, base=10000.0):
    rows = torch.arange(int(positions.abs().max()) + 1)
    cos, sin = (t[positions] for t in turn(x, rows, base))
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@wrong("rotate_pairs", "negative")
def sign_of_the_position_lost(x, positions, base=10000.0):
    return even_and_odd(x, positions.abs(), base)


@wrong("rotate_pairs", "gradient-nan")
def by_length_and_angle(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, d, 2) / d).double()
    a, b = x[..., ::2].double(), x[..., 1::2].double()
    length, angle = (a * a + b * b).sqrt(), torch.atan2(b, a) + angles
    return torch.stack([length * angle.cos(), length * angle.sin()], -1).flatten(-2).to(x.dtype)


@wrong("rotate_pairs", "raised")
def view_of_what_is_not_contiguous(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    a, b = x.view(-1, x.shape[-2], x.shape[-1] // 2, 2).unbind(-1)
    out = torch.stack([a * cos - b * sin, a * sin + b * cos], -1)
    return out.reshape(x.shape)


@wrong("rotate_pairs", "dtype")
def left_complex(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, d, 2) / d)
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return (z * torch.polar(torch.ones_like(angles), angles)).repeat_interleave(2, -1)


@wrong("rotate_pairs", "shape")
def one_token_loses_its_axis(x, positions, base=10000.0):
    out = even_and_odd(x, positions, base)
    return out.squeeze(-2)


@wrong("rotate_pairs", "multiplied")
def divided_where_it_multiplies(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] / base ** (-torch.arange(0, d, 2).double() / d)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@right("rotate_pairs")
def all_four_axes_by_name(x, positions, base=10000.0):
    batch, heads, tokens, d_head = x.shape
    frequencies = base ** (-torch.arange(0, d_head, 2) / d_head)
    out = torch.zeros(batch, heads, tokens, d_head, dtype=x.dtype)
    for t in range(tokens):
        angles = positions[t] * frequencies
        a, b = x[:, :, t, 0::2], x[:, :, t, 1::2]
        out[:, :, t, 0::2] = a * angles.cos() - b * angles.sin()
        out[:, :, t, 1::2] = a * angles.sin() + b * angles.cos()
    return out


@right("rotate_pairs")
def even_and_odd(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    out = torch.empty_like(x)
    out[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
    return out


@right("rotate_pairs")
def with_complex_numbers(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, d, 2) / d)
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


@right("rotate_pairs")
def with_matrices(x, positions, base=10000.0):
    cos, sin = turn(x, positions, base)
    matrix = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    matrix = matrix.to(x.dtype)  # einsum mixes no types
    pairs = x.unflatten(-1, (-1, 2))
    return torch.einsum("tpij,...tpj->...tpi", matrix, pairs).flatten(-2)


@right("rotate_pairs")
def pair_by_pair(x, positions, base=10000.0):
    d, columns = x.shape[-1], []
    for i in range(d // 2):
        angle = positions / base ** (2 * i / d)
        a, b = x[..., 2 * i], x[..., 2 * i + 1]
        columns += [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()]
    return torch.stack(columns, dim=-1)


# --- alibi_bias -----------------------------------------------------------------------------


def away(tokens):
    where = torch.arange(tokens)
    return (where[:, None] - where).abs()


@wrong("alibi_bias", "rewarded")
def minus_forgotten(n_heads, tokens):
    slopes = torch.tensor([2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)])
    return slopes[:, None, None] * away(tokens)


@wrong("alibi_bias", "halves-always")
def a_half_a_quarter(n_heads, tokens):
    slopes = 0.5 ** torch.arange(1, n_heads + 1)
    return -slopes[:, None, None] * away(tokens)


@wrong("alibi_bias", "floored")
def whole_exponents(n_heads, tokens):
    slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) // n_heads)
    return -slopes.view(-1, 1, 1) * away(tokens)


@wrong("alibi_bias", "from-zero")
def counted_from_zero(n_heads, tokens):
    return torch.stack([-(2 ** (-8 * h / n_heads)) * away(tokens) for h in range(n_heads)])


@wrong("alibi_bias", "one-slope")
def all_alike(n_heads, tokens):
    return -(2 ** (-8 / n_heads)) * away(tokens).expand(n_heads, -1, -1)


@wrong("alibi_bias", "reversed")
def gentle_first(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(n_heads, 0, -1) / n_heads)
    return -slopes.view(-1, 1, 1) * away(tokens)


@wrong("alibi_bias", "signed")
def difference_not_distance(n_heads, tokens):
    where = torch.arange(tokens)
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return slopes.view(-1, 1, 1) * (where - where[:, None])


@wrong("alibi_bias", "squared")
def square_of_the_distance(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return -slopes.view(-1, 1, 1) * away(tokens) ** 2


@wrong("alibi_bias", "past-only")
def lower_triangle(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return -slopes.view(-1, 1, 1) * away(tokens).tril()


@wrong("alibi_bias", "heads-last")
def last_axis_heads(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return -away(tokens)[..., None] * slopes


@wrong("alibi_bias", "masked")
def future_forbidden(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    future = torch.ones(tokens, tokens).triu(1).bool()
    return (-slopes.view(-1, 1, 1) * away(tokens)).masked_fill(future, -math.inf)


@wrong("alibi_bias", "shape")
def one_head_forgotten(n_heads, tokens):
    return -(2**-8) * away(tokens)


@wrong("alibi_bias", "last-query")
def one_row_for_all_queries(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    row = -slopes[:, None] * (tokens - 1 - torch.arange(tokens))
    return row[:, None, :].expand(n_heads, tokens, tokens)


@wrong("alibi_bias", "shape")
def row_not_repeated(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return -slopes[:, None, None] * (tokens - 1 - torch.arange(tokens))


@wrong("alibi_bias", "shape")
def single_head_loses_its_axis(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return (-slopes.view(-1, 1, 1) * away(tokens)).squeeze()


@wrong("alibi_bias", "differs")
def window_of_128(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return -slopes.view(-1, 1, 1) * away(tokens).clamp(max=128)


@wrong("alibi_bias", "differs")
def one_over_the_head(n_heads, tokens):
    slopes = 1 / torch.arange(1, n_heads + 1)
    return -slopes.view(-1, 1, 1) * away(tokens)


@right("alibi_bias")
def broadcast(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return -slopes.view(-1, 1, 1) * away(tokens)


@right("alibi_bias")
def three_loops(n_heads, tokens):
    return torch.tensor(
        [
            [
                [-(2 ** (-8 * h / n_heads)) * abs(q - k) for k in range(tokens)]
                for q in range(tokens)
            ]
            for h in range(1, n_heads + 1)
        ]
    )


@right("alibi_bias")
def geometric(n_heads, tokens):
    first = 2 ** (-8 / n_heads)
    return torch.einsum("h,qk->hqk", -(first ** torch.arange(1, n_heads + 1)), away(tokens).float())


# --- score_at_distances ---------------------------------------------------------------------


def turned(t, pos, base=10000.0):
    d = len(t)
    angles = torch.as_tensor(pos).reshape(-1, 1) * base ** (-torch.arange(0, d, 2) / d)
    a, b = t[::2], t[1::2]
    return torch.stack(
        [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1
    ).flatten(-2)


@wrong("score_at_distances", "scaled")
def scaled_as_in_attention(q, k, distances, base=10000.0):
    return turned(q, distances, base) @ k / len(q) ** 0.5


@wrong("score_at_distances", "other-way")
def key_moved_forward(q, k, distances, base=10000.0):
    return turned(k, distances, base) @ q


@wrong("score_at_distances", "split-half")
def llama_pairs(q, k, distances, base=10000.0):
    half = len(q) // 2
    angles = distances[:, None] * base ** (-torch.arange(half) / half)
    a, b = q[:half], q[half:]
    both = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.cat(both, -1) @ k


@wrong("score_at_distances", "both-turned")
def key_goes_along(q, k, distances, base=10000.0):
    return (turned(q, distances, base) * turned(k, distances, base)).sum(-1)


@wrong("score_at_distances", "one-angle")
def one_speed(q, k, distances, base=10000.0):
    a, b = q[::2], q[1::2]
    cos, sin = distances.float().cos()[:, None], distances.float().sin()[:, None]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2) @ k


@wrong("score_at_distances", "twice")
def apart_from_each_other(q, k, distances, base=10000.0):
    return (turned(q, distances, base) * turned(k, -distances, base)).sum(-1)


@wrong("score_at_distances", "base-fixed")
def base_forgotten(q, k, distances, base=10000.0):
    return turned(q, distances) @ k


@wrong("score_at_distances", "not-summed")
def by_pair(q, k, distances, base=10000.0):
    return (turned(q, distances, base) * k).unflatten(-1, (-1, 2)).sum(-1)


@wrong("score_at_distances", "dtype")
def complex_and_left_so(q, k, distances, base=10000.0):
    z = torch.view_as_complex(q.view(-1, 2)) * torch.view_as_complex(k.view(-1, 2)).conj()
    angles = distances[:, None] * base ** (-torch.arange(0, len(q), 2) / len(q))
    return (z * torch.polar(torch.ones_like(angles), angles)).sum(-1)


@wrong("score_at_distances", "shape")
def turned_queries_only(q, k, distances, base=10000.0):
    return turned(q, distances, base)


@right("score_at_distances")
def numbers_in_a_list(q, k, distances, base=10000.0):
    return torch.tensor([(turned(q, m, base)[0] @ k).item() for m in distances])


@wrong("score_at_distances", "no-direction")
def distance_without_sign(q, k, distances, base=10000.0):
    return turned(q, distances.abs(), base) @ k


@wrong("score_at_distances", "counted")
def distances_not_read(q, k, distances, base=10000.0):
    return turned(q, torch.arange(len(distances)), base) @ k


@wrong("score_at_distances", "negative")
def rows_of_a_table(q, k, distances, base=10000.0):
    rows = turned(q, torch.arange(int(distances.abs().max()) + 1), base)
    return rows[distances] @ k


@wrong("score_at_distances", "shape")
def one_distance_without_an_axis(q, k, distances, base=10000.0):
    return (turned(q, distances, base) @ k).squeeze()


@wrong("score_at_distances", "differs")
def mean_instead_of_sum(q, k, distances, base=10000.0):
    return (turned(q, distances, base) * k).mean(-1)


@wrong("score_at_distances", "differs")
def no_farther_than_1024(q, k, distances, base=10000.0):
    return turned(q, distances.clamp(-1024, 1024), base) @ k


@right("score_at_distances")
def key_at_zero(q, k, distances, base=10000.0):
    return turned(q, distances, base) @ k


@right("score_at_distances")
def key_moved_back(q, k, distances, base=10000.0):
    return turned(k, -distances, base) @ q


@right("score_at_distances")
def both_somewhere(q, k, distances, base=10000.0):
    scores = [(turned(q, 5 + m, base) * turned(k, 5, base)).sum() for m in distances]
    return torch.stack(scores)


@right("score_at_distances")
def complex_sum(q, k, distances, base=10000.0):
    z = torch.view_as_complex(q.view(-1, 2)) * torch.view_as_complex(k.view(-1, 2)).conj()
    angles = distances[:, None] * base ** (-torch.arange(0, len(q), 2) / len(q))
    return (z.real * angles.cos() - z.imag * angles.sin()).sum(-1)


# --- apply_rotary ---------------------------------------------------------------------------


def given(x, positions, cos_of, sin_of, partner_of, power=lambda i, half: -i / half):
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** power(torch.arange(half), half)
    return x * cos_of(angles.cos()) + partner_of(x) * sin_of(angles.sin())


def twice(t):
    return torch.cat([t, t], dim=-1)


def each(t):
    return t.repeat_interleave(2, dim=-1)


def neighbour(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)


def half_turn(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


@wrong("apply_rotary", "as given")
def unchanged(x, positions):
    return given(x, positions, twice, twice, neighbour)


@wrong("apply_rotary", "split-half")
def other_layout_throughout(x, positions):
    return given(x, positions, twice, twice, half_turn)


@wrong("apply_rotary", "partner-changed")
def both_changed(x, positions):
    return given(x, positions, each, each, half_turn)


@wrong("apply_rotary", "only-cos")
def cosines_fixed(x, positions):
    return given(x, positions, each, twice, neighbour)


@wrong("apply_rotary", "only-sin")
def sines_fixed(x, positions):
    return given(x, positions, twice, each, neighbour)


@wrong("apply_rotary", "clockwise")
def sign_changed(x, positions):
    def other_sign(x):
        return torch.stack([x[..., 1::2], -x[..., ::2]], dim=-1).flatten(-2)

    return given(x, positions, each, each, other_sign)


@wrong("apply_rotary", "no-minus")
def sign_lost(x, positions):
    def swapped(x):
        return torch.stack([x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)

    return given(x, positions, each, each, swapped)


@wrong("apply_rotary", "frequencies")
def exponent_doubled(x, positions):
    return given(x, positions, each, each, neighbour, lambda i, half: -2 * i / half)


@wrong("apply_rotary", "not-linear")
def normalized_on_the_way(x, positions):
    length = x.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    return given(x / length, positions, each, each, neighbour)


@wrong("apply_rotary", "nan")
def normalized_carelessly(x, positions):
    return given(x / x.norm(dim=-1, keepdim=True), positions, each, each, neighbour)


@wrong("apply_rotary", "negative")
def distance_from_the_start(x, positions):
    return given(x, positions.abs(), each, each, neighbour)


@wrong("apply_rotary", "differs")
def no_turn_for_a_single_pair(x, positions):
    return x if x.shape[-1] == 2 else given(x, positions, each, each, neighbour)


@wrong("apply_rotary", "shape")
def axes_of_one_dropped(x, positions):
    return given(x, positions, each, each, neighbour).squeeze()


@wrong("apply_rotary", "differs")
def one_position_late(x, positions):
    return given(x, positions + 1, each, each, neighbour)


@right("apply_rotary")
def fixed(x, positions):
    return given(x, positions, each, each, neighbour)


@right("apply_rotary")
def stacked_tables(x, positions):
    def pairs(t):
        return torch.stack([t, t], -1).flatten(-2)

    return given(x, positions, pairs, pairs, neighbour)


@right("apply_rotary")
def rewritten(x, positions):
    d = x.shape[-1]
    angles = positions[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    a, b = x[..., ::2], x[..., 1::2]
    out = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(out, -1).flatten(-2)


# --- more of what learners write, exercise by exercise ---------------------------------------


@wrong("sinusoidal_encoding", "differs")
def base_as_a_whole_number(tokens, d_model, base=10000.0):
    angles = table(tokens, d_model, int(base))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@wrong("sinusoidal_encoding", "one-angle")
def whole_division_in_the_exponent(tokens, d_model, base=10000.0):
    i = torch.arange(d_model // 2)
    angles = torch.arange(tokens)[:, None] / base ** (2 * i // d_model)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@right("sinusoidal_encoding")
def cosine_as_a_shifted_sine(tokens, d_model, base=10000.0):
    j = torch.arange(d_model, dtype=torch.float64)
    rate = torch.tensor(base, dtype=torch.float64) ** (-(j - j % 2) / d_model)
    return torch.sin(torch.arange(tokens)[:, None] * rate + j % 2 * math.pi / 2).float()


@wrong("rotate_pairs", "to-the-base")
def even_steps_with_both_ends(x, positions, base=10000.0):
    angles = positions[:, None] * base ** -torch.linspace(0, 1, x.shape[-1] // 2)
    a, b = x[..., ::2], x[..., 1::2]
    turned = [
        a * angles.cos() - b * angles.sin(),
        a * angles.sin() + b * angles.cos(),
    ]
    return torch.stack(turned, -1).flatten(-2)


@wrong("rotate_pairs", "from-the-first")
def the_first_token_never_turns(x, positions, base=10000.0):
    return even_and_odd(x, positions - positions[0], base)


@wrong("rotate_pairs", "differs")
def counted_from_the_smallest(x, positions, base=10000.0):
    return even_and_odd(x, positions.min() + torch.arange(len(positions)), base)


@wrong("alibi_bias", "starts-at-a-half")
def between_a_half_and_the_last(n_heads, tokens):
    slopes = torch.logspace(-1, -8, n_heads, base=2)
    return -slopes.view(-1, 1, 1) * away(tokens)


@wrong("alibi_bias", "even-steps")
def slopes_on_a_line(n_heads, tokens):
    return -torch.linspace(0.5, 2**-8, n_heads).view(-1, 1, 1) * away(tokens)


@wrong("alibi_bias", "one-too-far")
def the_own_place_counts(n_heads, tokens):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return -slopes.view(-1, 1, 1) * (away(tokens) + 1)


@wrong("alibi_bias", "differs")
def whole_steps_between_the_heads(n_heads, tokens):
    slopes = torch.tensor([2.0 ** -(8 // n_heads * h) for h in range(1, n_heads + 1)])
    return -slopes.view(-1, 1, 1) * away(tokens)


@wrong("score_at_distances", "cosine")
def divided_by_both_lengths(q, k, distances, base=10000.0):
    return turned(q, distances, base) @ k / (q.norm() * k.norm()).clamp(min=1e-12)


@wrong("score_at_distances", "no-cross")
def each_product_times_its_cosine(q, k, distances, base=10000.0):
    d = len(q)
    angles = distances[:, None] * base ** (-2 * torch.arange(d // 2) / d)
    return angles.cos().to(q) @ (q * k).view(-1, 2).sum(-1)


@wrong("score_at_distances", "sorted")
def sorted_first(q, k, distances, base=10000.0):
    return turned(q, distances.sort().values, base) @ k


@right("score_at_distances")
def cosine_part_and_sine_part(q, k, distances, base=10000.0):
    d = len(q)
    angles = distances[:, None] * base ** (-2 * torch.arange(d // 2) / d)
    dots = q[0::2] * k[0::2] + q[1::2] * k[1::2]
    crosses = q[0::2] * k[1::2] - q[1::2] * k[0::2]
    return angles.cos().to(q) @ dots + angles.sin().to(q) @ crosses


@wrong("apply_rotary", "each-its-own")
def an_angle_for_every_number(x, positions):
    d = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(d) / d)
    return x * angles.cos() + neighbour(x) * angles.sin()


@wrong("apply_rotary", "not-put-back")
def reordered_and_left_so(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x[..., 0::2], x[..., 1::2]
    y = torch.cat([a, b], -1)
    cos, sin = (torch.cat([t, t], -1) for t in (angles.cos(), angles.sin()))
    return y * cos + torch.cat([-b, a], -1) * sin


# --- stretched_angles -----------------------------------------------------------------------


def hands(where, d_head, base):
    """The angles of these positions."""
    return where[:, None] * base ** (-torch.arange(0, d_head, 2) / d_head)


@wrong("stretched_angles", "always")
def short_texts_too(tokens, d_head, trained, base=10000.0, by="positions"):
    s = tokens / trained
    if by == "positions":
        return hands(torch.arange(tokens) / s, d_head, base)
    return hands(torch.arange(tokens), d_head, base * s ** (d_head / (d_head - 2)))


@wrong("stretched_angles", "never")
def as_in_training(tokens, d_head, trained, base=10000.0, by="positions"):
    return hands(torch.arange(tokens), d_head, base)


@wrong("stretched_angles", "never")
def compared_the_wrong_way(tokens, d_head, trained, base=10000.0, by="positions"):
    s = min(tokens / trained, 1) if tokens > trained else 1
    return hands(torch.arange(tokens) / s, d_head, base)


@wrong("stretched_angles", "faster")
def s_upside_down(tokens, d_head, trained, base=10000.0, by="positions"):
    where, s = torch.arange(tokens), trained / tokens
    if tokens > trained and by == "positions":
        where = where / s
    elif tokens > trained:
        base *= s ** (d_head / (d_head - 2))
    return hands(where, d_head, base)


def with_ways(where_of=None, base_of=None, times=None):
    """A right answer but for what is handed in."""

    def answer(tokens, d_head, trained, base=10000.0, by="positions"):
        where = torch.arange(tokens)
        if tokens <= trained:
            return hands(where, d_head, base)
        s = times(tokens, trained) if times else tokens / trained
        if by == "base":
            new = base_of(base, s, d_head) if base_of else base * s ** (d_head / (d_head - 2))
            return hands(where, d_head, new)
        where = where_of(where, s, trained) if where_of else where / s
        return hands(where, d_head, base)

    return answer


def stretched(diagnosis, name, **parts):
    answer = with_ways(**parts)
    answer.__name__ = name
    wrong("stretched_angles", diagnosis)(answer)


stretched("positions-multiplied", "farther_apart", where_of=lambda where, s, trained: where * s)
stretched("cut-off", "all_at_the_end", where_of=lambda where, s, t: where.clamp(0, t - 1))
stretched("wrapped", "from_the_start_again", where_of=lambda where, s, t: where.remainder(t))
stretched(
    "last-on-last",
    "a_ruler_of_the_trained_length",
    where_of=lambda where, s, t: torch.linspace(0, t - 1, len(where)),
)
stretched(
    "only-the-rest",
    "those_beyond_divided",
    where_of=lambda where, s, t: torch.cat([where[:t].float(), where[t:] / s]),
)
stretched("floored", "rounded_down", where_of=lambda where, s, t: where * t // len(where))
stretched("base-times-s", "no_exponent", base_of=lambda base, s, d: base * s)
stretched(
    "exponent-inverted", "d_minus_two_over_d", base_of=lambda base, s, d: base * s ** ((d - 2) / d)
)
stretched(
    "base-powered", "all_of_it_raised", base_of=lambda base, s, d: (base * s) ** (d / (d - 2))
)
stretched("whole-times", "how_many_times_it_fits", times=lambda tokens, trained: tokens // trained)
stretched("rounded-up", "rounded_up", times=lambda tokens, trained: math.ceil(tokens / trained))
stretched("one-token-less", "one_token_less", times=lambda tokens, trained: (tokens - 1) / trained)
stretched("differs", "one_exponent_off", base_of=lambda base, s, d: base * s ** (d / (d - 1)))
stretched("brackets-lost", "d_over_d_less_two", base_of=lambda base, s, d: base * s ** (d / d - 2))
stretched(
    "whole-exponent", "divided_to_a_whole", base_of=lambda base, s, d: base * s ** (d // (d - 2))
)


@wrong("stretched_angles", "pairs-in-the-exponent")
def pairs_for_numbers(tokens, d_head, trained, base=10000.0, by="positions"):
    pairs = d_head // 2
    where, i = torch.arange(tokens), torch.arange(pairs)
    if tokens > trained and by == "base":
        base = base * (tokens / trained) ** (pairs / (pairs - 2))
    elif tokens > trained:
        where = where * trained / tokens
    return where[:, None] * base ** (-i / pairs)


@wrong("stretched_angles", "positions-only")
def one_way_for_both(tokens, d_head, trained, base=10000.0, by="positions"):
    return hands(torch.arange(tokens) / max(1, tokens / trained), d_head, base)


@wrong("stretched_angles", "positions-only")
def speeds_of_all_pairs_divided(tokens, d_head, trained, base=10000.0, by="positions"):
    s = max(tokens / trained, 1)
    if by == "base":
        return hands(torch.arange(tokens), d_head, base) / s
    return hands(torch.arange(tokens) / s, d_head, base)


@wrong("stretched_angles", "base-only")
def only_the_base(tokens, d_head, trained, base=10000.0, by="positions"):
    s = max(tokens / trained, 1)
    return hands(torch.arange(tokens), d_head, base * s ** (d_head / (d_head - 2)))


@wrong("stretched_angles", "both-at-once")
def better_do_both(tokens, d_head, trained, base=10000.0, by="positions"):
    s = max(tokens / trained, 1)
    return hands(torch.arange(tokens) / s, d_head, base * s ** (d_head / (d_head - 2)))


@wrong("stretched_angles", "base-on-top")
def base_and_more(tokens, d_head, trained, base=10000.0, by="positions"):
    s = max(tokens / trained, 1)
    if by == "base":
        base = base * s ** (d_head / (d_head - 2))
    return hands(torch.arange(tokens) / s, d_head, base)


@wrong("stretched_angles", "positions-on-top")
def positions_and_more(tokens, d_head, trained, base=10000.0, by="positions"):
    s, where = max(tokens / trained, 1), torch.arange(tokens)
    if by == "positions":
        where = where / s
    return hands(where, d_head, base * s ** (d_head / (d_head - 2)))


@wrong("stretched_angles", "base-fixed")
def ten_thousand(tokens, d_head, trained, base=10000.0, by="positions"):
    return with_ways()(tokens, d_head, trained, 10000.0, by)


@wrong("stretched_angles", "exponent-i")
def i_over_d(tokens, d_head, trained, base=10000.0, by="positions"):
    s, where = max(tokens / trained, 1), torch.arange(tokens)
    where, new = (where / s, base) if by == "positions" else (where, None)
    new = new or base * s ** (d_head / (d_head - 2))
    return where[:, None] * new ** (-torch.arange(d_head // 2) / d_head)


@wrong("stretched_angles", "from-one")
def counted_from_one(tokens, d_head, trained, base=10000.0, by="positions"):
    s, where = max(tokens / trained, 1), torch.arange(tokens)
    if by == "positions":
        return hands(where / s + 1, d_head, base)
    return hands(where + 1, d_head, base * s ** (d_head / (d_head - 2)))


@wrong("stretched_angles", "transposed")
def a_row_for_each_pair(tokens, d_head, trained, base=10000.0, by="positions"):
    return with_ways()(tokens, d_head, trained, base, by).T


@wrong("stretched_angles", "shape")
def each_angle_twice(tokens, d_head, trained, base=10000.0, by="positions"):
    return with_ways()(tokens, d_head, trained, base, by).repeat_interleave(2, dim=1)


@wrong("stretched_angles", "differs")
def turned_already(tokens, d_head, trained, base=10000.0, by="positions"):
    return with_ways()(tokens, d_head, trained, base, by).cos()


@wrong("stretched_angles", "full-turns-left-out")
def modulo_a_turn(tokens, d_head, trained, base=10000.0, by="positions"):
    return with_ways()(tokens, d_head, trained, base, by) % (2 * math.pi)


@wrong("stretched_angles", "ways-swapped")
def the_other_way(tokens, d_head, trained, base=10000.0, by="positions"):
    by = "base" if by == "positions" else "positions"
    return with_ways()(tokens, d_head, trained, base, by)


@wrong("stretched_angles", "from-one-stretched")
def one_to_n(tokens, d_head, trained, base=10000.0, by="positions"):
    s, where = max(tokens / trained, 1), torch.arange(1, tokens + 1)
    if by == "positions":
        return hands(where / s, d_head, base)
    return hands(where, d_head, base * s ** (d_head / (d_head - 2)))


@wrong("stretched_angles", "pairs-from-one")
def first_pair_slow(tokens, d_head, trained, base=10000.0, by="positions"):
    s, where = max(tokens / trained, 1), torch.arange(tokens)
    if by == "positions":
        where = where / s
    else:
        base *= s ** (d_head / (d_head - 2))
    return where[:, None] / base ** (torch.arange(2, d_head + 1, 2) / d_head)


@wrong("stretched_angles", "base-powered-always")
def a_short_text_raised_too(tokens, d_head, trained, base=10000.0, by="positions"):
    s, where = max(tokens / trained, 1), torch.arange(tokens)
    if by == "positions":
        return hands(where / s, d_head, base)
    return hands(where, d_head, (base * s) ** (d_head / (d_head - 2)))


@wrong("stretched_angles", "late-tokens-alone")
def early_rows_as_ever(tokens, d_head, trained, base=10000.0, by="positions"):
    short = hands(torch.arange(min(tokens, trained)), d_head, base)
    return torch.cat([short, with_ways()(tokens, d_head, trained, base, by)[trained:]])


@wrong("stretched_angles", "ever-faster")
def minus_lost_in_the_exponent(tokens, d_head, trained, base=10000.0, by="positions"):
    s, where = max(tokens / trained, 1), torch.arange(tokens)
    if by == "positions":
        where = where / s
    else:
        base *= s ** (d_head / (d_head - 2))
    return where[:, None] * base ** (torch.arange(0, d_head, 2) / d_head)


@wrong("stretched_angles", "default")
def base_first(tokens, d_head, trained, base=10000.0, by="base"):
    return with_ways()(tokens, d_head, trained, base, by)


@wrong("stretched_angles", "default")
def another_base(tokens, d_head, trained, base=500000.0, by="positions"):
    return with_ways()(tokens, d_head, trained, base, by)


def kept_under(diagnosis, name, *key):
    """Right, but kept from call to call under these arguments alone."""
    kept = {}

    def answer(tokens, d_head, trained, base=10000.0, by="positions"):
        asked = {"tokens": tokens, "d_head": d_head, "trained": trained, "base": base, "by": by}
        under = tuple(asked[part] for part in key)
        if under not in kept:
            kept[under] = with_ways()(**asked)
        return kept[under]

    answer.__name__ = name
    wrong("stretched_angles", diagnosis)(answer)


kept_under("keeps-state", "kept_for_any_way", "tokens", "d_head", "trained", "base")
kept_under("keeps-state", "kept_for_any_base", "tokens", "d_head", "trained", "by")
kept_under("keeps-state", "kept_for_any_training", "tokens", "d_head", "base", "by")
kept_under("keeps-state", "kept_for_a_shape", "tokens", "d_head")
kept_under("kept-without-d_head", "kept_for_any_width", "tokens", "trained", "base", "by")


@wrong("stretched_angles", "returned-none")
def nothing_for_short_texts(tokens, d_head, trained, base=10000.0, by="positions"):
    if tokens > trained:
        return with_ways()(tokens, d_head, trained, base, by)


@right("stretched_angles")
def speeds_first(tokens, d_head, trained, base=10000.0, by="positions"):
    s = max(tokens / trained, 1.0)
    if by == "base":
        base, s = base * s ** (d_head / (d_head - 2)), 1.0
    speeds = torch.tensor([base ** (-2 * i / d_head) for i in range(d_head // 2)])
    return torch.outer(torch.arange(tokens) / s, speeds)


@right("stretched_angles")
def one_by_one(tokens, d_head, trained, base=10000.0, by="positions"):
    longer = tokens > trained
    rows = []
    for m in range(tokens):
        if longer and by == "positions":
            m = m * trained / tokens
        b = base
        if longer and by == "base":
            b = base * (tokens / trained) ** (d_head / (d_head - 2))
        rows.append([m / b ** (2 * i / d_head) for i in range(d_head // 2)])
    return torch.tensor(rows, dtype=torch.float64)


@right("stretched_angles")
def in_the_logarithm(tokens, d_head, trained, base=10000.0, by="positions"):
    i = torch.arange(0, d_head, 2, dtype=torch.float64)
    speeds = torch.exp(-i / d_head * math.log(base))
    where = torch.arange(tokens, dtype=torch.float64)
    if tokens > trained and by == "base":  # each pair's own share of s
        speeds = speeds * (tokens / trained) ** (-i / (d_head - 2))
    elif tokens > trained:
        where = where * (trained / tokens)
    return torch.einsum("m,i->mi", where, speeds).float()


@right("stretched_angles")
def all_the_same_way(tokens, d_head, trained, base=10000.0, by="positions"):
    s = 1 if tokens <= trained else tokens / trained
    if by != "positions":
        base *= s ** (d_head / (d_head - 2))
        s = 1
    slowed = torch.linspace(0, tokens - 1, tokens) / s
    return slowed.unsqueeze(-1) / base ** (torch.arange(0, d_head, 2) / d_head)


@wrong("stretched_angles", "shape")
def a_step_that_does_not_come_out_even(tokens, d_head, trained, base=10000.0, by="positions"):
    where = torch.arange(tokens)
    if tokens > trained:
        if by == "positions":
            where = torch.arange(0, trained, trained / tokens)
        else:
            base = base * (tokens / trained) ** (d_head / (d_head - 2))
    return where[:, None] * base ** (-torch.arange(0, d_head, 2) / d_head)
