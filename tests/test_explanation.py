"""Is a weight an explanation: the parts of the study, on a small model with large weights."""

import pytest
import torch

from tfcourse.experiments import explanation
from tfcourse.experiments.explanation import (
    APART,
    TRAINED,
    UNTRAINED,
    LastToken,
    agreement,
    apart,
    effects,
    found_unheard,
    importance,
    look,
    others,
    rank_correlation,
    reweighted,
    told,
    unheard,
    usual,
    windows,
    without_each_key,
)
from tfcourse.inside import attention_maps, replaced_heads, replaced_weights
from tfcourse.models import LanguageModel, TransformerConfig

N = 9


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(11, 16, 2, 2)).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.normal_(std=0.4)
    return model


@pytest.fixture(scope="module")
def tokens():
    return torch.randint(11, (N,), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def text(model, tokens):
    return LastToken(model, tokens)


def kl(model, tokens, other):
    says, then = (x.double().log_softmax(-1) for x in (model(tokens[None])[0, -1], other))
    return (says.exp() * (says - then)).sum().item()


def test_it_says_what_the_model_says(model, tokens, text):
    assert torch.allclose(text.says[0], model(tokens[None])[0, -1].double().log_softmax(-1))
    with attention_maps(model) as maps:
        model(tokens[None])
    assert torch.allclose(text.weights[1], maps["blocks.1.attention"][0, :, -1])


def test_what_the_keys_bring_adds_up_to_what_the_attention_gives(model, tokens, text):
    block = model.blocks[0]
    x = block.attention_norm(model.embed(tokens[None]))
    gives = block.attention(x, causal=True)[0, -1] - block.attention.out.bias
    assert torch.allclose(
        (text.weights[0, ..., None] * text.brings[0]).sum((0, 1)), gives, atol=1e-5
    )


def test_a_forbidden_key_is_one_that_a_mask_forbids(text):
    rows = without_each_key(text.weights)
    assert rows.shape == (2, 2, N, N)
    assert not rows.diagonal(dim1=-2, dim2=-1).any()
    assert torch.allclose(rows.sum(-1), torch.ones(2, 2, N))
    scores = text.weights[1, 0].log()
    scores[3] = -torch.inf
    assert torch.allclose(rows[1, 0, 3], scores.softmax(-1), atol=1e-6)


def test_effects_are_those_of_the_whole_model(model, tokens, text):
    """One key of one head, by the way that a learner would take: all tokens computed again."""
    found = effects(text)
    with attention_maps(model) as maps:
        model(tokens[None])
    weights = maps["blocks.0.attention"][0, 1].clone()
    weights[-1] = without_each_key(weights[-1])[4]
    with replaced_weights(model, {("blocks.0.attention", 1): weights}):
        other = model(tokens[None])[0, -1]
    assert found["head"][0, 1, 4].item() == pytest.approx(kl(model, tokens, other), rel=1e-3)
    assert found["head"].shape == (2, 2, N)
    assert found["layer"].shape == (2, N)


def test_its_own_weights_change_nothing_and_off_is_off(model, tokens, text):
    own = text.weights[1, 0].expand(3, N)
    change, same = text.fetching({(1, 0): own})
    assert change.max() < 1e-9
    assert same.all()
    with replaced_heads(model, {("blocks.1.attention", 0): 0.0}):
        other = model(tokens[None])[0, -1]
    assert text.off(1, 0, 0.0) == pytest.approx(kl(model, tokens, other), rel=1e-3)


def test_the_mean_of_one_text_is_what_its_head_gives(model, tokens, text):
    """And over more texts it is their mean."""
    own = usual(model, tokens[None])
    assert own.shape == (2, 2, 8)
    assert text.off(1, 0, own[1, 0]) < 1e-9
    other = usual(model, tokens.flip(0)[None])
    both = usual(model, torch.stack([tokens, tokens.flip(0)]))
    assert torch.allclose(both, (own + other) / 2, atol=1e-5)
    assert text.off(1, 0, both[1, 0]) > 1e-6


def test_importance_is_of_the_text_itself(model, tokens):
    found = importance(model, tokens, torch.Generator().manual_seed(2), draws=1)
    assert found.shape == (N,)
    drawn = torch.randint(1, 11, (1, N), generator=torch.Generator().manual_seed(2))[0]
    other = tokens.clone()
    other[5] = (other[5] + drawn[5]) % 11
    assert other[5] != tokens[5]
    wanted = kl(model, tokens, model(other[None])[0, -1])
    assert found[5].item() == pytest.approx(wanted, rel=1e-3)


def test_other_weights_are_weights():
    weights = torch.tensor([0.7, 0.2, 0.1, 0.0])
    rows = others(weights, torch.Generator().manual_seed(0), shuffled=3)
    assert rows.shape == (8, 4)
    assert torch.allclose(rows.sum(-1), torch.ones(8))
    assert rows[0].tolist() == [0.25] * 4
    assert rows[2].sort().values.tolist() == weights.sort().values.tolist()
    assert torch.equal(rows[4:], torch.eye(4))
    assert apart(weights, rows[4:]).tolist() == pytest.approx([0.3, 0.8, 0.9, 1.0])


def test_reweighted_finds_what_goes_unheard(text):
    found = reweighted(text, torch.zeros(2, 2, 8), torch.Generator().manual_seed(0))
    assert [(case["layer"], case["head"]) for case in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for case in found:
        assert case["off"] > 0
        assert min(case["even"], case["shuffled"]) > 0
        assert 0 <= case["farthest"] <= 1


def test_a_head_without_a_say_may_look_anywhere(model, tokens):
    torch.manual_seed(0)
    mute = LanguageModel(model.config).eval()
    mute.load_state_dict(model.state_dict())
    with torch.no_grad():
        mute.blocks[1].attention.out.weight.zero_()
    means = usual(mute, tokens[None]) + 1
    case = reweighted(LastToken(mute, tokens), means, torch.Generator().manual_seed(0))[3]
    assert max(case["off"], case["even"]) < 1e-9
    assert case["farthest"] > 0.5


def test_spearman():
    a = torch.tensor([[0.1, 0.2, 0.3, 9.0], [1.0, 1.0, 2.0, 3.0]])
    b = torch.tensor([[1.0, 4.0, 9.0, 16.0], [3.0, 2.0, 1.0, 0.0]])
    assert rank_correlation(a, b).tolist() == pytest.approx([1.0, -0.9487], abs=1e-4)
    assert rank_correlation(a[0], -a[0]).item() == pytest.approx(-1.0)
    assert rank_correlation(torch.ones(4), a[0]).item() == 0.0


def test_agreement_of_what_is_made_to_agree():
    """Effects in the order of the weights; importance in the opposite one."""
    weight = torch.rand(3, 2, 2, N, generator=torch.Generator().manual_seed(3))
    seen = {
        "weight": weight,
        "size": torch.ones_like(weight),
        "distance": torch.ones_like(weight),
        "effect": weight**2,
        "layer effect": weight.mean(2),
        "importance": -weight.mean(2)[:, 1],
    }
    found = agreement(seen)
    assert found["heads"]["weight"] == [[1.0, 1.0], [1.0, 1.0]]
    assert found["heads"]["greatest weight, greatest effect"] == [[1.0, 1.0], [1.0, 1.0]]
    assert max(map(max, found["heads"]["weight elsewhere"])) < 0.7
    assert found["layers"]["effect"] == [1.0, 1.0]
    assert found["layers"]["importance"][1] == -1.0
    assert found["layers"]["importance, elsewhere"][1] > -0.8
    seen["importance"] = torch.arange(N).expand(3, N) ** 2.0
    assert agreement(seen)["position"] == 1.0


def test_unheard_goes_by_the_say_of_a_head():
    cases = [
        {"off": off, "farthest": moved}
        for off, moved in ((0.5, 0.4), (0.5, 0.6), (0.05, 0.5), (0.01, 0.1), (0.0, 0.9))
    ]
    assert unheard(cases) == {
        "little": {"cases": 2, "moved": 1},
        "some": {"cases": 1, "moved": 1},
        "much": {"cases": 2, "moved": 1},
    }


def test_sets_without_a_case_are_left_out():
    found = [{"cases": 4, "moved": 1}, {"cases": 0, "moved": 0}, {"cases": 1, "moved": 1}]
    runs = [{"arm": TRAINED, "unheard": {"much": group}} for group in found]
    assert found_unheard({"runs": runs}, "much") == [0.25, 1.0]
    assert told({"runs": runs}, "much", TRAINED) == "40% of 5"
    assert told({"runs": runs[1:2]}, "much", TRAINED) == "no case"


def test_two_seeds_share_no_window():
    sets = [windows(seed, 24) for seed in (0, 1, 50)]
    assert all(rows.shape == (24, explanation.TOKENS + 1) for rows in sets)
    starts = [
        {explanation.TOKENS * (seed % APART + APART * i) for i in range(24)} for seed in (0, 50)
    ]
    assert not starts[0] & starts[1]
    assert torch.equal(windows(2, 3), windows(2, 5)[:3])


def test_a_look_at_a_window(model, tokens):
    window = torch.cat([tokens, tokens[:1]])
    found = look(model, window, torch.zeros(2, 2, 8), torch.Generator().manual_seed(0))
    logits = model(tokens[None])[0]
    wanted = torch.nn.functional.cross_entropy(logits[-1:], tokens[:1]).item()
    assert found["loss"].item() == pytest.approx(wanted, rel=1e-4)
    assert found["weight"].shape == found["distance"].shape == found["effect"].shape == (2, 2, N)


def judged(**changes):
    """The verdicts on five runs in which all came out as the course says, but for the changes."""
    told = {
        "weight": 0.9, "weight × size": 0.95, "weight × distance": 0.99, "weight elsewhere": 0.3,
        "importance": 0.4, "elsewhere": 0.4, "some": 0.8, "much": 0.7, "first": 0.5, "size": 0.2,
    } | changes  # fmt: skip
    names = ("weight", "weight × size", "weight × distance", "weight elsewhere")
    run = {
        "heads": {name: [[told[name]] * 2] * 2 for name in names},
        "layers": {
            "importance": [told["importance"]] * 2,
            "importance, elsewhere": [told["elsewhere"]] * 2,
        },
        "unheard": {n: {"cases": 10, "moved": 10 * told[n]} for n in ("some", "much")},
        "first token": {"weight": [[told["first"], 0.0]], "size": [[told["size"], 1.0]]},
    }
    runs = [{"arm": arm, "loss": 1.0, **run} for arm in (TRAINED, UNTRAINED) for _ in range(5)]
    return {claim.id: str(claim.judge({"runs": runs})) for claim in explanation.CLAIMS}


@pytest.mark.parametrize(
    ("changes", "id", "verdict"),
    [
        ({}, None, "holds"),
        (
            {"importance": 0.9, "some": 0.1, "much": 0.1},
            "attention-is-not-explanation",
            "does not hold here",
        ),
        (
            {"much": 0.3},
            "attention-is-not-explanation",
            "holds only if the head has no great say in what comes next",
        ),
        ({"importance": 0.9}, "attention-is-not-explanation", "cannot tell"),
        ({"some": 0.1}, "attention-is-not-explanation", "cannot tell"),
        ({"weight": 0.5}, "weight-tells-what-is-fetched", "does not hold here"),
        ({"weight elsewhere": 0.85}, "weight-tells-what-is-fetched", "does not hold here"),
        ({"weight × size": 0.9}, "weight-times-size-tells-more", "does not hold here"),
        ({"weight × distance": 0.95}, "weight-times-distance-tells-more", "does not hold here"),
        ({"first": 0.01}, "first-token-is-a-sink", "does not hold here"),
        ({"size": 0.9}, "first-token-is-a-sink", "cannot tell"),
    ],
)
def test_every_rule_can_say_no(changes, id, verdict):
    found = judged(**changes)
    for claim in found:
        if id is None or claim == id:
            assert found[claim] == verdict
