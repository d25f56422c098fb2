"""A7: is a weight of attention an explanation? (lesson 10)

    python -m tfcourse.experiments.explanation

The model that comes with the course reads windows of held-out text. At the last character of each,
what it says next is compared: with a key forbidden to a head, with other weights in a head, with
another character in the text. Controls: first weights, untrained; and the weights that the same
head has in another window.
"""

from __future__ import annotations

import functools
import math
import time

import torch
from torch import Tensor

from tfcourse.attention import KVCache
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
from tfcourse.experiments import main, manual, mean_and_spread
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses
from tfcourse.inside import attention_maps, head_outputs, replaced_heads, replaced_weights
from tfcourse.models import LanguageModel

TOKENS = 48
TRAINED, UNTRAINED = "trained", "untrained"
ARMS = (TRAINED, UNTRAINED)
LITTLE, MUCH = 0.01, 0.1  # nats
FAR = 0.5  # total variation
GROUPS = (("little", -1.0, LITTLE), ("some", LITTLE, MUCH), ("much", MUCH, math.inf))  # by say
SETTINGS = {
    "arms": list(ARMS),
    "pilot_seeds": [0, 1, 2, 3, 4, 20, 21, 22, 50, 51, 52, 53, 54],  # seen as rules were written
    "seeds": [5, 6, 7, 8, 9, 25, 26, 27],
    "steps": 24,  # windows
}
GAIN = 0.2  # of rank correlation; what tells less than this explains nothing to anybody
APART = 40  # windows of a seed: every fortieth of the held-out text


class LastToken:
    """What a model says behind a text, and what it would say if its last query fetched otherwise.

    Only the last token is computed again: what stands before it cannot see it.

    Args:
        model: a language model, in evaluation mode.
        tokens: the text, (tokens,).
    """

    @torch.no_grad()
    def __init__(self, model: LanguageModel, tokens: Tensor):
        self.model, self.tokens = model, tokens
        self.names = [f"blocks.{layer}.attention" for layer in range(model.config.layers)]
        whole = model.new_caches()
        with attention_maps(model) as maps:
            model(tokens[None], caches=whole)
        self._past = [(cache.k[:, :, :-1], cache.v[:, :, :-1]) for cache in whole]
        #: of the last query, (layers, heads, keys)
        self.weights = torch.stack([maps[name][0, :, -1] for name in self.names])
        #: what a key brings into the stream, (layers, heads, keys, d_model)
        self.brings = torch.stack([self._brings(i, whole[i].v[0]) for i in range(len(whole))])
        self.says = self._says(1)

    def _brings(self, layer: int, values: Tensor) -> Tensor:
        out = self.model.blocks[layer].attention.out.weight  # (d_model, heads · d_head)
        each = out.unflatten(1, (values.shape[0], -1))  # (d_model, heads, d_head)
        return torch.einsum("hkd,mhd->hkm", values, each)

    @torch.no_grad()
    def _says(self, variants: int) -> Tensor:
        caches = [KVCache() for _ in self._past]
        for cache, past in zip(caches, self._past, strict=True):
            cache.append(*(t.expand(variants, -1, -1, -1) for t in past))
        logits = self.model(self.tokens[-1:].expand(variants, 1), caches=caches)[:, -1]
        return logits.double().log_softmax(-1)

    def off(self, layer: int, head: int, instead: Tensor | float) -> float:
        """What it does to what is said when a head gives something else: KL in nats.

        Args:
            instead: (d_head,), what `usual` says; or 0.0.
        """
        with replaced_heads(self.model, {(self.names[layer], head): instead}):
            return self._beside(self._says(1))[0].item()

    def fetching(self, heads: dict[tuple[int, int], Tensor]) -> tuple[Tensor, Tensor]:
        """What other weights in some heads do to what is said.

        Args:
            heads: (layer, head) -> weights of the last query, (variants, keys).

        Returns:
            (variants,) each: the KL divergence in nats of what is said then from what is said now,
            and whether the likeliest token is still the same.
        """
        named = {(self.names[i], head): rows[:, None] for (i, head), rows in heads.items()}
        variants = len(next(iter(heads.values())))
        with replaced_weights(self.model, named):
            return self._beside(self._says(variants))

    def _beside(self, other: Tensor) -> tuple[Tensor, Tensor]:
        kl = (self.says.exp() * (self.says - other)).sum(-1).clamp(min=0)
        return kl, other.argmax(-1) == self.says.argmax(-1)


