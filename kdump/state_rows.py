"""What the verbs over internal topics hand to a sink: rows of the state of groups, transactions, cluster at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.value import Value

if TYPE_CHECKING:
    from kdump.words.command import ShellCommand


class CopyChosen(Value):
    """Of several copies of a partition one is read.

    Args:
        partition: TOPIC-N.
        path: of the directory that is read.
        epoch: leader epoch of its last batch, -1 for none.
        end_offset: of its log.
        others: paths of the directories that are not.
    """

    partition: str
    path: str
    epoch: int
    end_offset: int
    others: tuple[str, ...]


class Horizon(Value):
    """Since when answers about a partition are exact: compaction has erased older values. Its rows follow.

    Args:
        partition: TOPIC-N.
        path: of the directory that is read.
        exact_from: ms; None where compaction has erased nothing.
        offset: nothing is erased from here on.
        is_whole: nothing that counts for the time that was asked for is erased or lost.
    """

    partition: str
    path: str
    exact_from: int | None
    offset: int
    is_whole: bool = True


class GroupRow(Value):
    """A group as the coordinator has it after loading.

    Args:
        group: its name.
        group_type: Classic, Consumer, Share or Streams.
        state: in Kafka's words.
        epoch: generation of a classic group, else group epoch.
        protocol: protocol type, empty for a group that only has commits.
        members: how many.
        timestamp: of its newest record, ms.
        partition: TOPIC-N of the log.
        exact: no newer record of it, and no commit, can have been erased or lost.
    """

    group: str
    group_type: str
    state: str
    epoch: int
    protocol: str
    members: int
    timestamp: int
    partition: str
    exact: bool = True


class CommitRow(Value):
    """An offset that a group has committed, or will have if a transaction commits.

    Args:
        group, topic, partition: whose, and of which partition.
        offset: that is read next.
        leader_epoch: None for none.
        metadata: that the client gave.
        commit_timestamp, expire_timestamp: ms; None for none.
        pending: it is in an open transaction.
        producer_id: of the transaction that it is or was in; None for none.
        log_end_offset: of the partition's log; None where that is not among the inputs, or was not asked for.
        exact: no newer value can have been erased or lost.
        group_type: of the group.
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int | None
    expire_timestamp: int | None
    pending: bool
    producer_id: int | None
    log_end_offset: int | None
    exact: bool
    group_type: str

    @property
    def lag(self) -> int | None:
        """How many offsets are to be read, None where nobody can tell."""
        return None if self.log_end_offset is None else self.log_end_offset - self.offset


class ChangeRow(Value):
    """A field that is not at the one time what it was at the other.

    Args:
        what: group or commit, or the kind of a row of the cluster.
        name: of the group, GROUP TOPIC-N, TOPIC-N; else of the row.
        partition: TOPIC-N of the log.
        field: by the name that JSON has.
        before, after: its values; None for absent.
        timestamp, offset: of the record that made it so, None where nobody can tell.
        stands_out: why somebody should look at it, empty for nothing: a reset, backwards or past the end of the log.
    """

    what: str
    name: str
    partition: str
    field: str
    before: Any
    after: Any
    timestamp: int | None
    offset: int | None
    stands_out: str = ""


class ClusterRow(Value):
    """One thing that the metadata log has: a broker, a topic, a partition ...

    Args:
        kind: the type of the row, one of `metadata_image.KINDS`.
        fields: by Kafka's names, those of the record that a snapshot of this state would hold.
    """

    kind: str
    fields: dict[str, Any]


class Remark(Value):
    """What a person has to know about an answer.

    Args:
        sentence: without the name of the program.
    """

    sentence: str


class TransactionRow(Value):
    """A transactional id as its coordinator has it after loading.

    Args:
        transactional_id: its name.
        producer_id, producer_epoch: that write in its name.
        state: in Kafka's words.
        timeout_ms: of its transactions.
        start_timestamp: of the transaction, ms; None for none.
        last_update_timestamp: ms.
        partitions: TOPIC-N of those that the transaction has, sorted.
        exact: no newer value can have been erased or lost.
        partition: TOPIC-N of the log.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_timestamp: int | None
    last_update_timestamp: int
    partitions: tuple[str, ...]
    exact: bool
    partition: str


class OpenRow(Value):
    """A transaction that is open in a partition: readers of committed data stop before it.

    Args:
        topic, partition: where.
        producer_id, producer_epoch: that write it.
        transactional_id: by the coordinator, None where it knows none.
        first_offset: of the transaction.
        log_end_offset: of the log.
        blocked_records: from the first offset to the log end, of all producers, without markers.
        blocked_bytes: of the batches there, markers too.
        since_timestamp: of its first batch, ms.
        coordinator_state: in Kafka's words, None where the coordinator knows the producer not.
        coordinator_epoch: of the producer's last marker, None for none.
        hanging: no marker will ever come; None where nobody can tell.
        why: the evidence, sentences.
        abort_command: that ends it, and the same for clusters before 3.0.
        file, position, length: of its first batch.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    first_offset: int
    log_end_offset: int
    blocked_records: int
    blocked_bytes: int
    since_timestamp: int
    coordinator_state: str | None
    coordinator_epoch: int | None
    hanging: bool | None
    why: str
    abort_command: ShellCommand
    abort_command_before_30: ShellCommand
    file: str
    position: int
    length: int


DEFAULT = "<default>"  # whose name is empty, or null
_CONFIG_TYPES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def config_type(number: int) -> str:
    """Return what a configuration is of, by its number. Source: ConfigResource.Type."""
    return _CONFIG_TYPES.get(number, str(number))


def mechanism_name(number: int) -> str:
    """Return the name of a SCRAM mechanism. Source: ScramMechanism."""
    return _MECHANISMS.get(number, str(number))


def entity_name(entity: list[dict[str, str | None]]) -> str:
    """Return the entity of a quota as text: "user=alice,client-id=<default>"."""
    names = ((one["entityType"], one["entityName"]) for one in entity)
    return ",".join(f"{kind}={DEFAULT if name is None else name}" for kind, name in names)
