# %% [markdown]
# # 12 · Scale
#
# ![](drawings/map.svg)
#
# **How large, how fast, on how many machines?** The model of lesson 11 has 135 million parameters
# and fits on any laptop. Others have a thousand times as many. Will one fit on the machine that you
# have? How long does a token take, and what holds it up? And how do many machines train one model
# together, as if they were one?
#
# All of this can be said before anything is built, from a few sizes. You write the formulas,
# compare them with real models and with print, and measure what your own machine can do. In the end
# you start several processes from this notebook, let them train one model, and kill one of them.
#
# *About 130 minutes. You need: lessons [02](02_multi_head_attention.ipynb) (shared heads, the
# cache), [05](05_feed_forward.ipynb) (the gated MLP), [07](07_going_deep.ipynb) (AdamW) and
# [09](09_language_model.ipynb) (generation).*

# %%
import copy

import torch
import torch.nn.functional as F

from tfcourse import Claims, check, device, figures, hint, mine, parallel, quiz, reveal, sizing
from tfcourse.experiments import mean_and_spread, published, recorded
from tfcourse.models import PRESETS, LanguageModel, count_parameters
from tfcourse.quantized import to_int8
from tfcourse.widgets import SizeBudget

parallel.prepare()  # PyTorch is imported beside, for the processes that we start in the end

# %% [markdown]
# ## How large is it?
#
# Papers give a few sizes in a table, and from them everything follows. These are some models that
# you know by name. What do they have in common?

# %% tags=["nbval-check-output"]
for name, c in PRESETS.items():
    ratio = sizing.d_ff(c) / c.d_model
    print(f"{name:>16}: d_model {c.d_model:6,}, layers {c.layers:2}, heads {c.n_heads:2} of "
          f"{c.d_head:3}, d_ff {ratio:.2f} · d_model, dropout {c.dropout}")  # fmt: skip

# %% [markdown]
# A head is 64 or 128 wide, nearly always. The MLP is 4 times as wide as the stream, or, where it is
# gated, something between 8/3 and 4 times. SmolLM2 is extreme: 30 layers, and only 576 wide. The
# models of 2017 to 2019 were trained with dropout, 0.1 or more (our presets of GPT-2 leave it out).
# The later ones have none: they see most of their texts only once.
#
# ### Exercise · count a Llama
#
# Give the number of parameters of a model of Llama's kind, as an int. There are no biases. Each
# block has projections for q, k, v and the output (n_kv_heads heads of keys and values; all heads
# are d_head = d_model / n_heads wide), a gated MLP of width d_ff, which is three matrices, and two
# RMSNorms with d_model weights each. One more RMSNorm stands behind the last block. Embedding and
# output head have d_model numbers for each token of the vocabulary; if `tied`, they are one and the
# same table. Rotary positions have no parameters.


# %% exercise="count_llama" difficulty=2 minutes=12
def count_llama(vocabulary, d_model, n_heads, n_kv_heads, d_ff, layers, tied):
    """Sizes -> the number of parameters (int)"""
    ### BEGIN SOLUTION
    d_head = d_model // n_heads
    attention = 2 * d_model * d_model + 2 * d_model * n_kv_heads * d_head
    block = attention + 3 * d_model * d_ff + 2 * d_model
    tables = vocabulary * d_model * (1 if tied else 2)
    return layers * block + d_model + tables
    ### END SOLUTION


# %% check="count_llama"
count_llama = check(count_llama)

# %% [markdown]
# Beside it the models themselves, built without memory (`meta` tensors have a shape and no
# numbers), and a formula that one meets on the web: 4 d² for attention, 2 · d · d_ff for the MLP.

# %% tags=["nbval-check-output"]
counted, estimated = {}, {}
for name in ("smollm2-135m", "phi-3-mini", "llama-7b", "llama-3-8b"):
    c = PRESETS[name]
    with torch.device("meta"):
        counted[name] = count_parameters(LanguageModel(c))
    by_you = count_llama(
        c.vocabulary, c.d_model, c.n_heads, c.n_kv_heads or c.n_heads, c.d_ff, c.layers, c.tied
    )
    tables = c.vocabulary * c.d_model * (1 if c.tied else 2)
    estimated[name] = c.layers * (4 * c.d_model**2 + 2 * c.d_model * c.d_ff) + tables
    print(f"{name:>12}: {by_you:13,}, right: {by_you == counted[name]}; "
          f"with two matrices {estimated[name] / 1e9:.2f} billion")  # fmt: skip

