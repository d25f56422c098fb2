# %% [markdown]
# # 07 · Going deep
#
# ![](drawings/map.svg)
#
# **What has to be right before a hundred blocks will train?** GPT-2 has up to 48 blocks, Llama-3
# 405B has 126. Three lines of GPT-2's code are there for depth alone. The norm stands *before* each
# sub-layer, `x = x + attn(ln_1(x))`. One more norm stands at the end, `ln_f`. And some first
# weights are divided by `math.sqrt(2 * n_layer)`. What happens if we leave them out?
#
# At the end of this lesson you will have put the norm in the wrong place and measured what it does
# to the gradient. You will have derived the gradients of a norm and of attention by hand, started
# stacks with good and bad first weights, and gone to 160 blocks. And you will have taken a language
# model apart, component by component. You will also have decided about sixteen statements, six of
# them in print, by rules. Some of them do not hold here.
#
# *About 160 minutes. You need: lessons [04](04_norms.ipynb) to
# [06](06_transformer_block.ipynb); derivatives. Best in two sittings: a good place to pause is
# before "Warming up".*

# %%
import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, attention, blocks, check, figures, hint, mine, quiz, reveal
from tfcourse.attention import causal_mask
from tfcourse.claims.claim import paired
from tfcourse.experiments import components, first_weights, mean_and_spread, norm_places, recorded
from tfcourse.experiments.characters import manual, train
from tfcourse.experiments.study import losses

# %% [markdown]
# ## Before or after?
#
# [Lesson 06](06_transformer_block.ipynb) built the block with its norm in either place:
#
# $$\text{pre-norm: } x \leftarrow x + f(\mathrm{norm}(x)) \qquad\qquad
#   \text{post-norm: } x \leftarrow \mathrm{norm}(x + f(x))$$
#
# ![](drawings/stream.svg)
#
# The paper of 2017 has post-norm, nearly all models since GPT-2 have pre-norm. This is a common
# answer, in an interview, to the question why:
#
# > Post-LN typically diverges (loss goes to NaN or stalls at uniform) within the first 50 to 200
# > steps without warmup, because residual variance grows layer-by-layer and gradients explode.
# > Pre-LN trains stably.
#
# (LN is LayerNorm. **Warm-up** means that the [learning rate](glossary.ipynb#cell-id=learning-rate)
# does not start at its full value: it climbs there over the first steps.) That is four statements
# in one: it fails, it fails in a certain way, it fails for a certain reason, and pre-norm does not
# fail. We take them one by one.
#
# ### A rule before the run
#
# When has a run failed? If you decide *after* you have seen the curves, you will find what you
# expect. So the rule comes first. Our text has 103 different characters. A model that knows nothing
# at all has a loss of ln 103 = 4.63 [**nats**](glossary.ipynb#cell-id=nat) (that is "uniform"). One
# that knows only how frequent each character is has 3.25 nats; call that the **level**. A model
# needs no blocks to get there. The last norm adds a learned bias, the same for every token, and the
# last matrix makes of it one fixed score for each character. So:
#
# - **diverged**: any loss is NaN or infinite.
# - **stalled**: not diverged, and the mean of the last 20 losses is *above* level − 0.1.
# - **learns**: everything else.
#
# ### Exercise · how it ended
#
# `losses` is a tensor (steps,) with the loss of every step, `level` a number. Give "diverged",
# "stalled" or "learns". Where there are fewer than 20 losses, take the mean of those that are
# there. For a tensor, `.isfinite()` says of each number whether it is neither NaN nor infinite,
# and `.all()` whether all are True.


# %% exercise="how_it_ended" difficulty=1 minutes=6
def how_it_ended(losses, level):
    """ "diverged", "stalled" or "learns", by the rule above"""
    ### BEGIN SOLUTION
    if not losses.isfinite().all():
        return "diverged"
    return "stalled" if losses[-20:].mean() > level - 0.1 else "learns"
    ### END SOLUTION


# %% check="how_it_ended"
how_it_ended = check(how_it_ended)

# %% [markdown]
# Now **predict**.

# %%
quiz("07-post")

# %% [markdown]
# A language model on the characters of Python's manual: d_model = 256, 4 heads, an MLP of 1024. It
# has PyTorch's own first weights, [AdamW](glossary.ipynb#cell-id=AdamW), no
# [clipping](glossary.ipynb#cell-id=clipping) and no warm-up: as one would write it without thinking
# of depth. The model is the package's `LanguageModel`: embedding, blocks, output head. But in the
# short runs here its blocks are yours: `mine` gives back the `TransformerBlock` that you wrote in
# [lesson 06](06_transformer_block.ipynb). (If yours has not passed yet, it gives ours.)
#
# `LanguageModel` talks to a block in its own way. It hands over one `config` that holds all sizes,
# and it says `causal=True` where yours takes a mask. So `MyBlock` translates:


# %%
class MyBlock(mine.TransformerBlock):
    """Your block of lesson 06, in the words of `LanguageModel`."""

    def __init__(self, config):
        super().__init__(config.d_model, config.n_heads, config.d_ff, config.norm_first)

    def forward(self, x, causal):
        return super().forward(x, mask=causal_mask(x.shape[1], device=x.device))


# %% [markdown]
# First 25 steps of pre-norm and of post-norm, to see that your block learns.

# %%
STEPS = 25
for arm in ("pre-norm, 6 layers", "post-norm, 6 layers"):
    watch = figures.LiveCurve(f"Does it learn? {arm}, learning rate 0.003", STEPS)
    found = norm_places.one(arm, rate=3e-3, seed=0, steps=STEPS, block=MyBlock, watch=watch)
    print(f"{arm}: {found['loss']:.2f} nats on held-out text after {STEPS} steps")

# %% [markdown]
# The record was made with the package's block and holds 100 steps of each: six layers at three
# learning rates with five seeds, and twelve and eighteen layers at lower rates. No rate is chosen
# here. *Which* rates a stack can take is the question, so all of them are shown. Your
# `how_it_ended` counts. (The curves hold means of ten steps, so the last two of them make the last
# twenty losses.)

