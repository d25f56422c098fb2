# %% [markdown]
# # 11 · A real language model
#
# ![](drawings/map.svg)
#
# **Can the functions that you wrote run a model that other people have trained?** You have written
# attention, rotary positions, a norm, a gated MLP, a cache. Each of them passed a check. In this
# lesson they get the weights of SmolLM2-135M-Instruct, a small language model by Hugging Face (the
# paper is of 2025): 30 blocks, 134.5 million numbers, of the same kind as Meta's Llama. If one of
# your functions is wrong, it talks nonsense.
#
# Before it can read, its text must become tokens, so you write byte-pair encoding first. When it
# speaks, you look inside: at its heads, its stream, and what breaks when a part is taken out. In
# the end you teach it something new, by training three numbers in a thousand.
#
# *About 150 minutes. You need: lessons [02](02_multi_head_attention.ipynb) to
# [05](05_feed_forward.ipynb) (the parts), [09](09_language_model.ipynb) (generation, the cache) and
# [10](10_inside_the_heads.ipynb) (heads, the lens). The weights of both models are 180 MB: `make
# pretrained` fetches them. Without them the lesson runs too, and shows what was recorded.*

# %%
import time
from collections import Counter
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, check, figures, hint, mine, quiz, reveal
from tfcourse.attention import causal_mask
from tfcourse.experiments import adapters, mean_and_spread, published, recorded
from tfcourse.experiments.published import reading
from tfcourse.experiments.study import losses
from tfcourse.generation import generate
from tfcourse.models import PRESETS, LanguageModel, TransformerConfig, count_parameters
from tfcourse.pretrained import NotInstalled, load_minilm, load_smollm2
from tfcourse.tasks import Dates, python_manual
from tfcourse.tokens import BytePairEncoding
from tfcourse.training import fit
from tfcourse.widgets import AttentionMap, LogitLens

# %% [markdown]
# ## From text to tokens
#
# The model of lesson 09 read one character at a time. Then a text is long, and attention's cost
# grows with the square of its length. One could take whole words, but there is no end of words:
# names, typing errors, German. So one takes something between: pieces of words, the frequent ones
# whole, the rare ones in parts.
#
# Which pieces? Nobody decides that. **[Byte-pair
# encoding](glossary.ipynb#cell-id=byte-pair-encoding)** (Sennrich et al., 2016) finds them in a
# text. It begins with single letters. Then it looks which two neighbours stand side by side most
# often, makes *one* token of them wherever they stand, and does it again.
#
# First the text is cut into pieces, roughly words, each with the space before it. A token never
# reaches over the border of a piece. Here are a few pieces, and how often each stands in some text:

# %%
words = {" low": 5, " lower": 2, " newest": 6, " widest": 3}
pieces, how_often = [list(word) for word in words], list(words.values())

# %%
quiz("11-first-merge")

# %% [markdown]
# ### Exercise · the most frequent pair
#
# `pieces` is a list of pieces, each a list of tokens (strings). `how_often` says how often each
# piece stands in the text. Give the pair of neighbours `(left, right)` that stands in the text most
# often. A pair counts at each place where it stands: `a a a` holds the pair (a, a) twice. Pairs
# never reach from one piece into the next. Of pairs that are equally frequent give the one that is
# first in alphabetical order, as `min` has it. At least one piece has two tokens.


# %% exercise="most_frequent_pair" difficulty=1 minutes=10
def most_frequent_pair(pieces, how_often):
    """Lists of tokens, and how often each piece stands in the text -> (left, right)"""
    ### BEGIN SOLUTION
    count = Counter()
    for piece, times in zip(pieces, how_often, strict=True):
        for pair in pairwise(piece):
            count[pair] += times
    most = max(count.values())
    return min(pair for pair, times in count.items() if times == most)
    ### END SOLUTION


# %% check="most_frequent_pair"
most_frequent_pair = check(most_frequent_pair)

# %% [markdown]
# ### Exercise · make it one token
#
# Give a new list of tokens in which this pair has become one token wherever it stands. Go from left
# to right, and use each token once: with the pair (a, a), `a a a` becomes `aa a`. `tokens` itself
# is not changed.


# %% exercise="merge_pair" difficulty=1 minutes=8
def merge_pair(tokens, pair):
    """A list of tokens, (left, right) -> a new list"""
    ### BEGIN SOLUTION
    merged, i = [], 0
    while i < len(tokens):
        width = 2 if tuple(tokens[i : i + 2]) == tuple(pair) else 1
        merged.append("".join(tokens[i : i + width]))
        i += width
    return merged
    ### END SOLUTION


