"""One loop that trains everything in the course."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_number


def fit(
    model: nn.Module,
    loss: Callable[[], Tensor],
    *,
    steps: int,
    learning_rate: float,
    warm_up: int = 0,
    decay: bool = False,
    weight_decay: float = 0.0,
    clip: float | None = None,
    watch: Callable[[list[float]], None] | None = None,
) -> list[float]:
    """Train `model` with AdamW; the loss of every step.

    A step whose loss is not finite ends the run: what has diverged does not come back.

    Args:
        loss: the loss of the next batch, as a tensor that hangs on the model.
        steps: how many.
        learning_rate: reached after `warm_up` steps of a straight rise.
        decay: whether it then falls to zero along a cosine.
        weight_decay: as AdamW has it.
        clip: the greatest norm of all gradients together.
        watch: called with the losses so far, after every step (`figures.LiveCurve`).

    Raises:
        TypeError, ValueError: a setting is of the wrong type or out of range.
    """
    check_count("steps", steps)
    check_count("warm_up", warm_up, least=0)
    check_number("learning_rate", learning_rate, 0.0, math.inf)

    def share(step: int) -> float:  # of the learning rate
        if step < warm_up:
            return (step + 1) / warm_up
        if not decay:
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))

    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    losses: list[float] = []
    model.train()
    for _ in range(steps):
        value = loss()
        losses.append(value.item())
        if watch is not None:
            watch(losses)
        if not math.isfinite(losses[-1]):
            break
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
    model.eval()
    return losses