# %% tags=["after-prediction"]
RETRAIN = False
record = recorded("norm_places")
places = norm_places.run(**record["settings"], say=print) if RETRAIN else record["results"]
level = places["only the frequencies"]
for arm in (arm for arm in norm_places.ARMS if "layers" in arm):
    for rate in sorted({run["rate"] for run in places["runs"] if run["arm"] == arm}):
        runs = [r for r in places["runs"] if (r["arm"], r["rate"]) == (arm, rate)]
        ends = [how_it_ended(torch.tensor(run["curve"][-2:]), level) for run in runs]
        mean, spread = mean_and_spread([run["loss"] for run in runs])
        counts = f"{ends.count('stalled')} stalled and {ends.count('diverged')} diverged"
        print(f"{arm:>19}, rate {rate:<6g}: {counts} of {len(runs)}; "
              f"held out {mean:.2f} ± {spread:.2f} nats")  # fmt: skip


# %% tags=["after-prediction"]
def mean_curve(arm, rate):
    """The mean of the seeds' curves; each point is the mean of ten steps."""
    curves = [r["curve"] for r in places["runs"] if (r["arm"], r["rate"]) == (arm, rate)]
    return [sum(values) / len(values) for values in zip(*curves, strict=True)]


curves = {
    f"{place}, rate {rate:g}": mean_curve(f"{place}, 6 layers", rate)
    for place in ("pre-norm", "post-norm")
    for rate in (1e-3, 3e-3)
}
figures.lines(
    range(10, 101, 10),
    curves | {"the frequencies": [level] * 10},
    title="Six layers without warm-up: does it get past the frequencies?",
    x_label="step (record in data/norm_places.json, mean of five seeds)",
    y_label="training loss in nats",
    from_zero=False,
    alt="; ".join(f"{name}: {c[0]:.2f} at first, {c[-1]:.2f} at last" for name, c in curves.items())
    + f". Frequencies alone: {level:.2f} nats.",
)

# %% [markdown]
# No run went to NaN: a norm stands at the end of each block, so how could the numbers grow without
# limit? But post-norm does fail, and it fails in one way. It **stalls**. It learns how frequent the
# characters are and nothing more. That is not "at uniform" (4.63): what the blocks do is lost, and
# the last matrix does what it can alone.
#
# When it fails depends on the learning rate *and* on the depth. Six layers take 0.001 and not
# 0.003. Twelve do not take 0.001 any more, and eighteen not even 0.0003. Pre-norm learns at all of
# these; only at 0.01 does it stall too. So the statement is right under a condition that it does
# not name.
#
# (The table at the end of this lesson judges these runs once more, by a rule of its own. It
# compares the [held-out loss](glossary.ipynb#cell-id=held-out-loss) with level − 0.1, not the last
# twenty training losses. The two rules differ on two runs only, both of pre-norm at 0.01: stalled
# by your rule, not by the table's.)
#
# Now to the reason that it gives.
#
# ## Why after is harder
#
# "…because residual variance grows layer-by-layer and gradients explode." Let us look at the first
# half first, on stacks of plain matrices.
#
# ### Exercise · how the stream grows
#
# A block is here one matrix. Pre-norm: `x = x + norm(x) @ matrix`; post-norm:
# `x = norm(x + x @ matrix)`, with `norm` given. `x` is (batch, tokens, d), `matrices` is
# (n, d, d), one for each block. Give the *size* of x before the first block and after every block,
# a tensor (n + 1,). Size is the root of the mean of all squares. (`torch.stack` makes one tensor
# of a list of numbers that are tensors.)


# %% exercise="stream_growth" difficulty=2 minutes=12
def stream_growth(x, matrices, norm_first):
    """(batch, tokens, d), (n, d, d), whether pre-norm -> the sizes (n + 1,)"""

    def norm(x):
        return F.layer_norm(x, x.shape[-1:])

    ### BEGIN SOLUTION
    sizes = [x.square().mean().sqrt()]
    for matrix in matrices:
        x = x + norm(x) @ matrix if norm_first else norm(x + x @ matrix)
        sizes.append(x.square().mean().sqrt())
    return torch.stack(sizes)
    ### END SOLUTION


# %% check="stream_growth"
stream_growth = check(stream_growth)

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
x, matrices = torch.randn(2, 8, 64), torch.randn(100, 64, 64) / 64**0.5
for norm_first in (True, False):
    sizes = stream_growth(x, matrices, norm_first)
    shown = ", ".join(f"{sizes[n].item():.1f} after {n}" for n in (0, 1, 4, 25, 100))
    print(f"{'pre' if norm_first else 'post'}-norm: {shown}")

# %% [markdown]
# It is **pre-norm** whose stream grows: each block adds something of size 1, and n independent
# additions have a variance of n, so the size grows like √n. In post-norm every block ends with a
# norm, and the size is 1 for ever. The printed reason has them the wrong way round.
#
# And the gradient? Now the real stacks. The cell measures, along the stack, the size of the
# [residual stream](glossary.ipynb#cell-id=residual-stream) and the length of the loss's gradient
# with respect to it.


# %%
def along_the_stack(model):
    """Size of the stream, and of its gradient, before the first block and after each."""
    ids, targets = manual().batch(8, 32, torch.Generator().manual_seed(0))
    stream = [model.embed(ids)]
    for block in model.blocks:
        stream.append(block(stream[-1], causal=True))
    logits = model.head(model.norm(stream[-1]))
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    gradients = torch.autograd.grad(loss, stream)
    return [x.std().item() for x in stream], [g.norm().item() for g in gradients]


def before_and_after(norm_first, seed, steps=12):
    """The same along an untrained stack of six, and after some steps at 0.003."""
    torch.manual_seed(seed)
    model = norm_places.make(6, norm_first)
    before = along_the_stack(model)
    train(model, seed=seed, tokens=32, batch=4, steps=steps, learning_rate=3e-3)
    return before, along_the_stack(model), model


# %% [markdown]
# **Predict**, for the two stacks after twelve steps at the rate at which post-norm stalls:

# %%
quiz("07-grows")

# %%
quiz("07-gradient")

