"""What learners write in lesson 01."""

import math

import torch
import torch.nn.functional as F

from tests.wrong_answers import right, wrong

# --- attention_scores -----------------------------------------------------------------------


@wrong("attention_scores", "no-scale")
def forgot_the_scale(q, k):
    return torch.matmul(q, k.transpose(-2, -1))


@wrong("attention_scores", "scale-by-d")
def forgot_the_root(q, k):
    return q @ k.mT / q.size(-1)


@wrong("attention_scores", "scale-by-d")
def scaled_both_sides(q, k):
    d = q.shape[-1]
    return (q / d**0.5) @ (k / d**0.5).mT


@wrong("attention_scores", "scale-by-tokens")
def root_of_the_keys(q, k):
    return q @ k.mT / math.sqrt(k.size(-2))


@wrong("attention_scores", "scale-by-queries")
def wrong_axis_of_q(q, k):
    batch, heads, d_head, tokens = q.shape
    return q @ k.mT / d_head**0.5


@wrong("attention_scores", "scale-by-d-model")
def whole_width(q, k):
    d_model = q.size(1) * q.size(3)
    return torch.einsum("bhqd,bhkd->bhqk", q, k) / d_model**0.5


@wrong("attention_scores", "multiplied")
def times_the_root(q, k):
    return q @ k.mT * q.shape[-1] ** 0.5


@wrong("attention_scores", "softmaxed")
def already_weights(q, k):
    return F.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)


@wrong("attention_scores", "transposed")
def keys_first(q, k):
    return torch.einsum("bhqd,bhkd->bhkq", q, k) / q.shape[-1] ** 0.5


@wrong("attention_scores", "raised")
def dot_t_turns_every_axis(q, k):
    return q @ k.permute(3, 2, 1, 0) / q.shape[-1] ** 0.5


@wrong("attention_scores", "raised")
def no_transpose(q, k):
    return q @ k / q.shape[-1] ** 0.5


@wrong("attention_scores", "shape")
def squeezed(q, k):
    return (q @ k.mT / q.shape[-1] ** 0.5).squeeze()


@wrong("attention_scores", "raised")
def batch_hard_coded(q, k):
    return q.view(2, 3, 4, 7) @ k.mT / 7**0.5


@wrong("attention_scores", "differs")
def scale_hard_coded(q, k):
    return q @ k.mT / 8


@wrong("attention_scores", "differs")
def scale_of_the_first_case(q, k):
    return q @ k.mT / 7**0.5


@wrong("attention_scores", "no-gradient")
def detached(q, k):
    return (q.detach() @ k.detach().mT) / q.shape[-1] ** 0.5


@wrong("attention_scores", "returned-none")
def assigned_only(q, k):
    scores = q @ k.mT / q.shape[-1] ** 0.5  # noqa: F841


@wrong("attention_scores", "raised")
def viewed_as_three_axes(q, k):
    batch, heads, queries, d = q.shape
    q, k = q.view(-1, queries, d), k.view(batch * heads, -1, d)
    return (q @ k.mT).view(batch, heads, queries, -1) / d**0.5


@wrong("attention_scores", "keys-reshaped")
def viewed_in_the_wrong_order(q, k):
    return q @ k.view(*k.shape[:2], k.shape[3], k.shape[2]) / q.shape[-1] ** 0.5


@wrong("attention_scores", "keys-reshaped")
def reshaped_for_transposed(q, k):
    return q @ k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) / q.shape[-1] ** 0.5


@wrong("attention_scores", "differs")
def cosines_times_root(q, k):
    return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * q.shape[-1] ** 0.5


@right("attention_scores")
def einsum(q, k):
    return torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.size(-1))


@right("attention_scores")
def scaled_before(q, k):
    return (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)


@right("attention_scores")
def loops(q, k):
    rows = [
        torch.stack([(q[:, :, i] * k[:, :, j]).sum(-1) for j in range(k.shape[2])], dim=-1)
        for i in range(q.shape[2])
    ]
    return torch.stack(rows, dim=2) / q.shape[3] ** 0.5


@right("attention_scores")
def quarter_powers(q, k):
    s = q.shape[-1] ** -0.25
    return torch.matmul(q * s, (k * s).mT)


@wrong("attention_scores", "rounded-root")
def root_as_a_whole_number(q, k):
    return q @ k.mT / int(q.shape[-1] ** 0.5)


@wrong("attention_scores", "greatest-taken-off")
def made_safe_too_early(q, k):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores - scores.max(dim=-1, keepdim=True).values


@right("attention_scores")
def for_one_pair_at_a_time(q, k):
    def score(a, b):
        return a.dot(b) / a.numel() ** 0.5

    of_a_query = torch.vmap(score, (None, 0))
    return torch.vmap(torch.vmap(torch.vmap(of_a_query, (0, None))))(q, k)


# --- causal_mask ----------------------------------------------------------------------------


@wrong("causal_mask", "inverted")
def true_is_forbidden(tokens):
    return torch.triu(torch.ones(tokens, tokens), diagonal=1).bool()


@wrong("causal_mask", "without-itself")
def strictly_before(tokens):
    i = torch.arange(tokens)
    return i[None] < i[:, None]


@wrong("causal_mask", "looks-ahead")
def rows_and_columns_mixed_up(tokens):
    i = torch.arange(tokens)
    return i[:, None] <= i[None]


@wrong("causal_mask", "one-ahead")
def off_by_one(tokens):
    return torch.tril(torch.ones(tokens, tokens), diagonal=1) == 1


@wrong("causal_mask", "all-true")
def nothing_forbidden(tokens):
    return torch.full((tokens, tokens), True)


@wrong("causal_mask", "diagonal")
def only_itself(tokens):
    i = torch.arange(tokens)
    return i[None] == i[:, None]


@wrong("causal_mask", "additive")
def minus_infinity_above(tokens):
    return torch.triu(torch.full((tokens, tokens), -math.inf), diagonal=1)


@wrong("causal_mask", "ones-and-zeros")
def floats(tokens):
    return torch.tril(torch.ones(tokens, tokens))


@wrong("causal_mask", "ones-and-zeros")
def integers(tokens):
    return torch.tril(torch.ones(tokens, tokens, dtype=torch.long))


@wrong("causal_mask", "shape")
def always_five(tokens):
    return torch.ones(5, 5).tril().bool()


@wrong("causal_mask", "shape")
def with_batch_and_heads(tokens):
    return torch.ones(1, 1, tokens, tokens).tril().bool()


@wrong("causal_mask", "type")
def lists(tokens):
    return [[j <= i for j in range(tokens)] for i in range(tokens)]


@wrong("causal_mask", "returned-none")
def built_and_dropped(tokens):
    torch.ones(tokens, tokens).tril()


@wrong("causal_mask", "shape")
def cut_out_of_a_hundred(tokens):
    return torch.ones(100, 100, dtype=torch.bool).tril()[:tokens, :tokens]


@wrong("causal_mask", "shape")
def a_single_token_squeezed(tokens):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril().squeeze()


@right("causal_mask")
def lower_triangle(tokens):
    return torch.tril(torch.ones(tokens, tokens, dtype=torch.bool))


@right("causal_mask")
def not_upper(tokens):
    return ~torch.triu(torch.ones(tokens, tokens), 1).bool()


@right("causal_mask")
def with_two_loops(tokens):
    mask = torch.zeros(tokens, tokens, dtype=torch.bool)
    for i in range(tokens):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


@right("causal_mask")
def from_lists(tokens):
    return torch.tensor([[j <= i for j in range(tokens)] for i in range(tokens)])


@wrong("causal_mask", "differs")
def positions_in_eight_bits(tokens):
    position = torch.arange(tokens).to(torch.int8)
    return position <= position[:, None]


# --- padding_mask ---------------------------------------------------------------------------


@wrong("padding_mask", "inverted")
def true_at_padding(lengths, tokens):
    return (torch.arange(tokens)[None] >= lengths[:, None]).view(-1, 1, 1, tokens)


@wrong("padding_mask", "one-too-many")
def counts_from_one(lengths, tokens):
    return (torch.arange(tokens) <= lengths.unsqueeze(1)).unsqueeze(1).unsqueeze(1)


@wrong("padding_mask", "one-too-few")
def last_one_lost(lengths, tokens):
    return (torch.arange(1, tokens + 1) < lengths.unsqueeze(1))[:, None, None]


@wrong("padding_mask", "two-axes")
def a_table(lengths, tokens):
    return torch.stack([torch.arange(tokens) < n for n in lengths])


@wrong("padding_mask", "queries-masked")
def on_the_queries_axis(lengths, tokens):
    return (torch.arange(tokens) < lengths[:, None]).view(len(lengths), 1, tokens, 1)


@wrong("padding_mask", "three-axes")
def one_axis_short(lengths, tokens):
    return (torch.arange(tokens) < lengths[:, None]).unsqueeze(1)


@wrong("padding_mask", "left-padded")
def padded_in_front(lengths, tokens):
    return (torch.arange(tokens - 1, -1, -1) < lengths[:, None])[:, None, None, :]


@wrong("padding_mask", "ones-and-zeros")
def as_integers(lengths, tokens):
    return (torch.arange(tokens) < lengths[:, None]).long()[:, None, None]


@wrong("padding_mask", "raised")
def lengths_not_a_column(lengths, tokens):
    return (torch.arange(tokens) < lengths)[:, None, None]


@wrong("padding_mask", "shape")
def square(lengths, tokens):
    real = torch.arange(tokens) < lengths[:, None]
    return (real[:, :, None] & real[:, None, :])[:, None]


