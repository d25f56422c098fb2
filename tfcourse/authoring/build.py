"""`tfcourse build`: solutions/NN_topic.py -> notebooks/NN_topic.ipynb, run, outputs stored.

solutions/glossary.md becomes a notebook too, because a link can lead to a heading of a notebook,
and a lesson is read in JupyterLab, which opens Markdown in an editor. The drawings are written
beside the notebooks that show them.

What is stored is stable: cell ids come from names and texts, no timings, no widget state. A view or
a figure keeps its picture and its text; its live HTML is dropped, so that the repository stays
small and every reader shows at least the picture. What answers a prediction is not stored
(`predictions.py`). Each notebook holds a hash of its source and one of itself: `--check` sees a
change of one character in either without running anything.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tfcourse import drawings
from tfcourse.authoring.leaks import find_leaks
from tfcourse.authoring.lesson import GLOSSARY, Lesson, LessonError, names_in
from tfcourse.authoring.predictions import withhold

SECONDS = 300  # for one cell, when building
# A lesson runs offline: what asks the network is refused here, not only on a train.
OFFLINE = dict.fromkeys(
    (f"{kind}_proxy" for kind in ("http", "https", "ftp", "all")), "http://127.0.0.1:9"
) | {"no_proxy": "", "HF_HUB_OFFLINE": "1"}
_SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")


def find_root(start: Path | None = None) -> Path:
    """The folder of the course: the nearest one above with solutions/ and tfcourse/ in it."""
    start = Path.cwd() if start is None else start
    for folder in (start, *start.resolve().parents):
        if (folder / "solutions").is_dir() and (folder / "tfcourse").is_dir():
            return folder.resolve()
    raise LessonError(f"no folder with solutions/ and tfcourse/ in it at {start} or above")


def find_lessons(root: Path, names: Sequence[str] = ()) -> list[Lesson]:
    """The lessons, all or those named: 01 or 01_attention."""
    lessons = [Lesson(root / "solutions" / f"{x}.py") for x in names_in(root / "solutions")]
    if not names:
        return lessons
    chosen = []
    for name in names:
        found = [x for x in lessons if x.name == name or x.name.split("_")[0] == name]
        if not found:
            known = ", ".join(x.name for x in lessons) or "none"
            raise LessonError(f"there is no lesson {name!r} in solutions/. There are: {known}")
        chosen += found
    return chosen


def find_glossary(root: Path) -> list[Lesson]:
    """The glossary, where the course has one."""
    path = root / "solutions" / f"{GLOSSARY}.md"
    return [Lesson(path)] if path.is_file() else []


def find_sources(root: Path, names: Sequence[str] = ()) -> list[Lesson]:
    """What notebooks are made of: the lessons and the glossary, all or those named."""
    glossary = [x for x in find_glossary(root) if not names or x.name in names]
    lessons = [name for name in names if name not in {x.name for x in glossary}]
    return (find_lessons(root, lessons) if lessons or not names else []) + glossary


def build(root: Path, names: Sequence[str] = (), say=print) -> None:
    """Write the drawings, the learner's notebooks, run, and the solved ones.

    Raises:
        LessonError: a source breaks a rule, a cell raised, or an output may not be stored.
    """
    drawings.write(root / "notebooks" / "drawings", names_in(root / "solutions"))
    for lesson in find_sources(root, names):
        lesson.validate(_find_exercise)
        say(f"{lesson.name} …", end=" ", flush=True)
        target = root / "notebooks" / f"{lesson.name}.ipynb"
        target.parent.mkdir(exist_ok=True)
        notebook = lesson.learners()
        seconds = run(notebook, target.parent, lesson.name)
        clean(notebook, lesson.name, {str(root), str(Path.home()), tempfile.gettempdir()} - {"/"})
        withhold(notebook)
        _seal(notebook, lesson)
        _write(notebook, target)
        write_solved(root, [lesson.name])
        say(f"built, ran in {seconds:.0f} s")


def write_solved(root: Path, names: Sequence[str] = ()) -> list[Path]:
    """Write the solved notebooks, not run, to build/solved/."""
    folder = root / "build" / "solved"
    drawings.write(folder / "drawings", names_in(root / "solutions"))
    written = []
    for lesson in find_sources(root, names):
        written.append(folder / f"{lesson.name}.ipynb")
        _write(lesson.solved(), written[-1])
    return written


def check(root: Path, names: Sequence[str] = ()) -> list[str]:
    """Sentences on all that is not as `build` would leave it; none where all is fresh."""
    lessons = find_sources(root, names)
    said = []
    for lesson in lessons:
        try:
            lesson.validate(_find_exercise)
            said += _stale(lesson, root / "notebooks" / f"{lesson.name}.ipynb")
        except LessonError as error:
            said.append(str(error))
    drawn = drawings.stale(root / "notebooks" / "drawings", names_in(root / "solutions"))
    said += [
        f"notebooks/drawings/{x}: is not what is drawn today. Run: tfcourse build" for x in drawn
    ]
    if not names:
        known = {lesson.name for lesson in lessons}
        for path in sorted((root / "notebooks").glob("*.ipynb")):
            if path.stem not in known:
                said.append(f"notebooks/{path.name}: has no source in solutions/")
    return said + find_leaks(lessons, root)


def _stale(lesson: Lesson, path: Path) -> list[str]:
    where, again = f"notebooks/{path.name}", f"Run: tfcourse build {lesson.name.split('_')[0]}"
    if not path.is_file():
        return [f"{where}: is missing. {again}"]
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # any broken JSON or notebook
        return [f"{where}: cannot be read ({error}). {again}"]
    sealed = notebook.metadata.pop("tfcourse", {})
    if sealed.get("source") != lesson.digest:
        return [f"{where}: its source has changed since it was built. {again}"]
    if sealed.get("notebook") != _digest(notebook) or _text(path) != _dumped(notebook, sealed):
        return [f"{where}: was changed after it was built. Change its source, then: {again}"]
    bare = [(c.cell_type, c.id, c.source) for c in notebook.cells]
    if bare != [(c.cell_type, c.id, c.source) for c in lesson.learners().cells]:
        return [f"{where}: is not what its source makes today. {again}"]
    return []


# --- running --------------------------------------------------------------------------------


def run(notebook: NotebookNode, folder: Path, name: str, **environment: str) -> float:
    """Run all cells in a kernel that touches nobody's progress; seconds it took."""
    if all(cell.cell_type != "code" for cell in notebook.cells):
        return 0.0
    begun: list[str] = []
    client = NotebookClient(
        notebook,
        on_cell_start=lambda cell, cell_index: begun.append(cell.source),
        extra_arguments=["--log-level=40"],  # the kernel's own log is no output of the lesson
        timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as home, _environment(home, environment):
        try:
            client.execute()
        except CellExecutionError as error:
            raise LessonError(f"{name}: a cell raised an error.\n{error}") from None
        except CellTimeoutError:
            raise LessonError(f"{name}: a cell took over {SECONDS} s.\n{begun[-1]}") from None
        except DeadKernelError:
            raise LessonError(f"{name}: the kernel died in a cell.\n{begun[-1]}") from None
    return time.monotonic() - started


@contextmanager
def _environment(home: str, more: dict[str, str]):
    """The environment of a kernel that builds: own progress, one thread of a CPU, no strictness."""
    before = dict(os.environ)
    for name in ("TFCOURSE_STRICT", "NBGRADER_EXECUTION", *(n.upper() for n in OFFLINE)):
        os.environ.pop(name, None)
    os.environ.update(OFFLINE, TFCOURSE_HOME=home, TFCOURSE_DEVICE="cpu", OMP_NUM_THREADS="1")
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def clean(notebook: NotebookNode, name: str, private: Collection[str]) -> None:
    """Drop from the outputs what may not be stored; refuse what must not be there.

    Args:
        private: texts, such as this machine's folders, that no output may hold.

    Raises:
        LessonError: an error, stderr, a memory address or a private text in an output.
    """
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        where = f"{name}: the cell {cell.id}"
        cell.outputs = _joined(cell.outputs)
        for output in cell.outputs:
            if output.output_type == "stream":
                if output.name == "stderr":
                    raise LessonError(f"{where} writes to stderr: {output.text.strip()[:300]}")
                shown = output.text
            else:
                data = output.data
                data.pop("application/vnd.jupyter.widget-view+json", None)
                if "image/png" in data:
                    data.pop("text/html", None)
                if "text/html" in data:  # a question keeps its list
                    data["text/html"] = _SCRIPT.sub("", data["text/html"])
                shown = data.get("text/plain", "") + data.get("text/html", "")
            found = _ADDRESS.search(shown) or next((p for p in private if p in shown), None)
            if found:
                raise LessonError(f"{where} shows what differs from machine to machine: {found}")


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs with a stream that came in pieces, by chance of timing, made whole."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output.output_type == "stream" and output.name == last.get("name"):
            last.text += output.text
        else:
            joined.append(output)
    return joined


# --- writing --------------------------------------------------------------------------------


def _seal(notebook: NotebookNode, lesson: Lesson) -> None:
    notebook.metadata.pop("tfcourse", None)
    language = notebook.metadata.get("language_info", {})
    language.pop("version", None)  # of the Python that built it; no reader needs it
    notebook.metadata.tfcourse = NotebookNode(source=lesson.digest, notebook=_digest(notebook))


def _digest(notebook: NotebookNode) -> str:
    return hashlib.sha256(nbformat.writes(notebook).encode()).hexdigest()


def _dumped(notebook: NotebookNode, sealed: dict) -> str:
    notebook.metadata.tfcourse = NotebookNode(sealed)
    text = nbformat.writes(notebook) + "\n"
    del notebook.metadata["tfcourse"]
    return text


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _write(notebook: NotebookNode, path: Path) -> None:
    nbformat.validate(notebook)
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def _find_exercise(name: str):
    from tfcourse.checks import find_exercise

    return find_exercise(name)
