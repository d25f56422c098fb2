# %% [markdown]
# # 10 · Inside the heads
#
# ![](drawings/map.svg)
#
# **What have the heads learned, and how would one know?** Nobody has told a head what to look at.
# Training has moved numbers until the loss was small. Afterwards there is a machine that works, and
# no plan of it. In this lesson you take one apart.
#
# You train a small model until a mechanism appears that large models have as well, see the moment
# at which it does, and find its parts: by scoring heads, by switching them off, by putting a head's
# output from one run into another run. Then you read out the stream between the blocks of the model
# of [lesson 09](09_language_model.ipynb). And you measure how far a map of attention may be trusted
# as an explanation. Measurements have a control beside them, mostly one that should show nothing.
#
# *About 140 minutes. You need: lessons [01](01_attention.ipynb) (reading maps),
# [06](06_transformer_block.ipynb) (the residual stream) and [09](09_language_model.ipynb) (the
# model).*

# %%
import math

import torch

from tfcourse import Claims, check, figures, hint, mine, quiz, reveal
from tfcourse.experiments import explanation, mean_and_spread, recorded
from tfcourse.experiments import induction as study
from tfcourse.experiments import manual as shipped
from tfcourse.experiments.study import losses
from tfcourse.inside import (
    attention_maps,
    head_scores,
    logit_lens,
    replaced_heads,
)
from tfcourse.tasks import repeated_sequences
from tfcourse.training import fit
from tfcourse.widgets import AttentionMap, LogitLens, Playground

# %% [markdown]
# ## A text that repeats itself
#
# The text is random letters, and then the same ones again:

# %% tags=["nbval-check-output"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEF"
example = repeated_sequences(1, 10, len(LETTERS), torch.Generator().manual_seed(0))
spelled = [LETTERS[i] for i in example[0].tolist()]
print(" ".join(spelled))

# %%
quiz("10-halves")

# %% [markdown]
# The model is small: two layers of attention, with four heads each, rotary positions, and no MLP at
# all. Every layer adds to the stream what its heads have found:
#
# $$x \leftarrow x + \mathrm{attention}(\mathrm{norm}(x))$$
#
# The length of a half changes from batch to batch. Otherwise a head could simply count back, and
# would not have to compare letters.

# %%
STEPS = 600
torch.manual_seed(0)
model = study.make()
generator = torch.Generator().manual_seed(0)
unseen = study.held_out(0)  # 256 texts of 20 letters, each twice


def loss():
    shortest, longest = study.SHORTEST, study.LONGEST  # of a half
    length = torch.randint(shortest, longest + 1, (1,), generator=generator).item()
    return study.nats(model, repeated_sequences(64, length, len(LETTERS), generator)).mean()


curve = fit(
    model, loss, steps=STEPS, learning_rate=1e-2, warm_up=60, decay=True, clip=1.0,
    watch=figures.LiveCurve(
        "When does it learn the second half?",
        STEPS,
        held_out=lambda: study.halves(model, unseen)[1],
        times=20,
    ),
)  # fmt: skip

# %% tags=["after-prediction"]
first, second = study.halves(model, unseen)
guessing = math.log(len(LETTERS))
print(f"first half: {first:.2f} nats (guessing among {len(LETTERS)} letters: {guessing:.2f}); "
      f"second half: {second:.2f}")  # fmt: skip

# %% [markdown]
# (The held-out loss is that of the second half alone, the loss in training that of both. The first
# half costs a little more than guessing: the model expects repeats where there are none.) For a
# hundred steps little happens. Then, within fifty steps or so, the second half becomes known; the
# rest is slow. What was found there?
#
# ## Who looks where?
#
# Each head's map, for the text above. The rows are queries. Go through the heads: do you find one
# that always looks at the letter before? And one with a stripe in the lower half?

# %% tags=["after-prediction"]
with torch.no_grad(), attention_maps(model) as maps:
    model(example)
AttentionMap(
    torch.cat([m[0] for m in maps.values()]),
    spelled,
    names=[f"layer {layer}, head {head}" for layer in range(2) for head in range(4)],
    title="What does each head look at?",
)

