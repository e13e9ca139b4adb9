"""The metadata log folded from what `dump --compat 4.3 --cluster-metadata-decoder` prints: record by record.

It shares no code with kdump: the text is that of Kafka's own tool (goldens hold the two equal). Everything counts from
the first record on; no snapshot is read.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

Json = dict[str, Any]
Key = tuple[Any, ...]
_BATCH = re.compile(r"baseOffset: \d+ lastOffset: (\d+) .*? CreateTime: (-?\d+) ")
_RECORD = re.compile(r"\| offset: (\d+) ")
SECRETS = ("salt", "storedKey", "serverKey")


class Printed(NamedTuple):
    """What a log has: of each batch maxTimestamp and last offset, of each record offset and message."""

    batches: list[tuple[int, int]]
    records: list[tuple[int, Json]]


def printed(text: str) -> Printed:
    """Read what DumpLogSegments prints."""
    found = Printed([], [])
    for line in text.splitlines():
        batch, record = _BATCH.match(line), _RECORD.match(line)
        if batch is not None:
            found.batches.append((int(batch[2]), int(batch[1])))
        elif record is not None and " payload: {" in line:
            found.records.append((int(record[1]), json.loads(line.partition(" payload: ")[2])))
    return found


def last_at(found: Printed, time: int) -> int:
    """The last offset that counts at a time, -1 for none."""
    return max([offset for when, offset in found.batches if when <= time], default=-1)


def counted(found: Printed, last: int) -> list[Json]:
    """The records up to an offset that count: those of a transaction when its End is among them."""
    result: list[Json] = []
    waiting: list[Json] | None = None
    for offset, message in found.records:
        if offset > last:
            break
        name = message["type"]
        if name == "BEGIN_TRANSACTION_RECORD":
            waiting = []
        elif name == "END_TRANSACTION_RECORD":
            result += waiting or []
            waiting = None
        elif name == "ABORT_TRANSACTION_RECORD":
            waiting = None
        elif waiting is not None:
            waiting.append(message)
        else:
            result.append(message)
    return result


def rows(found: Printed, last: int) -> list[Json]:
    """The rows after an offset."""
    state: dict[Key, Json] = {}
    for message in counted(found, last):
        _one(state, message["type"], dict(message["data"]))
    return in_order(_shown(state, key, fields) for key, fields in state.items())


def in_order(shown: Any) -> list[Json]:
    """Rows in an order of their own."""
    return sorted(shown, key=lambda row: json.dumps(row, sort_keys=True))


def _one(state: dict[Key, Json], name: str, data: Json) -> None:
    if name in _PUT:
        kind, keys = _PUT[name]
        state[(kind, *(data[key] for key in keys))] = data
    elif name in _TAKEN:
        kind, keys = _TAKEN[name]
        del state[(kind, *(data[key] for key in keys))]
    elif name in _CHANGES:
        _CHANGES[name](state, data)
    else:
        assert name in ("NO_OP_RECORD", "ZK_MIGRATION_STATE_RECORD"), name


_PUT = {
    "REGISTER_BROKER_RECORD": ("broker", ("brokerId",)),
    "REGISTER_CONTROLLER_RECORD": ("controller", ("controllerId",)),
    "TOPIC_RECORD": ("topic", ("topicId",)),
    "PARTITION_RECORD": ("partition", ("topicId", "partitionId")),
    "ACCESS_CONTROL_ENTRY_RECORD": ("acl", ("id",)),
    "USER_SCRAM_CREDENTIAL_RECORD": ("scram", ("name", "mechanism")),
    "DELEGATION_TOKEN_RECORD": ("token", ("tokenId",)),
}
_TAKEN = {
    "UNREGISTER_BROKER_RECORD": ("broker", ("brokerId",)),
    "UNREGISTER_CONTROLLER_RECORD": ("controller", ("controllerId",)),
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": ("acl", ("id",)),
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": ("scram", ("name", "mechanism")),
    "REMOVE_DELEGATION_TOKEN_RECORD": ("token", ("tokenId",)),
}


def _fence(state: dict[Key, Json], data: Json) -> None:
    state["broker", data["id"]]["fenced"] = True


def _unfence(state: dict[Key, Json], data: Json) -> None:
    state["broker", data["id"]]["fenced"] = False


def _broker(state: dict[Key, Json], data: Json) -> None:
    broker = state["broker", data["brokerId"]]
    broker["fenced"] = {1: True, -1: False, 0: broker["fenced"]}[data.get("fenced", 0)]
    broker["inControlledShutdown"] |= data.get("inControlledShutdown", 0) == 1
    if data.get("logDirs"):
        broker["logDirs"] = data["logDirs"]
    if "cordonedLogDirs" in data:
        broker["cordonedLogDirs"] = data["cordonedLogDirs"]


def _remove_topic(state: dict[Key, Json], data: Json) -> None:
    topic = state.pop(("topic", data["topicId"]))["name"]
    for key in [key for key in state if key[:2] in (("partition", data["topicId"]), ("config", (2, topic)))]:
        del state[key]


def _config(state: dict[Key, Json], data: Json) -> None:
    key = ("config", (data["resourceType"], data["resourceName"]), data["name"])
    state[key] = data
    if data["value"] is None:
        del state[key]


def _feature(state: dict[Key, Json], data: Json) -> None:
    state["feature", data["name"]] = data
    if data["featureLevel"] == 0:
        del state["feature", data["name"]]


def _quota(state: dict[Key, Json], data: Json) -> None:
    key = ("quota", json.dumps(sorted((one["entityType"], one["entityName"]) for one in data["entity"])), data["key"])
    state[key] = data
    if data["remove"]:
        del state[key]


def _producer_ids(state: dict[Key, Json], data: Json) -> None:
    state["producerIds",] = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": data["nextProducerId"]}


def _partition(state: dict[Key, Json], data: Json) -> None:
    _change(state["partition", data["topicId"], data["partitionId"]], data)


def _change(partition: Json, change: Json) -> None:
    """What a PartitionChangeRecord says. Source: PartitionRegistration.merge."""
    partition["partitionEpoch"] += 1
    for name, value in change.items():
        if name == "leader":
            partition["leaderEpoch"] += 1
        if name not in ("partitionId", "topicId"):
            partition[name] = value


def _clear_elr(state: dict[Key, Json], change: Json) -> None:
    """Of one topic, or of all. Source: TopicDelta.maybeClearElr."""
    topic = change["topicName"]
    ids = {key[1] for key, data in state.items() if key[0] == "topic" and topic in ("", data["name"])}
    for key, data in state.items():
        if key[0] == "partition" and key[1] in ids and (data.get("eligibleLeaderReplicas") or data.get("lastKnownElr")):
            _change(data, {"eligibleLeaderReplicas": [], "lastKnownElr": []})


_CHANGES = {
    "FENCE_BROKER_RECORD": _fence,
    "UNFENCE_BROKER_RECORD": _unfence,
    "BROKER_REGISTRATION_CHANGE_RECORD": _broker,
    "REMOVE_TOPIC_RECORD": _remove_topic,
    "PARTITION_CHANGE_RECORD": _partition,
    "CONFIG_RECORD": _config,
    "FEATURE_LEVEL_RECORD": _feature,
    "CLIENT_QUOTA_RECORD": _quota,
    "PRODUCER_IDS_RECORD": _producer_ids,
    "CLEAR_ELR_RECORD": _clear_elr,
}


def _shown(state: dict[Key, Json], key: Key, fields: Json) -> Json:
    row = {"type": key[0], **fields}
    if key[0] == "partition":
        row["topic"] = state["topic", key[1]]["name"]
        for name in ("eligibleLeaderReplicas", "lastKnownElr", "leaderRecoveryState"):
            if not row.get(name):
                row.pop(name, None)
    for name in SECRETS if key[0] == "scram" else ():
        del row[name]
    return row
