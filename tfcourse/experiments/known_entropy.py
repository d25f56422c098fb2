"""M3: a language model learns from a source whose entropy is known (lesson 09).

    python -m tfcourse.experiments.known_entropy

Two controls: the same texts with their symbols in random order, where only the frequencies are left
to learn; and 32 texts read again and again, where the training loss is no honest one.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F

from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, Claim, Judged
from tfcourse.experiments import main, mean_and_spread
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses, study
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.tasks import MarkovText
from tfcourse.training import fit

TOKENS, BATCH, HELD_OUT = 64, 32, 1000
FRESH, SHUFFLED, FEW = "fresh text", "shuffled", "32 texts"
ARMS = (FRESH, SHUFFLED, FEW)
SETTINGS = {
    "arms": list(ARMS),
    "rates": [3e-3, 1e-2, 3e-2],
    "pilot_seeds": [100],
    # The best rate on new text would be one that learns hardly anything by heart: not the question.
    "chosen": {FEW: 3e-3},
    "seeds": [0, 1, 2, 3, 4],
    "steps": 300,
}
SOURCE = MarkovText()


def make() -> LanguageModel:
    """Two blocks, d_model = 64, four heads, rotary."""
    return LanguageModel(TransformerConfig(SOURCE.symbols, 64, 4, 2))


def texts(arm: str, size: int, generator: torch.Generator) -> torch.Tensor:
    """Texts of the source, a symbol longer than what a model reads: (size, TOKENS + 1)."""
    drawn = SOURCE.batch(size, TOKENS + 1, generator)
    if arm != SHUFFLED:
        return drawn
    order = torch.rand(drawn.shape, generator=generator).argsort(dim=1)
    return drawn.gather(1, order)


def scored(logits: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """Cross-entropy in nats, where two symbols stand before: nobody can know the others better."""
    return F.cross_entropy(logits[:, 1:].mT, text[:, 2:], reduction="none")


@torch.no_grad()
def against_the_truth(model: LanguageModel, text: torch.Tensor) -> dict[str, float]:
    """On held-out text: the model's loss, the loss of the source's own distribution, and the KL."""
    truth = SOURCE.log_probabilities(text[:, :-1])  # (size, TOKENS - 1, symbols)
    log_q = torch.log_softmax(model(text[:, :-1])[:, 1:].double(), dim=-1)
    nats = {
        "loss": F.nll_loss(log_q.mT, text[:, 2:]).item(),
        "truth": F.nll_loss(truth.mT, text[:, 2:]).item(),
        "kl": (truth.exp() * (truth - log_q)).sum(-1).mean().item(),
    }
    return {name: round(value, 5) for name, value in nats.items()}


def train(arm: str, *, rate: float, seed: int, steps: int, **options):
    """A model trained once, and the loss of every step; `options` go to `fit`."""
    torch.manual_seed(seed)
    model, generator = make(), torch.Generator().manual_seed(seed)
    few = texts(arm, BATCH, generator) if arm == FEW else None

    def loss():
        text = texts(arm, BATCH, generator) if few is None else few
        return scored(model(text[:, :-1]), text).mean()

    curve = fit(
        model, loss, steps=steps, learning_rate=rate, warm_up=steps // 10, decay=True, clip=1.0,
        **options,
    )  # fmt: skip
    return model, curve


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once; what is held out are texts of 64 symbols that nobody has seen."""
    began = time.monotonic()
    model, curve = train(arm, rate=rate, seed=seed, steps=steps, watch=watch)
    seconds = time.monotonic() - began
    unseen = texts(arm, HELD_OUT, torch.Generator().manual_seed(10_000 + seed))
    return {
        **against_the_truth(model, unseen),
        "training": round(sum(curve[-20:]) / len(curve[-20:]), 5),
        "seconds": round(seconds, 1),
        "curve": thinned(curve),
    }


def frequencies_alone() -> float:
    """The entropy of a symbol of the source where nothing is known of those before it, in nats."""
    return torch.special.entr(SOURCE.pairs.sum(0)).sum().item()


def run(*, arms, say=lambda words: None, watch=None, **settings) -> dict:
    """Every arm at its own learning rate, on the same seeds; and the lines."""
    found = study(one, arms, say=say, watch=watch, **settings)
    return {
        "rate": round(SOURCE.entropy_rate, 5),
        "frequencies": round(frequencies_alone(), 5),
        **found,
    }


# --- what is decided -------------------------------------------------------------------------


def _comes_down(results):
    """The held-out sample has an entropy of its own: so the truth is asked about the same text."""
    above = [
        run["loss"] - run["truth"] for run in results["runs"] if run["arm"] == FRESH
    ]  # fmt: skip
    mean, spread = mean_and_spread(losses(results, FRESH))
    floor = min(losses(results, SHUFFLED)) - results["frequencies"]
    said = (
        f"{mean:.4f} ± {spread:.4f} nats, the rate {results['rate']:.4f}; on the same text at most "
        f"{max(above):.4f} above the source itself; shuffled {floor:+.4f} from its frequencies"
    )
    if max(above) <= 0.03 and abs(floor) <= 0.03:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if sum(above) / len(above) > 0.03 else CANNOT_TELL)


def _never_under(results):
    apart = {
        arm: [run["loss"] - run["truth"] for run in results["runs"] if run["arm"] == arm]
        for arm in (FRESH, FEW)
    }
    seen = max(losses(results, FEW, key="training"))
    said = (
        f"held out at least {min(apart[FRESH]):.4f} above the source's own loss; 32 texts again "
        f"and again: {seen:.2f} in training, {min(apart[FEW]):.2f} above on new text"
    )
    if min(apart[FRESH] + apart[FEW]) < -0.005:
        return Judged(said, NOT_HERE)
    return Judged(said, HOLDS if seen < results["rate"] - 0.05 else CANNOT_TELL)


def _gap_is_kl(results):
    runs = [run for run in results["runs"] if run["arm"] in (FRESH, FEW)]
    off = [abs(run["loss"] - run["truth"] - run["kl"]) for run in runs]
    # relative to the gap: a model that is far off has a sum that scatters more
    share = max(o / max(run["kl"], 0.02) for o, run in zip(off, runs, strict=True))
    kl = losses(results, FRESH, key="kl")
    said = f"KL {min(kl):.4f} to {max(kl):.4f} nats; the gap is off it by at most {max(off):.4f}"
    return Judged(said, HOLDS if share <= 0.2 else NOT_HERE)


CLAIMS = (
    Claim(
        "comes-to-the-line",
        "The held-out loss of a language model comes down to the entropy rate of its source.",
        "Holds if it is at most 0.03 nats above the loss of the source's own distribution on the "
        "same text in every run, and a model of shuffled text comes within 0.03 nats of the "
        "entropy of its frequencies; does not if the mean is farther above.",
        _comes_down,
    ),
    Claim(
        "never-under-the-line",
        "No honest loss lies under the entropy of the source.",
        "Does not hold if a loss on new text lies more than 0.005 nats under that of the source's "
        "own distribution. To be able to tell, a training loss on 32 texts that are read again and "
        "again must lie under the line.",
        _never_under,
    ),
    Claim(
        "gap-is-kl",
        "Cross-entropy = entropy + KL divergence: what a model loses above the line is its KL "
        "divergence from the source.",
        "Holds if, on the same text, loss minus the source's own loss is the mean KL divergence to "
        "a fifth (of at least 0.02 nats) in every run.",
        _gap_is_kl,
    ),
)

if __name__ == "__main__":
    main("known_entropy", run, SETTINGS, CLAIMS)
