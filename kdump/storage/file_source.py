"""Files as sources: opened read-only, never waited for, with a size fixed at open."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, ClassVar, Protocol

from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NO_ATIME = getattr(os, "O_NOATIME", 0)  # Linux; allowed to the owner of a file only
BLOCK = 4096  # bytes that a disk reads or does not
_MOST_FAILED = 16  # blocks that are tried after an error: each may take seconds
_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class OpenFailure(Value):
    """The reason why a file is not read."""

    path: str  # as the user wrote it
    # "missing", "directory", "special", "symlink", "permission" or "other"; "read" where it was opened and not read to
    # its end, "limit" where a limit of the user keeps something back, "skipped" where that is meant so
    kind: str
    sentence: str  # one line for the user, without the name of the program; the path in it is not escaped

    @property
    def missing(self) -> bool:
        """Whether there is nothing under this path."""
        return self.kind == "missing"

    @property
    def is_of_opening(self) -> bool:
        """Whether nothing at all is known of the file, and that was not meant so."""
        return self.kind not in ("read", "limit", "skipped")


class NotRegularError(OSError):
    """The path leads to neither a regular file nor a directory; `what` says to what."""

    def __init__(self, mode: int, path: str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", path)
        self.what = next((what for is_such, what in _SPECIAL if is_such(mode)), "not a regular file")


class FileShrankError(OSError):
    """The file lost bytes after it was opened: retention, compaction or a truncation at work."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(errno.ESTALE, f"the file shrank while it was read: nothing at byte {position}", path)
        self._path = path
        self.position = position

    def __reduce__(self) -> tuple[type[FileShrankError], tuple[str, int]]:
        """Go to another process."""
        return type(self), (self._path, self.position)


class ReadFailedError(OSError):
    """The disk cannot read some bytes; `position` and `length` tell which, in blocks where that was tried."""

    def __init__(self, error: OSError, path: str, position: int, length: int) -> None:
        super().__init__(error.errno, error.strerror, path)
        self.position = position
        self.length = length


class ReadPolicy(Protocol):
    """How files are read where others work: see `guest`."""

    def opened(self, file: int, /) -> None:
        """Take note of a file that was opened."""

    def pieces(self, file: int, path: str, position: int, length: int, /) -> Iterator[tuple[int, int]]:
        """Yield what to read next, position and length, when it is its turn; the piece before it is read then."""


class CannotKeepCacheError(Exception):
    """The system does not tell what of a file is in the page cache; the sentence says so, and what to do."""

    @classmethod
    def of(cls, path: str) -> CannotKeepCacheError:
        """Return that of a file."""
        why = "nothing here tells what of it is in the page cache"
        need = "--drop-cache needs cachestat (Linux 6.5), or files that you own or may write"
        return cls(f"{path}: {why}: {need}; run as their owner, or without --drop-cache")


