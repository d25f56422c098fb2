"""Out of a submitted notebook: the answer to each exercise, as a text that stands alone.

Nothing is run here. An answer's text holds what the notebook defines under its name, and under all
names that this needs, in the order of the notebook: imports, functions, classes, constants. Cells
that only call the check, draw or train are left out, so that one cell that loops costs nothing.

`read` and `code` know only JSON, so the grader may use them on anything. `answers` lets Python
parse the code, which a hostile text can make fall: it is for the sandbox.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LARGEST = 100 * 2**20  # bytes of a notebook; outputs make them large, code never
_ANY = "*"  # stands for the names that `from … import *` brings
_MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)


class NotANotebook(ValueError):
    """A file that cannot be read as a notebook; says why."""


@dataclass(frozen=True)
class Answer:
    """The answer to one exercise.

    Attributes:
        source: the text that defines it; "" where there is none.
        trouble: in words, where the notebook holds no text that Python can read.
        uses: the other exercises whose answers stand in the text.
    """

    source: str = ""
    trouble: str = ""
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Code:
    """A code cell: its text without Jupyter's own commands, and the exercise that it is for."""

    text: str
    exercise: str = ""


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


def code(notebook: dict) -> list[Code]:
    """The code cells of a notebook, in its order."""
    found = []
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            source, metadata = cell.get("source", ""), cell.get("metadata")
            text = source if isinstance(source, str) else "".join(map(str, source))
            exercise = metadata.get("exercise") if isinstance(metadata, dict) else None
            exercise = exercise if isinstance(exercise, str) else ""
            found.append(Code(_MAGIC.sub("", text), exercise))
    return found


def answers(
    given: Sequence[Code], names: Sequence[str], ours: Mapping[str, str] | None = None
) -> dict[str, Answer]:
    """The answer to every exercise named; where a cell cannot be read, that exercise says so.

    Args:
        ours: an exercise -> the text that takes its place in the answers to the others.
    """
    parts: list[_Part] = []
    broken: dict[str, str] = {}
    for cell in given:
        try:
            parts += _parts(cell.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            for name in _named_in(cell, names):
                broken[name] = _said(error)
    found = {}
    for name in names:
        if name in broken:
            found[name] = Answer(trouble=broken[name])
            continue
        own = _with_ours(parts, {k: line for k, line in (ours or {}).items() if k != name})
        needed = _needed(own, name)
        defined = frozenset().union(*(part.defines for part in needed))
        uses = tuple(other for other in names if other != name and other in defined)
        found[name] = Answer("\n\n".join(part.text for part in needed), uses=uses)
    return found


def _with_ours(parts: list[_Part], ours: Mapping[str, str]) -> list[_Part]:
    kept = [part for part in parts if not part.defines & ours.keys()]
    return [_Part(frozenset([k]), frozenset(), line) for k, line in ours.items()] + kept


def _parts(text: str) -> list[_Part]:
    lines = text.splitlines(keepends=True)
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Expr):
            continue
        checked = _checked(node)
        if checked is not None:  # the learner's own again, or ours: theirs is what counts
            name, answer = node.targets[0].id, ast.get_source_segment(text, checked)
            if answer != name:
                found.append(_part(f"{name} = {answer}"))
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        found.append(_part("".join(lines[first - 1 : node.end_lineno]).rstrip()))
    return found


def _checked(node: ast.stmt) -> ast.expr | None:
    """The answer in `name = check(answer, …)`."""
    call = getattr(node, "value", None)
    is_check = (
        isinstance(node, ast.Assign)
        and [type(target) for target in node.targets] == [ast.Name]
        and isinstance(call, ast.Call)
        and (isinstance(call.func, ast.Name) and call.func.id == "check" and call.args)
    )
    return call.args[0] if is_check else None


def _part(text: str) -> _Part:
    """A statement with its global names; a function's own variables are none."""
    table = symtable.symtable(text, "", "exec")
    symbols = table.get_symbols()
    defines = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    if re.match(r"from\s.*\simport\s+\*", text):
        defines.add(_ANY)
    return _Part(frozenset(defines), frozenset(_globals(table)), text)


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    outermost = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_global() or (outermost and symbol.is_referenced()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


def _needed(parts: list[_Part], name: str) -> list[_Part]:
    """What defines the name and all that this needs, in the order of the notebook."""
    own = [i for i, part in enumerate(parts) if name in part.defines]
    if not own:
        return []
    wanted, taken = [name, _ANY], set()
    seen = {name, _ANY}
    while wanted:
        now = wanted.pop()
        found = [i for i, part in enumerate(parts) if now in part.defines]
        # As they stood when the answer was written; what comes later may reuse a name.
        for i in [i for i in found if i <= own[-1]] or found:
            if i not in taken:
                part = parts[i]
                taken.add(i)
                wanted += part.needs - seen
                seen |= part.needs
    return [parts[i] for i in sorted(taken)]


def _named_in(cell: Code, names: Sequence[str]) -> list[str]:
    """The exercises whose cell this is, by its metadata or by what it says."""
    if cell.exercise in names:
        return [cell.exercise]
    said = [rf"^\s*(def|class)\s+{name}\b" for name in names]
    return [n for n, words in zip(names, said, strict=True) if re.search(words, cell.text, re.M)]


def _said(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()
        at = f" in line {error.lineno}" + (f", `{line}`" if line else "")
        return f"Python cannot read this cell: {error.msg}{at if error.lineno else ''}."
    return f"Python cannot read this cell: {type(error).__name__}."
