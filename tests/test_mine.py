"""Answers that passed are kept and given back, on another day too; what fails is set aside."""

import ast
import inspect
import json
import multiprocessing
import os
import sys
import textwrap
import time

import pytest
import torch
from jupyter_client import KernelManager

from tests.answers import rights
from tests.conftest import ROOT
from tfcourse import attention, check, mine
from tfcourse.checks import keeping, store
from tfcourse.checks.judging import judge
from tfcourse.checks.registry import exercises, find_exercise
from tfcourse.checks.running import collect, collect_apart

RIGHT = """
import torch


def causal_mask(tokens):
    return torch.ones(tokens, tokens).tril().bool()
"""


class Kernel:
    """A notebook's kernel of its own: cells go in, what they show comes out as text."""

    def __init__(self, home):
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(
            env=os.environ | {"TFCOURSE_HOME": str(home), "OMP_NUM_THREADS": "1"},
            cwd=str(ROOT),
            extra_arguments=["--log-level=40"],
        )
        self._connect()

    def _connect(self):
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)

    def run(self, cell):
        shown = []

        def listen(message):
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] in ("display_data", "execute_result"):
                shown.append(content["data"]["text/plain"] + "\n")
            elif message["msg_type"] == "error":
                shown.append(f"{content['ename']}: {content['evalue']}\n")

        self.client.execute_interactive(
            textwrap.dedent(cell).strip(), timeout=120, output_hook=listen
        )
        return "".join(shown)

    def restart(self):
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self._connect()

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


# --- in a notebook, and in another one ----------------------------------------------------------

CHOSEN = [
    *("attention_scores", "causal_mask", "attention_weights"),
    *("split_heads", "merge_heads", "MultiHeadAttention"),
    *("rotate_pairs", "layer_norm", "rms_norm", "gelu", "position_wise", "TransformerBlock"),
]

MARK = """
import sys

def mark(name):
    vars(sys.modules["__main__"]).setdefault("RAN", set()).add(name)
"""


def bank(lesson):
    """A lesson's answers as a learner would have them in a cell: without the marks of the bank."""
    kinds = (ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef, ast.ClassDef)
    nodes = [node for node in ast.parse(inspect.getsource(lesson)).body if isinstance(node, kinds)]
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.decorator_list = []
    marks = "tests.wrong_answers"
    return "\n".join(ast.unparse(n) for n in nodes if getattr(n, "module", None) != marks)


def planted(exercise):
    """A right answer of the bank under the exercise's name, and a mark where it runs."""
    for attempt in rights(exercise):
        node = ast.parse(textwrap.dedent(inspect.getsource(attempt.answer))).body[0]
        own = node
        if isinstance(node, ast.ClassDef):
            own = next((m for m in node.body if getattr(m, "name", "") == "forward"), None)
        if own is None or node.name in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
            continue  # inherits what runs; calls itself
        node.name, node.decorator_list = exercise, []
        own.body.insert(0, ast.parse(f"mark({exercise!r})").body[0])
        return attempt.answer.__module__, ast.unparse(node)
    raise AssertionError(f"no right answer to {exercise} can carry a mark")


EVIL = """
open({marker!r}, "w")

def similarities(queries, keys):
    pass
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A fresh kernel, after another in which the chosen answers passed."""
    home = tmp_path_factory.mktemp("kept")
    kernel = Kernel(home)
    kernel.home, kernel.marker = home, home / "it ran"
    kernel.run(MARK + "\nfrom tfcourse import check\nfrom tfcourse.checks import keeping")
    kernel.run("keeping.QUICK = 60  # on a busy machine too, what is kept was checked")
    seen = set()
    for name in CHOSEN:
        module, cell = planted(name)
        if module not in seen:
            assert kernel.run(bank(sys.modules[module])) == ""
            seen.add(module)
        assert kernel.run(cell) == ""
        said = kernel.run(f"{name} = check({name})")
        assert said.startswith(f"✓ {name}: Right"), said
        assert "kept" not in said, said
    # An answer that builds on an earlier one, which is theirs.
    kernel.run(
        """
        def scaled_dot_product_attention(q, k, v, mask=None):
            return attention_weights(q, k, mask) @ v
        """
    )
    said = kernel.run("_ = check(scaled_dot_product_attention)")
    assert said.startswith("✓ scaled_dot_product_attention: Right")
    source = EVIL.format(marker=str(kernel.marker))
    passed = keeping.stamp(find_exercise("similarities"), source)
    write(source, "similarities", home / "answers", passed)
    kernel.restart()
    yield kernel
    kernel.stop()


