"""Who may read and write the files of a log directory: a broker opens logs and indexes for both."""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.storage.directory import SEGMENT_KINDS
from kdump.storage.log_dir import is_log_dir
from kdump.storage.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.storage.partition_dir import PartitionDir

_READ, _WRITE = 4, 2
_ROOT = 0
_OFFLINE = "a broker that runs as that owner takes the log directory offline"
_CHOWN = "while the broker is stopped, give them the owner and the mode of the other files (chown, chmod)"


def owners_differ(directory: PartitionDir, log_dir: str) -> Iterator[Finding]:
    """Yield what is odd with owners and modes of the files of a partition: one finding for each kind of oddity.

    Args:
        directory: of the partition.
        log_dir: path of the log directory, whose owner a broker runs as.

    Reports: K12.
    """
    if is_remote(directory.path) or directory.listing.error is not None or not is_log_dir(log_dir):
        return
    try:
        owner = os.stat(log_dir or os.curdir)
    except OSError:
        return
    closed: list[tuple[str, str]] = []  # files that the owner may not open, and why
    foreign: list[tuple[str, str]] = []
    modes: list[tuple[str, int]] = []
    for file in directory.contents.files:
        with suppress(OSError):
            found = os.stat(file.path, follow_symlinks=False)
            is_segment = file.name.kind in SEGMENT_KINDS
            who = f"owner {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}"
            if not _may_open(found, owner, _READ | _WRITE if is_segment else _READ):
                closed.append((file.path, who))
            elif found.st_uid != owner.st_uid:
                foreign.append((file.path, who))
            elif is_segment:
                modes.append((file.path, stat.S_IMODE(found.st_mode)))
    if closed:
        why = f"{closed[0][1]}: the owner of the log.dir, {owner.st_uid}, may not read and write it, and {_OFFLINE}"
        yield _finding(closed[0][0], why, len(closed), _CHOWN, Severity.ERROR)
    if foreign:
        why = f"{foreign[0][1]}: the log directory is that of {owner.st_uid}, who can open it all the same"
        yield _finding(foreign[0][0], why, len(foreign), _CHOWN)
    usual = Counter(mode for _, mode in modes).most_common(1)
    odd = [(path, mode) for path, mode in modes if mode != usual[0][0]] if usual else []
    if odd and 2 * usual[0][1] > len(modes):
        why = f"mode {odd[0][1]:04o}, where the other files have {usual[0][0]:04o}"
        yield _finding(odd[0][0], why, len(odd), "none, unless a broker runs as somebody else")


def _may_open(file: os.stat_result, owner: os.stat_result, wanted: int) -> bool:
    """Whether the owner of a directory, with the group of the directory, may open a file."""
    if owner.st_uid == _ROOT:
        return True
    shift = 6 if file.st_uid == owner.st_uid else 3 if file.st_gid == owner.st_gid else 0
    return (file.st_mode >> shift) & wanted == wanted


def _finding(path: str, why: str, count: int, do: str, severity: Severity = Severity.NOTE) -> Finding:
    more = "" if count == 1 else f"; so are {count - 1} other files here"
    values: dict[str, int | str | None] = {"why": why, "more_files": more, "do": do}
    return Finding(Code.K12, path, values=values, severity_override=severity)
