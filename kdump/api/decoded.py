"""Records with key and value decoded by schemas."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from kdump.api.columns import record_list
from kdump.api.errors import Error, raise_first
from kdump.decode.payload.records import SchemaDecoder
from kdump.finding import Finding
from kdump.format.read_limits import ReadLimits
from kdump.state.schemas import loaded
from kdump.storage.names import parse_partition
from kdump.value import Value
from kdump.words.install import to_install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.api._rows import Record
    from kdump.decode.payload.records import Part, Schemas
    from kdump.format.record.chunk import Chunk
    from kdump.rows.schemas import SchemaUsed
    from kdump.storage.file_source import OpenFailure

    Path = str | os.PathLike[str] | None


class DecodedRecord(Value):
    """A record, and what schemas make of its key and its value."""

    record: Record  # with the bytes of both
    key: Any  # as `json.loads` would have it; None where it is not decoded
    value: Any  # as the key
    key_schema: SchemaUsed | None  # that the key was decoded by; None where it is not
    schema: SchemaUsed | None  # that the value was decoded by; None where it is not


def schemas_of(schemas: Path, key_schema: Path, value_schema: Path, report: Callable[[Finding], None]) -> Schemas:
    """Return what keys and values are decoded by.

    Args:
        schemas: a log directory, the partition directory of a registry's log, a directory of files, or a file.
        key_schema, value_schema: a file for all keys, or values, that the registry does not know.
        report: takes what is wrong with the log.

    Raises:
        Error: something cannot be read, or a library is not installed.
    """
    problems: list[OpenFailure] = []

    def tell(found: Finding | OpenFailure) -> None:
        if isinstance(found, Finding):
            report(found)
        else:
            problems.append(found)

    paths = [None if one is None else os.fspath(one) for one in (schemas, key_schema, value_schema)]
    found = loaded(paths, ReadLimits(), tell)
    raise_first(problems)
    name = found.missing_library
    if name is not None:
        raise Error(f"{name} is not installed, and the schemas need it", "", hint=str(to_install(name)))
    return found


def decoded(
    chunks: Iterable[tuple[str, Chunk]], schemas: Schemas, report: Callable[[Finding], None]
) -> Iterator[DecodedRecord]:
    """Yield records with key and value decoded.

    Args:
        chunks: names of logs, and their records.
        schemas: what they are decoded by.
        report: takes why something is not decoded.

    Reports: R08, R09, R10.
    """
    decoder = SchemaDecoder(schemas)
    try:
        for file, chunk in chunks:
            directory = parse_partition(os.path.basename(os.path.dirname(os.path.abspath(file))))
            decoder.begin(file, "" if directory is None else directory.topic)
            for record, both in zip(record_list(file, chunk), decoder.take(chunk), strict=True):
                yield DecodedRecord(
                    record, _value(both.key), _value(both.value), _schema(both.key), _schema(both.value)
                )
            for finding in decoder.findings():
                report(finding)
    finally:
        decoder.close()


def _value(part: Part | None) -> Any:  # noqa: ANN401 (JSON)
    return None if part is None else json.loads(part.made)


def _schema(part: Part | None) -> SchemaUsed | None:
    return None if part is None else part.schema
