"""The records in data/: whole, and what their command makes today."""

import json
import math
import platform
from importlib import import_module

import pytest

from tests.conftest import ROOT
from tfcourse import experiments
from tfcourse.experiments import mean_and_spread, record, recorded
from tfcourse.experiments.characters import thinned

NAMES = sorted(path.stem for path in (ROOT / "data").glob("*.json"))

# One piece of each experiment that can be made anew in seconds: settings for `run`, and where the
# beginning of its curve stands in the record.
PIECES = {
    "lengths": (
        {"kinds": ["rotary"], "seeds": [0]},
        lambda results: results["rotary"][0]["curve"],
    ),
    "feed_forwards": (
        {"kinds": ["SwiGLU"], "seeds": [0]},
        lambda results: results["SwiGLU"]["curves"][0],
    ),
    "norm_quality": (
        {"kinds": ["RMSNorm"], "seeds": [0]},
        lambda results: results["RMSNorm"]["curves"][0],
    ),
    "depths": (
        {"depths": [4], "seeds": [0]},
        lambda results: results["with the residual"]["4"]["curves"][0],
    ),
    "norm_places": (
        {"places": ["post-norm"], "learning_rates": [1e-3], "seeds": [0], "warm_ups": [0]},
        lambda results: next(
            run["curve"]
            for run in results["runs"]
            if (run["place"], run["learning_rate"], run["warm_up"], run["seed"])
            == ("post-norm", 1e-3, 0, 0)
        ),
    ),
}


class Enough(Exception):
    """Ends a run after its first steps."""


def test_every_experiment_has_its_record():
    modules = {
        path.stem
        for path in (ROOT / "tfcourse" / "experiments").glob("*.py")
        if "__main__" in path.read_text()
    }
    assert set(NAMES) == modules == set(PIECES)


@pytest.mark.parametrize("name", NAMES)
def test_a_record_says_how_it_was_made(name):
    kept = recorded(name)
    assert kept["command"] == f"python -m tfcourse.experiments.{name}"
    module = import_module(f"tfcourse.experiments.{name}")
    assert kept["settings"] == json.loads(json.dumps(module.SETTINGS))
    assert {"python", "torch"} <= set(kept["versions"])
    assert "CPU" in kept["machine"]

    def numbers(value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            return [n for part in value for n in numbers(part)]
        return [value] if isinstance(value, float) else []

    assert len(numbers(kept["results"])) > 20
    assert all(math.isfinite(number) for number in numbers(kept["results"]))


@pytest.mark.parametrize("name", PIECES)
def test_the_command_makes_it_again(name):
    """The first steps of one run, beside the beginning of its recorded curve."""
    kept = recorded(name)
    if platform.python_version_tuple()[:2] != tuple(kept["versions"]["python"].split(".")[:2]):
        pytest.skip("Python's manual is another text in another version")
    settings, curve_of = PIECES[name]
    curve = curve_of(kept["results"])
    per_point = 25 if name in ("feed_forwards", "norm_quality") else 10
    made = []

    def watch(losses):
        made[:] = losses
        if len(losses) == per_point:
            raise Enough

    module = import_module(f"tfcourse.experiments.{name}")
    with pytest.raises(Enough):
        module.run(**{**kept["settings"], **settings}, watch=watch)
    assert thinned(made, per_point) == pytest.approx(curve[:1], rel=0.01)


def test_a_record_that_is_not_there_is_explained():
    with pytest.raises(FileNotFoundError, match="there is no record 'nothing'.*There are: "):
        recorded("nothing")


def test_recording(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiments, "DATA", tmp_path / "data")

    def run(*, seeds, say):
        say(f"{len(seeds)} seeds")
        return {"losses": [0.5 for _ in seeds]}

    record("mine", run, seeds=[0, 1])
    kept = recorded("mine")
    assert kept["settings"] == {"seeds": [0, 1]}
    assert kept["results"] == {"losses": [0.5, 0.5]}
    assert capsys.readouterr().out == "2 seeds\n"


def test_mean_and_spread():
    assert mean_and_spread([1.0, 2.0, 3.0]) == pytest.approx((2.0, 1.0))
    assert mean_and_spread([4.0]) == (4.0, 0.0)


def test_thinned_keeps_the_mean_of_each_piece():
    assert thinned([1.0, 3.0, 5.0, 7.0, 10.0], every=2) == [2.0, 6.0, 10.0]
