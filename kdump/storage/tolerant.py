"""A log with ranges that the disk cannot read: there it reads as zeros, which no batch is, and the ranges are noted."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.storage.file_source import BLOCK, ReadFailedError

if TYPE_CHECKING:
    from kdump.format.source import Source


class TolerantSource:
    """A Source that passes over what cannot be read.

    No range is tried twice: each attempt at a bad sector may take seconds.

    Args:
        source: the log.
        errors: that are passed over; by default those of the disk, not those of a file that shrinks.
    """

    def __init__(self, source: Source, errors: type[OSError] = ReadFailedError) -> None:
        self.name, self.size = source.name, source.size
        self._source = source
        self._errors = errors
        self._starts: list[int] = []  # of the ranges, ascending; they do not touch each other
        self._ends: list[int] = []
        self.error: OSError | None = None  # the first that was passed over

    @property
    def is_growing(self) -> bool:
        """As of the log."""
        return self._source.is_growing

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        if not self._starts:
            try:
                return self._source.read_at(position, length)
            except self._errors as error:
                self._note(error, position)
        data = bytearray(max(0, min(length, self.size - position)))
        return bytes(data[: self.read_into(position, memoryview(data))])

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        if not self._starts:  # as nearly always
            try:
                return self._source.read_into(position, target)
            except self._errors as error:
                self._note(error, position)
        wanted = max(0, min(len(target), self.size - position))
        done = 0
        while done < wanted:
            at = position + done
            k = bisect_right(self._starts, at)
            if k and at < self._ends[k - 1]:
                size = min(self._ends[k - 1] - at, wanted - done)
                target[done : done + size] = bytes(size)
                done += size
                continue
            stop = min(self._starts[k] if k < len(self._starts) else self.size, position + wanted)
            try:
                got = self._source.read_into(at, target[done : stop - position])
            except self._errors as error:
                self._note(error, at)
                continue
            if not got:
                break
            done += got
        return done

    def _note(self, error: OSError, at: int) -> None:
        """Add the range of an error, in whole blocks; only the block at a position where it does not tell one."""
        self.error = self.error or error
        is_told = isinstance(error, ReadFailedError)
        start, length = (error.position, error.length) if is_told else (at, 1)  # type: ignore[attr-defined]
        end = min(start + max(length, 1) + -(start + max(length, 1)) % BLOCK, self.size)
        start -= start % BLOCK
        for number in [k for k, one in enumerate(self._starts) if start <= self._ends[k] and one <= end][::-1]:
            start, end = min(start, self._starts.pop(number)), max(end, self._ends.pop(number))
        k = bisect_right(self._starts, start)
        self._starts.insert(k, start)
        self._ends.insert(k, end)

    def next_data(self, position: int) -> int:
        """Return the first position at or after `position` that is not in a hole, `size` when there is none."""
        try:
            return self._source.next_data(position)
        except OSError:
            return position

    def unreadable(self, start: int, end: int) -> list[tuple[int, int, str]]:
        """Return what of [start, end) was passed over: start and end of each range, ascending, and why it failed."""
        if not self._starts:
            return []
        why = str(self.error.strerror) if self.error is not None else ""
        pairs = zip(self._starts, self._ends, strict=True)
        return [(max(one, start), min(stop, end), why) for one, stop in pairs if one < end and start < stop]
