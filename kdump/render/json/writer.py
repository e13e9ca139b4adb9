"""Batches and records as JSON lines, through one buffer."""

from __future__ import annotations

import codecs
import json
from binascii import b2a_base64
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.record.reader import header_places_at, key_and_value
from kdump.render.json import _json
from kdump.render.json.lines import name
from kdump.render.text.buffer import MOST_ROOM, PIECE, LineBuffer

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from kdump.format.record.chunk import Chunk
    from kdump.render.text.buffer import Write

_BASE64_PIECE = PIECE // 3 * 3


class JsonWriter(LineBuffer):
    """Writes batches, records and other lines, in order.

    Args:
        write: takes the bytes; they are valid until it returns.
        contents: keys and payloads too.
        control: makes JSON of key and value of a control record.
    """

    def __init__(self, write: Write, *, contents: bool, control: _json.Control) -> None:
        super().__init__(write)
        self._contents = contents
        self._control = control
        self._decode: _json.Decode | None = None
        self._heads = (b"", b"")

    def begin(self, path: str, decode: _json.Decode | None) -> None:
        """Say which file the batches and records belong to.

        Args:
            path: as the user wrote it.
            decode: makes `,"decodedKey":...,"decodedPayload":...` of a record; None where records are not decoded.
        """
        file = json.dumps(name(path), separators=(",", ":"))
        self._heads = (f'{{"type":"batch","file":{file}'.encode(), f'{{"type":"record","file":{file}'.encode())
        self._decode = decode

    def chunk(self, chunk: Chunk) -> None:
        """Write the lines of a chunk's batches and records."""
        k, begun, r = chunk.first, chunk.begun, 0
        rows = chunk.window.rows
        while True:
            k, begun, r, self._at, why = _json.render(
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
                *self._heads,
                self._contents,
                self._decode,
                self._control,
            )
            if why == _json.DONE:
                return
            if why == _json.NO_ROOM:
                self.flush()
            elif 2 * len(self._room) <= MOST_ROOM:
                self._room = memoryview(bytearray(2 * len(self._room)))
            else:
                self._long_line(chunk, r)
                r += 1

    def _long_line(self, chunk: Chunk, r: int) -> None:
        """Write the line of record r in pieces."""
        row = chunk.rows[r * layout.RECORD_WIDTH : (r + 1) * layout.RECORD_WIDTH]
        batch = chunk.window.row(row[layout.R_BATCH])
        new = batch[layout.MAGIC] >= layout.MAGIC_V2
        self.text(self._heads[1].decode() + _head(chunk, row, batch))
        if new:
            self.text(',"headers":[')
            self._headers(chunk.view, row[layout.R_HEADERS_AT], row[layout.R_END], row[layout.R_HEADER_COUNT])
            self.text("]")
        else:
            self.text(',"headers":null')
        if self._contents:
            self.text(',"key":')
            self._field(chunk.view, row[layout.R_KEY_AT], row[layout.R_KEY_SIZE])
            self.text(',"payload":')
            self._field(chunk.view, row[layout.R_VALUE_AT], row[layout.R_VALUE_SIZE])
        is_control = new and batch[layout.ATTRIBUTES] & layout.CONTROL_FLAG
        control = self._control(*key_and_value(chunk.view, row)) if is_control else b"null"
        self.text(f',"control":{control.decode()}')
        if self._contents and self._decode is not None and not is_control:
            self.text(self._decode(row[layout.R_OFFSET], *key_and_value(chunk.view, row)).decode())
        elif self._contents:
            self.text(',"decodedKey":null,"decodedPayload":null')
        self.text("}\n")

    def _headers(self, view: memoryview, at: int, end: int, count: int) -> None:
        """Write many headers."""
        begun = False
        while count:
            start = at
            at, count, self._at = _json.headers(view, at, end, count, begun, self._room, self._at)
            begun = begun or at > start
            if count:
                self.flush()
            if at == start:  # one is longer than the buffer
                key_at, key_size, value_at, size = next(header_places_at(view, at, end, 1))
                self.text(',{"key":' if begun else '{"key":')
                self._field(view, key_at, key_size)
                self.text(',"value":')
                self._field(view, value_at, size)
                self.text("}")
                at, count, begun = value_at + max(0, size), count - 1, True

    def _field(self, view: memoryview, at: int, size: int) -> None:
        """Write bytes as a string, or as Base64 where they are not UTF-8; a size below 0 is null."""
        if size < 0:
            self.text("null")
            return
        data = view[at : at + size]
        try:
            for _ in _pieces(data):
                pass
        except UnicodeDecodeError:
            self.text('{"base64":"')
            for start in range(0, size, _BASE64_PIECE):
                self.text(b2a_base64(data[start : start + _BASE64_PIECE], newline=False).decode("ascii"))
            self.text('"}')
            return
        self.text('"')
        for piece in _pieces(data):
            self.text(json.dumps(piece)[1:-1])
        self.text('"')


def _pieces(data: memoryview) -> Iterator[str]:
    """Yield UTF-8 as text, a piece at a time."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), PIECE):
        yield decoder.decode(data[start : start + PIECE], final=start + PIECE >= len(data))


def _head(chunk: Chunk, row: array[int], batch: array[int]) -> str:
    """Return what a record's line has between the name of its file and its headers."""
    new = batch[layout.MAGIC] >= layout.MAGIC_V2
    kind = "LogAppendTime" if batch[layout.ATTRIBUTES] & layout.TIMESTAMP_TYPE_FLAG else "CreateTime"
    fields = {
        "batchPosition": batch[layout.POSITION],
        "offset": row[layout.R_OFFSET],
        "timestamp": row[layout.R_TIMESTAMP],
        "timestampDelta": row[layout.R_TIME_DELTA] if new else None,
        "timestampType": kind if batch[layout.MAGIC] else "NoTimestampType",
        "attributes": row[layout.R_ATTRIBUTES],
        "keySize": max(-1, row[layout.R_KEY_SIZE]),
        "valueSize": max(-1, row[layout.R_VALUE_SIZE]),
        "sequence": row[layout.R_SEQUENCE] if new else None,
    }
    return "," + json.dumps(fields, separators=(",", ":"))[1:-1]
