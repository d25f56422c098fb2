# %% [markdown]
# # 05 · The feed-forward network
#
# **Where does a token think?** Attention moves things about: what a word receives is a mixture of
# what others had. Nothing new comes into being by mixing. Who concludes that *France*, *capital*
# and *of* together mean *Paris*?
#
# At the end of this lesson you will have built the part that does, plain and gated; you will have
# found a place in a trained network that speaks for one fact, and changed it, so that one answer
# changes and no other. And you will know where two thirds of a block's parameters are, and when
# that is no longer true.
#
# *About 100 minutes. You need: lessons 01 to 04.*

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, blocks, check, feed_forward, figures, hint, quiz
from tfcourse.experiments import feed_forwards, mean_and_spread, recorded
from tfcourse.training import fit
from tfcourse.widgets import Activations

# %% [markdown]
# ## One small network, for each token by itself
#
# Take one token's vector. Multiply it by a wide matrix: four times as many numbers come out, each
# the answer to a question like "does this look like a country whose capital is asked for?". Set
# the negative answers to zero. Multiply by a second matrix, back to the old width. That is all:
#
# $$\mathrm{FFN}(x) = \operatorname{relu}(x W_1 + b_1)\, W_2 + b_2$$
#
# $x$ is one token, (d_model,); $W_1$ is (d_model, d_ff) and $W_2$ (d_ff, d_model); $b_1$, $b_2$
# are biases; d_ff is usually 4 · d_model. The **ReLU** is max(x, 0), number by number. Each
# column of $W_1$, with its number in $b_1$, is a **unit** (or *neuron*); the function in the
# middle is the **activation function**; the number that comes out of it is how strongly the unit
# *fires*. One trace with a pencil, d_model = 3 and d_ff = 4:

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
# `x` is (batch, tokens, d_model), the matrices as in the formula: they are multiplied from the
# right.


# %% exercise="position_wise" difficulty=1 minutes=6
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

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
d_model, d_ff = 16, 64
x = torch.randn(1, 8, d_model)
w1, w2 = torch.randn(d_model, d_ff) / 4, torch.randn(d_ff, d_model) / 8
b1, b2 = torch.randn(d_ff), torch.randn(d_model)

changed = x.clone()
changed[0, 4] += 1
moved = (position_wise(changed, w1, b1, w2, b2) - position_wise(x, w1, b1, w2, b2)).abs()
print("rows that move:", (moved[0].amax(-1) > 0).nonzero().flatten().tolist())

linear = (x @ w1) @ w2
one_matrix = x @ (w1 @ w2)  # (d_model, d_model)
linear_gap = (linear - one_matrix).abs().max().item()
print(f"without the ReLU: {w1.numel() + w2.numel()} numbers do the work of {(w1 @ w2).numel()}")

# %% [markdown]
# *Position-wise* means: the same small network, once for each token. And the bend in the middle
# is not decoration. Without it, the widest network is a single small matrix, dearly written.
#
# ## Which bend?
#
# Three are in common use: ReLU, GELU and SiLU. ReLU is the oldest. It has one flaw: where the sum
# is negative its slope is 0. A unit that is negative for *every* input gets no gradient from
# anywhere and cannot come back by itself. It is **dead**.
#
# **GELU** is smooth. It multiplies x by $\Phi(x)$, the share of a standard normal distribution
# that lies below x: nearly 0 for x = −3, a half at 0, nearly 1 at 3. **SiLU** does the same with
# a sigmoid. (It is also called *swish*.)
#
# $$\operatorname{gelu}(x) = x\,\Phi(x) = x \cdot
#   \tfrac12\left(1 + \operatorname{erf}\frac{x}{\sqrt2}\right), \qquad
#   \operatorname{silu}(x) = x \cdot \frac{1}{1 + e^{-x}}$$
#
# Move x to the left of zero and watch the slopes. Who still learns there?

# %%
Activations(x=-0.5)

# %% [markdown]
# ### Exercise · GELU
#
# The exact one. `torch.erf` is the function erf of the formula.


# %% exercise="gelu" difficulty=1 minutes=5
def gelu(x):
    """x · Φ(x), number by number"""
    ### BEGIN SOLUTION
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))
    ### END SOLUTION


