"""How outputs come back from where an answer ran: as data that can hold nothing else.

JSON for the structure, safetensors for the numbers. A pickle could hold code, and a small one a
tensor of any claimed size; here every number takes its bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

import torch
from safetensors.torch import load, save

from tfcourse.checks.exercise import Output
from tfcourse.checks.running import IN_PLACE

LARGEST = 2 * 2**20  # bytes of JSON; the numbers of a tensor are not in it
WORDS = 2000  # characters that are kept of an error's message
_KINDS = {"own", "library", "answer"}


class NotOutputs(ValueError):
    """Bytes that hold something else than the outputs of an answer."""


def pack(outputs: Sequence[Output]) -> bytes:
    """Outputs, made of plain data, as bytes."""
    tensors: dict[str, torch.Tensor] = {}
    records = [
        {
            "value": _written(output.value, tensors),
            "gradients": _written(output.gradients, tensors),
            "error": output.error,
            "changed": output.changed,
            "used": output.used,
            "largest": output.largest,
            "kind": output.kind,
            "kept": output.kept,
        }
        for output in outputs
    ]
    words = json.dumps(records).encode()
    return struct.pack(">Q", len(words)) + words + save(tensors)


def unpack(given: bytes, count: int) -> list[Output]:
    """The outputs in bytes of which nobody knows where they came from.

    Raises:
        NotOutputs: they are not `count` outputs.
    """
    try:
        [length] = struct.unpack(">Q", given[:8])
        _expect(length <= LARGEST)
        records = json.loads(given[8 : 8 + length])
        tensors = load(given[8 + length :])
        outputs = [_output(record, tensors) for record in records]
    except Exception as error:
        raise NotOutputs(f"no outputs can be read: {type(error).__name__}") from None
    if len(outputs) != count:
        raise NotOutputs(f"{len(outputs)} outputs for {count} cases")
    return outputs


def _written(value, tensors: dict[str, torch.Tensor]):
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        # A tensor of its own: two of them may not share their memory.
        tensors[name] = value.detach().clone(memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(value, tuple):
        return {"tuple": [_written(part, tensors) for part in value]}
    if isinstance(value, list):
        return [_written(part, tensors) for part in value]
    if isinstance(value, dict):
        return {"dict": [[str(key), _written(part, tensors)] for key, part in value.items()]}
    return value


def _read(value, tensors: dict[str, torch.Tensor]):
    if isinstance(value, list):
        return [_read(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    [(kind, held)] = value.items()
    if kind == "tensor":
        return tensors[held]
    if kind == "tuple":
        return tuple(_read(part, tensors) for part in held)
    if kind == "dict":
        return {str(key): _read(part, tensors) for key, part in held}
    raise NotOutputs(kind)


def _output(record: dict, tensors: dict[str, torch.Tensor]) -> Output:
    gradients = _read(record["gradients"], tensors)
    if isinstance(gradients, list):
        _expect(all(g is None or isinstance(g, torch.Tensor) for g in gradients))
    else:
        _expect(gradients in (None, IN_PLACE))
    changed, used = tuple(record["changed"]), tuple(record["used"])
    _expect(all(type(part) in (int, str) for part in changed))
    _expect(all(type(part) is str for part in used))
    _expect(type(record["largest"]) is int and type(record["kept"]) is bool)
    _expect(record["kind"] in _KINDS)
    return Output(
        value=_read(record["value"], tensors),
        gradients=gradients,
        error=_error(record["error"]),
        changed=changed,
        used=used,
        largest=record["largest"],
        kind=record["kind"],
        kept=record["kept"],
    )


def _error(record: dict | None) -> dict | None:
    if record is None:
        return None
    words = {name: record[name] for name in ("type", "message", "code")}
    _expect(all(type(word) is str for word in words.values()))
    _expect(record["line"] is None or type(record["line"]) is int)
    return {name: word[:WORDS] for name, word in words.items()} | {"line": record["line"]}


def _expect(holds: bool) -> None:
    if not holds:
        raise NotOutputs("something else than an output")
