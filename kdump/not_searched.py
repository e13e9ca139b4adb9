"""What was not searched: what is damaged, or cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding, Trait
from kdump.item import RecordsUnread
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import DID_YOU_MEAN

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = 4  # places that have a line


class NotSearched:
    """Watches what a verb yields; goes from process to process.

    Args:
        said: the words before a place.
    """

    def __init__(self, said: str = "not searched") -> None:
        self._said = said
        self._places: list[str] = []
        self._more = 0

    def see(self, item: object, *, is_lost: bool = False) -> None:
        """Take one item into account.

        Args:
            item: of the verb.
            is_lost: it is a finding about a batch that the verb does not look into for that.
        """
        if isinstance(item, RecordsUnread):
            self._add(_place(item.finding))
        elif isinstance(item, Finding) and (is_lost or item.is_not_read or Trait.RECORDS_SKIPPED in item.code.traits):
            self._add(_place(item))
        elif isinstance(item, OpenFailure) and item.kind != "skipped":
            self._add(item.sentence.partition(DID_YOU_MEAN)[0])  # the hint may name what nobody may see

    def lines(self) -> Iterator[str]:
        """Yield what to say of it."""
        for place in self._places:
            yield f"{self._said}: {place}"
        if self._more:
            yield f"{self._said}: {self._more} more places"

    def _add(self, place: str) -> None:
        if len(self._places) < _NAMED:
            self._places.append(place)
        else:
            self._more += 1


def _place(finding: Finding) -> str:
    said = finding.file
    if finding.position is not None and finding.length != 0:
        said += f": bytes {finding.position}..{finding.position + max(1, finding.length or 0) - 1}"
    if finding.offset is not None:
        last = finding.offset if finding.last_offset is None else finding.last_offset
        said += f", offsets {finding.offset}..{last}"
    return f"{said} ({finding.code.name} {finding.code.slug})"
