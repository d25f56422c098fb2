"""LoRA: nothing changes at first, only the small matrices learn, and merging changes nothing.

And the study: what its loss counts, when an answer is right, what its rules say.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tfcourse.adapters import LoRALinear, add_lora, lora, merge, small_matrices
from tfcourse.checkpoints import read, save_model, write
from tfcourse.claims.claim import CANNOT_TELL, HOLDS, NOT_HERE, ONLY_IF
from tfcourse.experiments import verdicts
from tfcourse.experiments.adapters import ARMS, CLAIMS, FULL, LORA, NONE, loss_of, on_dates
from tfcourse.generation import generate
from tfcourse.models import LanguageModel, Transformer, TransformerConfig, count_parameters
from tfcourse.tokens import BytePairEncoding
from tfcourse.training import fit

NAMES = ("attention.qkv", "feed_forward.down")
TOKENS = torch.tensor([[1, 5, 2, 7, 3], [4, 4, 0, 6, 8]])


def new(**options):
    torch.manual_seed(0)
    config = {"n_kv_heads": 2, "gated": True, "norm": "rms", "tied": True, **options}
    return LanguageModel(TransformerConfig(9, 24, 4, 2, **config)).eval()


def trained(model, steps=5):
    """The model after some steps, and the loss of each."""

    def loss():
        return F.cross_entropy(model(TOKENS[:, :-1]).mT, TOKENS[:, 1:])

    return model, fit(model, loss, steps=steps, learning_rate=1e-2)


@pytest.mark.parametrize("rank", [1, 3])
def test_it_is_the_formula(rank):
    torch.manual_seed(0)
    x, weight = torch.randn(2, 5, 7).double(), torch.randn(4, 7).double()
    a, b = torch.randn(rank, 7).double(), torch.randn(4, rank).double()
    wanted = x @ (weight + 6 / rank * b @ a).T
    assert (lora(x, weight, a, b, 6) - wanted).abs().max() < 1e-12


def test_no_gradient_reaches_the_published_matrix():
    torch.manual_seed(0)
    given = [torch.randn(*size).requires_grad_() for size in ((2, 3, 7), (4, 7), (2, 7), (4, 2))]
    x, weight, a, b = given
    lora(*given, 16).square().sum().backward()
    assert weight.grad is None
    assert all(tensor.grad.abs().max() > 0 for tensor in (x, a, b))


@pytest.mark.parametrize("bias", [True, False])
def test_alpha_over_rank_is_what_the_product_counts(bias):
    """With rank 4 and alpha 8 it counts twice, before merging and after."""
    torch.manual_seed(0)
    linear = nn.Linear(7, 5, bias=bias)
    around = LoRALinear(linear, rank=4, alpha=8)
    with torch.no_grad():
        around.b.normal_()
    x = torch.randn(3, 7)
    wanted = linear(x) + 2 * (x @ around.a.T @ around.b.T)
    assert (around(x) - wanted).abs().max() < 1e-5
    assert (around.merged()(x) - wanted).abs().max() < 1e-5
    assert type(around.merged()) is nn.Linear
    assert (around.merged().bias is None) == (not bias)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_small_matrices_are_of_the_weights_type(dtype):
    around = LoRALinear(nn.Linear(6, 4).to(dtype), rank=2)
    assert around.a.dtype == around.b.dtype == around.merged().weight.dtype == dtype
    assert around(torch.ones(1, 6, dtype=dtype)).dtype == dtype


def test_nothing_changes_before_training():
    model = new()
    before = model(TOKENS)
    assert add_lora(model, rank=4, names=NAMES) is model
    assert torch.equal(model(TOKENS), before)


def test_only_the_small_matrices_learn():
    model = new()
    before = copy.deepcopy(model.state_dict())
    add_lora(model, rank=3, names=NAMES)
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    assert learning == {
        f"blocks.{i}.{name}.{part}" for i in range(2) for name in NAMES for part in "ab"
    }
    _, losses = trained(model)
    assert losses[-1] < losses[0]
    after = model.state_dict()
    frozen = {name.replace(".linear.", "."): name for name in after if name not in learning}
    assert frozen.keys() == before.keys()
    assert all(torch.equal(before[plain], after[name]) for plain, name in frozen.items())
    assert all(p.grad is None for n, p in model.named_parameters() if n not in learning)
    assert all(after[name].abs().max() > 0 for name in learning)  # B too has left zero


def test_merged_it_says_the_same_and_is_a_plain_model():
    model, _ = trained(add_lora(new(), rank=4, names=NAMES))
    with torch.no_grad():
        said, plain = model(TOKENS), new()(TOKENS)
        assert (said - plain).abs().max() > 0.01  # something was learned
        assert merge(model) is model
        assert (model(TOKENS) - said).abs().max() < 1e-5
    assert model.state_dict().keys() == new().state_dict().keys()
    assert not [m for m in model.modules() if isinstance(m, LoRALinear)]
    assert count_parameters(model) == count_parameters(new())
    assert all(p.requires_grad for p in model.parameters())
    assert model.head.weight is model.embed.tokens.weight
    assert add_lora(model, rank=2) is model  # and once more


def test_with_a_cache_it_says_the_same():
    model, _ = trained(add_lora(new(), names=("attention.qkv",)))
    caches = model.new_caches()
    with torch.no_grad():
        parts = [model(part, caches=caches) for part in TOKENS.split(2, dim=1)]
        assert (torch.cat(parts, dim=1) - model(TOKENS)).abs().max() < 1e-5


def test_what_has_to_be_kept_is_small(tmp_path):
    model, _ = trained(add_lora(new(), rank=2, names=NAMES))
    kept = small_matrices(model)
    # in each of two blocks: qkv 24 -> 48 and down 64 -> 24, rank 2
    assert sum(tensor.numel() for tensor in kept.values()) == 2 * 2 * (24 + 48 + 64 + 24)
    write(tmp_path / "small", kept, {"rank": 2})
    save_model(tmp_path / "all", merge(copy.deepcopy(model)))
    assert (tmp_path / "small").stat().st_size < 0.2 * (tmp_path / "all").stat().st_size
    other = add_lora(new(), rank=2, names=NAMES)
    other.load_state_dict(read(tmp_path / "small")[0], strict=False)
    assert torch.equal(other(TOKENS), model(TOKENS))


def test_smollm2s_share():
    """Rank 8 on qkv: 0.3 of a hundred of its numbers learn."""
    from tfcourse.models import PRESETS

    with torch.device("meta"):
        model = add_lora(LanguageModel(PRESETS["smollm2-135m"]), rank=8)
    learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert learning == 30 * 8 * (576 + 960) == 368_640


A, B, W, X = torch.ones(2, 7), torch.ones(4, 2), torch.ones(4, 7), torch.ones(1, 3, 7)
LINEAR = nn.Linear(6, 4)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: lora([1.0], W, A, B, 1), TypeError, "x must be a tensor .*d_in=7.* Got list"),
        (lambda: lora(torch.ones(3, 6), W, A, B, 1), ValueError, r"x must have d_in=7.*\(3, 6\)"),
        (lambda: lora(X.long(), W, A, B, 1), TypeError, "x must hold floats. Got torch.int64"),
        (lambda: lora(X, W[0], A, B, 1), ValueError, r"weight must be \(d_out, d_in\). Got \(7,\)"),
        (lambda: lora(X, W, A.T, B, 1), ValueError, r"a must be \(rank, d_in=7\).*Got \(7, 2\)"),
        (lambda: lora(X, W, A[:0], B, 1), ValueError, r"rank at least 1. Got \(0, 7\)"),
        (lambda: lora(X, W, A, B.T, 1), ValueError, r"b must be \(d_out=4, rank=2\). Got \(2, 4\)"),
        (lambda: lora(X, W, A, None, 1), TypeError, "b must be a tensor .* Got NoneType"),
        (lambda: lora(X, W, A, B, "16"), TypeError, "alpha must be a number. Got '16'"),
        (lambda: LoRALinear(X), TypeError, "linear must be an nn.Linear. Got Tensor"),
        (lambda: LoRALinear(LINEAR, rank=5), ValueError, r"rank must be at most 4.*\(4, 6\).*5"),
        (lambda: LoRALinear(LINEAR, rank=0), ValueError, "rank must be at least 1. Got 0"),
        (lambda: LoRALinear(LINEAR, alpha=-1), ValueError, "alpha must be at least 0.* Got -1"),
        (lambda: add_lora(LINEAR), TypeError, "model must be a model with blocks. Got Linear"),
        (lambda: add_lora(None), TypeError, "model must be a model with blocks. Got NoneType"),
        (lambda: add_lora(new(), names="attention.qkv"), TypeError, "names must be a list"),
        (lambda: add_lora(new(), names=()), TypeError, r"names must be a list.* Got \(\)"),
        (lambda: add_lora(new(), names=[3]), TypeError, r"names must be a list.* Got \[3\]"),
        (lambda: add_lora(new(), names=("q",)), ValueError, "of attention.qkv, .*Got 'q'"),
        (lambda: add_lora(new(), rank=99), ValueError, "rank must be at most 24"),
        (lambda: add_lora(add_lora(new())), ValueError, r"merge\(model\) first"),
        (lambda: merge(new()), ValueError, r"add_lora\(model\) first"),
        (lambda: small_matrices(new()), ValueError, r"add_lora\(model\) first"),
        (lambda: merge("model"), TypeError, "model must be a model with blocks. Got str"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_a_name_that_does_not_fit_changes_nothing():
    model = new()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="names must be of .* Got 'mlp'"):
        add_lora(model, names=("attention.qkv", "mlp"))
    assert model.state_dict().keys() == before.keys()
    assert all(p.requires_grad for p in model.parameters())


def test_where_a_small_matrix_would_not_be_seen():
    """Cross-attention reads rows out of the matrix, past anything that stands beside it."""
    model = Transformer(TransformerConfig(9, 24, 4, 2))
    with pytest.raises(ValueError, match="Got 'cross_attention.qkv'"):
        add_lora(model, names=("cross_attention.qkv",))
    source, before = TOKENS[:, :3], model.eval()(TOKENS, TOKENS)
    add_lora(model, names=("attention.qkv", "cross_attention.out"))
    assert torch.equal(model(TOKENS, TOKENS), before)
    assert model(source, TOKENS).shape == (2, 5, 9)


# --- the study ------------------------------------------------------------------------------

TEXTS = [("3 mar 2021", "2021-03-03"), ("wednesday 3 march 1999", "1999-03-03")]
CUT = BytePairEncoding.train("march wednesday " * 4, 262, digits=True)


def reader(seed=0):
    torch.manual_seed(seed)
    return LanguageModel(TransformerConfig(CUT.size, 32, 4, 2)).eval()


def test_the_loss_is_that_of_the_answers_alone():
    model, nats, count = reader(), 0.0, 0
    for date, answer in TEXTS:  # one by one: nothing is filled up
        given, wanted = CUT.encode(f"{date} => "), CUT.encode(f"{answer}\n")
        said = model(torch.tensor([given + wanted]))[0, len(given) - 1 : -1].log_softmax(-1)
        nats -= said.gather(1, torch.tensor(wanted)[:, None]).sum().item()
        count += len(wanted)
    assert count == 22
    assert loss_of(model, CUT, TEXTS).item() == pytest.approx(nats / count, rel=1e-5)


def written(model, texts):
    """The share of right answers, written one token after the other."""
    prompts = [CUT.encode(f"{date} => ") for date, _ in texts]
    [stop] = CUT.encode("\n")
    found = generate(model, prompts, 12, temperature=0, stop=stop)
    return sum(CUT.decode(ids) == text for ids, (_, text) in zip(found, texts, strict=True)) / 2


@pytest.mark.parametrize(
    ("answer", "share"), [("1999-03-03", 1.0), ("1999-03-04", 0.5), ("1999-03-0", 0.5)]
)
def test_an_answer_is_right_as_if_it_were_written(answer, share):
    model, texts = reader(), [TEXTS[0], (TEXTS[1][0], answer)]
    assert on_dates(model, CUT, texts)[1] == written(model, texts) == 0
    fit(model, lambda: loss_of(model, CUT, TEXTS), steps=60, learning_rate=1e-2)
    assert on_dates(model, CUT, texts)[1] == written(model, texts) == share
    assert on_dates(model, CUT, texts)[0] == pytest.approx(loss_of(model, CUT, texts).item())


def results(**of_lora):
    """Five seeds of each arm; LoRA as full fine-tuning is, but for what is given."""
    full = {"loss": 0.1, "exact": 0.9, "bits per byte": 1.2, "seconds a step": 2.0}
    values = {FULL: full, LORA: full | of_lora, NONE: full | {"exact": 0.0, "bits per byte": 1.0}}
    count = {FULL: 100, LORA: 1}
    noise = (0, 1e-4, 2e-4, 1e-4, 0)
    runs = [
        {"arm": arm, "parameters": count.get(arm, 0)}
        | {key: value + (e if arm == LORA else 0) for key, value in values[arm].items()}
        for arm in ARMS
        if arm in values
        for e in noise
    ]
    return {"runs": runs}


@pytest.mark.parametrize(
    ("lora_is", "on_par", "less"),
    [
        ({"loss": 0.09, "bits per byte": 1.3}, HOLDS, NOT_HERE),
        ({}, HOLDS, CANNOT_TELL),
        ({"loss": 0.2, "exact": 0.7, "bits per byte": 1.1}, NOT_HERE, HOLDS),
        ({"loss": 0.2, "exact": 0.99, "bits per byte": 1.3}, ONLY_IF, NOT_HERE),
        ({"loss": 0.05, "exact": 0.7, "bits per byte": 1.1}, ONLY_IF, NOT_HERE),
        ({"loss": 0.1049, "exact": 0.9, "bits per byte": 1.19995}, CANNOT_TELL, CANNOT_TELL),
    ],
)
def test_every_verdict_can_come_out(lora_is, on_par, less):
    found = verdicts(CLAIMS, results(**lora_is))
    assert found["lora-on-par"] == on_par
    assert found["lora-learns-and-forgets-less"] == less


@pytest.mark.parametrize(("seconds", "said"), [(1.0, HOLDS), (2.0, CANNOT_TELL), (2.1, NOT_HERE)])
def test_a_step_must_take_less_time(seconds, said):
    assert verdicts(CLAIMS, results(**{"seconds a step": seconds}))["lora-throughput"] == said


def test_where_nobody_learns_nobody_is_on_par():
    found = results(exact=0.1)
    for run in found["runs"]:
        run["exact"] = 0.1
    assert verdicts(CLAIMS, found)["lora-on-par"] == CANNOT_TELL
