"""A segment: the files of one base offset, each opened once, on demand, read-only."""

from __future__ import annotations

import os
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import size as _size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex, TimestampOffset
    from kdump.format.source import Source
    from kdump.storage.open_files import CachedFile, OpenFileCache

SEGMENT_BYTES = 1024 * 1024 * 1024
"""segment.bytes, unless a topic has another."""
_NO_FILES: Mapping[FileKind, str] = MappingProxyType({})
_CHUNK = 1024  # entries of an index
MOST_HOPS = 100_000  # headers of a log
_CONTRADICTIONS = (2, 64)  # entries that show that an index is of another log: so many at least, and at most
_ENTRIES_BEFORE = 3  # of an index: each is some batches after the one before
_FAR = 16 * 1024 * 1024  # bytes: an index with such a hole is not the whole index
_NEAR = 256 * 1024  # bytes that are searched without an index
_CUT_OFF = "the end of the log is cut off: see what another replica has: kdump verify --replicas DIR OTHER"


class UnreadableError(Exception):
    """A file or a directory that cannot be left out cannot be opened; `problem` says why."""

    def __init__(self, problem: OpenFailure) -> None:
        super().__init__(problem.sentence)
        self.problem = problem

    def __reduce__(self) -> tuple[type[UnreadableError], tuple[OpenFailure]]:
        """Go to another process."""
        return type(self), (self.problem,)


def sibling(path: str, suffix: str) -> str:
    """Return the path of the file of the same segment with another suffix: what follows the suffix stays.

    Args:
        path: a file of a segment, as the user wrote it.
        suffix: without its dot.
    """
    directory, name = os.path.split(path)
    stem, _, rest = name.partition(".")
    _, dot, more = rest.partition(".")
    return os.path.join(directory, f"{stem}.{suffix}{dot}{more}")


