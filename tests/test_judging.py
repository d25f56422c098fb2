"""The engine: cases from a domain, and what is said about what goes wrong in them."""

import torch
import torch.nn.functional as F

from tests.wrong_answers import attempts
from tfcourse.checks.covering import all_kinds, cover, make_case
from tfcourse.checks.exercise import Case, Domain, Exercise, Finding, Variant, randn, unequal
from tfcourse.checks.judging import judge
from tfcourse.checks.registry import exercises
from tfcourse.checks.running import collect


def _make(kind, seed):
    rows, columns = unequal(seed, 2)
    if kind["sizes"] == "one row":
        rows = 1
    [x] = randn(seed, (rows, columns))
    if kind["numbers"] == "a row of zeros":
        if rows == 1:
            return None
        x[0] = 0
    if kind["numbers"] == "large numbers":
        x = x * 1e4
    return Case((x,), nan=("zero", "Right but for the row of zeros."))


def share(x):
    """Every row divided by its sum of squares; zeros where that is zero."""
    total = x.square().sum(-1, keepdim=True)
    return torch.where(total > 0, x / total.clamp_min(1e-30), 0.0)


DOMAIN = Domain(
    kinds={
        "sizes": ("unequal sizes", "one row"),
        "numbers": ("ordinary numbers", "a row of zeros", "large numbers"),
    },
    make=_make,
    edges=("a row of zeros",),
)
SHARE = Exercise(
    name="share",
    lesson="00_start_here",
    title="share",
    domain=DOMAIN,
    witness=share,
    axes=("rows", "columns"),
    hints=("a", "b", "c"),
    forbids=("normalize",),
    variants={
        "no-square": Variant("Squares.", lambda x: x / x.sum(-1, keepdim=True)),
        "over-rows": Variant("Rows.", lambda x: x / x.square().sum(0)),
    },
)


def verdict_of(answer):
    return judge(SHARE, collect(answer, [case.inputs() for case in SHARE.cases()]))


def test_cases_cover_the_domain():
    cases = SHARE.cases()
    assert cases is SHARE.cases()
    assert set(all_kinds(DOMAIN)) == {"sizes", "numbers", "layout", "precision"}
    assert cases[0].note == ""
    assert cases[-1].note == "the same inputs again"
    assert torch.equal(cases[0].args[0], cases[-1].args[0])
    assert {case.args[0].dtype for case in cases} == {torch.float32, torch.float64}
    assert not all(case.args[0].is_contiguous() for case in cases)
    assert any(case.edge for case in cases)
    assert all(("a row of zeros" in case.note) == case.edge for case in cases)
    assert len({case.seed for case in cases}) == len(cases)
    assert not any("one row" in c.note and "zeros" in c.note for c in cases)
    assert cover(DOMAIN) == cover(DOMAIN)


def test_sizes_are_different_from_each_other_and_from_seed_to_seed():
    assert all(len(set(unequal(seed, 5))) == 5 for seed in range(50))
    assert len({tuple(unequal(seed, 5)) for seed in range(50)}) > 40
    assert {n for seed in range(50) for n in unequal(seed, 3, 1, 4)} == {1, 2, 3, 4}


def test_right():
    verdict = verdict_of(share)
    assert verdict.right
    assert verdict.message == f"Right, in all {len(SHARE.cases())} cases, and so are the gradients."


def test_only_nan_is_wrong():
    verdict = verdict_of(lambda x: x / x.square().sum(-1, keepdim=True))
    assert (verdict.diagnosis, verdict.message) == ("zero", "Right but for the row of zeros.")


def test_nan_and_wrong_besides():
    verdict = verdict_of(lambda x: 3 * x / x.square().sum(-1, keepdim=True))
    assert verdict.diagnosis == "nan"
    assert "a row of zeros" in verdict.message


def test_a_known_answer_is_told_although_it_differs_at_the_edge():
    def no_square(x):
        total = x.sum(-1, keepdim=True)
        return torch.where(total == 0, 7.0, x / total)

    assert verdict_of(no_square).diagnosis == "no-square"


def test_an_error_late_does_not_hide_a_mistake_early():
    def both(x):
        if (x == 0).any():
            raise ValueError("zeros")
        return x / x.square().sum(0)

    assert verdict_of(both).diagnosis == "over-rows"


