# %% [markdown]
# # 06 · The block
#
# ![](drawings/map.svg)
#
# **Why can we stack a hundred of them?** GPT-2 is little more than these two lines, repeated 12
# to 48 times:
#
#     x = x + attention(norm(x))
#     x = x + mlp(norm(x))
#
# You have written every part of them: attention, norms, the feed-forward network (MLP). What is
# new is the wiring, and most of all the plus sign. Deep networks without it were very hard to
# train, and the reason is not the one that most people give.
#
# At the end of this lesson you will have built the block of an encoder, of a language model and of
# a translator. You will have measured what the plus does to the gradient, to the tokens and to what
# a deep stack learns. You will have counted the paths through it, and put dropout in its place.
#
# *About 90 minutes. You need: lessons [01](01_attention.ipynb) to
# [05](05_feed_forward.ipynb); what a gradient is. The section "Every path" takes 20 minutes more;
# no later lesson needs it, so it may wait for another day.*

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, blocks, check, figures, hint, mine, quiz, reveal
from tfcourse.attention import MultiHeadAttention, causal_mask, padding_mask
from tfcourse.claims.claim import paired
from tfcourse.experiments import depths, mean_and_spread, recorded
from tfcourse.experiments.study import losses
from tfcourse.feed_forward import FeedForward
from tfcourse.widgets import BlockShapes

# %% [markdown]
# ## Add, do not replace
#
# A **sub-layer** f, attention or MLP, reads x and gives something of the same shape. The obvious
# next step is x ← f(x). The other way: **x ← x + f(x)**. The sub-layer does not replace what was
# there; it proposes a change. The running x is called the **residual stream**, and the plus a
# **residual** or **skip connection**.
#
# Look at the derivatives, for a single number. The derivative of f(f(f(x))) is a product of three
# slopes, and a product of many is usually far too small or far too large. The derivative of
# x + f(x) is
#
# $$\frac{\partial}{\partial x}\bigl(x + f(x)\bigr) = 1 + f'(x)$$
#
# The 1 is a direct path: the [gradient](glossary.ipynb#cell-id=gradient) gets through even when f′
# is tiny. (It is no guarantee: with f′ = −1 the two cancel, and with f′ = 1 a hundred blocks
# multiply the gradient by $2^{100}$.)
#
# That is the usual story: without the plus the gradient vanishes. Is it true of a Transformer? A
# block has a second device against it, the norm. So we build 32 untrained blocks in four ways,
# with and without the plus, with and without norms, and vary the size of the first weights. Every
# matrix is normal with a standard deviation of **gain** / √inputs. With gain 1 the output of one
# matrix is as large as its input. (PyTorch's `nn.Linear` draws its first weights evenly between
# −1/√inputs and 1/√inputs. Numbers spread evenly between −a and a have a standard deviation of
# a/√3. So PyTorch's own start has a gain of 1/√3 ≈ 0.58.)

# %%
quiz("06-vanish")

# %% [markdown]
# In the package's `blocks.Block`, attention and MLP both go through one method,
# `_add(x, sublayer, norm)`. It returns `x + sublayer(norm(x))`. Each class here writes this line
# anew; all the rest of the block stays.


# %%
class NormsAlone(blocks.Block):
    """The norms, no plus: each sub-layer's result replaces x."""

    def _add(self, x, sublayer, norm):
        return sublayer(norm(x))


class Bare(blocks.Block):
    """Neither plus nor norms."""

    def _add(self, x, sublayer, norm):
        return sublayer(x)


class PlusAlone(blocks.Block):
    """The plus, no norms."""

    def _add(self, x, sublayer, norm):
        return x + sublayer(x)


ways = {
    "x + f(norm(x))": blocks.Block,
    "f(norm(x))": NormsAlone,
    "x + f(x)": PlusAlone,
    "f(x)": Bare,
}


def untrained(kind, gain, depth=32):
    """A stack whose matrices have this gain, biases 0; float64, to see beyond float32's range."""
    torch.manual_seed(1)
    stack = nn.ModuleList(kind(64, 4) for _ in range(depth)).double()
    for name, parameter in stack.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            nn.init.normal_(parameter, std=gain / parameter.shape[1] ** 0.5)
    return stack


# %% [markdown]
# Then we measure the gradient that arrives at the weights of the first block. (Some direction of
# the output, the same for all, stands for a loss.)


# %% tags=["after-prediction"]
torch.manual_seed(0)
tokens, wanted = torch.randn(2, 2, 16, 64).double()  # each (2, 16, 64)
gains = (0.25, 0.5, 0.7, 1.0, 1.2, 1.4)


