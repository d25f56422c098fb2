"""Changes every solution wherever it can be changed, and sees whether the check notices.

    python -m tests.mutants [NAME …]

A mutant that passes is a hole in the check, or gives the same as the solution for every input that
the exercise states. The latter stand in `EQUAL`, each with the reason. Without names the table in
tests/wrong_answers/README.md is made anew.
"""

from __future__ import annotations

import argparse
import ast
import copy
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from tests.conftest import ROOT
from tests.equal_mutants import EQUAL
from tests.wrong_answers import attempts
from tfcourse.authoring.build import find_lessons
from tfcourse.authoring.lesson import Lesson
from tfcourse.checks.exercise import Exercise
from tfcourse.checks.judging import alike_for, judge, right_outputs
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect
from tfcourse.checks.solutions import solved_cell

TABLE = ROOT / "tests" / "wrong_answers" / "README.md"
SECONDS = 10  # for one mutant: some loop for ever

OTHER_OPERATORS = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,), ast.Mod: (ast.Mult,), ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,), ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}  # fmt: skip
OTHER_COMPARISONS = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
OTHER_NAMES = {}
for pair in ("sin cos", "max min", "amax amin", "argmax argmin", "sum mean", "tril triu",
             "exp log", "sqrt square", "softmax log_softmax", "ones zeros", "maximum minimum",
             "unsqueeze squeeze", "repeat_interleave repeat", "stack cat", "mT T",
             "view reshape"):  # fmt: skip
    one, other = pair.split()
    OTHER_NAMES |= {one: other, other: one}
del OTHER_NAMES["reshape"]  # the better one of the two


@dataclass(frozen=True)
class Mutant:
    """A changed solution; `change` says where and what, and names it in `EQUAL`."""

    exercise: str
    change: str
    source: str


def mutants_of(exercise: Exercise, lesson: Lesson) -> list[Mutant]:
    """Every mutant of the exercise's solution that is not the same text as another."""
    source = solved_cell(lesson.text, exercise.name)
    tree = ast.parse(source)
    seen, found = {ast.unparse(tree)}, []
    for index, node in enumerate(_nodes(tree)):
        for new in _changes(node, tree):
            changed = copy.deepcopy(tree)
            _replace(changed, _nodes(changed)[index], new)
            text = ast.unparse(ast.fix_missing_locations(changed))
            if text in seen:
                continue
            seen.add(text)
            after = "nothing" if new is None else ast.unparse(new)
            found.append(Mutant(exercise.name, f"{_where(node)} -> {_line(after)}", text))
    return found


def _where(node) -> str:
    return f"{node.lineno}:{node.col_offset} {_line(ast.unparse(node))}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _nodes(tree) -> list[ast.AST]:
    """What may be changed: no docstrings, no annotations, no names of functions."""
    found = []

    def walk(node):
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_text(child):
                    if hasattr(child, "lineno"):
                        found.append(child)
                    walk(child)

    walk(tree)
    return found


def _is_text(node) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _changes(node, tree) -> Iterator[ast.AST | None]:
    """What may stand in the node's place; None deletes a statement."""
    if isinstance(node, ast.BinOp):
        for kind in OTHER_OPERATORS.get(type(node.op), ()):
            yield ast.BinOp(node.left, kind(), node.right)
        if isinstance(node.op, (ast.MatMult, ast.Sub, ast.Div, ast.Pow, ast.FloorDiv)):
            yield ast.BinOp(node.right, node.op, node.left)
        yield node.left
        yield node.right
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.Compare):
        for kind in OTHER_COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [kind(), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node.value)
    elif isinstance(node, ast.Call):
        yield from _other_calls(node)
    elif isinstance(node, ast.Attribute):
        if node.attr in OTHER_NAMES:
            yield ast.Attribute(node.value, OTHER_NAMES[node.attr], node.ctx)
        if node.attr in ("mT", "T"):
            yield node.value
    elif isinstance(node, ast.Subscript):
        yield from _other_subscripts(node)
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.If):
        yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        yield ast.If(ast.Constant(True), node.body, node.orelse)
        yield ast.If(ast.Constant(False), node.body, node.orelse)
    elif isinstance(node, ast.AugAssign):
        for kind in OTHER_OPERATORS.get(type(node.op), ()):
            yield ast.AugAssign(node.target, kind(), node.value)
        yield None
    elif isinstance(node, (ast.Assign, ast.Expr)):
        yield None
    elif isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Load):
        if len(node.elts) > 1:
            yield type(node)([node.elts[1], node.elts[0], *node.elts[2:]], ast.Load())
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for name in _locals_around(node, tree):
            if name != node.id:
                yield ast.Name(name, ast.Load())


def _other_constants(value) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(2 * value if value else 1.0)
        yield ast.Constant(value / 2 if value else -1.0)
    elif isinstance(value, str) and value:
        yield ast.Constant(value + "x")


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    for i in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
    if len(node.args) > 1:
        yield ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
        yield ast.Call(node.func, node.args[:-1], node.keywords)
    if node.args:
        yield node.args[0]
    if isinstance(node.func, ast.Attribute):
        yield node.func.value
    elif isinstance(node.func, ast.Name) and node.func.id in OTHER_NAMES:
        yield ast.Call(ast.Name(OTHER_NAMES[node.func.id], ast.Load()), node.args, node.keywords)


def _other_subscripts(node: ast.Subscript) -> Iterator[ast.AST]:
    yield node.value
    if isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
        for i in range(len(parts) - 1):
            swapped = [*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :]]
            yield ast.Subscript(node.value, ast.Tuple(swapped, ast.Load()), node.ctx)


