"""What learners write in lesson 02."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.wrong_answers import right, wrong

# --- split_heads ----------------------------------------------------------------------------


@wrong("split_heads", "reshaped")
def viewed_at_once(x, n_heads):
    batch, tokens, d_model = x.shape
    return x.view(batch, n_heads, tokens, d_model // n_heads)


@wrong("split_heads", "interleaved")
def d_head_before_heads(x, n_heads):
    batch, tokens, d_model = x.shape
    return x.view(batch, tokens, d_model // n_heads, n_heads).permute(0, 3, 1, 2)


@wrong("split_heads", "interleaved")
def every_nth_number(x, n_heads):
    return torch.stack([x[..., h::n_heads] for h in range(n_heads)], dim=1)


@wrong("split_heads", "not-transposed")
def transpose_forgotten(x, n_heads):
    batch, tokens, d_model = x.shape
    return x.view(batch, tokens, n_heads, -1)


@wrong("split_heads", "head-first")
def stacked_in_front(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1))


@wrong("split_heads", "transposed-too-far")
def keys_already_turned(x, n_heads):
    return x.view(*x.shape[:2], n_heads, -1).transpose(1, 2).transpose(2, 3)


@wrong("split_heads", "list")
def a_list_of_pieces(x, n_heads):
    return list(x.chunk(n_heads, dim=-1))


@wrong("split_heads", "stacked-last")
def heads_at_the_end(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=-1)


@wrong("split_heads", "reversed")
def counted_from_the_end(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1)[::-1], dim=1)


@wrong("split_heads", "raised")
def three_heads_for_ever(x, n_heads):
    return x.view(x.shape[0], x.shape[1], 3, 4).transpose(1, 2)


@wrong("split_heads", "shape")
def heads_of_d_model(x, n_heads):
    return x[:, None].expand(-1, n_heads, -1, -1)


@wrong("split_heads", "no-gradient")
def copied_out_of_the_graph(x, n_heads):
    out = torch.stack(x.chunk(n_heads, dim=-1), dim=1)
    return out.detach().clone()


@right("split_heads")
def view_and_transpose(x, n_heads):
    batch, tokens, d_model = x.shape
    return x.view(batch, tokens, n_heads, d_model // n_heads).transpose(1, 2)


@right("split_heads")
def chunks_stacked(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


@right("split_heads")
def slices(x, n_heads):
    d = x.shape[-1] // n_heads
    return torch.stack([x[:, :, h * d : (h + 1) * d] for h in range(n_heads)], dim=1)


@right("split_heads")
def unflatten_and_permute(x, n_heads):
    return x.unflatten(2, (n_heads, -1)).permute(0, 2, 1, 3)


# --- merge_heads ----------------------------------------------------------------------------


@wrong("merge_heads", "reshaped")
def reshape_alone(x):
    batch, heads, tokens, d_head = x.shape
    return x.reshape(batch, tokens, heads * d_head)


@wrong("merge_heads", "interleaved")
def heads_behind_d_head(x):
    batch, heads, tokens, d_head = x.shape
    return x.permute(0, 2, 3, 1).reshape(batch, tokens, d_head * heads)


@wrong("merge_heads", "averaged")
def mean_of_heads(x):
    return torch.mean(x, dim=1)


@wrong("merge_heads", "summed")
def sum_of_heads(x):
    return sum(x.unbind(1))


@wrong("merge_heads", "tokens-and-heads")
def one_row_a_head(x):
    return x.flatten(1, 2)


@wrong("merge_heads", "not-merged")
def only_transposed(x):
    return x.permute(0, 2, 1, 3)


@wrong("merge_heads", "reversed")
def last_head_first(x):
    return torch.cat(x.unbind(1)[::-1], dim=-1)


@wrong("merge_heads", "first-head")
def one_head_kept(x):
    return x.select(1, 0)


@wrong("merge_heads", "raised")
def view_after_transpose(x):
    batch, heads, tokens, d_head = x.shape
    return x.transpose(1, 2).view(batch, tokens, heads * d_head)


@wrong("merge_heads", "returned-none")
def forgot_to_return(x):
    x.transpose(1, 2).flatten(2)


@right("merge_heads")
def transpose_and_reshape(x):
    batch, heads, tokens, d_head = x.shape
    return x.transpose(1, 2).reshape(batch, tokens, heads * d_head)


@right("merge_heads")
def contiguous_and_view(x):
    batch, heads, tokens, d_head = x.shape
    return x.transpose(1, 2).contiguous().view(batch, tokens, -1)


@right("merge_heads")
def concatenated(x):
    return torch.cat([x[:, h] for h in range(x.shape[1])], dim=-1)


# --- MultiHeadAttention ---------------------------------------------------------------------


class Skeleton(nn.Module):
    """What the lesson gives; a learner's class fills in the rest."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def heads(self, t):
        return t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def weights(self, q, k, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1).nan_to_num()

    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.out((self.weights(q, k, mask) @ v).transpose(1, 2).flatten(2))


