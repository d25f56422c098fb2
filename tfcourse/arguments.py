"""What was given, what was expected: the checks of arguments that several layers share."""

from __future__ import annotations

from torch import Tensor


def check_count(name: str, value, least: int = 1) -> None:
    """Raise unless `value` is an int of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int. Got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}. Got {value}.")


def check_number(name: str, value, least: float, below: float) -> None:
    """Raise unless `value` is a number from `least` up to but not `below`."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number. Got {value!r}.")
    if not least <= value < below:
        raise ValueError(f"{name} must be at least {least} and below {below}. Got {value}.")


def check_flag(name: str, value) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False. Got {value!r}.")


def check_tensor(name: str, value, shape: str, axes: int | None = None) -> None:
    """Raise unless `value` is a tensor, with `axes` axes where that is given."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor {shape}. Got {type(value).__name__}.")
    if axes is not None and value.dim() != axes:
        raise ValueError(f"{name} must have {axes} axes, {shape}. Got {tuple(value.shape)}.")


def check_floats(name: str, value, shape: str = "of any shape") -> None:
    """Raise unless `value` is a tensor of floats."""
    check_tensor(name, value, shape)
    if not value.is_floating_point():
        raise TypeError(f"{name} must hold floats. Got {value.dtype}.")


def check_last_axis(name: str, x, size: int, letter: str) -> None:
    """Raise unless `x` is a float tensor whose last axis has `size` numbers."""
    check_floats(name, x, f"(…, {letter}={size})")
    if x.dim() == 0 or x.shape[-1] != size:
        raise ValueError(
            f"{name} must have {letter}={size} as its last axis. Got {tuple(x.shape)}."
        )
