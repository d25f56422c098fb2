# %% [markdown]
# # 04 · Norms
#
# ![](drawings/map.svg)
#
# **What keeps the numbers in hand?** A Transformer is a long chain of products. Multiply often
# enough by something a little larger than one, and the numbers explode. Multiply by something a
# little smaller, and nothing is left. This is why GPT-2 calls `ln_1` and `ln_2` in every block
# and `ln_f` before its output: 25 norms in the smallest model, which has 12 blocks, and 97 in the
# largest, which has 48.
#
# At the end of this lesson you will have written the two norms that nearly all models use. You
# will know two wrong ones that are found in real code, and have seen why language models do not
# use BatchNorm. And you will have measured whether the simpler norm is really the faster one, and
# what makes a norm slow.
#
# *About 95 minutes. You need: lessons [01](01_attention.ipynb) to [03](03_positions.ipynb); mean
# and variance.*

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, blocks, check, device, figures, hint, norms, quiz, reveal
from tfcourse.claims.claim import paired
from tfcourse.experiments import mean_and_spread, norm_quality, recorded
from tfcourse.experiments.study import losses
from tfcourse.widgets import NormGeometry

# %% [markdown]
# ## A little more, fifty times
#
# Suppose that every layer makes its numbers a little larger: by 20%. How much is that in the end?

# %%
quiz("04-growth")

# %% tags=["after-prediction", "nbval-check-output"]
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

# %% tags=["after-prediction"]
figures.lines(
    range(layers + 1),
    {f"× {gain} a layer": values for gain, values in sizes.items()},
    title="How large are the numbers after so many layers?",
    x_label="layer",
    y_label="standard deviation",
    log_y=True,
    markers=False,
    alt="Three straight lines on a logarithmic axis: "
    + ", ".join(f"× {gain} a layer ends at {values[-1]:.1g}" for gain, values in sizes.items())
    + ".",
)

# %% [markdown]
# Nobody can set the gain of every layer right, and training changes it with each step. So do not
# set it: *measure* it and divide. Before a layer reads a token's vector, make its mean 0 and its
# standard deviation 1. A layer that does this is called a **norm**. (So far *norm* was the length
# of a vector, `v.norm()`. The word has both meanings, and the two are related.)
#
# ## LayerNorm, by hand
#
# One token has the numbers [1, 2, 3, 4]. Take a pencil. Their mean is 2.5. Subtract it: [−1.5,
# −0.5, 0.5, 1.5]. The mean of the squares of these is 1.25: the variance. Its square root is
# 1.118. Divide.

# %% tags=["nbval-check-output"]
x = torch.tensor([1.0, 2.0, 3.0, 4.0])
centred = x - x.mean()
variance = centred.square().mean()
by_hand = centred / variance.sqrt()
print(f"mean {x.mean():.2f}, variance {variance:.2f}, root {variance.sqrt():.3f}")
print(by_hand)

# %% [markdown]
# That is almost all of it. Two things are missing. If all numbers are equal, the variance is 0, and
# we cannot divide by 0. So a tiny $\varepsilon$ is added under the root. And perhaps a layer
# *wants* its third number to be large. So each number gets a learned weight and a learned
# [bias](glossary.ipynb#cell-id=bias), which start as 1 and 0.
#
# $$y_j = w_j\,\frac{x_j - \mu}{\sqrt{\sigma^2 + \varepsilon}} + b_j, \qquad
#   \mu = \frac1d\sum_{j=1}^d x_j, \qquad \sigma^2 = \frac1d\sum_{j=1}^d (x_j - \mu)^2$$
#
# $x_j$ is the j-th of the token's $d$ = `d_model` numbers. $w$ and $b$ are `weight` and `bias`,
# (d_model,). $\varepsilon$ is `eps`. Each token is normalized by itself: no other token and no
# other sequence plays a part.
#
# ### Exercise · LayerNorm
#
# The last axis of `x` is d_model. Before it there may be any number of axes, or none. So (d_model,)
# is one token alone, (tokens, d_model) a sequence, (batch, tokens, d_model) a batch, and (batch,
# heads, tokens, d_model) comes too. The result has the shape of `x`. A token whose numbers are all
# equal gives the bias, and its [gradient](glossary.ipynb#cell-id=gradient) stays finite. Build it
# from sums and roots (`mean`, `var`, `square`, `sqrt` …), not from torch's own norms.
#
# Follow the formula closely: subtract the mean *first*, then square. The mean of the squares
# minus the square of the mean is the same on paper. But the check also tries numbers around 30,
# and there that form loses most of its digits.


