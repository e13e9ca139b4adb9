"""A directory that the user named: a partition directory, or a log.dir with its partition directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.storage.directory import DirectoryListing
from kdump.storage.log_dir import LogDir
from kdump.storage.names import parse_partition
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above, base_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.storage.directory import Contents


class InputDirectory:
    """A directory that the user named; it is listed once.

    A directory with files of segments is a partition directory, another one a log.dir.

    Args:
        path: as the user wrote it.
        above: tells the path of the log directory that a partition directory lies in.

    Attributes:
        path: the same.
        is_partition: it has files of segments.
        is_named_so: its name is that of a partition directory.
        log_dir: the directory itself, or the one that it lies in.
        partitions: the directory itself, or those in it, by topic and partition.
    """

    def __init__(self, path: str, above: Callable[[str], str] = above) -> None:
        self.path = path
        listing = DirectoryListing(path)
        self.is_partition = listing.has_segments
        self.is_named_so = parse_partition(base_name(path)) is not None
        directories = [] if self.is_partition else listing.partitions()
        if self.is_partition or (self.is_named_so and not directories):
            self.log_dir = LogDir(above(path))
            self._itself = PartitionDir(path, self.log_dir, listing)
            self.partitions = [self._itself]
        else:
            self.log_dir = LogDir(path, listing)
            self._itself = PartitionDir(path, self.log_dir, listing, is_partition=False)
            self.partitions = [PartitionDir(one, self.log_dir) for one in directories]

    @property
    def is_log_dir(self) -> bool:
        """Whether it is taken for a log.dir: it has no file of a segment, and is not named as a partition directory."""
        return self.log_dir.path == self.path

    @property
    def contents(self) -> Contents:
        """What lies in it, in order; partition directories are none of it."""
        return self._itself.contents

    def listed(self) -> Iterator[PartitionDir]:
        """Yield the directories in the order in which they are shown: a log.dir itself, then its partitions."""
        if self.is_log_dir:
            yield self._itself
        yield from self.partitions
