"""Log directories with a registry's log and topics whose payloads Confluent's serializers wrote."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.support.partitions import below, meta, segment, write
from tests.support.runs import FIXTURES
from tests.support.segments import NONE, TIME, Record, batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

Payload = dict[str, Any]


@cache
def written() -> dict[str, Any]:
    """What the serializers wrote; see `tests.support.schema_payloads`."""
    found: dict[str, Any] = json.loads((FIXTURES / "schemas" / "payloads.json").read_text())
    return found


def payloads() -> list[Payload]:
    """The keys and payloads, with what they are to be decoded to."""
    return list(written()["payloads"])


def registered(subject: str, version: int, id_: int, schema: str, **more: Any) -> Record:
    """The record by which a registry registers a schema."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": id_, "schema": schema, "deleted": False, **more}
    return entry(key, value)


def entry(key: dict[str, Any], value: dict[str, Any] | None) -> Record:
    """Any record of a registry's log."""
    return Record(None if value is None else json.dumps(value).encode(), json.dumps(key).encode())


def registry_records() -> list[Record]:
    """What the serializers registered, and a setting."""
    records = [entry({"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "BACKWARD"})]
    for one in written()["schemas"]:
        value = one["value"]
        more = {name: value[name] for name in ("guid", "schemaType", "references")}
        records.append(registered(value["subject"], value["version"], value["id"], value["schema"], **more))
    return records


def record_of(payload: Payload) -> Record:
    """The record of a payload; a key has no payload beside it."""
    data = base64.b64decode(payload["data"])
    headers = [(key.encode(), base64.b64decode(value)) for key, value in payload["headers"]]
    return Record(None, data, headers) if payload["isKey"] else Record(data, None, headers)


def log_dir(
    root: Path, topics: Mapping[str, Sequence[Record]], registry: Iterable[Record] | None = None, *, codec: int = NONE
) -> Path:
    """Write a log directory: the registry's log, a batch a record, and topics of a batch each."""
    records = registry_records() if registry is None else list(registry)
    batches = [batch(offset, [one], base_timestamp=TIME + offset) for offset, one in enumerate(records)]
    files = below("_schemas-0", segment(0, batches))
    for topic, some in topics.items():
        files.update(below(f"{topic}-0", segment(0, [batch(0, some, codec=codec, base_timestamp=TIME + 1000)])))
    files["meta.properties"] = meta(1)
    return write(root, files)


def written_topics() -> dict[str, list[Record]]:
    """The records of each topic that the serializers wrote."""
    topics: dict[str, list[Record]] = {}
    for one in payloads():
        topics.setdefault(one["topic"], []).append(record_of(one))
    return topics


def expected_of(topic: str) -> list[Payload]:
    """What the records of a topic are to be decoded to, in their order."""
    return [one for one in payloads() if one["topic"] == topic]
