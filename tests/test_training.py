"""tfcourse.training: it comes down, stops when it must, and follows its schedule."""

import math

import pytest
import torch
from torch import nn

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
