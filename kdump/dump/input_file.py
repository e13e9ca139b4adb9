"""The inputs of dump: paths and directories, the kind of each file, and the files beside it."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.storage.directory import NO_FILE, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.names import FileKind, base_by_name, parse_name
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory, PartitionDir
from kdump.storage.paths import above, is_dir, is_stream
from kdump.storage.segment import Segment, sibling
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.storage.names import FileName
    from kdump.storage.open_files import CachedFile

_NEED_BASE = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


class InputFile(Value):
    """A file to show."""

    path: str  # as the user wrote it, or below what the user wrote
    follow: bool  # whether a symbolic link is followed, as it is where the user names it
    directory: PartitionDir  # that it lies in
    name: FileName  # what its name tells
    kind: FileKind = FileKind.UNKNOWN  # which file it is, by what the user says, else by its name
    base: int | None = None  # its base offset, by what the user says, else by its name; None where neither tells one

    @property
    def is_log(self) -> bool:
        """Whether batches are in it."""
        return self.kind in (FileKind.LOG, FileKind.CHECKPOINT)

    @property
    def log_base(self) -> int | None:
        """The base offset of a log; None for a KRaft snapshot."""
        return self.base if self.kind is FileKind.LOG else None

    def open(self) -> CachedFile | OpenFailure:
        """Open it, or say why not; it stays open for the other files of its segment."""
        return self.directory.cache.open(self.path, follow=self.follow)

    @cached_property
    def segment(self) -> Segment:
        """The files of the same base offset; of a copy, the copies."""
        log = self.path if self.is_log else sibling(self.path, FileKind.LOG.value)
        return Segment(log, self.base or 0, self.directory.cache, follow=self.follow)


def input_files(paths: list[str]) -> Iterator[InputFile | OpenFailure]:
    """Yield the files that paths stand for, in order, and what is left out of directories.

    Args:
        paths: files and directories, as the user wrote them.
    """
    around: dict[str, PartitionDir] = {}
    for path in paths:
        if is_dir(path):
            yield from _in_directory(path)
            continue
        head, name = os.path.split(path)
        if head not in around:
            around[head] = PartitionDir(head or ".", LogDir(above(head)))
        yield InputFile(path, True, around[head], parse_name(name))


def size_of(path: str) -> int:
    """Return the size of a file that will be opened, bytes, as far as anything is known of it: for a progress bar."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _in_directory(path: str) -> Iterator[InputFile | OpenFailure]:
    directory = InputDirectory(path)
    leftovers: list[str] = []
    skipped = []
    unread = False
    for one in directory.listed():
        for file in one.contents.files:
            yield InputFile(file.path, False, one, file.name)
        if one.key is not None and not one.log_bases:
            from kdump.storage.evidence import evidence_of, no_logs  # few directories have no log

            if evidence_of(one).logs:
                yield no_logs(one, "other")
        skipped += one.contents.skipped
        leftovers += one.contents.leftovers
    for problem in skipped:
        out_of_reach = problem.is_out_of_reach or problem.reason == NO_FILE
        unread |= out_of_reach
        kind = "read" if out_of_reach else "skipped"
        yield OpenFailure(problem.path, kind, problem.sentence)
    if directory.is_log_dir and not (directory.partitions or directory.contents.files or leftovers or unread):
        yield no_kafka_files(path)
    if leftovers:
        first = os.path.basename(leftovers[0])
        count = f"{len(leftovers)} files that no broker reads are not shown ({first} ...)"
        yield OpenFailure(path, "skipped", f"{path}: {count}: name them to see them")


def identify(file: InputFile, options: DumpOptions) -> InputFile | OpenFailure:
    """Return a file with its kind and its base offset, by what the user says, else by its name.

    Args:
        options: what was asked for.
    """
    path = file.path
    kind = FileKind(options.kind) if options.kind else file.name.kind
    if kind is FileKind.UNKNOWN and is_stream(path):
        kind = FileKind.LOG
    why = None if options.kind or file.name.is_live or is_stream(path) else _why_not_read(path)
    if why is not None:
        return OpenFailure(path, "type", f"{path}: {why}")
    base = _base_offset(file, options)
    if base is None and kind is FileKind.LOG and is_stream(path):
        from kdump.storage.streams import first_offset  # few name one

        base = first_offset(file.open())
    if kind is FileKind.UNKNOWN:
        return OpenFailure(path, "type", f"{path}: the name does not tell what this is; say it with --type KIND")
    if base is None and kind in _NEED_BASE:
        return OpenFailure(path, "base", f"{path}: no base offset in the name; say it with --base-offset N")
    return InputFile(path, file.follow, file.directory, file.name, kind, base)


def _why_not_read(path: str) -> str | None:
    """Why a file under an odd name is none of a broker's."""
    from kdump.storage.other_formats import why_not_read  # few have such names

    opened = open_source(path)
    if isinstance(opened, OpenFailure):
        return None
    with opened:
        return why_not_read(opened)


def _base_offset(file: InputFile, options: DumpOptions) -> int | None:
    """The base offset: from the user, from the name as brokers or carve write it, or as Kafka's tool takes it."""
    if options.base_offset is not None:
        return options.base_offset
    if file.name.base_offset is not None or file.name.kind not in _NEED_BASE:
        return file.name.base_offset
    return base_by_name(file.name, file.path)
