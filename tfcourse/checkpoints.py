"""Files of weights: safetensors with a note of what they are, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tfcourse.models import LanguageModel, MakesBlock, TransformerConfig

ABOUT = "tfcourse"  # the entry of the file's metadata that holds the note, as JSON


def write(path: str | Path, tensors: Mapping[str, Tensor], about: dict) -> None:
    """Write tensors and a note, so that a file that was there is replaced whole or stays.

    Raises:
        OSError: it cannot be written; the sentence says why, and what was there is still there.
    """
    path = Path(path)
    # A name of its own for each process: two writers never share a half-written file.
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = save(held, metadata={ABOUT: json.dumps(about)})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise OSError(
            error.errno,
            f"{path.name} ({len(content) / 1e6:.1f} MB) could not be written: {error.strerror}. "
            "Nothing that was there is lost. Make room, or choose another folder",
        ) from error
    finally:
        if draft.exists():
            draft.unlink()


def read(path: str | Path) -> tuple[dict[str, Tensor], dict]:
    """The tensors of a file that `write` wrote, and the note.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is cut off, damaged, or no file of this course.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path.name!r} in {path.absolute().parent}.")
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[ABOUT])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except KeyError:
        raise ValueError(
            f"{path.name} holds tensors, but no note of this course: it was not written here."
        ) from None
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path.name} is cut off or damaged ({error}). It is left as it is: move it away and "
            "begin anew, or choose another name."
        ) from None
    return tensors, about


def save_model(path: str | Path, model: LanguageModel, **about) -> None:
    """Keep a language model: its weights, its config, and whatever else is `about` it (JSON).

    Raises:
        OSError: as `write`.
    """
    # A tied head is the embedding's table: safetensors wants each memory once.
    tensors = dict(model.state_dict())
    if model.config.tied:
        tensors.pop("head.weight", None)
    write(path, tensors, {"config": asdict(model.config), **about})


def load_model(
    path: str | Path,
    *,
    block: MakesBlock = TransformerConfig.block,
) -> tuple[LanguageModel, dict]:
    """A kept model, in evaluation mode, and all else that the file says about it.

    Args:
        path: the file.
        block: as `LanguageModel` has it; its weights must be called as those in the file.

    Raises:
        FileNotFoundError, ValueError: as `read`; or the weights are not those of the config.
    """
    tensors, about = read(path)
    config = config_from(about.pop("config", None), Path(path).name)
    with torch.random.fork_rng(devices=[]):  # the first weights are thrown away
        model = LanguageModel(config, block=block)
    if config.tied:
        tensors["head.weight"] = tensors.get("embed.tokens.weight")
    check_weights(model.state_dict(), tensors, Path(path).name)
    model.load_state_dict(tensors)
    return model.eval(), about


def config_from(found: dict | None, name: str) -> TransformerConfig:
    """The config in a file's note.

    Raises:
        ValueError: there is none, or one that this version of the course does not know.
    """
    known = {field.name for field in fields(TransformerConfig)}
    if not isinstance(found, dict) or not set(found) <= known:
        more = sorted(set(found) - known) if isinstance(found, dict) else "no config"
        raise ValueError(f"{name} is of another version of the course ({more}).")
    return TransformerConfig(**found)


def check_weights(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], name: str) -> None:
    """Raise unless the tensors found in the file `name` are called and shaped as those wanted.

    Raises:
        ValueError: names the first that differs.
    """
    check_names(wanted, found, name)
    for key, tensor in wanted.items():
        check_shape(key, tensor, found[key], name)


def check_names(wanted: Collection[str], found: Collection[str], name: str) -> None:
    """Raise unless the file `name` holds what is wanted, and nothing else.

    Raises:
        ValueError: names the first that differs.
    """
    for key in sorted({*wanted} ^ {*found}):
        where = "in the model but not in the file" if key in wanted else "in the file alone"
        raise ValueError(f"{name} is of another model: {key} is {where}.")


def check_shape(key: str, wanted: Tensor, found: Tensor, name: str) -> None:
    """Raise unless a tensor of the file `name` has the shape that is wanted.

    Raises:
        ValueError: says both shapes.
    """
    if wanted.shape != found.shape:
        raise ValueError(
            f"{name} is of another model: {key} is {tuple(found.shape)} there, and "
            f"{tuple(wanted.shape)} here."
        )
