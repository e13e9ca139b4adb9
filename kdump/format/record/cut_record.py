"""A record that is too large to be held: its fields are read in pieces, its row tells of their first bytes.

Strategy: the record is passed over once in the stream, and checked as any other. The first bytes of each field are
kept, and a small record is made of them that the record kernel reads as it reads others. Who wants all of it reads the
batch again up to there, and gets its fields piece by piece.
"""

from __future__ import annotations

import codecs
from array import array
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.checksum import crc32
from kdump.format.kernels import wire
from kdump.format.record import _records
from kdump.format.record.chunk import MOST_WHOLE, CutRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.codec.base import CodecProblem, DecodedStream
    from kdump.format.record.chunk import Chunk, Event

HEADERS = layout.AT_HEADER_KEY_SIZE  # of an event: headers that are whole, and how many
PIECE = 256 * 1024  # bytes of a record held at once
_AT_ONCE = 4  # pieces that the kernel gives


class CutError(Exception):
    """The record cannot be read; `status` is layout.R_MORE, R_BODY ..."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class HeldBytes:
    """A stream of bytes that are not compressed; see DecodedStream."""

    def __init__(self, data: memoryview) -> None:
        self.problem: CodecProblem | None = None
        self._rest = data

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; return how many bytes there were."""
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class Restartable:
    """A stream that can be let go with all that its codec holds: it is read again up to there when it is wanted.

    At its end it is let go: who keeps a record of it keeps no codec.

    Args:
        open_stream: gives the bytes, from the first one on.
        stream: the same, as far as it was read.
        position: bytes that were read.
    """

    def __init__(self, open_stream: Callable[[], DecodedStream], stream: DecodedStream, position: int) -> None:
        self._open = open_stream
        self._stream: DecodedStream | None = stream
        self._position = position
        self._has_ended = False
        self.problem = stream.problem

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; see DecodedStream."""
        if self._has_ended:
            return 0
        if self._stream is None:
            self._stream = self._open()
            skip(self._stream, self._position)
        count = self._stream.read_into(target)
        self._position += count
        self.problem = self._stream.problem
        if not count and len(target):
            self._has_ended = True
            self.let_go()
        return count

    def let_go(self) -> None:
        """Give back what the codec holds."""
        self._stream = None


def skip(stream: DecodedStream, count: int) -> None:
    """Pass over bytes of a stream, as many as there are."""
    scratch = memoryview(bytearray(min(PIECE, count)))
    while count and (got := stream.read_into(scratch[:count])):
        count -= got


class Feed:
    """The bytes of a stream, a piece at a time.

    Args:
        stream: where it continues.
        held: bytes of it that were read already, first.

    Attributes:
        taken: bytes that were taken.
    """

    def __init__(self, stream: DecodedStream, held: bytes = b"") -> None:
        self._stream = stream
        self._before = memoryview(held)
        self.view = memoryview(bytearray(PIECE))  # the buffer; its bytes in [at, held) are not taken yet
        self.at = self.held = self.taken = 0

    def fill(self) -> bool:
        """Read more behind what is not taken; False at the end, and where there is no room."""
        rest = bytes(self.view[self.at : self.held])
        self.view[: len(rest)] = rest
        self.at, self.held = 0, len(rest)
        count = min(len(self._before), PIECE - self.held)
        if count:
            self.view[self.held : self.held + count] = self._before[:count]
            self._before = self._before[count:]
        elif self.held < PIECE:
            count = self._stream.read_into(self.view[self.held :])
        self.held += count
        return count > 0

    def take(self, to: int) -> None:
        """Take the bytes of the buffer up to a place."""
        self.taken += to - self.at
        self.at = to

    def skip(self, count: int) -> int:
        """Pass over bytes; return how many were missing."""
        while count and (self.at < self.held or self.fill()):
            part = min(count, self.held - self.at)
            self.take(self.at + part)
            count -= part
        return count

    def read(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            CutError: there are not so many.
        """
        return b"".join(map(bytes, self.pieces(size)))  # each is copied before the next takes its place

    def pieces(self, size: int) -> Iterator[memoryview]:
        """Yield the next bytes; each piece is valid until the next is asked for.

        Raises:
            CutError: there are not so many.
        """
        while size:
            if self.at == self.held and not self.fill():
                raise CutError(layout.R_MORE)
            part = self.view[self.at : min(self.held, self.at + size)]
            self.take(self.at + len(part))
            size -= len(part)
            yield part

    @property
    def rest(self) -> bytes:
        """What was read and not taken."""
        return bytes(self.view[self.at : self.held]) + bytes(self._before)