# %% [markdown]
# The formula from the web leaves out a third of every gated MLP. It was right for GPT-2, and it
# gives Llama-7B 5.3 billion. For Llama-3 8B its error is smaller: it counts keys and values at full
# width, and they are narrower there. One error hides part of the other.
#
# Now all of it, for any sizes. Choose a model, and turn what you like. Where do the parameters
# stand in a small model, and where in a large one?

# %%
SizeBudget("smollm2-135m")

# %% [markdown]
# ## How much work?
#
# Each weight of a matrix is used once for each token: one multiply, one add. So a forward pass
# costs about **2 operations per parameter and token**. The way back needs twice that: one product
# for the gradient of the input, one for that of the weights. Together 6. On top come the scores and
# the weighted sums: in each layer 2 · d_model operations for a query and a key, and as many for a
# weight and a value. A causal token sees half of the text on average, so that is 2 · layers ·
# d_model · length for each token, and for a whole text it grows with the square of its length.
# `sizing` adds it all up:

# %% tags=["nbval-check-output"]
gpt3 = PRESETS["gpt3"]
for length in (2048, 32_768, 131_072):
    work = sizing.forward_operations(gpt3, length)
    share = work.scores / work.total
    print(f"GPT-3's sizes, {length:7,} tokens: scores are {share:.0%} of the work")
gpt3_work = sizing.training_operations(gpt3, 300_000_000_000, 2048)
print(f"to train it on 300 billion tokens: {gpt3_work:.2e} operations")

# %% [markdown]
# The paper of GPT-3 gives 3.14e23. How long is that on one GPU? And does a real training use all
# that a GPU can do? An A100 does at most 312e12 operations a second in bfloat16. Llama-7B learned
# from 1 trillion tokens in 82,432 hours of such GPUs (Touvron et al., 2023, table 15).

# %% tags=["nbval-check-output"]
llama_work = sizing.training_operations(PRESETS["llama-7b"], 1_000_000_000_000, 2048)
used = llama_work / (82_432 * 3600 * 312e12)
years = gpt3_work / 312e12 / (365 * 24 * 3600)
print(f"GPT-3 on one A100 at its best: {years:.0f} years")
print(f"Llama-7B: {llama_work:.2e} operations, {used:.0%} of what the GPUs could have done")

# %% [markdown]
# That share is called **utilization** (MFU, *model FLOPs utilization*). A half is good. Where is
# the rest? Waiting: for numbers from memory, and for other machines. We come to both.
#
# ## What must be held?
#
# To write a text, a device holds the weights, and keys and values of all tokens so far (lesson 02).
# To learn, it holds much more.
#
# ### Exercise · what each device holds
#
# A model can be trained on several devices that each have all of it and a part of the texts: *data
# parallelism*, more below. *Mixed precision* means that products are computed in bfloat16. But the
# steps of AdamW are so small that they would be rounded away there, so the optimizer keeps the
# weights a second time. Together there are, for each parameter: the weight in bfloat16 (2 bytes),
# its gradient in bfloat16 (2 bytes), and the optimizer's part in float32, which is the weight once
# more and two moments (3 · 4 = 12 bytes). With plain data parallelism each device holds all of
# that. **ZeRO** (Rajbhandari et al., 2020) spreads it evenly over the devices, in stages: 0 spreads
# nothing; 1 the optimizer's part; 2 the gradients too; 3 the weights too. Give the bytes on one
# device, a float. (The activations, which the way back needs, are not counted here.)


