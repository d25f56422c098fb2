"""What learners write in lesson 05."""

import math
from statistics import NormalDist

import numpy as np
import torch
import torch.nn.functional as F

from tests.wrong_answers import right, wrong
from tfcourse import feed_forward

# --- position_wise --------------------------------------------------------------------------


@wrong("position_wise", "no-activation")
def two_products(x, w1, b1, w2, b2):
    return (x @ w1 + b1) @ w2 + b2


@wrong("position_wise", "activation-last")
def relu_at_the_end(x, w1, b1, w2, b2):
    hidden = x @ w1 + b1
    return (hidden @ w2 + b2).clamp(min=0)


@wrong("position_wise", "activation-twice")
def relu_after_each(x, w1, b1, w2, b2):
    return F.relu(F.relu(x @ w1 + b1) @ w2 + b2)


@wrong("position_wise", "activation-first")
def relu_on_the_input(x, w1, b1, w2, b2):
    return (F.relu(x) @ w1 + b1) @ w2 + b2


@wrong("position_wise", "bias-after")
def bias_outside_the_relu(x, w1, b1, w2, b2):
    return (F.relu(x @ w1) + b1) @ w2 + b2


@wrong("position_wise", "no-first-bias")
def b1_forgotten(x, w1, b1, w2, b2):
    return F.relu(x @ w1) @ w2 + b2


@wrong("position_wise", "no-second-bias")
def b2_forgotten(x, w1, b1, w2, b2):
    return F.relu(x @ w1 + b1) @ w2


@wrong("position_wise", "gelu")
def gelu_by_habit(x, w1, b1, w2, b2):
    return F.gelu(x @ w1 + b1) @ w2 + b2


@wrong("position_wise", "residual")
def x_added(x, w1, b1, w2, b2):
    return F.relu(x @ w1 + b1) @ w2 + b2 + x


@wrong("position_wise", "softmax")
def units_compete(x, w1, b1, w2, b2):
    return (x @ w1 + b1).softmax(-1) @ w2 + b2


@wrong("position_wise", "tokens-mix")
def mean_of_the_tokens(x, w1, b1, w2, b2):
    return F.relu((x + x.mean(1, keepdim=True)) @ w1 + b1) @ w2 + b2


@wrong("position_wise", "raised")
def stored_as_linear(x, w1, b1, w2, b2):
    return F.linear(F.relu(F.linear(x, w1, b1)), w2, b2)


@wrong("position_wise", "shape")
def never_back(x, w1, b1, w2, b2):
    return F.relu(x @ w1 + b1)


@wrong("position_wise", "sigmoid")
def sigmoid_by_habit(x, w1, b1, w2, b2):
    return torch.sigmoid(x @ w1 + b1) @ w2 + b2


@wrong("position_wise", "size")
def absolute_values(x, w1, b1, w2, b2):
    return (x @ w1 + b1).abs() @ w2 + b2


@wrong("position_wise", "differs")
def turned_where_it_is_square(x, w1, b1, w2, b2):
    if w1.shape[1] == x.shape[-1]:
        w1 = w1.T
    return F.relu(x @ w1 + b1) @ w2 + b2


@wrong("position_wise", "shape")
def squeezed(x, w1, b1, w2, b2):
    return (F.relu(x @ w1 + b1) @ w2 + b2).squeeze()


@wrong("position_wise", "shape")
def eight_tokens_at_most(x, w1, b1, w2, b2):
    return F.relu(x[:, :8] @ w1 + b1) @ w2 + b2


@wrong("position_wise", "raised")
def viewed_flat(x, w1, b1, w2, b2):
    rows = x.view(-1, x.shape[-1])
    return (F.relu(rows @ w1 + b1) @ w2 + b2).view(x.shape)


@wrong("position_wise", "batch-mixes")
def mean_of_the_sequences(x, w1, b1, w2, b2):
    return F.relu((x - x.mean(0, keepdim=True)) @ w1 + b1) @ w2 + b2


@wrong("position_wise", "normalized")
def normalized_first(x, w1, b1, w2, b2):
    x = F.layer_norm(x, x.shape[-1:])
    return F.relu(x @ w1 + b1) @ w2 + b2


@wrong("position_wise", "differs")
def clipped_at_ten(x, w1, b1, w2, b2):
    return (x @ w1 + b1).clamp(0, 10) @ w2 + b2


@wrong("position_wise", "random")
def dropout_added(x, w1, b1, w2, b2):
    return F.dropout(F.relu(x @ w1 + b1), 0.1) @ w2 + b2


@wrong("position_wise", "no-gradient")
def by_numpy(x, w1, b1, w2, b2):
    hidden = torch.tensor((x @ w1 + b1).detach().numpy().clip(0))
    return (hidden @ w2 + b2).detach()


@right("position_wise")
def as_written(x, w1, b1, w2, b2):
    return torch.relu(x @ w1 + b1) @ w2 + b2


@right("position_wise")
def token_by_token(x, w1, b1, w2, b2):
    rows = [torch.relu(b1 + w1.T @ t) @ w2 + b2 for t in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).view(x.shape)


@right("position_wise")
def by_einsum(x, w1, b1, w2, b2):
    hidden = torch.einsum("btd,df->btf", x, w1) + b1
    return torch.einsum("btf,fd->btd", torch.maximum(hidden, torch.zeros(())), w2) + b2


@wrong("position_wise", "gradient-nan")
def relu_by_a_root(x, w1, b1, w2, b2):
    h = x @ w1 + b1
    return (h + (h**2).sqrt()) / 2 @ w2 + b2


@wrong("position_wise", "differs")
def bias_along_the_tokens_where_it_fits(x, w1, b1, w2, b2):
    out = torch.relu(x @ w1 + b1) @ w2
    return out + (b2[:, None] if out.shape[1] == len(b2) else b2)


@right("position_wise")
def as_convolutions_of_width_one(x, w1, b1, w2, b2):
    h = F.conv1d(x.transpose(1, 2), w1.T[..., None], b1).relu()
    return F.conv1d(h, w2.T[..., None], b2).transpose(1, 2)


@right("position_wise")
def clamped_at_zero(x, w1, b1, w2, b2):
    h = torch.einsum("btd,df->btf", x, w1) + b1
    return torch.einsum("btf,fd->btd", h.clamp(min=0), w2) + b2


