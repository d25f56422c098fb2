"""Training by several processes under torchrun: data parallel and sharded (lesson 12).

Every process computes the gradients of its share of the batch. Data parallel (Li et al., *PyTorch
Distributed*, 2020): each holds the whole model, and the gradients are averaged. Sharded (FSDP, Zhao
et al., 2023, after ZeRO, Rajbhandari et al., 2020): each holds a share of every weight, gradient
and moment, and the weights of a block are gathered just before they are used.

`launch` is called from a notebook. It starts torchrun, by its Python interface, and that starts the
processes, which run `train`:

    run = launch("fsdp", processes=2)
    run.losses, run.processes[0].parameters
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from tfcourse import checkpoints
from tfcourse.arguments import check_count, check_number
from tfcourse.device import pick_device
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.tasks import CharacterText, python_manual
from tfcourse.training import adamw

WAYS = ("one", "ddp", "fsdp")
MOMENTS = ("exp_avg", "exp_avg_sq")  # AdamW's, as PyTorch calls them


@dataclass(frozen=True)
class Process:
    """What one process holds between two steps.

    Attributes:
        rank: its number, from 0.
        device: where it computes.
        parameters: how many numbers of the model it holds.
        weight_bytes, moment_bytes: memory of those, and of AdamW's two moments of each.
    """

    rank: int
    device: str
    parameters: int
    weight_bytes: int
    moment_bytes: int


@dataclass(frozen=True)
class Run:
    """What came out of `launch`.

    Attributes:
        way: as it was asked for.
        losses: of every step in nats a token, the mean over all tokens of all processes.
        processes: what each of them held, in the order of their ranks.
        restarts: how often torchrun started the processes again.
        resumed: the step at which they began when they were last started; 0: at the beginning.
        seconds: from the call to the end, the start of Python included.
    """

    way: str
    losses: list[float]
    processes: list[Process]
    restarts: int
    resumed: int
    seconds: float


@dataclass(frozen=True)
class Task:
    """What decides about a run; see `launch`."""

    way: str
    processes: int
    steps: int = 20
    batch: int = 8
    tokens: int = 64
    learning_rate: float = 3e-3
    seed: int = 0
    save_every: int = 5
    kill_at: int | None = None
    device: str | None = None
    config: TransformerConfig | None = None

    def __post_init__(self):
        if self.way not in WAYS:
            raise ValueError(f"way must be one of {', '.join(WAYS)}. Got {self.way!r}.")
        for name in ("processes", "steps", "batch", "tokens", "save_every"):
            check_count(name, getattr(self, name))
        check_count("seed", self.seed, least=0)
        check_number("learning_rate", self.learning_rate, 0.0, math.inf)
        if self.way == "one" and self.processes != 1:
            raise ValueError(f'processes must be 1 where way is "one". Got {self.processes}.')
        if self.batch % self.processes:
            raise ValueError(
                f"batch must be a multiple of processes={self.processes}: the gradients are "
                "averaged over processes, which is the gradient of the mean over all tokens only "
                f"where each process has as many tokens. Got {self.batch}."
            )
        if self.kill_at is not None:
            check_count("kill_at", self.kill_at, least=0)
            if self.kill_at >= self.steps:
                raise ValueError(f"kill_at must be below steps={self.steps}. Got {self.kill_at}.")
        if self.device not in (None, "cpu", "cuda"):
            raise ValueError(f"device must be None, 'cpu' or 'cuda'. Got {self.device!r}.")
        if self.config is not None:
            self._check_config()

    def _check_config(self) -> None:
        if not isinstance(self.config, TransformerConfig):
            raise TypeError(
                f"config must be a TransformerConfig or None. Got {type(self.config).__name__}."
            )
        if self.config.dropout:
            raise ValueError(
                "config must have dropout=0: each process would drop other numbers, so that no two "
                f"ways could be compared. Got dropout={self.config.dropout}."
            )

    @property
    def max_restarts(self) -> int:
        """How often torchrun may start the processes again."""
        return 0 if self.kill_at is None else 1

    def share(
        self, text: CharacterText, step: int, rank: int
    ) -> tuple[Int[Tensor, "share tokens"], Int[Tensor, "share tokens"]]:
        """The texts of one process at one step, and what follows each token of them.

        Every process draws the whole batch, so nothing has to be sent; and it depends on the step
        alone, so a run that is resumed reads what it would have read.
        """
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        inputs, targets = text.batch(self.batch, self.tokens, generator)
        return inputs.chunk(self.processes)[rank], targets.chunk(self.processes)[rank]


# --- in the notebook: start the processes, wait, read what came out ---------------------------


def launch(way: str, *, processes: int | None = None, seconds: float = 300.0, **settings) -> Run:
    """Train a `LanguageModel` on Python's manual by several processes under torchrun.

    The processes stay on this machine, and those that train end with this call, however it ends.
    On Linux one that has imported PyTorch waits for the next call, and ends with the notebook.

    Args:
        way: "one", a plain loop in one process; "ddp", data parallel; "fsdp", sharded (FSDP2).
        processes: how many; default: 1 for "one", else 2.
        seconds: the longest that it may take, once PyTorch is imported.
        **settings: steps. batch, texts a step of all processes together, and tokens of each.
            learning_rate of AdamW. seed of the first weights and the texts. save_every so many
            steps a checkpoint is written. kill_at, the step at which the last process kills itself
            the first time; torchrun then starts all of them again, and they go on from the last
            checkpoint. device, "cpu" (they then talk over gloo) or "cuda" (a GPU each, over NCCL);
            default: CUDA where there are enough GPUs for all, else the CPU. config, a
            `TransformerConfig` without dropout; default: 3 layers, d_model 64, 4 heads.

    Raises:
        TypeError, ValueError: a setting is of the wrong type or out of range; batch is no multiple
            of processes.
        TimeoutError: it took longer than `seconds`.
        RuntimeError: a process failed; the sentence ends with its last lines. Or this machine has
            no torchrun.
    """
    task = Task(way, (1 if way == "one" else 2) if processes is None else processes, **settings)
    check_number("seconds", seconds, 0.0, math.inf)
    if sys.platform == "win32" or not dist.is_available():
        raise RuntimeError(
            "launch needs torchrun with gloo, which PyTorch has on Linux and macOS. On Windows, "
            "run this in WSL."
        )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(
        prefix="tfcourse-parallel-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        (folder / "said.txt").touch()
        code = _torchrun(task, folder, seconds)
        who = f"{way}, {task.processes} process{'es' * (task.processes > 1)}:"
        if code is None:
            raise TimeoutError(
                f"{who} not done after seconds={seconds:g}, and ended. Give more seconds, or fewer "
                f"steps. The last lines:\n{_last_words(task, folder)}"
            )
        if code:
            raise RuntimeError(f"{who} failed. The last lines:\n{_last_words(task, folder)}")
        found = json.loads((folder / "result.json").read_text())
    found["processes"] = [Process(**held) for held in found["processes"]]
    return Run(way, **found, seconds=time.monotonic() - began)


# On Linux what is slow to import is imported by one process, which stays and does nothing else; all
# others are its forks. On macOS a fork of a process that has loaded torch may crash.
FORKS = sys.platform == "linux"
IMPORTED = ["tfcourse.parallel", "torch._dynamo", "torch.distributed.fsdp"]
_starting = threading.Lock()


def prepare() -> None:
    """Let PyTorch be imported for the processes of `launch` from now on, beside everything else.

    `launch` does so itself, and then waits for it: some seconds, the first time. On macOS, where
    each process imports PyTorch for itself, and on Windows nothing is done.
    """
    if FORKS:
        from multiprocessing import forkserver

        multiprocessing.get_context("forkserver").set_forkserver_preload(IMPORTED)
        forkserver.ensure_running()


def _torchrun(task: Task, folder: Path, seconds: float) -> int | None:
    """Run `train` in so many processes; torchrun's exit code, None where it took too long."""
    prepare()
    how = multiprocessing.get_context("forkserver" if FORKS else "spawn")
    settings = (task, folder, time.time() + seconds, _environment(folder))
    torchrun = how.Process(target=supervise, args=settings)
    with _starting, _without_main():
        torchrun.start()
    try:
        torchrun.join(seconds)
        # Of two that are called at once, one may take the exit code that the other waits for.
        return 0 if (folder / "done").exists() else torchrun.exitcode
    finally:
        _end(torchrun)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """A process that is started runs the script anew that it was started from; ours need none."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _environment(folder: Path) -> dict[str, str]:
    """Ours, without what another torchrun or pytest left in it, for processes on one machine."""
    strange = ("TORCHELASTIC_", "PET_", "MASTER_", "LOCAL_", "GROUP_", "ROLE_", "PYTEST_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(strange) and name not in ("RANK", "WORLD_SIZE")
    }
    return kept | {
        "TMPDIR": str(folder),  # torch leaves caches there
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        # Torchrun asks whether there are GPUs. Asked in the other way, its forks could use none.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }


def _last_words(task: Task, folder: Path, lines: int = 8) -> str:
    """The end of what the process that failed first has said, or else all of them and torchrun."""
    first = folder / _failed(task.max_restarts)
    words = (first if first.exists() else folder / "said.txt").read_text(errors="replace")
    return "\n".join(words.rstrip().split("\n")[-lines:])


def _end(torchrun: multiprocessing.Process) -> None:
    """End torchrun and all that it started, which is in its process group."""
    try:
        if torchrun.is_alive():
            torchrun.terminate()  # it ends its processes itself
            torchrun.join(5)
    finally:
        torchrun.kill()
        torchrun.join()
        # Until nothing is left; a group that waits to be cleared away is no longer ours on macOS.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            for _ in range(500):
                os.killpg(torchrun.pid, signal.SIGKILL)
                time.sleep(0.01)


# --- torchrun ---------------------------------------------------------------------------------


def supervise(task: Task, folder: Path, until: float, environment: dict[str, str]) -> None:
    """Start the processes of the task, and start all of them again where one dies.

    As `torchrun --standalone` does, by its Python interface.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.setsid()  # a group of processes that can be ended as one
    _end_at(until)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    with open("said.txt", "wb") as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=task.processes,
        run_id="tfcourse",
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",  # a look-up of the machine's name may need a network
        max_restarts=task.max_restarts,
        start_method="fork" if FORKS else "spawn",
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "logs")),
    )
    elastic_launch(config, work)(task, folder, until)
    (folder / "done").touch()


