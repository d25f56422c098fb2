"""Playground in Python: what it packs, what it says, and which models it refuses."""

import json
import re
import zlib

import numpy as np
import pytest
import torch
from torch import nn

from tfcourse.blocks import Block
from tfcourse.generation import next_token_probabilities
from tfcourse.models import Encoder, LanguageModel, TransformerConfig, count_parameters
from tfcourse.positions import Rotary
from tfcourse.tasks import CharacterText
from tfcourse.widgets import Playground
from tfcourse.widgets.playground import LARGEST, encode, room

ABC = list("abcdef ")
TEXT = CharacterText("a bad cafe faced a fab decade " * 4)


def model(**options):
    torch.manual_seed(0)
    return LanguageModel(TransformerConfig(7, 16, 4, 2, d_ff=24, **options))


def unpacked(view):
    """The weights as the page has them."""
    found = {}
    for name, block in view.state["blocks"].items():
        assert (block["kind"], block["scale"]) == ("half", 1.0)
        size = int(np.prod(block["shape"]))
        array = np.frombuffer(view.data, np.float16, size, block["offset"])
        found[name] = torch.tensor(array.reshape(block["shape"])).float()
    return found


# ---------------------------------------------------------------- what is packed and said


def test_the_weights_are_the_nearest_half_floats():
    own = model()
    found, weights = unpacked(Playground(own, ABC)), own.state_dict()
    assert list(found) == list(weights)
    for name, tensor in weights.items():
        assert torch.equal(found[name], tensor.half().float()), name


def test_what_stands_there_twice_goes_once():
    assert "head.weight" not in unpacked(Playground(model(tied=True), ABC))
    own = model(segments=3)
    segments = unpacked(Playground(own, ABC))["embed.segments.weight"]
    assert torch.equal(segments, own.state_dict()["embed.segments.weight"][:1].half().float())


def test_the_config_is_complete_and_json():
    state = Playground(model(n_kv_heads=2, gated=True, dropout=0.5), ABC).state
    assert json.loads(json.dumps(state)) == state
    assert (state["config"]["d_ff"], state["config"]["n_kv_heads"]) == (24, 2)
    assert Playground(model(), ABC).state["config"]["n_kv_heads"] == 4
    assert state["vocabulary"] == ABC
    assert state["room"] == 512


def test_how_much_is_read():
    assert room(model(positions="learned", max_tokens=9).config) == 9
    assert room(model(positions="rotary", max_tokens=9).config) == 512
    assert room(model(positions="learned", max_tokens=600).config) == 512


@pytest.mark.parametrize("options", [{}, {"positions": "learned", "max_tokens": 8}])
def test_the_words_are_true(options):
    own = model(**options).eval()
    view = Playground(own, TEXT, "a bad cab", title="And now?")
    tokens = TEXT.encode("a bad cab")[-room(own.config) :]
    with torch.no_grad():
        probabilities = next_token_probabilities(own(torch.tensor([tokens]))[0, -1])
    assert view.chances == pytest.approx(probabilities.numpy(), abs=1e-6)
    best = probabilities.argmax()
    named = {" ": "␣"}.get(TEXT.vocabulary[best], TEXT.vocabulary[best])
    assert f"“{named}” {probabilities[best]:.0%}" in view.text
    assert view.text.startswith("And now? A language model of ")
    assert f"{count_parameters(own):,} parameters reads “a bad cab”" in view.text
    assert view.continuation
    assert set(view.continuation) <= set(ABC)
    assert f"“{view.continuation}”" in view.text


def test_it_is_the_same_every_time_and_changes_nothing():
    own = model(dropout=0.4).train()
    torch.manual_seed(3)
    first = Playground(own, TEXT)
    after = torch.rand(1)
    second = Playground(own, TEXT)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(1))  # no draw of the learner's own is used up
    assert own.training
    assert first._repr_mimebundle_() == second._repr_mimebundle_()


def test_the_prompt_by_default():
    assert Playground(model(), TEXT).state["prompt"] == "a bad cafe faced a fab decade"
    assert Playground(model(), ABC).state["prompt"] == "a"


def test_tokens_longer_than_a_character():
    vocabulary = ["a", "b", "ab", "abc", " ", "é", "\n"]
    assert encode("abcab a", vocabulary) == [3, 2, 4, 0]
    assert Playground(model(), vocabulary, "abé\n").alt


def test_the_picture():
    picture = Playground(model(), TEXT).picture
    assert picture.png().startswith(b"\x89PNG")
    assert picture.title == "What would it write next?"


# ---------------------------------------------------------------- a learner's own model


class OwnNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.ones(d_model)),
            nn.Parameter(torch.zeros(d_model)),
        )

    def forward(self, x):
        return nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias)


