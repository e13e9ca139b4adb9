"""The index of aborted transactions of a segment: the one reader and the one encoder.

Texts are Kafka's, with `{file}` where it prints a path, as in `kdump.format.index`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import starmap
from struct import Struct
from typing import TYPE_CHECKING

from kdump.format.index.offset_and_time import FILE, chunks
from kdump.value import TupleValue, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.format.source import Source


class AbortedTxn(TupleValue):
    """One aborted transaction; `version` is what Kafka prints: signed, of as many bytes as the release reads."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def __str__(self) -> str:
        form = "AbortedTxn(version={}, producerId={}, firstOffset={}, lastOffset={}, lastStableOffset={})"
        return form.format(*self)


class TransactionIndex:
    """`.txnindex`: 34 bytes for each aborted transaction; a partial entry at the end does not count.

    Iterating ends before the first entry of an unknown version, as in the broker; `error` is what it says.

    Args:
        source: the index file.
        base_offset: base offset of the segment.
        version_bytes: of the version, which the release looks at: 4.4 reads two bytes, which must be 0; releases before
            it read the first, and refuse what is above 0.

    Attributes:
        entry_size: bytes of one entry.
    """

    _whole = Struct(">hqqqq")
    _first_byte = Struct(">bxqqqq")
    entry_size = _whole.size
    _above_zero = pattern(rb"[\x01-\x7f]")  # of a signed byte
    _not_zero = pattern(rb"[^\0]")

    def __init__(self, source: Source, base_offset: int, version_bytes: int = 2) -> None:
        self.base_offset = base_offset
        self.entries = source.size // self.entry_size
        self._source = source
        self._version_bytes = version_bytes
        self._slot = self._whole if version_bytes == 2 else self._first_byte

    @classmethod
    def encode(cls, entries: Iterable[AbortedTxn]) -> bytes:
        """Return the file of `entries`, in order."""
        return b"".join(starmap(cls._whole.pack, entries))

    def entry(self, number: int) -> AbortedTxn:
        """Return an entry whatever its version, 0 the first; IndexError when there is no such entry."""
        if not 0 <= number < self.entries:
            raise IndexError(number)
        data = self._source.read_at(number * self._slot.size, self._slot.size)
        return AbortedTxn._make(self._slot.unpack(data))

    def __iter__(self) -> Iterator[AbortedTxn]:
        for data in chunks(self._source, self._slot.size, 0, self.readable):
            yield from self.entries_of(data)

    def all_entries(self) -> Iterator[AbortedTxn]:
        """Yield every entry whatever its version."""
        for data in chunks(self._source, self._slot.size, 0, self.entries):
            yield from self.entries_of(data)

    def entries_of(self, data: bytes) -> Iterator[AbortedTxn]:
        """Yield the entries of some whole slots, whatever their version."""
        return map(AbortedTxn._make, self._slot.iter_unpack(data))

    @cached_property
    def readable(self) -> int:
        """The number of entries before the first one with an unknown version."""
        before = 0
        for data in chunks(self._source, self._slot.size, 0, self.entries):
            unknown = self._unknown_version(data)
            if unknown is not None:
                return before + unknown
            before += len(data) // self._slot.size
        return self.entries

    def _unknown_version(self, data: bytes) -> int | None:
        """The first of some slots whose version the release does not take."""
        size = self.entry_size
        if self._version_bytes == 1:
            found = [self._above_zero.search(data[::size])]
        else:
            found = [self._not_zero.search(data[byte::size]) for byte in range(2)]
        return min((one.start() for one in found if one), default=None)

    @property
    def error(self) -> str | None:
        """Kafka's message where it stops reading, `{file}` for the path; None when it reads all."""
        if self.readable == self.entries:
            return None
        what = f"Unexpected aborted transaction version {self.entry(self.readable).version}"
        known = "current version is 0" if self._version_bytes == 1 else "supported version range is 0 to 0"
        return f"{what} in transaction index {FILE}, {known}"

    def sound_entries(self) -> list[AbortedTxn]:
        """Return all entries, none of an index that a broker would not take."""
        return [] if self.sanity_check() is not None else list(self)

    def sanity_check(self) -> str | None:
        """Return what the broker's sanityCheck says, `{file}` for the path; None when it says nothing."""
        for txn in self:
            if txn.last_offset < self.base_offset:
                subject = f"Last offset of aborted transaction {txn} in index {FILE}"
                return f"{subject} is less than start offset {self.base_offset}"
        return self.error
