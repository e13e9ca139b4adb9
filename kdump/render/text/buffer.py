"""A buffer for lines before they are written."""

from __future__ import annotations

from collections.abc import Callable

from kdump.output import OutputBuffer

Write = Callable[["bytes | memoryview"], object]

BUFFER_SIZE = 1024 * 1024  # bytes of text collected before they are written
MOST_BUFFERED = 8 * BUFFER_SIZE  # a longer line is written in pieces
PIECE = 1024 * 1024


class LineBuffer:
    """Collects text and writes it out in large pieces, in order.

    Args:
        write: takes the bytes; they are valid until it returns. If it keeps the buffer that they lie in, it returns
            another `OutputBuffer` in its place.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._buffer = memoryview(OutputBuffer(BUFFER_SIZE))
        self._at = 0

    def flush(self) -> None:
        """Write out what is collected."""
        if self._at:
            other = self._write(self._buffer[: self._at])
            self._at = 0
            if isinstance(other, OutputBuffer):
                self._buffer = memoryview(other)
        if len(self._buffer) > BUFFER_SIZE:
            self._buffer = memoryview(OutputBuffer(BUFFER_SIZE))

    def text(self, text: str) -> None:
        """Write text as it is; names that are not UTF-8 go out as the bytes they are."""
        data = text.encode("utf-8", "surrogateescape")
        if self._at + len(data) > len(self._buffer):
            self.flush()
        if len(data) > len(self._buffer):
            self._write(data)
            return
        self._buffer[self._at : self._at + len(data)] = data
        self._at += len(data)
