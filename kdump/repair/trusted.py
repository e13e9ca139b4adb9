"""Which journals are followed: those that only their owner can have written, and whose owner may do what they say.

A journal names files, bytes and owners, and is followed by whoever runs undo or resume, often root. So it is opened
without following links, must be a regular file of bounded size, and neither it nor the directories above it, up to the
quarantine, may be writable by others. Root follows the journal of another user too, but then acts as that user.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kdump.repair.errors import RefusedError
from kdump.repair.file_state import DIRECTORY, READ, state_of_open
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.repair.file_state import FileState

NAME = "journal.json"
LIMIT = 32 * 1024 * 1024  # bytes of a journal: some ten thousand segments
MEMBERS = 1_000_000  # values in it, as far as commas tell: what they take in memory
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_KINDS = {errno.ELOOP: "is a symbolic link", errno.ENXIO: "is a special file", errno.ENOTDIR: "lies in no directory"}


class Opened(Value):
    """A journal that may be followed.

    Args:
        folder: path of the directory that it lies in, without links.
        directory: descriptor of that directory; the caller closes it.
        data: what the journal has.
        owner: user id of its owner.
        group: group id of the file.
    """

    folder: str
    directory: int
    data: bytes
    owner: int
    group: int


def open_journal(path: str) -> Opened:
    """Open a journal and look at who may have written it.

    Args:
        path: of the file, or of the directory in the quarantine that has it.

    Raises:
        RefusedError: it is none, or others may have written it.
        FileNotFoundError: there is nothing.
    """
    if os.path.isdir(path):
        path = os.path.join(path, NAME)
    folder = os.path.realpath(os.path.dirname(path) or ".")
    quarantine = directory = fd = -1
    try:
        quarantine = os.open(os.path.dirname(folder), DIRECTORY | os.O_NOFOLLOW)
        directory = os.open(os.path.basename(folder) or ".", DIRECTORY | os.O_NOFOLLOW, dir_fd=quarantine)
        fd = os.open(os.path.basename(path), READ, dir_fd=directory)
        found = _demand_file(path, fd)
        demand_ours(folder, state_of_open(directory), {found.uid})
        demand_ours(os.path.dirname(folder), state_of_open(quarantine), {found.uid, os.geteuid(), 0}, sticky=True)
        data = _read(path, fd)
        opened, directory = Opened(folder, directory, data, found.uid, found.gid), -1
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, error.strerror, path) from None
    except OSError as error:
        if error.errno in _KINDS:
            raise RefusedError(f"{path}: {_KINDS[error.errno]}, not a journal") from None
        raise RefusedError(f"{path}: cannot be read: {error.strerror}") from None
    else:
        return opened
    finally:
        for one in (fd, directory, quarantine):
            if one >= 0:
                os.close(one)


def _demand_file(path: str, fd: int) -> FileState:
    """Refuse what cannot be a journal by its kind, its name, its size, its owner or its rights."""
    found = state_of_open(fd)
    if found.kind != "regular":
        raise RefusedError(f"{path}: is {found.kind}, not a journal")
    if os.path.basename(path) != NAME:
        raise RefusedError(f"{path}: is not a journal: name the {NAME} in the directory that the repair has made")
    demand_ours(path, found, {os.geteuid()} if os.geteuid() else {found.uid})
    if found.size > LIMIT:
        raise RefusedError(
            f"{path}: is not a journal of kdump: it has {found.size} bytes, and a journal has at most {LIMIT}"
        )
    return found


def demand_ours(path: str, found: FileState, owners: set[int], *, sticky: bool = False) -> None:
    """Refuse a file or directory that others may have changed.

    Args:
        path: of it.
        found: what it is.
        owners: users that may have it.
        sticky: a directory in which everybody may write, but remove only files of their own, is good enough.
    """
    if found.uid not in owners:
        raise RefusedError(f"{path}: belongs to user {found.uid}, who may change it; run as that user")
    if found.mode & _OTHERS and not (sticky and found.mode & stat.S_ISVTX):
        why = f"others may write it (mode {found.mode:04o}), so nobody knows who has"
        raise RefusedError(f"{path}: {why}; when you know that it is as it was: chmod go-w {path}")


def _read(path: str, fd: int) -> bytes:
    """All of a file, but no more than a journal may have, whatever it has become by now."""
    found = bytearray()
    while len(found) <= LIMIT:
        data = os.read(fd, 1 << 20)
        if not data:
            break
        found += data
    if not is_bounded(found):
        raise RefusedError(f"{path}: is not a journal of kdump: it has too many bytes or values")
    return bytes(found)


def is_bounded(data: bytes | bytearray) -> bool:
    """Tell whether a journal is one that can be read again in a bounded memory."""
    return len(data) <= LIMIT and data.count(b",") <= MEMBERS


@contextmanager
def acting_as(owner: int, group: int) -> Iterator[None]:
    """Let root have the rights of another user for a while, and no more; for everybody else nothing changes.

    Args:
        owner: user id.
        group: of a user whom the system does not know; else those that it has.
    """
    if owner == os.geteuid():
        yield
        return
    import pwd

    before = os.getegid(), os.getgroups()
    try:
        known = pwd.getpwuid(owner)
        mine = known.pw_gid, os.getgrouplist(known.pw_name, known.pw_gid)
    except KeyError:
        mine = group, [group]
    try:
        os.setgroups(mine[1])
        os.setegid(mine[0])
        os.seteuid(owner)
        yield
    finally:
        os.seteuid(0)
        os.setegid(before[0])
        os.setgroups(before[1])


@contextmanager
def acting_as_root() -> Iterator[None]:
    """Within `acting_as`: look with the rights of root again."""
    effective = os.geteuid()
    if os.getuid() or not effective:
        yield
        return
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(effective)
