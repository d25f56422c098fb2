# %% [markdown]
# # 01 · Attention
#
# ![](drawings/map.svg)
#
# **How does a word find the words it needs?** In *the cat sat on the mat*, the word *sat* means
# little until it knows who sat. Nobody tells it where to look. It has to find out by itself, in
# every sentence again, with nothing but sums, products and one softmax. In GPT-2 and in Llama this
# is a single line in each layer: `F.scaled_dot_product_attention(q, k, v, is_causal=True)`.
#
# At the end of this lesson you will have written what stands behind that line,
# softmax(QKᵀ/√d_k)V, with its masks, and your code will agree with PyTorch's to six digits. You
# will have taken √d_k away, and measured what that does and what it does not do.
#
# *About 180 minutes. You need: matrix products, the softmax, [lesson 00](00_start_here.ipynb); for
# one section, what a variance and a partial derivative are. It helps to have seen a network trained
# in PyTorch. Take two sittings: the masks are a good place to begin the second.*

# %%
import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, check, device, figures, hint, quiz, reveal
from tfcourse.experiments import recorded, scaling
from tfcourse.widgets import AttentionMap, AttentionSteps, SoftmaxScale

# %% [markdown]
# ## Watch one learn where to look
#
# Six cards lie on a table. Each shows a letter and a digit. Then six questions come, each a letter:
# which digit stands next to it? In every game the letters and the digits are dealt again. So there
# is nothing to learn by heart.
#
# You may read the code of this section lightly. It deals the cards, builds a small network and
# trains it. No exercise needs it.

# %% tags=["picture"]
n_letters, n_digits = 12, 10


def deal(games):
    """Six cards a game, and the same letters, shuffled, as questions: (games, 6) each."""
    letters = torch.rand(games, n_letters).argsort(1)[:, :6]  # six different ones
    digits = torch.randint(n_digits, (games, 6))
    order = torch.rand(games, 6).argsort(1)  # gather takes letters and digits in this new order
    return letters, digits, letters.gather(1, order), digits.gather(1, order)


# %% [markdown]
# The model below turns each letter and each digit into 32 numbers, its **embedding**: a row of a
# table that is learned too. Then comes one attention. For now it is PyTorch's, and a black box: it
# takes what is *asked*, what can be *found*, and what is *handed over*. For each question it gives
# a mixture of what is handed over, and the **weights** of that mixture: six shares, one for each
# card, which sum to one. A last [linear layer](glossary.ipynb#cell-id=linear-layer) reads a digit
# out of the mixture.


# %% tags=["picture"]
class Lookup(nn.Module):  # PyTorch's class for networks: `forward` says what it computes
    def __init__(self, d=32):
        super().__init__()
        self.letter, self.digit = nn.Embedding(n_letters, d), nn.Embedding(n_digits, d)
        self.attention = nn.MultiheadAttention(d, num_heads=1, batch_first=True)  # one attention
        self.read = nn.Linear(d, n_digits)

    def forward(self, letters, digits, asked):
        asked, found, handed_over = self.letter(asked), self.letter(letters), self.digit(digits)
        mixture, weights = self.attention(asked, found, handed_over)
        return self.read(mixture), weights  # (games, 6, 10) and (games, 6, 6)


# %% [markdown]
# It is trained on the right digits and on nothing else. No line below says that a question should
# look at the card with its letter. **Predict:** after training, where will the question F look?

# %%
quiz("01-learned")


# %% tags=["picture"]
def train(seed, steps=100):
    """A model trained on new games at every step, and the losses."""
    torch.manual_seed(seed)
    model, losses = Lookup(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)  # changes the model's numbers
    for _ in range(steps):
        letters, digits, asked, right = deal(64)
        guesses, _ = model(letters, digits, asked)
        loss = F.cross_entropy(guesses.flatten(0, 1), right.flatten())  # how wrong it is
        optimizer.zero_grad()  # forgets the slopes of the step before
        loss.backward()  # the slope of the loss for every number of the model
        optimizer.step()  # moves each number a little, so that the loss falls
        losses.append(loss.item())
    return model, losses


model, losses = train(seed=0)
print("loss after 0, 5, 10, 15 steps:", "  ".join(f"{losses[i]:.2f}" for i in (0, 5, 10, 15)))

# %% [markdown]
# (The loss is the **cross-entropy**, −log of the probability that the model gave to the right
# digit. Guessing among ten digits costs log 10 = 2.30. The exponential of the loss is called
# [perplexity](glossary.ipynb#cell-id=perplexity).) Now a game that it has never seen, and where
# each question looks, before and after training. Switch between the two maps. (The view calls a map
# a *head*, and it can sort them by *entropy*. Both words are explained further down.)

