# %% [markdown]
# # 03 · Positions
#
# **How does a word know where it stands?** *Dog bites man* is no news; *man bites dog* is. Both
# are the same three words. To the attention that you have built so far they are the same
# sentence.
#
# At the end of this lesson you will have given a model four different senses of place: waves
# added to the words, learned vectors, a turning of queries and keys (every Llama does that), and
# a plain penalty for distance. You will have measured which of them still work on texts longer
# than any that the model was trained on. What is printed about it may surprise you.
#
# *About 110 minutes. You need: lessons 01 and 02; what sine and cosine are.*

# %%
import torch
from torch import nn

from tfcourse import Claims, attention, check, figures, hint, positions, quiz
from tfcourse.experiments import lengths, mean_and_spread, recorded
from tfcourse.widgets import RotaryClock, SinusoidalEncoding

# %% [markdown]
# ## The same words in another order
#
# Take six words, a layer of attention, and read the output of *cat*. Then shuffle the words.

# %%
quiz("03-order")

# %% tags=["nbval-check-output"]
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
# Attention sees a *set*. Lesson 01 said so; here is the price. Whatever tells the order must come
# in from outside, and the natural place is the word's own vector: word plus place.
#
# So we simply add the two: what the first layer reads is *embedding + vector of the place*.
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
# number is ever larger than 1. Only the flips are rude. Make them smooth, and a flipping digit
# becomes a wave.
#
# ## Waves, from fast to slow
#
# $$\mathrm{PE}(pos, 2i) = \sin\frac{pos}{\mathrm{base}^{2i/d}}, \qquad
#   \mathrm{PE}(pos, 2i+1) = \cos\frac{pos}{\mathrm{base}^{2i/d}}$$
#
# Here $pos$ is the position, 0, 1, 2, …; $d$ is `d_model`, the width of a word's vector; $i$ = 0,
# 1, …, d/2 − 1 counts the *pairs* of numbers; and base is 10000. The first pair has base⁰ = 1 and
# goes round once in 2π ≈ 6.3 positions. The last needs tens of thousands.
#
# Why a sine *and* a cosine? Together they are a point on a circle, the hand of a clock. A sine
# alone has the same height twice in each turn, on the way up and on the way down. A hand never
# points to the same place twice in a turn.
#
# ### Exercise · sinusoidal encoding
#
# The table, (tokens, d_model), row by position. Columns alternate: sine, cosine, sine, cosine, …


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
# You will have seen it: moved together, the two keep their dot product. That is no accident. Go k
# steps on, and each hand turns by an angle of its own, *the same one wherever you started*. So
# there should be one matrix $M_k$ that takes any position's row to the row k steps later:
#
# $$\mathrm{PE}(pos + k) = \mathrm{PE}(pos)\, M_k \qquad \text{for every } pos$$
#
# Do not believe it. Let us hand the rows to a solver and ask for the matrix that fits best, once
# for early positions and once for late ones. (A small encoding, d = 8, with base 100, so that
# even its slowest hand moves.) **Predict**: what will the two have to do with each other?

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
# One matrix for all positions (you see its first two blocks), zero except for 2 × 2 blocks along
# the diagonal, and in each block a cosine and a sine: **a rotation**. The first pair turns by 3
# for three steps. So a layer that wants "the word three before me" needs to learn a single
# matrix, not one for each place.
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
# On the whole, near places are more alike than far ones, and *where* the pair stands is no
# matter. A sense of distance comes for free. (Not of direction: k before and k after give the
# same product.)
#
# ## How loud is a word, how loud is a place?
#
# Word and place are added, so they had better be about equally long. Are they? The code of
# *Attention Is All You Need* starts the embedding's numbers with a variance of 1/d. A vector of
# the encoding has d/2 pairs with sin² + cos² = 1 each. **Predict** the two lengths for d = 512,
# then run.

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
d_model = 512
words = nn.Embedding(1000, d_model)
nn.init.normal_(words.weight, std=d_model**-0.5)
word_length = words.weight.norm(dim=1).mean().item()
place_length = positions.sinusoidal_encoding(100, d_model).norm(dim=1).mean().item()
print(f"word: {word_length:.1f}   place: {place_length:.1f}   √d: {d_model**0.5:.1f}")
print(f"word · √d: {word_length * d_model**0.5:.1f}")