def test_an_error_at_the_edge_is_told_with_what_worked():
    def picky(x):
        if (x == 0).any():
            raise ValueError("zeros")
        return share(x)

    verdict = verdict_of(picky)
    assert verdict.diagnosis == "raised"
    assert "ValueError: zeros. That was for x (" in verdict.message
    assert "(a row of zeros" in verdict.message
    assert "It did run for x (" in verdict.message


def test_a_tensor_as_a_condition_is_told_in_words():
    def asks_the_tensor(x):
        return share(x) if x else x

    verdict = verdict_of(asks_the_tensor)
    assert verdict.diagnosis == "raised"
    assert "is ambiguous. An `if` needs one True or False" in verdict.message
    assert "write `is not None`. That was for x (" in verdict.message


def test_what_cannot_bear_another_layout_or_precision():
    flat = verdict_of(lambda x: share(x.view(-1).view(x.shape)))
    assert flat.diagnosis == "raised"
    assert "tensors transposed in memory" in flat.message
    single = verdict_of(lambda x: share(x) @ torch.eye(x.shape[1]))
    assert single.diagnosis == "raised"
    assert "float64" in single.message


def test_half_precision_has_to_come_back_as_such_and_may_be_rounded():
    def in_half(kind, seed):
        return Case((randn(seed, (3, 4))[0].to(torch.float16),))

    stays = {"precision": "half is the type that is asked for"}
    domain = Domain({"numbers": ("ordinary numbers",)}, in_half, without=stays)
    half = Exercise("share", "00_test", "in half", lambda x: x.exp(), ("", "", ""), domain)

    def verdict(answer):
        return judge(half, collect(answer, [case.inputs() for case in half.cases()]))

    assert verdict(lambda x: x.float().exp().to(x.dtype)).right
    assert verdict(lambda x: x.float().exp().to(x.dtype) * 1.001).right
    assert verdict(lambda x: x.exp() * 1.01).diagnosis == "differs"
    for other in (torch.float32, torch.bfloat16):
        told = verdict(lambda x, other=other: x.float().exp().to(other))
        assert told.diagnosis == "dtype"
        assert "torch.float16 is expected" in told.message


def test_unwanted_randomness_is_told_as_such():
    assert verdict_of(lambda x: F.dropout(share(x), 0.5)).diagnosis == "random"


def test_a_function_that_does_the_exercise_is_told():
    verdict = verdict_of(lambda x: share(F.normalize(x)))
    assert verdict.diagnosis == "library-call"
    assert "ready-made `normalize`" in verdict.message


def test_gradients_at_the_edge_must_be_finite():
    def broken_slope(x):
        total = x.square().sum(-1, keepdim=True)
        return torch.where(total > 0, x / total, 0.0)  # 0/0 behind the `where`

    verdict = verdict_of(broken_slope)
    assert verdict.diagnosis == "gradient-nan"
    assert "a row of zeros" in verdict.message


def test_no_gradient_and_another_gradient():
    assert verdict_of(lambda x: share(x.detach())).diagnosis == "no-gradient"
    half = verdict_of(lambda x: (share(x) + share(x.detach())) / 2)
    assert half.diagnosis == "gradient"


def test_what_is_left_of_large_gradients_that_cancel_is_rounding():
    """One key in the context: its weight is 1 whatever the query is. The norm gets 0 ± rounding."""
    exercise = exercises()["DecoderBlock"]
    [answer] = [a.answer for a in attempts() if a.answer.__name__ == "SequenceBySequence"]
    kinds = {name: options[0] for name, options in all_kinds(exercise.domain).items()}
    kinds |= {"sizes": "one key in the context", "numbers": "a context about 5"}
    case = make_case(exercise.domain, kinds, 0)
    assert judge(exercise, collect(answer, [case.inputs()]), [case]).right


def test_the_contrast_is_a_case_like_any_other():
    verdict = verdict_of(lambda x: share(x) if len(x) > 1 else share(x) + 1)
    assert verdict.diagnosis == "differs"
    assert "one row" in verdict.message.split("Right for")[0]
    assert "zeros" not in verdict.message.split("Right for")[1]


def test_numbers_that_print_alike_get_more_digits():
    verdict = verdict_of(lambda x: share(x) + 1e-4)
    mine, want = verdict.message.split("yours ")[1].split(". ")[0].split(", expected ")
    assert mine != want


