"""The small files that `kdump repair` writes again: what each of them must say, by what the broker itself has left.

Nothing is made up. Lines that can be read stay; what is gone comes from the batches, from the metadata log, from other
partitions of the topic, or from the other log directories of the broker. Where none of them tells, or where two of them
contradict each other, the file is left alone, and the reason says from what it could be taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from kdump.broker.leader_epoch_file_cache import EpochCache
from kdump.finding import Trait, ignore
from kdump.format.batch import layout
from kdump.format.batch.epoch_order import ascend
from kdump.format.batch.walk import CheckedWalk
from kdump.format.checkpoint.checkpoint_file import TopicPartitionOffset, encode_checkpoint
from kdump.format.checkpoint.properties import encode_partition_metadata, encode_properties
from kdump.format.checkpoint.text_lines import Property
from kdump.format.java_values import uuid_complaint
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.storage.names import METADATA_TOPIC, METADATA_TOPIC_ID
from kdump.value import TupleValue, Value
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kdump.finding import Finding
    from kdump.repair.reindex import RecoveredSegments
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir
    from kdump.storage.state_file import StateFile

CHECKPOINTS = (FileKind.RECOVERY_POINT, FileKind.REPLICATION, FileKind.LOG_START, FileKind.CLEANER)
_COST = {
    FileKind.RECOVERY_POINT: "after an unclean stop a broker recovers these partitions from their first segment on",
    FileKind.REPLICATION: "their high watermark begins at the log start until the replicas have told where they are",
    FileKind.LOG_START: "records of these partitions that were deleted before their segment can be read again",
    FileKind.CLEANER: "the cleaner reads these partitions from their log start on again",
}
_ID_NAMES = {"0": "broker.id", "1": "node.id"}  # in meta.properties, by its version
_OPTIONS = {"cluster.id": "--cluster-id ID", "node.id": "--node-id N"}


class UndeterminedError(Exception):
    """Nothing here tells what a file must say; the text says from what it could be taken."""


class ClusterFacts(Value):
    """What the metadata log says that small files need."""

    topic_ids: Mapping[str, str]  # by topic
    log_dirs: Mapping[int, Sequence[str]]  # directory ids that a broker has registered, by its id
    voters: Mapping[int, str]  # directory id of each controller of the KRaftVoters record, by its id


class NewContent(TupleValue):
    """The bytes that a file must have, and what to know of them."""

    data: bytes
    announces: tuple[str, ...] = ()


# --- checkpoints of offsets ---------------------------------------------------------------------------------------
def checkpoint(file: StateFile, contradicted: Iterable[str]) -> NewContent:
    """Return a checkpoint of offsets without the lines that are malformed, or that the logs contradict.

    A number is never made up, nor put right: what a broker does without an entry is what it does for a new partition.

    Args:
        file: it.
        contradicted: names of the partitions whose entry the log contradicts.
    """
    wrong = frozenset(contradicted)
    kept: dict[tuple[str, int], TopicPartitionOffset] = {}
    for one in _whole_entries(file):
        if f"{one.topic}-{one.partition}" not in wrong:
            kept[one.topic, one.partition] = one
    why = f"{file.kind.value} keeps {counted(len(kept), 'entry', 'entries')}; without one: {_COST[file.kind]}"
    return NewContent(encode_checkpoint(list(kept.values())), (why,))


def _whole_entries(file: StateFile) -> list[TopicPartitionOffset]:
    """The entries of a file whose lines end: where the end of a file is gone, so may be digits of its last number."""
    entries = [one for one in file.entries if isinstance(one, TopicPartitionOffset)]
    source = file.source
    if entries and source is not None and source.size:
        data = source.read_at(0, source.size)
        if not data.endswith((b"\n", b"\r")) and _is_last(data, entries[-1]):
            entries.pop()
    return entries


def _is_last(data: bytes, entry: TopicPartitionOffset) -> bool:
    topic, partition, offset = entry
    return data.rpartition(b"\n")[2].split() == f"{topic} {partition} {offset}".encode().split()


# --- leader-epoch-checkpoint --------------------------------------------------------------------------------------
def epochs(directory: PartitionDir, segments: RecoveredSegments, *, is_torn: bool) -> NewContent:
    """Return a leader-epoch-checkpoint as the batches have the epochs.

    Args:
        directory: of the partition.
        segments: of it.
        is_torn: all that is wrong with the last log is what a broker was about to append.

    Raises:
        UndeterminedError: a log cannot be read to its end.
        OSError: a log cannot be read.
    """
    cache = EpochCache(())
    for base in segments.bases:
        found = segments.epochs_of(base, cache.latest, is_torn=is_torn and base == segments.bases[-1])
        if found is None:
            raise UndeterminedError(f"the batches do not tell: {base:020}.log is damaged")
        for entry in found:
            cache.assign(entry)
    if directory.log_start > 0:
        cache.truncate_from_start(directory.log_start)
    return NewContent(cache.file())


def contradicts_batches(directory: PartitionDir, segments: RecoveredSegments) -> bool:
    """Tell whether it is the leader-epoch-checkpoint that is wrong where it has other epochs than batches.

    No CRC covers the epoch of a batch, so one batch proves nothing; that several have the same wrong one by chance is
    out of the question, and a broker writes the file from its batches.

    Args:
        directory: of the partition.
        segments: of it; no log is damaged, and the epochs of the batches rise.

    Raises:
        OSError: a log cannot be read.
    """
    epochs = list(directory.epochs)
    if not epochs or not ascend(epochs):
        return False
    starts = [one.start_offset for one in epochs]
    floor = max(starts[0], directory.log_start)
    against: Counter[int] = Counter()  # batches by their epoch
    for base in segments.bases:
        with segments.log(base) as log:
            walk = CheckedWalk(log, ignore, segment=base, next_base=None, max_batch_bytes=MAX_BATCH_BYTES)
            for window in walk.windows():
                for k in range(window.count):
                    first, epoch = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LEADER_EPOCH)
                    if first >= floor and epoch != layout.NO_EPOCH:
                        against[epoch] += epochs[bisect_right(starts, first) - 1].epoch != epoch
    several = [count for count in against.values() if count]
    return bool(several) and min(several) > 1


# --- partition.metadata -------------------------------------------------------------------------------------------
def partition_metadata(
    directory: PartitionDir, beside: Sequence[PartitionDir], cluster: ClusterFacts | None
) -> NewContent:
    """Return a partition.metadata with the id that the cluster, or the other partitions here, have for the topic.

    Args:
        directory: of the partition.
        beside: other partitions of the topic.
        cluster: what the metadata log says, None where there is none.

    Raises:
        UndeterminedError: nobody tells, or they contradict each other.
    """
    name = directory.parsed
    assert name is not None
    if name.topic == METADATA_TOPIC:
        return NewContent(encode_partition_metadata(METADATA_TOPIC_ID))
    ids = (one.topic_id for one in beside if not _metadata_file(one).findings)
    told = {one for one in ids if one is not None and uuid_complaint(one) is None}
    if cluster is not None:
        its = cluster.topic_ids.get(name.topic)
        if its is None:
            raise UndeterminedError(f"the metadata log has no topic {name.topic}: a broker sets this directory aside")
        if told - {its}:
            why = f"the metadata log has id {its} for topic {name.topic}, and other partitions here have {min(told)}"
            raise UndeterminedError(f"{why}: find out of which topic this one is")
        return NewContent(encode_partition_metadata(its))
    if len(told) > 1:
        why = f"the partitions of topic {name.topic} here have different ids ({', '.join(sorted(told))})"
        raise UndeterminedError(f"{why}: find out of which topic this one is")
    if not told:
        why = f"no metadata log is among the paths, and no other partition of topic {name.topic} has its id"
        raise UndeterminedError(f"{why}: name a log directory with __cluster_metadata-0, or with such a partition, too")
    return NewContent(encode_partition_metadata(told.pop()))


def _metadata_file(directory: PartitionDir) -> StateFile:
    return directory.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA)


# --- meta.properties ----------------------------------------------------------------------------------------------
def meta_properties(
    log_dir: LogDir, others: Sequence[LogDir], cluster: ClusterFacts | None, given: Mapping[str, str]
) -> NewContent:
    """Return a meta.properties with what its own lines, the other log directories of the broker, or the user tell.

    Args:
        log_dir: the directory that it lies in, or must lie in.
        others: the other log directories of the same broker.
        cluster: what the metadata log says, None where there is none.
        given: `cluster.id` and `node.id` by the user.

    Raises:
        UndeterminedError: a value is not known, or they contradict each other.
    """
    own = _own_lines(log_dir)
    sound = [one for one in others if one.properties and not one.file(FileKind.META_PROPERTIES).findings]
    known = {name: _agreed(name, own, sound, given) for name in ("version", "cluster.id", "node.id")}
    version = known["version"] or "1"
    directory = own.get("directory.id")
    node = known["node.id"]
    if node is None and directory is not None and cluster is not None:
        node = next((str(number) for number, ids in cluster.log_dirs.items() if directory in ids), None)
    for name, value in (("cluster.id", known["cluster.id"]), ("node.id", node)):
        if value is None and not (name == "cluster.id" and version == "0"):
            why = f"nothing here tells its {name}: name the other log directories of the broker too, or give"
            raise UndeterminedError(f"{why} {_OPTIONS[name]}")
    assert node is not None
    announces: tuple[str, ...] = ()
    if directory is None and version == "1":
        directory = _directory_id(int(node), others, cluster)
        if directory is None:
            announces = ("meta.properties has no directory.id: nothing here tells it, and a broker makes a new one",)
    values = {"version": version, "cluster.id": known["cluster.id"], _ID_NAMES[version]: node}
    if version == "1":
        values["directory.id"] = directory
    return NewContent(encode_properties({name: one for name, one in values.items() if one is not None}), announces)


def _own_lines(log_dir: LogDir) -> dict[str, str]:
    """What the file says in lines that are whole, and as a broker could have written them."""
    file = log_dir.file(FileKind.META_PROPERTIES)
    source = file.source
    if source is None:
        return {}
    data = source.read_at(0, source.size)
    cut = data.rpartition(b"\n")[2] if not data.endswith((b"\n", b"\r")) else b""
    found: dict[str, str] = {}
    for one in file.entries:
        if isinstance(one, Property) and isinstance(one.value, str) and _may_be(one.name, one.value):
            found["node.id" if one.name == "broker.id" else one.name] = one.value
    for name in [name for name in found if cut.lstrip().startswith((name.encode(), b"broker.id"))]:
        del found[name]  # digits of it may be gone
    return found


def _may_be(name: str, value: str) -> bool:
    if name == "version":
        return value in _ID_NAMES
    if name in ("node.id", "broker.id"):
        return value.isascii() and value.isdigit() and len(value) < 10
    if name == "directory.id":
        return uuid_complaint(value) is None
    return name == "cluster.id" and is_cluster_id(value)


def is_cluster_id(value: str) -> bool:
    """Tell whether a text can be the id of a cluster, and stand in a file of properties as it is."""
    return bool(value) and value.isascii() and value.isprintable() and not set(value) & set(" \\=:#!")


def _agreed(name: str, own: Mapping[str, str], others: Sequence[LogDir], given: Mapping[str, str]) -> str | None:
    """The one value that all who know it have for a name, None where nobody knows it."""
    told: dict[str, str] = {}
    if name in own:
        told[own[name]] = "its own line"
    for one in others:
        value = one.property_text(name) or (one.property_text("broker.id") if name == "node.id" else None)
        if value is not None:
            told.setdefault(value, one.path)
    if name in given:
        told.setdefault(given[name], _OPTIONS[name].partition(" ")[0])
    if len(told) > 1:
        said = ", ".join(f"{value} by {by}" for value, by in told.items())
        raise UndeterminedError(f"its {name} is not certain: {said}: name the log directories of one broker")
    return next(iter(told), None)


def _directory_id(node: int, others: Sequence[LogDir], cluster: ClusterFacts | None) -> str | None:
    """The id that the cluster knows the directory by: the only one of its node that no other directory has."""
    if cluster is None:
        return None
    taken = {one.property_text("directory.id") for one in others}
    registered = [one for one in cluster.log_dirs.get(node, ()) if one not in taken]
    if node in cluster.voters and not cluster.log_dirs.get(node):
        registered = [one for one in (cluster.voters[node],) if one not in taken]
    return registered[0] if len(registered) == 1 else None


def is_of_checkpoint(finding: Finding) -> bool:
    """Tell whether an entry of a checkpoint of offsets must go because a log contradicts it.

    What is above the end of a log (K01) is evidence of that end, and a broker lowers it itself; only a log start there
    makes it delete all segments.
    """
    return Trait.WRONG_ENTRY in finding.code.traits and isinstance(finding.values.get("partition"), str)