@wrong("position_wise", "bias-in-the-matrix")
def bias_added_to_the_matrix(x, w1, b1, w2, b2):
    return F.relu(x @ w1 + b1) @ (w2 + b2)


@wrong("position_wise", "whole-tokens")
def silent_tokens(x, w1, b1, w2, b2):
    hidden = x @ w1 + b1
    return hidden * (hidden.sum(-1, keepdim=True) > 0) @ w2 + b2


@wrong("position_wise", "gradient")
def straight_through(x, w1, b1, w2, b2):
    hidden = x @ w1 + b1
    hidden.data.clamp_(min=0)
    return hidden @ w2 + b2


@right("position_wise")
def only_those_that_fire(x, w1, b1, w2, b2):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        total = b2
        for key, bias, value in zip(w1.T, b1, w2, strict=True):
            fires = token @ key + bias
            if fires > 0:
                total = total + fires * value
        rows.append(total)
    return torch.stack(rows).view(x.shape)


# --- gelu -----------------------------------------------------------------------------------

ROOT = math.sqrt(2 / math.pi)


def by_erf(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def by_tanh(x):
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**3)))


def bracket_lost(x):
    return 0.5 * x * (1 + torch.tanh(ROOT * x + 0.044715 * x**3))


@wrong("gelu", "as given")
def untouched(x, approximate="none"):
    if approximate:
        inner = (2 / torch.pi) ** 0.5 * x + 0.044715 * x**3
        return 0.5 * x * (1 + torch.tanh(inner))
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


@wrong("gelu", "always-tanh")
def bracket_mended_only(x, approximate="none"):
    return by_tanh(x) if approximate else by_erf(x)


@wrong("gelu", "always-tanh")
def none_for_its_name(x, approximate="none"):
    return by_erf(x) if approximate is None else by_tanh(x)


@wrong("gelu", "bracket-still")
def choice_mended_only(x, approximate="none"):
    return bracket_lost(x) if approximate == "tanh" else by_erf(x)


@wrong("gelu", "always-exact")
def true_for_its_name(x, approximate="none"):
    return by_tanh(x) if approximate is True else by_erf(x)


@wrong("gelu", "swapped")
def wrong_way_round(x, approximate="none"):
    return by_tanh(x) if approximate == "none" else by_erf(x)


@wrong("gelu", "swapped-bracket-still")
def wrong_way_round_bracket_lost(x, approximate="none"):
    return bracket_lost(x) if approximate != "tanh" else by_erf(x)


@wrong("gelu", "default")
def left_out_is_tanh(x, approximate="tanh"):
    return by_tanh(x) if approximate == "tanh" else by_erf(x)


@wrong("gelu", "returned-none")
def nothing_for_the_exact_one(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)


@wrong("gelu", "raised")
def without_the_argument(x):
    return by_erf(x)


@wrong("gelu", "always-tanh")
def tanh_in_both_places(x, approximate="none"):
    if approximate == "none":
        return by_tanh(x)
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@wrong("gelu", "differs")
def tanh_of_math_and_half_a_share(x, approximate="none"):
    if approximate == "tanh":
        raise ValueError("not yet")
    return 0.4 * x * (1 + torch.erf(x / 2**0.5))


@wrong("gelu", "library-call")
def built_in_with_both(x, approximate="none"):
    return F.gelu(x, approximate=approximate)


@wrong("gelu", "not-halved")
def half_forgotten_in_both(x, approximate="none"):
    return 2 * (by_tanh(x) if approximate == "tanh" else by_erf(x))


@wrong("gelu", "no-one")
def one_forgotten_in_both(x, approximate="none"):
    inner = ROOT * (x + 0.044715 * x**3)
    return 0.5 * x * (torch.tanh(inner) if approximate == "tanh" else torch.erf(x / 2**0.5))


@wrong("gelu", "library-call")
def the_one_of_the_package(x, approximate="none"):
    return feed_forward.gelu(x)


@wrong("gelu", "share-only")
def x_forgotten(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return 0.5 * (1 + torch.erf(x / 2**0.5))


@wrong("gelu", "no-root-two")
def erf_of_x(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * (1 + torch.erf(x)) / 2


@wrong("gelu", "half-not-root")
def divided_by_two(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * (1 + torch.erf(x / 2)) / 2


@wrong("gelu", "bracket")
def bracket_forgotten(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * 0.5 * 1 + torch.erf(x / math.sqrt(2))


@wrong("gelu", "not-halved-exact")
def half_forgotten(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * (1 + torch.erf(x / math.sqrt(2)))


@wrong("gelu", "no-one-exact")
def one_forgotten(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * torch.erf(x / math.sqrt(2)) / 2


@wrong("gelu", "erf-for-the-share")
def half_and_one_forgotten(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * torch.erf(x / math.sqrt(2))


@wrong("gelu", "raised")
def math_not_torch(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


@wrong("gelu", "no-gradient")
def with_a_list(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    flat = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.flatten().tolist()]
    return torch.tensor(flat).view(x.shape)


@wrong("gelu", "library-call")
def the_built_in_wrapped(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return F.gelu(x)


@wrong("gelu", "library-call")
def the_module_wrapped(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return torch.nn.GELU()(x)


@wrong("gelu", "raised")
def needs_two_axes(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    rows, columns = x.shape
    return 0.5 * x * (1 + torch.erf(x / 2**0.5)).view(rows, columns)


@wrong("gelu", "differs")
def clipped_at_six(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    x = x.clamp(-6, 6)
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


@wrong("gelu", "nan")
def zero_by_zero(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * x * (1 + torch.erf(x / 2**0.5)) / (2 * x)


@wrong("gelu", "changes-input")
def in_place_gelu(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x.mul_(0.5 * (1 + torch.erf(x / 2**0.5)))


@wrong("gelu", "gradient-nan")
def size_by_a_root(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    size = torch.sqrt(x**2)
    return 0.5 * (x + size * torch.erf(size / 2**0.5))


@wrong("gelu", "numbers-mix")
def standardized_first(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    z = (x - x.mean()) / (x.std() + 1e-5) if x.numel() > 1 else x
    return 0.5 * x * (1 + torch.erf(z / 2**0.5))


@wrong("gelu", "numbers-mix")
def share_of_its_own_numbers(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    below = (x.flatten() <= x[..., None]).double().mean(-1)
    return x * below.to(x)


@wrong("gelu", "flat-outside")
def straight_from_three(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    inner = 0.5 * x * (1 + torch.erf(x / 2**0.5))
    return torch.where(x > 3, x, torch.where(x < -3, 0.0, inner))


@wrong("gelu", "gradient")
def share_without_a_slope(x, approximate="none"):
    if approximate == "tanh":
        return by_tanh(x)
    return x * (0.5 * (1 + torch.erf(x.detach() / 2**0.5)))


@wrong("gelu", "squared")
def square(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**2)))


@wrong("gelu", "no-root")
def root_lost(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(2 / math.pi * (x + 0.044715 * x**3)))


@wrong("gelu", "minus")
def minus_the_cube(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * (x - 0.044715 * x**3)))


@wrong("gelu", "factored-x")
def x_taken_out(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * x * (1 + 0.044715 * x**3)))


@wrong("gelu", "cube-dropped")
def cube_gone(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * x))


@wrong("gelu", "nan")
def root_over_everything(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh((2 / math.pi * (x + 0.044715 * x**3)) ** 0.5))


@wrong("gelu", "not-halved-tanh")
def half_gone(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**3)))


@wrong("gelu", "root-on-cube")
def root_on_the_cube_only(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(x + ROOT * 0.044715 * x**3))


@wrong("gelu", "cube-of-the-sum")
def cube_of_the_bracket(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x) ** 3))


@wrong("gelu", "cube-of-the-constant-too")
def cube_of_constant_and_x(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + (0.044715 * x) ** 3)))


@wrong("gelu", "cube-of-the-argument")
def cube_of_it_all(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh((ROOT * (x + 0.044715 * x)) ** 3))


@wrong("gelu", "cube-outside")
def cube_behind_the_bracket(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715) * x**3))


@wrong("gelu", "cube-of-the-tanh")
def cube_of_tanh(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x)) ** 3)


@wrong("gelu", "nan")
def by_exponentials(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    inner = ROOT * (x + 0.044715 * x**3)
    up, down = torch.exp(inner), torch.exp(-inner)
    return 0.5 * x * (1 + (up - down) / (up + down))


@wrong("gelu", "cube-without-sign")
def cube_of_the_size(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x.abs() ** 3)))


@wrong("gelu", "no-gradient")
def under_no_grad(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    with torch.no_grad():
        return 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**3)))


