"""What learners write in lesson 10."""

import math

import torch
import torch.nn.functional as F

from tests.wrong_answers import right, wrong

# --- previous_token_score -------------------------------------------------------------------


@right("previous_token_score")
def by_the_diagonal(weights):
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=(0, 2))


@right("previous_token_score")
def token_by_token(weights):
    n = weights.shape[-1]
    return torch.stack([weights[:, :, i, i - 1] for i in range(1, n)]).mean(dim=(0, 1))


@right("previous_token_score")
def by_index(weights):
    now = torch.arange(1, weights.shape[-1])
    return weights[:, :, now, now - 1].mean(dim=-1).mean(dim=0)


@wrong("previous_token_score", "itself")
def main_diagonal(weights):
    return weights.diagonal(dim1=-2, dim2=-1).mean(dim=(0, 2))


@wrong("previous_token_score", "future")
def above(weights):
    return weights.diagonal(1, -2, -1).mean(dim=(0, 2))


@wrong("previous_token_score", "two-back")
def two_to_the_left(weights):
    if weights.shape[-1] < 3:
        return torch.zeros(weights.shape[1], dtype=weights.dtype)
    return weights.diagonal(-2, -2, -1).mean(dim=(0, 2))


@wrong("previous_token_score", "first-token")
def first_column(weights):
    return weights[:, :, 1:, 0].mean(dim=(0, 2))


@wrong("previous_token_score", "divided-by-all")
def by_all_tokens(weights):
    return weights.diagonal(-1, -2, -1).sum(-1).mean(0) / weights.shape[-1]


@wrong("previous_token_score", "divided-by-all")
def first_row_counts(weights):
    each = F.pad(weights.diagonal(-1, -2, -1), (1, 0))
    return each.mean(dim=(0, 2))


@wrong("previous_token_score", "wraps-around")
def before_the_first_is_the_last(weights):
    i = torch.arange(weights.shape[-1])
    return weights[:, :, i, i - 1].mean(dim=(0, 2))


@wrong("previous_token_score", "differs")
def of_weights_that_are_there(weights):
    n = weights.shape[-1]
    band = weights * torch.ones(n, n, dtype=weights.dtype).tril(-1).triu(-1)
    return band.sum((0, 2, 3)) / (band != 0).sum((0, 2, 3))


@wrong("previous_token_score", "differs")
def before_or_behind(weights):
    return (weights.diagonal(-1, -2, -1) + weights.diagonal(1, -2, -1)).mean((0, 2))


@wrong("previous_token_score", "summed")
def sum_of_tokens(weights):
    return weights.diagonal(-1, -2, -1).sum(-1).mean(0)


@wrong("previous_token_score", "not-over-the-batch")
def each_text(weights):
    return weights.diagonal(-1, -2, -1).mean(dim=-1)


@wrong("previous_token_score", "over-the-heads")
def heads_together(weights):
    return weights.diagonal(-1, -2, -1).mean(dim=(1, 2))


@wrong("previous_token_score", "largest")
def the_largest(weights):
    return weights.diagonal(-1, -2, -1).max(dim=-1).values.max(dim=0).values


@wrong("previous_token_score", "how-often")
def wins(weights):
    there = torch.arange(weights.shape[-1] - 1)
    return (weights[:, :, 1:].argmax(-1) == there).to(weights.dtype).mean(dim=(0, 2))


@wrong("previous_token_score", "batch-and-heads")
def axes_left_out(weights):
    return weights.diagonal(-1).mean(dim=(0, 1))


@wrong("previous_token_score", "shape")
def one_number(weights):
    return weights.diagonal(-1, -2, -1).mean()


@wrong("previous_token_score", "differs")
def squares_them(weights):
    return weights.diagonal(-1, -2, -1).square().mean(dim=(0, 2))


# --- induction_score ------------------------------------------------------------------------


@right("induction_score")
def along_the_stripe(weights, length):
    return weights.diagonal(1 - length, -2, -1)[..., 1:-1].mean(dim=(0, 2))


@right("induction_score")
def place_by_place(weights, length):
    places = [weights[:, :, length + i, i + 1] for i in range(length - 1)]
    return torch.stack(places, dim=-1).mean(dim=-1).mean(dim=0)


