# %% [markdown]
# # 05 · The feed-forward network (MLP)
#
# ![](drawings/map.svg)
#
# **Where does a token think?** Attention moves things around: what a word receives is a mixture of
# what the others had. Mixing alone makes nothing new. Which part concludes that *France*,
# *capital* and *of* together mean *Paris*? In the code of GPT-2 and of Llama it is the line that
# calls `self.mlp`, and most of a block's parameters are behind it.
#
# At the end of this lesson you will have built that part, plain and gated. You will have found
# units in a trained network that speak for a single fact, changed what they say, and switched
# them off. The last of these will correct what the first two seem to say. And you will know where
# two thirds of a block's parameters are, and when that is no longer true.
#
# *About 120 minutes. You need: lessons [01](01_attention.ipynb) to [04](04_norms.ipynb); what a
# gradient is.*

# %%
import torch
import torch.nn.functional as F

from tfcourse import Claims, blocks, check, feed_forward, figures, hint, quiz, reveal
from tfcourse.experiments import facts, feed_forwards, mean_and_spread, recorded
from tfcourse.experiments.study import losses
from tfcourse.widgets import Activations

# %% [markdown]
# ## One small network, for each token by itself
#
# Take one token's vector. Multiply it by a wide matrix: four times as many numbers come out. Each
# of them answers a question like "does this look like a country whose capital is asked for?". Set
# the negative answers to zero. Multiply by a second matrix, back to the old width. That is all:
#
# $$\mathrm{FFN}(x) = \operatorname{relu}(x W_1 + b_1)\, W_2 + b_2$$
#
# $x$ is one token, (d_model,); $W_1$ is (d_model, d_ff) and $W_2$ (d_ff, d_model); $b_1$, $b_2$
# are biases; d_ff is usually 4 · d_model. Papers call this part the **feed-forward network**,
# code calls it the **MLP** (*multi-layer perceptron*). From here on we say MLP; *the network* is
# the whole model.
#
# The **ReLU** is max(x, 0), number by number; the function in this place is the **activation
# function**. Each column of $W_1$, with its number in $b_1$, is a **unit** (or *neuron*). The
# number that comes out of its ReLU is how strongly the unit *fires*. One trace with a pencil,
# d_model = 3 and d_ff = 4:

# %% tags=["nbval-check-output"]
x = torch.tensor([0.5, -1.0, 0.8])
w1 = torch.tensor([[1.0, 0.0, -1.0, 0.5], [0.0, 1.0, 0.0, -1.0], [0.5, -0.5, 1.0, 0.0]])
before = x @ w1
trace = torch.relu(before)
print("before the ReLU:", before)
print("after it:       ", trace)

# %% [markdown]
# The second unit got −1.4: it does not fire. (Follow it: 0.5 · 0 − 1 · 1 + 0.8 · (−0.5).)

# %%
quiz("05-alone")

# %% [markdown]
# ### Exercise · position-wise
#
# `x` is (batch, tokens, d_model), the matrices as in the formula: `x @ w1` multiplies from the
# right. d_ff may be larger than d_model, smaller, or equal to it.


# %% exercise="position_wise" difficulty=1 minutes=5
def position_wise(x, w1, b1, w2, b2):
    """relu(x w1 + b1) w2 + b2 for every token: (batch, tokens, d_model)"""
    ### BEGIN SOLUTION
    hidden = torch.relu(x @ w1 + b1)  # (batch, tokens, d_ff)
    return hidden @ w2 + b2
    ### END SOLUTION


# %% check="position_wise"
position_wise = check(position_wise)

# %% [markdown]
# Two measurements on it. First: change the fifth token, and see which outputs move. Second: take
# the ReLU out. **Predict** what the two wide matrices are then worth.

# %% tags=["after-prediction", "nbval-check-output"]
torch.manual_seed(0)
d_model, d_ff = 16, 64
x = torch.randn(1, 8, d_model)
x[0, 6] = x[0, 2]  # the same token twice
w1, w2 = torch.randn(d_model, d_ff) / 4, torch.randn(d_ff, d_model) / 8
b1, b2 = torch.randn(d_ff), torch.randn(d_model)

changed = x.clone()
changed[0, 4] += 1
out = position_wise(x, w1, b1, w2, b2)
moved = (position_wise(changed, w1, b1, w2, b2) - out).abs().amax(-1)[0]
moved_rows = (moved > 0).nonzero().flatten().tolist()
twins_gap = (out[0, 6] - out[0, 2]).abs().max().item()
print("rows that move:", moved_rows)

linear = (x @ w1) @ w2
one_matrix = x @ (w1 @ w2)  # (d_model, d_model)
linear_gap = (linear - one_matrix).abs().max().item()
print(f"without the ReLU: {w1.numel() + w2.numel()} numbers do the work of {(w1 @ w2).numel()}")

