# %% [markdown]
# # 02 · Multi-head attention
#
# ![](drawings/map.svg)
#
# **What if a word needs two things at once?** *It* may need to know who acted, and where. But one
# softmax has only one unit of attention to share out. What goes to one word is lost for the other,
# and both arrive mixed together. Every model since 2017 has the same answer: several attentions
# side by side, the **heads**. A model stacks many layers, and each layer has such heads: 12 of them
# in GPT-2, 32 in Llama-3 8B.
#
# At the end of this lesson you will have written multi-head attention in every form that today's
# models use. That means: for one sequence, between two, and with keys shared among heads as in
# Llama. You will have trained one head against four. You will know what heads cost (the answer may
# surprise you) and how to move weights between your code and PyTorch's.
#
# *About 160 minutes. You need: [lesson 01](01_attention.ipynb).*

# %%
import time

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, attention, check, figures, hint, mine, quiz, reveal
from tfcourse.experiments import mean_and_spread, recorded, several_heads, study
from tfcourse.widgets import AttentionMap

# %% [markdown]
# ## One softmax must compromise
#
# Nine [tokens](glossary.ipynb#cell-id=token). Token 2 holds a letter, token 8 holds a letter, and
# token 5 needs both: *which letter stands at 2, and which at 8?* Each of the twelve letters has a
# vector of 16 numbers, its **embedding**, and that vector is its value wherever it stands. We may
# choose the query of token 5 freely. The key of token 2 points along one axis, that of token 8
# along another.

# %%
quiz("02-compromise")

# %% tags=["after-prediction", "nbval-check-output"]
torch.manual_seed(0)
letter = torch.randn(12, 16, dtype=torch.float64)  # one row a letter
keys = torch.zeros(9, 4, dtype=torch.float64)
keys[2, 0] = keys[8, 1] = 1.0
looks_for_2, looks_for_8 = 20 * torch.eye(4, dtype=torch.float64)[:2]


def received(first, second, *queries):
    """What token 5 receives with these letters at 2 and 8: a mixture for each query."""
    values = torch.zeros(9, 16, dtype=torch.float64)
    values[2], values[8] = letter[first], letter[second]
    return torch.cat([torch.softmax(keys @ q / 4**0.5, dim=0) @ values for q in queries])


def how_many_differ(*queries):
    """How many different vectors the 144 pairs of letters give."""
    all_pairs = [received(a, b, *queries) for a in range(12) for b in range(12)]
    return len(torch.stack(all_pairs).round(decimals=6).unique(dim=0))


found = {
    "one head, half and half": how_many_differ(looks_for_2 + looks_for_8),
    "one head, 60% and 40%": how_many_differ(1.02 * looks_for_2 + 0.98 * looks_for_8),
    "two heads, one for each": how_many_differ(looks_for_2, looks_for_8),
}
for name, number in found.items():
    print(f"{name:>24}: 144 pairs of letters give {number:3} different vectors")

# %% [markdown]
# Half and half, 66 of the 144 pairs are lost: D at 2 and K at 8 gives exactly the vector that K at
# 2 and D at 8 gives. Whatever comes after this head, it can never find out which was which. Two
# heads give both letters side by side, and nothing is lost.
#
# But look at the second line. (1.02 and 0.98 give the scores 20.4 / 2 = 10.2 and 19.6 / 2 = 9.8,
# and the softmax makes 60% and 40% of this difference of 0.4.) With 60% and 40% no two pairs
# coincide. Is that a way out for one head? It depends on who reads the vector. Take a **linear**
# readout: it gives each letter a score, and the score grows in proportion to the letter's share.
# For place 2 that works: the letter with 60% scores higher than the one with 40%, and all others
# have 0%. For place 8 it would have to prefer 40% to 60%, and also to 0%. No straight line does
# that. An **MLP** (two linear layers with a bend between them, [lesson 05](05_feed_forward.ipynb))
# can.
#
# ### Does training find a way out?
#
# So far we chose the queries. Now training chooses them. The game is like that of [lesson
# 01](01_attention.ipynb), but harder. Eight cards have a name (1 to 8) and one of twelve letters. A
# question names **four** cards in order, say 3, 1, 7, 5. It is one token: the sum of four vectors,
# which say *3 comes first*, *1 comes second*, and so on. The answer is the four letters, in that
# order. Between the cards and the answer there is one attention with
# [d_model](glossary.ipynb#cell-id=d_model) = 32 (each card and each question is 32 numbers), and a
# linear readout.
#
# We train it with one head, and with four heads. Both have the same number of
# [parameters](glossary.ipynb#cell-id=parameter). (You will soon see why.) Guessing a letter is
# right once in twelve. **Predict**: how many of its answers will the single head get right?