# %% tags=["picture"]
torch.manual_seed(314)
letters, digits, asked, right = deal(1)
cards = [f"{'ABCDEFGHIJKL'[a]} {b}" for a, b in zip(letters[0], digits[0], strict=True)]
questions = [f"{'ABCDEFGHIJKL'[a]} ?" for a in asked[0]]
with torch.no_grad():
    maps = [m(letters, digits, asked)[1][0] for m in (train(seed=0, steps=0)[0], model)]

# %% tags=["after-prediction"]
AttentionMap(
    torch.stack(maps[::-1]),
    questions,
    cards,
    names=["after training", "before training"],
    title="Where does each question look?",
)

# %% [markdown]
# Each question looks at one card, and it is the card with its letter. It does so wherever that card
# lies: in another game the pattern is another one. So the model has learned to look by *content*.
# That is what attention is for, and nobody programmed it.
#
# One run may be luck. Five runs, and a thousand new games for each:

# %%
shares, hits = [], []
for seed in range(5):
    trained, _ = train(seed)
    letters, digits, asked, right = deal(1000)
    with torch.no_grad():
        guesses, weights = trained(letters, digits, asked)
    same_letter = asked[:, :, None] == letters[:, None, :]  # (games, questions, cards)
    shares.append(weights[same_letter].mean().item())
    hits.append((guesses.argmax(-1) == right).float().mean().item())
print("right answers:          ", "  ".join(f"{hit:.1%}" for hit in hits))
print("share of the right card:", "  ".join(f"{share:.1%}" for share in shares))

# %% [markdown]
# This map is so clean because one look at one card answers the question. In a language model many
# attentions work side by side, called [heads](glossary.ipynb#cell-id=attention-head), and few of
# them have a map as clean as this one (lesson 10). Now let us open the box.
#
# ## Queries, keys, values: looking for, containing, giving
#
# Think of six people in a room. Each holds three notes. On the first stands *what I am looking
# for*, on the second *what I contain*, on the third *what I give to whoever finds me*. They are
# called **query**, **key** and **value**.
#
# In the game above, the letter that is asked for makes the query, the letter on a card makes its
# key, and the digit makes its value. How does a letter make a query? Its embedding is multiplied by
# a matrix. A second matrix makes the keys, a third the values. Training changes these three
# matrices. ([Lesson 02](02_multi_head_attention.ipynb) builds them. Multiplying by one of them is
# called a *projection*.)
#
# Now the six people are words (a model calls them **tokens**). There are no matrices yet: we write
# all queries, keys and values by hand, with eight numbers each, so that we can see everything.
#
# The numbers of queries and keys have names. If *sat* looks for an animal, its query has a 6 under
# `animal`; if *cat* is one, its key has a 1 there. (Why 6? Any large number will do. The larger it
# is, the clearer the choice.)

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
# *sat* looks for an animal. How well does each word fit? [Lesson 00](00_start_here.ipynb) has the
# answer: a dot product of its query with each key. **Before you run the next cell**, say for
# yourself what the six numbers will be.

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

# %% tags=["after-prediction", "nbval-check-output"]
d_k = Q.shape[-1]  # how many numbers a query has, and so has a key
scores = Q @ K.T  # (6, 8) @ (8, 6) -> (6, 6): every query with every key
scores = scores / d_k**0.5  # why? that comes below
weights = torch.softmax(scores, dim=-1)  # each row sums to one
output = weights @ V  # (6, 6) @ (6, 8) -> (6, 8): a mixture of values for each query
print(f"sat attends {weights[sat, 1]:.0%} to cat. What it gets:")
print(output[sat].round(decimals=2))

# %% [markdown]
# *sat* now knows that it was done by something furry, alive and small. Nobody compared words;
# there were only dot products.
#
# Look at the whole map. Move over a row to read it in words; click to hold it, or use the arrow
# keys.

# %% tags=["after-prediction"]
AttentionMap(weights, tokens, scores=scores, title="Who looks at whom, by hand?")

# %% [markdown]
# Look at the first row. *The* asks for a noun, and there are two of them. It cannot tell which noun
# is its own: *cat* and *mat* get the same share. Nothing in Q and K says where a word stands. Keep
# that in mind; it will come back at the end of this lesson, and it is all that [lesson
# 03](03_positions.ipynb) is about.
#
# ## The same, step by step
#
# All six matrices at once. Kᵀ stands above the scores and V above the output: a row and a column
# meet in the cell that they make. Point at a cell: they light up, and its arithmetic is written out
# below. Then drag a score, switch the mask, or turn the temperature down, and watch what follows.
# (The *temperature* divides the scores once more: the lower, the sharper the choice. Leave the
# mask, the −∞ and the entropy for later: each has its place below.)

