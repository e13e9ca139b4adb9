"""Answers of find as JSON lines on stdout, findings among them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kdump.compat.dialect import DEFAULT
from kdump.decode.file_decoder import AUTO, FileDecoder
from kdump.format.kinds import FileKind
from kdump.item import FileStart
from kdump.render.json.dump import json_writer
from kdump.rows.json_lines import row_json

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.format.record.chunk import Chunk
    from kdump.rows.lookup import LookupAnswer


class JsonSink:
    """Writes answers as JSON lines."""

    def __init__(self) -> None:
        self._writer = json_writer(contents=True)
        self._decoding = FileDecoder(AUTO, DEFAULT, compat=False)

    def location(self, location: LookupAnswer) -> None:
        """Write an answer."""
        self._line(row_json(location))

    def finding(self, finding: Finding) -> None:
        """Write a finding."""
        self._line(row_json(finding))

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

    def _line(self, line: str) -> None:
        self._writer.text(f"{line}\n")
