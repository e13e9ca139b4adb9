"""Groups, commits and transactions folded from what `dump --compat 4.3` prints: record by record, nothing clever.

It shares no code with kdump: the text is that of Kafka's own tool (goldens hold the two equal). As a script it folds a
text of Kafka's tool itself, and says whether `kdump groups` or `kdump transactions` says the same:

    kafka-dump-log.sh --offsets-decoder --files LOG | python -m tests.support.state_fold groups PARTITION [--at MS]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.runs import run_kdump

_TIME = r"(?:CreateTime|LogAppendTime|NoTimestampType): (-?\d+) "
_BATCH = re.compile(rf"baseOffset: \d+ .*?producerId: (-?\d+) .*?{_TIME}")
_LEGACY = re.compile(rf"offset: \d+ position: \d+ {_TIME}")
_RECORD = re.compile(r"\| offset: (\d+) ")
_MARKER = re.compile(r"endTxnMarker: (COMMIT|ABORT)")
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
Json = dict[str, Any]


class Batch(NamedTuple):
    """A batch: maxTimestamp, producer id, and its records as offset, key, value (None: a tombstone) or marker."""

    time: int
    producer: int
    records: list[tuple[int, Json | None, Json | None, str | None]]


def batches(text: str) -> list[Batch]:
    """Read what DumpLogSegments prints with a decoder."""
    found: list[Batch] = []
    for line in text.splitlines():
        head, legacy = _BATCH.match(line), _LEGACY.match(line)
        if head is not None:
            found.append(Batch(int(head[2]), int(head[1]), []))
            continue
        if legacy is not None:
            found.append(Batch(int(legacy[1]), -1, []))
            continue
        record = _RECORD.match(line)
        if record is None:
            continue
        marker = _MARKER.search(line)
        if marker is not None:
            found[-1].records.append((int(record[1]), None, None, marker[1]))
            continue
        key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
        value = None if payload == "<DELETE>" else json.loads(payload)
        found[-1].records.append((int(record[1]), json.loads(key), value, None))
    return found


def until(found: list[Batch], time: int | None) -> list[Batch]:
    """The batches up to the last one whose maxTimestamp is at most a time."""
    if time is None:
        return found
    last = max((number for number, batch in enumerate(found) if batch.time <= time), default=-1)
    return found[: last + 1]


# --- groups ---------------------------------------------------------------------------------------------------
_KINDS = {3: "Consumer", 4: "Consumer", 5: "Consumer", 6: "Consumer", 7: "Consumer", 8: "Consumer", 16: "Consumer"}
_KINDS |= dict.fromkeys(range(10, 16), "Share") | {17: "Streams"} | dict.fromkeys(range(19, 24), "Streams")
_METADATA, _MEMBERS, _TARGETS, _CURRENT = (3, 11, 17), (5, 10, 19), (6, 12, 20), (8, 14, 22)
_TOPOLOGY = 23


class Groups:
    """What a group coordinator knows."""

    def __init__(self) -> None:
        self.groups: dict[str, Json] = {}
        self.commits: dict[tuple[str, str, int], tuple[int, Json]] = {}
        self.pending: dict[int, dict[tuple[str, str, int], tuple[int, Json]]] = {}

    def batch(self, batch: Batch) -> None:
        """Replay a batch."""
        for offset, key, value, marker in batch.records:
            if marker is not None:
                for identity, one in self.pending.pop(batch.producer, {}).items():
                    if marker == "COMMIT" and (identity not in self.commits or self.commits[identity][0] < one[0]):
                        self.commits[identity] = one
                continue
            assert key is not None
            kind, data = int(key["type"]), key["data"]
            if kind < 2:
                self.commit(batch.producer, offset, data, value and value["data"])
            elif kind == 2:
                self.classic(data["group"], value and value["data"])
            else:
                self.modern(kind, data, value and value["data"])

    def commit(self, producer: int, offset: int, key: Json, value: Json | None) -> None:
        """Replay a commit."""
        identity = key["group"], key["topic"], key["partition"]
        if value is None:
            self.commits.pop(identity, None)
            for one in self.pending.values():
                one.pop(identity, None)
            return
        self.groups.setdefault(key["group"], {"type": "Classic", "epoch": 0, "protocol": "", "members": {}})
        target = self.commits if producer == -1 else self.pending.setdefault(producer, {})
        target[identity] = offset, value

    def classic(self, name: str, value: Json | None) -> None:
        """Replay the metadata of a classic group."""
        if value is None:
            self.groups.pop(name, None)
            return
        members: Json = {one["memberId"]: {} for one in value["members"]}
        protocol = value["protocolType"]
        self.groups[name] = {"type": "Classic", "epoch": value["generation"], "protocol": protocol, "members": members}

    def modern(self, kind: int, key: Json, value: Json | None) -> None:
        """Replay a record of a consumer, share or streams group."""
        name, group_type = key["groupId"], _KINDS[kind]
        group = self.groups.get(name)
        if group is None and value is None:
            return
        if group is None or (group["type"] == "Classic" and not group["protocol"] and not group["members"]):
            fresh = {"type": group_type, "epoch": 1, "protocol": group_type.lower(), "members": {}, "target": 1}
            group = self.groups[name] = fresh
        if kind in _METADATA and value is None:
            del self.groups[name]
        elif kind in _METADATA and value is not None:
            group["epoch"], group["validated"] = value["epoch"], value.get("validatedTopologyEpoch", -1)
        else:
            self.part(kind, group, key, value)

    def part(self, kind: int, group: Json, key: Json, value: Json | None) -> None:
        """Replay another record of a group."""
        members = group["members"]
        if kind in _TARGETS:
            group["target"] = -1 if value is None else value["assignmentEpoch"]
        elif kind == _TOPOLOGY:
            group["topology"] = None if value is None else value["epoch"]
        elif kind in _MEMBERS and value is None:
            members.pop(key["memberId"], None)
        elif kind in _MEMBERS:
            members.setdefault(key["memberId"], {})
        elif kind in _CURRENT and value is not None:
            members[key["memberId"]] = {"epoch": value["memberEpoch"], "state": value["state"]}
        elif kind in _CURRENT and key["memberId"] in members:
            members[key["memberId"]]["epoch"] = -1

    def state(self, group: Json) -> str:
        """The state of a group, in Kafka's words."""
        if not group["members"]:
            return "Empty"
        if group["type"] in ("Classic", "Share"):
            return "Stable"
        if group["type"] == "Streams" and (group.get("topology") is None or group["topology"] != group["validated"]):
            return "NotReady"
        if group["epoch"] > group["target"]:
            return "Assigning"
        stable = 1 if group["type"] == "Streams" else 0
        settled = all(
            one.get("state", stable) == stable and one.get("epoch", 0) == group["target"]
            for one in group["members"].values()
        )
        return "Stable" if settled else "Reconciling"

    def rows(self) -> set[tuple[Any, ...]]:
        """All that there is, to compare."""
        found: set[tuple[Any, ...]] = set()
        for name, group in self.groups.items():
            found.add(
                (name, group["type"], self.state(group), group["epoch"], group["protocol"], len(group["members"]))
            )
        for identity, (_, value) in self.commits.items():
            found.add((*identity, False, *_commit(value)))
        for producer, pending in self.pending.items():
            for identity, (_, value) in pending.items():
                found.add((*identity, True, *_commit(value), producer))
        return found


