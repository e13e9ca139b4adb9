"""Batches and records as JSON lines, through one buffer."""

from __future__ import annotations

import codecs
import json
from binascii import b2a_base64
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.record.cut_record import HEADERS, Texts, pieces_in, whole_fields
from kdump.format.record.reader import header_places_at, key_and_value
from kdump.render.json import _json
from kdump.render.text.buffer import MOST_BUFFERED, PIECE, LineBuffer
from kdump.rows.json_lines import name

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.record.chunk import Chunk, Event, Fate
    from kdump.redact import Pieces, Redactor
    from kdump.render.text.buffer import Write

_BITS = {layout.AT_KEY: _json.KEY, layout.AT_VALUE: _json.PAYLOAD}
_FIELDS = 2  # key and value, before headers


def fate_json(fate: Fate) -> bytes:
    """Return what became of a record, as the last member of its line."""
    fields = {
        "transaction": fate.transaction,
        "waitsFor": None
        if fate.waits_for is None
        else dict(zip(("producerId", "firstOffset"), fate.waits_for, strict=True)),
        "belowLogStart": fate.below_log_start,
        "supersededBy": fate.superseded_by,
        "noKey": fate.no_key,
        "tombstone": fate.tombstone,
        "tombstoneUntil": fate.tombstone_until,
        "deletedAt": fate.deleted_at,
    }
    return b',"fate":' + json.dumps(fields, separators=(",", ":")).encode()


class JsonWriter(LineBuffer):
    """Writes batches, records and other lines, in order.

    Args:
        write: takes the bytes; they are valid until it returns.
        contents: keys, payloads and what is decoded of them.
        control: makes JSON of key and value of a control record.
        redactor: makes tokens of keys, values and header values; None where they may be seen.
        key, payload: these alone, where contents are not wanted.
    """

    def __init__(
        self,
        write: Write,
        *,
        contents: bool,
        control: _json.Control,
        redactor: Redactor | None = None,
        key: bool = False,
        payload: bool = False,
    ) -> None:
        super().__init__(write)
        self._redactor = redactor
        self._hide = None if redactor is None else redactor.json_token
        self._shown = _json.KEY * (contents or key) | _json.PAYLOAD * (contents or payload) | _json.DECODED * contents
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
        fates = None if chunk.fates is None else [fate_json(fate) for fate in chunk.fates]
        filled = 0 if chunk.cut is not None else chunk.filled  # a record that is cut has a line of its own
        while True:
            k, begun, r, self._at, why = _json.render(
                chunk.view,
                rows,
                first=k,
                last=chunk.last,
                begun=begun,
                records=chunk.rows,
                r=r,
                n=filled,
                target=self._buffer,
                at=self._at,
                batch_head=self._heads[0],
                record_head=self._heads[1],
                contents=self._shown,
                decode=self._decode,
                control=self._control,
                fates=fates,
                hide=self._hide,
            )
            if why == _json.DONE:
                if chunk.cut is not None:
                    deque(self.long_line(chunk, 0), maxlen=0)
                return
            if why == _json.NO_ROOM:
                self.flush()
            elif 2 * len(self._buffer) <= MOST_BUFFERED:
                self._buffer = memoryview(bytearray(2 * len(self._buffer)))
            else:
                deque(self.long_line(chunk, r), maxlen=0)
                r += 1

    def long_line(self, chunk: Chunk, r: int) -> Iterator[None]:
        """Write the line of record r of a chunk in pieces; yield after each, for who hands on what was written."""
        row, cut = chunk.rows[r * layout.RECORD_WIDTH : (r + 1) * layout.RECORD_WIDTH], chunk.cut
        batch = chunk.window.row(row[layout.R_BATCH])
        if cut is None:
            texts, shown = Texts(), row
            for what, data, left in pieces_in(chunk.view, row):
                if what != HEADERS:
                    texts.add(data, left)
            found, count = tuple(texts.found), row[layout.R_HEADER_COUNT]
        else:
            found, count, shown = cut.texts, cut.headers, row[:]
            shown[layout.R_KEY_SIZE], shown[layout.R_VALUE_SIZE] = cut.key_size, cut.value_size
        pieces = partial(pieces_in, chunk.view, row) if cut is None else cut.again
        new = batch[layout.MAGIC] >= layout.MAGIC_V2
        self.text(self._heads[1].decode() + _head(shown, batch))
        self.text(',"headers":[' if new else ',"headers":null')
        if count:
            yield from self._headers(pieces(), found[_FIELDS:])
        self.text("]" if new else "")
        if self._shown:
            yield from self._fields(pieces(), found)
        is_control = new and batch[layout.ATTRIBUTES] & layout.CONTROL_FLAG
        fields = None
        if is_control or (self._shown & _json.DECODED and self._decode is not None):
            fields = key_and_value(chunk.view, row) if cut is None else whole_fields(cut)
        control = self._control(*(fields or key_and_value(chunk.view, row))) if is_control else b"null"
        self.text(f',"control":{control.decode()}')
        if self._shown & _json.DECODED and self._decode is not None and fields is not None and not is_control:
            self.text(self._decode(row[layout.R_OFFSET], *fields).decode())
        elif self._shown & _json.DECODED:
            self.text(',"decodedKey":null,"decodedPayload":null')
        if chunk.fates is not None:
            self.text(fate_json(chunk.fates[r]).decode())
        self.text("}\n")

    def _headers(self, pieces: Iterator[Event], texts: Sequence[bool]) -> Iterator[None]:
        """Write many headers, and yield after each piece.

        Of those that come in pieces, `texts` says which keys and values are UTF-8.
        """
        begun, number, field = False, 0, self._in_pieces()
        for what, data, left in pieces:
            if what == HEADERS:
                assert data is not None
                self._whole_headers(data, left, begun=begun)
                begun = True
            elif what in (layout.AT_HEADER_KEY, layout.AT_HEADER_VALUE):
                if not field.begun:
                    is_key = what == layout.AT_HEADER_KEY
                    self.text(('{"key":', ',{"key":')[begun] if is_key else ',"value":')
                    field.is_open = is_key
                field.add(data, left, is_text=texts[number])
                if not left:
                    number, begun = number + 1, True
                    self.text("}" if what == layout.AT_HEADER_VALUE else "")
            yield

    def _whole_headers(self, view: memoryview, count: int, *, begun: bool) -> None:
        """Write headers that are all in a buffer."""
        at = 0
        while count:
            start = at
            at, count, self._at = _json.headers(
                view, at, len(view), count=count, begun=begun, target=self._buffer, to=self._at, hide=self._hide
            )
            begun = begun or at > start
            if count:
                self.flush()
            if at == start:  # one is longer than the room for text
                key_at, key_size, value_at, size = next(header_places_at(view, at, len(view), 1))
                self.text(',{"key":' if begun else '{"key":')
                self._field(view[key_at : key_at + key_size], is_open=True)
                self.text(',"value":')
                self._field(None if size < 0 else view[value_at : value_at + size])
                self.text("}")
                at, count, begun = value_at + max(0, size), count - 1, True

    def _fields(self, pieces: Iterator[Event], texts: Sequence[bool]) -> Iterator[None]:
        """Write key and payload, and yield after each piece; `texts` says which of them are UTF-8."""
        names, field = {layout.AT_KEY: ',"key":', layout.AT_VALUE: ',"payload":'}, self._in_pieces()
        names = {what: names[what] for what in names if self._shown & _BITS[what]}
        missing = dict(names)  # a message of magic 0 or 1 whose value ends behind it has none
        for what, data, left in pieces:
            if what not in _BITS:
                break
            if what not in names:
                continue
            self.text(missing.pop(what, ""))
            field.add(data, left, is_text=texts[what == layout.AT_VALUE])
            yield
        for label in missing.values():
            self.text(f"{label}null")

    def _field(self, data: memoryview | None, *, is_open: bool = False) -> None:
        """Write a field that is all in a buffer."""
        texts = Texts()
        texts.add(data, 0)
        field = self._in_pieces()
        field.is_open = is_open
        field.add(data, 0, is_text=texts.found[0])

    def _in_pieces(self) -> _FieldInPieces:
        return _FieldInPieces(self.text, self._redactor)