# %%
RETRAIN = False
record = recorded("several_heads")
results = several_heads.run(**record["settings"], say=print) if RETRAIN else record["results"]
STEPS, readers = record["settings"]["steps"], {}


def train_live(arm):
    """Train an arm of the experiment with its own learning rate, on a seed of ours."""
    watch = figures.LiveCurve(f"What does it learn? {arm}", STEPS)
    rate = results["chosen"][arm]
    readers[arm], _ = several_heads.train(arm, rate=rate, seed=20, steps=STEPS, watch=watch)


# %% tags=["after-prediction"]
train_live("4 cards, 1 head")

# %%
train_live("4 cards, 4 heads")

# %% [markdown]
# That was one seed. The record holds five of them, and each arm (each kind of model) with the
# [learning rate](glossary.ipynb#cell-id=learning-rate) that was best for it on other
# [seeds](glossary.ipynb#cell-id=seed). The loss is the mean surprise at the right letter, in
# [nats](glossary.ipynb#cell-id=nat): ln 12 ≈ 2.5 is blind guessing. The grey line is computed: the
# lowest possible loss of somebody who knows *which* four letters are meant, but not their order.

# %%
shown = ("4 cards, 1 head", "4 cards, 2 heads", "4 cards, 4 heads")
curves = {arm: torch.tensor(study.losses(results, arm, key="curve")) for arm in shown}
without_order = results["without the order"]["4"]
figures.lines(
    range(10, STEPS + 1, 10),
    {arm: curve.mean(dim=0).tolist() for arm, curve in curves.items()},
    title="Four cards in one question: who learns their order?",
    x_label="step",
    y_label="loss in nats an answer",
    spread={arm: curve.std(dim=0).tolist() for arm, curve in curves.items()},
    level=(without_order["loss"], "the letters without their order"),
    markers=False,
    alt="Loss by step, mean of five seeds. At the end: "
    + "; ".join(f"{arm} {curve[:, -1].mean():.2f}" for arm, curve in curves.items())
    + f". The letters without their order: {without_order['loss']:.2f}.",
)

# %%
print(f"guessing 8.3%; the letters without their order {without_order['right']:.1%}\n")
print(f"{'right, of all answers':>52}   all of a game right")
for arm in record["settings"]["arms"]:
    right, spread = mean_and_spread(study.losses(results, arm, key="right"))
    whole, _ = mean_and_spread(study.losses(results, arm, key="all right"))
    print(f"{arm:>38}: {right:6.1%} ± {spread:4.1%}   {whole:6.1%}")

# %% [markdown]
# With a linear readout, one head is right about as often as somebody who knows the four letters and
# has to guess their order. (Its loss even stays above the grey line.) Four heads are right almost
# always, with the same number of parameters. Two heads lie between: two units of attention for four
# cards.
#
# The other rows ask what else could make the difference.
#
# - *Is a single head too weak?* No. If each card is asked for by a token of its own, one head gets
#   all of them right. What is too little is one softmax for four needs.
# - *Is it the readout?* In part. With an MLP behind it, one head can use unequal shares. With two
#   cards it then learns the order in most runs, but not in all of them. With four cards it learns
#   only a part of it. (An MLP has parameters of its own: these arms are larger, one head and
#   several heads alike.)
#
# So one head *can* find the way out, if something behind it is able to read the shares. Several
# heads do not need it.
#
# ### How large is a head?
#
# So we want several heads. But how large should each of them be? Two whole attentions side by side
# would double the work. The trick of the paper: each head gets only a part of the numbers. Every
# token is a row of **d_model** numbers. With d_model = 512 and 8 heads, each head works on
# **d_head** = 512 / 8 = 64 of them.
#
# Two tools for that. `reshape` (or `view`) gives the same numbers other axes, and `transpose` swaps
# two axes. Look at the order of the numbers:

