"""What a process in the sandbox can see, use and leave behind; each test tries to get out."""

import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tfcourse.classroom import nest, sandbox
from tfcourse.classroom.sandbox import Box, Ended, Limits, NoSandbox

FEW = Limits(seconds=20)

needs_walls = pytest.mark.usefixtures("bubblewrap")


def run(code, **options):
    options = {"limits": FEW} | options
    return sandbox.run([sys.executable, "-c", textwrap.dedent(code)], **options)


def run_forked(code, given=b"", limits=FEW, readable=()):
    """The same in a process out of a nest, which reads its code first."""
    process = nest.fork(NESTED, readable=[ROOT / "tfcourse", *readable], empty=[], limits=limits)
    assert process, "this machine lets bubblewrap work, and no nest in it"
    with Box(process, limits) as box:
        box.send(textwrap.dedent(code).encode().hex().encode() + b"\n" + given, last=True)
        box.listen()
    return Ended(bytes(box.said), 0, box.last_errors, box.stopped)


NESTED = [
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tfcourse.classroom import nest; "
    "nest.main(lambda: exec(bytes.fromhex(sys.stdin.readline()), {'__name__': '__main__'}))",
]
both_ways = pytest.mark.parametrize("run", [run, run_forked])


@needs_walls
@both_ways
def test_it_takes_what_is_given_and_gives_back_what_is_written(run):
    ended = run("import sys; print(sys.stdin.read()[::-1]); print('aside', file=sys.stderr)",
                given=b"abc")  # fmt: skip
    assert (ended.output, ended.status, ended.errors, ended.stopped) == (b"cba\n", 0, "aside", "")


@needs_walls
@both_ways
def test_it_sees_nothing_but_what_it_is_given(run, tmp_path):
    (tmp_path / "hidden").write_text("x")
    (tmp_path / "shown").write_text("y")
    ended = run(
        f"""
        import os
        here = {str(tmp_path)!r}
        print(os.listdir(here), open(here + "/shown").read())
        home = os.path.expanduser("~")
        print(os.path.exists({str(ROOT / "solutions")!r}), os.listdir(home))
        print(os.listdir("/box"), [x for x in os.listdir("/proc") if x.isdigit()])
        print(sorted(os.environ), os.uname().nodename)
        """,
        readable=[tmp_path / "shown"],
    )
    listed, hidden, own, environment = ended.output.decode().splitlines()
    assert listed == "['shown'] y"
    assert hidden == "False []"
    assert own == "[] ['1']"  # its own, the first
    assert environment.endswith(" box")
    for name in ("USER", "TFCOURSE_HOME", "PYTHONPATH"):
        assert f"'{name}'" not in environment


@needs_walls
@both_ways
def test_it_is_nobody_and_cannot_become_anybody(run):
    ended = run("import os; print(os.getuid()); os.setuid(0)")
    assert "PermissionError" in ended.errors or "OSError" in ended.errors
    if os.geteuid() == 0:
        assert int(ended.output) > 0


@needs_walls
@both_ways
@pytest.mark.parametrize("where", [str(ROOT / "new"), "/new", "/usr/new", "/etc/new", "/srv/new"])
def test_it_can_write_nowhere_but_in_its_own_folder(run, where):
    ended = run(f"open('/box/new', 'w').write('x'); print('own'); open({where!r}, 'w')")
    assert ended.output == b"own\n"
    assert "Error" in ended.errors
    assert not Path(where).exists()


@needs_walls
@both_ways
def test_it_reaches_no_network_not_even_this_machine(run):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = run(f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)")
        assert "Error" in ended.errors
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()


@needs_walls
@both_ways
def test_it_cannot_look_at_other_processes_or_end_them(run):
    other = subprocess.Popen(["sleep", "60"])
    try:
        ended = run(f"import os; os.kill({other.pid}, 9)")
        assert "ProcessLookupError" in ended.errors or "PermissionError" in ended.errors
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@needs_walls
@both_ways
def test_too_many_processes_are_refused_and_none_is_left(run):
    ended = run(
        """
        import os, time
        made = 0
        try:
            while True:
                if os.fork() == 0:
                    time.sleep(50)
                    os._exit(0)
                made += 1
        except OSError:
            print(made)
        """,
        limits=Limits(seconds=20, processes=40),
    )
    assert 0 < int(ended.output) <= 40
    assert not _alive("time.sleep(50)")


@needs_walls
@both_ways
def test_what_it_leaves_behind_is_ended(run):
    ended = run("import subprocess; subprocess.Popen(['sleep', '987654'], start_new_session=True)")
    assert ended.stopped == ""
    time.sleep(0.2)
    assert not _alive("987654")


@needs_walls
@both_ways
def test_memory_and_disk_are_bounded(run):
    ended = run("bytearray(20 * 2**30)")
    assert "MemoryError" in ended.errors
    ended = run("open('/box/x', 'wb').write(bytes(10**8))", limits=Limits(seconds=20, files=10**6))
    assert "OSError" in ended.errors
    ended = run(
        """
        for i in range(100):
            open(f"/box/{i}", "wb").write(bytes(10**5))
        """,
        limits=Limits(seconds=20, files=10**6),
    )
    assert "No space left" in ended.errors


@pytest.mark.parametrize("walls", [sandbox.BUBBLEWRAP, sandbox.NONE])
def test_time_and_output_are_bounded(walls, request):
    if walls == sandbox.BUBBLEWRAP:
        request.getfixturevalue("bubblewrap")
    began = time.monotonic()
    ended = run("while True: pass", limits=Limits(seconds=1.5), walls=walls)
    assert ended.stopped == "did not end within 1.5 seconds"
    assert time.monotonic() - began < 5
    ended = run("while True: print('x' * 9999)", limits=Limits(seconds=20, output=10**6),
                walls=walls)  # fmt: skip
    assert ended.stopped == "gave back more than 1,000,000 bytes"
    assert ended.output == b""
    ended = run("import sys\nwhile True: sys.stderr.write('x' * 9999)", limits=Limits(seconds=1.5),
                walls=walls)  # fmt: skip
    assert len(ended.errors) <= 4000


@needs_walls
@both_ways
def test_many_at_a_time_keep_apart(run):
    found = {}

    def one(i):
        found[i] = run(f"open('/box/name', 'w').write('{i}')\nimport os; print(os.listdir('/box'))")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {ended.output for ended in found.values()} == {b"['name']\n"}


@needs_walls
@both_ways
def test_torch_runs_in_it(run):
    ended = run("import torch; print(torch.ones(3).sum().item())", limits=Limits(seconds=60))
    assert ended.output == b"3.0\n", ended


def test_where_there_is_none_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoSandbox, match="apt install bubblewrap"):
        sandbox.check()


def test_who_is_to_be_another_user_is_never_oneself(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert "--reuid=61184" in sandbox._around(sandbox.ANOTHER_USER, [], [], FEW, 61184)
    monkeypatch.delattr(os, "geteuid")  # as on Windows
    assert "--reuid=61184" not in sandbox._around(sandbox.NONE, [], [], FEW, 61184)


def _alive(words):
    return subprocess.run(["pgrep", "-f", words], capture_output=True).returncode == 0
