"""tfcourse.models: a small language model, whatever its kind of position."""

import pytest
import torch

from tfcourse.models import POSITIONS, LanguageModel
from tfcourse.positions import sinusoidal_encoding

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [2, 0, 2, 1, 6]])


def model_of(kind, **options):
    torch.manual_seed(0)
    return LanguageModel(7, 12, 3, 2, positions=kind, max_tokens=8, **options).eval()


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_the_future_does_not_reach_the_past(kind, norm_first):
    model = model_of(kind, norm_first=norm_first)
    changed = TOKENS.clone()
    changed[:, 3:] = 0
    before, after = model(TOKENS), model(changed)
    assert before.shape == (2, 5, 7)
    assert torch.allclose(before[:, :3], after[:, :3], atol=1e-6)
    assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-3)


@pytest.mark.parametrize("kind", POSITIONS)
def test_order_matters_with_positions_and_only_with_them(kind):
    """The last token sees the same set of tokens before it, in two orders."""
    model = model_of(kind)
    swapped = TOKENS[:, [1, 0, 2, 3, 4]]
    with torch.no_grad():
        # one block: in a second one "none" can tell the order by who saw how many
        model.blocks = model.blocks[:1]
        same = torch.allclose(model(TOKENS)[:, -1], model(swapped)[:, -1], atol=1e-5)
    assert same == (kind == "none")


def test_the_learned_table_ends():
    with pytest.raises(ValueError, match="learned table of 8 positions"):
        model_of("learned")(torch.zeros(1, 9, dtype=torch.long))


def test_small_embeddings():
    model = LanguageModel(500, 64, 4, 1, positions="learned", max_tokens=300).small_embeddings()
    for weight in (model.embedding.weight, model.table.table.weight):
        assert weight.std().item() == pytest.approx(64**-0.5, rel=0.05)


@pytest.mark.parametrize("kind", POSITIONS)
def test_scale_multiplies_what_the_first_block_reads(kind):
    small, large = (model_of(kind, scale=scale).embed(TOKENS) for scale in (1.0, 3.0))
    assert torch.allclose(3 * small, large, atol=1e-6)
    by_default = model_of(kind).embed(TOKENS)
    assert torch.allclose(by_default, small * (12**0.5 if kind == "sinusoidal" else 1), atol=1e-6)


def test_sinusoidal_positions_are_added_to_root_d_times_the_embedding():
    model = model_of("sinusoidal")
    expected = model.embedding(TOKENS) * 12**0.5 + sinusoidal_encoding(5, 12)
    assert torch.allclose(model.embed(TOKENS), expected, atol=1e-6)


def test_pre_norm_ends_with_a_norm_and_post_norm_does_not():
    assert isinstance(model_of("none").norm, torch.nn.Module)
    assert sum(p.numel() for p in model_of("none").norm.parameters()) == 24
    assert not list(model_of("none", norm_first=False).norm.parameters())


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: LanguageModel(7, 12, 5, 1), ValueError, "n_heads must divide d_model=12. Got 5"),
        (lambda: LanguageModel(7, 12, 3, 1, positions="rope"), ValueError, "Got 'rope'"),
        (lambda: LanguageModel(7, 15, 5, 1), ValueError, "d_head must be even"),
        (lambda: LanguageModel(7, 12, 3, 1, positions="learned"), TypeError, "max_tokens must be"),
        (lambda: LanguageModel(7, 12, 3, 1, scale="big"), TypeError, "scale must be a number"),
        (lambda: LanguageModel(7, 12, 3, 1, norm="batch"), ValueError, "norm must be one of"),
        (lambda: LanguageModel(7, 12, 3, 1, activation="tanh"), ValueError, "activation must be"),
        (lambda: model_of("none")(torch.ones(2, 5)), TypeError, "tokens must hold whole numbers"),
        (lambda: model_of("none")(torch.ones(5).long()), ValueError, "tokens must have 2 axes"),
    ],
)
def test_what_cannot_work_is_told(call, error, said):
    with pytest.raises(error) as raised:
        call()
    assert said in str(raised.value)
