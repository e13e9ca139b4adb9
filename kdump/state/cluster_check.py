"""What lies in a log directory, against what the metadata log says should lie there.

The broker is known by `node.id` of meta.properties, the directory by `directory.id`. What is wrong with the directory
as a whole is one finding, and nothing is said of its partitions then: each of them would be wrong.

Source: LogManager.isStrayReplica, DirectoryId, BrokerLifecycleManager.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.broker.config import TopicPlace
from kdump.broker.lost_directories import is_to_lie_in, of_lost_directories
from kdump.broker.strays import stray_of
from kdump.finding import Code, Finding
from kdump.format.kinds import FileKind
from kdump.rows.coordinators import Remark
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import is_dir, parent
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.state.metadata_image import MetadataImage
    from kdump.storage.partition_dir import PartitionDir

_HERE = ("", "future")  # states of directories by their names


class _Given(TupleValue):
    """A log directory that is to be checked."""

    path: str
    node: int
    directory: str | None
    partitions: Sequence[PartitionDir]


def check(image: MetadataImage, cluster: str | None, paths: Iterable[str]) -> Iterator[Finding | OpenFailure | Remark]:
    """Yield what is wrong with log directories.

    Args:
        image: the state of the cluster.
        cluster: its id, None where nobody says it.
        paths: of the log directories, as the user wrote them.

    Reports: M01, M02, M03, M04, M05.
    """
    given: list[_Given] = []
    others: list[str] = []  # directories that are none of those that the cluster knows
    for path in dict.fromkeys(paths):
        found = _given(image, cluster, path)
        if isinstance(found, _Given):
            given.append(found)
        else:
            is_other = any(isinstance(one, OpenFailure) or _is_another(one) for one in found)
            others += [path] if is_other and is_dir(path) else []
            yield from found
    yield from _of_lost_disks(image, given, others)
    for one in given:
        count = 0
        for finding in _partitions(image, one, given):
            count += 1
            yield finding
        if not count:
            known = sum(_is_current(each) for each in one.partitions)
            places = (
                "1 partition is where the cluster has it"
                if known == 1
                else f"{known} partitions are where the cluster has them"
            )
            yield Remark(f"{one.path}: broker {one.node}: {places}")


# --- a log directory as a whole -------------------------------------------------------------------------------
def _given(image: MetadataImage, cluster: str | None, path: str) -> _Given | list[Finding | OpenFailure | Remark]:
    """Return a log directory whose partitions can be looked at, else what is wrong with it."""
    if not is_dir(path):
        source = open_source(path)
        if isinstance(source, OpenFailure):
            return [source]
        source.close()
        return [OpenFailure(path, "other", f"{path}: --check wants a log directory, not a file")]
    directory = InputDirectory(path, parent)
    if directory.is_partition:
        return [OpenFailure(path, "other", f"{path}: --check wants a log directory, not a partition directory")]
    if directory.failure is not None:
        return [directory.failure]
    log_dir = directory.log_dir
    meta = log_dir.file(FileKind.META_PROPERTIES)
    if log_dir.node is None:
        why = meta.failure.sentence if meta.failure is not None else f"{meta.path}: it has no node.id"
        return [*meta.findings, OpenFailure(path, "other", f"{path}: its broker is unknown: {why}")]
    its = _Given(path, log_dir.node, log_dir.property_text("directory.id"), directory.partitions)
    finding = _as_whole(image, cluster, meta.path, its, log_dir.property_text("cluster.id"))
    if finding is not None:
        return [finding]
    if its.node not in image.brokers():  # a controller: it has the metadata log alone
        return [Remark(f"{path}: node {its.node} is a controller: it has no partitions of brokers")]
    return its


def _as_whole(
    image: MetadataImage, cluster: str | None, path: str, its: _Given, of_cluster: str | None
) -> Finding | None:
    """Whether it is the volume of another broker, or another volume."""
    brokers = image.brokers()
    if cluster is not None and of_cluster is not None and of_cluster != cluster:
        why = f"it is of cluster {of_cluster}, and the metadata log of cluster {cluster}"
        return _whole(Code.M05, path, "cluster.id", of_cluster, cluster, why)
    owner = next(
        (number for number in sorted(brokers) if its.directory in (brokers[number].get("logDirs") or ())), None
    )
    if its.directory is not None and owner is not None and owner != its.node:
        why = f"its directory {its.directory} is broker {owner}'s, and its node.id is {its.node}"
        return _whole(Code.M05, path, "node.id", its.node, owner, why)
    if its.node not in brokers:
        if its.node in image.controllers():
            return None
        why = f"its node.id is {its.node}, and the cluster has no such broker"
        return _whole(Code.M05, path, "node.id", its.node, None, why)
    registered = brokers[its.node].get("logDirs") or []
    if its.directory is None or not registered or owner is not None:
        return None
    why = f"broker {its.node} has registered {', '.join(registered)}, and this is {its.directory}"
    expected = registered[0] if len(registered) == 1 else None
    return _whole(Code.M04, path, "directory.id", its.directory, expected, why)


def _whole(code: Code, path: str, field: str, found: int | str | None, expected: int | str | None, why: str) -> Finding:
    return Finding(code, path, field=field, found=found, expected=expected, values={"why": why})


def _is_another(item: Finding | Remark) -> bool:
    """Whether a directory is none of those that its broker has registered."""
    return isinstance(item, Finding) and item.code is Code.M04


def _of_lost_disks(image: MetadataImage, given: Sequence[_Given], others: Sequence[str]) -> Iterator[Finding]:
    """Yield what lay on the disks in whose place there are others."""
    if not others:
        return
    here: dict[int, set[str]] = {}
    held: set[tuple[str, int]] = set()
    for path in [*others, *(one.path for one in given)]:
        directory = InputDirectory(path, parent)
        log_dir = directory.log_dir
        held.update(one.key for one in directory.partitions if one.key is not None and _is_current(one))
        if log_dir.node is not None:
            here.setdefault(log_dir.node, set()).add(str(log_dir.property_text("directory.id")))
    brokers = image.brokers()
    for node, present in here.items():
        registered = brokers[node].get("logDirs") or () if node in brokers else ()
        assigned = (
            (topic, n, fields["replicas"], fields.get("directories") or ()) for topic, n, fields in image.partitions()
        )
        yield from of_lost_directories(node, registered, present, assigned, held=held, place=others[0])


# --- its partitions -------------------------------------------------------------------------------------------
def _partitions(image: MetadataImage, here: _Given, given: Sequence[_Given]) -> Iterator[Finding]:
    """Yield what is wrong with the partitions of one directory, by topic and number."""
    assigned = {(topic, number): fields for topic, number, fields in image.partitions()}
    present: set[tuple[str, int]] = set()
    for directory in here.partitions:
        name, key = directory.parsed, directory.key
        if name is None or key is None or name.is_raft_log:
            continue
        if name.state in _HERE:
            present.add(key)
        if name.state in ("delete", "future"):
            continue
        finding = _misplaced(image, here, given, directory, assigned.get(key))
        if finding is not None:
            yield finding
    for one in given:  # what lies in another directory of the broker is told there
        if one.node == here.node:
            present.update(each.key for each in one.partitions if each.key is not None and _is_current(each))
    for (topic, number), fields in assigned.items():
        if (topic, number) not in present and _directory_of(image, here, fields) is True:
            path = os.path.join(here.path, f"{topic}-{number}")
            since = f"leader epoch {fields['leaderEpoch']}, leader {fields['leader']}"
            why = f"broker {here.node} is to have it in this directory ({since})"
            yield Finding(Code.M02, path, values={"why": why})


def _misplaced(
    image: MetadataImage, here: _Given, given: Sequence[_Given], directory: PartitionDir, fields: dict[str, Any] | None
) -> Finding | None:
    """Say what is wrong with a partition directory that is there."""
    name = directory.parsed
    assert name is not None
    topic = image.topic_of(name.topic)
    own = directory.topic_id
    if name.state == "stray":
        return _stray(directory, "a broker has set it aside as a stray")
    replicas = None if fields is None else fields["replicas"]
    by_name = None if topic is None else TopicPlace(name.topic, topic["topicId"], replicas)
    found = stray_of(name, own, _of_id(image, own, name.partition), by_name, here.node)
    if found is not None and found.code is Code.M03 and topic is not None:
        path = directory.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA).path
        values: dict[str, int | str | None] = {"topic": name.topic}
        return Finding(Code.M03, path, field="topic_id", found=own, expected=topic["topicId"], values=values)
    if found is not None or fields is None:
        return None if found is None else _stray(directory, found.why)
    if _directory_of(image, here, fields) is False:
        its = fields["directories"][fields["replicas"].index(here.node)]
        other = next((one for one in given if one.directory == its and one.node == here.node), None)
        if other is not None and any(one.key == directory.key and _is_future(one) for one in other.partitions):
            return None  # it is on its way there
        where = "" if other is None else f" ({other.path})"
        why = f"the cluster has it in directory {its}{where} of broker {here.node}, and this is {here.directory}"
        return Finding(Code.M04, directory.path, found=here.directory, expected=its, values={"why": why})
    return None


def _of_id(image: MetadataImage, topic_id: str | None, number: int) -> TopicPlace | None:
    """What the cluster has of a topic id and one of the topic's partitions; None where it has no such topic."""
    topic = image.topic_name(topic_id)
    if topic is None or topic_id is None:
        return None
    fields = image.partition(topic_id, number)
    return TopicPlace(topic, topic_id, None if fields is None else fields["replicas"])


def _stray(directory: PartitionDir, why: str) -> Finding:
    return Finding(Code.M01, directory.path, values={"why": why})


def _is_current(directory: PartitionDir) -> bool:
    return directory.parsed is not None and not directory.parsed.state and not directory.parsed.is_raft_log


def _is_future(directory: PartitionDir) -> bool:
    return directory.parsed is not None and directory.parsed.state == "future"


def _directory_of(image: MetadataImage, here: _Given, fields: dict[str, Any]) -> bool | None:
    """Tell whether a partition is assigned to this directory of its broker, None where nobody can tell."""
    registered = image.brokers()[here.node].get("logDirs") or []
    return is_to_lie_in(here.directory, here.node, fields["replicas"], fields.get("directories") or [], registered)
