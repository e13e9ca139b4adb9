"""The intact beginning of a damaged snappy or lz4 block, decoded up to the first impossible step.

The libraries return all of a block or nothing. These return what comes before the damage; they run only on
blocks that a library refused.
"""

from __future__ import annotations

LZ4_MIN_MATCH = 4
LZ4_LONG = 15
SNAPPY_LONG_LITERAL = 60


def snappy_prefix(block: memoryview, size: int) -> bytes:
    """Return what can be decoded of a damaged raw snappy block.

    Args:
        block: the block with its preamble.
        size: bytes that the preamble claims; no more are returned.

    Returns:
        The bytes before the first tag that is impossible, does not end or reaches past `size`.

    Source: google/snappy, format_description.txt
    """
    position = next(index for index, byte in enumerate(block) if byte < 0x80) + 1
    end = len(block)
    out = bytearray()
    while position < end and len(out) < size:
        tag = block[position]
        kind = tag & 3
        if kind == 0:
            position += 1
            length = tag >> 2
            if length >= SNAPPY_LONG_LITERAL:
                extra = length - SNAPPY_LONG_LITERAL + 1
                length = int.from_bytes(block[position : position + extra], "little")
                position += extra
            out += block[position : position + length + 1]
            position += length + 1
            continue
        width = (1, 2, 4)[kind - 1]
        distance = int.from_bytes(block[position + 1 : position + 1 + width], "little")
        length = (tag >> 2) + 1
        if kind == 1:
            length = ((tag >> 2) & 7) + 4
            distance |= (tag >> 5) << 8
        position += 1 + width
        if position > end or not copy_back(out, distance, length):
            break
    return bytes(out[:size])


def lz4_prefix(block: memoryview, size: int, before: bytes = b"") -> bytes:
    """Return what can be decoded of a damaged lz4 block.

    Args:
        block: the block.
        size: bytes that it can hold at most.
        before: the bytes before it, where blocks may refer back.

    Returns:
        The bytes before the first sequence that is impossible, does not end or reaches past `size`.

    Source: lz4/lz4, lz4_Block_format.md
    """
    position, end = 0, len(block)
    out = bytearray(before)
    size += len(before)
    while position < end and len(out) < size:
        token = block[position]
        literals, position = lz4_length(block, position + 1, token >> 4)
        out += block[position : position + literals]
        position += literals
        if position + 2 > end:
            break
        distance = int.from_bytes(block[position : position + 2], "little")
        length, position = lz4_length(block, position + 2, token & LZ4_LONG)
        if position > end or not copy_back(out, distance, min(length + LZ4_MIN_MATCH, size - len(out))):
            break
    return bytes(out[len(before) : size])


def lz4_length(block: memoryview, position: int, length: int) -> tuple[int, int]:
    """Return a length of a sequence with the bytes that extend it, and the position after them."""
    if length < LZ4_LONG:
        return length, position
    while position < len(block):
        byte = block[position]
        position += 1
        length += byte
        if byte < 0xFF:
            return length, position
    return 0, len(block) + 1


def copy_back(out: bytearray, distance: int, length: int) -> bool:
    """Append `length` bytes that begin `distance` bytes before the end; False when they cannot."""
    start = len(out) - distance
    if start < 0 or distance == 0:
        return False
    if distance >= length:
        out += out[start : start + length]
    else:
        pattern = bytes(out[start:])
        out += (pattern * (length // distance + 1))[:length]
    return True
