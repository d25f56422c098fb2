"""M7: heads that go on with what stood there before: induction heads (lesson 10).

    python -m tfcourse.experiments.induction

Texts of random tokens that repeat themselves once. Nobody can know the first half; the second half
is known to one who looks back. Controls: models before their training, models of one layer, and the
same model on texts where nothing repeats.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfcourse.attention import MultiHeadAttention
from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    ONLY_IF,
    Claim,
    Judged,
    lower,
    paired,
)
from tfcourse.experiments import main, mean_and_spread
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses, study
from tfcourse.inside import (
    attention_maps,
    head_outputs,
    head_scores,
    induction_scores,
    replaced_heads,
)
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.positions import Rotary
from tfcourse.tasks import repeated_sequences
from tfcourse.training import fit

VOCABULARY, BATCH, HELD_OUT, A_LOOK = 32, 64, 256, 64
SHORTEST, LONGEST = 8, 24  # the half-lengths in training
LENGTH, LONGER = 20, 30  # those that are measured; training never has the second
LOOKS_BACK = 0.5  # a head that looks back has a score for the token before of at least that
EVERY = 10  # steps between two looks at a model in training
TWO, ONE, WIDE = "two layers", "one layer", "one layer, twice as wide"
NOTHING = "nothing repeats"
ARMS = {
    TWO: {"d_model": 64, "n_heads": 4, "layers": 2},
    ONE: {"d_model": 64, "n_heads": 4, "layers": 1},
    WIDE: {"d_model": 128, "n_heads": 8, "layers": 1},
    NOTHING: {"d_model": 64, "n_heads": 4, "layers": 2},
}
SETTINGS = {
    "arms": list(ARMS),
    "rates": [3.2e-3, 5.6e-3, 1e-2, 1.8e-2, 3.2e-2],
    "pilot_seeds": [100],
    # 0 to 4 and 50 to 54 were seen before two rules were written: in one run two heads shared the
    # work, so all that look back are switched off together; and an idle head had a score of 0.21
    "seeds": [5, 6, 7, 8, 9],
    "steps": 600,
}


class AttentionOnly(nn.Module):
    """A pre-norm block with attention and nothing else: x + attention(norm(x)).

    Args:
        config: of the model.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        rotary = Rotary(config.d_head, config.rotary_base, config.rotary_layout)
        self.attention = MultiHeadAttention(config.d_model, config.n_heads, rotary=rotary)
        self.attention_norm = config.new_norm()

    def forward(self, x: Tensor, *, causal: bool = False, mask=None, cache=None) -> Tensor:
        """One step of the residual stream, (batch, tokens, d_model)."""
        normed = self.attention_norm(x)
        return x + self.attention(normed, causal=causal, mask=mask, cache=cache)


def make(arm: str = TWO) -> LanguageModel:
    """Attention only, rotary; its heads are 16 wide in every arm."""
    return LanguageModel(TransformerConfig(VOCABULARY, **ARMS[arm]), block=AttentionOnly)


def texts(arm: str, size: int, length: int, generator: torch.Generator) -> Tensor:
    """(size, 2 · length): random tokens, then the same ones again, or others."""
    if arm == NOTHING:
        return torch.randint(VOCABULARY, (size, 2 * length), generator=generator)
    return repeated_sequences(size, length, VOCABULARY, generator)


def nats(model: LanguageModel, text: Tensor) -> Tensor:
    """Cross-entropy of the second token, the third, …: (size, tokens - 1)."""
    return F.cross_entropy(model(text[:, :-1]).mT, text[:, 1:], reduction="none")


@torch.no_grad()
def halves(model: LanguageModel, text: Tensor) -> tuple[float, float]:
    """The loss on the first half, and on the second from its second token on.

    The second half's first token is not counted: nobody knows that the text begins again.
    """
    each, half = nats(model, text), text.shape[1] // 2
    return each[:, : half - 1].mean().item(), each[:, half:].mean().item()


@torch.no_grad()
def scores(model: LanguageModel, text: Tensor) -> dict[str, list[list[float]]]:
    """Every head's induction score and its weight on the token before: layers of heads."""
    with attention_maps(model) as maps:
        model(text)
    half = text.shape[1] // 2
    found = {
        "induction": [induction_scores(weights, half) for weights in maps.values()],
        "previous": [head_scores(weights)["previous"] for weights in maps.values()],
    }
    return {name: [rounded(row.tolist()) for row in rows] for name, rows in found.items()}


def rounded(values, digits: int = 4) -> list[float]:
    """A row of numbers for a record."""
    return [round(value, digits) for value in values]


