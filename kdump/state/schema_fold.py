"""The records of a schema registry's log, as the registry loads them.

Source: io.confluent.kafka.schemaregistry.storage, KafkaStoreMessageHandler and the keys and values beside it.
"""

from __future__ import annotations

import json
from typing import Any

from kdump.decode.payload.schema_files import references_of
from kdump.format.java_values import MAX_INT
from kdump.rows.schemas import AVRO, SCHEMA_TYPES, SchemaRow, SettingRow

_SETTINGS = {"CONFIG": ("compatibility", "compatibilityLevel"), "MODE": ("mode", "mode")}
_NOTHING = ("NOOP", "CONTEXT")  # say nothing about schemas
_MOST_TEXT = 80  # characters of a word of a registry that is shown


class OddRecordError(Exception):
    """A record is none of a registry; the message says why."""


class SchemaFold:
    """Takes the records of the log in order.

    Attributes:
        settings: every change, in order.
    """

    def __init__(self) -> None:
        self.settings: list[SettingRow] = []
        self._rows: list[SchemaRow] = []  # in the order in which they were registered
        self._versions: dict[tuple[str, int], int] = {}  # the last row of each
        self._compatibility: dict[str | None, str] = {}

    def take(self, key: bytes | None, value: bytes | None, offset: int, timestamp: int) -> None:
        """Take a record into account.

        Args:
            key, value: the bytes.
            offset, timestamp: of the record.

        Raises:
            OddRecordError: it is none of a registry.
        """
        name = _object(key, "its key")
        kind = name.get("keytype")
        if kind in _NOTHING:
            return
        if kind == "SCHEMA":
            self._schema(_text(name, "subject"), _number(name, "version"), value, offset, timestamp)
        elif kind in _SETTINGS:
            self._setting(str(kind), name.get("subject"), value, offset, timestamp)
        elif kind in ("DELETE_SUBJECT", "CLEAR_SUBJECT"):
            if value is not None:
                found = _object(value, "its value")
                version = found.get("version")
                most = version if isinstance(version, int) else None
                self._delete_subject(_text(name, "subject"), most, offset)
        else:
            raise OddRecordError("its key is of no type that is known")

    @property
    def rows(self) -> list[SchemaRow]:
        """The schemas, in the order in which they were registered."""
        return [row.replace(compatibility=self._level(row.subject)) for row in self._rows]

    def _level(self, subject: str) -> str | None:
        context = subject[: subject.index(":", 2) + 1] if subject.startswith(":.") and ":" in subject[2:] else None
        for one in (subject, context, None):
            if one in self._compatibility:
                return self._compatibility[one]
        return None

    def _schema(self, subject: str, version: int, value: bytes | None, offset: int, timestamp: int) -> None:
        last = self._versions.get((subject, version))
        if value is None:
            if last is not None:
                self._delete(last, offset)
            return
        found = _object(value, "its value")
        kind = found.get("schemaType") or AVRO
        references = references_of(found.get("references"))
        if kind not in SCHEMA_TYPES or references is None:
            raise OddRecordError("its schema has an unknown language, or unknown references")
        guid = found.get("guid")
        row = SchemaRow(
            subject,
            version,
            _number(found, "id"),
            guid=guid.lower() if isinstance(guid, str) and len(guid) < _MOST_TEXT else None,
            schema_type=kind,
            references=references,
            deleted=found.get("deleted") is True,
            deleted_offset=offset if found.get("deleted") is True else None,
            compatibility=None,
            offset=offset,
            timestamp=timestamp,
            schema=_text(found, "schema"),
        )
        if last is not None and _is_same(self._rows[last], row):
            before = self._rows[last]
            if row.deleted and not before.deleted:
                self._delete(last, offset)
            elif not row.deleted:
                self._rows[last] = before.replace(deleted=False, deleted_offset=None)
            return
        self._versions[subject, version] = len(self._rows)
        self._rows.append(row)

    def _delete(self, number: int, offset: int) -> None:
        row = self._rows[number]
        self._rows[number] = row.replace(
            deleted=True, deleted_offset=offset if row.deleted_offset is None else row.deleted_offset
        )

    def _delete_subject(self, subject: str, most: int | None, offset: int) -> None:
        for (name, version), number in self._versions.items():
            if name == subject and (most is None or version <= most):
                self._delete(number, offset)

    def _setting(self, kind: str, subject: Any, value: bytes | None, offset: int, timestamp: int) -> None:  # noqa: ANN401
        if subject is not None and not isinstance(subject, str):
            raise OddRecordError("its subject is no text")
        setting, member = _SETTINGS[kind]
        made = None if value is None else _object(value, "its value").get(member)
        word = made[:_MOST_TEXT] if isinstance(made, str) else None
        self.settings.append(SettingRow(subject, setting, word, offset, timestamp))
        if setting == "compatibility":
            if word is None:
                self._compatibility.pop(subject, None)
            else:
                self._compatibility[subject] = word


def _is_same(one: SchemaRow, other: SchemaRow) -> bool:
    return (one.id, one.schema_type, one.schema, one.references) == (
        other.id,
        other.schema_type,
        other.schema,
        other.references,
    )


def _object(data: bytes | None, what: str) -> dict[str, Any]:
    try:
        found = json.loads((data or b"").decode("utf-8"))
    except (ValueError, RecursionError):
        raise OddRecordError(f"{what} is not JSON") from None
    if not isinstance(found, dict):
        raise OddRecordError(f"{what} is no object")
    return found


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise OddRecordError(f"its {name} is no text")
    return value


def _number(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= MAX_INT:
        raise OddRecordError(f"its {name} is no number")
    return value
