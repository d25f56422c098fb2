"""Playground: a trained language model that runs in the page, with no kernel behind it."""

import hashlib
import textwrap
from dataclasses import asdict
from html import escape
from pathlib import Path

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from torch import nn

from tfcourse import figures
from tfcourse.generation import generate, next_token_probabilities
from tfcourse.models import LanguageModel, TransformerConfig, count_parameters, evaluating
from tfcourse.widgets.view import View, check_text, check_tokens

LONGEST = 512  # tokens that the page reads; of a longer text only the last ones
LARGEST = 10_000_000  # parameters: beyond that, a page writes too slowly
SHOWN, WRITTEN = 12, 60  # bars in the picture; tokens of the continuation in words
TEMPERATURE = 0.8  # at which that continuation is drawn
UNUSED = ("dropout",)  # of a config, what the page does not need


class Playground(View):
    """Type a text, see what the model would write next, and switch parts of it off.

    The model itself is in the page: its weights as half floats, and a small engine in JavaScript
    that gives PyTorch's numbers. It shows the distribution of the next token under temperature,
    top-k and top-p, lets the model write, draws every head's attention, reads the residual stream
    out after every block, and says what the model would have said without a head or a block.

    Up to about a million parameters travel in the output. The weights of a larger model lie in a
    file beside the notebook, which showing it writes (`save` writes it beside the page).

    Args:
        model: a `LanguageModel`. Its blocks may be your own, if their weights are named and shaped
            as those of `Block` and if they give the same numbers.
        text: the `CharacterText` that it was trained on, or its vocabulary: a list of strings, in
            the order of their numbers.
        prompt: the text to begin with; default: how the text begins, or the first token.
        title: the question that the view answers.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: the vocabulary is not the model's, the prompt cannot be written with it, or the
            model is one that the page cannot run.
    """

    module = "playground"
    limit = 2_000_000  # bytes of deflated data; a million half floats

    def __init__(self, model, text, prompt=None, *, title="What would it write next?"):
        check_text("title", title)
        model = _check_model(model)
        self.config = config = model.config
        self.vocabulary = _vocabulary(text, config.vocabulary)
        if prompt is None:
            prompt = _beginning(text, self.vocabulary)
        check_text("prompt", prompt)
        tokens = encode(prompt, self.vocabulary)
        self.prompt = prompt
        self.parameters = count_parameters(model)
        weights = _weights(model)
        halves = {name: _half(name, tensor) for name, tensor in weights.items()}
        same = _rebuilt(config, weights)
        _check_same(model, same)
        reads = tokens[-room(config) :]
        with torch.no_grad():
            logits = same(torch.tensor([reads]))[0, -1]
        self.chances = next_token_probabilities(logits).numpy()
        self.continuation = self._continue(same, reads)
        needed = {name: value for name, value in asdict(config).items() if name not in UNUSED}
        needed["d_ff"] = weights["blocks.0.feed_forward.up.weight"].shape[0]
        needed["n_kv_heads"] = config.n_kv_heads or config.n_heads
        if config.tied:  # the head is the embedding's table
            del halves["head.weight"]
        if config.segments:  # all tokens of a language model are of the first segment
            halves["embed.segments.weight"] = halves["embed.segments.weight"][:1]
        state = {"config": needed, "vocabulary": self.vocabulary, "prompt": prompt}
        state |= {"room": room(config), "file": None}
        super().__init__(state, halves, title=title, alt=self._describe())
        self._beside = b""
        if len(self._deflated) > self.limit:
            self._beside, self._deflated = self._deflated, b""
            name = f"playground-{hashlib.sha256(self._beside).hexdigest()[:8]}.bin"
            self.state["file"] = name

    def _continue(self, model, tokens):
        """What the model writes after the prompt, once, with a seed of its own."""
        new = WRITTEN
        if self.config.positions == "learned":
            tokens = tokens[-max(1, self.config.max_tokens - WRITTEN) :]
            new = min(new, self.config.max_tokens - len(tokens) + 1)
        generator = torch.Generator().manual_seed(0)
        [written] = generate(model, [tokens], new, temperature=TEMPERATURE, generator=generator)
        return "".join(self.vocabulary[token] for token in written)

    def _likeliest(self):
        """[(token, probability), …] of the picture, the likeliest first."""
        order = np.argsort(-self.chances, kind="stable")[:SHOWN]
        return [(self.vocabulary[i], float(self.chances[i])) for i in order]

    def _describe(self):
        first = ", ".join(
            f"“{figures.token_text(token)}” {_percent(share)}"
            for token, share in self._likeliest()[:4]
        )
        return (
            f"A language model of {self.parameters:,} parameters reads “{_shown(self.prompt)}”. "
            f"Its likeliest next tokens: {first}. Drawn at temperature {TEMPERATURE}, it goes on: "
            f"“{_shown(self.continuation)}”."
        )

    def draw(self):
        """The next token's distribution after the prompt, and a continuation in words."""
        return _picture(
            self._likeliest(), self.prompt, self.continuation, title=self.title, alt=self.alt
        )

    def fallback(self):
        """The picture, and a link to the weights where they lie beside the page."""
        picture = super().fallback()
        if not self._beside:
            return picture
        name, size = escape(self.state["file"]), len(self._beside) / 1e6
        return (
            f"<div>{picture}<p>The model’s weights, {size:.1f} MB, lie in a file beside this page: "
            f'<a href="{name}" download>{name}</a>.</p></div>'
        )

    def save(self, path):
        """As `View.save`; the page of a large model has its weights in a file beside it."""
        super().save(path)
        if Path(path).suffix == ".html":
            self._write_beside(Path(path).parent)

    def _repr_mimebundle_(self, include=None, exclude=None):
        self._write_beside(Path.cwd())  # the folder of the notebook
        return super()._repr_mimebundle_(include, exclude)

    def _write_beside(self, folder):
        if not self._beside:
            return
        path = Path(folder) / self.state["file"]
        if not path.exists() or path.stat().st_size != len(self._beside):
            draft = path.with_suffix(".tmp")
            draft.write_bytes(self._beside)
            draft.replace(path)


