# %% [markdown]
# # 06 · The block
#
# **Why may one stack a hundred of them?** You have all the parts: attention, norms, the network.
# Put one behind the other, and again, and again: deep networks built like that were very hard to
# train. What changed it, more than anything else, is a plus sign.
#
# At the end of this lesson you will have built the block, with its norm in either place, and the
# block of a translator; you will have measured what happens without the plus sign, with the norm
# in the other place, with careless first weights, and at a depth of 160. Some things that are in
# many books will not come out as they are printed.
#
# *About 120 minutes. You need: lessons 01 to 05; what a gradient is.*

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, blocks, check, figures, hint, quiz
from tfcourse.attention import MultiHeadAttention, causal_mask
from tfcourse.experiments import depths, mean_and_spread, norm_places, recorded
from tfcourse.feed_forward import FeedForward
from tfcourse.widgets import BlockShapes

# %% [markdown]
# ## Add, do not replace
#
# A sub-layer f, attention or network, reads x and gives something of the same shape. The obvious
# way to go on is x ← f(x). The other way: **x ← x + f(x)**. The sub-layer does not replace what
# was there; it proposes a change. The running x is called the **residual stream**.
#
# Look at the derivatives. Of f(f(f(x))) it is a product of three, and a product of many is
# usually far too small or far too large. Of x + f(x) it is
#
# $$\frac{\partial}{\partial x}\bigl(x + f(x)\bigr) = 1 + f'(x)$$
#
# and the 1 hands the gradient on whole, whatever f does.
#
# Is that the whole story? Let us build 32 untrained blocks in three ways: with the plus and the
# norms, without the plus, and without plus or norms. (All biases are 0, so that we see the
# weights at work and nothing else.) Then measure two things: how large a gradient arrives at the
# weights of each block, and how alike the tokens of a sequence have become. **Predict** both for
# the middle one.

# %%
torch.manual_seed(0)
inputs = torch.randn(4, 32, 64)
wanted = torch.randn(4, 32, 64)  # stands for a loss: how far the output points this way


class Bare(blocks.Block):
    """Neither additions nor norms: each sub-layer's result replaces x."""

    def _add(self, x, sublayer, norm):
        return sublayer(x)


def look_at(kind, depth=32):
    """Size of the gradient at each block's weights, and the tokens' mean cosine after each."""
    torch.manual_seed(1)
    stack = nn.ModuleList(kind(64, 4) for _ in range(depth))
    for name, parameter in stack.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
    x, alike = inputs, []
    for block in stack:
        x = block(x, causal=True)
        unit = F.normalize(x.detach(), dim=-1)
        others = (unit @ unit.mT).sum(dim=(1, 2)) - 32  # without each token's with itself
        gone = x.detach().abs().max() < 1e-9  # too small to tell a direction by
        alike.append(float("nan") if gone else others.mean().item() / (32 * 31))
    (x * wanted).mean().backward()
    return [block.feed_forward.up.weight.grad.norm().item() for block in stack], alike


# %%
kinds = {"x + f(norm(x))": blocks.Block, "f(norm(x))": depths.Chained, "f(x)": Bare}
looked = {name: look_at(kind) for name, kind in kinds.items()}
for name, (gradients, alike) in looked.items():
    print(f"{name:>15}: gradient at the first block {gradients[0]:.0e}, at the last "
          f"{gradients[-1]:.0e}; tokens alike after 5 blocks {alike[4]:.2f}")  # fmt: skip

# %%
figures.lines(
    range(1, 33),
    {name: alike for name, (_, alike) in looked.items()},
    title="How alike have the tokens of a sequence become?",
    x_label="blocks passed",
    y_label="mean cosine of two tokens",
    markers=False,
    alt="Without the addition the cosine is near 1 after five blocks, norms or not; with it, it "
    f"rises slowly to {looked['x + f(norm(x))'][1][-1]:.2f}. Without norms the line ends where "
    "the numbers have become too small.",
)