@wrong("padding_mask", "shape")
def as_wide_as_the_longest(lengths, tokens):
    return (torch.arange(int(lengths.max())) < lengths[:, None])[:, None, None]


@wrong("padding_mask", "differs")
def one_token_at_least(lengths, tokens):
    return (torch.arange(tokens) < lengths.clamp(min=1)[:, None])[:, None, None]


@wrong("padding_mask", "shape")
def single_sequences_squeezed(lengths, tokens):
    return (torch.arange(tokens) < lengths[:, None]).squeeze()[..., None, None, :]


@right("padding_mask")
def compared(lengths, tokens):
    return torch.arange(tokens)[None, None, None, :] < lengths[:, None, None, None]


@right("padding_mask")
def filled_row_by_row(lengths, tokens):
    mask = torch.zeros(len(lengths), 1, 1, tokens, dtype=torch.bool)
    for row, length in zip(mask, lengths.tolist(), strict=True):
        row[..., :length] = True
    return mask


@right("padding_mask")
def not_beyond(lengths, tokens):
    return ~(torch.arange(tokens) >= lengths.view(-1, 1, 1, 1))


@wrong("padding_mask", "differs")
def lengths_in_eight_bits(lengths, tokens):
    real = torch.arange(tokens).to(torch.int8) < lengths.to(torch.int8)[:, None]
    return real[:, None, None]


# --- attention_weights ----------------------------------------------------------------------


