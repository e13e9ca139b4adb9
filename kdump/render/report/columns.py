"""Tables that fit: the columns that are needed least are left out, then what names need goes to the next line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Severity
from kdump.render.report.sentences import command_at
from kdump.render.report.styled import Text, cell_len, clipped
from kdump.render.text.findings import finding_line
from kdump.value import Value, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kdump.finding import Finding
    from kdump.render.report.styled import Paper

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
"""Of what stands for a severity."""
NARROWEST = 80
"""Columns of a terminal, below which a table would cut its cells."""
_GAP = "  "
_LEAST_ROOM = 8  # columns, below which every letter would have a line
_SHORT = 16  # columns that a name keeps before a column is left out
_LEAST = 10  # columns that it keeps when nothing can be left out any more
_MARKS = "-._/,;:="  # behind which a name is broken
_ID_WIDTH = 22  # of a topic's or directory's id
_ID = pattern(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])")
_WORD = pattern(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])|[^ ._\/,;:=-]+[._\/,;:=-]?")


class TableColumn(Value):
    """A column."""

    name: str  # its heading
    right: bool = False  # numbers are set to the right
    drop: int = 0  # which goes first when there is no room, the highest; 0 for one that always stays
    shrink: bool = False  # its cells may take more than one line
    listed: bool = False  # they are names between commas: on a screen some are counted only


def shortened(text: str, room: int) -> str:
    """Return a text that takes no more columns than there are, its middle left out: for what moves, as a bar."""
    if cell_len(text) <= room or room < 1:
        return text
    head = (room - 1) // 2
    return f"{clipped(text, head)}…{clipped(text[::-1], room - 1 - head)[::-1]}"


def _some_of(text: str, room: int) -> str:
    """Return as many of the names of a list as there is room for, and how many more there are."""
    names = text.split(", ")
    for kept in range(min(len(names) - 1, room), 0, -1):  # a name and its comma have at least a column
        some = f"{', '.join(names[:kept])}, {len(names) - kept} more"
        if cell_len(some) <= room:
            return some
    return text


def write_table(paper: Paper, columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]]) -> None:
    """Write a table with a line of headings; columns that are left out are named below it.

    A cell that is longer than its column goes on in the next line: nothing of it is lost.

    Args:
        paper: what it is written on.
        columns: of the table.
        rows: the cells of each row.
    """
    widths = fitting(columns, rows, paper.width)
    kept = [number for number, width in enumerate(widths) if width]
    heads = [Text(column.name, "bold") for column in columns]
    for row in (heads, *rows):
        cells = [_cell(row[number], columns[number], widths[number], is_screen=paper.is_screen) for number in kept]
        for at in range(max(map(len, cells))):
            line = [
                (lines[at] if at < len(lines) else Text()).padded(
                    widths[number] - (lines[at].cell_len if at < len(lines) else 0), left=columns[number].right
                )
                for number, lines in zip(kept, cells, strict=True)
            ]
            paper.line(_stripped(Text(_GAP).joined(line)))
    left = [column.name for number, column in enumerate(columns) if not widths[number] and _has_cells(rows, number)]
    if left:
        write_sentence(paper, Text(f"hidden: {', '.join(left)} (--format lines has them)", "bright_black"))


def fitting(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    """Return how many columns of the terminal each column takes; 0 for one that is left out."""
    natural = [
        max(cell_len(column.name), *(row[number].cell_len for row in rows)) if rows else cell_len(column.name)
        for number, column in enumerate(columns)
    ]
    widths = [one if _has_cells(rows, number) else 0 for number, one in enumerate(natural)]
    words = _whole_words(columns, rows) if _total(widths) > width else {}
    _shrink(widths, width, {number: max(_SHORT, word) for number, word in words.items()})
    for number in sorted(range(len(columns)), key=lambda one: -columns[one].drop):
        if _total(widths) <= width or not columns[number].drop:
            break
        widths[number] = 0
    for number, one in enumerate(natural):  # what was left out may make room again for a name
        if columns[number].shrink and widths[number]:
            widths[number] += max(0, min(one - widths[number], width - _total(widths)))
    for least in (words, dict.fromkeys(words, _LEAST)):
        _shrink(widths, width, least)
    return widths


def _shrink(widths: list[int], width: int, least: Mapping[int, int]) -> None:
    """Take from the widest name first.

    Args:
        widths: of the columns; changed.
        width: of the line.
        least: what each column that may be narrower keeps, by its number.
    """
    while _total(widths) > width:
        wide = [number for number, kept in least.items() if widths[number] > kept]
        if not wide:
            return
        widths[max(wide, key=lambda number: widths[number])] -= 1


def _whole_words(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]]) -> dict[int, int]:
    """Return what the widest word of each column takes that may be narrower: ids stay whole, very long words do not."""
    found = {}
    for number, column in enumerate(columns):
        if column.shrink:
            texts_here = (column.name, *(row[number].plain for row in rows))
            widest = max(cell_len(word) for text in texts_here for word in _WORD.findall(text) or [""])
            found[number] = min(max(widest, _LEAST), _ID_WIDTH)
    return found


def _total(widths: Sequence[int]) -> int:
    kept = [one for one in widths if one]
    return sum(kept) + len(_GAP) * max(0, len(kept) - 1)


def _has_cells(rows: Sequence[Sequence[Text]], number: int) -> bool:
    return any(row[number].cell_len for row in rows)


def _cell(cell: Text, column: TableColumn, width: int, *, is_screen: bool) -> list[Text]:
    """Return the lines of a cell."""
    if cell.cell_len <= width:
        return [cell]
    plain = cell.plain
    if column.listed and is_screen:
        plain = _some_of(plain, width)
    return [Text(line, cell.style) for line in _broken(plain, width)]


def _broken(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a cell: broken at a blank, else behind a mark that names have, else where the room ends."""
    at = 0
    while True:
        rest = _more_than(text, at, width)
        if cell_len(rest) <= width:
            yield rest
            return
        fits = clipped(rest, width) or rest[0]
        end = fits.rfind(" ") if rest[len(fits)] != " " else len(fits)
        if end <= 0:
            end = max(fits.rfind(mark) for mark in _MARKS) + 1 or len(fits)
        for one in _ID.finditer(rest):
            if one.start() < end < one.end():
                end = one.start() or (one.end() if one.end() <= len(fits) else end)
                break
        yield rest[:end].rstrip(" ")
        at += end
        while text[at : at + 1] == " ":
            at += 1