# %%
meanings = ["definite", "furry", "alive", "past", "above", "flat", "woven", "small"]
AttentionSteps(
    Q, K, V, tokens, feature_names=features, value_names=meanings,
    title="What does each step of attention do?",
)  # fmt: skip

# %% [markdown]
# Now the letters. **Q** holds the queries, one a row: (queries, d_k). **K** holds the keys (keys,
# d_k), **V** the values (keys, d_v). The number of queries and the number of keys may differ, and
# d_v may differ from d_k. Then
#
# $$\operatorname{attention}(Q, K, V) =
#   \operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right)V$$
#
# In code there are two more axes in front, `(batch, heads, tokens, d_head)`: several sentences at
# once (a [batch](glossary.ipynb#cell-id=batch)), several attentions at once ([lesson
# 02](02_multi_head_attention.ipynb)). `@` works on the last two axes and leaves those in front
# alone. The functions that you write call d_k `d_head`, as most programs do, and d_v `d_value`.
#
# ### Exercise · scores
#
# Write QKᵀ/√d_k for four axes: `q` (batch, heads, queries, d_head) and `k` (batch, heads, keys,
# d_head) give (batch, heads, queries, keys). `k.mT` swaps the last two axes of k. Any axis may
# have length 1, and it must stay.


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
# Every implementation divides by √d_k. What happens if we leave it out?
#
# Let the numbers in q and k be random and independent, with mean 0 and variance 1. (The 2017 paper
# assumes this in a footnote. In a fresh model they are often somewhat smaller.) A score is the sum
# of d_k products. **Predict:** with d_k = 64, how far from zero is a typical score?

# %%
quiz("01-spread")

# %% tags=["after-prediction"]
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
# Is that bad? Ask the softmax. Take sixteen keys and scores with that spread. How many keys still
# get more than a tiny share? The **entropy** of a row of weights p, −Σ pⱼ log pⱼ, tells: 0 if one
# key gets all, log 16 = 2.77 if all get the same. And how much do the weights still move when a
# score moves? That is the softmax's **Jacobian**, the table of all ∂pᵢ/∂sⱼ, where s are the scores.
# To find it, take the logarithm: log pᵢ = sᵢ − log Σₖ exp(sₖ). When sⱼ moves, the first part moves
# by δᵢⱼ (1 for i = j, else 0) and the second by pⱼ. Since ∂pᵢ = pᵢ ∂log pᵢ, this gives ∂pᵢ/∂sⱼ =
# pᵢ(δᵢⱼ − pⱼ). The table's **norm** is the root of the sum of all its squares: 0 means that nothing
# moves.


# %%
def look_at(d_k, scale, rows=1000):
    """Entropy, and the norms of ∂p/∂s and ∂p/∂q, of random queries with 16 keys each."""
    q, k = torch.randn(rows, 1, d_k), torch.randn(rows, 16, d_k)
    p = torch.softmax((q @ k.mT).squeeze(1) * scale, dim=-1)  # (rows, 16)
    by_score = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]  # (rows, 16, 16)
    by_query = by_score @ (k * scale)  # chain rule: s = scale · q·k, so ∂s/∂q = scale · k
    entropy = torch.special.entr(p).sum(-1).mean().item()
    return entropy, by_score.norm(dim=(1, 2)).mean().item(), by_query.norm(dim=(1, 2))


measured = {
    "undivided": [look_at(d_k, 1.0) for d_k in widths],
    "divided by √d_k": [look_at(d_k, d_k**-0.5) for d_k in widths],
}
for name, rows in measured.items():
    print(f"{name:>15}: entropy   ", "  ".join(f"{row[0]:.2f}" for row in rows))
    print(f"{'':>15}  ‖∂p/∂s‖   ", "  ".join(f"{row[1]:.2f}" for row in rows))

# %% [markdown]
# Undivided, the softmax **saturates**: nearly all goes to the one largest score, whichever it
# happens to be, and ∂p/∂s falls.
#
# Many texts stop here and say: no slope, so nothing can be learned. But training does not move the
# scores. It moves the matrices that make the queries and keys. So ask how much the weights move
# when a *query* moves: ∂p/∂q. All that the query's matrix learns from the weights comes through
# this slope, so we say that the query *receives* it. A score is q·k, so ∂p/∂q is the Jacobian times
# the keys, and keys of 1024 numbers are long. **Predict** once more.

# %%
quiz("01-received")

# %% tags=["after-prediction"]
received = {}
for name, rows in measured.items():
    received[f"{name}, mean"] = [row[2].mean().item() for row in rows]
    received[f"{name}, median"] = [row[2].median().item() for row in rows]
