"""Text from a trained model: choosing the next token, with a cache or without (lesson 09)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcourse.arguments import check_count, check_flag, check_floats, check_number
from tfcourse.models import LanguageModel, Transformer, evaluating


def next_token_probabilities(
    logits: Float[Tensor, "... vocabulary"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "... vocabulary"]:
    """The distribution to draw the next token from, in the vocabulary's order.

    The logits are divided by the temperature; then all but the `top_k` likeliest tokens are left
    out; then of what is left, all but the likeliest whose probabilities together reach `top_p`
    (Holtzman et al., *The Curious Case of Neural Text Degeneration*, 2019). Tokens that are exactly
    as likely as the last one kept are kept too: what is equal is treated as equal.

    Args:
        logits: one for each token of the vocabulary, in the last axis.
        temperature: below 1 sharper, above 1 flatter; 0: the likeliest token alone (greedy), the
            first of them where several are.
        top_k: how many are kept; None: all.
        top_p: the share that the kept ones must reach, above 0, at most 1; None: all.

    Returns:
        probabilities that sum to one; exactly 0 for what is left out.

    Raises:
        TypeError: logits is no float tensor, or another argument no number.
        ValueError: a value is out of range.
    """
    check_floats("logits", logits, "(…, vocabulary)")
    check_number("temperature", temperature, 0.0, math.inf)
    if top_k is not None:
        check_count("top_k", top_k)
    if top_p is not None:
        check_number("top_p", top_p, 0.0, math.inf)
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1. Got {top_p}.")
    if temperature == 0:
        first = logits.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, first, 1.0)
    # Divided after the greatest is taken away: a tiny temperature must not reach infinity.
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    probabilities = torch.softmax(logits, dim=-1)
    if top_p is None or top_p == 1:
        return probabilities
    ordered = probabilities.sort(dim=-1, descending=True).values
    before = ordered.cumsum(dim=-1) - ordered  # what the likelier ones have together
    least = ordered.masked_fill(before >= top_p, math.inf).amin(dim=-1, keepdim=True)
    kept = probabilities.masked_fill(probabilities < least, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | None = None,
    generator: torch.Generator | None = None,
    cache: bool = True,
    watch: Callable[[list[list[int]]], None] | None = None,
) -> list[list[int]]:
    """What the model writes after each prompt.

    Args:
        model: put in evaluation mode for the time, and left in the mode in which it was.
        prompts: lists of tokens, at least one of each; their lengths may differ.
        new_tokens: how many at most.
        temperature, top_k, top_p: as `next_token_probabilities` has them.
        stop: the token after which a text is finished; it is not part of the text.
        generator: of the draws; default: torch's own.
        cache: keep keys and values, so that a token costs one step and not the whole text again.
            A block that takes no `cache=` needs False.
        watch: called with the texts so far, after every token.

    Returns:
        for each prompt the new tokens alone.

    Raises:
        TypeError, ValueError: an argument does not fit.
    """
    rows = _rows(prompts)
    check_count("new_tokens", new_tokens)
    check_flag("cache", cache)
    if cache and not all(_takes_a_cache(block) for block in model.blocks):
        raise TypeError(
            "cache must be False for this model: its blocks take no `cache=`. Got True."
        )
    device = next(model.parameters()).device
    longest = max(len(row) for row in rows)
    room = model.config.max_tokens if model.config.positions == "learned" else math.inf
    if longest + new_tokens - 1 > room:
        raise ValueError(
            f"new_tokens must leave prompt and text within the model's {room} positions. Got "
            f"{new_tokens} after a prompt of {longest}."
        )
    padding = torch.tensor([longest - len(row) for row in rows], device=device)
    text = torch.tensor(
        [[row[0]] * (longest - len(row)) + list(row) for row in rows], device=device
    )
    options = {"padding": padding} if bool(padding.any()) else {}
    if cache:
        options["caches"] = model.new_caches()
    written: list[list[int]] = [[] for _ in rows]
    open_rows = set(range(len(rows)))
    with evaluating(model):
        new = text
        for _ in range(new_tokens):
            logits = model(new if cache else text, **options)[:, -1].float()
            token = _draw(logits, temperature, top_k, top_p, generator)  # (batch, 1)
            for i in sorted(open_rows):
                if token[i].item() == stop:
                    open_rows.discard(i)
                else:
                    written[i].append(token[i].item())
            if watch is not None:
                watch(written)
            if not open_rows:
                break
            new, text = token, torch.cat([text, token], dim=1)
    return written


@torch.no_grad()
def translate(
    model: Transformer,
    source: Int[Tensor, "batch source"],
    source_mask: Tensor | None,
    *,
    start: int,
    stop: int,
    new_tokens: int,
) -> list[list[int]]:
    """What the decoder writes, always the likeliest token, for every source of a batch.

    Args:
        model: as in `generate`.
        source, source_mask: as `Transformer` has them.
        start, stop: the token that the decoder begins with, and the one that ends a text.
        new_tokens: how many at most.

    Returns:
        for each source its tokens, without start and stop.
    """
    check_count("new_tokens", new_tokens)
    with evaluating(model):
        memory = model.encoder(source, source_mask)
        caches = model.new_caches()
        token = torch.full((len(source), 1), start, device=memory.device)
        rows = []
        ended = torch.zeros(len(source), dtype=torch.bool, device=memory.device)
        for _ in range(new_tokens):
            logits = model.write(token, memory, source_mask, caches=caches)
            token = logits[:, -1:].argmax(dim=-1)  # (batch, 1)
            rows.append(token)
            ended |= token[:, 0] == stop
            if ended.all():
                break
    written = torch.cat(rows, dim=1).tolist()
    return [row[: row.index(stop)] if stop in row else row for row in written]


def _draw(logits, temperature, top_k, top_p, generator) -> Int[Tensor, "batch 1"]:
    probabilities = next_token_probabilities(logits, temperature, top_k, top_p)
    if temperature == 0:
        return probabilities.argmax(dim=-1, keepdim=True)
    # On the CPU, so that a seed means the same draws on every device.
    token = torch.multinomial(probabilities.cpu(), 1, generator=generator)
    return token.to(logits.device)


def _rows(prompts) -> list[list[int]]:
    if isinstance(prompts, Tensor):
        prompts = prompts.tolist()
    fits = isinstance(prompts, (list, tuple)) and all(
        isinstance(row, (list, tuple)) and all(isinstance(token, int) for token in row)
        for row in prompts
    )
    if not fits:
        raise TypeError(
            f"prompts must be a list of lists of tokens (ints). Got {type(prompts).__name__}."
        )
    if not prompts or not all(prompts):
        raise ValueError("prompts must hold at least one prompt, each of at least one token.")
    return [list(row) for row in prompts]


def _takes_a_cache(block: nn.Module) -> bool:
    parameters = inspect.signature(block.forward).parameters
    return "cache" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
