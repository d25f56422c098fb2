"""The course's own entries, from plain to best, and what came out when they were run.

What was tried on the way, one run each, bits per byte on a seed that the board does not have. Each
line stands for itself, with the plain entry's settings but for the change. Differences below 0.04
may be chance; lesson 09 has those that were measured properly.

In half the budget:
    2.72  plain
    2.24  hashed embeddings of the last two and three characters, 8,192 rows each
    2.42  two blocks in place of three        2.42  a table of trigrams, each place left out of it
    2.52  the rate held for half of it        2.53  windows of 32, then 64, then 128 tokens
    2.55  SwiGLU                              2.59  ReLU squared
    2.61  half the batch (8 windows)          2.64  Muon, rate 0.02
    2.67  an average of the weights (0.97)    2.67  128 tokens throughout
    2.69  AdamW's second moment at 0.95
  and what did not help:
    2.73  RMSNorm, no biases                  2.74  a warm-up of 3%
    2.81  two wider blocks (192)              2.85  32 tokens throughout
    2.86  a rate of 0.01                      2.90  twice the batch
    (2.45 with 32,768 hashed rows: they cost more steps than they are worth)

In the whole budget:
    2.33  plain
    1.98  two blocks, SwiGLU, short first, half the batch, average: no table
    1.92  the same with hashed embeddings
    1.74  two blocks, SwiGLU, short first, average, a table of seven (each place left out of it)
    1.73  the same, and the rate held
    1.70  one block, SwiGLU, short first, average, a table of eight (not yet tried on pieces)
    1.68  the same with a table of six, trained on a fifth of the text beside a table of the rest
  and what did not help on top of that:
    1.69  half the batch
    1.72  the model is told how sure the table is: it learns the text better, and the rest worse

With no network at all (contexts of 2, 3, …, 8 characters):
    2.47  2.03  1.92  1.94  2.01  2.08  2.15
"""

from __future__ import annotations

from pathlib import Path

NAMES = ("plain", "counts", "best")

#: what `tfcourse race run` gave on two cores of an x86_64 machine, with torch 2.13 and Python 3.11
RESULTS: list[dict] = [
    {
        "name": "best",
        "whose": "course",
        "tries": "Longer counts, a smaller gated model, short windows first, late fall, average",
        "steps": 400,
        "out": "",
        "when": "2026-11-22T06:01+00:00",
        "bits": [1.70435, 1.69181, 1.69484],
        "shares": [1.012, 0.937, 0.988],
        "paces": [0.022, 0.129, 0.026],
    },
    {
        "name": "counts",
        "whose": "course",
        "tries": "The plain model beside a table of counts: what followed the last four characters",
        "steps": 400,
        "out": "",
        "when": "2026-11-22T07:23+00:00",
        "bits": [1.89985, 1.8759, 1.89947],
        "shares": [1.04, 0.895, 1.021],
        "paces": [0.074, 0.212, 0.038],
    },
    {
        "name": "plain",
        "whose": "course",
        "tries": "The model and the recipe of the lessons: three blocks, AdamW, a cosine",
        "steps": 400,
        "out": "",
        "when": "2026-11-22T10:36+00:00",
        "bits": [2.34928, 2.34124, 2.27766],
        "shares": [0.998, 1.041, 1.093],
        "paces": [0.005, 0.082, 0.184],
    },
]


def source(name: str) -> Path:
    """The file of one of the course's entries."""
    return Path(__file__).with_name(f"{name}.py")