# %% check="merge_pair"
merge_pair = check(merge_pair)

# %% [markdown]
# With these two you can train a tokenizer. That is all there is to it:

# %% tags=["after-prediction", "nbval-check-output"]
merges = []
for _ in range(8):
    pair = most_frequent_pair(pieces, how_often)
    pieces = [merge_pair(piece, pair) for piece in pieces]
    merges.append(pair)
    print(f"{pair!s:>14}: ", " | ".join(" ".join(piece) for piece in pieces))

# %% [markdown]
# The ending `est` has become a token, and nobody has said what an ending is.
#
# ![](drawings/byte_pairs.svg)
#
# ### Find the bug · the order of merges
#
# How is a new word cut? In the way in which training would have cut it. `piece` is a string.
# `merges` are the pairs that training has merged, the first one first. Begin with single letters.
# Of all pairs that stand in the piece now, take the one that was found first in training, and merge
# it everywhere in the piece. Then look again, until no pair is left that was ever merged. Give the
# list of tokens.
#
# The code below often gets it right, but not always.


# %% exercise="encode_piece" difficulty=2 minutes=12
def encode_piece(piece, merges):
    """A string, a list of (left, right) -> a list of tokens"""
    tokens = list(piece)
    found = [pair for pair in pairwise(tokens) if pair in merges]
    while found:
        ### BEGIN SOLUTION
        first = min(found, key=merges.index)
        ### END SOLUTION
        ### BEGIN GIVEN
        # first = found[0]
        ### END GIVEN
        tokens = merge_pair(tokens, first)
        found = [pair for pair in pairwise(tokens) if pair in merges]
    return tokens


# %% check="encode_piece"
encode_piece = check(encode_piece)

# %% tags=["nbval-check-output"]
for word in (" lowest", " slowest", " news"):
    print(f"{word!r}:", encode_piece(word, merges))

# %% [markdown]
# The training text has no ` lowest`, and yet it is cut where you would have cut it. ` slowest`
# falls into letters: training has found ` low` with its space, and never inside a word.
#
# A real one begins with the 256 [bytes](glossary.ipynb#cell-id=bits-per-byte) of UTF-8 in place of
# letters (Radford et al., 2019). Then *every* text has tokens, in any script, and also what is no
# text at all. `BytePairEncoding` does the same as your functions, on bytes, and faster. How much
# shorter does the manual of lesson 09 get?

# %%
quiz("11-how-much-shorter")

# %% tags=["after-prediction"]
manual = python_manual()
learned, unseen = manual[:100_000], manual[200_000:220_000]
for size in (256, 512, 1024, 2048):
    encoding = BytePairEncoding.train(learned, size)
    ids = encoding.encode(unseen)
    assert encoding.decode(ids) == unseen
    print(f"{size:5} tokens: {len(unseen.encode()) / len(ids):.2f} bytes in one token")

# %% tags=["after-prediction"]
late = [encoding.tokens[i].decode("utf-8", "replace") for i in (256, 257, 300, 500, 1000, 2000)]
print("the 1st, 2nd, 45th, 245th, 745th and 1745th merge:", *map(repr, late))

# %% [markdown]
# ## What SmolLM2 reads
#
# SmolLM2 has 49,152 tokens, found in the same way in a great deal of text. Now the weights: where
# they are not installed, the cell says how to get them. `theirs` is the model, `tokens` its
# encoding. Below, `reading(name, theirs, tokens)` measures something with them, or, without
# weights, gives what was recorded. (All of it stands in `tfcourse/experiments/published.py`.)

# %%
began = time.perf_counter()
try:
    theirs, tokens = load_smollm2()
    print(f"{count_parameters(theirs) / 1e6:.1f} million, {time.perf_counter() - began:.0f} s")
except NotInstalled as missing:
    theirs = tokens = None
    print(missing)

# %%
print(*map(repr, published.CUT), sep="\n")

# %% [markdown]
# **Predict** before you run the next cell: how many tokens has `strawberry`? And `1234567`? Which
# of the last four costs the most tokens for each character?

# %% tags=["after-prediction"]
for text, its_pieces in reading("cut", theirs, tokens).items():
    print(f"{len(text):2} characters, {len(its_pieces):2} tokens: {' | '.join(its_pieces)!r}")

# %% [markdown]
# Each digit is a token of its own: the makers of SmolLM2 decided that, so that numbers are always
# cut alike. English words are mostly whole. Where training has seen little of a script, a letter
# falls apart into its bytes (shown as two hexadecimal digits each). Its users pay for it: the same
# sentence takes more tokens, so more time, and fills the model's window sooner.
#
# And why do such models fail at counting letters?