# %% exercise="layer_norm" difficulty=1 minutes=10
def layer_norm(x, weight, bias, eps=1e-5):
    """Normalize the last axis of x, (..., d_model), then scale and shift"""
    ### BEGIN SOLUTION
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return weight * (x - mean) / (variance + eps).sqrt() + bias
    ### END SOLUTION


# %% check="layer_norm"
layer_norm = check(layer_norm)

# %% tags=["nbval-check-output"]
torch.manual_seed(1)
batch = torch.randn(2, 5, 16) * 3 + 1
ours = layer_norm(batch, torch.ones(16), torch.zeros(16))
layer_gap = (ours - nn.LayerNorm(16)(batch)).abs().max().item()
print("equal to nn.LayerNorm to 1e-5:", layer_gap < 1e-5)

# %% [markdown]
# ## Two that are a little wrong
#
# The formula has two places where it is easy to slip. Both slips stand in the LayerNorm of the
# [Annotated Transformer](https://nlp.seas.harvard.edu/annotated-transformer/), a well-known
# tutorial, from where [others have copied
# them](https://github.com/codertimo/BERT-pytorch/issues/30). The first: `x.std()` divides by d − 1,
# as statistics does for a sample, where the formula divides by d. The second: eps is added to the
# root, not under it.
#
# Here is all of it on [1, 0, 0, 0]. **Predict**: which of the two slips will matter?

# %% tags=["after-prediction", "nbval-check-output"]
spike = torch.tensor([1.0, 0.0, 0.0, 0.0])


def first_number(x, correction, eps, inside):
    """The first number of x, normalized one way or another."""
    variance = x.var(correction=correction)
    below = (variance + eps).sqrt() if inside else variance.sqrt() + eps
    return ((x - x.mean()) / below)[0].item()


true_one = first_number(spike, 0, 1e-5, inside=True)
unbiased = first_number(spike, 1, 1e-5, inside=True)
outside = first_number(spike, 0, 1e-5, inside=False)
print(f"as it should be: {true_one:.5f}   nn.LayerNorm: {nn.LayerNorm(4)(spike)[0]:.5f}")
print(f"divided by d − 1: {unbiased:.5f}   eps outside the root: {outside:.5f}")

# %% [markdown]
# 1.50 instead of 1.73: with four numbers, d − 1 makes a large difference. And with 4096? And when
# would the place of eps matter? Where the variance is about as small as eps itself:

# %% tags=["after-prediction", "nbval-check-output"]
print("       d   divided by d − 1: off by")
for d in (4, 64, 768, 4096):
    print(f"{d:8}   {1 - ((d - 1) / d) ** 0.5:.3%}")
print("  standard deviation of the token   eps outside: off by")
eps_off = {}
for spread in (1.0, 0.1, 0.02, 0.001):
    small = spread * spike / spike.std(correction=0)
    right = first_number(small, 0, 1e-5, inside=True)
    eps_off[spread] = abs(first_number(small, 0, 1e-5, inside=False) / right - 1)
    print(f"{spread:33}   {eps_off[spread]:.1%}")

# %% [markdown]
# So in a real model, with thousands of numbers, the first slip is nearly harmless. So is the
# second, as long as the standard deviation of a token is far above √eps ≈ 0.003. (The row of 0.02
# is how GPT-2's embeddings are drawn *before the first step*. Training changes them, so this says
# nothing about the trained model.)
#
# Both are wrong all the same, and there is one case that hurts. You load weights that were
# trained with the right norm. Your results come out a little different, everywhere, for no
# reason that you can find.
#
# ### Find the bugs · a LayerNorm from the wild
#
# There are two in it. You have met both. It takes the same arguments as your `layer_norm`, with
# any number of axes, and it should give the same numbers.