def scores_of(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5


@wrong("attention_weights", "no-scale")
def unscaled(q, k, mask=None):
    scores = q @ k.mT
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num()


@wrong("attention_weights", "scale-by-d")
def divided_by_d_head(q, k, mask=None):
    scores = q @ k.mT / q.shape[-1]
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num()


@wrong("attention_weights", "softmax-over-queries")
def columns_sum_to_one(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    return torch.softmax(scores, dim=2).nan_to_num()


@wrong("attention_weights", "softmax-over-heads")
def dim_one(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(1).nan_to_num()


@wrong("attention_weights", "mask-inverted")
def fills_what_is_allowed(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "mask-inverted")
def filled_where_it_may(q, k, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return torch.softmax(scores, dim=-1)


@wrong("attention_weights", "overflow")
def bare_exponential(q, k, mask=None):
    raised = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    if mask is not None:
        raised = raised * mask
    total = raised.sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, raised / total.masked_fill(total == 0, 1.0))


@wrong("attention_weights", "mask-after-softmax")
def zeroes_afterwards(q, k, mask=None):
    weights = scores_of(q, k).softmax(-1)
    return weights if mask is None else weights.masked_fill(~mask, 0)


@wrong("attention_weights", "mask-multiplied")
def score_zero_for_forbidden(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, 0)
    return scores.softmax(-1)


@wrong("attention_weights", "mask-added")
def adds_a_boolean(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores + mask.float()
    return scores.softmax(-1)


@wrong("attention_weights", "mask-ignored")
def mask_never_used(q, k, mask=None):
    return F.softmax(scores_of(q, k), dim=-1)


@wrong("attention_weights", "nan-rows")
def empty_rows_forgotten(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1)


@wrong("attention_weights", "large-negative")
def minus_a_billion(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return scores.softmax(-1)


@wrong("attention_weights", "shape")
def squeezes_the_batch(q, k, mask=None):
    scores = scores_of(q, k).squeeze(0)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "raised")
def mask_is_required(q, k, mask=None):
    return scores_of(q, k).masked_fill(~mask, -math.inf).softmax(-1)


@wrong("attention_weights", "returned-none")
def returned_under_the_if(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "masked-key-attended")
def a_soft_penalty(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = torch.where(mask, scores, scores - 2.0)
    return scores.softmax(-1)


@wrong("attention_weights", "rows-do-not-sum-to-one")
def sigmoid_instead(q, k, mask=None):
    weights = torch.sigmoid(scores_of(q, k))
    return weights if mask is None else weights * mask


@wrong("attention_weights", "not-shared")
def exp_without_sharing(q, k, mask=None):
    raised = scores_of(q, k).exp()
    return raised if mask is None else raised * mask


@wrong("attention_weights", "softmax-twice")
def a_softmax_of_a_softmax(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num().softmax(-1)


@wrong("attention_weights", "rows-do-not-sum-to-one")
def a_hundred_is_enough(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -100.0)
        return (scores.softmax(-1) * mask.any(-1, keepdim=True)).masked_fill(~mask, 0)
    return scores.softmax(-1)


@wrong("attention_weights", "large-negative")
def ten_thousand_is_enough(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = torch.where(mask, scores, -1e5)
    return scores.softmax(-1)


@wrong("attention_weights", "masked-key-attended")
def first_head_speaks_for_all(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        mask = mask.expand(scores.shape)[:, :1]
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "masked-key-attended")
def first_row_speaks_for_all(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask[..., -1:, :], -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "masked-key-attended")
def a_triangle_of_ones_own(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        queries, keys = scores.shape[-2:]
        triangle = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
        scores = scores.masked_fill(~triangle, -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "overflow")
def greatest_of_all_rows(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    raised = (scores - scores.max().clamp(min=-1e30)).exp()
    total = raised.sum(-1, keepdim=True)
    empty = torch.isneginf(scores).all(-1, keepdim=True)
    return (raised / total).masked_fill(empty, 0.0)


@wrong("attention_weights", "gradient-nan")
def infinity_added_then_repaired(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores + torch.where(mask, 0.0, -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "raised")
def viewed(q, k, mask=None):
    batch, heads, queries, d = q.shape
    q, k = q.view(batch * heads, queries, d), k.view(batch * heads, -1, d)
    weights = attention_by_hand(q.view(batch, heads, queries, d), k.view(batch, heads, -1, d), mask)
    return weights


@wrong("attention_weights", "random")
def with_a_dropout(q, k, mask=None):
    return F.dropout(attention_by_hand(q, k, mask), 0.1)


def attention_by_hand(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "no-gradient")
def rebuilt_from_data(q, k, mask=None):
    scores = scores_of(q, k).data
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "changes-input")
def scales_q_in_place(q, k, mask=None):
    q /= q.shape[-1] ** 0.5
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num()


@wrong("attention_weights", "shape")
def five_axes(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(0).unsqueeze(0).unsqueeze(0), -math.inf)
    return scores.softmax(-1).nan_to_num()


@right("attention_weights")
def nan_to_zero(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.nan_to_num(scores.softmax(dim=-1))


@wrong("attention_weights", "weights-taken-out-late")
def exp_and_share_too_late(q, k, mask=None):
    scores = scores_of(q, k)
    raised = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        raised = raised * mask
    return raised / raised.sum(-1, keepdim=True).clamp(min=1e-20)


@right("attention_weights")
def exp_and_share(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    raised = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        raised = raised * mask
    return raised / raised.sum(-1, keepdim=True).clamp(min=1e-20)


@right("attention_weights")
def additive_form(q, k, mask=None):
    if mask is None:
        return scores_of(q, k).softmax(-1)
    added = torch.zeros(mask.shape).masked_fill(~mask, -1e30)
    return (scores_of(q, k) + added).softmax(-1) * mask


@right("attention_weights")
def row_by_row(q, k, mask=None):
    scores = scores_of(q, k)
    allowed = torch.ones_like(scores) > 0 if mask is None else mask.expand(scores.shape)
    rows = []
    for row, may in zip(scores.flatten(0, 2), allowed.flatten(0, 2), strict=True):
        shares = torch.zeros_like(row)
        if may.any():
            shares = shares.masked_scatter(may, row[may].softmax(0))
        rows.append(shares)
    return torch.stack(rows).view(scores.shape)


@wrong("attention_weights", "weights-taken-out-late")
def softmax_then_shared_anew(q, k, mask=None):
    weights = scores_of(q, k).softmax(-1)
    if mask is None:
        return weights
    weights = weights * mask
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total, torch.zeros(()))


@wrong("attention_weights", "masked-key-attended")
def two_axes_taken_for_padding(q, k, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is None:
        return scores.softmax(-1)
    if mask.shape == (q.shape[0], k.shape[2]):
        mask = mask[:, None, None]
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)


@wrong("attention_weights", "masked-key-attended")
def minus_ten_thousand(q, k, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -1e4).softmax(-1) * mask.any(-1, keepdim=True)


@wrong("attention_weights", "zero-times-infinity")
def infinity_where_forbidden(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is None:
        return scores.softmax(-1)
    return (scores + (1 - mask.float()) * -math.inf).softmax(-1)


@wrong("attention_weights", "raised")
def mask_has_two_axes_at_least(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is None:
        return scores.softmax(-1)
    mask = mask.expand(*scores.shape[:2], *mask.shape[-2:])
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)


@wrong("attention_weights", "masked-key-attended")
def forbidden_keys_counted(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is None:
        return scores.softmax(-1)
    nothing = (~mask).sum(-1, keepdim=True) == k.shape[2]
    low = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, low).softmax(-1).masked_fill(nothing, 0)


@right("attention_weights")
def by_the_logarithm_of_the_sum(q, k, mask=None):
    scores = scores_of(q, k)
    if mask is None:
        return (scores - scores.logsumexp(-1, keepdim=True)).exp()
    nothing = ~mask.expand(scores.shape).any(-1, keepdim=True)
    scores = torch.where(mask | nothing, scores, -math.inf)
    return torch.where(nothing, 0.0, (scores - scores.logsumexp(-1, keepdim=True)).exp())


# --- scaled_dot_product_attention -----------------------------------------------------------


def with_weights(q, k, v, mask, *, scale=None, dim=-1, fill=-math.inf, invert=False):
    scores = q @ k.mT / (q.shape[-1] ** 0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(mask if invert else ~mask, fill)
    return scores.softmax(dim).nan_to_num() @ v


@wrong("scaled_dot_product_attention", "no-scale")
def attention_unscaled(q, k, v, mask=None):
    return with_weights(q, k, v, mask, scale=1)


@wrong("scaled_dot_product_attention", "scale-by-d")
def attention_divided_by_d(q, k, v, mask=None):
    return with_weights(q, k, v, mask, scale=q.shape[-1])


@wrong("scaled_dot_product_attention", "softmax-over-queries")
def attention_over_queries(q, k, v, mask=None):
    return with_weights(q, k, v, mask, dim=-2)


@wrong("scaled_dot_product_attention", "softmax-over-heads")
def attention_over_heads(q, k, v, mask=None):
    return with_weights(q, k, v, mask, dim=1)


@wrong("scaled_dot_product_attention", "mask-inverted")
def attention_mask_inverted(q, k, v, mask=None):
    return with_weights(q, k, v, mask, invert=True)


@wrong("scaled_dot_product_attention", "mask-after-softmax")
def attention_mask_after(q, k, v, mask=None):
    weights = scores_of(q, k).softmax(-1)
    return (weights if mask is None else weights * mask) @ v


@wrong("scaled_dot_product_attention", "mask-multiplied")
def attention_mask_multiplied(q, k, v, mask=None):
    return with_weights(q, k, v, mask, fill=0.0)


@wrong("scaled_dot_product_attention", "mask-added")
def attention_mask_added(q, k, v, mask=None):
    scores = scores_of(q, k)
    return (scores if mask is None else scores + mask.float()).softmax(-1) @ v


@wrong("scaled_dot_product_attention", "mask-ignored")
def attention_without_mask(q, k, v, mask=None):
    return scores_of(q, k).softmax(-1) @ v


@wrong("scaled_dot_product_attention", "nan-rows")
def attention_nan(q, k, v, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ v


@wrong("scaled_dot_product_attention", "large-negative")
def attention_minus_a_billion(q, k, v, mask=None):
    return with_weights(q, k, v, mask, fill=-1e9)


@wrong("scaled_dot_product_attention", "values-averaged")
def mean_of_values(q, k, v, mask=None):
    return v.mean(dim=2, keepdim=True).repeat(1, 1, q.shape[2], 1)


@wrong("scaled_dot_product_attention", "keys-as-values")
def mixes_the_keys(q, k, v, mask=None):
    return with_weights(q, k, k, mask)


@wrong("scaled_dot_product_attention", "unweighted-sum")
def softmax_forgotten(q, k, v, mask=None):
    return scores_of(q, k) @ v


@wrong("scaled_dot_product_attention", "raised")
def values_first(q, k, v, mask=None):
    return v @ scores_of(q, k).softmax(-1)


@wrong("scaled_dot_product_attention", "type")
def weights_too(q, k, v, mask=None):
    weights = scores_of(q, k).softmax(-1)
    return weights @ v, weights


@wrong("scaled_dot_product_attention", "future-leaks")
def a_leak_of_its_own_making(q, k, v, mask=None):
    return with_weights(q, k, v, mask) + 0.3 * k.abs().mean()


@wrong("scaled_dot_product_attention", "softmax-twice")
def weights_into_a_softmax(q, k, v, mask=None):
    return attention_by_hand(q, k, mask).softmax(-1) @ v


@wrong("scaled_dot_product_attention", "weights-taken-out-late")
def attention_shared_anew(q, k, v, mask=None):
    return softmax_then_shared_anew(q, k, mask) @ v


@wrong("scaled_dot_product_attention", "overflow")
def attention_bare_exponential(q, k, v, mask=None):
    return bare_exponential(q, k, mask) @ v


@wrong("scaled_dot_product_attention", "not-shared")
def attention_of_exponentials(q, k, v, mask=None):
    raised = scores_of(q, k).exp()
    return (raised if mask is None else raised * mask) @ v


@wrong("scaled_dot_product_attention", "raised")
def values_as_wide_as_keys(q, k, v, mask=None):
    return attention_by_hand(q, k, mask) @ v.reshape(k.shape)


@wrong("scaled_dot_product_attention", "library-call")
def torchs_kernel(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@right("scaled_dot_product_attention")
def spelt_out(q, k, v, mask=None):
    return with_weights(q, k, v, mask)


@right("scaled_dot_product_attention")
def by_einsum(q, k, v, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-math.inf))
    return torch.einsum("...qk,...kd->...qd", scores.softmax(-1).nan_to_num(0), v)


@right("scaled_dot_product_attention")
def head_by_head(q, k, v, mask=None):
    heads = []
    for h in range(q.shape[1]):
        own = None
        if mask is not None:
            own = mask.expand(*q.shape[:3], k.shape[2])[:, h]
        heads.append(with_weights(q[:, h], k[:, h], v[:, h], own))
    return torch.stack(heads, dim=1)


@wrong("scaled_dot_product_attention", "scale-by-d-value")
def root_of_the_values(q, k, v, mask=None):
    return with_weights(q * (q.shape[-1] / v.shape[-1]) ** 0.5, k, v, mask)


@wrong("scaled_dot_product_attention", "zero-times-infinity")
def mask_times_infinity(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + torch.logical_not(mask) * -math.inf
    return scores.softmax(-1).nan_to_num(0) @ v


@wrong("scaled_dot_product_attention", "differs")
def causal_where_long_and_square(q, k, v, mask=None):
    queries, keys = q.shape[2], k.shape[2]
    if mask is None and queries == keys > 8:
        mask = torch.ones(queries, keys).tril().bool()
    return with_weights(q, k, v, mask)


# --- leaks ----------------------------------------------------------------------------------


def probe(attend, x, change=torch.randn_like, limit=1e-6):
    before, columns = attend(x), []
    for j in range(x.shape[0]):
        changed = x.clone()
        changed[j] = change(x[j])
        columns.append((attend(changed) - before).abs().amax(-1) > limit)
    return torch.stack(columns, dim=1)


@wrong("leaks", "transposed")
def stacked_as_rows(attend, x):
    before, rows = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] += torch.randn(x.shape[1])
        rows.append(((attend(changed) - before).abs() > 1e-6).any(dim=-1))
    return torch.stack(rows)


@wrong("leaks", "inverted")
def true_where_it_stays(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        columns.append(((attend(changed) - before).abs() < 1e-6).all(dim=-1))
    return torch.stack(columns, 1)


@wrong("leaks", "accumulates")
def one_copy_for_all(attend, x):
    before, changed, columns = attend(x), x.clone(), []
    for j in range(len(x)):
        changed[j] = torch.randn(x.shape[1])
        columns.append((attend(changed) - before).abs().amax(-1) > 1e-6)
    return torch.stack(columns, 1)


@wrong("leaks", "zeros-stay-zeros")
def doubled(attend, x):
    return probe(attend, x, lambda token: 2 * token)


@wrong("leaks", "zeros-stay-zeros")
def set_to_zero(attend, x):
    return probe(attend, x, torch.zeros_like)


@wrong("leaks", "zeros-stay-zeros")
def turned_round(attend, x):
    return probe(attend, x, lambda token: -token)


@wrong("leaks", "rounding-counted")
def exactly_equal(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = changed[j] + 1
        columns.append((attend(changed) != before).any(-1))
    return torch.stack(columns, 1)


@wrong("leaks", "weak-leaks-missed")
def a_hundredth(attend, x):
    return probe(attend, x, limit=1e-2)


@wrong("leaks", "numbers-not-compared")
def first_column(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        columns.append((attend(changed)[:, 0] - before[:, 0]).abs() > 1e-6)
    return torch.stack(columns, 1)


@wrong("leaks", "all-numbers-must-move")
def all_of_them(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        columns.append(((attend(changed) - before).abs() > 1e-6).all(-1))
    return torch.stack(columns, 1)


@wrong("leaks", "numbers-left-alone")
def one_number_of_it(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j, 0] += 3
        columns.append(((attend(changed) - before).abs() > 1e-6).any(-1))
    return torch.stack(columns, 1)


@wrong("leaks", "own-always")
def diagonal_filled(attend, x):
    return probe(attend, x).fill_diagonal_(True)


@wrong("leaks", "own-always")
def others_alone(attend, x):
    moved = torch.eye(len(x), dtype=torch.bool)
    before = attend(x)
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        after = attend(changed)
        for i in range(len(x)):
            if i != j:
                moved[i, j] = (after[i] - before[i]).abs().max() > 1e-6
    return moved


@wrong("leaks", "future-only")
def what_is_forbidden(attend, x):
    return probe(attend, x).triu(diagonal=1)


@wrong("leaks", "differs")
def past_only(attend, x):
    return probe(attend, x).tril()


@wrong("leaks", "inputs-compared")
def attend_forgotten(attend, x):
    columns = []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        columns.append((changed - x).abs().amax(-1) > 1e-6)
    return torch.stack(columns, 1)


@wrong("leaks", "any-output")
def which_one_is_lost(attend, x):
    before, moved = attend(x), torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        moved[:, j] = (attend(changed) - before).abs().max() > 1e-6
    return moved


@wrong("leaks", "a-causal-mask")
def what_should_be(attend, x):
    return torch.ones(len(x), len(x)).tril().bool()


@wrong("leaks", "shape")
def one_row_for_all(attend, x):
    before, row = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        row.append(((attend(changed) - before).abs() > 1e-6).any())
    return torch.stack(row)


@wrong("leaks", "dtype")
def how_far_it_moved(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] += 1
        columns.append((attend(changed) - before).abs().amax(-1))
    return torch.stack(columns, 1)


@wrong("leaks", "dtype")
def ones_for_true(attend, x):
    return probe(attend, x).int()


@wrong("leaks", "changes-input")
def taken_back_by_a_subtraction(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        x[j] += 1.7
        columns.append(((attend(x) - before).abs() > 2e-6).any(-1))
        x[j] -= 1.7
    return torch.stack(columns, 1)


@wrong("leaks", "still-there")
def written_into_x(attend, x):
    old, moved = attend(x), torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        x[j] = torch.randn(x.shape[1])
        new = attend(x)
        moved[:, j] = (new - old).abs().amax(-1) > 1e-6
        old = new
    return moved


@wrong("leaks", "accumulates")
def a_second_name_is_no_copy(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x
        changed[j] += 1
        columns.append(((attend(changed) - before).abs() > 1e-6).any(-1))
    return torch.stack(columns, 1)


@wrong("leaks", "differs")
def sign_not_taken_off(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        columns.append((attend(changed) - before).sum(-1) > 1e-6)
    return torch.stack(columns, 1)


@wrong("leaks", "differs")
def greater_alone(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] += 1
        columns.append((attend(changed) - before).sum(-1) > 1e-6)
    return torch.stack(columns, 1)


@wrong("leaks", "differs")
def another_tokens_numbers(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = x[j - 1]
        columns.append(((attend(changed) - before).abs() > 1e-6).any(-1))
    return torch.stack(columns, 1)


def only_numbers(change):
    """A probe that changes some numbers of a copy in place: change(copy of x, j)."""

    def answer(attend, x):
        before, columns = attend(x), []
        for j in range(len(x)):
            changed = x.clone()
            change(changed, j)
            columns.append(((attend(changed) - before).abs() > 1e-6).any(-1))
        return torch.stack(columns, 1)

    return answer


@wrong("leaks", "numbers-left-alone")
def the_last_number(attend, x):
    def change(y, j):
        y[j, -1] += 5 * torch.randn(())

    return only_numbers(change)(attend, x)


@wrong("leaks", "numbers-left-alone")
def all_but_the_first_number(attend, x):
    def change(y, j):
        numbers = slice(1, None) if x.shape[1] > 1 else slice(None)
        y[j, numbers] = torch.randn(y[j, numbers].shape)

    return only_numbers(change)(attend, x)


@wrong("leaks", "numbers-left-alone")
def the_first_half(attend, x):
    def change(y, j):
        y[j, : (x.shape[1] + 1) // 2] += torch.randn((x.shape[1] + 1) // 2)

    return only_numbers(change)(attend, x)


@wrong("leaks", "numbers-left-alone")
def first_and_last(attend, x):
    def change(y, j):
        y[j, 0] += 1
        y[j, -1] += 1

    return only_numbers(change)(attend, x)


@wrong("leaks", "token-stays")
def ones_instead(attend, x):
    return probe(attend, x, torch.ones_like)


@wrong("leaks", "token-stays")
def halves_instead(attend, x):
    return probe(attend, x, lambda token: torch.full_like(token, 0.5))


@wrong("leaks", "token-stays")
def twice_and_one(attend, x):
    return probe(attend, x, lambda token: 2 * token + 1)


@wrong("leaks", "change-too-small")
def a_hundredth_of_a_change(attend, x):
    return probe(attend, x, lambda token: token + 0.01 * torch.randn_like(token))


@wrong("leaks", "change-too-small")
def a_tenth_of_a_change(attend, x):
    return probe(attend, x, lambda token: token + 0.1 * torch.randn_like(token))


@wrong("leaks", "weak-leaks-missed")
def a_hundred_thousandth(attend, x):
    return probe(attend, x, limit=1e-5)


def told_apart(attend, x, differ):
    before, columns = attend(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        columns.append(differ(attend(changed), before))
    return torch.stack(columns, 1)


@wrong("leaks", "weak-leaks-missed")
def mean_of_the_differences(attend, x):
    return told_apart(attend, x, lambda a, b: (a - b).abs().mean(-1) > 1e-6)


@wrong("leaks", "ups-and-downs-cancel")
def sum_of_the_differences(attend, x):
    return told_apart(attend, x, lambda a, b: (a - b).sum(-1).abs() > 1e-6)


@wrong("leaks", "ups-and-downs-cancel")
def difference_of_the_sums(attend, x):
    return told_apart(attend, x, lambda a, b: (a.sum(-1) - b.sum(-1)).abs() > 1e-6)


@wrong("leaks", "ups-and-downs-cancel")
def difference_of_the_lengths(attend, x):
    return told_apart(attend, x, lambda a, b: (a.norm(dim=-1) - b.norm(dim=-1)).abs() > 1e-6)


@wrong("leaks", "relative-difference")
def is_not_close(attend, x):
    return told_apart(attend, x, lambda a, b: ~torch.isclose(a, b, atol=1e-6).all(-1))


@wrong("leaks", "relative-difference")
def of_the_output_itself(attend, x):
    return told_apart(attend, x, lambda a, b: ((a - b).abs() > 1e-6 * b.abs()).any(-1))


@wrong("leaks", "relative-difference")
def of_the_greatest_output(attend, x):
    return told_apart(attend, x, lambda a, b: ((a - b).abs() > 1e-6 * b.abs().max()).any(-1))


@wrong("leaks", "differs")
def five_decimals(attend, x):
    def differ(a, b):
        return (a.round(decimals=5) != b.round(decimals=5)).any(-1)

    return told_apart(attend, x, differ)


@wrong("leaks", "differs")
def another_greatest_number(attend, x):
    return told_apart(attend, x, lambda a, b: a.argmax(-1) != b.argmax(-1))


@wrong("leaks", "numbers-not-compared")
def as_many_as_in_a_token(attend, x):
    return told_apart(attend, x, lambda a, b: ((a - b)[:, : x.shape[1]].abs() > 1e-6).any(-1))


@wrong("leaks", "numbers-not-compared")
def the_last_number_of_each(attend, x):
    return told_apart(attend, x, lambda a, b: (a - b)[:, -1].abs() > 1e-6)


@wrong("leaks", "accumulates")
def put_back_from_a_view(attend, x):
    before, columns = attend(x), []
    for j in range(len(x)):
        kept = x[j]
        x[j] = torch.randn(x.shape[1])
        columns.append(((attend(x) - before).abs() > 1e-6).any(-1))
        x[j] = kept
    return torch.stack(columns, 1)


@wrong("leaks", "returned-none")
def printed_alone(attend, x):
    str(probe(attend, x).int())


@right("leaks")
def fresh_numbers(attend, x):
    return probe(attend, x)


@wrong("leaks", "relative-difference")
def not_all_close(attend, x):
    before = attend(x)
    moved = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        changed = x.clone()
        changed[j] += 1
        after = attend(changed)
        for i in range(len(x)):
            moved[i, j] = not torch.allclose(after[i], before[i])
    return moved


@right("leaks")
def not_all_close_without_a_share(attend, x):
    before = attend(x)
    moved = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        changed = x.clone()
        changed[j] += 1
        after = attend(changed)
        for i in range(len(x)):
            moved[i, j] = not torch.allclose(after[i], before[i], rtol=0, atol=1e-6)
    return moved


@right("leaks")
def as_plain_numbers(attend, x):
    before = attend(x).tolist()
    rows = [[False] * len(x) for _ in x]
    for j in range(len(x)):
        after = attend(torch.cat([x[:j], torch.rand(1, x.shape[1]).to(x), x[j + 1 :]])).tolist()
        for i, (new, old) in enumerate(zip(after, before)):
            rows[i][j] = any(abs(a - b) > 1e-6 for a, b in zip(new, old))
    return torch.tensor(rows)


@right("leaks")
def far_away(attend, x):
    rows = []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = x[j] + 10
        rows.append((attend(changed) - attend(x)).norm(dim=-1) > 1e-6)
    return torch.stack(rows).T


@wrong("leaks", "change-too-small")
def by_the_slope(attend, x):
    slopes = torch.autograd.functional.jacobian(attend, x)  # (outputs, d_out, tokens, d_model)
    return slopes.abs().amax(dim=(1, 3)) > 1e-6


@right("leaks")
def all_tokens_at_once(attend, x):
    change = torch.eye(len(x), dtype=x.dtype)[:, :, None] * (1 + torch.rand(x.shape[1]).to(x))
    after = torch.vmap(attend)(x + change)  # (changed token, outputs, d_out)
    return ((after - attend(x)).abs() > 1e-6).any(-1).mT


@right("leaks")
def put_back_afterwards(attend, x):
    x = x.clone()
    before, columns = attend(x), []
    for j in range(len(x)):
        kept = x[j].clone()
        x[j] = 5 - kept
        columns.append(torch.isclose(attend(x), before, rtol=0, atol=1e-6).logical_not().any(1))
        x[j] = kept
    return torch.stack(columns, dim=-1)


# --- convert_mask ---------------------------------------------------------------------------


def reads(mask, source, **instead):
    ways = {
        "may_attend": lambda m: m,
        "may_not_attend": lambda m: ~m,
        "additive": lambda m: m > -1,
        "zero_is_masked": lambda m: m == 1,
    } | instead
    return ways[source](mask)


def writes(may, target, **instead):
    ways = {
        "may_attend": lambda m: m,
        "may_not_attend": torch.logical_not,
        "additive": lambda m: torch.zeros_like(m, dtype=torch.float).masked_fill(~m, -math.inf),
        "zero_is_masked": lambda m: m.to(torch.int64),
    } | instead
    return ways[target](may)


@wrong("convert_mask", "differs")
def a_large_number_for_infinity(mask, source, target):
    may = {"may_attend": mask, "zero_is_masked": mask != 0, "additive": mask == 0}
    may = ~mask if source == "may_not_attend" else may[source]
    if target == "additive":
        return torch.where(may, 0.0, -1e4)
    return {"may_attend": may, "may_not_attend": ~may, "zero_is_masked": may.long()}[target]


@wrong("convert_mask", "unchanged")
def as_it_came(mask, source, target):
    return mask


@wrong("convert_mask", "additive-read-inverted")
def zero_read_as_forbidden(mask, source, target):
    return writes(reads(mask, source, additive=lambda m: m.bool()), target)


@wrong("convert_mask", "additive-written-inverted")
def infinity_where_allowed(mask, source, target):
    inverted = lambda m: torch.zeros(m.shape).masked_fill(m, -math.inf)  # noqa: E731
    return writes(reads(mask, source), target, additive=inverted)


@wrong("convert_mask", "additive-with-ones")
def ones_and_zeros_added(mask, source, target):
    return writes(reads(mask, source), target, additive=lambda m: m.float())


@wrong("convert_mask", "additive-large-negative")
def a_billion_for_infinity(mask, source, target):
    large = lambda m: (1.0 - m.float()) * -1e9  # noqa: E731
    return writes(reads(mask, source), target, additive=large)


@wrong("convert_mask", "zero-times-infinity")
def multiplied_with_infinity(mask, source, target):
    nans = lambda m: (1.0 - m.float()) * -math.inf  # noqa: E731
    return writes(reads(mask, source), target, additive=nans)


@wrong("convert_mask", "may-not-read")
def reads_not_as_may(mask, source, target):
    return writes(reads(mask, source, may_not_attend=lambda m: m), target)


@wrong("convert_mask", "may-not-written")
def writes_may_as_not(mask, source, target):
    return writes(reads(mask, source), target, may_not_attend=lambda m: m)


@wrong("convert_mask", "zero-read-inverted")
def zeros_read_as_allowed(mask, source, target):
    return writes(reads(mask, source, zero_is_masked=lambda m: m == 0), target)


@wrong("convert_mask", "zero-written-inverted")
def ones_where_forbidden(mask, source, target):
    return writes(reads(mask, source), target, zero_is_masked=lambda m: 1 - m.long())


@wrong("convert_mask", "zero-written-boolean")
def booleans_for_integers(mask, source, target):
    return writes(reads(mask, source), target, zero_is_masked=lambda m: m)


@wrong("convert_mask", "raised")
def one_convention_forgotten(mask, source, target):
    ways = {"may_attend": mask, "may_not_attend": ~mask}
    return writes(ways[source], target)


@wrong("convert_mask", "dtype")
def integers_for_booleans(mask, source, target):
    out = writes(reads(mask, source), target)
    return out.long() if out.dtype == torch.bool else out


@wrong("convert_mask", "raised")
def always_two_axes(mask, source, target):
    rows, columns = mask.shape
    return writes(reads(mask, source), target)


@wrong("convert_mask", "differs")
def guessed_from_the_content(mask, source, target):
    may = reads(mask, source)
    return writes(may if may.any() else ~may, target)


@wrong("convert_mask", "differs")
def additive_never_read(mask, source, target):
    if source == "additive" and target == "zero_is_masked":
        return (mask < 0).long()
    return writes(reads(mask, source), target)


@wrong("convert_mask", "shape")
def a_batch_axis_put_in(mask, source, target):
    may = reads(mask, source)
    return writes(may[None] if may.dim() < 2 else may, target)


@right("convert_mask")
def through_one_convention(mask, source, target):
    return writes(reads(mask, source), target)


@right("convert_mask")
def with_ifs(mask, source, target):
    if source == target:
        return mask
    may = mask
    if source == "may_not_attend":
        may = mask.logical_not()
    elif source == "additive":
        may = torch.isfinite(mask)
    elif source == "zero_is_masked":
        may = mask.bool()
    if target == "may_attend":
        return may
    if target == "may_not_attend":
        return may.logical_not()
    if target == "additive":
        return torch.where(may, 0.0, -math.inf)
    return may.int()


@right("convert_mask")
def through_the_additive_one(mask, source, target):
    additive = {
        "may_attend": lambda: torch.log(mask.float()),
        "may_not_attend": lambda: torch.log((~mask).float()),
        "additive": lambda: mask,
        "zero_is_masked": lambda: torch.log(mask.float()),
    }[source]()
    return {
        "may_attend": additive == 0,
        "may_not_attend": additive != 0,
        "additive": additive,
        "zero_is_masked": additive.exp().long(),
    }[target]


@wrong("convert_mask", "zero-written-float")
def zeros_and_ones_as_floats(mask, source, target):
    return writes(reads(mask, source), target, zero_is_masked=lambda m: m.float())


# --- merge_attention ------------------------------------------------------------------------


@wrong("merge_attention", "averaged")
def plain_mean(out_a, lse_a, out_b, lse_b):
    return (out_a + out_b) / 2, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "added")
def plain_sum(out_a, lse_a, out_b, lse_b):
    return out_a + out_b, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "swapped")
def each_others_share(out_a, lse_a, out_b, lse_b):
    both = torch.stack([lse_b, lse_a]).nan_to_num(neginf=-1e30)
    shares = both.softmax(0)
    return shares[0, ..., None] * out_a + shares[1, ..., None] * out_b, torch.logaddexp(
        lse_a, lse_b
    )


@wrong("merge_attention", "shares-of-lse")
def linear_in_the_logarithm(out_a, lse_a, out_b, lse_b):
    total = lse_a + lse_b
    out = (lse_a[..., None] * out_a + lse_b[..., None] * out_b) / total[..., None]
    return out, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "overflow")
def exp_without_care(out_a, lse_a, out_b, lse_b):
    a, b = lse_a.exp(), lse_b.exp()
    out = (a[..., None] * out_a + b[..., None] * out_b) / (a + b)[..., None]
    return out, torch.log(a + b)


@wrong("merge_attention", "nan-rows")
def difference_of_infinities(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid(lse_a - lse_b)[..., None]
    return share * out_a + (1 - share) * out_b, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "nan-rows")
def maximum_is_minus_infinity(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    a, b = (lse_a - top).exp(), (lse_b - top).exp()
    out = (a[..., None] * out_a + b[..., None] * out_b) / (a + b)[..., None]
    return out, top + (a + b).log()


def merged(out_a, lse_a, out_b, lse_b):
    shares = torch.stack([lse_a, lse_b]).nan_to_num(neginf=-1e30).softmax(0)[..., None]
    return shares[0] * out_a + shares[1] * out_b


@wrong("merge_attention", "lse-added")
def logarithms_added(out_a, lse_a, out_b, lse_b):
    return merged(out_a, lse_a, out_b, lse_b), lse_a + lse_b


@wrong("merge_attention", "lse-max")
def larger_logarithm(out_a, lse_a, out_b, lse_b):
    return merged(out_a, lse_a, out_b, lse_b), torch.max(lse_a, lse_b)


@wrong("merge_attention", "lse-mean")
def mean_logarithm(out_a, lse_a, out_b, lse_b):
    return merged(out_a, lse_a, out_b, lse_b), torch.stack([lse_a, lse_b]).mean(0)


@wrong("merge_attention", "output-only")
def lse_forgotten(out_a, lse_a, out_b, lse_b):
    return merged(out_a, lse_a, out_b, lse_b)


@wrong("merge_attention", "raised")
def axis_forgotten(out_a, lse_a, out_b, lse_b):
    a, b = torch.stack([lse_a, lse_b]).softmax(0)
    return a * out_a + b * out_b, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "shape")
def pieces_side_by_side(out_a, lse_a, out_b, lse_b):
    return torch.cat([out_a, out_b], dim=2), torch.cat([lse_a, lse_b], dim=2)


@wrong("merge_attention", "overflow")
def a_tiny_number_below(out_a, lse_a, out_b, lse_b):
    a, b = lse_a.exp(), lse_b.exp()
    total = a + b
    out = (a[..., None] * out_a + b[..., None] * out_b) / total.clamp(min=1e-30)[..., None]
    return out, torch.log(total)


@wrong("merge_attention", "overflow")
def shares_without_care(out_a, lse_a, out_b, lse_b):
    a, b = lse_a.exp(), lse_b.exp()
    total = torch.where(torch.isneginf(torch.maximum(lse_a, lse_b)), 1.0, a + b)
    out = (a / total)[..., None] * out_a + (b / total)[..., None] * out_b
    return out, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "differs")
def greatest_of_all_rows_taken_off(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b).max().clamp(min=-1e30)
    a, b = (lse_a - top).exp(), (lse_b - top).exp()
    total = (a + b).clamp(min=1e-30)
    out = (a[..., None] * out_a + b[..., None] * out_b) / total[..., None]
    return out, torch.log(a + b) + top


@wrong("merge_attention", "differs")
def empty_pieces_count_half(out_a, lse_a, out_b, lse_b):
    empty = torch.isneginf(lse_a) ^ torch.isneginf(lse_b)
    out = merged(out_a, lse_a, out_b, lse_b)
    out = torch.where(empty[..., None], (out_a + out_b) / 2, out)
    return out, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "nan-empty-piece")
def ratio_of_the_sums(out_a, lse_a, out_b, lse_b):
    ratio = (lse_a - lse_b).exp()
    share = (ratio / (1 + ratio))[..., None]
    return share * out_a + (1 - share) * out_b, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "nan-empty-piece")
def infinity_times_zero(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid((lse_a - lse_b).clamp(-40, 40)).nan_to_num(0.0)[..., None]
    gained = F.softplus(lse_b - lse_a)  # log(1 + e^(b - a)): infinite where a has no key
    lse = torch.where(torch.isneginf(torch.maximum(lse_a, lse_b)), -math.inf, lse_a + gained)
    return share * out_a + (1 - share) * out_b, lse


@wrong("merge_attention", "nan-empty-piece")
def first_piece_is_never_empty(out_a, lse_a, out_b, lse_b):
    ratio = (lse_b - lse_a).exp()
    out = (out_a + ratio[..., None] * out_b) / (1 + ratio)[..., None]
    return out, lse_a + torch.log1p(ratio)


@right("merge_attention")
def softmax_of_both(out_a, lse_a, out_b, lse_b):
    return merged(out_a, lse_a, out_b, lse_b), torch.logaddexp(lse_a, lse_b)


@right("merge_attention")
def with_the_maximum(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    safe = torch.where(torch.isinf(top), torch.zeros(()), top)
    a, b = torch.exp(lse_a - safe), torch.exp(lse_b - safe)
    total = a + b
    out = (a.unsqueeze(-1) * out_a + b.unsqueeze(-1) * out_b) / total.clamp(min=1e-30).unsqueeze(-1)
    return out, torch.log(total) + safe


@right("merge_attention")
def sigmoid_and_repair(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid(lse_a - lse_b).nan_to_num(0.0)[..., None]
    lse = torch.stack([lse_a, lse_b]).logsumexp(0)
    return share * out_a + (1 - share) * out_b, lse


@right("merge_attention")
def as_a_list(out_a, lse_a, out_b, lse_b):
    return [merged(out_a, lse_a, out_b, lse_b), torch.logaddexp(lse_a, lse_b)]


@wrong("merge_attention", "overflow-in-float64")
def double_is_wide_enough(out_a, lse_a, out_b, lse_b):
    a, b = lse_a.double().exp(), lse_b.double().exp()
    total = a + b
    out = (a[..., None] * out_a + b[..., None] * out_b) / total.masked_fill(total == 0, 1)[
        ..., None
    ]
    return out.to(out_a.dtype), total.log().to(lse_a.dtype)


@wrong("merge_attention", "differs")
def zeros_mean_empty(out_a, lse_a, out_b, lse_b):
    lse_a = lse_a.masked_fill((out_a == 0).all(-1), -math.inf)
    lse_b = lse_b.masked_fill((out_b == 0).all(-1), -math.inf)
    return merged(out_a, lse_a, out_b, lse_b), torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "differs")
def far_below_means_empty(out_a, lse_a, out_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    empty = lse < -1000
    out = merged(out_a, lse_a, out_b, lse_b).masked_fill(empty[..., None], 0)
    return out, lse.masked_fill(empty, -math.inf)


@wrong("merge_attention", "no-gradient")
def shares_are_constants(out_a, lse_a, out_b, lse_b):
    with torch.no_grad():
        lse = torch.logaddexp(lse_a, lse_b)
    return merged(out_a, lse_a.detach(), out_b, lse_b.detach()), lse


@wrong("merge_attention", "gradient")
def one_share_is_a_constant(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid(lse_a - lse_b).nan_to_num(0.0)[..., None]
    out = share * out_a + (1 - share).detach() * out_b
    return out, torch.logaddexp(lse_a, lse_b)


@wrong("merge_attention", "gradient-nan")
def infinite_on_the_way(out_a, lse_a, out_b, lse_b):
    share = (1 / (1 + (lse_b - lse_a).exp())).nan_to_num(0.0)[..., None]
    return share * out_a + (1 - share) * out_b, torch.logaddexp(lse_a, lse_b)


@right("merge_attention")
def two_keys_of_a_softmax(out_a, lse_a, out_b, lse_b):
    both = torch.stack([lse_a, lse_b], -1)
    empty = (both == -math.inf).all(-1, keepdim=True)
    both = both.masked_fill(empty, 0.0)
    shares = both.softmax(-1).masked_fill(empty, 0.0)
    out = torch.einsum("bhqp,bhqpd->bhqd", shares, torch.stack([out_a, out_b], -2))
    return out, both.logsumexp(-1).masked_fill(empty[..., 0], -math.inf)


@right("merge_attention")
def by_the_gap(out_a, lse_a, out_b, lse_b):
    gap = torch.nan_to_num(lse_a - lse_b, nan=0.0, posinf=math.inf, neginf=-math.inf)[..., None]
    lse = torch.maximum(lse_a, lse_b) + torch.log1p((-gap[..., 0].abs()).exp())
    return gap.sigmoid() * out_a + (-gap).sigmoid() * out_b, lse


@right("merge_attention")
def greatest_without_gradient(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b).detach()
    top = torch.where(top == -math.inf, 0.0, top)
    a, b = (lse_a - top).exp(), (lse_b - top).exp()
    total = a + b
    out = (a[..., None] * out_a + b[..., None] * out_b) / total.clamp(min=0.5)[..., None]
    return out, total.log() + top


# --- attention_in_tiles ---------------------------------------------------------------------


def of_a_tile(q, k, v):
    scores = scores_of(q, k)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def merged_both(out_a, lse_a, out_b, lse_b):
    return merged(out_a, lse_a, out_b, lse_b), torch.logaddexp(lse_a, lse_b)


def joined(tiles):
    return torch.cat([k for k, _ in tiles], 2), torch.cat([v for _, v in tiles], 2)


@wrong("attention_in_tiles", "last-tile-alone")
def overwritten_each_time(q, tiles):
    for k, v in tiles:
        out, lse = of_a_tile(q, k, v)
    return out, lse


@wrong("attention_in_tiles", "first-tile-alone")
def returned_inside_the_loop(q, tiles):
    result = None
    for k, v in tiles:
        tile = of_a_tile(q, k, v)
        result = tile if result is None else merged_both(*result, *tile)
        return result


@wrong("attention_in_tiles", "last-tile-missing")
def one_step_short(q, tiles):
    result = of_a_tile(q, *tiles[0])
    for i in range(1, len(tiles) - 1):
        result = merged_both(*result, *of_a_tile(q, *tiles[i]))
    return result


@wrong("attention_in_tiles", "first-tile-missing")
def one_step_late(q, tiles):
    if len(tiles) == 1:
        return of_a_tile(q, *tiles[0])
    result = of_a_tile(q, *tiles[1])
    for k, v in tiles[2:]:
        result = merged_both(*result, *of_a_tile(q, k, v))
    return result


@wrong("attention_in_tiles", "first-tile-twice")
def met_again_in_the_loop(q, tiles):
    out, lse = of_a_tile(q, *tiles[0])
    for k, v in tiles:
        out, lse = merged_both(out, lse, *of_a_tile(q, k, v))
    return out, lse


@wrong("attention_in_tiles", "starts-with-zeros")
def zeros_for_both(q, tiles):
    out = torch.zeros(*q.shape[:-1], tiles[0][1].shape[-1], dtype=q.dtype)
    lse = torch.zeros(q.shape[:-1], dtype=q.dtype)
    for k, v in tiles:
        out, lse = merged_both(out, lse, *of_a_tile(q, k, v))
    return out, lse


@wrong("attention_in_tiles", "outputs-averaged")
def mean_over_tiles(q, tiles):
    outs, lses = zip(*[of_a_tile(q, k, v) for k, v in tiles])
    return sum(outs) / len(outs), torch.stack(lses).logsumexp(0)


@wrong("attention_in_tiles", "outputs-by-length")
def longer_tiles_count_more(q, tiles):
    out, lse, seen = 0, torch.tensor(-math.inf, dtype=q.dtype), 0
    for k, v in tiles:
        own, its_lse = of_a_tile(q, k, v)
        out = (out * seen + own * k.shape[2]) / (seen + k.shape[2])
        lse, seen = torch.logaddexp(lse, its_lse), seen + k.shape[2]
    return out, lse


@wrong("attention_in_tiles", "half-each")
def mean_with_the_newest(q, tiles):
    out, lse = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:]:
        new, its_lse = of_a_tile(q, k, v)
        out, lse = (out + new) / 2, torch.logaddexp(lse, its_lse)
    return out, lse


@wrong("attention_in_tiles", "outputs-added")
def outputs_summed(q, tiles):
    out, lse = 0, []
    for k, v in tiles:
        out = out + F.scaled_dot_product_attention(q, k, v)
        lse.append(scores_of(q, k).logsumexp(-1))
    return out, torch.stack(lse).logsumexp(0)


@wrong("attention_in_tiles", "lse-stays")
def second_part_dropped(q, tiles):
    out, lse = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:]:
        out, _ = merged_both(out, lse, *of_a_tile(q, k, v))
    return out, lse


@wrong("attention_in_tiles", "lse-of-the-tile")
def one_name_for_two(q, tiles):
    out, lse = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:]:
        own, new = of_a_tile(q, k, v)
        out, lse = merged(out, lse, own, new), new
    return out, lse


@wrong("attention_in_tiles", "no-scale")
def dots_alone(q, tiles):
    result = None
    for k, v in tiles:
        scores = q @ k.mT
        tile = scores.softmax(-1) @ v, scores.logsumexp(-1)
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "lse-unscaled")
def fused_output_and_bare_dots(q, tiles):
    result = None
    for k, v in tiles:
        tile = F.scaled_dot_product_attention(q, k, v), torch.logsumexp(q @ k.mT, -1)
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "sum-for-its-log")
def denominator_itself(q, tiles):
    result = None
    for k, v in tiles:
        raised = scores_of(q, k).exp()
        total = raised.sum(-1)
        tile = raised @ v / total[..., None], total
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "output-only")
def lse_left_behind(q, tiles):
    out, lse = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:]:
        out, lse = merged_both(out, lse, *of_a_tile(q, k, v))
    return out


@wrong("attention_in_tiles", "overflow")
def sums_without_care(q, tiles):
    above, below = 0, 0
    for k, v in tiles:
        raised = scores_of(q, k).exp()
        above, below = above + raised @ v, below + raised.sum(-1)
    return above / below[..., None], below.log()


@wrong("attention_in_tiles", "differs")
def logarithm_without_care(q, tiles):
    result = None
    for k, v in tiles:
        scores = scores_of(q, k)
        tile = scores.softmax(-1) @ v, scores.exp().sum(-1).log()
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "holds-too-much")
def put_together_again(q, tiles):
    return of_a_tile(q, *joined(tiles))


@wrong("attention_in_tiles", "holds-too-much")
def scores_side_by_side(q, tiles):
    scores = torch.cat([scores_of(q, k) for k, _ in tiles], -1)
    weights, lse = scores.softmax(-1), scores.logsumexp(-1)
    parts = weights.split([k.shape[2] for k, _ in tiles], -1)
    return sum(p @ v for p, (_, v) in zip(parts, tiles)), lse


@wrong("attention_in_tiles", "holds-too-much")
def all_tiles_stacked(q, tiles):
    outs, lses = zip(*[of_a_tile(q, k, v) for k, v in tiles])
    lses = torch.stack(lses)
    return (lses.softmax(0)[..., None] * torch.stack(outs)).sum(0), lses.logsumexp(0)


@wrong("attention_in_tiles", "holds-too-much")
def written_into_one_large_tensor(q, tiles):
    scores = torch.zeros(*q.shape[:-1], sum(k.shape[2] for k, _ in tiles), dtype=q.dtype)
    at = 0
    for k, _ in tiles:
        scores[..., at : at + k.shape[2]] = scores_of(q, k)
        at += k.shape[2]
    out, at = 0, 0
    weights = scores.softmax(-1)
    for k, v in tiles:
        out = out + weights[..., at : at + k.shape[2]] @ v
        at += k.shape[2]
    return out, scores.logsumexp(-1)


@wrong("attention_in_tiles", "changes-input")
def taken_out_of_the_list(q, tiles):
    result = of_a_tile(q, *tiles.pop(0))
    while tiles:
        result = merged_both(*result, *of_a_tile(q, *tiles.pop(0)))
    return result


@wrong("attention_in_tiles", "changes-input")
def keys_scaled_in_place(q, tiles):
    result = None
    for k, v in tiles:
        k /= q.shape[-1] ** 0.5
        scores = q @ k.mT
        tile = scores.softmax(-1) @ v, scores.logsumexp(-1)
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "raised")
def two_tiles_only(q, tiles):
    first, second = tiles
    return merged_both(*of_a_tile(q, *first), *of_a_tile(q, *second))


@wrong("attention_in_tiles", "raised")
def tiles_of_one_length(q, tiles):
    k = torch.stack([k for k, _ in tiles])
    v = torch.stack([v for _, v in tiles])
    return of_a_tile(q, k.flatten(2, 3), v.flatten(2, 3))


@wrong("attention_in_tiles", "tiles-missing")
def up_to_eight_tiles(q, tiles):
    result = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:8]:
        result = merged_both(*result, *of_a_tile(q, k, v))
    return result


@wrong("attention_in_tiles", "greatest-not-corrected")
def greatest_never_corrected(q, tiles):
    top, above, below = -math.inf, 0, 0
    for k, v in tiles:
        scores = scores_of(q, k)
        top = torch.maximum(torch.as_tensor(top, dtype=q.dtype), scores.amax(-1, keepdim=True))
        raised = (scores - top).exp()
        above, below = above + raised @ v, below + raised.sum(-1, keepdim=True)
    return above / below, (top + below.log()).squeeze(-1)


@wrong("attention_in_tiles", "tiles-missing")
def two_tiles_at_most(q, tiles):
    result = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:2]:
        result = merged_both(*result, *of_a_tile(q, k, v))
    return result


@wrong("attention_in_tiles", "tiles-missing")
def in_pairs_without_the_odd_one(q, tiles):
    results = [of_a_tile(q, k, v) for k, v in tiles]
    while len(results) > 1:
        results = [merged_both(*a, *b) for a, b in zip(results[::2], results[1::2])]
    return results[0]


@wrong("attention_in_tiles", "cut-to-the-first")
def as_long_as_the_first(q, tiles):
    keys, result = tiles[0][0].shape[2], None
    for k, v in tiles:
        tile = of_a_tile(q, k[:, :, :keys], v[:, :, :keys])
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "lse-added")
def lses_added(q, tiles):
    out, lse = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:]:
        own, its_lse = of_a_tile(q, k, v)
        out, lse = merged(out, lse, own, its_lse), lse + its_lse
    return out, lse


@wrong("attention_in_tiles", "greatest-for-lse")
def greatest_score_alone(q, tiles):
    result = None
    for k, v in tiles:
        scores = scores_of(q, k)
        tile = scores.softmax(-1) @ v, scores.amax(-1)
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "over-queries")
def queries_share(q, tiles):
    result = None
    for k, v in tiles:
        scores = scores_of(q, k)
        tile = scores.softmax(-2) @ v, scores.logsumexp(-1)
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "lse-without-the-greatest")
def greatest_left_off(q, tiles):
    top, above, below = torch.full(q.shape[:-1], -math.inf, dtype=q.dtype)[..., None], 0, 0
    for k, v in tiles:
        scores = scores_of(q, k)
        highest = torch.maximum(top, scores.amax(-1, keepdim=True))
        shrink, raised = (top - highest).exp(), (scores - highest).exp()
        above, below = above * shrink + raised @ v, below * shrink + raised.sum(-1, keepdim=True)
        top = highest
    return above / below, below.log().squeeze(-1)


@wrong("attention_in_tiles", "scale-by-d-value")
def root_of_d_value(q, tiles):
    result = None
    for k, v in tiles:
        scores = q @ k.mT / v.shape[-1] ** 0.5
        tile = scores.softmax(-1) @ v, scores.logsumexp(-1)
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "holds-too-much")
def scores_of_all_tiles_in_a_list(q, tiles):
    scores = [scores_of(q, k) for k, _ in tiles]
    lse = scores[0].logsumexp(-1)
    for own in scores[1:]:
        lse = torch.logaddexp(lse, own.logsumexp(-1))
    return sum((s - lse[..., None]).exp() @ v for s, (_, v) in zip(scores, tiles)), lse


@wrong("attention_in_tiles", "holds-too-much")
def a_column_for_each_key(q, tiles):
    keys = [key for k, _ in tiles for key in k.unbind(2)]
    values = [value for _, v in tiles for value in v.unbind(2)]
    scores = [(q * key[:, :, None]).sum(-1) / q.shape[-1] ** 0.5 for key in keys]
    top = scores[0]
    for own in scores[1:]:
        top = torch.maximum(top, own)
    below = sum((own - top).exp() for own in scores)
    above = sum((s - top).exp()[..., None] * v[:, :, None] for s, v in zip(scores, values))
    return above / below[..., None], top + below.log()


@wrong("attention_in_tiles", "holds-too-much")
def outputs_of_all_tiles_in_a_list(q, tiles):
    result, *rest = [of_a_tile(q, k, v) for k, v in tiles]
    for tile in rest:
        result = merged_both(*result, *tile)
    return result


of_before = {}


@wrong("attention_in_tiles", "keeps-state")
def goes_on_where_q_is_the_same(q, tiles):
    for k, v in tiles:
        tile = of_a_tile(q, k, v)
        if of_before.get("q") is q:
            tile = merged_both(*of_before["result"], *tile)
        of_before.update(q=q, result=tile)
    return of_before["result"]


@wrong("attention_in_tiles", "no-gradient")
def what_came_before_detached(q, tiles):
    out, lse = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:]:
        out, lse = merged_both(out.detach(), lse.detach(), *of_a_tile(q, k, v))
    return out, lse


@wrong("attention_in_tiles", "no-gradient")
def keys_without_a_gradient(q, tiles):
    result = None
    for k, v in tiles:
        tile = of_a_tile(q, k.detach(), v)
        result = merged_both(*result, *tile) if result else tile
    return result


@wrong("attention_in_tiles", "gradient")
def shares_without_a_gradient(q, tiles):
    out, lse = of_a_tile(q, *tiles[0])
    for k, v in tiles[1:]:
        own, its_lse = of_a_tile(q, k, v)
        share = (lse - its_lse).sigmoid().detach()[..., None]
        out, lse = share * out + (1 - share) * own, torch.logaddexp(lse, its_lse)
    return out, lse


@wrong("attention_in_tiles", "no-gradient")
def measured_without_gradient(q, tiles):
    with torch.no_grad():
        result = None
        for k, v in tiles:
            tile = of_a_tile(q, k, v)
            result = merged_both(*result, *tile) if result else tile
    return result


@right("attention_in_tiles")
def half_by_half(q, tiles):
    if len(tiles) == 1:
        return of_a_tile(q, *tiles[0])
    half = len(tiles) // 2
    return merged_both(*half_by_half(q, tiles[:half]), *half_by_half(q, tiles[half:]))


@right("attention_in_tiles")
def first_then_the_rest(q, tiles):
    (k, v), *rest = tiles
    out, lse = of_a_tile(q, k, v)
    for k, v in rest:
        out, lse = merged_both(out, lse, *of_a_tile(q, k, v))
    return out, lse


@right("attention_in_tiles")
def from_a_query_that_has_seen_nothing(q, tiles):
    out = q.new_zeros(*q.shape[:-1], tiles[0][1].shape[-1])
    lse = q.new_full(q.shape[:-1], -math.inf)
    for k, v in tiles:
        own = F.scaled_dot_product_attention(q, k, v)
        out, lse = merged_both(out, lse, own, torch.logsumexp(scores_of(q, k), dim=-1))
    return out, lse


@right("attention_in_tiles")
def with_the_running_greatest(q, tiles):
    top, above, below = None, 0, 0
    for k, v in tiles:
        scores = scores_of(q, k)
        highest = scores.amax(-1, keepdim=True)
        if top is not None:
            highest = torch.maximum(top, highest)
            shrink = (top - highest).exp()
            above, below = above * shrink, below * shrink
        raised = (scores - highest).exp()
        above, below = above + raised @ v, below + raised.sum(-1, keepdim=True)
        top = highest
    return above / below, (top + below.log())[..., 0]


@right("attention_in_tiles")
def one_product_at_a_time(q, tiles):
    def of_one(k, v):
        scores = (q[..., :, None, :] * k[..., None, :, :]).sum(-1) * q.shape[-1] ** -0.5
        weights = scores.softmax(-1)
        return (weights[..., None] * v[..., None, :, :]).sum(-2), scores.logsumexp(-1)

    out, lse = of_one(*tiles[-1])
    for k, v in reversed(tiles[:-1]):
        own, its_lse = of_one(k, v)
        both = torch.stack([lse, its_lse])
        share = both.softmax(0).unsqueeze(-1)
        out, lse = (share * torch.stack([out, own])).sum(0), both.logsumexp(0)
    return [out, lse]


@right("attention_in_tiles")
def shares_put_side_by_side(q, tiles):
    result = None
    for k, v in tiles:
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.size(-1))
        own = torch.einsum("bhqk,bhkv->bhqv", scores.softmax(-1), v), scores.logsumexp(-1)
        if result is None:
            result = own
            continue
        lses = torch.cat([result[1].unsqueeze(-1), own[1].unsqueeze(-1)], dim=-1)
        a, b = lses.softmax(-1).split(1, dim=-1)
        result = a * result[0] + b * own[0], lses.logsumexp(-1)
    return result


# --- attend_to_real_tokens ------------------------------------------------------------------


@wrong("attend_to_real_tokens", "as given")
def still_there(q, k, v, is_padding):
    mask = is_padding[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("attend_to_real_tokens", "as given")
def additive_the_wrong_way(q, k, v, is_padding):
    mask = torch.zeros(is_padding.shape).masked_fill(~is_padding, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])


@wrong("attend_to_real_tokens", "mask-ignored")
def mask_thrown_out(q, k, v, is_padding):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


@wrong("attend_to_real_tokens", "mask-added")
def mask_as_float(q, k, v, is_padding):
    mask = is_padding[:, None, None, :].to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("attend_to_real_tokens", "mask-added-inverted")
def inverted_mask_as_float(q, k, v, is_padding):
    mask = 1.0 - is_padding[:, None, None, :].float()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("attend_to_real_tokens", "values-zeroed")
def empties_the_values(q, k, v, is_padding):
    real = (~is_padding)[:, None, :, None]
    return F.scaled_dot_product_attention(q, k, v * real)


@wrong("attend_to_real_tokens", "keys-zeroed")
def empties_the_keys(q, k, v, is_padding):
    real = (~is_padding)[:, None, :, None]
    return F.scaled_dot_product_attention(q, k * real, v)


@wrong("attend_to_real_tokens", "scaled-twice")
def scales_once_more(q, k, v, is_padding):
    q = q / q.shape[-1] ** 0.5
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~is_padding[:, None, None])


@wrong("attend_to_real_tokens", "raised")
def two_axes_only(q, k, v, is_padding):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~is_padding)


@wrong("attend_to_real_tokens", "raised")
def minus_on_a_boolean(q, k, v, is_padding):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=1 - is_padding[:, None, None])


