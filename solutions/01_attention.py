# %% [markdown]
# # 01 · Attention
#
# **How does a word find the words it needs?** In *the cat sat on the mat*, the word *sat* means
# little until it knows who sat. Nobody tells it where to look. It has to find out by itself, for
# every sentence anew, with nothing but sums, products and one softmax.
#
# At the end of this lesson you will have written the mechanism that does it, softmax(QKᵀ/√d_k)V,
# with its masks. You will know what each of its parts is for because you will have taken each of
# them away and measured what breaks. Your code will agree with PyTorch's to six digits.
#
# *About 120 minutes. You need: matrix products, the softmax, Python, lesson 00.*

# %%
import torch
import torch.nn.functional as F

from tfcourse import Claims, check, device, figures, hint, quiz
from tfcourse.widgets import AttentionMap, AttentionSteps, SoftmaxScale

# %% [markdown]
# ## Queries, keys, values: looking for, containing, giving
#
# Think of six people in a room. Each holds three cards. On the first stands *what I am looking
# for*, on the second *what I contain*, on the third *what I give to whoever finds me*. They are
# called **query**, **key** and **value**.
#
# Here the six people are words. A real model learns its cards. Today we write them by hand, with
# eight numbers each (d = 8), so that we can see everything.
#
# The numbers of queries and keys have names. If *sat* looks for an animal, its query has a large
# number under `animal`; if *cat* is one, its key has a 1 there.

# %% tags=["nbval-check-output"]
tokens = ["The", "cat", "sat", "on", "the", "mat"]
features = ["article", "noun", "verb", "preposition", "animal", "thing", "large", "red"]

contains = ["article", "noun animal", "verb", "preposition", "article", "noun thing"]
looks_for = ["noun", "article", "animal", "thing", "noun", "preposition"]

K = torch.tensor([[float(f in words.split()) for f in features] for words in contains])
Q = torch.tensor([[6.0 * (f == wanted) for f in features] for wanted in looks_for])
print(K)

# %% [markdown]
# The values are what a word hands over. They may say something quite different from the keys: a
# key is there to be *found*, a value to be *used*. The columns here mean, in order: definite,
# furry, alive, past, above, flat, woven, small.

# %%
V = torch.tensor(
    [
        [1, 0, 0, 0, 0, 0, 0, 0],  # The: definite
        [0, 1, 1, 0, 0, 0, 0, 1],  # cat: furry, alive, small
        [0, 0, 0, 1, 0, 0, 0, 0],  # sat: past
        [0, 0, 0, 0, 1, 0, 0, 0],  # on: above
        [1, 0, 0, 0, 0, 0, 0, 0],  # the: definite
        [0, 0, 0, 0, 0, 1, 1, 0],  # mat: flat, woven
    ]
).float()

# %% [markdown]
# *sat* looks for an animal. How well does each word fit? Lesson 00 has the answer: a dot product
# of its query with each key. **Before you run the next cell**, say for yourself what the six
# numbers will be.

# %% tags=["nbval-check-output"]
sat = tokens.index("sat")
for token, key in zip(tokens, K, strict=True):
    print(f"{token:>4}: {(Q[sat] @ key).item():.1f}")

# %% [markdown]
# One number stands out. Now *sat* must share out its attention according to these numbers:
# positive shares that sum to one. The softmax does that: exp of each number, divided by the sum
# of them all.

# %%
quiz("01-first-share")

# %% [markdown]
# Here is all of it for all six words at once. Attention is five lines:

# %% tags=["nbval-check-output"]
d = Q.shape[-1]
scores = Q @ K.T  # (6, 8) @ (8, 6) -> (6, 6): every query with every key
scores = scores / d**0.5  # why? we shall see
weights = torch.softmax(scores, dim=-1)  # each row sums to one
output = weights @ V  # (6, 6) @ (6, 8) -> (6, 8): a mixture of values for each query
print(f"sat attends {weights[sat, 1]:.0%} to cat. What it gets: {output[sat].round(decimals=2)}")

# %% [markdown]
# *sat* now knows that it was done by something furry, alive and small. Nobody compared words;
# there were only dot products.
#
# Look at the whole map. Move over a row to read it in words; click to hold it, or use the arrow
# keys.

# %%
AttentionMap(weights, tokens, scores=scores, title="Who looks at whom, by hand?")

