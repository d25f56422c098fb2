# %% [markdown]
# # 02 · Multi-head attention
#
# **What if a word needs two things at once?** *It* may need to know who acted and where. One
# softmax shares out one unit of attention: what goes to the one is lost to the other, and both
# arrive stirred together. What would you do?
#
# At the end of this lesson you will have written multi-head attention in every form that today's
# models use: for one sequence, between two, and with keys shared among heads as in Llama. You
# will know what its heads cost (the answer may surprise you) and how to move weights between your
# code and PyTorch's.
#
# *About 110 minutes. You need: lesson 01.*

# %%
import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, attention, check, figures, hint, quiz
from tfcourse.widgets import AttentionMap

# %% [markdown]
# ## One softmax must compromise
#
# Nine tokens. Token 2 carries a fact in its first value number, token 8 another one in its
# second. Token 5 needs both. We may choose its query freely; token 2's key points along one axis,
# token 8's along another.
#
# **Predict:** what is the most that token 5 can receive of *each* fact, with one head?

# %%
quiz("02-compromise")

# %% tags=["nbval-check-output"]
keys, values = torch.zeros(9, 4), torch.zeros(9, 2)
keys[2, 0] = keys[8, 1] = 1.0
values[2, 0] = values[8, 1] = 1.0

looks_for_2, looks_for_8 = torch.tensor([[20.0, 0, 0, 0], [0, 20.0, 0, 0]])


def attend_once(query):
    """One query, nine keys and values: (4,) -> (2,)"""
    return torch.softmax(keys @ query / 4**0.5, dim=0) @ values


one_head = attend_once(looks_for_2 + looks_for_8)
two_heads = torch.stack([attend_once(looks_for_2), attend_once(looks_for_8)])
print("one head, asking for both:", [f"{fact:.3f}" for fact in one_head])
print("two heads, one for each:  ", [[f"{fact:.3f}" for fact in head] for head in two_heads])

# %% [markdown]
# One head gives half of each, and no query gives more than half of *both*: the shares sum to one.
# Worse, the two facts come out added. Had both been written in the same number, 1 and 5, the mean
# 3 would not say which was which.
#
# Two heads give all of both, side by side. But two heads of what size? Twice the work would be a
# dear price. The trick of the paper: each head gets only a part of the numbers. With d_model =
# 512 and 8 heads, each works on d_head = 512 / 8 = 64.
#
# ### Exercise · split heads
#
# `x` has shape (batch, tokens, d_model). Cut its last axis into `n_heads` pieces *of neighbouring
# numbers* (head 0 gets the first d_head ones) and put the heads before the tokens: (batch, heads,
# tokens, d_head). Then the attention that you know works on all heads at once.