@torch.no_grad()
def usual(model: LanguageModel, texts: Tensor) -> Tensor:
    """What every head gives at the last token, the mean over texts: (layers, heads, d_head)."""
    with head_outputs(model) as kept:
        model(texts)
    return torch.stack([heads[:, :, -1].mean(0) for heads in kept.values()])


def without_each_key(weights: Tensor) -> Tensor:
    """Weights (…, keys) with one key forbidden, each in turn, the others as large as before.

    (…, keys, keys): row i is without key i, and sums to 1 again.
    """
    n = weights.shape[-1]
    rows = weights[..., None, :].masked_fill(torch.eye(n, dtype=torch.bool), 0.0)
    return rows / rows.sum(-1, keepdim=True).clamp(min=1e-12)


def effects(text: LastToken) -> dict[str, Tensor]:
    """What it does to what is said when a key is forbidden: KL in nats.

    Returns:
        "head", in one head alone: (layers, heads, keys); "layer", in all of a layer: (layers, keys)
    """
    layers, heads, _ = text.weights.shape
    rows = without_each_key(text.weights)
    one = [[text.fetching({(i, h): rows[i, h]})[0] for h in range(heads)] for i in range(layers)]
    every = [text.fetching({(i, h): rows[i, h] for h in range(heads)})[0] for i in range(layers)]
    return {"head": torch.stack([torch.stack(row) for row in one]), "layer": torch.stack(every)}


@torch.no_grad()
def importance(
    model: LanguageModel, tokens: Tensor, generator: torch.Generator, *, draws: int = 2
) -> Tensor:
    """What it does to what is said when a character of the text is another: mean KL, (tokens,)."""
    n, vocabulary = len(tokens), model.config.vocabulary
    other = torch.randint(1, vocabulary, (draws, n), generator=generator)
    texts = tokens.expand(draws, n, n).clone()
    texts.diagonal(dim1=1, dim2=2).add_(other).remainder_(vocabulary)
    says = model(tokens[None])[0, -1].double().log_softmax(-1)
    then = model(texts.flatten(0, 1))[:, -1].double().log_softmax(-1)
    return (says.exp() * (says - then)).sum(-1).view(draws, n).mean(0)


def others(weights: Tensor, generator: torch.Generator, *, shuffled: int = 15) -> Tensor:
    """Other weights for one query, (1 + shuffled + keys, keys).

    Even ones; its own in other orders; all weight on one key, each in turn.
    """
    n = len(weights)
    orders = torch.rand(shuffled, n, generator=generator).argsort(1)
    return torch.cat([torch.full((1, n), 1 / n), weights[orders], torch.eye(n)])


def apart(weights: Tensor, rows: Tensor) -> Tensor:
    """Total variation distance: the share of the weight that lies on other keys."""
    return (weights - rows).abs().sum(-1) / 2


def reweighted(text: LastToken, means: Tensor, generator: torch.Generator) -> list[dict]:
    """Of every head: how far its weights can be changed with nothing else said.

    Args:
        means: what `usual` says of the model.

    Returns:
        for each: layer, head; "off", the KL when it gives its mean; "even" and "shuffled", the KL
        with such weights (the mean over the shuffled); "farthest", the greatest distance of any
        other weights tried that change at most `LITTLE` nats and leave the likeliest token.
    """
    found = []
    layers, heads, _ = text.weights.shape
    for layer, head in ((i, h) for i in range(layers) for h in range(heads)):
        own = text.weights[layer, head]
        rows = others(own, generator)
        distance = apart(own, rows)
        kl, same = text.fetching({(layer, head): rows})
        unheard = distance[(kl <= LITTLE) & same]
        shuffled = slice(1, len(rows) - len(own))
        found.append(
            {
                "layer": layer,
                "head": head,
                "off": text.off(layer, head, means[layer, head]),
                "even": kl[0].item(),
                "shuffled": kl[shuffled].mean().item(),
                "farthest": unheard.max().item() if len(unheard) else 0.0,
            }
        )
    return found


def ranks(values: Tensor) -> Tensor:
    """The place of each number among those of its row, equal ones at the mean of their places."""
    below = (values[..., :, None] > values[..., None, :]).sum(-1)
    equal = (values[..., :, None] == values[..., None, :]).sum(-1)  # itself too
    return below + (equal + 1) / 2


def rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Spearman's, of rows (…, n): 1 where both put all in one order, 0 where neither tells."""
    a, b = (ranks(x) - (x.shape[-1] + 1) / 2 for x in (a, b))
    sizes = a.norm(dim=-1) * b.norm(dim=-1)
    return torch.where(sizes > 0, (a * b).sum(-1) / sizes.clamp(min=1e-9), 0.0)


