"""A partition directory as the coming start finds it once it has finished its swaps: what readers of it will get.

A `.swap` file is a log already: a compaction or a split had finished it, and the originals are gone, or go with the
start. Who reads the directory as it lies takes what is left of the originals for the log, or nothing.
"""

from __future__ import annotations

from bisect import bisect_right
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
    files: tuple[str, ...] = ()  # paths of all `.swap` files that are put in place, those of indexes too
    failure: str | None = None  # what a broker throws that fails over them: then nothing is put in place

    @property
    def waiting(self) -> list[str]:
        """The paths of all `.swap` files, those too that a start throws away; no repair is made beside one."""
        listing = self.today.listing
        if not listing.has_temporaries:
            return []
        return sorted(listing.join(name) for name in listing.names if name.endswith(_SWAP))

    def put_over(self, offset: int) -> str:
        """Return the path of the log that is put in place of what has an offset.

        Of several that are put in place together each has taken what lies from its base offset on, the first one what
        lies below that too.

        Args:
            offset: in a log that a start removes.
        """
        return self.put[max(0, bisect_right(self.put, offset, key=_base) - 1)]

    def replaced_by(self, path: str) -> list[str]:
        """Return the paths of the logs that a start removes for one of those that it puts in place.

        Args:
            path: of a `.swap` log.
        """
        return [one for one in self.replaced if self.put_over(_base(one)) == path]

    @property
    def waiting_logs(self) -> list[str]:
        """The paths of the logs among them."""
        return [path for path in self.waiting if path.endswith(f"{_LOG}{_SWAP}")]

    def damaged(self) -> list[str]:
        """Return those of the logs that are put in place of which not all is right: others may have what they lack."""
        return [path for path in self.put if not is_sound(self.directory, path)]


def once_swapped(directory: PartitionDir) -> SwappedDir:
    """Return a directory as a start finds it once it has finished its swaps.

    As it is where there are none, and where a start would fail over them: then nothing is put in place.

    Args:
        directory: the partition; it is looked at once.

    Source: LogLoader.load, removeTempFilesAndCollectSwapFiles.
    """
    found = directory.learnt.get(SwappedDir)
    if not isinstance(found, SwappedDir):
        found = directory.learnt[SwappedDir] = _once_swapped(directory)
    return found


def _once_swapped(directory: PartitionDir) -> SwappedDir:
    listing = directory.listing
    is_swapping = listing.has_temporaries and any(name.endswith(_SWAP) for name in listing.names)
    if listing.failure is not None or not is_swapping:
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
    except BrokerError as error:
        return SwappedDir(directory, directory, failure=error.exception)
    except OSError:
        return SwappedDir(directory, directory)
    for name in disk.names():
        swap = f"{name}{_SWAP}"
        if swap in before and disk.get(name) is before[swap] and listing.is_regular(swap):
            names[name] = swap
    gone = {name for name in before if disk.get(name) is not before[name] and not name.endswith(_TEMPORARY)}
    if not names:
        return SwappedDir(directory, directory)
    logs = sorted(name for name in names if name.endswith(_LOG))
    replaced = sorted(listing.join(name) for name in gone if name.endswith(_LOG))
    loaded = PartitionDir(directory.path, directory.log_dir, RenamedListing(listing, names, gone))
    put, files = ([listing.join(names[name]) for name in some] for some in (logs, sorted(names)))
    return SwappedDir(directory, loaded, tuple(put), tuple(replaced), tuple(files))


def _base(path: str) -> int:
    return java_name(path).base_offset or 0


def is_sound(directory: PartitionDir, path: str) -> bool:
    """Tell whether every byte of a log is in a batch with a true CRC; the holes between are those of the cleaner.

    Args:
        directory: where it is open.
        path: of it.
    """
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