# %%
quiz("11-letters")

# %% [markdown]
# Here is what the model gets to see:

# %% tags=["after-prediction"]
question = published.CUT[0]
print(f"the text:       {question}")
print(f"in pieces:      {reading('cut', theirs, tokens)[question]}")
if tokens:
    print(f"what comes in:  {tokens.encode(question)}")

# %% [markdown]
# A number for each token, and a row of the embedding for each number. The letters of a token stand
# nowhere. What the model knows of them it must have learned from texts about spelling.
#
# One more consequence. A loss *per token* says little when two models cut text differently: one has
# fewer tokens, and each is harder to guess. So losses below are in [bits per
# byte](glossary.ipynb#cell-id=bits-per-byte), as in lesson 09: those can be compared.
#
# ## The weights in the file
#
# 134.5 million numbers in float32 are 538 MB, and the package's file is a sixth of that. Most of
# them are stored with *four bits*, [quantized](glossary.ipynb#cell-id=quantization). That loses
# something: the model that speaks here is a rounded one.
#
# ### Exercise · four bits a number
#
# The format is called Q4_1. Numbers come in blocks of 32. A block has a scale $d$, a least value
# $m$, and 16 bytes with two numbers in each: byte j holds the number q of place j in its lower four
# bits, and the one of place j + 16 in its upper four. A weight is
#
# $$w = q \cdot d + m, \qquad q = 0, …, 15$$
#
# `packed` is (blocks, 16), torch.uint8; `scale` and `least` are (blocks,), in float16. Give the
# weights, (blocks, 32), in float32. Take scale and least to float32 *first*, so that nothing is
# rounded to half precision on the way. (`byte & 15` gives the lower four bits, `byte >> 4` the
# upper four.)


# %% exercise="unpack_four_bits" graded=true points=3 difficulty=2 minutes=15
def unpack_four_bits(packed, scale, least):
    """(blocks, 16) bytes, (blocks,), (blocks,) -> (blocks, 32) in float32"""
    ### BEGIN SOLUTION
    numbers = torch.cat([packed & 15, packed >> 4], dim=-1).float()
    return numbers * scale.float()[:, None] + least.float()[:, None]
    ### END SOLUTION


# %% check="unpack_four_bits"
unpack_four_bits = check(unpack_four_bits)

# %% [markdown]
# Sixteen values for each block of 32 numbers: that is little. How far off are they? Here 32 random
# numbers are rounded to such a block, and then once more with one large number among them:

# %% tags=["after-prediction", "nbval-check-output"]
block = torch.randn(32, generator=torch.Generator().manual_seed(0))
for name, x in (
    ("32 random numbers", block),
    ("one of them is 10", torch.cat([block[:31], torch.tensor([10.0])])),
):
    d, m = (x.max() - x.min()) / 15, x.min()
    off = (((x - m) / d).round() * d + m - x)[:31].abs().mean()
    print(f"{name}: the others are off by {off / block[:31].abs().mean():.0%} of their size")

# %% [markdown]
# So it works because a block is small and has a scale of its own.
#
# ## A block of your own parts
#
# Which model is it? The preset has the sizes; they are those that the file says:

# %% tags=["nbval-check-output"]
config = PRESETS["smollm2-135m"]
for name in ("vocabulary", "d_model", "layers", "n_heads", "n_kv_heads", "d_ff"):
    print(f"{name}: {getattr(config, name):,}")
print(
    f"positions: rotary, base {config.rotary_base:,.0f}; norm: {config.norm}; tied: {config.tied}"
)

# %% [markdown]
# Nine heads of queries share three of keys and values ([lesson 02](02_multi_head_attention.ipynb)).
# The norm is RMSNorm ([04](04_norms.ipynb)), the MLP a SwiGLU ([05](05_feed_forward.ipynb)),
# positions are [rotary](glossary.ipynb#cell-id=rotary-positions) ([03](03_positions.ipynb)). You
# have written all of it. There is one snag: your `rotate_pairs` turns *neighbours*. These weights
# were trained with the other layout, split-half. But a score is a sum over the numbers of q and k.
# If both are reordered alike, the sum is the same, as long as each pair still turns by its own
# angle.
#
# ### Exercise · rows for neighbours
#
# `rows` is the weight of $W^Q$ or $W^K$ as `nn.Linear` stores it, (n_heads · d_head, d_model): one
# row for each number of each head, head after head. In each head of d_head numbers, number i and
# number i + d_head/2 are a pair, for i = 0, …, d_head/2 − 1. (For $W^K$, `n_heads` is the number of
# its own heads.) Give the same rows in another order, such that pairs become neighbours: row 2i of
# a head is what was its row i, and row 2i + 1 what was its row i + d_head/2.


