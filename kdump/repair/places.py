"""The directories of a repair: the one that its journal names, and those right in it, each opened without a link."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from kdump.repair.errors import RefusedError
from kdump.repair.file_state import state_of, state_of_open
from kdump.storage.own_files import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.repair.file_state import FileState

_MOST_OPEN = 32


class Places:
    """Finds the files of a repair by their paths: NAME in its directory, or DIRECTORY/NAME in one right below that.

    Args:
        root: descriptor of the directory; it stays open.
        path: of it, for messages.
    """

    def __init__(self, root: int, path: str) -> None:
        self._root = root
        self._path = path
        self._open: OrderedDict[str, int] = OrderedDict()
        self._known: dict[str, tuple[int, int]] = {}  # which directory a name stood for when it was opened first

    def of(self, path: str) -> tuple[int, str]:
        """Return the descriptor of the directory of a file, and the name in it.

        Args:
            path: of the file, below the directory of the repair.

        Raises:
            RefusedError: there is no such directory, a link has its name, or it is another one by now.
        """
        directory, name = os.path.split(path)
        return (self._directory(directory) if directory else self._root), name

    def state(self, path: str) -> FileState | None:
        """Return what a path stands for, None when nothing has it."""
        return state_of(*self.of(path))

    def _directory(self, name: str) -> int:
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        try:
            fd = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=self._root)
        except OSError as error:
            where = os.path.join(self._path, name)
            raise RefusedError(f"{where}: cannot be opened as a directory: {error.strerror}") from None
        state = state_of_open(fd)
        which = state.device, state.inode
        if self._known.setdefault(name, which) != which:
            os.close(fd)
            raise RefusedError(f"{os.path.join(self._path, name)}: is another directory by now; look again")
        self._open[name] = fd
        if len(self._open) > _MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        return fd

    def close(self) -> None:
        """Close all directories but the first."""
        while self._open:
            os.close(self._open.popitem()[1])


def directories_of(root: str, paths: Iterable[str]) -> list[str]:
    """Return the directories in which some files of a repair lie, each once.

    Args:
        root: path of the directory of the repair.
        paths: of the files, below it.
    """
    inner = dict.fromkeys(os.path.dirname(path) for path in paths)
    return [os.path.join(root, one) if one else root for one in inner]
