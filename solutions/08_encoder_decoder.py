# %% [markdown]
# # 08 · Reading and writing
#
# ![](drawings/map.svg)
#
# **How does a network read in one form and write in another?** The Transformer was not invented to
# chat. In 2017 it translated: an **encoder** reads an English sentence, a **decoder** writes the
# German one, word by word, and looks back at the English with every word. T5 and Whisper are built
# like that to this day.
#
# You have every part: the encoder's block, the decoder's block, cross-attention. At the end of this
# lesson you will have counted the model of 2017, wired one of your own, written its loss and one
# step of its optimizer, and taught it to read dates as people write them: "3rd of march 2021" in,
# "2021-03-03" out, for days that it has never seen. Then you will look at what its cross-attention
# looks at.
#
# *About 130 minutes. You need: lessons [02](02_multi_head_attention.ipynb) (cross-attention),
# [03](03_positions.ipynb) (learned positions) and [06](06_transformer_block.ipynb) (the decoder's
# block).*

# %%
import itertools

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import Claims, check, figures, hint, mine, quiz, reveal
from tfcourse.attention import padding_mask
from tfcourse.blocks import Block
from tfcourse.experiments import dates as study
from tfcourse.experiments import mean_and_spread, recorded
from tfcourse.experiments.study import losses
from tfcourse.inside import attention_maps
from tfcourse.models import PRESETS, Transformer, count_parameters
from tfcourse.tasks import Dates
from tfcourse.training import fit
from tfcourse.widgets import AttentionMap

# %% [markdown]
# ## The model of 2017
#
# ![](drawings/encoder_decoder.svg)
#
# On the left the encoder: its blocks see the whole source, and what they make of it is handed over.
# (The paper's blocks are post-norm and end with a norm; an encoder of pre-norm blocks needs one
# more at its end.) On the right the decoder: each of its blocks looks at what has been written so
# far, then asks the source by cross-attention; then the MLP works on each token alone. The **head**
# makes [logits](glossary.ipynb#cell-id=logits) for the next token.
#
# The paper's base model has six blocks on each side, d_model = 512, 8 heads, d_ff = 2048, and a
# vocabulary of about 37,000 tokens. One table serves three times: it embeds the source, it embeds
# the target, and the head is the same table again. (That is called
# [**tied**](glossary.ipynb#cell-id=tied).)

# %%
quiz("08-largest")

# %% [markdown]
# We build it on the device `meta`. Its tensors have shapes, but no numbers, so it costs no memory.

# %% tags=["after-prediction", "nbval-check-output"]
with torch.device("meta"):
    base = Transformer(PRESETS["transformer-base"])
    # without embeddings and head; its default sizes are the paper's
    torchs = nn.Transformer(batch_first=True)
total = count_parameters(base)
parts = {
    "the one table": base.embed.tokens.weight.numel(),
    "encoder, 6 blocks": count_parameters(base.encoder.blocks),
    "decoder, 6 blocks": count_parameters(base.blocks),
}
for name, count in parts.items():
    print(f"{name:>18}: {count / 1e6:5.1f}M, {count / total:.0%}")
print(f"{'all':>18}: {total / 1e6:5.1f}M; not tied it would be "
      f"{(total + 2 * parts['the one table']) / 1e6:.1f}M")  # fmt: skip
without_table = total - parts["the one table"]
print(f"PyTorch's nn.Transformer has {count_parameters(torchs) - without_table} more than ours "
      "without its table: two last norms that the paper does not have")  # fmt: skip

# %% [markdown]
# The paper's table says 65 million. Its vocabulary is "about 37,000": a larger one would explain
# the difference, but the paper does not say.
#
# ## A task that fits
#
# The paper's base model learned for half a day on eight GPUs. So we take a language that is small
# and still has what makes translation hard: words in another order, several ways to say the same
# thing, words that become something else. **Dates.** Several formats in, one out:

