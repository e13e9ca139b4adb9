"""An answer of find as a line of text, in Kafka's way: key, colon, blank, value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.render.times import moment

if TYPE_CHECKING:
    from kdump.item import Location


def location_line(location: Location, *, with_query: bool) -> str:
    """Return the line of an answer, without its end; fields that it has no value for are left out.

    Args:
        location: the answer.
        with_query: begin with the question, where there are many.
    """
    line = f"query: {location.query.strip()} " if with_query else ""
    if location.error is not None:
        return f"{line}nothing: {location.error}"
    timestamp = location.timestamp
    values = (
        ("offset", location.offset),
        ("timestamp", None if timestamp is None or timestamp < 0 else f"{timestamp}{iso(timestamp)}"),
        ("leaderEpoch", location.leader_epoch),
        ("file", location.file),
        ("position", location.position),
        ("baseOffset", location.base_offset),
        ("lastOffset", location.last_offset),
    )
    for name, value in values:
        if value is not None:
            line += f"{name}: {value} "
    return line[:-1]


def iso(timestamp: int) -> str:
    """Return a time as ISO 8601 in UTC, in brackets after a blank; nothing where the calendar ends.

    Args:
        timestamp: ms since the epoch.
    """
    shown = moment(timestamp)
    return f" ({shown})" if shown else ""
