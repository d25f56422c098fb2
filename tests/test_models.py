"""tfcourse.models: a small language model, whatever its kind of position."""

import pytest
import torch

from tfcourse.models import (
    POSITIONS,
    PRESETS,
    Encoder,
    LanguageModel,
    Transformer,
    TransformerConfig,
    count_parameters,
)
from tfcourse.positions import sinusoidal_encoding

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [2, 0, 2, 1, 6]])


def config_of(*sizes, **options):
    return LanguageModel(TransformerConfig(*sizes, **options))


def model_of(kind, **options):
    torch.manual_seed(0)
    config = TransformerConfig(7, 12, 3, 2, positions=kind, max_tokens=8, **options)
    return LanguageModel(config).eval()


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
    config = TransformerConfig(500, 64, 4, 1, positions="learned", max_tokens=300)
    model = LanguageModel(config).small_embeddings()
    for weight in (model.embed.tokens.weight, model.embed.positions.table.weight):
        assert weight.std().item() == pytest.approx(64**-0.5, rel=0.05)


@pytest.mark.parametrize("kind", POSITIONS)
def test_scale_multiplies_what_the_first_block_reads(kind):
    small, large = (model_of(kind, scale=scale).embed(TOKENS) for scale in (1.0, 3.0))
    assert torch.allclose(3 * small, large, atol=1e-6)
    by_default = model_of(kind).embed(TOKENS)
    assert torch.allclose(by_default, small * (12**0.5 if kind == "sinusoidal" else 1), atol=1e-6)


def test_sinusoidal_positions_are_added_to_root_d_times_the_embedding():
    model = model_of("sinusoidal")
    expected = model.embed.tokens(TOKENS) * 12**0.5 + sinusoidal_encoding(5, 12)
    assert torch.allclose(model.embed(TOKENS), expected, atol=1e-6)


def test_pre_norm_ends_with_a_norm_and_post_norm_does_not():
    assert isinstance(model_of("none").norm, torch.nn.Module)
    assert sum(p.numel() for p in model_of("none").norm.parameters()) == 24
    assert not list(model_of("none", norm_first=False).norm.parameters())


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda: LanguageModel(TransformerConfig(7, 12, 5, 1)),
            ValueError,
            "n_heads must divide d_model=12. Got 5",
        ),
        (
            lambda: LanguageModel(TransformerConfig(7, 12, 3, 1, positions="rope")),
            ValueError,
            "Got 'rope'",
        ),
        (lambda: config_of(7, 15, 5, 1), ValueError, "d_head must be even"),
        (
            lambda: LanguageModel(TransformerConfig(7, 12, 3, 1, positions="learned")),
            TypeError,
            "max_tokens must be",
        ),
        (
            lambda: LanguageModel(TransformerConfig(7, 12, 3, 1, scale="big")),
            TypeError,
            "scale must be a number",
        ),
        (
            lambda: LanguageModel(TransformerConfig(7, 12, 3, 1, norm="batch")),
            ValueError,
            "norm must be one of",
        ),
        (
            lambda: LanguageModel(TransformerConfig(7, 12, 3, 1, activation="tanh")),
            ValueError,
            "activation must be",
        ),
        (lambda: model_of("none")(torch.ones(2, 5)), TypeError, "tokens must hold whole numbers"),
        (lambda: model_of("none")(torch.ones(5).long()), ValueError, "tokens must have 2 axes"),
    ],
)
def test_what_cannot_work_is_told(call, error, said):
    with pytest.raises(error) as raised:
        call()
    assert said in str(raised.value)


# --- one config, many models ------------------------------------------------------------------

PRINTED = {  # millions, as their authors or their files have it, without heads of their own
    "transformer-base": (Transformer, 63.1),
    "transformer-big": (Transformer, 214.2),
    "bert-base": (Encoder, 108.9),
    "gpt2": (LanguageModel, 124.4),
    "gpt2-medium": (LanguageModel, 354.8),
    "gpt2-large": (LanguageModel, 774.0),
    "gpt2-xl": (LanguageModel, 1557.6),
    "gpt3": (LanguageModel, 174_604.3),
    "llama-7b": (LanguageModel, 6738.4),
    "llama-3-8b": (LanguageModel, 8030.3),
    "phi-3-mini": (LanguageModel, 3821.1),
    "smollm2-135m": (LanguageModel, 134.5),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_the_parameters_of_the_published_models(name):
    kind, millions = PRINTED[name]
    with torch.device("meta"):
        model = kind(PRESETS[name])
    assert round(count_parameters(model) / 1e6, 1) == millions


def test_a_tied_head_is_the_embedding():
    model = config_of(7, 12, 3, 1, tied=True)
    assert model.head.weight is model.embed.tokens.weight
    both = Transformer(TransformerConfig(7, 12, 3, 1, tied=True))
    assert both.head.weight is both.embed.tokens.weight is both.encoder.embed.tokens.weight
    assert count_parameters(config_of(7, 12, 3, 1)) - count_parameters(model) == 7 * 12


def test_a_block_of_ones_own():
    """It gets the config, and is called with x and causal alone."""
    seen = []

    class Own(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            seen.append(config.d_ff)
            self.inner = config.block()

        def forward(self, x, causal):
            seen.append(causal)
            return self.inner(x, causal=causal)

    torch.manual_seed(0)
    ours = config_of(7, 12, 3, 2, d_ff=20)
    torch.manual_seed(0)
    theirs = LanguageModel(ours.config, block=Own)
    assert torch.equal(ours(TOKENS), theirs(TOKENS))
    assert seen == [20, 20, True, True]


@torch.no_grad()
def test_the_encoder_sees_both_ways_and_no_padding():
    torch.manual_seed(0)
    encoder = Encoder(TransformerConfig(7, 12, 3, 2, positions="learned", max_tokens=8)).eval()
    changed = TOKENS.clone()
    changed[:, -1] = 0
    mask = torch.arange(5) < torch.tensor([5, 4])[:, None]
    before, after = (encoder(t, mask[:, None, None]) for t in (TOKENS, changed))
    assert not torch.allclose(before[0, 0], after[0, 0], atol=1e-4)
    assert torch.allclose(before[1, :4], after[1, :4], atol=1e-6)


@torch.no_grad()
def test_the_decoder_sees_the_whole_source_and_no_future():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(7, 12, 3, 2)).eval()
    other_source, other_end = TOKENS.flip(1), TOKENS.clone()
    other_end[:, 3:] = 0
    base = model(TOKENS, TOKENS)
    assert torch.allclose(base[:, :3], model(TOKENS, other_end)[:, :3], atol=1e-6)
    assert not torch.allclose(base[:, 0], model(other_source, TOKENS)[:, 0], atol=1e-4)


@torch.no_grad()
def test_the_decoder_with_a_cache():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(7, 12, 3, 2, positions="sinusoidal")).eval()
    memory, caches = model.encoder(TOKENS), model.new_caches()
    steps = [model.write(t, memory, caches=caches) for t in TOKENS.split(1, dim=1)]
    assert (torch.cat(steps, 1) - model(TOKENS, TOKENS)).abs().max() < 1e-5
