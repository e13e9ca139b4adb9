"""What is said where a selection finds nothing: what was not searched, on purpose or because it cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import NOT_ALL_READ, Finding
from kdump.format.record.chunk import Chunk
from kdump.item import LogStart, SnapshotStart
from kdump.render.times import iso
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.dump.selection import Selection
    from kdump.item import Item

_NAMED = 4  # places that have a line


class Searched:
    """Watches what a selection yields; goes from process to process."""

    def __init__(self) -> None:
        self._is_found = False
        self._places: list[str] = []
        self._more = 0

    def see(self, item: Item) -> None:
        """Take one item into account."""
        if isinstance(item, Chunk | LogStart | SnapshotStart):  # these stand before the first that is found in a log
            self._is_found = True
        elif isinstance(item, Finding) and (item.gap or item.code in NOT_ALL_READ):
            self._not_searched(_place(item))
        elif isinstance(item, OpenFailure) and item.kind != "skipped":
            self._not_searched(item.sentence)

    def lines(self, selection: Selection) -> Iterator[str]:
        """Yield what to say, once all is done; nothing where something was found.

        Args:
            selection: what was wanted.
        """
        if self._is_found:
            return
        ranges = list(_ranges(selection))
        yield "nothing found" + (f"; searched was only {', '.join(ranges)}" if ranges else "")
        for place in self._places:
            yield f"not searched: {place}"
        if self._more:
            yield f"not searched: {self._more} more places"

    def _not_searched(self, place: str) -> None:
        if len(self._places) < _NAMED:
            self._places.append(place)
        else:
            self._more += 1


def _place(finding: Finding) -> str:
    said = finding.file
    if finding.position is not None:
        said += f": bytes {finding.position}..{finding.position + max(1, finding.length or 0) - 1}"
    if finding.offset is not None:
        last = finding.offset if finding.last_offset is None else finding.last_offset
        said += f", offsets {finding.offset}..{last}"
    return f"{said} ({finding.code.name} {finding.code.slug})"


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
