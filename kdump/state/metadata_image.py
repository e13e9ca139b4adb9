"""The state of a cluster as the controller has it after loading `__cluster_metadata`: snapshot, then log.

Secrets never leave it: salt and keys of SCRAM users have no place in its rows, and a configuration of Kafka's type
PASSWORD has its name only.

Source: MetadataDelta, ClusterDelta, TopicsDelta, ConfigurationsDelta, FeaturesDelta, ClientQuotasDelta, AclsDelta,
ScramDelta, DelegationTokenDelta, ProducerIdsDelta (each `replay`), MetadataBatchLoader (transactions),
PartitionRegistration.merge, MetadataImage.write (what a snapshot holds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.broker.load.release_refusal import oldest_release
from kdump.broker.lost_directories import MIGRATING
from kdump.decode.metadata import Frames, UnframedError
from kdump.format.batch import layout
from kdump.rows.coordinators import DEFAULT, config_type, entity_name, mechanism_name
from kdump.state.group_coordinator import CommitPlace
from kdump.state.messages import TooLarge, fields_of, known
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.decode.metadata import Framed
    from kdump.format.record.chunk import Chunk

    Fields = dict[str, Any]

TOPIC_CONFIG, BROKER_CONFIG = 2, 4  # ConfigResource.Type
KINDS = (
    "broker",
    "controller",
    "topic",
    "partition",
    "config",
    "feature",
    "quota",
    "acl",
    "scram",
    "token",
    "producerIds",
)
"""What there are rows of, in their order."""

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"  # is in control records, not in the image
_VOTERS = 6  # ControlRecordType.KRAFT_VOTERS
_DIRECTORIES_SINCE = 17  # metadata.version 3.7-IV2: partition records have directories
_SCRAM_SECRETS = ("salt", "storedKey", "serverKey")
_PASSWORDS = (
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "delegation.token.secret.key",
    "delegation.token.master.key",
    "password.encoder.secret",
    "password.encoder.old.secret",
)
"""Configurations of brokers of the type PASSWORD, of all releases. Source: AbstractKafkaConfig.CONFIG_DEF."""
_BEHIND = tuple(f".{name}" for name in _PASSWORDS)
_UNKNOWN_SECRETS = ("password", "passphrase", "secret", "secret.key")  # ends of names of plugins' configurations
_FROM_CHANGE = ("replicas", "isr", "removingReplicas", "addingReplicas", "eligibleLeaderReplicas", "lastKnownElr")
_UNORDERED = ("features", "endPoints")
_IN_NAME = {
    "broker": ("brokerId",),
    "controller": ("controllerId",),
    "topic": ("name",),
    "partition": ("topic", "partitionId", "topicId"),
    "config": ("resourceType", "resourceName", "name"),
    "feature": ("name",),
    "quota": ("entity", "key", "remove"),
    "acl": ("id",),
    "scram": ("name", "mechanism"),
    "token": ("tokenId",),
    "producerIds": (),
}
"""The fields that tell one row from another of its kind: they cannot change."""


def is_password(name: str) -> bool:
    """Tell whether the value of a configuration is a secret, also behind a prefix `listener.name...`."""
    return name in _PASSWORDS or name.endswith(_BEHIND) or name.endswith(_UNKNOWN_SECRETS)


def same(field: str, one: object, other: object) -> bool:
    """Tell whether a field has one value: lists that are hash maps in Kafka have no order."""
    if field in _UNORDERED and isinstance(one, list) and isinstance(other, list):
        return sorted(map(str, one)) == sorted(map(str, other))
    return one == other


def config_name(fields: Fields) -> str:
    """Return whose configuration it is, and its name: "orders retention.ms", "broker 1 log.retention.ms"."""
    number, resource = fields["resourceType"], fields["resourceName"]
    if number == TOPIC_CONFIG:
        return f"{resource} {fields['name']}"
    return f"{config_type(number)} {resource or DEFAULT} {fields['name']}"


class Secret:
    """A value that nobody is shown; it tells only whether it has changed."""

    __slots__ = ("_hash",)

    def __init__(self, value: object) -> None:
        self._hash = hash(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._hash == other._hash

    def __hash__(self) -> int:
        return self._hash


class SetBy(TupleValue):
    """The record that made something so: timestamp (ms) and offset; None of what a snapshot had already."""

    timestamp: int | None
    offset: int | None


NOWHERE = SetBy(None, None)


class _Row:
    """What there is one row of."""

    __slots__ = ("fields", "origins")

    def __init__(self, fields: Fields) -> None:
        self.fields = fields  # of the record that a snapshot would hold, secrets as `Secret`
        self.origins: dict[str, SetBy] = {}  # by field, where that is kept


class MetadataImage:
    """The state, changed record by record.

    Args:
        doubt: takes a record that cannot be read, or that does not fit, and why.
        keep_origins: note for each field which record has set it, and which has removed what is gone.

    Attributes:
        is_whole: it began with a snapshot or with the first record: changes of what is not known are wrong.
        last_contained: the time that the header of the snapshot has (ms), None before one was read.
    """

    def __init__(self, doubt: Callable[[CommitPlace, str], None], *, keep_origins: bool) -> None:
        self._doubt = doubt
        self._keeps = keep_origins
        self._frames = Frames(known(), "metadata")
        self._rows: dict[str, dict[Any, _Row]] = {kind: {} for kind in KINDS}
        self._partitions: dict[str, set[int]] = {}  # by topic id
        self._ids: dict[str, str] = {}  # of topics, by name
        self._held: list[tuple[CommitPlace, Framed]] | None = None  # of a transaction that has not ended
        self._now = NOWHERE
        self.is_whole = True
        self.last_contained: int | None = None
        self.voters: list[Fields] = []  # of the newest KRaftVoters record; empty where the configuration has them
        self.is_finished = False  # the footer of the snapshot was read
        self.gone: dict[tuple[str, str], SetBy] = {}  # by kind and name, the record that has removed it

    # --- reading ----------------------------------------------------------------------------------------------
    def add(self, path: str, chunk: Chunk, first: int, last: int | None, *, of_snapshot: bool = False) -> None:
        """Take records into account.

        Args:
            path: of the file.
            chunk: batches with the right CRC.
            first, last: offsets of the records that count, both included; None for no end.
            of_snapshot: their offsets are those of a snapshot's own.
        """
        batches, width, read = chunk.window.rows, layout.RECORD_WIDTH, fields_of(chunk)
        for r in range(chunk.filled):
            row = chunk.rows[r * width : (r + 1) * width]
            at = row[layout.R_BATCH] * layout.BATCH_WIDTH
            offset = row[layout.R_OFFSET]
            if offset < first or (last is not None and offset > last):
                continue
            key, value = read(chunk.view, row)
            if batches[at + layout.MAGIC] >= layout.MAGIC_V2 and batches[at + layout.ATTRIBUTES] & layout.CONTROL_FLAG:
                self._control(key, value, of_snapshot=of_snapshot)
                continue
            where = batches[at + layout.POSITION], batches[at + layout.SIZE]
            place = CommitPlace(path, *where, offset, row[layout.R_TIMESTAMP])
            if isinstance(value, TooLarge):
                self._doubt(place, value.why)
                continue
            try:
                record = self._frames.read(value or b"")
            except UnframedError as problem:
                self._doubt(place, str(problem))
                continue
            if record.strange is not None:
                self._doubt(place, record.strange)
            self._now = NOWHERE if of_snapshot else SetBy(place.timestamp, offset)
            self._take(place, record)

    def _control(self, key: bytes | None, value: bytes | None, *, of_snapshot: bool) -> None:
        """Read the voters, and header and footer of a snapshot. Source: ControlRecordType, SnapshotHeaderRecord."""
        number = int.from_bytes(key[2:4]) if key else -1
        if number == _VOTERS:
            from kdump.decode.control import control_object  # few clusters have them, and few runs want them

            made = control_object(key, value)
            data: Any = None if made is None else made["data"]
            self.voters = self.voters if data is None else data["voters"]
        if not of_snapshot:
            return
        if number == 3 and value is not None and len(value) >= 10:
            self.last_contained = int.from_bytes(value[2:10], signed=True)
        self.is_finished = self.is_finished or number == 4

    def _take(self, place: CommitPlace, record: Framed) -> None:
        """Apply a record, or hold it until its transaction ends. Source: MetadataBatchLoader.replay."""
        name, held = record.name, self._held
        if name == "BEGIN_TRANSACTION_RECORD":
            if held is None:
                self._held = []
            else:
                self._doubt(place, "a transaction begins inside another")
        elif name in ("END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"):
            if held is None:
                if self.is_whole:
                    self._doubt(place, "a transaction ends that has not begun")
            elif name == "END_TRANSACTION_RECORD":
                for where, one in held:
                    self._now = SetBy(where.timestamp, where.offset)
                    self._apply(where, one)
            self._held = None
        elif held is None:
            self._apply(place, record)
        else:
            held.append((place, record))

    def _apply(self, place: CommitPlace, record: Framed) -> None:
        replay = _REPLAYS.get(record.name)
        if replay is None:
            return
        why = replay(self, dict(record.data))
        if why and self.is_whole:
            self._doubt(place, why)

    # --- one record -------------------------------------------------------------------------------------------
    def _set(self, kind: str, key: object, fields: Fields) -> str:
        """Put a row, or change the one that is there."""
        row = self._rows[kind].get(key)
        if row is None:
            row = self._rows[kind][key] = _Row(fields)
            if self._keeps:
                row.origins = dict.fromkeys(fields, self._now)
            return ""
        if self._keeps:
            before = row.fields
            for name in {**before, **fields}:
                if not same(name, before.get(name), fields.get(name)):
                    row.origins[name] = self._now
        row.fields = fields
        return ""

    def _remove(self, kind: str, key: object) -> bool:
        """Take a row away; tell whether there was one."""
        row = self._rows[kind].pop(key, None)
        if row is not None and self._keeps:
            self.gone[kind, self._name(kind, row.fields)] = self._now
        return row is not None

    def _register_broker(self, data: Fields) -> str:
        data.setdefault("isMigratingZkBroker", False)
        data.setdefault("inControlledShutdown", False)
        return self._set("broker", data["brokerId"], data)

    def _unregister_broker(self, data: Fields) -> str:
        self._remove("broker", data["brokerId"])
        return ""

    def _other_epoch(self, number: int, epoch: int, what: str) -> str:
        row = self._rows["broker"].get(number)
        if row is None:
            return f"it is to {what} broker {number}, which is not registered"
        its = row.fields["brokerEpoch"]
        return "" if its == epoch else f"it is to {what} broker {number} of epoch {epoch}, whose epoch is {its}"

    def _fence(self, data: Fields) -> str:
        return self._change_broker(data["id"], data["epoch"], {"fenced": True}, "fence")

    def _unfence(self, data: Fields) -> str:
        return self._change_broker(data["id"], data["epoch"], {"fenced": False}, "unfence")

    def _broker_change(self, data: Fields) -> str:
        """Source: BrokerRegistrationFencingChange, BrokerRegistrationInControlledShutdownChange."""
        changes: Fields = {}
        if data.get("fenced"):
            changes["fenced"] = data["fenced"] > 0
        if data.get("inControlledShutdown"):
            changes["inControlledShutdown"] = True
        if data.get("logDirs"):
            changes["logDirs"] = data["logDirs"]
        if data.get("cordonedLogDirs") is not None:
            changes["cordonedLogDirs"] = data["cordonedLogDirs"]
        return self._change_broker(data["brokerId"], data["brokerEpoch"], changes, "change")

    def _change_broker(self, number: int, epoch: int, changes: Fields, what: str) -> str:
        why = self._other_epoch(number, epoch, what)
        if not why:
            self._set("broker", number, {**self._rows["broker"][number].fields, **changes})
        return why

    def _register_controller(self, data: Fields) -> str:
        return self._set("controller", data["controllerId"], data)

    def _unregister_controller(self, data: Fields) -> str:
        self._remove("controller", data["controllerId"])
        return ""

    def _topic(self, data: Fields) -> str:
        self._ids[data["name"]] = data["topicId"]
        self._partitions[data["topicId"]] = set()
        return self._set("topic", data["topicId"], data)

    def _remove_topic(self, data: Fields) -> str:
        topic = data["topicId"]
        row = self._rows["topic"].get(topic)
        if row is None:
            return f"it is to remove topic {topic}, which is not known"
        name = row.fields["name"]
        for number in sorted(self._partitions.pop(topic, ())):
            self._remove("partition", (topic, number))
        configs = [key for key in self._rows["config"] if key[0] == TOPIC_CONFIG and key[1] == name]
        for key in configs:
            self._remove("config", key)
        self._remove("topic", topic)
        if self._ids.get(name) == topic:
            del self._ids[name]
        return ""

    def _partition(self, data: Fields) -> str:
        topic, number = data["topicId"], data["partitionId"]
        if topic not in self._rows["topic"]:
            return f"it is of partition {number} of topic {topic}, which is not known"
        self._partitions[topic].add(number)
        data["directories"] = _or_migrating(data.get("directories"), len(data["replicas"]))
        return self._set("partition", (topic, number), data)

    def _partition_change(self, data: Fields) -> str:
        """Source: PartitionRegistration.merge."""
        key = data["topicId"], data["partitionId"]
        row = self._rows["partition"].get(key)
        if row is None:
            return f"it is to change partition {key[1]} of topic {key[0]}, which is not known"
        new = dict(row.fields)
        new.update({name: data[name] for name in _FROM_CHANGE if data.get(name) is not None})
        given = data.get("directories")
        new["directories"] = _or_migrating(new["directories"] if given is None else given, len(new["replicas"]))
        if data.get("leader", -2) != -2:
            new["leader"] = data["leader"]
            new["leaderEpoch"] += 1
        if data.get("leaderRecoveryState", -1) != -1:
            new["leaderRecoveryState"] = data["leaderRecoveryState"]
        new["partitionEpoch"] += 1
        return self._set("partition", key, new)

    def _clear_elr(self, data: Fields) -> str:
        """Source: TopicDelta.maybeClearElr: partitions without ELR are left as they are."""
        name = data["topicName"]
        if name and name not in self._ids:
            return f"it is to clear the ELR of topic {name}, which is not known"
        topics = [self._ids[name]] if name else list(self._partitions)
        for topic in topics:
            for number in self._partitions[topic]:
                fields = self._rows["partition"][topic, number].fields
                if fields.get("eligibleLeaderReplicas") or fields.get("lastKnownElr"):
                    empty: Fields = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
                    epoch = fields["partitionEpoch"] + 1
                    self._set("partition", (topic, number), {**fields, **empty, "partitionEpoch": epoch})
        return ""

    def _config(self, data: Fields) -> str:
        key = data["resourceType"], data["resourceName"], data["name"]
        if data["value"] is None:
            self._remove("config", key)
            return ""
        if is_password(data["name"]):
            data["value"] = Secret(data["value"])
        return self._set("config", key, data)

    def _feature(self, data: Fields) -> str:
        name = data["name"]
        if name == KRAFT_VERSION:
            return ""
        if name != METADATA_VERSION and not data["featureLevel"]:
            self._remove("feature", name)
            return ""
        return self._set("feature", name, data)

    def _quota(self, data: Fields) -> str:
        entity = tuple(
            sorted((one["entityType"], one["entityName"] or "", one["entityName"] is None) for one in data["entity"])
        )
        key = entity, data["key"]
        if data["remove"]:
            self._remove("quota", key)
            return ""
        return self._set("quota", key, data)

    def _acl(self, data: Fields) -> str:
        return self._set("acl", data["id"], data)

    def _remove_acl(self, data: Fields) -> str:
        return "" if self._remove("acl", data["id"]) else f"it is to remove ACL {data['id']}, which is not known"

    def _scram(self, data: Fields) -> str:
        for name in _SCRAM_SECRETS:
            data[name] = Secret(data[name])
        return self._set("scram", (data["name"], data["mechanism"]), data)

    def _remove_scram(self, data: Fields) -> str:
        self._remove("scram", (data["name"], data["mechanism"]))
        return ""

    def _token(self, data: Fields) -> str:
        return self._set("token", data["tokenId"], data)

    def _remove_token(self, data: Fields) -> str:
        self._remove("token", data["tokenId"])
        return ""

    def _producer_ids(self, data: Fields) -> str:
        """Source: ProducerIdsImage.write: a snapshot does not say which broker had the last block."""
        data.update(brokerId=-1, brokerEpoch=-1)
        return self._set("producerIds", None, data)

    # --- rows -------------------------------------------------------------------------------------------------
    def rows(self) -> Iterator[tuple[str, Fields]]:
        """Yield kind and fields of each row, those of a kind by name."""
        for kind in KINDS:
            for row in self._sorted(kind):
                fields = self._shaped(kind, row.fields)
                if kind == "feature" and fields["name"] == METADATA_VERSION:
                    fields["oldestRelease"] = oldest_release(fields["featureLevel"])
                yield kind, {name: None if isinstance(one, Secret) else one for name, one in fields.items()}

    def named(self) -> dict[tuple[str, str], tuple[Fields, dict[str, SetBy]]]:
        """Return by kind and name what can change of each row, secrets as `Secret`, and where it is from."""
        found = {}
        for kind in KINDS:
            for row in self._sorted(kind):
                name = self._name(kind, row.fields)
                fields = self._shaped(kind, row.fields, with_secrets=True)
                for fixed in _IN_NAME[kind]:
                    fields.pop(fixed, None)
                found[kind, name] = fields, row.origins
        return found

    def topic_of(self, name: str) -> Fields | None:
        """Return the fields of a topic by its name, None where there is none."""
        topic = self._ids.get(name)
        row = None if topic is None else self._rows["topic"].get(topic)
        return None if row is None else row.fields

    def topic_name(self, topic_id: str | None) -> str | None:
        """Return the name of a topic by its id, None where there is none."""
        row = None if topic_id is None else self._rows["topic"].get(topic_id)
        return None if row is None else str(row.fields["name"])

    def partition(self, topic_id: str, number: int) -> Fields | None:
        """Return the fields of a partition, None where there is none."""
        row = self._rows["partition"].get((topic_id, number))
        return None if row is None else row.fields

    def topics(self) -> list[str]:
        """Return the names of the topics."""
        return sorted(self._ids)

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics by their names."""
        return {name: self._ids[name] for name in self.topics()}

    def partitions(self) -> Iterator[tuple[str, int, Fields]]:
        """Yield topic, number and fields of each partition, by topic and number."""
        for row in self._sorted("partition"):
            yield self._topic_name(row.fields), row.fields["partitionId"], row.fields

    def brokers(self) -> dict[int, Fields]:
        """Return the fields of the registered brokers by id."""
        return {number: row.fields for number, row in self._rows["broker"].items()}

    def controllers(self) -> set[int]:
        """Return the ids of the registered controllers."""
        return set(self._rows["controller"])

    def configs(self) -> Iterator[tuple[int, str, str, str]]:
        """Yield resource type, resource name, name and value of each configuration that is no secret."""
        for number, resource, name in self._rows["config"]:
            value = self._rows["config"][number, resource, name].fields["value"]
            if not isinstance(value, Secret):
                yield number, resource, name, value

    def _sorted(self, kind: str) -> list[_Row]:
        rows = list(self._rows[kind].values())
        orders: dict[str, Callable[[_Row], Any]] = {
            "broker": lambda row: row.fields["brokerId"],
            "controller": lambda row: row.fields["controllerId"],
            "partition": lambda row: (self._topic_name(row.fields), row.fields["partitionId"]),
            "config": lambda row: (row.fields["resourceType"], row.fields["resourceName"], row.fields["name"]),
            "scram": lambda row: (row.fields["name"], row.fields["mechanism"]),
        }
        return sorted(rows, key=orders.get(kind) or (lambda row: self._name(kind, row.fields)))

    def _topic_name(self, fields: Fields) -> str:
        return self.topic_name(fields["topicId"]) or str(fields["topicId"])

    def _name(self, kind: str, fields: Fields) -> str:
        """Return the name of a row among those of its kind."""
        if kind == "partition":
            return f"{self._topic_name(fields)}-{fields['partitionId']}"
        if kind == "config":
            return config_name(fields)
        if kind == "quota":
            return f"{entity_name(fields['entity'])} {fields['key']}"
        if kind == "scram":
            return f"{fields['name']} {mechanism_name(fields['mechanism'])}"
        return str(fields[_IN_NAME[kind][0]]) if _IN_NAME[kind] else kind

    def _shaped(self, kind: str, fields: Fields, *, with_secrets: bool = False) -> Fields:
        """Return the fields as a snapshot has them: of tagged ones those that are not the default."""
        if kind == "partition":
            shown = {"topic": self._topic_name(fields), **fields}
            for name in ("leaderRecoveryState", "eligibleLeaderReplicas", "lastKnownElr"):
                if not shown.get(name):
                    shown.pop(name, None)
            level = self._rows["feature"].get(METADATA_VERSION)
            if level is not None and level.fields["featureLevel"] < _DIRECTORIES_SINCE:
                shown.pop("directories", None)
            return shown
        shown = dict(fields)
        if kind == "broker":
            if not shown.get("logDirs"):
                shown.pop("logDirs", None)
            if shown.get("cordonedLogDirs") is None:
                shown.pop("cordonedLogDirs", None)
        if kind == "scram" and not with_secrets:
            for name in _SCRAM_SECRETS:
                shown.pop(name, None)
        return shown


