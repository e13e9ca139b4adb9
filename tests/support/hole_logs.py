"""Logs with a past: what brokers append, roll, clean, copy to followers and truncate, as Kafka's classes do.

Nothing of kdump is used here: what is made must not depend on what is tested (`tests/support/holes.py` asks for these
logs, `tests/support/hole_truth.py` says what their holes prove).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tests.support.partitions import Files, aborted, checkpoint, name, offset_index, snapshot, time_index
from tests.support.segments import CONTROL, DELETE_HORIZON, GZIP, NONE, TIME, TRANSACTIONAL, Record, batch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from random import Random

_HORIZON = TIME + 86_400_000  # ms
_NOBODY = -1


@dataclass(frozen=True)
class Batch:
    """A batch of magic 2.

    Args:
        base: its first offset, which stays when a cleaner removes the record there.
        last: its last offset, which stays too.
        records: offset, key and value of those that are left.
        producer: id, epoch and base sequence.
        is_transactional: of a transaction.
        commits: of a control batch: whether its marker commits; None for a batch of data.
        time: of every record, ms.
        epoch: of the leader.
        has_horizon: a cleaner has set its delete horizon.
        codec: of the records.
    """

    base: int
    last: int
    records: tuple[tuple[int, bytes | None, bytes | None], ...]
    producer: tuple[int, int, int] = (_NOBODY, _NOBODY, -1)
    is_transactional: bool = False
    commits: bool | None = None
    time: int = TIME
    epoch: int = 0
    has_horizon: bool = False
    codec: int = NONE

    @property
    def is_short(self) -> bool:
        """Whether it has fewer records than offsets."""
        return len(self.records) <= self.last - self.base

    @cached_property
    def data(self) -> bytes:
        """Its bytes. Source: MemoryRecordsBuilder, DefaultRecordBatch.writeEmptyHeader."""
        base_time = _HORIZON if self.has_horizon and self.records else self.time
        made = [Record(value, key, (), self.time - base_time, at - self.base) for at, key, value in self.records]
        flags = TRANSACTIONAL * self.is_transactional | CONTROL * (self.commits is not None)
        flags |= DELETE_HORIZON * (self.has_horizon and bool(self.records))
        return batch(
            self.base,
            made,
            codec=self.codec if made else NONE,
            flags=flags if made else flags | self.codec,
            epoch=self.epoch,
            producer=self.producer,
            base_timestamp=base_time,
            max_timestamp=self.time,
            last_delta=self.last - self.base,
            body=None if made else b"",
        )


@dataclass
class Segment:
    """A segment: its base offset and its batches."""

    base: int
    batches: list[Batch]

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return sum(len(one.data) for one in self.batches)


class Aborted(NamedTuple):
    """An entry of a transaction index."""

    producer: int
    first: int
    last: int
    stable: int


class Producers:
    """What a broker knows of producers after some batches. Source: ProducerStateManager, ProducerAppendInfo."""

    def __init__(self) -> None:
        self._entries: dict[int, list[int]] = {}
        self._open: dict[int, int] = {}  # first offset of the transaction, by producer
        self.aborted: list[Aborted] = []

    def take(self, one: Batch) -> None:
        """Take a batch."""
        producer, epoch, sequence = one.producer
        if producer == _NOBODY or (one.commits is not None and not one.records):
            return
        entry = self._entries.setdefault(producer, [epoch, -1, -1, 0, -1, -1])
        entry[0] = epoch
        if one.commits is None:
            delta = one.last - one.base
            entry[1:5] = sequence + delta, one.last, delta, one.time
            if one.is_transactional:
                self._open.setdefault(producer, one.base)
            return
        entry[4], entry[5] = one.time, 0
        first = self._open.pop(producer, None)
        if first is not None and not one.commits:
            stable = min(self._open.values(), default=one.base + 1)
            self.aborted.append(Aborted(producer, first, one.base, stable))

    def stable(self, end: int) -> int:
        """The last stable offset of a log that ends at `end`."""
        return min(self._open.values(), default=end)

    def is_open(self, producer: int) -> bool:
        """Whether the producer has a transaction that nothing has ended."""
        return producer in self._open

    def last_of(self, producer: int) -> int:
        """The last data offset of a producer; -1 if only markers are known."""
        return self._entries[producer][2] if producer in self._entries else -1

    def snapshot(self) -> bytes:
        """The bytes of a snapshot."""
        return snapshot(
            *(
                (who, epoch, sequence, last, delta, time, coordinator, self._open.get(who, -1))
                for who, (epoch, sequence, last, delta, time, coordinator) in self._entries.items()
            )
        )


def after(batches: Sequence[Batch], end: int) -> Producers:
    """What a broker knows of producers after the batches below an offset."""
    found = Producers()
    for one in batches:
        if one.base < end:
            found.take(one)
    return found


@dataclass
class Log:
    """A replica of a partition.

    Args:
        segments: by base offset; the last one is active.
        end: the log end offset.
        start: the log start offset.
        appended: all batches as they were when this replica got them.
        epochs: entries of its leader-epoch-checkpoint.
        dirty: the entry of the cleaner; None: no cleaner has ended here.
        aborted: entries of transaction indexes by base offset of the segment.
        known: producers at the log end.
    """

    segments: list[Segment]
    end: int = 0
    start: int = 0
    appended: list[Batch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    dirty: int | None = None
    aborted: dict[int, list[Aborted]] = field(default_factory=dict)
    known: Producers = field(default_factory=Producers)

    @property
    def batches(self) -> list[Batch]:
        """All batches that are there now."""
        return [one for segment in self.segments for one in segment.batches]

    def append(self, one: Batch, segment_bytes: int) -> None:
        """Append a batch, behind a roll where the active segment is full. Source: UnifiedLog.maybeRoll."""
        active = self.segments[-1]
        if active.batches and active.size + len(one.data) > segment_bytes:
            self.segments.append(Segment(max(one.base, self.end), []))
        before = len(self.known.aborted)
        self.known.take(one)
        self.aborted.setdefault(self.segments[-1].base, []).extend(self.known.aborted[before:])
        self.segments[-1].batches.append(one)
        self.appended.append(one)
        if not self.epochs or one.epoch > self.epochs[-1][0]:
            self.epochs.append((one.epoch, one.base))
        self.end = one.last + 1

    def roll(self) -> None:
        """Roll the active segment if there is something in it."""
        if self.segments[-1].batches:
            self.segments.append(Segment(self.end, []))

    def truncate(self, target: int) -> None:
        """Truncate to an offset: a batch that ends there or behind goes as a whole. Source: UnifiedLog.truncateTo."""
        self.segments = [one for one in self.segments if one.base <= target] or [Segment(target, [])]
        active = self.segments[-1]
        active.batches = [one for one in active.batches if one.last < target]
        self.appended = [one for one in self.appended if one.last < target]
        self.epochs = [one for one in self.epochs if one[1] < target]
        self.aborted = {one.base: self.aborted.get(one.base, []) for one in self.segments}
        self.aborted[active.base] = [one for one in self.aborted[active.base] if one.last < target]
        self.end = target
        self.known = after(self.appended, target)
        self.dirty = None if self.dirty is None else min(self.dirty, target)


# --- a leader -----------------------------------------------------------------------------------------------
class Writers:
    """Producers at work on a leader.

    Args:
        chance: decides everything.
        keys: how many there are.
        plain: no producer has an id.
        keyless: half of the records have no key: no topic for a cleaner.
    """

    def __init__(self, chance: Random, keys: int, *, plain: bool = False, keyless: bool = False) -> None:
        self._chance = chance
        self._keys = keys
        self._keyless = keyless
        self._plain = plain
        self._sequences: dict[int, int] = {}
        self._time = TIME
        self._open: set[int] = set()
        self.epoch = chance.randrange(3)

    def write(self, log: Log, count: int, segment_bytes: int) -> None:
        """Append some batches."""
        for _ in range(count):
            if self._chance.random() < 0.04:
                self.epoch += self._chance.randrange(1, 3)
            log.append(self._next(log.end), segment_bytes)

    def finish(self, log: Log, segment_bytes: int) -> None:
        """End all transactions."""
        for who in sorted(self._open):
            log.append(self._marker(who, log.end), segment_bytes)

    def _next(self, base: int) -> Batch:
        chance = self._chance
        kind = 0.0 if self._plain else chance.random()
        if self._open and kind > 0.85:
            return self._marker(chance.choice(sorted(self._open)), base)
        self._time += chance.randrange(1, 2000)
        count = chance.choice((1, 1, 1, 2, 2, 3, 5))
        records = tuple((base + at, *self._record()) for at in range(count))
        made = Batch(
            base,
            base + count - 1,
            records,
            time=self._time,
            epoch=self.epoch,
            codec=GZIP if chance.random() < 0.1 else NONE,
        )
        if kind < 0.5:
            return made
        who = chance.choice((1000, 1001)) if kind < 0.7 else chance.choice((2000, 2001, 2002))
        if who >= 2000:
            self._open.add(who)
        sequence = self._sequences.get(who, 0)
        self._sequences[who] = sequence + count
        return replace(made, producer=(who, 0, sequence), is_transactional=who >= 2000)

    def _record(self) -> tuple[bytes | None, bytes | None]:
        chance = self._chance
        key = None if self._keyless and chance.random() < 0.5 else b"key-%d" % int(self._keys * chance.random() ** 2)
        return key, None if key and chance.random() < 0.1 else b"v" * chance.randrange(1, 60)

    def _marker(self, who: int, base: int) -> Batch:
        self._time += 1
        self._open.discard(who)
        commits = self._chance.random() < 0.6
        record = (base, struct.pack(">hh", 0, int(commits)), struct.pack(">hi", 0, 0))
        return Batch(
            base, base, (record,), (who, 0, -1), True, commits, time=self._time, epoch=self.epoch
        )  # fmt: skip


# --- the cleaner --------------------------------------------------------------------------------------------
class Pass(NamedTuple):
    """How a pass of the cleaner goes.

    Args:
        is_late: delete horizons are over.
        active: producers that have not expired.
        segment_bytes: size up to which segments are joined.
        groups: so many groups of segments are replaced, then it is aborted; None: it ends.
        room: so many offsets of dirty records fit its map; None: all.
    """

    is_late: bool
    active: Collection[int]
    segment_bytes: int
    groups: int | None = None
    room: int | None = None


def clean(log: Log, how: Pass) -> None:
    """Clean a log. Source: Cleaner.doClean, CleanedTransactionMetadata, MemoryRecords.filterTo."""
    known = log.known
    limit = min(known.stable(log.end), log.segments[-1].base)
    dirty = max(log.dirty or 0, log.segments[0].base)
    cleanable = [one for one in log.segments[:-1] if one.base < limit]
    if not cleanable or dirty >= limit:
        return
    fates = _fates(log.appended)
    newest: dict[bytes, int] = {}
    reached = dirty - 1
    for one in (one for segment in cleanable for one in segment.batches):
        if one.last < dirty or one.base >= limit:
            continue
        if how.room is not None and one.base > dirty + how.room and newest:
            break
        if one.commits is None and fates.get(one.base) is not False:
            newest.update((key, at) for at, key, _ in one.records if key is not None)
        reached = one.last
    stop = reached + 1 if how.room is not None else min(limit, max(reached + 1, limit))
    cleanable = [one for one in cleanable if one.base < stop]
    groups: list[list[Segment]] = []
    for segment in cleanable:
        if groups and sum(one.size for one in groups[-1]) + segment.size <= how.segment_bytes:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    seen: dict[int, int] = {}  # transactions of which something is left: producer, last batch
    made: list[Segment] = []
    entries: dict[int, list[Aborted]] = {}
    for group in groups[: how.groups]:
        kept = Segment(group[0].base, [])
        entries[kept.base] = []
        listed = {one.last: one for segment in group for one in log.aborted.get(segment.base, ())}
        for one in (one for segment in group for one in segment.batches):
            left = _filtered(one, newest, reached, fates, seen, how, known, entries[kept.base], listed)
            if left is not None:
                kept.batches.append(left)
        made.append(kept)
    replaced = sum(len(group) for group in groups[: how.groups])
    rest = log.segments[replaced:]
    log.aborted = entries | {one.base: log.aborted.get(one.base, []) for one in rest}
    log.segments = made + rest
    if how.groups is None or how.groups >= len(groups):
        log.dirty = stop


def _fates(batches: Sequence[Batch]) -> dict[int, bool]:
    """How the transaction of each batch ended, by its base offset; those that are open are missing."""
    found: dict[int, bool] = {}
    waiting: dict[int, list[int]] = {}
    for one in batches:
        if one.commits is not None:
            found.update(dict.fromkeys(waiting.pop(one.producer[0], ()), one.commits))
        elif one.is_transactional:
            waiting.setdefault(one.producer[0], []).append(one.base)
    return found


def _filtered(
    one: Batch,
    newest: dict[bytes, int],
    reached: int,
    fates: dict[int, bool],
    seen: dict[int, int],
    how: Pass,
    known: Producers,
    entries: list[Aborted],
    listed: dict[int, Aborted],
) -> Batch | None:
    """What a pass leaves of a batch; None if nothing."""
    who = one.producer[0]
    is_over = one.has_horizon and how.is_late
    if one.commits is not None:
        is_bare = who not in seen
        seen.pop(who, None)
        if not is_bare and one.base in listed:
            entries.append(listed[one.base])
        if is_bare and is_over:
            is_last = who in how.active and known.last_of(who) == -1
            return replace(one, records=(), has_horizon=False) if is_last else None
        return replace(one, has_horizon=True) if is_bare and one.records and not one.has_horizon else one
    is_aborted = fates.get(one.base) is False
    if one.is_transactional:
        seen[who] = one.last
    records = () if is_aborted else tuple(
        (at, key, value)
        for at, key, value in one.records
        if at > reached or (key is not None and at >= newest.get(key, -1) and (value is not None or not is_over))
    )  # fmt: skip
    if not records:
        is_last = who in how.active and known.last_of(who) == one.last
        return replace(one, records=(), has_horizon=False) if is_last else None
    has_tombstone = any(value is None for _, _, value in records)
    if records == one.records and not (has_tombstone and not one.has_horizon):
        return one
    return replace(one, records=records, has_horizon=one.has_horizon or has_tombstone)


# --- followers ----------------------------------------------------------------------------------------------
def follow(leader: Log, log: Log, until: int, segment_bytes: int) -> None:
    """Fetch what a leader has, up to an offset."""
    for one in leader.batches:
        if one.base >= log.end and one.last < until:
            log.append(one, segment_bytes)


def follower(leader: Log, start: int, until: int, segment_bytes: int) -> Log:
    """A new replica of a leader, from the batch on that has an offset."""
    log = Log([Segment(start, [])], start, start)
    follow(leader, log, until, segment_bytes)
    return log


# --- files --------------------------------------------------------------------------------------------------
class Stop(NamedTuple):
    """How a log lies on the disk.

    Args:
        interval: index.interval.bytes.
        is_clean: the broker was shut down; else its last indexes have slots that nothing was written to.
        slots: so many.
    """

    interval: int
    is_clean: bool
    slots: int


def entries_of(batches: Sequence[Batch], interval: int) -> Iterator[tuple[Batch, int, tuple[int, int]]]:
    """Yield where an index gets an entry: the batch, its position, and the newest time with its offset."""
    at = entry_at = 0
    latest = (-1, -1)
    for one in batches:
        latest = max(latest, (one.time, one.last), key=lambda pair: pair[0])
        if at - entry_at > interval:
            yield one, at, latest
            entry_at = at
        at += len(one.data)


def files(log: Log, stop: Stop) -> Files:
    """The files of a partition directory."""
    found: Files = {}
    for segment in log.segments:
        found |= segment_files(segment, stop, is_open=segment is log.segments[-1] and not stop.is_clean)
        entries = log.aborted.get(segment.base)
        if entries:
            found[name(segment.base, "txnindex")] = b"".join(aborted(*one) for one in entries)
    bases = [one.base for one in log.segments[1:]] + ([log.end] if stop.is_clean else [])
    for base in bases:
        found[name(base, "snapshot")] = after(log.appended, base).snapshot()
    found["leader-epoch-checkpoint"] = checkpoint(*log.epochs)
    return found


def segment_files(segment: Segment, stop: Stop, *, is_open: bool) -> Files:
    """The log and the indexes of a segment; an open one has slots that nothing was written to, and no last time."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    for one, at, latest in entries_of(segment.batches, stop.interval):
        offsets.append((one.last, at))
        if not times or latest[0] > times[-1][0]:
            times.append(latest)
    if segment.batches and not is_open:
        latest = max(((one.time, one.last) for one in segment.batches), key=lambda pair: pair[0])
        if not times or latest[0] > times[-1][0]:
            times.append(latest)
    base = segment.base
    slots = stop.slots if is_open else 0
    return {
        name(base): b"".join(one.data for one in segment.batches),
        name(base, "index"): offset_index(base, *offsets) + bytes(8 * slots),
        name(base, "timeindex"): time_index(base, *times) + bytes(12 * slots),
    }
