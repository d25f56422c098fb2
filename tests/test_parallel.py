"""Training by several processes: the same losses, a share of the memory, nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from tfcourse import parallel
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.parallel import Task, launch
from tfcourse.tasks import CharacterText, python_manual

SMALL = TransformerConfig(200, 16, 2, 1)
needs_processes = pytest.mark.skipif(
    sys.platform == "win32" or not dist.is_available(), reason="torchrun is on Linux and macOS"
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """The folder in which `launch` makes its own: processes are known by it, on Linux."""
    folder = tmp_path_factory.mktemp("launched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


def running(folder):
    """The processes that work in the folder or below it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            where = (entry / "cwd").resolve()
        except OSError:  # it ended meanwhile
            continue
        if where.is_relative_to(folder):
            found.append(int(entry.name))
    return found


@pytest.fixture(scope="module")
def runs(scratch):
    """Each way once, two at the same time."""
    wanted = {
        "one": {},
        "ddp": {},
        "fsdp": {},
        "killed": {"kill_at": 12},
    }
    with ThreadPoolExecutor(2) as pool:
        started = {
            name: pool.submit(launch, "fsdp" if more else name, device="cpu", **more)
            for name, more in wanted.items()
        }
        return {name: future.result() for name, future in started.items()}


def difference(run, other):
    assert len(run.losses) == len(other.losses) == 20
    return max(abs(a - b) for a, b in zip(run.losses, other.losses, strict=True))


# --- the bars -----------------------------------------------------------------------------------


@needs_processes
def test_one_process_learns(runs):
    losses = runs["one"].losses
    assert losses[0] > 4.0
    assert losses[-1] < losses[0] - 1.0
    assert len(runs["one"].processes) == 1


@needs_processes
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_processes_have_the_losses_of_one(runs, way):
    assert [process.rank for process in runs[way].processes] == [0, 1]
    assert difference(runs[way], runs["one"]) <= 1e-5


@needs_processes
def test_what_each_process_holds(runs):
    whole = runs["one"].processes[0]
    assert whole.weight_bytes == 4 * whole.parameters
    assert whole.moment_bytes == 2 * whole.weight_bytes
    for process in runs["ddp"].processes:
        assert process.parameters == whole.parameters
        assert process.moment_bytes == whole.moment_bytes
    shares = runs["fsdp"].processes
    assert sum(process.parameters for process in shares) == whole.parameters
    for process in shares:
        assert process.parameters <= 0.6 * whole.parameters
        assert process.weight_bytes <= 0.6 * whole.weight_bytes
        assert process.moment_bytes <= 0.6 * whole.moment_bytes


@needs_processes
def test_a_killed_process_and_a_run_that_goes_on(runs):
    killed, whole = runs["killed"], runs["fsdp"]
    assert (whole.restarts, whole.resumed) == (0, 0)
    assert (killed.restarts, killed.resumed) == (1, 10)  # the last checkpoint before step 12
    assert difference(killed, whole) <= 1e-6
    assert killed.seconds > whole.seconds