# %% [markdown]
# Look at the first row. *The* asks for a noun, and there are two of them. It cannot tell which
# noun is its own: *cat* and *mat* get the same share. Nothing in Q and K says where a word
# stands. Keep that in mind; it will come back at the end of this lesson, and it is all that
# lesson 03 is about.
#
# ## The same, step by step
#
# Each step below is one line of the five. Point at a cell and see its arithmetic written out.
# Then drag a score, or cool the temperature down, and watch what follows. (The *temperature*
# divides the scores once more: the lower, the sharper the choice. These are the first five words
# only; without *mat*, *on* finds nothing that it looks for and shares itself out evenly.)

# %%
AttentionSteps(Q[:5], K[:5], V[:5], tokens[:5], title="What does each step of attention do?")

# %% [markdown]
# Now the letters. **Q** holds the queries, one a row: (queries, d_k). **K** holds the keys (keys,
# d_k), **V** the values (keys, d_v). The number of queries and the number of keys may differ, and
# d_v may differ from d_k. Then
#
# $$\operatorname{attention}(Q, K, V) =
#   \operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right)V$$
#
# In code we shall have two more axes in front, `(batch, heads, tokens, d_head)`. From here on the
# d_k of the formula is `d_head` in code, and its d_v is `d_value`; the `d` of the five lines was
# d_k. Several sentences at once, several attentions at once (lesson 02): `@` works on the last
# two axes and leaves those in front alone.
#
# ### Exercise · scores
#
# Write QKᵀ/√d_k for four axes: `q` (batch, heads, queries, d_head) and `k` (batch, heads, keys,
# d_head) give (batch, heads, queries, keys). `k.mT` swaps the last two axes of k.


# %% exercise="attention_scores" difficulty=1 minutes=5
def attention_scores(q, k):
    """Scaled scores (batch, heads, queries, keys) of every query with every key."""
    ### BEGIN SOLUTION
    d_head = q.shape[-1]
    return q @ k.mT / d_head**0.5
    ### END SOLUTION


# %% check="attention_scores"
attention_scores = check(attention_scores)

# %% [markdown]
# ## Why √d_k?
#
# Everybody copies this division, few could say what it is for. Let us take it away and measure.
#
# Let the numbers in q and k be random, mean 0, variance 1, as they are at the start of training.
# A score is the sum of d_k products. **Predict:** with d_k = 64, how far from zero is a typical
# score?

# %%
quiz("01-spread")

# %%
torch.manual_seed(0)
widths = [1, 4, 16, 64, 256, 1024]
variances = []
for d_k in widths:
    q, k = torch.randn(2, 10_000, d_k)
    variances.append((q * k).sum(-1).var().item())
    print(f"d_k = {d_k:4}: variance of q·k {variances[-1]:7.1f}, std {variances[-1] ** 0.5:5.2f}")

# %% [markdown]
# The variance is d_k itself. It has to be: each product has variance 1, they are independent, and
# variances of independent things add up. The standard deviation is the root of it, so at d_k = 64
# scores of ±8 are nothing special.
#
# Is that bad? Ask the softmax. Sixteen keys, scores with that spread: we measure how many keys
# still get a say, and how much the weights still move when a score moves. The first is the
# **entropy** of a row of weights p, −Σ pⱼ log pⱼ: 0 if one key gets all, log 16 = 2.77 if all get
# the same. The second is the size of the softmax's **Jacobian**, the table of all ∂pᵢ/∂sⱼ =
# pᵢ(δᵢⱼ − pⱼ), where s are the scores and δᵢⱼ is 1 for i = j, else 0. Its **norm** is the root of
# the sum of all its squares: 0 means that nothing moves at all.


# %%
def entropy_and_slope(scores):
    """Mean entropy of the rows, and mean norm of the softmax's Jacobian; scores (rows, keys)."""
    p = torch.softmax(scores, dim=-1)
    jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]  # (rows, keys, keys)
    return torch.special.entr(p).sum(-1).mean().item(), jacobian.norm(dim=(1, 2)).mean().item()


measured = {"unscaled": [], "divided by √d_k": []}
for d_k in widths:
    q, k = torch.randn(500, 1, d_k), torch.randn(500, 16, d_k)
    raw = (q @ k.mT).squeeze(1)  # (500, 16)
    measured["unscaled"].append(entropy_and_slope(raw))
    measured["divided by √d_k"].append(entropy_and_slope(raw / d_k**0.5))
for name, pairs in measured.items():
    print(f"{name:>15}: entropy", "  ".join(f"{entropy:.2f}" for entropy, _ in pairs))

