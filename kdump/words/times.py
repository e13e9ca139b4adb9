"""Times and durations for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = 253_402_300_799_999  # ms since the epoch: the end of the year 9999, where calendars end
_DAY = 86_400_000
_LONG = 1000 * _DAY
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def moment(timestamp: int) -> str | None:
    """Return a time in ISO 8601, UTC, with milliseconds; None where the calendar ends.

    Args:
        timestamp: ms since the epoch.
    """
    try:
        shown = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return None
    return f"{shown.isoformat(timespec='milliseconds')[: -len('+00:00')]}Z"


def iso(timestamp: int) -> str:
    """Return a time (ms since the epoch) in ISO 8601, UTC; the number where no calendar has it."""
    return moment(timestamp) or str(timestamp)


def time_text(timestamp: int, *, as_iso: bool) -> str:
    """Return a time of a file as the options ask for: a number that is not a date (-1: none) stays a number.

    Args:
        timestamp: ms since the epoch.
        as_iso: in ISO 8601.
    """
    return iso(timestamp) if as_iso and timestamp >= 0 else str(timestamp)


def duration(milliseconds: int) -> str:
    """Return a span of time in the units that it has: "7 d", "3 min 7 s", "1500 ms"."""
    rest, parts = abs(milliseconds), []
    if rest < _UNITS[-2][0] and rest % _UNITS[-1][0]:
        return f"{milliseconds} ms"
    for unit, name in (*_UNITS, (1, "ms")):
        if rest >= unit:
            parts.append(f"{rest // unit} {name}")
            rest %= unit
    return ("-" if milliseconds < 0 else "") + (" ".join(parts) or "0 ms")


def age(milliseconds: int) -> str:
    """Return how old something is: exact where a millisecond may decide, in days where it is long ago."""
    return f"{milliseconds // _DAY} d" if milliseconds >= _LONG else duration(milliseconds)