def best(rows: list[list[float]]) -> tuple[int, int]:
    """Layer and number of the head with the greatest score."""
    every = [(layer, head) for layer, row in enumerate(rows) for head in range(len(row))]
    return max(every, key=lambda place: rows[place[0]][place[1]])


def name_of(layer: int) -> str:
    """What a layer's attention is called in the model."""
    return f"blocks.{layer}.attention"


@torch.no_grad()
def kept_heads(model: LanguageModel, text: Tensor) -> dict[str, Tensor]:
    """What every head gives for a text without its last token, as `nats` reads it."""
    with head_outputs(model) as kept:
        model(text[:, :-1])
    return kept


def costs(model: LanguageModel, text: Tensor, *, mean: bool = False) -> list[list[float]]:
    """What the second half's loss rises by when a head is switched off, one after the other.

    Args:
        mean: put the head's mean over the texts in its place, at every position, instead of zero.
    """
    kept, whole = kept_heads(model, text), halves(model, text)[1]
    rows = []
    for name, outputs in kept.items():
        rows.append([])
        for head in range(outputs.shape[1]):
            instead = outputs[:, head].mean(0) if mean else 0.0
            with replaced_heads(model, {(name, head): instead}):
                rows[-1].append(halves(model, text)[1] - whole)
    return [rounded(row) for row in rows]


def looking_back(found: dict[str, list[list[float]]]) -> list[int]:
    """The heads of the first block that look at the token before, by what `scores` gave."""
    return [head for head, score in enumerate(found["previous"][0]) if score >= LOOKS_BACK]


def cost_together(model: LanguageModel, text: Tensor) -> float:
    """What the second half's loss rises by when all heads that look back give their means."""
    means = kept_heads(model, text)[name_of(0)].mean(0)  # (heads, tokens, d_head)
    instead = {(name_of(0), head): means[head] for head in looking_back(scores(model, text))}
    whole = halves(model, text)[1]
    with replaced_heads(model, instead):
        return round(halves(model, text)[1] - whole, 4)


def fed(model: LanguageModel, text: Tensor) -> dict:
    """The best induction head's score with means in place of heads of the first block.

    Returns:
        "each", one after the other; "looking back", all together that look at the token before.
    """
    layer, number = best(scores(model, text)["induction"])
    with torch.no_grad(), head_outputs(model) as kept:
        model(text)
    means = kept[name_of(0)].mean(0)  # (heads, tokens, d_head)

    def left(heads):
        with replaced_heads(model, {(name_of(0), head): means[head] for head in heads}):
            return scores(model, text)["induction"][layer][number]

    return {
        "each": [left([head]) for head in range(model.config.n_heads)],
        "looking back": left(looking_back(scores(model, text))),
    }


def corrupted(text: Tensor, generator: torch.Generator) -> Tensor:
    """The same second halves behind other first ones: now nothing repeats."""
    half = text.shape[1] // 2
    other = torch.randint(VOCABULARY, (len(text), half), generator=generator)
    return torch.cat([other, text[:, half:]], dim=1)


def restored(model: LanguageModel, text: Tensor, generator: torch.Generator) -> dict:
    """What a head's output on texts that repeat brings back where the first half is another.

    Returns:
        the second half's loss on both, "clean" and "corrupted"; of every head, of all heads of a
        layer together, and of those together that look back, the share (corrupted - patched) /
        (corrupted - clean); and as a control a layer's with what its heads give for another text.
    """
    other, kept = corrupted(text, generator), kept_heads(model, text)
    clean, worse = halves(model, text)[1], halves(model, other)[1]

    def share(heads, shift=0):
        given = {(name, h): kept[name][:, h].roll(shift, 0) for name, h in heads}
        with replaced_heads(model, given):
            return round((worse - halves(model, other)[1]) / (worse - clean), 4)

    numbers = range(model.config.n_heads)
    back = [(name_of(0), head) for head in looking_back(scores(model, text))]
    return {
        "clean": round(clean, 4),
        "corrupted": round(worse, 4),
        "heads": [[share([(name, h)]) for h in numbers] for name in kept],
        "layers": [share([(name, h) for h in numbers]) for name in kept],
        "looking back": share(back),
        "layers, another text": [share([(name, h) for h in numbers], 1) for name in kept],
    }