# %%
figures.lines(
    widths,
    {name: [slope for _, slope in pairs] for name, pairs in measured.items()},
    title="Does the softmax still learn when d_k grows?",
    x_label="d_k",
    y_label="norm of the softmax's Jacobian",
    log_x=True,
    alt="Unscaled, the norm of the Jacobian is largest at d_k = 4 and falls as d_k grows; divided "
    "by √d_k it stays nearly level.",
)

# %% [markdown]
# Unscaled, the softmax **saturates**: nearly all goes to the one largest score, whichever it
# happens to be, and the slope goes to zero. Where the slope is zero nothing can be learnt. That
# is what √d_k is for: it keeps the spread of the scores at one, however wide the vectors are.
# (For random q and k, that is, as at the start of training. What training makes of them is its
# own affair; it can always ask for a sharper choice.)
#
# Now with your own hand. Move d_k up and switch the scale off.

# %%
SoftmaxScale()

# %%
quiz("01-other-scale")

# %% [markdown]
# ## Masks: who may look at whom
#
# A language model predicts the next word, at every place of a text at once. If it could look at
# it, it would learn nothing but to copy. So each token may see itself and what came before: a
# **causal mask**. And sentences in a batch have different lengths, so the short ones are filled
# up: a **padding mask** keeps anyone from looking at the filling.
#
# In this course a mask is boolean and **True = may attend**, always. Rows are queries, columns
# are keys, as in the scores.
#
# ### Exercise · causal mask
#
# `causal_mask(4)` is a boolean (4, 4). Its row 0 is True, False, False, False: the first token
# sees only itself.


# %% exercise="causal_mask" difficulty=1 minutes=5
def causal_mask(tokens):
    """Boolean (tokens, tokens): True where the query (row) may attend to the key (column)."""
    ### BEGIN SOLUTION
    position = torch.arange(tokens)
    return position[None, :] <= position[:, None]
    ### END SOLUTION


# %% check="causal_mask"
causal_mask = check(causal_mask)

# %% [markdown]
# ### Exercise · padding mask
#
# `lengths` holds how many real tokens each sequence has, `tokens` is the width of the batch; the
# filling stands at the end. The result is boolean and has the shape **(batch, 1, 1, tokens)**:
# against scores of shape (batch, heads, queries, keys), the two axes of length 1 stretch by
# themselves to all heads and all queries. For lengths [2, 3] and 3 tokens: [[[[True, True,
# False]]], [[[True, True, True]]]].


# %% exercise="padding_mask" difficulty=2 minutes=8
def padding_mask(lengths, tokens):
    """Boolean (batch, 1, 1, tokens): True where the key is a real token."""
    ### BEGIN SOLUTION
    real = torch.arange(tokens) < lengths[:, None]  # (batch, tokens)
    return real[:, None, None, :]
    ### END SOLUTION


# %% check="padding_mask"
padding_mask = check(padding_mask)

# %% [markdown]
# Both together is `&`: may attend if the one *and* the other allow it.

# %% tags=["nbval-check-output"]
both = causal_mask(5) & padding_mask(torch.tensor([3, 5]), 5)
print(tuple(both.shape))
print(both[0, 0].int())

# %% [markdown]
# How does a mask get into the softmax? A forbidden key must get the weight 0, and a weight is
# exp(score) divided by the sum. So before the softmax its score becomes −∞, since exp(−∞) = 0.
# One way to write that is a matrix M that is *added* to the scores, 0 where attending is allowed
# and −∞ where it is not:
#
# $$\operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)V$$
#
# Why not simply put the forbidden weights to 0 after the softmax?

# %%
quiz("01-zero-after")

# %% [markdown]
# One case is easy to forget: a query that may attend to *nothing*. It comes up when the filling
# stands in *front* and the mask is causal: the first token is filling, may see only itself, and
# is forbidden. All its scores are −∞, the softmax computes 0/0, and one NaN spreads through the
# whole network. **In this course such a row gives zeros**: who may look at nothing gets nothing.
#
# ### Exercise · weights, with a mask
#
# `mask` is None, or boolean with True = may attend, in any shape that broadcasts to the scores'
# (batch, heads, queries, keys). Rows with nothing to attend give zeros. Use your
# `attention_scores`. `scores.masked_fill(where, number)` writes a number wherever `where` is
# True, and `~mask` turns a mask round.


