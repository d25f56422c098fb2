"""Sandboxes that are there at once: one in which torch is imported, and which forks the others.

To import torch takes longer than to run a notebook's answers. So the first process of a nest does
it once. Each process that it forks has the nest's walls around it, and its own inside them: other
processes, another empty folder, another /tmp, and no rights at all. The first process runs nothing
of a learner's, and none of those that do can see it, or each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from tfcourse.classroom import sandbox
from tfcourse.classroom.sandbox import Limits

SOON = 10.0  # seconds; to end a process takes far less
# What Linux calls them
_OWN_MOUNTS, _OWN_MEMORY = 0x20000, 0x8000000
_OWN_PROCESSES, _OWN_NETWORK = 0x20000000, 0x40000000
_NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _READ_ONLY = 2, 4, 8, 1
_REMOUNT, _BIND, _ALL_BELOW, _PRIVATE = 32, 4096, 0x4000, 0x40000
_AMBIENT, _CLEAR_ALL, _CAPABILITIES = 47, 4, 0x20080522

_idle: dict[tuple, list[Nest]] = {}
_able: dict[tuple, bool] = {}  # whether this machine lets them
_taking = threading.Lock()


def fork(command: Sequence[str], *, readable: Sequence[Path], empty: Sequence[Path],
         limits: Limits) -> Forked | None:  # fmt: skip
    """A process out of a nest that is free, or of a new one; None where no nest can be had.

    Args:
        command: starts Python, and ends with a call of `main`.
        readable, empty, limits: as in `sandbox.Walled`.
    """
    words = (*sandbox.around_a_nest(readable, empty, limits), *command)
    # Where a folder that is to be seen empty has been made anew, an old nest would show it.
    kind = (words, *(path.stat().st_ino for path in empty if path.is_dir()))
    while _able.get(kind, True):
        with _taking:
            waiting = _idle.setdefault(kind, [])
            old = waiting.pop() if waiting else None
        try:
            nest = old or Nest(words, kind)
            process = nest.fork(limits)
        except OSError:
            if old:
                continue  # it has ended meanwhile
            _able.setdefault(kind, False)
            return None
        _able[kind] = True
        return process
    return None


class Nest:
    """A process in walls, which forks others, one at a time."""

    def __init__(self, words: Sequence[str], kind: tuple):
        self._kind = kind
        self._asks, answers = socket.socketpair()
        with answers:
            self._process = subprocess.Popen(
                words, stdin=answers, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"}, cwd="/", start_new_session=True,
            )  # fmt: skip

    def fork(self, limits: Limits) -> Forked:
        """A process of its own, once torch is there.

        Raises:
            OSError: it cannot, or does not in time; then it is ended.
        """
        given, taken, errors = (os.pipe() for _ in range(3))
        theirs, ours = (given[0], taken[1], errors[1]), (given[1], taken[0], errors[0])
        try:
            words = f"{sandbox.another_user()} {limits.files}".encode()
            patience = min(limits.start, limits.seconds)
            self._asks.settimeout(patience if patience < float("inf") else None)
            socket.send_fds(self._asks, [words], theirs)
            self._expect(b"+")
        except BaseException:
            for end in ours:
                os.close(end)
            self.end()
            raise
        finally:
            for end in theirs:
                os.close(end)
        return Forked(self, ours)

    def forked(self, down: int = 3) -> int:
        """What it has forked last, as this machine counts processes; 0: nobody can say.

        Args:
            down: steps from bubblewrap; inside are the first process, a guard and what was forked.
        """
        found = self._process.pid
        with contextlib.suppress(OSError, ValueError):
            for _ in range(down):
                [found] = map(int, Path(f"/proc/{found}/task/{found}/children").read_text().split())
            return found
        return 0

    def free(self) -> None:
        """End what was forked; then it may fork again."""
        try:
            self._asks.settimeout(SOON)
            self._asks.send(b"end")
            self._expect(b".")
        except OSError:
            self.end()
            return
        with _taking:
            _idle[self._kind].append(self)

    def end(self) -> None:
        """End it, and with its first process all others."""
        self._asks.close()
        for process in (self.forked(down=1), self._process.pid):
            if process:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        self._process.wait()

    def _expect(self, word: bytes) -> None:
        if self._asks.recv(1) != word:
            raise OSError("the nest cannot do this")


class Forked:
    """A process out of a nest, with the pipes to talk to it: see `sandbox.Box`."""

    def __init__(self, nest: Nest, ends: Sequence[int]):
        self._nest: Nest | None = nest
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(end, mode, 0) for end, mode in zip(ends, ("wb", "rb", "rb"), strict=True)
        )
        self._pid = nest.forked()

    def held(self) -> int:
        return sandbox.memory_of(self._pid) if self._pid else 0

    def wait(self, seconds: float) -> None:
        """Nothing to wait for: where its pipes are closed, it has ended or is about to be."""

    def end(self) -> None:
        nest, self._nest = self._nest, None
        if nest:  # and not another's, where this is interrupted and called once more
            nest.free()


# What follows runs in the nest.


def main(work: Callable[[], None]) -> None:
    """The first process: it forks, whenever it is asked to, what then does `work`."""
    sandbox.hide()
    gc.freeze()  # what is here now is shared with all, not copied
    asked = socket.socket(fileno=os.dup(0))
    while True:
        words, pipes, *_ = socket.recv_fds(asked, 64, 3)
        if not words:  # who asks is gone
            os._exit(0)
        user, room = map(int, words.split())
        listening, telling = os.pipe()
        if (guard := os.fork()) == 0:
            with _no_return():
                _guard(user, room, pipes, telling, asked, work)
        for end in (telling, *pipes):
            os.close(end)
        if os.read(listening, 1) != b"+":
            os._exit(1)
        os.close(listening)
        asked.send(b"+")
        os.waitpid(guard, 0)
        asked.send(b".")


def _guard(user: int, room: int, pipes: Sequence[int], telling: int, asked, work: Callable) -> None:
    """Start what does `work`, the first of its own processes, and end it when that is asked."""
    _call("unshare", _OWN_PROCESSES)
    if (child := os.fork()) == 0:
        with _no_return():
            _put_up_walls(user, room)
            for place, pipe in enumerate(pipes):
                os.dup2(pipe, place)
            os.write(telling, b"+")
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            work()
    for end in (telling, *pipes):
        os.close(end)
    asked.recv(3)
    os.kill(child, signal.SIGKILL)  # the first takes all others along
    os.waitpid(child, 0)


@contextlib.contextmanager
def _no_return():
    """The process ends with the block."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(0)


