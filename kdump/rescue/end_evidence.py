"""What the indexes and other files of copies, and bytes beside their batches, tell of what the copies lack."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker.producer.end_markers import LARGEST_MARKER
from kdump.broker.producer.transaction_fates import Aborts, told_by_index
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.rescue.scanned_log import BadBytes
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kdump.rescue.line import Line
    from kdump.rescue.scanned_log import ReadLog
    from kdump.rescue.sources import Copy
    from kdump.storage.open_files import OpenFileCache


class OpenThere(TupleValue):
    """The producers that a snapshot has, with the first offset of the transaction of each; below 0 for none."""

    firsts: dict[int, int]

    def shows_an_end(self, running: Mapping[int, int]) -> bool:
        """Tell whether one of some transactions had an end before it: it is not open there, or a later one is.

        Args:
            running: the transactions: the producer, and where it began.
        """
        some = ((begun, self.firsts.get(producer)) for producer, begun in running.items())
        return any(first is not None and (first < 0 or first > begun) for begun, first in some)


class EndEvidence:
    """What the files of the copies tell beside their batches.

    Args:
        copies: of the partition.
        read: their logs, but for those of other partitions.
        cache: opens their files.
        max_batch_bytes: a batch over this is not held in memory.
    """

    def __init__(
        self, copies: Sequence[Copy], read: Sequence[ReadLog], cache: OpenFileCache, max_batch_bytes: int
    ) -> None:
        self._copies = copies
        self._read = read
        self._cache = cache
        self._max_batch_bytes = max_batch_bytes

    def known_ends(self, line: Line) -> tuple[int, list[int]]:
        """Return the offset up to which anything knows of records of the line, and for each copy of what may be of it.

        What a copy knows behind the point where it leaves the line is of another branch. But it leaves the line too
        where it has nothing of its newer epochs: without a batch behind that, or an entry of another epoch, it may have
        lost what it had of these. Up to there its offsets may be of the line; 0 for none.
        """
        parted = {one.copy for one in line.divergent if one.last >= line.cuts[one.copy]}
        sure, doubtful = line.last + 1, []
        for number, (copy, end, cut) in enumerate(zip(self._copies, self._ends(line), line.cuts, strict=True)):
            is_other = number in parted or any(one.start_offset >= cut for one in copy.epochs)
            doubtful.append(0 if is_other or end <= cut else end)
            sure = max(sure, min(end, cut))
        return sure, doubtful

    def _ends(self, line: Line) -> Iterator[int]:
        """The offset up to which each copy knows of records, of whatever branch."""
        for number, copy in enumerate(self._copies):
            end = 0
            for one in self._read:
                if one.copy == number:
                    start = end if one.log.base is None or one.facts.is_renamed else max(end, one.log.base)
                    end = one.facts.end(start, line.last)
                    if one.log.next_base is None:
                        end = max([end, *(offset for offset, _ in self._known_by_indexes(one))])
            yield max(copy.known_end(end), self._aborts_end(number, line.last))

    def index_end(self, line: Line) -> int:
        """Return the offset up to which offset indexes know of batches of the line."""
        known = [
            min(offset, line.cuts[one.copy])
            for one in self._read
            if one.log.next_base is None
            for offset, code in self._known_by_indexes(one)
            if code == "X07"
        ]
        return max(known, default=0)

    def cut_end(self, one: ReadLog) -> BadBytes | None:
        """Return where the end of a log before another one is cut off; None where nothing shows that.

        Compaction leaves offsets out before the next log, but neither a torn batch nor an offset index that goes on.
        """
        facts, after = one.facts, one.log.next_base
        if after is None or one.log.base is None or facts.is_renamed or self._copies[one.copy].is_carved:
            return None
        last = facts.end(one.log.base, layout.LARGEST_OFFSET) - 1
        codes: tuple[str, ...] = ("L02",) if facts.places and "L02" in facts.places[-1].codes else ()
        known = [code for offset, code in self._known_by_indexes(one) if last + 1 < offset <= after]
        codes = tuple(known) if "X07" in known else codes  # a time index alone may be an older copy
        nothing = None, None, None  # neither offsets nor records
        return BadBytes(one.raw.size, 0, *nothing, is_batch=False, codes=codes, is_exact=False) if codes else None

    def _known_by_indexes(self, one: ReadLog) -> list[tuple[int, str]]:
        """The offsets that a log must have reached by its indexes, and the codes of what they show."""
        facts, base = one.facts, one.log.base
        if base is None or facts.is_renamed or self._copies[one.copy].is_carved:
            return []
        last = facts.last if facts.last is not None else base - 1
        with suppress(OSError):
            segment, end = self._copies[one.copy].segment(one.log, self._cache), facts.runs.end
            known = list(segment.known_ends(end - 1, last, None))
            if len(known) == 1 and known[0][1] == "T04":  # without the offset index its timestamp counts
                known = list(segment.known_ends(end - 1, last, self._latest(one)))
            return known
        return []

    def _latest(self, one: ReadLog) -> int | None:
        """The largest timestamp of the batches of a log that are well."""
        windows = one.facts.runs.windows(one.source, self._max_batch_bytes)
        return max((max(window.column(layout.MAX_TIMESTAMP)) for window in windows), default=None)

    def lacks_log(self, first: int, last: int) -> bool:
        """Tell whether the log of a segment is missing that begins in a range: another hole than compaction makes."""
        copies = [copy for copy in self._copies if not copy.is_carved]
        return any(first <= base <= last for copy in copies for base in evidence_of(copy.directory).logs)

    def has_no_marker(self, first: int, last: int, ends: Sequence[int]) -> bool:
        """Tell whether all bytes that a log has in the place of a hole are batches too large for a marker.

        Args:
            first, last: offsets of the hole.
            ends: up to which offset (exclusive) each copy is of the line.
        """
        for one in self._read:
            if self._copies[one.copy].is_carved or last >= ends[one.copy]:
                continue
            runs, base = one.facts.runs, one.log.base
            behind = bisect_left(runs.lasts, first - 1) + 1  # number of the run behind the hole
            if behind <= len(runs) and runs.lasts[behind - 1] == first - 1:
                begin = runs.ends[behind - 1]
            elif base == first and not one.facts.is_renamed:
                begin = behind = 0
            else:
                continue
            if behind < len(runs):
                after, end = runs.firsts[behind], runs.starts[behind]
            else:  # the next log that is here is not the one behind it where that is lost
                after, end = one.facts.end(base or 0, first - 1), one.raw.size
            if after == last + 1 and _are_large(one.facts.places, begin, end):
                return True
        return False

    def aborts(self, ends: Sequence[int], last: int) -> Iterator[Aborts]:
        """Yield what the transaction indexes of the copies say, also of those whose logs are lost.

        Args:
            ends: up to which offset (exclusive) each copy is of the line.
            last: offset of the line.
        """
        for number in range(len(self._copies)):
            for found in self._told(number, last):
                reached = min(found.last, ends[number] - 1)
                entries = [entry for entry in found.entries if entry.last_offset <= reached]
                yield Aborts(entries, found.first, reached)

    def snapshots(self, first: int, last: int, ends: Sequence[int]) -> list[OpenThere]:
        """Return the sound producer snapshots of the copies at some offsets, as far as each is of the line.

        Args:
            first, last: of the offsets, inclusive.
            ends: up to which offset (exclusive) each copy is of the line.
        """
        return [
            OpenThere({one.producer_id: one.current_txn_first_offset for one in entries})
            for copy, end in zip(self._copies, ends, strict=True)
            if not copy.is_carved
            for _, entries in copy.snapshots(first, min(last, end))
        ]

    def _aborts_end(self, number: int, last: int) -> int:
        """Up to which offset a copy knows of markers by its transaction indexes, 0 for none.

        An index has no checksum. So only an entry counts whose two ends agree: where no other transaction is open, all
        is stable behind its marker.
        """
        entries = (entry for told in self._told(number, last) for entry in told.entries)
        return max((one.last_offset + 1 for one in entries if one.last_stable_offset == one.last_offset + 1), default=0)

    def _told(self, number: int, last: int) -> Iterator[Aborts]:
        """What each transaction index of a copy says; see `aborts`."""
        copy = self._copies[number]
        logs = {one.log.base: one.facts for one in self._read if one.copy == number}
        for base, files in () if copy.is_carved else sorted(copy.directory.by_base.items()):
            facts, path = logs.get(base), files.get(FileKind.TXNINDEX)
            opened = None if path is None else self._cache.open(path)
            if opened is None or isinstance(opened, OpenFailure) or (facts is not None and facts.is_renamed):
                continue
            first = facts.runs.firsts[0] if facts is not None and facts.runs.begins_at_zero else None
            end = None if facts is None else facts.end(base, last)
            with suppress(OSError):
                found = told_by_index(opened, base, copy.directory.next_base(base), first, end)
                if found is not None:
                    yield found


def _are_large(places: Sequence[BadBytes], begin: int, end: int) -> bool:
    """Whether bytes of a log are whole batches that stay out, each too large for a marker; not where there are none."""
    start = begin
    for at in range(bisect_left(places, begin, key=lambda one: one.position), len(places)):
        place = places[at]
        if place.position != begin or begin >= end:
            break
        if place.length <= LARGEST_MARKER or not place.is_whole:
            return False
        begin += place.length
    return start < begin == end
