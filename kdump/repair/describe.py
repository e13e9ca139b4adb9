"""What the journal says about a change before it is made."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING, Any

from kdump.repair.file_state import attributes_of, opened, pieces, sha256_of, sha256_of_name, state_of_open
from kdump.repair.schema import CUT

if TYPE_CHECKING:
    from kdump.repair.plan import Change


def describe(change: Change, directory: int, mark: str) -> dict[str, Any]:
    """Return what the journal says about a change.

    Args:
        change: the change.
        directory: descriptor of the partition directory.
        mark: makes the names of temporary files of this repair differ from others.
    """
    saved = new = cut = None
    before, after = _before(change, directory), {"size": change.size, "sha256": ""}
    if change.is_cut:
        with opened(directory, change.name) as fd:
            cut = {"prefix": sha256_of(fd, 0, change.size), "tail": sha256_of(fd, change.size)}
        saved, after["sha256"] = CUT, cut["prefix"]
    elif change.patches:
        with opened(directory, change.name) as fd:
            after["sha256"] = _patched_sha256(fd, change)
    elif change.before is not None:
        saved = f"old.{change.name}.bin"
    if change.content is not None:
        new, after["sha256"] = f"new.{change.name}.bin", change.content.sha256
    return {
        "name": change.name,
        "action": change.action,
        "before": before,
        "after": None if change.action == "delete" else after,
        "like": _metadata(directory, change.like),
        "cut": cut,
        "patches": [[one.position, one.old.hex(), one.new.hex()] for one in change.patches],
        "saved": saved,
        "new": new,
        "temporary": None if new is None else f"kdump-{change.name}-{mark}.tmp",
        "back": f"kdump-{change.name}-{mark}-back.tmp",
    }


def _before(change: Change, directory: int) -> dict[str, Any] | None:
    if change.before is None:
        return None
    sha256 = None if change.is_cut else sha256_of_name(directory, change.name)
    return {**_metadata(directory, change.name), "size": change.before.size, "sha256": sha256}


def _metadata(directory: int, name: str) -> dict[str, Any]:
    """Owner, rights, times and attributes, as the journal has them."""
    with opened(directory, name) as fd:
        found, state = os.fstat(fd), state_of_open(fd)
        attributes = {key: base64.b64encode(value).decode("ascii") for key, value in attributes_of(fd).items()}
    return {**state.fields(), "accessed": found.st_atime_ns, "attributes": attributes}


def _patched_sha256(fd: int, change: Change) -> str:
    found, at = hashlib.sha256(), 0
    for one in change.patches:
        for data in pieces(fd, at, one.position):
            found.update(data)
        found.update(one.new)
        at = one.position + len(one.new)
    for data in pieces(fd, at, change.size):
        found.update(data)
    return found.hexdigest()
