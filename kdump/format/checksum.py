"""The two checksums of batches: CRC-32C for magic 2, CRC-32 before it.

Both are the C functions themselves, without a wrapper: a log of one-record batches calls them millions of
times.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Protocol
from zlib import crc32 as zlib_crc32

CHECK_INPUT = b"123456789"
CRC32C_CHECK = 0xE3069283
CRC32_CHECK = 0xCBF43926


class Checksum(Protocol):
    """A CRC over bytes, to be gone on with."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int:
        """Return the CRC of `data`, an int of 0 to 2^32 - 1; `value` is the CRC of the bytes before."""


def _library_crc32c() -> Checksum:
    """The C function of the package crc32c, without the package around it.

    Importing the package looks up its own version: that loads a hundred modules, most of the start of a short run.
    """
    package = PathFinder.find_spec("crc32c")
    found = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations) if package else None
    if found is None or found.loader is None:  # another layout than the one that is known
        from crc32c import crc32c as function

        return function
    module = module_from_spec(found)
    found.loader.exec_module(module)
    loaded: Checksum = module.crc32c
    return loaded


crc32c: Checksum = _library_crc32c()
"""CRC-32C (Castagnoli), of magic 2. Source: org.apache.kafka.common.utils.Crc32C.compute"""

crc32: Checksum = zlib_crc32
"""CRC-32 (IEEE), of magic 0 and 1. Source: org.apache.kafka.common.record.LegacyRecord.computeChecksum"""


def self_test() -> None:
    """Check both functions against the published check values.

    Raises:
        RuntimeError: a library computes something else, so that no verdict could be trusted.
    """
    for name, found, expected in (
        ("CRC-32C", crc32c(CHECK_INPUT), CRC32C_CHECK),
        ("CRC-32", crc32(CHECK_INPUT), CRC32_CHECK),
    ):
        if found != expected:
            raise RuntimeError(f"the {name} of this machine is wrong: {found:#010x}, not {expected:#010x}")