def test_gradients_of_weights_are_looked_at():
    class Scale(torch.nn.Module):
        def __init__(self, frozen=False):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            return x * self.scale

    class Frozen(Scale):
        def forward(self, x):
            return x * self.scale.detach()

    make = lambda kind, seed: Case(  # noqa: E731
        tuple(randn(seed, (2, 3))), build={}, weights={"scale": torch.tensor(2.0)}
    )
    exercise = Exercise(
        name="Scale", lesson="00_start_here", title="scale", witness=Scale, hints=("a", "b", "c"),
        domain=Domain(kinds={"numbers": ("ordinary",)}, make=make),
    )  # fmt: skip
    outputs = lambda answer: collect(answer, [c.inputs() for c in exercise.cases()])  # noqa: E731
    assert judge(exercise, outputs(Scale)).right
    assert judge(exercise, outputs(Frozen)).diagnosis == "no-gradient"


def _pieces(kind, seed):
    q, *rest = randn(seed, (2, 3), *[(n, 3) for n in (1, 2, 3)] * 2)
    tiles = list(zip(rest[:3], rest[3:], strict=True))
    few = kind["numbers"] == "few at a time"
    return Case((q, tiles), largest=30 if few else None, gradients=not few)


def gather(q, tiles):
    """A sum over pairs of tensors in a list."""
    return sum((q @ k.T) @ v for k, v in tiles)


GATHER = Exercise(
    name="gather", lesson="00_start_here", title="gather", witness=gather, hints=("a", "b", "c"),
    domain=Domain(kinds={"numbers": ("ordinary", "few at a time")}, make=_pieces),
)  # fmt: skip


def verdict_of_gathering(answer):
    return judge(GATHER, collect(answer, [case.inputs() for case in GATHER.cases()]))


def test_tensors_in_a_list_are_inputs_like_any_other():
    assert verdict_of_gathering(gather).right
    frozen = verdict_of_gathering(lambda q, tiles: gather(q, [(k, v.detach()) for k, v in tiles]))
    assert frozen.diagnosis == "no-gradient"
    for spoil in (lambda tiles: tiles.pop(), lambda tiles: tiles[1][0].zero_()):

        def spoiling(q, tiles, spoil=spoil):
            result = gather(q, tiles)
            with torch.no_grad():
                spoil(tiles)
            return result

        verdict = verdict_of_gathering(spoiling)
        assert verdict.diagnosis == "changes-input"
        assert "`tiles`" in verdict.message
    said = GATHER.describe(GATHER.cases()[0])
    assert said == "q (2, 3), tiles [((1, 3), (1, 3)), ((2, 3), (2, 3)), ((3, 3), (3, 3))]"


def test_a_tensor_that_is_larger_than_needed_is_told():
    def at_once(q, tiles):
        k, v = (torch.cat(parts) for parts in zip(*tiles, strict=True))
        return (q @ k.T) @ v

    verdict = verdict_of_gathering(at_once)
    assert verdict.diagnosis == "holds-too-much"
    assert "hold 54 numbers" in verdict.message
    stretched = verdict_of_gathering(lambda q, tiles: gather(q.expand(9, 2, 3)[4], tiles))
    assert stretched.right


def test_properties_decide_where_many_values_are_right():
    def not_twice_the_same(cases, values, expected):
        if all(torch.equal(value, values[0]) for value in values):
            return Finding("fixed", "It is the same at each call.")
        return None

    exercise = Exercise(
        name="noise", lesson="00_start_here", title="noise", hints=("a", "b", "c"),
        witness=lambda x: x + torch.randn(5), properties=(not_twice_the_same,),
        domain=Domain(
            kinds={"numbers": ("ordinary", "zeros")},
            make=lambda kind, seed: Case((torch.ones(5),), random=True),
            without={"precision": "the noise has a precision of its own"},
        ),
    )  # fmt: skip
    outputs = lambda answer: collect(answer, [c.inputs() for c in exercise.cases()])  # noqa: E731
    assert len(exercise.cases()) == 2
    assert judge(exercise, outputs(lambda x: x + torch.rand(5))).right
    fixed = torch.randn(5)
    assert judge(exercise, outputs(lambda x: x + fixed)).diagnosis == "fixed"


