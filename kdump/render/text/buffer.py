"""A buffer for lines before they are written."""

from __future__ import annotations

from collections.abc import Callable

from kdump.output import Room

Write = Callable[["bytes | memoryview"], object]

ROOM = 1024 * 1024  # bytes of text collected before they are written
MOST_ROOM = 8 * ROOM  # a longer line is written in pieces
PIECE = 1024 * 1024


class LineBuffer:
    """Collects text and writes it out in large pieces, in order.

    Args:
        write: takes the bytes; they are valid until it returns. If it keeps the buffer that they lie in, it returns
            another `Room` in its place.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._room = memoryview(Room(ROOM))
        self._at = 0

    def flush(self) -> None:
        """Write out what is collected."""
        if self._at:
            other = self._write(self._room[: self._at])
            self._at = 0
            if isinstance(other, Room):
                self._room = memoryview(other)
        if len(self._room) > ROOM:
            self._room = memoryview(Room(ROOM))

    def text(self, text: str) -> None:
        """Write text as it is; names that are not UTF-8 go out as the bytes they are."""
        data = text.encode("utf-8", "surrogateescape")
        if self._at + len(data) > len(self._room):
            self.flush()
        if len(data) > len(self._room):
            self._write(data)
            return
        self._room[self._at : self._at + len(data)] = data
        self._at += len(data)