# %% [markdown]
# A picture of one text is an anecdote. So score the heads, over many texts.
#
# ### Exercise · who looks at the token before?
#
# `weights` is (batch, heads, tokens, tokens), rows are queries, columns keys. Give each head's mean
# weight on the token just before the query, over the batch and over all tokens that have one before
# them: (heads,).


# %% exercise="previous_token_score" difficulty=1 minutes=8
def previous_token_score(weights):
    """(batch, heads, tokens, tokens) -> (heads,)"""
    ### BEGIN SOLUTION
    return weights.diagonal(-1, -2, -1).mean(dim=(0, 2))
    ### END SOLUTION


# %% check="previous_token_score"
previous_token_score = check(previous_token_score)

# %% [markdown]
# Now the stripe. In `… q x f … q` the model has just read the second `q`, and should say `x`. A
# head that looks for what followed *this* token the first time looks at the first `x`: one place
# behind the earlier `q`. Such a head is called an [**induction
# head**](glossary.ipynb#cell-id=induction-head) (Olsson et al., 2022), if it does two things: it
# looks there, and it makes that letter likelier. You score the first now; the second comes below.
#
# ### Exercise · who looks at what came next the first time?
#
# The text is 2 · `length` tokens long, and its second half repeats the first. Give each head's mean
# weight from a repeated token on the one that followed it the first time: (heads,). Take all tokens
# of the second half but the last one: what followed that the first time is the first token of the
# second half.


# %% exercise="induction_score" difficulty=2 minutes=12
def induction_score(weights, length):
    """(batch, heads, 2 · length, 2 · length) -> (heads,)"""
    ### BEGIN SOLUTION
    repeated = torch.arange(length, 2 * length - 1)
    return weights[:, :, repeated, repeated - length + 1].mean(dim=(0, 2))
    ### END SOLUTION


# %% check="induction_score"
induction_score = check(induction_score)

# %% tags=["after-prediction"]
torch.manual_seed(0)
untrained = study.make().eval()
for name, which in (("untrained", untrained), ("trained", model)):
    with torch.no_grad(), attention_maps(which) as maps:
        which(unseen)
    for layer, weights in enumerate(maps.values()):
        before = ", ".join(f"{s:.2f}" for s in previous_token_score(weights).tolist())
        stripe = ", ".join(f"{s:.2f}" for s in induction_score(weights, study.LENGTH).tolist())
        print(f"{name:>9}, layer {layer}: token before {before}; induction {stripe}")

# %% [markdown]
# In layer 0 there is a head that looks at the token before, and layer 1 has the stripe. The record
# has five such models. And three controls: one layer, one layer that is twice as wide (eight
# heads), and two layers trained on texts where nothing repeats.

# %%
quiz("10-one-layer")

# %%
RETRAIN = False
record = recorded("induction")
found = study.run(**record["settings"], say=print) if RETRAIN else record["results"]
for arm in study.ARMS:
    nats = mean_and_spread(losses(found, arm))
    score = mean_and_spread(study.best_scores(found, arm))
    print(f"{arm:>25}: second half {nats[0]:.2f} ± {nats[1]:.2f} nats, "
          f"best induction score {score[0]:.2f} ± {score[1]:.2f}")  # fmt: skip

# %% [markdown]
# Why is one layer better than guessing? What would one lose who knows which letters the first half
# holds, and how often, but not their order? And one who compares a single letter: finds all earlier
# places of the letter that it has just read, and expects what came next at any of them?

# %% tags=["after-prediction", "nbval-check-output"]
half, n = study.LENGTH, 2 * study.LENGTH
same = unseen[:, :, None] == unseen[:, None, :]  # (texts, tokens, tokens)
bag = same[:, half + 1 :, :half].float().mean(-1)
earlier = same[:, :-1, :-1] & torch.ones(n - 1, n - 1).tril(-1).bool()
hits = earlier & same[:, 1:, 1:]  # what came next there is what comes next here
one_letter = (hits.sum(-1) / earlier.sum(-1))[:, half:]
print(f"who knows the letters, not their order: {-bag.log().mean():.2f} nats")
print(f"who compares one letter:                {-one_letter.log().mean():.2f} nats")