def room(config):
    """How many tokens the page reads at once: the last ones of a longer text."""
    return min(LONGEST, config.max_tokens) if config.positions == "learned" else LONGEST


def encode(text, vocabulary):
    """The numbers of a text's tokens, always the longest token that fits; as `encode` in the page.

    Raises:
        ValueError: the text is empty, or has a character that no token begins with.
    """
    number = {token: i for i, token in enumerate(vocabulary)}
    longest = max(map(len, vocabulary))
    tokens, at, unknown = [], 0, []
    while at < len(text):
        sizes = range(min(longest, len(text) - at), 0, -1)
        size = next((size for size in sizes if text[at : at + size] in number), 0)
        if size:
            tokens.append(number[text[at : at + size]])
        elif text[at] not in unknown:
            unknown.append(text[at])
        at += size or 1
    if unknown:
        shown = " ".join(repr(character) for character in unknown[:5])
        raise ValueError(
            f"prompt must be written with the {len(vocabulary)} tokens that the model knows. Not "
            f"among them: {shown}. Leave them out, or write them otherwise."
        )
    if not tokens:
        raise ValueError("prompt must hold at least one token: a model continues a text. Got none.")
    return tokens


def _check_model(model):
    if not isinstance(model, nn.Module) or not isinstance(
        getattr(model, "config", None), TransformerConfig
    ):
        raise TypeError(
            "model must be a LanguageModel, with its TransformerConfig as model.config. Got "
            f"{type(model).__name__}."
        )
    parameters = count_parameters(model)
    if parameters > LARGEST:
        raise ValueError(
            f"model must have at most {LARGEST:,} parameters: a larger one is too slow in a page. "
            f"Got {parameters:,}. Train a smaller one (d_model=128, layers=3 has about 600,000), "
            "or let this one write in Python: tfcourse.generation.generate."
        )
    return model


def _vocabulary(text, size):
    """The tokens' strings, one for each number that the model knows."""
    given = getattr(text, "vocabulary", text)
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            "text must be the CharacterText that the model was trained on, or a list of tokens. "
            f"Got {type(text).__name__}."
        )
    vocabulary = check_tokens("text", given)
    if len(vocabulary) != size:
        raise ValueError(
            f"text must have the {size} tokens of the model's vocabulary. Got {len(vocabulary)}: "
            "it is not the text that this model was trained on."
        )
    if "" in vocabulary or len(set(vocabulary)) != size:
        twice = next((t for t in vocabulary if not t or vocabulary.count(t) > 1), "")
        raise ValueError(
            f"text must have every token once, and none that is empty. Got {twice!r}"
            f"{' twice' if twice else ''}."
        )
    return vocabulary


