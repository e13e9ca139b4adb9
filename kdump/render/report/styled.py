"""Text with colours, and the paper that it is written on: a terminal, or a pipe, which lacks colours only.

Written by hand: every run of a verb in a pipe pays for what it imports, and a pipe may get a million lines.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PIPE_WIDTH = 100
"""Columns of a line where nobody says how many there are."""
_HEIGHT = 40  # lines of a page that has none
_SGR = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bright_black": "90"}
_DULL = ("", "dumb", "unknown")  # terminals without colours, by TERM


def cell_len(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # a library of its own, for what is not ASCII

    return sum(
        0 if category(char) in ("Mn", "Me") else 2 if east_asian_width(char) in ("W", "F") else 1 for char in text
    )


def clipped(text: str, room: int) -> str:
    """Return as much of the begin of a text as so many columns have room for."""
    if text.isascii():
        return text[: max(0, room)]
    taken = 0
    for at, char in enumerate(text):
        taken += cell_len(char)
        if taken > room:
            return text[:at]
    return text


class Text:
    """Text in pieces, each of one style: words of `_SGR`, or `not` and a word that the text as a whole has.

    Args:
        text: its first piece.
        style: of the whole text.
    """

    __slots__ = ("_pieces", "style")

    def __init__(self, text: str = "", style: str = "") -> None:
        self.style = style
        self._pieces: list[tuple[str, str]] = [(text, style)] if text else []

    @staticmethod
    def of(pieces: Iterable[Text | str]) -> Text:
        """Return one text of several."""
        made = Text()
        for piece in pieces:
            made.append(piece)
        return made

    def joined(self, texts: Iterable[Text]) -> Text:
        """Return texts as one, with this one between them."""
        made = Text()
        for number, one in enumerate(texts):
            if number:
                made.append(self)
            made.append(one)
        return made

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join([text for text, _ in self._pieces])

    @property
    def cell_len(self) -> int:
        """How many columns it takes."""
        return sum([cell_len(text) for text, _ in self._pieces])

    def append(self, more: Text | str, style: str = "") -> Text:
        """Put a piece behind it, in the style of the whole text and its own; return this text."""
        if isinstance(more, Text):
            self._pieces += more._pieces
        elif more:
            self._pieces.append((more, _both(self.style, style)))
        return self

    def padded(self, blanks: int, *, left: bool = False) -> Text:
        """Return it with blanks before or behind it."""
        blank = Text(" " * max(0, blanks))
        return Text.of((blank, self) if left else (self, blank))

    def cut(self, start: int, end: int | None = None) -> Text:
        """Return the characters from one to another."""
        made, at = Text(style=self.style), 0
        end = len(self.plain) if end is None else end
        for text, style in self._pieces:
            part = text[max(0, start - at) : max(0, end - at)]
            if part:
                made._pieces.append((part, style))
            at += len(text)
        return made

    def wrapped(self, room: int) -> Iterator[Text]:
        """Yield lines of so many columns at most: no word is cut but one that is longer than a line."""
        plain = self.plain
        start = 0
        while start < len(plain):
            fits = clipped(plain[start:], room)
            end = start + max(1, len(fits))
            if end < len(plain) and plain[end] != " ":
                blank = plain.rfind(" ", start, end)
                end = blank if blank > start and plain[start:blank].strip() else end
            yield self.cut(start, start + len(plain[start:end].rstrip(" ")))
            start = end
            while start < len(plain) and plain[start] == " ":
                start += 1

    def written(self, *, coloured: bool) -> str:
        """Return it as a terminal takes it."""
        if not coloured:
            return self.plain
        return "".join([_inked(text, style) for text, style in self._pieces])


def _both(style: str, more: str) -> str:
    if not more:
        return style
    words = [] if more.startswith("not ") else more.split()
    dropped = more[len("not ") :] if more.startswith("not ") else ""
    return " ".join([*(word for word in style.split() if word != dropped and word not in words), *words])


def _inked(text: str, style: str) -> str:
    if not style:
        return text
    return f"\x1b[{';'.join([_SGR[word] for word in style.split()])}m{text}\x1b[0m"


class Paper:
    """What lines are written on: a terminal, or a pipe.

    Args:
        write: takes text.
        width, height: columns and lines; those of a pipe without them.
        coloured: it shows colours.
        ascii_only: it has no other characters.
        is_screen: somebody looks at it now: what has no end is folded, and counted.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        width: int = PIPE_WIDTH,
        height: int = _HEIGHT,
        *,
        coloured: bool = False,
        ascii_only: bool = False,
        is_screen: bool = False,
    ) -> None:
        self._write = write
        self._coloured = coloured
        self.width = width
        self.height = height
        self.ascii_only = ascii_only
        self.is_screen = is_screen

    def line(self, text: Text | str = "") -> None:
        """Write a line as it is."""
        self._write(f"{text if isinstance(text, str) else text.written(coloured=self._coloured)}\n")


def wants_colour(color: str, *, is_terminal: bool) -> bool:
    """Whether there are colours.

    Args:
        color: auto, always or never; auto asks NO_COLOR and TERM.
        is_terminal: a terminal takes them.
    """
    if color != "auto":
        return color == "always"
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in _DULL
