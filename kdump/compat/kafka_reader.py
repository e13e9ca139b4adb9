"""Records as Kafka reads them: it ignores what Kafka ignores, and ends a batch where Kafka throws.

What is sound is read by the kernels alone. Only where something is odd, the batch is read once more through the models
of Java's streams, which say whether Kafka throws, and what. Most runs never need them, so they are imported late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.batch import layout
from kdump.format.codec.base import CodecProblem, CompressionType, PieceReader
from kdump.format.java_values import MAX_DECOMPRESSED
from kdump.format.record.chunk import NOT_A_WRAPPER, OVER_LIMIT, Chunk, RecordProblem
from kdump.format.record.reader import ROWS, RecordReader, section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.kafka_legacy import OpenStream
    from kdump.compat.kafka_stream import JavaStream, Thrown
    from kdump.format.batch.window import Window
    from kdump.format.codec.base import DecodedStream


class KafkaRecordReader(RecordReader):
    """Reads the records of windows; `RecordProblem.java` says what Kafka throws.

    Args:
        max_uncompressed: bytes that the records of one batch may have when decompressed.
        max_batch: bytes that a batch may have for its records to be read.
        heap: bytes that Java may have: a single array that needs more is an OutOfMemoryError; None for the most that an
            array can have.
        cut: see RecordReader; what Kafka throws at is held whole all the same.
        metadata: the sizes of key and value are wanted of each record; else a message of magic 0 or 1 whose sizes
            cannot be read is a row without key, for Java notices only when it wants them.
        streams: the records are read as the cleaner reads them: one by one, so that those before a broken one are
            there, and the stream of an empty batch is opened too.
        max_record: bytes that a record of a compressed batch may claim, from 4.4 on; None for releases before.
    """

    _plain_is_cut = False

    def __init__(
        self,
        max_uncompressed: int,
        *,
        max_batch: int = layout.MAX_INT,
        cut: int | None = None,
        heap: int | None = None,
        metadata: bool = True,
        streams: bool = False,
        max_record: int | None = None,
    ) -> None:
        super().__init__(max_uncompressed, max_batch=max_batch, cut=cut)
        self._given_heap = heap
        self._metadata = metadata
        self._streams = streams
        self._max_record = max_record

    @property
    def _heap(self) -> int:
        from kdump.compat.kafka_stream import MAX_ARRAY

        return MAX_ARRAY if self._given_heap is None else self._given_heap

    def _not_read(self, window: Window, k: int) -> RecordProblem:
        from kdump.compat.kafka_record import OUT_OF_BOUNDS
        from kdump.compat.kafka_stream import HEAP_SPACE

        too_short = window.cell(k, layout.SIZE) < layout.RECORDS_AT
        return RecordProblem(k, OVER_LIMIT, 0, java=OUT_OF_BOUNDS if too_short else HEAP_SPACE)

    def _plain_problem(
        self, window: Window, k: int, at: int, done: int, count: int, status: int
    ) -> tuple[int, RecordProblem | None]:
        from kdump.compat.kafka_record import buffer_exception
        from kdump.compat.kafka_stream import LEFT_OVER
        from kdump.format.java_values import INVALID

        start = window.cell(k, layout.POSITION) - window.origin
        end = start + window.cell(k, layout.SIZE)
        if window.cell(k, layout.MAGIC) < layout.MAGIC_V2:
            return self._message_problem(window.view[start:end], k, count, status)
        if status == layout.R_COUNT_NEGATIVE:
            number = window.cell(k, layout.COUNT)
            java = f"{INVALID}: Found invalid record count {number} in magic v{window.cell(k, layout.MAGIC)} batch"
        elif status == layout.R_LEFT_OVER:
            count, java = count - 1, LEFT_OVER  # Kafka looks at the end before it hands out the last record
        else:
            java = buffer_exception(window.view[at:end])
        return count, RecordProblem(k, status, done, java=java)

    def _message_problem(self, data: memoryview, k: int, count: int, status: int) -> tuple[int, RecordProblem | None]:
        if status != layout.R_NO_MESSAGE:
            return count, None  # Kafka notices only when it prints the value
        from kdump.compat.kafka_legacy import LegacyMessage

        at = count * layout.RECORD_WIDTH
        row = self._rows[at : at + layout.RECORD_WIDTH]
        java = LegacyMessage(data).fill(row)
        if java is not None and self._metadata:
            return count, RecordProblem(k, status, 0, java=java)
        self._rows[at : at + layout.RECORD_WIDTH] = row
        return count + 1, None

    def _compressed(self, window: Window, k: int) -> Iterator[Chunk]:
        """One compressed batch of magic 2: all of its records, or none; but those before a broken one in a stream.

        Source: DefaultRecordBatch.iterator decompresses the whole batch before it hands out the first record;
        streamingIterator does not, and asks for the codec of an empty batch.
        """
        codec = window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK
        is_empty = window.cell(k, layout.COUNT) == 0
        if codec > layout.CODEC_ZSTD and (self._streams or not is_empty):
            from kdump.compat.kafka_legacy import unknown_codec

            problem = RecordProblem(k, layout.R_BODY, 0, java=unknown_codec(codec))
            yield Chunk(window, window.view, k, last=k + 1, begun=False, rows=self._rows, filled=0, problem=problem)
            return
        if is_empty and self._streams:
            yield from self._by_model(window, k)
            return
        checked = super()._compressed
        left: RecordProblem | None = None
        for read in (self._by_model,) if self._is_bounded else (checked, self._by_model):
            chunks = read(window, k)
            first = next(chunks)
            left = first.problem or next((chunk.problem for chunk in chunks if chunk.problem is not None), None)
            if left is None:
                only = [first] if first.done else None
                del first, chunks  # with what their codec holds
                yield from only or read(window, k)
                return
        if self._streams:
            yield from self._by_model(window, k)
        else:
            yield Chunk(window, window.view, k, last=k + 1, begun=False, rows=self._rows, filled=0, problem=left)

    @property
    def _is_bounded(self) -> bool:
        """Whether a sound record may be larger than the release reads."""
        return self._max_record is not None and self._max_record < MAX_DECOMPRESSED

    def _by_model(self, window: Window, k: int) -> Iterator[Chunk]:
        codec, data = section(window, k)
        magic, count = window.cell(k, layout.MAGIC), window.cell(k, layout.COUNT)
        stream = self._opener(magic)
        from kdump.compat.kafka_stream import ArrayRoom, read_records

        room = ArrayRoom(self._heap, self._max_record, looks_ahead=self._streams)
        records = read_records(
            lambda: stream(CompressionType(codec), data, layout.RECORDS_AT), magic, count, self._limit, room
        )
        return self._streamed(window, k, lambda: _RecordStream(records), self._limit, None)

    def _opener(self, magic: int) -> OpenStream:
        return lambda codec, data, before: open_as_kafka(codec, data, magic, before, self._limit, self._heap)

    def _stream_problem(self, stream: DecodedStream, problem: RecordProblem, rest: memoryview) -> RecordProblem | None:
        if not isinstance(stream, _RecordStream):
            return super()._stream_problem(stream, problem, rest)
        if rest:  # the stream gives whole records: this one cannot be read
            from kdump.compat.kafka_record import stream_exception

            return problem.replace(java=stream_exception(rest))
        thrown = stream.ending
        return None if thrown is None else _problem(problem, thrown)

    def _wrapper(self, window: Window, k: int) -> Iterator[Chunk]:
        """One compressed message of magic 0 or 1 with the messages inside."""
        from kdump.compat.kafka_legacy import DeepMessages
        from kdump.compat.kafka_stream import ArrayRoom

        sound = not self._is_bounded
        if sound and all(chunk.problem is None and _has_known_magics(chunk) for chunk in super()._wrapper(window, k)):
            yield from super()._wrapper(window, k)
            return
        start = window.cell(k, layout.POSITION) - window.origin
        data = window.view[start : start + window.cell(k, layout.SIZE)]
        stream = self._opener(window.cell(k, layout.MAGIC))
        room = ArrayRoom(self._heap, self._max_record)
        deep = DeepMessages(data, k, stream, self._limit, room, metadata=self._metadata)
        filled = len(deep.rows) // layout.RECORD_WIDTH
        problem = RecordProblem(k, NOT_A_WRAPPER, filled)
        left = None if deep.thrown is None else _problem(problem, deep.thrown)
        view, rows = (deep.view, deep.rows) if filled else (window.view, self._rows)
        at, width = 0, layout.RECORD_WIDTH
        while filled - at > ROWS:
            part = rows[at * width : (at + ROWS) * width]
            yield Chunk(window, view, k, last=k + 1, begun=at > 0, rows=part, filled=ROWS, done=False)
            at += ROWS
        yield Chunk(
            window,
            view,
            k,
            last=k + 1,
            begun=at > 0,
            rows=rows[at * width :] if at else rows,
            filled=filled - at,
            problem=left,
        )


def open_as_kafka(
    codec: CompressionType, data: memoryview, magic: int, before: int, limit: int, heap: int
) -> JavaStream:
    """Return the decompressing stream of Kafka.

    Args:
        codec: not NONE.
        data: the section.
        magic: of the batch.
        before: bytes of the batch before the section, which Kafka's messages about lz4 count in.
        limit: bytes that one block may claim at most.
        heap: bytes that Java may have.

    Raises:
        JavaError: what its Java constructor throws.
    """
    from kdump.compat import java_streams

    if codec is CompressionType.ZSTD:
        return java_streams.ZstdInput(data)
    if codec is CompressionType.LZ4:
        return java_streams.Lz4Input(data, magic, before)
    if codec is CompressionType.SNAPPY:
        return java_streams.SnappyInput(data, limit, heap)
    return java_streams.GzipInput(data)


class _RecordStream(PieceReader["Thrown | None"]):
    """The bytes of the records that Kafka reads before it throws, or all."""

    problem: CodecProblem | None = None


def _problem(problem: RecordProblem, thrown: Thrown) -> RecordProblem:
    limit = CodecProblem(Code.C03, thrown.text, fatal=True) if thrown.code is Code.C03 else None
    return problem.replace(java=thrown.text, codec=limit)


def _has_known_magics(chunk: Chunk) -> bool:
    """Whether the kernel reads the messages of a chunk as Kafka does, which takes any magic but 0 for 1."""
    starts = chunk.rows[layout.R_AT : chunk.filled * layout.RECORD_WIDTH : layout.RECORD_WIDTH]
    return all(chunk.view[at + layout.MAGIC_AT] <= 1 for at in starts)