def _beginning(text, vocabulary):
    """The first words of the text, at least one token."""
    if not hasattr(text, "decode") or not hasattr(text, "batch"):
        return vocabulary[0]
    start = text.decode(text._part("train", 1)[:40])
    words = start[:30].rsplit(" ", 1)[0].rstrip()
    return words or start[:1]


def _weights(model):
    """The model's weights by name, in float32; a clear word where they are not a model's here.

    Names and shapes decide, not classes: a learner's own block is welcome.
    """
    found = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    with torch.device("meta"):
        wanted = LanguageModel(model.config).state_dict()
    hint = (
        "The page runs models whose weights are named and shaped as those of "
        "LanguageModel(config): build it of Block, or name your block's parts attention.qkv, "
        "attention.out, attention_norm, feed_forward.up, feed_forward.down and feed_forward_norm."
    )
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(f"model must have the weight {missing[0]}. Got none. {hint}")
    more = [name for name in found if name not in wanted]
    if more:
        raise ValueError(f"model must have no weight {more[0]}. {hint}")
    for name, tensor in wanted.items():
        if found[name].shape != tensor.shape:
            raise ValueError(
                f"model must have {name} of shape {tuple(tensor.shape)}, as its config says. Got "
                f"{tuple(found[name].shape)}. {hint}"
            )
    return {name: found[name].float() for name in wanted}


def _rebuilt(config, weights):
    """The package's own model with these weights: it is what the page computes."""
    with torch.random.fork_rng(devices=[]):  # the first weights are thrown away
        same = LanguageModel(config)
    same.load_state_dict(weights)
    return same.eval()


@torch.no_grad()
def _check_same(model, same):
    """Raise where a learner's own block makes other numbers of the same weights."""
    config = model.config
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(config.vocabulary, (min(16, room(config)),), generator=generator)
    device = next(model.parameters()).device
    with evaluating(model):
        logits = model(tokens[None].to(device)).float().cpu()
    apart = (logits - same(tokens[None])).abs().max().item()
    # a model in half precision differs from itself in float32 by more than rounding does
    near = 1e-2 if next(model.parameters()).dtype == torch.float32 else 0.3
    if not apart <= near:
        raise ValueError(
            "model must give the numbers that LanguageModel(config) gives with the same weights, "
            f"for that is what the page computes. Its logits are up to {apart:.2g} away. Does your "
            "block do something else (positions, the place of the norms, the activation)? Give it "
            "what the config says, or say in the config what it does."
        )


def _half(name, tensor):
    """The nearest half floats."""
    with np.errstate(over="ignore"):  # it is told below
        half = tensor.numpy().astype(np.float16)
    if not np.isfinite(half).all():
        raise ValueError(
            f"model must have weights that are finite and below 65,504. Got others in {name}: "
            "did the training fail?"
        )
    return half


def _percent(share):
    return f"{share:.0%}" if share >= 0.01 else "under 1%"


def _shown(text):
    """A text in one line, its line breaks made visible."""
    return text.replace("\n", "⏎").replace("\t", "⇥")


@figures.styled
def _picture(likeliest, prompt, continuation, *, title, alt):
    figure, axes = figures.card(size=(6.4, 4.4))
    names = [figures.token_text(token) for token, _ in likeliest]
    shares = [share for _, share in likeliest]
    places = np.arange(len(names))
    axes.barh(places, shares, color=figures.OKABE_ITO["blue"], height=0.72)
    axes.invert_yaxis()
    figures.label_ticks(axes.yaxis, [token for token, _ in likeliest], len(names))
    for place, share in zip(places, shares, strict=True):
        axes.annotate(
            _percent(share), (share, place), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=9, color=figures.neutral("soft"),
        )  # fmt: skip
    axes.set_xlim(0, max(shares) * 1.16)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))  # whole percents
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("probability of the next token")
    axes.set_title(title)
    after = _shown(prompt)
    after = after if len(after) <= 60 else f"…{after[-59:]}"
    went = textwrap.fill(f"“{_shown(continuation)}”", 72, max_lines=2, placeholder=" …")
    words = axes.annotate(
        f"After “{after}” it went on:\n{went}", (0, 0), xycoords="figure fraction",
        xytext=(10, 8), textcoords="offset points", fontsize=9, linespacing=1.4, va="bottom",
        color=figures.neutral("ink"), parse_math=False, annotation_clip=False,
    )  # fmt: skip
    words.set_in_layout(False)  # it has its room below what is laid out
    figure.get_layout_engine().set(rect=(0, 0.16, 1, 0.84))
    return figures.Picture(figure, title, alt)
