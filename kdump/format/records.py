"""The records of a window's batches, decompressed where needed, in chunks of columns.

One chunk is what the renderers take at once: some batches and the record rows that belong to them. Nothing here
grows with a batch: rows come `ROWS` at a time, decompressed bytes in a buffer that holds at least one record.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.format import _records, layout
from kdump.format.chunk import OVER_LIMIT, Chunk, RecordProblem
from kdump.format.kernels import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.compression import Decompressor
    from kdump.format.window import Window

ROWS = 2048  # record rows filled at once
_STREAM_SIZE = 256 * 1024  # bytes of decompressed records held at once, more only for one larger record


class RecordReader:
    """Reads the records of windows.

    Args:
        max_uncompressed: bytes that the records of one batch may have when decompressed.
        max_batch: bytes that a batch may have for its records to be read.
        kafka: read as Kafka 4.3 does: what it ignores is ignored, where it fails the batch ends.
    """

    def __init__(self, max_uncompressed: int, *, max_batch: int = layout.MAX_INT, kafka: bool = False) -> None:
        self._limit = max_uncompressed
        self._max_batch = max_batch
        self._kafka = kafka
        self._rows = array("q", bytes(8 * layout.RECORD_WIDTH)) * ROWS
        self._stream = memoryview(b"")  # made when the first compressed batch comes

    def chunks(self, window: Window) -> Iterator[Chunk]:
        """Yield every batch of the window, in order, with its records.

        Args:
            window: the batches.

        Yields:
            Chunks; the arrays and buffers of one are valid until the next is asked for.

        Source: DefaultRecordBatch.iterator, AbstractLegacyRecordBatch.iterator.
        """
        k = 0
        while k < window.count:
            if not window.whole or window.cell(k, layout.SIZE) > self._max_batch:
                problem = RecordProblem(k, OVER_LIMIT, 0)
                yield Chunk(window, window.view, k, k + 1, False, self._rows, 0, problem)
                k += 1
                continue
            end = _records.run_of_plain(window.rows, k, self._large_from(window, k))
            if end > k:
                yield from self._plain(window, k, end)
                k = end
            else:
                legacy = window.cell(k, layout.MAGIC) < layout.MAGIC_V2
                yield from (self._wrapper(window, k) if legacy else self._compressed(window, k))
                k += 1

    def _large_from(self, window: Window, first: int) -> int:
        """The first row from `first` on whose batch is too large to be read, else the number of rows."""
        if self._max_batch >= len(window.view):
            return window.count
        sizes = window.column(layout.SIZE)
        return next((k for k in range(first, window.count) if sizes[k] > self._max_batch), window.count)

    def _plain(self, window: Window, first: int, last: int) -> Iterator[Chunk]:
        """Batches [first, last), none of them compressed."""
        at = done = 0
        begun = False
        view, rows = window.view, self._rows
        while first < last:
            k, at, done, count, status = _records.read_plain(
                view, window.origin, window.rows, first, last, at, done, rows, 0, ROWS
            )
            if status == layout.R_DONE:
                yield Chunk(window, view, first, last, begun, rows, count)
                return
            if status == layout.R_FULL:
                yield Chunk(window, view, first, k + 1, begun, rows, count, done=False)
                first, begun = k, True
                continue
            count, problem = self._plain_problem(window, k, at, done, count, status)
            yield Chunk(window, view, first, k + 1, begun, rows, count, problem)
            first, at, done, begun = k + 1, 0, 0, False

    def _plain_problem(
        self, window: Window, k: int, at: int, done: int, count: int, status: int
    ) -> tuple[int, RecordProblem | None]:
        """What a status of the kernel means here: how many rows stand, and the problem if it is one."""
        if window.cell(k, layout.MAGIC) < layout.MAGIC_V2:
            if self._kafka and status != layout.R_NO_MESSAGE:
                return count, None  # Kafka notices only when it prints the value
            return count - (status == layout.R_VALUE_LENGTH), RecordProblem(k, status, 0)
        if self._kafka and status == layout.R_LEFT_OVER:
            count -= 1  # Kafka looks at the end before it hands out the last record
        start = window.cell(k, layout.POSITION) - window.origin
        rest = start + window.cell(k, layout.SIZE) - at
        return count, RecordProblem(
            k, status, done, at - start - layout.RECORDS_AT, _length(window.view, at, rest), rest
        )

    def _compressed(self, window: Window, k: int) -> Iterator[Chunk]:
        """One compressed batch of magic 2: for Kafka all of its records, or none.

        Source: DefaultRecordBatch.iterator decompresses the whole batch before it hands out the first record.
        """
        chunks = self._streamed(window, k)
        if not self._kafka:
            yield from chunks
            return
        first = next(chunks)
        if first.done and first.problem is None:
            yield first
            return
        problem = first.problem or next((chunk.problem for chunk in chunks if chunk.problem is not None), None)
        if problem is not None:
            yield Chunk(window, window.view, k, k + 1, False, self._rows, 0, problem)
        else:
            yield from self._streamed(window, k)

    def _streamed(self, window: Window, k: int) -> Iterator[Chunk]:
        """One compressed batch of magic 2, as far as it can be read."""
        start = window.cell(k, layout.POSITION) - window.origin
        data = window.view[start + layout.RECORDS_AT : start + window.cell(k, layout.SIZE)]
        codec = window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK
        if window.cell(k, layout.COUNT) == 0 or codec > layout.CODEC_ZSTD:  # nothing to read, or no way to
            yield Chunk(window, window.view, k, k + 1, False, self._rows, 0)
            return
        from kdump.format.compression import Decompressor

        stream = Decompressor(codec, data, layout.MAGIC_V2, self._limit, kafka=self._kafka)
        if not self._stream:
            self._stream = memoryview(bytearray(_STREAM_SIZE))
        begun = False
        held = at = done = dropped = 0
        ended = False
        while True:
            while held < len(self._stream) and not ended:
                got = stream.read_into(self._stream[held:])
                held += got
                ended = got == 0
            at, done, count, status = _records.read_stream(
                self._stream, at, held, window.rows, k, done, self._rows, ROWS
            )
            if status == layout.R_DONE and not ended:
                ended = stream.read_into(self._stream[:1]) == 0
                status = layout.R_DONE if ended else layout.R_LEFT_OVER
            if status == layout.R_FULL or (status == layout.R_MORE and not ended):
                if count:
                    yield Chunk(window, self._stream, k, k + 1, begun, self._rows, count, done=False)
                    begun = True
                if status == layout.R_MORE:
                    dropped += at
                    held, at = self._shift(at, held), 0
                continue
            length = _length(self._stream, at, held - at)
            problem = self._stream_problem(stream, RecordProblem(k, status, done, dropped + at, length, held - at))
            yield Chunk(window, self._stream, k, k + 1, begun, self._rows, count, problem)
            return

    def _shift(self, at: int, held: int) -> int:
        """Move what is not read yet to the front of the buffer; enlarge it when one record fills it."""
        rest = held - at
        target = self._stream
        if rest > len(target) // 2:
            target = memoryview(bytearray(2 * len(target)))
        target[:rest] = bytes(self._stream[at:held])
        self._stream = target
        return rest

    def _stream_problem(self, stream: Decompressor, problem: RecordProblem) -> RecordProblem | None:
        """What ended the records: the compressed stream or the records themselves; None when all is well."""
        codec = stream.problem
        if problem.status == layout.R_DONE:
            if codec is None or (self._kafka and not (codec.fatal or stream.trailing_error)):
                return None
            return problem.replace(codec=codec)
        if codec is not None and problem.status == layout.R_MORE:
            return problem.replace(codec=codec)
        return problem

    def _wrapper(self, window: Window, k: int) -> Iterator[Chunk]:
        """One compressed wrapper of magic 0 or 1 with its inner messages."""
        from kdump.format.legacy import InnerMessages

        inner = InnerMessages(window, k, self._limit, self._rows, kafka=self._kafka)
        begun = False
        for view, count in inner.chunks():
            yield Chunk(window, view, k, k + 1, begun, self._rows, count, done=False)
            begun = True
        problem = inner.problem
        if problem is not None or not begun:
            left = (
                RecordProblem(k, problem.status, inner.done, codec=problem.codec, why=problem.why) if problem else None
            )
            yield Chunk(window, window.view, k, k + 1, begun, self._rows, 0, left)


def _length(view: memoryview, at: int, rest: int) -> int | None:
    """The length that a record which could not be read says, where it is a number at all."""
    after = wire.varint_end(view, at, at + rest, wire.WIDEST_INT)
    return wire.varint(view, at, after) if after > at else None


def headers(view: memoryview, row: array[int]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield key and value of each header of a record that the kernel has read; arguments as `header_places`."""
    for key_at, key_size, at, size in header_places(view, row):
        yield bytes(view[key_at : key_at + key_size]), _field(view, at, size)


def header_places(view: memoryview, row: array[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield place and size (bytes) of key and value of each header of a record that the kernel has read.

    Args:
        view: the buffer of its chunk.
        row: its RECORD_WIDTH values.
    """
    at, end = row[layout.R_HEADERS_AT], row[layout.R_END]
    for _ in range(row[layout.R_HEADER_COUNT]):
        key_at = wire.after_varint(view, at, end)
        key_size = max(0, wire.size_within(view, at, key_at, end))
        after = key_at + key_size
        at = wire.after_varint(view, after, end)
        size = wire.size_within(view, after, at, end)
        yield key_at, key_size, at, size
        at += max(0, size)


def key_and_value(view: memoryview, row: array[int]) -> tuple[bytes | None, bytes | None]:
    """Return key and value of a record that the kernel has read, None for null.

    Args:
        view: the buffer of its chunk.
        row: its RECORD_WIDTH values.
    """
    return (
        _field(view, row[layout.R_KEY_AT], row[layout.R_KEY_SIZE]),
        _field(view, row[layout.R_VALUE_AT], row[layout.R_VALUE_SIZE]),
    )


def _field(view: memoryview, at: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(view[at : at + size])
