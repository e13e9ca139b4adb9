"""LogLoader: how a broker loads one partition at start: the files that it moves, recovers, cuts and deletes.

A pure function over facts: the files change in memory only (`kdump.broker.load.disk`). Every step is one of the
broker's, in its order, for what it does depends on what it has done before: a segment is recovered with the snapshots
that earlier recoveries have left, and a load that fails half-way has changed files already.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.failure import INVALID_OFFSET, BrokerError
from kdump.broker.leader_epoch_file_cache import EpochCache
from kdump.broker.load import swap_recovery
from kdump.broker.load.disk import Disk, FilePart
from kdump.broker.load.facts import DELETE, Action, Outcome, SegmentOutcome, Start, Stops
from kdump.broker.load.recover import NO_EPOCH, OVERFLOW, recover
from kdump.broker.load.segments import LoadedSegments
from kdump.broker.load.split import split
from kdump.broker.producer.producer_state_manager import ProducerStates, offset_of
from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.checkpoint.checkpoint_file import EpochEntry, read_checkpoint
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.java_values import IO_CLASSES, MAX_LONG
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.format.source import BytesSource
from kdump.ranges import RangeSet
from kdump.rows.verdict import TornBatch
from kdump.storage.names import log_bases
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.broker.load.facts import PartitionFacts
    from kdump.broker.load.recover import Recovered
    from kdump.broker.load.swap_recovery import Swapped
    from kdump.broker.producer.replay import Producers
    from kdump.finding import Finding
    from kdump.format.batch.window import Window
    from kdump.format.source import Source


_INDEXES = (".index", ".timeindex", ".txnindex")
_KAFKA = "org.apache.kafka.common.KafkaException"
_ROUNDS = 1000  # of splitting segments; each makes new ones, so it ends earlier


def load(
    facts: PartitionFacts,
    start: Start,
    *,
    wants_contents: bool = False,
    recoveries: Recoveries | None = None,
) -> Outcome:
    """Load a partition as a broker does.

    Args:
        facts: what it finds.
        start: how it starts.
        wants_contents: keep the contents of all files that are written.
        recoveries: of the same partition with another start, to have a segment recovered once only.

    Returns:
        what becomes of it; bad bytes never raise.

    Raises:
        OSError: a file cannot be read.

    Source: UnifiedLog.create, LogLoader.load, LogManager.loadLog.
    """
    known = recoveries or Recoveries()
    loader = _Loader(facts, start, wants_contents, known)
    try:
        ends = loader.run()
    except BrokerError as error:
        stops = Stops.LOG_DIR if error.exception.startswith(IO_CLASSES) else Stops.BROKER
        lost = losses(loader.disk, loader.fates(), known.count_records)
        found = _outcome(loader, [], (None, None), lost)
        return found.replace(stops=stops, exception=error.exception, stage=error.stage, row=error.row)
    segments = loader.fates()
    lost = losses(loader.disk, segments, known.count_records)
    found = _outcome(loader, segments, ends, lost)
    hidden, last, torn = _hidden(loader.disk, facts, ends, known)
    reused = (ends[1], last) if last >= ends[1] else None
    found = found.replace(hidden_records=hidden, reused_offsets=reused, torn=torn, latest_epoch=loader.latest_epoch)
    if found.records_lost and 0 < facts.log_start <= last + 1:  # else it is damaged: readers get what lies below it
        count = partial(known.count_records, least=facts.log_start)
        found = found.replace(served_lost=losses(loader.disk, segments, count)[1])
    return found


def _outcome(
    loader: _Loader, segments: list[SegmentOutcome], ends: tuple[int | None, int | None], lost: tuple[int, int]
) -> Outcome:
    notes, is_unstable, bytes_read = loader.marks()
    return Outcome(
        loader.disk,
        segments,
        log_start_offset=ends[0],
        log_end_offset=ends[1],
        bytes_lost=lost[0],
        records_lost=lost[1],
        served_lost=lost[1],
        notes=notes,
        has_unstable=is_unstable,
        bytes_read=bytes_read,
    )


def _hidden(
    disk: Disk, facts: PartitionFacts, ends: tuple[int, int], known: Recoveries
) -> tuple[int, int, TornBatch | None]:
    """Return the records that stay on disk outside of the log, the last offset today (-1: none), and the torn batch."""
    before, after = log_bases(disk.before), log_bases(disk.names())
    if facts.state == DELETE or not before:
        return 0, -1, None
    following = dict(pairwise(before))
    was, torn = -1, None  # the last offset that the log has today
    for base in reversed(before):
        log, index = disk.before[f"{base:020}.log"], disk.before.get(f"{base:020}.index")
        found = known.readable(log, base, following.get(base), MAX_LONG, index)
        was = found.last
        if base == before[-1] and found.torn is not None:
            torn = found.torn
            was = max(was, torn.last_offset)
        if was >= 0:
            break
    hidden = 0
    for base in after:
        left = disk.get(f"{base:020}.log")
        if left is not None and base == after[-1]:
            hidden += known.readable(left, base, None, ends[1], disk.get(f"{base:020}.index")).behind
    return hidden, was, torn


class _Loader:
    """One load. The methods follow those of LogLoader."""

    def __init__(self, facts: PartitionFacts, start: Start, wants_contents: bool, recoveries: Recoveries) -> None:
        self.disk = Disk(facts.files, wants_contents=wants_contents)
        self.notes: list[str] = []
        self._has_unstable = False
        self._bytes_read = 0
        self.split: set[int] = set()
        self.swapped: Swapped = swap_recovery.NOTHING
        self._facts = facts
        self._recoveries = recoveries
        self._was_clean = start is Start.CLEAN
        self._recovery_point = 0 if start is Start.FULL else facts.recovery_point
        self._segments = LoadedSegments(self.disk, facts)
        self._epochs = EpochCache(())

    def run(self) -> tuple[int, int]:
        """Return the log start offset and the log end offset."""
        facts = self._facts
        if self.disk.get(FileKind.EPOCHS.value) is None:
            self.disk.write(FileKind.EPOCHS.value, b"")
        self._epochs = EpochCache(self._epoch_file())
        if self._epochs.complaint:
            raise BrokerError(0, "epochs", self._epochs.complaint)
        states = ProducerStates(self.disk, facts)
        self.swapped = swap_recovery.finish(self.disk, facts)
        self._splitting(self._load_segment_files, states)
        if facts.state == DELETE:
            if not self._segments.bases:
                self._create(0)
            end = 0
        else:
            self._splitting(self._recover_log, states)
            end = self._end(states)
            self._segments.make_room()
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(facts.log_start)
        log_start = max(facts.log_start, self._segments.bases[0])
        states.remove_strays(self._segments.bases)
        states.rebuild(self._segments, log_start, end, was_clean=self._was_clean)
        self._bytes_read += states.bytes_read
        if self._epochs.is_dirty:
            self.disk.write(FileKind.EPOCHS.value, self._epochs.file())
            self.disk.delete(f"{FileKind.EPOCHS.value}.tmp")
        if states.first_unstable is not None:
            self._has_unstable = True
            self._segments.find(max(states.first_unstable, log_start), end)
        self._trim()
        self._check_metadata()
        return log_start, end

    def fates(self) -> list[SegmentOutcome]:
        """Return what has become of the segments."""
        return fates(self.disk, self.split, self.swapped)

    def marks(self) -> tuple[tuple[str, ...], bool, int]:
        """Return the notes, whether something is unstable, and how many bytes of logs were read to recover."""
        return tuple(self.notes), self._has_unstable, self._bytes_read

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that the cache has, -1 for none."""
        return self._epochs.latest

    # --- files of the partition ------------------------------------------------------------------------------
    def _epoch_file(self) -> list[EpochEntry]:
        entries = self._checkpoint(FileKind.EPOCHS)
        return [entry for entry in entries if isinstance(entry, EpochEntry)]

    def _check_metadata(self) -> None:
        self._checkpoint(FileKind.PARTITION_METADATA)

    def _checkpoint(self, kind: FileKind) -> Sequence[object]:
        source = self.disk.get(kind.value)
        if source is None:
            return ()
        found: list[Finding] = []
        entries = read_checkpoint(kind, source, found.append).entries
        for finding in found:
            if finding.values["exception"] is not None:  # else it was not read: over a limit of ours
                raise BrokerError(0, kind.value, f"{finding.values['exception']}: {finding.values['why']}")
        return entries

    def _trim(self) -> None:
        """Leave partial entries out: a broker cuts them off when it opens an index and closes it again."""
        for base in self._segments.bases:
            for suffix, entry in ((".index", OffsetIndex), (".timeindex", TimeIndex)):
                name = f"{base:020}{suffix}"
                size = self.disk.size(name)
                if size % entry.entry_size:
                    self.disk.cut(name, size - size % entry.entry_size)

    # --- loadSegmentFiles -------------------------------------------------------------------------------------
    def _load_segment_files(self, states: ProducerStates) -> None:
        del states
        self._segments.bases.clear()
        disk = self.disk
        for name in disk.names():
            if name.endswith(_INDEXES):
                if disk.get(f"{offset_of(name):020}.log") is None:
                    disk.delete(name)
                    self.notes.append(f"{name}: deleted, it has no log")
            elif name.endswith(".log"):
                self._open(offset_of(name))

    def _open(self, base: int) -> None:
        disk, stem = self.disk, f"{base:020}"
        if disk.size(f"{stem}.log") > layout.MAX_INT:
            size = disk.size(f"{stem}.log")
            what = f"The size of segment {self._facts.path}/{stem}.log ({size}) is larger than"
            raise BrokerError(0, "open", f"{_KAFKA}: {what} the maximum allowed segment size of {layout.MAX_INT}")
        if disk.get(f"{stem}.log") is None:  # the name has more than 20 digits, or fewer
            disk.write(f"{stem}.log", b"")
        if disk.get(f"{stem}.index") is None:
            self._recover(base)
        else:
            if disk.get(f"{stem}.timeindex") is None:
                disk.write(f"{stem}.timeindex", b"")
            if self._has_bad_transactions(base):
                self._recover(base)
        self._segments.add(base)

    def _has_bad_transactions(self, base: int) -> bool:
        """Source: TransactionIndex.sanityCheck."""
        source = self.disk.get(f"{base:020}.txnindex")
        index = TransactionIndex(source or BytesSource(b""), base, self._facts.rules.aborted_version_bytes)
        if any(txn.last_offset < base for txn in index):
            return True
        if index.error is not None:
            raise BrokerError(
                0,
                "transaction index",
                f"{_KAFKA}: {index.error}".replace("{file}", f"{self._facts.path}/{base:020}.txnindex"),
            )
        return False

    # --- recovery ---------------------------------------------------------------------------------------------
    def _recover(self, base: int) -> int:
        """Recover a segment with what the snapshots and the segments before it tell; return the bytes cut off."""
        disk, stem = self.disk, f"{base:020}"
        states = ProducerStates(disk, self._facts)
        states.rebuild(self._segments, self._facts.log_start, base, was_clean=False)
        self._bytes_read += states.bytes_read + disk.size(f"{stem}.log")
        done = self._recoveries.recover(self._facts, disk, base, states, self._epochs.latest)
        for epoch in done.epochs:
            self._epochs.assign(epoch)
        write_indexes(disk, done)
        if done.failure is not None and done.failure.escapes:
            raise BrokerError(base, done.failure.stage, done.failure.exception)
        disk.cut(f"{stem}.log", done.valid_bytes)
        states.producers, states.end = done.producers, done.producers_offset
        states.take_snapshot()
        return done.truncated_bytes

    def _recover_log(self, states: ProducerStates) -> None:
        """Recover what may not have been flushed, up to the first segment that loses bytes."""
        if self._was_clean:
            return
        bases = self._segments.bases
        first = max(0, bisect_right(bases, self._recovery_point) - 1)
        if self._recovery_point == MAX_LONG:  # LogSegments.values has nothing from there to there
            return
        for base in bases[first:]:
            try:
                lost = self._recover(base)
            except BrokerError as error:
                if not error.exception.startswith((INVALID_OFFSET, *IO_CLASSES)):
                    raise
                lost = self._empty(base)
            if lost:
                later = [one for one in bases if one > base]
                self._delete_segments(later)
                for one in later:
                    states.forget(one)
                return

    def _empty(self, base: int) -> int:
        """A recovery ended with an offset that does not fit: cut at the base offset. Source: LogSegment.truncateTo."""
        number = self._segments.bases.index(base)
        position = self._segments.position(number, base)
        stem, disk = f"{base:020}", self.disk
        for suffix in (".index", ".timeindex"):
            disk.write(f"{stem}{suffix}", b"")
        if disk.get(f"{stem}.txnindex") is not None:
            disk.write(f"{stem}.txnindex", b"")
        if position is None:
            return 0
        lost = disk.size(f"{stem}.log") - position
        disk.cut(f"{stem}.log", position)
        return lost

    def _delete_segments(self, bases: list[int]) -> None:
        """Put segments aside. Source: removeAndDeleteSegmentsAsync."""
        for base in bases:
            self._segments.remove(base)
            for suffix in (".log", *_INDEXES):
                name = f"{base:020}{suffix}"
                self.disk.rename(name, f"{name}.deleted")

    # --- the end ----------------------------------------------------------------------------------------------
    def _end(self, states: ProducerStates) -> int:
        """Return the log end offset; a log that ends before its start is thrown away. Source: recoverLog."""
        segments, start = self._segments, self._facts.log_start
        if segments.bases:
            end = segments.next_offset(len(segments.bases) - 1)
            if end >= start:
                return end
            self._delete_segments(list(segments.bases))
            self._epochs.clear()
            states.start_at(start)
        self._create(start)
        return segments.next_offset(0)

    def _create(self, base: int) -> None:
        for suffix in (".log", ".index", ".timeindex"):
            name = f"{base:020}{suffix}"
            if self.disk.get(name) is None:
                self.disk.write(name, b"")
        self._segments.add(base)

    def _splitting(self, step: Callable[[ProducerStates], None], states: ProducerStates) -> None:
        """Take a step again after each segment that had to be split. Source: retryOnOffsetOverflow."""
        for _ in range(_ROUNDS):
            try:
                step(states)
            except BrokerError as error:
                if not error.exception.startswith(OVERFLOW):
                    raise
                base = error.row
                is_open = base in self._segments.bases  # else it is just being opened
                self._segments.add(base)
                new = split(self.disk, self._segments, base, self._facts, keeps_old=is_open)
                if is_open and base not in new:
                    states.forget(base)
                self.split.add(base)
                for one in new:
                    self._segments.add(one)
                if base != min(new) if is_open else base not in new:  # a broker forgets even a new one of that name
                    self._segments.remove(base)
            else:
                return
        raise BrokerError(0, "split", f"{_KAFKA}: no end of segments to split")


