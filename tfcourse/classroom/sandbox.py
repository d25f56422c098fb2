"""A process that can do no harm: Linux's bubblewrap around it, and limits on all that it may use.

What runs inside sees the interpreter, the folders that it is given to read, an empty folder of its
own in memory, and nothing else: no network, no other processes, no home, no host name. It is no
user of this machine, also where the grader is root.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Users that no machine has given away. Each process gets another, since the limit on processes
# counts all of a user's.
USERS = range(61184, 65520)
ERRORS_KEPT = 4000  # bytes of what it said last
LOOK = 0.2  # seconds from one look at its memory to the next
PAGE = 4096
BUBBLEWRAP, ANOTHER_USER, NONE = "bubblewrap", "another user", "none"
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
        start: seconds until its first word.
        silence: seconds from one word to the next.
        memory: bytes that all of its processes may hold, as the system counts what is resident.
        address: bytes of address space, of each of its processes; torch alone takes some 4 GB.
        processes: at one time, threads among them.
        files: bytes of the largest file that it may write, and of all of its own folder.
        output: bytes that it may give back.
    """

    seconds: float = 60.0
    start: float = float("inf")
    silence: float = float("inf")
    memory: int = 3 * 2**30
    address: int = 8 * 2**30
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
    _try_it()


@cache  # that it works; a failure may be mended meanwhile
def _try_it() -> None:
    look = "import importlib.util as util; print('here' if util.find_spec('torch') else 'alone')"
    ended = run([sys.executable, "-c", look], limits=Limits(seconds=60))
    if ended.output.strip() == b"alone":
        raise NoSandbox("The sandbox cannot see the packages of this Python.")
    if ended.output.strip() != b"here":
        raise NoSandbox(
            f"bubblewrap is here, but may not make a sandbox: {ended.errors or ended.stopped}. On "
            "Ubuntu from 24.04 on: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0. In "
            "a container it needs the right to make namespaces (Docker: --security-opt "
            "seccomp=unconfined, or --privileged). --unsafe runs submissions without it: they can "
            "then read, change and send whatever you can."
        )


def run(
    command: Sequence[str], given: bytes = b"", limits: Limits | None = None, **options
) -> Ended:
    """Run a command, with `given` to read, and take what it writes to its standard output.

    The options are those of `Walled`.
    """
    limits = limits or Limits()
    process = Walled(command, limits=limits, **options)
    with Box(process, limits) as box:
        box.send(given, last=True)
        box.listen()
    return Ended(bytes(box.said), process.returncode, box.last_errors, box.stopped)


class Walled(subprocess.Popen):
    """A command in walls of its own.

    Args:
        command: its first word is a path; the interpreter's own folders are always readable.
        readable: files and folders that it may read, at the places where they are.
        empty: folders that it sees empty, where they lie within what it may read.
        walls: BUBBLEWRAP; or ANOTHER_USER, for root in a container that bubblewrap cannot work in:
            files that are not for everybody are out of its reach, the network is not; or NONE.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        readable: Sequence[Path] = (),
        empty: Sequence[Path] = (),
        limits: Limits,
        walls: str = BUBBLEWRAP,
    ):
        self._walls, self._user = walls, another_user()
        self._folder = tempfile.TemporaryDirectory(prefix="tfcourse-box-")
        home = self._folder.name
        if walls == ANOTHER_USER:
            os.chown(home, self._user, self._user)
        super().__init__(
            [*_around(walls, readable, empty, limits, self._user), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "HOME": home, **_ENVIRONMENT},
            cwd="/" if walls == BUBBLEWRAP else home,
            start_new_session=True,
        )

    def held(self) -> int:
        return memory_of(self.pid)

    def end(self) -> None:
        """End it, and all that it has started: the first process takes the others along."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        if self._walls == ANOTHER_USER:
            subprocess.run([*_become(self._user), "/bin/kill", "-9", "-1"], capture_output=True)
        self._folder.cleanup()


class Box:
    """A process in its walls until the block ends, and to which one can talk.

    Args:
        process: a `Walled`, or one that a `nest.Nest` has forked.

    Attributes:
        said: what it has written to its standard output; who has read it may clear it.
        stopped: in words, why it had to be stopped; "" where it was not.
    """

    def __init__(self, process, limits: Limits):
        self.process, self._limits = process, limits
        self.said, self.stopped, self._spoke = bytearray(), "", False
        self._errors, self._unsent = bytearray(), bytearray()
        os.set_blocking(process.stdin.fileno(), False)
        self._ends = time.monotonic() + limits.seconds
        self._waiting = selectors.DefaultSelector()
        for pipe in (process.stdout, process.stderr):
            self._waiting.register(pipe, selectors.EVENT_READ)

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *error) -> None:
        self.process.end()
        self._waiting.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    @property
    def last_errors(self) -> str:
        return self._errors.decode(errors="replace").strip()

    def send(self, given: bytes, *, last: bool = False) -> None:
        """Give it something to read, while one listens; after the last it reads the end."""
        self._unsent += given
        self._last = last
        self._waiting.register(self.process.stdin, selectors.EVENT_WRITE)

    def listen(self, enough: Callable[[bytearray], bool] = lambda said: False) -> bool:
        """Wait until it has said enough, or has ended; whether it has said enough."""
        patience = self._limits.silence if self._spoke else self._limits.start
        silent = time.monotonic() + patience
        while not enough(self.said):
            now = time.monotonic()
            if now >= min(self._ends, silent):
                patience = self._limits.seconds if now >= self._ends else patience
                return self._stop(f"did not end within {patience:g} seconds")
            if self.process.held() > self._limits.memory:
                return self._stop(f"took more than {self._limits.memory / 2**30:g} GB of memory")
            if not self._waiting.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(LOOK)
                    return False
            for key, _ in self._waiting.select(min(self._ends - now, silent - now, LOOK)):
                if key.fileobj is self.process.stdin:
                    self._write()
                elif self._read(key) and key.fileobj is self.process.stdout:
                    patience, self._spoke = self._limits.silence, True
                    silent = time.monotonic() + patience
            if len(self.said) > self._limits.output:
                self.said.clear()
                return self._stop(f"gave back more than {self._limits.output:,} bytes")
        return True

    def _stop(self, why: str) -> bool:
        self.stopped = why
        return False

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self.process.stdin.fileno(), self._unsent[: 2**16])]
        except BlockingIOError:
            return
        except OSError:  # it reads no more
            self._unsent.clear()
        if not self._unsent:
            self._waiting.unregister(self.process.stdin)
            if self._last:
                with contextlib.suppress(BrokenPipeError):
                    self.process.stdin.close()

    def _read(self, key) -> bool:
        part = os.read(key.fd, 2**16)
        if not part:
            self._waiting.unregister(key.fileobj)
        if key.fileobj is self.process.stdout:
            self.said += part
        else:
            self._errors += part
            del self._errors[:-ERRORS_KEPT]
        return bool(part)


