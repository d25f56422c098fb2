"""What the guides say is so: their commands, files, minutes, links; and they give nothing away."""

import argparse
import ast
import builtins
import inspect
import re
import shlex
import shutil
import subprocess
import textwrap
from functools import cache

import nbformat
import pytest
import torch

import tfcourse
from tests.conftest import ROOT
from tfcourse.authoring.leaks import TELLING, _bodies, _lines, _same_lines
from tfcourse.checks.outline import outline
from tfcourse.checks.registry import exercises
from tfcourse.checks.solutions import find_solution
from tfcourse.classroom import (
    cells,
    class_page,
    command,
    gradescope,
    grading,
    judge,
    pages,
    records,
    release,
    sandbox,
)
from tfcourse.classroom.records import Graded, Mark, Results, Student, Title, Trouble

CLASSROOM = (ROOT / "docs" / "classroom.md").read_text(encoding="utf-8")
TUTOR = (ROOT / "docs" / "tutor.md").read_text(encoding="utf-8")
GUIDES = {"classroom.md": CLASSROOM, "tutor.md": TUTOR}
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
guides = pytest.mark.parametrize("guide", GUIDES)


def blocks(text):
    """The fenced blocks, also those in lists."""
    found = re.findall(r"```\w*\n(.*?)^[ ]*```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def spans(text):
    """The code within lines, whole also where a line ends in it."""
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", outside)]


def wrapped(text):
    """Without the line breaks that are there for the width alone, and without `marks`."""
    return " ".join(re.sub(r"[>`]", " ", text).split())


# --- commands -------------------------------------------------------------------------------------


def commands_in(text):
    lines = [line.strip() for block in blocks(text) for line in block.splitlines()]
    return [x for x in [*lines, *spans(text)] if x.startswith("tfcourse class")]


def parser():
    made = argparse.ArgumentParser(exit_on_error=False)
    command.add_to(made.add_subparsers(dest="command", required=True))
    return made


@guides
def test_every_command_is_one(guide, capsys):
    for line in commands_in(GUIDES[guide]):
        try:
            given = parser().parse_args(shlex.split(line, comments=True)[1:])
        except (SystemExit, argparse.ArgumentError) as error:
            pytest.fail(f"{line}: {error} {capsys.readouterr().err}")
        for lesson in getattr(given, "lessons", ()):
            assert command._name(lesson) in LESSONS


def test_each_of_the_commands_and_options_is_told():
    told = [shlex.split(line, comments=True)[2] for line in commands_in(CLASSROOM)]
    [classes] = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    [kinds] = [
        a for a in classes.choices["class"]._actions if isinstance(a, argparse._SubParsersAction)
    ]
    assert set(kinds.choices) - {"check"} == set(told)  # `check` is for students: make check
    options = {o for a in kinds.choices["grade"]._actions for o in a.option_strings} - {"-h"}
    assert [o for o in options - {"--help"} if o not in CLASSROOM] == []


def test_other_commands_are_known():
    lines = [line.strip() for block in blocks(CLASSROOM) for line in block.splitlines()]
    assert "pip install -c requirements.lock -e '.[classroom]'" in lines
    assert command.TOOLS in "\n".join(lines).replace("-c requirements.lock ", "")
    assert "apt install bubblewrap" in CLASSROOM
    race = [x for x in spans(CLASSROOM) if x.startswith("tfcourse race")]
    assert race == ["tfcourse race new NAME"]


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("git")), reason="bash and git")
def test_repositories_are_collected_as_they_were_at_the_deadline(tmp_path):
    def git(folder, *words, when="2026-11-29T10:00"):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        environment = {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when}
        path = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
        subprocess.run(["git", *who, *words], cwd=folder, env=environment | path, check=True,
                       capture_output=True)  # fmt: skip

    for login, written in {"ana": ["in time", "late"], "bo": ["only late"]}.items():
        notebook = tmp_path / "theirs" / login / "notebooks" / "01_attention.ipynb"
        notebook.parent.mkdir(parents=True)
        git(notebook.parent.parent, "init")
        for text in written:
            notebook.write_text(text)
            git(notebook.parent.parent, "add", ".")
            when = "2026-12-02T10:00" if "late" in text else "2026-11-29T10:00"
            git(notebook.parent.parent, "commit", "-m", text, when=when)
    # No line break after the last of them: nobody may be lost for that.
    listed = "\n".join(f"{login} {tmp_path / 'theirs' / login}" for login in ("ana", "bo"))
    (tmp_path / "repositories.txt").write_text(listed)
    [script] = [block for block in blocks(CLASSROOM) if "git clone" in block]
    subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True)
    found = {p.parent.name: p.read_text() for p in tmp_path.glob("handed in/*/01_attention.ipynb")}
    assert found == {"ana": "in time", "bo": ""}