if TYPE_CHECKING:
    Counter = Callable[[Source, int, int], int]


def fates(disk: Disk, was_split: set[int], swapped: Swapped) -> list[SegmentOutcome]:
    """Return what became of each segment, by base offset.

    Args:
        disk: the files before and afterwards.
        was_split: base offsets of the segments that were split.
        swapped: what compaction had left to be put in place.
    """
    before, after = set(log_bases(disk.before)), set(log_bases(disk.names()))
    found = []
    for base in sorted(before | after):
        name = f"{base:020}.log"
        old = disk.before[name].size if base in before else 0
        action = _action(disk, base, before, after)
        is_elsewhere = base in was_split | swapped.new | swapped.covered
        if is_elsewhere and base in before & after:
            action = Action.SPLIT if base in was_split else Action.REPLACE
        found.append(SegmentOutcome(base, action, disk.size(name), old, is_elsewhere))
    return found


def _action(disk: Disk, base: int, before: set[int], after: set[int]) -> Action:
    if base not in before:
        return Action.CREATE
    if base not in after:
        return Action.DELETE
    name = f"{base:020}.log"
    size, old = disk.size(name), disk.before[name].size
    if size < old:
        return Action.TRUNCATE if size else Action.EMPTY
    indexes = (f"{base:020}{suffix}" for suffix in (".index", ".timeindex", ".txnindex"))
    return Action.REBUILD_INDEX if any(map(disk.is_changed, indexes)) else Action.KEEP


