# %% [markdown]
# # 03 · Positions
#
# ![](drawings/map.svg)
#
# **How does a word know where it stands?** *Dog bites man* is no news; *man bites dog* is. Both
# are the same three words. To the attention that you have built so far they are the same
# sentence.
#
# At the end of this lesson you will have given a model four different senses of place. They are
# waves added to the words (the Transformer of 2017), learned vectors (GPT-2), a turning of queries
# and keys (Llama 2 and 3), and a plain penalty for distance. You will have measured which of them
# still work on texts longer than any that the model was trained on. And you will have seen how
# easily such a comparison goes wrong.
#
# *About 150 minutes. You need: lessons [01](01_attention.ipynb) and
# [02](02_multi_head_attention.ipynb); what sine and cosine are.*

# %%
import torch
from torch import nn

from tfcourse import Claims, attention, check, figures, hint, positions, quiz, reveal
from tfcourse.experiments import lengths, mean_and_spread, recorded, verdicts
from tfcourse.experiments.study import losses
from tfcourse.widgets import RotaryClock, SinusoidalEncoding

# %% [markdown]
# ## The same words in another order
#
# Take six words, a layer of attention, and read the output of *cat*. Then shuffle the words.

# %%
quiz("03-order")

# %% tags=["after-prediction", "nbval-check-output"]
sentence = ["the", "cat", "sat", "on", "the", "mat"]
shuffled = ["mat", "the", "on", "sat", "cat", "the"]

torch.manual_seed(0)
vector = {word: torch.randn(16) for word in sentence}  # an embedding for each word
layer = attention.MultiHeadAttention(d_model=16, n_heads=2)


def output_of(word, words):
    """What the layer gives for `word` when it reads `words`."""
    x = torch.stack([vector[w] for w in words])
    return layer(x[None])[0, words.index(word)]


order_gap = max(
    (output_of(w, sentence) - output_of(w, shuffled)).abs().max().item() for w in vector
)
print("every word has the same output in both, to 1e-6:", order_gap < 1e-6)

# %% [markdown]
# Attention sees a *set*, as [lesson 01](01_attention.ipynb) said (there it was called [permutation
# equivariance](glossary.ipynb#cell-id=permutation-equivariance)). So the order must come in from
# outside. The simplest way is to add it to the word's vector, its
# [embedding](glossary.ipynb#cell-id=embedding): the first layer reads *embedding + vector of the
# place*.
#
# Which vector for which place? The first idea is the number itself: 0, 1, 2, …, 5000. But the
# numbers of a word are not much larger than 1, and at position 5000 nothing would be left of it.
# Second idea: divide by the length, so that it runs from 0 to 1. Then one step means 1/10 in a
# short text and 1/5000 in a long one, and "the word before" looks different in each.
#
# Look at how we write numbers. In binary, the last digit flips at every step, the one before at
# every second, the next at every fourth:

# %% tags=["nbval-check-output"]
for pos in range(8):
    print(pos, " ", " ".join(f"{pos:03b}"))

# %% [markdown]
# Columns that flip fast and columns that flip slowly: together they name every place, and no
# number is ever larger than 1. Only the jumps are abrupt. Make them smooth, and a flipping digit
# becomes a wave.
#
# ## Waves, from fast to slow
#
# $$\mathrm{PE}(pos, 2i) = \sin\frac{pos}{\mathrm{base}^{2i/d}}, \qquad
#   \mathrm{PE}(pos, 2i+1) = \cos\frac{pos}{\mathrm{base}^{2i/d}}$$
#
# PE stands for *positional encoding*: PE(pos, j) is number j of the vector for position $pos$ = 0,
# 1, 2, … $d$ is `d_model`, the width of a word's vector. $i$ = 0, 1, …, d/2 − 1 counts the *pairs*
# of numbers, and base is 10000. With each position, pair i turns by the angle
# $1 / \mathrm{base}^{2i/d}$. This is its **frequency**, often written ω. The first pair has base⁰ =
# 1 and goes round once in 2π ≈ 6.3 positions. The last needs tens of thousands.
#
# Why a sine *and* a cosine? Together they are a point on a circle, the hand of a clock. A sine
# alone has the same height twice in each turn, on the way up and on the way down. A hand never
# points to the same place twice in a turn.
#
# Two tools for what comes next. A slice with a step takes every second column, and stacking on a
# new last axis, then flattening it, puts two tables together like a zip:

# %% tags=["nbval-check-output"]
numbers = torch.arange(12).view(2, 6)
first, second = numbers[:, 0::2], numbers[:, 1::2]  # columns 0, 2, 4 and columns 1, 3, 5
print(first.tolist(), second.tolist())
print(torch.stack([first, second], dim=-1).flatten(-2).tolist())  # (2, 3, 2) -> (2, 6)

# %% [markdown]
# ### Exercise · sinusoidal encoding
#
# Make the table of all encodings, (tokens, d_model), one row for each position from 0 on. The
# columns alternate: sine, cosine, sine, cosine, … `tokens` is 1 or more, `d_model` is even, and
# `base` is any number above 1.