def first_gradient(kind, gain):
    """Length of the gradient at the first block's first MLP matrix."""
    stack, x = untrained(kind, gain), tokens
    for block in stack:
        x = block(x, causal=True)
    (x * wanted).mean().backward()
    return stack[0].feed_forward.up.weight.grad.norm().item()


arrives = {way: [first_gradient(kind, gain) for gain in gains] for way, kind in ways.items()}
for way, values in arrives.items():
    print(f"{way:>15}: " + "  ".join(f"{value:7.0e}" for value in values), f"  at gain {gains}")

# %% tags=["after-prediction"]
figures.lines(
    gains,
    {way: [g if math.isfinite(g) else math.nan for g in v] for way, v in arrives.items()},
    title="How large a gradient arrives at the first of 32 blocks?",
    x_label="gain of the first weights",
    y_label="length of the gradient",
    log_y=True,
    alt="; ".join(
        f"{way}: " + ", ".join(f"{g:.0e} at gain {x}" for x, g in zip(gains, v, strict=True))
        for way, v in arrives.items()
    ),
)

# %% [markdown]
# Look at f(x) first. Its gradient **vanishes or explodes**; which of the two is a matter of the
# gain. Somewhere between there is a narrow range in which it does neither. (Our stacks compute in
# float64. Most models are trained in float32 or less, and float32 ends at about 1e-38 and 3e38:
# what lies beyond would be lost there. `inf` in the printout is too large even for float64; the
# figure leaves that point out.)
#
# The plus alone helps against vanishing: at the two smallest gains x + f(x) is healthy, where f(x)
# has lost everything. It does not help against exploding. There it is the first to explode, since
# every sub-layer adds to what is there.
#
# With norms both lines are nearly flat. A norm brings the numbers back to size one, whatever the
# gain was, and the gradient with them. And now the line f(norm(x)): **no plus, and the gradient
# arrives.** So it is the norms that take care of the gradient's size. What is the plus for?
#
# ## What the plus keeps
#
# Attention mixes: each output is an average of the values. What happens to the tokens when it mixes
# 32 times? We measure how alike they are: the [cosine](glossary.ipynb#cell-id=cosine) of two
# different tokens, averaged over all pairs. It is 0 for vectors at a right angle and 1 for vectors
# of the same direction. **Predict** the three lines.


# %% tags=["after-prediction"]
def alike_by_block(stack, x, **options):
    """Mean cosine of two different tokens of a sequence, after each block."""
    found, n = [], x.shape[1]
    for block in stack:
        x = block(x, **options)
        unit = F.normalize(x, dim=-1)
        pairs = (unit @ unit.mT).sum(dim=(1, 2)) - n  # without each token's with itself
        found.append(pairs.mean().item() / (n * (n - 1)))
    return found


with torch.no_grad():
    cosines = {
        way: alike_by_block(untrained(ways[way], 1.0), tokens, causal=True)
        for way in ("x + f(norm(x))", "f(norm(x))", "f(x)")
    }
figures.lines(
    range(1, 33),
    cosines,
    title="How alike have the tokens of a sequence become?",
    x_label="blocks passed (untrained, gain 1)",
    y_label="mean cosine of two tokens",
    markers=False,
    alt="; ".join(
        f"{way}: {c[4]:.2f} after 5 blocks, {c[-1]:.2f} after 32" for way, c in cosines.items()
    ),
)

# %% [markdown]
# Without the plus **all tokens are the same** after a few blocks, norms or not. Nothing reminds a
# token of what it was. The plus is its memory. It slows the mixing down; it does not stop it.
#
# Dong et al. (2021) proved a strong form of this. Attention alone, without MLPs and without the
# plus, makes the tokens equal *doubly exponentially*. Every layer makes the difference between them
# smaller, and it does so by a larger factor than the layer before. Let us see. We measure what is
# left of the difference: the distance of the tokens from their mean, over their length.


# %%
def differences(gain, causal, layers=6):
    """Share of the tokens' length that is not common to all, after 0, 1, … layers of attention."""
    torch.manual_seed(1)
    x, left = tokens, []
    for _ in range(layers + 1):
        left.append(((x - x.mean(dim=1, keepdim=True)).norm() / x.norm()).item())
        layer = MultiHeadAttention(64, 4, bias=False).double()
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=gain / 8)  # 8 = √64
        x = layer(x, causal=causal)
    return left


