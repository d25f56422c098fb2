"""Whatever is handed to a public function: it works, or a sentence says what was expected."""

import inspect
from contextlib import nullcontext

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import nn

from tfcourse import (
    attention,
    blocks,
    device,
    feed_forward,
    generation,
    models,
    norms,
    positions,
    tasks,
)
from tfcourse.attention import KVCache, MultiHeadAttention
from tfcourse.feed_forward import FeedForward

SIZES = st.integers(0, 4)
DTYPES = st.sampled_from(
    [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)


@st.composite
def tensors(draw, max_axes=5):
    shape = draw(st.lists(SIZES, max_size=max_axes))
    dtype = draw(DTYPES)
    return torch.ones(shape).to(dtype)


ODD = st.one_of(
    tensors(),
    st.none(),
    st.integers(-3, 9),
    st.booleans(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from([[], [1, 2], (), {}, object, "may_attend", "additive", "causal"]),
)
# Four axes, equal or unequal sizes: gets past the first look, so that the later ones are tried.
NEARLY = st.builds(
    lambda shape, dtype: torch.ones(shape).to(dtype), st.tuples(*[st.integers(1, 3)] * 4), DTYPES
)
ANY = st.one_of(ODD, NEARLY)


def accepts_or_explains(call, *args, **kwargs):
    """The call works, or raises TypeError or ValueError that names an argument and what it got."""
    try:
        return call(*args, **kwargs)
    except (TypeError, ValueError) as error:
        said = str(error)
        names = [*inspect.signature(call).parameters, "tensor"]
        assert any(name in said for name in names), said
        assert any(word in said for word in ("Got", "must", "expected")), said
    return None


PUBLIC = [
    attention.causal_mask,
    attention.padding_mask,
    attention.convert_mask,
    attention.attention_scores,
    attention.attention_weights,
    attention.scaled_dot_product_attention,
    attention.attention_in_tiles,
    attention.attention_vjp,
    attention.split_heads,
    attention.merge_heads,
    attention.from_torch,
    attention.to_torch,
    attention.check_heads,
    MultiHeadAttention,
    positions.sinusoidal_encoding,
    positions.alibi_slopes,
    positions.convert_rotary,
    positions.stretched_angles,
    positions.new_table,
    positions.LearnedPositions,
    positions.Rotary,
    positions.ALiBi,
    norms.layer_norm,
    norms.rms_norm,
    norms.LayerNorm,
    norms.RMSNorm,
    FeedForward,
    blocks.Block,
    blocks.initialise,
    feed_forward.relu,
    feed_forward.gelu,
    feed_forward.gelu_tanh,
    feed_forward.silu,
    models.TransformerConfig,
    models.LanguageModel,
    models.Encoder,
    models.Transformer,
    models.check_config,
    generation.next_token_probabilities,
    generation.generate,
    tasks.CharacterText,
    tasks.MarkovText,
    device.describe_device,
    device.measure_seconds,
    device.measure_peak_memory,
]


def test_no_public_function_is_left_out():
    modules = (attention, blocks, device, feed_forward, generation, models, norms, positions, tasks)
    for module in modules:
        public = [
            f
            for name, f in vars(module).items()
            if getattr(f, "__module__", "") == module.__name__ and not name.startswith("_")
        ]
        tried = [*PUBLIC, KVCache, device.pick_device, device.explain_out_of_memory]
        tried += [
            tasks.python_manual,
            tasks.read_text,
            tasks.Pairs,
            tasks.Dates,
            tasks.repeated_sequences,
        ]
        tried += [
            models.Embedding,
            models.count_parameters,
            models.evaluating,
            generation.translate,
        ]
        tried += [device.measure_side_by_side]
        tried += [device.Median, device.median_interval, attention.leaks]
        assert not [f.__name__ for f in public if f not in tried]


@pytest.mark.parametrize("function", PUBLIC, ids=lambda f: f.__name__)
@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_functions(function, data):
    names = [
        n
        for n, p in inspect.signature(function).parameters.items()
        if n not in ("device", "rotary", "score_bias", "block", "options", "_")
        or function is device.describe_device
    ]
    arguments = {name: data.draw(ANY, label=name) for name in names}
    accepts_or_explains(function, **arguments)


@settings(max_examples=300, deadline=None)
@given(x=ANY, context=ANY, mask=ANY, causal=st.booleans(), return_weights=st.booleans())
@example(
    x=torch.ones(1, 4, 8),
    context=torch.ones(1, 2, 8),
    mask=None,
    causal=True,
    return_weights=False,
)
def test_forward(x, context, mask, causal, return_weights):
    module = MultiHeadAttention(8, 2)
    accepts_or_explains(
        module.forward, x, context, mask=mask, causal=causal, return_weights=return_weights
    )


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(st.tuples(ANY, ANY), max_size=3))
def test_cache(parts):
    cache = KVCache()
    for k, v in parts:
        accepts_or_explains(cache.append, k, v)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: attention.causal_mask(5, 3), ValueError, "keys must be at least queries=5"),
        (lambda: attention.causal_mask(0), ValueError, "queries must be at least 1. Got 0."),
        (lambda: attention.causal_mask(2.0), TypeError, "queries must be an int. Got 2.0."),
        (
            lambda: attention.padding_mask(torch.tensor([2, 9]), 5),
            ValueError,
            "lengths must be between 0 and tokens=5. Got 2 to 9.",
        ),
        (
            lambda: attention.convert_mask(torch.ones(2, 2), "may_attend", "additive"),
            TypeError,
            "mask in the convention may_attend must be boolean. Got torch.float32.",
        ),
        (
            lambda: attention.convert_mask(torch.ones(2, 2), "additiv", "additive"),
            ValueError,
            "source must be one of may_attend, may_not_attend, additive, zero_is_masked",
        ),
        (
            lambda: attention.attention_weights(
                torch.ones(2, 3, 5, 4), torch.ones(2, 3, 7, 4), torch.ones(5, 5) > 0
            ),
            ValueError,
            "mask must broadcast to (batch, heads, queries, keys)=(2, 3, 5, 7), True = may attend. "
            "Got (5, 5).",
        ),
        (
            lambda: attention.attention_weights(
                torch.ones(2, 3, 5, 4), torch.ones(2, 3, 7, 4), torch.ones(5, 7)
            ),
            TypeError,
            "convert_mask translates other conventions",
        ),
        (
            lambda: attention.attention_scores(torch.ones(1, 2, 3), torch.ones(1, 2, 4)),
            ValueError,
            "k must have the d_head of q, 3",
        ),
        (
            lambda: attention.split_heads(torch.ones(1, 2, 10), 3),
            ValueError,
            "n_heads must divide d_model=10. Got 3.",
        ),
        (
            lambda: MultiHeadAttention(12, 4, 3),
            ValueError,
            "n_kv_heads must divide n_heads=4. Got 3.",
        ),
        (
            lambda: MultiHeadAttention(12, 4)(torch.ones(2, 3, 8)),
            ValueError,
            "x must have d_model=12 as its last axis. Got (2, 3, 8).",
        ),
        (
            lambda: attention.to_torch(MultiHeadAttention(12, 4, 2)),
            ValueError,
            "Got n_heads=4, n_kv_heads=2",
        ),
        (
            lambda: attention.from_torch(nn.Linear(2, 2)),
            TypeError,
            "module must be an nn.MultiheadAttention. Got Linear.",
        ),
        (
            lambda: attention.from_torch(nn.MultiheadAttention(8, 2, kdim=4)),
            ValueError,
            "module must not use kdim",
        ),
    ],
)
def test_the_sentence_says_what_was_given_and_what_was_expected(call, error, said):
    with pytest.raises(error) as raised:
        call()
    assert said in str(raised.value)


def test_a_working_call_is_left_alone():
    with nullcontext():
        assert accepts_or_explains(attention.causal_mask, 3).shape == (3, 3)
