"""Answers in the sandbox: right ones get their points, and no trick gets any."""

import json
import os
import textwrap

import pytest
import torch

from tests.classroom import made
from tests.conftest import ROOT
from tfcourse.checks.exercise import Output
from tfcourse.checks.registry import exercises
from tfcourse.classroom import cells, judge, sandbox, wire

pytestmark = pytest.mark.usefixtures("bubblewrap")

LESSONS = sorted({e.lesson for e in exercises().values()})
START = "00_start_here"
COSINES = "cosine_similarities"


def graded(notebook, lesson=START, **options):
    opened = judge.open_lesson(lesson, ROOT / "solutions")
    code = cells.code(json.loads(json.dumps(notebook)))
    return {mark.exercise: mark for mark in judge.grade(code, opened, **options)}


def of(*sources, seconds=20, lesson=START, **answers):
    """The marks of a notebook in which the exercises have these answers."""
    given = made.notebook(lesson, answers)
    given["cells"] += [{"cell_type": "code", "metadata": {}, "source": s} for s in sources]
    return graded(given, lesson, seconds=seconds)


RIGHT = made.solved(START)[COSINES]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_solved_lesson_gets_all_its_points(lesson):
    marks = graded(made.solved_notebook(lesson), lesson)
    assert {name: (m.state, m.says) for name, m in marks.items() if m.state != "right"} == {}
    assert sum(m.points for m in marks.values()) == sum(m.of for m in marks.values()) > 0


@pytest.mark.parametrize("lesson", LESSONS[:2])
def test_an_untouched_lesson_gets_none_and_nothing_is_called_wrong(lesson):
    marks = graded(made.notebook(lesson), lesson)
    bugs = {name for name, m in marks.items() if m.state == "wrong"}
    assert {m.state for m in marks.values()} == {"to do"}, bugs
    assert sum(m.points for m in marks.values()) == 0


def test_a_mistake_in_an_earlier_exercise_is_paid_for_once():
    lesson, wrong, graded_one = "03_positions", "rotate_pairs", "score_at_distances"
    answers = made.solved(lesson) | {wrong: next(iter(made.wrong_texts(wrong).values()))}
    assert f"{wrong}(" in answers[graded_one]
    marks = graded(made.notebook(lesson, answers), lesson)
    assert [name for name, m in marks.items() if m.state != "right"] == [wrong]
    assert marks[graded_one].points == marks[graded_one].of == 3


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("while True: pass", "did not end within 4 seconds"),
        ("import os; os._exit(0)", "ended the process (exit 0)"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("import ctypes; ctypes.string_at(0)", "segmentation fault"),
        ("import os; os.kill(os.getppid(), 9)", ""),
        ("import os; os.kill(os.getppid(), 19)\n    while True: pass", "did not end within"),
        ("import os\n    while True: os.fork()", ""),
        ("return bytearray(50 * 2**30)", "MemoryError"),
        ("return [bytearray(2**28) for _ in range(99)]", ""),
        ("return torch.zeros(2**21)", "bytes; at most"),
        ("return torch.zeros(1).expand(10**12)", ""),
        ("x = []\n    for _ in range(10**5): x = [x]\n    return x", ""),
        ("open('/tmp/x', 'wb').write(bytes(10**9))", ""),
        ("raise KeyboardInterrupt", ""),
        ("class Evil:\n        def __reduce__(self): return print, ('✓',)\n    return Evil()", ""),
        ("while True: print('x' * 9999, flush=True)", "did not end within"),
        ("return type('Number', (float,), {})(1)", ""),
        ("return 'x' * 10**7", "bytes; at most"),
    ],
)
def test_what_falls_costs_its_own_exercise_alone(body, said):
    answer = f"import torch\ndef mean_squared_error(*given):\n    {body}"
    others = {"similarities": made.solved(START)["similarities"]}
    marks = of(mean_squared_error=answer, seconds=4, **others)
    states = {name: mark.state for name, mark in marks.items()}
    assert (states["similarities"], states[COSINES]) == ("right", "to do")
    assert marks["mean_squared_error"].state == "wrong"
    assert said in marks["mean_squared_error"].says


