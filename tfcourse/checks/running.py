"""Run an answer on the inputs of an exercise and bring back what it gave.

`collect` runs it here, in the learner's kernel. `collect_apart` runs the source of a cell in
another process that sees inputs only: it can neither read what is expected nor forge a verdict,
and one that crashes or never ends costs its own exercise alone.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import numbers
import subprocess
import sys
import sysconfig
import tempfile
import threading
import traceback
import types
import warnings
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from tfcourse.checks.exercise import Case, Output
from tfcourse.checks.mixers import is_stand_in, resolved

IN_PLACE = "in place"  # stands for gradients that an in-place operation has made impossible

# So many cases are run on a module of their own too: enough to see that one keeps something.
_TRIED_ANEW = 24

_LIBRARIES = ("torch.", "tfcourse.", "numpy.", "transformers.")
_WATCHED_LIBRARIES = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
NOT_THE_LEARNERS = (
    *{sysconfig.get_paths()[k] for k in ("stdlib", "purelib", "platlib")},
    str(Path(__file__).parent.parent),
    "<frozen",
)


def collect(answer, inputs: list[dict]) -> list[Output]:
    """The answer's output for every case, in order. An interrupt passes through.

    The learner's random state and gradient mode are their own: both are as before when it is done.
    """
    kind = "library" if is_library(answer) else "own"
    with (
        warnings.catch_warnings(action="ignore"),  # a check has words of its own
        torch.random.fork_rng(devices=[]),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        modules = _build_all(answer, inputs)
        ran = enumerate(inputs)
        return [_run(answer, given, kind, modules, i < _TRIED_ANEW) for i, given in ran]


def is_library(answer) -> bool:
    """Whether the answer is somebody else's function handed over as it is."""
    module = f"{getattr(answer, '__module__', None) or ''}."
    return module.startswith(_LIBRARIES) or (
        inspect.isbuiltin(answer) and answer.__name__ in dir(builtins)
    )