# %% tags=["nbval-check-output"]
row = torch.arange(6)
print("reshape(2, 3):                 ", row.reshape(2, 3).tolist())
print("reshape(2, 3).transpose(0, 1): ", row.reshape(2, 3).transpose(0, 1).tolist())
print("reshape(3, 2):                 ", row.reshape(3, 2).tolist())

# %% [markdown]
# ![](drawings/heads.svg)
#
# ### Exercise · split heads
#
# `x` has shape (batch, tokens, d_model). Cut its last axis into `n_heads` pieces *of neighbouring
# numbers* (head 0 gets the first d_head of them) and put the heads before the tokens: (batch,
# heads, tokens, d_head). `n_heads` divides d_model. Then the attention that you know works on all
# heads at once.
#
# (Models are trained through such functions, so the checks of this lesson look at the
# [gradients](glossary.ipynb#cell-id=gradient) too. Compute with torch's tensors all the way:
# numbers taken out by `.item()` or put into a new `torch.tensor(…)` have no gradient.)


# %% exercise="split_heads" difficulty=1 minutes=15
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
# The way back: put the results of the heads side by side again. (`view` never copies numbers, so
# it refuses where the new order does not fit the order in memory. `reshape` copies if it must.)


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
x = torch.tensor([[[0.0] * 4, [1.0] * 4, [2.0] * 4]])  # token i holds i, four times
right, wrong = split_heads(x, 2), x.view(1, 2, 3, 2)
print("head 0, split: ", right[0, 0].int().tolist())
print("head 0, viewed:", wrong[0, 0].int().tolist())

# %% [markdown]
# `view` keeps the order of the numbers in memory. So in the second line head 0 holds token 0 and
# half of token 1, and never sees token 2. No error is raised: the shape is right.
#
# ## The whole of it
#
# Where do q, k and v come from? From the same tokens x, by three learned matrices. The results of
# the heads then stand side by side: head 0 fills the first d_head numbers of a row, head 1 the
# next. No number of one head has met a number of another, and each head has written into its own
# strip only. So a fourth matrix mixes them at the end:
#
# $$\mathrm{head}_i = \operatorname{attention}(xW^Q_i,\; xW^K_i,\; xW^V_i), \qquad
#   \mathrm{out} = [\mathrm{head}_1, \dots, \mathrm{head}_h]\,W^O$$
#
# Here x is (tokens, d_model). $W^Q_i$, $W^K_i$, $W^V_i$ are head i's own matrices (d_model,
# d_head), and h is the number of heads, `n_heads`. The brackets put the heads side by side. $W^O$
# is (d_model, d_model). (Head 1 of the formula is head 0 in code.)
#
# Written like that, it is a loop over heads. In practice nobody loops. **Predict**: here are three
# ways to compute it. Head by head; the matrices of all heads side by side, one product each for q,
# k and v; all three side by side, a single product. Do they give the same numbers?
# (`chunk(n, dim)` cuts a tensor into n equal pieces along an axis. `mine` gives back what you
# wrote: your own function of [lesson 01](01_attention.ipynb) if it passed its check there, else
# ours. It says which.)

# %% tags=["after-prediction", "nbval-check-output"]
torch.manual_seed(0)
d_model, n_heads = 48, 6
x = torch.randn(2, 10, d_model)
w_q, w_k, w_v = torch.randn(3, d_model, d_model) / d_model**0.5
attend = mine.scaled_dot_product_attention

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
# side by side give results side by side. One large product needs one call instead of three, and
# many models store that one matrix: in [GPT-2's
# code](https://github.com/openai/gpt-2/blob/master/src/model.py) it is called `c_attn`.
#
# Two more tools. `nn.Module` is the class of everything that has parameters: `__init__` makes them,
# `forward` uses them, and `module(x)` calls `forward(x)`. `nn.Linear(d_in, d_out)` is a matrix and
# a [bias](glossary.ipynb#cell-id=bias) that are learned. It keeps its matrix the other way round,
# as `weight` of shape (d_out, d_in), and computes `x @ weight.T + bias`.
#
# ### Exercise · multi-head attention
#
# `__init__` is there. `qkv` is the single projection. What it gives holds all of q first, then all
# of k, then all of v: cut it into these three *before* you split heads. `out` is the last
# projection. Add what it has to remember, and write `forward`.
#
# `x` is (batch, tokens, d_model). `mask` is None, or boolean with True = may attend, and
# broadcasts, with two axes or more, to (batch, heads, queries, keys). It may be causal, padding,
# another one for each head, anything. Where a query may attend to nothing, its heads give zeros.
# Use `split_heads`, `merge_heads`, and `attention.scaled_dot_product_attention(q, k, v, mask)`,
# which does all that, or `mine.scaled_dot_product_attention`, your own.


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
# Now you know what stood inside the four-headed model above. Where does each of its heads look?
# Below are six questions to the same eight cards. A row is a question: the card named first, the
# second, the third and the fourth. Pick a head, go through its rows, and compare them with the
# questions. **Predict** first: how might four heads share the work?

