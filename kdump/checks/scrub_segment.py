"""One closed segment in a scrub: its batches and their CRCs, and its blocks against what they were."""

from __future__ import annotations

import sys
import time
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.checks.ledger import Known
from kdump.checks.read_errors import broken_off, report_not_told
from kdump.finding import Code, Finding, Severity, Trait, ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.checksum import crc32c
from kdump.format.kinds import FileKind
from kdump.item import Progress
from kdump.storage.file_source import FileShrankError, OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.open_files import OpenFileCache, open_source
from kdump.storage.segment import Segment
from kdump.storage.tolerant import TolerantSource
from kdump.value import Value
from kdump.words.command import command_line, named
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.source import Source
    from kdump.storage.file_source import FileSource

BLOCK = 64 * 1024  # bytes of a log with one CRC
_STEP = 1024 * 1024  # bytes that are read at once where the walk has read nothing
_HELD = 10_000  # findings of one segment that wait until it is known what changed; further ones do not


class ScrubUnit(Value):
    """A closed segment, and what its surroundings say."""

    path: str  # of the log
    base_offset: int  # from the name
    next_base: int  # base offset of the next segment
    size: int  # bytes, when it was listed
    known: Known | None  # what it was when it was read; None where it was not yet
    ledger: str  # path of the ledger, as the user wrote it
    log_dir: str  # the log directory: its cleaner tells there how far it has come
    partition: tuple[str, int] | None  # topic and number; None for a directory that is no partition's
    resync: bool  # after damage, look for the next intact batch
    max_batch_bytes: int  # a batch over this is not held in memory


class ScrubOutcome(Value):
    """What became of a segment."""

    known: Known | None = None  # what it is now; None where it is gone, or was not read to its end
    is_new: bool = False  # this is what it is held against from now on; else its bytes are those that are known
    is_changed: bool = False  # bytes are not what they were: what is known stays
    size: int = 0  # bytes that were read
    batches: int = 0  # that were read
    left_out: str | None = None  # why it was not judged, though nothing is wrong; None where it was


Result = Finding | OpenFailure | Progress | ScrubOutcome

GONE = "it went while it was its turn: retention or compaction at work"
REPLACED = "it changed while it was read: a truncation or compaction at work; the next run reads it"
NO_TIME = "not reached in the time of --for: the next run begins with what was not reached"


class BlockSums:
    """A source that takes the CRC-32C of each block of what is read through it from the start to the end.

    Args:
        source: the file.

    Attributes:
        name, size: of it.
    """

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self.size = source.size
        self._source = source
        self._sums = array("I")
        self._next = self._crc = 0

    @property
    def is_growing(self) -> bool:
        """As of the file."""
        return self._source.is_growing

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        data = self._source.read_at(position, length)
        self._see(position, memoryview(data))
        return data

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        count = self._source.read_into(position, target)
        self._see(position, target[:count])
        return count

    def next_data(self, position: int) -> int:
        """Return the first position from `position` on that is not in a hole."""
        return self._source.next_data(position)

    def unreadable(self, start: int, end: int) -> Sequence[tuple[int, int, str]]:
        """Return what of [start, end) was passed over."""
        return self._source.unreadable(start, end)

    def sums(self) -> bytes:
        """Read what nobody has read, and return the CRC of each block, 4 bytes each, little-endian."""
        while self._next < self.size:
            self.read_at(self._next, min(_STEP, self.size - self._next))
        if self._next % BLOCK:
            self._sums.append(self._crc)
        if sys.byteorder == "big":
            self._sums.byteswap()
        return self._sums.tobytes()

    def _see(self, position: int, data: memoryview) -> None:
        """Go on with what follows the bytes that were seen; what lies elsewhere is read again in its turn."""
        end = position + len(data)
        if not position <= self._next < end:
            return
        at = self._next
        while at < end:
            stop = min(at - at % BLOCK + BLOCK, end)
            self._crc = crc32c(data[at - position : stop - position], self._crc)
            at = stop
            if not at % BLOCK:
                self._sums.append(self._crc)
                self._crc = 0
        self._next = end