figures.lines(
    widths,
    received,
    title="How much does a query receive?",
    x_label="d_k",
    y_label="norm of ∂p/∂q",
    log_x=True,
    log_y=True,
    alt="Norm of ∂p/∂q over d_k from 1 to 1024. Divided by √d_k, mean and median stay level at "
    f"{received['divided by √d_k, median'][-1]:.2f}. Undivided, the mean rises to "
    f"{received['undivided, mean'][-1]:.2f}, while the median falls to "
    f"{received['undivided, median'][-1]:.4f}.",
)

# %% [markdown]
# On average, a query receives *more* without the division, not less. But the average hides what
# happens. At d_k = 1024 more than half of the queries receive next to nothing. A few receive a
# great deal: their two largest scores happen to be nearly equal, so a small change decides between
# them. At d_k = 64 it is not yet so. Divided by √d_k, the mean and the median are nearly the same,
# at every width: it is not a few queries that receive it all.
#
# Now try it by hand. Move d_k up and compare the two; each can be switched off.

# %%
SoftmaxScale()

# %%
quiz("01-other-scale")

# %% [markdown]
# ### And when it is trained?
#
# Random numbers are one thing, a trained model another. So we took the card game again, with one
# [head](glossary.ipynb#cell-id=attention-head) of our own. We trained it with the division and
# without it, at three widths d_k and at five [learning
# rates](glossary.ipynb#cell-id=learning-rate). Its queries and keys begin with variance 1. A third
# kind is not divided either, but the matrices that make q and k begin with smaller numbers, so that
# its first scores are as small as the divided ones. If the division only helped at the *start*,
# this third kind would do as well.
#
# First one run without the division, at d_k = 256. At the end it prints, for each letter, which
# share of the attention goes to the card that shows it.

# %%
watch = figures.LiveCurve("Does it learn undivided, with d_k = 256?", 100)
live = scaling.one(scaling.arm_of(scaling.UNDIVIDED), rate=3e-3, seed=0, steps=100, watch=watch)
print(f"at the start, the largest of the six weights is on average {live['largest']:.2f}")
print("share of the right card, letter by letter, after 100 steps:")
pairs = zip("ABCDEFGHIJKL", live["found"], strict=True)
found = [f"{letter} {share:.2f}" for letter, share in pairs]
print("  ".join(found[:6]), "  ".join(found[6:]), sep="\n")

# %% [markdown]
# Most letters are found with certainty, and some are not. When the training began, nearly every
# letter looked at a wrong card with a weight near 1: those that were learned just as much as those
# that were not. Such weights move little when the query moves a little, so this start makes
# learning slow and uncertain. It does not make it impossible, and it does not tell which letters
# will be lost. "No slope, so nothing can be learned" is not true.
#
# All runs together take minutes, so they are recorded. `RETRAIN = True` makes them again.

# %%
RETRAIN = False
record = recorded("scaling")
results = scaling.run(**record["settings"], say=print) if RETRAIN else record["results"]
for arm, rate in results["chosen"].items():
    steps, works = scaling.losses(results, arm, key="steps"), scaling.rates_that_work(results, arm)
    print(f"{arm}\n    at its best rate, {rate:.4f}, learned after {steps} steps")
    rates = len(record["settings"]["rates"])
    print(f"    on average, {sum(works) / len(works):.1f} of {rates} rates work")

# %% [markdown]
# One number for each [seed](glossary.ipynb#cell-id=seed), the number from which a run's random
# numbers start; 200 means that 200 steps were not enough. "Learned" is a loss below 0.1
# [nats](glossary.ipynb#cell-id=nat) on games that were [held
# out](glossary.ipynb#cell-id=held-out-loss): never used for training. And at the other rates, for
# d_k = 256?

# %%
kinds = (scaling.DIVIDED, scaling.UNDIVIDED, scaling.SMALL)
nats = {kind: scaling.ends(results, scaling.arm_of(kind)) for kind in kinds}
figures.lines(
    list(nats[scaling.DIVIDED]),
    {kind: list(of_rate.values()) for kind, of_rate in nats.items()},
    title="Which learning rates work, with d_k = 256?",
    x_label="learning rate",
    y_label="held-out loss at the end, nats",
    log_x=True,
    level=(scaling.GUESSING, "guessing"),
    alt="Held-out loss after training, over the learning rates. "
    + " ".join(
        f"{kind}: " + ", ".join(f"{loss:.2f} at {rate:g}" for rate, loss in of_rate.items()) + "."
        for kind, of_rate in nats.items()
    ),
)