with torch.no_grad():
    pure = {
        f"gain {gain:g}, {'causal' if causal else 'no mask'}": differences(gain, causal)
        for gain, causal in ((1.0, False), (1.0, True), (2.0, False))
    }
for name, left in pure.items():
    print(f"{name:>16}: " + "  ".join(f"{share:.0e}" for share in left))

# %% [markdown]
# Without a mask and with moderate weights it is as they say: after three or four layers the tokens
# are equal to the last digit. A [causal mask](glossary.ipynb#cell-id=causal-mask) makes it slow:
# the first token sees only itself, so there is always one that stays different. Large weights make
# it slow too: they make attention sharp, and a sharp attention picks, it does not average.
#
# ## Deeper and deeper
#
# Now train. A small language model (d_model = 32) on Python's manual, 300 steps, 1 to 8 blocks,
# all with norms, with and without the plus. Both have the same parameters.

# %%
quiz("06-depth")

# %%
STEPS = 30
curves = {}
for kind in (depths.WITH, depths.WITHOUT):
    # `watch` is called after each step, with the losses so far
    keep = lambda so_far, kind=kind: curves.update({kind: so_far})
    run = depths.one(depths.name_of(kind, 8), rate=3e-3, seed=0, steps=STEPS, watch=keep)
    print(f"{kind}: {run['loss']:.2f} nats held out after {STEPS} steps")
figures.lines(
    range(1, STEPS + 1),
    curves,
    title="Do 8 blocks learn?",
    x_label="step",
    y_label="training loss in nats",
    from_zero=False,
    markers=False,
    alt="; ".join(f"{kind}: from {c[0]:.2f} to {c[-1]:.2f} nats" for kind, c in curves.items()),
)

# %% [markdown]
# After thirty steps the two differ only a little. The record holds the whole study: each kind and
# depth with a [learning rate](glossary.ipynb#cell-id=learning-rate) of its own, chosen on two other
# [seeds](glossary.ipynb#cell-id=seed); then five seeds. The loss is that on
# [held-out](glossary.ipynb#cell-id=held-out-loss) text, in [nats](glossary.ipynb#cell-id=nat).

# %% tags=["after-prediction"]
RETRAIN = False
record = recorded("depths")
results = depths.run(**record["settings"], say=print) if RETRAIN else record["results"]
floor = results["only the frequencies"]
stats = {
    kind: [mean_and_spread(losses(results, depths.name_of(kind, n))) for n in depths.DEPTHS]
    for kind in (depths.WITH, depths.WITHOUT)
}
figures.lines(
    depths.DEPTHS,
    {kind: [mean for mean, _ in by_depth] for kind, by_depth in stats.items()},
    title="What does a deeper stack learn in 300 steps?",
    x_label="blocks (record in data/depths.json, five seeds)",
    y_label="held-out loss in nats",
    log_x=True,
    from_zero=False,
    spread={kind: [spread for _, spread in by_depth] for kind, by_depth in stats.items()},
    level=(floor, "knows only how frequent each character is"),
    alt="; ".join(
        f"{kind}: " + ", ".join(f"{mean:.2f}" for mean, _ in by_depth)
        for kind, by_depth in stats.items()
    )
    + f" nats for {', '.join(map(str, depths.DEPTHS))} blocks. Frequencies alone: {floor:.2f}.",
)

# %% tags=["after-prediction"]
print("without the plus minus with it, over pairs of runs with the same seed (95% interval):")
for n in depths.DEPTHS:
    pair = [losses(results, depths.name_of(kind, n)) for kind in (depths.WITHOUT, depths.WITH)]
    print(f"depth {n:>2}: {paired(*pair)} nats")

# %% [markdown]
# The plus helps at every depth. A single block is worse without it, and two are much worse. From
# four on, the stack knows how frequent each character is and hardly anything else, although every
# depth had the best learning rate that we could find for it. With the plus, eight blocks are as
# good as one. This training is too short, and the model too small, to show what depth is good for;
# but depth does no harm.
#
# He et al. found the same in 2015, in networks for images: without the plus a deeper network has a
# *higher training error* than a shallow one. They looked at the gradients too, and found them
# healthy.
#
# Are the tokens alike in the *trained* stacks as well? We look at them before and after training.
# And there is a third kind in the record, a **control**: still without the plus, but the number 6
# is added to every token's score with itself, before the softmax. That makes this weight e⁶ ≈ 400
# times as large, compared with the others. So a token keeps what it was in another way. *If* the
# lost tokens are the reason, this one should learn. **Predict**: will it?

