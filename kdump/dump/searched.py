"""What is said behind a dump: that nothing was found, and what could not be searched, or not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Trait
from kdump.format.record.chunk import Chunk
from kdump.item import LogStart, RecordsUnread, SnapshotStart
from kdump.not_searched import NotSearched
from kdump.storage.file_source import OpenFailure
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.record.selection import Selection
    from kdump.item import Item


_MOST_KNOWN = 4096  # batches


class Searched:
    """Watches what a dump yields; goes from process to process.

    Args:
        selection: what is wanted; None for all.
        asked: which records are wanted, as the options say it; empty where nobody may see that.
    """

    def __init__(self, selection: Selection | None, asked: str = "") -> None:
        self._selection = selection
        self._asked = asked
        self._is_found = self._is_missing = False
        self._bad_sectors: set[tuple[str, int | str | None]] = set()  # file and start of the batches that lie there
        self._not_searched = NotSearched()
        self._not_read = NotSearched("not all records can be read")
        self._wrong: dict[tuple[str, int | None], Finding] = {}  # batches that were searched, by file and position

    def see(self, item: Item) -> None:
        """Take one item into account."""
        if isinstance(item, Chunk | LogStart | SnapshotStart):  # these stand before the first that is found in a log
            self._is_found = True
            return
        self._is_missing |= isinstance(item, OpenFailure) and item.missing
        finding = item.finding if isinstance(item, RecordsUnread) else item
        if isinstance(finding, Finding) and (self._is_outside(finding) or self._is_known(finding)):
            return
        self._not_searched.see(item)
        if isinstance(finding, Finding) and Trait.BAD_CRC in finding.code.traits:
            place = finding.file, finding.position
            if isinstance(item, RecordsUnread):  # others say it themselves
                self._not_read.see(item)
                self._wrong.pop(place, None)
            elif len(self._wrong) < _MOST_KNOWN:
                self._wrong[place] = finding

    @property
    def found_nothing(self) -> bool:
        """Whether something was asked for, and nothing was found."""
        return self._selection is not None and not self._is_found

    def lines(self) -> Iterator[str]:
        """Yield what to say, once all is done.

        Where nothing was found: that, and what was not searched; where a file was not even there, nothing. Where a
        search has found something: what was not searched, for there may be more. Behind both, the batches with a wrong
        CRC that were searched. Else the batches whose records were to be shown and cannot be read, as far as their
        findings do not say that.
        """
        one = self._selection
        if one is None or (self._is_found and not one.is_search):
            yield from self._not_read.lines()
            return
        if not self._is_found:
            if self._is_missing:
                return
            if one.to_offset is not None and one.to_offset <= (one.from_offset or 0):
                why = f"--to-offset {one.to_offset} is left out, so no offset is asked for"
                yield f"nothing found: {why}; for offset {one.to_offset} alone use --to-offset {one.to_offset + 1}"
                return
            ranges = list(_ranges(one))
            wanted = f" for {self._asked}" if self._asked else ""
            yield f"nothing found{wanted}" + (f"; searched was only {', '.join(ranges)}" if ranges else "")
        yield from self._not_searched.lines()
        if one.is_search:
            yield from self._not_trusted()

    def _not_trusted(self) -> Iterator[str]:
        """Yield the batches that were searched, where a wrong byte may be what the search goes by."""
        doubtful = NotSearched("searched, but not to be trusted")
        for finding in self._wrong.values():
            doubtful.see(finding, is_lost=True)
        yield from doubtful.lines()

    def _is_known(self, finding: Finding) -> bool:
        """Whether F06 has said already that a batch cannot be read."""
        if finding.code is Code.F06:
            self._bad_sectors.add((finding.file, finding.values.get("batchStart")))
            return False
        return (finding.file, finding.position) in self._bad_sectors

    def _is_outside(self, finding: Finding) -> bool:
        """Whether a finding is about other offsets than those that are wanted."""
        one, first = self._selection, finding.offset
        if one is None or first is None:
            return False
        last = first if finding.last_offset is None else max(first, finding.last_offset)
        is_before = one.from_offset is not None and last < one.from_offset
        return is_before or (one.to_offset is not None and first >= one.to_offset)


def _ranges(selection: Selection) -> Iterator[str]:
    """What was left out on purpose, by what is left."""
    one = selection
    if one.from_offset is not None or one.to_offset is not None:
        last = "the end" if one.to_offset is None else str(one.to_offset - 1)
        yield f"offsets {one.from_offset or 0} to {last}"
    if one.from_time is not None or one.to_time is not None:
        first = "the start" if one.from_time is None else iso(one.from_time)
        last = "the end" if one.to_time is None else f"before {iso(one.to_time)}"
        yield f"times from {first} to {last}"
    if one.from_position:
        yield f"batches from byte {one.from_position} of each log on"
    for what, values in (("producer", one.producers), ("leader epoch", one.epochs)):
        if values:
            yield f"batches of {what} {', '.join(map(str, values))}"
    if one.outcome is not None:
        yield f"what is {one.outcome}"
    if one.control or one.transactional:
        yield "control batches" if one.control else "batches of transactions"