# %% [markdown]
# *Position-wise* means: the same MLP, once for each token. And the activation function is not
# decoration. Without it, the widest MLP is a single small matrix, at eight times its cost.
#
# ## Which bend?
#
# Three activation functions are common: ReLU, GELU and SiLU. ReLU is the oldest. It has one flaw:
# where the sum is negative, its slope is 0. A unit whose sum is negative for *every* input gets no
# [gradient](glossary.ipynb#cell-id=gradient) from anywhere. It is **dead**.
#
# **GELU** is smooth. It multiplies x by $\Phi(x)$, the share of a standard normal distribution
# that lies below x: nearly 0 for x = −3, a half at 0, nearly 1 at 3. **SiLU** does the same with
# the **sigmoid**, $1/(1 + e^{-x})$, which also goes from 0 to 1. (SiLU is also called *swish*.)
#
# $$\operatorname{gelu}(x) = x\,\Phi(x) = x \cdot
#   \tfrac12\left(1 + \operatorname{erf}\frac{x}{\sqrt2}\right), \qquad
#   \operatorname{silu}(x) = x \cdot \frac{1}{1 + e^{-x}}$$
#
# Move x to the left of zero and watch the slopes. Which units still learn there? (*GELU (tanh)* is
# an approximation of GELU, explained below. The button *gated* belongs to "A gate", further down.)

# %%
Activations(x=-0.5)

# %% [markdown]
# GPT-2 was trained with an approximation of GELU:
#
# $$\operatorname{gelu}(x) \approx \tfrac12 x \left(1 + \tanh\!\left[\sqrt{2/\pi}\,
#   \left(x + 0.044715\,x^3\right)\right]\right)$$
#
# PyTorch has both in one function, with a name for each: `approximate="none"` is the exact one,
# `approximate="tanh"` this one.
#
# ### Find the bugs · GELU, exact and approximated
#
# Somebody wrote such a function. There are two bugs in it. One: both names give the same. Two: near
# zero "tanh" agrees with the formula, elsewhere it does not. `torch.erf` is the function erf of
# the formula. `x` may have any number of axes, also none: `torch.tensor(0.5)`. `approximate` is
# "none" or "tanh", or it is left out, which means "none". (torch's own `gelu` is not allowed.)


# %% exercise="gelu" difficulty=1 minutes=6
def gelu(x, approximate="none"):
    """GELU, number by number: x · Φ(x), or approximated by a tanh"""
    ### BEGIN SOLUTION
    if approximate == "tanh":
        inner = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + torch.tanh(inner))
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))
    ### END SOLUTION
    ### BEGIN GIVEN
    # if approximate:
    #     inner = (2 / torch.pi) ** 0.5 * x + 0.044715 * x**3
    #     return 0.5 * x * (1 + torch.tanh(inner))
    # return 0.5 * x * (1 + torch.erf(x / 2**0.5))
    ### END GIVEN


# %% check="gelu"
gelu = check(gelu)

# %% tags=["nbval-check-output"]
grid = torch.linspace(-6, 6, 1201)
apart = (gelu(grid) - gelu(grid, approximate="tanh")).abs()
print(f"the two differ by at most {apart.max():.4f}, at x = {abs(grid[apart.argmax()]):.1f}")

# %% [markdown]
# That is little. But a model that was trained with one of them should be run with the same one.
#
# Now the slope. The gradient that comes back to a unit is multiplied by the slope of its activation
# function, so the slope decides how much the unit can learn. GELU is a product, x times Φ(x), and
# for the product of two functions $f$ and $g$ there is a rule. The dash means *the slope of*:
#
# $$(f g)' = f'\, g + f\, g'$$
#
# It takes the slope of $\Phi$. $\Phi(x)$ is the *area* under the bell curve $\varphi$, from far
# left up to x:
#
# $$\varphi(x) = \frac{1}{\sqrt{2\pi}}\, e^{-x^2/2}$$
#
# Move x a tiny step h to the right. The area grows by a strip that is h wide and $\varphi(x)$
# high. So the slope of $\Phi$ is $\varphi$.
#
# ### Exercise · the slope of GELU
#
# Of the exact GELU. Take a pencil first, then write your formula: `torch.exp` is the exponential
# function, and $\Phi$ is the factor of x in the formula of GELU further up. `x` again has any
# number of axes. (No autograd here, no differences of nearby values, and not torch's own `gelu`:
# use the formula.)


# %% exercise="gelu_slope" difficulty=2 minutes=10
def gelu_slope(x):
    """The slope of x · Φ(x) at every number of x: the same shape as x"""
    ### BEGIN SOLUTION
    share = 0.5 * (1 + torch.erf(x / 2**0.5))  # Φ(x)
    bell = torch.exp(-(x**2) / 2) / (2 * torch.pi) ** 0.5  # φ(x)
    return share + x * bell
    ### END SOLUTION


# %% check="gelu_slope"
gelu_slope = check(gelu_slope)