# %%
letters, questions, _ = several_heads.deal(6, 4, torch.Generator().manual_seed(1))
letters = letters[:1].expand(6, -1)  # the same cards for all six
cards = [f"{i + 1} {'ABCDEFGHIJKL'[n]}" for i, n in enumerate(letters[0])]
asked = [" ".join(str(i + 1) for i in question.tolist()) for question in questions]
with torch.no_grad():
    maps = {arm: model(letters, questions)[1][:, :, 0] for arm, model in readers.items()}
AttentionMap(
    maps["4 cards, 4 heads"].transpose(0, 1),  # (heads, questions, cards)
    asked,
    cards,
    title="Which card does each head look at? Trained, four heads",
)

# %% tags=["after-prediction"]
AttentionMap(
    maps["4 cards, 1 head"].transpose(0, 1),
    asked,
    cards,
    title="And the only head, where there is one?",
)

# %% [markdown]
# Six questions are few. Take 2000 games. How much does each head attend to the card that the
# question names first, second, third, fourth?


# %% tags=["after-prediction"]
def shares(of):
    return "  ".join(f"{share:4.0%}" for share in of.tolist())


print("                      1st   2nd   3rd   4th")
for i, head in enumerate(several_heads.place_served(readers["4 cards, 4 heads"])):
    print(f"head {i} attends to    {shares(head)}")

# %% [markdown]
# And the single head? Beside its shares, how often its answer for each place is right:

# %%
reader = readers["4 cards, 1 head"]
[alone] = several_heads.place_served(reader)
letters, questions, answers = several_heads.deal(2000, 4, torch.Generator().manual_seed(2))
with torch.no_grad():
    right = (reader(letters, questions)[0].argmax(dim=-1) == answers).double().mean(dim=0)
print("                      1st   2nd   3rd   4th")
print(f"it attends to        {shares(alone)}")
print(f"right answers        {shares(right)}")

# %% [markdown]
# Nobody told the four heads to share the work like this. Training gave each of them one place of
# the question, and there it looks at one card alone. Which head serves which place is chance: with
# another seed the columns are in another order.
#
# The only head spreads over all four cards, in shares that are not quite equal. Where it gives a
# card most, it is right most often. How can so small a lead do so much? The answer is the letter
# with the *highest* score, and by how much it is the highest does not count. That is the 60% and
# 40% from above, found by training: a linear readout can use it for one place, and for that one
# alone.
#
# In lesson 10 you will see maps of a language model. Its heads share the work, too, but less
# neatly.

# %% [markdown]
# ## What do heads cost?

# %%
quiz("02-parameters")

# %% tags=["after-prediction", "nbval-check-output"]
counts = {}
for n_heads in (1, 2, 4, 8, 16):
    module = attention.MultiHeadAttention(d_model=512, n_heads=n_heads, bias=False)
    counts[n_heads] = sum(p.numel() for p in module.parameters())
print(counts, "   4·d² =", 4 * 512**2)

# %% [markdown]
# Four matrices of d × d, **4d²**, however many heads you cut them into. (Biases add 4d.) More
# heads are not more parameters. They are the same ones, cut finer.
#
# The multiplications are the same too. For T tokens, q, k, v and the output take 4·T·d². The scores
# take T²·d_head in each of the h heads, and h·d_head = d. So do the sums over the values. All in
# all 4·T·d² + 2·T²·d, and h is not in it. **Predict**: is it as fast with 512 heads as with 8?

