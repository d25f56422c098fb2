"""BlockShapes: a tensor's way through a pre-norm block, with shapes, parameters, FLOPs, bytes."""

from dataclasses import dataclass

from tfcourse import figures
from tfcourse.widgets.view import View, check_whole

# The same bounds as in block_shapes.js.
MOST = {
    "batch": 65_536,
    "tokens": 1_048_576,
    "d_model": 65_536,
    "n_heads": 1_024,
    "n_kv_heads": 1_024,
    "d_ff": 1_048_576,
}
COLOURS = {"stream": "#8a919c", "attention": "#0072b2", "feed-forward": "#009e73"}


@dataclass(frozen=True)
class Step:
    """One step of the block and the tensor that it makes.

    Args:
        name: what is done.
        code: the line, in the names of blocks.py, attention.py and feed_forward.py.
        axes, shape: of the tensor made; names and sizes.
        parameters: how many numbers are learned here.
        flops: 2 for each multiply-add of a matrix product, forward; all else is not counted.
        bytes: new memory of the tensor; a view has none.
        part: "stream", "attention" or "feed-forward".
    """

    name: str
    code: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: int
    flops: int
    bytes: int
    part: str


class BlockShapes(View):
    """A walk through a pre-norm Transformer block, for any size that the learner sets.

    Args:
        batch, tokens, d_model, n_heads, n_kv_heads, d_ff, gated, bias, bytes_per_number: where
            the view starts; as `block_steps` has them. The default is the block of Llama-7B.

    Raises:
        TypeError, ValueError: as `block_steps`.
    """

    module = "block_shapes"

    def __init__(
        self,
        batch=32,
        tokens=2048,
        d_model=4096,
        n_heads=32,
        n_kv_heads=None,
        d_ff=11008,
        *,
        gated=True,
        bias=False,
        bytes_per_number=2,
    ):
        config = {"batch": batch, "tokens": tokens, "d_model": d_model, "n_heads": n_heads}
        config.update(n_kv_heads=n_heads if n_kv_heads is None else n_kv_heads, d_ff=d_ff)
        config.update(gated=gated, bias=bias, bytes_per_number=bytes_per_number)
        self.steps = block_steps(**config)
        scores = next(step for step in self.steps if step.name == "scores")
        largest = max(self.steps, key=lambda step: step.bytes)
        attention, feed_forward = (
            sum(step.parameters for step in self.steps if step.part == part)
            for part in ("attention", "feed-forward")
        )
        super().__init__(
            {"config": config},
            title="What does a block make of its input?",
            alt=(
                f"x, {times(self.steps[0].shape)}, goes through {len(self.steps) - 1} steps of a "
                f"pre-norm block and comes out with the same shape. The largest tensor is "
                f"{largest.name}, {times(largest.shape)}, {amount(largest.bytes)}B; x has "
                f"{amount(self.steps[0].bytes)}B. The scores, {times(scores.shape)}, and the "
                f"softmax's weights exist on the explicit path only. Parameters: attention "
                f"{amount(attention)}, feed-forward {amount(feed_forward)}."
            ),
        )

    @figures.styled
    def draw(self):
        """Bars of the bytes, one a step, with the shapes as labels."""
        figure, axes = figures.card(size=(6.4, 0.25 * len(self.steps) + 0.6))
        places = range(len(self.steps))
        axes.barh(
            places,
            [float(step.bytes) for step in self.steps],  # ints may be too long for numpy's
            color=[COLOURS[step.part] for step in self.steps],
            height=0.7,
        )
        most = float(max(step.bytes for step in self.steps))
        for place, step in enumerate(self.steps):
            size = f"{amount(step.bytes)}B" if step.bytes else "a view"
            axes.text(
                step.bytes + 0.012 * most, place, f"{times(step.shape)}   {size}", va="center",
                fontsize=8, color=figures.neutral("label"),
            )  # fmt: skip
        axes.set_yticks(places, [step.name for step in self.steps])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.75 * most)  # room for the label of the longest bar
        axes.margins(y=0.01)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.grid(False)
        axes.tick_params(axis="y", length=0)
        axes.set_title(self.title)
        axes.set_xlabel("bytes of the tensor that each step makes")
        handles = [axes.barh(0, 0, color=colour) for colour in COLOURS.values()]
        axes.legend(handles, COLOURS, loc="lower right", fontsize=9)
        return figures.Picture(figure, self.title, self.alt)


