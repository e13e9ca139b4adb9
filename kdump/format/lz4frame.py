"""lz4: the frame format, read with the lz4 package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.finding import Code
from kdump.format.codec import CodecProblem, Damage
from kdump.format.salvage import lz4_prefix
from kdump.format.xxh32 import xxh32

if TYPE_CHECKING:
    from collections.abc import Generator

    from kdump.format.codec import Pieces

MAGIC = b"\x04\x22\x4d\x18"
SHORTEST_HEADER = 7
VERSION = 1
DICTIONARY, RESERVED, CONTENT_CHECKSUM, CONTENT_SIZE, BLOCK_CHECKSUM, INDEPENDENT = 1, 2, 4, 8, 16, 32
WORD = 4
STORED = 1 << 31
HISTORY = 65536


class FrameHeader(NamedTuple):
    """The header of a frame.

    Args:
        size: bytes of the header.
        flags: the FLG byte.
        max_block: bytes that a block decodes to at most.
        content_size: bytes that the frame declares, None when it does not.
    """

    size: int
    flags: int
    max_block: int
    content_size: int | None


def parse_header(data: memoryview) -> FrameHeader | None:
    """Return the header of the frame at the start of `data`, None when there is none.

    Source: lz4/lz4, lz4_Frame_format.md
    """
    if len(data) < SHORTEST_HEADER or data[: len(MAGIC)] != MAGIC:
        return None
    flags, block_code = data[4], data[5] >> 4
    size = SHORTEST_HEADER + 8 * bool(flags & CONTENT_SIZE) + 4 * bool(flags & DICTIONARY)
    if flags >> 6 != VERSION or flags & RESERVED or not 4 <= block_code <= 7 or data[5] & 0xF or len(data) < size:
        return None
    declared = int.from_bytes(data[6:14], "little") if flags & CONTENT_SIZE else None
    return FrameHeader(size, flags, block_size(block_code), declared)


def block_size(code: int) -> int:
    """Return the bytes that a block of a frame with this block size code decodes to at most."""
    return 1 << 2 * code + 8


def header_checksum(data: memoryview, size: int) -> int:
    """Return the checksum that a header of `size` bytes should have; its last byte holds it."""
    return xxh32(data[len(MAGIC) : size - 1]) >> 8 & 0xFF


class Lz4Reader:
    """Reads one sound frame, every checksum verified by the library.

    Args:
        data: the whole section.
        magic: of the batch; Kafka wrote a wrong header checksum in magic 0.
    """

    def __init__(self, data: memoryview, magic: int) -> None:
        import lz4.frame

        header = parse_header(data)
        if header is None or header.flags & (DICTIONARY | INDEPENDENT) != INDEPENDENT:
            raise Damage
        end, self._bound, self.problem = measure(data, header)
        if end < len(data) and not self.problem:
            self.problem = bytes_after(len(data) - end)
        self._data = data[:end]
        self._position = 0
        self._decode: Any = lz4.frame.decompress_chunk
        self._context: Any = lz4.frame.create_decompression_context()
        if magic == 0:
            right = bytes([header_checksum(data, header.size)])
            self._decode(self._context, bytes(data[: header.size - 1]) + right, max_length=0)
            self._position = header.size

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; see FastReader."""
        filled, room, end = 0, len(target), len(self._data)
        while filled < room and self._position < end:
            length = min(room - filled, self._bound)
            try:
                piece, count, _ = self._decode(self._context, self._data[self._position :], max_length=length)
            except RuntimeError:
                raise Damage from None
            if not piece and not count:
                raise Damage
            self._position += count
            self._bound -= len(piece)
            target[filled : filled + len(piece)] = piece
            filled += len(piece)
        return filled


def measure(data: memoryview, header: FrameHeader) -> tuple[int, int, CodecProblem | None]:
    """Find the end of a frame by the lengths of its blocks.

    The library allocates what it is allowed to return: without a bound each small batch would get a large buffer.

    Args:
        data: the whole section.
        header: of the frame.

    Returns:
        The position after the frame, a bound of the bytes that it decodes to, and what is odd about its blocks.

    Raises:
        Damage: the frame ends early.
    """
    position, bound, problem = header.size, 0, None
    after = WORD * bool(header.flags & BLOCK_CHECKSUM)
    while position + WORD <= len(data):
        word = int.from_bytes(data[position : position + WORD], "little")
        position += WORD
        if not word & ~STORED:
            position += WORD * bool(header.flags & CONTENT_CHECKSUM)
            if position > len(data):
                break
            return position, bound, problem
        if word == 1:
            problem = empty_block()
        position += (word & ~STORED) + after
        bound += header.max_block
    raise Damage


def empty_block() -> CodecProblem:
    """Return the problem of a block without bytes: one byte that says so is all it can be."""
    why = "a block is empty, which Kafka takes for the end of the data"
    return CodecProblem(Code.C01, why, fatal=False)