class _FieldInPieces:
    """Writes fields that come in pieces: a string, or Base64 where a field is not UTF-8; null for None.

    Args:
        write: takes the text.
        redactor: makes tokens of fields; None where they may be seen.
    """

    def __init__(self, write: Callable[[str], None], redactor: Redactor | None = None) -> None:
        self._write = write
        self._redactor = redactor
        self._hidden: Pieces | None = None
        self.is_open = redactor is None  # the field may be seen
        self._before = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.begun = False  # a field is in hand

    def add(self, data: memoryview | None, left: int, *, is_text: bool) -> None:
        """Take a piece of a field after which so many bytes follow."""
        if data is None:
            self._write("null")
            return
        if self._redactor is not None and not self.is_open:
            self._hide(self._redactor, data, left)
            return
        if not self.begun:
            self._write('"' if is_text else '{"base64":"')
        for start in range(0, max(1, len(data)), PIECE):
            part = data[start : start + PIECE]
            rest = left + len(data) - start - len(part)
            if is_text:
                self._write(json.dumps(self._decoder.decode(part, final=not rest))[1:-1])
            else:
                self._base64(self._before + bytes(part), is_last=not rest)
        if not left:
            self._write('"' if is_text else '"}')
            self._decoder.reset()
        self.begun = bool(left)

    def _hide(self, redactor: Redactor, data: memoryview, left: int) -> None:
        self._hidden = self._hidden or redactor.pieces()
        self._hidden.add(data)
        self.begun = bool(left)
        if not left:
            self._write(f'"{self._hidden.token}"')
            self._hidden = None

    def _base64(self, data: bytes, *, is_last: bool) -> None:
        end = len(data) if is_last else len(data) // 3 * 3
        self._before = data[end:]
        self._write(b2a_base64(data[:end], newline=False).decode("ascii"))


def _head(row: array[int], batch: array[int]) -> str:
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
