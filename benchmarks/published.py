"""SmolLM2-135M on a processor: beside Hugging Face's, beside the memory's limit, in other types.

Both models have the same weights, from the same file, and write the same tokens. To write one
token, every matrix is read once; so the speed of the memory is a limit that no program can pass
unless its numbers are smaller.
"""

import copy
import math
import shutil
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.side_by_side import describe, pick_clock
from tfcourse.device import measure_side_by_side, median_interval
from tfcourse.experiments.published import hugging_faces, their_texts, through_compile
from tfcourse.generation import generate
from tfcourse.inside import attention_maps
from tfcourse.pretrained import SMOLLM2, load_smollm2
from tfcourse.quantized import to_int8
from tfcourse.tasks import python_manual

PROMPTS = (
    "The capital of France is", "Once upon a time", "def fib(n):", "2 + 2 =", "Der Hund",
)  # fmt: skip
WRITTEN, READ = 64, 256  # tokens that are written one by one; that are read at once
BIG = 2**27  # float32 numbers, 512 MiB: many times what the caches hold
OURS, THEIRS = "ours, float32", "Hugging Face, float32"
ROWS, COMPILED = "float32, matrices by rows", "float32, compiled"
LIMITS = ("a sum", "a matrix times a vector")


def writing(models, theirs, prompt, rounds=8):
    """Tokens a second of one text, greedy, with a cache; and of one that only reads the weights."""
    works = {
        name: lambda model=model: generate(model, [prompt], WRITTEN, temperature=0)
        for name, model in models.items()
    }
    works[THEIRS] = lambda: their_texts(theirs, [prompt], WRITTEN)
    assert works[OURS]() == works[THEIRS]()
    big, column = torch.ones(BIG), torch.ones(1024)
    works |= {LIMITS[0]: big.sum, LIMITS[1]: lambda: big.view(-1, 1024) @ column}
    times = measure_side_by_side(works, rounds, pick_clock())
    fastest = min(LIMITS, key=lambda name: median_interval(times[name]).middle)
    linear = [part for part in models[OURS].modules() if isinstance(part, nn.Linear)]
    size = sum(part.weight.nbytes for part in linear)
    limit = [second * size / big.nbytes for second in times[fastest]]  # seconds a token

    print("| | tokens a second | over ours | of the memory's limit |\n|---|---|---|---|")
    for name in (*models, THEIRS):
        speed = median_interval(WRITTEN / second for second in times[name])
        over = median_interval(a / b for a, b in zip(times[OURS], times[name], strict=True))
        share = median_interval(WRITTEN * a / b for a, b in zip(limit, times[name], strict=True))
        print(f"| {name} | {speed} | {over} | {share if 'float32' in name else ''} |")
    rate = median_interval(big.nbytes / second / 1e9 for second in times[fastest])
    print(f"\nA token reads {size / 1e6:.0f} MB in float32; {fastest} of 512 MiB, {rate} GB/s.")


@torch.no_grad()
def changes(models, tokens):
    """What other types change: of five texts of 64 tokens, and in bits per byte of a text."""
    prompts = [tokens.encode(prompt) for prompt in PROMPTS]
    ids = tokens.encode(python_manual()[-40_000:])[: 4 * READ]
    windows = torch.tensor(ids).view(4, READ)
    size = sum(len(tokens.bytes(row)) for row in windows[:, 1:].tolist())
    plain, first = None, None
    print("\n| | tokens that differ, of 320 | with the same text before | bits per byte |")
    print("|---|---|---|---|")
    for name, model in models.items():
        texts = [generate(model, [prompt], 64, temperature=0)[0] for prompt in prompts]
        loss = sum(
            F.cross_entropy(model(row[None])[0, :-1].float(), row[1:], reduction="sum").item()
            for row in windows
        )
        bits = loss / math.log(2) / size
        if plain is None:
            plain, first = texts, bits
        differ = sum(
            a != b for x, y in zip(plain, texts, strict=True) for a, b in zip(x, y, strict=True)
        )
        otherwise = sum(
            (model(torch.tensor([prompt + text]))[0, len(prompt) - 1 : -1].argmax(-1) != new).sum()
            for prompt, text in zip(prompts, plain, strict=True)
            for new in [torch.tensor(text)]
        )
        print(f"| {name} | {differ} | {otherwise} | {bits:.4f} ({bits - first:+.4f}) |")


def reading(models, ids, rounds=7):
    """A text read at once, without a cache: fused and explicit attention, compiled, other types."""
    ours = models[OURS]
    ids = torch.tensor([ids[:READ]])

    def read(model, around=nullcontext):
        @torch.no_grad()
        def work():
            with around():
                model(ids)

        return work

    works = {
        "float32, fused attention": read(ours),
        "explicit attention": read(ours, lambda: attention_maps(ours)),
        "bfloat16": read(models["bfloat16"]),
        "mixed precision (autocast)": read(
            models[ROWS], lambda: torch.autocast("cpu", torch.bfloat16)
        ),
        "int8": read(models["int8"]),
    }
    if COMPILED in models:
        works["compiled (torch.compile)"] = read(models[COMPILED])
    times = measure_side_by_side(works, rounds, pick_clock())
    names = list(works)
    print(f"\n| {READ} tokens read at once | seconds | speed over the first |\n|---|---|---|")
    for name in names:
        pairs = zip(times[names[0]], times[name], strict=True)
        over = median_interval(a / b for a, b in pairs)
        print(f"| {name} | {median_interval(times[name])} | {over} |")
    if COMPILED not in models:
        print("\ntorch.compile needs a C++ compiler, which is not here.")


def main():
    print(f"\n{describe()}\n\n### SmolLM2-135M\n")
    if SMOLLM2.find() is None:
        print("It is not installed here: make pretrained")
        return
    ours, tokens = load_smollm2(say=lambda words: None)
    rows, _ = load_smollm2(by_columns=False, say=lambda words: None)
    smaller = copy.deepcopy(ours)
    to_int8(smaller)
    models = {
        OURS: ours,
        ROWS: rows,
        "bfloat16": copy.deepcopy(rows).bfloat16(),
        "int8": smaller,
    }
    if shutil.which("g++") or shutil.which("clang++"):
        models[COMPILED] = through_compile(ours)
    theirs = hugging_faces()
    writing(models, theirs, tokens.encode(PROMPTS[0]))
    del theirs
    changes({name: models[name] for name in (OURS, "bfloat16", "int8")}, tokens)
    reading(models, tokens.encode(python_manual()[:4000]))


if __name__ == "__main__":
    main()
