"""The keywords that select records: the options of dump as Python values."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from operator import index
from typing import TYPE_CHECKING, SupportsIndex, TypedDict

from kdump.find.query import Ask, time_query
from kdump.format.java_values import MAX_LONG, MIN_LONG
from kdump.format.record.selection import Selection, contradiction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Text = str | bytes
    Time = int | str | datetime


class Selected(TypedDict, total=False):
    """A selection; every condition must hold, and where one has several values, any of them will do.

    The names and meanings are those of dump's options. Several values are a list or a tuple; names and values of
    headers are pairs, with None for any value.
    """

    from_offset: int
    to_offset: int
    from_time: Time
    to_time: Time
    from_position: int
    limit: int
    tail: int
    key: Text | Iterable[Text]
    key_regex: str | re.Pattern[str] | Iterable[str | re.Pattern[str]]
    value_regex: str | re.Pattern[str] | Iterable[str | re.Pattern[str]]
    header: Text | tuple[Text, Text | None] | list[Text | tuple[Text, Text | None]]
    min_size: int
    max_size: int
    producer_id: int | Iterable[int]
    leader_epoch: int | Iterable[int]
    control: bool
    transactional: bool
    tombstones: bool
    committed: bool
    aborted: bool


def selection_of(wanted: Selected) -> Selection | None:
    """Return what keywords select, None for all.

    Raises:
        TypeError: there is no such keyword, or a value has the wrong type.
        ValueError: a value is out of range, or two keywords contradict each other.
    """
    fields: dict[str, Any] = {}
    for name, value in wanted.items():
        if name not in _READERS:
            raise TypeError(f"no selection '{name}': there are {', '.join(_READERS)}")
        if value is None or value is False:
            continue
        field, read = _READERS[name]
        if field in fields:
            raise ValueError("committed and aborted exclude each other")
        fields[field] = read(name, value)
    why = contradiction(fields, str)
    if why is not None:
        raise ValueError(why)
    return Selection(**fields) if fields else None


def whole(least: int) -> Callable[[str, object], int]:
    """Return what reads a whole number that is not below another."""

    def read(name: str, value: object) -> int:
        number = number_of(name, value)
        if number < least:
            raise ValueError(f"{name}: {number} is below {least}")
        return min(number, MAX_LONG)  # nothing is above it

    return read


def number_of(name: str, value: object) -> int:
    """Return a whole number, one of NumPy too, as an int."""
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        raise TypeError(f"{name}: {value!r} is not a whole number")
    return index(value)


def _numbers(name: str, value: object) -> tuple[int, ...]:
    return tuple(whole(-1)(name, one) for one in _several(value))


def time_of(name: str, value: object) -> int:
    """Return a time as ms since the epoch; a datetime without a zone is UTC, as a text without one."""
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return max(MIN_LONG, min(index(value), MAX_LONG))
    if not isinstance(value, str):
        raise TypeError(f"{name}: {value!r} is not a time: ms since the epoch, a datetime, or text")
    query = time_query(value)
    if query.ask is not Ask.TIME:
        raise ValueError(f"{name}: {value!r} is not the time of a record")
    return query.number


def _true(_name: str, value: object) -> bool:
    return bool(value)


def _text(name: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name}: {value!r} is neither bytes nor text")
    return os.fsencode(value)


def _keys(name: str, value: object) -> tuple[bytes, ...]:
    return tuple(_text(name, one) for one in _several(value))


def _patterns(name: str, value: object) -> tuple[re.Pattern[str], ...]:
    try:
        return tuple(re.compile(one) for one in _several(value))
    except re.error as error:
        raise ValueError(f"{name}: {value!r} is not a valid regular expression: {error}") from None


def _headers(name: str, value: object) -> tuple[tuple[bytes, bytes | None], ...]:
    found = []
    for one in value if isinstance(value, list) else [value]:
        key, content = one if isinstance(one, tuple) else (one, None)
        found.append((_text(name, key), None if content is None else _text(name, content)))
    return tuple(found)


def _several(value: Any) -> Iterable[Any]:  # noqa: ANN401 (one value, or several)
    return (value,) if isinstance(value, str | bytes | SupportsIndex | re.Pattern) else value


_READERS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "from_offset": ("from_offset", whole(0)),
    "to_offset": ("to_offset", whole(0)),
    "from_time": ("from_time", time_of),
    "to_time": ("to_time", time_of),
    "from_position": ("from_position", whole(0)),
    "limit": ("limit", whole(1)),
    "tail": ("tail", whole(1)),
    "key": ("keys", _keys),
    "key_regex": ("patterns", _patterns),
    "value_regex": ("value_patterns", _patterns),
    "header": ("headers", _headers),
    "min_size": ("min_size", whole(0)),
    "max_size": ("max_size", whole(0)),
    "producer_id": ("producers", _numbers),
    "leader_epoch": ("epochs", _numbers),
    "control": ("control", _true),
    "transactional": ("transactional", _true),
    "tombstones": ("tombstones", _true),
    "committed": ("outcome", lambda _name, _value: "committed"),
    "aborted": ("outcome", lambda _name, _value: "aborted"),
}
