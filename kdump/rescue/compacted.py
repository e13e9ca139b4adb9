"""Copies of a batch that the cleaner has passed over differently: which is the larger, and which keys it revives.

Of a record its offset and a hash are held, and a batch is read again for the keys that are wanted: what one batch
decompresses to is no measure of memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from hashlib import blake2b
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.read_limits import HELD_KEY_BYTES
from kdump.format.record.chunk import KEPT
from kdump.format.record.cut_record import encoded
from kdump.format.record.reader import RecordReader, key_and_value
from kdump.rescue.epochs import NEVER
from kdump.rescue.valid_runs import batches_of, first_offset
from kdump.rows.salvaged import Revived

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.format.read_limits import ReadLimits
    from kdump.format.record.chunk import Chunk
    from kdump.format.source import Source
    from kdump.rescue.line import Candidate, Line
    from kdump.rescue.scanned_log import ReadLog, ScannedLog

_MOST = 1_000_000  # records of a batch that are compared, and keys that are followed
_HASH = 16  # bytes
NEITHER = 2
"""Of two batches of which neither has all the records of the other, and which do not contradict each other."""


class _Records:
    """The records of a batch, as offsets and hashes."""

    def __init__(self) -> None:
        self.offsets = array("q")  # ascending
        self.hashes = bytearray()  # one after the other

    def has_all_of(self, other: _Records) -> bool:
        """Tell whether each record of another batch is here too."""
        if len(other.offsets) > len(self.offsets):
            return False
        at = 0
        for number, offset in enumerate(other.offsets):
            at = bisect_left(self.offsets, offset, at)
            if at == len(self.offsets) or self.offsets[at] != offset:
                return False
            if self.hashes[at * _HASH : (at + 1) * _HASH] != other.hashes[number * _HASH : (number + 1) * _HASH]:
                return False
        return True

    def agrees_with(self, other: _Records, *, is_one: bool) -> bool:
        """Tell whether both have a record in common, and nothing else at one offset.

        Args:
            other: the records of another batch.
            is_one: one leader wrote both at the same offsets: a cleaner may have left them nothing in common.
        """
        own = {offset: self.hashes[k * _HASH : (k + 1) * _HASH] for k, offset in enumerate(self.offsets)}
        common = [(k, offset) for k, offset in enumerate(other.offsets) if offset in own]
        are_same = all(own[at] == other.hashes[k * _HASH : (k + 1) * _HASH] for k, at in common)
        return are_same and (is_one or bool(common))

    def has(self, offset: int) -> bool:
        """Tell whether a record has an offset."""
        at = bisect_left(self.offsets, offset)
        return at < len(self.offsets) and self.offsets[at] == offset


def subset(logs: Sequence[ReadLog], one: Candidate, other: Candidate, limits: ReadLimits) -> int | None:
    """Return which of two batches has all the records of the other: 0 or 1; None where they are two.

    NEITHER where each lacks records of the other, and those that both have are the same. None too where that cannot be
    told: a batch cannot be read, or it has more than a million records, or odd offsets.

    Args:
        logs: all that were read, by number.
        one, other: batches that have offsets in common, of one epoch.
        limits: for reading them.
    """
    first = _records_at(logs[one.log].source, one.position, limits)
    second = None if first is None else _records_at(logs[other.log].source, other.position, limits)
    if first is None or second is None:
        return None
    if first.has_all_of(second):
        return 0
    if second.has_all_of(first):
        return 1
    is_one = one.epoch == other.epoch >= 0 and (one.first, one.last) == (other.first, other.last)
    return NEITHER if first.agrees_with(second, is_one=is_one) else None


def has_all_of(one: tuple[Source, int], other: tuple[Source, int], limits: ReadLimits, by: int = 0) -> bool:
    """Tell whether a batch has all the records of another one; not where either cannot be read.

    Args:
        one, other: the log of each, and its position there.
        limits: for reading them.
        by: what is added to the offsets of the other one, where its base offset is wrong.
    """
    first, second = _records_at(*one, limits), _records_at(*other, limits)
    if second is not None and by:
        second.offsets = array("q", [offset + by for offset in second.offsets])
    return first is not None and second is not None and first.has_all_of(second)


def _records_at(source: Source, position: int, limits: ReadLimits) -> _Records | None:
    """The records of the batch at a position; None where they cannot be read, are too many, or do not ascend."""
    found = _Records()
    last, is_here = -1, False
    for chunk in _chunks_at(source, position, limits):
        is_here = True
        if chunk.problem is not None or len(found.offsets) + chunk.filled > _MOST:
            return None
        for row in _rows(chunk):
            if row[layout.R_OFFSET] <= last:
                return None
            last = row[layout.R_OFFSET]
            found.offsets.append(last)
            found.hashes += _hash(chunk, row)
    return found if is_here else None


def _chunks_at(source: Source, position: int, limits: ReadLimits) -> Iterator[Chunk]:
    """The records of the batch at a position; a problem where they cannot be read."""
    size = int.from_bytes(source.read_at(position + layout.SIZE_AT, 4), "big", signed=True) + layout.LOG_OVERHEAD
    reader = RecordReader.within(limits)
    for window in batches_of(source, position, position + size, limits.max_batch_bytes):
        yield from reader.chunks(window)
        return


def _rows(chunk: Chunk) -> Iterator[array[int]]:
    for at in range(0, chunk.filled * layout.RECORD_WIDTH, layout.RECORD_WIDTH):
        yield chunk.rows[at : at + layout.RECORD_WIDTH]


def _hash(chunk: Chunk, row: array[int]) -> bytes:
    """What tells a record from any other one, whatever its batch counts its timestamp from.

    The cleaner of each broker puts its own delete horizon into a batch, and all timestamps count from that then.
    """
    found, view = blake2b(digest_size=_HASH), chunk.view
    if chunk.window.cell(row[layout.R_BATCH], layout.MAGIC) < layout.MAGIC_V2:
        found.update(view[row[layout.R_AT] + layout.MAGIC_AT : row[layout.R_END]])  # inside, an offset is relative
        return found.digest()
    found.update(repr((row[layout.R_ATTRIBUTES], row[layout.R_TIMESTAMP])).encode())
    if chunk.cut is not None:
        for part in encoded(chunk.cut):
            found.update(part)
        return found.digest()
    sizes = row[layout.R_KEY_SIZE], row[layout.R_VALUE_SIZE], row[layout.R_HEADER_COUNT]
    found.update(repr(sizes).encode())
    for at, size in ((row[layout.R_KEY_AT], sizes[0]), (row[layout.R_VALUE_AT], sizes[1])):
        found.update(view[at : at + max(0, size)])
    found.update(view[row[layout.R_HEADERS_AT] : row[layout.R_END]])
    return found.digest()


class Cleaned:
    """Offsets whose batches the cleaner has taken out of copies, in ranges."""

    def __init__(self) -> None:
        self._ranges: list[array[int]] = []  # first and last in turn, ascending

    @property
    def is_empty(self) -> bool:
        """Whether no batch is known to have been taken out."""
        return not self._ranges

    def add(self, log: Source, facts: ScannedLog, base: int | None, next_base: int | None, limits: ReadLimits) -> None:
        """Add the offsets that a log lacks between batches that lie one behind the other.

        Args:
            log: as its runs count on it.
            facts: what it has.
            base: its base offset, None where its name tells none.
            next_base: that of the log after it, None where that is not known.
            limits: for reading it.
        """
        runs = facts.runs
        if not runs or not (facts.gaps or facts.lacks_records):
            return
        stops = _stops(runs.firsts, next_base)
        found = array("q")
        if base is not None and runs.begins_at_zero:
            _extend(found, base, min(runs.firsts[0], stops[-1]) - 1)
        for run, stop in zip(runs, reversed(stops), strict=True) if facts.gaps else ():
            expected = run.first
            for window in batches_of(log, run.start, run.end, limits.max_batch_bytes):
                for k in range(window.count):
                    first = first_offset(window, k, facts.wrappers)
                    if first > expected:
                        _extend(found, expected, min(first, stop) - 1)
                    expected = window.cell(k, layout.LAST_OFFSET) + 1
        if found and self._ranges and found[0] > self._ranges[-1][-1]:
            self._ranges[-1].extend(found)  # of the next log of a copy, mostly
        elif found:
            self._ranges.append(found)

    def has(self, first: int, last: int) -> bool:
        """Tell whether a copy lacks all of these offsets.

        Args:
            first, last: inclusive.
        """
        for ranges in self._ranges:
            at = bisect_right(ranges, first)  # ranges do not touch: an odd place is inside of one
            at -= 2 - at % 2
            if at >= 0 and ranges[at] <= first and ranges[at + 1] >= last:
                return True
        return False


def _stops(firsts: array[int], next_base: int | None) -> array[int]:
    """For each run, the last one first, from which offset on the log has batches behind it, or the next log has."""
    stops = array("q", (NEVER if next_base is None else next_base,))
    for first in reversed(firsts[1:]):  # a batch may lie too high: what follows it is there
        stops.append(min(first, stops[-1]))
    return stops


def _extend(ranges: array[int], first: int, last: int) -> None:
    """Add a range to ascending ones, as far as it lies above them."""
    first = max(first, ranges[-1] + 1) if ranges else first
    if first <= last:
        ranges.extend((first, last))


def revived(
    name: str, line: Line, sources: Sequence[Source], cleaned: Cleaned, limits: ReadLimits
) -> Iterator[Revived]:
    """Yield the keys that live in the result only because another copy's cleaning was not followed.

    Keys over KEPT bytes are not followed.

    Args:
        name: of the partition.
        line: of it.
        sources: the logs by number.
        cleaned: what the cleaner has taken out of copies.
        limits: for reading.
    """
    candidates = _Candidates()
    for pair in line.pairs:
        smaller = _records_at(sources[pair.other.log], pair.other.position, limits) or _Records()
        candidates.add(_chunks_at(sources[pair.taken.log], pair.taken.position, limits), smaller)
    for source, position in _taken_out(line, sources, cleaned, limits):
        candidates.add(_chunks_at(source, position, limits), _Records())
    if not candidates.offsets:
        return
    latest = dict.fromkeys(candidates.offsets, -1)
    reader = RecordReader.within(limits)
    for run in line.runs:
        for window in batches_of(sources[run.log], run.start, run.end, limits.max_batch_bytes):
            for chunk in reader.chunks(window):
                for row in _rows(chunk):
                    key = _key(chunk, row)
                    if key in latest:
                        latest[key] = max(latest[key], row[layout.R_OFFSET])
    for key, offset in sorted(candidates.offsets.items(), key=lambda one: one[1]):
        if latest[key] == offset:
            yield Revived(name, key, offset)


class _Candidates:
    """The keys with a value that another copy's cleaner has taken away, and the last offset of each."""

    def __init__(self) -> None:
        self.offsets: dict[bytes, int] = {}
        self._room = HELD_KEY_BYTES

    def add(self, chunks: Iterable[Chunk], left: _Records) -> None:
        """Take the records of a batch, but for those that the cleaner has left."""
        found = self.offsets
        for chunk in chunks:
            for row in _rows(chunk):
                offset = row[layout.R_OFFSET]
                if row[layout.R_VALUE_SIZE] < 0 or left.has(offset):
                    continue
                key = _key(chunk, row)
                if key in found:
                    found[key] = max(offset, found[key])
                elif key is not None and len(found) < _MOST and len(key) <= self._room:
                    found[key] = offset
                    self._room -= len(key)


def _taken_out(
    line: Line, sources: Sequence[Source], cleaned: Cleaned, limits: ReadLimits
) -> Iterator[tuple[Source, int]]:
    """Yield the batches of the line that another copy's cleaner has taken out whole: the log and the position."""
    for run in () if cleaned.is_empty else line.runs:
        source = sources[run.log]
        for window in batches_of(source, run.start, run.end, limits.max_batch_bytes):
            for k in range(window.count):
                if cleaned.has(window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)):
                    yield source, window.cell(k, layout.POSITION)


def _key(chunk: Chunk, row: array[int]) -> bytes | None:
    """The key of a record; None for none, or for one of which only the first bytes are here."""
    if chunk.cut is not None and chunk.cut.key_size > KEPT:
        return None
    return key_and_value(chunk.view, row)[0]
