"""The cluster that a result is for (--for): what it has of a partition, as one of its log directories tells.

Strategy: the metadata log there knows the topic id, the leader epoch and the replicas. Without one the partition's own
directory tells them: partition.metadata, and the newest entry of leader-epoch-checkpoint. Both may be older than the
cluster, and leader epochs only rise: what is read is never above the present one. Nothing is made up: where the topic
is not there, or has several ids, the partition is refused, and the sentence ends with what to do.
"""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.storage.identity import topic_ids
from kdump.storage.log_dir import LogDir
from kdump.storage.names import METADATA_LOG, METADATA_TOPIC
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import base_name, parent
from kdump.storage.refusal import RefusedError
from kdump.value import Value
from kdump.words.command import ShellCommand
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOPICS = ("kafka-topics.sh", "--bootstrap-server", "HOST:PORT")
_AGAIN = "then run the same command again"
KEPT_BY = ("retention.ms", "retention.bytes")
"""The configurations of a topic by which a broker deletes what is old, or too much."""


class ClusterMetadata(Value):
    """What the metadata log of a cluster says of its topics."""

    topic_ids: Mapping[str, str]  # by topic
    leader_epochs: Mapping[tuple[str, int], int]  # of each partition, the present one
    replicas: Mapping[tuple[str, int], tuple[int, ...]]  # of each partition, the ids of the brokers
    hosts: Mapping[int, str]  # of brokers by id, those that have registered one
    retention: Mapping[str, Mapping[str, str]]  # by topic, its own values of KEPT_BY


class PartitionThere(Value):
    """What the cluster has of one partition."""

    topic_id: str
    leader_epoch: int  # the present one, or one that was before it
    source: str  # the file or directory that tells this
    asked: str  # the path that the user named: a log directory, or a metadata log
    log_dir: str  # path of the log directory that was asked
    live: str | None = None  # path of the partition's directory in that, None where it has none
    has_records: bool = False  # something lies in the logs of that one
    broker: int | None = None  # whose log directory it is; None where meta.properties does not say it
    replicas: tuple[int, ...] = ()  # ids of the brokers that have a replica; none where that is not known
    hosts: Mapping[int, str] = MappingProxyType({})  # of brokers by id, as far as that is known
    retention: Mapping[str, str] = MappingProxyType({})  # the topic's own values of KEPT_BY
    checkpoints: Mapping[FileKind, int] = MappingProxyType({})  # what those of the log directory say of the partition
    doubts: tuple[str, ...] = ()  # what could not be asked, or nobody there tells, a clause each


