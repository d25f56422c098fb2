"""SizeBudget in Chromium: its numbers against `tfcourse.sizing`, to the last digit."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.browser.pages import settled
from tfcourse import sizing
from tfcourse.models import PRESETS, TransformerConfig
from tfcourse.widgets import SizeBudget
from tfcourse.widgets.size_budget import BYTES, COUNT, GB, HELD, amount, memory_of, percent, whole

PARTS = ("embedding", "attention", "feed_forward", "norms", "head")
WRITE = {"what_for": "write", "tokens": 512, "batch": 1, "precision": "bfloat16", "devices": 1}
LEARN = WRITE | {"what_for": "learn"}
USES = [
    WRITE,
    WRITE | {"precision": "int4", "tokens": 77, "batch": 3, "devices": 7},
    WRITE | {"precision": "float32", "tokens": 1},
    LEARN | {"precision": "float32", "tokens": 100, "batch": 5},
    LEARN | {"devices": 16, "checkpointing": True},
]
SMALL = [
    TransformerConfig(50, 24, 4, 3, positions="alibi", n_kv_heads=2, gated=True, tied=True),
    TransformerConfig(
        50, 24, 4, 2, norm_first=False, embedding_norm=True, segments=2, dropout=0.1,
        positions="learned", max_tokens=600, activation="relu",
    ),
    TransformerConfig(50, 24, 6, 1, norm="rms", d_ff=7, bias=False),
]  # fmt: skip


def shown(page):
    """Every number of the view, as integers."""
    settled(page)
    root = page.locator(".view")
    rows = page.locator(".part:not([hidden])").evaluate_all(
        "rows => rows.map(({ dataset: d }) => [d.part, Number(d.size)])"
    )
    few = root.get_attribute("data-fewest")
    return {
        **dict(rows),
        **{name: int(root.get_attribute(f"data-{name}")) for name in ("forward", "training")},
        "fewest": None if few == "none" else int(few),
    }


def expected(config, room=80, **use):
    """The same from `sizing`."""
    tokens, batch = use["tokens"], use["batch"]
    memory = memory_of(config, **use)
    held, count = memory(use["devices"]), sizing.parameters(config)
    return {
        **{part: getattr(count, part) for part in PARTS},
        **{part: getattr(held, part) for part in HELD[use["what_for"]]},
        "forward": sizing.forward_operations(config, tokens).total,
        "training": sizing.training_operations(config, batch * tokens, tokens),
        "fewest": sizing.fewest_devices(memory, room * GB),
    }


def pick(page, label, value):
    page.get_by_label(label, exact=True).select_option(value)


def fill(page, **sizes):
    for name, size in sizes.items():
        page.get_by_label(name, exact=True).fill(str(size))


def set_use(page, what_for, precision, checkpointing=False, **sizes):
    pick(page, "what for", what_for)
    pick(page, "weights in", precision)
    fill(page, **sizes)
    toggle = page.get_by_role("button", name="checkpointing")
    if what_for == "learn" and (toggle.get_attribute("aria-pressed") == "true") != checkpointing:
        toggle.click()


# ---------------------------------------------------------------- in Chromium


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use['what_for']}-{use['precision']}")
def test_every_preset_has_the_numbers_of_sizing(show, use):
    page = show(SizeBudget(), host="module" if use is USES[0] else "html")
    for name in PRESETS:
        pick(page, "model", name)
        set_use(page, **use)
        assert page.get_by_label("model", exact=True).input_value() == name
        want = expected(whole(name), **use)
        assert shown(page) == want, name
        rows = page.locator(".part").evaluate_all(
            "rows => rows.map((r) => [r.dataset.part, [...r.children].slice(2).map((c) => c.textContent)])"
        )
        rows, units = dict(rows), dict.fromkeys(PARTS, COUNT)
        whole_sums = {
            kind: sum(want[part] for part in parts)
            for kind, parts in (("count", PARTS), ("held", HELD[use["what_for"]]))
        }
        for part in [*PARTS, *HELD[use["what_for"]]]:
            total = whole_sums["count" if part in PARTS else "held"]
            said = percent(want[part], total).replace("under ", "<")
            said = "tied" if part == "head" and not want[part] else said
            assert rows[part] == [amount(want[part], units.get(part, BYTES)), said]


@pytest.mark.parametrize("config", SMALL)
def test_a_config_of_ones_own(show, config):
    page = show(SizeBudget(config, learn=True, tokens=500, batch=3, devices=5, checkpointing=True))
    assert page.get_by_label("model", exact=True).input_value() == "own"
    use = LEARN | {"tokens": 500, "batch": 3, "devices": 5, "checkpointing": True}
    assert shown(page) == expected(whole(config), **use)
    page.get_by_role("button", name="tied head").click()
    page.get_by_role("button", name="gated MLP").click()
    other = replace(whole(config), tied=not config.tied, gated=not config.gated)
    fill(page, vocabulary=77, layers=4, d_ff=30)
    other = replace(other, vocabulary=77, layers=4, d_ff=30)
    for use in USES:
        set_use(page, **use)
        assert shown(page) == expected(other, **use)


def test_the_largest_numbers(show):
    """Where a float would have lost its last digits."""
    sizes = {"tokens": 1_048_576, "batch": 65_536}
    use = LEARN | sizes
    config = TransformerConfig(4_194_304, 65_536, 1_024, 1_024, d_ff=1_048_576, gated=True)
    page = show(SizeBudget(config, learn=True, **sizes))
    page.get_by_role("button", name="Show as table").click()
    settled(page)
    cells = page.locator(".data td").all_inner_texts()
    want = expected(whole(config), **use)
    assert f"{want['training']:,}" in cells
    assert f"{want['activations']:,}" in cells
    assert f"{sum(want[part] for part in PARTS):,}" in cells
    assert want["training"] > 2**60
    assert "undefined" not in page.locator(".view").inner_text()


def test_by_keyboard_alone(show):
    page = show(SizeBudget())
    config = whole("llama-7b")
    page.keyboard.press("Tab")  # the model
    page.keyboard.press("ArrowUp")  # bert … llama-7b: one up is gpt3
    assert shown(page) == expected(whole("gpt3"), **WRITE | {"tokens": 2048})
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # gated
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # tied
    config = replace(config, gated=False, tied=True)
    assert shown(page) == expected(config, **WRITE | {"tokens": 2048})
    page.get_by_label("layers", exact=True).focus()
    page.keyboard.press("ArrowUp")
    page.get_by_label("tokens, powers of two").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("what for", exact=True).focus()
    page.keyboard.press("l")
    assert shown(page) == expected(replace(config, layers=33), **LEARN | {"tokens": 4096})
    page.keyboard.press("Tab")
    page.keyboard.press("f")  # float32
    page.keyboard.press("Tab")
    page.keyboard.press("2")  # 24 GB
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    use = LEARN | {"tokens": 4096, "precision": "float32", "checkpointing": True}
    assert shown(page) == expected(replace(config, layers=33), room=24, **use)


def test_what_is_said(show):
    page = show(SizeBudget())
    spoken = page.locator(".spoken")
    expect(spoken).to_have_text(
        "llama-7b: 6.7 billion parameters. 14.6 GB on one device, to write 1 text of 2048 tokens in "
        "bfloat16: weights 13.5 GB, KV cache 1.1 GB. Fits. 13.8 billion operations a token forward."
    )
    pick(page, "what for", "learn")
    expect(spoken).to_have_text(
        re.compile("to learn from 1 text .* optimizer 80.9 GB, .* Does not fit: 2 devices would do")
    )
    fill(page, devices=2)
    expect(spoken).to_have_text(re.compile("on each of 2 devices, where each learns from 1 text"))
    fill(page, n_heads=7)
    expect(spoken).to_have_text(re.compile("^n_heads = 7 does not divide .*last settings that wor"))


def test_does_it_fit(show):
    page = show(SizeBudget("llama-3-8b", learn=True, tokens=4096, room=40))
    verdict = page.locator(".verdict")
    use = LEARN | {"tokens": 4096}
    config = whole("llama-3-8b")
    fewest = expected(config, room=40, **use)["fewest"]
    assert fewest > 2
    assert f"Does not fit: {fewest} devices would do." in verdict.inner_text()
    verdict.get_by_role("button").click()
    assert page.get_by_label("devices", exact=True).input_value() == str(fewest)
    assert verdict.inner_text().endswith("Fits.")
    fill(page, devices=fewest - 1)
    assert "Does not fit" in verdict.inner_text()
    pick(page, "device of", "141")
    fewer = expected(config, room=141, **use)["fewest"]
    assert fewer < fewest
    fill(page, devices=fewest)
    assert f"Fits; {fewer} device" in verdict.inner_text()
    # the line stands where the device ends
    page.wait_for_timeout(300)  # it moves there
    line, track = (page.locator(name).bounding_box() for name in (".limit", ".track"))
    assert line["x"] == pytest.approx(track["x"] + track["width"], abs=3)
    fill(page, batch=64)
    assert "Does not fit on any number of devices: activations" in verdict.inner_text()
    needs = sum(memory_of(config, **use | {"batch": 64})(fewest).__dict__.values())
    page.wait_for_timeout(300)
    line, track = (page.locator(name).bounding_box() for name in (".limit", ".track"))
    wanted = track["x"] + track["width"] * 141 * GB / needs
    assert line["x"] == pytest.approx(wanted, abs=3)


WRONG = [
    ({"n_heads": 7}, "n_heads = 7 does not divide d_model = 4096", "n_heads = 8", {"n_heads": 8}),
    ({"n_kv_heads": 5}, "n_kv_heads = 5 does not divide n_heads = 32", "n_kv_heads = 4", {"n_kv_heads": 4}),
    ({"layers": 0}, "layers must be a whole number from 1 to 1024.", "layers = 1", {"layers": 1}),
    ({"d_ff": ""}, "d_ff must be a whole number from 1 to 1048576.", "d_ff = 11008", {}),
    ({"tokens": 2.5}, "tokens must be a whole number from 1 to 1048576.", "tokens = 3", {"tokens": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "said", "offer", "changed"), WRONG)
def test_wrong_settings_leave_the_last_right_numbers(show, sizes, said, offer, changed):
    page = show(SizeBudget())
    before = shown(page)
    fill(page, **sizes)
    wrong = page.locator(".wrong")
    assert said in wrong.inner_text()
    assert "the last settings that worked" in wrong.inner_text()
    assert shown(page) == before
    field = page.get_by_label(next(iter(sizes)), exact=True)
    assert field.get_attribute("aria-invalid") == "true"
    wrong.get_by_role("button", name=f"take {offer}").click()
    assert not wrong.is_visible()
    assert field.get_attribute("aria-invalid") == "false"
    use = WRITE | {"tokens": 2048} | {k: v for k, v in changed.items() if k == "tokens"}
    config = {k: v for k, v in changed.items() if k != "tokens"}
    if "n_heads" in config:  # as many heads of k and v go with it
        config["n_kv_heads"] = config["n_heads"]
    assert shown(page) == expected(replace(whole("llama-7b"), **config), **use)


def test_what_a_model_cannot_be(show):
    page = show(SizeBudget("gpt2"))
    assert page.get_by_label("tokens", exact=True).input_value() == "1024"
    fill(page, tokens=1025)
    assert "has learned 1024 positions" in page.locator(".wrong").inner_text()
    pick(page, "model", "bert-base")  # the text is cut to what the model can take
    assert page.get_by_label("tokens", exact=True).input_value() == "512"
    assert not page.locator(".wrong").is_visible()
    pick(page, "model", "llama-7b")
    fill(page, d_model=96)
    assert "3 numbers: rotary positions turn pairs" in page.locator(".wrong").inner_text()
    pick(page, "model", "llama-7b")
    assert not page.locator(".wrong").is_visible()


def test_sliders_and_shared_heads(show):
    page = show(SizeBudget())
    page.get_by_label("layers, powers of two").fill("4")
    fill(page, n_heads=16)  # as many heads of k and v go with it
    config = replace(whole("llama-7b"), layers=16, n_heads=16, n_kv_heads=16)
    assert shown(page) == expected(config, **WRITE | {"tokens": 2048})
    fill(page, n_kv_heads=2)
    fill(page, n_heads=64)  # and now no longer
    config = replace(config, n_heads=64, n_kv_heads=2)
    assert shown(page) == expected(config, **WRITE | {"tokens": 2048})


def test_learning_knows_no_int4(show):
    page = show(SizeBudget(precision="int4"))
    pick(page, "what for", "learn")
    select = page.get_by_label("weights in", exact=True)
    assert select.input_value() == "bfloat16"
    assert select.locator("option").all_inner_texts() == ["float32", "bfloat16"]
    assert page.get_by_role("button", name="checkpointing").is_visible()
    pick(page, "what for", "write")
    assert not page.get_by_role("button", name="checkpointing").is_visible()


def test_the_table_has_every_digit(show):
    page = show(SizeBudget("smollm2-135m", tokens=100))
    page.get_by_role("button", name="Show as table").click()
    settled(page)
    cells = page.locator(".data tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    read = {name: int(number.replace(",", "")) for name, number, *_ in cells}
    want = expected(whole("smollm2-135m"), **WRITE | {"tokens": 100})
    for part in (*PARTS, "weights"):
        assert read["MLP" if part == "feed_forward" else part] == want[part]
    assert read["KV cache"] == want["cache"]
    assert read["forward, a token"] == want["forward"] // 100
    assert read["reading 1 text of 100 tokens"] == want["forward"]


@pytest.mark.parametrize("width", [420, 760])
@pytest.mark.parametrize("dark", [False, True])
def test_themes_and_narrow(show, dark, width):
    page = show(SizeBudget("gpt3", learn=True, room=24), dark=dark, width=width)
    for name in ("llama-7b", "transformer-big", "smollm2-135m"):
        for use in USES[1::2]:
            pick(page, "model", name)
            set_use(page, **use)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            ends = page.locator(".part b, .part .share, button:visible, select, .limit-name")
            right = ends.evaluate_all("all => all.map((n) => n.getBoundingClientRect().right)")
            assert max(right) <= width - 16
    ground = page.locator(".view").evaluate("node => getComputedStyle(node).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == dark
    # every bar can be told from its ground
    fills = page.locator(".part:not([hidden]) i").evaluate_all(
        "all => all.map((n) => [getComputedStyle(n).backgroundColor, getComputedStyle(n.parentNode).backgroundColor])"
    )
    for colour, behind in fills:
        assert contrast(colour, behind) >= 3, (colour, behind)


def contrast(*colours):
    """By WCAG."""

    def light(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(light, colours))
    return (high + 0.05) / (low + 0.05)


def test_strings_are_text(show):
    evil = "<img src=x onerror=document.title='pwned'>"
    config = TransformerConfig(50, 24, 4, 1, positions="learned", max_tokens=8, rotary_layout=evil)
    page = show(SizeBudget(config))
    settled(page)
    assert page.title() != "pwned"
    assert page.locator(".view img").count() == 0


# ---------------------------------------------------------------- Python


def test_in_words():
    view = SizeBudget()
    assert view.title == "How large is a model, and where does it fit?"
    for said in ("llama-7b has 6.7 billion parameters", "MLP 4.3 billion (64%)", "14.6 GB",
                 "weights 13.5 GB (93%)", "fits on a device of 80 GB", "GB are 10⁹ bytes"):  # fmt: skip
        assert said in view.alt, said
    small = SizeBudget("gpt3", learn=True, room=24, devices=8)
    assert "each of 8 devices" in small.alt
    assert "does not fit on a device of 24 GB; no number of devices would do" in small.alt
    assert "head" not in small.alt  # tied


def test_the_output():
    for given in ({}, {"preset": "gpt3", "learn": True, "room": 24, "devices": 64}):
        view = SizeBudget(**given)
        assert len(view.html()) <= 200_000
        assert SizeBudget(**given).picture.png() == view.picture.png()
        assert SizeBudget(**given).text == view.text


def test_amount():
    counts = {0: "0", 999: "999", 1000: "1.0 thousand", 99_949: "99.9 thousand", 99_950: "100 thousand",
              999_600: "1.0 million", 6_738_415_616: "6.7 billion", 174_591_684_608: "175 billion",
              10**15: "1.0 × 10¹⁵", 999_700_000_000_000: "1.0 × 10¹⁵", 2_250_000_000_000_000: "2.3 × 10¹⁵"}  # fmt: skip
    assert {number: amount(number, COUNT) for number in counts} == counts
    sizes = {999: "999 B", 524_288: "524 kB", 13_476_831_232: "13.5 GB", 1234 * 10**18: "1234 EB"}
    assert {number: amount(number, BYTES) for number in sizes} == sizes


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"preset": "llama-9b"}, ValueError, "preset must be one of transformer-base"),
        ({"preset": 7}, TypeError, "preset must be a preset's name or a TransformerConfig, got int"),
        ({"preset": TransformerConfig(9, 10, 3, 1)}, ValueError, "n_heads must divide d_model=10"),
        ({"preset": TransformerConfig(9, 9, 3, 1)}, ValueError, "d_head must be even"),
        ({"preset": TransformerConfig(9, 8, 2, 1, d_ff="9")}, TypeError, "d_ff must be an int"),
        ({"tokens": 0}, ValueError, "tokens must be between 1 and 1048576, got 0"),
        ({"preset": "gpt2", "tokens": 1025}, ValueError, "tokens must be at most 1024"),
        ({"batch": 1.5}, TypeError, "batch must be an int, got 1.5"),
        ({"devices": 0}, ValueError, "devices must be between 1 and 65536, got 0"),
        ({"room": "80"}, TypeError, "room must be an int, got '80'"),
        ({"learn": "yes"}, TypeError, "learn must be True or False. Got 'yes'."),
        ({"precision": []}, ValueError, "precision must be one of float32, bfloat16, int8, int4 to write"),
        ({"learn": True, "precision": "int8"}, ValueError, "precision must be one of float32, bfloat16 to learn"),
        ({"checkpointing": 1}, TypeError, "checkpointing must be True or False. Got 1."),
    ],
)  # fmt: skip
def test_bad_input(given, error, said):
    with pytest.raises(error, match=re.escape(said)):
        SizeBudget(**given)