@wrong("MultiHeadAttention", "split-by-reshape")
class SplitByReshape(Skeleton):
    def heads(self, t):
        return t.reshape(t.shape[0], self.n_heads, t.shape[1], -1)


@wrong("MultiHeadAttention", "merged-without-transpose")
class MergedWithoutTranspose(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.out((self.weights(q, k, mask) @ v).reshape(x.shape))


@wrong("MultiHeadAttention", "no-output-projection")
class NoOutputProjection(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return (self.weights(q, k, mask) @ v).transpose(1, 2).flatten(2)


@wrong("MultiHeadAttention", "no-scale")
class Unscaled(Skeleton):
    def weights(self, q, k, mask):
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1)


@wrong("MultiHeadAttention", "scale-by-d-model")
class ScaledByDModel(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=x.shape[-1] ** -0.5)
        return self.out(out.transpose(1, 2).flatten(2))


@wrong("MultiHeadAttention", "softmax-over-queries")
class SoftmaxOverQueries(Skeleton):
    def weights(self, q, k, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-2).nan_to_num()


@wrong("MultiHeadAttention", "mask-ignored")
class MaskIgnored(Skeleton):
    def weights(self, q, k, mask):
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)


@wrong("MultiHeadAttention", "always-causal")
class AlwaysCausal(Skeleton):
    def weights(self, q, k, mask):
        if mask is None:
            mask = torch.ones(q.shape[2], k.shape[2]).tril().bool()
        return super().weights(q, k, mask)


@wrong("MultiHeadAttention", "q-k-swapped")
class QueriesAndKeysSwapped(Skeleton):
    def forward(self, x, mask=None):
        k, q, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.out((self.weights(q, k, mask) @ v).transpose(1, 2).flatten(2))


@wrong("MultiHeadAttention", "order-of-qkv")
class ValuesFirst(Skeleton):
    def forward(self, x, mask=None):
        v, k, q = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.out((self.weights(q, k, mask) @ v).transpose(1, 2).flatten(2))


