"""Playground in Chromium: the engine against PyTorch, and everything a learner can touch."""

import base64
import functools
import http.server
import json
import re
import threading

import pytest
import torch
from playwright.sync_api import expect

from tests.browser.pages import page_of, settled
from tfcourse.experiments.characters import manual
from tfcourse.generation import next_token_probabilities
from tfcourse.inside import attention_maps, logit_lens, replaced_heads
from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.widgets import Playground
from tfcourse.widgets.view import module_source

ABC = list("abcdefghijklmnopqrstuvw")  # 23 tokens
EVIL = "<img src=x onerror=document.title='pwned'>"

# Puts the module's exports and the engine of a view on an empty page, as `window.play`.
ENGINE = """async ([source, state, packed]) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const play = await import(url);
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const values = { state, data: new DataView(bytes.buffer) };
  const weights = await play.loadWeights({ get: (name) => values[name] });
  window.play = { ...play, machine: play.engine(state.config, weights) };
}"""
LOGITS = """([texts, off]) => texts.map((ids) => {
  const session = play.machine.session(off);
  session.read(ids);
  return Array.from(session.logits());
})"""


@pytest.fixture
def start(open_page):
    """`start(view)`: a page with the view's engine on it, and nothing else."""

    def start_(view):
        page = open_page("<!doctype html><title>engine</title>")
        data = base64.b64encode(view.data).decode()
        page.evaluate(ENGINE, [module_source("playground"), view.state, data])
        return page

    return start_


def logits_of(page, texts, off=()):
    return torch.tensor(page.evaluate(LOGITS, [texts, list(off)]))


@torch.no_grad()
def expected(model, texts):
    return torch.stack([model(torch.tensor([ids]))[0, -1] for ids in texts])


def lively(config, seed=0):
    """A model of exact half floats: what is left is the engine's own error.

    Biases and norms are as far from 0 and 1 as training may bring them.
    """
    torch.manual_seed(seed)
    model = LanguageModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
            elif "norm" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
            parameter.copy_(parameter.half())
    return model.eval()


@pytest.fixture(scope="session")
def text():
    return manual()


@pytest.fixture(scope="session")
def trained(text):
    """0.6 million parameters, trained for a minute: enough to prefer letters to noise."""
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(len(text.vocabulary), 128, 4, 3, d_ff=512))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        inputs, targets = text.batch(8, 64, generator)
        loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="session")
def view(trained, text):
    return Playground(trained, text, prompt="The assert statement")


# ---------------------------------------------------------------- the engine


def test_two_hundred_texts_of_a_trained_model(start, view, trained, text):
    page = start(view)
    generator = torch.Generator().manual_seed(1)
    ids = text.encode(text.decode(text._part("held out", 1)))
    texts = []
    for _ in range(200):
        length = int(torch.randint(1, 121, (), generator=generator))
        begin = int(torch.randint(len(ids) - 200, (), generator=generator))
        texts.append(ids[begin : begin + length])
    got, want = logits_of(page, texts), expected(trained, texts)
    print("greatest gap", (got - want).abs().max().item())
    assert (got - want).abs().max() < 1e-2
    assert torch.equal(got.argmax(-1), want.argmax(-1))


BASE = {"d_ff": 40}
KINDS = {
    "rotary": {},
    "rotary, halves, base": {"rotary_layout": "split-half", "rotary_base": 500.0},
    "none": {"positions": "none"},
    "sinusoidal": {"positions": "sinusoidal"},
    "learned": {"positions": "learned", "max_tokens": 40},
    "alibi": {"positions": "alibi"},
    "alibi, six heads": {"positions": "alibi", "n_heads": 6},
    "rms, eps": {"norm": "rms", "eps": 0.05},
    "layer, eps": {"eps": 0.05},
    "gated silu": {"gated": True, "activation": "silu", "d_ff": None},
    "relu": {"activation": "relu"},
    "gelu tanh": {"activation": "gelu_tanh"},
    "shared keys": {"n_kv_heads": 2},
    "one key head": {"n_kv_heads": 1, "positions": "alibi"},
    "no bias": {"bias": False},
    "tied": {"tied": True},
    "post-norm": {"norm_first": False},
    "scaled": {"scale": 3.0},
    "embedding norm, segments": {"embedding_norm": True, "segments": 3},
    "as a Llama": {"norm": "rms", "gated": True, "activation": "silu", "bias": False,
                   "n_kv_heads": 2, "rotary_layout": "split-half", "tied": True},
    "as in 2017": {"positions": "sinusoidal", "norm_first": False, "activation": "relu",
                   "tied": True, "dropout": 0.3},
}  # fmt: skip