def _end_at(until: float) -> None:
    """No process outlives its time, should the notebook have died."""
    signal.alarm(max(1, math.ceil(until - time.time())))


# --- in each process --------------------------------------------------------------------------


def work(task: Task, folder: Path, until: float) -> None:
    """What is called in each process: `train`, and a note where it fails."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork has torchrun's own, which may wait
    torch.set_num_threads(1)  # as many processes as cores is common: each takes one
    _end_at(until)
    try:
        train(task, folder)
    except Exception:
        # The first to fail makes the file; the others fail as they have lost it, and say just that.
        with contextlib.suppress(FileExistsError), open(folder / _failed(_restarts()), "x") as file:
            traceback.print_exc(file=file)
        raise


def train(task: Task, folder: Path) -> None:
    """What each process runs: join the others, train, write what came out.

    A checkpoint in the folder is resumed from, whatever way and number of processes wrote it.
    """
    device = _join(task)
    _train(task, folder, device)
    # What DDP keeps of the group has to go first. As the last to let go of it, it would hold
    # Python's lock while it waits for a thread of gloo's, which may want that very lock.
    gc.collect()
    dist.destroy_process_group()


def _train(task: Task, folder: Path, device: torch.device) -> None:
    rank, restarts = dist.get_rank(), _restarts()
    text, checkpoint = CharacterText(python_manual()), folder / "checkpoint.safetensors"
    torch.manual_seed(task.seed)  # the same first weights in every process
    config = task.config or TransformerConfig(len(text.vocabulary), 64, 4, 3)
    model = LanguageModel(config).small_embeddings().to(device)
    forward = _spread(model, task.way, device)
    optimizer = adamw(model.parameters(), task.learning_rate, weight_decay=0.0)
    losses = _restore(checkpoint, model, optimizer)
    resumed = len(losses)
    for step in range(resumed, task.steps):
        if step == task.kill_at and restarts == 0 and rank == task.processes - 1:
            os.kill(os.getpid(), signal.SIGKILL)  # no warning, no clean-up: a machine that is lost
        inputs, targets = (part.to(device) for part in task.share(text, step, rank))
        loss = F.cross_entropy(forward(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()  # here the gradients are averaged over the processes
        optimizer.step()
        losses.append(_mean(loss))
        if (step + 1) % task.save_every == 0:
            _save(checkpoint, model, optimizer, losses)
    held: list = [None] * task.processes
    dist.all_gather_object(held, asdict(_held(model, optimizer, rank, device)))
    if rank == 0:
        found = {"losses": losses, "processes": held, "restarts": restarts, "resumed": resumed}
        (folder / "result.json").write_text(json.dumps(found))


def _join(task: Task) -> torch.device:
    """Meet the other processes; the device of this one."""
    gpus = torch.cuda.device_count()
    if task.device == "cuda" and gpus < task.processes:
        raise ValueError(
            f"device must be None or 'cpu': there are {gpus} GPUs for {task.processes} processes. "
            "Got 'cuda'."
        )
    on_gpu = (task.device or pick_device().type) == "cuda" and gpus >= task.processes
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    # Torchrun's store outlives a restart. Without a part of its own, each attempt finds in it the
    # addresses of processes that are gone, and now and then calls them.
    store, rank, processes = next(dist.rendezvous("env://"))
    store = dist.PrefixStore(f"attempt {_restarts()}", store)
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=processes)
    return device


def _spread(model: LanguageModel, way: str, device: torch.device) -> nn.Module:
    """The module to call in place of the model; the model's own parameters are those trained."""
    if way == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if way == "fsdp":
        # Imported here, as it takes two seconds: the notebook does not need it.
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for block in model.blocks:  # gathered one after the other, never all at once
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)  # what is left: embedding, last norm, head
    return model


