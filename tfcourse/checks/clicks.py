"""A click on an option counts like a typed answer: it comes here from the page."""

from __future__ import annotations

import sys

from tfcourse.checks import store
from tfcourse.checks.registry import find_question, questions


def listen() -> None:
    """Open the way for the clicks on all questions of the page; where no page can be, nothing."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if hasattr(shell, "kernel"):
        from tfcourse.widgets.channel import open_channel

        open_channel(count)


def count(click: dict) -> str:
    """Note an answer that was clicked; words for the learner.

    Args:
        click: `name` of the question, `letter` of the option, and whether it is only `remembered`
            by the browser: then it counts where the board knows of no answer.
    """
    try:
        item = find_question(click["name"])
        option = item.option(click["letter"])
    except ValueError as error:  # a view stored by another edition of the course
        return f"Not counted on your progress board. {error}"
    if not click.get("remembered") or item.name not in store.read()["questions"]:
        store.record_question(item.name, click["letter"], option.right)
    entries = store.read()["questions"]
    if "latest" not in entries.get(item.name, {}):
        return "Your progress could not be saved, so this is not on your progress board."
    asked = [name for name, other in questions().items() if other.lesson == item.lesson]
    right = sum("right" in entries.get(name, {}) for name in asked)
    return f"On your progress board: {right} of {len(asked)} questions of this lesson right."
