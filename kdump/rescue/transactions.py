"""Whose transactions a hole may have ended: their batches before it must not come under a later marker.

A marker that is lost cannot be made up. The producer's next marker would end the transaction instead, and what was
aborted could be read as committed, or the reverse. Where nothing tells that both come to the same, the batches before
the hole stay out. What tells is what no damage of the hole can have changed: the length of what stands there, the
transaction indexes of all segments whose ranges are known, and the epochs of other batches. A header with a wrong CRC
does not: by one wrong bit a marker looks like data, or like another producer's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.producer.end_markers import Marker, read_markers
from kdump.format.batch import layout
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.index.transaction_index import AbortedTxn


class Hole(NamedTuple):
    """Offsets that the line does not have.

    Args:
        first, last: inclusive.
        codes: names of what is wrong there.
        may_end: a marker may have been there.
    """

    first: int
    last: int
    codes: tuple[str, ...] = ()
    may_end: bool = True


class Aborts(NamedTuple):
    """What a transaction index says: of all markers with offsets in a range, those that are in no entry were commits.

    Args:
        entries: they, ascending by their last offsets.
        first, last: the range, inclusive.
    """

    entries: Sequence[AbortedTxn]
    first: int
    last: int


class LeftOut(NamedTuple):
    """Batches of a producer, not its markers, with first offsets in [start, stop), that stay out for a hole."""

    producer: int
    start: int
    stop: int
    hole: Hole


class _Piece(NamedTuple):
    """Batches of a producer between which nothing can have ended its transaction.

    Args:
        first: offset.
        epoch: of the producer.
        behind: number of the first hole behind them, as far as there is one.
    """

    first: int
    epoch: int
    behind: int


class Fates:
    """Follows transactions over the holes of a line.

    Args:
        aborts: what the transaction indexes of the copies say.
        max_uncompressed_bytes: of a compressed control batch whose records are larger none is read.

    Attributes:
        left_out: what stays out.
    """

    def __init__(self, aborts: Iterable[Aborts], max_uncompressed_bytes: int) -> None:
        self.left_out: list[LeftOut] = []
        self._reader = RecordReader(max_uncompressed_bytes, cut=KEPT)
        known = list(aborts)
        self._ranges = sorted((one.first, one.last) for one in known)
        self._entries = sorted({entry for one in known for entry in one.entries}, key=lambda one: one.last_offset)
        self._lasts = [entry.last_offset for entry in self._entries]
        self._of: dict[int, list[AbortedTxn]] = {}  # by producer
        for entry in self._entries:
            self._of.setdefault(entry.producer_id, []).append(entry)
        self._missing: list[Hole] = []  # all holes
        self._holes: list[Hole] = []  # those that may have ended a transaction
        self._unknown = [0]  # of the first N of these, how many may have had an abort that no index tells
        self._begin: int | None = None  # the first offset
        self._running: dict[int, list[_Piece]] = {}
        self._raises: set[int] = set()  # producers whose epoch rises with every transaction

    def hole(self, hole: Hole) -> None:
        """Offsets are missing here."""
        if hole.may_end:
            self._holes.append(hole)
            self._unknown.append(self._unknown[-1] + (not self._is_known(hole)))
        self._missing.append(hole)

    def step(self, window: Window) -> None:
        """Take the next batches."""
        if self._begin is None and window.count:
            self._begin = window.cell(0, layout.BASE_OFFSET)
        if not window.suspicions & layout.HAS_PRODUCER:
            return
        ids, flags = window.column(layout.PRODUCER_ID), window.column(layout.ATTRIBUTES)
        controls = [k for k in range(window.count) if flags[k] & layout.CONTROL_FLAG and ids[k] >= 0]
        markers = read_markers(self._reader, window, controls) if controls else {}
        for k in self._rows(window, ids, flags):
            epoch, offset = window.cell(k, layout.PRODUCER_EPOCH), window.cell(k, layout.BASE_OFFSET)
            if flags[k] & layout.CONTROL_FLAG:
                marker = markers.get(k)
                if isinstance(marker, Marker):
                    self._end(ids[k], epoch, offset, is_abort=marker.is_abort)
                continue
            pieces = self._running.setdefault(ids[k], [])
            if not pieces or pieces[-1].behind < len(self._holes):
                pieces.append(_Piece(offset, epoch, len(self._holes)))

    def _rows(self, window: Window, ids: Sequence[int], flags: Sequence[int]) -> Iterable[int]:
        is_in = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG
        return (k for k in range(window.count) if ids[k] >= 0 and flags[k] & is_in)

    def _end(self, producer: int, epoch: int, offset: int, *, is_abort: bool) -> None:
        pieces = self._running.pop(producer, [])
        for k, piece in enumerate(pieces):
            if piece.behind == len(self._holes):
                if not is_abort and epoch == piece.epoch + 1:
                    self._raises.add(producer)
            elif self._is_in_doubt(producer, pieces[: k + 1], epoch, offset, is_abort=is_abort):
                self._leave_out(producer, piece)

    def finish(self) -> None:
        """Nothing follows. What an index tells to be aborted in a hole would be open, and the next COMMIT cover it."""
        for producer, pieces in self._running.items():
            for k, piece in enumerate(pieces):
                entry = self._entry_over(producer, piece.first)
                if entry is None or not self._fits(entry, pieces[: k + 1]):
                    continue
                if _has(self._holes, entry.last_offset, piece.behind):
                    self._leave_out(producer, piece)

    def _leave_out(self, producer: int, piece: _Piece) -> None:
        hole = self._holes[piece.behind]
        self.left_out.append(LeftOut(producer, piece.first, hole.first, hole))

    def _is_in_doubt(self, producer: int, pieces: Sequence[_Piece], epoch: int, offset: int, *, is_abort: bool) -> bool:
        """Whether a marker may not be what the last of some pieces came to: it lies behind holes."""
        piece = pieces[-1]
        if epoch == piece.epoch + 1 and producer in self._raises:
            return False  # the epoch has risen once: this marker ends the transaction itself
        entry = self._entry_over(producer, piece.first)
        if entry is None:
            return is_abort or self._unknown[-1] > self._unknown[piece.behind]
        ends_there = entry.last_offset == offset or _has(self._holes, entry.last_offset, piece.behind)
        return not (is_abort and ends_there and self._fits(entry, pieces))

    def _entry_over(self, producer: int, offset: int) -> AbortedTxn | None:
        """Return what the indexes have of the transaction of a batch."""
        entries = self._of.get(producer, [])
        at = bisect_left(entries, offset, key=lambda one: one.last_offset)
        return entries[at] if at < len(entries) and entries[at].first_offset <= offset else None

    def _is_known(self, hole: Hole) -> bool:
        """Whether the indexes tell all aborts of a hole, and what they tell fits the batches before it."""
        reached = hole.first
        for first, last in self._ranges:
            if first <= reached:
                reached = max(reached, last + 1)
        inside = self._entries[bisect_left(self._lasts, hole.first) : bisect_right(self._lasts, hole.last)]
        return reached > hole.last and all(
            one.first_offset >= hole.first or self._fits(one, self._running.get(one.producer_id, [])) for one in inside
        )

    def _fits(self, entry: AbortedTxn, pieces: Sequence[_Piece]) -> bool:
        """Whether the transaction of an entry began with one of some pieces, or where no batch is left.

        Nothing vouches for an entry but what it agrees with: an index has no checksum.
        """
        first = entry.first_offset
        if any(piece.first == first for piece in pieces):
            return True
        return self._begin is None or first < self._begin or _has(self._missing, first)


def _has(holes: Sequence[Hole], offset: int, start: int = 0) -> bool:
    """Whether an offset is in one of some holes, ascending, from a number on."""
    at = bisect_right(holes, offset, start, key=lambda one: one.first) - 1
    return at >= start and offset <= holes[at].last