# %% tags=["after-prediction"]
THREADS = torch.get_num_threads()
torch.set_num_threads(1)  # many threads wait for each other on a busy machine
tokens, seconds = torch.randn(1, 256, 512), {1: [], 8: [], 64: [], 512: []}
modules = {h: attention.MultiHeadAttention(d_model=512, n_heads=h) for h in seconds}
with torch.no_grad():
    for _ in range(4):  # in turn, so that other work on this machine disturbs all alike
        for h, module in modules.items():
            started = time.perf_counter()
            module(tokens, return_weights=True)  # the explicit form, as you wrote it
            seconds[h].append(time.perf_counter() - started)
torch.set_num_threads(THREADS)
fastest = {h: min(times) for h, times in seconds.items()}
for h, best in fastest.items():
    print(f"{h:3} heads: {1000 * best:7.1f} ms, {h * 256**2 * 4 / 2**20:6.2f} MiB of weights")

# %% [markdown]
# It is not. A few heads cost nothing extra. But each head has T² weights of its own, and every
# weight goes through a softmax and through memory. Many heads are paid for in weights, not in
# parameters. There is another price: with 512 heads, each has d_head = 1. It compares two tokens by
# a single number.
#
# ### Find the bug · scrambled heads
#
# The output of this function has the right shape with every input. If nobody looks further, nobody
# finds the bug. The mask comes as (1, 1, tokens, tokens), True = may attend, and it lets every
# query attend to at least one token. `unsqueeze(1)` puts a new axis of length 1 before axis 1.
# Follow the number of axes, line by line.


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

# %% tags=["after-prediction"]
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
# No error, the right shape, and the sequences of a [batch](glossary.ipynb#cell-id=batch) read each
# other. The experiment that finds it is the one of [lesson 01](01_attention.ipynb): change one part
# of the input, and see what moves.
#
# Apart from the traps, is PyTorch's module the same thing as yours? The test is a copy: give it
# your weights, and compare the outputs. You need the same step whenever published weights are to
# run in code of your own.
#
# `module.state_dict()` gives the weights of a module as a dict, from names to tensors.
# `module.load_state_dict(state)` copies such a dict into the parameters of the same names. (The
# cell above did it with the weights of `trap`.) It raises an error where a name is missing, where
# it does not know a name, and where a shape does not fit. Which names does PyTorch's module have?

# %% tags=["nbval-check-output"]
for bias in (True, False):
    print(f"nn.MultiheadAttention(48, 6, bias={bias})")
    for name, tensor in nn.MultiheadAttention(48, 6, bias=bias).state_dict().items():
        print(f"{name:>20}: {tuple(tensor.shape)}")

# %% [markdown]
# `out_proj` is an `nn.Linear`. `in_proj_weight` holds three matrices on top of each other: first
# q's, then k's, then v's, each as an `nn.Linear` would keep it. `in_proj_bias` holds the biases of
# these three in the same order, in one long row. PyTorch cuts its heads as you do, out of
# neighbouring numbers. So the copy does not depend on the number of heads.
#
# ### Exercise · copy the weights
#
# Make the dict that `nn.MultiheadAttention(d_model, n_heads, batch_first=True)` can load: the
# names are those printed above, each with its tensor. `w_q`, `w_k`, `w_v` and `w_o` are your four
# matrices, each (d_model, d_model), multiplied from the right as above: `x @ w_q`. `biases` is
# None or (4, d_model). Its rows are the biases of q, k, v and of the output, so that q is
# `x @ w_q + biases[0]`. With None the dict holds no biases: it is for a module that was made with
# `bias=False`.
#
# (`torch.cat([a, b])` puts the matrix b below the matrix a, `w.T` swaps rows and columns, and
# `reshape(-1)` lays a table's rows one after the other.) Be careful: all four matrices are square.
# If one of them stands in the wrong place or the wrong way round, no error will tell you.


# %% exercise="torch_weights" difficulty=2 minutes=15
def torch_weights(w_q, w_k, w_v, w_o, biases=None):
    """Your matrices -> a state dict with the names that PyTorch's module has"""
    ### BEGIN SOLUTION
    state = {
        "in_proj_weight": torch.cat([w_q.T, w_k.T, w_v.T]),  # (3 * d_model, d_model)
        "out_proj.weight": w_o.T,
    }
    if biases is not None:
        state["in_proj_bias"] = biases[:3].reshape(-1)  # (3 * d_model,)
        state["out_proj.bias"] = biases[3]
    return state
    ### END SOLUTION


# %% check="torch_weights"
torch_weights = check(torch_weights)

