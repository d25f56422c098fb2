"""What learners write in lesson 00."""

import numpy as np
import torch
import torch.nn.functional as F

from tests.wrong_answers import right, wrong

# --- similarities ---------------------------------------------------------------------------


@wrong("similarities", "no-sum")
def stops_at_the_products(q, keys):
    return keys * q


@wrong("similarities", "summed-over-keys")
def sums_along_the_wrong_axis(q, keys):
    return torch.sum(keys * q.unsqueeze(0), dim=0)


@wrong("similarities", "summed-over-all")
def one_number_for_all(q, keys):
    total = torch.zeros(())
    for key in keys:
        total = total + torch.dot(q, key)
    return total


@wrong("similarities", "mean")
def divides_by_the_length(q, keys):
    return (keys @ q) / len(q)


@wrong("similarities", "cosine")
def normalised(q, keys):
    return (keys @ q) / (keys.norm(dim=1) * q.norm())


@wrong("similarities", "distance")
def euclidean(q, keys):
    return ((keys - q) ** 2).sum(1).sqrt()


@wrong("similarities", "softmax")
def already_shares(q, keys):
    return F.softmax((q * keys).sum(-1), 0)


@wrong("similarities", "absolute")
def signs_lost(q, keys):
    return (q * keys).sum(-1).abs()


@wrong("similarities", "returned-none")
def no_return(q, keys):
    (q * keys).sum(-1)


@wrong("similarities", "raised")
def keys_on_the_wrong_side(q, keys):
    return q @ keys


@wrong("similarities", "shape")
def three_keys_for_ever(q, keys):
    return torch.stack([q @ keys[0], q @ keys[1], q @ keys[2]])


@wrong("similarities", "shape")
def a_column(q, keys):
    return keys @ q[:, None]


@wrong("similarities", "type")
def a_list_of_numbers(q, keys):
    return [(q @ key).item() for key in keys]


@wrong("similarities", "type")
def numpys(q, keys):
    return np.asarray(keys.detach()) @ np.asarray(q.detach())


@wrong("similarities", "shape")
def one_key_squeezed_away(q, keys):
    return (keys @ q).squeeze()


@wrong("similarities", "raised")
def needs_memory_in_a_row(q, keys):
    return (keys.view(-1) * q.repeat(len(keys))).view(len(keys), -1).sum(1)


@wrong("similarities", "random")
def with_a_dropout(q, keys):
    return F.dropout(keys, 0.5) @ q


@wrong("similarities", "raised")
def float32_for_ever(q, keys):
    return keys @ q.float()


@right("similarities")
def through_plain_numbers(q, keys):
    return torch.tensor([(q @ key).item() for key in keys])


@wrong("similarities", "changes-input")
def multiplies_in_place(q, keys):
    keys *= q
    return keys.sum(-1)


@wrong("similarities", "differs")
def the_last_number_is_left_out(q, keys):
    return (q * keys)[:, :-1].sum(-1)


@right("similarities")
def one_product(q, keys):
    return keys @ q


@right("similarities")
def with_loops(q, keys):
    out = []
    for key in keys:
        total = 0.0
        for a, b in zip(q, key, strict=True):
            total = total + a * b
        out.append(total)
    return torch.stack(out)


@right("similarities")
def with_einsum(q, keys):
    return torch.einsum("d,kd->k", q, keys)


@right("similarities")
def with_broadcasting(q, keys):
    return (q * keys).sum(dim=-1)


@right("similarities")
def filled_in_place(q, keys):
    out = torch.zeros(len(keys))
    for i, key in enumerate(keys):
        out[i] = torch.dot(q, key)
    return out


# --- cosine_similarities --------------------------------------------------------------------


@wrong("cosine_similarities", "no-norm")
def only_dots(queries, keys):
    return torch.einsum("qd,kd->qk", queries, keys)


@wrong("cosine_similarities", "queries-only")
def keys_left_long(queries, keys):
    return F.normalize(queries, dim=1) @ keys.T


@wrong("cosine_similarities", "keys-only")
def queries_left_long(queries, keys):
    return queries @ F.normalize(keys, dim=1).T


@wrong("cosine_similarities", "whole-matrix")
def one_length_for_all(queries, keys):
    return (queries / torch.linalg.norm(queries)) @ (keys / torch.linalg.norm(keys)).T


