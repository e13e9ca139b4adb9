"""lz4: sound frames, block by block into the target where no checksum needs the library of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.format.codec.base import CodecProblem, StreamDamage
from kdump.format.codec.lz4_frame import (
    BLOCK_CHECKSUM,
    CONTENT_CHECKSUM,
    DICTIONARY,
    INDEPENDENT,
    STORED,
    WORD,
    FrameHeader,
    bytes_after,
    header_checksum,
    judge_block,
    little_word,
    parse_header,
)

if TYPE_CHECKING:
    from kdump.format.codec.base import FastReader

_PIECE = 1024 * 1024  # bytes that the library of frames decodes at once


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
