"""New indexes written aside: into a directory of the user, never beside the log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.file_state import open_directory
from kdump.repair.guard import check_quarantine
from kdump.storage.fsops import FileOps

if TYPE_CHECKING:
    from kdump.repair.plan import Plan


def write_aside(plan: Plan, output: str, ops: FileOps | None = None) -> None:
    """Write what a plan would put into a partition directory below another directory.

    Args:
        plan: with the contents.
        output: the directory; a directory with the name of the partition is made in it.
        ops: makes the calls.

    Raises:
        RefusedError: it lies in a log directory, or has such files already.
        FailedError: a call failed.
    """
    ops = ops or FileOps()
    check_quarantine(output, plan.directory)
    folder = os.path.join(os.path.realpath(output), plan.partition)
    taken = [one.name for one in plan.changes if os.path.lexists(os.path.join(folder, one.name))]
    if taken:
        raise RefusedError(f"{os.path.join(folder, taken[0])}: is there already; name another directory for --output")
    try:
        for path in (os.path.realpath(output), folder):
            if plan.changes and not os.path.isdir(path):
                parent = open_directory(os.path.dirname(path))
                try:
                    ops.make_directory(parent, os.path.basename(path))
                finally:
                    os.close(parent)
        for change in plan.changes:
            if change.content is not None:
                _write(folder, change.name, change.content.data(), ops)
    except OSError as error:
        raise FailedError(f"{folder}: {error.strerror}; the partition was not touched") from error


def _write(folder: str, name: str, data: bytes, ops: FileOps) -> None:
    directory = open_directory(folder)
    try:
        fd = ops.create(directory, name)
        try:
            ops.write(fd, data, 0)
            ops.sync(fd)
        finally:
            os.close(fd)
    finally:
        os.close(directory)
