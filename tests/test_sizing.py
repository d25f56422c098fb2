"""Sizes before anything is built: equal to what is built, and to what was published."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from tfcourse.models import POSITIONS, PRESETS, LanguageModel, TransformerConfig, count_parameters
from tfcourse.sizing import (
    cache_bytes,
    forward_operations,
    inference_memory,
    parameters,
    training_memory,
    training_operations,
)

PUBLISHED = {  # in millions, as the papers and model cards have it
    "gpt2": 124, "gpt2-medium": 355, "gpt2-large": 774, "gpt2-xl": 1558, "gpt3": 175_000,
    "llama-7b": 6_738, "llama-3-8b": 8_030, "phi-3-mini": 3_821, "smollm2-135m": 134.5,
}  # fmt: skip


def built(config):
    with torch.device("meta"):
        return LanguageModel(config)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_as_many_parameters_as_the_built_model(name):
    if PRESETS[name].layers <= 48:
        assert parameters(PRESETS[name]).total == count_parameters(built(PRESETS[name]))


@pytest.mark.parametrize(("name", "millions"), PUBLISHED.items())
def test_the_published_totals(name, millions):
    assert parameters(PRESETS[name]).total / 1e6 == pytest.approx(millions, rel=0.01)


@st.composite
def configs(draw):
    heads = draw(st.sampled_from([1, 2, 4]))
    choose = {
        "positions": st.sampled_from(list(POSITIONS)),
        "max_tokens": st.integers(16, 40),
        "n_kv_heads": st.sampled_from([n for n in (1, 2, 4) if heads % n == 0]),
        "d_ff": st.none() | st.integers(1, 50),
        "norm": st.sampled_from(["layer", "rms"]),
        **dict.fromkeys(
            ("norm_first", "gated", "bias", "tied", "embedding_norm"), st.booleans()
        ),
        "segments": st.integers(0, 2),
    }  # fmt: skip
    return TransformerConfig(
        draw(st.integers(1, 50)), heads * draw(st.sampled_from([4, 8])), heads,
        draw(st.integers(1, 3)), **{name: draw(value) for name, value in choose.items()},
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(configs())
def test_any_config_has_as_many_parameters_as_the_built_model(config):
    assert parameters(config).total == count_parameters(built(config))


@pytest.mark.parametrize("name", ["gpt2", "llama-7b", "smollm2-135m"])
def test_the_operations_are_those_that_torch_counts(name):
    config = replace(PRESETS[name], layers=2, d_ff=PRESETS[name].d_ff or 3072)
    model, tokens = LanguageModel(replace(config, vocabulary=100, d_model=96, n_heads=6,
                                          n_kv_heads=2, d_ff=160)), 24  # fmt: skip
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, tokens, dtype=torch.long))
    ours = forward_operations(model.config, tokens)
    counted = counter.get_total_flops()
    # Torch's counter knows no causal saving: it counts every pair of tokens.
    every_pair = 4 * 2 * 96 * tokens * tokens
    assert counted in (ours.matrices + every_pair, ours.matrices)


def test_a_text_costs_the_same_in_one_piece_or_two():
    config = PRESETS["gpt2"]
    whole = forward_operations(config, 100)
    parts = forward_operations(config, 60), forward_operations(config, 40, past=60)
    assert whole.total == sum(part.total for part in parts)


def test_training_is_about_six_operations_a_parameter_and_token():
    config = PRESETS["llama-7b"]
    found = training_operations(config, 10**12, 2048)
    assert found == pytest.approx(6 * parameters(config).total * 10**12, rel=0.1)


def test_memory_of_a_llama_7b():
    config = PRESETS["llama-7b"]
    assert inference_memory(config, 0).total / 1e9 == pytest.approx(13.5, abs=0.1)
    # Half a megabyte a token: 2 · 32 layers · 4096 numbers · 2 bytes.
    assert cache_bytes(config, 1) == 524_288
    assert cache_bytes(PRESETS["llama-3-8b"], 1) == 131_072  # 8 of 32 heads
    found = training_memory(config, 2048)
    fixed = found.total - found.activations
    assert fixed / parameters(config).total == 16  # bytes a parameter, in mixed precision
    eighth = training_memory(config, 2048, shards=8)
    assert eighth.total - eighth.activations == pytest.approx(fixed / 8, rel=1e-6)


@pytest.mark.parametrize(
    ("does", "error"),
    [
        (lambda: parameters("gpt2"), TypeError),
        (lambda: cache_bytes(PRESETS["gpt2"], -1), ValueError),
        (lambda: cache_bytes(PRESETS["gpt2"], 1, precision="half"), ValueError),
        (lambda: training_memory(PRESETS["gpt2"], 8, precision="int8"), ValueError),
        (lambda: training_memory(PRESETS["gpt2"], 8, shards=0), ValueError),
        (lambda: forward_operations(PRESETS["gpt2"], 0), ValueError),
        (lambda: training_operations(PRESETS["gpt2"], 8, 0), ValueError),
    ],
)
def test_bad_input(does, error):
    with pytest.raises(error):
        does()
