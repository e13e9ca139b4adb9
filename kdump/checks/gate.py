"""The gate before a start (`verify --fail-on loss`): what a start takes away, from no more than what that start reads.

A clean start reads the small files of a partition, and of its last log what lies behind the last entry of the offset
index. Of all else nothing is said here: it is handed out as not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.checks.predict import of_brokers, predict
from kdump.item import StartForeseen, Unchecked
from kdump.rows.verdict import Prediction
from kdump.storage.directory import expanded, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import introduce
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import exists
from kdump.words.numbers import counted, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.checks.options import VerifyOptions
    from kdump.checks.predict import Foretold
    from kdump.item import Item


def foresee(paths: Sequence[str], options: VerifyOptions) -> Iterator[Item]:
    """Yield what a start does with the partitions under some paths.

    Args:
        paths: of log directories and partition directories; a pattern where nothing has that name is expanded.
        options: which start, and what it hangs on.

    Yields:
        For each partition its predictions, how much of it was read, and what was not; and what cannot be read at all.
    """
    directories: list[InputDirectory] = []
    options = options.at(paths)
    for path, is_directory in expanded(paths):
        if not is_directory:
            yield _no_directory(path)
        elif (directory := InputDirectory(path, is_log_dir=options.node is not None)).failure is not None:
            yield directory.failure
        elif directory.partitions or directory.contents.files:
            directories.append(directory)
        else:
            yield no_kafka_files(path)
    introduce([one.log_dir for one in directories])
    yield from _with_unread(_of_all(directories, options))


def _of_all(directories: Sequence[InputDirectory], options: VerifyOptions) -> Iterator[Prediction | OpenFailure]:
    rows = (row for one in directories for row in _of_directory(one, options))
    return of_brokers(rows, [(one.log_dir, one.partitions) for one in directories], options.node)


def _of_directory(directory: InputDirectory, options: VerifyOptions) -> Iterator[Foretold]:
    partitions = [one for one in directory.partitions if one.listing.failure is None]
    for one in directory.partitions:
        if one.listing.failure is not None:
            yield one.listing.failure
    yield from predict(directory.log_dir, partitions, options, {}, {}, is_alone=not directory.is_log_dir)


def _no_directory(path: str) -> OpenFailure:
    if not exists(path):
        return OpenFailure(path, "missing", f"no such file: {path}")
    what = "a broker starts with directories: name a log directory, or the directory of a partition"
    return OpenFailure(path, "other", f"{path}: {what}")


def _with_unread(rows: Iterator[Prediction | OpenFailure]) -> Iterator[Item]:
    """Yield predictions, and behind the last one of each partition what was not read of its logs."""
    before: Prediction | None = None
    for row in rows:
        if before is not None and row.path != before.path:
            yield from _read_of(before)
        before = row if isinstance(row, Prediction) else None
        yield row
    if before is not None:
        yield from _read_of(before)


def _read_of(row: Prediction) -> Iterator[StartForeseen | Unchecked]:
    logs = row.logs
    assert logs is not None
    yield StartForeseen(row.path, logs.logs, logs.read_size)
    if logs.read < logs.logs:
        what = f"{counted(logs.logs - logs.read, 'log')} ({size(logs.size - logs.read_size)})"
        yield Unchecked(row.path, f"{what}: the start does not read them whole")
