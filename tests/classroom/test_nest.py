"""What comes out of one nest, one after the other, shares nothing; and the nest is out of reach.

That each has the same walls as a process of its own is tried in test_sandbox.py.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.classroom import made
from tests.classroom.test_sandbox import FEW, NESTED, run_forked
from tests.conftest import ROOT
from tfcourse.classroom import cells, judge, nest, sandbox
from tfcourse.classroom.sandbox import Limits

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture(autouse=True)
def no_nests(monkeypatch):
    """Each test begins without nests, and with none that failed."""
    monkeypatch.setattr(nest, "_idle", {})
    monkeypatch.setattr(nest, "_able", {})
    yield
    for waiting in nest._idle.values():
        for one in waiting:
            one.end()


def waiting():
    return [one for nests in nest._idle.values() for one in nests]


def test_one_nest_is_enough_and_nothing_stays_from_one_to_the_next():
    look = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        for place in ("/tmp", "/box", "/dev/shm"):
            print(place, os.listdir(place))
        print("segment", libc.shmget(4711, 4096, 0))
        print("processes", [x for x in os.listdir("/proc") if x.isdigit()])
        print("module", hasattr(os, "left"), "limit", __import__("resource").getrlimit(0))
    """
    leave = """
        import signal, subprocess, sys, resource
        for place in ("/tmp", "/box", "/dev/shm"):
            os.mkdir(place + "/mine")
            open(place + "/left", "w").write("x")
        print("made", libc.shmget(4711, 4096, 0o1666) >= 0, libc.mq_open(b"/left", 0o102, 0o666, 0))
        os.left = True
        resource.setrlimit(0, (5, 5))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "987653"], start_new_session=True)
    """
    first = run_forked(textwrap.dedent(look) + textwrap.dedent(leave))
    [one] = waiting()
    assert "made True" in first.output.decode(), first
    second = run_forked(look)
    assert waiting() == [one]
    assert second.output.decode() == first.output.decode().split("made")[0]
    assert "left" not in second.output.decode()
    assert "processes ['1']" in second.output.decode()
    assert subprocess.run(["pgrep", "-f", "sleep 987653"], capture_output=True).returncode == 1


def test_the_nest_is_out_of_reach():
    ended = run_forked(
        """
        import errno, os, resource, signal
        print(os.getpid(), os.getppid(), os.getsid(0))
        harms = (
            lambda number: os.kill(number, signal.SIGSTOP),
            lambda number: resource.prlimit(number, resource.RLIMIT_NPROC, (1, 1)),
            lambda number: os.open(f"/proc/{number}/fd/0", os.O_RDONLY),
            lambda number: os.pidfd_open(number),
        )
        for number in range(2, 300):
            for harm in harms:
                try:
                    print("reached", number, harm(number))
                except OSError as error:
                    if error.errno not in (errno.ESRCH, errno.ENOENT):
                        print(number, error)
        held = []
        for end in range(256):
            try:
                os.fstat(end)
                held.append(end)
            except OSError:
                pass
        print(held)
        for line in open("/proc/self/status"):
            if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb")):
                print(line.split()[1], flush=True)
        if os.fork() == 0:
            os.kill(0, signal.SIGSTOP)  # all of its group
        """
    )
    assert ended.output.decode().splitlines() == ["1 0 1", "[0, 1, 2]", *["0" * 16] * 4], ended
    assert run_forked("print('on')").output == b"on\n"


def test_it_can_write_in_its_three_places_only():
    ended = run_forked(
        """
        import os
        for folder, inner, _ in os.walk("/", onerror=lambda error: None):
            if folder == "/proc" or folder.count("/") > 2:
                inner.clear()
            try:
                open(folder + "/new", "w").close()
                os.remove(folder + "/new")
                print(folder)
            except OSError:
                pass
        """,
        limits=Limits(seconds=60),
    )
    written = {*ended.output.decode().split()}
    on_the_way = {*map(str, ROOT.parents)} - {"/tmp"}  # where the course itself is in /tmp
    assert written - on_the_way == {"/box", "/dev/shm", "/tmp"}, ended
    assert not (ROOT / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")
def test_each_is_another_user():
    seen = [int(run_forked("import os; print(os.getuid())").output) for _ in range(2)]
    assert len(set(seen)) == 2
    assert all(user in sandbox.USERS for user in seen)


def test_where_one_has_ended_another_is_made():
    run_forked("pass")
    [one] = waiting()
    os.kill(one.forked(down=1), signal.SIGKILL)
    assert run_forked("print(2)").output == b"2\n"
    [two] = waiting()
    assert two is not one


def test_what_is_forked_is_counted_without_the_nest():
    process = nest.fork(NESTED, readable=[ROOT / "tfcourse"], empty=[], limits=FEW)
    try:
        with process.stdin:
            code = b"import time; data = b'1' * 10**8; time.sleep(30)"
            process.stdin.write(code.hex().encode() + b"\n")
        deadline = time.monotonic() + 10
        while process.held() < 10**8 and time.monotonic() < deadline:
            time.sleep(0.01)
        before = sandbox.memory_of(process._nest._process.pid)
        assert 10**8 < process.held() <= before
    finally:
        process.end()


def test_with_the_grader_all_of_it_ends():
    grader = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1])\n"
         "import time\nfrom tests.classroom.test_sandbox import *\n"
         "process = nest.fork(NESTED, readable=[ROOT / 'tfcourse'], empty=[], limits=FEW)\n"
         "process.stdin.write(b'import time; time.sleep(987651)'.hex().encode() + b'\\n')\n"
         "print(process._nest._process.pid, flush=True)\ntime.sleep(60)",
         str(ROOT)], stdout=subprocess.PIPE,
    )  # fmt: skip
    walls = int(grader.stdout.readline())
    assert Path(f"/proc/{walls}").exists()
    grader.kill()
    grader.wait()
    grader.stdout.close()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{walls}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{walls}").exists()


def test_where_there_can_be_none_each_notebook_has_walls_of_its_own(monkeypatch):
    whole = sandbox.around_a_nest

    def without_rights(*given):
        words = whole(*given)
        at = words.index("CAP_SYS_ADMIN")
        return words[: at - 1] + words[at + 1 :]

    monkeypatch.setattr(sandbox, "around_a_nest", without_rights)
    began = []
    monkeypatch.setattr(judge, "Walled", lambda *a, **k: began.append(1) or sandbox.Walled(*a, **k))
    lesson = judge.open_lesson("00_start_here", ROOT / "solutions")
    marks = judge.grade(cells.code(made.solved_notebook("00_start_here")), lesson)
    assert {mark.state for mark in marks} == {"right"}
    assert (len(began), [*nest._able.values()], waiting()) == (1, [False], [])