# %% [markdown]
# Without norms the gradient is gone: it has become too small for a float, and the numbers
# themselves nearly so. That is the story of the books. But look at the middle one of the three
# printed lines. **With norms, the gradient arrives well, without any plus**, for each norm makes
# the numbers large again. And still something has been lost that is worse: after a few blocks
# *all tokens are the same*. Attention mixes, and mixes again, and nothing reminds a token of who
# it was. The plus sign is its memory. (It slows the mixing down; it does not stop it.)
#
# ## Deeper and deeper
#
# Now train. A small language model (d_model = 64) on Python's manual, 150 steps, with and without
# the plus (the *residual* path), both with norms, 1 to 32 blocks.

# %%
quiz("06-depth")

# %%
short = depths.run(depths=[4], seeds=[0], steps=40)
for kind in depths.KINDS:
    print(f"4 blocks, 40 steps, {kind}: {short[kind]['4']['losses'][0]:.2f} nats")

# %%
RETRAIN = False
record = recorded("depths")
results = depths.run(**record["settings"], say=print) if RETRAIN else record["results"]
depth_list = record["settings"]["depths"]
stats = {
    kind: [mean_and_spread(results[kind][str(depth)]["losses"]) for depth in depth_list]
    for kind in depths.KINDS
}
floor = results["only the frequencies"]
figures.lines(
    depth_list,
    {kind: [mean for mean, _ in by_depth] for kind, by_depth in stats.items()},
    title="What does a deeper stack learn in 150 steps?",
    x_label="blocks (record in data/depths.json, three seeds)",
    y_label="loss in nats",
    log_x=True,
    from_zero=False,
    spread={kind: [spread for _, spread in by_depth] for kind, by_depth in stats.items()},
    level=(floor, "knows only how frequent each character is"),
    alt="With the residual: "
    + ", ".join(f"{mean:.2f}" for mean, _ in stats["with the residual"])
    + " nats for 1, 2, 4, 8, 16, 32 blocks. Without: "
    + ", ".join(f"{mean:.2f}" for mean, _ in stats["without"])
    + ".",
)

# %% [markdown]
# One or two blocks can do without the plus. At four, little is left, and from eight on the model
# knows how frequent each character is and nothing else: its tokens are all the same by then, so
# what could it tell apart? With the plus, eight blocks are better than one, and thirty-two
# neither better nor worse than eight: this training is too short to use them, but they do no
# harm.
#
# ## Why a sum, and not side by side?
#
# One could also keep everything: put f(x) *beside* x. Nothing would ever be overwritten.
# (Networks for images have done so, with a narrow f(x) each time.)

# %%
quiz("06-concat")

# %% tags=["nbval-check-output"]
width = 768
for _ in range(24):  # 12 blocks of two sub-layers, each as wide as what it reads
    width *= 2
print(f"side by side: {width:.3g} numbers for each token; added: 768")

# %% [markdown]
# A sum keeps the width, so every block can be the same block. That is what makes a stack a stack.
# The price: what is written into the stream shares one space, and blocks must learn to write in
# directions that do not disturb each other.
#
# ## The block
#
# Two sub-layers, each with its norm. Where does the norm stand? In the paper of 2017 after the
# addition, **post-norm**; in nearly all models since GPT-2 before the sub-layer, **pre-norm**:
#
# $$\text{pre: } x \leftarrow x + f(\mathrm{norm}(x)) \qquad\qquad
#   \text{post: } x \leftarrow \mathrm{norm}(x + f(x))$$
#
# first with f = attention, then with f = the network; each has a norm of its own.
#
# ### Exercise · the block
#
# Everything is made in `__init__`; write `forward`. `self.attention(…, mask=mask)` takes the mask
# (True = may attend) or None.


# %% exercise="TransformerBlock" difficulty=2 minutes=15
class TransformerBlock(nn.Module):
    """Attention, then the network: (batch, tokens, d_model) -> the same shape"""

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
        for mine, their in pairs:
            mine.copy_(their)
        gap = (ours(x, mask=may_attend) - theirs(x, src_mask=~may_attend)).abs().max().item()
    torch_gap = max(torch_gap, gap)
    print(f"norm_first={norm_first}: equal to 1e-5: {gap < 1e-5}")

