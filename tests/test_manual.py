"""The model that comes with the course: whole, small, as good as promised, and made as it says."""

import json
import math
import platform
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT
from tfcourse import mine
from tfcourse.checks.lessons.lesson_09_language_model import LanguageModel, cached_attention
from tfcourse.experiments import manual
from tfcourse.models import LanguageModel as Package


@pytest.fixture(scope="module")
def loaded():
    return manual.load()


def test_it_is_small_enough_for_a_clone_and_for_a_page(loaded):
    model, _, _ = loaded
    assert manual.FILE.stat().st_size < 4e6
    assert sum(p.numel() for p in model.parameters()) < 1e6
    assert sum(f.stat().st_size for f in (ROOT / "data").iterdir()) < 20e6


def test_it_is_as_good_as_its_note_says(loaded):
    model, text, note = loaded
    nats = manual.held_out(model, text)
    assert nats <= 1.35
    if platform.python_version() == note["versions"]["python"]:  # else it is another manual
        assert nats == pytest.approx(note["held out"], abs=2e-3)


def test_its_note_tells_how_to_make_it_again(loaded):
    model, _, note = loaded
    assert note["command"] == "python -m tfcourse.experiments.manual"
    assert note["settings"] == json.loads(json.dumps(manual.SETTINGS | manual.RECIPE))
    assert {"python", "torch"} <= set(note["versions"])
    assert model.config == manual.config(len(note["vocabulary"]))


def test_characters_that_it_has_never_met_are_left_out(monkeypatch):
    monkeypatch.setattr(manual, "python_manual", lambda: "\u2603 snow " * 500)
    _, text, _ = manual.load()
    assert "\u2603" not in text.vocabulary
    assert text.decode(text.encode(" snow ")) == " snow "


def test_a_model_of_lesson_09_takes_its_weights(loaded):
    """The same loss with the parts that learners write, as the lesson puts them together."""
    theirs, text, _ = loaded

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = torch.nn.Linear(128, 384), torch.nn.Linear(128, 128)

        def forward(self, x, **_):
            q, k, v = (mine.split_heads(t, 4) for t in self.qkv(x).chunk(3, dim=-1))
            heads, _, _ = cached_attention(q, k, v, k[:, :, :0], v[:, :, :0])
            return self.out(mine.merge_heads(heads))

    class Block(mine.TransformerBlock):
        def __init__(self):
            super().__init__(128, 4, 512, norm_first=True)
            self.attention = Attention()

        def forward(self, x, causal):
            return super().forward(x)

    own = LanguageModel(len(text.vocabulary), 128, 4, 3, block=Block).eval()
    own.load_state_dict({k.replace("embed.", ""): w for k, w in theirs.state_dict().items()})
    assert abs(manual.held_out(own, text) - manual.held_out(theirs, text)) < 1e-4


def test_making_it_writes_a_whole_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(manual, "FILE", tmp_path / "manual.safetensors")
    monkeypatch.setattr(manual, "SETTINGS", manual.SETTINGS | {"steps": 2, "batch": 2})
    monkeypatch.setattr(manual, "WINDOWS", 2)
    manual.make()
    model, text, note = manual.load()
    assert isinstance(model, Package)
    assert note["settings"]["steps"] == 2
    assert note["held out"] == pytest.approx(manual.held_out(model, text), abs=1e-3)
    assert math.isfinite(note["held out"])
    assert [Path(f).name for f in tmp_path.iterdir()] == ["manual.safetensors"]
    assert "nats held out" in capsys.readouterr().out
