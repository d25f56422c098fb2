"""F2 and F6: twenty facts in one MLP. Units that die, that speak, that are edited, that are missed.

Lesson 05. A question is the sum of two words' vectors; the MLP's output is added to it; the word
whose vector has the greatest dot product with the sum is the answer.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
from tfcourse.experiments import main
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses, study
from tfcourse.feed_forward import ACTIVATIONS, FeedForward
from tfcourse.training import fit

COUNTRIES = {  # capital and money
    "France": ("Paris", "euro"),
    "Italy": ("Rome", "euro"),
    "Spain": ("Madrid", "euro"),
    "Japan": ("Tokyo", "yen"),
    "Egypt": ("Cairo", "pound"),
    "Peru": ("Lima", "sol"),
    "Kenya": ("Nairobi", "shilling"),
    "Norway": ("Oslo", "krone"),
    "Greece": ("Athens", "euro"),
    "Cuba": ("Havana", "peso"),
}
FACTS = [(country, "capital", capital) for country, (capital, _) in COUNTRIES.items()]
FACTS += [(country, "money", money) for country, (_, money) in COUNTRIES.items()]
WORDS = sorted({word for fact in FACTS for word in fact})
ASKED = torch.tensor([[WORDS.index(country), WORDS.index(what)] for country, what, _ in FACTS])
ANSWERS = torch.tensor([WORDS.index(answer) for *_, answer in FACTS])
D_MODEL, UNITS = 32, 64

CHEAP, EXPENSIVE = 0.03, 3.0  # what the mean of all that fires costs, beside the cross-entropy
KEPT = {
    "learned words, firing is cheap": {"price": CHEAP},
    "learned words, firing is expensive": {"price": EXPENSIVE},
    "frozen words, firing is cheap": {"price": CHEAP, "frozen": True},
    "frozen words, firing is expensive": {"price": EXPENSIVE, "frozen": True},
}
DYING = {
    "ReLU": {},
    "ReLU, frozen words": {"frozen": True},
    "GELU": {"activation": "gelu"},
}
ARMS = KEPT | DYING
SETTINGS = {
    "arms": list(ARMS),
    "rates": [0.01, 0.3],  # a good one; and for the dying units one that is much too high
    "pilot_seeds": [],
    "seeds": [0, 1, 2, 3, 4, 5, 6, 7],
    "steps": 1000,
}


class Facts(nn.Module):
    """A country and what is asked of it -> a score (logit) for every word."""

    def __init__(self, activation: str = "relu", *, frozen: bool = False):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), D_MODEL)
        nn.init.normal_(self.words.weight, std=D_MODEL**-0.5)
        self.words.weight.requires_grad_(not frozen)
        self.mlp = FeedForward(D_MODEL, UNITS, activation=activation)

    def question(self, asked: Tensor) -> Tensor:
        """What the MLP sees: (questions, d_model)."""
        return self.words(asked).sum(dim=1)

    def hidden(self, asked: Tensor) -> Tensor:
        """How strongly each unit fires: (questions, units)."""
        return ACTIVATIONS[self.mlp.activation](self.mlp.up(self.question(asked)))

    def read(self, x: Tensor) -> Tensor:
        """Logits: the dot product with every word's vector."""
        return x @ self.words.weight.T

    def forward(self, asked: Tensor) -> Tensor:
        return self.read(self.question(asked) + self.mlp.down(self.hidden(asked)))


def train(arm, *, rate, seed, steps, watch=None) -> tuple[Facts, list[float]]:
    """A network that has learned the twenty facts, and the loss of every step."""
    options = {"price": 0.0, "frozen": False, "activation": "relu"} | ARMS[arm]
    torch.manual_seed(seed)
    model = Facts(options["activation"], frozen=options["frozen"])

    def loss():
        hidden = model.hidden(ASKED)
        logits = model.read(model.question(ASKED) + model.mlp.down(hidden))
        return F.cross_entropy(logits, ANSWERS) + options["price"] * hidden.mean()

    return model, fit(model, loss, steps=steps, learning_rate=rate, watch=watch)


