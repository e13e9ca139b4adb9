"""The outcome of each transaction, committed, aborted, open or unknown, for `dump --committed`, `--aborted`, `--fate`.

Strategy: what a batch comes to is said by the next marker of its producer, which lies after it. So the logs are walked
through once before they are shown, further than they are shown where transactions are open at their end, into the
segments beside them. What is kept are the ranges of aborted transactions and of those in doubt, and the beginning of
open ones; what is not among them was committed.

What cannot be read, and what is simply not there, may have had a marker. Whether one behind it still tells what became
of the batches before it is for `TransactionFates` to say, by the rule that salvage goes by. Offsets that are not there
count only where they are lost, or stand alone, by the judgement that all verbs share (`kdump.broker.missing`).
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.broker.missing.lost_holes import lost_holes
from kdump.broker.missing.ranges import MissingRange
from kdump.broker.producer.end_markers import LARGEST_MARKER, Marker, open_at_end, read_markers
from kdump.broker.producer.transaction_fates import (
    ABORTED,
    COMMITTED,
    IN_DOUBT,
    UNKNOWN,
    Told,
    TransactionFates,
)
from kdump.dump.checked import open_walk
from kdump.dump.input_file import InputFile
from kdump.dump.last_stable import last_stable, log_reader
from kdump.dump.transaction_indexes import TransactionIndexes
from kdump.finding import Code, Finding
from kdump.format.batch import _scan, layout
from kdump.format.batch.base_offset.right import misplaced, unplaced
from kdump.format.batch.walk import right_windows
from kdump.format.record import _select
from kdump.format.record.reader import RecordReader
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import FileKind, parse_name
from kdump.storage.segment import UnreadableError
from kdump.value import TupleValue
from kdump.words.numbers import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from kdump.broker.log_facts import FirstOpen
    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.batch.walk import CheckedWalk
    from kdump.format.batch.window import Window
    from kdump.format.record.chunk import Chunk
    from kdump.format.source import Source

OPEN = "open"
NOBODY_KNOWS = (UNKNOWN, IN_DOUBT)
_NEVER = layout.LARGEST_OFFSET
_MOST = 4  # places that a sentence names
_FLAGS = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG


class Met(TupleValue):
    """What was met in what is shown that is neither committed nor aborted."""

    opened: dict[int, tuple[str, int]]  # open transactions: path and first offset by producer
    # records that are in doubt, by where the end of their transaction may be ("" where no offset is known)
    doubts: dict[str, int]
    behind: int = 0  # records that were shown and that no reader of committed data gets yet

    def joined(self, other: Met) -> Met:
        """Return this, and what was met behind it."""
        doubts = dict(self.doubts)
        for where, count in other.doubts.items():
            doubts[where] = doubts.get(where, 0) + count
        return Met({**other.opened, **self.opened}, doubts, self.behind + other.behind)


class _Odd(TupleValue):
    """A batch whose offsets nobody vouches for."""

    # path, position: where it lies
    path: str
    position: int
    offsets: int  # how many it has; 0 where its CRC is wrong
    # producer, epoch: of its transaction, -1 for none
    producer: int = -1
    epoch: int = -1
    is_abort: bool | None = None  # what kind of marker it is, None for none


class _Between:
    """What lies between two batches whose offsets can be relied on.

    Attributes:
        is_damaged: not all of it are batches with the right CRC.
        may_end: a marker may have been there.
    """

    def __init__(self) -> None:
        self.many = 0  # how many gaps and batches
        self.is_damaged = self.may_end = False
        self.batches: list[_Odd] = []

    def add(self, *, may_end: bool = True) -> None:
        """Something that cannot be read."""
        self.many += 1
        self.is_damaged = True
        self.may_end |= may_end

    def fills(self, offsets: int) -> bool:
        """Tell whether its batches are all that was there."""
        return not self.is_damaged and sum(one.offsets for one in self.batches) == offsets


class _Answer:
    """What became of transactions.

    Args:
        options: limits.
    """

    def __init__(self, options: DumpOptions) -> None:
        # by fate, producer: first, last
        self._ranges: dict[str, dict[int, array[int]]] = {fate: {} for fate in (*NOBODY_KNOWS, ABORTED)}
        self._holes: dict[tuple[int, int], MissingRange] = {}  # by producer and first offset of what is in doubt
        self.fates = TransactionFates(self._take, options.max_uncompressed_bytes, options.max_batch_bytes)

    def _take(self, told: Told) -> None:
        if told.fate == COMMITTED:
            return
        ranges = self._ranges[told.fate].setdefault(told.producer, array("q"))
        first = max(told.start, ranges[-1] + 1) if ranges else told.start
        if first < told.stop:
            ranges.extend((first, told.stop - 1))
            if told.fate in NOBODY_KNOWS and told.hole is not None:
                self._holes[told.producer, first] = told.hole

    def not_committed(self) -> Iterator[tuple[int, int, int, bool]]:
        """Yield producer, first and last offset of each range, and whether it is in doubt."""
        for fate, of in self._ranges.items():
            for producer, ranges in of.items():
                for first, last in zip(ranges[::2], ranges[1::2], strict=True):
                    yield producer, first, last, fate in NOBODY_KNOWS

    def of(self, producer: int, offset: int) -> tuple[str, MissingRange | None]:
        """Return what became of a batch, and the hole that may have ended its transaction where that is in doubt.

        Args:
            producer, offset: its.
        """
        for fate, of in self._ranges.items():
            ranges = of.get(producer, ())
            at = bisect_right(ranges, offset)
            if at % 2 or (at and ranges[at - 1] == offset):
                return fate, self._holes.get((producer, ranges[(at - 1) // 2 * 2]))
        begun = self.fates.open_from(producer)
        return (COMMITTED if begun is None or offset < begun else OPEN), None


class Outcomes:
    """Knows what became of the transactions in the logs of one directory.

    Args:
        logs: in order; the later segments of the directory are looked into as needed.
        options: limits.
        wanted: "committed" or "aborted", where only such are shown.
    """

    def __init__(self, logs: Sequence[InputFile], options: DumpOptions, wanted: str | None = None) -> None:
        self._wanted = wanted
        self.logs = [*logs, *_later(logs[-1])]  # these, and the segments after them
        self._options = options
        self._numbers = {log.path: number for number, log in enumerate(self.logs)}
        self._reader = RecordReader.within(options)
        self._answer = _Answer(options)
        self._between = _Between()
        self._places: dict[tuple[str, int], int] = {}  # path and position of odd batches: a low offset that fits
        self._unsure: dict[tuple[str, int], MissingRange] = {}  # of those of which nobody knows what became of them
        self._reached: list[int] = []  # the highest offset up to the end of each log that was walked through
        self._is_done = False  # with all logs
        self._indexes, self._has_holes = TransactionIndexes(self.logs), False
        self._is_asked = False  # what all of these have
        self._shifts: dict[tuple[str, int], int] = {}  # path and position of batches with a wrong base offset
        self._last = -1  # the highest offset that was read
        self._met = Met({}, {})

    def window(self, path: str, window: Window, wanted: str) -> Window:
        """Return the batches with an outcome. Markers have none; what is in no transaction is committed.

        Args:
            path: of the log.
            window: batches of it.
            wanted: "committed" or "aborted".
        """
        in_question = set(_select.with_any(window.rows, window.count, _FLAGS))
        if not in_question and wanted == COMMITTED:
            return window
        if in_question:
            self._walk_until_known(self._numbers[path])
        width = layout.BATCH_WIDTH
        kept = array("q")
        for k in range(window.count) if wanted == COMMITTED else sorted(in_question):
            outcome = self._outcome(path, window, k) if k in in_question else COMMITTED
            if outcome in NOBODY_KNOWS:
                where = self.hole_behind(path, window, k)
                self._met.doubts[where] = self._met.doubts.get(where, 0) + max(0, window.cell(k, layout.COUNT))
            if outcome == wanted:
                kept.extend(window.rows[k * width : (k + 1) * width])
        return window.some(kept, len(kept) // width)

    def of(self, path: str, window: Window, k: int) -> str | None:
        """Return what became of the transaction of a batch; None for a marker, and for what is in none.

        Args:
            path: of the log.
            window: batches of it.
            k: number of the batch.
        """
        flags = window.cell(k, layout.ATTRIBUTES) & _FLAGS
        if window.cell(k, layout.MAGIC) < layout.MAGIC_V2 or flags != layout.TRANSACTIONAL_FLAG:
            return None
        self._walk_until_known(self._numbers[path])
        return self._outcome(path, window, k)

    def know_all(self) -> None:
        """Walk through all logs now: a process that is forked later knows what was found."""
        self._walk_until_known(len(self.logs))

    def not_committed(self) -> Iterator[tuple[int, int, int, bool]]:
        """Yield producer, first and last offset of what was not committed, and whether that is in doubt.

        All logs were walked through. The last offset is that of the marker, where there is one.
        """
        yield from self._answer.not_committed()

    @property
    def first_open(self) -> int | None:
        """The first offset of the transactions that are open at the end; None for none. All was walked through."""
        return self._answer.fates.first_open

    def hole_behind(self, path: str, window: Window, k: int) -> str:
        """Return where the end of a transaction that is in doubt may be, as "offset 33"; empty where nobody can tell.

        Args:
            path: of the log.
            window: batches of it.
            k: number of the batch.
        """
        hole = self._found(path, window, k)[1]
        return "" if hole is None or hole.last >= _NEVER else span(hole.first, hole.last, "offset")

    def met(self, seen: Met | None = None) -> Met:
        """Return what was met in what is shown, and go on with others.

        Args:
            seen: they; None for none.
        """
        met, self._met = self._met, seen or Met({}, {})
        return met

    def shown(self, path: str, chunk: Chunk) -> None:
        """Count what is shown as committed, though no reader of committed data gets it yet.

        Args:
            path: of the log.
            chunk: of it.
        """
        stands = self.stands if self._wanted == COMMITTED else None
        if stands is None:
            return
        first, width, window = stands.first_offset, layout.RECORD_WIDTH, chunk.window
        if self._shifts:
            behind = 0
            for row in range(0, chunk.filled * width, width):
                shift = self.shift(path, window, chunk.rows[row + layout.R_BATCH])
                behind += chunk.rows[row + layout.R_OFFSET] + shift >= first
        else:
            behind = sum(map(first.__le__, chunk.rows[layout.R_OFFSET : chunk.filled * width : width]))
        for k in range(chunk.first, 0 if chunk.filled else chunk.last):
            behind += max(0, window.cell(k, layout.COUNT)) if window.cell(k, layout.BASE_OFFSET) >= first else 0
        self._met = self._met._replace(behind=self._met.behind + behind)

    @cached_property
    def stands(self) -> FirstOpen | None:
        """The transaction at whose first offset a reader of committed data stands; None for none, or not known."""
        return last_stable(self.logs[0], log_reader(self.logs[0], self._options.max_batch_bytes))

    def waiting(self) -> Iterator[OpenFailure]:
        """Yield one line where a reader of committed data does not get all of what was shown, or of what is there."""
        met = self._met
        stands = self.stands if self._wanted == COMMITTED else None
        if stands is None or not (met.behind or met.opened):
            return
        where = os.path.dirname(self.logs[0].path) or self.logs[0].path
        is_lone = self.logs[-1].directory.is_lone_segment
        lie = "1 of the records shown lies" if met.behind == 1 else f"{met.behind} of the records shown lie"
        why = "as far as this segment tells, " if is_lone else ""
        why += f"a read_committed consumer stands at offset {stands.first_offset}: there the transaction of producer"
        why += f" {stands.producer_id} begins, which is open; {lie} behind"
        yield OpenFailure(where, "skipped", f"{where}: {why}")

    def left_out(self) -> Iterator[Finding | OpenFailure]:
        """Yield the transactions of which batches were left out because they have no outcome yet, or an unknown one.

        Reports: P04.
        """
        yield from self.waiting()
        met = self.met()
        end = open_at_end(is_lone=self.logs[-1].directory.is_lone_segment)
        for producer, (path, offset) in sorted(met.opened.items(), key=lambda one: (one[1][1], one[0])):
            yield Finding(Code.P04, path, offset=offset, values={"producer": producer, "end": end})
        yield from say_doubts(self.logs[0].path, met.doubts, "neither --committed nor --aborted shows or searches them")

    def _outcome(self, path: str, window: Window, k: int) -> str:
        if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
            return "marker"
        outcome, _ = self._found(path, window, k)
        if outcome == OPEN:
            producer = window.cell(k, layout.PRODUCER_ID)
            begun = self._answer.fates.open_from(producer)
            self._met.opened.setdefault(producer, (path, self._last if begun is None else begun))
        return outcome

    def _found(self, path: str, window: Window, k: int) -> tuple[str, MissingRange | None]:
        """What became of the transaction of a batch, and the hole that may have ended it where that is in doubt."""
        hole = self._unsure.get((path, window.cell(k, layout.POSITION))) if self._unsure else None
        if hole is not None:
            return IN_DOUBT, hole
        producer, offset = window.cell(k, layout.PRODUCER_ID), self._place(path, window, k)
        return self._answer.of(producer, offset)

    def _walk_until_known(self, number: int) -> None:
        """Walk through the logs up to one, and on while transactions are open that began up to there."""
        while len(self._reached) < len(self.logs):
            if len(self._reached) > number and not self._is_waiting(number):
                return
            self._walk(len(self._reached))
        if not self._is_done:
            self._is_done = True
            self._reach(None)
            self._answer.fates.finish()

    def _is_waiting(self, number: int) -> bool:
        """Whether anything that lies in the logs up to one has no outcome yet."""
        if self._between.batches:
            return True
        return self._answer.fates.has_begun_up_to(self._reached[number])

    def _is_cut_off(self, log: InputFile, walk: CheckedWalk, size: int) -> bool:
        """Whether other files show that offsets behind a log are lost."""
        base, last = log.log_base, walk.checks.offsets.last
        if base is None or not log.name.is_live:
            return False
        return evidence_of(log.directory).behind(base, base if last is None else last + 1, size) is not None

    def _walk(self, number: int) -> None:
        log = self.logs[number]
        self._indexes.begin(number)
        if self._has_holes:
            self._ask_indexes()
        source = log.open()
        if isinstance(source, OpenFailure):
            self._between.add()
        else:
            findings: list[Finding] = []
            try:
                self._walk_log(log, source, findings)
            except OSError:
                self._between.add()
            self._take_gaps(findings)
        self._indexes.end()
        self._reached.append(self._last)

    def _walk_log(self, log: InputFile, source: Source, findings: list[Finding]) -> None:
        walk = open_walk(log, source, self._options, findings)
        walk.checks.follow_producers = False
        for window, shifts in right_windows(walk, findings):
            for k, shift in shifts.items():
                self._shifts[log.path, window.cell(k, layout.POSITION)] = shift
            lost = {window.cell(k, layout.POSITION) for k in unplaced(window, findings)}
            self._take_gaps(findings)
            self._step(log, window, lost)
        self._take_gaps(findings)
        if self._is_cut_off(log, walk, source.size):
            self._between.add()

    def lost_behind(self, log: InputFile, last: int | None, size: int) -> tuple[int, int] | None:
        """Return the offsets behind a log that are lost, inclusive; None where nothing shows that some are.

        Another file shows it, or a hole before the next log that no compaction has made.

        Args:
            last: its last offset, None for none.
            size: of it, bytes.

        Raises:
            OSError: its index cannot be read.
        """
        base = log.log_base
        if base is None or not log.name.is_live:
            return None
        end, following = base if last is None else last + 1, log.directory.next_base(base)
        behind = evidence_of(log.directory).behind(base, end, size)
        if behind is not None:
            return behind.first, behind.last
        if following is None or end >= following or not self._may_be_lost(end, following - 1):
            return None
        return end, following - 1

    def _may_be_lost(self, first: int, last: int) -> bool:
        """Whether offsets that no batch has are lost, or may be: nothing shows that compaction was at work."""
        options = self._options
        with suppress(OSError, UnreadableError):  # a log that cannot be read may explain them
            limits = options.limits
            return bool(lost_holes(self.logs[0].directory, limits).of(first, last))
        return False

    def see_misplaced(self, path: str, window: Window, findings: Iterable[Finding]) -> None:
        """Learn which batches of a log have a wrong base offset, and the right one.

        Args:
            path: of the log.
            window: batches of it.
            findings: about them.
        """
        for k, shift in misplaced(window, findings):
            self._shifts[path, window.cell(k, layout.POSITION)] = shift

    def shift(self, path: str, window: Window, k: int) -> int:
        """Return how much is to be added to the offsets of a batch whose base offset is wrong, 0 for others.

        Args:
            path: of the log.
            window: batches of it.
            k: number of the batch.
        """
        return self._shifts.get((path, window.cell(k, layout.POSITION)), 0) if self._shifts else 0

    def _take_gaps(self, findings: list[Finding]) -> None:
        """Take what a walk has found before the batches that it hands out next."""
        for finding in findings:
            if finding.is_not_read:
                self._between.add()
        findings.clear()

    def _place(self, path: str, window: Window, k: int) -> int:
        """Return the offset of a batch by which it is told what became of it."""
        place = self._places.get((path, window.cell(k, layout.POSITION))) if self._places else None
        return window.cell(k, layout.BASE_OFFSET) + self.shift(path, window, k) if place is None else place

    def _step(self, log: InputFile, window: Window, lost: AbstractSet[int | None]) -> None:
        """Take the next batches.

        Args:
            log: that they are of.
            lost: positions of those with a wrong base offset.
        """
        start = 0
        for k, is_trusted in self._odd(log, window, lost):
            self._follow(window.slice(start, k))
            self._set_aside(log, window.batch(k), is_trusted=is_trusted)
            start = k + 1
        self._follow(window.slice(start, window.count))

    def _odd(self, log: InputFile, window: Window, lost: AbstractSet[int | None]) -> Iterator[tuple[int, bool]]:
        """Yield the batches of which nothing vouches for the offsets, and whether their CRC is right."""
        following = None if log.log_base is None or not log.name.is_live else log.directory.next_base(log.log_base)
        bound = layout.LARGEST_OFFSET if following is None else following - 1
        if (
            window.all_trusted
            and not lost
            and _scan.extremes(window.rows, window.count, layout.LAST_OFFSET)[1] <= bound
        ):
            return
        for k in range(window.count):
            is_trusted = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
            position, last = window.cell(k, layout.POSITION), window.cell(k, layout.LAST_OFFSET)
            if not is_trusted or position in lost or last > bound:
                yield k, is_trusted

    def _set_aside(self, log: InputFile, one: Window, *, is_trusted: bool) -> None:
        """Keep a batch whose offsets may be wrong for when it is known what stands behind it.

        Until then it is taken for the offset behind the batch before.
        """
        position, flags = one.cell(0, layout.POSITION), one.cell(0, layout.ATTRIBUTES) & _FLAGS
        self._places[log.path, position] = self._last + 1
        if is_trusted:
            self._between.many += 1
            self._between.may_end = True
            self._indexes.doubt()
        else:
            self._between.add(may_end=one.cell(0, layout.SIZE) <= LARGEST_MARKER)
            self._indexes.claim(one)
        offsets = one.cell(0, layout.LAST_OFFSET) - one.cell(0, layout.BASE_OFFSET) + 1 if is_trusted else 0
        odd = _Odd(log.path, position, offsets)
        if one.cell(0, layout.MAGIC) >= layout.MAGIC_V2 and flags:
            odd = odd._replace(producer=one.cell(0, layout.PRODUCER_ID), epoch=one.cell(0, layout.PRODUCER_EPOCH))
            if flags & layout.CONTROL_FLAG:
                marker = read_markers(self._reader, one, [0]).get(0) if is_trusted else None
                odd = (
                    odd._replace(is_abort=marker.is_abort) if isinstance(marker, Marker) else odd._replace(producer=-1)
                )
        self._between.batches.append(odd)

    def _follow(self, window: Window) -> None:
        """Take the next batches, between which only offsets can be missing."""
        if not window.count:
            return
        is_old = window.cell(0, layout.MAGIC) < layout.MAGIC_V2  # what wrappers say is their last offset
        self._reach(self._last + 1 if is_old and not self._between.many else window.cell(0, layout.BASE_OFFSET))
        self._indexes.met(window)
        start = 0
        for k in range(1, window.count) if window.suspicions & layout.GAP else ():
            last, first = window.cell(k - 1, layout.LAST_OFFSET), window.cell(k, layout.BASE_OFFSET)
            if first > last + 1 and window.cell(k, layout.MAGIC) >= layout.MAGIC_V2:
                self._take(window.slice(start, k))
                self._reach(first)
                start = k
        self._take(window.slice(start, window.count))

    def _take(self, window: Window) -> None:
        self._last = max(self._last, window.cell(window.count - 1, layout.LAST_OFFSET))
        self._answer.fates.step(window)

    def _reach(self, first: int | None) -> None:
        """A batch stands at an offset, None for the end of all: what lies before it is a hole, or known.

        Args:
            first: offset of the batch; of those before it there is none in hand.
        """
        between, last = self._between, (_NEVER if first is None else first - 1)
        is_free = 0 <= self._last < last
        if not (between.many or is_free):
            return
        self._between, hole = _Between(), None
        fills = between.many > 0 and between.fills(last - self._last)
        if is_free and not fills:
            hole = MissingRange(self._last + 1, last)
            may_end = between.may_end or not between.many
            self._open_up(hole, may_end=may_end, may_be_compaction=not between.many and first is not None)
        place = self._last + 1
        for odd in between.batches:
            key = odd.path, odd.position
            if odd.producer >= 0:
                self._take_odd(odd, place if fills else last, hole if between.many > 1 and between.may_end else None)
            if fills:
                self._places[key] = place
                place += odd.offsets

    def _open_up(self, hole: MissingRange, *, may_end: bool, may_be_compaction: bool) -> None:
        """There is a hole, or one that compaction may have made."""
        if not self._is_asked:
            self._is_asked = True
            self._answer.fates.expect(self._indexes.entries())
        if may_be_compaction and not self._may_be_lost(hole.first, hole.last):
            self._answer.fates.explained_hole(hole.first, hole.last)
            return
        self._has_holes = True
        self._ask_indexes()
        self._answer.fates.hole(hole, may_end=may_end)

    def _ask_indexes(self) -> None:
        self._answer.fates.learn(self._indexes.learn())

    def _take_odd(self, odd: _Odd, offset: int, unsure: MissingRange | None) -> None:
        """Take a batch of a transaction, or a marker, whose offset is not sure.

        Args:
            offset: that a marker can have.
            unsure: a hole in which other things lie beside it; None for none.
        """
        if odd.is_abort is not None:
            self._answer.fates.end(odd.producer, odd.epoch, offset, is_abort=odd.is_abort)
        elif unsure is not None:
            self._unsure[odd.path, odd.position] = unsure
        else:
            self._answer.fates.begin(odd.producer, odd.epoch, self._last + 1)


def say_doubts(path: str, doubts: dict[str, int], means: str) -> Iterator[OpenFailure]:
    """Yield one line on the records that are in doubt; nothing where none is.

    Args:
        path: of a log of theirs.
        doubts: how many records, by where the end of their transaction may be.
        means: what that means for them.
    """
    count = sum(doubts.values())
    if not count:
        return
    named = [where for where in doubts if where][:_MOST]
    places = ", ".join(named) + (" and elsewhere" if named and len(doubts) > len(named) else "")
    many = (
        "1 record is in doubt: the end of its transaction"
        if count == 1
        else f"{count} records are in doubt: the end of their transaction"
    )
    why = f"{many} may be in what cannot be read{f' ({places})' if places else ''}; {means}"
    directory = os.path.dirname(path)
    yield OpenFailure(directory, "skipped", f"{directory}: {why}" if directory else why)


def _later(log: InputFile) -> list[InputFile]:
    """The segments after a log in its directory, in order."""
    return _beside(log, lambda base: base > (log.base or 0))


def _beside(log: InputFile, is_wanted: Callable[[int], bool]) -> list[InputFile]:
    if not log.name.is_live or log.kind is not FileKind.LOG or log.base is None:
        return []
    directory, found = os.path.dirname(log.path), []
    for base in filter(is_wanted, log.directory.bases):
        name = f"{base:020}.log"
        path = os.path.join(directory, name)
        found.append(InputFile(path, True, log.directory, parse_name(name), FileKind.LOG, base))
    return found