def _more_than(text: str, at: int, width: int) -> str:
    """Return what comes next of a text: more than there is room for, or all the rest; not all of it for each line."""
    size = 2 * width + 2
    while True:
        piece = text[at : at + size]
        if at + size >= len(text) or cell_len(piece) > width:
            return piece
        size *= 2


def _stripped(line: Text) -> Text:
    return line.cut(0, len(line.plain.rstrip(" ")))


def texts(cells: Sequence[str], style: str = "") -> list[Text]:
    """Return cells of one style."""
    return [Text(cell, style) for cell in cells]


def folded_lines(text: Text, width: int, first: Text | None = None, rest: Text | None = None) -> Iterator[Text]:
    """Yield a text wrapped by word; a command in it stands on a line by itself, with all behind it.

    Args:
        text: without line ends.
        width: columns of a line.
        first, rest: what stands before its first line, and before the others.
    """
    prefix, later = first or Text(), rest or Text()
    if prefix.cell_len + text.cell_len <= width:
        yield Text.of((prefix, text))
        return
    plain = text.plain
    begin = command_at(plain)
    room = max(_LEAST_ROOM, width - max(prefix.cell_len, later.cell_len))
    for line in text.cut(0, begin).wrapped(room):
        yield Text.of((prefix, line))
        prefix = later
    if begin < len(plain):
        yield Text.of((prefix, text.cut(begin)))


def write_sentence(paper: Paper, text: Text) -> None:
    """Write a text wrapped by word, all lines but the first set in by two columns more than that one.

    Args:
        paper: what it is written on.
        text: without line ends.
    """
    plain = text.plain
    indent = len(plain) - len(plain.lstrip(" "))
    for line in folded_lines(text.cut(indent), paper.width, Text(" " * indent), Text(" " * (indent + 2))):
        paper.line(line)


def style_of(severity: Severity) -> str:
    """Return the style of a sentence about a finding."""
    return COLOURS[severity] if severity is Severity.NOTE else f"bold {COLOURS[severity]}"


def write_finding(paper: Paper, finding: Finding) -> None:
    """Write the line of a finding in the colour of its severity.

    Args:
        paper: what it is written on.
        finding: what is wrong.
    """
    write_sentence(paper, Text(finding_line(finding), style_of(finding.severity)))
