"""Functions on a text of tokens, for exercises that take such a function as an argument.

A case is plain data, so it holds `stand_in(name)`; `tfcourse.checks.running` puts the function in
its place. Each of `MIXERS` takes (tokens, d_model) and gives (tokens, d_model + 1). No weight is
random.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def stand_in(name: str) -> dict[str, str]:
    """Plain data that stands for one of `STAND_INS`; ValueError where there is none so called."""
    if name not in STAND_INS:
        raise ValueError(f"name must be one of {', '.join(STAND_INS)}. Got {name!r}.")
    return {"mixer": name}


def is_stand_in(value) -> bool:
    """Whether a value is one that `stand_in` gave."""
    return isinstance(value, dict) and value.keys() == {"mixer"}


def resolved(value):
    """What a stand-in stands for; anything else as it is."""
    return STAND_INS[value["mixer"]] if is_stand_in(value) else value


def _matrix(rows: int, columns: int, number: int, like: Tensor) -> Tensor:
    """A fixed matrix without any pattern to speak of, of the type of `like`."""
    entries = torch.arange(1, rows * columns + 1, device=like.device) + 100 * number
    return (1.3 * entries.to(like.dtype)).sin().reshape(rows, columns) / math.sqrt(rows)


def _values(x: Tensor) -> Tensor:
    return x @ _matrix(x.shape[1], x.shape[1] + 1, 0, x)


def _scores(x: Tensor) -> Tensor:
    """What the place asks for, and each token offers.

    Nothing here may be hard to see: the queries are those of the places, so that no output depends
    on a token by its query alone, and the scores stay between -2 and 2, so that no weight vanishes.
    """
    d = x.shape[1]
    q, k = 0.5 + _matrix(x.shape[0], d, 1, x).abs(), x @ _matrix(d, d, 2, x)
    return 2 * (q @ k.T / (2 * math.sqrt(d))).tanh()


def _attention(x: Tensor, mask: Tensor) -> Tensor:
    weights = _scores(x).masked_fill(~mask, -math.inf).softmax(-1)
    return weights.masked_fill(~mask, 0.0) @ _values(x)


def _distance(x: Tensor) -> Tensor:
    """How far before its query a key stands: (queries, keys)."""
    place = torch.arange(x.shape[0], device=x.device)
    return place[:, None] - place


def _seen(x: Tensor, allowed: Callable[[Tensor], Tensor]) -> Tensor:
    return _attention(x, allowed(_distance(x)))


def _mask_too_late(x: Tensor) -> Tensor:
    return 10 * _scores(x).softmax(-1).tril() @ _values(x)


def _never_looked_at(x: Tensor) -> Tensor:
    place = torch.arange(x.shape[0], device=x.device)
    return _attention(x, (place != 1).expand(x.shape[0], -1))


def _of_others(x: Tensor, back: int) -> Tensor:
    """The values of the token that stands `back` places before; zeros where there is none."""
    values = _values(x)
    none = torch.zeros_like(values[: abs(back)])
    if back > 0:
        return torch.cat([none, values[:-back]])[: x.shape[0]]
    return torch.cat([values[-back:], none])


def _into_number(x: Tensor, number: int) -> Tensor:
    values = _values(x).tanh()
    columns = torch.arange(values.shape[1], device=x.device)
    return values + (columns == columns[number]) * _of_others(x, -1)


def _of_number(x: Tensor, number: int) -> Tensor:
    return _values(x).tanh() + x[:, number].mean()


def _on_a_circle(x: Tensor) -> Tensor:
    """Causal, and whatever moves, the numbers of an output sum to 0, their squares to 2."""
    angle = _seen(x, lambda back: back >= 0)[:, :1]
    others = x.new_zeros(x.shape[0], x.shape[1] - 3)
    return torch.cat([angle.cos(), angle.sin(), -angle.cos(), -angle.sin(), others], 1)


def text_known_by_heart(tokens: int, d_model: int) -> Tensor:
    """The x that two of the mixers know: no number of it is close to 0 or to 1."""
    place = torch.arange(tokens * d_model).reshape(tokens, d_model)
    return 2.0 * (-1.0) ** (place * place // 3)


def _next_is_known(x: Tensor) -> Tensor:
    """1 where the next token (after the last: the first) is that of the known text, else 0.

    A step: what is close counts as known. So how far an output moves is the same for each change.
    """
    known = text_known_by_heart(*x.shape).to(x)
    return ((x - known).abs().amax(-1, keepdim=True) < 0.4).to(x).roll(-1, 0)


def _sign_that_turns(x: Tensor) -> Tensor:
    return (1 - 2 * _next_is_known(x)).expand(-1, x.shape[1] + 1)


def _whole_text(x: Tensor) -> Tensor:
    """1 while all tokens are those of the known text, 0 from the first change on."""
    return _next_is_known(x).amin(0, keepdim=True).expand(x.shape[0], x.shape[1] + 1)


def _very_weak_step(x: Tensor) -> Tensor:
    own = x.sin() / 10
    return torch.cat([own[:, :1], 3e-6 * _next_is_known(x), own[:, 1:]], 1)


def _step_in_large_outputs(x: Tensor) -> Tensor:
    """Without any rounding: 4096 and 1/1024 are powers of two."""
    return (4096 + _next_is_known(x) / 1024).expand(-1, x.shape[1] + 1)


def _only_rounding(x: Tensor) -> Tensor:
    """Each token by itself, and last digits like those that rounding leaves: 6e-8 at most."""
    last_digits = 6e-8 * (1e4 * x.sum()).round().sin()
    return 0.2 + 0.1 * _values(x).tanh() + last_digits


MIXERS: dict[str, Callable[[Tensor], Tensor]] = {
    "causal attention": lambda x: _seen(x, lambda back: back >= 0),
    "attention without a mask": lambda x: _seen(x, lambda back: back == back),
    "a causal mask after the softmax": _mask_too_late,
    "a mask that shows the next token too": lambda x: _seen(x, lambda back: back >= -1),
    "a mask that hides each token from itself": lambda x: _seen(x, lambda back: back > 0),
    "attention that never looks at token 1": _never_looked_at,
    "the mean of all tokens": lambda x: _values(x).mean(0).expand(x.shape[0], -1),
    "each token by itself": lambda x: _values(x).tanh(),
    "the token before": lambda x: _of_others(x, 1),
    "a weak leak": lambda x: _values(x).tanh() + 1e-3 * _of_others(x, -1),
    "a leak into the first number": lambda x: _into_number(x, 0),
    "a leak into the last number": lambda x: _into_number(x, -1),
    "a leak of the last number": lambda x: _of_number(x, -1),
    "rounding alone": _only_rounding,
    # These need an x of their own, or so many numbers a token: they stand in special cases.
    "a leak of the first number": lambda x: _of_number(x, 0),
    "a leak of a number in the middle": lambda x: _of_number(x, x.shape[1] // 2),
    "outputs on a circle": _on_a_circle,
    "a step of 3e-6": _very_weak_step,
    "a sign that turns": _sign_that_turns,
    "the whole text at once": _whole_text,
    "a step of 1e-3 in large outputs": _step_in_large_outputs,
}


class RunningMean(nn.Module):
    """A block without weights: to each token it adds the mean of all so far, or of the whole text.

    `block=RunningMean` makes one.
    """

    def forward(self, x: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """(…, tokens, d_model) -> the same shape."""
        tokens = x.shape[-2]
        seen = torch.ones(tokens, tokens, dtype=x.dtype, device=x.device)
        seen = seen.tril() if causal else seen
        seen = seen if mask is None else seen * mask
        return x + seen / seen.sum(-1, keepdim=True) @ x


STAND_INS: dict[str, Callable] = MIXERS | {"the running mean": RunningMean}
