"""The directory that carve writes to: new, or left by a run that was killed; never where a broker looks."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kdump.storage.fsops import FileOps
from kdump.storage.names import run_base
from kdump.storage.outputs import refuse_inside_sources
from kdump.storage.own_files import DIRECTORY, demand_leftovers, demand_own_place, make_own_place
from kdump.storage.refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

_TEMPORARY = ".kdump-"
_MARK = f"{_TEMPORARY}carving"  # there while a run is at work, and after one that was killed


class CarveOutput:
    """Files without their names until they are whole; a context manager.

    Args:
        path: of the directory, as the user wrote it; its parent must be there.
        inputs: that are read: it may lie in none.
        ops: makes the calls.

    Raises:
        RefusedError: something else lies in it, or somebody else has made it; it lies in what is read, or a broker
            would find it.
        OSError: it cannot be written to.
    """

    def __init__(self, path: str, inputs: Sequence[str] = (), ops: FileOps | None = None) -> None:
        self._ops = ops or FileOps()
        refuse_inside_sources(path, inputs, "--to")
        self._fd, names = self._opened(path)
        for name in sorted(names, key=lambda one: one == _MARK):  # the mark last: it says what the rest is
            self._ops.remove(self._fd, name)
        os.close(self._ops.create(self._fd, _MARK))
        self._ops.sync(self._fd)
        self._sizes: dict[str, int] = {}
        self._has_runs = False

    def _opened(self, path: str) -> tuple[int, list[str]]:
        """Open the directory, and make it where it is not there; return the names that may be removed in it.

        It is listed once: what appears later was judged by nobody, and stays.
        """
        if not os.path.lexists(path):
            if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
                raise RefusedError(f"{path}: the directory to make it in does not exist")
            return make_own_place(path, self._ops, is_new=True), []
        if not os.path.isdir(path):
            raise RefusedError(f"{path}: is a file; name a new directory for --to")
        directory = os.open(path, DIRECTORY)
        try:
            names = os.listdir(directory)
            others = sorted(name for name in names if not _is_left(name, was_killed=_MARK in names))
            if others:
                raise RefusedError(f"{path}: holds {others[0]}; name a new directory for --to")
            demand_own_place(path, directory)
            demand_leftovers(directory, path, names)
        except BaseException:
            os.close(directory)
            raise
        return directory, names

    @contextmanager
    def appending(self, name: str) -> Iterator[Callable[[bytes], None]]:
        """Give a function that appends to a file without its name; it is made when it does not exist.

        Args:
            name: what the caller calls it.
        """
        file = _TEMPORARY + name
        size = self._sizes.get(name)
        fd = self._ops.create(self._fd, file) if size is None else self._ops.open_to_change(self._fd, file)
        self._sizes.setdefault(name, 0)

        def append(data: bytes) -> None:
            self._ops.write(fd, data, self._sizes[name])
            self._sizes[name] += len(data)

        try:
            yield append
        finally:
            os.close(fd)

    def rename(self, name: str, final: str) -> None:
        """Give a file its name, once it is on the disk."""
        fd = self._ops.open_to_change(self._fd, _TEMPORARY + name)
        try:
            self._ops.sync(fd)
        finally:
            os.close(fd)
        self._ops.rename(self._fd, _TEMPORARY + name, final)
        self._has_runs = True
        del self._sizes[name]

    def remove(self, name: str) -> None:
        """Remove a file that gets no name."""
        self._ops.remove(self._fd, _TEMPORARY + name)
        del self._sizes[name]

    def write(self, final: str, data: bytes) -> None:
        """Write a whole small file, the last one."""
        with self.appending(final) as append:
            append(data)
        self._ops.sync(self._fd)
        self.rename(final, final)
        self._ops.sync(self._fd)
        self._ops.remove(self._fd, _MARK)
        self._has_runs = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._sizes):
            with suppress(OSError):
                self.remove(name)
        if not self._has_runs:
            with suppress(OSError):
                self._ops.remove(self._fd, _MARK)
        os.close(self._fd)


def _is_left(name: str, *, was_killed: bool) -> bool:
    """Whether a file is what a killed run of carve has left: all is somebody's, unless one was killed there."""
    is_run = run_base(name) is not None or name == "carve.jsonl"
    return was_killed and (name.startswith(_TEMPORARY) or is_run)
