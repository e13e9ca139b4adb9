"""Answers of find as JSON lines on stdout, findings among them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kdump.decode.control import control_object
from kdump.dialect import DEFAULT
from kdump.format import layout
from kdump.format.records import key_and_value
from kdump.render.jsonl import batch_json, finding_json, location_json, record_json

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.format.chunk import Chunk
    from kdump.item import Location


class JsonSink:
    """Writes answers as JSON lines."""

    def location(self, location: Location) -> None:
        """Write an answer."""
        self._line(location_json(location))

    def finding(self, finding: Finding) -> None:
        """Write a finding."""
        self._line(finding_json(finding))

    def chunk(self, file: str, chunk: Chunk) -> None:
        """Write a batch, or a record of it."""
        if not chunk.begun:
            self._line(batch_json(file, chunk.window, chunk.first))
        is_control = chunk.window.cell(chunk.first, layout.ATTRIBUTES) & layout.CONTROL_FLAG
        is_control = is_control and chunk.window.cell(chunk.first, layout.MAGIC) >= layout.MAGIC_V2
        for i in range(chunk.filled):
            control = _control(chunk, i) if is_control else None
            self._line(record_json(file, chunk, i, control))

    def flush(self) -> None:
        """Write out what is held: another program may wait for the answer."""
        sys.stdout.flush()

    def end(self) -> None:
        """Write out what is held; nothing is left out."""
        self.flush()

    def _line(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")


def _control(chunk: Chunk, i: int) -> dict[str, object] | None:
    row = chunk.rows[i * layout.RECORD_WIDTH : (i + 1) * layout.RECORD_WIDTH]
    found = control_object(*key_and_value(chunk.view, row), DEFAULT.release)
    return None if found is None else dict(found)
