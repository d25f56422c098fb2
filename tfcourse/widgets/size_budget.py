"""SizeBudget: parameters, memory and operations of a whole model, by part."""

from dataclasses import replace

import torch

from tfcourse import figures, sizing
from tfcourse.arguments import check_flag
from tfcourse.models import PRESETS, TransformerConfig
from tfcourse.widgets.view import View, check_whole

MOST = {
    "vocabulary": 4_194_304,
    "d_model": 65_536,
    "n_heads": 1_024,
    "n_kv_heads": 1_024,
    "layers": 1_024,
    "d_ff": 1_048_576,
    "tokens": 1_048_576,
    "batch": 65_536,
    "devices": sizing.MOST_DEVICES,
}
PRECISIONS = {
    "write": ["float32", "bfloat16", "int8", "int4"],
    "learn": ["float32", "bfloat16"],
}
HELD = {
    "write": ("weights", "cache"),
    "learn": ("weights", "gradients", "optimizer", "activations", "loss"),
}
ROOMS = (24, 40, 80, 141)  # GB of accelerators that can be bought
GB = 10**9
# What the module needs of a config: what counts. The rest (eps, the angles' base) does not.
COUNTS = (
    "vocabulary", "d_model", "n_heads", "n_kv_heads", "layers", "d_ff", "gated", "tied", "bias",
    "norm", "norm_first", "positions", "max_tokens", "segments", "embedding_norm", "activation",
    "dropout", "rotary_layout",
)  # fmt: skip
COLOURS = {
    "embedding": "#a3507f", "attention": "#0072b2", "feed_forward": "#009e73",
    "norms": "#8a919c", "head": "#d55e00",
    "weights": "#0072b2", "gradients": "#4b96cc", "optimizer": "#009e73",
    "activations": "#d55e00", "loss": "#a3507f", "cache": "#a3507f",
}  # fmt: skip