# --- what is printed and written ------------------------------------------------------------------


def the_class(tmp_path):
    """The class of the guide: one right, one wrong, one broken, one who handed in nothing."""
    broken = tmp_path / "01_attention.ipynb"
    broken.write_text("this is no JSON")
    with pytest.raises(cells.NotANotebook) as says:
        cells.read(broken)
    people = {"ana-lopez": "Ana López", "bo-chen": "Bo Chen", "cem-kaya": "Cem Kaya",
              "dana-novak": "Dana Novak"}  # fmt: skip
    lesson = "01_attention"
    graded = tuple(
        Graded(key, lesson, f"{people[key]}/{lesson}.ipynb",
               (Mark("merge_attention", state, state, "Told.", points, 4.0),))
        for key, state, points in (("ana-lopez", "right", 4.0), ("bo-chen", "wrong", 0.0))
    )  # fmt: skip
    return Results(
        students=tuple(
            Student(key, name, {"Identifier": f"Participant {n}"})
            for n, (key, name) in enumerate(people.items())
        ),
        lessons={lesson: (Title("merge_attention", "attention in pieces", 4.0),)},
        graded=graded,
        troubles=(Trouble(f"Cem Kaya/{lesson}.ipynb", str(says.value), "cem-kaya"),),
        when=records.now(),
        titles={lesson: "Attention"},
    )


