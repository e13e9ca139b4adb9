"""`dump --compat`: the output of DumpLogSegments in its order, with its mistakes and the place where it dies.

`isvalid` is DefaultRecordBatch.isValid: the CRC over as many bytes as the header claims, which `KafkaWalk` computes. It
never does what the tool does to a disk: nothing is created, trimmed or opened for writing.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.compat.index_dump import KafkaIndexes, file_records
from kdump.compat.kafka_reader import KafkaRecordReader
from kdump.compat.kafka_stream import TOOL_HEAP
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.format.checkpoint.producer_snapshot import read_snapshot
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.record import _records
from kdump.format.record.chunk import KEPT, Chunk
from kdump.item import (
    Complaint,
    ComplaintKind,
    Died,
    FileStart,
    LogStart,
    SkippedFile,
    SnapshotError,
    SnapshotStart,
    TrailingBytes,
)
from kdump.storage.file_source import FileSource
from kdump.storage.names import JavaName, java_file, java_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.compat.dialect import Dialect
    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.item import Item

_TOO_LARGE = (
    "org.apache.kafka.common.KafkaException: The size of segment {} ({}) is larger than the maximum allowed "
    "segment size of 2147483647"
)


class KafkaDump:
    """Dumps files as one release of DumpLogSegments does.

    Args:
        dialect: the release.
        options: what was asked for.
        late: Java exceptions of options that the tool looks at only when it comes to a file that needs them.
    """

    def __init__(self, dialect: Dialect, options: DumpOptions, late: Mapping[str, str] = MappingProxyType({})) -> None:
        self._dialect = dialect
        self._options = options
        self._late = late
        self._reader = KafkaRecordReader(
            options.max_uncompressed_bytes,
            cut=KEPT,
            heap=TOOL_HEAP,
            metadata=not options.skip_metadata,
            max_record=dialect.max_record,
        )

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all files; the last one is Died where the tool dies.

        Source: DumpLogSegments.execute.
        """
        for path in paths:
            for item in self._file(java_file(path)):
                yield item
                if isinstance(item, Died):
                    return

    def _file(self, path: str) -> Iterator[Item]:
        yield FileStart(path)
        name = java_name(path)
        if name.no_dot is not None and self._dialect.scala_map:
            yield Died(name.no_dot)  # the Scala tool takes it for a suffix
            return
        readers = {
            ".log": self._log,
            ".checkpoint": self._log,
            ".index": self._offset_index,
            ".timeindex": self._time_index,
            ".txnindex": self._transaction_index,
            ".snapshot": self._snapshot,
        }
        reader = readers.get(name.suffix)
        if reader is None:
            yield SkippedFile(path)
            return
        with ExitStack() as stack:
            try:
                yield from reader(path, name, stack)
            except OSError as error:
                yield Died(_java_error(error, path))

    def _log(self, path: str, name: JavaName, stack: ExitStack) -> Iterator[Item]:
        """Source: DumpLogSegments.dumpLog."""
        for option in ("decoder-class", "max-bytes"):
            if option in self._late:
                yield Died(self._late[option])
                return
        if name.suffix == ".checkpoint":
            if name.snapshot_error is not None:
                yield Died(name.snapshot_error)
                return
            yield SnapshotStart(name.end_offset, name.epoch)
        elif name.error is not None:
            yield Died(name.error)
            return
        else:
            yield LogStart(name.base_offset)
        log = stack.enter_context(FileSource(path))
        if log.size > layout.MAX_INT:
            yield Died(_TOO_LARGE.format(path, log.size))
            return
        if self._options.max_bytes < 0:
            size = self._options.max_bytes
            yield Died(
                f"java.lang.IllegalArgumentException: Invalid size: {size} in read from {file_records(log.size, path)}"
            )
            return
        end = min(log.size, self._options.max_bytes)
        walk = KafkaWalk(log, path, 0, end, self._options.max_batch_bytes)
        yield from self._batches(walk, _absolute(path))
        if walk.failure is not None:
            yield Died(walk.failure)
        elif end > walk.position and self._options.max_bytes == layout.MAX_INT:
            yield TrailingBytes(end - walk.position, name.name)

    def _batches(self, walk: KafkaWalk, absolute: str) -> Iterator[Item]:
        last_offset = -1
        for window in walk.windows():
            if not self._options.deep:
                yield Chunk(window, window.view, 0, last=window.count, begun=False, rows=window.rows, filled=0)
                continue
            for chunk in self._reader.chunks(window):
                yield from self._gaps(chunk, last_offset, absolute)
                if chunk.filled:
                    last_offset = chunk.rows[(chunk.filled - 1) * layout.RECORD_WIDTH + layout.R_OFFSET]
                yield chunk
                if chunk.problem is not None:
                    yield Died(chunk.problem.java)
                    return

    def _gaps(self, chunk: Chunk, last_offset: int, absolute: str) -> Iterator[Complaint]:
        """Complain of offsets that are not the ones after the offsets before them; of equal ones in turn, once."""
        i, times, held = 0, 0, (-1, -1)
        while (i := _records.first_disorder(chunk.rows, i, chunk.filled, last_offset)) < chunk.filled:
            at = i * layout.RECORD_WIDTH + layout.R_OFFSET
            if i:
                last_offset = chunk.rows[at - layout.RECORD_WIDTH]
            following = chunk.rows[at]
            if last_offset != -1 or self._dialect.starts_at_minus_one:
                if times and held != (last_offset, following):
                    yield Complaint(ComplaintKind.GAP, absolute, *held, times=times)
                    times = 0
                held = last_offset, following
                times += 1
            last_offset = following
            i += 1
        if times:
            yield Complaint(ComplaintKind.GAP, absolute, *held, times=times)

    def _segment_log(self, path: str, name: JavaName, stack: ExitStack) -> tuple[KafkaIndexes, str] | Died:
        """The log beside an index, and the absolute path of the index."""
        if name.error is not None:
            return Died(name.error)
        absolute = _absolute(path)
        log_name = f"{absolute[: absolute.rindex('/')]}/{name.stem}.log"
        try:
            log = stack.enter_context(FileSource(log_name))
        except OSError as error:
            return Died(_java_error(error, log_name))
        if log.size > layout.MAX_INT:
            return Died(_TOO_LARGE.format(log_name, log.size))
        return KafkaIndexes(log, log_name, self._dialect, self._options), absolute

    def _offset_index(self, path: str, name: JavaName, stack: ExitStack) -> Iterator[Item]:
        if "max-message-size" in self._late:
            yield Died(self._late["max-message-size"])
            return
        segment = self._segment_log(path, name, stack)
        if isinstance(segment, Died):
            yield segment
            return
        index = _index_file(path, stack)
        if isinstance(index, Died):
            yield index
            return
        yield from segment[0].offset_index(OffsetIndex(index, name.base_offset or 0), path, segment[1])

    def _time_index(self, path: str, name: JavaName, stack: ExitStack) -> Iterator[Item]:
        segment = self._segment_log(path, name, stack)
        if isinstance(segment, Died):
            yield segment
            return
        base = name.base_offset or 0
        files = [_index_file(one, stack) for one in (f"{segment[1][: segment[1].rindex('/')]}/{name.stem}.index", path)]
        for file in files:
            if isinstance(file, Died):
                yield file
                return
        offsets, times = files
        assert isinstance(offsets, FileSource)
        assert isinstance(times, FileSource)
        yield from segment[0].time_index(TimeIndex(times, base), OffsetIndex(offsets, base), path, segment[1])

    def _transaction_index(self, path: str, name: JavaName, stack: ExitStack) -> Iterator[Item]:
        """Source: DumpLogSegments.dumpTxnIndex."""
        if name.error is not None:
            yield Died(name.error)
            return
        try:
            source = stack.enter_context(FileSource(path))
        except FileNotFoundError:
            return
        index = TransactionIndex(source, name.base_offset or 0, self._dialect.version_bytes)
        if index.error is not None:  # all entries are read before the first one is printed
            message = index.error.replace("{file}", _absolute(path))
            yield Died(f"org.apache.kafka.common.KafkaException: {message}")
            return
        yield from index

    def _snapshot(self, path: str, _name: JavaName, stack: ExitStack) -> Iterator[Item]:
        """Source: DumpLogSegments.dumpProducerIdSnapshot."""
        snapshot = read_snapshot(stack.enter_context(FileSource(path)), self._dialect.release)
        yield from snapshot.entries
        if snapshot.error is not None:
            yield SnapshotError(snapshot.error)


def _index_file(path: str, stack: ExitStack) -> FileSource | Died:
    """Open an index; where it is missing the tool creates an empty one and fails on it."""
    try:
        return stack.enter_context(FileSource(path))
    except FileNotFoundError:
        return Died("java.lang.IllegalArgumentException: Invalid max index size: -1")


def _absolute(path: str) -> str:
    """Source: File.getAbsolutePath: joined as text, nothing is resolved."""
    return path if path.startswith("/") else f"{os.getcwd()}/{path}"


def _java_error(error: OSError, path: str) -> str:
    if isinstance(error, FileNotFoundError):
        return f"java.nio.file.NoSuchFileException: {path}"
    if isinstance(error, PermissionError):
        return f"java.nio.file.AccessDeniedException: {path}"
    return f"java.io.IOException: {error.strerror}"