@wrong("cosine_similarities", "wrong-axis")
def lengths_of_columns(queries, keys):
    return F.normalize(queries, dim=0) @ F.normalize(keys, dim=0).T


@wrong("cosine_similarities", "squared-lengths")
def root_forgotten(queries, keys):
    a = (queries**2).sum(1, keepdim=True)
    b = (keys**2).sum(1, keepdim=True).clamp(min=1e-9)
    return (queries @ keys.T) / (a * b.T)


@wrong("cosine_similarities", "sums-of-absolutes")
def first_norm(queries, keys):
    return F.normalize(queries, p=1, dim=1) @ F.normalize(keys, p=1, dim=1).T


@wrong("cosine_similarities", "transposed")
def keys_in_rows(queries, keys):
    return F.normalize(keys, dim=1) @ F.normalize(queries, dim=1).T


@wrong("cosine_similarities", "zero-vector")
def nothing_against_zero(queries, keys):
    lengths = queries.norm(dim=1)[:, None] * keys.norm(dim=1)[None]
    return queries @ keys.T / lengths


@wrong("cosine_similarities", "raised")
def keepdim_forgotten(queries, keys):
    return (queries / queries.norm(dim=1)) @ (keys / keys.norm(dim=1)).T


@wrong("cosine_similarities", "raised")
def pairs_only(queries, keys):
    return F.cosine_similarity(queries, keys)


@wrong("cosine_similarities", "differs")
def a_large_safety(queries, keys):
    return queries @ keys.T / (queries.norm(dim=1)[:, None] * keys.norm(dim=1)[None] + 1e-3)


@right("cosine_similarities")
def normalised_first(queries, keys):
    return F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T


@right("cosine_similarities")
def torchs_own_on_pairs(queries, keys):
    return torch.stack([F.cosine_similarity(q[None], keys) for q in queries])


@wrong("cosine_similarities", "zero-vector")
def only_keys_are_looked_after(queries, keys):
    a = queries.norm(dim=1, keepdim=True)
    b = keys.norm(dim=1, keepdim=True)
    b = torch.where(b == 0, torch.ones_like(b), b)
    return torch.einsum("qd,kd->qk", queries / a, keys / b)


@wrong("cosine_similarities", "zero-vector")
def only_queries_are_looked_after(queries, keys):
    return F.normalize(queries, dim=1) @ (keys / keys.norm(dim=1, keepdim=True)).T


@wrong("cosine_similarities", "differs")
def short_vectors_are_lifted(queries, keys):
    a = queries.norm(dim=1, keepdim=True).clamp(min=1e-3)
    b = keys.norm(dim=1, keepdim=True).clamp(min=1e-3)
    return queries @ keys.T / (a * b.T)


@wrong("cosine_similarities", "shape")
def squeezed_cosines(queries, keys):
    return (F.normalize(queries, dim=1) @ F.normalize(keys, dim=1).T).squeeze()


@wrong("cosine_similarities", "no-gradient")
def rebuilt_from_numbers(queries, keys):
    q, k = F.normalize(queries, dim=1), F.normalize(keys, dim=1)
    return torch.tensor((q @ k.T).tolist(), dtype=queries.dtype)


@wrong("cosine_similarities", "never-negative")
def opposite_ones_cut_off(queries, keys):
    return (F.normalize(queries, dim=1) @ F.normalize(keys, dim=1).T).clamp(min=0)


@right("cosine_similarities")
def ones_for_zero_lengths(queries, keys):
    a = queries.norm(dim=1, keepdim=True)
    b = keys.norm(dim=1, keepdim=True)
    a, b = (torch.where(x == 0, torch.ones_like(x), x) for x in (a, b))
    return torch.einsum("qd,kd->qk", queries / a, keys / b)


@right("cosine_similarities")
def nan_put_to_zero(queries, keys):
    lengths = queries.norm(dim=1)[:, None] * keys.norm(dim=1)
    return (queries @ keys.T / lengths).nan_to_num(0.0)


@right("cosine_similarities")
def with_loops_over_pairs(queries, keys):
    rows = []
    for q in queries:
        row = []
        for k in keys:
            length = (q**2).sum().clamp(min=1e-30).sqrt() * (k**2).sum().clamp(min=1e-30).sqrt()
            row.append((q * k).sum() / length)
        rows.append(torch.stack(row))
    return torch.stack(rows)