@wrong("MultiHeadAttention", "one-head")
class OneHead(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        if mask is not None and mask.dim() == 4:
            mask = mask[:, 0]
        return self.out(self.weights(q, k, mask) @ v)


@wrong("MultiHeadAttention", "raised")
class NumberOfHeadsForgotten(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        return x.unflatten(-1, (self.n_heads, -1))


@wrong("MultiHeadAttention", "raised")
class OtherNames(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.query = nn.Linear(d_model, d_model)


@wrong("MultiHeadAttention", "raised")
class OneProjectionTooMany(Skeleton):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.extra = nn.Linear(d_model, d_model)


@wrong("MultiHeadAttention", "raised")
class BatchHardCoded(Skeleton):
    def heads(self, t):
        return t.view(2, 5, self.n_heads, -1).transpose(1, 2)


@wrong("MultiHeadAttention", "batch-mixes")
class SequencesMixed(Skeleton):
    def forward(self, x, mask=None):
        return super().forward(x, mask) + x.mean(0, keepdim=True)


@wrong("MultiHeadAttention", "type")
class WeightsToo(Skeleton):
    def forward(self, x, mask=None):
        return super().forward(x, mask), None


@wrong("MultiHeadAttention", "differs")
class AddsTheInput(Skeleton):
    def forward(self, x, mask=None):
        return x + super().forward(x, mask)


@wrong("MultiHeadAttention", "differs")
class DropoutInEvaluation(Skeleton):
    def forward(self, x, mask=None):
        return F.dropout(super().forward(x, mask), 0.1)


@right("MultiHeadAttention")
class WithABuffer(Skeleton):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.register_buffer("scale", torch.tensor((d_model // n_heads) ** -0.5))


@right("MultiHeadAttention")
class SpeltOut(Skeleton):
    pass


@right("MultiHeadAttention")
class WithTheKernel(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(out.transpose(1, 2).reshape(x.shape))


@right("MultiHeadAttention")
class HeadByHead(Skeleton):
    def forward(self, x, mask=None):
        d = x.shape[-1] // self.n_heads
        q, k, v = self.qkv(x).chunk(3, -1)
        own = mask[:, 0] if mask is not None and mask.dim() == 4 else mask
        heads = []
        for h in range(self.n_heads):
            cut = slice(h * d, (h + 1) * d)
            heads.append(self.weights(q[..., cut], k[..., cut], own) @ v[..., cut])
        return self.out(torch.cat(heads, -1))


@right("MultiHeadAttention")
class ByEinsum(Skeleton):
    def forward(self, x, mask=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_heads, -1).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / (d // self.n_heads) ** 0.5
        if mask is not None:
            scores = torch.where(mask, scores, torch.tensor(-torch.inf))
        heads = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)
        return self.out(heads.reshape(b, t, d))


# --- cross_attention ------------------------------------------------------------------------


def crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None, *, attend=None, merge=True):
    q, k, v = (
        t.unflatten(-1, (n_heads, -1)).transpose(1, 2)
        for t in (x @ w_q, context @ w_k, context @ w_v)
    )
    out = (attend or F.scaled_dot_product_attention)(q, k, v, mask)
    return out.transpose(1, 2).flatten(2) if merge else out


@wrong("cross_attention", "no-output-projection")
def w_o_unused(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask)


@wrong("cross_attention", "mask-ignored")
def mask_unused(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads) @ w_o


@wrong("cross_attention", "mask-inverted")
def mask_turned(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    mask = None if mask is None else ~mask
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


def plain(scale):
    def attend(q, k, v, mask):
        scores = q @ k.mT * scale(q)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1) @ v

    return attend


@wrong("cross_attention", "no-scale")
def cross_unscaled(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    attend = plain(lambda q: 1)
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask, attend=attend) @ w_o


@wrong("cross_attention", "scale-by-d-model")
def cross_scaled_by_width(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    attend = plain(lambda q: x.shape[-1] ** -0.5)
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask, attend=attend) @ w_o


@wrong("cross_attention", "one-head")
def never_split(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    own = None if mask is None else mask[:, 0]
    return F.scaled_dot_product_attention(x @ w_q, context @ w_k, context @ w_v, own) @ w_o


@wrong("cross_attention", "causal")
def triangle_added(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    causal = torch.ones(x.shape[1], context.shape[1]).tril().bool()
    mask = causal if mask is None else causal & mask
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "merged-without-transpose")
def reshaped_heads(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    out = crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask, merge=False)
    return out.reshape(x.shape) @ w_o


@wrong("cross_attention", "values-from-keys")
def w_v_unused(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, context, w_q, w_k, w_k, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "raised")
def values_from_x(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, x, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "raised")
def the_two_swapped(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(context, x, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@right("cross_attention")
def with_the_kernel(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@right("cross_attention")
def spelt_out(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    attend = plain(lambda q: q.shape[-1] ** -0.5)
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask, attend=attend) @ w_o


@right("cross_attention")
def head_by_head(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    own = None if mask is None else mask[:, 0]
    heads = [
        F.scaled_dot_product_attention(x @ q, context @ k, context @ v, own)
        for q, k, v in zip(*(w.chunk(n_heads, 1) for w in (w_q, w_k, w_v)), strict=True)
    ]
    return torch.cat(heads, -1) @ w_o


# --- grouped_query_attention ----------------------------------------------------------------


@wrong("grouped_query_attention", "wrong-order")
def tiled(q, k, v, mask=None):
    times = q.size(1) // k.size(1)
    k, v = torch.cat([k] * times, dim=1), torch.cat([v] * times, dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("grouped_query_attention", "first-head")
def always_head_zero(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], attn_mask=mask)


@wrong("grouped_query_attention", "heads-averaged")
def one_mean_head(q, k, v, mask=None):
    k, v = k.mean(1, keepdim=True), v.mean(1, keepdim=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("grouped_query_attention", "queries-averaged")
def one_query_a_group(q, k, v, mask=None):
    q = torch.stack([g.mean(1) for g in q.chunk(k.shape[1], dim=1)], dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("grouped_query_attention", "mask-ignored")
def mask_not_passed(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@wrong("grouped_query_attention", "mask-inverted")
def mask_the_other_way(q, k, v, mask=None):
    mask = None if mask is None else mask.logical_not()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


@wrong("grouped_query_attention", "no-scale")
def grouped_unscaled(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0, enable_gqa=True)


@wrong("grouped_query_attention", "keys-only")
def values_in_another_order(q, k, v, mask=None):
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(times, 1), v.repeat(1, times, 1, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("grouped_query_attention", "raised")
def not_repeated(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ v


@wrong("grouped_query_attention", "raised")
def three_times_for_ever(q, k, v, mask=None):
    k, v = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@right("grouped_query_attention")
def interleaved(q, k, v, mask=None):
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@right("grouped_query_attention")
def queries_in_groups(q, k, v, mask=None):
    grouped = q.unflatten(1, (k.shape[1], -1))  # (batch, kv_heads, group, queries, d_head)
    scores = grouped @ k[:, :, None].mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return (scores.softmax(-1) @ v[:, :, None]).flatten(1, 2)


@right("grouped_query_attention")
def loop_over_heads(q, k, v, mask=None):
    group = q.shape[1] // k.shape[1]
    outs = [
        F.scaled_dot_product_attention(q[:, h], k[:, h // group], v[:, h // group], mask)
        for h in range(q.shape[1])
    ]
    return torch.stack(outs, 1)


@right("grouped_query_attention")
def expanded(q, k, v, mask=None):
    group = q.shape[1] // k.shape[1]
    k = k[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)
    v = v[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)
    return F.scaled_dot_product_attention(q, k, v, mask)


# --- head_contributions ---------------------------------------------------------------------


def pieces(w_o, heads):
    return w_o.chunk(heads.shape[1], dim=1)


def contributions(heads, columns):
    return torch.stack([heads[:, i] @ c.T for i, c in enumerate(columns)], dim=1)


@wrong("head_contributions", "summed")
def the_output_itself(heads, w_o):
    return F.linear(heads.transpose(1, 2).flatten(2), w_o)


@wrong("head_contributions", "divided")
def mean_not_sum(heads, w_o):
    return contributions(heads, pieces(w_o, heads)) / heads.shape[1]


@wrong("head_contributions", "same-piece")
def first_columns_for_all(heads, w_o):
    return heads @ w_o[:, : heads.shape[-1]].T


@wrong("head_contributions", "interleaved")
def every_nth_column(heads, w_o):
    n = heads.shape[1]
    return contributions(heads, [w_o[:, i::n] for i in range(n)])


@wrong("head_contributions", "reversed")
def last_piece_first(heads, w_o):
    return contributions(heads, pieces(w_o, heads)[::-1])


@wrong("head_contributions", "heads-last")
def stacked_behind_tokens(heads, w_o):
    return contributions(heads, pieces(w_o, heads)).transpose(1, 2)


@wrong("head_contributions", "left-out")
def output_without_the_head(heads, w_o):
    each = contributions(heads, pieces(w_o, heads))
    return each.sum(1, keepdim=True) - each


@wrong("head_contributions", "batch-and-heads-swapped")
def stacked_in_front_of_the_batch(heads, w_o):
    return torch.stack([heads[:, i] @ c.T for i, c in enumerate(pieces(w_o, heads))])


@wrong("head_contributions", "raised")
def rows_instead_of_columns(heads, w_o):
    return contributions(heads, w_o.chunk(heads.shape[1], dim=0))


@wrong("head_contributions", "raised")
def whole_weight(heads, w_o):
    return F.linear(heads, w_o)


@wrong("head_contributions", "no-gradient")
def without_the_graph(heads, w_o):
    with torch.no_grad():
        return contributions(heads, pieces(w_o, heads))


@right("head_contributions")
def loop_and_stack(heads, w_o):
    return contributions(heads, pieces(w_o, heads))


@right("head_contributions")
def one_einsum(heads, w_o):
    return torch.einsum("bhtd,ohd->bhto", heads, w_o.unflatten(1, heads.shape[1::2]))


@right("head_contributions")
def others_put_to_zero(heads, w_o):
    keep = torch.eye(heads.shape[1])
    each = [F.linear((heads * one[:, None, None]).transpose(1, 2).flatten(2), w_o) for one in keep]
    return torch.stack(each, dim=1)


# --- masked_heads ---------------------------------------------------------------------------


def masked(q, k, v, mask, *, scale=True, fill=-math.inf, merge=True):
    batch, heads, tokens, d_head = q.shape
    scores = q @ k.mT / (d_head**0.5 if scale else 1)
    out = scores.masked_fill(~mask, fill).softmax(-1) @ v
    return out.transpose(1, 2).reshape(batch, tokens, heads * d_head) if merge else out


@wrong("masked_heads", "as given")
def one_axis_too_many(q, k, v, mask):
    return masked(q, k, v, mask.unsqueeze(1))


@wrong("masked_heads", "as given")
def one_axis_too_many_elsewhere(q, k, v, mask):
    return masked(q, k, v, mask[None])


@wrong("masked_heads", "mask-ignored")
def no_mask_at_all(q, k, v, mask):
    return masked(q, k, v, torch.tensor(True))


@wrong("masked_heads", "mask-inverted")
def forbidden_kept(q, k, v, mask):
    return masked(q, k, v, ~mask, fill=-1e9)


@wrong("masked_heads", "merged-by-reshape")
def transpose_taken_out(q, k, v, mask):
    batch, heads, tokens, d_head = q.shape
    return masked(q, k, v, mask, merge=False).reshape(batch, tokens, heads * d_head)


@wrong("masked_heads", "no-scale")
def scale_lost(q, k, v, mask):
    return masked(q, k, v, mask, scale=False)


@wrong("masked_heads", "masked-with-zero")
def zero_for_infinity(q, k, v, mask):
    return masked(q, k, v, mask, fill=0)


@wrong("masked_heads", "mask-transposed")
def mask_turned_round(q, k, v, mask):
    return masked(q, k, v, mask.transpose(-1, -2))


@wrong("masked_heads", "not-merged")
def heads_left_apart(q, k, v, mask):
    return masked(q, k, v, mask, merge=False)


@wrong("masked_heads", "raised")
def mask_squeezed_away(q, k, v, mask):
    return masked(q, k, v, mask[0, 0, 0])[:, :, : q.shape[-1]] @ k


@wrong("masked_heads", "differs")
def a_large_number_too_small(q, k, v, mask):
    return masked(q, k, v, mask, fill=-3.0)


@right("masked_heads")
def axis_left_out(q, k, v, mask):
    return masked(q, k, v, mask)


@right("masked_heads")
def with_torchs_kernel(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


@right("masked_heads")
def mask_squeezed(q, k, v, mask):
    return masked(q, k, v, mask.squeeze(0).squeeze(0))


@right("masked_heads")
def mask_spread_over_heads(q, k, v, mask):
    return masked(q, k, v, mask.expand(q.shape[0], q.shape[1], -1, -1))
