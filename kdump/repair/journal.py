"""The journal of a repair: the files before and after, and how far the repair has got.

One JSON object, replaced as a whole at each step, so that it is never torn; its list of events only grows. It holds no
payload: hashes, sizes, owners, and of patched headers the bytes of the header.

It is followed by whoever runs undo or resume, often root. So it is opened without following links, must be a regular
file of bounded size, and neither it nor the directories above it, up to the quarantine, may be writable by others. Root
follows the journal of another user too, but then acts as that user.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kdump.repair.errors import RefusedError, SeveralError
from kdump.repair.file_state import state_of_open
from kdump.repair.schema import ARMED, DONE, PLANNED, UNDOING, UNDONE, VERSION, BadValueError, check_journal
from kdump.storage.own_files import DIRECTORY, READ, demand_ours, led_to
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.repair.file_state import FileState
    from kdump.storage.fsops import FileOps

__all__ = ["ARMED", "DONE", "NAME", "PLANNED", "UNDOING", "UNDONE", "Journal", "load", "new_fields", "repairs"]

_TEMPORARY = "journal.tmp"
NAME = "journal.json"
LIMIT = 32 * 1024 * 1024  # bytes of a journal: some ten thousand segments
MEMBERS = 1_000_000  # values in it, as far as commas tell: what they take in memory
_KINDS = {errno.ELOOP: "is a symbolic link", errno.ENXIO: "is a special file", errno.ENOTDIR: "lies in no directory"}


class Journal:
    """A journal that is open.

    Args:
        path: of the file.
        directory: descriptor of the directory that it lies in.
        fields: all that it says.
        ops: makes the calls.
    """

    def __init__(self, path: str, directory: int, fields: dict[str, Any], ops: FileOps) -> None:
        self.path = path
        self.directory = directory
        self.fields = fields
        self._ops = ops

    @property
    def state(self) -> str:
        """The progress of the repair."""
        state = self.fields["events"][-1]["state"]
        assert isinstance(state, str)
        return state

    def note_lock(self) -> None:
        """Write that the lock file is one that the repair makes, before it does."""
        if not self.fields["lock"]["creates"]:
            self.fields = {**self.fields, "lock": {**self.fields["lock"], "creates": True}}
            self.note(self.state)

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The changes, in order."""
        changes: list[dict[str, Any]] = self.fields["changes"]
        return changes

    def note(self, state: str) -> None:
        """Write that the repair has got so far; it is on the disk when this returns.

        Raises:
            OSError: it cannot be written: the old journal is there, or the new one.
        """
        event = {"time": _now(), "state": state}
        fields = {**self.fields, "events": [*self.fields["events"], event]}
        data = (json.dumps(fields, indent=1) + "\n").encode("ascii")
        if state == PLANNED:
            _demand_followed(fields, data)
        ops = self._ops
        if _exists(self.directory, _TEMPORARY):  # of a run that was ended
            ops.remove(self.directory, _TEMPORARY)
        fd = ops.create(self.directory, _TEMPORARY)
        try:
            ops.write(fd, data, 0)
            ops.sync(fd)
        finally:
            os.close(fd)
        ops.rename(self.directory, _TEMPORARY, NAME)
        ops.sync(self.directory)
        self.fields = fields


def new_fields(command: str, argv: list[str], **more: object) -> dict[str, Any]:
    """Return the first fields of a journal.

    Args:
        command: reindex, truncate, patch-header or repair.
        argv: the command line.
        more: what else it says.
    """
    from kdump import __version__

    user = {"uid": os.getuid(), "euid": os.geteuid(), "gid": os.getegid()}
    host = os.uname().nodename
    first = {"version": VERSION, "kdump": __version__, "command": command, "argv": argv, "user": user, "host": host}
    return {**first, **more, "events": []}


def _only_one(path: str) -> str:
    """The directory of the only repair in a quarantine; the same path where it is something else."""
    try:
        names = sorted(os.listdir(path))
    except (OSError, ValueError):
        return path
    found = [] if NAME in names else [one for one in names if os.path.lexists(os.path.join(path, one, NAME))]
    if len(found) > 1:
        known = {one: fields["events"][-1]["state"] == UNDONE for one, fields in repairs(path)}
        names = [*known, *(one for one in found if one not in known)]
        raise SeveralError(path, [(os.path.join(path, one), known.get(one, False)) for one in names])
    return os.path.join(path, found[0]) if found else path


