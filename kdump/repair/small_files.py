"""The small files that `kdump repair` writes again: what each of them must say, by what the broker itself has left.

Nothing is made up. Lines that can be read stay; what is gone comes from the batches, from the metadata log, from other
partitions of the topic, or from the other log directories of the broker. Where none of them tells, or where two of them
contradict each other, the file is left alone, and the reason says from what it could be taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.leader_epoch_file_cache import EpochCache
from kdump.finding import Trait
from kdump.format.checkpoint.checkpoint_file import TopicPartitionOffset, encode_checkpoint
from kdump.format.checkpoint.properties import encode_partition_metadata, encode_properties
from kdump.format.kinds import FileKind
from kdump.storage.identity import ID_NAMES, ID_OPTIONS, UndeterminedError, agreed_id, own_ids, topic_id_by_others
from kdump.value import TupleValue, Value
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kdump.finding import Finding
    from kdump.repair.reindex import RecoveredSegments
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir
    from kdump.storage.state_file import StateFile

_COST = {
    FileKind.RECOVERY_POINT: "after an unclean stop a broker recovers these partitions from their first segment on",
    FileKind.REPLICATION: "their high watermark begins at the log start until the replicas have told where they are",
    FileKind.LOG_START: "records of these partitions that were deleted before their segment can be read again",
    FileKind.CLEANER: "the cleaner reads these partitions from their log start on again",
}


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


# --- partition.metadata -------------------------------------------------------------------------------------------
def partition_metadata(directory: PartitionDir, log_dirs: Iterable[LogDir], cluster: ClusterFacts | None) -> NewContent:
    """Return a partition.metadata with the id that the cluster, or the other partitions here, have for the topic.

    Args:
        directory: of the partition.
        log_dirs: of the broker, where others of the topic may lie.
        cluster: what the metadata log says, None where there is none.

    Raises:
        UndeterminedError: nobody tells, or they contradict each other.
    """
    its = topic_id_by_others(directory, log_dirs, None if cluster is None else cluster.topic_ids)
    return NewContent(encode_partition_metadata(its))


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
    own = own_ids(log_dir)
    known = {name: agreed_id(name, own, others, given) for name in ("version", *ID_OPTIONS)}
    version = known["version"] or "1"
    directory = own.get("directory.id")
    node = known["node.id"]
    if node is None and directory is not None and cluster is not None:
        node = next((str(number) for number, ids in cluster.log_dirs.items() if directory in ids), None)
    for name, value in (("cluster.id", known["cluster.id"]), ("node.id", node)):
        if value is None and not (name == "cluster.id" and version == "0"):
            why = f"nothing here tells its {name}: name the other log directories of the broker too, or give"
            raise UndeterminedError(f"{why} {' '.join(ID_OPTIONS[name])}")
    assert node is not None
    announces: tuple[str, ...] = ()
    if directory is None and version == "1":
        directory = _directory_id(int(node), others, cluster)
        if directory is None:
            announces = ("meta.properties has no directory.id: nothing here tells it, and a broker makes a new one",)
    values = {"version": version, "cluster.id": known["cluster.id"], ID_NAMES[version]: node}
    if version == "1":
        values["directory.id"] = directory
    return NewContent(encode_properties({name: one for name, one in values.items() if one is not None}), announces)


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
