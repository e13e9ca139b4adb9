"""xxHash32, for the header of lz4 frames and for the few frames whose blocks carry a checksum."""

from __future__ import annotations

from struct import iter_unpack

PRIME1 = 0x9E3779B1
PRIME2 = 0x85EBCA77
PRIME3 = 0xC2B2AE3D
PRIME4 = 0x27D4EB2F
PRIME5 = 0x165667B1
MASK = 0xFFFFFFFF
STRIPE = 16


def xxh32(data: bytes | memoryview) -> int:
    """Return the xxHash32 of `data` with seed 0, as lz4 frames use it.

    Args:
        data: any bytes.

    Returns:
        The hash, 0 to 2^32 - 1.

    Source: net.jpountz.xxhash.XXHash32.hash
    """
    data = memoryview(data)
    whole = len(data) - len(data) % STRIPE
    if whole:
        lanes = [(PRIME1 + PRIME2) & MASK, PRIME2, 0, -PRIME1 & MASK]
        for lane in range(len(lanes)):
            value = lanes[lane]
            for words in iter_unpack("<4I", data[:whole]):
                value = value + words[lane] * PRIME2 & MASK
                value = ((value << 13 | value >> 19) & MASK) * PRIME1 & MASK
            lanes[lane] = value
        hashed = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        hashed = PRIME5
    hashed = hashed + len(data) & MASK
    words_end = len(data) - len(data) % 4
    for position in range(whole, words_end, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        hashed = rotate(hashed + word * PRIME3 & MASK, 17) * PRIME4 & MASK
    for byte in data[words_end:]:
        hashed = rotate(hashed + byte * PRIME5 & MASK, 11) * PRIME1 & MASK
    hashed = (hashed ^ hashed >> 15) * PRIME2 & MASK
    hashed = (hashed ^ hashed >> 13) * PRIME3 & MASK
    return hashed ^ hashed >> 16


def rotate(value: int, bits: int) -> int:
    """Return a 32-bit value rotated left."""
    return (value << bits | value >> 32 - bits) & MASK
