"""What the better entries and the study are made of; your entry may use all of it.

`fit_to_clock` is the plain entry's loop for any model and any optimizers. `Counts` is a table of
what follows what, `WithCounts` a model that begins where the table ends. `Muon` is an optimizer for
matrices, `Average` the mean of the last weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcourse import training

WARM_UP = 0.1


def schedule(share: float) -> float:
    """The learning rate's share of its greatest: a straight rise, then a cosine down to 0."""
    if share < WARM_UP:
        return (share + 0.01) / (WARM_UP + 0.01)
    return 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))


def hold_then_fall(share: float) -> float:
    """A straight rise, then flat until half the budget is used, then straight down to 0."""
    return min(schedule(share) if share < WARM_UP else 1.0, (1 - share) / 0.5)


def fit_to_clock(
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    loss: Callable[[float], Tensor],
    clock,
    *,
    schedule: Callable[[float], float] = schedule,
    after: Callable[[], None] = lambda: None,
    watch: Callable[[list[float]], None] | None = None,
) -> list[float]:
    """Train as long as the clock runs, every rate on the same schedule; the loss of every step.

    Args:
        loss: takes the share of the budget that is used, gives the loss of the next batch.
        schedule: takes that share, gives the learning rate's share of its greatest.
        after: called after every step (an average of the weights, say).
        watch: called with the losses so far, after every step.
    """
    greatest = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    losses: list[float] = []
    while clock.running:
        share = clock.share
        value = loss(share)
        model.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, rates in zip(optimizers, greatest, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * schedule(share)
            optimizer.step()
        after()
        losses.append(value.item())
        if watch is not None:
            watch(losses)
    return losses


def adamw(parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.AdamW:
    """AdamW, with the weight decay of the plain entry."""
    return training.adamw(parameters, rate, 0.1)


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal: a step goes equally far in every direction of a matrix.

    Jordan et al., 2024 (kellerjordan.github.io/posts/muon). The singular values of the momentum are
    all brought near 1, by five steps of a polynomial of the matrix (Newton–Schulz). It is for the
    matrices inside the blocks; embeddings, head, biases and norms stay with AdamW.

    Args:
        parameters: matrices.
        rate: the learning rate; 0.02 is usual.
        momentum: the share of the old direction that is kept.
    """

    def __init__(self, parameters, rate: float, momentum: float = 0.95):
        super().__init__(parameters, {"lr": rate, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        """One step for every matrix that has a gradient."""
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                mean.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(mean, group["momentum"]))
                # A tall matrix has fewer directions than rows: its rows would move too little.
                p.add_(update, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def orthogonal(
    matrix: Float[Tensor, "rows columns"], steps: int = 5
) -> Float[Tensor, "rows columns"]:
    """The matrix with the same directions, every singular value between 0.7 and 1.2 or so.

    Tiny ones, below some thousandths of the largest, do not get there in five steps.
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
    x = wide / (wide.norm() + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.mT


class Average:
    """The mean of a model's last weights, weighted towards the latest.

    Args:
        model: whose weights.
        keep: the share of the old mean that stays at every step; less at the beginning.
    """

    def __init__(self, model: nn.Module, keep: float):
        self.model, self.keep, self.steps = model, keep, 0
        self.mean = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def add(self) -> None:
        """Take the weights of now into the mean."""
        self.steps += 1
        keep = min(self.keep, self.steps / (self.steps + 9))
        for mean, p in zip(self.mean, self.model.parameters(), strict=True):
            mean.lerp_(p, 1 - keep)

    @torch.no_grad()
    def use(self) -> None:
        """Give the model the mean."""
        for mean, p in zip(self.mean, self.model.parameters(), strict=True):
            p.copy_(mean)


class Counts(nn.Module):
    """How often each character followed the last few: a table, no learning.

    The probabilities of a longer context lean on those of the next shorter one, the more so the
    more kinds of characters have followed it (Witten and Bell, 1991):
    p = (count + kinds · p_shorter) / (total + kinds).

    A text that was counted knows its own future: its table is sure of all that comes, and wrong to
    be so on a new text. A model that learns beside a table must meet it as it will be: see `Folds`.

    Args:
        ids: the text that is counted.
        vocabulary: how many characters there are.
        longest: the longest context, in characters; 2 makes trigrams.

    Raises:
        ValueError: `longest` is so long that the contexts have no numbers in 64 bits.
    """

    def __init__(self, ids: Int[Tensor, " characters"], vocabulary: int, longest: int):
        super().__init__()
        if (vocabulary + 1) ** longest >= 2**63:
            raise ValueError(
                f"longest must be so small that {vocabulary + 1}**longest is below 2**63. "
                f"Got {longest}."
            )
        self.vocabulary, self.longest = vocabulary, longest
        for n, contexts in enumerate(self._contexts(ids[None])):
            # the context that ends at one character comes before the next one
            before = contexts[0, n - 1 : -1] if n else contexts[0]
            keys, row = before.unique(return_inverse=True)
            places = row * vocabulary + ids[n:]
            table = torch.zeros((len(keys) + 1) * vocabulary)  # the last row: never seen
            table.index_add_(0, places, torch.ones(len(places)))
            # bfloat16 halves the memory, and counts up to 256 are exact in it
            self.register_buffer(f"keys_{n}", keys)
            self.register_buffer(f"table_{n}", table.view(-1, vocabulary).bfloat16())

    def forward(
        self, tokens: Int[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens vocabulary orders"]:
        """Log probabilities of the next character, by contexts of 0, 1, …, `longest` characters."""
        p = torch.full((*tokens.shape, self.vocabulary), 1 / self.vocabulary)
        found = []
        for n, contexts in enumerate(self._contexts(tokens)):
            keys, table = getattr(self, f"keys_{n}"), getattr(self, f"table_{n}")
            row = torch.searchsorted(keys, contexts).clamp(max=len(keys) - 1)
            row = torch.where(keys[row] == contexts, row, len(keys))
            counts = table[row].float()
            kinds = (counts > 0).sum(-1, keepdim=True).clamp(min=1)
            p = (counts + kinds * p) / (counts.sum(-1, keepdim=True) + kinds)
            found.append(p.log())
        return torch.stack(found, dim=-1)

    def _contexts(self, tokens: Int[Tensor, "batch tokens"]):
        """A number for the last n characters at every place, for n = 0, 1, …, `longest`.

        Where the text is not yet so long, 0 stands for what is missing.
        """
        code = torch.zeros_like(tokens)
        yield code
        for n in range(self.longest):
            before = F.pad(tokens + 1, (n, 0))[:, : tokens.shape[1]]  # n places back
            code = code + before * (self.vocabulary + 1) ** n
            yield code


class WithCounts(nn.Module):
    """A language model that adds its logits to the log probabilities of a table of counts.

    It learns only what the table does not know. How far the table of each order is trusted is
    learned as well, at every place from the model's own state; at the start the longest alone is.

    Args:
        model: a `LanguageModel`.
        counts: the table.
    """

    def __init__(self, model: nn.Module, counts: Counts):
        super().__init__()
        self.model, self.counts = model, counts
        self.trust = nn.Linear(model.config.d_model, counts.longest + 1)
        nn.init.zeros_(self.trust.weight)
        with torch.no_grad():
            self.trust.bias.copy_(F.one_hot(torch.tensor(counts.longest), counts.longest + 1))

    def forward(
        self, tokens: Int[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens vocabulary"]:
        """Logits of the next character."""
        x = self.model.embed(tokens)
        for block in self.model.blocks:
            x = block(x, causal=True)
        x = self.model.norm(x)
        trust = self.trust(x)[..., None, :]  # (batch, tokens, 1, orders)
        return self.model.head(x) + (self.counts(tokens) * trust).sum(dim=-1)


class Folds:
    """A text in pieces, each with a table of the other pieces, to train a `WithCounts` on.

    So the table has never seen what the model is asked about, nor what stands around it.

    Args:
        ids, vocabulary, longest: as `Counts` has them.
        pieces: how many.
    """

    def __init__(
        self, ids: Int[Tensor, " characters"], vocabulary: int, longest: int, pieces: int = 5
    ):
        self.all = Counts(ids, vocabulary, longest)
        self.pieces = ids.chunk(pieces)
        self.others = [
            Counts(torch.cat([p for p in self.pieces if p is not left_out]), vocabulary, longest)
            for left_out in self.pieces
        ]

    def batch(self, model: WithCounts, size: int, tokens: int, generator: torch.Generator):
        """Inputs and targets from one piece; the model is given the table of the others.

        Give it `all` again when it has been trained: `model.counts = folds.all`.
        """
        chosen = int(torch.randint(len(self.pieces), (1,), generator=generator))
        model.counts, ids = self.others[chosen], self.pieces[chosen]
        starts = torch.randint(len(ids) - tokens, (size,), generator=generator)
        windows = ids[starts[:, None] + torch.arange(tokens + 1)]
        return windows[:, :-1], windows[:, 1:]


class SquaredReLU(nn.Module):
    """max(x, 0)², for each number by itself (So et al., Primer, 2021)."""

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Any shape."""
        return F.relu(x).square()


def use_squared_relu(model: nn.Module) -> None:
    """Put max(x, 0)² into every MLP of a `LanguageModel`; its matrices stay."""
    for block in model.blocks:
        plain = block.feed_forward
        block.feed_forward = nn.Sequential(plain.up, SquaredReLU(), plain.down)


class HashedContexts(nn.Module):
    """An embedding that adds a vector for the last two characters, and one for the last three.

    There are too many contexts for a row each, so a hash picks one of `rows`; now and then two
    contexts share it. The vectors begin at zero. It takes the place of a `LanguageModel`'s `embed`.

    Args:
        embed: the embedding of single characters.
        rows: of each of the two tables.
    """

    def __init__(self, embed: nn.Module, rows: int = 8192):
        super().__init__()
        self.embed = embed
        self.tables = nn.ModuleList(nn.Embedding(rows, embed.config.d_model) for _ in range(2))
        for table in self.tables:
            nn.init.zeros_(table.weight)

    def forward(self, tokens: Int[Tensor, "batch tokens"], **options) -> Float[Tensor, "..."]:
        """The tokens' vectors, (batch, tokens, d_model)."""
        x, code = self.embed(tokens, **options), tokens
        for n, table in enumerate(self.tables, start=1):
            before = F.pad(tokens, (n, 0))[:, : tokens.shape[1]]  # n places back
            code = code * 1_000_003 + before + 7
            x = x + table(code % 2_147_483_647 % table.num_embeddings)
        return x


def short_first(share: float, tokens: Sequence[int] = (32, 64, 128)) -> int:
    """How long the windows are at this share of the budget: a third for each length.

    A short window is cheap to attend to, and holds most of what there is to learn at first.
    """
    return tokens[min(len(tokens) - 1, int(share * len(tokens)))]
