"""What lies around a log in its directory, as far as it says something about the end of the log."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.storage.file_source import DoorProblem, open_source
from kdump.storage.names import log_bases
from kdump.storage.paths import file_names
from kdump.storage.paths import size as _size

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1024  # entries of an index


def sibling(path: str, suffix: str) -> str:
    """The path of the file of the same segment with another suffix: what follows the suffix stays.

    Args:
        path: a file of a segment, as the user wrote it.
        suffix: without its dot.
    """
    directory, name = os.path.split(path)
    stem, _, rest = name.partition(".")
    _, dot, more = rest.partition(".")
    return os.path.join(directory, f"{stem}.{suffix}{dot}{more}")


class Edges:
    """Knows the segments of the directories that were asked about; each directory is listed once."""

    def __init__(self) -> None:
        self._bases: dict[str, list[int]] = {}

    def check(self, path: str, base: int, last: int | None, size: int) -> Iterator[Finding]:
        """Yield what the next segment and the index say about the end of a log.

        Args:
            path: the log, as the user wrote it.
            base: its base offset.
            last: its last offset, None when it has no batch.
            size: of the log when it was opened, bytes.

        Reports: O06, O07.
        """
        if last is None and size:
            return  # not one batch: that is said already
        after = base if last is None else last + 1
        next_base = self._next_base(path, base)
        if next_base is not None and last is not None and last >= next_base:
            yield Finding(
                Code.O06,
                path,
                size,
                0,
                offset=next_base,
                last_offset=last,
                found=last,
                values={"next_base": next_base},
            )
        elif next_base is not None and after < next_base:
            yield _missing(path, size, after, next_base - 1, f"the next segment begins at {next_base}", Severity.NOTE)
        elif next_base is None:
            known = _index_end(path, base, size)
            if known is not None and known >= after and _size(path) == size:
                yield _missing(path, size, after, known, f"its index goes on to {known}", Severity.ERROR)

    def _next_base(self, path: str, base: int) -> int | None:
        directory = os.path.dirname(path) or "."
        if directory not in self._bases:
            try:
                names = file_names(directory)
            except OSError:
                names = []
            self._bases[directory] = log_bases(names)
        bases = self._bases[directory]
        at = bisect_right(bases, base)
        return bases[at] if at < len(bases) else None


def _missing(path: str, size: int, first: int, last: int, why: str, severity: Severity) -> Finding:
    return Finding(
        Code.O07,
        path,
        size,
        0,
        offset=first,
        last_offset=last,
        severity_override=severity,
        values={"missing_first": first, "missing_last": last, "why": why},
    )


def _index_end(path: str, base: int, size: int) -> int | None:
    """The last offset that the index beside a log has for a byte at or after the end of the log."""
    source = open_source(sibling(path, "index"))
    if isinstance(source, DoorProblem):
        return None
    from kdump.format.index.offset_and_time import OffsetIndex

    with source:
        index = OffsetIndex(source, base)
        largest, stop = None, index.entries
        while stop:  # entries ascend: those that point behind the log are the last ones
            start = max(0, stop - _CHUNK)
            pairs = (pair for columns in index.columns(start, stop) for pair in zip(*columns, strict=True))
            beyond = [offset for offset, position in pairs if position >= size and offset > base]
            if not beyond:
                break
            largest = max(*beyond, base if largest is None else largest)
            stop = start
        return largest
