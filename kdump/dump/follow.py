"""`dump --follow`: what is appended to partitions, batch by batch, while a broker writes them.

Strategy: a look is a listing of the directory and a walk over the whole batches behind the last one that was shown; a
look at nothing new costs a listing. Only names and bytes tell what happened in between. A batch that was shown is known
again by its offset and its CRC at its place: where it is not there any more the log was cut, and the newest one that
still is there says up to where. What was replaced or deleted from the front (the cleaner, retention) is passed over.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from typing import TYPE_CHECKING

from kdump.dump.checked import CheckedRecords, drain, open_walk
from kdump.dump.input_file import InputFile
from kdump.dump.selected import SelectedLog
from kdump.finding import Code, Finding, Severity, ignore
from kdump.format.batch import layout
from kdump.format.batch.window import Window, crc_of_range
from kdump.format.java_values import MAX_LONG
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import Chunk
from kdump.format.record.selection import Filter
from kdump.item import CaughtUp, FileStart, FileTurn, LogStart
from kdump.storage.file_source import FileSource, OpenFailure, UpTo
from kdump.storage.index_seek import Starts
from kdump.storage.log_dir import LogDir
from kdump.storage.names import java_name, parse_name
from kdump.storage.own_files import kind_of
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above
from kdump.value import TupleValue, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.batch.walk import WalkState
    from kdump.format.record.selection import Selection
    from kdump.format.source import Source
    from kdump.item import Item

_REST = 0.1  # seconds between two looks
_KNOWN = 8192  # batches that were shown last, by which a cut is known
_FRONT = layout.ATTRIBUTES_AT  # bytes of a batch that tell its offset, length, magic and CRC
_LENGTH = layout.MAGIC_AT + 1  # bytes that tell its length and magic
_CHECKED = 64  # of them that are looked at each time that something changed
_KNOWN_BEFORE = 64  # batches that are known though they were not shown
_FAR = 4 * 1024 * 1024  # bytes behind the last batch that was shown, above which an index says where the log ends
_LOG = pattern(r"[0-9]{20}\.log")
_SMALLEST = {0: 14, 1: 22, 2: 49}  # batchLength by magic, no record in it


class Shown(TupleValue):
    """A batch that was read: its segment, where it lies in it (bytes), how it begins, and its offsets."""

    base: int
    position: int
    size: int
    front: bytes
    offset: int
    last_offset: int


class Follow:
    """Follows partitions.

    Args:
        options: what is shown of batches.
        selection: which of them; None for all from the end on.
        idle: seconds without a new batch after which it ends; None for never.
        clock: seconds from any start on.
        pause: waits so many seconds.
    """

    def __init__(
        self,
        options: DumpOptions,
        selection: Selection | None,
        idle: float | None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._selection = selection
        self._idle = idle
        self._clock = clock
        self._pause = pause
        self._budget = _Budget(-1 if selection is None or selection.limit is None else selection.limit)
        self._in_hand: tuple[_Partition, int] | None = None

    def files(self, paths: Sequence[str]) -> Iterator[Item]:
        """Yield what is there of the selection, then what is appended, until all directories are gone.

        Args:
            paths: partition directories, as the user wrote them.

        Reports: what the walk and the records show; what was cut or deleted is a OpenFailure of kind "skipped".
        """
        partitions = [_Partition(path, self._options, self._selection, self._budget) for path in paths]
        last = self._clock()
        while partitions:
            looks = deque((one, one.look()) for one in partitions)
            while looks:  # a window of each in turn
                one, look = looks.popleft()
                for item in look:
                    if item is None:
                        last = self._clock()
                        looks.append((one, look))
                        break
                    yield from self._told(one, item)
                    if self._budget.left == 0:
                        return
            partitions = [one for one in partitions if not one.is_gone]
            yield CaughtUp()
            rest = _REST
            if self._idle is not None and not any(one.waits for one in partitions):
                rest = min(_REST, last + self._idle - self._clock())
            if not partitions or rest <= 0:
                return
            self._pause(rest)

    def _told(self, one: _Partition, item: Item) -> Iterator[Item]:
        """An item, behind the file that it is from where that is not in hand."""
        if isinstance(item, OpenFailure) or (isinstance(item, Finding) and one.file is None):
            yield item
            return
        assert one.file is not None
        base = one.file.base_offset or 0
        if self._in_hand != (one, base):
            is_new = one.announced != base
            self._in_hand, one.announced = (one, base), base
            yield FileTurn(one.file, is_new)
            if is_new:
                yield LogStart(base)
        yield item


class _Budget:
    """The records that may still be shown of all partitions: `left`, below 0 for any number."""

    def __init__(self, left: int) -> None:
        self.left = left


class _Partition:
    """One partition directory.

    Args:
        path: of it, as the user wrote it.
        options, selection: see `Follow`.
        budget: of records, shared with other partitions.
    """

    def __init__(self, path: str, options: DumpOptions, selection: Selection | None, budget: _Budget) -> None:
        self.path = path
        self._budget = budget
        self.is_gone = False  # the directory is not there any more
        self.file: FileStart | None = None  # the segment that is read
        self.announced: int | None = None  # base offset of the one that was shown last
        self._options = options
        self._selection = selection
        self._filter = None if selection is None else Filter(selection, deep=options.deep)
        self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = os.fstat(self._directory)
        self._identity = status.st_dev, status.st_ino
        # by the open directory: it may be renamed while its last batches are read
        place = f"/proc/self/fd/{self._directory}"
        self._place = place if os.path.isdir(place) else path
        self._base: int | None = None
        self._position = 0
        self._next: int | None = None  # the offset after the last batch that was read
        self._skips = False  # batches below it are passed over
        self._state: WalkState | None = None
        self._records: CheckedRecords | None = None
        self._log: SelectedLog | None = None
        self._known: deque[Shown] = deque(maxlen=_KNOWN)
        self._before: object = None  # names and sizes at the last look
        self._inodes: dict[int, int] = {}
        self._doubt: tuple[int, bytes] | None = None
        self.waits = False  # something is to be looked at again, though nothing changes
        self._told: set[str] = set()
        self._again: deque[bytes] = deque()  # what was shown and may come again, where the log was cut
        self._is_late = False  # there was a look before

    # --- a look ---------------------------------------------------------------------------------------------
    def look(self) -> Iterator[Item | None]:
        """Yield what is new; None behind each window."""
        is_gone = self._has_gone()
        try:
            found = {int(name[:20]): os.stat(self._inside(name), follow_symlinks=False) for name in self._names()}
        except FileNotFoundError:  # deleted in between: the next look sees what is there
            found = {}
        yield from self._odd_names(found)
        for base, status in found.items():
            if not stat.S_ISREG(status.st_mode):
                yield self._replaced(base, status)
                self.end()
                return
        self.waits = self.waits and bool(found)
        now = {base: (one.st_ino, one.st_size, one.st_mtime_ns) for base, one in found.items()}
        if found and (now != self._before or self.waits or not self._stands_last()):
            self._before, self.waits = now, False
            bases = sorted(found)
            inodes = {base: one.st_ino for base, one in found.items()}
            if self._base is None and self._is_late:
                self._go_to(bases[0])  # there was no segment when it began
            elif self._base is None:
                yield from self._begin(bases)
            else:
                yield from self._after_changes(bases, inodes)
            self._inodes = inodes
            yield from self._segments(bases)
            if self._again and not self.waits:  # the log ends before what was shown
                yield self._cut()
        self._is_late = True
        if is_gone:
            self.end()

    def end(self) -> None:
        """Follow it no more."""
        self.is_gone = True
        os.close(self._directory)

    def _odd_names(self, found: dict[int, os.stat_result]) -> Iterator[Finding]:
        """Tell of each name that has no offset, and pass the file over."""
        for base in [base for base in found if base > MAX_LONG]:
            del found[base]
            path = os.path.join(self.path, f"{base:020}.log")
            if path not in self._told:
                self._told.add(path)
                why = f"the name has no offset ({java_name(path).error}): a broker fails to load the partition"
                yield Finding(Code.F01, path, values={"why": why})

    def _replaced(self, base: int, status: os.stat_result) -> Finding:
        """What stands in the place of a log is neither opened nor waited for: nobody knows what it would give."""
        why = f"{kind_of(status.st_mode)} stands in the place of the log, which is followed no more"
        path = os.path.join(self.path, f"{base:020}.log")
        return Finding(Code.F04, path, values={"why": why}, severity_override=Severity.ERROR)

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._place) if _LOG.fullmatch(name)]
        except OSError:
            return []

    def _has_gone(self) -> bool:
        try:
            status = os.stat(self.path)
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _segments(self, bases: Sequence[int]) -> Iterator[Item | None]:
        """Read from where it stands to the end of the last segment."""
        for at, base in enumerate(bases):
            if base < (self._base or 0):
                continue
            if base != self._base:
                self._go_to(base)
            if not (yield from self._read(base, is_last=at == len(bases) - 1)):
                return

    def _go_to(self, base: int, position: int = 0) -> None:
        self._base, self._position = base, position
        self._state = self._records = self._log = self._doubt = None

    # --- what happened since --------------------------------------------------------------------------------
    def _after_changes(self, bases: Sequence[int], inodes: dict[int, int]) -> Iterator[Item]:
        """See whether what was read last is still there; go to where reading goes on."""
        assert self._base is not None
        cut = self._first_cut(bases, inodes)
        if cut is not None:
            self._skips = False
            if self._known:
                last = self._known[-1]
                self._next = last.last_offset + 1
                self._go_to(last.base, last.position + last.size)
            else:
                is_new = inodes[bases[0]] != self._inodes.get(bases[0])
                self._next = bases[0] if is_new else cut.offset
                self._go_by_offset(bases)
        elif self._base not in inodes or self._is_replaced(inodes) or self._is_short():
            self._go_by_offset(bases)
        if self._next is not None and self._next < bases[0]:
            first, self._next = self._next, bases[0]
            self._go_to(bases[0])
            yield self._said(f"offsets {first}..{bases[0] - 1} were deleted before they were read")

    def _cut(self) -> OpenFailure:
        self._again.clear()
        return self._said(f"the log was cut back to offset {self._next}: it goes on from there")

    def _said(self, what: str) -> OpenFailure:
        return OpenFailure(self.path, "skipped", f"{self.path}: {what}")

    def _first_cut(self, bases: Sequence[int], inodes: dict[int, int]) -> Shown | None:
        """Return the first batch that was shown and is gone because the log was cut; forget those from it on.

        What was deleted from the front, or replaced by the cleaner, is forgotten and no cut.
        """
        if inodes != self._inodes and self._known:
            active = max(self._inodes, default=bases[0])
            if inodes.get(active) == self._inodes.get(active):  # a cut would have begun there
                kept = [one for one in self._known if inodes.get(one.base) == self._inodes.get(one.base)]
            else:
                kept = [one for one in self._known if one.base >= bases[0] or bases[0] <= active]
            self._known = deque(kept, maxlen=_KNOWN)
        at, first = len(self._known) - 1, None
        while at >= 0 and (len(self._known) - at <= _CHECKED or first == at + 1):
            if not self._stands(self._known[at]):
                first = at
            at -= 1
        if first is None:
            return None
        cut = self._known[first]
        self._again.clear()
        while len(self._known) > first:
            self._again.appendleft(_mark(self._known.pop().front))
        return cut

    def _is_replaced(self, inodes: dict[int, int]) -> bool:
        assert self._base is not None
        return self._inodes.get(self._base, inodes[self._base]) != inodes[self._base]

    def _is_short(self) -> bool:
        """Whether the segment in hand ends before the place where reading goes on."""
        assert self._base is not None
        try:
            return os.stat(self._path_of(self._base)).st_size < self._position
        except OSError:
            return True

    def _go_by_offset(self, bases: Sequence[int]) -> None:
        """Go on at the first batch that has the next offset, or lies above it."""
        wanted = self._base or 0 if self._next is None else self._next
        self._go_to(max((base for base in bases if base <= wanted), default=bases[0]))
        self._skips = True

    def _stands_last(self) -> bool:
        """Whether the last batch is there; a clock that ticks slowly hides a change of a file."""
        return not self._known or self._stands(self._known[-1])

    def _stands(self, one: Shown) -> bool:
        """Whether a batch lies where it lay."""
        try:
            with FileSource(self._path_of(one.base), follow=False) as file:
                return _mark(file.read_at(one.position, _FRONT)) == _mark(one.front)
        except OSError:
            return False

    def _path_of(self, base: int) -> str:
        return self._inside(f"{base:020}.log")

    def _inside(self, name: str) -> str:
        return os.path.join(self._place, name)

    # --- where to begin -------------------------------------------------------------------------------------
    def _begin(self, bases: Sequence[int]) -> Iterator[Item]:
        """Go to the first batch that may be selected; without a selection of what is there, behind the last one."""
        one = self._selection
        if one is None or one.replace(limit=None) == type(one)():
            self._go_to(bases[-1])
            self._next = bases[-1]
            yield from self._to_end(bases[-1])
            return
        if one.tail is not None:
            self._to_tail(bases, one.tail)
            return
        wanted = bases[0] if one.from_offset is None else one.from_offset
        base = max((base for base in bases if base <= wanted), default=bases[0])
        self._go_to(base)
        source = self._open(base)
        if isinstance(source, FileSource):
            with source:
                self._position = self._starts(base, source).first(one)

    def _to_end(self, base: int) -> Iterator[Item]:
        """Pass over the whole batches of a segment; the last ones are known from then on."""
        source = self._open(base)
        if isinstance(source, OpenFailure):
            yield source
            return
        with source:
            self._position = self._whole(base, source, 0, passes=True)

    def _to_tail(self, bases: Sequence[int], wanted: int) -> None:
        """Go to the first of the last records."""
        assert self._filter is not None
        assert self._selection is not None
        for base in reversed(bases):
            source = self._open(base)
            if isinstance(source, OpenFailure):
                break
            with source:
                log = SelectedLog(self._file(base), self._options, self._selection, self._filter, None)
                tail = log.from_end(UpTo(source, self._whole(base, source, 0)), wanted)
            self._go_to(base, tail.position)
            self._known.clear()
            if tail.count >= wanted:
                self._filter.skip = tail.count - wanted
                break
            wanted -= tail.count

    def _starts(self, base: int, source: Source) -> Starts:
        file, limit = self._file(base), self._options.max_batch_bytes
        return Starts(file.segment, source, file.log_base, max_batch_bytes=limit, report=ignore)

    # --- reading --------------------------------------------------------------------------------------------
    def _open(self, base: int) -> FileSource | OpenFailure:
        shown = os.path.join(self.path, f"{base:020}.log")
        try:
            return FileSource(self._path_of(base), shown, follow=False)
        except OSError as error:
            return OpenFailure(shown, "read", f"{shown}: cannot be read: {error.strerror}")

    def _file(self, base: int) -> InputFile:
        name = f"{base:020}.log"
        directory = PartitionDir(self.path, LogDir(above(self.path)))
        return InputFile(os.path.join(self.path, name), False, directory, parse_name(name), FileKind.LOG, base)

    def _read(self, base: int, *, is_last: bool) -> Generator[Item | None, None, bool]:
        """Read what is new of a segment; return whether it is at its end, and the next one comes."""
        source = self._open(base)
        if isinstance(source, OpenFailure):
            if not os.path.lexists(self._path_of(base)):
                return False  # the next look tells why
            if source.path not in self._told:
                self._told.add(source.path)
                yield source
            return not is_last
        with source:
            end = self._whole(base, source, self._position) if is_last else source.size
            if end <= self._position:
                return not is_last
            try:
                yield from self._walk(base, UpTo(source, end))
            except OSError as error:
                yield OpenFailure(source.name, "read", f"{source.name}: cannot be read further: {error.strerror}")
                return not is_last
        return not is_last

    def _walk(self, base: int, source: Source) -> Iterator[Item | None]:
        file = self._file(base)
        self.file = FileStart(file.path, FileKind.LOG, base, source.size)
        findings: list[Finding] = []
        walk = open_walk(file, source, self._options, findings, self._position)
        if self._state is not None:
            walk.resume(self._state.replace(ended=False))
        if self._selection is not None and self._log is None:
            assert self._filter is not None
            self._log = SelectedLog(file, self._options, self._selection, self._filter, None)
        elif self._options.deep and self._records is None:
            self._records = CheckedRecords(file.path, self._options)
        for read in walk.windows():
            yield from drain(findings)
            self._note(base, read, source)
            window = self._unread(read, source)
            if window.count and self._again:
                yield self._cut()
            yield from self._items(window)
            yield None
        yield from drain(findings)
        self._state, self._position = walk.state, source.size
        file.directory.close()

    def _unread(self, window: Window, source: Source) -> Window:
        """The batches of a window that were not read before."""
        first = 0
        while self._again and first < window.count:
            if _mark(_front(window, window.cell(first, layout.POSITION), source)) != self._again[0]:
                break
            self._again.popleft()
            first += 1
        if self._skips and self._next is not None and not first:
            first = sum(last < self._next for last in window.column(layout.LAST_OFFSET))
            self._skips = first == window.count
        elif first:
            self._next = window.cell(first - 1, layout.LAST_OFFSET) + 1
        return window.slice(first, window.count)

    def _items(self, window: Window) -> Iterator[Item]:
        if not window.count:
            return
        self._next = max(self._next or 0, window.cell(window.count - 1, layout.LAST_OFFSET) + 1)
        if self._log is not None and self._filter is not None:
            if self._budget.left >= 0:
                self._filter.left = self._budget.left
            for item in self._log.wanted(window):
                if self._budget.left >= 0:
                    self._budget.left = self._filter.left
                yield item
        elif self._records is not None:
            yield from self._records.of(window)
        else:
            yield Chunk(window, window.view, 0, last=window.count, begun=False, rows=window.rows, filled=0)

    def _note(self, base: int, window: Window, source: Source) -> None:
        """Know the last batches of a window again."""
        first = max(0, window.count - _KNOWN)
        columns = (layout.POSITION, layout.SIZE, layout.BASE_OFFSET, layout.LAST_OFFSET)
        rows = zip(*(window.column(one)[first : window.count] for one in columns), strict=True)
        for position, size, offset, last in rows:
            self._known.append(Shown(base, position, size, _front(window, position, source), offset, last))

    def _whole(self, base: int, source: FileSource, position: int, *, passes: bool = False) -> int:
        """Return where the last whole batch ends; one that is not finished belongs to a later look.

        The last one counts with a wrong CRC only where it has it in the next look too.

        Args:
            base, source: the segment.
            position: where a batch begins.
            passes: the batches are not shown, and the last ones are to be known.
        """
        at = last = position
        if source.size - position > _FAR:
            at = last = max(position, self._file(base).segment.some_before(source.size) or position)
        passed: deque[int] = deque(maxlen=_KNOWN_BEFORE)
        while at + _LENGTH <= source.size:
            front = source.read_at(at, _LENGTH)
            length, magic = wire.i32(front, layout.SIZE_AT), front[layout.MAGIC_AT]
            if length < _SMALLEST.get(magic, layout.MAX_INT):
                return self._odd(at, front, source.size) if any(front) else at
            if at + layout.LOG_OVERHEAD + length > source.size:
                break
            passed.append(at)
            last, at = at, at + layout.LOG_OVERHEAD + length
        if passes:
            self._remember(base, source, passed)
        if at > last and at == source.size:
            header = source.read_at(last, layout.RECORDS_AT)
            if not _has_crc(source, header, last, at):
                return self._odd(last, header, at)
        return at

    def _odd(self, at: int, header: bytes, end: int) -> int:
        """Where to read to behind what may be half written: it is looked at a second time before it counts."""
        if self._doubt == (at, header):
            self._doubt = None
            return end
        self._doubt, self.waits = (at, header), True
        return at

    def _remember(self, base: int, source: FileSource, positions: Iterable[int]) -> None:
        """Know batches that are not shown: what is shown goes on behind them."""
        for at in positions:
            header = source.read_at(at, layout.RECORDS_AT)
            size, offset = (
                wire.i32(header, layout.SIZE_AT) + layout.LOG_OVERHEAD,
                int.from_bytes(header[:8], signed=True),
            )
            last = offset
            if header[layout.MAGIC_AT] >= layout.MAGIC_V2:
                last += wire.i32(header, layout.ATTRIBUTES_AT + 2)
            self._known.append(Shown(base, at, size, header[:_FRONT], offset, last))
            self._next = last + 1


def _front(window: Window, position: int, source: Source) -> bytes:
    """The first bytes of a batch of a window."""
    at = position - window.origin
    return bytes(window.view[at : at + _FRONT]) if window.has_record_bytes else source.read_at(position, _FRONT)


def _mark(front: bytes) -> bytes:
    """By what a batch is known again: its offset and its CRC."""
    at = layout.CRC_AT if front[layout.MAGIC_AT :] >= bytes([layout.MAGIC_V2]) else layout.LEGACY_CRC_AT
    return front[:8] + front[at : at + 4]


def _has_crc(source: Source, header: bytes, start: int, end: int) -> bool:
    magic = header[layout.MAGIC_AT]
    is_new = magic >= layout.MAGIC_V2
    crc = crc_of_range(source, start + (layout.ATTRIBUTES_AT if is_new else layout.MAGIC_AT), end, magic)
    return crc == wire.u32(header, layout.CRC_AT if is_new else layout.LEGACY_CRC_AT)
