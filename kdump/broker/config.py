"""The settings of a broker and its topics that its model needs, with Kafka's defaults.

A topic has the value that was given under its own name (`retention.ms`); else the one of its broker under the broker's
name, of which a few settings have several in an order of their own (`log.retention.ms`, `.minutes`, `.hours`); else
the default of Kafka 4.3. Topics that brokers make for themselves get what brokers make them with, unless the topic's
name was given.

Where the metadata log is at hand it knows more (`ClusterSettings`). From the strongest: what was given under the
topic's name of the setting; the topic's configuration in the cluster; under a broker's name what was given as one
setting, the cluster's configuration of that broker, that of all brokers, and what a file gave.

What a topic is does not follow from a default that nobody has named: whether records are deleted or compacted is known
by the metadata log, or by the user (`CleanupPolicy`); else it is not known.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.broker.cleanup_policy import CleanupPolicy
from kdump.broker.releases import NEWEST, rules_of
from kdump.format.checkpoint.properties import read_properties
from kdump.format.index.offset_and_time import INDEX_BYTES, INDEX_INTERVAL
from kdump.format.java_values import MAX_DECOMPRESSED, MAX_INT, MAX_LONG, MIN_LONG, JavaComplaint, parse_number
from kdump.storage.names import METADATA_TOPIC, OFFSETS_TOPIC, REMOTE_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from kdump.storage.paths import real
from kdump.storage.segment import SEGMENT_BYTES
from kdump.value import TupleValue, Value
from kdump.words.numbers import counted, some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from kdump.format.source import Source
    from kdump.storage.log_dir import LogDir

_MINUTE, _HOUR = 60_000, 3_600_000
_TRIMMED = "".join(map(chr, range(33)))  # String.trim
_MAX_FILE = 1 << 20
_POLICIES = ("compact", "delete")


class _Setting(Value):
    """One setting."""

    read: Callable[[str], object]  # makes a value of the text
    default: object  # of Kafka 4.3
    # of the broker that stand in for the topic's name, the strongest first, each with what one unit is worth
    names: tuple[tuple[str, int], ...] = ()


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = parse_number(text, 64)
        if isinstance(number, JavaComplaint) or not low <= number <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return number

    return read


def _ratio(text: str) -> float:
    try:
        value = -1.0 if "_" in text else float(text)  # Java knows no underscores there
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return value


def _policy(text: str) -> frozenset[str]:
    words = [word.strip(_TRIMMED) for word in text.split(",")] if text else []
    if not all(word in _POLICIES for word in words):
        raise ValueError("delete, compact, both with a comma between, or nothing")
    return frozenset(words)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _timestamp_type(text: str) -> str:
    if text not in ("CreateTime", "LogAppendTime"):
        raise ValueError("CreateTime or LogAppendTime")
    return text


_LONG, _INT = _integer(MIN_LONG, MAX_LONG), _integer(-(2**31), MAX_INT)
_FROM_0, _FROM_1 = _integer(0, MAX_LONG), _integer(1, MAX_LONG)
_AS_WHOLE = -2  # of local.retention.*: that of the whole log
_INT_0, _INT_1 = _integer(0, MAX_INT), _integer(1, MAX_INT)
_TOPIC: dict[str, _Setting] = {
    "cleanup.policy": _Setting(_policy, frozenset(("delete",)), (("log.cleanup.policy", 1),)),
    "retention.ms": _Setting(
        _integer(-1, MAX_LONG),
        168 * _HOUR,
        (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE), ("log.retention.hours", _HOUR)),
    ),
    "retention.bytes": _Setting(_LONG, -1, (("log.retention.bytes", 1),)),
    "segment.bytes": _Setting(_INT_1, SEGMENT_BYTES, (("log.segment.bytes", 1),)),
    "internal.segment.bytes": _Setting(_INT_1, None, (("internal.log.segment.bytes", 1),)),
    "segment.ms": _Setting(_FROM_1, 168 * _HOUR, (("log.roll.ms", 1), ("log.roll.hours", _HOUR))),
    "segment.jitter.ms": _Setting(_FROM_0, 0, (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR))),
    "segment.index.bytes": _Setting(_integer(4, MAX_INT), INDEX_BYTES, (("log.index.size.max.bytes", 1),)),
    "index.interval.bytes": _Setting(_INT_0, INDEX_INTERVAL, (("log.index.interval.bytes", 1),)),
    "min.compaction.lag.ms": _Setting(_FROM_0, 0, (("log.cleaner.min.compaction.lag.ms", 1),)),
    "max.compaction.lag.ms": _Setting(_FROM_1, MAX_LONG, (("log.cleaner.max.compaction.lag.ms", 1),)),
    "min.cleanable.dirty.ratio": _Setting(_ratio, 0.5, (("log.cleaner.min.cleanable.ratio", 1),)),
    "delete.retention.ms": _Setting(_FROM_0, 24 * _HOUR, (("log.cleaner.delete.retention.ms", 1),)),
    "message.timestamp.type": _Setting(_timestamp_type, "CreateTime", (("log.message.timestamp.type", 1),)),
    "max.message.bytes": _Setting(_INT_0, 1_048_588, (("message.max.bytes", 1),)),
    "max.decompressed.message.bytes": _Setting(_integer(1, MAX_DECOMPRESSED), MAX_DECOMPRESSED),
    "file.delete.delay.ms": _Setting(_FROM_0, 60_000, (("log.segment.delete.delay.ms", 1),)),
    "remote.storage.enable": _Setting(_boolean, False),
    "remote.log.copy.disable": _Setting(_boolean, False),
    "local.retention.ms": _Setting(_integer(-2, MAX_LONG), _AS_WHOLE, (("log.local.retention.ms", 1),)),
    "local.retention.bytes": _Setting(_integer(-2, MAX_LONG), _AS_WHOLE, (("log.local.retention.bytes", 1),)),
    "remote.copy.lag.ms": _Setting(_integer(-1, MAX_LONG), 0, (("log.remote.copy.lag.ms", 1),)),
    "remote.copy.lag.bytes": _Setting(_integer(-1, MAX_LONG), 0, (("log.remote.copy.lag.bytes", 1),)),
}
_BROKER: dict[str, _Setting] = {
    # Kafka divides 128 MiB among its threads; here it is what one thread has.
    "log.cleaner.dedupe.buffer.size": _Setting(_FROM_1, 1 << 20),
    "log.cleaner.io.buffer.load.factor": _Setting(_ratio, 0.9),
    "producer.id.expiration.ms": _Setting(_INT_1, 24 * _HOUR),
    "log.retention.check.interval.ms": _Setting(_FROM_1, 300_000),
}
_OTHERS = frozenset(
    (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.delete.on.disable",
        "unclean.leader.election.enable",
    )
)
"""Settings of topics of which no answer depends."""
_OF_INTERNAL = str(100 * 1024 * 1024)  # offsets.topic.segment.bytes, and those of the others
_INTERNAL = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "segment.bytes": _OF_INTERNAL},
    TRANSACTIONS_TOPIC: {"cleanup.policy": "compact", "segment.bytes": _OF_INTERNAL},
    SHARE_TOPIC: {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": _OF_INTERNAL},
    REMOTE_TOPIC: {"cleanup.policy": "delete", "retention.ms": "-1"},
    # KRaft deletes what a snapshot of its own covers; no retention task ever looks at it.
    METADATA_TOPIC: {"cleanup.policy": ""},
}
_NAMES_OF_TOPICS = frozenset((*_TOPIC, *_OTHERS))
_NAMES = {*_TOPIC, *_BROKER, *_OTHERS, *(name for one in _TOPIC.values() for name, _ in one.names)}
_READERS = {**{name: one.read for name, one in {**_TOPIC, **_BROKER}.items()}}
for _one in _TOPIC.values():
    _READERS.update((name, _LONG if unit > 1 else _one.read) for name, unit in _one.names)
_READERS["log.retention.ms"] = _LONG  # below 0 it is -1

_LIMITED = ("retention.ms", "retention.bytes")
_DELETION = frozenset((*_LIMITED, *(name for limit in _LIMITED for name, _ in _TOPIC[limit].names)))
"""Who gives one of these asks what deletion does."""
_LIMITS = " ".join(f"{name}={_TOPIC[name].default}" for name in _LIMITED)
_UNKNOWN = "cleanup.policy is not known"
DEFAULTS = f"{_UNKNOWN}; of the other settings Kafka's defaults are taken: {_LIMITS}"
"""What is said where nobody says what a topic has."""


class TopicPast(Value):
    """What a topic has been, as far as the metadata log goes back."""

    name: str  # of the topic
    ever_compact: bool  # it was compacted at some time, by its own configuration or that of brokers
    # its creation is in the log, and all since then was read: else a snapshot told of it, or damage hides what it was
    since_creation: bool


_OF_NODE = ("log.dir", "log.dirs", "metadata.log.dir", "node.id", "broker.id", "process.roles")  # of its directories
_MOST_NAMED = 5  # settings in a sentence


class Assigned(TupleValue):
    """Where the cluster has a partition."""

    replicas: tuple[int, ...]  # broker ids
    directories: tuple[str, ...]  # of each of them the id of its log directory; empty where the cluster does not say it


class TopicPlace(TupleValue):
    """What a cluster has of a topic id, or of a name."""

    topic: str
    topic_id: str
    replicas: tuple[int, ...] | None  # the brokers that have the partition; None where the topic has no such partition


class ClusterSettings(Value):
    """What the metadata log says of configurations."""

    source: str  # where that is from, in words
    topics: Mapping[str, Mapping[str, str]]  # of each topic that the cluster has, texts by name
    brokers: Mapping[str, Mapping[str, str]]  # of each broker that has some, by its id as text; "" for all
    is_known: bool = True  # nothing of what counts at the end is lost by damage
    partitions: Mapping[str, int] = MappingProxyType({})  # of each topic that the cluster has, how many there are
    assigned: Mapping[tuple[str, int], Assigned] = MappingProxyType({})  # of each partition of these, its replicas
    registered: Mapping[int, tuple[str, ...]] = MappingProxyType({})  # directory ids of brokers that have told them
    pasts: Mapping[str, TopicPast] = MappingProxyType({})  # of each topic, deleted ones too, by its id
    ids: Mapping[str, str] = MappingProxyType({})  # of the topics that the cluster has
    cluster_id: str | None = None  # of the log directory that the metadata log lies in; None where that does not say it
    log_dir: str = ""  # the real path of that

    def topic_place(self, topic: str | None, number: int) -> TopicPlace | None:
        """Return what the cluster has of a topic and one of its partitions; None where it has no such topic."""
        if topic is None or topic not in self.ids:
            return None
        assigned = self.assigned.get((topic, number))
        return TopicPlace(topic, self.ids[topic], None if assigned is None else assigned.replicas)

    def topic_of_id(self, topic_id: str | None) -> str | None:
        """Return the name of the topic that has an id; None where there is none, or it was deleted."""
        past = self.pasts.get(topic_id or "")
        return past.name if past is not None and self.ids.get(past.name) == topic_id else None


class Config:
    """The settings that were given, and those that follow from them.

    Args:
        given: texts by name; names that are not known are passed over.
        firm: names whose text was given as one setting, not by a file.
        clusters: what metadata logs say, each of its own cluster.
        has_file: a file of settings was given, whatever is in it.
        release: of the brokers; None where nobody said it: the newest.

    Attributes:
        rules: what brokers of that release do.

    Raises:
        ValueError: a text is not a value of its setting; the message is one sentence.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        firm: frozenset[str] = frozenset(),
        clusters: Sequence[ClusterSettings] = (),
        *,
        has_file: bool = False,
        release: str | None = None,
    ) -> None:
        self.rules = rules_of(release or NEWEST)
        self._release = release
        self._values = {name: _value(name, text) for name, text in given.items() if name in _READERS}
        self._given = given
        self._firm = firm
        self._clusters = tuple(clusters)
        self._has_file = has_file
        self._said = ""
        self._known: frozenset[str] = frozenset()  # topics of which all is known
        self._merged: dict[tuple[str | None, str], Config] = {}

    def within(self, clusters: Sequence[ClusterSettings]) -> Config:
        """Return the same with what metadata logs say."""
        return Config(self._given, self._firm, clusters, has_file=self._has_file, release=self._release)

    @property
    def assumed_release(self) -> str:
        """Say which release's broker is taken where nobody named one; else empty."""
        return (
            "" if self._release else f"a broker of Kafka {self.rules.release}, the newest known; --broker names another"
        )

    def on(self, topic: str | None, log_dir: LogDir) -> Config:
        """Return what holds for a topic on a broker; itself where no metadata log is at hand.

        Args:
            topic: its name; None where it is not known.
            log_dir: of the broker; where it does not say whose it is, the configuration of all brokers counts.
        """
        if not self._clusters:
            return self
        key = (topic, log_dir.path)
        if key not in self._merged:
            cluster = self.cluster_of(log_dir)
            if cluster is None:
                self._merged[key] = self.within(())
            else:
                self._merged[key] = self._of_cluster(cluster, topic, log_dir.node)
        return self._merged[key]

    def policy(self, topic: str | None, log_dir: LogDir, topic_id: str | None = None) -> CleanupPolicy:
        """Return what is known of a topic's cleanup.policy.

        Args:
            topic: its name; None where it is not known.
            log_dir: that its partition lies in.
            topic_id: of that partition; None where it is not known: the topic that the cluster has by that name.
        """
        cluster = self.cluster_of(log_dir)
        here = self.on(topic, log_dir)
        ever = never = is_known = is_here = False
        if cluster is not None and topic is not None:
            its_id = cluster.ids.get(topic)
            past = cluster.pasts.get(topic_id or its_id or "")
            others = [one for one in cluster.pasts.values() if one.name == topic] if past is None else []
            is_same = topic_id in (None, its_id) if its_id is not None else topic_id is None and not others
            is_known = cluster.is_known and is_same  # one that the log never had has the default of the brokers
            is_here = is_known and its_id is not None
            ever = past.ever_compact if past is not None else any(one.ever_compact for one in others)
            never = cluster.is_known and past is not None and past.since_creation
        names = [name for name in ("cleanup.policy", "log.cleanup.policy") if name in self._given]
        brokers_make = _INTERNAL.get(topic or "", {}).get("cleanup.policy")
        says_it = is_known or bool(names) or self._has_file or not _DELETION.isdisjoint(self._given)
        now = here.of_topic(topic).cleanup_policy if says_it or brokers_make is not None else None
        ever = ever or (now is not None and "compact" in now)
        is_of_topic = "cleanup.policy" in self._given
        is_made_so = brokers_make is not None and "compact" not in brokers_make
        of_topic = now if is_here or is_of_topic or brokers_make is not None else None
        return CleanupPolicy(now, ever, not ever and (never or is_of_topic or is_made_so), of_topic)

    def topic_id(self, topic: str, log_dir: LogDir) -> str | None:
        """Return the id of a topic by the metadata log of its cluster; None where that is not known.

        Args:
            topic: its name.
            log_dir: that a partition of it lies in.
        """
        cluster = self.cluster_of(log_dir)
        return None if cluster is None or not cluster.is_known else cluster.ids.get(topic)

    def replicas(self, topic: str, partition: int, log_dir: LogDir, topic_id: str | None) -> tuple[int, ...] | None:
        """Return the brokers that have a partition, by the metadata log of its cluster; None where that is not known.

        Args:
            topic, partition: its name and its number.
            log_dir: that it lies in.
            topic_id: of it; None where it is not known: the topic that the cluster has by that name.
        """
        cluster, its_id = self.cluster_of(log_dir), self.topic_id(topic, log_dir)
        if cluster is None or its_id is None or topic_id not in (None, its_id):
            return None
        found = cluster.assigned.get((topic, partition))
        return found.replicas or None if found is not None else None

    def cluster_of(self, log_dir: LogDir) -> ClusterSettings | None:
        """Return the cluster of a log directory: that whose metadata log lies in it, else that of its cluster.id.

        Args:
            log_dir: the directory.

        Returns:
            what its metadata log says; None where none is at hand, or it is not known which one it is.
        """
        if not self._clusters:
            return None
        path = real(log_dir.path)
        its = log_dir.cluster_id
        own = [one for one in self._clusters if one.log_dir == path]
        same = [one for one in self._clusters if its is not None and one.cluster_id == its]
        maybe = [one for one in self._clusters if its is None or one.cluster_id is None]
        found = own or same or maybe
        return found[0] if len(found) == 1 else None

    def _of_cluster(self, cluster: ClusterSettings, topic: str | None, node: int | None) -> Config:
        of_topic = cluster.topics.get(topic or "")
        texts = dict(self._given)
        texts.update(cluster.brokers.get("", {}))
        texts.update(cluster.brokers.get("" if node is None else str(node), {}))
        texts.update({name: text for name, text in self._given.items() if name in self._firm})
        texts = {name: text for name, text in texts.items() if name not in _NAMES_OF_TOPICS}
        texts.update(of_topic or {})
        texts.update({name: text for name, text in self._given.items() if name in _NAMES_OF_TOPICS})
        odd = [name for name, text in texts.items() if name not in self._given and not _is_sound(name, text)]
        found = Config({name: text for name, text in texts.items() if name not in odd}, release=self._release)
        found._known = frozenset() if of_topic is None or topic is None else frozenset((topic,))
        said = [f"settings of {'the brokers' if of_topic is None else 'topic and brokers'} from {cluster.source}"]
        said += [f"{name}={texts[name]} there is passed over: no value of it that is known" for name in odd]
        found._said = "; ".join(said)
        return found

    def is_given(self, name: str) -> bool:
        """Tell whether a setting of topics was given, by its name or by one of the broker's for it."""
        return not self._values.keys().isdisjoint((name, *(one for one, _ in _TOPIC[name].names)))

    def broker(self, name: str) -> int:
        """Return a whole number of the broker."""
        value = self._values.get(name, _BROKER[name].default)
        assert isinstance(value, int)
        return value

    def load_factor(self) -> float:
        """Return how much of the offset map of the cleaner is filled."""
        value = self._values.get("log.cleaner.io.buffer.load.factor", 0.9)
        assert isinstance(value, float)
        return value

    def of_topic(self, topic: str | None) -> TopicConfig:
        """Return the configuration of a topic.

        Args:
            topic: its name; None where it is not known.
        """
        internal = self._internal(topic)
        values = {name: self._topic_value(name, setting, internal) for name, setting in _TOPIC.items()}
        size = values.pop("internal.segment.bytes")  # for Kafka's own tests: it wins
        if size is not None:
            values["segment.bytes"] = size
        if topic in _INTERNAL:  # UnifiedLog.isRemoteLogEnabled
            values["remote.storage.enable"] = False
        return TopicConfig.of({name.replace(".", "_"): value for name, value in values.items()})

    def assumed(self, topic: str | None, policy: CleanupPolicy | None = None) -> str:
        """Say what was taken because brokers make a topic so, or nobody said it, or is not modelled; else empty.

        Args:
            topic: its name; None where it is not known.
            policy: what is known of its cleanup.policy, where that counts.
        """
        internal = self._internal(topic)
        taken = [f"{name}={text}" for name, text in internal.items() if name not in self._values]
        said = [self._said] if self._said else []
        said += [self.unused] if self.unused else []
        said += [f"{topic} is taken as brokers make it: {' '.join(taken)}"] if taken else []
        if self.is_silent and not internal:
            said.append(DEFAULTS)
        elif policy is not None and policy.now is None:
            said.append(_UNKNOWN)
        return "; ".join(said)

    @property
    def unused(self) -> str:
        """Say which settings of the file mean nothing here; empty for none."""
        names = sorted(set(self._given).difference(_NAMES, _OF_NODE, self._firm)) if self._has_file else []
        if not names:
            return ""
        many = counted(len(names), "setting")
        means = "means" if len(names) == 1 else "mean"
        return f"{many} of --config {means} nothing to kdump: {some_of(names, _MOST_NAMED)}"

    @property
    def is_silent(self) -> bool:
        """Whether no setting that counts was given, and no metadata log is at hand."""
        return not (self._values or self._said or self._known or self.has_cluster)

    @property
    def has_cluster(self) -> bool:
        """Whether a metadata log is at hand."""
        return bool(self._clusters)

    @property
    def source(self) -> str:
        """What is from the metadata log, a sentence; empty for nothing."""
        return self._said

    def _internal(self, topic: str | None) -> Mapping[str, str]:
        """What brokers make a topic of their own with, where it is not known what it has."""
        return {} if topic in self._known else _INTERNAL.get(topic or "", {})

    def _topic_value(self, name: str, setting: _Setting, internal: Mapping[str, str]) -> object:
        if name in self._values:
            return self._values[name]
        if name in internal:
            return _value(name, internal[name])
        for broker_name, unit in setting.names:
            value = self._values.get(broker_name)
            if value is None:
                continue
            if isinstance(value, int):
                value = min(value * unit, MAX_LONG)
                return max(value, -1) if name == "retention.ms" else value
            return value
        return setting.default