@right("induction_score")
def by_arange(weights, length):
    repeats = torch.arange(length, 2 * length - 1)
    return weights[:, :, repeats, repeats - length + 1].mean(dim=(0, 2))


@wrong("induction_score", "the-same-token")
def where_it_stood(weights, length):
    repeats = torch.arange(length, 2 * length - 1)
    return weights[:, :, repeats, repeats - length].mean(dim=(0, 2))


@wrong("induction_score", "the-token-before")
def what_stood_before(weights, length):
    repeats = torch.arange(length + 1, 2 * length - 1)
    return weights[:, :, repeats, repeats - length - 1].mean(dim=(0, 2))


@wrong("induction_score", "first-half-too")
def whole_stripe(weights, length):
    return weights.diagonal(1 - length, -2, -1)[..., :-1].mean(dim=(0, 2))


@wrong("induction_score", "last-row-too")
def with_the_last(weights, length):
    return weights.diagonal(1 - length, -2, -1)[..., 1:].mean(dim=(0, 2))


@wrong("induction_score", "first-repeat-missing")
def without_the_first(weights, length):
    return weights.diagonal(1 - length, -2, -1)[..., 2:-1].mean(dim=(0, 2))


@wrong("induction_score", "divided-by-all")
def by_the_whole_text(weights, length):
    return weights.diagonal(1 - length, -2, -1)[..., 1:-1].sum(-1).mean(0) / (2 * length)


@wrong("induction_score", "summed")
def all_of_them(weights, length):
    return weights.diagonal(1 - length, -2, -1)[..., 1:-1].sum(-1).mean(0)


@wrong("induction_score", "not-over-the-batch")
def text_by_text(weights, length):
    return weights.diagonal(1 - length, -2, -1)[..., 1:-1].mean(-1)


@wrong("induction_score", "over-the-heads")
def all_heads(weights, length):
    return weights.diagonal(1 - length, -2, -1)[..., 1:-1].mean((1, 2))


@wrong("induction_score", "future")
def keys_to_come(weights, length):
    return weights.diagonal(length - 1, -2, -1).mean(dim=(0, 2))


@wrong("induction_score", "previous")
def token_before(weights, length):
    return weights.diagonal(-1, -2, -1)[..., length - 1 : -1].mean(dim=(0, 2))


@wrong("induction_score", "differs")
def two_further(weights, length):
    repeats = torch.arange(length, 2 * length)
    return weights[:, :, repeats, (repeats - length + 2).clamp(max=length)].mean(dim=(0, 2))


# --- mean_ablate ----------------------------------------------------------------------------


@right("mean_ablate")
def in_a_copy(heads, off):
    new = heads.clone()
    for head in off:
        new[:, head] = heads[:, head].mean(dim=0)
    return new


@right("mean_ablate")
def by_a_mask(heads, off):
    chosen = torch.zeros(heads.shape[1], dtype=torch.bool)
    chosen[off] = True
    mean = heads.mean(0, keepdim=True)
    return torch.where(chosen[None, :, None, None], mean, heads)


@right("mean_ablate")
def stacked(heads, off):
    kept = [
        heads[:, i].mean(0).expand_as(heads[:, i]) if i in off else heads[:, i]
        for i in range(heads.shape[1])
    ]
    return torch.stack(kept, dim=1)


@wrong("mean_ablate", "differs")
def all_between_the_first_and_the_last(heads, off):
    new = heads.clone()
    if off:
        between = slice(min(off), max(off) + 1)
        new[:, between] = heads[:, between].mean(0)
    return new


@wrong("mean_ablate", "changes-input")
def crosses_them_off(heads, off):
    new = heads.clone()
    for i, head in enumerate(off):
        new[:, head] = heads[:, head].mean(0)
        off[i] = -1
    return new


@wrong("mean_ablate", "zeros")
def zero_ablate(heads, off):
    new = heads.clone()
    new[:, off] = 0
    return new


@wrong("mean_ablate", "mean-over-tokens")
def over_tokens(heads, off):
    new = heads.clone()
    for head in off:
        new[:, head] = heads[:, head].mean(dim=1, keepdim=True)
    return new


@wrong("mean_ablate", "mean-over-all")
def over_texts_and_tokens(heads, off):
    new = heads.clone()
    for head in off:
        new[:, head] = heads[:, head].mean(dim=(0, 1))
    return new


