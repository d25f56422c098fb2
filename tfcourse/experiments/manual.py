"""The model that comes with the course: characters of Python's manual (lessons 09 and 10).

    python -m tfcourse.experiments.manual

trains it in some six minutes on two cores and writes data/manual.safetensors, with a note of how it
was made. Its parts are those that a learner writes in lessons 02 to 09, so that its weights fit
theirs.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import asdict

import torch

from tfcourse.checkpoints import load_model, save_model
from tfcourse.experiments import DATA
from tfcourse.experiments.characters import train
from tfcourse.models import LanguageModel, MakesBlock, TransformerConfig
from tfcourse.tasks import CharacterText, python_manual

FILE = DATA / "manual.safetensors"
SETTINGS = {"seed": 0, "tokens": 512, "batch": 8, "steps": 1500, "learning_rate": 3e-3}
RECIPE = {"warm_up": 150, "decay": True, "clip": 1.0, "weight_decay": 0.1}
WINDOW, WINDOWS = 256, 128  # what it is measured on


def config(vocabulary: int) -> TransformerConfig:
    """The sizes of the model: 0.6 million parameters. Without dropout it learns pages by heart."""
    return TransformerConfig(vocabulary, 128, 4, 3, tied=True, dropout=0.1)


def load(block: MakesBlock = TransformerConfig.block) -> tuple[LanguageModel, CharacterText, dict]:
    """The model, the manual in the model's own vocabulary, and the file's note.

    The manual of another Python may hold a few characters that the model has never met. They are
    left out.

    Raises:
        FileNotFoundError, ValueError: as `load_model`.
    """
    model, about = load_model(FILE, block=block)
    known = about["vocabulary"]
    text = "".join(character for character in python_manual() if character in set(known))
    return model, CharacterText(text, vocabulary=known), about


def held_out(model: LanguageModel, text: CharacterText) -> float:
    """The loss on the last tenth of the text, in nats a character."""
    return text.losses(model, WINDOW, windows=WINDOWS).mean().item()


def make() -> None:
    """Train the model and write its file."""
    text = CharacterText(python_manual())
    torch.manual_seed(SETTINGS["seed"])
    model = LanguageModel(config(len(text.vocabulary))).small_embeddings()
    began = time.monotonic()
    train(model, **SETTINGS, **RECIPE, progress="the manual")
    note = {
        "vocabulary": text.vocabulary,
        "command": "python -m tfcourse.experiments.manual",
        "settings": SETTINGS | RECIPE,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "seconds": round(time.monotonic() - began),
        "held out": round(held_out(model, text), 4),
    }
    save_model(FILE, model, **note)
    print(f"{note['held out']} nats held out after {note['seconds']} s: {asdict(model.config)}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    make()
