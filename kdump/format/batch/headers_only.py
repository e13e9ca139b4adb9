"""Which stretches of a log can have a time: told by the headers of its batches alone, which are read one by one.

A header is read where the length of the batch before leads to, and of it no more than must be known. It is believed as
long as all headers make sense. Where one does not, all is wanted from the batch before it on: that may be damaged, and
who walks there judges it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.batch.window import Window
    from kdump.format.source import Source

_FIRST = Struct(">iibIhiq")  # of a header: from the size to the base timestamp
_LATEST = Struct(">q")  # behind that: the largest timestamp
_ALL = _FIRST.size + _LATEST.size
_ENOUGH = 256  # headers after which the size of batches is looked at
_SMALL = 512  # bytes of a batch: all bytes are read as fast as such headers alone
_JOINED = 64 * 1024  # bytes between two stretches that are read, too, instead of a second window


class TimeRange(Value):
    """Times that are asked for."""

    # start, end: ms since the epoch, half-open; None for no bound
    start: int | None = None
    end: int | None = None
    of_batches: bool = False  # of batches, from the base timestamp to the largest; else of records

    @property
    def is_all(self) -> bool:
        """Whether there is no bound."""
        return self.start is None and self.end is None

    def leaves_out(self, attributes: int, first: int, latest: int) -> bool:
        """Tell whether nothing of a batch of magic 2 is in the range.

        Args:
            attributes: of the batch.
            first: its base timestamp.
            latest: its largest timestamp.
        """
        if self.start is not None and latest < self.start:
            return True
        if self.end is None:
            return False
        if self.of_batches:
            return first >= self.end
        return latest >= self.end and bool(attributes & layout.TIMESTAMP_TYPE_FLAG)

    def begins_behind(self, attributes: int, first: int) -> bool:
        """Tell whether the first record of a batch of magic 2 is behind the range; records after it may be earlier.

        Args:
            attributes, first: of the batch, as above.
        """
        return self.end is not None and first >= self.end and not attributes & layout.DELETE_HORIZON_FLAG

    def kept_in(self, window: Window) -> list[int]:
        """Return the numbers of the batches of a window that may have something in the range."""
        columns = (
            layout.MAGIC,
            layout.CRC,
            layout.COMPUTED_CRC,
            layout.ATTRIBUTES,
            layout.BASE_TIMESTAMP,
            layout.MAX_TIMESTAMP,
        )
        rows = enumerate(zip(*map(window.column, columns), strict=True))
        return [
            k
            for k, (magic, stored, computed, attributes, first, latest) in rows
            if magic < layout.MAGIC_V2 or stored != computed or not self.leaves_out(attributes, first, latest)
        ]


class Stretch(TupleValue):
    """Batches one behind the other."""

    # start, end: positions, half-open
    start: int
    end: int


class HeaderRun(TupleValue):
    """What the headers of a range of a log tell."""

    wanted: list[Stretch]  # what may have the times
    behind: list[Stretch]  # the batches among the others whose first record is known to be too late, and no other


def stretches(source: Source, whole: Stretch, times: TimeRange) -> HeaderRun:
    """Read the headers of a range of a log.

    Args:
        source: the log.
        whole: the range; a batch begins at its start.
        times: that are asked for.

    Raises:
        OSError: the log cannot be read.
    """
    wanted: list[Stretch] = []
    behind: list[Stretch] = []
    at, stop = whole
    size, count, before = source.size, 0, at
    length = _FIRST.size  # that is read of a header: the one before tells what this one will need
    while at < stop:
        header = source.read_at(at + layout.SIZE_AT, length)
        end = at
        if len(header) == length:
            rest, _, magic, _, attributes, delta, first = _FIRST.unpack_from(header)
            if magic == layout.MAGIC_V2 and rest >= layout.MIN_SIZE_V2 and delta >= 0:
                end += layout.LOG_OVERHEAD + rest
        if not at < end <= size:
            _join(wanted, Stretch(before, stop))
            break
        if times.begins_behind(attributes, first):
            length = _FIRST.size
            if not times.of_batches:
                behind.append(Stretch(at, end))
        else:
            if length != _ALL:
                header, length = source.read_at(at + layout.SIZE_AT, _ALL), _ALL
            if not times.leaves_out(attributes, first, *_LATEST.unpack_from(header, _FIRST.size)):
                _join(wanted, Stretch(at, end))
        before, at, count = at, end, count + 1
        if count == _ENOUGH and at - whole.start < _ENOUGH * _SMALL:
            _join(wanted, Stretch(at, stop))
            break
    return HeaderRun(wanted, behind)


def all_before(source: Source, places: Iterable[int], time: int) -> bool:
    """Tell whether the batches at some places have an earlier largest timestamp than a time.

    Args:
        source: the log.
        places: positions of batches of magic 2.
        time: ms since the epoch.

    Raises:
        OSError: the log cannot be read.
    """
    for place in places:
        header = source.read_at(place + layout.SIZE_AT, _ALL)
        if len(header) < _ALL or _FIRST.unpack_from(header)[2] != layout.MAGIC_V2:
            return False
        if _LATEST.unpack_from(header, _FIRST.size)[0] >= time:
            return False
    return True


def joined(some: Iterable[Stretch]) -> list[Stretch]:
    """Return stretches in the order of the log, those that lie near each other as one."""
    made: list[Stretch] = []
    for one in sorted(some):
        _join(made, one)
    return made


def _join(made: list[Stretch], one: Stretch) -> None:
    if made and one.start - made[-1].end <= _JOINED:
        made[-1] = made[-1]._replace(end=max(made[-1].end, one.end))
    else:
        made.append(one)