# %% exercise="bytes_per_device" difficulty=1 minutes=8
def bytes_per_device(parameters, devices, stage):
    """How many parameters and devices, ZeRO's stage 0 to 3 -> bytes on one device (float)"""
    ### BEGIN SOLUTION
    optimizer = 12 / (devices if stage >= 1 else 1)
    gradient = 2 / (devices if stage >= 2 else 1)
    weight = 2 / (devices if stage >= 3 else 1)
    return parameters * (optimizer + gradient + weight)
    ### END SOLUTION


# %% check="bytes_per_device"
bytes_per_device = check(bytes_per_device)

# %%
quiz("12-fits")

# %% tags=["after-prediction", "nbval-check-output"]
llama = counted["llama-7b"]
print(f"Llama-7B, weights to write with, bfloat16: {2 * llama / 1e9:.1f} GB")
for devices in (1, 2, 8, 64):
    held = ", ".join(f"{bytes_per_device(llama, devices, s) / 1e9:6.1f}" for s in range(4))
    print(f"to learn, {devices:2} devices, stages 0 to 3: {held} GB on each")

# %% [markdown]
# ![](drawings/sharding.svg)
#
# A device that can run a model is often far too small to train it. Why not always stage 3? Stages 1
# and 2 send no more than plain data parallelism. Stage 3 sends half as much again, since the
# weights have to be gathered.
#
# All this is without the **activations**: what each sub-layer has to remember until the gradient
# comes back. With one text they are small beside the rest; they grow with batch and length.
# *Checkpointing* keeps only what enters each block, and computes the rest a second time. Try it:
# how many devices of 80 GB does Llama-7B need, with texts of 2048 tokens?

# %%
SizeBudget("llama-7b", learn=True)

# %% [markdown]
# ## Why is writing slow?
#
# A processor can do many operations a second, but only with numbers that it has. Each weight has to
# come from memory. When a whole text is read, a weight comes once and serves for all its tokens.
# When a model *writes*, tokens come one after the other, and every weight comes anew for each.
#
# So take a matrix, and multiply it with 1 vector, with 2, with 4, … at once. **Predict**: how much
# longer do 32 vectors take than one?

# %%
quiz("12-thirty-two")

# %% tags=["after-prediction"]
width = 4096
matrix = torch.randn(width, width)  # 67 MB
counts = [1, 2, 4, 8, 16, 32, 64, 128]
vectors = torch.randn(max(counts), width)
works = {n: (lambda n=n: F.linear(vectors[:n], matrix)) for n in counts}
rounds = device.measure_side_by_side(works, 9)
times = {n: device.median_interval(taken).middle for n, taken in rounds.items()}
for n in counts:
    print(
        f"{n:4} vectors: {times[n] * 1e3:6.1f} ms, {times[n] / times[1]:5.1f} times as long as one"
    )

# %% [markdown]
# From some number on, twice as many vectors take twice as long: there the arithmetic decides. The
# number of operations for each byte that has to come is called [**arithmetic
# intensity**](glossary.ipynb#cell-id=arithmetic-intensity). Here each weight is 4 bytes and does 2
# operations for each vector, so the intensity is n/2. Draw what is reached over it:

# %% tags=["after-prediction"]
large = torch.randn(100_000_000)  # 400 MB: far more than any cache
bandwidth = large.nbytes / device.measure_seconds(large.sum, 5)[0]
reached = [2 * width**2 * n / times[n] / 1e9 for n in counts]
intensity = [n / 2 for n in counts]
roof = [min(bandwidth * i / 1e9, max(reached)) for i in intensity]
figures.lines(
    intensity,
    {"reached": reached, "roof": roof},
    title="How many operations a second, at which intensity?",
    x_label="operations for each byte of weights",
    y_label="billion operations a second",
    log_x=True,
    log_y=True,
    alt="What is reached, and the roof: a slanted line that becomes flat.",
)

# %% [markdown]
# This picture is called a **roofline** (Williams et al., 2009). On the left the memory decides: the
# slanted line is bandwidth times intensity. On the right the arithmetic decides; the flat part is
# the best that was reached here. Where your points lie far below the slanted line, the library has
# no good program for so few vectors: the roof says what is possible, not what is done. A model that
# writes one text stands at the far left, and most of the processor waits. So for one token at a
# time there is a limit, as long as the weights do not fit in a cache: bytes of all weights, divided
# by the bandwidth. Does the model of lesson 11 reach it? (We take random weights of the same sizes:
# the time does not depend on their values.)


