"""What a view leaves in a notebook: live HTML, a picture, words; and what it refuses."""

import json
import re

import numpy as np
import pytest
import torch

from tfcourse.models import LanguageModel, TransformerConfig
from tfcourse.widgets import (
    Activations,
    AttentionMap,
    AttentionSteps,
    BlockShapes,
    LogitLens,
    NextToken,
    NormGeometry,
    Playground,
    Question,
    RotaryClock,
    SinusoidalEncoding,
    SizeBudget,
    SoftmaxScale,
)
from tfcourse.widgets.view import LIMIT, View, halves, module_source, three_digits

TOKENS = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "日本", "\n", ""]


@pytest.fixture
def weights():
    torch.manual_seed(0)
    return torch.rand(3, 5, 5).softmax(-1)


def views(weights):
    q = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    return [
        AttentionMap(weights, TOKENS, title="A <b>map</b>?"),
        AttentionSteps(q, q, q, TOKENS, title="A <b>step</b>?"),
        SoftmaxScale(),
        SinusoidalEncoding(),
        RotaryClock(),
        NormGeometry(),
        Activations(),
        BlockShapes(),
        SizeBudget(),
        LogitLens(torch.stack([q @ q.T, q @ q.T + 1]), TOKENS, TOKENS, title="A <b>lens</b>?"),
        NextToken(q.T, TOKENS, TOKENS[:4], title="A <b>choice</b>?"),
        playground(),
        Question("q", "A <b>question</b>?", [(TOKENS[0], True, TOKENS[1]), ("b", False, "c")]),
    ]


def playground():
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(4, 8, 2, 1))
    return Playground(model, TOKENS[:4], TOKENS[0], title="A <b>model</b>?")


def bundle(view):
    return view._repr_mimebundle_()[0]


def test_the_bundle_is_the_same_every_time(weights):
    for first, second in zip(views(weights), views(weights), strict=True):
        assert bundle(first) == bundle(second)
        assert repr(first) == repr(second)
        assert "0x" not in repr(first)


def test_html_png_and_words(weights):
    for view in views(weights):
        data = bundle(view)
        wanted = {"text/html", "text/plain"} | (
            {"image/png"} if view.module != "question" else set()
        )
        assert set(data) == wanted
        assert len(view.alt) > 20 or view.module == "question"


def test_hostile_strings_stay_text(weights):
    for view in views(weights):
        html = view.html()
        assert html.count("<script>") == html.count("</script>") == 1
        body, script = html.split("<script>")
        assert "onerror=alert" not in body.replace("&lt;img src=x onerror=alert(1)&gt;", "")
        assert "<b>map" not in body
        assert "<" not in re.sub(
            r"<(?![a-z/!])", "", script.split("const values = ")[1].split("\n")[0]
        )


def test_nothing_is_fetched(weights):
    for view in views(weights):
        source = module_source(view.module)
        if view.module == "playground":  # a large model's weights lie beside the page
            source = source.replace("await fetch(link.href)", "", 1)
        assert not re.search(r"https?://|\bfetch\(|import\s+[\w{*]|XMLHttp", source)
        assert "http" not in view.html().replace(
            view.picture.image() if view.module != "question" else "", ""
        )


def test_modules_never_use_html(weights):
    for view in views(weights):
        source = module_source(view.module)
        # the one use makes an empty <svg> to learn SVG's namespace from the parser
        assert source.count("innerHTML") == source.count('innerHTML = "<svg></svg>"') == 1
        assert "insertAdjacentHTML" not in source


def test_large_data_goes_by_widget():
    rng = np.random.default_rng(0)
    view = AttentionMap(rng.random((4, 256, 256)), [str(i) for i in range(256)])
    data = bundle(view)
    assert len(view._deflated) > LIMIT
    assert "text/html" not in data
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert "image/png" in data


