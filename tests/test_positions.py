"""tfcourse.positions: the properties for which each is used, and Hugging Face's Llama and ALiBi."""

import math

import pytest
import torch
from torch import nn

from tfcourse.attention import KVCache, MultiHeadAttention
from tfcourse.positions import (
    ALiBi,
    LearnedPositions,
    Rotary,
    alibi_slopes,
    convert_rotary,
    sinusoidal_encoding,
    stretched_angles,
)


def apart(a, b):
    return (a - b).abs().max().item()


def test_sinusoidal_is_the_papers_formula():
    encoding = sinusoidal_encoding(7, 6)
    for position in range(7):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert encoding[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert encoding[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_an_offset_is_a_rotation_that_depends_on_the_offset_alone():
    encoding = sinusoidal_encoding(60, 16).double()
    frequencies = 10000 ** (-torch.arange(0, 16, 2).double() / 16)
    for offset in (1, 5):
        angles = offset * frequencies
        turns = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=-1)
        turn = torch.block_diag(*turns.view(-1, 2, 2))  # the same for every position
        assert apart(encoding[:50] @ turn, encoding[offset : 50 + offset]) < 1e-5
    dots = encoding @ encoding.T
    for offset in (0, 3, 11):
        assert apart(dots.diagonal(offset), dots.diagonal(offset).mean()) < 1e-5


def test_learned_positions():
    positions = LearnedPositions(5, 4)
    assert torch.equal(positions(3), positions.table.weight[:3])
    assert torch.equal(positions(2, start=3), positions.table.weight[3:])
    with pytest.raises(ValueError, match=r"learned table of 5 positions. Got positions 3 to 5"):
        positions(3, start=3)


@pytest.mark.parametrize("layout", ["interleaved", "split-half"])
def test_rotary_scores_depend_on_the_distance_alone(layout):
    torch.manual_seed(0)
    rotary = Rotary(8, layout=layout)
    q, k = torch.randn(2, 1, 8)
    turned = lambda x, position: rotary(x, torch.tensor([position]))  # noqa: E731
    for distance in (0, 1, 7):
        scores = [(turned(q, p + distance) * turned(k, p)).sum() for p in (0, 3, 50)]
        assert max(scores) - min(scores) < 1e-4
    assert apart(turned(q, 9).norm(), q.norm()) < 1e-5
    assert torch.equal(turned(q, 0), q)


@pytest.mark.parametrize("layout", ["interleaved", "split-half"])
def test_rotary_turns_each_pair_by_its_angle(layout):
    """Against cosines and sines spelt out, forward and back, whatever x is in memory."""
    torch.manual_seed(0)
    rotary, positions = Rotary(8, layout=layout).double(), torch.tensor([0, 3, 50])
    first, second = {
        "interleaved": (range(0, 8, 2), range(1, 8, 2)),
        "split-half": (range(4), range(4, 8)),
    }[layout]
    cos, sin = (f(positions[:, None] * rotary.frequencies) for f in (torch.cos, torch.sin))
    x = torch.randn(2, 8, 3, dtype=torch.float64).mT.requires_grad_()  # not contiguous
    a, b, turned = x[..., list(first)], x[..., list(second)], rotary(x, positions)
    assert apart(turned[..., list(first)], a * cos - b * sin) < 1e-12
    assert apart(turned[..., list(second)], a * sin + b * cos) < 1e-12
    assert torch.autograd.gradcheck(lambda x: rotary(x, positions), x)
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 0.05), (torch.float16, 0.01)):
        short = Rotary(8, layout=layout)(x.to(dtype), positions)
        assert short.dtype == dtype
        assert apart(short.double(), turned) < bound


def test_the_two_layouts_are_equal_up_to_a_permutation():
    torch.manual_seed(0)
    x, positions = torch.randn(2, 3, 5, 8), torch.arange(5)
    split = convert_rotary(x, "interleaved", "split-half")
    back = convert_rotary(split, "split-half", "interleaved")
    assert torch.equal(back, x)
    assert split[0, 0, 0].tolist() == x[0, 0, 0, [0, 2, 4, 6, 1, 3, 5, 7]].tolist()
    one, other = Rotary(8)(x, positions), Rotary(8, layout="split-half")(split, positions)
    assert apart(convert_rotary(one, "interleaved", "split-half"), other) < 1e-6


def test_rotary_against_hugging_face():
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=24, num_attention_heads=3)
    config.rope_parameters = {"rope_type": "default", "rope_theta": 500.0}
    q, k = torch.randn(2, 2, 3, 5, 8)
    cos, sin = LlamaRotaryEmbedding(config)(q, torch.arange(5)[None])
    theirs = apply_rotary_pos_emb(q, k, cos, sin)
    rotary = Rotary(8, base=500.0, layout="split-half")
    for ours, their in zip(
        (rotary(q, torch.arange(5)), rotary(k, torch.arange(5))), theirs, strict=True
    ):
        assert apart(ours, their) < 1e-6


def test_stretched_angles_keep_what_they_promise():
    plain = torch.arange(20)[:, None] * Rotary(10).frequencies
    for by in ("positions", "base"):
        for trained in (20, 21, 300):  # not longer than in training: nothing is stretched
            assert torch.equal(stretched_angles(20, 10, trained, by=by), plain)
    by_positions, by_base = (stretched_angles(20, 10, 8, by=by) for by in ("positions", "base"))
    assert apart(by_positions, plain * 8 / 20) < 1e-5
    assert (by_positions < 8 * Rotary(10).frequencies).all()  # below where training ended
    assert torch.equal(by_base[:, 0], plain[:, 0])
    assert apart(by_base[:, -1], plain[:, -1] * 8 / 20) < 1e-6
    slowed = plain[1] / by_base[1]
    assert (slowed.diff() > 0).all()


