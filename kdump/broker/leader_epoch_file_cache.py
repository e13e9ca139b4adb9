"""LeaderEpochFileCache: the leader epochs of a partition, in memory and in the leader-epoch-checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.java_values import ARGUMENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.checkpoint.checkpoint_file import EpochEntry


class EpochCache:
    """Leader epochs, ascending.

    Args:
        entries: as the file has them: one that does not rise takes those that it contradicts with it.

    Source: LeaderEpochFileCache.
    """

    def __init__(self, entries: Iterable[EpochEntry]) -> None:
        self.entries: list[EpochEntry] = []  # the epochs with their start offsets
        self.complaint = ""  # what a broker throws because of an entry, class and message; empty when it takes all
        self.is_dirty = False  # it has changed since it was read, so the file is written, whatever is in it then
        for entry in entries:
            if min(entry) < 0:
                what = f"EpochEntry[epoch={entry.epoch}, startOffset={entry.start_offset}]"
                self.complaint = f"{ARGUMENT}: Received invalid partition leader epoch entry {what}"
                return
            self.assign(entry)
        self.is_dirty = False

    @property
    def latest(self) -> int:
        """The highest epoch, -1 when there is none."""
        return self.entries[-1].epoch if self.entries else -1

    def assign(self, entry: EpochEntry) -> None:
        """Take the next epoch; those that are not below it in both numbers go."""
        if self.entries:
            last = self.entries[-1]
            if entry.epoch == last.epoch and entry.start_offset >= last.start_offset:
                return
        while self.entries and (
            self.entries[-1].epoch >= entry.epoch or self.entries[-1].start_offset >= entry.start_offset
        ):
            self.entries.pop()
        self.entries.append(entry)
        self.is_dirty = True

    def clear(self) -> None:
        """Remove all."""
        self.is_dirty = True
        self.entries.clear()

    def truncate_from_end(self, end: int) -> None:
        """Remove what begins at or after an offset."""
        while self.entries and self.entries[-1].start_offset >= end:
            self.entries.pop()
            self.is_dirty = True

    def truncate_from_start(self, start: int) -> None:
        """Let the epoch that an offset is in begin there, and remove those before it."""
        passed = 0
        while passed < len(self.entries) and self.entries[passed].start_offset <= start:
            passed += 1
        if passed:
            self.entries[:passed] = [self.entries[passed - 1]._replace(start_offset=start)]
            self.is_dirty = True

    def file(self) -> bytes:
        """Return the leader-epoch-checkpoint. Source: CheckpointFile.write."""
        from kdump.format.checkpoint.checkpoint_file import encode_checkpoint  # its patterns cost milliseconds

        return encode_checkpoint(self.entries)
