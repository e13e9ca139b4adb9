"""The rows of a schema registry: what its log, or a directory of files, has."""

from __future__ import annotations

from kdump.row import Kind, Row, column

AVRO, PROTOBUF, JSON = SCHEMA_TYPES = ("AVRO", "PROTOBUF", "JSON")


class ReferenceRow(Row):
    """Another schema that a schema needs."""

    name: str = column(Kind.NAME, "by which the schema calls it: a type, or the file of an import")
    subject: str = column(Kind.NAME, "whose version it is")
    version: int = column(Kind.INT, "of the subject; -1 for the newest")


class SchemaRow(Row, name="schema"):
    """A version of a subject, as it was registered; its id may be that of other subjects too."""

    subject: str = column(Kind.NAME, "with its context, where it is not in the default one")
    version: int | None = column(Kind.INT, "of the subject; null for a file")
    id: int | None = column(Kind.INT, "that payloads have; null for a file without one")
    guid: str | None = column(Kind.WORD, "that headers have; null where nothing tells it")
    schema_type: str = column(Kind.WORD, "of its language", words=SCHEMA_TYPES)
    references: tuple[ReferenceRow, ...] = column(Kind.ROW, "what it needs", of=ReferenceRow)
    deleted: bool = column(Kind.FLAG, "the registry gives it out no more; what was written with it is still decoded")
    deleted_offset: int | None = column(Kind.OFFSET, "of the record that deleted it; null for none")
    compatibility: str | None = column(
        Kind.WORD, "its subject's level, or that of the registry; null where the log sets none"
    )
    offset: int | None = column(Kind.OFFSET, "of the record that registered it; null for a file")
    timestamp: int | None = column(Kind.TIME, "of that record")
    schema: str = column(Kind.NAME, "its text")


class SettingRow(Row, name="schemaSetting"):
    """A change of a setting of the registry, in the order of the log."""

    subject: str | None = column(Kind.NAME, "whose setting it is; null for all")
    setting: str = column(Kind.WORD, "compatibility or mode", words=("compatibility", "mode"))
    value: str | None = column(Kind.WORD, "in the registry's words; null where the setting was removed")
    offset: int = column(Kind.OFFSET, "of the record")
    timestamp: int = column(Kind.TIME, "of the record")


class SchemaUsed(Row):
    """The schema that a key or a payload was decoded by."""

    id: int | None = column(Kind.INT, "null for a file without one")
    subject: str = column(Kind.NAME, "where one id is of several subjects: that of the topic")
    version: int | None = column(Kind.INT, "of the subject; null for a file")
    schema_type: str = column(Kind.WORD, "of its language", words=SCHEMA_TYPES)
