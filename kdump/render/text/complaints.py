"""What Kafka's tool says on stderr when it is done: its findings about indexes and offsets, in its own order.

The tool keeps them in hash maps keyed by absolute path, so the order of the files is that of the map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.java_values import string_hash
from kdump.item import Complaint, ComplaintKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dialect import Dialect

_TABLE_SIZE = 16
_INT = 0xFFFFFFFF


class Complaints:
    """Collects complaints by file and kind.

    Args:
        dialect: the release whose words and order are wanted.

    Attributes:
        pairs: the two numbers of each complaint, by kind and file.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.pairs: dict[ComplaintKind, dict[str, list[tuple[int, int]]]] = {kind: {} for kind in ComplaintKind}

    def add(self, complaint: Complaint) -> None:
        """Keep one complaint."""
        self.pairs[complaint.kind].setdefault(complaint.path, []).append((complaint.first, complaint.second))

    def lines(self) -> Iterator[str]:
        """Yield the lines as the tool prints them.

        Source: DumpLogSegments.execute, TimeIndexDumpErrors.printErrors.
        """
        for path, pairs in self._in_map_order(ComplaintKind.MISMATCH):
            yield f"Mismatches in :{path}"
            for a, b in self._by_offset(pairs, newest_first=True):
                yield f"  Index offset: {a}, log offset: {b}"
        for path, pairs in self._in_map_order(ComplaintKind.TIMESTAMP):
            yield f"Found timestamp mismatch in :{path}"
            for a, b in pairs:
                yield f"  Index timestamp: {a}, log timestamp: {b}"
        for path, pairs in self._in_map_order(ComplaintKind.UNORDERED):
            yield f"Found out of order timestamp in :{path}"
            for a, b in pairs:
                yield f"  Index timestamp: {a}, Previously indexed timestamp: {b}"
        for path, pairs in self._in_map_order(ComplaintKind.NOT_FOUND):
            if self._dialect.names_time_index:
                yield f"The following indexed offsets are not found in :{path}"
            else:
                yield "The following indexed offsets are not found in the log."
            for a, b in pairs:
                yield f"Indexed offset: {a}, found log offset: {b}"
        for path, pairs in self._in_map_order(ComplaintKind.GAP):
            yield f"Non-consecutive offsets in {path}"
            for a, b in self._by_offset(pairs, newest_first=False):
                yield f"  {a} is followed by {b}"

    def _by_offset(self, pairs: list[tuple[int, int]], *, newest_first: bool) -> list[tuple[int, int]]:
        """Releases before 4.3 prepend to a list; 4.3 has a sorted map, where equal keys collapse."""
        if self._dialect.newest_first:
            return pairs[::-1]
        return sorted(dict(pairs).items(), reverse=newest_first)

    def _in_map_order(self, kind: ComplaintKind) -> list[tuple[str, list[tuple[int, int]]]]:
        """The files as Java's HashMap or Scala's mutable.HashMap iterates over them.

        Both double their table at three quarters full: Java after the entry that exceeds it, Scala before the one
        that would reach it. In one bucket Java keeps the order of insertion, Scala orders by hash.
        """
        files = self.pairs[kind]
        size, scala = _TABLE_SIZE, self._dialect.scala_map
        while len(files) > (size * 3 // 4 - 1 if scala else size * 3 // 4):
            size *= 2
        hashes = {path: _java_hash(path) for path in files}

        def place(path: str) -> tuple[int, int]:
            value = hashes[path]
            signed = value - (1 << 32) if value >> 31 else value
            return value & (size - 1), signed if scala else 0

        return [(path, files[path]) for path in sorted(files, key=place)]


def _java_hash(text: str) -> int:
    """Source: java.lang.String.hashCode, spread as HashMap.hash and scala's improveHash do (unsigned 32 bits)."""
    value = string_hash(text) & _INT
    return value ^ value >> 16
