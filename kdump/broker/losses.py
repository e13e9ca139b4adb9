"""Which offsets a reader of a log does not get: from what a walk has found, without reading anything twice.

Strategy: batches that are right leave ranges of offsets free between them. Where damage lies in such a range its pieces
share it: a piece whose header stands has the offsets that the header says, the others what is left. What no piece
explains is a hole: there a batch was never written, was compacted away, or was cut out; `MissingOffsets` judges which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.hole_columns import HeldHole, HoleColumns, HoleRun
from kdump.broker.missing_offsets import HoleVerdict, MissingOffsets, OffsetHole, Proof, is_told_as_hole
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.rows.verdict import Certainty, Loss
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.source import Source

_MOST = 1000  # pieces between two batches, or ranges, that are held


class LostRange(TupleValue):
    """Offsets of one log that readers do not get.

    Args:
        position, length: of their bytes.
        first, last: offsets.
        records: None where nobody can count them.
        certainty: None for a hole, see `PartitionLosses`.
        because: names of codes.
        proof: what the indexes say of a hole.
        missing_bytes: so many were in it, or in several together, by the offset index; None where that does not tell.
    """

    position: int
    length: int
    first: int
    last: int
    records: int | None
    certainty: Certainty | None
    because: tuple[str, ...]
    proof: Proof | None = None
    missing_bytes: int | None = None


class _Piece(TupleValue):
    """Bytes between two right batches: their offsets where they say them; `last` alone is an upper bound.

    Args:
        start, end: the bytes.
        first, last, records: what their header says.
        certainty, because: of the loss.
        body_end: where the batch ends by that header, None where it does not say it. Where that is not where the next
            one begins, the batch is not all that was here: what the header leaves free is no hole.
        is_odd: the records that the header tells cannot be in its offsets, or in its bytes.
    """

    start: int
    end: int
    first: int | None
    last: int | None
    records: int | None
    certainty: Certainty
    because: tuple[str, ...]
    body_end: int | None = None
    is_odd: bool = False


class LossFold:
    """Follows one log: takes its findings and the ranges that its right batches leave free, in file order.

    Args:
        size: of the log, bytes.
        first_offset: tells the first offset of the legacy batch at a position; None where that cannot be read.
        last_offset: tells the last offset of the batch at a position by its records; None where they do not tell it.

    Attributes:
        dense_from: from here on readers get all offsets up to the last right batch so far; None before the first range.
    """

    def __init__(
        self, size: int, first_offset: Callable[[int], int | None], last_offset: Callable[[int], int | None]
    ) -> None:
        self._size = size
        self._first_offset = first_offset
        self._last_offset = last_offset
        self._pieces: list[_Piece] = []
        self._header_end = 0  # of the last header that stood in a gap, by its length
        self._ranges: list[LostRange] = []
        self._unreadable: dict[int, LostRange] = {}
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
            self._add(_Piece(start, stop, *ends, finding.count, certainty, (name,), body_end))
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
            self._add(_Piece(start, end, None, None, None, certainty, (name,)))

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
        names = (finding.code.name,)
        self._add(_Piece(start, end, first, last, records, Certainty.DOUBTFUL, names, end, is_odd))

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
            because = (finding.code.name,)
            self._unreadable[position] = LostRange(
                position, finding.length or 0, first, last, None, Certainty.DOUBTFUL, because
            )

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
        self._keep(LostRange(position, 0, first, last, None, None, (code.name,)))

    def _keep(self, one: LostRange) -> None:
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

    def _range(self, piece: _Piece, end: int, first: int, last: int, records: int | None) -> LostRange:
        return LostRange(piece.start, end - piece.start, first, last, records, piece.certainty, piece.because)

    def finish(self, first: int, known: int | None, why: tuple[str, ...], *, is_last: bool) -> None:
        """Share what is behind the last right batch.

        Args:
            first: the offset after it.
            known: the last offset that is known to have been here, None where nobody knows.
            why: names of the codes that say that the log went on, where no byte is left of it. What the offset index
                or a log beside it knows is lost; of what others know, see `MissingOffsets`.
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
                certainty = Certainty.LOST if Trait.KNOWN_BATCHES.is_among(why) else None
                self._ranges[number] = one._replace(certainty=certainty, because=why)

    def _with_own_end(self, piece: _Piece) -> _Piece:
        """A batch whose header contradicts itself: no batch follows that would bound it, but its records may do."""
        if piece.first is None or piece.last is None or piece.records == piece.last - piece.first + 1:
            return piece
        last = self._last_offset(piece.start)
        return piece if last is None else piece._replace(last=last, records=last - piece.first + 1, is_odd=False)

    def ranges(self) -> list[LostRange]:
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
    return _Piece(start, piece.end, None, None, None, certainty, piece.because)


def below(ranges: Sequence[LostRange], bound: int | None) -> tuple[LostRange, ...]:
    """Return ranges of a log without the offsets of the next one: a wrong header claims those.

    Args:
        ranges: of a log.
        bound: base offset of the next log; None after the last one.
    """
    if bound is None:
        return tuple(ranges)
    kept = (one for one in ranges if one.first < bound)
    return tuple(one if one.last < bound else one._replace(last=bound - 1, records=None) for one in kept)


