"""N5, quality: the same model with LayerNorm and with RMSNorm (lesson 04)."""

from __future__ import annotations

from tfcourse.experiments import record
from tfcourse.experiments.feed_forwards import compare

SETTINGS = {"seeds": [0, 1, 2, 3, 4], "steps": 500}
KINDS = {"LayerNorm": {"norm": "layer"}, "RMSNorm": {"norm": "rms"}}


def run(*, seeds, steps, kinds=None, say=lambda words: None, watch=None) -> dict:
    """Held-out loss in nats for each norm and seed."""
    return compare(KINDS, kinds, seeds=seeds, steps=steps, say=say, watch=watch)


if __name__ == "__main__":
    record("norm_quality", run, **SETTINGS)
