"""Files as they lie on the disk, and in their logs what their batches and records belong to, added up by name.

Strategy: the files of a directory are counted whole, whatever is in them, so the rows always add up. A log is walked
once, by its headers, and attributed batch by batch where the name is that of a batch; what belongs to no name (gaps,
batches whose CRC is wrong, indexes) stays in the row without one. Records are read where keys or groups are asked for:
the bytes of a record count where its batch is not compressed, for compressed bytes belong to no single key.

A part (a directory) is counted by itself, in any process (`PartFold`), and what it comes to is joined in the order of
the parts (`UsageFold`): so the rows are the same for any number of processes.
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING

from kdump.broker.segment_reading import Outline
from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.format.record.reader import RecordReader
from kdump.format.record.record_checks import RecordChecks
from kdump.item import Checked, CheckedFile, Progress
from kdump.rows.usage import Growth, Usage
from kdump.storage.file_source import FileShrankError, OpenFailure
from kdump.storage.names import OFFSETS_TOPIC, parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.paths import base_name, why_not
from kdump.usage import _sums, rows
from kdump.usage.files import DiskFile, disk_file, files_of
from kdump.usage.freeable import freeable, together
from kdump.usage.key_sums import KeySums, empty, true_rows
from kdump.usage.names import codec_of, day
from kdump.usage.options import BY_HEADERS, BY_RECORDS
from kdump.usage.rows import Names
from kdump.usage.superseded import KeyMap
from kdump.value import Value
from kdump.words.time_units import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kdump.finding import Finding
    from kdump.format.batch.window import Window
    from kdump.format.record.chunk import Chunk
    from kdump.item import Item
    from kdump.storage.file_source import FileSource
    from kdump.storage.names import PartitionName
    from kdump.storage.partition_dir import PartitionDir
    from kdump.usage.freeable import Retains
    from kdump.usage.key_sums import KeyTable
    from kdump.usage.options import UsageOptions

_OLDEST = 1_293_840_000_000  # 2011-01-01: before Kafka's first release
_DAY = 86_400_000
_HOUR = 3_600_000
_FARTHEST = 36_525 * _DAY  # a hundred years: what is full later is never full
_NO_TIME = -1


class _Place:
    """What one name has: files, and sums over their batches and records."""

    def __init__(self) -> None:
        self.parts = [0, 0, 0, 0]
        self.files = self.segments = 0
        self.disks: dict[int, tuple[int, int]] = {}  # by file system the bytes of files, and those of their blocks
        self.sums = empty()
        self.timed = array("q", bytes(8 * _sums.T_WIDTH))
        self.timed[_sums.T_FIRST], self.timed[_sums.T_LAST] = _sums.NEVER, _NO_TIME
        self.partitions: list[Retains] = []

    def file(self, file: DiskFile) -> None:
        """Count a file."""
        self.parts[file.part] += file.size
        self.on_disk(file.device, file.size, file.allocated)
        self.files += 1
        self.segments += file.part == rows.LOG

    def on_disk(self, device: int, size: int, allocated: int) -> None:
        """Count what files have on a file system."""
        before = self.disks.get(device, (0, 0))
        self.disks[device] = before[0] + size, before[1] + allocated


class UsagePart:
    """A directory that is counted: its files and, of a partition that a broker has, its logs."""

    def __init__(self, path: str, directory: PartitionDir | None, *, leftover: bool, alone: str | None = None) -> None:
        self.path = path
        self.directory = directory
        self.leftover = leftover
        self.alone = alone  # the one file that was named
        self.parsed: PartitionName | None = parse_partition(base_name(path)) if directory is not None else None

    def name(self, by: str) -> str | None:
        """The name of the whole directory, None where it is not one of `by`."""
        if self.directory is None or by not in ("topic", "partition"):
            return None
        if self.parsed is None:
            return base_name(self.path)
        return self.parsed.topic if by == "topic" else self.parsed.topic_partition

    def has_names(self, by: str) -> bool:
        """Whether records of it have a name."""
        is_groups = self.parsed is not None and self.parsed.topic == OFFSETS_TOPIC
        return by == "key" or (by == "group" and is_groups)

    def listed(self, log_dir: set[str]) -> Iterator[DiskFile | OpenFailure]:
        """Yield the files; of a log.dir without those in its partition directories. What vanishes is passed over."""
        if self.alone is None:
            yield from files_of(self.path, leftover=self.leftover, without=log_dir)
            return
        try:
            yield disk_file(self.alone, os.stat(self.alone))
        except FileNotFoundError:
            return
        except OSError as error:
            why = f"{self.alone}: cannot be looked at: {why_not(self.alone, error)}"
            yield OpenFailure(self.alone, "permission", why)

    @property
    def log_bytes(self) -> int:
        """Bytes of its logs, about: how far a process is, is told by that."""
        if self.directory is None:
            return 0
        if self.alone is not None:
            return self.directory.listing.size(base_name(self.alone))
        return sum(self.directory.listing.size(f"{base:020}.log") for base in self.directory.log_bases)


class UsageShare(Value):
    """What one part comes to."""

    places: dict[str | None, _Place]  # by name; None for what has none
    # names, error: sums by the names of batches, and what they may miss
    names: dict[str, array[int]]
    error: int
    keys: KeyTable | None  # sums by the names of records, None where nobody asked
    logs: tuple[tuple[str, int], ...]  # that were read, and the bytes of each that count
    exact: bool  # the keys of all records could be told apart


class PartFold:
    """Counts parts, one after the other; what it holds in between is room, and nothing else.

    Args:
        options: what was asked for.
        keys: a table of names to be counted exactly; None for a table of its own.
    """

    def __init__(self, options: UsageOptions, keys: KeySums | None = None) -> None:
        self._options = options
        self._reader = RecordReader.within(options)
        self._keys = keys
        self._done = 0  # bytes of the part

    def rest(self) -> None:
        """Let go of the room."""
        self._keys = None

    # --- files ------------------------------------------------------------------------------------------------
    def count(self, part: UsagePart, without: set[str]) -> Iterator[Item | UsageShare]:
        """Count the files of a directory and read its logs; yield what is wrong with them, and last what it comes to.

        Args:
            part: the directory.
            without: paths of directories in it that are other parts.
        """
        options = self._options
        self._done = 0
        self._places: dict[str | None, _Place] = {None: _Place()}
        self._names = Names()
        logs: list[tuple[DiskFile, _Place]] = []
        for file in part.listed(without):
            if isinstance(file, OpenFailure):
                yield file
                continue
            name = file.kind if options.by == "kind" else part.name(options.by)
            place = self._places.get(name)
            if place is None:
                place = self._places[name] = _Place()
            place.file(file)
            if file.part == rows.LOG and part.directory is not None and parse_name(base_name(file.path)).is_live:
                logs.append((file, place))
        read = tuple((file.path, file.size) for file, _ in logs)
        if options.by in BY_RECORDS:
            self._keys = self._keys or KeySums(_sums.OF_GROUPS if options.by == "group" else _sums.OF_KEYS)
            self._keys.clear()
        newest = KeyMap() if options.superseded else None
        if newest is not None:
            yield from self._put_keys(newest, read)
        seen: dict[int, Outline] = {}
        for file, place in logs:
            yield from self._log(file, place, part, newest, seen)
        if options.by == "day":
            yield from self._wrong_unit(logs, seen)
        if logs and options.by in ("topic", "partition") and part.directory is not None and part.alone is None:
            found = freeable(part.directory, seen, options)
            part.directory.close()
            if found is not None:
                logs[0][1].partitions.append(found)
        keys = self._keys.table() if self._keys is not None and part.has_names(options.by) else None
        is_exact = newest is None or not newest.is_full
        yield UsageShare(self._places, self._names.sums, self._names.error, keys, read, is_exact)

    def again(self, logs: Sequence[tuple[str, int]]) -> Iterator[Progress | KeyTable]:
        """Read logs a second time, for the names that are wanted; yield what they come to.

        Args:
            logs: paths, and the bytes that count.
        """
        assert self._keys is not None
        self._done = 0
        self._keys.fix()
        newest = KeyMap() if self._options.superseded else None
        if newest is not None:
            yield from self._put_keys(newest, logs)
        for chunk in self._chunks(logs):
            if isinstance(chunk, Progress):
                yield chunk
            else:
                self._keys.add(chunk, newest.kept(chunk) if newest is not None else None)
        yield self._keys.table()

    def _put_keys(self, newest: KeyMap, logs: Sequence[tuple[str, int]]) -> Iterator[Progress]:
        """Learn the last offset of each key of a partition; what is wrong is told when the logs are read again."""
        for chunk in self._chunks(logs):
            if isinstance(chunk, Progress):
                yield chunk
            else:
                newest.put(chunk)

    def _chunks(self, logs: Sequence[tuple[str, int]]) -> Iterator[Chunk | Progress]:
        """Yield the records of logs, as far as they can be read, and how far that has got."""
        for path, size in logs:
            source = open_source(path, follow=False)
            if isinstance(source, OpenFailure):
                continue
            with source:
                source.size = min(source.size, size)
                limit = self._options.max_batch_bytes
                walk = CheckedWalk(source, ignore, next_base=None, max_batch_bytes=limit)
                try:
                    for window in walk.windows():
                        yield from self._reader.chunks(window)
                        yield Progress(self._done + walk.border.position, 0, path)
                except OSError:  # it is told by the pass that counts
                    continue
                finally:
                    self._done += source.size

    def _wrong_unit(
        self, logs: Sequence[tuple[DiskFile, _Place]], seen: Mapping[int, Outline]
    ) -> Iterator[OpenFailure]:
        """Say once of a partition that its days are none, as its timestamps are not in milliseconds."""
        for file, _ in logs:
            base = parse_name(base_name(file.path)).base_offset
            if base is None or base not in seen or unit_of(seen[base].largest) is None:
                continue
            from kdump.broker.wrong_unit import unit_sentence, wrong_unit  # few logs have any

            source = open_source(file.path, follow=False)
            if isinstance(source, OpenFailure):
                return
            with source:
                found = wrong_unit(source, self._options.max_batch_bytes)
            if found is not None:
                yield OpenFailure(file.path, "skipped", f"{file.path}: {unit_sentence(*found[2:])}")
            return

    # --- logs -------------------------------------------------------------------------------------------------
    def _log(
        self, file: DiskFile, place: _Place, part: UsagePart, newest: KeyMap | None, seen: dict[int, Outline]
    ) -> Iterator[Item]:
        held: list[Finding] = []
        source = open_source(file.path, follow=False)
        if isinstance(source, OpenFailure):
            if not source.missing:
                yield source
            return
        options = self._options
        base = parse_name(base_name(file.path)).base_offset
        batches = records = 0
        largest, end = _NO_TIME, None
        checks = RecordChecks(file.path) if options.reads_records else None
        try:
            with source:
                source.size = min(source.size, file.size)  # what a broker appends meanwhile is not counted
                walk = CheckedWalk(
                    source,
                    held.append,
                    segment=layout.UNKNOWN if base is None else base,
                    next_base=None if base is None or part.directory is None else part.directory.next_base(base),
                    max_batch_bytes=options.max_batch_bytes,
                )
                walk.checks.follow_producers = part.parsed is None or part.parsed.topic != OFFSETS_TOPIC
                for window in walk.windows():
                    yield from held
                    held.clear()
                    batches += window.count
                    if options.reads_records:
                        yield from self._records(window, place, part, newest, checks)
                    records += self._window(window, file, place)
                    if window.count:
                        largest = max(largest, *window.column(layout.MAX_TIMESTAMP))
                        end = wire.add(window.cell(window.count - 1, layout.LAST_OFFSET), 1)
                    if options.progress:
                        yield Progress(self._done + walk.border.position, 0, file.path)
                yield from _settled(held, source, file)
                if base is not None:
                    seen[base] = Outline(largest, end, is_sound=True)
        except FileShrankError:  # retention or a truncation at work
            pass
        except OSError as error:
            yield OpenFailure(file.path, "read", f"{file.path}: cannot be read: {error.strerror}")
        self._done += file.size
        yield Checked((CheckedFile(file.path, FileKind.LOG, file.size),), batches, records)

    def _window(self, window: Window, file: DiskFile, place: _Place) -> int:
        """Add up the batches of a window; return how many records they say they have."""
        records = _sums.headers(window.rows, window.count, _OLDEST, file.modified + _DAY, place.sums, place.timed)
        if self._options.by in BY_HEADERS:
            self._headers(window)
        return records

    def _headers(self, window: Window) -> None:
        names = self._header_names(window)
        sizes, counts = window.column(layout.SIZE), window.column(layout.COUNT)
        firsts, lasts = window.column(layout.BASE_TIMESTAMP), window.column(layout.MAX_TIMESTAMP)
        found, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
        of = self._names.of
        for k, name in enumerate(names):
            if name is None or found[k] != computed[k]:
                continue
            sums = of(name)
            sums[_sums.WEIGHT] += sizes[k]
            sums[_sums.BYTES] += sizes[k]
            sums[_sums.RECORDS] += counts[k] if counts[k] >= 0 else 1
            sums[_sums.BATCHES] += 1
            first = firsts[k] if firsts[k] >= 0 else lasts[k]
            if 0 <= first < sums[_sums.FIRST]:
                sums[_sums.FIRST] = first
            if lasts[k] > sums[_sums.LAST]:
                sums[_sums.LAST] = lasts[k]

    def _header_names(self, window: Window) -> list[str | None]:
        by = self._options.by
        if by == "codec":
            return [codec_of(attributes) for attributes in window.column(layout.ATTRIBUTES)]
        if by == "producer":
            return [None if one < 0 else str(one) for one in window.column(layout.PRODUCER_ID)]
        return [day(one) for one in window.column(layout.MAX_TIMESTAMP)]

    def _records(
        self, window: Window, place: _Place, part: UsagePart, newest: KeyMap | None, checks: RecordChecks | None
    ) -> Iterator[Finding]:
        """Add up the records of a window."""
        by, has_names = self._options.by, part.has_names(self._options.by)
        is_old, counted = window.count > 0 and min(window.column(layout.MAGIC)) < layout.MAGIC_V2, set[int]()
        for chunk in self._reader.chunks(window):
            keep = newest.kept(chunk) if newest is not None else None
            rows = true_rows(chunk)
            _sums.records(rows, chunk.filled, keep or b"", keep is not None, place.sums)
            if is_old:
                place.sums[_sums.RECORDS] += _within_wrappers(chunk, counted)
            if keep is not None and by in BY_HEADERS:
                self._superseded_by_header(chunk, keep)
            if has_names and self._keys is not None:
                self._keys.add(chunk, keep)
            if checks is not None:
                yield from checks.check(chunk)

    def _superseded_by_header(self, chunk: Chunk, keep: bytearray) -> None:
        names, found = self._header_names(chunk.window), true_rows(chunk)
        for i in range(chunk.filled):
            at = i * layout.RECORD_WIDTH
            if keep[i] or found[at + layout.R_KEY_SIZE] < 0:
                continue
            name = names[chunk.rows[at + layout.R_BATCH]]
            if name is not None:
                sums = self._names.of(name)
                sums[_sums.SUPERSEDED] += 1
                sums[_sums.SUPERSEDED_BYTES] += found[at + layout.R_END] - found[at + layout.R_AT]


def _within_wrappers(chunk: Chunk, counted: set[int]) -> int:
    """How many records more than headers say are in compressed messages of magic 0 and 1, each of which counts as one.

    Args:
        chunk: records.
        counted: positions of the messages whose one was taken into account; updated.
    """
    more, window = 0, chunk.window
    for row in range(0, chunk.filled * layout.RECORD_WIDTH, layout.RECORD_WIDTH):
        k = chunk.rows[row + layout.R_BATCH]
        if not window.is_wrapper(k):
            continue
        position = window.cell(k, layout.POSITION)
        more += position in counted
        counted.add(position)
    return more


def _settled(held: list[Finding], source: FileSource, file: DiskFile) -> Iterator[Finding]:
    """Yield the last findings of a log; but not that its end is torn where a broker appends to it."""
    try:
        is_growing = os.stat(file.path).st_size > file.size
    except OSError:
        is_growing = False
    for finding in held:
        reaches = (finding.position or 0) + (finding.length or 0)
        if not (is_growing and finding.gap and reaches >= source.size):
            yield finding


class UsageFold:
    """Joins what parts come to, and makes the rows.

    Args:
        options: what was asked for.
    """

    def __init__(self, options: UsageOptions) -> None:
        self._options = options
        self._places: dict[str | None, _Place] = {None: _Place()}
        self._names = Names()
        self._keys: KeySums | None = None
        if options.by in BY_RECORDS:
            self._keys = KeySums(_sums.OF_GROUPS if options.by == "group" else _sums.OF_KEYS)
        self._grown: list[array[int]] = []  # of each part: bytes and times of its batches
        self._is_second = False  # the sums of keys are those of the second pass
        self._is_exact = True
        self._tell: set[int] = set()  # file systems that tell how many blocks a file has

    def join(self, share: UsageShare) -> None:
        """Add what a part comes to."""
        part = _Place()
        for name, place in share.places.items():
            _merge(self._places.setdefault(name, _Place()), place)
            if self._options.full_at is not None:
                _merge_times(part, place)
        self._grown.append(part.timed)
        self._names.join(share.names, share.error)
        if share.keys is not None and self._keys is not None:
            self._keys.join(share.keys)
        self._is_exact &= share.exact

    @property
    def needs_second_pass(self) -> bool:
        """Whether the sums of keys are not exact yet."""
        return self._keys is not None and self._keys.error > 0

    def begin_second_pass(self) -> PartFold:
        """Return what counts the names that may be the largest; what it yields is for `join_again`."""
        assert self._keys is not None
        self._keys.fix()
        self._is_second = True
        return PartFold(self._options, self._keys.copy())

    def join_again(self, table: KeyTable) -> None:
        """Add what the second pass over a part comes to."""
        assert self._keys is not None
        self._keys.join(table.replace(error=0))

    # --- rows -------------------------------------------------------------------------------------------------
    def _allocated(self, place: _Place) -> int:
        """The bytes of a name on the disk; those of its files where no file of a file system has any block."""
        if not self._tell:
            places = self._places.values()
            self._tell = {-1, *(disk for one in places for disk, (_, blocks) in one.disks.items() if blocks)}
        return sum(blocks if disk in self._tell else size for disk, (size, blocks) in place.disks.items())

    def usages(self) -> Iterator[Usage]:
        """Yield the rows: what is largest first (`Usage.weight`), and last what has no name."""
        options = self._options
        by, top = options.by, options.top
        if by in BY_HEADERS or by in BY_RECORDS:
            yield from self._by_names()
            return
        null = _Place()
        _merge(null, self._places[None])
        named = self._largest()
        for name, place in named[:top]:
            yield self._usage(name, place)
        for _, place in named[len(named) if top is None else top :]:
            _merge(null, place)
        yield self._usage(None, null)

    def _largest(self) -> list[tuple[str, _Place]]:
        """The names and what they have on the disk, largest first."""
        named = ((name, place) for name, place in self._places.items() if name is not None)
        return sorted(named, key=lambda one: (-self._allocated(one[1]), -sum(one[1].parts), one[0]))

    def _chosen(self) -> tuple[list[tuple[str | bytes, array[int]]], int, bool]:
        """The names that have a row, what their sums may miss, and whether they are exact all the same."""
        by, top = self._options.by, self._options.top
        if self._keys is None:
            found: list[tuple[str | bytes, array[int]]] = sorted(
                self._names.sums.items(), key=lambda one: (-one[1][_sums.WEIGHT], one[0])
            )
            chosen, error, counted = found[:top], self._names.error, False
        else:
            chosen, error, counted = list(self._keys.largest(top, texts=by == "group")), self._keys.error, True
        if by != "key":
            chosen.sort(key=lambda one: (-one[1][_sums.BYTES], str(one[0])))
        return chosen, error, counted and self._is_second

    def _by_names(self) -> Iterator[Usage]:
        chosen, error, counted = self._chosen()
        null = _Place()
        _merge(null, self._places[None])
        rest = null.sums[:]
        for name, sums in chosen:
            is_exact = self._is_exact and (not error or (counted and sums[_sums.WEIGHT] >= error))
            place = _Place()
            place.parts = [sums[_sums.BYTES], 0, 0, 0]
            place.sums = sums
            null.parts[rows.LOG] -= sums[_sums.BYTES]
            for column in (
                _sums.RECORDS, _sums.KEY_BYTES, _sums.VALUE_BYTES, _sums.UNCOMPRESSED, _sums.SUPERSEDED,
                _sums.SUPERSEDED_BYTES, _sums.BATCHES,
            ):  # fmt: skip
                rest[column] -= sums[column]
            yield self._usage(name, place).replace(exact=is_exact, error_bytes=0 if is_exact else error)
        null.sums = rest
        yield self._usage(None, null)

    def _usage(self, name: str | bytes | None, place: _Place) -> Usage:
        options, sums = self._options, place.sums
        read = options.reads_records
        log, index, other, leftover = place.parts
        free, waits, assumed = together(place.partitions)
        return Usage(
            by=options.by,
            name=name,
            log_bytes=log,
            index_bytes=index,
            other_bytes=other,
            leftover_bytes=leftover,
            allocated_bytes=self._allocated(place),
            files=place.files,
            segments=place.segments,
            batches=sums[_sums.BATCHES],
            records=sums[_sums.RECORDS],
            key_bytes=sums[_sums.KEY_BYTES] if read else None,
            value_bytes=sums[_sums.VALUE_BYTES] if read else None,
            uncompressed_bytes=sums[_sums.UNCOMPRESSED] if read else None,
            first_timestamp=sums[_sums.FIRST] if sums[_sums.FIRST] != _sums.NEVER else None,
            max_timestamp=sums[_sums.LAST] if sums[_sums.LAST] != _NO_TIME else None,
            superseded_records=sums[_sums.SUPERSEDED] if options.superseded else None,
            superseded_bytes=sums[_sums.SUPERSEDED_BYTES] if options.superseded else None,
            exact=self._is_exact,
            error_bytes=0,
            freeable=free,
            compaction_waits=waits,
            assumed=assumed,
        )

    def growths(self, full_at: int, now: int) -> Iterator[Growth]:
        """Yield how fast each name that has a row grows, and all together.

        All grow by what each part got a day from its first batch to the newest of all: a topic that nobody writes to
        any more counts less with every day, and one that is old does not hide how fast a new one grows.

        Args:
            full_at: bytes at which it is full.
            now: ms since the epoch.
        """
        total = _Place()
        for _, place in sorted(self._places.items(), key=lambda one: one[0] is None):
            _merge(total, place)
        for name, place in self._largest()[: self._options.top]:
            rate = _per_day(place.timed, place.timed[_sums.T_LAST])
            yield _growth(name, place, rate, full_at - self._allocated(place), now)
        rates = [_per_day(timed, total.timed[_sums.T_LAST]) for timed in self._grown]
        known = [rate for rate in rates if rate is not None]
        yield _growth(None, total, sum(known) if known else None, full_at - self._allocated(total), now)


def _per_day(timed: array[int], end: int) -> float | None:
    """Bytes a day up to a time; None where one moment is all there is. A burst is taken as an hour's work at least."""
    span = end - timed[_sums.T_FIRST]
    return timed[_sums.T_BYTES] * _DAY / max(span, _HOUR) if span > 0 else None


