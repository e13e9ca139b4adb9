"""Rows of JSON that are read back, one a line: what carve and salvage have written beside data, known losses.

Strategy: a line at a time, so that a list costs its longest line and what is kept of it. A line has a size and a number
of values that it may have: they say what it can take in memory. The fields that count are held to a table
(`json_rules`); others may stand beside them, as later versions have more.
"""

from __future__ import annotations

import base64
import os
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any

from kdump.format.java_values import MAX_LONG
from kdump.storage.json_rules import BadValueError, an_object, bounded, encoded, fields, number, parsed, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kdump.storage.json_rules import Rule

_MOST_LINE = 8 * 1024 * 1024  # bytes
_PIECE = 256 * 1024


def rows_in(
    read_at: Callable[[int, int], bytes], rules: Mapping[str, Rule], *, is_all: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of some types, each with the number of its line, from 1 on; rows of other types are passed over.

    Args:
        read_at: as a Source has it: bytes from a position on, fewer only at the end.
        rules: of the rows of each type that counts.
        is_all: lines of other types are looked at too: each must be a row of something.

    Raises:
        BadValueError: a line is no row, or a row is not what it must be; the path begins with the line.
        OSError: something cannot be read.
    """
    names = [f'"{one}"'.encode("ascii") for one in rules]
    for at, line in lines_in(read_at):
        if not (is_all or any(one in line for one in names)):  # most rows are of other types
            continue
        try:
            row = an_object(parsed(bounded(line)), "")
            rule = rules.get(str(row.get("type")))
            if rule is not None:
                rule(row, "")
        except BadValueError as error:
            raise BadValueError(f"line {at}:", str(error)) from None
        if rule is not None:
            yield at, row


def lines_in(read_at: Callable[[int, int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, without their ends, each with its number from 1 on.

    A mark of the byte order before the first one, as some editors write it, is passed over.

    Args:
        read_at: as a Source has it.

    Raises:
        BadValueError: a line is longer than any that kdump writes.
        OSError: something cannot be read.
    """
    position, number_of_line, rest = 0, 1, b""
    if read_at(0, len(BOM_UTF8)) == BOM_UTF8:
        position = len(BOM_UTF8)
    while piece := read_at(position, _PIECE):
        position += len(piece)
        *whole, last = piece.split(b"\n")
        for one in whole:
            line, rest = rest + one, b""
            if line.strip():
                yield number_of_line, line
            number_of_line += 1
        rest += last
        if len(rest) > _MOST_LINE:
            raise BadValueError(f"line {number_of_line}:", f"has more than {_MOST_LINE} bytes")
    if rest.strip():
        yield number_of_line, rest


def shown(value: object, path: str) -> None:
    """A name or a path as a row has it: text, or its bytes in Base64 where they are none."""
    if isinstance(value, dict):
        fields({"base64": encoded})(value, path)
    else:
        text(value, path)


def name_of(value: object) -> str | None:
    """Return a name or a path as a row has it, once it was held to `shown`; null stays None."""
    if isinstance(value, dict):
        return os.fsdecode(base64.b64decode(value["base64"]))
    return None if value is None else str(value)


COUNT = number(0, MAX_LONG)
"""A size, a position, an offset, or how many there are."""
