"""`dump` as kdump does it: every file and every true batch, and what is wrong as findings.

Here: which files there are, whether they can be opened, and who reads them. What the readers of one kind need is
imported when a file of that kind comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dump.input_file import InputFile, identify, input_files
from kdump.item import FileStart
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import FileKind, java_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.source import Source
    from kdump.item import Item

_NEED_BASE = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


class CheckedDump:
    """Dumps files as kdump does.

    Args:
        options: what was asked for.
        logs_only: other files in directories are passed over, and named ones are a OpenFailure.
    """

    def __init__(self, options: DumpOptions, *, logs_only: bool = False) -> None:
        self._options = options
        self._logs_only = logs_only

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all files, in order; what cannot be read is an OpenFailure among them.

        Args:
            paths: files and directories, as the user wrote them.

        Reports: as findings among the items, all codes that one file and the names beside it show.
        """
        for file in input_files(paths):
            if isinstance(file, OpenFailure):
                yield file
            elif not self._passes_over(file):
                yield from self.file(file)

    def _passes_over(self, unknown: InputFile) -> bool:
        if not self._logs_only or unknown.follow:
            return False
        file = identify(unknown, self._options)
        return isinstance(file, InputFile) and not file.is_log

    def file(self, file: InputFile) -> Iterator[Item]:
        """Yield the items of one file, whatever happens to it.

        Args:
            file: it.
        """
        source = file.open()
        if isinstance(source, OpenFailure):
            yield source
            return
        try:
            yield from self._file(file, source)
        except OSError as error:
            yield OpenFailure(file.path, "read", f"{file.path}: cannot be read further: {error.strerror}")

    def _file(self, unknown: InputFile, source: Source) -> Iterator[Item]:
        file = identify(unknown, self._options)
        if isinstance(file, OpenFailure):
            yield file
            return
        if self._logs_only and not file.is_log:
            yield OpenFailure(file.path, "other", f"{file.path}: not a log: only logs have batches and records")
            return
        yield FileStart(java_file(file.path), file.kind, file.base, source.size)
        if file.is_log:
            from kdump.dump.checked_log import dump_log

            yield from dump_log(file, source, self._options)
        else:
            from kdump.dump.other_files import dump_state

            yield from dump_state(file, source, self._options)
