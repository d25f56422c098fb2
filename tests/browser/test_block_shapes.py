"""BlockShapes: its numbers against a real block, and in Chromium against `block_steps`."""

import re

import pytest
import torch
from playwright.sync_api import expect
from torch.utils.flop_counter import FlopCounterMode

import tfcourse.attention
from tests.browser.pages import settled
from tfcourse.blocks import Block
from tfcourse.widgets import BlockShapes
from tfcourse.widgets.block_shapes import amount, block_steps, nearest_divisor

GPT_2 = {"d_model": 768, "n_heads": 12, "d_ff": 3072, "gated": False, "bias": True}
PRESETS = {
    "Llama-7B (the lesson's)": {},
    "GPT-2 small": GPT_2,
    "GPT-3": {"d_model": 12288, "n_heads": 96, "d_ff": 49152, "gated": False, "bias": True},
    "Llama-3 8B": {"n_kv_heads": 8, "d_ff": 14336},
    "Phi-3-mini": {"d_model": 3072, "d_ff": 8192},
    "SmolLM2-135M": {"d_model": 576, "n_heads": 9, "n_kv_heads": 3, "d_ff": 1536},
}
SMALL = [
    {"d_model": 12, "n_heads": 3, "d_ff": 20, "gated": True, "bias": False},
    {"d_model": 12, "n_heads": 4, "n_kv_heads": 2, "d_ff": 20, "gated": True, "bias": True},
    {"d_model": 16, "n_heads": 4, "n_kv_heads": 1, "d_ff": 64, "gated": False, "bias": False},
    {"d_model": 16, "n_heads": 8, "d_ff": 7, "gated": False, "bias": True},
]


def real_block(gated, bias, **sizes):
    return Block(
        sizes["d_model"],
        sizes["n_heads"],
        sizes.get("n_kv_heads"),
        sizes["d_ff"],
        norm="layer" if bias else "rms",
        activation="silu" if gated else "gelu",
        gated=gated,
        bias=bias,
    )


# ---------------------------------------------------------------- block_steps against tfcourse


@pytest.mark.parametrize("config", SMALL + list(PRESETS.values()))
def test_parameters(config):
    config = {"d_model": 4096, "n_heads": 32, "d_ff": 11008, "gated": True, "bias": False} | config
    steps = block_steps(**config)
    with torch.device("meta"):
        block = real_block(**config)
    assert sum(step.parameters for step in steps) == sum(p.numel() for p in block.parameters())
    parts = {"attention": ("attention.", "attention_norm."), "feed-forward": ("feed_forward",)}
    for part, names in parts.items():
        real = sum(p.numel() for n, p in block.named_parameters() if n.startswith(names))
        assert sum(step.parameters for step in steps if step.part == part) == real, part


def tensors_of(block, x, monkeypatch):
    """What the explicit path makes, step by step, from the real block."""
    made = {"x": x}
    module = tfcourse.attention

    def watch(name, label):
        function = getattr(module, name)

        def watched(*args, **kwargs):
            out = function(*args, **kwargs)
            made.setdefault(label, out)  # split_heads: q comes first
            return out

        monkeypatch.setattr(module, name, watched)

    watch("attention_scores", "scores")
    watch("attention_weights", "softmax")
    watch("split_heads", "split heads")
    watch("merge_heads", "merge heads")

    def explicit(*args):
        heads, weights = module._explicit(*args)
        made["weights · v"] = heads
        return heads, weights

    monkeypatch.setattr(module, "_fused", explicit)
    labels = {
        "attention_norm": "norm", "attention.qkv": "q, k, v", "attention.out": "out",
        "feed_forward_norm": "norm 2", "feed_forward.gate": "gate", "feed_forward.up": "up",
        "feed_forward.down": "down",
    }  # fmt: skip

    def hook(label):
        def keep(module, given, out):
            made[label] = out
            if label == "norm 2":
                made["x + attention"] = given[0]
            if label == "down":
                made["activation"] = given[0]

        return keep

    for name, layer in block.named_modules():
        if name in labels:
            layer.register_forward_hook(hook(labels[name]))
    with FlopCounterMode(display=False) as counter:
        made["x + feed-forward"] = block(x)
    return made, counter.get_total_flops()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("config", SMALL)
def test_shapes_bytes_and_flops(config, dtype, monkeypatch):
    block = real_block(**config).to(dtype)
    x = torch.randn(2, 5, config["d_model"]).to(dtype)
    made, flops = tensors_of(block, x, monkeypatch)
    steps = block_steps(2, 5, **config, bytes_per_number=dtype.itemsize)
    names, seen = [], set()
    for step in steps:
        name = "norm 2" if step.name in seen else step.name
        name = "activation" if "(" in name else name
        names.append(name)
        seen.add(step.name)
        real = made[name]
        assert step.shape == tuple(real.shape), name
        assert len(step.axes) == len(step.shape)
        storage = real.untyped_storage()
        new = all(storage.data_ptr() != made[n].untyped_storage().data_ptr() for n in names[:-1])
        assert step.bytes == (real.nbytes if new else 0), name
    assert set(names) == set(made)
    assert sum(step.flops for step in steps) == flops