# %% tags=["after-prediction"]
SEEDS = (0, 1, 2)
measured = {
    name: [before_and_after(norm_first, seed) for seed in SEEDS]
    for name, norm_first in (("pre-norm", True), ("post-norm", False))
}
for name, runs in measured.items():
    (_, start), (stream, gradient), _ = runs[0]
    print(f"{name:>9}: untrained, the gradient is {start[0]:.3f} at the first block and "
          f"{start[-1]:.3f} after the last")  # fmt: skip
    print(f"{'12 steps':>9}: it is {gradient[0]:.1e} and {gradient[-1]:.1e}; "
          f"the stream goes from {stream[1]:.1f} to {stream[-1]:.1f}")  # fmt: skip

# %% tags=["after-prediction"]
by_depth = {}
for name, runs in measured.items():
    by_depth[f"{name}, untrained"] = runs[0][0][1]
    by_depth[f"{name}, 12 steps"] = runs[0][1][1]
figures.lines(
    range(7),
    by_depth,
    title="How much of the gradient arrives, block by block?",
    x_label="blocks passed (the gradient comes from the right)",
    y_label="length of the gradient at the stream",
    log_y=True,
    alt="; ".join(
        f"{name}: {values[0]:.1e} before the first block, {values[-1]:.1e} after the last"
        for name, values in by_depth.items()
    ),
)

# %% [markdown]
# At the start there is hardly a difference: all lines are flat. Twelve steps later the gradient of
# post-norm loses a factor of about ten at *every block*. What arrives at the first block is a
# million times too small. It does not explode, it **vanishes**. In pre-norm the line is still
# flat, although its stream has grown ten times.
#
# ### What a norm does to a gradient
#
# Why ten for each block? LayerNorm takes a token x to y = (x − mean) / s, where s is its standard
# deviation. Suppose that s = 3. Then y changes only a third as much as x does, so the gradient
# that arrives at y is divided by 3 on its way to x. That is the main part. There are two more:
# - Adding a constant to all numbers of x changes nothing, because the mean is taken away. So the
#   part of the gradient that is *the same in all numbers* has no effect, and is taken away as well.
# - Making x longer changes nothing, because s grows with it. So the part *along y* has no effect,
#   and is taken away too.
#
# With g for the gradient at y, and a bar for the mean over the token's d numbers:
#
# $$\frac{\partial L}{\partial x}
#   = \frac{1}{s}\Bigl(g - \bar g - \text{the part of } g \text{ along } y\Bigr),
#   \qquad s = \sqrt{\overline{(x - \bar x)^2} + \epsilon}$$
#
# The formula of the last part is yours to find. If u is a vector of length 1, the part of g along u
# is (g · u) u: a dot product, times u. But the length of y is not 1. The mean of its squares is 1,
# so its length is √d. (ε makes y a little shorter. Take √d all the same: then the result is exact.)
#
# ### Exercise · the gradient through a norm
#
# Find the missing part, on paper, and write all of it. `x` and `g` have the shape (…, d), and every
# token (the last axis) stands for itself. Use steps, no ready-made norm and no autograd:
# `keepdim=True` keeps the axis over which a mean is taken, so that the result can be subtracted.
#
# (The name: the table of all ∂yᵢ/∂xⱼ is called the [Jacobian](glossary.ipynb#cell-id=Jacobian). The
# gradient g, a vector, times this table is the gradient at x: a *vector-Jacobian product*, or
# [VJP](glossary.ipynb#cell-id=VJP).)


