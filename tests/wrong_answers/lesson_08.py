"""What learners write in lesson 08."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.wrong_answers import right, wrong
from tfcourse.attention import causal_mask, padding_mask
from tfcourse.checks.lessons.lesson_08_encoder_decoder import Translator as Parts

# --- teacher_forcing ------------------------------------------------------------------------


@right("teacher_forcing")
def three_slices(target, padding):
    return target[:, :-1], target[:, 1:], target[:, 1:] != padding


@right("teacher_forcing")
def row_by_row(target, padding):
    inputs, labels, real = [], [], []
    for row in target.tolist():
        inputs.append(row[:-1])
        labels.append(row[1:])
        real.append([token != padding for token in row[1:]])
    return torch.tensor(inputs), torch.tensor(labels), torch.tensor(real)


@right("teacher_forcing")
def with_narrow(target, padding):
    n = target.shape[1] - 1
    labels = target.narrow(1, 1, n)
    return target.narrow(1, 0, n).clone(), labels.clone(), ~labels.eq(padding)


@right("teacher_forcing")
def by_index(target, padding):
    place = torch.arange(target.shape[1] - 1)
    labels = target[:, place + 1]
    return target[:, place], labels, torch.ne(labels, padding)


@wrong("teacher_forcing", "not-shifted")
def says_what_it_reads(target, padding):
    return target[:, :-1], target[:, :-1], target[:, :-1] != padding


@wrong("teacher_forcing", "not-shifted-from-one")
def says_what_it_reads_without_the_start(target, padding):
    return target[:, 1:], target[:, 1:], target[:, 1:] != padding


@wrong("teacher_forcing", "swapped")
def the_wrong_way(target, padding):
    return target[:, 1:], target[:, :-1], target[:, :-1] != padding


@wrong("teacher_forcing", "real-of-the-inputs")
def asks_the_inputs(target, padding):
    inputs, labels = target[:, :-1], target[:, 1:]
    return inputs, labels, inputs != padding


@wrong("teacher_forcing", "inverted")
def true_where_padding(target, padding):
    return target[:, :-1], target[:, 1:], target[:, 1:] == padding


@wrong("teacher_forcing", "rolled")
def rolls_the_row(target, padding):
    labels = torch.roll(target, -1, dims=1)
    return target, labels, labels != padding


@wrong("teacher_forcing", "whole")
def reads_all(target, padding):
    return target, target[:, 1:], target[:, 1:] != padding


@wrong("teacher_forcing", "stop-does-not-count")
def without_the_stop(target, padding):
    labels = target[:, 1:]
    return target[:, :-1], labels, (labels != padding) & (labels != 2)


@wrong("teacher_forcing", "all-count")
def all_of_them(target, padding):
    labels = target[:, 1:]
    return target[:, :-1], labels, torch.ones(labels.shape, dtype=torch.bool)


@wrong("teacher_forcing", "padding-is-zero")
def zero_for_ever(target, padding):
    return target[:, :-1], target[:, 1:], target[:, 1:].bool()


@wrong("teacher_forcing", "shape")
def of_the_first_axis(target, padding):
    return target[:-1], target[1:], target[1:] != padding


@wrong("teacher_forcing", "type")
def two_of_three(target, padding):
    return target[:, :-1], target[:, 1:]


@wrong("teacher_forcing", "dtype")
def ones_and_zeros(target, padding):
    return target[:, :-1], target[:, 1:], (target[:, 1:] != padding).long()


@wrong("teacher_forcing", "returned-none")
def printed(target, padding):
    target[:, :-1], target[:, 1:]


@wrong("teacher_forcing", "differs")
def marks_padding_in_the_labels(target, padding):
    labels = target[:, 1:]
    return target[:, :-1], labels.masked_fill(labels == padding, -100), labels != padding


# --- Translator -----------------------------------------------------------------------------


@right("Translator")
class Straight(Parts):
    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = block(x, mask=mask)
        memory = self.encoder_norm(x)
        y = self.target_tokens(target) + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(y, memory, causal=True, context_mask=mask)
        return self.head(self.decoder_norm(y))


@right("Translator")
class SentenceBySentence(Parts):
    def forward(self, source, lengths, target):
        rows = []
        for s, n, t in zip(source, lengths.tolist(), target, strict=True):
            x = (self.source_tokens(s[:n]) + self.source_positions.weight[:n])[None]
            for block in self.encoder:
                x = block(x)
            x = self.encoder_norm(x)
            y = (self.target_tokens(t) + self.target_positions.weight[: len(t)])[None]
            for block in self.decoder:
                y = block(y, x, causal=True)
            rows.append(self.head(self.decoder_norm(y)))
        return torch.cat(rows)


@right("Translator")
class WithAMaskOfItsOwn(Parts):
    def forward(self, source, lengths, target):
        real = torch.arange(source.shape[1]) < lengths.unsqueeze(1)
        hide = real[:, None, None, :].expand(-1, 1, source.shape[1], -1)
        x = self.source_tokens(source)
        x = x + self.source_positions(torch.arange(source.shape[1]))
        for block in self.encoder:
            x = block(x, mask=hide)
        y = self.target_tokens(target) + self.target_positions(torch.arange(target.shape[1]))
        for block in self.decoder:
            triangle = causal_mask(target.shape[1])
            y = block(y, self.encoder_norm(x), mask=triangle, context_mask=real[:, None, None, :])
        return F.linear(self.decoder_norm(y), self.head.weight)


class Wired(Parts):
    """One thing of the wiring changed, by an attribute."""

    read_mask = write_mask = True
    read_causal = False
    write_causal = True
    read_positions = write_positions = True
    read_norm = write_norm = True
    inverted = False

    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        mask = ~mask if self.inverted else mask
        x = self.source_tokens(source)
        if self.read_positions:
            x = x + self.source_positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = block(x, mask=mask if self.read_mask else None, causal=self.read_causal)
        memory = self.encoder_norm(x) if self.read_norm else x
        y = self.target_tokens(target)
        if self.write_positions:
            y = y + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(
                y, memory, causal=self.write_causal,
                context_mask=mask if self.write_mask else None,
            )  # fmt: skip
        return self.head(self.decoder_norm(y) if self.write_norm else y)


@wrong("Translator", "no-masks")
class ReadsFillersTwice(Wired):
    read_mask = write_mask = False


@wrong("Translator", "encoder-unmasked")
class HidesThemTooLate(Wired):
    read_mask = False


@wrong("Translator", "cross-unmasked")
class HidesThemInTheEncoderAlone(Wired):
    write_mask = False


@wrong("Translator", "mask-inverted")
class ShowsTheFillers(Wired):
    inverted = True


@wrong("Translator", "not-causal")
class SeesTheEnd(Wired):
    write_causal = False


@wrong("Translator", "encoder-causal")
class ReadsLikeAWriter(Wired):
    read_causal = True


@wrong("Translator", "no-encoder-norm")
class ForgetsTheEncodersNorm(Wired):
    read_norm = False


@wrong("Translator", "no-decoder-norm")
class ForgetsTheDecodersNorm(Wired):
    write_norm = False


@wrong("Translator", "no-source-positions")
class BagOfSourceTokens(Wired):
    read_positions = False


@wrong("Translator", "no-target-positions")
class BagOfTargetTokens(Wired):
    write_positions = False


@wrong("Translator", "no-positions")
class BagsOnBothSides(Wired):
    read_positions = write_positions = False


@wrong("Translator", "one-embedding")
class OneTable(Parts):
    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = block(x, mask=mask)
        y = self.source_tokens(target) + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(y, self.encoder_norm(x), causal=True, context_mask=mask)
        return self.head(self.decoder_norm(y))


@wrong("Translator", "layer-by-layer")
class BlockToBlock(Parts):
    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        y = self.target_tokens(target) + self.target_positions.weight[: target.shape[1]]
        for reads, writes in zip(self.encoder, self.decoder, strict=True):
            x = reads(x, mask=mask)
            y = writes(y, x, causal=True, context_mask=mask)
        return self.head(self.decoder_norm(y))


@wrong("Translator", "reads-the-embedding")
class WithoutAnEncoder(Parts):
    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        memory = self.encoder_norm(x)
        for block in self.encoder:
            x = block(x, mask=mask)
        y = self.target_tokens(target) + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(y, memory, causal=True, context_mask=mask)
        return self.head(self.decoder_norm(y))


@wrong("Translator", "normed-each-time")
class NormInTheLoop(Parts):
    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = self.encoder_norm(block(x, mask=mask))
        y = self.target_tokens(target) + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(y, x, causal=True, context_mask=mask)
        return self.head(self.decoder_norm(y))


@wrong("Translator", "first-blocks-alone")
class OneBlockEach(Parts):
    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        x = self.encoder_norm(self.encoder[0](x, mask=mask))
        y = self.target_tokens(target) + self.target_positions.weight[: target.shape[1]]
        y = self.decoder[0](y, x, causal=True, context_mask=mask)
        return self.head(self.decoder_norm(y))


@wrong("Translator", "no-head")
class VectorsNotLogits(Parts):
    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = block(x, mask=mask)
        y = self.target_tokens(target) + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(y, self.encoder_norm(x), causal=True, context_mask=mask)
        return self.decoder_norm(y)


@wrong("Translator", "raised")
class AsksWithoutAContext(Parts):
    def forward(self, source, lengths, target):
        x = self.source_tokens(source) + self.source_positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = block(x)
        y = self.target_tokens(target) + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(y, causal=True)
        return self.head(self.decoder_norm(y))


@wrong("Translator", "raised")
class PositionsOfTheWholeTable(Parts):
    def forward(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])
        x = self.source_tokens(source) + self.source_positions.weight
        for block in self.encoder:
            x = block(x, mask=mask)
        return x


@wrong("Translator", "returned-none")
class SaysNothing(Parts):
    def forward(self, source, lengths, target):
        self.source_tokens(source)


# --- smoothed_loss --------------------------------------------------------------------------


def label_and_mean(logits, labels):
    log_p = torch.log_softmax(logits, dim=-1)
    return -log_p.gather(-1, labels[..., None]).squeeze(-1), -log_p.mean(-1)


@right("smoothed_loss")
def two_parts(logits, labels, real, smoothing):
    label, mean = label_and_mean(logits, labels)
    return ((1 - smoothing) * label + smoothing * mean)[real].mean()


@right("smoothed_loss")
def the_wanted_distribution(logits, labels, real, smoothing):
    n = logits.shape[-1]
    wanted = (1 - smoothing) * F.one_hot(labels, n).to(logits.dtype) + smoothing / n
    each = -(wanted * (logits - logits.logsumexp(-1, keepdim=True))).sum(-1)
    return (each * real).sum() / real.sum()


@right("smoothed_loss")
def in_loops(logits, labels, real, smoothing):
    losses = []
    for row, places, counts in zip(logits, labels, real, strict=True):
        for scores, label, counted in zip(row, places.tolist(), counts.tolist(), strict=True):
            if counted:
                log_p = scores - torch.logsumexp(scores, 0)
                losses.append(-(1 - smoothing) * log_p[label] - smoothing * log_p.mean())
    return sum(losses) / len(losses)


@right("smoothed_loss")
def chosen_first(logits, labels, real, smoothing):
    log_p = F.log_softmax(logits[real], dim=1)
    rows = torch.arange(len(log_p))
    return -((1 - smoothing) * log_p[rows, labels[real]] + smoothing * log_p.mean(1)).mean()


@wrong("smoothed_loss", "no-smoothing")
def plain(logits, labels, real, smoothing):
    return label_and_mean(logits, labels)[0][real].mean()


@wrong("smoothed_loss", "fillers-count")
def over_all_places(logits, labels, real, smoothing):
    label, mean = label_and_mean(logits, labels)
    return ((1 - smoothing) * label + smoothing * mean).mean()


@wrong("smoothed_loss", "divided-by-all")
def by_the_number_of_all(logits, labels, real, smoothing):
    label, mean = label_and_mean(logits, labels)
    return (((1 - smoothing) * label + smoothing * mean) * real).sum() / real.numel()


@wrong("smoothed_loss", "mean-of-means")
def rows_count_alike(logits, labels, real, smoothing):
    label, mean = label_and_mean(logits, labels)
    each = (1 - smoothing) * label + smoothing * mean
    rows = [e[r].mean() for e, r in zip(each, real, strict=True) if r.any()]
    return torch.stack(rows).mean()


@wrong("smoothed_loss", "summed")
def not_divided(logits, labels, real, smoothing):
    label, mean = label_and_mean(logits, labels)
    return ((1 - smoothing) * label + smoothing * mean)[real].sum()


@wrong("smoothed_loss", "sign")
def below_zero(logits, labels, real, smoothing):
    return -two_parts(logits, labels, real, smoothing)


@wrong("smoothed_loss", "over-the-others")
def the_label_gets_none(logits, labels, real, smoothing):
    n = logits.shape[-1]
    one = F.one_hot(labels, n).to(logits.dtype)
    wanted = (1 - smoothing) * one + smoothing * (1 - one) / (n - 1)
    return -(wanted * torch.log_softmax(logits, -1)).sum(-1)[real].mean()


@wrong("smoothed_loss", "label-whole")
def more_than_one_in_all(logits, labels, real, smoothing):
    label, mean = label_and_mean(logits, labels)
    return (label + smoothing * mean)[real].mean()


@wrong("smoothed_loss", "sum-over-the-vocabulary")
def smoothing_for_each(logits, labels, real, smoothing):
    log_p = torch.log_softmax(logits, -1)
    label = log_p.gather(-1, labels[..., None])[..., 0]
    return -((1 - smoothing) * label + smoothing * log_p.sum(-1))[real].mean()


@wrong("smoothed_loss", "shares-swapped")
def mostly_smooth(logits, labels, real, smoothing):
    label, mean = label_and_mean(logits, labels)
    return (smoothing * label + (1 - smoothing) * mean)[real].mean()


@wrong("smoothed_loss", "over-tokens")
def softmax_down_the_row(logits, labels, real, smoothing):
    log_p = torch.log_softmax(logits, dim=1)
    label = log_p.gather(-1, labels[..., None])[..., 0]
    return -((1 - smoothing) * label + smoothing * log_p.mean(-1))[real].mean()


@wrong("smoothed_loss", "bits")
def to_base_two(logits, labels, real, smoothing):
    return two_parts(logits, labels, real, smoothing) / math.log(2)


@wrong("smoothed_loss", "overflow")
def log_of_a_softmax(logits, labels, real, smoothing):
    raised = logits.exp()
    log_p = (raised / raised.sum(-1, keepdim=True)).log()
    label = log_p.gather(-1, labels[..., None])[..., 0]
    return -((1 - smoothing) * label + smoothing * log_p.mean(-1))[real].mean()


@wrong("smoothed_loss", "library-call")
def torchs_own(logits, labels, real, smoothing):
    return F.cross_entropy(logits[real], labels[real], label_smoothing=smoothing)


@wrong("smoothed_loss", "smoothing")
def smoothing_on_probabilities(logits, labels, real, smoothing):
    p = torch.softmax(logits.double(), -1)
    p = (1 - smoothing) * p + smoothing / p.shape[-1]
    if smoothing == 0:
        return label_and_mean(logits, labels)[0][real].mean()
    log_p = p.log()
    return -log_p.gather(-1, labels[..., None])[..., 0][real].mean().to(logits.dtype)


@wrong("smoothed_loss", "shape")
def one_for_each_place(logits, labels, real, smoothing):
    label, mean = label_and_mean(logits, labels)
    return (1 - smoothing) * label + smoothing * mean


@wrong("smoothed_loss", "no-gradient")
def a_plain_number(logits, labels, real, smoothing):
    return torch.tensor(two_parts(logits, labels, real, smoothing).item(), dtype=logits.dtype)


# --- adamw_step -----------------------------------------------------------------------------


@right("adamw_step")
def as_in_the_paper(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    step = m / (1 - beta1**t) / ((v / (1 - beta2**t)) ** 0.5 + eps)
    return w - rate * step - rate * decay * w, m, v


@right("adamw_step")
def as_torch_does(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    w = w * (1 - rate * decay)
    m, v = torch.lerp(m, g, 1 - beta1), (v * beta2).addcmul(g, g, value=1 - beta2)
    bottom = v.sqrt() / math.sqrt(1 - beta2**t) + eps
    return w - rate / (1 - beta1**t) * m / bottom, m, v


@right("adamw_step")
def by_the_optimizer(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    weight = nn.Parameter(w.clone())
    adamw = torch.optim.AdamW([weight], rate, (beta1, beta2), eps, decay)
    weight.grad = g.clone()
    adamw.state[weight] = {
        "step": torch.tensor(float(t - 1)),
        "exp_avg": m.clone(),
        "exp_avg_sq": v.clone(),
    }
    adamw.step()
    kept = adamw.state[weight]
    return weight.detach(), kept["exp_avg"], kept["exp_avg_sq"]


def means(g, m, v, beta1, beta2):
    return beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g


@wrong("adamw_step", "no-correction")
def from_zero(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    return w - rate * (m / (v.sqrt() + eps) + decay * w), m, v


@wrong("adamw_step", "m-uncorrected")
def corrects_v(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    return w - rate * (m / ((v / (1 - beta2**t)).sqrt() + eps) + decay * w), m, v


@wrong("adamw_step", "v-uncorrected")
def corrects_m(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    return w - rate * (m / (1 - beta1**t) / (v.sqrt() + eps) + decay * w), m, v


@wrong("adamw_step", "corrected-once")
def always_the_first_step(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    step = m / (1 - beta1) / ((v / (1 - beta2)).sqrt() + eps)
    return w - rate * (step + decay * w), m, v


@wrong("adamw_step", "eps-inside")
def eps_under_the_root(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    step = m / (1 - beta1**t) / (v / (1 - beta2**t) + eps).sqrt()
    return w - rate * (step + decay * w), m, v


@wrong("adamw_step", "no-root")
def by_the_squares(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    step = m / (1 - beta1**t) / (v / (1 - beta2**t) + eps)
    return w - rate * (step + decay * w), m, v


@wrong("adamw_step", "gradient-alone")
def no_memory_in_the_step(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    return w - rate * (g / ((v / (1 - beta2**t)).sqrt() + eps) + decay * w), m, v


@wrong("adamw_step", "no-decay")
def adam(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    return as_in_the_paper(w, g, m, v, t, rate, beta1, beta2, eps, 0.0)


@wrong("adamw_step", "decay-not-by-rate")
def shrinks_by_decay(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    new, m, v = as_in_the_paper(w, g, m, v, t, rate, beta1, beta2, eps, 0.0)
    return new - decay * w, m, v


@wrong("adamw_step", "decay-after")
def shrinks_what_comes_out(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    new, m, v = as_in_the_paper(w, g, m, v, t, rate, beta1, beta2, eps, 0.0)
    return new - rate * decay * new, m, v


@wrong("adamw_step", "adam-with-l2")
def not_decoupled(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    return as_in_the_paper(w, g + decay * w, m, v, t, rate, beta1, beta2, eps, 0.0)


@wrong("adamw_step", "sign")
def uphill(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    step = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps)
    return w + rate * step - rate * decay * w, m, v


@wrong("adamw_step", "betas-swapped")
def slow_gradients(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    return as_in_the_paper(w, g, m, v, t, rate, beta2, beta1, eps, decay)


@wrong("adamw_step", "shares-swapped")
def forgets_at_once(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = (1 - beta1) * m + beta1 * g, (1 - beta2) * v + beta2 * g * g
    step = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps)
    return w - rate * (step + decay * w), m, v


@wrong("adamw_step", "no-square")
def sizes_not_squares(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g.abs()
    step = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps)
    return w - rate * (step + decay * w), m, v


@wrong("adamw_step", "corrected-means-kept")
def gives_the_corrected(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    m, v = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - rate * (m / (v.sqrt() + eps) + decay * w), m, v


@wrong("adamw_step", "nan")
def counts_from_zero(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m, v = means(g, m, v, beta1, beta2)
    b1, b2 = torch.tensor(beta1), torch.tensor(beta2)
    step = m / (1 - b1 ** (t - 1)) / ((v / (1 - b2 ** (t - 1))).sqrt() + eps)
    return w - rate * (step + decay * w), m, v


@wrong("adamw_step", "type")
def the_weight_alone(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    return as_in_the_paper(w, g, m, v, t, rate, beta1, beta2, eps, decay)[0]


@wrong("adamw_step", "changes-input")
def in_place(w, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    m.mul_(beta1).add_((1 - beta1) * g)
    v.mul_(beta2).add_((1 - beta2) * g * g)
    step = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps)
    return w - rate * (step + decay * w), m, v


# --- exact_matches --------------------------------------------------------------------------


@right("exact_matches")
def up_to_the_stop(written, wanted, stop):
    is_stop = wanted == stop
    counts = is_stop.cumsum(1) - is_stop.long() == 0
    return ((written == wanted) | ~counts).all(dim=1).float().mean()


@right("exact_matches")
def list_by_list(written, wanted, stop):
    good = 0
    for mine, text in zip(written.tolist(), wanted.tolist(), strict=True):
        end = text.index(stop) + 1
        good += mine[:end] == text[:end]
    return torch.tensor(good / len(written))


@right("exact_matches")
def by_places(written, wanted, stop):
    end = (wanted == stop).int().argmax(dim=1, keepdim=True)
    wrong_there = (written != wanted) & (torch.arange(wanted.shape[1]) <= end)
    return 1 - wrong_there.any(dim=1).float().mean()


@wrong("exact_matches", "tokens-counted")
def as_it_was_given(written, wanted, stop):
    return (written == wanted).float().mean()


@wrong("exact_matches", "behind-the-stop")
def whole_rows(written, wanted, stop):
    return (written == wanted).all(dim=1).float().mean()


@wrong("exact_matches", "tokens-to-the-stop")
def tokens_that_count(written, wanted, stop):
    is_stop = wanted == stop
    counts = is_stop.cumsum(1) - is_stop.long() == 0
    return ((written == wanted) & counts).sum() / counts.sum()


@wrong("exact_matches", "without-the-stop")
def before_the_stop(written, wanted, stop):
    good = 0
    for mine, text in zip(written.tolist(), wanted.tolist(), strict=True):
        end = text.index(stop)
        good += mine[:end] == text[:end]
    return torch.tensor(good / len(written))


@wrong("exact_matches", "any-token")
def one_will_do(written, wanted, stop):
    is_stop = wanted == stop
    counts = is_stop.cumsum(1) - is_stop.long() == 0
    return ((written == wanted) & counts).any(dim=1).float().mean()


@wrong("exact_matches", "counted")
def how_many(written, wanted, stop):
    return up_to_the_stop(written, wanted, stop) * len(written)


@wrong("exact_matches", "share-of-wrong")
def errors(written, wanted, stop):
    return 1 - up_to_the_stop(written, wanted, stop)


@wrong("exact_matches", "all-or-nothing")
def all_at_once(written, wanted, stop):
    is_stop = wanted == stop
    counts = is_stop.cumsum(1) - is_stop.long() == 0
    return ((written == wanted) | ~counts).all().float()


@wrong("exact_matches", "its-own-stop")
def up_to_its_own_stop(written, wanted, stop):
    is_stop = written == stop
    counts = is_stop.cumsum(1) == 0
    return ((written == wanted) | ~counts).all(dim=1).float().mean()


@wrong("exact_matches", "differs")
def the_stop_is_two(written, wanted, stop):
    return up_to_the_stop(written, wanted, 2)