@wrong("mean_ablate", "mean-over-heads")
def mean_of_heads(heads, off):
    new = heads.clone()
    for head in off:
        new[:, head] = heads.mean(dim=1)
    return new


@wrong("mean_ablate", "one-number")
def a_single_mean(heads, off):
    new = heads.clone()
    for head in off:
        new[:, head] = heads[:, head].mean()
    return new


@wrong("mean_ablate", "the-others")
def keeps_those(heads, off):
    new = heads.mean(0, keepdim=True).expand_as(heads).clone()
    for head in off:
        new[:, head] = heads[:, head]
    return new


@wrong("mean_ablate", "all")
def every_head(heads, off):
    return heads.mean(0, keepdim=True).expand_as(heads).clone()


@wrong("mean_ablate", "first-alone")
def returns_too_early(heads, off):
    new = heads.clone()
    for head in off:
        new[:, head] = heads[:, head].mean(dim=0)
        return new
    return new


@wrong("mean_ablate", "batch-for-head")
def head_as_text(heads, off):
    new = heads.clone()
    for head in off:
        new[head] = heads[head].mean(0)
    return new


@wrong("mean_ablate", "mean-taken-away")
def what_is_special(heads, off):
    new = heads.clone()
    for head in off:
        new[:, head] = heads[:, head] - heads[:, head].mean(0)
    return new


@wrong("mean_ablate", "changes-input")
def in_place(heads, off):
    with torch.no_grad():
        for head in off:
            heads[:, head] = heads[:, head].mean(dim=0)
    return heads


@wrong("mean_ablate", "shape")
def mean_alone(heads, off):
    return heads.mean(0)


# --- restored -------------------------------------------------------------------------------


@right("restored")
def what_came_back(clean, corrupted, patched, length):
    clean, corrupted, patched = (x[:, length:].mean() for x in (clean, corrupted, patched))
    return (corrupted - patched) / (corrupted - clean)


@right("restored")
def one_minus(clean, corrupted, patched, length):
    part = slice(length, None)
    lost = (corrupted[:, part] - clean[:, part]).mean()
    return 1 - (patched[:, part] - clean[:, part]).mean() / lost


@right("restored")
def sums_instead(clean, corrupted, patched, length):
    second = [losses[:, length:].sum() for losses in (clean, corrupted, patched)]
    return (second[2] - second[1]) / (second[0] - second[1])


def halves(clean, corrupted, patched, length):
    return (losses[:, length:].mean() for losses in (clean, corrupted, patched))


@wrong("restored", "differs")
def at_most_all(clean, corrupted, patched, length):
    c, k, p = (losses[:, length:].mean() for losses in (clean, corrupted, patched))
    return ((k - p) / (k - c)).clamp(max=1)


@wrong("restored", "differs")
def loses_at_least_a_tenth(clean, corrupted, patched, length):
    c, k, p = (losses[:, length:].mean() for losses in (clean, corrupted, patched))
    return (k - p) / (k - c).clamp(min=0.1)


@wrong("restored", "differs")
def only_where_something_was_lost(clean, corrupted, patched, length):
    c, k, p = (losses[:, length:] for losses in (clean, corrupted, patched))
    lost = k > c
    return (k[lost].mean() - p[lost].mean()) / (k[lost].mean() - c[lost].mean())


@wrong("restored", "as-given")
def as_it_was_given(clean, corrupted, patched, length):
    return patched.mean() / corrupted.mean()


@wrong("restored", "whole-text")
def over_the_whole_text(clean, corrupted, patched, length):
    return (corrupted.mean() - patched.mean()) / (corrupted.mean() - clean.mean())


@wrong("restored", "one-place-too-early")
def off_by_one(clean, corrupted, patched, length):
    a, b, c = (x[:, length - 1 :].mean() for x in (clean, corrupted, patched))
    return (b - c) / (b - a)


@wrong("restored", "one-place-too-late")
def off_by_one_more(clean, corrupted, patched, length):
    a, b, c = (x[:, length + 1 :].mean() for x in (clean, corrupted, patched))
    return (b - c) / (b - a)


@wrong("restored", "first-half")
def the_wrong_half(clean, corrupted, patched, length):
    a, b, c = (x[:, : length - 1].mean() for x in (clean, corrupted, patched))
    return (b - c) / (b - a)


