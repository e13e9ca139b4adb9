"""Going on with a repair that was ended in the middle, and going back, both by its journal."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kdump.repair import guard, journal
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.execution import Applied, Means, Work, part_way, sentence_of
from kdump.repair.file_state import FileState, open_directory, state_of
from kdump.repair.files import BEFORE
from kdump.repair.journal import DONE, PLANNED, UNDOING, UNDONE
from kdump.repair.lock import DirectoryLock
from kdump.repair.quarantine import Quarantine

if TYPE_CHECKING:
    from collections.abc import Iterator


def resume(path: str, means: Means | None = None) -> Applied:
    """Go on with a repair that was ended in the middle.

    Args:
        path: of its journal.
        means: what to work with.

    Raises:
        RefusedError: nothing was done.
        FailedError: a call failed again.
        FileNotFoundError: there is no journal.
    """
    with _reopened(path, means or Means()) as (work, unseen):
        state = work.journal.state
        if state in (UNDOING, UNDONE):
            what = "is being undone: go on with kdump undo" if state == UNDOING else "was undone: run the command again"
            raise RefusedError(f"{work.journal.path}: this repair {what}")
        if state == PLANNED:
            work.demand((BEFORE,))
            with part_way(work.journal.path):
                work.prepare()
        if state != DONE:
            work.demand(None)
            work.carry_out()
        return work.applied(unseen)


def undo(path: str, means: Means | None = None) -> Applied:
    """Take back a repair, wherever it has got to.

    Args:
        path: of its journal.
        means: what to work with.

    Raises:
        RefusedError: nothing was done.
        FailedError: a call failed; undo again.
        FileNotFoundError: there is no journal.
    """
    with _reopened(path, means or Means()) as (work, unseen):
        if work.journal.state != UNDONE:
            work.take_back()
        return work.applied(unseen)


@contextmanager
def _reopened(path: str, means: Means) -> Iterator[tuple[Work, int]]:
    """Open a journal and all that it is about, under the lock."""
    path, fields = journal.load(path)
    with ExitStack() as stack:
        place = Quarantine(os.path.dirname(os.path.realpath(path)), means.ops)
        stack.callback(place.close)
        where = fields["directory"]
        if not os.path.isdir(where):
            raise RefusedError(f"{where}: the directory of the partition is not there")
        guard.check_directory(where)
        lock = stack.enter_context(DirectoryLock(where, means.ops))
        directory = open_directory(where)
        stack.callback(os.close, directory)
        _adopt_lock(lock, fields["lock"].get("created"))
        names = [one["name"] for one in fields["changes"]]
        states: list[tuple[str, FileState | None]] = [(name, state_of(directory, name)) for name in names]
        users = means.look({(one.device, one.inode): name for name, one in states if one is not None})
        if users.found:
            raise RefusedError(f"{where}: {users.found[0]}. Stop it, or work on a copy.", locked=True)
        try:
            yield Work(fields, directory, place, means.ops), users.unseen
        except OSError as error:
            raise FailedError(sentence_of(error), path) from error


def _adopt_lock(lock: DirectoryLock, made: list[int] | None) -> None:
    """A lock file that the repair made before it was ended goes when this one is done."""
    if lock.created is None and made is not None:
        lock.adopt((made[0], made[1]))
