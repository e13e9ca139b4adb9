"""The id that a partition.metadata must have where it does not say it: by the metadata log, or by other partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.storage.names import parse_partition
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import base_name

if TYPE_CHECKING:
    from kdump.checks.options import VerifyOptions
    from kdump.finding import Finding

_MOST = 100  # partitions of the topic that are asked


def with_topic_id(finding: Finding, directory: PartitionDir, options: VerifyOptions) -> Finding:
    """Return a K05 with the id that the file must have, as it is where nobody tells or they contradict each other.

    Args:
        finding: about the file, or that it is missing.
        directory: of the partition.
        options: what is known of topics.
    """
    name = directory.parsed
    if name is None or directory.log_dir.path == directory.path:
        return finding
    by = "the metadata log"
    its = options.policies_for(directory).topic_id(name.topic, directory.log_dir)
    if its is None:
        by, told = "other partitions of the topic here", _ids_beside(directory, name.topic)
        its = told.pop() if len(told) == 1 else None
    if its is None:
        return finding
    remedy = (
        f"while the broker is stopped, write its two lines, `version: 0` and `topic_id: {its}`, which is its id by {by}"
    )
    return finding.replace(field="topic_id", expected=its, values={**finding.values, "remedy": remedy})


def _ids_beside(directory: PartitionDir, topic: str) -> set[str]:
    """The ids that other partitions of a topic have in the same log directory."""
    log_dir, found = directory.log_dir, set()
    beside = ((path, parse_partition(base_name(path))) for path in log_dir.listing.partitions())
    same = [path for path, name in beside if name is not None and name.topic == topic and not name.state]
    for path in same[:_MOST]:
        other = PartitionDir(path, log_dir)
        file = other.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA)
        if not file.findings and other.topic_id is not None:
            found.add(other.topic_id)
    return found
