"""What learners write in lesson 07."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.wrong_answers import right, wrong

# --- how_it_ended ---------------------------------------------------------------------------


def finite(losses):
    return bool(losses.isfinite().all())


@wrong("how_it_ended", "nan-only")
def forgot_infinity(losses, level):
    if any(loss != loss for loss in losses.tolist()):
        return "diverged"
    return "learns" if losses[-20:].mean() <= level - 0.1 else "stalled"


@wrong("how_it_ended", "end-only")
def asked_the_last(losses, level):
    if not math.isfinite(losses[-1].item()):
        return "diverged"
    last = [loss for loss in losses.tolist() if math.isfinite(loss)][-20:]
    return "stalled" if sum(last) / len(last) > level - 0.1 else "learns"


@wrong("how_it_ended", "nothing-diverges")
def two_words(losses, level):
    return "learns" if losses[-20:].mean() <= level - 0.1 else "stalled"


@wrong("how_it_ended", "last-loss")
def one_batch(losses, level):
    if not finite(losses):
        return "diverged"
    return "learns" if losses[-1] <= level - 0.1 else "stalled"


@wrong("how_it_ended", "best-loss")
def at_its_best(losses, level):
    if not finite(losses):
        return "diverged"
    return "learns" if min(losses.tolist()) <= level - 0.1 else "stalled"


@wrong("how_it_ended", "all-losses")
def mean_of_all(losses, level):
    mean = losses.mean()
    if not mean.isfinite():
        return "diverged"
    return "stalled" if mean > level - 0.1 else "learns"


@wrong("how_it_ended", "no-margin")
def merely_below(losses, level):
    if not finite(losses):
        return "diverged"
    return "stalled" if losses[-20:].mean() > level else "learns"


@wrong("how_it_ended", "margin-above")
def wrong_side(losses, level):
    if not finite(losses):
        return "diverged"
    return "stalled" if losses[-20:].mean() > level + 0.1 else "learns"


@wrong("how_it_ended", "turned-round")
def high_is_good(losses, level):
    if not finite(losses):
        return "diverged"
    return "learns" if losses[-20:].mean() > level - 0.1 else "stalled"


@wrong("how_it_ended", "differs")
def divided_by_twenty(losses, level):
    if not finite(losses):
        return "diverged"
    return "stalled" if losses[-20:].sum() / 20 > level - 0.1 else "learns"


@wrong("how_it_ended", "type")
def yes_or_no(losses, level):
    return bool(losses[-20:].mean() <= level - 0.1)


@right("how_it_ended")
def with_tensors(losses, level):
    if not losses.isfinite().all():
        return "diverged"
    return "learns" if losses[-20:].mean() <= level - 0.1 else "stalled"


@right("how_it_ended")
def with_a_loop(losses, level):
    losses = losses.tolist()
    for loss in losses:
        if math.isnan(loss) or math.isinf(loss):
            return "diverged"
    total, count = 0.0, 0
    for loss in reversed(losses):
        if count == 20:
            break
        total, count = total + loss, count + 1
    if total / count > level - 0.1:
        return "stalled"
    return "learns"


@right("how_it_ended")
def the_mean_tells(losses, level):
    if not losses.sum().isfinite():
        return "diverged"
    count = min(20, len(losses))
    return ("learns", "stalled")[bool(losses[-count:].sum() / count > level - 0.1)]


@wrong("how_it_ended", "differs")
def large_is_infinite(losses, level):
    if not (losses.abs() < 1e4).all():
        return "diverged"
    return "stalled" if losses[-20:].mean() > level - 0.1 else "learns"


@wrong("how_it_ended", "differs")
def only_upward(losses, level):
    if losses.isnan().any() or (losses == math.inf).any():
        return "diverged"
    return "stalled" if losses[-20:].mean() > level - 0.1 else "learns"


@wrong("how_it_ended", "differs")
def the_limit_itself(losses, level):
    if not finite(losses):
        return "diverged"
    return "stalled" if losses[-20:].mean() >= level - 0.1 else "learns"


@wrong("how_it_ended", "differs")
def without_the_last(losses, level):
    if not finite(losses):
        return "diverged"
    return "stalled" if losses[-20:-1].mean() > level - 0.1 else "learns"


@right("how_it_ended")
def what_is_left_of_nothing(losses, level):
    if ((losses - losses) != 0).any():
        return "diverged"
    last = losses.tolist()[::-1][:20]
    return "stalled" if math.fsum(last) / len(last) > level - 0.1 else "learns"


# --- stream_growth --------------------------------------------------------------------------


def normed(x):
    return F.layer_norm(x, (x.shape[-1],))


def size(x):
    return x.pow(2).mean() ** 0.5


@wrong("stream_growth", "start-missing")
def after_each_only(x, matrices, norm_first):
    sizes = []
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(size(x))
    return torch.stack(sizes) if sizes else torch.zeros(0)


@wrong("stream_growth", "always-pre")
def flag_unused(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        x = x + normed(x) @ matrix
        sizes.append(size(x))
    return torch.stack(sizes)


@wrong("stream_growth", "always-post")
def as_in_2017(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        x = normed(x + x @ matrix)
        sizes.append(size(x))
    return torch.stack(sizes)


@wrong("stream_growth", "swapped")
def flag_turned_round(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        x = normed(x + x @ matrix) if norm_first else x + normed(x) @ matrix
        sizes.append(size(x))
    return torch.stack(sizes)


@wrong("stream_growth", "normed-stream")
def name_reused(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        if norm_first:
            x = normed(x)
            x = x + x @ matrix
        else:
            x = normed(x + x @ matrix)
        sizes.append(size(x))
    return torch.stack(sizes)


@wrong("stream_growth", "no-plus")
def replaced(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        x = normed(x) @ matrix if norm_first else normed(x @ matrix)
        sizes.append(size(x))
    return torch.stack(sizes)


@wrong("stream_growth", "no-norm")
def read_as_it_is(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        x = x + x @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(size(x))
    return torch.stack(sizes)


@wrong("stream_growth", "spread")
def around_the_mean(x, matrices, norm_first):
    sizes = [x.std(correction=0)]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(x.std(correction=0))
    return torch.stack(sizes)


@wrong("stream_growth", "not-rooted")
def mean_of_squares(x, matrices, norm_first):
    sizes = [x.square().mean()]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(x.square().mean())
    return torch.stack(sizes)


@wrong("stream_growth", "summed")
def length_of_all(x, matrices, norm_first):
    sizes = [x.norm()]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(x.norm())
    return torch.stack(sizes)


@wrong("stream_growth", "no-gradient")
def cut_off(x, matrices, norm_first):
    sizes = [size(x).item()]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(size(x).item())
    return torch.tensor(sizes, dtype=x.dtype)


@wrong("stream_growth", "type")
def a_list(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(size(x))
    return sizes


@right("stream_growth")
def step_by_step(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(size(x))
    return torch.stack(sizes)


@right("stream_growth")
def norm_by_hand(x, matrices, norm_first):
    def norm(t):
        t = t - t.mean(-1, keepdim=True)
        return t / (t.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    streams = [x]
    for i in range(len(matrices)):
        x = streams[-1]
        if norm_first:
            streams.append(x + torch.einsum("btd,de->bte", norm(x), matrices[i]))
        else:
            streams.append(norm(x + torch.einsum("btd,de->bte", x, matrices[i])))
    return torch.stack(streams).square().mean(dim=(1, 2, 3)).sqrt()


@right("stream_growth")
def into_a_row(x, matrices, norm_first):
    n = matrices.shape[0]
    found = [torch.linalg.vector_norm(x) / math.sqrt(x.numel())]
    for i in range(n):
        read = normed(x) if norm_first else x
        total = x + read.matmul(matrices[i])
        x = total if norm_first else normed(total)
        found.append(torch.linalg.vector_norm(x) / math.sqrt(x.numel()))
    return torch.cat([f.reshape(1) for f in found])


@wrong("stream_growth", "differs")
def never_quite_zero(x, matrices, norm_first):
    sizes = [(x.square().mean() + 1e-6).sqrt()]
    for matrix in matrices:
        read = F.layer_norm(x, x.shape[-1:]) if norm_first else x
        x = x + read @ matrix
        x = x if norm_first else F.layer_norm(x, x.shape[-1:])
        sizes.append((x.square().mean() + 1e-6).sqrt())
    return torch.stack(sizes)


@wrong("stream_growth", "spread-corrected")
def std_as_it_comes(x, matrices, norm_first):
    sizes = [x.std()]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        sizes.append(x.std())
    return torch.stack(sizes)


@wrong("stream_growth", "token-by-token")
def mean_of_the_tokens_sizes(x, matrices, norm_first):
    states = [x]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        states.append(x)
    return torch.stack([s.square().mean(-1).sqrt().mean() for s in states])


@wrong("stream_growth", "norm-on-the-way-out")
def update_normalized(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        x = x + (normed(x) @ matrix if norm_first else normed(x @ matrix))
        sizes.append(size(x))
    return torch.stack(sizes)


@wrong("stream_growth", "noted-too-early")
def size_of_the_sum(x, matrices, norm_first):
    sizes = [size(x)]
    for matrix in matrices:
        total = x + normed(x) @ matrix if norm_first else x + x @ matrix
        sizes.append(size(total))
        x = total if norm_first else normed(total)
    return torch.stack(sizes)


@wrong("stream_growth", "what-is-added")
def size_of_the_change(x, matrices, norm_first):
    states = [torch.zeros_like(x), x]
    for matrix in matrices:
        x = x + normed(x) @ matrix if norm_first else normed(x + x @ matrix)
        states.append(x)
    return torch.stack([size(b - a) for a, b in zip(states, states[1:], strict=False)])


@wrong("stream_growth", "from-the-start")
def added_to_the_input(x, matrices, norm_first):
    y, sizes = x, [size(x)]
    for matrix in matrices:
        y = x + normed(y) @ matrix if norm_first else normed(x + y @ matrix)
        sizes.append(size(y))
    return torch.stack(sizes)


@right("stream_growth")
def by_length(x, matrices, norm_first):
    states = [x]
    for matrix in matrices.unbind():
        x = states[-1]
        states.append(x + normed(x) @ matrix if norm_first else normed(x + x @ matrix))
    return torch.stack(states).flatten(1).norm(dim=1) / x.numel() ** 0.5


# --- norm_vjp -------------------------------------------------------------------------------


def parts(x, eps):
    centered = x - x.mean(-1, keepdim=True)
    root = (centered.square().mean(-1, keepdim=True) + eps).sqrt()
    return centered / root, root


@wrong("norm_vjp", "only-divided")
def just_divided(x, g, eps=1e-5):
    return g / parts(x, eps)[1]


@wrong("norm_vjp", "mean-kept")
def mean_forgotten(x, g, eps=1e-5):
    y, root = parts(x, eps)
    return (g - y * (g * y).mean(-1, keepdim=True)) / root


@wrong("norm_vjp", "length-kept")
def length_forgotten(x, g, eps=1e-5):
    return (g - g.mean(-1, keepdim=True)) / parts(x, eps)[1]


@wrong("norm_vjp", "not-divided")
def division_forgotten(x, g, eps=1e-5):
    y, _ = parts(x, eps)
    return g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)


@wrong("norm_vjp", "divided-twice")
def by_the_variance(x, g, eps=1e-5):
    y, root = parts(x, eps)
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / root**2


@wrong("norm_vjp", "multiplied")
def by_the_root_of_the_variance(x, g, eps=1e-5):
    y, root = parts(x, eps)
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) * root


@wrong("norm_vjp", "summed")
def a_sum_along_y(x, g, eps=1e-5):
    y, root = parts(x, eps)
    return (g - g.mean(-1, keepdim=True) - y * (g * y).sum(-1, keepdim=True)) / root


@wrong("norm_vjp", "sign")
def added(x, g, eps=1e-5):
    y, root = parts(x, eps)
    return (g - g.mean(-1, keepdim=True) + y * (g * y).mean(-1, keepdim=True)) / root


@wrong("norm_vjp", "forward")
def the_output(x, g, eps=1e-5):
    return parts(x, eps)[0]


@wrong("norm_vjp", "unbiased")
def biased_forgotten(x, g, eps=1e-5):
    root = (x.var(-1, keepdim=True, correction=min(1, x.shape[-1] - 1)) + eps).sqrt()
    y = (x - x.mean(-1, keepdim=True)) / root
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / root


@wrong("norm_vjp", "fixed-eps")
def eps_left_out(x, g, eps=1e-5):
    y, root = parts(x, 1e-5)
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / root


@wrong("norm_vjp", "library-call")
def asked_autograd(x, g, eps=1e-5):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, x.shape[-1:], eps=eps), x, g)[0]


@right("norm_vjp")
def formula(x, g, eps=1e-5):
    y, root = parts(x, eps)
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / root


@right("norm_vjp")
def in_two_steps(x, g, eps=1e-5):
    d = x.shape[-1]
    centered = x - x.sum(-1, keepdim=True) / d
    variance = centered.pow(2).sum(-1, keepdim=True) / d + eps
    through_root = g * variance.rsqrt()
    through_variance = -0.5 * (g * centered).sum(-1, keepdim=True) * variance**-1.5
    to_centered = through_root + through_variance * 2 * centered / d
    return to_centered - to_centered.sum(-1, keepdim=True) / d


@right("norm_vjp")
def with_the_matrix(x, g, eps=1e-5):
    d = x.shape[-1]
    center = torch.eye(d, dtype=x.dtype) - 1 / d
    centered = x @ center
    variance = centered.square().mean(-1, keepdim=True) + eps
    y = centered / variance.sqrt()
    outer = y[..., :, None] * y[..., None, :] / d
    jacobian = (center - outer) / variance.sqrt()[..., None]
    return torch.einsum("...i,...ij->...j", g, jacobian)


@wrong("norm_vjp", "eps-outside")
def eps_after_the_root(x, g, eps=1e-5):
    offset = x - x.mean(-1, keepdim=True)
    root = x.std(-1, correction=0, keepdim=True) + eps
    y = offset / root
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / root


@right("norm_vjp")
def one_matrix_a_token(x, g, eps=1e-5):
    y, root = parts(x, eps)
    d = x.shape[-1]
    kept = torch.eye(d, dtype=x.dtype) - 1 / d - y[..., :, None] * y[..., None, :] / d
    return torch.einsum("...ij,...j->...i", kept, g) / root


@wrong("norm_vjp", "y-without-eps")
def eps_in_the_division_only(x, g, eps=1e-5):
    offset = x - x.mean(-1, keepdim=True)
    g = g - g.mean(-1, keepdim=True)
    along = (g * offset).sum(-1, keepdim=True) / (offset.square().sum(-1, keepdim=True) + 1e-12)
    return (g - offset * along) / (offset.square().mean(-1, keepdim=True) + eps).sqrt()


@wrong("norm_vjp", "unit-length")
def brought_to_length_one(x, g, eps=1e-5):
    y = F.normalize(x - x.mean(-1, keepdim=True), dim=-1)
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / parts(x, eps)[1]


@wrong("norm_vjp", "only-centred")
def offset_for_y(x, g, eps=1e-5):
    offset = x - x.mean(-1, keepdim=True)
    along = offset * (g * offset).mean(-1, keepdim=True)
    return (g - g.mean(-1, keepdim=True) - along) / parts(x, eps)[1]


@wrong("norm_vjp", "rms-norm")
def no_mean_taken(x, g, eps=1e-5):
    root = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return (g - x * (g * x).mean(-1, keepdim=True) / root**2) / root


@wrong("norm_vjp", "times-y")
def product_with_the_output(x, g, eps=1e-5):
    return g * parts(x, eps)[0]


@wrong("norm_vjp", "raised")
def three_axes_at_most(x, g, eps=1e-5):
    y, root = parts(x, eps)
    g = g - g.mean(-1, keepdim=True)
    along = torch.einsum({1: "d,d->", 2: "td,td->t", 3: "btd,btd->bt"}[x.dim()], g, y)
    return (g - y * along[..., None] / x.shape[-1]) / root


@right("norm_vjp")
def by_the_matrix_of_slopes(x, g, eps=1e-5):
    rows, d = [], x.shape[-1]
    for token, back in zip(x.reshape(-1, d), g.reshape(-1, d), strict=True):
        y, root = parts(token, eps)
        slopes = torch.eye(d).to(x) - 1 / d - torch.outer(y, y) / d
        rows.append(slopes @ back / root)
    return torch.stack(rows).view(x.shape)


# --- attention_vjp --------------------------------------------------------------------------


def weights_of(q, k, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0.0)


def back_to_scores(p, dp):
    return p * (dp - (p * dp).sum(-1, keepdim=True))


@wrong("attention_vjp", "scale-missing")
def plain_products(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT)
    return ds @ k, ds.mT @ q, p.mT @ g


@wrong("attention_vjp", "scale-missing-at-q")
def divided_at_k(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT)
    return ds @ k, ds.mT @ q / q.shape[-1] ** 0.5, p.mT @ g


@wrong("attention_vjp", "scale-missing-at-k")
def divided_at_q(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT)
    return ds @ k / math.sqrt(k.shape[-1]), ds.mT @ q, p.mT @ g


@wrong("attention_vjp", "scaled-twice")
def divided_at_both_ends(q, k, v, g, mask=None):
    root = q.shape[-1] ** 0.5
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT) / root
    return ds @ k / root, ds.mT @ q / root, p.mT @ g


@wrong("attention_vjp", "scaled-at-v")
def divided_everywhere(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT)
    return tuple(t / q.shape[-1] ** 0.5 for t in (ds @ k, ds.mT @ q, p.mT @ g))


@wrong("attention_vjp", "multiplied-by-the-root")
def undone(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT) * math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ g


@wrong("attention_vjp", "weights-unscaled")
def divided_only_on_the_way_back(q, k, v, g, mask=None):
    p = weights_of(q * q.shape[-1] ** 0.5, k, mask)
    ds = back_to_scores(p, g @ v.mT) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ g


@wrong("attention_vjp", "never-scaled")
def without_a_root(q, k, v, g, mask=None):
    p = weights_of(q * q.shape[-1] ** 0.5, k, mask)
    ds = back_to_scores(p, g @ v.mT)
    return ds @ k, ds.mT @ q, p.mT @ g


@wrong("attention_vjp", "scale-of-d-value")
def root_of_the_values(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT) / math.sqrt(g.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ g


def from_scores(q, k, g, p, ds):
    ds = ds / q.shape[-1] ** 0.5
    return ds @ k, ds.mT @ q, p.mT @ g


@wrong("attention_vjp", "nothing-taken-off")
def weighted_alone(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    return from_scores(q, k, g, p, p * (g @ v.mT))


@wrong("attention_vjp", "plain-mean")
def as_in_a_norm(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, p * (dp - dp.mean(dim=-1, keepdim=True)))


@wrong("attention_vjp", "plain-sum")
def weights_forgotten_in_the_sum(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, p * (dp - dp.sum(dim=-1, keepdim=True)))


@wrong("attention_vjp", "mean-of-the-products")
def weighted_and_averaged(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, p * (dp - (p * dp).mean(dim=-1, keepdim=True)))


@wrong("attention_vjp", "over-queries")
def columns(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, p * (dp - (p * dp).sum(dim=2, keepdim=True)))


@wrong("attention_vjp", "over-everything")
def one_number_a_head(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, p * (dp - (p * dp).sum(dim=(2, 3), keepdim=True)))


@wrong("attention_vjp", "softmax-over-queries")
def softmax_down_the_columns(q, k, v, g, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    p = torch.softmax(scores, dim=-2).nan_to_num(0.0)
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


@wrong("attention_vjp", "not-weighted")
def weight_forgotten_in_front(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, dp - (p * dp).sum(-1, keepdim=True))


@wrong("attention_vjp", "weighted-too-early")
def bracket_forgotten(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, p * dp - (p * dp).sum(-1, keepdim=True))


@wrong("attention_vjp", "log-softmax")
def of_the_logarithm(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, dp - p * dp.sum(-1, keepdim=True))


@wrong("attention_vjp", "no-softmax")
def straight_through(q, k, v, g, mask=None):
    return from_scores(q, k, g, weights_of(q, k, mask), g @ v.mT)


@wrong("attention_vjp", "times-one-minus")
def as_in_a_sigmoid(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    return from_scores(q, k, g, p, p * (1 - p) * (g @ v.mT))


@wrong("attention_vjp", "sign")
def mean_minus_each(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, p * ((p * dp).sum(-1, keepdim=True) - dp))


def backward_right(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


@wrong("attention_vjp", "swapped")
def k_first(q, k, v, g, mask=None):
    dq, dk, dv = backward_right(q, k, v, g, mask)
    return dk, dq, dv


@wrong("attention_vjp", "k-and-v-swapped")
def v_before_k(q, k, v, g, mask=None):
    dq, dk, dv = backward_right(q, k, v, g, mask)
    return dq, dv, dk


@wrong("attention_vjp", "turned-round")
def as_they_were_found(q, k, v, g, mask=None):
    dq, dk, dv = backward_right(q, k, v, g, mask)
    return dv, dk, dq


@wrong("attention_vjp", "values-for-keys")
def through_the_values(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT) / q.shape[-1] ** 0.5
    return ds @ v, ds.mT @ q, p.mT @ g


@wrong("attention_vjp", "v-alone")
def the_easy_third(q, k, v, g, mask=None):
    return torch.zeros_like(q), torch.zeros_like(k), weights_of(q, k, mask).mT @ g


@wrong("attention_vjp", "mask-ignored")
def mask_unused(q, k, v, g, mask=None):
    return backward_right(q, k, v, g)


@wrong("attention_vjp", "mask-inverted")
def true_is_forbidden(q, k, v, g, mask=None):
    return backward_right(q, k, v, g, mask if mask is None else ~mask)


@wrong("attention_vjp", "mask-after")
def cut_out_at_the_end(q, k, v, g, mask=None):
    p = weights_of(q, k)
    if mask is not None:
        p = p * mask
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


@wrong("attention_vjp", "mask-on-the-way-back")
def only_the_slopes_masked(q, k, v, g, mask=None):
    p = weights_of(q, k)
    ds = back_to_scores(p, g @ v.mT)
    if mask is not None:
        ds = ds.masked_fill(~mask, 0.0)
    return from_scores(q, k, g, p, ds)


@wrong("attention_vjp", "nothing-becomes-everything")
def very_negative(q, k, v, g, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    p = scores.softmax(-1)
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


@wrong("attention_vjp", "nan-rows")
def nothing_over_nothing(q, k, v, g, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    p = scores.softmax(-1)
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


@wrong("attention_vjp", "differs")
def nan_removed_too_late(q, k, v, g, mask=None):
    return tuple(t.nan_to_num(0.0) for t in nothing_over_nothing(q, k, v, g, mask))


@wrong("attention_vjp", "overflow")
def exponentials_alone(q, k, v, g, mask=None):
    raised = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
    if mask is not None:
        raised = raised.masked_fill(~mask, 0.0)
    p = raised / raised.sum(-1, keepdim=True)
    if mask is not None:
        p = p.masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


@wrong("attention_vjp", "forbidden-key")
def never_quite_forbidden(q, k, v, g, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    p = (scores if mask is None else scores - 3.0 * ~mask).softmax(-1)
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


def from_exponentials(raised, q, k, v, g, mask, least=1e-30):
    if mask is not None:
        raised = raised * mask
    p = raised / (raised.sum(-1, keepdim=True) + least)
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


@wrong("attention_vjp", "overflow")
def exponentials_without_their_nan(q, k, v, g, mask=None):
    raised = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
    if mask is not None:
        raised = raised * mask
    p = (raised / raised.sum(-1, keepdim=True)).nan_to_num(0)
    return from_scores(q, k, g, p, back_to_scores(p, g @ v.mT))


@wrong("attention_vjp", "overflow")
def exponentials_and_a_little(q, k, v, g, mask=None):
    raised = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
    return from_exponentials(raised, q, k, v, g, mask, 1e-9)


@wrong("attention_vjp", "overflow")
def clamped_at_80(q, k, v, g, mask=None):
    raised = (q @ k.mT / math.sqrt(q.shape[-1])).clamp(max=80).exp()
    return from_exponentials(raised, q, k, v, g, mask)


@wrong("attention_vjp", "overflow")
def one_largest_score_for_all(q, k, v, g, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return from_exponentials((scores - scores.max()).exp(), q, k, v, g, mask)


@wrong("attention_vjp", "nothing-gives-to-the-values")
def masked_before_and_after(q, k, v, g, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    p = scores.softmax(-1)
    ds = back_to_scores(p, g @ v.mT)
    return from_scores(q, k, g, p, ds if mask is None else ds * mask)


@wrong("attention_vjp", "one-mask-for-all")
def mask_of_the_last(q, k, v, g, mask=None):
    if mask is not None and mask.dim() == 4:
        mask = mask[-1, -1]
    return backward_right(q, k, v, g, mask)


@wrong("attention_vjp", "one-mask-for-all")
def mask_of_the_first(q, k, v, g, mask=None):
    if mask is not None:
        mask = mask.expand(*q.shape[:-1], k.shape[-2])[0, 0]
    return backward_right(q, k, v, g, mask)


def causal_instead(diagnosis, name, diagonal, unasked=False):
    def answer(q, k, v, g, mask=None):
        if mask is not None or unasked:
            mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
            mask = mask.tril(diagonal(q.shape[2], k.shape[2]))
        return backward_right(q, k, v, g, mask)

    answer.__name__ = name
    wrong("attention_vjp", diagnosis)(answer)


causal_instead("causal-for-any-mask", "causal_for_a_mask", lambda queries, keys: 0)
causal_instead("causal-at-the-end-for-any-mask", "causal_from_the_end", lambda q, k: k - q)
causal_instead("always-causal", "causal_ever", lambda queries, keys: 0, unasked=True)


@wrong("attention_vjp", "type")
def stacked_where_it_can_be(q, k, v, g, mask=None):
    three = backward_right(q, k, v, g, mask)
    return torch.stack(three) if q.shape == k.shape == v.shape else three


@wrong("attention_vjp", "only-v")
def half_of_it_taken_off(q, k, v, g, mask=None):
    p, dp = weights_of(q, k, mask), g @ v.mT
    return from_scores(q, k, g, p, p * (dp - 0.5 * (p * dp).sum(-1, keepdim=True)))


@wrong("attention_vjp", "all-but-k")
def the_first_query_twice(q, k, v, g, mask=None):
    dq, dk, dv = backward_right(q, k, v, g, mask)
    return dq, dk * q.shape[-2], dv


@wrong("attention_vjp", "all-but-q")
def averaged_over_keys(q, k, v, g, mask=None):
    dq, dk, dv = backward_right(q, k, v, g, mask)
    return dq / k.shape[-2], dk, dv


@wrong("attention_vjp", "all-but-v")
def one_minus_too_many(q, k, v, g, mask=None):
    dq, dk, dv = backward_right(q, k, v, g, mask)
    return dq, dk, -dv


@wrong("attention_vjp", "raised")
def not_transposed(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    ds = back_to_scores(p, g @ v.mT) / q.shape[-1] ** 0.5
    return ds @ k, ds @ q, p @ g


@wrong("attention_vjp", "raised")
def values_and_keys_confused(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    return from_scores(q, k, g, p, back_to_scores(p, g @ k.mT))


@wrong("attention_vjp", "shape")
def transposed_at_k(q, k, v, g, mask=None):
    dq, dk, dv = backward_right(q, k, v, g, mask)
    return dq, dk.mT, dv


@wrong("attention_vjp", "shape")
def heads_added_up(q, k, v, g, mask=None):
    return tuple(t.sum(1, keepdim=True) for t in backward_right(q, k, v, g, mask))


@wrong("attention_vjp", "differs")
def heads_mixed(q, k, v, g, mask=None):
    three = backward_right(q, k, v, g, mask)
    return tuple(t.mean(1, keepdim=True).expand(t.shape) for t in three)


@wrong("attention_vjp", "differs")
def the_first_sequence_for_all(q, k, v, g, mask=None):
    three = backward_right(q, k, v, g, mask)
    return tuple(t[:1].expand(t.shape) for t in three)


@wrong("attention_vjp", "changes-input")
def written_into_g(q, k, v, g, mask=None):
    three = backward_right(q, k, v, g, mask)
    g.mul_(2)
    return three


@wrong("attention_vjp", "library-call")
def back_by_autograd(q, k, v, g, mask=None):
    given = [t.detach().requires_grad_() for t in (q, k, v)]
    return torch.autograd.grad(weights_of(*given[:2], mask) @ given[2], given, g)


@wrong("attention_vjp", "library-call")
def back_by_backward(q, k, v, g, mask=None):
    given = [t.clone().requires_grad_() for t in (q, k, v)]
    (weights_of(*given[:2], mask) @ given[2]).backward(g)
    return tuple(t.grad for t in given)


@wrong("attention_vjp", "library-call")
def back_by_vjp(q, k, v, g, mask=None):
    _, back = torch.func.vjp(lambda q, k, v: weights_of(q, k, mask) @ v, q, k, v)
    return back(g)


@wrong("attention_vjp", "library-call")
def ours_taken_over(q, k, v, g, mask=None):
    from tfcourse import attention

    return attention.attention_vjp(q, k, v, g, mask)


@right("attention_vjp")
def formula_by_formula(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    dp = g @ v.mT
    ds = p * (dp - (p * dp).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ g


@right("attention_vjp")
def as_flash_attention_does(q, k, v, g, mask=None):
    q = q * q.shape[-1] ** -0.5
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    p = torch.softmax(scores, -1)
    if mask is not None:
        p = torch.where(mask, p, 0.0)
    row = (g * (p @ v)).sum(-1, keepdim=True)
    ds = p * (g @ v.mT - row)
    return ds @ k * q.shape[-1] ** -0.5, ds.mT @ q, p.mT @ g


@right("attention_vjp")
def with_the_table_of_slopes(q, k, v, g, mask=None):
    p = weights_of(q, k, mask)
    slopes = torch.diag_embed(p) - torch.einsum("bhqk,bhql->bhqkl", p, p)
    ds = torch.einsum("bhqkl,bhqd,bhld->bhqk", slopes, g, v) / q.shape[-1] ** 0.5
    return (
        torch.einsum("bhqk,bhkd->bhqd", ds, k),
        torch.einsum("bhqk,bhqd->bhkd", ds, q),
        torch.einsum("bhqk,bhqd->bhkd", p, g),
    )


@right("attention_vjp")
def query_by_query(q, k, v, g, mask=None):
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    shape = (*q.shape[:-1], k.shape[-2])
    may = torch.ones(shape, dtype=torch.bool) if mask is None else mask.expand(shape)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                seen = may[b, h, i]
                if not seen.any():
                    continue
                keys, values = k[b, h][seen], v[b, h][seen]
                p = torch.softmax(keys @ q[b, h, i] / math.sqrt(q.shape[-1]), 0)
                dp = values @ g[b, h, i]
                ds = p * (dp - p @ dp) / math.sqrt(q.shape[-1])
                dq[b, h, i] = ds @ keys
                dk[b, h, seen] += ds[:, None] * q[b, h, i]
                dv[b, h, seen] += p[:, None] * g[b, h, i]
    return [dq, dk, dv]


@right("attention_vjp")
def without_a_graph(q, k, v, g, mask=None):
    with torch.no_grad():
        scores = torch.matmul(q, k.transpose(-1, -2)).mul_(q.shape[-1] ** -0.5)
        if mask is not None:
            scores = scores + torch.where(mask, 0.0, -math.inf).to(scores.dtype)
        p = torch.exp(scores - scores.logsumexp(-1, keepdim=True)).nan_to_num_(0.0)
        products = p * torch.matmul(g, v.transpose(-1, -2))
        ds = products - p * products.sum(-1, keepdim=True)
        dk = torch.matmul(ds.transpose(-1, -2), q).div_(math.sqrt(q.shape[-1]))
        return ds.matmul(k) / math.sqrt(k.shape[-1]), dk, p.transpose(-1, -2).matmul(g)


# --- rate_at --------------------------------------------------------------------------------


def cosine(share):
    return 0.5 * (1 + math.cos(math.pi * share))


@wrong("rate_at", "from-zero")
def first_step_lost(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * step / warm_up
    return peak * cosine((step - warm_up) / (steps - warm_up))


@wrong("rate_at", "whole-numbers")
def floored(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * ((step + 1) // warm_up)
    return peak * cosine((step - warm_up) / (steps - warm_up))


@wrong("rate_at", "no-warm-up")
def cold(step, steps, peak, warm_up):
    return peak * cosine(max(0, step - warm_up) / (steps - warm_up))


@wrong("rate_at", "never-falls")
def flat(step, steps, peak, warm_up):
    return peak * min(1.0, (step + 1) / max(1, warm_up))


@wrong("rate_at", "straight")
def triangle(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * (1 - (step - warm_up) / (steps - warm_up))


@wrong("rate_at", "counted-from-the-start")
def jumps_down(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * cosine(step / steps)


@wrong("rate_at", "never-ends")
def too_slow(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * cosine((step - warm_up) / steps)


@wrong("rate_at", "below-zero")
def plain_cosine(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * math.cos(math.pi * (step - warm_up) / (steps - warm_up))


@wrong("rate_at", "whole-cosine")
def down_and_up(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * cosine(2 * (step - warm_up) / (steps - warm_up))


@wrong("rate_at", "share-of-the-peak")
def peak_forgotten(step, steps, peak, warm_up):
    if step < warm_up:
        return (step + 1) / warm_up
    return cosine((step - warm_up) / (steps - warm_up))


@wrong("rate_at", "raised")
def always_divided(step, steps, peak, warm_up):
    share = (step + 1) / warm_up
    return peak * (share if share <= 1 else cosine((step - warm_up) / (steps - warm_up)))


@right("rate_at")
def two_returns(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * cosine((step - warm_up) / (steps - warm_up))


@right("rate_at")
def squared_cosine(step, steps, peak, warm_up):
    if step + 1 <= warm_up:
        share = (step + 1) / warm_up
    else:
        share = math.cos(math.pi / 2 * (step - warm_up) / (steps - warm_up)) ** 2
    return share * peak


@right("rate_at")
def as_a_table(step, steps, peak, warm_up):
    rising = [(i + 1) / warm_up for i in range(warm_up)]
    left = steps - warm_up
    falling = [0.5 + 0.5 * math.cos(i * math.pi / left) for i in range(left)]
    return [share * peak for share in rising + falling][step]


@wrong("rate_at", "raised")
def nothing_left_to_fall(step, steps, peak, warm_up):
    share = (step - warm_up) / (steps - warm_up)
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * share))


@wrong("rate_at", "differs")
def six_digits(step, steps, peak, warm_up):
    if step < warm_up:
        return round(peak * (step + 1) / warm_up, 6)
    share = (step - warm_up) / (steps - warm_up)
    return round(peak * 0.5 * (1 + math.cos(math.pi * share)), 6)


@wrong("rate_at", "differs")
def a_step_too_long(step, steps, peak, warm_up):
    if step < warm_up or warm_up >= steps - 1:
        return peak * (step + 1) / max(warm_up, 1)
    share = (step - warm_up) / (steps - warm_up)
    return peak * 0.5 * (1 + math.cos(math.pi * share))


@wrong("rate_at", "ends-a-step-early")
def zero_at_the_last_step(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * cosine((step - warm_up) / max(1, steps - warm_up - 1))


@wrong("rate_at", "quarter-cosine")
def a_quarter(step, steps, peak, warm_up):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * math.cos(math.pi / 2 * (step - warm_up) / (steps - warm_up))


# --- first_std ------------------------------------------------------------------------------


@wrong("first_std", "as given")
def untouched(name, shape, layers):
    if name.endswith("bias"):
        return 0.0
    if "attention" in name or "feed_forward" in name:
        return 0.02 / math.sqrt(layers)
    return 0.02


@wrong("first_std", "one-a-block")
def one_addition(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    return 0.02 / math.sqrt(layers) if name.split(".")[-2] in ("out", "down") else 0.02


@wrong("first_std", "not-rooted")
def divided_by_all(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    return 0.02 / (2 * layers) if name.split(".")[-2] in ("out", "down") else 0.02


@wrong("first_std", "all-matrices")
def the_whole_block(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    if "attention" in name or "feed_forward" in name:
        return 0.02 / math.sqrt(2 * layers)
    return 0.02


@wrong("first_std", "reading-ones")
def readers(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    return 0.02 / math.sqrt(2 * layers) if name.split(".")[-2] in ("qkv", "up") else 0.02


@wrong("first_std", "attention-only")
def mlp_forgotten(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    return 0.02 / math.sqrt(2 * layers) if "attention.out" in name else 0.02


@wrong("first_std", "mlp-only")
def attention_forgotten(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    return 0.02 / math.sqrt(2 * layers) if "down" in name else 0.02


@wrong("first_std", "random-norms")
def norms_like_matrices(name, shape, layers):
    if name.endswith("bias"):
        return 0.0
    if name.endswith(("out.weight", "down.weight")):
        return 0.02 / math.sqrt(2 * layers)
    return 0.02


@wrong("first_std", "random-biases")
def biases_like_matrices(name, shape, layers):
    if "norm" in name and name.endswith("weight"):
        return 0.0
    if name.endswith(("out.weight", "down.weight")):
        return 0.02 / math.sqrt(2 * layers)
    return 0.02


@wrong("first_std", "never-smaller")
def all_alike(name, shape, layers):
    return 0.02 if len(shape) == 2 else 0.0


@wrong("first_std", "norms-at-one")
def a_norm_begins_at_one(name, shape, layers):
    if name.endswith("bias"):
        return 0.0
    if len(shape) == 1:
        return 1.0
    return 0.02 / math.sqrt(2 * layers) if name.split(".")[-2] in ("out", "down") else 0.02


@right("first_std")
def by_the_last_words(name, shape, layers):
    if len(shape) == 1:
        return 0.0
    return 0.02 * (2 * layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 0.02


@right("first_std")
def by_pieces_of_the_name(name, shape, layers):
    *_, part, kind = ["", *name.split(".")]
    if kind == "bias" or "norm" in part:
        return 0.0
    std = 0.02
    if part == "out" or part == "down":
        std = std / math.sqrt(layers + layers)
    return std


@right("first_std")
def by_a_table(name, shape, layers):
    smaller = {"attention.out.weight", "feed_forward.down.weight"}
    matrix = 0.02 if len(shape) > 1 else 0.0
    return matrix / math.sqrt(2 * layers) if ".".join(name.split(".")[-3:]) in smaller else matrix


@wrong("first_std", "differs")
def told_by_the_shape(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    return 0.02 / math.sqrt(2 * layers) if shape[0] <= shape[1] else 0.02


@wrong("first_std", "differs")
def told_by_a_block_s_shape(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    writes = name.startswith("blocks") and shape[0] <= shape[1]
    return 0.02 / math.sqrt(2 * layers) if writes else 0.02


@wrong("first_std", "differs")
def ten_blocks_at_most(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    writes = name[8:9] == "." and name.endswith(("out.weight", "down.weight"))
    return 0.02 / math.sqrt(2 * layers) if writes else 0.02


@wrong("first_std", "differs")
def the_head_too(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    writes = name.endswith(("out.weight", "down.weight", "head.weight"))
    return 0.02 / math.sqrt(2 * layers) if writes else 0.02


@wrong("first_std", "own-depth")
def by_the_block_s_number(name, shape, layers):
    if len(shape) < 2:
        return 0.0
    if not name.endswith(("out.weight", "down.weight")):
        return 0.02
    return 0.02 / math.sqrt(2 * (int(name.split(".")[1]) + 1))


# --- clip_by_norm ---------------------------------------------------------------------------


def length_of(*gradients):
    return math.sqrt(sum(g.square().sum().item() for g in gradients))


@wrong("clip_by_norm", "each-alone")
def one_by_one(first, second, most):
    return tuple(g * min(1.0, most / (g.norm().item() + 1e-9)) for g in (first, second))


@wrong("clip_by_norm", "each-number")
def clamped(first, second, most):
    return torch.clamp(first, -most, most), torch.clamp(second, -most, most)


@wrong("clip_by_norm", "always-scaled")
def unit_length(first, second, most):
    factor = most / (length_of(first, second) + 1e-9)
    return first * factor, second * factor


@wrong("clip_by_norm", "never-scaled")
def all_kept(first, second, most):
    return first.clone(), second.clone()


@wrong("clip_by_norm", "sum-of-lengths")
def lengths_added(first, second, most):
    factor = min(1.0, most / (first.norm().item() + second.norm().item() + 1e-9))
    return first * factor, second * factor


@wrong("clip_by_norm", "not-rooted")
def squares_compared(first, second, most):
    factor = min(1.0, most / (length_of(first, second) ** 2 + 1e-9))
    return first * factor, second * factor


@wrong("clip_by_norm", "greatest")
def the_longer_one(first, second, most):
    factor = min(1.0, most / (max(first.norm().item(), second.norm().item()) + 1e-9))
    return first * factor, second * factor


@wrong("clip_by_norm", "turned-round")
def upside_down(first, second, most):
    factor = max(1.0, length_of(first, second) / most)
    return first * factor, second * factor


@wrong("clip_by_norm", "raised")
def zero_divided(first, second, most):
    factor = min(1.0, most / length_of(first, second))
    return first * factor, second * factor


@wrong("clip_by_norm", "changes-input")
def written_over(first, second, most):
    factor = min(1.0, most / (length_of(first, second) + 1e-9))
    return first.mul_(factor), second.mul_(factor)


@right("clip_by_norm")
def one_factor(first, second, most):
    length = length_of(first, second)
    factor = most / length if length > most else 1.0
    return first * factor, second * factor


@right("clip_by_norm")
def one_long_row(first, second, most):
    row = torch.cat([first.flatten(), second.flatten()])
    row = row * (most / row.norm().clamp(min=most))
    return row[: first.numel()].view(first.shape), row[first.numel() :].view(second.shape)


@right("clip_by_norm")
def norm_of_norms(first, second, most):
    whole = torch.stack([first.norm(), second.norm()]).norm()
    factor = torch.clamp(most / whole.clamp(min=torch.finfo(whole.dtype).tiny), max=1)
    return factor * first, factor * second


@wrong("clip_by_norm", "library-call")
def torchs_own(first, second, most):
    held = [nn.Parameter(first), nn.Parameter(second)]
    for parameter in held:
        parameter.grad = parameter.detach().clone()
    nn.utils.clip_grad_norm_(held, most)
    return held[0].grad, held[1].grad


@wrong("clip_by_norm", "differs")
def longer_than_one(first, second, most):
    length = length_of(first, second)
    factor = most / length if length > max(most, 1) else 1.0
    return first * factor, second * factor


@wrong("clip_by_norm", "square-compared")
def root_too_late(first, second, most):
    squares = (first.square().sum() + second.square().sum()).item()
    factor = most / math.sqrt(squares) if squares > most else 1.0
    return first * factor, second * factor


@wrong("clip_by_norm", "short-of-the-limit")
def something_small_added(first, second, most):
    length = torch.cat([first.flatten(), second.flatten()]).norm()
    factor = torch.clamp(most / (length + 1e-6), max=1.0)
    return first * factor, second * factor


@wrong("clip_by_norm", "mean-square")
def size_not_length(first, second, most):
    size = torch.cat([first.flatten(), second.flatten()]).square().mean().sqrt().item()
    factor = most / size if size > most else 1.0
    return first * factor, second * factor


@wrong("clip_by_norm", "length-one")
def limit_forgotten(first, second, most):
    length = length_of(first, second)
    return (first / length, second / length) if length > most else (first, second)


@wrong("clip_by_norm", "one-after-the-other")
def measured_twice(first, second, most):
    if length_of(first, second) > most:
        first = first * most / length_of(first, second)
        second = second * most / length_of(first, second)
    return first, second


@wrong("clip_by_norm", "raised")
def needs_an_axis(first, second, most):
    rows = [g.reshape(g.shape[0], -1).norm() for g in (first, second)]
    factor = torch.clamp(most / torch.hypot(*rows).clamp(min=1e-30), max=1)
    return first * factor, second * factor


@right("clip_by_norm")
def chosen_by_where(first, second, most):
    length = torch.hypot(first.norm(), second.norm())
    return tuple(torch.where(length > most, g / length * most, g) for g in (first, second))


@wrong("how_it_ended", "negative-start")
def counted_from_the_end(losses, level):
    if not finite(losses):
        return "diverged"
    end = losses[len(losses) - 20 :]
    return "stalled" if end.mean() > level - 0.1 else "learns"


@wrong("norm_vjp", "one-root")
def a_unit_vector_once(x, g, eps=1e-5):
    offset = x - x.mean(-1, keepdim=True)
    size = (offset.square().mean(-1, keepdim=True) + eps).sqrt()
    y = offset / size
    u = y / math.sqrt(x.shape[-1])
    return (g - g.mean(-1, keepdim=True) - (g * u).sum(-1, keepdim=True) * y) / size


@wrong("norm_vjp", "y-without-eps")
def by_the_length_of_y(x, g, eps=1e-5):
    offset = x - x.mean(-1, keepdim=True)
    size = (offset.square().mean(-1, keepdim=True) + eps).sqrt()
    y = offset / size
    along = (g * y).sum(-1, keepdim=True) / (y * y).sum(-1, keepdim=True)
    return (g - g.mean(-1, keepdim=True) - along * y) / size


@wrong("norm_vjp", "y-is-x")
def along_x(x, g, eps=1e-5):
    size = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    return (g - g.mean(-1, keepdim=True) - x * (g * x).mean(-1, keepdim=True)) / size


@wrong("norm_vjp", "library-call")
def by_autograd_on_ones_own_norm(x, g, eps=1e-5):
    def forward(z):
        offset = z - z.mean(-1, keepdim=True)
        return offset / (offset.square().mean(-1, keepdim=True) + eps).sqrt()

    return torch.func.vjp(forward, x)[1](g)[0]


@wrong("norm_vjp", "library-call")
def torchs_own_way_back(x, g, eps=1e-5):
    d = [x.shape[-1]]
    _, mean, scale = torch.ops.aten.native_layer_norm.default(x, d, None, None, eps)
    back = torch.ops.aten.native_layer_norm_backward.default
    return back(g, x, d, mean, scale, None, None, [True, False, False])[0]


@wrong("norm_vjp", "eps-default")
def with_berts_eps(x, g, eps=1e-12):
    offset = x - x.mean(-1, keepdim=True)
    s = (offset.square().mean(-1, keepdim=True) + eps).sqrt()
    y = offset / s
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / s


@right("norm_vjp")
@torch.no_grad()
def nobody_asks_for_its_gradient(x, g, eps=1e-5):
    offset = x - x.mean(-1, keepdim=True)
    s = (offset.square().mean(-1, keepdim=True) + eps).sqrt()
    y = offset / s
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / s


def _back(q, k, v, g, mask, fill=-math.inf):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    p = torch.softmax(scores, -1).nan_to_num(0.0)
    if mask is not None:
        p = p * mask
    at = p * (g @ v.mT - (p * (g @ v.mT)).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
    return at @ k, at.mT @ q, p.mT @ g


@wrong("attention_vjp", "raised")
def a_mask_of_two_axes_at_least(q, k, v, g, mask=None):
    dq, dk, dv = _back(q, k, v, g, mask)
    if mask is not None:
        seen = mask.any(dim=-2)[..., None]
        dk, dv = dk * seen, dv * seen
    return dq, dk, dv


@wrong("attention_vjp", "all-but-v")
def fills_with_minus_300(q, k, v, g, mask=None):
    return _back(q, k, v, g, mask, fill=-300.0)