def margins(logits: Tensor) -> Tensor:
    """By how much each right answer leads the best wrong one; below 0 the answer is wrong."""
    right = logits.gather(1, ANSWERS[:, None])
    wrong = logits.scatter(1, ANSWERS[:, None], -torch.inf)
    return right[:, 0] - wrong.amax(dim=1)


@torch.no_grad()
def speaking(model: Facts) -> list[tuple[int, int]]:
    """Units that fire for one question alone and whose value points to its answer, with it."""
    hidden = model.hidden(ASKED)
    points_to = model.read(model.mlp.down.weight.T).argmax(dim=-1)
    found = []
    for unit in ((hidden > 0).sum(dim=0) == 1).nonzero().flatten().tolist():
        question = hidden[:, unit].argmax().item()
        if points_to[unit] == ANSWERS[question]:
            found.append((unit, question))
    return found


@torch.no_grad()
def without(model: Facts, units: list[int]) -> Tensor:
    """The margins where these units are kept from firing."""
    hidden = model.hidden(ASKED)
    hidden[:, units] = 0.0
    return margins(model.read(model.question(ASKED) + model.mlp.down(hidden)))


@torch.no_grad()
def edit(model: Facts, unit: int, question: int, told: str) -> list[tuple[int, str, str]]:
    """Push one unit's value until `told` answers the question, leading by 1; what changes.

    Returns:
        question, answer before and answer now, for each question whose answer changes.
    """
    edited, table = copy.deepcopy(model), model.words.weight
    before, new = model(ASKED), WORDS.index(told)
    old = before[question].argmax()
    toward = table[new] - table[old]
    lacking = before[question, old] - before[question, new] + 1.0
    push = lacking / (toward @ toward)  # toward · toward: what a step of length 1 gains
    edited.mlp.down.weight[:, unit] += push * toward / model.hidden(ASKED)[question, unit]
    pairs = zip(before.argmax(-1).tolist(), edited(ASKED).argmax(-1).tolist(), strict=True)
    return [(i, WORDS[a], WORDS[b]) for i, (a, b) in enumerate(pairs) if a != b]


@torch.no_grad()
def awakened(model: Facts, unit: int, question: int) -> Facts:
    """A copy in which `unit`, and its new key, fires for this question alone; its value is 0."""
    known = ASKED.unique()  # the words that questions are made of
    wanted = torch.isin(known, ASKED[question]).float()
    key = torch.linalg.lstsq(model.words.weight[known], wanted[:, None]).solution[:, 0]
    copied = copy.deepcopy(model)
    copied.mlp.up.weight[unit] = key  # 2 for both words of the question, at most 1 for others
    copied.mlp.up.bias[unit] = -1.5
    copied.mlp.down.weight[:, unit] = 0.0
    return copied


def one(arm, *, rate, seed, steps, watch=None) -> dict:
    """Train once; then remove units, edit them, or count the dead ones."""
    if arm in DYING:
        return _dying(arm, rate, seed, steps, watch)
    model, curve = train(arm, rate=rate, seed=seed, steps=steps, watch=watch)
    found = {"loss": curve[-1], "curve": thinned(curve)}
    return found | _kept(model, seed)


@torch.no_grad()
def _kept(model, seed) -> dict:
    told = "Oslo"
    hidden, whole = model.hidden(ASKED), without(model, [])
    fires = (hidden > 0).sum(dim=0)
    active, silent = fires.nonzero().flatten(), (fires == 0).nonzero().flatten()
    speakers = speaking(model)
    alone = [without(model, [unit])[question].item() for unit, question in speakers]
    generator = torch.Generator().manual_seed(seed)
    mute = active[~torch.isin(active, torch.tensor([unit for unit, _ in speakers]))]
    count = min(len(mute), len(speakers))
    draws = [torch.randperm(len(mute), generator=generator)[:count] for _ in range(20)]
    others = [_right(without(model, mute[draw].tolist())) for draw in draws]
    edits = [
        len(edit(model, unit, question, told)) == 1
        for unit, question in speakers
        if FACTS[question][2] != told
    ]
    asleep = []
    if len(silent):
        unit = silent[0].item()
        asleep = [
            len(edit(awakened(model, unit, question), unit, question, told)) == 1
            for question, fact in enumerate(FACTS)
            if fact[2] != told
        ]
    return {
        "right": _right(whole),
        "right without the MLP": _right(margins(model.read(model.question(ASKED)))),
        "active units": len(active),
        "speaking units": len(speakers),
        "answers lost": sum(margin < 0 for margin in alone),
        "margin lost": [
            round(1 - margin / whole[question].item(), 4)
            for margin, (_, question) in zip(alone, speakers, strict=True)
        ],
        "right without the speaking": _right(without(model, [unit for unit, _ in speakers])),
        "others removed": count,
        "right without the others": sum(others) / len(others),
        "edits": len(edits),
        "edits that change one answer": sum(edits),
        "edits of a silent unit": len(asleep),
        "edits of a silent unit that change one answer": sum(asleep),
    }


