"""Schemas in files: one, or a directory of them.

What a file is called tells what it is of. A number is the id (`7.avsc`); a subject is that of a topic's payloads or
keys, framed or not (`orders-value.avsc`). A `.json` file with the members of a registry's answer (`subject`, `version`,
`id`, `schemaType`, `schema`, `references`) says all itself. Any file of a directory may be what another one needs: by
its path below the directory an import of Protobuf, by the name of its type one of Avro.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from kdump.decode.payload.registry import Registry
from kdump.format.java_values import MAX_INT
from kdump.rows.schemas import AVRO, JSON, PROTOBUF, SCHEMA_TYPES, ReferenceRow, SchemaRow
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TYPES = {".avsc": AVRO, ".avro": AVRO, ".proto": PROTOBUF, ".json": JSON}
_LARGEST = 16 * 1024 * 1024  # bytes of a file
_MOST = 100_000  # files of a directory


def registry_of_files(path: str, report: Callable[[OpenFailure], None]) -> Registry:
    """Return what a file, or a directory of files, has.

    Args:
        path: of it.
        report: takes what cannot be read.
    """
    rows: list[SchemaRow] = []
    needed: dict[str, str] = {}
    for file, below in _files(path):
        text = _text(file, report)
        kind = None if text is None else type_of(file, text)
        if text is None or kind is None:
            continue
        row = _answer_of_a_registry(text) or _row(os.path.splitext(os.path.basename(file))[0], kind, text)
        rows.append(row)
        name = below if kind == PROTOBUF else _type_name(text)
        if name is not None:
            needed[name] = text
    return Registry(rows, needed)


def row_of_file(path: str, subject: str, report: Callable[[OpenFailure], None]) -> SchemaRow | None:
    """Return the schema in one file as that of a subject; None where it cannot be read."""
    text = _text(path, report)
    if text is None:
        return None
    row = _answer_of_a_registry(text) or _row(subject, type_of(path, text) or PROTOBUF, text)
    return row.replace(subject=subject, id=None, version=None)


def type_of(path: str, text: str) -> str | None:
    """Return the language of a schema: by the name of its file, or by its text; None for what is none."""
    known = _TYPES.get(os.path.splitext(path)[1].lower())
    if known == JSON or known is None:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return PROTOBUF if known is None and "message" in text else None
        if known is None:
            is_avro = (
                isinstance(found, dict) and "type" in found and "properties" not in found and "$schema" not in found
            )
            return AVRO if is_avro or isinstance(found, str | list) else JSON
    return known


def _files(path: str) -> Iterator[tuple[str, str]]:
    """Path, and path below the directory, of each file."""
    if not os.path.isdir(path):
        yield path, os.path.basename(path)
        return
    count = 0
    for directory, directories, names in os.walk(path):
        directories.sort()
        for name in sorted(names):
            if os.path.splitext(name)[1].lower() in _TYPES and count < _MOST:
                count += 1
                whole = os.path.join(directory, name)
                yield whole, os.path.relpath(whole, path)


def _text(path: str, report: Callable[[OpenFailure], None]) -> str | None:
    source = open_source(path)
    if isinstance(source, OpenFailure):
        report(source)
        return None
    try:
        if source.size > _LARGEST:
            report(OpenFailure(path, "limit", f"{path}: a schema of more than {_LARGEST} bytes is not read"))
            return None
        data = source.read_at(0, source.size)
    except OSError as error:
        report(OpenFailure(path, "read", f"{path}: {(error.strerror or str(error)).lower()}"))
        return None
    finally:
        source.close()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        report(OpenFailure(path, "other", f"{path}: no schema, as it is not UTF-8"))
        return None


def _row(subject: str, kind: str, text: str) -> SchemaRow:
    is_id = subject.isascii() and subject.isdigit() and int(subject) <= MAX_INT
    return _schema(subject, None, int(subject) if is_id else None, kind, text, ())


def _answer_of_a_registry(text: str) -> SchemaRow | None:
    """What a registry answers to GET /subjects/SUBJECT/versions/N, as a row; None for anything else."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str) or not isinstance(found.get("id"), int):
        return None
    kind = found.get("schemaType") or AVRO
    references = references_of(found.get("references"))
    if kind not in SCHEMA_TYPES or references is None:
        return None
    version = found.get("version")
    return _schema(
        str(found.get("subject", found["id"])),
        version if isinstance(version, int) else None,
        found["id"],
        kind,
        found["schema"],
        references,
    )


def references_of(found: Any) -> tuple[ReferenceRow, ...] | None:  # noqa: ANN401 (JSON)
    """Return the references in a registry's JSON; None where they are none."""
    if found is None:
        return ()
    rows = []
    for one in found if isinstance(found, list) else (None,):
        if not isinstance(one, dict):
            return None
        name, subject, version = one.get("name"), one.get("subject"), one.get("version")
        if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
            return None
        rows.append(ReferenceRow(name, subject, version))
    return tuple(rows)


def _schema(
    subject: str, version: int | None, id_: int | None, kind: str, text: str, references: tuple[ReferenceRow, ...]
) -> SchemaRow:
    return SchemaRow(
        subject,
        version,
        id_,
        guid=None,
        schema_type=kind,
        references=references,
        deleted=False,
        deleted_offset=None,
        compatibility=None,
        offset=None,
        timestamp=None,
        schema=text,
    )


def _type_name(text: str) -> str | None:
    """The name of a type of Avro, with its namespace."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = found.get("name") if isinstance(found, dict) else None
    if not isinstance(name, str):
        return None
    space = found.get("namespace")
    return name if "." in name or not isinstance(space, str) or not space else f"{space}.{name}"
