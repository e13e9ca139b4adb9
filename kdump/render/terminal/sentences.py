"""Sentences as wide as a terminal; what is to be pasted stays on one line."""

from __future__ import annotations

import re
import textwrap

_COMMAND = re.compile(r"(?:^|: ) *(?:kdump|[$#]) ")
_LEAST = 20  # columns, below which every word would have a line


def fitted(text: str, columns: int) -> str:
    """Return a line wrapped by word, all of it but the first line set in; one with a command stays whole.

    Args:
        text: without line ends.
        columns: of the terminal.
    """
    if len(text) <= columns or _COMMAND.search(text):
        return text
    first = text[: len(text) - len(text.lstrip(" "))]
    wrap = textwrap.TextWrapper(
        max(columns, _LEAST),
        initial_indent=first,
        subsequent_indent=f"{first}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrap.wrap(text.lstrip(" ")))
