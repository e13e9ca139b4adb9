"""The journal of a repair: what was there, what is to be, and how far it has got.

One JSON object, replaced as a whole at each step, so that it is never torn; its list of events only grows. It holds no
payload: hashes, sizes, owners, and of patched headers the bytes of the header.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kdump.repair.errors import RefusedError
from kdump.repair.schema import ARMED, DONE, PLANNED, UNDOING, UNDONE, VERSION, BadValueError, check_journal
from kdump.repair.trusted import NAME, Opened, is_bounded, open_journal

if TYPE_CHECKING:
    from kdump.storage.fsops import FileOps

__all__ = ["ARMED", "DONE", "NAME", "PLANNED", "UNDOING", "UNDONE", "Journal", "load", "new_fields"]

_TEMPORARY = "journal.tmp"


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
        """How far the repair has got."""
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
        """What is changed, in order."""
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
        command: reindex, truncate or patch-header.
        argv: the command line.
        more: what else it says.
    """
    from kdump import __version__

    user = {"uid": os.getuid(), "euid": os.geteuid(), "gid": os.getegid()}
    host = os.uname().nodename
    first = {"version": VERSION, "kdump": __version__, "command": command, "argv": argv, "user": user, "host": host}
    return {**first, **more, "events": []}


def load(path: str) -> tuple[Opened, dict[str, Any]]:
    """Open a journal, and return it with what it says.

    Args:
        path: of the file, or of the directory in the quarantine that has it.

    Raises:
        RefusedError: it is none, or others may have written it.
        FileNotFoundError: there is nothing.
    """
    opened = open_journal(path)
    try:
        return opened, check_journal(json.loads(opened.data.decode("ascii")))
    except (BadValueError, ValueError, RecursionError) as error:
        os.close(opened.directory)
        kind = "of this version of kdump" if isinstance(error, BadValueError) else "of kdump"
        raise RefusedError(f"{path}: is not a journal {kind}: {error}") from None


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