# %% exercise="attention_weights" difficulty=2 minutes=15
def attention_weights(q, k, mask=None):
    """Weights (batch, heads, queries, keys); rows sum to one, or are zero if all is masked."""
    ### BEGIN SOLUTION
    scores = attention_scores(q, k)
    if mask is None:
        return torch.softmax(scores, dim=-1)
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    return weights.masked_fill(~mask, 0.0)  # NaN, in a row that may attend to nothing, becomes 0
    ### END SOLUTION


# %% check="attention_weights"
attention_weights = check(attention_weights)

# %% [markdown]
# ### Exercise · attention
#
# What is left is one line.


# %% exercise="scaled_dot_product_attention" difficulty=1 minutes=5
def scaled_dot_product_attention(q, k, v, mask=None):
    """Output (batch, heads, queries, d_value): for each query a mixture of the values."""
    ### BEGIN SOLUTION
    return attention_weights(q, k, mask) @ v
    ### END SOLUTION


# %% check="scaled_dot_product_attention"
scaled_dot_product_attention = check(scaled_dot_product_attention)

# %% [markdown]
# Does PyTorch agree? It has all of this in one call, `F.scaled_dot_product_attention`, which runs
# as one *fused kernel*: fast machine code that does everything in one go.

# %% tags=["nbval-check-output"]
torch.manual_seed(1)
q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 6)
mask = padding_mask(torch.tensor([4, 7]), 7)
ours = scaled_dot_product_attention(q, k, v, mask)
theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
agreement = (ours - theirs).abs().max().item()
print("agrees to 1e-6:", agreement < 1e-6)

# %% [markdown]
# ## The convention trap
#
# There are four ways to write a mask, and they meet in the same programs:
#
# | convention | may attend | may not | where you meet it |
# |---|---|---|---|
# | `may_attend` | True | False | here, `F.scaled_dot_product_attention` |
# | `may_not_attend` | False | True | `nn.MultiheadAttention`, `nn.Transformer` |
# | `additive` | 0.0 | −∞ | the formula above; both of PyTorch's take it as a float mask |
# | `zero_is_masked` | 1 | 0 | `scores.masked_fill(mask == 0, …)` in many tutorials |
#
# The first two are both boolean and say the opposite. Feed one to the other and nothing
# complains: the shapes fit, numbers come out. **Predict** what happens to a causal model then.

# %%
quiz("01-trap")

# %% tags=["nbval-check-output"]
causal = causal_mask(5)
q, k, v = torch.randn(3, 1, 1, 5, 8)
later = v.clone()
later[..., 4, :] += 10  # only the last token's value changes
for name, mask in {"may_attend": causal, "may_not_attend": ~causal}.items():
    before, after = (F.scaled_dot_product_attention(q, k, x, attn_mask=mask) for x in (v, later))
    moved = (before - after).abs().amax(-1)[0, 0] > 1e-6
    print(f"{name:>14}: changing token 4 moves the outputs of", moved.nonzero().flatten().tolist())

# %% [markdown]
# With the wrong convention every token sees *only* the future (and the last one nothing). A
# training loss would fall beautifully: the answer stands right there. This experiment (change a
# future token, see whether the past moves) is worth more than any look at the shapes. Remember
# it; our checks use it too.
#
# ### Exercise · four conventions
#
# `convert_mask(mask, source, target)` translates from any of the four conventions to any other;
# `source` and `target` are the names in the table. The additive form is a float tensor, and
# `zero_is_masked` holds the integers 1 and 0.


# %% exercise="convert_mask" difficulty=2 minutes=15
def convert_mask(mask, source, target):
    """The same mask, translated from the convention `source` to the convention `target`."""
    ### BEGIN SOLUTION
    may_attend = {
        "may_attend": lambda: mask,
        "may_not_attend": lambda: ~mask,
        "additive": lambda: mask == 0,
        "zero_is_masked": lambda: mask != 0,
    }[source]()
    if target == "may_attend":
        return may_attend
    if target == "may_not_attend":
        return ~may_attend
    if target == "additive":
        return torch.zeros(may_attend.shape).masked_fill(~may_attend, float("-inf"))
    return may_attend.long()
    ### END SOLUTION


# %% check="convert_mask"
convert_mask = check(convert_mask)

# %% [markdown]
# ### Find the bug · padding that speaks
#
# This function came out of a working program. It was written for `nn.MultiheadAttention`, then
# somebody made it faster with the fused kernel. It runs, its shapes are right, and it has been
# wrong ever since. `is_padding` has shape (batch, keys) and is True at padding. Run the check,
# find out what it does, mend it.


