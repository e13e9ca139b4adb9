"""Words that groups, transactions and clusters share."""

from __future__ import annotations

from kdump.words.times import iso

CAUTION = "abort it only when its producer is gone for good: readers of committed data never see what it wrote"


def time(timestamp: int | None) -> str:
    """Return a time in ISO 8601, "none" where there is none."""
    return "none" if timestamp is None or timestamp < 0 else iso(timestamp)
