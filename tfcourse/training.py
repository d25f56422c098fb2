"""One loop that trains everything in the course, and that can be stopped and gone on with."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from tfcourse import checkpoints
from tfcourse.arguments import check_count, check_flag, check_number

SAVE_EVERY = 20.0  # seconds


@dataclass(frozen=True)
class Recipe:
    """What decides about a run beside the model, the data and the seed; see `fit`."""

    steps: int
    learning_rate: float
    warm_up: int = 0
    decay: bool = False
    weight_decay: float = 0.0
    clip: float | None = None
    accumulate: int = 1
    mixed: bool = False

    def __post_init__(self):
        check_count("steps", self.steps)
        check_count("warm_up", self.warm_up, least=0)
        check_count("accumulate", self.accumulate)
        check_number("learning_rate", self.learning_rate, 0.0, math.inf)
        check_number("weight_decay", self.weight_decay, 0.0, math.inf)
        if self.clip is not None:
            check_number("clip", self.clip, 0.0, math.inf)
        for name in ("decay", "mixed"):
            check_flag(name, getattr(self, name))

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0: a straight rise, then flat or a cosine."""
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        if not self.decay:
            return self.learning_rate
        share = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * share))


def fit(
    model: nn.Module,
    loss: Callable[[], Tensor],
    *,
    checkpoint: str | Path | None = None,
    generator: torch.Generator | None = None,
    progress: str | None = None,
    tokens: int | None = None,
    watch: Callable[[list[float]], None] | None = None,
    **recipe,
) -> list[float]:
    """Train `model` with AdamW; the loss of every step.

    A step whose loss is not finite ends the run: what has diverged does not come back. An interrupt
    (the stop button, Ctrl-C) ends it between two steps: the model holds what it has learned.

    Args:
        model: trained where it is, and left in evaluation mode.
        loss: the loss of the next batch, as a tensor that hangs on the model.
        checkpoint: a file. Where it is there, the run goes on from it; it is written every 20
            seconds, at the end, and when the run is interrupted. On a CPU the run then ends with
            the same numbers as one that was never interrupted.
        generator: the one that `loss` draws its batches from; needed for that.
        progress: words in front of a progress bar; None: no bar.
        tokens: how many a step reads; the bar then says how many a second.
        watch: called with the losses so far, after every step (`figures.LiveCurve`).
        **recipe: steps, how many. learning_rate, reached after warm_up steps of a straight rise.
            decay, whether it then falls to zero along a cosine. weight_decay, as AdamW has it, of
            what has two axes (no biases, no norms). clip, the greatest norm of all gradients
            together. accumulate, how many batches' gradients make a step (the loss of a step is
            their mean). mixed, bfloat16 on a GPU, nothing elsewhere.

    Raises:
        TypeError, ValueError: a setting is of the wrong type or out of range; or the checkpoint is
            of another run. It is then left as it is.
        KeyboardInterrupt: the run was interrupted.
    """
    run = _Run(model, Recipe(**recipe), generator)
    file = None if checkpoint is None else Path(checkpoint)
    if file is not None and file.exists():
        run.restore(file)
    bar = None
    if progress is not None:
        bar = tqdm(total=run.recipe.steps, initial=len(run.losses), desc=progress, leave=False)
    saved = time.monotonic()
    model.train()
    try:
        with _interrupt_between_steps() as interrupted:
            while not run.ended:
                run.step(loss)
                _tell(bar, run.losses, tokens)
                if watch is not None:
                    watch(run.losses)
                if interrupted or (file and time.monotonic() - saved > SAVE_EVERY):
                    _save(run, file)
                    saved = time.monotonic()
                if interrupted:
                    raise KeyboardInterrupt(run.stopped(file))
        if file is not None:
            _save(run, file)
    finally:
        model.eval()
        if bar is not None:
            bar.close()
    return run.losses


def adamw(
    parameters: Iterable[nn.Parameter], learning_rate: float, weight_decay: float
) -> torch.optim.AdamW:
    """AdamW, with weight decay for what has two axes or more: no biases, no norms."""
    parameters = list(parameters)
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], learning_rate)


