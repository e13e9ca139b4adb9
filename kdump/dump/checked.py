"""`dump` as kdump does it: every file and every true batch, and what is wrong as findings.

Here: which files there are, whether they can be opened, and who reads them. What the readers of one kind need is
imported when a file of that kind comes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.item import FileStart
from kdump.log.edges import Edges
from kdump.log.names import FileKind, java_file, java_name, parse_name
from kdump.log.source import DoorProblem, open_source
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.dump.options import DumpOptions
    from kdump.format.source import Source
    from kdump.item import Item
    from kdump.log.names import FileName

_NEED_BASE = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


class CheckedDump:
    """Dumps files as kdump does.

    Args:
        options: what was asked for.
        logs_only: other files in directories are passed over, and named ones are a DoorProblem.
    """

    def __init__(self, options: DumpOptions, *, logs_only: bool = False) -> None:
        self._options = options
        self._logs_only = logs_only
        self._edges = Edges()

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all files, in order; what cannot be read is a DoorProblem among them.

        Args:
            paths: files and directories, as the user wrote them.

        Reports: as findings among the items, all codes that one file and the names beside it show.
        """
        for place in places(paths):
            if isinstance(place, DoorProblem):
                yield place
            elif not self._passes_over(place):
                yield from self._one(place.path, follow=place.follow)

    def _passes_over(self, place: Place) -> bool:
        if not self._logs_only or place.follow:
            return False
        file = identify(place.path, self._options)
        return isinstance(file, Identity) and not file.is_log

    def _one(self, path: str, *, follow: bool) -> Iterator[Item]:
        """One file, whatever happens to it."""
        source = open_source(path, follow=follow)
        if isinstance(source, DoorProblem):
            yield source
            return
        with source:
            try:
                yield from self._file(path, source)
            except OSError as error:
                yield DoorProblem(path, "read", f"{path}: cannot be read further: {error.strerror}")

    def _file(self, path: str, source: Source) -> Iterator[Item]:
        file = identify(path, self._options)
        if isinstance(file, DoorProblem):
            yield file
            return
        if self._logs_only and not file.is_log:
            yield DoorProblem(path, "other", f"{path}: not a log: only logs have batches and records")
            return
        yield FileStart(java_file(path), file.kind, file.base, source.size)
        if file.is_log:
            from kdump.dump.checkedlog import dump_log

            yield from dump_log(path, source, self._options, file.log_base, file.name, self._edges)
        else:
            from kdump.dump.state import dump_state

            yield from dump_state(file.kind, path, source, self._options, file.base or 0)


class Place(Value):
    """A file to look at: its path, and whether a symbolic link is followed, as it is where the user names it."""

    path: str
    follow: bool


def places(paths: list[str]) -> Iterator[Place | DoorProblem]:
    """Yield the files that paths stand for, in order, and what is left out of directories.

    Args:
        paths: files and directories, as the user wrote them.
    """
    for path in paths:
        if not os.path.isdir(path):
            yield Place(path, follow=True)
            continue
        from kdump.log.directory import expand

        found = expand(path)
        for file in found.files:
            yield Place(file, follow=False)
        for skipped in found.skipped:
            out_of_reach = skipped.reason.startswith(("cannot", "not a regular"))
            kind = "read" if out_of_reach else "skipped"
            yield DoorProblem(skipped.path, kind, f"{skipped.path}: not read: {skipped.reason}")
        if found.leftovers:
            first = os.path.basename(found.leftovers[0])
            count = f"{len(found.leftovers)} files that no broker reads are not shown ({first} ...)"
            yield DoorProblem(path, "skipped", f"{path}: {count}: name them to see them")


class Identity(Value):
    """What a file is: its kind, its base offset where it has one, and what its name tells."""

    kind: FileKind
    base: int | None
    name: FileName

    @property
    def is_log(self) -> bool:
        """Whether batches are in it."""
        return self.kind in (FileKind.LOG, FileKind.CHECKPOINT)

    @property
    def log_base(self) -> int | None:
        """The base offset of a log; None for a KRaft snapshot."""
        return self.base if self.kind is FileKind.LOG else None


def identify(path: str, options: DumpOptions) -> Identity | DoorProblem:
    """Return what a file is, by what the user says, else by its name.

    Args:
        path: as the user wrote it.
        options: what was asked for.
    """
    name = parse_name(os.path.basename(path))
    kind = FileKind(options.kind) if options.kind else name.kind
    base = _base_offset(path, name, options)
    if kind is FileKind.UNKNOWN:
        return DoorProblem(path, "type", f"{path}: the name does not tell what this is; say it with --type KIND")
    if base is None and kind in _NEED_BASE:
        return DoorProblem(path, "base", f"{path}: no base offset in the name; say it with --base-offset N")
    return Identity(kind, base, name)


def _base_offset(path: str, name: FileName, options: DumpOptions) -> int | None:
    """What the user says, or the name as brokers write it, or the name as Kafka's tool takes it."""
    if options.base_offset is not None:
        return options.base_offset
    if name.base_offset is not None or name.kind not in _NEED_BASE:
        return name.base_offset
    return java_name(path).base_offset
