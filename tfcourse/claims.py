"""The closing table of a lesson: what is said in print, what was measured here."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Claim:
    """One row: `holds` comes from a comparison in the notebook, never from an author."""

    claim: str
    printed: str
    measured: str
    holds: bool
    only_if: str = ""

    @property
    def verdict(self) -> str:
        if not self.holds:
            return "does not hold here" + (f" (it would if {self.only_if})" if self.only_if else "")
        return f"holds only if {self.only_if}" if self.only_if else "holds"


class Claims:
    """Collects the measured claims of a lesson and shows them as a table.

    >>> claims = Claims("01_attention")
    >>> claims.add("std of q·k at d_k = 64", "8", "7.98", True)
    >>> claims
    01_attention: std of q·k at d_k = 64: in print 8, measured 7.98: holds
    """

    def __init__(self, lesson: str):
        self.lesson = lesson
        self.rows: list[Claim] = []

    def add(
        self, claim: str, printed: str, measured: str, holds: bool, *, only_if: str = ""
    ) -> None:
        """Add a row. `only_if` names the condition under which a claim that holds does so."""
        for name, value in (("claim", claim), ("printed", printed), ("measured", measured)):
            if not isinstance(value, str):
                raise TypeError(f"{name}: expected a string, got {value!r}")
        if not isinstance(holds, bool):
            raise TypeError(f"holds: expected the bool of a comparison, got {holds!r}")
        self.rows.append(Claim(claim, printed, measured, holds, only_if))

    def __repr__(self) -> str:
        return "\n".join(
            f"{self.lesson}: {r.claim}: in print {r.printed}, measured {r.measured}: {r.verdict}"
            for r in self.rows
        )

    def _repr_mimebundle_(self, include=None, exclude=None):
        head = "".join(
            f'<th style="text-align:left">{h}</th>'
            for h in ("claim", "in print", "measured here", "verdict")
        )
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:left;white-space:normal">{escape(cell)}</td>'
                for cell in (
                    r.claim,
                    r.printed,
                    r.measured,
                    ("✓ " if r.holds else "✗ ") + r.verdict,
                )
            )
            + "</tr>"
            for r in self.rows
        )
        return {"text/plain": repr(self), "text/html": f"<table><tr>{head}</tr>{body}</table>"}
