"""The rows of groups, transactions and cluster: what internal topics had at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.row import Kind, Row, column, computed
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.words.command import ShellCommand


SHARE = "Share"  # the type of a group


class CopyChosen(Value):
    """Of several copies of a partition one is read."""

    partition: str  # TOPIC-N
    path: str  # of the directory that is read
    epoch: int  # leader epoch of its last batch, -1 for none
    end_offset: int  # of its log
    others: tuple[str, ...]  # paths of the directories that are not read

    @property
    def sentence(self) -> str:
        """Which one it is."""
        at = f"at leader epoch {self.epoch} and offset {self.end_offset}"
        return f"{self.partition}: {self.path} is read, {at}; not {', '.join(self.others)}"


class Horizon(Row, name="horizon"):
    """Since when answers about a partition are exact: compaction has erased older values. Its rows follow."""

    partition: str = column(Kind.PARTITION, "of the internal topic")
    path: str  # of the directory that is read
    exact_from: int | None = column(Kind.TIME, "at and after it they are exact; null where compaction erased nothing")
    offset: int = column(Kind.OFFSET, "nothing is erased from here on")
    is_whole: bool = True  # nothing that counts for the time that was asked for is erased or lost


class GroupRow(Row, name="group"):
    """A group as its coordinator has it after loading."""

    group: str = column(Kind.NAME, "its name")
    group_type: str = column(Kind.WORD, "Kafka's word for it", words=("Classic", "Consumer", "Share", "Streams"))
    state: str = column(Kind.WORD, "in Kafka's words")
    epoch: int = column(Kind.NUMBER, "generation of a classic group, group epoch of others")
    protocol: str = column(Kind.NAME, "protocol type, empty for a group that only has commits")
    members: int = column(Kind.COUNT, "how many")
    timestamp: int = column(Kind.TIME, "of its newest record")
    partition: str = column(Kind.PARTITION, "the log that it is in")
    exact: bool = True  # no newer record of it, and no commit, can have been erased or lost


class Removal(Row):
    """The record that removed a commit: a tombstone."""

    offset: int = column(Kind.OFFSET, "of the record")
    timestamp: int = column(Kind.TIME, "of the record")


class CommitRow(Row, name="commit"):
    """An offset that a group has committed, or will have if a transaction commits; or the start of a share group."""

    group: str = column(Kind.NAME, "whose it is")
    topic: str = column(Kind.TOPIC, "in which the offset is")
    partition: int = column(Kind.INT, "of the topic")
    offset: int = column(Kind.OFFSET, "that is read next")
    leader_epoch: int | None = column(Kind.NUMBER, "null for none")
    metadata: str = column(Kind.NAME, "the text that the client committed with it")
    commit_timestamp: int | None = column(Kind.TIME, "when the client did; null for a share group")
    expire_timestamp: int | None = column(Kind.TIME, "null for none")
    pending: bool = column(Kind.FLAG, "it waits for the marker of a transaction")
    producer_id: int | None = column(Kind.NUMBER, "of the transaction that it is or was in; null for none")
    log_end_offset: int | None = column(
        Kind.OFFSET, "of the log; null without --lag, or where the log is not among the inputs"
    )

    @computed(Kind.COUNT, "logEndOffset minus offset; null where the first is")
    def lag(self) -> int | None:
        """How many offsets are to be read, None where nobody can tell."""
        return None if self.log_end_offset is None else self.log_end_offset - self.offset

    place: str | None = column(
        Kind.WORD,
        "where the offset stands in the log, with --lag: sound, belowStart, aboveEnd (out of range: auto.offset.reset "
        "applies), cut (its leader epoch ended below it here), markersOnly (nothing to read), waits (behind the last "
        "stable offset) or unsubscribed (no member of the group reads the topic); null where unknown",
    )
    cut_from: int | None = column(
        Kind.OFFSET, "where its leader epoch ended here: what the group read from there on is not here; null for none"
    )
    removed: Removal | None = column(
        Kind.ROW, "what removed it: this is the last value before, shown with --group; null where it counts", of=Removal
    )
    exact: bool = column(Kind.FLAG, "false where compaction may have erased a newer value, or damage may hide one")
    group_type: str  # of the group
    place_why: str = ""  # the place in words; empty for a sound one


class ChangeRow(Row, name="change"):
    """A field that is not at the one time what it was at the other."""

    what: str = column(Kind.WORD, "group or commit, or the type of a row of the cluster")
    name: str = column(Kind.NAME, "of the group, GROUP TOPIC-N of a commit, TOPIC-N of a partition; else of the row")
    partition: str = column(Kind.PARTITION, "of the internal topic")
    field: str = column(Kind.WORD, "by the name that it has in JSON")
    before: Any = column(Kind.JSON, "null for absent")
    after: Any = column(Kind.JSON, "null for absent")
    timestamp: int | None = column(Kind.TIME, "of the record that made it so; null where unknown")
    offset: int | None = column(Kind.OFFSET, "of the same record")
    stands_out: str = ""  # why somebody should look at it, empty for nothing: a reset, backwards or past the log end


class ClusterRow(Value):
    """One thing that the metadata log has: a broker, a topic, a partition ..."""

    kind: str  # the type of the row, one of `metadata_image.KINDS`
    fields: dict[str, Any]  # by Kafka's names, those of the record that a snapshot of this state would hold


class NodeDirectory(Value):
    """A log directory that the user named: what its meta.properties says, null where it does not."""

    path: str  # as the user wrote it
    cluster: str | None  # cluster.id
    node: int | None  # node.id
    directory: str | None  # directory.id


class ClusterOrigin(Value):
    """What a cluster can be made again of, beside its rows; they follow."""

    path: str  # of the metadata log that was read
    offset: int  # the state is that before this one
    cluster: str | None  # cluster.id of its log directory
    directories: tuple[NodeDirectory, ...]  # all that were named
    voters: list[dict[str, Any]]  # of the KRaftVoters record, empty for none
    is_whole: bool  # the metadata log and its snapshots begin where the cluster began


class Remark(Value):
    """What a person has to know about an answer."""

    sentence: str  # without the name of the program


class TransactionRow(Row, name="transaction"):
    """A transactional id as its coordinator has it after loading."""

    transactional_id: str = column(Kind.NAME, "its name")
    producer_id: int = column(Kind.NUMBER, "that writes in its name")
    producer_epoch: int = column(Kind.NUMBER, "of that producer")
    state: str = column(Kind.WORD, "in Kafka's words")
    timeout_ms: int = column(Kind.NUMBER, "that its producer asked for")
    start_timestamp: int | None = column(Kind.TIME, "of the transaction; null for none")
    last_update_timestamp: int = column(Kind.TIME, "of the newest record about it")
    partitions: tuple[str, ...] = column(Kind.PARTITION, "that the transaction writes to, sorted")
    exact: bool = column(Kind.FLAG, "false where compaction may have erased a newer state, or damage may hide one")
    partition: str  # TOPIC-N of the log


class OpenRow(Row, name="open"):
    """A transaction that is open in a partition: readers of committed data stop before it."""

    topic: str = column(Kind.TOPIC, "where")
    partition: int = column(Kind.INT, "of the topic")
    producer_id: int = column(Kind.NUMBER, "that writes it")
    producer_epoch: int = column(Kind.NUMBER, "of the producer")
    transactional_id: str | None = column(Kind.NAME, "by the coordinator; null where it knows none")
    first_offset: int = column(Kind.OFFSET, "of the transaction")
    log_end_offset: int = column(Kind.OFFSET, "of the log")
    blocked_records: int = column(Kind.COUNT, "from the first offset to the log end, of all producers, without markers")
    blocked_bytes: int = column(Kind.SIZE, "of the batches there, markers too")
    since_timestamp: int = column(Kind.TIME, "the largest of its first batch")
    coordinator_state: str | None = column(
        Kind.WORD, "in Kafka's words; null where the coordinator does not know the producer"
    )
    coordinator_epoch: int | None = column(Kind.NUMBER, "of the producer's last marker; null for none")
    hanging: bool | None = column(Kind.FLAG, "no marker will ever come; null where unknown")
    why: str = column(Kind.TEXT, "the evidence")
    abort_command: ShellCommand = column(Kind.COMMAND, "that ends it")
    abort_command_before30: ShellCommand = column(Kind.COMMAND, "the same for brokers before 3.0")
    file: str  # of its first batch
    position: int  # of its first batch
    length: int  # of its first batch


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