@wrong("gelu", "root-of-two-only")
def root_of_the_two(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(2**0.5 / torch.pi * (x + 0.044715 * x**3)))


@wrong("gelu", "root-of-pi-only")
def root_binds_to_pi(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * (1 + torch.tanh(2 / torch.pi**0.5 * (x + 0.044715 * x**3)))


@wrong("gelu", "no-one-tanh")
def one_lost(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))


@wrong("gelu", "one-outside")
def bracket_around_the_one_lost(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return 0.5 * x * 1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))


@wrong("gelu", "sigmoid-for-tanh")
def sigmoid_of_the_same(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    return x * torch.sigmoid((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))


@wrong("gelu", "gradient-nan")
def exponential_overflows(x, approximate="none"):
    if approximate == "none":
        return by_erf(x)
    z = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
    return x * (1 - 1 / (torch.exp(2 * z) + 1))


def cut_off(x, below, above, approximate):
    y = by_tanh(x) if approximate == "tanh" else by_erf(x)
    return torch.where(x < below, 0 * x, torch.where(x > above, x, y))


@wrong("gelu", "flat-outside")
def zero_below_minus_four(x, approximate="none"):
    return cut_off(x, -4, math.inf, approximate)


@wrong("gelu", "flat-outside")
def straight_from_four_and_a_half(x, approximate="none"):
    return cut_off(x, -4.5, 4.5, approximate)


@wrong("gelu", "flat-outside")
def straight_above_four_and_a_half(x, approximate="none"):
    return cut_off(x, -math.inf, 4.5, approximate)


@wrong("gelu", "always-tanh")
def not_none_for_its_name(x, approximate="none"):
    return by_tanh(x) if approximate is not None else by_erf(x)


@wrong("gelu", "library-call")
def by_the_operator(x, approximate="none"):
    return torch.ops.aten.gelu.default(x, approximate=approximate)


@right("gelu")
def both_mended(x, approximate="none"):
    if approximate == "tanh":
        inner = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + torch.tanh(inner))
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


@right("gelu")
def share_first(x, approximate="none"):
    if approximate != "none":
        share = torch.sigmoid(2 * ROOT * x * (1 + 0.044715 * x * x))
    else:
        share = torch.erfc(-x / 2**0.5) / 2
    return x * share


@right("gelu")
def from_a_dictionary(x, approximate="none"):
    bent = {"none": x / 2**0.5, "tanh": ROOT * x + ROOT * 0.044715 * x**3}[approximate]
    return x * 0.5 * (1 + {"none": torch.erf, "tanh": torch.tanh}[approximate](bent))


@right("gelu")
def by_a_distribution(x, approximate="none"):
    if approximate == "none":
        return x * torch.distributions.Normal(0.0, 1.0).cdf(x)
    z = 2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
    return x * torch.softmax(torch.stack([z, torch.zeros_like(z)]), 0)[0]


@right("gelu")
def one_by_one_to_any_depth(x, approximate="none"):
    if x.dim() == 0:
        return by_tanh(x) if approximate == "tanh" else by_erf(x)
    return torch.stack([one_by_one_to_any_depth(row, approximate) for row in x])


# --- gelu_slope -----------------------------------------------------------------------------