# %% exercise="rows_for_neighbours" difficulty=2 minutes=12
def rows_for_neighbours(rows, n_heads):
    """(n_heads · d_head, d_model) -> the same shape, rows in another order"""
    ### BEGIN SOLUTION
    halves = rows.unflatten(0, (n_heads, 2, -1))  # (n_heads, 2, d_head / 2, d_model)
    return halves.transpose(1, 2).flatten(0, 2)
    ### END SOLUTION


# %% check="rows_for_neighbours"
rows_for_neighbours = check(rows_for_neighbours)

# %% [markdown]
# Now put together what you have. The parts have the same names as in the package's `Block`, so that
# a weight finds its place by its name. `mine` says whose each function is.


# %%
class MyAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, kv_width = c, c.n_kv_heads * c.d_head
        self.widths = [c.d_model, kv_width, kv_width]
        self.qkv = nn.Linear(c.d_model, sum(self.widths), bias=False)
        self.out = nn.Linear(c.d_model, c.d_model, bias=False)

    def forward(self, x, cache=None):
        c, past = self.c, cache.length if cache else 0
        q, k, v = self.qkv(x).split(self.widths, dim=-1)
        q = mine.split_heads(q, c.n_heads)
        k, v = mine.split_heads(k, c.n_kv_heads), mine.split_heads(v, c.n_kv_heads)
        where = torch.arange(past, past + x.shape[1])
        q, k = (mine.rotate_pairs(t, where, c.rotary_base) for t in (q, k))
        if cache:
            k, v = cache.append(k, v)
        mask = causal_mask(q.shape[2], k.shape[2])
        return self.out(mine.merge_heads(mine.grouped_query_attention(q, k, v, mask)))


# %%
class MyNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(c.d_model)), c.eps

    def forward(self, x):
        return mine.rms_norm(x, self.weight, self.eps)


class MyMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate, self.up = (nn.Linear(c.d_model, c.d_ff, bias=False) for _ in range(2))
        self.down = nn.Linear(c.d_ff, c.d_model, bias=False)

    def forward(self, x):
        both = torch.cat([self.gate.weight, self.up.weight])
        return mine.gated_feed_forward(x, both, self.down.weight, "silu")


# %%
class MyBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention_norm, self.attention = MyNorm(c), MyAttention(c)
        self.feed_forward_norm, self.feed_forward = MyNorm(c), MyMLP(c)

    def forward(self, x, causal=True, cache=None):
        x = x + self.attention(self.attention_norm(x), cache)
        return x + self.feed_forward(self.feed_forward_norm(x))


@torch.no_grad()
def of_my_parts(model):
    """The same model with blocks of my own, its weights copied by name"""
    own = LanguageModel(model.config, block=MyBlock).eval()
    own.norm = MyNorm(model.config)
    own.load_state_dict(model.state_dict())  # strict: what is missing or left over is an error
    for block in own.blocks:
        qkv, c = block.attention.qkv.weight, model.config
        q, k, v = qkv.split(block.attention.widths)
        q, k = rows_for_neighbours(q, c.n_heads), rows_for_neighbours(k, c.n_kv_heads)
        qkv.copy_(torch.cat([q, k, v]))
    return own


# %% [markdown]
# First a small one with random weights. The package's blocks turn halves, yours neighbours. If all
# is right, nobody can tell them apart:

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
small = TransformerConfig(
    100, 48, 6, 3, n_kv_heads=2, d_ff=80, norm="rms", activation="silu", gated=True, bias=False,
    tied=True, rotary_base=1000.0, rotary_layout="split-half",
)  # fmt: skip
package = LanguageModel(small).small_embeddings().eval()
text = torch.randint(100, (2, 30))
with torch.no_grad():
    small_gap = (of_my_parts(package)(text) - package(text)).abs().max().item()
print("the same logits to 1e-5:", small_gap < 1e-5)

# %% [markdown]
# ## It speaks
#
# And now the real one.

# %% tags=["after-prediction"]
model = of_my_parts(theirs) if theirs else None
for token, chance in reading("next tokens", model, tokens):
    print(f"{published.PROMPT}{token}: {chance:.1%}")

# %% [markdown]
# That was computed by functions that you wrote (those that `mine` has named as yours). How exact is
# it? Hugging Face's `transformers` has read the same file, and at every place of three texts its
# largest logit was recorded. Here is yours beside it:

# %%
recorded_logits = recorded("published")["results"]["hugging face"]
logit_gap = 0.0
for hf, own in zip(recorded_logits, reading("largest logits", model, tokens), strict=True):
    gap = max(abs(a - b) for a, b in zip(hf["logits"], own["logits"], strict=True))
    same = sum(a == b for a, b in zip(hf["ids"], own["ids"], strict=True))
    print(f"{len(hf['ids']):3} tokens: same token at {same} places, logits apart by {gap:.0e}")
    logit_gap = max(logit_gap, gap)

# %% [markdown]
# Now let it write, with the cache of lesson 09. The text appears as it is made, token by token:

# %% tags=["after-prediction"]
print(published.STORY, end="")
if model:
    generate(model, [tokens.encode(published.STORY)], 40, temperature=0, watch=tokens.streamed())
else:
    print(reading("written", model, tokens))

# %% [markdown]
# Try other beginnings, and the temperature of lesson 09. It is a small model, and it has been
# trained further to answer: with `<|im_start|>user\n…<|im_end|>\n<|im_start|>assistant\n` around a
# question it writes an answer. (These are special tokens: each is cut out as one token before any
# merging.)

# %%
my_prompt = "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
if model:
    stop = tokens.special["<|im_end|>"]
    generate(
        model, [tokens.encode(my_prompt)], 30, temperature=0, stop=stop, watch=tokens.streamed()
    )

# %% [markdown]
# ## Two hundred and seventy heads
#
# Thirty layers with nine heads each. What do they look at in a sentence? Choose a layer, and sort
# its heads by *first token*: one of the first layers, then one of the second half. (Put in a
# sentence of your own, with some twenty tokens at most.)

# %% tags=["after-prediction"]
my_sentence = published.SENTENCE
seen = published.kept_maps(reading("maps", theirs, tokens, *([my_sentence] if theirs else [])))
AttentionMap(seen["weights"], seen["tokens"], title="What does each of the 270 heads look at?")

# %%
quiz("11-sink")

# %% [markdown]
# Many heads put more than half of their weight on the first token, whichever token asks. How many?
# The mean weight on the first token, over windows of the manual:

# %% tags=["after-prediction"]
shares = reading("first shares", theirs, tokens)
figures.grid(
    list(zip(*shares, strict=True)),
    title="Which heads look at the first token?",
    x_label="layer",
    y_label="head",
    colour_label="mean weight on the first token",
    alt="Mean over the heads of each layer: "
    + ", ".join(f"{sum(row) / len(row):.0%}" for row in shares),
)

# %% tags=["after-prediction"]
flat = [share for row in shares for share in row]
other_word = [
    share for row in reading("first shares, another word first", theirs, tokens) for share in row
]
for name, values in (("as it is", flat), ("' of' put in front", other_word)):
    print(f"{name:>20}: {sum(v >= 0.5 for v in values)} of {len(values)} heads with half or more")

# %% [markdown]
# It is not a matter of what stands there: with another word in front, as many heads look at that
# one. This is a [**sink**](glossary.ipynb#cell-id=attention-sink) (Xiao et al., 2023). The weights
# of a row must sum to 1, also when a head finds nothing that it is looking for. So it needs a place
# where weight does no harm. The first token is one that everybody can see. Does it do no harm? A
# head adds weight · value. How long is the value vector of the first token, beside those of the
# other tokens?

# %% tags=["after-prediction"]
ratios = reading("sink sizes", theirs, tokens)["ratio"]
for layers in (range(2), range(2, 10), range(10, 20), range(20, 30)):
    lengths = [ratio for layer in layers for ratio in ratios[layer]]
    print(f"layers {layers[0]:2} to {layers[-1]:2}: the first token's value is "
          f"{mean_and_spread(lengths)[0]:.2f} times as long as the others'")  # fmt: skip

# %% [markdown]
# Where heads use it as a sink, the first token has little to give. In the first two layers it has
# as much as the others, and there (see the figure) no head has its sink.
#
# And what if the sink is taken away? Let each token see only the last 64. Such a *window* keeps the
# cache small, and one would think that what matters is mostly near. In a text of 256 tokens most
# queries can then no longer see the first one.

# %%
quiz("11-window")

# %% tags=["after-prediction"]
near = recorded("published")["results"]["short sight"]
for name, bits in near.items():
    mean, spread = mean_and_spread(bits)
    print(f"{name:>17}: {mean:.2f} ± {spread:.2f} bits per byte")

# %% [markdown]
# (From the record; `published.short_sight(theirs, tokens)` makes it again in half a minute.)
# *Other* are four tokens from places 32 to 35: as many keys, and no sink.
#
# Lesson 10 had [induction heads](glossary.ipynb#cell-id=induction-head) in a model of two layers.
# Are there any here? Random tokens, said twice; the control has another second half.