# %% tags=["after-prediction"]
@torch.no_grad()
def seconds_a_token(model, tokens=15):
    """With a cache, after a text of 64 tokens."""
    caches, text = model.new_caches(), torch.zeros(1, 64, dtype=torch.long)
    model(text, caches=caches)
    return device.measure_seconds(lambda: model(text[:, :1], caches=caches), tokens)[0]


torch.manual_seed(0)
writer = LanguageModel(PRESETS["smollm2-135m"]).small_embeddings().eval()
weights = sum(p.nbytes for p in writer.parameters())  # the table counts once: it is the head's
plain = seconds_a_token(writer)
limit = weights / bandwidth
print(f"{weights / 1e6:.0f} MB at {bandwidth / 1e9:.1f} GB/s: {limit * 1e3:.0f} ms a token at best")
print(f"measured: {plain * 1e3:.0f} ms, {limit / plain:.0%} of the limit")

# %% [markdown]
# What is missing to the limit? Thirty blocks with dozens of small steps each, and every step costs
# a little, however small it is. And a product with one vector is not as fast as a sum. Further
# below the two are told apart.
#
# An A100 does 312e12 operations a second and reads about 2e12 bytes. So it needs some 150
# operations for each byte, and a model that writes one text in bfloat16 offers it one. There are
# two ways out. Write several texts at once, then each weight serves for all of them (that is what a
# server does). Or make the weights smaller.
#
# ## Smaller weights
#
# To keep weights in fewer bits is called [**quantization**](glossary.ipynb#cell-id=quantization).
# Lesson 11 had four bits in the file, and float32 in memory. For speed they have to be small *in
# memory*.
#
# ### Exercise · eight bits a weight
#
# `weight` is (d_out, d_in), in float32. Each row gets one scale: its largest absolute value,
# divided by 127. Each number is divided by its row's scale and rounded to the nearest whole number
# (`torch.round`). Give `numbers`, (d_out, d_in), torch.int8, and `scale`, (d_out, 1), float32, such
# that `numbers * scale` is near `weight`. A row of zeros gives zeros, and a scale that is finite.


# %% exercise="quantize_rows" difficulty=2 minutes=12
def quantize_rows(weight):
    """(d_out, d_in) -> (d_out, d_in) in int8, (d_out, 1)"""
    ### BEGIN SOLUTION
    largest = weight.abs().amax(dim=1, keepdim=True)
    scale = torch.where(largest > 0, largest / 127, 1.0)
    return (weight / scale).round().to(torch.int8), scale
    ### END SOLUTION


# %% check="quantize_rows"
quantize_rows = check(quantize_rows)

# %% [markdown]
# Why a scale for each *row*? Rows differ in size, and with one scale for all the largest row
# decides for the others. Here is a made-up matrix whose rows reach from 0.01 to 1:

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
uneven = torch.randn(64, 256) * torch.logspace(-2, 0, 64)[:, None]
numbers, scale = quantize_rows(uneven)
one_scale = uneven.abs().max() / 127
coarse = (uneven / one_scale).round() * one_scale
for name, back in (("by rows", numbers * scale), ("one for all", coarse)):
    error = ((back - uneven).norm(dim=1) / uneven.norm(dim=1)).amax()
    print(f"{name:>12}: the worst row is off by {error:.1%} of its length")

# %% [markdown]
# And what does it buy? The weights are multiplied as they are, one byte each, and the scale comes
# at the end. (PyTorch has a kernel for that.)

# %% tags=["after-prediction"]
smaller = copy.deepcopy(writer)
print(f"{to_int8(smaller) / 1e6:.0f} MB saved")
fast = seconds_a_token(smaller)
print(f"float32 {plain * 1e3:.0f} ms a token, int8 {fast * 1e3:.0f} ms")
print(f"{plain / fast:.1f} times as fast")

