"""An answer in a process of its own: it sees inputs only, and cannot forge a verdict."""

import textwrap

import pytest
import torch

from tfcourse.checks import find_exercise
from tfcourse.checks.judging import judge
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect_apart
from tfcourse.checks.solutions import find_solution

RIGHT = (
    "import torch\ndef causal_mask(tokens):\n    return torch.ones(tokens, tokens).tril().bool()"
)


def verdict_of(source, name="causal_mask", seconds=60):
    exercise = find_exercise(name)
    outputs = collect_apart(textwrap.dedent(source), name, exercise.cases(), seconds=seconds)
    return judge(exercise, outputs)


def test_a_right_answer():
    assert verdict_of(RIGHT).right


def test_a_class_with_its_weights_and_gradients():
    source = "import torch\nfrom torch import nn\nfrom tfcourse import attention\n"
    source += "from tfcourse.attention import split_heads, merge_heads\n"
    assert verdict_of(
        source + find_solution(find_exercise("MultiHeadAttention")), "MultiHeadAttention"
    ).right


def test_the_learners_line_is_told_from_there_too():
    verdict = verdict_of("def causal_mask(tokens):\n    return 1 / 0")
    assert verdict.diagnosis == "raised"
    assert "Line 2, `return 1 / 0`: ZeroDivisionError" in verdict.message


@pytest.mark.parametrize(
    ("source", "diagnosis", "said"),
    [
        ("import os\nos._exit(0)", "crashed", "ended the process (exit 0)"),
        (
            "def causal_mask(tokens):\n    while True: pass",
            "endless",
            "did not end within 6 seconds",
        ),
        ("import sys\nsys.exit(3)", "crashed", "ended the process (exit 3)"),
        ("def other(tokens): pass", "raised", "there is no 'causal_mask'"),
        ("def causal_mask(tokens)\n    pass", "raised", "SyntaxError"),
        ("def causal_mask(tokens): raise NotImplementedError", "to do", "To do"),
    ],
)
def test_what_goes_wrong_there_costs_this_exercise_alone(source, diagnosis, said):
    verdict = verdict_of(source, seconds=6 if "while True" in source else 60)
    assert verdict.diagnosis == diagnosis
    assert said in verdict.message


@pytest.mark.parametrize(
    "forgery",
    [
        """
        import tfcourse.checks.judging as judging
        judging.judge = judging.same = lambda *args, **kwargs: True
        def causal_mask(tokens):
            return 3
        """,
        """
        import tfcourse.checks.exercise as e, tfcourse.checks.running as r
        r._plain = lambda value: {"state": "right"}
        def causal_mask(tokens):
            return "✓ causal_mask: Right, in all 4 cases."
        """,
        """
        import sys, torch
        torch.save([{"value": None, "kind": "right"}] * 4, sys.argv[2])
        import os; os._exit(0)
        """,
        """
        import sys, torch
        count = len(torch.load(sys.argv[1], weights_only=True)["inputs"])
        torch.save([{"value": None, "kind": "right"}] * count, sys.argv[2])
        import os; os._exit(0)
        """,
        """
        import sys
        class Evil:
            def __reduce__(self):
                return (print, ("✓",))
        import pickle
        open(sys.argv[2], "wb").write(pickle.dumps([Evil()]))
        import os; os._exit(0)
        """,
    ],
)
def test_a_verdict_cannot_be_forged(forgery, capfd):
    assert not verdict_of(forgery).right
    assert "✓" not in capfd.readouterr().out


def test_what_leaves_holds_nothing_expected():
    for exercise in exercises().values():
        for case in exercise.cases():
            inputs = case.inputs()
            names = {"args", "kwargs", "build", "weights", "gradients", "seed", "watched"}
            assert set(inputs) == names | {"largest", "twice", "training"}
        case = exercise.cases()[0]  # at the edge what is right may be one of the inputs
        if isinstance(case.expected, tuple):
            held = [t for t in case.inputs()["args"] if isinstance(t, torch.Tensor)]
            for right in case.expected:
                assert not any(t.shape == right.shape and torch.equal(t, right) for t in held)
