"""Markers that no log has, and that a transaction index proves: they stood before a transaction that it knows.

A producer begins a transaction only once the one before has ended. So where an entry of an index begins above batches
of its producer that nothing ends, a marker stood between them and that offset. It was a COMMIT or an ABORT, nobody can
tell which: the next marker of the producer, behind it, is that of the transaction in the entry. Compaction explains no
such hole: a cleaner keeps a marker as long as any batch of its transaction is there.

An index has no checksum. So an entry proves nothing but where the log bears it out: a batch of its producer begins
where its transaction does, or offsets are missing there; it ends with an ABORT, or where offsets are missing; and
offsets are missing where the marker has to have been.

Source: CleanedTransactionMetadata.onControlBatchRead, ProducerAppendInfo.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kdump.broker.missing.ranges import MissingRange
from kdump.finding import Code
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.index.transaction_index import AbortedTxn


class LostEnd(TupleValue):
    """A transaction that had an end, which is lost."""

    first: int  # offset of its first batch, or of one of it
    entry: AbortedTxn  # that proves it: of the next transaction of the producer
    hole: MissingRange  # the end stood there, from the first missing offset to the last one


class _Open:
    """Batches of a producer without an end, up to where the next entry of it begins.

    Attributes:
        first: offset of the first one.
        number: how many entries of the producer begin up to there.
        missing: first and last of the missing offsets behind its latest batch and before that entry; None for none.
    """

    __slots__ = ("first", "missing", "number")

    def __init__(self, first: int, number: int) -> None:
        self.first, self.number = first, number
        self.missing: tuple[int, int] | None = None


class ProvenEnds:
    """Follows the batches of a log and its holes, in order, and knows which transactions have lost their ends.

    Only producers count of which an entry is known.
    """

    def __init__(self) -> None:
        self._entries: dict[int, list[AbortedTxn]] = {}  # by producer, ascending by first offset
        self._firsts: dict[int, list[int]] = {}  # where they begin
        self._asked: list[int] = []  # where entries begin and end
        self._missing: set[int] = set()  # those of these that no batch has
        self._open: dict[int, list[_Open]] = {}

    def expect(self, entries: Iterable[AbortedTxn], running: Iterable[tuple[int, int]] = ()) -> None:
        """Learn what transaction indexes have. No offset was missing so far.

        Args:
            entries: of all of them.
            running: the producers whose transactions have no end so far, and where these began.
        """
        by_producer: dict[int, set[AbortedTxn]] = {}
        for one in entries:
            if one.version == 0 and 0 <= one.first_offset < one.last_offset:
                by_producer.setdefault(one.producer_id, set()).add(one)
        some = {producer: sorted(own, key=lambda one: one.first_offset) for producer, own in by_producer.items()}
        self._entries = some
        self._firsts = {producer: [one.first_offset for one in own] for producer, own in some.items()}
        self._asked = sorted({at for own in some.values() for one in own for at in (one.first_offset, one.last_offset)})
        for producer, first in running:
            self.batch(producer, first)

    @property
    def is_asked(self) -> bool:
        """Whether any entry is known."""
        return bool(self._entries)

    def batch(self, producer: int, first: int) -> bool:
        """Take a batch of a transaction; return whether an entry begins between it and the one before."""
        firsts = self._firsts.get(producer)
        if firsts is None:
            return False
        some, number = self._open.setdefault(producer, []), bisect_right(firsts, first)
        if some and some[-1].number == number:
            some[-1].missing = None
            return False
        some.append(_Open(first, number))
        return len(some) > 1

    def hole(self, first: int, last: int) -> None:
        """Offsets are missing here, whatever explains that."""
        asked = self._asked
        self._missing.update(asked[bisect_left(asked, first) : bisect_right(asked, last)])
        for producer, some in self._open.items():
            one, firsts = some[-1], self._firsts[producer]
            if one.number < len(firsts) and first < firsts[one.number]:
                begin = first if one.missing is None else one.missing[0]
                one.missing = begin, min(last, firsts[one.number] - 1)

    def end(self, producer: int, offset: int | None, *, is_abort: bool) -> list[LostEnd]:
        """Take a marker; return which of the transactions before it are not its own, ascending.

        Args:
            producer: whose it is.
            offset: its, None where none follows.
            is_abort: what it says.
        """
        found: list[LostEnd] = []
        some = self._open.pop(producer, [])
        for k in reversed(range(len(some))):
            one = some[k]
            proven = None if one.missing is None else self._proof(producer, some, k, offset, is_abort=is_abort)
            if proven is not None and one.missing is not None:
                found.append(LostEnd(one.first, proven, MissingRange(*one.missing, (Code.A08.name,))))
            elif found:  # the next one cannot have begun before this one ended either
                found.append(found[-1]._replace(first=one.first))
        found.reverse()
        return found

    def _proof(
        self, producer: int, some: list[_Open], k: int, offset: int | None, *, is_abort: bool
    ) -> AbortedTxn | None:
        """The entry that begins behind some open batches, if the log bears it out."""
        begins = {one.first for one in some[k + 1 :]}
        number = some[k].number
        first = self._firsts[producer][number]
        for entry in self._entries[producer][number:]:
            if entry.first_offset != first:
                break
            is_there = first in begins or first in self._missing
            last = entry.last_offset
            is_end = is_abort if last == offset else last in self._missing and (offset is None or last < offset)
            if is_there and is_end:
                return entry
        return None
