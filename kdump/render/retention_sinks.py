"""What retention says, on a stdout that is no terminal: plain text or JSON lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kdump.broker.retention_results import Compacted, Retained
from kdump.finding import Finding
from kdump.render.commentary import say
from kdump.render.json.lines import finding_json
from kdump.render.json.retention import compacted_json, retained_json
from kdump.render.text.findings import FindingLines
from kdump.render.text.retention import compacted_lines, outcome, retained_lines
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from kdump.broker.retention_results import RetentionItem


class RetentionText:
    """Writes plain text: one fact a line, a summary at the end."""

    def __init__(self) -> None:
        self._partitions = self._segments = self._gone = self._bytes = 0
        self._findings = FindingLines(self._line)

    def __call__(self, item: RetentionItem) -> None:
        """Write one item."""
        if isinstance(item, Retained):
            gone = len(item.deletion.reasons)
            self._partitions += 1
            self._segments += len(item.log.segments)
            self._gone += gone
            self._bytes += sum(segment.size for segment in item.log.segments[:gone])
            for line in retained_lines(item):
                self._line(line)
        elif isinstance(item, Compacted):
            for line in compacted_lines(item):
                self._line(line)
        elif isinstance(item, Finding):
            self._findings(item)
        elif isinstance(item, OpenFailure):
            say(f"kdump: {item.sentence}")

    def end(self) -> None:
        """Write the summary."""
        self._line(
            f"judged partitions={self._partitions} segments={self._segments} deleted={self._gone} "
            f"deletedBytes={self._bytes}"
        )

    def _line(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")


class RetentionJson:
    """Writes JSON lines."""

    def __call__(self, item: RetentionItem) -> None:
        """Write one item."""
        if isinstance(item, Retained):
            sys.stdout.write(f"{retained_json(item)}\n")
        elif isinstance(item, Compacted):
            for piece in compacted_json(item):
                sys.stdout.write(piece)
            sys.stdout.write("\n")
            if item.failure:
                say(f"kdump: {item.path}: the pass {outcome(item)}")
        elif isinstance(item, Finding):
            sys.stdout.write(f"{finding_json(item)}\n")
        elif isinstance(item, OpenFailure):
            say(f"kdump: {item.sentence}")

    def end(self) -> None:
        """Write nothing more: each line stands for itself."""
