# %% [markdown]
# # 04 · Norms
#
# **What keeps the numbers in hand?** A Transformer is a long chain of products. Multiply often
# enough by something a little larger than one, and no number fits into the machine; by something
# a little smaller, and nothing is left. How can a hundred layers stand on each other at all?
#
# At the end of this lesson you will have written the norms of all today's models, know two wrong
# ones that are in wide use, have seen why language models do not use BatchNorm, and have measured
# whether the simpler norm is really the faster one. (Bring some patience for that answer.)
#
# *About 90 minutes. You need: lessons 01 and 02; mean and variance.*

# %%
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
    "hundred-thousandth, and even the middle one wanders.",
)

# %% [markdown]
# Nobody can set the gain of every layer right, and training changes it with each step. So do not
# set it: *measure* it and divide. After each layer, take the token's vector, make its mean 0 and
# its standard deviation 1, and go on with that.
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
# So in a real model, with thousands of numbers, the first slip is harmless, and so is the second
# as long as tokens are about as large as 1. They are wrong all the same, in the one case that
# hurts: you load weights that were trained with the right one, and your logits come out a little
# different, everywhere, for no reason that you can find.
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
# Four differences, each as a number: what is 0 on average; how far sequence 0's output moves when
# its neighbour in the batch changes; when 40 tokens of padding are put behind it; and between
# training and use (`eval()`), after ten batches.

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
x = torch.randn(2, 10, 8) * 2 + 1
ones, zeros = torch.ones(8), torch.zeros(8)
by_layer, by_batch = (lambda x: layer_norm(x, ones, zeros)), batch_norm

other = torch.stack([x[0], x[1] * 5])  # another neighbour
padded = torch.cat([x, torch.zeros(2, 40, 8)], dim=1)
module = nn.BatchNorm1d(8)
for _ in range(10):
    module(torch.randn(20, 8) * 2 + 1)  # it keeps a running mean and variance
in_training, in_use = (module.train(mode)(x.flatten(0, 1)) for mode in (True, False))

moved = {}
for name, norm in {"LayerNorm": by_layer, "BatchNorm": by_batch}.items():
    out = norm(x)
    zero_over = "its numbers" if out.mean(-1).abs().max() < 1e-5 else "batch and tokens"
    neighbour = (norm(other)[0] - out[0]).abs().max().item()
    padding = (norm(padded)[0, :10] - out[0]).abs().max().item()
    use = (in_training - in_use).abs().max().item() if name == "BatchNorm" else 0.0
    moved[name] = (neighbour, padding, use)
    print(f"{name}: mean 0 over {zero_over:16} | neighbour {neighbour:.2f} | "
          f"padding {padding:.2f} | training to use {use:.2f}")  # fmt: skip

# %% [markdown]
# |  | LayerNorm | BatchNorm |
# |---|---|---|
# | mean and variance over | the numbers of one token | all tokens of the batch |
# | another sequence in the batch changes | nothing | the output |
# | sequences of different length, padding | no matter | distort the mean |
# | in use, one token at a time | the same sum | must fall back on stored means |
#
# For images of equal size the right column is bearable. For sentences of all lengths, written one
# token at a time, it is not.
#
# ## Where a norm sends a token
#
# What does LayerNorm (without weight and bias) leave of a token? **Predict** before you touch:
# three numbers, so a point in space. The mean is taken away. What does that do to the point? Then
# it is divided by its spread. How far from the origin can it be afterwards?

# %%
NormGeometry()

# %% tags=["nbval-check-output"]
x = torch.randn(1000, 3) * torch.tensor([3.0, 1.0, 0.3]) + 2
y = nn.functional.layer_norm(x, (3,))
z = nn.functional.rms_norm(x, (3,))
print(
    f"LayerNorm: sums within {y.sum(-1).abs().max():.0e} of 0, length {y.norm(dim=-1).mean():.3f}"
)
print(f"RMSNorm:   sums up to {z.sum(-1).abs().max():.1f}, length {z.norm(dim=-1).mean():.3f}")
print(f"√3 = {3**0.5:.3f}")

# %% [markdown]
# Subtracting the mean drops the point onto the plane of all points whose numbers sum to 0.
# Dividing then pushes it in or out until its length is √d. Together: all tokens land on a sphere
# *inside that plane*; in three dimensions, a circle. What a token says from here on, it says by
# its direction.
#
# ## Leave the mean out: RMSNorm
#
# Is the plane needed, or only the sphere? **RMSNorm** leaves the mean alone and divides by the
# *root of the mean of the squares*. There is no bias either:
#
# $$y_j = w_j\,\frac{x_j}{\sqrt{\frac1d\sum_{j=1}^d x_j^2 + \varepsilon}}$$
#
# with the letters from above. Llama, Mistral, Qwen, Gemma, Phi-3: they all have it.
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
# One pass less over the numbers. "10 to 15 percent faster, with the same quality" is what one
# reads. These are two claims.

