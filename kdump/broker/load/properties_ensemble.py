"""MetaPropertiesEnsemble: the meta.properties of all directories of a node, judged before any log is loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.load.facts import Stops
from kdump.broker.load.log_manager import Cause
from kdump.finding import Code
from kdump.format.java_values import RUNTIME, uuid_text
from kdump.format.kinds import FileKind
from kdump.storage.log_dir import LogDir
from kdump.storage.names import METADATA_LOG
from kdump.storage.paths import real

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.storage.server_properties import NodeSettings

_KAFKA = "org.apache.kafka.common.KafkaException"
_RESERVED = 100  # directory ids below it mean something else. Source: DirectoryId.reserved


def ensemble_cause(log_dirs: Sequence[LogDir], settings: NodeSettings) -> Cause | None:
    """Return why a node with these settings ends before it loads any log; None where it does not.

    Args:
        log_dirs: those of its directories that were looked at already.
        settings: of the node.

    Source: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble.verify; Kafka 4.3.1.
    """
    known = {real(one.path): one for one in log_dirs}
    named = [known.get(real(path)) or LogDir(path) for path in settings.directories]
    return next(_complaints(named, settings), None)


def _complaints(log_dirs: Sequence[LogDir], settings: NodeSettings) -> Iterator[Cause]:
    lacking: list[LogDir] = []
    failed: list[LogDir] = []
    sound: list[LogDir] = []
    for one in log_dirs:
        file = one.file(FileKind.META_PROPERTIES)
        is_bad = any("caught" in finding.values for finding in file.findings)
        (lacking if file.is_missing else failed if is_bad else sound).append(one)
    if not sound and log_dirs:
        files = lacking or failed
        yield _ended(files[0], f"{RUNTIME}: No readable meta.properties files found.")
    yield from _differing(sound, settings)
    metadata_dir = real(settings.metadata_dir)
    for one in failed:
        if real(one.path) == metadata_dir:
            what = f"Encountered I/O error in metadata log directory {one.path}. Cannot continue."
            yield _ended(one, f"{RUNTIME}: {what}")
    for one in sound:
        if one.has_metadata_log and real(one.path) != metadata_dir:
            where = os.path.join(one.path, METADATA_LOG)
            yield _ended(one, unexpected_metadata(where, settings.metadata_dir))
    for one in lacking:
        what = f"No `meta.properties` found in {one.path} (have you run `kafka-storage.sh` to format the directory?)"
        yield _ended(one, f"{RUNTIME}: {what}")
    for one in sound:
        if one.node is None:
            yield _ended(one, f"{RUNTIME}: Error: node ID not found in {one.path}")
        if one.cluster_id is None:
            yield _ended(one, f"{RUNTIME}: Error: cluster ID not found in {one.path}")


def unexpected_metadata(where: str, metadata_dir: str) -> str:
    """Return what a node throws that has a metadata log outside its metadata.log.dir.

    Args:
        where: the directory of that log.
        metadata_dir: the log directory in which it should lie.
    """
    what = f"Found unexpected metadata location in data directory `{where}`"
    return f"{_KAFKA}: {what} (the configured metadata directory is {metadata_dir})."


def _differing(log_dirs: Sequence[LogDir], settings: NodeSettings) -> Iterator[Cause]:
    """What meta.properties that can each be read say against another, or against the configuration."""
    cluster: str | None = None
    node = settings.node
    seen: dict[str, str] = {}
    for one in log_dirs:
        path = one.path_of(FileKind.META_PROPERTIES)
        cluster = one.cluster_id if cluster is None else cluster
        if one.cluster_id not in (None, cluster):
            what = f"Invalid cluster.id in: {path}. Expected {cluster}, but read {one.cluster_id}"
            yield _ended(one, f"{RUNTIME}: {what}", Code.K10)
        node = one.node if node is None else node
        if one.node not in (None, node):
            what = f"Stored node id {one.node} doesn't match previous node id {node} in {path}"
            what += ". If you moved your data, make sure your configured node id matches."
            yield _ended(one, f"{RUNTIME}: {what}", Code.K11)
        directory = one.properties.get("directory.id")
        if directory is not None:
            before = seen.setdefault(uuid_text(str(directory)), one.path)
            if _is_reserved(str(directory)):
                yield _ended(one, f"{RUNTIME}: Invalid reserved directory ID {directory} found in {path}")
            if before != one.path:
                what = f"Duplicate directory ID {directory} found. It was the ID of {before}, but also of {one.path}"
                yield _ended(one, f"{RUNTIME}: {what}")


def _is_reserved(directory: str) -> bool:
    from base64 import urlsafe_b64decode

    try:
        return int.from_bytes(urlsafe_b64decode(f"{directory}=="), "big") < _RESERVED
    except ValueError:
        return False


def _ended(log_dir: LogDir, exception: str, code: Code = Code.K03) -> Cause:
    path = log_dir.path_of(FileKind.META_PROPERTIES)
    return Cause(Stops.BROKER, exception, path, True, code.name, path)