def test_nothing_that_is_kept_runs_before_it_is_asked_for(kernel):
    kernel.run("import tfcourse\nfrom tfcourse import mine")
    assert "similarities: yours" in kernel.run("mine.report()")
    reply = kernel.client.complete("mine.sim", reply=True, timeout=60)
    assert reply["content"]["matches"] == ["similarities"]
    kernel.client.inspect("mine", reply=True, timeout=60)
    assert not kernel.marker.exists()
    assert "`similarities`: " in kernel.run("mine.similarities")
    assert kernel.marker.exists()


def test_answers_are_given_back_in_a_fresh_kernel(kernel):
    kernel.run(
        """
        from tfcourse import mine
        from tfcourse.checks.judging import same
        from tfcourse.checks.registry import find_exercise
        from tfcourse.checks.running import collect

        RAN = set()

        def is_right(name):
            exercise = find_exercise(name)
            given, right = (
                collect(answer, [exercise.cases()[0].inputs()])[0]
                for answer in (getattr(mine, name), exercise.witness)
            )
            return same(given.value, right.value, exercise.tolerance)
        """
    )
    for name in CHOSEN:
        said = kernel.run(f"is_right({name!r})")
        assert said.startswith(f"`{name}`: yours, of "), said
        assert said.endswith("True\n"), said
    assert kernel.run(f"RAN == set({CHOSEN})") == "True\n"
    said = kernel.run("RAN.clear(); print(is_right('scaled_dot_product_attention'), RAN)")
    assert said.endswith("True {'attention_weights'}\n"), said
    assert kernel.run("from tfcourse.mine import gelu; gelu is mine.gelu") == "True\n"  # said once


def test_a_block_of_their_parts_is_pytorchs(kernel):
    said = kernel.run(
        """
        import torch
        from torch import nn
        from tfcourse import mine

        class Block(nn.Module):
            def __init__(self, d_model, n_heads, theirs):
                super().__init__()
                self.attention, self.theirs = mine.MultiHeadAttention(d_model, n_heads), theirs
                self.attention.load_state_dict({
                    "qkv.weight": theirs.self_attn.in_proj_weight,
                    "qkv.bias": theirs.self_attn.in_proj_bias,
                    "out.weight": theirs.self_attn.out_proj.weight,
                    "out.bias": theirs.self_attn.out_proj.bias,
                })

            def norm(self, x, norm):
                return mine.layer_norm(x, norm.weight, norm.bias, norm.eps)

            def forward(self, x, mask):
                x = x + self.attention(self.norm(x, self.theirs.norm1), mask)
                hidden = mine.gelu(self.theirs.linear1(self.norm(x, self.theirs.norm2)))
                return x + self.theirs.linear2(hidden)

        torch.manual_seed(0)
        theirs = nn.TransformerEncoderLayer(
            12, 3, 40, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        for parameter in theirs.parameters():
            nn.init.normal_(parameter, std=0.5)
        x = torch.randn(2, 7, 12)
        may = mine.causal_mask(7)
        RAN = set()
        ours = Block(12, 3, theirs)(x, may)
        print(torch.allclose(ours, theirs(x, src_mask=~may), atol=1e-4), sorted(RAN))
        """
    )
    assert said.endswith("True ['MultiHeadAttention', 'gelu', 'layer_norm']\n"), said


def test_a_wrong_answer_then_a_syntax_error_then_check_again(kernel):
    kernel.run("from tfcourse import check\nfrom tfcourse.attention import causal_mask")
    kernel.run("def padding_mask(lengths, tokens):\n    raise NotImplementedError")
    assert "To do: your code is still missing." in kernel.run("padding_mask = check(padding_mask)")
    kernel.run("def padding_mask(lengths, tokens)\n    return 3")  # no colon
    said = kernel.run("padding_mask = check(padding_mask)")
    assert "To do" in said
    assert "Change your cell, run it, then this one." in said
    kernel.run("def padding_mask(lengths, tokens):\n    return None")
    first = kernel.run("padding_mask = check(padding_mask)")
    assert "Your code gave None" in first
    kernel.run("def padding_mask(lengths, tokens)\n    return 3")
    for _ in "ab":
        again = kernel.run("padding_mask = check(padding_mask)")
        assert again.startswith(first.strip())
        assert "This is still your last answer's verdict." in again
        assert "belongs to a library" not in again
    assert "belongs to a library" in kernel.run("causal_mask = check(causal_mask)")


