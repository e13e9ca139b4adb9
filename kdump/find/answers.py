"""The answers of find: a batch and its records, or a sentence why nothing was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.lookup_results import FoundBatch, FoundRecord, Refused, find_record
from kdump.find.query import Ask
from kdump.format.batch import layout
from kdump.format.record.chunk import KEPT, Chunk
from kdump.format.record.reader import RecordReader
from kdump.format.record.record_checks import RecordChecks
from kdump.rows.lookup import LookupAnswer, NoAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.find.query import Query
    from kdump.finding import Report
    from kdump.storage.partition_dir import PartitionDir


class Sentences:
    """Words why there is no answer.

    Args:
        separators: numbers get thousands separators: a person reads them.
    """

    def __init__(self, *, separators: bool) -> None:
        self._number = "{:,}".format if separators else str

    def past_end(self, offset: int, end: int) -> str:
        """The offset is the end of the log, or beyond."""
        if offset == end:
            return f"offset {self._number(offset)} is the end of the log: the next record gets it"
        return f"offset {self._number(offset)} is past the end: the log ends at {self._number(end)}"

    def past_taken(self, offset: int, taken: int, end: int) -> str:
        """The offset is beyond what a broker takes for the end of the log; the data goes on.

        Args:
            offset: that was asked for.
            taken: the end that a broker takes.
            end: the one by the data.
        """
        what = "is the end of the log for a broker" if offset == taken else "is past the end"
        said = f"offset {self._number(offset)} {what}"
        said += "" if offset == taken else f": a broker takes the log to end at {self._number(taken)}"
        return f"{said}, and the data ends at {self._number(end)}"

    def lacking(self, said: str, gone: Sequence[tuple[int, int]]) -> str:
        """Return a sentence about the end of the log, with what the log lacks there.

        Args:
            said: the sentence.
            gone: first and last offset of each range.
        """
        return f"{said}; the log lacks {self._ranges(gone)}"

    def _ranges(self, gone: Sequence[tuple[int, int]]) -> str:
        shown = (self._number(first) + (f"..{self._number(last)}" if last > first else "") for first, last in gone)
        is_one = len(gone) == 1 and gone[0][0] == gone[0][1]
        return f"{'offset' if is_one else 'offsets'} {' and '.join(shown)}"

    def before_start(self, offset: int, start: int, *, is_here: bool) -> str:
        """The offset is below the log start offset.

        Args:
            offset: that was asked for.
            start: the log start offset.
            is_here: its record lies in the log still, intact.
        """
        said = f"offset {self._number(offset)} is before the start: the log begins at {self._number(start)}"
        here = "its record is here still, below the start: no consumer gets it, and a broker removes its segment"
        return f"{said}; {here}" if is_here else said

    def no_batch(self, offset: int) -> str:
        """The offset is inside the log, and a broker finds nothing."""
        return f"nothing is at or after offset {self._number(offset)}: a broker answers with no records"

    def refused(self, refused: Refused, path: str) -> str:
        """A broker throws, or the records that say more were not read.

        Args:
            refused: which of them.
            path: of the log that its place is in.
        """
        if refused.limit and refused.place is not None:
            at = self._number(refused.place[1])
            return f"not known: the records of the batch at byte {at} of {path} were not all read ({refused.limit})"
        return f"a broker fails here: {refused.exception}"

    def no_time(self, query: Query, gone: Sequence[tuple[int, int]] = ()) -> str:
        """No record is late enough, or none has a timestamp.

        Args:
            query: about a time, or the largest one.
            gone: first and last offset of each range that the log lacks.
        """
        here = " here" if gone else ""
        if query.ask is Ask.MAX:
            said, may = f"no record{here} has a timestamp", "may have one"
        else:
            said, may = f"no record{here} is at or after {query.text.strip()}", "may be"
        return f"{said}; the log lacks {self._ranges(gone)}, whose records {may}" if gone else said

    def no_named(self, timestamp: int, index: str) -> str:
        """A broker does not find what a time index names as the largest timestamp.

        Args:
            timestamp: ms since the epoch.
            index: path of the time index.
        """
        return f"a broker finds no record with the timestamp {timestamp}, which {index} names as the largest"

    def broker_only(self, query: Query, reason: str) -> str:
        """A broker finds no record, and the data has one.

        Args:
            query: about a time, or the largest one.
            reason: why the broker does not; empty where findings say why.
        """
        what = "a broker finds no record"
        if query.ask is not Ask.MAX:
            what += f" at or after {query.text.strip()}"
        return f"{what}: {reason}" if reason else what


_BY_KERNEL = layout.TIMES_VARY | layout.ODD_ORDER | layout.ODD_FIELDS


class BatchRecords:
    """Reads records as far as they can be read, and judges all of those of a batch whichever is wanted.

    Args:
        partition: its segments.
        max_uncompressed_bytes, max_batch_bytes: limits.
        report: takes the findings.

    Reports: those of `RecordChecks`.
    """

    def __init__(
        self, partition: PartitionDir, max_uncompressed_bytes: int, max_batch_bytes: int, report: Report
    ) -> None:
        self._partition = partition
        self._reader = RecordReader(max_uncompressed_bytes, max_batch=max_batch_bytes, cut=KEPT)
        self._report = report
        self._checks = RecordChecks("")

    def find(self, batch: FoundBatch, wanted: Callable[[int, int], bool]) -> FoundRecord | Refused | None:
        """Return the first record of a batch that is wanted; Refused where its records end early before that.

        Args:
            batch: the batch.
            wanted: decides by timestamp (ms) and offset (absolute).
        """
        rows = batch.window.rows  # what the kernel has noted of it: it may have been read before
        rows[layout.SEEN_MAX_TIMESTAMP], rows[layout.SEEN_DELTA] = layout.UNKNOWN, -1
        rows[layout.SUSPICION] &= ~_BY_KERNEL
        if not batch.window.has_record_bytes and batch.cell(layout.SIZE) < layout.RECORDS_AT:
            # no batch at all: the walk tells so
            return find_record(self._reader, batch, wanted)
        self._checks = RecordChecks(self._partition.segment(batch.segment).path)
        return find_record(self._reader, batch, wanted, self._judge)

    def judge(self, batch: FoundBatch) -> None:
        """Report what is wrong with the records of a batch."""
        self.find(batch, lambda _time, _at: False)

    def first_offset(self, batch: FoundBatch) -> FoundRecord | Refused | None:
        """Return the first record of a batch."""
        return find_record(self._reader, batch, lambda _time, _at: True)

    def record(self, batch: FoundBatch, offset: int) -> Chunk | None:
        """Return the record with an offset as a chunk of its own, without the batch; None when there is none."""
        width = layout.RECORD_WIDTH
        for chunk in self._reader.chunks(batch.window):
            for at in range(0, chunk.filled * width, width):
                if chunk.rows[at + layout.R_OFFSET] == offset:
                    row = chunk.rows[at : at + width]
                    return Chunk(batch.window, chunk.view, 0, last=1, begun=True, rows=row, filled=1, cut=chunk.cut)
        return None

    def _judge(self, chunk: Chunk) -> None:
        for finding in self._checks.check(chunk):
            self._report(finding)


class Answers:
    """Makes the answers of one partition, and has the records judged that they depend on.

    Args:
        partition: its segments.
        inside: judges records.
        sentences: say why there is no answer.
        batch_at: reads a batch again: number of the segment, position.

    Attributes:
        batch: segment and position of the batch of the latest answer, None for none.
        limited: records that were not read may have the answer to the question.
        is_failure: a broker throws instead of an answer.
    """

    def __init__(
        self,
        partition: PartitionDir,
        inside: BatchRecords,
        sentences: Sentences,
        batch_at: Callable[[int, int], FoundBatch | Refused | None],
    ) -> None:
        self._partition = partition
        self._inside = inside
        self._sentences = sentences
        self._batch_at = batch_at
        self.batch: tuple[int, int] | None = None
        self.limited = self.is_failure = False

    def start(self) -> None:
        """Another question begins."""
        self.batch = None
        self.limited = self.is_failure = False

    def record(
        self, query: Query, found: FoundRecord | Refused | None, nothing: LookupAnswer | None = None
    ) -> LookupAnswer:
        """Return a record, or an end of the log, as the answer.

        Args:
            query: the question.
            found: the record; what is needed of its batch is read now, the next lookup takes its buffer.
            nothing: the answer for None; None: no record is late enough.
        """
        if found is None:
            return self.no_time(query) if nothing is None else nothing
        if isinstance(found, Refused):
            return self.refused(query, found)
        if found.batch is None:
            return LookupAnswer(query.text, found.offset, found.timestamp, found.epoch)
        self._inside.judge(found.batch)
        return self._place(query, found.batch, found.offset, found.timestamp)

    def no_time(self, query: Query) -> LookupAnswer:
        """Return that no record is late enough, or none has a timestamp."""
        return LookupAnswer(query.text, error=self._sentences.no_time(query), no_answer=NoAnswer.NO_TIME)

    def past_end(self, query: Query, end: int) -> LookupAnswer:
        """Return that an offset is the end of the log, or beyond."""
        said = self._sentences.past_end(query.number, end)
        return LookupAnswer(query.text, error=said, no_answer=NoAnswer.PAST_END)

    def in_batch(self, query: Query, batch: FoundBatch) -> LookupAnswer:
        """Return the first record of a batch at or after the offset that was asked for; null where there is none."""
        record = self._inside.find(batch, lambda _time, at: at >= query.number)
        found = (record.offset, record.timestamp) if isinstance(record, FoundRecord) else (None, None)
        return self._place(query, batch, *found)

    def refused(self, query: Query, refused: Refused) -> LookupAnswer:
        """Return why there is no answer; what is wrong with the records that are the reason is reported."""
        path = ""
        if refused.place is not None:
            batch = self._batch_at(*refused.place)
            path = self._partition.segment(refused.place[0]).path
            if isinstance(batch, FoundBatch):
                self._inside.judge(batch)
        self.limited |= bool(refused.limit)
        self.is_failure = not refused.limit
        return LookupAnswer(query.text, error=self._sentences.refused(refused, path))

    def _place(self, query: Query, batch: FoundBatch, offset: int | None, timestamp: int | None) -> LookupAnswer:
        base, epoch = batch.cell(layout.BASE_OFFSET), batch.cell(layout.LEADER_EPOCH)
        last, position = batch.cell(layout.LAST_OFFSET), batch.cell(layout.POSITION)
        if base < 0 and batch.cell(layout.MAGIC) < layout.MAGIC_V2:
            first = self._inside.first_offset(batch)
            base = first.offset if isinstance(first, FoundRecord) else last
        self.batch = (batch.segment, position)
        path = self._partition.segment(batch.segment).path
        return LookupAnswer(
            query.text,
            offset,
            timestamp,
            leader_epoch=epoch if epoch >= 0 else None,
            file=path,
            position=position,
            base_offset=base,
            last_offset=last,
        )
