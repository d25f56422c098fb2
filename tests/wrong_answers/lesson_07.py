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


@wrong("norm_vjp", "y-is-x")
def along_x(x, g, eps=1e-5):
    size = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    return (g - g.mean(-1, keepdim=True) - x * (g * x).mean(-1, keepdim=True)) / size
