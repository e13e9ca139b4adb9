"""What a directory argument stands for: its files, in the order in which they are shown.

Strategy: the depth is fixed, a log.dir, its partition directories, their files, so a walk cannot be led
astray. Nothing is opened here. Paths are joined as text onto what the user wrote.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.log.files import is_dir
from kdump.log.names import TEXT_KINDS, FileKind, FileName, has_meaning, parse_name, parse_partition
from kdump.log.source import is_remote
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SEGMENT_KINDS = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX, FileKind.SNAPSHOT)
NOT_A_PARTITION = "not a partition directory"
A_LINK, NO_FILE = "a symbolic link", "not a regular file"  # a broker follows the first, and fails on some of the others
IN_A_PARTITION = "a directory inside a partition directory"
_LOCK = ".lock"  # of a log.dir; always empty
_REMOTE_CACHE = "remote-log-index-cache"  # of a log.dir: copies of indexes whose logs are elsewhere


class Skipped(Value):
    """Something in a walk that is not followed, and why."""

    path: str
    reason: str


class Expansion:
    """What a path stands for.

    Attributes:
        files: what a broker reads, in order; the path itself where it is no directory.
        leftovers: files with a known purpose under a name that no broker reads: `.deleted`, `.swap`, copies.
        ignored: what no broker reads and whose name has no known purpose, but parts that such names have.
        skipped: symbolic links, special files, directories of another depth, and what cannot be listed.
    """

    def __init__(self) -> None:
        self.files: list[str] = []
        self.leftovers: list[str] = []
        self.ignored: list[str] = []
        self.skipped: list[Skipped] = []


class _Listing(Value):
    files: list[str]
    directories: list[str]


def expand(path: str) -> Expansion:
    """Return what a path of the user stands for; a symbolic link given explicitly is followed.

    A directory with segment files: these by base offset, for each base in the order log, index, timeindex,
    txnindex, snapshot; then KRaft snapshots, then text files. Another one is a log.dir: its own text files,
    then its partition directories by topic and partition.

    Args:
        path: a file or a directory, as the user wrote it.
    """
    found = Expansion()
    if not os.path.isdir(path):
        found.files.append(path)
        return found
    for directory in directories(path, found):
        partition_files(directory, found)
    return found


def expanded(paths: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield what the paths of a user stand for, each directory once, and whether it is one.

    Args:
        paths: as the user wrote them; a pattern where nothing has that name is expanded.
    """
    seen: set[str] = set()
    for pattern in paths:
        for path in _matches(pattern):
            if not is_dir(path):
                yield path, False
            elif (real := path if is_remote(path) else os.path.realpath(path)) not in seen:
                seen.add(real)
                yield path, True


def _matches(path: str) -> Iterator[str]:
    """What a path stands for: itself, or where nothing has that name what it matches as a pattern."""
    from glob import glob, has_magic

    if is_remote(path) or os.path.lexists(path) or not has_magic(path):
        yield path
    else:
        yield from sorted(glob(path)) or [path]  # noqa: PTH207 (a Path would change what the user wrote)


def directories(path: str, found: Expansion) -> list[str]:
    """Return the partition directories that a directory stands for: itself, or those of a log.dir.

    Args:
        path: of the directory, as the user wrote it.
        found: takes the files of a log.dir itself.
    """
    own = Expansion()
    listing = _list(path, own)
    if any(_is_segment(parse_name(name)) for name in listing.files):
        return [path]
    found.skipped.extend(own.skipped)
    _add_files(path, listing.files, found)
    partitions = _partitions(listing.directories)
    for name in listing.directories:
        if name == _REMOTE_CACHE:
            found.ignored.append(os.path.join(path, name))
        elif name not in partitions:
            found.skipped.append(Skipped(os.path.join(path, name), NOT_A_PARTITION))
    return [os.path.join(path, name) for name in partitions]


def partition_files(directory: str, found: Expansion) -> None:
    """Add what lies in a partition directory, in order.

    Args:
        directory: its path.
        found: takes it.
    """
    inner = _list(directory, found)
    _add_files(directory, inner.files, found)
    _skip_directories(directory, inner.directories, found)


def _is_segment(name: FileName) -> bool:
    return name.is_live and name.kind in _SEGMENT_KINDS


def _skip_directories(directory: str, names: Iterable[str], found: Expansion) -> None:
    for name in names:
        path = os.path.join(directory, name)
        found.skipped.append(Skipped(path, IN_A_PARTITION))


def _partitions(directories: Iterable[str]) -> dict[str, tuple[str, int, str]]:
    """Return the partition directories among these, sorted by topic and partition, not by text."""
    parsed = ((name, parse_partition(name)) for name in directories)
    keys = {name: (found.topic, found.partition, name) for name, found in parsed if found is not None}
    return dict(sorted(keys.items(), key=lambda item: item[1]))


def _list(directory: str, found: Expansion) -> _Listing:
    """Return the names of regular files that mean something and of directories, sorted; all else is skipped."""
    listing = _Listing([], [])
    try:
        if is_remote(directory):
            from kdump.log.remote import entries as entries_of

            for name, is_directory in entries_of(directory):
                (listing.directories if is_directory else listing.files).append(name)
            return listing
        own = Expansion()
        with os.scandir(directory) as entries:
            for entry in entries:  # there may be a million of them
                _sort_in(entry, os.path.join(directory, entry.name), listing, own)
        listing.files.sort()
        listing.directories.sort()
        found.skipped.extend(sorted(own.skipped, key=lambda one: one.path))
    except OSError as error:
        found.skipped.append(Skipped(directory, f"cannot be listed: {error.strerror}"))
    return listing


def _sort_in(entry: os.DirEntry[str], path: str, listing: _Listing, found: Expansion) -> None:
    try:
        if entry.is_symlink():
            found.skipped.append(Skipped(path, A_LINK))
        elif entry.is_file(follow_symlinks=False):
            if has_meaning(entry.name):
                listing.files.append(entry.name)
        elif entry.is_dir(follow_symlinks=False):
            listing.directories.append(entry.name)
        else:
            found.skipped.append(Skipped(path, NO_FILE))
    except OSError as error:
        found.skipped.append(Skipped(path, f"cannot be looked at: {error.strerror}"))


def _add_files(directory: str, names: Iterable[str], found: Expansion) -> None:
    parsed = [(parse_name(name), name) for name in names]
    live = [(_rank(name), text) for name, text in parsed if name.is_live]
    found.files.extend(os.path.join(directory, text) for _, text in sorted(live))
    for name, text in parsed:
        if name.is_live or text == _LOCK:
            continue
        group = found.ignored if name.kind is FileKind.UNKNOWN else found.leftovers
        group.append(os.path.join(directory, text))


def _rank(name: FileName) -> tuple[int, int, int]:
    number = -1 if name.base_offset is None else name.base_offset
    if name.kind in _SEGMENT_KINDS:
        return 0, number, _SEGMENT_KINDS.index(name.kind)
    if name.kind is FileKind.CHECKPOINT:
        return 1, number, name.epoch or 0
    return 2, TEXT_KINDS.index(name.kind), 0
