"""The schemas of man/kdump-json.5, made from the rows: python -m tests.support.json_manual puts them into the page."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import textwrap
from pathlib import Path
from typing import Any

import kdump.rows
from kdump.finding import Finding
from kdump.row import Column, Kind, Row
from kdump.rows.files import PlaceRow

PAGE = Path(__file__).resolve().parents[2] / "man" / "kdump-json.5"
ANY = ["object", "array", "string", "number", "boolean", "null"]
SCALARS = {
    Kind.FLAG: "boolean",
    **dict.fromkeys((Kind.WORD, Kind.CODE, Kind.TEXT, Kind.COMMAND, Kind.NAME, Kind.TOPIC), "string"),
}
OF_TABLES = ("partitionSummary", "replicaDiff", "unread")
"""Rows of tables only: where they are from stands before their own columns."""
BYTES = (Kind.PATH, Kind.PARTITION, Kind.DATA)
WIDTH = 114


def row_types() -> dict[str, type[Row]]:
    """The types of rows that stand for themselves, by name."""
    modules = [importlib.import_module(f"kdump.rows.{one.name}") for one in pkgutil.iter_modules(kdump.rows.__path__)]
    found = {one.row_name: one for module in modules for one in vars(module).values() if is_row(one)}
    return {Finding.row_name: Finding, **found}


def is_row(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, Row) and bool(one.row_name)


def schema_of(of: type[Row]) -> dict[str, Any]:
    """The schema of a type of row."""
    own = {"type": {"const": of.row_name}} if of.row_name else {}
    place = schema_of(PlaceRow)["properties"] if of.row_name in OF_TABLES else {}
    properties = own | place | {one.key: _column(of, one) for one in of.columns}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _column(of: type[Row], column: Column) -> dict[str, Any]:
    one = _one(of, column)
    if column.is_list and "| None, ...]" in of.__annotations__.get(column.attribute, ""):
        one = _or_null(one)
    if column.is_list:
        is_nested = of.__annotations__.get(column.attribute, "").startswith("tuple[tuple[")
        one = {"type": "array", "items": {"type": "array", "items": one} if is_nested else one}
    return _or_null(one) if column.is_optional else one


def _one(of: type[Row], column: Column) -> dict[str, Any]:
    if column.of is not None and column.of.is_list_of_values:
        return {"type": "array", "prefixItems": [_one(column.of, one) for one in column.of.columns]}
    if column.of is not None:
        return schema_of(column.of)
    if column.words:
        return {"enum": list(column.words)}
    if column.kind in BYTES:
        return {"$ref": "bytes"}
    if column.kind is Kind.VALUE:
        return {"type": ["integer", "string"]}
    if column.kind in SCALARS:
        return {"type": SCALARS[column.kind]}
    if column.kind in (Kind.JSON, Kind.HEADERS):
        return {"type": ANY}
    annotation = of.__annotations__.get(column.attribute) or vars(of)[column.attribute].fget.__annotations__["return"]
    return {"type": "number" if "float" in annotation else "integer"}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    if "$ref" in schema or schema["type"] in ("object", "array"):
        return {"anyOf": [schema, {"type": "null"}]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {"type": [*types, "null"]} if "null" not in types else schema


def block(name: str, schema: dict[str, Any]) -> str:
    """The schema as it stands in the page."""
    rows = ",\0".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in schema["properties"].items()).split(
        "\0"
    )
    lines = [
        f'{{"$id": {json.dumps(name)}, "type": "object", "properties": {{',
        *(line for row in rows for line in wrapped(row, "    ")),
        "},",
        *wrapped(f' "required": {json.dumps(schema["required"])},', "  "),
        ' "additionalProperties": false}',
    ]
    return "\n".join(lines).replace("-", r"\-").replace("'", r"\(aq")


def wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def with_schemas(page: str) -> str:
    """The page with the schemas of all rows in their places."""
    types = row_types()

    def made(found: re.Match[str]) -> str:
        name = found[2]
        if name not in types or name in BY_HAND:
            return found[0]
        return f"{found[1]}{block(name, schema_of(types[name]))}\n.EE"

    return re.sub(r'(?m)(^\.EX\n)(?=\{"\$id": "([a-zA-Z]+)")[^\0]*?\n\.EE$', made, page)


BY_HAND = ("record", "salvage")
"""Those with keys that are there only sometimes."""


if __name__ == "__main__":
    PAGE.write_text(with_schemas(PAGE.read_text("ascii")), "ascii")
