"""The journal of a repair: what was there, what is to be, and how far it has got.

One JSON object, replaced as a whole at each step, so that it is never torn; its list of events only grows. It holds no
payload: hashes, sizes, owners, and of patched headers the bytes of the header.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.repair.errors import RefusedError

if TYPE_CHECKING:
    from kdump.repair.fsops import FileOps

NAME = "journal.json"
VERSION = 1
PLANNED, ARMED, DONE, UNDOING, UNDONE = "planned", "armed", "done", "undoing", "undone"
_STATES = (PLANNED, ARMED, DONE, UNDOING, UNDONE)
_TEMPORARY = "journal.tmp"
_KEYS = {
    "version", "command", "directory", "partition", "planId", "inputs", "changes", "events", "lock", "argv", "user",
    "host", "kdump",
}  # fmt: skip


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


def load(path: str) -> tuple[str, dict[str, Any]]:
    """Return the path of a journal, and what it says.

    Args:
        path: of the file, or of the directory in the quarantine that has it.

    Raises:
        RefusedError: it is none.
        FileNotFoundError: there is nothing.
    """
    if os.path.isdir(path):
        path = os.path.join(path, NAME)
    try:
        fields = json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(f"{path}: is no journal of kdump: {error}") from None
    if not _is_sound(fields):
        raise RefusedError(f"{path}: is no journal of this version of kdump")
    return path, fields


def _is_sound(fields: object) -> bool:
    if not isinstance(fields, dict) or not fields.keys() >= _KEYS or fields["version"] != VERSION:
        return False
    events = fields["events"]
    is_plain = isinstance(events, list) and bool(events) and all(isinstance(one, dict) for one in events)
    if not is_plain or events[-1].get("state") not in _STATES:
        return False
    return isinstance(fields["changes"], list) and all(_is_plain(one) for one in fields["changes"])


def _is_plain(change: object) -> bool:
    """Whether the names of a change stay in their directories."""
    if not isinstance(change, dict):
        return False
    names = [change.get(key) for key in ("name", "saved", "new", "temporary")]
    return isinstance(names[0], str) and all(
        name is None or (isinstance(name, str) and name not in ("", ".", "..") and "/" not in name) for name in names
    )


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
