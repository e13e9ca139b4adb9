"""The walk of Kafka through a log: it follows every length, and stops where Kafka stops.

For `--compat` and for the model of the broker. The other walk is `kdump.format.batch.walk`; both run over the same
scan.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.format.batch import _scan, layout
from kdump.format.batch.window import Buffer, Window, crc_of_range
from kdump.format.kernels import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.source import Source


class KafkaWalk:
    """The batches of [start, end) by Kafka's rules of framing, whatever they hold.

    Args:
        source: the log.
        name: what Kafka calls the file in its messages.
        start: file position to begin at.
        end: file position where the log ends for this walk.
        max_batch_bytes: a batch over this is not held in memory: its window is not `whole`.
        buffer: to read into, of this source; None for one of its own.

    Attributes:
        failure: the Java exception that ended the walk, once `windows` is exhausted; None at a quiet end.

    Source: FileLogInputStream.nextBatch, FileChannelRecordBatch, Kafka 4.3.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        start: int,
        end: int,
        max_batch_bytes: int,
        buffer: Buffer | None = None,
    ) -> None:
        self._source = source
        self._name = name
        self._end = min(end, source.size)  # a file that was opened again may have become shorter
        self._limit = max_batch_bytes
        self._buffer = buffer or Buffer(source)
        self._border = array("q", [layout.UNKNOWN, layout.UNKNOWN])
        self.position = start  # end of the last batch
        self.failure: str | None = None

    def windows(self) -> Iterator[Window]:
        """Yield the batches in windows."""
        need = 0
        while True:
            length = self._buffer.load(self.position, need)
            origin, at = self.position, 0
            need, status = 0, layout.FULL
            while status == layout.FULL:
                window, at, status = self._scan(origin, at, length)
                if window.count:
                    yield window
                    self.position = origin + at
            if status != layout.MORE:
                window_or_none = self._odd_batch(status)
                if window_or_none is None:
                    return
                yield window_or_none
                self.position += window_or_none.cell(0, layout.SIZE)
            elif not at:
                size = wire.i32(self._buffer.view, layout.SIZE_AT) + layout.LOG_OVERHEAD
                if size > self._limit:
                    yield self._header(size, whole=False)
                    self.position += size
                else:
                    need = size

    def _scan(self, origin: int, at: int, length: int) -> tuple[Window, int, int]:
        buffer = self._buffer
        count, at, status = _scan.scan(
            buffer.view,
            length,
            at,
            origin=origin,
            end=self._end,
            segment=layout.UNKNOWN,
            rows=buffer.rows,
            capacity=buffer.capacity,
            border=self._border,
        )
        window = Window(buffer.view, origin, buffer.rows, count)
        window.fill_crcs()
        return window, at, status

    def _odd_batch(self, status: int) -> Window | None:
        """Kafka's reading of a header without a whole batch: an end, a failure, or a batch all the same."""
        if status in (layout.END, layout.PAST_END):
            return None
        size = wire.i32(self._source.read_at(self.position + layout.SIZE_AT, 4), 0)
        if status == layout.TOO_SMALL:
            self.failure = (
                "org.apache.kafka.common.errors.CorruptRecordException: Found record size "
                f"{size} smaller than minimum record overhead ({layout.MIN_SIZE_V0}) in file {self._name}."
            )
            return None
        # Shorter than its own header: Kafka reads the header from what follows.
        if self.position + layout.RECORDS_AT > self._end:
            self.failure = (
                "org.apache.kafka.common.KafkaException: Failed to load record batch at position "
                f"{self.position} from FileRecords(size={self._end}, file={self._name}, start=0, end={layout.MAX_INT})"
            )
            return None
        return self._header(size + layout.LOG_OVERHEAD, whole=False)

    def _header(self, size: int, whole: bool) -> Window:
        """One batch of which only the header is held, with its CRC."""
        self._buffer.load(self.position)
        view, rows = self._buffer.view, self._buffer.rows
        magic = int.from_bytes(view[layout.MAGIC_AT : layout.MAGIC_AT + 1], "big", signed=True)
        _scan.header_row(view, 0, self.position, size, magic, rows)
        covered = layout.ATTRIBUTES_AT if magic >= layout.MAGIC_V2 else layout.MAGIC_AT
        if size >= layout.RECORDS_AT:
            rows[layout.COMPUTED_CRC] = crc_of_range(self._source, self.position + covered, self.position + size, magic)
        return Window(view, self.position, rows, 1, whole)