class OwnAttention(nn.Module):
    """Attention with the package's names, none of its classes, and no cache."""

    def __init__(self, config, turn=True):
        super().__init__()
        self.n_heads = config.n_heads
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.rotary = Rotary(config.d_head) if turn else None

    def forward(self, x, causal=True):
        q, k, v = (
            part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        if self.rotary is not None:
            places = torch.arange(x.shape[1])
            q, k = self.rotary(q, places), self.rotary(k, places)
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(heads.transpose(1, 2).flatten(-2))


class OwnFeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class OwnBlock(nn.Module):
    def __init__(self, config, **options):
        super().__init__()
        self.attention, self.feed_forward = OwnAttention(config, **options), OwnFeedForward()
        self.attention_norm, self.feed_forward_norm = OwnNorm(16), OwnNorm(16)

    def forward(self, x, causal=True):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class OtherNames(OwnBlock):
    def __init__(self, config):
        super().__init__(config)
        self.mlp = self.feed_forward
        del self.feed_forward


class Extra(Block):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.gain = nn.Parameter(torch.ones(1))


def own(block):
    torch.manual_seed(0)
    return LanguageModel(TransformerConfig(7, 16, 4, 2, d_ff=24), block=block)


def test_an_own_block_with_the_same_weights_is_welcome():
    mine = own(OwnBlock)
    same = model()
    same.load_state_dict(mine.state_dict())
    view = Playground(mine, TEXT, "a bad")
    assert view.data == Playground(same, TEXT, "a bad").data
    assert view.text == Playground(same, TEXT, "a bad").text


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (OtherNames, r"must have the weight blocks\.0\.feed_forward\.up\.weight.*attention\.qkv"),
        (lambda c: c.block(Extra), r"must have no weight blocks\.0\.gain"),
        (lambda c: c.block(Block, cross=True), r"must have no weight blocks\.0\.cross_attention"),
        (
            lambda c: Block(16, 4, d_ff=20),
            r"feed_forward\.up\.weight of shape \(24, 16\), as its config says\. Got \(20, 16\)",
        ),
        (lambda c: OwnBlock(c, turn=False), r"must give the numbers that LanguageModel\(config\)"),
        (lambda c: Block(16, 4, d_ff=24, norm_first=False), "must give the numbers"),
    ],
)  # fmt: skip
def test_a_model_that_the_page_cannot_run(block, said):
    mine = own(block)
    with torch.no_grad():  # untrained blocks hardly differ
        for parameter in mine.parameters():
            parameter.mul_(2)
    with pytest.raises(ValueError, match=said):
        Playground(mine, TEXT)


def test_half_precision_is_welcome():
    view = Playground(model().bfloat16(), TEXT)
    assert unpacked(view)["embed.tokens.weight"].dtype == torch.float32


def broken(value):
    spoiled = model()
    with torch.no_grad():
        spoiled.blocks[1].attention.out.weight[2, 3] = value
    return spoiled


CONFIG = TransformerConfig(7, 16, 4, 2)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: Playground("gpt", ABC), TypeError, "model must be a LanguageModel.* Got str"),
        (lambda: Playground(nn.Linear(2, 2), ABC), TypeError, "Got Linear"),
        (lambda: Playground(Encoder(CONFIG), ABC), ValueError, "the weight head.weight. Got none"),
        (lambda: Playground(broken(float("nan")), ABC), ValueError, "finite .* did the training"),
        (lambda: Playground(broken(1e6), ABC), ValueError, r"blocks\.1\.attention\.out\.weight"),
        (lambda: Playground(model(), 7), TypeError, "text must be the CharacterText .* Got int"),
        (lambda: Playground(model(), "abcdef "), TypeError, "text must be .* Got str"),
        (lambda: Playground(model(), ABC[:5]), ValueError, "must have the 7 tokens.* Got 5"),
        (lambda: Playground(model(), [*ABC[:6], "a"]), ValueError, "every token once.* 'a' twice"),
        (lambda: Playground(model(), [*ABC[:6], ""]), ValueError, "none that is empty"),
        (lambda: Playground(model(), [1] * 7), TypeError, r"text\[0\] must be a string, got int"),
        (lambda: Playground(model(), ABC, "abz!"), ValueError, "Not among them: 'z' '!'. Leave"),
        (lambda: Playground(model(), ABC, ""), ValueError, "prompt must hold at least one token"),
        (lambda: Playground(model(), ABC, 3), TypeError, "prompt must be a string, got int"),
        (lambda: Playground(model(), ABC, title=None), TypeError, "title must be a string"),
    ],
)
def test_bad_input(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_a_model_that_is_far_too_large():
    with torch.device("meta"):
        huge = LanguageModel(TransformerConfig(7, 512, 8, 4))
    assert count_parameters(huge) > LARGEST
    with pytest.raises(ValueError, match="at most 10,000,000 .* Train a smaller one .*generate"):
        Playground(huge, ABC)


# ---------------------------------------------------------------- weights beside the page


def test_a_small_model_is_all_in_the_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    view = Playground(model(), ABC)
    html = view._repr_mimebundle_()[0]["text/html"]
    assert "<a " not in html
    assert not list(tmp_path.iterdir())


def test_a_large_model_lies_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(Playground, "limit", 1000)
    monkeypatch.chdir(tmp_path)
    view = Playground(model(), ABC)
    assert len(view.html()) < len(view.data) * 4 + 100_000
    assert not list(tmp_path.iterdir())  # only showing it writes
    data = view._repr_mimebundle_()[0]
    [file] = tmp_path.iterdir()
    assert re.fullmatch(r"playground-[0-9a-f]{8}\.bin", file.name)
    assert f'<a href="{file.name}" download>' in data["text/html"]
    assert '"data": ""' in data["text/html"]
    assert zlib.decompress(file.read_bytes()) == view.data
    assert Playground(model(), ABC).state["file"] == file.name
    file.write_bytes(b"cut off")
    view._repr_mimebundle_()
    assert zlib.decompress(file.read_bytes()) == view.data
    (tmp_path / "page").mkdir()
    view.save(tmp_path / "other.png")
    view.save(tmp_path / "page" / "live.html")
    assert {path.name for path in (tmp_path / "page").iterdir()} == {"live.html", file.name}
    assert view.widget().data == view.data  # by the kernel it needs no file
