"""check and hint: what a learner sees, and what the lesson goes on with."""

import functools
import re

import pytest
import torch

from tfcourse import attention, check, hint
from tfcourse.checks import CheckFailed, find_exercise
from tfcourse.checks.exercise import Output
from tfcourse.checks.judging import judge, same
from tfcourse.checks.running import collect
from tfcourse.checks.store import read
from tfcourse.checks.telling import Message, verdict_message

pytestmark = pytest.mark.usefixtures("home")


def causal_mask(tokens):
    return torch.ones(tokens, tokens).tril().bool()


def verdict_of(answer, name):
    exercise = find_exercise(name)
    return judge(exercise, collect(answer, [c.inputs() for c in exercise.cases()]))


def to_do(tokens):
    raise NotImplementedError  # your code here


def upside_down(tokens):
    return ~causal_mask(tokens)


def test_right_returns_the_learners_own(capsys):
    assert check(causal_mask) is causal_mask
    count = len(find_exercise("causal_mask").cases())
    assert capsys.readouterr().out.startswith(f"✓ causal_mask: Right, in all {count} cases.\n")
    assert "right" in read()["exercises"]["causal_mask"]


def test_to_do_returns_the_reference_and_records_nothing(capsys):
    assert check(to_do, "causal_mask") is attention.causal_mask
    assert "To do: your code is still missing." in capsys.readouterr().out
    assert read()["exercises"] == {}


def test_wrong_returns_the_reference_and_says_what(capsys):
    assert check(upside_down, "causal_mask") is attention.causal_mask
    said = capsys.readouterr().out
    assert said.startswith("✗ causal_mask: Your mask is True where a token may NOT attend.")
    assert read()["exercises"]["causal_mask"] == {"attempts": 1, "last": "inverted"}


def test_a_graded_exercise_has_no_reference():
    def merge_attention(out_a, lse_a, out_b, lse_b):
        return out_a

    assert check(merge_attention) is merge_attention
    assert find_exercise("merge_attention").reference is None


def test_checking_the_reference_again_is_no_success(capsys):
    """The check cell run twice: the name is bound to ours by then."""
    assert check(check(upside_down, "causal_mask")) is attention.causal_mask
    assert "run it, then this one" in capsys.readouterr().out
    assert "right" not in read()["exercises"]["causal_mask"]


def test_a_library_function_is_not_the_learners():
    exercise = "scaled_dot_product_attention"
    given = torch.nn.functional.scaled_dot_product_attention
    assert verdict_of(given, exercise).diagnosis == "library"
    assert verdict_of(attention.scaled_dot_product_attention, exercise).diagnosis == "library"
    wrapped = lambda q, k, v, mask=None: given(q, k, v, mask)  # noqa: E731
    assert verdict_of(wrapped, exercise).diagnosis == "library-call"


def test_strictness(monkeypatch):
    monkeypatch.setenv("TFCOURSE_STRICT", "1")
    assert check(causal_mask) is causal_mask
    with pytest.raises(CheckFailed, match="Your mask is True where a token may NOT attend"):
        check(upside_down, "causal_mask")
    with pytest.raises(CheckFailed, match="To do"):
        check(to_do, "causal_mask")


def nothing_yet(*given):
    raise NotImplementedError