def losses(disk: Disk, segments: list[SegmentOutcome], count: Counter) -> tuple[int, int]:
    """Return the bytes and the records that were cut off or deleted.

    Args:
        disk: the files before and afterwards.
        segments: what became of them.
        count: counts the records of a log from a position on.
    """
    lost = [one for one in segments if one.bytes_lost]
    records = sum(count(disk.before[f"{one.base_offset:020}.log"], one.base_offset, one.size) for one in lost)
    replaced = list(_replaced(disk, segments))
    return sum(one.bytes_lost for one in lost) + sum(size for size, _ in replaced), records + sum(
        n for _, n in replaced
    )


def _replaced(disk: Disk, segments: list[SegmentOutcome]) -> Iterator[tuple[int, int]]:
    """What damaged `.swap` files have replaced: bytes and records that could be read in old logs, and now nowhere.

    What a sound one has not is what compaction removes.
    """
    gone = RangeSet()
    for at, one in enumerate(segments):
        name = f"{one.base_offset:020}"
        swap, new = disk.before.get(f"{name}.log.swap"), disk.get(f"{name}.log")
        if swap is None or new is None or not one.is_elsewhere:
            continue
        others = (later.base_offset for later in segments[at + 1 :] if _is_put(disk, later) or not later.is_elsewhere)
        end = next(others, layout.LARGEST_OFFSET + 1)
        is_cut = new.size < swap.size or _reaches_past(disk.before.get(f"{name}.index.swap"), new)
        for first, last in _unreadable(new, one.base_offset, is_cut=is_cut):
            gone.add(first, min(last, end - 1))
    for one in segments if gone else ():
        name = f"{one.base_offset:020}.log"
        if one.is_elsewhere and name in disk.before:
            yield _within(disk.before[name], one.base_offset, gone)


