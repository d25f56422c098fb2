# %% [markdown]
# # 00 · Start here
#
# **How will you know that you have understood?** Not by nodding along. You will *predict* what a
# few lines do, *run* them, and be surprised now and then. You will write every part of a
# Transformer yourself, and be told what is wrong with it, not only that something is.
#
# At the end of this lesson you know how this course works, that it works on your machine, and two
# habits that find most bugs in this trade.
#
# *About 30 minutes. You need: Python, and what a vector is.*
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
# Something wrong? `doctor()` looks over the installation, and tells what mends it:

# %%
_ = doctor()
# %% [markdown]
# Some pictures can be touched. Move the mouse over this one, or press Tab until it has the focus
# and use the arrow keys. It runs in your browser alone: it stays alive when Python is not. If you
# see a picture that does not move, the notebook is not trusted: *View → Activate Command Palette
# → Trust Notebook*.

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
# where q and k are vectors of d numbers each, and qᵢ, kᵢ their i-th numbers. It is large when
# large numbers meet large numbers of the same sign, negative when they point opposite ways, zero
# when they have nothing to do with each other.
#
# Four animals, four features, *barks, purrs, has fur, lays eggs*: a dog (1, 0, 1, 0), a cat (0,
# 1, 1, 0), a hen (0, 0, 0, 1), and a puppy with much fur (0.5, 0, 2, 0). **Predict** before you
# run: whose dot product with the dog is the largest, the dog's own included?

# %%
quiz("00-dog")

# %% tags=["nbval-check-output"]
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
# `reveal("similarities")` shows a solution.
#
# Make mistakes on purpose: write `return q * keys` first and see what the check makes of it.
#
# ### Exercise · similarities
#
# One query `q` of shape (d,), and several `keys`, one a row: (keys, d). Give the dot product of q
# with each key: (keys,). A loop is fine.


# %% exercise="similarities" difficulty=1 minutes=5
def similarities(q, keys):
    """Dot product of q with every key: (d,), (keys, d) -> (keys,)"""
    ### BEGIN SOLUTION
    return keys @ q
    ### END SOLUTION


# %% check="similarities"
similarities = check(similarities)

# %% [markdown]
# ## All at once
#
# Many queries with many keys: that is a **matrix product**. The Transformer is made of little
# else, and that is one reason why it won: a machine computes it much faster than the same sums in
# a loop of Python. **Predict**: how much faster, for 100 queries and 100 keys of 64 numbers?

# %%
quiz("00-faster")

# %%
queries, keys = torch.randn(2, 100, 64)


def in_a_loop():
    return torch.tensor([[(q * k).sum() for k in keys] for q in queries])


def as_matrices():
    return queries @ keys.T


started = time.perf_counter()
loop = in_a_loop()
loop_seconds = time.perf_counter() - started
matrix_seconds = device.measure_seconds(as_matrices, repeats=50)[0]
largest_gap = (loop - as_matrices()).abs().max().item()
speed_up = loop_seconds / matrix_seconds
print(f"{speed_up:,.0f} times faster, the same to within 1e-4: {largest_gap < 1e-4}")

# %% [markdown]
# Not exactly the same, by the way. The two add up in different orders, and a computer's numbers
# have about seven digits: every sum is rounded. That is why we never ask whether two tensors are
# *equal*, but how far apart they are.
#
# ## First habit: sizes that differ
#
# Here is a function that subtracts from each row its own mean. It works. Does it?


# %% tags=["nbval-check-output"]
def centred(x):
    return x - x.mean(dim=1)


square = torch.tensor([[1.0, 1.0], [5.0, 5.0]])  # each row is its own mean: zeros should come out
print(centred(square))

# %%
quiz("00-square")

# %% [markdown]
# `x.mean(dim=1)` has shape (2,). Subtracted from (2, 2), it is laid along the *rows*, so that
# column j loses the mean of row j. PyTorch calls this stretching of shapes **broadcasting**: axes
# are lined up from the right, and an axis of length 1, or none, is repeated. It is the best
# friend of short code, and of silent bugs.
#
# With 2 × 3 numbers it would have raised an error at once:

# %% tags=["nbval-check-output"]
try:
    centred(torch.ones(2, 3))
except RuntimeError as error:
    print("RuntimeError:", error)
print("with keepdim=True, (2, 1) against (2, 2):")
print(square - square.mean(dim=1, keepdim=True))

# %% [markdown]
# **Try with sizes that all differ.** So do our checks: 5 tokens with 7 numbers each, say, never 4
# with 4 alone.
#
# ### Find the bug · an error too large
#
# This loss looks right, and runs. `prediction` comes from a model and has shape (n, 1), `target`
# (n,). The loss should be the mean of the n squared differences. Find out what it is instead, and
# mend it.


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
# A long vector gets large dot products with everybody. Is the loudest one really the most alike?
# If only the direction shall count, there is a property to test: *make a key ten times longer,
# and nothing may change*.

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
# column. Take care that no length is 0 before you divide: `lengths.clamp(min=1e-12)` lifts what
# is smaller.
#
# ### Exercise · cosine similarities
#
# A *graded* exercise: in a class it counts, so there is no version of ours to go on with.
#
# `queries` (queries, d) and `keys` (keys, d) give (queries, keys): the cosine of every query with
# every key. A vector of zeros has no direction; its cosines are 0, never NaN.


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
claims.add(
    "one matrix product beats a loop over dot products",
    "by orders of magnitude",
    f"{speed_up:,.0f} times",
    speed_up > 100,
)
claims.add("both give the same numbers", "up to rounding", f"{largest_gap:.0e}", largest_gap < 1e-4)
cosine_gap = (cosines[0] - cosines[1]).abs().item()
claims.add("the cosine ignores length", "exactly", f"{cosine_gap:.0e}", cosine_gap < 1e-6)
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
# course finds it again. An answer to a question that you click is remembered by this browser;
# type it, `quiz("00-dog", "b")`, and it counts on the board too.

# %%
progress()

# %% [markdown]
# ## Further reading
#
# - The PyTorch documentation on *broadcasting semantics*: one page that saves days.
# - D. Goldberg, *What Every Computer Scientist Should Know About Floating-Point Arithmetic*, 1991.
#
# **Next:** a dot product tells how alike two things are. Lesson 01 lets six words use it to find
# each other.
