"""tfcourse.generation: what is drawn, from what, and that a cache changes nothing."""

import math

import pytest
import torch
from torch import nn

from tfcourse.generation import generate, next_token_probabilities, translate
from tfcourse.models import POSITIONS, LanguageModel, Transformer, TransformerConfig

LOGITS = torch.tensor([1.0, 3.0, 2.0, 3.0, -1.0])


def model_of(positions="rotary", **options):
    torch.manual_seed(0)
    config = TransformerConfig(11, 24, 3, 2, positions=positions, max_tokens=40, **options)
    model = LanguageModel(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    nn.init.normal_(model.embed.tokens.weight, std=2.0)  # so that its texts are not all alike
    return model.eval()


# --- the distribution -----------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_temperature_divides_the_logits(temperature):
    found = next_token_probabilities(LOGITS, temperature)
    assert torch.allclose(found, torch.softmax(LOGITS / temperature, -1))


def test_greedy_is_the_first_of_the_likeliest():
    assert next_token_probabilities(LOGITS, 0).tolist() == [0, 1, 0, 0, 0]


def test_a_tiny_temperature_is_nearly_greedy_and_stays_finite():
    found = next_token_probabilities(1000 * LOGITS, 1e-6)
    assert found.tolist() == [0, 0.5, 0, 0.5, 0]


@pytest.mark.parametrize(
    ("k", "kept"),
    [(1, {1, 3}), (2, {1, 3}), (3, {1, 2, 3}), (5, set(range(5))), (9, set(range(5)))],
)
def test_top_k_keeps_the_likeliest_and_their_equals_in_their_places(k, kept):
    found = next_token_probabilities(LOGITS, top_k=k)
    assert {i for i, p in enumerate(found.tolist()) if p > 0} == kept
    wanted = torch.softmax(
        LOGITS.masked_fill(torch.tensor([i not in kept for i in range(5)]), -math.inf), -1
    )
    assert torch.allclose(found, wanted)


@pytest.mark.parametrize(
    ("p", "kept"),
    [
        (0.01, {2}),
        (0.49, {2}),
        (0.51, {0, 2}),
        (0.74, {0, 2}),
        (0.76, {0, 1, 2, 3}),
        (1.0, {0, 1, 2, 3}),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_it_and_their_equals(p, kept):
    probabilities = torch.tensor([0.25, 0.125, 0.5, 0.125])
    found = next_token_probabilities(probabilities.log(), top_p=p)
    assert {i for i, x in enumerate(found.tolist()) if x > 0} == kept
    inside = torch.tensor([x if i in kept else 0 for i, x in enumerate(probabilities.tolist())])
    assert torch.allclose(found, inside / inside.sum())


def test_top_p_works_on_what_top_k_left():
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])
    found = next_token_probabilities(probabilities.log(), top_k=2, top_p=0.5)
    assert torch.allclose(found, torch.tensor([1.0, 0, 0, 0]))  # 0.4 / 0.7 is above 0.5


def test_every_row_for_itself():
    rows = torch.randn(4, 3, 9, generator=torch.Generator().manual_seed(0))
    together = next_token_probabilities(rows, 0.7, 5, 0.8)
    alone = torch.stack([next_token_probabilities(row, 0.7, 5, 0.8) for row in rows.flatten(0, 1)])
    assert torch.equal(together.flatten(0, 1), alone)
    assert torch.allclose(together.sum(-1), torch.ones(4, 3))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -1}, "temperature must be at least 0"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1. Got 1.5"),
    ],
)
def test_settings_out_of_range(options, said):
    with pytest.raises(ValueError, match=said):
        next_token_probabilities(LOGITS, **options)


