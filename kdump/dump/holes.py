"""Offsets that are missing in what `dump` searches: those that are lost were not searched.

Strategy: what is read tells the holes in it. Of most the files beside the logs say at once that compaction may have
made them; only where one may be a loss the batches of all logs are walked over once more, as the rule of verify needs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker.missing.ranges import MissingRange
from kdump.finding import Code, Severity, Trait
from kdump.format.batch.base_offset.header import header_facts
from kdump.item import RecordsUnread
from kdump.storage.segment import UnreadableError
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.input_file import InputFile
    from kdump.finding import Finding
    from kdump.format.batch.window import Window
    from kdump.format.record.selection import Selection
    from kdump.storage.file_source import OpenFailure

_MOST = 1000  # holes that are held; behind so many, of a topic that nothing compacts, some are told already


class HolesMet(Value):
    """What a selection has met in the logs of one directory; goes from process to process."""

    is_found: bool = False  # something that is selected
    holes: tuple[MissingRange, ...] = ()  # the first holes

    def joined(self, other: HolesMet) -> HolesMet:
        """Return this, and what was met behind it."""
        holes = dict.fromkeys((*self.holes, *other.holes))
        return HolesMet(self.is_found or other.is_found, tuple(holes)[:_MOST])


class HoleWatch:
    """Watches what is read of one log.

    Args:
        log: the file, and its directory.
    """

    def __init__(self, log: InputFile) -> None:
        self._log = log
        self.met = HolesMet()  # what was met

    def begin(self, window: Window) -> None:
        """Take the first batches of the log into account: no finding says that others are missing before them."""
        first, base = header_facts(window, 0), self._log.log_base
        if base is not None and first.first is not None and first.first > base and first.trusted:
            self._add(MissingRange(base, first.first - 1, file=self._log.path))

    def see(self, findings: Iterable[Finding]) -> None:
        """Take what was found into account; findings may come again."""
        for one in findings:
            if Trait.HOLE in one.code.traits and one.severity is Severity.NOTE:
                self._add(MissingRange(one.offset or 0, one.last_offset or 0, file=one.file))

    def found(self) -> None:
        """Note that something is selected."""
        self.met = self.met.joined(HolesMet(is_found=True))

    def _add(self, hole: MissingRange) -> None:
        """Keep a hole, unless it lies below the log start offset."""
        if len(self.met.holes) < _MOST and hole.last >= self._log.directory.log_start:
            self.met = self.met.joined(HolesMet(holes=(hole,)))


def not_searched(
    met: HolesMet, logs: Sequence[InputFile], options: DumpOptions, selection: Selection
) -> Iterator[RecordsUnread | OpenFailure]:
    """Yield the offsets that are lost, where what is selected may have been there, and why some may not be known.

    Args:
        met: in the logs.
        logs: of one directory, all that were to be searched.
        options, selection: what was asked for.

    Reports: O04, O07, as what was not searched.
    """
    if not met.holes or (met.is_found and not selection.is_search):
        return
    from kdump.broker.missing.lost_holes import lost_holes  # the walk over damage: most selections do not need it
    from kdump.storage.evidence import evidence_of

    directory = logs[0].directory
    unread = evidence_of(directory).rows_unread
    if unread is not None:
        yield unread
    lost = lost_holes(directory, options.limits)
    told: set[tuple[Code, int | None]] = set()
    with suppress(UnreadableError, OSError):  # compaction may explain a hole in a log that cannot be read
        lost.meet(met.holes)
        for hole, finding in ((met_one, one) for met_one in met.holes for one in lost.of(met_one.first, met_one.last)):
            own = {"offset": hole.first, "last_offset": hole.last} if finding.is_among_holes else {}
            one = finding.replace(**own)  # of several each is told: records of any may have been there
            if os.path.basename(one.file) != os.path.basename(hole.file) or (one.code, one.offset) in told:
                continue
            is_listed = one.code is Code.O04 or not logs[0].follow
            if is_listed or any(
                log.base == directory.next_base(one.offset or 0) for log in logs
            ):  # not of one log alone
                told.add((one.code, one.offset))
                yield RecordsUnread(one.replace(file=hole.file))