def _is_put(disk: Disk, segment: SegmentOutcome) -> bool:
    return f"{segment.base_offset:020}.log.swap" in disk.before


def _reaches_past(index: Source | None, log: Source) -> bool:
    """Whether an index knows of a batch behind the end of a log."""
    if index is None:
        return False
    entries = OffsetIndex(index, 0)
    entries.trim()
    return entries.entries > 0 and entries.entry(entries.entries - 1).position >= log.size


def _unreadable(log: Source, base: int, *, is_cut: bool) -> RangeSet:
    """The offsets that cannot be read in a log: of batches with a wrong CRC, of what is none, and behind its end."""
    found, end, reached = RangeSet(), base, 0
    walk = CheckedWalk(log, ignore, segment=base, next_base=None, max_batch_bytes=MAX_BATCH_BYTES)
    for window in walk.windows():
        offsets = window.column(layout.BASE_OFFSET), window.column(layout.LAST_OFFSET)
        crcs = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
        places = window.column(layout.POSITION), window.column(layout.SIZE)
        for first, last, stored, computed, position, size in zip(*offsets, *crcs, *places, strict=True):
            if position != reached:
                found.add(end, first - 1)
            reached = position + size
            if stored == computed:
                end = max(end, last + 1)
            elif first <= last:
                found.add(first, last)
    if is_cut or reached != log.size:
        found.add(end, layout.LARGEST_OFFSET)
    return found