SHEET = "Identifier,Full name,Grade,Maximum Grade\n" + "".join(
    f"Participant {n},{name},,10.00\n"
    for n, name in enumerate(["Ana López", "Bo Chen", "Cem Kaya", "Dana Novak"])
)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The results of that class, in the folder `results`, and what was said."""
    monkeypatch.chdir(tmp_path)
    results, said = the_class(tmp_path), []
    to = tmp_path / "results"
    (to / grading.KEPT).mkdir(parents=True)
    (tmp_path / "ROSTER.csv").write_text(SHEET, encoding="utf-8")
    how = grading.How(roster=tmp_path / "ROSTER.csv")
    grading._write(results, to.relative_to(tmp_path), how, said.append)
    return to, said


def test_the_summary_is_what_is_printed(written):
    _, said = written
    shown = next(block for block in blocks(CLASSROOM) if "handed in;" in block)
    lines = "\n".join(said[:2]).splitlines()
    assert "rows of " in said[2]  # the others are on the sheet, which the guide has not here
    assert all(line.startswith("To upload: ") for line in said[3:])
    assert shown.split("\n") == [*lines, ""]


def test_the_results_are_the_files_that_are_told(written):
    to, _ = written
    told = set(re.findall(r"^\| `([^`]+)` \|", CLASSROOM, re.MULTILINE))
    found = set()
    for path in to.iterdir():
        name = path.name.replace("01_attention", "LESSON")
        if path.is_dir():
            found |= {f"{name}/KEY.html" for _ in path.glob("*.html")} or {f"{name}/"}
        else:
            found.add(name)
    assert told == found
    keys = {path.stem for path in (to / "feedback").glob("*.html")}
    assert keys == {"ana-lopez", "bo-chen", "cem-kaya"}
    assert "`ana-lopez`" in CLASSROOM


@pytest.mark.parametrize("stem", ["gradebook", "worksheet"])
def test_the_filled_table_is_called_after_the_list(stem):
    assert f"--roster {stem}.csv" in CLASSROOM  # ROSTER-LESSON.csv, as above
    assert f"`results/{stem}-01_attention.csv`" in CLASSROOM


def test_what_release_and_solutions_say_and_write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(release, "find_leaks", lambda *_: [])  # theirs have tests of their own
    monkeypatch.setattr(release, "hidden_leaks", lambda *_: [])
    to = tmp_path / "handout"
    said = release.release(ROOT, ["01"], to.relative_to(tmp_path))
    assert "\n".join(said) + "\n" in blocks(CLASSROOM)
    assert (to / "README.md").is_file()
    assert (to / ".github" / "workflows" / "checks.yml").is_file()
    assert (to / "notebooks" / "glossary.ipynb").is_file()
    assert not (to / "solutions").exists()
    release.solutions(ROOT, ["01"], tmp_path / "solved")
    assert {p.name for p in (tmp_path / "solved").glob("*.*") if p.is_file()} - {release.SOLVED} \
        == {"01_attention.ipynb", "graded.md"}  # fmt: skip


def test_words_that_the_guide_quotes_are_said():
    quoted = {
        "right in every case that you can run": pages,
        "What the class misunderstood": class_page,
        "Answers run as another user": gradescope,
    }
    for words, module in quoted.items():
        assert f'"{words}"' in wrapped(CLASSROOM)
        assert words in inspect.getsource(module)
    assert f"{cells.LARGEST // 2**20} MB" in CLASSROOM
    limits = sandbox.Limits()
    for much in (f"{limits.memory // 2**30} GB of memory", f"{limits.processes} processes",
                 f"{limits.files // 2**20} MB of files", f"{judge.SECONDS:g} seconds"):  # fmt: skip
        assert much in CLASSROOM


# --- the plan -------------------------------------------------------------------------------------


def plan():
    """For each week: its lessons with their minutes, what comes besides, all of it, what is due."""
    rows = re.findall(r"^\| (\d+) \| (\[.*)\|$", CLASSROOM, re.MULTILINE)
    for number, row in rows:
        lessons, besides, home, due = (cell.strip() for cell in row.split("|"))
        named = re.findall(r"\[(\d\d)\]\(\.\./notebooks/(\w+)\.ipynb\) (\d+)", lessons)
        more = re.match(r"\d+", besides)
        exercises_due = re.findall(r"`(\w+)` (\d+)", due)
        yield int(number), named, int(more[0]) if more else 0, int(home), exercises_due


def test_the_plan_has_every_lesson_once_with_its_own_minutes():
    weeks = list(plan())
    assert [week for week, *_ in weeks] == list(range(1, 11))
    named = [row for _, rows, *_ in weeks for row in rows]
    assert [name for _, name, _ in named] == LESSONS
    for number, name, minutes in named:
        assert name.startswith(number)
        assert outline(name).minutes == int(minutes) > 0, name


def test_the_plans_weeks_add_up_to_three_or_four_hours():
    for week, rows, besides, home, _ in plan():
        assert home == besides + sum(int(minutes) for *_, minutes in rows), week
        assert 180 <= home <= 250, week


def test_the_plans_graded_exercises_have_their_points():
    found = [
        (name, float(points))
        for path in sorted((ROOT / "solutions").glob("[0-9]*.py"))
        for name, points in re.findall(
            r'exercise="(\w+)" graded=true points=([\d.]+)', path.read_text(encoding="utf-8")
        )
    ]
    for _, rows, _, _, due in plan():
        for name, _ in due:
            assert exercises()[name].lesson in {lesson for _, lesson, _ in rows}
    told = [(name, float(points)) for *_, due in plan() for name, points in due]
    assert told == found


def test_the_topics_are_told_for_every_week_and_the_class_is_as_long_as_it_says():
    topics = re.findall(r"^\| (\d+) \| [A-Z][^|\[]+\|$", CLASSROOM, re.MULTILINE)
    assert topics == [str(week) for week in range(1, 11)]
    parts = re.search(r"\*\*A class of (\d+) minutes:\*\*(.*?)\n\n", CLASSROOM, re.DOTALL)
    assert sum(map(int, re.findall(r"\b(\d+), ", parts[2]))) == int(parts[1])


def test_what_is_to_come_is_what_the_readme_says():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    still = re.search(r"^In writing, in this order: (.*)\.$", readme, re.MULTILINE)
    numbers = set(re.findall(r"\b(\d\d) ", still[1])) if still else set()
    told = re.search(r"Lessons (\d\d) .*? and (\d\d) .*? are still to come", CLASSROOM, re.DOTALL)
    assert numbers == (set(told.groups()) if told else set())
    assert not numbers & {lesson[:2] for lesson in LESSONS}


# --- links ----------------------------------------------------------------------------------------


def slug(heading):
    """The anchor of a heading, as sites that show Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@guides