# %% check="gelu"
gelu = check(gelu)

# %% [markdown]
# erf used to be slow, so GPT-2 was trained with an approximation:
#
# $$\operatorname{gelu}(x) \approx \tfrac12 x \left(1 + \tanh\!\left[\sqrt{2/\pi}\,
#   \left(x + 0.044715\,x^3\right)\right]\right)$$
#
# The two differ by less than 0.0005. But a model that was trained with the one should be run with
# the one.
#
# ### Find the bug · a bracket
#
# Near zero this agrees with the formula above.


# %% exercise="gelu_tanh" difficulty=1 minutes=5
def gelu_tanh(x):
    """GELU, approximated by a tanh"""
    ### BEGIN SOLUTION
    inner = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + torch.tanh(inner))
    ### END SOLUTION
    ### BEGIN GIVEN
    # inner = (2 / torch.pi) ** 0.5 * x + 0.044715 * x**3
    # return 0.5 * x * (1 + torch.tanh(inner))
    ### END GIVEN


# %% check="gelu_tanh"
gelu_tanh = check(gelu_tanh)

# %% [markdown]
# ## A network that knows twenty facts
#
# Now let us see one at work. Twenty questions: a country and what is asked of it; one token of
# input, the sum of their two vectors. No attention: there is nobody to attend to. The network is
# the package's `FeedForward(32, 64)`: its `up` is the formula's $W_1$ and $b_1$, its `down` $W_2$
# and $b_2$. It has 64 units, and what it gives is *added* to the input; the word whose vector has
# the largest dot product with the sum is the answer.

# %%
countries = "France Italy Spain Japan Egypt Peru Kenya Norway Greece Cuba".split()
capitals = "Paris Rome Madrid Tokyo Cairo Lima Nairobi Oslo Athens Havana".split()
coins = "euro euro euro yen pound sol shilling krone euro peso".split()
facts = [(c, "capital", a) for c, a in zip(countries, capitals, strict=True)]
facts += [(c, "money", a) for c, a in zip(countries, coins, strict=True)]
words = sorted({word for fact in facts for word in fact})
asked = torch.tensor([[words.index(country), words.index(what)] for country, what, _ in facts])
answers = torch.tensor([words.index(answer) for *_, answer in facts])


class Facts(nn.Module):
    """A country and a question in, a score for every word out."""

    def __init__(self, activation="relu"):
        super().__init__()
        self.words = nn.Embedding(len(words), 32)
        nn.init.normal_(self.words.weight, std=32**-0.5)
        self.network = feed_forward.FeedForward(32, 64, activation=activation)

    def hidden(self, x):
        """What each of the 64 units says: (questions, 64)"""
        return feed_forward.ACTIVATIONS[self.network.activation](self.network.up(x))

    def forward(self, asked):
        x = self.words(asked).sum(dim=1)
        return (x + self.network(x)) @ self.words.weight.T


# %% [markdown]
# First the dead units. We train four networks, at a good learning rate and at one that is thirty
# times too high, and count the units through which *no* question sends back any gradient worth
# the name (a slope under 0.001 for all twenty).

# %%
quiz("05-dead")


# %%
def asleep(model):
    """The share of units whose slope is under 0.001 for every question."""
    before = model.network.up(model.words(asked).sum(1)).detach().requires_grad_()
    feed_forward.ACTIVATIONS[model.network.activation](before).sum().backward()
    return (before.grad.abs().amax(dim=0) < 1e-3).float().mean().item()


dead = {}
for rate in (0.01, 0.3):
    for name in ("relu", "gelu"):
        torch.manual_seed(0)
        model = Facts(name)
        loss = lambda: F.cross_entropy(model(asked), answers)
        fit(model, loss, steps=300, learning_rate=rate)
        right = (model(asked).argmax(-1) == answers).float().mean()
        dead[name, rate] = asleep(model)
        print(f"{name}, rate {rate}: {dead[name, rate]:4.0%} of the units dead, {right:.0%} right")