class FileSource:
    """A Source over a regular file.

    Nothing but a regular file is ever opened: opening a FIFO or a device can wait, or change it.

    Args:
        path: the file.
        name: what messages call it; the path when None.
        follow: whether a symbolic link is followed: yes for a path of the user, no inside a walk.
        devices: take a block device too; only where the user has named it as one.

    Attributes:
        size: bytes, when it was opened.

    Raises:
        OSError: it cannot be opened; IsADirectoryError and NotRegularError among others.
    """

    is_near: ClassVar[bool] = True  # on this machine: a walk through the whole costs no transfer
    policy: ClassVar[ReadPolicy | None] = None  # how all files are read: see `guest`

    def __init__(self, path: str, name: str | None = None, *, follow: bool = True, devices: bool = False) -> None:
        self.name = path if name is None else name
        self._fd = -1
        # as the user wrote it: a Path would make "." of an empty name
        _demand_regular(os.stat(path, follow_symlinks=follow).st_mode, path, devices=devices)
        self._fd = _open(path, _FLAGS if follow else _FLAGS | os.O_NOFOLLOW)
        try:
            status = os.fstat(self._fd)
            _demand_regular(status.st_mode, path, devices=devices)  # another file may have come in between
            self.size = os.lseek(self._fd, 0, os.SEEK_END) if stat.S_ISBLK(status.st_mode) else status.st_size
        except BaseException:
            self.close()
            raise
        self.status = status  # what the system knows of it, when it was opened
        self.modified = status.st_mtime_ns // 1_000_000  # ms since the epoch, when it was opened
        if self.policy is not None:
            self.policy.opened(self._fd)

    @property
    def is_growing(self) -> bool:
        """Whether a broker may be appending to it; asked for only where the end is not whole."""
        from kdump.storage.held import is_growing

        return is_growing(self.name)

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end.

        Raises:
            OSError: the disk cannot read them, it names the file; FileShrankError where they are gone.
        """
        wanted = max(0, min(length, self.size - position))
        if self.policy is None:
            try:
                data = os.pread(self._fd, wanted, position)
            except OSError as error:
                raise self._failed(error, position, wanted) from None
            if len(data) == wanted:
                return data
        target = bytearray(wanted)  # a short read: again, piece by piece
        self.read_into(position, memoryview(target))
        return bytes(target)

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were.

        Raises:
            OSError: the disk cannot read them, it names the file; FileShrankError where they are gone.
        """
        wanted = max(0, min(len(target), self.size - position))
        if self.policy is None:
            return self._fill(position, target, wanted)
        for at, size in self.policy.pieces(self._fd, self.name, position, wanted):
            self._fill(at, target[at - position :], size)
        return wanted

    def _fill(self, position: int, target: memoryview, wanted: int) -> int:
        done = 0
        while done < wanted:
            try:
                got = os.preadv(self._fd, [target[done:wanted]], position + done)
            except OSError as error:
                raise self._failed(error, position + done, wanted - done) from None
            if not got:
                raise FileShrankError(self.name, position + done)
            done += got
        return done

    def _failed(self, error: OSError, position: int, length: int) -> OSError:
        """The same error with the name of the file and the blocks that cannot be read: the system tells neither."""
        end, first, failed = position + length, None, 0
        at = position
        while at < end and failed < _MOST_FAILED:
            if self._can_read(at, end):
                if first is not None:
                    return ReadFailedError(error, self.name, first, at - first)
            else:
                first = at if first is None else first
                failed += 1
            at += BLOCK - at % BLOCK
        if first is None:
            return ReadFailedError(error, self.name, position, length)
        return ReadFailedError(error, self.name, first, self._readable_again(at, end) - first)

    def _can_read(self, at: int, end: int) -> bool:
        """Whether the disk reads a block."""
        try:
            os.pread(self._fd, min(BLOCK - at % BLOCK, end - at), at)
        except OSError:
            return False
        return True

    def _readable_again(self, at: int, end: int) -> int:
        """Where a long stretch of failing blocks ends, found by halves; `end` where its last block fails too."""
        if at >= end or not self._can_read((end - 1) - (end - 1) % BLOCK, end):
            return end
        low, high = at // BLOCK - 1, (end - 1) // BLOCK  # the first cannot be read, the second can
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._can_read(middle * BLOCK, end) else (middle, high)
        return high * BLOCK

    def next_data(self, position: int) -> int:
        """Return the first position from `position` on that is not in a hole, the size when there is none."""
        if position >= self.size:
            return self.size
        try:
            return min(os.lseek(self._fd, position, os.SEEK_DATA), self.size)
        except OSError as error:
            # ENXIO is a hole to the end, unless the end has moved; others mean that holes are not told
            is_hole = error.errno == errno.ENXIO and os.fstat(self._fd).st_size >= self.size
            return self.size if is_hole else position

    @property
    def was_written(self) -> bool:
        """Whether somebody has written to the file, or cut it, since it was opened."""
        now = os.fstat(self._fd)
        return (now.st_size, now.st_mtime_ns) != (self.status.st_size, self.status.st_mtime_ns)

    def unreadable(self, _start: int, _end: int) -> tuple[()]:
        """Return none: what cannot be read is an error here."""
        return ()

    def fileno(self) -> int:
        """Return the descriptor, for a kernel that sends bytes of the file itself; below 0 where there is none."""
        return self._fd

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class UpTo:
    """A source up to a position: what lies behind it is not there yet.

    Args:
        source: the file.
        size: bytes of it.
    """

    def __init__(self, source: FileSource, size: int) -> None:
        self._source = source
        self.name, self.size = source.name, size
        self.is_near = source.is_near

    @property
    def is_growing(self) -> bool:
        """As of the file."""
        return self._source.is_growing

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        return self._source.read_at(position, max(0, min(length, self.size - position)))

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        return self._source.read_into(position, target[: max(0, min(len(target), self.size - position))])

    def next_data(self, position: int) -> int:
        """Return the first position from `position` on that is not in a hole."""
        return min(self.size, self._source.next_data(position))

    def unreadable(self, start: int, end: int) -> tuple[()]:
        """Return none: what cannot be read is an error here."""
        return self._source.unreadable(start, end)


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | _NO_ATIME)
    except PermissionError:
        return os.open(path, flags)


def _demand_regular(mode: int, path: str, *, devices: bool) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode) and not (devices and stat.S_ISBLK(mode)):
        raise NotRegularError(mode, path)


def first_line(error: OSError) -> str:
    """Return why something failed, in one line: stores say it in many."""
    lines = str(error.strerror or error).splitlines()
    return lines[0] if lines else type(error).__name__
