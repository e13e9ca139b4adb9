"""What became of transactions in a log with holes: the next marker of a producer tells it, unless a hole had one.

A marker that is lost cannot be made up. The producer's next marker would end the transaction instead, and what was
aborted could be read as committed, or the reverse. Where nothing tells that both come to the same, the batches before
the hole are in doubt. What tells is what no damage of the hole can have changed: the length of what stands there, the
transaction indexes of all segments whose ranges are known, and the epochs of other batches. A header with a wrong CRC
does not: by one wrong bit a marker looks like data, or like another producer's.

`dump` and `salvage` both go by this: what one of them tells, the other one keeps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kdump.broker.producer.end_markers import Marker, read_markers
from kdump.broker.producer.proven_ends import ProvenEnds
from kdump.format.batch import layout
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.record import _select
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.broker.missing.ranges import MissingRange
    from kdump.broker.producer.proven_ends import LostEnd
    from kdump.format.batch.window import Window
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.source import Source

COMMITTED = "committed"
ABORTED = "aborted"
IN_DOUBT = "in doubt"
"""It may have ended in a hole: whether it did, and how, nobody can tell."""
UNKNOWN = "unknown"
"""It has ended in a hole that compaction seems to explain: how, nobody can tell."""
_FLAGS = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG


class Aborts(TupleValue):
    """What a transaction index tells: of all markers with offsets in a range, those in no entry were commits."""

    entries: Sequence[AbortedTxn]  # they, ascending by their last offsets
    # first, last: the range, inclusive
    first: int
    last: int


def told_by_index(
    source: Source, base: int, following: int | None, first: int | None, end: int | None
) -> Aborts | None:
    """Return what a transaction index says; None where it has nothing, or anything in it is wrong.

    A segment that was rolled has all its aborts in it; what is behind the end of its log another one may have had.

    Args:
        source: the .txnindex.
        base: base offset of its segment.
        following: that of the next segment, None for the last one.
        first: of the batch at the beginning of its log, None where nobody knows.
        end: up to which offset (exclusive) its log is known to go, None where nobody knows.

    Raises:
        OSError: it cannot be read.
    """
    index = TransactionIndex(source, base)
    entries: list[AbortedTxn] = []
    reached = base - 1
    for one in index.all_entries():  # the first wrong one ends it: of a huge file no more is read
        if one.version > 0 or not 0 <= one.first_offset <= one.last_offset or one.last_offset <= reached:
            return None
        entries.append(one)
        reached = one.last_offset
    if not entries:
        return None
    if following is not None and reached >= following:
        return None
    if following is not None and end is not None and source.size % index.entry_size == 0:
        reached = max(reached, min(end, following) - 1)
    return Aborts(entries, base if first is None else first, reached)


class Told(TupleValue):
    """What became of the batches of a producer, not its markers, with first offsets in [start, stop)."""

    # producer, start, stop: which
    producer: int
    start: int
    stop: int
    fate: str  # COMMITTED, ABORTED, IN_DOUBT or UNKNOWN
    hole: MissingRange | None  # that may have ended their transaction, None for none: a marker tells their fate
    agrees: bool  # the next marker of the producer that is there says the same
    proof: AbortedTxn | None = None  # that tells that it ended in the hole, of the producer's next transaction


class _Piece(TupleValue):
    """Batches of a producer between which nothing can have ended its transaction."""

    first: int  # offset
    epoch: int  # of the producer
    behind: int  # number of the first hole behind them, as far as there is one


class TransactionFates:
    """Follows transactions over the holes of a log.

    Args:
        tell: takes what became of them, in the order of their ends.
        max_uncompressed_bytes: of a compressed control batch whose records are larger none is read.
        max_batch_bytes: likewise of one that is larger itself.
    """

    def __init__(
        self, tell: Callable[[Told], None], max_uncompressed_bytes: int, max_batch_bytes: int = layout.MAX_INT
    ) -> None:
        self._tell = tell
        self._reader = RecordReader(max_uncompressed_bytes, max_batch=max_batch_bytes, cut=KEPT)
        self._ranges: list[tuple[int, int]] = []
        self._entries: list[AbortedTxn] = []
        self._lasts: list[int] = []
        self._of: dict[int, list[AbortedTxn]] = {}  # by producer
        self._missing: list[MissingRange] = []  # all holes
        self._holes: list[MissingRange] = []  # those that may have ended a transaction
        self._unknown = [0]  # of the first N of these, how many may have had an abort that no index tells
        self._begin: int | None = None  # the first offset
        self._running: dict[int, list[_Piece]] = {}
        self._raises: set[int] = set()  # producers whose epoch rises with every transaction
        self._proven = ProvenEnds()

    def learn(self, aborts: Iterable[Aborts]) -> None:
        """Take what transaction indexes say, in place of what they said before. A hole is judged when it comes."""
        known = list(aborts)
        self._ranges = sorted((one.first, one.last) for one in known)
        entries = sorted({entry for one in known for entry in one.entries}, key=lambda one: one.last_offset)
        if entries == self._entries:
            return
        self._entries = entries
        self._lasts = [entry.last_offset for entry in entries]
        self._of = {}
        for entry in entries:
            self._of.setdefault(entry.producer_id, []).append(entry)

    def expect(self, entries: Iterable[AbortedTxn]) -> None:
        """Take what all transaction indexes have, also of what is still to come, before the first hole of any kind."""
        self._proven.expect(entries, self.running.items())

    @property
    def running(self) -> dict[int, int]:
        """The producers whose transactions have no end so far, and where these began."""
        return {producer: some[0].first for producer, some in self._running.items() if some}

    @property
    def asks_for_all_holes(self) -> bool:
        """Whether holes count too that compaction explains."""
        return self._proven.is_asked

    def explained_hole(self, first: int, last: int) -> None:
        """Offsets are missing here that compaction explains: nothing ended there but what an index proves."""
        self._proven.hole(first, last)

    def hole(self, hole: MissingRange, *, may_end: bool = True) -> None:
        """Offsets are missing here.

        Args:
            hole: which.
            may_end: a marker may have been there.
        """
        if may_end:
            self._holes.append(hole)
            self._unknown.append(self._unknown[-1] + (not self._is_known(hole)))
        self._missing.append(hole)
        self._proven.hole(hole.first, hole.last)

    def step(self, window: Window) -> None:
        """Take the next batches, between which there is no hole."""
        if self._begin is None and window.count:
            self._begin = window.cell(0, layout.BASE_OFFSET)
        picked = _select.with_any(window.rows, window.count, _FLAGS)
        controls = [k for k in picked if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG]
        markers = read_markers(self._reader, window, controls) if controls else {}
        for k in picked:
            producer = window.cell(k, layout.PRODUCER_ID)
            epoch, offset = window.cell(k, layout.PRODUCER_EPOCH), window.cell(k, layout.BASE_OFFSET)
            if producer < 0:
                continue
            if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
                marker = markers.get(k)
                if isinstance(marker, Marker):
                    self.end(producer, epoch, offset, is_abort=marker.is_abort)
            else:
                self.begin(producer, epoch, offset)

    def begin(self, producer: int, epoch: int, offset: int) -> None:
        """A batch of a transaction."""
        pieces = self._running.setdefault(producer, [])
        is_next = self._proven.batch(producer, offset)
        if not pieces or is_next or pieces[-1].behind < len(self._holes):
            pieces.append(_Piece(offset, epoch, len(self._holes)))

    def end(self, producer: int, epoch: int, offset: int, *, is_abort: bool) -> None:
        """A marker."""
        pieces = self._running.pop(producer, [])
        by_marker = ABORTED if is_abort else COMMITTED
        lost = self._proven.end(producer, offset, is_abort=is_abort)
        for k, piece in enumerate(pieces):
            end = self._lost_end(producer, piece, lost, epoch)
            if end is not None and not is_abort and self._is_known(end.hole):
                end = None  # that was no abort either
            is_before_hole = piece.behind < len(self._holes)
            is_doubted = is_before_hole and self._is_in_doubt(
                producer, pieces[: k + 1], epoch, offset, is_abort=is_abort
            )
            if end is not None and not (is_doubted and self._is_in_hole(piece, end)):
                self._tell_lost_end(producer, piece, end)
            elif is_doubted:
                is_told = self._was_aborted(producer, pieces[: k + 1])
                self._tell_before_hole(producer, piece, ABORTED if is_told else IN_DOUBT, agrees=False)
            elif is_before_hole:
                self._tell_before_hole(producer, piece, by_marker, agrees=True)
            else:
                if not is_abort and epoch == piece.epoch + 1:
                    self._raises.add(producer)
                self._tell(Told(producer, piece.first, offset + 1, by_marker, None, agrees=True))

    def finish(self) -> None:
        """Nothing follows. What an index tells to be aborted in a hole would be open, and the next COMMIT cover it."""
        for producer, pieces in self._running.items():
            lost = self._proven.end(producer, None, is_abort=False)
            told = []
            for k, piece in enumerate(pieces):
                end = self._lost_end(producer, piece, lost)
                if self._was_aborted(producer, pieces[: k + 1]):
                    self._tell_before_hole(producer, piece, ABORTED, agrees=False)
                elif end is not None:
                    self._tell_lost_end(producer, piece, end)
                else:
                    continue
                told.append(k)
            self._running[producer] = [piece for k, piece in enumerate(pieces) if k not in told]

    def open_from(self, producer: int) -> int | None:
        """Return the first offset of the transaction of a producer that has no end so far, None for none."""
        pieces = self._running.get(producer)
        return pieces[0].first if pieces else None

    @property
    def first_open(self) -> int | None:
        """The first offset of the transactions that have no end so far; None for none."""
        return min((pieces[0].first for pieces in self._running.values() if pieces), default=None)

    def has_begun_up_to(self, offset: int) -> bool:
        """Tell whether a transaction that has no end so far began up to an offset."""
        return any(pieces[0].first <= offset for pieces in self._running.values() if pieces)

    def _lost_end(
        self, producer: int, piece: _Piece, lost: Sequence[LostEnd], epoch: int | None = None
    ) -> LostEnd | None:
        """Return the end of a piece that is lost; None where none is, or the indexes have its transaction.

        Args:
            producer: of it.
            piece: batches.
            lost: the ends of the producer that are.
            epoch: of the next marker; None for none.
        """
        end = next((one for one in reversed(lost) if one.first <= piece.first < one.entry.first_offset), None)
        if end is None or self._entry_over(producer, piece.first) is not None:
            return None
        ends_itself = producer in self._raises and epoch == piece.epoch + 1
        return None if ends_itself else end

    def _is_in_hole(self, piece: _Piece, end: LostEnd) -> bool:
        """Whether the lost end of a piece may be in a hole that nothing explains."""
        return piece.behind < len(self._holes) and self._holes[piece.behind].first <= end.hole.last

    def _tell_lost_end(self, producer: int, piece: _Piece, end: LostEnd) -> None:
        fate, stop = IN_DOUBT if self._is_in_hole(piece, end) else UNKNOWN, end.entry.first_offset
        self._tell(Told(producer, piece.first, stop, fate, end.hole, agrees=False, proof=end.entry))

    def _tell_before_hole(self, producer: int, piece: _Piece, fate: str, *, agrees: bool) -> None:
        hole = self._holes[piece.behind]
        self._tell(Told(producer, piece.first, hole.first, fate, hole, agrees=agrees))

    def _was_aborted(self, producer: int, pieces: Sequence[_Piece]) -> bool:
        """Whether an index tells that the last of some pieces was aborted in a hole behind it."""
        entry = self._entry_over(producer, pieces[-1].first)
        if entry is None or not self._fits(entry, pieces):
            return False
        return _has(self._holes, entry.last_offset, pieces[-1].behind)

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

    def _is_known(self, hole: MissingRange) -> bool:
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


def _has(holes: Sequence[MissingRange], offset: int, start: int = 0) -> bool:
    """Whether an offset is in one of some holes, ascending, from a number on."""
    at = bisect_right(holes, offset, start, key=lambda one: one.first) - 1
    return at >= start and offset <= holes[at].last
