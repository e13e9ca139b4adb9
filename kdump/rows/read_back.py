"""Rows that kdump has written, read back: the declaration of a row is the table that its JSON is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.java_values import MAX_LONG, MIN_LONG
from kdump.row import Kind
from kdump.storage.json_rows import COUNT, shown
from kdump.storage.json_rules import BadValueError, each_of, fields, in_base64, items, maybe, number, one_of, text

if TYPE_CHECKING:
    from kdump.row import Column, Row
    from kdump.storage.json_rules import Rule

_LONG = number(MIN_LONG, MAX_LONG)


def _value(value: object, path: str) -> None:
    (text if isinstance(value, str) else _LONG)(value, path)


def _data(value: object, path: str) -> None:
    """Bytes of a record, of any number that a line may have: text of any characters, or Base64."""
    if isinstance(value, dict):
        fields({"base64": in_base64})(value, path)
    elif not isinstance(value, str):
        raise BadValueError(path, "is no text")


def _anything(value: object, path: str) -> None:
    if isinstance(value, float) and value != value:  # NaN is no JSON
        raise BadValueError(path, "is no number")


_OF_KIND: dict[Kind, Rule] = {
    **dict.fromkeys((Kind.COUNT, Kind.SIZE, Kind.POSITION), COUNT),
    **dict.fromkeys((Kind.NUMBER, Kind.OFFSET, Kind.TIME, Kind.INT), _LONG),
    **dict.fromkeys((Kind.PATH, Kind.PARTITION), shown),
    **dict.fromkeys((Kind.JSON, Kind.HEADERS), _anything),
    Kind.DATA: _data,
    Kind.VALUE: _value,
    Kind.FLAG: one_of(True, False),
}
_RULES: dict[type[Row], Rule] = {}


def rule_of(of: type[Row]) -> Rule:
    """Return what the JSON of a row must be: each column that is declared, of its kind; what has a default may lack.

    Args:
        of: the type of the row.
    """
    if of not in _RULES:
        needed = {one.key: _column(of, one) for one in of.columns if not one.has_default}
        others = {one.key: _column(of, one) for one in of.columns if one.has_default}
        _RULES[of] = fields(needed, others, more=True)
    return _RULES[of]


def _inner(of: type[Row]) -> Rule:
    """What a row within another one must be."""
    return each_of(*(_column(of, one) for one in of.columns)) if of.is_list_of_values else rule_of(of)


def _column(of: type[Row], column: Column) -> Rule:
    rule = _OF_KIND.get(column.kind, text)
    if column.of is not None:
        rule = _inner(column.of)
    elif column.words:
        rule = one_of(*column.words)
    if column.is_list:
        is_of_pairs = of.__annotations__.get(column.attribute, "").startswith("tuple[tuple[")
        rule = items(each_of(rule, rule) if is_of_pairs else rule)
    return maybe(rule) if column.is_optional else rule
