"""Names for batches and records: codec, day, group."""

from __future__ import annotations

from datetime import UTC, datetime

from kdump.format.batch import layout
from kdump.format.codec.base import codec_name

_MS = 1000
_DAY = 86_400_000
_days: dict[int, str | None] = {}


def codec_of(attributes: int) -> str | None:
    """Return the name of a batch's codec, None where Kafka has none.

    Args:
        attributes: of the batch.
    """
    number = attributes & layout.CODEC_MASK
    return codec_name(number) if number <= layout.CODEC_ZSTD else None


def day(timestamp: int) -> str | None:
    """Return the day of a timestamp in UTC, None for one that no calendar has.

    Args:
        timestamp: ms since the epoch.
    """
    if timestamp < 0:
        return None
    number = timestamp // _DAY
    if number not in _days:
        if len(_days) > 100_000:
            _days.clear()
        try:
            _days[number] = datetime.fromtimestamp(number * _DAY // _MS, UTC).date().isoformat()
        except (ValueError, OverflowError, OSError):
            _days[number] = None
    return _days[number]
