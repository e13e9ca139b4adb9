"""The segments of a partition directory as a repair reads them: by name, and one at a time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kdump.broker.load.recover import recover
from kdump.broker.producer.replay import Producers
from kdump.format.kinds import FileKind
from kdump.storage.file_source import FileSource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kdump.broker.load.recover import Recovered
    from kdump.storage.partition_dir import PartitionDir

INDEX_KINDS = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


def file_name(base: int, kind: FileKind) -> str:
    """Return the name of a file of a segment."""
    return f"{base:020}.{kind.value}"


class RecoveredSegments:
    """The segments of one partition directory.

    Args:
        directory: it.
        distrusted: names of snapshots that are not to be used.

    Attributes:
        bases: base offsets, ascending.
    """

    def __init__(self, directory: PartitionDir, distrusted: Collection[str] = ()) -> None:
        self._directory = directory
        self._distrusted = distrusted
        self.bases = directory.bases
        self._known: tuple[int, Producers] = (0, Producers.empty())  # at the base of the segment after the latest

    @contextmanager
    def log(self, base: int, size: int | None = None) -> Iterator[FileSource]:
        """Open a log.

        Args:
            base: its base offset.
            size: how much of it is there for the reader; None for all.
        """
        with FileSource(self._directory.path_of(base, FileKind.LOG), follow=False) as source:
            source.size = source.size if size is None else min(source.size, size)
            yield source

    def recovered(self, base: int, interval: int, size: int | None = None) -> Recovered:
        """Return what a broker makes of a segment, with what is known of producers before it.

        Args:
            base: of the segment.
            interval: index.interval.bytes.
            size: bytes of the log that count; None for all.

        Raises:
            OSError: a file cannot be read.
        """
        producers = self.producers_at(base)
        with self.log(base, size) as log:
            found = recover(log, base, interval, producers, partition=self._directory.name)
        after = [one for one in self.bases if one > base]
        if after:
            self._known = after[0], found.producers
        return found

    def producers_at(self, base: int) -> Producers:
        """Return what a broker knows of producers at the start of a segment: none of them expires.

        By the newest sound snapshot at the start of a segment up to there, and by the segments after it.
        """
        start, known = self._known if self._known[0] <= base else (0, Producers.empty())
        for one in reversed(self.bases):
            if start < one <= base:
                entries = self._snapshot(one)
                if entries is not None:
                    start, known = one, entries
                    break
        for one in self.bases:
            if start <= one < base:
                with self.log(one) as log:
                    known = recover(log, one, log.size, known).producers
        return known

    def _snapshot(self, base: int) -> Producers | None:
        name = file_name(base, FileKind.SNAPSHOT)
        if not self._directory.listing.has(name) or name in self._distrusted:
            return None
        file = self._directory.file(name, FileKind.SNAPSHOT)
        snapshot = file.snapshot()
        if snapshot is None:
            raise OSError(f"{file.path}: cannot be read") if file.error is None else file.error
        return None if snapshot.error is not None else Producers.of_snapshot(snapshot.entries, base)
