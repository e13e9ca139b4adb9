"""Numbers, sizes and ranges for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")
_STEP = 1000
_MOST_RANGES = 4  # that a sentence names


def size(count: int) -> str:
    """Return a number of bytes, rounded: it says how much, not where."""
    if count < _STEP:
        return f"{count} B"
    value = float(count)
    for unit in _UNITS:
        value /= _STEP
        if value < _STEP - 0.5 or unit == _UNITS[-1]:
            break
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"


def counted(count: int, noun: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 file", "1,200 files".

    Args:
        count: the number.
        noun: for one.
        many: for another number; the noun with an s when None.
    """
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def span(first: int, last: int, noun: str) -> str:
    """Return an inclusive range in digits alone, to be pasted into a command: "offsets 1000..1999", "offset 5"."""
    return f"{noun} {first}" if last <= first else f"{noun}s {first}..{last}"


def offset_span(start: int, end: int) -> str:
    """Return the offsets of a log as a span.

    Args:
        start: log start offset.
        end: log end offset: the one behind the last.
    """
    return span(start, end - 1, "offset") if start < end else "no records"


def byte_span(position: int, length: int) -> str:
    """Return the bytes of a file as a span."""
    return span(position, position + length - 1, "byte")


def brokers(ids: Sequence[int]) -> str:
    """Return "broker 1" or "brokers 1, 2".

    Args:
        ids: of them.
    """
    return f"{'brokers' if len(ids) > 1 else 'broker'} {', '.join(map(str, ids))}"


def some_of(names: Sequence[str], most: int) -> str:
    """Return names as a sentence has them: the first ones, and how many more there are.

    Args:
        names: all of them.
        most: how many are named.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


class NamedRanges:
    """Ranges of offsets as a sentence names them: the first four, and how many more there are."""

    def __init__(self) -> None:
        self._first: list[list[int]] = []
        self._count = self.offsets = 0
        self._last = -1

    def add(self, first: int, last: int) -> None:
        """Take one more, inclusive; they come in the order of offsets."""
        self.offsets += last - first + 1
        if self._count and self._last + 1 == first:
            if self._count <= _MOST_RANGES:
                self._first[-1][1] = last
        else:
            self._count += 1
            if self._count <= _MOST_RANGES:
                self._first.append([first, last])
        self._last = last

    def __str__(self) -> str:
        named = ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in self._first)
        more = f" and {self._count - _MOST_RANGES} more ranges" if self._count > _MOST_RANGES else ""
        return f"{'offset' if self.offsets == 1 else 'offsets'} {named}{more}"