def _right(margin: Tensor) -> float:
    return round((margin > 0).float().mean().item(), 4)


def dead(model: Facts) -> Tensor:
    """Which units have a slope below 0.001 for every question: (units,), boolean."""
    before = model.mlp.up(model.question(ASKED)).detach().requires_grad_()
    with torch.enable_grad():
        fired = ACTIVATIONS[model.mlp.activation](before).sum()
    return torch.autograd.grad(fired, before)[0].abs().amax(dim=0) < 1e-3


def _dying(arm, rate, seed, steps, watch) -> dict:
    options = {"activation": "relu", "frozen": False} | ARMS[arm]
    torch.manual_seed(seed)
    model = Facts(options["activation"], frozen=options["frozen"])
    first = dead(model)
    ever, back = first.clone(), torch.zeros_like(first)

    def look(losses):
        nonlocal ever, back
        if watch is not None:
            watch(losses)
        if len(losses) % 5 == 0:
            now = dead(model)
            back, ever = back | (ever & ~now), ever | now

    def loss():
        return F.cross_entropy(model(ASKED), ANSWERS)

    curve = fit(model, loss, steps=steps, learning_rate=rate, watch=look)
    last = dead(model)
    return {
        "loss": curve[-1],
        "curve": thinned(curve),
        "right": _right(margins(model(ASKED).detach())),
        "dead at the start": first.float().mean().item(),
        "dead at some time": int((ever | last).sum()),
        "came back": int((back | (ever & ~last)).sum()),
        "dead at the end": last.float().mean().item(),
    }


def run(*, arms, rates, seeds, steps, pilot_seeds=(), say=lambda words: None, watch=None) -> dict:
    """Every arm on every seed: those of KEPT at the first rate, those of DYING at every one."""
    runs = []
    for arm in arms:
        these = rates if arm in DYING else rates[:1]
        runs += study(
            one, [arm], rates=these, seeds=seeds, steps=steps, say=say, watch=watch
        )["runs"]  # fmt: skip
    return {"runs": runs}


def share_lost(results: dict, arm: str) -> list[float]:
    """For each seed with speaking units: the share whose removal alone loses their answer."""
    pairs = zip(losses(results, arm, key="answers lost"), speakers(results, arm), strict=True)
    return [lost / units for lost, units in pairs if units]


def speakers(results: dict, arm: str) -> list[int]:
    """How many speaking units each seed has."""
    return losses(results, arm, key="speaking units")


def share_back(results: dict, arm: str) -> list[float]:
    """For each seed with dead units, at the good rate: the share that fired again later."""
    rate = min(run["rate"] for run in results["runs"])
    ever = losses(results, arm, rate, key="dead at some time")
    back = losses(results, arm, rate, key="came back")
    return [b / e for b, e in zip(back, ever, strict=True) if e]


def above(values, level: float) -> str:
    """Verdict on "the mean over the seeds is above `level`", from its 95% interval."""
    return lower(paired([level] * len(values), values))


def _percent(values) -> str:
    gap = paired(values, [0.0] * len(values))
    return f"{gap.mean:.0%} [{gap.low:.0%}, {gap.high:.0%}]"