def test_what_the_lesson_says():
    steps = {step.name: step for step in block_steps()}
    assert amount(steps["scores"].bytes) + "B" == "8.59 GB"
    assert steps["scores"].bytes == 16 * steps["x"].bytes
    assert steps["scores"].shape == (32, 32, 2048, 2048)
    assert steps["out"].parameters == 4096**2


def test_amount():
    wanted = {0: "0 ", 999: "999 ", 1000: "1.00 k", 999_499: "999 k", 999_600: "1.00 M"}
    wanted |= {12_345: "12.3 k", 8_589_934_592: "8.59 G", 10**19: "10.0 E"}
    assert {number: amount(number) for number in wanted} == wanted


# ---------------------------------------------------------------- in Chromium


def rows(page):
    settled(page)
    return page.locator("[role=option]").evaluate_all(
        "nodes => nodes.map(({ dataset: d }) => [d.axes.split(','), d.shape.split(',').map(Number),"
        " Number(d.parameters), Number(d.flops), Number(d.bytes)])"
    )


def expected(**config):
    return [
        [list(step.axes), list(step.shape), step.parameters, step.flops, step.bytes]
        for step in block_steps(**config)
    ]


def fill(page, **sizes):
    for name, size in sizes.items():
        page.get_by_label(name, exact=True).fill(str(size))


@pytest.mark.parametrize("host", ["html", "module"])
def test_presets(show, host):
    page = show(BlockShapes(batch=3, tokens=100), host=host)
    assert rows(page) == expected(batch=3, tokens=100)
    for name, config in PRESETS.items():
        page.get_by_label("block", exact=True).select_option(name)
        fill(page, batch=3, tokens=100)
        assert rows(page) == expected(batch=3, tokens=100, **config), name


def test_the_lessons_preset_sets_batch_and_tokens(show):
    page = show(BlockShapes(2, 16, **GPT_2, bytes_per_number=4))
    assert page.get_by_label("block", exact=True).input_value() == "1"
    assert rows(page) == expected(batch=2, tokens=16, **GPT_2, bytes_per_number=4)
    page.get_by_label("block", exact=True).select_option("Llama-7B (the lesson's)")
    assert rows(page) == expected(bytes_per_number=4)
    page.get_by_label("bytes per number").select_option("2")
    assert rows(page) == expected()


@pytest.mark.parametrize("config", SMALL)
def test_own_numbers(show, config):
    page = show(BlockShapes(2, 5, **config, bytes_per_number=4))
    assert page.get_by_label("block", exact=True).input_value() == "own"
    assert rows(page) == expected(batch=2, tokens=5, **config, bytes_per_number=4)
    names = [step.name for step in block_steps(**config)]
    code = [step.code for step in block_steps(**config)]
    for i, (name, line) in enumerate(zip(names, code, strict=True)):
        assert page.locator(".card b").inner_text() == name
        assert page.locator(".card code").inner_text() == line
        assert page.locator(".card .faint").first.inner_text() == f"step {i} of {len(names) - 1}"
        page.get_by_role("button", name="Next").click(force=True)  # at the end: nothing happens
    page.get_by_role("button", name="bias").click()
    page.get_by_role("button", name="gated").click()
    config = config | {"bias": not config["bias"], "gated": not config["gated"]}
    assert rows(page) == expected(batch=2, tokens=5, **config, bytes_per_number=4)


def test_sliders_and_shared_heads(show):
    page = show(BlockShapes())
    page.get_by_label("tokens, powers of two").fill("4")
    page.get_by_label("d_ff, powers of two").fill("10")
    assert rows(page) == expected(tokens=16, d_ff=1024)
    fill(page, n_heads=16)  # as many heads of k and v go with it
    assert rows(page) == expected(tokens=16, d_ff=1024, n_heads=16)
    fill(page, n_kv_heads=2)
    fill(page, n_heads=64)  # and now no longer
    assert rows(page) == expected(tokens=16, d_ff=1024, n_heads=64, n_kv_heads=2)


