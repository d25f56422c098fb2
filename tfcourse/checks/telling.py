"""How the course talks back in a notebook: short text, framed by its tone.

Every text is also there as plain text, the same in each run; strings are escaped, never HTML.
"""

from __future__ import annotations

from html import escape

import torch

from tfcourse.checks.board import Board, Step
from tfcourse.checks.judging import Verdict
from tfcourse.checks.registry import exercises
from tfcourse.inline import inline_code

_TONES = {  # colours readable on a light and on a dark page (Okabe-Ito), each with its own sign
    "right": ("#009e73", "✓"),
    "wrong": ("#d55e00", "✗"),
    "to do": ("#7f7f7f", "○"),
    "note": ("#0072b2", "→"),
}


class Message:
    """A few sentences with a tone; `code` is shown as it stands, `picture` beneath.

    `step`, a `board.Step`, comes last: what is left, and a link to what comes next.
    """

    def __init__(
        self,
        tone: str,
        title: str,
        text: str,
        code: str = "",
        picture=None,
        step: Step | None = None,
    ):
        self.tone, self.title, self.text = tone, title, text
        self.code, self.picture, self.step = code, picture, step

    def __repr__(self) -> str:
        head = f"{_TONES[self.tone][1]} {self.title}: {self.text}"
        parts = [head, f"\n{self.code}" if self.code else "", str(self.step or "")]
        return "\n".join(filter(None, parts))

    def _repr_mimebundle_(self, include=None, exclude=None):
        colour, sign = _TONES[self.tone]
        html = (
            f'<div role="status" style="border-left:4px solid {colour};padding:.4em .9em;'
            f'margin:.3em 0;max-width:46em;line-height:1.5">'
            f"<b>{sign} {escape(self.title)}</b> {inline_code(self.text)}"
        )
        if self.code:
            style = "margin:.5em 0 0;white-space:pre;overflow-x:auto"
            html += f'<pre style="{style}"><code>{_coloured(self.code)}</code></pre>'
        if self.picture:
            html += self.picture.image()
        if self.step:
            html += f"<div>{self.step.html()}</div>"
        return {"text/plain": repr(self), "text/html": html + "</div>"}


def verdict_message(verdict: Verdict, *, with_picture: bool = True) -> Message:
    """The verdict for the learner's eyes, with a drawing where two tensors can be compared."""
    exercise = verdict.exercise
    text = verdict.message
    if verdict.state == "to do":
        text += f' A hint: `hint("{exercise.name}")`'
    picture = verdict_picture(verdict) if with_picture else None
    step = None
    if verdict.right and exercise.name in exercises():
        step = Board.now().after(exercise.name)
    return Message(verdict.state, exercise.name, text, picture=picture, step=step)


def verdict_picture(verdict: Verdict):
    """Theirs, what is right and the difference as a Picture; None where nothing can be drawn."""
    pair = _drawable(verdict.yours, verdict.expected) if verdict.state == "wrong" else None
    if not pair:
        return None
    from tfcourse.figures import tensor_difference

    return tensor_difference(*pair)


def _coloured(code: str) -> str:
    """Escaped code in JupyterLab's own colours, of whichever theme is on; elsewhere without."""
    from jupyterlab_pygments import JupyterStyle
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return highlight(
        code, PythonLexer(), HtmlFormatter(nowrap=True, noclasses=True, style=JupyterStyle)
    )


def _drawable(yours, expected) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The first pair of tensors of equal shape, as matrices small enough to read."""
    if isinstance(yours, (tuple, list)) and isinstance(expected, (tuple, list)):
        pairs = [p for p in map(_drawable, yours, expected) if p]
        return pairs[0] if pairs else None
    if not isinstance(yours, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return None
    if yours.shape != expected.shape or yours.dim() == 0 or yours.numel() == 0:
        return None
    yours, expected = yours.float(), expected.float()
    if yours.dim() == 1:
        return yours[None], expected[None]
    # Of several matrices show the one that differs most.
    mine, want = (t.reshape(-1, *t.shape[-2:]) for t in (yours, expected))
    worst = (mine - want).abs().nan_to_num(nan=1e9).amax(dim=(1, 2)).argmax()
    return mine[worst], want[worst]