# %% [markdown]
# Now the test. On one side stand your own heads, on the other PyTorch's module with your dict. A
# causal mask goes to both. For PyTorch it has to be translated: that was the first trap. A second
# dict has q and k swapped on purpose. **Predict**: will `load_state_dict` refuse it?

# %% tags=["after-prediction"]
torch.manual_seed(0)
x, biases = torch.randn(2, 10, 48), torch.randn(4, 48) / 4
w_q, w_k, w_v, w_o = torch.randn(4, 48, 48) / 48**0.5
may_attend = attention.causal_mask(10)
may_not = attention.convert_mask(may_attend, "may_attend", "may_not_attend")

q, k, v = (split_heads(x @ w + b, 6) for w, b in zip((w_q, w_k, w_v), biases[:3], strict=True))
by_hand = merge_heads(attend(q, k, v, may_attend)) @ w_o + biases[3]

states = {
    "q and k swapped": torch_weights(w_k, w_q, w_v, w_o, biases[[1, 0, 2, 3]]),
    "your copy": torch_weights(w_q, w_k, w_v, w_o, biases),
}
module = nn.MultiheadAttention(48, 6, batch_first=True)
for name, state in states.items():
    module.load_state_dict(state)
    theirs, _ = module(x, x, x, attn_mask=may_not)
    print(f"{name:>16}: the outputs differ by at most {(theirs - by_hand).abs().max():.1g}")

# %% [markdown]
# With your copy, the difference is rounding: the two are the same thing. The swapped dict loads
# without complaint, because every name and every shape fits. Only the outputs tell. So after a
# copy, always compare outputs, and not only names and shapes.
#
# The way back is the same work in the other direction. `attention.from_torch` does it: our `qkv`
# has q, k and v stacked, just as `in_proj_weight` has them.

# %% tags=["nbval-check-output"]
ours = attention.from_torch(module)
copied_gap = (ours(x, mask=may_attend) - theirs).abs().max().item()
print("equal to 1e-6:", copied_gap < 1e-6)

# %% [markdown]
# ## Asking another sequence
#
# A translator reads a sentence in one language and writes in another. The word that is being
# written asks: the queries come from what is written so far, `x`. Keys and values come from the
# sentence that is read, the `context`. This is **cross-attention**. Nothing else changes. (The
# question and the cards above were cross-attention already.)
#
# ![](drawings/cross_attention.svg)
#
# ### Exercise · cross-attention
#
# `x` is (batch, queries, d_model), `context` (batch, keys, d_context): its length and width may be
# other than those of `x`, or the same. `w_q` and `w_o` are (d_model, d_model), `w_k` and `w_v`
# (d_context, d_model), multiplied from the right as in `x @ w_q`. `mask` is None, or boolean, True
# where a query may attend to a token of the context, and broadcasts, with two axes or more, to
# (batch, heads, queries, keys). Where a query may attend to nothing, its heads give zeros.


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
AttentionMap(weights[0], written, read, title="Where does each written word look? Untrained")

# %% [markdown]
# Three rows, four columns: the map need not be square, and no triangle is cut out of it. (These
# weights are random. [Lesson 08](08_encoder_decoder.ipynb) trains such an attention, and you will
# see which character of a date each digit comes from.)
#
# ## Sharing keys: grouped-query attention
#
# A model stacks many such attentions, one in each layer ([lesson 06](06_transformer_block.ipynb)).
# When it writes, it computes one token after the other. Its mask is
# [causal](glossary.ipynb#cell-id=causal-mask), so the keys and values of the past never change.
# They are computed once and kept, in the **KV cache**.
#
# ![](drawings/cache.svg)
#
# Llama-3 8B has 32 layers, 32 query heads, d_head = 128, two bytes a number. **Predict**: how much
# would its cache hold for one conversation of 8192 tokens, if each query head had keys and values
# of its own?

# %%
quiz("02-cache")


# %% tags=["after-prediction", "nbval-check-output"]
def kv_cache_bytes(layers, n_kv_heads, d_head, tokens, bytes_per_number=2):
    """Keys and values of all layers and tokens, for one sequence, in bytes."""
    return 2 * layers * n_kv_heads * d_head * tokens * bytes_per_number


