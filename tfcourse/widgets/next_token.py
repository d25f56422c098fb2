"""NextToken: what temperature, top-k and top-p make of the odds of every next token."""

import numpy as np
import torch

from tfcourse import figures
from tfcourse.generation import next_token_probabilities
from tfcourse.widgets.view import (
    View,
    check_number,
    check_text,
    check_tokens,
    check_whole,
    numbers,
)

SHOWN = 14  # tokens with a bar of their own; the others share one
HOTTEST = 3.0


class NextToken(View):
    """The likeliest next tokens as bars, and how temperature, top-k and top-p change them.

    Beside each bar a mark stays where the token was with temperature 1 and nothing left out. A
    button draws a hundred tokens, the same ones each time it begins anew.

    Args:
        logits: `(contexts, vocabulary)`, or `(vocabulary,)` for one; kept as float32, as a model
            gives them.
        tokens: the vocabulary's strings.
        contexts: the text that each row of logits follows; default: none is shown.
        temperature, top_k, top_p: where the view starts, as `next_token_probabilities` has them;
            the temperature from 0 to 3.
        title: the question that the view answers.

    Raises:
        TypeError: not numbers, or not strings.
        ValueError: sizes do not fit, a logit is not finite, or a setting is out of range.
    """

    module = "next_token"

    def __init__(
        self,
        logits,
        tokens,
        contexts=None,
        *,
        temperature=1.0,
        top_k=None,
        top_p=None,
        title="Which token comes next?",
    ):
        check_text("title", title)
        self.tokens = check_tokens("tokens", tokens)
        self.logits = self._rows(logits)
        self.contexts = self._contexts(contexts)
        check_number("temperature", temperature)
        if not 0 <= temperature <= HOTTEST:
            raise ValueError(f"temperature must be between 0 and 3, got {temperature}")
        if top_k is not None:
            check_whole("top_k", top_k, 1, len(self.tokens))
        if top_p is not None:
            check_number("top_p", top_p)
            if not 0 < top_p <= 1:
                raise ValueError(f"top_p must be above 0 and at most 1, got {top_p}")
        self.settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        super().__init__(
            {"tokens": self.tokens, "contexts": self.contexts, **self.settings},
            {"logits": self.logits},
            title=title,
            alt=self._describe(),
        )

    def _rows(self, logits):
        """The logits as (contexts, vocabulary) in float32."""
        array = numbers("logits", logits)
        wanted = len(self.tokens)
        if array.ndim not in (1, 2) or array.shape[-1] != wanted or 0 in array.shape:
            raise ValueError(
                f"logits must be (contexts, vocabulary) or (vocabulary,) with vocabulary={wanted}, "
                f"as there are tokens. Got {array.shape}"
            )
        if wanted < 2:
            raise ValueError("tokens must be at least two, or there is nothing to choose. Got 1")
        with np.errstate(over="ignore"):
            array = np.atleast_2d(array).astype(np.float32)
        if not np.isfinite(array).all():
            raise ValueError("logits must hold finite numbers")
        return array

    def _contexts(self, contexts):
        if contexts is None:
            return None
        if isinstance(contexts, str) and len(self.logits) == 1:
            contexts = [contexts]
        contexts = check_tokens("contexts", contexts)
        if len(contexts) != len(self.logits):
            raise ValueError(
                f"contexts must be one text for each row of logits, {len(self.logits)}. "
                f"Got {len(contexts)}"
            )
        return contexts

    def probabilities(self, context=0, *, plain=False):
        """Of every token after one context: as the view starts, or `plain`, nothing changed.

        In float64, as the browser computes them.
        """
        row = torch.from_numpy(self.logits[context]).double()
        return next_token_probabilities(row, **({} if plain else self.settings)).numpy()

    def _setting(self):
        """The settings in words."""
        if self.settings["temperature"] == 0:
            return "temperature 0 (greedy)"
        said = [f"temperature {self.settings['temperature']:g}"]
        said += [f"top-k {self.settings['top_k']}"] if self.settings["top_k"] else []
        said += [f"top-p {self.settings['top_p']:g}"] if self.settings["top_p"] else []
        return ", ".join(said)

    def _describe(self):
        now = self.probabilities()
        likeliest = [
            f"{figures.token_text(self.tokens[i])} {_percent(now[i])}"
            for i in likeliest_first(self.logits[0])[:3]
            if now[i] > 0
        ]
        after = ""
        if self.contexts:
            text = figures.token_text(self.contexts[0])
            after = f"After “{text if len(text) <= 60 else '…' + text[-59:]}”, at "
        more, left = len(self.logits) - 1, np.count_nonzero(now)
        return (
            f"{after or 'At '}{self._setting()}, the likeliest next tokens are "
            f"{', '.join(likeliest)}; {left} of {len(now)} "
            f"{'token is' if left == 1 else 'tokens are'} left. "
            f"Entropy: {_entropy(self.probabilities(plain=True)):.2f} nats with temperature 1 and "
            f"nothing left out, {_entropy(now):.2f} so."
            + (f" {more} more context{'s' * (more > 1)} to choose from." if more else "")
        )

    def draw(self):
        """Bars of the first context's likeliest tokens, with a mark where each was."""
        order = likeliest_first(self.logits[0])
        shown = order[: SHOWN if len(order) > SHOWN + 1 else SHOWN + 1]
        rest = order[len(shown) :]
        now, plain = self.probabilities(), self.probabilities(plain=True)
        names = [figures.token_text(self.tokens[i]) for i in shown]
        both = [
            [p[i] for i in shown] + ([p[rest].sum()] if len(rest) else []) for p in (now, plain)
        ]
        names += [f"{len(rest)} others"] if len(rest) else []
        return _bars(names, *both, self._setting(), self.title, self.alt)


def likeliest_first(logits):
    """The tokens' numbers, likeliest first; of equal ones the first in the vocabulary first."""
    return np.argsort(-logits, kind="stable")


def _percent(share):
    return f"{100 * share:.0f}%" if share >= 0.01 else "under 1%"


def _entropy(p):
    return float(-(p[p > 0] * np.log(p[p > 0])).sum()) + 0.0  # no -0


@figures.styled
def _bars(names, now, plain, setting, title, alt):
    figure, axes = figures.card(size=(6.4, 0.24 * len(names) + 1.2))
    rows = np.arange(len(names))
    blue = figures.OKABE_ITO["blue"]
    axes.barh(rows, now, height=0.66, color=blue, label=f"now: {setting}")
    axes.vlines(plain, rows - 0.42, rows + 0.42, color=figures.OKABE_ITO["vermilion"], linewidth=2,
                label="temperature 1, nothing left out")  # fmt: skip
    most = max(*now, *plain)
    for row, share, was in zip(rows, now, plain, strict=True):
        said = "0" if share == 0 else f"{100 * share:.1f}%" if share >= 0.001 else "under 0.1%"
        axes.text(max(share, was) + 0.012 * most, row, said, va="center", fontsize=8,
                  color=figures.neutral("soft"))  # fmt: skip
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1.13 * most)
    figures.label_ticks(axes.yaxis, names, len(names))
    for label, share in zip(axes.get_yticklabels(), now, strict=True):
        label.set_color(figures.neutral("soft" if share == 0 else "ink"))
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("probability")
    axes.legend(loc="lower right", fontsize=8)
    axes.set_title(title).set_parse_math(False)
    return figures.Picture(figure, title, alt)
