"""The judge of the race: is it a fair model of text, and how many bits does it need?"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from tfcourse.models import evaluating
from tfcourse.tasks import CharacterText, python_manual

TOKENS = 128  # the length of the windows that are scored
TOLERANCE = 1e-3  # in nats; rounding is far below, and what looks ahead far above


class OutOfRace(Exception):
    """The sentence that says why an entry is out of the race."""


@functools.cache
def manual() -> CharacterText:
    """Python's manual, the last tenth held out: what the race is about."""
    return CharacterText(python_manual())


def training_part(whole: CharacterText) -> CharacterText:
    """What an entry is given: nothing of the held-out tenth but the list of characters."""
    return CharacterText(whole.decode(whole.ids("train")), vocabulary=whole.vocabulary)


@torch.no_grad()
def judge(model, whole: CharacterText) -> float:
    """Bits per byte of the held-out part, after the model has shown that it is fair.

    Raises:
        OutOfRace: it is no module, gives no such logits, looks ahead, at other texts of the batch,
            or at what it has read before.
    """
    if not isinstance(model, nn.Module):
        raise OutOfRace(f"train must return an nn.Module. Got {_kind(model)}.")
    ids = whole.ids("held out")
    with evaluating(model):
        _check_fair(model, ids, len(whole.vocabulary))
        nats, first = 0.0, None
        inputs, targets = ids[:-1].split(TOKENS), ids[1:].split(TOKENS)
        for rows in range(0, len(inputs), 64):
            # the last window may be shorter: it is scored alone
            for start, stop in _of_one_length(inputs, rows, min(rows + 64, len(inputs))):
                window, truth = (torch.stack(x[start:stop]) for x in (inputs, targets))
                logs = _log_probabilities(model, window, len(whole.vocabulary))
                first = (window, logs) if first is None else first
                nats -= logs.gather(-1, truth[..., None]).double().sum().item()
        if _differ(_log_probabilities(model, first[0], len(whole.vocabulary)), first[1]):
            raise OutOfRace(
                "The model remembers what it has read: the first windows get other logits once all "
                "have been read. Every window must be scored from its own beginning."
            )
    if not nats < float("inf"):
        raise OutOfRace(
            "The model gives no chance at all to a character that comes (a logit of -inf): its "
            "bits are infinite. Leave every character a little."
        )
    return whole.bits_per_byte(nats / (len(ids) - 1))


def _check_fair(model: nn.Module, ids: Tensor, vocabulary: int) -> None:
    """Change a part of the input; nothing that may not know of it may change."""
    for size, tokens in ((1, 1), (3, 40)):  # any batch, any length up to 128
        _log_probabilities(model, ids[: size * tokens].view(size, tokens), vocabulary)
    tokens = min(TOKENS, len(ids) // 4)
    texts = ids[: 4 * tokens].view(4, tokens)
    before = _log_probabilities(model, texts, vocabulary)
    if _differ(before, _log_probabilities(model, texts, vocabulary)):
        raise OutOfRace(
            "The model gives two different answers to the same text. It must be the same every "
            "time it is asked: no chance in evaluation mode, nothing kept from call to call."
        )
    other = (texts + 1) % vocabulary
    for place in sorted({1, 2, tokens // 3, tokens // 2, tokens - 2, tokens - 1}):
        changed = torch.cat([texts[:, :place], other[:, place:]], dim=1)
        after = _log_probabilities(model, changed, vocabulary)
        if _differ(before[:, :place], after[:, :place]):
            raise OutOfRace(
                f"The model looks ahead: with other characters from place {place} on, its logits "
                f"before place {place} change. The logits at a place must depend on that place and "
                "the ones before it alone: is a causal mask missing?"
            )
    for row in range(4):
        changed = other.clone()
        changed[row] = texts[row]
        if _differ(before[row], _log_probabilities(model, changed, vocabulary)[row]):
            raise OutOfRace(
                "The model looks at the other texts of the batch: with other neighbors, the same "
                "text gets other logits. Does it normalize over the batch?"
            )


def _log_probabilities(model: nn.Module, tokens: Tensor, vocabulary: int) -> Tensor:
    """The model's logits, looked over and normalized."""
    logits = model(tokens.clone())
    wanted = (*tokens.shape, vocabulary)
    if not isinstance(logits, Tensor):
        raise OutOfRace(f"The model must give a tensor of logits {wanted}. Got {_kind(logits)}.")
    if tuple(logits.shape) != wanted:
        raise OutOfRace(
            f"The model must give logits (batch, tokens, vocabulary), here {wanted}. "
            f"Got {tuple(logits.shape)}."
        )
    if logits.isnan().any() or logits.isposinf().any():
        raise OutOfRace("The model's logits are not all numbers (NaN or inf): did it diverge?")
    return logits.float().cpu().log_softmax(dim=-1)


def _differ(a: Tensor, b: Tensor) -> bool:
    """Whether two logarithms of probabilities differ; what is all but impossible does not count."""
    return bool((a.clamp(min=-30) - b.clamp(min=-30)).abs().max() > TOLERANCE)


def _of_one_length(windows, start: int, stop: int) -> list[tuple[int, int]]:
    """The same stretch of windows, its last one apart where that is shorter."""
    if stop - start > 1 and len(windows[stop - 1]) < len(windows[start]):
        return [(start, stop - 1), (stop - 1, stop)]
    return [(start, stop)]


def _kind(thing) -> str:
    return f"{thing!r}"[:60] if isinstance(thing, (int, float, str)) else type(thing).__name__