cache = {n: kv_cache_bytes(32, n, 128, 8192) / 2**30 for n in (32, 8, 1)}
for n_kv_heads, gib in cache.items():
    print(f"{n_kv_heads:2} heads of keys and values: {gib:.3f} GiB")

# %% [markdown]
# Llama-3 8B keeps 8. Four query heads share the keys and values of one head: this is
# **grouped-query attention**. With a single head for all it is called **multi-query attention**.
# The formula holds for a real cache too:

# %% tags=["nbval-check-output"]
cached = attention.KVCache()
module = attention.MultiHeadAttention(d_model=512, n_heads=8, n_kv_heads=2)
with torch.no_grad():
    module(torch.randn(1, 100, 512), causal=True, cache=cached)
predicted_bytes = kv_cache_bytes(1, 2, 512 // 8, 100, bytes_per_number=4)  # float32 here
print(f"held by the cache: {cached.bytes} bytes; the formula: {predicted_bytes}")

# %% [markdown]
# ![](drawings/groups.svg)
#
# ### Exercise · grouped-query attention
#
# `q` is (batch, n_heads, queries, d_head), `k` and `v` are (batch, n_kv_heads, keys, d_head);
# n_kv_heads divides n_heads. *Neighbouring* query heads share: with 6 and 2, heads 0, 1, 2 use the
# first head of keys and values, heads 3, 4, 5 the second. `mask` is None, or boolean with True =
# may attend, and broadcasts, with two axes or more, to (batch, n_heads, queries, keys): it may be
# another one for each query head. A query that may attend to nothing gives zeros. (PyTorch repeats
# in two ways: `repeat` puts a copy of the whole behind the whole, `repeat_interleave` puts copies
# side by side.)


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
# Sharing also makes the projections smaller: with 8 of 32 heads, $W^K$ and $W^V$ have a quarter of
# their columns. So *4d², whatever the number of heads* has a condition: every head has keys and
# values of its own.

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
# One more look at the formula. `[head₁ … head_h] Wᴼ` is a long row times a matrix. Cut the matrix
# where the row is cut, and the product becomes a *sum*: each head adds its own part to the output,
# and no other head touches that part. That is why we can ask of a trained model *what does head 3
# do?* at all. Lesson 10 will.
#
# ### Exercise · what each head adds
#
# `heads` is (batch, heads, tokens, d_head), before merging. `w_o` is the weight of the output
# projection as `nn.Linear` stores it: (d_out, d_in), one row for each number that comes out, one
# column for each that goes in. Here d_in = heads · d_head, so that the output is
# `F.linear(merge_heads(heads), w_o)`. (`F.linear(x, w)` is `x @ w.T`.) Return the part of each
# head, (batch, heads, tokens, d_out). Summed over the heads, the parts are the output.


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
#
# The first row asks of four cards. A first trial asked of two as well: there, with an MLP behind
# the attention, one head cannot be told from two.

# %%
claims = Claims("02_multi_head_attention")
for claim in several_heads.CLAIMS:
    claims.add(claim.id, results)

# %%
claims.add("half-and-half-loses-the-order", found)
claims.add("forms-of-multi-head-attention", forms_gap)
claims.add("heads-cost-the-same", fastest)
claims.add("four-d-squared", counts, 512, {32: multi, 8: grouped}, 4096)
claims.add("same-as-torch-multi-head", copied_gap)
claims.add("a-quarter-of-the-cache", cache)
claims.add("attention-of-llama-3", grouped)
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
# - A. Vaswani et al., [*Attention Is All You Need*](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.2: several heads.
# - N. Shazeer, [*Fast Transformer Decoding: One Write-Head is All You
#   Need*](https://arxiv.org/abs/1911.02150), 2019: multi-query attention.
# - J. Ainslie et al., [*GQA*](https://arxiv.org/abs/2305.13245), 2023: grouped-query attention.
# - N. Elhage et al., [*A Mathematical Framework for Transformer
#   Circuits*](https://transformer-circuits.pub/2021/framework/index.html), 2021: heads as things
#   that add.
# - P. Michel, O. Levy, G. Neubig, [*Are Sixteen Heads Really Better than
#   One?*](https://arxiv.org/abs/1905.10650), 2019: what happens when heads are taken away.
#
# **Next:** all of this still cannot tell *dog bites man* from *man bites dog*. [Lesson
# 03](03_positions.ipynb) tells it where a word stands.