class RecordPieces:
    """One record of magic 2 in pieces.

    Args:
        feed: its bytes, its length first.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.state = array("q", bytes(8 * layout.P_WIDTH))  # what it says of itself; see `_records.read_pieces`
        self.has_odd_key = False  # a header key that came whole is not UTF-8

    def __iter__(self) -> Iterator[Event]:
        """Yield what CutRecord.again yields.

        Raises:
            CutError: it cannot be read.
        """
        try:
            yield from self._events()
        except CutError as error:
            if error.status != layout.R_MORE and self._feed.skip(self.state[layout.P_LEFT]):
                raise CutError(layout.R_MORE) from None  # its end is missing: that is said of any record
            raise

    def _events(self) -> Iterator[Event]:
        feed, state, width = self._feed, self.state, layout.PIECE_WIDTH
        rows = array("q", bytes(8 * width)) * _AT_ONCE
        while True:
            if state[layout.P_STAGE] == layout.AT_HEADER_KEY_SIZE:
                yield from self._whole_headers()
            at, n, status = _records.read_pieces(feed.view, feed.at, feed.held, state, rows, _AT_ONCE)
            for i in range(0, n * width, width):
                what, place, size, left = rows[i : i + width]
                yield what, None if size < 0 else feed.view[place : place + size], left
            feed.take(at)
            if status == layout.R_DONE:
                return
            if status != layout.R_FULL and (status != layout.R_MORE or not feed.fill()):
                raise CutError(status)

    def _whole_headers(self) -> Iterator[Event]:
        """The headers up to one that is larger than the buffer."""
        feed, state = self._feed, self.state
        while state[layout.P_HEADERS_LEFT]:
            at, n, status, flags = _records.whole_headers(
                feed.view, feed.at, feed.held, state[layout.P_LEFT], state[layout.P_HEADERS_LEFT]
            )
            self.has_odd_key |= bool(flags)
            if n:
                yield HEADERS, feed.view[feed.at : at], n
                state[layout.P_LEFT] -= at - feed.at
                state[layout.P_HEADERS_LEFT] -= n
                feed.take(at)
            if status == layout.R_MORE:
                if feed.at == 0 and feed.held == PIECE:
                    return
                if not feed.fill():
                    raise CutError(status)
            elif status != layout.R_DONE:
                raise CutError(status)
        state[layout.P_STAGE] = layout.AT_END


class Texts:
    """Tells of each field that comes in pieces whether it is UTF-8."""

    def __init__(self) -> None:
        self.found: list[bool] = []  # what was found of each, in order
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_text = True

    def add(self, data: memoryview | None, left: int) -> None:
        """Take a piece of a field after which so many bytes follow."""
        if self._is_text and data is not None:
            try:
                self._decoder.decode(data, final=not left)
            except UnicodeDecodeError:
                self._is_text = False
        if not left:
            self.found.append(self._is_text)
            self._decoder.reset()
            self._is_text = True


def cut_record(pieces: RecordPieces, most: int) -> tuple[bytes, tuple[bool, ...]]:
    """Return a record that stands for a large one, and which of its fields are UTF-8.

    Args:
        pieces: the record.
        most: bytes of the key, of the value and of the headers that are kept.

    Raises:
        CutError: it cannot be read.
    """
    fields: dict[int, bytearray] = {layout.AT_KEY: bytearray(), layout.AT_VALUE: bytearray()}
    headers, count, is_whole = bytearray(), 0, True
    texts = Texts()
    for what, data, left in pieces:
        if what == HEADERS:
            assert data is not None
            if is_whole:
                room = most - len(headers)
                at, n, _, _ = _records.whole_headers(data, 0, min(room, len(data)), len(data), left)
                headers += data[:at]
                count, is_whole = count + n, n == left
            continue
        texts.add(data, left)
        if what in fields:
            fields[what] += (data or b"")[: most - len(fields[what])]
            continue
        is_whole = False
        if what == layout.AT_HEADER_KEY and not left and not texts.found[-1]:
            pieces.has_odd_key = True
    state = pieces.state
    body = bytes([state[layout.P_ATTRIBUTES]]) + varint(state[layout.P_TIME_DELTA]) + varint(state[layout.P_DELTA])
    for what, size in ((layout.AT_KEY, state[layout.P_KEY_SIZE]), (layout.AT_VALUE, state[layout.P_VALUE_SIZE])):
        body += varint(min(size, len(fields[what]))) + fields[what]
    body += varint(count) + headers
    return varint(len(body)) + body, tuple(texts.found)


class MessagePieces:
    """One message of magic 0 or 1 in pieces, its offset and size first.

    Args:
        feed: its bytes.

    Attributes:
        key_size, value_size: as they stand there; None where they do not.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.head = b""  # what stands before the key: offset, size, CRC ..
        self.key_size: int | None = None
        self.value_size: int | None = None
        self.left = 0  # bytes that no field accounts for
        self.crc = 0  # of what was read, as the message should have it

    def __iter__(self) -> Iterator[Event]:
        """Yield what CutRecord.again yields.

        Raises:
            CutError: the message ends behind the stream.
        """
        head = self._feed.read(layout.HEADER_UP_TO_MAGIC)
        overhead = layout.MIN_SIZE_V1 if head[layout.MAGIC_AT] == 1 else layout.MIN_SIZE_V0
        head += self._feed.read(layout.LOG_OVERHEAD + overhead - 8 - len(head))
        self.head = head
        self.crc = crc32(head[layout.MAGIC_AT :])
        self.left = wire.i32(head, layout.SIZE_AT) + layout.LOG_OVERHEAD - len(head)
        self.key_size = self._number()
        if self.key_size <= self.left - 4:  # the size of the value follows
            yield from self._field(layout.AT_KEY, self.key_size)
            self.value_size = self._number()
            if self.value_size <= self.left:
                yield from self._field(layout.AT_VALUE, self.value_size)
        for part in self._feed.pieces(self.left):
            self.crc = crc32(part, self.crc)

    def _number(self) -> int:
        data = self._feed.read(4)
        self.crc = crc32(data, self.crc)
        self.left -= 4
        return wire.i32(data, 0)

    def _field(self, what: int, size: int) -> Iterator[Event]:
        if size <= 0:
            yield what, None if size < 0 else memoryview(b""), 0
            return
        left = size
        for part in self._feed.pieces(size):
            self.crc = crc32(part, self.crc)
            left -= len(part)
            self.left -= len(part)
            yield what, part, left