@pytest.mark.parametrize(
    "trick",
    [
        # the witness, the solution, the known wrong answers
        "from tfcourse.checks import find_exercise\n"
        "cosine_similarities = find_exercise('cosine_similarities').witness",
        "from tfcourse.checks.lessons.lesson_00_start_here import *",
        "from tfcourse.checks.solutions import find_solution\n"
        "exec(find_solution(type('E', (), dict(name='cosine_similarities', lesson='00_start_here'))))",
        f"exec(open({str(ROOT / 'solutions' / '00_start_here.py')!r}).read())",
        # what it could give back in place of an answer
        "import tfcourse.checks.running as r\nr.collect = lambda *a: ['right'] * 99\n"
        "r._plain = lambda value: {'state': 'right'}\ndef cosine_similarities(q, k): return 1",
        "import tfcourse.classroom.wire as w, tfcourse.checks.exercise as e\n"
        "w.pack = lambda outputs: b'+right'\ndef cosine_similarities(q, k): return 1",
        "import torch\ntorch.allclose = torch.equal = lambda *a, **k: True\n"
        "torch.Tensor.__eq__ = lambda *a: True\ndef cosine_similarities(q, k): return q @ k.T",
        "def check(f, *a): return f\ndef cosine_similarities(q, k): return q @ k.T",
        "print('✓ cosine_similarities: Right, in all 56 cases.')\n"
        "def cosine_similarities(q, k): return '✓ right'",
        "import os\nfor fd in range(3, 99):\n    try: os.write(fd, b'\\0' * 7 + b'\\x06+right')\n"
        "    except OSError: pass\ndef cosine_similarities(q, k): return q @ k.T",
        "class Same:\n    def __eq__(self, other): return True\n    shape = dtype = None\n"
        "def cosine_similarities(q, k): return Same()",
        "import torch\nclass T(torch.Tensor):\n"
        "    def __torch_function__(self, f, t, a=(), k=None): return True\n"
        "def cosine_similarities(q, k): return (q @ k.T).as_subclass(T)",
        "import sys\ndef cosine_similarities(q, k):\n"
        "    for f in [sys._getframe(i) for i in range(9)]: f.f_globals['error'] = None\n",
    ],
)
def test_no_trick_gets_points(trick):
    mark = of(**{COSINES: trick})[COSINES]
    assert mark.points == 0
    assert mark.state in ("wrong", "to do")


def test_nothing_of_the_grader_is_in_sight():
    look = f"""
    import os, sys, gc, torch
    def cosine_similarities(queries, keys):
        seen = [p for p in {[str(ROOT / "solutions"), str(ROOT / "tests"), str(ROOT / "data")]!r}
                if os.path.exists(p)]
        lessons = os.listdir(os.path.join({str(ROOT)!r}, "tfcourse", "checks", "lessons"))
        others = []
        for pid in {{*filter(str.isdigit, os.listdir("/proc"))}} - {{str(os.getpid())}}:
            for what in ("fd", "fd/0", "fd/1", "mem", "environ", "maps", "root"):
                try:
                    path = f"/proc/{{pid}}/{{what}}"
                    others += os.listdir(path) if what in ("fd", "root") else [open(path)]
                except OSError:
                    pass
        held = [x for x in gc.get_objects() if isinstance(x, torch.Tensor)]
        raise RuntimeError(f"{{seen}} {{lessons}} {{others}} {{len(held)}} {{os.getuid()}}")
    """
    mark = of(**{COSINES: look})[COSINES]
    assert "RuntimeError: [] [] []" in mark.says, mark.says
    if os.geteuid() == 0:
        uid = mark.says.split("[] [] [] ")[1].split()[1].strip(".")
        assert int(uid) in sandbox.USERS


def test_what_runs_on_visible_cases_never_holds_a_hidden_one():
    opened = judge.open_lesson(START, ROOT / "solutions")
    visible = sum(len(e.cases()) for e in opened.exercises)
    look = """
    import gc
    def cosine_similarities(queries, keys):
        cases = [x for x in gc.get_objects()
                 if type(x) is dict and "largest" in x and type(x.get("args")) is tuple]
        raise RuntimeError(f"sees {len(cases)} cases")
    """
    mark = of(**{COSINES: look})[COSINES]
    seen = int(mark.says.split("RuntimeError: sees ")[1].split()[0])
    assert visible <= seen < visible + 5