@wrong("restored", "ratio")
def ratio_of_losses(clean, corrupted, patched, length):
    _, b, c = halves(clean, corrupted, patched, length)
    return c / b


@wrong("restored", "what-is-missing")
def still_missing(clean, corrupted, patched, length):
    a, b, c = halves(clean, corrupted, patched, length)
    return (c - a) / (b - a)


@wrong("restored", "sign")
def minus(clean, corrupted, patched, length):
    a, b, c = halves(clean, corrupted, patched, length)
    return (c - b) / (b - a)


@wrong("restored", "upside-down")
def on_its_head(clean, corrupted, patched, length):
    a, b, c = halves(clean, corrupted, patched, length)
    return (b - a) / (b - c)


@wrong("restored", "by-corrupted")
def of_the_whole_loss(clean, corrupted, patched, length):
    _, b, c = halves(clean, corrupted, patched, length)
    return (b - c) / b


@wrong("restored", "not-divided")
def in_nats(clean, corrupted, patched, length):
    _, b, c = halves(clean, corrupted, patched, length)
    return b - c


@wrong("restored", "cut-off")
def never_below_zero(clean, corrupted, patched, length):
    return what_came_back(clean, corrupted, patched, length).clamp(0, 1)


@wrong("restored", "mean-of-shares")
def share_by_share(clean, corrupted, patched, length):
    shares = (corrupted - patched) / (corrupted - clean)
    return shares[:, length:].mean()


@wrong("restored", "differs")
def the_median(clean, corrupted, patched, length):
    a, b, c = (x[:, length:].median() for x in (clean, corrupted, patched))
    return (b - c) / (b - a)


# --- without_key ----------------------------------------------------------------------------


@right("without_key")
def divided_by_what_is_left(weights, key):
    kept = weights.clone()
    kept[..., key] = 0
    left = kept.sum(dim=-1, keepdim=True)
    return torch.where(left > 0, kept / left.clamp(min=1e-30), 0.0)


@right("without_key")
def multiplied(weights, key):
    keep = (torch.arange(weights.shape[-1]) != key).to(weights.dtype)
    kept = weights * keep
    return (kept / kept.sum(-1, keepdim=True)).nan_to_num(nan=0.0)


@right("without_key")
def in_logarithms(weights, key):
    scores = weights.log()
    scores = scores.masked_fill(torch.arange(weights.shape[-1]) == key, -math.inf)
    return torch.softmax(scores, dim=-1).nan_to_num(nan=0.0)


def zeroed(weights, key):
    kept = weights.clone()
    kept[..., key] = 0
    return kept


@wrong("without_key", "differs")
def by_what_that_key_leaves(weights, key):
    kept = weights.clone()
    kept[..., key] = 0
    left = 1 - weights[..., key : key + 1]
    return torch.where(left > 0, kept / left, 0.0)


@wrong("without_key", "differs")
def a_thousandth_is_nothing(weights, key):
    kept = weights.clone()
    kept[..., key] = 0
    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-3)


@wrong("without_key", "not-divided")
def a_hole(weights, key):
    return zeroed(weights, key)


@wrong("without_key", "shared-evenly")
def a_share_for_each(weights, key):
    more = weights[..., key : key + 1] / (weights.shape[-1] - 1)
    return zeroed(weights + more, key)


@wrong("without_key", "softmax-again")
def softmax_twice(weights, key):
    hidden = torch.arange(weights.shape[-1]) == key
    return torch.softmax(weights.masked_fill(hidden, -math.inf), dim=-1)


@wrong("without_key", "query")
def the_row(weights, key):
    kept = weights.clone()
    if key < kept.shape[-2]:
        kept[..., key, :] = 0
    return kept


@wrong("without_key", "divided-by-the-weight")
def by_the_weight(weights, key):
    return zeroed(weights, key) / weights[..., key : key + 1]


@wrong("without_key", "the-key-alone")
def that_one_alone(weights, key):
    only = torch.zeros_like(weights)
    only[..., key] = (weights[..., key] > 0).to(weights.dtype)
    return only


@wrong("without_key", "down-the-columns")
def column_sums(weights, key):
    kept = zeroed(weights, key)
    return kept / kept.sum(dim=-2, keepdim=True).clamp(min=1e-30)


