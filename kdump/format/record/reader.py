"""The records of a window's batches, decompressed where needed, in chunks of columns.

One chunk is what the renderers take at once: some batches and the record rows that belong to them. Nothing here
grows with a batch: rows come `ROWS` at a time, decompressed bytes in a buffer that holds at least one record.
"""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.kernels import wire
from kdump.format.record import _records
from kdump.format.record.chunk import KEPT, LARGE, OVER_LIMIT, STREAM_SIZE, Chunk, CutRecord, RecordProblem, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol, Self

    from kdump.format.batch.window import Window
    from kdump.format.codec.base import DecodedStream
    from kdump.format.record.chunk import Event
    from kdump.format.record.cut_record import Restartable

    OpenStream = Callable[[], DecodedStream]

    class HasLimits(Protocol):
        """What is read of a batch at most: `ReadLimits`, or the options of a verb."""

        @property
        def max_uncompressed_bytes(self) -> int:
            """Bytes that the records of one batch may have when decompressed."""

        @property
        def max_batch_bytes(self) -> int:
            """Bytes that a batch may have for its records to be read."""


ROWS = 2048  # record rows filled at once


class RecordReader:
    """Reads the records of windows.

    Args:
        max_uncompressed: bytes that the records of one batch may have when decompressed.
        max_batch: bytes that a batch may have for its records to be read.
        cut: bytes that key, value and headers of a record over LARGE are cut to, for who looks at `Chunk.cut`; None to
            hold it whole.
    """

    _plain_is_cut = True  # a large record that is not compressed is cut too: else its rows point into the window

    def __init__(self, max_uncompressed: int, *, max_batch: int = layout.MAX_INT, cut: int | None = None) -> None:
        self._cut = cut
        self._limit = max_uncompressed
        self._max_batch = max_batch
        self._rows = array("q", bytes(8 * layout.RECORD_WIDTH)) * ROWS
        self._stream = memoryview(b"")  # made when the first compressed batch comes

    @classmethod
    def within(cls, limits: HasLimits) -> Self:
        """Return a reader for who looks at `Chunk.cut`; `limits`: what is read of a batch at most."""
        return cls(limits.max_uncompressed_bytes, max_batch=limits.max_batch_bytes, cut=KEPT)

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
            if not window.has_record_bytes or window.cell(k, layout.SIZE) > self._max_batch:
                yield Chunk(
                    window,
                    window.view,
                    k,
                    last=k + 1,
                    begun=False,
                    rows=self._rows,
                    filled=0,
                    problem=self._not_read(window, k),
                )
                k += 1
                continue
            end = _records.run_of_plain(window.rows, k, self._large_from(window, k))
            if end == k + 1 and self._cut is not None and window.cell(k, layout.SIZE) > LARGE and self._plain_is_cut:
                yield from self._large_plain(window, k)
                k += 1
            elif end > k:
                yield from self._plain(window, k, end)
                k = end
            else:
                legacy = window.cell(k, layout.MAGIC) < layout.MAGIC_V2
                yield from (self._wrapper(window, k) if legacy else self._compressed(window, k))
                k += 1

    def _not_read(self, _window: Window, k: int) -> RecordProblem:
        """The problem of a batch that is not held in memory."""
        return RecordProblem(k, OVER_LIMIT, 0)

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
                view,
                window.origin,
                window.rows,
                first=first,
                last=last,
                at=at,
                done=done,
                rows=rows,
                filled=0,
                capacity=ROWS,
            )
            if status == layout.R_DONE:
                yield Chunk(window, view, first, last=last, begun=begun, rows=rows, filled=count)
                return
            if status == layout.R_FULL:
                yield Chunk(window, view, first, last=k + 1, begun=begun, rows=rows, filled=count, done=False)
                first, begun = k, True
                continue
            count, problem = self._plain_problem(window, k, at, done, count, status)
            yield Chunk(window, view, first, last=k + 1, begun=begun, rows=rows, filled=count, problem=problem)
            first, at, done, begun = k + 1, 0, 0, False

    def _plain_problem(
        self, window: Window, k: int, at: int, done: int, count: int, status: int
    ) -> tuple[int, RecordProblem | None]:
        """What a status of the kernel means here: how many rows stand, and the problem if it is one."""
        if window.cell(k, layout.MAGIC) < layout.MAGIC_V2:
            return count - (status == layout.R_VALUE_LENGTH), RecordProblem(k, status, 0)
        start = window.cell(k, layout.POSITION) - window.origin
        rest = start + window.cell(k, layout.SIZE) - at
        return count, RecordProblem(
            k, status, done, at - start - layout.RECORDS_AT, _length(window.view, at, rest), rest
        )

    def _large_plain(self, window: Window, k: int) -> Iterator[Chunk]:
        """One large batch that is not compressed."""
        if window.cell(k, layout.MAGIC) < layout.MAGIC_V2:
            for chunk in self._plain(window, k, k + 1):
                yield self._cut_row(chunk) if chunk.filled else chunk
            return
        if window.cell(k, layout.COUNT) == 0:
            yield from self._plain(window, k, k + 1)
            return
        from kdump.format.record.cut_record import HeldBytes

        _, data = section(window, k)
        yield from self._streamed(window, k, lambda: HeldBytes(data), layout.MAX_INT, self._cut)

    def _cut_row(self, chunk: Chunk) -> Chunk:
        """A chunk of one large message of magic 0 or 1, which stays where it is: its row tells of the first bytes."""
        from kdump.format.record.cut_record import Texts, pieces_in

        assert self._cut is not None
        whole, view, texts = chunk.rows[: layout.RECORD_WIDTH], chunk.view, Texts()
        for _, data, left in pieces_in(view, whole):
            texts.add(data, left)
        for size in (layout.R_KEY_SIZE, layout.R_VALUE_SIZE):
            chunk.rows[size] = min(self._cut, whole[size])
        key_size, value_size = whole[layout.R_KEY_SIZE], whole[layout.R_VALUE_SIZE]
        size, again = whole[layout.R_END] - whole[layout.R_AT], partial(pieces_in, view, whole)
        cut = CutRecord(size, key_size, value_size, 0, tuple(texts.found), again)
        return chunk.replace(cut=cut)

    def _compressed(self, window: Window, k: int) -> Iterator[Chunk]:
        """One compressed batch of magic 2, as far as it can be read."""
        codec, data = section(window, k)
        if window.cell(k, layout.COUNT) == 0 or codec > layout.CODEC_ZSTD:  # nothing to read, or no way to
            yield Chunk(window, window.view, k, last=k + 1, begun=False, rows=self._rows, filled=0)
            return
        from kdump.format.codec.decompress import Decompressor

        limit = self._limit
        yield from self._streamed(
            window, k, lambda: Decompressor(codec, data, layout.MAGIC_V2, limit), limit, self._cut
        )

    def _streamed(
        self, window: Window, k: int, open_stream: OpenStream, limit: int, cut: int | None
    ) -> Iterator[Chunk]:
        """The records of one batch of magic 2 from the decoded bytes.

        Args:
            window: where the batch is.
            k: its row.
            open_stream: gives the bytes, from the first one on.
            limit: how many there may be.
            cut: see RecordReader.
        """
        if not self._stream:
            self._stream = memoryview(bytearray(STREAM_SIZE))
        stream = open_stream()
        begun = False
        held = at = done = dropped = 0
        ended = False
        while True:
            while held < len(self._stream) and not ended:
                got = stream.read_into(self._stream[held:])
                held += got
                ended = got == 0
            at, done, count, status = _records.read_stream(
                self._stream, at, held, batches=window.rows, batch=k, done=done, rows=self._rows, capacity=ROWS
            )
            if status == layout.R_DONE and not ended:
                ended = stream.read_into(self._stream[:1]) == 0
                status = layout.R_DONE if ended else layout.R_LEFT_OVER
            if status == layout.R_FULL or (status == layout.R_MORE and not ended):
                if count:
                    yield Chunk(
                        window, self._stream, k, last=k + 1, begun=begun, rows=self._rows, filled=count, done=False
                    )
                    begun = True
                if status == layout.R_MORE:
                    dropped += at
                    need = _whole_length(self._stream, at, held)
                    if dropped + need > limit and need > len(self._stream):
                        passed = _drain(stream)  # it ends behind the limit: no use to hold it
                        length = _length(self._stream, at, held - at)
                        left = RecordProblem(k, status, done, dropped, length, held - at + passed)
                        told = self._stream_problem(stream, left, self._stream[:0])
                        yield Chunk(
                            window, self._stream, k, last=k + 1, begun=begun, rows=self._rows, filled=0, problem=told
                        )
                        return
                    if cut is not None and need > LARGE:
                        from kdump.format.record.cut_record import Restartable

                        head = bytes(self._stream[at:held])
                        if not isinstance(stream, Restartable):
                            stream = Restartable(open_stream, stream, dropped + len(head))
                        chunk, size, tail = self._cut_chunk(
                            window, k, open_stream, stream=stream, head=head, before=dropped, done=done, begun=begun
                        )
                        yield chunk
                        if chunk.cut is None:
                            return
                        held, at, ended = len(tail), 0, False
                        self._stream[:held] = tail
                        begun, done, dropped = True, done + 1, dropped + size
                        continue
                    held, at = self._shift(at, held, need), 0
                continue
            length = _length(self._stream, at, held - at)
            problem = self._stream_problem(
                stream, RecordProblem(k, status, done, dropped + at, length, held - at), self._stream[at:held]
            )
            del stream  # with what its codec holds: who gets the last chunk may read the batch again
            yield Chunk(
                window, self._stream, k, last=k + 1, begun=begun, rows=self._rows, filled=count, problem=problem
            )
            return

    def _cut_chunk(
        self,
        window: Window,
        k: int,
        open_stream: OpenStream,
        stream: Restartable,
        head: bytes,
        before: int,
        done: int,
        begun: bool,
    ) -> tuple[Chunk, int, bytes]:
        """A chunk of one record that is cut, the bytes of it, and what was read behind it.

        The chunk is without `cut` where the record cannot be read: the batch ends there.

        Args:
            window: where the batch is.
            k: its row.
            open_stream: gives the bytes of the batch again, from the first one on.
            stream: the same bytes, read as far as `head` goes.
            head: the first bytes of the record.
            before: bytes before it.
            done: records before it.
            begun: an earlier chunk has had the batch.
        """
        from kdump.format.record.cut_record import CutError, Feed, RecordPieces, cut_record

        assert self._cut is not None
        feed = Feed(stream, head)
        pieces = RecordPieces(feed)
        size = _length(memoryview(head), 0, len(head)) or 0
        try:
            small, texts = cut_record(pieces, self._cut)
        except CutError as error:
            problem = RecordProblem(k, error.status, done, before, size, feed.taken + len(feed.rest))
            told = self._stream_problem(stream, problem, memoryview(b""))
            return (
                Chunk(window, window.view, k, last=k + 1, begun=begun, rows=self._rows, filled=0, problem=told),
                0,
                b"",
            )
        _, _, count, status = _records.read_stream(
            memoryview(small), 0, len(small), batches=window.rows, batch=k, done=done, rows=self._rows, capacity=1
        )
        assert count == 1, status
        if pieces.has_odd_key:
            self._rows[layout.R_FLAGS] |= layout.ODD_HEADER_KEY
            window.rows[k * layout.BATCH_WIDTH + layout.SUSPICION] |= layout.ODD_FIELDS

        def again() -> Iterator[Event]:
            stream.let_go()
            feed = Feed(open_stream())
            feed.skip(before)
            yield from RecordPieces(feed)

        state = pieces.state
        key_size, value_size = state[layout.P_KEY_SIZE], state[layout.P_VALUE_SIZE]
        cut = CutRecord(feed.taken, key_size, value_size, state[layout.P_HEADER_COUNT], texts, again)
        chunk = Chunk(
            window, memoryview(small), k, last=k + 1, begun=begun, rows=self._rows, filled=1, done=False, cut=cut
        )
        return chunk, feed.taken, feed.rest

    def _shift(self, at: int, held: int, need: int) -> int:
        """Move what is not read yet to the front of a buffer that has room for the next record."""
        self._stream = shifted(self._stream, at, held, max(need, STREAM_SIZE))
        return held - at

    def _stream_problem(self, stream: DecodedStream, problem: RecordProblem, _rest: memoryview) -> RecordProblem | None:
        """What ended the records: the compressed stream or the records themselves; None when all is well."""
        codec = stream.problem
        if codec is not None and problem.status in (layout.R_DONE, layout.R_MORE):
            return problem.replace(codec=codec)
        return None if problem.status == layout.R_DONE else problem

    def _wrapper(self, window: Window, k: int) -> Iterator[Chunk]:
        """One compressed wrapper of magic 0 or 1 with its inner messages."""
        from kdump.format.record.legacy import InnerMessages

        inner = InnerMessages(window, k, self._limit, self._rows, self._cut)
        begun = False
        for view, count, cut in inner.chunks():
            yield Chunk(window, view, k, last=k + 1, begun=begun, rows=self._rows, filled=count, done=False, cut=cut)
            begun = True
        problem = inner.problem
        if problem is not None or not begun:
            left = (
                RecordProblem(k, problem.status, inner.done, codec=problem.codec, why=problem.why) if problem else None
            )
            yield Chunk(window, window.view, k, last=k + 1, begun=begun, rows=self._rows, filled=0, problem=left)


def section(window: Window, k: int) -> tuple[int, memoryview]:
    """Return the codec bits of a batch of magic 2, and the bytes of its records."""
    start = window.cell(k, layout.POSITION) - window.origin
    data = window.view[start + layout.RECORDS_AT : start + window.cell(k, layout.SIZE)]
    return window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK, data


def _whole_length(view: memoryview, at: int, held: int) -> int:
    """How many bytes the record at a place has with its length, as far as it tells; else a few."""
    length = _length(view, at, held - at)
    return layout.LONGEST_VARINT if length is None or length < 0 else length + layout.LONGEST_VARINT


def _drain(stream: DecodedStream) -> int:
    """Read to the end what nobody wants; return how many bytes there were."""
    scratch = memoryview(bytearray(STREAM_SIZE))
    passed = 0
    while got := stream.read_into(scratch):
        passed += got
    return passed


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
    return header_places_at(view, row[layout.R_HEADERS_AT], row[layout.R_END], row[layout.R_HEADER_COUNT])


def header_places_at(view: memoryview, at: int, end: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield places and sizes like `header_places`, for `count` headers in [at, end)."""
    for _ in range(count):
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