def bytes_after(count: int) -> CodecProblem:
    """Return the problem of a section with `count` bytes after the frame; Kafka does not look at them."""
    return CodecProblem(Code.C02, f"{count} bytes follow the end of the lz4 frame", fatal=False)


def read_carefully(data: memoryview, magic: int) -> Pieces:
    """Decode a damaged frame up to the first byte that cannot be decoded.

    Args:
        data: the whole section.
        magic: of the batch.

    Yields:
        Decoded bytes, from the first one on.

    Returns:
        What is wrong.
    """
    header = parse_header(data)
    if header is None and len(data) < SHORTEST_HEADER and MAGIC.startswith(bytes(data[: len(MAGIC)])):
        return CodecProblem(Code.C02, "the lz4 frame ends early" if data else "there is no lz4 data at all", fatal=True)
    if header is None:
        return CodecProblem(Code.C01, "there is no header of an lz4 frame", fatal=True)
    problem, position, total = yield from read_blocks(data, header)
    return problem or judge_header(data, header, magic) or judge_end(data, header, position, total)


def read_blocks(data: memoryview, header: FrameHeader) -> Generator[bytes, None, tuple[CodecProblem | None, int, int]]:
    """Decode block after block.

    Args:
        data: the whole section.
        header: of the frame.

    Yields:
        Decoded bytes.

    Returns:
        What ended the blocks early, the position after the end mark, and how many bytes were decoded.
    """
    position, total, history = header.size, 0, b""
    while position + WORD <= len(data):
        word = int.from_bytes(data[position : position + WORD], "little")
        length = word & ~STORED
        position += WORD
        if not length:
            return None, position, total
        if length > header.max_block:
            why = f"a block of {length} bytes in a frame of blocks up to {header.max_block}"
            return CodecProblem(Code.C01, why, fatal=True), position, total
        piece, problem = read_block(data[position:], word, header, history)
        yield piece
        total += len(piece)
        if problem:
            return problem, position, total
        if not header.flags & INDEPENDENT:
            history = (history + piece)[-HISTORY:]
        position += length + WORD * bool(header.flags & BLOCK_CHECKSUM)
    return CodecProblem(Code.C02, "the lz4 frame ends early", fatal=True), position, total


def read_block(
    data: memoryview, word: int, header: FrameHeader, history: bytes
) -> tuple[bytes, CodecProblem | None]:
    """Decode one block, the damaged one as far as it goes.

    Args:
        data: the section from the block on.
        word: its length with the bit of stored blocks.
        header: of the frame.
        history: the bytes before it, where blocks refer back.

    Returns:
        Its bytes, and what is wrong with it.
    """
    import lz4.block

    length = word & ~STORED
    block = data[:length]
    after = WORD * bool(header.flags & BLOCK_CHECKSUM)
    if len(data) < length + after:
        piece = bytes(block) if word & STORED else lz4_prefix(block, header.max_block, history)
        return piece, CodecProblem(Code.C02, "the lz4 frame ends early", fatal=True)
    if after and xxh32(block) != int.from_bytes(data[length : length + after], "little"):
        return b"", CodecProblem(Code.C01, "the checksum of a block is wrong", fatal=True)
    if word & STORED:
        return bytes(block), None
    try:
        return lz4.block.decompress(block, uncompressed_size=header.max_block, dict=history), None
    except lz4.block.LZ4BlockError:
        piece = lz4_prefix(block, header.max_block, history)
        return piece, CodecProblem(Code.C01, "a block is corrupt", fatal=True)


def judge_header(data: memoryview, header: FrameHeader, magic: int) -> CodecProblem | None:
    """Return what Kafka refuses in a header whose frame can be read nevertheless."""
    if header.flags & DICTIONARY:
        return CodecProblem(Code.C01, "the frame names a dictionary, which Kafka refuses", fatal=False)
    if not header.flags & INDEPENDENT:
        return CodecProblem(Code.C01, "the blocks depend on each other, which Kafka refuses", fatal=False)
    if magic > 0 and data[header.size - 1] != header_checksum(data, header.size):
        return CodecProblem(Code.C01, "the checksum of the frame header is wrong", fatal=False)
    return None


def judge_end(data: memoryview, header: FrameHeader, position: int, total: int) -> CodecProblem | None:
    """Return what is wrong after the last block of a frame that the library refused.

    Args:
        data: the whole section.
        header: of the frame.
        position: after the end mark.
        total: bytes that were decoded.

    Returns:
        The problem; never a fatal one, for all bytes were delivered.
    """
    if header.flags & CONTENT_CHECKSUM and position + WORD > len(data):
        return CodecProblem(Code.C02, "the content checksum of the lz4 frame is missing", fatal=False)
    if header.content_size not in (None, total):
        why = f"{header.content_size} bytes, where there are {total}"
        return CodecProblem(Code.C04, why, fatal=False)
    if header.flags & CONTENT_CHECKSUM:
        # everything else was in order, so this is what the library refused
        return CodecProblem(Code.C06, "the content checksum is wrong", fatal=False)
    return bytes_after(len(data) - position) if position < len(data) else None