# %% [markdown]
# One layer knows the letters and no more. And two layers do better than comparing one letter: a
# letter may stand twice in the half, as `d` does in the example, and then they know more often
# which one is meant. So they must compare more than one. How, we have not measured.
#
# ### When does it appear?
#
# The best induction score and the loss of the second half, in one run, every ten steps:

# %% tags=["after-prediction"]
course = losses(found, study.TWO, key="course")[0]
figures.lines(
    course["step"],
    {
        "loss of the second half, share of its first value": [
            nats / course["loss"][0] for nats in course["loss"]
        ],
        "best induction score": course["induction"],
        "best score for the token before": course["previous"],
    },
    title="Does the head appear when the loss drops? (first of five runs)",
    x_label="step",
    y_label="score, or share of the loss",
    markers=False,
    alt="Both scores rise between steps 100 and 150, together, and the loss of the second half "
    "falls at the same time.",
)

# %% [markdown]
# One might expect the head that looks one back first, and later the one that uses it. But in all
# five runs of the record they rise together, within some twenty steps, and the loss falls with
# them. It looks as if each pulled the other up: alone, neither is of use.
#
# ## Switch a head off
#
# A map says where a head looks. Whether it *matters*, one learns by taking it away. One could put
# zeros in its place. But a head that always gives something leaves a hole then, and the layers
# behind have never seen such a hole. Better: what it gives *on average*. Then what it knows of this
# text is gone, and what it always gives stays. This is
# [**ablation**](glossary.ipynb#cell-id=ablation). (In lesson 07 a part was missing from the start
# of training. Here the model has learned with it.)
#
# ### Exercise · switch heads off
#
# `heads` is (batch, heads, tokens, d_head): what each head gives. `off` is a list of numbers of
# heads. Give a new tensor in which those heads give their mean over the texts: at each place of the
# text the mean over the batch. The others stay as they are, and `heads` is not changed.


# %% exercise="mean_ablate" difficulty=1 minutes=8
def mean_ablate(heads, off):
    """(batch, heads, tokens, d_head), heads to switch off -> the same shape"""
    ### BEGIN SOLUTION
    new = heads.clone()
    for head in off:
        new[:, head] = heads[:, head].mean(dim=0)
    return new
    ### END SOLUTION


# %% check="mean_ablate"
mean_ablate = check(mean_ablate)

# %%
quiz("10-ablate")


# %% tags=["after-prediction"]
def without(which, layer, off):
    """The second half's loss when some heads of a layer give their mean."""
    name = study.name_of(layer)
    heads = mean_ablate(study.kept_heads(which, unseen)[name], off)
    with replaced_heads(which, {(name, head): heads[:, head] for head in off}):
        return study.halves(which, unseen)[1]


cost = {f"{i}.{head}": without(model, i, [head]) - second for i in range(2) for head in range(4)}
figures.bars(
    list(cost),
    list(cost.values()),
    title="What does each head cost when it is off?",
    x_label="layer.head",
    y_label="nats more on the second half",
    alt=", ".join(f"{name}: {value:+.2f}" for name, value in cost.items()),
)

# %% tags=["after-prediction"]
fresh = study.halves(untrained, unseen)[1]
change = max(abs(without(untrained, i, [head]) - fresh) for i in range(2) for head in range(4))
print(f"untrained: no head changes more than {change:.2f} nats")
worst = max(cost, key=cost.get)
print(f"trained, without head {worst}: {second + cost[worst]:.2f} nats; guessing is {guessing:.2f}")
for off in ([0, 1], [0, 1, 2], [0, 1, 2, 3]):
    print(f"trained, without heads {off} of layer 1: {without(model, 1, off):.2f} nats")

# %% [markdown]
# Without one head of layer 0 the second half costs more than guessing. The model does not become
# unsure; layer 1 goes on copying, from wrong places. The heads of layer 1 cost little each, and
# together nearly everything: they stand in for each other. So "this head costs little" does not
# mean that it does nothing. And what is left of the best induction head's score without each head
# of layer 0?

