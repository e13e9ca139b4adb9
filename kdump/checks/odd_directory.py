"""A directory in a log.dir that is none of a partition, and what it holds: it may be the only copy of a partition.

fsck puts what it finds under lost+found, by number; people rename a directory before they restore another one. A
broker does not start while such a directory is there, and whoever moves it out must know what it is.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from kdump.broker.log_end import last_epoch_and_end
from kdump.finding import Code, Finding
from kdump.format.kinds import FileKind
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from kdump.value import TupleValue
from kdump.words.command import command_line, named

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_SEEN = 2000  # directories that are looked at
_MOST_NAMED = 4  # of them, and entries of checkpoints
_CHECKPOINTS = (FileKind.RECOVERY_POINT, FileKind.REPLICATION, FileKind.LOG_START)


class _Held(TupleValue):
    """A directory with logs: its path below the odd one, base offset of its first log, and where its last one ends."""

    path: str
    start: int
    end: int


def odd_directory(path: str, log_dir: LogDir, limit: int) -> Finding:
    """Return what is wrong with a directory in a log.dir that has no name of a partition, with what it holds.

    Args:
        path: of it.
        log_dir: that it lies in.
        limit: a batch over this is not held in memory.

    Reports: F11.
    """
    found = list(_with_logs(path, limit))
    missing = _without_directory(log_dir)
    if not found:
        return Finding(Code.F11, path)
    told = [f"{one.path} (offsets {one.start}..{one.end - 1})" for one in found[:_MOST_NAMED]]
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    holds = f"it holds logs: {', '.join(told)}{more}"
    if missing:
        others = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        are = "is" if len(missing) == 1 else "are"
        holds += f"; checkpoints name {', '.join(missing[:_MOST_NAMED])}{others}, which {are} not here"
    name = missing[0] if len(missing) == len(found) == 1 else "TOPIC-N"
    rescue = command_line("salvage", named(found[0].path), "--name", name, "--to", "DIR")
    remedy = f"copy what it holds first, or write it as a partition ({rescue}); then move it out of the log directory"
    return Finding(Code.F11, path, values={"also": holds, "remedy": remedy})


def _with_logs(path: str, limit: int) -> Iterator[_Held]:
    """The directories at or below a path that have logs."""
    for directory, below, names in islice(os.walk(path), _MOST_SEEN):
        below.sort()
        if not any(name.endswith(f".{FileKind.LOG.value}") for name in names):
            continue
        partition = PartitionDir(directory, LogDir(os.path.dirname(directory)))
        if partition.log_bases:
            _, end = last_epoch_and_end(partition, limit)
            yield _Held(directory, partition.log_bases[0], max(end, partition.log_bases[0]))
        partition.close()


def _without_directory(log_dir: LogDir) -> list[str]:
    """The partitions that checkpoints of a log directory name, and that have no directory there."""
    here = {one.rpartition(os.sep)[2] for one in log_dir.listing.partitions()}
    keys = {key for kind in _CHECKPOINTS for key in log_dir.file(kind).offsets}
    return sorted(name for name in ("{}-{}".format(*key) for key in keys) if name not in here)
