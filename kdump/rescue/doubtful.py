"""Records of batches without a right CRC, for a person to read: into a file of their own, never into a result."""

from __future__ import annotations

import json
import os
from array import array
from typing import TYPE_CHECKING

from kdump.finding import Trait
from kdump.format.batch import _scan, layout
from kdump.format.batch.window import Window
from kdump.format.record.reader import RecordReader
from kdump.render.json.writer import JsonWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.format.read_limits import ReadLimits
    from kdump.rescue.scanned_log import ReadLog
    from kdump.storage.fsops import FileOps

_HEAD = b'{"type":"record"'
_END = b',"doubtful":true}\n'  # in the place of a brace and the end of the line
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def doubtful_lines(read: Iterable[ReadLog], limits: ReadLimits) -> Iterator[bytes]:
    """Yield the records of the batches of some logs, as far as they can be read, as lines in pieces.

    Args:
        read: the logs.
        limits: for reading records.
    """
    lines = _Lines()
    writer = JsonWriter(lines.take, contents=True, control=_control)
    reader = RecordReader.within(limits)
    for one in read:
        writer.begin(one.log.path, None)
        for place in one.facts.places:
            if not place.is_batch or not Trait.BAD_CRC.is_among(place.codes):
                continue
            if place.length > limits.max_batch_bytes:
                continue
            data = one.source.read_at(place.position, place.length)
            rows = array("q", bytes(8 * layout.BATCH_WIDTH))
            magic = int.from_bytes(data[layout.MAGIC_AT : layout.MAGIC_AT + 1], "big", signed=True)
            view = memoryview(data.ljust(layout.RECORDS_AT, b"\0"))
            _scan.header_row(view, 0, place.position, place.length, magic, rows)
            rows[layout.COMPUTED_CRC] = rows[layout.CRC]  # read as if it were right
            for chunk in reader.chunks(Window(view, place.position, rows, 1)):
                if chunk.cut is None:
                    writer.chunk(chunk)
                    yield from lines.made()
                    continue
                for _ in writer.long_line(chunk, 0):
                    yield from lines.made()
        writer.flush()
        yield from lines.made()


class _Lines:
    """The lines of records among those of a writer, marked as doubtful."""

    def __init__(self) -> None:
        self._rest = b""  # of a line: too little to tell what it is, or what may be its end
        self._wanted: bool | None = None  # the line in hand is that of a record; None until enough of it is here
        self._held: list[bytes] = []

    def take(self, data: bytes | memoryview) -> None:
        """Keep the lines of records of what a writer writes; of a line that has not ended as much as is sure."""
        *lines, rest = (self._rest + bytes(data)).split(b"\n")
        kept = []
        for line in lines:
            if self._wanted if self._wanted is not None else line.startswith(_HEAD):
                kept += [line[:-1], _END]
            self._wanted = None
        if self._wanted is None and len(rest) > len(_HEAD):
            self._wanted = rest.startswith(_HEAD)
        if self._wanted is not None:
            if self._wanted:
                kept.append(rest[:-1])
            rest = rest[-1:]
        self._rest = rest
        if kept:
            self._held.append(b"".join(kept))

    def made(self) -> list[bytes]:
        """Return what was kept since the last time."""
        held, self._held = self._held, []
        return held


class DoubtfulFile:
    """The file that they go into.

    Args:
        path: of it; nothing may be there.
        ops: makes the calls.
    """

    def __init__(self, path: str, ops: FileOps) -> None:
        self._ops = ops
        self._at = 0
        directory = os.open(os.path.dirname(path) or ".", _DIRECTORY)
        try:
            self._fd = ops.create(directory, os.path.basename(path))
        finally:
            os.close(directory)

    def write(self, data: bytes) -> None:
        """Write lines behind those that are there.

        Raises:
            OSError: they cannot be written.
        """
        self._ops.write(self._fd, data, self._at)
        self._at += len(data)

    def close(self) -> None:
        """Bring it to the disk.

        Raises:
            OSError: that failed.
        """
        try:
            self._ops.sync(self._fd)
        finally:
            os.close(self._fd)


def _control(key: bytes | None, value: bytes | None) -> bytes:
    from kdump.decode.control import control_object

    return json.dumps(control_object(key, value), separators=(",", ":")).encode()
