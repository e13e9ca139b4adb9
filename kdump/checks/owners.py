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
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.storage.partition_dir import PartitionDir

_READ, _WRITE, _LIST = 4, 2, 1
_ROOT = 0
_OFFLINE = "a broker that runs as that owner takes the log directory offline"
_CHOWN = "while the broker is stopped, give them the owner and the mode of the other files (chown, chmod)"


class ClosedFile(TupleValue):
    """What the owner of a log directory may not open as a broker opens it."""

    path: str
    who: str  # owns it, and its mode
    owner: int  # of the log directory


def closed_files(directory: PartitionDir) -> list[ClosedFile]:
    """Return what of a directory a broker cannot open that runs as the owner of the log directory.

    Args:
        directory: of a partition; or the log directory itself, which has files too.
    """
    return _seen(directory)[0]


def owners_differ(directory: PartitionDir) -> Iterator[Finding]:
    """Yield what is odd with owners and modes of the files of a partition: one finding for each kind of oddity.

    Args:
        directory: of the partition, or the log directory itself.

    Reports: K12.
    """
    closed, foreign, modes = _seen(directory)
    if closed:
        first = closed[0]
        why = f"{first.who}: the owner of the log.dir, {first.owner}, may not read and write it, and {_OFFLINE}"
        yield _finding(first.path, why, len(closed), _CHOWN, Severity.ERROR)
    if foreign:
        first = foreign[0]
        why = f"{first.who}: the log directory is that of {first.owner}, who can open it all the same"
        yield _finding(first.path, why, len(foreign), _CHOWN)
    usual = Counter(mode for _, mode in modes).most_common(1)
    odd = [(path, mode) for path, mode in modes if mode != usual[0][0]] if usual else []
    if odd and 2 * usual[0][1] > len(modes):
        why = f"mode {odd[0][1]:04o}, where the other files have {usual[0][0]:04o}"
        yield _finding(odd[0][0], why, len(odd), "none, unless a broker runs as somebody else")


def _seen(directory: PartitionDir) -> tuple[list[ClosedFile], list[ClosedFile], list[tuple[str, int]]]:
    """What the owner may not open, what is somebody else's and may be opened all the same, and the other modes."""
    closed: list[ClosedFile] = []
    foreign: list[ClosedFile] = []
    modes: list[tuple[str, int]] = []
    log_dir = directory.log_dir.path
    if is_remote(directory.path) or directory.listing.error is not None or not is_log_dir(log_dir):
        return closed, foreign, modes
    try:
        owner = os.stat(log_dir or os.curdir)
    except OSError:
        return closed, foreign, modes
    wanted = [(file.path, file.name.kind in SEGMENT_KINDS, False) for file in directory.contents.files]
    if directory.path != log_dir:
        wanted.insert(0, (directory.path, False, True))
    for path, is_segment, is_directory in wanted:
        with suppress(OSError):
            found = os.stat(path, follow_symlinks=False)
            who = f"owner {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}"
            rights = _READ | _WRITE | _LIST if is_directory else _READ | _WRITE if is_segment else _READ
            if stat.S_ISLNK(found.st_mode):
                continue
            if not _may_open(found, owner, rights):
                closed.append(ClosedFile(path, who, owner.st_uid))
            elif found.st_uid != owner.st_uid:
                foreign.append(ClosedFile(path, who, owner.st_uid))
            elif is_segment:
                modes.append((path, stat.S_IMODE(found.st_mode)))
    return closed, foreign, modes


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
