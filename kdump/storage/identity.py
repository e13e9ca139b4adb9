"""Whose a directory is, by the files of the broker itself: cluster.id and node.id, and the topic id of a partition.

Nothing is made up: where nobody tells, or two contradict each other, that is the answer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.format.checkpoint.text_lines import Property
from kdump.format.java_values import uuid_complaint
from kdump.format.kinds import FileKind
from kdump.storage.names import METADATA_TOPIC, METADATA_TOPIC_ID, parse_partition
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import base_name, exists

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kdump.storage.log_dir import LogDir

ID_NAMES = {"0": "broker.id", "1": "node.id"}
"""The name of the node's id in meta.properties, by its version."""

ID_OPTIONS = {"cluster.id": ("--cluster-id", "ID"), "node.id": ("--node-id", "N")}
"""The options of `kdump repair` that say what no file tells."""


class UndeterminedError(Exception):
    """Nothing here tells what a file must say; the text says from what it could be taken."""


# --- the topic id of a partition ----------------------------------------------------------------------------------
def topic_ids_beside(directory: PartitionDir, log_dirs: Iterable[LogDir]) -> set[str]:
    """Return the ids that the other partitions of a topic have.

    Args:
        directory: a partition of it.
        log_dirs: where the others may lie: those of one broker.
    """
    assert directory.parsed is not None
    own, found = os.path.realpath(directory.path), set()
    for log_dir in log_dirs:
        for its, paths in topic_ids(log_dir, directory.parsed.topic).items():
            if any(os.path.realpath(path) != own for path in paths):
                found.add(its)
    return found


def topic_ids(log_dir: LogDir, topic: str) -> Mapping[str, Sequence[str]]:
    """Return the ids that partitions of a topic have in sound files, and for each the paths of the first two.

    Args:
        log_dir: where they lie; it is looked through once for all who ask.
        topic: its name.
    """
    known = log_dir.topic_ids.get(topic)
    if known is None:
        told: dict[str, list[str]] = {}
        for path in log_dir.listing.partitions():
            name = parse_partition(base_name(path))
            its = _sound_id(path, log_dir) if name is not None and name.topic == topic and not name.state else None
            if its is not None and len(told.setdefault(its, [])) < 2:
                told[its].append(path)
        known = log_dir.topic_ids[topic] = told
    return known


def _sound_id(path: str, log_dir: LogDir) -> str | None:
    """What partition.metadata in a directory says; None where it is missing or wrong."""
    name = FileKind.PARTITION_METADATA.value
    if not exists(os.path.join(path, name)):
        return None
    directory = PartitionDir(path, log_dir)
    its = None if directory.file(name, FileKind.PARTITION_METADATA).findings else directory.topic_id
    return None if its is None or uuid_complaint(its) is not None else its


def topic_id_by_others(directory: PartitionDir, log_dirs: Iterable[LogDir], cluster: Mapping[str, str] | None) -> str:
    """Return the id that the cluster, or the other partitions here, have for the topic of a partition.

    Args:
        directory: the partition.
        log_dirs: where the others may lie: those of one broker.
        cluster: ids by topic, as the metadata log has them; None where there is none.

    Raises:
        UndeterminedError: nobody tells, or they contradict each other.
    """
    assert directory.parsed is not None
    topic = directory.parsed.topic
    if topic == METADATA_TOPIC:
        return METADATA_TOPIC_ID
    told = topic_ids_beside(directory, log_dirs)
    if cluster is not None:
        its = cluster.get(topic)
        if its is None:
            raise UndeterminedError(f"the metadata log has no topic {topic}: a broker sets this directory aside")
        if told - {its}:
            why = f"the metadata log has id {its} for topic {topic}, and other partitions here have {min(told)}"
            raise UndeterminedError(f"{why}: find out of which topic this one is")
        return its
    if len(told) > 1:
        why = f"the partitions of topic {topic} here have different ids ({', '.join(sorted(told))})"
        raise UndeterminedError(f"{why}: find out of which topic this one is")
    if not told:
        why = f"no metadata log is among the paths, and no other partition of topic {topic} has its id"
        raise UndeterminedError(f"{why}: name a log directory with __cluster_metadata-0, or with such a partition, too")
    return told.pop()


# --- the ids of meta.properties -----------------------------------------------------------------------------------
def own_ids(log_dir: LogDir) -> dict[str, str]:
    """Return what meta.properties says in lines that are whole, and as a broker could have written them.

    Args:
        log_dir: that it lies in.
    """
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
        return value in ID_NAMES
    if name in ("node.id", "broker.id"):
        return value.isascii() and value.isdigit() and len(value) < 10
    if name == "directory.id":
        return uuid_complaint(value) is None
    return name == "cluster.id" and is_cluster_id(value)


def is_cluster_id(value: str) -> bool:
    """Tell whether a text can be the id of a cluster, and stand in a file of properties as it is."""
    return bool(value) and value.isascii() and value.isprintable() and not set(value) & set(" \\=:#!")


def agreed_id(name: str, own: Mapping[str, str], others: Iterable[LogDir], given: Mapping[str, str]) -> str | None:
    """Return the one value that all who know it have for a name, None where nobody knows it.

    Args:
        name: in meta.properties.
        own: what the file itself says.
        others: the other log directories of the broker; those whose own file is wrong do not count.
        given: what the user says.

    Raises:
        UndeterminedError: they contradict each other.
    """
    told: dict[str, str] = {}
    if name in own:
        told[own[name]] = "its own line"
    for one in others:
        if not one.properties or one.file(FileKind.META_PROPERTIES).findings:
            continue
        value = one.property_text(name) or (one.property_text("broker.id") if name == "node.id" else None)
        if value is not None:
            told.setdefault(value, one.path)
    if name in given:
        told.setdefault(given[name], ID_OPTIONS[name][0])
    if len(told) > 1:
        said = ", ".join(f"{value} by {by}" for value, by in told.items())
        raise UndeterminedError(f"its {name} is not certain: {said}: name the log directories of one broker")
    return next(iter(told), None)


def unknown_ids(log_dir: LogDir, others: Sequence[LogDir]) -> tuple[str, ...] | None:
    """Return the ids that a meta.properties must have and nobody tells, None where they contradict each other.

    Args:
        log_dir: that it lies in.
        others: the other log directories of the broker.
    """
    own = own_ids(log_dir)
    try:
        known = {name: agreed_id(name, own, others, {}) for name in ("version", *ID_OPTIONS)}
    except UndeterminedError:
        return None
    is_needed = {"cluster.id": known["version"] != "0", "node.id": True}
    return tuple(name for name in ID_OPTIONS if known[name] is None and is_needed[name])
