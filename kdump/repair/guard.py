"""The checks before anything is changed: each refusal says what is in the way, and what to do."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kdump.repair.errors import RefusedError
from kdump.repair.file_state import open_directory
from kdump.repair.lock import in_use, users_of
from kdump.repair.places import Places
from kdump.repair.plan import names_in
from kdump.repair.schema import REPAIR
from kdump.storage.outputs import refuse_inside_sources
from kdump.storage.paths import as_owner
from kdump.words.command import ShellCommand, command_line, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.repair.file_state import FileState
    from kdump.repair.lock import Users
    from kdump.repair.plan import Change, Plan

_SPARE = 1.1  # of what is needed
_SMALL = 64 * 1024  # for the journal, and what a file system needs for names
_UNFINISHED = ".swap"  # .cleaned and .deleted files a broker only removes; without a .swap nothing hangs on them


def check_directories(paths: Iterable[str]) -> None:
    """Refuse directories in which others could put something in the place of a file.

    Args:
        paths: of the directories in which files change.
    """
    for path in paths:
        _demand_closed(path)
        _demand_writable(path)


def check_files(plan: Plan) -> None:
    """Refuse in a dry run what would be refused whoever does it, and when: the files are not such that they may change.

    Args:
        plan: what is to be done.

    Raises:
        OSError: the directory cannot be opened.
    """
    for path in plan.places:
        _demand_closed(path)
    with _places(plan) as places:
        for change in plan.changes:
            now = places.state(change.name)
            if now is not None:
                _demand_plain(_path(plan, change.name), now)
            _demand_same_owner(plan, change, now, places.state(change.like))
    demand_finished(plan.directory, plan.names)


def check_circumstances(plan: Plan, quarantine: str | None) -> None:
    """Refuse in a dry run what would be refused as things are: another user, time or quarantine may do.

    Nothing is locked for that: a broker that starts in this moment would fail.

    Args:
        plan: what is to be done.
        quarantine: the directory that the user named for it; None for none yet.
    """
    for path in plan.places:
        _demand_writable(path)
    if quarantine:
        check_quarantine(quarantine, plan.places)
    holder = in_use(plan.log_dir)
    if holder is not None:
        raise RefusedError(holder, locked=True)
    with _places(plan) as places:
        for change in plan.changes:
            _demand_own(plan, change, places.state(change.name) or places.state(change.like))
    if quarantine:
        check_room(plan, quarantine)


def check_plan(plan: Plan, places: Places) -> None:
    """Refuse what is not as it was planned, or must not be changed.

    Args:
        plan: what is to be done.
        places: its directories.
    """
    again = f"look at it again: {command_line(plan.command, named(plan.directory))}"
    if names_in(plan.directory, plan.places, is_log_dir=plan.command == REPAIR) != tuple(sorted(plan.names)):
        raise RefusedError(f"{plan.directory}: files have come or gone since the plan was made; {again}")
    for name, state in plan.inputs.items():
        _demand_same(plan, name, state, places.state(name), again)
    for change in plan.changes:
        now = places.state(change.name)
        _demand_same(plan, change.name, change.before, now, again)
        if now is not None:
            _demand_plain(_path(plan, change.name), now)
        like = places.state(change.like)
        _demand_same_owner(plan, change, now, like)
        _demand_own(plan, change, now or like)
    demand_finished(plan.directory, plan.names)


def check_users(
    plan: Plan, places: Places, look: Callable[[dict[tuple[int, int], str]], Users] = users_of
) -> tuple[int, ...]:
    """Refuse files that another process has open; a broker without its lock may still be at work.

    Args:
        plan: what is to be done.
        places: its directories.
        look: tells who has files open.

    Returns:
        the processes that may be brokers and could not be looked at.
    """
    states = [(one.name, places.state(one.name)) for one in plan.changes]
    states += [(name, places.state(name)) for name in plan.inputs]
    users = look({(state.device, state.inode): name for name, state in states if state is not None})
    if users.found:
        raise RefusedError(f"{plan.directory}: {users.found[0]}. Stop it, or work on a copy.", locked=True)
    return users.unseen


def check_quarantine(path: str, directories: Iterable[str], option: str = "--quarantine") -> None:
    """Refuse a quarantine where a broker looks, or where a broker would remove it.

    Args:
        path: the quarantine, as the user wrote it; it need not be there.
        directories: in which files change.
        option: that names it.
    """
    if os.path.lexists(path) and not os.path.isdir(path):
        raise RefusedError(f"{path}: is not a directory; name one for {option}")
    if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
        raise RefusedError(f"{path}: there is no directory to make it in")
    refuse_inside_sources(path, directories, option)


def check_room(plan: Plan, quarantine: str) -> None:
    """Refuse when there is not enough room.

    Args:
        plan: what is to be done.
        quarantine: the directory that the user named for it; it need not be there.
    """
    new = sum(one.size for one in plan.changes if one.content is not None)
    saved = sum(
        one.before.size - (one.size if one.is_cut else 0)
        for one in plan.changes
        if one.before is not None and not one.patches
    )
    there = quarantine if os.path.isdir(quarantine) else os.path.dirname(os.path.realpath(quarantine))
    needs = {os.stat(plan.directory).st_dev: new}
    device = os.stat(there).st_dev
    needs[device] = needs.get(device, 0) + saved + new
    for path in (plan.directory, there):
        room = os.statvfs(path)
        free, need = room.f_bavail * room.f_frsize, int(needs[os.stat(path).st_dev] * _SPARE) + _SMALL
        if free < need:
            raise RefusedError(f"{path}: {need} bytes are needed here, and {free} are free; make room")


@contextmanager
def _places(plan: Plan) -> Iterator[Places]:
    """The directories of a plan, open as long as it takes."""
    directory = open_directory(plan.directory)
    places = Places(directory, plan.directory)
    try:
        yield places
    finally:
        places.close()
        os.close(directory)


def _path(plan: Plan, name: str) -> str:
    return os.path.join(plan.directory, name)


def _demand_closed(path: str) -> None:
    mode = os.stat(path).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        closing = ShellCommand("chmod", "o-w", named(path))
        raise RefusedError(f"{path}: everybody may write here; take that right away first: {closing}")


def _demand_writable(path: str) -> None:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise RefusedError(f"{path}: the file system is mounted read-only; mount it for writing, or work on a copy")


def _demand_same(plan: Plan, name: str, planned: FileState | None, now: FileState | None, again: str) -> None:
    if planned is None and now is None:
        return
    if planned is None or now is None or planned.fields() != now.fields():
        raise RefusedError(f"{_path(plan, name)}: has changed since the plan was made; {again}")


def _demand_plain(path: str, state: FileState) -> None:
    if state.kind != "regular":
        raise RefusedError(f"{path}: is {state.kind}; only regular files are changed")
    if state.links != 1:
        raise RefusedError(f"{path}: has {state.links} names, and would change under all; copy it, so that it has one")


def _demand_same_owner(plan: Plan, change: Change, now: FileState | None, like: FileState | None) -> None:
    """The owner of a file must be the one of its segment: a broker must be able to open it."""
    if like is None:
        raise RefusedError(f"{_path(plan, change.like)}: is gone")
    owner = now or like
    if (owner.uid, owner.gid) != (like.uid, like.gid):
        names = f"{change.name} and {change.like}"
        giving = ShellCommand("chown", f"--reference={_path(plan, change.like)}", named(_path(plan, change.name)))
        raise RefusedError(f"{plan.directory}: {names} belong to different owners; give them to one: {giving}")


def _demand_own(plan: Plan, change: Change, owner: FileState | None) -> None:
    """The owner of a file must stay."""
    if owner is None:
        return
    if os.geteuid() != 0 and (owner.uid != os.geteuid() or owner.gid not in {os.getegid(), *os.getgroups()}):
        raise RefusedError(f"{_path(plan, change.name)}: belongs to another user{as_owner(_path(plan, change.name))}")


def demand_finished(directory: str, names: Iterable[str]) -> None:
    """Refuse a directory with files that a broker completes at its next start: they take the place of others.

    Args:
        directory: its path, as the user wrote it.
        names: of its files.
    """
    for name in sorted(names, key=lambda one: (not one.endswith(f".log{_UNFINISHED}"), one)):  # a log tells most
        if name.endswith(_UNFINISHED):
            why = "a broker puts it in the place of others at its next start, and this plan would not fit any more"
            look = command_line("verify", named(directory or os.curdir))
            then = f"see what that start makes of the partition, and what to do: {look}"
            raise RefusedError(f"{os.path.join(directory, name)}: {why}; {then}")