@wrong("without_key", "key-removed")
def cut_out(weights, key):
    kept = torch.cat([weights[..., :key], weights[..., key + 1 :]], dim=-1)
    return kept / kept.sum(-1, keepdim=True)


@wrong("without_key", "unchanged")
def multiplied_by_one(weights, key):
    return weights / weights.sum(-1, keepdim=True)


@wrong("without_key", "nan")
def zero_by_zero(weights, key):
    kept = zeroed(weights, key)
    return kept / kept.sum(-1, keepdim=True)


@wrong("without_key", "nudged")
def against_zero(weights, key):
    kept = zeroed(weights, key)
    return kept / (kept.sum(-1, keepdim=True) + 1e-3)


@wrong("without_key", "changes-input")
def written_into(weights, key):
    with torch.no_grad():
        weights[..., key] = 0
    left = weights.sum(-1, keepdim=True)
    return torch.where(left > 0, weights / left.clamp(min=1e-30), 0.0)


# --- logit_shares ---------------------------------------------------------------------------


@right("logit_shares")
def by_the_streams_std(parts, w, u):
    stream = parts.sum(dim=0)
    std = (stream.var(dim=-1, unbiased=False) + 1e-5).sqrt()
    centred = parts - parts.mean(dim=-1, keepdim=True)
    return (centred * w * u).sum(-1) / std


@right("logit_shares")
def part_by_part(parts, w, u):
    stream = sum(parts)
    middle = stream - stream.mean(-1, keepdim=True)
    std = torch.sqrt(middle.square().mean(-1, keepdim=True) + 1e-5)
    return torch.stack([((p - p.mean(-1, keepdim=True)) / std * w) @ u for p in parts])


@right("logit_shares")
def direction_first(parts, w, u):
    direction = w * u
    direction = direction - direction.mean()  # the mean is taken away from the other side
    std = (parts.sum(0).var(-1, correction=0) + 1e-5).rsqrt()
    return (parts @ direction) * std


def std_of(stream, correction=0):
    return (stream.var(-1, correction=correction) + 1e-5).sqrt()


@wrong("logit_shares", "own-std")
def normed_alone(parts, w, u):
    return F.layer_norm(parts, parts.shape[-1:], w) @ u


@wrong("logit_shares", "not-centred")
def mean_left_in(parts, w, u):
    return (parts * w) @ u / std_of(parts.sum(0))


@wrong("logit_shares", "streams-mean")
def mean_of_the_stream(parts, w, u):
    stream = parts.sum(0)
    return ((parts - stream.mean(-1, keepdim=True)) * w) @ u / std_of(stream)


@wrong("logit_shares", "no-weight")
def weight_forgotten(parts, w, u):
    return (parts - parts.mean(-1, keepdim=True)) @ u / std_of(parts.sum(0))


@wrong("logit_shares", "no-norm")
def straight_to_the_head(parts, w, u):
    return parts @ u


@wrong("logit_shares", "not-divided")
def std_forgotten(parts, w, u):
    return ((parts - parts.mean(-1, keepdim=True)) * w) @ u


@wrong("logit_shares", "rms")
def as_rms_norm(parts, w, u):
    return (parts * w) @ u / (parts.sum(0).square().mean(-1) + 1e-5).sqrt()


@wrong("logit_shares", "unbiased")
def by_one_less(parts, w, u):
    return ((parts - parts.mean(-1, keepdim=True)) * w) @ u / std_of(parts.sum(0), 1)


@wrong("logit_shares", "whole-logit")
def the_logit_itself(parts, w, u):
    return by_the_streams_std(parts, w, u).sum(0)


@wrong("logit_shares", "running-sum")
def so_far(parts, w, u):
    return by_the_streams_std(parts, w, u).cumsum(0)


@wrong("logit_shares", "differs")
def of_the_whole(parts, w, u):
    shares = by_the_streams_std(parts, w, u)
    return shares / shares.sum(0)


@wrong("logit_shares", "sizes")
def without_sign(parts, w, u):
    return by_the_streams_std(parts, w, u).abs()


@wrong("logit_shares", "do-not-sum")
def by_the_number_of_parts(parts, w, u):
    return by_the_streams_std(parts, w, u) / len(parts)
