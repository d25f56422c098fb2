"""tfcourse.inside: what is read is what the model computes, and what is replaced is replaced."""

import pytest
import torch
from torch import nn

from tfcourse.inside import (
    attention_maps,
    head_outputs,
    head_scores,
    induction_scores,
    logit_lens,
    replaced_heads,
    replaced_weights,
)
from tfcourse.models import LanguageModel, Transformer, TransformerConfig

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [2, 0, 2, 1, 6]])
NAMES = ["blocks.0.attention", "blocks.1.attention"]


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(7, 12, 3, 2)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.requires_grad_(False)


def test_maps_are_the_weights_and_change_nothing(model):
    plain = model(TOKENS)
    with attention_maps(model) as maps:
        watched = model(TOKENS)
    assert (plain - watched).abs().max() < 1e-5
    assert list(maps) == NAMES
    for weights in maps.values():
        assert weights.shape == (2, 3, 5, 5)
        assert torch.allclose(weights.sum(-1), torch.ones(2, 3, 5))
        assert not weights.triu(1).any()
    block = model.blocks[0]
    x = block.attention_norm(model.embed(TOKENS))
    assert torch.equal(maps[NAMES[0]], block.attention(x, causal=True, return_weights=True)[1])
    assert torch.equal(model(TOKENS), plain)  # the hooks are gone


def test_maps_of_a_translator_hold_the_cross_attention():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(7, 12, 3, 1)).eval()
    with attention_maps(model) as maps:
        model(TOKENS, TOKENS[:, :3])
    assert maps["blocks.0.cross_attention"].shape == (2, 3, 3, 5)
    assert maps["encoder.blocks.0.attention"].shape == (2, 3, 5, 5)


def test_a_head_switched_off_is_one_whose_rows_of_the_projection_are_zero(model):
    with replaced_heads(model, {(NAMES[1], 2): 0.0}):
        off = model(TOKENS)
    assert (off - model(TOKENS)).abs().max() > 0.01
    model.blocks[1].attention.out.weight[:, 8:12] = 0  # the third head's four numbers
    assert torch.allclose(off, model(TOKENS), atol=1e-6)


def test_a_head_patched_in_from_its_own_run_changes_nothing(model):
    with head_outputs(model) as kept:
        plain = model(TOKENS)
    assert kept[NAMES[0]].shape == (2, 3, 5, 4)
    every = {(name, head): kept[name][:, head] for name in NAMES for head in range(3)}
    with replaced_heads(model, every):
        assert torch.allclose(model(TOKENS), plain, atol=1e-6)
        other = model(TOKENS.flip(0))
    with head_outputs(model) as others:
        model(TOKENS.flip(0))
    assert not torch.allclose(others[NAMES[1]], kept[NAMES[1]], atol=1e-3)
    assert not torch.allclose(other, plain, atol=1e-3)  # the tokens themselves are other ones


def test_a_heads_own_weights_put_in_again_change_nothing(model):
    with attention_maps(model) as maps:
        plain = model(TOKENS)
    own = {(name, head): maps[name][:, head] for name in NAMES for head in range(3)}
    with replaced_weights(model, own):
        assert torch.allclose(model(TOKENS), plain, atol=1e-6)
    assert torch.equal(model(TOKENS), model(TOKENS))  # the hooks are gone


def test_other_weights_fetch_other_values(model):
    """All weight on the first key: every query of the head gets the first value."""
    first = torch.zeros(5, 5)
    first[:, 0] = 1
    with replaced_weights(model, {(NAMES[1], 2): first}), head_outputs(model) as kept:
        other = model(TOKENS)
    assert not torch.allclose(other, model(TOKENS), atol=1e-3)
    block = model.blocks[1]
    x = model.blocks[0](model.embed(TOKENS), causal=True)
    values = block.attention._project(block.attention_norm(x), None)[2]  # (2, 3, 5, 4)
    wanted = values[:, 2, :1].expand(-1, 5, -1)
    with replaced_heads(model, {(NAMES[1], 2): wanted}):
        assert torch.allclose(model(TOKENS), other, atol=1e-5)
    assert torch.allclose(kept[NAMES[1]][:, :2], _plain_heads(model)[:, :2], atol=1e-6)


