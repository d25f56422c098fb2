# %% [markdown]
# # 04 · Norms
#
# **What keeps the numbers in hand?** A Transformer is a long chain of products. Multiply often
# enough by something a little larger than one, and the numbers grow beyond all use; by something
# a little smaller, and nothing is left. How can a hundred layers stand on each other at all?
#
# At the end of this lesson you will have written the two norms that nearly all models have, know
# two wrong ones that are in wide use, have seen why language models do not use BatchNorm, and
# have measured whether the simpler norm is really the faster one. (Bring some patience for that
# answer.)
#
# *About 90 minutes. You need: lessons 01 to 03; mean and variance.*

# %%
import math

import torch
from torch import nn

from tfcourse import Claims, blocks, check, device, figures, hint, norms, quiz
from tfcourse.experiments import mean_and_spread, norm_quality, recorded
from tfcourse.widgets import NormGeometry

# %% [markdown]
# ## A little more, fifty times

# %%
quiz("04-growth")

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
d, layers = 256, 50
sizes = {}
for gain in (0.8, 1.0, 1.2):
    x = torch.randn(d)
    sizes[gain] = [x.std().item()]
    for _ in range(layers):
        x = gain * torch.randn(d, d) / d**0.5 @ x  # 1/√d: each sum has variance 1, on average
        sizes[gain].append(x.std().item())
    print(f"each layer × {gain}: after {layers} layers the numbers are about {x.std().item():.1g}")

# %%
figures.lines(
    range(layers + 1),
    {f"× {gain} a layer": values for gain, values in sizes.items()},
    title="How large are the numbers after so many layers?",
    x_label="layer",
    y_label="standard deviation",
    log_y=True,
    markers=False,
    alt="Three straight lines on a logarithmic axis: one climbs to thousands, one falls to a "
    "hundred-thousandth, the middle one stays near 1.",
)

# %% [markdown]
# Nobody can set the gain of every layer right, and training changes it with each step. So do not
# set it: *measure* it and divide. Before a layer reads a token's vector, make its mean 0 and its
# standard deviation 1. A layer that does so is called a **norm**. (So far *norm* was the length
# of a vector, `v.norm()`. The word has both meanings; they are relatives.)
#
# ## LayerNorm, by hand
#
# One token has the numbers [1, 2, 3, 4]. Take a pencil: their mean is 2.5. Subtract it: [−1.5,
# −0.5, 0.5, 1.5]. The mean of the squares of these is 1.25: the variance. Its root is 1.118.
# Divide.

# %% tags=["nbval-check-output"]
x = torch.tensor([1.0, 2.0, 3.0, 4.0])
centred = x - x.mean()
variance = centred.square().mean()
by_hand = centred / variance.sqrt()
print(f"mean {x.mean():.2f}, variance {variance:.2f}, root {variance.sqrt():.3f}")
print(by_hand)

# %% [markdown]
# That is all of it, but for two things. If all numbers are equal, the variance is 0; so a tiny
# $\varepsilon$ is put under the root. And perhaps a layer *wants* its third number to be large;
# so each number gets a learned weight and bias, which start as 1 and 0.
#
# $$y_j = w_j\,\frac{x_j - \mu}{\sqrt{\sigma^2 + \varepsilon}} + b_j, \qquad
#   \mu = \frac1d\sum_{j=1}^d x_j, \qquad \sigma^2 = \frac1d\sum_{j=1}^d (x_j - \mu)^2$$
#
# $x_j$ is the j-th of the token's $d$ = `d_model` numbers, $w$ and $b$ are `weight` and `bias`,
# (d_model,), and $\varepsilon$ is `eps`. Each token by itself: no other token, no other sequence
# has a say.
#
# ### Exercise · LayerNorm
#
# `x` has any number of axes, the last one is d_model. Build it of sums and roots, not of
# `nn.LayerNorm`.


# %% exercise="layer_norm" difficulty=1 minutes=10
def layer_norm(x, weight, bias, eps=1e-5):
    """Normalise the last axis of x, (..., d_model), then scale and shift"""
    ### BEGIN SOLUTION
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return weight * (x - mean) / (variance + eps).sqrt() + bias
    ### END SOLUTION