def _within(log: Source, base: int, gone: RangeSet) -> tuple[int, int]:
    """The bytes and records of the right batches of a log that have some offsets."""
    walk = CheckedWalk(log, ignore, segment=base, next_base=None, max_batch_bytes=MAX_BATCH_BYTES)
    reader = RecordReader(MAX_UNCOMPRESSED_BYTES, max_batch=MAX_BATCH_BYTES, cut=KEPT)
    size = records = 0
    for window in walk.windows():
        for k, last in enumerate(window.column(layout.LAST_OFFSET)):
            first = window.cell(k, layout.BASE_OFFSET)
            if gone.has_any(last if first < 0 else first, last) and window.batch(k).all_trusted:
                size += window.cell(k, layout.SIZE)
                records += _records(window.batch(k), reader)
    return size, records


def count_records(log: Source, base: int, start: int, least: int = 0) -> int:
    """Count the records of a log from a position on, in batches whose CRC is right.

    Args:
        log: the log.
        base: its base offset.
        start: file position of a batch, bytes.
        least: batches that end below this offset do not count.
    """
    part = FilePart(log, start, log.size)
    walk = CheckedWalk(part, ignore, segment=base, next_base=None, max_batch_bytes=MAX_BATCH_BYTES)
    reader = RecordReader(MAX_UNCOMPRESSED_BYTES, max_batch=MAX_BATCH_BYTES, cut=KEPT)
    if not least:
        return sum(_records(window, reader) for window in walk.windows())
    return sum(
        _records(window.batch(k), reader)
        for window in walk.windows()
        for k, last in enumerate(window.column(layout.LAST_OFFSET))
        if last >= least
    )