class Destination:
    """The cluster that results are for.

    Args:
        path: of one of its log directories, or of its metadata log, as the user wrote it.
        metadata: what the metadata log there says; None where there is none, or a damaged one.
        is_damaged: there is a metadata log, and it cannot be trusted.
    """

    def __init__(self, path: str, metadata: ClusterMetadata | None, *, is_damaged: bool = False) -> None:
        self.path = path
        self._metadata = metadata
        self._is_damaged = is_damaged
        is_metadata_log = base_name(path) == METADATA_LOG
        self._log_dir = LogDir(parent(path) if is_metadata_log else path)

    def there(self, name: str, partitions: int) -> PartitionThere:
        """Return what the cluster has of a partition.

        Args:
            name: of the partition.
            partitions: how many the topic had at least.

        Raises:
            RefusedError: the cluster has no such partition, or what it has contradicts itself.
        """
        topic, _, number = name.rpartition("-")
        key = topic, int(number)
        if topic == METADATA_TOPIC:
            raise RefusedError(f"{name}: a metadata log is the cluster itself: it goes into no other one")
        ids = self._ids(topic)
        known = self._metadata
        if known is not None:
            topic_id = self._by_metadata(name, key, partitions)
            others = {one: path for one, path in ids.items() if one != topic_id}
            if others:
                raise self._of_several(name, {topic_id: self._source, **others})
            epoch, source = known.leader_epochs[key], self._source
        else:
            if len(ids) > 1:
                raise self._of_several(name, ids)
            if not ids:
                raise self._unknown(name, topic, partitions)
            ((topic_id, source),) = ids.items()
            own = self._live.get(topic, {}).get(key[1])
            epochs = () if own is None else own.sound_epochs
            epoch = epochs[-1].epoch if epochs else 0
        live = self._live.get(topic, {}).get(key[1])
        return PartitionThere(
            topic_id,
            epoch,
            source,
            live=None if live is None else live.path,
            has_records=live is not None and live.log_bytes > 0,
            asked=self.path,
            log_dir=self._log_dir.path,
            broker=self._log_dir.node,
            replicas=() if known is None else known.replicas[key],
            hosts={} if known is None else known.hosts,
            retention={} if known is None else known.retention.get(topic, {}),
            checkpoints=self._checkpoints(key),
            doubts=tuple(self._doubts(has_partition=known is not None or live is not None)),
        )

    @cached_property
    def _live(self) -> dict[str, dict[int, PartitionDir]]:
        """The directories of partitions that the broker serves, by topic, then by number, ascending."""
        found: dict[str, dict[int, PartitionDir]] = {}
        for (topic, number), paths in sorted(self._log_dir.in_use.items()):
            found.setdefault(topic, {})[number] = PartitionDir(paths[0], self._log_dir)
        return found

    def _doubts(self, *, has_partition: bool) -> Iterator[str]:
        if self._is_damaged:
            yield "the metadata log there is damaged, and was not asked"
        if not has_partition:
            yield "nothing there tells whether the topic has that partition: ask kafka-topics.sh --describe"

    @property
    def _source(self) -> str:
        """The metadata log."""
        return self._log_dir.listing.join(METADATA_LOG)

    def _ids(self, topic: str) -> dict[str, str]:
        """The ids that sound directories of partitions have for a topic, each with the path of one."""
        return {one: paths[0] for one, paths in topic_ids(self._log_dir, topic).items()}

    def _by_metadata(self, name: str, key: tuple[str, int], partitions: int) -> str:
        """The topic id by the metadata log, of a topic that has the partition.

        Raises:
            RefusedError: it has not.
        """
        assert self._metadata is not None
        topic, number = key
        topic_id = self._metadata.topic_ids.get(topic)
        if topic_id is None:
            create = _create(topic, max(partitions, number + 1))
            why = f"{self._source} has no topic {topic}; make it, with as many partitions as it had, {_AGAIN}"
            raise RefusedError(f"{name}: {why}: {create}")
        if key not in self._metadata.leader_epochs:
            have = sum(its == topic for its, _ in self._metadata.leader_epochs)
            more = ShellCommand(
                *_TOPICS, "--alter", *valued("--topic", topic), "--partitions", str(max(partitions, number + 1))
            )
            why = f"{self._source} has topic {topic} with {counted(have, 'partition')}; give it more, {_AGAIN}"
            raise RefusedError(f"{name}: {why}: {more}")
        return topic_id

    def _of_several(self, name: str, ids: Mapping[str, str]) -> RefusedError:
        told = ", ".join(f"{one} ({path})" for one, path in ids.items())
        how = "a broker sets aside those that are not the topic's when it starts: name a log.dir of one that runs"
        return RefusedError(f"{name}: its topic has several ids in {self.path}: {told}; {how}")

    def _unknown(self, name: str, topic: str, partitions: int) -> RefusedError:
        """No metadata log is there, and no partition of the topic."""
        why = "the metadata log there is damaged" if self._is_damaged else "there is no metadata log"
        how = f"name a log.dir with {METADATA_LOG}, or with a partition of {topic}; where the cluster has no such topic"
        tells = f"nothing in {self.path} tells its topic id ({why}, and no partition of {topic} with an id)"
        return RefusedError(f"{name}: {tells}: {how}, make it, {_AGAIN}: {_create(topic, partitions)}")

    def _checkpoints(self, key: tuple[str, int]) -> dict[FileKind, int]:
        kinds = FileKind.LOG_START, FileKind.RECOVERY_POINT, FileKind.REPLICATION
        offsets = {kind: self._log_dir.offset(kind, key) for kind in kinds}
        return {kind: offset for kind, offset in offsets.items() if offset is not None}


def _create(topic: str, partitions: int) -> ShellCommand:
    """The command that makes a topic."""
    return ShellCommand(*_TOPICS, "--create", *valued("--topic", topic), "--partitions", str(partitions))


def valued(option: str, name: str) -> tuple[str, ...]:
    """Return an option and its value as words: Kafka's tools take a value that begins with a dash for an option.

    Args:
        option: its name.
        name: of a topic.
    """
    return (f"{option}={name}",) if name.startswith("-") else (option, name)
