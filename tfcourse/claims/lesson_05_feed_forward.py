"""Lesson 05: what its own cells measure and compute."""

from __future__ import annotations

from tfcourse.claims.claim import HOLDS, NOT_HERE, ONLY_IF, Claim, Judged


def _position_wise(moved_rows, twins_gap):
    said = f"rows that move: {moved_rows}; the same token at two places: {twins_gap:.0e} apart"
    return Judged(said, HOLDS if moved_rows == [4] and twins_gap < 1e-6 else NOT_HERE)


def _trace(values):
    rounded = [round(value, 4) for value in values]
    return Judged(str(rounded), HOLDS if rounded == [0.9, 0.0, 0.3, 1.25] else NOT_HERE)


def _one_matrix(gap):
    return Judged(f"{gap:.0e} apart", HOLDS if gap < 1e-4 else NOT_HERE)


def _adjusted(standard, swiglu, adjusted, usual):
    found = [f"{count / 1e6:.1f}M" for count in (standard, swiglu, adjusted)]
    if found != ["90.2M", "135.3M", "134.2M"]:
        return Judged(", ".join(found), NOT_HERE)
    said = f"{', '.join(found)}; a plain MLP with d_ff = 4d has {usual / 1e6:.1f}M"
    if abs(adjusted - standard) < 0.01 * standard:
        return Judged(said, HOLDS)
    to_usual = abs(adjusted - usual) < 0.01 * usual
    where = "adjusted means: to a plain MLP with d_ff = 4d, which is not in the table"
    return Judged(said, ONLY_IF, where) if to_usual else Judged(said, NOT_HERE)


def _phi3(mlp, attention):
    found = [f"{count / 1e6:.1f}M" for count in (mlp, attention)]
    return Judged(", ".join(found), HOLDS if found == ["75.5M", "37.7M"] else NOT_HERE)


def _two_thirds(plain, llama3):
    shares = [mlp / (mlp + attention) for mlp, attention in (plain, llama3)]
    said = f"plain, d_ff = 4d: {shares[0]:.0%} of a block; Llama-3 8B: {shares[1]:.0%}"
    fits = [abs(share - 2 / 3) < 0.01 for share in shares]
    if all(fits) or not any(fits):
        return Judged(said, HOLDS if all(fits) else NOT_HERE)
    where = "keys and values are not shared, d_ff is 4d, and the embedding is not counted"
    return Judged(said, ONLY_IF, where)


CLAIMS = (
    Claim(
        "separately-and-identically",
        "In addition to attention sub-layers, each of the layers in our encoder and decoder "
        "contains a fully connected feed-forward network, which is applied to each position "
        "separately and identically.",
        "Holds if a change of the fifth token moves the fifth row only, and if the same token at "
        "two places gives the same output.",
        _position_wise,
        source="Vaswani et al., Attention Is All You Need, 2017",
        link="https://arxiv.org/abs/1706.03762",
    ),
    Claim(
        "relu-trace",
        "The trace with a pencil, x = [0.5, −1, 0.8]: the ReLU gives [0.9, 0, 0.3, 1.25].",
        "Holds if all four numbers come out, to four digits.",
        _trace,
        computed=True,
    ),
    Claim(
        "two-matrices-are-one",
        "Without an activation function two matrices in a row are one matrix.",
        "Holds if the two ways to multiply differ by rounding alone (less than 1e-4).",
        _one_matrix,
        computed=True,
    ),
    Claim(
        "swiglu-adjusted",
        "d_model = 4096, d_ff = 11008: standard 90.2M, SwiGLU 135.3M, SwiGLU adjusted 134.2M.",
        "Holds if all three counts come out and adjusted means to the first of them (within 1%); "
        "if to another MLP: holds only if.",
        _adjusted,
        computed=True,
    ),
    Claim(
        "phi-3-block",
        "Phi-3-mini, one block: MLP 75.5M parameters, attention 37.7M.",
        "Holds if both counts come out.",
        _phi3,
        computed=True,
    ),
    Claim(
        "two-thirds-of-the-parameters",
        "Feed-forward layers constitute two-thirds of a transformer model's parameters, yet their "
        "role in the network remains under-explored.",
        "Holds if the MLP has two thirds of a block (within 1%) in the usual plain block and in "
        "Llama-3 8B; in one of them: holds only if.",
        _two_thirds,
        source="Geva et al., Transformer Feed-Forward Layers Are Key-Value Memories, 2021",
        link="https://arxiv.org/abs/2012.14913",
        computed=True,
    ),
)
