"""The id that a partition.metadata must have where it does not say it: by the metadata log, or by other partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.storage.identity import topic_ids_beside

if TYPE_CHECKING:
    from kdump.checks.options import VerifyOptions
    from kdump.finding import Finding
    from kdump.storage.partition_dir import PartitionDir


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
        by, told = "other partitions of the topic here", topic_ids_beside(directory, [directory.log_dir])
        its = told.pop() if len(told) == 1 else None
    if its is None:
        return finding
    remedy = (
        f"while the broker is stopped, write its two lines, `version: 0` and `topic_id: {its}`, which is its id by {by}"
    )
    return finding.replace(field="topic_id", expected=its, values={**finding.values, "remedy": remedy})