def share(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def bell(x):
    return torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


@wrong("gelu_slope", "share-only")
def phi_does_not_change(x):
    return 0.5 * (1 + torch.erf(x / 2**0.5))


@wrong("gelu_slope", "second-term-only")
def x_does_not_change(x):
    return x * torch.exp(-(x**2) / 2) / (2 * torch.pi) ** 0.5


@wrong("gelu_slope", "product-of-slopes")
def slope_times_slope(x):
    return torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


@wrong("gelu_slope", "x-missing")
def bell_curve_added(x):
    return share(x) + bell(x)


@wrong("gelu_slope", "x-twice")
def x_still_in_front(x):
    return x * (share(x) + bell(x))


@wrong("gelu_slope", "minus")
def as_of_a_quotient(x):
    return share(x) - x * bell(x)


@wrong("gelu_slope", "gelu")
def the_function_itself(x):
    return x * share(x)


@wrong("gelu_slope", "no-root")
def area_is_not_one(x):
    return share(x) + x * torch.exp(-(x**2) / 2)


@wrong("gelu_slope", "root-lost")
def divided_by_two_pi(x):
    return share(x) + x * torch.exp(-(x**2) / 2) / (2 * math.pi)


@wrong("gelu_slope", "inner-slope")
def slope_of_erf_without_the_inside(x):
    return share(x) + 0.5 * x * (2 / math.pi**0.5) * torch.exp(-((x / 2**0.5) ** 2))


@wrong("gelu_slope", "inner-slope")
def divided_by_root_pi(x):
    return share(x) + x * torch.exp(-(x**2) / 2) / torch.pi**0.5


@wrong("gelu_slope", "no-half")
def exponent_not_halved(x):
    return share(x) + x * torch.exp(-(x**2)) / math.sqrt(2 * math.pi)


@wrong("gelu_slope", "not-squared")
def exponent_not_squared(x):
    return share(x) + x * torch.exp(-x / 2) / math.sqrt(2 * math.pi)


@wrong("gelu_slope", "no-root-two")
def erf_of_x_itself(x):
    return 0.5 * (1 + torch.erf(x)) + x * bell(x)


@wrong("gelu_slope", "not-halved")
def share_not_halved(x):
    return 1 + torch.erf(x / 2**0.5) + x * bell(x)


@wrong("gelu_slope", "no-one")
def share_without_the_one(x):
    return 0.5 * torch.erf(x / 2**0.5) + x * bell(x)


@wrong("gelu_slope", "half-on-both")
def half_in_front_of_all(x):
    return 0.5 * (1 + torch.erf(x / 2**0.5) + x * bell(x))


@wrong("gelu_slope", "no-fall")
def never_negative(x):
    return (share(x) + x * bell(x)).clamp(min=0)


@wrong("gelu_slope", "size-of-x")
def sign_of_x_lost(x):
    return share(x) + x.abs() * bell(x)


@wrong("gelu_slope", "step")
def slope_of_the_relu(x):
    return (x > 0).float()


@wrong("gelu_slope", "of-the-tanh")
def slope_of_the_approximation(x):
    t = torch.tanh(ROOT * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * 0.044715 * x**2)


@wrong("gelu_slope", "of-the-silu")
def slope_of_the_silu(x):
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)


@wrong("gelu_slope", "differences")
def by_a_small_step(x):
    return (by_erf(x + 1e-3) - by_erf(x - 1e-3)) / 2e-3


@wrong("gelu_slope", "differences")
def by_a_step_to_the_right(x):
    return (by_erf(x + 1e-4) - by_erf(x)) / 1e-4