# %% [markdown]
# Mind the `~`: PyTorch's layer takes True = may NOT attend (lesson 01).
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
# exactly m sub-layers. All rows together make the net's output.


# %% exercise="by_path_length" graded=true points=4 difficulty=3 minutes=25
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
# Here are all 16 paths of a net of two blocks, counted out, with matrices as small as an
# untrained model's. (The cell lists them one by one, so that it runs without your solution.)
# **Predict**: which lengths matter most?

# %% tags=["nbval-check-output"]
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
# lengths do: change 0.4 to 1.0 and see. With more of them the peak moves to longer paths. And for
# real sub-layers, which bend, the expansion is not exact: f(a + b) is not f(a) + f(b). It is a
# way of looking that lesson 09 will use on a trained model.
#
# ## Before or after?
#
# Pre- or post-norm? **Warm-up** means that the learning rate does not start at its value: it
# climbs there over the first hundreds or thousands of steps. Of post-norm without warm-up one
# reads that it "typically diverges within 50 to 200 steps". Six blocks, d_model = 256, the same
# characters, no warm-up.

# %%
quiz("06-post")

# %%
STEPS = 25
for place in norm_places.PLACES:
    watch = figures.LiveCurve(f"Does it learn? {place}, learning rate 0.001", STEPS)
    run = norm_places.run(
        learning_rates=[1e-3], seeds=[0], steps=STEPS, places=[place], watch=watch
    )
    print(f"{place}: {run['runs'][0]['loss']:.2f} nats, the mean of the last 20 steps")

# %% [markdown]
# Twenty-five steps show that it runs. The record holds four learning rates, with and without a
# warm-up of 100 steps, three seeds each: 48 runs of 200 steps.

# %%
RETRAIN = False
record = recorded("norm_places")
results = norm_places.run(**record["settings"], say=print) if RETRAIN else record["results"]
rates = record["settings"]["learning_rates"]
groups = {
    "pre-norm": ("pre-norm", 0),
    "pre-norm, warm-up": ("pre-norm", 100),
    "post-norm": ("post-norm", 0),
    "post-norm, warm-up": ("post-norm", 100),
}


def losses_of(place, warm_up, rate):
    """The last losses of the three seeds."""
    wanted = (place, warm_up, rate)
    return [
        run["loss"]
        for run in results["runs"]
        if (run["place"], run["warm_up"], run["learning_rate"]) == wanted
    ]


end = {name: [mean_and_spread(losses_of(*g, rate)) for rate in rates] for name, g in groups.items()}

# %%
stalled = results["only the frequencies"]
figures.lines(
    rates,
    {name: [mean for mean, _ in values] for name, values in end.items()},
    title="Which learning rates does each of them bear?",
    x_label="learning rate (200 steps, record in data/norm_places.json)",
    y_label="loss of the last 20 steps, nats",
    log_x=True,
    from_zero=False,
    spread={name: [spread for _, spread in values] for name, values in end.items()},
    level=(stalled, "knows only how frequent each character is"),
    alt="; ".join(
        f"{name}: "
        + ", ".join(f"{mean:.2f} at {rate:g}" for (mean, _), rate in zip(v, rates, strict=True))
        for name, v in end.items()
    )
    + f". Frequencies alone: {stalled:.2f} nats.",
)

# %%
diverged = sum(not math.isfinite(run["loss"]) for run in results["runs"])
print(f"{diverged} of {len(results['runs'])} runs diverged; frequencies alone: {stalled:.2f} nats")
for name, values in end.items():
    row = "  ".join(f"{mean:.2f} ± {spread:.2f}" for mean, spread in values)
    print(f"{name:>18}: {row}   at {', '.join(f'{rate:g}' for rate in rates)}")