# %% exercise="wild_layer_norm" difficulty=1 minutes=6
def wild_layer_norm(x, weight, bias, eps=1e-5):
    """LayerNorm over the last axis of x, (..., d_model)"""
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
# Networks that look at images do it the other way round. They take each *number of the vector* by
# itself, and go over all examples of the [batch](glossary.ipynb#cell-id=batch). **BatchNorm** came
# first. Why does no language model use it?
#
# For it you need a mean over two axes at once. `mean` takes a tuple of axes, and `keepdim=True`
# leaves each of them with length 1:

# %% tags=["nbval-check-output"]
t = torch.arange(24.0).view(2, 3, 4)
print(t.mean(dim=(1, 2)))  # one mean for each of the 2
print(t.mean(dim=(1, 2), keepdim=True).shape)

# %% [markdown]
# ### Exercise · BatchNorm
#
# `x` has three axes, (batch, tokens, d_model). For each of the d_model numbers: mean and variance
# over all tokens of all sequences. The result has the shape of `x`. There is no weight and no
# bias. eps stands under the root, and the variance divides by how many numbers there are (by
# batch · tokens, also when that is 1). Again from sums and roots, and again subtract first, then
# square.


# %% exercise="batch_norm" difficulty=1 minutes=6
def batch_norm(x, eps=1e-5):
    """Normalize each number of the vectors over batch and tokens; the same shape as x"""
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
# Now the differences, each as a number. How far does the output for sequence 0 move when its
# neighbour in the batch changes? When 40 tokens of [padding](glossary.ipynb#cell-id=padding) are
# put behind it? When its own *last* token changes (how far do the others move)?
#
# And how far apart are training and use? A module of PyTorch has a mode for each:
# `module.train(True)` and `module.train(False)` (or `module.eval()`) switch between them. The two
# modes are the same for `nn.LayerNorm`, but not for PyTorch's BatchNorm, `nn.BatchNorm1d`. In
# training it takes mean and variance of the batch, and keeps a running average of them. In use it
# takes these averages. We compare the two modes after ten batches.

# %% tags=["after-prediction", "nbval-check-output"]
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
        module(torch.randn(20, 8) * 2 + 1)  # in training: the running averages follow
    in_training, in_use = (module.train(mode)(x.flatten(0, 1)) for mode in (True, False))
    moved[name] = {
        "neighbour": (norm(other)[0] - out[0]).abs().max().item(),
        "padding": (norm(padded)[0, :10] - out[0]).abs().max().item(),
        "later token": (norm(later)[0, :9] - out[0, :9]).abs().max().item(),
        "use": (in_training - in_use).abs().max().item(),
    }
    print(f"{name}:", "  ".join(f"{what} {value:.2f}" for what, value in moved[name].items()))
    of_a_token, of_a_number = out.mean(-1).abs().max(), out.mean((0, 1)).abs().max()
    print(f"   the mean of one token's numbers is at most {of_a_token:.2f}")
    print(f"   the mean of one number over all tokens is at most {of_a_number:.2f}")

# %% [markdown]
# |  | LayerNorm | BatchNorm |
# |---|---|---|
# | mean and variance over | the numbers of one token | all tokens of the batch |
# | another sequence in the batch changes | nothing | the output |
# | sequences of different length, padding | do not matter | distort the mean |
# | a later token changes | nothing before it | all of the sequence: the future leaks |
# | in use, one token at a time | computes the same | uses means stored in training |
#
# For images of equal size the right column is no great problem, and the stored means work well
# there. A language model reads sentences of all lengths and must not see the future. For it, each
# row is a reason against BatchNorm, and the fourth is decisive.
#
# ## Where a norm sends a token
#
# What does LayerNorm (without weight and bias) leave of a token? A token of three numbers is a
# point in space. **Predict** before you touch: make the token ten times as long, or add 2 to all
# three of its numbers. Does LayerNorm's result change? Then try it with the two sliders.
#
# Press *LayerNorm* and watch where the points go. (*RMSNorm* comes in the next section.) To turn
# the picture, drag it with the mouse; or press Tab until it has a frame, and use the arrow keys.

# %% tags=["after-prediction"]
NormGeometry()

# %% tags=["after-prediction", "nbval-check-output"]
x = torch.randn(1000, 3) * torch.tensor([3.0, 1.0, 0.3]) + 2
y = F.layer_norm(x, (3,))
z = F.rms_norm(x, (3,))
for name, t in {"LayerNorm": y, "RMSNorm": z}.items():
    sums, length = t.sum(-1).abs().max().item(), t.norm(dim=-1).mean().item()
    print(f"{name:>9}: largest sum {sums:.3f}, length {length:.3f}")
