"""The table of messages, `records.json`, as one release of Kafka knows it."""

from __future__ import annotations

import json
from functools import cache
from os import path

from kdump.decode.schema import Field, Message, ReadMode, Row, Schema
from kdump.value import pattern

_RELEASE = pattern(r"\d+\.\d+")
_DEFAULTS = {"bool": False, "string": "", "bytes": "", "uuid": "A" * 22}


@cache
def table(release: str, reading: ReadMode = ReadMode.EXACT) -> Table:
    """Return the table of a release ("4.3").

    Args:
        release: which.
        reading: how its messages are read.

    Raises:
        ValueError: the release is not known.
    """
    return Table(release, reading)


@cache
def _data() -> dict[str, Row]:
    name = path.join(path.dirname(__file__), "records.json")
    with open(name, "rb") as file:  # noqa: PTH123 (loading pathlib takes longer than all the rest)
        data: dict[str, Row] = json.load(file)
    return data


def releases() -> list[str]:
    """Return the releases that the table knows, oldest first."""
    known: list[str] = _data()["releases"]
    return known


def newest() -> str:
    """Return the newest release that the table knows: JSON goes by its schemas."""
    return releases()[-1]


def topics() -> dict[str, str]:
    """Return the name of the decoder of each internal topic."""
    return {row["topic"]: name for name, row in _data()["decoders"].items()}


class Table:
    """The messages of one release.

    Args:
        release: which.
        reading: how its messages are read.
    """

    def __init__(self, release: str, reading: ReadMode = ReadMode.EXACT) -> None:
        known = releases()
        if release not in known:
            raise ValueError(f"release {release} is not known; these are: {', '.join(known)}")
        self.release = release
        self.reading = reading
        self._known = known[: known.index(release) + 1]
        self._schemas: dict[str, Schema] = {}
        self._facts = {name: self._now(value) for name, value in _data()["facts"].items()}
        self._control = {
            int(number): {key: self._now(item) for key, item in row.items()}
            for number, row in _data()["control"].items()
        }

    def fact(self, name: str) -> Row:
        """Return an entry of `facts`."""
        return self._facts[name]

    def states(self, name: str) -> list[str]:
        """Return the names of states by number."""
        names: list[str] = _data()["states"][name]
        return names

    def feature(self, name: str) -> Row:
        """Return an entry of `features`."""
        return self._now(_data()["features"][name])

    def records(self, decoder: str) -> dict[int, str]:
        """Return the names of a decoder's records by number, none when the release has no such decoder."""
        rows = _data()["decoders"].get(decoder, {"records": {}})["records"]
        names = {int(number): self._now(name) for number, name in rows.items()}
        return {number: name for number, name in names.items() if name}

    def control(self) -> dict[int, dict[str, Row]]:
        """Return the control records by type number: name, text, value."""
        return self._control

    def schema(self, name: str) -> Schema:
        """Return the reader of a message."""
        if name not in self._schemas:
            self._schemas[name] = Schema(self.message(name), self.reading, limited=self.fact("boundsReaders"))
        return self._schemas[name]

    def message(self, name: str) -> Message:
        """Return a message by its name."""
        row = _data()["messages"][name]
        low, high = self._now(row["versions"]).split("-")
        return Message(name, int(low), int(high), row.get("flex"), self._fields(row["fields"], {}))

    def _now(self, value: Row) -> Row:
        """Return what holds in this release of a value that may be given by release."""
        if not (isinstance(value, dict) and all(map(_RELEASE.fullmatch, value))):
            return value
        at = [release for release in self._known if release in value]
        return value[at[-1]] if at else None

    def _fields(self, rows: dict[str, Row], structs: dict[str, tuple[Field, ...]]) -> tuple[Field, ...]:
        """Return the fields that this release has; `structs` are those that the message has named so far."""
        made = []
        for name, row in rows.items():
            text, inner = row if isinstance(row, list) else (row, None)
            kind, *marks = text.split(" ")
            if inner is not None:
                structs[kind.removeprefix("[]")] = self._fields(inner, structs)
            since = [mark[5:] for mark in marks if mark.startswith("since")]
            if not since or since[0] in self._known:
                made.append(_field(name, kind, marks, structs.get(kind.removeprefix("[]"), ())))
        return tuple(made)


def _field(name: str, kind: str, marks: list[str], fields: tuple[Field, ...]) -> Field:
    """Return a field from its type and marks in the table."""
    array, kind = kind.startswith("[]"), kind.removeprefix("[]")
    struct = kind if kind[0].isupper() else ""
    first, last, tag = 0, None, None
    default: Row = [] if array else _DEFAULTS.get(kind, 0)
    for mark in marks:
        if mark.startswith("tag"):
            tag = int(mark[3:])
        elif mark.startswith("="):
            default = json.loads(mark[1:])
        elif mark.startswith("v"):
            first, last = _versions(mark)
    return Field(
        name=name,
        kind="struct" if struct else kind,
        array=array,
        first=first,
        last=last,
        nullable="null" in marks,
        tag=tag,
        default=default,
        struct=struct,
        common="common" in marks,
        fields=fields,
    )


def _versions(mark: str) -> tuple[int, int | None]:
    """Return the first and last version of "v2+", "v1" or "v1-3"."""
    if mark.endswith("+"):
        return int(mark[1:-1]), None
    low, _, high = mark[1:].partition("-")
    return int(low), int(high or low)