def test_the_widget_is_the_same_module(weights):
    for view in views(weights):
        widget = view.widget()
        assert widget._esm == module_source(view.module)
        assert widget.state == view.state
        assert repr(widget) == view.text
        assert view.widget() is widget


def test_state_is_plain_json(weights):
    for view in views(weights):
        assert json.loads(json.dumps(view.state)) == view.state


def test_save(weights, tmp_path):
    view = views(weights)[0]
    view.save(tmp_path / "map.png")
    view.save(tmp_path / "map.html")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "map.html").read_text()
    assert "<title>A &lt;b&gt;map&lt;/b&gt;?</title>" in page
    with pytest.raises(ValueError, match=r"path must end in .png or .html, got 'map.svg'"):
        view.save("map.svg")


@pytest.mark.parametrize("size", [1e-6, 1.0, 300.0])
def test_half_floats_read_the_same_to_three_digits(size):
    numbers = np.random.default_rng(1).random(20_000) * size
    half, scale = halves(numbers)
    assert np.allclose(three_digits(half * np.float64(scale)), three_digits(numbers), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda w: AttentionMap(w, TOKENS[:4]), ValueError, r"\(queries, keys\)=\(4, 4\)"),
        (lambda w: AttentionMap(w, "abcde"), TypeError, "tokens must be a sequence of strings"),
        (lambda w: AttentionMap(w, [1, 2, 3, 4, 5]), TypeError, r"tokens\[0\] must be a string"),
        (lambda w: AttentionMap(w, []), ValueError, "tokens must hold at least one"),
        (lambda w: AttentionMap(w / 0, TOKENS), ValueError, "weights must hold finite numbers"),
        (lambda w: AttentionMap("w", TOKENS), TypeError, "weights must hold real numbers"),
        (lambda w: AttentionMap([[1], [2, 3]], TOKENS), ValueError, "weights must be a regular"),
        (lambda w: AttentionMap(w, TOKENS, mask=w), TypeError, "mask must be boolean"),
        (
            lambda w: AttentionMap(w, TOKENS, mask=w[:, :, :3] > 0),
            ValueError,
            "mask must broadcast",
        ),
        (
            lambda w: AttentionMap(w, TOKENS, compare=w[0]),
            ValueError,
            "compare must have the shape",
        ),
        (lambda w: AttentionMap(w, TOKENS, names=["a"]), ValueError, "names must be one a head, 3"),
        (lambda w: AttentionMap(w, TOKENS, w_o=w), ValueError, "w_o needs values"),
        (lambda w: AttentionMap(w, TOKENS, values=w[:2]), ValueError, "values must be"),
        (lambda w: AttentionMap(w, TOKENS, values=w, w_o=w[0]), ValueError, r"w_o must be \(d_out"),
        (lambda w: AttentionMap(w, TOKENS, title=3), TypeError, "title must be a string"),
        (lambda w: View({}, title="t", alt=None), TypeError, "alt must be a string"),
    ],
)
def test_bad_input(weights, call, error, said):
    with pytest.raises(error, match=said):
        call(weights)


def test_statistics():
    """On heads whose statistics are known by construction."""
    previous = torch.eye(6).roll(-1, 1).tril(-1).clone()
    previous[0, 0] = 1
    previous[1:] = torch.eye(6)[:-1]
    first = torch.zeros(6, 6)
    first[:, 0] = 1
    even = torch.full((6, 6), 1 / 6)
    view = AttentionMap(torch.stack([previous, first, even, torch.eye(6)]), list("abcdef"))
    found = {name: values[0] for name, values in view.state["statistics"].items()}
    assert found["previous token"] == [1, pytest.approx(0.2), pytest.approx(1 / 6, abs=1e-4), 0]
    assert found["first token"][1] == 1
    assert found["itself"][3] == 1
    assert found["entropy"] == [0, 0, pytest.approx(np.log(6), abs=1e-4), 0]
    assert found["distance"][3] == 0
    assert found["distance"][1] == pytest.approx(2.5)
