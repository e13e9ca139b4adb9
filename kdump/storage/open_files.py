"""The only place where files are opened, with a bound on how many are open at a time."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from kdump.storage.file_source import FileSource, NotRegularError, OpenFailure, first_line
from kdump.storage.paths import did_you_mean, is_remote, why_not

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from kdump.storage.directory import DirectoryListing

_MOST_OPEN = 384  # three files of 128 segments
_MOST_HELD = 32 * 1024 * 1024  # bytes of small files


STREAMS: dict[str, Callable[[], FileSource | OpenFailure]] = {}
"""What opens the streams that a user named and that were read already: see `streams`."""


def open_source(path: str, *, follow: bool = True, devices: bool = False) -> FileSource | OpenFailure:
    """Open a file, or say in one line why not; neither waits nor raises.

    Args:
        path: as the user wrote it.
        follow: whether a symbolic link is followed: yes for a path of the user, no inside a walk.
        devices: take a block device too; only where the user has named it as one.
    """
    if path in STREAMS:
        return STREAMS[path]()
    try:
        return _source(path, follow=follow, devices=devices)
    except ValueError:  # a NUL, or a character that no file name can have
        return OpenFailure(path, "missing", f"no such file: {path}")
    except OSError as error:
        return _problem(path, error, follow=follow)


def _source(path: str, *, follow: bool, devices: bool = False) -> FileSource:
    if is_remote(path):
        from kdump.storage.object_store import RemoteSource

        return RemoteSource(path)
    return FileSource(path, follow=follow, devices=devices)


def _problem(path: str, error: OSError, *, follow: bool) -> OpenFailure:
    if is_remote(path) and not isinstance(error, FileNotFoundError | IsADirectoryError):
        if isinstance(error, PermissionError):
            return OpenFailure(path, "permission", f"{path}: {why_not(path, error)}")
        return OpenFailure(path, "other", f"{path}: cannot be opened: {first_line(error)}")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        sentence = f"no such file: {path}{did_you_mean(path)}"
        if os.path.islink(path):
            sentence = f"{path}: is a symbolic link to a file that is not there"
        return OpenFailure(path, "missing", sentence)
    if isinstance(error, IsADirectoryError):
        return OpenFailure(path, "directory", f"{path}: is a directory, and a file is meant here")
    if isinstance(error, NotRegularError) and not follow and os.path.islink(path):
        return OpenFailure(path, "symlink", f"{path}: is a symbolic link; none is followed inside a directory")
    if isinstance(error, NotRegularError):
        return OpenFailure(path, "special", f"{path}: is {error.what}; only regular files are read")
    if isinstance(error, PermissionError):
        return OpenFailure(path, "permission", f"{path}: {why_not(path, error)}")
    return OpenFailure(path, "other", f"{path}: cannot be opened: {error.strerror}")


class OpenFileCache:
    """The files of a run that are open, the latest used up to a bound: a partition can have thousands."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[FileSource, bool]] = {}  # and whether a symbolic link leads to it
        self.held = 0  # bytes of small files that are kept in memory so far
        self._listed: dict[str, DirectoryListing] = {}  # directories of a store: it is not asked for what they lack

    def know(self, listing: DirectoryListing) -> None:
        """Take what a store has listed.

        Args:
            listing: of a directory; what lies on this machine is asked for each time.
        """
        if is_remote(listing.path) and listing.error is None:
            self._listed[listing.path] = listing

    def absent(self, path: str) -> OpenFailure | None:
        """Return why there is no file, as far as that is known without asking; None where it may be there."""
        if not self._listed:
            return None
        folder, _, name = path.rpartition("/")
        listing = self._listed.get(folder)
        if listing is None or listing.has(name):
            return None
        return _problem(path, FileNotFoundError(path), follow=False)

    def open(self, path: str, *, follow: bool = True) -> CachedFile | OpenFailure:
        """Open a file, or say in one line why not; one that is open already is not opened again.

        Args:
            path: as the user wrote it.
            follow: whether a symbolic link is followed.
        """
        missing = self.absent(path)
        if missing is not None:
            return missing
        known = self._open.get(path)
        if known is None or (known[1] and not follow):
            opened = open_source(path, follow=False)
            is_link = isinstance(opened, OpenFailure) and opened.kind == "symlink"
            if is_link and follow:
                opened = open_source(path)
            if isinstance(opened, OpenFailure):
                return opened
            known = self._keep(path, opened, is_link=is_link)
        return CachedFile(path, known[0].size, known[0].modified, self, follow=follow)

    def get(self, path: str, *, follow: bool) -> FileSource:
        """Return the open file of a path, opened again where it was closed.

        Raises:
            OSError: it cannot be opened.
        """
        known = self._open.get(path)
        if known is None:
            known = self._keep(path, self._again(path, follow=follow), is_link=follow)
        elif len(self._open) > _MOST_OPEN // 2:  # the oldest is closed first: this one is the latest again
            self._open[path] = self._open.pop(path)
        return known[0]

    @staticmethod
    def _again(path: str, *, follow: bool) -> FileSource:
        stream = STREAMS[path]() if path in STREAMS else None
        return stream if isinstance(stream, FileSource) else _source(path, follow=follow)

    def _keep(self, path: str, file: FileSource, *, is_link: bool) -> tuple[FileSource, bool]:
        if path in self._open:
            self.close_file(path)
        found = self._open[path] = file, is_link
        if len(self._open) > _MOST_OPEN:
            self.close_file(next(iter(self._open)))
        return found

    def may_hold(self, size: int) -> bool:
        """Tell whether a small file of this size (bytes) is to be kept in memory, and count it."""
        if self.held + size > _MOST_HELD:
            return False
        self.held += size
        return True

    def close_file(self, path: str) -> None:
        """Close one file, if it is open; it is opened again when it is read.

        It is let go, not closed: the collector of garbage may end an abandoned walk, which closes its file, while
        another one reads from it. So the last one who holds it closes it.
        """
        self._open.pop(path, None)

    def close(self) -> None:
        """Close all of them, as `close_file` does."""
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class CachedFile:
    """A Source over a file of an `OpenFileCache`, which may close it, and opens it again when it is read.

    Args:
        path: of a regular file.
        size: bytes, when it was opened first or its directory was listed; more is never read.
        modified: ms since the epoch, at that time.
        cache: where it is open.
        follow: whether a symbolic link is followed.
    """

    def __init__(self, path: str, size: int, modified: int, cache: OpenFileCache, *, follow: bool = True) -> None:
        self.name = path
        self.size = size
        self.modified = modified
        self._cache = cache
        self._follow = follow

    @property
    def is_growing(self) -> bool:
        """Whether a broker may be appending to it."""
        return self._file().is_growing

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end.

        Raises:
            OSError: the file cannot be opened or read.
        """
        return self._file().read_at(position, max(0, min(length, self.size - position)))

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were.

        Raises:
            OSError: the file cannot be opened or read.
        """
        return self._file().read_into(position, target[: max(0, self.size - position)])

    def next_data(self, position: int) -> int:
        """Return the first position from `position` on that is not in a hole, the size when there is none."""
        return min(self._file().next_data(position), self.size)

    def unreadable(self, _start: int, _end: int) -> tuple[()]:
        """Return none: what cannot be read is an error here."""
        return ()

    def close(self) -> None:
        """Close the file until it is read again."""
        self._cache.close_file(self.name)

    def _file(self) -> FileSource:
        file = self._cache.get(self.name, follow=self._follow)
        if file.size < self.size:  # a walk would wait for the rest for ever
            raise OSError(errno.EIO, "it has become shorter meanwhile", self.name)
        return file