def _words(kind, seed):
    words = ["a", "b", "ab"] if kind["words"] == "three" else []
    return Case((words,), gradients=False)


ENDS = Exercise(
    name="ends", lesson="00_start_here", title="ends", hints=("a", "b", "c"),
    witness=lambda words: [word + "." for word in words],
    domain=Domain(kinds={"words": ("three", "none")}, make=_words),
)  # fmt: skip
PAIR = Exercise(
    name="pair", lesson="00_start_here", title="pair", hints=("a", "b", "c"),
    witness=lambda words: ("a", "b"),
    domain=Domain(kinds={"words": ("three", "none")}, make=_words),
)  # fmt: skip


def said_of(exercise, answer):
    verdict = judge(exercise, collect(answer, [case.inputs() for case in exercise.cases()]))
    return verdict.diagnosis, verdict.message


def test_lists_of_strings():
    assert said_of(ENDS, lambda words: [f"{word}." for word in words])[0] == "right"
    diagnosis, message = said_of(ENDS, lambda words: tuple(word + "." for word in words))
    assert (diagnosis, message.split(".")[0]) == (
        "type", "Your code gave a tuple of 3; a list is expected"
    )  # fmt: skip
    diagnosis, message = said_of(ENDS, lambda words: [(word, ".") for word in words])
    assert diagnosis == "type"
    assert "Your list holds a tuple of 2, ('a', '.'); strings are expected." in message
    # One more or less is a matter of value: both lists are shown.
    diagnosis, message = said_of(ENDS, lambda words: [word + "." for word in words][:2])
    assert diagnosis == "differs"
    assert "For words = ['a', 'b', 'ab']: yours ['a.', 'b.'], expected" in message
    diagnosis, message = said_of(ENDS, lambda words: " ".join(words))
    assert (diagnosis, message.split(".")[0]) == (
        "type", "Your code gave a string; a list is expected"
    )  # fmt: skip


def test_a_pair_of_strings_is_a_tuple_of_two():
    assert said_of(PAIR, lambda words: ("a", "b"))[0] == "right"
    for other in (["a", "b"], ("a", "b", "c"), ("a", 2), "ab", ()):
        assert said_of(PAIR, lambda words, other=other: other)[0] == "type", other
    assert said_of(PAIR, lambda words: ("b", "a"))[0] == "differs"


def test_a_list_that_is_changed_is_told_without_tensors():
    def pops(words):
        return [words.pop(0) + "." for _ in range(len(words))]

    diagnosis, message = said_of(ENDS, pops)
    assert diagnosis == "changes-input"
    assert "changes `words` itself" in message
    assert "tensor" not in message


def _two(kind, seed):
    x, w = randn(seed, (2, 3), (4, 3))
    return Case((x * (kind["numbers"] != "zeros"), w))


def beside(x, w):
    return x @ w.detach().T


FROZEN = Exercise(
    name="beside", lesson="00_start_here", title="beside", hints=("a", "b", "c"),
    domain=Domain(kinds={"numbers": ("ordinary", "zeros")}, make=_two),
    witness=beside, frozen=("w",),
)  # fmt: skip


def test_what_is_frozen_gets_no_gradient():
    assert said_of(FROZEN, beside)[0] == "right"
    diagnosis, message = said_of(FROZEN, lambda x, w: x @ w.T)
    assert diagnosis == "not-frozen"
    assert "a gradient reaches `w`" in message
    assert said_of(FROZEN, lambda x, w: (x @ w.T).detach())[0] == "no-gradient"
    diagnosis, message = said_of(FROZEN, lambda x, w: (beside(x, w) + beside(x.detach(), w)) / 2)
    assert diagnosis == "gradient"
    assert "the gradient of `x` is not" in message


def test_no_gradient_is_as_good_as_one_of_zeros():
    square = Exercise(
        name="square", lesson="00_start_here", title="square", hints=("a", "b", "c"),
        domain=FROZEN.domain, witness=lambda x, w: x.square(),
    )  # fmt: skip
    assert said_of(square, lambda x, w: x.square() if x.any() else torch.zeros(2, 3))[0] == "right"
    assert said_of(square, lambda x, w: x.detach().square())[0] == "no-gradient"