# %% [markdown]
# Undivided, d_k = 256 costs many times the steps, and hardly any rate is safe. So what does the
# division do? Compare the three kinds.
#
# - **It keeps the start under control.** Undivided, the first scores are so far apart that the
#   softmax has chosen before anything is learned. With smaller first weights, and still no
#   division, the two lowest rates work as well as they do with it.
# - **It lets the rate be larger.** When a step of the [optimizer](glossary.ipynb#cell-id=optimizer)
#   moves q by some amount, the score moves by that amount times k, and the division makes it √d_k =
#   16 times less. The smaller first weights share these 16 between q and k: each begins 4 times
#   smaller. So the same step of q moves the scores 4 times as far. At higher rates they fail more
#   often. (How much slower that is at its best rate, six seeds cannot tell: see the table at the
#   end.)
#
# The division does both at once, at every width, for one multiplication. It does not keep the
# scores small for ever: a trained head can always ask for a sharper choice, and the first map of
# this lesson did.
#
# ## Masks: who may look at whom
#
# A language model predicts the next token: after *the* comes *cat*, after *the cat* comes *sat*. In
# training, the whole text is known. So one pass predicts at every place at once, and a text of 1000
# tokens gives nearly 1000 examples for the price of one pass. But then all the answers lie in the
# input too: the answer at one place is the token at the next. A model that could look ahead would
# only learn to copy it. So each token may see itself and what came before: a **causal mask**.
#
# And sentences in a batch have different lengths, so the short ones are filled
# up with **padding**: a **padding mask** keeps everyone from looking at it.
#
# In this course a mask is boolean and **True = may attend**, always. Rows are queries, columns
# are keys, as in the scores. Three tools of PyTorch that make masks:

# %% tags=["nbval-check-output"]
places = torch.arange(3)
print(places)  # whole numbers from 0
print(places[:, None])  # the same as a column: None puts in an axis of length 1
print(places[:, None] == places)  # a comparison gives booleans: a column against a row, a table
print(torch.ones(3, 3).triu())  # what lies below the diagonal becomes 0; tril keeps that instead

# %% [markdown]
# ### Exercise · causal mask
#
# `causal_mask(4)` is a boolean (4, 4). Its row 0 is True, False, False, False: the first token
# sees only itself. `tokens` is a whole number, 1 or more.


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
# `lengths` is a tensor of whole numbers: how many real tokens each sequence has, from 0 to
# `tokens`. `tokens` is the width of the batch; the padding stands at the end. The result is boolean
# and has the shape **(batch, 1, 1, tokens)**. Against scores of shape (batch, heads, queries,
# keys), the two axes of length 1 stretch by themselves to all heads and all queries. For a table x
# of shape (batch, tokens), `x[:, None, None, :]` has that shape. For lengths [2, 3] and 3 tokens
# the result is [[[[True, True, False]]], [[[True, True, True]]]].


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
# (In Python −∞ is `float("-inf")`.) One way to write that is a matrix M that is *added* to the
# scores, 0 where attending is allowed and −∞ where it is not:
#
# $$\operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)V$$
#
# Why not simply put the forbidden weights to 0 after the softmax?

# %%
quiz("01-zero-after")

# %% [markdown]
# One case is easy to forget: a query that may attend to *nothing*. It comes up when the padding
# stands in *front* and the mask is causal: the first token is padding, may see only itself, and
# is forbidden. All its scores are −∞, the softmax computes 0/0, and one NaN spreads through the
# whole model. **In this course such a row gives zeros**: who may look at nothing gets nothing.
#
# ### Exercise · weights, with a mask
#
# `q` is (batch, heads, queries, d_head), `k` (batch, heads, keys, d_head). `mask` is None, or
# boolean with True = may attend, in any shape, from one axis on, that
# [broadcasts](glossary.ipynb#cell-id=broadcasting) to the scores' (batch, heads, queries, keys).
# Rows with nothing to attend give zeros. Scores may be large, in the hundreds or more, and of
# either sign. The exp of 100 is already too large for float32, and that of −104 is 0. But
# `torch.softmax` can handle such scores. Use your `attention_scores`. `scores.masked_fill(where,
# number)` writes a number wherever `where` is True, and `~mask` turns every True into False and
# back.


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
# What is left is one line. `v` is (batch, heads, keys, d_value), and d_value may differ from
# d_head. Build it from your own pieces, not from PyTorch's `F.scaled_dot_product_attention`:
# further down we compare the two.


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

