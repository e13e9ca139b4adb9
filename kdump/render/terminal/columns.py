"""Tables that fit: long names are shortened in the middle, then columns are left out, and no cell is wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.text import Text

from kdump.finding import Severity
from kdump.render.text.findings import finding_line
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from kdump.finding import Finding

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
"""Of what stands for a severity; a sentence about more than a note is bold too."""
NARROWEST = 80
"""Columns of a terminal, below which a table would cut its cells."""
_GAP = "  "
_SHORT = 24  # columns down to which a name is shortened before a column is left out
_LEAST = 12  # columns down to which it is shortened when nothing can be left out any more


class TableColumn(Value):
    """A column."""

    name: str  # its heading
    right: bool = False  # numbers are set to the right
    drop: int = 0  # which goes first when there is no room, the highest; 0 for one that always stays
    shrink: bool = False  # its cells may be shortened
    listed: bool = False  # they are names between commas: whole ones are left out, and counted


def shortened(text: str, room: int) -> str:
    """Return a text that takes no more columns than there are, its middle left out."""
    if cell_len(text) <= room or room < 1:
        return text
    head = (room - 1) // 2
    start = chop_cells(text, head)[0] if head else ""
    end = chop_cells(text[::-1], room - 1 - head)[0][::-1]
    return f"{start}…{end}"


def _some_of(text: str, room: int) -> str:
    """Return as many of the names of a list as there is room for, and how many more there are."""
    names = text.split(", ")
    for kept in range(len(names) - 1, 0, -1):
        some = f"{', '.join(names[:kept])}, {len(names) - kept} more"
        if cell_len(some) <= room:
            return some
    more = f", {len(names) - 1} more" if len(names) > 1 else ""
    return shortened(names[0], room - len(more)) + more if room > len(more) else shortened(text, room)


def write_table(console: Console, columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]]) -> None:
    """Write a table with a line of headings; columns that are left out are named below it.

    Args:
        console: the terminal.
        columns: of the table.
        rows: the cells of each row.
    """
    widths = fitting(columns, rows, console.width)
    kept = [number for number, width in enumerate(widths) if width]
    heads = [Text(column.name, style="bold") for column in columns]
    for row in (heads, *rows):
        line = Text(_GAP).join([_cell(row[number], columns[number], widths[number]) for number in kept])
        line.rstrip()
        console.print(line, soft_wrap=True)
    left = [column.name for number, column in enumerate(columns) if not widths[number] and _has_cells(rows, number)]
    if left:
        console.print(Text(f"(no room for: {', '.join(left)})", style="bright_black"), soft_wrap=True)


def fitting(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    """Return how many columns of the terminal each column takes; 0 for one that is left out."""
    natural = [
        max(cell_len(column.name), *(row[number].cell_len for row in rows)) if rows else cell_len(column.name)
        for number, column in enumerate(columns)
    ]
    widths = [one if _has_cells(rows, number) else 0 for number, one in enumerate(natural)]
    _shrink(columns, widths, width, _SHORT)
    for number in sorted(range(len(columns)), key=lambda one: -columns[one].drop):
        if _total(widths) <= width or not columns[number].drop:
            break
        widths[number] = 0
    for number, one in enumerate(natural):  # what was left out may make room again for a name
        if columns[number].shrink and widths[number]:
            widths[number] += max(0, min(one - widths[number], width - _total(widths)))
    _shrink(columns, widths, width, _LEAST)
    return widths


def _shrink(columns: Sequence[TableColumn], widths: list[int], width: int, least: int) -> None:
    """Take from the widest name first."""
    names = [number for number, column in enumerate(columns) if column.shrink]
    while names and _total(widths) > width:
        widest = max(names, key=lambda number: widths[number])
        if widths[widest] <= least:
            return
        widths[widest] -= 1


def _total(widths: Sequence[int]) -> int:
    kept = [one for one in widths if one]
    return sum(kept) + len(_GAP) * max(0, len(kept) - 1)


def _has_cells(rows: Sequence[Sequence[Text]], number: int) -> bool:
    return any(row[number].cell_len for row in rows)


def _cell(cell: Text, column: TableColumn, width: int) -> Text:
    if cell.cell_len > width:
        shorter = _some_of if column.listed else shortened
        cell = Text(shorter(cell.plain, width), style=cell.style)
    cell = cell.copy()
    blanks = max(0, width - cell.cell_len)
    (cell.pad_left if column.right else cell.pad_right)(blanks)
    return cell


def texts(cells: Sequence[str], style: str = "") -> list[Text]:
    """Return cells of one style."""
    return [Text(cell, style=style) for cell in cells]


def write_sentence(console: Console, text: Text) -> None:
    """Write a text wrapped by word, all lines but the first set in by two columns more than that one.

    Args:
        console: the terminal.
        text: without line ends.
    """
    indent = len(text.plain) - len(text.plain.lstrip(" ")) + 2
    for number, line in enumerate(text.wrap(console, max(8, console.width - indent), overflow="fold")):
        line.rstrip()
        if number:
            line.pad_left(indent)
        console.print(line, soft_wrap=True)


def write_finding(console: Console, finding: Finding) -> None:
    """Write the line of a finding in the colour of its severity.

    Args:
        console: the terminal.
        finding: what is wrong.
    """
    weight = "" if finding.severity is Severity.NOTE else "bold "
    write_sentence(console, Text(finding_line(finding), style=f"{weight}{COLOURS[finding.severity]}"))