# %% check="layer_norm"
layer_norm = check(layer_norm)

# %% tags=["nbval-check-output"]
batch = torch.randn(2, 5, 16) * 3 + 1
ours = layer_norm(batch, torch.ones(16), torch.zeros(16))
layer_gap = (ours - nn.LayerNorm(16)(batch)).abs().max().item()
print("equal to nn.LayerNorm to 1e-5:", layer_gap < 1e-5)

# %% [markdown]
# ## Two that are a little wrong
#
# The formula has two places where it is easy to slip, and both slips are in code that thousands
# have copied. The first: `x.std()` divides by d − 1, as statistics does for a sample, where the
# formula divides by d. The second: eps is added to the root, not under it.
#
# Here is all of it on [1, 0, 0, 0]. **Predict**: which of the two slips will matter?

# %% tags=["nbval-check-output"]
spike = torch.tensor([1.0, 0.0, 0.0, 0.0])


def first_number(x, correction, eps, inside):
    """The first number of x, normed one way or another."""
    variance = x.var(correction=correction)
    below = (variance + eps).sqrt() if inside else variance.sqrt() + eps
    return ((x - x.mean()) / below)[0].item()


true_one = first_number(spike, 0, 1e-5, inside=True)
unbiased = first_number(spike, 1, 1e-5, inside=True)
outside = first_number(spike, 0, 1e-5, inside=False)
print(f"as it should be: {true_one:.5f}   nn.LayerNorm: {nn.LayerNorm(4)(spike)[0]:.5f}")
print(f"divided by d − 1: {unbiased:.5f}   eps outside the root: {outside:.5f}")

# %% [markdown]
# 1.50 for 1.73: with four numbers, d − 1 makes a large difference. And with 4096? And when would
# the place of eps be felt? Where the variance is about as small as eps itself:

# %% tags=["nbval-check-output"]
print("       d   divided by d − 1: off by")
for d in (4, 64, 768, 4096):
    print(f"{d:8}   {1 - ((d - 1) / d) ** 0.5:.3%}")
print("  scale of the token   eps outside: off by")
eps_off = {}
for scale in (1.0, 0.1, 0.01, 0.001):
    right = first_number(scale * spike, 0, 1e-5, inside=True)
    eps_off[scale] = first_number(scale * spike, 0, 1e-5, inside=False) / right - 1
    print(f"{scale:20}   {eps_off[scale]:.1%}")

# %% [markdown]
# So in a real model, with thousands of numbers, the first slip is nearly harmless, and so is the
# second as long as tokens are about as large as 1. (GPT-2's embeddings start at 0.02; there it is
# felt.) They are wrong all the same, in the one case that hurts: you load weights that were
# trained with the right one, and your results come out a little different, everywhere, for no
# reason that you can find.
#
# ### Find the bugs · a LayerNorm from the wild
#
# There are two in it. You have met both.


# %% exercise="wild_layer_norm" difficulty=1 minutes=6
def wild_layer_norm(x, weight, bias, eps=1e-5):
    """LayerNorm over the last axis of x"""
    mean = x.mean(dim=-1, keepdim=True)
    ### BEGIN SOLUTION
    variance = x.var(dim=-1, keepdim=True, correction=0)
    return weight * (x - mean) / (variance + eps).sqrt() + bias
    ### END SOLUTION
    ### BEGIN GIVEN
    # std = x.std(dim=-1, keepdim=True)
    # return weight * (x - mean) / (std + eps) + bias
    ### END GIVEN


# %% check="wild_layer_norm"
wild_layer_norm = check(wild_layer_norm)

# %% [markdown]
# ## Why not BatchNorm?
#
# Networks that look at images norm otherwise: they take each *number of the vector* by itself and
# go over all examples of the batch. It was there first. Why does no language model use it?
#
# ### Exercise · BatchNorm
#
# `x` is (batch, tokens, d_model). For each of the d_model numbers: mean and variance over all
# tokens of all sequences. No weight, no bias. eps stands under the root, and the variance divides
# by how many there are.