class Readable(TupleValue):
    """What can be read of a log."""

    last: int  # the last offset of its right batches, by the right base offset where one is wrong; -1 for none
    behind: int  # the records of right batches that reach over an end, by the stored base offset as a broker has it
    torn: TornBatch | None  # the batch at its end whose own end is missing; None for none


def readable(log: Source, base: int, next_base: int | None, end: int) -> Readable:
    """Return what can be read of a log.

    Args:
        log: the log.
        base: its base offset: a batch below it, or too far above it, has no right offset.
        next_base: that of the next segment, None after the last.
        end: a log end offset.
    """
    torn: list[TornBatch] = []

    def see(finding: Finding) -> None:
        if finding.is_torn_batch:
            assert finding.position is not None
            assert finding.offset is not None
            assert finding.last_offset is not None
            torn.append(TornBatch(base, finding.position, finding.offset, finding.last_offset))

    walk = CheckedWalk(log, see, segment=base, next_base=next_base, max_batch_bytes=MAX_BATCH_BYTES)
    reader = RecordReader(MAX_UNCOMPRESSED_BYTES, max_batch=MAX_BATCH_BYTES, cut=KEPT)
    found = 0
    for window in walk.windows():
        ascends = window.all_trusted and not window.suspicions & (layout.NOT_ABOVE | layout.OUT_OF_RANGE)
        if ascends and window.cell(window.count - 1, layout.LAST_OFFSET) < end:
            continue
        for k, last in enumerate(window.column(layout.LAST_OFFSET)):
            if last >= end:  # a broker goes by what is stored
                found += _records(window.batch(k), reader)
    right = walk.checks.offsets.last  # where a base offset is wrong, by the right one
    return Readable(-1 if right is None else right, found, torn[-1] if torn else None)


def _records(window: Window, reader: RecordReader) -> int:
    stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
    columns = window.column(layout.MAGIC), window.column(layout.COUNT), window.column(layout.ATTRIBUTES)
    found = 0
    for k, (magic, count, attributes) in enumerate(zip(*columns, strict=True)):
        if stored[k] != computed[k]:
            continue
        if magic >= layout.MAGIC_V2:
            found += max(0, count)
        elif attributes & layout.CODEC_MASK:
            found += sum(chunk.filled for chunk in reader.chunks(window.batch(k)))
        else:
            found += 1
    return found


