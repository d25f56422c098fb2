"""Finds solutions of graded exercises where learners could read them."""

from __future__ import annotations

import ast
import copy
import html
import json
import re
import textwrap
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tfcourse.authoring.lesson import MARKER, Lesson

TELLING = 24  # characters without spaces; a shorter line may stand anywhere by chance


def find_leaks(lessons: list[Lesson], root: Path) -> list[str]:
    """Sentences on every place in notebooks/ and tfcourse/ that holds a graded solution."""
    solutions = {name: s for lesson in lessons for name, s in lesson.solutions().items()}
    said = []
    for path, code in _readable(root):
        where = path.relative_to(root).as_posix()
        if path.suffix == ".ipynb" and MARKER.search(code):
            said.append(f"{where}: a solution marker stands in it. Run: tfcourse build")
        for name, solution in solutions.items():
            if _same_lines(solution, code) or _same_structure(solution, code):
                said.append(
                    f"{where}: holds the solution of the graded exercise {name}, which may stand "
                    "in solutions/ alone."
                )
    return said


def _readable(root: Path) -> Iterator[tuple[Path, str]]:
    """What a learner is given: the code of the package, and all text in the notebooks."""
    for path in sorted(root.glob("tfcourse/**/*.py")):
        yield path, path.read_text(encoding="utf-8")
    for path in sorted(root.glob("notebooks/*.ipynb")):
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            cells = json.loads(text)["cells"]
            parts = [part for cell in cells for part in ("".join(cell["source"]), *_shown(cell))]
        except (ValueError, LookupError, TypeError, AttributeError):  # damaged, but may tell
            parts = [text]
        for part in parts:
            yield path, part


def _shown(cell: dict) -> Iterator[str]:
    """The texts of a cell's outputs."""
    for output in cell.get("outputs", []):
        texts = {"stream": output.get("text", ""), **output.get("data", {})}
        for kind, text in texts.items():
            if kind == "stream" or kind.startswith("text/"):
                yield html.unescape("".join(text))


@cache
def _lines(code: str) -> list[str]:
    """The lines of code without spaces and comments."""
    bare = (re.sub(r"\s|#.*", "", line) for line in code.splitlines())
    return [line for line in bare if line]


def _same_lines(solution: str, code: str) -> bool:
    telling = [line for line in _lines(solution) if len(line) >= TELLING]
    if not telling:
        return False
    text = "\n".join(_lines(code))
    return 2 * sum(line in text for line in telling) >= len(telling)


def _same_structure(solution: str, code: str) -> bool:
    """Whether a function's body is the solution's but for the names of its variables."""
    wanted = _bodies("def solution():\n" + textwrap.indent(textwrap.dedent(solution), "    "))
    return bool(wanted & _bodies(code))


@cache
def _bodies(code: str) -> set[str]:
    """The bodies of all functions, their variables numbered in the order they come up."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError):  # outputs, cells with magics
        return set()
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))]
    return {_anonymous(f) for f in functions}


def _anonymous(function: ast.FunctionDef | ast.Lambda) -> str:
    body = function.body if isinstance(function.body, list) else [ast.Return(function.body)]
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]  # the docstring
    numbers: dict[str, str] = {}
    module = copy.deepcopy(ast.Module(body, []))
    for node in ast.walk(module):
        if isinstance(node, ast.Name):
            node.id = numbers.setdefault(node.id, f"v{len(numbers)}")
    return ast.dump(module)
