"""The schema of a journal: a table for each of its objects. An error names the path of the first bad value.

A journal leads the hand that writes, so nothing in it is taken on trust: types, ranges, names that stay in their
directory, and what belongs together are all looked at before anything is opened by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.format.java_values import ABOVE_ALL, MAX_LONG, MIN_LONG
from kdump.format.kinds import FileKind
from kdump.storage.json_rules import (
    BadValueError,
    directory,
    encoded,
    fields,
    hexes,
    items,
    maybe,
    members,
    name,
    number,
    one_of,
    text,
)
from kdump.storage.names import parse_name, parse_partition
from kdump.value import TupleValue

if TYPE_CHECKING:
    from kdump.storage.json_rules import Rule

__all__ = [
    "ARMED",
    "CUT",
    "DONE",
    "PLANNED",
    "REPAIR",
    "UNDOING",
    "UNDONE",
    "VERSION",
    "BadValueError",
    "check_journal",
    "names_aside",
]

PLANNED, ARMED, DONE, UNDOING, UNDONE = "planned", "armed", "done", "undoing", "undone"
CUT = "cut.records"
REPAIR = "repair"
"""The command whose journal names files of several directories: NAME, or PARTITION/NAME."""
VERSION = 1
_MOST_ID = 2**32 - 2  # the next one means: leave it as it is
_RIGHTS = 0o777  # without setuid, setgid and sticky
_MOST_NAME = 255  # bytes
_OTHER_RIGHTS = "security.capability"  # an attribute that is a right to do more
_ATTRIBUTES = ("user.", "trusted.", "security.", "system.posix_acl_", "system.nfs4_acl")
_INDEXES = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


def attribute(value: object, path: str) -> None:
    """The name of an extended attribute that gives no more rights than those of the file."""
    text(value, path, _MOST_NAME)
    if not str(value).startswith(_ATTRIBUTES) or value == _OTHER_RIGHTS:
        raise BadValueError(path, "is not an attribute that kdump sets")


# --- the tables -------------------------------------------------------------------------------------------------
_SHA256, _SIZE, _TIME, _ID = hexes(64), number(0, MAX_LONG), number(MIN_LONG, MAX_LONG), number(0, _MOST_ID)
_STATE: dict[str, Rule] = {
    "device": number(0, 2**64 - 1),
    "inode": number(0, 2**64 - 1),
    "size": _SIZE,
    "modified": _TIME,
    "changed": _TIME,
    "uid": _ID,
    "gid": _ID,
}
_INPUT = fields({**_STATE, "mode": number(0, 0o7777)})
_METADATA: dict[str, Rule] = {
    **_STATE,
    "mode": number(0, _RIGHTS),
    "accessed": _TIME,
    "attributes": members(attribute, encoded),
}


def _patch(value: object, path: str) -> None:
    if not isinstance(value, list) or len(value) != 3:
        raise BadValueError(path, "is not an array of position, old and new bytes")
    _SIZE(value[0], f"{path}[0]")
    for at in (1, 2):
        hexes()(value[at], f"{path}[{at}]")
    if len(value[1]) != len(value[2]):
        raise BadValueError(path, "puts bytes in the place of another number of bytes")


def _place(value: object, path: str) -> None:
    """A name that stays in its directory, or one in a directory right below that."""
    text(value, path)
    assert isinstance(value, str)
    for part in value.split("/", 1):
        name(part, path)


_CHANGE = fields(
    {
        "name": _place,
        "action": one_of("create", "rebuild-index", "replace", "truncate", "empty", "delete", "patch"),
        "before": maybe(fields({**_METADATA, "sha256": maybe(_SHA256)})),
        "after": maybe(fields({"size": _SIZE, "sha256": _SHA256})),
        "like": fields(_METADATA),
        "cut": maybe(fields({"prefix": _SHA256, "tail": _SHA256})),
        "patches": items(_patch),
        "saved": maybe(name),
        "new": maybe(name),
        "temporary": maybe(name),
        "back": name,
    }
)
_JOURNAL = fields(
    {
        "version": one_of(VERSION),
        "kdump": text,
        "command": one_of("reindex", "truncate", "patch-header", REPAIR),
        "argv": items(text),
        "user": fields({"uid": _ID, "euid": _ID, "gid": _ID}),
        "host": text,
        "directory": directory,
        "partition": name,
        "planId": hexes(16),
        "lock": fields({"how": text, "creates": one_of(False, True)}),
        "inputs": members(_place, _INPUT),
        "changes": items(_CHANGE, 1),
        "bytesLost": _SIZE,
        "recordsLost": number(MIN_LONG, MAX_LONG),
        "logEndOffset": maybe(number(MIN_LONG, ABOVE_ALL)),
        "events": items(
            fields({"time": text, "state": one_of(PLANNED, ARMED, DONE, UNDOING, UNDONE)}),
            1,
        ),
    }
)

# What each action has, beyond a name: before, after, cut, patches, a copy of what goes, a copy of what comes.
_BEFORE, _AFTER, _CUTS, _PATCHES, _SAVED, _NEW = "before", "after", "cut", "patches", "saved", "new"
_SHAPES = {
    "create": {_AFTER, _NEW},
    "rebuild-index": {_BEFORE, _AFTER, _SAVED, _NEW},
    "replace": {_BEFORE, _AFTER, _SAVED, _NEW},
    "truncate": {_BEFORE, _AFTER, _CUTS, _SAVED},
    "empty": {_BEFORE, _AFTER, _CUTS, _SAVED},
    "delete": {_BEFORE, _SAVED},
    "patch": {_BEFORE, _AFTER, _PATCHES},
}
_OF_COMMAND = {
    "reindex": {"create", "rebuild-index", "replace"},
    "truncate": {"create", "rebuild-index", "replace", "truncate", "empty", "delete"},
    "patch-header": {"patch"},
    REPAIR: {"create", "rebuild-index", "replace", "truncate", "patch"},
}
_OF_KIND = {
    FileKind.LOG: {"truncate", "empty", "delete", "patch"},
    **{kind: {"create", "rebuild-index", "replace", "delete"} for kind in _INDEXES},
    FileKind.SNAPSHOT: {"create", "replace", "delete"},
    FileKind.EPOCHS: {"create", "replace", "delete"},
    FileKind.PARTITION_METADATA: {"create", "replace"},
}
_OF_LOG_DIR = {
    FileKind.RECOVERY_POINT: {"replace"},
    FileKind.REPLICATION: {"replace"},
    FileKind.LOG_START: {"replace"},
    FileKind.CLEANER: {"replace"},
    FileKind.META_PROPERTIES: {"create", "replace"},
}


def check_journal(journal: object) -> dict[str, Any]:
    """Return a journal in which every value is one that kdump may have written.

    Args:
        journal: what was read.

    Raises:
        BadValueError: it is none; the text begins with the path of the field.
    """
    _JOURNAL(journal, "")
    assert isinstance(journal, dict)
    seen: set[str] = set()
    for at, change in enumerate(journal["changes"]):
        path = f"changes[{at}]"
        if change["name"] in seen:
            raise BadValueError(f"{path}.name", "stands in two changes")
        seen.add(change["name"])
        if change["action"] not in _OF_COMMAND[journal["command"]]:
            raise BadValueError(f"{path}.action", f"is not one of {journal['command']}")
        _check_change(change, path, at, of_log_dir=journal["command"] == REPAIR)
    if journal["command"] != REPAIR and sum(one["cut"] is not None for one in journal["changes"]) > 1:
        raise BadValueError("changes", "cut more than one log")
    for one in journal["inputs"]:
        _actions(one, f"inputs.{one}", of_log_dir=journal["command"] == REPAIR)
    return journal


def _actions(file: str, path: str, *, of_log_dir: bool) -> set[str]:
    """What may be done to a file, by its name."""
    directory, _, last = file.rpartition("/")
    found = parse_name(last)
    known = _OF_KIND if directory or not of_log_dir else _OF_LOG_DIR
    is_partition = not directory or (of_log_dir and parse_partition(directory) is not None)
    if not is_partition or not found.is_live or found.uuid is not None or found.kind not in known:
        raise BadValueError(path, "is not a file of a partition that kdump repairs")
    return known[found.kind]


class Aside(TupleValue):
    """The names in the quarantine of what a change takes away, or brings."""

    cut: str
    old: str
    new: str


def names_aside(file: str, number: int) -> Aside:
    """Return the names in the quarantine of what belongs to a file.

    Args:
        file: as the journal names it; with a directory, files of the same name in others have the number of theirs.
        number: of the change.
    """
    directory, _, last = file.rpartition("/")
    if not directory:
        return Aside(CUT, f"old.{last}.bin", f"new.{last}.bin")
    return Aside(f"cut.{number}.records", f"old.{number}.{last}.bin", f"new.{number}.{last}.bin")


def _check_change(change: dict[str, Any], path: str, at: int, *, of_log_dir: bool) -> None:
    """Check the fields that depend on each other: an action and its parts, names, sizes and hashes."""
    place, action = change["name"], change["action"]
    if action not in _actions(place, f"{path}.name", of_log_dir=of_log_dir):
        raise BadValueError(f"{path}.action", f"is not done to {place}")
    aside, file = names_aside(place, at), place.rpartition("/")[2]
    shape = _SHAPES[action]
    for part in (_BEFORE, _AFTER, _CUTS, _PATCHES, _SAVED, _NEW):
        if bool(change[part]) != (part in shape):
            raise BadValueError(f"{path}.{part}", f"does not go with {action}")
    mark = change["back"].removeprefix(f"kdump-{file}-").removesuffix("-back.tmp")
    hexes(8)(mark, f"{path}.back")
    derived = {
        "back": f"kdump-{file}-{mark}-back.tmp",
        "temporary": f"kdump-{file}-{mark}.tmp" if _NEW in shape else None,
        "new": aside.new if _NEW in shape else None,
        "saved": None if _SAVED not in shape else aside.cut if _CUTS in shape else aside.old,
    }
    for key, wanted in derived.items():
        if change[key] != wanted:
            raise BadValueError(f"{path}.{key}", f"is not {wanted}")
    before, after = change["before"], change["after"]
    if before is not None and (before["sha256"] is None) != (_CUTS in shape):
        raise BadValueError(f"{path}.before.sha256", f"does not go with {action}")
    if _CUTS in shape and (after["size"] >= before["size"] or after["sha256"] != change["cut"]["prefix"]):
        raise BadValueError(f"{path}.after", "is not what a cut leaves")
    if _PATCHES in shape:
        _check_patches(change, path)


def _check_patches(change: dict[str, Any], path: str) -> None:
    size, at = change["before"]["size"], 0
    if change["after"]["size"] != size:
        raise BadValueError(f"{path}.after.size", "is another one after a patch")
    for number_, (position, old, _) in enumerate(change["patches"]):
        if position < at or position + len(old) // 2 > size:
            raise BadValueError(f"{path}.patches[{number_}]", "lies in another patch, or beyond the end of the file")
        at = position + len(old) // 2
