"""What kdump reads back as its own: ledgers, plans, notes, journals, and what a killed run has left.

It leads the hand that writes and removes, often that of root. So it must be a regular file, reached by no link, of the
user who runs kdump or of root, and nobody else may write it, nor the directory that it lies in. In a directory where
everybody writes and nobody removes what is not theirs (with the sticky bit, as /tmp) files may lie, and nothing more.
Further up no directory may belong to somebody else, or be one where everybody removes what they like: who may rename
a directory may put another one in its place.

What a user names on the command line for kdump to read (configurations, keys, lists) is theirs to choose.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.storage.paths import owner_name
from kdump.storage.refusal import RefusedError
from kdump.words.command import ShellCommand, named

if TYPE_CHECKING:
    from collections.abc import Collection

    from kdump.storage.fsops import FileOps

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
"""Rights with which somebody else may have written a file: it is not believed then."""
_MOST_LINKS = 40  # on the way to a directory, as Linux has it
_OPEN_TO_ITS_OWNER = 0o755
_KINDS = {errno.ELOOP: "is a symbolic link", errno.ENXIO: "is a special file", errno.ENOTDIR: "is no directory"}


def demand_ours(path: str, uid: int, mode: int, owners: Collection[int] | None = None, *, sticky: bool = False) -> None:
    """Refuse a file or directory that others may have changed.

    Args:
        path: of it.
        uid: of its owner.
        mode: its rights.
        owners: users that may have it; by default the one who runs kdump, and root.
        sticky: a directory in which everybody may write, but remove only files of their own, is good enough.

    Raises:
        RefusedError: somebody else may have written it.
    """
    _demand_owner(path, uid, {os.geteuid(), 0} if owners is None else owners, is_file=stat.S_ISREG(mode))
    if mode & OTHERS_WRITE and not (sticky and mode & stat.S_ISVTX):
        why = f"others may write it (mode {stat.S_IMODE(mode):04o}), so who has is unknown"
        closing = ShellCommand("chmod", "go-w", named(path))
        raise RefusedError(f"{path}: {why}; when you are sure that it is unchanged: {closing}")


def _demand_owner(path: str, uid: int, owners: Collection[int], *, is_file: bool = False) -> None:
    if uid not in owners:
        then = "or name another place"
        if is_file and os.geteuid() == 0:
            then = f"or, when you know that all of it is right: {ShellCommand('chown', 'root', named(path))}"
        whose = f"user {uid}{owner_name(uid, ' (%s)')}"
        raise RefusedError(f"{path}: belongs to {whose}, who may change it; run as that user, {then}")


# --- directories ----------------------------------------------------------------------------------------------
def own_place(path: str, *, sticky: bool = True) -> str:
    """Return the real path of a directory in which nobody else can put one thing in the place of another.

    Args:
        path: of the directory, as the user wrote it; what is not there of it yet is not looked at.
        sticky: the directory may be one where everybody may write, with the sticky bit.

    Raises:
        RefusedError: somebody else may change what lies there, or where the path leads.
        OSError: it cannot be looked at.
    """
    where = led_to(path)
    at, is_first = where, True
    while True:
        try:
            found = os.stat(at, follow_symlinks=False)
        except FileNotFoundError:
            is_first = False  # it will be made: those above it count, and in them only what is made
        else:
            if is_first:
                demand_ours(at, found.st_uid, found.st_mode, sticky=sticky)
                is_first = False
            elif at != os.sep:
                _demand_stays(at, found)
        if at == os.sep:
            return where
        at = os.path.dirname(at)


def open_own_place(path: str, *, sticky: bool = False) -> int:
    """Open a directory that is there, and in which nobody else can change a thing, and return its descriptor.

    Args:
        path: of it, as the user wrote it.
        sticky: it may be one where everybody may write, with the sticky bit.

    Raises:
        RefusedError: somebody else may change what lies there, or where the path leads.
        OSError: it cannot be opened.
    """
    directory = os.open(path, DIRECTORY)
    try:
        demand_own_place(path, directory, sticky=sticky)
    except BaseException:
        os.close(directory)
        raise
    return directory


def demand_own_place(path: str, directory: int, *, sticky: bool = False) -> None:
    """Refuse an open directory that others may change, or in whose place they may put another one.

    Args:
        path: by which it was opened, as the user wrote it.
        directory: its descriptor: what was looked at before is what is written to later.
        sticky: it may be one where everybody may write, with the sticky bit.

    Raises:
        RefusedError: somebody else may change what lies there, or where the path leads.
        OSError: it cannot be looked at.
    """
    where, found = own_place(path, sticky=sticky), os.fstat(directory)
    demand_ours(path, found.st_uid, found.st_mode, sticky=sticky)
    if not os.path.samestat(found, os.stat(where, follow_symlinks=False)):
        raise RefusedError(f"{path}: another directory has been put in its place meanwhile; run the same command again")


def make_own_place(path: str, ops: FileOps, *, is_new: bool) -> int:
    """Make a directory where only this user can change what lies there, and return its descriptor.

    Args:
        path: of it, as the user wrote it; the one that it goes into must be there.
        ops: makes the calls.
        is_new: it must not be there yet; else one that this user has made meanwhile, in another process, is taken.

    Raises:
        RefusedError: somebody else has made it meanwhile, or may change where the path leads.
        OSError: it cannot be made.
    """
    outer, name = os.path.split(own_place(path, sticky=False))
    above = os.open(outer, DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            ops.make_directory(above, name)
        except FileExistsError:
            if is_new:
                raise
        ops.sync(above)
        return open_own_directory(path, above, name)
    finally:
        os.close(above)


def _demand_stays(path: str, found: os.stat_result) -> None:
    """Refuse a directory whose entries somebody else can rename."""
    _demand_owner(path, found.st_uid, {os.geteuid(), 0})
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        why = f"everybody may put another directory in the place of one here (mode {stat.S_IMODE(found.st_mode):04o})"
        raise RefusedError(f"{path}: {why}; take that right away first: {ShellCommand('chmod', 'o-w', named(path))}")


def led_to(path: str) -> str:
    """Return the real path of a directory; links on the way must be those of the user who runs kdump, or root's.

    Args:
        path: of a directory, or of a new one.

    Raises:
        RefusedError: a link is somebody else's, who can lead elsewhere.
        OSError: the links have no end, or cannot be looked at.
    """
    at, links = os.sep, 0
    rest = [*Path(os.path.join(os.getcwd(), path)).parts[::-1]]
    while rest:
        part = rest.pop()
        if part == os.pardir:
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, part)  # the first part of an absolute path is its root
        try:
            found = os.stat(here, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            at = here
            continue
        if not stat.S_ISLNK(found.st_mode):
            at = here
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        _demand_owner(here, found.st_uid, {os.geteuid(), 0})
        rest += Path(here).readlink().parts[::-1]
    return at


def make_directories(path: str) -> None:
    """Make a directory, and those above it that are not there: only their owner may write them.

    Raises:
        OSError: one of them cannot be made.
    """
    if os.path.isdir(path):
        return
    above = os.path.dirname(path.rstrip(os.sep))
    if above and not os.path.isdir(above):
        make_directories(above)
    try:
        os.mkdir(path, _OPEN_TO_ITS_OWNER)  # noqa: PTH102 (paths stay text)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def open_own_directory(path: str, directory: int | None = None, name: str | None = None) -> int:
    """Open a directory that kdump has made, and return its descriptor; no link is followed.

    Args:
        path: of it, for messages; without a name it is opened by that.
        directory: descriptor of the one that it lies in.
        name: in that.

    Raises:
        RefusedError: it is a link or no directory, or others may have changed it.
        OSError: it cannot be opened.
    """
    try:
        fd = os.open(path if name is None else name, DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        raise _told(path, error, "the directory that kdump makes") from None
    try:
        found = os.fstat(fd)
        demand_ours(path, found.st_uid, found.st_mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


# --- files ----------------------------------------------------------------------------------------------------
def open_own(directory: int, name: str, path: str, what: str, *, to_write: bool = False) -> int:
    """Open a file that kdump has written, and return its descriptor; neither follows a link nor waits.

    Args:
        directory: descriptor of the one that it lies in.
        name: in that.
        path: of it, for messages.
        what: it should be, as in `a plan of kdump`.
        to_write: it must be one that can be written, with no other name.

    Raises:
        RefusedError: it is something else, or others may have written it.
        OSError: it cannot be opened; nothing has the name, for one.
    """
    if not is_file_name(name):
        raise RefusedError(f"{path}: is not the name of a file in a directory")
    try:
        fd = os.open(name, READ, dir_fd=directory)
    except OSError as error:
        raise _told(path, error, what) from None
    try:
        demand_own(path, os.fstat(fd), what, is_alone=to_write)
    except BaseException:
        os.close(fd)
        raise
    return fd


def demand_own(path: str, found: os.stat_result, what: str, *, is_alone: bool = False) -> None:
    """Refuse a file that is none, or that others may have written.

    Args:
        path: of it.
        what: it should be.
        is_alone: it must have no other name.
    """
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError(f"{path}: is {kind_of(found.st_mode)}, not {what}")
    demand_ours(path, found.st_uid, found.st_mode)
    if is_alone and found.st_nlink != 1:
        why = f"has {found.st_nlink} names, and would change under all"
        raise RefusedError(f"{path}: {why}; copy it, so that it has one")


def read_own(directory: int, name: str, path: str, what: str, most: int) -> bytes:
    """Return what a file has that kdump has written.

    Args:
        directory, name, path, what: as `open_own` takes them.
        most: bytes that it may have.

    Raises:
        RefusedError: it is something else, too large, or others may have written it.
        OSError: it cannot be read.
    """
    fd = open_own(directory, name, path, what)
    try:
        found = bytearray()
        while len(found) <= most and (data := os.read(fd, 1 << 20)):
            found += data
    finally:
        os.close(fd)
    if len(found) > most:
        raise RefusedError(f"{path}: is not {what}: it has more than {most} bytes")
    return bytes(found)


def is_file_name(name: str) -> bool:
    """Tell whether a name stays in its directory."""
    return name not in ("", os.curdir, os.pardir) and not set(name) & {os.sep, "\0"}


def kind_of(mode: int) -> str:
    """Return what something is that is no regular file, for a message."""
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"))
    return next((name for test, name in kinds if test(mode)), "a special file")


def _told(path: str, error: OSError, what: str) -> Exception:
    """A refusal where something else has the name; else the error, with the whole path."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and os.path.islink(path):
        to = os.path.realpath(path)
        return RefusedError(f"{path}: is a symbolic link, not {what}; none is followed here: it leads to {to}")
    if error.errno in _KINDS:
        return RefusedError(f"{path}: {_KINDS[error.errno]}, not {what}")
    error.filename = path
    return error