# %% exercise="norm_vjp" graded=true points=4 difficulty=3 minutes=25
def norm_vjp(x, g, eps=1e-5):
    """The gradient at x from the gradient g at LayerNorm's output: (…, d) -> (…, d)"""
    ### BEGIN SOLUTION
    offset = x - x.mean(dim=-1, keepdim=True)
    s = (offset.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    y = offset / s
    return (g - g.mean(dim=-1, keepdim=True) - y * (g * y).mean(dim=-1, keepdim=True)) / s
    ### END SOLUTION


# %% check="norm_vjp"
norm_vjp = check(norm_vjp)

# %% [markdown]
# In a post-norm stack these norms stand **on** the path that the gradient takes: six blocks, twelve
# norms, one behind the other. If each reads a sum of size 3, the gradient is divided by $3^{12}$.
# In a pre-norm stack the norms stand **beside** the path, inside f: the path itself is a row of
# plus signs, from the last block to the first.
#
# Do the sizes of the sums explain what we measured? The cell reads them off, and multiplies. For
# that it puts a *hook* on each norm: a function that PyTorch calls just before the norm runs. It
# gets the module (`_`, not needed here) and the tuple of its inputs (`given`).


# %%
def sizes_that_norms_read(model):
    """The standard deviation of the tokens that each norm of the blocks gets."""
    read, hooks = [], []
    for block in model.blocks:
        for norm in (block.attention_norm, block.feed_forward_norm):
            note = lambda _, given: read.append(given[0].std(dim=-1).mean().item())
            hooks.append(norm.register_forward_pre_hook(note))
    along_the_stack(model)
    for hook in hooks:
        hook.remove()
    return read


shares = []  # for each seed: the gradient's fall, and what the norms predict
for _, (_, gradient), model in measured["post-norm"]:
    read = sizes_that_norms_read(model)
    shares.append((gradient[0] / gradient[-1], 1 / math.prod(read)))
print("post-norm after 12 steps; the sums that its norms read:", " ".join(f"{s:.1f}" for s in read))
print(f"all divisions together: {shares[-1][1]:.0e}; the gradient's fall: {shares[-1][0]:.0e}")

# %% [markdown]
# They do, roughly. (The sub-layers carry some gradient too, so it falls a little less.) And why
# have the sums grown so fast? Before training they were about 1. Adam divides every gradient by its
# own typical size, so its first steps move *every weight* by about the learning rate, however small
# the gradient is. Twelve steps of 0.003 make up to 0.036; the weights themselves began with a
# standard deviation of 1/√(3·256) = 0.036. Within a dozen steps they can be quite different
# weights, and the sums that the norms read have grown as you see.
#
# With so small a gradient the lower blocks hardly learn, and none of these runs came back within
# its 100 steps. So three things come together here: norms on the path, depth, and steps that are
# large for the weights.
#
# ### What attention does to a gradient
#
# The queries, keys and values of a block get their gradient through attention. Autograd finds it
# for you. But a fused kernel has no autograd inside: somebody has to write the way back by hand.
# The paper on FlashAttention ([Dao et al., 2022](https://arxiv.org/abs/2205.14135)) derives it in
# its appendix. Let us do the same. You will meet something on the way that you know already.
#
# Forward there are three steps. For query i and key j:
#
# $$s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}}, \qquad p_{ij} = \frac{e^{s_{ij}}}{\sum_l e^{s_{il}}},
#   \qquad o_i = \sum_j p_{ij}\, v_j$$
#
# s are the scores, p the weights, o the outputs; the sum with l runs over all keys. Back we go in
# the opposite order. `g` is the gradient at the output. A `d` in front of a letter means *the
# gradient of the loss at it*: dp has the shape of p. Its entry dpᵢⱼ says how fast the loss grows
# with that one weight.
#
# **A product.** Take single numbers first: o = p · v. If p grows by a little, o grows v times as
# much, so dp = g · v; and in the same way dv = p · g. Each factor gets g times *the other one*. Now
# the vectors. The weight of query i and key j meets all numbers of vⱼ, so the products are added
# up: dpᵢⱼ = gᵢ · vⱼ, a dot product. The value vⱼ gets into the output of *every* query, so what
# comes back from all of them is added up: dvⱼ = Σᵢ pᵢⱼ gᵢ. As matrices, with a row for each query
# in P and G and a row for each key in V:
#
# $$dP = G\,V^\top, \qquad dV = P^\top G$$
#
# **The softmax.** From the weights to the scores. **Predict** a simple case first:

# %%
quiz("07-common")

# %% [markdown]
# A query's weights sum to 1. So a query can only *move* weight from one key to another, and what
# all keys have in common is taken off. Take p = (0.5, 0.25, 0.25) and dp = (3, 1, 1). The mean of
# dp, with these weights, is 0.5 · 3 + 0.25 · 1 + 0.25 · 1 = 2. The first key is 1 above it, the
# others are 1 below. Each counts by its weight, so ds = (0.5, −0.25, −0.25). Its sum is 0: what
# one key gains, the others lose.
#
# The formula says the same. In [lesson 01](01_attention.ipynb) you met the slopes of the softmax:
# ∂pₗ/∂sⱼ is pₗ(1 − pₗ) for l = j and −pₗpⱼ otherwise. Multiply by dpₗ, and add up over all l:
#
# $$ds_j = p_j\,(dp_j - \overline{dp}), \qquad \overline{dp} = \sum_l p_l\, dp_l$$
#
# for each query by itself. Compare it with LayerNorm's formula above: g − ḡ, and here dp minus its
# mean. The reason is the same, too. Adding a constant to all numbers of a token changes nothing
# behind the norm; adding a constant to all scores of a query changes nothing behind the softmax. A
# gradient along something that changes nothing must go. Only the mean is another one: here each key
# counts by its weight.
#
# **The scores.** They are a product again, divided by √d_k. So each factor gets ds times the other
# one, added up over all the scores that it is in, and divided by √d_k too:
#
# $$dq_i = \frac{1}{\sqrt{d_k}} \sum_j ds_{ij}\, k_j, \qquad
#   dk_j = \frac{1}{\sqrt{d_k}} \sum_i ds_{ij}\, q_i$$
#
# And a **mask**? A forbidden key has the weight 0. Look where p stands in these formulas, and what
# becomes of a 0 there.
#
# ### Exercise · the gradient through attention
#
# Write it, without autograd. `q` is (batch, heads, queries, d_head), `k` (batch, heads, keys,
# d_head), `v` (batch, heads, keys, d_value), and `g`, the gradient at the output, (batch, heads,
# queries, d_value). The d_k of the formulas is `d_head` in code. `mask` is None, or boolean with
# True = may attend, in any shape that broadcasts to the scores'. Give the gradients at q, k and v
# as a tuple. A query that may attend to nothing gets zeros and adds nothing to any key or value;
# NaN may appear nowhere. Scores may be in the hundreds.
#
# For p you can take your own function of [lesson 01](01_attention.ipynb),
# `mine.attention_weights(q, k, mask)`: it takes care of the mask and of large scores. `a.mT` swaps
# the last two axes of a.


# %% exercise="attention_vjp" difficulty=3 minutes=25
def attention_vjp(q, k, v, g, mask=None):
    """The gradients at q, k and v, from the gradient g at attention's output"""
    ### BEGIN SOLUTION
    scale = q.shape[-1] ** -0.5
    p = mine.attention_weights(q, k, mask)  # (batch, heads, queries, keys)
    dp = g @ v.mT
    ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True))
    return scale * ds @ k, scale * ds.mT @ q, p.mT @ g
    ### END SOLUTION


# %% check="attention_vjp"
attention_vjp = check(attention_vjp)

# %% [markdown]
# Does autograd agree? `requires_grad_()` tells it to remember what is done with a tensor.
# `torch.autograd.grad(out, (q, k, v), g)` then goes back from `out`, where the gradient is g, and
# gives the gradients at q, k and v.

# %%
torch.manual_seed(0)
q, k, v = torch.randn(2, 4, 6, 16), torch.randn(2, 4, 9, 16), torch.randn(2, 4, 9, 24)
g, mask = torch.randn(2, 4, 6, 24), attention.causal_mask(6, 9)
ours = attention_vjp(q, k, v, g, mask)
remembered = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
out = attention.scaled_dot_product_attention(*remembered, mask)
theirs = torch.autograd.grad(out, remembered, g)
for name, a, b in zip("qkv", ours, theirs, strict=True):
    print(f"d{name}: numbers up to {b.abs().max():.1f}, "
          f"greatest difference to autograd {(a - b).abs().max():.0e}")  # fmt: skip

# %% [markdown]
# One thing in it looks impossible for FlashAttention. Its kernel never holds a whole row of p: it
# sees the keys piece by piece. But the mean of dp needs the whole row *before* the first ds can be
# found. Is there another way to that number? **Predict:**

# %%
quiz("07-row")

# %% tags=["after-prediction"]
p, dp = attention.attention_weights(q, k, mask), g @ v.mT
over_keys, over_numbers = (p * dp).sum(dim=-1), (g * out).sum(dim=-1)  # (batch, heads, queries)
for name, found in (("Σ p dp over the keys", over_keys), ("g · o", over_numbers)):
    print(f"{name:>20}, three queries: " + "  ".join(f"{x:+.5f}" for x in found[0, 0, :3]))
