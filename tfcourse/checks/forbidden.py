"""Functions of torch that would do an exercise: which names its answer may not call."""

from __future__ import annotations


def _and_default(*names: str) -> tuple[str, ...]:
    """The names, and how `torch.ops` calls them."""
    return (*names, *(f"{name}.default" for name in names))


NORMS = _and_default(
    "layer_norm",
    "native_layer_norm",
    "native_layer_norm_backward",
    "rms_norm",
    "_fused_rms_norm",
    "batch_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "instance_norm",
    "group_norm",
    "native_group_norm",
    "local_response_norm",
)
GELU = _and_default("gelu", "gelu_", "gelu_tanh")
DERIVATIVES = (
    "grad",
    "grad_and_value",
    "gradient",  # by differences
    "backward",
    "vjp",
    "jvp",
    "jacobian",
    "jacrev",
    "jacfwd",
    "linearize",
    "make_dual",
    "unpack_dual",
    *_and_default("gelu_backward", "_softmax_backward_data"),
)