# %% [markdown]
# A slope of Φ(x) alone would never be negative. **Predict**: does GELU fall anywhere? And how far
# to the left does a unit still learn?

# %% tags=["after-prediction", "nbval-check-output"]
left = torch.linspace(-6, 0, 6001)
slope = gelu_slope(left)
print(f"GELU falls left of x = {left[slope < 0].max():.2f}, where it is {gelu(left).min():.2f}")
print(f"it falls most steeply at x = {left[slope.argmin()]:.2f}: slope {slope.min():.2f}")
silent = left[(slope.abs() < 0.001) & (left < -2)]
print(f"left of x = {silent.max():.2f} the slope is closer to 0 than 0.001")

# %% [markdown]
# So GELU is lowest at −0.75. Left of that it falls: a smaller sum gives a larger output. But its
# slope is not 0, so the unit still learns, where a ReLU does not. And there is a limit: a unit
# whose sums are all below −3.81 gets less than a thousandth of the gradient that comes in.
#
# ## A network that knows twenty facts
#
# Now let us see an MLP at work. Twenty questions: a country and what is asked about it. The input
# is one token, the sum of the two words' vectors. There is no attention, because there is no other
# token. The MLP is the package's `FeedForward(32, 64)`, with 64 units: its `up` is the formula's
# $W_1$ and $b_1$, its `down` is $W_2$ and $b_2$. Its output is *added* to the input. The dot
# product of the sum with a word's vector is the score of that word, its
# [**logit**](glossary.ipynb#cell-id=logits). The word with the largest logit is the answer.

# %% tags=["nbval-check-output"]
for country, what, answer in facts.FACTS[::4]:
    print(f"{what} of {country}? {answer}")

model = facts.Facts("relu")
x = model.question(facts.ASKED)  # (questions, d_model): one token each
hidden = model.hidden(facts.ASKED)  # (questions, units): how strongly each unit fires
logits = model.read(x + model.mlp.down(hidden))  # (questions, words)
print(tuple(x.shape), tuple(hidden.shape), tuple(logits.shape))

# %% [markdown]
# The loss is the [**cross-entropy**](glossary.ipynb#cell-id=cross-entropy): −log of the probability
# that the softmax of the logits gives to the right answer, averaged over the questions.
#
# First the dead units. A unit is dead when its slope is below 0.001 for all twenty questions. For
# a ReLU that means: none of them makes it fire.

# %%
quiz("05-dead")

# %% tags=["after-prediction"]
short = facts.one("ReLU", rate=0.01, seed=0, steps=300)
print(f"of 64 units {64 * short['dead at the start']:.0f} are dead before the training,")
print(f"{short['dead at some time']} are dead at some time, {short['came back']} of them fire "
      f"again later; {64 * short['dead at the end']:.0f} are dead at the end")  # fmt: skip

# %% [markdown]
# That was one seed. Here are eight, at a good [learning rate](glossary.ipynb#cell-id=learning-rate)
# and at one thirty times as high. In "frozen words" the vectors of the words are not trained, only
# the MLP is.

# %% tags=["after-prediction"]
RETRAIN = False
record = recorded("facts")
found = facts.run(**record["settings"], say=print) if RETRAIN else record["results"]
for arm in facts.DYING:
    for rate in record["settings"]["rates"]:
        first, last, ever, back = (
            losses(found, arm, rate, key=key)
            for key in ("dead at the start", "dead at the end", "dead at some time", "came back")
        )
        (start, _), (end, spread) = mean_and_spread(first), mean_and_spread(last)
        print(f"{arm:>18}, rate {rate:4}: dead at the start {start:2.0%}, at the end {end:3.0%} "
              f"± {spread:2.0%}; fired again: {sum(back):3} of {sum(ever)}")  # fmt: skip

# %% [markdown]
# Three things to see:
#
# - Some ReLU units are dead *before* the training. Their first weights happen to be negative for
#   all twenty questions.
# - At a good rate, many dead units fire again while the words are learning. Such a unit's own
#   weights stand still, but what comes in moves. With frozen words hardly any comes back. (Hardly
#   any, not none: [AdamW](glossary.ipynb#cell-id=AdamW), which trains here, goes on moving a weight
#   for a while after its gradient has become zero, because each of its steps follows an average of
#   the last gradients.) In a deep network the inputs of an MLP are
#   always still learning.
# - GELU loses no unit at the good rate. At the bad one it loses nearly as many as ReLU. So GELU
#   protects against small accidents, not against large ones: far out its slope is not zero, but
#   next to nothing.
#
# ## Keys and values
#
# Look at the formula in another way. Unit j computes a dot product of x with column j of $W_1$.
# It asks: *how much do you look like my pattern?* Call that column the unit's **key**, $k_j$.
# Then it adds row j of $W_2$ to the output, as strongly as it fires. Call that row its
# **value**, $v_j$.
#
# $$\mathrm{FFN}(x) = \sum_{j=1}^{d_{ff}} \operatorname{relu}(x \cdot k_j + b_{1,j})\; v_j
#   \;+\; b_2$$
#
# where $b_{1,j}$ is the j-th number of $b_1$.
#
# That looks like a memory: patterns, and what to say when one of them is met. (`nn.Linear` stores
# its matrix the other way round. There key j is *row* j of `up.weight`, and value j is *column* j
# of `down.weight`.)
#
# Let us train once more, and put a small price on firing. Take the mean of `hidden`: of how
# strongly each of the 64 units fires, for each of the 20 questions. 0.03 times this mean is added
# to the loss. Then few units fire at once, and we can read them.