def cut_message(pieces: MessagePieces, most: int) -> tuple[bytes, tuple[bool, ...]]:
    """Return a message that stands for a large one, wrong where that is wrong, and which of its fields are UTF-8.

    Args:
        pieces: the message.
        most: bytes of the key and of the value that are kept.

    Raises:
        CutError: it ends behind the stream.
    """
    fields: dict[int, bytearray] = {layout.AT_KEY: bytearray(), layout.AT_VALUE: bytearray()}
    texts = Texts()
    for what, data, left in pieces:
        texts.add(data, left)
        fields[what] += (data or b"")[: most - len(fields[what])]
    body = bytearray(pieces.head)
    left_over = pieces.left > 0
    for what, size in ((layout.AT_KEY, pieces.key_size), (layout.AT_VALUE, pieces.value_size)):
        if size is None:
            left_over = False
            continue
        fits = len(texts.found) > (what == layout.AT_VALUE)
        body += (min(size, len(fields[what])) if fits else size).to_bytes(4, "big", signed=True) + fields[what]
        left_over &= fits
    if pieces.value_size is None:
        body += bytes(4)  # the key ends behind the message: it is no shorter for that
    if left_over:
        body.append(0)
    body[layout.SIZE_AT : layout.LOG_OVERHEAD] = (len(body) - layout.LOG_OVERHEAD).to_bytes(4, "big")
    return bytes(body), tuple(texts.found)


