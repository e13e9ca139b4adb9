"""What of a partition can be handed out: ranges of files whose batches are all well, and where readers stand.

Strategy: a partition is read once, when the first client asks for it: by the walk that salvage goes by, which keeps
runs of batches that are well, with the header fields that are determined put right. What is kept is a mark for each
window of batches. An answer is a range of one run: it is found by the marks and by the lengths of some batches, and
its bytes are read when they are sent. No answer reaches over a place where bytes, or the end of a transaction, are
lost: so a reader of committed data is told anew which transactions count behind it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING

from kdump.broker.log_facts import LogFiles, LogReader, earliest_open, waits_for
from kdump.broker.lookup_results import NO_TIMESTAMP, FoundBatch, FoundRecord, find_record
from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.compat.kafka_walk import KafkaWalk
from kdump.dump.input_file import InputFile
from kdump.dump.transaction_outcomes import Outcomes
from kdump.finding import ignore
from kdump.format.batch import _scan, layout
from kdump.format.batch.header_fields import Overlay
from kdump.format.batch.window import Buffer
from kdump.format.kinds import FileKind
from kdump.format.record import _select
from kdump.format.record.reader import RecordReader
from kdump.rescue.scanned_log import read_log
from kdump.serve.options import STOP
from kdump.state.open_transactions import open_transactions
from kdump.state.partition_log import PartitionLog, result_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import OFFSETS_TOPIC, parse_name
from kdump.storage.open_files import OpenFileCache, open_source
from kdump.storage.segment import Segment, UnreadableError
from kdump.storage.tolerant import TolerantSource
from kdump.value import TupleValue, Value
from kdump.words.command import command_line, named
from kdump.words.numbers import counted, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.batch.header_fields import Patch
    from kdump.format.batch.window import Window
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.source import Source
    from kdump.rescue.scanned_log import ScannedLog
    from kdump.rescue.valid_runs import ValidRun
    from kdump.serve.options import ServeOptions
    from kdump.state.partition_log import Cut
    from kdump.storage.partition_dir import PartitionDir

_LOOK = 64 * 1024  # bytes that are read at once to find a batch
_HINTS = 1024  # offsets that clients ask for next, whose places are kept
_MOST_TOLD = 8  # ranges that are named one by one


class ByteRange(Value):
    """Bytes of a file that are sent; they are read then."""

    path: str
    start: int  # position
    size: int
    patches: tuple[Patch, ...]  # header fields that are put right

    def __len__(self) -> int:
        return self.size

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Open the file as long as it is read.

        Raises:
            OSError: it cannot be.
        """
        source = open_source(self.path, follow=False)
        if isinstance(source, OpenFailure):
            raise OSError(0, source.sentence, self.path)
        with source:
            yield Overlay(source, self.patches) if self.patches else source


class Uncommitted(TupleValue):
    """Batches of a producer that a reader of committed data does not get: of an aborted transaction, or in doubt."""

    # first, last: offsets; the last one is that of the marker, where there is one
    first: int
    last: int
    producer: int


class Answer(TupleValue):
    """What a client gets from an offset on."""

    records: ByteRange | None  # None for nothing
    aborted: list[Uncommitted]  # that lie in it


class _Segment:
    """The runs of one log that are served.

    Attributes:
        lasts, places, times: for each window of batches the last offset, its position, and the largest timestamp.
    """

    def __init__(self, path: str, patches: tuple[Patch, ...]) -> None:
        self.path, self.patches = path, patches
        self.runs: list[ValidRun] = []
        self.lasts, self.places, self.times = array("q"), array("q"), array("q")

    def end_of_run(self, position: int) -> int:
        """Return where the run ends that has a position."""
        at = bisect_right(self.runs, position, key=lambda run: run.start) - 1
        return self.runs[at].end


