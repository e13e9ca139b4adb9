"""A directory as it was seen where work was planned, to be looked for where the work is done.

The one who plans and the one who reads may be two machines. Where the second one lacks a disk it finds no files, or an
empty directory, and that must never pass for a log without records. A log that retention has removed in between is
another matter: its log directory is there, and is the same.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from kdump.format.kinds import FileKind
from kdump.storage.directory import A_LINK, NO_FILE, DirectoryListing, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import parent
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.storage.directory import Contents

_MOST = 65536  # bytes of a meta.properties


class Sighting(Value):
    """What was seen of a directory.

    Args:
        directory: of a partition, or a log directory.
        log_dir: the log directory that it lies in, or is.
        identity: what tells that log directory from all others; None where nothing does.
        cluster, broker: whose it is, None where its meta.properties does not say it.
        logs: name and size (bytes) of each log that is to be read.
        is_alone: the user named its one log, and not the directory.
    """

    directory: str
    log_dir: str
    identity: str | None
    cluster: str | None
    broker: int | None
    logs: tuple[tuple[str, int], ...]
    is_alone: bool = False


class Unseen(NamedTuple):
    """A file that is not read, and why.

    Attributes:
        failure: the reason.
        size: bytes that were seen of it, None where it was not seen before.
        is_gone: it was removed since, by retention or the cleaner: no fault.
    """

    failure: OpenFailure
    size: int | None
    is_gone: bool


class LogDirs:
    """What tells log directories apart; each is asked once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str | None, str | None, int | None]] = {}

    def of(self, log_dir: str) -> tuple[str | None, str | None, int | None]:
        """Return identity, cluster and broker of a log directory.

        The identity is what its meta.properties says, but for comments: a broker writes the date there.
        """
        if log_dir not in self._known:
            source = open_source(os.path.join(log_dir, FileKind.META_PROPERTIES.value))
            if isinstance(source, OpenFailure):
                self._known[log_dir] = None, None, None
                return self._known[log_dir]
            with source:
                try:
                    lines = source.read_at(0, _MOST).splitlines()
                except OSError:
                    lines = []
            said = sorted(line.strip() for line in lines if line.strip() and not line.lstrip().startswith(b"#"))
            named = LogDir(log_dir)
            cluster = named.properties.get("cluster.id")
            identity = sha256(b"\n".join(said)).hexdigest()[:16] if said else None
            self._known[log_dir] = identity, None if cluster is None else str(cluster), named.node
        return self._known[log_dir]


def sighting_of(directory: str, log_dirs: LogDirs, logs: Iterable[tuple[str, int]] = ()) -> Sighting:
    """Return what is to be looked for of a directory.

    Args:
        directory: of a partition, or a log directory.
        log_dirs: tells log directories apart.
        logs: name and size (bytes) of each log that is to be read.
    """
    log_dir = directory
    if log_dirs.of(directory)[0] is None:
        log_dir = parent(directory) or directory
    return Sighting(directory, log_dir, *log_dirs.of(log_dir), tuple(logs))


def sighted(directory: str, log_dirs: LogDirs, listing: DirectoryListing | None = None) -> Sighting:
    """Return what is seen of a directory, with all logs in it.

    Args:
        directory: of a partition, or a log directory.
        log_dirs: tells log directories apart.
        listing: of the directory, where it was listed already.
    """
    listing = listing or DirectoryListing(directory)
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
    wrong = _why_not_the_same(seen, log_dirs, listing)
    if not seen.logs:
        return [] if wrong is None else [Unseen(OpenFailure(seen.directory, "missing", wrong), None, False)]
    found: list[Unseen] = []
    for name, size in seen.logs:
        path = os.path.join(seen.directory, name)
        if wrong is None and listing.has(name):
            if not (listing.is_regular(name) or seen.is_alone):
                found += _not_a_file(path, size)
            continue
        why = f"no such file: {path}: removed since it was listed" if wrong is None else wrong
        found.append(Unseen(OpenFailure(path, "missing", why), size, wrong is None))
    return found


def _not_a_file(path: str, size: int) -> Iterator[Unseen]:
    """What stands in the place of a log, and is none."""
    source = open_source(path, follow=False)
    if isinstance(source, OpenFailure):
        yield Unseen(source, size, source.missing)
    else:
        source.close()


def _why_not_the_same(seen: Sighting, log_dirs: LogDirs, listing: DirectoryListing) -> str | None:
    """Why what is here is not what was seen; None where it is."""
    from socket import gethostname

    here = log_dirs.of(seen.log_dir)[0]
    on = f"on {gethostname()}"
    if seen.identity is not None:
        if here == seen.identity:
            missing = listing.error is not None and not isinstance(listing.error, FileNotFoundError)
            return f"{seen.directory}: cannot be listed {on}: {listing.error}" if missing else None
        if here is not None:
            return f"{seen.log_dir}: is another log directory {on} than where the work was planned"
        return f"{seen.log_dir}: not there {on}, or empty: its files were seen where the work was planned"
    if listing.error is not None:
        return f"{seen.directory}: cannot be listed {on}, and was where the work was planned: {listing.error.strerror}"
    names = list(listing.names)
    if names and (not seen.logs or seen.is_alone or any(map(_is_log, names))):
        return None
    return f"{seen.directory}: has no logs {on}: they were seen where the work was planned"


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