# %% [markdown]
# Sixteen to one: the words would hardly be heard. That is what the small print of the paper is
# for: *we multiply the embedding by √d_model*. Now it is 22.6 to 16.
#
# PyTorch's own `nn.Embedding` starts with a variance of 1, so there the word is 22.6 long to
# begin with. Who multiplies by √d again makes it 512, and the place is lost. The factor belongs
# to the initialisation, not to the architecture.
#
# ## Or let it learn them
#
# Why think at all? Give every position a vector of its own and train it like the words' vectors.
# GPT-2 and BERT do: `nn.Embedding(max_tokens, d_model)`. Row 5 is the name of position 5 because
# training made it so.
#
# One thing is clear at once: the table ends. Ask it for more and it must refuse.

# %% tags=["nbval-check-output"]
table = positions.LearnedPositions(max_tokens=64, d_model=32)
try:
    table(65)
except ValueError as error:
    print(error)

# %% [markdown]
# The paper on the Transformer tried both and found them "nearly identical". It chose the waves,
# for they "may allow the model to extrapolate to sequence lengths longer than the ones
# encountered during training". *May*. Did anybody look?
#
# Let us look. A small language model (two blocks, d_model = 64) reads Python's manual, 64
# characters at a time, and learns to guess the next character. Then we measure it on windows of
# 96 and of 128 characters. The learned table has 128 rows, so that it can be asked; only 64 of
# them are ever trained. With the waves, words are multiplied by √d, as above; learned positions
# start as small as the words. Three more kinds run along, which you will build further below:
# rotary, ALiBi, and none at all.

# %%
quiz("03-longer")

# %% [markdown]
# Here is a short run of it, live, with two kinds of position. The loss is the mean surprise at
# the next character, in *nats*: lower is better. There are about a hundred different characters,
# so ln 100 ≈ 4.6 is blind guessing; an untrained model starts there. *inside* are the 64 trained
# positions, *2×* the 64 beyond, both on pages that it has never seen.

# %%
STEPS = 80
for kind in ("learned", "sinusoidal"):
    watch = figures.LiveCurve(f"Does it learn to read? ({kind} positions)", STEPS)
    short = lengths.run(kinds=[kind], seeds=[0], steps=STEPS, tokens=64, watch=watch)[kind][0]
    print(f"{kind}: inside {short['inside']:.2f}, 2× {short['2']:.2f}")

# %% [markdown]
# Eighty steps are too few to say anything. The whole experiment, five kinds of position from
# three seeds each, takes some ten minutes. Its record lies in `data/lengths.json`, with the
# command that made it. `RETRAIN = True` makes it anew on your machine.

# %%
RETRAIN = False
record = recorded("lengths")
results = lengths.run(**record["settings"], say=print) if RETRAIN else record["results"]

losses = {
    kind: {part: mean_and_spread([run[part] for run in runs]) for part in ("inside", "1.5", "2")}
    for kind, runs in results.items()
}
for kind, runs in results.items():  # and the last eight positions, 121 to 128
    losses[kind]["end"] = mean_and_spread([sum(run["by_position"][-8:]) / 8 for run in runs])
print("positions               1 to 64       65 to 96      65 to 128     121 to 128")
for kind, by_part in losses.items():
    row = "   ".join(f"{mean:.2f} ± {spread:.2f}" for mean, spread in by_part.values())
    print(f"{kind:>20}   {row}")
print("mean ± standard deviation of three seeds, in nats")

# %%
means, spreads = {}, {}
for kind, runs in results.items():
    curves = torch.tensor([run["by_position"] for run in runs])  # (seeds, positions)
    smooth = curves.unfold(1, 8, 8).mean(-1)  # (seeds, positions / 8)
    means[kind], spreads[kind] = smooth.mean(0).tolist(), smooth.std(0).tolist()
figures.lines(
    [8 * i + 4 for i in range(16)],
    means,
    title="Which can read beyond what it was trained on?",
    x_label="position in the text",
    y_label="loss in nats",
    edge=(64, "trained up to here"),
    spread=spreads,
    alt="Mean loss up to position 64, and beyond it: "
    + ", ".join(
        f"{kind} {by_part['inside'][0]:.2f} and {by_part['2'][0]:.2f}"
        for kind, by_part in losses.items()
    )
    + ".",
)