KEPT = {
    "a helper that needs a helper and a constant": """
        LIMIT = 1 - 1

        def earlier(i, j):
            return j - i <= LIMIT

        def table(tokens):
            return [[earlier(i, j) for j in range(tokens)] for i in range(tokens)]

        def causal_mask(tokens):
            return torch.tensor(table(tokens))
        """,
    "imports of every kind": """
        import math
        import torch.nn.functional as F
        import xml.etree.ElementTree
        from math import inf as endless
        from torch import tril, ones as filled

        def causal_mask(tokens):
            xml.etree.ElementTree.Element("x")
            return tril(F.relu(filled(tokens, tokens))) * math.pi > endless * 0.0 + 0 \\
                if False else tril(filled(tokens, tokens)).bool()
        """,
    "constants": """
        NEVER, SIZES, KIND = float("-inf"), {"a": (1, [2, None])}, torch.bool

        def causal_mask(tokens):
            assert SIZES["a"][1] == [2, None]
            scores = torch.zeros(tokens, tokens)
            scores[torch.ones(tokens, tokens).triu(1).bool()] = NEVER
            return (scores == 0).to(KIND)
        """,
    "a closure": """
        def maker(shift, compare):
            def causal_mask(tokens):
                i = torch.arange(tokens)
                return compare(i[None] + shift, i[:, None])
            return causal_mask

        causal_mask = maker(0, torch.le)
        """,
    "a lambda with a name, and functions in a table": """
        steps = {"lower": torch.tril, "whole": lambda t: t.bool()}
        square = lambda n: torch.ones(n, n)
        causal_mask = lambda tokens: steps["whole"](steps["lower"](square(tokens)))
        """,
    "a decorator, a class without methods, recursion": """
        import functools
        from dataclasses import dataclass

        class Settings:
            first = 0

        @dataclass
        class More(Settings):
            last: int = 1

        def down(n):
            return n if n <= Settings.first else down(n - 1)

        def counted(function):
            @functools.wraps(function)
            def inner(*args):
                return function(*args)
            return inner

        @counted
        @torch.no_grad()
        def causal_mask(tokens):
            return torch.ones(tokens, tokens).tril(down(3) * More().last).bool()
        """,
    "another name": """
        def mein_eigenes(tokens: "how many") -> torch.Tensor:
            return torch.ones(tokens, tokens).tril().bool()

        causal_mask = mein_eigenes
        """,
    "an earlier answer that is ours": """
        attention_weights = check(attention_weights, "attention_weights")

        def causal_mask(tokens):
            attention_weights(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
            return torch.ones(tokens, tokens).tril().bool()
        """,
    "mine": """
        from tfcourse import mine as my
        from tfcourse.mine import padding_mask

        def causal_mask(tokens):
            my.padding_mask(torch.tensor([1]), 2), padding_mask(torch.tensor([1]), 2)
            return torch.ones(tokens, tokens).tril().bool()
        """,
}

NOT_KEPT = {
    "it uses `whole`, a tensor that lives in this notebook only": """
        whole = torch.ones(600, 600).tril().bool()

        def causal_mask(tokens):
            return whole[:tokens, :tokens]
        """,
    "it uses `layer`, a Linear that lives": """
        layer = torch.nn.Linear(1, 1)

        def helper(tokens):
            return torch.ones(tokens, tokens).tril() * layer.in_features

        def causal_mask(tokens):
            return helper(tokens).bool()
        """,
    "it is a partial": """
        import functools

        def shifted(shift, tokens):
            return torch.ones(tokens, tokens).tril(shift).bool()

        causal_mask = functools.partial(shifted, 0)
        """,
    "the source of `causal_mask` is not to be found": """
        exec("def causal_mask(tokens): return torch.ones(tokens, tokens).tril().bool()")
        """,
    "outside of this notebook it raises": """
        class causal_mask:
            def __new__(cls, tokens):
                return torch.ones(tokens, tokens).tril().bool()

        class causal_mask(causal_mask):
            pass
        """,
    "it uses `mine` in another way than `mine.some_name`": """
        from tfcourse import mine

        def causal_mask(tokens):
            return getattr(mine, "causal_mask")(tokens)
        """,
    "it imports from `mine` inside": """
        def causal_mask(tokens):
            from tfcourse import mine
            return mine.causal_mask(tokens)
        """,
}


