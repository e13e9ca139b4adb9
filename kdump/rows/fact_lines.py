"""Rows as lines for grep, `TYPE key=value ...`: the keys, the values and the order are those of JSON.

    prediction partition=orders-0 start=unclean loads=true logStartOffset=0 logEndOffset=233 ...
    prediction.segments partition=orders-0 baseOffset=0 action=truncate size=21504

A value is a word as it stands, or JSON: a text that is no such word is in double quotes, a list is in square brackets.
What JSON has as null or as an empty list is left out. A row within a row has keys with a dot (`cause.code=L02`); each
of several has a line of its own behind that of the outer row, which begins with the name that this one has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.row import Kind
from kdump.rows.json_lines import fields_of
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.row import Row

_NAMES = (Kind.PARTITION, Kind.PATH)  # of what a row is about
_OPENING = ('"', "[", "{")  # a word that begins so would be read as JSON


def row_facts(row: Row) -> str:
    """Return the lines of a row, each with its end."""
    names = (made.key for made in row.columns if made.kind in _NAMES and not made.is_list)
    return facts(row.row_name, fields_of(row), next(names, None))


def facts(type_: str, fields: Mapping[str, object], name: str | None = None) -> str:
    """Return the lines of an object of JSON, each with its end.

    Args:
        type_: of the object.
        fields: its members without the type.
        name: the key of what it is about; None for the first one that is a text.
    """
    if name is None:
        name = next((key for key, value in fields.items() if isinstance(value, str)), None)
    words, below = [type_], []
    for key, value in _flat(fields, ""):
        if isinstance(value, list) and value and all(map(_is_row, value)):
            of = "" if name is None or fields.get(name) is None else f" {name}={word(fields[name])}"
            below += [f"{type_}.{key}{of}{_pairs(one)}" for one in value]
        elif value is not None and value != []:
            words.append(f"{key}={word(value)}")
    return "".join([f"{line}\n" for line in (" ".join(words), *below)])


def status_line(verdict: str, path: str) -> str:
    """Return the line of a verdict, with its end: the path as it is, or as JSON where it would break the line."""
    is_safe = escape(path) == path and not path.startswith('"')
    return f"{verdict}\t{path if is_safe else _quoted(path)}\n"


def word(value: object) -> str:
    """Return a value as one word: bare, or as JSON where a bare one would be read as something else."""
    if isinstance(value, str):
        return value if _is_bare(value) else _quoted(value)
    return json.dumps(value, separators=(",", ":"))


def _flat(fields: Mapping[str, object], before: str) -> Iterator[tuple[str, object]]:
    """Yield keys and values; those of an object within it with its key before them."""
    for key, value in fields.items():
        if _is_row(value):
            yield from _flat(value, f"{before}{key}.")  # type: ignore[arg-type]
        else:
            yield f"{before}{key}", value


def _pairs(row: Mapping[str, object]) -> str:
    pairs = [f" {key}={word(value)}" for key, value in _flat(row, "") if value is not None and value != []]
    return "".join(pairs)


def _is_row(value: object) -> bool:
    """Whether it is an object with members: bytes that are no text are none."""
    return isinstance(value, dict) and list(value) != ["base64"]


def _is_bare(text: str) -> bool:
    if not text or text.startswith(_OPENING) or " " in text or '"' in text or "\\" in text or escape(text) != text:
        return False
    try:
        json.loads(text)
    except ValueError:
        return not any(map(str.isspace, text))
    return False  # a number, or true


def _quoted(text: str) -> str:
    shown = json.dumps(text, ensure_ascii=False)
    return shown if escape(shown) == shown else json.dumps(text)
