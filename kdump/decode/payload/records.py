"""The records of a chunk, decoded by schemas, all of one schema together; and the findings about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.decode.payload.frame import (
    FIRST_MESSAGE,
    ID_END,
    KEY_HEADER,
    VALUE_HEADER,
    SchemaFrame,
    frame_of,
    header_frame,
    message_of,
)
from kdump.decode.payload.process import DecoderProcess, MissingLibraryError, SchemaText, Undecoded
from kdump.decode.payload.registry import Registry
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.record.chunk import MOST_WHOLE
from kdump.format.record.reader import headers
from kdump.rows.json_lines import fields_of
from kdump.rows.schemas import AVRO, PROTOBUF, SchemaUsed
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from kdump.decode.payload.process import Answer
    from kdump.decode.payload.registry import Whole
    from kdump.format.record.chunk import Chunk
    from kdump.rows.schemas import SchemaRow


_LIBRARIES = {AVRO: ("fastavro",), PROTOBUF: ("google", "grpc_tools")}


class Schemas(Value):
    """What keys and payloads are decoded by."""

    registry: Registry  # by ids, GUIDs and the subjects of topics
    key: SchemaRow | None = None  # of keys that the registry does not know, framed or not
    value: SchemaRow | None = None  # of such payloads

    @property
    def has_ids(self) -> bool:
        """Whether a frame can have an answer: else nothing is said about one."""
        return any(row.id is not None for row in self.registry.rows)

    @property
    def names(self) -> frozenset[str]:
        """The names that all schemas give fields."""
        files = [row for row in (self.key, self.value) if row is not None]
        return self.registry.names | Registry(files).names

    @property
    def facts(self) -> tuple[object, ...]:
        """All that what is decoded hangs on, as values that can be compared."""
        return self.registry.facts, self.key, self.value, self.missing_library

    @property
    def missing_library(self) -> str | None:
        """A library that is needed and not installed, None for none."""
        from importlib.util import find_spec

        rows = (*self.registry.rows, *(one for one in (self.key, self.value) if one is not None))
        kinds = {row.schema_type for row in rows}
        needed = [name for kind in sorted(kinds) for name in _LIBRARIES.get(kind, ())]
        return next((name for name in needed if find_spec(name) is None), None)


class Part(TupleValue):
    """A decoded key or payload."""

    made: bytes  # JSON
    row: SchemaRow  # that it was decoded by
    text: SchemaText  # the same with what it needs

    @property
    def schema(self) -> SchemaUsed:
        """The schema, as a row tells it."""
        return SchemaUsed(self.row.id, self.row.subject, self.row.version, self.row.schema_type)

    @property
    def used(self) -> bytes:
        """The schema as JSON."""
        return _json_of(self.schema)

    def used_as(self, subject: str) -> bytes:
        """Return the schema as JSON, with another name of the subject."""
        return _json_of(self.schema.replace(subject=subject))


def _json_of(used: SchemaUsed) -> bytes:
    return json.dumps(fields_of(used), separators=(",", ":")).encode()


class Both(TupleValue):
    """Key and payload of a record: None for one that is not decoded."""

    key: Part | None
    value: Part | None


NEITHER = Both(None, None)
_FRAMES = (b"\0", b"\1")  # first bytes


class _Attempt(TupleValue):
    """A reading of a key or a payload."""

    slot: int  # of which
    text: SchemaText
    indexes: tuple[int, ...]
    data: bytes


class SchemaDecoder:
    """Decodes the records of a file, chunk by chunk.

    Args:
        schemas: what they are decoded by.
        limit: bytes of key and value of a record that is decoded.

    Reports: R08, R09, R10.
    """

    def __init__(self, schemas: Schemas, limit: int = MOST_WHOLE) -> None:
        self._schemas = schemas
        self._has_ids = schemas.has_ids
        self._limit = limit
        self._process = DecoderProcess()
        self._path = self._topic = ""
        self._whole: dict[int, Whole | str] = {}  # by identity of the row
        self._known: dict[tuple[int | None, str | None, bool], SchemaRow | str] = {}
        self._missing: set[str] = set()  # languages whose library is not installed
        self._found: list[Finding] = []
        self._rows: list[Both] = []
        self._files = schemas.key, schemas.value  # schemas of keys and payloads that no frame decides
        self._taken: list[tuple[int, bytes | None, bytes | None]] = []  # offset, key and value of each record
        self._next = 0  # number of the record that is asked for next, mostly
        self._places: dict[tuple[int, bytes | None, bytes | None], int] | None = None  # made when it is needed
        self._usual: dict[bytes, Whole] = {}  # schemas of payloads by their frame, where nothing else decides
        self._attempts: list[_Attempt] = []
        self._slots: list[tuple[int, bool, SchemaRow, str]] = []  # row, whether it is a key, its schema, and what it is

    def begin(self, path: str, topic: str) -> None:
        """Take the next file in hand.

        Args:
            path: of it.
            topic: of its records, empty where nothing tells.
        """
        if topic != self._topic:
            self._known.clear()
            self._usual.clear()
        self._path, self._topic = path, topic
        registry, named = self._schemas.registry, (self._schemas.key, self._schemas.value)
        of_topic = [registry.of_topic(topic, is_key=is_key) for is_key in (True, False)]
        self._files = named[0] or of_topic[0], named[1] or of_topic[1]

    def take(self, chunk: Chunk) -> list[Both]:
        """Decode the records of a chunk; return what became of each.

        Args:
            chunk: records of the file in hand.
        """
        count, width, rows, view = chunk.filled, layout.RECORD_WIDTH, chunk.rows, chunk.view
        self._attempts, self._slots = [], []
        self._taken, self._next, self._places = [], 0, None
        parts: tuple[dict[int, Part], dict[int, Part]] = {}, {}  # of values and of keys, by number of the record
        usual: dict[bytes, tuple[list[int], list[bytes]]] = {}  # numbers of records and payloads, by frame
        known, passed, batch, limit = self._usual, False, -1, self._limit
        has_key_file = self._files[0] is not None
        for at in range(0, count * width, width):
            if rows[at] != batch:
                batch = rows[at]
                passed = self._is_passed(chunk, batch)
            key_at, key_size = rows[at + layout.R_KEY_AT], rows[at + layout.R_KEY_SIZE]
            value_at, value_size = rows[at + layout.R_VALUE_AT], rows[at + layout.R_VALUE_SIZE]
            key = None if key_size < 0 else bytes(view[key_at : key_at + key_size])
            value = None if value_size < 0 else bytes(view[value_at : value_at + value_size])
            self._taken.append((rows[at + layout.R_OFFSET], key, value))
            if passed or max(0, key_size) + max(0, value_size) > limit:
                continue
            if value is not None and value[:ID_END] in known and not rows[at + layout.R_HEADER_COUNT]:
                numbers, some = usual.setdefault(value[:ID_END], ([], []))
                numbers.append(at // width)
                some.append(value[ID_END:])
                if key is not None and (has_key_file or key[:1] in _FRAMES):
                    self._choose(chunk, at // width, rows[at : at + width], key, None)
            else:
                self._choose(chunk, at // width, rows[at : at + width], key, value)
        for frame, (numbers, some) in usual.items():
            self._take_usual(chunk, known[frame], numbers, some, parts[0])
        for slot, part in self._judged(chunk):
            number, is_key, _, _ = self._slots[slot]
            parts[is_key][number] = part
        values, keys = parts
        if not keys:
            self._rows = [Both(None, values[number]) if number in values else NEITHER for number in range(count)]
        else:
            self._rows = [Both(keys.get(number), values.get(number)) for number in range(count)]
        return self._rows

    def _take_usual(
        self, chunk: Chunk, whole: Whole, numbers: list[int], some: list[bytes], parts: dict[int, Part]
    ) -> None:
        """Decode payloads that all have one frame, whose schema is known at all times and has no messages."""
        try:
            answers = self._process.decode(whole.text, (), some)
        except MissingLibraryError:
            self._missing.add(whole.text.kind)
            self._usual.clear()
            return
        row, text = whole
        for number, answer in zip(numbers, answers, strict=True):
            if isinstance(answer, bytes):
                parts[number] = Part(answer, row, text)
            else:
                width = layout.RECORD_WIDTH
                place = chunk, chunk.rows[number * width : (number + 1) * width]
                what = f"payload with schema id {row.id}"
                self._tell(Code.R10 if answer.is_schema else Code.R09, place, what, answer.why)

    def of(self, offset: int, key: bytes | None, value: bytes | None) -> Both:
        """Return what became of a record of the chunk that was taken last; it is asked for each in turn, mostly."""
        number = self._next
        record = offset, key, value
        if number >= len(self._taken) or self._taken[number] != record:
            if self._places is None:
                self._places = {one: number for number, one in enumerate(self._taken)}
            found = self._places.get(record)
            if found is None:
                return NEITHER
            number = found
        self._next = number + 1
        return self._rows[number]

    def findings(self) -> list[Finding]:
        """Return what was found since the last time."""
        found, self._found = self._found, []
        return sorted(found, key=lambda one: one.offset or 0)

    def close(self) -> None:
        """End what was started."""
        self._process.close()

    # --- which schema -----------------------------------------------------------------------------------------
    def _is_passed(self, chunk: Chunk, batch: int) -> bool:
        """Whether the records of a batch are none of a client, or not all here."""
        is_control = chunk.window.cell(batch, layout.ATTRIBUTES) & layout.CONTROL_FLAG
        return chunk.cut is not None or bool(is_control and chunk.window.cell(batch, layout.MAGIC) >= layout.MAGIC_V2)

    def _choose(self, chunk: Chunk, number: int, row: array[int], key: bytes | None, value: bytes | None) -> None:
        names: tuple[SchemaFrame | None, SchemaFrame | None] = (None, None)
        if row[layout.R_HEADER_COUNT]:
            said = list(headers(chunk.view, row))
            names = header_frame(said, KEY_HEADER), header_frame(said, VALUE_HEADER)
        for data, frame, file, is_key in (
            (key, names[0], self._files[0], True),
            (value, names[1], self._files[1], False),
        ):
            if data is not None:
                self._choose_one(chunk, number, row, data, frame, file=file, is_key=is_key)

    def _choose_one(
        self,
        chunk: Chunk,
        number: int,
        row: array[int],
        data: bytes,
        frame: SchemaFrame | None,
        *,
        file: SchemaRow | None,
        is_key: bool,
    ) -> None:
        """Note how a key or a payload is to be read."""
        place = (chunk, row)
        in_header = frame is not None
        frame = frame or frame_of(data)
        if frame is not None and (file is None or self._schemas.registry.knows(frame)):
            if in_header or self._is_frame(frame):
                found = self._find(frame, row[layout.R_TIMESTAMP], is_key=is_key)
                if isinstance(found, str):
                    self._tell(Code.R08, place, self._what(frame, is_key=is_key), found)
                else:
                    self._try(place, number, found, [(frame, data)], self._what(frame, is_key=is_key), is_key=is_key)
                    if not (is_key or in_header) and frame.guid is None:
                        self._note_usual(frame, found, data)
            return
        if file is not None:
            what = f"{'key' if is_key else 'payload'}, by the schema of {file.subject}"
            whole = SchemaFrame(None, None, 0)
            readings = [(whole, data)]
            if frame is not None:
                readings = [(frame, data)] if in_header else [(whole, data), (frame, data)]
            self._try(place, number, file, readings, what, is_key=is_key)

    def _note_usual(self, frame: SchemaFrame, row: SchemaRow, data: bytes) -> None:
        """Note that payloads with a frame need not be looked at one by one, where that is so."""
        whole = self._whole.get(id(row))
        is_usual = row.schema_type != PROTOBUF and self._schemas.registry.is_constant(frame)
        if is_usual and whole is not None and not isinstance(whole, str):
            self._usual[data[:ID_END]] = whole

    def _is_frame(self, frame: SchemaFrame) -> bool:
        """Whether first bytes that look like a frame are one: many a number begins so, too."""
        if self._schemas.registry.knows(frame):
            return True
        return self._has_ids and frame.guid is None and (frame.id or 0) > 0

    def _what(self, frame: SchemaFrame, *, is_key: bool) -> str:
        return f"{'key' if is_key else 'payload'} with schema {frame.what}"

    def _find(self, frame: SchemaFrame, time: int, *, is_key: bool) -> SchemaRow | str:
        at = frame.id, frame.guid, is_key
        found = self._known.get(at)
        if found is None:
            registry = self._schemas.registry
            found = registry.find(frame, self._topic, is_key=is_key, time=time)
            if registry.is_constant(frame):
                self._known[at] = found
        return found

    def _try(
        self,
        place: tuple[Chunk, array[int]],
        number: int,
        row: SchemaRow,
        readings: list[tuple[SchemaFrame, bytes]],
        what: str,
        *,
        is_key: bool,
    ) -> None:
        if row.schema_type in self._missing:
            return
        whole = self._whole.get(id(row))
        if whole is None:
            whole = self._whole[id(row)] = self._schemas.registry.whole(row)
        if isinstance(whole, str):
            self._tell(Code.R10, place, what, whole)
            return
        slot = len(self._slots)
        self._slots.append((number, is_key, row, what))
        for frame, data in readings:
            indexes, start = frame.indexes or (), frame.start
            if row.schema_type == PROTOBUF and frame.indexes is None:
                message = message_of(data, start) if start else (FIRST_MESSAGE, 0)
                if message is None:
                    if len(readings) == 1:
                        self._tell(Code.R09, place, what, "the message that its frame names is not readable")
                    continue
                indexes, start = message
            self._attempts.append(_Attempt(slot, whole.text, indexes, data[start:] if start else data))

    # --- what comes of it -------------------------------------------------------------------------------------
    def _judged(self, chunk: Chunk) -> Iterator[tuple[int, Part]]:
        """Number of the slot and what became of it, for those that were decoded."""
        groups: dict[tuple[SchemaText, tuple[int, ...]], list[_Attempt]] = {}
        for one in self._attempts:
            groups.setdefault((one.text, one.indexes), []).append(one)
        answers: dict[int, list[tuple[Answer, SchemaText]]] = {}
        for (text, indexes), some in groups.items():
            try:
                made = self._process.decode(text, indexes, [one.data for one in some])
            except MissingLibraryError:
                self._missing.add(text.kind)
                continue
            for one, answer in zip(some, made, strict=True):
                answers.setdefault(one.slot, []).append((answer, text))
        for slot, given in answers.items():
            number, _, row, what = self._slots[slot]
            whole = [(answer, text) for answer, text in given if isinstance(answer, bytes)]
            if len(whole) == 1 and isinstance(whole[0][0], bytes):
                yield slot, Part(whole[0][0], row, whole[0][1])
                continue
            width = layout.RECORD_WIDTH
            place = chunk, chunk.rows[number * width : (number + 1) * width]
            refused = given[-1][0]
            if whole:
                self._tell(Code.R09, place, what, "it is a value with its first bytes as a frame, and without a frame")
            elif isinstance(refused, Undecoded):
                self._tell(Code.R10 if refused.is_schema else Code.R09, place, what, refused.why)

    def _tell(self, code: Code, place: tuple[Chunk, array[int]], what: str, why: str) -> None:
        chunk, row = place
        batch = row[layout.R_BATCH]
        self._found.append(
            Finding(
                code,
                self._path,
                chunk.window.cell(batch, layout.POSITION),
                chunk.window.cell(batch, layout.SIZE),
                offset=row[layout.R_OFFSET],
                values={"what": what, "why": why},
            )
        )