# %%
dates = Dates()
for text, iso in dates.texts(8, torch.Generator().manual_seed(0)):
    print(f"{text:>28}  →  {iso}")

# %% [markdown]
# Of all days from 1900 to 2099 a tenth is [held out](glossary.ipynb#cell-id=held-out-loss): the
# model never sees these days in training, in none of the formats. So a table learned by heart will
# not do.
#
# A token is here a character. There are three special ones besides: **padding** fills short sources
# up to the width of the batch, **start** is what the decoder reads first, and **stop** is what it
# writes when it is done.

# %% tags=["nbval-check-output"]
pairs = dates.batch(2, torch.Generator().manual_seed(3))
print("source: ", [dates.vocabulary[i] for i in pairs.source[0].tolist()])
print("lengths:", pairs.lengths.tolist(), "of", pairs.source.shape[1])
print("target: ", [dates.vocabulary[i] for i in pairs.target[0].tolist()])

# %% [markdown]
# ## Teacher forcing
#
# In use, a decoder writes one token, reads it back, writes the next. In training we know what it
# should have written. So all positions are trained at once: at each of them the decoder reads the
# *right* tokens so far, and has to say the next one. This is called
# [**teacher forcing**](glossary.ipynb#cell-id=teacher-forcing).

# %%
quiz("08-teacher")

# %% [markdown]
# ### Exercise · what it reads, and what it says
#
# `target` is (batch, length): each row begins with its start token and ends with its stop token,
# and short rows are filled up behind it with the number `padding`. Give three tensors, each
# (batch, length − 1): what the decoder reads, what it has to say at the same place (the
# **labels**), and `real`, boolean, True where a label counts because it is no padding. The padding
# stays in the other two as it is. For the row start 7 stop padding: it reads start 7 stop, and has
# to say 7 stop padding.


# %% exercise="teacher_forcing" difficulty=1 minutes=8
def teacher_forcing(target, padding):
    """(batch, length) -> inputs, labels and real, each (batch, length - 1)"""
    ### BEGIN SOLUTION
    inputs, labels = target[:, :-1], target[:, 1:]
    return inputs, labels, labels != padding
    ### END SOLUTION


# %% check="teacher_forcing"
teacher_forcing = check(teacher_forcing)

# %% [markdown]
# Inputs and labels are the same row, **shifted** by one. If they were not, the decoder would have
# to say the token that it has just read: it would copy, the loss would go to zero, and nothing
# would be learned. It is a famous bug, because everything looks wonderful.
#
# ## Wire it
#
# Now the model. All its parts are made for you in `__init__`; how they hang together is yours.
#
# ### Exercise · the translator
#
# `source` is (batch, source), `lengths` (batch,) says how many of its tokens are real, `target`
# (batch, target) is what the decoder reads. Give the logits (batch, target, vocabulary). Tokens are
# embedded, and a learned vector of their position is added: position 0 gets the first row of the
# table, and so on. The blocks are pre-norm, so each stack ends with its norm. `block(x, mask=…)`
# and `block(y, memory, causal=True, context_mask=…)` take masks with True = may attend; where the
# source is read, its padding must be hidden. `padding_mask(lengths, width)` of
# [lesson 01](01_attention.ipynb) gives (batch, 1, 1, width).


# %% exercise="Translator" difficulty=3 minutes=25
class Translator(nn.Module):
    """source (batch, source), lengths (batch,), target (batch, target) -> logits"""

    def __init__(self, vocabulary, d_model, n_heads, layers, max_tokens):
        super().__init__()
        self.source_tokens = nn.Embedding(vocabulary, d_model)
        self.source_positions = nn.Embedding(max_tokens, d_model)
        self.encoder = nn.ModuleList(Block(d_model, n_heads) for _ in range(layers))
        self.encoder_norm = nn.LayerNorm(d_model)
        self.target_tokens = nn.Embedding(vocabulary, d_model)
        self.target_positions = nn.Embedding(max_tokens, d_model)
        self.decoder = nn.ModuleList(Block(d_model, n_heads, cross=True) for _ in range(layers))
        self.decoder_norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocabulary, bias=False)

    def forward(self, source, lengths, target):
        ### BEGIN SOLUTION
        real = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = block(x, mask=real)
        memory = self.encoder_norm(x)
        y = self.target_tokens(target) + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(y, memory, causal=True, context_mask=real)
        return self.head(self.decoder_norm(y))
        ### END SOLUTION


