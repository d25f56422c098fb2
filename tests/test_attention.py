"""tfcourse.attention against PyTorch: values, gradients, masks, caches, both paths."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tfcourse import attention
from tfcourse.attention import KVCache, MultiHeadAttention

BATCH, HEADS, QUERIES, KEYS, D_HEAD, D_VALUE = 2, 3, 4, 6, 5, 7  # all unequal, on purpose
D_MODEL = 12


def qkv(seed=0, queries=QUERIES, keys=KEYS, dtype=torch.float32, d_value=D_VALUE):
    torch.manual_seed(seed)
    shapes = ((queries, D_HEAD), (keys, D_HEAD), (keys, d_value))
    return [torch.randn(BATCH, HEADS, *s, dtype=dtype, requires_grad=True) for s in shapes]


def masks(queries=QUERIES, keys=KEYS):
    padding = attention.padding_mask(torch.tensor([keys - 2, keys]), keys)
    causal = attention.causal_mask(queries, keys)
    return {"none": None, "causal": causal, "padding": padding, "both": causal & padding}


def gradients(out, inputs):
    probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(out.dtype)
    return torch.autograd.grad((out * probe).sum(), inputs)


def apart(a, b):
    return (a - b).abs().max().item()


# --- masks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [1, 2, 5, 9])
def test_causal_mask_is_the_lower_triangle(tokens):
    mask = attention.causal_mask(tokens)
    assert mask.dtype == torch.bool
    assert torch.equal(mask, torch.ones(tokens, tokens).tril().bool())


def test_causal_mask_with_a_cache_ends_at_the_last_key():
    whole = attention.causal_mask(7)
    for queries in range(1, 8):
        assert torch.equal(attention.causal_mask(queries, 7), whole[-queries:])


def test_padding_mask():
    mask = attention.padding_mask(torch.tensor([0, 2, 3]), 3)
    assert mask.shape == (3, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[False] * 3, [True, True, False], [True] * 3]


@pytest.mark.parametrize("source", attention.CONVENTIONS)
@pytest.mark.parametrize("target", attention.CONVENTIONS)
def test_conventions_translate_there_and_back(source, target):
    start = attention.convert_mask(attention.causal_mask(3, 5), "may_attend", source)
    there = attention.convert_mask(start, source, target)
    back = attention.convert_mask(there, target, source)
    assert back.dtype == start.dtype
    assert torch.equal(back, start)


def test_conventions_mean_what_pytorch_means():
    """Each convention, used by the code that has it, gives the same attention."""
    q, k, v = qkv(d_value=D_HEAD)
    may = attention.causal_mask(QUERIES, KEYS)
    ours = attention.scaled_dot_product_attention(q, k, v, may)
    additive = attention.convert_mask(may, "may_attend", "additive")
    assert apart(ours, F.scaled_dot_product_attention(q, k, v, attn_mask=additive)) < 1e-6
    zeros = attention.convert_mask(may, "may_attend", "zero_is_masked")
    scores = attention.attention_scores(q, k).masked_fill(zeros == 0, -math.inf)
    assert apart(ours, scores.softmax(-1) @ v) < 1e-6
    module = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    x, y = torch.randn(BATCH, QUERIES, D_MODEL), torch.randn(BATCH, KEYS, D_MODEL)
    may_not = attention.convert_mask(may, "may_attend", "may_not_attend")
    theirs = module(x, y, y, attn_mask=may_not)[0]
    assert apart(attention.from_torch(module)(x, y, mask=may), theirs) < 1e-6


# --- the explicit form ----------------------------------------------------------------------


@pytest.mark.parametrize("name", list(masks()))
@pytest.mark.parametrize("seed", [0, 1])
def test_attention_equals_pytorchs(name, seed):
    inputs, mask = qkv(seed), masks()[name]
    ours = attention.scaled_dot_product_attention(*inputs, mask)
    theirs = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    assert ours.shape == (BATCH, HEADS, QUERIES, D_VALUE)
    assert apart(ours, theirs) < 1e-6
    for a, b in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        assert apart(a, b) < 2e-6


def test_bias_is_added_to_the_scores():
    inputs = qkv(d_value=D_HEAD)
    bias = torch.randn(HEADS, QUERIES, KEYS)
    ours = attention.scaled_dot_product_attention(*inputs, None, bias)
    theirs = F.scaled_dot_product_attention(*inputs, attn_mask=bias.expand(BATCH, -1, -1, -1))
    assert apart(ours, theirs) < 1e-6


def test_leaks_finds_the_mask_that_was_used():
    torch.manual_seed(0)
    x, mask = torch.randn(5, 4), torch.rand(5, 5) < 0.5
    kept = x.clone()

    def mix(x):
        return mask.to(x) @ x

    assert torch.equal(attention.leaks(mix, x), mask)
    assert torch.equal(x, kept)
    assert torch.equal(attention.leaks(mix, torch.zeros(5, 4)), mask)
    late = attention.leaks(lambda x: (x @ x.T).softmax(-1).tril() @ x, x)
    assert late.all()  # a mask after the softmax: the future speaks through the denominator


def test_leaks_says_what_it_needs():
    x = torch.randn(3, 4)
    with pytest.raises(TypeError, match=r"attend must be a function of x. Got Tensor"):
        attention.leaks(x, x)
    with pytest.raises(TypeError, match=r"x must hold floats. Got torch.int64"):
        attention.leaks(torch.relu, torch.ones(3, 4).long())
    with pytest.raises(ValueError, match=r"attend must give \(tokens=3, d_out\). Got \(4,\)"):
        attention.leaks(lambda x: x.sum(0), x)


@pytest.mark.parametrize("lengths", [(6,), (1, 5), (2, 3, 1), (1,) * 6])
def test_tiles_give_what_the_whole_gives(lengths):
    inputs = qkv()
    q, k, v = inputs
    tiles = list(zip(k.split(lengths, -2), v.split(lengths, -2), strict=True))
    out, lse = attention.attention_in_tiles(q, tiles)
    whole = attention.scaled_dot_product_attention(q, k, v)
    assert apart(out, whole) < 1e-6
    assert apart(lse, attention.attention_scores(q, k).logsumexp(-1)) < 1e-6
    for a, b in zip(gradients(out, inputs), gradients(whole, inputs), strict=True):
        assert apart(a, b) < 2e-6


def test_tiles_of_large_scores():
    q, k, v = (100 * t for t in qkv())
    tiles = list(zip(k.split(2, -2), v.split(2, -2), strict=True))
    out, lse = attention.attention_in_tiles(q, tiles)
    assert apart(out, attention.scaled_dot_product_attention(q, k, v)) < 1e-3
    assert lse.isfinite().all()


def test_tiles_that_do_not_fit():
    q, k, v = qkv()
    with pytest.raises(ValueError, match="tiles must hold at least one pair"):
        attention.attention_in_tiles(q, [])
    with pytest.raises(TypeError, match=r"tiles must be a list of pairs \(k, v\). Got Tensor"):
        attention.attention_in_tiles(q, k)
    with pytest.raises(ValueError, match="at least one token in each of the tiles"):
        attention.attention_in_tiles(q, [(k, v), (k[..., :0, :], v[..., :0, :])])
    with pytest.raises(ValueError, match="d_value of the first of the tiles, 7. Got 5"):
        attention.attention_in_tiles(q, [(k, v), (k, k)])


def test_rows_sum_to_one_or_are_empty():
    q, k, _ = qkv()
    mask = masks()["causal"].clone()
    mask[2] = False
    weights = attention.attention_weights(q, k, mask)
    assert apart(weights.sum(-1), torch.tensor([1.0, 1.0, 0.0, 1.0])) < 1e-6
    assert (weights[~mask.expand(weights.shape)] == 0).all()


def test_an_empty_row_spoils_no_gradient():
    inputs = qkv()
    mask = torch.zeros(QUERIES, KEYS, dtype=torch.bool)
    mask[0, 1] = True
    out = attention.scaled_dot_product_attention(*inputs, mask)
    assert (out[..., 1:, :] == 0).all()
    for gradient in gradients(out, inputs):
        assert gradient.isfinite().all()
    assert (
        gradients(attention.scaled_dot_product_attention(*inputs, mask), inputs)[0][..., 1:, :] == 0
    ).all()


@pytest.mark.parametrize("mask", [*masks(), "nothing to attend"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_gradients_by_hand_are_those_of_autograd(mask, scale):
    inputs = [scale * t.detach().double() for t in qkv()]
    may = masks().get(mask)
    if mask == "nothing to attend":
        may = masks()["both"].clone()
        may[:, :, 1] = False
    g = torch.randn(BATCH, HEADS, QUERIES, D_VALUE, dtype=torch.float64)
    given = [t.clone().requires_grad_() for t in inputs]
    out = attention.scaled_dot_product_attention(*given, may)
    ours = attention.attention_vjp(*inputs, g, may)
    for mine, theirs in zip(ours, torch.autograd.grad(out, given, g), strict=True):
        assert apart(mine, theirs) < 1e-10 * scale**2
    if mask == "nothing to attend":
        assert (ours[0][:, :, 1] == 0).all()


def test_the_gradients_by_hand_can_be_differentiated():
    inputs = [t.detach().double().requires_grad_() for t in qkv(queries=2, keys=3, d_value=2)]
    g = torch.randn(BATCH, HEADS, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(attention.attention_vjp, (*inputs, g))


def test_bfloat16():
    inputs = [t.detach().bfloat16() for t in qkv(d_value=D_HEAD)]
    mask = masks()["both"]
    ours = attention.scaled_dot_product_attention(*inputs, mask)
    assert ours.dtype == torch.bfloat16
    exact = F.scaled_dot_product_attention(*(t.float() for t in inputs), attn_mask=mask)
    assert apart(ours.float(), exact) < 0.03


# --- several heads --------------------------------------------------------------------------


def test_splitting_and_merging_are_inverse():
    x = torch.randn(BATCH, QUERIES, HEADS * D_HEAD)
    split = attention.split_heads(x, HEADS)
    assert torch.equal(split[:, 1], x[..., D_HEAD : 2 * D_HEAD])
    assert torch.equal(attention.merge_heads(split), x)


KINDS = {
    "self": {},
    "causal": {"causal": True},
    "padding": {"mask": attention.padding_mask(torch.tensor([2, 5]), 5)},
    "causal and padding": {
        "causal": True,
        "mask": attention.padding_mask(torch.tensor([2, 5]), 5),
    },
    "an empty sequence": {"mask": attention.padding_mask(torch.tensor([0, 5]), 5)},
    "empty rows": {"mask": attention.causal_mask(5) & ~torch.eye(5, dtype=torch.bool)},
    "one mask a head": {"mask": torch.rand(BATCH, 6, 5, 5) > 0.4},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_kv_heads", [6, 3, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_both_paths_agree(kind, n_kv_heads, bias):
    torch.manual_seed(0)
    module = MultiHeadAttention(24, 6, n_kv_heads, bias=bias)
    x = torch.randn(BATCH, 5, 24, requires_grad=True)
    fused = module(x, **KINDS[kind])
    explicit, weights = module(x, **KINDS[kind], return_weights=True)
    assert weights.shape == (BATCH, 6, 5, 5)
    assert apart(fused, explicit) < 1e-6
    inputs = [x, *module.parameters()]
    for a, b in zip(gradients(fused, inputs), gradients(explicit, inputs), strict=True):
        assert a.isfinite().all()
        assert apart(a, b) < 1e-6 * max(1.0, b.abs().max().item())


def test_an_empty_row_gives_the_output_of_zeros():
    module = MultiHeadAttention(24, 6)
    x = torch.randn(BATCH, 5, 24)
    nothing = torch.zeros(5, 5, dtype=torch.bool)
    for out in (module(x, mask=nothing), module(x, mask=nothing, return_weights=True)[0]):
        assert apart(out, module.out.bias.expand_as(out)) < 1e-6


@pytest.mark.parametrize("n_kv_heads", [6, 2])
def test_cached_equals_uncached(n_kv_heads):
    torch.manual_seed(0)
    module = MultiHeadAttention(24, 6, n_kv_heads).eval()
    x = torch.randn(BATCH, 7, 24)
    whole = module(x, causal=True)
    for steps in ([1] * 7, [3, 1, 2, 1], [7]):
        cache, parts = KVCache(), []
        for part in x.split(steps, dim=1):
            parts.append(module(part, causal=True, cache=cache))
        assert apart(torch.cat(parts, dim=1), whole) < 1e-6
        assert cache.length == 7
        assert cache.bytes == 2 * BATCH * n_kv_heads * 7 * 4 * 4


def test_the_future_does_not_reach_the_past():
    module = MultiHeadAttention(24, 6)
    x = torch.randn(BATCH, 5, 24)
    for changed_token in range(1, 5):
        changed = x.clone()
        changed[:, changed_token] += 1
        moved = (module(x, causal=True) - module(changed, causal=True)).abs().amax((0, 2))
        assert (moved[:changed_token] < 1e-6).all()
        assert moved[changed_token] > 1e-4


def test_rotary_and_score_bias_have_their_places():
    """They get positions that go on where the cache ends; ALiBi's bias reaches the scores."""
    seen = []

    def rotary(x, positions):
        seen.append(positions.tolist())
        return x * (1 + positions[:, None])

    def score_bias(queries, keys):
        return -(queries[:, None] - keys).abs().float() * torch.tensor([0.5, 1.0])[:, None, None]

    torch.manual_seed(0)
    module = MultiHeadAttention(8, 2, rotary=rotary, score_bias=score_bias)
    x = torch.randn(1, 5, 8)
    whole, weights = module(x, causal=True, return_weights=True)
    assert apart(whole, module(x, causal=True)) < 1e-6
    q, k, _ = (attention.split_heads(t, 2) for t in module.qkv(x).chunk(3, -1))
    place = torch.arange(5)
    turned = (t * (1 + place[:, None]) for t in (q, k))
    expected = attention.attention_weights(
        *turned, attention.causal_mask(5), score_bias(place, place)
    )
    assert apart(weights, expected) < 1e-6
    cache = KVCache()
    parts = [module(p, causal=True, cache=cache) for p in x.split([2, 3], dim=1)]
    assert apart(torch.cat(parts, 1), whole) < 1e-5
    assert seen[-1] == [2, 3, 4]