def another_user() -> int:
    return USERS[next(_turn) % len(USERS)]


_turn = itertools.count(int.from_bytes(os.urandom(2)))  # several graders hardly ever meet
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",
    "MPLBACKEND": "agg",
    "HF_HUB_OFFLINE": "1",
}


def _around(walls: str, readable, empty, limits: Limits, user: int) -> list[str]:
    """The commands that come before the one to run, from the outermost on."""
    if walls == BUBBLEWRAP:
        become = _become(user) if os.geteuid() == 0 else []
        return [*_walls(readable, empty, limits), *become, *_limited(limits)]
    become = _become(user) if walls == ANOTHER_USER else []
    return [*become, *(_limited(limits) if shutil.which("prlimit") else [])]


def around_a_nest(readable, empty, limits: Limits) -> list[str]:
    """The same for a process that will put walls around others itself, and is trusted."""
    return [*_walls(readable, empty, limits, nest=True), *_limited(limits)]


def _limited(limits: Limits) -> list[str]:
    """The limits that the system keeps for each process."""
    most = {
        "as": limits.address,
        "cpu": int(limits.seconds) + 5 if limits.seconds < float("inf") else "unlimited",
        "fsize": limits.files,
        "core": 0,
        "nofile": 256,
        "nproc": limits.processes,
    }
    return ["/usr/bin/prlimit", *(f"--{name}={value}" for name, value in most.items()), "--"]


def _become(user: int) -> list[str]:
    words = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    return [*words, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"]


def _walls(readable, empty, limits: Limits, nest: bool = False) -> list[str]:
    """bubblewrap, and all that it is to do before the command."""
    root = os.geteuid() == 0
    # The first process of its own: otherwise bubblewrap's is, whose pipes all others could open.
    words = ["bwrap", "--new-session", "--clearenv", "--as-pid-1"]
    # The parent is a thread, and a nest outlives it; it ends with what it is asked through.
    words += [] if nest else ["--die-with-parent"]
    # As root there is no user namespace: inside it the user would be root's, and no limit on the
    # number of processes would bind. So the command becomes another user by itself.
    if root:
        words += [f"--unshare-{x}" for x in ("ipc", "pid", "net", "uts")]
        words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        words += ["--cap-add", "CAP_KILL"] if nest else []
    else:
        words += ["--unshare-all"]
    words += ["--cap-add", "CAP_SYS_ADMIN"] if nest else []
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
    words += ["--perms", "1777", "--size", room, "--tmpfs", "/dev/shm"]
    made: set[Path] = set()
    places = [*_interpreter(), *map(Path, readable)]
    for path in places:
        for parent in reversed(path.parents):
            if parent not in made and not parent.is_relative_to("/usr") and parent != Path("/"):
                words += ["--perms", "0755", "--dir", str(parent)]
                made.add(parent)
        words += ["--ro-bind", str(path), str(path)]
    for path in empty:
        if path.is_dir() and any(path.is_relative_to(x) for x in (Path("/usr"), *places)):
            words += ["--tmpfs", str(path), "--remount-ro", str(path)]
    return [*words, "--remount-ro", "/", "--chdir", "/box", "--"]


def _interpreter() -> Iterator[Path]:
    """Where this Python and its packages are, outside of /usr, other environments' too."""
    seen: list[Path] = []
    packages = [Path(x) for x in sys.path if x.endswith(("site-packages", "dist-packages"))]
    for path in (Path(sys.base_prefix).resolve(), Path(sys.prefix), *filter(Path.is_dir, packages)):
        if not path.is_relative_to("/usr") and not any(path.is_relative_to(x) for x in seen):
            seen.append(path)
            yield path


def hide() -> None:
    """No other process may look into this one's memory or its open files."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def memory_of(pid: int) -> int:
    """Bytes of memory that a process and all of its offspring hold; 0 where nobody can say."""
    total, left = 0, [pid]
    while left:
        folder = Path("/proc", str(left.pop()))
        try:
            total += int((folder / "statm").read_text().split()[1]) * PAGE
            total += _in_memory(folder / "fd")
            for thread in (folder / "task").iterdir():
                left += map(int, (thread / "children").read_text().split())
        except (OSError, ValueError, IndexError):  # it has ended meanwhile
            continue
    return total


def _in_memory(folder: Path) -> int:
    """Bytes of a process's open files that are nowhere but in memory, where one may look."""
    total = 0
    try:
        for link in folder.iterdir():
            if os.readlink(link).startswith("/memfd:"):
                total += link.stat().st_size
    except OSError:  # it has ended meanwhile, or shows nothing
        pass
    return total