def _locals_around(node, tree) -> list[str]:
    """Parameters and variables of the innermost function around a name, known above it."""
    around = [
        f
        for f in ast.walk(tree)
        if isinstance(f, (ast.FunctionDef, ast.Lambda)) and any(n is node for n in ast.walk(f))
    ]
    if not around or not isinstance(around[-1], ast.FunctionDef):
        return []
    function = around[-1]
    names = [a.arg for a in [*function.args.args, *function.args.kwonlyargs] if a.arg != "self"]
    for n in ast.walk(function):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < node.lineno:
            names.append(n.id)
    return [name for name in dict.fromkeys(names) if not name.isupper()]


def _replace(tree, old, new) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(v is old for v in value):
                i = next(i for i, v in enumerate(value) if v is old)
                value[i : i + 1] = [ast.Pass()] if new is None else [new]


# --- judging --------------------------------------------------------------------------------


class TooLong(BaseException):
    """A mutant that does not end: no check accepts it."""


@contextmanager
def _limited():
    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def passes(mutant: Mutant, lesson: Lesson) -> bool:
    """Whether the check accepts the mutant."""
    exercise = exercises()[mutant.exercise]
    try:
        with _limited():
            answer = answer_of(mutant.source, exercise, lesson)
            return not _differs_early(exercise, answer) and verdict_of(exercise, answer).right
    except TooLong:
        return False
    except Exception:  # a mutant that is no function any more
        return False


def verdict_of(exercise: Exercise, answer):
    """What the check says to an answer."""
    return judge(exercise, collect(answer, [case.inputs() for case in exercise.cases()]))


def _differs_early(exercise, answer) -> bool:
    """Most mutants fall at the first cases; the judge is asked about the rest only."""
    cases = exercise.cases()
    for case, right in zip(cases, right_outputs(exercise, cases), strict=True):
        [output] = collect(answer, [case.inputs()])
        if output.error:
            return True
        if not case.random and not alike_for(exercise, output.value, right.value):
            return True
    return False


def answer_of(source: str, exercise: Exercise, lesson: Lesson):
    """The function or class of a changed cell, in a namespace like the lesson's at that place."""
    space: dict = {"__name__": "a_lesson"}
    exec(compile(_above(exercise, lesson), lesson.path.name, "exec"), space)
    exec(compile(source, f"<{exercise.name}>", "exec"), space)
    return space[exercise.name]


def _above(exercise: Exercise, lesson: Lesson) -> ast.Module:
    """Imports, other names of what they hold, functions and classes above the exercise."""
    kept = []
    for node in ast.parse(lesson.text).body:
        if getattr(node, "name", "") == exercise.name:
            break
        named = isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
        if named or isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
            kept.append(node)
    return ast.Module(kept, [])


# --- the table ------------------------------------------------------------------------------


def survey(name: str) -> dict:
    """All mutants of one exercise, and the time of its check."""
    torch.set_num_threads(1)
    exercise = exercises()[name]
    [lesson] = find_lessons(ROOT, [exercise.lesson])
    mutants = mutants_of(exercise, lesson)
    accepted = [m.change for m in mutants if passes(m, lesson)]
    right = answer_of(solved_cell(lesson.text, name), exercise, lesson)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        assert verdict_of(exercise, right).right, f"{name}: the solution itself is refused"
        times.append(time.perf_counter() - started)
    return {
        "name": name,
        "cases": len(exercise.cases()),
        "seconds": statistics.median(times),
        "mutants": len(mutants),
        "accepted": accepted,
    }


def table(surveys: list[dict]) -> str:
    """The table of tests/wrong_answers/README.md."""
    counts = Counter((a.exercise, a.diagnosis == "right") for a in attempts())
    lines = [
        "# How the checks were tried",
        "",
        "Made by `python -m tests.mutants`. A *mutant* is a solution with one change; *equal* are",
        "those that give the same as the solution on all that the exercise states (the reasons",
        "stand in `tests/equal_mutants.py`). The right and wrong answers are the bank beside this",
        "file; every one gets the verdict meant for it (`make diagnoses`).",
        "",
        "| exercise | cases | wrong answers | right answers | mutants | rejected | equal |",
        "|---|---|---|---|---|---|---|",
    ]
    total = Counter()
    for s in surveys:
        row = {
            "cases": s["cases"],
            "wrong": counts[s["name"], False],
            "right": counts[s["name"], True],
            "mutants": s["mutants"],
            "rejected": s["mutants"] - len(s["accepted"]),
            "equal": len(s["accepted"]),
        }
        total.update(row)
        lines.append(f"| `{s['name']}` | " + " | ".join(map(str, row.values())) + " |")
    lines.append("| **all** | " + " | ".join(map(str, total.values())) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Try all mutants; 1 where one passes that is not listed as equal, or is listed in vain."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="exercises; default: all")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    names = given.names or list(exercises())
    with ProcessPoolExecutor(given.jobs) as pool:
        surveys = []
        for s in pool.map(survey, names):
            surveys.append(s)
            print(
                f"{s['name']}: {s['mutants']} mutants, {len(s['accepted'])} accepted, "
                f"{s['cases']} cases, a right answer takes {s['seconds']:.2f} s",
                flush=True,
            )
            for change in s["accepted"]:
                if change not in EQUAL.get(s["name"], {}):
                    print(f"    HOLE  {change}")
            for change in set(EQUAL.get(s["name"], {})) - set(s["accepted"]):
                print(f"    listed as equal in vain: {change}")
    if not given.names:
        TABLE.write_text(table(surveys), encoding="utf-8")
    return int(any(set(EQUAL.get(s["name"], {})) != set(s["accepted"]) for s in surveys))


if __name__ == "__main__":
    sys.exit(main())