# %% check="Translator"
Translator = check(Translator)

# %% [markdown]
# "This masking, combined with fact that the output embeddings are offset by one position, ensures
# that the predictions for position *i* can depend only on the known outputs at positions less than
# *i*." So says the paper. If that holds, one pass over the whole target gives the same logits as
# writing it token by token. Does it, in your model?

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
model = Translator(len(dates.vocabulary), d_model=64, n_heads=4, layers=2, max_tokens=40).eval()
inputs, labels, real = teacher_forcing(pairs.target, dates.PADDING)
with torch.no_grad():
    at_once = model(pairs.source, pairs.lengths, inputs)
    steps = [
        model(pairs.source, pairs.lengths, inputs[:, : n + 1])[:, -1]
        for n in range(inputs.shape[1])
    ]
parallel_gap = (torch.stack(steps, dim=1) - at_once).abs().max().item()
print(f"all at once and step by step agree to 1e-5: {parallel_gap < 1e-5}")

# %% [markdown]
# ## What it costs to be wrong
#
# At every place the model gives a distribution over the vocabulary, and the loss is −log p of the
# label: the [cross-entropy](glossary.ipynb#cell-id=cross-entropy). (Where it comes from, and why
# it is the right thing to measure, is the beginning of [lesson 09](09_language_model.ipynb).) The
# paper does one thing more. A model that is sure of a training pair drives p towards 1, and its
# logits towards infinity. [**Label smoothing**](glossary.ipynb#cell-id=label-smoothing) asks for a
# little less: the label should get 1 − s, and a share s is spread evenly over the *whole*
# vocabulary, the label included. With q for this wanted distribution, the loss at one place is
#
# $$-\sum_{\text{token}} q_{\text{token}} \log p_{\text{token}},
# \qquad q_{\text{token}} = (1 - s)\,[\text{token is the label}] + \frac{s}{V}$$
#
# where V is the size of the vocabulary and s = 0.1 in the paper. The bracket is 1 where it is true,
# else 0.
#
# ### Exercise · the loss
#
# `logits` is (batch, tokens, vocabulary), `labels` (batch, tokens), `real` boolean (batch, tokens)
# with at least one True. Give one number: the mean of the smoothed loss over all places that are
# real. Every real place counts alike, whatever row it is in. Write it of logarithms and sums,
# without PyTorch's own losses. Logits may be in the hundreds: `torch.log_softmax` can handle them.


# %% exercise="smoothed_loss" graded=true points=4 difficulty=2 minutes=15
def smoothed_loss(logits, labels, real, smoothing):
    """The mean loss over the real places, in nats: one number"""
    ### BEGIN SOLUTION
    log_p = torch.log_softmax(logits, dim=-1)
    of_label = log_p.gather(-1, labels[..., None]).squeeze(-1)  # (batch, tokens)
    each = -(1 - smoothing) * of_label - smoothing * log_p.mean(dim=-1)
    return each[real].mean()
    ### END SOLUTION


# %% check="smoothed_loss"
smoothed_loss = check(smoothed_loss)