# %% exercise="batch_norm" difficulty=1 minutes=6
def batch_norm(x, eps=1e-5):
    """Normalise each number of the vectors over batch and tokens; the same shape as x"""
    ### BEGIN SOLUTION
    mean = x.mean(dim=(0, 1), keepdim=True)  # (1, 1, d_model)
    variance = (x - mean).square().mean(dim=(0, 1), keepdim=True)
    return (x - mean) / (variance + eps).sqrt()
    ### END SOLUTION


# %% check="batch_norm"
batch_norm = check(batch_norm)

# %%
quiz("04-batch")

# %% [markdown]
# Differences, each as a number. How far does sequence 0's output move when its neighbour in the
# batch changes; when 40 tokens of padding are put behind it; when its own *last* token changes
# (how far do the others move)? And how far are training and use (`eval()`) apart, after ten
# batches?

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
x = torch.randn(2, 10, 8) * 2 + 1
other = torch.stack([x[0], x[1] * 5])  # another neighbour
padded = torch.cat([x, torch.zeros(2, 40, 8)], dim=1)
later = x.clone()
later[0, -1] *= 5  # another last token

by_formula = {"LayerNorm": lambda x: layer_norm(x, torch.ones(8), torch.zeros(8)),
              "BatchNorm": batch_norm}  # fmt: skip
modules = {"LayerNorm": nn.LayerNorm(8), "BatchNorm": nn.BatchNorm1d(8)}
moved = {}
for name, norm in by_formula.items():
    out, module = norm(x), modules[name]
    for _ in range(10):
        module(torch.randn(20, 8) * 2 + 1)  # BatchNorm keeps a running mean and variance
    in_training, in_use = (module.train(mode)(x.flatten(0, 1)) for mode in (True, False))
    moved[name] = {
        "neighbour": (norm(other)[0] - out[0]).abs().max().item(),
        "padding": (norm(padded)[0, :10] - out[0]).abs().max().item(),
        "later token": (norm(later)[0, :9] - out[0, :9]).abs().max().item(),
        "use": (in_training - in_use).abs().max().item(),
    }
    print(f"{name}:", "  ".join(f"{what} {value:.2f}" for what, value in moved[name].items()))
    means = {"its numbers": out.mean(-1), "all tokens": out.mean((0, 1))}
    print("   mean over", {over: f"{m.abs().max():.2f}" for over, m in means.items()})

# %% [markdown]
# |  | LayerNorm | BatchNorm |
# |---|---|---|
# | mean and variance over | the numbers of one token | all tokens of the batch |
# | another sequence in the batch changes | nothing | the output |
# | sequences of different length, padding | no matter | distort the mean |
# | a later token changes | nothing before it | all of the sequence: the future leaks |
# | in use, one token at a time | the same sum | must fall back on stored means |
#
# For images of equal size the right column is bearable. For sentences of all lengths, read by a
# model that must not see the future and written one token at a time, it is not.
#
# ## Where a norm sends a token
#
# What does LayerNorm (without weight and bias) leave of a token? (The third picture, RMSNorm,
# comes next.) **Predict** before you touch: three numbers, so a point in space. The mean is taken
# away. What does that do to the point? Then it is divided by its spread. How far from the origin
# can it be afterwards?

# %%
NormGeometry()

# %% tags=["nbval-check-output"]
x = torch.randn(1000, 3) * torch.tensor([3.0, 1.0, 0.3]) + 2
y = nn.functional.layer_norm(x, (3,))
z = nn.functional.rms_norm(x, (3,))
for name, t in {"LayerNorm": y, "RMSNorm": z}.items():
    sums, length = t.sum(-1).abs().max().item(), t.norm(dim=-1).mean().item()
    print(f"{name:>9}: largest sum {sums:.3f}, length {length:.3f}")
print(f"√3 = {3**0.5:.3f}")

