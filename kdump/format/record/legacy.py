"""Messages of magic 0 and 1 inside a compressed wrapper.

The offsets of inner messages of magic 1 are relative to the last of them, so the stream is read twice: once to
its end, once to hand the messages out. A broken stream hands out nothing: Kafka decodes a wrapper as a whole, and
without its end the offsets are not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.checksum import crc32
from kdump.format.codec.decompress import CodecProblem, CompressionType, Decompressor
from kdump.format.java_values import as_long
from kdump.format.record import _records
from kdump.format.record.chunk import LARGE, NOT_A_WRAPPER, STREAM_SIZE, CutRecord, shifted
from kdump.format.record.cut_record import CutError, Feed, MessagePieces, cut_message
from kdump.value import Value

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from kdump.format.batch.window import Window
    from kdump.format.record.chunk import Event


class WrapperProblem(Value):
    """Why a wrapper gives no messages, or not all: a status of layout, a codec's words, or a broken rule."""

    status: int
    codec: CodecProblem | None = None
    why: str | None = None


class InnerMessages:
    """The messages of one wrapper.

    Args:
        window: where the wrapper is.
        batch: its row.
        limit: bytes that the messages may have when decompressed.
        rows: record rows to fill.
        cut: bytes that key and value of a message over LARGE are cut to; None to hold it whole.

    Attributes:
        problem: why there are no messages, or no more; final when `chunks` is exhausted.

    Source: AbstractLegacyRecordBatch.DeepRecordsIterator, DataLogInputStream.nextBatch.
    """

    def __init__(self, window: Window, batch: int, limit: int, rows: array[int], cut: int | None = None) -> None:
        self._cut = cut
        self._window = window
        self._batch = batch
        self._limit = limit
        self._rows = rows
        self._codec = window.cell(batch, layout.ATTRIBUTES) & layout.CODEC_MASK
        self._magic = window.cell(batch, layout.MAGIC)
        self.problem: WrapperProblem | None = None
        self.done = 0  # messages handed out

    def chunks(self) -> Iterator[tuple[memoryview, int, CutRecord | None]]:
        """Yield the buffer, how many record rows point into it, and what the one row is cut from.

        They end where the messages end, or the good ones.
        """
        data = self._value()
        if data is None:
            return
        last = self._last_offset(data)
        if last is None:
            return
        base = 0
        wrapper = self._window.cell(self._batch, layout.LAST_OFFSET)
        if self._magic == 1 and wrapper != 0:  # some clients wrote 0 into the wrapper
            base = wrapper - last
            if base < 0:
                self.problem = WrapperProblem(
                    NOT_A_WRAPPER,
                    why=f"the wrapper's offset {wrapper} is below the last one inside it, {last}",
                )
                return
            base = as_long(base)  # Java adds it all the same, and the sums go round again
        for view, count, cut in self._messages(data, base):
            good = self._uncompressed(count)
            if cut is None:
                _fill_valid(view, self._rows, good)
            self.done += good
            yield view, good, cut if good else None
            if good < count:
                self.problem = WrapperProblem(NOT_A_WRAPPER, why="a message inside the wrapper is compressed itself")
                return

    def _value(self) -> memoryview | None:
        """The compressed bytes of the wrapper."""
        window, k = self._window, self._batch
        if self._codec >= CompressionType.ZSTD:
            self.problem = WrapperProblem(
                NOT_A_WRAPPER, why=f"magic {self._magic} cannot have compression type {self._codec}"
            )
            return None
        _, _, _, _, status = _records.read_plain(
            window.view,
            window.origin,
            window.rows,
            first=k,
            last=k + 1,
            at=0,
            done=0,
            rows=self._rows,
            filled=0,
            capacity=1,
        )
        if status in (layout.R_NO_MESSAGE, layout.R_VALUE_LENGTH):
            self.problem = WrapperProblem(status)
            return None
        size = self._rows[layout.R_VALUE_SIZE]
        if size < 0:
            self.problem = WrapperProblem(NOT_A_WRAPPER, why="the wrapper's value is null")
            return None
        return window.view[self._rows[layout.R_VALUE_AT] : self._rows[layout.R_VALUE_AT] + size]

    def _last_offset(self, data: memoryview) -> int | None:
        """The offset, as stored, of the last message; None with a problem when the stream cannot be trusted."""
        last = None
        for _, count, _ in self._messages(data, 0):
            if count:
                last = self._rows[(count - 1) * layout.RECORD_WIDTH + layout.R_OFFSET]
        if self.problem is not None:
            return None
        if last is None:
            self.problem = WrapperProblem(NOT_A_WRAPPER, why="there is no message inside the wrapper")
        return last

    def _messages(self, data: memoryview, base: int) -> Iterator[tuple[memoryview, int, CutRecord | None]]:
        """Decompress the stream and fill rows, a buffer at a time; a broken message is a problem."""
        stream = Decompressor(self._codec, data, self._magic, self._limit)
        buffer = memoryview(bytearray(STREAM_SIZE))
        held = taken = 0
        capacity = len(self._rows) // layout.RECORD_WIDTH
        while True:
            got = stream.read_into(buffer[held:])
            held += got
            at, status = 0, layout.R_FULL
            while status == layout.R_FULL:
                at, count, status = _records.read_messages(
                    buffer,
                    at,
                    held,
                    batches=self._window.rows,
                    batch=self._batch,
                    base=base,
                    rows=self._rows,
                    capacity=capacity,
                )
                if count:
                    yield buffer, count, None
            if status != layout.R_MORE:
                self.problem = WrapperProblem(status)
                return
            if got == 0:
                self._end(stream, held - at)
                return
            need = _whole_size(buffer, at, held)
            if need > self._limit and need > len(buffer):  # it ends behind the limit: no use to hold it
                rest = held - at
                while got := stream.read_into(buffer):
                    rest += got
                self._end(stream, rest)
                return
            taken += at
            if self._cut is not None and need > LARGE:
                feed = Feed(stream, bytes(buffer[at:held]))
                found = self._cut_message(feed, data, taken, base)
                if found is None:
                    self._end(stream, feed.taken)
                    return
                small, count, status, cut = found
                if count:
                    yield small, count, cut
                if status != layout.R_MORE:
                    self.problem = WrapperProblem(status)
                    return
                taken, tail = taken + feed.taken, feed.rest
                held = len(tail)
                buffer[:held] = tail
                continue
            buffer, held = shifted(buffer, at, held, max(need, STREAM_SIZE)), held - at

    def _cut_message(
        self, feed: Feed, data: memoryview, before: int, base: int
    ) -> tuple[memoryview, int, int, CutRecord] | None:
        """Read one message that is cut: the buffer, how many rows point into it, why not one, what it is cut from.

        None where it ends behind the stream.

        Args:
            feed: its bytes.
            data: the compressed bytes of the wrapper.
            before: decompressed bytes before it.
            base: what is added to its offset.
        """
        assert self._cut is not None
        pieces = MessagePieces(feed)
        try:
            small, texts = cut_message(pieces, self._cut)
        except CutError:
            return None
        rows = self._rows
        _, count, status = _records.read_messages(
            small, 0, len(small), batches=self._window.rows, batch=self._batch, base=base, rows=rows, capacity=1
        )
        if pieces.crc == rows[layout.R_CRC]:
            rows[layout.R_FLAGS] |= layout.CRC_HOLDS
        codec, magic, limit = self._codec, self._magic, self._limit

        def again() -> Iterator[Event]:
            feed = Feed(Decompressor(codec, data, magic, limit))
            feed.skip(before)
            yield from MessagePieces(feed)

        key_size = -1 if pieces.key_size is None else pieces.key_size
        value_size = -1 if rows[layout.R_FLAGS] & layout.VALUE_OVERRUNS else pieces.value_size
        cut = CutRecord(feed.taken, key_size, -1 if value_size is None else value_size, 0, texts, again)
        return memoryview(small), count, status, cut

    def _end(self, stream: Decompressor, rest: int) -> None:
        problem = stream.problem
        if problem is not None:
            self.problem = WrapperProblem(layout.R_MORE, codec=problem)
        elif rest:
            self.problem = WrapperProblem(
                NOT_A_WRAPPER, why=f"{rest} bytes of an unfinished message are at the end of the wrapper"
            )

    def _uncompressed(self, count: int) -> int:
        """How many of the rows come before one that is compressed itself."""
        for i in range(count):
            if self._rows[i * layout.RECORD_WIDTH + layout.R_ATTRIBUTES] & layout.CODEC_MASK:
                return i
        return count


def _whole_size(buffer: memoryview, at: int, held: int) -> int:
    """How many bytes the message at a place has, as it says; 0 where not even its size is there."""
    if held - at < layout.LOG_OVERHEAD:
        return 0
    size = int.from_bytes(buffer[at + layout.SIZE_AT : at + layout.LOG_OVERHEAD], "big", signed=True)
    return layout.LOG_OVERHEAD + max(0, size)


def _fill_valid(view: memoryview, rows: array[int], count: int) -> None:
    """Compare the CRC of each message with the one it carries."""
    width = layout.RECORD_WIDTH
    for i in range(0, count * width, width):
        start, end = rows[i + layout.R_AT] + layout.MAGIC_AT, rows[i + layout.R_END]
        if crc32(view[start:end]) == rows[i + layout.R_CRC]:
            rows[i + layout.R_FLAGS] |= layout.CRC_HOLDS
