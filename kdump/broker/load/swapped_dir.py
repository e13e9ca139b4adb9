"""A partition directory as the coming start finds it once it has finished its swaps: what readers of it will get.

A `.swap` file is a log already: a compaction or a split had finished it, and the originals are gone, or go with the
start. Who reads the directory as it lies takes what is left of the originals for the log, or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Trait
from kdump.format.batch.walk import CheckedWalk
from kdump.format.index.offset_and_time import INDEX_INTERVAL
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.storage.directory import RenamedListing
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import java_name
from kdump.storage.partition_dir import PartitionDir
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.finding import Finding

_LOG, _SWAP = f".{FileKind.LOG.value}", ".swap"
_TEMPORARY = (".deleted", ".cleaned", _SWAP)


class SwappedDir(TupleValue):
    """A directory once its swaps are finished."""

    today: PartitionDir  # as it lies
    # as it will be; its paths are those of today. Where nothing is to be put in place the same as today.
    directory: PartitionDir
    put: tuple[str, ...] = ()  # paths of the `.swap` logs that become logs, in the order of their offsets
    replaced: tuple[str, ...] = ()  # paths of the logs that a start removes for them

    def damaged(self) -> list[str]:
        """Return those of the logs that are put in place of which not all is right: others may have what they lack."""
        return [path for path in self.put if not _is_sound(self.directory, path)]


def has_swapped_log(names: Iterable[str]) -> bool:
    """Tell whether files with these names hold a log that waits to be put in place, and so are those of a partition."""
    return any(name.endswith(f"{_LOG}{_SWAP}") and java_name(name).base_offset is not None for name in names)


def once_swapped(directory: PartitionDir) -> SwappedDir:
    """Return a directory as a start finds it once it has finished its swaps.

    As it is where there are none, and where a start would fail over them: then nothing is put in place.

    Args:
        directory: the partition.

    Source: LogLoader.load, removeTempFilesAndCollectSwapFiles.
    """
    listing = directory.listing
    if listing.failure is not None or not has_swapped_log(listing.names):
        return SwappedDir(directory, directory)
    # Few directories have any, and the model of the broker costs time to import.
    from kdump.broker.failure import BrokerError
    from kdump.broker.load.disk import Disk
    from kdump.broker.load.facts import PartitionFacts
    from kdump.broker.load.swap_recovery import finish

    names: dict[str, str] = {}
    try:
        before = directory.sources()
        disk = Disk(before, wants_contents=False)
        finish(disk, PartitionFacts(directory.path, "", 0, state="", files=before, interval=INDEX_INTERVAL, now=0))
    except (BrokerError, OSError):
        return SwappedDir(directory, directory)
    for name in disk.names():
        swap = f"{name}{_SWAP}"
        if swap in before and disk.get(name) is before[swap] and listing.is_regular(swap):
            names[name] = swap
    gone = {name for name in before if disk.get(name) is not before[name] and not name.endswith(_TEMPORARY)}
    logs = sorted(name for name in names if name.endswith(_LOG))
    if not logs:
        return SwappedDir(directory, directory)
    replaced = sorted(listing.join(name) for name in gone if name.endswith(_LOG))
    loaded = PartitionDir(directory.path, directory.log_dir, RenamedListing(listing, names, gone))
    return SwappedDir(directory, loaded, tuple(listing.join(names[name]) for name in logs), tuple(replaced))


def _is_sound(directory: PartitionDir, path: str) -> bool:
    """Whether every byte of a log is in a batch with a true CRC; the holes between them are those of the cleaner."""
    source = directory.cache.open(path, follow=False)
    if isinstance(source, OpenFailure):
        return False
    found: list[Finding] = []
    walk = CheckedWalk(source, found.append, next_base=None, max_batch_bytes=MAX_BATCH_BYTES)
    try:
        return all(window.all_trusted for window in walk.windows()) and all(
            Trait.HOLE in one.code.traits for one in found
        )
    except OSError:
        return False
    finally:
        source.close()