print(f"greatest difference, all queries: {(over_keys - over_numbers).abs().max():.0e}")

# %% [markdown]
# They are the same but for rounding. The output is there already, from the way forward. So the
# kernel takes g · o for each query first, *one* number, and goes through the pieces with it. For a
# query with 8192 keys and d_value = 64, that is a sum of 64 products in place of 8192.
#
# ### And at the start?
#
# [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745) prove something about the moment *before*
# the first step: in a post-norm stack "the expected gradients of the parameters near the output
# layer are large". We compare the gradient at the last block's MLP with pre-norm's.

# %%
logs = {}
for layers in (6, 18):
    logs[layers] = []
    for seed in range(5):
        lengths = {}
        for norm_first in (True, False):
            torch.manual_seed(seed)
            model = norm_places.make(layers, norm_first)
            ids, targets = manual().batch(2, 32, torch.Generator().manual_seed(seed))
            F.cross_entropy(model(ids).flatten(0, 1), targets.flatten()).backward()
            lengths[norm_first] = model.blocks[-1].feed_forward.up.weight.grad.norm().item()
        logs[layers].append(math.log(lengths[False] / lengths[True]))
    ratios = ", ".join(f"{math.exp(value):.2f}" for value in logs[layers])
    print(f"{layers:>2} layers, post-norm's gradient / pre-norm's, five seeds: {ratios}")

# %% [markdown]
# That is true, and it grows with depth. But with these first weights it is a factor of less than
# two, and to Adam a factor makes no difference: it divides it away. Liu et al. (2020) come to the
# same conclusion: gradients that are larger in some layers than in others are not the root of the
# trouble. What matters is how far one step moves the output.
#
# ## Warming up
#
# > The warm-up stage is practically helpful for avoiding this problem. *(Xiong et al., 2020)*
#
# If the trouble is that the first steps are too large for the first weights, then smaller first
# steps should help. The usual schedule rises in a straight line and then falls along half a
# cosine.
#
# ### Exercise · the rate at a step
#
# Steps are counted 0, 1, … steps − 1. The first `warm_up` steps rise: step 0 has 1/warm_up of
# `peak`, step warm_up − 1 has all of it. The steps after that fall, from `peak` at step warm_up
# along half a cosine that would reach 0 at step `steps`: peak · ½ (1 + cos(π · share)). Here share
# is how much of the fall has passed, from 0 to 1. `warm_up` may be 0, and it may be as large as
# `steps`: then there is no fall.


# %% exercise="rate_at" difficulty=1 minutes=10
def rate_at(step, steps, peak, warm_up):
    """The learning rate at one step"""
    ### BEGIN SOLUTION
    if step < warm_up:
        return peak * (step + 1) / warm_up
    share = (step - warm_up) / (steps - warm_up)
    return peak * 0.5 * (1 + math.cos(math.pi * share))
    ### END SOLUTION


# %% check="rate_at"
rate_at = check(rate_at)

# %%
shapes = {
    f"warm-up of {w}": [rate_at(step, 200, 0.002, w) for step in range(200)] for w in (0, 20, 60)
}
figures.lines(
    range(200),
    shapes,
    title="What does a warm-up do to the learning rate?",
    x_label="step",
    y_label="learning rate",
    markers=False,
    alt="Three schedules of 200 steps: with a warm-up of 20 or 60 steps the rate rises in a "
    "straight line to 0.002; from there all fall along half a cosine to 0.",
)

# %% [markdown]
# The record compares six post-norm layers at 0.002, between the rate that they take and the one
# that they do not, for 200 steps. First with a rate that *stays* where it is: without warm-up, with
# a warm-up over the first 20 steps, over the first 60.


# %%
def on_the_way(arms, title):
    """Prints the end of every seed's run; draws the mean of their training losses."""
    for name, arm in arms.items():
        ends = "  ".join(f"{run['loss']:.2f}" for run in places["runs"] if run["arm"] == arm)
        print(f"{name:>{max(map(len, arms))}}: held out at the end, five seeds: {ends}")
    means = {name: mean_curve(arm, 2e-3) for name, arm in arms.items()}
    return figures.lines(
        range(10, 201, 10),
        means | {"the frequencies": [level] * 20},
        title=title,
        x_label="step (record in data/norm_places.json, mean of five seeds)",
        y_label="training loss in nats",
        from_zero=False,
        markers=False,
        alt="; ".join(f"{name}: at best {min(c):.2f}, at last {c[-1]:.2f}"
                      for name, c in means.items()) + f". Frequencies alone: {level:.2f} nats.",
    )  # fmt: skip


on_the_way(
    {"no warm-up": norm_places.LONG}
    | {f"warm-up of {steps}": arm for arm, steps in norm_places.WARMED.items()},
    "Does a warm-up prevent the stall, if the rate stays?",
)

# %% [markdown]
# *With* a warm-up the training loss gets well below the level on the way. But it comes back, and
# nearly all of these runs end at the level or above. Here a warm-up mostly **postpones** the stall;
# the table at the end says how sure that is.
#
# In practice the rate does not stay at its peak. It falls, as in your `rate_at`. So the record has
# the same comparison with a rate that falls along half a cosine:

# %%
for warmed, cold in (
    (next(iter(norm_places.WARMED)), norm_places.LONG),
    (norm_places.WARMED_FALLING, norm_places.FALLING),
):
    gap = paired(losses(places, warmed), losses(places, cold))
    print(f"{warmed} − {cold}:\n    {gap} nats (paired 95% interval)")
on_the_way(
    {
        "falling only": norm_places.FALLING,
        "warm-up of 20, then falling": norm_places.WARMED_FALLING,
    },
    "And if the rate falls?",
)