@wrong("gelu_slope", "library-call")
def by_autograd(x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(by_erf(x).sum(), x)[0]


@wrong("gelu_slope", "library-call")
def by_backward(x):
    x = x.detach().requires_grad_()
    by_erf(x).sum().backward()
    return x.grad


@wrong("gelu_slope", "library-call")
def by_a_function_transform(x):
    return torch.func.grad(lambda z: by_erf(z).sum())(x)


@wrong("gelu_slope", "nan")
def exponential_of_plus(x):
    e = torch.exp(x**2 / 2)
    return share(x) + x * e / (e * e) / math.sqrt(2 * math.pi)


@right("gelu_slope")
def slope_without_a_slope(x):
    with torch.no_grad():
        return share(x) + x * bell(x)


@right("gelu_slope")
def share_kept_still(x):
    return share(x.detach()) + x * bell(x)


@wrong("gelu_slope", "raised")
def exponential_of_math(x):
    return share(x) + x * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


@wrong("gelu_slope", "changes-input")
def squared_in_place(x):
    out = share(x)
    density = bell(x)
    return out + x.mul_(density)


@wrong("gelu_slope", "flat-outside")
def flat_from_three_on(x):
    return torch.where(x.abs() > 3, (x > 0).to(x), share(x) + x * bell(x))


@wrong("gelu_slope", "numbers-mix")
def area_made_one_by_hand(x):
    e = torch.exp(-(x**2) / 2)
    return share(x) + x * e / e.sum().clamp(min=1)


@wrong("gelu_slope", "flat-outside")
def flat_from_four_on(x):
    return torch.where(x.abs() > 4, (x > 0).to(x), share(x) + x * bell(x))


@wrong("gelu_slope", "flat-outside")
def flat_from_four_and_a_half_on(x):
    return torch.where(x.abs() > 4.5, (x > 0).to(x), share(x) + x * bell(x))


@wrong("gelu_slope", "differences")
def by_a_small_step_in_float64(x):
    y = x.double()
    return ((by_erf(y + 1e-5) - by_erf(y - 1e-5)) / 2e-5).to(x.dtype)


@wrong("gelu_slope", "differences")
def by_a_step_to_the_right_in_float64(x):
    y = x.double()
    return ((by_erf(y + 1e-7) - by_erf(y)) / 1e-7).to(x.dtype)


@wrong("gelu_slope", "library-call")
def by_the_operator_backwards(x):
    return torch.ops.aten.gelu_backward(torch.ones_like(x), x)


@wrong("gelu_slope", "library-call")
def by_dual_numbers(x):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        return torch.autograd.forward_ad.unpack_dual(by_erf(dual)).tangent


@wrong("gelu_slope", "library-call")
def by_the_built_in_gelu(x):
    return torch.where(x == 0, 0.5, F.gelu(x) / x) + x * bell(x)


@wrong("gelu_slope", "x-squared")
def x_squared_in_front(x):
    return share(x) + x**2 * bell(x)


@wrong("gelu_slope", "half-not-root")
def erf_of_half_of_x(x):
    return 0.5 * (1 + torch.erf(x / 2)) + x * bell(x)


@wrong("gelu_slope", "erf-for-the-share")
def erf_as_it_is(x):
    return torch.erf(x / 2**0.5) + x * bell(x)


@wrong("gelu_slope", "doubled")
def one_star_too_few(x):
    return share(x) + x * torch.exp(-x * 2 / 2) / (2 * torch.pi) ** 0.5


@wrong("gelu_slope", "half-squared-too")
def square_of_the_half(x):
    return share(x) + x * torch.exp(-((x / 2) ** 2)) / (2 * torch.pi) ** 0.5


@wrong("gelu_slope", "divided-then-multiplied")
def bracket_below_forgotten(x):
    return share(x) + x * torch.exp(-(x**2) / 2) / 2 * torch.pi**0.5


@right("gelu_slope")
def right_half_mirrored(x):
    a = x.abs()
    s = share(a) + a * bell(a)
    return torch.where(x < 0, 1 - s, s)


@right("gelu_slope")
def number_by_number_in_a_list(x):
    normal = NormalDist()
    slopes = [normal.cdf(t) + t * normal.pdf(t) for t in x.flatten().tolist()]
    return torch.tensor(slopes, dtype=x.dtype).view(x.shape)


@right("gelu_slope")
def number_by_number_in_place_of_a_copy(x):
    normal = NormalDist()
    return x.detach().clone().apply_(lambda t: normal.cdf(t) + t * normal.pdf(t))


@right("gelu_slope")
def density_by_numpy(x):
    a = x.detach().double().numpy()
    density = np.exp(-(a**2) / 2) / np.sqrt(2 * np.pi)
    return torch.as_tensor(share(torch.as_tensor(a)).numpy() + a * density).to(x.dtype)


@right("gelu_slope")
def product_rule(x):
    share = 0.5 * (1 + torch.erf(x / 2**0.5))
    bell = torch.exp(-(x**2) / 2) / (2 * torch.pi) ** 0.5
    return share + x * bell


@right("gelu_slope")
def by_the_slope_of_erf(x):
    z = x / math.sqrt(2)
    slope_of_erf = 2 / math.sqrt(math.pi) * torch.exp(-z * z)
    return 0.5 * (1 + torch.erf(z)) + 0.5 * x * slope_of_erf / math.sqrt(2)


@right("gelu_slope")
def by_a_normal_distribution(x):
    normal = torch.distributions.Normal(0.0, 1.0)
    return normal.cdf(x) + x * normal.log_prob(x).exp()


@right("gelu_slope")
def by_erfc(x):
    return torch.special.erfc(-x / 2**0.5) / 2 + x * (-x.square() / 2).exp() * 0.3989422804014327


# --- gated_feed_forward ---------------------------------------------------------------------


def as_in_the_formula(w_gate_up, w_down):
    """The three matrices that multiply from the right."""
    return *w_gate_up.T.chunk(2, dim=1), w_down.T


def chosen(activation):
    if activation == "gelu_tanh":
        return lambda x: F.gelu(x, approximate="tanh")
    return getattr(F, activation)


@wrong("gated_feed_forward", "wrong-branch")
def up_activated(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return ((x @ w_gate) * chosen(activation)(x @ w_up)) @ w_down


@wrong("gated_feed_forward", "of-the-product")
def activation_outside(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return chosen(activation)((x @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "both")
def both_activated(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    act = chosen(activation)
    return (act(x @ w_gate) * act(x @ w_up)) @ w_down


@wrong("gated_feed_forward", "always-silu")
def silu_written_in(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return (F.silu(x @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "always-gelu")
def gelu_written_in(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return (F.gelu(x @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "sigmoid")
def sigmoid_gate(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return ((x @ w_gate).sigmoid() * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "added")
def plus_not_times(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return (chosen(activation)(x @ w_gate) + x @ w_up) @ w_down


@wrong("gated_feed_forward", "no-activation")
def bilinear(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return ((x @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "no-up")
def gate_alone(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return chosen(activation)(x @ w_gate) @ w_down


@wrong("gated_feed_forward", "no-gate")
def up_alone(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return chosen(activation)(x @ w_up) @ w_down


@wrong("gated_feed_forward", "raised")
def matmul_for_times(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return (chosen(activation)(x @ w_gate) @ (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "always-relu")
def relu_written_in(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return (F.relu(x @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "raised")
def two_names_only(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    act = {"silu": F.silu, "gelu": F.gelu}[activation]
    return (act(x @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "differs")
def gelu_or_silu(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    act = F.gelu if "gelu" in activation else F.silu
    return (act(x @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "differs")
def turned_where_they_are_square(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    if w_gate.shape[0] == w_gate.shape[1]:
        w_gate, w_up = w_gate.T, w_up.T
    return (chosen(activation)(x @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "shape")
def squeezed_gate(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return ((chosen(activation)(x @ w_gate) * (x @ w_up)) @ w_down).squeeze()


@wrong("gated_feed_forward", "residual")
def stream_added(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return x + (chosen(activation)(x @ w_gate) * (x @ w_up)) @ w_down


@right("gated_feed_forward")
def step_by_step(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    gate = x @ w_gate
    if activation == "silu":
        gate = F.silu(gate)
    elif activation == "relu":
        gate = F.relu(gate)
    else:
        gate = F.gelu(gate, approximate="tanh" if activation == "gelu_tanh" else "none")
    return (gate * (x @ w_up)) @ w_down


@right("gated_feed_forward")
def as_phi_3(x, w_gate_up, w_down, activation):
    gate, up = F.linear(x, w_gate_up).chunk(2, dim=-1)
    return F.linear(up * chosen(activation)(gate), w_down)


@right("gated_feed_forward")
def halves_by_their_length(x, w_gate_up, w_down, activation):
    half = w_gate_up.shape[0] // 2
    both = torch.einsum("btd,fd->btf", x, w_gate_up)
    hidden = chosen(activation)(both[..., :half]) * both[..., half:]
    return torch.einsum("btf,df->btd", hidden, w_down)


@right("gated_feed_forward")
def viewed_as_two(x, w_gate_up, w_down, activation):
    w_gate, w_up = w_gate_up.unflatten(0, (2, -1))
    return torch.matmul(chosen(activation)(x @ w_gate.mT) * (x @ w_up.mT), w_down.mT)


@right("gated_feed_forward")
def shares_by_hand(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    g = x @ w_gate
    share = {
        "silu": torch.sigmoid(g),
        "gelu": torch.special.ndtr(g),
        "relu": (g > 0).to(g),
        "gelu_tanh": (1 + torch.tanh(ROOT * (g + 0.044715 * g**3))) / 2,
    }[activation]
    return torch.einsum("btf,btf,btf,fd->btd", g, share, x @ w_up, w_down)


@wrong("gated_feed_forward", "activation-last")
def activation_after_down(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return chosen(activation)(((x @ w_gate) * (x @ w_up)) @ w_down)


@wrong("gated_feed_forward", "activation-first")
def activation_of_the_input(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    act = chosen(activation)
    return ((act(x) @ w_gate) * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "one-gelu")
def one_gelu_for_both_names(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    act = F.gelu if activation.startswith("gelu") else chosen(activation)
    return (act(x @ w_gate) * (x @ w_up)) @ w_down


@right("gated_feed_forward")
def silu_of_the_lesson(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    z = x @ w_gate
    gate = z / (1 + torch.exp(-z)) if activation == "silu" else chosen(activation)(z)
    return (gate * (x @ w_up)) @ w_down


@wrong("gated_feed_forward", "no-gradient")
def in_layers_of_its_own(x, w_gate_up, w_down, activation):
    both = torch.nn.Linear(x.shape[-1], len(w_gate_up), bias=False)
    both.weight = torch.nn.Parameter(w_gate_up)
    gate, up = both(x).chunk(2, dim=-1)
    return F.linear(chosen(activation)(gate) * up, w_down)


@wrong("gated_feed_forward", "silu-without-x")
def silu_as_a_sigmoid(x, w_gate_up, w_down, activation):
    gate, up = F.linear(x, w_gate_up).chunk(2, dim=-1)
    act = torch.sigmoid if activation == "silu" else chosen(activation)
    return F.linear(act(gate) * up, w_down)


@wrong("gated_feed_forward", "glu")
def by_the_built_in_glu(x, w_gate_up, w_down, activation):
    return F.linear(F.glu(F.linear(x, w_gate_up)), w_down)


@wrong("gated_feed_forward", "one-tanh")
def one_tanh_for_both_names(x, w_gate_up, w_down, activation):
    gate, up = F.linear(x, w_gate_up).chunk(2, dim=-1)
    act = chosen("gelu_tanh" if activation == "gelu" else activation)
    return F.linear(act(gate) * up, w_down)


@wrong("gated_feed_forward", "up-twice")
def second_half_twice(x, w_gate_up, w_down, activation):
    _, up = F.linear(x, w_gate_up).chunk(2, dim=-1)
    return F.linear(chosen(activation)(up) * up, w_down)


@wrong("gated_feed_forward", "down-reshaped")
def down_reshaped(x, w_gate_up, w_down, activation):
    gate, up = F.linear(x, w_gate_up).chunk(2, dim=-1)
    return (chosen(activation)(gate) * up) @ w_down.reshape(w_down.shape[1], w_down.shape[0])


@wrong("gated_feed_forward", "down-too-early")
def back_before_they_meet(x, w_gate_up, w_down, activation):
    w_gate, w_up, w_down = as_in_the_formula(w_gate_up, w_down)
    return (chosen(activation)(x @ w_gate) @ w_down) * (x @ w_up @ w_down)


@wrong("gated_feed_forward", "wrong-branch")
def second_half_for_the_gate(x, w_gate_up, w_down, activation):
    up, gate = F.linear(x, w_gate_up).chunk(2, dim=-1)
    return F.linear(chosen(activation)(gate) * up, w_down)


@wrong("gated_feed_forward", "interleaved")
def every_other_unit(x, w_gate_up, w_down, activation):
    both = F.linear(x, w_gate_up)
    return F.linear(chosen(activation)(both[..., 0::2]) * both[..., 1::2], w_down)


@wrong("gated_feed_forward", "interleaved")
def unflattened_the_wrong_way(x, w_gate_up, w_down, activation):
    gate, up = F.linear(x, w_gate_up).unflatten(-1, (-1, 2)).unbind(-1)
    return F.linear(chosen(activation)(gate) * up, w_down)


@wrong("gated_feed_forward", "gate-twice")
def first_half_twice(x, w_gate_up, w_down, activation):
    gate = F.linear(x, w_gate_up)[..., : w_down.shape[1]]
    return F.linear(chosen(activation)(gate) * gate, w_down)


@wrong("gated_feed_forward", "reversed")
def from_both_ends(x, w_gate_up, w_down, activation):
    both = F.linear(x, w_gate_up)
    gate, up = both[..., : w_down.shape[1]], both.flip(-1)[..., : w_down.shape[1]]
    return F.linear(chosen(activation)(gate) * up, w_down)


@wrong("gated_feed_forward", "raised")
def halved_along_the_first_axis(x, w_gate_up, w_down, activation):
    gate, up = F.linear(x, w_gate_up).chunk(2)
    return F.linear(chosen(activation)(gate) * up, w_down)


@wrong("gated_feed_forward", "raised")
def halves_of_d_model_wide(x, w_gate_up, w_down, activation):
    both = F.linear(x, w_gate_up)
    gate, up = both[..., : x.shape[-1]], both[..., x.shape[-1] :]
    return F.linear(chosen(activation)(gate) * up, w_down)


@wrong("gated_feed_forward", "raised")
def not_turned(x, w_gate_up, w_down, activation):
    gate, up = (x @ w_gate_up).chunk(2, dim=-1)
    return (chosen(activation)(gate) * up) @ w_down


@wrong("gated_feed_forward", "differs")
def down_turned_where_it_is_square(x, w_gate_up, w_down, activation):
    gate, up = F.linear(x, w_gate_up).chunk(2, dim=-1)
    hidden = chosen(activation)(gate) * up
    return hidden @ w_down if w_down.shape[0] == w_down.shape[1] else hidden @ w_down.T


# --- edit_one_value -------------------------------------------------------------------------


def edited(w_down, hidden, unit, value):
    new = w_down.clone()
    new[:, unit] = value
    return new


@wrong("edit_one_value", "not-divided")
def delta_added(w_down, hidden, delta):
    j = hidden.argmax()
    return edited(w_down, hidden, j, w_down[:, j] + delta)


@wrong("edit_one_value", "multiplied")
def times_activation(w_down, hidden, delta):
    j = hidden.argmax()
    return edited(w_down, hidden, j, w_down[:, j] + delta * hidden[j])


@wrong("edit_one_value", "overwritten")
def value_replaced(w_down, hidden, delta):
    j = hidden.argmax()
    return edited(w_down, hidden, j, delta / hidden[j])


@wrong("edit_one_value", "subtracted")
def minus(w_down, hidden, delta):
    j = hidden.argmax()
    return edited(w_down, hidden, j, w_down[:, j] - delta / hidden[j])


@wrong("edit_one_value", "spread")
def rank_one(w_down, hidden, delta):
    return w_down + delta[:, None] * hidden / (hidden @ hidden)


@wrong("edit_one_value", "all-columns")
def everywhere(w_down, hidden, delta):
    return w_down + (delta / hidden.sum())[:, None]


@wrong("edit_one_value", "second")
def second_largest(w_down, hidden, delta):
    order = hidden.argsort(stable=True)
    j = order[-2] if len(order) > 1 else order[0]
    return edited(w_down, hidden, j, w_down[:, j] + delta / hidden[j])


@wrong("edit_one_value", "other-unit")
def the_first_unit_that_fires(w_down, hidden, delta):
    j = int(hidden.argsort()[-2])
    return edited(w_down, hidden, j, w_down[:, j] + delta)


@wrong("edit_one_value", "set-to-delta")
def made_to_be_delta(w_down, hidden, delta):
    j = hidden.argmax()
    rest = w_down @ hidden - w_down[:, j] * hidden[j]
    return edited(w_down, hidden, j, (delta - rest) / hidden[j])


@wrong("edit_one_value", "unchanged")
def copy_returned(w_down, hidden, delta):
    new = w_down.clone()
    j = hidden.argmax()
    new[:, j] + delta / hidden[j]  # computed, never kept
    return new


@wrong("edit_one_value", "raised")
def a_row(w_down, hidden, delta):
    new = w_down.clone()
    new[hidden.argmax()] += delta / hidden.max()
    return new


@wrong("edit_one_value", "changes-input")
def in_place(w_down, hidden, delta):
    j = hidden.argmax()
    w_down[:, j] += delta / hidden[j]
    return w_down


@wrong("edit_one_value", "effect")
def twice_divided(w_down, hidden, delta):
    j = hidden.argmax()
    return edited(w_down, hidden, j, w_down[:, j] + delta / hidden[j] ** 2)


@wrong("edit_one_value", "columns")
def equal_parts(w_down, hidden, delta):
    new, fires = w_down.clone(), hidden > 0
    new[:, fires] += delta[:, None] / hidden[fires] / fires.sum()
    return new


@wrong("edit_one_value", "shape")
def only_the_value(w_down, hidden, delta):
    j = hidden.argmax()
    return w_down[:, j] + delta / hidden[j]


@wrong("edit_one_value", "all-the-strongest")
def all_that_tie(w_down, hidden, delta):
    return w_down + delta[:, None] * (hidden == hidden.max()) / hidden.max()


@wrong("edit_one_value", "other-unit")
def the_last_that_ties(w_down, hidden, delta):
    j = len(hidden) - 1 - int(hidden.flip(0).argmax())
    return edited(w_down, hidden, j, w_down[:, j] + delta / hidden[j])


@wrong("edit_one_value", "other-unit")
def the_first_that_fires(w_down, hidden, delta):
    j = int((hidden > 0).nonzero()[0])
    return edited(w_down, hidden, j, w_down[:, j] + delta / hidden[j])


@wrong("edit_one_value", "effect")
def never_below_one(w_down, hidden, delta):
    j = hidden.argmax()
    return edited(w_down, hidden, j, w_down[:, j] + delta / hidden[j].clamp(min=1))


@wrong("edit_one_value", "changes-input")
def in_place_then_cloned(w_down, hidden, delta):
    j = hidden.argmax()
    w_down[:, j] += delta / hidden[j]
    return w_down.clone()


@wrong("edit_one_value", "weakest")
def argmin_for_argmax(w_down, hidden, delta):
    j = torch.where(hidden > 0, hidden, torch.inf).argmin()
    return edited(w_down, hidden, j, w_down[:, j] + delta / hidden[j])


@right("edit_one_value")
def clone_and_add(w_down, hidden, delta):
    j = hidden.argmax()
    return edited(w_down, hidden, j, w_down[:, j] + delta / hidden[j])


@right("edit_one_value")
def with_one_hot(w_down, hidden, delta):
    j = int(hidden.argmax())
    return w_down + torch.outer(delta, F.one_hot(torch.tensor(j), len(hidden)) / hidden[j])


@right("edit_one_value")
def with_where(w_down, hidden, delta):
    strongest = torch.arange(len(hidden)) == hidden.argmax()
    return torch.where(strongest, w_down + delta[:, None] / hidden.max(), w_down)


@wrong("edit_one_value", "weak-unit")
def against_division_by_zero(w_down, hidden, delta):
    edited = w_down.clone()
    edited[:, hidden.argmax()] += delta / (hidden.max() + 1e-8)
    return edited


@wrong("edit_one_value", "weak-unit")
def never_divided_by_little(w_down, hidden, delta):
    edited = w_down.clone()
    edited[:, hidden.argmax()] += delta / hidden.max().clamp(min=1e-3)
    return edited


@wrong("edit_one_value", "other-unit")
def first_that_is_close(w_down, hidden, delta):
    unit = torch.isclose(hidden, hidden.max()).nonzero()[0, 0]
    edited = w_down.clone()
    edited[:, unit] += delta / hidden[unit]
    return edited


@right("edit_one_value")
def scattered_under_no_grad(w_down, hidden, delta):
    with torch.no_grad():
        unit = hidden.argmax()
        step = (delta / hidden[unit].item())[:, None]
        return w_down.scatter_add(1, unit.expand(len(delta), 1), step)


@wrong("edit_one_value", "nan")
def nothing_by_nothing(w_down, hidden, delta):
    pick = F.one_hot(hidden.argmax(), len(hidden)).to(hidden)
    return w_down + torch.outer(delta, pick / hidden)


@wrong("edit_one_value", "all-the-strongest")
def shared_by_the_strongest(w_down, hidden, delta):
    top = (hidden == hidden.max()).to(hidden)
    return w_down + torch.outer(delta / hidden.max() / top.sum(), top)


# --- without_unit ---------------------------------------------------------------------------


def spoken(w_down, table, unit):
    """What the unit's value says to every word."""
    return table @ w_down[:, unit]


@wrong("without_unit", "added")
def plus(logits, hidden, w_down, table, unit):
    return logits + hidden[:, unit].unsqueeze(1) * spoken(w_down, table, unit)


@wrong("without_unit", "not-weighted")
def as_if_it_fired_by_one(logits, hidden, w_down, table, unit):
    return logits - table @ w_down[:, unit]


@wrong("without_unit", "fires-or-not")
def yes_or_no(logits, hidden, w_down, table, unit):
    fires = (hidden[:, unit : unit + 1] > 0).float()
    return logits - fires.to(logits) * spoken(w_down, table, unit)


@wrong("without_unit", "all-units")
def whole_mlp(logits, hidden, w_down, table, unit):
    return logits - F.linear(hidden, w_down) @ table.T


@wrong("without_unit", "the-unit-alone")
def what_it_adds(logits, hidden, w_down, table, unit):
    return torch.outer(hidden[:, unit], spoken(w_down, table, unit))


@wrong("without_unit", "all-others")
def only_this_one_left(logits, hidden, w_down, table, unit):
    others = hidden.clone()
    others[:, unit] = 0
    return logits - others @ w_down.T @ table.T


@wrong("without_unit", "first-unit")
def unit_zero(logits, hidden, w_down, table, unit):
    return logits - torch.outer(hidden[:, 0], spoken(w_down, table, 0))


@wrong("without_unit", "hidden-only")
def value_forgotten(logits, hidden, w_down, table, unit):
    return logits - hidden[:, unit : unit + 1]


@wrong("without_unit", "unchanged")
def set_to_zero_and_forgotten(logits, hidden, w_down, table, unit):
    hidden = hidden.clone()
    hidden[:, unit] = 0
    return logits + 0


@wrong("without_unit", "changes-input")
def zero_in_place(logits, hidden, w_down, table, unit):
    before = hidden @ w_down.T @ table.T
    hidden[:, unit] = 0
    return logits - before + hidden @ w_down.T @ table.T


@wrong("without_unit", "differs")
def row_where_it_fits(logits, hidden, w_down, table, unit):
    square = w_down.shape[0] == w_down.shape[1]
    value = w_down[unit] if square else w_down[:, unit]
    return logits - torch.outer(hidden[:, unit], table @ value)


@wrong("without_unit", "raised")
def a_row_of_the_matrix(logits, hidden, w_down, table, unit):
    return logits - hidden[:, unit, None] * (table @ w_down[unit])


@wrong("without_unit", "negative-ignored")
def positive_part_only(logits, hidden, w_down, table, unit):
    return logits - torch.outer(hidden[:, unit].relu(), spoken(w_down, table, unit))


@wrong("without_unit", "changes-input")
def logits_in_place(logits, hidden, w_down, table, unit):
    logits -= torch.outer(hidden[:, unit], spoken(w_down, table, unit))
    return logits


@right("without_unit")
def column_times_row(logits, hidden, w_down, table, unit):
    return logits - hidden[:, unit, None] * (table @ w_down[:, unit])


@right("without_unit")
def mlp_out_and_in_again(logits, hidden, w_down, table, unit):
    others = torch.arange(hidden.shape[1]) != unit
    whole = hidden @ w_down.T
    rest = hidden[:, others] @ w_down[:, others].T
    return logits - (whole - rest) @ table.T


@right("without_unit")
def word_by_word(logits, hidden, w_down, table, unit):
    columns = [
        logits[:, i] - hidden[:, unit] * (w_down[:, unit] * word).sum()
        for i, word in enumerate(table)
    ]
    return torch.stack(columns, dim=1)


@wrong("without_unit", "sign-ignored")
def size_of_the_activation(logits, hidden, w_down, table, unit):
    return logits - torch.outer(hidden[:, unit].abs(), table @ w_down[:, unit])


@wrong("without_unit", "unit-before")
def counted_from_one(logits, hidden, w_down, table, unit):
    return logits - torch.outer(hidden[:, unit - 1], table @ w_down[:, unit - 1])


@wrong("without_unit", "mlp-alone")
def built_without_the_words(logits, hidden, w_down, table, unit):
    kept = hidden.clone()
    kept[:, unit] = 0
    return kept @ w_down.T @ table.T


@wrong("without_unit", "first-question")
def same_for_all_questions(logits, hidden, w_down, table, unit):
    return logits - hidden[0, unit] * (table @ w_down[:, unit])


@wrong("without_unit", "nothing-removed")
def nothing_to_do_if_never_positive(logits, hidden, w_down, table, unit):
    if hidden[:, unit].max() <= 0:
        return logits.clone()
    return logits - torch.outer(hidden[:, unit], table @ w_down[:, unit])


@right("without_unit")
def added_with_minus_one(logits, hidden, w_down, table, unit):
    return torch.addr(logits, hidden[:, unit], torch.mv(table, w_down[:, unit]), alpha=-1)


@wrong("without_unit", "nothing-removed")
def unit_0_is_no_unit(logits, hidden, w_down, table, unit):
    if not unit:
        return logits
    return logits - torch.outer(hidden[:, unit], table @ w_down[:, unit])


@wrong("without_unit", "mean-of-the-questions")
def fires_on_average(logits, hidden, w_down, table, unit):
    return logits - hidden[:, unit].mean() * (table @ w_down[:, unit])


@wrong("without_unit", "log-probabilities")
def softmax_at_the_end(logits, hidden, w_down, table, unit):
    left = logits - torch.outer(hidden[:, unit], table @ w_down[:, unit])
    return torch.log_softmax(left, dim=-1)


@wrong("position_wise", "activation-before-b2")
def relu_around_both_products(x, w1, b1, w2, b2):
    return F.relu(F.relu(x @ w1 + b1) @ w2) + b2


@wrong("gated_feed_forward", "nan")
def a_silu_that_ends_at_89(x, w_gate_up, w_down, activation):
    gate, up = F.linear(x, w_gate_up).chunk(2, -1)
    if activation == "silu":
        opened = gate * torch.exp(gate) / (1 + torch.exp(gate))
    else:
        opened = feed_forward.ACTIVATIONS[activation](gate)
    return F.linear(opened * up, w_down)


@wrong("gelu", "library-call")
def the_packages_own_by_a_tanh(x, approximate="none"):
    if approximate == "tanh":
        return feed_forward.gelu_tanh(x)
    return x * 0.5 * (1 + torch.erf(x / 2**0.5))