class SizeBudget(View):
    """What a language model of any size costs, and whether it fits: a view to set sizes in.

    The numbers are those of `tfcourse.sizing`. GB are 10⁹ bytes.

    Args:
        preset: a name of `tfcourse.models.PRESETS`, or a `TransformerConfig`.
        learn: whether it learns (training with AdamW), else it writes (inference).
        tokens: of each text; default 2048, or less where the model knows fewer positions.
        batch: texts that each device learns from, or that are written side by side.
        precision: of the weights; float32 or bfloat16, to write also int8 or int4. The cache is
            float32 with float32 weights, else bfloat16.
        devices: over how many the model is spread.
        room: GB of a device.
        checkpointing: whether learning keeps only what enters each block.

    Raises:
        TypeError, ValueError: as `tfcourse.sizing`; a value is out of range or does not go with
            another.
    """

    module = "size_budget"

    def __init__(
        self,
        preset="llama-7b",
        *,
        learn=False,
        tokens=None,
        batch=1,
        precision="bfloat16",
        devices=1,
        room=80,
        checkpointing=False,
    ):
        config = whole(preset)
        tokens = min(2048, longest(config)) if tokens is None else tokens
        check_flag("learn", learn)
        what_for = "learn" if learn else "write"
        use = {"what_for": what_for, "tokens": tokens, "batch": batch, "precision": precision}
        use.update(devices=devices, room=room, checkpointing=checkpointing)
        check_use(config, use)
        self.parameters = sizing.parameters(config)
        self.memory = memory_of(config, **use)(devices)
        self.held = {name: getattr(self.memory, name) for name in HELD[what_for]}
        self.use, self.to = use, use_in_words(use)
        known = (name for name in PRESETS if counted(whole(name)) == counted(config))
        self.name = next(known, "your own model")
        super().__init__(
            {
                "config": counted(config),
                "use": use,
                "presets": {name: counted(whole(name)) for name in PRESETS},
                "most": MOST,
                "precisions": PRECISIONS,
                "rooms": sorted({*ROOMS, room}),
            },
            title="How large is a model, and where does it fit?",
            alt=self._in_words(config),
        )

    def _in_words(self, config):
        count, held, room = self.parameters, self.memory.total, self.use["room"]
        fits = f"That fits on a device of {room} GB"
        if held > room * GB:
            fewest = sizing.fewest_devices(memory_of(config, **self.use), room * GB)
            would = "no number of devices" if fewest is None else f"{fewest} devices"
            fits = f"That does not fit on a device of {room} GB; {would} would do"
        parts = {part: size for part, size in vars(count).items() if size}  # a tied head is none
        forward = sizing.forward_operations(config, self.use["tokens"]).total // self.use["tokens"]
        return (
            f"{self.name} has {amount(count.total, COUNT)} parameters: {listed(parts, COUNT)}. It "
            f"takes {amount(held, BYTES)} {self.to}: {listed(self.held, BYTES)}. {fits}. A token "
            f"takes {amount(forward, COUNT)} operations forward and {amount(3 * forward, COUNT)} "
            f"in training. GB are 10⁹ bytes."
        )

    @figures.styled
    def draw(self):
        """Bars of the parameters, and of what a device holds beside what it has room for."""
        parts, room = vars(self.parameters), float(self.use["room"] * GB)
        held, total = self.held, float(self.memory.total)  # ints may be too long for numpy's
        figure, (above, below) = figures.card(
            2, 1, size=(6.4, 1.9 + 0.28 * (len(parts) + len(held))),
            height_ratios=(len(parts), len(held) + 1.6),
        )  # fmt: skip
        self._bars(above, parts, COUNT, self.parameters.total, float(max(parts.values())))
        count = amount(self.parameters.total, COUNT)
        above.set_title(f"{self.title}\n{self.name}: {count} parameters", linespacing=1.6)

        self._bars(below, held, BYTES, total, max(total, room))
        left, place, needs = 0, len(held), amount(self.memory.total, BYTES)
        for name, size in held.items():
            below.barh(place, float(size), left=float(left), color=COLOURS[name], height=0.7)
            left += size
        label = figures.neutral("label")
        behind = room if 0.75 * room < total < room else total  # of bar and line, the later
        below.text(
            behind + 0.012 * max(total, room), place, needs, va="center", fontsize=8,
            color=label, weight="bold",
        )  # fmt: skip
        below.plot([room, room], [place - 0.5, place + 0.5], color=label, lw=2)
        below.text(
            room, place + 0.6, f"room of a device: {self.use['room']} GB", fontsize=8, color=label,
            ha="left" if room < total / 2 else "right", va="top",
        )  # fmt: skip
        below.set_yticks([*below.get_yticks(), place], [*map(called, held), "together"])
        below.set_ylim(place + 1.2, -0.5)
        fits = "fits" if total <= room else "does not fit"
        where, what = self.to.split(", ")
        below.set_title(f"{needs} {where}: {fits}")
        below.set_xlabel(what, loc="left", fontsize=9)
        return figures.Picture(figure, self.title, self.alt)

    @staticmethod
    def _bars(axes, parts, names, total, widest):
        places = range(len(parts))
        colours = [COLOURS[name] for name in parts]
        axes.barh(places, [float(size) for size in parts.values()], color=colours, height=0.7)
        for place, (name, size) in enumerate(parts.items()):
            text = f"{amount(size, names)}   {percent(size, total)}"
            text = "the embedding's table" if name == "head" and not size else text
            axes.text(
                float(size) + 0.012 * widest, place, text, va="center", fontsize=8,
                color=figures.neutral("label"),
            )  # fmt: skip
        axes.set_yticks(places, map(called, parts))
        axes.invert_yaxis()
        axes.set_xlim(0, 1.3 * widest)  # room for the label of the longest bar
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.grid(False)
        axes.tick_params(axis="y", length=0)


def called(part):
    """The name of a part in words."""
    return {"feed_forward": "MLP", "cache": "KV cache"}.get(part, part)


def whole(preset):
    """The config of a preset's name, or the one given, with what it leaves open filled in."""
    if isinstance(preset, str):
        if preset not in PRESETS:
            known = ", ".join(PRESETS)
            raise ValueError(f"preset must be one of {known}, or a config, got {preset!r}")
        preset = PRESETS[preset]
    if not isinstance(preset, TransformerConfig):
        raise TypeError(
            f"preset must be a preset's name or a TransformerConfig, got {type(preset).__name__}"
        )
    heads = preset.n_heads if preset.n_kv_heads is None else preset.n_kv_heads
    return replace(preset, n_kv_heads=heads, d_ff=sizing.d_ff(preset))