print(f"√3 = {3**0.5:.3f}")

# %% [markdown]
# Subtracting the mean drops the point onto the plane of all points whose numbers sum to 0.
# Dividing then pushes it in or out until its length is √d. Together: all tokens land on a sphere
# *inside that plane*; in three dimensions, a circle. So a longer token gives the same result, and
# so does one with 2 added to all its numbers. What a token says from here on, it says by its
# direction. The second printed line, RMSNorm, is the same without subtracting. The length is
# √d again, but the sums are not 0. The tokens are on the sphere, not in the plane.
#
# ## Leave the mean out: RMSNorm
#
# Do we need the plane, or only the sphere? **RMSNorm** leaves the mean alone and divides by the
# *root of the mean of the squares*. There is no bias either:
#
# $$y_j = w_j\,\frac{x_j}{\sqrt{\frac1d\sum_{k=1}^d x_k^2 + \varepsilon}}$$
#
# with the letters from above; k runs over all of the token's numbers. Llama, Mistral, Qwen,
# Gemma and Phi-3 all use it.
#
# The formula is one line of code, and in a real model that line has a trap. Large models are
# mostly run in **half precision**: a number has 16 bits instead of 32. There are two kinds.
# **float16** has about three digits and ends at 65504. **bfloat16** has only about two digits, but
# reaches as far as float32. A tensor knows its type, `x.dtype`. `x.to(dtype)` gives the same
# numbers in another type, and `x.float()` is short for `x.to(torch.float32)`.
#
# What a norm reads is not normalized yet, so its numbers may be large. **Predict**: what will the
# formula give for a token of 300 and −200 in bfloat16? And in float16?

# %% tags=["after-prediction", "nbval-check-output"]
token = torch.tensor([300.0, -200.0])
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    t = token.to(dtype)
    root = t.square().mean().sqrt()
    divided = [round(number, 3) for number in (t / root).tolist()]
    print(f"{dtype}: squares {t.square().tolist()}, divided {divided}")

# %% [markdown]
# In float16 the square of 300 is infinite, and everything that is divided by infinity is 0. There
# is no error and no NaN: the token is gone. So [Llama's code](
# https://github.com/huggingface/transformers/tree/main/src/transformers/models/llama) *squares in
# float32*, although `x` comes in half precision and the result goes on in half precision.
#
# ### Exercise · RMSNorm
#
# As for LayerNorm, `x` has any number of axes and the last one is d_model; `weight` is
# (d_model,). `x` and `weight` come in the same type: float32, float64, float16 or bfloat16.
#
# - Half precision goes back to the half precision that `x` came in. (A float64 may lose digits on
#   the way through float32, and may stay float32.)
# - Half precision is worked out in float32: squares, mean and root. float16 numbers in the
#   hundreds come too, in `x` and in `weight`. (Whether you multiply by the weight before you go
#   back to half precision or after it is your choice. A rounding or two more in bfloat16 is no
#   mistake that the check could see.)
# - A token of zeros gives zeros, and its gradient stays finite.
#
# From sums and roots again, not from torch's own RMSNorm or LayerNorm.


# %% exercise="rms_norm" difficulty=2 minutes=10
def rms_norm(x, weight, eps=1e-5):
    """Divide the last axis of x, (..., d_model), by its root mean square, then scale"""
    ### BEGIN SOLUTION
    wide = x.float()
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    return (weight * wide / (mean_square + eps).sqrt()).to(x.dtype)
    ### END SOLUTION


# %% check="rms_norm"
rms_norm = check(rms_norm)

# %% tags=["nbval-check-output"]
rms_gap = (rms_norm(batch, torch.ones(16)) - nn.RMSNorm(16, eps=1e-5)(batch)).abs().max().item()
print("equal to nn.RMSNorm to 1e-5:", rms_gap < 1e-5)

# %% [markdown]
# ## Is it faster? Is it as good?
#
# The paper says: "RMSNorm achieves comparable performance against LayerNorm but reduces the
# running time by 7%∼64% on different models." You will often read "10 to 15 percent faster". So
# there are two claims, one about time and one about quality. Time first.

