"""The closing table of a lesson: what is said in print, what came out here, and the verdict.

A claim stands with its rule in the experiment that decides it (`CLAIMS` in a module of
`tfcourse.experiments`), or, where a lesson's cells measure it, in `tfcourse.claims.lesson_NN_…`.
"""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from html import escape
from importlib import import_module

from tfcourse.claims.claim import Claim, Judged

__all__ = ["Claim", "Claims", "known_claims"]

_SIGNS = {"holds": "✓", "holds only if": "✓", "does not hold here": "✗", "cannot tell": "?"}
MIME = "application/vnd.tfcourse.claims+json"  # id -> verdict, for `tfcourse verdicts`


@cache
def known_claims() -> dict[str, Claim]:
    """Every claim of the course by its id."""
    found: dict[str, Claim] = {}
    for package in ("tfcourse.claims", "tfcourse.experiments"):
        for module in sorted(m.name for m in pkgutil.iter_modules(import_module(package).__path__)):
            for claim in getattr(import_module(f"{package}.{module}"), "CLAIMS", ()):
                if claim.id in found:
                    raise ValueError(f"two claims are called {claim.id!r}")
                found[claim.id] = claim
    return found


class Claims:
    """Collects the claims of a lesson, each decided by its own rule, and shows them as a table.

    >>> claims = Claims("01_attention")
    >>> claims.add("spread-of-scores", 7.98)
    >>> claims
    """

    def __init__(self, lesson: str):
        self.lesson = lesson
        self._decided: dict[str, tuple[Claim, Judged]] = {}

    @property
    def rows(self) -> list[tuple[Claim, Judged]]:
        """Each claim with what was found, in the order in which they were first added."""
        return list(self._decided.values())

    def add(self, id: str, *measured, **named) -> None:
        """Decide the claim `id` by its rule from what was measured; anew if it is there already.

        Raises:
            ValueError: there is no claim of that name.
        """
        if id not in known_claims():
            import difflib

            near = difflib.get_close_matches(id, known_claims(), n=3, cutoff=0.3)
            raise ValueError(f"id: there is no claim {id!r}. Did you mean {', '.join(near)}?")
        claim = known_claims()[id]
        self._decided[id] = claim, claim.judge(*measured, **named)

    def verdicts(self) -> dict[str, str]:
        """The verdict on each claim, by its id."""
        return {claim.id: judged.verdict for claim, judged in self.rows}

    def __repr__(self) -> str:
        return "\n".join(
            f"{_SIGNS[judged.verdict]} {claim.id}: {_printed(claim)} | "
            f"{_how(claim)}: {judged.measured} | {judged}"
            for claim, judged in self.rows
        )

    def _repr_mimebundle_(self, include=None, exclude=None):
        head = "".join(
            f'<th style="text-align:left">{h}</th>' for h in ("in print", "here", "verdict")
        )
        body = "".join(_row(claim, judged) for claim, judged in self.rows)
        html = f"<table><tr>{head}</tr>{body}</table>"
        return {"text/plain": repr(self), "text/html": html, MIME: self.verdicts()}


def _printed(claim: Claim) -> str:
    return f"“{claim.quote}” ({claim.source})" if claim.source else claim.quote


def _how(claim: Claim) -> str:
    return "computed" if claim.computed else "measured"


def _unbroken(text: str) -> str:
    """Escaped text in which no line ends inside a number such as 8e-06."""
    whole = r'<span style="white-space:nowrap">\g<0></span>'
    return re.sub(r"\d[\d.]*e[-+−]?\d+", whole, escape(text))


def _row(claim: Claim, judged: Judged) -> str:
    printed = _unbroken(claim.quote)
    if claim.source:
        printed = f'“{printed}” <a href="{escape(claim.link)}">{escape(claim.source)}</a>'
    here = f"{_unbroken(judged.measured)} <small>({_how(claim)})</small>"
    rule = f"<br><small>{_unbroken(claim.rule)}</small>"
    verdict = f"{_SIGNS[judged.verdict]} {_unbroken(str(judged))}{rule}"
    cells = "".join(
        f'<td style="text-align:left;white-space:normal;vertical-align:top">{cell}</td>'
        for cell in (printed, here, verdict)
    )
    return f"<tr>{cells}</tr>"
