# %% [markdown]
# # 09 · A model that writes
#
# ![](drawings/map.svg)
#
# **How well can a text be predicted, and what comes out if a model goes on and on?** GPT, Llama and
# Claude are first trained for one thing: to say what comes next. (To follow instructions they are
# trained once more; that is not in this lesson.) To write, one draws a token from what the model
# says, puts it behind the text, and asks again.
#
# In this lesson you measure how surprising a text is, and find the line that no honest model gets
# under. Then you build a language model, of your own block, your own heads and your own rotary
# positions. You train it on Python's manual, or on a text of your own, and make it write.
#
# *About 160 minutes. You need: lessons [03](03_positions.ipynb) (rotary positions),
# [06](06_transformer_block.ipynb) (your block) and [07](07_going_deep.ipynb) (training).
# [Lesson 08](08_encoder_decoder.ipynb) helps, but this one stands without it.*

# %%
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tfcourse import Claims, check, figures, hint, mine, quiz, reveal
from tfcourse.attention import causal_mask, scaled_dot_product_attention
from tfcourse.blocks import Block
from tfcourse.claims.claim import paired
from tfcourse.experiments import known_entropy as study
from tfcourse.experiments import manual as shipped
from tfcourse.experiments import mean_and_spread, recorded
from tfcourse.experiments import race as racing
from tfcourse.experiments.study import losses
from tfcourse.generation import generate, next_token_probabilities
from tfcourse.models import PRESETS, count_parameters
from tfcourse.models import LanguageModel as PackageModel
from tfcourse.positions import Rotary
from tfcourse.race import board
from tfcourse.tasks import CharacterText, MarkovText, python_manual
from tfcourse.training import fit
from tfcourse.widgets import NextToken, Playground

rotate_pairs = mine.rotate_pairs

# %% [markdown]
# ## How surprising is a text?
#
# How surprised are you when it rains in the desert? Something that has probability p surprises by
#
# $$-\log p$$
#
# Certain things (p = 1) do not surprise at all, and two things that have nothing to do with each
# other surprise by the sum of both. With the natural logarithm the unit is the
# [nat](glossary.ipynb#cell-id=nat); with the logarithm to base 2 it is the bit.
#
# The **[entropy](glossary.ipynb#cell-id=entropy)** of a distribution p is its surprise on average.
# Each symbol is as surprising as −log p(symbol), and comes with probability p(symbol):
#
# $$H(p) = -\sum_{\text{symbol}} p(\text{symbol}) \log p(\text{symbol})$$

# %%
quiz("09-coin")

# %% tags=["after-prediction", "nbval-check-output"]
coins = {"fair": [0.5, 0.5], "nine in ten": [0.9, 0.1], "both sides heads": [1.0, 0.0]}
for name, shares in coins.items():
    nats = torch.special.entr(torch.tensor(shares)).sum().item()
    print(f"{name:>16}: {nats:.3f} nats = {nats / math.log(2):.3f} bits")

# %% [markdown]
# ### A source that we know
#
# Nobody knows the entropy of English. So we begin with a source that we have made ourselves. It has
# eight symbols, a to h. Which one comes next depends on the two before it: for each pair there is a
# distribution, drawn once by chance and kept. (This is a Markov chain of order 2.)

# %% tags=["nbval-check-output"]
source = MarkovText()
text = source.batch(1, 70, torch.Generator().manual_seed(0))[0]
print("".join("abcdefgh"[i] for i in text.tolist()))
for pair in ("ab", "ha"):
    shares = source.next[*("abcdefgh".index(letter) for letter in pair)]
    told = ", ".join(f"{c} {s:.0%}" for c, s in zip("abcdefgh", shares.tolist(), strict=True))
    print(f"after {pair}: {told}")

# %% [markdown]
# Since we know these distributions, we know how surprising the next symbol is, for one who knows
# them as well. The mean over all pairs ab, each as often as it comes, is the [**entropy
# rate**](glossary.ipynb#cell-id=entropy-rate) of the source:
#
# $$h = -\sum_{a,b} \pi(ab) \sum_c p(c \mid ab) \log p(c \mid ab)$$
#
# Here π(ab) is how often the pair comes (`source.pairs`), and p(c | ab) how often c follows it
# (`source.next`).

# %% tags=["nbval-check-output"]
often = source.pairs.sum(0)  # how often each symbol comes, whatever is before it
frequencies = torch.special.entr(often).sum().item()
print(f"guessing blindly:            {math.log(8):.3f} nats a symbol")
print(f"knowing the frequencies:     {frequencies:.3f}")
print(f"knowing all: entropy rate    {source.entropy_rate:.3f}")

