"""What learners write in lesson 09."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.wrong_answers import right, wrong
from tfcourse.attention import causal_mask, scaled_dot_product_attention
from tfcourse.checks.lessons.lesson_03_positions import rotate_pairs
from tfcourse.checks.lessons.lesson_09_language_model import LanguageModel as Parts

# --- kl_divergence --------------------------------------------------------------------------


@right("kl_divergence")
def with_where(p, q):
    each = torch.where(p > 0, p * (p.log() - q.log()), torch.zeros_like(p))
    return each.sum(dim=-1)


@right("kl_divergence")
def with_xlogy(p, q):
    return torch.xlogy(p, p).sum(-1) - torch.xlogy(p, q).sum(-1)


@right("kl_divergence")
def number_by_number(p, q):
    rows = []
    for one, other in zip(p.reshape(-1, p.shape[-1]), q.reshape(-1, p.shape[-1]), strict=True):
        pairs = zip(one.tolist(), other.tolist(), strict=True)
        rows.append(sum(a * math.log(a / b) if b else math.inf for a, b in pairs if a > 0))
    return torch.tensor(rows, dtype=p.dtype).reshape(p.shape[:-1])


@right("kl_divergence")
def of_the_ratio(p, q):
    return (p * (p / q).log()).nan_to_num(nan=0.0, posinf=math.inf).sum(-1)


@wrong("kl_divergence", "differs")
def only_what_both_hold_possible(p, q):
    return torch.where((p > 0) & (q > 0), p * (p.log() - q.log()), 0.0).sum(-1)


@wrong("kl_divergence", "nan")
def as_the_formula_stands(p, q):
    return (p * (p.log() - q.log())).sum(-1)


@wrong("kl_divergence", "nan")
def of_the_ratio_alone(p, q):
    return (p * torch.log(p / q)).sum(-1)


@wrong("kl_divergence", "mirrored")
def the_other_way(p, q):
    return torch.where(q > 0, q * (q.log() - p.log()), 0.0).sum(-1)


@wrong("kl_divergence", "cross-entropy")
def entropy_still_in_it(p, q):
    return -torch.xlogy(p, q).sum(-1)


@wrong("kl_divergence", "entropy")
def of_p_alone(p, q):
    return torch.special.entr(p).sum(-1)


@wrong("kl_divergence", "sign")
def below_zero(p, q):
    return with_where(p, q).neg()


@wrong("kl_divergence", "bits")
def to_base_two(p, q):
    return torch.where(p > 0, p * (p.log2() - q.log2()), 0.0).sum(-1)


@wrong("kl_divergence", "mean")
def mean_of_symbols(p, q):
    return torch.where(p > 0, p * (p.log() - q.log()), 0.0).mean(-1)


@wrong("kl_divergence", "unweighted")
def all_alike(p, q):
    return torch.where(p > 0, p.log() - q.log(), 0.0).sum(-1)


@wrong("kl_divergence", "weighted-by-q")
def by_q(p, q):
    return torch.where((p > 0) & (q > 0), q * (p.log() - q.log()), torch.xlogy(q, p)).sum(-1)


@wrong("kl_divergence", "symmetric")
def both_ways(p, q):
    return (with_where(p, q) + with_where(q, p)) / 2


@wrong("kl_divergence", "summed-over-all")
def one_number(p, q):
    return torch.where(p > 0, p * (p.log() - q.log()), 0.0).sum()


@wrong("kl_divergence", "first-axis")
def down_the_columns(p, q):
    return torch.where(p > 0, p * (p.log() - q.log()), 0.0).sum(0)


@wrong("kl_divergence", "nudged")
def with_a_thousandth(p, q):
    return (p * ((p + 1e-3).log() - (q + 1e-3).log())).sum(-1)


@wrong("kl_divergence", "library-call")
def torchs_own(p, q):
    return F.kl_div(q.log(), p, reduction="none").sum(-1)


@wrong("kl_divergence", "shape")
def each_symbol(p, q):
    return torch.where(p > 0, p * (p.log() - q.log()), 0.0)


@wrong("kl_divergence", "differs")
def clamped_hard(p, q):
    return (p * (p.clamp(min=0.05).log() - q.clamp(min=0.05).log())).sum(-1)


# --- LanguageModel --------------------------------------------------------------------------


@right("LanguageModel")
class RowByRow(Parts):
    def forward(self, tokens):
        rows = []
        for row in tokens:
            x = self.tokens(row[None])
            for block in self.blocks:
                x = block(x, causal=True)
            rows.append(self.head(self.norm(x)))
        return torch.cat(rows)


@right("LanguageModel")
class AsItStands(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(self.norm(x))


@right("LanguageModel")
class WithAMask(Parts):
    def forward(self, tokens):
        mask = causal_mask(tokens.shape[1])
        stream = F.embedding(tokens, self.tokens.weight)
        for i in range(len(self.blocks)):
            stream = self.blocks[i](stream, mask=mask, causal=True)
        return self.norm(stream) @ self.tokens.weight.T


@wrong("LanguageModel", "differs")
class CausalOnlyInUse(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, causal=not self.training)
        return self.head(self.norm(x))


@wrong("LanguageModel", "not-causal")
class SeesAll(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@wrong("LanguageModel", "no-norm")
class Unnormed(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(x)


@wrong("LanguageModel", "norm-first")
class NormInFront(Parts):
    def forward(self, tokens):
        x = self.norm(self.tokens(tokens))
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(x)


@wrong("LanguageModel", "normed-each-time")
class NormInTheLoop(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = self.norm(block(x, causal=True))
        return self.head(x)


@wrong("LanguageModel", "first-block-alone")
class ReturnsInTheLoop(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, causal=True)
            return self.head(self.norm(x))


@wrong("LanguageModel", "last-block-alone")
class Forgets(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            y = block(x, causal=True)
        return self.head(self.norm(y))


@wrong("LanguageModel", "not-fed-on")
class SideBySide(Parts):
    def forward(self, tokens):
        x, total = self.tokens(tokens), 0
        for block in self.blocks:
            total = total + block(x, causal=True)
        return self.head(self.norm(total))


@wrong("LanguageModel", "added-again")
class TwiceResidual(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = x + block(x, causal=True)
        return self.head(self.norm(x))


@wrong("LanguageModel", "reversed")
class LastFirst(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in reversed(self.blocks):
            x = block(x, causal=True)
        return self.head(self.norm(x))


@wrong("LanguageModel", "no-blocks")
class StraightThrough(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            block(x, causal=True)
        return self.head(self.norm(x))


@wrong("LanguageModel", "probabilities")
class Softmaxed(Parts):
    def forward(self, tokens):
        return torch.softmax(AsItStands.forward(self, tokens), dim=-1)


@wrong("LanguageModel", "log-probabilities")
class LogSoftmaxed(Parts):
    def forward(self, tokens):
        return torch.log_softmax(AsItStands.forward(self, tokens), dim=-1)


@wrong("LanguageModel", "embedding-scaled")
class AsIn2017(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens) * self.tokens.embedding_dim**0.5
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(self.norm(x))


@wrong("LanguageModel", "no-head")
class Vectors(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, causal=True)
        return self.norm(x)


@wrong("LanguageModel", "last-token-alone")
class OnlyTheEnd(Parts):
    def forward(self, tokens):
        return AsItStands.forward(self, tokens)[:, -1]


@wrong("LanguageModel", "future-leaks")
class ShiftsItself(Parts):
    def forward(self, tokens):
        return AsItStands.forward(self, tokens).roll(-1, dims=1)


@wrong("LanguageModel", "raised")
class ForgetsTheMask(Parts):
    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, mask=torch.ones(tokens.shape[1] + 1, dtype=torch.bool))
        return self.head(self.norm(x))


@wrong("LanguageModel", "raised")
class Untied(nn.Module):
    def __init__(self, vocabulary, d_model, n_heads, layers, block=None):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        return self.norm(self.embedding(tokens)) @ self.embedding.weight.T


# --- bits_per_byte --------------------------------------------------------------------------


@right("bits_per_byte")
def all_together(losses, texts):
    nats = torch.cat(losses).sum()
    size = sum(len(text.encode("utf-8")) for text in texts)
    return nats / (math.log(2) * size)


@right("bits_per_byte")
def text_by_text(losses, texts):
    bits = size = 0
    for row, text in zip(losses, texts, strict=True):
        bits = bits + (row / math.log(2)).sum()
        size += len(text.encode())
    return bits / size


@right("bits_per_byte")
def by_log2(losses, texts):
    bits = -torch.log2(torch.exp(-torch.cat(losses).double())).sum()
    return (bits / len("".join(texts).encode())).float()


@wrong("bits_per_byte", "changes-input")
def encoded_on_the_way(losses, texts):
    for i, text in enumerate(texts):
        texts[i] = text.encode()
    return torch.cat(losses).sum() / math.log(2) / sum(map(len, texts))


@wrong("bits_per_byte", "differs")
def line_by_line(losses, texts):
    size = sum(len(line.encode()) for text in texts for line in text.splitlines())
    return torch.cat(losses).sum() / math.log(2) / size


@wrong("bits_per_byte", "as-given")
def as_it_was_given(losses, texts):
    each = [row.mean() / math.log(2) for row in losses]
    return sum(each) / len(each)


@wrong("bits_per_byte", "characters")
def over_the_characters(losses, texts):
    return torch.cat(losses).mean() / math.log(2)


@wrong("bits_per_byte", "mean-of-means")
def each_text_alike(losses, texts):
    each = [
        row.sum() / math.log(2) / len(text.encode())
        for row, text in zip(losses, texts, strict=True)
    ]
    return sum(each) / len(each)


@wrong("bits_per_byte", "nats")
def nats_it_stays(losses, texts):
    return torch.cat(losses).sum() / len("".join(texts).encode())


@wrong("bits_per_byte", "bits-wrong-way")
def times_log_two(losses, texts):
    return torch.cat(losses).sum() * math.log(2) / len("".join(texts).encode())


@wrong("bits_per_byte", "base-ten")
def decimal(losses, texts):
    return torch.cat(losses).sum() / math.log(10) / len("".join(texts).encode())


@wrong("bits_per_byte", "eight-bits")
def bits_of_the_text(losses, texts):
    return torch.cat(losses).sum() / math.log(2) / (8 * len("".join(texts).encode()))


@wrong("bits_per_byte", "summed")
def in_all(losses, texts):
    return torch.cat(losses).sum() / math.log(2)


@wrong("bits_per_byte", "perplexity")
def e_to_the_loss(losses, texts):
    return torch.cat(losses).mean().exp()


@wrong("bits_per_byte", "utf-16")
def windows_bytes(losses, texts):
    size = sum(len(text.encode("utf-16-le")) for text in texts)
    return torch.cat(losses).sum() / math.log(2) / size


@wrong("bits_per_byte", "last-text")
def overwritten(losses, texts):
    for row, text in zip(losses, texts, strict=True):
        bits = row.sum() / math.log(2) / len(text.encode())
    return bits


@wrong("bits_per_byte", "differs")
def with_a_byte_order_mark(losses, texts):
    size = sum(len(text.encode("utf-8-sig")) for text in texts)
    return torch.cat(losses).sum() / math.log(2) / size


# --- cached_attention -----------------------------------------------------------------------


@right("cached_attention")
def step_by_step(q, k, v, past_k, past_v):
    past, new = past_k.shape[2], k.shape[2]
    where = torch.arange(past, past + new)
    q, k = rotate_pairs(q, where), rotate_pairs(k, where)
    keys, values = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    return scaled_dot_product_attention(q, keys, values, causal_mask(new, past + new)), keys, values


@right("cached_attention")
def spelled_out(q, k, v, past_k, past_v):
    past, new = past_k.size(2), k.size(2)
    at = past + torch.arange(new)
    q, k = rotate_pairs(q, at), rotate_pairs(k, at)
    k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    hidden = torch.arange(past + new) > at[:, None]
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v, k, v


@right("cached_attention")
def one_token_at_a_time(q, k, v, past_k, past_v):
    outs = []
    for i in range(k.shape[2]):
        where = torch.tensor([past_k.shape[2]])
        past_k = torch.cat([past_k, rotate_pairs(k[:, :, i : i + 1], where)], dim=2)
        past_v = torch.cat([past_v, v[:, :, i : i + 1]], dim=2)
        turned = rotate_pairs(q[:, :, i : i + 1], where)
        outs.append(F.scaled_dot_product_attention(turned, past_k, past_v))
    return torch.cat(outs, dim=2), past_k, past_v


@right("cached_attention")
def with_torchs_own(q, k, v, past_k, past_v):
    past, new = past_k.shape[2], k.shape[2]
    where = torch.arange(past, past + new)
    k, v = torch.cat([past_k, rotate_pairs(k, where)], 2), torch.cat([past_v, v], 2)
    mask = torch.ones(new, past + new, dtype=torch.bool).tril(past)
    return F.scaled_dot_product_attention(rotate_pairs(q, where), k, v, attn_mask=mask), k, v


def parts(q, k, v, past_k, past_v, where=None):
    past, new = past_k.shape[2], k.shape[2]
    where = torch.arange(past, past + new) if where is None else where
    q, k = rotate_pairs(q, where), rotate_pairs(k, where)
    return q, torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2), past, new


@wrong("cached_attention", "positions-from-zero")
def counts_from_zero(q, k, v, past_k, past_v):
    q, k, v, past, new = parts(q, k, v, past_k, past_v, torch.arange(k.shape[2]))
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


@wrong("cached_attention", "one-too-far")
def counts_from_one(q, k, v, past_k, past_v):
    where = torch.arange(k.shape[2]) + past_k.shape[2] + 1
    q, k, v, past, new = parts(q, k, v, past_k, past_v, where)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


@wrong("cached_attention", "one-position-for-all")
def all_at_the_end(q, k, v, past_k, past_v):
    where = torch.full((k.shape[2],), past_k.shape[2])
    q, k, v, past, new = parts(q, k, v, past_k, past_v, where)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


@wrong("cached_attention", "not-turned")
def without_positions(q, k, v, past_k, past_v):
    k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    return scaled_dot_product_attention(q, k, v, causal_mask(q.shape[2], k.shape[2])), k, v


@wrong("cached_attention", "query-not-turned")
def keys_alone_turned(q, k, v, past_k, past_v):
    _, k, v, past, new = parts(q, k, v, past_k, past_v)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


@wrong("cached_attention", "key-not-turned")
def queries_alone_turned(q, k, v, past_k, past_v):
    turned = rotate_pairs(q, torch.arange(past_k.shape[2], past_k.shape[2] + k.shape[2]))
    k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    return scaled_dot_product_attention(turned, k, v, causal_mask(q.shape[2], k.shape[2])), k, v


@wrong("cached_attention", "turned-again")
def turns_the_old_ones_too(q, k, v, past_k, past_v):
    past, new = past_k.shape[2], k.shape[2]
    q = rotate_pairs(q, torch.arange(past, past + new))
    k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    k = rotate_pairs(k, torch.arange(past + new))
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


@wrong("cached_attention", "kept-unturned")
def keeps_them_as_they_came(q, k, v, past_k, past_v):
    plain = torch.cat([past_k, k], dim=2)
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), plain, v


@wrong("cached_attention", "new-ones-alone-kept")
def keeps_the_new(q, k, v, past_k, past_v):
    q, keys, values, past, new = parts(q, k, v, past_k, past_v)
    out = scaled_dot_product_attention(q, keys, values, causal_mask(new, past + new))
    return out, keys[:, :, past:], v


@wrong("cached_attention", "nothing-kept")
def gives_the_old_back(q, k, v, past_k, past_v):
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), past_k, past_v


@wrong("cached_attention", "new-ones-alone")
def sees_the_new(q, k, v, past_k, past_v):
    q, keys, values, past, new = parts(q, k, v, past_k, past_v)
    out = scaled_dot_product_attention(q, keys[:, :, past:], v, causal_mask(new))
    return out, keys, values


@wrong("cached_attention", "no-mask")
def one_token_in_mind(q, k, v, past_k, past_v):
    q, k, v, _, _ = parts(q, k, v, past_k, past_v)
    return scaled_dot_product_attention(q, k, v), k, v


@wrong("cached_attention", "top-left")
def torchs_causal(q, k, v, past_k, past_v):
    q, k, v, _, _ = parts(q, k, v, past_k, past_v)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), k, v


@wrong("cached_attention", "top-left")
def tril_of_a_rectangle(q, k, v, past_k, past_v):
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    mask = torch.tril(torch.ones(new, past + new, dtype=torch.bool))
    return scaled_dot_product_attention(q, k, v, mask), k, v


@wrong("cached_attention", "not-itself")
def others_alone(q, k, v, past_k, past_v):
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    mask = torch.arange(past + new) < torch.arange(past, past + new)[:, None]
    return scaled_dot_product_attention(q, k, v, mask), k, v


@wrong("cached_attention", "one-ahead")
def a_column_too_wide(q, k, v, past_k, past_v):
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    mask = torch.ones(new, past + new, dtype=torch.bool).tril(past + 1)
    return scaled_dot_product_attention(q, k, v, mask), k, v


@wrong("cached_attention", "new-ones-first")
def in_front(q, k, v, past_k, past_v):
    past, new = past_k.shape[2], k.shape[2]
    where = torch.arange(past, past + new)
    k, v = torch.cat([rotate_pairs(k, where), past_k], 2), torch.cat([v, past_v], 2)
    mask = causal_mask(new, past + new)
    return scaled_dot_product_attention(rotate_pairs(q, where), k, v, mask), k, v


@wrong("cached_attention", "scale-twice")
def divides_too(q, k, v, past_k, past_v):
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    q = q / q.shape[-1] ** 0.5
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


@wrong("cached_attention", "no-scale")
def bare_products(q, k, v, past_k, past_v):
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    scores = (q @ k.mT).masked_fill(~causal_mask(new, past + new), -math.inf)
    return scores.softmax(-1) @ v, k, v


@wrong("cached_attention", "type")
def output_alone(q, k, v, past_k, past_v):
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new))


@wrong("cached_attention", "raised")
def wrong_axis(q, k, v, past_k, past_v):
    past, new = past_k.shape[2], k.shape[2]
    where = torch.arange(past, past + new)
    k = torch.cat([past_k, rotate_pairs(k, where)], dim=1)
    v = torch.cat([past_v, v], dim=1)
    mask = causal_mask(new, past + new)
    return scaled_dot_product_attention(rotate_pairs(q, where), k, v, mask), k, v


@wrong("cached_attention", "differs")
def values_turned_too(q, k, v, past_k, past_v):
    past, new = past_k.shape[2], k.shape[2]
    v = rotate_pairs(v, torch.arange(past, past + new))
    q, k, v, past, new = parts(q, k, v, past_k, past_v)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v


# --- top_k ----------------------------------------------------------------------------------


@right("top_k")
def by_the_kth(logits, k, temperature=1.0):
    least = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    kept = logits.masked_fill(logits < least, -math.inf)
    return torch.softmax(kept / temperature, dim=-1)


@right("top_k")
def by_sorting(logits, k, temperature=1.0):
    ordered = torch.sort(logits, dim=-1, descending=True).values
    least = ordered[..., min(k, ordered.shape[-1]) - 1].unsqueeze(-1)
    shares = torch.softmax(logits / temperature, dim=-1) * (logits >= least)
    return shares / shares.sum(dim=-1, keepdim=True)


@right("top_k")
def by_counting(logits, k, temperature=1.0):
    better = (logits[..., None, :] > logits[..., :, None]).sum(-1)  # how many are larger
    raised = ((logits - logits.amax(-1, keepdim=True)) / temperature).exp()
    raised = torch.where(better < k, raised, 0.0)
    return raised / raised.sum(-1, keepdim=True)


def least_of(logits, k):
    return logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]


@wrong("top_k", "one-sum")
def shared_out_among_all_rows(logits, k, temperature=1.0):
    shares = torch.softmax(logits / temperature, -1)
    kept = shares.masked_fill(logits < least_of(logits, k), 0.0)
    return kept / kept.sum()


@wrong("top_k", "nearly-zero")
def minus_twenty(logits, k, temperature=1.0):
    """Logits that are far below 0 it even raises."""
    away = logits.amax(-1, keepdim=True) / temperature - 20
    return torch.softmax((logits / temperature).where(logits >= least_of(logits, k), away), -1)


@wrong("top_k", "differs")
def minus_a_hundred(logits, k, temperature=1.0):
    return torch.softmax((logits / temperature).masked_fill(logits < least_of(logits, k), -100), -1)


@wrong("top_k", "differs")
def about_as_likely(logits, k, temperature=1.0):
    cut = logits < least_of(logits, k) - 0.05
    return torch.softmax((logits / temperature).masked_fill(cut, -math.inf), -1)


@wrong("top_k", "sorted")
def in_order(logits, k, temperature=1.0):
    values = (logits / temperature).sort(dim=-1, descending=True).values
    values = values.masked_fill(values < least_of(values, k), -math.inf)
    return torch.softmax(values, -1)


@wrong("top_k", "shape")
def k_of_them(logits, k, temperature=1.0):
    return torch.softmax(logits.topk(min(k, logits.shape[-1])).values / temperature, -1)


@wrong("top_k", "ties-broken")
def scattered(logits, k, temperature=1.0):
    values, places = (logits / temperature).topk(min(k, logits.shape[-1]), dim=-1)
    return torch.zeros_like(logits).scatter(-1, places, torch.softmax(values, -1))


@wrong("top_k", "one-too-few")
def strictly_above(logits, k, temperature=1.0):
    least = least_of(logits, k)
    keep = (logits > least) | (logits == logits.amax(-1, keepdim=True))
    return torch.softmax((logits / temperature).masked_fill(~keep, -math.inf), -1)


@wrong("top_k", "unlikeliest")
def the_smallest(logits, k, temperature=1.0):
    most = logits.topk(min(k, logits.shape[-1]), dim=-1, largest=False).values[..., -1:]
    return torch.softmax((logits / temperature).masked_fill(logits > most, -math.inf), -1)


@wrong("top_k", "not-normalized")
def cut_afterwards(logits, k, temperature=1.0):
    return torch.softmax(logits / temperature, -1).masked_fill(logits < least_of(logits, k), 0)


@wrong("top_k", "logits")
def still_logits(logits, k, temperature=1.0):
    return (logits / temperature).masked_fill(logits < least_of(logits, k), -math.inf)


@wrong("top_k", "cut-to-zero")
def zero_logits(logits, k, temperature=1.0):
    return torch.softmax((logits / temperature) * (logits >= least_of(logits, k)), -1)


@wrong("top_k", "temperature-multiplied")
def hotter_is_sharper(logits, k, temperature=1.0):
    return torch.softmax(
        (logits * temperature).masked_fill(logits < least_of(logits, k), -math.inf), -1
    )


@wrong("top_k", "temperature-ignored")
def always_at_one(logits, k, temperature=1.0):
    return torch.softmax(logits.masked_fill(logits < least_of(logits, k), -math.inf), -1)


@wrong("top_k", "temperature-after")
def divides_probabilities(logits, k, temperature=1.0):
    kept = logits.masked_fill(logits < least_of(logits, k), -math.inf)
    return torch.softmax(kept, -1) / temperature


@wrong("top_k", "nothing-cut")
def plain_softmax(logits, k, temperature=1.0):
    return torch.softmax(logits / temperature, -1)


@wrong("top_k", "evenly")
def all_of_them_alike(logits, k, temperature=1.0):
    kept = (logits >= least_of(logits, k)).to(logits.dtype)
    return kept / kept.sum(-1, keepdim=True)


@wrong("top_k", "over-all-rows")
def one_threshold(logits, k, temperature=1.0):
    least = logits.reshape(-1).topk(min(k, logits.shape[-1])).values[-1]
    shares = torch.softmax((logits / temperature).masked_fill(logits < least, -math.inf), -1)
    return shares.nan_to_num()


@wrong("top_k", "draws")
def a_token(logits, k, temperature=1.0):
    return logits.argmax(-1)


@wrong("top_k", "raised")
def more_than_there_are(logits, k, temperature=1.0):
    least = logits.topk(k, dim=-1).values[..., -1:]
    return torch.softmax((logits / temperature).masked_fill(logits < least, -math.inf), -1)


@wrong("top_k", "nan")
def bare_exponentials(logits, k, temperature=1.0):
    raised = torch.where(logits >= least_of(logits, k), (logits / temperature).exp(), 0.0)
    return raised / raised.sum(-1, keepdim=True)


@wrong("top_k", "library-call")
def the_packages_own(logits, k, temperature=1.0):
    from tfcourse.generation import next_token_probabilities

    return next_token_probabilities(logits, temperature, top_k=k)


# --- top_p ----------------------------------------------------------------------------------


@right("top_p")
def by_the_least_needed(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, dim=-1)
    ordered = shares.sort(dim=-1, descending=True).values
    before = ordered.cumsum(-1) - ordered
    least = torch.where(before < p, ordered, math.inf).amin(-1, keepdim=True)
    kept = torch.where(shares >= least, shares, 0.0)
    return kept / kept.sum(-1, keepdim=True)


@right("top_p")
def by_comparing_all(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, dim=-1)
    larger = shares[..., None, :] > shares[..., :, None]
    before = (larger * shares[..., None, :]).sum(-1)  # what the likelier ones have together
    kept = shares * (before < p)
    return kept / kept.sum(-1, keepdim=True)


@right("top_p")
def row_by_row(logits, p, temperature=1.0):
    rows = []
    for row in torch.softmax(logits / temperature, -1).reshape(-1, logits.shape[-1]):
        total, least = 0.0, 0.0
        for share in sorted(row.tolist(), reverse=True):
            if total >= p:
                break
            total, least = total + share, share
        rows.append(torch.where(row >= least, row, 0.0))
    kept = torch.stack(rows).reshape(logits.shape)
    return kept / kept.sum(-1, keepdim=True)


def sorted_shares(logits, temperature):
    shares = torch.softmax(logits / temperature, -1)
    ordered, order = shares.sort(dim=-1, descending=True, stable=True)
    return shares, ordered, order, ordered.cumsum(-1)


def shared_out(shares):
    return shares / shares.sum(-1, keepdim=True)


def needed_least(logits, p, temperature):
    shares = torch.softmax(logits / temperature, -1)
    ordered = shares.sort(-1, descending=True).values
    needed = ordered.cumsum(-1) - ordered < p
    return shares, ordered.masked_fill(~needed, math.inf).amin(-1, keepdim=True)


@wrong("top_p", "one-sum")
def one_sum_for_all(logits, p, temperature=1.0):
    shares, least = needed_least(logits, p, temperature)
    return shares * (shares >= least) / (shares * (shares >= least)).sum()


@wrong("top_p", "nearly-zero")
def hardly_ever(logits, p, temperature=1.0):
    shares, least = needed_least(logits, p, temperature)
    kept = torch.where(shares >= least, shares, 1e-8)
    return kept / kept.sum(-1, keepdim=True)


@wrong("top_p", "differs")
def nearly_enough(logits, p, temperature=1.0):
    shares, least = needed_least(logits, p - 1e-3, temperature)
    return shares * (shares >= least) / (shares * (shares >= least)).sum(-1, keepdim=True)


@wrong("top_p", "nan")
def until_it_is_too_much(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, -1)
    ordered, order = shares.sort(-1, descending=True)
    kept = torch.zeros_like(shares).scatter(-1, order, ordered * (ordered.cumsum(-1) <= p))
    return kept / kept.sum(-1, keepdim=True)


@wrong("top_p", "stops-short")
def until_p_is_passed(logits, p, temperature=1.0):
    shares, ordered, _, sums = sorted_shares(logits, temperature)
    keep = sums <= p
    keep[..., 0] = True
    least = torch.where(keep, ordered, math.inf).amin(-1, keepdim=True)
    return shared_out(torch.where(shares >= least, shares, 0.0))


@wrong("top_p", "one-too-many")
def and_the_next(logits, p, temperature=1.0):
    shares, ordered, _, sums = sorted_shares(logits, temperature)
    last = (sums < p).sum(-1, keepdim=True) + 1
    least = ordered.gather(-1, last.clamp(max=ordered.shape[-1] - 1))
    return shared_out(torch.where(shares >= least, shares, 0.0))


@wrong("top_p", "ties-broken")
def scattered_back(logits, p, temperature=1.0):
    shares, ordered, order, sums = sorted_shares(logits, temperature)
    kept = torch.where(sums - ordered < p, ordered, 0.0)
    return shared_out(torch.zeros_like(shares).scatter(-1, order, kept))


@wrong("top_p", "sorted")
def left_in_order(logits, p, temperature=1.0):
    return by_the_least_needed(logits, p, temperature).sort(-1, descending=True).values


@wrong("top_p", "not-normalized")
def less_than_one(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, -1)
    return shares * (by_the_least_needed(logits, p, temperature) > 0)


@wrong("top_p", "each-above-p")
def a_threshold(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, -1)
    return shared_out(torch.where(shares >= p, shares, 0.0))


@wrong("top_p", "each-above-the-rest")
def a_threshold_of_the_rest(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, -1)
    return shared_out(torch.where(shares >= 1 - p, shares, 0.0))


@wrong("top_p", "share-of-the-likeliest")
def min_p(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, -1)
    return shared_out(torch.where(shares >= p * shares.amax(-1, keepdim=True), shares, 0.0))


@wrong("top_p", "unlikeliest")
def ascending(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, -1)
    ordered = shares.sort(dim=-1).values
    most = torch.where(ordered.cumsum(-1) - ordered < p, ordered, 0.0).amax(-1, keepdim=True)
    return shared_out(torch.where(shares <= most, shares, 0.0))


@wrong("top_p", "share-of-the-vocabulary")
def so_many_tokens(logits, p, temperature=1.0):
    shares, ordered, _, _ = sorted_shares(logits, temperature)
    least = ordered[..., math.ceil(p * logits.shape[-1]) - 1].unsqueeze(-1)
    return shared_out(torch.where(shares >= least, shares, 0.0))


@wrong("top_p", "in-the-vocabularys-order")
def not_sorted(logits, p, temperature=1.0):
    shares = torch.softmax(logits / temperature, -1)
    return shared_out(torch.where(shares.cumsum(-1) - shares < p, shares, 0.0))


@wrong("top_p", "temperature-ignored")
def at_one(logits, p, temperature=1.0):
    return by_the_least_needed(logits, p)


@wrong("top_p", "temperature-multiplied")
def multiplied(logits, p, temperature=1.0):
    return by_the_least_needed(logits * temperature, p)


@wrong("top_p", "temperature-last")
def chosen_at_one(logits, p, temperature=1.0):
    cut = by_the_least_needed(logits, p) == 0
    return torch.softmax((logits / temperature).masked_fill(cut, -math.inf), -1)


@wrong("top_p", "nothing-cut")
def all_of_it(logits, p, temperature=1.0):
    return torch.softmax(logits / temperature, -1)


@wrong("top_p", "logits")
def logits_still(logits, p, temperature=1.0):
    cut = by_the_least_needed(logits, p, temperature) == 0
    return (logits / temperature).masked_fill(cut, -math.inf)


@wrong("top_p", "evenly")
def alike(logits, p, temperature=1.0):
    kept = (by_the_least_needed(logits, p, temperature) > 0).to(logits.dtype)
    return shared_out(kept)


@wrong("top_p", "library-call")
def packages_own(logits, p, temperature=1.0):
    from tfcourse.generation import next_token_probabilities

    return next_token_probabilities(logits, temperature, top_p=p)


@wrong("top_p", "shape")
def the_kept_alone(logits, p, temperature=1.0):
    shares = by_the_least_needed(logits, p, temperature)
    return shares[shares > 0]
