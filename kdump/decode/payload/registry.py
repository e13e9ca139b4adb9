"""Which schema a frame means: a registry as its log, or files, have it. Nothing is ever fetched.

An id is of a context, and a frame does not say of which: the subject of the topic decides (TopicNameStrategy), then
subjects that begin with the topic's name, then all others. Where what is equally near has several texts, there is no
answer. One id may get another schema only where a registry was restored or imports: the newest one at the time of the
record counts, and before the first that one.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from typing import TYPE_CHECKING
from uuid import UUID

from kdump.decode.payload.process import SchemaText
from kdump.rows.schemas import AVRO
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.decode.payload.frame import SchemaFrame
    from kdump.rows.schemas import ReferenceRow, SchemaRow

_DEFAULT_CONTEXT = ""
_MOST_REFERENCES = 1000
_DEEPEST = 100  # references of references
_NEWEST = -1


class Whole(TupleValue):
    """A schema that payloads can be decoded by."""

    row: SchemaRow
    text: SchemaText  # with what it needs


class Registry:
    """The schemas that are known.

    Args:
        rows: in the order in which they were registered.
        of_files: types, or files of imports, that schemas may need without a reference, by name.
    """

    def __init__(self, rows: Sequence[SchemaRow], of_files: dict[str, str] | None = None) -> None:
        self._rows = rows
        self._of_files = of_files or {}
        self._by_id: dict[int, list[SchemaRow]] = {}
        self._by_guid: dict[str, list[SchemaRow]] = {}
        self._by_subject: dict[str, list[SchemaRow]] = {}
        for row in rows:
            self._by_subject.setdefault(row.subject, []).append(row)
            if row.id is not None:
                self._by_id.setdefault(row.id, []).append(row)
            for guid in (row.guid, guid_of(row)):
                if guid is not None:
                    self._by_guid.setdefault(guid, []).append(row)

    @property
    def names(self) -> frozenset[str]:
        """The names that the schemas give fields; see `names_in`."""
        texts = (SchemaText(row.schema_type, row.schema) for row in self._rows)
        return frozenset().union(*map(names_in, texts))

    @property
    def rows(self) -> Sequence[SchemaRow]:
        """The schemas, in the order in which they were registered."""
        return self._rows

    @property
    def facts(self) -> tuple[object, ...]:
        """All that payloads are decoded by, as values that can be compared."""
        return tuple(self._rows), tuple(sorted(self._of_files.items()))

    def knows(self, frame: SchemaFrame) -> bool:
        """Tell whether anything has the id or the GUID of a frame."""
        return bool(self._found(frame))

    def _found(self, frame: SchemaFrame) -> Sequence[SchemaRow]:
        return self._by_guid.get(frame.guid, ()) if frame.guid is not None else self._by_id.get(frame.id or 0, ())

    def is_constant(self, frame: SchemaFrame) -> bool:
        """Tell whether the schema that a frame means is the same at all times."""
        found = self._found(frame)
        return not found or len({_identity(row) for row in found}) == 1

    def find(self, frame: SchemaFrame, topic: str, *, is_key: bool, time: int) -> SchemaRow | str:
        """Return the schema that a frame means, or why there is none.

        Args:
            frame: of a key or a payload.
            topic: of the record.
            is_key: what it is the frame of.
            time: of the record, ms; -1 for none.
        """
        found = self._found(frame)
        if not found:
            return "it is not among these schemas"
        own = topic_subject(topic, is_key=is_key)
        nearest = min(_distance(row, own, topic) for row in found)
        near = [row for row in found if _distance(row, own, topic) == nearest]
        newest = {row.subject: row for row in _as_of(near, time)}
        if len({_identity(row) for row in newest.values()}) > 1:
            subjects = ", ".join(sorted(newest)[:4])
            return f"it is another schema in each of {subjects}, and none is the topic's"
        return min(newest.values(), key=lambda row: (context_of(row.subject) != _DEFAULT_CONTEXT, row.subject))

    def of_topic(self, topic: str, *, is_key: bool) -> SchemaRow | None:
        """Return the schema of a file that is named after the subject of a topic; None where there is none."""
        rows = self._by_subject.get(topic_subject(topic, is_key=is_key), ())
        return next((row for row in rows if row.id is None), None)

    def whole(self, row: SchemaRow) -> Whole | str:
        """Return a schema with all that it needs, or what is missing."""
        texts: dict[str, str] = {}
        try:
            self._gather(row, texts, set())
        except _MissingError as error:
            return str(error)
        return Whole(row, SchemaText(row.schema_type, row.schema, tuple(texts.items())))

    def _gather(self, row: SchemaRow, texts: dict[str, str], above: set[str]) -> None:
        """Add what a schema needs, each behind what it needs itself."""
        for one in row.references:
            if one.name in texts or one.name in above:
                continue
            if len(above) >= _DEEPEST:
                raise _MissingError(f"it needs others {_DEEPEST} deep")
            if len(texts) + len(above) >= _MOST_REFERENCES:
                raise _MissingError(f"it needs more than {_MOST_REFERENCES} others")
            needed = self._referenced(one, row)
            self._gather(needed, texts, above | {one.name})
            texts[one.name] = needed.schema
        if row.offset is None:
            self._gather_files(row, texts)

    def _gather_files(self, row: SchemaRow, texts: dict[str, str]) -> None:
        for name in _in_order(row.schema, self._of_files):
            texts.setdefault(name, self._of_files[name])

    def _referenced(self, reference: ReferenceRow, by: SchemaRow) -> SchemaRow:
        context = context_of(by.subject)
        subjects = (reference.subject, f":.{context}:{reference.subject}") if context else (reference.subject,)
        rows = next((self._by_subject[one] for one in reversed(subjects) if one in self._by_subject), [])
        matching = [row for row in rows if reference.version in (row.version, _NEWEST)]
        before = [row for row in matching if by.offset is None or (row.offset or 0) <= by.offset]
        found = (before or matching)[-1:]
        if not found:
            raise _MissingError(f"it needs version {reference.version} of {reference.subject}, which is not here")
        return found[0]


class _MissingError(Exception):
    """What a schema needs is not here."""


def topic_subject(topic: str, *, is_key: bool) -> str:
    """Return the subject of a topic's keys or payloads. Source: TopicNameStrategy."""
    return f"{topic}-{'key' if is_key else 'value'}"


