"""A log directory (log.dir): its listing, its checkpoints, its clean shutdown and its lock, each looked at once."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.format.java_values import MAX_INT
from kdump.format.kinds import OFFSET_KINDS, FileKind
from kdump.storage.directory import DirectoryListing
from kdump.storage.held import is_held
from kdump.storage.names import BOOTSTRAP, METADATA_LOG, REMOTE_CACHE, parse_partition
from kdump.storage.open_files import OpenFileCache
from kdump.storage.paths import base_name, exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kdump.storage.state_file import StateFile


_MOST_DIGITS = len(str(MAX_INT))
_OF_NODE = (FileKind.REPLICATION.value, BOOTSTRAP)  # made beside the metadata log
_MARKS = tuple(kind.value for kind in (FileKind.META_PROPERTIES, *OFFSET_KINDS, FileKind.CLEAN_SHUTDOWN))


def is_log_dir(path: str) -> bool:
    """Tell whether a directory is the log directory of a broker, by the files that only such a one has.

    A `.lock` is none of them: other programs have such files too.
    """
    return any(os.path.lexists(os.path.join(path, name)) for name in _MARKS)


def introduce(log_dirs: Iterable[LogDir]) -> None:
    """Let log directories that were named together know each other."""
    known = list(log_dirs)
    for one in known:
        one.siblings = [other for other in known if other is not one]


class LogDir:
    """A log directory; nothing is read before somebody asks for it.

    What is wrong with its files stays with them: verify reports it, `LogManager` judges what a broker does about it.

    Args:
        path: of the directory, as the user wrote it.
        listing: of the directory, where it was listed already.
    """

    def __init__(self, path: str, listing: DirectoryListing | None = None) -> None:
        self.path = path
        self.cache = OpenFileCache()  # where the files of its partitions are open
        if listing is not None:
            self.listing = listing
            self.cache.know(listing)
        self.siblings: Sequence[LogDir] = ()  # others that the user named with it, which may be the same broker's
        self.on_read: Callable[[StateFile], None] = lambda _file: None  # is given each text file when it was read, once
        self.topic_ids: dict[str, Mapping[str, Sequence[str]]] = {}  # what `identity` has found, by topic
        self._files: dict[FileKind, StateFile] = {}

    @cached_property
    def listing(self) -> DirectoryListing:
        """The listing of the directory."""
        return DirectoryListing(self.path)

    @cached_property
    def is_clean(self) -> bool:
        """Whether the broker that had it has closed it in order."""
        return exists(os.path.join(self.path, FileKind.CLEAN_SHUTDOWN.value))

    @cached_property
    def is_held(self) -> bool:
        """Whether a broker has it open."""
        return is_held(self.path)

    @cached_property
    def has_tiered_logs(self) -> bool:
        """Whether its broker has logs that go on in remote storage, below their first local segment."""
        return exists(os.path.join(self.path, REMOTE_CACHE))

    @cached_property
    def in_use(self) -> dict[tuple[str, int], list[str]]:
        """The paths of the partition directories that a broker serves, by topic and partition."""
        found: dict[tuple[str, int], list[str]] = {}
        for path in self.listing.partitions():
            name = parse_partition(base_name(path))
            if name is not None and not name.state:
                found.setdefault((name.topic, name.partition), []).append(path)
        return found

    def path_of(self, kind: FileKind) -> str:
        """Return the path of one of its text files."""
        return os.path.join(self.path, kind.value)

    def file(self, kind: FileKind) -> StateFile:
        """Return one of its text files; `failure` tells that there is none."""
        if kind not in self._files:
            self._files[kind] = self._meta_properties if kind is FileKind.META_PROPERTIES else self._open(kind)
            self.on_read(self._files[kind])
        return self._files[kind]

    def _open(self, kind: FileKind) -> StateFile:
        from kdump.storage.state_file import StateFile  # its parsers cost milliseconds

        return StateFile(self.path_of(kind), kind, self.cache)

    @cached_property
    def _meta_properties(self) -> StateFile:
        """The file, whether somebody judges it or asks for what it says only: it is read once."""
        return self._open(FileKind.META_PROPERTIES)

    @cached_property
    def properties(self) -> dict[str, str | int | None]:
        """What meta.properties says: `node.id` (of old releases `broker.id`), `directory.id`, `cluster.id` ..."""
        from kdump.format.checkpoint.text_lines import Property

        entries = self._meta_properties.entries  # not `file`: whoever asks here does not judge it
        return {one.name: one.value for one in entries if isinstance(one, Property)}

    def property_text(self, name: str) -> str | None:
        """Return what meta.properties says, as text; None where it does not."""
        value = self.properties.get(name)
        return None if value is None else str(value)

    @property
    def node(self) -> int | None:
        """The broker that it belongs to, None where meta.properties does not say it."""
        text = str(self.properties.get("node.id", self.properties.get("broker.id")))
        is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        return int(text) if is_number and int(text) <= MAX_INT else None

    @property
    def cluster_id(self) -> str | None:
        """The cluster that it belongs to, None where meta.properties does not say it."""
        found = self.properties.get("cluster.id")
        return None if found is None else str(found)

    @property
    def is_kraft(self) -> bool:
        """Whether meta.properties is that of a broker that runs with KRaft. Source: MetaPropertiesVersion."""
        return str(self.properties.get("version")) == "1"

    @cached_property
    def lacks_properties(self) -> bool:
        """Whether meta.properties is gone from the directory of a node, which ends without it beside the metadata log.

        A copy of the metadata log alone is no such directory: files that a node writes beside it tell.
        """
        listing = self.listing
        if listing.error is not None or listing.has(FileKind.META_PROPERTIES.value):
            return False
        return self.has_metadata_log and any(map(listing.has, _OF_NODE))

    @property
    def has_metadata_log(self) -> bool:
        """Whether the metadata log lies here: it is the metadata.log.dir of its broker."""
        return METADATA_LOG in self.listing.followed_directories()

    @cached_property
    def runs_kraft(self) -> bool | None:
        """Whether its broker runs with KRaft; None where nothing here tells.

        Without a meta.properties (before 0.9, or lost) a broker's checkpoint beside partitions without any topic id
        shows ZooKeeper. Source: MetaPropertiesVersion, LogManager (KIP-516: every partition has a partition.metadata).
        """
        partitions = self.listing.partitions()
        if self.is_kraft or self.has_metadata_log:
            return True
        if "version" in self.properties:
            return False
        is_of_broker = any(map(self.listing.has, (FileKind.RECOVERY_POINT.value, FileKind.REPLICATION.value)))
        has_ids = any(exists(os.path.join(one, FileKind.PARTITION_METADATA.value)) for one in partitions)
        return False if is_of_broker and len(partitions) > 1 and not has_ids else None

    def offset(self, kind: FileKind, partition: tuple[str, int]) -> int | None:
        """Return what a checkpoint says of a partition (topic and number), None where it has no entry."""
        return self.file(kind).offsets.get(partition)