class Recoveries:
    """Recovered segments and counted records, so that a second start of the same partition need not read them again.

    Of segments only a few are held: a start without recovery points recovers all, the other one as a rule the last.
    """

    _most = 2
    _most_entries = 1 << 17  # of the columns of an index

    def __init__(self) -> None:
        self.recovered: set[str] = set()  # paths of the logs that a start has recovered
        self._known: list[tuple[tuple[object, ...], Recovered]] = []
        self._records: dict[tuple[str, int, int], int] = {}
        self._readable: dict[tuple[object, ...], Readable] = {}

    def count_records(self, log: Source, base: int, start: int, least: int = 0) -> int:
        """Count the records of a log from a position on, of batches that do not end below an offset."""
        key = log.name, start, least
        if key not in self._records:
            self._records[key] = count_records(log, base, start, least)
        return self._records[key]

    def readable(
        self,
        log: Source,
        base: int,
        next_base: int | None,
        end: int,
        index: Source | None = None,
    ) -> Readable:
        """Return what can be read of a log.

        Args:
            log: the log.
            base: its base offset.
            next_base: that of the next segment, None after the last.
            end: a log end offset.
            index: its offset index, None for none; see `TailRecoveries`.
        """
        del index
        key = log.name, log.size, base, next_base, end
        if key not in self._readable:
            self._readable[key] = readable(log, base, next_base, end)
        return self._readable[key]

    def recover(self, facts: PartitionFacts, disk: Disk, base: int, states: ProducerStates, epoch: int) -> Recovered:
        """Recover a segment, or take what is known of it."""
        log = disk.get(f"{base:020}.log") or BytesSource(b"", f"{base:020}.log")
        self.recovered.add(log.name)
        key = (log, base, states.producers.entries, epoch)
        for known, recovered in self._known:
            if known[0] is log and known[1:] == key[1:]:
                return recovered
        recovered = recover_segment(facts, log, base, states.producers, epoch)
        if len(recovered.offset_entries[0]) <= self._most_entries:
            self._known = [*self._known[-self._most + 1 :], (key, recovered)]
        return recovered


class TailRecoveries(Recoveries):
    """What starts have recovered, from no more than the start reads that is looked at.

    Of a log that this start does not recover it reads what lies behind the last entry of the offset index, and takes
    the rest for what that entry says; where anything there is not as it should be it reads all of the log.
    """

    def readable(
        self, log: Source, base: int, next_base: int | None, end: int, index: Source | None = None
    ) -> Readable:
        """Return what can be read of a log; the arguments are those of `Recoveries`."""
        if index is not None and log.name not in self.recovered:
            last = _end_of_sound_tail(log, base, next_base, OffsetIndex(index, base))
            if last is not None and last < end:
                return Readable(last, 0, None)
        return super().readable(log, base, next_base, end)


def _end_of_sound_tail(log: Source, base: int, next_base: int | None, index: OffsetIndex) -> int | None:
    """Return the last offset of a log by what lies behind the last entry of its index; None where that is not sound."""
    index.trim()
    if not index.entries:
        return None
    entry = index.last_entry()
    if not (base <= entry.offset and 0 < entry.position < log.size):
        return None
    found: list[Finding] = []
    part = FilePart(log, entry.position, log.size)
    walk = CheckedWalk(part, found.append, segment=base, next_base=next_base, max_batch_bytes=MAX_BATCH_BYTES)
    reached = entry.offset - 1  # the entry has the last offset of the batch at its position
    for window in walk.windows():
        lasts = window.column(layout.LAST_OFFSET)
        if found or not window.all_trusted or window.suspicions & (layout.NOT_ABOVE | layout.OUT_OF_RANGE):
            return None
        if reached < entry.offset and lasts[0] != entry.offset:
            return None
        reached = lasts[-1]
    return None if found or reached < entry.offset else reached


def recover_segment(
    facts: PartitionFacts, log: Source, base_offset: int, producers: Producers, latest_epoch: int = NO_EPOCH
) -> Recovered:
    """Recover a segment with the settings of its partition.

    Args:
        facts: of the partition.
        log: the segment.
        base_offset: of the segment.
        producers: what is known of producers there.
        latest_epoch: of the leader epoch cache, -1 for none.

    Raises:
        OSError: the log cannot be read.
    """
    return recover(
        log,
        base_offset,
        facts.interval,
        producers,
        latest_epoch=latest_epoch,
        partition=facts.name,
        max_index_bytes=facts.max_index_bytes,
        max_batch_bytes=facts.max_batch_bytes,
        max_uncompressed_bytes=facts.max_uncompressed_bytes,
    )


def write_indexes(disk: Disk, recovered: Recovered) -> None:
    """Put the indexes of a recovered segment on a disk; no transaction index where none is needed and none was."""
    stem = f"{recovered.base_offset:020}"
    disk.write(f"{stem}.index", recovered.index())
    disk.write(f"{stem}.timeindex", recovered.timeindex())
    if recovered.aborted or disk.get(f"{stem}.txnindex") is not None:
        disk.write(f"{stem}.txnindex", recovered.txnindex())
