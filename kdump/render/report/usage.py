"""What uses the space, as text: one name a line, the largest first, each with a bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.render.report.columns import write_sentence
from kdump.render.report.sink import TableSink
from kdump.render.report.styled import Text
from kdump.rows.usage import Growth, Usage
from kdump.words.escape import escape
from kdump.words.numbers import counted, size
from kdump.words.times import moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.render.report.styled import Paper
    from kdump.rows.usage import Freeable

_BAR = 24  # cells of the longest bar
_SHORT_BAR = 12  # the same, where a row says what retention frees
_NARROW = 80  # columns, below which no bar is drawn and nothing is aligned
_SPARSE = 2  # times as long as what they take on the disk
_EIGHTHS = " ▏▎▍▌▋▊▉"


class UsageText(TableSink):
    """Writes rows with bars and rounded numbers.

    Args:
        paper: what they are written on.
        error: takes one line for stderr.
        notes: list findings of severity note; else they are counted.
    """

    def __init__(self, paper: Paper, error: Callable[[str], None], *, notes: bool = False) -> None:
        super().__init__(paper, error, raw=False, notes=notes)
        self._rows: list[Usage] = []  # the longest bar is known at the end
        self._without_growth = 0  # names of whose growth the timestamps tell nothing

    @takes(Usage)
    def _row(self, row: Usage) -> None:
        self._rows.append(row)

    @takes(Growth)
    def _growth(self, growth: Growth) -> None:
        """Write the line of a growth; it comes behind all rows."""
        self._chart()
        if growth.bytes_per_day is None and growth.name is not None:
            self._without_growth += 1
            return
        if self._without_growth and growth.name is None:
            self._say(f"growth of {counted(self._without_growth, 'name')}: the timestamps tell none")
        self._say(escape(_growth_line(growth)))

    def end(self, _status: int) -> None:
        """Write what was held."""
        self._chart()
        self._conclude()

    def _chart(self) -> None:
        """Write the rows with bars, the longest for the largest."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        width = self._paper.width
        sizes = [row.weight for row in rows]
        largest, total = max(1, *sizes), sum(sizes)
        longs = ["" if row.by == "key" else _long(row.size, row.weight) for row in rows]
        frees = ["  ".join(filter(None, (long, _frees(row.freeable)))) for long, row in zip(longs, rows, strict=True)]
        aside = max(map(len, frees))
        bar = _SHORT_BAR if aside else _BAR
        room = width - 9 - 6 - (bar + 4 + (aside + 2 if aside else 0) if width >= _NARROW else 2)
        labels = [escape(_name(row)) for row in rows]  # whole: one that is too long goes on in the next line
        longest = max((len(one) for one in labels if len(one) <= room), default=0)
        for one, label, free in zip(sizes, labels, frees, strict=True):
            share = f"{size(one):>9} {100 * one / max(1, total):4.0f}%"
            if width < _NARROW:
                self._say(f"{share}  {label}  {free}".rstrip())
            else:
                self._say(f"{share} {_bar(one, largest, bar)}  {label:<{longest}}  {free}".rstrip())
        count = sum(row.files for row in rows)
        files = f"in {counted(count, 'file')}" if count else "in no file: nothing was counted"
        if (long := _long(sum(row.size for row in rows), total)) and rows[0].by != "key":
            files += f", {long}"
        if rows[0].by == "key":
            files = f"of keys and values, uncompressed; {size(sum(row.size for row in rows))} {files}"
        now = sum(row.freeable.size for row in rows if row.freeable is not None)
        said = f"; retention frees {size(now)} now" if any(row.freeable is not None for row in rows) else ""
        self._say(f"{size(total):>9}        {files}{said}")

    def _say(self, line: str) -> None:
        write_sentence(self._paper, Text(line))


def _long(length: int, weight: int) -> str:
    """How long files are, where they take much less space than that."""
    return f"{size(length)} long" if length > _SPARSE * max(weight, 1) else ""


def _frees(free: Freeable | None) -> str:
    """What retention frees of a name, now or next."""
    if free is None or not (free.size or free.next_at is not None):
        return ""
    if free.size:
        return f"frees {size(free.size)} now"
    return f"frees {size(free.next_bytes)} on {_moment(free.next_at)[:10]}"


def _bar(value: int, largest: int, width: int) -> str:
    eighths = value * width * len(_EIGHTHS) // largest
    whole, part = divmod(eighths, len(_EIGHTHS))
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(width)


def _moment(time: int | None) -> str:
    """A time as a person reads it, as ms where no calendar has it."""
    return "never" if time is None else moment(time) or str(time)


def _name(row: Usage) -> str:
    if row.name is None:
        return "(other)"
    return row.name.decode("utf-8", "backslashreplace") if isinstance(row.name, bytes) else row.name


def _growth_line(one: Growth) -> str:
    name = "(all)" if one.name is None else _name_of(one.name)
    if one.bytes_per_day is None:
        return f"growth {name}: the timestamps tell none"
    span = f"from {_moment(one.from_timestamp)} to {_moment(one.to_timestamp)}"
    if one.full_at is not None:
        full = f"full in {one.days_left} days, {_moment(one.full_at)}"
    else:
        full = "not full in 100 years" if one.bytes_per_day else "never full"
    aside = (
        f"; {counted(one.set_aside_batches, 'batch', 'batches')} with odd timestamps set aside"
        if one.set_aside_batches
        else ""
    )
    return f"growth {name}: {one.bytes_per_day} bytes a day {span}; {full}{aside}"


def _name_of(name: str | bytes) -> str:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