# %% [markdown]
# ## What a wrong belief costs
#
# Now somebody believes in q, while the text comes from p. A symbol surprises them by −log q, but it
# comes as often as p says. On average that is the
# **[cross-entropy](glossary.ipynb#cell-id=cross-entropy)**, the loss of every language model in
# this course:
#
# $$H(p, q) = -\sum p \log q = H(p) + \mathrm{KL}(p \,\|\, q),
# \qquad \mathrm{KL}(p \,\|\, q) = \sum p\,(\log p - \log q)$$
#
# The sum is over the symbols. The second part, the
# [**KL divergence**](glossary.ipynb#cell-id=KL-divergence) (Kullback–Leibler), is what the wrong
# belief costs. It is 0 if q = p, and it is never below 0. So nobody gets under the entropy: the
# first part is not ours to choose, and the second can at best be 0.
#
# ### Exercise · the divergence
#
# `p` and `q` are probabilities of one shape, (…, symbols): each row along the last axis sums to
# one. Give KL(p ‖ q) in nats for each row, a tensor of shape (…). A symbol that p holds impossible
# adds nothing, whatever q says of it: 0 · log 0 counts as 0. Where q holds impossible what p does
# not, the divergence is infinite. Write it with logarithms and sums.


# %% exercise="kl_divergence" difficulty=1 minutes=10
def kl_divergence(p, q):
    """(…, symbols) and (…, symbols) -> (…), in nats"""
    ### BEGIN SOLUTION
    each = torch.where(p > 0, p * (p.log() - q.log()), 0.0)
    return each.sum(dim=-1)
    ### END SOLUTION


# %% check="kl_divergence"
kl_divergence = check(kl_divergence)

# %% [markdown]
# Somebody who knows the frequencies only, and nothing of pairs: what does this belief cost? It
# should be the difference between the last two numbers above.

# %% tags=["nbval-check-output"]
after_each_pair = kl_divergence(source.next, often.expand_as(source.next))  # (symbols, symbols)
cost = (source.pairs * after_each_pair).sum().item()
print(f"{source.entropy_rate:.3f} + {cost:.3f} = {source.entropy_rate + cost:.3f}")

# %% [markdown]
# ## Half a translator is enough
#
# A language model reads what is there and says what comes next. It needs no encoder: its own text
# is all that it reads. So take the decoder of [lesson 08](08_encoder_decoder.ipynb), leave out
# cross-attention, and you have the **decoder-only** model, which is what GPT is.
#
# ![](drawings/language_model.svg)
#
# The head has a row for each token of the vocabulary, d_model numbers each; and so has the
# embedding. Here they are one table, [tied](glossary.ipynb#cell-id=tied): a token's score is the
# dot product of the normalized stream with the token's own embedding. (GPT-2 does so; Llama keeps
# two tables.)
#
# ### Exercise · the language model
#
# `tokens` is (batch, tokens); give the [logits](glossary.ipynb#cell-id=logits) of what follows each
# of them, (batch, tokens, vocabulary). Everything is made in `__init__`. The blocks are called
# `block(x, causal=True)`; they are pre-norm and know their positions by themselves (rotary).


