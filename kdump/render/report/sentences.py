"""Sentences as wide as a terminal; what is to be pasted stays on one line."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.value import pattern
from kdump.words.command import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

_COMMAND = pattern(
    rf"(?:(?<=: )|(?<= (?:with|then) )|(?<= where )|(?<= and see ))(?:{'|'.join(map(re.escape, PROGRAMS))}) .*$"
)
_TYPED = pattern(r" *(?:kdump|[$#]) ")
_QUOTED = pattern(r"`[^`]+`|(?<![^\s=])\$?'[^']*'")  # a word of a shell does not begin within another one
_BLANK = "\ue000"  # stands for a blank at which no line ends
_LEAST = 20  # columns, below which every word would have a line
_USUAL, _USUAL_LINES = 80, 25  # columns and lines of a terminal that does not tell


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


def lines_of(stream: TextIO) -> int:
    """Return how many lines a terminal has."""
    with suppress(ValueError):
        if (lines := int(os.environ.get("LINES", ""))) > 0:
            return lines
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).lines or _USUAL_LINES
    return _USUAL_LINES


def fitter_of(stream: TextIO) -> Callable[[str], str]:
    """Return what wraps a line as `fitted` does where a stream is a terminal, and else leaves it as it is."""
    columns = columns_of(stream)
    return str if columns is None else lambda text: fitted(text, columns)


def command_at(text: str) -> int:
    """Return where a command begins that must stay on one line with all behind it; the length where there is none."""
    found = _COMMAND.search(text)
    return len(text) if found is None else found.start()


def fitted(text: str, columns: int) -> str:
    """Return a line wrapped by word, all of it but the first line set in by two columns more than that one.

    A command, with all behind it, what stands between two backquotes or in the quotes of a shell, or a long path, stays
    on one line to be pasted; a line that is a command stays as it is.

    Args:
        text: without line ends.
        columns: of the terminal.
    """
    if len(text) <= columns or _TYPED.match(text):
        return text
    import textwrap

    begin = command_at(text)
    words, last = text[:begin], text[begin:]
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
