"""The command `tfcourse`: build the notebooks, decide the claims again, race, grade a class."""

from __future__ import annotations

import argparse
import difflib
import sys

from tfcourse.classroom import command


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is 0 where all is well."""
    parser = argparse.ArgumentParser(prog="tfcourse", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="write and run the notebooks from solutions/")
    build.add_argument("names", nargs="*", metavar="NAME", help="01 or 01_attention; default: all")
    kind = build.add_mutually_exclusive_group()
    kind.add_argument("--check", action="store_true", help="only say what is stale or leaked")
    kind.add_argument("--solved", action="store_true", help="only write build/solved/")
    commands.add_parser("doctor", help="look the installation over")
    again = commands.add_parser(
        "verdicts", help="run the lessons: which claims come out otherwise?"
    )
    again.add_argument("names", nargs="*", metavar="NAME", help="01 or 01_attention; default: all")
    again.add_argument("--experiments", action="store_true", help="the experiments too (hours)")
    race = commands.add_parser("race", help="a model of text within a budget: the board, your try")
    race.set_defaults(what=None, name=None, seeds=3)
    racing = race.add_subparsers(dest="what", metavar="new | run")
    racing.add_parser("new", help="an entry to begin with").add_argument("name", metavar="NAME")
    run = racing.add_parser("run", help="run an entry, and judge it")
    run.add_argument("name", metavar="NAME", help="yours, or one of the course's")
    run.add_argument("--seeds", type=int, default=3, metavar="N", help="how often; default: 3")
    command.add_to(commands)
    given, unknown = parser.parse_known_args(arguments)
    if unknown:
        near = difflib.get_close_matches(unknown[0], [f"--{name}" for name in vars(given)], n=1)
        parser.error(f"{unknown[0]} is not known." + (f" Did you mean {near[0]}?" if near else ""))
    does = {"doctor": _doctor, "build": _build, "verdicts": _verdicts, "race": _race}
    does["class"] = command.run
    return does[given.command](given)


def _doctor(_given) -> int:
    from tfcourse.installation import doctor

    return 0 if doctor() else 1


def _build(given) -> int:
    try:
        from tfcourse.authoring import build
    except ModuleNotFoundError as error:
        print(f"{error}. The build tools are missing: pip install -e '.[test]'", file=sys.stderr)
        return 1
    from tfcourse.authoring.lesson import LessonError

    try:
        root = build.find_root()
        if given.check:
            said = build.check(root, given.names)
            print("\n".join(said) or "The notebooks are fresh, and no solution leaks.")
            return 1 if said else 0
        if given.solved:
            build.write_solved(root, given.names)
        else:
            build.build(root, given.names)
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _verdicts(given) -> int:
    try:
        from tfcourse.authoring import build, verdicts
    except ModuleNotFoundError as error:
        print(f"{error}. The build tools are missing: pip install -e '.[test]'", file=sys.stderr)
        return 1
    root = build.find_root()
    changed = verdicts.compare(root, given.names, experiments=given.experiments)
    print(f"{changed} changed" if changed else "Every verdict is the one that is stored.")
    return int(changed > 0)


def _race(given) -> int:
    from tfcourse.race.command import race

    return race(given.what, given.name, given.seeds)


if __name__ == "__main__":
    sys.exit(main())