def test_what_is_shown_of_a_step(show):
    page = show(BlockShapes())
    page.locator("[role=option]").nth(2).click()
    facts = page.locator("dl dd").all_inner_texts()
    assert facts[0::2] == ["50.3 M", "6.60 T", "1.61 GB"]
    assert facts[1] == "d_model · (d_model + 2 n_kv)"
    assert page.locator(".axis.new").all_inner_texts() == ["12288\nq + k + v"]
    page.locator("[role=option]").nth(4).click()
    assert page.locator("dl dd").all_inner_texts()[0::2] == ["none", "1.10 T", "8.59 GB"]
    assert "the explicit path" in page.locator(".card p").inner_text()
    page.locator("[role=option]").nth(3).click()
    assert page.locator("dl dd").nth(4).inner_text() == "none"
    assert page.locator(".tensors > span").all_inner_texts() == ["qkv", "q", "k", "v"]


@pytest.mark.parametrize("config", [{}, GPT_2, SMALL[1]])
def test_totals(show, config):
    page = show(BlockShapes(**config))
    steps = block_steps(**config)
    for what in ("parameters", "flops", "bytes"):
        total = sum(getattr(step, what) for step in steps)
        shown = page.locator(f".total.{what}")
        unit = "B" if what == "bytes" else ""
        assert shown.locator("b").inner_text() == (amount(total) + unit).strip()
        if what == "bytes":
            rest = total - sum(step.bytes for step in steps if step.name in ("scores", "softmax"))
            assert shown.inner_text().endswith(
                f"{amount(rest)}B without the scores and the softmax"
            )
        else:
            part = sum(getattr(step, what) for step in steps if step.part == "attention")
            assert f"attention {100 * part / total:.0f}%" in shown.inner_text()


def test_keyboard_and_words(show):
    page = show(BlockShapes())
    page.locator("[role=option]").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    said = "Step 4 of 15, scores: scores 32 × 32 × 2048 × 2048; batch, n_heads, tokens, tokens; no parameters, 1.10 T FLOPs, 8.59 GB"
    expect(page.locator(".spoken")).to_have_text(said)
    assert page.locator("[role=option][aria-selected=true]").get_attribute("aria-label") == (
        "scores: 32 × 32 × 2048 × 2048, 8.59 GB"
    )
    page.keyboard.press("End")
    expect(page.locator(".spoken")).to_have_text(re.compile("^Step 15 of 15, x \\+ feed-forward"))
    focused = "document.querySelector('figure div').shadowRoot.activeElement.ariaSelected"
    assert page.evaluate(focused) == "true"
    page.keyboard.press("Tab")  # one stop for the whole column, then Previous
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".spoken")).to_have_text(re.compile("^Step 13 of 15"))
    page.keyboard.press("Home")
    page.keyboard.press("Enter")  # Previous at the beginning: nothing happens
    expect(page.locator(".spoken")).to_have_text(re.compile("^Step 0 of 15, x: "))
    # arrows in a number belong to the number
    page.get_by_label("batch", exact=True).focus()
    page.keyboard.press("ArrowUp")
    assert rows(page) == expected(batch=33)
    expect(page.locator(".spoken")).to_have_text(re.compile("^Step 0 of 15, x: x 33 × "))


def test_the_step_stays_when_the_gate_goes(show):
    page = show(BlockShapes())
    page.locator("[role=option]").nth(14).click()  # down
    page.get_by_role("button", name="gated").click()
    assert page.locator(".card b").inner_text() == "down"
    page.locator("[role=option]").nth(12).click()  # gelu(u), which a gated block has not
    page.get_by_role("button", name="gated").click()
    assert rows(page) == expected()


def test_your_own(show):
    page = show(BlockShapes())
    page.get_by_label("block", exact=True).select_option("own")
    assert page.get_by_label("block", exact=True).input_value() == "own"
    assert rows(page) == expected()


WRONG = [
    ({"d_model": 770}, "d_model = 770 cannot be cut into n_heads = 32 equal heads.",
     ["take d_model = 768", "or n_heads = 35, n_kv_heads = 35"],
     [{"d_model": 768}, {"d_model": 770, "n_heads": 35}]),
    ({"n_kv_heads": 5}, "n_heads = 32 heads of q cannot share n_kv_heads = 5 heads of k and v evenly.",
     ["take n_kv_heads = 4"], [{"n_kv_heads": 4}]),
    ({"d_ff": 0}, "d_ff must be a whole number from 1 to 1048576.", ["take d_ff = 1"], [{"d_ff": 1}]),
    ({"tokens": ""}, "tokens must be a whole number from 1 to 1048576.", ["take tokens = 2048"], [{}]),
    ({"batch": 2.5}, "batch must be a whole number from 1 to 65536.", ["take batch = 3"], [{"batch": 3}]),
    ({"batch": -4}, "batch must be a whole number from 1 to 65536.", ["take batch = 1"], [{"batch": 1}]),
    ({"n_heads": 8, "n_kv_heads": 64}, "n_heads = 8 heads of q cannot share n_kv_heads = 64",
     ["take n_kv_heads = 8"], [{"n_heads": 8}]),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "said", "offers", "mended"), WRONG)
