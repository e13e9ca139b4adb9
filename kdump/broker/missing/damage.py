"""Which offsets the damaged bytes of a log had: from what a walk has found, without reading anything twice.

Strategy: batches that are right leave ranges of offsets free between them. Where damage lies in such a range its pieces
share it: a piece whose header stands has the offsets that the header says, the others what is left. What no piece
explains is a hole: there a batch was never written, was compacted away, or was cut out; `HoleJudge` says which.

Salvage asks another question, in `kdump.rescue.losses`: which bytes of several copies may have had the offsets that the
line lacks, which is made of all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.missing.ranges import MissingRange
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.batch import layout
from kdump.format.record.reader import RecordReader
from kdump.rows.verdict import Certainty
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source

_MOST = 1000  # pieces between two batches, or ranges, that are held


class _Piece(TupleValue):
    """Bytes between two right batches: their offsets where they say them; `last` alone is an upper bound."""

    # start, end: the bytes
    start: int
    end: int
    # certainty, because: of the loss
    certainty: Certainty
    because: tuple[str, ...]
    # first, last, records: what their header says
    first: int | None = None
    last: int | None = None
    records: int | None = None
    # where the batch ends by that header, None where it does not say it. Where that is not where the next one begins,
    # the batch is not all that was here: what the header leaves free is no hole.
    body_end: int | None = None
    is_odd: bool = False  # the records that the header tells cannot be in its offsets, or in its bytes


class DamageFold:
    """Follows one log: takes its findings and the ranges that its right batches leave free, in file order.

    Args:
        log: its path, and its size in bytes.
        first_offset: tells the first offset of the legacy batch at a position; None where that cannot be read.
        last_offset: tells the last offset of the batch at a position by its records; None where they do not tell it.

    Attributes:
        dense_from: from here on readers get all offsets up to the last right batch so far; None before the first range.
    """

    def __init__(
        self,
        log: tuple[str, int],
        first_offset: Callable[[int], int | None],
        last_offset: Callable[[int], int | None],
    ) -> None:
        self._file, self._size = log
        self._first_offset = first_offset
        self._last_offset = last_offset
        self._pieces: list[_Piece] = []
        self._header_end = 0  # of the last header that stood in a gap, by its length
        self._ranges: list[MissingRange] = []
        self._unreadable: dict[int, MissingRange] = {}
        self.dense_from: int | None = None

    def see(self, finding: Finding) -> None:
        """Take a finding about the log."""
        if finding.position is None or finding.code is Code.V03:
            return
        if finding.gap:
            self._gap(finding)
        elif Trait.BAD_CRC in finding.code.traits or (finding.code is Code.F06 and finding.offset is not None):
            self._piece(finding, finding.offset, finding.last_offset, finding.count)
        elif finding.is_unplaced:
            self._piece(finding, None, None, finding.count)
        elif finding.code is Code.O04 and finding.offset is not None and finding.last_offset is not None:
            self._hole(finding.position, finding.offset, finding.last_offset, Code.O04)
        elif finding.code is Code.B07 and finding.offset is not None:
            self._piece(finding, finding.offset, None, None)
        elif Trait.UNREADABLE in finding.code.traits and finding.severity is Severity.ERROR:
            self._cannot_read(finding)

    def _gap(self, finding: Finding) -> None:
        start, end = finding.position or 0, (finding.position or 0) + (finding.length or 0)
        name = finding.code.name
        if finding.offsets_from == "bytes":
            batch_end = finding.values.get("batchEnd")
            is_whole = finding.count is not None or finding.is_torn_batch
            certainty = Certainty.DOUBTFUL if is_whole else Certainty.LOST
            self._header_end = max(end, batch_end if isinstance(batch_end, int) else 0)
            stop = min(self._header_end, self._size)
            ends = finding.offset, finding.last_offset
            body_end = batch_end if isinstance(batch_end, int) else None
            piece = _Piece(start, stop, certainty, (name,), *ends)
            self._add(piece._replace(records=finding.count, body_end=body_end))
            return
        if end <= self._header_end:
            self._explain(name)
            return
        start = max(start, self._header_end)
        certainty = Certainty.DOUBTFUL if finding.code is Code.L12 else Certainty.LOST
        before = self._pieces[-1] if self._pieces else None
        if before is not None and before.first is None and before.last is None and before.end == start:
            self._pieces[-1] = before._replace(end=end)
            self._explain(name)
        else:
            self._add(_Piece(start, end, certainty, (name,)))

    def _explain(self, name: str) -> None:
        """One more code for the last piece."""
        if self._pieces and name not in self._pieces[-1].because:
            self._pieces[-1] = self._pieces[-1]._replace(because=(*self._pieces[-1].because, name))

    def _piece(self, finding: Finding, first: int | None, last: int | None, records: int | None) -> None:
        start = finding.position or 0
        end = start + (finding.length or 0)
        if finding.code is Code.F06:  # the batch around it
            start, end = (
                one if isinstance(one := finding.values.get(key), int) else at
                for key, at in (("batchStart", start), ("batchEnd", end))
            )
        if finding.code is Code.B02 and first is not None and first == last:
            records = 1  # no message is empty
        is_odd = finding.code is Code.B01 and records is None
        piece = _Piece(start, end, Certainty.DOUBTFUL, (finding.code.name,), first, last)
        self._add(piece._replace(records=records, body_end=end, is_odd=is_odd))

    def _add(self, piece: _Piece) -> None:
        if len(self._pieces) < _MOST:
            self._pieces.append(piece)
        else:  # more between two batches: one piece for all of them
            self._pieces[-1] = self._pieces[-1]._replace(end=piece.end, first=None, last=None, records=None)

    def _cannot_read(self, finding: Finding) -> None:
        position, last = finding.position or 0, finding.last_offset
        known = self._unreadable.get(position)
        if known is not None:
            if finding.code.name not in known.because:
                self._unreadable[position] = known._replace(because=(*known.because, finding.code.name))
        elif last is not None:
            first = last if finding.offset is None else min(finding.offset, last)
            because, length = (finding.code.name,), finding.length or 0
            doubtful = MissingRange(first, last, because, self._file, position, length, certainty=Certainty.DOUBTFUL)
            self._unreadable[position] = doubtful

    def window(self, records: Callable[[int], int | None]) -> None:
        """The findings about a window's batches are all there.

        Args:
            records: tells how many the batch at a position has.
        """
        if self._unreadable:
            for position, one in self._unreadable.items():
                self._keep(one._replace(records=records(position)))
            self._unreadable.clear()

    def _hole(self, position: int, first: int, last: int, code: Code) -> None:
        self._keep(MissingRange(first, last, (code.name,), self._file, position))

    def _keep(self, one: MissingRange) -> None:
        self._ranges.append(one)
        self.dense_from = max(self.dense_from or 0, one.last + 1)

    def settle(self, first: int, last: int | None, position: int) -> None:
        """Share a range of offsets among the pieces before a batch.

        Args:
            first, last: the offsets that the right batches leave free; `last` None where a legacy wrapper ends them.
            position: of the batch after them.
        """
        early = [one for one in self._pieces if one.start < position]
        pieces = sorted(early, key=lambda one: one.start)  # a batch may be blamed late
        self._pieces = [one for one in self._pieces if one.start >= position]
        if last is None:
            begins = self._first_offset(position)
            if begins is None:
                return
            last = begins - 1
        self._share(pieces, first, last, position, Code.O04)

    def _share(self, pieces: list[_Piece], first: int, last: int, position: int, hole: Code) -> None:
        cursor = first
        loose: list[_Piece] = []
        for told in pieces:
            piece = self._with_own_end(told) if told.is_odd else told
            if piece.first is not None and cursor <= piece.first <= last:
                self._free(loose, cursor, piece.first - 1, piece.start, hole)
                following = [one for one in pieces if one.start > piece.start]
                end, firsts = piece.last, [one.first for one in following if one.first]
                bound = min([last, *(one - 1 for one in firsts if one > piece.first)])
                is_cut = end is None or not piece.first <= end <= bound or piece.is_odd
                end = bound if is_cut or end is None else end
                count = None if is_cut and piece.records != end - piece.first + 1 else piece.records
                behind = following[0].start if following else position
                loose = [] if piece.body_end == behind else [_rest_of(piece)]
                self._keep(self._range(piece, loose[0].start if loose else piece.end, piece.first, end, count))
                cursor = end + 1
            elif piece.last is not None and piece.first is None and cursor <= piece.last <= last:
                count = 1 if cursor == piece.last else None  # a wrapper: it has the offsets up to its own
                self._keep(self._range(piece, piece.end, cursor, piece.last, count))
                cursor = piece.last + 1
            else:
                loose.append(piece)
        self._free(loose, cursor, last, position, hole)

    def _free(self, loose: list[_Piece], first: int, last: int, position: int, hole: Code) -> None:
        """A range that no header claims: of the pieces there, or a hole."""
        if first > last:
            return
        if not loose:
            self._hole(position, first, last, hole)
            return
        is_doubtful = all(one.certainty is Certainty.DOUBTFUL for one in loose)
        names = tuple(dict.fromkeys(name for one in loose for name in one.because))
        piece = loose[0]._replace(because=names, certainty=Certainty.DOUBTFUL if is_doubtful else Certainty.LOST)
        self._keep(self._range(piece, loose[-1].end, first, last, None))

    def _range(self, piece: _Piece, end: int, first: int, last: int, records: int | None) -> MissingRange:
        place = self._file, piece.start, end - piece.start
        return MissingRange(first, last, piece.because, *place, records=records, certainty=piece.certainty)

    def finish(self, first: int, known: int | None, why: tuple[str, ...], *, is_last: bool) -> None:
        """Share what is behind the last right batch.

        Args:
            first: the offset after it.
            known: the last offset that is known to have been here, None where nobody knows.
            why: names of the codes that say that the log went on, where no byte is left of it. What the offset index
                or a log beside it knows is lost, and in the last log what the time index knows; of what others know,
                see `HoleJudge`.
            is_last: no segment follows.
        """
        pieces, self._pieces = self._pieces, []
        last = first - 1 if known is None else known
        for number, piece in enumerate(pieces):  # a torn batch says where the log ended
            is_torn = piece.first is not None and piece.certainty is Certainty.DOUBTFUL
            if is_torn and is_last and piece.last is not None:
                pieces[number] = whole = self._with_own_end(piece)
                last = max(last, whole.last or 0)
        before = len(self._ranges)
        self._share(pieces, first, last, self._size, Code.O07)
        for number in range(before, len(self._ranges)):
            one = self._ranges[number]
            if why and (one.position, one.length) == (self._size, 0):
                is_known = Trait.KNOWN_BATCHES.is_among(why) or (is_last and Code.T04.name in why)
                certainty = Certainty.LOST if is_known else None
                self._ranges[number] = one._replace(certainty=certainty, because=why)

    def _with_own_end(self, piece: _Piece) -> _Piece:
        """A batch whose header contradicts itself: no batch follows that would bound it, but its records may do."""
        if piece.first is None or piece.last is None or piece.records == piece.last - piece.first + 1:
            return piece
        last = self._last_offset(piece.start)
        return piece if last is None else piece._replace(last=last, records=last - piece.first + 1, is_odd=False)

    def ranges(self) -> list[MissingRange]:
        """Return what was found since the last time, in the order of offsets."""
        found, self._ranges = self._ranges, []
        return sorted(found, key=lambda one: (one.first, one.position))

    @property
    def is_full(self) -> bool:
        """Whether what was found should be taken before more comes."""
        return len(self._ranges) >= _MOST


def _rest_of(piece: _Piece) -> _Piece:
    """What is behind the batch of a header that does not end where the next one begins: nobody knows its offsets."""
    start = piece.end if piece.body_end is None else min(piece.body_end, piece.end)
    certainty = Certainty.DOUBTFUL if Code.L12.name in piece.because else Certainty.LOST
    return _Piece(start, piece.end, certainty, piece.because)


def below(ranges: Sequence[MissingRange], bound: int | None) -> tuple[MissingRange, ...]:
    """Return ranges of a log without the offsets of the next one: a wrong header claims those.

    Args:
        ranges: of a log.
        bound: base offset of the next log; None after the last one.
    """
    if bound is None:
        return tuple(ranges)
    kept = (one for one in ranges if one.first < bound)
    return tuple(one if one.last < bound else one._replace(last=bound - 1, records=None) for one in kept)


def last_offset(log: Source, position: int, limits: ReadLimits) -> int | None:
    """Return the last offset of the batch at a position by its records alone; None where they do not tell it.

    They do where all of them can be read and no offset is missing between them, whatever the header says.

    Args:
        log: the log.
        position: bytes.
        limits: what is read at most.
    """
    from kdump.compat.kafka_walk import KafkaWalk  # where offsets are missing: no sound log needs that

    walk = KafkaWalk(log, log.name, position, log.size, limits.max_batch_bytes)
    reader = RecordReader.within(limits)
    for window in walk.windows():
        first, count, last = window.cell(0, layout.BASE_OFFSET), 0, None
        for chunk in reader.chunks(window.batch(0)):
            if chunk.problem is not None:
                return None
            count += chunk.filled
            if chunk.filled:
                last = chunk.rows[(chunk.filled - 1) * layout.RECORD_WIDTH + layout.R_OFFSET]
        return last if last == first + count - 1 else None
    return None