# %% [markdown]
# The memory does not fall to a quarter: the embedding stays in float32, and the head, which shared
# its table, gets numbers of its own. And what it does to what SmolLM2 *says*, the record has:

# %%
eight = recorded("published")["results"]["eight bits"]
for name in ("float32", "int8"):
    mean, spread = mean_and_spread(eight[name])
    print(f"SmolLM2, {name:>7}: {mean:.3f} ± {spread:.3f} bits per byte of the manual")
print(f"at {eight['changed']:.1%} of all places another token is the likeliest")
print(f"five greedy texts of 64 tokens go the same way for {eight['texts']} tokens")

# %% [markdown]
# What is lost in bits can hardly be seen. But most of the greedy texts take another way sooner or
# later: where two tokens are nearly as likely, a tiny change decides, and from there on it is
# another text. Both are true: in bits the model is as good as before, and it does not say the same.
# (Dettmers et al. also round what comes *into* a matrix, all but a few large dimensions. Here only
# the weights are rounded, so the table below tests the easier half of what they say.)
#
# What else buys time on this machine? One block of the model, and its attention alone, on a text of
# 256 tokens. **bfloat16** has 16 bits; where a processor has no instructions for it, it can take
# many times as long. *Step by step* is attention with its scores written out; *fused* is one
# kernel.

# %% tags=["after-prediction"]
block, x = writer.blocks[0], torch.randn(1, 256, 576)
half, half_x = copy.deepcopy(block).to(torch.bfloat16), x.to(torch.bfloat16)
works = {
    "block, float32": lambda: block(x, causal=True),
    "block, bfloat16": lambda: half(half_x, causal=True),
    "attention, fused": lambda: block.attention(x, causal=True),
    "attention, step by step": lambda: block.attention(x, causal=True, return_weights=True),
}
with torch.no_grad():
    rounds = device.measure_side_by_side(works, 9)
for name, taken in rounds.items():
    print(f"{name:>23}: {device.median_interval(taken).middle * 1e3:.1f} ms")

# %% [markdown]
# `torch.compile` reads the code of a model once, and makes one program of it in which several steps
# are one. It takes a minute, and a compiler for C++, so it is a switch here.
#
# **Predict**: where does it help more, with 256 tokens at once, or with one at a time?

# %% tags=["after-prediction"]
COMPILE = False
times_compiled = published.compiled() if COMPILE else recorded("published")["results"]["compiled"]
ratio = device.median_interval(
    [a / b for a, b in zip(*times_compiled["read"].values(), strict=True)]
)
print(f"a block on 256 tokens, through torch.compile: {ratio} times as fast")
written = times_compiled["written"]
for name, taken in written.items():
    share = device.median_interval([a / b for a, b in zip(written["limit"], taken, strict=True)])
    print(f"{name:>20}: {device.median_interval(taken).middle * 1e3:4.0f} ms a token, "
          f"{share.middle:.0%} of the limit")  # fmt: skip

# %% [markdown]
# With many tokens the products take nearly all the time, and there is little to save. With one, the
# small steps count, and a program that makes few of many saves time. (So it does on a GPU, where
# each small step has to be started from outside.) *By rows* and *by columns* are the same numbers
# in another order in memory: a kernel that goes along 576 numbers begins anew at the end of each
# row, and a column is longer.
#
# ## Attention in tiles, counted
#
# Bytes are the other half of the answer in attention too. In lesson 01 you wrote attention in
# tiles, to hold less. Now count what it *moves*.
#
# ### Exercise · bytes that attention moves
#
# One head of attention, `tokens` queries and as many keys, no mask, `d_head` numbers each, 2 bytes
# a number. Count what goes between the large, slow memory (on a GPU: HBM) and the small, fast one.
#
# - *Plain*: read Q and K, write the scores; read the scores, write the weights; read the weights
#   and V, write the output. Scores and weights are (tokens, tokens).
# - *Tiled*: for each tile of `rows` queries read them once, read all of K and all of V once, and
#   write their output once. The last tile may be smaller. Nothing of (tokens, tokens) is written.
#
# Give both numbers of bytes, `(plain, tiled)`, as ints.


