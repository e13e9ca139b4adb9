"""All files below a path, as they lie on the disk: also those that no broker reads."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.storage.directory import cannot_list
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import TEMPORARY, parse_name
from kdump.storage.paths import why_not
from kdump.usage.rows import INDEX, LEFTOVER, LOG, OTHER
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_BLOCK = 512  # bytes that st_blocks counts
_INDEXES = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


class DiskFile(Value):
    """A regular file."""

    path: str  # below the directory as the user wrote it
    # size, allocated: bytes by its length, and on the disk
    size: int
    allocated: int
    part: int  # LOG, INDEX, OTHER or LEFTOVER
    kind: str | None  # which file it is; None where nobody knows
    modified: int  # ms since the epoch
    device: int  # of the file system


def files_of(path: str, *, leftover: bool = False, without: Container[str] = ()) -> Iterator[DiskFile | OpenFailure]:
    """Yield the regular files below a directory, sorted; links are not followed, and what vanishes is passed over.

    Args:
        path: of the directory.
        leftover: all of them are left over.
        without: paths of directories that are left out.
    """
    try:
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield cannot_list(path, error)
        return
    for entry in entries:
        below = os.path.join(path, entry.name)
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError as error:
            yield OpenFailure(below, "permission", f"{below}: cannot be looked at: {why_not(below, error)}")
            continue
        if stat.S_ISDIR(status.st_mode) and below in without:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from files_of(below, leftover=leftover)
        elif stat.S_ISREG(status.st_mode):
            yield disk_file(below, status, leftover=leftover)
        elif not stat.S_ISLNK(status.st_mode):
            yield OpenFailure(below, "special", f"{below}: not a regular file: not counted")


def disk_file(path: str, status: os.stat_result, *, leftover: bool = False) -> DiskFile:
    """Return a file with what its name tells.

    Args:
        path: of the file.
        status: of the file.
        leftover: it lies among what is left over.
    """
    name = parse_name(os.path.basename(path))
    is_left = leftover or not TEMPORARY.isdisjoint(name.suffixes)
    part = LEFTOVER if is_left else OTHER
    if not is_left and name.kind is FileKind.LOG:
        part = LOG
    elif not is_left and name.kind in _INDEXES:
        part = INDEX
    kind = "leftover" if is_left else None if name.kind is FileKind.UNKNOWN else name.kind.value
    allocated, modified = status.st_blocks * _BLOCK, status.st_mtime_ns // 1_000_000
    return DiskFile(path, status.st_size, allocated, part=part, kind=kind, modified=modified, device=status.st_dev)