# %% tags=["after-prediction"]
scores = reading("induction", theirs, tokens)
for name, table in scores.items():
    best = sorted(
        (
            (score, f"layer {i} head {j}")
            for i, row in enumerate(table)
            for j, score in enumerate(row)
        ),
        reverse=True,
    )[:4]
    print(f"{name:>13}: " + ", ".join(f"{head} {score:.2f}" for score, head in best))

# %% [markdown]
# ## The stream, read early
#
# The [logit lens](glossary.ipynb#cell-id=logit-lens) again: what would it say if it ended after 0,
# 1, 2, … blocks? In which block does " Paris" come up?

# %% tags=["after-prediction"]
lens = recorded("published")["results"]["lens"]
print("after 0, 1, 2, … blocks:", " ".join(repr(token) for token in lens["said"]))
figures.lines(
    list(range(len(lens["right"]))),
    {"right next tokens": lens["right"]},
    title="After how many blocks can the lens read the next token?",
    x_label="blocks",
    y_label="share of right next tokens",
    alt=f"From {lens['right'][0]:.0%} with no block to {lens['right'][-1]:.0%} with all of them.",
)

# %% [markdown]
# The right word comes up at the very end. That does not mean that the model did not know it before:
# the lens reads early streams with a norm and a head that were made for the last one.

# %%
if theirs:
    ids = torch.tensor([tokens.encode(published.PROMPT)])
    with torch.no_grad():
        said = published.logit_lens(theirs, ids)
    words = [tokens.decode([i]) for i in range(tokens.size)]
    display(LogitLens(said, words, ids[0].tolist()))

# %% [markdown]
# ## Take a part out
#
# Thirty blocks, each with attention and an MLP: sixty sub-layers that add something to the stream.
# Take one out, so that it adds nothing, and see what it costs. Is every block as important as the
# others?

# %%
quiz("11-which-part")

# %% tags=["after-prediction"]
bits = recorded("published")["results"]["without"]
whole = bits["nothing"]
cost = {
    part: mean_and_spread([b - a for a, b in zip(whole, found, strict=True)])[0]
    for part, found in bits.items()
    if part != "nothing"
}
least = 0.001  # some cost nothing, or less: there is no place for that on a logarithmic axis
figures.lines(
    list(range(30)),
    {kind: [max(cost[f"{kind} {i}"], least) for i in range(30)] for kind in ("attention", "MLP")},
    title="What does it cost to take one sub-layer out?",
    x_label="block",
    y_label=f"bits per byte more (log, from {least})",
    log_y=True,
    alt=f"Without the MLP of block 0 {cost['MLP 0']:.2f}; half of all parts cost less than "
    f"{sorted(cost.values())[len(cost) // 2]:.2f}.",
)

# %% tags=["after-prediction"]
print(f"whole: {mean_and_spread(whole)[0]:.2f} bits per byte")
order = sorted(cost, key=cost.get, reverse=True)
for part in [*order[:6], *order[-2:]]:
    gap = published.paired(bits[part], whole)
    print(f"without {part:>12}: {gap} more")

# %% [markdown]
# (From the record, eight windows of the manual, 96 tokens each; the interval is over the windows.
# With more text before it a token is easier to guess, so compare within one table only. *positions*
# is without rotation in any block. A part that is taken out leaves a hole, as in lesson 10: part of
# what it costs is the surprise of those behind.) Try one yourself:

# %%
if theirs:
    part = "MLP 0"
    [mine_whole, without] = published.without(theirs, tokens, [part]).values()
    print(f"without {part}: {published.paired(without, mine_whole)} bits per byte more")

# %% [markdown]
# The model can do without most sub-layers, if you take out one at a time: the stream goes on past
# them. Not so the first MLP. A likely reason: all later blocks were trained to read what it writes.
# Some others cost much too, and nothing in the drawing of the model tells you which. (Without the
# last norm the logits have another size altogether: that is no knowledge, it is the scale.)
#
# ## One vector for a sentence
#
# Not every published model writes. **MiniLM** reads: an encoder of BERT's kind, six blocks,
# post-norm, GELU, learned positions. Every token sees all others, and what comes out is a vector
# for each token. Its makers trained it such that the *mean* of these vectors says what a sentence
# is about. Sentences have unequal lengths, so a batch is padded.
#
# ### Exercise · one vector for a sentence
#
# `vectors` is (batch, tokens, d_model). `real` is (batch, tokens), boolean: True where a token is
# real, False where it is padding, which may stand on either side. Give for each sentence the mean
# over its real tokens, scaled to length 1: (batch, d_model). A sentence without any real token
# gives zeros, and its gradient stays finite. (`F.normalize(t, dim=-1)` divides each vector by its
# length, and leaves zeros as they are.)