def _growth(name: str | None, place: _Place, per_day: float | None, missing: int, now: int) -> Growth:
    """How fast a name grows, and when the bytes that are missing on the disk have come."""
    _, first, last, aside = place.timed
    wait = missing * _DAY / per_day if per_day else _FARTHEST
    found = Growth(
        name,
        None if per_day is None else int(per_day),
        first if first <= last else None,
        to_timestamp=last if first <= last else None,
        set_aside_batches=aside,
        full_at=None,
        days_left=None,
    )
    if missing <= 0:
        return found.replace(full_at=now, days_left=0)
    if wait >= _FARTHEST:
        return found
    return found.replace(full_at=now + int(wait), days_left=round(wait / _DAY, 1))


def _merge(place: _Place, other: _Place) -> None:
    """Put one name into another."""
    place.parts = [a + b for a, b in zip(place.parts, other.parts, strict=True)]
    for device, (size, allocated) in other.disks.items():
        place.on_disk(device, size, allocated)
    place.files += other.files
    place.segments += other.segments
    place.partitions += other.partitions
    rows.add(place.sums, other.sums)
    _merge_times(place, other)


def _merge_times(place: _Place, other: _Place) -> None:
    timed, more = place.timed, other.timed
    timed[_sums.T_BYTES] += more[_sums.T_BYTES]
    timed[_sums.T_FIRST] = min(timed[_sums.T_FIRST], more[_sums.T_FIRST])
    timed[_sums.T_LAST] = max(timed[_sums.T_LAST], more[_sums.T_LAST])
    timed[_sums.T_ASIDE] += more[_sums.T_ASIDE]
