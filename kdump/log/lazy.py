"""Files that are opened when they are read, and closed again when many are open: a partition can have thousands."""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from kdump.log.names import has_meaning
from kdump.log.source import FileSource

if TYPE_CHECKING:
    from typing import Self

_MOST_OPEN = 64


class Shelf:
    """Files of one directory that are open at a time, the latest used up to a bound."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, FileSource] = OrderedDict()

    def get(self, path: str) -> FileSource:
        """Return an open file.

        Raises:
            OSError: it cannot be opened.
        """
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = FileSource(path)
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(path)
        return file

    def close(self) -> None:
        """Close all of them."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LazySource:
    """A Source over a file that is opened when it is read.

    Args:
        path: of a regular file.
        size: bytes, when its directory was listed.
        modified: ms since the epoch, at that time.
        shelf: where it is open.
    """

    def __init__(self, path: str, size: int, modified: int, shelf: Shelf) -> None:
        self.name = path
        self.size = size
        self.modified = modified
        self._shelf = shelf

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

    def _file(self) -> FileSource:
        file = self._shelf.get(self.name)
        if file.size < self.size:  # a walk would wait for the rest for ever
            raise OSError(errno.EIO, "it has become shorter meanwhile", self.name)
        return file


def lazy_files(directory: str, shelf: Shelf) -> dict[str, LazySource]:
    """Return the regular files of a directory whose names mean something, by name; links to such files too.

    Raises:
        OSError: the directory cannot be listed.
    """
    found = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if has_meaning(entry.name) and entry.is_file():
                status = entry.stat()
                path = os.path.join(directory, entry.name)
                found[entry.name] = LazySource(path, status.st_size, status.st_mtime_ns // 1_000_000, shelf)
    return found
