"""A process that can do no harm: Linux's bubblewrap around it, and limits on all that it may use.

What runs inside sees the interpreter, the folders that it is given to read, an empty folder of its
own in memory, and nothing else: no network, no other processes, no home, no host name. It is
nobody, also where the grader is root.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
ERRORS_KEPT = 4000  # bytes of what it said last
HOW_TO_GET_IT = (
    "Submissions are run in a sandbox, and bubblewrap, which makes it, is not here. Install it "
    "(Debian, Ubuntu: sudo apt install bubblewrap; Fedora: sudo dnf install bubblewrap; it is for "
    "Linux, so on Windows use WSL, on a Mac a Linux machine or a container), then run this again. "
    "--unsafe runs submissions without it: they can then read, change and send whatever you can."
)


class NoSandbox(RuntimeError):
    """There is no bubblewrap, or it may not do its work here."""


@dataclass(frozen=True)
class Limits:
    """What a process may use.

    Attributes:
        seconds: of wall time.
        memory: bytes of address space, of each of its processes; torch alone takes some 4 GB.
        processes: at one time, threads among them.
        files: bytes of the largest file that it may write, and of all of its own folder.
        output: bytes that it may give back.
    """

    seconds: float = 60.0
    memory: int = 8 * 2**30
    processes: int = 64
    files: int = 64 * 2**20
    output: int = 64 * 2**20


@dataclass(frozen=True)
class Ended:
    """How it went: what it gave back, and the reason in words where it did not end by itself."""

    output: bytes
    status: int
    errors: str
    stopped: str = ""


def check() -> None:
    """Whether a sandbox can be had here.

    Raises:
        NoSandbox: bubblewrap is missing, or this machine does not let it work; says what to do.
    """
    if not sys.platform.startswith("linux") or shutil.which("bwrap") is None:
        raise NoSandbox(HOW_TO_GET_IT)
    ended = run([sys.executable, "-c", "print('here')"], limits=Limits(seconds=20))
    if ended.output.strip() != b"here":
        raise NoSandbox(
            f"bubblewrap is here, but may not make a sandbox: {ended.errors or ended.stopped}. In "
            "a container it needs the right to make namespaces (Docker: --security-opt "
            "seccomp=unconfined, or --privileged). --unsafe runs submissions without it: they can "
            "then read, change and send whatever you can."
        )


def run(
    command: Sequence[str],
    given: bytes = b"",
    *,
    readable: Sequence[Path] = (),
    limits: Limits | None = None,
    unsafe: bool = False,
) -> Ended:
    """Run a command, with `given` to read, and take what it writes to its standard output.

    Args:
        command: its first word is a path; the interpreter's own folders are always readable.
        readable: files and folders that it may read, at the places where they are.
        unsafe: without a sandbox, with the limits alone.
    """
    limits = limits or Limits()
    with tempfile.TemporaryFile() as source:
        source.write(given)
        source.seek(0)
        with tempfile.TemporaryDirectory(prefix="tfcourse-box-") as box:
            process = subprocess.Popen(
                list(command) if unsafe else [*_walls(readable, limits), *command],
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": "/usr/bin:/bin", "HOME": box, **_ENVIRONMENT},
                cwd=box if unsafe else "/",
                preexec_fn=lambda: _limit(limits),
                start_new_session=True,
            )
            try:
                output, errors, stopped = _listen(process, limits)
            finally:
                _end(process)
    return Ended(output, process.returncode, errors, stopped)


_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",
    "MPLBACKEND": "agg",
    "HF_HUB_OFFLINE": "1",
}


def _walls(readable: Sequence[Path], limits: Limits) -> list[str]:
    """bubblewrap, and all that it is to do before the command."""
    root = os.geteuid() == 0
    words = ["bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    # As root there is no user namespace: inside it the user would be root's, and no limit on the
    # number of processes would bind. So the command becomes nobody by itself.
    if root:
        words += [f"--unshare-{x}" for x in ("ipc", "pid", "net", "uts")]
        words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        words += ["--unshare-all"]
    words += ["--hostname", "box"]
    for name, value in {"PATH": "/usr/bin:/bin", "HOME": "/box", **_ENVIRONMENT}.items():
        words += ["--setenv", name, value]
    words += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in ("lib", "lib64", "bin", "sbin"):
        if Path("/", name).is_symlink():
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif Path("/", name).is_dir():
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"):
        words += ["--ro-bind-try", name, name]
    room = str(limits.files)
    words += ["--perms", "1777", "--size", room, "--tmpfs", "/tmp"]
    words += ["--perms", "0777", "--size", room, "--tmpfs", "/box"]
    made: set[Path] = set()
    for path in [*_interpreter(), *map(Path, readable)]:
        for parent in reversed(path.parents):
            if parent not in made and not parent.is_relative_to("/usr") and parent != Path("/"):
                words += ["--perms", "0755", "--dir", str(parent)]
                made.add(parent)
        words += ["--ro-bind", str(path), str(path)]
    words += ["--remount-ro", "/", "--chdir", "/box", "--"]
    if root:
        words += ["/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        words += ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"]
    return words


def _interpreter() -> Iterator[Path]:
    """Where this Python and its packages are, outside of /usr."""
    seen: list[Path] = []
    for path in (Path(sys.base_prefix).resolve(), Path(sys.prefix)):
        if not path.is_relative_to("/usr") and not any(path.is_relative_to(x) for x in seen):
            seen.append(path)
            yield path


def _limit(limits: Limits) -> None:
    """In the child, before it becomes the command."""
    soft = int(limits.seconds) + 5  # of CPU time, where the clock on the wall should fail
    for what, most in (
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_CPU, soft),
        (resource.RLIMIT_FSIZE, limits.files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_NPROC, limits.processes),
    ):
        resource.setrlimit(what, (most, most))


def _listen(process, limits: Limits) -> tuple[bytes, str, str]:
    """What it says until it ends, or until it has said or taken too much."""
    ends = time.monotonic() + limits.seconds
    said, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ, said)
        waiting.register(process.stderr, selectors.EVENT_READ, errors)
        while waiting.get_map():
            left = ends - time.monotonic()
            if left <= 0:
                return bytes(said), _last(errors), f"did not end within {limits.seconds:g} seconds"
            for key, _ in waiting.select(left):
                part = os.read(key.fd, 2**16)
                if not part:
                    waiting.unregister(key.fileobj)
                key.data.extend(part)
                del errors[:-ERRORS_KEPT]
            if len(said) > limits.output:
                return b"", _last(errors), f"gave back more than {limits.output:,} bytes"
    try:
        process.wait(max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        return bytes(said), _last(errors), f"did not end within {limits.seconds:g} seconds"
    return bytes(said), _last(errors), ""


def _last(errors: bytearray) -> str:
    return errors.decode(errors="replace").strip()


def _end(process) -> None:
    """End it, and all that it has started: the first process inside takes the others along."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        pipe.close()