# %% exercise="bytes_moved" difficulty=2 minutes=12
def bytes_moved(tokens, d_head, rows):
    """-> (plain, tiled): bytes read and written, 2 a number (ints)"""
    ### BEGIN SOLUTION
    one, square = tokens * d_head, tokens * tokens
    tiles = -(-tokens // rows)
    return 2 * (4 * one + 4 * square), 2 * (2 * one + 2 * one * tiles)
    ### END SOLUTION


# %% check="bytes_moved"
bytes_moved = check(bytes_moved)

# %% tags=["nbval-check-output"]
fast_memory, saved = 100 * 1024, {}
for d_head in (64, 128):
    rows = fast_memory // (4 * d_head * 2)  # room for tiles of queries, keys, values and the output
    for tokens in (1024, 4096, 16_384):
        moved, tiled = bytes_moved(tokens, d_head, rows)
        saved[d_head] = moved / tiled
        print(f"d_head {d_head:3}, {tokens:6,} tokens: {moved / 1e6:7.1f} MB plain, "
              f"{tiled / 1e6:6.1f} MB in tiles: a factor of {moved / tiled:.1f}")  # fmt: skip

# %% [markdown]
# For long texts the ratio is 2 · rows / d_head. A tile has M / (8 · d_head) rows, with M bytes of
# fast memory, so the ratio is M / (4 · d_head²). Twice the head, a quarter of the gain.
#
# This is the idea of FlashAttention (Dao et al., 2022; the order of the loops here is that of
# FlashAttention-2, 2023), with the loop of lesson 01 inside each tile of queries. It does *more*
# arithmetic on the way back, computing scores a second time, and is faster all the same. It is no
# approximation. Both compute the same formula in another order, so their results differ only by
# rounding:

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 2, 512, 64)
tiles = list(zip(k.split(64, dim=2), v.split(64, dim=2), strict=True))
fused = F.scaled_dot_product_attention(q, k, v)
tile_gap = (mine.attention_in_tiles(q, tiles)[0] - fused).abs().max()
print("tiles of 64 keys give what the fused kernel gives, to 1e-5:", bool(tile_gap < 1e-5))

# %% [markdown]
# ## Several processes, one model
#
# Now to training on many devices. The simplest way is [**data
# parallelism**](glossary.ipynb#cell-id=data-parallelism): each process has the whole model and a
# share of the texts. After the way back the gradients are averaged over the processes (an
# *all-reduce*), so all take the same step, and their weights stay equal.
#
# ### Find the bug · processes with unequal texts
#
# Each process takes the mean loss over *its own* tokens, and the gradient of that. `gradients` is
# (processes, parameters), `tokens` is (processes,), ints: how many tokens each process had. (At
# least one had some. One with none has a gradient of zeros.) Give the gradient of the mean loss
# over *all* tokens, (parameters,). Until 2024 the training loop of Hugging Face's `transformers`
# had this bug, where it adds up several small batches before one step.


# %% exercise="averaged_gradient" difficulty=1 minutes=8
def averaged_gradient(gradients, tokens):
    """(processes, parameters), (processes,) -> (parameters,)"""
    ### BEGIN SOLUTION
    return (gradients * tokens[:, None]).sum(dim=0) / tokens.sum()
    ### END SOLUTION
    ### BEGIN GIVEN
    # return gradients.mean(dim=0)
    ### END GIVEN


# %% check="averaged_gradient"
averaged_gradient = check(averaged_gradient)

# %% [markdown]
# Now for real. `torchrun` starts processes that find each other. Here they run on this machine;
# `gloo` carries the numbers between them, and NCCL would between GPUs. All of them train a small
# character model on Python's manual, 20 steps, with 8 texts a step: one process takes all 8, two
# take 4 each. (`parallel.prepare`, at the top, has imported PyTorch for them. On macOS each process
# imports it for itself, which takes some seconds.)

