"""What runs inside the sandbox: it reads one notebook's code, and runs each answer by itself.

Torch is imported once; then every step (finding the answers, then each exercise) is a process of
its own, forked from this one, which runs nothing of a learner's. What a step leaves behind ends
with it. Nothing is judged here: inputs come in, plain data goes out.

    given:  tasks, each a head (its length) and a torch.save of
            {"code", "names", "exercises", "ours", "tested", "seconds", "alone"}
    back:   for each step of a task a head, then "+" and its data, or "-" and words why not;
            a head of 0 at the end of the task
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import io
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import types
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

import tfcourse
from tfcourse.checks.running import collect_of_source
from tfcourse.classroom import sandbox, wire
from tfcourse.classroom.answers import answers
from tfcourse.classroom.cells import Code

HEAD = struct.Struct(">Q")
LARGEST = 32 * 2**20  # bytes that a step may give back
BOX = "box"  # the sandbox's host name


def main() -> None:
    """One task after the other, until there is no more to read."""
    results = os.dup(1)
    os.dup2(2, 1)  # whatever prints: not among the results
    sandbox.hide()
    gc.freeze()  # what is here now is shared with every step, not copied
    while head := sys.stdin.buffer.read(HEAD.size):
        [length] = HEAD.unpack(head)
        given = io.BytesIO(sys.stdin.buffer.read(length))
        _do(torch.load(given, weights_only=True), results)
        _tell(results, b"")


def _do(task: dict, results: int) -> None:
    """All steps: the first finds the answers, then one runs each exercise that has one."""
    _stand_in(task["tested"])
    # In a sandbox, or as a user that nobody else is: here every process is this notebook's.
    alone = task["alone"] and (_in_box() or os.getuid() in sandbox.USERS)
    code = [Code(*cell) for cell in task["code"]]

    def find() -> bytes:
        found = answers(code, task["names"], task["ours"])
        return json.dumps({name: asdict(answer) for name, answer in found.items()}).encode()

    found = _step(find, task["seconds"], alone, results)
    _tell(results, found)
    if not found.startswith(b"+"):
        return
    sources = {name: answer["source"] for name, answer in json.loads(found[1:]).items()}
    for name, inputs in task["exercises"]:
        if not sources[name]:
            continue

        def run(source=sources[name], name=name, inputs=inputs) -> bytes:
            return wire.pack(collect_of_source(source, name, inputs))

        _tell(results, _step(run, task["seconds"], alone, results))


def _stand_in(tested: dict[str, str]) -> None:
    """What a notebook has that is not here: their own answers of other days, checks, a display."""
    sys.modules["tfcourse.mine"] = tfcourse.mine = _Tested(tested)
    tfcourse.check = lambda answer, name=None: answer
    for name in ("hint", "progress", "quiz", "reveal"):
        setattr(tfcourse, name, _nothing)
    builtins.display, builtins.get_ipython = _nothing, _Silent


def _nothing(*args, **kwargs) -> None:
    pass


class _Silent:
    """Stands for the notebook's shell, whose commands do nothing here."""

    def __getattr__(self, name: str):
        return _nothing


class _Tested(types.ModuleType):
    """Stands for `tfcourse.mine`: nothing of a learner's is here but this notebook."""

    def __init__(self, texts: dict[str, str]):
        super().__init__("tfcourse.mine")
        self._texts = texts

    def __getattr__(self, name: str):
        if name not in self._texts:
            raise AttributeError(f"there is no {name} here: it is graded, or no exercise")
        space = {"__name__": "tfcourse.mine"}
        exec(self._texts[name], space)
        setattr(self, name, space[name])
        return space[name]


def _tell(results: int, said: bytes) -> None:
    rest = memoryview(HEAD.pack(len(said)) + said)
    while rest:
        rest = rest[os.write(results, rest) :]


def _step(work: Callable[[], bytes], seconds: float, alone: bool, results: int) -> bytes:
    """What `work` gives, done in a process that ends with this call, and all that it started."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.close(results)
        _work(work, writing, seconds)
    os.close(writing)
    said = _listen(reading, seconds)
    os.close(reading)
    status = _end(child, alone)
    return said or b"-" + _why(status).encode()


def _work(work: Callable[[], bytes], writing: int, seconds: float) -> None:
    """In the child. It never returns."""
    import resource  # not on Windows, where nobody comes as far as this

    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        most = int(seconds) + 2  # of CPU time; the clock on the wall comes first
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        said = b"+" + work()
    except MemoryError:
        said = b"-ran out of memory"
    except BaseException as error:
        said = f"-gave back what is no plain data ({type(error).__name__})".encode()
    _tell(writing, said)
    os._exit(0)


def _listen(reading: int, seconds: float) -> bytes:
    """What the child says; b"" where it ends before it has said all."""
    ends = time.monotonic() + seconds
    said, wanted = bytearray(), HEAD.size
    while len(said) < wanted:
        left = ends - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return f"-did not end within {seconds:g} seconds".encode()
        part = os.read(reading, 2**16)
        if not part:
            return b""
        said += part
        if len(said) >= HEAD.size:
            [length] = HEAD.unpack_from(said)
            if length > LARGEST:
                return f"-gave back {length:,} bytes; at most {LARGEST:,} are taken".encode()
            wanted = HEAD.size + length
    return bytes(said[HEAD.size : wanted])


def _end(child: int, alone: bool) -> int:
    """End the child and its offspring; how it had ended, where it had."""
    gone, status = os.waitpid(child, os.WNOHANG)
    for _ in range(20):  # it has said all, or its end of the pipe is closed: it is about to end
        if gone:
            break
        time.sleep(0.005)
        gone, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Alone among its processes: all of them but this one, those in groups of their own too.
        os.kill(-1, signal.SIGKILL) if alone else os.killpg(child, signal.SIGKILL)
    if not gone:
        _, status = os.waitpid(child, 0)
    if alone:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # orphans come to the first process, this one
                pass
        _clear()
    return status


def _why(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended the process (exit {code})"
    name = signal.Signals(-code).name
    return {
        "SIGSEGV": "crashed the process (a segmentation fault)",
        "SIGXCPU": "took too much time",
        "SIGXFSZ": "wrote a file that is too large",
        "SIGKILL": "was ended: it took too much time or memory",
    }.get(name, f"crashed the process ({name})")


def _clear() -> None:
    """What a step wrote is not there in the next one, and does not take its room."""
    for folder in (Path.home(), Path("/tmp"), Path("/dev/shm")) if _in_box() else (Path.home(),):
        for path in folder.iterdir():
            if path.is_symlink() or not path.is_dir():
                path.unlink()
                continue
            for inner, _, _ in os.walk(path):
                with contextlib.suppress(OSError):  # what is there to read, below /tmp
                    os.chmod(inner, 0o700)
            shutil.rmtree(path, ignore_errors=True)
    subprocess.run(["ipcrm", "--all"], capture_output=True)  # memory that processes share


def _in_box() -> bool:
    return os.uname().nodename == BOX and Path.home() == Path("/box")


if __name__ == "__main__":
    main()
