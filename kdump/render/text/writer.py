"""Kafka's layout as text: the lines of every kind of file, through one buffer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.render.text import _text
from kdump.render.text.buffer import BUFFER_SIZE, MOST_BUFFERED, PIECE, LineBuffer
from kdump.words.times import iso

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

    from kdump.compat.kafka_legacy import LegacyMessage
    from kdump.format.record.chunk import Chunk, Event, Fate
    from kdump.redact import Redactor
    from kdump.render.text.buffer import Write

_NO_HEADERS = b" headerKeys: []"
_OVERRUN = "java.lang.IllegalArgumentException: newLimit > capacity"
_CONTENTS = _text.CONTENTS | _text.KEY | _text.PAYLOAD
_LINE = 2048  # more than a line without its key, payload and header keys


def fate_text(fate: Fate) -> bytes:
    """Return what is said of what became of a record, as ` fate: [committed, superseded at offset 9]`."""
    words = [] if fate.is_sound else ["not readable: wrong CRC"]
    where = f" at {fate.doubt}" if fate.doubt else ""
    if fate.transaction is not None:
        words.append(fate.transaction if fate.doubt is None else f"{fate.transaction} (its end is lost{where})")
    elif fate.doubt is not None:
        words.append(f"in doubt (its end may be in what cannot be read{where})")
    if fate.waits_for is not None:
        words.append("waits for producer {}, whose transaction is open since offset {}".format(*fate.waits_for))
    words += ["below the log start"] if fate.below_log_start else []
    words += [f"superseded at offset {fate.superseded_by}"] if fate.superseded_by is not None else []
    words += ["compaction removes it: it has no key"] if fate.no_key else []
    words += [] if fate.tombstone is None else [_tombstone(fate)]
    words += [f"retention deletes it from {iso(fate.deleted_at)} on"] if fate.deleted_at is not None else []
    kept = "kept while its transaction has records" if fate.is_marker else "kept"
    words += [] if words else [kept if fate.is_judged else "not known: cleanup.policy"]
    return f" fate: [{', '.join(words)}]".encode()


def _tombstone(fate: Fate) -> str:
    """What compaction makes of a tombstone, or of a marker whose transaction has no record left."""
    if fate.tombstone == "removed":
        return "tombstone: the next pass of the cleaner removes it"
    if fate.tombstone_until is not None:
        return f"tombstone: compaction removes it from {iso(fate.tombstone_until)} on"
    return "tombstone: the next pass of the cleaner sets its delete horizon"


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
        redactor: makes tokens of keys and payloads that are too long for `contents`; None where they may be seen.
    """

    def __init__(
        self,
        write: Write,
        mode: int,
        slow_text: Callable[[bytes], bytes],
        contents: _text.Contents | None,
        control: _text.Contents,
        broken: Callable[[int, LegacyMessage], tuple[bytes, str | None]],
        redactor: Redactor | None = None,
    ) -> None:
        super().__init__(write)
        self._redactor = redactor
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
        fates = None if chunk.fates is None else [fate_text(fate) for fate in chunk.fates]
        filled = 0 if chunk.cut is not None else chunk.filled  # a record that is cut has a line of its own
        while True:
            k, begun, r, self._at, why, reason = _text.render(
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
                mode=self._mode,
                slow_text=self._slow_text,
                contents=self.contents,
                control=self._control,
                fates=fates,
            )
            if why == _text.DONE:
                return None if chunk.cut is None else self._long_line(chunk, chunk.first, 0)
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
        need = max(need, 2 * len(self._buffer))
        if need > MOST_BUFFERED:
            return False
        self._buffer = memoryview(bytearray(need))
        return True

    def _long_line(self, chunk: Chunk, k: int, r: int) -> str | None:
        """Write the line of record r with its key and payload in pieces; why Kafka's tool ends in it, or None."""
        # Few records are so long, and without records nothing reads them.
        from kdump.format.record.cut_record import pieces_in, whole_fields
        from kdump.format.record.reader import key_and_value

        at = r * layout.RECORD_WIDTH
        row, cut = chunk.rows[at : at + layout.RECORD_WIDTH], chunk.cut
        shown, headers = row[:], row[layout.R_HEADER_COUNT]
        shown[layout.R_HEADER_COUNT] = 0
        if cut is not None:
            shown[layout.R_KEY_SIZE], shown[layout.R_VALUE_SIZE], headers = cut.key_size, cut.value_size, cut.headers
        pieces = partial(pieces_in, chunk.view, row) if cut is None else cut.again
        batch = chunk.window.row(k)
        is_control = batch[layout.MAGIC] >= layout.MAGIC_V2 and batch[layout.ATTRIBUTES] & layout.CONTROL_FLAG
        batch[layout.ATTRIBUTES] &= ~layout.CONTROL_FLAG  # the kernel must not look for the key of a control record:
        shown[layout.R_BATCH] = 0  # the sizes are those of the whole record, which is not in the buffer
        self.flush()
        self._buffer = memoryview(bytearray(BUFFER_SIZE))
        *_, self._at, _, _ = _text.render(
            chunk.view,
            batch,
            first=0,
            last=1,
            begun=True,
            records=shown,
            r=0,
            n=1,
            target=self._buffer,
            at=0,
            mode=self._mode & ~_CONTENTS,
            slow_text=self._slow_text,
            contents=None,
            control=self._control,
            fates=None if chunk.fates is None else [fate_text(chunk.fates[r])],
        )
        self._at -= 1  # the line continues
        if headers:
            self._header_keys(pieces())
        reason = None
        wants_whole = is_control or self.contents is not None
        fields = whole_fields(cut) if cut is not None and wants_whole else key_and_value(chunk.view, row)
        if is_control:
            if not self._mode & _text.SKIP_METADATA:
                reason = self._made(self._control, row, *(fields or key_and_value(chunk.view, row)))
        elif self._mode & _CONTENTS:
            if row[layout.R_FLAGS] & layout.VALUE_OVERRUNS:
                return _OVERRUN
            if self.contents is not None and fields is not None:
                reason = self._made(self.contents, row, *fields)
            else:
                self._long_contents(pieces(), has_key=shown[layout.R_KEY_SIZE] >= 0)
        if reason is not None:
            return reason
        self.text("\n")
        return None

    def _header_keys(self, pieces: Iterator[Event]) -> None:
        """Put the keys of many headers into the line in hand."""
        from kdump.format.record.cut_record import HEADERS

        before, mark, after = bytes(self._buffer[: self._at]).partition(_NO_HEADERS)
        if not mark:
            return  # they are not asked for
        self._at = len(before) + len(_NO_HEADERS) - 1
        begun, text = False, self._in_pieces()
        for what, data, left in pieces:
            if data is None:
                continue
            if what == HEADERS:
                self._keys_of(data, left, begun=begun)
                begun = True
            elif what == layout.AT_HEADER_KEY:
                if begun and not text.begun:
                    self.text(",")
                text.add(data, left)
                begun = True
        self.text(f"]{after.decode('ascii')}")

    def _keys_of(self, view: memoryview, count: int, *, begun: bool) -> None:
        """Write the keys of headers that are all in a buffer."""
        from kdump.format.record.reader import header_places_at

        at, careful = 0, bool(self._mode & _text.CAREFUL)
        while count:
            start = at
            at, count, self._at = _text.header_keys(
                view,
                at,
                len(view),
                count=count,
                begun=begun,
                target=self._buffer,
                to=self._at,
                careful=careful,
                slow_text=self._slow_text,
            )
            begun = begun or at > start
            if count:
                self.flush()
            if at == start:  # one key is longer than the buffer
                place, size, value_at, value_size = next(header_places_at(view, at, len(view), 1))
                self.text("," if begun else "")
                text = self._in_pieces()
                for part in range(place, place + size, PIECE):
                    end = min(part + PIECE, place + size)
                    text.add(view[part:end], place + size - end)
                at, count, begun = value_at + max(0, value_size), count - 1, True

    def _long_contents(self, pieces: Iterator[Event], *, has_key: bool) -> None:
        """Write key and payload, each that is not null."""
        bar = self._mode & _text.SKIP_METADATA and (has_key or not self._mode & _text.BARE_PAYLOAD)
        prefix = "| " if bar else " "
        names = {layout.AT_KEY: "key: ", layout.AT_VALUE: "payload: "}
        bits = {layout.AT_KEY: _text.KEY, layout.AT_VALUE: _text.PAYLOAD}
        text = self._in_pieces()
        hidden = None
        for what, data, left in pieces:
            if what not in names:
                return
            if data is None or not self._mode & (_text.CONTENTS | bits[what]):
                continue
            if not (text.begun or hidden):
                self.text(prefix + names[what])
                prefix = " "
            if self._redactor is None:
                text.add(data, left)
                continue
            hidden = hidden or self._redactor.pieces()
            hidden.add(data)
            if not left:
                self.text(hidden.token)
                hidden = None

    def _made(self, make: _text.Contents, row: array[int], key: bytes | None, value: bytes | None) -> str | None:
        """Write what the decoder makes of a long record; why the tool ends here, or None."""
        text = make(row[layout.R_OFFSET], key, value)
        self.flush()
        if isinstance(text, bytes):
            self._write(text)
            return None
        self._write(text[0])
        return text[1]

    def _in_pieces(self) -> _TextInPieces:
        def write(piece: memoryview) -> None:
            self.flush()
            if _text.text_is_plain(piece, 0, len(piece), bool(self._mode & _text.CAREFUL)):
                self._write(piece)
            else:
                self._write(self._slow_text(bytes(piece)))

        return _TextInPieces(write)


class _TextInPieces:
    """Hands on fields that come in pieces, cut so that none ends inside a UTF-8 sequence.

    Args:
        write: takes the bytes.
    """

    def __init__(self, write: Callable[[memoryview], None]) -> None:
        self._write = write
        self._before = b""
        self.begun = False  # a field is in hand

    def add(self, data: memoryview, left: int) -> None:
        """Take a piece of a field after which so many bytes follow."""
        self.begun = bool(left)
        if self._before:
            data, self._before = memoryview(self._before + bytes(data)), b""
        end = len(data)
        for back in range(1, 4 if left else 0):
            lead = data[end - back] if back <= end else 0
            if lead & 0xC0 != 0x80:
                end -= back if lead >= 0xC0 else 0
                break
        self._before = bytes(data[end:])
        if end:
            self._write(data[:end])
