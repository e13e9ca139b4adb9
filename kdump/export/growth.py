"""What has come to a log since it was read: by offsets, so that rolls, compaction and moves do not matter.

An edge is the offset of the next record. It lies behind a whole batch whose CRC is right, and a mark of that batch
tells the position at once; where another batch is there now (the log was compacted, or is a copy) the offset is
searched for. A broker may be at work: a directory is listed until two listings agree, and nothing counts as gone while
the cleaner puts files in place.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kdump.export.log_file import BatchMark, Between, LogEdge, LogFile, Split
from kdump.export.pruned import sought
from kdump.export.split import WantedLogs, cut, end_beside, end_of_index, hints_beside, logs_in, not_followed
from kdump.format.batch import layout
from kdump.format.batch.walk import Border, CheckedWalk, right_windows
from kdump.format.checksum import crc32
from kdump.format.kernels import wire
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.format.record.selection import Selection
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above, is_remote
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.export.origin import Origin
    from kdump.finding import Finding
    from kdump.storage.file_source import FileSource

_LISTINGS = 40  # of a directory that changes, until it is taken as it is
_PAUSE = 0.05  # seconds between two of them
_SWAP = ".swap"  # of files that the cleaner is about to put in place of others


class StreamLoss(Value):
    """Offsets that a stream cannot hand out, or has handed out though the log no longer has them."""

    first: int  # the first of them
    last: int  # the last
    is_gone: bool  # they are gone before they were read; else the log was truncated, or is another one

    @property
    def sentence(self) -> str:
        """What happened, for the user; the partition is said before it."""
        if self.is_gone:
            return f"offsets {self.first} to {self.last} were removed before the stream has read them"
        return (
            f"was truncated or made anew: offsets {self.first} to {self.last} were handed out, and are not those here"
        )


class OpenError(Exception):
    """A directory or a log cannot be opened."""

    def __init__(self, failure: OpenFailure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


class Grown(Value):
    """What a partition has that was not read."""

    between: Between  # its range
    logs: tuple[LogFile, ...]  # that have it, in order
    begin: int  # position in the first of them
    loss: StreamLoss | None  # what was lost before it
    topic_id: str | None  # of its directory
    begins: bool  # it does not begin where the stream has ended before
    wrong: int | None = None  # where it had ended before, by a batch whose base offset is wrong

    @property
    def size(self) -> int:
        """Bytes."""
        return max(0, sum(log.size for log in self.logs) - self.begin)


# --- what lies there -----------------------------------------------------------------------------------------
def settled(path: str) -> PartitionDir:
    """Return a partition directory as no broker is just changing it, as far as that can be had.

    Args:
        path: of it.
    """
    before: frozenset[str] | None = None
    for _ in range(_LISTINGS):
        directory = PartitionDir(path, LogDir(above(path)))
        names = frozenset(directory.listing.names)
        if is_remote(path):
            break  # a store puts nothing in place
        is_busy = any(name.endswith(_SWAP) for name in names)
        if names == before and not is_busy:
            break
        if is_busy or before is not None:
            time.sleep(_PAUSE)
        before = names
    return directory


def logs_from(path: str, origin: Origin, offset: int | None) -> tuple[PartitionDir, list[LogFile]]:
    """Return a partition directory, and its logs that may have an offset or a later one; the first of all at least.

    Args:
        path: of the directory.
        origin: where it is from.
        offset: None for all logs.

    Raises:
        OpenError: one of them cannot be opened.
    """
    for attempt in range(_LISTINGS):
        directory = settled(path)
        failure, found = directory.listing.failure, []
        if isinstance(directory.listing.error, FileNotFoundError):
            break  # the topic was deleted
        problems = [] if failure is None else [failure]
        if failure is None:
            found = [*logs_in(directory, origin, WantedLogs(offsets=(offset, None)))]
            problems += not_followed(directory.contents)
            problems += (one for one in found if isinstance(one, OpenFailure))
        if not problems:
            break
        if attempt == _LISTINGS - 1 or not all(one.missing for one in problems):
            raise OpenError(problems[0])
    return directory, [one for one in found if isinstance(one, LogFile)]


def _opened(log: LogFile) -> FileSource:
    source = open_source(log.path)
    if isinstance(source, OpenFailure):
        raise OpenError(source)
    return source


# --- places in a log -----------------------------------------------------------------------------------------
def _right_batches(
    source: FileSource, log: LogFile, border: Border, stop: int | None = None
) -> Iterator[tuple[int, int, int]]:
    """Yield last offset, position and end of the batches whose CRC is right, as far as their offsets are known.

    The base offset of a batch lies outside its CRC. It is what the walk takes it for: one that contradicts its
    neighbours, or what other files say of the end of the log, is the one that fits, or the batch is left out.

    Args:
        source: the log, as it is open.
        log: the same.
        border: where to begin.
        stop: file position; None for the end of the log.
    """
    assert log.base_offset is not None
    found: list[Finding] = []
    walk = CheckedWalk(
        source,
        found.append,
        segment=log.base_offset,
        next_base=log.next_base,
        known_end=lambda: end_beside(log),
        hints=lambda: hints_beside(log),
        max_batch_bytes=MAX_BATCH_BYTES,
        border=border,
    )
    walk.checks.follow_producers = False
    columns = (layout.CRC, layout.COMPUTED_CRC, layout.LAST_OFFSET, layout.SUSPICION, layout.POSITION)
    for window, _ in right_windows(walk, found, stop):
        found.clear()
        rows = zip(range(window.count), *map(window.column, columns), strict=False)
        for k, stored, computed, last, suspicion, position in rows:
            if stored == computed and not suspicion & layout.OUT_OF_RANGE:
                yield last, position, window.end(k + 1)


def _mark(source: FileSource, log: LogFile, position: int, size: int) -> BatchMark:
    assert log.base_offset is not None
    inode = source.status.st_ino if source.is_near else 0
    return BatchMark(log.base_offset, position, size, _header(source, position, size), inode)


def _header(source: FileSource, position: int, size: int) -> int:
    return crc32(source.read_at(position, min(size, layout.RECORDS_AT)))


def _holds(source: FileSource, log: LogFile, mark: BatchMark | None) -> bool:
    """Whether the batch of a mark is in a log."""
    if mark is None or mark.segment != log.base_offset or mark.position + mark.size > source.size:
        return False
    return _header(source, mark.position, mark.size) == mark.header


def _begin(source: FileSource, log: LogFile, edge: LogEdge) -> tuple[Border, int | None]:
    """Where the batches from an edge on begin; and where the log ends, if that is below it.

    Behind the batch of a mark that may be a lower offset than that of the edge: what was written since has shown that
    the base offset of that batch is wrong.
    """
    assert log.base_offset is not None
    start = Border(floor=log.base_offset - 1)
    if edge.offset <= log.base_offset:
        return start, None
    if edge.mark is not None and _holds(source, log, edge.mark):
        position = edge.mark.position + edge.mark.size
        return Border(position, floor=_last_before(source, log, position, edge.offset - 1)), None
    start, _ = sought(source, log, Selection(from_offset=edge.offset), start, source.size)
    position, reached = start.position, start.floor + 1
    for last, _, end in _right_batches(source, log, start):
        if last >= edge.offset:
            return Border(position, floor=edge.offset - 1), None
        position, reached = end, max(reached, last + 1)
    return Border(position, floor=reached - 1), reached if reached < edge.offset else None


def _last_before(source: FileSource, log: LogFile, position: int, last: int) -> int:
    """The last offset before a position, where the batch there does not contradict what it was taken for.

    Args:
        source: the log, as it is open.
        log: the same.
        position: behind the last batch that was read.
        last: what its last offset was taken for.
    """
    following = source.read_at(position, layout.LOG_OVERHEAD)
    # behind it may be zeros: those of a log that is preallocated contradict nothing
    is_batch = len(following) == layout.LOG_OVERHEAD and wire.i32(following, layout.SIZE_AT) > 0
    next_one = wire.i64(following, 0) if is_batch else log.next_base
    if next_one is None or next_one > last:
        return last
    assert log.base_offset is not None
    found = log.base_offset - 1
    for one, _, _ in _right_batches(source, log, Border(floor=found), position):
        found = max(found, one)
    return min(found, last)


def _end(source: FileSource, log: LogFile, border: Border, stop: int | None = None) -> tuple[LogEdge, int]:
    """Behind the last right batch that begins before a position, from a place on; and its position."""
    offset, last = border.floor + 1, None
    for found, position, end in _right_batches(source, log, border, stop):
        offset, last = max(offset, found + 1), (position, end)
    if log.next_base is not None:
        offset = min(offset, max(log.next_base, border.floor + 1))
    if last is None:
        return LogEdge(offset), border.position
    return LogEdge(offset, _mark(source, log, last[0], last[1] - last[0])), last[1]


def located(source: FileSource, split: Split) -> tuple[Split, StreamLoss | None]:
    """Return a piece with the positions that its range has in a log, and what of the range the log has no longer.

    Args:
        source: the log, as it is open.
        split: the piece.

    Raises:
        OSError: it cannot be read.
    """
    between, log = split.between, split.log.replace(size=source.size)
    assert between is not None
    border, _ = _begin(source, log, between.first)
    stop, loss = source.size, None
    if log.next_base is None or between.last.offset < log.next_base:
        last, end = _begin(source, log, between.last)
        stop = max(last.position, border.position)
        if end is not None and log.next_base is None:
            loss = StreamLoss(max(end, between.first.offset), between.last.offset - 1, is_gone=True)
    return Split(log, border, stop, between), loss


# --- what is new ---------------------------------------------------------------------------------------------
def grown(
    directory: PartitionDir, logs: Sequence[LogFile], before: LogEdge | None, topic_id: str | None
) -> Grown | None:
    """Return what a partition has that was not read; None for nothing.

    Args:
        directory: of the partition.
        logs: its logs from the edge on.
        before: how far it was read; None: not at all.
        topic_id: of the topic that was read; None for unknown.

    Raises:
        OpenError, OSError: a log cannot be read.
    """
    if not logs:
        return None
    start, now = directory.log_bases[0], directory.topic_id
    loss: StreamLoss | None = None
    if before is not None and None not in (topic_id, now) and topic_id != now:
        loss = StreamLoss(0, before.offset - 1, is_gone=False)
    elif before is not None and before.offset < start:
        loss = StreamLoss(before.offset, start - 1, is_gone=True)
    edge = LogEdge(start) if before is None or loss is not None else before
    wrong: int | None = None
    if loss is None:
        edge, loss = _believed(directory, logs, edge)
    if loss is None and before is not None and edge.offset < before.offset:
        wrong = before.offset
    logs = [one for one in logs if one.next_base is None or one.next_base > edge.offset]
    begin, first, last = 0, logs[0], logs[-1]
    with _opened(last) as source:
        border, end = _begin(source, last, edge)
        if end is not None:
            first_lost = end if loss is None else min(loss.first, end)
            loss, edge = StreamLoss(first_lost, edge.offset - 1, is_gone=False), LogEdge(end)
        far = end_of_index(source, last)
        reached, position = _end(source, last, far if far.position > border.position else border)
        reached = _witnessed(source, directory, reached)
        last = last.replace(size=position)
    if first.path == last.path:
        begin = min(border.position, position)
    elif first.base_offset is not None and edge.offset > first.base_offset:
        with _opened(first) as source:
            begin = _begin(source, first, edge)[0].position
    begins = before is None or loss is not None or wrong is not None
    if not begins and reached.offset <= edge.offset and position <= border.position:
        return None
    return Grown(Between(edge, reached), (*logs[:-1], last), begin, loss, now, begins=begins, wrong=wrong)


def _believed(directory: PartitionDir, logs: Sequence[LogFile], edge: LogEdge) -> tuple[LogEdge, StreamLoss | None]:
    """An edge as what has been written since shows it, and what the log has no longer of what lies below it.

    Args:
        directory: of the partition.
        logs: its logs, that of the mark among them while it is there.
        edge: how far it was read.
    """
    mark = edge.mark
    own = next((one for one in logs if mark is not None and one.base_offset == mark.segment), None)
    if mark is None:
        return edge, None
    if own is not None:
        with _opened(own) as source:
            if _is_written_anew(source, own, mark):
                end = _begin(source, own, edge)[1] if own.next_base is None else None
                if end is not None:
                    return LogEdge(end), StreamLoss(end, edge.offset - 1, is_gone=False)
                return LogEdge(edge.offset), StreamLoss(own.base_offset or 0, edge.offset - 1, is_gone=False)
            if _holds(source, own, mark):
                return edge.replace(offset=_begin(source, own, edge)[0].floor + 1), None
    start = next((one.start_offset for one in directory.sound_epochs if one.epoch > mark.epoch >= 0), edge.offset)
    if start < edge.offset:
        return LogEdge(edge.offset), StreamLoss(start, edge.offset - 1, is_gone=False)
    return edge, None


def _witnessed(source: FileSource, directory: PartitionDir, edge: LogEdge) -> LogEdge:
    """The same edge with the leader epoch of its batch, where the leader-epoch-checkpoint says the same.

    A log that was cut off and goes on has a later epoch there, whatever has become of its files.
    """
    mark = edge.mark
    if mark is None:
        return edge
    header = source.read_at(mark.position, layout.RECORDS_AT)
    epochs = [one.epoch for one in directory.sound_epochs if one.start_offset < edge.offset]
    if len(header) < layout.RECORDS_AT or header[layout.MAGIC_AT] < layout.MAGIC_V2 or not epochs:
        return edge
    epoch = wire.i32(header, layout.LEADER_EPOCH_AT)
    return edge.replace(mark=mark.replace(epoch=epoch)) if epoch == epochs[-1] else edge


def up_to(new: Grown, edge: LogEdge) -> Grown | None:
    """Return what of the growth of a partition lies before an edge that was seen earlier; None for nothing.

    Args:
        new: what was not read.
        edge: where the partition had its end then.
    """
    first, last = new.between.first, new.between.last
    if last.offset <= edge.offset:
        return new
    if first.offset >= edge.offset:
        return None if not new.begins else new.replace(between=Between(first, first), logs=())
    logs = [log for log in new.logs if log.base_offset is not None and log.base_offset < edge.offset]
    if not logs:
        return None
    mark, end = edge.mark, logs[-1]
    if mark is not None and mark.segment == end.base_offset:
        logs[-1] = end.replace(size=min(end.size, mark.position + mark.size))
    return new.replace(between=Between(first, edge), logs=tuple(logs))


def _is_written_anew(source: FileSource, log: LogFile, mark: BatchMark | None) -> bool:
    """Whether another batch is in the place of one in the same file: it was cut off, and the log has grown since."""
    if mark is None or not mark.inode or mark.segment != log.base_offset or not source.is_near:
        return False
    return source.status.st_ino == mark.inode and not _holds(source, log, mark)


def limited(new: Grown, size: int, files: int) -> tuple[LogEdge, int, int]:
    """Return how far a limit reaches: at least one batch; with the bytes and the files up to there.

    Args:
        new: what was not read.
        size: bytes, about.
        files: logs.

    Raises:
        OpenError, OSError: a log cannot be read.
    """
    used, begin = 0, new.begin
    for number, log in enumerate(new.logs, 1):
        rest = log.size - begin
        is_last = number == len(new.logs)
        if used + rest > size and rest:
            edge, position = _cut(log, new.between.first, begin + max(1, size - used))
            if position < log.size and edge.offset > max(new.between.first.offset, log.base_offset or 0):
                return edge, used + position - begin, number
        used, begin = used + rest, 0
        if is_last or number == files or used >= size:
            break
    assert log.next_base is not None or is_last
    return new.between.last if is_last else LogEdge(log.next_base or 0), used, number


def _cut(log: LogFile, first: LogEdge, target: int) -> tuple[LogEdge, int]:
    """The first edge at or after a position."""
    with _opened(log) as source:
        border, _ = _begin(source, log, first)
        found = cut(source, log, border, [target])
        if found and target <= found[0].position < log.size:
            return _edge_at(found[0]), found[0].position
        if source.is_near:
            return _end(source, log, border, target)
    return LogEdge(0), log.size


def _edge_at(border: Border) -> LogEdge:
    """The edge at a border: behind the last batch, as far as a walk came by it."""
    return LogEdge(max(border.floor, border.last_offset) + 1)


# --- what is read --------------------------------------------------------------------------------------------
def pieces_of(logs: Sequence[LogFile], between: Between) -> list[Split]:
    """Return the piece of each log that has some of a range.

    Args:
        logs: of the partition, in order.
        between: the range.
    """
    found = []
    for log in logs:
        assert log.base_offset is not None
        first, last = between.first, between.last
        if log.base_offset >= last.offset or (log.next_base is not None and log.next_base <= first.offset):
            continue
        first = first if first.offset > log.base_offset else LogEdge(log.base_offset)
        last = last if log.next_base is None or last.offset < log.next_base else LogEdge(log.next_base)
        found.append(Split(log, Border(floor=log.base_offset - 1), log.size, Between(first, last)))
    return found


def located_pieces(logs: Sequence[LogFile], between: Between) -> list[Split]:
    """Return the same with the positions that they have now.

    Args:
        logs: of the partition, in order.
        between: the range.

    Raises:
        OpenError, OSError: a log cannot be read.
    """
    found = []
    for split in pieces_of(logs, between):
        with _opened(split.log) as source:
            found.append(located(source, split)[0])
    return found


def cut_up(split: Split, size: int) -> list[Split]:
    """Return a piece of a stream as pieces of about a size.

    Args:
        split: the piece, located.
        size: bytes.

    Raises:
        OpenError, OSError: the log cannot be read.
    """
    between = split.between
    assert between is not None
    if split.size <= size:
        return [split]
    count = -(-split.size // max(1, size))
    targets = [split.border.position + split.size * k // count for k in range(1, count)]
    with _opened(split.log) as source:
        borders = cut(source, split.log, split.border, targets)
    inner = [one for one in borders if split.border.position < one.position < split.stop]
    edges = [between.first, *map(_edge_at, inner), between.last]
    places = [split.border, *inner]
    stops = [*(one.position for one in inner), split.stop]
    return [
        Split(split.log, place, stop, Between(edges[k], edges[k + 1]))
        for k, (place, stop) in enumerate(zip(places, stops, strict=True))
    ]


class OpenPieces:
    """The pieces of ranges as they lie there when their turn comes, each with its log open."""

    def __init__(self) -> None:
        self._source: FileSource | OpenFailure | None = None

    def opened(self, split: Split) -> FileSource | OpenFailure:
        """Return the log of the piece that was handed out last."""
        source, self._source = self._source, None
        return open_source(split.log.path) if source is None else source

    def of(self, path: str, origin: Origin, between: Between) -> Iterator[Split | StreamLoss]:
        """Yield the pieces of a range, and what it lacks.

        Args:
            path: of the partition directory.
            origin: where it is from.
            between: the range.

        Raises:
            OpenError, OSError: a log cannot be read.
        """
        first, last = between.first, between.last
        if first is not None and first.offset > last.offset:
            raise OpenError(OpenFailure(path, "other", f"{path}: a range that ends before it begins cannot be read"))
        while True:
            split, source = _next_piece(path, origin, Between(first, last))
            if split is None or source is None:
                if first.offset < last.offset:
                    yield StreamLoss(first.offset, last.offset - 1, is_gone=True)
                return
            log, own = split.log, split.between
            assert own is not None
            assert own.first is not None
            if first is not None and own.first.offset > first.offset:
                yield StreamLoss(first.offset, own.first.offset - 1, is_gone=True)
            found, loss = located(source, split)
            self._source = source
            yield found
            if loss is not None:
                yield loss
            if log.next_base is None or log.next_base >= last.offset:
                return
            first = LogEdge(log.next_base)


def _next_piece(path: str, origin: Origin, between: Between) -> tuple[Split | None, FileSource | None]:
    """The first piece of a range as it lies there now, and its log; the log may go while it is looked for."""
    for _ in range(_LISTINGS):
        found = pieces_of(logs_from(path, origin, between.first.offset)[1], between)
        if not found:
            break
        source = open_source(found[0].log.path)
        if not isinstance(source, OpenFailure):
            return found[0], source
        if not source.missing:
            raise OpenError(source)
    return None, None
