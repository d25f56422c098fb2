"""From a live answer to a text that stands alone: its source and all that it needs of the notebook.

What an answer needs are global names: helpers and classes (their source comes along, and what they
need), modules and what was imported from them (the import does), constants. Anything else, a tensor
or a trained module, lives in the notebook only; then the answer is not kept, and the learner is
told which name it was.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import os
import symtable
import sys
import textwrap
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from functools import cache, lru_cache
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import FunctionType, ModuleType

import torch

import tfcourse
from tfcourse.checks import lessons, running, store
from tfcourse.checks.exercise import Exercise
from tfcourse.checks.judging import judge

LONGEST = 20_000  # characters of a constant; what is longer is data, and lives in the notebook
QUICK = 1.0  # seconds; what takes longer to check is not checked again before it is kept
_MINE = "tfcourse.mine"


class NotKept(Exception):
    """Why an answer cannot be kept, in words that follow a colon."""


def is_strict() -> bool:
    """Whether the course grades instead of teaching."""
    return os.environ.get("TFCOURSE_STRICT") == "1" or "NBGRADER_EXECUTION" in os.environ


def raises(exercise: Exercise) -> bool:
    """Whether an answer that is not right ends the cell.

    Under nbgrader a graded one does; the lesson goes on with ours where practice is not done.
    """
    under_nbgrader = "NBGRADER_EXECUTION" in os.environ and exercise.graded
    return os.environ.get("TFCOURSE_STRICT") == "1" or under_nbgrader


def is_off() -> bool:
    """Whether nothing is kept or given back: where it grades, and where it checks apart."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return is_strict() or getattr(spec, "name", "") == running.__name__


def keep(exercise: Exercise, answer, seconds: float) -> str:
    """Keep a right answer for the lessons to come.

    Args:
        seconds: how long the answer took to run on all cases. A quick one is checked once more,
            alone, so that the learner hears at once if it needs more than was kept. A slow one is
            checked when it is loaded.
    Returns:
        a sentence on why it could not be kept, or "".
    """
    if is_off():
        return ""
    try:
        source = standalone(answer, exercise.name)
        passed = stamp(exercise, source)
        if store.is_kept(exercise.name, source, passed):
            return ""
        if seconds <= QUICK:
            _pass_alone(exercise, source)
    except NotKept as why:
        return f"It cannot be kept for later lessons: {why}"
    except Exception as error:  # a notebook may hold anything; the lesson goes on
        return f"It cannot be kept for later lessons: {named(error)}."
    store.keep_answer(exercise.name, source, passed if seconds <= QUICK else "", seconds)
    return ""


def _pass_alone(exercise: Exercise, source: str) -> None:
    try:
        alone = define(exercise.name, source)
    except (Exception, SystemExit) as error:
        raise NotKept(f"outside of this notebook it raises {named(error)}.") from None
    inputs = [case.inputs() for case in exercise.cases()]
    with redirect_stdout(StringIO()):  # what it prints has been read once
        verdict = judge(exercise, running.collect(alone, inputs))
    if not verdict.right:
        raise NotKept(f"outside of this notebook it no longer passes. {verdict.message}")


def define(name: str, source: str):
    """Run a kept text in a module of its own and give back what it calls `name`.

    Raises:
        Exception: whatever the text raises; KeyError if it does not define the name.
    """
    file = f"<mine.{name} {_digest(source)}>"
    # Tracebacks and `inspect` find the learner's lines there.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = ModuleType(f"mine.{name}")
    sys.modules[module.__name__] = module  # dataclasses and pickle look for it
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__[name]


def stamp(exercise: Exercise, source: str) -> str:
    """Stands for "this text passed": another text, check, course or torch has another one."""
    versions = tfcourse.__version__, torch.__version__, str(sys.version_info[:2])
    return _digest("\n".join([source, _check_of(exercise.lesson), *versions]))