# %% exercise="LanguageModel" difficulty=1 minutes=12
class LanguageModel(nn.Module):
    """tokens (batch, tokens) -> logits (batch, tokens, vocabulary)"""

    def __init__(self, vocabulary, d_model, n_heads, layers, block=None):
        super().__init__()
        make = block or (lambda: Block(d_model, n_heads, rotary=Rotary(d_model // n_heads)))
        self.tokens = nn.Embedding(vocabulary, d_model)
        self.blocks = nn.ModuleList(make() for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocabulary, bias=False)
        self.head.weight = self.tokens.weight  # tied
        nn.init.normal_(self.tokens.weight, std=d_model**-0.5)  # logits about 1 in size

    def forward(self, tokens):
        ### BEGIN SOLUTION
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(self.norm(x))
        ### END SOLUTION


# %% check="LanguageModel"
LanguageModel = check(LanguageModel)

# %% [markdown]
# How much does tying save? That depends on how large the table is beside the blocks:

# %% tags=["nbval-check-output"]
for name, does in (("gpt2", "saves"), ("llama-7b", "would save")):
    with torch.device("meta"):  # shapes without numbers
        whole = count_parameters(PackageModel(PRESETS[name]))
    would_save = PRESETS[name].vocabulary * PRESETS[name].d_model
    print(f"{name}: it {does} {would_save / 1e6:.0f} million beside {whole / 1e6:,.0f} million: "
          f"{would_save / whole:.0%}")  # fmt: skip

# %% [markdown]
# ## Down to the line
#
# Your model now learns from the source. It gets texts of 64 symbols and has to say, at each place,
# what comes next. How low can its loss get?

# %%
quiz("09-line")

# %% [markdown]
# Only places that have two symbols before them count: at the first ones, even one who knows the
# source has less to go by. The held-out loss is of texts that it has never seen.

# %%
STEPS = 300
torch.manual_seed(0)
model = LanguageModel(source.symbols, d_model=64, n_heads=4, layers=2)
generator = torch.Generator().manual_seed(0)
unseen = source.batch(200, 65, torch.Generator().manual_seed(1))


def loss_on(text):
    """Nats a symbol, where two symbols stand before."""
    return F.cross_entropy(model(text[:, :-1])[:, 1:].mT, text[:, 2:])


def held_out():
    with torch.no_grad():
        return loss_on(unseen)


curve = fit(
    model,
    lambda: loss_on(source.batch(32, 65, generator)),
    steps=STEPS,
    learning_rate=3e-3,
    warm_up=30,
    decay=True,
    clip=1.0,
    watch=figures.LiveCurve("How far down does the loss come?", STEPS, held_out=held_out),
)

# %% tags=["after-prediction"]
with torch.no_grad():
    said = torch.softmax(model(unseen[:, :-1])[:, 1:].double(), dim=-1)
truth = source.log_probabilities(unseen[:, :-1])
of_the_source = F.nll_loss(truth.mT, unseen[:, 2:]).item()
gap = kl_divergence(truth.exp(), said).mean().item()
print(f"the source itself, on these texts: {of_the_source:.4f} nats")
print(f"your model:                        {held_out():.4f}, that and "
      f"{held_out() - of_the_source:.4f} more")  # fmt: skip
print(f"its KL divergence from the source: {gap:.4f}")

# %% [markdown]
# It comes down to the line and stays above it, and what is left above the line *is* the KL
# divergence. (Gap and KL differ a little, since these texts are a sample.) It was told nothing of
# pairs or probabilities; it only saw letters.
#
# Is that always so? The record has five runs, and two controls. *Shuffled*: the same texts, their
# symbols in random order. There only the frequencies are left to learn, and the line is theirs.
# *32 texts*: always the same ones, again and again.

# %%
RETRAIN = False
record = recorded("known_entropy")
found = study.run(**record["settings"], say=print) if RETRAIN else record["results"]
for arm in study.ARMS:
    train = mean_and_spread(losses(found, arm, key="training"))
    new = mean_and_spread(losses(found, arm))
    print(f"{arm:>10}: in training {train[0]:.3f} ± {train[1]:.3f}, "
          f"on new text {new[0]:.3f} ± {new[1]:.3f} nats")  # fmt: skip

# %% tags=["after-prediction"]
curves = {arm: losses(found, arm, key="curve")[0] for arm in study.ARMS}
figures.lines(
    range(10, 10 * len(curves["fresh text"]) + 1, 10),
    {f"{arm}, loss in training": curve for arm, curve in curves.items()},
    title="How far under the entropy does each training loss go?",
    x_label="step",
    y_label="loss in nats",
    level=(found["rate"], "entropy rate"),
    markers=False,
    alt="Fresh text comes down to the entropy rate. Shuffled text stays at the entropy of its "
    "frequencies. 32 texts that come again and again go far under the line.",
)

# %% [markdown]
# Fresh text comes down to the line; a single batch may fall a little under it by chance. On
# held-out text, where the source is scored on the same symbols, no run does. The model of 32 texts
# gets far under the line: it recites. On new text it is worse than one that guesses blindly. So the
# entropy holds for *honest* losses, those on text that one has not seen. Whenever a loss looks too
# good, this is the first thing to ask: had it seen the text?
#
# ## From nats to bits per byte
#
# For a real text nobody knows the line. But one can compare. How? A loss of 1.4 nats a character
# and one of 3.1 nats a word are different units. The exponential of the loss, the
# [**perplexity**](glossary.ipynb#cell-id=perplexity), has the same trouble: it says among how many
# equally likely tokens the model is choosing, and asks not how long a token is.
#
# What all texts have in common is that they are stored in **bytes**. So: all nats of a text
# together, in bits, over all of its bytes. It is also how far the text could be compressed: a
# model of 2 [bits per byte](glossary.ipynb#cell-id=bits-per-byte) would squeeze a file to a
# quarter, for a byte has 8 bits.
#
# ### Find the bugs · bits per byte
#
# `losses` is a list with a tensor for each text: the losses of its characters in nats. `texts` are
# these texts. Give bits per byte of all of them together, a tensor without axes. The code was found
# in an evaluation script, and there are two bugs in it.


# %% exercise="bits_per_byte" difficulty=2 minutes=10
def bits_per_byte(losses, texts):
    """Losses of each character, in nats, and the texts -> bits per byte of UTF-8"""
    ### BEGIN SOLUTION
    nats = torch.cat(losses).sum()
    return nats / math.log(2) / sum(len(text.encode()) for text in texts)
    ### END SOLUTION
    ### BEGIN GIVEN
    # each = [row.mean() / math.log(2) for row in losses]
    # return sum(each) / len(each)
    ### END GIVEN


# %% check="bits_per_byte"
bits_per_byte = check(bits_per_byte)

# %% [markdown]
# ## Attention that remembers
#
# To write, a model reads its text, says the next token, reads the text with that token, and so on.
# The text so far is read again for each token, though nothing in it has changed: no token looks
# ahead, so the keys and values of the old ones are what they were.
#
# ![](drawings/kv_cache.svg)
#
# So one keeps them: the [**KV cache**](glossary.ipynb#cell-id=KV-cache). Then only the new token
# goes through the model. In every attention it brings its query, its key and its value. The key and
# the value go into the cache. The query looks at all that is there.
#
# ### Exercise · cached attention
#
# `q`, `k` and `v` are those of the new tokens, (batch, heads, new, d_head): often one, but a
# prompt comes as many at once. `past_k` and `past_v` are (batch, heads, past, d_head), of all
# tokens before them; at the beginning past is 0. The new tokens stand at positions past, past + 1,
# … Turn their q and k with `rotate_pairs(x, where)` of [lesson 03](03_positions.ipynb); the keys
# in the cache have been turned when they were new. Each new token may see all old ones, the new
# ones before it, and itself. Give three tensors: the output (batch, heads, new, d_head), and all
# keys and all values, (batch, heads, past + new, d_head), oldest first.
# `scaled_dot_product_attention(q, k, v, mask)` and `causal_mask(queries, keys)` are there; with
# fewer queries than keys, the queries are the last.


# %% exercise="cached_attention" difficulty=2 minutes=20
def cached_attention(q, k, v, past_k, past_v):
    """Attention of new tokens to all so far -> the output, all keys, all values"""
    ### BEGIN SOLUTION
    past, new = past_k.shape[2], k.shape[2]
    where = torch.arange(past, past + new)
    q, k = rotate_pairs(q, where), rotate_pairs(k, where)
    k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    return scaled_dot_product_attention(q, k, v, causal_mask(new, past + new)), k, v
    ### END SOLUTION


# %% check="cached_attention"
cached_attention = check(cached_attention)

# %% [markdown]
# ## A model of your own parts
#
# Now put together what you have. `MyAttention` has your heads, your rotary positions and your
# cache. `MyBlock` is the block that you wrote in [lesson 06](06_transformer_block.ipynb), with this
# attention in it. (`mine` says whose each part is: yours, or ours if yours has not passed yet.)


# %%
class MyAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.remembers, self.past = False, None

    def forward(self, x, **_):  # a block may hand over a mask; cached_attention has its own
        q, k, v = (mine.split_heads(t, self.n_heads) for t in self.qkv(x).chunk(3, dim=-1))
        past = self.past if self.past is not None else (k[:, :, :0], v[:, :, :0])
        heads, *kept = cached_attention(q, k, v, *past)
        if self.remembers:
            self.past = kept
        return self.out(mine.merge_heads(heads))


class MyBlock(mine.TransformerBlock):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, 4 * d_model, norm_first=True)
        self.attention = MyAttention(d_model, n_heads)

    def forward(self, x, mask=None, causal=True):
        return super().forward(x)


def remember(model, yes):
    """From now on every attention keeps its keys and values, or none does; all begin anew."""
    for block in model.blocks:
        block.attention.remembers, block.attention.past = yes, None


# %% [markdown]
# It writes like this: the prompt goes through at once, then one token after the other. `choose`
# makes probabilities of logits; for now it is the plain softmax.


# %%
@torch.no_grad()
def write(model, text, prompt, count, choose=lambda logits: torch.softmax(logits, -1), seed=0):
    """What the model writes after the prompt, `count` characters."""
    generator = torch.Generator().manual_seed(seed)
    written = list(text.encode(prompt))
    new = torch.tensor([written])
    remember(model, True)
    for _ in range(count):
        shares = choose(model(new)[:, -1])  # (1, vocabulary)
        new = torch.multinomial(shares, 1, generator=generator)
        written.append(new.item())
    remember(model, False)
    return text.decode(written)


# %% [markdown]
# ## Train it on a book
#
# The text is the manual that every Python brings along: what `help("if")` prints. Or take **a text
# of your own**, in any language: put the file beside this notebook, as plain text, and write its
# name below. 100,000 characters are enough for a start.

# %%
TEXT_FILE = None  # for example "my_book.txt"
text = CharacterText.from_file(TEXT_FILE) if TEXT_FILE else CharacterText(python_manual())
prompt = text.decode(text.encode("The "[:4])) if not TEXT_FILE else text.decode([0])
count = sum(len(text.ids(part)) for part in ("train", "held out"))
print(f"{count:,} characters, {len(text.vocabulary)} different ones; "
      f"one who knows their frequencies loses {text.unigram_entropy():.2f} nats")  # fmt: skip

# %%
quiz("09-first-words")

# %% tags=["after-prediction"]
STEPS, LENGTH, BATCH = 300, 128, 8
torch.manual_seed(0)
model = LanguageModel(len(text.vocabulary), 128, 4, 3, block=lambda: MyBlock(128, 4))
generator = torch.Generator().manual_seed(0)
print(f"{count_parameters(model):,} parameters")


def loss():
    inputs, labels = text.batch(BATCH, LENGTH, generator)
    return F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())


watch = figures.LiveCurve(
    f"What does it learn in {STEPS} steps?",
    STEPS,
    held_out=lambda: text.losses(model, LENGTH, windows=32).mean(),
    sample=lambda: write(model, text, prompt, 60),
    times=4,
)
curve = fit(
    model, loss, steps=STEPS, learning_rate=3e-3, warm_up=30, decay=True,
    weight_decay=0.1, clip=1.0, watch=watch,
)  # fmt: skip

# %% tags=["after-prediction"]
live = text.losses(model, LENGTH, windows=256).mean().item()
print(f"held out: {live:.2f} nats a character = {text.bits_per_byte(live):.2f} bits per byte")
print(write(model, text, prompt, LENGTH - len(prompt)))

# %% [markdown]
# These are your heads, your rotary positions, your block and your model. `fit` has warm-up and
# cosine as you wrote them in [lesson 07](07_going_deep.ipynb), and clips by the norm. (The text
# ends after 128 characters, since training never showed it longer ones. How rotary positions fare
# beyond that, you have seen in [lesson 03](03_positions.ipynb).)
#
# ### Trained for longer
#
# The course brings along a model of the same sizes that has learned for longer, from pieces of 512
# characters (the note in its file says how). Its weights are just numbers with names. They fit
# into *your* model, and there they must do the same as in the package's:

# %%
theirs, manual, note = shipped.load()
own = LanguageModel(len(manual.vocabulary), 128, 4, 3, block=lambda: MyBlock(128, 4)).eval()
weights = {name.replace("embed.", ""): w for name, w in theirs.state_dict().items()}
own.load_state_dict(weights)
nats = shipped.held_out(own, manual)
own_gap = abs(nats - shipped.held_out(theirs, manual))
print(f"{note['settings']['steps']} steps; held out, in your model: {nats:.3f} nats "
      f"= {manual.bits_per_byte(nats):.2f} bits per byte; with ours it is the same "
      f"to 1e-4: {own_gap < 1e-4}")  # fmt: skip
print(write(own, manual, "The ", 300))

# %% [markdown]
# ## Choosing the next token
#
# The model gives probabilities; what is written is a choice. The simplest: always take the
# likeliest ([**greedy**](glossary.ipynb#cell-id=greedy)).

# %%
quiz("09-greedy")

# %% [markdown]
# The other end is to draw from the whole distribution. But its tail is long: each of the hundred
# unlikely characters is unlikely, and together they come every few words, and one wrong character
# spoils what follows. So one cuts the tail off. **Top-k** keeps the k likeliest tokens. And a
# [temperature](glossary.ipynb#cell-id=temperature) divides the logits first: below 1 the
# distribution gets sharper, above 1 flatter.
#
# ### Exercise · the k likeliest
#
# `logits` is (…, vocabulary), `k` at least 1; it may be more than the vocabulary has, then all
# stay. Give the probabilities to draw from, of the same shape: those of the k likeliest tokens,
# after the logits have been divided by the temperature (above 0), and exactly 0 for all others.
# Each row sums to 1, and entry i is token i, as before. What is *exactly* as likely as the k-th
# stays too: why should the order of the vocabulary decide?


# %% exercise="top_k" difficulty=2 minutes=12
def top_k(logits, k, temperature=1.0):
    """(…, vocabulary) -> probabilities, 0 for all but the k likeliest"""
    ### BEGIN SOLUTION
    k = min(k, logits.shape[-1])
    least = logits.topk(k, dim=-1).values[..., -1:]
    kept = logits.masked_fill(logits < least, -math.inf)
    return torch.softmax(kept / temperature, dim=-1)
    ### END SOLUTION


# %% check="top_k"
top_k = check(top_k)

# %% [markdown]
# How many should stay? After `q` there is one letter that makes sense; after a full stop there are
# forty. A fixed k is too many for the one and too few for the other. **Top-p** (nucleus sampling,
# Holtzman et al., 2019) asks for probability instead: keep the likeliest tokens until they have p
# together.
#
# ### Exercise · the likeliest, until it is enough
#
# `p` is above 0, at most 1. Divide the logits by the temperature and make probabilities of them.
# Then keep the smallest number of likeliest tokens whose probabilities sum to at least p: so the
# one with which the sum reaches p is kept too. What is exactly as likely as the last one kept
# stays as well. The others get exactly 0, each row sums to 1, and entry i is still token i.


# %% exercise="top_p" graded=true points=4 difficulty=3 minutes=20
def top_p(logits, p, temperature=1.0):
    """(…, vocabulary) -> probabilities, 0 for all but the likeliest that reach p together"""
    ### BEGIN SOLUTION
    shares = torch.softmax(logits / temperature, dim=-1)
    ordered = shares.sort(dim=-1, descending=True).values
    needed = ordered.cumsum(dim=-1) - ordered < p  # those before it do not reach p
    least = ordered.masked_fill(~needed, math.inf).amin(dim=-1, keepdim=True)
    kept = shares.masked_fill(shares < least, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)
    ### END SOLUTION


# %% check="top_p"
top_p = check(top_p)

# %% [markdown]
# What do these settings do to a distribution? Three beginnings in the manual's style: in the middle
# of a word, after its first letter, and where nobody can know. Turn the temperature up until the
# tail shows, then cut it off again. How many tokens does p = 0.9 keep in each?

# %%
places = ["The following expr", "A function is called w", 'If no exception is raised, the "']
with torch.no_grad():
    logits = torch.cat([own(torch.tensor([manual.encode(place)]))[:, -1] for place in places])
NextToken(logits, manual.vocabulary, places)

# %% [markdown]
# And what do they do to a text? The first one takes the likeliest character, always.

# %% tags=["after-prediction"]
ways = {
    "greedy": lambda logits: top_k(logits, 1),
    "drawn as it is": lambda logits: top_k(logits, len(manual.vocabulary)),
    "top-k = 5": lambda logits: top_k(logits, 5),
    # top_p is graded, so the package's stands in for yours
    "top-p = 0.9": lambda logits: next_token_probabilities(logits, top_p=0.9),
    "temperature 1.5": lambda logits: top_k(logits, len(manual.vocabulary), 1.5),
}
for name, choose in ways.items():
    print(f"--- {name}\n{write(own, manual, 'The value ', 220, choose)}\n")

# %% [markdown]
# Is the greedy text always so? Take ten prompts, and count how much of a text repeats 20 characters
# that stood in it before. The control is the manual itself, from the same ten places.

# %% tags=["after-prediction"]


def repeated(characters, size=20):
    """The share of places whose next 20 characters have stood in this text before."""
    pieces = [characters[i : i + size] for i in range(len(characters) - size)]
    return 1 - len(set(pieces)) / len(pieces)


unread = manual.decode(manual.batch(1, 40_000, torch.Generator(), "held out")[0][0])
starts = [unread[i : i + 16] for i in range(0, 40_000, 4_000)]
shares = {"the manual": [repeated(unread[i + 16 : i + 416]) for i in range(0, 40_000, 4_000)]}
for name, settings in {
    "always the likeliest": {"temperature": 0},
    "drawn": {},
    "top-p 0.9": {"top_p": 0.9},
}.items():
    written = generate(
        theirs, [manual.encode(start) for start in starts], 400,
        generator=torch.Generator().manual_seed(0), **settings,
    )  # fmt: skip
    shares[name] = [repeated(manual.decode(row)) for row in written]
for name, values in shares.items():
    print(f"{name:>20}: {sum(values) / len(values):.0%} repeats, the worst text {max(values):.0%}")

# %% [markdown]
# Why? One likely reason: what has been written once is in the text now, and makes the same thing
# likelier the next time. ([Lesson 10](10_inside_the_heads.ipynb) finds heads that do this, in a
# model of its own.) A draw can leave such a loop; the likeliest character mostly does not. And look
# at the manual: it repeats itself, too. So a text without repeats is not "right" either.
#
# ## What the cache saves
#
# First: does it change anything? The same text, all at once and token by token:

# %% tags=["nbval-check-output"]
ids = torch.tensor([manual.encode(unread[:512])])
with torch.no_grad():
    at_once = own(ids)
    remember(own, True)
    pieces = [own(ids[:, i : i + 1]) for i in range(ids.shape[1])]
    remember(own, False)
cache_gap = ((torch.cat(pieces, dim=1) - at_once).abs().max() / at_once.abs().max()).item()
print(f"with and without a cache the same to 1e-5: {cache_gap < 1e-5}")

# %%
quiz("09-cache")

# %% [markdown]
# We count the multiplications and additions of all matrix products for one more token, when the
# text has 64 and when it has 512: in a model of these sizes, and in one of Llama-7B's. (Both are on
# the device `meta`: shapes without numbers. There one can count, but not compute.)

# %% tags=["after-prediction"]


@torch.no_grad()
def operations(config, length, cached):
    """What the last of `length` tokens costs."""
    with torch.device("meta"):
        empty = PackageModel(config).eval()
        tokens = torch.zeros(1, length, dtype=torch.long)
    caches, start = (empty.new_caches(), length - 1) if cached else (None, 0)
    if cached:
        empty(tokens[:, :start], caches=caches)
    with FlopCounterMode(display=False) as counter:
        empty(tokens[:, start:], caches=caches)
    return counter.get_total_flops()


work = {}
for kind, cached in (("without", False), ("with a cache", True)):
    for name, config in (("this model", theirs.config), ("Llama-7B", PRESETS["llama-7b"])):
        early, late = (operations(config, length, cached) for length in (64, 512))
        work[name, cached] = early, late
        print(f"{kind:>12}, {name:>10}: {early / 1e6:9,.1f} million at 64, "
              f"{late / 1e6:11,.1f} at 512: {late / early:.2f}×")  # fmt: skip

# %% [markdown]
# In the small model attention is already a large part at 512 tokens; in the large one the
# projections and the MLP are nearly everything. And the time, on your machine:

# %%


@torch.no_grad()
def milliseconds(length, cached):
    """How long the last of `length` tokens takes: the median of nine."""
    times, start = [], length - 1 if cached else 0
    for _ in range(9):
        remember(own, cached)
        if cached:
            own(ids[:, :start])
        began = time.perf_counter()
        own(ids[:, start:length])
        times.append(1000 * (time.perf_counter() - began))
    remember(own, False)
    return statistics.median(times)


for name, cached in (("without", False), ("with a cache", True)):
    soon, later = milliseconds(64, cached), milliseconds(512, cached)
    print(f"{name:>12}: {soon:.1f} ms at 64, {later:.1f} ms at 512 ({later / soon:.2f}×)")

# %% [markdown]
# What it costs is memory: for each token and each layer a key and a value, d_model numbers each
# (fewer with [grouped-query attention](glossary.ipynb#cell-id=grouped-query-attention)). OPT-13B
# has 40 layers with d_model = 5120. In half precision:

# %% tags=["nbval-check-output"]
opt_13b = 2 * 40 * 5120 * 2  # k and v · layers · d_model · bytes
print(f"{opt_13b / 1024:.0f} KB a token; a text of 2048 tokens: {2048 * opt_13b / 2**30:.1f} GB")

# %% [markdown]
# So the cache limits how many users a server can serve at once.
#
# ## Talk to it
#
# Here it is, in the page: the weights are in this cell's output, and your browser does the
# arithmetic, with a cache. Write something, let it go on, look at each head while the text grows,
# and switch heads off. It works where no Python runs, too. Say `"mine"` below, and it is the model
# that you have trained yourself: the numbers have other names in the package, that is all.

# %%
WHOSE = "the course's"  # or "mine"
if WHOSE == "mine":
    in_the_page = PackageModel(shipped.config(len(text.vocabulary))).eval()
    in_the_page.load_state_dict(
        {"embed." * (name == "tokens.weight") + name: w for name, w in model.state_dict().items()}
    )
    playground = Playground(in_the_page, text, prompt)
else:
    playground = Playground(theirs, manual, 'The "if" statement ')
playground

# %% [markdown]
# ## The race
#
# You have a model, a text and a unit to compare by. How far can one get in half a minute? The
# rules:

# %%
print(board.RULES)

# %% [markdown]
# In a terminal, `tfcourse race new my_idea` writes an entry that runs as it stands: a file with one
# function. Change one thing, then `tfcourse race run my_idea`. The course has three entries of its
# own. Begin by guessing what the best of them does that the plain one does not.

# %% tags=["after-prediction"]
board.show()

# %% [markdown]
# What did each change buy? *Plain* has three blocks, windows of 64 characters, AdamW and a cosine.
# Each change was tried by itself, on the same seeds, in the same compute, with a learning rate of
# its own, in half the budget:
#
# - *128 from the start*: windows of 128; *short first*: of 32, then 64, then 128
# - *two blocks* instead of three
# - *hold, then fall*: the rate stays at its peak for half the budget
# - *Muon*: another optimizer for the matrices
# - *ReLU squared*: max(x, 0)² in the MLP; *RMSNorm, no biases*
# - *trigram counts*: the logits begin at counts of what follows two characters
# - *hashed contexts*: embeddings of the last two and three characters are added
# - *the mixture*: two gated blocks, short first, hold then fall, counts of up to six characters,
#   averaged weights
#
# Below 0 is better. (The interval is that of the paired difference.)

# %% tags=["after-prediction"]
raced = recorded("race")["results"]
plain = losses(raced, "plain", key="bits")
print(f"plain: {mean_and_spread(plain)[0]:.3f} bits per byte; a table of counts alone, without a "
      f"network: {min(raced['tables alone'].values()):.3f}")  # fmt: skip
for arm in list(racing.ARMS)[1:]:
    print(f"{arm:>20}: {paired(losses(raced, arm, key='bits'), plain)}")

# %% [markdown]
# The oldest idea goes furthest: *count*. A table of what followed the last few characters is made
# in a moment, and alone (first line) it is better than the plain network with all its training.
# Beside a table, the network has to learn only what the table does not know. And see what did not
# help: longer windows from the start, of which each step costs more; and of ReLU squared and of
# RMSNorm one cannot tell. A result about training holds for its budget: we have measured half a
# minute, and say nothing about days. Keep that in mind with every such result that you read.
#
# ## What we measured

# %%
claims = Claims("09_language_model")
for claim in racing.CLAIMS:
    claims.add(claim.id, raced)

# %%
claims.add("comes-to-the-line", found)
claims.add("never-under-the-line", found)
claims.add("gap-is-kl", found)
claims.add("tied-131-million", would_save)
claims.add("own-parts-same-loss", own_gap)
claims.add("strangely-repetitive", shares)
claims.add("cache-same-logits", cache_gap)
claims.add("cache-same-cost", work)
claims.add("800-kb-a-token", opt_13b)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("09-quiz-perplexity")

# %%
quiz("09-quiz-under")

# %%
quiz("09-quiz-top-p")

# %%
quiz("09-quiz-cache")

# %% [markdown]
# ## Further reading
#
# - C. E. Shannon, [*Prediction and Entropy of Printed
# English*](https://doi.org/10.1002/j.1538-7305.1951.tb01366.x), 1951: people guess the next
# letter, and the entropy of English is between 0.6 and 1.3 bits a letter.
# - A. Radford et al., [*Language Models are Unsupervised Multitask
# Learners*](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
# 2019 (GPT-2).
# - A. Holtzman et al., [*The Curious Case of Neural Text
#   Degeneration*](https://arxiv.org/abs/1904.09751), 2019: top-p.
# - W. Kwon et al., [*Efficient Memory Management for Large Language Model Serving with
# PagedAttention*](https://arxiv.org/abs/2309.06180), 2023: what a cache costs, and how to keep it.
# - G. Delétang et al., [*Language Modeling Is
#   Compression*](https://arxiv.org/abs/2309.10668), 2023.
#
# **Before:** [lesson 08](08_encoder_decoder.ipynb), reading and writing. **Next:** [lesson
# 10](10_inside_the_heads.ipynb), inside the heads: you open a trained model and look.
