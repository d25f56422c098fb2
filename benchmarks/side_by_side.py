"""What the benchmarks share: peers run in turn, and each figure is a ratio of the same round."""

import platform
import statistics
import time

import torch

from tfcourse.device import describe_device, pick_device

SIZES = [  # d_model, heads, batch, tokens
    (512, 8, 4, 256),
    (256, 4, 16, 64),
    (512, 8, 1, 1024),
]


def seconds(work, x):
    """Seconds of one forward and backward pass."""
    if x.device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    work(x).sum().backward()
    if x.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def compare(peers, *, rounds=15):
    """Print a table of median ratios to the first peer, with the middle half of the ratios.

    `peers(d_model, heads, tokens, device)` gives name -> a function of x (batch, tokens, d_model).
    """
    torch.manual_seed(0)
    device = pick_device()
    columns = {}
    for d_model, heads, batch, tokens in SIZES:
        works = peers(d_model, heads, tokens, device)
        x = torch.randn(batch, tokens, d_model, device=device, requires_grad=True)
        for work in works.values():
            seconds(work, x)
        taken = [{name: seconds(work, x) for name, work in works.items()} for _ in range(rounds)]
        base = next(iter(works))
        for name in works:
            ratios = [one[name] / one[base] for one in taken]
            low, middle, high = statistics.quantiles(ratios, n=4)
            columns.setdefault(name, []).append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
    heads = [f"d{d} h{h} B{b} T{t}" for d, h, b, t in SIZES]
    print(f"\ntorch {torch.__version__}, {describe_device(device)}, {platform.machine()}\n")
    print(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name, cells in columns.items():
        print(f"| {name} | {' | '.join(cells)} |")
