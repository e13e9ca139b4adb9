"""The JSON files: quorum-state and .kafka_cleanshutdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.format.checkpoint.text_lines import Property, lines, text_of
from kdump.format.java_values import (
    ARGUMENT,
    END_OF_FILE,
    IO,
    NOT_JSON,
    NUMBER,
    RUNTIME,
    JavaComplaint,
    quote,
    uuid_complaint,
)
from kdump.format.kinds import FileKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.format.checkpoint.text_lines import Properties, TextDamage

_QUORUM_FIELDS = {  # QuorumStateData.json
    0: ("clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}
_QUORUM_NUMBERS = frozenset(("leaderId", "leaderEpoch", "votedId", "appliedOffset"))


def read_json(kind: FileKind, data: bytes, damage: TextDamage) -> Properties:
    """Read one JSON object. Source: FileQuorumStateStore.readStateFromFile, CleanShutdownFileHandler.read."""
    is_quorum = kind is FileKind.QUORUM_STATE
    if not data and is_quorum:
        damage.add(0, 0, JavaComplaint("File ended prematurely.", END_OF_FILE))
    if not data:
        return None, []
    line = next(lines(data))[1] if is_quorum else data
    text = text_of(line)
    node = text if isinstance(text, JavaComplaint) else _json_object(text)
    if isinstance(node, JavaComplaint):
        damage.add(0, len(line), node if is_quorum else None)  # a clean shutdown is clean whatever the file says
        return None, []
    values = dict(node)
    version = values.get("data_version" if is_quorum else "version")
    number = version if isinstance(version, int) else None
    if is_quorum:
        damage.add(0, len(line), _judge_quorum(str(text), values, number or 0))
    return number, [Property(name, value) for name, value in node]


def _judge_quorum(text: str, values: Mapping[str, str | int | None], version: int) -> JavaComplaint | None:
    if "data_version" not in values:
        return JavaComplaint(f"Deserialized node {quote(text.strip())} does not have data_version field", IO)
    fields = _QUORUM_FIELDS.get(version)  # version 0 where it is not a number, as in Kafka
    if fields is None:
        what = f"data_version ({version}) is not within the min (0) and max (1) supported version"
        return JavaComplaint(what, "java.lang.IllegalStateException")
    for name in fields:
        if name not in values:
            what = f"QuorumStateData: unable to locate field '{name}', which is mandatory in version {version}"
            return JavaComplaint(what, RUNTIME)
        if name in _QUORUM_NUMBERS and not isinstance(values[name], int):
            return JavaComplaint(f"QuorumStateData: {name} is not a number", NUMBER)
    directory = values.get("votedDirectoryId") if version else None
    why = uuid_complaint(directory) if isinstance(directory, str) else None
    return None if why is None else JavaComplaint(why, ARGUMENT)


def _json_object(text: str) -> list[tuple[str, str | int | None]] | JavaComplaint:
    if not text.strip():
        return JavaComplaint("Deserialized node  is not an object node", IO)
    try:
        node, _ = _DECODER.raw_decode(text.lstrip())
        if not isinstance(node, dict):
            return JavaComplaint(f"Deserialized node {quote(_compact(node))} is not an object node", IO)
        return [(name, _plain(value)) for name, value in node.items()]
    except (ValueError, RecursionError) as error:
        return JavaComplaint(f"not JSON: {error}", NOT_JSON)


def _plain(value: object) -> str | int | None:
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return _compact(value)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