def context_of(subject: str) -> str:
    """Return the context of a subject, empty for the default one. Source: QualifiedSubject."""
    if not subject.startswith(":."):
        return _DEFAULT_CONTEXT
    return subject[2:].partition(":")[0]


def bare_subject(subject: str) -> str:
    """Return a subject without its context."""
    return subject[2:].partition(":")[2] if subject.startswith(":.") else subject


def guid_of(row: SchemaRow) -> str | None:
    """Return the GUID that a registry gives a schema: the MD5 of its text and what it refers to. Source: MD5.ofSchema.

    None for a file. A schema with metadata or rules has another one, which its record says.
    """
    if row.offset is None and row.id is None:
        return None
    made = hashlib.md5(row.schema.encode("utf-8", "replace"), usedforsecurity=False)
    for one in row.references:
        made.update(one.name.encode("utf-8", "replace") + one.subject.encode("utf-8", "replace"))
        made.update(struct.pack(">i", one.version))
    return str(UUID(bytes=made.digest()))


def _distance(row: SchemaRow, own: str, topic: str) -> int:
    subject = bare_subject(row.subject)
    return 0 if subject == own else 1 if subject.startswith(f"{topic}-") else 2


def _identity(row: SchemaRow) -> tuple[object, ...]:
    return row.schema_type, row.schema, row.references


def _as_of(rows: Iterable[SchemaRow], time: int) -> Iterator[SchemaRow]:
    """The rows that count at a time, of each subject the last one last."""
    by_subject: dict[str, list[SchemaRow]] = {}
    for row in rows:
        by_subject.setdefault(row.subject, []).append(row)
    for some in by_subject.values():
        before = [row for row in some if time < 0 or row.timestamp is None or row.timestamp <= time]
        yield from before or some[:1]


def _in_order(text: str, files: dict[str, str]) -> list[str]:
    """The files whose names a text has, and those that these have, each behind what it needs."""
    found: list[str] = []

    def add(of: str, above: frozenset[str]) -> None:
        for name, more in files.items():
            if name in of and name not in above and name not in found and more != text:
                add(more, above | {name})
                found.append(name)

    add(text, frozenset())
    return found


def names_in(schema: SchemaText) -> frozenset[str]:
    """Return the names that a schema gives fields: what a decoded value calls its parts by."""
    found: set[str] = set()
    for text in (schema.text, *(more for _, more in schema.references)):
        try:
            _names(json.loads(text), found, is_avro=schema.kind == AVRO)
        except (ValueError, RecursionError):
            found.update(re.findall(r"[A-Za-z_]\w*", text))
            found.update(("@unknown", "number", "wireType", "value", "base64"))
    return frozenset(found)


def _names(schema: object, found: set[str], *, is_avro: bool) -> None:
    if isinstance(schema, dict):
        if is_avro and isinstance(schema.get("name"), str):
            found.add(schema["name"])
        elif not is_avro and isinstance(schema.get("properties"), dict):
            found.update(schema["properties"])
        for one in schema.values():
            _names(one, found, is_avro=is_avro)
    elif isinstance(schema, list):
        for one in schema:
            _names(one, found, is_avro=is_avro)
