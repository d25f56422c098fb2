"""What learners write in lesson 06."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.wrong_answers import right, wrong
from tfcourse.attention import MultiHeadAttention
from tfcourse.feed_forward import FeedForward

# --- TransformerBlock -----------------------------------------------------------------------


class Skeleton(nn.Module):
    """What the lesson gives; a learner's class fills in forward."""

    def __init__(self, d_model, n_heads, d_ff, norm_first):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.attention_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.norm_first = norm_first

    def pre(self, x, mask):
        x = x + self.attention(self.attention_norm(x), mask=mask)
        return x + self.feed_forward(self.feed_forward_norm(x))

    def post(self, x, mask):
        x = self.attention_norm(x + self.attention(x, mask=mask))
        return self.feed_forward_norm(x + self.feed_forward(x))

    def forward(self, x, mask=None):
        return self.pre(x, mask) if self.norm_first else self.post(x, mask)


@wrong("TransformerBlock", "swapped")
class FlagTheWrongWayRound(Skeleton):
    def forward(self, x, mask=None):
        return self.post(x, mask) if self.norm_first else self.pre(x, mask)


@wrong("TransformerBlock", "always-pre")
class FlagForgotten(Skeleton):
    def forward(self, x, mask=None):
        return self.pre(x, mask)


@wrong("TransformerBlock", "always-post")
class AsIn2017(Skeleton):
    def forward(self, x, mask=None):
        return self.post(x, mask)


def see(s, x, mask):
    return s.attention(x, mask=mask)


def no_addition(s, x, mask):
    x = see(s, s.attention_norm(x), mask)
    return s.feed_forward(s.feed_forward_norm(x))


def no_addition_post(s, x, mask):
    x = s.attention_norm(see(s, x, mask))
    return s.feed_forward_norm(s.feed_forward(x))


def attention_replaces(s, x, mask):
    x = see(s, s.attention_norm(x), mask)
    return x + s.feed_forward(s.feed_forward_norm(x))


def attention_replaces_post(s, x, mask):
    x = s.attention_norm(see(s, x, mask))
    return s.feed_forward_norm(x + s.feed_forward(x))


def network_replaces(s, x, mask):
    x = x + see(s, s.attention_norm(x), mask)
    return s.feed_forward(s.feed_forward_norm(x))


def network_replaces_post(s, x, mask):
    x = s.attention_norm(x + see(s, x, mask))
    return s.feed_forward_norm(s.feed_forward(x))


def doubled(s, x, mask):
    x += x + see(s, s.attention_norm(x), mask)
    x += x + s.feed_forward(s.feed_forward_norm(x))
    return x


def doubled_post(s, x, mask):
    x = s.attention_norm(2 * x + see(s, x, mask))
    return s.feed_forward_norm(2 * x + s.feed_forward(x))


def doubled_at_attention(s, x, mask):
    h = x + see(s, s.attention_norm(x), mask)
    h = h + x
    return h + s.feed_forward(s.feed_forward_norm(h))


def doubled_at_attention_post(s, x, mask):
    h = x + see(s, x, mask)
    h = s.attention_norm(h + x)
    return s.feed_forward_norm(h + s.feed_forward(h))


def doubled_at_network(s, x, mask):
    x = x + see(s, s.attention_norm(x), mask)
    y = x + s.feed_forward(s.feed_forward_norm(x))
    return x + y


def doubled_at_network_post(s, x, mask):
    x = s.attention_norm(x + see(s, x, mask))
    y = x + s.feed_forward(x)
    return s.feed_forward_norm(x + y)


def input_at_the_end(s, x, mask):
    h = x + see(s, s.attention_norm(x), mask)
    h = h + s.feed_forward(s.feed_forward_norm(h))
    return h + x


def input_at_the_end_post(s, x, mask):
    h = s.attention_norm(x + see(s, x, mask))
    return s.feed_forward_norm(h + s.feed_forward(h) + x)


def both_from_the_input(s, x, mask):
    h = x + see(s, s.attention_norm(x), mask)
    return x + s.feed_forward(s.feed_forward_norm(h))


def both_from_the_input_post(s, x, mask):
    h = s.attention_norm(x + see(s, x, mask))
    return s.feed_forward_norm(x + s.feed_forward(h))


def with_norms(first, second):
    """Pre- and post-norm with these two norms, by name; None for none."""

    def norm(s, name, x):
        return getattr(s, name)(x) if name else x

    def pre(s, x, mask):
        x = x + see(s, norm(s, first, x), mask)
        return x + s.feed_forward(norm(s, second, x))

    def post(s, x, mask):
        x = norm(s, first, x + see(s, x, mask))
        return norm(s, second, x + s.feed_forward(x))

    return pre, post


def bare(x):
    return F.layer_norm(x, x.shape[-1:])


def bare_norms(s, x, mask):
    x = x + see(s, bare(x), mask)
    return x + s.feed_forward(bare(x))


def bare_norms_post(s, x, mask):
    x = bare(x + see(s, x, mask))
    return bare(x + s.feed_forward(x))


def normed_twice(s, x, mask):
    x = s.attention_norm(x + see(s, s.attention_norm(x), mask))
    return s.feed_forward_norm(x + s.feed_forward(s.feed_forward_norm(x)))


def side_by_side(s, x, mask):
    seen = see(s, s.attention_norm(x), mask)
    return x + seen + s.feed_forward(s.feed_forward_norm(x))


def side_by_side_post(s, x, mask):
    seen = s.attention_norm(x + see(s, x, mask))
    return s.feed_forward_norm(seen + s.feed_forward(x))


def network_first(s, x, mask):
    x = x + s.feed_forward(s.feed_forward_norm(x))
    return x + see(s, s.attention_norm(x), mask)


def network_first_post(s, x, mask):
    x = s.feed_forward_norm(x + s.feed_forward(x))
    return s.attention_norm(x + see(s, x, mask))


def norm_of_the_result(s, x, mask):
    x = x + s.attention_norm(see(s, x, mask))
    return x + s.feed_forward_norm(s.feed_forward(x))


def attention_only(s, x, mask):
    return x + see(s, s.attention_norm(x), mask)


def attention_only_post(s, x, mask):
    return s.attention_norm(x + see(s, x, mask))


def network_only(s, x, mask):
    return x + s.feed_forward(s.feed_forward_norm(x))


