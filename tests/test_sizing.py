"""Sizes before anything is built: equal to what is built, and to what was published."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tfcourse.device import measure_peak_memory
from tfcourse.models import POSITIONS, PRESETS, LanguageModel, TransformerConfig, count_parameters
from tfcourse.sizing import (
    MOST_DEVICES,
    Memory,
    cache_bytes,
    fewest_devices,
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
    fixed = found.weights + found.gradients + found.optimizer
    assert fixed / parameters(config).total == 16  # bytes a parameter, in mixed precision
    eighth = training_memory(config, 2048, shards=8)
    assert found.total - eighth.total == pytest.approx(fixed * 7 / 8, rel=1e-6)


# --- activations: what autograd keeps ---------------------------------------------------------

LLAMA = {"norm": "rms", "activation": "silu", "gated": True, "bias": False}
KINDS = {
    "gpt2": {"positions": "learned", "max_tokens": 64, "activation": "gelu_tanh", "tied": True},
    "2017": {"positions": "sinusoidal", "norm_first": False, "activation": "relu", "dropout": 0.1},
    "bert": {
        "positions": "learned", "max_tokens": 64, "norm_first": False, "dropout": 0.1,
        "segments": 2, "embedding_norm": True,
    },
    "llama": LLAMA | {"rotary_layout": "split-half"},
    "llama, grouped heads": LLAMA | {"rotary_layout": "split-half", "n_kv_heads": 2},
    "llama, neighbours turned": LLAMA | {"n_kv_heads": 1},
    "rms without a gate": {"norm": "rms", "positions": "none", "d_ff": 100, "tied": True},
    "a gate in relu": {"gated": True, "activation": "relu", "embedding_norm": True},
    "alibi": {"positions": "alibi", "n_kv_heads": 4},
}  # fmt: skip


class Checkpointed(torch.nn.Module):
    """A block whose insides are computed again in the backward pass."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, **options):
        return checkpoint(self.block, x, use_reentrant=False, **options)


def learning(config, batch, tokens, dtype=torch.float32, checkpointing=False):
    """A model in training and a function that gives its loss."""
    torch.manual_seed(0)
    kind = TransformerConfig.block
    if checkpointing:
        model = LanguageModel(config, block=lambda config: Checkpointed(kind(config)))
    else:
        model = LanguageModel(config)
    texts = torch.randint(config.vocabulary, (batch, tokens + 1))

    def loss():
        logits = model(texts[:, :-1]).flatten(0, 1)
        return F.cross_entropy(logits, texts[:, 1:].flatten())

    return model.to(dtype).train(), loss


def kept_bytes(model, loss):
    """What the graph of `loss()` holds: each storage once, without the model's own."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage  # held, so that its place is not given away
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss()
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("d_model", "layers"), [(64, 3), (128, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_activations_are_what_autograd_keeps(kind, d_model, layers, dtype):
    config = TransformerConfig(150, d_model, 4, layers, **KINDS[kind])
    model, loss = learning(config, 4, 32, dtype)
    precision = str(dtype).removeprefix("torch.")
    ours = training_memory(config, 32, batch=4, precision=precision).activations
    assert ours == pytest.approx(kept_bytes(model, loss), rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpointing_keeps_what_enters_each_block(kind):
    few, many = (TransformerConfig(150, 64, 4, layers, **KINDS[kind]) for layers in (2, 5))
    found = [kept_bytes(*learning(config, 4, 32, checkpointing=True)) for config in (few, many)]
    ours = [
        training_memory(config, 32, batch=4, precision="float32", checkpointing=True).activations
        for config in (few, many)
    ]
    assert found[1] - found[0] == ours[1] - ours[0] == 3 * 4 * 32 * 64 * 4
    # and beside that a whole block, which the forward pass does not keep yet
    whole = [
        training_memory(config, 32, batch=4, precision="float32").activations
        for config in (few, many)
    ]
    assert ours[0] - found[0] == pytest.approx((whole[1] - whole[0]) / 3, rel=0.05)


@pytest.mark.parametrize("vocabulary", [150, 2000])
@pytest.mark.parametrize("kind", ["gpt2", "llama, grouped heads"])
def test_the_most_that_a_step_holds_at_once(kind, vocabulary):
    config = TransformerConfig(vocabulary, 64, 4, 6, **KINDS[kind])
    for checkpointing in (False, True):
        model, loss = learning(config, 16, 64, checkpointing=checkpointing)

        def step(model=model, loss=loss):
            model.zero_grad(set_to_none=False)
            loss().backward()

        ours = training_memory(
            config, 64, batch=16, precision="float32", checkpointing=checkpointing
        )
        most = ours.activations + ours.loss
        assert measure_peak_memory(step) == pytest.approx(most, rel=0.03)


def test_on_several_devices():
    config = PRESETS["llama-7b"]

    def writing(devices):
        return inference_memory(config, 2048, shards=devices)

    assert writing(8).weights == writing(1).weights // 8
    assert writing(8).cache == writing(1).cache // 8
    room = 4 * 10**9
    fewest = fewest_devices(writing, room)
    assert writing(fewest).total <= room < writing(fewest - 1).total
    assert fewest_devices(writing, 80 * 10**9) == 1
    # Activations are not spread.
    assert fewest_devices(lambda _: Memory(0, activations=room + 1), room) is None
    assert fewest_devices(lambda devices: Memory(-(-MOST_DEVICES // devices)), 1) == MOST_DEVICES


@pytest.mark.parametrize(
    ("does", "error"),
    [
        (lambda: parameters("gpt2"), TypeError),
        (lambda: parameters(replace(PRESETS["gpt2"], n_heads=7)), ValueError),
        (lambda: parameters(replace(PRESETS["gpt2"], n_kv_heads=5)), ValueError),
        (lambda: parameters(replace(PRESETS["gpt2"], n_kv_heads=0)), ValueError),
        (lambda: parameters(replace(PRESETS["gpt2"], d_ff=1.5)), TypeError),
        (lambda: inference_memory(PRESETS["gpt2"], 8, shards=0), ValueError),
        (lambda: fewest_devices(lambda devices: Memory(1), 0), ValueError),
        (lambda: fewest_devices(lambda devices: Memory(1), 1.5), TypeError),
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
