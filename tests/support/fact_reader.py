"""Reads lines of facts back, as JSON has the same rows: what `--format lines` promises."""

from __future__ import annotations

import json
import re
from typing import Any

_KEY = re.compile(r" ([A-Za-z0-9.]+)=")
_BARE = re.compile(r"[^ ]*")
_DECODER = json.JSONDecoder()

Row = dict[str, Any]


def read(line: str) -> tuple[str, Row]:
    """Return the type of a line, and its keys and values."""
    kind, _, _ = line.partition(" ")
    at, fields = len(kind), {}
    while at < len(line):
        key = _KEY.match(line, at)
        assert key is not None, line[at:]
        at = key.end()
        if line[at : at + 1] in ('"', "[", "{"):
            fields[key[1]], at = _DECODER.raw_decode(line, at)
        else:
            bare = _BARE.match(line, at)
            assert bare is not None
            at = bare.end()
            try:
                fields[key[1]] = json.loads(bare[0])
            except ValueError:
                fields[key[1]] = bare[0]
    return kind, fields


def of_lines(text: str) -> list[tuple[str, Row]]:
    """Return the rows of lines, those of a status left out."""
    return [read(line) for line in text.splitlines() if "\t" not in line]


def of_json(text: str) -> list[tuple[str, Row]]:
    """Return the rows that lines are to have, from JSON: flat, without what is null or empty."""
    found: list[tuple[str, Row]] = []
    for line in text.splitlines():
        row = json.loads(line)
        found += _rows(row.pop("type"), row)
    return found


def _rows(kind: str, row: Row) -> list[tuple[str, Row]]:
    flat: Row = {}
    below: list[tuple[str, Row]] = []
    for key, value in _flat(row, ""):
        if isinstance(value, list) and value and all(map(_is_row, value)):
            below += [(f"{kind}.{key}", dict(_flat(one, ""))) for one in value]
        else:
            flat[key] = value
    return [
        (name, {key: one for key, one in fields.items() if one not in (None, [])})
        for name, fields in ((kind, flat), *below)
    ]


def _flat(row: Row, before: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in row.items():
        found += _flat(value, f"{before}{key}.") if _is_row(value) else [(f"{before}{key}", value)]
    return found


def _is_row(value: object) -> bool:
    return isinstance(value, dict) and list(value) != ["base64"]


def differences(lines: str, json_text: str) -> list[str]:
    """Describe what lines have otherwise than JSON; a row of several may begin with the name of the outer one."""
    left, right = of_lines(lines), of_json(json_text)
    if len(left) != len(right):
        return [f"{len(left)} rows of lines, {len(right)} of JSON"]
    wrong = []
    for (kind, fields), (json_kind, json_fields) in zip(left, right, strict=True):
        if kind != json_kind or any(fields.get(key) != value for key, value in json_fields.items()):
            wrong.append(f"{kind} {fields} is {json_kind} {json_fields} in JSON")
        elif set(fields) - set(json_fields) and "." not in kind:
            wrong.append(f"{kind} has {set(fields) - set(json_fields)}, which JSON has not")
    return wrong