def pieces_in(view: memoryview, row: array[int]) -> Iterator[Event]:
    """Yield what CutRecord.again yields of a record that is all in a buffer.

    Args:
        view: the buffer.
        row: its RECORD_WIDTH values.
    """
    fields = (
        (layout.AT_KEY, layout.R_KEY_AT, layout.R_KEY_SIZE),
        (layout.AT_VALUE, layout.R_VALUE_AT, layout.R_VALUE_SIZE),
    )
    for what, place, width in fields:
        at, size = row[place], row[width]
        if size <= 0:
            yield what, None if size < 0 else view[at:at], 0
        for start in range(at, at + size, PIECE):
            end = min(start + PIECE, at + size)
            yield what, view[start:end], at + size - end
    if row[layout.R_HEADER_COUNT]:
        yield HEADERS, view[row[layout.R_HEADERS_AT] : row[layout.R_END]], row[layout.R_HEADER_COUNT]


def whole_fields(cut: CutRecord) -> tuple[bytes | None, bytes | None] | None:
    """Return key and value of a large record; None where they are more than MOST_WHOLE bytes."""
    if max(0, cut.key_size) + max(0, cut.value_size) > MOST_WHOLE:
        return None
    fields: dict[int, bytearray | None] = {layout.AT_KEY: bytearray(), layout.AT_VALUE: bytearray()}
    for what, data, _ in cut.again():
        if what not in fields:
            break
        one = fields[what]
        if data is None or one is None:
            fields[what] = None
        else:
            one += data
    key, value = fields[layout.AT_KEY], fields[layout.AT_VALUE]
    return None if key is None else bytes(key), None if value is None else bytes(value)


def encoded(cut: CutRecord) -> Iterator[bytes | memoryview]:
    """Yield key, value and headers of a large record as magic 2 has them; each piece is valid until the next."""
    is_begun = is_counted = False
    for what, data, left in cut.again():
        if not is_counted and what not in (layout.AT_KEY, layout.AT_VALUE):
            yield varint(cut.headers)
            is_counted = True
        if what != HEADERS:
            if not is_begun:
                yield varint(-1 if data is None else len(data) + left)
            is_begun = bool(left)
        yield data or b""
    if not is_counted:
        yield varint(cut.headers)


def digest(cut: CutRecord) -> tuple[int, int, bytes]:
    """Return what tells key and value of a large record from others: their sizes, and a hash of their bytes."""
    from hashlib import sha256

    found = sha256()
    for what, data, _ in cut.again():
        if what not in (layout.AT_KEY, layout.AT_VALUE):
            break
        found.update(data or b"")
    return cut.key_size, cut.value_size, found.digest()


def whole_chunk(chunk: Chunk) -> Chunk:
    """Return the chunk of a record that is cut with all of the record, in a buffer of its own."""
    cut, row = chunk.cut, chunk.rows[: layout.RECORD_WIDTH]
    assert cut is not None
    data = bytearray()
    for part in encoded(cut):
        data += part
    row[layout.R_AT], row[layout.R_END] = 0, len(data)
    row[layout.R_KEY_AT] = len(varint(max(-1, cut.key_size)))
    row[layout.R_VALUE_AT] = row[layout.R_KEY_AT] + max(0, cut.key_size) + len(varint(max(-1, cut.value_size)))
    row[layout.R_HEADERS_AT] = row[layout.R_VALUE_AT] + max(0, cut.value_size) + len(varint(cut.headers))
    row[layout.R_KEY_SIZE], row[layout.R_VALUE_SIZE] = cut.key_size, cut.value_size
    row[layout.R_HEADER_COUNT] = cut.headers
    return chunk.replace(view=memoryview(data), rows=row, cut=None)


def varint(value: int) -> bytes:
    """A number as records have it; 64 bits."""
    data = bytearray(wire.WIDEST_LONG)
    return bytes(data[: wire.put_varint(memoryview(data), 0, value)])
