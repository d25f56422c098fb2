"""Out of a notebook's code: the answer to each exercise, as a text that stands alone.

Nothing is run here, but Python parses the code, which a hostile text can make fall: this is for the
sandbox. An answer's text holds what the notebook defines under its name, and under all names that
this needs, in the order of the notebook: imports, functions, classes, constants, and what changes
them. Cells that only call the check, draw or train are left out, so that one that loops costs
nothing.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfcourse.classroom.cells import Code

_ANY = "*"  # stands for the names that `from … import *` brings
_TIMED = re.compile(r"\s*%%(time|timeit|capture|prun)\b.*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # as Python sees lines
_FUTURE = "from __future__ import annotations"


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
class _Part:
    """A statement at the top of a cell.

    Attributes:
        defines: the names that it gives a value.
        changes: the names whose value it changes, `sizes.append(3)`.
        needs: the global names in it.
        firm: whether it defines as answers are defined: a function, a class, another name for one.
        imports: whether it is an import.
    """

    defines: frozenset[str]
    changes: frozenset[str]
    needs: frozenset[str]
    text: str
    firm: bool = False
    imports: bool = False


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
    return {name: _answer(parts, name, names, ours or {}, broken.get(name, "")) for name in names}


def _answer(parts, name: str, names, ours: Mapping[str, str], trouble: str) -> Answer:
    given = {other: text for other, text in ours.items() if other != name}
    kept = [part for part in parts if not part.defines & given.keys()]
    brought = [_Part(frozenset([k]), frozenset(), frozenset(), t) for k, t in given.items()]
    needed = _needed(brought + kept, name)
    stub = all("NotImplementedError" in part.text for part in needed if name in part.defines)
    if trouble and stub:
        return Answer(trouble=trouble)
    if not needed:
        return Answer()
    defined = frozenset().union(*(part.defines for part in needed))
    uses = tuple(other for other in names if other != name and other in defined)
    text = "\n\n".join(part.text for part in needed if part.text != _FUTURE)
    # What is put off in one cell is put off in all: a type may be defined later.
    first = f"{_FUTURE}\n" if any(part.text == _FUTURE for part in parts) else ""
    return Answer(first + text, uses=uses)


# --- statements -----------------------------------------------------------------------------


def _parts(text: str) -> list[_Part]:
    """The statements of a cell that define or change something."""
    text = text.lstrip("\ufeff")
    try:
        body = ast.parse(text).body
    except SyntaxError:
        text = _without_magic(text)
        body = ast.parse(text).body
    lines = _LINE.findall(text)
    found = []
    for node in body:
        said = _text_of(node, lines)
        checked = _checked(node)
        if checked is None:
            part = _part(node, said)
            if part.defines or part.changes:
                found.append(part)
        elif (answer := _segment(checked, lines)) != _target(node):
            said = f"{_target(node)} = {answer}"
            found.append(_part(ast.parse(said).body[0], said))
    return found


def _without_magic(text: str) -> str:
    """A cell with Jupyter's own commands as Python; one in another language is empty."""
    from IPython.core.inputtransformer2 import TransformerManager  # rarely needed

    if _TIMED.match(text):
        text = "\n" * bool(_LINE.match(text)) + "".join(_LINE.findall(text.lstrip())[1:])
    return TransformerManager().transform_cell(text)


def _segment(node: ast.stmt | ast.expr, lines: list[str]) -> str:
    """The text of a node; `ast.get_source_segment` splits the whole into lines each time."""
    *first, last = lines[node.lineno - 1 : node.end_lineno]
    whole = "".join(first).encode() + last.encode()[: node.end_col_offset]
    return whole[node.col_offset :].decode()


def _text_of(node: ast.stmt, lines: list[str]) -> str:
    decorators = getattr(node, "decorator_list", [])
    if not decorators:
        return _segment(node, lines)
    return "".join(lines[decorators[0].lineno - 1 : node.end_lineno]).rstrip()


def _part(node: ast.stmt, text: str) -> _Part:
    """A statement with its global names; a function's own variables are none."""
    table = symtable.symtable(text, "", "exec")
    defines = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
    imports = isinstance(node, (ast.Import, ast.ImportFrom))
    if imports and any(alias.name == "*" for alias in node.names):
        defines.add(_ANY)
    named = isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Lambda))
    firm = named or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    changes = frozenset() if imports else frozenset(_changed(node))
    needs = frozenset(_globals(table))
    return _Part(frozenset(defines), changes, needs, text, firm, imports)


def _checked(node: ast.stmt) -> ast.expr | None:
    """The answer in `name = check(answer, …)`."""
    call = getattr(node, "value", None)
    is_check = (
        _target(node)
        and isinstance(call, ast.Call)
        and (isinstance(call.func, ast.Name) and call.func.id == "check" and call.args)
    )
    return call.args[0] if is_check else None


def _target(node: ast.stmt) -> str:
    """The only name that an assignment gives a value, or ""."""
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _changed(node: ast.stmt) -> Iterator[str]:
    """The names whose value a statement at the top changes: by a method, an item, an attribute."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        for decorator in node.decorator_list:  # `@add_to(Model)`
            for argument in getattr(decorator, "args", ()):
                yield from _root(argument)
        return
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Attribute, ast.Subscript)):
            if isinstance(inner.ctx, (ast.Store, ast.Del)):
                yield from _root(inner)
        elif isinstance(inner, ast.Expr):  # `sizes.append(3)`: its result is not what it is for
            yield from _root(getattr(inner.value, "func", ast.Constant(0)), at_least=1)


def _root(node: ast.expr, at_least: int = 0) -> Iterator[str]:
    """The name that an attribute or an item is of, if there are that many of them."""
    steps = 0
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node, steps = node.value, steps + 1
    if isinstance(node, ast.Name) and steps >= at_least:
        yield node.id


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    outermost = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_global() or (outermost and symbol.is_referenced()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


# --- what an answer needs -------------------------------------------------------------------


def _needed(parts: list[_Part], name: str) -> list[_Part]:
    """What defines the name and all that this needs, in the order of the notebook."""
    own = [i for i, part in enumerate(parts) if name in part.defines]
    if not own:
        return []
    last = ([i for i in own if parts[i].firm] or own)[-1]
    # As they stood when the answer was written; what comes later may reuse a name.
    before = list(enumerate(parts[: last + 1]))
    after = list(enumerate(parts))[last + 1 :]
    modules = {name for part in parts if part.imports for name in part.defines}
    wanted, taken, seen = [name, _ANY], set(), {name, _ANY}
    while wanted:
        now = wanted.pop()
        found = [i for i, part in before if now in part.defines]
        found = found or [i for i, part in after if now in part.defines]
        if now not in modules:  # `torch.manual_seed(0)` changes torch, and no answer
            latest = last if found and found[0] <= last else len(parts)
            found += [i for i, part in enumerate(parts[:latest]) if now in part.changes]
            found += [i for i, part in after if now == name and _gives(part, name)]
        for i in found:
            if i not in taken:
                taken.add(i)
                wanted += parts[i].needs - seen
                seen |= parts[i].needs
    return [parts[i] for i in sorted(taken)]


def _gives(part: _Part, name: str) -> bool:
    """`answer.calls = 0`, which comes after the answer and belongs to it."""
    return name in part.changes and bool(re.match(rf"{name}\.\w+\s*=[^=]", part.text))


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