# %%
quiz("04-speed")

# %% [markdown]
# Four candidates, forward and backward: the two formulas, as the package writes them, and the two
# that come with PyTorch. Beside them runs a whole block (attention, MLP and two
# norms; [lesson 06](06_transformer_block.ipynb)), because the paper speaks of whole models.
#
# A computer does many things at once, so single times are not reliable. We run all candidates in
# turn, in many rounds, each time in another order, and compare them *round by round*. What counts
# is the median of the ratios with its 95% interval, in brackets.

# %%
here = device.pick_device()
x = torch.randn(2, 256, 512, device=here, requires_grad=True)
w, b = norms.LayerNorm(512).to(here).parameters()
layer, rms = nn.LayerNorm(512).to(here), nn.RMSNorm(512, eps=1e-5).to(here)
block = blocks.Block(512, 8).to(here)
candidates = {
    "LayerNorm, by formula": lambda: norms.layer_norm(x, w, b),
    "RMSNorm, by formula": lambda: norms.rms_norm(x, w),
    "nn.LayerNorm": lambda: layer(x),
    "nn.RMSNorm": lambda: rms(x),
    "block": lambda: block(x, causal=True),
}
steps = {name: lambda run=run: run().sum().backward() for name, run in candidates.items()}
times = device.measure_side_by_side(steps, rounds=21)
del steps["block"]
alone = device.measure_side_by_side(steps, rounds=101)  # short: many rounds cost little

# %% tags=["after-prediction"]
print(f"on {device.describe_device(here)}")
for name, seconds in times.items():
    print(f"{name:>22}: {1000 * torch.tensor(seconds).median():6.2f} ms")
ratio, saved = {}, {}
pairs = {"by formula": list(candidates)[:2], "built in": list(candidates)[2:4]}
for kind, (layer_name, rms_name) in pairs.items():
    pair = zip(alone[rms_name], alone[layer_name], strict=True)
    ratio[kind] = device.median_interval(r / t for r, t in pair)
    rounds = zip(times[layer_name], times[rms_name], times["block"], strict=True)
    saved[kind] = device.median_interval(2 * (t - r) / whole for t, r, whole in rounds)
    print(f"RMSNorm's time beside LayerNorm's, {kind}: × {ratio[kind]}")
    print(f"   of a block's time, its two RMSNorms would save {saved[kind].middle:.1%}")

# %% [markdown]
# Read your own numbers; on another machine they may be different. Where this text was written, on
# a processor without a graphics card, the formula of RMSNorm took clearly less time than the other
# formula. But **PyTorch's built-in RMSNorm took *longer* than its LayerNorm**: less arithmetic,
# more time. And in a block, next to the large matrix products of attention and MLP, neither makes
# much of a difference.
#
# ## What a norm costs
#
# Why is the formula so much slower than the built-in LayerNorm? We look at the forward pass alone.
# Both do the same arithmetic. But each step of a formula in PyTorch is a trip to memory: it reads a
# tensor as large as `x` and writes a new one. Count those that are written in `norms.layer_norm`:
# x − mean, its square, the quotient, times the weight, plus the bias. That is five. In
# `norms.rms_norm` it is three: the square, the quotient, times the weight. The built-in LayerNorm
# is one [**fused kernel**](glossary.ipynb#cell-id=fused-kernel): it reads a token, does all the
# arithmetic, and writes the result. That is one.
#
# If memory is what costs, we can predict the times without thinking about arithmetic at all. Take
# as unit the time of a *copy*, which reads and writes a tensor once and computes nothing. Then
# the three should take about five, three and one. **Predict** the fourth, the built-in RMSNorm,
# from what you saw above.

# %% tags=["after-prediction"]
big = torch.randn(16, 1024, 512, device=here)  # 32 MB: more than fits near the processor
forward = {
    "copy": big.clone,
    "LayerNorm, by formula": lambda: norms.layer_norm(big, w, b),
    "RMSNorm, by formula": lambda: norms.rms_norm(big, w),
    "nn.LayerNorm": lambda: layer(big),
    "nn.RMSNorm": lambda: rms(big),
}
with torch.no_grad():
    took = device.measure_side_by_side(forward, rounds=9)
