"""What learners write in lesson 04."""

import torch
import torch.nn.functional as F

from tests.wrong_answers import right, wrong


def normed(x, dims, eps, correction=0):
    mean, var = x.mean(dims, keepdim=True), x.var(dims, keepdim=True, correction=correction)
    return (x - mean) / (var + eps).sqrt()


def root(x):
    return x.std(-1, keepdim=True, correction=0)


# --- layer_norm -----------------------------------------------------------------------------


@wrong("layer_norm", "unbiased")
def torch_var(x, weight, bias, eps=1e-5):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
    return weight * (x - mean) / torch.sqrt(var + eps) + bias


@wrong("layer_norm", "unbiased-and-outside")
def annotated_style(x, weight, bias, eps=1e-5):
    mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return weight * (x - mean) / (std + eps) + bias


@wrong("layer_norm", "eps-outside")
def eps_beside_the_std(x, weight, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    std = x.std(-1, keepdim=True, correction=0)
    return weight * (x - mean) / (std + eps) + bias


@wrong("layer_norm", "eps-ignored")
def eps_written_in(x, weight, bias, eps=1e-5):
    return normed(x, -1, 1e-5) * weight + bias


@wrong("layer_norm", "eps-default")
def another_default(x, weight, bias, eps=1e-6):
    return normed(x, -1, eps) * weight + bias


@wrong("layer_norm", "unbiased")
def torch_var_and_another_default(x, weight, bias, eps=1e-6):
    return normed(x, -1, eps, correction=1) * weight + bias


@wrong("layer_norm", "eps-outside")
def eps_outside_and_another_default(x, weight, bias, eps=1e-6):
    return weight * (x - x.mean(-1, keepdim=True)) / (root(x) + eps) + bias


@wrong("layer_norm", "library-call")
def the_built_in(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


@wrong("layer_norm", "library-call")
def the_module(x, weight, bias, eps=1e-5):
    module = torch.nn.LayerNorm(x.shape[-1], eps=eps, elementwise_affine=False)
    return module(x) * weight + bias


@wrong("layer_norm", "library-call")
def by_another_norm(x, weight, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return F.rms_norm(centred, x.shape[-1:], weight, eps) + bias


@wrong("layer_norm", "library-call")
def torch_own_function(x, weight, bias, eps=1e-5):
    return torch.layer_norm(x, x.shape[-1:], weight, bias, eps)


@wrong("layer_norm", "random")
def dropout_left_on(x, weight, bias, eps=1e-5):
    return F.dropout(normed(x, -1, eps) * weight + bias, 0.1)


@wrong("layer_norm", "gradient-nan")
def root_squared_again(x, weight, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    std = centred.square().mean(-1, keepdim=True).sqrt()
    return weight * centred / (std**2 + eps).sqrt() + bias


@wrong("layer_norm", "raised")
def three_axes_only(x, weight, bias, eps=1e-5):
    batch, tokens, d = x.shape
    return normed(x.reshape(batch * tokens, d), -1, eps).reshape(batch, tokens, d) * weight + bias


@wrong("layer_norm", "raised")
def viewed(x, weight, bias, eps=1e-5):
    rows = x.view(-1, x.shape[-1])
    return normed(rows, -1, eps).view(x.shape) * weight + bias


@wrong("layer_norm", "differs")
def three_axes_indexed(x, weight, bias, eps=1e-5):
    mean, var = x.mean(2), x.var(2, correction=0)
    return weight * (x - mean[:, :, None]) / (var[:, :, None] + eps).sqrt() + bias


@wrong("layer_norm", "rms-below")
def squares_not_centred(x, weight, bias, eps=1e-5):
    size = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return weight * (x - x.mean(-1, keepdim=True)) / size + bias


@wrong("layer_norm", "mean-distance")
def absolute_distances(x, weight, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return weight * centred / (centred.abs().mean(-1, keepdim=True) ** 2 + eps).sqrt() + bias


@wrong("layer_norm", "affine-swapped")
def bias_multiplies(x, weight, bias, eps=1e-5):
    return normed(x, -1, eps) * bias + weight


@wrong("layer_norm", "one-added")
def weight_about_zero(x, weight, bias, eps=1e-5):
    return normed(x, -1, eps) * (1 + weight) + bias


@wrong("layer_norm", "no-gradient")
def statistics_cut_off(x, weight, bias, eps=1e-5):
    with torch.no_grad():
        return normed(x, -1, eps) * weight + bias


@wrong("layer_norm", "gradient")
def statistics_as_constants(x, weight, bias, eps=1e-5):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    return weight * (x - mean.detach()) / (var.detach() + eps).sqrt() + bias


@wrong("layer_norm", "equal-numbers")
def constant_token_left_out(x, weight, bias, eps=1e-5):
    flat = (x == x[..., :1]).all(-1, keepdim=True)
    return torch.where(flat, x, normed(x, -1, eps) * weight + bias)


@wrong("layer_norm", "cancellation")
def clamped_moments(x, weight, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = (x.pow(2).mean(-1, keepdim=True) - mean.pow(2)).clamp(min=0)
    return weight * (x - mean) * torch.rsqrt(variance + eps) + bias


@wrong("layer_norm", "no-eps")
def eps_forgotten(x, weight, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    return weight * (x - mean) / ((x - mean) ** 2).mean(-1, keepdim=True).sqrt() + bias


@wrong("layer_norm", "not-centred")
def mean_only_below(x, weight, bias, eps=1e-5):
    return weight * x / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt() + bias


@wrong("layer_norm", "rms")
def no_mean_at_all(x, weight, bias, eps=1e-5):
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) + bias


@wrong("layer_norm", "variance-not-root")
def root_forgotten(x, weight, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    return weight * (x - mean) / (((x - mean) ** 2).mean(-1, keepdim=True) + eps) + bias


@wrong("layer_norm", "over-everything")
def mean_of_all(x, weight, bias, eps=1e-5):
    return weight * (x - x.mean()) / (x.var(correction=0) + eps).sqrt() + bias


@wrong("layer_norm", "over-tokens")
def down_the_column(x, weight, bias, eps=1e-5):
    mean, var = x.mean(-2, keepdim=True), x.var(-2, keepdim=True, correction=0)
    return weight * (x - mean) / (var + eps).sqrt() + bias


@wrong("layer_norm", "affine-first")
def weight_before_the_norm(x, weight, bias, eps=1e-5):
    return normed(weight * x + bias, -1, eps)


@wrong("layer_norm", "no-affine")
def normed_only(x, weight, bias, eps=1e-5):
    return normed(x, -1, eps)


@wrong("layer_norm", "no-weight")
def weight_left_out(x, weight, bias, eps=1e-5):
    return normed(x, -1, eps) + bias


@wrong("layer_norm", "sum-of-squares")
def sum_for_mean(x, weight, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return weight * centred / ((centred**2).sum(-1, keepdim=True) + eps).sqrt() + bias


@wrong("layer_norm", "cancellation")
def raw_moments(x, weight, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return weight * (x - mean) / (variance + eps).sqrt() + bias


@wrong("layer_norm", "no-bias")
def bias_left_out(x, weight, bias, eps=1e-5):
    return weight * normed(x, -1, eps)


@wrong("layer_norm", "bias-scaled")
def brackets_in_the_wrong_place(x, weight, bias, eps=1e-5):
    return weight * (normed(x, -1, eps) + bias)


@wrong("layer_norm", "raised")
def keepdim_forgotten(x, weight, bias, eps=1e-5):
    mean, var = x.mean(-1), x.var(-1, correction=0)
    return weight * (x - mean) / (var + eps).sqrt() + bias


@wrong("layer_norm", "changes-input")
def subtracted_in_place(x, weight, bias, eps=1e-5):
    x -= x.mean(-1, keepdim=True)
    return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt() + bias


@wrong("layer_norm", "tokens-mix")
def first_dimension_joined(x, weight, bias, eps=1e-5):
    dims = tuple(range(1, x.dim()))
    mean, var = x.mean(dims, keepdim=True), x.var(dims, keepdim=True, correction=0)
    return weight * (x - mean) / (var + eps).sqrt() + bias


@wrong("layer_norm", "shift")
def mean_of_the_absolute(x, weight, bias, eps=1e-5):
    centred = x - x.abs().mean(-1, keepdim=True) / 2
    return weight * centred / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() + bias


@wrong("layer_norm", "weight-first")
def weight_on_the_input(x, weight, bias, eps=1e-5):
    return normed(weight * x, -1, eps) + bias


@wrong("layer_norm", "bias-first")
def bias_on_the_input(x, weight, bias, eps=1e-5):
    return weight * normed(x + bias, -1, eps)


@wrong("layer_norm", "bias-divided")
def one_bracket_too_wide(x, weight, bias, eps=1e-5):
    below = (x.var(-1, keepdim=True, correction=0) + eps).sqrt()
    return (weight * (x - x.mean(-1, keepdim=True)) + bias) / below


@wrong("layer_norm", "bias-subtracted")
def minus_the_bias(x, weight, bias, eps=1e-5):
    return weight * normed(x, -1, eps) - bias


@wrong("layer_norm", "root-of-eps")
def two_roots_added(x, weight, bias, eps=1e-5):
    return weight * (x - x.mean(-1, keepdim=True)) / (root(x) + eps**0.5) + bias


@wrong("layer_norm", "eps-shrunk")
def eps_beside_the_sum(x, weight, bias, eps=1e-5):
    centred, d = x - x.mean(-1, keepdim=True), x.shape[-1]
    length = (centred.square().sum(-1, keepdim=True) + eps).sqrt()
    return weight * d**0.5 * centred / length + bias


@wrong("layer_norm", "mean-distance-and-eps")
def mean_absolute_deviation(x, weight, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return weight * centred / (centred.abs().mean(-1, keepdim=True) + eps) + bias


@wrong("layer_norm", "eps-default")
def as_hugging_face_bert(x, weight, bias, eps=1e-12):
    return normed(x, -1, eps) * weight + bias


@wrong("layer_norm", "differs")
def only_the_forms_in_the_text(x, weight, bias, eps=1e-5):
    return normed(x, min(3, x.dim() - 1), eps) * weight + bias


@wrong("layer_norm", "equal-numbers")
def zeros_for_a_constant_token(x, weight, bias, eps=1e-5):
    spread = x.var(-1, keepdim=True, correction=0)
    return (normed(x, -1, eps) * weight + bias) * (spread > 0)


@wrong("layer_norm", "library-call")
def by_its_operator(x, weight, bias, eps=1e-5):
    return torch.ops.aten.layer_norm.default(x, list(x.shape[-1:]), weight, bias, eps)


@right("layer_norm")
def by_a_centring_matrix(x, weight, bias, eps=1e-5):
    d = x.shape[-1]
    centred = x @ (torch.eye(d, dtype=x.dtype) - 1 / d)
    return weight * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + bias


@right("layer_norm")
def by_pairs_of_numbers(x, weight, bias, eps=1e-5):
    apart = x[..., :, None] - x[..., None, :]
    variance = apart.square().mean((-2, -1))[..., None] / 2
    return weight * apart.mean(-1) / (variance + eps).sqrt() + bias


@right("layer_norm")
def by_the_formula(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).pow(2).mean(dim=-1, keepdim=True)
    return weight * (x - mean) / torch.sqrt(variance + eps) + bias


@right("layer_norm")
def with_var_and_rsqrt(x, weight, bias, eps=1e-5):
    var, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return (x - mean) * torch.rsqrt(var + eps) * weight + bias


@right("layer_norm")
def mean_of_squares_minus_square_of_mean(x, weight, bias, eps=1e-5):
    z = x.double()
    mean = z.mean(-1, keepdim=True)
    variance = (z * z).mean(-1, keepdim=True) - mean * mean
    return ((z - mean) / (variance.clamp(min=0) + eps).sqrt() * weight + bias).float()


@right("layer_norm")
def token_by_token(x, weight, bias, eps=1e-5):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        mean = sum(row) / len(row)
        variance = sum((number - mean) ** 2 for number in row) / len(row)
        rows.append((row - mean) / (variance + eps) ** 0.5 * weight + bias)
    return torch.stack(rows).view_as(x)


# --- batch_norm -----------------------------------------------------------------------------


@wrong("batch_norm", "layer-norm")
def the_same_again(x, eps=1e-5):
    return normed(x, -1, eps)


@wrong("batch_norm", "over-batch-only")
def first_axis_only(x, eps=1e-5):
    return normed(x, 0, eps)


@wrong("batch_norm", "over-tokens-only")
def each_sequence(x, eps=1e-5):
    return normed(x, 1, eps)


@wrong("batch_norm", "one-a-place")
def all_but_the_tokens(x, eps=1e-5):
    return normed(x, (0, 2), eps)


@wrong("batch_norm", "library-call")
def instance_norm_for_it(x, eps=1e-5):
    return F.instance_norm(x.mT, eps=eps).mT


@wrong("batch_norm", "library-call")
def the_function(x, eps=1e-5):
    rows = x.reshape(-1, x.shape[-1])
    return F.batch_norm(rows, None, None, training=True, eps=eps).reshape(x.shape)


@wrong("batch_norm", "eps-default")
def a_smaller_default(x, eps=1e-6):
    return normed(x, (0, 1), eps)


@wrong("batch_norm", "unbiased")
def default_var_and_eps(x, eps=1e-6):
    return normed(x, (0, 1), eps, correction=1)


@wrong("batch_norm", "cancellation")
def moments_apart(x, eps=1e-5):
    mean = x.mean((0, 1))
    return (x - mean) / ((x * x).mean((0, 1)) - mean**2 + eps).sqrt()


@wrong("batch_norm", "rms-below")
def plain_squares_below(x, eps=1e-5):
    return (x - x.mean((0, 1))) / (x.square().mean((0, 1)) + eps).sqrt()


@wrong("batch_norm", "sum-of-squares")
def summed_not_averaged(x, eps=1e-5):
    centred = x - x.mean((0, 1))
    return centred / (centred.square().sum((0, 1)) + eps).sqrt()


@wrong("batch_norm", "gradient-nan")
def std_squared(x, eps=1e-5):
    centred = x - x.mean((0, 1))
    std = centred.square().mean((0, 1)).sqrt()
    return centred / (std * std + eps).sqrt()


@wrong("batch_norm", "raised")
def viewed_as_rows(x, eps=1e-5):
    rows = x.view(-1, x.shape[-1])
    return normed(rows, 0, eps).view(x.shape)


@wrong("batch_norm", "over-everything")
def one_mean(x, eps=1e-5):
    return (x - x.mean()) / (x.var(correction=0) + eps).sqrt()


@wrong("batch_norm", "one-a-sequence")
def last_two_axes(x, eps=1e-5):
    return normed(x, (1, 2), eps)


@wrong("batch_norm", "unbiased")
def default_var(x, eps=1e-5):
    return normed(x, (0, 1), eps, correction=1)


@wrong("batch_norm", "eps-outside")
def eps_added_to_std(x, eps=1e-5):
    return (x - x.mean((0, 1))) / (x.std((0, 1), correction=0) + eps)


@wrong("batch_norm", "eps-ignored")
def eps_fixed(x, eps=1e-5):
    return normed(x, (0, 1), 1e-5)


@wrong("batch_norm", "library-call")
def built_in_default(x, eps=1e-5):
    return torch.nn.BatchNorm1d(x.shape[-1])(x.mT).mT


@wrong("batch_norm", "no-eps")
def eps_left_out(x, eps=1e-5):
    return (x - x.mean((0, 1))) / x.std((0, 1), correction=0)


@wrong("batch_norm", "not-centred")
def not_subtracted(x, eps=1e-5):
    return x / (x.var((0, 1), correction=0) + eps).sqrt()


@wrong("batch_norm", "variance-not-root")
def without_sqrt(x, eps=1e-5):
    return (x - x.mean((0, 1))) / (x.var((0, 1), correction=0) + eps)


@wrong("batch_norm", "raised")
def channels_last_not_first(x, eps=1e-5):
    return torch.nn.BatchNorm1d(x.shape[-1], eps=eps)(x)


@wrong("batch_norm", "divided-by-batch")
def divided_by_len(x, eps=1e-5):
    centred = x - x.mean((0, 1))
    return centred / (centred.square().sum((0, 1)) / len(x) + eps).sqrt()


@wrong("batch_norm", "mean-of-variances")
def variances_averaged(x, eps=1e-5):
    return (x - x.mean((0, 1))) / (x.var(1, correction=0).mean(0) + eps).sqrt()


@wrong("batch_norm", "one-after-the-other")
def first_batch_then_tokens(x, eps=1e-5):
    return normed(normed(x, 0, eps), 1, eps)


@wrong("batch_norm", "cut-into-rows")
def reshaped_to_d_rows(x, eps=1e-5):
    return normed(x.reshape(x.shape[-1], -1), 1, eps).reshape(x.shape)


@wrong("batch_norm", "misplaced")
def never_turned_back(x, eps=1e-5):
    rows = x.permute(2, 0, 1).reshape(x.shape[-1], -1)
    return normed(rows, 1, eps).reshape(x.shape)


@wrong("batch_norm", "zeros-left-out")
def padding_left_out(x, eps=1e-5):
    real = (x != 0).any(-1, keepdim=True).to(x.dtype)
    count = real.sum().clamp(min=1)
    mean = (x * real).sum((0, 1)) / count
    variance = ((x - mean) ** 2 * real).sum((0, 1)) / count
    return (x - mean) / (variance + eps).sqrt()


@wrong("batch_norm", "eps-default")
def as_keras_has_it(x, eps=1e-3):
    return normed(x, (0, 1), eps)


@right("batch_norm")
def variance_within_and_between(x, eps=1e-5):
    mean = x.mean((0, 1))
    within, between = x.var(1, correction=0), (x.mean(1) - mean).square()
    return (x - mean) / ((within + between).mean(0) + eps).sqrt()


@right("batch_norm")
def two_axes_at_once(x, eps=1e-5):
    mean, var = x.mean((0, 1), keepdim=True), x.var((0, 1), keepdim=True, correction=0)
    return (x - mean) / torch.sqrt(var + eps)


@right("batch_norm")
def flattened(x, eps=1e-5):
    rows = x.reshape(-1, x.shape[-1])
    centred = rows - rows.mean(0)
    return (centred / (centred.pow(2).mean(0) + eps).sqrt()).reshape(x.shape)


@right("batch_norm")
def column_by_column(x, eps=1e-5):
    columns = []
    for j in range(x.shape[-1]):
        column = x[..., j]
        mean = column.mean()
        columns.append((column - mean) / (((column - mean) ** 2).mean() + eps) ** 0.5)
    return torch.stack(columns, -1)


# --- rms_norm -------------------------------------------------------------------------------


@wrong("rms_norm", "centred")
def mean_still_there(x, weight, eps=1e-5):
    x = x - x.mean(-1, keepdim=True)
    return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


@wrong("rms_norm", "variance")
def standard_deviation(x, weight, eps=1e-5):
    return weight * x / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + eps)


@wrong("rms_norm", "no-root")
def divided_by_the_square(x, weight, eps=1e-5):
    return weight * x / ((x**2).mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "sum-of-squares")
def length_one(x, weight, eps=1e-5):
    return weight * x / torch.sqrt((x**2).sum(-1, keepdim=True) + eps)


@wrong("rms_norm", "multiplied")
def times_not_divided(x, weight, eps=1e-5):
    return weight * x * torch.sqrt((x**2).mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "eps-outside")
def eps_after_the_root(x, weight, eps=1e-5):
    return weight * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps)


@wrong("rms_norm", "eps-ignored")
def eps_constant(x, weight, eps=1e-5):
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


@wrong("rms_norm", "eps-default")
def as_t5_has_it(x, weight, eps=1e-6):
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


@wrong("rms_norm", "one-added")
def as_gemma_with_its_eps(x, weight, eps=1e-6):
    return (1 + weight) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


@wrong("rms_norm", "library-call")
def the_rms_built_in(x, weight, eps=1e-5):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


@wrong("rms_norm", "library-call")
def the_rms_module(x, weight, eps=1e-5):
    return torch.nn.RMSNorm(x.shape[-1], eps=eps, elementwise_affine=False)(x) * weight


@wrong("rms_norm", "eps-outside")
def eps_beside_the_length(x, weight, eps=1e-5):
    return weight * x / (x.norm(dim=-1, keepdim=True) / x.shape[-1] ** 0.5 + eps)


@wrong("rms_norm", "no-eps")
def direction_only(x, weight, eps=1e-5):
    return weight * F.normalize(x, dim=-1) * x.shape[-1] ** 0.5


@wrong("rms_norm", "square-of-mean")
def mean_then_square(x, weight, eps=1e-5):
    return weight * x / (x.mean(-1, keepdim=True) ** 2 + eps).sqrt()


@wrong("rms_norm", "mean-absolute")
def absolute_values(x, weight, eps=1e-5):
    return weight * x / (x.abs().mean(-1, keepdim=True) ** 2 + eps).sqrt()


@wrong("rms_norm", "weight-added")
def weight_on_top(x, weight, eps=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) + weight


@wrong("rms_norm", "raised")
def rms_of_three_axes(x, weight, eps=1e-5):
    wide = x.double()
    square = torch.einsum("btd,btd->bt", wide, wide) / x.shape[-1]
    return (weight * wide / (square[..., None] + eps).sqrt()).to(x.dtype)


@wrong("rms_norm", "raised")
def rms_viewed(x, weight, eps=1e-5):
    rows = x.view(-1, x.shape[-1]).double()
    y = weight * rows / (rows.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return y.view(x.shape).to(x.dtype)


@wrong("rms_norm", "changes-input")
def divided_in_place(x, weight, eps=1e-5):
    size = (x.float().pow(2).mean(-1, keepdim=True) + eps).sqrt()
    x /= size
    return x * weight


@wrong("rms_norm", "gradient-nan")
def root_then_squared(x, weight, eps=1e-5):
    wide = x.float()
    size = wide.pow(2).mean(-1, keepdim=True).sqrt()
    return (weight * wide / (size * size + eps).sqrt()).to(x.dtype)


@wrong("rms_norm", "overflow")
def nothing_about_types(x, weight, eps=1e-5):
    return weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "overflow")
def mean_in_float32_squares_in_half(x, weight, eps=1e-5):
    mean_square = x.pow(2).mean(-1, keepdim=True, dtype=torch.float32)
    return weight * (x * torch.rsqrt(mean_square + eps)).to(x.dtype)


@wrong("rms_norm", "overflow")
def squared_then_widened(x, weight, eps=1e-5):
    mean_square = (x * x).float().mean(-1, keepdim=True)
    return (weight * x.float() / (mean_square + eps).sqrt()).to(x.dtype)


@wrong("rms_norm", "overflow")
def back_before_the_root(x, weight, eps=1e-5):
    mean_square = x.float().square().mean(-1, keepdim=True).to(x.dtype)
    return weight * x / (mean_square + eps).sqrt()


@wrong("rms_norm", "overflow")
def result_widened_only(x, weight, eps=1e-5):
    y = weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return y.float().to(x.dtype)


@wrong("rms_norm", "dtype")
def never_back(x, weight, eps=1e-5):
    wide = x.float()
    return weight * wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "dtype")
def back_to_what_x_has_become(x, weight, eps=1e-5):
    x = x.float()
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return (weight * y).to(x.dtype)


@wrong("rms_norm", "dtype")
def back_before_a_wide_weight(x, weight, eps=1e-5):
    wide = x.float()
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight.float() * y.to(x.dtype)


@wrong("rms_norm", "dtype")
def half_for_every_16_bits(x, weight, eps=1e-5):
    wide = x if x.dtype == torch.float64 else x.float()
    y = weight * wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    return y if x.dtype in (torch.float32, torch.float64) else y.half()


@wrong("rms_norm", "dtype")
def always_back_to_half(x, weight, eps=1e-5):
    wide = x.float()
    return (weight * wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()).half()


@wrong("rms_norm", "in-half")
def by_way_of_bfloat16(x, weight, eps=1e-5):
    wide = x.bfloat16() if x.dtype == torch.float16 else x.double()
    return (weight * wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype)


@wrong("rms_norm", "sum-of-squares")
def length_one_in_half_too(x, weight, eps=1e-5):
    length = (x.square().sum(-1, keepdim=True) + eps).sqrt()
    return (weight * x.float() / length).to(x.dtype)


@wrong("rms_norm", "no-eps")
def float32_and_no_eps(x, weight, eps=1e-5):
    wide = x.float()
    return (weight * wide / wide.square().mean(-1, keepdim=True).sqrt()).to(x.dtype)


@wrong("rms_norm", "in-half")
def kept_below_the_largest(x, weight, eps=1e-5):
    mean_square = x.square().mean(-1, keepdim=True)
    if x.dtype == torch.float16:
        mean_square = mean_square.clamp(max=65504)
    return weight * (x / (mean_square + eps).sqrt())


@wrong("rms_norm", "eps-default")
def default_of_t5_in_every_type(x, weight, eps=1e-6):
    wide = x.float()
    return (weight * wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype)


@wrong("rms_norm", "one-added")
def as_gemma_stores_it(x, weight, eps=1e-5):
    return (1 + weight) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


@wrong("rms_norm", "centred-above")
def mean_taken_off_above(x, weight, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return weight * centred / torch.sqrt((x**2).mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "no-eps")
def eps_nowhere(x, weight, eps=1e-5):
    return weight * x / x.pow(2).mean(-1, keepdim=True).sqrt()


@wrong("rms_norm", "no-weight")
def without_weight(x, weight, eps=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "weight-first")
def weight_inside(x, weight, eps=1e-5):
    x = x * weight
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "over-everything")
def one_for_all(x, weight, eps=1e-5):
    return weight * x * torch.rsqrt(x.pow(2).mean() + eps)


@wrong("rms_norm", "over-tokens")
def second_last_axis(x, weight, eps=1e-5):
    return weight * x * torch.rsqrt(x.pow(2).mean(-2, keepdim=True) + eps)


@wrong("rms_norm", "tokens-mix")
def all_but_the_first(x, weight, eps=1e-5):
    dims = tuple(range(1, x.dim()))
    return weight * x * torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + eps)


@wrong("rms_norm", "unbiased")
def divided_by_d_minus_one(x, weight, eps=1e-5):
    mean_square = x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)
    return weight * x / (mean_square + eps).sqrt()


@wrong("rms_norm", "length-over-d")
def d_outside_the_root(x, weight, eps=1e-5):
    return weight * x / (x.square().sum(-1, keepdim=True).sqrt() / x.shape[-1] + eps)


@wrong("rms_norm", "mean-absolute-and-eps")
def mean_of_the_absolute_values(x, weight, eps=1e-5):
    return weight * x / (x.abs().mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "root-of-eps")
def two_roots_for_one(x, weight, eps=1e-5):
    return weight * x / (x.square().mean(-1, keepdim=True).sqrt() + eps**0.5)


@wrong("rms_norm", "eps-shrunk")
def root_of_d_taken_out(x, weight, eps=1e-5):
    length = (x.square().sum(-1, keepdim=True) + eps).sqrt()
    return weight * x * x.shape[-1] ** 0.5 / length


@wrong("rms_norm", "eps-default")
def as_torch_has_it(x, weight, eps=None):
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    return weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


@wrong("rms_norm", "library-call")
def rms_by_its_operator(x, weight, eps=1e-5):
    return torch.ops.aten.rms_norm.default(x, list(x.shape[-1:]), weight, eps)


@right("rms_norm")
def eps_as_one_more_number(x, weight, eps=1e-5):
    d, wide = x.shape[-1], x.double()
    longer = torch.cat([wide, torch.full_like(wide[..., :1], (d * eps) ** 0.5)], -1)
    return (weight * wide * d**0.5 / longer.norm(dim=-1, keepdim=True)).to(x)


@right("rms_norm")
def as_llama(x, weight, eps=1e-5):
    came_as = x.dtype
    x = x.to(torch.float32)
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return weight * x.to(came_as)


@right("rms_norm")
def with_norm(x, weight, eps=1e-5):
    size = torch.linalg.vector_norm(x.float(), dim=-1, keepdim=True) / x.shape[-1] ** 0.5
    return (x / torch.hypot(size, torch.tensor(eps**0.5)) * weight).type_as(x)


@right("rms_norm")
def by_einsum(x, weight, eps=1e-5):
    wide = x.double()
    square = torch.einsum("...d,...d->...", wide, wide) / x.shape[-1]
    y = torch.einsum("...d,...,d->...d", wide, 1 / (square + eps).sqrt(), weight.double())
    return y.to(x.dtype)


@wrong("rms_norm", "overflow")
def weight_first_in_16_bits(x, weight, eps=1e-5):
    root = (x.float().square().mean(-1, keepdim=True) + eps).sqrt()
    return (x * weight / root).to(x.dtype)


@wrong("rms_norm", "overflow")
def product_widened_too_late(x, weight, eps=1e-5):
    root = (x.float().square().mean(-1, keepdim=True) + eps).sqrt()
    return ((weight * x).float() / root).to(x.dtype)


@wrong("rms_norm", "in-half")
def only_divided_by_the_largest(x, weight, eps=1e-5):
    largest = x.abs().amax(-1, keepdim=True).clamp(min=1)
    y = x / largest
    return weight * y / (y.square().mean(-1, keepdim=True) + eps / largest**2).sqrt()


@wrong("rms_norm", "eps-as-a-bound")
def eps_as_the_least(x, weight, eps=1e-5):
    wide = x.float()
    mean_square = wide.square().mean(-1, keepdim=True).clamp(min=eps)
    return (weight * wide / mean_square.sqrt()).to(x.dtype)


@wrong("rms_norm", "over-axis-1")
def axis_by_its_number(x, weight, eps=1e-5):
    wide = x.float()
    return (weight * wide / (wide.square().mean(1, keepdim=True) + eps).sqrt()).to(x.dtype)


@right("rms_norm")
def by_the_length_of_the_vector(x, weight, eps=1e-5):
    wide = x.float()
    mean_square = wide.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return (weight * wide / (mean_square + eps).sqrt()).to(x.dtype)


@right("rms_norm")
def float32_for_float64(x, weight, eps=1e-5):
    wide = x.float()
    y = weight.float() * wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    return y if x.dtype == torch.float64 else y.to(x.dtype)


@right("rms_norm")
def only_where_it_is_half(x, weight, eps=1e-5):
    half = x.dtype in (torch.float16, torch.bfloat16)
    wide = x.float() if half else x
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight
    return y.to(x.dtype) if half else y


@right("rms_norm")
def root_back_in_16_bits(x, weight, eps=1e-5):
    square = x.pow(2).mean(-1, keepdim=True) if x.dtype == torch.float64 else None
    if square is None:
        square = x.float().pow(2).mean(-1, keepdim=True)
    return weight * (x * torch.rsqrt(square + eps).to(x.dtype))


# --- fold_norm ------------------------------------------------------------------------------


@wrong("fold_norm", "weight-only")
def bias_lost(weight, bias, w, b):
    return w * weight, b


@wrong("fold_norm", "bias-only")
def matrix_as_it_was(weight, bias, w, b):
    return w, w @ bias + b


@wrong("fold_norm", "unchanged")
def nothing_done(weight, bias, w, b):
    return w, b


@wrong("fold_norm", "weight-twice")
def through_the_new_one(weight, bias, w, b):
    new = w * weight
    return new, new @ bias + b


@wrong("fold_norm", "old-b-lost")
def own_bias_lost(weight, bias, w, b):
    return w * weight, w @ bias


@wrong("fold_norm", "divided")
def wrong_direction(weight, bias, w, b):
    return w / weight, w @ bias + b


@wrong("fold_norm", "subtracted")
def wrong_sign(weight, bias, w, b):
    return w * weight, b - w @ bias


@wrong("fold_norm", "transposed")
def other_way_round(weight, bias, w, b):
    return (w * weight).T, w @ bias + b


@wrong("fold_norm", "swapped")
def bias_first(weight, bias, w, b):
    return F.linear(bias, w, b), w * weight


@wrong("fold_norm", "raised")
def rows_scaled(weight, bias, w, b):
    return w * weight[:, None], w @ bias + b


@wrong("fold_norm", "shift-bare")
def bias_added_bare(weight, bias, w, b):
    return w * weight, b + bias.sum()


@wrong("fold_norm", "not-the-same")
def bias_averaged(weight, bias, w, b):
    return w * weight, b + w.mean(1) * bias.sum()


@wrong("fold_norm", "not-the-same")
def rows_scaled_by_the_first(weight, bias, w, b):
    return w * weight[0], w @ bias + b


@wrong("fold_norm", "changes-input")
def scaled_in_place(weight, bias, w, b):
    new_b = w @ bias + b
    w *= weight
    return w, new_b


@wrong("fold_norm", "type")
def matrix_alone(weight, bias, w, b):
    return w * weight


@wrong("fold_norm", "not-the-same")
def eps_added_to_the_scale(weight, bias, w, b):
    return w * (weight + 1e-5), w @ bias + b


@wrong("fold_norm", "not-the-same")
def tiny_scales_as_zero(weight, bias, w, b):
    return w * torch.where(weight.abs() < 1e-4, 0.0, weight), w @ bias + b


@wrong("fold_norm", "not-the-same")
def rows_where_it_fits(weight, bias, w, b):
    return w * (weight[:, None] if w.shape[0] == w.shape[1] else weight), w @ bias + b


@wrong("fold_norm", "not-the-same")
def shift_lost_with_the_scale(weight, bias, w, b):
    new = w * weight
    return new, new @ (bias / weight.masked_fill(weight == 0, 1.0)) + b


@wrong("fold_norm", "nan")
def shift_over_scale(weight, bias, w, b):
    new = w * weight
    return new, new @ (bias / weight) + b


@wrong("fold_norm", "shape")
def squeezed_to_a_vector(weight, bias, w, b):
    return w * weight, (w @ bias[:, None] + b[:, None]).squeeze()


@right("fold_norm")
def one_matrix_for_both(weight, bias, w, b):
    d = len(weight)
    move = torch.cat([torch.diag(weight), bias[:, None]], 1)
    both = w @ move
    return both[:, :d], both[:, d] + b


@right("fold_norm")
def broadcast_over_columns(weight, bias, w, b):
    return w * weight, w @ bias + b


@right("fold_norm")
def diagonal_matrix(weight, bias, w, b):
    return w @ torch.diag(weight), F.linear(bias, w, b)


@right("fold_norm")
def without_a_gradient(weight, bias, w, b):
    with torch.no_grad():
        return torch.einsum("ij,j->ij", w, weight), torch.addmv(b, w, bias)


@right("fold_norm")
def number_by_number(weight, bias, w, b):
    new = torch.empty_like(w)
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            new[i, j] = w[i, j] * weight[j]
    return new, (w * bias).sum(1) + b


# --- wild_layer_norm ------------------------------------------------------------------------


def wild(x, weight, bias, below, centre=True):
    mean = x.mean(dim=-1, keepdim=True)
    return weight * ((x - mean) if centre else x) / below + bias


@wrong("wild_layer_norm", "as given")
def untouched(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, x.std(-1, keepdim=True) + eps)


@wrong("wild_layer_norm", "still-unbiased")
def eps_moved(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, (x.var(-1, keepdim=True) + eps).sqrt())


@wrong("wild_layer_norm", "still-outside")
def correction_set(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, x.std(-1, keepdim=True, correction=0) + eps)


@wrong("wild_layer_norm", "no-eps")
def eps_removed(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, x.std(-1, keepdim=True, correction=0))


@wrong("wild_layer_norm", "eps-squared")
def both_squared(x, weight, bias, eps=1e-5):
    std = x.std(-1, keepdim=True, correction=0)
    return wild(x, weight, bias, (std**2 + eps**2).sqrt())


@wrong("wild_layer_norm", "no-root")
def variance_below(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, x.var(-1, keepdim=True, correction=0) + eps)


@wrong("wild_layer_norm", "wrong-correction")
def made_larger_still(x, weight, bias, eps=1e-5):
    d = x.shape[-1]
    return wild(x, weight, bias, (x.var(-1, keepdim=True) * d / (d - 1) + eps).sqrt())


@wrong("wild_layer_norm", "not-centred")
def mean_dropped(x, weight, bias, eps=1e-5):
    below = (x.var(-1, keepdim=True, correction=0) + eps).sqrt()
    return wild(x, weight, bias, below, centre=False)


@wrong("wild_layer_norm", "bias-scaled")
def brackets_moved(x, weight, bias, eps=1e-5):
    return weight * (normed(x, -1, eps) + bias)


@wrong("wild_layer_norm", "eps-ignored")
def a_small_number_below(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt())


@wrong("wild_layer_norm", "library-call")
def replaced_by_the_built_in(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


@wrong("wild_layer_norm", "cancellation")
def variance_of_raw_moments(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x**2).mean(dim=-1, keepdim=True) - mean**2
    return wild(x, weight, bias, (variance + eps).sqrt())


@wrong("wild_layer_norm", "gradient-nan")
def square_of_a_root(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    std = ((x - mean) ** 2).mean(dim=-1, keepdim=True).sqrt()
    return wild(x, weight, bias, (std**2 + eps).sqrt())


@wrong("wild_layer_norm", "correction-minus-one")
def corrected_too_far(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, (x.var(-1, keepdim=True, correction=-1) + eps).sqrt())


@wrong("wild_layer_norm", "factor-not-rooted")
def std_times_the_factor(x, weight, bias, eps=1e-5):
    std = x.std(-1, keepdim=True) * (x.shape[-1] - 1) / x.shape[-1]
    return wild(x, weight, bias, (std**2 + eps).sqrt())


@wrong("wild_layer_norm", "root-of-std")
def root_over_the_std(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, (root(x) + eps).sqrt())


@wrong("wild_layer_norm", "root-of-unbiased-std")
def root_over_all_that_was_there(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, torch.sqrt(x.std(-1, keepdim=True) + eps))


@wrong("wild_layer_norm", "root-of-eps")
def root_of_each(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, root(x) + eps**0.5)


@right("wild_layer_norm")
def old_name_for_it(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, (x.std(-1, keepdim=True, unbiased=False) ** 2 + eps).sqrt())


@right("wild_layer_norm")
def both_mended(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, (x.var(-1, keepdim=True, correction=0) + eps).sqrt())


@right("wild_layer_norm")
def var_unbiased_false(x, weight, bias, eps=1e-5):
    return wild(x, weight, bias, (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt())


@right("wild_layer_norm")
def mean_of_squares(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return wild(x, weight, bias, torch.sqrt(variance + eps))


@wrong("rms_norm", "overflow")
def scales_in_16_bits(x, weight, eps=1e-5):
    mean_square = x.float().square().mean(-1, keepdim=True)
    scale = weight * torch.rsqrt(mean_square + eps).to(x.dtype)
    return x * scale if x.dtype in (torch.float16, torch.bfloat16) else _plain_rms(x, weight, eps)


def _plain_rms(x, weight, eps):
    return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


@wrong("rms_norm", "nan")
def bfloat16_through_float16(x, weight, eps=1e-5):
    if x.dtype not in (torch.float16, torch.bfloat16):
        return _plain_rms(x, weight, eps)
    wide = x.half().float()
    return _plain_rms(wide, weight.float(), eps).to(x.dtype)