# %% tags=["after-prediction", "nbval-check-output"]
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
# training loss would look excellent: the answer only has to be copied. This experiment (change a
# future token, see whether the past moves) tells you more than any look at the shapes. Our checks
# use it too. So let us make a tool of it.
#
# ### Exercise · which token moves which output?
#
# `attend` is a function that takes `x` (tokens, d_model) and gives outputs (tokens, d_out). You do
# not need to know what it does inside. `leaks(attend, x)` is boolean, (tokens, tokens): True at
# [i, j] where **output i** changes when **token j** of x changes. For causal attention this is the
# causal mask. A True above the diagonal is a leak.
#
# Change one token at a time, and compare with the outputs for x as it was given. Change all numbers
# of the token, and clearly: `torch.randn(x.shape[1])` gives as many random ones. (Doubling the
# token would not do: a token of zeros stays as it is.) An output has changed if one of its numbers
# has, up or down. A leak may be weak: each difference above about 1e-6 counts, between large
# outputs too, and what is below is rounding. `x` itself must stay as it is; `x.clone()` is a copy.
# `t.any(dim=-1)` asks, row by row, whether any entry is True, and `torch.stack(columns, dim=1)`
# puts a list of columns side by side.


# %% exercise="leaks" difficulty=2 minutes=12
def leaks(attend, x):
    """Boolean (tokens, tokens): True at [i, j] where output i changes with token j."""
    ### BEGIN SOLUTION
    before, columns = attend(x), []
    for j in range(x.shape[0]):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])
        moved = (attend(changed) - before).abs() > 1e-6  # (tokens, d_out)
        columns.append(moved.any(dim=-1))
    return torch.stack(columns, dim=1)
    ### END SOLUTION


# %% check="leaks"
leaks = check(leaks)

# %% [markdown]
# Use it on three masks, with q = k = v = x. The third puts the forbidden weights to 0 after the
# softmax. Which outputs does a later token move?


# %% tags=["nbval-check-output"]
def attend(x, mask):
    one = x[None, None]  # one sequence, one head
    return scaled_dot_product_attention(one, one, one, mask)[0, 0]


ways = {
    "may_attend": lambda x: attend(x, causal),
    "may_not_attend": lambda x: attend(x, ~causal),
    "0 after the softmax": lambda x: (x @ x.T / 8**0.5).softmax(-1).tril() @ x,
}
for name, way in ways.items():
    ahead = leaks(way, torch.randn(5, 8)).triu(1)  # above the diagonal
    print(f"{name:>19}: a later token moves the outputs", ahead.any(1).nonzero().flatten().tolist())

# %% [markdown]
# The third hides the values of the future. But each weight has been divided by a sum over all keys,
# and those of the future stand in that sum. So they still move the past.
#
# ### Exercise · four conventions
#
# `convert_mask(mask, source, target)` translates from any of the four conventions to any other;
# `source` and `target` are the names in the table. The mask may have any shape, from one axis to
# four, and keeps it. The additive form is a float tensor with 0 and −∞ in it, and `zero_is_masked`
# holds the integers 1 and 0. `torch.where(condition, a, b)` takes a where the condition is True,
# else b.


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
# This function could come out of a working program. It was written for `nn.MultiheadAttention`,
# then somebody made it faster with the fused kernel. It runs, its shapes are right, and it has been
# wrong ever since. `is_padding` has shape (batch, keys) and is True at padding, which may stand
# anywhere. A sequence that is all padding gives zeros. Run the check, find out what the function
# does, and fix it.


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

# %% tags=["after-prediction", "nbval-check-output"]
q = k = v = torch.randn(1, 1, 6, 8)
order = torch.tensor([5, 3, 4, 0, 2, 1])
plain = scaled_dot_product_attention(q, k, v)
shuffled = scaled_dot_product_attention(q[:, :, order], k[:, :, order], v[:, :, order])
shuffle_gap = (shuffled - plain[:, :, order]).abs().max().item()
print("outputs are shuffled along, nothing else:", shuffle_gap < 1e-6)

# %% [markdown]
# This is called **permutation equivariance**: attention is an operation on a *set*. The row of
# *The*, which could not choose between *cat* and *mat*, has already shown it. A model that has to
# tell *dog bites man* from *man bites dog* must be told the positions: [lesson
# 03](03_positions.ipynb).
#
# There is a second limit. Hold the weights fixed, and attention is **linear** in V: twice the
# values, twice the output. Its weights are not negative and sum to one (so one more in each value
# is one more in the output). Each output is therefore a weighted average of the values, a **convex
# combination**, and it can never lie outside them.

# %% tags=["nbval-check-output"]
q, k, v = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 10, 8), torch.randn(1, 1, 10, 3)
out = scaled_dot_product_attention(q, k, v)
linear_gap = (scaled_dot_product_attention(q, k, 2 * v + 1) - (2 * out + 1)).abs().max().item()