def right_shares(model: LanguageModel, text: Tensor) -> dict[str, float]:
    """What the embedding and every head write themselves for the right letter.

    The logit of the right letter less the mean of all letters', in the second half; the last norm
    is held, and its bias left out. Then the logit is linear in the parts, and shares are slopes.
    """
    parts = {"embedding": model.embed(text[:, :-1])}
    for layer, heads in enumerate(kept_heads(model, text).values()):
        out = model.blocks[layer].attention.out
        each = out.weight.unflatten(1, (heads.shape[1], -1))  # (d_model, heads, d_head)
        for head in range(heads.shape[1]):
            parts[f"{layer}.{head}"] = heads[:, head] @ each[:, head].T
    rest = sum(block.attention.out.bias for block in model.blocks)
    amounts = torch.ones(len(parts), requires_grad=True)
    with torch.enable_grad():
        stream = torch.einsum("p,pbtd->btd", amounts, torch.stack(list(parts.values()))) + rest
        size = stream.std(-1, correction=0, keepdim=True)
        normed = (model.norm(stream) - model.norm.bias) * size / size.detach()
        rows = model.head.weight[text[:, 1:]] - model.head.weight.mean(0)
        said = (normed * rows).sum(-1)[:, text.shape[1] // 2 :].mean()
        shares = torch.autograd.grad(said, amounts)[0]
    return dict(zip(parts, rounded(shares.tolist()), strict=True))


class Course:
    """What is seen of a model while it is trained: the second half's loss, the best scores."""

    def __init__(self, model: LanguageModel, text: Tensor):
        self.model, self.text = model, text
        self.seen: dict[str, list] = {"step": [], "loss": [], "induction": [], "previous": []}
        self.look(0)

    def look(self, step: int) -> None:
        """Measure and write down."""
        found = scores(self.model, self.text)
        self.seen["step"].append(step)
        self.seen["loss"].append(round(halves(self.model, self.text)[1], 4))
        for name in ("induction", "previous"):
            self.seen[name].append(max(map(max, found[name])))

    def fallen(self, share: float) -> int:
        """The first step at which this share of the loss's whole fall was done."""
        loss = self.seen["loss"]
        line = loss[0] - share * (loss[0] - min(loss))
        return next(s for s, nats in zip(self.seen["step"], loss, strict=True) if nats <= line)

    def above(self, score: float) -> int | None:
        """The first step at which the best induction score was above; None: at none."""
        both = zip(self.seen["step"], self.seen["induction"], strict=True)
        return next((step for step, best in both if best > score), None)


def train(arm: str, *, rate: float, seed: int, steps: int, watch=None, progress=None):
    """A model trained once, the loss of every step, and its `Course`.

    All tokens count in training, those of the first half too, as in any language model.
    """
    torch.manual_seed(seed)
    model, generator = make(arm), torch.Generator().manual_seed(seed)
    course = Course(model, held_out(seed)[:A_LOOK])

    def loss():
        length = torch.randint(SHORTEST, LONGEST + 1, (1,), generator=generator).item()
        return nats(model, texts(arm, BATCH, length, generator)).mean()

    def look(losses):
        if len(losses) % EVERY == 0:
            course.look(len(losses))
        if watch is not None:
            watch(losses)

    curve = fit(
        model, loss, steps=steps, learning_rate=rate, warm_up=max(1, steps // 10), decay=True,
        clip=1.0, watch=look, progress=progress,
    )  # fmt: skip
    return model, curve, course


def held_out(seed: int, length: int = LENGTH) -> Tensor:
    """Repeated texts that no training draws; every arm is measured on the same ones."""
    return texts(TWO, HELD_OUT, length, torch.Generator().manual_seed(10_000 + seed))


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once; measure on repeated texts, its heads before and after, and each one's part."""
    torch.manual_seed(seed)
    text, longer = held_out(seed), held_out(seed, LONGER)
    before = scores(make(arm), text)
    began = time.monotonic()
    model, curve, course = train(arm, rate=rate, seed=seed, steps=steps, watch=watch)
    seconds = time.monotonic() - began
    first, second = halves(model, text)
    found = {
        "loss": round(second, 4),
        "first half": round(first, 4),
        "loss, longer": round(halves(model, longer)[1], 4),
        "before": before,
        "after": scores(model, text),
        "after, longer": scores(model, longer),
        "course": course.seen,
        "seconds": round(seconds, 1),
        "curve": thinned(curve),
    }
    if arm != TWO:
        return found
    return found | {
        "half fallen": course.fallen(0.5),
        "fall": [course.fallen(0.25), course.fallen(0.75)],
        "head at": course.above(0.5),
        "costs": costs(model, text),
        "costs, mean": costs(model, text, mean=True),
        "cost, looking back": cost_together(model, text),
        "fed": fed(model, text),
        "restored": restored(model, text, torch.Generator().manual_seed(20_000 + seed)),
    }


def run(*, arms, chosen=None, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own learning rate, on the same seeds.

    Where nothing repeats there is nothing to learn, and no rate is the best: it takes that of the
    same model on texts that repeat.
    """
    options = {**settings, "say": say, "watch": watch}
    found = study(one, [arm for arm in arms if arm != NOTHING], chosen=chosen, **options)
    if NOTHING in arms:
        rates = {NOTHING: found["chosen"][TWO]}
        found["runs"] += study(one, [NOTHING], **options | {"chosen": rates})["runs"]
    return found


# --- what is decided -------------------------------------------------------------------------


def greatest(rows: list[list[float]]) -> float:
    """The greatest number in layers of heads."""
    return max(map(max, rows))


def best_scores(results, arm: str, key: str = "after") -> list[float]:
    """The best induction score of every run of an arm."""
    return [greatest(found["induction"]) for found in losses(results, arm, key=key)]


def controls(results) -> float:
    """The best induction score of all models that should have no induction head."""
    others = [best_scores(results, arm) for arm in (ONE, WIDE, NOTHING)]
    return max(map(max, [*others, best_scores(results, TWO, "before")]))


def of_all(checks: list[bool]) -> str:
    """Every seed says yes: holds; at most half of them: does not; else nobody can tell."""
    if all(checks):
        return HOLDS
    return NOT_HERE if 2 * sum(checks) <= len(checks) else CANNOT_TELL


def _appear(results):
    scores, left = best_scores(results, TWO), losses(results, TWO)
    mean, spread = mean_and_spread(scores)
    nats, scatter = mean_and_spread(left)
    longer, _ = mean_and_spread(losses(results, TWO, key="loss, longer"))
    said = (
        f"best score {mean:.2f} ± {spread:.2f}, the least {min(scores):.2f}; {nats:.2f} ± "
        f"{scatter:.2f} nats, the most {max(left):.2f} ({longer:.2f} at a length never trained); "
        f"controls at most {controls(results):.2f}"
    )
    if min(scores) >= 0.8 and max(left) <= 0.3:
        return Judged(said, HOLDS if controls(results) < 0.4 else CANNOT_TELL)
    return Judged(said, NOT_HERE if mean < 0.8 or nats > 0.3 else CANNOT_TELL)


def _with_the_drop(results):
    runs = [run for run in results["runs"] if run["arm"] == TWO]
    fits, apart, lasts = [], [], []
    for run in runs:
        late = None if run["head at"] is None else run["head at"] - run["half fallen"]
        lasts.append(run["fall"][1] - run["fall"][0])
        apart.append("never" if late is None else f"{late:+}")
        fits.append(late is not None and abs(late) <= 2 * EVERY and lasts[-1] <= 80)
    idle = [run for run in results["runs"] if run["arm"] != TWO]
    headless = all(max(run["course"]["induction"]) < 0.5 and run["loss"] > 1.5 for run in idle)
    said = (
        f"the head's score passes 0.5 {', '.join(apart)} steps after half of the fall; the fall's "
        f"middle half takes at most {max(lasts)} steps"
    )
    verdict = of_all(fits)
    return Judged(said, verdict if headless or verdict != HOLDS else CANNOT_TELL)


def _one_layer(results):
    gaps = {arm: paired(losses(results, TWO), losses(results, arm)) for arm in (ONE, WIDE)}
    said = "; ".join(f"two layers − {arm}: {gap} nats" for arm, gap in gaps.items())
    found = [lower(gap, 1.0) for gap in gaps.values()]
    same = len(set(found)) == 1
    return Judged(said, found[0] if same else CANNOT_TELL)


def _costs_most(results):
    """By both ways to switch a head off."""
    of_layer, of_every, runs = [], [], losses(results, TWO, key="after")
    for way in ("costs", "costs, mean"):
        for found, cost in zip(runs, losses(results, TWO, key=way), strict=True):
            layer, head = best(found["induction"])
            of_layer.append(cost[layer][head] == max(cost[layer]))
            of_every.append(cost[layer][head] == greatest(cost))
    half = len(runs)
    said = (
        f"the costliest of all heads in {sum(of_every[:half])} of {half} seeds, of its own layer "
        f"in {sum(of_layer[:half])}; with its mean in its place {sum(of_every[half:])} and "
        f"{sum(of_layer[half:])}"
    )
    if all(of_layer) and not all(of_every):
        return Judged(said, ONLY_IF, "only the heads of its own layer are compared")
    return Judged(said, of_all(of_every))


def fed_by(run) -> tuple[float, float]:
    """The share of the best induction head's score that is left without the heads that look back.

    And the least that is left without another head of the first layer.
    """
    whole, back = greatest(run["after"]["induction"]), looking_back(run["after"])
    others = [score for head, score in enumerate(run["fed"]["each"]) if head not in back]
    return run["fed"]["looking back"] / whole, min(others) / whole


def _feeds(results):
    pairs = [fed_by(run) for run in results["runs"] if run["arm"] == TWO]
    without, others = zip(*pairs, strict=True)
    said = (
        f"of the best head's score {min(without):.0%} to {max(without):.0%} is left without the "
        f"heads that look back; without any other one of that layer at least {min(others):.0%}"
    )
    return Judged(said, of_all([left < 0.5 < other for left, other in pairs]))


def _carries(results):
    checks, cost, back, layer, strange = [], [], [], [], []
    for run in (run for run in results["runs"] if run["arm"] == TWO):
        cost.append(run["cost, looking back"])
        back.append(run["restored"]["looking back"])
        layer.append(run["restored"]["layers"][1])
        strange.append(run["restored"]["layers, another text"][1])
        checks.append(cost[-1] >= 1 and back[-1] < 0.1 and layer[-1] >= 0.9 > strange[-1])
    said = (
        f"without them at least {min(cost):.1f} nats more; patched in, they bring back at most "
        f"{max(back):.0%}; the heads of the second layer together at least {min(layer):.0%}, "
        f"those of another text at most {max(strange):.0%}"
    )
    return Judged(said, of_all(checks))


OLSSON = {
    "source": "Olsson et al., In-context Learning and Induction Heads, 2022, abstract",
    "link": "https://arxiv.org/abs/2209.11895",
}
CLAIMS = (
    Claim(
        "induction-heads-appear",
        "Two layers of attention that learn to go on with repeated texts grow induction heads.",
        "Holds if in every run the best induction score is at least 0.8 and the second half's loss "
        "at most 0.3 nats on unseen texts, and no control (untrained, one layer, one wide layer, "
        "nothing repeats) has half of that score; does not if one of the two means misses its bar.",
        _appear,
    ),
    Claim(
        "heads-come-with-the-drop",
        "We find that induction heads develop at precisely the same point as a sudden sharp "
        "increase in in-context learning ability, visible as a bump in the training loss.",
        "In-context learning is here the loss of the second half; the bump itself is not decided. "
        "Holds if in every run the best induction score passes 0.5 within 20 steps of half of that "
        "loss's fall, the fall's middle half takes at most 80 of 600 steps, and no control falls "
        "or has such a score; does not if that is so in at most half of the runs.",
        _with_the_drop,
        **OLSSON,
    ),
    Claim(
        "one-layer-is-not-enough",
        "One layer of attention does not learn what two learn with induction heads, and not for "
        "lack of heads or width.",
        "One layer with the same heads, and one twice as wide with twice the heads and more "
        "parameters than the two have, each at its own rate. Holds if two layers are surely better "
        "by more than 1 nat on the second half, by the paired interval, than either.",
        _one_layer,
    ),
    Claim(
        "highest-score-costs-most",
        "The head with the highest induction score is the one that costs most when it is switched "
        "off.",
        "Switched off to zero, and to its mean over the texts. Holds if it is the costliest of all "
        "heads in every run, both ways; holds only if … where it is the costliest of its own layer "
        "in every run; does not if it is the costliest of all in at most half of the runs.",
        _costs_most,
    ),
    Claim(
        "previous-token-head-feeds-it",
        "Induction takes two heads in a row: one of the first layer that looks at the token "
        "before feeds the one of the second.",
        "Looked at are the first layer's heads that put at least half of their weight on the token "
        "before. Holds if in every run the best induction head loses more than half of its score "
        "when they give their means instead, and none of that layer's other heads takes half; does "
        "not if that is so in at most half of the runs.",
        _feeds,
    ),
    Claim(
        "needed-is-not-carrying",
        "A head can be needed for an answer without carrying it: to switch off and to patch are "
        "two questions.",
        "Looked at are the same heads. Holds if in every run they cost at least 1 nat when they "
        "give their means, but, patched from a text that repeats into one that does not, bring "
        "back less than a tenth of the loss, while the second layer's heads bring back nine "
        "tenths, and do not if they come from another text; does not if that is so in at most half "
        "of the runs.",
        _carries,
    ),
)

if __name__ == "__main__":
    main("induction", run, SETTINGS, CLAIMS)