def test_dropout_is_active_in_training_only():
    module = MultiHeadAttention(24, 6, dropout=0.5)
    x = torch.randn(BATCH, 5, 24)
    assert apart(module(x), module(x)) > 1e-3
    module.eval()
    assert apart(module(x), module(x)) == 0


def test_parameters_are_four_d_squared_whatever_the_heads():
    for n_heads in (1, 2, 4, 8):
        module = MultiHeadAttention(32, n_heads, bias=False)
        assert sum(p.numel() for p in module.parameters()) == 4 * 32**2


def test_bfloat16_module():
    module = MultiHeadAttention(24, 6, 2).bfloat16()
    x = torch.randn(BATCH, 5, 24).bfloat16()
    fused, (explicit, _) = module(x, causal=True), module(x, causal=True, return_weights=True)
    assert fused.dtype == torch.bfloat16
    assert apart(fused.float(), explicit.float()) < 0.02


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_paths_agree_on_a_gpu(kind, dtype):
    module = MultiHeadAttention(48, 6, 2).to("cuda", dtype)
    x = torch.randn(BATCH, 5, 48, device="cuda", dtype=dtype, requires_grad=True)
    given = {n: v.cuda() if isinstance(v, torch.Tensor) else v for n, v in KINDS[kind].items()}
    fused, (explicit, _) = module(x, **given), module(x, **given, return_weights=True)
    assert apart(fused.float(), explicit.float()) < (1e-4 if dtype == torch.float32 else 0.05)
    assert torch.autograd.grad(fused.sum(), x)[0].isfinite().all()