def test_what_an_answer_needs_comes_along(kernel):
    """Each in the same kernel, kept; then all of them given back, in this process."""
    kernel.run(
        """
        import torch
        from tfcourse import check
        from tfcourse.checks import store

        def attention_weights(q, k, mask=None):
            raise NotImplementedError
        """
    )
    case = find_exercise("causal_mask").cases()[0]
    for what, cell in KEPT.items():
        assert kernel.run(cell).count("\n") <= 2, what
        said = kernel.run("_ = check(causal_mask, 'causal_mask')")
        assert said.startswith("✓ causal_mask: Right"), (what, said)
        assert "kept" not in said, (what, said)
        source = ast.literal_eval(kernel.run("store._record_of('causal_mask')['source']"))
        given = keeping.define("causal_mask", source)
        assert torch.equal(given(*case.args), attention.causal_mask(*case.args)), source
        for needless in ("check", "store", "kernel"):
            assert needless not in source, source
    kept = kernel.home / "answers" / "causal_mask.json"
    before = kept.read_bytes()
    for why, cell in NOT_KEPT.items():
        kernel.run(cell)
        said = kernel.run("_ = check(causal_mask, 'causal_mask')")
        assert "✓ causal_mask: Right" in said, (why, said)
        assert f"It cannot be kept for later lessons: {why}" in said, said
        assert kept.read_bytes() == before  # what was kept stays
        kernel.run("del causal_mask")


# --- what is kept -------------------------------------------------------------------------------


@pytest.fixture
def fresh(home, monkeypatch, capsys):
    """A kernel that has asked for nothing yet; returns what was said since."""
    monkeypatch.setattr(mine, "_held", {})
    monkeypatch.setattr(mine, "_said", {})
    return lambda: capsys.readouterr().out


def write(source, name="causal_mask", folder=None, passed="", version=1, **more):
    """Put an answer into the learner's folder, as if an earlier day had kept it."""
    path = (folder or store.home() / "answers") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"version": version, "kept": "2021-11-12T10:00:00+01:00", "source": source}
    path.write_text(json.dumps(record | {"passed": passed, "seconds": 0.1} | more))
    return path


def written_right():
    passed = keeping.stamp(find_exercise("causal_mask"), RIGHT)
    return write(RIGHT, passed=passed)


def apart_never(*args, **kwargs):
    raise AssertionError("checked again")


def test_it_says_whose_it_is_once(fresh):
    assert mine.causal_mask is attention.causal_mask
    assert mine.causal_mask is attention.causal_mask
    assert fresh() == "`causal_mask`: ours; yours is kept once its check passes.\n"
    written_right()
    assert mine.causal_mask.__module__ == "mine.causal_mask"
    assert mine.causal_mask is mine.causal_mask
    assert fresh() == "`causal_mask`: yours, of 12 November 2021.\n"
    assert "tril().bool()" in inspect.getsource(mine.causal_mask)  # errors show their line


def test_what_check_keeps_is_given_back(fresh, monkeypatch):
    def causal_mask(tokens):
        return torch.ones(tokens, tokens).tril().bool()

    monkeypatch.setattr(mine, "collect_apart", apart_never)  # it was checked when it was kept
    assert check(causal_mask) is causal_mask
    fresh()
    assert mine.causal_mask is not causal_mask
    assert torch.equal(mine.causal_mask(5), causal_mask(5))
    assert fresh().startswith("`causal_mask`: yours, of ")
    assert list(store.kept_answers()) == ["causal_mask"]
    check(causal_mask)
    assert not (store.home() / "answers" / "earlier").exists()  # the same again is nothing new


def test_a_slow_one_is_kept_and_checked_when_it_is_loaded(fresh, monkeypatch):
    monkeypatch.setattr(keeping, "QUICK", 0)
    monkeypatch.setattr(keeping, "_pass_alone", apart_never)

    def causal_mask(tokens):
        return torch.ones(tokens, tokens).tril().bool()

    check(causal_mask)
    assert json.loads(store.read_answer("causal_mask"))["passed"] == ""


