"""What is read out of published models: parts that are removed, and the record beside the live."""

import platform

import pytest
import torch

from tfcourse.experiments import published, recorded
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.pretrained import MINILM, SMOLLM2, load_minilm, load_smollm2
from tfcourse.tokens import BytePairEncoding

KEPT = recorded("published")
RECORD = KEPT["results"]
of_this_manual = pytest.mark.skipif(
    platform.python_version() != KEPT["versions"]["python"],
    reason="Python's manual is another text in another version",
)


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    config = TransformerConfig(300, 24, 3, 2, norm="rms", gated=True, activation="silu", bias=False)
    tokens = BytePairEncoding.train("the cat sat on the mat, the cat sat", 260)
    return LanguageModel(config).small_embeddings().eval(), tokens


def logits(model, ids):
    with torch.no_grad():
        return model(ids)


@torch.no_grad()
def test_a_sub_layer_that_is_removed_adds_nothing(small):
    model, _ = small
    ids = torch.randint(260, (2, 9))
    with published.removed(model, "MLP 1"):
        found = logits(model, ids)
    x = model.embed(ids)
    x = model.blocks[0](x, causal=True)
    x = x + model.blocks[1].attention(model.blocks[1].attention_norm(x), causal=True)
    assert torch.allclose(found, model.head(model.norm(x)), atol=1e-5)
    whole = logits(model, ids)
    for part in published.parts(model):
        with published.removed(model, part):
            assert (logits(model, ids) - whole).abs().max() > 1e-3, part
        assert torch.equal(logits(model, ids), whole), part


@pytest.mark.parametrize("part", ["attention 2", "MLP", "norm 1", "", "MLP -1"])
def test_a_part_that_is_not_there(small, part):
    says = pytest.raises(ValueError, match="part must be 'attention i' or 'MLP i'")
    with says, published.removed(small[0], part):
        pass


def test_without_positions_order_is_seen_by_the_mask_alone(small):
    model, _ = small
    ids = torch.tensor([[5, 6, 7, 8]])
    other = ids[:, [1, 0, 2, 3]]
    with published.removed(model, "positions"):
        first_block = model.blocks[0]
        a, b = (first_block(model.embed(x), causal=True)[0, 3] for x in (ids, other))
    assert torch.allclose(a, b, atol=1e-6)


@torch.no_grad()
def test_bits_per_byte_of_a_model_that_knows_nothing(small):
    model, tokens = small
    ids = torch.tensor([tokens.encode("the cat sat on the mat")[:8]] * 2)
    kept = model.head.weight.clone()
    model.head.weight.zero_()
    try:
        found = published.bits_per_byte(model, tokens, ids)
    finally:
        model.head.weight.copy_(kept)
    size = len(tokens.bytes(ids[0, 1:].tolist()))
    expected = 7 * torch.log2(torch.tensor(300.0)) / size
    assert torch.allclose(found, expected.expand(2), rtol=1e-5)


def test_maps_come_back_from_the_record():
    weights = torch.softmax(torch.randn(2, 3, 5, 5), -1)
    kept = {"tokens": list("abcde"), "shape": [2, 3, 5, 5]}
    kept["bytes"] = published._text(weights)
    back = published.kept_maps(kept)
    assert (back["weights"] - weights).abs().max() <= 0.5 / 255 + 1e-6
    live = {"tokens": list("abcde"), "weights": weights}
    assert published.kept_maps(live) is live


def test_where_no_model_is_the_record_is_shown(capsys):
    assert published.reading("next tokens", None, None) == RECORD["next tokens"]
    assert "SmolLM2 is not on this machine" in capsys.readouterr().out
    published.reading("next tokens", None, None, "Another prompt")
    assert "its own text" in capsys.readouterr().out
    assert published.alike(None) == RECORD["sentences"]
    assert "MiniLM is not" in capsys.readouterr().out
    assert RECORD["next tokens"][0][0] == " Paris"


# --- with the weights ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smollm2():
    if SMOLLM2.find() is None or SMOLLM2.find().suffix != ".gguf":
        pytest.skip("SmolLM2 is not installed: make pretrained")
    return load_smollm2(say=lambda words: None)


@of_this_manual
@pytest.mark.parametrize("name", ["cut", "next tokens", "first shares", "sink sizes", "induction"])
def test_the_record_is_what_the_model_says_today(smollm2, name):
    found, kept = published.reading(name, *smollm2), RECORD[name]
    if name == "cut":
        assert found == kept
    elif name == "next tokens":
        assert [token for token, _ in found] == [token for token, _ in kept]
    else:
        pairs = [(found, kept)] if isinstance(kept, list) else [(found[k], kept[k]) for k in kept]
        for a, b in pairs:
            assert torch.allclose(torch.tensor(a), torch.tensor(b), atol=2e-3)


def test_the_largest_logits_are_hugging_faces(smollm2):
    for ours, theirs in zip(
        published.reading("largest logits", *smollm2), RECORD["hugging face"], strict=True
    ):
        assert ours["ids"] == theirs["ids"]
        assert max(abs(a - b) for a, b in zip(ours["logits"], theirs["logits"], strict=True)) < 1e-3


@of_this_manual
def test_what_a_removed_part_costs_is_what_was_recorded(smollm2):
    found = published.without(*smollm2, ["MLP 0"])
    for part, bits in found.items():
        assert bits == pytest.approx(RECORD["without"][part], abs=5e-3)


def test_sentences_are_as_alike_as_recorded():
    if MINILM.find() is None:
        pytest.skip("MiniLM is not installed: make pretrained")
    found = torch.tensor(published.alike(load_minilm(say=lambda words: None)))
    assert torch.allclose(found, torch.tensor(RECORD["sentences"]), atol=2e-4)
