"""snappy as Kafka writes it: the framing of snappy-java around raw blocks, or one raw block alone.

Blocks are those of python-snappy, which returns each as new bytes. Where nearly all are read, cramjam below it decodes
into the target instead: a dump with all records takes 8 % less CPU (tests/bench/dump.py, snappy).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.codec.base import CodecProblem, StreamDamage
from kdump.format.codec.block_prefix import snappy_prefix
from kdump.format.kernels import wire

if TYPE_CHECKING:
    from kdump.format.codec.base import Pieces

MAGIC = b"\x82SNAPPY\x00"
MAGIC_HEAD = MAGIC[:4]
HEADER_SIZE = 16
LENGTH_SIZE = 4
# A block of snappy cannot grow more than 21 times. Above this the preamble lies, and a library that believed
# it would abort the process.
MAX_RATIO = 64
RATIO_SLACK = 1024
MAX_PREAMBLE = 0xFFFFFFFF
NO_NUMBER, TOO_MUCH, OVER_LIMIT = -1, -2, -3
# A block is decoded as a whole; framed ones have 32 KB. One larger than this part of the limit is refused.
BLOCK_PART = 4
SMALL_BLOCK = 1 << 20  # bytes: up to this the limit alone counts
# Writers use blocks of 32 KB; a larger number is not the length of a block.
MAX_CHUNK = 1 << 24

big_word = Struct(">I").unpack_from


class SnappyReader:
    """Reads sound chunks straight into the target.

    Args:
        data: the whole section.
        limit: bytes that one block may claim at most.
    """

    __slots__ = ("_data", "_limit", "_position", "_rest", "problem")

    def __init__(self, data: memoryview, limit: int) -> None:
        self.problem: CodecProblem | None = None
        self._data = data
        self._limit = limit
        self._position = HEADER_SIZE
        self._rest = data[:0]
        if not is_framed(data):
            self._rest = decompress(data, limit)
            self._position = len(data)

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; see FastReader."""
        from cramjam import DecompressionError, snappy

        data, end, filled, room = self._data, len(self._data), 0, len(target)
        while filled < room:
            if self._rest:
                count = min(len(self._rest), room - filled)
                target[filled : filled + count] = self._rest[:count]
                self._rest = self._rest[count:]
                filled += count
                continue
            if self._position == end:
                break
            start = self._position + LENGTH_SIZE
            # what looks too long may be a second header: the careful reader looks
            if start > end:
                raise StreamDamage
            self._position = start + big_word(data, self._position)[0]
            if self._position > end:
                raise StreamDamage
            block = data[start : self._position]
            try:
                # a preamble that lies does no harm here: the library refuses what does not fit the target
                filled += snappy.decompress_raw_into(block, target[filled:])
            except DecompressionError:
                self._rest = decompress(block, self._limit)
        return filled


def is_framed(data: memoryview) -> bool:
    """Return whether the section begins with the header of snappy-java; else it is one raw block."""
    return len(data) >= HEADER_SIZE and data[: len(MAGIC)] == MAGIC


def preamble(block: memoryview) -> int:
    """Return the number that begins a raw block, NO_NUMBER when it is none of 32 bits."""
    after = wire.varint_end(block, 0, len(block), wire.WIDEST_INT)
    size = NO_NUMBER if after < 0 else wire.uvarint(block, 0, after)
    return size if size <= MAX_PREAMBLE else NO_NUMBER


def claimed_size(block: memoryview, limit: int) -> int:
    """Return the uncompressed size that a block claims, if it can be believed.

    Args:
        block: one raw block.
        limit: bytes of the section; a claim above a part of it is refused.

    Returns:
        The size in bytes; NO_NUMBER when there is none, TOO_MUCH when such a block cannot hold it, OVER_LIMIT
        when it is over the part of `limit` that one block may have.
    """
    size = preamble(block)
    if size > MAX_RATIO * len(block) + RATIO_SLACK:
        return TOO_MUCH
    return size if size <= _most(limit) else OVER_LIMIT


def _most(limit: int) -> int:
    """Bytes that one block may have."""
    return min(limit, max(limit // BLOCK_PART, SMALL_BLOCK))


def decompress(block: memoryview, limit: int) -> memoryview:
    """Return the bytes of one raw block.

    Raises:
        StreamDamage: it is not sound, or it claims too much.
    """
    from snappy import UncompressError, uncompress

    size = claimed_size(block, limit)
    if size < 0:
        raise StreamDamage
    try:
        data = uncompress(block)
    except UncompressError:
        raise StreamDamage from None
    if len(data) != size:
        raise StreamDamage
    return memoryview(data)


def read_carefully(data: memoryview, limit: int) -> Pieces:
    """Decode a damaged section up to the first byte that cannot be decoded.

    Args:
        data: the whole section.
        limit: bytes that one block may claim at most.

    Yields:
        Decoded bytes, from the first one on.

    Returns:
        What is wrong.
    """
    if not is_framed(data):
        return (yield from read_block(data, len(data), limit))
    position, odd = HEADER_SIZE, None
    while position < len(data):
        left = len(data) - position
        if data[position : position + LENGTH_SIZE] == MAGIC_HEAD and left >= HEADER_SIZE:
            version = int.from_bytes(data[position + len(MAGIC) : position + len(MAGIC) + 4], "big", signed=True)
            if version < 1 or not is_framed(data[position:]):
                odd = CodecProblem(Code.C01, "a header between the blocks is corrupt", fatal=False)
            position += HEADER_SIZE
            continue
        start = position + LENGTH_SIZE
        length = int.from_bytes(data[position:start], "big")
        if left < LENGTH_SIZE or length > MAX_CHUNK:
            why = f"{left} bytes follow the last block of the snappy data"
            return CodecProblem(Code.C02, why, fatal=position == HEADER_SIZE)
        problem = yield from read_block(data[start : start + length], length, limit)
        if problem:
            return problem
        position = start + length
    return odd


def read_block(block: memoryview, length: int, limit: int) -> Pieces:
    """Decode one raw block, the damaged one as far as it goes.

    Args:
        block: what there is of it.
        length: the bytes that it should have.
        limit: bytes that it may claim at most.

    Yields:
        Its bytes.

    Returns:
        What is wrong with it.
    """
    size = claimed_size(block, limit)
    if size == OVER_LIMIT:
        return CodecProblem(Code.C03, f"one block claims more than {_most(limit)} bytes", fatal=True)
    try:
        yield decompress(block, limit)
    except StreamDamage:
        pass
    else:
        if len(block) == length:
            return None
        why = f"the last block has {len(block)} bytes, not {length}"
        return CodecProblem(Code.C04, why, fatal=False)
    if size == TOO_MUCH:
        why = f"a block of {len(block)} bytes claims more than it can hold"
        return CodecProblem(Code.C04, why, fatal=True)
    if size >= 0:
        yield snappy_prefix(block, size)
    if len(block) < length or not block:
        return CodecProblem(Code.C02, "the snappy data ends early", fatal=True)
    return CodecProblem(Code.C01, "a block is corrupt", fatal=True)