def test_nbgrader_stops_at_graded_exercises_alone(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(CheckFailed, match="To do"):
        check(nothing_yet, "merge_attention")
    # What is built on practice that nobody tried goes on with ours.
    assert check(to_do, "causal_mask") is find_exercise("causal_mask").reference


def test_the_name_is_found_for_lambdas_and_partials(monkeypatch, capsys):
    import sys

    here = sys.modules[__name__]
    for answer in (lambda tokens: upside_down(tokens), functools.partial(upside_down)):
        monkeypatch.setattr(here, "causal_mask", answer)
        check(answer)
        assert "✗ causal_mask" in capsys.readouterr().out


def test_what_cannot_be_checked_is_explained():
    with pytest.raises(TypeError, match=r"your function or class itself, as in check\(my_function"):
        check(torch.ones(3))
    with pytest.raises(ValueError, match="no exercise 'casual_mask'. Did you mean causal_mask"):
        check(causal_mask, "casual_mask")
    with pytest.raises(TypeError, match="name: expected the name"):
        find_exercise(3)


def test_an_endless_loop_can_be_interrupted(capsys):
    def endless(tokens):
        raise KeyboardInterrupt  # what the stop button does

    assert check(endless, "causal_mask") is attention.causal_mask
    assert "You interrupted it." in capsys.readouterr().out


def test_the_learners_own_line_is_shown():
    def broken(q, k):
        scores = q @ k  # no transpose
        return scores

    said = verdict_of(broken, "attention_scores").message
    assert "`scores = q @ k  # no transpose`: RuntimeError" in said
    q, k = (tuple(part.shape) for part in find_exercise("attention_scores").cases()[0].args)
    assert f"That was for q {q}, k {k}." in said


def test_it_says_when_only_some_cases_raise():
    def square_only(tokens):
        return causal_mask(tokens) if tokens == 5 else torch.ones(5)[9]

    said = verdict_of(square_only, "causal_mask").message
    assert "It did run for tokens = 5" in said


def test_messages_are_escaped():
    evil = "<img src=x onerror=alert(1)>"

    def raising(tokens):
        raise RuntimeError(evil)

    message = verdict_message(verdict_of(raising, "causal_mask"))
    html = message._repr_mimebundle_()["text/html"]
    assert evil in repr(message)
    assert evil not in html
    assert "&lt;img src=x" in html


def test_a_difference_is_drawn():
    def scaled_wrongly(q, k):
        return q @ k.mT / 3

    message = verdict_message(verdict_of(scaled_wrongly, "attention_scores"))
    html = message._repr_mimebundle_()["text/html"]
    assert 'src="data:image/svg+xml' in html
    assert re.search(r"Three heatmaps, \d by \d: yours, expected", html)
    assert verdict_message(verdict_of(to_do, "causal_mask")).picture is None


def test_messages_are_the_same_in_each_run():
    first, second = (repr(verdict_message(verdict_of(upside_down, "causal_mask"))) for _ in "ab")
    assert first == second


def test_code_between_backticks():
    html = Message("note", "t", "use `a < b` and ` alone")._repr_mimebundle_()["text/html"]
    assert "<code>" not in html  # three backticks: left as they are
    html = Message("note", "t", "use `a < b`")._repr_mimebundle_()["text/html"]
    assert "<code>a &lt; b</code>" in html


def test_hints_one_more_at_each_call(capsys):
    hints = find_exercise("causal_mask").hints
    for n in (1, 2, 3, 3):
        hint("causal_mask")
        said = capsys.readouterr().out
        assert [h in said for h in hints] == [i < n for i in range(3)]
        assert ('reveal("causal_mask")' in said) == (n == 3)


def test_hint_takes_the_function_too(capsys):
    hint(causal_mask)
    assert "Hint 1 of 3" in capsys.readouterr().out


def test_judge_wants_an_output_a_case():
    with pytest.raises(ValueError, match=r"expected one for each of \d+ cases, got 1"):
        judge(find_exercise("causal_mask"), [Output(value=3)])


def test_values_that_are_almost_right():
    one = torch.tensor([1.0, float("nan"), float("inf")])
    assert same(one + 1e-7, one, 1e-5)
    assert not same(one + 1e-3, one, 1e-5)
    assert not same(one.long(), torch.tensor([True, True, True]), 1e-5)
    assert same([one], (one,), 1e-5)
    assert not same(one[:2], one, 1e-5)
    assert not same(torch.tensor(1.0), torch.ones(3), 1e-5)  # no scalar passes for a vector


def test_odd_results_never_crash_the_judge():
    import numpy as np

    class Odd:
        def __eq__(self, other):
            raise RuntimeError

    results = [None, 3, "x", [], {}, (), Odd(), np.ones(3), torch.ones(0), [torch.ones(2), None],
               {"a": torch.ones(1)}, torch.ones(5, 5) * 1j, float("nan")]  # fmt: skip
    for name in ("causal_mask", "merge_attention", "attention_weights", "mean_squared_error"):
        for result in results:
            verdict = verdict_of(lambda *args, r=result, **kwargs: r, name)
            assert verdict.state == "wrong", (name, result)
            assert len(repr(verdict_message(verdict))) > 20


def test_a_check_leaves_the_learners_random_state_and_gradient_mode():
    torch.manual_seed(5)
    torch.rand(3)
    before = torch.get_rng_state()
    with torch.no_grad():
        verdict = verdict_of(attention.split_heads, "split_heads")
        assert not torch.is_grad_enabled()
    assert verdict.diagnosis == "library"
    assert torch.equal(torch.get_rng_state(), before)


def test_under_no_grad_the_gradient_is_still_looked_at():
    def split_heads(x, n_heads):
        return x.detach().unflatten(-1, (n_heads, -1)).transpose(1, 2)

    with torch.no_grad():
        assert verdict_of(split_heads, "split_heads").diagnosis == "no-gradient"


def test_exit_in_an_answer_is_an_error_of_the_answer():
    def causal_mask(tokens):
        raise SystemExit(3)

    verdict = verdict_of(causal_mask, "causal_mask")
    assert verdict.diagnosis == "raised"
    assert "SystemExit" in verdict.message