def test_one_that_was_never_checked_as_it_stands_is_checked_apart_once(fresh, monkeypatch):
    path = write(RIGHT)
    given = mine.causal_mask
    assert given.__module__ == "mine.causal_mask"
    assert json.loads(path.read_text())["passed"]
    monkeypatch.setattr(mine, "collect_apart", apart_never)
    assert mine.causal_mask is given
    monkeypatch.setattr(mine, "_held", {})  # another kernel
    began = time.monotonic()
    assert mine.causal_mask is not given
    assert time.monotonic() - began < 0.5
    # Another text, or another version of the course, is checked again.
    monkeypatch.setattr(mine, "_held", {})
    monkeypatch.setattr("tfcourse.__version__", "9.9")
    with pytest.raises(AssertionError, match="checked again"):
        _ = mine.causal_mask


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def causal_mask(tokens):\n    while True:\n        pass", "did not end within 6 seconds"),
        ("def causal_mask(tokens):\n    return lost(tokens)", "raises NameError: name 'lost' is"),
        ("def causal_mask(tokens)\n    return 3", "raises SyntaxError: "),
        (RIGHT.replace("tril", "triu"), "no longer passes its check (looks-ahead)"),
    ],
    ids=["endless", "missing helper", "no Python", "wrong"],
)
def test_what_does_not_pass_is_set_aside(fresh, monkeypatch, source, why):
    if "while" in source:
        monkeypatch.setattr(mine, "SECONDS", 5.6)
    path = write(source)
    before = path.read_bytes()
    assert mine.causal_mask is attention.causal_mask
    said = fresh()
    assert said.startswith(f"`causal_mask`: ours; yours {why}"), said
    assert said.count("\n") == 1
    [aside] = (path.parent / "aside").iterdir()
    assert said.endswith(f"and is set aside as answers/aside/{aside.name}.\n")
    assert aside.read_bytes() == before  # nothing is lost
    assert not path.exists()
    assert mine.causal_mask is attention.causal_mask
    assert fresh() == ""


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (b"", "is in a file that is damaged"),
        (b"\xff\x00", "is in a file that is damaged"),
        (b"[" * 100_000, "is in a file that is damaged"),
        (b"null", "is in a file that is damaged"),
        (b'{"version": 1, "source": "x = 3"}', "is in a file that is damaged"),
        (b'{"version": 1, "kept": "once", "source": "", "passed": "", "seconds": 1}', "is in"),
        (b'{"version": 0, "code": "x = 3"}', "is in a file that has another version (0)"),
    ],
)
def test_a_damaged_file_or_one_of_another_version(fresh, monkeypatch, damaged, why):
    monkeypatch.setattr(mine, "collect_apart", apart_never)
    path = write("")
    path.write_bytes(damaged)
    assert store.kept_answers() == {}
    assert mine.causal_mask is attention.causal_mask
    assert fresh().startswith(f"`causal_mask`: ours; yours {why}")
    [aside] = (path.parent / "aside").iterdir()
    assert aside.read_bytes() == damaged


def test_a_damaged_file_is_kept_when_a_new_answer_comes(home):
    write("").write_bytes(b"{")
    store.keep_answer("causal_mask", RIGHT, "", 0.1)
    [earlier] = (home / "answers" / "earlier").iterdir()
    assert earlier.read_bytes() == b"{"
    assert store.sound_answer(store.read_answer("causal_mask"))["source"] == RIGHT


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    def causal_mask(tokens):
        return torch.ones(tokens, tokens).tril().bool()

    (tmp_path / "file").touch()
    monkeypatch.setattr(mine, "_held", {})
    monkeypatch.setenv("TFCOURSE_HOME", str(tmp_path / "file" / "below"))
    assert check(causal_mask) is causal_mask
    assert capsys.readouterr().err.count("\n") == 1
    assert mine.causal_mask is attention.causal_mask
    # The folder of answers alone.
    monkeypatch.setenv("TFCOURSE_HOME", str(tmp_path))
    (tmp_path / "answers").touch()
    assert check(causal_mask) is causal_mask
    said = capsys.readouterr().err
    assert said.startswith("Your `causal_mask` could not be kept in ")
    assert said.count("\n") == 1
    monkeypatch.setattr(mine, "_held", {})
    monkeypatch.setattr(mine, "_said", {})  # another kernel
    assert mine.causal_mask is attention.causal_mask
    assert "yours passed, but is not kept here: run its check again." in capsys.readouterr().out


def test_where_nothing_can_be_checked_ours_is_used(fresh, monkeypatch):
    def no_process(*args, **kwargs):
        raise OSError("no process")

    path = write(RIGHT)
    monkeypatch.setattr(mine, "collect_apart", no_process)
    assert mine.causal_mask is attention.causal_mask
    assert fresh() == "`causal_mask`: ours; yours could not be checked (no process).\n"
    assert path.exists()