# --- the study -------------------------------------------------------------------------------


@functools.cache
def shipped():
    """The model that comes with the course, its text, its file's note."""
    return manual.load()


def make(arm: str, seed: int) -> LanguageModel:
    """The trained model, or one of its sizes with first weights."""
    trained, _, _ = shipped()
    if arm == TRAINED:
        return trained
    torch.manual_seed(seed)
    return LanguageModel(trained.config).small_embeddings().eval()


def windows(seed: int, count: int) -> Tensor:
    """Windows of held-out text, each with the character behind it: (count, TOKENS + 1).

    Two seeds share no window, unless they differ by a multiple of `APART`.
    """
    _, text, _ = shipped()
    ids = text._part("held out", TOKENS)
    starts = TOKENS * (seed % APART + APART * torch.arange(count))
    return ids[starts[:, None] + torch.arange(TOKENS + 1)]


def look(model: LanguageModel, window: Tensor, means: Tensor, generator: torch.Generator) -> dict:
    """All that is measured on one window: tensors (layers, heads, …) and the rows of `reweighted`.

    Three guesses at what a key matters to a head: its weight; that times the size of what the key
    brings; that times how far what it brings lies from what the head gives in all.
    """
    text = LastToken(model, window[:-1])
    gives = (text.weights[..., None] * text.brings).sum(-2, keepdim=True)
    effect = effects(text)
    return {
        "weight": text.weights,
        "size": text.brings.norm(dim=-1),
        "distance": (text.brings - gives).norm(dim=-1),
        "effect": effect["head"],
        "layer effect": effect["layer"],
        "importance": importance(model, window[:-1], generator),
        "loss": -text.says[0, window[-1]],
        "changed": reweighted(text, means, generator),
    }


def rounded(values: Tensor) -> list:
    """The mean over windows, for a record."""
    return [
        [round(x, 4) for x in row] if isinstance(row, list) else round(row, 4)
        for row in values.double().mean(0).tolist()
    ]


def agreement(seen: dict[str, Tensor]) -> dict[str, dict]:
    """Rank correlations over the keys of the last query: of every head, of every layer's mean.

    "elsewhere": with the weights that the same heads have in another window. "position": of the
    characters' mere places, later ones first, with what they matter.
    """
    weight, effect = seen["weight"], seen["effect"]  # (windows, layers, heads, keys)
    matters = seen["importance"][:, None]  # (windows, 1, keys)
    places = torch.arange(matters.shape[-1]).expand_as(matters)
    layer = weight.mean(2)
    top = weight.argmax(-1) == effect.argmax(-1)
    heads = {
        "weight": rank_correlation(weight, effect),
        "weight × size": rank_correlation(weight * seen["size"], effect),
        "weight × distance": rank_correlation(weight * seen["distance"], effect),
        "weight elsewhere": rank_correlation(weight.roll(1, 0), effect),
        "greatest weight, greatest effect": top,
        "importance": rank_correlation(weight, matters[:, None].expand_as(weight)),
    }
    layers = {
        "effect": rank_correlation(layer, seen["layer effect"]),
        "importance": rank_correlation(layer, matters.expand_as(layer)),
        "importance, elsewhere": rank_correlation(layer.roll(1, 0), matters.expand_as(layer)),
    }
    return {
        "heads": {name: rounded(values) for name, values in heads.items()},
        "layers": {name: rounded(values) for name, values in layers.items()},
        "position": round(rank_correlation(places, matters).mean().item(), 4),
    }


def unheard(cases: list[dict]) -> dict:
    """How many heads' weights can be moved by `FAR` with at most `LITTLE` nats of change.

    Of those whose say is "little", up to `LITTLE` nats when they give their mean; "some", up to
    `MUCH`; and "much", above.
    """
    found = {}
    for name, low, high in GROUPS:
        of = [case for case in cases if low < case["off"] <= high]
        found[name] = {"cases": len(of), "moved": sum(case["farthest"] >= FAR for case in of)}
    return found


def nats(changed: list[list[dict]], layers: int) -> dict[str, list]:
    """The mean KL of each change of a head: layers of heads."""
    kl = {
        "off": [[case["off"] for case in cases] for cases in changed],
        "even": [[case["even"] for case in cases] for cases in changed],
        "shuffled": [[case["shuffled"] for case in cases] for cases in changed],
    }
    return {
        kind: rounded(torch.tensor(rows).unflatten(1, (layers, -1))) for kind, rows in kl.items()
    }


