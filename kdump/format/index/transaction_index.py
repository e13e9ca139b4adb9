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
    """One aborted transaction; `version` is what Kafka prints: only the first of its two bytes, signed."""

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

    Attributes:
        entry_size: bytes of one entry.
    """

    _slot = Struct(">bxqqqq")
    entry_size = _slot.size
    _unknown_version = pattern(rb"[\x01-\x7f]")  # the byte is signed, and Kafka asks for version > 0

    def __init__(self, source: Source, base_offset: int) -> None:
        self.base_offset = base_offset
        self.entries = source.size // self._slot.size
        self._source = source

    @classmethod
    def encode(cls, entries: Iterable[AbortedTxn]) -> bytes:
        """Return the file of `entries`, in order."""
        return b"".join(starmap(cls._slot.pack, entries))

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
            found = self._unknown_version.search(data[:: self._slot.size])
            if found:
                return before + found.start()
            before += len(data) // self._slot.size
        return self.entries

    @property
    def error(self) -> str | None:
        """Kafka's message where it stops reading, `{file}` for the path; None when it reads all."""
        if self.readable == self.entries:
            return None
        what = f"Unexpected aborted transaction version {self.entry(self.readable).version}"
        return f"{what} in transaction index {FILE}, current version is 0"

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