# %% exercise="sentence_vectors" difficulty=1 minutes=10
def sentence_vectors(vectors, real):
    """(batch, tokens, d_model), (batch, tokens) -> (batch, d_model), of length 1"""
    ### BEGIN SOLUTION
    count = real.sum(dim=1, keepdim=True).clamp(min=1)
    mean = torch.where(real[..., None], vectors, 0.0).sum(dim=1) / count
    return F.normalize(mean, dim=-1)
    ### END SOLUTION


# %% check="sentence_vectors"
sentence_vectors = check(sentence_vectors)

# %%
try:
    minilm = load_minilm()
except NotInstalled as missing:
    minilm = None
    print(missing)


def vectors_of(texts):
    vectors, real = minilm.read(texts)  # (texts, tokens, 384), (texts, tokens)
    return sentence_vectors(vectors, real)


# %% [markdown]
# The cosine of two such vectors is their dot product. Which sentence is nearest to which? Note the
# two with *bank*: one word, two meanings.

# %% tags=["after-prediction"]
similar = torch.tensor(published.alike(vectors_of if minilm else None))
for i, sentence in enumerate(published.SENTENCES):
    j = similar[i].clone().index_fill(0, torch.tensor(i), -1).argmax().item()
    print(f"{sentence:36} {similar[i, j]:.2f}  {published.SENTENCES[j]}")

# %% [markdown]
# So one can search by meaning: make a vector of each text once, keep them, and take the nearest to
# a question's vector. *Kitten* and *cat* are two different words, and still their sentences are
# nearest to each other. But *nearest* does not mean *near*: look at the numbers too. And with
# *bank* the word may win over its meaning.
#
# ## Teach it something
#
# We want the model to write `3rd of march 2021` as `2021-03-03`. Can it learn that in a few steps?
# One way is to train all 134.5 million weights, full
# [**fine-tuning**](glossary.ipynb#cell-id=fine-tuning). Then AdamW needs two more numbers for each,
# and each new task is another file of half a gigabyte.
#
# [**LoRA**](glossary.ipynb#cell-id=LoRA) (Hu et al., 2021) leaves the published matrix $W$ as it is
# and learns a small change beside it, a product of two thin matrices:
#
# $$y = x W^\top + \frac{\alpha}{r}\; x A^\top B^\top$$
#
# $A$ is (r, d_in), $B$ is (d_out, r), and the **rank** r is small, 8 perhaps. $B$ begins with
# zeros: so at first nothing is changed. α says how much the change counts.
#
# ![](drawings/lora.svg)
#
# ### Exercise · a small change beside a large matrix
#
# `x` is (batch, tokens, d_in), `weight` (d_out, d_in), stored as `nn.Linear` stores it; `a` is
# (rank, d_in), `b` is (d_out, rank). Give (batch, tokens, d_out). The published matrix is *frozen*:
# no gradient may reach `weight`; `x`, `a` and `b` get theirs. Do not build the matrix $B A$, which
# is as large as $W$: go through the rank.


# %% exercise="lora" difficulty=2 minutes=12
def lora(x, weight, a, b, alpha):
    """(batch, tokens, d_in) -> (batch, tokens, d_out)"""
    ### BEGIN SOLUTION
    change = F.linear(F.linear(x, a), b)
    return F.linear(x, weight.detach()) + alpha / a.shape[0] * change
    ### END SOLUTION


# %% check="lora"
lora = check(lora)

# %% [markdown]
# Now put it beside the projection of q, k and v in all thirty blocks. All else is frozen: thirty
# pairs of thin matrices learn.