# %%
design = "learned words, firing is cheap"
watch = figures.LiveCurve("Does it learn the twenty facts?", 1000)
model, curve = facts.train(design, rate=0.01, seed=0, steps=1000, watch=watch)
lead = facts.margins(model(facts.ASKED).detach())  # of the right answer before the next best
print(f"{(lead > 0).sum()} of {len(lead)} answers are right; the last loss is {curve[-1]:.3f}")

# %% [markdown]
# Which question makes which unit fire? We look for units that fire for a single question, and
# whose *value* points to its answer: no other word's vector has a larger dot product with it. Such
# a unit **speaks** for one fact.

# %%
hidden = model.hidden(facts.ASKED).detach()  # (20, 64)
fires_for = (hidden > 0).sum(dim=0)  # for how many questions each unit fires
speaks = facts.speaking(model)  # pairs: a unit, and the question that it speaks for
for unit, question in speaks[:6]:
    country, what, answer = facts.FACTS[question]
    print(f"unit {unit:2} fires only for {what:>7} of {country:<6}: its value points to {answer}")
print(f"of 64 units {(fires_for == 0).sum()} never fire, {(fires_for == 1).sum()} fire for one "
      f"question alone; {len(speaks)} of these speak for its answer")  # fmt: skip

# %% [markdown]
# Nobody told them to. So is unit j the place where *its* fact is kept? Then two things should be
# possible: to change the fact there, and to delete it there. We try both.
#
# ### Exercise · edit one value
#
# The second matrix `w_down` is stored as `nn.Linear` does, (d_model, d_ff). `hidden` (d_ff,) is how
# strongly each unit fires for some input; it comes out of a ReLU, so no number is negative, and at
# least one is positive. Change the value of *one* unit: the one that fires most (if several fire
# equally, the first of them). Change it so that the MLP's output for this input moves by exactly
# `delta` (d_model,). Return the new matrix; leave the old one as it is. (`t.argmax()` gives the
# index of the largest number of t, of equal ones the first. `t.clone()` makes a copy.)


# %% exercise="edit_one_value" graded=true points=3 difficulty=2 minutes=15
def edit_one_value(w_down, hidden, delta):
    """w_down with one column changed: the output for `hidden` moves by `delta`"""
    ### BEGIN SOLUTION
    unit = hidden.argmax()
    edited = w_down.clone()
    edited[:, unit] += delta / hidden[unit]
    return edited
    ### END SOLUTION


# %% check="edit_one_value"
edit_one_value = check(edit_one_value)

# %% [markdown]
# Now the experiment. The network is to answer *Oslo* to a question that has nothing to do with it.
# `facts.edit` makes the edit of the exercise: it pushes one unit's value from the true answer's
# vector toward Oslo's, just far enough that Oslo leads by 1. Then it asks all twenty questions
# again. (It does not use your solution, so it works without it.)

# %%
others = [(u, q) for u, q in speaks if facts.FACTS[q][2] != "Oslo"]
unit, question = max(others, key=lambda pair: hidden[pair[1], pair[0]])  # it fires most
changes = facts.edit(model, unit, question, told="Oslo")
print(f"unit {unit}, which fires for {fires_for[unit]} of {len(facts.FACTS)} questions:")
for i, was, now in changes:
    print(f"    {facts.FACTS[i][1]} of {facts.FACTS[i][0]}: was {was}, is now {now}")

# %% [markdown]
# One answer has changed, and no other. It looks as if we had found the place. But look again at
# how the unit was chosen: *no other question makes it fire*. So no other answer could change,
# whatever we wrote there. The success of the edit was certain before we made it. It says nothing
# about where the fact was.
#
# The other test is harder to pass: take the unit away.

# %%
quiz("05-knock-out")

# %% [markdown]
# ### Exercise · remove one unit
#
# Researchers call it a **knock-out**. The network need not be run again, because a unit's share of
# the logits is a simple product. If unit j fires by $h_j$, it adds $h_j v_j$ to the vector that is
# read out. A word with the vector $e$ reads the dot product, so its logit has received $h_j \, (v_j
# \cdot e)$ from this unit.
#
# `logits` (questions, words) is what the whole network says. `hidden` (questions, d_ff) is how
# strongly the units fire; after a GELU it can be negative. `w_down` (d_model, d_ff) holds value j
# in column j. `table` (words, d_model) holds the words' vectors. Return the logits as they would
# be if unit number `unit` (from 0 to d_ff − 1) did not fire. (`torch.outer(a, b)` makes the matrix
# of all products: row i, column k holds $a_i b_k$.)


