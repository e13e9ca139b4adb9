"""What the checks of both kinds of index share: entries in their order, as far as the walk has got."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from itertools import chain, count
from operator import lt
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.finding import Code, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.finding import Report
    from kdump.format.index import OffsetIndex, TimeIndex
    from kdump.format.source import Source
    from kdump.format.window import Window

_NO_LIMIT = 2**63 - 1
_PIECE = 64 * 1024  # bytes of an index


class Entries(NamedTuple):
    """Some entries in a row: the number of the first, and both columns."""

    number: int
    first: array[int]
    second: array[int]

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Yield each entry with its number."""
        return zip(count(self.number), self.first, self.second, strict=False)


class IndexFold(ABC):
    """Takes the entries in their order, as far as the walk has got, and what is odd about the file itself.

    Args:
        index: the index.
        source: its file.
        report: takes each finding.
        may_be_untrimmed: zeros at the end are what a broker at work, or one that crashed, leaves there.
    """

    _slot: int
    _key: int  # the column by which entries meet batches: 0 or 1
    _odd_size: Code
    _zero_tail: Code

    def __init__(
        self, index: OffsetIndex | TimeIndex, source: Source, report: Report, *, may_be_untrimmed: bool
    ) -> None:
        self._index = index
        self._size = source.size
        self._report = report
        self._may_be_untrimmed = may_be_untrimmed
        self.used = _before_zeros(source, self._slot, index.entries)
        self._chunks = index.columns(0, self.used)
        self._columns: tuple[array[int], array[int]] = array("q"), array("q")
        self._at = self._number = 0  # in the columns, and of the first of them
        self._ascends = True
        self._lost = False  # a gap lies before the next batch, or a batch whose CRC is wrong

    def _take(self, limit: int) -> Iterator[Entries]:
        """Yield the next entries, up to the first whose key is at or above the limit."""
        while True:
            keys = self._columns[self._key]
            if self._at == len(keys):
                self._number += len(keys)
                self._at = 0
                self._columns = next(self._chunks, (array("q"), array("q")))
                keys = self._columns[self._key]
                self._ascends = all(map(lt, keys, keys[1:]))
                if not keys:
                    return
            if self._ascends:
                stop = bisect_left(keys, limit, self._at)
            else:
                stop = next((k for k in range(self._at, len(keys)) if keys[k] >= limit), len(keys))
            if stop == self._at:
                return
            first, second = self._columns
            start, self._at = self._at, stop
            yield Entries(self._number + start, first[start:stop], second[start:stop])

    def gap(self) -> None:
        """Bytes of the log are no batch."""
        self._lost = True

    @abstractmethod
    def step(self, window: Window, last: int, *, sure: bool) -> None:
        """Take the next batches.

        Args:
            window: the batches.
            last: the last offset that is believed after them.
            sure: their offsets are right; else no entry is blamed for not agreeing with them.
        """

    def finish(self, end: int, size: int, last_batch_at: int) -> None:
        """The log is at its end.

        Args:
            end: the offset after its last batch.
            size: of the log, bytes.
            last_batch_at: where its last batch begins, bytes.
        """
        if self._size % self._slot:
            rest = self._size % self._slot
            self._say(self._odd_size, self._size - rest, rest, found=self._size)
        self._rest(end, size, last_batch_at)
        zeros = self._index.entries - self.used
        if zeros:
            severity = Severity.NOTE if self._may_be_untrimmed else None
            at, length = self.used * self._slot, zeros * self._slot
            self._report(
                Finding(self._zero_tail, self._index.name, at, length, count=zeros, found=0, severity_override=severity)
            )

    @abstractmethod
    def _rest(self, end: int, size: int, last_batch_at: int) -> None:
        """Judge the entries that no batch was left for."""

    def _left(self) -> Iterator[tuple[int, int, int]]:
        return chain.from_iterable(entries.rows() for entries in self._take(_NO_LIMIT))

    def _say(self, code: Code, at: int, length: int, **more: Any) -> None:  # noqa: ANN401 (fields of a Finding)
        self._report(Finding(code, self._index.name, at, length, **more))

    def _blame(
        self,
        code: Code,
        number: int,
        offset: int,
        found: int,
        values: Mapping[str, int | str | None],
        expected: int | None = None,
    ) -> None:
        at = number * self._slot
        self._say(code, at, self._slot, offset=offset, found=found, values=values, expected=expected)


def _before_zeros(source: Source, slot: int, entries: int) -> int:
    """How many entries come before the zeros at the end, which are none: a broker had not written there."""
    end = entries * slot
    while end:
        start = max(0, end - _PIECE)
        data = source.read_at(start, end - start).rstrip(b"\0")
        if data:
            return -(-(start + len(data)) // slot)
        end = start
    return 0
