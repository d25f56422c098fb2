"""LogitLens: what a model would say next if it ended after 0, 1, … of its blocks."""

import matplotlib
import numpy as np

from tfcourse import figures
from tfcourse.widgets.view import View, check_text, check_tokens, numbers

LIKELIEST = 5  # tokens of each cell that go to the browser
DRAWN = 8  # columns of the picture


class LogitLens(View):
    """The likeliest next token at every place of a text, read out after every block.

    A grid: the text's tokens across, as they are read; layers up, from the embedding alone to the
    model's own output on top. A color says how sure the layer is, how likely it thinks the token
    that does come next, or how far down that one stands. Cells that name it are marked.

    Args:
        lens: `(layers + 1, tokens, vocabulary)`, the logits that `inside.logit_lens` gives for one
            text; a batch axis of 1 may stand second.
        tokens: the vocabulary's strings.
        text: the text's tokens: strings of the vocabulary, or their numbers in it.
        title: the question that the view answers.

    Raises:
        TypeError: not numbers, or not strings.
        ValueError: sizes do not fit, a logit is not finite, or a token of the text is unknown.
    """

    module = "logit_lens"

    def __init__(self, lens, tokens, text, *, title="When does the model know what comes next?"):
        check_text("title", title)
        self.tokens = check_tokens("tokens", tokens)
        self.ids = self._numbers_of(text)
        lens = self._layers(lens)
        self.read_out(lens)
        words = sorted({*self.ids, *self.top.ravel().tolist()})
        place = {number: i for i, number in enumerate(words)}  # only what is shown is sent
        state = {
            "words": [self.tokens[number] for number in words],
            "text": [place[number] for number in self.ids],
            "top": [place[number] for number in self.top.ravel().tolist()],
            "vocabulary": len(self.tokens),
        }
        names = ("chances", "actual", "rank", "entropy")
        arrays = {name: getattr(self, name).astype(np.float32) for name in names}
        super().__init__(state, arrays, title=title, alt=self._describe())

    def _numbers_of(self, text):
        """Where each token of the text stands in the vocabulary."""
        if isinstance(text, str):
            raise TypeError("text must be a sequence of tokens, got one string; split it first")
        try:
            text = text.tolist() if hasattr(text, "tolist") else list(text)
        except TypeError:
            raise TypeError(
                f"text must be a sequence of tokens, got {type(text).__name__}"
            ) from None
        size, found = len(self.tokens), []
        for i, token in enumerate(text):
            if isinstance(token, int) and not isinstance(token, bool):
                if not 0 <= token < size:
                    raise ValueError(f"text[{i}] must be between 0 and {size - 1}, got {token}")
                found.append(token)
                continue
            if not isinstance(token, str):
                raise TypeError(
                    f"text[{i}] must be a string or a number of the vocabulary, got "
                    f"{type(token).__name__}"
                )
            times = self.tokens.count(token)
            if times != 1:
                raise ValueError(
                    f"text[{i}] must be a token of the vocabulary, got {token!r}"
                    if times == 0
                    else f"text[{i}], {token!r}, stands {times} times in the vocabulary: give the "
                    "text as numbers"
                )
            found.append(self.tokens.index(token))
        if len(found) < 2:
            raise ValueError(f"text must hold at least two tokens, got {len(found)}")
        return found

    def _layers(self, lens):
        """The logits as (layers + 1, tokens, vocabulary)."""
        array = numbers("lens", lens)
        wanted = (len(self.ids), len(self.tokens))
        if array.ndim == 4 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 3 or array.shape[1:] != wanted or not len(array):
            raise ValueError(
                "lens must be (layers + 1, tokens, vocabulary), of one text alone, with (tokens, "
                f"vocabulary)={wanted} as text and tokens say. Got {array.shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError("lens must hold finite numbers")
        return array

    def read_out(self, lens):
        """Fill in what is shown, `(layers + 1, tokens)` each: of the whole vocabulary only this.

        `top` and `chances`: numbers and probabilities of the likeliest, with a last axis. `actual`
        and `rank`: probability and place (1: the likeliest) of the token that does come next; in
        the last column, where none does, 0. `entropy` in nats.
        """
        raised = np.exp(lens - lens.max(-1, keepdims=True))
        odds = raised / raised.sum(-1, keepdims=True)
        with np.errstate(divide="ignore"):
            logs = np.where(odds > 0, np.log(odds), 0.0)
        self.entropy = -(odds * logs).sum(-1) + 0.0
        # of equal ones the first in the vocabulary first, for the rank as well
        order = np.argsort(-lens, axis=-1, kind="stable")
        self.top = order[..., :LIKELIEST]
        self.chances = np.take_along_axis(odds, self.top, axis=-1)
        following = np.array(self.ids[1:])
        self.actual, self.rank = np.zeros(lens.shape[:2]), np.zeros(lens.shape[:2], dtype=int)
        self.actual[:, :-1] = odds[:, np.arange(len(following)), following]
        self.rank[:, :-1] = (order[:, :-1] == following[:, None]).argmax(-1) + 1

    @property
    def right(self):
        """In how many places each layer's likeliest token is the one that comes next."""
        return (self.rank == 1).sum(-1).tolist()

    def _describe(self):
        places, layers = len(self.ids) - 1, len(self.right) - 1
        said = [f"{layer_name(layer, layers)} in {count}" for layer, count in enumerate(self.right)]
        # of each place the layers that are right, and the place whose first is the latest
        first = [np.flatnonzero(self.rank[:, i] == 1) for i in range(places)]
        layer, i = max(
            ((int(found[0]), i) for i, found in enumerate(first) if len(found)), default=(0, 0)
        )
        read, known = (figures.token_text(self.tokens[n]) for n in self.ids[i : i + 2])
        late = f" Found last: {known} after {read}, {layer_name(layer, layers)}." if layer else ""
        return (
            f"Grid of {len(self.ids)} tokens and {layers + 1} layers. Of the {places} places whose "
            f"next token is known, the likeliest token is the right one: {', '.join(said)}.{late}"
        )

    def draw(self):
        """The grid of the first tokens; the color is the probability of the likeliest."""
        shown = min(len(self.ids), DRAWN)
        names = [figures.token_text(token) for token in self.tokens]
        read = [names[i] for i in self.ids[:shown]]
        following = [names[i] for i in self.ids[1 : shown + 1]]
        cells = [[names[i] for i in row[:shown]] for row in self.top[:, :, 0]]
        return _grid(
            cells,
            self.chances[:, :shown, 0],
            self.rank[:, :shown] == 1,
            read,
            following,
            len(self.ids),
            self.title,
            self.alt,
        )


def layer_name(layer, layers):
    """What a row is called: how many blocks the stream has passed."""
    if layer == 0:
        return "with the embedding alone"
    output = " (the output)" if layer == layers else ""
    return f"after {layer} block{'s' * (layer > 1)}{output}"


def _short(text):
    return text if len(text) <= 7 else f"{text[:6]}…"


@figures.styled
def _grid(cells, odds, right, read, following, tokens, title, alt):
    layers, shown = odds.shape
    figure, axes = figures.card(size=(max(4.6, 0.62 * shown + 2.0), 0.36 * layers + 1.6))
    viridis = matplotlib.colormaps["viridis"]
    image = axes.imshow(odds, cmap=viridis, vmin=0, vmax=1, aspect="auto", origin="lower")
    figure.colorbar(
        image, ax=axes, shrink=0.85, pad=0.015, aspect=18, label="of the likeliest",
        format=lambda share, _: f"{100 * share:.0f}%",
    ).outline.set_visible(False)  # fmt: skip
    for (layer, column), share in np.ndenumerate(odds):
        bold, ink = right[layer, column], "white" if share < 0.55 else figures.ON_CELL
        axes.text(
            column, layer, _short(cells[layer][column]), ha="center", va="center", fontsize=8,
            color=ink, fontweight="bold" if bold else "normal", parse_math=False,
        )  # fmt: skip
        if bold:
            axes.add_patch(
                matplotlib.patches.Rectangle((column - 0.45, layer - 0.42), 0.9, 0.84, fill=False,
                                             edgecolor=ink, linewidth=1.6)
            )  # fmt: skip
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks(range(shown), list(map(_short, read)))
    for label in axes.get_xticklabels():
        label.set_parse_math(False)
    rows = ["embedding", *(f"{n} block{'s' * (n > 1)}" for n in range(1, layers))]
    axes.set_yticks(range(layers), rows)
    for column, token in enumerate(following):
        axes.text(column, layers - 0.4, _short(token), ha="center", va="bottom", fontsize=9,
                  fontweight="bold", color=figures.neutral("label"), parse_math=False)  # fmt: skip
    axes.text(-0.6, layers - 0.4, "next is", ha="right", va="bottom", fontsize=9,
              color=figures.neutral("soft"))  # fmt: skip
    more = f", the first {shown} of {tokens} tokens" if shown < tokens else ""
    axes.set_xlabel(f"what is read{more}; framed: the likeliest is what comes next")
    figure.suptitle(title, fontweight="bold", fontsize=11).set_parse_math(False)
    return figures.Picture(figure, title, alt)
