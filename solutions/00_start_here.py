# %% [markdown]
# # 00 · Start here
#
# ![](drawings/map.svg)
#
# **How will you know that you have understood?** Reading and agreeing is not enough. You will
# *predict* what a few lines do, *run* them, and be surprised now and then. You will write every
# part of a Transformer yourself, and the course will tell you *what* is wrong with it, not only
# that something is.
#
# At the end of this lesson you know how this course works, that it works on your machine, and two
# habits that find most bugs in this kind of code.
#
# *About 45 minutes. You need: Python, and what a vector is.*
#
# A word that you do not know? The [glossary](glossary.ipynb) explains the words of this course, and
# the lessons link to it.
#
# ## Run a cell
#
# Click the cell below and press **Shift + Enter**. That runs it and moves on. *Run → Run All
# Cells* runs everything; nothing breaks when exercises are still empty.

# %%
import time

import torch

from tfcourse import Claims, check, device, doctor, hint, progress, quiz, reveal
from tfcourse.widgets import AttentionMap

print("This course will compute on:", device.describe_device())

# %% [markdown]
# Something wrong? `doctor()` checks the installation and tells you how to fix it:

# %%
_ = doctor()
# %% [markdown]
# Some pictures can be touched. Run the next cell. Then move the mouse over the picture, or press
# Tab until it has the focus and use the arrow keys. It runs in your browser alone, so it stays
# alive when Python is not running. Until you run the cell you see a still picture. If it is still
# even then, the notebook is not trusted: *View → Activate Command Palette → Trust Notebook*.
#
# Each row of the picture is a word that looks, a **query**. Each column is a word that it can look
# at, a **key**. [Lesson 01](01_attention.ipynb) says how they find each other. Here it is enough
# that the picture answers you.

# %%
words = ["who", "looks", "at", "whom", "?"]
AttentionMap(torch.eye(5) * 0.6 + 0.08, words, title="Does a widget show?")

# %% [markdown]
# ## One dot product
#
# All of the Transformer grows out of one question: *how alike are these two?* Take two lists of
# numbers of the same length, multiply number by number, and add up. That is the **dot product**:
#
# $$q \cdot k = \sum_{i=1}^{d} q_i k_i$$
#
# where q and k (the query and the key) are vectors of d numbers each, and qᵢ, kᵢ their i-th
# numbers. It is large when large numbers meet large numbers of the same sign. It is negative when
# the angle between the two vectors is more than a right angle, and zero at a right angle (or when
# one of them is all zeros).
#
# Four animals, four features: *barks, purrs, has fur, lays eggs*. A dog is (1, 0, 1, 0), a cat (0,
# 1, 1, 0), a hen (0, 0, 0, 1), and a puppy with much fur (0.5, 0, 2, 0). **Predict** before you
# run: whose dot product with the dog is the largest, the dog's own included?

# %%
quiz("00-dog")