# %% [markdown]
# At the good rate GELU loses none, ReLU a few; at the bad rate both lose nearly all. So GELU
# protects against small accidents, not against large ones: far out its slope is not zero, but
# next to nothing. (One seed; the answers are right all the same, for with so few facts the words'
# own vectors can learn them alone.)
#
# ## Keys and values
#
# Look at the formula with other eyes. Unit j computes a dot product of x with column j of $W_1$.
# It asks: *how much do you look like my pattern?* Call that column the unit's **key**, $k_j$.
# Then it adds row j of $W_2$, as strongly as it fires, to the output. Call that row its
# **value**, $v_j$.
#
# $$\mathrm{FFN}(x) = \sum_{j=1}^{d_{ff}} \operatorname{relu}(x \cdot k_j + b_{1,j})\; v_j
#   \;+\; b_2$$
#
# where $b_{1,j}$ is the j-th number of $b_1$.
#
# That is a memory: patterns, and what to say when they are met. (`nn.Linear` stores its matrix
# the other way round. There key j is *row* j of `up.weight`, and value j is *column* j of
# `down.weight`.)
#
# Let us train once more, and make it a little dear to fire: the mean of all that fires is added
# to the loss. Then few units fire at once, and one can read them.

# %%
torch.manual_seed(0)
model = Facts()


def sparse_loss():
    """How wrong the answers are, and a price on every unit that fires."""
    hidden = model.hidden(model.words(asked).sum(1))
    return F.cross_entropy(model(asked), answers) + 0.1 * hidden.mean()


watch = figures.LiveCurve("Does it learn the twenty facts?", 500)
losses = fit(model, sparse_loss, steps=500, learning_rate=0.01, watch=watch)
right = (model(asked).argmax(-1) == answers).float().mean().item()
print(f"{right:.0%} of the answers are right")

# %% [markdown]
# Which question makes which unit fire? We list the units that fire for a single question only:
# the question, and the word to which the unit's *value* points, the one whose vector has the
# largest dot product with it.

# %%
with torch.no_grad():
    x = model.words(asked).sum(dim=1)  # (20, 32)
    hidden = model.hidden(x)  # (20, 64)
    points_to = (model.words.weight @ model.network.down.weight).argmax(dim=0)  # (64,)
fires_for = (hidden > 0).sum(dim=0)  # for how many questions each unit fires
alone = [unit for unit in range(64) if fires_for[unit] == 1]
speaks = []  # units that fire for one question and point to its answer
for unit in alone:
    question = hidden[:, unit].argmax().item()
    country, what, answer = facts[question]
    if words[points_to[unit]] == answer:
        speaks.append(unit)
    print(f"unit {unit:2} fires for {what:>7} of {country:<7} value points to "
          f"{words[points_to[unit]]}")  # fmt: skip
print(f"{len(alone)} of 64 units fire for one question alone; {len(speaks)} of them point to its "
      f"answer; {(fires_for == 0).sum()} never fire")  # fmt: skip

# %% [markdown]
# Nobody told it to. It is not quite clean: some questions have two units of their own, some have
# none, and to fire for a question does not prove that the answer lies there; only the units that
# also *point* to it speak for it. In a large model it is much less clean. But the picture holds
# well enough that people have found and edited single facts in such models. Let us do that.
#
# ### Exercise · edit one value
#
# The second matrix `w_down` is stored as `nn.Linear` does, (d_model, d_ff); `hidden` (d_ff,) is
# how strongly each unit fires for some input. Change the value of *one* unit, the one that fires
# most, so that the network's output for this input moves by exactly `delta` (d_model,). Give the
# new matrix; leave the old one as it is.


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
# Now the experiment. To one of the twenty questions the network shall answer *Oslo*. We take a
# question that has a unit speaking for it, and push that unit's value from the true answer's
# vector toward Oslo's, until Oslo leads by 1. That is the exercise's edit: in the code below
# `toward` is Oslo's vector minus the true answer's, `push` is how far, and delta = push · toward.
# (The cell works it out by itself, so that it runs without your solution.) Then we ask all twenty
# questions again; and once more with a unit that fires for many.