def scrub_segment(unit: ScrubUnit, is_over: Callable[[], bool] = lambda: False) -> Iterator[Result]:
    """Yield what is wrong with the log of a closed segment, and at the end what became of it.

    Args:
        unit: the segment.
        is_over: tells that the time has passed: what is not read to its end by then does not count.

    Reports: V05, F06, and the errors and warnings of the checked walk.
    """
    opened = open_source(unit.path, follow=False)
    if isinstance(opened, OpenFailure):
        if not opened.missing:
            yield opened
        yield ScrubOutcome(left_out=GONE if opened.missing else None)
        return
    with opened:
        yield from _Scrub(unit, opened).results(is_over)


class _Scrub:
    """The reading of one segment."""

    def __init__(self, unit: ScrubUnit, source: FileSource) -> None:
        self._unit = unit
        self._source = source
        self._log = BlockSums(TolerantSource(source))
        self._found: list[Finding] = []
        self._batches = 0

    def results(self, is_over: Callable[[], bool]) -> Iterator[Result]:
        unit, size = self._unit, self._source.size
        try:
            for end in self._walk(self._log, self._found.append):
                if is_over():
                    yield ScrubOutcome(left_out=NO_TIME)
                    return
                if len(self._found) > _HELD:
                    yield from self._let_go()
                yield Progress(end, size, unit.path)
            sums = self._log.sums()
        except FileShrankError:
            yield ScrubOutcome(left_out=REPLACED)
            return
        except OSError as error:
            yield from self._let_go()
            yield broken_off(error, unit.path, size)
            yield ScrubOutcome(size=size, batches=self._batches)
            return
        if self._source.was_written:
            yield ScrubOutcome(left_out=REPLACED)
            return
        yield from self._judged(sums)

    def _judged(self, sums: bytes) -> Iterator[Result]:
        """What is wrong, and what became of the segment, once it was read to its end."""
        status, size, before = self._source.status, self._source.size, self._unit.known
        now = int(time.time() * 1000)
        known = Known(status.st_dev, status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns, sums, seen=now)
        changed = self._changed(known)
        if changed:
            yield from self._rotten(changed)
        failed = [one for one in self._found if one.code is Code.F06 and one.position is not None]
        told = [(one.position or 0, (one.position or 0) + (one.length or 0)) for one in failed]
        report_not_told(self._log, told, self._found.append)
        yield from self._let_go()
        if self._log.unreadable(0, size):
            yield ScrubOutcome(size=size, batches=self._batches)
            return
        is_new = before is None or (not changed and before.sums != sums)
        yield ScrubOutcome(known, is_new, bool(changed), size, self._batches)

    def _walk(self, source: Source, report: Callable[[Finding], None]) -> Iterator[int]:
        """Walk through the log; yield the positions where windows end."""
        unit = self._unit
        with OpenFileCache() as cache:
            walk = CheckedWalk(
                source,
                report,
                segment=unit.base_offset,
                next_base=unit.next_base,
                hints=Segment(unit.path, unit.base_offset, cache, follow=False).hints,
                max_batch_bytes=unit.max_batch_bytes,
                resync=unit.resync,
            )
            walk.checks.follow_producers = False
            for window in walk.windows():
                self._batches += window.count
                yield window.end(window.count)

    def _let_go(self) -> Iterator[Finding]:
        """Yield what was found; notes are of what verify looks at, and so are left out."""
        for finding in self._found:
            if finding.severity is not Severity.NOTE:
                yield finding
        self._found.clear()

    # --- what changed ---------------------------------------------------------------------------------------
    def _changed(self, now: Known) -> list[tuple[int, int]]:
        """The runs of blocks that are not what they were, first and last; none where it is another segment now."""
        before = self._unit.known
        if before is None or (before.inode, before.size) != (now.inode, now.size) or before.sums == now.sums:
            return []
        if before.ctime != now.ctime and self._was_cleaned():
            return []
        runs: list[tuple[int, int]] = []
        for at in range(len(now.sums) // 4):
            if before.sums[4 * at : 4 * at + 4] != now.sums[4 * at : 4 * at + 4]:
                if self._log.unreadable(at * BLOCK, (at + 1) * BLOCK):
                    continue  # that is all that is known of it
                if runs and runs[-1][1] == at - 1:
                    runs[-1] = runs[-1][0], at
                else:
                    runs.append((at, at))
        return runs

    def _was_cleaned(self) -> bool:
        """Whether the cleaner may have put another file here: what it has come past is read at this moment."""
        unit = self._unit
        if unit.partition is None:
            return False
        offset = LogDir(unit.log_dir).offset(FileKind.CLEANER, unit.partition)
        return offset is not None and offset >= unit.next_base

    def _rotten(self, runs: list[tuple[int, int]]) -> Iterator[Finding]:
        """The findings of runs of blocks; what is wrong with their batches is an effect."""
        extents = [
            _Extent(one.position, one.position + one.length, one.offset, one.last_offset)
            for one in self._found
            if one.position is not None and one.length and (one.gap or Trait.BAD_CRC in one.code.traits)
        ]
        extents.sort(key=lambda one: one.start)
        for first, last in runs:
            start, end = first * BLOCK, min((last + 1) * BLOCK, self._source.size)
            bad = [one for one in extents if one.start < end and one.end > start]
            yield self._finding(first, last, start, end, bad)
            for at, finding in enumerate(self._found):
                position = finding.position
                if position is not None and position < end and position + (finding.length or 1) > start:
                    self._found[at] = finding.replace(because=Code.V05)

    def _finding(self, first: int, last: int, start: int, end: int, bad: list[_Extent]) -> Finding:
        """One run of blocks; where batches at its ends have a wrong CRC it begins and ends with them."""
        head = next((one for one in bad if one.start < start + BLOCK), None)
        tail = next((one for one in reversed(bad) if one.end > last * BLOCK), None)
        begin, stop = start if head is None else head.start, end if tail is None else tail.end
        offset = None if head is None else head.offset
        last_offset = None if tail is None else tail.last_offset
        if offset is None or last_offset is None:
            low, high = self._offsets(begin, stop)
            offset = low if offset is None else offset
            last_offset = high if last_offset is None else last_offset
        unit = self._unit
        assert unit.known is not None
        blocks = f"block {first}" if first == last else f"blocks {first}..{last}"
        return Finding(
            Code.V05,
            unit.path,
            begin,
            stop - begin,
            offset=offset,
            last_offset=last_offset,
            values={
                "blocks": blocks,
                "seen": iso(unit.known.seen),
                "accept": command_line("verify", "--scrub", named(unit.ledger), "--accept", named(unit.path)),
                "crc": "" if bad else "; each CRC there was made right, or is not of what changed",
            },
        )

    def _offsets(self, start: int, end: int) -> tuple[int | None, int | None]:
        """The first and the last offset of the batches in a range: they are read once more."""
        low = high = None
        with suppress(OSError), OpenFileCache():
            unit = self._unit
            limit, base, following = unit.max_batch_bytes, unit.base_offset, unit.next_base
            walk = CheckedWalk(self._log, ignore, segment=base, next_base=following, max_batch_bytes=limit)
            walk.checks.follow_producers = False
            for window in walk.windows(end):
                if window.end(window.count) <= start:
                    continue
                for k in range(window.count):
                    if window.end(k + 1) > start and window.cell(k, layout.POSITION) < end:
                        low = window.cell(k, layout.BASE_OFFSET) if low is None else low
                        high = window.cell(k, layout.LAST_OFFSET)
        return low, high


class _Extent(Value):
    """A batch with a wrong CRC, or a gap: bytes, half-open, and its offsets as far as they are known."""

    start: int
    end: int
    offset: int | None
    last_offset: int | None