# %% [markdown]
# Nothing diverged. At the smallest rate post-norm learns as well as pre-norm, at 0.001 a little
# worse. At 0.003 it does not blow up either; it **stalls** a little above the dashed line, which
# you know from the figure of the depths: it has learnt how frequent the characters are and cannot
# get on. (A norm stands at the end of each block; how should the numbers run away?)
#
# So what the books mean is true in a milder form: post-norm bears a smaller range of learning
# rates. Warm-up is the usual cure for it. Here, with half of a short training given to it, it
# helped pre-norm at the highest rate and post-norm at none. And six blocks and 200 steps do not
# say what 48 blocks do.
#
# ## Dropout, and where
#
# In training one often sets a share p of numbers to zero, at random, so that no unit can rely on
# one other alone; what is left is divided by 1 − p, so that the mean stays. The paper does it to
# each sub-layer's *output*, just before it is added. In use nothing is dropped.
#
# ### Find the bugs · a dropout that never rests
#
# There are two in it.


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
# A block of Llama-7B's size reads 32 sequences of 2048 tokens. Step through it. **Predict**
# first: which tensor is the largest?

# %%
BlockShapes(batch=32, tokens=2048, d_model=4096, n_heads=32, d_ff=11008)

# %% [markdown]
# The scores: 32 · 32 · 2048 · 2048 numbers, many times the size of x. That is why nobody stores
# them (the fused kernel of lesson 01), and why twice the tokens cost four times as much there.
#
# ## How many parameters?
#
# Attention has 4d², a network of the usual width 8d²: **12d²** a block. With what belongs to it?
# One count that one meets: *12d² + 12d, for projections without bias, a network with biases and
# two LayerNorms*. Let us make it and count.

# %% tags=["nbval-check-output"]
counted = {}
for d in (128, 768):
    parts = [MultiHeadAttention(d, 4, bias=False), FeedForward(d), nn.LayerNorm(d), nn.LayerNorm(d)]
    counted[d] = sum(p.numel() for part in parts for p in part.parameters())
    print(f"d = {d}: {counted[d]} = 12d² + {(counted[d] - 12 * d**2) / d:g}d")
gpt3 = 12 * 12288**2 * 96
print(f"GPT-3, 96 blocks of d = 12288: 12d² each makes {gpt3 / 1e9:.0f}B")

# %% [markdown]
# The network's biases are 4d + d, two LayerNorms have 4d: **9d**, not 12d. Small change, but it
# is good to know that one can count it. And 12d² alone gives 174 of GPT-3's 175 billion.
#
# ### Exercise · count a block
#
# A block of today: no biases, two RMSNorms, `n_kv_heads` heads of keys and values shared among
# `n_heads` (lesson 02), a network with or without gate (lesson 05). Give the whole number.


# %% exercise="block_parameters" difficulty=2 minutes=10
def block_parameters(d_model, n_heads, n_kv_heads, d_ff, gated):
    """How many parameters the block has"""
    ### BEGIN SOLUTION
    d_head = d_model // n_heads
    attention = 2 * d_model**2 + 2 * d_model * n_kv_heads * d_head
    network = (3 if gated else 2) * d_model * d_ff
    return attention + network + 2 * d_model
    ### END SOLUTION


# %% check="block_parameters"
block_parameters = check(block_parameters)

# %% tags=["nbval-check-output"]
llama3 = 32 * block_parameters(4096, 32, 8, 14336, True)
print(f"Llama-3 8B, all 32 blocks: {llama3 / 1e9:.2f}B")

# %% [markdown]
# (The rest of its 8.03 billion are the words' vectors, at both ends.)
#
# ## The first weights
#
# Before the first step, all weights are random. How large? GPT-2 takes a standard deviation of
# 0.02, biases of 0, and makes the matrices that write *into the stream* smaller by $1/\sqrt{2L}$
# for L blocks. There are 2L additions; if each one's variance is divided by 2L, all together add
# as much as a single one did. Forty-eight blocks, five ways to begin:

# %%
L = 48


def all_normal(std_of):
    """Every matrix normal, with a standard deviation that may depend on its inputs; biases 0."""

    def begin(stack):
        for name, weights in stack.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(weights)
            elif weights.dim() == 2:
                nn.init.normal_(weights, std=std_of(weights.shape[1]))

    return begin


