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
ROUNDS = 30


def compare(peers, *, rounds=ROUNDS):
    """Print a table: how long each peer takes, as a multiple of the first, which is ours.

    All run in every round, every other round in reverse order, so that what else the machine does
    meets them alike. A figure is the median ratio over the rounds, with the middle half of the
    ratios behind it: above 1, the peer takes longer than ours. The last row has the fastest peer.

    Args:
        peers: `peers(d_model, heads, tokens, device)` gives name -> (module, call), ours first;
            `call(x)` runs the module on x (batch, tokens, d_model) and gives the same shape.
        rounds: how many.
    """
    torch.manual_seed(0)
    device = pick_device()
    columns = [ratios(peers, size, device, rounds) for size in SIZES]
    heads = [f"d{d} h{h} B{b} T{t}" for d, h, b, t in SIZES]
    ours, *names = columns[0]
    print(f"\n| peer / {ours} | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name in names:
        print(f"| {name} | {' | '.join(cell(column[name]) for column in columns)} |")
    fastest = [min(names, key=lambda name: column[name][1]) for column in columns]
    cells = [f"{column[name][1]:.2f}" for name, column in zip(fastest, columns, strict=True)]
    print(f"| **fastest peer / ours** | {' | '.join(f'**{c}**' for c in cells)} |")


def ratios(peers, size, device, rounds):
    """Name -> the quartiles of its time over ours."""
    d_model, heads, batch, tokens = size
    works = peers(d_model, heads, tokens, device)
    x = torch.randn(batch, tokens, d_model, device=device, requires_grad=True)
    slope = torch.randn_like(x)
    for work in works.values():
        seconds(*work, x, slope)
    taken = []
    for number in range(rounds):
        turn = list(works)[:: -1 if number % 2 else 1]
        taken.append({name: seconds(*works[name], x, slope) for name in turn})
    ours = next(iter(works))
    return {
        name: statistics.quantiles([one[name] / one[ours] for one in taken], n=4) for name in works
    }


def seconds(module, call, x, slope):
    """Seconds of one forward and backward pass."""
    module.zero_grad()
    x.grad = None
    clock = pick_clock()
    started = clock()
    call(x).backward(slope)
    if x.is_cuda:
        torch.cuda.synchronize()
    return clock() - started


def pick_clock():
    """One thread's own processor time, which other programs hardly disturb; else the wall's."""
    alone = torch.get_num_threads() == 1 and pick_device().type == "cpu"
    return time.process_time if alone else time.perf_counter


def cell(quartiles):
    low, middle, high = quartiles
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def describe():
    """One line: versions, device, clock."""
    clock = "processor time" if pick_clock() is time.process_time else "wall time"
    device = describe_device(pick_device())
    return f"torch {torch.__version__}, {device}, {platform.machine()}, {clock}"