def network_only_post(s, x, mask):
    return s.feed_forward_norm(x + s.feed_forward(x))


NA, NF = "attention_norm", "feed_forward_norm"
WRONG_IN_A_FORM = {
    "no-residual": (no_addition, no_addition_post),
    "no-residual-attention": (attention_replaces, attention_replaces_post),
    "no-residual-network": (network_replaces, network_replaces_post),
    "twice-attention": (doubled_at_attention, doubled_at_attention_post),
    "twice-network": (doubled_at_network, doubled_at_network_post),
    "twice": (lambda s, x, mask: doubled(s, x.clone(), mask), doubled_post),
    "input-again": (input_at_the_end, input_at_the_end_post),
    "old-stream": (both_from_the_input, both_from_the_input_post),
    "norms-swapped": with_norms(NF, NA),
    "one-norm": with_norms(NA, NA),
    "one-norm-network": with_norms(NF, NF),
    "no-norms": with_norms(None, None),
    "norms-without-weights": (bare_norms, bare_norms_post),
    "no-norm-attention": with_norms(None, NF),
    "no-norm-network": with_norms(NA, None),
    "both-places": (normed_twice, normed_twice),
    "parallel": (side_by_side, side_by_side_post),
    "network-first": (network_first, network_first_post),
    "norm-on-the-way-out": (norm_of_the_result, norm_of_the_result),
    "no-network": (attention_only, attention_only_post),
    "no-attention": (network_only, network_only_post),
}


def answer_with(pre, post):
    def forward(self, x, mask=None):
        return pre(self, x, mask) if self.norm_first else post(self, x, mask)

    return type(f"{pre.__name__}_{post.__name__}", (Skeleton,), {"forward": forward})


for name, (pre, post) in WRONG_IN_A_FORM.items():
    wrong("TransformerBlock", name)(answer_with(pre, post))
    wrong("TransformerBlock", f"{name}, pre")(answer_with(pre, Skeleton.post))
    wrong("TransformerBlock", f"{name}, post")(answer_with(Skeleton.pre, post))


@wrong("TransformerBlock", "normed-stream")
class NameReused(Skeleton):
    def pre(self, x, mask):
        x = self.attention_norm(x)
        x = x + self.attention(x, mask=mask)
        x = self.feed_forward_norm(x)
        return x + self.feed_forward(x)


@wrong("TransformerBlock", "mask-inverted")
class MaskForPyTorch(Skeleton):
    def forward(self, x, mask=None):
        return super().forward(x, None if mask is None else ~mask)


@wrong("TransformerBlock", "own-triangle")
class CausalWhateverTheMask(Skeleton):
    def forward(self, x, mask=None):
        causal = None if mask is None else torch.ones(x.shape[1], x.shape[1]).tril().bool()
        return super().forward(x, causal)


@wrong("TransformerBlock", "always-causal")
class CausalOnTop(Skeleton):
    def forward(self, x, mask=None):
        causal = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        return super().forward(x, causal if mask is None else causal & mask)


@wrong("TransformerBlock", "mask-first-head")
class MaskOfOneHead(Skeleton):
    def forward(self, x, mask=None):
        if mask is not None and mask.dim() == 4:
            mask = mask[:, :1]
        return super().forward(x, mask)


@wrong("TransformerBlock", "mask-first-sequence")
class MaskOfOneSequence(Skeleton):
    def forward(self, x, mask=None):
        if mask is not None and mask.dim() == 4:
            mask = mask[0]
        return super().forward(x, mask)


@wrong("TransformerBlock", "mask-first-row")
class MaskOfOneQuery(Skeleton):
    def forward(self, x, mask=None):
        return super().forward(x, None if mask is None else mask[..., :1, :])


@wrong("TransformerBlock", "changes-input")
class MaskTurnedInPlace(Skeleton):
    def forward(self, x, mask=None):
        out = super().forward(x, mask)
        if mask is not None:
            mask.logical_not_()
        return out


@wrong("TransformerBlock", "mask-ignored")
class MaskForgotten(Skeleton):
    def forward(self, x, mask=None):
        return super().forward(x, None)


@wrong("TransformerBlock", "future-leaks")
class LooksAtTheLast(Skeleton):
    def forward(self, x, mask=None):
        return super().forward(x, mask) + x[:, -1:]


@wrong("TransformerBlock", "raised")
class MaskByPosition(Skeleton):
    def pre(self, x, mask):
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.feed_forward(self.feed_forward_norm(x), mask)


@wrong("TransformerBlock", "raised")
class MaskWithOneAxisMore(Skeleton):
    def forward(self, x, mask=None):
        return super().forward(x, None if mask is None else mask.unsqueeze(1))


@wrong("TransformerBlock", "random")
class DropoutThatNeverRests(Skeleton):
    def forward(self, x, mask=None):
        return F.dropout(super().forward(x, mask), 0.1)


@wrong("TransformerBlock", "returned-none")
class ReturnForgotten(Skeleton):
    def forward(self, x, mask=None):
        if self.norm_first:
            return self.pre(x, mask)
        self.post(x, mask)


@wrong("TransformerBlock", "no-gradient")
class StreamDetached(Skeleton):
    def pre(self, x, mask):
        x = (x + self.attention(self.attention_norm(x), mask=mask)).detach()
        return (x + self.feed_forward(self.feed_forward_norm(x))).detach()


@wrong("TransformerBlock", "nothing-to-attend")
class NothingBecomesEverything(Skeleton):
    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask | ~mask.any(-1, keepdim=True)
        return super().forward(x, mask)


@wrong("TransformerBlock", "differs")
class OneTokenUntouched(Skeleton):
    def forward(self, x, mask=None):
        return x if x.shape[1] == 1 else super().forward(x, mask)


@wrong("TransformerBlock", "future-leaks")
class MaskOfFourAxesOnly(Skeleton):
    def forward(self, x, mask=None):
        return super().forward(x, mask if mask is not None and mask.dim() == 4 else None)


@wrong("TransformerBlock", "token-erased")
class ErasedWhereNothingIsSeen(Skeleton):
    def forward(self, x, mask=None):
        out = super().forward(x, mask)
        if mask is not None:
            some = mask.expand(len(x), self.attention.n_heads, *mask.shape[-2:]).any(-1).any(1)
            out = out * some[..., None]
        return out