def _plain_heads(model):
    with head_outputs(model) as kept:
        model(TOKENS)
    return kept[NAMES[1]]


def test_other_weights_of_the_last_query_behind_a_cache(model):
    with attention_maps(model) as maps:
        model(TOKENS)
    weights = maps[NAMES[0]][:, 1].clone()
    weights[:, -1] = 0.2
    with replaced_weights(model, {(NAMES[0], 1): weights}):
        whole = model(TOKENS)[:, -1]
    caches = model.new_caches()
    model(TOKENS[:, :4], caches=caches)
    with replaced_weights(model, {(NAMES[0], 1): weights[:, -1:]}):
        last = model(TOKENS[:, 4:], caches=caches)[:, 0]
    assert torch.allclose(last, whole, atol=1e-5)


def test_other_weights_where_heads_share_values():
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(7, 16, 4, 1, n_kv_heads=2)).eval()
    with attention_maps(model) as maps:
        plain = model(TOKENS)
    own = {(NAMES[0], head): maps[NAMES[0]][:, head] for head in range(4)}
    with replaced_weights(model, own):
        assert torch.allclose(model(TOKENS), plain, atol=1e-6)


def test_other_weights_of_cross_attention():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(7, 12, 3, 1)).eval()
    name = "blocks.0.cross_attention"
    with attention_maps(model) as maps:
        plain = model(TOKENS, TOKENS[:, :3])
    with replaced_weights(model, {(name, 0): maps[name][:, 0]}):
        assert torch.allclose(model(TOKENS, TOKENS[:, :3]), plain, atol=1e-6)
    with replaced_weights(model, {(name, 0): torch.full((3, 5), 0.2)}):
        assert not torch.allclose(model(TOKENS, TOKENS[:, :3]), plain, atol=1e-4)


def test_scores_of_heads_made_to_order():
    n = 6
    previous = torch.cat([torch.eye(n)[:1], torch.eye(n)[:-1]])
    first = torch.zeros(n, n)
    first[:, 0] = 1
    induction = torch.zeros(n, n)
    for query in range(n):
        induction[query, query - 2 if query >= 3 else query] = 1  # length 3: to i + 1
    weights = torch.stack([previous, first, torch.eye(n), induction])[None].expand(2, -1, -1, -1)
    found = head_scores(weights)
    assert found["previous"].tolist() == pytest.approx([1, 0.2, 0, 0])
    assert found["first"].tolist() == pytest.approx([0.2, 1, 0, 0])
    assert found["itself"].tolist() == pytest.approx([0, 0, 1, 0.4])
    assert induction_scores(weights, 3).tolist() == [0, 0, 0, 1]


def test_the_last_line_of_the_lens_is_the_model(model):
    lens = logit_lens(model, TOKENS)
    assert lens.shape == (3, 2, 5, 7)
    assert torch.equal(lens[-1], model(TOKENS))
    assert torch.equal(lens[0], model.head(model.norm(model.embed(TOKENS))))


def _with_weights(model, weights):
    with replaced_weights(model, {(NAMES[0], 0): weights}):
        model(TOKENS)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: replaced_heads(m, {("blocks.9", 0): 0.0}).__enter__(), "Got 'blocks.9', 0"),
        (lambda m: replaced_heads(m, {(NAMES[0], 3): 0.0}).__enter__(), r"\(0 to 2\)"),
        (
            lambda m: replaced_weights(m, {(NAMES[0], 7): torch.eye(5)}).__enter__(),
            "Got 'blocks.0.attention', 7",
        ),
        (lambda m: _with_weights(m, torch.eye(4)), r"= \(5, 5\), or a batch of them. Got \(4, 4\)"),
        (lambda m: head_outputs(nn.Linear(2, 2)).__enter__(), "Got none in it"),
        (lambda m: head_scores(torch.ones(3, 3)), "weights must have 4 axes"),
        (lambda m: induction_scores(torch.ones(1, 1, 5, 5), 3), "must be of 6 tokens. Got 5"),
    ],
)
def test_what_does_not_fit_is_told(model, call, said):
    with pytest.raises(ValueError, match=said):
        call(model)