class _Run:
    """A model, its optimizer and how far they are."""

    def __init__(self, model: nn.Module, recipe: Recipe, generator: torch.Generator | None):
        self.model, self.recipe, self.generator = model, recipe, generator
        self.losses: list[float] = []
        self.optimizer = adamw(model.parameters(), recipe.learning_rate, recipe.weight_decay)

    @property
    def ended(self) -> bool:
        """All steps done, or diverged."""
        diverged = bool(self.losses) and not math.isfinite(self.losses[-1])
        return diverged or len(self.losses) >= self.recipe.steps

    def step(self, loss: Callable[[], Tensor]) -> None:
        """One step of the optimizer; none where the loss is not finite."""
        recipe, parts = self.recipe, []
        device = next(self.model.parameters()).device.type
        self.optimizer.zero_grad(set_to_none=True)
        for _ in range(recipe.accumulate):
            with torch.autocast(device, torch.bfloat16, enabled=recipe.mixed and device == "cuda"):
                value = loss()
            parts.append(value.item())
            if not math.isfinite(parts[-1]):
                break
            (value / recipe.accumulate).backward()
        now = len(self.losses)
        self.losses.append(sum(parts) / len(parts))
        if not math.isfinite(self.losses[-1]):
            return
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate(now)
        self.optimizer.step()

    def stopped(self, file: Path | None) -> str:
        """What is said when it was interrupted."""
        kept = (
            "and is not kept"
            if file is None
            else f"and is kept in {file.name}: run it again to go on"
        )
        return (
            f"Stopped after step {len(self.losses)} of {self.recipe.steps}. The model holds what "
            f"it has learned so far, {kept}."
        )

    def save(self, file: Path) -> None:
        """Weights, optimizer and random numbers: all that the rest of the run depends on."""
        tensors = {f"model.{name}": tensor for name, tensor in self._weights().items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(x) for name, x in state.items()}
        tensors["random"] = torch.get_rng_state()
        if self.generator is not None:
            tensors["random.generator"] = self.generator.get_state()
        checkpoints.write(file, tensors, {"recipe": asdict(self.recipe), "losses": self.losses})

    def restore(self, file: Path) -> None:
        """Go on where `save` was called; all of it, or nothing."""
        tensors, about = checkpoints.read(file)
        if "recipe" not in about:
            raise ValueError(f"{file.name} holds no run but a finished model: choose another name.")
        here = asdict(self.recipe)
        other = {k: v for k, v in about["recipe"].items() if here.get(k) != v}
        if other:
            told = ", ".join(f"{k}={v} there, {here.get(k)} here" for k, v in other.items())
            raise ValueError(
                f"{file.name} is of a run with other settings: {told}. It is left as it is: choose "
                "another name, or move it away."
            )
        model = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        wanted = self._weights()
        checkpoints.check_weights(wanted, model, file.name)
        if ("random.generator" in tensors) != (self.generator is not None):
            raise ValueError(
                f"{file.name} was written with another way to draw batches (generator)."
            )
        state: dict[int, dict] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, i, key = name.split(".")
                state.setdefault(int(i), {})[key] = tensor
        with torch.no_grad():
            for name, tensor in wanted.items():
                tensor.copy_(model[name])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        torch.set_rng_state(tensors["random"])
        if self.generator is not None:
            self.generator.set_state(tensors["random.generator"])
        self.losses = list(about["losses"])

    def _weights(self) -> dict[str, Tensor]:
        """Every memory once: two names of one table are one."""
        seen: set[int] = set()
        kept = {}
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            if id(tensor) not in seen:
                seen.add(id(tensor))
                kept[name] = tensor
        return kept


def _save(run: _Run, file: Path | None) -> None:
    """Save; a full disk does not end a run, it is told."""
    if file is None:
        return
    try:
        run.save(file)
    except OSError as error:
        print(f"The run goes on, but is not kept: {error}")


def _tell(bar: tqdm | None, losses: list[float], tokens: int | None) -> None:
    if bar is None:
        return
    said = {"loss": f"{losses[-1]:.3f}"}
    passed = bar.format_dict["elapsed"]
    if tokens is not None and passed > 0:
        done = bar.n + 1 - bar.initial
        said["tokens/s"] = f"{tokens * done / passed:,.0f}"
    bar.set_postfix(said, refresh=False)
    bar.update()


@contextlib.contextmanager
def _interrupt_between_steps() -> Iterator[list]:
    """What it gives is filled by an interrupt; a second one does not wait."""
    asked: list[bool] = []

    def note(number, frame):
        if asked:
            raise KeyboardInterrupt
        asked.append(True)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