directions = F.normalize(torch.randn(3, 10_000), dim=0)  # look at both along many directions
reach_of_values = (v @ directions).amax(-2, keepdim=True)
beyond = ((out @ directions) > reach_of_values + 1e-6).sum().item()
print(f"linear in V: {linear_gap < 1e-5}. Outputs beyond the values in 10,000 directions: {beyond}")

# %% [markdown]
# So, given its weights, attention moves and mixes what is there. To make something *new* of it
# takes another part: the feed-forward network (MLP) of [lesson 05](05_feed_forward.ipynb).
#
# ## What it costs
#
# Every query meets every key: T tokens make T² scores, each a sum of d_k products. The work grows
# as T²·d_k. And the explicit form *keeps* the T² weights. **Predict**: twice the tokens, how much
# more time, how much more memory?

# %%
quiz("01-cost")

# %%
lengths = [256, 512, 1024, 2048]
ways = {"explicit": scaled_dot_product_attention, "fused": F.scaled_dot_product_attention}
inputs = [torch.randn(3, 1, 4, t, 64) for t in lengths]
seconds = {name: [] for name in ways}
for _ in range(9):  # in turn, so that a busy moment of the machine does not hit one of them alone
    for name, way in ways.items():
        seconds[name].append([device.measure_seconds(lambda: way(*x), 1)[0] for x in inputs])
memory = {
    name: [device.measure_peak_memory(lambda: way(*x)) / 2**20 for x in inputs]
    for name, way in ways.items()
}

# %% tags=["after-prediction"]
figures.lines(
    lengths,
    memory,
    title="How much memory does attention need for T tokens?",
    x_label="tokens T",
    y_label="MiB, beyond the inputs",
    log_x=True,
    log_y=True,
    alt=f"From {lengths[0]} to {lengths[-1]} tokens the memory grows "
    + " and ".join(f"{m[-1] / m[0]:.0f} times ({name})" for name, m in memory.items())
    + ".",
)

# %% tags=["after-prediction"]
doublings = len(lengths) - 1
time_growth = {w: [(row[-1] / row[0]) ** (1 / doublings) for row in seconds[w]] for w in ways}
memory_growth = {w: (m[-1] / m[0]) ** (1 / doublings) for w, m in memory.items()}
for name in ways:
    low, middle, high = torch.tensor(time_growth[name]).quantile(torch.tensor([0.25, 0.5, 0.75]))
    print(
        f"{name:>8}, T doubled: time × {middle:.1f} (middle half of 9 rounds {low:.1f} to "
        f"{high:.1f}),\n{'':>10}memory × {memory_growth[name]:.1f}, at {lengths[-1]} tokens "
        f"{memory[name][-1]:.0f} MiB"
    )

# %% [markdown]
# The *work* grows by four, and that is arithmetic. The *time* is measured, and it may say something
# else. If your explicit form grows by more than four, count what it has to carry. At 2048 tokens
# and 4 heads the weights fill 64 MiB: too much for the fast memory (the caches) close to the
# processor. (The memory printed above is larger: for a moment the scores are held beside the
# weights.) The fused kernel does the same multiplications and never holds the T × T matrix. So it
# is the control. When *it* grows by about four and the explicit form by more, the likely reason is
# the weights: making room for them and carrying them, not computing them. (On a busy machine the
# rounds disagree. Then the table at the end says that it cannot tell.)
#
# And how can the kernel do without the matrix, when the softmax needs the sum over all keys before
# it can divide? The next exercise finds the trick. It is the heart of FlashAttention.
#
# ### Exercise · attention in pieces
#
# Suppose the keys come in two pieces, and somebody has done the attention over each piece alone.
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
# queries). Two things to take care of:
#
# - Scores, and so lse, may be in the hundreds or more, of either sign. `exp` of 89 is already
#   infinite in float32, and `exp` of −104 is 0, so that ∞/∞ or 0/0 gives NaN. The usual cure is to
#   subtract the *greatest* of the logarithms from all of them before the `exp`. A fraction does not
#   change when numerator and denominator are divided by the same number. (`torch.softmax` does so
#   inside.)
# - A query that may attend to nothing in a piece has zeros for its output and lse = −∞ there; if it
#   may attend to nothing in either, so has the result.
#
# Gradients must flow back to all four, and stay finite wherever a query may attend to something.


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
# ### Exercise · attention in tiles
#
# What is merging good for? The keys and values of a long text do not fit into the fast memory close
# to the processor. So fetch them piece by piece. A **tile** is some neighbouring keys with their
# values. Work out the attention over one tile alone, merge it with what you have so far, forget the
# tile and fetch the next one. Then only the scores of one tile exist at a time. This loop (which
# also cuts the queries into tiles) is [FlashAttention](https://arxiv.org/abs/2205.14135). To carry
# the denominator of a softmax along like this is called an [online
# softmax](https://arxiv.org/abs/1805.02867).
#
# `q` is (batch, heads, queries, d_head). `tiles` is a list of pairs `(k, v)`, at least one: `k` is
# (batch, heads, keys, d_head) and `v` is (batch, heads, keys, d_value). The number of keys, 1 or
# more, may differ from tile to tile. There is no mask. Give what `merge_attention` gives: the
# output (batch, heads, queries, d_value) over all tiles, and its lse (batch, heads, queries).
#
# Use your `attention_scores` and your `merge_attention` (so write that one first).
# `torch.logsumexp(x, dim=-1)` is the logarithm of the sum of exp(x) over the last axis, and it can
# handle large numbers. For two pairs a and b, `f(*a, *b)` is the same as
# `f(a[0], a[1], b[0], b[1])`.
#
# Do not put the tiles together again, neither with `torch.cat` nor in a list of scores or outputs:
# in a long text that would not fit. The check counts. It gives your code many small tiles, and adds
# up, at every step, the numbers in all tensors that your code has made and still holds. That must
# not grow with the number of tiles. Gradients must flow back to `q` and to every tile.


