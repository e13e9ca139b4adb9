"""Kafka's layout as text: the lines of every kind of file, through one buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.record.reader import header_places_at
from kdump.render.text import _text
from kdump.render.text.buffer import MOST_ROOM, PIECE, ROOM, LineBuffer

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from kdump.compat.kafka_legacy import LegacyMessage
    from kdump.format.record.chunk import Chunk
    from kdump.render.text.buffer import Write

_NO_HEADERS = b" headerKeys: []"
_LINE = 2048  # more than a line without its key, payload and header keys


class TextWriter(LineBuffer):
    """Writes batches, records and plain lines, in order.

    Args:
        write: takes the bytes; they are valid until it returns.
        mode: bits of the kernel (kdump.render.text._text.CONTENTS ...).
        slow_text: makes text of bytes that cannot be written as they are.
        contents: makes the text of a record's key and payload; None for UTF-8. Another may come with each file.
        control: makes the text of a control record.
        broken: makes the text of a message of magic 0 or 1 whose key or value cannot be read, and says why Kafka's tool
            ends there; None for the reason where it does not.
    """

    def __init__(
        self,
        write: Write,
        mode: int,
        slow_text: Callable[[bytes], bytes],
        contents: _text.Contents | None,
        control: _text.Contents,
        broken: Callable[[int, LegacyMessage], tuple[bytes, str | None]],
    ) -> None:
        super().__init__(write)
        self._broken = broken
        self._mode = mode
        self._slow_text = slow_text
        self.contents = contents
        self._control = control

    def chunk(self, chunk: Chunk) -> str | None:
        """Write the lines of a chunk's batches and records.

        Returns:
            Why Kafka's tool ends here, in the middle of the last line; None when it does not.
        """
        k, begun, r = chunk.first, chunk.begun, 0
        rows = chunk.window.rows
        while True:
            k, begun, r, self._at, why, reason = _text.render(
                chunk.view,
                rows,
                k,
                chunk.last,
                begun,
                chunk.rows,
                r,
                chunk.filled,
                self._room,
                self._at,
                self._mode,
                self._slow_text,
                self.contents,
                self._control,
            )
            if why == _text.DONE:
                return None
            if why == _text.STOPPED:
                if r == 0 or not self._is_broken(chunk, k, r - 1):
                    return reason
                text, reason = self._broken_message(chunk, r - 1)
                self.text(text.decode())
                if reason is not None:
                    return reason
                self.text("\n")
                continue
            if why == _text.NO_ROOM:
                self.flush()
            elif not self._enlarge(chunk, r):
                reason = self._long_line(chunk, k, r)
                if reason is not None:
                    return reason
                r += 1

    def _is_broken(self, chunk: Chunk, k: int, r: int) -> bool:
        """Whether record r, of magic 0 or 1, was stopped at for its key or value; else it was batch k."""
        row = chunk.rows[r * layout.RECORD_WIDTH : (r + 1) * layout.RECORD_WIDTH]
        is_legacy = chunk.window.cell(k, layout.MAGIC) < layout.MAGIC_V2
        return is_legacy and row[layout.R_BATCH] == k and bool(row[layout.R_FLAGS] & layout.VALUE_OVERRUNS)

    def _broken_message(self, chunk: Chunk, r: int) -> tuple[bytes, str | None]:
        from kdump.compat.kafka_legacy import LegacyMessage

        row = chunk.rows[r * layout.RECORD_WIDTH : (r + 1) * layout.RECORD_WIDTH]
        return self._broken(row[layout.R_OFFSET], LegacyMessage(chunk.view[row[layout.R_AT] : row[layout.R_END]]))

    def _enlarge(self, chunk: Chunk, r: int) -> bool:
        """Make room for the line of record r, unless it is too long to be held."""
        at = r * layout.RECORD_WIDTH
        need = _LINE + 3 * (chunk.rows[at + layout.R_END] - chunk.rows[at + layout.R_AT])
        need = max(need, 2 * len(self._room))
        if need > MOST_ROOM:
            return False
        self._room = memoryview(bytearray(need))
        return True

    def _long_line(self, chunk: Chunk, k: int, r: int) -> str | None:
        """Write the line of record r with its key and payload in pieces; why Kafka's tool ends in it, or None."""
        at = r * layout.RECORD_WIDTH
        row = chunk.rows[at : at + layout.RECORD_WIDTH]
        fields = [
            (name, row[place], row[size])
            for name, place, size in (
                ("key: ", layout.R_KEY_AT, layout.R_KEY_SIZE),
                ("payload: ", layout.R_VALUE_AT, layout.R_VALUE_SIZE),
            )
            if row[size] >= 0
        ]
        self.flush()
        self._room = memoryview(bytearray(ROOM))
        headers, row[layout.R_HEADER_COUNT] = row[layout.R_HEADER_COUNT], 0
        *_, self._at, _, _ = _text.render(
            chunk.view,
            chunk.window.rows,
            k,
            k + 1,
            True,
            row,
            0,
            1,
            self._room,
            0,
            self._mode & ~_text.CONTENTS,
            self._slow_text,
            None,
            _no_control,
        )
        self._at -= 1  # the line continues
        if headers:
            self._header_keys(chunk.view, row[layout.R_HEADERS_AT], row[layout.R_END], headers)
        is_control = (
            chunk.window.cell(k, layout.MAGIC) >= layout.MAGIC_V2
            and chunk.window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG
        )
        reason = None
        if is_control:
            if not self._mode & _text.SKIP_METADATA:
                reason = self._made(self._control, chunk, row)
        elif self._mode & _text.CONTENTS:
            reason = self._long_contents(chunk, row, fields)
        if reason is not None:
            return reason
        self.text("\n")
        return None

    def _header_keys(self, view: memoryview, at: int, end: int, count: int) -> None:
        """Put the keys of many headers into the line in hand."""
        before, mark, after = bytes(self._room[: self._at]).partition(_NO_HEADERS)
        if not mark:
            return  # they are not asked for
        self._at = len(before) + len(_NO_HEADERS) - 1
        careful, begun = bool(self._mode & _text.CAREFUL), False
        while count:
            start = at
            at, count, self._at = _text.header_keys(
                view, at, end, count, begun, self._room, self._at, careful, self._slow_text
            )
            begun = begun or at > start
            if count:
                self.flush()
            if at == start:  # one key is longer than the buffer
                place, size, value_at, value_size = next(header_places_at(view, at, end, 1))
                self.text("," if begun else "")
                self._pieces(view[place : place + size])
                at, count, begun = value_at + max(0, value_size), count - 1, True
        self.text(f"]{after.decode('ascii')}")

    def _long_contents(self, chunk: Chunk, row: array[int], fields: list[tuple[str, int, int]]) -> str | None:
        """Write key and payload: name, place and size of each that is not null; why the tool ends here, or None."""
        if self.contents is not None:
            return self._made(self.contents, chunk, row)
        has_key = row[layout.R_KEY_SIZE] >= 0
        bar = self._mode & _text.SKIP_METADATA and (has_key or not self._mode & _text.BARE_PAYLOAD)
        prefix = "| " if bar else " "
        for name, place, size in fields:
            self.text(prefix + name)
            self._pieces(chunk.view[place : place + size])
            prefix = " "
        return None

    def _made(self, make: _text.Contents, chunk: Chunk, row: array[int]) -> str | None:
        """Write what the decoder makes of a long record; why the tool ends here, or None."""
        key, value = (
            bytes(chunk.view[row[place] : row[place] + row[size]]) if row[size] >= 0 else None
            for place, size in (
                (layout.R_KEY_AT, layout.R_KEY_SIZE),
                (layout.R_VALUE_AT, layout.R_VALUE_SIZE),
            )
        )
        text = make(row[layout.R_OFFSET], key, value)
        self.flush()
        if isinstance(text, bytes):
            self._write(text)
            return None
        self._write(text[0])
        return text[1]

    def _pieces(self, data: memoryview) -> None:
        """Write bytes as text, a piece at a time; a piece never ends inside a UTF-8 sequence."""
        careful = bool(self._mode & _text.CAREFUL)
        while data:
            cut = min(PIECE, len(data))
            for back in range(4 if cut < len(data) else 0):
                if data[cut - back] & 0xC0 != 0x80:
                    cut -= back
                    break
            self.flush()
            piece, data = data[:cut], data[cut:]
            if _text.text_is_plain(piece, 0, len(piece), careful):
                self._write(piece)
            else:
                self._write(self._slow_text(bytes(piece)))


def _no_control(_offset: int, _key: bytes | None, _value: bytes | None) -> bytes:
    """Leave the text of a control record to the writer, which has room for any length."""
    return b""