class TopicConfig(Value):
    """The configuration of one topic, in Kafka's words; times in ms, sizes in bytes."""

    cleanup_policy: frozenset[str]
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    delete_retention_ms: int
    message_timestamp_type: str
    max_message_bytes: int
    max_decompressed_message_bytes: int  # of a record of a compressed batch, from 4.4 on
    file_delete_delay_ms: int
    remote_storage_enable: bool
    remote_log_copy_disable: bool
    # local_retention_ms, local_retention_bytes: -2 for those of the whole log
    local_retention_ms: int
    local_retention_bytes: int
    # remote_copy_lag_ms, remote_copy_lag_bytes: from 4.4 on; -1 for those of local retention
    remote_copy_lag_ms: int
    remote_copy_lag_bytes: int

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return the configuration with these values, which its settings have read."""
        config = cls.__new__(cls)
        config.__dict__.update(values)
        return config

    @property
    def compact(self) -> bool:
        """Whether the cleaner looks at the topic."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether size and time delete segments. Source: UnifiedLog.deleteOldSegments."""
        return "delete" in self.cleanup_policy or (self.is_copied and not self.cleanup_policy)

    @property
    def is_tiered(self) -> bool:
        """Whether the log goes on in remote storage. Source: UnifiedLog.isRemoteLogEnabled."""
        return self.remote_storage_enable and not self.compact

    @property
    def is_copied(self) -> bool:
        """Whether brokers copy segments to remote storage. Source: UnifiedLog.remoteLogEnabledAndRemoteCopyEnabled."""
        return self.is_tiered and not self.remote_log_copy_disable

    @property
    def kept_ms(self) -> int:
        """The age at which segments go from the disk, -1 for never. Source: UnifiedLog.localRetentionMs."""
        return self.local_ms if self.is_copied else self.retention_ms

    @property
    def kept_bytes(self) -> int:
        """The bytes of a log that the disk keeps, -1 for all. Source: UnifiedLog.localRetentionSize."""
        return self.local_bytes if self.is_copied else self.retention_bytes

    @property
    def local_ms(self) -> int:
        """local.retention.ms, or what stands in for it. Source: LogConfig.localRetentionMs."""
        return self.retention_ms if self.local_retention_ms == _AS_WHOLE else self.local_retention_ms

    @property
    def local_bytes(self) -> int:
        """local.retention.bytes, or what stands in for it. Source: LogConfig.localRetentionBytes."""
        return self.retention_bytes if self.local_retention_bytes == _AS_WHOLE else self.local_retention_bytes

    @property
    def copy_lag(self) -> tuple[int, int]:
        """The lags behind which segments are copied: ms and bytes. Source: LogConfig.remoteCopyLagMs."""
        ms, size = self.remote_copy_lag_ms, self.remote_copy_lag_bytes
        return self.local_ms if ms < 0 else ms, self.local_bytes if size < 0 else size

    @property
    def max_segment_ms(self) -> int:
        """The age at which an append rolls the active segment. Source: LogConfig.maxSegmentMs."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms


def has_part(name: str) -> bool:
    """Tell whether a setting has a part in the model of a broker."""
    return name in _NAMES


def says_compact(text: str | None) -> bool:
    """Tell whether a text of cleanup.policy has the cleaner look at a topic; one that is no value of it does not."""
    return text is not None and _is_sound("cleanup.policy", text) and "compact" in text


def _is_sound(name: str, text: str) -> bool:
    """Whether a text is a value of its setting, or the name has no part in this."""
    try:
        if name in _READERS:
            _value(name, text)
    except ValueError:
        return False
    return True


class BadSettingError(ValueError):
    """A setting has a value that it cannot have; the message is one sentence.

    Args:
        name, text: of the setting, and its value.
        wanted: is wanted in its place.
    """

    def __init__(self, name: str, text: str, wanted: str) -> None:
        super().__init__(f"{name}={text}: {wanted} is wanted")
        self.hidden = f"{name}: {wanted} is wanted"  # the same without the value


def read_config(source: Source) -> dict[str, str]:
    """Read a file of settings: Java properties, as server.properties is.

    Args:
        source: the file.

    Raises:
        ValueError: it is too large, or an escape in it is malformed; the message is one sentence.
        OSError: it cannot be read.
    """
    if source.size > _MAX_FILE:
        raise ValueError(f"the file has {source.size} bytes and was not read: the limit is {_MAX_FILE}")
    return {setting_name(name): text for name, text in read_properties(source.read_at(0, source.size)).items()}


def setting_name(name: str) -> str:
    """Return the name of a setting as Kafka has it, where it is spelled as containers take it from the environment.

    Args:
        name: log.retention.ms, KAFKA_LOG_RETENTION_MS or KAFKA_CFG_LOG_RETENTION_MS; two underscores are one, three a
            dash.
    """
    found = re.fullmatch(_OF_CONTAINER, name)
    if found is None:
        return name
    words = found[1].lower().replace("___", "-").replace("__", "\0")
    return words.replace("_", ".").replace("\0", "_")


_OF_CONTAINER = r"KAFKA_(?:CFG_)?([A-Z0-9_]+)"


def check_name(name: str) -> None:
    """Make sure that a name which a user wrote is one of Kafka's, lest a mistyped one has no effect.

    Raises:
        ValueError: it is none; the message is one sentence, with the nearest one.
    """
    if name in _NAMES:
        return
    from difflib import get_close_matches

    near = get_close_matches(name, sorted(_NAMES), 1)
    raise ValueError(f"no setting '{name}' has a part in this" + (f"; did you mean '{near[0]}'?" if near else ""))


def _value(name: str, text: str) -> object:
    try:
        return _READERS[name](re.sub(r"\s*,\s*", ",", text.strip(_TRIMMED)))
    except ValueError as error:
        raise BadSettingError(name, text, str(error)) from None