# %% tags=["after-prediction"]
whole = max(map(max, study.scores(model, unseen)["induction"]))
for head, left in enumerate(study.fed(model, unseen)["each"]):
    print(f"without head 0.{head}: {left:.2f} of {whole:.2f}")

# %% [markdown]
# So the two work in a row: layer 0 writes to each token "the one before me is …". Layer 1 looks for
# its own token in *that*, and so arrives one place further on. That is a **circuit**. And now you
# know why one layer is not enough: there the keys know only themselves.
#
# ## From one run into another
#
# Switching off asks: is it needed? The opposite question is: does it carry the answer? Take a text
# that repeats itself (*clean*), and the same text with another first half (*corrupted*): there the
# second half cannot be known. Now run the corrupted one, but let one head give what it gave in the
# clean one. How much of the loss comes back? ([**Patching**](glossary.ipynb#cell-id=patching).)
#
# ### Find the bugs · what a patch brings back
#
# `clean`, `corrupted` and `patched` are losses, (batch, 2 · length − 1): entry i is the loss of
# token i + 1. Give the share of what was lost that the patch brings back, over the places that can
# be known, a tensor without axes. (The first token of the second half is none of them: nothing
# tells that the text begins again.) Take the means first, then the share. A patch that changes
# nothing gets 0, one that repairs all gets 1. There are two bugs.


# %% exercise="restored" difficulty=2 minutes=10
def restored(clean, corrupted, patched, length):
    """The share of the loss that comes back on the second half"""
    ### BEGIN SOLUTION
    clean, corrupted, patched = (
        losses[:, length:].mean() for losses in (clean, corrupted, patched)
    )
    return (corrupted - patched) / (corrupted - clean)
    ### END SOLUTION
    ### BEGIN GIVEN
    # return patched.mean() / corrupted.mean()
    ### END GIVEN


# %% check="restored"
restored = check(restored)

# %% tags=["after-prediction"]
corrupted_text = study.corrupted(unseen, torch.Generator().manual_seed(1))
kept = study.kept_heads(model, unseen)  # name -> (texts, heads, tokens, d_head), of the clean run


@torch.no_grad()
def brought_back(name, chosen, shift=0):
    """What these heads bring back; shifted, each text gets what another one's heads gave."""
    heads = {(name, head): kept[name][:, head].roll(shift, 0) for head in chosen}
    clean, corrupted = study.nats(model, unseen), study.nats(model, corrupted_text)
    with replaced_heads(model, heads):
        return restored(clean, corrupted, study.nats(model, corrupted_text), study.LENGTH).item()


for name in kept:
    told = ", ".join(f"{brought_back(name, [head]):+.0%}" for head in range(4))
    print(f"{name}: one head after the other {told}; all four {brought_back(name, range(4)):+.0%}; "
          f"all four of another text {brought_back(name, range(4), shift=1):+.0%}")  # fmt: skip

# %% [markdown]
# The head that costs most does not bring the answer back; it makes things worse. It tells layer 1
# where to look, and there stands a wrong letter now. It carries the *place*, not the letter. The
# heads of layer 1 each bring back a part, and all together the whole. (That all four bring back
# everything is no surprise: at these places little else differs. The control is the last number.
# And this is one direction: *is it enough to bring the answer back?* The other one, from the
# corrupted run into the clean one, asks: *is it enough to spoil it?*)
#
# *Needed* and *carrying* are two questions, and each needs its own experiment.
#
# ## The stream as a shared bus
#
# No layer hands its result to the next one. Each adds to the [residual
# stream](glossary.ipynb#cell-id=residual-stream), and each reads what all before it have written.
# At the end a norm and the head make logits of the sum. So one can ask of each logit: who wrote it?
#
# $$\text{logit} = \mathrm{norm}\Big(\sum_i \text{part}_i\Big)\cdot u$$
#
# Here part 0 is the embedding, the others are what each head or sub-layer has added, and u is the
# token's row in the output head (which has nothing to do with the heads of attention). Were there
# no norm, each part's share would be part · u. But LayerNorm takes the mean away, divides by the
# standard deviation, multiplies by its weight w, and adds its bias (lesson [04](04_norms.ipynb)).
#
# ### Exercise · who made this logit?
#
# `parts` is (parts, batch, tokens, d_model), `w` and `u` are (d_model,). The norm is a LayerNorm of
# the sum of all parts: variance over d_model (not d_model − 1), eps = 1e-5 under the root. Leave
# its bias out: it belongs to no part. Give what each part adds to the logit, (parts, batch,
# tokens), such that the shares sum to the logit. The norm is held: a share may depend on the other
# parts only through the standard deviation, and a part of zeros adds nothing.