@wrong("TransformerBlock", "raised")
class MaskWithoutItsName(Skeleton):
    def pre(self, x, mask):
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.feed_forward(self.feed_forward_norm(x))


@wrong("TransformerBlock", "token-erased")
class PaddingZeroed(Skeleton):
    def forward(self, x, mask=None):
        out = super().forward(x, mask)
        if mask is not None and mask.dim() == 4 and mask.shape[2] == 1 < x.shape[1]:
            out = out * mask[:, 0, 0, :, None]
        return out


@right("TransformerBlock")
class TwoBranches(Skeleton):
    pass


@right("TransformerBlock")
class WithAHelper(Skeleton):
    def step(self, x, part, norm):
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))

    def forward(self, x, mask=None):
        x = self.step(x, lambda t: self.attention(t, mask=mask), self.attention_norm)
        return self.step(x, self.feed_forward, self.feed_forward_norm)


@right("TransformerBlock")
class Unrolled(Skeleton):
    def forward(self, x, mask=None):
        for part, norm, options in (
            (self.attention, self.attention_norm, {"mask": mask}),
            (self.feed_forward, self.feed_forward_norm, {}),
        ):
            read = norm(x) if self.norm_first else x
            x = torch.add(x, part(read, **options))
            x = x if self.norm_first else norm(x)
        return x


@wrong("TransformerBlock", "in-place")
class AddedInPlace(Skeleton):
    def forward(self, x, mask=None):
        if not self.norm_first:
            return self.post(x, mask)
        out = self.attention(self.attention_norm(x), mask=mask)
        out = out.add(x)
        out += self.feed_forward(self.feed_forward_norm(out))
        return out


# --- DecoderBlock ---------------------------------------------------------------------------