# %% tags=["after-prediction"]
both = ((kind, n) for n in (2, depths.CONTROL, depths.DEEPEST) for kind in depths.KINDS)
for arm in (depths.name_of(kind, n) for kind, n in both):
    if arm not in depths.ARMS:
        continue
    before, after = (
        sum(c[-1] for c in losses(results, arm, key=key)) / len(record["settings"]["seeds"])
        for key in ("cosines at the start", "cosines")
    )
    mean, spread = mean_and_spread(losses(results, arm))
    print(f"{arm}: cosine of two tokens {before:.2f}, trained {after:.2f}; "
          f"loss {mean:.2f} ± {spread:.2f} nats")  # fmt: skip
with_it, without, control = (
    mean_and_spread(losses(results, depths.name_of(kind, depths.CONTROL)))[0]
    for kind in depths.KINDS
)
gap, closed = without - with_it, without - control
print(f"4 blocks: no plus costs {gap:.2f} nats; the control closes {closed / gap:.0%} of this gap")

# %% [markdown]
# Without the plus, training brings the tokens of two blocks back in part, and those of four or
# eight not at all: after 300 steps they are still the same. And at four blocks the control learns!
# Its tokens stay apart. Compare the losses of four blocks with and without the plus: the control
# closes well over half of this gap, with no plus at all. So at this depth the lost tokens are one
# reason why a stack fails without the plus, and a large one. They are not the only one: the control
# is still far from the stack with the plus. What the rest is, this experiment does not say. (Nor
# does it speak for deeper stacks. In a first trial, with eight blocks and 120 steps, the same bonus
# did not keep the tokens apart, and it gained next to nothing.)
#
# ## Why a sum, and not side by side?
#
# We could also keep everything: put f(x) *beside* x. Nothing would ever be overwritten.
# (Some networks for images do so, with a narrow f(x) each time.)

# %%
quiz("06-concat")

# %% tags=["after-prediction", "nbval-check-output"]
width = 768
for _ in range(24):  # 12 blocks of two sub-layers, each as wide as what it reads
    width *= 2
print(f"side by side: {width:.3g} numbers for each token; added: 768")

# %% [markdown]
# A sum keeps the width, so every block can have the same form. That is what makes a stack a stack.
# The price: everything that is written into the stream shares one space, and blocks must learn to
# write in directions that do not disturb each other.
#
# ## The block
#
# Two sub-layers, each with its norm. Where does the norm stand? In the paper of 2017 after the
# addition, **post-norm**; in nearly all models since GPT-2 before the sub-layer, **pre-norm**:
#
# $$\text{pre: } x \leftarrow x + f(\mathrm{norm}(x)) \qquad\qquad
#   \text{post: } x \leftarrow \mathrm{norm}(x + f(x))$$
#
# first with f = attention, then with f = the MLP; each has a norm of its own. In pre-norm the
# stream itself is never normalized, only what a sub-layer reads. [Lesson 07](07_going_deep.ipynb)
# measures what the difference means for training.
#
# ![](drawings/stream.svg)
#
# ### Exercise · the block
#
# Everything is made in `__init__`; write `forward`. `x` is (batch, tokens, d_model), and so is the
# result. `self.attention(…, mask=mask)` takes the mask, None or boolean with True = may attend, of
# any shape that broadcasts to (batch, n_heads, tokens, tokens): hand it on as it is. (A token that
# may attend to nothing gets zeros from attention; that is taken care of there.)


# %% exercise="TransformerBlock" difficulty=2 minutes=15
class TransformerBlock(nn.Module):
    """Attention, then the MLP: (batch, tokens, d_model) -> the same shape"""

    def __init__(self, d_model, n_heads, d_ff, norm_first):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.attention_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.norm_first = norm_first  # True: pre-norm, False: post-norm

    def forward(self, x, mask=None):
        ### BEGIN SOLUTION
        if self.norm_first:
            x = x + self.attention(self.attention_norm(x), mask=mask)
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.attention(x, mask=mask))
        return self.feed_forward_norm(x + self.feed_forward(x))
        ### END SOLUTION


# %% check="TransformerBlock"
TransformerBlock = check(TransformerBlock)

