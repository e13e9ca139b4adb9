"""Partitions that lie where the cluster does not have them, by its metadata log.

That is a warning: the metadata log that is at hand may be older than the directories, or newer. What is missing is not
told here: people copy some partitions of a directory and no others; `kdump cluster --check` says it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.strays import stray_in
from kdump.finding import Code, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.checks.directories import DirectoryCheck
    from kdump.checks.options import VerifyOptions


def not_placed(directories: Sequence[DirectoryCheck], options: VerifyOptions) -> Iterator[Finding]:
    """Yield the partitions of log directories that the cluster does not have there.

    Args:
        directories: that the user named.
        options: what is known of the cluster.

    Reports: M01, M03.
    """
    for directory in directories:
        if not directory.is_log_dir or directory.log_dir.node is None or options.policies is None:
            continue
        cluster = options.policies.cluster(directory.log_dir) if directory.log_dir.is_kraft else None
        for one in directory.partition_dirs if cluster is not None else ():
            found, name = stray_in(one, cluster), one.parsed
            if found is None or name is None or cluster is None or found.code is Code.K05:
                continue  # a partition.metadata that is missing is told where its files are judged
            path = os.path.join(one.path, found.file) if found.file else one.path
            told = Finding(found.code, path, severity_override=Severity.WARNING)
            if found.code is Code.M03:
                ids = {"found": one.topic_id, "expected": cluster.ids[name.topic]}
                yield told.replace(field="topic_id", values={"topic": name.topic}, **ids)
            else:
                yield told.replace(values={"why": f"by the metadata log that is here {found.why}"})
