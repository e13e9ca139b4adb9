"""A directory as it was seen where work was planned, to be looked for where the work is done.

The one who plans and the one who reads may be two machines. Where the second one lacks a disk it finds no files, or an
empty directory, and that must never pass for a log without records. A log that retention has removed in between is
another matter: its log directory is there, and is the same. That takes one identity on both sides (`identity_of`);
where nothing tells it, what is there is read, and what is not there is a fault.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.format.kinds import FileKind
from kdump.storage.directory import A_LINK, NO_FILE, DirectoryListing, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory, list_ahead
from kdump.storage.paths import base_name, is_remote, parent
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.storage.directory import Contents

_BY_ID = "directory.id "
_REMOVED = ": removed since it was listed"
_UNKNOWN = ": it was seen where the work was planned, and no directory.id tells that this is the same directory"


class Sighting(Value):
    """What was seen of a directory."""

    directory: str  # of a partition, or a log directory
    log_dir: str  # the log directory that it lies in, or is
    identity: str | None  # what tells it from all others, by `identity_of`; None where nothing does
    # cluster, broker: whose it is, None where its meta.properties does not say it
    cluster: str | None
    broker: int | None
    logs: tuple[tuple[str, int], ...]  # name and size (bytes) of each log that is to be read
    is_alone: bool = False  # the user named its one log, and not the directory


class Unseen(TupleValue):
    """A file that is not read, and why."""

    failure: OpenFailure  # the reason
    size: int | None  # bytes that were seen of it, None where it was not seen before
    is_gone: bool  # it was removed since, by retention or the cleaner: no fault


class _Properties(TupleValue):
    """What the meta.properties of a log directory says; None for what it does not."""

    has_any: bool = False  # there is one, and it says something
    directory_id: str | None = None
    cluster: str | None = None
    broker: int | None = None


class LogDirs:
    """What log directories say of themselves; each is asked once."""

    def __init__(self) -> None:
        self._known: dict[str, _Properties] = {}
        self._listed: dict[str, DirectoryListing] = {}

    def __getstate__(self) -> dict[str, Any]:
        """All but listings, and what is so on this machine only."""
        return {"_known": self._known, "_listed": {}}

    @cached_property
    def machine(self) -> str:
        """The name of this machine, and of its run."""
        return _machine()

    def saw(self, listing: DirectoryListing) -> None:
        """Take the listing of a directory of a store, so that what it lacks is not asked for."""
        if is_remote(listing.path) and listing.path not in self._known:
            self._listed[listing.path] = listing

    def of(self, log_dir: str) -> _Properties:
        """Return what a log directory says."""
        if log_dir not in self._known:
            named = LogDir(log_dir, self._listed.pop(log_dir, None))
            known = named.properties
            directory_id = known.get("directory.id")
            own = None if directory_id in (None, "") else str(directory_id)
            self._known[log_dir] = _Properties(bool(known), own, named.cluster_id, named.node)
        return self._known[log_dir]


def identity_of(directory: str, log_dir: str, log_dirs: LogDirs) -> str | None:
    """Return what tells a directory from all others that may lie under its path, here or on another machine.

    That is the directory.id, which a broker gives each log directory once (since Kafka 3.7). Other properties are the
    same on all disks of a broker, and other files on those of others. Without an id it is the machine, as it is
    running, and which directories these are there: another machine, or another disk under the path, has another one.

    Args:
        directory: of a partition, or the log directory.
        log_dir: the log directory around it, or itself.
        log_dirs: tells what they say.

    Returns:
        None where nothing tells it: on an object store, and where the directory is not there.

    Source: MetaPropertiesEnsemble, DirectoryId.
    """
    own = log_dirs.of(log_dir).directory_id
    if own is not None:
        return f"{_BY_ID}{own}"
    try:
        places = [os.stat(one or os.curdir) for one in (log_dir, directory)]
        disk = os.statvfs(directory or os.curdir).f_fsid
    except (OSError, ValueError):  # a URL is no path
        return None
    return " ".join([log_dirs.machine, str(disk), *(f"{one.st_dev}:{one.st_ino}" for one in places)])


def _machine() -> str:
    """The name of this machine, and of its run: many machines may have one name."""
    from socket import gethostname

    run = ""
    with suppress(OSError):
        run = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{gethostname()} {run}"


def sighting_of(directory: str, log_dirs: LogDirs, logs: Iterable[tuple[str, int]] = ()) -> Sighting:
    """Return what is to be looked for of a directory.

    Args:
        directory: of a partition, or a log directory.
        log_dirs: tells log directories apart.
        logs: name and size (bytes) of each log that is to be read.
    """
    above = parent(directory) or directory
    around = (above, directory) if parse_partition(base_name(directory)) is not None else (directory,)
    log_dir = next((one for one in around if log_dirs.of(one).has_any), above)
    said = log_dirs.of(log_dir)
    return Sighting(
        directory, log_dir, identity_of(directory, log_dir, log_dirs), said.cluster, said.broker, tuple(logs)
    )


def sighted(directory: str, log_dirs: LogDirs, listing: DirectoryListing | None = None) -> Sighting:
    """Return what is seen of a directory, with all logs in it.

    Args:
        directory: of a partition, or a log directory.
        log_dirs: tells log directories apart.
        listing: of the directory, where it was listed already.
    """
    listing = listing or DirectoryListing(directory)
    log_dirs.saw(listing)
    logs = [name for name in listing.files if _is_log(name)]
    return sighting_of(directory, log_dirs, [(name, listing.size(name)) for name in logs])


def sighted_file(path: str, size: int, log_dirs: LogDirs) -> Sighting:
    """Return what is to be looked for of one log.

    Args:
        path: of it.
        size: bytes.
        log_dirs: tells log directories apart.
    """
    directory, name = os.path.split(path)
    return sighting_of(directory, log_dirs, [(name, size)]).replace(is_alone=True)


def missed(seen: Sighting, log_dirs: LogDirs) -> list[Unseen]:
    """Return the logs of a sighting that are not there; the directory, where no logs were seen in it.

    Args:
        seen: where the work was planned.
        log_dirs: tells log directories apart here.
    """
    listing = DirectoryListing(seen.directory)
    wrong = _why_not_here(seen, log_dirs, listing)
    if not seen.logs:
        return [] if wrong is None else [Unseen(OpenFailure(seen.directory, "missing", wrong), None, False)]
    found: list[Unseen] = []
    is_same: bool | None = None
    for name, size in seen.logs:
        path = os.path.join(seen.directory, name)
        if wrong is None and listing.has(name):
            if not (listing.is_regular(name) or seen.is_alone):
                found += _not_a_file(path, size)
            continue
        if is_same is None:
            is_same = seen.identity is not None and seen.identity == identity_of(seen.directory, seen.log_dir, log_dirs)
        why = wrong or f"no such file: {path}{_REMOVED if is_same else f' {_on()}{_UNKNOWN}'}"
        found.append(Unseen(OpenFailure(path, "missing", why), size, wrong is None and is_same))
    return found


def _not_a_file(path: str, size: int) -> Iterator[Unseen]:
    """What stands in the place of a log, and is none."""
    source = open_source(path, follow=False)
    if isinstance(source, OpenFailure):
        yield Unseen(source, size, source.missing)
    else:
        source.close()


def _on() -> str:
    from socket import gethostname

    return f"on {gethostname()}"


def _why_not_here(seen: Sighting, log_dirs: LogDirs, listing: DirectoryListing) -> str | None:
    """Why what is here is not what was seen, as far as that can be told; None where it may be."""
    here = log_dirs.of(seen.log_dir)
    was_told = (seen.identity or "").startswith(_BY_ID)
    if was_told and seen.identity == f"{_BY_ID}{here.directory_id}":
        is_wrong = listing.error is not None and not isinstance(listing.error, FileNotFoundError)
        return f"{seen.directory}: cannot be listed {_on()}: {listing.error}" if is_wrong else None
    had_any = was_told or seen.cluster is not None or seen.broker is not None
    if had_any and not here.has_any:
        return f"{seen.log_dir}: not there {_on()}, or empty: its files were seen where the work was planned"
    if was_told or (had_any and (seen.cluster, seen.broker) != (here.cluster, here.broker)):
        return f"{seen.log_dir}: is another log directory {_on()} than where the work was planned"
    if listing.error is not None:
        why = listing.error.strerror
        return f"{seen.directory}: cannot be listed {_on()}, and was where the work was planned: {why}"
    names = list(listing.names)
    if names and (not seen.logs or seen.is_alone or any(map(_is_log, names))):
        return None
    return f"{seen.directory}: has no logs {_on()}: they were seen where the work was planned"


def _is_log(name: str) -> bool:
    parsed = parse_name(name)
    return parsed.is_live and parsed.kind is FileKind.LOG


# --- the table `unread` -------------------------------------------------------------------------------------
def sightings(paths: Iterable[tuple[str, bool]], log_dirs: LogDirs) -> Iterator[Sighting | OpenFailure]:
    """Yield the partition directories and files under some paths, and what cannot be opened around them.

    Args:
        paths: of the user, and whether they are directories.
        log_dirs: tells log directories apart.
    """
    for path, is_directory in paths:
        if not is_directory:
            source = open_source(path)
            if isinstance(source, OpenFailure):
                yield source
                continue
            source.close()
            yield sighted_file(path, source.size, log_dirs)
            continue
        directory = InputDirectory(path)
        contents = directory.contents
        if directory.is_log_dir:
            if not (directory.partitions or contents.files or directory.failure):
                yield no_kafka_files(path)
            yield from not_opened(contents)
        log_dirs.saw(directory.itself.listing)
        list_ahead(directory.partitions)
        for one in directory.partitions:
            yield sighted(one.path, log_dirs, one.listing)


def unread_in(seen: Sighting, log_dirs: LogDirs) -> Iterator[Unseen]:
    """Yield what cannot be opened of a sighting; nothing is read.

    Args:
        seen: where the work was planned.
        log_dirs: tells log directories apart here.
    """
    lost = missed(seen, log_dirs)
    yield from lost
    if any(one.failure.kind == "missing" and not one.is_gone for one in lost):
        return
    sizes = {os.path.join(seen.directory, name): size for name, size in seen.logs}
    told = {one.failure.path for one in lost}
    contents = None
    if seen.is_alone:
        paths = [] if lost else list(sizes)
    else:
        contents = DirectoryListing(seen.directory).contents(is_partition=True)
        paths = [one.path for one in contents.files]
    for path in paths:
        source = open_source(path, follow=contents is None)
        if not isinstance(source, OpenFailure):
            source.close()
        else:
            yield Unseen(source, sizes.get(path), source.missing)
    for failure in not_opened(contents) if contents is not None else ():
        if failure.path not in told:
            yield Unseen(failure, sizes.get(failure.path), False)


def not_opened(contents: Contents) -> Iterator[OpenFailure]:
    """Yield the entries of a directory that ought to be read, and are not opened: links, special files, no rights.

    Args:
        contents: of the directory.
    """
    for one in contents.skipped:
        name = os.path.basename(one.path)
        is_wanted = parse_name(name).is_live or parse_partition(name) is not None
        if one.is_out_of_reach or (one.reason in (A_LINK, NO_FILE) and is_wanted):
            yield OpenFailure(one.path, "symlink", one.sentence)
