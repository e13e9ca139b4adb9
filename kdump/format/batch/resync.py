"""Find the next batch after the chain of lengths is lost.

Strategy: a length lies outside the CRC, so after damage it proves nothing. What proves a boundary is a CRC. Two of
them are asked, in one pass over the bytes after the damage: the CRC of the damaged batch itself (if it is right up to
some later header, that is where the batch ends, and its length field is all that is wrong), and the CRC of the batch
that seems to begin there. Places that are asked at all have a header in which every field makes sense. Index entries
bound the search where they point at such a batch; where the budget of bytes is spent they are all that is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import _scan, layout
from kdump.format.batch.window import crc_of_range
from kdump.format.kernels import wire
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from kdump.format.source import Source

_STEP = 256 * 1024
_BUDGET = 4  # bytes under a CRC for each byte of the log
_WEAK_BUDGET = 2  # of these, bytes of candidates that no header follows
_SEARCH_BUDGET = 4  # bytes searched a second time, for each byte of the log
_CANDIDATE = 1024  # what looking at one candidate again costs, in bytes searched
_LONGEST = layout.MAX_INT + layout.LOG_OVERHEAD  # bytes of a batch
_LEAST = 1024 * 1024  # a budget is never smaller
_SMALL = 64 * 1024  # a candidate without a header after it is tried up to this size only


class Boundary(Value):
    """The end of a search."""

    position: int  # the next confirmed boundary, the end of the log when there is none
    magic: int | None  # how to read the damaged batch when its CRC is right up to `position`; None when it is not
    spent: bool = False  # the search ended early because its budget was spent


class Resync:
    """Searches one log.

    Args:
        source: the log.
        hints: makes the positions that the offset index has, ascending; called once, when first needed.
        search: look for batches after damage; otherwise it reaches to the end of the log.

    Attributes:
        spent_from: where the search has ended because its budget was spent, or was not begun; None while it runs.
    """

    def __init__(self, source: Source, hints: Callable[[], Sequence[int]], *, search: bool = True) -> None:
        self._source = source
        self.searches = search  # it looks for batches after damage
        self._end = source.size
        self._make_hints = hints
        self._hints: Sequence[int] | None = None
        self._budget = max(_BUDGET * source.size, _LEAST)
        self._weak_budget = max(_WEAK_BUDGET * source.size, _LEAST)
        self._search_budget = max(_SEARCH_BUDGET * source.size, _LEAST)
        self.spent_from: int | None = None
        # The batch found last: searches that begin before it end there, while its offset is above the floor.
        self._known: int | None = None
        self._known_from = 0

    @property
    def state(self) -> tuple[object, ...]:
        """What it has found and spent."""
        budgets = self._budget, self._weak_budget, self._search_budget
        return (*budgets, self.spent_from, self._known, self._known_from)

    def resume(self, state: tuple[Any, ...]) -> None:
        """Go on with what another one over the same log has found and spent."""
        self._budget, self._weak_budget, self._search_budget, self.spent_from, self._known, self._known_from = state

    def is_batch(self, position: int, floor: int = layout.UNKNOWN) -> bool:
        """Tell whether a batch with the right CRC begins at a position.

        Args:
            position: file position.
            floor: an offset that its base offset (legacy: its offset) must be above.
        """
        header = self._source.read_at(position, layout.RECORDS_AT)
        if len(header) <= layout.HEADER_UP_TO_MAGIC:
            return False
        offset = wire.i64(header, layout.OFFSET_AT)
        size = wire.i32(header, layout.SIZE_AT)
        end = position + layout.LOG_OVERHEAD + size
        if size < layout.MIN_SIZE_V0 or end > self._end or offset <= floor:
            return False
        return self._right_magic(header, position, end) is not None

    def _right_magic(self, header: bytes, position: int, end: int) -> int | None:
        """The magic under which [position, end) has the right CRC; the one it carries is tried first."""
        magic = header[layout.MAGIC_AT]
        magic -= (magic & 0x80) << 1  # a negative one is below 2, as the scan reads it
        for tried in (0, layout.MAGIC_V2) if magic < layout.MAGIC_V2 else (layout.MAGIC_V2,):
            if tried and end - position < layout.RECORDS_AT:
                continue
            at = layout.CRC_AT if tried else layout.LEGACY_CRC_AT
            start = position + (layout.ATTRIBUTES_AT if tried else layout.MAGIC_AT)
            self._budget -= end - start
            stored = wire.u32(header, at)
            if crc_of_range(self._source, start, end, tried) == stored:
                return tried or magic
        return None

    def nothing_between(self, start: int, end: int) -> bool:
        """Tell whether an earlier search has shown that no batch begins in (start, end), or no search is left."""
        return (
            not self.searches
            or self.spent_from is not None
            or (self._known is not None and self._known_from <= start and end <= self._known)
        )

    def after(self, position: int, floor: int) -> Boundary:
        """Find the end of the damage that begins at a position.

        Args:
            position: where the chain is lost: the last boundary that is confirmed.
            floor: the last offset that is known to be right.
        """
        if not self.searches:
            self.spent_from = position if self.spent_from is None else self.spent_from
            return Boundary(self._end, None)
        bound = self._bound(position, floor)
        if self.spent_from is not None:
            return Boundary(bound, None, spent=True)
        searched = self.nothing_between(position, bound)
        own = _OwnCrc(self._source, position, floor)
        if searched and (not own.possible or self._search_budget <= 0):
            return Boundary(bound, None)
        for place in self._candidates(position + 1, bound, floor):
            magic = own.right_up_to(place)
            if magic is not None:
                return Boundary(place, magic)
            if searched:
                self._search_budget -= _CANDIDATE
                if self._search_budget <= 0:
                    return Boundary(bound, None)
                continue
            if self._confirmed(place, floor, bound):
                self._known, self._known_from = place, position
                return Boundary(place, None)
            if self._budget <= 0:
                self.spent_from = place
                return Boundary(bound, None, spent=True)
        if searched:
            self._search_budget -= bound - position
        else:
            self._known, self._known_from = bound, position
        return Boundary(bound, own.right_up_to(bound))

    def _bound(self, position: int, floor: int) -> int:
        """The nearest boundary after `position` that is known without a search."""
        if self._known is not None and self._known_from <= position < self._known:
            if self._is_above(self._known, floor) or self._search_budget <= 0:
                return self._known
            self._search_budget -= self._known - position  # it was found when less was known: search once more
            self._known = None
        return next((hint for hint in self._hints_after(position) if self.is_batch(hint, floor)), self._end)

    def _is_above(self, position: int, floor: int) -> bool:
        """Whether the batch that begins at a position has an offset above the floor; the end of the log has."""
        return position == self._end or wire.i64(self._source.read_at(position, 8), 0) > floor

    def _hints_after(self, position: int) -> Sequence[int]:
        if self._hints is None:
            self._hints = self._make_hints()
        return [hint for hint in self._hints if position < hint < self._end][:16]

    def _candidates(self, start: int, stop: int, floor: int) -> Iterator[int]:
        """Places in [start, stop) with a header in which every field makes sense."""
        buffer = memoryview(bytearray(_STEP + layout.RECORDS_AT))
        while start < stop:
            data = self._source.next_data(start)
            if data - start > layout.RECORDS_AT:
                start = data - layout.RECORDS_AT  # a header may begin in the last zeros before data
            length = min(_STEP, stop - start)
            if length <= 0:
                return
            held = self._source.read_into(start, buffer[: length + layout.RECORDS_AT])
            buffer[held:] = bytes(len(buffer) - held)
            at = 0
            while (at := _scan.candidate(buffer, at, length, start, self._end, floor)) < length:
                yield start + at
                at += 1
            start += length

    def _confirmed(self, place: int, floor: int, bound: int) -> bool:
        """Whether a batch begins at a plausible header: its CRC is right, and what follows agrees."""
        header = self._source.read_at(place, layout.LOG_OVERHEAD)
        end = place + layout.LOG_OVERHEAD + wire.u32(header, layout.SIZE_AT)
        if end not in (bound, self._end):
            after = self._source.read_at(end, layout.RECORDS_AT).ljust(layout.RECORDS_AT, b"\0")
            if not _scan.plausible(after, 0, end, self._end, floor):
                self._weak_budget -= end - place
                if end - place > _SMALL or self._weak_budget <= 0:
                    return False
        return self.is_batch(place, floor)


class _OwnCrc:
    """The CRC of a damaged batch over ever more bytes, each byte once for each way to read it.

    Only for a header in which every field but the length makes sense: otherwise it is not a batch.
    """

    def __init__(self, source: Source, position: int, floor: int) -> None:
        self._source = source
        self._position = position
        header = source.read_at(position, layout.RECORDS_AT)
        self._ways: list[list[int]] = []
        if len(header) <= layout.HEADER_UP_TO_MAGIC:
            return
        magic = header[layout.MAGIC_AT]
        if header_makes_sense(header, layout.MAGIC_V2, floor):
            stored = wire.u32(header, layout.CRC_AT)
            least = position + layout.RECORDS_AT
            self._ways.append([layout.MAGIC_V2, stored, 0, position + layout.ATTRIBUTES_AT, least])
        if magic < layout.MAGIC_V2 and header_makes_sense(header, magic, floor):
            stored = wire.u32(header, layout.LEGACY_CRC_AT)
            least = position + layout.LOG_OVERHEAD + (layout.MIN_SIZE_V1 if magic else layout.MIN_SIZE_V0)
            self._ways.append([magic, stored, 0, position + layout.MAGIC_AT, least])

    @property
    def possible(self) -> bool:
        """Whether there is anything to find."""
        return bool(self._ways)

    def right_up_to(self, end: int) -> int | None:
        """The magic under which the CRC is right when the batch ends at `end`; ends are asked for as they ascend."""
        if end - self._position > _LONGEST:
            return None
        for way in self._ways:
            magic, stored, value, at, least = way
            if end < least:
                continue
            way[2] = crc_of_range(self._source, at, end, magic, value)
            way[3] = end
            if way[2] == stored:
                return magic
        return None


def header_makes_sense(header: bytes, magic: int, floor: int) -> bool:
    """Tell whether every field of a header but its length makes sense under a magic, as far as it is there.

    Args:
        header: at most 61 bytes.
        magic: how to read it.
        floor: an offset that its offset must be above.
    """
    if len(header) <= layout.HEADER_UP_TO_MAGIC:
        return False
    length = (layout.MAX_INT // 2).to_bytes(4, "big")  # any records fit
    patched = header[:8] + length + header[12:16] + bytes([magic]) + header[17:]
    if len(patched) > layout.PRODUCER_ID_AT:
        patched = patched.ljust(layout.PRODUCER_EPOCH_AT, b"\xff")  # no producer is -1: a part of it is not an id
    return _scan.plausible(patched.ljust(layout.RECORDS_AT, b"\0"), 0, 0, layout.MAX_INT, floor)