@wrong("attend_to_real_tokens", "padding-leaks")
def a_weak_penalty(q, k, v, is_padding):
    mask = is_padding[:, None, None].float() * -3
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("attend_to_real_tokens", "differs")
def causal_too(q, k, v, is_padding):
    queries, keys = q.shape[2], k.shape[2]
    mask = torch.ones(queries, keys).tril().bool() & ~is_padding[:, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@right("attend_to_real_tokens")
def one_tilde(q, k, v, is_padding):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~is_padding[:, None, None, :])


@right("attend_to_real_tokens")
def additive(q, k, v, is_padding):
    mask = torch.zeros(is_padding.shape).masked_fill(is_padding, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])


@wrong("attend_to_real_tokens", "nan-rows")
def by_hand_without_a_rescue(q, k, v, is_padding):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(is_padding[:, None, None], -math.inf).softmax(-1) @ v


@wrong("attend_to_real_tokens", "large-negative")
def a_billion_below(q, k, v, is_padding):
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(is_padding[:, None, None], -1e9)
    return scores.softmax(-1) @ v


@wrong("attend_to_real_tokens", "differs")
def padding_is_at_the_end(q, k, v, is_padding):
    real = (~is_padding).sum(1)
    mask = torch.arange(k.shape[2]) < real[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])


