"""Which segments are as they were when they were read: by what they are known, and what shows a change.

A segment is known by its cluster, the directory.id of its log directory (where none is there by host and path), the
name of its partition directory and its base offset. It is unchanged while the size, mtime, ctime and inode of each of
its files are, and all else that its rows or its verdict hang on.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from kdump import __version__
from kdump.storage.paths import is_remote
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS = 16  # of a mark
_TICK = 100_000_000  # ns: two changes in less time may have one timestamp
_COARSE = 2_000_000_000  # ns: of a file system that has no parts of seconds
_SECOND = 1_000_000_000


class KnownPlace(Value):
    """Where rows are from, by what stays when a disk is mounted elsewhere."""

    cluster: str | None
    directory_id: str | None  # of the log directory
    # host, log_dir: they count where the log directory has no id
    host: str | None
    log_dir: str | None
    topic: str | None
    partition: int | None

    @property
    def group(self) -> str:
        """The mark of a partition, under whatever name its directory is; of a log directory without topic."""
        where = (self.directory_id,) if self.directory_id else (self.host, self.log_dir)
        return mark_of(self.cluster, where, self.topic, self.partition)

    @property
    def around(self) -> KnownPlace:
        """The log directory."""
        return self.replace(topic=None, partition=None)


def mark_of(*facts: object) -> str:
    """Return a mark of some facts: the same for the same, and for others another."""
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]


def sight_of(paths: Iterable[str], now: int, *hangs_on: object) -> str | None:
    """Return the mark of some files as they lie there, and of all else that what is made of them hangs on.

    It is asked for before the files are read: what changes meanwhile has another mark in the next night.

    Args:
        paths: of the files.
        now: ns since the epoch. A file that has just been changed may change again and keep its times.
        hangs_on: the rest; its `repr` tells it from all others.

    Returns:
        None where nothing vouches for what may come: a file cannot be looked at, or has just been changed.
    """
    seen: list[tuple[object, ...]] = []
    for path in paths:
        facts = _facts(path, now)
        if facts is None:
            return None
        seen.append((path, *facts))
    return mark_of(__version__, seen, hangs_on)  # another release may see more


def _facts(path: str, now: int) -> tuple[object, ...] | None:
    """Size, mtime, ctime and inode of a file; of one in a store what that tells instead."""
    if is_remote(path):
        from kdump.storage.object_store import version_of  # few files are remote

        return version_of(path)
    try:
        found = os.stat(path)  # of a log that was named by a link, too, the file is read
    except FileNotFoundError:
        return ()
    except OSError:
        return None
    latest = max(found.st_mtime_ns, found.st_ctime_ns)
    tick = _TICK if latest % _SECOND else _COARSE
    if latest > now - tick:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