class _Watch(TorchFunctionMode):
    """Notes which of the watched functions are called: torch's own, and those of a library.

    And, where it counts, how many numbers the tensors made by torch's functions hold together, at
    the worst time: those in memory that still exists and is not the `given` tensors'.
    """

    def __init__(self, watched, counts=False, given=()):
        super().__init__()
        self.watched, self.used, self.largest, self.counts = watched, set(), 0, counts
        self.given, self.held = set(map(_memory, given)) if counts else set(), {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in self.watched:
            self.used.add(name)
        made = function(*args, **(kwargs or {}))
        if self.counts:
            self._count(_tensors(made))
        return made

    def _count(self, made: list[torch.Tensor]) -> None:
        self.held = {ref: n for ref, n in self.held.items() if not ref.expired()}
        for tensor in made:
            ref = _memory(tensor)
            if ref is not None and ref not in self.given:
                self.held[ref] = tensor.untyped_storage().nbytes() // tensor.element_size()
        self.largest = max(self.largest, sum(self.held.values()))

    def __enter__(self):
        self.before = sys.getprofile()
        sys.setprofile(self._profile)
        threading.setprofile(self._profile)
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        sys.setprofile(self.before)
        threading.setprofile(None)

    def _profile(self, frame, event, _):
        """Functions written in Python, which the mode does not see: `clip_grad_norm_`, ours."""
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if event == "call" and name in self.watched and file.startswith(_WATCHED_LIBRARIES):
            self.used.add(name)


def _build_all(answer, inputs: list[dict]) -> dict:
    """One module for each way to build it, all made before the first is called.

    So one that keeps something on its class, or of an earlier call, gives itself away.
    """
    modules = {}
    for given in inputs:
        if given["build"] is not None and _key(given) not in modules:
            _seed(given)
            try:
                modules[_key(given)] = answer(**_fresh(given["build"]))
            except (Exception, SystemExit) as error:
                modules[_key(given)] = error
    return modules


def _seed(given: dict) -> None:
    """Like `torch.manual_seed`, which also writes down a whole traceback for each kind of GPU."""
    torch.default_generator.manual_seed(given["seed"])


def _key(given: dict) -> tuple:
    return tuple(sorted((name, repr(value)) for name, value in given["build"].items()))


def _run(answer, given: dict, kind: str, modules: dict, anew: bool) -> Output:
    args, kwargs = _fresh(given["args"]), _fresh(given["kwargs"])
    leaves = []
    if given["gradients"]:
        leaves = [a.requires_grad_() for a in _tensors(args) if _is_float(a)]
        # A leaf must not be written to in place, its copy may.
        args = _fresh(args, torch.Tensor.clone)
    _seed(given)
    watch = _Watch(given["watched"], given["largest"] is not None, _tensors(args))
    try:
        with watch if watch.watched or watch.counts else nullcontext():
            call = answer
            if given["build"] is not None:
                call = modules[_key(given)]
                if isinstance(call, BaseException):
                    raise call
                _load(call, _fresh(given["weights"]))
                call.train(given["training"])
                # By every name: one that is tied may be listed under either.
                own = dict(call.named_parameters(remove_duplicate=False))
                leaves += [own[name] for name in given["weights"] if name in own]
            value = call(*args, **kwargs)
            if given["twice"] and not _changed(given, args, kwargs):
                value = call(*args, **kwargs)
        gradients = _gradients(value, leaves) if given["gradients"] else None
        value = _plain(value)
    except (Exception, SystemExit) as error:  # exit() in an answer must not end the lesson's cell
        kept = anew and _new_one_differs(answer, given, None)
        return Output(error=_describe(error), kind=kind, kept=kept)
    changed = _changed(given, args, kwargs)
    kept = anew and _new_one_differs(answer, given, value)
    used = tuple(sorted(watch.used))
    return Output(value, gradients, None, changed, used, watch.largest, kind, kept)


def _new_one_differs(answer, given: dict, value) -> bool:
    """Whether a module made for this case alone gives something else than one used before."""
    if given["build"] is None:
        return False
    try:
        module = answer(**_fresh(given["build"]))
        _seed(given)
        _load(module, _fresh(given["weights"]))
        with torch.no_grad():
            module.train(given["training"])
            new = _plain(module(*_fresh(given["args"]), **_fresh(given["kwargs"])))
    except (Exception, SystemExit):
        return False
    if not (isinstance(new, torch.Tensor) and isinstance(value, torch.Tensor)):
        return type(new) is not type(value)
    return new.shape != value.shape or not torch.allclose(new, value, 1e-3, 1e-4, equal_nan=True)


def _changed(given: dict, args: tuple, kwargs: dict) -> tuple:
    """The arguments that are no longer what was given: their positions, or names."""
    before = [*enumerate(given["args"]), *given["kwargs"].items()]
    after = [*args, *kwargs.values()]
    return tuple(
        name for (name, then), now in zip(before, after, strict=True) if _differs(now, then)
    )


def _differs(now, then) -> bool:
    """Whether a value, or one in a list of them, is no longer what it was."""
    if isinstance(then, (tuple, list)):
        parts = isinstance(now, (tuple, list)) and len(now) == len(then)
        return not parts or any(map(_differs, now, then))
    if isinstance(then, (str, int)):
        return now != then
    if not isinstance(then, torch.Tensor) or now is then:
        return False
    same_kind = isinstance(now, torch.Tensor) and now.dtype == then.dtype
    return not same_kind or not torch.equal(now.nan_to_num(), then.nan_to_num())


def _load(module, weights: dict) -> None:
    """Give the learner's module our weights, and their precision; its buffers are its own."""
    floats = [w.dtype for w in weights.values() if _is_float(w)]
    if floats:
        module.to(floats[0])
    found = module.load_state_dict(weights, strict=False)
    own = dict(module.named_parameters())
    if found.unexpected_keys or any(name in own for name in found.missing_keys):
        raise ValueError(
            f"the weights do not fit the class. It should have the parameters "
            f"{', '.join(weights)}; yours has {', '.join(own) or 'none'}."
        )


def _fresh(value, copy=lambda tensor: tensor.detach().clone()):
    """A copy that shares no memory with what the judge holds; a stand-in becomes its function."""
    if is_stand_in(value):
        return resolved(value)
    if isinstance(value, torch.Tensor):
        return copy(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_fresh(v, copy) for v in value)
    if isinstance(value, dict):
        return {k: _fresh(v, copy) for k, v in value.items()}
    return value


def _tensors(value) -> list[torch.Tensor]:
    """The tensors in a value, those in lists and tuples too."""
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in _tensors(part)]
    return [value] if isinstance(value, torch.Tensor) else []


def _memory(tensor: torch.Tensor) -> StorageWeakRef | None:
    """Where its numbers are, which all its views share; it says whether that still exists."""
    try:
        return StorageWeakRef(tensor.untyped_storage())
    except (RuntimeError, NotImplementedError):  # one without memory of its own
        return None


