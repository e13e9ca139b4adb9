"""What uses the space, as text: one name a line, bytes first, so that `sort -n` and a person find the largest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.finding import Finding, Severity
from kdump.render.sink import Sink
from kdump.render.terminal.sentences import fitted
from kdump.render.text.findings import finding_line
from kdump.rows.usage import Growth, Usage
from kdump.words.escape import escape
from kdump.words.numbers import counted, size
from kdump.words.times import moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.rows.usage import Freeable
    from kdump.tally import Tally

_BAR = 24  # cells of the longest bar
_SHORT_BAR = 12  # the same, where a row says what retention frees
_LEAST_NAME = 12  # characters down to which a name is shortened
_NARROW = 80  # columns, below which no bar is drawn and nothing is aligned
_SPARSE = 2  # times as long as what they take on the disk
_EIGHTHS = " ▏▎▍▌▋▊▉"


class UsageText(Sink):
    """Writes rows as lines; on a terminal with bars and rounded numbers.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
        terminal: columns of the terminal; None for a pipe.
    """

    def __init__(
        self, write: Callable[[str], None], error: Callable[[str], None], tally: Tally, terminal: int | None
    ) -> None:
        super().__init__(write, error, tally)
        self._terminal = terminal
        self._rows: list[Usage] = []  # of a terminal: the longest bar is known at the end

    @takes(Usage)
    def _row(self, row: Usage) -> None:
        if self._terminal is None:
            self._write(f"{escape(_line(row))}\n")
        else:
            self._rows.append(row)

    @takes(Growth)
    def _growth(self, growth: Growth) -> None:
        """Write the line of a growth; it comes behind all rows."""
        self._chart()
        self._write_fitted(escape(_growth_line(growth, self._terminal)))

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        if finding.severity is not Severity.NOTE:
            self._error(finding_line(finding))

    def end(self, _status: int) -> None:
        """Write what was held."""
        self._chart()

    def _chart(self) -> None:
        """Write the rows with bars, the longest for the largest."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        width = self._terminal or _NARROW
        sizes = [row.weight for row in rows]
        largest, total = max(1, *sizes), sum(sizes)
        longs = ["" if row.by == "key" else _long(row.size, row.weight) for row in rows]
        frees = ["  ".join(filter(None, (long, _frees(row.freeable)))) for long, row in zip(longs, rows, strict=True)]
        aside = max(map(len, frees))
        bar = _SHORT_BAR if aside else _BAR
        room = width - 9 - 6 - (bar + 4 + (aside + 2 if aside else 0) if width >= _NARROW else 2)
        labels = [_shortened(escape(_name(row)), room) for row in rows]
        longest = max(map(len, labels))
        for one, label, free in zip(sizes, labels, frees, strict=True):
            share = f"{size(one):>9} {100 * one / max(1, total):4.0f}%"
            if width < _NARROW:
                self._write_fitted(f"{share}  {label}  {free}".rstrip())
            else:
                self._write(f"{share} {_bar(one, largest, bar)}  {label:<{longest}}  {free}".rstrip() + "\n")
        files = f"in {counted(sum(row.files for row in rows), 'file')}"
        if (long := _long(sum(row.size for row in rows), total)) and rows[0].by != "key":
            files += f", {long}"
        if rows[0].by == "key":
            files = f"of keys and values, uncompressed; {size(sum(row.size for row in rows))} {files}"
        now = sum(row.freeable.size for row in rows if row.freeable is not None)
        said = f"; retention frees {size(now)} now" if any(row.freeable is not None for row in rows) else ""
        self._write_fitted(f"{size(total):>9}        {files}{said}")

    def _write_fitted(self, line: str) -> None:
        """Write a line, wrapped by word on a terminal."""
        self._write(f"{line if self._terminal is None else fitted(line, self._terminal)}\n")


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


def _shortened(text: str, room: int) -> str:
    """A text that fits, its middle left out."""
    room = max(room, _LEAST_NAME)
    if len(text) <= room:
        return text
    head = (room - 1) // 2
    return f"{text[:head]}…{text[len(text) - (room - 1 - head) :]}"


def _moment(time: int | None) -> str:
    """A time as a person reads it, as ms where no calendar has it."""
    return "never" if time is None else moment(time) or str(time)


def _name(row: Usage) -> str:
    if row.name is None:
        return "(other)"
    return row.name.decode("utf-8", "backslashreplace") if isinstance(row.name, bytes) else row.name


def _line(row: Usage) -> str:
    parts = [f"{row.size} {_name(row)} by={row.by} log={row.log_bytes} index={row.index_bytes} other={row.other_bytes}"]
    parts.append(f"leftover={row.leftover_bytes} allocated={row.allocated_bytes} files={row.files}")
    parts.append(f"segments={row.segments} batches={row.batches} records={row.records}")
    if row.key_bytes is not None:
        parts.append(f"keys={row.key_bytes} values={row.value_bytes} uncompressed={row.uncompressed_bytes}")
    if row.superseded_records is not None:
        parts.append(f"superseded={row.superseded_records} superseded_bytes={row.superseded_bytes}")
    if row.first_timestamp is not None:
        parts.append(f"first={_moment(row.first_timestamp)} last={_moment(row.max_timestamp)}")
    if not row.exact:
        parts.append(f"exact=false error={row.error_bytes}")
    if (free := row.freeable) is not None:
        when = "never" if free.next_at is None else f"{free.next_bytes}@{_moment(free.next_at)}"
        parts.append(f"freeable={free.size} freeable_segments={free.segments} next={when}")
    parts += [f"compaction_waits={why!r}" for why in row.compaction_waits]
    parts += [f'assumed="{what}"' for what in row.assumed]
    return " ".join(parts)


def _growth_line(one: Growth, width: int | None) -> str:
    name = "(all)" if one.name is None else _name_of(one.name)
    name = name if width is None else _shortened(name, width - len("growth :  "))
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