@cache
def _check_of(lesson: str) -> str:
    return inspect.getsource(import_module(f"{lessons.__name__}.lesson_{lesson}"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


# --- collecting -----------------------------------------------------------------------------


def standalone(answer, name: str) -> str:
    """The text that defines the answer as `name`, with everything that it needs.

    Raises:
        NotKept: something that it needs cannot be written down.
    """
    if not _is_theirs(inspect.unwrap(answer)):
        raise NotKept(f"it is {_described(answer)}; write it with `def` or `class`, in a cell.")
    text = _Text()
    text.take(name, answer, getattr(answer, "__globals__", {}))
    return text.whole()


class _Text:
    """Names, each with what it stands for, and the lines that make it so."""

    def __init__(self):
        self.values: dict[str, object] = {}
        self.imports: dict[str, None] = {}
        self.parts: list[str] = []  # in an order in which they can run
        self.future = False

    def whole(self) -> str:
        first = ["from __future__ import annotations"] if self.future else []
        return "\n\n\n".join(["\n".join([*first, *sorted(self.imports)]), *self.parts]).lstrip()

    def take(self, name: str, value, space: Mapping) -> None:
        """Write down what makes `name` stand for `value`; `space` is where it was found."""
        if name in self.values:
            if not _is_same(self.values[name], value):
                raise NotKept(f"two different things in it are called `{name}`.")
            return
        self.values[name] = value
        inner = inspect.unwrap(value) if callable(value) else value
        if _is_theirs(inner):
            if getattr(inner, "__name__", "") == "<lambda>":
                self._take_assignment(name, value, space)
            else:
                self._take_definition(name, inner)
        elif not self._take_import(name, value, space):
            self._take_constant(name, value, space)

    def _take_definition(self, name: str, value) -> None:
        if value.__name__ != name:
            self.take(value.__name__, value, {})
            self.parts.append(f"{name} = {value.__name__}")
            return
        source, space = _definition(value)
        self.future |= any(
            f.__code__.co_flags & annotations.compiler_flag for f in _functions(value)
        )
        self._take_needs(source, space, {name})
        self.parts.append(source)

    def _take_assignment(self, name: str, value, space: Mapping) -> None:
        """A lambda, or a container of functions: the assignment itself, if it calls nothing."""
        source = _assignment(name, space)
        if source is None:
            raise NotKept(f"`{name}` is {_described(value)}; write it with `def`, in a cell.")
        self._take_needs(source, space, {name})
        self.parts.append(source)

    def _take_needs(self, source: str, space: Mapping, own: set[str]) -> None:
        parts = _parts_of_mine(source, space)
        for needed in _needs(source):
            if needed in own or needed not in space:
                continue  # itself, a builtin, or never reached
            if needed in parts:
                self._take_mine(needed, space[needed], parts[needed])
            else:
                self.take(needed, space[needed], space)

    def _take_mine(self, name: str, mine: ModuleType, attributes: set[str]) -> None:
        """`mine.x` in an answer: the x of today comes along, so that no two can need each other."""
        before = self.values.setdefault(name, attributes)
        if before is not attributes and before != attributes:
            raise NotKept(f"two of its parts take different things from `{name}`.")
        if before is not attributes:
            return
        for attribute in sorted(attributes):
            self.take(attribute, getattr(mine, attribute), {})
        self.imports["from types import SimpleNamespace"] = None
        given = ", ".join(f"{a}={a}" for a in sorted(attributes))
        self.parts.append(f"{name} = SimpleNamespace({given})")

    def _take_import(self, name: str, value, space: Mapping) -> bool:
        statements = _imports(name, value, space)
        self.imports |= dict.fromkeys(statements)
        return bool(statements)

    def _take_constant(self, name: str, value, space: Mapping) -> None:
        literal = _literal(value)
        if literal is not None and len(literal) <= LONGEST:
            if "torch." in literal:
                self.take("torch", torch, {})
            self.parts.append(f"{name} = {literal}")
        elif literal is None and isinstance(value, (dict, list, tuple, set)):
            self._take_assignment(name, value, space)
        else:
            raise NotKept(
                f"it uses `{name}`, {_described(value)} that lives in this notebook only; make it "
                "inside your code."
            )


def _is_same(one, other) -> bool:
    """Whether two things under one name are the same, or read the same."""
    if one is other:
        return True
    try:
        return _definition(one)[0] == _definition(other)[0]
    except (NotKept, LookupError, AttributeError, TypeError):
        return type(one) is type(other) and _literal(one) is not None and one == other


def _is_theirs(value) -> bool:
    """Whether it is a function or class that the learner wrote."""
    if isinstance(value, FunctionType):
        file = value.__code__.co_filename
    elif inspect.isclass(value):
        if value.__module__ == "__main__" or value.__module__.startswith("mine."):
            return True
        file = getattr(sys.modules.get(value.__module__), "__file__", None) or "<frozen"
    else:
        return False
    packages = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not packages and not file.startswith(running.NOT_THE_LEARNERS)


def _described(value) -> str:
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if getattr(value, "__name__", "") == "<lambda>":
        return "a lambda"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


# --- where things are written ---------------------------------------------------------------


def _definition(value) -> tuple[str, Mapping]:
    """The source of a function or class, its decorators too, and the names that it sees."""
    functions = _functions(value)
    space = value.__globals__ if functions == [value] else vars(sys.modules[value.__module__])
    closure = {}
    for function in functions:
        space = function.__globals__
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                closure[name] = cell.cell_contents
            except ValueError:  # not filled yet
                continue
    wanted = (ast.FunctionDef, ast.AsyncFunctionDef) if functions == [value] else ast.ClassDef
    for text, line in _places(value, functions, space):
        found = [
            node
            for node in ast.walk(_parsed(text))
            if isinstance(node, wanted)
            and node.name == value.__name__
            and _first(node) <= (line or _first(node)) <= node.end_lineno
            and (wanted is ast.ClassDef or line == _first(node))
        ]
        if found:
            lines = text.splitlines()[_first(found[-1]) - 1 : found[-1].end_lineno]
            return textwrap.dedent("\n".join(lines)), ChainMap(closure, space)
    raise NotKept(f"the source of `{value.__name__}` is not to be found; write it in a cell.")


def _places(value, functions: list, space: Mapping) -> Iterator[tuple[str, int | None]]:
    """Texts in which the definition may stand, each with a line in it where that is known."""
    for function in functions:
        text = "".join(linecache.getlines(function.__code__.co_filename))
        if text:
            yield text, function.__code__.co_firstlineno
    if inspect.isclass(value):  # one without a method of its own
        yield from ((text, None) for text in _cells(space))


def _functions(value) -> list[FunctionType]:
    """The function itself, or a class's own methods."""
    if isinstance(value, FunctionType):
        return [value]
    found = []
    for member in vars(value).values():
        member = getattr(member, "fget", None) or getattr(member, "__func__", member)
        member = inspect.unwrap(member) if callable(member) else member
        own = f"{value.__qualname__}."
        if isinstance(member, FunctionType) and member.__qualname__.startswith(own):
            found.append(member)
    return found


def _first(node) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _cells(space: Mapping) -> list[str]:
    """The text behind a namespace, newest first: a notebook's cells as they ran, or a file."""
    if isinstance(space.get("In"), list):
        return [cell for cell in reversed(space["In"]) if isinstance(cell, str)]
    return ["".join(linecache.getlines(space.get("__file__") or ""))]


@lru_cache(maxsize=512)
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _assignment(name: str, space: Mapping) -> str | None:
    """The latest `name = …` outside of functions, if making it again calls nothing."""
    for text in _cells(space):
        for node in reversed(_parsed(text).body):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if [getattr(target, "id", None) for target in targets] == [name]:
                calls = any(isinstance(part, ast.Call) for part in _outside_lambdas(node.value))
                return None if calls else ast.get_source_segment(text, node)
    return None


def _outside_lambdas(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _outside_lambdas(child)


def _needs(source: str) -> list[str]:
    """The global names that a text uses."""
    found: dict[str, None] = {}

    def look(table, outermost):
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (outermost or symbol.is_global()):
                found[symbol.get_name()] = None
        for child in table.get_children():
            look(child, False)

    try:
        look(symtable.symtable(source, "<answer>", "exec"), True)
    except SyntaxError:  # cut out of something larger
        raise NotKept("its source cannot be read alone; write it in a cell of its own.") from None
    return list(found)


def _parts_of_mine(source: str, space: Mapping) -> dict[str, set[str]]:
    """Names in the text that stand for the module `tfcourse.mine`, and what is taken from it."""
    tree = _parsed(source)
    found: dict[str, set[str]] = {}
    after_dot = {id(n.value): n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and _is_mine(space.get(node.id)):
            if id(node) not in after_dot:
                raise NotKept(f"it uses `{node.id}` in another way than `{node.id}.some_name`.")
            found.setdefault(node.id, set()).add(after_dot[id(node)])
        module = f"{getattr(node, 'module', '')}."
        if isinstance(node, (ast.Import, ast.ImportFrom)) and any(
            f"{module}{alias.name}.".lstrip(".").startswith(f"{_MINE}.") for alias in node.names
        ):
            raise NotKept("it imports from `mine` inside; put the import into a cell of its own.")
    return found


def _is_mine(value) -> bool:
    return isinstance(value, ModuleType) and value.__name__ == _MINE


# --- imports and constants ------------------------------------------------------------------


def _imports(name: str, value, space: Mapping) -> list[str]:
    """The imports that bind `name` to `value`: as the notebook wrote them, else by its module."""
    written = [
        statement
        for text in _cells(space)
        for node in ast.walk(_parsed(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for bound, given, statement in _bindings(node)
        if bound == name and given is value
    ]
    if written:
        # `import a` and `import a.b` both bind a; of the others any one will do.
        whole = [s for s in written if s.startswith("import ") and " as " not in s]
        return whole or written[:1]
    if isinstance(value, ModuleType):
        path, what = value.__name__, ""
    else:
        # What torch has written in C does not know where it belongs.
        path, what = getattr(value, "__module__", None) or "torch", getattr(value, "__name__", "")
    found = sys.modules.get(path)
    if found is None or path == "__main__" or path.startswith("mine."):
        return []
    if what:
        whole = f"from {path} import {what}" + (f" as {name}" if what != name else "")
        return [whole] if getattr(found, what, None) is value else []
    return [f"import {path}" + (f" as {name}" if path != name else "")] if found is value else []


def _bindings(node) -> Iterator[tuple[str, object, str]]:
    """What an import statement binds: name, value and the statement for this one alone."""
    for alias in node.names:
        said = alias.name + (f" as {alias.asname}" if alias.asname else "")
        if isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module not in (_MINE, "__future__"):
                module = sys.modules.get(node.module)
                inner = sys.modules.get(f"{node.module}.{alias.name}")
                given = getattr(module, alias.name, inner)
                yield alias.asname or alias.name, given, f"from {node.module} import {said}"
        else:
            path = alias.name if alias.asname else alias.name.split(".")[0]
            yield alias.asname or path, sys.modules.get(path), f"import {said}"


def _literal(value) -> str | None:
    """The constant as Python writes it, or None if it is none."""
    kind = type(value)
    if value is None or value is ... or kind in (bool, int, str, bytes, complex, range):
        return repr(value)
    if kind is float:
        return repr(value) if abs(value) < float("inf") else f"float({str(value)!r})"
    if kind is torch.dtype:
        return repr(value)
    if kind is torch.device:
        return f"torch.device({str(value)!r})"
    if kind is dict:
        pairs = [(_literal(k), _literal(v)) for k, v in value.items()]
        if any(None in pair for pair in pairs):
            return None
        return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
    if kind in (tuple, list, set, frozenset):
        parts = [_literal(part) for part in value]
        if None in parts:
            return None
        joined = ", ".join(parts)
        if kind is tuple:
            return f"({joined},)" if parts else "()"
        if kind is list:
            return f"[{joined}]"
        return f"{kind.__name__}([{joined}])"
    return None
