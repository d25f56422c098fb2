"""Interactive views: everything moves in the browser, with no round trip to the kernel."""

from importlib import import_module

_WHERE = {
    "Activations": "activations",
    "AttentionMap": "attention_map",
    "AttentionSteps": "attention_steps",
    "BlockShapes": "block_shapes",
    "LogitLens": "logit_lens",
    "NextToken": "next_token",
    "NormGeometry": "norm_geometry",
    "Playground": "playground",
    "Question": "question",
    "RotaryClock": "rotary_clock",
    "SinusoidalEncoding": "sinusoidal_encoding",
    "SizeBudget": "size_budget",
    "SoftmaxScale": "softmax_scale",
    "View": "view",
}

__all__ = list(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'tfcourse.widgets' has no attribute {name!r}")
    return getattr(import_module(f"tfcourse.widgets.{_WHERE[name]}"), name)


def __dir__():
    return sorted(__all__)
