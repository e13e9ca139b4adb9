"""lz4: the frame format, sound frames read block by block into the target, and damaged ones as far as they go.

The packages lz4.block and lz4.frame return new bytes. Where nearly all blocks are read, cramjam decodes into the target
instead: a dump with all records takes 7 % less CPU (tests/bench/dump.py, lz4).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

from kdump.finding import Code
from kdump.format.checksum import xxh32
from kdump.format.codec.base import CodecProblem, StreamDamage
from kdump.format.codec.block_prefix import lz4_prefix
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Generator

    from kdump.format.codec.base import FastReader, Pieces

MAGIC = b"\x04\x22\x4d\x18"
SHORTEST_HEADER = 7
VERSION = 1
DICTIONARY, RESERVED, CONTENT_CHECKSUM, CONTENT_SIZE, BLOCK_CHECKSUM, INDEPENDENT = 1, 2, 4, 8, 16, 32
WORD = 4
STORED = 1 << 31
HISTORY = 65536

little_word = Struct("<I").unpack_from
_PIECE = 1024 * 1024  # bytes that the library of frames decodes at once


class FrameHeader(Value):
    """The header of a frame."""

    size: int  # bytes of the header
    flags: int  # the FLG byte
    max_block: int  # bytes that a block decodes to at most
    content_size: int | None  # bytes that the frame declares, None when it does not


def parse_header(data: memoryview) -> FrameHeader | None:
    """Return the header of the frame at the start of `data`, None when there is none.

    Source: lz4/lz4, lz4_Frame_format.md
    """
    if len(data) < SHORTEST_HEADER or data[: len(MAGIC)] != MAGIC:
        return None
    flags, block_code = data[4], data[5] >> 4
    size = SHORTEST_HEADER + 8 * bool(flags & CONTENT_SIZE) + 4 * bool(flags & DICTIONARY)
    if flags >> 6 != VERSION or flags & RESERVED or len(data) < size:
        return None
    if not 4 <= block_code <= 7 or data[5] & 0xF:
        return None
    # 0 is what writers put that do not know the size
    declared = int.from_bytes(data[6:14], "little") if flags & CONTENT_SIZE else 0
    return FrameHeader(size, flags, block_size(block_code), declared or None)


def block_size(code: int) -> int:
    """Return the bytes that a block of a frame with this block size code decodes to at most."""
    return 1 << 2 * code + 8


def header_checksum(data: memoryview, size: int) -> int:
    """Return the checksum that a header of `size` bytes should have; its last byte holds it."""
    return descriptor_checksum(bytes(data[len(MAGIC) : size - 1]))


@lru_cache(maxsize=64)
def descriptor_checksum(descriptor: bytes) -> int:
    """Return the second byte of the hash of a frame descriptor; a log holds few different ones."""
    return xxh32(descriptor) >> 8 & 0xFF


def judge_block(word: int) -> CodecProblem | None:
    """Return what is odd about a block by its length: a compressed one of one byte can only be empty."""
    if word != 1:
        return None
    why = "a block is empty, which Kafka takes for the end of the data"
    return CodecProblem(Code.C01, why, fatal=False)


def ends_early(data: memoryview) -> CodecProblem:
    """Return the problem of a section that lacks its end."""
    why = "the lz4 frame ends early" if data else "there is no lz4 data at all"
    return CodecProblem(Code.C02, why, fatal=True)


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
        return ends_early(data)
    if header is None:
        return CodecProblem(Code.C01, "there is no header of an lz4 frame", fatal=True)
    problem, position, total = yield from read_blocks(data, header)
    if problem and problem.fatal:
        return problem
    return judge_header(data, header, magic) or problem or judge_end(data, header, position, total)


def read_blocks(data: memoryview, header: FrameHeader) -> Generator[bytes, None, tuple[CodecProblem | None, int, int]]:
    """Decode block after block.

    Args:
        data: the whole section.
        header: of the frame.

    Yields:
        Decoded bytes.

    Returns:
        What ended the blocks early or is odd about them, the position after the end mark, and how many bytes
        were decoded.
    """
    position, total, history, odd = header.size, 0, b"", None
    while position + WORD <= len(data):
        word = int.from_bytes(data[position : position + WORD], "little")
        length = word & ~STORED
        position += WORD
        if not length:
            return odd, position, total
        if length > header.max_block:
            why = f"a block of {length} bytes in a frame of blocks up to {header.max_block}"
            return CodecProblem(Code.C01, why, fatal=True), position, total
        piece, problem = read_block(data[position:], word, header, history)
        yield piece
        total += len(piece)
        if problem and problem.fatal:
            return problem, position, total
        odd = odd or problem
        if not header.flags & INDEPENDENT:
            history = (history + piece)[-HISTORY:]
        position += length + WORD * bool(header.flags & BLOCK_CHECKSUM)
    return ends_early(data), position, total


def read_block(data: memoryview, word: int, header: FrameHeader, history: bytes) -> tuple[bytes, CodecProblem | None]:
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
    block, odd = data[:length], None
    after = WORD * bool(header.flags & BLOCK_CHECKSUM)
    if len(data) < length + after:
        piece = bytes(block) if word & STORED else lz4_prefix(block, header.max_block, history)
        return piece, ends_early(data)
    if after and xxh32(block) != int.from_bytes(data[length : length + after], "little"):
        odd = CodecProblem(Code.C01, "the checksum of a block is wrong", fatal=False)
    if word & STORED:
        return bytes(block), odd
    try:
        piece = lz4.block.decompress(block, uncompressed_size=header.max_block, dict=history)
    except lz4.block.LZ4BlockError:
        piece = lz4_prefix(block, header.max_block, history)
        return piece, CodecProblem(Code.C01, "a block is corrupt", fatal=True)
    return piece, odd or judge_block(word)


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


def open_frame(data: memoryview, magic: int) -> FastReader:
    """Return the reader of a frame that looks sound.

    Args:
        data: the whole section.
        magic: of the batch; Kafka wrote a wrong header checksum in magic 0.

    Raises:
        StreamDamage: it cannot be sound.
    """
    header = parse_header(data)
    if header is None or header.flags & (DICTIONARY | INDEPENDENT) != INDEPENDENT:
        raise StreamDamage
    if magic > 0 and data[header.size - 1] != header_checksum(data, header.size):
        raise StreamDamage
    if header.flags & (BLOCK_CHECKSUM | CONTENT_CHECKSUM):
        return ChecksumReader(data, header)
    return BlockReader(data, header)


class BlockReader:
    """Reads a frame as Kafka's own writer makes it: independent blocks without checksums.

    Args:
        data: the whole section.
        header: of the frame.
    """

    __slots__ = ("_data", "_ended", "_header", "_position", "_rest", "_total", "problem")

    def __init__(self, data: memoryview, header: FrameHeader) -> None:
        self.problem: CodecProblem | None = None
        self._data = data
        self._header = header
        self._position = header.size
        self._rest = data[:0]
        self._total = 0
        self._ended = False

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; see FastReader."""
        from cramjam import DecompressionError, lz4

        data, most, size = self._data, self._header.max_block, len(self._data)
        filled, room = 0, len(target)
        while filled < room and not self._ended:
            if self._rest:
                filled += self._take_rest(target[filled:])
                continue
            start = self._position + WORD
            if start > size:
                raise StreamDamage
            word = little_word(data, self._position)[0]
            length = word & ~STORED
            self._position = start + length
            if self._position > size or length > most:
                raise StreamDamage
            block = data[start : self._position]
            if not length:
                self._end(self._total + filled)
            elif word & STORED:
                self._rest = block
            else:
                if word == 1:
                    self.problem = judge_block(word)
                space = min(most, room - filled)
                part = target[filled : filled + space]
                try:
                    filled += lz4.decompress_block_into(block, part, output_len=space)
                except DecompressionError:
                    self._rest = self._aside(block)
        self._total += filled
        return filled

    def _take_rest(self, target: memoryview) -> int:
        count = min(len(self._rest), len(target))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _aside(self, block: memoryview) -> memoryview:
        """Decode a block that is larger than the rest of the target."""
        from cramjam import DecompressionError, lz4

        whole = memoryview(bytearray(self._header.max_block))
        try:
            return whole[: lz4.decompress_block_into(block, whole, output_len=len(whole))]
        except DecompressionError:
            raise StreamDamage from None

    def _end(self, total: int) -> None:
        self._ended = True
        if self._header.content_size not in (None, total):
            raise StreamDamage
        left = len(self._data) - self._position
        if left and not self.problem:
            self.problem = bytes_after(left)


