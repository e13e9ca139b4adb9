"""The offset index and the time index of a segment: the one reader and the one encoder.

Strategy: an index may be 10 MB of zeros on a live broker, and anything at all in a hostile file, so none is
loaded whole. A lookup reads pages, `columns` reads chunks. Entries on disk hold offsets relative to the base
offset of the segment; here they are absolute, and relative ones never leave this module.

Texts are Kafka's. Where Kafka prints the absolute path of the file they hold `{file}`, these six characters:
only the caller knows the path, and puts it in with `str.replace`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from kdump.format.batch import _scan
from kdump.format.java_values import MAX_INT, as_long
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.format.source import Source

INDEX_BYTES = 10 * 1024 * 1024  # segment.index.bytes by default
INDEX_INTERVAL = 4096  # index.interval.bytes by default
WARM_BYTES = 8192  # AbstractIndex.warmEntries
PAGE_BYTES = 2 * WARM_BYTES  # pages end with the file: the last has all of the warm section
CHUNK_ENTRIES = 8192
MANY_SEARCHES = 64  # from so many on an index of at most WHOLE_BYTES is held
WHOLE_BYTES = 4 * 1024 * 1024
MOST_POSITIONS = INDEX_BYTES // 8  # of an index of the usual size; a search after damage needs no more
KEPT_PAGES = 256  # one lookup reads at most ceil(log2(pages)) + 2 pages
FILE = "{file}"


def has_room(base_offset: int, offset: int) -> bool:
    """Tell whether the indexes of a segment have a number for an offset: the difference, as longs have it, is an int.

    Args:
        base_offset: of the segment.
        offset: of a batch or record.

    Source: AbstractIndex.toRelative.
    """
    return 0 <= as_long(offset - base_offset) <= MAX_INT


class OffsetPosition(TupleValue):
    """The batch that ends with `offset` (absolute) starts at byte `position` of the log."""

    offset: int
    position: int


class TimestampOffset(TupleValue):
    """No record up to `offset` (absolute) is later than `timestamp` (ms)."""

    timestamp: int
    offset: int


Entry = TypeVar("Entry", OffsetPosition, TimestampOffset)


class _SlotIndex(ABC, Generic[Entry]):
    """The base of the offset and the time index: slots of one size and the search over them (AbstractIndex).

    Args:
        source: the index file.
        base_offset: base offset of the segment, from the name of the file.

    Attributes:
        entries: as many as the file has room for, zeros of an untrimmed tail included.
    """

    entry_size: ClassVar[int]  # bytes of one entry
    _slot: ClassVar[Struct]
    _offset_column: ClassVar[int]  # which of the two numbers is a relative offset
    _nothing: ClassVar[tuple[int, int]]  # the slot that a lookup answers with when none is at or below
    _subject: ClassVar[str]

    def __init__(self, source: Source, base_offset: int) -> None:
        self.base_offset = base_offset
        self.name = source.name  # of the file
        self.size = source.size  # of the file, bytes
        self.entries = source.size // self._slot.size
        self._source = source
        self._page_slots = PAGE_BYTES // self._slot.size
        self._pages: dict[int, bytes] = {}
        self._searches = 0
        self._held: tuple[array[int], array[int]] | None = None  # both columns, where the first one ascends
        self._latest: tuple[int, Entry] | None = None  # a lookup and its answer: those who judge it ask again

    @classmethod
    def encode(cls, entries: Iterable[tuple[int, int]], base_offset: int) -> bytes:
        """Return the file of `entries`; ValueError when an offset is not base offset + 0 to 2^31-1, as longs add."""
        flat = array("q", chain.from_iterable(entries))
        columns = [flat[0::2], flat[1::2]]
        offsets = columns[cls._offset_column]
        if min(offsets, default=base_offset) < base_offset:  # behind the largest long
            relative = array("q", (as_long(offset - base_offset) for offset in offsets))
        else:
            relative = array("q", map((-base_offset).__add__, offsets))
        for number in (min(relative, default=0), max(relative, default=0)):
            if not 0 <= number <= MAX_INT:
                raise ValueError(f"Integer overflow for offset: {as_long(base_offset + number)}")
        columns[cls._offset_column] = relative
        return b"".join(map(cls._slot.pack, *columns))

    def entry(self, number: int) -> Entry:
        """Return an entry, 0 the first; IndexError when there is no such entry."""
        if not 0 <= number < self.entries:
            raise IndexError(number)
        return self._read(number)

    def last_entry(self) -> Entry:
        """Return the last entry; in an empty index what a lookup answers there (Kafka's lastEntry)."""
        return self.entry(self.entries - 1) if self.entries else self._absolute(self._nothing)

    def trim(self) -> None:
        """Leave the zeros at the end out, as a running broker does, which knows how many entries it has written.

        None of them can be all zeros: the batch at position 0 gets no entry.
        """
        if self.entries and not any(self._bytes(self.entries - 1)):
            low, high = 0, self.entries - 1
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if not any(self._bytes(middle)) else (middle + 1, high)
            self.entries = low

    def columns(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[array[int], array[int]]]:
        """Yield the entries [start, stop) as two columns of int64, in the order of the entry's fields.

        Yields:
            two arrays of one length, at most `CHUNK_ENTRIES`.
        """
        stop = self.entries if stop is None else min(stop, self.entries)
        for data in chunks(self._source, self._slot.size, start, stop):
            first = array("q", bytes(8 * (len(data) // self._slot.size)))
            second = first[:]
            _scan.index_columns(data, self.base_offset, self._offset_column == 1, first, second)
            yield first, second

    def lookup(self, target: int) -> Entry:
        """Return the last entry at or below `target` as the broker finds it, however the entries are ordered.

        The target is an absolute offset in an offset index, a timestamp in ms in a time index.
        """
        if self._latest is None or self._latest[0] != target:
            held = self._all_ascending()
            if held is None:
                slot = self._search(target, 0)
                found = self._absolute(self._nothing) if slot < 0 else self._read(slot)
            else:
                slot = bisect_right(held[0], target) - 1
                found = self._absolute(self._nothing) if slot < 0 else self._entry(held[0][slot], held[1][slot])
            self._latest = target, found
        return self._latest[1]

    def sanity_check(self) -> str | None:
        """Return what the broker's sanityCheck says, `{file}` for the path; None when it says nothing."""
        size = self._source.size
        if size > MAX_INT:
            return "Size exceeds Integer.MAX_VALUE"  # FileChannel.map: a broker cannot open it
        complaint = self._complaint() if self.entries else None
        if complaint is None and size % self._slot.size:
            subject = f"{self._subject} {FILE} is corrupt, found {size} bytes"
            return f"{subject} which is neither positive nor a multiple of {self._slot.size}"
        return complaint

    @abstractmethod
    def _complaint(self) -> str | None: ...
    @abstractmethod
    def _absolute(self, slot: tuple[int, int]) -> Entry: ...
    @abstractmethod
    def _entry(self, first: int, second: int) -> Entry: ...

    def _search(self, target: int, column: int) -> int:
        """Return the number of the entry found, -1 for none.

        The warm section, the end of the index, is asked first: where entries do not ascend the order matters.
        Source: AbstractIndex.indexSlotRangeFor, binarySearch.
        """
        if not self.entries:
            return -1
        last, slots, size = self.entries - 1, self._page_slots, self._slot.size
        pages, unpack = self._pages, self._slot.unpack_from
        base = self.base_offset if column == self._offset_column else 0

        def value(number: int) -> int:
            page, after = divmod(last - number, slots)
            data = pages.get(page) or self._load(page)
            return as_long(base + unpack(data, len(data) - (after + 1) * size)[column])

        low, high = 0, max(0, last - WARM_BYTES // size)
        if value(high) < target:
            low, high = high, last
        elif value(0) > target:
            return -1
        while low < high:
            middle = (low + high + 1) // 2
            found = value(middle)
            if found == target:
                return middle
            if found < target:
                low = middle
            else:
                high = middle - 1
        return low

    def _all_ascending(self) -> tuple[array[int], array[int]] | None:
        """Both columns, when there were so many lookups that reading them whole pays; None when the first one falls.

        Where it ascends any search finds the same in it, and the fastest may do it.
        """
        self._searches += 1
        if self._searches == MANY_SEARCHES and 0 < self.entries * self._slot.size <= WHOLE_BYTES:
            first, second = array("q"), array("q")
            for columns in self.columns():
                first += columns[0]
                second += columns[1]
            if _scan.ascends(first, True):
                self._held = first, second
        return self._held

    def _load(self, page: int) -> bytes:
        if len(self._pages) >= KEPT_PAGES:
            self._pages.clear()
        size = self._slot.size
        end = self.entries - page * self._page_slots
        start = max(0, end - self._page_slots)
        data = self._pages[page] = self._source.read_at(start * size, (end - start) * size)
        return data

    def _bytes(self, number: int) -> bytes:
        return self._source.read_at(number * self._slot.size, self._slot.size)

    def _read(self, number: int) -> Entry:
        page, after = divmod(self.entries - 1 - number, self._page_slots)
        data = self._pages.get(page) or self._load(page)
        first, second = self._slot.unpack_from(data, len(data) - (after + 1) * self._slot.size)
        return self._absolute((first, second))


class OffsetIndex(_SlotIndex[OffsetPosition]):
    """`.index`: 8 bytes an entry, int32 relative offset and int32 position. Source: OffsetIndex."""

    entry_size = 8
    _slot = Struct(">ii")
    _offset_column = 0
    _nothing = (0, 0)
    _subject = "Index file"

    def ascending_positions(self) -> Sequence[int]:
        """Return the positions of the entries as far as they ascend: where to look for a batch after damage."""
        positions = array("q")
        for _, column in self.columns(0, MOST_POSITIONS):
            for position in column:
                if position <= (positions[-1] if positions else 0):
                    return positions
                positions.append(position)
        return positions

    def before(self, position: int) -> OffsetPosition | None:
        """Return the last entry at or before a byte of the log, None where there is none."""
        slot = self._search(position, 1)
        return None if slot < 0 or self._read(slot).position > position else self._read(slot)

    def from_position(self, position: int) -> int:
        """Return the number of the first entry for a position or one behind it; `entries` where there is none."""
        return bisect_left(range(self.entries), position, key=lambda number: self.entry(number).position)

    def above(self, offset: int) -> int:
        """Return the number of the first entry above an offset, by search; `entries` where there is none."""
        return self._search(offset, 0) + 1

    def _absolute(self, slot: tuple[int, int]) -> OffsetPosition:
        return OffsetPosition(as_long(self.base_offset + slot[0]), slot[1])

    def _entry(self, first: int, second: int) -> OffsetPosition:
        return OffsetPosition(first, second)

    def _complaint(self) -> str | None:
        last = self.last_entry().offset
        if last >= self.base_offset:
            return None
        subject = f"Corrupt index found, index file {FILE} has non-zero size but the last offset is {last}"
        return f"{subject} which is less than the base offset {self.base_offset}"


def zeros_are_right(largest: int) -> bool:
    """Tell whether a time index that ends in a zero is what a broker writes: the largest timestamp of its log is 0.

    Args:
        largest: timestamp of the log, ms; -1 for none.

    Source: LogSegment.onBecomeInactiveSegment, TimeIndex.maybeAppend.
    """
    return largest == 0


class TimeIndex(_SlotIndex[TimestampOffset]):
    """`.timeindex`: 12 bytes an entry, int64 timestamp and int32 relative offset. Source: TimeIndex."""

    entry_size = 12
    _slot = Struct(">qi")
    _offset_column = 1
    _nothing = (-1, 0)
    _subject = "Time index file"

    def _absolute(self, slot: tuple[int, int]) -> TimestampOffset:
        return TimestampOffset(slot[0], as_long(self.base_offset + slot[1]))

    def _entry(self, first: int, second: int) -> TimestampOffset:
        return TimestampOffset(first, second)

    def _complaint(self) -> str | None:
        last, first = self.last_entry(), self.entry(0).timestamp
        subject = f"Corrupt time index found, time index file ({FILE}) has non-zero size but the last"
        if last.timestamp < first:
            return f"{subject} timestamp is {last.timestamp} which is less than the first timestamp {first}"
        if last.offset < self.base_offset:
            return f"{subject} offset is {last.offset} which is less than the first offset {self.base_offset}"
        return None


def chunks(source: Source, size: int, start: int, stop: int) -> Iterator[bytes]:
    """Yield the entries [start, stop) of a file of entries of one size (bytes), some thousand at a time."""
    for first in range(start, stop, CHUNK_ENTRIES):
        yield source.read_at(first * size, min(CHUNK_ENTRIES, stop - first) * size)