# %%
@torch.no_grad()
def edit(unit, question, told):
    """The answers that change when one unit's value is pushed until `told` answers `question`."""
    edited = copy.deepcopy(model)
    table = edited.words.weight
    scores = model(asked)
    old = scores.argmax(dim=-1)
    toward = table[words.index(told)] - table[old[question]]
    lacking = scores[question, old[question]] - scores[question, words.index(told)] + 1.0
    push = lacking / (toward @ toward)  # toward · toward: what a step of length 1 gains
    edited.network.down.weight[:, unit] += push * toward / hidden[question, unit]
    new = edited(asked).argmax(dim=-1)
    return [(i, words[old[i]], words[new[i]]) for i in range(len(facts)) if old[i] != new[i]]


unit = max((u for u in speaks if "Norway" not in facts[hidden[:, u].argmax()]),
           key=lambda u: hidden[:, u].max())  # fmt: skip
shared = max(range(64), key=lambda u: fires_for[u].item())
edits = {}
for u in (unit, shared):
    edits[u] = edit(u, hidden[:, u].argmax().item(), told="Oslo")
    print(f"unit {u}, which fires for {fires_for[u]} of {len(facts)} questions:")
    for i, before, after in edits[u]:
        print(f"    {facts[i][1]} of {facts[i][0]}: was {before}, is now {after}")
changed = edits[unit]
print(f"one value: {model.network.down.weight.shape[0]} of "
      f"{sum(p.numel() for p in model.parameters())} numbers")  # fmt: skip

# %% [markdown]
# The first edit changes one answer and no other: no other question makes this unit fire. The
# second unit is shared, and an edit of its value is heard wherever it fires. How many answers it
# turns depends on how strongly; in a large model, where nearly all units are shared, this is the
# difficulty of editing.
#
# ## A gate
#
# Today's models have a third matrix. Beside `up` there is a `gate`, just as wide. The gate goes
# through the activation and multiplies what `up` has found:
#
# $$\mathrm{FFN}_{\mathrm{gated}}(x) = \bigl(\operatorname{act}(x W_g) \odot (x W_u)\bigr)\, W_d$$
#
# $\odot$ is the product number by number; $W_g$ and $W_u$ are (d_model, d_ff), $W_d$ is (d_ff,
# d_model). With SiLU it is called **SwiGLU** (Llama, Mistral, Qwen), with GELU **GeGLU** (Gemma).
# There are no biases.
#
# ### Exercise · the gated network
#
# `activation` is a name, "silu" or "gelu"; `feed_forward.ACTIVATIONS[activation]` is the
# function.


# %% exercise="gated_feed_forward" difficulty=1 minutes=8
def gated_feed_forward(x, w_gate, w_up, w_down, activation):
    """SwiGLU or GeGLU: (batch, tokens, d_model) -> the same shape"""
    ### BEGIN SOLUTION
    activate = feed_forward.ACTIVATIONS[activation]
    gate = activate(x @ w_gate)
    return (gate * (x @ w_up)) @ w_down
    ### END SOLUTION


# %% check="gated_feed_forward"
gated_feed_forward = check(gated_feed_forward)

# %% [markdown]
# ## What does the third matrix cost?
#
# Three matrices instead of two, so at the same d_ff half as much again. To compare fairly, d_ff
# is cut to two thirds. Here is a table that is often printed, for d_model = 4096 and d_ff =
# 11008: *standard 90.2M, SwiGLU 135.3M, SwiGLU adjusted 134.2M*. Reproduce it. **Predict**:
# adjusted to what?

# %% tags=["nbval-check-output"]
d, width = 4096, 11008
standard, swiglu = 2 * d * width, 3 * d * width
fair_width = 2 / 3 * 4 * d  # two thirds of 4 d
print(f"standard, d_ff {width}: {standard / 1e6:.1f}M")
print(f"SwiGLU,   d_ff {width}: {swiglu / 1e6:.1f}M")
print(f"SwiGLU,   d_ff {fair_width:.1f}: {3 * d * fair_width / 1e6:.1f}M")
print(f"standard, d_ff {4 * d}: {2 * d * 4 * d / 1e6:.1f}M")
print(f"to match 90.2M a SwiGLU would have d_ff {2 / 3 * width:.1f}")
phi = sum(
    p.numel() for p in feed_forward.FeedForward(3072, 8192, gated=True, bias=False).parameters()
)
print(f"Phi-3-mini, 3072 → 8192, gated: {phi / 1e6:.1f}M")