# %% exercise="sinusoidal_encoding" difficulty=2 minutes=12
def sinusoidal_encoding(tokens, d_model, base=10000.0):
    """The encoding of positions 0 to tokens - 1: (tokens, d_model)"""
    ### BEGIN SOLUTION
    i = torch.arange(d_model // 2)
    angles = torch.arange(tokens)[:, None] / base ** (2 * i / d_model)  # (tokens, d_model / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # sin, cos, sin, cos, …
    ### END SOLUTION


# %% check="sinusoidal_encoding"
sinusoidal_encoding = check(sinusoidal_encoding)

# %% [markdown]
# This is what it looks like. The table lies on its side here: each *column* is a place's name,
# like a barcode. Low dimensions change fast, high ones hardly at all. Move the two positions;
# then move *both together* and watch their dot product.

# %%
SinusoidalEncoding(tokens=64, d_model=32)

# %% [markdown]
# ## A step is a turn
#
# Moved together, the two positions keep their dot product. That is no accident. Go k steps on, and
# each hand turns by an angle of its own, *the same one wherever you started*. So there should be
# one matrix $M_k$ that takes any position's row to the row k steps later:
#
# $$\mathrm{PE}(pos + k) = \mathrm{PE}(pos)\, M_k \qquad \text{for every } pos$$
#
# Let us test it. We hand the rows to a solver and ask for the matrix that fits best, once for
# early positions and once for late ones. (A small encoding, d = 8, with base 100, so that even
# its slowest hand moves.) **Predict**: how will the two matrices differ?

# %% tags=["nbval-check-output"]
k = 3
pe = positions.sinusoidal_encoding(400, 8, base=100.0).double()


def fitted_step(rows):
    """The best M with pe[pos] @ M = pe[pos + k] for the positions in `rows`."""
    return torch.linalg.lstsq(pe[rows], pe[rows + k]).solution


early, late = fitted_step(torch.arange(150)), fitted_step(torch.arange(200, 350))
step_error = (pe[:-k] @ early - pe[k:]).abs().max().item()
matrix_gap = (early - late).abs().max().item()
print("it fits all 397 positions:", step_error < 1e-4, "  early = late:", matrix_gap < 1e-3)
print(early[:4, :4].float().round(decimals=3) + 0.0)  # + 0.0 makes −0 a plain 0
print("cos 3, sin 3:", f"{torch.tensor(3.0).cos():.3f}, {torch.tensor(3.0).sin():.3f}")

# %% [markdown]
# It is one matrix for all positions (you see its first two blocks). It is zero except for 2 × 2
# blocks along the diagonal, and in each block stand a cosine and a sine: **a rotation**. The first
# pair turns by 3 for three steps. So a layer that looks for "the word three before me" needs to
# learn a single matrix, not one for each place.
#
# And two hands turned by the same angle keep the angle between them. So the dot product of two
# positions can depend on nothing but their offset:

# %%
d_model = 128
pe = positions.sinusoidal_encoding(200, d_model)
products = pe @ pe.T
by_offset = [products.diagonal(k) for k in range(100)]
offset_spread = max((d.max() - d.min()).item() for d in by_offset)
figures.lines(
    range(100),
    {"mean over all pairs of positions": [d.mean().item() for d in by_offset]},
    title="How alike are two positions, k apart?",
    x_label="offset k",
    y_label="dot product",
    level=(d_model / 2, "with itself: d / 2"),
    markers=False,
    alt=f"From {d_model / 2:.0f} at offset 0 it falls, with small waves, and flattens out. Over "
    f"all pairs with the same offset the products differ by at most {offset_spread:.0e}.",
)

# %% [markdown]
# On the whole, near places are more alike than far ones, and it does not matter *where* the pair
# stands. A sense of distance comes for free. (Not of direction: k before and k after give the
# same product.)
#
# ## How loud is a word, how loud is a place?
#
# Word and place are added, so neither should drown the other. Are they about equally long? The
# code of *Attention Is All You Need* starts the embedding's numbers with a variance of 1/d. A
# vector of the encoding has d/2 pairs with sin² + cos² = 1 each. **Predict** the two lengths for
# d = 512, then run.

# %% tags=["after-prediction", "nbval-check-output"]
torch.manual_seed(0)
d_model = 512
small, pytorch = nn.Embedding(1000, d_model), nn.Embedding(1000, d_model)
nn.init.normal_(small.weight, std=d_model**-0.5)
word_length, pytorch_length = (e.weight.norm(dim=1).mean().item() for e in (small, pytorch))
place_length = positions.sinusoidal_encoding(100, d_model).norm(dim=1).mean().item()
print(f"word: {word_length:.1f}   place: {place_length:.1f}   √d: {d_model**0.5:.1f}")
print(f"word in PyTorch's own nn.Embedding: {pytorch_length:.1f}")
times_root = {
    "a variance of 1/d_model": word_length * d_model**0.5,
    "a variance of 1": pytorch_length * d_model**0.5,
}
print("word × √d, started with", {start: round(x, 1) for start, x in times_root.items()})

# %% [markdown]
# A length is the root of a sum of squares. A word has d squares of about 1/d: √(d · 1/d) = 1. A
# place has d/2 pairs of 1 each: √(d/2) = 16. So the place would drown the word. One sentence of
# the paper takes care of that: *In the embedding layers, we multiply those weights by √d_model.*
# This multiplies the words alone. The waves stay as they are. Now it is 22.6 to 16.
#
# PyTorch's own `nn.Embedding` (a table of embeddings, one row a word) starts with a variance of 1,
# so there the word is 22.6 long to begin with. Multiply it by √d again, and it is 512 long: now the
# word drowns the place. The factor belongs to the initialization, not to the architecture.
#
# The √d does a second thing, easily missed. It also makes the *sum* of word and place larger. This
# sum is what the first [block](glossary.ipynb#cell-id=block) reads. It is the start of the
# **residual stream**, the vectors that run from block to block, and to which every block adds its
# part. Keep this in mind.
#
# ## Or let it learn them
#
# Why design waves at all? Give every position a vector of its own and train it like the words'
# vectors. GPT-2 and BERT do so: `nn.Embedding(max_tokens, d_model)`. Row 5 is the name of position
# 5 because training made it so.
#
# One thing is clear at once: the table ends. Ask it for more and it must refuse.

# %% tags=["nbval-check-output"]
table = positions.LearnedPositions(max_tokens=64, d_model=32)
try:
    table(65)
except ValueError as error:
    print(str(error).replace(". ", ".\n"))

# %% [markdown]
# The paper on the Transformer tried both: "We also experimented with using learned positional
# embeddings [9] instead, and found that the two versions produced nearly identical results (see
# Table 3 row (E))." And why waves, then? "We chose the sinusoidal version because it may allow the
# model to extrapolate to sequence lengths longer than the ones encountered during training."
# *May*. Did anybody look?
#
# Let us look. A small language model (two blocks, d_model = 64) reads Python's manual, 64
# characters at a time, and learns to guess the next character. Then we measure it on windows of 128
# characters. The learned table has 128 rows, so that it can be asked, but only 64 of them are ever
# trained. Three more kinds are trained as well, which you will build further below: rotary, ALiBi,
# and none at all.

# %%
quiz("03-longer")

# %% [markdown]
# Here is a short run of it, live, with two kinds of position. Both have a *small* stream: a word
# is 1 long, nothing is multiplied by √d, and the waves are divided by √d instead. The loss is the
# mean surprise at the next character (the [cross-entropy](glossary.ipynb#cell-id=cross-entropy)),
# in [nats](glossary.ipynb#cell-id=nat): lower is better. There are about a hundred different
# characters, so ln 100 ≈ 4.6 is blind guessing; an untrained model starts there. *Inside* are the
# 64 trained positions, *beyond* the 64 after them, both on pages that the model has never seen.

# %% tags=["after-prediction"]
STEPS = 80
for arm in ("learned, small", "sinusoidal, small"):
    watch = figures.LiveCurve(f"Does it learn to read? ({arm} stream)", STEPS)
    short = lengths.one(arm, rate=0.01, seed=0, steps=STEPS, watch=watch)
    print(f"{arm}: inside {short['loss']:.2f}, beyond {short['2']:.2f}")

# %% [markdown]
# Eighty steps are too few to say anything. The whole experiment takes about twenty-five minutes.
# Its record lies in `data/lengths.json`, with the command that made it. `RETRAIN = True` makes it
# again on your machine.
#
# ## A comparison that looks fair
#
# First we do what seems natural. Sinusoidal positions run as the paper has them: the words × √d,
# plus the waves as they are. Learned positions run as in GPT-2: small words plus small positions,
# no factor. The same data, the same steps, the same learning rate for both, five
# [seeds](glossary.ipynb#cell-id=seed) each:

# %%
RETRAIN = False
record = recorded("lengths")
results = lengths.run(**record["settings"], say=print) if RETRAIN else record["results"]
one_rate = results["one_rate"]

usual = ("sinusoidal, × √d", "learned, small")
for arm in usual:
    mean, spread = mean_and_spread(losses(one_rate, arm))
    print(f"{arm:>16}: {mean:.3f} ± {spread:.3f} nats inside")
print("difference, seed by seed:", lengths.gap(one_rate, *usual), "nats")

# %% [markdown]
# ± is the standard deviation over five seeds. The seeds share their data from arm to arm, so the
# difference is taken seed by seed. In brackets stands its 95%
# [interval](glossary.ipynb#cell-id=confidence-interval): the true differences that these five seeds
# do not rule out.
#
# So the learned positions are better, and 0 is not in the interval. Is that a finding about waves
# and learned vectors?

# %%
quiz("03-fair")

# %% [markdown]
# ## What else differs?
#
# The two runs differ in *two* things: the kind of position, and the scale of the stream. Such a
# pair of causes is called **confounded**: whatever comes out, one cannot tell which of them did
# it. The remedy is to cross them, each kind with each scale (a **factorial** design). This is what
# the first block reads in each of the four arms:
#
# | | small stream | stream × √d |
# |---|---|---|
# | learned | word + vector (as in GPT-2) | √d · (word + vector) (new) |
# | sinusoidal | word + waves / √d (new) | √d · word + waves (as in 2017) |
#
# The arm of 2017 is √d · (word + waves / √d) as well. So in both rows the right column is the left
# one times √d. A word starts 1 long on the left, and in all four arms a position starts √½ ≈ 0.7
# times as long as its word. (A learned vector is made that long, to be as long as the waves.)
#
# Four arms allow two questions: what does the kind change, on average over both scales, and what
# does the scale change, on average over both kinds? Added up, the two answers give the difference
# above.


# %% tags=["after-prediction"]
def show(found):
    for arm in lengths.CROSSED:
        mean, spread = mean_and_spread(losses(found, arm))
        rate = next(run["rate"] for run in found["runs"] if run["arm"] == arm)
        print(f"{arm:>18}   {mean:.3f} ± {spread:.3f}   at rate {rate:g}")
    parts = lengths.effects(found)
    print("\nsinusoidal instead of learned:", parts["kind"], "nats")
    print("× √d instead of small:        ", parts["scale"], "nats")


show(one_rate)

# %% [markdown]
# So most of the difference comes from the scale and not from the waves. The kind's own part is a
# hundredth of a nat, and its interval contains 0.
#
# Is a small stream better, then? Not so fast. One more thing is the same in all four arms and
# should perhaps not be: the [**learning rate**](glossary.ipynb#cell-id=learning-rate). One rate
# for all looks fair. But it may suit one arm better than another. So each arm was tried with
# several rates, on two other seeds. (**Pilot seeds**: they only choose the rate. The next figure
# shows their losses, but no result is taken from them: a rate that was chosen by luck looks too
# good on the seeds that chose it.)

# %%
rates = record["settings"]["rates"]
by_rate = {
    arm: [results["pilots"][arm][f"{rate:.4g}"] for rate in rates] for arm in lengths.CROSSED
}
figures.lines(
    rates,
    by_rate,
    title="At which learning rate is which arm the best?",
    x_label="learning rate",
    y_label="loss inside, in nats",
    from_zero=False,
    alt=f"Mean loss of two pilot seeds at the learning rates {rates}: "
    + "; ".join(f"{arm}: {found}" for arm, found in by_rate.items())
    + ".",
)

# %% [markdown]
# At the rate 0.005, which we used, the small stream is better with both kinds. At 0.02 the large
# stream is better with both kinds. So "which scale is better?" has no answer without a rate. (A
# likely reason, not measured here: in a stream √d times as large, the blocks have to write larger
# numbers to make the same difference. Their weights have farther to go.)
#
# So each arm gets the rate that was best for it on the pilot seeds. Then five other seeds decide:

# %%
show(results)

# %% [markdown]
# No effect of the scale is to be seen any more: 0 lies well inside its interval. (More than three
# hundredths of a nat, either way, can be ruled out.) What remains is a small effect of the kind.
# The learned positions are about four hundredths of a nat better. Some of this may still be the
# rate's, because the grid of rates is coarse.
#
# Three ways to compare the same two kinds of position gave three answers. What to keep: change one
# thing at a time, give every arm the rate that suits it, use several seeds, and look at the
# interval. You will meet these four in every experiment of this course.
#
# ## Beyond the trained length
#
# Now all five kinds, each with the small stream and at its own rate. The mean loss in nats over
# four stretches of the text, ± the standard deviation over five seeds:

# %%
KINDS = ("learned, small", "sinusoidal, small", "rotary", "alibi", "none")
print("positions             1 to 64         65 to 96        65 to 128       121 to 128")
for arm in KINDS:
    parts = [mean_and_spread(losses(results, arm, key=key)) for key in ("loss", "1.5", "2", "end")]
    print(f"{arm:>18}   " + "   ".join(f"{mean:.2f} ± {spread:.2f}  " for mean, spread in parts))

# %%
means, spreads = {}, {}
for arm in KINDS:
    curves = torch.tensor(losses(results, arm, key="by_position"))  # (seeds, positions)
    smooth = curves.unfold(1, 8, 8).mean(-1)  # (seeds, positions / 8)
    means[arm], spreads[arm] = smooth.mean(0).tolist(), smooth.std(0).tolist()
figures.lines(
    [8 * i + 4 for i in range(16)],
    means,
    title="Which can read beyond what it was trained on?",
    x_label="position in the text",
    y_label="loss in nats",
    edge=(64, "trained up to here"),
    spread=spreads,
    alt="Mean loss at the start, just before position 64, and at 128: "
    + ", ".join(f"{arm} {m[0]:.2f}, {m[7]:.2f} and {m[-1]:.2f}" for arm, m in means.items())
    + ".",
)

# %% [markdown]
# Three things to see.
#
# **The waves and the learned positions** break down right after position 64. The waves lose a
# little less. But both do worse there than a model *without* positions: what they say beyond 64
# does not help, it misleads. The formula of the waves goes on for ever. The layers that read it do
# not. (A guess, not measured: the slow hands point, beyond 64, where they have never pointed.)
#
# **Rotary** is the best inside, holds up to one and a half times the trained length, and then
# climbs steeply. So its mean over 65 to 128 mixes a good part with a bad one, as the last column
# shows. (What is new to it so far out? The section *Rotary positions for longer texts* will say.)
#
# **ALiBi** goes on as if nothing had happened. It is time to see what these two do. And *none*? A
# model with a [causal mask](glossary.ipynb#cell-id=causal-mask) is not quite blind without
# positions: token 0 sees one key, token 9 sees ten. If a head attends to all of them equally, the
# first token's value has a share of 1 at token 0 and of 1/10 at token 9. A later layer can read
# from such a share how far on a token stands. The model is much worse inside, and loses little
# beyond.
#
# ## Turn the queries and keys
#
# The best thing about the waves was that a step is a turn. But the waves have to pass through
# $W^Q$ and $W^K$ before two words meet. Why not turn *there*, right before the dot product?
#
# **Rotary positions** (RoPE) take a query, cut it into pairs of numbers, and turn each pair by an
# angle that grows with the token's position $m$; keys likewise. A pair $(a, b)$ becomes
#
# $$(a\cos\theta - b\sin\theta,\;\; a\sin\theta + b\cos\theta), \qquad
#   \theta = m \cdot \mathrm{base}^{-2i/d}$$
#
# with $d$ = `d_head`, the pair's number $i$ = 0, …, d/2 − 1, and base 10000 again. In code $m$ is
# an entry of `where`. Nothing is added to the words, and no length changes.

# %%
quiz("03-shift")

# %% [markdown]
# ### Exercise · turn the pairs
#
# `x` is always (batch, heads, tokens, d_head): queries or keys, in float32 or float64. `where`
# (tokens,) says at which position each token stands. Its entries are whole numbers, in any order,
# perhaps negative: when a model writes, the next token comes alone, and its position is not 0.
# Neighbours make a pair: numbers 2i and 2i + 1. `base` is any number above 1. Turn every pair by
# its angle. (As in [lesson 02](02_multi_head_attention.ipynb), the
# [gradient](glossary.ipynb#cell-id=gradient) has to get through: `x` stays a torch tensor all the
# way, without `.item()` and without a new `torch.tensor(…)`.)


# %% exercise="rotate_pairs" difficulty=2 minutes=20
def rotate_pairs(x, where, base=10000.0):
    """Every pair turned by its angle; the same shape as x"""
    ### BEGIN SOLUTION
    d_head = x.shape[-1]
    i = torch.arange(d_head // 2)
    angles = where[:, None] * base ** (-2 * i / d_head)  # (tokens, d_head / 2)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(turned, dim=-1).flatten(-2)
    ### END SOLUTION


# %% check="rotate_pairs"
rotate_pairs = check(rotate_pairs)

# %% [markdown]
# Now one query and one key, with each pair as a clock. Query and key have a hand each. Its thin
# line shows the direction, its thick part the length, and the dotted line where it stood before
# the turn. The bar beside a clock is what the pair adds to the score. Move the query, then the
# key, then both.

# %% tags=["after-prediction"]
RotaryClock(d_head=8, seed=59)

# %% [markdown]
# The same on numbers. The score of a query at position m with a key at position n, for many m and
# n with the same distance:

# %% tags=["after-prediction", "nbval-check-output"]
torch.manual_seed(0)
q, k = torch.randn(2, 64).double()
scores = []
for n in range(0, 1000, 50):
    q_turned = rotate_pairs(q.view(1, 1, 1, 64), torch.tensor([n + 7]))  # 7 after the key
    k_turned = rotate_pairs(k.view(1, 1, 1, 64), torch.tensor([n]))
    scores.append((q_turned * k_turned).sum().item())
rotary_spread = max(scores) - min(scores)
print(f"20 places, distance 7: every score is {scores[0]:.3f}, to 1e-3:", rotary_spread < 1e-3)
print(f"without the turning it would be {(q @ k).item():.3f}")

# %% [markdown]
# ### Exercise · the score by distance
#
# How does the score fall or rise with the distance, for one query and one key? `q` and `k` are
# (d_head,). `distances` (n,) holds one or more whole numbers, in any order: the query stands so
# many tokens *after* the key, and before it where the number is negative. Give the scores q·k
# after the turning, (n,), without dividing by √d_head.
#
# You may use `rotate_pairs`; it takes four axes. `q.expand(…)` repeats a vector without copying
# it:

# %% tags=["nbval-check-output"]
print(torch.tensor([1.0, 2.0]).expand(3, 2).tolist())

# %% [markdown]
# Now your function:


# %% exercise="score_at_distances" graded=true points=3 difficulty=2 minutes=15
def score_at_distances(q, k, distances, base=10000.0):
    """The rotary score for each distance: (n,)"""
    ### BEGIN SOLUTION
    at_each = q.expand(1, 1, len(distances), -1)  # the same query, a token for each distance
    return (rotate_pairs(at_each, distances, base) @ k)[0, 0]
    ### END SOLUTION


# %% check="score_at_distances"
score_at_distances = check(score_at_distances)

# %% [markdown]
# How does it look over many queries? The paper on rotary positions says "the inner-product will
# decay when the relative position increase". Two experiments with 500 random queries each. In the
# first, every query looks for a key that is exactly like itself. In the second, the key is another
# random vector. **Predict** both curves.

# %% tags=["after-prediction"]
torch.manual_seed(0)
queries, others = torch.randn(2, 500, 64)
away = torch.arange(513)  # every distance: a step of 4 would miss the fast pairs' turns
turned = positions.Rotary(64)(queries[:, None].expand(-1, len(away), -1), away)
scores = {
    "key like its query": (turned * queries[:, None]).sum(-1),  # (500, distances)
    "any other key": (turned * others[:, None]).sum(-1),
}
near_far = {  # for each query: the mean of its scores with near keys, and with far ones
    name: [s[:, 1:17].mean(1).tolist(), s[:, 257:].mean(1).tolist()] for name, s in scores.items()
}
figures.lines(
    away.tolist(),
    {name: s.mean(0).tolist() for name, s in scores.items()},
    title="Does a key match less, the farther away it is?",
    x_label="distance in tokens",
    y_label="score, mean of 500",
    spread={name: s.std(0).tolist() for name, s in scores.items()},
    markers=False,
    alt="; ".join(
        f"{name}: {s[:, 0].mean():.0f} at distance 0, {s[:, 64].mean():.0f} at 64, "
        f"{s[:, -1].mean():.0f} at 512"
        for name, s in scores.items()
    )
    + ". The first falls in small waves, the second stays flat.",
)

# %% [markdown]
# A query and a key that point the same way match less and less with the distance, in waves. The
# fast pairs soon turn away from each other, the slow ones hold on. For any other key there is no
# such rule: the mean stays at 0, and single scores (the band) are as large far away as they are
# near. So rotary positions do not weaken what is far. A model that wants to look far can choose its
# queries and keys so that they match there.
#
# ### Two layouts
#
# Which numbers make a pair? The paper says neighbours, (0, 1), (2, 3), …: **interleaved**. Llama
# as Hugging Face keeps it pairs number i with number i + d/2: **split-half**. Nothing else
# differs, so one must turn into the other by reordering the numbers:

# %% tags=["nbval-check-output"]
x, where = torch.randn(2, 3, 10, 8), torch.arange(10)
interleaved = positions.Rotary(8, layout="interleaved")
split_half = positions.Rotary(8, layout="split-half")

straight = interleaved(x, where)
there = positions.convert_rotary(x, "interleaved", "split-half")
back = positions.convert_rotary(split_half(there, where), "split-half", "interleaved")
layout_gap = (straight - back).abs().max().item()
print("reordered, turned, put back; equal to 1e-6:", layout_gap < 1e-6)
print("not reordered, they differ by", f"{(straight - split_half(x, where)).abs().max():.1f}")

# %% [markdown]
# A model trained with the one and run with the other raises no error: every shape fits. It only
# writes worse text. To convert a **checkpoint** (a file of trained weights), one permutes the
# output numbers of $W^Q$ and $W^K$ instead (the *rows* of `nn.Linear.weight`), once and for all.
# You will meet this again in [lesson 11](11_a_real_llm.ipynb), with a real model.
#
# ### Find the bug · two layouts
#
# This function should turn neighbours. It does so with two tables, of cosines and of sines, and a
# line that gives each number its partner. Its shapes are right, and at position 0 its values too.
# `x` and `where` are as above.


# %% exercise="apply_rotary" difficulty=3 minutes=12
def apply_rotary(x, where):
    """Turn the pairs (2i, 2i + 1) of x (batch, heads, tokens, d_head), base 10000"""
    half = x.shape[-1] // 2
    angles = where[:, None] * 10000.0 ** (-torch.arange(half) / half)  # (tokens, half)
    ### BEGIN SOLUTION
    cos = angles.cos().repeat_interleave(2, dim=-1)  # (tokens, d_head)
    sin = angles.sin().repeat_interleave(2, dim=-1)
    ### END SOLUTION
    ### BEGIN GIVEN
    # cos = torch.cat([angles.cos(), angles.cos()], dim=-1)  # (tokens, d_head)
    # sin = torch.cat([angles.sin(), angles.sin()], dim=-1)
    ### END GIVEN
    partner = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    return x * cos + partner * sin


# %% check="apply_rotary"
apply_rotary = check(apply_rotary)

# %% [markdown]
# ## A plain penalty
#
# What if we only want *near counts more than far*? Then let us say just that. **ALiBi** leaves
# words, queries and keys as they are. It subtracts something from each
# [score](glossary.ipynb#cell-id=scores), and more of it the farther away the key is:
#
# $$\text{score}_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_{\mathrm{head}}}} - s_h\,|i - j|,
#   \qquad s_h = 2^{-8h/n_{\mathrm{heads}}}$$
#
# Here $i$ and $j$ are the positions of query and key, and $h$ = 1, …, n_heads counts the heads.
# With 8 heads the **slopes** $s_h$ are 1/2, 1/4, …, 1/256: the first head sees only its
# neighbourhood, the last one almost everything. Nothing is learned.
#
# ### Exercise · ALiBi's bias
#
# Write what is added to the scores: (heads, queries, keys), with as many queries and keys as
# `tokens`. `n_heads` is a power of two: 1, 2, 4, 8, … A key *after* the query is given its distance
# too. To forbid it is the mask's job, not the bias's.


# %% exercise="alibi_bias" difficulty=1 minutes=10
def alibi_bias(n_heads, tokens):
    """-slope · distance for every head, query and key: (n_heads, tokens, tokens)"""
    ### BEGIN SOLUTION
    where = torch.arange(tokens)
    distance = (where[:, None] - where).abs()
    slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return -slopes[:, None, None] * distance
    ### END SOLUTION


# %% check="alibi_bias"
alibi_bias = check(alibi_bias)

# %%
share = torch.softmax(alibi_bias(4, 48)[:, -1], dim=-1)  # of the last token, in each head
figures.lines(
    range(48),
    {f"slope 1/{4 ** (h + 1)}": share[h].flip(0).tolist() for h in range(4)},
    title="If all words were alike, where would the last of 48 tokens look?",
    x_label="distance of the key",
    y_label="attention weight",
    markers=False,
    alt="Four falling lines. With slope 1/4 nearly all goes to the nearest ten tokens, with slope "
    f"1/256 the farthest still gets {share[3, 0] / share[3, -1]:.0%} of what the nearest gets.",
)

# %% [markdown]
# Now ALiBi's line in the figure of the experiment makes sense. Distance 100 is just a little
# farther than distance 60: the steep heads hear neither, the flat ones hear both nearly alike. That
# has a price: what is far is *always* heard less, in every head.
#
# Most language models of today have rotary positions nevertheless, and many of them read texts much
# longer than those that they were first trained on. How?
#
# ## Rotary positions for longer texts
#
# In our experiment, rotary held up to one and a half times the trained length, and then it failed.
# Llama 2 was trained on 4096 tokens. Suppose that you want to give it 16384.
#
# What is new for the model in such a text? A score depends on the distance of query and key alone,
# and at distance $m$ pair $i$ has turned by the angle $m \cdot \mathrm{base}^{-2i/d}$. A fast pair
# goes round many times in training. So it meets every direction, and a longer text brings no new
# one. A slow pair may not get round once. **Predict**: Llama 2 has d_head = 128, so 64 pairs, and
# base 10000. How many of them do not get round once within 4096 tokens?

# %% tags=["after-prediction", "nbval-check-output"]
speeds = 10000.0 ** (-torch.arange(64) / 64)  # of each pair, in radians a token
turns = 4096 * speeds / (2 * torch.pi)
print(f"turns in 4096 tokens: fastest pair {turns[0]:.0f}, slowest pair {turns[-1]:.2f}")
print("pairs that do not get round once:", int((turns < 1).sum()), "of", len(turns))

# %% [markdown]
# In a longer text these pairs turn further, into directions that no layer has ever read.
#
# The remedy is to turn more slowly. Let `trained` be the tokens of the longest text in training,
# `tokens` those of the present text, and s = tokens / trained how many times longer it is. There
# are two well-known ways. Again $m$ = 0, 1, …, tokens − 1 is the position, $i$ = 0, …, d/2 − 1 the
# pair and $d$ = `d_head`.
#
# **Position interpolation** divides every position by s. All of them then lie below `trained`,
# most of them between two whole numbers:
#
# $$\theta_{m,i} = \frac{m}{s} \cdot \mathrm{base}^{-2i/d}$$
#
# That slows down *all* pairs, also the fast ones, which tell neighbours apart and did not need it.
# The **change of base** (its author called it "NTK-aware") keeps the positions and makes the base
# larger:
#
# $$\theta_{m,i} = m \cdot (\mathrm{base}')^{-2i/d}, \qquad
#   \mathrm{base}' = \mathrm{base} \cdot s^{\,d/(d-2)}$$
#
# Why this exponent? The last pair has $i = d/2 - 1$, so its $2i/d$ is $(d-2)/d$. Put it in, and its
# angles are divided by $s$, exactly. The first pair has $i = 0$, and any base to the power 0 is 1:
# it keeps its speed. The others lie between.
#
# ### Exercise · stretch the angles
#
# Make the table of all angles θ, (tokens, d_head / 2): one row for each position m = 0, 1, …, one
# column for each pair i. `by` says which way to go, "positions" or "base". Where the text is not
# longer than `trained`, nothing is stretched: the angles are $m \cdot \mathrm{base}^{-2i/d}$.
# `tokens` and `trained` are 1 or more, `d_head` is even and at least 4, and `base` is any number
# above 1.


# %% exercise="stretched_angles" difficulty=2 minutes=15
def stretched_angles(tokens, d_head, trained, base=10000.0, by="positions"):
    """Rotary angles, slowed down for a text longer than `trained`: (tokens, d_head / 2)"""
    ### BEGIN SOLUTION
    where = torch.arange(tokens)
    if tokens > trained:
        s = tokens / trained
        if by == "positions":
            where = where / s
        else:
            base = base * s ** (d_head / (d_head - 2))
    i = torch.arange(d_head // 2)
    return where[:, None] * base ** (-2 * i / d_head)
    ### END SOLUTION


# %% check="stretched_angles"
stretched_angles = check(stretched_angles)

# %% [markdown]
# What do the two ways do to Llama 2 with 16384 tokens? Three numbers for each. How many of the 64
# pairs meet directions that are new? How far beyond the trained range does such a pair get? And
# how far apart are two neighbours in the fastest pair? **Predict** them for both ways.

# %% tags=["after-prediction", "nbval-check-output"]
ways = {
    "not stretched": stretched_angles(16384, 128, trained=16384),  # as if trained on so many
    "by positions": stretched_angles(16384, 128, trained=4096, by="positions"),
    "by base": stretched_angles(16384, 128, trained=4096, by="base"),
}
partly = turns < 1  # the pairs that have seen only a part of the circle
print("                new to    farthest    neighbours in the fastest pair")
for way, angles in ways.items():
    reach = (angles[-1] / (4096 * speeds))[partly]  # 1: as far as in training
    new = int((reach > 1).sum())
    print(f"{way:>14} {new:4} pairs {reach.max():8.2f} ×  {angles[1, 0]:12.2f} radians apart")

# %% [markdown]
# Position interpolation does what it promises: no pair meets anything new. It pays with the
# neighbours: in every pair they are four times as near to each other as in training. The change of
# base leaves the fastest pair as it was. But only the last of the slow pairs stays inside. The
# others go beyond what they have met, though not nearly as far as without stretching.
#
# Which one reads better? We did not measure that. In print: Chen et al. stretched LLaMA models "to
# up to 32768 with minimal fine-tuning (within 1000 steps)" by [position
# interpolation](https://arxiv.org/abs/2306.15595). (**Fine-tuning** is training a little more.) The
# change of base was [published in a forum](https://www.reddit.com/r/LocalLLaMA/comments/14lz7j5/),
# for models that are *not* trained further. [YaRN](https://arxiv.org/abs/2309.00071) compares the
# two: without fine-tuning the change of base "performs much better", with it the "out-of-bound"
# angles make it worse. And [Llama 3](https://arxiv.org/abs/2407.21783) takes a base of 500000 from
# the start (its section 3.2).
#
# ## What we measured

# %%
claims = Claims("03_positions")
claims.add("order-unseen", order_gap)
claims.add("shift-is-linear", step_error, matrix_gap)
claims.add("offset-alone", offset_spread)
claims.add("root-d-for-embeddings", times_root, place_length)
claims.add("rotary-distance-alone", rotary_spread)
claims.add("rotary-decays", near_far["key like its query"], near_far["any other key"])
claims.add("layouts-permuted", layout_gap)
claims

# %% [markdown]
# And what the experiment decides. Each rule was asked once more, with five seeds that it had not
# seen:

# %%
claims = Claims("03_positions, the experiment")
claims.add("learned-nearly-identical", results)
claims.add("scale-not-kind", results)
claims.add("waves-may-extrapolate", results)
claims.add("train-short-test-long", results)
claims.add("rotary-best-inside", results)
other = verdicts(lengths.CLAIMS, record["again"]["results"])
print("five other seeds give the same verdicts:", other == claims.verdicts())
claims

# %% [markdown]
# *Cannot tell* is a verdict too. Learned positions are better here. But whether by more than the
# 0.05 nats that would count as a loss of quality, neither the five seeds decide nor the five
# others.
#
# How far does this go? It holds for *this* small model, *this* text and *this* short training. The
# differences between the four crossed arms are hundredths of a nat. Longer training, a larger
# model or other data may change them. The differences beyond the trained length are much larger.
#
# ## Ask yourself

# %%
quiz("03-quiz-number")

# %%
quiz("03-quiz-values")

# %%
quiz("03-quiz-layout")

# %% [markdown]
# ## Further reading
#
# - A. Vaswani et al., [*Attention Is All You Need*](https://arxiv.org/abs/1706.03762), 2017,
#   sections 3.4 and 3.5 and table 3, row E.
# - J. Su et al., [*RoFormer: Enhanced Transformer with Rotary Position
#   Embedding*](https://arxiv.org/abs/2104.09864), 2021.
# - O. Press et al., [*Train Short, Test Long*](https://arxiv.org/abs/2108.12409), 2021: ALiBi, and
#   the measurement that the waves do not extrapolate.
# - A. Haviv et al., [*Transformer Language Models without Positional Encodings Still Learn
#   Positional Information*](https://arxiv.org/abs/2203.16634), 2022: why *none* is not so bad.
# - F. Barbero et al., [*Round and Round We Go! What makes Rotary Positional Encodings
#   useful?*](https://arxiv.org/abs/2410.06205), 2024: rotary positions do not have to decay.
# - S. Chen et al., [*Extending Context Window of Large Language Models via Positional
#   Interpolation*](https://arxiv.org/abs/2306.15595), 2023.
# - bloc97, [*NTK-Aware Scaled RoPE*](https://www.reddit.com/r/LocalLLaMA/comments/14lz7j5/), 2023:
#   the change of base.
# - B. Peng et al., [*YaRN: Efficient Context Window Extension of Large Language
#   Models*](https://arxiv.org/abs/2309.00071), 2023: each pair is stretched as much as it needs.
#
# **Next:** sums, turns, additions: how large are these numbers after a few layers? [Lesson
# 04](04_norms.ipynb) keeps them under control.