def test_a_config_that_cannot_work(show, sizes, said, offers, mended):
    for i, config in enumerate(mended):
        page = show(BlockShapes())
        fill(page, **sizes)
        wrong = page.locator(".wrong")
        assert said in wrong.inner_text()
        assert wrong.get_by_role("button").all_inner_texts() == offers
        expect(page.locator(".spoken")).to_have_text(re.compile("^" + re.escape(said)))
        assert rows(page) == expected(**mended[0])  # shown is the nearest that works
        name = list(sizes)[-1]
        assert page.get_by_label(name, exact=True).get_attribute("aria-invalid") == "true"
        wrong.get_by_role("button").nth(i).click()
        assert rows(page) == expected(**config)
        assert not wrong.is_visible()


def test_no_config_breaks(show):
    """Whatever is typed, there are numbers, and none of them is NaN."""
    page = show(BlockShapes())
    generator = torch.Generator().manual_seed(0)
    names = ("batch", "tokens", "d_model", "n_heads", "n_kv_heads", "d_ff")
    for draw in torch.randint(-1, 70_000, (40,), generator=generator).tolist():
        fill(page, **{names[draw % 6]: draw if draw % 5 else ""})
        for axes, shape, *counts in rows(page):
            assert len(axes) == len(shape)
            assert all(isinstance(n, int) and n >= 0 for n in shape + counts)
        assert "NaN" not in page.locator(".view").inner_text()


@pytest.mark.parametrize("width", [420, 760])
def test_dark_and_narrow(show, width):
    page = show(BlockShapes(65536, 1048576, 65536, 1024, 1, 1048576), dark=True, width=width)
    for i in range(16):
        page.locator("[role=option]").nth(i).click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), i
        boxes = page.locator(".axis, .size, button, select").evaluate_all(
            "nodes => nodes.map((n) => n.getBoundingClientRect().right)"
        )
        assert max(boxes) <= width - 16
    fill(page, n_heads=1000)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# ---------------------------------------------------------------- Python


@pytest.mark.parametrize("config", PRESETS.values())
def test_the_output(config):
    view = BlockShapes(**config)
    assert len(view.html()) <= 200_000
    assert BlockShapes(**config).picture.png() == view.picture.png()
    assert "nan" not in view.text


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"batch": 2.0}, TypeError, "batch must be an int, got 2.0"),
        ({"tokens": True}, TypeError, "tokens must be an int, got True"),
        ({"d_ff": 0}, ValueError, "d_ff must be between 1 and 1048576, got 0"),
        ({"d_model": 770}, ValueError, "n_heads must divide d_model=770, got 32; the nearest that does is 35"),
        ({"n_kv_heads": 5}, ValueError, "n_kv_heads must divide n_heads=32, got 5; the nearest that does is 4"),
        ({"n_kv_heads": "8"}, TypeError, "n_kv_heads must be an int, got '8'"),
        ({"gated": 1}, TypeError, "gated must be a bool, got 1"),
        ({"bias": None}, TypeError, "bias must be a bool, got None"),
        ({"bytes_per_number": 3}, ValueError, "bytes_per_number must be 2 or 4, got 3"),
        ({"bytes_per_number": 2.0}, TypeError, "bytes_per_number must be an int, got 2.0"),
    ],
)  # fmt: skip
def test_bad_input(given, error, said):
    for call in (BlockShapes, block_steps):
        with pytest.raises(error, match=re.escape(said)):
            call(**given)


def test_nearest_divisor():
    for whole in range(1, 60):
        divisors = [d for d in range(1, whole + 1) if whole % d == 0]
        for number in range(1, 70):
            assert nearest_divisor(number, whole) == min(divisors, key=lambda d: abs(d - number))


@pytest.mark.parametrize("width", [420, 760, 1100])
def test_the_drawing_fills_its_column_and_letters_keep_their_size(show, width):
    page = show(BlockShapes(), width=width)
    settled(page)
    column, drawing = (page.locator(name).bounding_box() for name in (".way", ".way svg"))
    assert drawing["width"] == pytest.approx(column["width"], abs=2)
    units = float(page.locator(".way svg").get_attribute("viewBox").split()[2])
    assert drawing["width"] == pytest.approx(units, abs=2)  # so 12 px are 12 px
    ends = page.evaluate(
        """() => [...document.querySelector('.tfcourse-view div').shadowRoot.querySelectorAll('.way text')]
          .map((text) => [parseFloat(getComputedStyle(text).fontSize), text.getBoundingClientRect().right])"""
    )
    assert min(size for size, _ in ends) >= 12
    assert max(end for _, end in ends) <= column["x"] + column["width"] + 1