def _mean(loss: Tensor) -> float:
    """The mean of the processes' losses: of all tokens, as each has as many."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def _held(model: nn.Module, optimizer, rank: int, device: torch.device) -> Process:
    weights = [_local(p) for p in model.parameters()]
    moments = [_local(state[name]) for state in optimizer.state.values() for name in MOMENTS]
    return Process(
        rank=rank,
        device=str(device),
        parameters=sum(w.numel() for w in weights),
        weight_bytes=sum(w.nbytes for w in weights),
        moment_bytes=sum(m.nbytes for m in moments),
    )


# --- checkpoints: whole tensors, whatever way they are spread ----------------------------------


def _save(file: Path, model: nn.Module, optimizer, losses: list[float]) -> None:
    """Weights, AdamW's state and the losses so far, written by process 0."""
    tensors = {}
    for name, p in model.named_parameters():
        tensors[f"weight.{name}"] = _whole(p)
        tensors |= {f"{key}.{name}": _whole(x) for key, x in optimizer.state[p].items()}
    if dist.get_rank() == 0:
        checkpoints.write(file, tensors, {"losses": losses})


@torch.no_grad()
def _restore(file: Path, model: nn.Module, optimizer) -> list[float]:
    """Go on where `_save` was called; the losses so far, none where there is no file."""
    if not file.exists():
        return []
    tensors, about = checkpoints.read(file)
    for name, p in model.named_parameters():
        p.copy_(_spread_like(p, tensors[f"weight.{name}"]))
        moments = {key: _spread_like(p, tensors[f"{key}.{name}"]) for key in MOMENTS}
        optimizer.state[p] = {"step": tensors[f"step.{name}"], **moments}
    return about["losses"]


def _whole(tensor: Tensor) -> Tensor:
    """All of a tensor, gathered where it is sharded: every process has to ask for it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _spread_like(parameter: Tensor, whole: Tensor) -> Tensor:
    """A whole tensor on the device of a parameter, sharded as that is."""
    whole = whole.to(parameter.device)
    if not hasattr(parameter, "placements"):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole, parameter.device_mesh, parameter.placements)


def _restarts() -> int:
    """How often torchrun has started the processes again."""
    return int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def _failed(restarts: int) -> str:
    return f"failed-{restarts}.txt"