# %% [markdown]
# Three things to see.
#
# **Inside**, learned and sinusoidal are *not* identical here: the learned ones are a little
# better, by much more than the seeds differ. (Our model is small and trains briefly. The paper's
# finding was for another size and another task.)
#
# **Beyond**, the waves break down nearly as badly as the rows that were never trained. The
# formula goes on for ever; the network that reads it does not. (A guess, not measured: hands that
# need a few hundred positions for a turn point, beyond 64, where they have never pointed.) *May
# allow* was as much as one could say.
#
# **Rotary** is the best inside, holds for half as much again, and then climbs steeply: its mean
# over 65 to 128 is a mean over a cliff, as the last column shows. **ALiBi** does not even notice.
# It is time to see what the two do. And *none*? A causal model is not quite blind without
# positions: token 0 sees one key, token 9 sees ten. It pays inside, and loses little beyond.
#
# ## Turn the queries and keys
#
# The best thing about the waves was that a step is a turn. But it had to pass through $W^Q$ and
# $W^K$ before two words could meet. Why not turn *there*, right before the dot product?
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
# `x` is (batch, heads, tokens, d_head), queries or keys; `where` (tokens,) says at which position
# each token stands. Neighbours make a pair: numbers 2i and 2i + 1.


# %% exercise="rotate_pairs" difficulty=2 minutes=15
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
# Now one query and one key, with each pair as a clock. Move the one, then the other, then both.

# %%
RotaryClock(d_head=8, seed=59)

# %% [markdown]
# The same on numbers. The score of a query at position m with a key at position n, for many m and
# n with the same distance:

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
q, k = torch.randn(2, 64).double()
scores = []
for n in range(0, 1000, 50):
    q_turned = rotate_pairs(q[None], torch.tensor([n + 7]))  # 7 tokens after the key
    k_turned = rotate_pairs(k[None], torch.tensor([n]))
    scores.append((q_turned @ k_turned.T).item())
rotary_spread = max(scores) - min(scores)
print(f"20 places, distance 7: every score is {scores[0]:.3f}, to 1e-3:", rotary_spread < 1e-3)
print(f"without the turning it would be {(q @ k).item():.3f}")

# %% [markdown]
# ### Exercise · the score by distance
#
# How does the score fall or rise with the distance, for one query and one key? `q` and `k` are
# (d_head,), `distances` (n,) whole numbers: the query stands so many tokens *after* the key, and
# before it where the number is negative. Give the scores q·k after the turning, (n,), unscaled.
# You may use `rotate_pairs`.


# %% exercise="score_at_distances" graded=true points=3 difficulty=2 minutes=15
def score_at_distances(q, k, distances, base=10000.0):
    """The rotary score for each distance: (n,)"""
    ### BEGIN SOLUTION
    at_each = q.expand(len(distances), -1)  # the same query, as so many tokens
    return rotate_pairs(at_each, distances, base) @ k
    ### END SOLUTION


# %% check="score_at_distances"
score_at_distances = check(score_at_distances)

# %% [markdown]
# How does it look, over many queries? We let each look for keys that are just like itself, and
# take the mean.

# %%
torch.manual_seed(0)
many = torch.randn(500, 64)
rotary = positions.Rotary(64)
away = torch.arange(0, 513, 4)
here = rotary(many[:, None].expand(-1, len(away), -1), away)  # (500, distances, 64)
by_distance = (here * many[:, None]).sum(-1)
figures.lines(
    away.tolist(),
    {"mean of 500": by_distance.mean(0).tolist()},
    title="How well does a query match its like, so far away?",
    x_label="distance in tokens",
    y_label="score",
    spread={"mean of 500": by_distance.std(0).tolist()},
    markers=False,
    alt=f"From {by_distance[:, 0].mean():.0f} at distance 0 it falls quickly at first, then in "
    f"small waves, to {by_distance[:, -1].mean():.0f} at distance 512.",
)