def _commit(value: Json) -> tuple[Any, ...]:
    epoch, expires = value.get("leaderEpoch", -1), value.get("expireTimestamp", -1)
    times = value["commitTimestamp"], None if expires < 0 else expires
    return value["offset"], None if epoch < 0 else epoch, value["metadata"], *times


def groups(found: list[Batch], time: int | None = None) -> set[tuple[Any, ...]]:
    """What a coordinator knows at a time, as `group_rows` has it."""
    fold = Groups()
    for batch in until(found, time):
        fold.batch(batch)
    return fold.rows()


def group_rows(rows: list[Json]) -> set[tuple[Any, ...]]:
    """What `kdump groups --format json` says, as `groups` has it."""
    found: set[tuple[Any, ...]] = set()
    for row in rows:
        if row["type"] == "group":
            keys = ("group", "groupType", "state", "epoch", "protocol", "members")
            found.add(tuple(row[key] for key in keys))
        elif row["type"] == "commit":
            names = ("group", "topic", "partition", "pending", "offset", "leaderEpoch", "metadata", "commitTimestamp")
            last = (row["producerId"],) if row["pending"] else ()
            found.add((*(row[name] for name in names), row["expireTimestamp"], *last))
    return found


# --- transactions ---------------------------------------------------------------------------------------------
def transactions(found: list[Batch], time: int | None = None) -> set[tuple[Any, ...]]:
    """What a transaction coordinator knows at a time, as `transaction_rows` has it."""
    known: dict[str, Json] = {}
    for batch in until(found, time):
        for _, key, value, _ in batch.records:
            assert key is not None
            name = key["data"]["transactionalId"]
            if value is None:
                known.pop(name, None)
            else:
                known[name] = value["data"]
    return {
        (
            name,
            one["producerId"],
            one["producerEpoch"],
            _STATES[one["transactionStatus"]],
            one["transactionTimeoutMs"],
            None if one["transactionStartTimestampMs"] < 0 else one["transactionStartTimestampMs"],
            one["transactionLastUpdateTimestampMs"],
            frozenset(f"{at['topic']}-{n}" for at in one["transactionPartitions"] or () for n in at["partitionIds"]),
        )
        for name, one in known.items()
    }


def transaction_rows(rows: list[Json]) -> set[tuple[Any, ...]]:
    """What `kdump transactions --format json` says, as `transactions` has it."""
    keys = ("transactionalId", "producerId", "producerEpoch", "state", "timeoutMs", "startTimestamp")
    return {
        (*(row[key] for key in keys), row["lastUpdateTimestamp"], frozenset(row["partitions"]))
        for row in rows
        if row["type"] == "transaction"
    }


def main() -> int:
    """Fold stdin, and compare."""
    parser = argparse.ArgumentParser(prog="state_fold.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("verb", choices=["groups", "transactions"])
    parser.add_argument("partition", type=Path)
    parser.add_argument("--at", type=int)
    options = parser.parse_args()
    at = [] if options.at is None else ["--at", str(options.at)]
    run = run_kdump([options.verb, "--format", "json", *at, str(options.partition.resolve())], Path.cwd())
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    found = batches(sys.stdin.read())
    if options.verb == "groups":
        ours, theirs = group_rows(rows), groups(found, options.at)
    else:
        ours, theirs = transaction_rows(rows), transactions(found, options.at)
    for row in sorted(ours ^ theirs, key=repr):
        print("kdump alone" if row in ours else "fold alone ", row)
    print(f"{len(ours & theirs)} rows are the same, {len(ours ^ theirs)} are not")
    return 1 if ours ^ theirs else 0


if __name__ == "__main__":
    sys.exit(main())