def counted(config):
    """Of a config, what its size depends on; a length that is only written down does not count."""
    values = {name: getattr(config, name) for name in COUNTS}
    return values if config.positions == "learned" else {**values, "max_tokens": None}


def longest(config):
    """Tokens of the longest text that the model can take."""
    return config.max_tokens if config.positions == "learned" else MOST["tokens"]


def check_use(config, use):
    """Raise unless a model can have these sizes, and there are this use and this precision."""
    for name, most in MOST.items():
        check_whole(name, use[name] if name in use else getattr(config, name), 1, most)
    sizing.parameters(config)  # raises where heads do not divide
    with torch.device("meta"):
        config.block()  # takes no memory, and raises where no block can have these sizes
    if use["tokens"] > longest(config):
        raise ValueError(
            f"tokens must be at most {longest(config)}, the positions that the model knows, "
            f"got {use['tokens']}"
        )
    check_whole("room", use["room"], 1, 1_000_000)
    check_flag("checkpointing", use["checkpointing"])
    known = PRECISIONS[use["what_for"]]
    if use["precision"] not in known:
        to = f"to {use['what_for']}"
        raise ValueError(
            f"precision must be one of {', '.join(known)} {to}, got {use['precision']!r}"
        )


def memory_of(config, what_for, tokens, batch, precision, checkpointing=False, **_):
    """What each device holds, as a function of how many there are."""

    def memory(devices):
        sizes = {"batch": batch, "precision": precision, "shards": devices}
        if what_for == "learn":
            return sizing.training_memory(config, tokens, checkpointing=checkpointing, **sizes)
        cache = "float32" if precision == "float32" else "bfloat16"
        return sizing.inference_memory(config, tokens, cache_precision=cache, **sizes)

    return memory


def use_in_words(use):
    """On one device, to write 1 text of 2048 tokens in bfloat16; as in size_budget.js."""
    several, learns = use["devices"] > 1, use["what_for"] == "learn"
    where = f"on each of {use['devices']} devices" if several else "on one device"
    to = "to write" if not learns else "where each learns from" if several else "to learn from"
    texts = f"{use['batch']} text{'s' * (use['batch'] > 1)}"
    tokens = f"{use['tokens']} token{'s' * (use['tokens'] > 1)}"
    less = " with checkpointing" if learns and use["checkpointing"] else ""
    return f"{where}, {to} {texts} of {tokens} in {use['precision']}{less}"


def listed(parts, names):
    """embedding 131 million (2%), attention …"""
    total = sum(parts.values())
    return ", ".join(
        f"{called(name)} {amount(size, names)} ({percent(size, total)})"
        for name, size in parts.items()
    )


COUNT = ("", " thousand", " million", " billion", " trillion")
BYTES = (" B", " kB", " MB", " GB", " TB", " PB", " EB")


def amount(number, names):
    """6.7 billion, 13.5 GB, 175 billion, 2.2 × 10¹⁵; the same as `amount` in size_budget.js.

    In whole numbers, so that both round a half up.
    """
    if number < 1000:
        return f"{number}{names[0]}"
    for power, name in enumerate(names[1:], 1):
        unit = 1000**power
        tenths, whole_ones = (10 * number + unit // 2) // unit, (number + unit // 2) // unit
        if tenths < 1000:
            return f"{tenths // 10}.{tenths % 10}{name}"
        if whole_ones < 1000 or (name == names[-1] and names is BYTES):
            return f"{whole_ones}{name}"
    zeros = len(str(number)) - 1
    tenths = (10 * number + 10**zeros // 2) // 10**zeros
    if tenths == 100:
        zeros, tenths = zeros + 1, 10
    raised = str(zeros).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{tenths // 10}.{tenths % 10} × 10{raised}"


def percent(size, total):
    """Of the total, in words: 2%, under 1%."""
    share = 100 * size / total if total else 0
    return "under 1%" if 0 < share < 1 else f"{share:.0f}%"