# %% exercise="without_unit" difficulty=2 minutes=12
def without_unit(logits, hidden, w_down, table, unit):
    """The logits without what one unit adds to them: (questions, words)"""
    ### BEGIN SOLUTION
    says = table @ w_down[:, unit]  # (words,): what its value adds to each word's logit
    return logits - torch.outer(hidden[:, unit], says)
    ### END SOLUTION


# %% check="without_unit"
without_unit = check(without_unit)

# %% tags=["after-prediction"]
with torch.no_grad():
    logits, table, w_down = model(facts.ASKED), model.words.weight, model.mlp.down.weight
    lost = 0
    for i, (u, q) in enumerate(speaks):
        left = facts.margins(without_unit(logits, hidden, w_down, table, u))[q]
        lost += int(left < 0)
        if i < 6:
            edited = "   (the unit that we edited)" if u == unit else ""
            print(f"without unit {u:2}: {facts.FACTS[q][2]:>8} leads by {left:4.1f} instead of "
                  f"{lead[q]:4.1f}{edited}")  # fmt: skip
print(f"answers lost: {lost} of {len(speaks)}, each without the unit that speaks for it")
held = torch.tensor([share for seed in losses(found, design, key="margin lost") for share in seed])
print(f"eight seeds: such a unit holds {held.mean():.0%} of its answer's lead on average; "
      f"{(held > 0.5).sum()} of {len(held)} hold more than half")  # fmt: skip

# %% [markdown]
# The unit does speak for the answer: without it the lead is smaller. But the answer hardly ever
# needs it. Look at the unit that we edited, the one that fires most: here nearly all of the lead
# was its work, which is rare. And even there the answer stayed right.
#
# What else holds the answer up? The other units that fire for the same question; and the words' own
# vectors, which learned too. So let us change the design. We freeze the words' vectors, so that
# only the MLP can learn the facts; and we make firing expensive, so that it cannot afford
# two units where one is enough. Four designs, eight seeds each (the units, answers and edits of all
# eight are added up; a dash stands where there are not as many others to remove):


# %% tags=["after-prediction"]
def total(arm, key):
    return sum(losses(found, arm, key=key))


def mean(arm, key):
    return f"{mean_and_spread(losses(found, arm, key=key))[0]:.0%}"


def others(arm):
    """Right answers without as many units that do not speak; a dash where there are too few"""
    as_many = total(arm, "others removed") == total(arm, "speaking units") >= 8  # one a seed
    return mean(arm, "right without the others") if as_many else "–"


rows = {
    "right with no MLP at all": lambda arm: mean(arm, "right without the MLP"),
    "units that speak": lambda arm: total(arm, "speaking units"),
    "answers lost, each without its unit": lambda arm: total(arm, "answers lost"),
    "right without all that speak": lambda arm: mean(arm, "right without the speaking"),
    "right without as many others": others,
    "edits of a unit that speaks": lambda arm: total(arm, "edits"),
    "that change one answer alone": lambda arm: total(arm, "edits that change one answer"),
}
for part, what in enumerate(("", "firing is")):
    heads = (arm.split(", firing is ")[part] for arm in facts.KEPT)
    print(f"{what:35}" + "".join(f"{head:>15}" for head in heads))
for what, found_for in rows.items():
    print(f"{what:35}" + "".join(f"{found_for(arm):>15}" for arm in facts.KEPT))

# %% [markdown]
# Take them one by one.
#
# 1. *Learned words, cheap*: many units speak, and no answer, or hardly one, needs its unit. To
#    remove all that speak costs no more than to remove as many others.
# 2. *Learned words, expensive*: now the MLP is silent, and all answers are right without it. The
#    words' own vectors have learned the facts.
# 3. *Frozen words, cheap*: with no MLP nothing is right, so all twenty facts are in it. But hardly
#    a unit speaks for one of them. The facts are spread over many units.
# 4. *Frozen words, expensive*: here a speaking unit is what it seems. Nearly every answer is lost
#    when its unit is removed.
#
# Compare designs 1 and 4. When we *look* at the units, they seem alike: each fires for one
# question and points to its answer. When we *edit* them, they seem alike too: every edit changes
# one answer and no other. Only the knock-out tells them apart.
#
# ### An edit where nothing was
#
# One more test of the edit. Take a unit that *never* fires. It keeps nothing: to remove it changes
# no answer at all. Give it a key that only one question matches: a vector whose dot product is 1
# with each of the question's two words and 0 with every other word. And a bias of −1.5. With both
# words the sum is 1 + 1 − 1.5 > 0, and the unit fires. With one of them it is 1 − 1.5 < 0, and it
# does not. Its value starts at 0. Now the same edit:

# %%
nobody = (fires_for == 0).nonzero()[0].item()
woken = facts.awakened(model, nobody, question)
for i, was, now in facts.edit(woken, nobody, question, told="Oslo"):
    print(f"{facts.FACTS[i][1]} of {facts.FACTS[i][0]}: was {was}, is now {now}")
tried = sum(total(arm, "edits of a silent unit") for arm in facts.KEPT)
done = sum(total(arm, "edits of a silent unit that change one answer") for arm in facts.KEPT)
print(f"eight seeds, four designs: {done} of {tried} such edits change that answer alone")

# %% [markdown]
# The edit works just as well in a unit that knew nothing. **Editing is not localizing**: that a
# fact can be changed at a place does not show that it was kept there. [Hase et al.](
# https://arxiv.org/abs/2301.04213) found the same in large language models: the layer in which an
# edit works best is not the layer in which
# [earlier work](https://arxiv.org/abs/2202.05262) had located the fact. When you read that a fact
# "is stored in" some neuron, ask: was it only read or changed there, or was it also *missed* when
# the neuron was gone?
#
# ## A gate
#
# Today's models have a third matrix. Beside `up` there is a `gate`, just as wide. The gate goes
# through the activation function and multiplies what `up` has found:
#
# $$\mathrm{FFN}_{\mathrm{gated}}(x) = \bigl(\operatorname{act}(x W_g) \odot (x W_u)\bigr)\, W_d$$
#
# $\odot$ is the product number by number; $W_g$ and $W_u$ are (d_model, d_ff), $W_d$ is (d_ff,
# d_model). There are no biases. With SiLU it is called **SwiGLU** (Llama, Mistral, Qwen), with
# GELU **GeGLU** (Gemma), with ReLU **ReGLU**. With no activation function at all it is called
# **bilinear**.
#
# ![](drawings/gate.svg)
#
# ### Exercise · the gated MLP
#
# Gate and up read the same x, so some checkpoints keep them in *one* matrix, and one product does
# the work of two. Phi-3's is called `gate_up_proj`. Here it is `w_gate_up`, (2 · d_ff, d_model),
# stored as `nn.Linear` does: one row for each unit, first all of the gate, then all of up.
# `w_down` is stored so as well, (d_model, d_ff). `F.linear(x, w)` multiplies with a matrix stored
# like this; it is the same as `x @ w.T`. (Do not put `w` into an `nn.Linear` of your own:
# `nn.Parameter(w)` begins anew, and no gradient goes back to `w`.) `t.chunk(2, dim=-1)` cuts a
# tensor in two equal halves along its last axis.
#
# `x` is (batch, tokens, d_model). `activation` is a name: "relu", "gelu", "gelu_tanh" or "silu".
# `feed_forward.ACTIVATIONS[activation]` is the function of that name.


# %% exercise="gated_feed_forward" difficulty=2 minutes=10
def gated_feed_forward(x, w_gate_up, w_down, activation):
    """SwiGLU and its relatives: (batch, tokens, d_model) -> the same shape"""
    ### BEGIN SOLUTION
    gate, up = F.linear(x, w_gate_up).chunk(2, dim=-1)  # (batch, tokens, d_ff) each
    activate = feed_forward.ACTIVATIONS[activation]
    return F.linear(activate(gate) * up, w_down)
    ### END SOLUTION


# %% check="gated_feed_forward"
gated_feed_forward = check(gated_feed_forward)

# %% [markdown]
# ## What does the third matrix cost?
#
# Three matrices instead of two: at the same d_ff, that is half as many again. For a fair comparison
# d_ff is cut to two thirds. Comparisons in print then look like this one, for d_model = 4096 and
# d_ff = 11008, in millions of parameters:
#
# | standard | SwiGLU | SwiGLU, d_ff adjusted |
# |---|---|---|
# | 90.2 | 135.3 | 134.2 |
#
# If the third had been cut until it is as large as the first, it would be 90.2 too. But it is
# 134.2, nearly as large as the second. **Predict**: which plain MLP has as many parameters as the
# third? How wide is it?

# %% tags=["after-prediction", "nbval-check-output"]
d, width = 4096, 11008
standard, swiglu = 2 * d * width, 3 * d * width
fair_width = 2 / 3 * 4 * d  # two thirds of 4 d
adjusted = 3 * d * fair_width
print(f"standard, d_ff {width}: {standard / 1e6:.1f}M")
print(f"SwiGLU,   d_ff {width}: {swiglu / 1e6:.1f}M")
print(f"SwiGLU,   d_ff {fair_width:.1f}: {adjusted / 1e6:.1f}M")
print(f"standard, d_ff {4 * d}: {2 * d * 4 * d / 1e6:.1f}M")
print(f"to match 90.2M a SwiGLU would have d_ff {2 / 3 * width:.1f}")
phi = feed_forward.FeedForward(3072, 8192, gated=True, bias=False)
print(f"Phi-3-mini, 3072 → 8192, gated: {sum(p.numel() for p in phi.parameters()) / 1e6:.1f}M")