def one(arm, *, rate=None, seed, steps, watch=None) -> dict:
    """Measure on `steps` windows; nothing is trained, so there is no rate.

    The curve has a point a window: what forbidding the keys does, summed, the mean over heads.
    """
    began = time.monotonic()
    model, generator = make(arm, seed), torch.Generator().manual_seed(seed)
    found, curve = [], []
    texts = windows(seed, steps)
    means = usual(model, texts[:, :-1])
    for window in texts:
        found.append(look(model, window, means, generator))
        curve.append(found[-1]["effect"].sum(-1).mean().item())
        if watch is not None:
            watch(curve)
    changed = [each.pop("changed") for each in found]
    seen = {name: torch.stack([each[name] for each in found]) for name in found[0]}
    sizes = seen["size"]
    return {
        "loss": round(seen["loss"].mean().item(), 4),
        **agreement(seen),
        "unheard": unheard([case for cases in changed for case in cases]),
        "nats": nats(changed, sizes.shape[1]),
        "first token": {
            "weight": rounded(seen["weight"][..., 0]),
            "size": rounded(sizes[..., 0] / sizes[..., 1:].mean(-1)),
        },
        "seconds": round(time.monotonic() - began, 1),
        "curve": thinned(curve),
    }


def run(*, arms, seeds, steps, pilot_seeds=(), say=lambda words: None, watch=None) -> dict:
    """Both models, on the same windows; the untrained one with other weights for every seed.

    Nothing is chosen on the windows of the pilot seeds: they are those that were looked at before.
    """
    runs = []
    for arm in arms:
        for seed in seeds:
            found = one(arm, seed=seed, steps=steps, watch=watch)
            runs.append({"arm": arm, "rate": None, "seed": seed, **found})
            say(f"{arm}, windows {seed}: {found['loss']:.3f} nats")
    _, _, about = shipped()
    return {"runs": runs, "the model": {"held out": about["held out"]}}


# --- what is decided -------------------------------------------------------------------------


def flat(rows: list[list[float]]) -> list[float]:
    """All heads of all layers in one row."""
    return [value for row in rows for value in row]


def over_heads(results, arm: str, name: str) -> list[float]:
    """The mean over heads of a rank correlation, of every set of windows."""
    every = [flat(found[name]) for found in losses(results, arm, key="heads")]
    return [sum(row) / len(row) for row in every]


def gains(results, arm: str = TRAINED) -> list:
    """Of every layer, what its own weights tell of importance more than another window's do."""
    runs = losses(results, arm, key="layers")
    names = ("importance", "importance, elsewhere")
    layers = range(len(runs[0]["importance"]))
    return [paired(*([run[name][i] for run in runs] for name in names)) for i in layers]


def found_unheard(results, group: str, arm: str = TRAINED) -> list[float]:
    """The share of cases with other weights that say the same, of every set that has a case."""
    runs = [run[group] for run in losses(results, arm, key="unheard")]
    return [run["moved"] / run["cases"] for run in runs if run["cases"]]


def told(results, group: str, arm: str) -> str:
    """The share of cases with other weights that say the same, of all sets together, in words."""
    runs = [run[group] for run in losses(results, arm, key="unheard")]
    cases, moved = (sum(run[kind] for run in runs) for kind in ("cases", "moved"))
    return f"{moved / cases:.0%} of {cases}" if cases else "no case"


def _not_explanation(results):
    found = gains(results)
    tell = [run["importance"] for run in losses(results, TRAINED, key="layers")]
    mean = [sum(column) / len(column) for column in zip(*tell, strict=True)]
    said = (
        f"rank correlation of a layer's weights with what characters matter "
        f"{', '.join(f'{m:.2f}' for m in mean)}, over another text's weights "
        f"{', '.join(map(str, found))}; other weights that say the same in "
        f"{told(results, 'some', TRAINED)} cases where a head has some say, in "
        f"{told(results, 'much', TRAINED)} where much"
    )
    silent = _either(all(g.high < GAIN for g in found), any(g.low >= GAIN for g in found))
    free = [_at_least_half(found_unheard(results, group)) for group in ("some", "much")]
    if silent == free[0] == HOLDS:
        if free[1] == HOLDS:
            return Judged(said, HOLDS)
        return Judged(said, ONLY_IF, "the head has no great say in what comes next")
    none = silent == NOT_HERE and free == [NOT_HERE, NOT_HERE]
    return Judged(said, NOT_HERE if none else CANNOT_TELL)


def _at_least_half(shares):
    return lower(paired([0.5] * len(shares), shares)) if len(shares) > 1 else CANNOT_TELL