# %% exercise="logit_shares" graded=true points=4 difficulty=3 minutes=20
def logit_shares(parts, w, u):
    """(parts, batch, tokens, d_model) -> (parts, batch, tokens), which sum to the logit"""
    ### BEGIN SOLUTION
    std = (parts.sum(0).var(-1, correction=0) + 1e-5).sqrt()  # of the whole stream
    centered = parts - parts.mean(-1, keepdim=True)
    return (centered * w) @ u / std
    ### END SOLUTION


# %% check="logit_shares"
logit_shares = check(logit_shares)

# %% [markdown]
# This is direct work only. What a later layer makes of a part is on that layer's account. And a
# share is what the part adds, not what would be missing without it.
#
# Now the second half of the definition: does an induction head make likelier what it looks at? The
# logit of the right letter, less the mean over all letters, part by part. (The exercise is graded,
# so the study's own shares stand here.)

# %% tags=["after-prediction"]
for name, which in (("untrained", untrained), ("trained", model)):
    shares = study.right_shares(which, unseen)
    told = ", ".join(f"{part} {share:+.1f}" for part, share in shares.items())
    print(f"{name:>9}: {told}")

# %% [markdown]
# So it is the heads of layer 1 that write the answer. They look at the right place *and* copy what
# stands there.
#
# Another way to look at the same stream: pretend that the model ended earlier. Take the stream
# after 0, 1, 2, … blocks, put it through the last norm and the head, and see what would have been
# said. That is the [**logit lens**](glossary.ipynb#cell-id=logit-lens) (nostalgebraist, 2020). The
# model is the one of lesson 09, and the text is from the part that it has never seen. Which
# characters are found early, and which only at the end?

# %% tags=["after-prediction"]
theirs, manual, _ = shipped.load()
window = manual.batch(1, 48, torch.Generator().manual_seed(21), "held out")[0]
LogitLens(logit_lens(theirs, window), manual.vocabulary, window[0].tolist())

# %% tags=["after-prediction"]
texts = manual.batch(64, 48, torch.Generator().manual_seed(6), "held out")[0]
beginner = explanation.make(explanation.UNTRAINED, 0)
for name, which in (("untrained", beginner), ("trained", theirs)):
    said = logit_lens(which, texts)[:, :, :-1].argmax(-1)  # (layers, texts, tokens - 1)
    right = (said == texts[:, 1:]).float().mean(dim=(1, 2))
    told = ", ".join(f"{share:.0%}" for share in right.tolist())
    print(f"{name:>9}, right characters after 0, 1, 2, 3 blocks: {told}")

# %% [markdown]
# Why do both begin alike? With no block at all, a tied model says again what it has just read, and
# among spaces that is often right.
#
# Mind what is measured. The lens puts early streams through a norm and an output head that were
# trained for the last one. Where it reads nonsense, the stream may hold the answer in a form that
# this head cannot read.
#
# ## Attention is not explanation
#
# What do the twelve heads of this model look at? Their mean weight on the token before, on the
# first token of the text, on themselves, and on blanks (spaces and line ends). The first line is
# what even attention would give.

# %% tags=["after-prediction"]
blank = torch.isin(texts, torch.tensor(manual.encode(" \n")))[:, None, None].float()
with torch.no_grad(), attention_maps(theirs) as maps:
    theirs(texts)
