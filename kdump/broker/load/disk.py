"""The files of a partition directory while a broker loads it: every change is made in memory only.

Strategy: what is not changed stays the source that it was, what is cut is a part of it, and only what is rewritten
(indexes, snapshots, the epoch checkpoint) has bytes of its own. A partition can have thousands of segments, so the
contents of indexes are forgotten beyond a bound, unless they are wanted: of an offset index a lookup then finds an
earlier entry of the same index, which leads to the same batch; time indexes are never read in a load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.index.offset_and_time import OffsetIndex
from kdump.format.source import BytesSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.format.source import Source

KEPT_BYTES = 4 * 1024 * 1024  # of contents that nobody wants
_ENTRY = OffsetIndex.entry_size
_THIN_ENTRIES = 1024
_PIECE = 1 << 20


class FilePart:
    """Some bytes of a source.

    Args:
        source: the whole.
        start, end: positions in it, half-open, bytes.
    """

    is_growing = False  # a start is imitated: who appended is gone

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.name = source.name
        self.size = end - start
        self._source = source
        self._start = start

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        return self._source.read_at(self._start + position, max(0, min(length, self.size - position)))

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        return self._source.read_into(self._start + position, target[: max(0, self.size - position)])

    def next_data(self, position: int) -> int:
        """Return the first position at or after `position` that is not in a hole, `size` when there is none."""
        return min(self._source.next_data(self._start + position) - self._start, self.size)

    def unreadable(self, _start: int, _end: int) -> tuple[()]:
        """Return none: a broker that cannot read a log fails."""
        return ()


class Disk:
    """The regular files of a directory.

    Args:
        files: by name, as they are.
        wants_contents: keep what is written; else only what is needed to continue, once it is much.

    Attributes:
        snapshots: names of the producer snapshots that are there, in the order in which they came: each recovered
            segment asks for them all.
        by_offset: the same by the offset in the name, as far as somebody has read that from it.
    """

    def __init__(self, files: Mapping[str, Source], *, wants_contents: bool) -> None:
        self.before = files  # the files as they were
        self.snapshots: dict[str, int | None] = dict.fromkeys(sorted(filter(_is_snapshot, files)))
        self.by_offset: dict[int, str] = {}
        self._now = dict(files)
        self._wants = wants_contents
        self._kept = 0
        self._same: set[str] = set()  # rewritten with the bytes that they had

    def names(self) -> list[str]:
        """Return the names of all files, in the order in which a broker loads them."""
        return sorted(self._now)

    @property
    def is_whole(self) -> bool:
        """Whether every content that was written is still there."""
        return not any(isinstance(source, Thinned) for source in self._now.values())

    def get(self, name: str) -> Source | None:
        """Return a file, None when it is not there."""
        return self._now.get(name)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, 0 when it is not there."""
        source = self._now.get(name)
        if isinstance(source, Thinned):
            return source.whole_size
        return 0 if source is None else source.size

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._now.pop(name, None)
        self._forget(name)
        self._same.discard(name)

    def rename(self, name: str, new: str) -> None:
        """Give a file another name; one that had it is gone."""
        self._same.discard(new)
        self._forget(name)
        source = self._now.pop(name, None)
        if source is not None:
            self._set(new, source)

    def cut(self, name: str, size: int) -> None:
        """Leave the first bytes of a file."""
        source = self._now[name]
        if size < source.size:
            self._now[name] = FilePart(source, 0, size)
            self._same.discard(name)

    def write(self, name: str, data: bytes) -> None:
        """Make a file, or replace what it holds."""
        before = self.before.get(name)
        self._same.discard(name)
        if before is not None and _equal(before, BytesSource(data)):
            self._same.add(name)
        kept = data
        if not self._wants and name.endswith((".index", ".timeindex")) and self._kept + len(data) > KEPT_BYTES:
            kept = _thinned(data) if name.endswith(".index") else b""
        self._kept += len(kept)
        path = next((one.name for one in (self._now.get(name), before) if one is not None), name)
        self._set(name, Thinned(kept, path, len(data)) if len(kept) < len(data) else BytesSource(kept, path))

    def put(self, name: str, source: Source) -> None:
        """Make a file of what another one holds."""
        self._same.discard(name)
        self._set(name, source)

    def _set(self, name: str, source: Source) -> None:
        self._now[name] = source
        if _is_snapshot(name):
            self.snapshots.setdefault(name)

    def learn(self, name: str, offset: int) -> None:
        """Note the offset of a producer snapshot."""
        self.snapshots[name] = offset
        self.by_offset[offset] = name

    def _forget(self, name: str) -> None:
        offset = self.snapshots.pop(name, None)
        if offset is not None:
            self.by_offset.pop(offset, None)

    def is_changed(self, name: str) -> bool:
        """Tell whether a file is not what it was: other bytes, new, or gone; a part of what it was is not a change."""
        now, before = self._now.get(name), self.before.get(name)
        if now is before or isinstance(now, FilePart) or name in self._same:
            return False
        return now is None or before is None or isinstance(now, Thinned) or not _equal(now, before)


def _is_snapshot(name: str) -> bool:
    return name.endswith(".snapshot")


class Thinned(BytesSource):
    """A file of which not all bytes are kept.

    Args:
        data: of what is kept.
        name: what messages call it.
        whole_size: bytes that it has.
    """

    def __init__(self, data: bytes, name: str, whole_size: int) -> None:
        super().__init__(data, name)
        self.whole_size = whole_size


def _thinned(index: bytes) -> bytes:
    """Leave some of the entries of an offset index, the last one among them."""
    entries = len(index) // _ENTRY
    step = -(-entries // _THIN_ENTRIES)
    if step < 2:
        return index
    kept = range((entries - 1) % step, entries, step)
    return b"".join(index[at * _ENTRY : (at + 1) * _ENTRY] for at in kept)


def _equal(one: Source, other: Source) -> bool:
    if one.size != other.size:
        return False
    return all(one.read_at(at, _PIECE) == other.read_at(at, _PIECE) for at in range(0, one.size, _PIECE))
