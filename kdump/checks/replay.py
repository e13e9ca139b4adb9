"""The producers of a partition from segment to segment, and the files that a broker keeps of them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker.producer.lost_aborts import goes_on
from kdump.broker.producer.replay import Producers
from kdump.checks.read_errors import broken_off, not_opened
from kdump.checks.state_files import read_producers
from kdump.checks.transactions import check_aborted, check_snapshot
from kdump.finding import Code, Finding
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.java_values import ABOVE_ALL
from kdump.format.kinds import FileKind
from kdump.format.source import BytesSource
from kdump.item import CheckedFile
from kdump.storage.file_source import FileSource, OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.segment import sibling
from kdump.words.numbers import span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.broker.producer.transaction_fates import Told
    from kdump.checks.job import SegmentJob, SegmentSummary
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source
    from kdump.storage.partition_dir import PartitionDir
    from kdump.storage.state_file import StateFile

Result = Finding | OpenFailure | CheckedFile
_ALL_MISSING = "the file is missing, and so are all other producer snapshots"
_FORGETS = "that starts after this clean stop forgets the producers and the open transactions of the log"
_READ_THE_LOG = (
    "move .kafka_cleanshutdown out of the log directory before a broker starts: it then reads the logs, which takes "
    "longer, and makes the snapshots again"
)


class Replay:
    """Follows the producers from the first segment on.

    Args:
        directory: of the partition.
        limits: for reading control records once more.
    """

    def __init__(self, directory: PartitionDir, limits: ReadLimits) -> None:
        self._directory = directory
        self._limits = limits
        self.producers = Producers.empty()  # what is known of them after the segments so far
        self._has_begun = False
        self._is_whole = True  # nothing was compacted, damaged or not read so far
        self._jobs: list[SegmentJob] = []  # the segments so far

    def segment(self, job: SegmentJob, facts: SegmentSummary) -> Iterator[Result]:
        """Yield what is wrong with the snapshot at the start of a segment and with its aborted transactions.

        Args:
            job: the segment.
            facts: what its log has shown.

        Reports: A01-A08, S01, S03.
        """
        entries: Sequence[ProducerStateEntry] | None = None
        path = job.files.get(FileKind.SNAPSHOT)
        if path is not None:
            entries, said = read_producers(self._file(path))
            yield from said
        found: list[Finding] = []
        if not self._has_begun:
            self._begin(job.base_offset, entries)
        elif path is not None and entries is not None:
            check_snapshot(entries, path, self.producers, found.append)
        expected: list[AbortedTxn] = []
        is_dense = not (facts.has_holes or _begins_late(job, facts))
        self._is_whole = self._is_whole and facts.is_read and is_dense and not facts.damaged
        complete = self.producers.complete and self._is_whole and facts.producers is not None
        before = self.producers
        if facts.producers is not None:
            self.producers, expected = self.producers.after(facts.producers, found.append)
        if not complete:
            self.producers = self.producers.replace(complete=False)
        yield from found
        yield from _aborted(job, facts, expected, self.producers, complete=complete)
        self._jobs.append(job)
        if not complete and FileKind.TXNINDEX in job.files:
            yield from self._lost_ends(job, expected, before)

    def _lost_ends(self, job: SegmentJob, made: Sequence[AbortedTxn], before: Producers) -> Iterator[Finding]:
        """Yield which transactions have lost their end, as the index of a segment proves.

        Args:
            job: the segment.
            made: the entries that a broker would write for it, by the replay.
            before: what is known of producers at its start.

        Reports: A08.
        """
        # Few partitions have both an index of aborts and damage before it; a start pays for all that it imports.
        from kdump.broker.producer.lost_ends import lost_ends, may_prove
        from kdump.broker.producer.transaction_fates import told_by_index

        opened = open_source(job.files[FileKind.TXNINDEX])
        if isinstance(opened, OpenFailure):
            return
        with suppress(OSError), opened:  # it is said where the file is judged
            told = told_by_index(opened, job.base_offset, job.next_base, None, None)
            entries = () if told is None else told.entries
            if not may_prove(entries, made):
                return
            numbers = {one: number for number, one in enumerate(entries)}
            known = [before.entries[one.producer_id] for one in entries if one.producer_id in before.entries]
            begun = [one.current_txn_first_offset for one in known if one.current_txn_first_offset >= 0]
            last: AbortedTxn | None = None
            for one in lost_ends(self._logs(min([job.base_offset, *begun])), entries, self._limits):
                if one.proof is not None and one.proof != last:  # the other batches of the transaction are behind it
                    last = one.proof
                    yield _lost_end(opened.name, numbers[last] * TransactionIndex.entry_size, one, last)

    def _logs(self, start: int) -> Iterator[tuple[Source, int, int | None]]:
        """The logs of the segments so far that may have an offset, or a later one."""
        for job in self._jobs:
            if job.next_base is None or job.next_base > start:
                opened = open_source(job.files[FileKind.LOG])
                if not isinstance(opened, OpenFailure):
                    with opened:
                        yield opened, job.base_offset, job.next_base

    def _file(self, path: str) -> StateFile:
        return self._directory.file(os.path.basename(path), FileKind.SNAPSHOT)

    def snapshot(self, path: str, offset: int | None, end: int, *, has_log: bool) -> Iterator[Result]:
        """Yield what is wrong with a snapshot that is not at the start of a segment.

        Args:
            path: of the snapshot.
            offset: of its name.
            end: the log end offset.
            has_log: there is a segment.

        Reports: S01-S03.
        """
        entries, said = read_producers(self._file(path))
        yield from said
        found: list[Finding] = []
        assert offset is not None
        if has_log and offset > end:
            found.append(Finding(Code.S02, path, found=offset, values={"end": end, "does": "removes it"}))
        elif offset == end and entries is not None:
            check_snapshot(entries, path, self.producers, found.append)
        yield from found

    def without_snapshots(self, end: int) -> Iterator[Finding]:
        """Yield that no snapshot is there, where a broker that has stopped in order has left one of these producers.

        Such a broker begins with empty ones, for without any it reads no log. Source: UnifiedLog.rebuildProducerState
        (reloadFromCleanShutdown).

        Args:
            end: the log end offset.

        Reports: S01.
        """
        directory = self._directory
        kinds = (directory.listing.name_of(name).kind for name in directory.listing.files)
        if directory.log_dir.is_clean and self.producers.entries and FileKind.SNAPSHOT not in kinds:
            path = directory.path_of(end, FileKind.SNAPSHOT)
            yield Finding(Code.S01, path, values={"why": _ALL_MISSING, "does": _FORGETS, "remedy": _READ_THE_LOG})

    def _begin(self, base: int, entries: Sequence[ProducerStateEntry] | None) -> None:
        self._has_begun = True
        if base and entries is not None:
            self.producers = Producers.of_snapshot(entries, base)
        elif base:
            self.producers = self.producers.replace(complete=False)


def _lost_end(path: str, position: int, told: Told, proof: AbortedTxn) -> Finding:
    assert told.hole is not None
    ends = span(told.hole.first, told.hole.last, "offset")
    values: dict[str, int | str | None] = {"producer": told.producer, "begun": proof.first_offset, "ends": ends}
    size, last = TransactionIndex.entry_size, told.hole.first - 1
    return Finding(Code.A08, path, position, size, offset=told.start, last_offset=last, values=values)


def _begins_late(job: SegmentJob, facts: SegmentSummary) -> bool:
    """Whether offsets are missing at the head of a log: a marker may have been among them."""
    first = None if facts.evidence is None else facts.evidence.shape.first_offset
    return first is not None and first > job.base_offset


def _aborted(
    job: SegmentJob, facts: SegmentSummary, expected: list[AbortedTxn], producers: Producers, *, complete: bool
) -> Iterator[Result]:
    """Judge the index of aborted transactions, which is not there when there are none."""
    path = job.files.get(FileKind.TXNINDEX)
    found: list[Finding | OpenFailure] = []
    if path is None:
        beside = sibling(job.files[FileKind.LOG], FileKind.TXNINDEX.value)
        opened: Source | OpenFailure = BytesSource(b"", beside)
    else:
        opened = open_source(path)
    if isinstance(opened, OpenFailure):
        yield not_opened(opened)
        return
    end = max(facts.end_offset, job.base_offset) if facts.is_read else ABOVE_ALL
    try:
        check_aborted(
            opened,
            job.base_offset,
            expected,
            complete=complete,
            first_known=0,
            end=end,
            goes_on=lambda entry: goes_on(entry, end, job.next_base, producers.entries),
            lost=facts.marker_holes,
            log_size=facts.sizes.get(FileKind.LOG),
            report=found.append,
        )
    except OSError as error:
        found.append(broken_off(error, opened.name, opened.size))
    yield from found
    if isinstance(opened, FileSource):
        opened.close()
        yield CheckedFile(opened.name, FileKind.TXNINDEX, opened.size)
