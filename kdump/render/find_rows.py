"""Answers of find as rows on stdout, findings among them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from kdump.compat.dialect import DEFAULT
from kdump.decode.file_decoder import AUTO, FileDecoder
from kdump.format.kinds import FileKind
from kdump.item import FileStart
from kdump.render.commentary import write
from kdump.render.json.dump import json_writer
from kdump.rows.json_lines import row_json
from kdump.rows.layout import JSON

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.format.record.chunk import Chunk
    from kdump.row import Row
    from kdump.rows.layout import Layout
    from kdump.rows.lookup import LookupAnswer


class FindRows:
    """Writes answers as rows.

    Args:
        layout: of the rows.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._writer = json_writer(contents=True, write=None if layout is JSON else self._convert)
        self._begun = b""  # of a line
        self._decoding = FileDecoder(AUTO, DEFAULT, compat=False)

    def location(self, location: LookupAnswer) -> None:
        """Write an answer."""
        self._line(location)

    def finding(self, finding: Finding) -> None:
        """Write a finding."""
        self._line(finding)

    def chunk(self, file: str, chunk: Chunk) -> None:
        """Write a batch, or a record of it."""
        self._decoding.begin(FileStart(file, FileKind.LOG))
        self._writer.begin(file, self._decoding.json())
        self._writer.chunk(chunk)
        for finding in self._decoding.findings(chunk):
            self.finding(finding)

    def flush(self) -> None:
        """Write out what is held: another program may wait for the answer."""
        self._writer.flush()
        sys.stdout.flush()

    def end(self) -> None:
        """Write out what is held; nothing is left out."""
        self.flush()

    def _line(self, row: Row) -> None:
        self._writer.text(f"{row_json(row)}\n")

    def _convert(self, data: bytes | memoryview) -> None:
        """Write lines of JSON in the layout that is wanted: records are written by a kernel, which knows one only."""
        *lines, self._begun = (self._begun + bytes(data)).split(b"\n")
        for line in lines:
            row = json.loads(line)
            write(self._layout.fields(str(row.pop("type")), row))