# --- rows beside data -----------------------------------------------------------------------------------------
def why_not_of_owner(path: str, rows: os.stat_result, data: os.stat_result) -> str | None:
    """Return why rows are not as trusted as the data that they lie beside, None where they are.

    Args:
        path: of the file of rows, as the sentence begins.
        rows: what that file is.
        data: what the directory or the log is that they tell of.
    """
    if rows.st_uid not in {data.st_uid, os.geteuid(), 0}:
        whose = f"user {data.st_uid}{owner_name(data.st_uid, ' (%s)')}"
        why = f"belongs to user {rows.st_uid}{owner_name(rows.st_uid, ' (%s)')}, and the data beside it to {whose}"
        return f"{path}: {why}: not taken for what kdump has written"
    if rows.st_mode & OTHERS_WRITE & ~data.st_mode:
        why = f"others may write it (mode {stat.S_IMODE(rows.st_mode):04o}), and not the data beside it"
        return f"{path}: {why}: not taken for what kdump has written"
    return None


def demand_leftovers(directory: int, path: str, names: Collection[str]) -> None:
    """Refuse what a killed run seems to have left where somebody else has made some of it.

    Args:
        directory: descriptor.
        path: of the directory.
        names: in it.

    Raises:
        RefusedError: somebody else has made one of them.
    """
    for name in names:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        _demand_owner(os.path.join(path, name), found.st_uid, {os.geteuid(), 0})