# --- mean_squared_error ---------------------------------------------------------------------


@wrong("mean_squared_error", "as given")
def left_as_it_was(prediction, target):
    difference = prediction - target
    return (difference**2).mean()


@wrong("mean_squared_error", "sum")
def summed(prediction, target):
    return ((prediction[:, 0] - target) ** 2).sum()


@wrong("mean_squared_error", "sum-over-all-pairs")
def summed_with_the_bug(prediction, target):
    return (prediction - target).pow(2).sum()


@wrong("mean_squared_error", "not-squared")
def square_forgotten(prediction, target):
    return (prediction.flatten() - target).mean()


@wrong("mean_squared_error", "absolute")
def absolute_error(prediction, target):
    return F.l1_loss(prediction.flatten(), target)


@wrong("mean_squared_error", "root")
def root_mean_square(prediction, target):
    return ((prediction.flatten() - target) ** 2).mean() ** 0.5


@wrong("mean_squared_error", "not-averaged")
def one_for_each(prediction, target):
    return (prediction.flatten() - target) ** 2


@wrong("mean_squared_error", "mean-before-square")
def cancels_first(prediction, target):
    return (prediction.mean() - target.mean()) ** 2


@wrong("mean_squared_error", "returned-none")
def prints_it(prediction, target):
    _ = F.mse_loss(prediction.flatten(), target)


@wrong("mean_squared_error", "type")
def a_python_number(prediction, target):
    return F.mse_loss(prediction.flatten(), target).item()


@wrong("mean_squared_error", "halved")
def half_of_it(prediction, target):
    return 0.5 * F.mse_loss(prediction.flatten(), target)


@wrong("mean_squared_error", "no-gradient")
def leaves_the_graph(prediction, target):
    return F.mse_loss(prediction.detach().squeeze(-1), target)


@wrong("mean_squared_error", "raised")
def squeezes_everything(prediction, target):
    pairs = zip(prediction.squeeze(), target, strict=True)
    return torch.stack([(p - t) ** 2 for p, t in pairs]).mean()


@wrong("mean_squared_error", "shape")
def keeps_an_axis(prediction, target):
    return ((prediction.squeeze(-1) - target) ** 2).mean(dim=0, keepdim=True)


@wrong("mean_squared_error", "one-less")
def divides_by_one_less(prediction, target):
    return ((prediction[:, 0] - target) ** 2).sum() / max(1, len(target) - 1)


@right("mean_squared_error")
def squeezed(prediction, target):
    return ((prediction.squeeze(1) - target) ** 2).mean()


@right("mean_squared_error")
def target_as_a_column(prediction, target):
    return ((prediction - target[:, None]) ** 2).mean()


@right("mean_squared_error")
def torchs_loss(prediction, target):
    return F.mse_loss(prediction, target.unsqueeze(-1))


@right("mean_squared_error")
def in_a_loop(prediction, target):
    total = 0.0
    for p, t in zip(prediction[:, 0], target, strict=True):
        total = total + (p - t) ** 2
    return total / len(target)


@wrong("cosine_similarities", "differs")
def a_little_added_to_the_product(queries, keys):
    lengths = queries.norm(dim=1)[:, None] * keys.norm(dim=1)
    return queries @ keys.T / (lengths + 1e-8)


@wrong("similarities", "scaled")
def scaled_as_in_attention(q, keys):
    return keys @ q / len(q) ** 0.5


@wrong("mean_squared_error", "variance")
def spread_of_the_differences(prediction, target):
    return (prediction[:, 0] - target).var(unbiased=False)


@right("mean_squared_error")
def diagonal_of_all_pairs(prediction, target):
    return (prediction - target).diagonal().square().mean()


@wrong("cosine_similarities", "differs")
def arc_cosines(queries, keys):
    cosines = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T
    return torch.acos(cosines.clamp(-1, 1))


@right("cosine_similarities")
def largest_number_divided_out_first(queries, keys):
    def unit(x):
        x = x / x.abs().amax(1, keepdim=True).clamp(min=1e-20)
        return x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)

    return unit(queries) @ unit(keys).mT