def test_what_cannot_be_moved_is_left(fresh):
    path = write("")
    path.write_bytes(b"{")
    (path.parent / "aside").touch()  # in the way of the folder
    assert mine.causal_mask is attention.causal_mask
    assert "is damaged, and is left where it is." in fresh()
    assert path.read_bytes() == b"{"


def keep_many(home, worker):
    os.environ["TFCOURSE_HOME"] = str(home)
    for i in range(5):
        store.keep_answer("causal_mask", f"{RIGHT}# {worker} {i}", "", 0.1)


def test_four_kernels_at_once_lose_nothing(home):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=keep_many, args=(home, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    files = [home / "answers" / "causal_mask.json", *(home / "answers" / "earlier").iterdir()]
    kept = {json.loads(file.read_text())["source"] for file in files}
    assert kept == {f"{RIGHT}# {worker} {i}" for worker in range(4) for i in range(5)}
    for i in range(30):
        store.keep_answer("causal_mask", f"x = {i}", "", 0.1)
    assert len(list((home / "answers" / "earlier").iterdir())) == store.EARLIER
    assert not list((home / "answers").glob("*.tmp"))


def test_what_another_kernel_kept_meanwhile_is_not_set_aside(fresh, monkeypatch):
    write("x = 3", passed="")
    exercise = find_exercise("causal_mask")

    def meanwhile(source, name, cases, seconds):
        store.keep_answer("causal_mask", RIGHT, keeping.stamp(exercise, RIGHT), 0.1)
        return collect(lambda tokens: None, [case.inputs() for case in cases])

    monkeypatch.setattr(mine, "collect_apart", meanwhile)
    assert mine.causal_mask is attention.causal_mask
    monkeypatch.setattr(mine, "collect_apart", apart_never)
    assert mine.causal_mask.__module__ == "mine.causal_mask"
    assert not (store.home() / "answers" / "aside").exists()


# --- where the course grades --------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["TFCOURSE_STRICT", "NBGRADER_EXECUTION"])
def test_in_grading_all_is_ours(fresh, monkeypatch, variable):
    def padding_mask(lengths, tokens):
        return torch.arange(tokens)[None, None, None] < lengths[:, None, None, None]

    written_right()
    monkeypatch.setenv(variable, "1")
    assert mine.causal_mask is attention.causal_mask
    assert fresh() == "`causal_mask`: ours, as always where the course grades.\n"
    assert check(padding_mask) is padding_mask
    assert list(store.kept_answers()) == ["causal_mask"]
    monkeypatch.delenv(variable)
    assert mine.causal_mask.__module__ == "mine.causal_mask"


def test_nothing_kept_reaches_an_answer_that_is_graded_apart(fresh):
    """A teacher's own answer must not be handed in by a learner."""
    written_right()
    exercise = find_exercise("causal_mask")
    outputs = collect_apart(
        "from tfcourse.mine import causal_mask", "causal_mask", exercise.cases()
    )
    assert judge(exercise, outputs).diagnosis == "library"


def test_a_graded_one_is_not_there_before_it_has_passed(fresh):
    with pytest.raises(AttributeError, match=r"no merge_attention yet. .* check in lesson 01"):
        _ = mine.merge_attention
    with pytest.raises(ImportError, match=r"no merge_attention yet. .* check in lesson 01"):
        from tfcourse.mine import merge_attention  # noqa: F401
    assert not hasattr(mine, "merge_attention")
    with pytest.raises(AttributeError, match="no exercise 'causal_maks'. Did you mean causal_mask"):
        _ = mine.causal_maks
    assert fresh() == ""


def test_the_report(fresh):
    assert not set(exercises()) & set(vars(mine))  # no name of the module is in their way
    written_right()
    mine.report()
    said = fresh()
    assert "causal_mask: yours, of 12 November 2021" in said
    assert "padding_mask: ours" in said
    assert "merge_attention: to do" in said
    html = mine.Report(exercises(), store.kept_answers())._repr_mimebundle_()["text/html"]
    assert html.count("<tr>") == len(exercises()) + 1


# --- the second press ---------------------------------------------------------------------------


def test_a_second_press_repeats_the_verdict(home, capsys):
    def upside_down(tokens):
        return torch.ones(tokens, tokens).triu(1).bool()

    given = check(upside_down, "causal_mask")
    first = capsys.readouterr().out
    assert check(given) is attention.causal_mask
    again = capsys.readouterr().out
    assert again.startswith(first.strip())
    assert "This is still your last answer's verdict. Change your cell, run it, then" in again
    assert store.read()["exercises"]["causal_mask"]["attempts"] == 1