# %% [markdown]
# Nobody has asked for it, but what is near matches better, on average: the fast pairs soon turn
# away from each other, the slow ones hold on.
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
# writes worse. Whoever converts a checkpoint permutes the output numbers of $W^Q$ and $W^K$
# instead (the *rows* of `nn.Linear.weight`), once and for all. You will meet this again in lesson
# 10, with a real model.
#
# ### Find the bug · two layouts
#
# This function means to turn neighbours, by two tables and a line that gives each number its
# partner. Its shapes are right, and at position 0 its values too.


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
# What if all one wants is *near counts more than far*? Then say so. **ALiBi** leaves words,
# queries and keys as they are and subtracts something from each score, the more the farther the
# key is:
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
# What is added to the scores, (heads, queries, keys), for `n_heads` a power of two. Keys after
# the query count by their distance too; forbidding them is the mask's business.


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
    title="Whom would the last of 48 tokens attend to, were all words alike?",
    x_label="distance of the key",
    y_label="attention weight",
    markers=False,
    alt="Four falling lines. With slope 1/4 nearly all goes to the nearest ten tokens, with slope "
    f"1/256 the farthest still gets {share[3, 0] / share[3, -1]:.0%} of what the nearest gets.",
)

# %% [markdown]
# Go back to the figure of the experiment: ALiBi's is the line that runs on beyond 64 as if
# nothing had happened. Distance 100 is just a little farther than distance 60: the steep heads
# hear neither, the flat ones hear both nearly alike. The reverse side: what is far is *always*
# heard less, in every head.
#
# Rotary is better where it was trained, and most of today's models have it. When texts get
# longer, its base is made larger, so that the hands turn more slowly, and the model is trained a
# little on long texts.
#
# ## What we measured

# %%
claims = Claims("03_positions")
claims.add("without positions, order is no matter", "equal", f"{order_gap:.0e}", order_gap < 1e-6)
claims.add(
    "PE(pos + k) = PE(pos) · M, the same M everywhere",
    "linear",
    f"error {step_error:.0e}, early against late M {matrix_gap:.0e}",
    step_error < 1e-4 and matrix_gap < 1e-3,
)
claims.add(
    "a dot product of two encodings depends on the offset alone",
    "yes",
    f"same offset: within {offset_spread:.0e}",
    offset_spread < 1e-3,
)
claims.add(
    "× √d_model brings words to the size of places",
    "about equal",
    f"{word_length * d_model**0.5:.1f} to {place_length:.1f}, without it {word_length:.1f}",
    0.5 < word_length * d_model**0.5 / place_length < 2,
    only_if="the embedding starts with variance 1/d",
)
claims.add(
    "rotary: the score depends on the distance alone",
    "yes",
    f"within {rotary_spread:.0e}",
    rotary_spread < 1e-3,
)
claims.add("the two layouts", "equal when permuted", f"{layout_gap:.0e}", layout_gap < 1e-6)
claims

# %%
inside = {kind: by_part["inside"] for kind, by_part in losses.items()}
lost = {kind: by_part["2"][0] - by_part["inside"][0] for kind, by_part in losses.items()}
claims = Claims("03_positions, the experiment (three seeds)")
claims.add(
    "learned and sinusoidal are nearly identical inside the trained length",
    "nearly identical",
    "{:.2f} ± {:.2f} and {:.2f} ± {:.2f} nats".format(*inside["learned"], *inside["sinusoidal"]),
    abs(inside["learned"][0] - inside["sinusoidal"][0])
    < 2 * (inside["learned"][1] + inside["sinusoidal"][1]),
)
claims.add(
    "sinusoidal may extrapolate to longer sequences (ours: loses at most half as much at 2×)",
    "may allow",
    f"loses {lost['sinusoidal']:.2f} nats, learned {lost['learned']:.2f}",
    lost["sinusoidal"] < lost["learned"] / 2,
)
claims.add(
    "ALiBi: train short, test long",
    "no loss",
    f"at 2× {round(lost['alibi'], 2) + 0.0:.2f} nats more",
    lost["alibi"] < 0.05,
)
claims

# %% [markdown]
# How sure may we be? Most of the gaps are tenths and the seeds differ by hundredths: those are
# safe, for *this* model on *this* text. Not all are: inside, learned and ALiBi are nearly equal,
# and beyond, the worst runs with waves touch the best with learned positions. Of these we claim
# no order, and for large models none at all.
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
# - A. Vaswani et al., *Attention Is All You Need*, 2017, section 3.5 and table 3, row E: the two
#   that were nearly identical.
# - J. Su et al., *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021.
# - O. Press et al., *Train Short, Test Long*, 2021: ALiBi, and the measurement that the waves do
#   not extrapolate.
# - A. Haviv et al., *Transformer Language Models without Positional Encodings Still Learn
#   Positional Information*, 2022: why *none* is not so bad.
#
# **Next:** sums, turns, additions: after a few layers, how large are these numbers? Lesson 04
# keeps them in hand.