# %% [markdown]
# So *adjusted* does not mean "to the first row". It means: to a plain network of the usual width
# 4d = 16384, which is not in the table at all. And 11008 is itself an adjusted width: two thirds
# of 16384 is 10922.7, rounded up to a multiple of 256, which suits the hardware. The first row of
# the table compares it with a plain network that is narrower than usual.
#
# ## Is it better?
#
# "SwiGLU beats GELU at equal parameters." Does it here? The same small language model each time,
# character by character on Python's manual: three blocks, d_model = 96, d_ff = 384 plain and 256
# gated, 500 steps, five seeds each. First a short run, live. (The curve is the loss on the text
# that it trains on, the printed number on pages that it has never seen.)

# %%
watch = figures.LiveCurve("Does it learn with SwiGLU?", 60)
short = feed_forwards.run(seeds=[0], steps=60, kinds=["SwiGLU"], watch=watch)["SwiGLU"]
print(f"held out, after 60 steps: {short['losses'][0]:.2f} nats")

# %%
RETRAIN = False
record = recorded("feed_forwards")
results = feed_forwards.run(**record["settings"], say=print) if RETRAIN else record["results"]
quality = {name: mean_and_spread(found["losses"]) for name, found in results.items()}
for name, (mean, spread) in quality.items():
    size = results[name]["parameters"]
    print(f"{name:>7}: {mean:.3f} ± {spread:.3f} nats, {size} parameters in the blocks")
gain = quality["GELU"][0] - quality["SwiGLU"][0]
wins = sum(
    a < b for a, b in zip(results["SwiGLU"]["losses"], results["GELU"]["losses"], strict=True)
)
print(f"SwiGLU is better than GELU by {gain:.3f} nats, for {wins} of 5 seeds")

# %%
figures.lines(
    [25 * (i + 1) for i in range(len(results["GELU"]["curves"][0]))][4:],
    {name: torch.tensor(r["curves"]).mean(0).tolist()[4:] for name, r in results.items()},
    title="Which feed-forward network learns best, at equal size?",
    x_label="step (record in data/feed_forwards.json)",
    y_label="training loss in nats, mean of the seeds",
    markers=False,
    from_zero=False,
    spread={name: torch.tensor(r["curves"]).std(0).tolist()[4:] for name, r in results.items()},
    alt="Four falling curves close together. Held out in the end: "
    + ", ".join(f"{name} {mean:.3f}" for name, (mean, _) in quality.items())
    + " nats.",
)

# %% [markdown]
# A small gain is still a gain, if it is larger than the spread of the seeds; the closing table
# says whether it is. And compare the first two rows: GELU is not better than ReLU here, it is a
# little *worse*, in every seed. At this size we would not build on that; but it is the gate that
# helps, not the smooth bend. Why? The author of the paper on it wrote that he had no explanation
# and put it down to divine benevolence. One may say this much: a plain unit can only add; a
# product lets one sum *scale* what another has found.
#
# ## Two thirds, or four fifths

# %%
quiz("05-share")


# %% tags=["nbval-check-output"]
def shares(name, d_model, n_heads, n_kv_heads, d_ff, gated):
    """Parameters of a real block's two parts, counted without making them (meta device)."""
    with torch.device("meta"):
        block = blocks.Block(
            d_model, n_heads, n_kv_heads, d_ff, gated=gated, activation="silu", norm="rms",
            bias=False,
        )  # fmt: skip
    parts = [sum(p.numel() for p in m.parameters()) for m in (block.feed_forward, block.attention)]
    ffn, attention = parts
    print(f"{name:>22}: network {ffn / 1e6:6.1f}M, attention {attention / 1e6:5.1f}M: "
          f"{ffn / sum(parts):.0%} and {attention / sum(parts):.0%}")  # fmt: skip
    return ffn, attention