def is_inner_hole(one: LostRange) -> bool:
    """Tell whether a range of a log is a hole that other batches, or another log, follow."""
    return one.certainty is None and is_told_as_hole(one.because)


def last_offset(log: Source, position: int, max_uncompressed_bytes: int, max_batch_bytes: int) -> int | None:
    """Return the last offset of the batch at a position by its records alone; None where they do not tell it.

    They do where all of them can be read and no offset is missing between them, whatever the header says.

    Args:
        log: the log.
        position: bytes.
        max_uncompressed_bytes, max_batch_bytes: limits, bytes.
    """
    from kdump.compat.kafka_walk import KafkaWalk  # where offsets are missing: no sound log needs that

    walk = KafkaWalk(log, log.name, position, log.size, max_batch_bytes)
    reader = RecordReader(max_uncompressed_bytes, max_batch=max_batch_bytes, cut=KEPT)
    for window in walk.windows():
        first, count, last = window.cell(0, layout.BASE_OFFSET), 0, None
        for chunk in reader.chunks(window.only(0)):
            if chunk.problem is not None:
                return None
            count += chunk.filled
            if chunk.filled:
                last = chunk.rows[(chunk.filled - 1) * layout.RECORD_WIDTH + layout.R_OFFSET]
        return last if last == first + count - 1 else None
    return None


def log_end(log: Source, base_offset: int, next_base: int | None, max_batch_bytes: int) -> int | None:
    """Return where a log ends by its last batch, a torn one too where its header stands; None without a batch.

    Args:
        log: the log.
        base_offset: of it.
        next_base: that of the next segment, None after the last.
        max_batch_bytes: a batch over this is not held in memory.
    """
    torn: list[int] = []

    def see(finding: Finding) -> None:
        if finding.is_torn_batch and finding.last_offset is not None:
            torn.append(finding.last_offset)

    walk = CheckedWalk(log, see, segment=base_offset, next_base=next_base, max_batch_bytes=max_batch_bytes)
    for _ in walk.windows():
        pass
    last = walk.checks.offsets.last
    return max([*torn, *(() if last is None else (last,))], default=-1) + 1 or None


_NAMED = 4  # holes that a sentence names
_TOGETHER = 10_000  # holes that are judged at a time


class HolesAmong:
    """Holes in one of which bytes are missing, nobody knows in which: those of one log.

    Args:
        missing_bytes: so many.

    Attributes:
        first: the first of them; None before it has come.
        count: how many they are.
    """

    def __init__(self, missing_bytes: int | None) -> None:
        self.missing_bytes = missing_bytes
        self.first: HeldHole[str] | None = None
        self.count = 0
        self._others: list[str] = []

    def add(self, hole: HeldHole[str]) -> None:
        """Take one more; its kind is the name of the code that tells of it."""
        self.count += 1
        if self.first is None:
            self.first = hole
        elif len(self._others) < _NAMED:
            self._others.append(f"{hole.first}..{hole.last}")

    @property
    def sentence(self) -> str:
        """The others, and what is lost, to be said behind the first one."""
        more = self.count - 1 - len(self._others)
        where = " or ".join([*self._others, *([f"{more} more hole{'' if more == 1 else 's'}"] if more else [])])
        others = f"or {where}: " if where else ""
        them = "in these holes" if where else "in this hole, or in one that another copy fills"
        return f"{others}{self.missing_bytes} bytes are lost {them}, by the offset index"