# %% [markdown]
# ## One step of AdamW
#
# Every training in this course has used `AdamW`. What does it do with a gradient? For each weight w
# it keeps two running means: m, of the gradients g, and v, of their squares. With β₁ = 0.9 and
# β₂ = 0.999:
#
# $$m \leftarrow \beta_1 m + (1 - \beta_1)\, g \qquad v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2$$
#
# Both begin at 0, so at first both are too small. After one step m is (1 − β₁) g = 0.1 g, though
# the mean of one gradient is that gradient. After t steps of one and the same g, m is (1 − β₁ᵗ) g.
# So what must m be divided by, to be right again? And v? Call the corrected ones m̂ and v̂. Then
#
# $$w \leftarrow w - \text{rate}\cdot\frac{\hat m}{\sqrt{\hat v} + \epsilon}
#   - \text{rate}\cdot\text{decay}\cdot w$$
#
# The last term is the [**weight decay**](glossary.ipynb#cell-id=weight-decay): each weight loses a
# small share of itself. It stands apart from the gradient. (Where it is added to g instead, it gets
# divided by √v̂ as well. That is how it was usually added to Adam; AdamW keeps it apart, W for
# weight decay.) ε (`eps`) is a tiny number, so that nothing is divided by 0.
#
# ### Exercise · one step by hand
#
# `w`, `g`, `m` and `v` have one shape, any; `t` is the number of this step, counted from 1. `decay`
# takes its share of w as it was before the step. Give the new w, m and v; m and v as they are, not
# corrected. Do not change the tensors that came in.