class Decoder(nn.Module):
    """What the lesson gives."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.attention_norm = nn.LayerNorm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_norm = nn.LayerNorm(d_model)

    def see(self, x, mask):
        return x + self.attention(self.attention_norm(x), mask=mask)

    def ask(self, x, context, mask):
        return x + self.cross_attention(self.cross_norm(x), context, mask=mask)

    def think(self, x):
        return x + self.feed_forward(self.feed_forward_norm(x))

    def forward(self, x, context, mask=None, context_mask=None):
        return self.think(self.ask(self.see(x, mask), context, context_mask))


@wrong("DecoderBlock", "cross-first")
class AsksFirst(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        return self.think(self.see(self.ask(x, context, context_mask), mask))


@wrong("DecoderBlock", "no-cross")
class NeverAsks(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        return self.think(self.see(x, mask))


@wrong("DecoderBlock", "cross-reads-x")
class AsksItself(Decoder):
    def ask(self, x, context, mask):
        return x + self.cross_attention(self.cross_norm(x), mask=self.own)

    def forward(self, x, context, mask=None, context_mask=None):
        self.own = mask
        return super().forward(x, context, mask, context_mask)


@wrong("DecoderBlock", "context-normed")
class NormsBoth(Decoder):
    def ask(self, x, context, mask):
        norm = self.cross_norm
        return x + self.cross_attention(norm(x), norm(context), mask=mask)


@wrong("DecoderBlock", "one-attention")
class SameAttentionTwice(Decoder):
    def ask(self, x, context, mask):
        return x + self.attention(self.cross_norm(x), context, mask=mask)


@wrong("DecoderBlock", "no-residual")
class ReplacedByTheContext(Decoder):
    def ask(self, x, context, mask):
        return self.cross_attention(self.cross_norm(x), context, mask=mask)


@wrong("DecoderBlock", "norm-shared")
class TwoNormsForThree(Decoder):
    def ask(self, x, context, mask):
        return x + self.cross_attention(self.attention_norm(x), context, mask=mask)


@wrong("DecoderBlock", "not-normed")
class NormForgotten(Decoder):
    def ask(self, x, context, mask):
        return x + self.cross_attention(x, context, mask=mask)


@wrong("DecoderBlock", "context-mask-ignored")
class ReadsThePadding(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        return super().forward(x, context, mask)


@wrong("DecoderBlock", "mask-ignored")
class SeesTheFuture(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        return super().forward(x, context, None, context_mask)


@wrong("DecoderBlock", "post-norm")
class NormsAfterwards(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        x = self.attention_norm(x + self.attention(x, mask=mask))
        x = self.cross_norm(x + self.cross_attention(x, context, mask=context_mask))
        return self.feed_forward_norm(x + self.feed_forward(x))


@wrong("DecoderBlock", "masks-swapped")
class MasksConfused(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        return super().forward(x, context, context_mask, mask)


@wrong("DecoderBlock", "masks-ignored")
class NoMaskAtAll(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        return super().forward(x, context)


@wrong("DecoderBlock", "context-mask-first-head")
class ContextMaskOfOneHead(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        if context_mask is not None and context_mask.dim() == 4:
            context_mask = context_mask[:, :1]
        return super().forward(x, context, mask, context_mask)


@wrong("DecoderBlock", "context-mask-first-row")
class ContextMaskOfOneQuery(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        if context_mask is not None:
            context_mask = context_mask[..., :1, :]
        return super().forward(x, context, mask, context_mask)


@wrong("DecoderBlock", "context-mask-first-sequence")
class ContextMaskOfOneSequence(Decoder):
    def ask(self, x, context, mask):
        return super().ask(x, context, mask[0] if mask is not None and mask.dim() == 4 else mask)


@wrong("DecoderBlock", "context-mask-inverted")
class ContextMaskTurned(Decoder):
    def ask(self, x, context, mask):
        return super().ask(x, context, None if mask is None else ~mask)


@wrong("DecoderBlock", "mask-inverted")
class MaskTurned(Decoder):
    def see(self, x, mask):
        return super().see(x, None if mask is None else ~mask)


@wrong("DecoderBlock", "always-causal")
class NeverLooksAhead(Decoder):
    def see(self, x, mask):
        return x + self.attention(self.attention_norm(x), mask=mask, causal=True)


@wrong("DecoderBlock", "context-cut")
class ContextCutToTheTokens(Decoder):
    def ask(self, x, context, mask):
        n = x.shape[1]
        return super().ask(x, context[:, :n], None if mask is None else mask[..., :n])


@wrong("DecoderBlock", "no-network")
class NeverThinks(Decoder):
    def think(self, x):
        return x


@wrong("DecoderBlock", "no-attention")
class NeverLooks(Decoder):
    def see(self, x, mask):
        return x


@wrong("DecoderBlock", "network-before-cross")
class ThinksTooEarly(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        return self.ask(self.think(self.see(x, mask)), context, context_mask)


@wrong("DecoderBlock", "parallel")
class LooksAndAsksAtOnce(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        seen, asked = self.see(x, mask), self.ask(x, context, context_mask)
        return self.think(seen + asked - x)


@wrong("DecoderBlock", "context-normed-otherwise")
class NormsTheContextToo(Decoder):
    def ask(self, x, context, mask):
        context = self.attention_norm(context)
        return x + self.cross_attention(self.cross_norm(x), context, mask=mask)


@wrong("DecoderBlock", "attentions-swapped")
class WrongPartner(Decoder):
    def see(self, x, mask):
        return x + self.cross_attention(self.attention_norm(x), mask=mask)

    def ask(self, x, context, mask):
        return x + self.attention(self.cross_norm(x), context, mask=mask)


@wrong("DecoderBlock", "no-residual-attention")
class ReplacedByItself(Decoder):
    def see(self, x, mask):
        return self.attention(self.attention_norm(x), mask=mask)


@wrong("DecoderBlock", "no-residual-network")
class ReplacedByTheNetwork(Decoder):
    def think(self, x):
        return self.feed_forward(self.feed_forward_norm(x))


@wrong("DecoderBlock", "no-residuals")
class NeverAdds(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        x = self.attention(self.attention_norm(x), mask=mask)
        x = self.cross_attention(self.cross_norm(x), context, mask=context_mask)
        return self.feed_forward(self.feed_forward_norm(x))


@wrong("DecoderBlock", "twice")
class AddsTwice(Decoder):
    def ask(self, x, context, mask):
        asked = x + self.cross_attention(self.cross_norm(x), context, mask=mask)
        return x + asked


@wrong("DecoderBlock", "old-stream")
class ForgetsWhatItSaw(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        h = self.see(x, mask)
        h = x + self.cross_attention(self.cross_norm(h), context, mask=context_mask)
        return self.think(h)


@wrong("DecoderBlock", "normed-stream")
class StreamNormed(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        x = self.attention_norm(x)
        x = x + self.attention(x, mask=mask)
        x = self.cross_norm(x)
        x = x + self.cross_attention(x, context, mask=context_mask)
        x = self.feed_forward_norm(x)
        return x + self.feed_forward(x)


def norms_in_order(first, second, third):
    def forward(self, x, context, mask=None, context_mask=None):
        x = x + self.attention(getattr(self, first)(x), mask=mask)
        x = x + self.cross_attention(getattr(self, second)(x), context, mask=context_mask)
        return x + self.feed_forward(getattr(self, third)(x))

    return type(f"{first}_{second}_{third}", (Decoder,), {"forward": forward})


N1, N2, N3 = "attention_norm", "cross_norm", "feed_forward_norm"
wrong("DecoderBlock", "norms-swapped-1")(norms_in_order(N1, N3, N2))
wrong("DecoderBlock", "norms-swapped-2")(norms_in_order(N2, N1, N3))
wrong("DecoderBlock", "norms-swapped-3")(norms_in_order(N2, N3, N1))
wrong("DecoderBlock", "norms-swapped-4")(norms_in_order(N3, N1, N2))
wrong("DecoderBlock", "norms-swapped-5")(norms_in_order(N3, N2, N1))
wrong("DecoderBlock", "one-norm")(norms_in_order(N1, N1, N1))
wrong("DecoderBlock", "norm-shared-0")(norms_in_order(N1, N3, N3))
wrong("DecoderBlock", "norm-shared-1")(norms_in_order(N2, N2, N3))
wrong("DecoderBlock", "norm-shared-2")(norms_in_order(N3, N2, N3))
wrong("DecoderBlock", "norm-shared-3")(norms_in_order(N1, N2, N1))
wrong("DecoderBlock", "norm-shared-4")(norms_in_order(N1, N2, N2))


@wrong("DecoderBlock", "norms-without-weights")
class BareNorms(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        x = x + self.attention(bare(x), mask=mask)
        x = x + self.cross_attention(bare(x), context, mask=context_mask)
        return x + self.feed_forward(bare(x))


@wrong("DecoderBlock", "normed-stream-cross")
class NameReusedAtCross(Decoder):
    def ask(self, x, context, mask):
        x = self.cross_norm(x)
        return x + self.cross_attention(x, context, mask=mask)


@wrong("DecoderBlock", "normed-stream-network")
class NameReusedAtTheNetwork(Decoder):
    def think(self, x):
        x = self.feed_forward_norm(x)
        return x + self.feed_forward(x)


@wrong("DecoderBlock", "other-norm-added")
class AddsWhatCrossNormGives(Decoder):
    def think(self, x):
        return self.cross_norm(x) + self.feed_forward(self.feed_forward_norm(x))


@wrong("DecoderBlock", "asks-as-before")
class AsksAsItCameIn(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        read = self.attention_norm(x)
        x = x + self.attention(read, mask=mask)
        x = x + self.cross_attention(self.cross_norm(read), context, mask=context_mask)
        return self.think(x)


@wrong("DecoderBlock", "itself-in-the-context")
class ReadsItselfToo(Decoder):
    def ask(self, x, context, mask):
        read = self.cross_norm(x)
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(*mask.shape[:-1], x.shape[1])], -1)
        return x + self.cross_attention(read, torch.cat([context, read], 1), mask=mask)


@wrong("DecoderBlock", "causal-unless-told")
class CausalByDefault(Decoder):
    def see(self, x, mask):
        n = x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).tril() if mask is None else mask
        return super().see(x, mask)


@wrong("DecoderBlock", "nothing-to-attend")
class NothingInTheContextMeansAll(Decoder):
    def ask(self, x, context, mask):
        mask = None if mask is None else mask | ~mask.any(-1, keepdim=True)
        return super().ask(x, context, mask)


@wrong("DecoderBlock", "raised")
class ContextAdded(Decoder):
    def ask(self, x, context, mask):
        return super().ask(x, context, mask) + context


@wrong("DecoderBlock", "raised")
class AsksTheOtherWayRound(Decoder):
    def ask(self, x, context, mask):
        return x + self.cross_attention(context, self.cross_norm(x), mask=mask)


@wrong("DecoderBlock", "random")
class DropsInUse(Decoder):
    def think(self, x):
        return x + F.dropout(self.feed_forward(self.feed_forward_norm(x)), 0.1)


@right("DecoderBlock")
class ThreeLines(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        x = x + self.attention(self.attention_norm(x), mask=mask)
        x = x + self.cross_attention(self.cross_norm(x), context, mask=context_mask)
        return x + self.feed_forward(self.feed_forward_norm(x))


@right("DecoderBlock")
class WithMethods(Decoder):
    pass


@right("DecoderBlock")
class InALoop(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        steps = (
            (self.attention_norm, lambda t: self.attention(t, mask=mask)),
            (self.cross_norm, lambda t: self.cross_attention(t, context, mask=context_mask)),
            (self.feed_forward_norm, self.feed_forward),
        )
        for norm, part in steps:
            x = x + part(norm(x))
        return x


@right("DecoderBlock")
class SequenceBySequence(Decoder):
    def forward(self, x, context, mask=None, context_mask=None):
        batch, tokens, _ = x.shape
        shape = batch, self.attention.n_heads, tokens
        if mask is not None:
            mask = mask.expand(*shape, tokens)
        if context_mask is not None:
            context_mask = context_mask.expand(*shape, context.shape[1])
        done = []
        for i in range(batch):
            one = slice(i, i + 1)
            see, ask = (None if m is None else m[one] for m in (mask, context_mask))
            y = x[one]
            y = y + self.attention(self.attention_norm(y), mask=see)
            y = y + self.cross_attention(self.cross_norm(y), context[one], mask=ask)
            done.append(y + self.feed_forward(self.feed_forward_norm(y)))
        return torch.cat(done)


# --- block_parameters -----------------------------------------------------------------------


def total(attention, matrices, d_model, d_ff, norms):
    return attention + matrices * d_model * d_ff + norms


@wrong("block_parameters", "sharing-forgotten")
def four_squares(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(4 * d_model**2, 3 if gated else 2, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "counted-once")
def keys_and_values_are_one(d_model, n_heads, n_kv_heads, d_ff, gated):
    narrow = d_model * (d_model // n_heads) * n_kv_heads
    return total(2 * d_model**2 + narrow, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "all-narrow")
def queries_shared_too(d_model, n_heads, n_kv_heads, d_ff, gated):
    narrow = d_model * (d_model // n_heads) * n_kv_heads
    return total(4 * narrow, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "one-head-wide")
def multi_query_always(d_model, n_heads, n_kv_heads, d_ff, gated):
    narrow = d_model * (d_model // n_heads)
    return total(2 * d_model**2 + 2 * narrow, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "no-network")
def network_forgotten(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(attention_of(d_model, n_heads, n_kv_heads), 0, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "own-width")
def always_four_times_as_wide(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(
        attention_of(d_model, n_heads, n_kv_heads), 2 + gated, d_model, 4 * d_model, 2 * d_model
    )


@wrong("block_parameters", "two-thirds")
def gate_and_value_as_one(d_model, n_heads, n_kv_heads, d_ff, gated):
    d_ff = 2 * d_ff // 3 if gated else d_ff
    return total(attention_of(d_model, n_heads, n_kv_heads), 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "values-full")
def keys_shared_only(d_model, n_heads, n_kv_heads, d_ff, gated):
    narrow = d_model * (d_model // n_heads) * n_kv_heads
    return total(3 * d_model**2 + narrow, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "out-narrow")
def out_as_wide_as_keys(d_model, n_heads, n_kv_heads, d_ff, gated):
    narrow = d_model * (d_model // n_heads) * n_kv_heads
    return total(d_model**2 + 3 * narrow, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "no-out")
def three_matrices_in_attention(d_model, n_heads, n_kv_heads, d_ff, gated):
    narrow = d_model * (d_model // n_heads) * n_kv_heads
    return total(d_model**2 + 2 * narrow, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "times-heads")
def every_head_full_size(d_model, n_heads, n_kv_heads, d_ff, gated):
    attention = 2 * n_heads * d_model**2 + 2 * n_kv_heads * d_model**2
    return total(attention, 2 + gated, d_model, d_ff, 2 * d_model)


def attention_of(d_model, n_heads, n_kv_heads):
    return 2 * d_model**2 + 2 * d_model * (d_model // n_heads) * n_kv_heads


@wrong("block_parameters", "two-matrices")
def gate_forgotten(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(attention_of(d_model, n_heads, n_kv_heads), 2, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "three-matrices")
def always_gated(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(attention_of(d_model, n_heads, n_kv_heads), 3, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "no-norms")
def norms_forgotten(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(attention_of(d_model, n_heads, n_kv_heads), 2 + gated, d_model, d_ff, 0)


@wrong("block_parameters", "one-norm")
def one_norm_only(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(attention_of(d_model, n_heads, n_kv_heads), 2 + gated, d_model, d_ff, d_model)


@wrong("block_parameters", "gate-inverted")
def three_without_a_gate(d_model, n_heads, n_kv_heads, d_ff, gated):
    matrices = 2 if gated else 3
    return total(attention_of(d_model, n_heads, n_kv_heads), matrices, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "sharing-forgotten")
def heads_wider_instead_of_fewer(d_model, n_heads, n_kv_heads, d_ff, gated):
    d_head = d_model // n_kv_heads
    attention = 2 * d_model**2 + 2 * d_model * n_kv_heads * d_head
    return total(attention, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "type")
def divided_with_a_stroke(d_model, n_heads, n_kv_heads, d_ff, gated):
    attention = 2 * d_model**2 + 2 * d_model * n_kv_heads * d_model / n_heads
    return total(attention, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "layer-norms")
def norms_with_bias(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(attention_of(d_model, n_heads, n_kv_heads), 2 + gated, d_model, d_ff, 4 * d_model)


@wrong("block_parameters", "one-column-a-head")
def heads_of_one_column(d_model, n_heads, n_kv_heads, d_ff, gated):
    attention = 2 * d_model**2 + 2 * d_model * n_kv_heads
    return total(attention, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "wide-heads")
def width_by_shared_heads(d_model, n_heads, n_kv_heads, d_ff, gated):
    d_head = d_model // n_kv_heads
    attention = 2 * d_model * d_head * (n_heads + n_kv_heads)
    return total(attention, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "queries-times-heads")
def a_whole_matrix_for_each_head(d_model, n_heads, n_kv_heads, d_ff, gated):
    attention = 2 * n_heads * d_model**2 + 2 * d_model * n_kv_heads * (d_model // n_heads)
    return total(attention, 2 + gated, d_model, d_ff, 2 * d_model)


@wrong("block_parameters", "gate-of-vectors")
def gate_as_a_row(d_model, n_heads, n_kv_heads, d_ff, gated):
    attention = attention_of(d_model, n_heads, n_kv_heads)
    return total(attention, 2, d_model, d_ff, 2 * d_model) + d_ff * gated


@wrong("block_parameters", "gate-of-units")
def gate_reads_the_units(d_model, n_heads, n_kv_heads, d_ff, gated):
    attention = attention_of(d_model, n_heads, n_kv_heads)
    return total(attention, 2, d_model, d_ff, 2 * d_model) + d_ff * d_ff * gated


@wrong("block_parameters", "norms-of-a-head")
def norms_for_each_head(d_model, n_heads, n_kv_heads, d_ff, gated):
    attention = attention_of(d_model, n_heads, n_kv_heads)
    return total(attention, 2 + gated, d_model, d_ff, 2 * (d_model // n_heads))


@wrong("block_parameters", "norms-of-one-number")
def one_number_a_norm(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(attention_of(d_model, n_heads, n_kv_heads), 2 + gated, d_model, d_ff, 2)


@wrong("block_parameters", "biases")
def biases_as_in_gpt2(d_model, n_heads, n_kv_heads, d_ff, gated):
    narrow = n_kv_heads * (d_model // n_heads)
    attention = attention_of(d_model, n_heads, n_kv_heads) + 2 * d_model + 2 * narrow
    biases = d_ff * (1 + gated) + d_model
    return total(attention, 2 + gated, d_model, d_ff, 2 * d_model) + biases


@wrong("block_parameters", "biases")
def biases_everywhere(d_model, n_heads, n_kv_heads, d_ff, gated):
    biases = 4 * d_model + d_ff
    attention = attention_of(d_model, n_heads, n_kv_heads) + biases
    return total(attention, 2 + gated, d_model, d_ff, 2 * d_model)


@right("block_parameters")
def by_formula(d_model, n_heads, n_kv_heads, d_ff, gated):
    return total(
        attention_of(d_model, n_heads, n_kv_heads), 3 if gated else 2, d_model, d_ff, 2 * d_model
    )


@right("block_parameters")
def with_numpy(d_model, n_heads, n_kv_heads, d_ff, gated):
    heads = np.int64(n_heads + n_kv_heads) * (d_model // n_heads)
    return 2 * d_model * heads + (2 + gated) * d_model * d_ff + 2 * d_model


@right("block_parameters")
def by_shapes(d_model, n_heads, n_kv_heads, d_ff, gated):
    width = d_model // n_heads * n_kv_heads
    shapes = [(d_model, d_model), (d_model, width), (d_model, width), (d_model, d_model)]
    shapes += [(d_model, d_ff)] * (3 if gated else 2)
    return sum(rows * columns for rows, columns in shapes) + 2 * d_model


@right("block_parameters")
def by_making_it(d_model, n_heads, n_kv_heads, d_ff, gated):
    with torch.device("meta"):
        parts = [
            MultiHeadAttention(d_model, n_heads, n_kv_heads, bias=False),
            FeedForward(d_model, d_ff, gated=gated, bias=False),
            nn.RMSNorm(d_model),
            nn.RMSNorm(d_model),
        ]
    return sum(p.numel() for part in parts for p in part.parameters())


# --- by_path_length -------------------------------------------------------------------------


def listed(x, sublayers, order=lambda c: c, join=sum):
    rows = []
    for length in range(len(sublayers) + 1):
        paths = []
        for chosen in itertools.combinations(range(len(sublayers)), length):
            y = x
            for i in order(chosen):
                y = y @ sublayers[i]
            paths.append(y)
        rows.append(join(paths))
    return torch.stack(rows)


@wrong("by_path_length", "reversed")
def last_layer_first(x, sublayers):
    return listed(x, sublayers, order=lambda c: c[::-1])


@wrong("by_path_length", "averaged")
def mean_of_paths(x, sublayers):
    return listed(x, sublayers, join=lambda paths: torch.stack(paths).mean(0))


@wrong("by_path_length", "neighbours-only")
def without_gaps(x, sublayers):
    n, rows = len(sublayers), [x]
    for length in range(1, n + 1):
        total = torch.zeros_like(x)
        for start in range(n - length + 1):
            y = x
            for i in range(start, start + length):
                y = y @ sublayers[i]
            total = total + y
        rows.append(total)
    return torch.stack(rows)


@wrong("by_path_length", "identity-missing")
def nothing_taken_is_nothing(x, sublayers):
    rows = listed(x, sublayers)
    return torch.cat([0 * rows[:1], rows[1:]])


@wrong("by_path_length", "first-row-missing")
def lengths_from_one(x, sublayers):
    return listed(x, sublayers)[1:]


@wrong("by_path_length", "last-row-missing")
def lengths_to_n_minus_one(x, sublayers):
    rows = listed(x, sublayers)
    return rows[: len(sublayers)]


@wrong("by_path_length", "upside-down")
def longest_first(x, sublayers):
    return torch.stack(list(listed(x, sublayers))[::-1])


@wrong("by_path_length", "first-only")
def the_chain(x, sublayers):
    rows = [x]
    for i in range(len(sublayers)):
        rows.append(rows[i] @ sublayers[i])
    return torch.stack(rows)


@wrong("by_path_length", "last-only")
def nothing_is_ever_skipped(x, sublayers):
    rows = [x]
    for a in sublayers:
        rows = [x] + [r @ a for r in rows]
    return torch.stack(rows)


@wrong("by_path_length", "raised")
def nothing_for_no_sublayer(x, sublayers):
    rows = [x, *([torch.zeros_like(x)] * len(sublayers))]
    first = sublayers[0]
    rows[1] = x @ first
    for matrix in sublayers[1:]:
        rows = [rows[0]] + [rows[m] + rows[m - 1] @ matrix for m in range(1, len(rows))]
    return torch.stack(rows)


@wrong("by_path_length", "raised")
def table_of_float32(x, sublayers):
    rows = torch.zeros(len(sublayers) + 1, len(x))
    rows[0] = x
    for matrix in sublayers:
        rows[1:] += rows[:-1] @ matrix
    return rows


@wrong("by_path_length", "differs")
def at_most_five(x, sublayers):
    rows = listed(x, sublayers[:5])
    return torch.cat([rows, torch.zeros(max(0, len(sublayers) - 5), len(x)).to(rows)])


@wrong("by_path_length", "cumulative")
def truncated_nets(x, sublayers):
    rows = listed(x, sublayers)
    return torch.stack([rows[: m + 1].sum(0) for m in range(len(rows))])


@wrong("by_path_length", "total")
def only_the_output(x, sublayers):
    for matrix in sublayers:
        x = x + x @ matrix
    return x


@wrong("by_path_length", "by-sublayer")
def what_each_adds(x, sublayers):
    rows = [x]
    for matrix in sublayers:
        added = x @ matrix
        rows.append(added)
        x = x + added
    return torch.stack(rows)


@wrong("by_path_length", "columns")
def matrix_from_the_left(x, sublayers):
    rows = [x] + [torch.zeros_like(x)] * len(sublayers)
    for matrix in sublayers:
        rows = [rows[0]] + [rows[m] + matrix @ rows[m - 1] for m in range(1, len(rows))]
    return torch.stack(rows)


@wrong("by_path_length", "taken-twice")
def in_place_too_early(x, sublayers):
    rows = [x] + [torch.zeros_like(x) for _ in sublayers]
    for matrix in sublayers:
        for m in range(1, len(rows)):  # upward: a sub-layer is taken twice
            rows[m] = rows[m] + rows[m - 1] @ matrix
    return torch.stack(rows)


@right("by_path_length")
def by_combinations(x, sublayers):
    return listed(x, sublayers)


@right("by_path_length")
def in_one_pass(x, sublayers):
    rows = [x] + [torch.zeros_like(x) for _ in sublayers]
    for matrix in sublayers:
        rows = [rows[0]] + [rows[m] + rows[m - 1] @ matrix for m in range(1, len(rows))]
    return torch.stack(rows)


@right("by_path_length")
def table_in_place(x, sublayers):
    rows = x.new_zeros(len(sublayers) + 1, len(x))
    rows[0] = x
    for matrix in sublayers:
        rows[1:] += rows[:-1] @ matrix
    return rows


@wrong("by_path_length", "powers")
def powers_of_the_sum(x, sublayers):
    total, rows = sublayers.sum(0), [x]
    for _ in sublayers:
        rows.append(rows[-1] @ total)
    return torch.stack(rows)


@wrong("by_path_length", "any-order")
def by_permutations(x, sublayers):
    rows = []
    for length in range(len(sublayers) + 1):
        total = torch.zeros_like(x)
        for order in itertools.permutations(range(len(sublayers)), length):
            y = x
            for i in order:
                y = y @ sublayers[i]
            total = total + y
        rows.append(total)
    return torch.stack(rows)


@wrong("by_path_length", "taken-twice")
def with_replacement(x, sublayers):
    rows = []
    for length in range(len(sublayers) + 1):
        total = torch.zeros_like(x)
        for chosen in itertools.combinations_with_replacement(range(len(sublayers)), length):
            y = x
            for i in chosen:
                y = y @ sublayers[i]
            total = total + y
        rows.append(total)
    return torch.stack(rows)


@wrong("by_path_length", "all-alike")
def one_sublayer_for_all(x, sublayers):
    n, rows, y = len(sublayers), [x], x
    for m in range(1, n + 1):
        y = y @ sublayers.mean(0)
        rows.append(math.comb(n, m) * y)
    return torch.stack(rows)


@wrong("by_path_length", "after-each")
def the_net_so_far(x, sublayers):
    rows = [x]
    for matrix in sublayers:
        x = x + x @ matrix
        rows.append(x)
    return torch.stack(rows)


@wrong("by_path_length", "longest-path-missing")
def bound_one_short(x, sublayers):
    n = len(sublayers)
    rows = [x] + [torch.zeros_like(x) for _ in range(n)]
    for choice in range(1, 2**n - 1):
        y = x
        for i in range(n):
            if choice >> i & 1:
                y = y @ sublayers[i]
        rows[choice.bit_count()] = rows[choice.bit_count()] + y
    return torch.stack(rows)


@wrong("by_path_length", "float32")
def gathered_in_float32(x, sublayers):
    rows = torch.zeros(len(sublayers) + 1, len(x))
    for length in range(len(rows)):
        for chosen in itertools.combinations(range(len(sublayers)), length):
            y = x
            for i in chosen:
                y = y @ sublayers[i]
            rows[length] += y
    return rows


@right("by_path_length")
def coefficients_of_a_polynomial(x, sublayers):
    n = len(sublayers)
    turns = torch.exp(2j * torch.pi * torch.arange(n + 1, dtype=torch.float64) / (n + 1))
    y = x.to(turns).expand(n + 1, len(x))
    for matrix in sublayers.to(turns):
        y = y + turns[:, None] * (y @ matrix)
    return (torch.fft.fft(y, dim=0).real / (n + 1)).to(x)


@right("by_path_length")
def by_bits(x, sublayers):
    n = len(sublayers)
    rows = [torch.zeros_like(x) for _ in range(n + 1)]
    for choice in range(2**n):
        y = x
        for i in range(n):
            if choice >> i & 1:
                y = y @ sublayers[i]
        rows[choice.bit_count()] = rows[choice.bit_count()] + y
    return torch.stack(rows)


@right("by_path_length")
def recursive(x, sublayers):
    if len(sublayers) == 0:
        return x[None]
    before = recursive(x, sublayers[:-1])
    taken = before @ sublayers[-1]
    blank = torch.zeros_like(x)[None]
    return torch.cat([before, blank]) + torch.cat([blank, taken])


# --- add_with_dropout -----------------------------------------------------------------------


@wrong("add_with_dropout", "as given")
def untouched(x, update, p, training):
    return F.dropout(x + update, p)


@wrong("add_with_dropout", "stream-dropped")
def flag_handed_on(x, update, p, training):
    return F.dropout(x + update, p, training)


@wrong("add_with_dropout", "always-on")
def only_the_update(x, update, p, training):
    return x + F.dropout(update, p)


@wrong("add_with_dropout", "inverted")
def not_training(x, update, p, training):
    return x + F.dropout(update, p, not training)


@wrong("add_with_dropout", "never")
def taken_out(x, update, p, training):
    return x + update


@wrong("add_with_dropout", "x-dropped")
def the_other_one(x, update, p, training):
    return F.dropout(x, p, training) + update


@wrong("add_with_dropout", "x-lost")
def residual_lost(x, update, p, training):
    return F.dropout(update, p, training)


@wrong("add_with_dropout", "raised")
def a_module_made_wrong(x, update, p, training):
    return x + nn.Dropout(p)(update, training)


@wrong("add_with_dropout", "not-rescaled")
def kept_as_it_is(x, update, p, training):
    return x + update * (torch.rand_like(update) >= p) if training else x + update


@wrong("add_with_dropout", "all-kept")
def the_mean_for_all(x, update, p, training):
    return x + update * (1 - p) if training else x + update


@wrong("add_with_dropout", "whole-tokens")
def tokens_dropped(x, update, p, training):
    if not training:
        return x + update
    kept = torch.rand(*update.shape[:-1], 1) >= p
    return x + torch.where(kept, update / (1 - p), 0.0)


@wrong("add_with_dropout", "one-mask")
def the_same_for_all_tokens(x, update, p, training):
    if not training:
        return x + update
    kept = torch.rand(update.shape[-1]) >= p
    return x + torch.where(kept, update / (1 - p), 0.0)


@wrong("add_with_dropout", "not-rescaled")
def divided_by_p(x, update, p, training):
    if not training or p == 0:
        return x + update
    return x + torch.where(torch.rand_like(update) >= p, update / p, 0.0)


@right("add_with_dropout")
def in_double_precision(x, update, p, training):
    return x.double() + F.dropout(update.double(), p, training)


@wrong("add_with_dropout", "shrunk-in-use")
def scaled_in_use(x, update, p, training):
    return x + F.dropout(update, p) if training else x + update * (1 - p)


@right("add_with_dropout")
def flag_by_name(x, update, p, training):
    return x + F.dropout(update, p=p, training=training)


@right("add_with_dropout")
def if_training(x, update, p, training):
    if training:
        update = F.dropout(update, p)
    return x + update


@wrong("add_with_dropout", "p-one")
def kept_and_divided(x, update, p, training):
    if not training or p == 0:
        return x + update
    keep = torch.rand_like(update) >= p
    return x + update * keep / (1 - p)


@wrong("add_with_dropout", "fixed-mask")
def seed_inside(x, update, p, training):
    torch.manual_seed(0)
    return x + F.dropout(update, p, training)


@wrong("add_with_dropout", "fixed-mask")
def every_second_number(x, update, p, training):
    if not training or p == 1:
        return x + update * (not training)
    generator = torch.Generator().manual_seed(1)
    keep = torch.rand(update.shape, generator=generator) >= p
    return x + torch.where(keep, update / (1 - p), 0.0)


@wrong("add_with_dropout", "drops-in-use")
def by_hand_and_never_resting(x, update, p, training):
    if p == 1:
        return x + 0 * update
    keep = torch.rand_like(update) >= p
    return x + torch.where(keep, update / (1 - p), 0.0)


@wrong("add_with_dropout", "scaled-in-use")
def divided_in_use_too(x, update, p, training):
    if p == 1:
        return x + update * (not training)
    return x + F.dropout(update, p) if training else x + update / (1 - p)


@wrong("add_with_dropout", "both-dropped")
def each_by_itself(x, update, p, training):
    return F.dropout(x, p, training) + F.dropout(update, p, training)


@wrong("add_with_dropout", "share")
def kept_instead_of_dropped(x, update, p, training):
    if not training or p in (0, 1):
        return x + update * (not (training and p))
    keep = torch.rand_like(update) < p
    return x + torch.where(keep, update / (1 - p), 0.0)


@wrong("add_with_dropout", "changes-input")
def dropped_in_place(x, update, p, training):
    return x + F.dropout(update, p, training, inplace=True)


@wrong("add_with_dropout", "no-gradient")
def out_of_the_graph(x, update, p, training):
    return x.detach() + F.dropout(update, p, training).detach()


@wrong("add_with_dropout", "whole-update")
def all_or_nothing(x, update, p, training):
    if not training:
        return x + update
    return x + update * F.dropout(torch.ones((), dtype=update.dtype), p, True)


@wrong("add_with_dropout", "drops-in-use")
def p_one_asked_first(x, update, p, training):
    if p == 1:
        return x.clone()
    return x + F.dropout(update, p, training)


@wrong("add_with_dropout", "divided-by-the-count")
def divided_by_what_is_left(x, update, p, training):
    if not training or p == 0:
        return x + update
    keep = (torch.rand_like(update) >= p).to(update)
    return x + update * keep / keep.mean().clamp(min=1e-9)


@wrong("add_with_dropout", "share")
def p_for_what_is_kept(x, update, p, training):
    return x + F.dropout(update, 1 - p, training)


@right("add_with_dropout")
def by_hand(x, update, p, training):
    if not training or p == 0:
        return x + update
    if p == 1:
        return x + 0 * update
    keep = torch.rand_like(update) >= p
    return x + update * keep / (1 - p)


@right("add_with_dropout")
def exactly_that_share(x, update, p, training):
    if not training:
        return x + update
    keep = torch.randperm(update.numel()) < round(update.numel() * (1 - p))
    return x + update * keep.view(update.shape) / max(1 - p, 1e-9)


@right("add_with_dropout")
def with_a_module(x, update, p, training):
    return x + nn.Dropout(p).train(training)(update)


@right("add_with_dropout")
def bernoulli(x, update, p, training):
    if not training:
        return x + update
    keep = torch.bernoulli(torch.full_like(update, 1 - p))
    return x + keep * update / max(1 - p, 1e-9)
