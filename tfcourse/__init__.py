"""tfcourse: the Transformer, from one dot product to a real language model.

Everything a lesson needs stands one import away; it is loaded when it is first used, so that
`import tfcourse` costs little more than `import torch`.
"""

from importlib import import_module

__version__ = "0.1.0"

_WHERE = {
    "Claims": "tfcourse.claims",
    "check": "tfcourse.checks",
    "hint": "tfcourse.checks",
    "progress": "tfcourse.checks",
    "quiz": "tfcourse.checks",
    "reveal": "tfcourse.checks",
    "doctor": "tfcourse.installation",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'tfcourse' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__():
    return sorted(__all__)
