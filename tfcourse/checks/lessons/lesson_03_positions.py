"""Lesson 03: where a token stands."""

from __future__ import annotations

import torch

from tfcourse import positions as P
from tfcourse.checks.exercise import (
    Case,
    Domain,
    Exercise,
    Finding,
    Twin,
    Variant,
    randn,
    unequal,
)
from tfcourse.checks.judging import same
from tfcourse.checks.quiz import Item, Option

LESSON = "03_positions"


# --- sinusoidal_encoding --------------------------------------------------------------------


BASES = {
    "base left out": {},
    "base 99.5": {"base": 99.5},
    "base 50, a whole number": {"base": 50},
    "base 500000": {"base": 500000.0},
}


def _encoding_case(kind, seed) -> Case | None:
    tokens, half = unequal(seed, 2, 3, 7)
    tokens = {"one position": 1, "300 positions": 300, "2100 positions": 2100}.get(
        kind["tokens"], tokens
    )
    d_model = {"d_model 2": 2, "d_model 48": 48}.get(kind["d_model"], 2 * half)
    if kind["tokens"] == "2100 positions" and d_model > 2:
        return None  # float32 holds only the first pair's angle that far out
    return Case((tokens + (tokens == d_model), d_model), BASES[kind["base"]])


def _too_fast(cases, values, expected) -> Finding | None:
    """Multiplied where the formula divides: told by position 1, where no digits are lost yet."""
    i = next((i for i, c in enumerate(cases) if not c.edge and not c.kwargs), None)
    if i is None:
        return None
    half = cases[i].args[1] // 2
    angle = 10000.0 ** (torch.arange(half).double() / half)
    at_one = torch.stack([angle.sin(), angle.cos()], -1).flatten()
    if same(values[i][1], at_one, 1e-2):
        return Finding(
            "multiplied",
            "You multiply by base^(2i / d_model) where the formula divides: your pairs get faster "
            "and faster.",
        )
    return None


def _one_wave_for_all(cases, values, expected) -> Finding | None:
    """All columns alike: told by position 0, where every sine is 0 and every cosine is 1."""
    for number, yours, other in ((0.0, "sines", "cosines"), (1.0, "cosines", "sines")):
        if all(same(value[0], torch.full_like(value[0], number), 1e-4) for value in values):
            only = ", or still zeros" if yours == "sines" else ""
            at, want = ("1, 3, 5, …", "1") if yours == "sines" else ("0, 2, 4, …", "0")
            return Finding(
                f"all-{yours}",
                f"In the row of position 0 all your numbers are {number:.0f}, so all columns hold "
                f"{yours}{only}. Columns {at} should hold {other}, which are {want} there.",
            )
    return None


