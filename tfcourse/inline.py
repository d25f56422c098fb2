"""Code within a sentence, as HTML."""

from html import escape


def inline_code(text: str) -> str:
    """Escaped text in which what stands between backticks is code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is only a backtick
        return escape(text)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