# %% exercise="adamw_step" difficulty=2 minutes=15
def adamw_step(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    """The weight after step t, and the two running means"""
    ### BEGIN SOLUTION
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - rate * (m_hat / (v_hat.sqrt() + eps) + decay * w), m, v
    ### END SOLUTION


# %% check="adamw_step"
adamw_step = check(adamw_step)

# %% [markdown]
# How far does the *first* step go, for gradients of very different size? **Predict**: a weight
# whose gradient is a million times larger than another's, does it move a million times as far?

# %% tags=["after-prediction", "nbval-check-output"]
sizes = torch.tensor([1e-3, 1e-1, 1e1, 1e3])
zero = torch.zeros(4)
moved = adamw_step(zero, sizes, zero, zero, 1, rate=0.01)[0]
weight = nn.Parameter(zero.clone())
weight.grad = sizes.clone()
torch.optim.AdamW([weight], lr=0.01).step()
print("by hand: ", [round(x, 6) for x in moved.tolist()])
print("PyTorch's:", [round(x, 6) for x in weight.tolist()])

# %% [markdown]
# All four move by the learning rate. m̂ is g, √v̂ is |g|, and what is left is the sign. So the rate
# says how far a weight moves, not the gradient. In the first step a weight with a tiny gradient
# moves as far as any other. Smaller first steps, a warm-up ([lesson 07](07_going_deep.ipynb)),
# limit that.
#
# ## Train it
#
# The model is yours, and so is what it reads and says. (The loss here is PyTorch's, without
# smoothing: `smoothed_loss` is graded, so the notebook has to run without it. And PyTorch's AdamW
# takes the steps: it does your step for all weights in one go.)


# %%
def loss_of(model, pairs):
    """The loss on a batch of dates, with teacher forcing."""
    inputs, labels, real = teacher_forcing(pairs.target, dates.PADDING)
    logits = model(pairs.source, pairs.lengths, inputs)
    return F.cross_entropy(logits[real], labels[real])


@torch.no_grad()
def write(model, source, lengths, most=12):
    """What the model writes for each source: always the likeliest token, until all have stopped."""
    text = torch.full((len(source), 1), dates.START)
    for _ in range(most):
        text = torch.cat([text, model(source, lengths, text)[:, -1:].argmax(-1)], dim=1)
        if (text == dates.STOP).any(dim=1).all():
            break
    return text[:, 1:]


# %%
STEPS = 300
torch.manual_seed(0)
model = Translator(len(dates.vocabulary), d_model=64, n_heads=4, layers=2, max_tokens=40)
generator = torch.Generator().manual_seed(0)
watch = figures.LiveCurve("Does it learn to read dates?", STEPS)
curve = fit(
    model,
    lambda: loss_of(model, dates.batch(64, generator)),
    steps=STEPS,
    learning_rate=1e-2,
    warm_up=30,
    decay=True,  # the rate falls along a cosine; this is not the decay of the weights
    clip=1.0,
    watch=watch,
)

# %% [markdown]
# ### Find the bugs · a score that flatters
#
# How good is it? A date counts only if all of its digits are right. `written` and `wanted` are
# (count, n): in `wanted` each row holds one stop token. What stands behind the stop is thrown away,
# so it must not count; but the stop itself must be there. (Our dates all stop at the same place;
# other texts do not.) Give the share of texts that are right from the first token to the stop, a
# tensor without axes. The code flatters: there are two bugs in it.


# %% exercise="exact_matches" difficulty=2 minutes=10
def exact_matches(written, wanted, stop):
    """The share of texts that are right to the last token"""
    ### BEGIN SOLUTION
    is_stop = (wanted == stop).long()
    counts = is_stop.cumsum(dim=1) - is_stop == 0  # up to the stop, and the stop
    return ((written == wanted) | ~counts).all(dim=1).float().mean()
    ### END SOLUTION
    ### BEGIN GIVEN
    # return (written == wanted).float().mean()
    ### END GIVEN


# %% check="exact_matches"
exact_matches = check(exact_matches)

# %%
unseen = dates.batch(500, torch.Generator().manual_seed(1), "held out")
with torch.no_grad():
    unseen_loss = loss_of(model, unseen).item()
print(f"loss on unseen days, with teacher forcing: {unseen_loss:.3f} nats a token")

# %% [markdown]
# **Predict**: first for a loss that is easy to calculate with, then, from the loss above, for your
# own model.

# %%
quiz("08-exact")

# %% tags=["after-prediction"]
wanted = unseen.target[:, 1:]
written = F.pad(write(model, unseen.source, unseen.lengths), (0, 12))
written = written[:, : wanted.shape[1]]  # as wide as what is wanted
right = exact_matches(written, wanted, dates.STOP).item()
print(f"written freely, right to the last digit: {right:.1%} of 500 unseen days")

# %% [markdown]
# Try it on dates of your own, and on two that it cannot know: one does not exist, one is from
# before 1900.

# %%
MINE = ["4 jul 1976", "31.12.1999", "29th of february 2024", "30 feb 2021", "3 mar 1521"]
source, lengths = dates.encode(MINE)
for text, tokens in zip(MINE, write(model, source, lengths), strict=True):
    said = tokens.tolist()
    said = said[: said.index(dates.STOP)] if dates.STOP in said else said
    print(f"{text:>24}  →  {dates.decode(said)}")

# %% [markdown]
# The last two are outside of everything that it has seen. It has no way to say "I do not know": it
# writes what looks like a date.
#
# ## What it looks at
#
# With every digit the decoder asks the source. What does it look at? **Predict** before you look.

# %%
quiz("08-align")

# %% [markdown]
# A row is what the decoder has just read; what it *writes* next stands behind the arrow. A column
# is a character of the source. The map is the mean over the heads of one block; switch between the
# blocks.

# %% tags=["after-prediction"]
text = "3rd of march 2021"
source, lengths = dates.encode([text])
said = torch.cat([torch.full((1, 1), dates.START), write(model, source, lengths)], dim=1)
with torch.no_grad(), attention_maps(model) as maps:
    model(source, lengths, said[:, :-1])
crossed = torch.cat([maps[f"decoder.{i}.cross_attention"].mean(1) for i in range(2)])
names = [dates.vocabulary[i] for i in said[0].tolist()]
AttentionMap(
    crossed,
    [f"{read} → {wrote}" for read, wrote in itertools.pairwise(names)],
    list(text),
    names=["block 0", "block 1"],
    title="What does the decoder look at before each digit?",
)

# %% [markdown]
# One sentence is an anecdote. The record has five models, each trained on other random numbers, for
# longer than yours, and takes unseen dates that name their month: how much of the cross-attention
# lies on the very character that a digit comes from, in the better one of the two blocks? For the
# month that is any letter of its name. Beside it stands what even attention would give, and a
# **control**: the same model, trained on the same sources and targets, paired at random. What this
# one gets right it owes to the form of a date alone. *No positions* has no position vectors on
# either side.

# %%
RETRAIN = False
record = recorded("dates")
found = study.run(**record["settings"], say=print) if RETRAIN else record["results"]
for arm in study.ARMS:
    exact, spread = mean_and_spread(losses(found, arm, key="exact"))
    loss = mean_and_spread(losses(found, arm))[0]
    print(f"{arm:>15}: {exact:.1%} ± {spread:.1%} exact, {loss:.3f} nats, "
          f"rate {found['chosen'][arm]:.2g}")  # fmt: skip

# %% tags=["after-prediction"]
for part in ("year", "month", "day"):
    even = losses(found, study.WHOLE, key="alignment")[0][f"{part}, evenly"][0]
    shares = {
        arm: [max(a[part]) for a in losses(found, arm, key="alignment")]
        for arm in (study.WHOLE, study.SHUFFLED)
    }
    before = [max(a[part]) for a in losses(found, study.WHOLE, key="alignment before")]
    told = ", ".join(f"{arm} {mean_and_spread(s)[0]:.0%}" for arm, s in shares.items())
    print(f"{part:>5}: {told}, untrained {mean_and_spread(before)[0]:.0%}, evenly {even:.0%}")

# %% [markdown]
# Training has made the alignment: before it, attention is even. And it is not complete. A part of
# the attention lies elsewhere, though nearly all dates are right. A value can be read without
# looking at it alone, and by the time the decoder asks, the encoder has already mixed the
# characters: what stands at the `m` of *march* may know the year. Attention tells where a model
# *reads*; it does not say what it knows. [Lesson
# 10](10_inside_the_heads.ipynb) measures how far the two can be apart.
#
# ## What we measured

# %%
claims = Claims("08_encoder_decoder")
claims.add("base-65-million", total)
claims.add("only-known-outputs", parallel_gap)
claims.add("first-step-is-the-rate", (moved / -0.01).tolist())
claims.add("dates-are-learned", found)
claims.add("it-reads-the-source", found)
claims.add("looks-where-it-comes-from", found)
claims.add("positions-for-dates", found)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("08-quiz-masks")

# %%
quiz("08-quiz-shuffled")

# %%
quiz("08-quiz-parallel")

# %% [markdown]
# ## Further reading
#
# - A. Vaswani et al., [*Attention Is All You Need*](https://arxiv.org/abs/1706.03762), 2017: the
#   model, label smoothing, the schedule.
# - D. Bahdanau, K. Cho and Y. Bengio, [*Neural Machine Translation by Jointly Learning to Align and
#   Translate*](https://arxiv.org/abs/1409.0473), 2014: attention before the Transformer, with the
#   first maps of this kind.
# - D. P. Kingma and J. Ba, [*Adam: A Method for Stochastic
#   Optimization*](https://arxiv.org/abs/1412.6980), 2014.
# - I. Loshchilov and F. Hutter, [*Decoupled Weight Decay
#   Regularization*](https://arxiv.org/abs/1711.05101), 2017: the W.
# - C. Raffel et al., [*Exploring the Limits of Transfer Learning with a Unified Text-to-Text
#   Transformer*](https://arxiv.org/abs/1910.10683), 2019 (T5): encoder–decoder against the others.
#
# **Before:** [lesson 07](07_going_deep.ipynb), going deep. **Next:** [lesson
# 09](09_language_model.ipynb), a model that writes: half of this model is enough.
