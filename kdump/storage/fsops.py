"""The only module that writes: every system call that changes something.

All of them go through `FileOps.call`, by name, so that a test can end the process there, let the call fail, or record
what it did. Names are relative to the descriptor of a directory, and no symbolic link is followed.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHANGE = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PRIVATE, _PRIVATE_DIRECTORY = 0o600, 0o700
_PIECE = 1024 * 1024  # bytes handed to one write


class FileOps:
    """The calls. Who needs them takes an instance, and hands it on."""

    def call(self, name: str, function: Callable[..., _T], *args: object, **named: object) -> _T:
        """Make one call; the place at which a test puts in a fault.

        Args:
            name: of the call, as in the manual of the system.
            function: makes it.
            args, named: its arguments.
        """
        return function(*args, **named)

    def _again(self, name: str, function: Callable[..., _T], *args: object, **named: object) -> _T:
        """Make a call that can be made again after a signal."""
        while True:
            try:
                return self.call(name, function, *args, **named)
            except InterruptedError:
                continue

    # --- names ----------------------------------------------------------------------------------------------
    def create(self, directory: int, name: str) -> int:
        """Make a new file and open it for writing; nobody else may read it yet.

        Args:
            directory: its descriptor.
            name: in it; nothing may have it.
        """
        with _placed(directory):
            return self.call("open", os.open, name, _CREATE, _PRIVATE, dir_fd=directory)

    def make_directory(self, directory: int, name: str) -> None:
        """Make a directory that only its owner may enter."""
        with _placed(directory):
            self.call("mkdir", os.mkdir, name, _PRIVATE_DIRECTORY, dir_fd=directory)

    def rename(self, directory: int, old: str, new: str) -> None:
        """Give a file another name in its directory, in the place of what has that name."""
        with _placed(directory):
            self.call("rename", os.rename, old, new, src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, directory: int, name: str) -> None:
        """Remove a file."""
        with _placed(directory):
            self.call("unlink", os.unlink, name, dir_fd=directory)

    def remove_directory(self, directory: int, name: str) -> None:
        """Remove an empty directory."""
        with _placed(directory):
            self.call("rmdir", os.rmdir, name, dir_fd=directory)

    # --- content --------------------------------------------------------------------------------------------
    def open_to_change(self, directory: int, name: str) -> int:
        """Open a file that is there for reading and writing; opening alone changes nothing."""
        with _placed(directory):
            return self.call("open", os.open, name, _CHANGE, dir_fd=directory)

    def write(self, fd: int, data: bytes | memoryview, position: int) -> None:
        """Write all of the data at a position; a call that writes less is made again for the rest."""
        view = memoryview(data)
        while view:
            done = self._again("pwrite", os.pwrite, fd, view[:_PIECE], position)
            if done <= 0:
                raise OSError(errno.EIO, "nothing could be written")
            view, position = view[done:], position + done

    def cut(self, fd: int, size: int) -> None:
        """Shorten a file."""
        self._again("ftruncate", os.ftruncate, fd, size)

    def sync(self, fd: int) -> None:
        """Wait until a file or a directory is on the disk. Once this has failed, the state of the disk is unknown."""
        self._again("fsync", os.fsync, fd)

    # --- owner, rights, attributes, times -------------------------------------------------------------------
    def own(self, fd: int, uid: int, gid: int) -> None:
        """Give a file to an owner and a group."""
        self._again("fchown", os.fchown, fd, uid, gid)

    def permit(self, fd: int, mode: int) -> None:
        """Set the rights of a file."""
        self._again("fchmod", os.fchmod, fd, mode)

    def attribute(self, fd: int, name: str, value: bytes) -> None:
        """Set an extended attribute; access control lists and labels are some."""
        self._again("fsetxattr", os.setxattr, fd, name, value)

    def date(self, fd: int, accessed: int, modified: int) -> None:
        """Set the times of a file, ns since the epoch."""
        self._again("utimensat", os.utime, fd, ns=(accessed, modified))


@contextmanager
def _placed(directory: int) -> Iterator[None]:
    """Let an error name the whole path: the name alone does not say in which of the two directories it is."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, str):
            with suppress(OSError):
                error.filename = os.path.join(Path(f"/proc/self/fd/{directory}").readlink(), error.filename)
        raise
