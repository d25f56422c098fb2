"""tfcourse.training: it comes down, stops when it must, and follows its schedule."""

import itertools
import math
import os
import re
import signal
import subprocess
import sys
from time import sleep as wait

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tfcourse.checkpoints import save_model
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.tasks import CharacterText
from tfcourse.training import fit


@pytest.fixture
def task():
    """A linear map to be found again."""
    torch.manual_seed(0)
    model, x = nn.Linear(4, 2), torch.randn(64, 4)
    target = x @ torch.randn(4, 2)
    return model, lambda: (model(x) - target).square().mean()


def rates(monkeypatch):
    """The learning rates of the steps that follow, as AdamW sees them."""
    seen = []
    step = torch.optim.AdamW.step

    def noted(self, *args, **kwargs):
        seen.append(self.param_groups[0]["lr"])
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    return seen


def test_it_learns(task):
    model, loss = task
    losses = fit(model, loss, steps=300, learning_rate=0.03)
    assert len(losses) == 300
    assert losses[-1] < 1e-3 < losses[0]
    assert not model.training


def test_warm_up_and_decay(task, monkeypatch):
    seen = rates(monkeypatch)
    fit(*task, steps=20, learning_rate=1.0, warm_up=4, decay=True)
    assert seen[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert seen[12] == pytest.approx(0.5)
    assert seen[4:] == sorted(seen[4:], reverse=True)


def test_without_a_schedule_the_rate_stays(task, monkeypatch):
    seen = rates(monkeypatch)
    fit(*task, steps=5, learning_rate=0.1)
    assert seen == [0.1] * 5


def test_what_has_diverged_ends_the_run():
    model = nn.Linear(1, 1)
    values = iter([1.0, 2.0, math.inf, 3.0])
    losses = fit(model, lambda: model.weight.sum() * 0 + next(values), steps=4, learning_rate=0.1)
    assert losses == [1.0, 2.0, math.inf]


def test_gradients_are_clipped(task, monkeypatch):
    model, loss = task
    norms = []
    step = torch.optim.AdamW.step

    def noted(self, *args, **kwargs):
        norms.append(nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    fit(model, lambda: 1000 * loss(), steps=3, learning_rate=0.01, clip=0.5)
    assert max(norms) == pytest.approx(0.5, rel=1e-3)


def test_watch_sees_every_step(task):
    lengths = []
    fit(*task, steps=6, learning_rate=0.1, watch=lambda losses: lengths.append(len(losses)))
    assert lengths == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"steps": 0, "learning_rate": 0.1}, ValueError, "steps must be at least 1. Got 0."),
        ({"steps": 5, "learning_rate": "fast"}, TypeError, "learning_rate must be a number"),
        ({"steps": 5, "learning_rate": 0.1, "warm_up": -1}, ValueError, "warm_up must be"),
    ],
)
def test_settings_that_cannot_work(task, settings, error, said):
    with pytest.raises(error, match=said):
        fit(*task, **settings)


# --- stopped and gone on with -----------------------------------------------------------------


def character_run():
    """A small model with dropout, its batches from a generator: everything that chance decides."""
    torch.manual_seed(3)
    text = CharacterText("the cat sat on the mat. " * 40)
    model = LanguageModel(TransformerConfig(len(text.vocabulary), 8, 2, 1, dropout=0.1, tied=True))
    generator = torch.Generator().manual_seed(5)

    def loss():
        inputs, targets = text.batch(4, 6, generator)
        return F.cross_entropy(model(inputs).mT, targets)

    return model, loss, generator


RECIPE = {
    "steps": 12, "learning_rate": 0.02, "warm_up": 3, "decay": True, "clip": 1.0,
    "weight_decay": 0.1, "accumulate": 2,
}  # fmt: skip


class Stopped(Exception):
    pass


def stop_after(step):
    def watch(losses):
        if len(losses) == step:
            raise Stopped

    return watch


@pytest.fixture
def uninterrupted():
    model, loss, generator = character_run()
    return fit(model, loss, generator=generator, **RECIPE), model.state_dict()


def same_end(losses, model, uninterrupted):
    wanted, weights = uninterrupted
    assert losses == wanted
    assert all(torch.equal(weights[name], x) for name, x in model.state_dict().items())


@pytest.mark.parametrize("stops", [(5,), (1, 11), (4, 5, 8)])
def test_an_interrupted_run_ends_with_the_same_numbers(tmp_path, uninterrupted, stops):
    file = tmp_path / "run.safetensors"
    for step in stops:
        model, loss, generator = character_run()
        said = f"Stopped after step {step} of 12.*run it again"
        with pytest.raises(KeyboardInterrupt, match=said):
            fit(
                model, loss, checkpoint=file, generator=generator, **RECIPE,
                watch=lambda losses, step=step: (
                    signal.raise_signal(signal.SIGINT) if len(losses) >= step else None
                ),
            )  # fmt: skip
    model, loss, generator = character_run()
    torch.manual_seed(99)  # as in another session
    same_end(fit(model, loss, checkpoint=file, generator=generator, **RECIPE), model, uninterrupted)


