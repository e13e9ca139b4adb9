"""Carries out a plan: first all that can fail, with nothing to be seen; then each change by itself, in order.

1. Lock, look at everything again, refuse what is not as planned.
2. Quarantine: what the files are to become, and the journal, `planned`. Where the log directory has no lock file, it
   is made and locked now, and everything is looked at once more: the journal knows of it, whatever happens.
3. Copies of all that will be gone, read back; the new files beside the old ones, under names no broker looks at.
4. The journal, `armed`. Up to here a failure leaves nothing behind, and a crash nothing that a broker sees.
5. Each change: a rename, a cut, a few bytes, a removal, and the disk is waited for before the next one. The order is
   that of the plan: indexes before the log, as a broker believes an index that is longer than its log.
6. Everything is read once more; the journal, `done`.

Whatever happens after the journal is there, `resume` goes on from it and `undo` goes back.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from kdump.repair import guard, journal
from kdump.repair.describe import describe
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.execution import Applied, Means, Work, sentence_of
from kdump.repair.file_state import open_directory
from kdump.repair.lock import DirectoryLock
from kdump.repair.quarantine import Quarantine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.repair.plan import Plan

_NO_RIGHT = (errno.EPERM, errno.EACCES, errno.ENOTSUP)


def apply(plan: Plan, quarantine: str, argv: list[str], means: Means | None = None) -> Applied:
    """Carry out a plan.

    Args:
        plan: what is to be done; with at least one change.
        quarantine: the directory that the user named for it.
        argv: the command line, for the journal.
        means: what to work with.

    Raises:
        RefusedError: nothing was done.
        FailedError: a call failed; with a journal when something may have changed.
    """
    means = means or Means()
    guard.check_directory(plan.directory)
    guard.check_quarantine(quarantine, plan.directory)
    with ExitStack() as stack:
        lock = stack.enter_context(DirectoryLock(plan.directory, means.ops))
        directory = open_directory(plan.directory)
        stack.callback(os.close, directory)
        guard.check_plan(plan, directory)
        unseen = guard.check_users(plan, directory, means.look)
        _check_room(plan, quarantine)
        with _nothing_changed():
            mark = os.urandom(4).hex()
            entries = [describe(change, directory, mark) for change in plan.changes]
            fields = _fields(plan, argv, lock, entries)
            owner = os.fstat(directory).st_uid
            place = Quarantine.make(quarantine, plan.partition, plan.command, owner, means.ops)
            stack.callback(place.close)
        work = Work(fields, directory, place, means.ops)
        try:
            with _nothing_changed():
                work.plan([None if one.content is None else one.content.data for one in plan.changes])
                if lock.is_missing:
                    lock.secure()
                    guard.check_users(plan, directory, means.look)
                guard.check_plan(plan, directory)  # reading took its time
                work.prepare()
        except BaseException:
            work.clear()
            lock.remove()  # while the journal still says whose it is
            place.discard()
            raise
        work.carry_out()
        return work.applied(unseen)


def argv_of() -> list[str]:
    """Return the command line, as far as JSON can have it."""
    return [os.fsencode(word).decode("utf-8", "backslashreplace") for word in sys.argv]


def _fields(plan: Plan, argv: list[str], lock: DirectoryLock, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return journal.new_fields(
        plan.command,
        argv,
        directory=os.path.realpath(plan.directory),
        partition=plan.partition,
        planId=plan.plan_id,
        lock={"how": lock.how, "creates": lock.is_missing},
        inputs={name: state.fields() for name, state in plan.inputs.items()},
        changes=entries,
        bytesLost=plan.bytes_lost,
        recordsLost=plan.records_lost,
        logEndOffset=plan.log_end_offset,
    )


def _check_room(plan: Plan, quarantine: str) -> None:
    new = sum(one.size for one in plan.changes if one.content is not None)
    saved = sum(
        one.before.size - (one.size if one.is_cut else 0)
        for one in plan.changes
        if one.before is not None and not one.patches
    )
    there = quarantine if os.path.isdir(quarantine) else os.path.dirname(os.path.realpath(quarantine))
    guard.check_room(plan.directory, new, there, saved + new)


@contextmanager
def _nothing_changed() -> Iterator[None]:
    """What fails here has changed nothing."""
    try:
        yield
    except OSError as error:
        sentence = f"{sentence_of(error)}; nothing was changed"
        if error.errno in _NO_RIGHT:
            raise RefusedError(f"{sentence}: run as the owner of the files, who keeps their rights") from error
        raise FailedError(sentence) from error
