"""Question: a prediction before the reveal, a quiz at the end; feedback for every option."""

import json
from string import ascii_lowercase

import numpy as np

from tfcourse.inline import inline_code
from tfcourse.widgets.view import View, check_text


class Question(View):
    """A question whose options answer at once when they are chosen.

    The browser remembers the answer. Where no script runs, it can be read as a list. Which option
    is right, and what is said to each, stands in the packed data: no reader of the page, of its
    text or of its source comes across it.

    Args:
        name: identifies the question in the browser's memory.
        prompt: the question; `code` stands between backticks.
        options: `(text, right, feedback)` for each of the two to six options.
        counts: whether it is a question of a lesson: then a choice goes to the progress board.

    Raises:
        TypeError: a text is no string, or `right` no bool.
        ValueError: fewer than two options or more than six, none of them right, an empty text.
    """

    module = "question"

    def __init__(self, name, prompt, options, *, counts=False):
        for argument, value in (("name", name), ("prompt", prompt)):
            check_text(argument, value)
            if not value.strip():
                raise ValueError(f"{argument} must not be empty")
        options = check_options(options)
        self.options = [option.pop("text") for option in options]
        self.how = f'To answer: quiz("{name}", "a"), or another letter.' if counts else ""
        state = {"name": name, "options": self.options, "counts": counts}
        # As numbers, since those are packed and deflated; a byte is exact as a half float.
        answers = np.frombuffer(json.dumps(options).encode(), dtype=np.uint8)
        super().__init__(state, {"answers": answers}, title=prompt, alt=" ".join(self.listed()))

    def listed(self):
        """The options, each behind its letter."""
        return [f"({a}) {text}" for a, text in zip(ascii_lowercase, self.options, strict=False)]

    @property
    def text(self):
        """The question and its options by their letters, a line each."""
        return "\n".join(
            [self.title, *(f"  {x}" for x in self.listed()), *filter(None, [self.how])]
        )

    def fallback(self):
        """The question as lines, for where no script runs; letters that no reader takes away."""
        lines = [f"<b>{inline_code(self.title)}</b>", *map(inline_code, self.listed())]
        return f"<p>{'<br>'.join(lines)}</p>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": self.html(), "text/plain": self.text}, {}


def check_options(options):
    """The options as dicts, or an error that names what is wrong with them."""
    if isinstance(options, str) or not isinstance(options, (list, tuple)):
        raise TypeError(
            f"options must be a list of (text, right, feedback), got {type(options).__name__}"
        )
    if not 2 <= len(options) <= 6:
        raise ValueError(f"options must be two to six, got {len(options)}")
    checked = []
    for i, option in enumerate(options):
        if not isinstance(option, (list, tuple)) or len(option) != 3:
            raise TypeError(f"options[{i}] must be (text, right, feedback), got {option!r}")
        text, right, feedback = option
        for argument, value in (("text", text), ("feedback", feedback)):
            check_text(f"options[{i}].{argument}", value)
            if not value.strip():
                raise ValueError(f"options[{i}].{argument} must not be empty")
        if not isinstance(right, bool):
            raise TypeError(f"options[{i}].right must be a bool, got {right!r}")
        checked.append({"text": text, "right": right, "feedback": feedback})
    if not any(option["right"] for option in checked):
        raise ValueError("options must hold a right one, got none")
    return checked
