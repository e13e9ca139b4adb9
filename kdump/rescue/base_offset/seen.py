"""The batches of a log as those of copies are compared, and their neighbours."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.base_offset.findings import BASE_OFFSET
from kdump.format.batch.window import header_at
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.source import Source
    from kdump.rescue.scanned_log import ScannedLog
    from kdump.rescue.valid_runs import Wrappers

_PIECE = 1024 * 1024
_COLUMNS = (
    layout.MAGIC,
    layout.ATTRIBUTES,
    layout.BASE_OFFSET,
    layout.SIZE,
    layout.CRC,
    layout.LAST_OFFSET,
    layout.POSITION,
    layout.BASE_SEQUENCE,
)


class CopyLog(TupleValue):
    """A log of a copy."""

    copy: int  # number of the copy
    raw: Source  # its bytes as they are
    source: Source  # as its runs count on them
    facts: ScannedLog  # what it has
    # base, end: base offset by its name, and where the next log begins, or other files know it to end; None where
    # nothing tells it
    base: int | None
    end: int | None

    @property
    def before(self) -> int:
        """The last offset before the log; layout.UNKNOWN where nothing tells it."""
        return layout.UNKNOWN if self.base is None else self.base - 1

    @property
    def stop(self) -> int:
        """The first offset behind the log, above all that can be where nothing tells it."""
        return layout.LARGEST_OFFSET + 1 if self.end is None else self.end


class SeenBatch(TupleValue):
    """A batch by its header: offsets, bytes, the CRC that it has, the first sequence of its producer.

    Batches are in the order of their offsets; those that are the same in all copies lie together. `log` is the number
    of the log that has it.
    """

    first: int  # of a legacy wrapper by the messages inside
    size: int
    crc: int
    last: int
    position: int
    sequence: int
    log: int = 0
    is_wrapper: bool = False  # of magic 0 or 1, and compressed

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.size

    @property
    def content(self) -> tuple[int, int, int]:
        """What equal batches have in common, wherever they stand."""
        return self.size, self.crc, self.last - self.first

    @property
    def place(self) -> tuple[int, int, int]:
        """What the same batch has in common in all copies."""
        return self[:3]

    def moved_to(self, offset: int, log: str) -> Finding:
        """Return what is wrong with it where its base offset is another one.

        Args:
            offset: the right one.
            log: the path.

        Reports: O03.
        """
        found = Finding(Code.O03, log, self.position, self.size, offset=self.first, last_offset=self.last)
        behind = self.last - self.first if self.is_wrapper else 0  # the header of a wrapper has its last offset
        return found.replace(field=BASE_OFFSET, expected=offset + behind, found=self.first + behind)


class Neighbourhood(TupleValue):
    """A batch where its log has it, with the batches before and behind it; None where there is none."""

    row: SeenBatch
    before: SeenBatch | None
    after: SeenBatch | None


def seen_in(windows: Iterable[Window], wrappers: Wrappers, log: int = 0) -> Iterator[SeenBatch]:
    """Yield the batches of windows.

    Args:
        windows: of a log.
        wrappers: of magic 0 and 1 in it that were read.
        log: its number.
    """
    for window in windows:
        columns = [window.column(one) for one in _COLUMNS]
        for cells in zip(*columns, strict=True):
            yield _seen(cells, wrappers, log)


def seen_at(log: Source, positions: Iterable[int], wrappers: Wrappers) -> Iterator[SeenBatch]:
    """Yield the batches at some positions; `wrappers` of magic 0 and 1 were read."""
    for position in positions:
        header = header_at(log, position)
        if header is not None:
            yield _seen([header[one] for one in _COLUMNS], wrappers, 0)


def _seen(cells: Sequence[int], wrappers: Wrappers, log: int) -> SeenBatch:
    magic, attributes, first, size, crc, last, position, sequence = cells
    is_wrapper = magic < layout.MAGIC_V2 and bool(attributes & layout.CODEC_MASK)
    if is_wrapper:
        first, count = wrappers.at(position) or (last, 1)
        first = min(first, last - count + 1)
    return SeenBatch(first, size, crc, last, position, sequence, log=log, is_wrapper=is_wrapper)


def with_neighbours(rows: Iterable[SeenBatch]) -> Iterator[Neighbourhood]:
    """Yield batches, each with the one before it and the one behind it."""
    before: SeenBatch | None = None
    for row, after in pairwise(chain(rows, (None,))):
        assert row is not None
        yield Neighbourhood(row, before, after)
        before = row


def are_same_bytes(one: SeenBatch, log: Source, other: SeenBatch, other_log: Source) -> bool:
    """Tell whether two batches are equal in all that their CRCs are of."""
    if one.size != other.size:
        return False
    for at in range(layout.MAGIC_AT, one.size, _PIECE):
        size = min(_PIECE, one.size - at)
        if log.read_at(one.position + at, size) != other_log.read_at(other.position + at, size):
            return False
    return True