# %% [markdown]
# PyTorch has the same as `nn.TransformerEncoderLayer`. With its weights copied over, ours must
# give its numbers, with the norm in either place:

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
x, may_attend = torch.randn(2, 5, 24), causal_mask(5)
torch_gap = 0.0
for norm_first in (True, False):
    theirs = nn.TransformerEncoderLayer(
        24, 3, 40, dropout=0, activation="gelu", batch_first=True, norm_first=norm_first
    )
    ours = TransformerBlock(24, 3, 40, norm_first)
    pairs = [
        (ours.attention.qkv.weight, theirs.self_attn.in_proj_weight),
        (ours.attention.qkv.bias, theirs.self_attn.in_proj_bias),
        (ours.attention.out.weight, theirs.self_attn.out_proj.weight),
        (ours.attention.out.bias, theirs.self_attn.out_proj.bias),
        (ours.feed_forward.up.weight, theirs.linear1.weight),
        (ours.feed_forward.up.bias, theirs.linear1.bias),
        (ours.feed_forward.down.weight, theirs.linear2.weight),
        (ours.feed_forward.down.bias, theirs.linear2.bias),
    ]  # the norms begin as 1 and 0 in both
    with torch.no_grad():
        for own, their in pairs:
            own.copy_(their)
        gap = (ours(x, mask=may_attend) - theirs(x, src_mask=~may_attend)).abs().max().item()
    torch_gap = max(torch_gap, gap)
    print(f"norm_first={norm_first}: equal to 1e-5: {gap < 1e-5}")

# %% [markdown]
# Note the `~`: PyTorch's layer takes True = may NOT attend ([lesson 01](01_attention.ipynb)).
#
# ### Nothing but your own
#
# The attention and the MLP in that block were ours. But you have written them too. What passes its
# check is kept, and `mine` gives it back whenever you want it: `mine.layer_norm` is your own where
# it passed, and ours where it did not yet. It says which. Here is the block once more, of nothing
# but what lessons [02](02_multi_head_attention.ipynb), [04](04_norms.ipynb) and
# [05](05_feed_forward.ipynb) asked of you:

# %%
attend, norm, gelu = mine.MultiHeadAttention(24, 3), mine.layer_norm, mine.gelu

# %%
theirs = nn.TransformerEncoderLayer(
    24, 3, 40, dropout=0, activation="gelu", batch_first=True, norm_first=True
)
attend.load_state_dict(
    {
        "qkv.weight": theirs.self_attn.in_proj_weight,
        "qkv.bias": theirs.self_attn.in_proj_bias,
        "out.weight": theirs.self_attn.out_proj.weight,
        "out.bias": theirs.self_attn.out_proj.bias,
    }
)


def my_block(x, mask):
    """Pre-norm, with the weights of PyTorch's layer."""
    x = x + attend(norm(x, theirs.norm1.weight, theirs.norm1.bias), mask=mask)
    read = norm(x, theirs.norm2.weight, theirs.norm2.bias)
    hidden = gelu(F.linear(read, theirs.linear1.weight, theirs.linear1.bias))
    return x + F.linear(hidden, theirs.linear2.weight, theirs.linear2.bias)


apart = (my_block(x, may_attend) - theirs(x, src_mask=~may_attend)).abs().max().item()
print("your own block equals PyTorch's to 1e-5:", apart < 1e-5)

# %% [markdown]
# ## One block, three models
#
# Why does PyTorch call it an *encoder* layer? An **encoder** reads a whole sentence at once: BERT,
# or the half of a translator that reads the source. Its block is the one that you have just
# written, **without a causal mask**: every token sees every other, only padding is hidden. A
# **decoder** writes a sentence word by word, so its tokens may not look ahead. GPT-2's block is
# the same block again, with a causal mask.
#
# **Predict**: five tokens, and the last one changes. Which outputs change with it, in an encoder's
# block and in GPT-2's?

# %% tags=["after-prediction", "nbval-check-output"]
block = TransformerBlock(24, 3, 40, norm_first=True)
other = x.clone()
other[:, -1] = -x[:, -1]
masks = {
    "encoder, no mask": None,
    "encoder, the last two are padding": padding_mask(torch.tensor([3, 3]), 5),
    "GPT-2, causal mask": causal_mask(5),
}
with torch.no_grad():
    for name, mask in masks.items():
        apart = (block(x, mask=mask) - block(other, mask=mask)).abs().amax(dim=(0, 2))
        print(f"{name}: tokens {(apart > 1e-6).nonzero().flatten().tolist()} change")

