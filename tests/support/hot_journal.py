"""Rollback journals of SQLite, byte by byte: what is played back when the file beside it is opened."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = bytes.fromhex("d9d505f920a163d7")
_SECTOR = 512
NOBODY = 65534


def hot_journal(database: Path, names: Path) -> bytes:
    """A journal of no page that names a super-journal: SQLite removes that file once the journal is played back.

    Args:
        database: the file that it belongs to.
        names: the path that it names.
    """
    data = database.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    head = _MAGIC + struct.pack(">IIIII", 0, 0, len(data) // size, _SECTOR, size)
    name = os.fsencode(names)
    end = struct.pack(">II", len(name), sum(name) & 0xFFFFFFFF) + _MAGIC
    return head.ljust(_SECTOR, b"\0") + struct.pack(">I", 1) + name + end


def give_away(path: Path, uid: int = NOBODY) -> None:
    """Let a file, or a directory with all that it has, belong to another user; only root may do that."""
    for folder, folders, files in os.walk(path):
        for one in (*folders, *files):
            os.lchown(os.path.join(folder, one), uid, uid)
    os.lchown(path, uid, uid)