plain = shares("d 4096, 4×, plain", 4096, 32, None, 4 * 4096, False)
phi3 = shares("Phi-3-mini", 3072, 32, None, 8192, True)
wide = shares("d 4096, d_ff 14336", 4096, 32, None, 14336, True)
llama3 = shares("Llama-3 8B", 4096, 32, 8, 14336, True)
print(
    f"32 plain layers: {32 * plain[0] / 1e9:.1f}B of {32 * sum(plain) / 1e9:.1f}B in the networks"
)

# %% [markdown]
# *Two thirds of a block are the network* is true when every head has its own keys and values and
# the network has its usual width. Llama-3 does otherwise twice: a wider network (the row above it
# has that alone), and shared keys and values (lesson 02), which shrink attention. There the
# networks have four fifths. Whoever asks where a large model keeps what it knows should start
# here.
#
# ## What we measured

# %%
claims = Claims("05_feed_forward")
traced = [round(v, 2) for v in trace.tolist()]
claims.add("the trace", "[0.9, 0, 0.3, 1.25]", str(traced), traced == [0.9, 0.0, 0.3, 1.25])
claims.add(
    "without an activation two matrices are one",
    "equal",
    f"{linear_gap:.0e}",
    linear_gap < 1e-4,
)
lost = {
    rate: f"ReLU {dead['relu', rate]:.0%}, GELU {dead['gelu', rate]:.0%}" for rate in (0.01, 0.3)
}
claims.add(
    "GELU units do not die, ReLU units do",
    "ReLU only",
    f"rate 0.01: {lost[0.01]}; rate 0.3: {lost[0.3]}",
    dead["gelu", 0.01] < dead["relu", 0.01],
    only_if="the learning rate is a sane one",
)
claims.add(
    "one value edited changes one answer",
    "1",
    f"{len(changed)} of {len(facts)}",
    len(changed) == 1,
    only_if="no other question makes the unit fire",
)
claims

# %%
claims = Claims("05_feed_forward, sizes")
table = [f"{n / 1e6:.1f}M" for n in (standard, swiglu, 3 * d * fair_width)]
claims.add(
    "d 4096, d_ff 11008: standard, SwiGLU, adjusted",
    "90.2M, 135.3M, 134.2M",
    ", ".join(table),
    table == ["90.2M", "135.3M", "134.2M"],
    only_if="adjusted is to a plain network of 4d",
)
claims.add(
    "Phi-3: network 75.5M, attention 37.7M",
    "2/3 and 1/3",
    f"{phi3[0] / 1e6:.1f}M, {phi3[1] / 1e6:.1f}M",
    [round(n / 1e6, 1) for n in phi3] == [75.5, 37.7],
)
llama_share = llama3[0] / sum(llama3)
claims.add(
    "the network has 2/3 of a block",
    "2/3",
    f"{plain[0] / sum(plain):.0%}; Llama-3 8B {llama_share:.0%}",
    round(plain[0] / sum(plain), 2) == 0.67,
    only_if="keys and values are not shared and d_ff is the usual one",
)
claims

# %%
claims = Claims("05_feed_forward, the experiment (five seeds)")
spread = max(quality["GELU"][1], quality["SwiGLU"][1])
claims.add(
    "SwiGLU beats GELU at equal parameters",
    "better",
    f"by {gain:+.3f} nats, seeds ± {spread:.3f}, {wins} of 5 seeds",
    gain > 2 * spread / 5**0.5 and wins >= 4,
)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("05-quiz-linear")

# %%
quiz("05-quiz-gelu")

# %%
quiz("05-quiz-width")

# %% [markdown]
# ## Further reading
#
# - D. Hendrycks, K. Gimpel, *Gaussian Error Linear Units*, 2016.
# - N. Shazeer, *GLU Variants Improve Transformer*, 2020: short, with a famous last
#   sentence.
# - M. Geva et al., *Transformer Feed-Forward Layers Are Key-Value Memories*, 2021.
# - D. Dai et al., *Knowledge Neurons in Pretrained Transformers*, 2022: single units, on a real
#   model.
# - K. Meng et al., *Locating and Editing Factual Associations in GPT*, 2022: an edit of all values
#   at once; and P. Hase et al., *Does Localization Inform Editing?*, 2023: a doubt about it.
#
# **Next:** attention, norm, network. Lesson 06 puts them together, and asks why one may stack a
# hundred of them.
