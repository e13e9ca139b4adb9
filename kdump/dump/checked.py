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
    """

    def __init__(self, options: DumpOptions) -> None:
        self._options = options
        self._edges = Edges()

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all files, in order; what cannot be read is a DoorProblem among them.

        Args:
            paths: files and directories, as the user wrote them.

        Reports: as findings among the items, all codes that one file and the names beside it show.
        """
        for path in paths:
            if not os.path.isdir(path):
                yield from self._one(path, follow=True)
                continue
            from kdump.log.directory import expand

            found = expand(path)
            for file in found.files:
                yield from self._one(file, follow=False)
            for skipped in found.skipped:
                out_of_reach = skipped.reason.startswith(("cannot", "not a regular"))
                kind = "read" if out_of_reach else "skipped"
                yield DoorProblem(skipped.path, kind, f"{skipped.path}: not read: {skipped.reason}")
            if found.leftovers:
                first = os.path.basename(found.leftovers[0])
                count = f"{len(found.leftovers)} files that no broker reads are not shown ({first} ...)"
                yield DoorProblem(path, "skipped", f"{path}: {count}: name them to see them")

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
        name = parse_name(os.path.basename(path))
        kind = FileKind(self._options.kind) if self._options.kind else name.kind
        base = self._base_offset(path, name)
        if kind is FileKind.UNKNOWN:
            yield DoorProblem(path, "type", f"{path}: the name does not tell what this is; say it with --type KIND")
            return
        if base is None and kind in _NEED_BASE:
            yield DoorProblem(path, "base", f"{path}: no base offset in the name; say it with --base-offset N")
            return
        yield FileStart(java_file(path), kind, base, source.size)
        if kind in (FileKind.LOG, FileKind.CHECKPOINT):
            from kdump.dump.checkedlog import dump_log

            yield from dump_log(path, source, self._options, base if kind is FileKind.LOG else None, name, self._edges)
        else:
            from kdump.dump.state import dump_state

            yield from dump_state(kind, path, source, self._options, base or 0)

    def _base_offset(self, path: str, name: FileName) -> int | None:
        """What the user says, or the name as brokers write it, or the name as Kafka's tool takes it."""
        if self._options.base_offset is not None:
            return self._options.base_offset
        if name.base_offset is not None or name.kind not in _NEED_BASE:
            return name.base_offset
        return java_name(path).base_offset
