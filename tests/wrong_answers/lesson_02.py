"""What learners write in lesson 02."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.wrong_answers import right, wrong

# --- what goes wrong inside any attention ---------------------------------------------------


def by_hand(q, k, v, mask=None, *, divide=None, axis=-1, blocked=-math.inf):
    """Attention with one line changed."""
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    scores = scores / (math.sqrt(k.size(-1)) if divide is None else divide)
    if mask is not None:
        scores = torch.where(mask, scores, torch.full_like(scores, blocked))
    return F.softmax(scores, dim=axis) @ v


def already_scaled(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q / q.shape[-1] ** 0.5, k, v, attn_mask=mask)


def twice_softmaxed(q, k, v, mask=None):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return F.softmax(F.softmax(scores, -1), -1) @ v


def mask_lost(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v)


def mask_turned_over(q, k, v, mask=None):
    allowed = None if mask is None else torch.logical_not(mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


def mask_of_head_zero(q, k, v, mask=None):
    if mask is not None and mask.ndim == 4:
        mask = mask[:, 0].unsqueeze(1)
    return F.scaled_dot_product_attention(q, k, v, mask)


def mask_of_query_zero(q, k, v, mask=None):
    if mask is not None:
        mask = mask.select(-2, 0).unsqueeze(-2)
    return F.scaled_dot_product_attention(q, k, v, mask)


def mask_of_sequence_zero(q, k, v, mask=None):
    if mask is not None and mask.ndim == 4:
        mask = mask[0]
    return F.scaled_dot_product_attention(q, k, v, mask)


def any_mask_is_causal(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)


def causal_by_default(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)


def causal_for_ever(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def mask_as_a_number(q, k, v, mask=None):
    if mask is not None:
        mask = mask.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def cut_out_afterwards(q, k, v, mask=None):
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v


def one_empty_head_empties_all(q, k, v, mask=None):
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    if mask is not None:
        empty = ~mask.expand(*q.shape[:3], k.shape[2]).any(-1)
        out = out.masked_fill(empty.any(1)[:, None, :, None], 0.0)
    return out


def keys_as_values(q, k, v, mask=None):
    return F.scaled_dot_product_attention(query=q, key=v, value=k, attn_mask=mask)


MISTAKES = {
    "no-scale": lambda q, k, v, mask=None: by_hand(q, k, v, mask, divide=1),
    "scaled-twice": already_scaled,
    "softmax-over-queries": lambda q, k, v, mask=None: by_hand(q, k, v, mask, axis=-2),
    "softmax-over-heads": lambda q, k, v, mask=None: by_hand(q, k, v, mask, axis=1),
    "softmax-twice": twice_softmaxed,
    "mask-ignored": mask_lost,
    "mask-inverted": mask_turned_over,
    "mask-first-head": mask_of_head_zero,
    "mask-first-row": mask_of_query_zero,
    "mask-first-sequence": mask_of_sequence_zero,
    "own-triangle": any_mask_is_causal,
    "always-causal": causal_by_default,
    "causal-whatever": causal_for_ever,
    "masked-with-zero": lambda q, k, v, mask=None: by_hand(q, k, v, mask, blocked=0.0),
    "mask-added": mask_as_a_number,
    "masked-after-softmax": cut_out_afterwards,
    "nothing-averaged": lambda q, k, v, mask=None: by_hand(q, k, v, mask, blocked=-1e9),
    "nothing-in-all-heads": one_empty_head_empties_all,
    "k-v-swapped": keys_as_values,
    # not known by name, but told as what they are
    "nothing-nan": by_hand,
    "differs": lambda q, k, v, mask=None: by_hand(q, k, v, mask, blocked=-100.0),
}


def in_every_form(exercise, form, unnamed=()):
    """Marks every mistake, made inside one form of attention, which may not name all of them."""
    for diagnosis, attend in MISTAKES.items():
        answer = form(attend)
        answer.__name__ = f"inside_{diagnosis.replace('-', '_')}"
        wrong(exercise, "differs" if diagnosis in unnamed else diagnosis)(answer)


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


@wrong("split_heads", "differs")
def at_most_eight_heads(x, n_heads):
    heads = min(n_heads, 8)
    out = x.unflatten(-1, (n_heads, -1)).transpose(1, 2).clone()
    out[:, heads:] = 0
    return out


@wrong("split_heads", "shape")
def single_axes_squeezed(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2).squeeze()


@wrong("split_heads", "raised")
def as_it_lies_in_memory(x, n_heads):
    batch, tokens, d_model = x.shape
    return x.view(-1).view(batch, tokens, n_heads, d_model // n_heads).transpose(1, 2)


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


@wrong("split_heads", "transposed-first")
def swapped_before_the_cut(x, n_heads):
    batch, tokens, d_model = x.shape
    return x.transpose(1, 2).reshape(batch, n_heads, tokens, d_model // n_heads)


@right("split_heads")
def swapped_cut_swapped_back(x, n_heads):
    return x.mT.unflatten(1, (n_heads, -1)).mT


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


@wrong("merge_heads", "raised")
def viewed_where_it_happens_to_fit(x):
    batch, heads, tokens, d_head = x.shape
    rows = x.view(batch, heads, tokens * d_head)  # fails on what is not contiguous
    return rows.view(x.shape).transpose(1, 2).flatten(2)


@wrong("merge_heads", "shape")
def squeezed(x):
    return x.transpose(1, 2).flatten(2).squeeze(0)


@wrong("merge_heads", "no-gradient")
def copied_into_zeros(x):
    batch, heads, tokens, d_head = x.shape
    out = torch.zeros(batch, tokens, heads * d_head, dtype=x.dtype)
    for h in range(heads):
        out[..., h * d_head : (h + 1) * d_head] = x[:, h].detach()
    return out


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
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            return scores.softmax(-1) * mask
        return scores.softmax(-1)

    def attend(self, q, k, v, mask=None):
        return self.weights(q, k, mask) @ v

    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.out(self.attend(q, k, v, mask).transpose(1, 2).flatten(2))


in_every_form(
    "MultiHeadAttention",
    lambda attend: type("Answer", (Skeleton,), {"attend": lambda self, *qkvm: attend(*qkvm)}),
)


@wrong("MultiHeadAttention", "keeps-state")
class HeadsOnTheClass(Skeleton):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        del self.n_heads
        HeadsOnTheClass.n_heads = n_heads


@wrong("MultiHeadAttention", "keeps-state")
class FirstMaskForEver(Skeleton):
    def forward(self, x, mask=None):
        if not hasattr(self, "mask"):
            self.mask = mask
        return super().forward(x, self.mask)


@wrong("MultiHeadAttention", "keeps-state")
class FirstWeightsForEver(Skeleton):
    def forward(self, x, mask=None):
        if not hasattr(self, "parts"):
            self.parts = [w.detach().clone() for w in self.qkv.weight.chunk(3)]
        biases = self.qkv.bias.chunk(3)
        q, k, v = (self.heads(x @ w.T + b) for w, b in zip(self.parts, biases, strict=True))
        return self.out(self.attend(q, k, v, mask).transpose(1, 2).flatten(2))


@right("MultiHeadAttention")
class CountsItsCalls(Skeleton):
    calls = 0

    def forward(self, x, mask=None):
        CountsItsCalls.calls += 1
        self.last_input = x
        return super().forward(x, mask)


@wrong("MultiHeadAttention", "interleaved")
class HeadsBehindDHead(Skeleton):
    def heads(self, t):
        return t.view(*t.shape[:2], -1, self.n_heads).permute(0, 3, 1, 2)


@wrong("MultiHeadAttention", "cut-after-split")
class CutAfterTheSplit(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = self.heads(self.qkv(x)).split(x.shape[-1] // self.n_heads, dim=-1)
        return self.out(self.attend(q, k, v, mask).transpose(1, 2).flatten(2))


@wrong("MultiHeadAttention", "split-before-projection")
class SplitBeforeTheProjection(Skeleton):
    def forward(self, x, mask=None):
        weights, biases = self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)
        d, found = x.shape[-1] // self.n_heads, []
        for h in range(self.n_heads):
            cut = slice(h * d, (h + 1) * d)
            q, k, v = (
                F.linear(x[..., cut], w[cut, cut], b[cut])[:, None]
                for w, b in zip(weights, biases, strict=True)
            )
            own = mask
            if mask is not None and mask.dim() == 4 and mask.shape[1] > 1:
                own = mask[:, h : h + 1]
            found.append(self.attend(q, k, v, own)[:, 0])
        return self.out(torch.cat(found, -1))


@wrong("MultiHeadAttention", "merged-interleaved")
class MergedBehindDHead(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.out(self.attend(q, k, v, mask).permute(0, 2, 3, 1).reshape(x.shape))


@wrong("MultiHeadAttention", "out-transposed")
class OutTransposed(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        merged = self.attend(q, k, v, mask).transpose(1, 2).flatten(2)
        return F.linear(merged, self.out.weight.T, self.out.bias)


@wrong("MultiHeadAttention", "order-kvq")
class QueriesLast(Skeleton):
    def forward(self, x, mask=None):
        k, v, q = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.out(self.attend(q, k, v, mask).transpose(1, 2).flatten(2))


@wrong("MultiHeadAttention", "order-vqk")
class ValuesThenQueries(Skeleton):
    def forward(self, x, mask=None):
        v, q, k = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.out(self.attend(q, k, v, mask).transpose(1, 2).flatten(2))


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


@wrong("MultiHeadAttention", "scale-by-d-model")
class ScaledByDModel(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=x.shape[-1] ** -0.5)
        return self.out(out.transpose(1, 2).flatten(2))


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
        return self.out(self.attend(q, k, v, mask))


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


@wrong("MultiHeadAttention", "out-bias-lost")
class WeightOfTheOutputAlone(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = (self.heads(t) for t in self.qkv(x).chunk(3, -1))
        return self.attend(q, k, v, mask).transpose(1, 2).flatten(2) @ self.out.weight.T


@wrong("MultiHeadAttention", "nothing-after-projection")
class ZerosBehindTheOutput(Skeleton):
    def forward(self, x, mask=None):
        out = super().forward(x, mask)
        if mask is not None:
            allowed = mask.expand(x.shape[0], self.n_heads, x.shape[1], x.shape[1])
            out = out * allowed.any(-1).any(1)[..., None]
        return out


@wrong("MultiHeadAttention", "residual-added")
class AddsTheInput(Skeleton):
    def forward(self, x, mask=None):
        return x + super().forward(x, mask)


@wrong("MultiHeadAttention", "random")
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
        heads = []
        for h in range(self.n_heads):
            cut, own = slice(h * d, (h + 1) * d), mask
            if mask is not None:
                own = mask.expand(len(x), self.n_heads, x.shape[1], x.shape[1])[:, h]
            heads.append(self.weights(q[..., cut], k[..., cut], own) @ v[..., cut])
        return self.out(torch.cat(heads, -1))


@right("MultiHeadAttention")
class ByEinsum(Skeleton):
    def forward(self, x, mask=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_heads, -1).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / (d // self.n_heads) ** 0.5
        top = scores.amax(-1, keepdim=True).detach()
        if mask is not None:  # a row without any key: nothing over (nearly) nothing
            top = scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).detach()
            top = top.masked_fill(top.isinf(), 0.0)
            scores = scores.masked_fill(~mask, -math.inf)
        each = (scores - top).exp()
        weights = each / each.sum(-1, keepdim=True).clamp(min=1e-30)
        return self.out(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(b, t, d))


@wrong("MultiHeadAttention", "qkv-bias-lost")
class OnlyTheMatrixOfQkv(Skeleton):
    def forward(self, x, mask=None):
        q, k, v = (self.heads(x @ w.T) for w in self.qkv.weight.chunk(3))
        return self.out(self.attend(q, k, v, mask).transpose(1, 2).flatten(2))


@wrong("MultiHeadAttention", "raised")
class ThreeAxesAreSequences(Skeleton):
    def forward(self, x, mask=None):
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        return super().forward(x, mask)


@wrong("MultiHeadAttention", "differs")
class ForbiddenKeysCounted(Skeleton):
    def weights(self, q, k, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is None:
            return scores.softmax(-1)
        nothing = (~mask).sum(-1, keepdim=True) == k.shape[2]
        return scores.masked_fill(~mask, -1e30).softmax(-1).masked_fill(nothing, 0)


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


in_every_form(
    "cross_attention",
    lambda attend: (
        lambda x, context, w_q, w_k, w_v, w_o, n_heads, mask=None: (
            crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask, attend=attend) @ w_o
        )
    ),
    unnamed=("nothing-in-all-heads",),
)


@wrong("cross_attention", "out-transposed")
def w_o_as_linear_has_it(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return F.linear(crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask), w_o)


@wrong("cross_attention", "q-transposed")
def w_q_as_linear_has_it(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, context, w_q.T, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "residual-added")
def plus_x(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return x + crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "k-v-swapped")
def w_k_and_w_v_swapped(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, context, w_q, w_v, w_k, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "split-by-reshape")
def cut_by_reshape(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (
        t.reshape(t.shape[0], n_heads, t.shape[1], -1)
        for t in (x @ w_q, context @ w_k, context @ w_v)
    )
    out = F.scaled_dot_product_attention(q, k, v, mask)
    return out.transpose(1, 2).flatten(2) @ w_o


@wrong("cross_attention", "interleaved")
def every_nth_number_of_a_head(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (
        torch.stack([t[..., h::n_heads] for h in range(n_heads)], 1)
        for t in (x @ w_q, context @ w_k, context @ w_v)
    )
    out = F.scaled_dot_product_attention(q, k, v, mask)
    return out.transpose(1, 2).flatten(2) @ w_o


@wrong("cross_attention", "scale-by-d-model")
def cross_scaled_by_width(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    def attend(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask, scale=x.shape[-1] ** -0.5)

    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask, attend=attend) @ w_o


@wrong("cross_attention", "one-head")
def never_split(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    own = mask[:, 0] if mask is not None and mask.dim() == 4 else mask
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


@wrong("cross_attention", "merged-interleaved")
def heads_merged_behind_d_head(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    out = crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask, merge=False)
    return out.permute(0, 2, 3, 1).reshape(x.shape) @ w_o


@wrong("cross_attention", "differs")
def keys_turned_where_they_fit(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    if w_k.shape[0] == w_k.shape[1]:
        w_k = w_k.T
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "differs")
def self_attention_where_it_fits(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    if x.shape == context.shape:
        context = x
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "differs")
def causal_where_it_is_square(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    if mask is None and x.shape[1] == context.shape[1]:
        mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "values-from-keys")
def w_v_unused(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, context, w_q, w_k, w_k, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "context-unused")
def values_from_x(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, x, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "swapped")
def the_two_swapped(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(context, x, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "queries-from-context")
def x_never_read(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(context, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "values-from-x")
def what_is_found_is_their_own(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    def heads(t):
        return t.unflatten(-1, (n_heads, -1)).transpose(1, 2)

    q, k, v = heads(x @ w_q), heads(context @ w_k), heads(x @ w_v)
    found = by_hand(q, k, v, mask)  # torch's own kernel does not look whether the lengths fit
    return found.transpose(1, 2).flatten(2) @ w_o


@right("cross_attention")
def with_the_kernel(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@right("cross_attention")
def spelt_out(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    def attend(q, k, v, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is None:
            return scores.softmax(-1) @ v
        allowed = mask.expand_as(scores)
        some = allowed.any(-1, keepdim=True)
        weights = scores.masked_fill(~allowed & some, -math.inf).softmax(-1)
        return torch.where(some, weights, 0.0) @ v

    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask, attend=attend) @ w_o


@right("cross_attention")
def products_of_the_weights_first(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    each = (n_heads, w_q.shape[1] // n_heads)
    match = torch.einsum("ihd,jhd->hij", w_q.unflatten(1, each), w_k.unflatten(1, each))
    moved = torch.einsum("jhd,hdo->hjo", w_v.unflatten(1, each), w_o.unflatten(0, each))
    scores = torch.einsum("bqi,hij,bkj->bhqk", x, match, context) / each[1] ** 0.5
    if mask is not None:
        some = mask.any(-1, keepdim=True)
        scores = scores.masked_fill(~mask & some, -math.inf)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~some, 0.0)
    return torch.einsum("bhqk,bkj,hjo->bqo", weights, context, moved)


@right("cross_attention")
def head_by_head(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    heads, d = [], w_q.shape[1] // n_heads
    if mask is not None:
        mask = mask.expand(x.shape[0], n_heads, x.shape[1], context.shape[1])
    for h in range(n_heads):
        q, k, v = (
            t @ w[:, h * d : (h + 1) * d] for t, w in ((x, w_q), (context, w_k), (context, w_v))
        )
        own = None if mask is None else mask[:, h]
        heads.append(F.scaled_dot_product_attention(q, k, v, own))
    return torch.cat(heads, -1) @ w_o


@wrong("cross_attention", "raised")
def three_axes_are_sequences(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    if mask is not None and mask.dim() == 3:
        mask = mask[:, None]
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


@wrong("cross_attention", "differs")
def whole_columns_only(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    if mask is not None and mask.shape[-1] != context.shape[1]:
        mask = None
    return crossed(x, context, w_q, w_k, w_v, w_o, n_heads, mask) @ w_o


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


def shared_by(attend):
    def answer(q, k, v, mask=None):
        times = q.size(1) // k.size(1)
        return attend(q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1), mask)

    return answer


in_every_form("grouped_query_attention", shared_by)


@wrong("grouped_query_attention", "values-only")
def keys_in_another_order(q, k, v, mask=None):
    times = q.shape[1] // k.shape[1]
    k, v = torch.cat([k] * times, 1), v.repeat_interleave(times, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("grouped_query_attention", "mask-per-group")
def mask_shared_like_the_keys(q, k, v, mask=None):
    grouped = q.unflatten(1, (k.shape[1], -1))
    if mask is not None and mask.dim() == 4 and mask.shape[1] > 1:
        mask = mask[:, :: q.shape[1] // k.shape[1]]
    if mask is not None and mask.dim() == 4:
        mask = mask[:, :, None]
    out = F.scaled_dot_product_attention(grouped, *(t[:, :, None] for t in (k, v)), mask)
    return out.flatten(1, 2)


@wrong("grouped_query_attention", "wrong-order")
def groups_cut_the_other_way(q, k, v, mask=None):
    times = q.shape[1] // k.shape[1]
    k, v = (t[:, None].expand(-1, times, -1, -1, -1).flatten(1, 2) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


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
        whole = mask.expand(*q.shape[:3], k.shape[2]).unflatten(1, grouped.shape[1:3])
        weights = scores.masked_fill(~whole, torch.finfo(q.dtype).min).softmax(-1) * whole
    else:
        weights = scores.softmax(-1)
    return (weights @ v[:, :, None]).flatten(1, 2)


@right("grouped_query_attention")
def loop_over_heads(q, k, v, mask=None):
    group = q.shape[1] // k.shape[1]
    outs = []
    for h in range(q.shape[1]):
        own = mask
        if mask is not None:
            own = mask.expand(*q.shape[:3], k.shape[2])[:, h]
        out = F.scaled_dot_product_attention(q[:, h], k[:, h // group], v[:, h // group], own)
        outs.append(out)
    return torch.stack(outs, 1)


@right("grouped_query_attention")
def expanded(q, k, v, mask=None):
    group = q.shape[1] // k.shape[1]
    k = k[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)
    v = v[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)
    return F.scaled_dot_product_attention(q, k, v, mask)


@wrong("grouped_query_attention", "raised")
def only_four_axes_in_groups(q, k, v, mask=None):
    grouped = q.unflatten(1, (k.shape[1], -1))
    scores = grouped @ k[:, :, None].mT / q.shape[-1] ** 0.5
    if mask is not None and mask.dim() == 4:
        mask = mask.expand(-1, q.shape[1], -1, -1).unflatten(1, grouped.shape[1:3])
    if mask is not None:
        weights = scores.masked_fill(~mask, torch.finfo(q.dtype).min).softmax(-1) * mask
    else:
        weights = scores.softmax(-1)
    return (weights @ v[:, :, None]).flatten(1, 2)


@wrong("grouped_query_attention", "one-query-for-a-group")
def mean_query_repeated(q, k, v, mask=None):
    times = q.shape[1] // k.shape[1]
    q = q.unflatten(1, (-1, times)).mean(2)
    q, k, v = (t.repeat_interleave(times, 1) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


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


@wrong("head_contributions", "shared-equally")
def the_same_for_every_head(heads, w_o):
    out = F.linear(heads.transpose(1, 2).flatten(2), w_o) / heads.shape[1]
    return out[:, None].repeat(1, heads.shape[1], 1, 1)


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


@wrong("head_contributions", "running-sum")
def everything_so_far(heads, w_o):
    total, each = 0, []
    for part in contributions(heads, pieces(w_o, heads)).unbind(1):
        total = total + part
        each.append(total)
    return torch.stack(each, 1)


@wrong("head_contributions", "poured")
def weight_viewed_by_head(heads, w_o):
    return torch.einsum("bhtd,hdo->bhto", heads, w_o.reshape(*heads.shape[1::2], -1))


@wrong("head_contributions", "turned")
def tokens_at_the_end(heads, w_o):
    columns = w_o.unflatten(1, heads.shape[1::2])
    return torch.einsum("bhtd,ohd->bhot", heads, columns)


@wrong("head_contributions", "shape")
def batch_of_one_lost(heads, w_o):
    return contributions(heads, pieces(w_o, heads)).squeeze(0)


@wrong("head_contributions", "raised")
def weight_turned_round(heads, w_o):
    return contributions(heads, pieces(w_o.T, heads))


@wrong("head_contributions", "batch-and-heads-swapped")
def stacked_in_front_of_the_batch(heads, w_o):
    return torch.stack([heads[:, i] @ c.T for i, c in enumerate(pieces(w_o, heads))])


@wrong("head_contributions", "one-head-only")
def rows_instead_of_columns(heads, w_o):
    return contributions(heads, w_o.chunk(heads.shape[1], dim=0))


@wrong("head_contributions", "one-head-only")
def whole_weight(heads, w_o):
    return F.linear(heads, w_o)


@wrong("head_contributions", "rows")
def slices_of_rows(heads, w_o):
    d = heads.shape[3]
    each = [heads[:, h] @ w_o[h * d : (h + 1) * d] for h in range(heads.shape[1])]
    return torch.stack(each, dim=1)


@wrong("head_contributions", "no-gradient")
def without_the_graph(heads, w_o):
    with torch.no_grad():
        return contributions(heads, pieces(w_o, heads))


@right("head_contributions")
def loop_and_stack(heads, w_o):
    return contributions(heads, pieces(w_o, heads))


@right("head_contributions")
def growth_of_the_output(heads, w_o):
    d, so_far = heads.shape[3], []
    for n in range(1, heads.shape[1] + 1):
        so_far.append(F.linear(heads[:, :n].transpose(1, 2).flatten(2), w_o[:, : n * d]))
    return torch.stack([now - before for now, before in zip(so_far, [0, *so_far], strict=False)], 1)


@right("head_contributions")
def one_einsum(heads, w_o):
    return torch.einsum("bhtd,ohd->bhto", heads, w_o.unflatten(1, heads.shape[1::2]))


@right("head_contributions")
def others_put_to_zero(heads, w_o):
    keep = torch.eye(heads.shape[1], dtype=heads.dtype)
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
    return masked(q, k, v, ~mask)


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


def in_the_bug(diagnosis, attend):
    def answer(q, k, v, mask):
        return attend(q, k, v, mask).transpose(1, 2).flatten(2)

    answer.__name__ = f"inside_{diagnosis.replace('-', '_')}"
    wrong("masked_heads", diagnosis)(answer)


for _name in (
    "scaled-twice",
    "softmax-over-queries",
    "softmax-twice",
    "mask-first-row",
    "own-triangle",
    "mask-added",
    "masked-after-softmax",
    "differs",
):
    in_the_bug(_name, MISTAKES[_name])


@wrong("masked_heads", "heads-averaged")
def mean_over_the_heads(q, k, v, mask):
    return masked(q, k, v, mask, merge=False).mean(1)


@right("masked_heads")
def any_large_number(q, k, v, mask):
    return masked(q, k, v, mask, fill=-1e9)


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


@wrong("cross_attention", "weights-transposed")
def as_linear_has_them(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q = F.linear(x, w_q).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    k, v = ((context @ w).unflatten(-1, (n_heads, -1)).transpose(1, 2) for w in (w_k, w_v))
    return F.linear(by_hand(q, k, v, mask).transpose(1, 2).flatten(2), w_o)


# --- torch_weights --------------------------------------------------------------------------


@wrong("torch_weights", "nothing-turned")
def stacked_as_they_are(w_q, w_k, w_v, w_o, biases=None):
    state = {"in_proj_weight": torch.vstack([w_q, w_k, w_v]), "out_proj.weight": w_o}
    if biases is not None:
        state["in_proj_bias"] = torch.cat([biases[0], biases[1], biases[2]])
        state["out_proj.bias"] = biases[3]
    return state


def state_of(in_proj, out, biases, in_bias=None, out_bias=None):
    """A state dict as it should be, but for what is handed in."""
    state = {"in_proj_weight": in_proj, "out_proj.weight": out}
    if biases is not None:
        state["in_proj_bias"] = biases[:3].flatten() if in_bias is None else in_bias
        state["out_proj.bias"] = biases[3] if out_bias is None else out_bias
    return state


@wrong("torch_weights", "in-proj-not-turned")
def only_the_last_turned(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat((w_q, w_k, w_v), dim=0), w_o.T, biases)


@wrong("torch_weights", "out-not-turned")
def the_last_forgotten(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat((w_q.T, w_k.T, w_v.T), dim=0), w_o, biases)


@wrong("torch_weights", "out-not-turned")
def turned_twice(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat((w_q, w_k, w_v), dim=1).T, w_o.T.T, biases)


@wrong("torch_weights", "poured")
def side_by_side_and_reshaped(w_q, w_k, w_v, w_o, biases=None):
    d = w_q.shape[0]
    return state_of(torch.hstack([w_q, w_k, w_v]).reshape(3 * d, d), w_o.T, biases)


@wrong("torch_weights", "turned-and-poured")
def turned_as_one(w_q, w_k, w_v, w_o, biases=None):
    rows = torch.cat([w_q, w_k, w_v]).T.contiguous()
    return state_of(rows.view(3 * len(w_q), len(w_q)), w_o.T, biases)


@wrong("torch_weights", "turned-and-poured")
def stacked_along_axis_one(w_q, w_k, w_v, w_o, biases=None):
    rows = torch.stack([w_q.T, w_k.T, w_v.T], 1)
    return state_of(rows.reshape(-1, len(w_q)), w_o.T, biases)


@wrong("torch_weights", "turned-and-poured")
def side_by_side_each_turned(w_q, w_k, w_v, w_o, biases=None):
    rows = torch.cat([w_q.T, w_k.T, w_v.T], 1)
    return state_of(rows.reshape(3 * len(w_q), -1), w_o.T, biases)


@wrong("torch_weights", "rows-in-turn")
def taking_turns(w_q, w_k, w_v, w_o, biases=None):
    rows = [m.T[i] for i in range(len(w_q)) for m in (w_q, w_k, w_v)]
    turns = None if biases is None else biases[:3].T.flatten()
    return state_of(torch.stack(rows), w_o.T, biases, turns)


@wrong("torch_weights", "biases-in-turn")
def biases_taking_turns(w_q, w_k, w_v, w_o, biases=None):
    turns = None if biases is None else biases[:3].mT.flatten()
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases, turns)


@wrong("torch_weights", "q-k-swapped")
def keys_first(w_q, w_k, w_v, w_o, biases=None):
    swapped = None if biases is None else biases[[1, 0, 2]].flatten()
    return state_of(torch.cat([w_k.T, w_q.T, w_v.T]), w_o.T, biases, swapped)


@wrong("torch_weights", "k-v-swapped")
def values_second(w_q, w_k, w_v, w_o, biases=None):
    swapped = None if biases is None else biases[[0, 2, 1]].flatten()
    return state_of(torch.cat([w_q.T, w_v.T, w_k.T]), w_o.T, biases, swapped)


@wrong("torch_weights", "order-vkq")
def from_the_last(w_q, w_k, w_v, w_o, biases=None):
    swapped = None if biases is None else biases[:3].flip(0).flatten()
    return state_of(torch.cat([w_v.T, w_k.T, w_q.T]), w_o.T, biases, swapped)


@wrong("torch_weights", "order-kvq")
def queries_last(w_q, w_k, w_v, w_o, biases=None):
    swapped = None if biases is None else biases[[1, 2, 0]].flatten()
    return state_of(torch.cat([w_k.T, w_v.T, w_q.T]), w_o.T, biases, swapped)


@wrong("torch_weights", "order-vqk")
def values_first(w_q, w_k, w_v, w_o, biases=None):
    swapped = None if biases is None else biases[[2, 0, 1]].flatten()
    return state_of(torch.cat([w_v.T, w_q.T, w_k.T]), w_o.T, biases, swapped)


@wrong("torch_weights", "entry-differs")
def matrices_swapped_without_their_biases(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat([w_k.T, w_q.T, w_v.T]), w_o.T, biases)


@wrong("torch_weights", "entry-differs")
def one_of_three_forgotten(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat([w_q.T, w_k.T, w_v]), w_o.T, biases)


@wrong("torch_weights", "entry-differs")
def keys_twice(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat([w_q.T, w_k.T, w_k.T]), w_o.T, biases)


@wrong("torch_weights", "entry-differs")
def biases_without_the_first(w_q, w_k, w_v, w_o, biases=None):
    rest = None if biases is None else biases[1:].flatten()
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases, rest)


@wrong("torch_weights", "entry-differs")
def out_bias_from_the_front(w_q, w_k, w_v, w_o, biases=None):
    first = None if biases is None else biases[0]
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases, None, first)


@wrong("torch_weights", "entry-differs")
def made_but_never_filled(w_q, w_k, w_v, w_o, biases=None):
    rows = torch.full((3 * len(w_q), len(w_q)), float("nan"))
    rows[: len(w_q)] = w_q.T
    return state_of(rows, w_o.T, biases)


@wrong("torch_weights", "biases-left-out")
def matrices_alone(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, None)


@wrong("torch_weights", "biases-invented")
def biases_of_zeros(w_q, w_k, w_v, w_o, biases=None):
    if biases is None:
        biases = w_q.new_zeros(4, w_q.shape[0])
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases)


@wrong("torch_weights", "unknown-name")
def biases_none(w_q, w_k, w_v, w_o, biases=None):
    state = state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases)
    return {"in_proj_bias": None, "out_proj.bias": None} | state


@wrong("torch_weights", "missing-name")
def biases_of_zeros_forgotten(w_q, w_k, w_v, w_o, biases=None):
    given = biases if biases is not None and biases.any() else None
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, given)


@wrong("torch_weights", "missing-name")
def the_last_not_given(w_q, w_k, w_v, w_o, biases=None):
    state = state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases)
    del state["out_proj.weight"]
    return state


@wrong("torch_weights", "unknown-name")
def heads_told_too(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases) | {"batch_first": True}


@wrong("torch_weights", "names")
def as_our_module_names_them(w_q, w_k, w_v, w_o, biases=None):
    state = {"qkv.weight": torch.cat([w_q, w_k, w_v], dim=1).T, "out.weight": w_o.T}
    if biases is not None:
        state |= {"qkv.bias": biases[:3].flatten(), "out.bias": biases[3]}
    return state


@wrong("torch_weights", "names")
def three_of_their_own(w_q, w_k, w_v, w_o, biases=None):
    state = state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases)
    del state["in_proj_weight"]
    return state | {"q_proj_weight": w_q.T, "k_proj_weight": w_k.T, "v_proj_weight": w_v.T}


@wrong("torch_weights", "names")
def out_without_weight(w_q, w_k, w_v, w_o, biases=None):
    state = state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases)
    state["out_proj"] = state.pop("out_proj.weight")
    return state


@wrong("torch_weights", "entry-shape")
def side_by_side(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T], dim=1), w_o.T, biases)


@wrong("torch_weights", "entry-shape")
def stacked_on_a_new_axis(w_q, w_k, w_v, w_o, biases=None):
    return state_of(torch.stack([w_q.T, w_k.T, w_v.T]), w_o.T, biases)


@wrong("torch_weights", "entry-shape")
def biases_as_a_table(w_q, w_k, w_v, w_o, biases=None):
    table = None if biases is None else biases[:3]
    return state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases, table)


@wrong("torch_weights", "entry-type")
def as_lists(w_q, w_k, w_v, w_o, biases=None):
    rows = torch.cat([w_q.T, w_k.T, w_v.T]).tolist()
    return state_of(rows, w_o.T, biases)


@wrong("torch_weights", "type")
def two_tensors(w_q, w_k, w_v, w_o, biases=None):
    return torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T


@wrong("torch_weights", "type")
def the_module_itself(w_q, w_k, w_v, w_o, biases=None):
    module = nn.MultiheadAttention(len(w_q), 1, bias=biases is not None, batch_first=True)
    module.load_state_dict(state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, biases))
    return module


@wrong("torch_weights", "changes-input")
def turned_in_place(w_q, w_k, w_v, w_o, biases=None):
    for w in (w_q, w_k, w_v, w_o):
        w.t_()
    return state_of(torch.cat([w_q, w_k, w_v]), w_o, biases)


@wrong("torch_weights", "raised")
def asks_a_table_whether_it_is_true(w_q, w_k, w_v, w_o, biases=None):
    state = state_of(torch.cat([w_q.T, w_k.T, w_v.T]), w_o.T, None)
    if biases:
        state |= {"in_proj_bias": biases[:3].flatten(), "out_proj.bias": biases[3]}
    return state


@right("torch_weights")
def side_by_side_then_turned(w_q, w_k, w_v, w_o, biases=None):
    qkv = torch.cat([w_q, w_k, w_v], dim=1)
    state = {"in_proj_weight": qkv.T, "out_proj.weight": w_o.T}
    if biases is not None:
        *three, b_o = biases
        state["in_proj_bias"], state["out_proj.bias"] = torch.cat(three), b_o
    return state


@right("torch_weights")
def turned_one_by_one(w_q, w_k, w_v, w_o, biases=None):
    turned = [w.transpose(0, 1).contiguous() for w in (w_q, w_k, w_v)]
    state = {"out_proj.weight": w_o.t().clone(), "in_proj_weight": torch.vstack(turned)}
    if biases is None:
        return state
    state["out_proj.bias"] = biases[-1]
    state["in_proj_bias"] = torch.cat([biases[0], biases[1], biases[2]], dim=0)
    return state


@right("torch_weights")
def read_off_a_module(w_q, w_k, w_v, w_o, biases=None):
    d = w_q.shape[0]
    module = nn.MultiheadAttention(d, 1, bias=biases is not None, batch_first=True)
    with torch.no_grad():
        for i, w in enumerate((w_q, w_k, w_v)):
            module.in_proj_weight[i * d : (i + 1) * d] = w.T
        module.out_proj.weight.copy_(w_o.T)
        if biases is not None:
            module.in_proj_bias.copy_(biases[:3].reshape(-1))
            module.out_proj.bias.copy_(biases[3])
    return module.state_dict()


@right("torch_weights")
def as_parameters(w_q, w_k, w_v, w_o, biases=None):
    rows = torch.einsum("nio->noi", torch.stack([w_q, w_k, w_v])).flatten(0, 1)
    state = {"in_proj_weight": nn.Parameter(rows), "out_proj.weight": nn.Parameter(w_o.T)}
    if biases is not None:
        state["in_proj_bias"] = nn.Parameter(biases[:3].flatten())
        state["out_proj.bias"] = nn.Parameter(biases[3])
    return state
