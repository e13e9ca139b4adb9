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
    from kdump.storage.fsops import FileOps

NAME = "journal.json"
VERSION = 1
PLANNED, ARMED, DONE, UNDOING, UNDONE = "planned", "armed", "done", "undoing", "undone"
_STATES = (PLANNED, ARMED, DONE, UNDOING, UNDONE)
_TEMPORARY = "journal.tmp"
_KEYS = {
    "version", "command", "directory", "partition", "planId", "inputs", "changes", "events", "lock", "argv", "user",
    "host", "kdump",
}  # fmt: skip
_OF_CHANGE = {"name", "action", "before", "after", "like", "cut", "patches", "saved", "new", "temporary", "back"}


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
    except OSError as error:
        raise RefusedError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{path}: is no journal of kdump: {error}") from None
    if not _is_sound(fields):
        raise RefusedError(f"{path}: is no journal of this version of kdump")
    return path, fields


def _is_sound(fields: object) -> bool:
    """Whether a journal is whole: what is missing must show before anything is done."""
    if not isinstance(fields, dict) or not fields.keys() >= _KEYS or fields["version"] != VERSION:
        return False
    events, inputs, lock = fields["events"], fields["inputs"], fields["lock"]
    if not (isinstance(events, list) and events and isinstance(events[-1], dict)):
        return False
    return (
        events[-1].get("state") in _STATES
        and all(isinstance(fields[key], str) for key in ("command", "directory", "partition"))
        and isinstance(lock, dict)
        and (lock.get("created") is None or _are(int, lock["created"], 2))
        and isinstance(inputs, dict)
        and all(_has_numbers(one, ("inode", "size", "modified")) for one in inputs.values())
        and isinstance(fields["changes"], list)
        and all(map(_is_change, fields["changes"]))
    )


def _is_change(change: object) -> bool:
    if not isinstance(change, dict) or not change.keys() >= _OF_CHANGE:
        return False
    names = [change[key] for key in ("saved", "new", "temporary")]
    before, after, cut, patches = (change[key] for key in ("before", "after", "cut", "patches"))
    in_place = cut is not None or bool(patches)
    return (
        all(one is None or _is_name(one) for one in names)
        and all(_is_name(change[key]) for key in ("name", "back"))
        and (before is None or (_is_metadata(before) and _has_numbers(before, ("size",)) and "sha256" in before))
        and (after is None or (_has_numbers(after, ("size",)) and "sha256" in after))
        and (before is not None or after is not None)
        and not (in_place and (before is None or after is None))
        and _is_metadata(change["like"])
        and (cut is None or (isinstance(cut, dict) and cut.keys() >= {"prefix", "tail"} and _is_name(names[0])))
        and isinstance(patches, list)
        and all(map(_is_patch, patches))
        and (in_place or before is None or _is_name(names[0]))
        and (in_place or after is None or (_is_name(names[1]) and _is_name(names[2])))
    )


def _is_metadata(one: object) -> bool:
    if not _has_numbers(one, ("device", "inode", "modified", "accessed", "uid", "gid", "mode")):
        return False
    attributes = one.get("attributes") if isinstance(one, dict) else None
    return isinstance(attributes, dict) and all(isinstance(value, str) for value in attributes.values())


def _is_patch(one: object) -> bool:
    if not isinstance(one, list) or len(one) != 3 or not isinstance(one[0], int) or not _are(str, one[1:], 2):
        return False
    return len(one[1]) == len(one[2]) and all(char in "0123456789abcdef" for char in one[1] + one[2])


def _has_numbers(one: object, keys: tuple[str, ...]) -> bool:
    return isinstance(one, dict) and all(isinstance(one.get(key), int) for key in keys)


def _are(kind: type, values: object, count: int) -> bool:
    return isinstance(values, list) and len(values) == count and all(isinstance(one, kind) for one in values)


def _is_name(name: object) -> bool:
    """Whether a name stays in its directory."""
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