def block_steps(
    batch=32,
    tokens=2048,
    d_model=4096,
    n_heads=32,
    n_kv_heads=None,
    d_ff=11008,
    *,
    gated=True,
    bias=False,
    bytes_per_number=2,
):
    """The steps of a pre-norm block on the explicit path, x first.

    Args:
        batch, tokens, d_model: the axes of x.
        n_heads: heads of queries; divides d_model.
        n_kv_heads: heads of keys and values; divides n_heads. Default: n_heads.
        d_ff: width of the feed-forward network.
        gated: whether it has a gate (SwiGLU).
        bias: whether the projections have one; the norms are then LayerNorms, else RMSNorms.
        bytes_per_number: 2 (bfloat16) or 4 (float32).

    Returns:
        list of `Step`

    Raises:
        TypeError: a size is no int, or gated or bias no bool.
        ValueError: a size is out of range or does not divide as it must.
    """
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    sizes = {"batch": batch, "tokens": tokens, "d_model": d_model, "n_heads": n_heads}
    check_sizes({**sizes, "n_kv_heads": n_kv_heads, "d_ff": d_ff})
    check_choices(gated, bias, bytes_per_number)
    d_head = d_model // n_heads
    qkv = d_model + 2 * n_kv_heads * d_head
    rows = batch * tokens  # every matrix is multiplied with as many rows
    steps = []

    def step(part, name, code, axes, shape, parameters=0, flops=0, view=False):
        numbers = 1
        for size in shape:
            numbers *= size
        made = 0 if view else numbers * bytes_per_number
        steps.append(Step(name, code, axes, shape, parameters, flops, made, part))

    def linear(part, name, code, width, axis, columns):
        step(
            part, name, code, ("batch", "tokens", axis), (batch, tokens, width),
            width * columns + bias * width, 2 * rows * width * columns,
        )  # fmt: skip

    stream = ("batch", "tokens", "d_model"), (batch, tokens, d_model)
    heads = ("batch", "n_heads", "tokens", "d_head"), (batch, n_heads, tokens, d_head)
    square = ("batch", "n_heads", "tokens", "tokens"), (batch, n_heads, tokens, tokens)
    hidden = ("batch", "tokens", "d_ff"), (batch, tokens, d_ff)
    norm = (2 if bias else 1) * d_model
    product = 2 * batch * n_heads * tokens * tokens * d_head  # q kᵀ, and weights · v

    step("stream", "x", "x", *stream)
    part = "attention"
    step(part, "norm", "h = attention_norm(x)", *stream, norm)
    split = "q, k, v = attention.qkv(h).split((d_model, n_kv, n_kv), dim=-1)"
    linear(part, "q, k, v", split, qkv, "q + k + v", d_model)
    code = "split_heads(q, n_heads), split_heads(k, n_kv_heads), split_heads(v, n_kv_heads)"
    step(part, "split heads", f"q, k, v = {code}", *heads, view=True)
    step(part, "scores", "scores = attention_scores(q, k)", *square, flops=product)
    step(part, "softmax", "weights = torch.softmax(scores, dim=-1)", *square)
    step(part, "weights · v", "heads = weights @ v", *heads, flops=product)
    step(part, "merge heads", "merged = merge_heads(heads)", *stream)
    linear(part, "out", "a = attention.out(merged)", d_model, "d_model", d_model)
    step("stream", "x + attention", "x = x + a", *stream)
    part = "feed-forward"
    step(part, "norm", "h = feed_forward_norm(x)", *stream, norm)
    if gated:
        linear(part, "gate", "g = feed_forward.gate(h)", d_ff, "d_ff", d_model)
    linear(part, "up", "u = feed_forward.up(h)", d_ff, "d_ff", d_model)
    if gated:
        step(part, "silu(g) · u", "hidden = silu(g) * u", *hidden)
    else:
        step(part, "gelu(u)", "hidden = gelu(u)", *hidden)
    linear(part, "down", "f = feed_forward.down(hidden)", d_model, "d_model", d_ff)
    step("stream", "x + feed-forward", "x = x + f", *stream)
    return steps


def check_sizes(sizes):
    """Raise unless every size is an int in its bounds and the heads divide what they must."""
    for name, value in sizes.items():
        check_whole(name, value, 1, MOST[name])
    for name, whole in (("n_heads", "d_model"), ("n_kv_heads", "n_heads")):
        if sizes[whole] % sizes[name]:
            near = nearest_divisor(sizes[name], sizes[whole])
            raise ValueError(
                f"{name} must divide {whole}={sizes[whole]}, got {sizes[name]}; the nearest that "
                f"does is {near}"
            )


def check_choices(gated, bias, bytes_per_number):
    """Raise unless these are two bools, and 2 or 4."""
    for name, value in (("gated", gated), ("bias", bias)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be a bool, got {value!r}")
    if not isinstance(bytes_per_number, int) or isinstance(bytes_per_number, bool):
        raise TypeError(f"bytes_per_number must be an int, got {bytes_per_number!r}")
    if bytes_per_number not in (2, 4):
        raise ValueError(f"bytes_per_number must be 2 or 4, got {bytes_per_number}")


def nearest_divisor(number, whole):
    """The divisor of `whole` nearest to `number`; of two, the smaller."""
    divisors = (d for d in range(1, min(whole, 2 * number) + 1) if whole % d == 0)
    return min(divisors, key=lambda divisor: abs(divisor - number))


def times(shape):
    """A shape in words: 32 × 2048 × 4096."""
    return " × ".join(str(size) for size in shape)


def amount(number):
    """Three digits and a prefix: 8.59 G; the same as `amount` in block_shapes.js."""
    if number < 1000:
        return f"{number} "
    number = float(f"{number:.2e}")  # rounded first: 999 600 is 1.00 M
    power = min(6, (len(str(int(number))) - 1) // 3)
    scaled = number / 1000**power
    places = 2 if scaled < 10 else 1 if scaled < 100 else 0
    return f"{scaled:.{places}f} {' kMGTPE'[power]}"