# %% [markdown]
# Subtracting the mean drops the point onto the plane of all points whose numbers sum to 0.
# Dividing then pushes it in or out until its length is √d. Together: all tokens land on a sphere
# *inside that plane*; in three dimensions, a circle. What a token says from here on, it says by
# its direction. The second printed line, RMSNorm, is the same without subtracting: the length is
# √d again, but the sums are not 0. The tokens are on the sphere, not in the plane.
#
# ## Leave the mean out: RMSNorm
#
# Is the plane needed, or only the sphere? **RMSNorm** leaves the mean alone and divides by the
# *root of the mean of the squares*. There is no bias either:
#
# $$y_j = w_j\,\frac{x_j}{\sqrt{\frac1d\sum_{k=1}^d x_k^2 + \varepsilon}}$$
#
# with the letters from above; k runs over all of the token's numbers. Llama, Mistral, Qwen,
# Gemma, Phi-3: they all have it.
#
# ### Exercise · RMSNorm


# %% exercise="rms_norm" difficulty=1 minutes=6
def rms_norm(x, weight, eps=1e-5):
    """Divide the last axis of x, (..., d_model), by its root mean square, then scale"""
    ### BEGIN SOLUTION
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return weight * x / (mean_square + eps).sqrt()
    ### END SOLUTION


# %% check="rms_norm"
rms_norm = check(rms_norm)

# %% tags=["nbval-check-output"]
rms_gap = (rms_norm(batch, torch.ones(16)) - nn.RMSNorm(16, eps=1e-5)(batch)).abs().max().item()
print("equal to nn.RMSNorm to 1e-5:", rms_gap < 1e-5)

# %% [markdown]
# ## Is it faster? Is it as good?
#
# One pass less over the numbers. The paper measured 7 to 64 percent less time, depending on the
# model; "10 to 15 percent faster, with the same quality" is what one often reads. These are two
# claims.

# %%
quiz("04-speed")

# %% [markdown]
# Four candidates, forward and backward: the two formulas, written out in the package as you wrote
# them, and the two that come with PyTorch. Median of 25, and the width of the middle half. (eps
# is given to `nn.RMSNorm`, whose own default is smaller.)

# %%
here = device.pick_device()
x = torch.randn(8, 256, 512, device=here, requires_grad=True)
candidates = {
    "LayerNorm, by formula": norms.LayerNorm(512),
    "RMSNorm, by formula": norms.RMSNorm(512),
    "nn.LayerNorm": nn.LayerNorm(512),
    "nn.RMSNorm": nn.RMSNorm(512, eps=1e-5),
}
times = {}
for name, module in candidates.items():
    module.to(here)
    times[name] = device.measure_seconds(lambda: module(x).sum().backward(), repeats=25)
print(f"on {device.describe_device(here)}")
for name, (median, spread) in times.items():
    print(f"{name:>22}: {1000 * median:6.2f} ms ± {1000 * spread:.2f}")

# %% [markdown]
# Read your own numbers; they may be others on another machine. Where this text was written, a
# processor without a graphics card, the formula for RMSNorm was the faster one of the two
# formulas, by an amount that changed with whatever else the machine was doing. And **PyTorch's
# built-in RMSNorm was several times *slower* than its LayerNorm**. Less arithmetic, more time:
# for LayerNorm somebody has written a fused kernel that goes over the numbers once, for RMSNorm
# on this kind of device nobody has. On a graphics card with a fused one it may be the reverse.
#
# The lesson in it: what costs is not the additions, it is the trips to memory.
#
# And the quality? The same small language model (three blocks, d_model = 96, 500 steps on
# Python's manual), five seeds each, one with LayerNorm and one with RMSNorm. First a short run,
# so that you see it learn. (The curve is the loss on the text that it trains on, the printed
# number on pages that it has never seen, after the last step.)

# %%
watch = figures.LiveCurve("Does it learn with RMSNorm?", 60)
one_short = norm_quality.run(seeds=[0], steps=60, kinds=["RMSNorm"], watch=watch)
print(f"held out, after 60 steps: {one_short['RMSNorm']['losses'][0]:.2f} nats")

# %% [markdown]
# The whole experiment is recorded in `data/norm_quality.json`, with its command.