# %% [markdown]
# So *adjusted* does not mean "to the first column". It means: to a plain MLP of the usual width
# 4d = 16384, which is not in the table at all. And 11008 is itself an adjusted width: two thirds
# of 16384 is 10922.7, rounded up to a multiple of 256, which suits the hardware. The first column
# is a plain MLP of that width, which is narrower than usual.
#
# ## Is it better?
#
# "SwiGLU beats GELU at equal parameters", you will often read. Then is it the gate, or the
# activation function? To tell, we need each activation function twice, plain and gated; and
# bilinear, the gate with none. All have the same number of parameters. The same small language
# model each time, character by character on Python's manual: two blocks, d_model = 48, d_ff = 192
# plain and 128 gated, 300 steps. Each kind has its own learning rate, chosen on another
# [seed](glossary.ipynb#cell-id=seed); then five seeds, the same for all kinds. The
# [loss](glossary.ipynb#cell-id=held-out-loss) is measured on pages that the model has never seen.
# First a short run, live, with its *training* loss as a curve:

# %%
record = recorded("feed_forwards")
watch = figures.LiveCurve("Does it learn with SwiGLU?", 60)
rate = record["results"]["chosen"]["SwiGLU"]
short = feed_forwards.one("SwiGLU", rate=rate, seed=0, steps=60, watch=watch)
print(f"held out, after 60 steps: {short['loss']:.2f} nats")

# %%
RETRAIN = False
results = feed_forwards.run(**record["settings"], say=print) if RETRAIN else record["results"]
quality = {arm: mean_and_spread(losses(results, arm)) for arm in feed_forwards.ARMS}
for arm, (held_out, spread) in quality.items():
    print(f"{arm:>8}: {held_out:.3f} ± {spread:.3f} nats (rate {results['chosen'][arm]:g})")
for plain, gated in feed_forwards.PAIRS.items():
    print(f"{gated:>8} − {plain}: {feed_forwards.difference(results, gated, plain)} nats")
print(f"gated − plain, mean of the three: {feed_forwards.gate_gain(results)} nats")

# %%
pairs = {"plain": feed_forwards.PAIRS.keys(), "gated": feed_forwards.PAIRS.values()}
figures.lines(
    list(feed_forwards.PAIRS),
    {form: [quality[arm][0] for arm in arms] for form, arms in pairs.items()},
    title="Is it the gate, or the activation function?",
    x_label="activation function (record in data/feed_forwards.json)",
    y_label="held-out loss in nats",
    from_zero=False,
    level=(quality["bilinear"][0], "bilinear: a gate, no activation function"),
    spread={form: [quality[arm][1] for arm in arms] for form, arms in pairs.items()},
    alt="Two lines over three activation functions, plain and gated, and a level for bilinear. "
    "Mean held-out loss in nats: "
    + ", ".join(f"{arm} {held_out:.3f}" for arm, (held_out, _) in quality.items())
    + ".",
)

# %% [markdown]
# The band is the standard deviation over the five seeds. The square brackets are 95%
# [intervals](glossary.ipynb#cell-id=confidence-interval) of the paired difference: gated minus
# plain, for the same seed. With every activation function the whole interval lies below 0, so the
# gate helped. Which activation function stands in the gate matters less than whether there is one.
# SiLU is the worst of the plain ones; as a gate it is as good as the best.
#
# Before you explain a gain, look for another cause: are two things
# [confounded](glossary.ipynb#cell-id=confounded)? A gated MLP also adds less to the [residual
# stream](glossary.ipynb#cell-id=residual-stream) at the start: it multiplies two small numbers.
# That might be a gain in itself. We have one gated MLP that starts as large as the plain GELU does:
# bilinear.

# %%
for arm in ("GELU", "bilinear", "GeGLU"):
    print(f"{arm:>8}: the output's size before training {results['size at the start'][arm]:.2f}")
others = record["again"]["results"]
for a, b in (("bilinear", "GELU"), ("GELU", "ReLU"), ("GeGLU", "SwiGLU")):
    first, second = (feed_forwards.difference(seeds, a, b) for seeds in (results, others))
    print(f"{a:>8} − {b}: {first} nats; five other seeds: {second}")

# %% [markdown]
# The record holds five other seeds that no rule had seen, and here it is good to look at both. By
# the first five, one cannot tell whether a gate helps when it starts as large: 0 lies inside the
# interval of the first difference. By the other five it does help. So the smaller start is probably
# not the whole cause. The second difference, GELU against ReLU, is not to be seen in the first five
# and is small in the other five: we cannot tell. Five seeds are few.
#
# Nobody knows for certain why a gate helps. The paper that measured it first ends so: ["We offer no
# explanation as to why these architectures seem to work; we attribute their success, as all else,
# to divine benevolence."](https://arxiv.org/abs/2002.05202) One may say this much: a plain unit
# can only add; a product lets one sum *scale* what another has found.
#
# ## Two thirds, or four fifths