# %% exercise="attention_in_tiles" difficulty=2 minutes=15
def attention_in_tiles(q, tiles):
    """Attention over keys and values that come tile by tile: (output, lse)."""
    ### BEGIN SOLUTION
    result = None
    for k, v in tiles:
        scores = attention_scores(q, k)  # (batch, heads, queries, keys of this tile)
        tile = torch.softmax(scores, dim=-1) @ v, torch.logsumexp(scores, dim=-1)
        result = tile if result is None else merge_attention(*result, *tile)
    return result
    ### END SOLUTION


# %% check="attention_in_tiles"
attention_in_tiles = check(attention_in_tiles)

# %% [markdown]
# What does it save? Take one text of 4096 keys, and 256 queries. The whole matrix of scores has
# 256 · 4096 numbers. How much memory does the loop need at once, with smaller and smaller tiles?

# %%
torch.manual_seed(2)
q, k, v = torch.randn(1, 1, 256, 64), torch.randn(1, 1, 4096, 64), torch.randn(1, 1, 4096, 64)
fused = F.scaled_dot_product_attention(q, k, v)
print(f"the whole matrix of scores: {q.shape[2] * k.shape[2] * 4 / 2**20:.1f} MiB")
for size in (4096, 1024, 256, 64):
    tiles = list(zip(k.split(size, dim=2), v.split(size, dim=2), strict=True))
    peak = device.measure_peak_memory(lambda: attention_in_tiles(q, tiles)) / 2**20
    gap = (attention_in_tiles(q, tiles)[0] - fused).abs().max().item()
    print(f"tiles of {size:4}: {peak:4.1f} MiB at once. As the fused kernel, to 1e-5: {gap < 1e-5}")

# %% [markdown]
# The memory falls with the tile, until what is left does not depend on it. That is the output of
# all queries, and a few more tensors of its size while two of them are merged. The result stays the
# same.

# %% [markdown]
# ## What we measured
#
# Claims that you will meet in books and papers, and what this notebook found on this machine.

# %%
claims = Claims("01_attention")
claims.add("learned-to-look", shares)
claims.add("agrees-with-pytorch", agreement)
claims.add("variance-of-a-score", widths, variances)
claims.add("extremely-small-gradients", received)
claims.add("undivided-learns-nothing", results)
claims.add("undivided-learns-more-slowly", results)
claims.add("smaller-first-weights-do-as-well", results)
claims.add("undivided-fewer-rates", results)

# %%
claims.add("permutation-equivariant", shuffle_gap)
claims.add("within-the-values", beyond)
claims.add("time-times-four", time_growth)
claims.add("memory-times-four", memory_growth["explicit"])
claims.add("fused-memory-times-two", memory_growth["fused"])
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
# - A. Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section
#   3.2: the formula, and a footnote with the argument for √d_k that you measured.
# - D. Bahdanau, K. Cho, Y. Bengio, [Neural Machine Translation by Jointly Learning to Align and
#   Translate](https://arxiv.org/abs/1409.0473), 2014: attention before the Transformer.
# - T. Dao et al., [FlashAttention](https://arxiv.org/abs/2205.14135), 2022, and M. Milakov,
#   N. Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867),
#   2018: attention in pieces.
#
# **Next:** one softmax has to choose. What if a token needs two things at once?
# [Lesson 02](02_multi_head_attention.ipynb).