even = torch.ones(48, 48).tril() / torch.arange(1, 49)[:, None]
kinds = {"evenly": even.expand(64, 1, 48, 48)}
kinds |= {f"layer {i}": weights for i, weights in enumerate(maps.values())}
for name, weights in kinds.items():
    scores = {**head_scores(weights), "blanks": (weights * blank).sum(-1).mean(dim=(0, 2))}
    for head in range(weights.shape[1]):
        told = ", ".join(f"{kind} {score[head]:4.0%}" for kind, score in scores.items())
        print(f"{name}, head {head}: {told}")

# %% [markdown]
# One head clearly prefers the token before, and some take blanks more often than evenly. In large
# models there are many that put most of their weight on the *first* token, whatever it is: a
# **sink**, where weight goes that has nothing to fetch (Xiao et al., 2023). In this small model no
# head does so.
#
# So one can tell a little of what a head is for. Does that explain what the model says?
#
# > Our findings show that standard attention modules do not provide meaningful explanations and
# > should not be treated as though they do. *(Jain and Wallace, 2019)*
#
# (Their models were recurrent networks with one layer of attention.) They put other weights in
# place of a model's own, and what it said hardly changed. Wiegreffe and Pinter (2019) answer:
# weights that are made by hand for one text are no rival explanation; first show a trained model
# that has them. And "explanation" has more than one meaning. So measure several things.

# %%
quiz("10-weight")

# %% [markdown]
# The simplest test: forbid it. What would the head have done, had the token not been there?
#
# ### Exercise · as if a token were not there
#
# `weights` is (batch, heads, queries, keys), after the softmax. Give the weights as they would be
# had key number `key` been masked *before* the softmax. A row whose whole weight was there has
# nothing to attend to: zeros.


# %% exercise="without_key" difficulty=2 minutes=8
def without_key(weights, key):
    """(batch, heads, queries, keys) -> the same shape; that key gets nothing"""
    ### BEGIN SOLUTION
    kept = weights.clone()
    kept[..., key] = 0
    left = kept.sum(dim=-1, keepdim=True)
    return torch.where(left > 0, kept / left.clamp(min=1e-30), 0.0)
    ### END SOLUTION


# %% check="without_key"
without_key = check(without_key)

# %% [markdown]
# One window of the manual, its last character, all twelve heads. Each head loses its favorite
# place. How far does that move what the model says next ([KL
# divergence](glossary.ipynb#cell-id=KL-divergence), in nats)? Beside it stands the head's *say*:
# how far the answer moves when the head gives its mean. And how much of the head's weight can be
# moved to other places *unheard*, with at most 0.01 nats of change and the same likeliest
# character? We try 64 other sets of weights: even ones, its own in other orders, all on one place.

# %% tags=["after-prediction"]
look = explanation.LastToken(theirs, window[0])
means = explanation.usual(theirs, texts)
free = explanation.reweighted(look, means, torch.Generator().manual_seed(0))
print("layer.head   most weight   forbidden: nats   say: nats   weight that can be moved unheard")
for case in free:
    layer, head = case["layer"], case["head"]
    own = look.weights[layer, head]  # (keys,) of the last query
    there = own.argmax().item()
    rest = without_key(own[None, None, None], there)[0, 0]
    nats = look.fetching({(layer, head): rest})[0].item()
    character = manual.decode([window[0, there].item()])
    print(f"{layer}.{head}  {own[there]:10.0%} on {character!r:5} {nats:14.4f} "
          f"{case['off']:12.4f} {case['farthest']:14.0%}")  # fmt: skip

# %% [markdown]
# Most heads can look somewhere else and nothing changes, even some that have a say. The record asks
# it of many windows. A head's weights are *moved far* if half of the weight or more lies on other
# places; *little* say is up to 0.01 nats, *some* up to 0.1, *much* is more. The control is a model
# with first weights.

# %%
asked = recorded("explanation")["results"]
for arm in explanation.ARMS:
    for group, _, _ in explanation.GROUPS:
        print(f"{arm:>9}, heads with {group:>6} say: moved far, unheard, in "
              f"{explanation.told(asked, group, arm)}")  # fmt: skip
    moved = losses(asked, arm, key="nats")
    for change, words in (("off", "its mean for a head"), ("even", "even weights")):
        values = [sum(explanation.flat(run[change])) / 12 for run in moved]
        print(f"{arm:>9}, {words:>19}: {mean_and_spread(values)[0]:.4f} nats")