# %% exercise="attend_to_real_tokens" difficulty=1 minutes=8
def attend_to_real_tokens(q, k, v, is_padding):
    """Attention that leaves padding out; is_padding (batch, keys) is True at padding."""
    ### BEGIN SOLUTION
    may_attend = ~is_padding[:, None, None, :]  # (batch, 1, 1, keys)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=may_attend)
    ### END SOLUTION
    ### BEGIN GIVEN
    # mask = is_padding[:, None, None, :]  # (batch, 1, 1, keys)
    # return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    ### END GIVEN


# %% check="attend_to_real_tokens"
attend_to_real_tokens = check(attend_to_real_tokens)

# %% [markdown]
# ## What attention cannot do
#
# Shuffle the words. What happens to the outputs?

# %%
quiz("01-shuffle")

# %% tags=["nbval-check-output"]
q = k = v = torch.randn(1, 1, 6, 8)
order = torch.tensor([5, 3, 4, 0, 2, 1])
plain = scaled_dot_product_attention(q, k, v)
shuffled = scaled_dot_product_attention(q[:, :, order], k[:, :, order], v[:, :, order])
shuffle_gap = (shuffled - plain[:, :, order]).abs().max().item()
print("outputs are shuffled along, nothing else:", shuffle_gap < 1e-6)

# %% [markdown]
# This is called **permutation equivariance**: attention is an operation on a *set*. The row of
# *The*, which could not choose between *cat* and *mat*, has already shown it. A model that shall
# tell *dog bites man* from *man bites dog* needs to be told the positions: lesson 03.
#
# There is a second limit. Hold the weights fixed, and attention is **linear** in V: twice the
# values, twice the output. Its weights are positive and sum to one (so one more in each value is
# one more in the output), and each output is a **convex combination** of values. It lies between
# them and can never reach beyond, in no direction whatsoever.

# %% tags=["nbval-check-output"]
q, k, v = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 10, 8), torch.randn(1, 1, 10, 3)
out = scaled_dot_product_attention(q, k, v)
linear_gap = (scaled_dot_product_attention(q, k, 2 * v + 1) - (2 * out + 1)).abs().max().item()

directions = F.normalize(torch.randn(3, 10_000), dim=0)  # look at both along many directions
reach_of_values = (v @ directions).amax(-2, keepdim=True)
beyond = ((out @ directions) > reach_of_values + 1e-6).sum().item()
print(f"linear in V: {linear_gap < 1e-5}. Outputs beyond the values in 10,000 directions: {beyond}")

# %% [markdown]
# So attention moves and mixes what is there. To make something *new* of it takes another part:
# the feed-forward layer of lesson 05.
#
# ## What it costs
#
# Every query meets every key: T tokens make T² scores, each a sum of d products. Time grows as
# T²·d. And the explicit form *keeps* the T² weights. **Predict**: twice the tokens, how much more
# time, how much more memory?

# %%
quiz("01-cost")

# %%
lengths = [256, 512, 1024, 2048]
ways = {"explicit": scaled_dot_product_attention, "fused": F.scaled_dot_product_attention}
seconds, memory = {w: [] for w in ways}, {w: [] for w in ways}
for t in lengths:
    q, k, v = torch.randn(3, 1, 4, t, 64)
    for name, way in ways.items():
        run = lambda way=way, q=q, k=k, v=v: way(q, k, v)
        seconds[name].append(device.measure_seconds(run, repeats=7)[0])
        memory[name].append(device.measure_peak_memory(run) / 2**20)

# %%
figures.lines(
    lengths,
    memory,
    title="How much memory does attention need for T tokens?",
    x_label="tokens T",
    y_label="MiB, beyond the inputs",
    log_x=True,
    log_y=True,
    alt="The explicit form's memory grows fourfold when T doubles, that of the fused one twofold.",
)

# %%
doublings = len(lengths) - 1
time_growth = {name: (s[-1] / s[0]) ** (1 / doublings) for name, s in seconds.items()}
memory_growth = {name: (m[-1] / m[0]) ** (1 / doublings) for name, m in memory.items()}
for name in ways:
    print(
        f"{name:>8}, each time T doubles: time × {time_growth[name]:.1f}, "
        f"memory × {memory_growth[name]:.1f} (at {lengths[-1]} tokens {memory[name][-1]:.0f} MiB)"
    )

