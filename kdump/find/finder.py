"""`find-offset` and `find-time`: a broker's answer, and the data's beside it where something on the way is wrong.

Decisions: the offset of an answer is that of the first record at or after the one that was asked for, in the batch
that a broker would send; a batch may end before such a record, after compaction: then it is null and a consumer reads
on. With `--scan` the data answers, and a broker's other answer is the finding.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kdump.broker.found import NO_TIMESTAMP, Batch, Found, Refused, find_record
from kdump.broker.lookup import Lookup
from kdump.find.query import Ask
from kdump.find.way import Way
from kdump.finding import Code, Finding, Severity
from kdump.format import layout
from kdump.format.chunk import Chunk
from kdump.format.records import RecordReader
from kdump.item import Location
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.find.datamap import DataMap
    from kdump.find.query import Query
    from kdump.log.partition import Partition


class Limits(Value):
    """How much is read of one batch, bytes: compressed, and uncompressed."""

    max_batch_bytes: int
    max_uncompressed_bytes: int


class Finder:
    """Answers questions about one partition.

    Args:
        partition: its segments.
        limits: what is read of a batch.
        scan: the data answers, not a broker.
        times: some questions are about time.
    """

    def __init__(self, partition: Partition, limits: Limits, *, scan: bool, times: bool) -> None:
        self._partition = partition
        self._scan = scan
        self._found: list[Finding] = []
        self._damaged: set[tuple[str, int | None]] = set()
        self._batch: tuple[int, int] | None = None  # segment and position of the last answer
        unpacked, packed = limits.max_uncompressed_bytes, limits.max_batch_bytes
        self._way = Way(partition, self._report)
        self._lookup = Lookup(partition, unpacked, packed, self._way.passed)
        self._limits = limits
        self._times = times
        self._reader = RecordReader(unpacked, max_batch=packed)

    def answers(self, queries: Iterable[Query]) -> Iterator[Location | Finding]:
        """Yield one location for each question, in order, each after the findings that were met for it.

        Reports: X04, X05, X07, T02-T04, L13 and those of the checked walk.
        """
        for query in queries:
            answer = self._answer(query)
            yield from self._found
            self._found.clear()
            yield answer

    def _report(self, finding: Finding) -> None:
        if finding.severity is not Severity.NOTE:  # what only compaction explains is no news here
            self._found.append(finding)
            if finding.code is not Code.L13:
                self._damaged.add((finding.file, finding.position))

    def _answer(self, query: Query) -> Location:
        self._way.start()
        self._batch = None
        broker = self._by_broker(query)
        if not (self._scan or self._way.is_odd or (self._way.by_file_time and broker.error is not None)):
            return broker
        batch, self._batch = self._batch, None
        data = self._by_data(query)
        if not self._scan:
            self._batch = batch
        self._way.settle(self._data, self._damaged)
        if not _same(broker, data):
            self._report(self._differ(query, broker, data))
        return data if self._scan else broker

    def record(self, location: Location) -> Chunk | None:
        """Return the record of an answer as a chunk of its own, without the batch; None when there is none.

        Args:
            location: the last answer.
        """
        width = layout.RECORD_WIDTH
        batch = self._lookup.batch_at(*self._batch) if self._batch is not None else None
        if not isinstance(batch, Batch) or location.offset is None:
            return None
        for chunk in self._reader.chunks(batch.window):
            for at in range(0, chunk.filled * width, width):
                if chunk.rows[at + layout.R_OFFSET] == location.offset:
                    return Chunk(batch.window, chunk.view, 0, 1, True, chunk.rows[at : at + width], 1)
        return None

    def context(self, count: int) -> Iterator[Chunk]:
        """Yield the batches around that of the last answer, as the segment has them, whatever their CRC.

        Args:
            count: batches before it, and after it.
        """
        if self._batch is None:
            return
        for window in self._data.around(*self._batch, count):
            yield Chunk(window, window.view, 0, 1, False, window.rows, 0)

    @cached_property
    def _data(self) -> DataMap:
        from kdump.find.datamap import DataMap  # the walk over damage: most questions do not need it

        unpacked, packed = self._limits.max_uncompressed_bytes, self._limits.max_batch_bytes
        return DataMap(self._partition, self._report, unpacked, packed, times=self._times)

    # --- a broker -------------------------------------------------------------------------------------------
    def _by_broker(self, query: Query) -> Location:
        if query.ask is Ask.OFFSET:
            return self._read(query)
        if query.ask is Ask.EARLIEST:
            return self._of(query, self._lookup.earliest())
        if query.ask is Ask.LATEST:
            answer = self._of(query, self._lookup.latest())
            self._way.check_end(self._lookup)
            return answer
        if query.ask is Ask.MAX:
            answer = self._of(query, self._lookup.max_timestamp())
            self._way.check_max(nothing=answer.error is not None)
            return answer
        answer = self._of(query, self._lookup.time(query.number))
        self._way.check_time(self._lookup, query.number, nothing=answer.error is not None)
        return answer

    def _read(self, query: Query) -> Location:
        found = self._lookup.read(query.number)
        if isinstance(found, Batch):
            answer = self._in_batch(query, found)  # now: the next lookup takes its buffer
            self._way.check_offset(self._lookup, query.number, found)
            return answer
        self._way.check_offset(self._lookup, query.number, found)
        end = self._lookup.end_offset()
        if isinstance(end, int) and query.number >= end:
            return Location(query.text, error=_past_end(query.number, end))
        if query.number < self._partition.start_offset:
            return Location(query.text, error=_before_start(query.number, self._partition.start_offset))
        if isinstance(found, Refused):
            return Location(query.text, error=f"a broker fails here: {found.exception}")
        why = f"nothing is at or after offset {query.number:,}: a broker answers with no records"
        return Location(query.text, error=why)

    def _in_batch(self, query: Query, batch: Batch) -> Location:
        record = find_record(self._reader, batch, lambda _time, at: at >= query.number)
        epoch = batch.cell(layout.LEADER_EPOCH)
        found = (record.timestamp, record.offset) if isinstance(record, Found) else (None, None)
        return self._place(query, batch, found[1], found[0], epoch if epoch >= 0 else None)

    def _of(self, query: Query, found: Found | Refused | None) -> Location:
        if isinstance(found, Refused):
            return Location(query.text, error=f"a broker fails here: {found.exception}")
        if found is None:
            return Location(query.text, error=_no_time(query))
        if found.batch is None:
            return Location(query.text, found.offset, found.timestamp, found.epoch)
        return self._place(query, found.batch, found.offset, found.timestamp, found.epoch)

    def _place(
        self, query: Query, batch: Batch, offset: int | None, timestamp: int | None, epoch: int | None
    ) -> Location:
        base = batch.cell(layout.BASE_OFFSET)
        if base < 0 and batch.cell(layout.MAGIC) < layout.MAGIC_V2:
            first = find_record(self._reader, batch, lambda _time, _at: True)
            base = first.offset if isinstance(first, Found) else batch.cell(layout.LAST_OFFSET)
        path = self._partition.segment(batch.segment).path
        self._batch = (batch.segment, batch.cell(layout.POSITION))
        last = batch.cell(layout.LAST_OFFSET)
        return Location(query.text, offset, timestamp, epoch, path, batch.cell(layout.POSITION), base, last)

    # --- the data -------------------------------------------------------------------------------------------
    def _by_data(self, query: Query) -> Location:
        if query.ask is Ask.OFFSET:
            return self._data_read(query)
        if query.ask is Ask.EARLIEST:
            return self._of(query, self._lookup.earliest())
        if query.ask is Ask.LATEST:
            broker = self._lookup.latest()
            epoch = broker.epoch if isinstance(broker, Found) else None
            return self._of(query, Found(NO_TIMESTAMP, self._data.end_offset(), epoch))
        return self._of(query, self._data.max_timestamp() if query.ask is Ask.MAX else self._data.time(query.number))

    def _data_read(self, query: Query) -> Location:
        start = self._partition.start_offset
        if query.number < start:
            return Location(query.text, error=_before_start(query.number, start))
        batch = self._data.offset(query.number)
        if batch is None:
            return Location(query.text, error=_past_end(query.number, self._data.end_offset()))
        return self._in_batch(query, batch)

    def _differ(self, query: Query, broker: Location, data: Location) -> Finding:
        place = broker if broker.file is not None else data
        return Finding(
            Code.L13,
            place.file or self._partition.path,
            place.position,
            None if place.position is None else 0,
            field="position" if query.ask is Ask.OFFSET else "offset",
            found=_number(query, broker),
            expected=_number(query, data),
            values={"query": query.text.strip(), "broker": broker.answer, "data": data.answer},
            severity_override=None if self._damaged else Severity.WARNING,
        )


def _number(query: Query, location: Location) -> int | None:
    return location.position if query.ask is Ask.OFFSET else location.offset


def _same(one: Location, other: Location) -> bool:
    """Whether two answers are the same place: what a sentence says of nothing may differ."""
    if one.error is not None or other.error is not None:
        return (one.error is None) == (other.error is None)
    return (one.offset, one.file, one.position) == (other.offset, other.file, other.position)


def _past_end(offset: int, end: int) -> str:
    if offset == end:
        return f"offset {offset:,} is the end of the log: the next record gets it"
    return f"offset {offset:,} is past the end: the log ends at {end:,}"


def _before_start(offset: int, start: int) -> str:
    return f"offset {offset:,} is before the start: the log begins at {start:,}"


def _no_time(query: Query) -> str:
    if query.ask is Ask.MAX:
        return "no record has a timestamp"
    return f"no record is at or after {query.text.strip()}"
