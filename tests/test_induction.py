"""The study of induction heads: its parts, on models that are untrained or made to order."""

import math

import pytest
import torch

from tfcourse.experiments import induction
from tfcourse.experiments.induction import (
    ARMS,
    NOTHING,
    ONE,
    TWO,
    AttentionOnly,
    Course,
    best,
    corrupted,
    cost_together,
    costs,
    fed,
    fed_by,
    halves,
    held_out,
    looking_back,
    make,
    nats,
    restored,
    right_shares,
    scores,
    texts,
    train,
)
from tfcourse.inside import replaced_heads


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=0.3)
    return model.requires_grad_(False)


@pytest.fixture
def text():
    return texts(TWO, 8, 10, torch.Generator().manual_seed(1))


def test_the_block_is_attention_and_nothing_else(model):
    assert all(isinstance(block, AttentionOnly) for block in model.blocks)
    x = torch.randn(2, 5, 64)
    block = model.blocks[0]
    wanted = x + block.attention(block.attention_norm(x), causal=True)
    assert torch.equal(block(x, causal=True), wanted)


def test_it_takes_caches_and_padding_as_any_block(model, text):
    whole, caches = model(text), model.new_caches()
    parts = [model(piece, caches=caches) for piece in text.split(7, dim=1)]
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-4)
    filled = torch.cat([text.new_zeros(8, 3), text], dim=1)
    padded = model(filled, padding=torch.full((8,), 3))
    assert torch.allclose(padded[:, 3:], whole, atol=1e-4)


def test_texts_repeat_or_do_not(text):
    assert torch.equal(text[:, :10], text[:, 10:])
    other = texts(NOTHING, 8, 10, torch.Generator().manual_seed(1))
    assert other.shape == text.shape
    assert (other[:, :10] == other[:, 10:]).float().mean() < 0.2
    half = corrupted(text, torch.Generator().manual_seed(2))
    assert torch.equal(half[:, 10:], text[:, 10:])
    assert (half[:, :10] == text[:, :10]).float().mean() < 0.2


def test_the_halves_leave_out_what_nobody_can_know(model, text):
    """Twenty tokens: nine are predicted in the first half; the eleventh is not counted."""
    each = nats(model, text)
    first, second = halves(model, text)
    assert each.shape == (8, 19)
    assert first == pytest.approx(each[:, :9].mean().item(), abs=1e-5)
    assert second == pytest.approx(each[:, 10:].mean().item(), abs=1e-5)


def test_scores_are_of_every_head_of_every_layer(model, text):
    found = scores(model, text)
    assert [len(row) for row in found["induction"]] == [4, 4]
    assert [len(row) for row in found["previous"]] == [4, 4]
    assert best([[0.1, 0.3], [0.2, 0.9]]) == (1, 1)


def test_costs_are_differences_of_the_second_half(model, text):
    off = costs(model, text)
    with replaced_heads(model, {("blocks.1.attention", 2): 0.0}):
        wanted = halves(model, text)[1] - halves(model, text)[1]
        without = halves(model, text)[1]
    assert wanted == 0
    assert off[1][2] == pytest.approx(without - halves(model, text)[1], abs=1e-3)
    mean = costs(model, text, mean=True)
    assert max(abs(a - b) for a, b in zip(off[0], mean[0], strict=True)) > 1e-3


def test_switching_off_the_first_layer_cannot_touch_its_own_scores(model, text):
    layer, head = best(scores(model, text)["induction"])
    left = fed(model, text)["each"]
    assert len(left) == 4
    assert fed(model, text)["looking back"] == scores(model, text)["induction"][layer][head]
    whole = scores(model, text)["induction"][layer][head]
    if layer == 0:
        assert left == [whole] * 4
    else:
        assert any(abs(score - whole) > 1e-4 for score in left)


def test_all_heads_of_the_clean_run_bring_back_almost_nothing_untrained(model, text):
    found = restored(model, text, torch.Generator().manual_seed(3))
    assert found["clean"] == pytest.approx(halves(model, text)[1], abs=1e-3)
    other = corrupted(text, torch.Generator().manual_seed(3))
    assert found["corrupted"] == pytest.approx(halves(model, other)[1], abs=1e-3)
    assert [len(row) for row in found["heads"]] == [4, 4]
    assert len(found["layers"]) == len(found["layers, another text"]) == 2


def test_heads_that_look_back_are_switched_off_together(model, text):
    """One head that looks back costs what it costs alone; with none nothing changes."""
    found = scores(model, text)
    assert looking_back({"previous": [[0.6, 0.4, 0.5], [0.9, 0.9, 0.9]]}) == [0, 2]
    assert looking_back(found) == []
    assert cost_together(model, text) == 0
    assert restored(model, text, torch.Generator().manual_seed(3))["looking back"] == 0