def _needed(results):
    shares = {arm: share_lost(results, arm) for arm in KEPT}
    verdicts = {arm: above(s, 0.5) for arm, s in shares.items() if len(s) >= 3}
    said = "; ".join(f"{arm}: {_percent(shares[arm])}" for arm in verdicts)
    needed = [arm for arm, verdict in verdicts.items() if verdict == HOLDS]
    if not verdicts or CANNOT_TELL in verdicts.values():
        return Judged(said or "no unit speaks", CANNOT_TELL)
    if needed and len(needed) < len(verdicts):
        where = [arm.replace(", firing is", " and firing that is") for arm in needed]
        return Judged(said, ONLY_IF, f"the network has {' or '.join(where)}")
    return Judged(said, HOLDS if needed else NOT_HERE)


def _more_than_others(results):
    arm = "learned words, firing is cheap"
    gap = paired(
        losses(results, arm, key="right without the speaking"),
        losses(results, arm, key="right without the others"),
    )
    said = f"right without the speaking − right without as many others that fire: {gap}"
    return Judged(said, lower(gap, by=0.1))


def _one_answer(results):
    made, changed = (
        sum(sum(losses(results, arm, key=key)) for arm in KEPT)
        for key in ("edits", "edits that change one answer")
    )
    said = f"{changed} of {made} edits, each in a unit that fires for this question alone"
    if changed >= 0.99 * made > 0:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if changed < 0.5 * made else CANNOT_TELL)


def _edits_anywhere(results):
    edits = "edits of a silent unit"
    shares = []
    for arm in KEPT:
        made = sum(losses(results, arm, key=edits))
        changed = sum(losses(results, arm, key=f"{edits} that change one answer"))
        shares.append((changed, made))
    tried = [(changed, made) for changed, made in shares if made]
    said = ", ".join(f"{changed} of {made}" for changed, made in shares)
    if not tried:
        return Judged("no unit is silent", CANNOT_TELL)
    if all(changed >= 0.9 * made for changed, made in tried):
        return Judged(said, HOLDS)
    none = all(changed < 0.5 * made for changed, made in tried)
    return Judged(said, NOT_HERE if none else CANNOT_TELL)


def _expresses(results):
    verdicts, said = [], []
    for arm in KEPT:
        lost = [sum(x) / len(x) for x in losses(results, arm, key="margin lost") if x]
        if len(lost) >= 3:
            verdicts.append(above(lost, 0.0))
            said.append(f"{arm}: {_percent(lost)} of the lead lost")
    if not verdicts:
        return Judged("no unit speaks", CANNOT_TELL)
    alike = set(verdicts)
    return Judged("; ".join(said), alike.pop() if len(alike) == 1 else CANNOT_TELL)


def _stays_dead(results):
    learned, frozen = (share_back(results, arm) for arm in ("ReLU", "ReLU, frozen words"))
    said = f"fire again: {_percent(learned)}; with frozen words {_percent(frozen)}"
    verdicts = [lower(paired(share, [0.2] * len(share))) for share in (learned, frozen)]
    if verdicts == [NOT_HERE, HOLDS]:
        return Judged(said, ONLY_IF, "what comes in does not change (frozen words)")
    return Judged(said, verdicts[0] if verdicts[0] == verdicts[1] else CANNOT_TELL)


def _dead_at(results, arm, rate):
    return losses(results, arm, rate, key="dead at the end")


def _rates(results):
    rates = {run["rate"] for run in results["runs"]}
    return min(rates), max(rates)


def _forty_percent(results):
    good, high = (_dead_at(results, "ReLU", rate) for rate in _rates(results))
    said = f"rate too high: {_percent(high)}; good rate: {_percent(good)}"
    return Judged(said, above(high, 0.4))


def _gelu_lives(results):
    good, high = (_dead_at(results, "GELU", rate) for rate in _rates(results))
    said = f"good rate: {_percent(good)} dead; rate too high: {_percent(high)}"
    verdicts = [lower(paired(share, [0.05] * len(share))) for share in (good, high)]
    if verdicts == [HOLDS, NOT_HERE]:
        return Judged(said, ONLY_IF, "the learning rate is a good one")
    return Judged(said, verdicts[0] if verdicts[0] == verdicts[1] else CANNOT_TELL)