def _is_float(value) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _gradients(value, leaves) -> list | str | None:
    """Gradients of a fixed random weighting of the output; None where none flows."""
    parts = [v for v in (value if isinstance(value, (tuple, list)) else [value]) if _is_float(v)]
    parts = [v for v in parts if v.requires_grad]
    if not parts or not leaves:
        return None
    generator = torch.Generator().manual_seed(1)
    total = 0
    for part in parts:
        probe = torch.randn(part.shape, generator=generator).to(part.dtype)
        # What is infinite on purpose (the logarithm of an empty sum) has no slope to speak of.
        total = total + torch.where(part.isinf(), 0.0, part * probe).sum()
    try:
        return [_plain(g) for g in torch.autograd.grad(total, leaves, allow_unused=True)]
    except RuntimeError as error:
        if "inplace operation" in str(error):
            return IN_PLACE
        raise


def _plain(value):
    """The value as tensors, numbers, strings and containers of them; else its type's name."""
    if isinstance(value, torch.Tensor):
        return value.detach().to_dense().cpu().clone()
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, numbers.Integral):  # numpy's own
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return {"not plain": type(value).__name__}


def _describe(error: BaseException) -> dict:
    """The error with the learner's own line: the deepest frame that is no library's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(NOT_THE_LEARNERS)]
    line = own[-1].lineno if own else None
    code = (own[-1].line or linecache.getline(own[-1].filename, line)).strip() if own else ""
    return {"type": type(error).__name__, "message": str(error), "line": line, "code": code}


def collect_apart(source: str, name: str, cases: list[Case], *, seconds: float = 60):
    """Run `source`, then its `name` on the cases, in another process.

    That keeps inputs and verdict apart; it is no sandbox: the process may read and write files and
    use the network as its user may.

    Args:
        source: the text of the learner's cells.
        name: the function or class in it that answers.
        cases: the exercise's cases; only their inputs leave this process.
        seconds: how long all of it may take.
    Returns:
        one Output a case; where the process died or ran out of time, outputs that say so.
    """
    with tempfile.TemporaryDirectory() as folder:
        task, result = Path(folder, "task.pt"), Path(folder, "result.pt")
        torch.save({"source": source, "name": name, "inputs": [c.inputs() for c in cases]}, task)
        command = [sys.executable, "-m", "tfcourse.checks.running", str(task), str(result)]
        try:
            done = subprocess.run(command, timeout=seconds, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return crashed(len(cases), f"did not end within {seconds:g} seconds")
        try:
            # weights_only: what comes from there is data, never code.
            outputs = [Output(**o) for o in torch.load(result, weights_only=True)]
            if len(outputs) == len(cases):
                return outputs
            return crashed(len(cases), f"gave back {len(outputs)} results for {len(cases)} cases")
        except Exception:
            last = done.stderr.strip().splitlines()[-1:] or ["no word of why"]
            return crashed(len(cases), f"ended the process (exit {done.returncode}): {last[0]}")


def crashed(count: int, what: str) -> list[Output]:
    """The outputs of an answer that ended its process, or had to be ended: in words, how."""
    error = {"type": "Crash", "message": what, "line": None, "code": ""}
    return [Output(error=error, kind="crash") for _ in range(count)]


def collect_of_source(source: str, name: str, inputs: list[dict]) -> list[Output]:
    """Run `source` here, then its `name` on the inputs; for a process that does nothing else."""
    lines = source.splitlines(keepends=True)
    linecache.cache["<answer>"] = (len(source), None, lines, "<answer>")
    module = sys.modules["__answer__"] = types.ModuleType("__answer__")  # dataclasses look it up
    try:
        exec(compile(source, "<answer>", "exec", dont_inherit=True), module.__dict__)
        answer = module.__dict__[name]
    except KeyError:
        found = {"type": "NameError", "message": f"there is no {name!r}"}
        return [Output(error=found | {"line": None, "code": ""}) for _ in inputs]
    except Exception as error:
        return [Output(error=_describe(error)) for _ in inputs]
    return collect(answer, inputs)


def _main(task_path: str, result_path: str) -> None:
    task = torch.load(task_path, weights_only=True)
    outputs = collect_of_source(task["source"], task["name"], task["inputs"])
    torch.save([asdict(o) for o in outputs], result_path)


if __name__ == "__main__":
    _main(*sys.argv[1:])