def _encoding(
    angles=lambda pos, i, d, base: pos / base ** (2 * i / d),
    first=torch.sin,
    second=torch.cos,
    join=lambda a, b: torch.stack([a, b], -1).flatten(-2),
):
    """A sinusoidal encoding with one part of it replaced."""

    def answer(tokens, d_model, base=10000.0):
        pos, i = torch.arange(tokens)[:, None].double(), torch.arange(d_model // 2).double()
        turned = angles(pos, i, d_model, base)
        one, two = turned if isinstance(turned, tuple) else (turned, turned)
        return join(first(one), second(two)).float()

    return answer


SINUSOIDAL = Exercise(
    name="sinusoidal_encoding",
    lesson=LESSON,
    title="sinusoidal encoding",
    domain=Domain(
        kinds={
            "tokens": ("unequal sizes", "one position", "300 positions", "2100 positions"),
            "d_model": ("some pairs", "d_model 2", "d_model 48"),
            "base": tuple(BASES),
        },
        make=_encoding_case,
        edges=("one position", "300 positions", "2100 positions", "d_model 2"),
    ),
    properties=(_too_fast, _one_wave_for_all),
    witness=P.sinusoidal_encoding,
    reference=P.sinusoidal_encoding,
    axes=("tokens", "d_model"),
    tolerance=1e-4,  # float32 angles of some hundreds
    hints=(
        "Two things depend on two different indices: the position (down) and the pair i (across). "
        "Make the table of angles first, (tokens, d_model / 2), then think of sine and cosine.",
        "A column of positions, `[:, None]`, with a row of frequencies broadcasts to a table. "
        "Pair i has one frequency, used twice.",
        "With `pe = torch.zeros(tokens, d_model)`, the even columns are `pe[:, 0::2]` and the odd "
        "ones `pe[:, 1::2]`.",
    ),
    variants={
        "halves": Variant(
            "The numbers are right, their order is not: all sines stand first, then all cosines. "
            "Here they alternate: sin, cos, sin, cos, … (Some code does it your way. A model does "
            "not mind, as long as nobody mixes the two.)",
            _encoding(join=lambda a, b: torch.cat([a, b], -1)),
        ),
        "cosine-first": Variant(
            "In each pair the cosine stands before the sine. Position 0 should be 0, 1, 0, 1, …",
            _encoding(join=lambda a, b: torch.stack([b, a], -1).flatten(-2)),
        ),
        "exponent-i": Variant(
            "Your frequencies fall too slowly: the exponent is 2i / d_model with i the number of "
            "the pair, and yours is i / d_model.",
            _encoding(lambda pos, i, d, base: pos / base ** (i / d)),
        ),
        "doubled": Variant(
            "Your frequencies fall too fast. Did you count i in steps of two and write 2i? One "
            "of the two is enough.",
            _encoding(lambda pos, i, d, base: pos / base ** (4 * i / d)),
        ),
        "each-its-own": Variant(
            "Your sines are right, but each cosine has a frequency of its own. The two of a pair "
            "share one; otherwise they are no point on a circle.",
            _encoding(
                lambda pos, i, d, base: (
                    pos / base ** (2 * i / d),
                    pos / base ** ((2 * i + 1) / d),
                )
            ),
        ),
        "sines-only": Variant(
            "Both numbers of a pair are sines. A sine alone says the same at two places of each "
            "turn; the cosine tells them apart.",
            _encoding(second=torch.sin),
        ),
        "from-one": Variant(
            "Your positions start at 1. The first one is 0: its sines are 0, its cosines 1.",
            _encoding(lambda pos, i, d, base: (pos + 1) / base ** (2 * i / d)),
        ),
        "reversed": Variant(
            "Your pairs run from slow to fast: the first pair should be the fastest.",
            _encoding(lambda pos, i, d, base: pos / base ** (2 * (d // 2 - 1 - i) / d)),
        ),
        "base-fixed": Variant(
            "Right for base 10000 only: the argument `base` is not used.",
            _encoding(lambda pos, i, d, base: pos / 10000 ** (2 * i / d)),
        ),
        "one-angle": Variant(
            "All your pairs turn equally fast. Pair i is slowed down by base^(2i / d_model). (With "
            "`//` in the exponent every fraction becomes 0.)",
            _encoding(lambda pos, i, d, base: pos + 0 * i),
        ),
        "floored": Variant(
            "Your angles are rounded down to whole numbers (`//`): the waves become stairs, and "
            "many positions share a name in the slow pairs. Keep the fraction.",
            _encoding(lambda pos, i, d, base: pos // base ** (2 * i / d)),
        ),
        "to-the-base": Variant(
            "Your slowest pair is slowed down by base itself: its exponent is i / (d_model / 2 − "
            "1). Some published code has it so; the formula above divides 2i by d_model.",
            _encoding(lambda pos, i, d, base: pos / base ** (i / (d // 2 - 1 or torch.nan))),
        ),
        "transposed": Variant(
            "The numbers are right, the table is lying on its side: (tokens, d_model), one row a "
            "position.",
            lambda tokens, d_model, base=10000.0: P.sinusoidal_encoding(tokens, d_model, base).T,
        ),
    },
)


# --- rotate_pairs ---------------------------------------------------------------------------


FAR = "positions far out"
WHERE = (
    "positions 0, 1, 2, …",
    "positions from 7 on",
    "positions with gaps, in any order",
    "a position twice",
    "negative positions",
    FAR,
)
ROTARY_KINDS = {
    "where": WHERE,
    "sizes": (
        "unequal sizes",
        "a batch of one",
        "one head",
        "one token",
        "d_head 2",
        "d_head 32",
    ),
    "numbers": ("ordinary numbers", "numbers in the hundreds", "a token of zeros"),
}
ROTARY_EDGES = (FAR, "a token of zeros")


def _rotary_case(kind, seed) -> Case | None:
    """x (batch, heads, tokens, d_head), where (tokens,) and, if it is among the kinds, a base."""
    batch, heads, tokens, half = unequal(seed, 4)
    d_head = 2 * half if 2 * half not in (batch, heads, tokens) else 16
    sizes, where = kind["sizes"], kind["where"]
    batch = 1 if sizes == "a batch of one" else batch
    heads = 1 if sizes == "one head" else heads
    tokens = 1 if sizes == "one token" else tokens
    d_head = {"d_head 2": 2, "d_head 32": 32}.get(sizes, d_head)
    if (where == FAR and sizes == "d_head 32") or (where == "a position twice" and tokens == 1):
        return None
    if where == FAR and d_head > 2:
        d_head = 4  # where float32 still holds the angles
    (x,) = randn(seed, (batch, heads, tokens, d_head))
    x = x * 300 if kind["numbers"] == "numbers in the hundreds" else x
    if kind["numbers"] == "a token of zeros":
        x[:, :, -1] = 0
    return Case((x, _places(where, tokens, seed, d_head)), BASES[kind.get("base", "base left out")])


def _places(kind: str, count: int, seed: int, d_head: int) -> torch.Tensor:
    """Where the tokens stand: whole numbers."""
    mixed = torch.randperm(40, generator=torch.Generator().manual_seed(seed))[:count]
    if kind == WHERE[0]:
        return torch.arange(count)
    if kind == WHERE[1]:
        return torch.arange(7, 7 + count)
    if kind == "a position twice":
        return torch.cat([mixed[:1] + 3, mixed[:1] + 3, mixed[2:]])
    if kind == "negative positions":
        return torch.cat([-mixed[:1] - 1, mixed[1:] - 20])
    if kind == FAR:
        return mixed + (5000 if d_head == 2 else 880)
    return mixed


def _negative(which: int):
    """A property: right wherever argument `which` holds no negative number, wrong where it does."""

    def holds(cases, values, expected) -> Finding | None:
        wrong = [
            bool((case.args[which] < 0).any())
            for case, value, right in zip(cases, values, expected, strict=True)
            if not same(value, right, 2e-5)
        ]
        if wrong and all(wrong):
            return Finding(
                "negative",
                "Right wherever no number is negative. A negative one gets something else: is the "
                "sign lost on the way, or does your code look up a table, where −1 means the last "
                "row?",
            )
        return None

    return holds


def _too_fast_a_turn(cases, values, expected) -> Finding | None:
    """A plus in the exponent: told by position 1, where no digits are lost yet."""
    for case, value in zip(cases, values, strict=True):
        x, where = case.args
        if not case.edge and not case.kwargs and torch.equal(where, torch.arange(len(where))):
            half = x.shape[-1] // 2
            fast = _rotation(lambda pos, i, d, base: pos[:, None] * base ** (2 * i / d))
            turned = fast(x.double(), where.double())[:, :, :2]
            if half > 1 and len(where) > 1 and same(value[:, :, :2], turned, 1e-2):
                return Finding(
                    "multiplied",
                    "Your pairs get faster and faster: the exponent is minus 2i / d_head.",
                )
    return None


def _rotation(angles=None, turn=None, split=None, join=None):
    """A rotary turn with one part of it replaced."""

    def answer(x, positions, base=10000.0):
        half = x.shape[-1] // 2
        i = torch.arange(half)
        angle = (
            positions[:, None] * base ** (-i / half)
            if angles is None
            else angles(positions, i, 2 * half, base)
        )
        a, b = split(x) if split else (x[..., ::2], x[..., 1::2])
        cos, sin = angle.cos(), angle.sin()
        one, two = turn(a, b, cos, sin) if turn else (a * cos - b * sin, a * sin + b * cos)
        return join(one, two) if join else torch.stack([one, two], -1).flatten(-2)

    return answer


def _halves(x):
    return x.chunk(2, -1)


def _side_by_side(a, b):
    return torch.cat([a, b], -1)


def rotate_pairs(x, where, base=10000.0):
    """Turn each pair (2i, 2i + 1) of x by position · base^(-2i / d_head)."""
    return P.Rotary(x.shape[-1], base)(x, where)


ROTATE = Exercise(
    name="rotate_pairs",
    lesson=LESSON,
    title="rotary: turn the pairs",
    domain=Domain(
        kinds=ROTARY_KINDS | {"base": tuple(BASES)}, make=_rotary_case, edges=ROTARY_EDGES
    ),
    properties=(_too_fast_a_turn, _negative(1)),
    witness=rotate_pairs,
    reference=rotate_pairs,
    axes=("batch", "heads", "tokens", "d_head"),
    tolerance=2e-5,
    hints=(
        "Make the angles first: a table (tokens, d_head / 2), one row a token, one column a pair. "
        "It broadcasts against (batch, heads, tokens, d_head / 2).",
        "`x[..., 0::2]` is every pair's first number, `x[..., 1::2]` its second. Turn each such "
        "point (a, b) with the formula above.",
        "To put the two results back in turn: `torch.stack([…, …], dim=-1)` makes pairs, and "
        "`flatten(-2)` lays them in a row.",
    ),
    variants={
        "split-half": Variant(
            "This is a rotation, but of other pairs: you turn number i with number i + d_head / 2. "
            "Here neighbours belong together, 2i and 2i + 1. (Both layouts are in use. You will "
            "meet yours below.)",
            _rotation(split=_halves, join=_side_by_side),
        ),
        "clockwise": Variant(
            "You turn the wrong way round: the minus belongs to the first number, "
            "(a cos − b sin, a sin + b cos).",
            _rotation(turn=lambda a, b, c, s: (a * c + b * s, b * c - a * s)),
        ),
        "positions-ignored": Variant(
            "You count the tokens yourself, 0, 1, 2, …, and never look at `where`. When a "
            "model writes, the next token stands alone, and its position is not 0.",
            _rotation(
                lambda pos, i, d, base: torch.arange(len(pos))[:, None] * base ** (-2 * i / d)
            ),
        ),
        "counted-on": Variant(
            "You look at the first position only and count on from there. The tokens may stand "
            "anywhere: each has its own entry in `where`.",
            _rotation(
                lambda pos, i, d, base: (
                    (pos[0] + torch.arange(len(pos)))[:, None] * base ** (-2 * i / d)
                )
            ),
        ),
        "one-angle": Variant(
            "All pairs turn equally fast, by the position itself. Pair i turns by "
            "position · base^(−2i / d_head).",
            _rotation(lambda pos, i, d, base: pos[:, None] * torch.ones(len(i))),
        ),
        "exponent-i": Variant(
            "Your frequencies fall too slowly: the exponent is −2i / d_head, with i the number of "
            "the pair.",
            _rotation(lambda pos, i, d, base: pos[:, None] * base ** (-i / d)),
        ),
        "base-fixed": Variant(
            "Right for base 10000 only: the argument `base` is not used.",
            _rotation(lambda pos, i, d, base: pos[:, None] * 10000.0 ** (-2 * i / d)),
        ),
        "to-the-base": Variant(
            "Your slowest pair is slowed down by base itself: its exponent is −i / (d_head / 2 − "
            "1). The formula above divides 2i by d_head.",
            _rotation(lambda pos, i, d, base: pos[:, None] * base ** (-i / max(d // 2 - 1, 1))),
        ),
        "from-the-first": Variant(
            "You count the positions from the first token on: it never turns in yours. A token at "
            "position 7 turns by seven steps, whoever stands before it.",
            _rotation(lambda pos, i, d, base: (pos - pos[0])[:, None] * base ** (-2 * i / d)),
        ),
        "overwritten": Variant(
            "Your second number is made of the first one's new value. Both lines need the a and "
            "b of before: keep them.",
            _rotation(
                turn=lambda a, b, c, s: (a * c - b * s, (a * c - b * s) * s + b * c),
            ),
        ),
        "added": Variant(
            "You add the encoding to x. Rotary adds nothing: it turns, and a query keeps its "
            "length.",
            _rotation(
                turn=lambda a, b, c, s: (a + s, b + c),
            ),
        ),
        "no-minus": Variant(
            "Both lines have a plus: that is no rotation, lengths change. The first number of a "
            "pair becomes a cos − b sin.",
            _rotation(turn=lambda a, b, c, s: (a * c + b * s, a * s + b * c)),
        ),
        "stretched": Variant(
            "You multiply by the cosine and leave the sine out: the numbers of a pair must mix.",
            _rotation(turn=lambda a, b, c, s: (a * c, b * c)),
        ),
        "not-interleaved": Variant(
            "The pairs are turned correctly, but then all first numbers stand before all second "
            "ones. Put each number back where it was.",
            _rotation(join=_side_by_side),
        ),
    },
)


# --- stretched_angles -----------------------------------------------------------------------


LENGTHS = (
    "longer than trained",
    "four times as long",
    "one token longer",
    "as long as trained",
    "shorter than trained",
    "far longer",
    "one token",
)


def _stretched_case(kind, seed) -> Case | None:
    trained, half = unequal(seed, 2, 3, 8)
    trained = {"trained on one token": 1, "trained on 40 tokens": 40}.get(kind["trained"], trained)
    d_head = {"d_head 4": 4, "d_head 64": 64}.get(kind["d_head"], 2 * half)
    tokens = {
        "longer than trained": 2 * trained + 1,  # not a whole number of times as long
        "four times as long": 4 * trained,
        "one token longer": trained + 1,
        "as long as trained": trained,
        "shorter than trained": trained - 1,
        "far longer": 30 * trained + 7,
        "one token": 1,
    }[kind["length"]]
    if tokens == 0:
        return None
    if tokens == d_head // 2 and tokens > trained + 1:
        tokens += 1
    by = {} if kind["by"] == "by left out" else {"by": kind["by"]}
    return Case((tokens, d_head, trained), BASES[kind["base"]] | by)


def _stretched(
    when=lambda tokens, trained: tokens > trained,
    times=lambda tokens, trained: tokens / trained,
    where=lambda pos, s, tokens, trained: pos / s,
    new_base=lambda base, s, d: base * s ** (d / (d - 2)),
    done=lambda by: (by,),
    angles=lambda pos, i, d, base: pos[:, None] / base ** (2 * i / d),
    keeps_base=True,
    first=0,
):
    """Stretched angles with one part of it replaced; `done`: the ways that are gone."""

    def answer(tokens, d_head, trained, base=10000.0, by="positions"):
        pos, i = first + torch.arange(tokens).double(), torch.arange(d_head // 2).double()
        base = base if keeps_base else 10000.0
        if when(tokens, trained):
            s = times(tokens, trained)
            if "base" in done(by):
                base = new_base(base, s, d_head)
            if "positions" in done(by):
                pos = where(pos, s, tokens, trained)
        return angles(pos, i, d_head, base)

    return answer


def _late_tokens_alone(tokens, d_head, trained, base=10000.0, by="positions"):
    stretched = P.stretched_angles(tokens, d_head, trained, base, by)
    short = (torch.arange(tokens) < trained)[:, None]
    return torch.where(short, P.stretched_angles(tokens, d_head, tokens, base, by), stretched)


ASKED = {"tokens": 17, "d_head": 8, "trained": 6, "base": 10000.0, "by": "positions"}
OTHERS = {"by": "base", "base": 500.0, "trained": 5, "d_head": 12}


def _asked_again() -> list[Case]:
    """One case, then the same with one argument changed: who keeps what is told by all five."""

    def case(asked, note=""):
        tokens, d_head, trained, base, by = asked.values()
        return Case((tokens, d_head, trained), {"base": base, "by": by}, note=note)

    changed = [case(ASKED | {k: v}, f"asked again, with another {k}") for k, v in OTHERS.items()]
    # Where a step of trained / tokens does not come out even, `arange` gives one row too many.
    uneven = [Case((tokens, 6, 11), note=f"{tokens} tokens after 11") for tokens in (15, 30)]
    return [case(ASKED), *changed, *uneven]


def _kept_without_d_head(case, right):
    return P.stretched_angles(**ASKED) if case.note.endswith("another d_head") else right


def _keeps_too_much(cases, values, expected) -> Finding | None:
    """Right in each case alone, but what was made for one argument is given for another."""
    stale = []
    for case, value, right in zip(cases, values, expected, strict=True):
        if same(value, right, 1e-5, 0.01):
            continue
        if not case.note.startswith("asked again"):
            return None
        stale.append(f"`{case.note.split()[-1]}`")
    names = " or ".join(stale)
    return Finding(
        "keeps-state",
        f"Each call is right by itself. But ask again with another {names} and all else as "
        "before: your function gives the angles that it made for an earlier call. It keeps them, "
        f"and they depend on more than it looks at: on {names.replace(' or ', ' and ')}.",
    )


def _other_defaults(cases, values, expected) -> Finding | None:
    """Right wherever an argument is given, and wrong only where it is left out."""
    wrong = [
        case.kwargs
        for case, value, right in zip(cases, values, expected, strict=True)
        if not same(value, right, 1e-5, 0.01)
    ]
    for name, default in (("base", "10000"), ("by", '"positions"')):
        if len(wrong) > 2 and not any(name in given for given in wrong):
            return Finding(
                "default",
                f"Right wherever `{name}` is given. Where it is left out, your function takes "
                f"something else for it than {default}: look at its first line.",
            )
    return None


STRETCHED = Exercise(
    name="stretched_angles",
    lesson=LESSON,
    title="rotary: stretched for longer texts",
    domain=Domain(
        kinds={
            "length": LENGTHS,
            "trained": ("trained on some tokens", "trained on one token", "trained on 40 tokens"),
            "by": ("positions", "base", "by left out"),
            "d_head": ("some pairs", "d_head 4", "d_head 64"),
            "base": tuple(BASES),
        },
        make=_stretched_case,
        edges=("one token",),
    ),
    special=_asked_again,
    properties=(_keeps_too_much, _other_defaults),
    witness=P.stretched_angles,
    reference=P.stretched_angles,
    axes=("tokens", "d_head / 2"),
    hints=(
        "Without any stretching it is the table of angles that you made in `rotate_pairs`: a "
        "column of positions times a row of speeds. What do the two ways change in it, and what "
        "do they leave alone?",
        "One way changes the column of positions, the other one the base. Decide first whether "
        "anything is to be changed at all, and let s be a fraction: 2.5 times as long, not 2.",
        "Test it with the promises: by positions, the last row stays below `trained` times the "
        "speeds. By base, the first column is 0, 1, 2, … as ever, and the last one is s times as "
        "small as without stretching.",
    ),
    variants={
        "always": Variant(
            "You change the angles of a short text too: there s is below 1, and the hands turn "
            "faster than in training. A text that is not longer than those of training is left as "
            "it is.",
            _stretched(when=lambda tokens, trained: True),
        ),
        "never": Variant(
            "Nothing is stretched: these are the angles of `rotate_pairs`, however long the text.",
            _stretched(when=lambda tokens, trained: False),
        ),
        "faster": Variant(
            "You stretch the wrong way: the hands turn faster in a long text, not more slowly. Is "
            "your s below 1?",
            _stretched(times=lambda tokens, trained: trained / tokens),
        ),
        "positions-multiplied": Variant(
            "By base it is right. By positions you move them farther apart: positions that are s "
            "times as large leave the trained range even sooner.",
            _stretched(where=lambda pos, s, tokens, trained: pos * s),
        ),
        "base-times-s": Variant(
            "By positions it is right. By base you multiply by s alone: then the slowest pair is "
            "not yet s times as slow. The exponent d / (d − 2) is missing.",
            _stretched(new_base=lambda base, s, d: base * s),
        ),
        "exponent-inverted": Variant(
            "By positions it is right. By base your exponent is upside down: it is d / (d − 2), a "
            "little more than 1.",
            _stretched(new_base=lambda base, s, d: base * s ** ((d - 2) / d)),
        ),
        "pairs-in-the-exponent": Variant(
            "By positions it is right. In the exponent of the base you took the number of pairs "
            "for d. It is d_head, the number of numbers.",
            _stretched(new_base=lambda base, s, d: base * s ** (d / 2 / (d / 2 - 2 or torch.nan))),
        ),
        "base-powered": Variant(
            "By positions it is right. By base you raise the product, base · s, to the power d / "
            "(d − 2). The exponent belongs to s alone.",
            _stretched(new_base=lambda base, s, d: (base * s) ** (d / (d - 2))),
        ),
        "positions-only": Variant(
            "You always stretch the positions: `by` is not looked at.",
            _stretched(done=lambda by: ("positions",)),
        ),
        "base-only": Variant(
            "You always change the base: `by` is not looked at.",
            _stretched(done=lambda by: ("base",)),
        ),
        "both-at-once": Variant(
            "You change positions and base together: the slowest pair is then s² times as slow. "
            "`by` says which one of the two.",
            _stretched(done=lambda by: ("positions", "base")),
        ),
        "base-on-top": Variant(
            "By positions it is right. By base you divide the positions too: one change is enough.",
            _stretched(done=lambda by: {"base": ("positions", "base")}.get(by, (by,))),
        ),
        "positions-on-top": Variant(
            "By base it is right. By positions you change the base too: one change is enough.",
            _stretched(done=lambda by: {"positions": ("positions", "base")}.get(by, (by,))),
        ),
        "cut-off": Variant(
            "By positions, all tokens beyond the trained length get the same place in yours. No "
            "two of them can be told apart.",
            _stretched(where=lambda pos, s, tokens, trained: pos.clamp(max=trained - 1)),
        ),
        "wrapped": Variant(
            "By positions, your text starts again at 0 after the trained length (`%`). Tokens that "
            "stand far apart get the same place.",
            _stretched(where=lambda pos, s, tokens, trained: pos % trained),
        ),
        "last-on-last": Variant(
            "By positions, your last token lands exactly on position trained − 1. That is another "
            "rule, close to the one above, which divides every position by s.",
            _stretched(where=lambda pos, s, tokens, trained: pos * (trained - 1) / (tokens - 1)),
        ),
        "only-the-rest": Variant(
            "By positions, you divide only those beyond the trained length, and they land among "
            "the others. All positions are divided, from the first on.",
            _stretched(
                where=lambda pos, s, tokens, trained: torch.where(pos < trained, pos, pos / s)
            ),
        ),
        "whole-times": Variant(
            "Your s is a whole number (`//`). A text that is 2.3 times as long is stretched 2.3 "
            "times.",
            _stretched(times=lambda tokens, trained: tokens // trained),
        ),
        "floored": Variant(
            "Your stretched positions are rounded down to whole numbers: neighbours fall on the "
            "same place. Positions between two whole numbers are what this way is about.",
            _stretched(where=lambda pos, s, tokens, trained: (pos * trained / tokens).floor()),
        ),
        "base-fixed": Variant(
            "Right for base 10000 only: the argument `base` is not used.",
            _stretched(keeps_base=False),
        ),
        "exponent-i": Variant(
            "Your speeds fall too slowly: the exponent is −2i / d_head, with i the number of the "
            "pair.",
            _stretched(angles=lambda pos, i, d, base: pos[:, None] / base ** (i / d)),
        ),
        "from-one": Variant(
            "Your positions start at 1. The first one is 0, and its hands do not turn at all.",
            _stretched(angles=lambda pos, i, d, base: (pos[:, None] + 1) / base ** (2 * i / d)),
        ),
        "transposed": Variant(
            "The numbers are right, the table is lying on its side: one row a token, one column a "
            "pair.",
            _stretched(angles=lambda pos, i, d, base: pos / base ** (2 * i / d)[:, None]),
        ),
        "ways-swapped": Variant(
            "The two ways have changed places: you change the base where `by` says positions, and "
            "the positions where it says base.",
            _stretched(done=lambda by: ("base",) if by == "positions" else ("positions",)),
        ),
        "from-one-stretched": Variant(
            "Your positions start at 1, before they are stretched. The first one is 0, and its "
            "hands do not turn at all.",
            _stretched(first=1),
        ),
        "pairs-from-one": Variant(
            "Your pairs are counted from 1. The first one is pair 0: its speed is 1, whatever the "
            "base.",
            _stretched(angles=lambda pos, i, d, base: pos[:, None] / base ** (2 * (i + 1) / d)),
        ),
        "rounded-up": Variant(
            "Your s is rounded up to a whole number. A text that is 2.3 times as long is stretched "
            "2.3 times.",
            _stretched(times=lambda tokens, trained: -(-tokens // trained)),
        ),
        "one-token-less": Variant(
            "In your s there is one token less than in the text. It says how many times as long as "
            "in training the text is: count all its tokens.",
            _stretched(times=lambda tokens, trained: (tokens - 1) / trained),
        ),
        "late-tokens-alone": Variant(
            "You stretch only the rows beyond the trained length; those before them are left as in "
            "a short text. A long text is stretched as a whole, from its first token on.",
            _late_tokens_alone,
        ),
        "base-powered-always": Variant(
            "By positions it is right. By base you raise the product, base · s, to the power d / "
            "(d − 2). The exponent belongs to s alone: where s is 1, the base stays as it is.",
            _stretched(
                when=lambda tokens, trained: True,
                times=lambda tokens, trained: max(tokens / trained, 1),
                new_base=lambda base, s, d: (base * s) ** (d / (d - 2)),
            ),
        ),
        "brackets-lost": Variant(
            "By positions it is right. By base your exponent is −1: without brackets, d / d − 2 "
            "is (d / d) − 2.",
            _stretched(new_base=lambda base, s, d: base * s ** (d / d - 2)),
        ),
        "whole-exponent": Variant(
            "By positions it is right. By base your exponent is a whole number (`//`). It is a "
            "fraction, a little more than 1.",
            _stretched(new_base=lambda base, s, d: base * s ** (d // (d - 2))),
        ),
        "ever-faster": Variant(
            "Your exponent has lost its minus: it is −2i / d_head. In yours each pair turns faster "
            "than the one before it.",
            _stretched(angles=lambda pos, i, d, base: pos[:, None] * base ** (2 * i / d)),
        ),
        "full-turns-left-out": Variant(
            "You leave out the full turns, by % 2π. The hands would point the same way, but asked "
            "is how far they have turned in all.",
            _stretched(
                angles=lambda pos, i, d, base: pos[:, None] / base ** (2 * i / d) % (2 * torch.pi)
            ),
        ),
        "kept-without-d_head": Variant(
            "Each call is right by itself. But ask again with another `d_head` and all else as "
            "before: your function gives the angles that it made for an earlier call. It keeps "
            "them, and they depend on more than it looks at: on `d_head`.",
            spoil=_kept_without_d_head,
        ),
    },
)


# --- alibi_bias -----------------------------------------------------------------------------


HEADS = {f"{n} head" + "s" * (n > 1): n for n in (4, 8, 1, 2, 16, 64)}


def _bias_case(kind, seed) -> Case | None:
    [tokens] = unequal(seed, 1, 3, 7)
    tokens = {"one token": 1, "20 tokens": 20, "150 tokens": 150}.get(kind["tokens"], tokens)
    n_heads = HEADS[kind["heads"]]
    if n_heads > 4 and tokens > 20:
        return None  # millions of numbers would show nothing new
    return Case((n_heads, tokens + (tokens == n_heads > 1)))


def alibi_bias(n_heads, tokens):
    """ALiBi's bias (heads, queries, keys) for n_heads, a power of two."""
    where = torch.arange(tokens)
    return P.ALiBi(n_heads)(where, where)


def _bias(slopes=None, distance=None, join=None):
    def answer(n_heads, tokens):
        i, where = torch.arange(n_heads), torch.arange(tokens)
        slope = slopes(i, n_heads) if slopes else 2.0 ** (-8 * (i + 1) / n_heads)
        away = (distance or (lambda q, k: (q - k).abs()))(where[:, None], where)
        bias = -slope[:, None, None] * away
        return join(bias) if join else bias

    return answer


ALIBI = Exercise(
    name="alibi_bias",
    lesson=LESSON,
    title="ALiBi: a penalty for distance",
    domain=Domain(
        kinds={
            "heads": tuple(HEADS),
            "tokens": ("some tokens", "one token", "20 tokens", "150 tokens"),
        },
        make=_bias_case,
        edges=("one token",),
    ),
    witness=alibi_bias,
    reference=alibi_bias,
    axes=("heads", "queries", "keys"),
    hints=(
        "Two tables: how far is each key from each query (tokens, tokens), and how steep is each "
        "head (heads,). The rest is one product.",
        "`where[:, None] - where` is the table of differences. Which sign has a key after the "
        "query, and what does the task say of it?",
        "Eight heads: 1/2, 1/4, …, 1/256. Four heads: 1/4, 1/16, 1/64, 1/256. In both the last is "
        "2⁻⁸; the steps between are equal in the exponent.",
    ),
    variants={
        "rewarded": Variant(
            "Your bias is positive: it draws attention to what is far. It should push it away.",
            _bias(join=lambda bias: -bias),
        ),
        "halves-always": Variant(
            "Right for eight heads only: your slopes are 1/2, 1/4, 1/8, … whatever their number. "
            "The last of n heads always has 2⁻⁸.",
            _bias(lambda i, n: 2.0 ** -(i + 1.0)),
        ),
        "floored": Variant(
            "The exponent is rounded to a whole number in yours (`//`): with 16 heads every two "
            "would be alike. It is 8h / n, with its fraction.",
            _bias(lambda i, n: 2.0 ** (-8 * (i + 1) // n)),
        ),
        "from-zero": Variant(
            "Your first head has slope 1: the count starts at 1, the first slope is 2^(−8/n).",
            _bias(lambda i, n: 2.0 ** (-8 * i / n)),
        ),
        "one-slope": Variant(
            "All heads have the same slope. Different slopes let one head look near and another "
            "far.",
            _bias(lambda i, n: torch.full((n,), 2.0 ** (-8 / n))),
        ),
        "reversed": Variant(
            "The slopes are right, in the reverse order: head 0 is the steepest.",
            _bias(lambda i, n: 2.0 ** (-8 * (n - i) / n)),
        ),
        "signed": Variant(
            "Keys after the query are rewarded: their difference is negative, and minus a negative "
            "number is a bonus. Distance has no sign. (Behind a causal mask nobody would notice.)",
            _bias(distance=lambda q, k: q - k),
        ),
        "squared": Variant(
            "Your penalty grows with the square of the distance; it grows with the distance.",
            _bias(distance=lambda q, k: (q - k) ** 2),
        ),
        "past-only": Variant(
            "Keys after the query have bias 0. To forbid them is the mask's work; the bias is the "
            "same in both directions.",
            _bias(distance=lambda q, k: (q - k).clamp(min=0)),
        ),
        "last-query": Variant(
            "Every query gets the same row in yours, that of the last one. Asked for is the "
            "distance of each key from each query. (Behind a causal mask the softmax would not "
            "notice: it does not change when a whole row of scores is shifted.)",
            _bias(distance=lambda q, k: (k.max() - k).expand(len(k), -1)),
        ),
        "starts-at-a-half": Variant(
            "Right for eight heads only: your slopes go from 1/2 to 1/256 whatever their number. "
            "The last is always 2⁻⁸, the first is 2^(−8/n).",
            _bias(lambda i, n: 2.0 ** (-1 - 7 * i / max(n - 1, 1))),
        ),
        "even-steps": Variant(
            "Your slopes fall by the same amount from head to head. They fall by the same "
            "*factor*: it is the exponent that goes in even steps.",
            _bias(lambda i, n: 0.5 - (0.5 - 2.0**-8) * i / max(n - 1, 1)),
        ),
        "one-too-far": Variant(
            "Your distances are one too large: a token is at distance 0 from itself, and its bias "
            "is 0.",
            _bias(distance=lambda q, k: (q - k).abs() + 1),
        ),
        "heads-last": Variant(
            "The numbers are right, the heads' axis stands last: (heads, queries, keys).",
            _bias(join=lambda bias: bias.permute(1, 2, 0)),
        ),
        "masked": Variant(
            "The future is −inf in yours: that is the causal mask, and attention brings its own.",
            _bias(
                join=lambda bias: bias.masked_fill(
                    torch.ones_like(bias[0]).triu(1).bool(), -torch.inf
                )
            ),
        ),
    },
)


# --- score_at_distances (graded) ------------------------------------------------------------


APART = tuple(kind.replace("position", "distance") for kind in WHERE)
FAR_APART = FAR.replace("position", "distance")


def _distance_case(kind, seed) -> Case | None:
    half, count = unequal(seed, 2, 3, 7)
    d_head = {"d_head 2": 2, "d_head 32": 32}.get(kind["sizes"], 2 * half)
    where = kind["distances"]
    if where == FAR_APART and d_head > 2:
        return None
    q, k = randn(seed, (d_head,), (d_head,))
    if kind["numbers"] == "numbers in the hundreds":
        q, k = 100 * q, 100 * k
    elif kind["numbers"] == "the key equal to the query":
        k = q.clone()
    elif kind["numbers"] != "ordinary numbers":
        (q if kind["numbers"] == "a query of zeros" else k).zero_()
    if where == "one distance":
        distances = torch.tensor([seed % 9 + 2])
    else:
        distances = _places(where.replace("distance", "position"), count, seed, d_head)
    return Case((q, k, distances), BASES[kind["base"]], gradients=False)  # numbers are asked for


def _far_out(q, k, distances, base=10000.0, layout="interleaved"):
    """Both turned, somewhere far from position 0, in double precision."""
    rotary = P.Rotary(len(q), base, layout).double()
    start = torch.full((len(distances),), 20)  # any place will do
    queries, keys = (t.double().expand(len(distances), -1) for t in (q, k))
    return (rotary(queries, start + distances) * rotary(keys, start)).sum(-1).to(q.dtype)


DISTANCES = Exercise(
    name="score_at_distances",
    lesson=LESSON,
    title="the score by distance (graded)",
    domain=Domain(
        kinds={
            "distances": (APART[0], "one distance", *APART[1:]),
            "sizes": ("some pairs", "d_head 2", "d_head 32"),
            "numbers": (
                "ordinary numbers",
                "the key equal to the query",
                "a query of zeros",
                "a key of zeros",
                "numbers in the hundreds",
            ),
            "base": tuple(BASES),
        },
        make=_distance_case,
        edges=(FAR_APART, "a query of zeros", "a key of zeros"),
    ),
    properties=(_negative(2),),
    witness=_far_out,
    axes=("distances",),
    tolerance=2e-5,
    hints=(
        "The score depends on the distance alone. So you are free to choose where the key stands. "
        "Which position makes the turning of the key vanish?",
        "`rotate_pairs` takes (batch, heads, tokens, d_head) and one position for each token. Your "
        "query can stand at all the distances at once: one token for each of them.",
        "`q.expand(1, 1, len(distances), -1)` is the same query once for each distance, with a "
        "batch and a head of one. What comes back has those two axes as well.",
    ),
    variants={
        "scaled": Variant(
            "You divide by √d_head. Asked for is the bare score q·k.",
            spoil=lambda case, right: right / len(case.args[0]) ** 0.5,
        ),
        "other-way": Variant(
            "Your distances run the other way: it is the query that stands `distance` tokens "
            "after the key.",
            spoil=lambda case, right: _far_out(
                case.args[0], case.args[1], -case.args[2], **case.kwargs
            ),
        ),
        "split-half": Variant(
            "You pair number i with i + d_head / 2. In this lesson's layout neighbours belong "
            "together.",
            spoil=lambda case, right: _far_out(*case.args, **case.kwargs, layout="split-half"),
        ),
        "both-turned": Variant(
            "The score is the same at all distances: turned by the same angle, or not at all, "
            "query and key keep their dot product. Only one of them may move.",
            spoil=lambda case, right: (case.args[0] @ case.args[1]).expand(len(right)),
        ),
        "no-direction": Variant(
            "Yours gives the same for a query before the key and for one after it. The score does "
            "depend on the direction: a negative distance turns the other way.",
            spoil=lambda case, right: _far_out(
                case.args[0], case.args[1], case.args[2].abs(), **case.kwargs
            ),
        ),
        "counted": Variant(
            "You count the distances yourself, 0, 1, 2, …, and never look at `distances`.",
            spoil=lambda case, right: _far_out(
                case.args[0], case.args[1], torch.arange(len(right)), **case.kwargs
            ),
        ),
        "one-angle": Variant(
            "All pairs turn equally fast in yours.",
            spoil=lambda case, right: _pairs(case, lambda i, d: 0 * i).sum(-1),
        ),
        "twice": Variant(
            "Yours turns by twice the angle: query and key both move, in opposite directions.",
            spoil=lambda case, right: _far_out(
                case.args[0], case.args[1], 2 * case.args[2], **case.kwargs
            ),
        ),
        "base-fixed": Variant(
            "Right for base 10000 only: the argument `base` is not used.",
            spoil=lambda case, right: _far_out(*case.args),
        ),
        "cosine": Variant(
            "You divide by the lengths of the two vectors. Asked for is the bare score q·k.",
            spoil=lambda case, right: (
                right / (case.args[0].norm() * case.args[1].norm()).clamp(min=1e-12)
            ),
        ),
        "no-cross": Variant(
            "You weaken what each pair contributes by the cosine of its angle. That is half of a "
            "turn: it also mixes the two numbers of a pair, by the sine.",
            spoil=lambda case, right: (
                (
                    _far_out(*case.args, **case.kwargs)
                    + _far_out(case.args[0], case.args[1], -case.args[2], **case.kwargs)
                )
                / 2
            ),
        ),
        "sorted": Variant(
            "You sort the distances, and your scores come in that order. Give them in the order "
            "of `distances`.",
            spoil=lambda case, right: right[case.args[2].argsort()],
        ),
        "not-summed": Variant(
            "You give what each pair contributes; the score is their sum.",
            spoil=lambda case, right: _pairs(case, lambda i, d: -2 * i / d),
        ),
    },
)


def _pairs(case, exponent):
    """What each pair adds to the score, (distances, pairs), by complex numbers."""
    q, k, distances = case.args
    base, d = case.kwargs.get("base", 10000.0), len(q)
    point_q, point_k = (torch.view_as_complex(t.view(-1, 2)) for t in (q, k))
    angle = distances[:, None] * base ** exponent(torch.arange(d // 2), d)
    turned = point_q * point_k.conj() * torch.polar(torch.ones_like(angle.float()), angle.float())
    return turned.real


# --- find the bug ---------------------------------------------------------------------------


def _linear() -> list[Case]:
    (x,) = randn(0, (2, 3, 5, 6))
    twice = Twin(
        0,
        lambda base, this: (2 * base, this),
        "not-linear",
        "Twice the input does not give twice the output. A rotation is linear.",
    )
    where = torch.arange(5)
    return [Case((x, where)), Case((2 * x, where), note="everything twice as long", twin=twice)]


def apply_rotary(x, where):
    """Turn each pair (2i, 2i + 1) of x by position · 10000^(-2i / d_head)."""
    return rotate_pairs(x, where)


def _by_tables(cos_of, sin_of, partner_of, exponent=lambda i, half: -i / half):
    def answer(x, positions):
        half = x.shape[-1] // 2
        angles = positions[:, None] * 10000.0 ** exponent(torch.arange(half), half)
        return x * cos_of(angles.cos()) + partner_of(x) * sin_of(angles.sin())

    return answer


def _doubled(t):
    return torch.cat([t, t], -1)


def _repeated(t):
    return t.repeat_interleave(2, -1)


def _same(t):
    return t


def _both(i, half):
    """The numbers 0, 1, …, d_head − 1, where i counts the pairs only."""
    return torch.arange(2 * half)


def _neighbour(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def _other_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


BUG = Exercise(
    name="apply_rotary",
    lesson=LESSON,
    title="find the bug: two layouts",
    domain=Domain(kinds=ROTARY_KINDS, make=_rotary_case, edges=ROTARY_EDGES),
    special=_linear,
    properties=(_negative(1),),
    witness=apply_rotary,
    reference=apply_rotary,
    axes=("batch", "heads", "tokens", "d_head"),
    tolerance=2e-5,
    hints=(
        "Give it d_head = 4, a single token at position 1, and print `cos`. Which angle does each "
        "of the four numbers get?",
        "The two numbers of a pair must turn by one and the same angle. Which numbers are a pair "
        "in the line with `partner`?",
        "[t0, t1, t0, t1] or [t0, t0, t1, t1]? One of the two goes with neighbours. Look up "
        "`repeat_interleave`.",
    ),
    variants={
        "as given": Variant(
            "The bug is still in. At position 0 all is right; at position 1 the lengths of the "
            "pairs have changed, and a rotation changes no length.",
            _by_tables(_doubled, _doubled, _neighbour),
            to_do=True,
        ),
        "split-half": Variant(
            "Consistent now, and a good rotation, but of the pairs (i, i + d_head / 2). The "
            "docstring promises neighbours: leave `partner` as it is and look at the tables.",
            _by_tables(_doubled, _doubled, _other_half),
        ),
        "partner-changed": Variant(
            "Now the tables are made for neighbours and the partners are taken from the other "
            "half: the same disagreement, the other way round.",
            _by_tables(_repeated, _repeated, _other_half),
        ),
        "only-cos": Variant(
            "The cosines are fixed, the sines still go with the other layout.",
            _by_tables(_repeated, _doubled, _neighbour),
        ),
        "only-sin": Variant(
            "The sines are fixed, the cosines still go with the other layout.",
            _by_tables(_doubled, _repeated, _neighbour),
        ),
        "clockwise": Variant(
            "The tables are right now, but it turns the wrong way: the sign in `partner` was "
            "right as it stood.",
            _by_tables(_repeated, _repeated, lambda x: -_neighbour(x)),
        ),
        "no-minus": Variant(
            "The tables are right now, but the minus in `partner` is gone: no rotation without it.",
            _by_tables(
                _repeated,
                _repeated,
                lambda x: torch.stack([x[..., 1::2], x[..., ::2]], -1).flatten(-2),
            ),
        ),
        "each-its-own": Variant(
            "Every number has an angle of its own in yours. The two of a pair turn by the same "
            "angle, and there are only d_head / 2 of them.",
            _by_tables(_same, _same, _neighbour, lambda i, half: -_both(i, half) / (2 * half)),
        ),
        "not-put-back": Variant(
            "The neighbours are turned correctly, but then all first numbers stand before all "
            "second ones. Put each number back where it was. (To change the two tables is enough.)",
            lambda x, positions: _rotation(join=_side_by_side)(x, positions),
        ),
        "frequencies": Variant(
            "The tables are right now, but the frequencies have changed: i / half was right, for "
            "half is d_head / 2.",
            _by_tables(_repeated, _repeated, _neighbour, lambda i, half: -2 * i / half),
        ),
    },
)

EXERCISES = [SINUSOIDAL, ROTATE, ALIBI, DISTANCES, BUG, STRETCHED]
QUESTIONS = [
    Item(
        "03-order",
        LESSON,
        "The six words are given in another order, without positions. What happens to the output "
        "for the word cat?",
        (
            Option(
                "it changes: cat has other neighbours now",
                "To attention there are no neighbours. It sees a set of keys, and the set is the "
                "same.",
            ),
            Option(
                "it stays the same, up to rounding",
                "Yes. It stands in another row now, and its numbers are the same: a sum does not "
                "depend on the order of its terms.",
                right=True,
            ),
            Option(
                "it becomes what the word in cat's new place had before",
                "A row of the output belongs to the word of that row, not to its place. Nothing "
                "here knows a place.",
            ),
        ),
    ),
    Item(
        "03-shift",
        LESSON,
        "Query and key both move 100 tokens to the right. What does the rotary score do?",
        (
            Option(
                "it becomes smaller",
                "Nothing shrinks: turning keeps lengths, and both have turned by the same angles.",
            ),
            Option(
                "it turns by 100 angles",
                "Both hands turn by these angles. The angle between the two stays as it was.",
            ),
            Option(
                "nothing",
                "Yes: the dot product depends on the angle between them, and that one depends on "
                "the distance.",
                right=True,
            ),
        ),
    ),
    Item(
        "03-longer",
        LESSON,
        "Trained on 64 characters, tested on 128. Which of the two, waves or learned vectors, "
        "lets the model read beyond the 64th character as well as before it?",
        (
            Option(
                "the waves: their formula goes on for ever",
                "The formula does. The layers that read it have never seen what it gives beyond "
                "64. A figure further down shows what comes of it.",
            ),
            Option(
                "both",
                "The rows of the learned table beyond 64 were never trained: they are as random "
                "as at the start. A figure further down shows what comes of it.",
            ),
            Option(
                "neither",
                "Yes: both lose much, as a figure further down shows. A formula that goes on is "
                "not enough. The layers that read it have to go on too.",
                right=True,
            ),
        ),
    ),
    Item(
        "03-fair",
        LESSON,
        "Learned positions with a small stream have a lower loss than sinusoidal ones with a "
        "stream × √d. What follows?",
        (
            Option(
                "learned vectors are better positions than waves",
                "That may be so. But the two runs differ in more than the kind of position: which "
                "difference made the loss lower?",
            ),
            Option(
                "to multiply by √d does harm",
                "That may be so. But the two runs also differ in the kind of position: which "
                "difference made the loss lower?",
            ),
            Option(
                "neither: two things differ at once",
                "Yes. To tell them apart, each of the two has to be changed alone. That takes two "
                "more arms.",
                right=True,
            ),
        ),
    ),
    Item(
        "03-quiz-number",
        LESSON,
        "Why not simply add the position's number, 0, 1, 2, …, to the embedding?",
        (
            Option(
                "it cannot be computed for long texts",
                "It could: it is the easiest of all.",
            ),
            Option(
                "at position 1000 it would drown the word",
                "Yes. A vector whose numbers are about 1 becomes 1000 in all directions; sines "
                "and cosines stay between −1 and 1.",
                right=True,
            ),
            Option(
                "two positions would get the same number",
                "They would all be different. That is not what is wrong with it.",
            ),
        ),
    ),
    Item(
        "03-quiz-values",
        LESSON,
        "Rotary turns queries and keys. Why not the values?",
        (
            Option(
                "they would have to be turned back",
                "Yes: the output is a mixture of values. Turned ones would carry their absolute "
                "position into the output. The distance belongs into the score.",
                right=True,
            ),
            Option("it would cost too much", "It would cost half as much again: little enough."),
            Option(
                "values have an odd number of entries",
                "They usually have d_head numbers, as queries and keys have.",
            ),
        ),
    ),
    Item(
        "03-quiz-layout",
        LESSON,
        "You load a checkpoint whose rotary layout is split-half into a model that pairs "
        "neighbours. What do you see?",
        (
            Option(
                "an error: the shapes do not fit",
                "All shapes are the same. That is what makes it dangerous.",
            ),
            Option(
                "no error; the model writes worse text",
                "Yes, silently. Only a comparison with the original's output shows it, or "
                "permuting the rows of W_q and W_k.",
                right=True,
            ),
            Option(
                "nothing: the two are equal",
                "They are equal up to a permutation, and somebody has to do the permutation.",
            ),
        ),
    ),
]