# %%
quiz("04-speed")

# %% [markdown]
# Four candidates, forward and backward, in turn: the two formulas as you wrote them, and the two
# that come with PyTorch.

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
# The lesson in it: what costs is not the additions, it is the trips to memory. And a whole model
# spends little time in its norms anyway.
#
# And the quality? The same small language model, five seeds each, one with LayerNorm and one with
# RMSNorm, reads Python's manual. First a short run, so that you see it learn:

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
    f"difference {quality_gap:+.3f}; the seeds differ by {max(s for _, s in quality.values()):.3f}"
)

# %% [markdown]
# The difference is to be read beside the spread of the seeds, never alone. What cannot be told
# from luck with five seeds we call *the same here*.
#
# ## Where norms stand
#
# In a block there are two: one before attention, one before the feed-forward network (lesson 05).
# What they read is normed; what the two sub-layers give is *added* to the stream, x + f(norm(x)).
# That is **pre-norm**. (Lesson 06 compares it with post-norm, norm(x + f(x)).)
#
# Nobody norms the stream itself. **Predict**: 32 untrained blocks, each adds something of about
# equal size. How does the stream's size grow with depth: not at all, like √depth, like depth, or
# like 2^depth?

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
figures.lines(
    range(33),
    {"pre-norm stream": sizes},
    title="How large is what 32 blocks have added up?",
    x_label="blocks passed",
    y_label="standard deviation of the stream",
    markers=False,
    level=(after, "after one last norm"),
    alt=f"It climbs from 1 to {grown:.1f}, steeply at first, then flatter, like a square root. "
    f"After one last norm it is {after:.2f} again.",
)

# %% [markdown]
# Like a square root: independent additions add their *variances*. So the head would be given
# numbers that depend on how deep the model is, and each block's own part counts less and less.
# Hence **one last norm** before the head. GPT-2 calls it `ln_f`, Llama `norm`. To forget it is a
# classic: everything has the right shape, and nothing works.
#
# ### Exercise · fold the norm into the next layer
#
# A norm's weight and bias are always followed by a linear layer. So they need not exist at all:
# one can put them into that layer, and many do before they take a model apart. Let y be a normed
# token *before* weight and bias. Find the two tensors for which
#
# `F.linear(y, w_new, b_new)` equals `F.linear(y * weight + bias, w, b)`, for every y.
#
# `weight` and `bias` are (d_in,), `w` is (d_out, d_in) and `b` (d_out,), as `nn.Linear` stores
# them: it computes $\sum_j w_{ij}\, y_j + b_i$.


# %% exercise="fold_norm" graded=true points=3 difficulty=2 minutes=15
def fold_norm(weight, bias, w, b):
    """(w_new, b_new) that do the norm's scaling and shifting as well"""
    ### BEGIN SOLUTION
    w_new = w * weight  # column j times weight[j]
    b_new = w @ bias + b
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
    f"moves by {moved['BatchNorm'][0]:.2f} and {moved['LayerNorm'][0]:.2f}",
    moved["BatchNorm"][0] > 0.1 and moved["LayerNorm"][0] == 0,
)
claims.add(
    "a pre-norm stream grows like √depth",
    "√64 = 8 times, for 64 additions",
    f"{grown:.1f} times after 32 blocks",
    4 < grown < 12,
)
claims

# %%
claims = Claims("04_norms, RMSNorm against LayerNorm")
formula = 1 - times["RMSNorm, by formula"][0] / times["LayerNorm, by formula"][0]
built_in = 1 - times["nn.RMSNorm"][0] / times["nn.LayerNorm"][0]
claims.add("time saved, by formula", "10–15%", f"{formula:+.0%}", 0.05 < formula < 0.3)
claims.add("time saved, PyTorch's own", "10–15%", f"{built_in:+.0%}", 0.05 < built_in < 0.3)
spread = max(s for _, s in quality.values())
claims.add(
    "the same quality",
    "the same",
    f"{quality_gap:+.3f} nats, seeds ± {spread:.3f}",
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
# - B. Zhang, R. Sennrich, *Root Mean Square Layer Normalization*, 2019: where the percentages
#   come from.
# - S. Brody, U. Alon, E. Yahav, *On the Expressivity Role of LayerNorm in Transformers'
#   Attention*, 2023: the geometry.
#
# **Next:** attention moves things between tokens. Where does a token think by itself? Lesson 05
# holds two thirds of all parameters.
