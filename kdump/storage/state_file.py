"""The small files of a broker, each read once: checkpoints, partition.metadata, meta.properties, producer snapshots."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.format.checkpoint.checkpoint_file import MAX_BYTES, EpochEntry, offsets_of, read_checkpoint
from kdump.format.checkpoint.producer_snapshot import read_snapshot
from kdump.format.source import BytesSource
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import CachedFile, open_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.finding import Finding
    from kdump.format.checkpoint.checkpoint_file import Checkpoint, Entry
    from kdump.format.checkpoint.producer_snapshot import Snapshot
    from kdump.format.kinds import FileKind
    from kdump.format.source import Source
    from kdump.storage.open_files import OpenFileCache


class StateFile:
    """A small file: opened once, read once, and what is wrong with it kept as data for whoever asks.

    Args:
        path: as the user wrote it, or below what the user wrote.
        kind: which file it is.
        cache: decides whether a large producer snapshot stays in memory; else it is opened again when it is read.
        follow: whether a symbolic link is followed.
    """

    def __init__(self, path: str, kind: FileKind, cache: OpenFileCache, *, follow: bool = True) -> None:
        self.path = path
        self.kind = kind
        self.failure: OpenFailure | None = None  # why it cannot be opened, None where it is open
        self.error: OSError | None = None  # why it cannot be read, None where it is
        self.size = 0  # bytes, when it was opened
        self.source: Source | None = None  # its bytes; None after a failure or an error
        opened = cache.absent(path) or open_source(path, follow=follow)
        if isinstance(opened, OpenFailure):
            self.failure = opened
            return
        with opened:
            self.size = opened.size
            if opened.size > MAX_BYTES or not cache.may_hold(opened.size):
                self.source = CachedFile(path, opened.size, opened.modified, cache)
                return
            try:
                self.source = BytesSource(opened.read_at(0, opened.size), path)
            except OSError as error:
                self.error = error

    @cached_property
    def _parsed(self) -> tuple[Checkpoint | None, list[Finding]]:
        findings: list[Finding] = []
        try:
            return None if self.source is None else read_checkpoint(self.kind, self.source, findings.append), findings
        except OSError as error:  # of a file that is too many for the memory
            self.error = error
            return None, findings

    @property
    def is_read(self) -> bool:
        """Whether it could be opened and read."""
        return self.failure is None and self.error is None

    @property
    def is_missing(self) -> bool:
        """Whether nothing has its name, not even a symbolic link."""
        return self.failure is not None and self.failure.missing and not os.path.islink(self.path)

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries of a text file, as far as there are any."""
        parsed = self._parsed[0]
        return () if parsed is None else parsed.entries

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings of a text file (K03-K05); `exception` among the values is what a broker throws."""
        return self._parsed[1]

    @cached_property
    def offsets(self) -> dict[tuple[str, int], int]:
        """The offsets of a checkpoint by topic and partition."""
        return offsets_of(self.entries)

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """The entries of a leader-epoch-checkpoint, as the file has them."""
        return tuple(entry for entry in self.entries if isinstance(entry, EpochEntry))

    def snapshot(self) -> Snapshot | None:
        """Return what a producer snapshot has, None where it cannot be opened or read.

        Raises:
            OSError: a large one cannot be read.
        """
        return None if self.source is None else read_snapshot(self.source)
