"""Sentences as wide as a terminal; what is to be pasted stays on one line."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

_COMMAND = re.compile(r"(?<=: )kdump .*$")
_TYPED = re.compile(r" *(?:kdump|[$#]) ")
_QUOTED = re.compile(r"`[^`]+`")
_BLANK = "\ue000"  # stands for a blank at which no line ends
_LEAST = 20  # columns, below which every word would have a line
_USUAL = 80  # columns of a terminal that does not tell


def columns_of(stream: TextIO) -> int | None:
    """Return how many columns the terminal has that a stream is; None where it is none."""
    if not stream.isatty():
        return None
    with suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    return _USUAL


def fitter_of(stream: TextIO) -> Callable[[str], str]:
    """Return what wraps a line as `fitted` does where a stream is a terminal, and else leaves it as it is."""
    columns = columns_of(stream)
    return str if columns is None else lambda text: fitted(text, columns)


def fitted(text: str, columns: int) -> str:
    """Return a line wrapped by word, all of it but the first line set in by two columns more than that one.

    A command at its end, what stands between two backquotes, or a long path, stays on one line to be pasted; a line
    that is a command stays as it is.

    Args:
        text: without line ends.
        columns: of the terminal.
    """
    if len(text) <= columns or _TYPED.match(text):
        return text
    import textwrap

    command = _COMMAND.search(text)
    words, last = (text, "") if command is None else (text[: command.start()], command[0])
    first = text[: len(text) - len(text.lstrip(" "))]
    lines = textwrap.wrap(
        _QUOTED.sub(lambda found: found[0].replace(" ", _BLANK), words.lstrip(" ")),
        max(columns, _LEAST),
        initial_indent=first,
        subsequent_indent=f"{first}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if last and len(lines[-1]) + 1 + len(last) <= columns:
        lines[-1] += f" {last}"
    elif last:
        lines.append(f"{first}  {last}")
    return "\n".join(lines).replace(_BLANK, " ")
