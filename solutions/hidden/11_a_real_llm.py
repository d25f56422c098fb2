"""A teacher's cases: a row of a real matrix, bytes at both ends, scales far apart."""

import torch

from tfcourse.checks.exercise import Case, randn

SEED = 733


def unpack_four_bits() -> list[Case]:
    chosen = torch.Generator().manual_seed(SEED)
    packed = torch.randint(256, (54, 16), generator=chosen, dtype=torch.uint8)
    ends = torch.where(packed > 127, 255, packed & 15).to(torch.uint8)
    noise, middle = randn(SEED, (54,), (54,))
    scale = 0.004 * (0.2 + noise.abs())
    apart = scale * 10.0 ** (torch.arange(54) % 4)
    least = -7.3 * scale + 0.01 * middle
    cases = [
        (packed, scale, least),
        (ends, apart, -7.9 * apart),
        (packed, 900 * scale, 50 + middle),
    ]
    return [Case((p, d.half(), m.half()), gradients=False) for p, d, m in cases]
