"""Resume an interrupted repair, or undo one, by its journal."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from kdump.repair import guard, journal
from kdump.repair.apply import Applied, Means, Work, part_way, sentence_of
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.journal import PLANNED, acting_as, acting_as_root
from kdump.repair.lock import DirectoryLock
from kdump.repair.places import Places, directories_of
from kdump.repair.quarantine import Quarantine
from kdump.repair.schema import REPAIR
from kdump.storage.log_dir import is_log_dir
from kdump.storage.names import log_bases
from kdump.storage.own_files import DIRECTORY
from kdump.storage.paths import above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.repair.file_state import FileState


def resume(path: str, means: Means | None = None) -> Applied:
    """Resume an interrupted repair.

    Args:
        path: of its journal.
        means: what to work with.

    Raises:
        RefusedError: nothing was done.
        FailedError: a call failed again.
        FileNotFoundError: there is no journal.
    """
    with _reopened(path, means or Means(), Work.check_resume) as (work, unseen):
        is_left = work.check_resume()
        if is_left:
            if work.journal.state == PLANNED:
                with part_way(work.journal.path):
                    work.prepare()
            work.carry_out()
        return work.applied(unseen, was_done=not is_left)


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
    with _reopened(path, means or Means(), Work.check_undo) as (work, unseen):
        is_left = work.check_undo()
        if is_left:
            work.take_back()
        return work.applied(unseen, was_done=not is_left)


def foreseen(path: str) -> tuple[Applied, list[str]]:
    """Return what `undo` would say, and the names of the files that it would restore, without writing anything.

    Args:
        path: of the journal.

    Raises:
        RefusedError: it would be refused.
        FileNotFoundError: there is no journal.
    """
    with _reopened(path, Means(), Work.check_undo, writes=False) as (work, unseen):
        is_left = work.check_undo()
        return work.applied(unseen, was_done=not is_left), work.changed_files()


def recorded(path: str) -> tuple[str, list[str]]:
    """Return the directory of a repair, and the names of the files that it has changed, the last one first.

    Args:
        path: of its journal.
    """
    opened, fields = journal.load(path)
    os.close(opened.directory)
    return fields["directory"], [one["name"] for one in reversed(fields["changes"])]


@contextmanager
def _reopened(
    path: str, means: Means, check: Callable[[Work], bool], *, writes: bool = True
) -> Iterator[tuple[Work, tuple[int, ...]]]:
    """Open a journal and all that it is about, under the lock.

    Args:
        path: as the user wrote it.
        means: what to work with.
        check: refuses what cannot be done, and tells whether anything is left to do.
        writes: False where nothing may be written: then no lock file is made.
    """
    opened, fields = journal.load(path)
    with ExitStack() as stack:
        place = Quarantine(opened.folder, opened.directory, means.ops)
        stack.callback(place.close)
        where = fields["directory"]
        directory = _open_recorded(path, where)
        stack.callback(os.close, directory)
        places = Places(directory, where)
        stack.callback(places.close)
        is_of_log_dir = fields["command"] == REPAIR
        _demand_partitions(path, fields, places, opened.owner)
        names = [one["name"] for one in fields["changes"]]
        touched = directories_of(where, [*names, *fields["inputs"]])
        guard.check_directories(touched)
        stack.enter_context(acting_as(opened.owner, opened.group))
        partitions = [one for one in touched if not is_of_log_dir or one != where]
        log_dir = where if is_of_log_dir else above(where)
        lock = stack.enter_context(DirectoryLock(partitions, log_dir, means.ops))
        work = Work(fields, places, place, means)
        if writes and lock.is_missing and check(work):
            with part_way(work.journal.path):
                work.journal.note_lock()
            lock.secure()
        if writes and work.journal.fields["lock"]["creates"]:
            lock.adopt()
        states: list[tuple[str, FileState | None]] = [(name, places.state(name)) for name in names]
        with acting_as_root():
            users = means.look({(one.device, one.inode): name for name, one in states if one is not None})
        if users.found:
            raise RefusedError(f"{where}: {users.found[0]}. Stop it, or work on a copy.", locked=True)
        try:
            yield work, users.unseen
        except OSError as error:
            raise FailedError(sentence_of(error), work.journal.path) from error


def _open_recorded(path: str, where: str) -> int:
    """Open the directory that a journal names, and no other that a link leads to."""
    try:
        directory = os.open(where, DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise RefusedError(f"{where}: the directory of the partition cannot be opened: {error.strerror}") from None
    if os.path.realpath(where) != where or not os.path.samestat(os.stat(where), os.fstat(directory)):
        os.close(directory)
        raise RefusedError(f"{path}: directory {where} is reached by a link; no journal of kdump says that")
    return directory


def _demand_partitions(path: str, fields: dict[str, Any], places: Places, owner: int) -> None:
    """Refuse directories without a log, and root's help with files that are not those of the journal's owner."""
    names = [*fields["inputs"], *(one["name"] for one in fields["changes"])]
    for name in dict.fromkeys(os.path.dirname(one) for one in names):
        where = os.path.join(fields["directory"], name) if name else fields["directory"]
        if fields["command"] == REPAIR and not name:
            if not is_log_dir(where):
                raise RefusedError(f"{path}: directory {where} is not a log directory: no file of one is in it")
        elif not log_bases(os.listdir(places.of(os.path.join(name, "any"))[0])):
            raise RefusedError(f"{path}: directory {where} is not a partition directory: it has no log")
    for name in names:
        state = places.state(name)
        if state is None:
            continue
        file = os.path.join(fields["directory"], name)
        if state.kind != "regular":
            raise RefusedError(f"{file}: is {state.kind}; only regular files are changed")
        if owner != os.geteuid() and state.uid != owner:
            why = f"belongs to user {state.uid}, and the journal to user {owner}"
            raise RefusedError(f"{file}: {why}: {path} may not say what becomes of it")