copies = {
    name: device.median_interval(t / copy for t, copy in zip(seconds, took["copy"], strict=True))
    for name, seconds in took.items()
}
for name in list(forward)[1:]:
    print(f"{name:>22}: as long as {copies[name]} copies")

# %% [markdown]
# On the processor where this was written, the three came out near five, three and one: all of
# LayerNorm's arithmetic costs hardly more than copying. The built-in RMSNorm took as long as the
# formula. For this kind of device nobody has written a fused kernel for it; PyTorch runs the
# steps one after the other. On a graphics card there is one. We did not measure it here; you can.
#
# What to remember: **on this processor, with tensors this large, a norm's forward pass costs trips
# to memory, not arithmetic.** A formula that is shorter on paper saves time only if it saves trips.
#
# Three trips beside five would be × 0.6. With the backward pass, further up, RMSNorm's formula
# often takes less than that. Why? One suspect is how it is written. The package's RMSNorm
# multiplies x by itself, and by 1/root. Its LayerNorm squares x − mean, and divides by the root, as
# the formula does. So let us write RMSNorm that way too. **Predict**: will it take as long as the
# package's?


# %% tags=["after-prediction"]
def plain_rms_norm(x, weight, eps=1e-5):
    return weight * (x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt())


ways = {
    "LayerNorm, by formula": candidates["LayerNorm, by formula"],
    "RMSNorm, as the package writes it": candidates["RMSNorm, by formula"],
    "RMSNorm, written like LayerNorm": lambda: plain_rms_norm(x, w),
}
steps = {name: lambda run=run: run().sum().backward() for name, run in ways.items()}
with_backward = device.measure_side_by_side(steps, rounds=101)
with torch.no_grad():
    without_backward = device.measure_side_by_side(ways, rounds=101)
print("beside LayerNorm's formula:          forward alone      with the backward pass")
for name in list(ways)[1:]:
    shares = []
    for seconds in (without_backward, with_backward):
        pair = zip(seconds[name], seconds["LayerNorm, by formula"], strict=True)
        shares.append(str(device.median_interval(r / t for r, t in pair)))
    print(f"{name:>33}   × {shares[0]}   × {shares[1]}")

# %% [markdown]
# Where this was written, forward alone was near × 0.6 for both. With the backward pass the
# package's RMSNorm took × 0.4 to 0.6, in several runs. The same formula, written like LayerNorm's,
# took about × 0.7. So a part of what looked like RMSNorm's advantage is only the way in which
# somebody wrote it. Counting trips explains the forward pass. For the backward pass we have no
# count that fits.
#
# ## And the quality?
#
# The same small language model (two blocks, d_model = 64, 300 steps on Python's manual), once with
# LayerNorm and once with RMSNorm. Each gets the learning rate that was best for it on two **pilot
# seeds**, which are not reported. Then both are trained with twelve other seeds. A
# [seed](glossary.ipynb#cell-id=seed) fixes the first weights and the order of the text, so we
# compare *pairs*: same seed, other norm.
#
# "No difference" is only worth something if the experiment could have shown one. So there are two
# more runs for each seed: one without any norm, and one with LayerNorm but *half as many steps*,
# which surely costs something. The two norms count as comparable if they differ by less than a
# tenth of what halving the steps costs. Why a tenth? Halve the steps in ten equal stages, and each
# stage saves 7% of them, since $0.5^{0.1} = 0.93$. And 7% is the least time that the paper says
# RMSNorm saves. (Six seeds could not decide by this rule, so there are twelve.)
#
# First a short run, so that you see it learn. (The curve is the loss on the text that it trains on.
# The printed number is the [held-out loss](glossary.ipynb#cell-id=held-out-loss), on pages that it
# has never seen, after the last step, in [nats](glossary.ipynb#cell-id=nat).)

# %%
record = recorded("norm_quality")
rate = record["results"]["chosen"]["RMSNorm"]
watch = figures.LiveCurve("Does it learn with RMSNorm?", 60)
short = norm_quality.one("RMSNorm", rate=rate, seed=0, steps=60, watch=watch)
print(f"held out, after 60 steps: {short['loss']:.2f} nats")

# %% [markdown]
# The whole experiment is recorded in `data/norm_quality.json`, with its command.