def _or_migrating(directories: list[str] | None, replicas: int) -> list[str]:
    """Source: PartitionRegistration.defaultToMigrating."""
    if directories is None or all(one == MIGRATING for one in directories):
        return [MIGRATING] * replicas
    return directories


_REPLAYS: dict[str | int, Callable[[MetadataImage, Fields], str]] = {
    "REGISTER_BROKER_RECORD": MetadataImage._register_broker,
    "UNREGISTER_BROKER_RECORD": MetadataImage._unregister_broker,
    "TOPIC_RECORD": MetadataImage._topic,
    "PARTITION_RECORD": MetadataImage._partition,
    "CONFIG_RECORD": MetadataImage._config,
    "PARTITION_CHANGE_RECORD": MetadataImage._partition_change,
    "FENCE_BROKER_RECORD": MetadataImage._fence,
    "UNFENCE_BROKER_RECORD": MetadataImage._unfence,
    "REMOVE_TOPIC_RECORD": MetadataImage._remove_topic,
    "DELEGATION_TOKEN_RECORD": MetadataImage._token,
    "USER_SCRAM_CREDENTIAL_RECORD": MetadataImage._scram,
    "FEATURE_LEVEL_RECORD": MetadataImage._feature,
    "CLIENT_QUOTA_RECORD": MetadataImage._quota,
    "PRODUCER_IDS_RECORD": MetadataImage._producer_ids,
    "BROKER_REGISTRATION_CHANGE_RECORD": MetadataImage._broker_change,
    "ACCESS_CONTROL_ENTRY_RECORD": MetadataImage._acl,
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": MetadataImage._remove_acl,
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": MetadataImage._remove_scram,
    "REMOVE_DELEGATION_TOKEN_RECORD": MetadataImage._remove_token,
    "REGISTER_CONTROLLER_RECORD": MetadataImage._register_controller,
    "UNREGISTER_CONTROLLER_RECORD": MetadataImage._unregister_controller,
    "CLEAR_ELR_RECORD": MetadataImage._clear_elr,
}
