"""Mutants that give the same as the solution on all that the exercise states, and why.

exercise -> change, as `python -m tests.mutants` names it -> reason.
"""

EQUAL: dict[str, dict[str, str]] = {}