# --- the cache ------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("pieces", [[1] * 9, [4, 1, 3, 1], [9]])
@torch.no_grad()
def test_a_cache_changes_no_logit(positions, pieces):
    model, tokens = model_of(positions, n_kv_heads=1), torch.randint(11, (2, 9))
    caches, found = model.new_caches(), []
    for part in tokens.split(pieces, dim=1):
        found.append(model(part, caches=caches))
    assert (torch.cat(found, dim=1) - model(tokens)).abs().max() < 1e-5


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("cache", [True, False])
def test_prompts_of_unequal_length_are_as_each_alone(positions, cache):
    model, prompts = model_of(positions), [[3, 1, 4, 1, 5], [9], [2, 6]]
    together = generate(model, prompts, 12, temperature=0, cache=cache)
    alone = [generate(model, [prompt], 12, temperature=0, cache=not cache)[0] for prompt in prompts]
    assert together == alone
    assert len(set(map(tuple, together))) > 1


def test_the_same_seed_gives_the_same_text_with_and_without_a_cache():
    model = model_of()
    texts = [
        generate(model, [[1, 2]], 20, generator=torch.Generator().manual_seed(seed), cache=cache)
        for seed, cache in ((0, True), (0, False), (1, True))
    ]
    assert texts[0] == texts[1] != texts[2]


def test_greedy_text_follows_the_logits():
    model, text = model_of(), [3, 1]
    for _ in range(6):
        text.append(model(torch.tensor([text]))[0, -1].argmax().item())
    assert generate(model, [[3, 1]], 6, temperature=0) == [text[2:]]


def test_what_is_left_out_is_never_drawn():
    model = model_of()
    with torch.no_grad():
        likely = model(torch.tensor([[5]]))[0, -1].topk(2).indices.tolist()
    generator = torch.Generator().manual_seed(0)
    drawn = [generate(model, [[5]], 1, top_k=2, generator=generator)[0][0] for _ in range(60)]
    assert set(drawn) == set(likely)


def test_a_stop_token_ends_its_own_text_only():
    model, prompts = model_of(), [[3, 1], [9, 9]]
    whole = generate(model, prompts, 10, temperature=0)
    stop = whole[0][4]
    cut = [row[: row.index(stop)] if stop in row else row for row in whole]
    assert generate(model, prompts, 10, temperature=0, stop=stop) == cut


def test_the_mode_is_left_as_it_was_and_dropout_rests():
    model = model_of(dropout=0.5).train()
    assert generate(model, [[1]], 8, temperature=0) == generate(model, [[1]], 8, temperature=0)
    assert model.training


class Cacheless(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.inner = config.block()

    def forward(self, x, causal):
        return self.inner(x, causal=causal)


def test_a_block_without_a_cache():
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(5, 8, 2, 1), block=Cacheless)
    assert len(generate(model, [[1]], 4, cache=False)[0]) == 4
    with pytest.raises(TypeError, match="cache must be False for this model"):
        generate(model, [[1]], 4)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda m: generate(m, [], 3), ValueError, "at least one prompt"),
        (lambda m: generate(m, [[1], []], 3), ValueError, "each of at least one token"),
        (lambda m: generate(m, ["abc"], 3), TypeError, "list of lists of tokens"),
        (lambda m: generate(m, [[99]], 3), ValueError, "the last of the vocabulary, 10. Got 99"),
        (lambda m: generate(m, [[1]], 0), ValueError, "new_tokens must be at least 1"),
        (lambda m: generate(m, [[1] * 30], 20), ValueError, "within the model's 40 positions"),
        (lambda m: m(torch.tensor([[1]]), caches=[]), ValueError, "caches must be 2, one a block"),
    ],
)
def test_what_cannot_work_is_told(call, error, said):
    with pytest.raises(error, match=said):
        call(model_of("learned"))


# --- translation ----------------------------------------------------------------------------


def test_translate_follows_the_decoder_and_ends_at_stop():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(9, 24, 3, 2, positions="learned", max_tokens=20)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    source = torch.randint(9, (3, 5))
    by_hand = torch.full((3, 1), 1)
    with torch.no_grad():
        for _ in range(7):
            token = model(source, by_hand)[:, -1:].argmax(-1)
            by_hand = torch.cat([by_hand, token], dim=1)
    rows = by_hand[:, 1:].tolist()
    assert translate(model, source, None, start=1, stop=99, new_tokens=7) == rows
    stop = rows[0][2]
    cut = [row[: row.index(stop)] if stop in row else row for row in rows]
    assert translate(model, source, None, start=1, stop=stop, new_tokens=7) == cut
