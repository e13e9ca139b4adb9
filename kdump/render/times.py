"""Times and spans of time for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000
_LONG = 1000 * _DAY
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def iso(timestamp: int) -> str:
    """Return a time (ms since the epoch) in ISO 8601, UTC; the number where no calendar has it."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return f"{moment.isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"


def duration(milliseconds: int) -> str:
    """Return a span of time, in its largest whole unit: "7 d", "90 s", "1500 ms"."""
    for unit, name in _UNITS:
        if milliseconds and milliseconds % unit == 0:
            return f"{milliseconds // unit} {name}"
    return f"{milliseconds} ms"


def age(milliseconds: int) -> str:
    """Return how old something is: exact where a millisecond may decide, in days where it is long ago."""
    return f"{milliseconds // _DAY} d" if milliseconds >= _LONG else duration(milliseconds)
