"""Times for people: ISO 8601 in UTC with milliseconds and Z."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(timestamp: int) -> str | None:
    """Return a time as ISO 8601; None where the calendar ends.

    Args:
        timestamp: ms since the epoch.
    """
    try:
        shown = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return None
    return f"{shown.isoformat(timespec='milliseconds')[: -len('+00:00')]}Z"


def time_text(timestamp: int, *, iso: bool) -> str:
    """Return a time of a file as the options ask for: what is no date (-1: none) stays the number that it is.

    Args:
        timestamp: ms since the epoch.
        iso: as ISO 8601.
    """
    shown = moment(timestamp) if iso and timestamp >= 0 else None
    return str(timestamp) if shown is None else shown