# %%
where = "cuda" if torch.cuda.device_count() >= 2 else "cpu"
runs = {
    "one process": parallel.launch("one", device=where),
    "two, DDP": parallel.launch("ddp", device=where),
}
for name, run in runs.items():
    print(f"{name}: first loss {run.losses[0]:.4f}, last {run.losses[-1]:.4f}")
    for process in run.processes:
        print(f"    process {process.rank} holds {process.parameters:,} parameters")

# %% [markdown]
# To four digits the losses are the same, and each process holds everything.
# [**Sharding**](glossary.ipynb#cell-id=sharding) (ZeRO's stage 3; in PyTorch FSDP) spreads the
# weights as well: each process keeps a share of each matrix, and a block's weights are gathered
# just before they are used and forgotten after.

# %%
quiz("12-sharded")

# %% tags=["after-prediction"]
runs["two, FSDP"] = parallel.launch("fsdp", device=where)
for process in runs["two, FSDP"].processes:
    print(f"process {process.rank} holds {process.parameters:,} parameters, "
          f"{process.weight_bytes / 1e3:.0f} kB, with {process.moment_bytes / 1e3:.0f} kB "
          "of moments")  # fmt: skip
apart = {
    name: max(abs(a - b) for a, b in zip(run.losses, runs["one process"].losses, strict=True))
    for name, run in runs.items()
}
print("losses at most apart from one process:", {n: f"{gap:.0e}" for n, gap in apart.items()})

# %% [markdown]
# A training on thousands of machines meets a broken one every few hours. So it writes checkpoints,
# and when one process dies, all are started again from the last one. Here one is written every 5
# steps. Kill one process at step 12, without a warning. **Predict**: from which step do they go on?

# %% tags=["after-prediction"]
killed = parallel.launch("ddp", device=where, kill_at=12)
kill_gap = max(abs(a - b) for a, b in zip(killed.losses, runs["two, DDP"].losses, strict=True))
print(f"started again {killed.restarts} time(s), from step {killed.resumed}")
print(f"losses at most apart from the run that nobody disturbed: {kill_gap:.0e}")
figures.lines(
    list(range(1, 21)),
    {"one process": runs["one process"].losses, "two, one killed": killed.losses},
    title="Does anybody notice that a process was killed?",
    x_label="step",
    y_label="loss, nats a character",
    from_zero=False,
    alt="Both curves lie on each other.",
)

# %% [markdown]
# ## One layer on several devices
#
# With sharding each device still computes whole layers. In [**tensor
# parallelism**](glossary.ipynb#cell-id=tensor-parallelism) (Shoeybi et al., 2019) a device computes
# only a part of each layer. The trick is *where* to cut, so that little has to be sent.
#
# ### Exercise · one MLP on several devices
#
# An MLP is $\mathrm{gelu}(x W_{up}^\top + b_{up})\, W_{down}^\top + b_{down}$, with the exact GELU.
# `x` is (batch, tokens, d_model), `w_up` (d_ff, d_model), `b_up` (d_ff,), `w_down` (d_model, d_ff),
# `b_down` (d_model,). Each of `devices` devices gets d_ff / devices *neighbouring* hidden units, in
# order (`devices` divides d_ff), and with them their rows of `w_up`, their entries of `b_up` and
# their columns of `w_down`. Give what each device computes from its own part, before anything is
# sent: (devices, batch, tokens, d_model), such that the *sum* over the devices is the MLP's output.
# `b_down` is added by the first device alone.


# %% exercise="partial_outputs" graded=true points=4 difficulty=3 minutes=20
def partial_outputs(x, w_up, b_up, w_down, b_down, devices):
    """-> (devices, batch, tokens, d_model), which sum to the MLP's output"""
    ### BEGIN SOLUTION
    shares = zip(
        w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, dim=1), strict=True
    )
    parts = [F.linear(F.gelu(F.linear(x, up, bias)), down) for up, bias, down in shares]
    parts[0] = parts[0] + b_down
    return torch.stack(parts)
    ### END SOLUTION


# %% check="partial_outputs"
partial_outputs = check(partial_outputs)

