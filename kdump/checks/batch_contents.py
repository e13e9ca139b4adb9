"""The records of single batches, one after the other: what they hold, to compare it with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.format.batch.window import Buffer
from kdump.format.java_values import as_long
from kdump.format.record.chunk import KEPT
from kdump.format.record.cut_record import digest
from kdump.format.record.reader import RecordReader, key_and_value
from kdump.storage.file_source import FileSource, OpenFailure
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kdump.checks.options import VerifyOptions

_WINDOW = 1 << 16  # bytes of a log read at once for the records of one batch


class BatchContents:
    """Reads the records of batches, one after the other, with one open log and one buffer.

    Args:
        options: limits.
    """

    def __init__(self, options: VerifyOptions) -> None:
        self._limit = options.max_batch_bytes
        self._reader = RecordReader(options.max_uncompressed_bytes, max_batch=self._limit, cut=KEPT)
        self._buffer: Buffer | None = None
        self._source: FileSource | None = None

    def of(self, log: str, position: int, size: int, shift: int = 0) -> Iterator[tuple[int, tuple[object, ...] | None]]:
        """Yield offset and content of each record of a batch; at last no content, where not all can be read.

        Args:
            log: path of the log.
            position, size: of the batch, bytes.
            shift: what its right offsets lie above those in its bytes.
        """
        try:
            is_whole = yield from self._read(log, position, size, shift)
        except OSError:
            is_whole = False
        if not is_whole:
            yield -1, None

    def _read(
        self, log: str, position: int, size: int, shift: int
    ) -> Generator[tuple[int, tuple[object, ...]], None, bool]:
        source = self._open(log)
        if source is None:
            return False
        walk = KafkaWalk(source, source.name, position, position + size, self._limit, self._buffer)
        left = 1  # records, at least
        for window in walk.windows():
            left = window.cell(0, layout.COUNT) if window.cell(0, layout.MAGIC) >= layout.MAGIC_V2 else 0
            for chunk in self._reader.chunks(window):
                for at in range(0, chunk.filled * layout.RECORD_WIDTH, layout.RECORD_WIDTH):
                    row = chunk.rows[at : at + layout.RECORD_WIDTH]
                    fields = key_and_value(chunk.view, row) if chunk.cut is None else digest(chunk.cut)
                    yield as_long(row[layout.R_OFFSET] + shift), (row[layout.R_TIMESTAMP], *fields)
                left -= chunk.filled
                if chunk.problem is not None:
                    return False
        return left <= 0

    def _open(self, path: str) -> FileSource | None:
        if self._source is None or self._source.name != path:
            self.close()
            source = open_source(path)
            if isinstance(source, OpenFailure):
                return None
            self._source = source
            if self._buffer is None:
                self._buffer = Buffer(source, _WINDOW)
            self._buffer.source = source
        return self._source

    def close(self) -> None:
        """Close the log."""
        if self._source is not None:
            self._source.close()
            self._source = None