# %%
RETRAIN = False
results = norm_quality.run(**record["settings"], say=print) if RETRAIN else record["results"]
for arm, rate in results["chosen"].items():
    mean, spread = mean_and_spread(losses(results, arm))
    gap = paired(losses(results, arm), losses(results, "LayerNorm"))
    beside = "" if arm == "LayerNorm" else f"   beside LayerNorm {gap}"
    print(f"{arm:>15}, rate {rate:.3g}: {mean:.3f} ± {spread:.3f} nats{beside}")

# %% [markdown]
# The last column is the mean of the paired differences with its 95%
# [interval](glossary.ipynb#cell-id=confidence-interval): minus is better than LayerNorm. The two
# norms are comparable: the interval lies within a tenth of what halving the steps costs. (Is
# RMSNorm even a little better? These twelve seeds seem to say so. Twelve others, which the record
# keeps under `again`, do not. A difference so small may be chance.)
#
# But look at the third line. *Without any norm* this model learns at least as well. With two
# blocks, a [warm-up](glossary.ipynb#cell-id=warm-up), [clipped](glossary.ipynb#cell-id=clipping)
# gradients and a learning rate of its own, it does not need one. So the experiment says that
# nothing is lost without the mean. It does not say that norms are what makes this model learn.
# [Lesson 07](07_going_deep.ipynb) takes the norms out of a deeper model.
#
# ## Where norms stand
#
# A block ([lesson 06](06_transformer_block.ipynb)) has two parts: attention, and an MLP ([lesson
# 05](05_feed_forward.ipynb)). Each of them reads a token's vector and *adds* its result to it.
# The vector that runs through all blocks, and is added to, is called the **residual stream**. In
# **pre-norm** models each part has a norm in front of it: x + f(norm(x)). So only what a part
# *reads* is normalized; the stream itself is not. (The other way, norm(x + f(x)), is called
# post-norm. [Lesson 07](07_going_deep.ipynb) compares them.)
#
# **Predict**: 32 untrained blocks, two additions each, all of about equal size. How does the
# stream's size grow with depth: not at all, like √depth, like depth, or like 2^depth?


# %% tags=["after-prediction"]
@torch.no_grad()
def stream_sizes(seed, depth=32):
    """Sizes of the stream before the first block and after each; and after one last norm"""
    torch.manual_seed(seed)
    x = torch.randn(4, 32, 128)
    sizes = [x.std().item()]
    for _ in range(depth):
        block = blocks.Block(128, 4)
        for weights in block.parameters():
            if weights.dim() == 2:
                nn.init.normal_(weights, std=weights.shape[1] ** -0.5)  # each keeps the size
        x = block(x, causal=True)
        sizes.append(x.std().item())
    return sizes, nn.LayerNorm(128)(x).std().item()


sizes, after = stream_sizes(seed=0)
powers = [math.log(s[32] / s[8]) / math.log(32 / 8) for s, _ in map(stream_sizes, range(5))]
print("from block 8 to 32 like depth to the power", ", ".join(f"{p:.2f}" for p in powers))

# %% tags=["after-prediction"]
added = (sizes[1] / sizes[0]) ** 2 - 1  # by how much the first block raised the variance
figures.lines(
    range(33),
    {
        "pre-norm stream": sizes,
        "if each block added as much variance as the first": [
            (1 + n * added) ** 0.5 for n in range(33)
        ],
    },
    title="How large is what 32 blocks have added up?",
    x_label="blocks passed",
    y_label="standard deviation of the stream",
    markers=False,
    level=(after, "after one last norm"),
    alt=f"It climbs from 1 to {sizes[-1]:.1f}, steeply at first, then flatter, like a square "
    f"root. After one last norm it is {after:.2f} again.",
)

# %% [markdown]
# Roughly like a square root: independent additions add their *variances*. (Not exactly: most
# blocks add more variance than the first one.) All of this is about *untrained* weights, and
# about weights that keep the size of what they read. GPT-2 starts with smaller ones, and training
# changes all of them: [lesson 07](07_going_deep.ipynb) trains deep stacks and looks again. What
# stays true is that nothing in the stream itself sets its size.
#
# After the last block comes the **head** (the [output head](glossary.ipynb#cell-id=output-head),
# not one of attention), the layer that scores every possible next token. (Its scores are called
# **logits**.) So that it does not have to read numbers of whatever size they happen to be, pre-norm
# models have **one last norm** before it. GPT-2 calls it `ln_f`, Llama `norm`.
#
# To forget it is a classic mistake. Every shape is right, and the weights of a **checkpoint** (a
# file with the weights of a trained model) load without complaint. How bad is it? In the
# experiment above each trained model was measured once more, with its last norm taken away:

