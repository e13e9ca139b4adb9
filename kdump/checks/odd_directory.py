"""A directory in a log.dir that is none of a partition, and what it holds: it may be the only copy of a partition.

fsck puts what it finds under lost+found, by number; people rename a directory before they restore another one. A
broker does not start while such a directory is there, and whoever moves it out must know what it is.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from kdump.broker.awaiting_deletion import has_logs, logs_awaiting_deletion
from kdump.broker.load.swapped_dir import once_swapped
from kdump.broker.log_end import last_epoch_and_end
from kdump.finding import Code, Finding
from kdump.format.kinds import FileKind
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from kdump.value import TupleValue, pattern
from kdump.words.command import command_line, named
from kdump.words.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.words.command import ShellCommand

_MOST_SEEN = 2000  # directories that are looked at
_MOST_NAMED = 4  # of them, and entries of checkpoints
_NAME = pattern(r"([a-zA-Z0-9._-]{1,249}-(?:0|[1-9][0-9]{0,8}))(?![0-9])")  # orders-0.bak, orders-0 (copy)
_CHECKPOINTS = (FileKind.RECOVERY_POINT, FileKind.REPLICATION, FileKind.LOG_START)


class _Held(TupleValue):
    """A directory with logs."""

    path: str  # of it, at or below the odd one
    # start, end: base offset of its first log, and where its last one ends
    start: int
    end: int
    name: str | None  # of the partition, where its own name or that of one around it tells it
    topic_id: str | None  # by its partition.metadata
    is_removed: bool = False  # a broker would remove all of its logs


def odd_directories(paths: Sequence[str], log_dir: LogDir, limit: int) -> Iterator[Finding]:
    """Yield what is wrong with the directories in a log.dir that have no name of a partition, with what they hold.

    Args:
        paths: of them all.
        log_dir: that they lie in.
        limit: a batch over this is not held in memory.

    Reports: F11.
    """
    held = {path: list(_with_logs(path, limit)) for path in paths}
    missing = _without_directory(log_dir)
    nameless = [one for some in held.values() for one in some if one.name is None]
    guess = missing[0] if len(missing) == len(nameless) == 1 and _may_be(missing[0], nameless[0], log_dir) else None
    for path, found in held.items():
        yield _finding(path, found, missing, guess) if found else Finding(Code.F11, path)


def _finding(path: str, found: Sequence[_Held], missing: Sequence[str], guess: str | None) -> Finding:
    told = [f"{one.path} ({_offsets(one)})" for one in found[:_MOST_NAMED]]
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    holds = f"it holds logs: {', '.join(told)}{more}"
    if missing:
        are = "is" if len(missing) == 1 else "are"
        holds += f"; checkpoints name {some_of(missing, _MOST_NAMED)}, which {are} not here"
    rescues = "; ".join(str(_rescue(one, guess)) for one in found[:_MOST_NAMED])
    what = "it as a partition" if len(found) == 1 else "each as a partition"
    remedy = f"copy what it holds first, or write {what} ({rescues}{more}); then move it out of the log directory"
    return Finding(Code.F11, path, values={"also": holds, "remedy": remedy})


def _offsets(one: _Held) -> str:
    return f"offsets {one.start}..{one.end - 1}" if one.start < one.end else "no intact batch"


def _rescue(one: _Held, guess: str | None) -> ShellCommand:
    name = one.name or guess or "TOPIC-N"
    deleted = ("--deleted", "too") if one.is_removed else ()
    return command_line("salvage", named(one.path), *deleted, "--name", name, "--to", "DIR")


def _may_be(name: str, one: _Held, log_dir: LogDir) -> bool:
    """Whether a directory may be the partition that checkpoints name: its topic id is not that of another topic."""
    topic = name.rpartition("-")[0]
    ids: dict[str, str | None] = {}
    for key, paths in log_dir.in_use.items():
        partition = PartitionDir(paths[0], log_dir)
        ids.setdefault(key[0], partition.topic_id)
        if len(ids) == _MOST_SEEN:
            break
    if one.topic_id is None:
        return True
    known = ids.get(topic)
    return known in (None, one.topic_id) and all(its != one.topic_id for of, its in ids.items() if of != topic)


def _name_of(directory: str, odd: str) -> str | None:
    """The name of the partition that begins the name of a directory, or else of one around it, up to the odd one."""
    top = os.path.dirname(odd)
    while len(directory) > len(top):
        found = _NAME.match(os.path.basename(directory))
        if found is not None:
            return found[1]
        directory = os.path.dirname(directory)
    return None


def _with_logs(path: str, limit: int) -> Iterator[_Held]:
    """The directories at or below a path that have logs."""
    for directory, below, _ in islice(os.walk(path), _MOST_SEEN):
        below.sort()
        partition = PartitionDir(directory, LogDir(os.path.dirname(directory)))
        if not has_logs(partition.listing):
            continue
        name, topic_id = _name_of(directory, path), partition.topic_id
        loaded = once_swapped(partition).directory
        if loaded.log_bases:
            _, end = last_epoch_and_end(loaded, limit)
            yield _Held(directory, loaded.log_bases[0], max(end, loaded.log_bases[0]), name, topic_id)
        elif removed := list(logs_awaiting_deletion(partition, limit)):
            start = min(one.offset or 0 for one in removed)
            end = max(one.last_offset or 0 for one in removed) + 1
            yield _Held(directory, start, end, name, topic_id, is_removed=True)
        partition.close()


def _without_directory(log_dir: LogDir) -> list[str]:
    """The partitions that checkpoints of a log directory name, and that have no directory there."""
    here = {one.rpartition(os.sep)[2] for one in log_dir.listing.partitions()}
    keys = {key for kind in _CHECKPOINTS for key in log_dir.file(kind).offsets}
    return sorted(name for name in ("{}-{}".format(*key) for key in keys) if name not in here)
