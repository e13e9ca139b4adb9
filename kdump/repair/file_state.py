"""The state of a file before it is changed, read by the descriptor of its directory."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kdump.repair.errors import RefusedError
from kdump.storage.own_files import DIRECTORY, READ
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 1024 * 1024


class FileState(Value):
    """By what a file is known again: the same file, and nobody has touched it."""

    # device, inode: which file it is
    device: int
    inode: int
    size: int  # bytes
    # modified, changed: ns since the epoch; no program can set the second one
    modified: int
    changed: int
    # uid, gid, mode: owner, group, rights (permission bits only)
    uid: int
    gid: int
    mode: int
    links: int  # names that it has
    kind: str  # regular, or what it is instead

    def fields(self) -> dict[str, int]:
        """Return what counts for a plan, by name."""
        names = ("device", "inode", "size", "modified", "changed", "uid", "gid", "mode")
        return {name: getattr(self, name) for name in names}


def state_of(directory: int, name: str) -> FileState | None:
    """Return what a name stands for, None when nothing has it.

    Args:
        directory: descriptor.
        name: in it.
    """
    try:
        return _state(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


def state_of_open(fd: int) -> FileState:
    """Return what a descriptor stands for."""
    return _state(os.fstat(fd))


def _state(found: os.stat_result) -> FileState:
    kinds = ((stat.S_ISREG, "regular"), (stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a directory"))
    kind = next((name for test, name in kinds if test(found.st_mode)), "a special file")
    return FileState(
        found.st_dev,
        found.st_ino,
        found.st_size,
        modified=found.st_mtime_ns,
        changed=found.st_ctime_ns,
        uid=found.st_uid,
        gid=found.st_gid,
        mode=stat.S_IMODE(found.st_mode),
        links=found.st_nlink,
        kind=kind,
    )


def open_directory(path: str) -> int:
    """Open a directory; a symbolic link that the user named is followed.

    Raises:
        RefusedError: it is none, or may not be entered.
    """
    try:
        return os.open(path, DIRECTORY)
    except OSError as error:
        raise RefusedError(f"{path}: cannot be opened: {error.strerror}") from None


def open_to_read(directory: int, name: str) -> int:
    """Open a file for reading; never a symbolic link."""
    return os.open(name, READ, dir_fd=directory)


@contextmanager
def opened(directory: int, name: str) -> Iterator[int]:
    """Open a file for reading, and close it again; never a symbolic link."""
    fd = open_to_read(directory, name)
    try:
        yield fd
    finally:
        os.close(fd)


def pieces(fd: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes [start, end) of a file, as far as there are any."""
    while start < end:
        data = os.pread(fd, min(_PIECE, end - start), start)
        if not data:
            return
        start += len(data)
        yield data


def sha256_of(fd: int, start: int = 0, end: int | None = None) -> str:
    """Return the hash of the bytes [start, end) of a file."""
    found = hashlib.sha256()
    for data in pieces(fd, start, os.fstat(fd).st_size if end is None else end):
        found.update(data)
    return found.hexdigest()


def sha256_of_name(directory: int, name: str) -> str | None:
    """Return the hash of a file, None when nothing has the name."""
    try:
        with opened(directory, name) as fd:
            return sha256_of(fd)
    except FileNotFoundError:
        return None


def attributes_of(fd: int) -> dict[str, bytes]:
    """Return the extended attributes of a file; access control lists and labels are some."""
    try:
        return {name: os.getxattr(fd, name) for name in os.listxattr(fd)}
    except OSError:  # the file system has none
        return {}