class _Places:
    """Offsets that clients are about to ask for, with their places: number of the segment, and position."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def keep(self, offset: int, place: tuple[int, int]) -> None:
        self._known[offset] = place
        self._known.move_to_end(offset)
        if len(self._known) > _HINTS:
            self._known.popitem(last=False)

    def of(self, offset: int) -> tuple[int, int] | None:
        return self._known.get(offset)


class ReadablePartition:
    """What of a partition can be handed out.

    Attributes:
        start_offset, end_offset: the log start offset, and the end of the last batch that can be handed out.
        last_stable_offset: at which readers of committed data stand.
        epochs: the leader epochs of the partition, ascending.
        is_stopped: the end is where damage begins.
    """

    def __init__(self, start_offset: int, limit: int, max_uncompressed: int) -> None:
        self.start_offset = self.end_offset = self.last_stable_offset = start_offset
        self.epochs: Sequence[EpochEntry] = ()
        self.is_stopped = False
        self._segments: list[_Segment] = []
        self._uncommitted: list[Uncommitted] = []  # ascending
        self._reach: list[int] = []  # the largest last offset of the first n + 1 of them
        self._stops = array("q")  # offsets before which an answer ends: the end of a transaction is lost there
        self._limit = limit
        self._records = RecordReader(max_uncompressed, max_batch=limit)
        self._lock = Lock()  # of what more than one thread changes: the places
        self._next = _Places()

    # --- answers --------------------------------------------------------------------------------------------------
    def read(self, offset: int, most: int, *, committed: bool, at_least_one: bool) -> Answer:
        """Return what a client gets from an offset on.

        Args:
            offset: from the log start offset to the end.
            most: bytes.
            committed: no further than to the last stable offset.
            at_least_one: the first batch, however large it is.

        Raises:
            OSError: the log cannot be read.
        """
        bound = self.last_stable_offset if committed else self.end_offset
        place = self._place(offset) if offset < bound else None
        if place is None:
            return Answer(None, [])
        number, start = place
        whole = self._whole_windows(number, start, offset, most, bound)
        if whole is not None:
            end, last = whole
            self._note_next(number, last + 1, end)
            aborted = self._within(offset, last) if committed else []
            segment = self._segments[number]
            return Answer(ByteRange(segment.path, start, end - start, segment.patches), aborted)
        segment, end, first, last = self._segments[number], start, None, offset
        for window, k in self._batches(segment, start, segment.end_of_run(start), most):
            base = window.cell(k, layout.LAST_OFFSET if window.is_wrapper(k) else layout.BASE_OFFSET)
            if first is None:
                first = max(offset, base)
                at = bisect_right(self._stops, first)
                bound = min(bound, self._stops[at]) if at < len(self._stops) else bound
            behind = window.end(k + 1)
            if base >= bound or (behind - start > most and not (at_least_one and end == start)):
                break
            end, last = behind, window.cell(k, layout.LAST_OFFSET)
            if end - start >= most:
                break
        if first is None or end == start:
            return Answer(None, [])
        self._note_next(number, last + 1, end)
        aborted = self._within(min(first, offset), last) if committed else []
        return Answer(ByteRange(segment.path, start, end - start, segment.patches), aborted)

    def _whole_windows(self, number: int, start: int, offset: int, most: int, bound: int) -> tuple[int, int] | None:
        """Whole windows of batches from a position on, as many as there is room for, without a look at the log.

        Returns:
            where they end, and their last offset; None where not one window is whole.
        """
        segment = self._segments[number]
        mark = bisect_left(segment.places, start)
        if mark == len(segment.places) or segment.places[mark] != start:
            return None
        run, found = segment.end_of_run(start), None
        at = bisect_right(self._stops, offset)
        stop = min(bound, self._stops[at]) if at < len(self._stops) else bound
        while mark < len(segment.places) and segment.places[mark] < run:
            end = min(segment.places[mark + 1] if mark + 1 < len(segment.places) else run, run)
            if end - start > most or segment.lasts[mark] >= stop:
                break
            found = end, segment.lasts[mark]
            mark += 1
        return found

    def first_after(self, timestamp: int) -> FoundRecord | None:
        """Return the first record at or after a time, ms; None for none.

        Raises:
            OSError: the log cannot be read.
        """
        for segment in self._segments:
            for mark, time in enumerate(segment.times):
                if time < timestamp or segment.lasts[mark] < self.start_offset:
                    continue
                found = self._record(
                    segment, mark, lambda time, offset: time >= timestamp and offset >= self.start_offset
                )
                if found is not None:
                    return found
        return None

    def with_largest_time(self) -> FoundRecord | None:
        """Return the first record with the largest timestamp; None where no record has one.

        Raises:
            OSError: the log cannot be read.
        """
        times = [(max(one.times, default=NO_TIMESTAMP), -number) for number, one in enumerate(self._segments)]
        largest, number = max(times, default=(NO_TIMESTAMP, 0))
        if largest < 0:
            return None
        segment = self._segments[-number]
        mark = segment.times.index(largest)
        return self._record(segment, mark, lambda time, _: time == largest)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of an offset; -1 where that is not known."""
        at = bisect_right(self.epochs, offset, key=lambda one: one.start_offset) - 1
        return self.epochs[at].epoch if at >= 0 else layout.NO_EPOCH

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to one, and where it ends; -1 for both where nothing is known.

        Source: LeaderEpochFileCache.endOffsetFor.
        """
        if epoch < 0 or not self.epochs or epoch > self.epochs[-1].epoch:
            return layout.NO_EPOCH, layout.NO_OFFSET
        if epoch == self.epochs[-1].epoch:
            return epoch, self.end_offset
        above = bisect_right(self.epochs, epoch, key=lambda one: one.epoch)
        return (self.epochs[above - 1].epoch if above else epoch), self.epochs[above].start_offset

    # --- places ---------------------------------------------------------------------------------------------------
    def _place(self, offset: int) -> tuple[int, int] | None:
        """Number of the segment and position of the batch that has an offset, or of the next one; None for none."""
        with self._lock:
            known = self._next.of(offset)
        if known is not None:
            return known
        reach = [one.lasts[-1] for one in self._segments]
        number = bisect_left(reach, offset)
        if number == len(reach):
            return None
        segment = self._segments[number]
        position = segment.places[bisect_left(segment.lasts, offset)]
        for window, k in self._batches(segment, position, segment.end_of_run(position), _LOOK):
            if window.cell(k, layout.LAST_OFFSET) >= offset:
                return number, window.cell(k, layout.POSITION)
        return None

    def _note_next(self, number: int, offset: int, position: int) -> None:
        segment = self._segments[number]
        at = bisect_right(segment.runs, position - 1, key=lambda run: run.start) - 1
        if position < segment.runs[at].end:
            with self._lock:
                self._next.keep(offset, (number, position))

    def _batches(self, segment: _Segment, start: int, end: int, most: int) -> Iterator[tuple[Window, int]]:
        """Yield the batches of a run from a position on."""
        with ByteRange(segment.path, start, end - start, segment.patches).opened() as source:
            size = min(max(most, layout.RECORDS_AT), _LOOK * 16, max(end - start, layout.RECORDS_AT))
            walk = KafkaWalk(source, segment.path, start, end, self._limit, Buffer(source, size))
            for window in walk.windows():
                for k in range(window.count):
                    yield window, k

    def _record(self, segment: _Segment, mark: int, wanted: Callable[[int, int], bool]) -> FoundRecord | None:
        position = segment.places[mark]
        behind = segment.places[mark + 1] if mark + 1 < len(segment.places) else segment.runs[-1].end
        for window, k in self._batches(segment, position, min(behind, segment.end_of_run(position)), _LOOK):
            found = find_record(self._records, FoundBatch(0, window, k), wanted)
            if isinstance(found, FoundRecord):
                return found
        return None

    def _within(self, first: int, last: int) -> list[Uncommitted]:
        """Return what of aborted transactions lies among some offsets."""
        begin = bisect_left(self._reach, first)
        stop = bisect_right(self._uncommitted, last, key=lambda one: one.first)
        return [one for one in self._uncommitted[begin:stop] if one.last >= first]


class PartitionReading:
    """Reads one partition.

    Args:
        directory: of it.
        options: what was asked for.
        tell: takes a sentence about what is not handed out.
    """

    def __init__(self, directory: PartitionDir, options: ServeOptions, tell: Callable[[str], None]) -> None:
        self._directory = directory
        self._options = options
        self._tell = tell
        self._limits = options.limits
        self._passed: list[tuple[int, int, str]] = []  # first and last offset that are passed over, and why
        self._many_passed = 0
        self._stopped = False
        self._has_transactions = False
        self._controls: set[int] = set()  # offsets of markers
        start = directory.start_offset if directory.log_bases else directory.log_start
        limits = options.limits
        self._found = ReadablePartition(start, limits.max_batch_bytes, limits.max_uncompressed_bytes)

    def read(self) -> ReadablePartition:
        """Return what can be handed out."""
        found, directory = self._found, self._directory
        cut = self._cut()
        with OpenFileCache() as cache:
            for number, base in enumerate(directory.log_bases):
                if self._stopped or (cut is not None and (number > cut.segment or cut[:2] == (number, 0))):
                    break
                end = cut.position if cut is not None and number == cut.segment else None
                self._segment(base, end, cache)
        found._segments = [one for one in found._segments if one.lasts]
        if found._segments:
            found.end_offset = max(found.start_offset, found._segments[-1].lasts[-1] + 1)
        if self._stopped:
            found.is_stopped = True
        found.epochs = [one for one in directory.sound_epochs if one.start_offset <= found.end_offset]
        found.last_stable_offset = found.end_offset
        if self._has_transactions:
            self._follow_transactions(cut)
        self._say_what_was_passed()
        return found

    def _cut(self) -> Cut | None:
        """Up to where the log counts; None for all of it."""
        if self._options.at is None:
            return None
        log = PartitionLog(self._directory, self._limits, ignore)
        return result_of(log.cuts([self._options.at]))[0] if log.bases else None

    def _segment(self, base: int, end: int | None, cache: OpenFileCache) -> None:
        directory = self._directory
        path = directory.path_of(base, FileKind.LOG)
        source = cache.open(path, follow=False)
        if isinstance(source, OpenFailure):
            if source.kind == "other":  # too many open files, or the like: it is read when that has passed
                raise OSError(None, source.sentence)
            self._tell(f"{source.sentence}: nothing of it is served")
            self._stopped |= self._options.on_damage == STOP
            return
        segment = Segment(path, base, cache, follow=False)
        try:
            scanned = read_log(
                TolerantSource(source, OSError),
                base,
                self._limits,
                directory.epochs_around(base),
                next_base=directory.next_base(base),
                hints=segment.hints,
                follow_producers=directory.key is None or directory.key[0] != OFFSETS_TOPIC,
            )
            self._take(path, scanned, scanned.overlay(source), end)
        except OSError as error:
            self._tell(f"{path}: cannot be read: {error.strerror or error}: nothing of it is served")
            self._stopped |= self._options.on_damage == STOP
            return
        for patch, why in zip(scanned.patches, scanned.fields, strict=True):
            self._tell(f"{path}: {why.code.name} at position {patch.position}: served with the field put right")

    def _take(self, path: str, scanned: ScannedLog, source: Source, end: int | None) -> None:
        """Keep the runs of a log that are served, in the order of their offsets."""
        found, segment = self._found, _Segment(path, scanned.patches)
        self._has_transactions |= scanned.has_transactions
        damage = [one.position for one in scanned.places]
        first_damage = min(damage, default=None) if self._options.on_damage == STOP else None
        runs = scanned.runs.by_offset() if scanned.is_renamed else list(scanned.runs)
        reached = found._segments[-1].lasts[-1] if found._segments else found.start_offset - 1
        for run in runs:
            if first_damage is not None and run.start >= first_damage:
                break
            stop = run.end if end is None else min(run.end, end)
            if run.start >= stop or run.last <= reached:
                continue
            reached = self._marks(segment, run._replace(end=stop), source, reached)
        if segment.lasts:
            found._segments.append(segment)
        self._note_places(scanned, end)
        self._stopped |= first_damage is not None and (end is None or first_damage < end)

    def _marks(self, segment: _Segment, run: ValidRun, source: Source, reached: int) -> int:
        """Add a run, from the first batch on that goes beyond what was reached; return how far it goes."""
        start = end = None
        for window in KafkaWalk(source, segment.path, run.start, run.end, self._limits.max_batch_bytes).windows():
            skip = 0
            if start is None:
                lasts = window.column(layout.LAST_OFFSET)
                skip = next((k for k, last in enumerate(lasts) if last > reached), window.count)
                if skip == window.count:
                    continue
                start = window.cell(skip, layout.POSITION)
            end = window.end(window.count)
            last = _scan.extremes(window.rows, window.count, layout.LAST_OFFSET)[1]
            reached = max(reached, last)
            segment.places.append(window.cell(skip, layout.POSITION))
            segment.lasts.append(reached)
            segment.times.append(_scan.extremes(window.rows, window.count, layout.MAX_TIMESTAMP)[1])
            if self._has_transactions:
                for k in _select.with_any(window.rows, window.count, layout.CONTROL_FLAG):
                    self._controls.add(window.cell(k, layout.BASE_OFFSET))
        if start is not None and end is not None:
            segment.runs.append(run._replace(start=start, end=end))
        return reached

    # --- transactions ---------------------------------------------------------------------------------------------
    def _follow_transactions(self, cut: Cut | None) -> None:
        """Find which transactions readers of committed data do not get, and where they stand."""
        found, directory = self._found, self._directory
        first = f"{directory.log_bases[0]:020}.log"
        log = InputFile(
            directory.path_of(directory.log_bases[0], FileKind.LOG),
            False,
            directory,
            parse_name(first),
            FileKind.LOG,
            directory.log_bases[0],
        )
        options = DumpOptions(
            max_batch_bytes=self._limits.max_batch_bytes, max_uncompressed_bytes=self._limits.max_uncompressed_bytes
        )
        outcomes = Outcomes([log], options)
        outcomes.know_all()
        told = sorted(Uncommitted(first, last, producer) for producer, first, last, _ in outcomes.not_committed())
        doubts = sum(fate for _, _, _, fate in outcomes.not_committed())
        found._uncommitted = told
        reach = found.start_offset - 1
        for one in told:
            reach = max(reach, one.last)
            found._reach.append(reach)
        found._stops = array("q", sorted({one.last + 1 for one in told if one.last not in self._controls}))
        if doubts:
            many = counted(doubts, "transaction")
            self._tell(f"{directory.path}: {many} in doubt: readers of committed data do not get their records")
        waits = self._open_from(cut, outcomes)
        if waits is not None:
            found.last_stable_offset = max(found.start_offset, min(found.end_offset, waits))

    def _open_from(self, cut: Cut | None, outcomes: Outcomes) -> int | None:
        """The first offset of the transactions that are open; None for none."""
        directory = self._directory
        with suppress(UnreadableError, OSError):
            if cut is not None:
                log = PartitionLog(directory, self._limits, ignore)
                opened = result_of(open_transactions(log, cut, self._limits))
                first = earliest_open({one.entry.producer_id: one.entry for one in opened})
            else:
                first = waits_for(LogReader(LogFiles(directory, ignore, self._limits.max_batch_bytes)))
            return None if first is None else first.first_offset
        return outcomes.first_open

    # --- what is passed over --------------------------------------------------------------------------------------
    def _note_places(self, scanned: ScannedLog, end: int | None) -> None:
        for place in scanned.places:
            if end is not None and place.position >= end:
                continue
            self._many_passed += 1
            if len(self._passed) < _MOST_TOLD:
                first = -1 if place.offset is None else place.offset
                last = first if place.last_offset is None else place.last_offset
                self._passed.append((first, last, ", ".join(place.codes)))

    def _say_what_was_passed(self) -> None:
        path, found = self._directory.path, self._found
        if not self._many_passed:
            return
        passed = self._passed
        where = [f"{span(first, last, 'offset') if first >= 0 else 'bytes'} ({why})" for first, last, why in passed]
        more = self._many_passed - len(where)
        where += [f"{more} more"] if more else []
        what = f"stops at offset {found.end_offset}, before" if self._stopped else "passes over"
        see = command_line("verify", named(path))
        self._tell(f"{path}: {what} {', '.join(where)}: {see}")
