"""What the log directory around a partition says about it: checkpoints, a clean shutdown, a lock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.checks.read_errors import entries_of
from kdump.finding import Code, Finding
from kdump.format.checkpoint.checkpoint_file import offsets_of
from kdump.format.kinds import FileKind
from kdump.storage.lock_state import is_held
from kdump.storage.paths import exists

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.storage.names import PartitionName

_OFFSETS = {
    FileKind.RECOVERY_POINT: "recoveryPoint",
    FileKind.REPLICATION: "highWatermark",
    FileKind.LOG_START: "logStartOffset",
}


class Surroundings:
    """Reads a log directory once; what is wrong with its files is told by whoever judges them.

    Args:
        path: of the log directory.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_clean = exists(os.path.join(path, FileKind.CLEAN_SHUTDOWN.value))
        self.is_held = is_held(path)
        self._offsets = {kind: self._read(kind) for kind in _OFFSETS}

    def start_offset(self, name: PartitionName) -> int:
        """Return the log start offset of a partition by the checkpoint, 0 when it has none."""
        return self._offsets[FileKind.LOG_START].get((name.topic, name.partition), 0)

    def check(self, name: PartitionName, directory: str, end: int) -> Iterator[Finding]:
        """Yield the checkpoints that go beyond the end of a partition.

        Args:
            name: of the partition.
            directory: what the sentences call it.
            end: its log end offset.

        Reports: K01, K02.
        """
        for kind, field in _OFFSETS.items():
            offset = self._offsets[kind].get((name.topic, name.partition), 0)
            if offset > end:
                code = Code.K02 if kind is FileKind.LOG_START else Code.K01
                values: dict[str, int | str | None] = {
                    "partition": os.path.basename(directory),
                    "end": end,
                    "missing": offset - end,
                }
                yield Finding(
                    code, self._file(kind), field=field, found=offset, expected=end, offset=end, values=values
                )

    def _file(self, kind: FileKind) -> str:
        return os.path.join(self.path, kind.value)

    def _read(self, kind: FileKind) -> dict[tuple[str, int], int]:
        return offsets_of(entries_of(kind, self._file(kind)))
