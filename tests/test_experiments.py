"""The records in data/: whole, what their command makes today, and verdicts that come out again."""

import json
import math
import platform
from importlib import import_module

import pytest

from tests.conftest import ROOT
from tfcourse import experiments
from tfcourse.claims.claim import VERDICTS
from tfcourse.experiments import main, mean_and_spread, record, recorded, verdicts
from tfcourse.experiments.characters import thinned
from tfcourse.experiments.study import losses, study

NAMES = sorted(path.stem for path in (ROOT / "data").glob("*.json"))
STUDIES = [name for name in NAMES if "runs" in recorded(name)["results"]]  # the others are readings
PER_POINT = 10  # steps in one point of a recorded curve


class Enough(Exception):
    """Ends a run after its first steps."""


def module_of(name):
    return import_module(f"tfcourse.experiments.{name}")


def test_every_experiment_has_its_record():
    modules = {
        path.stem
        for path in (ROOT / "tfcourse" / "experiments").glob("*.py")
        if "__main__" in path.read_text()
    }
    weights = {path.stem for path in (ROOT / "data").glob("*.safetensors")}
    assert set(NAMES) | weights == modules
    assert not set(NAMES) & weights


@pytest.mark.parametrize("name", NAMES)
def test_a_record_says_how_it_was_made(name):
    kept = recorded(name)
    assert kept["command"] == f"python -m tfcourse.experiments.{name}"
    assert kept["settings"] == json.loads(json.dumps(module_of(name).SETTINGS))
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


@pytest.mark.parametrize("name", STUDIES)
def test_what_is_reported_did_not_choose_its_rate(name):
    kept = recorded(name)
    reported = {run["seed"] for run in kept["results"]["runs"]}
    assert len(reported) >= 5
    assert not reported & set(kept["settings"].get("pilot_seeds", []))


@pytest.mark.parametrize("name", STUDIES)
def test_a_verdict_comes_out_again_with_other_seeds(name):
    kept, claims = recorded(name), module_of(name).CLAIMS
    assert claims
    if "again" not in kept:
        pytest.skip(f"not decided again yet: {kept['command']} --again")
    assert not set(kept["again"]["seeds"]) & set(kept["settings"]["seeds"])
    first = verdicts(claims, kept["results"])
    assert first == verdicts(claims, kept["again"]["results"])
    assert set(first.values()) <= set(VERDICTS)


@pytest.mark.parametrize("name", STUDIES)
def test_the_command_makes_it_again(name):
    """The first steps of one run, beside the beginning of its recorded curve."""
    kept = recorded(name)
    if platform.python_version() != kept["versions"]["python"]:
        pytest.skip("Python's manual is another text in another version")
    missing = getattr(module_of(name), "missing", str)()
    if missing:
        pytest.skip(missing)
    run, made = kept["results"]["runs"][0], []

    def watch(losses):
        made[:] = losses
        if len(losses) == PER_POINT:
            raise Enough

    settings = {"rate": run["rate"], "seed": run["seed"], "steps": kept["settings"]["steps"]}
    with pytest.raises(Enough):
        module_of(name).one(run["arm"], **settings, watch=watch)
    assert thinned(made, PER_POINT) == pytest.approx(run["curve"][:1], rel=0.01)


def test_a_record_that_is_not_there_is_explained():
    with pytest.raises(FileNotFoundError, match="there is no record 'nothing'.*There are: "):
        recorded("nothing")


def test_recording(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiments, "DATA", tmp_path / "data")

    def run(*, seeds, say):
        say(f"{len(seeds)} seeds")
        return {"losses": [0.5 for _ in seeds], "curve": [1.0, 2.5e-3]}

    record("mine", run, seeds=[0, 1])
    kept = recorded("mine")
    assert kept["settings"] == {"seeds": [0, 1]}
    assert kept["results"] == {"losses": [0.5, 0.5], "curve": [1.0, 0.0025]}
    assert capsys.readouterr().out == "2 seeds\n"


def one(arm, *, rate, seed, steps, watch=None):
    """Stands for a training: best at a rate of its own, a little chance from the seed."""
    best = {"a": -2.0, "b": -1.0, "far": -5.0}[arm]
    return {"loss": 1 + (math.log10(rate) - best) ** 2 + 0.01 * (seed % 7), "curve": [2.0]}


def test_each_arm_gets_the_rate_that_is_best_for_it():
    found = study(
        one, ["a", "b", "far"], rates=[0.001, 0.01, 0.1], pilot_seeds=[100], seeds=[0, 1], steps=1
    )
    assert found["chosen"]["a"] == 0.01
    assert found["chosen"]["b"] == 0.1  # at the edge: the next one was tried
    assert found["pilots"]["b"].keys() == {"0.001", "0.01", "0.1", "0.3162"}
    assert found["chosen"]["far"] == pytest.approx(10**-4.5)  # three times wider, no more
    assert [run["seed"] for run in found["runs"] if run["arm"] == "a"] == [0, 1]
    assert losses(found, "a") == pytest.approx([1.0, 1.01])
    with pytest.raises(ValueError, match="there are no runs of 'c'.*There are: a, b, far"):
        losses(found, "c")


def test_without_pilots_every_rate_is_reported():
    found = study(one, ["a"], rates=[0.01, 0.1], seeds=[0, 1, 2], steps=1)
    assert [(run["rate"], run["seed"]) for run in found["runs"]] == [
        (rate, seed) for rate in (0.01, 0.1) for seed in (0, 1, 2)
    ]
    assert losses(found, "a", rate=0.1) == pytest.approx([2.0, 2.01, 2.02])


def test_a_seed_that_chose_is_not_reported():
    with pytest.raises(ValueError, match="must not be reported as well"):
        study(one, ["a"], rates=[0.1, 0.2], pilot_seeds=[1], seeds=[0, 1], steps=1)


def test_again_keeps_the_rates_and_takes_other_seeds(tmp_path, monkeypatch, capsys):
    from tfcourse.claims.claim import Claim, Judged, lower, paired

    monkeypatch.setattr(experiments, "DATA", tmp_path)

    def decide(results):
        gap = paired(losses(results, "a"), losses(results, "b"))
        return Judged(str(gap), lower(gap))

    claim = Claim("a-beats-b", "a beats b", "the interval of a − b lies below 0", decide)

    def run(*, arms, say=print, watch=None, **settings):
        return study(one, arms, say=say, watch=watch, **settings)

    settings = {"arms": ["a", "b"], "rates": [0.001, 0.01, 0.1, 1.0], "pilot_seeds": [100]}
    settings |= {"seeds": [0, 1, 2], "steps": 1}
    monkeypatch.setattr("sys.argv", ["mine"])
    main("mine", run, settings, (claim,))
    assert "a-beats-b: does not hold here" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["mine", "--again"])
    with pytest.raises(SystemExit) as ended:
        main("mine", run, settings, (claim,))
    assert ended.value.code == 0
    kept = recorded("mine")
    assert kept["again"]["seeds"] == [50, 51, 52]
    assert kept["again"]["results"]["chosen"] == kept["results"]["chosen"]
    assert "curve" not in kept["again"]["results"]["runs"][0]
    assert "with other seeds: does not hold here" in capsys.readouterr().out


def test_mean_and_spread():
    assert mean_and_spread([1.0, 2.0, 3.0]) == pytest.approx((2.0, 1.0))
    assert mean_and_spread([4.0]) == (4.0, 0.0)


def test_thinned_keeps_the_mean_of_each_piece():
    assert thinned([1.0, 3.0, 5.0, 7.0, 10.0], every=2) == [2.0, 6.0, 10.0]