def repairs(quarantine: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the repairs in a quarantine whose journals may be followed, the newest first, with what they say.

    Args:
        quarantine: path of the directory that holds the directories of repairs.
    """
    found = []
    for name in os.listdir(quarantine):
        folder = os.path.join(quarantine, name)
        if not os.path.lexists(os.path.join(folder, NAME)):
            continue
        try:
            one, fields = load(folder)
        except (RefusedError, FileNotFoundError):
            continue
        os.close(one.directory)
        found.append((name, fields))
    return sorted(found, key=lambda one: (one[1]["events"][0]["time"], one[0]), reverse=True)


def load(path: str) -> tuple[Opened, dict[str, Any]]:
    """Open a journal, and return it with what it says.

    Args:
        path: of the file, of the directory in the quarantine that has it, or of a quarantine that holds one repair.

    Raises:
        RefusedError: it is none, or others may have written it, or there are several.
        FileNotFoundError: there is nothing.
    """
    path = _only_one(path)
    opened = open_journal(path)
    try:
        return opened, check_journal(json.loads(opened.data.decode("ascii")))
    except (BadValueError, ValueError, RecursionError) as error:
        os.close(opened.directory)
        kind = "of this version of kdump" if isinstance(error, BadValueError) else "of kdump"
        raise RefusedError(f"{path}: is not a journal {kind}: {error}") from None


def newest_first(paths: Iterable[str]) -> list[str]:
    """Return the paths of journals in the order in which their repairs can be undone.

    Args:
        paths: as `load` takes them.

    Raises:
        RefusedError: one of them cannot be followed, as `load` says.
        FileNotFoundError: there is nothing.
    """
    begun = []
    for path in paths:
        one, fields = load(path)
        os.close(one.directory)
        begun.append((fields["events"][0]["time"], one.folder, path))
    return [path for *_, path in sorted(begun, reverse=True)]


def _demand_followed(fields: dict[str, Any], data: bytes) -> None:
    """Refuse a repair whose journal undo and resume would refuse: a file has rights that none of a broker has."""
    if not is_bounded(data):
        why = f"{len(fields['changes'])} files are too many for one journal; go in steps"
        raise RefusedError(f"{fields['directory']}: {why}")
    try:
        check_journal(fields)
    except BadValueError as error:
        what = ", ".join(f"changes[{at}] is {one['name']}" for at, one in enumerate(fields["changes"]))
        raise RefusedError(f"{fields['directory']}: a journal may not say this: {error} ({what[:200]})") from None


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Opened(Value):
    """A journal that may be followed."""

    folder: str  # path of the directory that it lies in, without links
    directory: int  # descriptor of that directory; the caller closes it
    data: bytes  # what the journal has
    owner: int  # user id of its owner
    group: int  # group id of the file


def open_journal(path: str) -> Opened:
    """Open a journal and look at who may have written it.

    Args:
        path: of the file, or of the directory in the quarantine that has it.

    Raises:
        RefusedError: it is none, or others may have written it.
        FileNotFoundError: there is nothing.
    """
    named = path
    is_directory = os.path.isdir(path)
    if is_directory:
        path = os.path.join(path, NAME)
    folder = led_to(os.path.dirname(path) or ".")
    quarantine = directory = fd = -1
    try:
        quarantine = os.open(os.path.dirname(folder), DIRECTORY | os.O_NOFOLLOW)
        directory = os.open(os.path.basename(folder) or ".", DIRECTORY | os.O_NOFOLLOW, dir_fd=quarantine)
        fd = os.open(os.path.basename(path), READ, dir_fd=directory)
        found = _demand_file(path, fd)
        _demand_ours(folder, directory, {found.uid})
        _demand_ours(os.path.dirname(folder), quarantine, {found.uid, os.geteuid(), 0}, sticky=True)
        data = _read(path, fd)
        opened, directory = Opened(folder, directory, data, found.uid, found.gid), -1
    except FileNotFoundError as error:
        if is_directory:
            why = "is not a quarantine: it has no journal"
            then = "name the directory that --quarantine was given, or one of its folders"
            raise RefusedError(f"{named}: {why}; {then}", missing=True) from None
        raise FileNotFoundError(error.errno, error.strerror, path) from None
    except OSError as error:
        if error.errno in _KINDS:
            raise RefusedError(f"{path}: {_KINDS[error.errno]}, not a journal") from None
        raise RefusedError(f"{path}: cannot be read: {error.strerror}") from None
    else:
        return opened
    finally:
        for one in (fd, directory, quarantine):
            if one >= 0:
                os.close(one)


def _demand_file(path: str, fd: int) -> FileState:
    """Refuse what cannot be a journal by its kind, its name, its size, its owner or its rights."""
    found = state_of_open(fd)
    if found.kind != "regular":
        raise RefusedError(f"{path}: is {found.kind}, not a journal")
    if os.path.basename(path) != NAME:
        raise RefusedError(f"{path}: is not a journal: name the {NAME} in the directory that the repair has made")
    demand_ours(path, found.uid, found.mode, {os.geteuid()} if os.geteuid() else {found.uid})
    if found.size > LIMIT:
        raise RefusedError(
            f"{path}: is not a journal of kdump: it has {found.size} bytes, and a journal has at most {LIMIT}"
        )
    return found


def _demand_ours(path: str, fd: int, owners: set[int], *, sticky: bool = False) -> None:
    found = state_of_open(fd)
    demand_ours(path, found.uid, found.mode, owners, sticky=sticky)


def _read(path: str, fd: int) -> bytes:
    """All of a file, but no more than a journal may have, whatever it has become by now."""
    found = bytearray()
    while len(found) <= LIMIT:
        data = os.read(fd, 1 << 20)
        if not data:
            break
        found += data
    if not is_bounded(found):
        raise RefusedError(f"{path}: is not a journal of kdump: it has too many bytes or values")
    return bytes(found)


def is_bounded(data: bytes | bytearray) -> bool:
    """Tell whether a journal is one that can be read again in a bounded memory."""
    return len(data) <= LIMIT and data.count(b",") <= MEMBERS


@contextmanager
def acting_as(owner: int, group: int) -> Iterator[None]:
    """Let root have the rights of another user for a while, and no more; for everybody else nothing changes.

    Args:
        owner: user id.
        group: of a user whom the system does not know; else those that it has.
    """
    if owner == os.geteuid():
        yield
        return
    import pwd

    before = os.getegid(), os.getgroups()
    try:
        known = pwd.getpwuid(owner)
        mine = known.pw_gid, os.getgrouplist(known.pw_name, known.pw_gid)
    except KeyError:
        mine = group, [group]
    try:
        os.setgroups(mine[1])
        os.setegid(mine[0])
        os.seteuid(owner)
        yield
    finally:
        os.seteuid(0)
        os.setegid(before[0])
        os.setgroups(before[1])


@contextmanager
def acting_as_root() -> Iterator[None]:
    """Within `acting_as`: look with the rights of root again."""
    effective = os.geteuid()
    if os.getuid() or not effective:
        yield
        return
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(effective)
