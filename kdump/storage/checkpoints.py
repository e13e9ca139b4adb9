"""What the log directory around partitions says of them, read once for all."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.format.checkpoint.checkpoint_file import offsets_of, read_checkpoint
from kdump.format.kinds import FileKind
from kdump.storage.file_source import DoorProblem, open_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.finding import Finding

Offsets = dict[tuple[str, int], int]


class LogDirectory:
    """The text files of a log directory, each read when it is asked for.

    Args:
        path: of the directory.
        report: takes what is wrong with the files, and those that cannot be read.

    Attributes:
        path: the same.

    Reports: K03.
    """

    def __init__(self, path: str, report: Callable[[Finding | DoorProblem], None]) -> None:
        self.path = path
        self._report = report

    @cached_property
    def is_clean(self) -> bool:
        """Whether a broker has closed it in order."""
        return os.path.exists(os.path.join(self.path, FileKind.CLEAN_SHUTDOWN.value))

    @cached_property
    def log_starts(self) -> Offsets:
        """The log start offsets, by topic and partition."""
        return self._read(FileKind.LOG_START) or {}

    @cached_property
    def recovery_points(self) -> Offsets | None:
        """The recovery points; None without the file."""
        return self._read(FileKind.RECOVERY_POINT)

    @cached_property
    def first_dirty(self) -> Offsets:
        """The first dirty offsets of the cleaner."""
        return self._read(FileKind.CLEANER) or {}

    def _read(self, kind: FileKind) -> Offsets | None:
        path = os.path.join(self.path, kind.value)
        if not os.path.lexists(path):
            return None
        source = open_source(path)
        if isinstance(source, DoorProblem):
            self._report(source)
            return None
        with source:
            try:
                entries = read_checkpoint(kind, source, self._report).entries
            except OSError as error:
                self._report(DoorProblem(path, "read", f"{path}: cannot be read: {error.strerror}"))
                return None
        return offsets_of(entries)
