"""Files that look like a broker's and are none: compressed copies, and segments of Redpanda."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.codec.base import CompressionType
from kdump.format.codec.signatures import SIGNATURES
from kdump.storage.names import is_of_redpanda, parse_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.format.source import Source

_LZ4 = CompressionType.LZ4.label
_CODECS = {"gz": CompressionType.GZIP.label, "zst": CompressionType.ZSTD.label, _LZ4: _LZ4}
COMPRESSED: Mapping[str, tuple[str, bytes]] = MappingProxyType({
    **{suffix: (label, dict(SIGNATURES)[label]) for suffix, label in _CODECS.items()},
    "xz": ("xz", b"\xfd7zXZ"),
    "bz2": ("bzip2", b"BZh"),
    "zip": ("zip", b"PK\x03\x04"),
})  # fmt: skip
"""Suffixes that people's tools put behind a name: what the tool is called, and how its files begin."""
REDPANDA = "this looks like a segment of Redpanda, whose format is another one: nothing here reads it"
_SIGNATURE = 8  # bytes by which a compressed file is known
_MOST_SEEN = 500  # directories below one that are looked at


def packer_of(name: str) -> str | None:
    """Return what has compressed a broker's file, by its name; None where nothing has.

    Args:
        name: of the file.
    """
    suffixes = parse_name(name).suffixes
    return COMPRESSED[suffixes[-1]][0] if suffixes and suffixes[-1] in COMPRESSED else None


def why_not_read(source: Source) -> str | None:
    """Return why a file that a user named is none of a broker's, and what to do; None where nothing says so.

    Args:
        source: the file. What cannot be read of it is told when it is read.
    """
    name = os.path.basename(source.name)
    if is_of_redpanda(name):
        return REDPANDA
    packer = packer_of(name)
    if packer is not None:
        with suppress(OSError):
            if source.read_at(0, _SIGNATURE).startswith(COMPRESSED[name.rpartition(".")[2]][1]):
                return f"compressed by {packer}: {Code.F17.remedy}"
    return None


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
