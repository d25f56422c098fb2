"""B1: deeper and deeper, with and without the plus (lesson 06).

Blocks with norms, once as x + f(norm(x)), once as f(norm(x)) alone; both have the same parameters.
A control asks what the plus is for: in "without, sees itself" every token has a fixed bonus for
attending to itself, so that it keeps what it was, and there is still no plus.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tfcourse.blocks import Block
from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    ONLY_IF,
    Claim,
    Judged,
    alike,
    lower,
    paired,
)
from tfcourse.experiments import main
from tfcourse.experiments.characters import manual, thinned, train
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel, TransformerConfig

DEPTHS = (1, 2, 4, 8)
DEEPEST, CONTROL = 8, 4
TOKENS, BATCH, D_MODEL, N_HEADS = 32, 8, 32, 2
BONUS = 6.0  # added to a token's score with itself: e⁶ ≈ 400, more than the 31 others together


class Chained(Block):
    """A block that passes on only what its sub-layers make of x, not x itself."""

    def _add(self, x, sublayer, norm):
        return sublayer(norm(x))


def sees_itself(query_positions, key_positions):
    """A bonus for each token's score with itself: (1, queries, keys)."""
    return BONUS * (query_positions[:, None] == key_positions)[None].float()


def name_of(kind: str, depth: int) -> str:
    """What an arm is called."""
    return f"{kind}, {depth} block{'s' if depth > 1 else ''}"


WITH, WITHOUT, ITSELF = "with the plus", "without", "without, sees itself"
KINDS = {
    WITH: {"kind": Block},
    WITHOUT: {"kind": Chained},
    ITSELF: {"kind": Chained, "score_bias": sees_itself},
}
ARMS = {
    name_of(kind, depth): KINDS[kind] | {"layers": depth}
    for kind, depths in ((WITH, DEPTHS), (WITHOUT, DEPTHS), (ITSELF, (CONTROL,)))
    for depth in depths
}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [3e-3, 1e-2, 3e-2],
    "pilot_seeds": [100, 101],
    "seeds": [0, 1, 2, 3, 4],
    "steps": 300,
}


@torch.no_grad()
def cosines(model: LanguageModel) -> list[float]:
    """Mean cosine of two different tokens of a held-out window, after each block."""
    ids, _ = manual().batch(16, TOKENS, torch.Generator().manual_seed(9), "held out")
    x, found = model.embed(ids), []
    for block in model.blocks:
        x = block(x, causal=True)
        unit = F.normalize(x, dim=-1)
        pairs = (unit @ unit.mT).sum(dim=(1, 2)) - TOKENS  # without each token's with itself
        found.append(round(pairs.mean().item() / (TOKENS * (TOKENS - 1)), 4))
    return found


def first_gradient(model: LanguageModel) -> float:
    """Root mean square of the loss's gradient at the first block's weights (the MLP's `up`)."""
    ids, targets = manual().batch(BATCH, TOKENS, torch.Generator().manual_seed(8))
    loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    (gradient,) = torch.autograd.grad(loss, model.blocks[0].feed_forward.up.weight)
    return gradient.square().mean().sqrt().item()


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train one stack: held-out and training loss, tokens' cosines before and after, gradient."""
    text, options = manual(), dict(ARMS[arm])
    torch.manual_seed(seed)
    config = TransformerConfig(len(text.vocabulary), D_MODEL, N_HEADS, options.pop("layers"))
    model = LanguageModel(config, block=lambda config: config.block(**options))
    before, gradient = cosines(model), first_gradient(model)
    curve = train(
        model, seed=seed, tokens=TOKENS, batch=BATCH, steps=steps, learning_rate=rate,
        warm_up=steps // 10, decay=True, clip=1.0, watch=watch,
    )  # fmt: skip
    return {
        "loss": text.losses(model, TOKENS).mean().item(),
        "training loss": text.losses(model, TOKENS, part="train").mean().item(),
        "gradient at the start": gradient,
        "cosines at the start": before,
        "cosines": cosines(model),
        "curve": thinned(curve),
    }


def run(*, arms, say=lambda words: None, watch=None, **settings) -> dict:
    """Each arm at its own learning rate, and the loss of one who knows only the frequencies."""
    found = study(one, arms, say=say, watch=watch, **settings)
    return found | {"only the frequencies": manual().unigram_entropy()}


# --- what it decides ------------------------------------------------------------------------


def _degrades(results) -> Judged:
    deep, shallow = (
        losses(results, name_of(WITHOUT, depth), key="training loss") for depth in (DEEPEST, 1)
    )
    gap = paired(shallow, deep)
    said = f"training loss without the plus, 1 block minus {DEEPEST}: {gap} nats"
    return Judged(said, lower(gap))