ways = {
    "0.1": all_normal(lambda inputs: 0.1),
    "1/√inputs": all_normal(lambda inputs: inputs**-0.5),
    "PyTorch's own": lambda stack: None,
    "0.02": all_normal(lambda inputs: 0.02),
    "0.02, and 1/√(2L)": lambda stack: blocks.initialise(stack, layers=L),
}
streams = {}
for name, begin in ways.items():
    torch.manual_seed(0)
    stack = nn.ModuleList(blocks.Block(128, 4) for _ in range(L))
    begin(stack)
    x = 0.02 * torch.randn(2, 32, 128)  # embeddings begin as small as that
    streams[name] = [x.std().item()]
    with torch.no_grad():
        for block in stack:
            x = block(x, causal=True)
            streams[name].append(x.std().item())
figures.lines(
    range(L + 1),
    streams,
    title="How large is the untrained stream after so many blocks?",
    x_label="blocks passed",
    y_label="standard deviation",
    log_y=True,
    markers=False,
    alt="; ".join(f"{name}: {values[-1]:.3g} after {L} blocks" for name, values in streams.items()),
)

# %% [markdown]
# With a careless start the word that came in, 0.02 large, is drowned by the first block already.
# With GPT-2's, the stream grows about twofold over all 48: each block adds only a little, and
# though together they outweigh the word, it can still be heard at the end.
#
# ## Deeper than a hundred
#
# Each block of a pre-norm stack reads a *normed* stream and adds something of a fixed size to a
# stream that grows. What is left for the 160th to say? We measure, at each block, how much it
# *changes* the stream: the length of what it adds over the length of what is there. Once with
# weights that keep the size (1/√inputs), once with GPT-2's.

# %%
starts = {"1/√inputs": (ways["1/√inputs"], 1.0)}
starts["0.02, and 1/√(2L)"] = (lambda stack: blocks.initialise(stack, layers=160), 0.02)
changes, sizes = {}, {}
for name, (begin, size) in starts.items():
    torch.manual_seed(0)
    deep = nn.ModuleList(blocks.Block(64, 4) for _ in range(160))
    begin(deep)
    x = size * torch.randn(2, 32, 64)
    changes[name], sizes[name] = [], [x.std().item()]
    with torch.no_grad():
        for block in deep:
            after = block(x, causal=True)
            changes[name].append(100 * ((after - x).norm() / x.norm()).item())
            x = after
            sizes[name].append(x.std().item())
figures.lines(
    range(1, 161),
    changes,
    title="How much does the n-th of 160 untrained blocks change?",
    x_label="block",
    y_label="change of the stream in %",
    markers=False,
    alt="; ".join(
        f"{name}: {c[0]:.0f}% at the first block, {c[9]:.0f}% at the 10th, {c[-1]:.0f}% at the last"
        for name, c in changes.items()
    ),
)

# %%
grown = sizes["1/√inputs"]
exponent = math.log(grown[160] / grown[40]) / math.log(160 / 40)
print(f"with 1/√inputs the stream grows to {grown[-1]:.1f}, from block 40 on like depth to the "
      f"power {exponent:.2f} (√depth: 0.50)")  # fmt: skip
for name, c in changes.items():
    print(f"{name:>18}: block 10 changes it by {c[9]:.0f}%, block 160 by {c[159]:.0f}%")

# %% [markdown]
# With weights that keep the size (1/√inputs) late blocks whisper: the stream has grown, what they
# add has not. That is how pre-norm stays stable, and it is the worry about very deep ones: that
# their last blocks do little. With GPT-2's start it is not so, all blocks begin with about an
# equal say. What training makes of it this measurement cannot tell.
#
# ## The decoder's block
#
# A translator's block has a third sub-layer in the middle: after its own sentence a word asks the
# other one (cross-attention, lesson 02). The part of the model that has read the other sentence
# is called the **encoder**, the part that writes the **decoder**. Same form, a norm of its own.
#
# ### Exercise · the decoder's block
#
# Pre-norm. `context` comes from the encoder and has been normed there: it is used as it is.
# `self.cross_attention(…, context, mask=context_mask)` asks it.