# %% [markdown]
# Now it is clear that the high rate is dangerous twice. In the first steps it stalls a fresh stack
# at once: a falling rate *alone* saves nothing, for it has not fallen yet. Later it stalls a stack
# that has begun to learn: a warm-up *alone* only postpones the stall. Together they save most of
# the runs. The warm-up carries the stack through the first steps, and the fall takes the high rate
# away before the late stall. Nearly every recipe has both, and this is one good reason. (Pre-norm
# took 0.001 and 0.003 with neither, over 100 steps. At 0.002 we did not run it.)
#
# ## The first weights
#
# Before the first step, all weights are random. How large should this
# [initialization](glossary.ipynb#cell-id=initialization) be? GPT-2 takes a standard deviation of
# 0.02, and biases of 0. Then its paper says:
#
# > A modified initialization which accounts for the accumulation on the residual path with model
# > depth is used. We scale the weights of residual layers at initialization by a factor of 1/√N
# > where N is the number of residual layers.
#
# A block adds to the stream twice, so a stack of L blocks has N = 2L **residual layers**. These are
# the matrices that write into the stream: attention's output and the MLP's second one.

# %%
quiz("07-start")

# %% [markdown]
# ### Find the bugs · first weights
#
# This gives the standard deviation with which each parameter starts. `name` and `shape` are those
# of `model.named_parameters()`, for example `blocks.0.attention.out.weight`. In our blocks the
# writing matrices are called `attention.out` and `feed_forward.down`, the reading ones
# `attention.qkv` and `feed_forward.up`. Biases start at 0 and a norm's weights at 1: their
# standard deviation is 0. There are three bugs in it.


# %% exercise="first_std" difficulty=2 minutes=10
def first_std(name, shape, layers):
    """The standard deviation of a parameter's first values, as GPT-2 has it"""
    ### BEGIN SOLUTION
    if len(shape) < 2:
        return 0.0
    if name.endswith(("out.weight", "down.weight")):
        return 0.02 / math.sqrt(2 * layers)
    return 0.02
    ### END SOLUTION
    ### BEGIN GIVEN
    # if name.endswith("bias"):
    #     return 0.0
    # if "attention" in name or "feed_forward" in name:
    #     return 0.02 / math.sqrt(layers)
    # return 0.02
    ### END GIVEN


# %% check="first_std"
first_std = check(first_std)

# %% [markdown]
# Now 48 untrained blocks, six ways to begin. **0.5** is much too large. **1/√inputs** lets a
# matrix keep the size of what it reads. **PyTorch's own** is 0.58/√inputs. The factor 1/√(2L)
# comes with two of the sizes, so that we can tell which of the two does what.


# %% tags=["after-prediction"]
def untrained(way, layers, size, d_model=64, seed=0):
    """The stream before the first block and after each, without a single step of training."""
    torch.manual_seed(seed)
    stack = nn.ModuleList(blocks.Block(d_model, 4) for _ in range(layers))
    first_weights.begin(stack, way, layers)
    stream = [size * torch.randn(2, 32, d_model)]
    with torch.no_grad():
        for block in stack:
            stream.append(block(stream[-1], causal=True))
    return stream


L = 48
sizes = {way: [x.std().item() for x in untrained(way, L, 0.02)] for way in first_weights.ARMS}
figures.lines(
    range(L + 1),
    sizes,
    title="How large is the untrained stream after so many blocks?",
    x_label="blocks passed",
    y_label="standard deviation",
    log_y=True,
    markers=False,
    alt="; ".join(f"{way}: {values[-1]:.3g} after {L} blocks" for way, values in sizes.items()),
)

# %% [markdown]
# The embeddings began at 0.02. With large weights the first block alone adds far more to the
# stream than they put there. With GPT-2's start the stream grows less than twofold over all 48
# blocks. Does it at other depths?

# %% tags=["after-prediction"]
growth = {}
for way in ("0.02", first_weights.GPT2):
    growth[way] = {}
    for layers in (12, 48, 160):
        stream = untrained(way, layers, 0.02)
        growth[way][layers] = (stream[-1].std() / stream[0].std()).item()
    print(f"{way:>18}: " + ", ".join(f"× {g:.2f} over {n}" for n, g in growth[way].items()))

# %% [markdown]
# With the factor the growth is the same at every depth, as the sum of the variances says. That is
# what the quoted sentence promises, and it holds. Does such a stack *train* better? Sixteen blocks
# of d_model = 64, pre-norm, 100 steps. Each way to begin gets its own learning rate, chosen on a
# [seed that is not reported](glossary.ipynb#cell-id=pilot-seeds), and five seeds. Five were too few
# to tell 0.5 and 1/√inputs apart, so these two have ten.

# %%
record = recorded("first_weights")
started = first_weights.run(**record["settings"], say=print) if RETRAIN else record["results"]
for way in first_weights.ARMS:
    mean, spread = mean_and_spread(losses(started, way))
    print(f"{way:>22}: {mean:.3f} ± {spread:.3f} nats at the rate {started['chosen'][way]:.2g}")
tried = started["pilots"]
rates = sorted({rate for losses_at in tried.values() for rate in losses_at}, key=float)
figures.lines(
    [float(rate) for rate in rates],
    {way: [tried[way].get(rate, math.nan) for rate in rates] for way in tried},
    title="How was each rate chosen?",
    x_label="learning rate (not all were tried with every start)",
    y_label="held-out loss in nats, pilot seed",
    log_x=True,
    from_zero=False,
    alt="; ".join(
        f"{way}: " + ", ".join(f"{loss:.2f} at {rate}" for rate, loss in found.items())
        for way, found in tried.items()
    ),
)

# %%
for base in ("1/√inputs", "0.02"):
    gap = first_weights.gain_of_the_factor(started, base)
    print(f"{base}: with the factor − without {gap} nats")

# %% [markdown]
# Every way to begin trains, once it has its own rate. Even 0.5 does, though probably a little
# worse. Its best rate was ten times that of most others, but on the one pilot seed the rates from
# 0.003 to 0.1 did almost equally well. Norms and Adam forgive much. Still, GPT-2's start is the
# best of the six.
#
# Is it the factor that helps? Look at the two intervals. Together with 0.02 it clearly does.
# Together with 1/√inputs no effect can be seen, and the interval is too wide to rule one out. So
# "scale them by 1/√(2L)" is good advice under a condition that is rarely named. (Here d_model is
# 64, so 0.02 is a sixth of 1/√inputs, and the embeddings begin at 0.02 in all six.)
#
# ## Deeper than a hundred
#
# A block of a pre-norm stack reads a *normalized* stream and adds something of a fixed size to a
# stream that grows. What can the 160th still contribute? We measure by how much each block
# *changes* the stream: the length of what it adds over the length of what is there.

