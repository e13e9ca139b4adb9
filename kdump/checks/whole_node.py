"""What only the disks of one node show together: a directory id twice, a new disk, and one that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.lost_directories import of_lost_directories
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.storage.log_dir import LogDir
from kdump.storage.paths import is_dir, real

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from kdump.broker.config import Config
    from kdump.storage.server_properties import NodeSettings

_FORMAT = (
    "mount the volume that was here; where the disk is new, format it while the node is stopped: kafka-storage.sh "
    "format --ignore-formatted, with the cluster.id of the others"
)


def directory_ids_twice(log_dirs: Sequence[LogDir], node: NodeSettings | None) -> Iterator[Finding]:
    """Yield the log directories with the directory id of another: a copy of its volume.

    Args:
        log_dirs: that the user named.
        node: its settings, where one configuration names them.

    Reports: K11.
    """
    seen: dict[tuple[str | None, str], LogDir] = {}
    for one in log_dirs:
        directory = one.property_text("directory.id")
        if directory is None:
            continue
        other = seen.setdefault((one.cluster_id, directory), one)
        if real(other.path) == real(one.path) or (node is None and other.node != one.node):
            continue
        yield Finding(
            Code.K11,
            one.path_of(FileKind.META_PROPERTIES),
            field="directory.id",
            found=directory,
            expected=directory,
            severity_override=None if node is None else Severity.ERROR,
            values={"other": other.path, "together": _COPIED, "remedy": _OUT},
        )


_COPIED = "one is a copy of the other; a broker does not start with both (Duplicate directory ID)"
_OUT = "see which of the two is the volume that the broker used last, and take the other one out of log.dirs"


def disks_of_node(
    log_dirs: Sequence[LogDir], node: NodeSettings, config: Config | None, held: Container[tuple[str, int]]
) -> Iterator[Finding]:
    """Yield the directories of a node that were never formatted, and the partitions that lay on disks that are gone.

    Args:
        log_dirs: those of its directories that have anything of Kafka.
        node: its settings.
        config: that knows its metadata log; None where nobody asks for it.
        held: the partitions that are here.

    Reports: K03, M02.

    Source: MetaPropertiesEnsemble.verify; Kafka 4.3.1.
    """
    known = {real(one.path): one for one in log_dirs}
    named = [known.get(real(path)) or LogDir(path) for path in node.directories if is_dir(path)]
    lacking = [one for one in named if one.file(FileKind.META_PROPERTIES).is_missing]
    if not any(one.is_kraft for one in named if one not in lacking):
        return
    for one in lacking:
        if one.lacks_properties:
            continue  # it is told where the directory is judged by itself
        why = f"No `meta.properties` found in {one.path}: with {node.path} the node ends when it starts"
        yield Finding(Code.K03, one.path_of(FileKind.META_PROPERTIES), values={"why": why, "remedy": _FORMAT})
    clusters = (None if config is None else config.cluster_of(one) for one in named)
    cluster = next((one for one in clusters if one is not None and one.is_known), None)
    number = node.node if node.node is not None else next((one.node for one in named if one.node is not None), None)
    if cluster is None or number is None:
        return
    present = [str(one.property_text("directory.id")) for one in named if one not in lacking]
    assigned = ((topic, n, *one) for (topic, n), one in cluster.assigned.items())
    place = (lacking or named)[-1].path
    registered = cluster.registered.get(number, ())
    yield from of_lost_directories(number, registered, present, assigned, held=held, place=place)
