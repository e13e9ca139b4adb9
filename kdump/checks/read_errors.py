"""Map open and read errors of a listed file to V01, V02 or OpenFailure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.item import CheckedFile
from kdump.storage.file_source import FileShrankError, OpenFailure, ReadFailedError
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.finding import Report
    from kdump.format.kinds import FileKind
    from kdump.format.source import Source


def not_opened(problem: OpenFailure) -> Finding | OpenFailure:
    """Return what a file is that cannot be opened: gone, or closed to the user.

    Reports: V02.
    """
    return Finding(Code.V02, problem.path) if problem.missing else problem


def broken_off(error: OSError, path: str, size: int) -> Finding | OpenFailure:
    """Return why a file was not read to its end: it has become shorter, or the disk cannot read it.

    Args:
        error: what reading has raised.
        path: of the file.
        size: of the file when it was opened, bytes.

    Reports: F06, V01.
    """
    if isinstance(error, FileShrankError):
        return Finding(Code.V01, path, error.position, max(0, size - error.position))
    if isinstance(error, ReadFailedError):
        why = f"{error.strerror}; nothing behind them was looked at"
        return Finding(Code.F06, path, error.position, error.length, values={"why": why})
    return OpenFailure(path, "read", f"{path}: cannot be read further: {error.strerror}")


def report_not_told(source: Source, told: Iterable[tuple[int, int]], report: Report) -> None:
    """Report what the disk could not read where the walk has not told it: zeros stood there, and a CRC is right.

    Args:
        source: the log, read to its end.
        told: start and end of the ranges that were told.
        report: takes the findings.

    Reports: F06.
    """
    at = 0
    for start, end in [*sorted(told), (source.size, source.size)]:
        for first, stop, why in source.unreadable(at, start) if start > at else ():
            report(Finding(Code.F06, source.name, first, stop - first, values={"why": why}))
        at = max(at, end)


def judged(
    path: str, kind: FileKind, judge: Callable[[Source, Report], None]
) -> Iterator[Finding | OpenFailure | CheckedFile]:
    """Yield what is wrong with a small file, and the file.

    Args:
        path: of the file.
        kind: which file it is.
        judge: is given the open file, and what takes its findings.

    Reports: F06, V01, V02, and what `judge` does.
    """
    source = open_source(path)
    if isinstance(source, OpenFailure):
        yield not_opened(source)
        return
    found: list[Finding | OpenFailure] = []
    with source:
        try:
            judge(source, found.append)
        except OSError as error:
            found.append(broken_off(error, path, source.size))
    yield from found
    yield CheckedFile(path, kind, source.size)