# %% exercise="split_heads" difficulty=1 minutes=8
def split_heads(x, n_heads):
    """(batch, tokens, d_model) -> (batch, heads, tokens, d_head)"""
    ### BEGIN SOLUTION
    batch, tokens, d_model = x.shape
    x = x.view(batch, tokens, n_heads, d_model // n_heads)
    return x.transpose(1, 2)
    ### END SOLUTION


# %% check="split_heads"
split_heads = check(split_heads)

# %% [markdown]
# ### Exercise · merge heads
#
# The way back: put the heads' results side by side again.


# %% exercise="merge_heads" difficulty=1 minutes=5
def merge_heads(x):
    """(batch, heads, tokens, d_head) -> (batch, tokens, d_model)"""
    ### BEGIN SOLUTION
    batch, heads, tokens, d_head = x.shape
    return x.transpose(1, 2).reshape(batch, tokens, heads * d_head)
    ### END SOLUTION


# %% check="merge_heads"
merge_heads = check(merge_heads)

# %% [markdown]
# Why is `x.view(batch, n_heads, tokens, d_head)` alone not enough? The shape would be right.
# Number the tokens and look where they go:

# %% tags=["nbval-check-output"]
x = torch.arange(3)[None, :, None].expand(1, 3, 4).contiguous()  # token i holds i, four times
right, wrong = split_heads(x, 2), x.view(1, 2, 3, 2)
print("head 0, split: ", right[0, 0].tolist())
print("head 0, viewed:", wrong[0, 0].tolist())

# %% [markdown]
# `view` keeps the order of the numbers in memory, so the second one's head 0 holds tokens 0 and 1
# and never sees token 2. Nothing raises. This bug has been published more than once.
#
# ## The whole of it
#
# Where do q, k and v come from? From the same tokens x, by three learned matrices. And since the
# heads' results stand side by side without knowing of each other, a fourth matrix mixes them at
# the end:
#
# $$\mathrm{head}_i = \operatorname{attention}(xW^Q_i,\; xW^K_i,\; xW^V_i), \qquad
#   \mathrm{out} = [\mathrm{head}_1, \dots, \mathrm{head}_h]\,W^O$$
#
# Here x is (tokens, d_model); $W^Q_i$, $W^K_i$, $W^V_i$ are head i's own matrices (d_model,
# d_head); h is the number of heads, `n_heads`; the brackets put the heads side by side; $W^O$ is
# (d_model, d_model). (Head 1 of the formula is head 0 in code.)
#
# Written like that it is a loop over heads. Nobody runs it so. **Predict**: three ways to compute
# the same: head by head; all heads' matrices side by side, one product each for q, k and v; all
# three side by side, a single product. Do they give the same numbers?

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
d_model, n_heads = 48, 6
x = torch.randn(2, 10, d_model)
w_q, w_k, w_v = torch.randn(3, d_model, d_model) / d_model**0.5
attend = attention.scaled_dot_product_attention

per_head = [
    attend(x @ wq, x @ wk, x @ wv)
    for wq, wk, wv in zip(*(w.chunk(n_heads, dim=1) for w in (w_q, w_k, w_v)), strict=True)
]
loop = torch.cat(per_head, dim=-1)

three = merge_heads(attend(*(split_heads(x @ w, n_heads) for w in (w_q, w_k, w_v))))

qkv = torch.cat([w_q, w_k, w_v], dim=1)  # (d_model, 3 * d_model)
fused = merge_heads(attend(*(split_heads(t, n_heads) for t in (x @ qkv).chunk(3, dim=-1))))

forms_gap = max((loop - three).abs().max().item(), (loop - fused).abs().max().item())
print("the three forms agree to 1e-5:", forms_gap < 1e-5)

# %% [markdown]
# They do, if the weights are laid out alike: a matrix product works column by column, so matrices
# side by side give results side by side. The single large product keeps the machine busiest, and
# most models store that one matrix: GPT-2's is called `c_attn`.
#
# ### Exercise · multi-head attention
#
# `__init__` is there: `qkv` is the single projection, and what it gives holds all of q first,
# then all of k, then all of v; cut it into these three *before* you split heads. `out` is the
# last projection. Add what it has to remember, and write `forward`. `mask` is None, or True = may
# attend and broadcasts to (batch, heads, queries, keys). Use `split_heads`, `merge_heads`, and
# `attention.scaled_dot_product_attention(q, k, v, mask)` or your own from lesson 01.


# %% exercise="MultiHeadAttention" difficulty=2 minutes=20
class MultiHeadAttention(nn.Module):
    """Self-attention with several heads: (batch, tokens, d_model) -> the same shape."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        ### BEGIN SOLUTION
        self.n_heads = n_heads
        ### END SOLUTION
        ### BEGIN GIVEN
        # # what else will forward need?
        ### END GIVEN

    def forward(self, x, mask=None):
        ### BEGIN SOLUTION
        q, k, v = (split_heads(t, self.n_heads) for t in self.qkv(x).chunk(3, dim=-1))
        heads = attention.scaled_dot_product_attention(q, k, v, mask)
        return self.out(merge_heads(heads))
        ### END SOLUTION


# %% check="MultiHeadAttention"
MultiHeadAttention = check(MultiHeadAttention)

# %% [markdown]
# ### What do the heads look at?
#
# Nobody has trained this one yet: the words get random vectors (`nn.Embedding`), and the
# package's own module gives its weights along with its output. Each thumbnail is a head; sort
# them by a measure, pick one, and go through its rows. In lesson 09 you will see the same picture
# of a model that has learnt something, and you will know which of this is chance.

# %%
words = ["it", "was", "the", "best", "of", "times", "it", "was", "the", "worst", "of", "times"]
torch.manual_seed(0)
module = attention.MultiHeadAttention(d_model=48, n_heads=6)
embedded = nn.Embedding(20, 48)(torch.tensor([sorted(set(words)).index(w) for w in words]))
_, weights = module(embedded[None] * 2, causal=True, return_weights=True)
mask = attention.causal_mask(len(words))
AttentionMap(weights[0], words, mask=mask, title="What do six untrained heads look at?")

# %% [markdown]
# ## What do heads cost?

# %%
quiz("02-parameters")

# %% tags=["nbval-check-output"]
counts = {}
for n_heads in (1, 2, 4, 8, 16):
    module = attention.MultiHeadAttention(d_model=512, n_heads=n_heads, bias=False)
    counts[n_heads] = sum(p.numel() for p in module.parameters())
print(counts, "   4·d² =", 4 * 512**2)

# %% [markdown]
# Four matrices of d × d, **4d²**, however many heads you cut them into. (Biases add 4d.) More
# heads are not more parameters; they are the same ones, cut finer. The price is paid elsewhere:
# each head has only d_head = d / h numbers to compare two tokens with, and T² weights of its own.
#
# ### Find the bug · scrambled heads
#
# In this function from a real course the output has the right shape with every input, and its
# authors looked no further. The mask comes as (1, 1, tokens, tokens). Follow the number of axes,
# line by line.


# %% exercise="masked_heads" difficulty=2 minutes=10
def masked_heads(q, k, v, mask):
    """(batch, heads, tokens, d_head), mask (1, 1, tokens, tokens) -> (batch, tokens, d_model)"""
    batch, heads, tokens, d_head = q.shape
    ### BEGIN SOLUTION
    scores = q @ k.mT / d_head**0.5
    scores = scores.masked_fill(~mask, float("-inf"))
    ### END SOLUTION
    ### BEGIN GIVEN
    # scores = q @ k.mT / d_head**0.5
    # scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
    ### END GIVEN
    out = torch.softmax(scores, dim=-1) @ v
    return out.transpose(1, 2).reshape(batch, tokens, heads * d_head)


# %% check="masked_heads"
masked_heads = check(masked_heads)

# %% [markdown]
# ## PyTorch's own
#
# `nn.MultiheadAttention` is the built-in one. It has two traps. You know the first: its boolean
# masks say True = may NOT attend. The second: by default it takes **tokens first**, (tokens,
# batch, d_model).

# %%
quiz("02-batch-first")

# %%
torch.manual_seed(0)
trap = nn.MultiheadAttention(48, 6)  # batch_first=False by default
right = nn.MultiheadAttention(48, 6, batch_first=True)
right.load_state_dict(trap.state_dict())
x = torch.randn(2, 10, 48)
changed = x.clone()
changed[1] += 1  # the second sequence changes: may the first one's output change?
for name, module in {"default": trap, "batch_first=True": right}.items():
    with torch.no_grad():
        moved = (module(x, x, x)[0][0] - module(changed, changed, changed)[0][0]).abs().max().item()
    print(f"{name:>16}: output of sequence 0 moves by {moved:.2f}")

# %% [markdown]
# No error, the right shape, and the sequences of a batch read each other. The experiment that
# finds it is lesson 01's, with another part changed.
#
# Now the proof that our module and PyTorch's are the same thing: copy the weights over and
# compare. `from_torch` only moves numbers: `in_proj_weight` has q, k and v stacked, just as our
# `qkv`.

# %% tags=["nbval-check-output"]
ours = attention.from_torch(right)
may_attend = attention.causal_mask(10)
may_not = attention.convert_mask(may_attend, "may_attend", "may_not_attend")
theirs, _ = right(x, x, x, attn_mask=may_not)
copied_gap = (ours(x, mask=may_attend) - theirs).abs().max().item()
print("equal to 1e-6:", copied_gap < 1e-6)

# %% [markdown]
# ## Asking another sequence
#
# A translator reads a sentence in one language while it writes in another. The word being written
# asks: the queries come from what is written so far, `x`; keys and values come from the sentence
# that is read, the `context`. This is **cross-attention**. Nothing else changes.
#
# ### Exercise · cross-attention
#
# `x` is (batch, queries, d_model), `context` (batch, keys, d_context): other length, other width.
# `w_q` and `w_o` are (d_model, d_model), `w_k` and `w_v` (d_context, d_model), multiplied from
# the right as in `x @ w_q`. `mask` (or None) is True where a query may attend to a token of the
# context.


# %% exercise="cross_attention" difficulty=2 minutes=12
def cross_attention(x, context, w_q, w_k, w_v, w_o, n_heads, mask=None):
    """Queries from x, keys and values from context -> (batch, queries, d_model)"""
    ### BEGIN SOLUTION
    q = split_heads(x @ w_q, n_heads)
    k = split_heads(context @ w_k, n_heads)
    v = split_heads(context @ w_v, n_heads)
    return merge_heads(attention.scaled_dot_product_attention(q, k, v, mask)) @ w_o
    ### END SOLUTION


# %% check="cross_attention"
cross_attention = check(cross_attention)

# %%
written, read = ["le", "chat", "noir"], ["the", "black", "cat", "sleeps"]
torch.manual_seed(3)
module = attention.MultiHeadAttention(24, 3)
_, weights = module(torch.randn(1, 3, 24), torch.randn(1, 4, 24) * 2, return_weights=True)
AttentionMap(weights[0], written, read, title="Whom does each written word ask?")

# %% [markdown]
# Three rows, four columns: the map need not be square, and no triangle is cut out of it. (These
# weights are random. Lesson 07 trains them, and you will see alignment.)
#
# ## Sharing keys: grouped-query attention
#
# A model stacks many such attentions, called layers (lesson 06). When it writes, it computes one
# token after the other. Its mask is causal, so the keys and values of the past never change: they
# are computed once and kept, in the **KV cache**. Llama-3 8B has 32 layers, 32 query heads,
# d_head = 128, two bytes a number. **Predict**: how much would its cache hold for one
# conversation of 8192 tokens, if each query head had keys and values of its own?

# %%
quiz("02-cache")


# %% tags=["nbval-check-output"]
def kv_cache_bytes(layers, n_kv_heads, d_head, tokens, bytes_per_number=2):
    """Keys and values of all layers and tokens, for one sequence, in bytes."""
    return 2 * layers * n_kv_heads * d_head * tokens * bytes_per_number


cache = {n: kv_cache_bytes(32, n, 128, 8192) / 2**30 for n in (32, 8, 1)}
for n_kv_heads, gib in cache.items():
    print(f"{n_kv_heads:2} heads of keys and values: {gib:.3f} GiB")

# %% [markdown]
# Llama-3 8B keeps 8. Four query heads share the keys and values of one: **grouped-query
# attention**. With a single head for all it is called **multi-query attention**. The formula
# holds for a real cache too:

# %% tags=["nbval-check-output"]
cached = attention.KVCache()
module = attention.MultiHeadAttention(d_model=512, n_heads=8, n_kv_heads=2)
with torch.no_grad():
    module(torch.randn(1, 100, 512), causal=True, cache=cached)
predicted_bytes = kv_cache_bytes(1, 2, 512 // 8, 100, bytes_per_number=4)  # float32 here
print(f"held by the cache: {cached.bytes} bytes; the formula: {predicted_bytes}")

# %% [markdown]
# ### Exercise · grouped-query attention
#
# `q` is (batch, n_heads, queries, d_head), `k` and `v` (batch, n_kv_heads, keys, d_head);
# n_kv_heads divides n_heads. *Neighbouring* query heads share: with 6 and 2, heads 0, 1, 2 use
# the first head of keys and values, heads 3, 4, 5 the second.


# %% exercise="grouped_query_attention" difficulty=2 minutes=12
def grouped_query_attention(q, k, v, mask=None):
    """Attention with fewer heads of keys and values than of queries; output shaped like q."""
    ### BEGIN SOLUTION
    group = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, dim=1)
    v = v.repeat_interleave(group, dim=1)
    return attention.scaled_dot_product_attention(q, k, v, mask)
    ### END SOLUTION


# %% check="grouped_query_attention"
grouped_query_attention = check(grouped_query_attention)

# %% [markdown]
# Sharing also shrinks the projections: with 8 of 32 heads, $W^K$ and $W^V$ have a quarter of
# their columns. So much for *4d² whatever the number of heads*. It holds when every head has its
# own keys and values.

# %% tags=["nbval-check-output"]
multi, grouped = (
    sum(p.numel() for p in attention.MultiHeadAttention(4096, 32, n, bias=False).parameters())
    for n in (32, 8)
)
print(f"d = 4096, 32 heads: {multi / 1e6:.1f}M parameters")
print(f"with 8 heads of keys and values: {grouped / 1e6:.1f}M")

# %% [markdown]
# ## Heads add up
#
# One more look at the last formula. `[head₁ … head_h] Wᴼ` is a long row times a matrix. Cut the
# matrix where the row is cut, and the product falls into a *sum*: each head writes something of
# its own into the output, and nobody else touches it. That is why one can ask of a trained model
# *what does head 3 do?* at all. Lesson 09 will.
#
# ### Exercise · what each head adds
#
# `heads` is (batch, heads, tokens, d_head), before merging. `w_o` is the weight of the output
# projection as `nn.Linear` stores it, (d_out, heads · d_head), so that the output is
# `F.linear(merge_heads(heads), w_o)`. Give each head's part, (batch, heads, tokens, d_out).
# Summed over the heads, they make the output.


# %% exercise="head_contributions" graded=true points=3 difficulty=3 minutes=20
def head_contributions(heads, w_o):
    """What each head adds to the output: (batch, heads, tokens, d_out)"""
    ### BEGIN SOLUTION
    columns = w_o.unflatten(1, (heads.shape[1], heads.shape[3]))  # (d_out, heads, d_head)
    return torch.einsum("bhtd,ohd->bhto", heads, columns)
    ### END SOLUTION


# %% check="head_contributions"
head_contributions = check(head_contributions)

# %% [markdown]
# ## What we measured

# %%
claims = Claims("02_multi_head_attention")
half = one_head.max().item()
claims.add(
    "one head must share its attention out, two need not",
    "1/2 of each; 1 of each",
    f"{half:.3f}; {two_heads.diagonal().min().item():.3f}",
    abs(half - 0.5) < 0.01 and two_heads.diagonal().min().item() > 0.99,
)
claims.add("loop, three projections, one projection", "equal", f"{forms_gap:.0e}", forms_gap < 1e-5)
claims.add(
    "parameters, whatever the number of heads",
    "4d²",
    ", ".join(f"{n / 512**2:g}d²" for n in sorted(set(counts.values()))),
    set(counts.values()) == {4 * 512**2},
    only_if="every head has keys and values of its own",
)
claims.add("our module with PyTorch's weights", "equal", f"{copied_gap:.0e}", copied_gap < 1e-6)
claims.add(
    "KV cache of Llama-3 8B, 32 → 8 heads of keys and values",
    "a quarter",
    f"{cache[8] / cache[32]:.2f} ({cache[32]:.1f} → {cache[8]:.1f} GiB at 8192 tokens)",
    cache[8] / cache[32] == 0.25,
)
claims.add(
    "attention of a Llama-3 8B block",
    "41.9M parameters",
    f"{grouped / 1e6:.1f}M",
    round(grouped / 1e6, 1) == 41.9,
)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("02-quiz-more-heads")

# %%
quiz("02-quiz-cross")

# %%
quiz("02-quiz-out")

# %% [markdown]
# ## Further reading
#
# - A. Vaswani et al., *Attention Is All You Need*, 2017, section 3.2.2: several heads.
# - N. Shazeer, *Fast Transformer Decoding: One Write-Head is All You Need*, 2019: multi-query
#   attention.
# - J. Ainslie et al., *GQA*, 2023: grouped-query attention.
# - N. Elhage et al., *A Mathematical Framework for Transformer Circuits*, 2021: heads as things
#   that add.
#
# **Next:** all of this still cannot tell *dog bites man* from *man bites dog*. Lesson 03 tells it
# where a word stands.
