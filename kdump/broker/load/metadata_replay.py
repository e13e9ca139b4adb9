"""Whether a node can apply the records of its metadata log: an image and its delta, as far as records fail of them.

Only what a record can fail of is followed: which brokers there are and of which epoch, topics, partitions and ACLs. Of
a snapshot one delta is made; the log behind it makes another, and each transaction one of its own.

Source: MetadataDelta, ClusterDelta, TopicsDelta, TopicDelta, AclsDelta (each `replay`), PartitionRegistration,
MetadataBatchLoader; Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.format.java_values import ARGUMENT, RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.decode.metadata import Framed

    Fields = dict[str, Any]

_STATE = "java.lang.IllegalStateException"
_NULL = "java.lang.NullPointerException"
_DIRECTORIES = "org.apache.kafka.common.errors.InvalidReplicaDirectoriesException"
_NO_CHANGE = -1  # LeaderRecoveryState
_RECOVERY = (0, 1)  # RECOVERED, RECOVERING
_FENCING = (-1, 0, 1)  # BrokerRegistrationFencingChange
_SHUTDOWN = (0, 1)  # BrokerRegistrationInControlledShutdownChange


class NotAppliedError(Exception):
    """A record that cannot be applied: class and message as Java prints them."""


class MetadataReplay:
    """Applies records."""

    def __init__(self) -> None:
        # the image
        self._brokers: dict[int, int] = {}  # epochs
        self._topics: dict[str, tuple[str, frozenset[int]]] = {}  # name and partitions by id
        self._acls: set[str] = set()
        self._is_in_transaction = False
        self._begin()

    def _begin(self) -> None:
        """Begin a delta."""
        self._new_brokers: dict[int, int | None] = {}
        self._new_topics: dict[str, tuple[str, bool, set[int]]] = {}  # name, whether the image's go on, and partitions
        self._created: dict[str, str] = {}  # ids by name
        self._deleted: set[str] = set()
        self._new_acls: dict[str, bool] = {}  # whether they are there

    def apply(self) -> None:
        """Make the next image of the delta: a snapshot, or a transaction, ends."""
        self._brokers = {**self._brokers, **{k: v for k, v in self._new_brokers.items() if v is not None}}
        for number in [number for number, epoch in self._new_brokers.items() if epoch is None]:
            self._brokers.pop(number, None)
        for topic in self._deleted:
            self._topics.pop(topic, None)
        for topic, (name, goes_on, partitions) in self._new_topics.items():
            before = self._topics.get(topic, ("", frozenset()))[1] if goes_on else frozenset()
            self._topics[topic] = name, before | partitions
        self._acls |= {one for one, is_there in self._new_acls.items() if is_there}
        self._acls -= {one for one, is_there in self._new_acls.items() if not is_there}
        self._begin()

    def take(self, record: Framed, *, of_snapshot: bool) -> None:
        """Apply a record.

        Args:
            record: the next one.
            of_snapshot: it is in a snapshot, in which there are no transactions.

        Raises:
            NotAppliedError: it cannot be.
        """
        if record.name in _TRANSACTIONS:
            if of_snapshot:
                raise NotAppliedError(f"{RUNTIME}: Unknown metadata record type {record.name}")
            self._transaction(str(record.name).partition("_")[0])
            return
        replay = _REPLAYS.get(str(record.name))
        if replay is not None:
            replay(self, record.data)

    def _transaction(self, what: str) -> None:
        name = f"{what.capitalize()}TransactionRecord"
        if what == "BEGIN":
            if self._is_in_transaction:
                raise NotAppliedError(f"{RUNTIME}: Encountered {name} while already in a transaction")
            self.apply()
        elif not self._is_in_transaction:
            raise NotAppliedError(f"{RUNTIME}: Encountered {name} without having seen a BeginTransactionRecord")
        elif what == "END":
            self.apply()
        else:
            self._begin()
        self._is_in_transaction = what == "BEGIN"

    # --- brokers ----------------------------------------------------------------------------------------------
    def _register(self, data: Fields) -> None:
        self._new_brokers[data["brokerId"]] = data["brokerEpoch"]

    def _unregister(self, data: Fields) -> None:
        self._new_brokers[data["brokerId"]] = None

    def _fence(self, data: Fields) -> None:
        self._demand_broker(data["id"], data["epoch"], "fence")

    def _unfence(self, data: Fields) -> None:
        self._demand_broker(data["id"], data["epoch"], "unfence")

    def _change_broker(self, data: Fields) -> None:
        self._demand_broker(data["brokerId"], data["brokerEpoch"], "change")
        for field, known in (("fenced", _FENCING), ("inControlledShutdown", _SHUTDOWN)):
            value = data.get(field) or 0
            if value not in known:
                what = f"Unable to replay BrokerRegistrationChangeRecord: unknown value for {field} field: {value}"
                raise NotAppliedError(f"{_STATE}: {what}")

    def _demand_broker(self, number: int, epoch: int, what: str) -> None:
        found = self._new_brokers[number] if number in self._new_brokers else self._brokers.get(number)
        if found is None:
            raise NotAppliedError(f"{_STATE}: Tried to {what} broker {number}, but that broker was not registered.")
        if found != epoch:
            why = f"but the given epoch, {epoch}, did not match the current broker epoch, {found}"
            raise NotAppliedError(f"{_STATE}: Tried to {what} broker {number}, {why}")

    # --- topics -----------------------------------------------------------------------------------------------
    def _topic(self, data: Fields) -> None:
        self._new_topics[data["topicId"]] = data["name"], False, set()
        self._created[data["name"]] = data["topicId"]

    def _partitions_of(self, topic: str) -> tuple[str, bool, set[int]] | None:
        """The delta of a topic; None where there is no such topic."""
        found = self._new_topics.get(topic)
        if found is None and topic in self._topics:
            found = self._new_topics[topic] = self._topics[topic][0], True, set()
        return found

    def _partition(self, data: Fields) -> None:
        topic = self._partitions_of(data["topicId"])
        if topic is None:
            _no_topic()
            return
        _demand_directories(data, data.get("replicas"))
        _demand_recovery(data.get("leaderRecoveryState") or 0)
        topic[2].add(data["partitionId"])

    def _change_partition(self, data: Fields) -> None:
        topic, number = data["topicId"], data["partitionId"]
        delta = self._partitions_of(topic)
        if delta is None:
            _no_topic()
            return
        if number not in delta[2] and not (delta[1] and number in self._topics[topic][1]):
            raise NotAppliedError(f"{RUNTIME}: Unable to find partition {topic}:{number}")
        if data.get("replicas") is not None:
            _demand_directories(data, data["replicas"])
        state = data.get("leaderRecoveryState", _NO_CHANGE)
        if state != _NO_CHANGE:
            _demand_recovery(state)
        delta[2].add(number)

    def _remove_topic(self, data: Fields) -> None:
        topic = data["topicId"]
        delta = self._new_topics.pop(topic, None)
        if delta is None and topic not in self._topics:
            raise NotAppliedError(f"{RUNTIME}: Unable to delete topic with id {topic}: no such topic found.")
        if delta is not None:
            self._created.pop(delta[0], None)
        if topic in self._topics:
            self._deleted.add(topic)

    def _clear_elr(self, data: Fields) -> None:
        name = data["topicName"]
        if name and name not in self._created and name not in (one for one, _ in self._topics.values()):
            what = f"Unable to clear elr for topic with name {name}: no such topic found."
            raise NotAppliedError(f"{RUNTIME}: {what}")

    # --- ACLs -------------------------------------------------------------------------------------------------
    def _acl(self, data: Fields) -> None:
        self._new_acls[data["id"]] = True

    def _remove_acl(self, data: Fields) -> None:
        one = data["id"]
        if one in self._acls:
            self._new_acls[one] = False
        elif one in self._new_acls:
            del self._new_acls[one]
        else:
            what = f"Failed to find existing ACL with ID {one} in either image or changes"
            raise NotAppliedError(f"{_STATE}: {what}")


def _no_topic() -> None:
    why = 'Cannot invoke "org.apache.kafka.image.TopicImage.partitions()" because "this.image" is null'
    raise NotAppliedError(f"{_NULL}: {why}")


def _demand_directories(data: Fields, replicas: list[int] | None) -> None:
    directories = data.get("directories")
    if directories and len(directories) != len(replicas or ()):
        raise NotAppliedError(f"{_DIRECTORIES}: the lengths for replicas and directories do not match")


def _demand_recovery(state: int) -> None:
    if state not in _RECOVERY:
        raise NotAppliedError(f"{ARGUMENT}: Value {state} is not a valid leader recovery state")


_TRANSACTIONS = ("BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD")
_REPLAYS: dict[str, Callable[[MetadataReplay, Fields], None]] = {
    "REGISTER_BROKER_RECORD": MetadataReplay._register,
    "UNREGISTER_BROKER_RECORD": MetadataReplay._unregister,
    "FENCE_BROKER_RECORD": MetadataReplay._fence,
    "UNFENCE_BROKER_RECORD": MetadataReplay._unfence,
    "BROKER_REGISTRATION_CHANGE_RECORD": MetadataReplay._change_broker,
    "TOPIC_RECORD": MetadataReplay._topic,
    "PARTITION_RECORD": MetadataReplay._partition,
    "PARTITION_CHANGE_RECORD": MetadataReplay._change_partition,
    "REMOVE_TOPIC_RECORD": MetadataReplay._remove_topic,
    "CLEAR_ELR_RECORD": MetadataReplay._clear_elr,
    "ACCESS_CONTROL_ENTRY_RECORD": MetadataReplay._acl,
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": MetadataReplay._remove_acl,
}
REPLAYED = frozenset((0, 1, 2, 3, 5, 7, 8, 9, 17, 18, 19, 23, 24, 25, 28))
"""The types of the records that can fail, or that others hang on. Source: MetadataRecordType."""