def test_the_interrupt_waits_for_the_step_and_a_second_one_does_not():
    model, loss, _ = character_run()
    seen, handler = [], signal.getsignal(signal.SIGINT)

    def slow():
        signal.raise_signal(signal.SIGINT)
        seen.append("the step goes on")
        return loss()

    with pytest.raises(KeyboardInterrupt, match="Stopped after step 1 of 3.*is not kept"):
        fit(model, slow, steps=3, learning_rate=0.1)
    assert seen == ["the step goes on"]
    assert not model.training

    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="^$"):
        fit(model, twice, steps=3, learning_rate=0.1)
    assert signal.getsignal(signal.SIGINT) is handler


KILLED = """
import os, sys
from tests import test_training as t
from tfcourse import checkpoints, training
training.SAVE_EVERY = 0.0
replace, writes = os.replace, []
def dies(*names):
    writes.append(names)
    if len(writes) == {write}:
        if {before}: os._exit(9)
        replace(*names)
        os._exit(9)
    replace(*names)
os.replace = dies
model, loss, generator = t.character_run()
t.fit(model, loss, checkpoint=sys.argv[1], generator=generator, **t.RECIPE)
"""


@pytest.mark.parametrize(("write", "before"), [(1, True), (4, True), (7, False)])
def test_a_run_that_was_killed_while_it_wrote(tmp_path, uninterrupted, write, before, root):
    file = tmp_path / "run.safetensors"
    code = KILLED.format(write=write, before=before)
    done = subprocess.run([sys.executable, "-c", code, str(file)], cwd=root)
    assert done.returncode == 9
    assert file.exists() == (write > 1)
    model, loss, generator = character_run()
    same_end(fit(model, loss, checkpoint=file, generator=generator, **RECIPE), model, uninterrupted)


def test_a_finished_run_is_not_run_again(tmp_path, uninterrupted):
    file = tmp_path / "run.safetensors"
    model, loss, generator = character_run()
    fit(model, loss, checkpoint=file, generator=generator, **RECIPE)
    model, loss, generator = character_run()
    found = fit(model, stop_after(0), checkpoint=file, generator=generator, **RECIPE)
    same_end(found, model, uninterrupted)


def test_a_checkpoint_of_another_run_is_refused_and_left(tmp_path):
    file = tmp_path / "run.safetensors"
    model, loss, generator = character_run()
    fit(model, loss, checkpoint=file, generator=generator, **RECIPE)
    content = file.read_bytes()
    for change, said in (
        ({"steps": 20}, "other settings: steps=12 there, 20 here"),
        ({"clip": None, "decay": False}, "clip=1.0 there, None here"),
    ):
        with pytest.raises(ValueError, match=said):
            fit(model, loss, checkpoint=file, generator=generator, **RECIPE | change)
    wider = nn.Linear(3, 4)
    with pytest.raises(ValueError, match="is of another model"):
        fit(wider, loss, checkpoint=file, generator=generator, **RECIPE)
    with pytest.raises(ValueError, match="another way to draw batches"):
        fit(model, loss, checkpoint=file, **RECIPE)
    file.write_bytes(content[:100])
    with pytest.raises(ValueError, match="is cut off or damaged"):
        fit(model, loss, checkpoint=file, generator=generator, **RECIPE)
    assert file.read_bytes() == content[:100]
    save_model(tmp_path / "model", model)
    with pytest.raises(ValueError, match="holds no run but a finished model"):
        fit(model, loss, checkpoint=tmp_path / "model", generator=generator, **RECIPE)


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch, capsys, uninterrupted):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    model, loss, generator = character_run()
    losses = fit(model, loss, checkpoint=tmp_path / "run", generator=generator, **RECIPE)
    same_end(losses, model, uninterrupted)
    said = capsys.readouterr().out
    assert said.count("The run goes on, but is not kept: [Errno 28] run ") == 1
    assert "No space left on device" in said


def test_accumulated_batches_are_one_larger_batch():
    torch.manual_seed(0)
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    ends = []
    for parts in (1, 4):
        torch.manual_seed(1)
        model = nn.Linear(4, 2)
        pieces = itertools.cycle(zip(x.chunk(parts), y.chunk(parts), strict=True))

        def loss(model=model, pieces=pieces):
            inputs, targets = next(pieces)
            return (model(inputs) - targets).square().mean()

        losses = fit(model, loss, steps=5, learning_rate=0.05, accumulate=parts)
        ends.append((losses, model.weight))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-5)
    assert torch.allclose(ends[0][1], ends[1][1], atol=1e-6)


def test_weight_decay_is_for_matrices_alone():
    model = nn.Linear(3, 3)
    before = {name: p.clone() for name, p in model.named_parameters()}
    fit(
        model,
        lambda: 0 * model(torch.ones(1, 3)).sum(),
        steps=1,
        learning_rate=0.1,
        weight_decay=0.5,
    )
    assert torch.allclose(model.weight, before["weight"] * (1 - 0.1 * 0.5))
    assert torch.equal(model.bias, before["bias"])


def test_progress_says_loss_and_tokens_a_second(task, capsys):
    fit(
        *task,
        steps=40,
        learning_rate=0.1,
        progress="training",
        tokens=64,
        watch=lambda _: wait(0.01),
    )
    said = capsys.readouterr().err
    assert re.search(r"training: .* \d+/40 .*loss=\d+\.\d+, tokens/s=[\d,]+", said)