def _costs_little(results) -> Judged:
    def cost(kind):
        deep, shallow = (losses(results, name_of(kind, depth)) for depth in (DEEPEST, 1))
        return [a - b for a, b in zip(deep, shallow, strict=True)], paired(deep, shallow)

    (kept, with_plus), (lost, without) = cost(WITH), cost(WITHOUT)
    verdict = lower(paired(kept, [0.1 * x for x in lost]))
    return Judged(
        f"{DEEPEST} blocks minus 1, with the plus {with_plus} nats, without {without}", verdict
    )


def _not_the_gradient(results) -> Judged:
    difficulty = _degrades(results)
    least, beside = (
        min(losses(results, name_of(kind, DEEPEST), key="gradient at the start"))
        for kind in (WITHOUT, WITH)
    )
    arrives = HOLDS if least > 1e-6 else NOT_HERE
    return Judged(
        f"gradient at the first of {DEEPEST} blocks {least:.0e} or more, with the plus "
        f"{beside:.0e}; {difficulty.measured}",
        arrives if difficulty.verdict == HOLDS else CANNOT_TELL,
    )


def _degenerate(results) -> Judged:
    ends = {
        kind: [c[-1] for c in losses(results, name_of(kind, DEEPEST), key="cosines at the start")]
        for kind in (WITH, WITHOUT)
    }
    stopped = {kind: [value < 0.9 for value in values] for kind, values in ends.items()}
    said = ", ".join(f"{kind} {min(v):.2f} to {max(v):.2f}" for kind, v in ends.items())
    said = f"mean cosine of two tokens after {DEEPEST} untrained blocks with MLPs: {said}"
    if any(any(found) != all(found) for found in stopped.values()):
        return Judged(said, CANNOT_TELL)
    if not all(stopped[WITH]):
        return Judged(said, NOT_HERE)
    if all(stopped[WITHOUT]):
        return Judged(said, HOLDS)
    return Judged(said, ONLY_IF, "there are skip connections: MLPs alone do not stop it")


def _because_alike(results) -> Judged:
    plain, itself, plus = (losses(results, name_of(k, CONTROL)) for k in (WITHOUT, ITSELF, WITH))
    gain, missing = paired(itself, plain), paired(itself, plus)
    said = f"{CONTROL} blocks without the plus, seeing themselves minus not: {gain} nats; "
    said += f"minus with the plus: {missing}"
    if lower(gain) != HOLDS:
        return Judged(said, lower(gain))
    whole = alike(missing, 0.1)
    if whole == NOT_HERE:
        return Judged(said, ONLY_IF, "it is called one reason among others")
    return Judged(said, whole)


HE = "He et al., Deep Residual Learning, 2015"
HE_LINK = "https://arxiv.org/abs/1512.03385"
CLAIMS = (
    Claim(
        "degradation",
        "with the network depth increasing, accuracy gets saturated (which might be unsurprising) "
        "and then degrades rapidly. Unexpectedly, such degradation is not caused by overfitting, "
        "and adding more layers to a suitably deep model leads to higher training error",
        "Without the plus, the loss of 8 blocks lies above that of 1 block on the training text: "
        "the whole interval of the difference over pairs of seeds.",
        _degrades,
        HE,
        HE_LINK,
    ),
    Claim(
        "depth-costs-nothing-with-the-plus",
        "With the plus, depth costs next to nothing, even where the training is too short to use "
        "it.",
        "From 1 block to 8 the held-out loss rises by less than a tenth of what it rises without "
        "the plus: the whole interval over pairs of seeds.",
        _costs_little,
    ),
    Claim(
        "not-the-gradient",
        "We argue that this optimization difficulty is unlikely to be caused by vanishing "
        "gradients. These plain networks are trained with BN, which ensures forward propagated "
        "signals to have non-zero variances. We also verify that the backward propagated gradients "
        "exhibit healthy norms with BN. So neither forward nor backward signals vanish.",
        "With norms and without the plus 8 blocks learn less than 1 (training loss, interval over "
        "pairs of seeds), although a gradient arrives at the first block: above 1e-6 for each "
        "weight, a hundred times the 1e-8 below which AdamW's step becomes small.",
        _not_the_gradient,
        HE,
        HE_LINK,
    ),
    Claim(
        "skip-connections-and-mlps",
        "skip connections and MLPs stop the output from degeneration",
        "The tokens are not alike after 8 untrained blocks: a mean cosine below 0.9 (beyond it "
        "less than a third of a token's length is its own), in every seed. With MLPs and the plus; "
        "and with MLPs alone.",
        _degenerate,
        "Dong et al., Attention is not all you need, 2021",
        "https://arxiv.org/abs/2103.03404",
    ),
    Claim(
        "because-tokens-become-alike",
        "A deep stack without the plus does not learn because its tokens become alike.",
        "A fixed bonus for attending to oneself keeps the tokens apart. It lowers the loss of 4 "
        "blocks without the plus (interval over pairs of seeds); and to within 0.1 nats of that "
        "with the plus, if this is the whole reason.",
        _because_alike,
    ),
)

if __name__ == "__main__":
    main("depths", run, SETTINGS, CLAIMS)