class Segment:
    """The files of one base offset; their sizes are those at open.

    Args:
        path: of the log, as the user wrote it.
        base_offset: from its name, or of the user.
        cache: where the files are open.
        follow: whether symbolic links are followed.
        is_open: a broker has not closed it: it may be at work, or have crashed. Zeros at the end of the indexes are
            no entries then, and the time index lacks its last one.
        files: paths of those whose names are not those of the log.
    """

    def __init__(
        self,
        path: str,
        base_offset: int,
        cache: OpenFileCache,
        *,
        follow: bool = True,
        is_open: bool = False,
        files: Mapping[FileKind, str] = _NO_FILES,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.is_open = is_open
        self._cache = cache
        self._follow = follow
        self._paths = files
        self._files: dict[FileKind, CachedFile | OpenFailure] = {}

    def path_of(self, kind: FileKind) -> str:
        """Return the path of one of the files, whether there is one or not."""
        if kind is FileKind.LOG:
            return self.path
        if kind in self._paths:
            return self._paths[kind]
        return f"{self.path[:-3]}{kind.value}" if self.path.endswith(".log") else sibling(self.path, kind.value)

    def file(self, kind: FileKind) -> CachedFile | OpenFailure:
        """Return one of the files, opened at the first time, or why there is none."""
        if kind not in self._files:
            self._files[kind] = self._cache.open(self.path_of(kind), follow=self._follow)
        return self._files[kind]

    def _demand(self, kind: FileKind) -> CachedFile | None:
        """One of the files, None where there is none."""
        file = self.file(kind)
        if isinstance(file, OpenFailure):
            if file.kind == "missing" and kind is not FileKind.LOG and not os.path.islink(file.path):
                return None
            raise UnreadableError(file)
        return file

    @cached_property
    def log(self) -> CachedFile:
        """The log.

        Raises:
            UnreadableError: it cannot be opened.
        """
        log = self._demand(FileKind.LOG)
        assert log is not None
        return log

    @property
    def modified(self) -> int:
        """Time of the log, ms since the epoch."""
        return self.log.modified

    @property
    def has_index(self) -> bool:
        """Whether the offset index is there; a broker recovers the segment when it is not."""
        return not isinstance(self.file(FileKind.INDEX), OpenFailure)

    @cached_property
    def offset_index(self) -> OffsetIndex:
        """The offset index, without entries where there is no file.

        Raises:
            UnreadableError: it is there and cannot be opened.
        """
        source = self._demand(FileKind.INDEX) or _empty(self.path_of(FileKind.INDEX))
        index = self._offsets(source)
        if self.is_open:
            index.trim()
        return index

    def _offsets(self, source: Source) -> OffsetIndex:
        from kdump.format.index.offset_and_time import OffsetIndex  # a dump of a log alone need not import it

        return OffsetIndex(source, self.base_offset)

    @cached_property
    def time_index(self) -> TimeIndex:
        """The time index, without entries where there is no file.

        Raises:
            UnreadableError: it is there and cannot be opened.
        """
        source = self._demand(FileKind.TIMEINDEX) or _empty(self.path_of(FileKind.TIMEINDEX))
        from kdump.format.index.offset_and_time import TimeIndex

        index = TimeIndex(source, self.base_offset)
        if self.is_open:
            index.trim()
        return index

    def open_all(self) -> Segment:
        """Open the log and both indexes now, and return the segment.

        Raises:
            UnreadableError: one of them cannot be opened.
        """
        _ = self.log, self.offset_index, self.time_index
        return self

    def hints(self) -> Sequence[int]:
        """Return the positions that the offset index has, as far as they ascend; none where it cannot be read."""
        source = self.file(FileKind.INDEX)
        try:
            return () if isinstance(source, OpenFailure) else self._offsets(source).ascending_positions()
        except OSError:
            return ()

    def some_before(self, position: int) -> int | None:
        """Return where a batch with the right CRC begins, some batches before a position; None where none was found.

        The offset index names it; without one that is right the bytes before the position are searched.

        Args:
            position: in the log, bytes.
        """
        from kdump.format.batch.resync import Resync

        log = self.log
        resync = Resync(log, tuple)
        source = self.file(FileKind.INDEX)
        if not isinstance(source, OpenFailure):
            index = self._trimmed
            low, high = 0, index.entries
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if index.entry(middle).position <= position else (low, middle)
            begin = index.entry(low - _ENTRIES_BEFORE).position if low >= _ENTRIES_BEFORE else 0
            if 0 <= position - begin <= _FAR and resync.is_batch(begin):
                return begin
        found = resync.after(max(0, position - _NEAR), layout.UNKNOWN)
        return None if found.magic is not None or found.spent or found.position >= position else found.position

    @cached_property
    def _trimmed(self) -> OffsetIndex:
        """The entries of the offset index without zeros behind them; none where there is no file."""
        source = self.file(FileKind.INDEX)
        index = self._offsets(_empty(self.path_of(FileKind.INDEX)) if isinstance(source, OpenFailure) else source)
        index.trim()
        return index

    def check_end(self, last: int | None, next_base: int | None) -> Iterator[Finding]:
        """Yield what the next segment and the offset index say about the end of the log.

        Args:
            last: its last offset, None when it has no batch.
            next_base: base offset of the next segment, None when there is none.

        Reports: O06, O07.

        Raises:
            OSError: the index or the log has vanished meanwhile.
        """
        size = self.log.size
        if last is None and size:
            return  # not one batch was found: that is said already
        after = self.base_offset if last is None else last + 1
        if next_base is not None and last is not None and last >= next_base:
            yield Finding(
                Code.O06,
                self.path,
                size,
                0,
                offset=next_base,
                last_offset=last,
                found=last,
                values={"next_base": next_base},
            )
        elif next_base is not None and after < next_base:
            why = f"the next segment begins at {next_base}"
            yield _missing(self.path, size, after, next_base - 1, why, Severity.NOTE)
        elif next_base is None:
            known = self.index_end(size)
            if known is not None and known >= after and _size(self.path) == size:
                yield cut_off(self.path, size, after, known, f"its index extends to {known}")

    def known_ends(self, position: int, last: int, largest: int | None) -> Iterator[tuple[int, str]]:
        """Yield offsets that the log must have reached by its indexes, and the codes of what they show then.

        An entry of the offset index counts when it points behind the last right batch, one of the time index when it
        has a timestamp above all that are here: a wrong bit in an entry alone is no witness.

        Args:
            position: of the last right batch; -1 for none.
            last: its last offset, the offset before the first possible one where there is none.
            largest: timestamp of the right batches, ms; None for none.

        Raises:
            OSError: an index cannot be read.
        """
        known = self.index_end(position + 1)
        if known is not None and known > last:
            yield known + 1, "X07"
        entry = self._last_time()
        if entry is not None and entry.offset > last and entry.timestamp > (-1 if largest is None else largest):
            yield entry.offset + 1, "T04"

    def entries_end(self) -> int | None:
        """Return the offset after the last one that the indexes have, None where they have none.

        Raises:
            OSError: an index cannot be read.
        """
        offsets, time = self._trimmed, self._last_time()
        ends = [offsets.entry(offsets.entries - 1).offset + 1] if offsets.entries else []
        return max([*ends, *(() if time is None else (time.offset + 1,))], default=None)

    def _last_time(self) -> TimestampOffset | None:
        """The last entry of the time index without zeros behind it; None where there is none."""
        source = self.file(FileKind.TIMEINDEX)
        if isinstance(source, OpenFailure):
            return None
        from kdump.format.index.offset_and_time import TimeIndex

        index = TimeIndex(source, self.base_offset)
        index.trim()
        return index.entry(index.entries - 1) if index.entries else None

    def index_end(self, size: int) -> int | None:
        """Return the last offset that the offset index has for a byte at or after the end of the log; None for none.

        An index of another log is no witness of it.

        Args:
            size: of the log, bytes.
        """
        source = self.file(FileKind.INDEX)
        if isinstance(source, OpenFailure):
            return None
        index = self._offsets(source)
        largest, stop = None, index.entries
        while stop:  # entries ascend: those that point behind the log are the last ones
            start = max(0, stop - _CHUNK)
            pairs = (pair for columns in index.columns(start, stop) for pair in zip(*columns, strict=True))
            beyond = [offset for offset, position in pairs if position >= size and offset > self.base_offset]
            if not beyond:
                break
            largest = max(*beyond, self.base_offset if largest is None else largest)
            stop = start
        return None if largest is not None and self._is_of_another_log(index) else largest

    @property
    def has_foreign_index(self) -> bool:
        """Whether its offset index is about another log."""
        source = self.file(FileKind.INDEX)
        return not isinstance(source, OpenFailure) and self._is_of_another_log(self._offsets(source))

    def _is_of_another_log(self, index: OffsetIndex) -> bool:
        """Whether entries of the offset index point into batches, and none to where one begins.

        Only the chain of headers from the start of the log on contradicts an entry: what is torn says nothing.
        """
        log = self.file(FileKind.LOG)
        if isinstance(log, OpenFailure):
            return False
        fewest, most = _CONTRADICTIONS
        position = wrong = hops = 0
        before = -1
        for number in range(min(index.entries, most)):
            entry = index.entry(number)
            if entry.position >= log.size:
                break
            while position < entry.position:
                head = log.read_at(position, layout.LOG_OVERHEAD)
                size = int.from_bytes(head[layout.SIZE_AT :], "big", signed=True)
                hops += 1
                if len(head) < layout.LOG_OVERHEAD or size < layout.MIN_SIZE_V0 or hops > MOST_HOPS:
                    return False
                position += layout.LOG_OVERHEAD + size
            if position > log.size or entry.position == position or entry.position <= before:
                return False
            before = entry.position
            wrong += 1
        return wrong >= fewest

    def close(self) -> None:
        """Close the files until they are read again."""
        for file in self._files.values():
            if not isinstance(file, OpenFailure):
                file.close()


def cut_off(path: str, size: int, first: int, last: int, why: str) -> Finding:
    """Return what is wrong with a log that other files know to have gone on: that is no compaction.

    Args:
        path: of the log.
        size: of it, bytes.
        first, last: the offsets that are not here.
        why: what shows it.

    Reports: O07.
    """
    found = _missing(path, size, first, last, why, Severity.ERROR)
    return found.replace(values={**found.values, "remedy": _CUT_OFF})


def _missing(path: str, size: int, first: int, last: int, why: str, severity: Severity) -> Finding:
    values: dict[str, int | str | None] = {"missing_first": first, "missing_last": last, "why": why}
    return Finding(Code.O07, path, size, 0, offset=first, last_offset=last, severity_override=severity, values=values)


def _empty(path: str) -> Source:
    from kdump.format.source import BytesSource

    return BytesSource(b"", path)