@pytest.mark.parametrize("by", ["positions", "base"])
def test_stretched_angles_against_hugging_face(by):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    tokens, trained = 30, 12
    config = LlamaConfig(hidden_size=24, num_attention_heads=3, max_position_embeddings=trained)
    config.rope_parameters = {"rope_theta": 500.0} | {
        "positions": {"rope_type": "linear", "factor": tokens / trained},
        "base": {"rope_type": "dynamic", "factor": 1.0},  # its s is then tokens / trained
    }[by]
    x = torch.ones(1, 3, tokens, 8)
    cos, sin = LlamaRotaryEmbedding(config)(x, torch.arange(tokens)[None])
    angles = stretched_angles(tokens, 8, trained, base=500.0, by=by)
    assert apart(angles.cos(), cos[0, :, :4]) < 1e-5
    assert apart(angles.sin(), sin[0, :, :4]) < 1e-5


def test_weights_move_between_the_layouts():
    """A query projection, permuted head by head, gives the same scores in the other layout."""
    torch.manual_seed(0)
    heads, d_head, d_model = 3, 8, 24
    x, weights = torch.randn(1, 5, d_model), torch.randn(2, heads * d_head, d_model)

    def scores(layout, weights):
        q, k = ((x @ w.T).unflatten(-1, (heads, d_head)).transpose(1, 2) for w in weights)
        rotary = Rotary(d_head, layout=layout)
        return rotary(q, torch.arange(5)) @ rotary(k, torch.arange(5)).mT

    moved = [
        convert_rotary(w.unflatten(0, (heads, d_head)).mT, "interleaved", "split-half").mT.flatten(
            0, 1
        )
        for w in weights
    ]
    assert apart(scores("interleaved", weights), scores("split-half", moved)) < 1e-4


@pytest.mark.parametrize("n_heads", [1, 2, 8, 3, 6, 12])
def test_alibi_slopes_against_hugging_face(n_heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    mask = torch.ones(1, 4)
    theirs = build_alibi_tensor(mask, n_heads, torch.float32)  # (heads, 1, keys), slope · position
    assert apart(alibi_slopes(n_heads), theirs[:, 0, 1]) < 1e-6


def test_in_attention_with_a_cache():
    torch.manual_seed(0)
    x = torch.randn(1, 6, 24)
    for options in ({"rotary": Rotary(8)}, {"score_bias": ALiBi(3)}):
        module = MultiHeadAttention(24, 3, **options)
        whole, _ = module(x, causal=True, return_weights=True)
        assert apart(whole, module(x, causal=True)) < 1e-6
        cache = KVCache()
        parts = [module(p, causal=True, cache=cache) for p in x.split([2, 3, 1], dim=1)]
        assert apart(torch.cat(parts, dim=1), whole) < 1e-5
        shuffled = module(x.flip(1)).flip(1)
        assert apart(shuffled, module(x)) > 1e-3 or "score_bias" in options


def test_alibi_prefers_the_near():
    bias = ALiBi(4)(torch.arange(5), torch.arange(5))
    assert bias.shape == (4, 5, 5)
    assert (bias.diagonal(0, 1, 2) == 0).all()
    assert (bias[:, 4, 1:] > bias[:, 4, :-1]).all()


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: sinusoidal_encoding(4, 5), ValueError, "d_model must be even"),
        (lambda: sinusoidal_encoding(0, 4), ValueError, "tokens must be at least 1. Got 0."),
        (lambda: sinusoidal_encoding(4, 4, base=0.5), ValueError, "base must be greater than 1"),
        (lambda: Rotary(7), ValueError, "d_head must be even: the numbers turn in pairs. Got 7."),
        (lambda: Rotary(8, layout="half"), ValueError, "layout must be one of interleaved"),
        (lambda: Rotary(8)(torch.ones(3, 6), torch.arange(3)), ValueError, "d_head=8"),
        (
            lambda: Rotary(8)(torch.ones(3, 8), torch.arange(4)),
            ValueError,
            r"positions \(tokens,\)",
        ),
        (lambda: Rotary(8)(torch.ones(3, 8), [0, 1, 2]), TypeError, "must be tensors"),
        (lambda: Rotary(8)(torch.ones(3, 8).long(), torch.arange(3)), TypeError, "x must hold"),
        (lambda: convert_rotary(torch.ones(5), *["interleaved"] * 2), ValueError, "even number"),
        (lambda: stretched_angles(9, 2, 4), ValueError, "d_head must be at least 4. Got 2."),
        (lambda: stretched_angles(9, 5, 4), ValueError, "d_head must be even"),
        (lambda: stretched_angles(9, 6, 0), ValueError, "trained must be at least 1. Got 0."),
        (lambda: stretched_angles(0, 6, 4), ValueError, "tokens must be at least 1. Got 0."),
        (lambda: stretched_angles(9, 6, 4, base=1), ValueError, "base must be greater than 1"),
        (lambda: stretched_angles(9, 6, 4, by="both"), ValueError, "by must be one of positions"),
        (lambda: LearnedPositions(4, 2)(0), ValueError, "tokens must be at least 1"),
        (lambda: LearnedPositions(4, 2)(2, start=-1), ValueError, "start must be at least 0"),
        (lambda: ALiBi(0), ValueError, "n_heads must be at least 1"),
        (lambda: ALiBi(2)(torch.ones(2, 2), torch.ones(2)), ValueError, "must have one axis"),
        (lambda: ALiBi(2)([0], torch.ones(2)), TypeError, "query_positions must be a tensor"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_nothing_is_saved_that_is_not_learned():
    assert not Rotary(8).state_dict()
    assert not ALiBi(4).state_dict()
    assert isinstance(LearnedPositions(4, 2).table, nn.Embedding)
