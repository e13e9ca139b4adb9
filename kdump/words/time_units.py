"""Timestamps in a wrong unit: Kafka has milliseconds; a producer may have given seconds, micro- or nanoseconds."""

from __future__ import annotations

from kdump.words.times import iso

_FIRST, _LAST = 1_262_304_000_000, 4_102_444_800_000  # ms: the years 2010 to 2099, in which times are plausible


def unit_of(timestamp: int) -> str | None:
    """Return the unit that a timestamp seems to be in, where it is not plausible in milliseconds; else None.

    Args:
        timestamp: as stored.
    """
    if timestamp < 0 or _FIRST <= timestamp < _LAST:
        return None
    if _FIRST <= timestamp * 1000 < _LAST:
        return "seconds"
    if _FIRST <= timestamp // 1000 < _LAST:
        return "microseconds"
    return "nanoseconds" if _FIRST <= timestamp // 1_000_000 < _LAST else None


def in_its_unit(timestamp: int) -> str:
    """Return "looks like seconds: 2026-09-21T14:13:20.000Z" of a timestamp; empty where it is plausible."""
    unit = unit_of(timestamp)
    if unit is None:
        return ""
    right = timestamp * 1000 if unit == "seconds" else timestamp // (1000 if unit == "microseconds" else 1_000_000)
    return f"looks like {unit}: {iso(right)}"