def small(**options):
    options = BASE | options
    sizes = {"d_model": 24, "n_heads": options.pop("n_heads", 4), "layers": 2}
    return TransformerConfig(len(ABC), **sizes, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_of_the_config(start, kind):
    model = lively(small(**KINDS[kind]))
    page = start(Playground(model, ABC, "abc"))
    generator = torch.Generator().manual_seed(2)
    texts = [
        torch.randint(len(ABC), (length,), generator=generator).tolist()
        for length in (1, 2, 3, 7, 19, 33)
    ]
    for off in ([], ["1"], ["0.2"]):
        got, want = logits_of(page, texts, off), expected_without(model, texts, off)
        assert want.std() > 0.1
        assert (got - want).abs().max() < 3e-5 * (1 + want.abs().max()), off


def expected_without(model, texts, off):
    heads = {}
    blocks = list(model.blocks)
    for key in off:
        block, _, head = key.partition(".")
        if head:
            heads[f"blocks.{block}.attention", int(head)] = 0.0
        else:
            blocks[int(block)] = None
    whole = model.blocks
    model.blocks = torch.nn.ModuleList(block for block in blocks if block is not None)
    try:
        if not heads:
            return expected(model, texts)
        with replaced_heads(model, heads):
            return expected(model, texts)
    finally:
        model.blocks = whole


@pytest.mark.parametrize(
    "off", [["1"], ["0", "2"], ["1.3"], ["0.0", "1.1", "2.3"], ["0", "1", "2"], ["2.0", "2.1"]]
)
def test_heads_and_blocks_switched_off(start, view, trained, text, off):
    page = start(view)
    texts = [text.encode(words) for words in ("The", "for x in range(3):\n    ", "with")]
    got = logits_of(page, texts, off)
    want = expected_without(trained, texts, off)
    assert (got - want).abs().max() < 1e-2
    assert (got - expected(trained, texts)).abs().max() > 0.02  # it makes a difference


def test_going_on_is_as_reading_anew(start, view, text):
    """The cache: what is typed, changed in the middle, cut and written again."""
    page = start(view)
    ids = [
        text.encode(words) for words in ("The list", "The list of", "The lost of", "The", "Th", "x")
    ]
    got = page.evaluate(
        """(texts) => { const session = play.machine.session(["1.2"]);
          return texts.map((ids) => { session.read(ids); return [session.length, ...session.logits()]; }); }""",
        ids,
    )
    for (length, *logits), each in zip(got, ids, strict=True):
        assert length == len(each)
        anew = logits_of(page, [each], ["1.2"])[0]
        assert torch.equal(torch.tensor(logits), anew)


def test_only_what_is_new_is_computed(start, view, text):
    page = start(view)
    ids = text.encode("The list of all that is")
    steps = page.evaluate(
        """(ids) => { const session = play.machine.session(); session.read(ids.slice(0, 10));
          const before = session.row(0, 0, 9); session.read(ids); const same = session.row(0, 0, 9);
          return [before.buffer === same.buffer, session.read([...ids, 1], 0), session.length]; }""",
        ids,
    )
    assert steps == [True, False, len(ids)]  # kept; no time was given for another step


def test_maps_and_the_stream_read_out(start, view, trained, text):
    page = start(view)
    ids = text.encode("The assert statement is")
    rows, lens = page.evaluate(
        """(ids) => { const session = play.machine.session(); session.read(ids);
          const rows = [0, 1, 2].map((l) => [0, 1, 2, 3].map((h) => ids.map((_, t) => {
            const row = Array.from(session.row(l, h, t)); return [...row, ...ids.slice(t + 1).map(() => 0)]; })));
          return [rows, session.lens().map((x) => Array.from(x))]; }""",
        ids,
    )
    with torch.no_grad(), attention_maps(trained) as maps:
        trained(torch.tensor([ids]))
    want = torch.stack([maps[f"blocks.{layer}.attention"][0] for layer in range(3)])
    assert torch.allclose(torch.tensor(rows), want, atol=2e-3)
    want = logit_lens(trained, torch.tensor([ids]))[:, 0, -1]
    assert (torch.tensor(lens) - want).abs().max() < 1e-2


def test_fifty_tokens_a_second_at_least(start, view):
    page = start(view)
    rate = page.evaluate(
        """() => { const session = play.machine.session(), ids = [5];
          for (let n = 0; n < 20; n++) { session.read(ids); ids.push(n); } // warm
          const from = performance.now();
          for (let n = 0; n < 100; n++) {
            session.read(ids);
            ids.push(play.draw(play.chances(session.logits()), 0.5));
          }
          return 100 / (performance.now() - from) * 1000; }"""
    )
    print(f"{rate:.0f} tokens a second")
    assert rate > 50


LOGIT_ROWS = {
    "plain": [2.0, 1.0, 0.0, -1.0, 3.5, 0.5],
    "ties": [1.0, 2.0, 2.0, 2.0, 0.0, 1.0],
    "all equal": [1.0, 1.0, 1.0, 1.0],
    "two best": [0.0, 4.0, 4.0, -3.0, 1.0],
}


@pytest.mark.parametrize("name", LOGIT_ROWS)
def test_temperature_top_k_and_top_p(start, view, name):
    page = start(view)
    logits = LOGIT_ROWS[name]
    for temperature in (0, 0.1, 0.7, 1, 2):
        for top_k in (1, 2, 3, None):
            for top_p in (0.05, 0.25, 0.5, 0.75, 0.9, 1):
                got = page.evaluate(
                    "([l, t, k, p]) => Array.from(play.chances(Float32Array.from(l), t, k ?? Infinity, p))",
                    [logits, temperature, top_k, top_p],
                )
                want = next_token_probabilities(torch.tensor(logits), temperature, top_k, top_p)
                assert got == pytest.approx(want.tolist(), abs=1e-6), (temperature, top_k, top_p)


def test_draws_follow_the_distribution(start, view):
    page = start(view)
    counts = page.evaluate(
        """() => { const counts = [0, 0, 0, 0], shares = Float32Array.from([0.5, 0, 0.3, 0.2]);
          for (let n = 0; n < 1000; n++) counts[play.draw(shares, (n + 0.5) / 1000)]++;
          return [...counts, play.draw(shares, 0.99999999999)]; }"""
    )
    assert counts == [500, 0, 300, 200, 3]


def test_divergence(start, view):
    page = start(view)
    torch.manual_seed(0)
    p, q = torch.randn(2, 9)
    got = page.evaluate("([p, q]) => play.divergence(p, q)", [p.tolist(), q.tolist()])
    want = (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum().item()
    assert got == pytest.approx(want, rel=1e-5)
