"""What is said where a selection finds nothing: what was not searched, on purpose or because it cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.record.chunk import Chunk
from kdump.item import LogStart, SnapshotStart
from kdump.render.not_searched import NotSearched
from kdump.render.times import iso
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.dump.selection import Selection
    from kdump.item import Item


class Searched:
    """Watches what a selection yields; goes from process to process.

    Args:
        asked: which records are wanted, as the options say it; empty where nobody may see that.
    """

    def __init__(self, asked: str = "") -> None:
        self._asked = asked
        self._is_found = self._is_missing = False
        self._not_searched = NotSearched()

    def see(self, item: Item) -> None:
        """Take one item into account."""
        if isinstance(item, Chunk | LogStart | SnapshotStart):  # these stand before the first that is found in a log
            self._is_found = True
        self._is_missing |= isinstance(item, OpenFailure) and item.missing
        self._not_searched.see(item)

    def lines(self, selection: Selection) -> Iterator[str]:
        """Yield what to say, once all is done; nothing where something was found, or a file was not even there.

        Args:
            selection: what was wanted.
        """
        if self._is_found or self._is_missing:
            return
        ranges = list(_ranges(selection))
        wanted = f" for {self._asked}" if self._asked else ""
        yield f"nothing found{wanted}" + (f"; searched was only {', '.join(ranges)}" if ranges else "")
        yield from self._not_searched.lines()


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
