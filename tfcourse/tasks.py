"""What the course's models are trained on: text that every Python installation has."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_number

PARTS = ("train", "held out")


def python_manual() -> str:
    """Python's reference manual, some 465,000 characters; it differs a little between versions."""
    from pydoc_data.topics import topics  # in every installation: what help("if") prints

    return "\n".join(topics[name] for name in sorted(topics))


class CharacterText:
    """A text as a row of characters' numbers, its end held out from training.

    Args:
        text: any text.
        held_out: the share at its end that is kept for measuring.
    """

    def __init__(self, text: str, *, held_out: float = 0.1):
        if not isinstance(text, str):
            raise TypeError(f"text must be a string. Got {type(text).__name__}.")
        check_number("held_out", held_out, 0.0, 1.0)
        self.vocabulary = sorted(set(text))
        number = {character: i for i, character in enumerate(self.vocabulary)}
        ids = torch.tensor([number[character] for character in text])
        cut = len(ids) - int(held_out * len(ids))
        self._parts = {"train": ids[:cut], "held out": ids[cut:]}

    def decode(self, ids: Int[Tensor, " tokens"]) -> str:
        """The characters of a row of numbers."""
        return "".join(self.vocabulary[i] for i in ids.tolist())

    def batch(
        self, size: int, tokens: int, generator: torch.Generator, part: str = "train"
    ) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch tokens"]]:
        """`size` windows from random places, and the same ones a character later.

        Raises:
            ValueError: the part has not `tokens` + 1 characters, or there is no such part.
        """
        ids = self._part(part, tokens)
        starts = torch.randint(len(ids) - tokens, (size,), generator=generator)
        windows = ids[starts[:, None] + torch.arange(tokens + 1)]
        return windows[:, :-1], windows[:, 1:]

    @torch.no_grad()
    def losses(
        self, model: nn.Module, tokens: int, *, windows: int = 64, part: str = "held out"
    ) -> Tensor:
        """Cross-entropy at every position in nats, (windows, tokens), over evenly placed windows.

        The model is measured in evaluation mode and left in the mode in which it was.
        """
        check_count("windows", windows)
        ids = self._part(part, tokens)
        device = next(model.parameters()).device
        starts = torch.linspace(0, len(ids) - tokens - 1, windows).long()
        window = ids[starts[:, None] + torch.arange(tokens + 1)].to(device)
        was = model.training
        model.eval()
        try:
            logits = model(window[:, :-1])
        finally:
            model.train(was)
        return F.cross_entropy(logits.mT, window[:, 1:], reduction="none").cpu()

    def unigram_entropy(self) -> float:
        """The loss in nats of one who knows only how frequent each character is."""
        share = self._parts["train"].bincount(minlength=len(self.vocabulary)).double()
        return torch.special.entr(share / share.sum()).sum().item()

    def _part(self, part: str, tokens: int) -> Tensor:
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}. Got {part!r}.")
        check_count("tokens", tokens)
        ids = self._parts[part]
        if len(ids) <= tokens:
            raise ValueError(
                f"tokens must be below the {len(ids)} characters of this part. Got {tokens}."
            )
        return ids