# %% [markdown]
# So encoder and language model differ by one argument. (A padding token's own output does change:
# it reads nothing of the padding, but its own x runs along in the stream. Nobody uses it.) The
# third model, the decoder of a translator, needs one sub-layer more: it comes at the end of this
# lesson.
#
# ## Every path
#
# Multiply out what a stack with additions does. For two sub-layers that are matrices A and B, and
# a row x:
#
# $$(x + xA) + (x + xA)B = x + xA + xB + xAB$$
#
# Four terms: neither taken, the first, the second, both. n sub-layers make $2^n$ **paths**, each
# taking or skipping every one. A block has two sub-layers, so N blocks have $2^{2N}$ paths. (You
# will often read $2^N$.) A deep residual network is, in a way, a crowd of short ones.
#
# ### Exercise · the paths by length
#
# `x` is (d,), `sublayers` is (n, d, d): the net does `x = x + x @ sublayers[i]`, i = 0, 1, …. Sum
# up its paths by their length: row m of the result, (n + 1, d), is the sum of all paths that take
# exactly m sub-layers. All rows together make the net's output. n may be 0: then the result is the
# single row x, (1, d). Numbers may be float32 or float64; the result is of the same type.
#
# Both ways are fine: list every path (`itertools.combinations(range(n), m)` gives every choice of
# m sub-layers, in order), or go through the net once and keep the lengths apart.
# `torch.stack(rows)` makes one tensor of a list of rows.


# %% exercise="by_path_length" graded=true points=4 difficulty=3 minutes=20
def by_path_length(x, sublayers):
    """The sum of all paths of each length, 0 to n: (n + 1, d)"""
    ### BEGIN SOLUTION
    rows = [x] + [torch.zeros_like(x) for _ in sublayers]
    for matrix in sublayers:
        longer = [row @ matrix for row in rows[:-1]]  # each path so far, one sub-layer longer
        rows = [rows[0], *(kept + new for kept, new in zip(rows[1:], longer, strict=True))]
    return torch.stack(rows)
    ### END SOLUTION


# %% check="by_path_length"
by_path_length = check(by_path_length)

# %% [markdown]
# Here are all 16 paths of a net of two blocks, with matrices as small as an untrained model's. (The
# cell lists them one by one, so that it runs without your solution.) **Predict**: which lengths
# matter most?

# %% tags=["after-prediction", "nbval-check-output"]
torch.manual_seed(0)
d = 64
x, sublayers = torch.randn(d), 0.4 * torch.randn(4, d, d) / d**0.5

out = x
for matrix in sublayers:
    out = out + out @ matrix

by_length = torch.zeros(5, d)
n_paths = 0
for choice in range(2**4):
    path = x
    for i in range(4):
        if choice >> i & 1:  # is sub-layer i taken?
            path = path @ sublayers[i]
    by_length[choice.bit_count()] += path
    n_paths += 1
path_gap = (by_length.sum(0) - out).abs().max().item()
print(f"{n_paths} paths; their sum is the net's output, to 1e-5: {path_gap < 1e-5}")
for length, part in enumerate(by_length):
    print(f"length {length}: {math.comb(4, length)} paths, size {part.norm():.1f}")

# %% [markdown]
# With matrices as weak as these, short paths carry most of it. With stronger ones the middle
# lengths do: change 0.4 to 1.0 and see. With more sub-layers the peak moves to longer paths. And
# for real sub-layers, which are not linear, the expansion is not exact: f(a + b) is not
# f(a) + f(b). It is a way of looking that lesson 10 will use on a trained model.
#
# ## Dropout, and where
#
# A [unit](glossary.ipynb#cell-id=unit) that always finds the same neighbour may rely on it alone.
# **Dropout** prevents that: in training it sets a share p of the numbers to zero, at random, and
# different ones in every step. What is left is divided by 1 − p. In use ("evaluation", "inference")
# nothing is dropped. In PyTorch:
#
#     F.dropout(x, p, training)   # training=True drops (the default!), False does nothing
#
# `nn.Dropout(p)` is the same as a module: `model.train()` and `model.eval()` set the flag for it.
#
# What does it do to the numbers? **Predict**: mean and variance of a million normal numbers after
# dropout with p = 0.1 and with p = 0.5.

# %%
quiz("06-dropout")

# %% tags=["after-prediction"]
torch.manual_seed(0)
million = 3 + torch.randn(1_000_000)
dropped = {}
for p in (0.1, 0.5):
    dropped[p] = F.dropout(million, p, True)
    print(
        f"p = {p}: zeros {(dropped[p] == 0).float().mean():.1%}, mean {dropped[p].mean():.2f} "
        f"(before {million.mean():.2f}), variance {dropped[p].var():.2f} ({million.var():.2f})"
    )
same_in_use = torch.equal(F.dropout(million, 0.5, False), million)
kept_scaled = torch.allclose(dropped[0.5][dropped[0.5] != 0], million[dropped[0.5] != 0] * 2)
print(
    f"in use: unchanged {same_in_use}; in training, p = 0.5: what is kept is doubled {kept_scaled}"
)

