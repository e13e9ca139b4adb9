"""The checksums of batches, CRC-32C for magic 2 and CRC-32 before it, and the xxHash32 of lz4 frames.

The CRCs are the C functions themselves, without a wrapper: a log of one-record batches calls them millions of times.
xxHash32 is needed for some bytes of a frame header, and for blocks of damaged frames only.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from struct import iter_unpack
from typing import Protocol
from zlib import crc32 as zlib_crc32

CHECK_INPUT = b"123456789"
CRC32C_CHECK = 0xE3069283
CRC32_CHECK = 0xCBF43926
_PRIME1 = 0x9E3779B1
_PRIME2 = 0x85EBCA77
_PRIME3 = 0xC2B2AE3D
_PRIME4 = 0x27D4EB2F
_PRIME5 = 0x165667B1
_MASK = 0xFFFFFFFF
_STRIPE = 16


class Checksum(Protocol):
    """A CRC over bytes that can be continued."""

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


def xxh32(data: bytes | memoryview) -> int:
    """Return the xxHash32 of `data` with seed 0, as lz4 frames use it.

    Args:
        data: any bytes.

    Returns:
        The hash, 0 to 2^32 - 1.

    Source: net.jpountz.xxhash.XXHash32.hash
    """
    data = memoryview(data)
    whole = len(data) - len(data) % _STRIPE
    if whole:
        lanes = [(_PRIME1 + _PRIME2) & _MASK, _PRIME2, 0, -_PRIME1 & _MASK]
        for lane in range(len(lanes)):
            value = lanes[lane]
            for words in iter_unpack("<4I", data[:whole]):
                value = value + words[lane] * _PRIME2 & _MASK
                value = ((value << 13 | value >> 19) & _MASK) * _PRIME1 & _MASK
            lanes[lane] = value
        hashed = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        hashed = _PRIME5
    hashed = hashed + len(data) & _MASK
    words_end = len(data) - len(data) % 4
    for position in range(whole, words_end, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        hashed = _rotate(hashed + word * _PRIME3 & _MASK, 17) * _PRIME4 & _MASK
    for byte in data[words_end:]:
        hashed = _rotate(hashed + byte * _PRIME5 & _MASK, 11) * _PRIME1 & _MASK
    hashed = (hashed ^ hashed >> 15) * _PRIME2 & _MASK
    hashed = (hashed ^ hashed >> 13) * _PRIME3 & _MASK
    return hashed ^ hashed >> 16


def _rotate(value: int, bits: int) -> int:
    """Return a 32-bit value rotated left."""
    return (value << bits | value >> 32 - bits) & _MASK