# %%
class WithLoRA(nn.Module):
    def __init__(self, linear, rank=8, alpha=16):
        super().__init__()
        self.linear, self.alpha = linear, alpha
        self.a = nn.Parameter(torch.randn(rank, linear.in_features) / linear.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return lora(x, self.linear.weight, self.a, self.b, self.alpha)


# %% [markdown]
# The texts are those of [lesson 08](08_encoder_decoder.ipynb): days in many ways of writing, and
# what should come out. Some days are kept for the end. What does it write before it has learned
# anything?

# %% tags=["after-prediction"]
dates = Dates()
unseen_days = dates.texts(20, torch.Generator().manual_seed(7), "held out")
asked = unseen_days[0][0] + adapters.ARROW
print(f"wanted: {asked}{unseen_days[0][1]}")
if theirs:
    print(f"written: {asked}{published.written(theirs, tokens, asked, 12)!r}")

# %%
quiz("11-forget")

# %% [markdown]
# A few steps live, with your `lora`. (`fit` trains what asks for a gradient.)

# %% tags=["after-prediction"]
LIVE_STEPS = 12
if theirs:
    torch.manual_seed(0)
    theirs.requires_grad_(False)
    for block in theirs.blocks:
        block.attention.qkv = WithLoRA(block.attention.qkv)
    trained = sum(p.numel() for p in theirs.parameters() if p.requires_grad)
    print(f"{trained:,} numbers learn: {trained / count_parameters(theirs):.2%} of all")
    chance = torch.Generator().manual_seed(0)
    fit(
        theirs,
        lambda: adapters.loss_of(theirs, tokens, dates.texts(adapters.BATCH, chance)),
        steps=LIVE_STEPS, learning_rate=3e-3, warm_up=3, clip=1.0, progress="days",
    )  # fmt: skip
    print(f"written: {asked}{published.written(theirs, tokens, asked, 12)!r}")
    _, right = adapters.on_dates(theirs, tokens, unseen_days)
    print(f"{right:.0%} of {len(unseen_days)} unseen days")

# %% [markdown]
# The record has more steps, five seeds, and both ways, each with a learning rate of its own.
# The last arm has learned nothing.

# %%
study = recorded("adapters")
tuned = study["results"]
print(f"{study['settings']['steps']} steps, {len(study['settings']['seeds'])} seeds")
for arm in adapters.ARMS:
    right, bits = (mean_and_spread(losses(tuned, arm, key=k)) for k in ("exact", "bits per byte"))
    learned = losses(tuned, arm, key="parameters")[0] / 1e6
    rate = f"{tuned['chosen'].get(arm, 0):g}"
    print(f"{arm:>11}, rate {rate:>6}: {learned:6.2f} million learn; "
          f"{right[0]:4.0%} ± {right[1]:.0%} of unseen days; "
          f"the manual {bits[0]:.3f} ± {bits[1]:.3f} bits per byte")  # fmt: skip

# %% [markdown]
# So some twelve thousand numbers for each block are enough to teach it to copy the day into the
# form. Between LoRA and full fine-tuning there is no difference that we can tell, after so few
# steps. What was learned fits into a file of one or two megabytes, and one published model can have
# many of them. Once trained, the product $B A$, times α/r, can be added to $W$, and the model is as
# fast as before.
#
# And both have forgotten something of the manual. The one that changed few numbers has forgotten
# *more* here. A possible reason: its learning rate is much higher, and was chosen for what it
# learns, not for what it keeps. We have not tested that. (One task, one model, a few steps.)

# %% [markdown]
# ## What we measured

# %%
claims = Claims("11_a_real_llm")
claims.add("own-block-same-logits", small_gap)
claims.add("smollm2-same-logits", logit_gap)
claims.add("first-tokens-recover-window-attention", near)
claims.add("sinks-bring-little", shares, ratios)
claims.add("smollm2-has-induction-heads", scores)
for claim in adapters.CLAIMS:
    claims.add(claim.id, tuned)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("11-quiz-layout")

# %%
quiz("11-quiz-strict")

# %%
quiz("11-quiz-lora")

# %% [markdown]
# ## Further reading
#
# - R. Sennrich, B. Haddow, A. Birch, [*Neural Machine Translation of Rare Words with Subword
#   Units*](https://arxiv.org/abs/1508.07909), 2016: byte-pair encoding.
# - L. Ben Allal et al., [*SmolLM2: When Smol Goes Big*](https://arxiv.org/abs/2502.02737), 2025:
#   what the model of this lesson was trained on.
# - H. Touvron et al., [*LLaMA: Open and Efficient Foundation Language
#   Models*](https://arxiv.org/abs/2302.13971), 2023.
# - G. Xiao et al., [*Efficient Streaming Language Models with Attention
#   Sinks*](https://arxiv.org/abs/2309.17453), 2023.
# - N. Reimers, I. Gurevych, [*Sentence-BERT*](https://arxiv.org/abs/1908.10084), 2019; W. Wang et
#   al., [*MiniLM*](https://arxiv.org/abs/2002.10957), 2020.
# - E. Hu et al., [*LoRA: Low-Rank Adaptation of Large Language
#   Models*](https://arxiv.org/abs/2106.09685), 2021.
#
# **Before:** [lesson 10](10_inside_the_heads.ipynb), inside the heads. **Next:** [lesson
# 12](12_scale.ipynb): how large, how fast, on how many machines?
