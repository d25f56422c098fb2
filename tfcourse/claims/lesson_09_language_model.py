"""Lesson 09: what its own cells measure and compute."""

from __future__ import annotations

from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, ONLY_IF, Claim, Judged, small_gap


def _tied(saved):
    close = abs(saved / 131e6 - 1) < 0.01
    return Judged(f"{saved / 1e6:.1f}M", HOLDS if close else NOT_HERE)


def _own_parts(gap):
    return small_gap(gap, 1e-4, "held-out loss with your parts and with ours: apart by")


def _same_logits(gap):
    return small_gap(gap, 1e-5, "with a cache minus without: at most")


def _same_cost(work):
    """work: (model, with a cache?) -> operations at 64 and at 512 tokens."""
    grown = {key: late / early for key, (early, late) in work.items()}
    said = "; ".join(
        f"{name} {grown[name, True]:.2f}×, without a cache {grown[name, False]:.1f}×"
        for name in ("this model", "Llama-7B")
    )
    flat = [grown[name, True] <= 1.1 for name in ("this model", "Llama-7B")]
    if all(flat):
        return Judged(said, HOLDS)
    if flat[1]:
        return Judged(said, ONLY_IF, "d_model is large beside the length of the text")
    return Judged(said, NOT_HERE)


def _per_token(size):
    return Judged(f"{size:,} bytes = {size / 1024:.0f} KB", HOLDS if size == 819_200 else NOT_HERE)


def _repetitive(shares):
    """shares: how a text was chosen -> for each prompt, the share that has stood there before."""
    mean = {name: sum(values) / len(values) for name, values in shares.items()}
    said = ", ".join(f"{name} {value:.0%}" for name, value in mean.items())
    more = mean["always the likeliest"] - max(v for n, v in mean.items() if "likeliest" not in n)
    if more >= 0.1:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if more <= 0 else CANNOT_TELL)


CLAIMS = (
    Claim(
        "tied-131-million",
        "A head that is the embedding's table would save Llama-7B 131 million parameters.",
        "Holds if vocabulary × d_model is that, to 1%.",
        _tied,
        computed=True,
    ),
    Claim(
        "own-parts-same-loss",
        "The shipped weights give the same loss in your model as in the package's.",
        "Holds if the held-out losses are less than 0.0001 nats apart.",
        _own_parts,
    ),
    Claim(
        "cache-same-logits",
        "A cache changes nothing in what a model says.",
        "Holds if logits with and without it are equal to 1e-5, relative to the largest.",
        _same_logits,
    ),
    Claim(
        "cache-same-cost",
        "With a cache, a token costs the same, however long the text is.",
        "Holds if from the 64th token to the 512th the multiplications and additions grow at most "
        "1.1-fold, in a model of this lesson (d_model = 128) and in one of Llama-7B's sizes "
        "(d_model = 4096); only if d_model is large, where they do so in the second alone.",
        _same_cost,
    ),
    Claim(
        "800-kb-a-token",
        "For the 13B parameter OPT model, the KV cache of a single token demands 800 KB of space.",
        "Holds if 2 · layers · d_model · 2 bytes with 40 layers and d_model = 5120 is 800 · 1024.",
        _per_token,
        source="Kwon et al., Efficient Memory Management for Large Language Model Serving with "
        "PagedAttention, 2023",
        link="https://arxiv.org/abs/2309.06180",
        computed=True,
    ),
    Claim(
        "strangely-repetitive",
        "Using likelihood as a decoding objective leads to text that is bland and strangely "
        "repetitive.",
        "Only “repetitive” is decided. Holds if of texts of 400 characters that always take the "
        "likeliest character, the share that repeats 20 characters which stood there before is at "
        "least 0.1 larger than that of drawn texts and of the manual itself; does not if it is not "
        "larger.",
        _repetitive,
        source="Holtzman et al., The Curious Case of Neural Text Degeneration, 2019",
        link="https://arxiv.org/abs/1904.09751",
    ),
)
