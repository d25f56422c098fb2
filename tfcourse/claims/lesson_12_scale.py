"""Lesson 12: what its own cells measure and compute."""

from __future__ import annotations

from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, ONLY_IF, Claim, Judged, small_gap


def _estimator(counted, estimated):
    close = abs(estimated / counted - 1) <= 0.01
    said = f"{counted / 1e9:.2f} billion with three matrices, {estimated / 1e9:.2f} with two"
    return Judged(said, HOLDS if close else NOT_HERE)


def _compute(operations):
    close = abs(operations / 3.14e23 - 1) <= 0.05
    return Judged(f"{operations:.2e}", HOLDS if close else NOT_HERE)


def _waits(times, share):
    """times: vectors at once -> seconds; share: of the memory's limit that a token reaches."""
    many = times[32] / times[1]
    said = f"32 vectors take {many:.1f} times as long as one; a token reaches {share:.0%}"
    if many <= 16 and share >= 0.5:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if many >= 28 or share < 0.25 else CANNOT_TELL)


def _many_times(saved):
    """saved: d_head -> bytes of plain attention over those of attention in tiles."""
    said = ", ".join(f"d = {d}: {times:.1f} times" for d, times in saved.items())
    enough = [d for d, times in saved.items() if times >= 3]
    if len(enough) == len(saved):
        return Judged(said, HOLDS)
    if enough:
        return Judged(said, ONLY_IF, f"d is no more than {max(enough)}")
    return Judged(said, NOT_HERE)


def _like_one(gap):
    return small_gap(gap, 1e-5, "losses of 20 steps apart by at most")


def _resumed(gap, restarts):
    judged = small_gap(gap, 1e-5, f"started again {restarts} time(s); losses apart by at most")
    return judged if restarts else Judged(judged.measured, CANNOT_TELL)


CLAIMS = (
    Claim(
        "llama-7b-5.3-billion",
        "4 d² for attention and 2 · d · d_ff for the MLP of every block, and two tables: so "
        "Llama-7B has 5.3 billion parameters.",
        "Holds if this is the built model's count, to 1%.",
        _estimator,
        computed=True,
    ),
    Claim(
        "gpt3-compute",
        "To train GPT-3 175B took 3.14E+23 operations.",
        "Holds if three forward passes over 300 billion tokens, in texts of 2048, are that to 5%.",
        _compute,
        source="Brown et al., Language Models are Few-Shot Learners, 2020, table D.1",
        link="https://arxiv.org/abs/2005.14165",
        computed=True,
    ),
    Claim(
        "writing-waits-for-memory",
        "A model that writes one text waits for its memory, not for its arithmetic.",
        "Holds if 32 vectors take at most 16 times as long as one, and a token of a model of "
        "SmolLM2's sizes reaches half of the memory's limit, bytes of weights over bandwidth; does "
        "not if 32 take 28 times as long, or a token reaches less than a quarter of it.",
        _waits,
        timed=True,
    ),
    Claim(
        "flash-many-times-fewer",
        "For typical values of d (64-128) and M (around 100KB), d² is many times smaller than M, "
        "and thus FlashAttention requires many times fewer HBM accesses than standard "
        "implementation.",
        "Bytes read and written for 16,384 tokens, 2 a number, tiles of queries, keys, values and "
        "output that fill 100 KB. Holds if plain attention moves at least three times as many for "
        "d = 64 and for 128; only if d is small, where for 64 alone; does not, if for neither.",
        _many_times,
        source="Dao et al., FlashAttention, 2022, section 3.2",
        link="https://arxiv.org/abs/2205.14135",
        computed=True,
    ),
    Claim(
        "ddp-like-one",
        "Two processes that average their gradients train like one with both their texts.",
        "Holds if the losses of 20 steps differ by less than 1e-5.",
        _like_one,
    ),
    Claim(
        "fsdp-like-one",
        "Sharding the weights changes where they are held, not what is computed.",
        "Holds if the losses of 20 steps differ by less than 1e-5.",
        _like_one,
    ),
    Claim(
        "killed-and-resumed",
        "After a process was killed, a run that goes on from its checkpoint ends as if nothing had "
        "been.",
        "Holds if it was started again, and the losses of 20 steps differ by less than 1e-5.",
        _resumed,
    ),
)