def _either(yes: bool, no: bool) -> str:
    return HOLDS if yes else NOT_HERE if no else CANNOT_TELL


def _tells_what_is_fetched(results):
    own = [min(flat(run["weight"])) for run in losses(results, TRAINED, key="heads")]
    mean, _ = mean_and_spread(over_heads(results, TRAINED, "weight"))
    gap = paired(*(over_heads(results, TRAINED, n) for n in ("weight elsewhere", "weight")))
    untrained, _ = mean_and_spread(over_heads(results, UNTRAINED, "weight"))
    said = (
        f"rank correlation {mean:.2f}, in no head below {min(own):.2f}; another window's weights "
        f"{gap} beside it; untrained {untrained:.2f}"
    )
    if min(own) >= 0.7:
        return Judged(said, lower(gap, 0.2))
    return Judged(said, NOT_HERE if mean < 0.7 else CANNOT_TELL)


def _tells_more(better: str, than: str):
    def judge(results):
        gap, untrained = (
            paired(over_heads(results, arm, than), over_heads(results, arm, better)) for arm in ARMS
        )
        means = [mean_and_spread(over_heads(results, TRAINED, n))[0] for n in (than, better)]
        said = f"{means[0]:.3f} against {means[1]:.3f}: {gap}; untrained {untrained}"
        return Judged(said, lower(gap, 0.01))

    return judge


def _sink(results):
    runs = losses(results, TRAINED, key="first token")
    most = [max(flat(run["weight"])) for run in runs]
    quiet = [
        any(w >= 0.3 and s <= 0.5 for w, s in zip(flat(r["weight"]), flat(r["size"]), strict=True))
        for r in runs
    ]
    said = (
        f"the head with the most puts {min(most):.3f} to {max(most):.3f} of its weight there; "
        f"evenly it would be {1 / TOKENS:.3f}"
    )
    return Judged(said, _either(all(quiet), max(most) < 0.1))


CLAIMS = (
    Claim(
        "attention-is-not-explanation",
        "Our findings show that standard attention modules do not provide meaningful explanations "
        "and should not be treated as though they do.",
        "Two of the paper's tests, on one small model; what people find meaningful is not decided. "
        "Agreement: no layer's mean weights surely tell which characters matter, when each is "
        f"replaced, by a rank correlation higher by {GAIN} than the weights of another text do. "
        "Other weights: in surely half of the cases or more there are weights at a distance of "
        f"{FAR} or more that change at most {LITTLE} nats, less than a hundredth of the model's "
        "loss, and leave the likeliest character; asked where a head has some say (with its mean "
        f"in its place, what is said moves by {LITTLE} to {MUCH} nats) and where it has much. "
        "Holds if all come out so; holds only if … where much say is the exception; does not if "
        "none does.",
        _not_explanation,
        source="Jain and Wallace, Attention is not Explanation, 2019, abstract",
        link="https://arxiv.org/abs/1902.10186",
    ),
    Claim(
        "weight-tells-what-is-fetched",
        "Inside one head the weights do tell what it fetches: the greater a key's weight, the more "
        "changes when that key is forbidden to this head.",
        "Holds if the mean rank correlation of weight and effect over the keys is at least 0.7 in "
        "every head, on every set of windows, and the weights of another window reach less than "
        "that by 0.2, by the paired interval; does not if the mean over heads is below 0.7.",
        _tells_what_is_fetched,
    ),
    Claim(
        "weight-times-size-tells-more",
        "Weight times the size of what a key brings tells more about the key's effect than the "
        "weight alone.",
        "Holds if the mean rank correlation with the effect is surely higher by more than 0.01, "
        "over sets of windows; does not if it is surely no more than 0.01 higher.",
        _tells_more("weight × size", "weight"),
    ),
    Claim(
        "weight-times-distance-tells-more",
        "What counts is not how large a key's contribution is, but how far it lies from what the "
        "head gives in all.",
        "Weight × distance beside weight × size, decided as the claim before.",
        _tells_more("weight × distance", "weight × size"),
    ),
    Claim(
        "first-token-is-a-sink",
        "Some heads of a trained language model use the first token as a sink: much weight lies on "
        "it, and it brings little.",
        "Holds if on every set of windows a head has a mean weight of at least 0.3 on the first "
        "token, whose contribution is at most half as large as the others'; does not if no head "
        "puts a tenth of its weight there.",
        _sink,
    ),
)

if __name__ == "__main__":
    main("explanation", run, SETTINGS, CLAIMS)
