"""A partition directory: one listing, its segments, and its small files, each read once, for every verb.

Strategy: listing a directory of thousands of segments looks at names only. A segment is opened when it is asked for
and kept open, the latest used up to a bound.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.format.batch.epoch_order import ascend
from kdump.format.kinds import FileKind
from kdump.storage.directory import SEGMENT_KINDS, DirectoryListing
from kdump.storage.epochs_beside import EpochsBeside, Paths
from kdump.storage.log_dir import LogDir
from kdump.storage.names import log_bases, parse_partition
from kdump.storage.open_files import CachedFile
from kdump.storage.paths import above, base_name, is_remote, parent
from kdump.storage.segment import Segment, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.source import Source
    from kdump.storage.directory import Contents
    from kdump.storage.file_source import OpenFailure
    from kdump.storage.state_file import StateFile


_NO_FILES: Mapping[FileKind, str] = MappingProxyType({})
_AT_ONCE = 16  # requests to a store
_MOST_KEPT = 2048  # segments: pages of their indexes; of their files only the latest are open


class PartitionDir:
    """A partition directory; it is listed when somebody asks for what lies in it.

    Args:
        path: of the directory, as the user wrote it.
        log_dir: the log directory that it lies in.
        listing: of the directory, where it was listed already.
        is_partition: False for a log.dir as the place of its own files.
    """

    def __init__(
        self, path: str, log_dir: LogDir, listing: DirectoryListing | None = None, *, is_partition: bool = True
    ) -> None:
        self.path = path
        self.log_dir = log_dir
        self.name = base_name(path)  # of the directory
        self.parsed = parse_partition(self.name)  # what the name tells, None where it tells nothing
        self.cache = log_dir.cache  # where its files are open
        self.learnt: dict[type, object] = {}  # what other modules have made of its files once, by the type of that
        self._is_partition = is_partition
        self._files: dict[str, StateFile] = {}
        self._open: OrderedDict[int, Segment] = OrderedDict()
        if listing is not None:
            self.listing = listing
            self.cache.know(listing)

    @cached_property
    def listing(self) -> DirectoryListing:
        """The listing of the directory."""
        listing = DirectoryListing(self.path)
        self.cache.know(listing)
        return listing

    @cached_property
    def contents(self) -> Contents:
        """The same in the order in which it is shown."""
        return self.listing.contents(is_partition=self._is_partition)

    def demand_listing(self) -> None:
        """Make sure that it can be listed.

        Raises:
            UnreadableError: it cannot.
        """
        if self.listing.failure is not None:
            raise UnreadableError(self.listing.failure)

    @property
    def key(self) -> tuple[str, int] | None:
        """Topic and partition, as checkpoints name it."""
        return None if self.parsed is None else (self.parsed.topic, self.parsed.partition)

    @property
    def is_leftover(self) -> bool:
        """Whether a broker is about to delete it."""
        return self.parsed is not None and self.parsed.state == "delete"

    # --- segments -------------------------------------------------------------------------------------------
    @property
    def bases(self) -> list[int]:
        """The base offsets of the logs by the names of all entries, ascending."""
        return self.listing.bases

    def __len__(self) -> int:
        return len(self.bases)

    @cached_property
    def by_base(self) -> dict[int, dict[FileKind, str]]:
        """The paths of the regular files of segments that a broker loads, by base offset and kind."""
        found: dict[int, dict[FileKind, str]] = {}
        for path, name in ((file.path, file.name) for file in self.contents.files):
            if name.kind in SEGMENT_KINDS and name.base_offset is not None and name.uuid is None:
                found.setdefault(name.base_offset, {})[name.kind] = path
        return found

    @cached_property
    def log_bases(self) -> list[int]:
        """The base offsets of the logs that are regular files, ascending."""
        return sorted(base for base, files in self.by_base.items() if FileKind.LOG in files)

    @property
    def log_bytes(self) -> int:
        """The size of all logs that are regular files, as the listing has it."""
        return sum(self.listing.size(f"{base:020}.{FileKind.LOG.value}") for base in self.log_bases)

    def next_base(self, base: int) -> int | None:
        """Return the base offset of the next segment whose log is a regular file, None after the last."""
        return self.listing.next_base(base)

    def path_of(self, base: int, kind: FileKind) -> str:
        """Return the path of a file of a segment."""
        return self.listing.join(f"{base:020}.{kind.value}")

    def files_of(self, base: int) -> Mapping[FileKind, str]:
        """Return the paths of the files of a segment whose names are not those of its log."""
        return self.by_base.get(base, _NO_FILES) if self.listing.renamed else _NO_FILES

    def has(self, base: int, kind: FileKind) -> bool:
        """Tell whether a file of a segment is there."""
        return self.listing.has(f"{base:020}.{kind.value}")

    def segment(self, number: int) -> Segment:
        """Return a segment by its number among `bases`, opened at most once while it is in use.

        Raises:
            UnreadableError: one of its files cannot be opened.
        """
        segment = self._open.get(number)
        if segment is None:
            is_open = not self.was_closed and number == len(self.bases) - 1
            base = self.bases[number]
            path, files = self.path_of(base, FileKind.LOG), self.files_of(base)
            segment = self._open[number] = Segment(path, base, self.cache, is_open=is_open, files=files).open_all()
            if len(self._open) > _MOST_KEPT:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(number)
        return segment

    def floor(self, offset: int) -> int:
        """Return the number of the last segment whose base is at or below an offset, -1 when there is none."""
        return bisect_right(self.bases, offset) - 1

    def close(self) -> None:
        """Close all files until they are read again."""
        for segment in self._open.values():
            segment.close()
        self._open.clear()
        self.cache.close()

    @property
    def is_lone_segment(self) -> bool:
        """Whether one log lies here that nothing around says to be the last of its partition: it is a copy of it."""
        others = FileKind.EPOCHS, FileKind.PARTITION_METADATA
        if self.parsed is not None or len(self.log_bases) != 1 or any(self.listing.has(one.value) for one in others):
            return False
        return not any(name.endswith(FileKind.SNAPSHOT.value) for name in self.listing.names)

    @property
    def was_closed(self) -> bool:
        """Whether a broker has closed the partition and goes by that: not the metadata log, see `PartitionName`."""
        is_raft_log = self.parsed is not None and self.parsed.is_raft_log
        return self.log_dir.is_clean and not self.is_leftover and not is_raft_log

    @property
    def closed_at(self) -> int | None:
        """The end with which a broker has closed the log in order, None where it has not."""
        if not self.was_closed or self.key is None:
            return None
        return self.log_dir.offset(FileKind.RECOVERY_POINT, self.key)

    # --- small files ----------------------------------------------------------------------------------------
    def file(self, name: str, kind: FileKind) -> StateFile:
        """Return a small file: text, or a producer snapshot; `failure` tells that there is none."""
        if name not in self._files:
            from kdump.storage.state_file import StateFile  # its parsers cost milliseconds

            self._files[name] = StateFile(self.listing.join(name), kind, self.cache)
        return self._files[name]

    @property
    def epoch_file(self) -> StateFile:
        """The leader-epoch-checkpoint."""
        return self.file(FileKind.EPOCHS.value, FileKind.EPOCHS)

    @property
    def epochs(self) -> Sequence[EpochEntry]:
        """The entries of the leader-epoch-checkpoint, as the file has them."""
        return self.epoch_file.epochs

    @cached_property
    def sound_epochs(self) -> Sequence[EpochEntry]:
        """The same where a broker could have written them so, ascending; none where anything is wrong in the file."""
        found = list(self.epochs)
        is_sound = not self.epoch_file.findings and all(min(one) >= 0 for one in found)
        return found if is_sound and ascend(found) else ()

    def epochs_around(
        self, base: int, entries: Sequence[EpochEntry] | None = None, own: Sequence[EpochEntry] | None = None
    ) -> EpochsBeside:
        """Return what lies around the log of a segment says of leader epochs.

        Args:
            base: of the segment.
            entries: of a leader-epoch-checkpoint; None for that of the partition.
            own: where they are another replica's, those of this one.
        """
        bases = self.log_bases
        before = Paths(lambda k: self.path_of(bases[k], FileKind.LOG), range(bisect_left(bases, base) - 1, -1, -1))
        behind = Paths(lambda k: self.path_of(bases[k], FileKind.LOG), range(bisect_right(bases, base), len(bases)))
        known = self.sound_epochs if entries is None else entries
        return EpochsBeside(self.path_of(base, FileKind.LOG), before, behind, known, self.log_start, own)

    @property
    def topic_id(self) -> str | None:
        """The topic id of partition.metadata as Kafka writes it, None where that does not say it."""
        from kdump.format.checkpoint.text_lines import Property
        from kdump.format.java_values import uuid_text

        entries = self.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA).entries
        found = (uuid_text(str(one.value)) for one in entries if isinstance(one, Property) and one.name == "topic_id")
        return next(found, None)

    @cached_property
    def log_start(self) -> int:
        """The log start offset by the checkpoint of the log directory, 0 when it has none."""
        return 0 if self.key is None else self.log_dir.offset(FileKind.LOG_START, self.key) or 0

    @cached_property
    def start_offset(self) -> int:
        """The log start offset that a broker has after loading the segments that are here."""
        return max(self.bases[0], self.log_start)

    def sources(self) -> dict[str, Source]:
        """Return the regular files by name as a broker sees them, links to such included; opened when they are read.

        Raises:
            OSError: the directory, or one of the files, cannot be looked at.
        """
        found: dict[str, Source] = {}
        for name, status in self.listing.followed():
            path = self.listing.join(name)
            held = self._held(name)
            found[name] = held or CachedFile(path, status.st_size, status.st_mtime_ns // 1_000_000, self.cache)
        return found

    def _held(self, name: str) -> Source | None:
        """A small file that was read, or is to be read once for all."""
        known = self.epoch_file if name == FileKind.EPOCHS.value else self._files.get(name)
        return None if known is None else known.source


def list_ahead(directories: Sequence[PartitionDir]) -> None:
    """List directories of an object store, several at a time: each waits for its answer.

    Args:
        directories: that are needed; on this machine they are listed when they are.
    """
    remote = [one for one in directories if is_remote(one.path)]
    if len(remote) > 1:
        from concurrent.futures import ThreadPoolExecutor  # few read from a store

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(lambda one: one.listing, remote):
                pass


class LogAlone(PartitionDir):
    """One log that the user named, without the other segments of its directory.

    Args:
        path: of the log.
    """

    def __init__(self, path: str) -> None:
        directory = os.path.dirname(path) or "."
        super().__init__(directory, LogDir(parent(directory)))
        self.path = self.name = path
        self._bases = log_bases([os.path.basename(path)])

    @property
    def key(self) -> None:
        """None: what the checkpoints of the log.dir say of the partition does not count."""
        return None

    @property
    def bases(self) -> list[int]:
        """Its base offset; nothing where the name tells none."""
        return self._bases

    def path_of(self, base: int, kind: FileKind) -> str:
        """Return the path of the log."""
        return self.path

    @property
    def epochs(self) -> Sequence[EpochEntry]:
        """None: what is said of the partition does not count."""
        return ()

    @cached_property
    def log_start(self) -> int:
        """0: what is said of the partition does not count."""
        return 0


class InputDirectory:
    """A directory that the user named; it is listed once.

    A directory with files of segments is a partition directory, another one a log.dir.

    Args:
        path: as the user wrote it.
        above: tells the path of the log directory that a partition directory lies in.
        is_log_dir: a configuration says that it is a log.dir, whatever lies in it.

    Attributes:
        log_dir: the directory itself, or the one that it lies in.
        partitions: the directory itself, or those in it, by topic and partition.
        itself: the directory, whatever it is.
    """

    def __init__(self, path: str, above: Callable[[str], str] = above, *, is_log_dir: bool = False) -> None:
        self.path = path
        listing = DirectoryListing(path)
        # it has files of segments; a log directory into which one of them was moved has its partitions all the same
        self.is_partition = (
            not is_log_dir
            and listing.has_segments
            and not (listing.has(FileKind.META_PROPERTIES.value) and (listing.partitions() or not listing.bases))
        )
        self.is_named_so = (
            not is_log_dir and parse_partition(base_name(path)) is not None
        )  # its name is that of a partition directory
        directories = [] if self.is_partition else listing.partitions()
        if self.is_partition or (self.is_named_so and not directories):
            self.log_dir = LogDir(above(path))
            self.itself = PartitionDir(path, self.log_dir, listing)
            self.partitions = [self.itself]
        else:
            self.log_dir = LogDir(path, listing)
            self.itself = PartitionDir(path, self.log_dir, listing, is_partition=False)
            self.partitions = [PartitionDir(one, self.log_dir) for one in directories]

    @property
    def is_log_dir(self) -> bool:
        """Whether it is taken for a log.dir: it has no segment file, and is not named as a partition directory."""
        return self.log_dir.path == self.path

    @property
    def failure(self) -> OpenFailure | None:
        """Why it cannot be listed, None where it is."""
        return self.itself.listing.failure

    @property
    def contents(self) -> Contents:
        """The entries in order, without partition directories."""
        return self.itself.contents

    def listed(self) -> Iterator[PartitionDir]:
        """Yield the directories in the order in which they are shown: a log.dir itself, then its partitions."""
        if self.is_log_dir:
            yield self.itself
        yield from self.partitions