# %% [markdown]
# The time grows about as T² either way (how nearly depends on how busy your machine is). The
# memory does not: the fused kernel computes *the same numbers* without ever holding the T × T
# matrix. How can that be? The softmax needs the sum over all keys before it can divide. The next
# exercise finds the trick. It is the heart of FlashAttention.
#
# ### Exercise · attention in pieces
#
# Suppose the keys came in two pieces, and somebody has done the attention over each piece alone.
# For each query you get the two outputs and, for each piece, the logarithm of its softmax's
# denominator:
#
# $$\mathrm{lse} = \log \sum_{j \in \text{piece}} e^{s_j}, \qquad
#   \mathrm{out} = \frac{\sum_{j \in \text{piece}} e^{s_j} v_j}{\sum_{j \in \text{piece}} e^{s_j}}$$
#
# where sⱼ is the query's (scaled) score with key j and vⱼ that key's value. Find the attention
# over *all* keys from these four tensors. Give it together with the lse of all keys, so that a
# third piece could be merged next.
#
# `out_a`, `out_b` have shape (batch, heads, queries, d_value), `lse_a`, `lse_b` (batch, heads,
# queries). Scores may be in the hundreds. A query that may attend to nothing in a piece has zeros
# for its output and lse = −∞ there; if it may attend to nothing at all, so has the result.


# %% exercise="merge_attention" graded=true points=4 difficulty=3 minutes=30
def merge_attention(out_a, lse_a, out_b, lse_b):
    """Attention over two pieces of the keys from that over each: (output, lse)."""
    ### BEGIN SOLUTION
    lse = torch.logaddexp(lse_a, lse_b)
    # What is subtracted cancels out; an empty row must not subtract −∞ from −∞.
    top = lse.masked_fill(lse == float("-inf"), 0.0)
    share_a, share_b = (lse_a - top).exp(), (lse_b - top).exp()
    return share_a[..., None] * out_a + share_b[..., None] * out_b, lse
    ### END SOLUTION


# %% check="merge_attention"
merge_attention = check(merge_attention)

# %% [markdown]
# ## What we measured
#
# Claims that you will meet in books and papers, and what this notebook found on this machine.

# %%
std_64 = variances[widths.index(64)] ** 0.5
slopes = [slope for _, slope in measured["unscaled"]]
claims = Claims("01_attention")
claims.add("five lines agree with PyTorch", "to 1e-6", f"{agreement:.0e}", agreement < 1e-6)
claims.add("std of q·k at d_k = 64", "8", f"{std_64:.2f}", abs(std_64 - 8) < 0.3)
claims.add(
    "unscaled, the softmax's slope vanishes as d_k grows",
    "towards 0",
    f"{slopes[1]:.2f} at d_k = {widths[1]}, {slopes[-1]:.3f} at {widths[-1]}",
    slopes[-1] < slopes[1] / 3,
)
claims.add("permutation equivariant", "exactly", f"{shuffle_gap:.0e}", shuffle_gap < 1e-6)
claims.add("outputs lie in the values' convex hull", "always", f"{beyond} outside", beyond == 0)
claims.add(
    "time, T doubled (explicit)",
    "× 4",
    f"× {time_growth['explicit']:.1f}",
    3 < time_growth["explicit"] < 6,
    only_if="the T² part outweighs everything else; on another machine try longer T",
)
claims.add(
    "memory, T doubled (explicit)",
    "× 4",
    f"× {memory_growth['explicit']:.1f}",
    3.5 < memory_growth["explicit"] < 4.5,
)
claims.add(
    "memory, T doubled (fused)",
    "× 2",
    f"× {memory_growth['fused']:.1f}",
    memory_growth["fused"] < 2.5,
)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("01-quiz-values")

# %%
quiz("01-quiz-axis")

# %%
quiz("01-quiz-empty-row")

# %%
quiz("01-quiz-t-squared")

# %% [markdown]
# ## Further reading
#
# - A. Vaswani et al., *Attention Is All You Need*, 2017, section 3.2: the formula, and a footnote
#   with the argument for √d_k that you measured.
# - D. Bahdanau, K. Cho, Y. Bengio, *Neural Machine Translation by Jointly Learning to Align and
#   Translate*, 2014: attention before the Transformer.
# - T. Dao et al., *FlashAttention*, 2022, and M. Milakov, N. Gimelshein, *Online normalizer
#   calculation for softmax*, 2018: attention in pieces.
#
# **Next:** one softmax has to choose. What if a token needs two things at once? Lesson 02.