# %% [markdown]
# That other weights *can* be found which change nothing is true of an untrained model as well, so
# by itself it is a weak test. So look at even weights. In the untrained model it does not matter
# where a head looks. In the trained one even weights cost nearly as much as taking the head away.
# So where a trained head looks does matter, though at one place other weights would often have done
# as well.
#
# Another question: which character of the text *matters*? Put another one in its place, and see how
# far that moves what is said. Do the weights know which one it is? (1 would be the same order, 0 no
# connection. Two controls: the weights that the same layer has in *another* text, and the mere
# place of a character, later ones first.)

# %% tags=["after-prediction"]
runs = losses(asked, explanation.TRAINED, key="layers")
for layer in range(3):
    own, elsewhere = (
        mean_and_spread([run[name][layer] for run in runs])[0]
        for name in ("importance", "importance, elsewhere")
    )
    print(f"layer {layer}: {own:.2f}; with the weights of another text {elsewhere:.2f}")
place = mean_and_spread(losses(asked, explanation.TRAINED, key="position"))[0]
print(f"the mere place: {place:.2f}")

# %% tags=["after-prediction"]
print("within one head: a key's weight, and what happens when it is forbidden to this head")
for name, words in (("weight", "the same order"), ("weight elsewhere", "weights of another text"),
                    ("greatest weight, greatest effect", "the same key is first")):  # fmt: skip
    trained, control = (
        mean_and_spread(explanation.over_heads(asked, arm, name))[0] for arm in explanation.ARMS
    )
    print(f"{words:>23}: {trained:.2f}; untrained {control:.2f}")

# %% [markdown]
# The weights seem to know what matters. But those of another text know nearly as much, and the mere
# place of a character more: late characters matter, and late characters get weight. Without the
# controls one would have been taken in.
#
# So what may one read from a map? *Routing*: from which places of the stream a head fetches. Inside
# one head, greater weight mostly means greater effect. Not: which character mattered to the model.
# A place above the first layer already holds what other characters have left there. What matters is
# a question of its own, and it is answered by changing the character. (Does it help to multiply a
# weight by the size of what it fetches, as Kobayashi et al. propose? The table below has it, and a
# better idea.)
#
# Below you can try it yourself: switch heads and blocks off, and see what the model would have
# said. (*Off* is zero here.)

# %%
Playground(theirs, manual, 'The "if" statement is used for conditional ')

# %% [markdown]
# ## What we measured

# %%
claims = Claims("10_inside_the_heads")
for claim in study.CLAIMS:
    claims.add(claim.id, found)
for claim in explanation.CLAIMS:
    claims.add(claim.id, asked)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("10-quiz-circuit")

# %%
quiz("10-quiz-zero")

# %%
quiz("10-quiz-lens")

# %% [markdown]
# ## Further reading
#
# - N. Elhage et al., [*A Mathematical Framework for Transformer
# Circuits*](https://transformer-circuits.pub/2021/framework/index.html), 2021: the stream as a
# bus, models without MLPs, why one layer is not enough.
# - C. Olsson et al., [*In-context Learning and Induction
#   Heads*](https://arxiv.org/abs/2209.11895), 2022.
# - S. Jain and B. Wallace, [*Attention is not
#   Explanation*](https://arxiv.org/abs/1902.10186), 2019;
#   and S. Wiegreffe and Y. Pinter, [*Attention is not not
#   Explanation*](https://arxiv.org/abs/1908.04626), 2019.
# - nostalgebraist, [*interpreting GPT: the logit
#   lens*](https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens), 2020.
# - G. Xiao et al., [*Efficient Streaming Language Models with Attention
#   Sinks*](https://arxiv.org/abs/2309.17453), 2023.
# - G. Kobayashi et al., [*Attention is Not Only a Weight*](https://arxiv.org/abs/2004.10102), 2020.
#
# **Before:** [lesson 09](09_language_model.ipynb), a model that writes. **Next:** [lesson
# 11](11_a_real_llm.ipynb): a published language model speaks through your code.