class PartitionLosses:
    """Makes losses of the ranges of a partition's logs, each offset in one of them only.

    What becomes of a hole is for `MissingOffsets` to say. One at the end of a log may go on in the next, and one of
    which the files say nothing waits for what comes behind it.

    Args:
        path: of the directory.
        partition: its name.
        start: the log start offset: what lies below it is on its way out.
        judge: of holes; it has taken all into account that lies before.

    Attributes:
        offsets_lost: of all losses so far that count.
        verdicts: of holes, by their last offset, since somebody emptied it: also of what is cut off behind a log. Those
            of holes that have waited, and that a cleaner has made, are not among them.
        unexplained: by code, L17 or L19, the first hole that it is about, as a loss, and how many there are.
        among: by log the holes in one of which bytes are missing.
    """

    def __init__(self, path: str, partition: str, start: int, judge: MissingOffsets) -> None:
        self._path = path
        self._partition = partition
        self._next = self._end = start
        self._judge = judge
        self._waiting: HoleColumns[tuple[str, ...]] = HoleColumns()
        self._whole: HoleColumns[tuple[str, ...]] | None = None
        self.offsets_lost = 0
        self.verdicts: dict[int, tuple[OffsetHole, HoleVerdict]] = {}
        self.unexplained: dict[Code, tuple[Loss, int]] = {}
        self.among: dict[str, HolesAmong] = {}
        self._named_to: dict[Code, int] = {}  # where the last of the holes ends that are counted there

    def is_waiting(self, last: int) -> bool:
        """Tell whether a hole, by its last offset, waits for what comes behind it."""
        return self._waiting.has(last)

    @property
    def has_waiting(self) -> bool:
        """Whether any hole waits for what comes behind it."""
        return len(self._waiting) > 0

    def have(self, end: int) -> None:
        """Intact batches of a segment have all offsets up to one in the next: there none of them is lost."""
        self._next = max(self._next, end)

    def reached(self, end: int) -> None:
        """A segment ends before an offset: the next one does not begin with a hole below it."""
        self._end = max(self._end, end)
        self._judge.reach(end)

    def judge_as_in(self, other: PartitionLosses) -> None:
        """Judge what waits as a part of another view, in which nothing was settled: that of all logs."""
        self._judge, self._whole = other._judge, other._waiting

    def take(self, file: str, ranges: Sequence[LostRange]) -> Iterator[Loss]:
        """Yield the losses of some ranges of a log, but for those that wait.

        Args:
            file: the log.
            ranges: in the order of offsets.
        """
        for one in ranges:
            first = max(one.first, self._next, self._end if one.certainty is None else self._next)
            if first > one.last:
                continue
            self._next = one.last + 1
            if one.certainty is not None:
                records = one.records if first == one.first else None
                place = file, one.position, one.length
                loss = Loss(self._path, self._partition, *place, first, one.last, records, one.certainty, one.because)
                if not one.length:
                    hole = OffsetHole(first, one.last, Proof.SHOWN, one.because)
                    self.verdicts[one.last] = hole, HoleVerdict(one.certainty)
                yield self._counted(loss)
                continue
            if one.proof is Proof.AMONG_SEVERAL:
                code = one.because[0]
                among = self.among.setdefault(file, HolesAmong(one.missing_bytes))
                among.add(HeldHole(first, one.last, one.position, file, code))
            hole = OffsetHole(first, one.last, one.proof, one.because)
            self._judge.count(hole)
            verdict, held = self._judge.by_files(hole), HeldHole(first, one.last, one.position, file, one.because)
            if verdict is None:
                self._waiting.add(held)
            else:
                self._note(verdict, held, hole.last)
                yield from self._judged(hole, held, verdict)

    def settled(self) -> Iterator[int]:
        """Yield the last offsets of holes that have waited, and that a cleaner has made, as is known now."""
        while (run := self._waiting.first_run()) is not None:
            if not self._waiting.has_more_runs and run.end.kind[:1] != (Code.O04.name,):
                return  # it may go on
            if self._judge.early(self._hole_of(run)) is None:
                return  # no more can be said of those behind it
            for _ in range(run.parts):
                yield self._waiting.pop().last

    def conclude(self) -> None:
        """Note what is to be said of all holes that wait, once all of the partition was taken: see `unexplained`."""
        for run in self._waiting.runs():
            self._note(self._judge.verdict(self._hole_of(run)), run.begin, run.end.last)

    def rest(self) -> Iterator[list[Loss]]:
        """Yield the losses of all holes that have waited, some at a time, once all of the partition was taken."""
        part: list[Loss] = []
        count = 0
        while (run := self._waiting.first_run()) is not None:
            verdict = self._judge.verdict(self._hole_of(run))
            for _ in range(run.parts):
                held = self._waiting.pop()
                part += self._judged(OffsetHole(held.first, held.last, None, held.kind), held, verdict)
                count += 1
                if count == _TOGETHER:
                    yield part
                    part, count = [], 0
        if count:
            yield part

    def _hole_of(self, run: HoleRun[tuple[str, ...]]) -> OffsetHole:
        """The hole of the partition that some neighbouring ones are."""
        around = None if self._whole is None else self._whole.run_around(run.begin.first)
        first, last = around or (run.begin.first, run.end.last)
        return OffsetHole(first, last, None, run.end.kind)

    def _note(self, verdict: HoleVerdict, begin: HeldHole[tuple[str, ...]], last: int) -> None:
        """Count a hole that nobody can explain, or the next part of one."""
        code = verdict.because
        if code is None or code is Code.X04:
            return
        loss = self._loss(begin, verdict).replace(last_offset=last)
        first, count = self.unexplained.get(code, (loss, 0))
        goes_on = self._named_to.get(code) == begin.first
        if goes_on and count == 1:
            first = first.replace(last_offset=last)
        self.unexplained[code] = first, count + (not goes_on)
        self._named_to[code] = last + 1

    def _judged(self, hole: OffsetHole, held: HeldHole[tuple[str, ...]], verdict: HoleVerdict) -> Iterator[Loss]:
        """The loss of a hole; none where compaction has made it."""
        self.verdicts[hole.last] = hole, verdict
        if verdict.certainty is not Certainty.ABSENT:
            yield self._counted(self._loss(held, verdict))

    def _loss(self, held: HeldHole[tuple[str, ...]], verdict: HoleVerdict) -> Loss:
        because = held.kind if verdict.because is None else (*held.kind, verdict.because.name)
        place = held.file, held.position, 0, held.first, held.last, None
        return Loss(self._path, self._partition, *place, verdict.certainty, because, is_known=verdict.is_known)

    def _counted(self, loss: Loss) -> Loss:
        self.offsets_lost += loss.offsets if loss.counts else 0
        return loss
