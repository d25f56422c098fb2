"""Mutants that give the same as the solution on all that the exercise states, and why.

exercise -> change, as `python -m tests.mutants` names it -> reason.
"""

SQUARED = "The difference is squared: its sign does not matter."
IN_FRONT = "The axes that are gone stand in front, where broadcasting puts them back."
ORDER = "A mean over two axes does not depend on their order."

EQUAL: dict[str, dict[str, str]] = {
    "alibi_bias": {
        "4:16 where[:, None] - where -> where - where[:, None]": "A distance has no sign.",
    },
    "score_at_distances": {
        "3:23 1 -> 2": "Of the repeated queries, one is read.",
        "3:26 1 -> 2": "Of the repeated queries, one is read.",
        "4:56 0 -> -1": "An axis of one: its last entry is its first.",
        "4:59 0 -> -1": "An axis of one: its last entry is its first.",
    },
    "apply_rotary": {
        "5:48 -1 -> 1": "The last of two axes.",
        "6:48 -1 -> 1": "The last of two axes.",
    },
    "layer_norm": {
        "4:16 x - mean -> mean - x": SQUARED,
    },
    "batch_norm": {
        "3:11 x.mean(dim=(0, 1), keepdim=True) -> x.mean(dim=(0, 1))": IN_FRONT,
        "3:22 (0, 1) -> (1, 0)": ORDER,
        "3:38 True -> False": IN_FRONT,
        "4:15 (x - mean).square().mean(dim=(0, 1), keepdim=True)"
        " -> (x - mean).square().mean(dim=(0, 1))": IN_FRONT,
        "4:16 x - mean -> mean - x": SQUARED,
        "4:44 (0, 1) -> (1, 0)": ORDER,
        "4:60 True -> False": IN_FRONT,
    },
    "how_it_ended": {
        "5:24 losses[-20:].mean() > level - 0.1 -> losses[-20:].mean() >= level - 0.1": (
            "A mean that equals the limit to the last digit does not occur."
        ),
    },
    "norm_vjp": {
        "3:13 x - x.mean(dim=-1, keepdim=True) -> x.mean(dim=-1, keepdim=True) - x": (
            "y comes in twice: its sign does not matter."
        ),
    },
    "rate_at": {
        "5:13 step - warm_up -> warm_up - step": "A cosine is the same on both sides of 0.",
        "5:32 steps - warm_up -> warm_up - steps": "A cosine is the same on both sides of 0.",
    },
    "first_std": {
        "5:21 ('out.weight', 'down.weight') -> ('down.weight', 'out.weight')": (
            "Either ending counts, in any order."
        ),
    },
    "clip_by_norm": {
        "3:23 first.square().sum().item() -> first.square().sum()": "math.sqrt takes a tensor.",
        "3:53 second.square().sum().item() -> second.square().sum()": "math.sqrt takes a tensor.",
        "4:30 length > most -> length >= most": "A factor of 1 changes nothing.",
    },
}
