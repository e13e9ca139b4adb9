"""The outcome of each transaction: committed, aborted, open or in doubt, for `dump --committed`, `--aborted`, `--fate`.

Strategy: what a batch comes to is said by the next marker of its producer, which lies after it. So the logs are walked
through once before they are shown, further than they are shown where transactions are open at their end, into the
segments beside them. Where the marker is lost a sound .txnindex may still say that it was an abort. What is kept are
the ranges of aborted transactions and the beginning of open ones; what is not among them was committed.

What cannot be read may have had a marker: the next one behind it says nothing of batches before it, it may be that of
the producer's next transaction. Where the .txnindex has no abort that ends there, they are in doubt, whatever the
header of a batch with a wrong CRC says: by a wrong bit a marker looks like data, or like another producer's. Its length
is known, and what is longer than a marker is none.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.producer.end_markers import LARGEST_MARKER, Marker, read_markers
from kdump.dump.checked import open_walk
from kdump.dump.input_file import InputFile
from kdump.finding import Code, Finding
from kdump.format.batch import _scan, layout
from kdump.format.batch.offset_order import misplaced, put_right, unplaced
from kdump.format.batch.walk import settled_windows
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.record import _select
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.render.terminal.numbers import span
from kdump.storage.file_source import OpenFailure
from kdump.storage.lost_logs import lost_of
from kdump.storage.names import FileKind, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.batch.window import Window
    from kdump.format.index.transaction_index import AbortedTxn

COMMITTED = "committed"
ABORTED = "aborted"
OPEN = "open"
IN_DOUBT = "in doubt"
_MOST = 4  # places that a sentence names
_FLAGS = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG


class Met(NamedTuple):
    """What was met in what is shown that is neither committed nor aborted.

    Args:
        opened: open transactions: path and first offset by producer.
        doubts: records that are in doubt, by where the end of their transaction may be ("" where no offset is known).
    """

    opened: dict[int, tuple[str, int]]
    doubts: dict[str, int]

    def joined(self, other: Met) -> Met:
        """Return this, and what was met behind it."""
        doubts = dict(self.doubts)
        for where, count in other.doubts.items():
            doubts[where] = doubts.get(where, 0) + count
        return Met({**other.opened, **self.opened}, doubts)


class Outcomes:
    """Knows what became of the transactions in the logs of one directory.

    Args:
        logs: in order; the later segments of the directory are looked into as needed.
        options: limits.

    Attributes:
        logs: these, and the segments after them.
    """

    def __init__(self, logs: Sequence[InputFile], options: DumpOptions) -> None:
        self.logs = [*logs, *_later(logs[-1])]
        self._options = options
        self._numbers = {log.path: number for number, log in enumerate(self.logs)}
        self._reader = RecordReader(options.max_uncompressed_bytes, max_batch=options.max_batch_bytes, cut=KEPT)
        self._walked = 0  # logs
        self._running: dict[int, tuple[int, int]] = {}  # producer: number of the log, first offset
        self._aborted: dict[int, array[int]] = {}  # producer: first and last offset of each, ascending
        self._in_doubt: dict[int, array[int]] = {}  # the same of those that may have ended in a hole
        self._places: dict[tuple[str, int], int] = {}  # path and position of others: a low offset that fits
        self._hole_offsets = array("q")  # of each place that cannot be read: the last offset before it, ascending
        self._hole_ends = array("q")  # the first offset behind each, as far as something was read behind it
        self._hole_names: list[str] = []
        self._entries: dict[int, list[AbortedTxn]] = {}  # of transaction indexes, by the number of the log
        self._shifts: dict[tuple[str, int], int] = {}  # path and position of batches with a wrong base offset
        self._is_cleaned = False  # a log that was read has holes inside
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
            if outcome == IN_DOUBT:
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

    def hole_behind(self, path: str, window: Window, k: int) -> str:
        """Return where the end of a transaction that is in doubt may be, as "offset 33"; empty where nobody can tell.

        Args:
            path: of the log.
            window: batches of it.
            k: number of the batch.
        """
        return self._hole_names[bisect_left(self._hole_offsets, self._place(path, window, k))]

    def met(self, seen: Met | None = None) -> Met:
        """Return what was met in what is shown, and go on with others.

        Args:
            seen: they; None for none.
        """
        met, self._met = self._met, seen or Met({}, {})
        return met

    def left_out(self) -> Iterator[Finding | OpenFailure]:
        """Yield the transactions of which batches were left out because they have no outcome yet, or an unknown one.

        Reports: P04.
        """
        met = self.met()
        for producer, (path, offset) in met.opened.items():
            yield Finding(Code.P04, path, offset=offset, values={"producer": producer})
        yield from say_doubts(self.logs[0].path, met.doubts, "neither --committed nor --aborted shows or searches them")

    def _outcome(self, path: str, window: Window, k: int) -> str:
        if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
            return "marker"
        producer = window.cell(k, layout.PRODUCER_ID)
        offset = self._place(path, window, k)
        if _is_in(self._in_doubt, producer, offset):
            return IN_DOUBT
        if _is_in(self._aborted, producer, offset):
            return ABORTED
        running = self._running.get(producer)
        if running is None or offset < running[1]:
            return COMMITTED
        self._met.opened.setdefault(producer, (path, running[1]))
        return OPEN

    def _walk_until_known(self, number: int) -> None:
        """Walk through the logs up to one, and on while transactions are open that began up to there."""
        logs = self.logs
        while self._walked < len(logs):
            if self._walked > number and not any(first[0] <= number for first in self._running.values()):
                return
            self._walk(self._walked, logs[self._walked])
            self._walked += 1
            if self._walked == len(logs):
                self._ask_indexes()

    def _walk(self, number: int, log: InputFile) -> None:
        source = log.open()
        if isinstance(source, OpenFailure):
            self._hole(None, None)
            return
        findings: list[Finding] = []
        try:
            walk = open_walk(log, source, self._options, findings)
            walk.checks.follow_producers = False
            for window in settled_windows(walk, findings):
                self.see_holes(window, findings)
                self.see_misplaced(log.path, window, findings)
                put_right(window, findings)
                lost = {window.cell(k, layout.POSITION) for k in unplaced(window, findings)}
                self._gaps(findings)
                self._step(number, window, lost)
            self._gaps(findings)
            behind = self.lost_behind(log, walk.checks.offsets.last, source.size)
            if behind is not None:
                self._hole(*behind)
        except OSError:
            self._hole(None, None)
        self._gaps(findings)

    def lost_behind(self, log: InputFile, last: int | None, size: int) -> tuple[int, int] | None:
        """Return the offsets behind a log that are lost, inclusive; None where nothing shows that some are.

        Another file shows it, or a hole before the next log that no compaction has made.

        Args:
            log: it.
            last: its last offset, None for none.
            size: of it, bytes.

        Raises:
            OSError: its index cannot be read.
        """
        base = log.log_base
        if base is None or not log.name.is_live:
            return None
        end, following = base if last is None else last + 1, log.directory.next_base(base)
        behind = lost_of(log.directory).behind(base, end, size)
        if behind is not None:
            return behind.first, behind.last
        if following is None or end >= following or self._is_cleaned or log.directory.was_cleaned:
            return None
        return end, following - 1

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

    def see_holes(self, window: Window, findings: Iterable[Finding]) -> None:
        """Take into account whether compaction has made holes: then one between two logs is no loss.

        Args:
            window: batches of a log.
            findings: about what is before them.
        """
        if not self._is_cleaned:
            self._is_cleaned = any(one.code is Code.O04 for one in findings) or (
                window.cell(0, layout.MAGIC) >= layout.MAGIC_V2 and _scan.lacks_records(window.rows, window.count)
            )

    def _gaps(self, findings: list[Finding]) -> None:
        """Take what a walk has found before the batches that it hands out next."""
        for finding in findings:
            if finding.is_not_read:
                self._hole(finding.offset, finding.last_offset)
        findings.clear()

    def _place(self, path: str, window: Window, k: int) -> int:
        """Return the offset of a batch by which it is told what became of it."""
        place = self._places.get((path, window.cell(k, layout.POSITION))) if self._places else None
        return window.cell(k, layout.BASE_OFFSET) + self.shift(path, window, k) if place is None else place

    def _hole(self, first: int | None, last: int | None) -> None:
        """Something cannot be read behind the highest offset so far; its offsets, where they are known."""
        name = ""
        if first is not None and first > self._last:
            name = span(first, first if last is None else last, "offset")
        self._hole_offsets.append(self._last)
        self._hole_names.append(name)

    def _step(self, number: int, window: Window, lost: AbstractSet[int | None]) -> None:
        """Take the next batches.

        Those whose offsets may be wrong, and the right ones unknown, are taken for the offset behind the batch before:
        they stand in order all the same, and a marker among them ends what is before it and nothing behind it.

        Args:
            number: of the log.
            window: they.
            lost: positions of those with a wrong base offset.
        """
        start = 0
        for k, is_trusted in self._odd(number, window, lost):
            self._follow(number, window.part(start, k))
            if window.cell(k, layout.POSITION) in lost:
                self._hole(None, None)
            elif not is_trusted and window.cell(k, layout.SIZE) <= LARGEST_MARKER:
                self._hole(window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET))
            one, place = window.only(k), self._last + 1
            self._places[self.logs[number].path, one.cell(0, layout.POSITION)] = place
            one.shift(0, place - one.cell(0, layout.BASE_OFFSET))
            self._follow(number, one, is_trusted=is_trusted)
            start = k + 1
        self._follow(number, window.part(start, window.count))

    def _odd(self, number: int, window: Window, lost: AbstractSet[int | None]) -> Iterator[tuple[int, bool]]:
        """Yield the batches of which nothing vouches for the offsets, and whether their CRC is right."""
        log = self.logs[number]
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

    def _follow(self, number: int, window: Window, *, is_trusted: bool = True) -> None:
        """Take the next batches, between which all can be read."""
        if not window.count:
            return
        if is_trusted:
            first = window.cell(0, layout.BASE_OFFSET)
            self._hole_ends.extend([first] * (len(self._hole_offsets) - len(self._hole_ends)))
            self._last = max(self._last, window.cell(window.count - 1, layout.LAST_OFFSET))
        picked = _select.with_any(window.rows, window.count, _FLAGS)
        controls = [k for k in picked if _is_trusted_control(window, k)]
        markers = read_markers(self._reader, window, controls) if controls else {}
        for k in picked:
            producer = window.cell(k, layout.PRODUCER_ID)
            offset = window.cell(k, layout.BASE_OFFSET)
            if not window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
                self._running.setdefault(producer, (number, offset))
                continue
            marker = markers.get(k)
            if not isinstance(marker, Marker):
                continue
            begun = self._running.pop(producer, None)
            if begun is None:
                continue
            first = begun[1]
            if self._hole_offsets and self._hole_offsets[-1] >= first:
                first = self._behind_abort(producer, first, range(begun[0], number + 1))
            if self._hole_offsets and self._hole_offsets[-1] >= first:
                _add(self._in_doubt, producer, first, self._hole_offsets[-1])
                first = self._hole_offsets[-1] + 1  # what lies behind the last hole is this marker's
            if marker.is_abort:
                _add(self._aborted, producer, first, offset)

    def _behind_abort(self, producer: int, first: int, numbers: range) -> int:
        """Learn from a transaction index that a transaction was aborted in a hole; return the first offset behind it.

        An entry counts that has both its first offset and an end of which nothing else is known.

        Args:
            producer: its.
            first: offset of its first batch.
            numbers: of the logs that it lies in, and the hole.
        """
        holes = list(zip(self._hole_offsets, self._hole_ends, strict=False))
        for entry in (one for number in numbers for one in self._index(number)):
            if (entry.producer_id, entry.first_offset) != (producer, first):
                continue
            if any(first <= before < entry.last_offset < behind for before, behind in holes):
                _add(self._aborted, producer, first, entry.last_offset)
                return entry.last_offset + 1
        return first

    def _index(self, number: int) -> list[AbortedTxn]:
        """The entries of the transaction index of a log; none where there is no sound one."""
        if number not in self._entries:
            opened, base = self.logs[number].segment.file(FileKind.TXNINDEX), self.logs[number].base or 0
            self._entries[number] = []
            if not isinstance(opened, OpenFailure):
                with suppress(OSError):
                    self._entries[number] = TransactionIndex(opened, base).sound_entries()
        return self._entries[number]

    def _ask_indexes(self) -> None:
        """Look into the transaction indexes for what is still open at the end of the logs."""
        for number in range(len(self.logs)) if self._running else ():
            for entry in self._index(number):
                running = self._running.get(entry.producer_id)
                if running is not None and entry.first_offset <= running[1] <= entry.last_offset:
                    _add(self._aborted, entry.producer_id, running[1], entry.last_offset)
                    self._running[entry.producer_id] = running[0], entry.last_offset + 1  # what follows has no end yet


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


def _is_in(ranges_of: dict[int, array[int]], producer: int, offset: int) -> bool:
    """Whether an offset is in one of the ranges of a producer, ends included."""
    ranges = ranges_of.get(producer)
    if ranges is None:
        return False
    at = bisect_right(ranges, offset)
    return bool(at % 2 or (at and ranges[at - 1] == offset))


def _add(ranges_of: dict[int, array[int]], producer: int, first: int, last: int) -> None:
    ranges = ranges_of.setdefault(producer, array("q"))
    first = max(first, ranges[-1] + 1) if ranges else first
    if first <= last:
        ranges.extend((first, last))


def _is_trusted_control(window: Window, k: int) -> bool:
    is_control = window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG
    return bool(is_control) and window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)


def _later(log: InputFile) -> list[InputFile]:
    """The segments after a log in its directory, in order."""
    if not log.name.is_live or log.kind is not FileKind.LOG or log.base is None:
        return []
    directory, found = os.path.dirname(log.path), []
    for base in (one for one in log.directory.bases if one > log.base):
        name = f"{base:020}.log"
        path = os.path.join(directory, name)
        found.append(InputFile(path, True, log.directory, parse_name(name), FileKind.LOG, base))
    return found