# %%
for arm in ("LayerNorm", "RMSNorm"):
    kept, _ = mean_and_spread(losses(results, arm))
    forgotten, spread = mean_and_spread(losses(results, arm, key="without the last norm"))
    print(f"{arm:>9}: {kept:.2f} nats; the last norm forgotten: {forgotten:.2f} ± {spread:.2f}")
blind = results["only the frequencies"]
print(f"knowing nothing but how often each character occurs: {blind:.2f}")

# %% [markdown]
# Most of what the model has learned is gone, and for most seeds the result is worse than guessing
# by frequency. The head was trained for normalized numbers, and gets others. (What if a model is
# *trained* without a last norm? That is another question: [lesson 07](07_going_deep.ipynb)
# removes one component after the other and trains.)
#
# ### Exercise · fold the norm into the next layer
#
# In a pre-norm block what a norm gives is read by linear layers only. So its weight and bias need
# not exist at all: we can put them into the layer that reads. Many people do this before they
# take a model apart. Call the norm's two tensors `scale` and `shift`, both (d_in,). The next
# layer has `w`, (d_out, d_in), and `b`, (d_out,), as `nn.Linear` stores them: it computes
# $\sum_j w_{ij}\, y_j + b_i$. Let y be a token that is normalized but not yet scaled and shifted.
# Find two tensors, `w_new` (d_out, d_in) and `b_new` (d_out,), for which
#
# `F.linear(y, w_new, b_new)` equals `F.linear(y * scale + shift, w, b)`, for every y.
#
# Return both as a tuple, and leave the four that you were given as they are.


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
claims.add("layer-norm-by-hand", by_hand.tolist())
claims.add("norms-equal-the-built-in", {"LayerNorm": layer_gap, "RMSNorm": rms_gap})
claims.add("unbiased-spike", true_one, unbiased)
claims.add("eps-outside-harmless", eps_off)
claims.add("batch-norm-sees-neighbours", moved)
claims.add("stream-grows-like-a-root", powers)
claims

# %% [markdown]
# The paper's sentence on RMSNorm stands in the next table three times, because three things decide
# about it: the time of the two formulas, the time of the two built-in norms, and the quality.

# %%
pairs_of_times = zip(took["LayerNorm, by formula"], took["nn.LayerNorm"], strict=True)
formula_to_kernel = device.median_interval(slow / fast for slow, fast in pairs_of_times)
claims = Claims("04_norms, RMSNorm against LayerNorm")
claims.add("norm-memory", formula_to_kernel, copies["nn.LayerNorm"].middle)
claims.add("rms-norm-ten-percent", ratio["by formula"], ratio["built in"])
claims.add("rms-norm-time-formula", ratio["by formula"], saved["by formula"])
claims.add("rms-norm-time-kernel", ratio["built in"], saved["built in"])
for id in ("rms-norm-quality", "no-norm-learns-worse", "last-norm-forgotten"):
    claims.add(id, results)
claims

# %% [markdown]
# The times are of this moment on this machine. If another program runs beside it, the intervals
# become wider, and a verdict may turn into "cannot tell". The paper's times are of whole models on
# graphics cards. Where the norms take a larger share of the whole, there is more to save.
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
# - J. Ba, J. Kiros, G. Hinton, [*Layer Normalization*](https://arxiv.org/abs/1607.06450), 2016.
# - S. Ioffe, C. Szegedy, [*Batch Normalization*](https://arxiv.org/abs/1502.03167), 2015.
# - B. Zhang, R. Sennrich, [*Root Mean Square Layer
#   Normalization*](https://arxiv.org/abs/1910.07467), 2019: the 7 to 64 percent.
# - S. Brody, U. Alon, E. Yahav, [*On the Expressivity Role of LayerNorm in Transformers'
#   Attention*](https://arxiv.org/abs/2305.02582), 2023: the geometry.
#
# **Next:** attention moves information between tokens. Where does a token think by itself?
# [Lesson 05](05_feed_forward.ipynb): the MLP.