def test_the_shares_of_the_right_letter_sum_to_its_logit(model, text):
    """But for what the norm's and the projections' biases add, which are no head's: zeros here."""
    for block in model.blocks:
        block.attention.out.bias.zero_()
    shares = right_shares(model, text)
    assert list(shares) == ["embedding", *(f"{i}.{h}" for i in range(2) for h in range(4))]
    logits = model(text[:, :-1])
    right = logits.gather(-1, text[:, 1:, None])[..., 0] - logits.mean(-1)
    assert sum(shares.values()) == pytest.approx(right[:, 10:].mean().item(), abs=2e-3)
    model.blocks[1].attention.out.weight[:, :16] = 0  # what its first head writes
    assert right_shares(model, text)["1.0"] == 0


def test_the_course_finds_the_fall_and_the_head():
    course = Course.__new__(Course)
    course.seen = {
        "step": [0, 10, 20, 30],
        "loss": [4.0, 3.6, 1.0, 0.0],
        "induction": [0.0, 0.2, 0.4, 0.9],
    }
    assert [course.fallen(share) for share in (0.1, 0.5, 0.75, 1.0)] == [10, 20, 20, 30]
    assert course.above(0.3) == 20
    assert course.above(0.95) is None


def test_training_is_looked_at_and_told():
    told = []
    _, curve, course = train(ONE, rate=3e-3, seed=0, steps=20, watch=lambda c: told.append(len(c)))
    assert course.seen["step"] == [0, 10, 20]
    assert told == list(range(1, 21))
    assert curve[0] == pytest.approx(math.log(32), abs=0.4)


def test_held_out_texts_are_the_same_for_every_arm():
    assert torch.equal(held_out(3), held_out(3))
    assert held_out(3).shape == (256, 40)
    assert held_out(3, 30).shape == (256, 60)


PATCHED = {
    "looking back": -0.1,
    "heads": [[0.0, -0.1], [0.5, 0.3]],
    "layers": [-0.2, 1.0],
    "layers, another text": [-0.3, -0.5],
}


def a_run(arm, **changes):
    """A run in which all came out as the course says."""
    scores = {"induction": [[0.1, 0.1], [0.9, 0.4]], "previous": [[0.1, 0.8], [0.1, 0.1]]}
    flat = {"induction": [[0.1, 0.1], [0.1, 0.1]], "previous": [[0.1, 0.1], [0.1, 0.1]]}
    run = {"arm": arm, "before": flat, "loss": 3.0, "loss, longer": 3.0, "after": flat}
    run["course"] = {"induction": [0.0, 0.1]}
    if arm == TWO:
        run |= {
            "loss": 0.2, "after": scores, "head at": 110, "half fallen": 120, "fall": [110, 140],
            "costs": [[0.0, 3.0], [4.0, 0.1]], "costs, mean": [[0.0, 3.0], [4.0, 0.1]],
            "fed": {"each": [0.9, 0.1], "looking back": 0.1}, "cost, looking back": 3.0,
            "restored": PATCHED,
        }  # fmt: skip
    return run | changes


def judged(**changes):
    runs = [a_run(arm, **(changes if arm == TWO else {})) for arm in ARMS for _ in range(5)]
    return {claim.id: str(claim.judge({"runs": runs})) for claim in induction.CLAIMS}


@pytest.mark.parametrize(
    ("changes", "id", "verdict"),
    [
        ({}, None, "holds"),
        ({"loss": 0.5}, "induction-heads-appear", "does not hold here"),
        ({"head at": None}, "heads-come-with-the-drop", "does not hold here"),
        ({"fall": [50, 200]}, "heads-come-with-the-drop", "does not hold here"),
        ({"loss": 2.9}, "one-layer-is-not-enough", "does not hold here"),
        (
            {"costs": [[0.0, 9.0], [4.0, 0.1]]},
            "highest-score-costs-most",
            "holds only if only the heads of its own layer are compared",
        ),
        (
            {"fed": {"each": [0.1, 0.1], "looking back": 0.1}},
            "previous-token-head-feeds-it",
            "does not hold here",
        ),
        (
            {"restored": PATCHED | {"looking back": 0.4}},
            "needed-is-not-carrying",
            "does not hold here",
        ),
        (
            {"restored": PATCHED | {"layers, another text": [0.0, 0.95]}},
            "needed-is-not-carrying",
            "does not hold here",
        ),
    ],
)
def test_every_rule_can_say_no(changes, id, verdict):
    found = judged(**changes)
    for claim in found:
        if id is None or claim == id:
            assert found[claim] == verdict
    assert fed_by(a_run(TWO)) == pytest.approx((0.1 / 0.9, 1.0))