@wrong("attend_to_real_tokens", "raised")
def cut_to_the_first(q, k, v, is_padding):
    real = ~is_padding[0]
    return F.scaled_dot_product_attention(
        q, k[:, :, real], v[:, :, real], attn_mask=~is_padding[:, None, None]
    )


@right("attend_to_real_tokens")
def by_hand(q, k, v, is_padding):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    masked = scores.masked_fill(is_padding[:, None, None], -math.inf)
    return masked.softmax(-1).nan_to_num() @ v


@right("attend_to_real_tokens")
def one_sequence_at_a_time(q, k, v, is_padding):
    outs = []
    for i, padded in enumerate(is_padding):
        real = ~padded
        one = F.scaled_dot_product_attention(q[i], k[i][:, real], v[i][:, real])
        outs.append(one)
    return torch.stack(outs)


@wrong("attend_to_real_tokens", "keys-and-values-zeroed")
def padding_made_zero(q, k, v, is_padding):
    real = ~is_padding[:, None, :, None]
    return F.scaled_dot_product_attention(q, k * real, v * real)


@wrong("attend_to_real_tokens", "differs")
def padded_queries_silenced(q, k, v, is_padding):
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=~is_padding[:, None, None])
    if q.shape[2] == k.shape[2]:
        out = out.masked_fill(is_padding[:, None, :, None], 0)
    return out