# %%
RETRAIN = False
record = recorded("norm_quality")
results = norm_quality.run(**record["settings"], say=print) if RETRAIN else record["results"]
quality = {name: mean_and_spread(found["losses"]) for name, found in results.items()}
for name, (mean, spread) in quality.items():
    seeds = ", ".join(f"{loss:.3f}" for loss in results[name]["losses"])
    print(f"{name:>10}: {mean:.3f} ± {spread:.3f} nats   ({seeds})")
quality_gap = quality["RMSNorm"][0] - quality["LayerNorm"][0]
print(
    f"difference {quality_gap:+.4f}; the seeds differ by {max(s for _, s in quality.values()):.3f}"
)

# %% [markdown]
# The difference is to be read beside the spread of the seeds, never alone. What cannot be told
# from luck with five seeds we call *the same here*.
#
# ## Where norms stand
#
# A block (lesson 06) has two parts: attention, and a feed-forward network (lesson 05). Each of
# them reads a token's vector and *adds* its result to it. The vector that runs through all
# blocks, and is added to, is called the **residual stream**. In **pre-norm** models each part has
# a norm in front of it: x + f(norm(x)). So only what a part *reads* is normed; the stream itself
# is not. (Lesson 06 compares it with post-norm, norm(x + f(x)).)
#
# **Predict**: 32 untrained blocks, two additions each, all of about equal size. How does the
# stream's size grow with depth: not at all, like √depth, like depth, or like 2^depth?

# %%
torch.manual_seed(0)
stack = [blocks.Block(128, 4) for _ in range(32)]
for part in stack:
    for weights in part.parameters():
        if weights.dim() == 2:
            nn.init.normal_(weights, std=weights.shape[1] ** -0.5)  # each layer keeps the size
x = torch.randn(4, 32, 128)
sizes = [x.std().item()]
with torch.no_grad():
    for part in stack:
        x = part(x, causal=True)
        sizes.append(x.std().item())
after = nn.LayerNorm(128)(x).std().item()
grown = sizes[-1] / sizes[0]
added = (sizes[1] / sizes[0]) ** 2 - 1  # by how much the first block raised the variance
figures.lines(
    range(33),
    {
        "pre-norm stream": sizes,
        "√(1 + as much variance each time)": [(1 + n * added) ** 0.5 for n in range(33)],
    },
    title="How large is what 32 blocks have added up?",
    x_label="blocks passed",
    y_label="standard deviation of the stream",
    markers=False,
    level=(after, "after one last norm"),
    alt=f"It climbs from 1 to {grown:.1f}, steeply at first, then flatter, like a square root. "
    f"After one last norm it is {after:.2f} again.",
)

# %% [markdown]
# Roughly like a square root: independent additions add their *variances*. (Not exactly: on
# average a block adds nearly twice the variance that the first one adds.) These are untrained
# weights that keep the size of what they read. GPT-2 starts with smaller ones, as you will see in
# lesson 06, and training changes all of them. So the size of the stream is a matter of depth, of
# weights, of luck; and what comes after the last block, the layer that scores the next word,
# would be given whatever it happens to be. Hence **one last norm** before it. GPT-2 calls it
# `ln_f`, Llama `norm`. To forget it is a classic: every shape is right, and the model, loaded
# from a checkpoint that has it, writes nonsense.
#
# ### Exercise · fold the norm into the next layer
#
# In a pre-norm block what a norm gives is read by linear layers only. So its weight and bias need
# not exist at all: one can put them into the layer that reads, and many do before they take a
# model apart. Call the norm's two tensors `scale` and `shift`, both (d_in,); the next layer has
# `w`, (d_out, d_in), and `b`, (d_out,), as `nn.Linear` stores them: it computes $\sum_j w_{ij}\,
# y_j + b_i$. Let y be a token that is normed but not yet scaled and shifted. Find two tensors for
# which
#
# `F.linear(y, w_new, b_new)` equals `F.linear(y * scale + shift, w, b)`, for every y.


