"""Whose transactions a hole may have ended: their batches before it must not come under a later marker.

A marker that is lost cannot be made up. The producer's next marker would end the transaction instead, and what was
aborted could be read as committed. Where nothing tells that the hole had no marker of the producer, its batches before
the hole stay out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.producer.end_markers import Marker, read_markers
from kdump.format.batch import layout
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.rescue.log_facts import Place


class Hole(NamedTuple):
    """Offsets that the line does not have.

    Args:
        first, last: inclusive.
        places: what stands there, as far as it is known.
    """

    first: int
    last: int
    places: tuple[Place, ...]

    def may_end(self, producer: int) -> bool:
        """Tell whether a marker of a producer may have been there: not where whole batches cover it that are others.

        One wrong field makes a marker look like another producer's, or like data: a header with a wrong CRC tells
        others only where both its producer and its kind do, or its length.
        """
        after = self.first
        for place in sorted(self.places, key=lambda one: one.offset or 0):
            if not place.is_exact or place.offset is None or place.last_offset is None or place.offset > after:
                break
            if place.producer is None or not place.is_other(producer):
                break
            after = max(after, place.last_offset + 1)
        return after <= self.last

    @property
    def codes(self) -> tuple[str, ...]:
        """Names of what is wrong there."""
        return tuple(dict.fromkeys(code for place in self.places for code in place.codes))


class LeftOut(NamedTuple):
    """Batches of a producer, not its markers, with first offsets in [start, stop), that stay out for a hole."""

    producer: int
    start: int
    stop: int
    hole: Hole


class _Open:
    """A transaction that has begun."""

    __slots__ = ("epoch", "first", "holes")

    def __init__(self, first: int, epoch: int) -> None:
        self.first = first
        self.epoch = epoch
        self.holes: list[Hole] = []


class Fates:
    """Follows transactions over the holes of a line.

    Args:
        aborted: gives what the transaction indexes of the copies say of a producer's aborted transactions, and whether
            they are complete for a range of offsets.
        max_uncompressed_bytes: of a compressed control batch whose records are larger none is read.

    Attributes:
        left_out: what stays out.
    """

    def __init__(
        self, aborted: Callable[[int, int, int], tuple[Sequence[AbortedTxn], bool]], max_uncompressed_bytes: int
    ) -> None:
        self.left_out: list[LeftOut] = []
        self._aborted = aborted
        self._reader = RecordReader(max_uncompressed_bytes, cut=KEPT)
        self._open: dict[int, _Open] = {}
        self._raises: set[int] = set()  # producers whose epoch rises with every transaction

    def hole(self, hole: Hole) -> None:
        """Offsets are missing here."""
        for one in self._open.values():
            one.holes.append(hole)

    def step(self, window: Window) -> None:
        """Take the next batches."""
        if not window.suspicions & layout.HAS_PRODUCER:
            return
        ids, flags = window.column(layout.PRODUCER_ID), window.column(layout.ATTRIBUTES)
        controls = [k for k in range(window.count) if flags[k] & layout.CONTROL_FLAG and ids[k] >= 0]
        markers = read_markers(self._reader, window, controls) if controls else {}
        for k in self._rows(window, ids, flags):
            if flags[k] & layout.CONTROL_FLAG:
                marker = markers.get(k)
                if isinstance(marker, Marker):
                    self._end(ids[k], window.row(k), is_abort=marker.is_abort)
            else:
                self._data(ids[k], window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.PRODUCER_EPOCH))

    def _rows(self, window: Window, ids: Sequence[int], flags: Sequence[int]) -> Iterable[int]:
        is_in = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG
        return (k for k in range(window.count) if ids[k] >= 0 and flags[k] & is_in)

    def _data(self, producer: int, first: int, epoch: int) -> None:
        known = self._open.get(producer)
        if known is None:
            self._open[producer] = _Open(first, epoch)
        elif known.holes and producer in self._raises and known.epoch == epoch:
            known.holes.clear()  # a transaction after the hole would have another epoch

    def _end(self, producer: int, row: Sequence[int], *, is_abort: bool) -> None:
        known = self._open.pop(producer, None)
        epoch, offset = row[layout.PRODUCER_EPOCH], row[layout.BASE_OFFSET]
        if known is None:
            return
        if not known.holes and not is_abort and epoch == known.epoch + 1:
            self._raises.add(producer)
        hidden = [
            hole for hole in known.holes if self._is_in_doubt(producer, known, hole, epoch, offset, is_abort=is_abort)
        ]
        if hidden:
            hole = hidden[-1]
            self.left_out.append(LeftOut(producer, known.first, hole.first, hole))

    def _is_in_doubt(self, producer: int, known: _Open, hole: Hole, epoch: int, offset: int, *, is_abort: bool) -> bool:
        """Whether a hole may have ended a transaction in another way than the marker behind it."""
        if not hole.may_end(producer):
            return False
        if epoch == known.epoch + 1 and (not is_abort or producer in self._raises):
            return False  # the epoch has risen once: this marker ends the transaction itself
        entries, complete = self._aborted(producer, hole.first, hole.last)
        in_hole = [one for one in entries if hole.first <= one.last_offset <= hole.last]
        if any(one.first_offset == known.first for one in in_hole):
            return not is_abort  # it was aborted there
        if in_hole:
            return is_abort or not complete
        own = next((one for one in entries if one.last_offset == offset), None)
        if is_abort and own is not None:
            return own.first_offset != known.first
        return is_abort or not complete