def test_links_lead_somewhere(guide):
    text = GUIDES[guide]
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links or guide == "tutor.md"  # that one is pasted, where no link would lead anywhere
    own = {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    for link in links:
        path, _, anchor = link.partition("#")
        assert "://" not in link, link
        if path:
            assert (ROOT / "docs" / path).is_file(), link
        else:
            assert anchor in own, link


@guides
def test_no_path_of_a_machine_and_no_address(guide):
    assert not re.search(r"https?://|/tmp/|/home/|/root\b|/work\b", GUIDES[guide])


def test_no_line_is_wider_than_a_page():
    for guide, text in GUIDES.items():
        for line in text.splitlines():
            assert len(line) <= 130 or line.startswith("|"), f"{guide}: {line}"


# --- the tutor ------------------------------------------------------------------------------------


def test_the_tutor_names_only_what_exists():
    called = {name for span in spans(TUTOR) for name in re.findall(r"([\w.]+)\(", span)}
    assert {"check", "hint", "reveal", "progress"} <= called
    for name in called:
        own = name in tfcourse.__all__ or hasattr(builtins, name)
        assert own or hasattr(torch, name.removeprefix("torch.")), name
    for name in called & set(tfcourse.__all__):
        assert callable(getattr(tfcourse, name))
    words = {span for span in spans(TUTOR) if re.fullmatch(r"[a-z]+(_[a-z]+)+", span)}
    assert words
    assert words <= set(exercises())
    for folder in ("tfcourse/checks", "solutions"):
        assert f"`{folder}/`" in TUTOR
        assert (ROOT / folder).is_dir()


@cache
def texts_of_the_code():
    """All texts in the code that speaks to a learner."""
    names = ["checks/judging", "checks/covering", "checks/running", "checks/__init__"]
    found = []
    for name in [*names, "classroom/judge"]:
        tree = ast.parse((ROOT / "tfcourse" / f"{name}.py").read_text(encoding="utf-8"))
        found += [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    return [" ".join(text.split()).replace("`", "") for text in found if isinstance(text, str)]


def test_what_the_tutor_lets_the_check_say_it_says():
    rows = re.findall(r'^\| "(.+)" \| .+ \|$', TUTOR, re.MULTILINE)
    assert len(rows) > 15
    for row in rows:
        for part in filter(None, (piece.strip() for piece in row.split("…"))):
            assert any(part.lower() in text.lower() for text in texts_of_the_code()), part
    quoted = re.findall(r'"(The softmax goes.+?|You take the plain.+?)"', wrapped(TUTOR))
    known = {v.says for e in exercises().values() for v in e.variants.values()}
    assert len(quoted) == 2
    for words in quoted:
        assert any(says.startswith(words) for says in known), words


def test_the_tutor_knows_how_many_hints_there_are():
    assert all(len(exercise.hints) == 3 for exercise in exercises().values())
    assert "There are three." in TUTOR


# --- nothing is given away ------------------------------------------------------------------------


@cache
def given():
    """All that the learners' notebooks hold, without spaces."""
    found = []
    for lesson in LESSONS:
        notebook = nbformat.read(ROOT / "notebooks" / f"{lesson}.ipynb", as_version=4)
        found += ["".join(cell.source.split()) for cell in notebook.cells]
    return "\n".join(found)


@cache
def telling(solution):
    """Its lines, whole and without what the result is called, that learners do not have."""
    bare = [re.sub(r"^(return|[\w,.\[\]]+=(?!=))", "", line) for line in _lines(solution)]
    return [x for x in {*_lines(solution), *bare} if len(x) >= TELLING and x not in given()]


def leaked(text):
    """The exercises of which a text holds a line of the solution, or its structure."""
    pieces = [*blocks(text), *spans(text)]
    whole = "".join(text.split())
    code = [*pieces, *(f"def f():\n return {piece}" for piece in pieces)]
    held = set().union(*map(_bodies, code)) - _bodies("def f(x):\n return x")
    found = []
    for exercise in exercises().values():
        solution = find_solution(exercise)
        if (
            any(text in whole for text in telling(solution))
            or any(_same_lines(solution, piece) for piece in pieces)
            or _bodies(solution) & held
        ):
            found.append(exercise.name)
    return found


@guides
def test_a_guide_holds_no_solution(guide):
    assert leaked(GUIDES[guide]) == []


@pytest.mark.parametrize("name", exercises())
def test_a_solution_in_a_guide_would_be_found(name):
    solution = find_solution(exercises()[name])
    assert name in leaked(f"{TUTOR}\n\n```python\n{solution}\n```\n")
    # With other names for its variables, and without the words around it.
    tree = ast.parse(solution)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) and node.body[1:]:
            del node.body[0]
    assert name in leaked(f"Write this:\n\n1. ```\n   {_indented(ast.unparse(tree))}\n   ```\n")


def _indented(code):
    return code.replace("\n", "\n   ")


def test_a_single_corrected_line_would_be_found():
    solution = find_solution(exercises()["merge_attention"])
    code = [line.split("#")[0].strip() for line in solution.splitlines()]
    code += [line.removeprefix("return ").split(" = ")[-1] for line in code]
    long = [line for line in code if "".join(line.split()) in telling(solution)]
    assert len(long) > 6
    for line in long:
        assert leaked(f"Replace your second line by this: `{line}`.") == ["merge_attention"], line


def test_the_guides_hold_no_hidden_case():
    assert release.hidden_leaks(ROOT, ROOT / "docs") == []