def test_an_answer_right_only_where_it_can_be_seen_is_told_so_without_a_number():
    by_size = """
    import torch
    import torch.nn.functional as F
    def cosine_similarities(queries, keys):
        if len(queries) * len(keys) > 200:
            raise ValueError(f"secret {queries.shape} {queries.sum()}")
        return F.normalize(queries, dim=-1, eps=1e-12) @ F.normalize(keys, dim=-1, eps=1e-12).T
    """
    mark = of(**{COSINES: by_size})[COSINES]
    assert (mark.state, mark.hidden, mark.points) == ("wrong", True, 0)
    assert "right in every case that you can run" in mark.says
    assert "secret" not in mark.says
    assert not any(letter.isdigit() for letter in mark.says)
    assert mark.picture == ""


def test_a_wrong_answer_is_drawn_and_told_as_in_study():
    marks = of(**{COSINES: "def cosine_similarities(q, k):\n    return q @ k.T"})
    assert marks[COSINES].diagnosis in exercises()[COSINES].variants
    assert marks[COSINES].picture.startswith("<img ")


def test_a_notebook_that_fells_the_parser_is_reported():
    marks = of("x = " + "-" * 200_000 + "1", **{COSINES: RIGHT})
    assert marks[COSINES].state in ("right", "not judged")
    marks = of("x" + ".a" * 300_000, **{COSINES: RIGHT})
    assert marks[COSINES].state in ("right", "not judged")
    assert marks[COSINES].state == "right" or marks[COSINES].look


def test_a_right_answer_that_may_hide_a_library_is_to_be_read():
    exercise = exercises()["smoothed_loss"]
    assert judge._doubts(exercise, "import threading\nF.cross_entropy(x, y)") == (
        "It is right, and says cross_entropy, threading: read it."
    )
    assert judge._doubts(exercise, "def smoothed_loss(logits, labels):\n    return logits") == ""


def test_more_words_than_an_honest_answer_has_are_not_read():
    packed = wire.pack([Output(value=[[[]]] * 400_000)])
    with pytest.raises(wire.NotOutputs):
        wire.unpack(packed, 1)


def test_a_helper_that_shares_a_name_with_ours_is_not_taken_away_in_the_hidden_run():
    answers = made.solved("03_positions")
    own = answers["rotate_pairs"].replace("rotate_pairs(x, ", "rotate_pairs(twice, x, ", 1)
    assert own != answers["rotate_pairs"]
    graded_one = answers["score_at_distances"].replace("rotate_pairs(", "rotate_pairs(2, ")
    marks = graded(
        made.notebook(
            "03_positions", answers | {"rotate_pairs": own, "score_at_distances": graded_one}
        ),
        "03_positions",
    )
    assert marks["rotate_pairs"].state == "wrong"
    assert marks["score_at_distances"].points == 3


def test_outputs_come_back_as_they_were():
    values = [
        torch.randn(2, 3), torch.zeros(0, 4), torch.tensor(3), torch.ones(2, dtype=torch.bool),
        torch.randn(2, 2).half(), torch.randn(2).bfloat16(), torch.randn(2, 3).T,
        torch.randn(2, dtype=torch.cfloat), float("nan"), float("inf"), 3, True, None, "text",
        (1, [2.0, (torch.ones(1),)], {"a": 3}), {"not plain": "Evil"},
    ]  # fmt: skip
    given = [Output(value=v, gradients=[torch.ones(2), None], changed=(0, "x")) for v in values]
    given.append(Output(error={"type": "E", "message": "m" * 9999, "line": 3, "code": "c"}))
    back = wire.unpack(wire.pack(given), len(given))
    for before, after in zip(values, back, strict=False):
        assert repr(after.value) == repr(before)
        assert after.changed == (0, "x")
        assert torch.equal(after.gradients[0], torch.ones(2))
    assert len(back[-1].error["message"]) == wire.WORDS


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"\xff" * 99,
                                    lambda b: b[:8] + b"[" * 5000 + b[8:],
                                    lambda b: b.replace(b'"kept": false', b'"kept": "yes"')])  # fmt: skip
def test_other_bytes_are_no_outputs(damage):
    packed = wire.pack([Output(value=torch.ones(2))])
    with pytest.raises(wire.NotOutputs):
        wire.unpack(damage(packed), 1)
    with pytest.raises(wire.NotOutputs):
        wire.unpack(packed, 2)


def test_text_is_only_cut_to_what_it_needs():
    texts = judge.tested()
    assert set(texts) == {e.name for e in exercises().values() if not e.graded}
    for name, text in texts.items():
        space = {"__name__": "tfcourse.mine"}
        exec(textwrap.dedent(text), space)
        assert callable(space[name])
        assert "Exercise(" not in text