class ChecksumReader:
    """Reads a frame with checksums, every one of them verified by the library.

    Args:
        data: the whole section.
        header: of the frame.
    """

    def __init__(self, data: memoryview, header: FrameHeader) -> None:
        import lz4.frame

        end, self._bound, self.problem = measure(data, header)
        if end < len(data) and not self.problem:
            self.problem = bytes_after(len(data) - end)
        self._data = data[:end]
        self._position = header.size
        self._decode: Any = lz4.frame.decompress_chunk
        self._context: Any = lz4.frame.create_decompression_context()
        # the library would refuse the wrong header checksum of magic 0
        right = bytes([header_checksum(data, header.size)])
        self._decode(self._context, bytes(data[: header.size - 1]) + right, max_length=0)

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; see FastReader."""
        filled, room, end = 0, len(target), len(self._data)
        while filled < room and self._position < end:
            # the library allocates what it is allowed to return
            length = min(room - filled, self._bound, _PIECE)
            try:
                piece, count, _ = self._decode(self._context, self._data[self._position :], max_length=length)
            except RuntimeError:
                raise StreamDamage from None
            if not piece and not count:
                raise StreamDamage
            self._position += count
            self._bound -= len(piece)
            target[filled : filled + len(piece)] = piece
            filled += len(piece)
        return filled


def measure(data: memoryview, header: FrameHeader) -> tuple[int, int, CodecProblem | None]:
    """Find the end of a frame by the lengths of its blocks.

    Args:
        data: the whole section.
        header: of the frame.

    Returns:
        The position after the frame, a bound of the bytes that it decodes to, and what is odd about its
        blocks.

    Raises:
        StreamDamage: the frame ends early.
    """
    position, bound, problem = header.size, 0, None
    after = WORD * bool(header.flags & BLOCK_CHECKSUM)
    while position + WORD <= len(data):
        word = little_word(data, position)[0]
        length = word & ~STORED
        position += WORD
        if not length:
            position += WORD * bool(header.flags & CONTENT_CHECKSUM)
            if position > len(data):
                break
            return position, bound, problem
        problem = problem or judge_block(word)
        position += length + after
        bound += header.max_block
    raise StreamDamage