_CS231N = {
    "source": "CS231n, Neural Networks Part 1",
    "link": "https://cs231n.github.io/neural-networks-1/",
}
_INTERVAL = "the 95% interval over the seeds"
CLAIMS = (
    Claim(
        "one-value-one-answer",
        "One value edited changes one answer, and no other. (In a unit that fires for one question "
        "alone nothing else could happen: this row tests our code, not where a fact is.)",
        "All speaking units of all networks, each edited alone: holds if at least 99 of 100 edits "
        "change that answer and no other, does not hold if fewer than half do.",
        _one_answer,
    ),
    Claim(
        "a-speaking-unit-keeps-its-fact",
        "A unit that fires for one question alone, and points to its answer, is where that answer "
        "is kept.",
        "Each such unit is removed alone, in four kinds of network. What share of the answers is "
        f"lost? Holds if {_INTERVAL} lies above one half in every kind that has such units, does "
        "not hold if it lies below in every kind; above in some and below in the others: holds "
        "only if.",
        _needed,
    ),
    Claim(
        "speaking-units-matter-more",
        "The units that speak for a fact matter more than as many others.",
        "Words learned, firing cheap; all speaking units are removed at once, or as many drawn at "
        f"random from those that fire but do not speak. Holds if {_INTERVAL} of the difference "
        "shows at least two answers of twenty more lost, does not hold if it shows less.",
        _more_than_others,
    ),
    Claim(
        "editing-elsewhere",
        "In this paper, we find that we can change how a fact is stored in a model by editing "
        "weights that are in a different location than where existing methods suggest that the "
        "fact is stored.",
        "Our other location is a unit that never fires. Holds if in each kind of network nine of "
        "ten such edits change that answer and no other, does not hold if it is less than half in "
        "each.",
        _edits_anywhere,
        source="Hase et al., Does Localization Inform Editing?, 2023",
        link="https://arxiv.org/abs/2301.04213",
    ),
    Claim(
        "knowledge-neurons-express",
        "We find that the activation of such knowledge neurons is positively correlated to the "
        "expression of their corresponding facts.",
        "Our neurons are those that speak, and they are switched off. What share of the right "
        f"answer's lead is lost? Holds if {_INTERVAL} lies above 0 in every kind of network that "
        "has such units, does not hold if it lies at or below 0 in every kind.",
        _expresses,
        source="Dai et al., Knowledge Neurons in Pretrained Transformers, 2022",
        link="https://arxiv.org/abs/2104.08696",
    ),
    Claim(
        "dead-for-ever",
        "For example, a large gradient flowing through a ReLU neuron could cause the weights to "
        "update in such a way that the neuron will never activate on any datapoint again. If this "
        "happens, then the gradient flowing through the unit will forever be zero from that point "
        "on.",
        "At a good learning rate, of the units that are dead at some time, what share fires again "
        f"later? Holds if {_INTERVAL} lies below one in five, does not hold if it lies above; "
        "above with learned words and below with frozen ones: holds only if.",
        _stays_dead,
        **_CS231N,
    ),
    Claim(
        "forty-percent-dead",
        "For example, you may find that as much as 40% of your network can be “dead” (i.e. neurons "
        "that never activate across the entire training dataset) if the learning rate is set too "
        "high.",
        f"ReLU, a rate thirty times a good one: holds if {_INTERVAL} of the share of dead units "
        "lies above 40%, does not hold if it lies below.",
        _forty_percent,
        **_CS231N,
    ),
    Claim(
        "gelu-units-do-not-die",
        "GELU units do not die.",
        f"Holds if {_INTERVAL} of the share of dead units lies below 5% (of a fresh ReLU network, "
        "some 6% are dead) at a good rate and at one thirty times as high, does not hold if it "
        "lies above at both; below at the good rate alone: holds only if.",
        _gelu_lives,
    ),
)

if __name__ == "__main__":
    main("facts", run, SETTINGS, CLAIMS)