def _put_up_walls(user: int, room: int) -> None:
    """Its own places to write, its own processes in /proc, no rights.

    Raises:
        OSError, RuntimeError: there is no telling that they stand.
    """
    os.setsid()  # a signal to its group would reach the nest
    _call("unshare", _OWN_MOUNTS | _OWN_MEMORY | _OWN_NETWORK)
    _call("mount", None, b"/", None, _PRIVATE | _ALL_BELOW, None)
    harmless = _NO_SETUID | _NO_DEVICES
    read_only = _REMOUNT | _BIND | _READ_ONLY
    _call("mount", None, b"/dev", None, read_only | harmless, None)
    _call("mount", None, b"/dev/pts", None, read_only | _NO_SETUID | _NO_PROGRAMS, None)
    for place, mode in ((b"/tmp", 1777), (b"/box", 777), (b"/dev/shm", 1777)):
        shown = {path: os.open(path, os.O_PATH) for path in _mounted_below(place)}
        _call("mount", b"tmpfs", place, b"tmpfs", harmless, f"mode={mode},size={room}".encode())
        for path, seen in shown.items():  # as where the course itself is in /tmp
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path) if os.path.isdir(f"/proc/self/fd/{seen}") else os.mknod(path)
            _call("mount", f"/proc/self/fd/{seen}".encode(), path, None, _BIND | _ALL_BELOW, None)
    _call("mount", b"proc", b"/proc", b"proc", harmless | _NO_PROGRAMS, None)
    os.chdir("/box")
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _call("prctl", _AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    _call("capset", header, none)
    about = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    rights = {int(about[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Amb")}
    if rights != {0} or about["NoNewPrivs"].strip() != "1" or 0 in map(int, about["Uid"].split()):
        raise RuntimeError("it still has rights")


def _mounted_below(place: bytes) -> list[bytes]:
    """The mounts in a folder; what is mounted inside one of them comes along with it."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    places = [re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), x.split()[4]) for x in lines]
    inside = [path for path in places if path.startswith(place + b"/")]
    return [x for x in inside if not any(x.startswith(other + b"/") for other in inside)]


def _call(name: str, *words) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*words) != 0:
        raise OSError(ctypes.get_errno(), name)