# %% [markdown]
# The division by 1 − p keeps the *mean*, so that in use the next layer meets numbers of the size
# that it knows. The variance grows: dropout is noise. That is why it must rest in use.
#
# Where does it stand? The paper of 2017: "We apply dropout to the output of each sub-layer, before
# it is added to the sub-layer input". So it hits the update, never the stream. Suppose that we
# dropped the sum x + f(x) instead: what would be left of a word after 12 blocks?

# %%
torch.manual_seed(0)
stream = torch.ones(100_000)
for _ in range(24):  # 12 blocks of two sub-layers that add nothing
    stream = F.dropout(stream, 0.1, True)
survived = (stream != 0).float().mean().item()
print(f"never hit in 24 droppings of the stream: {survived:.1%} (0.9²⁴ = {0.9**24:.1%})")

# %% [markdown]
# The direct path would be gone. Dropped in the update alone, it stays whole.
#
# ### Find the bugs · a dropout that never rests
#
# There are two in it. `x` and `update` have the same shape, p may be anything from 0 to 1: with
# p = 1 all of the update is dropped.


# %% exercise="add_with_dropout" difficulty=1 minutes=8
def add_with_dropout(x, update, p, training):
    """x + update, with a share p of the update dropped in training"""
    ### BEGIN SOLUTION
    return x + F.dropout(update, p, training)
    ### END SOLUTION
    ### BEGIN GIVEN
    # return F.dropout(x + update, p)
    ### END GIVEN


# %% check="add_with_dropout"
add_with_dropout = check(add_with_dropout)

# %% [markdown]
# ## Walk through one
#
# A block of Llama-7B's size reads 32 sequences of 2048 tokens. **Predict** before you run the cell:
# which tensor is the largest? Then step through it, with *Next* or the arrow keys. **Predict** once
# more: with twice as many tokens, which tensors are twice as large, and which four times? Set
# `tokens` to 4096 and see.
#
# Four words that you will read there. **FLOPs** are the additions and multiplications of the matrix
# products. G stands for a billion (10⁹), T for a thousand billion. *A view* makes no new numbers:
# it reads the old ones in another shape. *Tile by tile* means that a large matrix is worked out in
# small pieces, and no piece is kept.

# %% tags=["after-prediction"]
BlockShapes(batch=32, tokens=2048, d_model=4096, n_heads=32, d_ff=11008)

# %% [markdown]
# The scores: 32 · 32 · 2048 · 2048 numbers, many times the size of x. That is why the fused kernel
# of [lesson 01](01_attention.ipynb) never stores them, and why twice the tokens cost four times as
# much there.
#
# ## How many parameters?
#
# Attention has 4d², an MLP of the usual width 8d²: **12d²** a block. And with the small parts?
# Here is a statement to check: *with projections without bias, an MLP with biases and two
# LayerNorms it is exactly 12d² + 12d*. We make such a block and count.

# %% tags=["nbval-check-output"]
counted = {}
for d in (128, 768):
    parts = [MultiHeadAttention(d, 4, bias=False), FeedForward(d), nn.LayerNorm(d), nn.LayerNorm(d)]
    counted[d] = sum(p.numel() for part in parts for p in part.parameters())
    print(f"d = {d}: {counted[d]} = 12d² + {(counted[d] - 12 * d**2) / d:g}d")
gpt3 = 12 * 12288**2 * 96
print(f"GPT-3, 96 blocks of d = 12288: 12d² each makes {gpt3 / 1e9:.0f}B")

# %% [markdown]
# The MLP's biases are 4d + d, two LayerNorms have 4d: **9d**, not 12d. It hardly matters, but it is
# good to know that you can count it. And 12d² alone gives 174 of GPT-3's 175 billion.
#
# ### Exercise · count a block
#
# A block of today: no biases, two RMSNorms, `n_kv_heads` heads of keys and values shared among
# `n_heads` heads of queries ([lesson 02](02_multi_head_attention.ipynb)), an MLP with or without
# gate ([lesson 05](05_feed_forward.ipynb)). Every head is d_model / n_heads wide. All sizes are
# whole numbers, and so is the result.


# %% exercise="block_parameters" difficulty=2 minutes=10
def block_parameters(d_model, n_heads, n_kv_heads, d_ff, gated):
    """How many parameters the block has"""
    ### BEGIN SOLUTION
    d_head = d_model // n_heads
    attention = 2 * d_model**2 + 2 * d_model * n_kv_heads * d_head
    mlp = (3 if gated else 2) * d_model * d_ff
    return attention + mlp + 2 * d_model
    ### END SOLUTION