# %%
quiz("07-late")

# %% tags=["after-prediction"]
deep, powers = {}, {}
for way, size in (("1/√inputs", 1.0), (first_weights.GPT2, 0.02)):
    streams = [untrained(way, 160, size, seed=seed) for seed in range(5)]
    first = itertools.pairwise(streams[0])
    deep[way] = [100 * ((y - x).norm() / x.norm()).item() for x, y in first]
    powers[way] = [(s[160].std() / s[40].std()).log().item() / math.log(160 / 40) for s in streams]
    print(f"{way:>18}: block 1 changes the stream by {deep[way][0]:.0f}%, block 160 by "
          f"{deep[way][-1]:.0f}%")  # fmt: skip
    print(f"    size like depth to the power {sum(powers[way]) / len(streams):.2f}")
figures.lines(
    range(1, 161),
    deep,
    title="How much does the n-th of 160 untrained blocks change?",
    x_label="block",
    y_label="change of the stream in %",
    markers=False,
    alt="; ".join(
        f"{way}: {c[0]:.0f}% at the first block, {c[9]:.0f}% at the 10th, {c[-1]:.0f}% at the last"
        for way, c in deep.items()
    ),
)

# %% [markdown]
# With weights that keep the size, late blocks whisper: the stream has grown, what they add has not.
# That is the price of pre-norm's stability. Sun et al. (2025) call it the *curse of depth*: in
# large models nearly half of the layers do less than expected. With GPT-2's start all blocks begin
# by changing the stream about equally. What is left of that after training? The record holds 112
# narrow blocks (d_model = 32), trained for 100 steps, from both starts.

# %%
by_block = {}
for way in ("1/√inputs", first_weights.GPT2):
    runs = [run for run in started["deep"] if run["arm"] == way]
    changes = torch.tensor([run["after"]["changes"] for run in runs])
    skipped = torch.tensor([run["without an eighth"] for run in runs])
    loss = torch.tensor([run["loss"] for run in runs])
    by_block[way] = changes.mean(dim=0).tolist()
    size = torch.tensor([run["after"]["sizes"] for run in runs])
    power = (size[:, 112] / size[:, 28]).log().mean().item() / math.log(112 / 28)
    cost = (skipped - loss[:, None]).mean(dim=0).tolist()
    print(f"{way:>18}: {loss.mean():.2f} nats; size like depth to the power {power:.2f}")
    print("    skip an eighth of the blocks, first to last: "
          + " ".join(f"{c:+.2f}" for c in cost))  # fmt: skip
figures.lines(
    range(2, 113),
    {way: values[1:] for way, values in by_block.items()},
    title="And after 100 steps of training?",
    x_label="block, from the second on (record in data/first_weights.json, mean of three seeds)",
    y_label="change of the stream in %",
    markers=False,
    alt="; ".join(
        f"{way}: {c[1]:.0f}% at the second block, {c[27]:.0f}% at the 28th, {c[-1]:.1f}% at the "
        "last"
        for way, c in by_block.items()
    ),
)

# %% [markdown]
# A hundred steps have changed two things. Late blocks whisper from *both* starts now: the even
# beginning of GPT-2's start did not last. And the stream grows about like the depth itself, no
# longer like its root. Independent additions partly cancel; so these are probably no longer
# independent. (We did not measure their directions.)
#
# Skipping an eighth of the blocks costs next to nothing, wherever they stand. Do not conclude that
# they are useless. At this depth 100 steps are so few that the model has not even reached the
# frequencies (3.25 nats): it has learned little that could be lost. What late blocks are worth in
# large trained models, Sun et al. measure.
#
# ## Remove one component and see
#
# A favourite question of interviews: *which parts of a Transformer could you take out?* You know
# all the parts by now. A small model (three blocks, d_model = 64, 150 steps) is trained without one
# of them at a time (an [ablation](glossary.ipynb#cell-id=knock-out)). We take out attention, the
# MLP, the plus, all norms, the last norm alone, the positions, the causal mask. **Write down the
# order that you expect**, worst first. Then:

# %%
quiz("07-order")

# %%
quiz("07-bigram")

# %% [markdown]
# What makes such a comparison fair?
# - **Each arm has its own learning rate**, chosen on a seed that is not reported. At one rate for
#   all you would measure which arm that rate suits.
# - **The same seeds** for every arm, and the differences taken pair by pair.
# - **Parameters differ** when something is removed. So there are two more arms that give them
#   back: attention alone with nine blocks instead of three, and MLPs alone, but wider.
# - **Warm-up and clipping** for all, as one would train them.
#
# **Clipping** means: take the gradients of all parameters together, as one long vector. If it is
# longer than a limit, all of it is multiplied by one factor, so that the length is the limit. The
# direction stays.
#
# ### Exercise · clip by norm
#
# Two gradients stand here for all of them: `first` and `second`, of any shapes. Their common
# length is the root of the sum of *all* squares. Give both, scaled by one factor if that length is
# above `most`, and unchanged otherwise. Both may be all zero. Do not change the two that came in.


# %% exercise="clip_by_norm" difficulty=2 minutes=10
def clip_by_norm(first, second, most):
    """Two gradients whose common length is at most `most`, in the same direction"""
    ### BEGIN SOLUTION
    length = math.sqrt(first.square().sum().item() + second.square().sum().item())
    factor = most / length if length > most else 1.0
    return first * factor, second * factor
    ### END SOLUTION


# %% check="clip_by_norm"
clip_by_norm = check(clip_by_norm)

# %% [markdown]
# In PyTorch it is `nn.utils.clip_grad_norm_`, which most training loops call between `backward()`
# and the step. Two of the arms, live, for 40 of their 150 steps:

# %%
for arm in ("whole", "no plus"):
    watch = figures.LiveCurve(f"Does it learn? {arm}", 40)
    found = components.one(arm, rate=3e-3, seed=0, steps=40, watch=watch)
    print(f"{arm}: {found['loss']:.2f} nats on held-out text after 40 steps")