# %% exercise="fold_norm" graded=true points=3 difficulty=2 minutes=15
def fold_norm(scale, shift, w, b):
    """(w_new, b_new) that do the norm's scaling and shifting as well"""
    ### BEGIN SOLUTION
    w_new = w * scale  # column j times scale[j]
    b_new = w @ shift + b
    return w_new, b_new
    ### END SOLUTION


# %% check="fold_norm"
fold_norm = check(fold_norm)

# %% [markdown]
# ## What we measured

# %%
claims = Claims("04_norms")
claims.add(
    "LayerNorm of [1, 2, 3, 4]",
    "[-1.342, -0.447, 0.447, 1.342]",
    str([round(v, 3) for v in by_hand.tolist()]),
    [round(v, 3) for v in by_hand.tolist()] == [-1.342, -0.447, 0.447, 1.342],
)
claims.add("ours and nn.LayerNorm", "equal", f"{layer_gap:.0e}", layer_gap < 1e-5)
claims.add("ours and nn.RMSNorm", "equal", f"{rms_gap:.0e}", rms_gap < 1e-5)
claims.add(
    "[1, 0, 0, 0] with the unbiased std",
    "1.50 instead of 1.73",
    f"{unbiased:.2f} instead of {true_one:.2f}",
    (round(unbiased, 2), round(true_one, 2)) == (1.5, 1.73),
)
claims.add(
    "eps outside the root is harmless",
    "harmless",
    f"off by {eps_off[1.0]:.1%} at scale 1, {eps_off[0.001]:.0%} at 0.001",
    abs(eps_off[1.0]) < 0.01,
    only_if="the token's variance is far above eps",
)
claims.add(
    "BatchNorm depends on the rest of the batch, LayerNorm does not",
    "yes",
    f"moves by {moved['BatchNorm']['neighbour']:.2f} and {moved['LayerNorm']['neighbour']:.2f}",
    moved["BatchNorm"]["neighbour"] > 0.1 and moved["LayerNorm"]["neighbour"] == 0,
)
exponent = math.log(sizes[32] / sizes[8]) / math.log(32 / 8)
claims.add(
    "a pre-norm stream grows like √depth",
    "power 0.5",
    f"from block 8 to 32 like depth to the power {exponent:.2f}",
    0.4 < exponent < 0.65,
    only_if="untrained, with weights that keep the size",
)
claims

# %%
claims = Claims("04_norms, RMSNorm against LayerNorm")
formula = times["RMSNorm, by formula"][0] / times["LayerNorm, by formula"][0]
built_in = times["nn.RMSNorm"][0] / times["nn.LayerNorm"][0]
for what, ratio in {"by formula": formula, "PyTorch's own": built_in}.items():
    claims.add(
        f"RMSNorm takes less time, {what}",
        "7–64% less (the paper), often 10–15%",
        f"{ratio:.2f} times LayerNorm's",
        0.36 <= ratio <= 0.93,
    )
spread = max(s for _, s in quality.values())
claims.add(
    "the same quality",
    "the same",
    f"{quality_gap:+.4f} nats, seeds ± {spread:.3f}",
    abs(quality_gap) < 2 * spread,
)
claims

# %% [markdown]
# The times are of this moment on this machine: with another program running beside it they move,
# and the first row may say either. The second does not move as far.
#
# ## Ask yourself

# %%
quiz("04-quiz-scale")

# %%
quiz("04-quiz-batchnorm")

# %%
quiz("04-quiz-last")

# %% [markdown]
# ## Further reading
#
# - J. Ba, J. Kiros, G. Hinton, *Layer Normalization*, 2016.
# - S. Ioffe, C. Szegedy, *Batch Normalization*, 2015.
# - B. Zhang, R. Sennrich, *Root Mean Square Layer Normalization*, 2019: the
#   measurements of 7 to 64 percent.
# - S. Brody, U. Alon, E. Yahav, *On the Expressivity Role of LayerNorm in Transformers'
#   Attention*, 2023: the geometry.
#
# **Next:** attention moves things between tokens. Where does a token think by itself? Lesson 05
# holds two thirds of all parameters.
