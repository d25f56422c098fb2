"""A way from the self-contained views on a page to the kernel: what a learner chose comes back.

A view shown as HTML knows no kernel; that is why it lives on without one. Beside it one anywidget,
never displayed, so that nothing of it is stored, takes the answers of all views on the page.
"""

import functools
from collections.abc import Callable
from importlib.resources import files


@functools.cache
def open_channel(answered: Callable[[dict], str]):
    """Open it, once for each function; the widget that carries it.

    Args:
        answered: gets what a view sends, a dict with at least `name`; gives words for the learner.
    """
    import anywidget

    class Channel(anywidget.AnyWidget):
        _esm = files("tfcourse.widgets").joinpath("channel.js").read_text(encoding="utf-8")

    def hear(widget, content, buffers):
        widget.send({"name": content["name"], "said": answered(content)})

    channel = Channel()
    channel.on_msg(hear)
    return channel
