"""Losses that an earlier run has told of (--known): verify lists them, and they count for nothing."""

from __future__ import annotations

import os
from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING

from kdump.finding import Finding, Severity, Trait
from kdump.item import PartitionChecked
from kdump.rows.steps import Step
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.file_source import OpenFailure, first_line
from kdump.storage.json_rows import COUNT, name_of, rows_in, shown
from kdump.storage.json_rules import BadValueError, fields, text
from kdump.storage.open_files import open_source
from kdump.storage.paths import base_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.item import Item

_LOST = frozenset(one.value for one in Certainty if one.is_loss)
_LOSS = fields({"certainty": text, "partition": shown, "offset": COUNT, "lastOffset": COUNT}, more=True)
_ROWS = "rows of JSON are meant, as verify --format json and salvage write them"


class KnownError(Exception):
    """A file has no rows."""


class KnownLosses:
    """Offsets that are known to be lost.

    Args:
        paths: of files with rows of JSON: of verify, or of salvage.

    Raises:
        KnownError: one cannot be read, or has something else.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = {}  # by TOPIC-N, rising, none touches another one
        for path in paths:
            self._read(path)
        for partition, ranges in self._ranges.items():
            self._ranges[partition] = _joined(ranges)
        self._open: set[str] = set()  # directories in which something else is wrong
        self._met: dict[str, int] = {}  # known offsets by directory

    def _read(self, path: str) -> None:
        source = open_source(path)
        if isinstance(source, OpenFailure):
            raise KnownError(source.sentence)
        with source:
            try:
                for at, row in rows_in(source.read_at, {Loss.row_name: _LOSS}, is_all=True):
                    if row["certainty"] in _LOST:
                        if row["offset"] > row["lastOffset"]:
                            raise BadValueError(f"line {at}:", "ends before it begins")
                        ranges = self._ranges.setdefault(str(name_of(row["partition"])), [])
                        ranges.append((row["offset"], row["lastOffset"]))
            except BadValueError as error:
                raise KnownError(f"{path}: {error}; {_ROWS}") from None
            except OSError as error:
                raise KnownError(f"{path}: cannot be read: {first_line(error)}") from None

    def covers(self, partition: str, first: int, last: int) -> bool:
        """Tell whether all of some offsets are known."""
        known = next(self._from(partition, first), None)
        return known is not None and known[0] <= first and last <= known[1]

    def _from(self, partition: str, offset: int) -> Iterator[tuple[int, int]]:
        """Yield the known ranges of a partition that end at an offset or behind it, rising."""
        ranges = self._ranges.get(partition, [])
        for at in range(bisect_left(ranges, offset, key=itemgetter(1)), len(ranges)):
            yield ranges[at]

    def through(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items of verify: what is known is a loss that does not count, and a finding about it is a note."""
        for item in items:
            if isinstance(item, Loss):
                yield from self._pieces(item)
            elif isinstance(item, Finding):
                yield self._judged(item)
            elif isinstance(item, PartitionChecked):
                known = self._met.pop(item.path, 0)
                yield item.replace(offsets_lost=max(0, item.offsets_lost - known))
            elif not isinstance(item, Step) or not item.partitions:
                yield item
            elif left := tuple(path for path in item.partitions if not self._is_known(path)):
                yield item.replace(partitions=left)

    def _pieces(self, loss: Loss) -> Iterator[Loss]:
        """Yield a loss, or what of it is known and what is not."""
        if not loss.counts:
            yield loss
            return
        at = loss.offset
        for begin, end in self._from(loss.partition, at):
            first, last = max(begin, at), min(end, loss.last_offset)
            if first > last:
                break
            if at < first:
                yield self._new(loss, at, first - 1)
            self._met[loss.path] = self._met.get(loss.path, 0) + last - first + 1
            yield _part(loss, first, last).replace(is_known=True)
            at = last + 1
        if at <= loss.last_offset:
            yield self._new(loss, at, loss.last_offset)

    def _new(self, loss: Loss, first: int, last: int) -> Loss:
        self._open.add(os.path.normpath(loss.path))
        return _part(loss, first, last)

    def _judged(self, finding: Finding) -> Finding:
        if finding.severity is Severity.NOTE:
            return finding
        about = finding.is_loss or Trait.TELLS_LOSS in finding.code.traits
        if about and finding.offset is not None:
            partition = finding.values.get("partition") or base_name(os.path.dirname(finding.file))
            last = finding.offset if finding.last_offset is None else finding.last_offset
            if self.covers(str(partition), finding.offset, last):
                return finding.replace(severity_override=Severity.NOTE)
        self._open.add(os.path.normpath(os.path.dirname(finding.file) or os.curdir))
        return finding

    def _is_known(self, path: str) -> bool:
        """Whether all that is wrong in a partition is known."""
        return base_name(path) in self._ranges and os.path.normpath(path) not in self._open


def _part(loss: Loss, first: int, last: int) -> Loss:
    if (first, last) == (loss.offset, loss.last_offset):
        return loss
    return loss.replace(offset=first, last_offset=last, records=None)  # nobody knows which of them are where


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined
