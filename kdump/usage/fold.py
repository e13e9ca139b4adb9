"""Files as they lie on the disk, and in their logs what their batches and records belong to, added up by name.

Strategy: the files of a directory are counted whole, whatever is in them, so the rows always add up. A log is walked
once, by its headers, and attributed batch by batch where the name is that of a batch; what belongs to no name (gaps,
batches whose CRC is wrong, indexes) stays in the row without one. Records are read where keys or groups are asked for:
the bytes of a record count where its batch is not compressed, for compressed bytes belong to no single key.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.segment_reading import Outline
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.format.record.reader import RecordReader
from kdump.item import Checked, CheckedFile, Growth, Progress, Usage
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.paths import base_name
from kdump.usage import rows
from kdump.usage.files import DiskFile, disk_file, files_of
from kdump.usage.freeable import freeable, together
from kdump.usage.names import codec_name, day, group_of
from kdump.usage.options import BY_HEADERS, BY_RECORDS
from kdump.usage.rows import Names
from kdump.usage.superseded import KeyMap

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from kdump.finding import Finding
    from kdump.format.batch.window import Window
    from kdump.format.record.chunk import Chunk
    from kdump.item import Freeable, Item
    from kdump.storage.names import PartitionName
    from kdump.storage.partition_dir import PartitionDir
    from kdump.usage.options import UsageOptions

GROUPS_TOPIC = "__consumer_offsets"
_LEFT = ("delete", "stray")
_OLDEST = 1_293_840_000_000  # 2011-01-01: before Kafka's first release
_DAY = 86_400_000
_NO_TIME = -1


class _Place:
    """What one name has: files, and sums over their batches and records."""

    def __init__(self) -> None:
        self.parts = [0, 0, 0, 0]
        self.allocated = self.files = self.segments = 0
        self.sums = rows.empty()
        self.timed = [0, rows.NEVER, -rows.NEVER, 0]  # bytes, first and last timestamp, batches set aside
        self.partitions: list[tuple[Freeable, tuple[str, ...], tuple[str, ...]]] = []

    def file(self, file: DiskFile) -> None:
        """Count a file."""
        self.parts[file.part] += file.size
        self.allocated += file.allocated
        self.files += 1
        self.segments += file.part == rows.LOG


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
        return self.parsed.topic if by == "topic" else f"{self.parsed.topic}-{self.parsed.partition}"

    def listed(self, log_dir: set[str]) -> Iterator[DiskFile | OpenFailure]:
        """Yield the files; of a log.dir without those in its partition directories."""
        if self.alone is not None:
            yield disk_file(self.alone, os.stat(self.alone))
            return
        yield from files_of(self.path, leftover=self.leftover, without=log_dir)


class UsageFold:
    """Adds up what some paths have.

    Args:
        options: what was asked for.
    """

    def __init__(self, options: UsageOptions) -> None:
        self._options = options
        self._places: dict[str | None, _Place] = {None: _Place()}
        self._names = Names()
        self._reader = RecordReader(options.max_uncompressed_bytes, max_batch=options.max_batch_bytes)
        self._wanted: dict[object, list[int]] | None = None  # of the second pass: exact sums of some keys
        self._null = rows.empty()  # records without a name
        self._is_exact = True

    # --- files ------------------------------------------------------------------------------------------------
    def count(self, part: UsagePart, without: set[str]) -> Iterator[Item]:
        """Count the files of a directory and read its logs, and yield what is wrong with them."""
        options = self._options
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
        keys = KeyMap() if options.superseded else None
        if keys is not None:
            yield from self._put_keys(keys, logs)
        seen: dict[int, Outline] = {}
        for file, place in logs:
            yield from self._log(file, place, part, keys, seen)
        if logs and options.by in ("topic", "partition") and part.directory is not None and part.alone is None:
            found = freeable(part.directory, seen, options)
            part.directory.close()
            if found is not None:
                logs[0][1].partitions.append(found)

    def _put_keys(self, keys: KeyMap, logs: list[tuple[DiskFile, _Place]]) -> Iterator[Item]:
        """Learn the last offset of each key of a partition; what is wrong is told when the logs are read again."""
        for file, _ in logs:
            source = open_source(file.path, follow=False)
            if isinstance(source, OpenFailure):
                continue
            with source:
                walk = CheckedWalk(source, lambda _one: None, max_batch_bytes=self._options.max_batch_bytes)
                for window in walk.windows():
                    for chunk in self._reader.chunks(window):
                        keys.put(chunk)
            yield Progress(0, 0, file.path)
        self._is_exact &= not keys.is_full

    def again(self, part: UsagePart) -> Iterator[Item]:
        """Read the logs of a partition a second time, for the keys that are wanted."""
        for file in part.listed(set()):
            if isinstance(file, OpenFailure) or file.part != rows.LOG or part.directory is None:
                continue
            if not parse_name(base_name(file.path)).is_live:
                continue
            source = open_source(file.path, follow=False)
            if isinstance(source, OpenFailure):
                continue
            with source:
                walk = CheckedWalk(source, lambda _one: None, max_batch_bytes=self._options.max_batch_bytes)
                for window in walk.windows():
                    for chunk in self._reader.chunks(window):
                        self._keys(chunk, None, group=self._options.by == "group")
                    yield Progress(0, 0, file.path)

    @property
    def needs_second_pass(self) -> bool:
        """Whether the sums of keys are not exact yet."""
        return self._options.by in BY_RECORDS and self._names.error > 0

    def want_largest(self) -> None:
        """Begin the second pass: sums of the names that may be the largest."""
        self._wanted = {name: rows.empty() for name, _ in self._names.largest(None)}
        self._null = rows.empty()

    # --- logs -------------------------------------------------------------------------------------------------
    def _log(
        self, file: DiskFile, place: _Place, part: UsagePart, keys: KeyMap | None, seen: dict[int, Outline]
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
        try:
            with source:
                walk = CheckedWalk(
                    source,
                    held.append,
                    segment=layout.UNKNOWN if base is None else base,
                    max_batch_bytes=options.max_batch_bytes,
                )
                for window in walk.windows():
                    yield from held
                    held.clear()
                    batches += window.count
                    records += self._window(window, file, place, part, keys)
                    if window.count:
                        largest = max(largest, *window.column(layout.MAX_TIMESTAMP))
                        end = window.cell(window.count - 1, layout.LAST_OFFSET) + 1
                    if options.progress:
                        yield Progress(walk.border.position, source.size, file.path)
                yield from held
                if base is not None:
                    seen[base] = Outline(largest, end, is_sound=True)
        except OSError as error:
            yield OpenFailure(file.path, "read", f"{file.path}: cannot be read: {error.strerror}")
        yield Checked((CheckedFile(file.path, FileKind.LOG, file.size),), batches, records)

    def _window(self, window: Window, file: DiskFile, place: _Place, part: UsagePart, keys: KeyMap | None) -> int:
        """Add up the batches of a window; return how many records they say they have."""
        options = self._options
        by = options.by
        sizes, counts = window.column(layout.SIZE), window.column(layout.COUNT)
        if not window.all_trusted:
            crcs = zip(window.column(layout.CRC), window.column(layout.COMPUTED_CRC), strict=True)
            sound = [found == computed for found, computed in crcs]
        else:
            sound = None
        _add_headers(place.sums, window, sizes, counts, sound)
        _add_times(place.timed, window, sizes, file.modified + _DAY, sound)
        if by in BY_HEADERS:
            self._headers(window, sizes, counts, sound)
        is_group = by == "group" and part.parsed is not None and part.parsed.topic == GROUPS_TOPIC
        if options.reads_records:
            for chunk in self._reader.chunks(window):
                _add_records(place.sums, chunk)
                gone = keys.superseded(chunk) if keys is not None else None
                if gone is not None:
                    _add_superseded(place.sums, chunk, gone)
                    if by in BY_HEADERS:
                        self._superseded_by_header(chunk, gone)
                if by == "key" or is_group:
                    self._keys(chunk, gone, group=is_group)
        return sum(counts)

    def _headers(self, window: Window, sizes: array[int], counts: array[int], sound: list[bool] | None) -> None:
        names = self._header_names(window)
        firsts, lasts = window.column(layout.BASE_TIMESTAMP), window.column(layout.MAX_TIMESTAMP)
        of = self._names.of
        for k, name in enumerate(names):
            if name is None or (sound is not None and not sound[k]):
                continue
            sums = of(name)
            sums[rows.WEIGHT] += sizes[k]
            sums[rows.BYTES] += sizes[k]
            sums[rows.RECORDS] += counts[k]
            sums[rows.BATCHES] += 1
            _see_time(sums, firsts[k] if firsts[k] >= 0 else lasts[k], lasts[k])

    def _header_names(self, window: Window) -> list[str | None]:
        by = self._options.by
        if by == "codec":
            return [codec_name(attributes) for attributes in window.column(layout.ATTRIBUTES)]
        if by == "producer":
            return [None if one < 0 else str(one) for one in window.column(layout.PRODUCER_ID)]
        return [day(one) for one in window.column(layout.MAX_TIMESTAMP)]

    def _superseded_by_header(self, chunk: Chunk, gone: list[int]) -> None:
        names = self._header_names(chunk.window)
        for i in gone:
            at = i * layout.RECORD_WIDTH
            name = names[chunk.rows[at + layout.R_BATCH]]
            if name is not None:
                sums = self._names.of(name)
                sums[rows.SUPERSEDED] += 1
                sums[rows.SUPERSEDED_BYTES] += chunk.rows[at + layout.R_END] - chunk.rows[at + layout.R_AT]

    def _keys(self, chunk: Chunk, gone: list[int] | None, *, group: bool) -> None:
        """Attribute the records of a chunk to their keys, or to the groups of them."""
        if not chunk.filled:
            return
        window, view, wide = chunk.window, chunk.view, layout.RECORD_WIDTH
        cells = chunk.rows[: chunk.filled * wide]
        columns = [
            cells[at::wide]
            for at in (
                layout.R_BATCH,
                layout.R_KEY_AT,
                layout.R_KEY_SIZE,
                layout.R_VALUE_SIZE,
                layout.R_AT,
                layout.R_END,
                layout.R_TIMESTAMP,
            )
        ]
        attributes = window.column(layout.ATTRIBUTES)
        plain = [one & layout.CODEC_MASK == 0 for one in attributes]
        control = [one & layout.CONTROL_FLAG != 0 for one in attributes]
        data = view.obj if isinstance(view.obj, bytes) else view
        lost = set(gone or ())
        of = self._names.of
        wanted = self._wanted
        for i, (k, at, size, value, begin, end, timestamp) in enumerate(zip(*columns, strict=True)):
            name: object = None
            if size >= 0 and not control[k]:
                name = bytes(data[at : at + size])
                if group:
                    name = group_of(name)
            if name is None:
                continue
            if wanted is None:
                sums = of(name)
            else:
                known = wanted.get(name)
                if known is None:
                    continue
                sums = known
            content = size + (value if value > 0 else 0)
            sums[rows.WEIGHT] += content
            if plain[k]:
                sums[rows.BYTES] += end - begin
            sums[rows.RECORDS] += 1
            sums[rows.KEY_BYTES] += size
            sums[rows.VALUE_BYTES] += content - size
            sums[rows.UNCOMPRESSED] += end - begin
            _see_time(sums, timestamp, timestamp)
            if i in lost:
                sums[rows.SUPERSEDED] += 1
                sums[rows.SUPERSEDED_BYTES] += end - begin

    # --- rows -------------------------------------------------------------------------------------------------
    def usages(self) -> Iterator[Usage]:
        """Yield the rows: by bytes, largest first, and last what has no name."""
        options = self._options
        by, top = options.by, options.top
        if by in BY_HEADERS or by in BY_RECORDS:
            yield from self._by_names()
            return
        null = self._places.pop(None)
        named = sorted(self._places.items(), key=lambda one: (-sum(one[1].parts), one[0] or ""))
        for name, place in named[:top]:
            yield self._usage(name, place)
        for _, place in named[len(named) if top is None else top :]:
            _merge(null, place)
        yield self._usage(None, null)

    def _by_names(self) -> Iterator[Usage]:
        options = self._options
        names = self._names
        null = self._places[None]
        if self._wanted is not None:
            exact = Names()
            exact.sums = self._wanted
            chosen = exact.largest(options.top)
        else:
            chosen = names.largest(options.top)
        if options.by != "key":
            chosen.sort(key=lambda one: (-one[1][rows.BYTES], str(one[0])))
        rest = list(null.sums)
        for name, sums in chosen:
            is_exact = self._is_exact and (self._wanted is not None or not names.error)
            is_exact &= not names.error or sums[rows.WEIGHT] >= names.error
            place = _Place()
            place.parts = [sums[rows.BYTES], 0, 0, 0]
            place.sums = sums
            null.parts[rows.LOG] -= sums[rows.BYTES]
            for column in (
                rows.RECORDS, rows.KEY_BYTES, rows.VALUE_BYTES, rows.UNCOMPRESSED, rows.SUPERSEDED,
                rows.SUPERSEDED_BYTES, rows.BATCHES,
            ):  # fmt: skip
                rest[column] -= sums[column]
            shown = name if isinstance(name, bytes | str) else str(name)
            yield self._usage(shown, place).replace(exact=is_exact, error=0 if is_exact else names.error)
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
            log_size=log,
            index_size=index,
            other_size=other,
            leftover_size=leftover,
            allocated=place.allocated,
            files=place.files,
            segments=place.segments,
            batches=sums[rows.BATCHES],
            records=sums[rows.RECORDS],
            key_size=sums[rows.KEY_BYTES] if read else None,
            value_size=sums[rows.VALUE_BYTES] if read else None,
            uncompressed=sums[rows.UNCOMPRESSED] if read else None,
            first_timestamp=sums[rows.FIRST] if sums[rows.FIRST] != rows.NEVER else None,
            max_timestamp=sums[rows.LAST] if sums[rows.LAST] != -rows.NEVER else None,
            superseded=sums[rows.SUPERSEDED] if options.superseded else None,
            superseded_size=sums[rows.SUPERSEDED_BYTES] if options.superseded else None,
            exact=self._is_exact,
            error=0,
            freeable=free,
            waits=waits,
            assumed=assumed,
        )

    def growths(self, full_at: int, now: int) -> Iterator[Growth]:
        """Yield how fast each name grows, and all together.

        Args:
            full_at: bytes at which it is full.
            now: ms since the epoch.
        """
        total = _Place()
        for name, place in sorted(self._places.items(), key=lambda one: (one[0] is None, -sum(one[1].parts))):
            _merge(total, place)
            if name is not None:
                yield _growth(name, place, full_at, now)
        yield _growth(None, total, full_at, now)


def _growth(name: str | None, place: _Place, full_at: int, now: int) -> Growth:
    size, first, last, aside = place.timed
    span = last - first
    if span <= 0:
        is_full = sum(place.parts) >= full_at
        is_timed = first <= last
        return Growth(
            name,
            None,
            first if is_timed else None,
            last if is_timed else None,
            aside,
            now if is_full else None,
            0 if is_full else None,
        )
    per_day = size * _DAY // span
    missing = full_at - sum(place.parts)
    if missing <= 0:
        return Growth(name, per_day, first, last, aside, now, 0)
    if not per_day:
        return Growth(name, per_day, first, last, aside, None, None)
    wait = missing * span // size
    return Growth(name, per_day, first, last, aside, now + wait, round(wait / _DAY, 1))


def _merge(place: _Place, other: _Place) -> None:
    """Put one name into another."""
    place.parts = [a + b for a, b in zip(place.parts, other.parts, strict=True)]
    place.allocated += other.allocated
    place.files += other.files
    place.segments += other.segments
    place.partitions += other.partitions
    rows.add(place.sums, other.sums)
    size, first, last, aside = other.timed
    timed = place.timed
    place.timed = [timed[0] + size, min(timed[1], first), max(timed[2], last), timed[3] + aside]


def _see_time(sums: list[int], first: int, last: int) -> None:
    if first >= 0:
        sums[rows.FIRST] = min(sums[rows.FIRST], first)
    if last >= 0:
        sums[rows.LAST] = max(sums[rows.LAST], last)


def _add_headers(
    sums: list[int], window: Window, sizes: array[int], counts: array[int], sound: list[bool] | None
) -> None:
    """Add up what headers say; a batch whose CRC is wrong counts as a batch, and nothing else of it is believed."""
    sums[rows.BATCHES] += window.count
    sums[rows.RECORDS] += sum(counts)
    firsts, lasts = window.column(layout.BASE_TIMESTAMP), window.column(layout.MAX_TIMESTAMP)
    if sound is not None:
        firsts, lasts = (
            type(one)("q", [value for value, ok in zip(one, sound, strict=True) if ok]) for one in (firsts, lasts)
        )
    if not lasts:
        return
    earliest = min((one for one in firsts if one >= 0), default=_NO_TIME)
    _see_time(
        sums, earliest if earliest >= 0 else min((one for one in lasts if one >= 0), default=_NO_TIME), max(lasts)
    )


def _add_times(timed: list[int], window: Window, sizes: array[int], latest: int, sound: list[bool] | None) -> None:
    """Take the batches into account whose timestamps make sense."""
    for k, (size, time) in enumerate(zip(sizes, window.column(layout.MAX_TIMESTAMP), strict=True)):
        if sound is not None and not sound[k]:
            continue
        if _OLDEST <= time <= latest:
            timed[0] += size
            timed[1] = min(timed[1], time)
            timed[2] = max(timed[2], time)
        else:
            timed[3] += 1


def _add_records(sums: list[int], chunk: Chunk) -> None:
    """Add up the sizes of keys, values and records."""
    cells, wide = chunk.rows[: chunk.filled * layout.RECORD_WIDTH], layout.RECORD_WIDTH
    sums[rows.KEY_BYTES] += sum(one for one in cells[layout.R_KEY_SIZE :: wide] if one > 0)
    sums[rows.VALUE_BYTES] += sum(one for one in cells[layout.R_VALUE_SIZE :: wide] if one > 0)
    sums[rows.UNCOMPRESSED] += sum(cells[layout.R_END :: wide]) - sum(cells[layout.R_AT :: wide])


def _add_superseded(sums: list[int], chunk: Chunk, gone: list[int]) -> None:
    sums[rows.SUPERSEDED] += len(gone)
    for i in gone:
        at = i * layout.RECORD_WIDTH
        sums[rows.SUPERSEDED_BYTES] += chunk.rows[at + layout.R_END] - chunk.rows[at + layout.R_AT]