# %%
quiz("05-share")


# %% tags=["after-prediction", "nbval-check-output"]
def shares(name, d_model, n_heads, n_kv_heads, d_ff, gated):
    """Parameters of a real block's two parts"""
    with torch.device("meta"):  # tensors made here have a shape but no numbers: no memory
        block = blocks.Block(
            d_model, n_heads, n_kv_heads, d_ff, gated=gated, activation="silu", norm="rms",
            bias=False,
        )  # fmt: skip
    parts = [sum(p.numel() for p in m.parameters()) for m in (block.feed_forward, block.attention)]
    mlp, attention = parts
    print(f"{name:>22}: MLP {mlp / 1e6:6.1f}M, attention {attention / 1e6:5.1f}M: "
          f"{mlp / sum(parts):.0%} and {attention / sum(parts):.0%}")  # fmt: skip
    return mlp, attention


plain = shares("d 4096, 4×, plain", 4096, 32, None, 4 * 4096, False)
phi3 = shares("Phi-3-mini", 3072, 32, None, 8192, True)
wide = shares("d 4096, d_ff 14336", 4096, 32, None, 14336, True)
llama3 = shares("Llama-3 8B", 4096, 32, 8, 14336, True)
print(f"32 plain layers: {32 * plain[0] / 1e9:.1f}B of {32 * sum(plain) / 1e9:.1f}B in the MLPs")

# %% [markdown]
# *Two thirds of a block are the MLP* is true when every head has its own keys and values and the
# MLP has its usual width. Llama-3 differs in both: a wider MLP (the row above it has only that),
# and shared keys and values ([lesson 02](02_multi_head_attention.ipynb)), which shrink attention.
# There the MLPs have four fifths.
#
# Does that tell where a large model keeps what it knows? No. Where the parameters are is where
# there is *room*. In our own small network the same twenty facts ended up in the words' vectors or
# in the MLP, in single units or spread over many. Which of these it was depended on the training.
# Only taking parts away could tell.
#
# ## What we measured
#
# First what you measured or computed here. *Computed* means arithmetic: there is nothing to
# measure. Below each verdict stands the rule by which it was reached.

# %%
claims = Claims("05_feed_forward")
claims.add("separately-and-identically", moved_rows, twins_gap)
claims.add("relu-trace", trace.tolist())
claims.add("two-matrices-are-one", linear_gap)
claims.add("swiglu-adjusted", standard, swiglu, adjusted, 2 * d * 4 * d)
claims.add("phi-3-block", *phi3)
claims.add("two-thirds-of-the-parameters", plain, llama3)
claims

# %% [markdown]
# The facts, over eight seeds:

# %%
claims = Claims("05_feed_forward, facts")
claims.add("one-value-one-answer", found)
claims.add("a-speaking-unit-keeps-its-fact", found)
claims.add("speaking-units-matter-more", found)
claims.add("editing-elsewhere", found)
claims.add("knowledge-neurons-express", found)
claims.add("dead-for-ever", found)
claims.add("forty-percent-dead", found)
claims.add("gelu-units-do-not-die", found)
claims

# %% [markdown]
# The language models, over five seeds:

# %%
claims = Claims("05_feed_forward, gates")
claims.add("some-glu-variants-better", results)
claims.add("swiglu-beats-gelu", results)
claims.add("the-gate-helps", results)
claims.add("geglu-and-swiglu-alike", results)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("05-quiz-linear")

# %%
quiz("05-quiz-gelu")

# %%
quiz("05-quiz-edit")

# %%
quiz("05-quiz-width")

# %% [markdown]
# ## Further reading
#
# - D. Hendrycks, K. Gimpel,
#   [*Gaussian Error Linear Units*](https://arxiv.org/abs/1606.08415), 2016.
# - N. Shazeer, [*GLU Variants Improve Transformer*](https://arxiv.org/abs/2002.05202), 2020: five
#   pages.
# - M. Geva et al.,
#   [*Transformer Feed-Forward Layers Are Key-Value Memories*](https://arxiv.org/abs/2012.14913),
#   2021.
# - D. Dai et al.,
#   [*Knowledge Neurons in Pretrained Transformers*](https://arxiv.org/abs/2104.08696), 2022:
#   single units, on a real model.
# - K. Meng et al.,
#   [*Locating and Editing Factual Associations in GPT*](https://arxiv.org/abs/2202.05262), 2022:
#   an edit of all values at once. And the doubt about it: P. Hase et al.,
#   [*Does Localization Inform Editing?*](https://arxiv.org/abs/2301.04213), 2023.
#
# **Next:** attention, norm, MLP. [Lesson 06](06_transformer_block.ipynb) puts them together, and
# [lesson 07](07_going_deep.ipynb) asks why a hundred of them can be stacked.
