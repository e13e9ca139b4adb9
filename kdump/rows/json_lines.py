"""JSON lines: one object a line, ASCII only, `type` first, Kafka's names."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any

from kdump.row import Kind
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum

    from kdump.finding import Code
    from kdump.row import Column, Row


def line(type_: str, fields: dict[str, object]) -> str:
    """Return one line, without its end."""
    return json.dumps({"type": type_, **fields}, separators=(",", ":"))


def row_json(row: Row) -> str:
    """Return the line of a row."""
    return line(row.row_name, fields_of(row))


def fields_of(row: Row) -> dict[str, object]:
    """Return the keys and values of a row, those of rows within it too."""
    return {
        made.key: value if encode is None else encode(value)
        for made, encode in _encoders(type(row))
        for value in (getattr(row, made.attribute),)
    }


def _encoders(of: type[Row]) -> list[tuple[Column, Callable[[Any], object] | None]]:
    found = _ENCODERS.get(of)
    if found is None:
        found = _ENCODERS[of] = [(made, _encoder(made)) for made in of.columns]
    return found


_ENCODERS: dict[type, list[tuple[Column, Callable[[Any], object] | None]]] = {}


def _encoder(made: Column) -> Callable[[Any], object] | None:
    """How a value of a column is written; None where JSON has it as it is."""
    one = _OF_KIND.get(made.kind)
    if made.is_list and made.is_optional:
        return lambda value: None if value is None else [one(each) for each in value] if one else list(value)
    if made.is_list:
        return lambda value: [one(each) for each in value] if one else list(value)
    return None if one is None else lambda value: None if value is None else one(value)


def text_or_bytes(data: bytes | None) -> object:
    """Return bytes as JSON has them: a string when they are UTF-8, else an object with Base64; null stays null."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def name(path: str | bytes) -> object:
    """Return a path as JSON has it: it is bytes too, and not always UTF-8."""
    if isinstance(path, bytes):
        return text_or_bytes(path)
    return path if path.isascii() else text_or_bytes(os.fsencode(path))


def safe_value(value: int | str | None) -> int | str | None:
    """Return a value, text as `safe_text`."""
    return safe_text(value) if isinstance(value, str) else value


def safe_text(text: str) -> str:
    """Return text for people; bytes in it that were not UTF-8 are made visible, as not all who read JSON take them."""
    if text.isascii():
        return text
    return "".join([escape(char) if "\ud800" <= char <= "\udfff" else char for char in text])


def inner(row: Row) -> object:
    """Return a row within another one: an object, or a list of its values."""
    fields = fields_of(row)
    return list(fields.values()) if row.is_list_of_values else fields


def _code(code: Code | str) -> str:
    return code if isinstance(code, str) else code.name


def _word(word: str | Enum) -> str:
    return safe_text(word if isinstance(word, str) else word.value)


_OF_KIND: dict[Kind, Callable[[Any], object]] = {
    Kind.WORD: _word,
    Kind.CODE: _code,
    Kind.VALUE: safe_value,
    Kind.TEXT: safe_text,
    Kind.PATH: name,
    Kind.PARTITION: name,
    Kind.DATA: text_or_bytes,
    Kind.ROW: inner,
}
