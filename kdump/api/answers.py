"""Find offsets and times in a partition: `find_offset` and `find_time`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.api.errors import Error, error_of
from kdump.api.select import number_of, time_of
from kdump.find.finder import Finder, open_partition
from kdump.find.query import offset_query, time_query
from kdump.finding import ignore
from kdump.format.read_limits import ReadLimits
from kdump.rows.lookup import LookupAnswer as Answer
from kdump.storage.file_source import OpenFailure
from kdump.storage.segment import UnreadableError
from kdump.value import Value

if TYPE_CHECKING:
    from datetime import datetime

    from kdump.find.query import Query


class Location(Value):
    """The place of a record.

    Attributes:
        offset: of the record, or the end of the log that was asked for; None for a batch without such a record.
        timestamp: of the record, ms; -1 for an end of the log, as brokers answer.
        leader_epoch: None where there is none.
        file: the log; None for an end of the log.
        position: of the batch, bytes.
        base_offset, last_offset: of the batch.
        what: stands at the offset: record, compacted, aborted or control; None where that is not known.
        next: the offset of the next record at or behind it; None for none, or not known.
        next_committed: that of the next one that a read_committed consumer gets; None for none, or not known.
    """

    offset: int | None
    timestamp: int | None
    leader_epoch: int | None
    file: str | None
    position: int | None
    base_offset: int | None
    last_offset: int | None
    what: str | None
    next: int | None
    next_committed: int | None


def find_offset(path: str | os.PathLike[str], offset: int | str, *, scan: bool = False) -> Location | None:
    """Return where a broker finds an offset for a consumer; None where it finds nothing.

    Args:
        path: partition directory, or a log of it.
        offset: absolute offset, "earliest" or "latest".
        scan: answer from the data, read from the start, not by the indexes.

    Raises:
        Error: the partition cannot be read.
        TypeError, ValueError: that is not an offset.
    """
    text = offset if isinstance(offset, str) else str(number_of("offset", offset))
    return _found(os.fspath(path), offset_query(text), scan=scan, times=False)


def find_time(path: str | os.PathLike[str], time: int | str | datetime, *, scan: bool = False) -> Location | None:
    """Return the first record at or after a time as a broker finds it; None where it finds nothing.

    Args:
        path: partition directory, or a log of it.
        time: ms since the epoch, a datetime (UTC unless it says otherwise), or text: ISO 8601, now-2h, "earliest",
            "latest", "max".
        scan: answer from the data, read from the start, not by the indexes.

    Raises:
        Error: the partition cannot be read.
        TypeError, ValueError: that is not a time.
    """
    text = time if isinstance(time, str) else str(time_of("time", time))
    return _found(os.fspath(path), time_query(text), scan=scan, times=True)


def _found(path: str, query: Query, *, scan: bool, times: bool) -> Location | None:
    try:
        partition, limits = open_partition(path, ignore), ReadLimits()
        finder = Finder(partition, limits, scan=scan, times=times, report=ignore)
        items = list(finder.answers([query]))
    except UnreadableError as error:
        raise error_of(error.problem) from None
    except OSError as error:
        raise Error(f"{error.filename}: cannot be read: {error.strerror}", error.filename or path) from error
    for item in items:
        if isinstance(item, OpenFailure):
            raise error_of(item)
    answer = next(item for item in items if isinstance(item, Answer))
    if answer.error is not None:
        return None
    return Location(
        answer.offset,
        answer.timestamp,
        answer.leader_epoch,
        file=answer.file,
        position=answer.position,
        base_offset=answer.base_offset,
        last_offset=answer.last_offset,
        what=None if answer.what is None else answer.what.value,
        next=answer.next,
        next_committed=answer.next_committed,
    )