# %% check="block_parameters"
block_parameters = check(block_parameters)

# %% tags=["nbval-check-output"]
llama3 = 32 * block_parameters(4096, 32, 8, 14336, True)
print(f"Llama-3 8B, all 32 blocks: {llama3 / 1e9:.2f}B")

# %% [markdown]
# (The rest of its 8.03 billion are the tokens' [embeddings](glossary.ipynb#cell-id=embedding) and
# the matrix of the [output head](glossary.ipynb#cell-id=output-head).)
#
# ## The decoder's block
#
# Now the third model: the decoder of a translator. Its block has a sub-layer more, in the middle:
# after a token has looked at its own sentence it asks the source sentence, by cross-attention
# ([lesson 02](02_multi_head_attention.ipynb)). The same form, and a norm of its own.
#
# ![](drawings/encoder_decoder.svg)
#
# (In the drawing the "sentence" is a date as people write it, and the "translation" is the same
# date in digits, 2021-03-03. The decoder has written 2021-0 so far and scores what comes next.)
#
# ### Exercise · the decoder's block
#
# Pre-norm. `x` is (batch, tokens, d_model). `context` (batch, keys, d_model) comes from the
# encoder, which has normalized it with its last norm: use it as it is.
# `self.cross_attention(…, context, mask=context_mask)` asks it. Both masks are None or boolean,
# True = may attend; `mask` broadcasts to (batch, n_heads, tokens, tokens), `context_mask` to
# (batch, n_heads, tokens, keys).


# %% exercise="DecoderBlock" difficulty=2 minutes=12
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, MLP: (batch, tokens, d_model) -> the same shape"""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.attention_norm = nn.LayerNorm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_norm = nn.LayerNorm(d_model)

    def forward(self, x, context, mask=None, context_mask=None):
        ### BEGIN SOLUTION
        x = x + self.attention(self.attention_norm(x), mask=mask)
        x = x + self.cross_attention(self.cross_norm(x), context, mask=context_mask)
        return x + self.feed_forward(self.feed_forward_norm(x))
        ### END SOLUTION


# %% check="DecoderBlock"
DecoderBlock = check(DecoderBlock)

# %% [markdown]
# The package has one class for all of them: `blocks.Block(d_model, n_heads, norm="rms", gated=True,
# rotary=…, cross=False, …)`. With a few of its arguments it is GPT-2's block, Llama's, BERT's, or
# that of 2017; a test checks that it equals each of them.
#
# ## What we measured

# %%
claims = Claims("06_transformer_block")
claims.add("norms-address-vanishing", arrives, gains)
for id in ("not-the-gradient", "degradation", "depth-costs-nothing-with-the-plus"):
    claims.add(id, results)
claims.add("pure-attention-loses-rank", pure)
for id in ("skip-connections-and-mlps", "because-tokens-become-alike"):
    claims.add(id, results)
claims

# %%
claims = Claims("06_transformer_block")
claims.add("block-equals-pytorch", torch_gap)
claims.add("adding-a-block-doubles-the-paths", n_paths, 2)
claims.add("dropout-scales-and-rests", kept_scaled, same_in_use)
claims.add("twelve-d-d-a-block", gpt3)
claims.add("twelve-d-for-the-small-parts", counted)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("06-quiz-gradient")

# %%
quiz("06-quiz-paths")

# %%
quiz("06-quiz-encoder")

# %% [markdown]
# ## Further reading
#
# - K. He et al., [*Deep Residual Learning*](https://arxiv.org/abs/1512.03385), 2015: section 4.1
#   says that it is not the vanishing gradient.
# - A. Veit et al., [*Residual Networks Behave Like Ensembles of Relatively Shallow
#   Networks*](https://arxiv.org/abs/1605.06431), 2016: the paths.
# - Y. Dong et al., [*Attention Is Not All You Need: Pure Attention Loses Rank Doubly Exponentially
#   with Depth*](https://arxiv.org/abs/2103.03404), 2021: why the tokens became alike.
# - N. Srivastava et al., [*Dropout*](https://jmlr.org/papers/v15/srivastava14a.html), 2014.
#
# **Next:** [lesson 07, Going deep](07_going_deep.ipynb). The norm before or after, how large the
# first weights should be, what happens beyond a hundred blocks, and what each part of the block is
# worth.