# %% tags=["after-prediction"]
record = recorded("components")
parts = components.run(**record["settings"], say=print) if RETRAIN else record["results"]
costs = {arm: components.cost(parts, arm) for arm in components.ARMS if arm != "whole"}
mean, spread = mean_and_spread(losses(parts, "whole"))
print(f"{'whole':>24}: {mean:.3f} ± {spread:.3f} nats, {parts['parameters']['whole']:,} parameters")
for arm, gap in sorted(costs.items(), key=lambda item: -item[1].mean):
    print(f"{arm:>24}: {gap} nats, {parts['parameters'][arm]:,} parameters, "
          f"rate {parts['chosen'][arm]:.2g}")  # fmt: skip

# %% [markdown]
# Each line is the paired difference to the whole model, with its 95%
# [interval](glossary.ipynb#cell-id=confidence-interval). Some of it is as you would expect, some is
# not.
# - **The plus** costs most by far, though there are only three blocks. [Lesson
#   06](06_transformer_block.ipynb) shows why.
# - **Attention** is next, and parameters cannot buy it back: the wider MLP gains nothing. What is
#   left is a *bigram model*: it knows what usually follows the present character, and no more.
# - **Positions** cost less than attention. The causal mask alone tells a token a little about its
#   place ([lesson 03](03_positions.ipynb)).
# - **The MLP** holds most of a block's parameters and costs little here. With six more layers of
#   attention in its place the model is probably still worse: look at the interval.
# - **The norms** are the surprise. Without any norm the model is *better*, and without the last one
#   alone it is better by the same amount. So in this short training it is the last norm that
#   costs, and the others hardly matter.
#
# Take the last point with care. There are three blocks, 150 steps, warm-up and clipping, and the
# removal has its own learning rate. Under these conditions the norms are not what makes it train;
# Zhang et al. (2019) train thousands of layers without any. Nothing here says what happens in 48
# blocks and 100,000 steps. And *why* the last norm costs something we have not found out: that is
# a good project. `components.one("no last norm", rate=1e-2, seed=0, steps=150)` takes seconds.
#
# ### The one that looks best
#
# Without the mask every token can look at the token that it should predict. What is the loss of
# such a model worth? The honest test feeds every **prefix** by itself and asks only for the
# character after it: what has not been fed cannot be copied. For a model with a mask both ways of
# measuring must give the same number.

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
model = components.make("whole")
ways = components.held_out(model, windows=8), components.honest(model, windows=8)
print(f"with the mask, whole windows and prefixes agree to 1e-4: {abs(ways[0] - ways[1]) < 1e-4}")

# %%
seen, unseen = (mean_and_spread(losses(parts, "no mask", key=key))[0] for key in ("loss", "honest"))
print(f"no mask: {seen:.2f} nats on held-out text as it was trained, {unseen:.2f} honestly; "
      f"whole: {mean:.2f}")  # fmt: skip

# %% [markdown]
# On *held-out* text, fed as in training, it looks like the best model ever: it reads the next
# character from the next place. Asked honestly it is far worse than the whole one, worse than a
# table of frequencies even, because it has never had to predict anything. Held-out text does not
# protect you from a leak; only a test in which nothing can be copied does.
#
# ## What we measured
#
# Two rows of the first table quote the same sentence, for it makes more than one statement. The
# first row asks *whether* post-norm fails. The third asks whether the *reason* given is right.

# %%
claims = Claims("07_going_deep")
claims.add("post-norm-diverges", places)
claims.add("stalls-at-uniform", places)
pre, post = (
    [(stream[-1] / stream[1], g[0] / g[-1]) for _, (stream, g), _ in measured[name]]
    for name in ("pre-norm", "post-norm")
)
claims.add("post-norm-reason", pre, post)
claims.add("norms-divide-the-gradient", shares)
claims

# %%
claims = Claims("07_going_deep, the start")
claims.add("large-gradients-near-the-output", logs)
claims.add("warm-up-helps-post-norm", places)
claims.add("start-accounts-for-depth", growth[first_weights.GPT2], growth["0.02"])
claims.add("scaled-start-trains-better", started)
claims.add("large-start-trains-worse", started)
claims.add("stream-grows-like-the-root", powers)
claims.add("late-blocks-whisper", started)
claims

# %%
claims = Claims("07_going_deep, components")
for id in ("each-component-needed", "attention-and-plus", "more-than-parameters"):
    claims.add(id, parts)
claims.add("norm-free", parts)
claims.add("leak-looks-good", parts)
claims

# %% [markdown]
# Everything that was decided by a record was decided once more with seeds that it does not contain.
# (Each experiment has the option `--again` for that; the second runs stand in the records.) Where a
# first trial could not decide, study and rule were changed and everything was run again; so these
# second seeds are the ones that no rule had seen.
#
# ## Ask yourself

# %%
quiz("07-quiz-path")

# %%
quiz("07-quiz-init")

# %%
quiz("07-quiz-fair")

# %%
quiz("07-quiz-leak")

# %% [markdown]
# ## Further reading
#
# - R. Xiong et al., [*On Layer Normalization in the Transformer
#   Architecture*](https://arxiv.org/abs/2002.04745), 2020: pre- and post-norm, and warm-up.
# - T. Dao et al., [*FlashAttention: Fast and Memory-Efficient Exact Attention with
#   IO-Awareness*](https://arxiv.org/abs/2205.14135), 2022: attention's backward pass in appendix B.
# - L. Liu et al., [*Understanding the Difficulty of Training
#   Transformers*](https://arxiv.org/abs/2004.08249), 2020: not the gradients, but how far a step
#   moves the output.
# - A. Radford et al., [*Language Models are Unsupervised Multitask
# Learners*](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
# 2019 (GPT-2): the two sentences on first weights.
# - H. Zhang et al., [*Fixup Initialization*](https://arxiv.org/abs/1901.09321), 2019: deep
#   residual networks without norms.
# - H. Wang et al., [*DeepNet: Scaling Transformers to 1,000
#   Layers*](https://arxiv.org/abs/2203.00555), 2022: post-norm again, with the stream scaled up at
#   each addition.
# - W. Sun et al., [*The Curse of Depth in Large Language
#   Models*](https://arxiv.org/abs/2502.05795), 2025: what pre-norm costs the last layers.
#
# **Before:** [lesson 06](06_transformer_block.ipynb), the block. **Next:**
# [lesson 08](08_encoder_decoder.ipynb): one stack reads a sentence, another one writes it in a
# different form. There you will build the model of the paper and teach it something.