# %% tags=["after-prediction", "nbval-check-output"]
dog, cat, hen = torch.tensor([[1.0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
puppy = torch.tensor([0.5, 0, 2, 0])
for name, other in {"dog": dog, "cat": cat, "hen": hen, "puppy": puppy}.items():
    print(f"dog · {name} = {(dog * other).sum().item():.1f}")

# %% [markdown]
# ## Your first exercise
#
# An exercise is a cell to fill in, then a cell that checks it. Each shows how hard it is (●○○ to
# ●●●) and about how long it takes. Leave it empty and the lesson goes on with our version. Stuck?
# `hint("similarities")` gives a first hint, call it again for the next one. After the third,
# `reveal("similarities")` shows a solution. (`reveal("similarities", anyway=True)` shows it at
# once.)
#
# Make mistakes on purpose: write `return q * keys` first and see what the check says.
#
# ### Exercise · similarities
#
# One query `q` of shape (d,), and one or more `keys`, one a row: (keys, d). Return the dot product
# of q with each key, as a tensor of shape (keys,). A loop is fine: `torch.stack` makes a tensor of
# a list of tensors, `torch.tensor` one of a list of numbers.


# %% exercise="similarities" difficulty=1 minutes=5
def similarities(q, keys):
    """Dot product of q with every key: (d,), (keys, d) -> (keys,)"""
    ### BEGIN SOLUTION
    return keys @ q
    ### END SOLUTION


# %% check="similarities"
similarities = check(similarities)

# %% [markdown]
# Here a tensor made of plain numbers was fine. From now on, **keep the numbers in tensors**:
# `torch.stack`, not `torch.tensor` or `.item()`. A model learns by
# [gradients](glossary.ipynb#cell-id=gradient). PyTorch finds them by following a computation from
# tensor to tensor, and a number that leaves its tensor is lost to it. Our checks look whether
# PyTorch can still follow.
#
# ## All at once
#
# Many queries with many keys: that is a **matrix product**. The Transformer is made of little else,
# and that is one reason for its success: a machine computes it much faster than the same sums in a
# loop of Python. **Predict**: how much faster, for 100 queries and 100 keys of 64 numbers?

# %%
quiz("00-faster")

# %% tags=["after-prediction"]
queries, keys = torch.randn(2, 100, 64)


def in_a_loop():
    return torch.tensor([[(q * k).sum() for k in keys] for q in queries])


def as_matrices():
    return queries @ keys.T


speed_ups = []
for _ in range(3):
    started = time.perf_counter()
    loop = in_a_loop()
    loop_seconds = time.perf_counter() - started
    speed_ups.append(loop_seconds / device.measure_seconds(as_matrices, repeats=50)[0])
largest_gap = (loop - as_matrices()).abs().max().item()
print(f"{min(speed_ups):,.0f} to {max(speed_ups):,.0f} times faster")
print(f"the same to within 1e-4: {largest_gap < 1e-4}")

# %% [markdown]
# Not exactly the same, by the way. The two add up in different orders, and the numbers of a tensor
# (**float32**, 32 bits each, unless you ask for others) keep about seven digits: every sum is
# rounded. That is why we never ask whether two tensors are *equal*, but how far apart they are.
#
# ## First habit: sizes that differ
#
# Here is a function that is meant to subtract from each row its own mean. `mean(dim=1)` runs along
# axis 1, along each row, so it gives one mean a row. The function runs. Is it right?


# %% tags=["nbval-check-output"]
def centered(x):
    return x - x.mean(dim=1)


square = torch.tensor([[1.0, 1.0], [5.0, 5.0]])  # each row is its own mean: zeros should come out
print(centered(square))

# %%
quiz("00-square")

# %% [markdown]
# `x.mean(dim=1)` has shape (2,). Subtracted from (2, 2), it is laid along the *rows*, so that
# column j loses the mean of row j. PyTorch calls this stretching of shapes **broadcasting**: axes
# are lined up from the right, and an axis of length 1, or none, is repeated. It keeps code short,
# and it lets bugs pass in silence.
#
# With 2 × 3 numbers it would have raised an error at once:

# %% tags=["nbval-check-output"]
try:
    centered(torch.ones(2, 3))
except RuntimeError as error:
    print("RuntimeError:", error)
print("with keepdim=True, (2, 1) against (2, 2):")
print(square - square.mean(dim=1, keepdim=True))

# %% [markdown]
# **Try with sizes that all differ.** So do our checks: 5 vectors of 7 numbers each, say, never
# only 4 of 4.
#
# Two tools for axes of length 1: `x.squeeze(-1)` takes the last axis away if it has length 1, and
# `x[:, None]` puts one in, so that (5,) becomes (5, 1).
#
# ### Find the bug · an error too large
#
# This loss looks right, and runs. `prediction` comes from a model and has shape (n, 1), `target`
# (n,), n is 1 or more. The loss should be the mean of the n squared differences, one number in a
# tensor of shape (). Find out what it is instead, and fix it.


# %% exercise="mean_squared_error" difficulty=1 minutes=8
def mean_squared_error(prediction, target):
    """Mean of (prediction - target)²: (n, 1), (n,) -> a tensor with a single number"""
    ### BEGIN SOLUTION
    difference = prediction.squeeze(-1) - target
    ### END SOLUTION
    ### BEGIN GIVEN
    # difference = prediction - target
    ### END GIVEN
    return (difference**2).mean()


# %% check="mean_squared_error"
mean_squared_error = check(mean_squared_error)

# %% [markdown]
# ## Second habit: change one thing, and see what must not move
#
# A long vector gets large dot products with many others. Is it really the most alike? If only the
# direction should count, there is a property to test: *make a key ten times longer, and nothing
# may change*.

# %% tags=["nbval-check-output"]
q, key = torch.tensor([1.0, 2.0, 0.0]), torch.tensor([2.0, 1.0, 1.0])
print("dot product:", (q @ key).item(), "→", (q @ (10 * key)).item())
lengths = q.norm() * key.norm(), q.norm() * (10 * key).norm()
cosines = (q @ key) / lengths[0], (q @ (10 * key)) / lengths[1]
print(f"divided by both lengths: {cosines[0]:.4f} → {cosines[1]:.4f}")

# %% [markdown]
# A dot product divided by both vectors' lengths is the **cosine** of the angle between them. It
# lies between −1 and 1, and passes the test. `v.norm()` is the length of v, the root of the sum
# of its squares; for a matrix, `x.norm(dim=1, keepdim=True)` gives the length of each row, as a
# column. Take care that no length is 0 before you divide: `lengths.clamp(min=1e-12)` raises
# everything smaller to 1e-12.
#
# ### Exercise · cosine similarities
#
# A *graded* exercise: in a class it counts, so there is no version of ours to go on with.
#
# `queries` (queries, d) and `keys` (keys, d) give (queries, keys): the cosine of every query with
# every key. Vectors may be long or short (lengths of 0.0001 or 10,000). A query or a key of all
# zeros has no direction; its cosines are 0, never [NaN](glossary.ipynb#cell-id=NaN) (*not a
# number*, which is what 0/0 gives).


# %% exercise="cosine_similarities" graded=true points=2 difficulty=2 minutes=15
def cosine_similarities(queries, keys):
    """Cosine of every query with every key: (queries, d), (keys, d) -> (queries, keys)"""
    ### BEGIN SOLUTION
    query_lengths = queries.norm(dim=-1, keepdim=True).clamp(min=1e-12)  # (queries, 1)
    key_lengths = keys.norm(dim=-1, keepdim=True).clamp(min=1e-12)  # (keys, 1)
    return (queries / query_lengths) @ (keys / key_lengths).T
    ### END SOLUTION


# %% check="cosine_similarities"
cosine_similarities = check(cosine_similarities)

# %% [markdown]
# ## What we measured
#
# Every lesson ends with a table: what is said in print, what came out here. Sometimes they
# disagree. Then the table says so.

# %%
claims = Claims("00_start_here")
claims.add("product-beats-loop", speed_ups)
claims.add("product-equals-loop", largest_gap)
claims.add("cosine-ignores-length", (cosines[0] - cosines[1]).abs().item())
claims

# %% [markdown]
# ## Ask yourself

# %%
quiz("00-quiz-zero")

# %%
quiz("00-quiz-shapes")

# %%
quiz("00-quiz-test")

# %% [markdown]
# ## Where you stand
#
# `progress()` shows the board. It is kept on your machine, outside this folder: a new copy of the
# course finds it again. An answer counts when you click it. Where no Python is running, the
# question says so and gives you the line to type, for example `quiz("00-dog", "b")`.

# %%
progress()

# %% [markdown]
# ## Further reading
#
# - PyTorch, [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html):
#   one page that saves days.
# - D. Goldberg, [What Every Computer Scientist Should Know About Floating-Point
#   Arithmetic](https://doi.org/10.1145/103162.103163), 1991.
#
# **Next:** a dot product tells how alike two things are. In [lesson 01](01_attention.ipynb) six
# words use it to find each other.