# %% [markdown]
# ![](drawings/tensor_parallel.svg)
#
# One sum over the devices for each MLP, and one for each attention (its heads are dealt out in the
# same way): all else stays where it is. On the way forward that is two sums in each block, on the
# way back two more. So the devices must be close to each other, in one machine. [**Pipeline
# parallelism**](glossary.ipynb#cell-id=pipeline-parallelism) cuts the other way: the first layers
# on one device, the next ones on another. Then little is sent, only from one device to the next.
# But with one batch only one device works at any time. So the batch is cut in m parts that follow
# each other, as in a factory. The last of p devices waits p − 1 turns for its first part, and then
# works m turns. So of m + p − 1 turns p − 1 are lost (Huang et al., 2019):

# %% tags=["nbval-check-output"]
for stages, parts in ((8, 1), (8, 8), (8, 64)):
    lost = (stages - 1) / (parts + stages - 1)
    print(f"{stages} devices in a row, {parts:2} parts: {lost:.0%} is lost")

# %% [markdown]
# Large trainings use all of them together. What did they take, in print, and what do our formulas
# say? (In print: Brown et al., 2020, table D.1; Llama Team, 2024: "3.8 × 10²⁵ FLOPs" on 15.6
# trillion tokens, up to 16,384 H100. For GPT-3 our number has the scores in it, which the paper
# leaves out. For Llama 3 405B it is 6 operations a parameter and token.)

# %% tags=["nbval-check-output"]
llama_405b = 405_000_000_000
for name, in_print, ours in (
    ("GPT-3", 3.14e23, gpt3_work),
    ("Llama 3 405B", 3.8e25, 6 * llama_405b * 15_600_000_000_000),
):
    print(f"{name}: {in_print:.2e} operations in print, {ours:.2e} by the formula, "
          f"{ours / in_print - 1:+.1%}")  # fmt: skip
for devices in (1024, 16_384):
    print(f"Llama 3 405B over {devices:6,} devices, stage 3: "
          f"{bytes_per_device(llama_405b, devices, 3) / 1e9:.1f} GB on each")  # fmt: skip

# %% [markdown]
# ## What we measured

# %%
claims = Claims("12_scale")
claims.add("llama-7b-5.3-billion", counted["llama-7b"], estimated["llama-7b"])
claims.add("gpt3-compute", gpt3_work)
claims.add("writing-waits-for-memory", times, limit / plain)
claims.add("int8-full-precision", eight)
claims.add("flash-many-times-fewer", saved)
claims.add("ddp-like-one", apart["two, DDP"])
claims.add("fsdp-like-one", apart["two, FSDP"])
claims.add("killed-and-resumed", kill_gap, killed.restarts)
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("12-quiz-batch")

# %%
quiz("12-quiz-zero")

# %%
quiz("12-quiz-cut")

# %% [markdown]
# ## Further reading
#
# - J. Kaplan et al., [*Scaling Laws for Neural Language Models*](https://arxiv.org/abs/2001.08361),
#   2020, where 6 operations a parameter and token come from; J. Hoffmann et al., [*Training
#   Compute-Optimal Large Language Models*](https://arxiv.org/abs/2203.15556), 2022.
# - S. Rajbhandari et al., [*ZeRO*](https://arxiv.org/abs/1910.02054), 2020; Y. Zhao et al.,
#   [*PyTorch FSDP*](https://arxiv.org/abs/2304.11277), 2023.
# - M. Shoeybi et al., [*Megatron-LM*](https://arxiv.org/abs/1909.08053), 2019; Y. Huang et al.,
#   [*GPipe*](https://arxiv.org/abs/1811.06965), 2019.
# - T. Dao et al., [*FlashAttention*](https://arxiv.org/abs/2205.14135), 2022.
# - T. Dettmers et al., [*LLM.int8()*](https://arxiv.org/abs/2208.07339), 2022.
# - S. Williams, A. Waterman, D. Patterson, [*Roofline*](https://doi.org/10.1145/1498765.1498785),
#   2009.
#
# **Before:** [lesson 11](11_a_real_llm.ipynb), a real language model. This is the last lesson. You
# have come from one dot product to machines that train together, and most of what ran on the way
# you wrote yourself.