# %% exercise="DecoderBlock" difficulty=2 minutes=12
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, network: (batch, tokens, d_model) -> the same shape"""

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
# The package has one class for all of them: `blocks.Block(d_model, n_heads, norm="rms",
# gated=True, rotary=…, cross=False, …)`. With a few of its arguments it is GPT-2's block,
# Llama's, BERT's, or that of 2017; a test holds it equal to each of them.
#
# ## What we measured

# %%
claims = Claims("06_transformer_block")
plain, chained, bare = (looked[name] for name in kinds)
claims.add(
    "without the addition the gradient vanishes",
    "vanishes",
    f"first block: {bare[0][0]:.0e}; with norms {chained[0][0]:.0e}, with both {plain[0][0]:.0e}",
    bare[0][0] < 1e-6 < chained[0][0],
    only_if="there are no norms either",
)
with_it, without = stats["with the residual"][-1][0], stats["without"][-1][0]
claims.add(
    "without it 32 blocks do not learn",
    "do not train",
    f"{without:.2f} nats, with it {with_it:.2f}, frequencies alone {floor:.2f}",
    without > floor - 0.1 > with_it,
)
claims.add("our block and PyTorch's, both forms", "equal", f"{torch_gap:.0e}", torch_gap < 1e-5)
claims.add(
    "paths through N = 2 blocks",
    "often 2^N",
    f"{n_paths} = 2^(2N)",
    n_paths == 2**2,
    only_if="a block had a single sub-layer",
)
claims.add(
    "post-norm without warm-up diverges within 50–200 steps",
    "diverges",
    f"{diverged} of {len(results['runs'])} runs; at 0.001 {end['post-norm'][1][0]:.2f} nats "
    f"(pre {end['pre-norm'][1][0]:.2f}), at 0.003 {end['post-norm'][2][0]:.2f}",
    diverged > 0,
    only_if="stalling counts, at 0.003 and above",
)
claims

# %%
claims = Claims("06_transformer_block, sizes")
claims.add(
    "12d² + 12d for that block",
    "12d² + 12d",
    f"12d² + {(counted[768] - 12 * 768**2) / 768:g}d",
    counted[768] == 12 * 768**2 + 12 * 768,
)
claims.add("GPT-3 from 12d² · 96", "≈ 174B", f"{gpt3 / 1e9:.0f}B", round(gpt3 / 1e9) == 174)
grows = streams["0.02, and 1/√(2L)"][-1] / streams["0.02, and 1/√(2L)"][0]
claims.add(
    "with 0.02 and 1/√(2L) the stream hardly grows",
    "hardly",
    f"× {grows:.1f} over {L} blocks; 0.02 alone × {streams['0.02'][-1] / 0.02:.0f}",
    grows < 3,
)
claims.add(
    "a pre-norm stream grows like √depth",
    "power 0.5",
    f"depth to the power {exponent:.2f}",
    0.4 < exponent < 0.6,
    only_if="untrained, with weights that keep the size",
)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("06-quiz-gradient")

# %%
quiz("06-quiz-paths")

# %%
quiz("06-quiz-init")

# %% [markdown]
# ## Further reading
#
# - K. He et al., *Deep Residual Learning* and *Identity Mappings in Deep Residual Networks*, 2016.
# - A. Veit et al., *Residual Networks Behave Like Ensembles of Relatively Shallow Networks*, 2016:
#   the paths.
# - R. Xiong et al., *On Layer Normalization in the Transformer Architecture*, 2020: pre and post.
# - Y. Dong et al., *Attention Is Not All You Need: Pure Attention Loses Rank Doubly Exponentially
#   with Depth*, 2021: why the tokens became alike.
# - H. Wang et al., *DeepNet: Scaling Transformers to 1,000 Layers*, 2022.
#
# **Next:** a stack of these that reads one sentence, and another that writes. Lesson 07 builds
# the model of the paper and teaches it something.