@pytest.fixture
def alone(monkeypatch):
    """What torchrun tells the only process of a run, told to this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "TORCHELASTIC_RESTART_COUNT": 0}
    for name, value in (told | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}).items():
        monkeypatch.setenv(name, str(value))
    with torch.random.fork_rng(devices=[]):
        yield
    if dist.is_initialized():
        dist.destroy_process_group()


def plain_losses(task):
    """A loop that knows nothing of processes and checkpoints."""
    text = CharacterText(python_manual())
    torch.manual_seed(task.seed)
    model = LanguageModel(task.config).small_embeddings()
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.learning_rate, weight_decay=0.0)
    losses = []
    for step in range(task.steps):
        inputs, targets = task.share(text, step, 0)
        loss = F.cross_entropy(model(inputs).mT, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@needs_processes
@pytest.mark.parametrize(("wrote", "resumes"), [("fsdp", "one"), ("one", "ddp"), ("ddp", "fsdp")])
def test_a_checkpoint_serves_every_way(alone, tmp_path, wrote, resumes):
    """Stopped after the third step, the last checkpoint after the second; with tied weights."""
    config = TransformerConfig(200, 16, 2, 1, tied=True)
    task = Task(wrote, 1, steps=3, save_every=2, device="cpu", config=config)
    parallel.train(task, tmp_path)
    whole = replace(task, way=resumes, steps=6)
    parallel.train(whole, tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())
    assert found["resumed"] == 2
    assert found["losses"] == pytest.approx(plain_losses(whole), abs=1e-6)


@pytest.mark.skipif(not parallel.FORKS, reason="elsewhere each process imports for itself")
def test_what_prepare_starts_serves_every_launch():
    def servers():
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        commands = {pid: Path("/proc", pid, "cmdline").read_bytes() for pid in children}
        return [
            pid for pid, command in commands.items() if b"multiprocessing.forkserver" in command
        ]

    parallel.prepare()
    [server] = servers()
    launch("one", steps=1)
    parallel.prepare()
    assert servers() == [server]


@needs_processes
def test_from_a_script_that_guards_nothing(tmp_path):
    script = tmp_path / "script.py"
    asked = 'launch("ddp", device="cpu", steps=2, config=TransformerConfig(200, 16, 2, 1))'
    script.write_text(
        "from tfcourse.models import TransformerConfig\n"
        f"from tfcourse.parallel import launch\nprint(len({asked}.losses))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("2\n", "")


# --- when it does not go well -------------------------------------------------------------------


@needs_processes
def test_a_process_that_fails_says_why(scratch):
    short = TransformerConfig(200, 16, 2, 1, positions="learned", max_tokens=8)
    with pytest.raises(RuntimeError, match=r"one, 1 process: failed\.(.|\n)*ValueError: .*8"):
        launch("one", device="cpu", config=short)
    assert running(scratch) == []
    assert list(scratch.glob("tfcourse-*")) == []


@needs_processes
def test_a_run_that_takes_too_long_is_ended(scratch):
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="ddp, 2 processes: not done after seconds=9"):
        launch("ddp", device="cpu", steps=1_000_000, seconds=9, config=SMALL)
    assert time.monotonic() - began < 60
    assert running(scratch) == []
    assert list(scratch.glob("tfcourse-*")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_where_torchrun_is_killed_its_processes_end_too(scratch):
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(launch, "ddp", device="cpu", steps=1_000_000, seconds=60, config=SMALL)
        for _ in range(300):
            if len(running(scratch)) == 3 or run.done():
                break
            time.sleep(0.1)
        os.kill(min(running(scratch)), signal.SIGKILL)  # it came first
        with pytest.raises(RuntimeError, match="ddp, 2 processes: failed"):
            run.result()
    assert running(scratch) == []


def test_what_another_torchrun_left_does_not_reach_ours(monkeypatch, tmp_path):
    for name in ("RANK", "MASTER_PORT", "LOCAL_RANK", "PET_NNODES", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(name, "7")
    found = parallel._environment(tmp_path)
    assert not {"RANK", "MASTER_PORT", "LOCAL_RANK", "PET_NNODES", "TORCHELASTIC_RUN_ID"} & {*found}
    assert found["PATH"] == os.environ["PATH"]


# --- shares and settings ------------------------------------------------------------------------


def test_the_shares_make_the_batch():
    text = CharacterText(python_manual()[:20_000])
    whole, after = Task("one", 1).share(text, 3, 0)
    shares = [Task("ddp", 4).share(text, 3, rank) for rank in range(4)]
    assert {tuple(inputs.shape) for inputs, _ in shares} == {(2, 64)}
    assert torch.equal(torch.cat([inputs for inputs, _ in shares]), whole)
    assert torch.equal(torch.cat([targets for _, targets in shares]), after)
    assert torch.equal(whole[:, 1:], after[:, :-1])
    assert not torch.equal(Task("one", 1).share(text, 4, 0)[0], whole)
    assert not torch.equal(Task("one", 1, seed=1).share(text, 3, 0)[0], whole)


@pytest.mark.parametrize(
    ("way", "settings", "error", "said"),
    [
        ("tp", {}, ValueError, "way must be one of one, ddp, fsdp. Got 'tp'"),
        ("ddp", {"processes": 0}, ValueError, "processes must be at least 1. Got 0"),
        ("ddp", {"processes": 2.0}, TypeError, "processes must be an int. Got 2.0"),
        ("one", {"processes": 2}, ValueError, 'processes must be 1 where way is "one". Got 2'),
        ("ddp", {"processes": 3}, ValueError, "batch must be a multiple of processes=3.*Got 8"),
        ("fsdp", {"kill_at": 20}, ValueError, "kill_at must be below steps=20. Got 20"),
        ("fsdp", {"kill_at": -1}, ValueError, "kill_at must be at least 0"),
        ("fsdp", {"steps": 0}, ValueError, "steps must be at least 1"),
        ("fsdp", {"seed": "a"}, TypeError, "seed must be an int"),
        ("fsdp", {"device": "tpu"}, ValueError, "device must be None, 'cpu' or 'cuda'. Got 'tpu'"),
        ("fsdp", {"seconds": "long"}, TypeError, "seconds must be a number"),
        ("fsdp", {"config": 3}, TypeError, "config must be a TransformerConfig or None. Got int"),
        (
            "fsdp",
            {"config": TransformerConfig(200, 16, 2, 1, dropout=0.1)},
            ValueError,
            "config must have dropout=0.*Got dropout=0.1",
        ),
    ],
)
def test_bad_settings(way, settings, error, said, monkeypatch):
    monkeypatch.setattr(parallel, "_torchrun", lambda *_: pytest.fail("it was started"))
    with pytest.raises(error, match=said):
        launch(way, **settings)


def test_windows_is_told(monkeypatch):
    monkeypatch.setattr(parallel.sys, "platform", "win32")
    with pytest.raises(RuntimeError, match="launch needs torchrun.*Linux and macOS"):
        launch("ddp")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
def test_on_a_gpu(scratch):
    """NCCL, with a share that is the whole."""
    one, sharded = launch("one", device="cuda"), launch("fsdp", processes=1, device="cuda")
    assert {run.processes[0].device for run in (one, sharded)} == {"cuda:0"}
    assert difference(one, sharded) <= 1e-5