@right("attend_to_real_tokens")
def padding_out_of_keys_and_values(q, k, v, is_padding):
    low = torch.zeros_like(is_padding, dtype=q.dtype)
    low = low.masked_fill(is_padding, torch.finfo(q.dtype).min)[:, None, None]
    values = v.masked_fill(is_padding[:, None, :, None], 0)
    return F.scaled_dot_product_attention(q, k, values, attn_mask=low)


@wrong("attention_scores", "scale-by-heads")
def root_of_the_second_axis(q, k):
    return q @ k.mT / math.sqrt(q.shape[1])


def _told(attend, x, differ, change=lambda token: torch.randn(len(token))):
    before, columns = attend(x), []
    for j in range(len(x)):
        copy = x.clone()
        copy[j] = change(x[j])
        columns.append(differ(attend(copy), before))
    return torch.stack(columns, 1)


def _moved(after, before):
    return ((after - before).abs() > 1e-6).any(-1)


@wrong("leaks", "weak-leaks-missed")
def by_the_root_mean_square(attend, x):
    return _told(attend, x, lambda a, b: (a - b).square().mean(-1).sqrt() > 1e-6)


@wrong("leaks", "sizes-compared")
def compares_sizes(attend, x):
    return _told(attend, x, lambda a, b: ((a.abs() - b.abs()).abs() > 1e-6).any(-1))


@wrong("leaks", "numbers-left-alone")
def doubled_or_ones_if_all_zero(attend, x):
    change = lambda token: 2.5 * token if token.any() else torch.ones_like(token)  # noqa: E731
    return _told(attend, x, _moved, change)


@wrong("leaks", "still-there")
def changes_pile_up(attend, x):
    old, copy, columns = attend(x), x.clone(), []
    for j in range(len(x)):
        copy[j] = torch.randn(x.shape[1])
        new = attend(copy)
        columns.append(_moved(new, old))
        old = new
    return torch.stack(columns, 1)


@wrong("attention_in_tiles", "differs")
def begins_at_minus_a_thousand(q, tiles):
    out = q.new_zeros(*q.shape[:-1], tiles[0][1].shape[-1])
    lse = q.new_full(q.shape[:-1], -1000.0)
    for k, v in tiles:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        new_lse = scores.logsumexp(-1)
        both = torch.logaddexp(lse, new_lse)
        new = scores.softmax(-1) @ v
        out = out * (lse - both).exp()[..., None] + new * (new_lse - both).exp()[..., None]
        lse = both
    return out, lse
