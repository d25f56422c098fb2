"""`import tfcourse` costs little more than `import torch`, and loads nothing that draws."""

import re
import statistics
import subprocess
import sys

BAR = 0.2  # seconds


def python(code, *options):
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=True
    )


def test_import_loads_neither_figures_nor_widgets_nor_jupyter():
    said = python("import tfcourse, tfcourse.attention, sys; print(*sys.modules)").stdout.split()
    assert "torch" in said
    assert not {"matplotlib", "anywidget", "ipywidgets", "IPython"} & set(said)


def test_a_model_is_built_on_paper_without_the_compiler():
    """PyTorch draws and counts on `meta` by importing it, which takes seconds."""
    said = python(
        "import sys, torch\n"
        "from tfcourse.models import PRESETS, LanguageModel, Transformer\n"
        "with torch.device('meta'):\n"
        "    for config in PRESETS.values(): LanguageModel(config)\n"
        "    made = Transformer(PRESETS['transformer-base'])\n"
        "assert {x.device.type for x in made.state_dict().values()} == {'meta'}\n"
        "print(*sys.modules)"
    ).stdout.split()
    assert "tfcourse.models" in said
    assert not {"torch._dynamo", "sympy"} & set(said)


def test_import_time_over_torch():
    """Summed from the interpreter's own record, so that a busy machine does not matter much."""
    times = []
    for _ in range(3):
        log = python("import torch; import tfcourse, tfcourse.attention", "-X", "importtime").stderr
        rows = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|( +)(\S+)", log)
        last = max(i for i, row in enumerate(rows) if row[2] == "torch")
        times.append(sum(int(own) for own, _, _ in rows[last + 1 :]) / 1e6)
    assert statistics.median(times) <= BAR, times
