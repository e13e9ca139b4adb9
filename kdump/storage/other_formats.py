"""Files that look like a broker's and are none: compressed copies, and segments of Redpanda."""

from __future__ import annotations

import os
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.format.codec.base import CompressionType
from kdump.storage.names import is_of_redpanda, parse_name

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPRESSED: Mapping[str, tuple[str, bytes]] = MappingProxyType({
    "gz": (CompressionType.GZIP.label, b"\x1f\x8b"),
    "zst": (CompressionType.ZSTD.label, b"\x28\xb5\x2f\xfd"),
    CompressionType.LZ4.label: (CompressionType.LZ4.label, b"\x04\x22\x4d\x18"),
    "xz": ("xz", b"\xfd7zXZ"),
    "bz2": ("bzip2", b"BZh"),
    "zip": ("zip", b"PK\x03\x04"),
})  # fmt: skip
"""Suffixes that people's tools put behind a name: what the tool is called, and how its files begin."""
UNPACK = "unpack it into a directory of its own (gunzip, unzstd ..), and look at that"
REDPANDA = "this looks like a segment of Redpanda, whose format is another one: nothing here reads it"
_MOST_SEEN = 500  # directories below one that are looked at


def packer_of(name: str) -> str | None:
    """Return what has compressed a broker's file, by its name; None where nothing has.

    Args:
        name: of the file.
    """
    suffixes = parse_name(name).suffixes
    return COMPRESSED[suffixes[-1]][0] if suffixes and suffixes[-1] in COMPRESSED else None


def why_not_read(path: str, begin: bytes) -> str | None:
    """Return why a file that a user named is none of a broker's, and what to do; None where nothing says so.

    Args:
        path: of the file.
        begin: its first bytes.
    """
    name = os.path.basename(path)
    if is_of_redpanda(name):
        return REDPANDA
    packer = packer_of(name)
    magic = COMPRESSED[name.rpartition(".")[2]][1] if packer is not None else b""
    return f"compressed by {packer}: {UNPACK}" if magic and begin.startswith(magic) else None


def redpanda_below(path: str) -> str | None:
    """Return the path of a segment of Redpanda at or below a directory, None where there is none.

    Args:
        path: of the directory.
    """
    for directory, below, files in islice(os.walk(path), _MOST_SEEN):
        below.sort()
        found = next((one for one in sorted(files) if is_of_redpanda(one)), None)
        if found is not None:
            return os.path.join(directory, found)
    return None
