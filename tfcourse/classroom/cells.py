"""Out of a submitted notebook: the answer to each exercise, as a text that stands alone.

Nothing is run here. An answer's text holds what the notebook defines under its name, and under all
names that this needs, in the order of the notebook: imports, functions, classes, constants. Cells
that only call the check, draw or train are left out, so that one cell that loops costs nothing.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LARGEST = 30 * 2**20  # bytes of a notebook; outputs make them large, code never
_MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)


class NotANotebook(ValueError):
    """A file that cannot be read as a notebook; says why."""


@dataclass(frozen=True)
class Answer:
    """The answer to one exercise.

    Attributes:
        source: the text that defines it; "" where there is none.
        trouble: in words, where the notebook holds no text that Python can read.
    """

    source: str = ""
    trouble: str = ""


@dataclass(frozen=True)
class _Part:
    """A statement at the top of a cell: the names that it defines, those it needs, its text."""

    defines: frozenset[str]
    needs: frozenset[str]
    text: str


def read(path: Path) -> dict:
    """A notebook's JSON.

    Raises:
        NotANotebook: it is too large, no JSON, or has no cells.
    """
    size = path.stat().st_size
    if size > LARGEST:
        raise NotANotebook(
            f"{path.name} has {size / 2**20:.0f} MB; at most {LARGEST / 2**20:.0f} are read. "
            "Clear its outputs and hand it in again."
        )
    try:
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise NotANotebook(f"{path.name} is not a notebook: no JSON can be read from it.") from None
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise NotANotebook(f"{path.name} is not a notebook: it has no list of cells.")
    return found


def answers(notebook: dict, names: list[str]) -> dict[str, Answer]:
    """The answer to every exercise named; where a cell cannot be read, that exercise says so."""
    parts: list[_Part] = []
    broken: dict[str, str] = {}
    for cell in notebook["cells"]:
        if cell.get("cell_type") != "code":
            continue
        code = _code(cell)
        try:
            parts += _parts(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            for name in _named_in(cell, code, names):
                broken[name] = _said(error)
    found = {}
    for name in names:
        if name in broken:
            found[name] = Answer(trouble=broken[name])
        else:
            found[name] = Answer("\n\n".join(part.text for part in _needed(parts, name)))
    return found


def _code(cell: dict) -> str:
    source = cell.get("source", "")
    code = source if isinstance(source, str) else "".join(map(str, source))
    return _MAGIC.sub("", code)  # Jupyter's own commands, which are no Python


def _parts(code: str) -> Iterator[_Part]:
    lines = code.splitlines(keepends=True)
    found = []
    for node in ast.parse(code).body:
        if _is_check(node) or isinstance(node, ast.Expr):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        text = "".join(lines[first - 1 : node.end_lineno]).rstrip()
        found.append(_Part(_defined(node), _used(text), text))
    return iter(found)


def _is_check(node: ast.stmt) -> bool:
    """`name = check(name)`: the learner's own again, or ours."""
    call = getattr(node, "value", None)
    return (
        isinstance(node, ast.Assign)
        and isinstance(call, ast.Call)
        and (isinstance(call.func, ast.Name) and call.func.id == "check")
    )


def _defined(node: ast.stmt) -> frozenset[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return frozenset([node.name])
    names = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.alias):
            names.add((inner.asname or inner.name).split(".")[0])
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            names.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
            names.add(inner.name)
    return frozenset(names)


def _used(text: str) -> frozenset[str]:
    """The global names in a statement; a function's own variables are none."""
    return frozenset(_globals(symtable.symtable(text, "", "exec")))


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    outermost = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_global() or (outermost and symbol.is_referenced()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


def _needed(parts: list[_Part], name: str) -> list[_Part]:
    """What defines the name and all that this needs, in the order of the notebook."""
    if not any(name in part.defines for part in parts):
        return []
    wanted, taken = [name], set()
    seen = {name}
    while wanted:
        now = wanted.pop()
        for i, part in enumerate(parts):
            if now in part.defines and i not in taken:
                taken.add(i)
                wanted += part.needs - seen
                seen |= part.needs
    return [parts[i] for i in sorted(taken)]


def _named_in(cell: dict, code: str, names: list[str]) -> list[str]:
    """The exercises whose cell this is, by its metadata or by what it says."""
    metadata = cell.get("metadata")
    exercise = metadata.get("exercise") if isinstance(metadata, dict) else None
    if exercise in names:
        return [exercise]
    return [name for name in names if re.search(rf"^\s*(def|class)\s+{name}\b", code, re.MULTILINE)]


def _said(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()
        at = f" in line {error.lineno}" + (f", `{line}`" if line else "")
        return f"Python cannot read this cell: {error.msg}{at if error.lineno else ''}."
    return f"Python cannot read this cell: {type(error).__name__}."
